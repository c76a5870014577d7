//! The engine's port [`Chains`] for one Tron chain.

use std::{sync::Arc, time::Instant};

use alloy::primitives::Address;
use async_trait::async_trait;

use chains::{
    log_watcher::LogWatcher,
    registry::Chain,
    reservers::Reservers,
    setup::SetupError,
    sign_failures::SignFailures,
    submitters::{Leg, Submitters},
    under_way::{Entry, UnderWay},
};
use escrow_abi::awaited_transfers::AwaitedTransfers;
use events::{
    Account, Amount, ChainId, PaymentId,
    event::{Authorization, Claim, EscrowOpened, EscrowPlan, EscrowSecured, Inclusion, TransactionPrepared, Validity},
    time::unix_seconds,
};
use sagas::ports::{
    AddressFunds, AddressState, Chains, Clock, Cursor, DeliveryOrder, DeliveryState, DepositOrder, DepositState,
    EscrowState, ExpectedTerms, Look, PayerDeposit, PrepareError, ReassignmentOrder, ReassignmentState, RefundOrder,
    ReleaseOrder, Statement, TransactionState, Transient, Waiting,
};
use signer::Secp256k1Key;

use super::{
    address::{account_of, text},
    admitted_deposit,
    calls::{self, GatewayCall, refused},
    cost::{Cost, with_margin},
    daily_returns::DailyReturns,
    deliveries::Deliveries,
    deposit_addresses::Place,
    deposits::{Deposits, payer_deposit_id},
    escrows::Escrows,
    log_source::Logs,
    node::{Answer, Block, BroadcastError, Node},
    reassignment, reservation,
    submitters::{Senders, Warnings},
    transaction::{Call, Draft, Reference},
    transaction_status::{Transactions, id_of},
};

/// How long a transaction can get into a block, as wallets have it. One that did not is given up only when a solidified
/// block's time has reached its expiration, so it is not long.
const VALID_MS: u64 = 60_000;
/// Most deposits by Permit2 of one payer that are under way to a block; others wait. The payer can have them all fail by one transaction
/// of its own.
const PERMITS_UNDER_WAY_MAX: usize = 16;
/// Bytes of a signature in the encoded transaction, with what is around it and around `raw_data`.
const SIGNATURE_BYTES: usize = 75;

/// The keys with which the gateway acts on one chain.
#[derive(Clone)]
pub struct Keys {
    /// Signs what the escrow takes in; its account is the reserver of the chain's configuration.
    pub reserver: Secp256k1Key,
    /// Sign for the payments that name them: their accounts were the reserver.
    pub draining_reservers: Vec<Secp256k1Key>,
    /// Send the gateway's transactions and pay for them; payments are spread over them.
    pub submitters: Vec<Secp256k1Key>,
    /// Send refunds, releases and reassignments and nothing else; when there are none, the submitters do, and deposits leave them a
    /// reserve.
    pub exit_submitters: Vec<Secp256k1Key>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let accounts = |keys: &[Secp256k1Key]| keys.iter().map(|key| text(key.address())).collect::<Vec<_>>();
        f.debug_struct("Keys")
            .field("reserver", &text(self.reserver.address()))
            .field("draining_reservers", &accounts(&self.draining_reservers))
            .field("submitters", &accounts(&self.submitters))
            .field("exit_submitters", &accounts(&self.exit_submitters))
            .finish()
    }
}

/// One Tron chain that a gateway is connected to.
///
/// Where the payer's own transaction deposits there are two steps: it is brought on chain, and then the gateway's reservation names
/// the settler. From a deposit address both are one call. There are no nonces: a transaction can get into a block until it expires.
/// One that did not is given up when that is proven, and another is made, so nothing is ever replaced.
pub struct TronChain {
    node: Node,
    /// Without them the chain is a destination only.
    keys: Option<Held>,
    clock: Arc<dyn Clock>,
    warnings: Warnings,
    failures: SignFailures<Address>,
    awaited: Arc<AwaitedTransfers>,
    returns: DailyReturns,
    /// Deposits by Permit2 (ADR 156).
    permits: UnderWay<Account, PaymentId>,
    log_watcher: LogWatcher<Logs>,
}

