//! Carrying out one action through the ports.

use events::event::{EscrowPlan, TransactionPrepared, VerifierRef};

use super::Ports;
use crate::{
    auction::judge,
    handlers::Action,
    payment::{Command, Payment},
    ports::{
        DeliveryOrder, DeliveryState, DepositOrder, DepositState, EscrowState, PrepareError, RefundOrder, Refusal,
        Statement, TransactionState, Transient, VerificationCase,
    },
};

/// What came of an action.
pub(super) enum Outcome {
    /// Something to record.
    Command(Box<Command>),
    /// Nothing new; look again when the chain has moved.
    Nothing,
    /// The source chain refused the deposit, for now.
    DepositRefused(Box<Refusal>),
}

impl Outcome {
    fn command(command: Command) -> Self {
        Self::Command(Box::new(command))
    }
}

/// Carries out `action` once.
///
/// # Errors
/// [`Transient`]; the action is repeated after a while.
pub(super) async fn act(ports: &Ports, payment: &Payment, action: &Action) -> Result<Outcome, Transient> {
    match action {
        Action::GatherBids(request) => {
            let gathered = ports.auction.gather(request).await?;
            let judgement = judge(&payment.submitted, gathered);
            Ok(Outcome::command(Command::CloseAuction { judgement: Box::new(judgement), at: ports.clock.now() }))
        }
        Action::SecureDeposit { award, order, attempt } => {
            // Stored before anything is signed, so a deposit never exists whose settler was not told.
            ports.auction.award(award).await?;
            match ports.chains.prepare_deposit(order, *attempt).await {
                Ok(transaction) => Ok(Outcome::command(Command::PrepareDeposit(transaction))),
                Err(PrepareError::Transient(fault)) => Err(fault),
                Err(PrepareError::Refused(refusal)) => Ok(Outcome::DepositRefused(refusal)),
            }
        }
        Action::RuleOutDeposit { order } => {
            rule_out(ports, order, order.escrow.reserve_deadline, || Command::MissDepositWindow {
                at: ports.clock.now(),
            })
            .await
        }
        Action::FollowDeposit { order, transaction } => match ports.chains.deposit_state(order, transaction).await? {
            DepositState::Pending => {
                ports.chains.broadcast(transaction).await?;
                Ok(Outcome::Nothing)
            }
            state => Ok(Outcome::command(Command::ObserveDeposit { state, at: ports.clock.now() })),
        },
        Action::FollowDelivery { order, case, verifier, payout_account, window_open } => {
            let delivery = Delivery { order, case, verifier, payout_account, window_open: *window_open };
            delivery.follow(ports, payment).await
        }
        Action::FollowEscrow { payment_id, escrow, patience: _ } => {
            match ports.chains.escrow_state(payment_id, escrow).await? {
                EscrowState::Held | EscrowState::Lapsed | EscrowState::Absent => Ok(Outcome::Nothing),
                state => Ok(Outcome::command(Command::ObserveEscrow(state))),
            }
        }
        Action::SecureRefund { order, attempt } => match escrow_state(ports, payment).await? {
            EscrowState::Held | EscrowState::Lapsed => match ports.chains.prepare_refund(order, *attempt).await {
                Ok(transaction) => Ok(Outcome::command(Command::PrepareRefund(transaction))),
                Err(PrepareError::Transient(fault)) => Err(fault),
                // The chain's clock may be behind ours, or the escrow may have paid out in a block not yet deep.
                Err(refused @ PrepareError::Refused(_)) => Err(Transient(refused.to_string())),
            },
            EscrowState::Absent => Err(Transient("the escrow that was secured is not there now".to_owned())),
            state => Ok(Outcome::command(Command::ObserveEscrow(state))),
        },
        Action::FollowRefund { order, transaction } => follow_refund(ports, order, transaction).await,
    }
}

/// Whether a deposit with no transaction of ours under way was made all the same, or can't be made any more.
///
/// # Errors
/// [`Transient`]; nothing may be concluded.
pub(super) async fn rule_out(
    ports: &Ports,
    order: &DepositOrder,
    after: u64,
    ruled_out: impl FnOnce() -> Command,
) -> Result<Outcome, Transient> {
    if let Some(secured) = ports.chains.deposit_secured(order).await? {
        return Ok(Outcome::command(Command::AdoptDeposit(secured)));
    }
    if ports.chains.deposit_ruled_out(&order.payment_id, &order.escrow, after).await? {
        return Ok(Outcome::command(ruled_out()));
    }
    Ok(Outcome::Nothing)
}

