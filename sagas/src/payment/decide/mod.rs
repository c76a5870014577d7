//! Turning commands into events.

use events::{
    Failure, PaymentEvent,
    event::{
        AttestationAwaited, AuctionClosed, AwardWithdrawn, DepositRuledOut, EscrowOpened, EscrowRefunded,
        EscrowReleased, Failed, FulfillmentConfirmed, FulfillmentSeen, Inclusion, QuoteAwarded, RefundDue,
        SelectorAnswered, SelectorAsked, TransactionAbandoned, WinnerTold, WithdrawalCause,
    },
    failure::{BlockchainContext, Domain, RetryClassification},
    quote::SignedQuote,
    selection::SignedChoice,
    time::Timestamp,
};

use super::{Command, DEPOSIT_ATTEMPTS_MAX, Payment, Stage};
use crate::{
    auction::Judgement,
    ports::{DepositState, EscrowState},
};

/// A command that the payment's state does not allow. The caller acted on a stale state, or is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{command} is not allowed in stage {stage:?}")]
pub struct Rejected {
    /// The command.
    pub command: &'static str,
    /// The stage the payment is in.
    pub stage: Stage,
}

/// The events that record `command`; none when it says nothing new.
///
/// # Errors
/// [`Rejected`] when the payment's stage does not allow the command. Terminal states allow nothing that would change
/// them: a failed payment never completes and a completed one never fails.
pub fn decide(payment: &Payment, command: Command) -> Result<Vec<PaymentEvent>, Rejected> {
    let stage = payment.stage();
    let rejected = |command| Err(Rejected { command, stage });
    match command {
        Command::CloseAuction { judgement, at } => match stage {
            Stage::Auction if payment.submitted.collected_quote.is_none() && payment.auction.is_none() => {
                Ok(close_auction(*judgement, at))
            }
            _ => rejected("CloseAuction"),
        },
        Command::TakeChoice { choice, at } => match stage {
            Stage::Auction => take_choice(payment, choice, at).map_or_else(|| rejected("TakeChoice"), Ok),
            _ => rejected("TakeChoice"),
        },
        Command::MissChoice { at } => match (stage, payment.selection()) {
            (Stage::Auction, Some(_)) => {
                // The payer's own transaction may be on its way.
                let message = match payment.submitted.authorization.is_own_deposit() {
                    true => {
                        "the quote selector gave no valid choice in time; a deposit that lands all the same goes back"
                    }
                    false => "the quote selector gave no valid choice in time; nothing was taken from the payer",
                };
                Ok(vec![unselected(Failure::SELECTOR_UNAVAILABLE, message, at)])
            }
            _ => rejected("MissChoice"),
        },
        Command::LoseWinner { refusal, at } => match stage {
            Stage::Awarded if payment.deposit.count == 0 => Ok(winner_lost(payment, refusal, at)),
            _ => rejected("LoseWinner"),
        },
        Command::TellWinner { at } => match stage {
            Stage::Withdrawn => Ok(vec![PaymentEvent::WinnerTold(WinnerTold { told_at: at })]),
            _ => rejected("TellWinner"),
        },
        Command::PrepareDeposit(transaction) => match stage {
            Stage::Awarded if transaction.attempt == payment.deposit.count + 1 => {
                Ok(vec![PaymentEvent::DepositPrepared(transaction)])
            }
            _ => rejected("PrepareDeposit"),
        },
        Command::RepriceDeposit(transaction) => match stage {
            Stage::Depositing if payment.deposit.replaced_by(&transaction).is_ok() => {
                Ok(vec![PaymentEvent::DepositRepriced(transaction)])
            }
            _ => rejected("RepriceDeposit"),
        },
        Command::RefuseDeposit { context, at } => match stage {
            Stage::Awarded => {
                let message = match &context.estimated_gas_needed {
                    None => "the source chain refuses the deposit; check balance and allowance of the payer",
                    Some(_) => "the deposit needs more gas than one may take; nothing was taken from the payer",
                };
                let class = RetryClassification::RetryWithNewRequestId;
                Ok(not_deposited(message, class, Some(*context), at))
            }
            _ => rejected("RefuseDeposit"),
        },
        Command::StrandDeposit { opened, at } => match stage {
            Stage::Awarded if payment.submitted.authorization.is_own_deposit() => Ok(stranded(opened, at)),
            Stage::Watching => Ok(vec![PaymentEvent::EscrowOpened(opened)]),
            _ => rejected("StrandDeposit"),
        },
        Command::MissDepositWindow { at } => match stage {
            Stage::Watching => Ok(vec![PaymentEvent::DepositRuledOut(DepositRuledOut { ruled_out_at: at })]),
            Stage::Awarded => {
                let message = "the deposit could not be made before its deadline";
                let class = RetryClassification::RetryWithNewRequestId;
                Ok(not_deposited(message, class, None, at))
            }
            _ => rejected("MissDepositWindow"),
        },
        Command::ExhaustDeposit { at } => match stage {
            Stage::Awarded
                if payment.deposit.count >= DEPOSIT_ATTEMPTS_MAX
                    && !payment.submitted.authorization.is_own_deposit() =>
            {
                let message = "the deposit was tried as often as it may be, and none of its transactions can land any more; \
                               nothing was taken from the payer";
                let class = RetryClassification::RetryWithNewRequestId;
                Ok(not_deposited(message, class, None, at))
            }
            _ => rejected("ExhaustDeposit"),
        },
        Command::AdoptDeposit(secured) => match stage {
            Stage::Awarded => Ok(vec![PaymentEvent::EscrowSecured(secured)]),
            _ => rejected("AdoptDeposit"),
        },
        Command::ObserveDeposit { state, at } => match (stage, payment.deposit.newest()) {
            (Stage::Depositing, Some(live)) => Ok(observe_deposit(state, live.attempt, at)),
            _ => rejected("ObserveDeposit"),
        },
        Command::ObserveDelivery(inclusion) => match stage {
            Stage::Secured | Stage::Finalizing if payment.seen.as_ref() != Some(&inclusion) => {
                Ok(vec![PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion })])
            }
            Stage::Finalizing => Ok(Vec::new()),
            _ => rejected("ObserveDelivery"),
        },
        Command::AwaitAttestation { inclusion, at } => match stage {
            Stage::Secured | Stage::Finalizing => Ok(unattested(payment, inclusion, at)),
            _ => rejected("AwaitAttestation"),
        },
        Command::ConfirmDelivery { inclusion, attestation, at, release_from } => match stage {
            Stage::Secured | Stage::Finalizing => {
                let mut events = seen_there(payment, &inclusion);
                let release_from = Some(release_from);
                let confirmed = FulfillmentConfirmed { inclusion, attestation, confirmed_at: at, release_from };
                events.push(PaymentEvent::FulfillmentConfirmed(confirmed));
                Ok(events)
            }
            _ => rejected("ConfirmDelivery"),
        },
        Command::FailUndelivered { attestation, at } => match stage {
            Stage::Secured | Stage::Finalizing => {
                let refund = match attestation {
                    Some(attestation) => RefundDue::ByNonDelivery { attestation },
                    None => RefundDue::AfterWindow,
                };
                let failure = Failure {
                    code: Failure::SETTLEMENT_FAILED.to_owned(),
                    message: "the settler did not deliver before the deadline; the escrow is returned".to_owned(),
                    domain: Some(Domain::SettlerAgent),
                    retry_classification: Some(RetryClassification::RetryWithNewRequestId),
                    blockchain_context: undeliverable(payment),
                };
                Ok(vec![PaymentEvent::Failed(Box::new(Failed { failure, refund, failed_at: at }))])
            }
            _ => rejected("FailUndelivered"),
        },
        Command::FailUnattested { inclusion, at } => match stage {
            Stage::Secured | Stage::Finalizing => {
                let failed = delivered_not_attested(payment, &inclusion, at);
                let mut events = unattested(payment, inclusion, at);
                events.push(failed);
                Ok(events)
            }
            _ => rejected("FailUnattested"),
        },
        Command::ObserveEscrow { state, claims } => match (stage, state) {
            (Stage::Completed | Stage::Refunding, EscrowState::Released(inclusion)) => {
                Ok(vec![PaymentEvent::EscrowReleased(EscrowReleased { inclusion, claims })])
            }
            (Stage::Completed | Stage::Refunding, EscrowState::Refunded(refunded)) => {
                Ok(vec![PaymentEvent::EscrowRefunded(EscrowRefunded { claims, ..refunded })])
            }
            (Stage::Completed | Stage::Refunding, EscrowState::Absent | EscrowState::Held | EscrowState::Lapsed) => {
                Ok(Vec::new())
            }
            _ => rejected("ObserveEscrow"),
        },
        Command::PrepareRelease(transaction) => match stage {
            Stage::Completed if payment.release.live.is_empty() && transaction.attempt == payment.release.count + 1 => {
                Ok(vec![PaymentEvent::ReleasePrepared(transaction)])
            }
            _ => rejected("PrepareRelease"),
        },
        Command::RepriceRelease(transaction) => match stage {
            Stage::Completed if payment.release.replaced_by(&transaction).is_ok() => {
                Ok(vec![PaymentEvent::ReleaseRepriced(transaction)])
            }
            _ => rejected("RepriceRelease"),
        },
        Command::AbandonRelease { evidence, at } => match (stage, payment.release.newest()) {
            (Stage::Completed, Some(live)) => Ok(vec![PaymentEvent::ReleaseAbandoned(TransactionAbandoned {
                attempt: live.attempt,
                evidence,
                abandoned_at: at,
            })]),
            _ => rejected("AbandonRelease"),
        },
        Command::PrepareRefund(transaction) => match stage {
            Stage::Refunding if payment.refund.live.is_empty() && transaction.attempt == payment.refund.count + 1 => {
                Ok(vec![PaymentEvent::RefundPrepared(transaction)])
            }
            _ => rejected("PrepareRefund"),
        },
        Command::RepriceRefund(transaction) => match stage {
            Stage::Refunding if payment.refund.replaced_by(&transaction).is_ok() => {
                Ok(vec![PaymentEvent::RefundRepriced(transaction)])
            }
            _ => rejected("RepriceRefund"),
        },
        Command::AbandonRefund { evidence, at } => match (stage, payment.refund.newest()) {
            (Stage::Refunding, Some(live)) => Ok(vec![PaymentEvent::RefundAbandoned(TransactionAbandoned {
                attempt: live.attempt,
                evidence,
                abandoned_at: at,
            })]),
            _ => rejected("AbandonRefund"),
        },
    }
}

