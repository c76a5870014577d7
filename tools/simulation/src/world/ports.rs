//! The simulated ports of one process: clock, chains, verifier and signer ledger.

use std::{
    collections::BTreeSet,
    future::pending,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::sleep;

use chains::registry::Chain;
use events::{
    Account, Amount, ChainId, PaymentId, VerifierMember,
    event::{Claim, EscrowOpened, EscrowPlan, EscrowSecured, Inclusion, TransactionPrepared},
    mutant,
    time::Timestamp,
};
use journal::ledger::{self, Ledger, Purpose, Reservation, SignerAccount};
use sagas::ports::{
    Chains, Clock, Cursor, DeliveryOrder, DeliveryState, DepositOrder, DepositState, EscrowState, ExpectedTerms, Look,
    PayerDeposit, PrepareError, ReassignmentOrder, ReassignmentState, RefundOrder, ReleaseOrder, Statement,
    TransactionState, Transient, VerificationCase, Verifier, Waiting,
};

use super::{
    World,
    verifiers::{Question, sign},
};
use crate::{coverage, family::Task, process::Process, random::RandomSource};

/// Longest wait for a block that does not come.
const NEXT_BLOCK_WAIT_MAX: Duration = Duration::from_secs(10);

/// The context that all ports of a process share.
#[derive(Clone)]
pub struct PortContext {
    /// The world.
    pub world: Arc<World>,
    /// The process.
    pub process: Arc<Process>,
    /// Its random source.
    pub random: RandomSource,
    /// Its slot, which has a clock.
    pub slot: usize,
}

impl PortContext {
    pub(crate) async fn rest(&self, duration: Duration) {
        sleep(duration).await;
        if self.process.is_dead() {
            pending::<()>().await;
        }
    }
}

/// A clock that is wrong, whose timers fire early or late.
#[async_trait]
impl Clock for PortContext {
    fn now(&self) -> Timestamp {
        self.world.gateway_time(self.slot)
    }

    async fn sleep(&self, duration: Duration) {
        self.process.crash_point().await;
        let mut duration = duration;
        if self.world.draws(&self.random, self.world.plan.faults.sleep) {
            duration = match self.random.number(0..=2) {
                0 => {
                    coverage::fault("timer ends early");
                    duration / 2
                }
                1 => {
                    coverage::fault("timer ends at once");
                    Duration::ZERO
                }
                _ => {
                    coverage::fault("timer ends late");
                    duration + Duration::from_millis(self.random.number(0..=15_000))
                }
            };
        }
        // A sleep of nothing would let a task that only sleeps hold the thread for ever.
        self.rest(duration.max(Duration::from_millis(1))).await;
    }
}

/// The adapter of one chain, woken by the world's blocks.
pub struct SimAdapter {
    /// The real one.
    pub inner: Arc<dyn Chain>,
    /// Looks once for what happened up to the newest block; where it is `None` the adapter looks by itself.
    pub watch: Option<Arc<dyn Fn() -> Task + Send + Sync>>,
    /// Whose it is.
    pub context: PortContext,
}

impl Chain for SimAdapter {
    fn id(&self) -> &ChainId {
        self.inner.id()
    }
}

#[async_trait]
impl Chains for SimAdapter {
    fn expect_terms(&self, expected: &ExpectedTerms<'_>) {
        self.inner.expect_terms(expected);
    }

    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.inner.prepare_deposit(order, attempt).await
    }

    async fn prepare_larger_deposit(
        &self,
        order: &DepositOrder,
        amount: Amount,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        self.inner.prepare_larger_deposit(order, amount, attempt).await
    }

    async fn prepare_refund(&self, order: &RefundOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.inner.prepare_refund(order, attempt).await
    }

    async fn prepare_release(&self, order: &ReleaseOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.inner.prepare_release(order, attempt).await
    }

    fn takes_reassignments(&self, escrow: &EscrowPlan) -> bool {
        self.inner.takes_reassignments(escrow)
    }

    async fn prepare_reassignment(
        &self,
        order: &ReassignmentOrder,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        self.inner.prepare_reassignment(order, attempt).await
    }

    async fn reassignment_state(&self, order: &ReassignmentOrder) -> Result<ReassignmentState, Transient> {
        self.inner.reassignment_state(order).await
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

    async fn deposit_mined(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<Option<Inclusion>, Transient> {
        self.inner.deposit_mined(order, versions).await
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

    async fn payer_has_escrow(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        payer: &events::Account,
    ) -> Result<(bool, u64), Transient> {
        self.inner.payer_has_escrow(payment_id, escrow, payer).await
    }

    async fn stranded_deposit(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        self.inner.stranded_deposit(deposit).await
    }

    async fn escrow_found(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        self.inner.escrow_found(deposit).await
    }

    async fn deposit_ruled_out(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        after: u64,
    ) -> Result<bool, Transient> {
        self.inner.deposit_ruled_out(payment_id, escrow, after).await
    }

    async fn deposit_forestalled(&self, deposit: &PayerDeposit) -> Result<bool, Transient> {
        self.inner.deposit_forestalled(deposit).await
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

    async fn signed_by(
        &self,
        statement: &Statement,
        escrow: &EscrowPlan,
        member: &Account,
        signature: &str,
    ) -> Result<bool, Transient> {
        self.inner.signed_by(statement, escrow, member, signature).await
    }

    async fn next_block(&self, chain_id: &ChainId) {
        let PortContext { world, process, random, .. } = &self.context;
        process.crash_point().await;
        let early = world.strikes(random, "wait for a block ends early", world.plan.faults.sleep);
        let wait = if early { Duration::from_millis(random.number(1..=500)) } else { NEXT_BLOCK_WAIT_MAX };
        if let Some(handle) = world.chain(chain_id) {
            // Polled in this order: only the seed decides what is random.
            tokio::select! {
                biased;
                () = handle.blocks.notified() => {}
                () = sleep(wait) => {}
            }
        }
        self.context.rest(Duration::from_millis(random.number(1..=400))).await;
    }

    fn cursor(&self, chain_id: &ChainId, contract: &Account) -> Option<Cursor> {
        self.inner.cursor(chain_id, contract)
    }

    async fn next_event(&self, waiting: &Waiting<'_>) {
        let Some(watch) = &self.watch else {
            self.context.process.crash_point().await;
            self.inner.next_event(waiting).await;
            return self.context.rest(Duration::from_millis(self.context.random.number(1..=400))).await;
        };
        let mut waiting = *waiting;
        let is_pushed = self.inner.awaits_block(&waiting);
        while is_pushed || !self.inner.has_news(&mut waiting) {
            self.next_block(waiting.chain_id).await;
            watch().await;
            if is_pushed {
                return;
            }
        }
    }

    fn awaits_block(&self, waiting: &Waiting<'_>) -> bool {
        self.inner.awaits_block(waiting)
    }

    fn has_news(&self, waiting: &mut Waiting<'_>) -> bool {
        self.inner.has_news(waiting)
    }

    async fn next_look(&self, chain_id: &ChainId, round: u64) -> Look {
        let Some(watch) = &self.watch else {
            self.context.process.crash_point().await;
            let look = self.inner.next_look(chain_id, round).await;
            self.context.rest(Duration::from_millis(self.context.random.number(1..=400))).await;
            return look;
        };
        self.next_block(chain_id).await;
        watch().await;
        Look { round: round.wrapping_add(1), is_block: true }
    }
}

/// The fulfillment verifiers, as they are reached over an unreliable network.
pub struct SimVerifier {
    /// Who asks.
    context: PortContext,
    /// Those who said in an answer that they follow reassignments. The process remembers it, and the next one hears it anew.
    follow: Mutex<BTreeSet<Account>>,
}

impl SimVerifier {
    /// The verifiers as the process of `context` reaches them.
    pub fn new(context: PortContext) -> Self {
        let known = context.world.plan.lapses.verifiers_are_known;
        let members = context.world.verifiers().members().iter();
        let families = || context.world.chains.iter().map(|handle| handle.family);
        let follow = members.filter(|member| known && member.plan.follows);
        let follow = follow.flat_map(|member| families().map(|family| member.account(family))).collect();
        Self { context, follow: Mutex::new(follow) }
    }

    async fn ask(
        &self,
        verifier: &VerifierMember,
        case: &VerificationCase,
        question: Question,
    ) -> Result<Option<String>, Transient> {
        let PortContext { world, process, random, .. } = &self.context;
        process.crash_point().await;
        if world.verifiers_are_away() {
            coverage::fault("verifier is away");
            self.context.rest(Duration::from_secs(5)).await;
            return Err(Transient::unreachable("the verifier is away"));
        }
        if world.draws(random, world.plan.faults.verifier) {
            match random.number(0..=3) {
                0 => {
                    coverage::fault("verifier is silent");
                    self.context.rest(Duration::from_secs(5)).await;
                    return Err(Transient::unreachable("the verifier is silent"));
                }
                1 => {
                    coverage::fault("verifier answers late");
                    self.context.rest(Duration::from_millis(random.number(1..=20_000))).await;
                }
                2 => {
                    coverage::fault("verifier signs with a wrong key");
                    return Ok(sign(world, "impostor", case, question).await);
                }
                _ => {
                    coverage::fault("verifier talks nonsense");
                    return Ok(Some("0x00".to_owned()));
                }
            }
        }
        let answer = world.verifiers().answer(world, &verifier.account, case, question).await;
        process.crash_point().await;
        let follows = world.verifiers().member(&verifier.account).is_some_and(|member| member.plan.follows);
        match (answer.is_ok(), follows || mutant!("older-verifiers-follow")) {
            (true, true) => {
                self.follow.lock().unwrap_or_else(PoisonError::into_inner).insert(verifier.account.clone());
            }
            (true, false) => coverage::fault("verifier does not follow reassignments"),
            (false, _) => {}
        }
        answer
    }
}

#[async_trait]
impl Verifier for SimVerifier {
    async fn attest_delivery(
        &self,
        verifier: &VerifierMember,
        case: &VerificationCase,
    ) -> Result<Option<String>, Transient> {
        self.ask(verifier, case, Question::Delivery).await
    }

    async fn attest_non_delivery(
        &self,
        verifier: &VerifierMember,
        case: &VerificationCase,
    ) -> Result<Option<String>, Transient> {
        self.ask(verifier, case, Question::NonDelivery).await
    }

    fn follows_reassignments(&self, verifier: &VerifierMember) -> bool {
        self.follow.lock().unwrap_or_else(PoisonError::into_inner).contains(&verifier.account)
    }
}

/// The signer ledger, with calls that fail and answers that get lost.
pub struct SimLedger(pub PortContext);

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
        let PortContext { world, process, random, .. } = &self.0;
        process.crash_point().await;
        let strikes = world.strikes(random, "a call to the ledger fails", world.plan.faults.ledger);
        let before = strikes && random.chance(500);
        if before {
            return Err(ledger::Error::Unavailable("fault".to_owned()));
        }
        let nonce = world.ledger.reserve(account, purpose, chain_nonce, final_nonce, now).await?;
        process.crash_point().await;
        if strikes {
            coverage::fault("ledger stores and does not say so");
            return Err(ledger::Error::Unavailable("fault".to_owned()));
        }
        Ok(nonce)
    }

    async fn retire(&self, account: &SignerAccount, reservation: &Reservation) -> Result<bool, ledger::Error> {
        let PortContext { world, process, random, .. } = &self.0;
        process.crash_point().await;
        let strikes = world.strikes(random, "a call to the ledger fails", world.plan.faults.ledger);
        if strikes && random.chance(500) {
            return Err(ledger::Error::Unavailable("fault".to_owned()));
        }
        let retired = world.ledger.retire(account, reservation).await?;
        process.crash_point().await;
        if strikes { Err(ledger::Error::Unavailable("fault".to_owned())) } else { Ok(retired) }
    }

    async fn give_back(&self, account: &SignerAccount, reservation: &Reservation) -> Result<bool, ledger::Error> {
        let PortContext { world, process, random, .. } = &self.0;
        process.crash_point().await;
        let strikes = world.strikes(random, "a call to the ledger fails", world.plan.faults.ledger);
        if strikes && random.chance(500) {
            return Err(ledger::Error::Unavailable("fault".to_owned()));
        }
        let given_back = world.ledger.give_back(account, reservation).await?;
        process.crash_point().await;
        if strikes { Err(ledger::Error::Unavailable("fault".to_owned())) } else { Ok(given_back) }
    }

    async fn open(&self, account: &SignerAccount) -> Result<Vec<Reservation>, ledger::Error> {
        let PortContext { world, process, random, .. } = &self.0;
        process.crash_point().await;
        if world.strikes(random, "a call to the ledger fails", world.plan.faults.ledger) {
            return Err(ledger::Error::Unavailable("fault".to_owned()));
        }
        world.ledger.open(account).await
    }
}
