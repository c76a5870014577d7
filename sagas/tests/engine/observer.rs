//! The observer: what it is told of is stored, and nothing is told twice, whoever dies in between.

use sagas::{
    payment::Milestone,
    runner::{CommittedPayment, EndedAttempt, Observer, TransactionLeg},
};

use super::*;

/// What was told, over all processes.
#[derive(Default)]
struct Told {
    events: Mutex<Vec<PaymentEvent>>,
    reached: Mutex<Vec<Milestone>>,
    ended: Mutex<Vec<EndedAttempt>>,
}

impl Observer for Told {
    fn committed(&self, commit: &CommittedPayment<'_>) {
        let mut milestones = *commit.before;
        for event in commit.events {
            self.events.lock().unwrap().push(event.clone());
            let passed = milestones.pass(event, commit.stored_at);
            self.reached.lock().unwrap().extend(passed.reached.into_iter().flatten());
        }
        self.ended.lock().unwrap().extend(commit.ended.iter().cloned());
    }

    fn collected(&self, _: &events::event::AuctionClosed) {}
}

/// Drives a payment to its rest, starting the process again when it dies; all of them tell the same observer.
async fn observed(world: World) -> (Arc<World>, Arc<Told>, Vec<PaymentEvent>) {
    let (world, told) = (Arc::new(world), Arc::new(Told::default()));
    let payment = submit(&world).await;
    loop {
        let engine = engine(&world).observed(told.clone());
        tokio::select! {
            biased;
            () = world.stopped.notified() => {}
            driven = engine.drive(&payment) => {
                driven.unwrap();
                break;
            }
        }
    }
    let events = history(&world, &payment).await;
    (world, told, events)
}

#[tokio::test]
async fn an_undisturbed_engine_tells_everything_that_it_stores() {
    let (_, told, events) = observed(World::new(Plot::Delivers)).await;
    assert_eq!(*told.events.lock().unwrap(), events[1..]);
    let reached =
        [Milestone::Awarded, Milestone::Secured, Milestone::Delivered, Milestone::Completed, Milestone::Released];
    assert_eq!(*told.reached.lock().unwrap(), reached);
    let ended = told.ended.lock().unwrap();
    let [deposit] = &ended[..] else { panic!("{ended:?}") };
    let Some(PaymentEvent::EscrowSecured(secured)) = events.get(4) else { panic!("{events:?}") };
    assert_eq!((deposit.leg, deposit.versions.len()), (TransactionLeg::Deposit, 1));
    assert_eq!(deposit.landed.as_ref(), Some(&secured.inclusion.transaction_hash));
}

#[tokio::test]
async fn attempts_at_a_reassignment_are_told_when_they_end() {
    let course = reassignment::Course { fading: 1, bidding: 4, is_set: false, chain: reassignment::Chain::Superseded };
    let (_, told, _) = observed(World::new(Plot::Reassigns(course))).await;
    let ended = told.ended.lock().unwrap();
    let legs: Vec<_> = ended.iter().map(|ended| (ended.leg, ended.landed.clone())).collect();
    let landed = Some(inclusion(6).transaction_hash);
    assert_eq!(legs[1..], [(TransactionLeg::Reassignment, None), (TransactionLeg::Reassignment, landed)]);
    // What was reached is reached once.
    let reached =
        [Milestone::Awarded, Milestone::Secured, Milestone::Delivered, Milestone::Completed, Milestone::Released];
    assert_eq!(*told.reached.lock().unwrap(), reached);
}

#[tokio::test]
async fn nothing_is_told_twice_and_one_commit_is_missed_at_most_whoever_dies_in_between() {
    for plot in [Plot::Delivers, Plot::Vanishes, Plot::Idle] {
        let (undisturbed, _, _) = observed(World::new(plot)).await;
        let calls = undisturbed.calls.load(Ordering::SeqCst);
        let mut missed = 0;
        for stop_at in (1..=calls).flat_map(|number| [(number, false), (number, true)]) {
            let (_, told, events) = observed(World { stop_at: Some(stop_at), ..World::new(plot) }).await;
            let told_events = told.events.lock().unwrap();
            let mut rest = events[1..].iter();
            // In the order of the journal, each once.
            assert!(told_events.iter().all(|event| rest.any(|stored| stored == event)), "{plot:?} died at {stop_at:?}");
            // The auction's end and the award are one commit.
            let untold = events.len() - 1 - told_events.len();
            assert!(untold <= 2, "{plot:?} died at {stop_at:?}: {untold} were not told");
            missed = missed.max(untold);
            let mut ended: Vec<_> = told.ended.lock().unwrap().iter().map(|ended| ended.leg).collect();
            let all = ended.len();
            ended.dedup();
            assert_eq!(ended.len(), all, "{plot:?} died at {stop_at:?}");
        }
        assert!(missed > 0, "no process of {plot:?} died between storing and telling");
    }
}