fn close_auction(judgement: Judgement, at: Timestamp) -> Vec<PaymentEvent> {
    let Judgement { addressed, quotes, declines, dropped, held_policies, winner, offered } = judgement;
    let nobody = addressed.is_empty();
    let closed = AuctionClosed { addressed, quotes, declines, dropped, held_policies, closed_at: at };
    let closed = PaymentEvent::AuctionClosed(closed);
    let outcome = match winner {
        _ if !offered.is_empty() => {
            let documents = offered.iter().map(|signed| signed.document().to_owned()).collect();
            PaymentEvent::SelectorAsked(SelectorAsked { documents, asked_at: at })
        }
        Some(signed) => awarded(&signed, at),
        None => PaymentEvent::Failed(Box::new(Failed {
            failure: Failure {
                code: Failure::NO_QUOTES_RECEIVED.to_owned(),
                message: if nobody {
                    "nobody serves this corridor, or none of those that the request admits: no settler could be asked"
                } else {
                    "no settler offered a usable quote before the quote deadline"
                }
                .to_owned(),
                domain: Some(Domain::SettlerGateway),
                retry_classification: Some(RetryClassification::RetryWithNewRequestId),
                blockchain_context: None,
            },
            refund: RefundDue::Nothing,
            failed_at: at,
        })),
    };
    vec![closed, outcome]
}

