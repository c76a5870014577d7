//! Chain registry: the engine's [`Chains`] port over all chains that a gateway is connected to, each found by its id.
//!
//! The registry knows no family. The binary registers the chains of each.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use tracing::{Instrument, Span, field::Empty, info_span};

use events::{
    Account, Amount, ChainId, PaymentId,
    event::{Claim, EscrowOpened, EscrowPlan, EscrowSecured, Inclusion, TransactionPrepared},
};
use sagas::ports::{
    AddressFunds, AddressState, Chains, Clock, Cursor, DeliveryOrder, DeliveryState, DepositOrder, DepositState,
    EscrowState, ExpectedTerms, Look, OwnReturn, PayerDeposit, PrepareError, ReassignmentOrder, ReassignmentState,
    RefundOrder, ReleaseOrder, Statement, TransactionState, Transient, Waiting,
};

use crate::{readiness::ChainsReadiness, setup::SetupError};

/// How long the wait for a block of a chain that is not connected lasts.
const NO_BLOCK_WAIT: Duration = Duration::from_secs(1);

/// One chain that a gateway is connected to: the engine's port, for what concerns this chain.
pub trait Chain: Chains {
    /// Its CAIP-2 id.
    fn id(&self) -> &ChainId;
}

/// The chains, one object each; a question goes to the chain that it is about.
pub struct ChainRegistry {
    chains: BTreeMap<ChainId, Arc<dyn Chain>>,
    clock: Arc<dyn Clock>,
    readiness: ChainsReadiness,
}

impl ChainRegistry {
    /// A registry without chains.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { chains: BTreeMap::new(), clock, readiness: ChainsReadiness::default() }
    }

    /// The registry that makes no deposit where `readiness` says that the money could not be told or brought back.
    #[must_use]
    pub fn heeding(self, readiness: ChainsReadiness) -> Self {
        Self { readiness, ..self }
    }

    /// The registry with `chain` besides.
    ///
    /// # Errors
    /// [`SetupError::Twice`] when it has a chain of this id already.
    pub fn with(mut self, chain: Arc<dyn Chain>) -> Result<Self, SetupError> {
        match self.chains.entry(chain.id().clone()) {
            Entry::Occupied(known) => Err(SetupError::Twice(known.key().clone())),
            Entry::Vacant(free) => {
                free.insert(chain);
                Ok(self)
            }
        }
    }

    fn of(&self, chain_id: &ChainId) -> Result<&dyn Chains, Transient> {
        match self.chains.get(chain_id) {
            Some(chain) => Ok(&**chain),
            None => Err(Transient::misconfigured(format!("{chain_id} is not configured"))),
        }
    }

    fn of_newest(&self, versions: &[TransactionPrepared]) -> Result<&dyn Chains, Transient> {
        let newest = versions.last().ok_or_else(|| Transient::misconfigured("no transaction was prepared"))?;
        self.of(&newest.chain_id)
    }
}

/// What comes of signing a transaction, with a span around it.
async fn prepared(
    purpose: &'static str,
    chain_id: &ChainId,
    preparing: impl Future<Output = Result<TransactionPrepared, PrepareError>>,
) -> Result<TransactionPrepared, PrepareError> {
    let chain = chain_id.as_str();
    let span = info_span!(
        target: trace::TARGET, "prepare",
        otel.kind = "client", purpose, chain, hash = Empty, error = Empty,
    );
    let prepared = preparing.instrument(span.clone()).await;
    note(&span, &prepared);
    prepared
}

fn note(span: &Span, prepared: &Result<TransactionPrepared, PrepareError>) {
    match prepared {
        Ok(transaction) => span.record("hash", transaction.transaction_hash.as_str()),
        Err(PrepareError::Transient(fault)) => span.record("error", fault.kind()),
        Err(PrepareError::Waiting(_) | PrepareError::PayerSent { .. }) => span.record("error", "waiting"),
        Err(PrepareError::Refused(_)) => span.record("error", "refused"),
    };
}

