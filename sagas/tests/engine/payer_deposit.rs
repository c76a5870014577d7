//! Payments whose payer deposits by transactions of its own, which anyone who holds them can send.

use events::{
    Amount,
    event::{EscrowOpened, Failed, PayerStep},
};
use journal::StreamStore;

use super::*;

/// What becomes of such a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayerPlot {
    /// Approval, deposit and reservation go out one after the other, and the settler delivers.
    Delivers,
    /// The same, and the settler never delivers.
    Vanishes,
    /// Nobody bids, and the payer's wallet sends nothing.
    Unsold,
    /// Nobody bids, and the payer's wallet sends the deposit.
    UnsoldAndSent,
    /// The same, no gateway runs until long after the refund window opened, and somebody has asked for the refund by then.
    Returned,
    /// The chain refuses the deposit.
    Refused,
    /// The chain refuses the deposit at first; then it is sent, and never lands.
    RefusedThenLost,
    /// Somebody who was shown the reservation has sent it.
    Usurped,
    /// The deposit lands; no submitter can pay for the reservation.
    NoSubmitter,
    /// The deposit lands; the reservation is sent and never lands.
    NeverReserved,
}

impl PayerPlot {
    fn is_unsold(self) -> bool {
        matches!(self, Self::Unsold | Self::UnsoldAndSent | Self::Returned)
    }

    pub fn vanishes(self) -> bool {
        self == Self::Vanishes
    }
}

/// The second in which a gateway is back that was away.
const BACK: i64 = 150;
const REASON: &str = "TRANSFER_FROM_FAILED";

/// The payer's transactions on the chain.
#[derive(Debug, Default)]
pub struct PayerDepositState {
    approved: bool,
    pub deposited: bool,
    looks: u32,
}

pub fn cap() -> Amount {
    payer_deposit_submission().authorization.permitted()
}

pub fn gathered(plot: PayerPlot, state: &mut State, sold: Gathered) -> Gathered {
    match plot {
        PayerPlot::Returned => state.now = BACK,
        _ => state.now = state.now.max(10),
    }
    state.payer_deposit.deposited |= matches!(plot, PayerPlot::UnsoldAndSent | PayerPlot::Returned);
    if plot.is_unsold() { Gathered { bids: Vec::new(), ..sold } } else { sold }
}

pub async fn prepare(world: &World, plot: PayerPlot, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
    let refused = |reason| {
        let valid_until = payer_deposit_submission().escrow.reserve_deadline;
        Err(PrepareError::Refused(Box::new(Refusal { context: context(reason), valid_until })))
    };
    let prepared = world.call(|state| {
        assert!(state.awards > 0, "the settler is told first");
        let on_its_way = |step| {
            let submission = payer_deposit_submission();
            let own = submission.authorization.payer_transaction(step).expect("the payer signed it");
            Err(PrepareError::PayerSent { step, transaction_hash: own.transaction_hash.clone() })
        };
        state.payer_deposit.looks += 1;
        match plot {
            PayerPlot::Refused => return refused(REASON),
            PayerPlot::RefusedThenLost if state.payer_deposit.looks < 3 => return refused(REASON),
            PayerPlot::RefusedThenLost => return on_its_way(PayerStep::Deposit),
            PayerPlot::Usurped => {
                state.payer_deposit.deposited = true;
                state.effective = Some("somebody's".to_owned());
                return refused("StateNotAllowed");
            }
            _ => {}
        }
        if !state.payer_deposit.approved {
            state.payer_deposit.approved = true;
            return on_its_way(PayerStep::Approval);
        }
        if !state.payer_deposit.deposited {
            state.payer_deposit.deposited = true;
            return on_its_way(PayerStep::Deposit);
        }
        match plot {
            PayerPlot::NoSubmitter => Err(Transient::rate_limited("no submitter can pay").into()),
            _ => Ok(transaction(attempt)),
        }
    });
    prepared.await?
}

/// Whether the transaction takes no part in what the world does otherwise.
pub fn took(plot: PayerPlot, state: &mut State, transaction: &TransactionPrepared) -> bool {
    if state.effective.is_some() {
        return false;
    }
    if at(state.now) > at(100) {
        assert!(state.payer_deposit.deposited, "a refund of nothing");
        *state.refunds.entry(transaction.transaction_hash.clone()).or_default() += 1;
        return true;
    }
    assert!(state.payer_deposit.deposited, "reserved before it is deposited");
    plot == PayerPlot::NeverReserved
}

/// The deposit at a settled block past its window, while nobody has reserved it.
pub fn stranded(state: &State) -> Option<EscrowOpened> {
    let opened = EscrowOpened { inclusion: inclusion(5), amount: cap(), reserved_for: None };
    (state.payer_deposit.deposited && state.effective.is_none() && state.now > 30).then_some(opened)
}

