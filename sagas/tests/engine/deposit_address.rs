//! A payment by deposit address that failed before its escrow: the money at the address goes back, whoever is first.

use journal::StreamStore;

use super::*;

/// Who empties the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emptied {
    /// The gateway.
    ByGateway,
    /// Somebody before it, whom the chain does not name; the gateway's transaction lands all the same, and moves nothing.
    Unseen,
}

fn returned() -> EscrowRefunded {
    EscrowRefunded { inclusion: inclusion(9), amount: cap(), claims: Vec::new() }
}

fn cap() -> events::Amount {
    "1100".parse().unwrap()
}

/// What the chain says of the address; what of a return that landed is told, it does not know.
pub fn state(world: &State) -> AddressState {
    match world.sent.is_empty() {
        true => AddressState::Held { amount: cap(), block_number: 9 },
        false => AddressState::Empty,
    }
}

/// What became of the gateway's own transaction.
pub fn given_back_by(world: &State, emptied: Emptied, versions: &[TransactionPrepared]) -> OwnReturn {
    match (versions.iter().any(|version| world.sent.contains(&version.transaction_hash)), emptied) {
        (false, _) => OwnReturn::NotLanded,
        (true, Emptied::ByGateway) => OwnReturn::Returned(returned()),
        (true, Emptied::Unseen) => OwnReturn::Nothing { evidence: "nothing was there".to_owned() },
    }
}

/// Drives the payment to its rest from where its money is at the address.
async fn live_unsold(world: World) -> Vec<PaymentEvent> {
    let world = Arc::new(world);
    let payment = StreamId::from(address_submission().payment_id);
    let commit = Commit {
        stream_id: payment.clone(),
        expected: Position::START,
        commit_id: CommitId::random(),
        events: vec![address_submitted().into(), failed(RefundDue::Nothing).into()],
        correlation: "test".to_owned(),
        causation: "test".to_owned(),
    };
    world.journal.append(&commit).await.unwrap();
    drive(&world, &payment).await;
    history(&world, &payment).await
}

fn ends_as(emptied: Emptied) -> &'static [&'static str] {
    match emptied {
        Emptied::ByGateway => &["AddressHeld", "RefundPrepared", "EscrowRefunded"],
        Emptied::Unseen => &["AddressHeld", "RefundPrepared", "RefundAbandoned", "DepositRuledOut"],
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_gateway_gave_back_and_what_it_found_empty_comes_to_rest() {
    for emptied in [Emptied::ByGateway, Emptied::Unseen] {
        let events = live_unsold(World::new(Plot::Addressed(emptied))).await;
        let types: Vec<_> = events[2..].iter().map(PaymentEvent::type_name).collect();
        assert_eq!(types, ends_as(emptied), "{emptied:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_at_any_call_gives_nothing_back_twice() {
    // More than there are: the last ones stop nothing.
    for stop_at in (1..=12).flat_map(|call| [(call, false), (call, true)]) {
        for emptied in [Emptied::ByGateway, Emptied::Unseen] {
            let world = World { stop_at: Some(stop_at), ..World::new(Plot::Addressed(emptied)) };
            let events = live_unsold(world).await;
            let types: Vec<_> = events[2..].iter().map(PaymentEvent::type_name).collect();
            assert_eq!(types, ends_as(emptied), "{emptied:?}, stopped at {stop_at:?}");
        }
    }
}