#[async_trait]
impl Chains for ChainRegistry {
    fn expect_terms(&self, expected: &ExpectedTerms<'_>) {
        // Whatever is done next says which chain is missing.
        if let Ok(chain) = self.of(&expected.escrow.chain_id) {
            chain.expect_terms(expected);
        }
    }

    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.readiness.check_deposits(&order.escrow.chain_id)?;
        let chain = self.of(&order.escrow.chain_id)?;
        prepared("deposit", &order.escrow.chain_id, chain.prepare_deposit(order, attempt)).await
    }

    async fn prepare_larger_deposit(
        &self,
        order: &DepositOrder,
        amount: Amount,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        self.readiness.check_deposits(&order.escrow.chain_id)?;
        let chain = self.of(&order.escrow.chain_id)?;
        prepared("deposit", &order.escrow.chain_id, chain.prepare_larger_deposit(order, amount, attempt)).await
    }

    async fn prepare_refund(&self, order: &RefundOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let chain = self.of(&order.escrow.chain_id)?;
        prepared("refund", &order.escrow.chain_id, chain.prepare_refund(order, attempt)).await
    }

    async fn prepare_release(&self, order: &ReleaseOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let chain = self.of(&order.escrow.chain_id)?;
        prepared("release", &order.escrow.chain_id, chain.prepare_release(order, attempt)).await
    }

    fn takes_reassignments(&self, escrow: &EscrowPlan) -> bool {
        self.of(&escrow.chain_id).is_ok_and(|chain| chain.takes_reassignments(escrow))
    }

    async fn prepare_reassignment(
        &self,
        order: &ReassignmentOrder,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let chain = self.of(&order.escrow.chain_id)?;
        prepared("reassignment", &order.escrow.chain_id, chain.prepare_reassignment(order, attempt)).await
    }

    async fn reassignment_state(&self, order: &ReassignmentOrder) -> Result<ReassignmentState, Transient> {
        self.of(&order.escrow.chain_id)?.reassignment_state(order).await
    }

    async fn reprice(&self, versions: &[TransactionPrepared]) -> Result<Option<TransactionPrepared>, Transient> {
        self.of_newest(versions)?.reprice(versions).await
    }

    async fn broadcast(&self, transaction: &TransactionPrepared) -> Result<(), Transient> {
        let chain = self.of(&transaction.chain_id)?;
        let (chain_id, hash) = (transaction.chain_id.as_str(), transaction.transaction_hash.as_str());
        let span =
            info_span!(target: trace::TARGET, "broadcast", otel.kind = "client", chain = chain_id, hash, error = Empty);
        let sent = chain.broadcast(transaction).instrument(span.clone()).await;
        if let Err(fault) = &sent {
            span.record("error", fault.kind());
        }
        sent
    }

    async fn deposit_state(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<DepositState, Transient> {
        self.of(&order.escrow.chain_id)?.deposit_state(order, versions).await
    }

    async fn deposit_mined(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<Option<Inclusion>, Transient> {
        self.of(&order.escrow.chain_id)?.deposit_mined(order, versions).await
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.of(order.destination.asset().chain())?.delivery_state(order).await
    }

    async fn escrow_state(&self, payment_id: &PaymentId, escrow: &EscrowPlan) -> Result<EscrowState, Transient> {
        self.of(&escrow.chain_id)?.escrow_state(payment_id, escrow).await
    }

    async fn claims(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        self.of(&escrow.chain_id)?.claims(payment_id, escrow, end).await
    }

    async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        self.of(&order.escrow.chain_id)?.deposit_secured(order).await
    }

    async fn address_funds(&self, deposit: &PayerDeposit) -> Result<AddressFunds, Transient> {
        self.of(&deposit.escrow.chain_id)?.address_funds(deposit).await
    }

    async fn address_state(&self, deposit: &PayerDeposit, since: Option<u64>) -> Result<AddressState, Transient> {
        self.of(&deposit.escrow.chain_id)?.address_state(deposit, since).await
    }

    async fn prepare_give_back(
        &self,
        deposit: &PayerDeposit,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let chain = self.of(&deposit.escrow.chain_id)?;
        prepared("give_back", &deposit.escrow.chain_id, chain.prepare_give_back(deposit, attempt)).await
    }

    async fn given_back_by(
        &self,
        deposit: &PayerDeposit,
        versions: &[TransactionPrepared],
    ) -> Result<OwnReturn, Transient> {
        self.of(&deposit.escrow.chain_id)?.given_back_by(deposit, versions).await
    }

    async fn stranded_deposit(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        self.of(&deposit.escrow.chain_id)?.stranded_deposit(deposit).await
    }

    async fn payer_has_escrow(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        payer: &Account,
    ) -> Result<(bool, u64), Transient> {
        self.of(&escrow.chain_id)?.payer_has_escrow(payment_id, escrow, payer).await
    }

    async fn escrow_found(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        self.of(&deposit.escrow.chain_id)?.escrow_found(deposit).await
    }

    async fn deposit_ruled_out(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        after: u64,
    ) -> Result<bool, Transient> {
        self.of(&escrow.chain_id)?.deposit_ruled_out(payment_id, escrow, after).await
    }

    async fn deposit_forestalled(&self, deposit: &PayerDeposit) -> Result<bool, Transient> {
        self.of(&deposit.escrow.chain_id)?.deposit_forestalled(deposit).await
    }

    async fn transaction_state(&self, versions: &[TransactionPrepared]) -> Result<TransactionState, Transient> {
        self.of_newest(versions)?.transaction_state(versions).await
    }

    async fn attestation_holds(
        &self,
        statement: &Statement,
        escrow: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient> {
        self.of(&escrow.chain_id)?.attestation_holds(statement, escrow, signature).await
    }

    async fn signed_by(
        &self,
        statement: &Statement,
        escrow: &EscrowPlan,
        member: &Account,
        signature: &str,
    ) -> Result<bool, Transient> {
        self.of(&escrow.chain_id)?.signed_by(statement, escrow, member, signature).await
    }

    fn head(&self, chain_id: &ChainId) -> Option<u64> {
        self.of(chain_id).ok()?.head(chain_id)
    }

    async fn next_block(&self, chain_id: &ChainId) {
        match self.of(chain_id) {
            Ok(port) => port.next_block(chain_id).await,
            Err(_) => self.clock.sleep(NO_BLOCK_WAIT).await,
        }
    }

    fn cursor(&self, chain_id: &ChainId, contract: &Account) -> Option<Cursor> {
        self.of(chain_id).ok()?.cursor(chain_id, contract)
    }

    async fn next_event(&self, waiting: &Waiting<'_>) {
        match self.of(waiting.chain_id) {
            Ok(port) => port.next_event(waiting).await,
            Err(_) => self.clock.sleep(NO_BLOCK_WAIT).await,
        }
    }

    fn awaits_block(&self, waiting: &Waiting<'_>) -> bool {
        self.of(waiting.chain_id).map_or(true, |port| port.awaits_block(waiting))
    }

    fn has_news(&self, waiting: &mut Waiting<'_>) -> bool {
        self.of(waiting.chain_id).map_or(true, |port| port.has_news(waiting))
    }

    async fn next_look(&self, chain_id: &ChainId, round: u64) -> Look {
        match self.of(chain_id) {
            Ok(port) => port.next_look(chain_id, round).await,
            Err(_) => {
                self.clock.sleep(NO_BLOCK_WAIT).await;
                Look { round: round.wrapping_add(1), is_block: true }
            }
        }
    }
}
