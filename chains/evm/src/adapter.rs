//! The engine's [`Chains`] port of one EVM chain.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use alloy::{primitives::Address, sol_types::SolCall};
use async_trait::async_trait;

use chains::{log_watcher::LogWatcher, registry::Chain, reservers::Reservers, setup::SetupError, submitters::Leg};
use escrow_abi::{
    awaited_transfers::AwaitedTransfers,
    contracts::{GatewayEscrow, address},
    record::EscrowTerms,
};
use events::{
    Account, Amount, ChainId, PaymentId,
    event::{Authorization, Claim, EscrowOpened, EscrowPlan, EscrowSecured, Inclusion, TransactionPrepared},
    time::unix_seconds,
};
use journal::{
    budget::Budgets,
    ledger::{Ledger, Purpose},
};
use sagas::ports::{
    AddressFunds, AddressState, Chains, Clock, Cursor, DeliveryOrder, DeliveryState, DepositOrder, DepositState,
    EscrowState, ExpectedTerms, Look, PayerDeposit, PrepareError, ReassignmentOrder, ReassignmentState, RefundOrder,
    ReleaseOrder, Statement, TransactionState, Transient, Waiting,
};
use signer::Secp256k1Key;

use super::{
    deliveries::Deliveries,
    deposit_call::deposit_call,
    escrows::{Escrows, SettledEscrow},
    held_outside::Place,
    log_source::Logs,
    node::Node,
    payer_budgets::PayerBudgets,
    payment_batches::DrawnBatches,
    preparation::{Intent, Preparation},
    query::Query,
    reassignment,
    rpc::Fault,
    submitters::{SignerHealth, SubmitterAccounts, SubmitterKeys, maintain_every},
    transaction::{account_of, plain, raw_bytes},
    transaction_status::Transactions,
    turns::Turns,
};

/// How long the escrow would take the deposit that a node is shown to try it out, in seconds: the node sees a signature
/// that anyone could use, whatever comes of it.
const TRIAL_SECONDS: u64 = 15;

/// Added to `admission_seconds`: trial and signing of a deposit that draws a batch, and a chain's clock that is ahead.
const TURN_MARGIN: Duration = Duration::from_secs(60);

/// How long the payments of a batch wait for the return that one of them sent for all.
const RETURN_TURN_MAX: Duration = Duration::from_secs(600);

/// The keys with which the gateway acts on one chain.
#[derive(Debug, Clone)]
pub struct Keys {
    /// Signs reservations; its account is the reserver of the chain's configuration.
    pub reserver: Secp256k1Key,
    /// Sign for the payments that name them: their accounts were the reserver.
    pub draining_reservers: Vec<Secp256k1Key>,
    /// Send the gateway's transactions and pay for their gas; payments are spread over them.
    pub submitters: Vec<Secp256k1Key>,
    /// Send refunds, releases and reassignments and nothing else; when there are none, the submitters do, and deposits leave them a
    /// reserve.
    pub exit_submitters: Vec<Secp256k1Key>,
    /// Begin nothing any more: they end what has a nonce of theirs, and can be left out once all of it is final.
    pub draining_submitters: Vec<Secp256k1Key>,
}

/// A chain the gateway is connected to.
pub struct EvmChain {
    node: Node,
    /// Without it the chain is a destination only.
    reservers: Option<Reservers<Secp256k1Key>>,
    submitters: SubmitterAccounts,
    payers: PayerBudgets,
    log_watcher: LogWatcher<Logs>,
    awaited: Arc<AwaitedTransfers>,
    drawn: DrawnBatches,
    /// The payments whose deposits draw their batches, by the batches' addresses.
    draws: Turns<Account>,
    /// The payments that give back what all payments of their batches have left, by the batches' addresses and the tokens.
    returns: Turns<(Address, Address)>,
    /// Escrows whose records can be read, as far as they were asked.
    readable: Mutex<BTreeSet<Account>>,
    clock: Arc<dyn Clock>,
}

