//! The fold of the deposit: its attempts, the escrow that it funds, and failure before the escrow is secured.

use events::event::{
    DepositMined, EscrowOpened, EscrowSecured, Failed, PayerStep, PayerTransactionSent, RefundDue,
    TransactionAbandoned, TransactionPrepared,
};

use super::{Followed, NOT_LEGAL};
use crate::payment::{Payment, Stage};

pub(super) fn payer_sent(payment: &mut Payment, stage: Stage, sent: &PayerTransactionSent) -> Followed {
    if stage != Stage::Awarded {
        return Err(NOT_LEGAL);
    }
    if !payment.has_signed(sent.step, &sent.transaction_hash) {
        return Err("the transaction is not one that the payer signed".into());
    }
    if payment.payer_sent.contains(&sent.step) {
        return Err("the payer's transaction is on record already".into());
    }
    payment.payer_sent.push(sent.step);
    if sent.step == PayerStep::Transfer {
        payment.transfer = Some(sent.transaction_hash.clone());
    }
    Ok(())
}

pub(super) fn prepared(payment: &mut Payment, stage: Stage, transaction: &TransactionPrepared) -> Followed {
    if stage != Stage::Awarded {
        return Err(NOT_LEGAL);
    }
    payment.deposit.begin(transaction)?;
    payment.alternates = Vec::new();
    Ok(())
}

pub(super) fn repriced(payment: &mut Payment, stage: Stage, transaction: &TransactionPrepared) -> Followed {
    if stage != Stage::Depositing {
        return Err(NOT_LEGAL);
    }
    Ok(payment.deposit.replace(transaction)?)
}

pub(super) fn abandoned(payment: &mut Payment, stage: Stage, abandoned: &TransactionAbandoned) -> Followed {
    if stage != Stage::Depositing {
        return Err(NOT_LEGAL);
    }
    payment.deposit.give_up(abandoned)?;
    payment.deposit_mined = None;
    Ok(())
}

pub(super) fn mined(payment: &mut Payment, stage: Stage, mined: &DepositMined) -> Followed {
    if stage != Stage::Depositing {
        return Err(NOT_LEGAL);
    }
    if !payment.is_deposit_under_way(&mined.inclusion.transaction_hash) {
        return Err("the transaction is not the deposit under way".into());
    }
    payment.deposit_mined = Some(mined.inclusion.clone());
    Ok(())
}

pub(super) fn secured(payment: &mut Payment, stage: Stage, secured: &EscrowSecured) -> Followed {
    if !matches!(stage, Stage::Awarded | Stage::Depositing) {
        return Err(NOT_LEGAL);
    }
    payment.secured = Some(secured.clone());
    payment.alternates = Vec::new();
    Ok(())
}

pub(super) fn opened(payment: &mut Payment, stage: Stage, opened: &EscrowOpened) -> Followed {
    if !matches!(stage, Stage::Funding | Stage::Auction | Stage::Awarded | Stage::Depositing | Stage::Watching) {
        return Err(NOT_LEGAL);
    }
    if opened.reserved_for.is_none() && !payment.submitted.authorization.is_payer_deposit() {
        return Err("a deposit under this scheme is reserved at once".into());
    }
    if opened.reserved_for.is_some()
        && opened.reserved_for == payment.award.as_ref().map(|award| award.event.quote_hash)
    {
        return Err("it is reserved for the award, which is not lost".into());
    }
    payment.opened = Some(opened.clone());
    Ok(())
}

pub(super) fn ruled_out(payment: &mut Payment, stage: Stage) -> Followed {
    let is_over = stage == Stage::Refunding && payment.held.is_some() && payment.refund.live.is_empty();
    if stage != Stage::Watching && !is_over {
        return Err(NOT_LEGAL);
    }
    payment.ruled_out = true;
    Ok(())
}

/// A failure before the escrow is secured.
pub(super) fn failed(payment: &mut Payment, failed: &Failed) -> Followed {
    match (&failed.refund, &payment.opened) {
        (RefundDue::AfterWindow, Some(_)) if payment.withdrawn.is_some() => {
            return Err("money is in escrow, and the award was taken back without it".into());
        }
        (RefundDue::Nothing, None) | (RefundDue::AfterWindow, Some(_)) => {}
        (_, None) => return Err("no money was in escrow".into()),
        (_, Some(_)) => return Err("money is in escrow and must be returned after its window".into()),
    }
    payment.offer = None;
    payment.alternates = Vec::new();
    payment.failed = Some(Box::new(failed.clone()));
    Ok(())
}
