//! Liquidity griefing: a settler's tokens are to be frozen by requests without a signature, by payments that fail before their
//! deposit, by awards without an answer, and by answers to awards that do not exist. The real agent and the gateway's part in auctions over a real
//! nats-server; the chain's answers are the test's. The settler has tokens for one payment at a time.

use std::{sync::atomic::Ordering, time::Duration};

use alloy::primitives::U256;
use anyhow::{Context, Result, bail, ensure};
use async_nats::jetstream;
use futures::future::try_join_all;

use auction::Options;
use chains::settler::ReservationState;
use devnet::{keys::Role as Account, payer::PaymentSpec};
use events::{Did, Hash32, PaymentId, QuoteRequestId, quote::SignedQuote};
use protocol::{AnswerStatus, AwardDecision, AwardReceipt, Version, answer_subject};
use sagas::ports::{Answer, Auction, AuctionOver, AwardAnswer, AwardEnd, RequestForQuotes};
use settler::trials::Trial;

use crate::{
    nats_roles::{PATIENCE, Role, connect, did, request, token, until},
    settler_agent::{Environment, paid_by},
    support::World,
};

/// A request that a payer signed, for all that the settler has.
fn signed() -> RequestForQuotes {
    request(Duration::from_secs(600))
}

/// The same for whoever asks.
fn unsigned() -> RequestForQuotes {
    let signed = signed();
    let batch = QuoteRequestId::derive("a stranger", &signed.auction_id);
    RequestForQuotes { auction_id: batch.to_string(), payment_id: None, ..signed }
}

/// The code with which the settler declines.
async fn declined(environment: &Environment, request: &RequestForQuotes) -> Result<String> {
    let gathered = tokio::time::timeout(PATIENCE, environment.auction.gather(request)).await??;
    match &gathered.bids[..] {
        [bid] => match &bid.answer {
            Answer::Decline(reason) => Ok(reason.clone()),
            other => bail!("not declined: {other:?}"),
        },
        bids => bail!("not one bid: {bids:?}"),
    }
}

/// A payment that is signed, with a quote for all that the settler has, as soon as it is free.
async fn quoted(environment: &Environment) -> Result<(RequestForQuotes, SignedQuote)> {
    let free = async {
        loop {
            let request = signed();
            if let Ok(quote) = environment.quoted(&request).await {
                break (request, quote);
            }
        }
    };
    tokio::time::timeout(PATIENCE, free).await.context("nothing is free")
}

/// Waits until all that the settler has is quoted to a payment that is signed, and lets it go again.
async fn has_everything(environment: &Environment) -> Result<()> {
    let (request, _) = quoted(environment).await?;
    let over = AuctionOver { auction_id: request.auction_id, settlers: vec![did(1)] };
    environment.auction.over(&over).await;
    Ok(())
}

/// The end of the award of `quote`.
fn end(request: &RequestForQuotes, quote: &SignedQuote) -> AwardEnd {
    AwardEnd {
        settler: did(1),
        payment_id: paid_by(request),
        quote_hash: quote.hash(),
        auction_id: request.auction_id.clone(),
        code: "NOT_DEPOSITED".to_owned(),
    }
}

#[tokio::test]
async fn requests_that_nobody_signed_hold_nothing_however_far_their_deadlines() -> Result<()> {
    let environment = Environment::start().await?;
    let _settler = environment.settler(true).await?;
    // Without the attack.
    has_everything(&environment).await?;

    let (years, never) = (Duration::from_secs(3_600 * 24 * 365 * 5), u64::MAX);
    let far: [fn(&mut RequestForQuotes, Duration, u64); 5] = [
        |request, years, _| request.quote_deadline += years,
        |request, years, _| request.fulfillment_deadline += years,
        |request, _, never| request.escrow.fulfillment_deadline = never,
        |request, _, never| request.escrow.reserve_deadline = never,
        |request, _, never| request.escrow.refund_after = never,
    ];
    for change in far {
        for mut request in [signed(), unsigned()] {
            change(&mut request, years, never);
            assert_eq!(declined(&environment, &request).await?, "DEADLINE_TOO_LONG", "{request:?}");
        }
    }
    let (request, _) = quoted(&environment).await?;
    environment.auction.over(&AuctionOver { auction_id: request.auction_id, settlers: vec![did(1)] }).await;
    until("a stranger is quoted", || async { environment.quoted(&unsigned()).await.is_ok() }).await?;
    let asked = environment.world.balances.load(Ordering::SeqCst);
    let strangers: Vec<_> = (0..20).map(|_| unsigned()).collect();
    try_join_all(strangers.iter().map(|stranger| environment.quoted(stranger))).await?;
    let asked = environment.world.balances.load(Ordering::SeqCst) - asked;
    assert!(asked < 10, "20 requests that cost nothing read the balance {asked} times");
    assert!(environment.world.trials.load(Ordering::SeqCst) < 10, "and tried the same delivery out again and again");

    // Everybody else's.
    let (request, quote) = quoted(&environment).await?;
    assert!(quote.quote().valid_until <= request.quote_deadline + Duration::from_secs(30), "firm for seconds");
    // What is signed for is held.
    assert_eq!(declined(&environment, &signed()).await?, "INSUFFICIENT_LIQUIDITY");
    assert_eq!(declined(&environment, &unsigned()).await?, "INSUFFICIENT_LIQUIDITY");
    Ok(())
}

