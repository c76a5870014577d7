//! Time, chains, verifier and nonces as one process of the gateway sees them.

use std::{future::pending, sync::Arc, time::Duration};

use alloy::signers::local::PrivateKeySigner;
use async_trait::async_trait;
use chrono::TimeDelta;
use tokio::time::sleep;

use chains::verifier::{self, Outcome};
use chains_evm::{adapter::EvmChains, attest};
use events::{
    ChainId, PaymentId,
    event::{Claim, EscrowPlan, EscrowSecured, Inclusion, TransactionPrepared, VerifierRef},
    quote::SignedQuote,
    time::Timestamp,
};
use journal::ledger::{self, Ledger, Purpose, Reservation, SignerAccount};
use sagas::ports::{
    Chains, Clock, DeliveryOrder, DeliveryState, DepositOrder, DepositState, EscrowState, Moment, PrepareError,
    RefundOrder, ReleaseOrder, Statement, TransactionState, Transient, VerificationCase, Verifier, Waiting,
};

use crate::{census, dice::Dice, life::Life, world::World};

/// Longest wait for a block that does not come.
const NEXT_BLOCK_WAIT_MAX: Duration = Duration::from_secs(10);

/// What every port of a process shares.
#[derive(Clone)]
pub struct Process {
    /// The world.
    pub world: Arc<World>,
    /// Its life.
    pub life: Arc<Life>,
    /// Its share of chance.
    pub dice: Dice,
    /// Its clock against the world's, in milliseconds.
    pub skew_ms: i64,
}

impl Process {
    pub(crate) async fn rest(&self, duration: Duration) {
        sleep(duration).await;
        if self.life.is_dead() {
            pending::<()>().await;
        }
    }
}

/// A clock that goes before or after, and whose timers fire early or late.
#[async_trait]
impl Clock for Process {
    fn now(&self) -> Timestamp {
        self.world.now() + TimeDelta::milliseconds(self.skew_ms)
    }

    async fn sleep(&self, duration: Duration) {
        self.life.point().await;
        let mut duration = duration;
        if self.world.draws(&self.dice, self.world.plan.faults.sleep) {
            duration = match self.dice.number(0..=2) {
                0 => {
                    census::fault("timer ends early");
                    duration / 2
                }
                1 => {
                    census::fault("timer ends at once");
                    Duration::ZERO
                }
                _ => {
                    census::fault("timer ends late");
                    duration + Duration::from_millis(self.dice.number(0..=15_000))
                }
            };
        }
        // A sleep of nothing would let a task that only sleeps hold the thread for ever.
        self.rest(duration.max(Duration::from_millis(1))).await;
    }
}

/// The adapter for EVM chains, woken by the world's blocks.
pub struct SimChains {
    /// The real one.
    pub inner: Arc<EvmChains>,
    /// Whose it is.
    pub process: Process,
}

#[async_trait]
impl Chains for SimChains {
    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.inner.prepare_deposit(order, attempt).await
    }

    async fn prepare_refund(&self, order: &RefundOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.inner.prepare_refund(order, attempt).await
    }

    async fn prepare_release(&self, order: &ReleaseOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.inner.prepare_release(order, attempt).await
    }

    async fn reprice(&self, versions: &[TransactionPrepared]) -> Result<Option<TransactionPrepared>, Transient> {
        self.inner.reprice(versions).await
    }

    async fn broadcast(&self, transaction: &TransactionPrepared) -> Result<(), Transient> {
        self.inner.broadcast(transaction).await
    }

    async fn deposit_state(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<DepositState, Transient> {
        self.inner.deposit_state(order, versions).await
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.inner.delivery_state(order).await
    }

    async fn escrow_state(&self, payment_id: &PaymentId, escrow: &EscrowPlan) -> Result<EscrowState, Transient> {
        self.inner.escrow_state(payment_id, escrow).await
    }

    async fn claims(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        self.inner.claims(payment_id, escrow, end).await
    }

    async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        self.inner.deposit_secured(order).await
    }

    async fn deposit_ruled_out(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        after: u64,
    ) -> Result<bool, Transient> {
        self.inner.deposit_ruled_out(payment_id, escrow, after).await
    }

    async fn transaction_state(&self, versions: &[TransactionPrepared]) -> Result<TransactionState, Transient> {
        self.inner.transaction_state(versions).await
    }

    async fn attestation_holds(
        &self,
        statement: &Statement,
        escrow: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient> {
        self.inner.attestation_holds(statement, escrow, signature).await
    }

    async fn next_block(&self, chain_id: &ChainId) {
        let Process { world, life, dice, .. } = &self.process;
        life.point().await;
        let early = world.strikes(dice, "wait for a block ends early", world.plan.faults.sleep);
        let wait = if early { Duration::from_millis(dice.number(1..=500)) } else { NEXT_BLOCK_WAIT_MAX };
        if let Some(place) = world.place(chain_id) {
            // The first of the two that is ready, told apart in this order: chance is the seed's alone.
            tokio::select! {
                biased;
                () = place.blocks.notified() => {}
                () = sleep(wait) => {}
            }
        }
        self.process.rest(Duration::from_millis(dice.number(1..=400))).await;
    }

    fn moment(&self, chain_id: &ChainId, contract: &str) -> Option<Moment> {
        self.inner.moment(chain_id, contract)
    }

    async fn next_event(&self, waiting: &Waiting<'_>) {
        let mut waiting = *waiting;
        let is_pushed = self.inner.is_pushed(&waiting);
        while is_pushed || !self.inner.has_news(&mut waiting) {
            self.next_block(waiting.chain_id).await;
            // What can't be seen now is seen in the next round.
            drop(self.inner.watch_logs(waiting.chain_id).await);
            if is_pushed {
                return;
            }
        }
    }
}