fn awarded(signed: &SignedQuote, at: Timestamp) -> PaymentEvent {
    PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
        quote_id: signed.id(),
        quote_hash: signed.hash(),
        document: signed.document().to_owned(),
        awarded_at: at,
    }))
}

/// The choice and what follows from it; `None` when it is no valid choice of the quotes that were shown.
fn take_choice(payment: &Payment, choice: SignedChoice, at: Timestamp) -> Option<Vec<PaymentEvent>> {
    let request = payment.selection()?;
    let verified = choice.verify(&request.selector, request.shown()).ok()?;
    let outcome = match verified.quote_hash {
        Some(chosen) => {
            let index = request.quotes.iter().position(|quote| *quote == chosen)?;
            awarded(&SignedQuote::parse_stored(request.documents.get(index)?).ok()?, at)
        }
        None => {
            let reason = verified.reason.unwrap_or_default();
            let message = format!("the quote selector took none of the quotes: {reason}");
            unselected(Failure::NO_QUOTE_SELECTED, &message, at)
        }
    };
    let answered = SelectorAnswered { choice: choice.text, signature: choice.signature, answered_at: at };
    Some(vec![PaymentEvent::SelectorAnswered(answered), outcome])
}

/// A failure that the payer's selector brought about, before anything was asked of a chain.
fn unselected(code: &str, message: &str, at: Timestamp) -> PaymentEvent {
    PaymentEvent::Failed(Box::new(Failed {
        failure: Failure {
            code: code.to_owned(),
            message: message.to_owned(),
            domain: Some(Domain::ExternalService),
            retry_classification: Some(RetryClassification::RetryWithNewRequestId),
            blockchain_context: None,
        },
        refund: RefundDue::Nothing,
        failed_at: at,
    }))
}

