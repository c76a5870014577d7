//! Escrows that are reassigned: a settler that takes another's place, and one whose own place is taken.

use std::{sync::atomic::Ordering, time::Duration};

use anyhow::{Context, Result, bail};
use async_nats::jetstream;
use chrono::{TimeDelta, Utc};

use chains::settler::{ReservationOrder, ReservationState};
use events::{
    Hash32,
    event::EscrowPlan,
    quote::{Quote, reassignment_auction_of},
    time::unix_seconds,
};
use protocol::{Version, award_subject};
use sagas::ports::{Answer, Auction, AwardAnswer, AwardEnd, DeliveryState, Escrowed, RequestForQuotes};

use super::{Environment, paid_by};
use crate::nats_roles::{PATIENCE, Role, connect, did, request, token, until};

/// Just what the settler of these tests asks for.
const PRICE: &str = "1001000";

/// The `round`-th auction for the escrow of the payment of `first`, reserved for the quote that lapsed. The deposit's window is over.
fn reassignment(first: &RequestForQuotes, round: usize, reserved_for: Hash32) -> RequestForQuotes {
    let escrowed = Escrowed { amount: PRICE.parse().unwrap(), reserved_for };
    RequestForQuotes {
        auction_id: reassignment_auction_of(&paid_by(first), round),
        escrow: EscrowPlan { reserve_deadline: unix_seconds(Utc::now()) - 1, ..first.escrow.clone() },
        escrowed: Some(escrowed),
        ..first.clone()
    }
}

fn end(request: &RequestForQuotes, quote_hash: Hash32) -> AwardEnd {
    AwardEnd {
        settler: did(1),
        payment_id: paid_by(request),
        quote_hash,
        auction_id: request.auction_id.clone(),
        code: "AWARD_UNANSWERED".to_owned(),
    }
}

/// Why the settler declines, if it does.
async fn declined(environment: &Environment, request: &RequestForQuotes) -> Result<Option<String>> {
    let gathered = tokio::time::timeout(PATIENCE, environment.auction.gather(request)).await??;
    match gathered.bids.first().map(|bid| &bid.answer) {
        Some(Answer::Decline(reason)) => Ok(Some(reason.clone())),
        Some(Answer::Quote(_)) => Ok(None),
        other => bail!("no answer: {other:?}"),
    }
}

#[tokio::test]
async fn a_settler_whose_award_lapsed_takes_the_place_of_one_that_did_not_deliver() -> Result<()> {
    let environment = Environment::start().await?;
    let _settler = environment.settler(true).await?;
    let first = request(Duration::from_secs(600));
    let quote = environment.quoted(&first).await?;
    assert_eq!(environment.award(&first, &quote).await?, AwardAnswer::Accepted);
    environment.auction.end(&end(&first, quote.hash())).await?;
    environment.until_awards_are("the first award is over", (0, 0)).await?;

    // Another won, and did not deliver.
    let lapsed = Hash32::sha256(b"another's quote");
    let next = reassignment(&first, 1, lapsed);
    let dear = RequestForQuotes {
        escrowed: Some(Escrowed { amount: "1000999".parse()?, reserved_for: lapsed }),
        auction_id: reassignment_auction_of(&paid_by(&first), 2),
        ..next.clone()
    };
    assert_eq!(declined(&environment, &dear).await?.as_deref(), Some("PRICE_ABOVE_CAP"));
    let own = environment.quoted(&next).await?;
    assert_eq!(own.quote().source_amount.to_string(), PRICE);
    let award = environment.store(&next, &own).await?;
    assert_eq!(environment.auction.answer(&award).await?, AwardAnswer::Accepted);

    // The escrow is the other's still.
    let world = &environment.world;
    let is_looked_for = |order: &ReservationOrder| order.quote_hash == own.hash();
    until("the reservation is looked for", || async {
        world.looked_for.lock().unwrap().as_ref().is_some_and(is_looked_for)
    })
    .await?;
    let looked_for = world.looked_for.lock().unwrap().clone().context("an order")?;
    assert_eq!((looked_for.payment_id, looked_for.escrowed), (paid_by(&first), next.escrowed));
    assert_eq!((world.deliveries(), environment.open_awards().await?), (0, (1, 0)));
    // Whatever is said of its first award once more, this one stands.
    let gateway = jetstream::new(connect(&environment.server, Role::Gateway).await?);
    let again = protocol::AwardEnd {
        version: Version,
        settler: did(1),
        payment_id: paid_by(&first),
        quote_hash: quote.hash(),
        auction_id: None,
        ended: "AWARD_UNANSWERED".to_owned(),
    };
    let subject = award_subject(&token(1), &paid_by(&first));
    gateway.publish(subject, protocol::write(&again).into()).await?.await?;
    environment.until_awards_are("it has heard that again", (1, 0)).await?;
    world.set_escrow(ReservationState::Reserved);
    until("it has delivered", || async { world.deliveries() == 1 }).await?;
    assert_eq!(world.delivered.lock().unwrap().as_ref().map(|order| order.quote_hash), Some(own.hash()));
    world.deliver_finally();
    environment.until_awards_are("the award is settled", (0, 0)).await?;
    assert_eq!((world.deliveries(), world.releases()), (1, 1));
    Ok(())
}