#[tokio::test]
async fn tokens_quoted_to_many_are_awarded_once_and_the_others_hear_it_before_money_moves() -> Result<()> {
    let environment = Environment::start().await?;
    let _settler = environment.settler(true).await?;
    let (one, two) = (unsigned(), unsigned());
    let (first, second) = (environment.quoted(&one).await?, environment.quoted(&two).await?);
    assert_eq!(environment.award(&one, &first).await?, AwardAnswer::Accepted);
    let refused = AwardAnswer::Refused("INSUFFICIENT_LIQUIDITY".to_owned());
    assert_eq!(environment.award(&two, &second).await?, refused);
    // Final: whoever asks later, after whatever happened since.
    environment.auction.end(&end(&one, &first)).await?;
    has_everything(&environment).await?;
    assert_eq!(environment.award(&two, &second).await?, refused);
    environment.until_awards_are("both are over", (0, 0)).await
}

#[tokio::test]
async fn a_payment_that_dies_before_its_deposit_frees_its_winner_at_once_and_after_a_restart() -> Result<()> {
    let environment = Environment::start().await?;
    let settler = environment.settler(true).await?;
    let (request, quote) = quoted(&environment).await?;
    assert_eq!(environment.award(&request, &quote).await?, AwardAnswer::Accepted);
    assert_eq!(declined(&environment, &signed()).await?, "INSUFFICIENT_LIQUIDITY");
    for _ in 0..2 {
        environment.auction.end(&end(&request, &quote)).await?;
    }
    has_everything(&environment).await?;
    environment.until_awards_are("the award is over", (0, 0)).await?;

    // A settler that is killed holds for what stands when it comes back, and for nothing when it ended meanwhile.
    let (again, quote) = quoted(&environment).await?;
    assert_eq!(environment.award(&again, &quote).await?, AwardAnswer::Accepted);
    drop(settler);
    let settler = environment.settler(true).await?;
    until("it holds for its award again", || async {
        let free = declined(&environment, &unsigned()).await;
        free.is_ok_and(|reason| reason == "INSUFFICIENT_LIQUIDITY")
    })
    .await?;
    drop(settler);
    environment.auction.end(&end(&again, &quote)).await?;
    let _settler = environment.settler(true).await?;
    environment.until_awards_are("it finds the end in the award's place", (0, 0)).await?;
    quoted(&environment).await?;
    assert_eq!(environment.world.deliveries(), 0);
    Ok(())
}

#[tokio::test]
async fn word_of_an_end_takes_nothing_from_a_settler_whose_money_is_in_escrow() -> Result<()> {
    let environment = Environment::start().await?;
    let _settler = environment.settler(true).await?;
    let request = signed();
    let quote = environment.quoted(&request).await?;
    assert_eq!(environment.award(&request, &quote).await?, AwardAnswer::Accepted);
    environment.world.set_escrow(ReservationState::Reserved);
    until("it has delivered", || async { environment.world.deliveries() == 1 }).await?;
    // A gateway that lies.
    environment.auction.end(&end(&request, &quote)).await?;
    environment.world.deliver_finally();
    until("it is paid", || async { environment.world.releases() == 1 }).await
}

#[tokio::test]
async fn an_award_that_is_not_answered_is_over_for_whoever_comes_late() -> Result<()> {
    let options = Options { answer_wait: Duration::from_millis(200), ..Options::default() };
    let environment = Environment::with(options).await?;
    let settler = environment.settler(true).await?;
    let request = signed();
    let quote = environment.quoted(&request).await?;
    drop(settler);
    let award = environment.store(&request, &quote).await?;
    assert_eq!(environment.auction.answer(&award).await?, AwardAnswer::Silent);
    let _settler = environment.settler(true).await?;
    environment.until_awards_are("it learns that it was too late", (0, 0)).await?;
    quoted(&environment).await?;
    // No gateway takes its word any more.
    assert_eq!(environment.auction.answer(&award).await?, AwardAnswer::Silent);
    Ok(())
}