fn observe_deposit(state: DepositState, attempt: u32, at: Timestamp) -> Vec<PaymentEvent> {
    let class = RetryClassification::RetryWithNewRequestId;
    match state {
        DepositState::Pending => Vec::new(),
        DepositState::Secured(secured) => vec![PaymentEvent::EscrowSecured(secured)],
        DepositState::Reverted(context) => {
            let message = "the deposit was refused on the source chain; nothing was taken from the payer";
            not_deposited(message, class, Some(*context), at)
        }
        DepositState::Superseded { evidence } => {
            vec![PaymentEvent::DepositAbandoned(TransactionAbandoned { attempt, evidence, abandoned_at: at })]
        }
        DepositState::Expired { evidence: _ } => {
            let message = "the deposit did not land before its deadline; nothing was taken from the payer";
            not_deposited(message, class, None, at)
        }
        DepositState::Stranded(opened) => stranded(opened, at),
    }
}

/// The payer's deposit is in escrow, and nobody can be named for it any more.
fn stranded(opened: EscrowOpened, at: Timestamp) -> Vec<PaymentEvent> {
    let failure = Failure {
        code: Failure::SETTLEMENT_FAILED.to_owned(),
        message: "the deposit could not be reserved for the settler before its deadline; the escrow is returned"
            .to_owned(),
        domain: Some(Domain::Blockchain),
        retry_classification: Some(RetryClassification::RetryWithNewRequestId),
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
fn withdrawn(cause: WithdrawalCause, failure: Failure, at: Timestamp) -> Vec<PaymentEvent> {
    vec![
        PaymentEvent::AwardWithdrawn(AwardWithdrawn { cause, withdrawn_at: at }),
        PaymentEvent::Failed(Box::new(Failed { failure, refund: RefundDue::Nothing, failed_at: at })),
    ]
}

fn winner_lost(payment: &Payment, refusal: Option<String>, at: Timestamp) -> Vec<PaymentEvent> {
    let (code, why) = match &refusal {
        Some(reason) => {
            (Failure::AWARD_REFUSED, format!("the settler that won does not stand by its quote ({reason})"))
        }
        None => (Failure::AWARD_UNANSWERED, "the settler that won did not answer in time".to_owned()),
    };
    // The payer's own transaction may be on its way.
    let money = match payment.submitted.authorization.is_own_deposit() {
        true => "a deposit that lands all the same goes back",
        false => "nothing was taken from the payer",
    };
    let failure = Failure {
        code: code.to_owned(),
        message: format!("{why}; {money}"),
        domain: Some(Domain::SettlerAgent),
        retry_classification: Some(RetryClassification::RetryWithNewRequestId),
        blockchain_context: None,
    };
    let cause = refusal.map_or(WithdrawalCause::Unanswered, |reason| WithdrawalCause::Refused { reason });
    withdrawn(cause, failure, at)
}

fn not_deposited(
    message: &str,
    class: RetryClassification,
    context: Option<BlockchainContext>,
    at: Timestamp,
) -> Vec<PaymentEvent> {
    let failure = Failure {
        code: Failure::SETTLEMENT_FAILED.to_owned(),
        message: message.to_owned(),
        domain: Some(Domain::Blockchain),
        retry_classification: Some(class),
        blockchain_context: context,
    };
    withdrawn(WithdrawalCause::NotDeposited, failure, at)
}

/// The delivery as it is recorded before what follows from it: again where it is deep at first sight, or has moved to another
/// block since it was seen.
fn seen_there(payment: &Payment, inclusion: &Inclusion) -> Vec<PaymentEvent> {
    match payment.seen.as_ref() == Some(inclusion) {
        true => Vec::new(),
        false => vec![PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion.clone() })],
    }
}