/// The keys, as they are looked for.
struct Held {
    reservers: Reservers<Secp256k1Key>,
    submitters: Vec<Secp256k1Key>,
    exit_submitters: Vec<Secp256k1Key>,
}

impl Held {
    fn of_submitters(&self) -> Submitters<'_, Secp256k1Key> {
        Submitters { usual: &self.submitters, exits: &self.exit_submitters }
    }
}

impl Keys {
    /// Those of the reservers, as payments name them on the chain of `node`.
    ///
    /// # Errors
    /// See [`Reservers::new`].
    pub fn reservers(&self, node: &Node) -> Result<Reservers<Secp256k1Key>, SetupError> {
        let (chain_id, configured) = (node.chain_id().clone(), &node.config().common.reserver);
        Reservers::new(chain_id, configured, self.reserver.clone(), self.draining_reservers.clone(), account_of)
    }

    fn held(self, node: &Node) -> Result<Held, SetupError> {
        if self.submitters.is_empty() {
            return Err(SetupError::NoSubmitter(node.chain_id().clone()));
        }
        let reservers = self.reservers(node)?;
        Ok(Held { reservers, submitters: self.submitters, exit_submitters: self.exit_submitters })
    }
}

impl TronChain {
    /// The chain of `node`, with the gateway's keys there; without them it is a destination only.
    ///
    /// # Errors
    /// [`SetupError::NoSubmitter`], or what [`Reservers::new`] says of the reservers' keys.
    pub fn new(node: Node, keys: Option<Keys>, clock: Arc<dyn Clock>) -> Result<Self, SetupError> {
        let keys = keys.map(|keys| keys.held(&node)).transpose()?;
        let awaited = Arc::new(AwaitedTransfers::default());
        let log_watcher = LogWatcher::new(Logs::of(node.clone(), awaited.clone()), node.config().common.poll_ms);
        let (warnings, failures) = (Warnings::default(), SignFailures::default());
        let returns = DailyReturns::new(node.chain_id().clone(), node.config().deposit_returns_daily_max);
        let permits = UnderWay::default();
        Ok(Self { node, keys, clock, warnings, failures, awaited, returns, permits, log_watcher })
    }

    /// The node it asks.
    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// The accounts that send the gateway's transactions; none where it is a destination only.
    pub(super) fn submitter_accounts(&self) -> Vec<Address> {
        let keys = self.keys.iter().flat_map(|keys| keys.of_submitters().all());
        keys.map(Secp256k1Key::address).collect()
    }