impl EvmChain {
    /// The port of the chain of `node`, a destination only where there are no keys; nonces come from `ledger` and what contract
    /// accounts may cost from `budgets`, which all gateways that share the submitters' keys share too.
    ///
    /// # Errors
    /// [`SetupError`] when no key can send anything, the reserver's is another one than the configuration says, or one repeats.
    pub fn new(
        node: Node,
        keys: Option<Keys>,
        ledger: Arc<dyn Ledger>,
        budgets: Arc<dyn Budgets>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SetupError> {
        let (mut reservers, mut accounts) = (None, SubmitterKeys::default());
        if let Some(keys) = keys {
            let chain_id = node.chain_id().clone();
            if keys.submitters.is_empty() {
                return Err(SetupError::NoSubmitter(chain_id));
            }
            let configured = &node.config().common.reserver;
            reservers = Some(Reservers::new(chain_id, configured, keys.reserver, keys.draining_reservers, account_of)?);
            accounts = SubmitterKeys {
                usual: keys.submitters,
                exits: keys.exit_submitters,
                draining: keys.draining_submitters,
            };
        }
        let (awaited, drawn) = (Arc::new(AwaitedTransfers::default()), DrawnBatches::of(node.clone()));
        Ok(Self {
            reservers,
            submitters: SubmitterAccounts::new(node.clone(), accounts, ledger, clock.clone()),
            payers: PayerBudgets::new(node.clone(), budgets, drawn.clone(), clock.clone()),
            log_watcher: LogWatcher::new(Logs::of(node.clone(), awaited.clone()), node.config().common.poll_ms)
                .hinted(node.head_feed().cloned()),
            awaited,
            drawn,
            draws: Turns::new(Duration::from_secs(node.config().admission_seconds) + TURN_MARGIN),
            returns: Turns::new(RETURN_TURN_MAX),
            readable: Mutex::default(),
            clock,
            node,
        })
    }

    /// Sees what happened in the newest blocks, as [`Chains::next_event`] does by itself: for who learns of blocks in another
    /// way.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn watch_logs(&self) -> Result<(), Transient> {
        self.log_watcher.watch_newest().await
    }

    /// Looks after the submitters of `chains` for as long as it runs; the process runs it beside the engine.
    pub async fn maintain(chains: &[Arc<Self>], clock: &dyn Clock) {
        let every = maintain_every(chains.iter().map(|chain| chain.node.config().reprice_seconds));
        // Each for itself: a node or a key's service that hangs holds up its own chain.
        let maintained = chains.iter().map(|chain| async move {
            loop {
                chain.maintain_once().await;
                clock.sleep(every).await;
            }
        });
        futures::future::join_all(maintained).await;
    }

    /// One look of [`EvmChain::maintain`] at this chain: uses up nonces that nothing else is going to use, and watches the
    /// submitters' coins.
    pub async fn maintain_once(&self) {
        self.submitters.maintain_once().await;
    }

    /// The node it asks.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// As [`EvmChain::signer_health`], each with how many nonces of it are in flight.
    pub(crate) async fn submitters_in_flight(&self) -> Result<Vec<(SignerHealth, usize)>, Transient> {
        self.submitters.in_flight().await
    }

    /// The state of the submitters, as [`EvmChain::maintain`] found it last; without those it has not looked at yet.
    pub fn signer_health(&self) -> Vec<SignerHealth> {
        self.submitters.health()
    }

    /// No money goes into an escrow of which nobody here could tell what became of it. It is asked once.
    async fn require_readable(&self, escrow: &Account) -> Result<(), Transient> {
        if self.readable().contains(escrow) {
            return Ok(());
        }
        match self.escrows().is_readable(escrow).await? {
            Some(true) => {
                self.readable().insert(escrow.clone());
            }
            Some(false) => {
                return Err(Transient::misconfigured(format!("{escrow} keeps no records that can be read")));
            }
            // The trial refuses it.
            None => {}
        }
        Ok(())
    }

