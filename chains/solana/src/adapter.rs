//! The engine's [`Chains`] port for one Solana cluster.

use std::sync::Arc;

use async_trait::async_trait;

use chains::{
    registry::Chain,
    reservers::Reservers,
    setup::SetupError,
    sign_failures::SignFailures,
    submitters::{Leg, Submitters},
};
use events::{
    Account, Amount, ChainId, PaymentId,
    event::{Authorization, Claim, EscrowOpened, EscrowPlan, EscrowSecured, Inclusion, TransactionPrepared, Validity},
};
use gateway_program::{Key, host};
use sagas::ports::{
    AddressFunds, AddressState, Chains, Clock, Cursor, DeliveryOrder, DeliveryState, DepositOrder, DepositState,
    EscrowState, Look, OwnReturn, PayerDeposit, PrepareError, ReassignmentOrder, ReassignmentState, RefundOrder,
    ReleaseOrder, Statement, TransactionState, Transient, Waiting,
};
use signer::Ed25519Key;

use super::{
    broadcaster::Broadcaster,
    calls::{Call, Release, deposit, refund, release},
    deliveries::Deliveries,
    deposit_addresses::Place,
    deposit_from_address,
    escrows::Escrows,
    node::Node,
    program::{fulfillment, holder, key, text},
    purchases::Purchase,
    reassignments::{self, Reassignments},
    record_watcher::{RecordWatcher, Watched},
    refusal::refused_trial,
    submitters::Warnings,
    transaction::{self, Budget, SignError},
    transaction_status::Transactions,
};

/// The keys with which the gateway acts on one cluster.
#[derive(Clone)]
pub struct Keys {
    /// Signs every deposit beside the submitter; its account is the reserver of the chain's configuration.
    pub reserver: Ed25519Key,
    /// Sign for the payments that name them: their accounts were the reserver.
    pub draining_reservers: Vec<Ed25519Key>,
    /// Send the gateway's transactions and pay for them; payments are spread over them.
    pub submitters: Vec<Ed25519Key>,
    /// Send refunds, releases and reassignments and nothing else; when there are none, the submitters do, and deposits leave them a
    /// reserve.
    pub exit_submitters: Vec<Ed25519Key>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let accounts = |keys: &[Ed25519Key]| keys.iter().map(|key| text(&key.public())).collect::<Vec<_>>();
        f.debug_struct("Keys")
            .field("reserver", &text(&self.reserver.public()))
            .field("draining_reservers", &accounts(&self.draining_reservers))
            .field("submitters", &accounts(&self.submitters))
            .field("exit_submitters", &accounts(&self.exit_submitters))
            .finish()
    }
}

/// A cluster that the gateway is connected to.
///
/// There are no nonces: a transaction carries a blockhash and can land for a minute or so. One that did not is given up
/// when that is proven, and another is made, so nothing is ever replaced.
pub struct SolanaChain {
    node: Node,
    keys: Option<Held>,
    clock: Arc<dyn Clock>,
    warnings: Warnings,
    failures: SignFailures<Key>,
    record_watcher: RecordWatcher,
}

/// The keys, as they are looked for.
struct Held {
    reservers: Reservers<Ed25519Key>,
    submitters: Vec<Ed25519Key>,
    exit_submitters: Vec<Ed25519Key>,
}

impl Held {
    fn of_submitters(&self) -> Submitters<'_, Ed25519Key> {
        Submitters { usual: &self.submitters, exits: &self.exit_submitters }
    }
}

impl Keys {
    /// The accounts of [`Self::submitters`], in order.
    pub fn submitter_accounts(&self) -> Vec<Account> {
        self.submitters.iter().map(|key| holder(&key.public())).collect()
    }

    fn held(self, node: &Node) -> Result<Held, SetupError> {
        let Self { reserver, draining_reservers, submitters, exit_submitters } = self;
        let chain_id = node.chain_id().clone();
        if submitters.is_empty() {
            return Err(SetupError::NoSubmitter(chain_id));
        }
        let configured = &node.config().common.reserver;
        let account = |key: &Ed25519Key| holder(&key.public());
        let reservers = Reservers::new(chain_id, configured, reserver, draining_reservers, account)?;
        Ok(Held { reservers, submitters, exit_submitters })
    }
}

impl SolanaChain {
    /// The cluster of `node` with the gateway's keys there; without them it is a destination only.
    ///
    /// # Errors
    /// [`SetupError`], when the keys are not those of the configuration, or one repeats.
    pub fn new(node: Node, keys: Option<Keys>, clock: Arc<dyn Clock>) -> Result<Self, SetupError> {
        let keys = keys.map(|keys| keys.held(&node)).transpose()?;
        let record_watcher = RecordWatcher::new(node.clone());
        Ok(Self { node, keys, clock, warnings: Warnings::default(), failures: SignFailures::default(), record_watcher })
    }