async fn escrow_state(ports: &Ports, payment: &Payment) -> Result<EscrowState, Transient> {
    let plan: &EscrowPlan = &payment.submitted.escrow;
    ports.chains.escrow_state(&payment.submitted.payment_id, plan).await
}

async fn follow_refund(
    ports: &Ports,
    order: &RefundOrder,
    transaction: &TransactionPrepared,
) -> Result<Outcome, Transient> {
    match ports.chains.escrow_state(&order.payment_id, &order.escrow).await? {
        EscrowState::Held | EscrowState::Lapsed | EscrowState::Absent => {}
        state => return Ok(Outcome::command(Command::ObserveEscrow(state))),
    }
    match ports.chains.transaction_state(transaction).await? {
        TransactionState::Pending => {
            ports.chains.broadcast(transaction).await?;
            Ok(Outcome::Nothing)
        }
        TransactionState::Dead { evidence } => {
            Ok(Outcome::command(Command::AbandonRefund { evidence, at: ports.clock.now() }))
        }
    }
}

/// A delivery that is looked for.
struct Delivery<'a> {
    order: &'a DeliveryOrder,
    case: &'a VerificationCase,
    verifier: &'a VerifierRef,
    payout_account: &'a str,
    window_open: bool,
}

impl Delivery<'_> {
    async fn follow(&self, ports: &Ports, payment: &Payment) -> Result<Outcome, Transient> {
        match ports.chains.delivery_state(self.order).await? {
            DeliveryState::NotSeen if self.window_open => Err(Transient(
                "the refund window is open, but the destination chain is not settled past the delivery's deadline"
                    .to_owned(),
            )),
            DeliveryState::NotSeen => Ok(Outcome::Nothing),
            DeliveryState::Seen(inclusion) if payment.seen.as_ref() != Some(&inclusion) => {
                Ok(Outcome::command(Command::ObserveDelivery(inclusion)))
            }
            DeliveryState::Seen(_) => Ok(Outcome::Nothing),
            DeliveryState::Final(inclusion) => {
                let statement = Statement::Delivery {
                    payment_id: self.order.payment_id.clone(),
                    quote_hash: self.order.quote_hash,
                    payout_account: self.payout_account.to_owned(),
                };
                let at = ports.clock.now();
                let attested = self.attested(ports, &statement).await;
                match attested {
                    Ok(Some(attestation)) => {
                        Ok(Outcome::command(Command::ConfirmDelivery { inclusion, attestation, at }))
                    }
                    // Deep, but not attested: it is on chain all the same, and shown as such.
                    _ if payment.seen.as_ref() != Some(&inclusion) => {
                        Ok(Outcome::command(Command::ObserveDelivery(inclusion)))
                    }
                    // A release may have landed although the verifier does not answer now: the chain decides.
                    unattested if self.window_open => match escrow_state(ports, payment).await? {
                        EscrowState::Lapsed | EscrowState::Refunded(_) => {
                            Ok(Outcome::command(Command::FailUnattested { at }))
                        }
                        _ => unattested.map(|_| Outcome::Nothing),
                    },
                    unattested => unattested.map(|_| Outcome::Nothing),
                }
            }
            DeliveryState::Impossible => {
                let statement = Statement::NonDelivery {
                    payment_id: self.order.payment_id.clone(),
                    quote_hash: self.order.quote_hash,
                };
                let at = ports.clock.now();
                match self.attested(ports, &statement).await {
                    Ok(Some(attestation)) => {
                        Ok(Outcome::command(Command::FailUndelivered { attestation: Some(attestation), at }))
                    }
                    _ if self.window_open => Ok(Outcome::command(Command::FailUndelivered { attestation: None, at })),
                    Ok(None) => Ok(Outcome::Nothing),
                    Err(fault) => Err(fault),
                }
            }
        }
    }

    /// The verifier's signature under `statement`, believed only when the escrow would believe it.
    async fn attested(&self, ports: &Ports, statement: &Statement) -> Result<Option<String>, Transient> {
        let answer = match statement {
            Statement::Delivery { .. } => ports.verifier.attest_delivery(self.verifier, self.case).await?,
            Statement::NonDelivery { .. } => ports.verifier.attest_non_delivery(self.verifier, self.case).await?,
        };
        let Some(signature) = answer else { return Ok(None) };
        if ports.chains.attestation_holds(statement, &self.case.escrow, &signature).await? {
            Ok(Some(signature))
        } else {
            Err(Transient("the verifier's signature is not the releaser's".to_owned()))
        }
    }
}