#[tokio::test]
async fn the_end_of_an_award_frees_the_tokens_of_its_own_auction() -> Result<()> {
    let environment = Environment::start().await?;
    let _settler = environment.settler(true).await?;
    let first = request(Duration::from_secs(600));
    let lapsed = Hash32::sha256(b"another's quote");
    let next = reassignment(&first, 2, lapsed);
    let quote = environment.quoted(&next).await?;
    let free = || async { declined(&environment, &request(Duration::from_secs(600))).await };
    assert_eq!(free().await?.as_deref(), Some("INSUFFICIENT_LIQUIDITY"), "all tokens are held for the quote");
    // That of another of the payment's auctions frees nothing.
    environment.auction.end(&end(&reassignment(&first, 3, lapsed), Hash32::sha256(b"another"))).await?;
    environment.until_awards_are("it has heard of the other's end", (0, 0)).await?;
    assert_eq!(free().await?.as_deref(), Some("INSUFFICIENT_LIQUIDITY"));
    environment.auction.end(&end(&next, quote.hash())).await?;
    until("all tokens are free", || async { matches!(free().await, Ok(None)) }).await
}

#[tokio::test]
async fn a_settler_that_is_too_late_delivers_nothing_and_lets_its_award_go() -> Result<()> {
    let environment = Environment::start().await?;
    let _settler = environment.settler(true).await?;
    let request = request(Duration::from_secs(600));
    let world = &environment.world;
    // A quote whose own promise is over when its award is read, as after an absence.
    let late =
        Quote { fulfill_by: Utc::now() - TimeDelta::seconds(1), ..environment.quoted(&request).await?.quote().clone() };
    let late = late.sign(&settler::dev::key(1).context("a key")?, Utc::now())?;
    world.set_escrow(ReservationState::Reserved);
    assert_eq!(environment.award(&request, &late).await?, AwardAnswer::Accepted);
    until("it has looked for its delivery again and again", || async { world.looks.load(Ordering::SeqCst) > 3 })
        .await?;
    assert_eq!((world.deliveries(), environment.open_awards().await?), (0, (1, 0)));
    // Another takes its place.
    world.set_escrow(ReservationState::Different { reason: "quote hash".to_owned() });
    environment.until_awards_are("the award is let go", (0, 0)).await?;
    world.set_delivery(DeliveryState::Impossible);
    assert_eq!((world.deliveries(), world.releases()), (0, 0));
    // Nothing is held for it any more.
    assert_eq!(declined(&environment, &self::request(Duration::from_secs(600))).await?, None);
    Ok(())
}