    /// Sees what happened in the newest blocks, as [`Chains::next_event`] does by itself: for who learns of blocks in another
    /// way.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn watch_logs(&self) -> Result<(), Transient> {
        self.log_watcher.watch_newest().await
    }

    fn keys(&self) -> Result<&Held, Transient> {
        self.keys.as_ref().ok_or_else(|| Transient::misconfigured(format!("{} has no keys", self.node.chain_id())))
    }

    /// Who may send a transaction of this leg for the payment; those last whose keys gave no signature lately. What one of them
    /// did sign is journaled and stays, and no other is made while it can get into a block.
    fn senders(&self, leg: Leg, payment_id: &PaymentId) -> Result<Senders<'_>, Transient> {
        let (node, submitters) = (&self.node, self.keys()?.of_submitters());
        let exits_left = submitters.left_over(leg, node.config().common.exits_reserved);
        let now = self.clock.now();
        let keys = self.failures.failed_last(submitters.of(leg, payment_id), Secp256k1Key::address, now);
        Ok(Senders { node, keys, exits_left, warnings: &self.warnings, now })
    }

    /// The next transaction of a deposit; of `amount`, where no transaction of the payer's says how much it is.
    async fn prepare_deposit_of(
        &self,
        order: &DepositOrder,
        amount: Amount,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let (payer, payment_id) = (order.terms.source.account(), &order.payment_id);
        if !matches!(order.authorization, Authorization::TronPermit2Escrow(_)) {
            return self.prepare_next_of(order, amount, attempt).await;
        }
        let entry = self.permits.enter(payer, payment_id, PERMITS_UNDER_WAY_MAX, Instant::now());
        if entry == Entry::No {
            let what = format!("{PERMITS_UNDER_WAY_MAX} deposits of the payer's by Permit2 are under way");
            return Err(PrepareError::Waiting(what));
        }
        let prepared = self.prepare_next_of(order, amount, attempt).await;
        // What was signed before may be under way.
        prepared.inspect_err(|_| {
            if entry == Entry::New {
                self.permits.leave(payer, payment_id);
            }
        })
    }

    async fn prepare_next_of(
        &self,
        order: &DepositOrder,
        amount: Amount,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let submitters = self.senders(Leg::Deposit, &order.payment_id)?;
        // Before anything of the payer's is sent: without the key its deposit would only be locked up.
        let reserver = self.keys()?.reservers.of(&order.escrow.reserver).map_err(Transient::from)?;
        let call = match &order.authorization {
            Authorization::Tron(spend) => reservation::next(order, spend, reserver, &submitters).await?,
            Authorization::DepositAddress(_) | Authorization::TronPermit2Escrow(_) => {
                admitted_deposit::call(&self.node, order, amount, reserver, &*self.clock).await?
            }
            _ => return Err(Transient::misconfigured("the payer signed for another family").into()),
        };
        self.prepare(&submitters, call, attempt).await
    }

    /// Tries `call` out, prices it and signs it with a submitter.
    async fn prepare(
        &self,
        submitters: &Senders<'_>,
        call: GatewayCall,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let node = &self.node;
        let GatewayCall { contract, data, trial, energy_max, energy_least, taken_until, valid_until } = call;
        let refuse = |reason| refused(node.refusal(contract, reason), valid_until);
        let first = submitters.first()?;
        let (tried, tried_until) = match trial {
            Some(trial) => (trial.data, trial.valid_until),
            None => (data.clone(), valid_until),
        };
        let energy = match node.trial(first.address(), contract, tried, 0).await? {
            Answer::Returned { energy, .. } if energy_max.is_some_and(|max| energy > max) => {
                let what = format!("it takes {energy} energy, more than {}", energy_max.unwrap_or_default());
                return Err(refused(node.refusal(contract, what), tried_until));
            }
            Answer::Returned { energy, .. } => with_margin(energy).max(energy_least),
            Answer::Reverted { reason, .. } => return Err(refused(node.refusal(contract, reason), tried_until)),
        };
        let (now, prices) = (self.clock.now(), node.prices().await?);
        let span = node.span().await?;
        let mut draft = Draft {
            call: Call { owner: first.address(), contract, data, value_sun: 0 },
            fee_limit_sun: 0,
            reference: Reference::of(&span.settled),
            // The clock is after 1970.
            timestamp_ms: now.timestamp_millis().unsigned_abs(),
            expiration_ms: expiration(&span.head, taken_until).map_err(refuse)?,
        };
        let cost = Cost::new(energy, draft.raw_data().len() + SIGNATURE_BYTES);
        draft.fee_limit_sun = cost.fee_limit(&prices)?;
        // Nothing is signed before somebody can pay.
        let submitter = submitters.choose(&cost, &prices).await?.ok_or_else(|| {
            Transient::rate_limited(format!("no submitter of {} has the TRX for a transaction", node.chain_id()))
        })?;
        draft.call.owner = submitter.address();
        self.failures.try_again(&submitter.address(), self.clock.now());
        let signed = draft.sign_by(submitter).await;
        self.failures.note(submitter.address(), signed.is_ok(), self.clock.now());
        let signed = signed.map_err(Transient::from)?;
        Ok(TransactionPrepared {
            attempt,
            chain_id: node.chain_id().clone(),
            sender: account_of(submitter),
            validity: Validity::Expiration(signed.expiration_ms),
            transaction_hash: signed.id.to_string(),
            raw: format!("0x{}", hex::encode(signed.bytes)),
            prepared_at: now,
        })
    }
}