    fn readable(&self) -> MutexGuard<'_, BTreeSet<Account>> {
        // No holder of the lock leaves it half changed where it could panic.
        self.readable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn escrows(&self) -> Escrows<'_> {
        Escrows::of(&self.node)
    }

    /// The key of the reserver that `plan` names.
    fn reserver(&self, plan: &EscrowPlan) -> Result<&Secp256k1Key, Transient> {
        let reservers = self.reservers.as_ref();
        let reservers = reservers.ok_or_else(|| Transient::misconfigured(format!("{} has no keys", self.id())))?;
        Ok(reservers.of(&plan.reserver)?)
    }

    fn transactions(&self) -> Transactions<'_> {
        Transactions::of(&self.node)
    }

    fn preparation(&self) -> Preparation<'_> {
        Preparation { node: &self.node, submitters: &self.submitters, payers: &self.payers }
    }

    /// Prepares what takes money out of escrow, a refund or a release: `data` is the call of the escrow. What it does is the
    /// same whoever sends it, so a node that is shown it can do no harm with it.
    async fn prepare_exit(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        data: Vec<u8>,
        purpose: Purpose,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let senders = self.submitters.senders(Leg::Exit, payment_id)?;
        let escrow = address(&plan.contract)?;
        let call = plain(senders.preferred, escrow, data);
        let trial = call.clone();
        let intent =
            Intent { senders, gas_max: None, payer: None, trial, trial_until: 0, call, escrow, purpose, attempt };
        self.preparation().prepare(intent).await
    }

    /// As [`EvmChain::prepare_any_deposit`]. Until a batch is drawn, one deposit of it is under way at a time: all the others would draw it
    /// again, in vain, and could be had to by a payer that takes its money away.
    async fn prepare_deposit_in_turn(
        &self,
        order: &DepositOrder,
        larger: Option<Amount>,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let Authorization::EvmPermit2Batch(permit) = &order.authorization else {
            return self.prepare_any_deposit(order, larger, attempt).await;
        };
        let (batch, payment_id) = (&permit.address, &order.payment_id);
        if !self.drawn.has(batch).await? && !self.draws.take(batch.clone(), payment_id, Instant::now()) {
            return Err(PrepareError::Waiting(format!("another payment of the batch {batch} draws it")));
        }
        let prepared = self.prepare_any_deposit(order, larger, attempt).await;
        if prepared.is_err() {
            self.draws.end(batch, payment_id);
        }
        prepared
    }

    /// Prepares the deposit of what the quote asks for, or of `larger`.
    async fn prepare_any_deposit(
        &self,
        order: &DepositOrder,
        larger: Option<Amount>,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let reserver = self.reserver(&order.escrow)?;
        let escrow = address(&order.escrow.contract)?;
        self.require_readable(&order.escrow.contract).await?;
        let senders = self.submitters.senders(Leg::Deposit, &order.payment_id)?;
        let sender = senders.preferred;
        // Both clocks count: nodes judge by the head's time, or by that of the block they would make now.
        let now = self.node.head().await?.time.max(unix_seconds(self.clock.now()));
        // Never longer than what is sent after it: whatever proves that that can't land proves it of the trial, too.
        let ends = |seconds: u64| now.saturating_add(seconds).min(order.escrow.reserve_deadline);
        let admission_seconds = self.node.config().admission_seconds;
        let (trial_until, until) = (ends(TRIAL_SECONDS.min(admission_seconds)), ends(admission_seconds));
        let on = (self.node.evm_id(), self.node.permit2());
        // At once: where the key is elsewhere, each is a round trip.
        let admitted = |until| deposit_call(order, larger, reserver, on, sender, until);
        let (trial, call) = futures::try_join!(admitted(trial_until), admitted(until))?;
        // What the chain would refuse then is no refusal of the payment.
        if now < trial_until && unix_seconds(self.clock.now()) > trial_until {
            return Err(
                Transient::unreachable("the reserver's key took longer to sign than what is tried out holds").into()
            );
        }
        let purpose = Purpose::deposit(&order.payment_id, attempt);
        // Whoever pays: the payer's account may have code although a key signed (EIP-7702), and the token has some.
        let gas_max = Some(self.node.config().gas.deposit_max);
        let payer = Some(self.payers.payer(order).await?);
        let intent = Intent { senders, gas_max, payer, trial, trial_until, call, escrow, purpose, attempt };
        self.preparation().prepare(intent).await
    }
}

impl Chain for EvmChain {
    fn id(&self) -> &ChainId {
        self.node.chain_id()
    }
}

