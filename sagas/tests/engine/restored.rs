//! Payments in a journal that was restored from a copy: what the copy lacks is read on chain, and nothing is deposited anew.

use events::Hash32;
use journal::ShardLog;

use super::*;

/// What the chain has of a payment of which the copy knows no deposit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escrow {
    /// Nothing.
    None,
    /// The deposit, for the award that the copy has.
    OfTheAward,
    /// A deposit for another award; nobody delivers.
    OfAnother,
    /// A deposit for another award, whose settler has delivered and is paid.
    ReleasedForAnother,
}

/// What becomes of a payment that was deposited for before the loss, is not in the copy, and is submitted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resubmitted {
    /// The chain refuses the second deposit when it is tried out.
    Refused,
    /// It is sent, and the chain refuses it.
    Reverted,
    /// It is sent, and is not in time.
    Expired,
    /// Nobody bids; the payer deposits by a transaction of its own, as it did before.
    Unsold,
}

const OTHER_QUOTE: Hash32 = Hash32([0x77; 32]);

pub fn secured(state: &mut State) -> EscrowSecured {
    state.effective = Some("made before the loss".to_owned());
    EscrowSecured { inclusion: inclusion(5), amount: amount("1010"), deposit: None }
}

pub fn found(escrow: Escrow, state: &mut State) -> Option<EscrowOpened> {
    if !matches!(escrow, Escrow::OfAnother | Escrow::ReleasedForAnother) {
        return None;
    }
    let EscrowSecured { inclusion, amount, .. } = secured(state);
    Some(EscrowOpened { inclusion, amount, reserved_for: Some(OTHER_QUOTE) })
}

/// The history of a payment that the copy has up to `copied`, driven to its rest by a gateway on the restored journal.
async fn restored(
    escrow: Escrow,
    copied: Vec<PaymentEvent>,
    stop_at: Option<(u32, bool)>,
) -> (Arc<World>, Vec<PaymentEvent>) {
    let world = Arc::new(World { stop_at, ..World::new(Plot::Restored(escrow)) });
    let stream_id = append(&world, copied[0].clone()).await;
    if copied.len() > 1 {
        append_rest(&world, &stream_id, &copied).await;
    }
    let options = Options { restored: Some(heads(&world).await), ..Options::default() };
    drive_restored(world, &stream_id, options).await
}

/// Stores what follows the first event of `copied`.
async fn append_rest(world: &World, stream_id: &StreamId, copied: &[PaymentEvent]) {
    let stored = world.journal.load(stream_id).await.unwrap();
    let commit = Commit {
        stream_id: stream_id.clone(),
        expected: stored[0].position,
        commit_id: CommitId::random(),
        events: copied[1..].iter().cloned().map(Into::into).collect(),
        correlation: "test".to_owned(),
        causation: "test".to_owned(),
    };
    world.journal.append(&commit).await.unwrap();
}

/// The payment that the copy has up to the last of `copied`, driven in `world` to its rest.
pub async fn copied(world: &Arc<World>, copied: &[PaymentEvent]) -> Vec<PaymentEvent> {
    let stream_id = append(world, copied[0].clone()).await;
    append_rest(world, &stream_id, copied).await;
    let options = Options { restored: Some(heads(world).await), ..Options::default() };
    drive_restored(world.clone(), &stream_id, options).await.1
}

/// Drives the payment to its rest, starting the process again when it dies.
async fn drive_restored(world: Arc<World>, stream_id: &StreamId, options: Options) -> (Arc<World>, Vec<PaymentEvent>) {
    loop {
        let engine = engine_with(&world, options.clone());
        tokio::select! {
            biased;
            () = world.stopped.notified() => {}
            driven = engine.drive(stream_id) => break driven.unwrap(),
        }
    }
    let events = history(&world, stream_id).await;
    assert!(sagas::payment::fold(&events).is_ok());
    (world, events)
}

/// All that is in the journal now came out of the copy.
async fn heads(world: &World) -> Arc<BTreeMap<u16, u64>> {
    let mut heads = BTreeMap::new();
    for shard in 0..world.journal.shards() {
        heads.insert(shard, world.journal.head(shard).await.unwrap());
    }
    Arc::new(heads)
}

fn copies() -> [Vec<PaymentEvent>; 2] {
    [vec![submitted()], vec![submitted(), auction_closed(), awarded()]]
}

/// As [`restored`], and again with a death at each call; what came of it has to be the same each time.
async fn restored_whoever_dies(escrow: Escrow, copied: &[PaymentEvent]) -> (Arc<World>, Vec<PaymentEvent>) {
    let (world, events) = restored(escrow, copied.to_vec(), None).await;
    for stop_at in (1..=world.calls.load(Ordering::SeqCst)).flat_map(|number| [(number, false), (number, true)]) {
        let (other, again) = restored(escrow, copied.to_vec(), Some(stop_at)).await;
        assert_eq!(types(&again), types(&events), "died at {stop_at:?}");
        assert!(other.state.lock().unwrap().deposits.is_empty(), "died at {stop_at:?}");
    }
    (world, events)
}