    /// Sees what happened in the newest blocks, as [`Chains::next_event`] does by itself: for who learns of blocks in another
    /// way.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn watch_records(&self) -> Result<(), Transient> {
        self.record_watcher.watch_newest().await
    }

    /// The node it asks.
    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// The accounts that send the gateway's transactions; none where it is a destination only.
    pub(super) fn submitter_accounts(&self) -> Vec<[u8; 32]> {
        let keys = self.keys.iter().flat_map(|keys| keys.of_submitters().all());
        keys.map(Ed25519Key::public).collect()
    }

    /// A look at the payment's escrow begins; how many rounds of the record watcher there were.
    fn look_at_escrow(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        is_unsettled_seen: bool,
    ) -> Result<u64, Transient> {
        let address = host::escrow_address(&key(&plan.contract)?, &payment_id.on_chain().0).key;
        Ok(self.record_watcher.look(payment_id, Watched { address, is_unsettled_seen }))
    }

    fn keys(&self) -> Result<&Held, Transient> {
        self.keys.as_ref().ok_or_else(|| Transient::misconfigured(format!("{} has no keys", self.node.chain_id())))
    }

    /// The submitter whose signature the buyer's transfer takes. It is one of those that are not for exits alone.
    fn fee_payer(&self, purchase: &Purchase) -> Result<&Ed25519Key, Transient> {
        let account = purchase.fee_payer();
        let key = self.keys()?.submitters.iter().find(|submitter| submitter.public() == account);
        key.ok_or_else(|| {
            let (chain_id, account) = (self.node.chain_id(), text(&account));
            Transient::misconfigured(format!(
                "no submitter of {chain_id} is {account}, who pays for a buyer's transfer"
            ))
        })
    }

    /// Who may send a transaction of this leg for the payment, the preferred one first; those last whose keys gave no signature
    /// lately. What one of them did sign is journaled and stays, and no other is made while it can land.
    fn senders(&self, leg: Leg, payment_id: &PaymentId) -> Result<Vec<&Ed25519Key>, Transient> {
        let senders = self.keys()?.of_submitters().of(leg, payment_id);
        Ok(self.failures.failed_last(senders, Ed25519Key::public, self.clock.now()))
    }

    /// Simulates `call`, prices it and signs it with `submitter`, and with `reserver` where it reserves.
    async fn prepare(
        &self,
        submitter: &Ed25519Key,
        reserver: Option<&Ed25519Key>,
        call: Call<'_>,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        self.warn_if_low(&call);
        let broadcaster = Broadcaster::of(&self.node);
        let payer = submitter.public();
        let trial = transaction::message(&call.instructions, Budget::TRIAL, &payer, &[0; 32]);
        let wire = transaction::trial(&trial).map_err(Transient::from)?;
        let simulated = broadcaster.simulate(&wire).await?;
        if let Some(error) = &simulated.error {
            return Err(refused_trial(&self.node, &call.program, error, &transaction::programs(&trial)));
        }
        let recent = broadcaster.recent_fees(&call.contended).await?;
        let budget = Budget::new(simulated.units, &recent, attempt);
        let blockhash = broadcaster.blockhash(self.node.settled().await?).await?;
        let message = transaction::message(&call.instructions, budget, &payer, &blockhash.hash);
        let signers: Vec<_> = [submitter].into_iter().chain(reserver).collect();
        self.failures.try_again(&payer, self.clock.now());
        let signed = transaction::sign_by(&message, &signers).await;
        // The reserver's key may be at another service.
        let has_signed = !matches!(&signed, Err(SignError::Key { account, .. }) if *account == payer);
        self.failures.note(payer, has_signed, self.clock.now());
        let signed = signed.map_err(Transient::from)?;
        Ok(TransactionPrepared {
            attempt,
            chain_id: self.node.chain_id().clone(),
            sender: holder(&payer),
            validity: Validity::LastBlockHeight(blockhash.last_valid_height),
            transaction_hash: signed.hash,
            raw: format!("0x{}", hex::encode(signed.wire)),
            prepared_at: self.clock.now(),
        })
    }

    fn warn_if_low(&self, call: &Call) {
        let now = self.clock.now();
        for (account, lamports) in &call.submitters {
            self.warnings.check(&self.node, account, *lamports, now);
        }
    }
}

impl Chain for SolanaChain {
    fn id(&self) -> &ChainId {
        self.node.chain_id()
    }
}

