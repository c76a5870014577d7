//! Decisions about a deposit address: the money that is awaited there, and what is there, or at its batch's address, of a payment that
//! failed.

use events::{
    Failure, PaymentEvent,
    event::{AddressFunded, AddressHeld, DepositRuledOut, Failed, RefundDue},
    failure::{Domain, RetryClassification},
    time::Timestamp,
};

use super::Decided;
use crate::{
    payment::{Payment, Stage},
    ports::{AddressFunds, AddressState},
};

/// Enough is at the address.
pub(super) fn fund(payment: &Payment, funds: AddressFunds, quote_deadline: Timestamp, at: Timestamp) -> Decided {
    let permitted = payment.submitted.authorization.permitted();
    let amount = funds.amount.filter(|amount| payment.stage() == Stage::Funding && *amount >= permitted)?;
    let block_number = funds.block_number;
    Some(vec![PaymentEvent::AddressFunded(AddressFunded { amount, block_number, quote_deadline, funded_at: at })])
}

/// Too little came in time.
pub(super) fn miss(payment: &Payment, funds: AddressFunds, at: Timestamp) -> Decided {
    if payment.stage() != Stage::Funding {
        return None;
    }
    let asked = payment.submitted.authorization.permitted();
    let message = match funds.amount {
        None => "nothing came to the deposit address in time; what comes later goes back".to_owned(),
        Some(came) if came >= asked => {
            "the money was seen at the deposit address too late to ask for quotes; it goes back".to_owned()
        }
        Some(came) => format!("{came} of {asked} came to the deposit address in time; it goes back"),
    };
    let failure = Failure {
        code: Failure::DEPOSIT_NOT_RECEIVED.to_owned(),
        message,
        domain: Some(Domain::PaymentGateway),
        retry_classification: Some(RetryClassification::RetryWithNewRequestId),
        blockchain_context: None,
    };
    Some(vec![PaymentEvent::Failed(Box::new(Failed { failure, refund: RefundDue::Nothing, failed_at: at }))])
}

/// The address was looked at after the failure, while something may be there.
pub(super) fn observe(payment: &Payment, state: AddressState, at: Timestamp) -> Decided {
    let is_held = payment.held.is_some();
    match payment.stage() {
        Stage::Watching if payment.leaves_money_outside() => {}
        Stage::Refunding if is_held => {}
        _ => return None,
    }
    let held = |amount, block_number| PaymentEvent::AddressHeld(AddressHeld { amount, block_number, held_at: at });
    Some(match state {
        // Where it was held, the token has taken so much of it that nothing is left to give back.
        AddressState::Empty if !is_held || payment.refund.live.is_empty() => {
            vec![PaymentEvent::DepositRuledOut(DepositRuledOut { ruled_out_at: at, left: None })]
        }
        AddressState::Left { amount } if is_held && payment.refund.live.is_empty() => {
            vec![PaymentEvent::DepositRuledOut(DepositRuledOut { ruled_out_at: at, left: Some(amount) })]
        }
        AddressState::Held { amount, block_number } if !is_held => vec![held(amount, block_number)],
        AddressState::GivenBack(refunded) if !is_held => {
            let (amount, block_number) = (refunded.amount, refunded.inclusion.block_number);
            vec![held(amount, block_number), PaymentEvent::EscrowRefunded(refunded)]
        }
        AddressState::GivenBack(refunded) => vec![PaymentEvent::EscrowRefunded(refunded)],
        AddressState::Open | AddressState::Empty | AddressState::Held { .. } | AddressState::Left { .. } => Vec::new(),
    })
}
