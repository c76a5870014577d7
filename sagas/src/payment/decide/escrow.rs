//! Decisions about the deposit that puts the payer's funds into escrow, and about its end without one.

use events::{
    Failure, PaymentEvent,
    event::{
        AwardWithdrawn, DepositMined, DepositRuledOut, EscrowOpened, EscrowSecured, Failed, Inclusion, PayerStep,
        PayerTransactionSent, RefundDue, TransactionAbandoned, TransactionPrepared, WithdrawalCause,
    },
    failure::{BlockchainContext, Domain, RetryClassification},
    time::Timestamp,
};

use super::Decided;
use crate::{
    payment::{DEPOSIT_ATTEMPTS_MAX, Payment, Stage},
    ports::DepositState,
};

/// One of the payer's own transactions was sent. Those that it signed can be, and each is recorded once.
pub(super) fn payer_sent(payment: &Payment, step: PayerStep, transaction_hash: String, at: Timestamp) -> Decided {
    if payment.stage() != Stage::Awarded || !payment.has_signed(step, &transaction_hash) {
        return None;
    }
    let chain_id = payment.submitted.escrow.chain_id.clone();
    let sent = PayerTransactionSent { step, chain_id, transaction_hash, sent_at: at };
    Some(match payment.payer_sent.contains(&step) {
        true => Vec::new(),
        false => vec![PaymentEvent::PayerTransactionSent(sent)],
    })
}

/// A deposit was signed.
pub(super) fn prepare(payment: &Payment, transaction: TransactionPrepared) -> Decided {
    let is_next = payment.stage() == Stage::Awarded && transaction.attempt == payment.deposit.count + 1;
    is_next.then(|| vec![PaymentEvent::DepositPrepared(transaction)])
}

/// The deposit under way was signed again.
pub(super) fn reprice(payment: &Payment, transaction: TransactionPrepared) -> Decided {
    let replaces = payment.stage() == Stage::Depositing && payment.deposit.replaced_by(&transaction).is_ok();
    replaces.then(|| vec![PaymentEvent::DepositRepriced(transaction)])
}

/// The source chain keeps refusing the deposit.
pub(super) fn refuse(payment: &Payment, context: BlockchainContext, at: Timestamp) -> Decided {
    // What the payer's own transaction lacks is the payer's to pay for.
    let is_ours = !payment.submitted.authorization.is_payer_deposit();
    let message = match &context.estimated_gas_needed {
        Some(_) if is_ours => format!("the deposit needs more gas than one may take; {}", payment.untaken()),
        _ if payment.funded.is_some() || payment.transfer.is_some() => {
            format!("the source chain refuses the deposit; {}", payment.untaken())
        }
        _ => "the source chain refuses the deposit; check balance and allowance of the payer".to_owned(),
    };
    (payment.stage() == Stage::Awarded).then(|| not_deposited(&message, Some(context), at))
}

/// The payer's own transaction deposited, and no settler can be named any more; or the escrow is reserved for an award that the
/// journal lost.
pub(super) fn strand(payment: &Payment, opened: EscrowOpened, at: Timestamp) -> Decided {
    let own = payment.award.as_ref().map(|award| award.event.quote_hash);
    match payment.stage() {
        // It was settled between two looks, and the next one finds it under its own quote.
        Stage::Funding | Stage::Auction | Stage::Awarded | Stage::Depositing | Stage::Watching
            if opened.reserved_for.is_some() && opened.reserved_for == own =>
        {
            Some(Vec::new())
        }
        Stage::Funding | Stage::Auction | Stage::Awarded | Stage::Depositing if opened.reserved_for.is_some() => {
            Some(reserved_for_a_lost_award(opened, at))
        }
        Stage::Auction | Stage::Awarded if payment.submitted.authorization.is_payer_deposit() => {
            Some(stranded(opened, at))
        }
        Stage::Watching => Some(vec![PaymentEvent::EscrowOpened(opened)]),
        _ => None,
    }
}

/// No deposit was made before the deadline, and none can be made any more.
pub(super) fn miss_window(payment: &Payment, at: Timestamp) -> Decided {
    match payment.stage() {
        Stage::Watching => Some(vec![PaymentEvent::DepositRuledOut(DepositRuledOut { ruled_out_at: at, left: None })]),
        Stage::Awarded => Some(not_deposited("the deposit could not be made before its deadline", None, at)),
        _ => None,
    }
}

/// No deposit was made of a payment that the copy of the journal has before its deposit, and none can be made any more.
pub(super) fn forgo(payment: &Payment, at: Timestamp) -> Decided {
    // That a buyer's transfer was sent may be what the copy does not know.
    let (untaken, classification) = match payment.submitted.authorization.purchase() {
        Some(_) => (
            "what the buyer has paid, if anything, is the merchant's, on the chain it was paid on",
            RetryClassification::ReconcileThenDecide,
        ),
        None => (payment.untaken(), RetryClassification::RetryWithNewRequestId),
    };
    let failure = Failure {
        code: Failure::SETTLEMENT_FAILED.to_owned(),
        message: format!(
            "the gateway's journal was restored from a copy while the payment was under way, and the deposit was not made \
             before its deadline; {untaken}"
        ),
        domain: Some(Domain::PaymentGateway),
        retry_classification: Some(classification),
        blockchain_context: None,
    };
    match payment.stage() {
        Stage::Funding | Stage::Auction => {
            Some(vec![PaymentEvent::Failed(Box::new(Failed { failure, refund: RefundDue::Nothing, failed_at: at }))])
        }
        Stage::Awarded => Some(withdrawn(WithdrawalCause::NotDeposited, failure, at)),
        _ => None,
    }
}