#[tokio::test]
async fn who_cannot_be_paid_gets_no_quote() -> Result<()> {
    let environment = Environment::start().await?;
    let _settler = environment.settler(true).await?;
    *environment.world.trial.lock().unwrap() = Trial::Refused { reason: "the recipient refuses".to_owned() };
    for request in [signed(), unsigned()] {
        assert_eq!(declined(&environment, &request).await?, "UNDELIVERABLE");
    }
    *environment.world.trial.lock().unwrap() = Trial::Delivers;
    // Nothing is held for what was declined, and the refusal is forgotten within seconds.
    has_everything(&environment).await
}

#[tokio::test]
async fn answers_to_awards_that_there_never_were_fill_nothing_and_hold_nobody_up() -> Result<()> {
    let environment = Environment::start().await?;
    let settler = environment.settler(true).await?;
    let request = signed();
    let quote = environment.quoted(&request).await?;
    let client = connect(&environment.server, Role::Settler(1)).await?;
    let answer = |payment_id: &PaymentId, quote_hash| protocol::AwardAnswer {
        version: Version,
        payment_id: payment_id.clone(),
        quote_hash,
        word: AwardDecision::Accept,
        reason: None,
    };
    for number in 0..3_000 {
        let payment_id = PaymentId::derive("nobody's", &number.to_string());
        let junk = protocol::write(&answer(&payment_id, Hash32::ZERO));
        let subject = answer_subject(&token(1), &payment_id);
        client.publish_with_reply(subject, client.new_inbox(), junk.into()).await?;
    }
    // Nor is another quote's award its own.
    assert_eq!(environment.award(&request, &quote).await?, AwardAnswer::Accepted);
    drop(settler);
    let other = protocol::write(&answer(&paid_by(&request), Hash32::ZERO));
    let receipt = async {
        loop {
            let said = client.request(answer_subject(&token(1), &paid_by(&request)), other.clone().into()).await;
            if let Ok(said) = said {
                break protocol::read::<AwardReceipt>(&said.payload);
            }
        }
    };
    let receipt = tokio::time::timeout(PATIENCE, receipt).await.context("no receipt")??;
    assert_eq!(receipt.standing, AnswerStatus::Unknown);
    let gateway = jetstream::new(connect(&environment.server, Role::Gateway).await?);
    let kept = gateway.get_stream("ANSWERS").await?.get_info().await?.state.messages;
    assert_eq!(kept, 1, "one award, one answer");
    Ok(())
}

/// On the whole network: requests that nobody signed, for all that the settler has and for as long as a gateway lets one ask,
/// leave it free for whoever pays, also after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_signature_freeze_nobody_on_the_whole_network() -> Result<()> {
    let mut world = World::start(1).await?;
    let only = vec![Did::from_ed25519(&settler::dev::key(1).context("a demo settler")?.verifying_key())];
    let stock = world.network.destination.balance(Account::Settler(1)).await?;
    let whole = |request_id: String, units: U256| {
        let (amount, cap) = (units.to_string().parse()?, (units * U256::from(2)).to_string().parse()?);
        let (quote_window, fulfillment_window) = (Duration::from_secs(540), Duration::from_secs(80_000));
        let whitelist = only.clone();
        let spec = world.spec(&request_id)?;
        anyhow::Ok(PaymentSpec { amount, cap, quote_window, fulfillment_window, whitelist, ..spec })
    };
    // Control: it has no more than that.
    let beyond = world.payer.quote_request(&whole("beyond".to_owned(), stock + U256::from(1))?);
    let beyond = world.payer.open(&world.base(0), &beyond, true).await?;
    ensure!(beyond.body["decline_summary"][0]["reason"] == "INSUFFICIENT_LIQUIDITY", "{beyond:?}");
    for n in 0..5 {
        let request = world.payer.quote_request(&whole(format!("freeze-{n}"), stock)?);
        let ready = world.payer.open(&world.base(0), &request, true).await?;
        ensure!(ready.body["quotes"].as_array().is_some_and(|quotes| quotes.len() == 1), "{ready:?}");
    }
    let honest = PaymentSpec { whitelist: only.clone(), ..world.spec("honest")? };
    let paid = world.submit(&honest).await?;
    world.completed(&paid).await?;

    world.network.kill_settler(1).await?;
    world.network.start_settler(1)?;
    let honest = PaymentSpec { whitelist: only, ..world.spec("honest-after-a-restart")? };
    let paid = world.submit(&honest).await?;
    world.completed(&paid).await
}