pub fn escrow_state(plot: PayerPlot, state: &State) -> Option<EscrowState> {
    let refunded =
        || EscrowState::Refunded(EscrowRefunded { inclusion: inclusion(9), amount: cap(), claims: Vec::new() });
    match plot {
        _ if state.effective.is_some() => None,
        PayerPlot::Returned => Some(refunded()),
        _ if !state.payer_deposit.deposited => Some(EscrowState::Absent),
        _ if !state.refunds.is_empty() => Some(refunded()),
        _ if state.now > 100 => Some(EscrowState::Lapsed),
        _ => Some(EscrowState::Held),
    }
}

const UNSOLD: [&str; 3] = ["Submitted", "AuctionClosed", "Failed"];
const AWARDED: [&str; 3] = ["Submitted", "AuctionClosed", "QuoteAwarded"];
const STRANDED: [&str; 4] = ["EscrowOpened", "Failed", "RefundPrepared", "EscrowRefunded"];

fn expected(plot: PayerPlot) -> Vec<&'static str> {
    let after = |first: &[&'static str], then: &[&'static str]| [first, then].concat();
    match plot {
        PayerPlot::Delivers => DELIVERED.to_vec(),
        PayerPlot::Vanishes => UNDELIVERED.to_vec(),
        PayerPlot::Unsold => after(&UNSOLD, &["DepositRuledOut"]),
        PayerPlot::UnsoldAndSent => after(&UNSOLD, &["EscrowOpened", "RefundPrepared", "EscrowRefunded"]),
        PayerPlot::Returned => after(&UNSOLD, &["EscrowOpened", "EscrowRefunded"]),
        PayerPlot::Refused | PayerPlot::RefusedThenLost => after(&AWARDED, &["AwardWithdrawn", "Failed", "WinnerTold"]),
        PayerPlot::Usurped => DELIVERED.into_iter().filter(|name| *name != "DepositPrepared").collect(),
        PayerPlot::NoSubmitter => after(&AWARDED, &STRANDED),
        PayerPlot::NeverReserved => after(&after(&AWARDED, &["DepositPrepared"]), &STRANDED),
    }
}

const ALL: [PayerPlot; 10] = [
    PayerPlot::Delivers,
    PayerPlot::Vanishes,
    PayerPlot::Unsold,
    PayerPlot::UnsoldAndSent,
    PayerPlot::Returned,
    PayerPlot::Refused,
    PayerPlot::RefusedThenLost,
    PayerPlot::Usurped,
    PayerPlot::NoSubmitter,
    PayerPlot::NeverReserved,
];

fn failure(events: &[PaymentEvent]) -> &Failed {
    let failed = events.iter().find_map(|event| match event {
        PaymentEvent::Failed(failed) => Some(failed),
        _ => None,
    });
    failed.unwrap_or_else(|| panic!("{:?}", types(events)))
}

/// What holds of every such payment, whoever died where.
fn check(plot: PayerPlot, world: &World, events: &[PaymentEvent], told: &str) {
    let (own, others): (Vec<_>, Vec<_>) = types(events).into_iter().partition(|name| *name == "PayerTransactionSent");
    assert_eq!(others, expected(plot), "{plot:?} {told}");
    // Each is recorded once, or not at all where the gateway died between sending and recording it.
    assert!(own.len() <= 2, "{plot:?} {told}: {:?}", types(events));
    let state = world.state.lock().unwrap();
    let settled = matches!(events.last(), Some(PaymentEvent::EscrowReleased(_) | PaymentEvent::EscrowRefunded(_)));
    assert_eq!(settled, state.payer_deposit.deposited, "{plot:?} {told}: what is deposited goes on or back");
    let refunds = usize::from(matches!(
        plot,
        PayerPlot::Vanishes | PayerPlot::UnsoldAndSent | PayerPlot::NoSubmitter | PayerPlot::NeverReserved
    ));
    assert_eq!(state.refunds.len(), refunds, "{plot:?} {told}");
    assert!(state.deposits.len() <= 1, "{plot:?} {told}");
}

#[tokio::test]
async fn a_death_at_any_port_call_leaves_no_money_behind() {
    for plot in ALL {
        let (undisturbed, events) = live(World::new(Plot::PayerDeposits(plot))).await;
        check(plot, &undisturbed, &events, "undisturbed");
        let calls = undisturbed.calls.load(Ordering::SeqCst);
        assert!(calls > 5, "{plot:?}");
        for stop_at in (1..=calls).flat_map(|number| [(number, false), (number, true)]) {
            let (world, events) = live(World { stop_at: Some(stop_at), ..World::new(Plot::PayerDeposits(plot)) }).await;
            check(plot, &world, &events, &format!("died at {stop_at:?}"));
        }
    }
}