#[tokio::test]
async fn a_deposit_of_the_copys_own_award_is_adopted_and_the_payment_goes_on() {
    let [_, awarded] = copies();
    let (world, events) = restored_whoever_dies(Escrow::OfTheAward, &awarded).await;
    let went_on = ["EscrowSecured", "FulfillmentSeen", "FulfillmentConfirmed", "EscrowReleased"];
    assert_eq!(types(&events)[3..], went_on);
    assert_eq!(world.state.lock().unwrap().awards, 0, "nobody is told of it anew");
}

#[tokio::test]
async fn without_a_deposit_on_chain_none_is_made_and_the_payment_fails_once_none_can_be() {
    for copied in copies() {
        let (world, events) = restored_whoever_dies(Escrow::None, &copied).await;
        let failed = events.iter().find_map(|event| match event {
            PaymentEvent::Failed(failed) => Some(failed),
            _ => None,
        });
        let failed = failed.unwrap();
        assert_eq!(failed.refund, RefundDue::Nothing);
        assert!(failed.failed_at > at(30), "a transaction from before the loss could land up to then");
        let state = world.state.lock().unwrap();
        assert!(state.deposits.is_empty() && state.awards == 0);
        // Whoever the copy says has won is told.
        assert_eq!(state.ends.is_empty(), copied.len() == 1);
    }
}

#[tokio::test]
async fn a_deposit_for_an_award_that_the_copy_lacks_goes_back_after_its_window() {
    for copied in copies() {
        let (world, events) = restored_whoever_dies(Escrow::OfAnother, &copied).await;
        let ends = ["EscrowOpened", "Failed", "RefundPrepared", "EscrowRefunded"];
        assert_eq!(types(&events)[copied.len()..], ends);
        let state = world.state.lock().unwrap();
        assert!(state.now > 100 && state.refunds.len() == 1);
    }
}

#[tokio::test]
async fn a_settler_of_a_lost_award_that_was_paid_ends_the_payment_and_nothing_is_sent() {
    for copied in copies() {
        let (world, events) = restored_whoever_dies(Escrow::ReleasedForAnother, &copied).await;
        assert_eq!(types(&events)[copied.len()..], ["EscrowOpened", "Failed", "EscrowReleased"]);
        let PaymentEvent::Failed(failed) = &events[copied.len() + 1] else { panic!("{events:?}") };
        let classification = failed.failure.retry_classification;
        assert_eq!(classification, Some(events::failure::RetryClassification::ReconcileThenDecide));
        assert!(world.state.lock().unwrap().sent.is_empty());
    }
}

#[tokio::test]
async fn what_is_submitted_after_the_restore_is_driven_as_any() {
    let world = Arc::new(World::new(Plot::Delivers));
    let options = Options { restored: Some(heads(&world).await), ..Options::default() };
    let stream_id = submit(&world).await;
    engine_with(&world, options).drive(&stream_id).await.unwrap();
    assert_eq!(types(&history(&world, &stream_id).await), DELIVERED);
}

/// Nothing says that the payer lost nothing while its money is in an escrow of which the journal does not know.
#[tokio::test]
async fn a_payment_that_the_copy_lacks_and_that_is_submitted_again_fails_with_its_escrow_whatever_the_chain_says() {
    use Resubmitted::{Expired, Refused, Reverted, Unsold};
    for how in [Refused, Reverted, Expired, Unsold] {
        let (undisturbed, events) = resubmitted(how, None).await;
        let begun: &[&str] = match how {
            Refused => &["Submitted", "AuctionClosed", "QuoteAwarded"],
            Reverted | Expired => &["Submitted", "AuctionClosed", "QuoteAwarded", "DepositPrepared"],
            Unsold => &["Submitted", "AuctionClosed", "Failed"],
        };
        let found: &[&str] = if how == Unsold { &["EscrowOpened"] } else { &["EscrowOpened", "Failed"] };
        assert_eq!(types(&events), [begun, found, &["RefundPrepared", "EscrowRefunded"]].concat(), "{how:?}");
        assert!(undisturbed.state.lock().unwrap().now > 100);
        for stop_at in (1..=undisturbed.calls.load(Ordering::SeqCst)).flat_map(|call| [(call, false), (call, true)]) {
            let (_, again) = resubmitted(how, Some(stop_at)).await;
            assert_eq!(types(&again), types(&events), "{how:?} died at {stop_at:?}");
        }
    }
}

async fn resubmitted(how: Resubmitted, stop_at: Option<(u32, bool)>) -> (Arc<World>, Vec<PaymentEvent>) {
    let world = Arc::new(World { stop_at, ..World::new(Plot::Resubmitted(how)) });
    let options = Options { restored: Some(heads(&world).await), ..Options::default() };
    let stream_id = submit(&world).await;
    drive_restored(world, &stream_id, options).await
}
