//! Purchases of stock clients on Solana in the state machine (ADR 160): nothing is outside of the escrow before the journal says that the
//! buyer's transfer is sent, and from then on it is the merchant's.

use events::event::SolanaPurchase;
use sagas::ports::AddressState;

use super::*;

fn purchased() -> PaymentEvent {
    let PaymentEvent::Submitted(submitted) = submitted() else { unreachable!() };
    let account = |byte: u8| events::Account::from_bytes(events::Family::Solana, &[byte; 32]).unwrap();
    let purchase = SolanaPurchase {
        amount: amount("1100"),
        buyer: account(7),
        pay_to: account(8),
        fee_payer: account(9),
        delivery_seconds: 60,
        refund_seconds: 900,
        transaction: "0x02".to_owned(),
    };
    let authorization = events::event::Authorization::SolanaX402Exact(purchase);
    PaymentEvent::Submitted(Box::new(events::event::Submitted { authorization, ..*submitted }))
}

fn send(transaction_hash: &str) -> Command {
    Command::RecordPayerTransaction {
        step: PayerStep::Transfer,
        transaction_hash: transaction_hash.to_owned(),
        at: at(11),
    }
}

fn bought() -> Vec<PaymentEvent> {
    vec![purchased(), auction_closed(), awarded()]
}

/// With the transfer journaled.
fn sent() -> Vec<PaymentEvent> {
    let bought = bought();
    let events = given(&bought).when(send("5sig"));
    assert_eq!(types(&events), ["PayerTransactionSent"]);
    [bought, events].concat()
}

#[test]
fn the_transfer_is_journaled_once_and_is_the_buyers_to_have_signed() {
    let payment = given(&sent()).0;
    assert_eq!((payment.stage(), payment.transfer.as_deref()), (Stage::Awarded, Some("5sig")));
    assert!(given(&sent()).when(send("5sig")).is_empty());
    let again = given(&bought()).when(send("5sig"));
    assert!(evolve(fold(&sent()).unwrap(), &again[0]).is_err());
    // Who signs otherwise has no such transfer, and before there is a winner none is sent.
    given(&[submitted(), auction_closed(), awarded()]).refuses(send("5sig"));
    given(&[purchased()]).refuses(send("5sig"));
}

#[test]
fn nothing_is_looked_for_of_a_purchase_whose_transfer_was_not_sent() {
    let unsold = vec![purchased(), auction_closed(), failed(RefundDue::Nothing)];
    assert_eq!(given(&unsold).0.stage(), Stage::Rest);
    let events = given(&bought()).when(Command::MissDepositWindow { at: at(31) });
    let (failure, refund) = failure(&events);
    assert_eq!(
        (failure.retry_classification, refund),
        (Some(RetryClassification::RetryWithNewRequestId), &RefundDue::Nothing)
    );
}

/// A copy of the journal may be from before the transfer was journaled.
#[test]
fn of_a_copy_nobody_says_that_nothing_was_paid() {
    for history in [vec![purchased()], bought()] {
        let events = given(&history).when(Command::ForgoDeposit { at: at(31) });
        let (reason, _) = failure(&events);
        assert_eq!(reason.retry_classification, Some(RetryClassification::ReconcileThenDecide));
        assert!(reason.message.contains("if anything"), "{}", reason.message);
    }
}

#[test]
fn what_was_sent_is_looked_for_and_nobody_is_told_to_pay_anew() {
    let refuse = Command::RefuseDeposit { context: context(), at: at(31) };
    for command in [refuse, Command::MissDepositWindow { at: at(31) }] {
        let events = given(&sent()).when(command);
        let (reason, refund) = failure(&events);
        assert_eq!(refund, &RefundDue::Nothing);
        assert_eq!(reason.retry_classification, Some(RetryClassification::ReconcileThenDecide));
        let history = [sent(), events].concat();
        assert_eq!(given(&history).0.stage(), Stage::Withdrawn);
        let told = [history.clone(), given(&history).when(Command::TellWinner { at: at(32) })].concat();
        assert_eq!(given(&told).0.stage(), Stage::Watching);
        let looked = |state| Command::ObserveAddress { state, at: at(33) };
        // It never landed, or the merchant has it already.
        let empty = [told.clone(), given(&told).when(looked(AddressState::Empty))].concat();
        assert_eq!((types(&empty).last(), given(&empty).0.stage()), (Some(&"DepositRuledOut"), Stage::Rest));
        // It did, and is collected.
        let held = AddressState::Held { amount: amount("1100"), block_number: 9 };
        let held = [told.clone(), given(&told).when(looked(held))].concat();
        assert_eq!((types(&held).last(), given(&held).0.stage()), (Some(&"AddressHeld"), Stage::Refunding));
    }
}