/// Every attempt was given up, and none can land any more.
pub(super) fn exhaust(payment: &Payment, at: Timestamp) -> Decided {
    let exhausted = payment.stage() == Stage::Awarded
        && payment.deposit.count >= DEPOSIT_ATTEMPTS_MAX
        && !payment.submitted.authorization.is_payer_deposit();
    let message = "the deposit was tried as often as it may be, and none of its transactions can land any more";
    exhausted.then(|| not_deposited(&format!("{message}; {}", payment.untaken()), None, at))
}

/// The deposit is in escrow, whoever sent it.
pub(super) fn adopt(payment: &Payment, secured: EscrowSecured) -> Decided {
    (payment.stage() == Stage::Awarded).then(|| vec![PaymentEvent::EscrowSecured(secured)])
}

/// The deposit under way is in a block that is not settled yet.
pub(super) fn observe_mined(payment: &Payment, inclusion: Inclusion) -> Decided {
    if payment.stage() != Stage::Depositing || !payment.is_deposit_under_way(&inclusion.transaction_hash) {
        return None;
    }
    Some(match payment.deposit_mined.as_ref() == Some(&inclusion) {
        true => Vec::new(),
        false => vec![PaymentEvent::DepositMined(DepositMined { inclusion })],
    })
}

/// The deposit under way was looked at.
pub(super) fn observe(payment: &Payment, state: DepositState, at: Timestamp) -> Decided {
    let attempt = payment.deposit.newest().filter(|_| payment.stage() == Stage::Depositing)?.attempt;
    Some(observed(state, attempt, payment.untaken(), at))
}

fn observed(state: DepositState, attempt: u32, untaken: &str, at: Timestamp) -> Vec<PaymentEvent> {
    match state {
        DepositState::Pending => Vec::new(),
        DepositState::Secured(secured) => vec![PaymentEvent::EscrowSecured(secured)],
        DepositState::Reverted(context) => {
            not_deposited(&format!("the deposit was refused on the source chain; {untaken}"), Some(*context), at)
        }
        DepositState::Superseded { evidence } => {
            vec![PaymentEvent::DepositAbandoned(TransactionAbandoned { attempt, evidence, abandoned_at: at })]
        }
        DepositState::Expired { evidence: _ } => {
            not_deposited(&format!("the deposit did not land before its deadline; {untaken}"), None, at)
        }
        DepositState::Stranded(opened) => stranded(opened, at),
    }
}

/// The payer's deposit is in escrow, and nobody can be named for it any more.
fn stranded(opened: EscrowOpened, at: Timestamp) -> Vec<PaymentEvent> {
    let message = "the deposit could not be reserved for the settler before its deadline; the escrow is returned";
    opened_and_failed(opened, message, Domain::Blockchain, RetryClassification::RetryWithNewRequestId, at)
}

/// The deposit is in escrow for a settler that the journal does not know any more, who may have delivered.
fn reserved_for_a_lost_award(opened: EscrowOpened, at: Timestamp) -> Vec<PaymentEvent> {
    let message = "the gateway's journal was restored from a copy in which the award is missing that the deposit was made \
                   for; that settler may have delivered and be paid, otherwise the escrow is returned when its refund \
                   window opens";
    opened_and_failed(opened, message, Domain::PaymentGateway, RetryClassification::ReconcileThenDecide, at)
}

fn opened_and_failed(
    opened: EscrowOpened,
    message: &str,
    domain: Domain,
    classification: RetryClassification,
    at: Timestamp,
) -> Vec<PaymentEvent> {
    let failure = Failure {
        code: Failure::SETTLEMENT_FAILED.to_owned(),
        message: message.to_owned(),
        domain: Some(domain),
        retry_classification: Some(classification),
        blockchain_context: Some(BlockchainContext {
            chain_id: opened.inclusion.chain_id.clone(),
            transaction_hash: Some(opened.inclusion.transaction_hash.clone()),
            block_number: Some(opened.inclusion.block_number),
            contract_address: None,
            revert_reason: None,
            gas_used: None,
            estimated_gas_needed: None,
        }),
    };
    let failed = Failed { failure, refund: RefundDue::AfterWindow, failed_at: at };
    vec![PaymentEvent::EscrowOpened(opened), PaymentEvent::Failed(Box::new(failed))]
}

/// The end of an award without a deposit, of which the winner is still to be told.
pub(super) fn withdrawn(cause: WithdrawalCause, failure: Failure, at: Timestamp) -> Vec<PaymentEvent> {
    vec![
        PaymentEvent::AwardWithdrawn(AwardWithdrawn { cause, withdrawn_at: at }),
        PaymentEvent::Failed(Box::new(Failed { failure, refund: RefundDue::Nothing, failed_at: at })),
    ]
}

fn not_deposited(message: &str, context: Option<BlockchainContext>, at: Timestamp) -> Vec<PaymentEvent> {
    let failure = Failure {
        code: Failure::SETTLEMENT_FAILED.to_owned(),
        message: message.to_owned(),
        domain: Some(Domain::Blockchain),
        retry_classification: Some(RetryClassification::RetryWithNewRequestId),
        blockchain_context: context,
    };
    withdrawn(WithdrawalCause::NotDeposited, failure, at)
}