/// The fulfillment verifier, as it is reached over an unreliable network.
pub struct SimVerifier {
    /// The real one, which sees the chains through nodes of its own.
    pub service: Arc<verifier::Verifier>,
    /// Who asks.
    pub process: Process,
    /// Somebody who is not the releaser.
    pub impostor: PrivateKeySigner,
}

impl SimVerifier {
    async fn ask(&self, case: &VerificationCase, delivery: bool) -> Result<Option<String>, Transient> {
        let Process { world, life, dice, .. } = &self.process;
        life.point().await;
        if world.verifier_is_away() {
            census::fault("verifier is away");
            self.process.rest(Duration::from_secs(5)).await;
            return Err(Transient("the verifier is away".to_owned()));
        }
        if world.draws(dice, world.plan.faults.verifier) {
            match dice.number(0..=3) {
                0 => {
                    census::fault("verifier is silent");
                    self.process.rest(Duration::from_secs(5)).await;
                    return Err(Transient("the verifier is silent".to_owned()));
                }
                1 => {
                    census::fault("verifier answers late");
                    self.process.rest(Duration::from_millis(dice.number(1..=20_000))).await;
                }
                2 => {
                    census::fault("verifier signs with a wrong key");
                    return Ok(self.forged(case, delivery));
                }
                _ => {
                    census::fault("verifier talks nonsense");
                    return Ok(Some("0x00".to_owned()));
                }
            }
        }
        let outcome = match delivery {
            true => self.service.attest_delivery(case).await?,
            false => self.service.attest_non_delivery(case).await?,
        };
        life.point().await;
        Ok(match outcome {
            Outcome::Attested(signature) => Some(signature),
            Outcome::NotYet(_) | Outcome::Refused(_) => None,
        })
    }

    /// The right statement, signed by the wrong key.
    fn forged(&self, case: &VerificationCase, delivery: bool) -> Option<String> {
        let quote = SignedQuote::parse(&case.quote_document).ok()?;
        let (payment_id, quote_hash) = (case.payment_id.clone(), quote.hash());
        let statement = match delivery {
            true => {
                Statement::Delivery { payment_id, quote_hash, payout_account: quote.quote().payout_account.clone() }
            }
            false => Statement::NonDelivery { payment_id, quote_hash },
        };
        let place = self.process.world.place(&case.escrow.chain_id)?;
        attest::sign_statement(&self.impostor, &statement, place.evm_id, place.contracts.escrow).ok()
    }
}

#[async_trait]
impl Verifier for SimVerifier {
    async fn attest_delivery(&self, _: &VerifierRef, case: &VerificationCase) -> Result<Option<String>, Transient> {
        self.ask(case, true).await
    }

    async fn attest_non_delivery(&self, _: &VerifierRef, case: &VerificationCase) -> Result<Option<String>, Transient> {
        self.ask(case, false).await
    }
}

/// The signer ledger, whose answers get lost.
pub struct SimLedger(pub Process);

#[async_trait]
impl Ledger for SimLedger {
    async fn reserve(
        &self,
        account: &SignerAccount,
        purpose: &Purpose,
        chain_nonce: u64,
        final_nonce: u64,
        now: Timestamp,
    ) -> Result<u64, ledger::Error> {
        let Process { world, life, dice, .. } = &self.0;
        life.point().await;
        let strikes = world.strikes(dice, "a call to the ledger fails", world.plan.faults.ledger);
        let before = strikes && dice.chance(500);
        if before {
            return Err(ledger::Error::Unavailable("fault".to_owned()));
        }
        let nonce = world.ledger.reserve(account, purpose, chain_nonce, final_nonce, now).await?;
        life.point().await;
        if strikes {
            census::fault("ledger stores and does not say so");
            return Err(ledger::Error::Unavailable("fault".to_owned()));
        }
        Ok(nonce)
    }

    async fn retire(&self, account: &SignerAccount, reservation: &Reservation) -> Result<bool, ledger::Error> {
        let Process { world, life, dice, .. } = &self.0;
        life.point().await;
        let strikes = world.strikes(dice, "a call to the ledger fails", world.plan.faults.ledger);
        if strikes && dice.chance(500) {
            return Err(ledger::Error::Unavailable("fault".to_owned()));
        }
        let retired = world.ledger.retire(account, reservation).await?;
        life.point().await;
        if strikes { Err(ledger::Error::Unavailable("fault".to_owned())) } else { Ok(retired) }
    }

    async fn open(&self, account: &SignerAccount) -> Result<Vec<Reservation>, ledger::Error> {
        let Process { world, life, dice, .. } = &self.0;
        life.point().await;
        if world.strikes(dice, "a call to the ledger fails", world.plan.faults.ledger) {
            return Err(ledger::Error::Unavailable("fault".to_owned()));
        }
        world.ledger.open(account).await
    }
}