#[async_trait]
impl Chains for SolanaChain {
    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.prepare_larger_deposit(order, order.reservation.source_amount, attempt).await
    }

    /// What is at a deposit address is deposited whole; of what is signed for what is reserved.
    async fn prepare_larger_deposit(
        &self,
        order: &DepositOrder,
        amount: Amount,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let keys = self.keys()?;
        let exits_left = keys.of_submitters().left_over(Leg::Deposit, self.node.config().common.exits_reserved);
        let senders = self.senders(Leg::Deposit, &order.payment_id)?;
        let reserver = keys.reservers.of(&order.escrow.reserver).map_err(Transient::from)?;
        let (call, submitter) = match &order.authorization {
            Authorization::DepositAddress(_) => {
                deposit_from_address::deposit(&self.node, order, amount, &senders, exits_left).await?
            }
            Authorization::SolanaX402Exact(_) => {
                let purchase = Purchase::of(&order.payer_deposit())?;
                let fee_payer = || self.fee_payer(&purchase);
                purchase.deposit(&self.node, order, fee_payer, &senders, exits_left).await?
            }
            _ => deposit(&self.node, order, &senders, exits_left).await?,
        };
        self.prepare(submitter, Some(reserver), call, attempt).await
    }

    async fn prepare_refund(&self, order: &RefundOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let senders = self.senders(Leg::Exit, &order.payment_id)?;
        let (call, submitter) = refund(&self.node, order, &senders).await?;
        self.prepare(submitter, None, call, attempt).await
    }

    async fn prepare_release(&self, order: &ReleaseOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let senders = self.senders(Leg::Exit, &order.payment_id)?;
        self.look_at_escrow(&order.payment_id, &order.escrow, false)?;
        let Release { call, submitter, remainder } = release(&self.node, order, &senders).await?;
        // A payer who spoils his account between each simulation and its block holds up every other attempt, and no more.
        if let Some(remainder) = remainder.filter(|_| attempt % 2 == 1) {
            let mut whole = call.clone();
            whole.instructions.push(remainder);
            match self.prepare(submitter, None, whole, attempt).await {
                Err(PrepareError::Refused(_) | PrepareError::Transient(Transient::Misconfigured(_))) => {}
                prepared => return prepared,
            }
        }
        self.prepare(submitter, None, call, attempt).await
    }

    /// The chain's own program, where it is not known to be of a version before there were reassignments, with the key of the
    /// reserver that the payment names.
    fn takes_reassignments(&self, escrow: &EscrowPlan) -> bool {
        let has_key = self.keys.as_ref().is_some_and(|keys| keys.reservers.of(&escrow.reserver).is_ok());
        has_key && escrow.contract == self.node.config().common.escrow_contract && !self.node.lacks_reassignments()
    }

    async fn prepare_reassignment(
        &self,
        order: &ReassignmentOrder,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let keys = self.keys()?;
        let reserver = keys.reservers.of(&order.escrow.reserver).map_err(Transient::from)?;
        let reserved = self.node.config().common.exits_reserved;
        let exits_left = keys.of_submitters().left_over(Leg::Reassignment, reserved);
        let senders = self.senders(Leg::Reassignment, &order.payment_id)?;
        let (call, submitter) = reassignments::call(&self.node, order, &senders, exits_left).await?;
        self.prepare(submitter, Some(reserver), call, attempt).await
    }

    async fn reassignment_state(&self, order: &ReassignmentOrder) -> Result<ReassignmentState, Transient> {
        self.look_at_escrow(&order.payment_id, &order.escrow, false)?;
        Reassignments::of(&self.node).state(order).await
    }

    async fn claims(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        _end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        Escrows::of(&self.node).claims(payment_id, escrow).await
    }

    async fn reprice(&self, _versions: &[TransactionPrepared]) -> Result<Option<TransactionPrepared>, Transient> {
        // Two transactions with two blockhashes could both land; so the first is given up before there is another.
        Ok(None)
    }

    async fn broadcast(&self, transaction: &TransactionPrepared) -> Result<(), Transient> {
        let wire = transaction::wire_of(&transaction.raw);
        let wire = wire.ok_or_else(|| Transient::misconfigured("the transaction is not hex"))?;
        Broadcaster::of(&self.node).send(&wire).await
    }

    async fn deposit_state(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<DepositState, Transient> {
        self.look_at_escrow(&order.payment_id, &order.escrow, true)?;
        Transactions::of(&self.node).deposit_state(order, versions).await
    }

    async fn address_funds(&self, deposit: &PayerDeposit) -> Result<AddressFunds, Transient> {
        let place = Place::of(deposit)?;
        let (funds, address) = place.funds(&self.node).await?;
        self.record_watcher.look(&deposit.payment_id, Watched { address, is_unsettled_seen: true });
        Ok(funds)
    }

    async fn address_state(&self, deposit: &PayerDeposit, since: Option<u64>) -> Result<AddressState, Transient> {
        if deposit.authorization.purchase().is_some() {
            self.look_at_escrow(&deposit.payment_id, &deposit.escrow, false)?;
            return Purchase::of(deposit)?.state(&self.node).await;
        }
        let place = Place::of(deposit)?;
        // What is waited for is a settled second; what happens there until then changes nothing.
        let [address, _] = place.token_accounts();
        self.record_watcher.look(&deposit.payment_id, Watched { address, is_unsettled_seen: false });
        place.state(&self.node, since).await
    }

    async fn prepare_give_back(
        &self,
        deposit: &PayerDeposit,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let keys = self.keys()?;
        let exits_left = keys.of_submitters().left_over(Leg::Deposit, self.node.config().common.exits_reserved);
        let senders = self.senders(Leg::Deposit, &deposit.payment_id)?;
        if deposit.authorization.purchase().is_some() {
            let reserver = keys.reservers.of(&deposit.escrow.reserver).map_err(Transient::from)?;
            let purchase = Purchase::of(deposit)?;
            let (call, submitter) = purchase.collect(&self.node, &reserver.public(), &senders, exits_left).await?;
            return self.prepare(submitter, Some(reserver), call, attempt).await;
        }
        let (call, submitter) = Place::of(deposit)?.give_back(&self.node, &senders, exits_left).await?;
        self.prepare(submitter, None, call, attempt).await
    }

    async fn given_back_by(
        &self,
        deposit: &PayerDeposit,
        versions: &[TransactionPrepared],
    ) -> Result<OwnReturn, Transient> {
        if deposit.authorization.purchase().is_some() {
            return Purchase::of(deposit)?.collected_by(&self.node, versions).await;
        }
        Place::of(deposit)?.given_back_by(&self.node, versions).await
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        let (program, terms) = (key(&order.proxy)?, fulfillment(order)?);
        let address = host::fulfillment_address(&program, &terms.key(&program)).key;
        let since = self.record_watcher.look(&order.payment_id, Watched { address, is_unsettled_seen: true });
        let state = Deliveries::of(&self.node).state(order).await?;
        if let DeliveryState::Seen(inclusion) = &state {
            self.record_watcher.note_shown(&order.payment_id, since, inclusion.block_number);
        }
        Ok(state)
    }

    async fn escrow_state(&self, payment_id: &PaymentId, escrow: &EscrowPlan) -> Result<EscrowState, Transient> {
        self.look_at_escrow(payment_id, escrow, false)?;
        Escrows::of(&self.node).state(payment_id, escrow).await
    }

    async fn deposit_mined(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<Option<Inclusion>, Transient> {
        let since = self.look_at_escrow(&order.payment_id, &order.escrow, true)?;
        let mined = Transactions::of(&self.node).mined(versions).await?;
        if let Some(inclusion) = &mined {
            self.record_watcher.note_shown(&order.payment_id, since, inclusion.block_number);
        }
        Ok(mined)
    }

    async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        Transactions::of(&self.node).deposit_secured(order).await
    }

    async fn payer_has_escrow(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        payer: &Account,
    ) -> Result<(bool, u64), Transient> {
        Transactions::of(&self.node).has_escrow_of(payment_id, escrow, payer).await
    }

    async fn escrow_found(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        Transactions::of(&self.node).escrow_found(&deposit.payment_id, &deposit.escrow).await
    }

    async fn deposit_ruled_out(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        after: u64,
    ) -> Result<bool, Transient> {
        Transactions::of(&self.node).deposit_ruled_out(payment_id, escrow, after).await
    }

    async fn transaction_state(&self, versions: &[TransactionPrepared]) -> Result<TransactionState, Transient> {
        Transactions::of(&self.node).transaction_state(versions).await
    }

    async fn attestation_holds(
        &self,
        statement: &Statement,
        escrow: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient> {
        Ok(Escrows::of(&self.node).attestation_holds(statement, escrow, signature))
    }

    async fn signed_by(
        &self,
        statement: &Statement,
        escrow: &EscrowPlan,
        member: &Account,
        signature: &str,
    ) -> Result<bool, Transient> {
        Ok(Escrows::of(&self.node).signed_by(statement, escrow, member, signature))
    }

    fn head(&self, _: &ChainId) -> Option<u64> {
        self.record_watcher.head()
    }

    async fn next_block(&self, _: &ChainId) {
        self.record_watcher.next_block().await;
    }

    fn cursor(&self, _: &ChainId, contract: &Account) -> Option<Cursor> {
        self.record_watcher.cursor(contract)
    }

    async fn next_event(&self, waiting: &Waiting<'_>) {
        self.record_watcher.next_event(waiting).await;
    }

    fn awaits_block(&self, waiting: &Waiting<'_>) -> bool {
        self.record_watcher.awaits_block(waiting)
    }

    fn has_news(&self, waiting: &mut Waiting<'_>) -> bool {
        self.record_watcher.has_news(waiting)
    }

    async fn next_look(&self, _: &ChainId, round: u64) -> Look {
        self.record_watcher.next_look(round).await
    }
}
