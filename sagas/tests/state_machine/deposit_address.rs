//! Deposit addresses in the state machine: funded, or not; and what is there after a failure, given back once.

use sagas::ports::{AddressFunds, AddressState};

use super::*;

fn funds(units: Option<&str>) -> AddressFunds {
    AddressFunds { amount: units.map(amount), block_number: 5, block_time: 0 }
}

fn fund(units: Option<&str>) -> Command {
    Command::FundAddress { funds: funds(units), quote_deadline: at(10), at: at(5) }
}

fn observe(state: AddressState) -> Command {
    Command::ObserveAddress { state, at: at(31) }
}

fn holds() -> AddressState {
    AddressState::Held { amount: amount("1100"), block_number: 9 }
}

fn given_back() -> AddressState {
    let PaymentEvent::EscrowRefunded(refund) = refunded() else { unreachable!() };
    AddressState::GivenBack(refund)
}

/// Submitted, funded, and then unsold.
fn unsold() -> Vec<PaymentEvent> {
    vec![address_submitted(), address_funded("1100"), auction_closed(), failed(RefundDue::Nothing)]
}

#[test]
fn the_auction_begins_when_enough_is_there_and_not_before() {
    let waiting = [address_submitted()];
    assert_eq!(given(&waiting).0.stage(), Stage::Funding);
    for command in [fund(None), fund(Some("1099")), judgement(true), Command::PrepareDeposit(transaction(1))] {
        given(&waiting).refuses(command);
    }
    for event in [address_funded("1099"), auction_closed(), awarded(), address_held(), ruled_out()] {
        assert!(evolve(fold(&waiting).unwrap(), &event).is_err(), "{event:?}");
    }
    let events = given(&waiting).when(fund(Some("1250")));
    assert_eq!(types(&events), ["AddressFunded"]);
    let funded = [waiting.to_vec(), events].concat();
    let payment = given(&funded).0;
    assert_eq!((payment.stage(), payment.request_for_quotes().quote_deadline), (Stage::Auction, at(10)));
    given(&funded).refuses(fund(Some("1250")));
    given(&funded).refuses(Command::MissFunds { funds: funds(None), at: at(21) });
    // Where a payer signs there is nothing to wait for.
    given(&[submitted()]).refuses(fund(Some("1100")));
}

#[test]
fn all_that_is_there_is_deposited() {
    let payment = given(&[address_submitted(), address_funded("1250"), auction_closed(), awarded()]).0;
    let award = payment.award.as_deref().unwrap();
    assert_eq!(payment.deposit_up_to(award), amount("1250"));
    assert_eq!(payment.drawn_whole(), Some(amount("1250")));
}

#[test]
fn too_little_fails_the_payment_and_says_so() {
    for (came, says) in [(None, "nothing came"), (Some("1099"), "1099 of 1100 came"), (Some("1100"), "too late")] {
        let events = given(&[address_submitted()]).when(Command::MissFunds { funds: funds(came), at: at(21) });
        let (reason, refund) = failure(&events);
        assert_eq!((reason.code.as_str(), refund), ("DEPOSIT_NOT_RECEIVED", &RefundDue::Nothing));
        assert!(reason.message.contains(says), "{}", reason.message);
        let history = [vec![address_submitted()], events].concat();
        assert_eq!(given(&history).0.stage(), Stage::Watching);
        given(&history).refuses(fund(Some("1100")));
    }
}

#[test]
fn what_is_there_after_a_failure_is_given_back_once_by_whomever() {
    assert_eq!(given(&unsold()).0.stage(), Stage::Watching);
    assert_eq!(given(&unsold()).when(observe(AddressState::Open)), []);
    let empty = [unsold(), given(&unsold()).when(observe(AddressState::Empty))].concat();
    assert_eq!((types(&empty).last(), given(&empty).0.stage()), (Some(&"DepositRuledOut"), Stage::Rest));
    // Somebody was faster.
    let by_others = [unsold(), given(&unsold()).when(observe(given_back()))].concat();
    assert_eq!(types(&by_others)[4..], ["AddressHeld", "EscrowRefunded"]);
    assert_eq!(given(&by_others).0.stage(), Stage::Rest);

    let held = [unsold(), given(&unsold()).when(observe(holds()))].concat();
    assert_eq!((types(&held).last(), given(&held).0.stage()), (Some(&"AddressHeld"), Stage::Refunding));
    assert_eq!(given(&held).when(observe(holds())), []);
    let signed = [held.clone(), given(&held).when(Command::PrepareRefund(transaction(1)))].concat();
    assert!(evolve(fold(&held).unwrap(), &released()).is_err(), "nobody is paid out of what was never in escrow");
    // It is not gone before what was signed for it is.
    assert_eq!(given(&signed).when(observe(AddressState::Empty)), []);
    let returned = [signed, given(&held).when(observe(given_back()))].concat();
    assert_eq!(given(&returned).0.stage(), Stage::Rest);
    // A token that takes its holders' money leaves nothing to be given back.
    let seized = [held.clone(), given(&held).when(observe(AddressState::Empty))].concat();
    assert_eq!((types(&seized).last(), given(&seized).0.stage()), (Some(&"DepositRuledOut"), Stage::Rest));
    // And a refund account that takes nothing has it stay where it is, which is said.
    let left = [held.clone(), given(&held).when(observe(AddressState::Left { amount: amount("1100") }))].concat();
    let Some(PaymentEvent::DepositRuledOut(ruled_out)) = left.last() else { panic!("{left:?}") };
    assert_eq!((ruled_out.left, given(&left).0.stage()), (Some(amount("1100")), Stage::Rest));
    for history in [empty, by_others, returned, seized, left] {
        for command in [observe(holds()), observe(given_back()), Command::PrepareRefund(transaction(2))] {
            given(&history).refuses(command);
        }
    }
}

#[test]
fn a_payment_whose_deposit_failed_has_its_money_at_the_address_still() {
    let awarded = vec![address_submitted(), address_funded("1100"), auction_closed(), awarded()];
    let events = given(&awarded).when(Command::MissDepositWindow { at: at(31) });
    let message = &failure(&events).0.message;
    assert_eq!(types(&events), ["AwardWithdrawn", "Failed"], "{message}");
    let refuse = given(&awarded).when(Command::RefuseDeposit { context: context(), at: at(31) });
    assert!(failure(&refuse).0.message.contains("what is at the deposit address goes back"));
    let told = [awarded, events, vec![winner_told()]].concat();
    assert_eq!(given(&told).0.stage(), Stage::Watching);
    assert_eq!(types(&given(&told).when(observe(holds()))), ["AddressHeld"]);
    // Nobody looks at an address that there is none of.
    given(&[submitted(), auction_closed(), failed(RefundDue::Nothing)]).refuses(observe(holds()));
}
