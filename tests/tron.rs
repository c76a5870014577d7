//! Payments from Tron and to Tron, from the payer's signatures to the last unit.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use devnet::{
    keys::Role,
    network::Options,
    payer::{Payer, PaymentSpec},
    solana::SolanaOptions,
};
use events::{
    PaymentEvent, PaymentId,
    event::{Authorization, PayerStep, RefundDue},
};

use crate::support::{solana::*, tron::*, *};

/// `count` payments of the ordinary amount went from Tron to the second EVM chain.
fn paid_from_tron(count: i128) -> Moves {
    let (amount, price) = (count * i128::from(AMOUNT), count * i128::from(PRICE));
    Moves::from([
        ("payer", -price),
        ("settlers", price),
        ("evm settlers' destination", -amount),
        ("evm recipient", amount),
    ])
}

impl World {
    /// Checks on Tron that the payer deposited once, that one reservation followed, and that it ended once, by `end`.
    async fn ended_once_on_tron(&self, payment_id: &PaymentId, end: &str) -> Result<()> {
        const RESERVED: &str = "Reserved(bytes32,bytes32,address,uint256,uint48)";
        for event in [DEPOSITED, RESERVED, end] {
            let count = self.tron_logs(event, payment_id).await?;
            ensure!(count == 1, "{payment_id} has {event} {count} times");
        }
        let other = if end == RELEASED { REFUNDED } else { RELEASED };
        ensure!(self.tron_logs(other, payment_id).await? == 0, "{payment_id} ended twice");
        Ok(())
    }