#[async_trait]
impl Chains for EvmChain {
    fn expect_terms(&self, expected: &ExpectedTerms<'_>) {
        self.escrows().expect(expected);
    }

    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.prepare_deposit_in_turn(order, None, attempt).await
    }

    async fn prepare_larger_deposit(
        &self,
        order: &DepositOrder,
        amount: Amount,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        self.prepare_deposit_in_turn(order, Some(amount), attempt).await
    }

    async fn prepare_refund(&self, order: &RefundOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let EscrowTerms(terms) = self.escrows().callable(&order.payment_id, address(&order.escrow.contract)?).await?;
        let data = match &order.non_delivery {
            None => GatewayEscrow::refundCall { e: terms }.abi_encode(),
            Some(signature) => {
                let signature =
                    raw_bytes(signature).ok_or_else(|| Transient::misconfigured("the non-delivery is not hex"))?;
                GatewayEscrow::cancelCall { e: terms, nonDelivery: signature }.abi_encode()
            }
        };
        let purpose = Purpose::refund(&order.payment_id, attempt);
        self.prepare_exit(&order.payment_id, &order.escrow, data, purpose, attempt).await
    }

    async fn prepare_release(&self, order: &ReleaseOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let attestation =
            raw_bytes(&order.attestation).ok_or_else(|| Transient::misconfigured("the attestation is not hex"))?;
        let EscrowTerms(terms) = self.escrows().callable(&order.payment_id, address(&order.escrow.contract)?).await?;
        let data = GatewayEscrow::releaseCall { e: terms, attestation }.abi_encode();
        let purpose = Purpose::release(&order.payment_id, attempt);
        self.prepare_exit(&order.payment_id, &order.escrow, data, purpose, attempt).await
    }

    /// The chain's own escrow, where its code is not known to be of a version before there were reassignments, with the key of the
    /// reserver that the payment names.
    fn takes_reassignments(&self, escrow: &EscrowPlan) -> bool {
        escrow.contract == self.node.config().common.escrow_contract
            && self.reserver(escrow).is_ok()
            && !self.node.lacks_reassignments()
    }

    /// No stranger's code is run but a contract's that the payment trusts: its releaser's and its reserver's (ERC-1271), as in an
    /// exit. So no gas is set aside for it, and no payer is charged.
    async fn prepare_reassignment(
        &self,
        order: &ReassignmentOrder,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let reserver = self.reserver(&order.escrow)?;
        let (escrow, lapsed_at) = (address(&order.escrow.contract)?, order.lapsed.fulfill_by);
        let head = self.node.head().await?;
        // By this chain's clock the settler may still have time; every block on top of one that is past it is past it.
        if head.time <= lapsed_at {
            let (number, time) = (head.number, head.time);
            return Err(PrepareError::Waiting(format!(
                "block {number} has time {time}, and the reservation lapses after {lapsed_at}"
            )));
        }
        let senders = self.submitters.senders(Leg::Reassignment, &order.payment_id)?;
        let call = reassignment::call(order, reserver, self.node.evm_id(), senders.preferred).await?;
        let purpose = Purpose::reassignment(&order.payment_id, attempt);
        let (trial, trial_until) = (call.clone(), order.reservation.fulfill_by);
        let intent = Intent { senders, gas_max: None, payer: None, trial, trial_until, call, escrow, purpose, attempt };
        self.preparation().prepare(intent).await
    }

    async fn reassignment_state(&self, order: &ReassignmentOrder) -> Result<ReassignmentState, Transient> {
        reassignment::state(&self.node, order).await
    }

    async fn reprice(&self, versions: &[TransactionPrepared]) -> Result<Option<TransactionPrepared>, Transient> {
        self.submitters.replacement(versions).await
    }

    async fn broadcast(&self, transaction: &TransactionPrepared) -> Result<(), Transient> {
        let raw = raw_bytes(&transaction.raw).ok_or_else(|| Transient::misconfigured("the transaction is not hex"))?;
        let sent = Query::of(&self.node).try_send(&raw).await;
        if let Err(Fault::Rejected(text)) = &sent
            && is_too_large(text)
        {
            // It stays what it is, and would hold up everything behind it.
            self.submitters.give_up(transaction);
        }
        Ok(sent?)
    }

    async fn deposit_state(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<DepositState, Transient> {
        let state = self.transactions().deposit_state(order, versions).await?;
        // Before it is a fact in the journal, so that a process that dies in between does it again.
        self.payers.close(order, versions, &state).await?;
        if let (Authorization::EvmPermit2Batch(permit), false) =
            (&order.authorization, matches!(state, DepositState::Pending))
        {
            self.draws.end(&permit.address, &order.payment_id);
        }
        Ok(state)
    }

    async fn deposit_mined(
        &self,
        _: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<Option<Inclusion>, Transient> {
        self.transactions().mined(versions).await
    }

    async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        self.transactions().deposit_secured(order).await
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        Deliveries::of(&self.node).state(order).await
    }

    async fn escrow_state(&self, payment_id: &PaymentId, escrow: &EscrowPlan) -> Result<EscrowState, Transient> {
        self.escrows().state(payment_id, escrow).await
    }

    async fn claims(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        self.escrows().claims(payment_id, escrow, end).await
    }

    async fn address_funds(&self, deposit: &PayerDeposit) -> Result<AddressFunds, Transient> {
        let place = Place::of(deposit)?;
        // First, so that what comes between the look and the wait is not missed.
        self.awaited.add(place.at(), place.token(), deposit, unix_seconds(self.clock.now()));
        place.funds(&self.node).await
    }

    async fn address_state(&self, deposit: &PayerDeposit, since: Option<u64>) -> Result<AddressState, Transient> {
        let place = Place::of(deposit)?;
        if since.is_some() {
            self.awaited.add_return(place.at(), place.factory(), deposit);
        }
        let state = place.state(&self.node, since).await?;
        if matches!(state, AddressState::GivenBack(_) | AddressState::Empty) {
            self.awaited.remove_return(place.at(), deposit);
            self.returns.end(&place.key(), &deposit.payment_id);
        }
        Ok(state)
    }

    /// What it does is the same whoever sends it. A token may run code of the refund account's, so its gas is bounded as a deposit's. Of a
    /// batch one call gives back what all payments have left of a token, so the others wait for it.
    async fn prepare_give_back(
        &self,
        deposit: &PayerDeposit,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let (place, payment_id) = (Place::of(deposit)?, &deposit.payment_id);
        let key = place.key();
        if place.is_shared() && !self.returns.take(key, payment_id, Instant::now()) {
            return Err(PrepareError::Waiting("another payment of the batch gives back what is left of it".to_owned()));
        }
        // Nothing is lost when it waits, unlike a release: so it leaves what those need.
        let senders = self.submitters.senders(Leg::Deposit, payment_id)?;
        let (call, escrow) = (place.give_back(senders.preferred), place.factory());
        let (trial, purpose) = (call.clone(), Purpose::refund(payment_id, attempt));
        let gas_max = Some(self.node.config().gas.deposit_max);
        let intent = Intent { senders, gas_max, payer: None, trial, trial_until: 0, call, escrow, purpose, attempt };
        let prepared = self.preparation().prepare(intent).await;
        if prepared.is_err() {
            self.returns.end(&key, payment_id);
        }
        prepared
    }

    async fn payer_has_escrow(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        payer: &Account,
    ) -> Result<(bool, u64), Transient> {
        let SettledEscrow { block, record } = self.escrows().settled(payment_id, &escrow.contract).await?;
        Ok((record.is_some_and(|record| record.payer.as_ref() == Some(payer)), block.time))
    }

    async fn escrow_found(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        self.escrows().found(&deposit.payment_id, &deposit.escrow).await
    }

    async fn deposit_ruled_out(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        after: u64,
    ) -> Result<bool, Transient> {
        self.transactions().deposit_ruled_out(payment_id, escrow, after).await
    }

    async fn transaction_state(&self, versions: &[TransactionPrepared]) -> Result<TransactionState, Transient> {
        self.transactions().state(versions).await
    }

    async fn attestation_holds(
        &self,
        statement: &Statement,
        escrow: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient> {
        self.escrows().attestation_holds(statement, escrow, signature).await
    }

    async fn signed_by(
        &self,
        statement: &Statement,
        escrow: &EscrowPlan,
        member: &Account,
        signature: &str,
    ) -> Result<bool, Transient> {
        Ok(self.escrows().signed_by(statement, escrow, member, signature))
    }

    async fn next_block(&self, _: &ChainId) {
        self.log_watcher.next_block().await;
    }

    fn head(&self, _: &ChainId) -> Option<u64> {
        self.log_watcher.head()
    }

    fn cursor(&self, _: &ChainId, contract: &Account) -> Option<Cursor> {
        self.log_watcher.cursor(contract)
    }

    async fn next_event(&self, waiting: &Waiting<'_>) {
        self.log_watcher.next_event(waiting).await;
    }

    fn awaits_block(&self, waiting: &Waiting<'_>) -> bool {
        self.log_watcher.awaits_block(waiting)
    }

    fn has_news(&self, waiting: &mut Waiting<'_>) -> bool {
        self.log_watcher.has_news(waiting)
    }

    async fn next_look(&self, _: &ChainId, round: u64) -> Look {
        self.log_watcher.next_look(round).await
    }
}

/// The words of the common nodes for a transaction that no block has room for.
fn is_too_large(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["block gas limit", "gas limit too high", "gas limit is too high", "gaslimitexceeded", "gas limit cap"]
        .iter()
        .any(|words| text.contains(words))
}