/// The expiration of a transaction that is made at `head`, UNIX milliseconds: in a block after the contract's own deadline it
/// would only cost.
///
/// # Errors
/// Why no block could have it in time.
fn expiration(head: &Block, taken_until: Option<u64>) -> Result<u64, String> {
    let last_ms = taken_until.map_or(u64::MAX, |second| second.saturating_mul(1_000));
    let expiration_ms = head.time_ms.saturating_add(VALID_MS).min(last_ms);
    match expiration_ms > head.time_ms {
        true => Ok(expiration_ms),
        false => Err(format!("the contract takes it up to {last_ms} ms, and the chain is at {} ms", head.time_ms)),
    }
}

impl Chain for TronChain {
    fn id(&self) -> &ChainId {
        self.node.chain_id()
    }
}

#[async_trait]
impl Chains for TronChain {
    fn expect_terms(&self, expected: &ExpectedTerms<'_>) {
        Deposits::of(&self.node).expect(expected);
    }

    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.prepare_deposit_of(order, order.reservation.source_amount, attempt).await
    }

    /// What is at a deposit address is deposited whole, by Permit2 what is asked for. Of the payer's own deposit the payer has said how
    /// much it is.
    async fn prepare_larger_deposit(
        &self,
        order: &DepositOrder,
        amount: Amount,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        self.prepare_deposit_of(order, amount, attempt).await
    }

    async fn prepare_refund(&self, order: &RefundOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let submitters = self.senders(Leg::Exit, &order.payment_id)?;
        let call = calls::refund(&self.node, order).await?;
        self.prepare(&submitters, call, attempt).await
    }

    async fn prepare_release(&self, order: &ReleaseOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let submitters = self.senders(Leg::Exit, &order.payment_id)?;
        let call = calls::release(&self.node, order).await?;
        self.prepare(&submitters, call, attempt).await
    }

    /// The chain's own escrow, where its code is not known to be of a version before there were reassignments, with the key of the
    /// reserver that the payment names.
    fn takes_reassignments(&self, escrow: &EscrowPlan) -> bool {
        escrow.contract == self.node.config().common.escrow_contract
            && self.keys.as_ref().is_some_and(|keys| keys.reservers.of(&escrow.reserver).is_ok())
            && !self.node.lacks_reassignments()
    }

    async fn prepare_reassignment(
        &self,
        order: &ReassignmentOrder,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let submitters = self.senders(Leg::Reassignment, &order.payment_id)?;
        let reserver = self.keys()?.reservers.of(&order.escrow.reserver).map_err(Transient::from)?;
        let call = reassignment::call(&self.node, order, reserver).await?;
        self.prepare(&submitters, call, attempt).await
    }

    async fn reassignment_state(&self, order: &ReassignmentOrder) -> Result<ReassignmentState, Transient> {
        reassignment::state(&self.node, order).await
    }

    async fn reprice(&self, _versions: &[TransactionPrepared]) -> Result<Option<TransactionPrepared>, Transient> {
        // A price is the network's and not offered; and two transactions could both land.
        Ok(None)
    }

    async fn broadcast(&self, transaction: &TransactionPrepared) -> Result<(), Transient> {
        let bytes = transaction.raw.strip_prefix("0x").and_then(|digits| hex::decode(digits).ok());
        let bytes = bytes.ok_or_else(|| Transient::misconfigured("the transaction is not hex"))?;
        let sent = self.node.broadcast(&bytes).await;
        sent.map_err(|error| match error {
            BroadcastError::Transient(fault) => fault,
            refusal @ BroadcastError::Refused { .. } => Transient::contradiction(refusal),
        })
    }

    async fn deposit_state(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<DepositState, Transient> {
        let state = Deposits::of(&self.node).state(order, versions).await?;
        if state != DepositState::Pending {
            self.permits.leave(order.terms.source.account(), &order.payment_id);
        }
        Ok(state)
    }

    async fn deposit_mined(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<Option<Inclusion>, Transient> {
        // The payer's own, where there is one: the reservation moves nothing. Of a call that deposits and reserves there is one version.
        let id = match (payer_deposit_id(&order.authorization), versions) {
            (Some(id), _) => id,
            (None, [version]) => id_of(version)?,
            (None, _) => return Ok(None),
        };
        let since = self.log_watcher.round();
        let mined = Transactions::of(&self.node).mined(id).await?;
        if let Some(inclusion) = &mined {
            self.log_watcher.note_shown(order.payment_id.on_chain(), since, inclusion.block_number);
            // What is in a block is out of the payer's reach.
            self.permits.leave(order.terms.source.account(), &order.payment_id);
        }
        Ok(mined)
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        let since = self.log_watcher.round();
        let state = Deliveries::of(&self.node).state(order).await?;
        if let DeliveryState::Seen(inclusion) = &state {
            self.log_watcher.note_shown(order.payment_id.on_chain(), since, inclusion.block_number);
        }
        Ok(state)
    }

    async fn escrow_state(&self, payment_id: &PaymentId, escrow: &EscrowPlan) -> Result<EscrowState, Transient> {
        Escrows::of(&self.node).state(payment_id, escrow).await
    }

    async fn claims(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        Escrows::of(&self.node).claims(payment_id, escrow, end).await
    }

    async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        Deposits::of(&self.node).secured(order).await
    }

    async fn stranded_deposit(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        Deposits::of(&self.node).stranded(deposit).await
    }

    async fn payer_has_escrow(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        payer: &Account,
    ) -> Result<(bool, u64), Transient> {
        Deposits::of(&self.node).has_of(payment_id, escrow, payer).await
    }

    async fn escrow_found(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        Deposits::of(&self.node).found(deposit).await
    }

    async fn deposit_ruled_out(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        after: u64,
    ) -> Result<bool, Transient> {
        Deposits::of(&self.node).ruled_out(payment_id, escrow, after).await
    }

    async fn deposit_forestalled(&self, deposit: &PayerDeposit) -> Result<bool, Transient> {
        Deposits::of(&self.node).forestalled(deposit).await
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
        }
        Ok(state)
    }

    /// What it does is the same whoever sends it. Nothing is lost when it waits, unlike a release: so it leaves what those need.
    async fn prepare_give_back(
        &self,
        deposit: &PayerDeposit,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let (submitters, place) = (self.senders(Leg::Deposit, &deposit.payment_id)?, Place::of(deposit)?);
        let now = self.clock.now();
        if !self.returns.take(now) {
            let (max, chain_id) = (self.returns.max(), self.node.chain_id());
            let what = format!("as much was given back on {chain_id} in a day as may be ({max} times)");
            return Err(Transient::rate_limited(what).into());
        }
        let prepared = self.prepare(&submitters, place.give_back(), attempt).await;
        prepared.inspect_err(|_| self.returns.give_back(now))
    }

    async fn transaction_state(&self, versions: &[TransactionPrepared]) -> Result<TransactionState, Transient> {
        Transactions::of(&self.node).state(versions).await
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
        self.log_watcher.head()
    }

    async fn next_block(&self, _: &ChainId) {
        self.log_watcher.next_block().await;
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