/// The delivery is for good where it is, and not attested; nothing where that is recorded.
fn unattested(payment: &Payment, inclusion: Inclusion, at: Timestamp) -> Vec<PaymentEvent> {
    let mut events = seen_there(payment, &inclusion);
    if !payment.unattested || !events.is_empty() {
        events.push(PaymentEvent::AttestationAwaited(AttestationAwaited { inclusion, awaited_at: at }));
    }
    events
}

/// The recipient was paid, and the payer gets the money back. The reason says so: whoever ships twice, or pays again, for a
/// plain failure would be cheated.
fn delivered_not_attested(payment: &Payment, inclusion: &Inclusion, at: Timestamp) -> PaymentEvent {
    let verifier = &payment.submitted.verifier;
    let failure = Failure {
        code: Failure::DELIVERED_NOT_ATTESTED.to_owned(),
        message: format!(
            "the delivery was made and is final ({} on {}), but the fulfillment verifier {} at {} did not attest it before \
             the refund window opened, so the settler cannot be paid and the escrow is returned",
            inclusion.transaction_hash, inclusion.chain_id, verifier.account, verifier.endpoint
        ),
        domain: Some(Domain::VerificationService),
        retry_classification: Some(RetryClassification::ReconcileThenDecide),
        blockchain_context: undeliverable(payment).map(|context| BlockchainContext {
            transaction_hash: Some(inclusion.transaction_hash.clone()),
            block_number: Some(inclusion.block_number),
            ..context
        }),
    };
    PaymentEvent::Failed(Box::new(Failed { failure, refund: RefundDue::AfterWindow, failed_at: at }))
}

/// Where the delivery was expected; with its transaction when one was seen that did not last.
fn undeliverable(payment: &Payment) -> Option<BlockchainContext> {
    let quote = &payment.award.as_ref()?.quote;
    Some(BlockchainContext {
        chain_id: quote.destination.asset().chain().clone(),
        transaction_hash: payment.seen.as_ref().map(|seen| seen.transaction_hash.clone()),
        block_number: payment.seen.as_ref().map(|seen| seen.block_number),
        contract_address: Some(quote.fulfillment_proxy.clone()),
        revert_reason: None,
        gas_used: None,
        estimated_gas_needed: None,
    })
}
