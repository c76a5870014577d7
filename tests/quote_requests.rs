//! The two-phase flow with real processes: quotes first, and a signature for one of them.

use std::{collections::BTreeMap, time::Duration};

use alloy::primitives::U256;
use anyhow::{Context, Result};
use async_nats::Subscriber;
use futures::StreamExt;
use serde_json::{Value, json};

use devnet::{
    keys::Role,
    payer::{Answer, Payer, PaymentSpec},
    users::NatsUser,
};
use events::{PaymentEvent, PaymentId, event::Authorization, quote::SignedQuote};

use crate::support::*;

/// Polls the batch until it has this status.
async fn until_status(world: &World, id: &str, status: &str) -> Result<Answer> {
    let polled = async {
        loop {
            let answer = world.payer.batch(&world.base(0), id).await?;
            if answer.text("status") == status {
                return anyhow::Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, polled).await.with_context(|| format!("{id} does not become {status}"))?
}

/// Opens batches until one is answered by all three settlers: the gateway may hear of a settler a moment later than of the
/// others, and does not wait for one that it has not heard of.
async fn open_for_all(world: &World, spec: impl Fn(&str) -> Result<PaymentSpec>) -> Result<(Value, Answer)> {
    let opened = async {
        for n in 1.. {
            let body = world.payer.quote_request(&spec(&format!("cart-{n}"))?);
            let answer = world.payer.open(&world.base(0), &body, true).await?;
            if answer.body["requested_count"] == 3 {
                return Ok((body, answer));
            }
        }
        unreachable!("there is no last number")
    };
    tokio::time::timeout(PATIENCE, opened).await.context("a settler is never asked")?
}

#[tokio::test(flavor = "multi_thread")]
async fn quotes_are_collected_one_is_awarded_and_the_payment_completes() -> Result<()> {
    let world = World::start(1).await?;
    let (base, payer) = (world.base(0), &world.payer);
    let before = world.balances().await?;
    let (body, ready) = open_for_all(&world, |request_id| world.spec(request_id)).await?;
    assert_eq!((ready.status, ready.text("status")), (200, "ready"), "{ready:?}");
    assert_eq!(ready.body["idempotent_replay"], false);
    for member in ["source", "destination", "fulfillment_amount", "max_source_amount", "quote_deadline"] {
        assert_eq!(ready.body[member], body[member], "{member}");
    }
    // All three settlers answer, the cheapest first.
    let quotes = ready.body["quotes"].as_array().context("no quotes")?;
    let prices: Vec<String> = quotes
        .iter()
        .map(|quote| Ok(SignedQuote::parse(&quote["fulfillment_quote"].to_string())?.quote().source_amount.to_string()))
        .collect::<Result<_>>()?;
    assert_eq!(prices, [PRICE.to_string(), "25050000".to_owned(), "25125000".to_owned()]);
    assert_eq!((&ready.body["requested_count"], &ready.body["decline_summary"]), (&json!(3), &json!([])));
    // Nobody was charged for asking.
    assert_eq!(world.balances().await?, before);

    // The second best, to tell an award from an auction's choice.
    let id = ready.text("quote_request_id");
    let stranger = Payer::new(Role::Settler(1).signer())?;
    let foreign = stranger.sign_award(&base, &ready.body, 1, "order-1").await?;
    let answer = payer.award(&base, id, &foreign, Duration::ZERO).await?;
    assert_eq!((answer.status, answer.text("code")), (401, "INVALID_SENDER_AUTH"), "{answer:?}");
    let award = payer.sign_award(&base, &ready.body, 1, "order-1").await?;
    let answer = payer.award(&base, id, &award, Duration::ZERO).await?;
    assert_eq!((answer.status, answer.text("status")), (200, "pending"), "{answer:?}");
    assert_eq!(answer.body["idempotent_replay"], false);
    let payment_id: PaymentId = answer.text("payment_id").parse()?;
    assert_eq!(payment_id, payer.payment_id("order-1"));
    assert_eq!(until_status(&world, id, "awarded").await?.body["quotes"], ready.body["quotes"]);

    // The same award again is the same payment, in flight and at rest.
    let again = payer.award(&base, id, &award, Duration::ZERO).await?;
    assert_eq!((again.status, &again.body["idempotent_replay"]), (200, &json!(true)), "{again:?}");
    let outcome = world.outcome(&payment_id).await?;
    assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
    assert_eq!(outcome.body["quote_id"], quotes[1]["quote_id"]);
    assert_eq!(outcome.body["fulfillment_quote"], quotes[1]["fulfillment_quote"]);
    let again = payer.award(&base, id, &award, Duration::ZERO).await?;
    assert_eq!((again.text("status"), &again.body["idempotent_replay"]), ("completed", &json!(true)), "{again:?}");
    assert_eq!(again.body["fulfillment_confirmation"], outcome.body["fulfillment_confirmation"]);

    // What the payer signed names the quote, and exactly one deposit and one delivery were made at its price.
    let hash = SignedQuote::parse(&quotes[1]["fulfillment_quote"].to_string())?.hash();
    let Some(PaymentEvent::Submitted(submitted)) = world.events(&payment_id, "Submitted").await?.pop() else {
        anyhow::bail!("no submission of {payment_id}")
    };
    assert!(
        matches!(&submitted.authorization, Authorization::EvmPermit2Escrow(permit) if permit.quote_hash == hash),
        "{submitted:?}"
    );
    world.until(&payment_id, "EscrowReleased").await?;
    world.settled_once(&[payment_id]).await?;
    let after = world.balances().await?;
    assert_eq!(before["payer"] - after["payer"], U256::from(25_050_000));
    assert_eq!(after["recipient"] - before["recipient"], U256::from(AMOUNT));
    assert_eq!(after["escrow"], before["escrow"]);

    // The batch is spent, and a signature for one quote is none for another.
    let second = payer.sign_award(&base, &ready.body, 0, "order-2").await?;
    let answer = payer.award(&base, id, &second, Duration::ZERO).await?;
    assert_eq!((answer.status, answer.text("code")), (409, "QUOTE_REQUEST_ALREADY_AWARDED"), "{answer:?}");
    let mut swapped = award.clone();
    swapped["quote_id"] = quotes[0]["quote_id"].clone();
    let answer = payer.award(&base, id, &swapped, Duration::ZERO).await?;
    assert_eq!((answer.status, answer.text("code")), (409, "IDEMPOTENCY_TERMS_MISMATCH"), "{answer:?}");
    swapped["request_id"] = json!("order-3");
    let answer = payer.award(&base, id, &swapped, Duration::ZERO).await?;
    assert_eq!((answer.status, answer.text("code")), (401, "INVALID_SENDER_AUTH"), "{answer:?}");
    Ok(())
}

/// What settlers are asked, heard on NATS.
struct Broadcasts {
    asked: Subscriber,
    /// How often a settler was asked, by batch.
    counts: BTreeMap<String, usize>,
}

impl Broadcasts {
    async fn listen(world: &World) -> Result<Self> {
        let client = world.network.nats.connect(NatsUser::Gateway).await?;
        let asked = client.subscribe("auction.rfq.>").await?;
        client.flush().await?;
        Ok(Self { asked, counts: BTreeMap::new() })
    }

    /// How often settlers were asked for a batch before they are asked for another, which is opened now.
    async fn before(&mut self, world: &World, request_id: &str, batch: &str) -> Result<usize> {
        let body = world.payer.quote_request(&world.spec(request_id)?);
        let opened = world.payer.open(&world.base(0), &body, true).await?;
        let last = opened.text("quote_request_id");
        let heard = async {
            while !self.counts.contains_key(last) {
                let message = self.asked.next().await.context("the connection was closed")?;
                let (_, auction) = message.subject.rsplit_once('.').context("a subject")?;
                *self.counts.entry(auction.to_owned()).or_default() += 1;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PATIENCE, heard).await.with_context(|| format!("nobody is asked for {request_id}"))??;
        Ok(self.counts.get(batch).copied().unwrap_or_default())
    }
}

/// Spec 2.13: a replay is not a second broadcast.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_quote_request_asks_nobody_again() -> Result<()> {
    let world = World::start(1).await?;
    let mut broadcasts = Broadcasts::listen(&world).await?;
    let (body, ready) = open_for_all(&world, |request_id| world.spec(request_id)).await?;
    let id = ready.text("quote_request_id");
    let asked = broadcasts.before(&world, "control", id).await?;
    assert!(asked >= 3, "asked for the quotes of three settlers: {asked}");
    // With and without waiting for the quotes, and with later deadlines.
    let mut later = body.clone();
    later["quote_deadline"] = json!("2099-01-01T00:00:00Z");
    later["fulfillment_deadline"] = json!("2099-01-02T00:00:00Z");
    for (body, wait) in [(&body, true), (&body, false), (&later, true)] {
        let replay = world.payer.open(&world.base(0), body, wait).await?;
        let shown = (replay.status, replay.text("quote_request_id"), &replay.body["idempotent_replay"]);
        assert_eq!(shown, (200, id, &json!(true)), "{replay:?}");
        assert_eq!(replay.body["quotes"], ready.body["quotes"]);
    }
    assert_eq!(broadcasts.before(&world, "later-control", id).await?, asked, "a replay was broadcast");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_nobody_waits_for_collects_and_lapses() -> Result<()> {
    let world = World::start(1).await?;
    let (base, payer) = (world.base(0), &world.payer);
    let mut spec = world.spec("cart-1")?;
    spec.quote_window = Duration::from_secs(3);
    // The dev settlers' quotes lapse with the fulfillment deadline.
    spec.fulfillment_window = Duration::from_secs(10);
    let body = payer.quote_request(&spec);
    let opened = payer.open(&base, &body, false).await?;
    assert_eq!((opened.status, opened.text("status")), (200, "collecting"), "{opened:?}");
    let id = opened.text("quote_request_id");
    let ready = until_status(&world, id, "ready").await?;
    assert!(!ready.body["quotes"].as_array().context("no quotes")?.is_empty(), "{ready:?}");
    assert!(ready.body.get("idempotent_replay").is_none());

    // The same request again, with later deadlines, is the same batch with its own.
    let mut later = payer.quote_request(&world.spec("cart-1")?);
    let replay = payer.open(&base, &later, true).await?;
    assert_eq!((&replay.body["idempotent_replay"], &replay.body["quotes"]), (&json!(true), &ready.body["quotes"]));
    assert_eq!(replay.body["quote_deadline"], body["quote_deadline"]);
    assert_eq!(replay.body["fulfillment_deadline"], body["fulfillment_deadline"]);
    later["fulfillment_amount"] = json!("1");
    let mismatch = payer.open(&base, &later, false).await?;
    assert_eq!((mismatch.status, mismatch.text("code")), (409, "IDEMPOTENCY_TERMS_MISMATCH"), "{mismatch:?}");

    let award = payer.sign_award(&base, &ready.body, 0, "order-1").await?;
    let expired = until_status(&world, id, "expired").await?;
    assert_eq!(expired.body["quotes"], ready.body["quotes"]);
    let answer = payer.award(&base, id, &award, Duration::ZERO).await?;
    assert_eq!((answer.status, answer.text("code")), (409, "QUOTE_EXPIRED"), "{answer:?}");
    assert_eq!(payer.status(&base, payer.payment_id("order-1").as_str()).await?.status, 404);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_nobody_can_serve_is_ready_without_quotes_and_says_why() -> Result<()> {
    let world = World::start(1).await?;
    let cap = AMOUNT.to_string().parse()?;
    let (_, ready) = open_for_all(&world, |request_id| Ok(PaymentSpec { cap, ..world.spec(request_id)? })).await?;
    assert_eq!((ready.text("status"), &ready.body["quotes"]), ("ready", &json!([])), "{ready:?}");
    assert_eq!(ready.body["requested_count"], 3);
    let declines = &ready.body["decline_summary"];
    assert_eq!((&declines[0]["reason"], &declines[0]["count"]), (&json!("PRICE_ABOVE_CAP"), &json!(3)), "{ready:?}");
    let award = json!({
        "version": "1.0",
        "request_id": "order-1",
        "quote_id": "quo_none",
        "sender_auth": {
            "message_scheme": "EVM_PERMIT2_ESCROW",
            "signed_messages": [{"message": "0x11", "signature": "0x22"}],
        },
    });
    let id = ready.text("quote_request_id");
    let answer = world.payer.award(&world.base(0), id, &award, Duration::ZERO).await?;
    assert_eq!((answer.status, answer.text("code")), (404, "QUOTE_NOT_FOUND"), "{answer:?}");
    Ok(())
}

/// The payer is away for a while: two gateways, the one that opened the batch is gone, and the other has its quotes.
#[tokio::test(flavor = "multi_thread")]
async fn quotes_of_a_gateway_that_died_are_awarded_at_another() -> Result<()> {
    let mut world = World::start(2).await?;
    let payer = world.payer.clone();
    let body = payer.quote_request(&world.spec("cart-1")?);
    let opened = payer.open(&world.base(0), &body, false).await?;
    let id = opened.text("quote_request_id").to_owned();
    world.network.kill_gateway(0).await?;
    let survivor = world.base(1);
    let ready = payer.open(&survivor, &body, true).await?;
    assert_eq!((ready.text("status"), &ready.body["idempotent_replay"]), ("ready", &json!(true)), "{ready:?}");
    assert_eq!(ready.text("quote_request_id"), id);
    let award = payer.sign_award(&survivor, &ready.body, 0, "order-1").await?;
    let answer = payer.award(&survivor, &id, &award, Duration::ZERO).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    let outcome = payer.outcome(&survivor, answer.text("payment_id"), PATIENCE).await?;
    assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
    let payment_id = payer.payment_id("order-1");
    world.until(&payment_id, "EscrowReleased").await?;
    world.settled_once(&[payment_id]).await
}
