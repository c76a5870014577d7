//! Clients that collect quotes first, and sign for the one that they award.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use events::{CommitId, PaymentId, QuoteRequestEvent, quote_request::CollectedDocument};
use journal::{AppendError, Commit, Journal, Position, Recorded};
use sagas::quote_request::{
    self, QuoteRequest,
    award::{AwardCall, AwardError, AwardOutcome, AwardRefusal, award},
};

use super::{
    World,
    client::{ANSWERED_WITHIN, Order},
    gateway::Gateway,
    invariants::require,
};
use crate::{coverage, random::RandomSource};

/// The state of a batch as a client found it.
enum Found {
    /// Nothing.
    Unknown,
    /// It does not exist, and it is too late for it.
    TooLate,
    /// The quotes are there.
    Collected(Box<QuoteRequest>),
}

/// Collects quotes and awards one of them; `twice` another one at the same time, as another payment.
pub async fn pay(
    world: &World,
    gateways: &[Gateway],
    random: &RandomSource,
    order: &Order,
    twice: bool,
    abandons: bool,
) {
    let Some(batch) = collect(world, gateways, random, order).await else {
        coverage::party("client gives up");
        return;
    };
    let quotes = batch.quotes();
    let Some(best) = quotes.first() else { return };
    let (other, again) = (random.pick(&[best, &quotes[quotes.len() - 1]]), format!("{}-again", order.request_id));
    let take = |quote, request_id| take(world, gateways, random, order, quote, request_id, abandons);
    if twice {
        tokio::join!(take(best, order.request_id.clone()), take(other, again));
    } else {
        take(best, order.request_id.clone()).await;
    }
}

/// The batch with its quotes; `None` when it is too late to ask for any.
async fn collect(world: &World, gateways: &[Gateway], random: &RandomSource, order: &Order) -> Option<QuoteRequest> {
    loop {
        let gateway = Gateway::any(gateways, random);
        if let Some(journal) = gateway.journal() {
            match timeout(ANSWERED_WITHIN, look(world, gateway, journal.as_ref(), order)).await {
                Ok(Found::Collected(batch)) => return Some(*batch),
                Ok(Found::TooLate) => return None,
                Ok(Found::Unknown) | Err(_) => {}
            }
        }
        sleep(Duration::from_millis(random.number(100..=2_000))).await;
    }
}

/// Looks for the batch, and opens it when there is none.
async fn look(world: &World, gateway: &Gateway, journal: &dyn Journal, order: &Order) -> Found {
    let stream_id = order.batch_id().into();
    let Ok(commits) = journal.load(&stream_id).await else { return Found::Unknown };
    if !commits.is_empty() {
        let batch = quote_request::fold(commits.iter().flat_map(Recorded::quote_request_events));
        return match batch.ok().flatten() {
            Some(batch) if batch.collected.is_some() => Found::Collected(Box::new(batch)),
            _ => Found::Unknown,
        };
    }
    if gateway.now(world) >= order.quote_deadline {
        return Found::TooLate;
    }
    let Some(opened) = order.opened(world).await else { return Found::TooLate };
    let commit = Commit {
        stream_id,
        expected: Position::START,
        commit_id: CommitId::random(),
        events: vec![QuoteRequestEvent::Opened(Box::new(opened)).into()],
        correlation: "client".to_owned(),
        causation: "client".to_owned(),
    };
    // Whatever comes of it is found by looking again.
    if let Ok(_) | Err(AppendError::Unknown(_)) = journal.append(&commit).await {
        coverage::party("batch opened");
    }
    Found::Unknown
}

/// Awards `quote` to the payment of `request_id`, until it is known what came of it.
async fn take(
    world: &World,
    gateways: &[Gateway],
    random: &RandomSource,
    order: &Order,
    quote: &CollectedDocument,
    request_id: String,
    abandons: bool,
) {
    let payment_id = PaymentId::derive(&order.originator, &request_id);
    let fit = "an award of a collected quote is fit";
    let Some((authorization, escrow)) = order.sign(world, &payment_id, quote.quote_hash).await else {
        return world.judge(require(false, fit, || format!("{payment_id} cannot be signed")));
    };
    let call = AwardCall {
        quote_request_id: order.batch_id(),
        quote_id: quote.quote_id.clone(),
        request_id,
        originator: order.originator.clone(),
        authorization,
        escrow,
        counterparty: None,
        identities: Vec::new(),
        request: "{}".to_owned(),
        correlation: "client".to_owned(),
    };
    let mut accepted = 0;
    while accepted <= order.plan.replays {
        let gateway = Gateway::any(gateways, random);
        let Some(journal) = gateway.journal() else {
            sleep(Duration::from_millis(random.number(100..=3_000))).await;
            continue;
        };
        match timeout(ANSWERED_WITHIN, award(journal.as_ref(), &call, gateway.now(world))).await {
            Ok(Ok(AwardOutcome::Created(_) | AwardOutcome::Existing(_))) => {
                match accepted {
                    0 => {
                        coverage::party("payment accepted from a batch");
                        world.accepted(&payment_id);
                    }
                    _ => coverage::party("client asks again"),
                }
                accepted += 1;
                sleep(Duration::from_millis(random.number(100..=30_000))).await;
            }
            Ok(Ok(AwardOutcome::Refused(refusal))) => {
                world.judge(require(accepted == 0, "nothing accepted is lost", || format!("{payment_id}: {refusal}")));
                world.note(format!("award to {payment_id} is refused: {refusal}"));
                if matches!(refusal, AwardRefusal::AlreadyAwarded { .. }) {
                    coverage::party("award refused, another was first");
                }
                return;
            }
            Ok(Err(error @ (AwardError::NoSuchBatch | AwardError::Unfit(_) | AwardError::Broken(_)))) => {
                let poisoned =
                    world.was_poisoned(&order.batch_id().into()) || world.was_poisoned(&(&payment_id).into());
                let excused = poisoned && matches!(error, AwardError::Broken(_));
                world.judge(require(excused, fit, || format!("{payment_id}: {error}")));
                sleep(Duration::from_millis(random.number(1_000..=5_000))).await;
            }
            Ok(Err(AwardError::Unavailable(_) | AwardError::Unknown(_))) | Err(_) => {
                if abandons {
                    coverage::party("client gives up");
                    return;
                }
                coverage::party("award begun again after an unknown outcome");
                sleep(Duration::from_millis(random.number(100..=3_000))).await;
            }
        }
        world.judge(require(true, fit, String::new));
    }
}