    /// Checks that the deposit that is shown is the payer's own transaction, in its block, and the reservation another.
    async fn shows_the_payers_own_deposit(&self, payment_id: &PaymentId) -> Result<()> {
        let status = self.payer.status(&self.base(0), payment_id.as_str()).await?.body;
        let submissions = self.events(payment_id, "Submitted").await?;
        let [PaymentEvent::Submitted(submitted)] = submissions.as_slice() else { bail!("{submissions:?}") };
        let own = submitted.authorization.payer_transaction(PayerStep::Deposit).context("the payer's own")?;
        let (deposit, reservation) = (&status["transactions"]["deposit"], &status["transactions"]["reservation"]);
        assert_eq!(deposit["transaction_hash"], own.transaction_hash);
        assert_eq!(status["fulfillment_confirmation"]["source_tx_hash"], own.transaction_hash);
        let blocks = [deposit, reservation].map(|shown| shown["block_number"].as_u64());
        ensure!(blocks[0].is_some() && blocks[0] <= blocks[1], "{status}");
        assert_ne!(deposit["transaction_hash"], reservation["transaction_hash"]);
        let sent = self.events(payment_id, "PayerTransactionSent").await?;
        let is_deposit = |event: &&PaymentEvent| match event {
            PaymentEvent::PayerTransactionSent(sent) => sent.transaction_hash == own.transaction_hash,
            _ => false,
        };
        assert_eq!(sent.iter().filter(is_deposit).count(), 1, "{sent:?}");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_corridor_pays_to_the_unit_and_is_proven_by_the_audit() -> Result<()> {
    let world = World::with_tron(|options| Options { solana: Some(SolanaOptions::default()), ..options }).await?;
    let (payer, solana_payer) = (tron_payer()?, solana_payer()?);
    let (solana, tron) = (world.solana()?, world.tron()?);
    let to_solana = PaymentSpec {
        destination: solana.token()?,
        recipient: Role::Recipient.solana_account(),
        ..world.spec_from_tron("tron-to-solana")?
    };
    let from_solana = PaymentSpec { source: solana.token()?, ..world.spec_to_tron("solana-to-tron")? };
    let (before, solana_before) = (world.tron_holdings().await?, world.holdings().await?);
    // The recipient on Tron is not an account yet.
    assert!(before["recipient"].is_zero() && before["recipient's sun"].is_zero());
    let payments = [
        world.submit_by(&payer, &world.spec_from_tron("tron-to-evm")?).await?,
        world.submit(&world.spec_to_tron("evm-to-tron")?).await?,
        world.submit(&world.spec_to_trx("evm-to-trx")?).await?,
        world.submit_by(&solana_payer, &from_solana).await?,
    ];
    for payment_id in &payments {
        world.completed(payment_id).await?;
    }
    // The payer's allowance is for one payment at a time: a second approval would take the place of the first.
    let last = world.submit_by(&payer, &to_solana).await?;
    world.completed(&last).await?;

    let (amount, price) = (i128::from(AMOUNT), i128::from(PRICE));
    let (trx_amount, trx_price) = (i128::from(TRX_AMOUNT), i128::from(TRX_PRICE));
    let expected = Moves::from([
        ("payer", -2 * price),
        ("settlers", 2 * price - 2 * amount),
        ("recipient", 2 * amount),
        ("recipient's sun", trx_amount),
        ("evm payer", -price - trx_price),
        ("evm settlers' source", price + trx_price),
        ("evm settlers' destination", -amount),
        ("evm recipient", amount),
    ]);
    assert_eq!(moves(&before, &world.tron_holdings().await?), expected);
    let on_solana = moves(&solana_before, &world.holdings().await?);
    let names = ["payer", "settlers", "recipient"];
    assert_eq!(names.map(|name| on_solana[name]), [-price, price - amount, amount]);
    for from_tron in [&payments[0], &last] {
        world.ended_once_on_tron(from_tron, RELEASED).await?;
        world.shows_the_payers_own_deposit(from_tron).await?;
    }
    for to_tron in [&payments[1], &payments[2], &payments[3]] {
        assert_eq!(world.tron_logs(FULFILLED, to_tron).await?, 1);
    }
    assert!(world.tron_allowance().await?.is_zero());
    assert!(tron.dev.token_balance(&tron.token, &tron.contracts.escrow).await?.is_zero());
    for payment_id in payments.iter().chain([&last]) {
        world.audited(payment_id).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_nobody_delivers_is_refunded_with_all_of_the_cap() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let before = world.tron_holdings().await?;
    let payment_id = world.submit_by(&tron_payer()?, &world.undeliverable_from_tron("never")?).await?;
    world.until(&payment_id, "EscrowSecured").await?;
    // All of the cap is in escrow: the payer's transaction was signed before there was a price.
    let secured = moves(&before, &world.tron_holdings().await?);
    assert_eq!(secured, Moves::from([("payer", -25_500_000), ("escrow", 25_500_000)]));
    assert!(matches!(world.failed(&payment_id).await?, RefundDue::ByNonDelivery { .. }));
    world.until(&payment_id, "EscrowRefunded").await?;
    assert_eq!(world.tron_holdings().await?, before);
    world.ended_once_on_tron(&payment_id, REFUNDED).await?;
    world.audited(&payment_id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_delivered_on_tron_is_attested_and_the_money_comes_back() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let before = world.tron_holdings().await?;
    let (destination, recipient) = (world.tron()?.token()?, Role::Recipient.tron_account());
    let spec = PaymentSpec { destination, recipient, ..world.undeliverable_spec("never-on-tron")? };
    let payment_id = world.submit(&spec).await?;
    // The verifier has read Tron: no delivery in a solidified state past the deadline.
    assert!(matches!(world.failed(&payment_id).await?, RefundDue::ByNonDelivery { .. }));
    world.until(&payment_id, "EscrowRefunded").await?;
    assert_eq!(world.tron_holdings().await?, before);
    assert_eq!(world.tron_logs(FULFILLED, &payment_id).await?, 0);
    world.audited(&payment_id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_verifier_the_money_comes_back_by_the_window() -> Result<()> {
    let mut world = World::with_tron(|options| Options { refund_delay_seconds: 10, ..options }).await?;
    world.network.kill_verifier(1).await?;
    let before = world.tron_holdings().await?;
    let payment_id = world.submit_by(&tron_payer()?, &world.undeliverable_from_tron("no-verifier")?).await?;
    assert_eq!(world.failed(&payment_id).await?, RefundDue::AfterWindow);
    world.until(&payment_id, "EscrowRefunded").await?;
    assert_eq!(world.tron_holdings().await?, before);
    world.audited(&payment_id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quote_of_a_batch_is_taken_from_tron() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let (payer, base) = (tron_payer()?, world.base(0));
    let before = world.tron_holdings().await?;
    let batch = payer.open(&base, &payer.quote_request(&world.spec_from_tron("batch")?), true).await?;
    assert_eq!(batch.text("status"), "ready", "{batch:?}");
    let body = payer.sign_award(&base, &batch.body, 0, "taken").await?;
    // A signature for one quote awards no other.
    let mut other = body.clone();
    other["quote_id"] = batch.body["quotes"][1]["quote_id"].clone();
    let answer = payer.award(&base, batch.text("quote_request_id"), &other, Duration::ZERO).await?;
    assert_eq!((answer.status, answer.text("code")), (401, "INVALID_SENDER_AUTH"), "{answer:?}");
    let answer = payer.award(&base, batch.text("quote_request_id"), &body, Duration::ZERO).await?;
    ensure!(answer.status == 200, "{answer:?}");
    let payment_id = answer.text("payment_id").parse()?;
    world.completed(&payment_id).await?;
    assert_eq!(moves(&before, &world.tron_holdings().await?), paid_from_tron(1));
    world.ended_once_on_tron(&payment_id, RELEASED).await?;
    world.audited(&payment_id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_submission_again_is_the_same_payment_and_nothing_is_charged() -> Result<()> {
    let world = World::with_tron(|options| Options { gateways: 2, ..options }).await?;
    let payer = tron_payer()?;
    let before = world.tron_holdings().await?;
    let body = payer.sign(&world.base(0), &world.spec_from_tron("again")?).await?;
    let (first, second) = (world.base(0), world.base(1));
    let answers =
        tokio::try_join!(payer.submit(&first, &body, Duration::ZERO), payer.submit(&second, &body, Duration::ZERO),)?;
    let replays = [&answers.0, &answers.1].map(|answer| answer.body["idempotent_replay"].as_bool());
    assert!(replays.contains(&Some(false)) && replays.contains(&Some(true)), "{answers:?}");
    let payment_id: PaymentId = answers.0.text("payment_id").parse()?;
    assert_eq!(answers.1.text("payment_id"), payment_id.as_str());
    world.completed(&payment_id).await?;
    // The txid may be written without 0x, and it is the same payment long after it was made.
    let mut bare = body.clone();
    for message in bare["sender_auth"]["signed_messages"].as_array_mut().context("messages")? {
        let text = message["message"].as_str().context("a txid")?;
        message["message"] = text.trim_start_matches("0x").to_owned().into();
    }
    let answer = payer.submit(&world.base(1), &bare, Duration::ZERO).await?;
    assert_eq!((answer.status, &answer.body["idempotent_replay"]), (200, &json!(true)), "{answer:?}");
    assert_eq!(moves(&before, &world.tron_holdings().await?), paid_from_tron(1));
    world.ended_once_on_tron(&payment_id, RELEASED).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_alone_is_enough_where_the_allowance_stands() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let (payer, tron, base) = (tron_payer()?, world.tron()?, world.base(0));
    let cap = alloy::primitives::U256::from(25_500_000_u64);
    tron.dev.approve(&Role::Payer.signer(), &tron.token, &tron.contracts.escrow, cap).await?;
    let before = world.tron_holdings().await?;
    let body = payer.sign(&base, &world.spec_from_tron("deposit-alone")?).await?;
    let messages = body["sender_auth"]["signed_messages"].as_array().context("messages")?.len();
    assert_eq!(messages, 1, "what stands is not approved again: {body}");
    let answer = payer.submit(&base, &body, Duration::ZERO).await?;
    ensure!(answer.status == 200, "{answer:?}");
    let payment_id = answer.text("payment_id").parse()?;
    match world.events(&payment_id, "Submitted").await?.remove(0) {
        PaymentEvent::Submitted(submitted) => match &submitted.authorization {
            Authorization::Tron(spend) => assert!(spend.approval.is_none(), "{spend:?}"),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
    world.completed(&payment_id).await?;
    assert_eq!(moves(&before, &world.tron_holdings().await?), paid_from_tron(1));
    assert!(world.tron_allowance().await?.is_zero());
    world.audited(&payment_id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_the_payers_own_deposit_of_this_payment_is_refused_and_nothing_moves() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let (payer, base) = (tron_payer()?, world.base(0));
    let before = world.tron_holdings().await?;
    let body = payer.sign(&base, &world.spec_from_tron("mine")?).await?;
    let messages = |body: &Value| body["sender_auth"]["signed_messages"].as_array().cloned().context("messages");
    let (own, other) = (messages(&body)?, payer.sign(&base, &world.spec_from_tron("other")?).await?);
    let stranger = Payer::on_tron(Role::Settler(1).signer())?;
    let theirs = messages(&stranger.sign(&base, &world.spec_from_tron("mine")?).await?)?;
    let with = |list: Vec<Value>| {
        let mut body = body.clone();
        body["sender_auth"]["signed_messages"] = list.into();
        body
    };
    for (name, forged) in [
        ("swapped", with(vec![own[1].clone(), own[0].clone()])),
        ("approval alone", with(vec![own[0].clone()])),
        ("another payment's deposit", with(vec![own[0].clone(), messages(&other)?[1].clone()])),
        ("another payer's", with(theirs)),
    ] {
        let answer = payer.submit(&base, &forged, Duration::ZERO).await?;
        assert_eq!((answer.status, answer.text("code")), (401, "INVALID_SENDER_AUTH"), "{name}: {answer:?}");
    }
    // What stands behind them is kept, and does not count.
    let with_a_third = with([own.clone(), vec![own[0].clone()]].concat());
    let answer = payer.submit(&base, &with_a_third, Duration::ZERO).await?;
    assert_eq!((answer.status, &answer.body["idempotent_replay"]), (200, &json!(false)), "{answer:?}");
    world.completed(&answer.text("payment_id").parse()?).await?;
    assert_eq!(moves(&before, &world.tron_holdings().await?), paid_from_tron(1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_payments_of_one_payer_at_a_time_share_one_allowance_and_no_unit_is_lost() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let (payer, base) = (tron_payer()?, world.base(0));
    let before = world.tron_holdings().await?;
    // Both are signed before anything is on chain, so each brings an approval of its own; the second replaces the first.
    let mut bodies = Vec::new();
    for request_id in ["first", "second"] {
        let spec = PaymentSpec { fulfillment_window: Duration::from_secs(60), ..world.spec_from_tron(request_id)? };
        bodies.push(payer.sign(&base, &spec).await?);
    }
    let mut payments: Vec<PaymentId> = Vec::new();
    for body in &bodies {
        let answer = payer.submit(&base, body, Duration::ZERO).await?;
        ensure!(answer.status == 200, "{answer:?}");
        payments.push(answer.text("payment_id").parse()?);
    }
    let mut completed = 0;
    for payment_id in &payments {
        match world.outcome(payment_id).await?.text("status") {
            "completed" => {
                completed += 1;
                world.until(payment_id, "EscrowReleased").await?;
                world.ended_once_on_tron(payment_id, RELEASED).await?;
            }
            // The other's deposit used the allowance up; nothing was taken.
            _ => {
                assert_eq!(world.failed(payment_id).await?, RefundDue::Nothing);
                assert_eq!(world.tron_logs(DEPOSITED, payment_id).await?, 0);
            }
        }
        world.audited(payment_id).await?;
    }
    assert!(completed > 0);
    assert_eq!(moves(&before, &world.tron_holdings().await?), paid_from_tron(completed));
    Ok(())
}