/// What the payer signed is on record from when it is sent, in the order in which it was.
#[tokio::test]
async fn the_payers_own_transactions_are_recorded_once_each_when_they_are_sent() {
    let (_, events) = live(World::new(Plot::PayerDeposits(PayerPlot::Delivers))).await;
    let sent = ["PayerTransactionSent", "PayerTransactionSent"];
    assert_eq!(types(&events), [&DELIVERED[..3], &sent, &DELIVERED[3..]].concat());
    let submission = payer_deposit_submission();
    for (event, step) in events[3..5].iter().zip([PayerStep::Approval, PayerStep::Deposit]) {
        let PaymentEvent::PayerTransactionSent(sent) = event else { unreachable!() };
        let own = submission.authorization.payer_transaction(step).unwrap();
        assert_eq!((sent.step, &sent.transaction_hash), (step, &own.transaction_hash));
    }
    // Brought again and again, it is recorded once.
    let (_, events) = live(World::new(Plot::PayerDeposits(PayerPlot::RefusedThenLost))).await;
    assert_eq!(types(&events).iter().filter(|name| **name == "PayerTransactionSent").count(), 1);
}

#[tokio::test]
async fn faults_change_nothing_about_payer_deposits() {
    for plot in ALL {
        for one_in in 4..10 {
            let (world, mut events) =
                live(World { fault_one_in: Some(one_in), ..World::new(Plot::PayerDeposits(plot)) }).await;
            // A verifier that does not answer at once is the one fault that is on record.
            events.retain(|event| !matches!(event, PaymentEvent::FulfillmentFinalized(_)));
            check(plot, &world, &events, &format!("a fault at one call in {one_in}"));
        }
    }
}

#[tokio::test]
async fn an_unsold_payment_is_at_rest_only_when_its_deposit_can_not_land_any_more() {
    for plot in [PayerPlot::Unsold, PayerPlot::UnsoldAndSent] {
        let (world, events) = live(World::new(Plot::PayerDeposits(plot))).await;
        assert_eq!(failure(&events).refund, RefundDue::Nothing);
        assert_eq!(failure(&events).failed_at, at(10), "the payer is told at once");
        let least = if plot == PayerPlot::Unsold { 30 } else { 100 };
        assert!(world.state.lock().unwrap().now > least);
    }
}

#[tokio::test]
async fn a_refusal_is_told_once_the_window_is_over_and_only_if_it_stayed() {
    let (world, events) = live(World::new(Plot::PayerDeposits(PayerPlot::Refused))).await;
    let context = failure(&events).failure.blockchain_context.as_ref();
    assert_eq!(context.and_then(|context| context.revert_reason.as_deref()), Some(REASON));
    assert_eq!(failure(&events).refund, RefundDue::Nothing);
    {
        let state = world.state.lock().unwrap();
        assert!(state.now > 30, "the payer could still have sent it");
        assert!(state.payer_deposit.looks > Options::default().refusals_max, "it was asked again until then");
    }
    // What was mended is not blamed.
    let (_, events) = live(World::new(Plot::PayerDeposits(PayerPlot::RefusedThenLost))).await;
    assert_eq!(failure(&events).failure.blockchain_context, None);
}

#[tokio::test]
async fn a_reservation_that_somebody_else_sent_is_adopted_while_the_settler_can_deliver() {
    let (world, events) = live(World::new(Plot::PayerDeposits(PayerPlot::Usurped))).await;
    assert!(types(&events).ends_with(&["FulfillmentConfirmed", "EscrowReleased"]));
    assert!(world.state.lock().unwrap().now < 30, "not only once the deposit's window is over");
}

#[tokio::test]
async fn money_that_nobody_can_be_named_for_any_more_goes_back_after_its_window() {
    for plot in [PayerPlot::NoSubmitter, PayerPlot::NeverReserved] {
        let (world, events) = live(World::new(Plot::PayerDeposits(plot))).await;
        let failed = failure(&events);
        assert_eq!(failed.refund, RefundDue::AfterWindow, "{plot:?}");
        assert!(failed.failed_at > at(30), "{plot:?}");
        let context = failed.failure.blockchain_context.as_ref().unwrap();
        assert_eq!(context.transaction_hash.as_ref(), Some(&inclusion(5).transaction_hash), "{plot:?}");
        assert!(world.state.lock().unwrap().now > 100, "{plot:?}");
        // In one commit: no gateway ever finds the money without the failure that sends it back.
        let commits = world.journal.load(&StreamId::from(submission().payment_id)).await.unwrap();
        let commit = commits.iter().find(|commit| types_of(commit).contains(&"EscrowOpened")).unwrap();
        assert_eq!(types_of(commit), ["EscrowOpened", "Failed"], "{plot:?}");
    }
}

fn types_of(commit: &Recorded) -> Vec<&'static str> {
    commit.payment_events().map(PaymentEvent::type_name).collect()
}

#[tokio::test]
async fn two_engines_on_one_payer_deposit_reserve_it_once() {
    for plot in ALL {
        let world = Arc::new(World::new(Plot::PayerDeposits(plot)));
        let payment = submit(&world).await;
        let (one, two) = (engine(&world), engine(&world));
        let (one, two) = tokio::join!(one.drive(&payment), two.drive(&payment));
        one.unwrap();
        two.unwrap();
        let events = history(&world, &payment).await;
        check(plot, &world, &events, "driven twice");
    }
}
