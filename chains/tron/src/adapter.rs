//! The engine's port [`Chains`] for one Tron chain.

use std::sync::Arc;

use alloy::signers::local::PrivateKeySigner;
use async_trait::async_trait;

use chains::{
    log_watcher::LogWatcher,
    registry::Chain,
    setup::SetupError,
    submitters::{Leg, Submitters},
};
use events::{
    Account, ChainId, PaymentId,
    event::{Authorization, Claim, EscrowOpened, EscrowPlan, EscrowSecured, Inclusion, TransactionPrepared, Validity},
};
use sagas::ports::{
    Chains, Clock, Cursor, DeliveryOrder, DeliveryState, DepositOrder, DepositState, EscrowState, Look, PayerDeposit,
    PrepareError, RefundOrder, ReleaseOrder, Statement, TransactionState, Transient, Waiting,
};

use super::{
    address::{account_of, text},
    calls::{self, GatewayCall, refused},
    cost::{Cost, with_margin},
    deliveries::Deliveries,
    deposits::{Deposits, payer_deposit_id},
    escrows::Escrows,
    log_source::Logs,
    node::{Answer, Block, BroadcastError, Node},
    reservation,
    submitters::{Senders, Warnings},
    transaction::{Call, Draft, Reference},
    transaction_status::Transactions,
};

/// How long a transaction can get into a block, as wallets have it. One that did not is given up only when a solidified
/// block's time has reached its expiration, so it is not long.
const VALID_MS: u64 = 60_000;
/// Bytes of a signature in the encoded transaction, with what is around it and around `raw_data`.
const SIGNATURE_BYTES: usize = 75;

/// The keys with which the gateway acts on one chain.
#[derive(Clone)]
pub struct Keys {
    /// Signs what the escrow takes in; its account is the reserver of the chain's configuration.
    pub reserver: PrivateKeySigner,
    /// Send the gateway's transactions and pay for them; payments are spread over them.
    pub submitters: Vec<PrivateKeySigner>,
    /// Send refunds and releases and nothing else; when there are none, the submitters do, and deposits leave them a reserve.
    pub exit_submitters: Vec<PrivateKeySigner>,
}

impl Keys {
    fn of_submitters(&self) -> Submitters<'_, PrivateKeySigner> {
        Submitters { usual: &self.submitters, exits: &self.exit_submitters }
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let accounts = |keys: &[PrivateKeySigner]| keys.iter().map(|key| text(key.address())).collect::<Vec<_>>();
        f.debug_struct("Keys")
            .field("reserver", &text(self.reserver.address()))
            .field("submitters", &accounts(&self.submitters))
            .field("exit_submitters", &accounts(&self.exit_submitters))
            .finish()
    }
}

/// One Tron chain that a gateway is connected to.
///
/// The payer's own transaction deposits, so there are two steps: it is brought on chain, and then the gateway's reservation
/// names the settler. There are no nonces: a transaction can get into a block until it expires. One that did not is given
/// up when that is proven, and another is made, so nothing is ever replaced.
pub struct TronChain {
    node: Node,
    /// Without them the chain is a destination only.
    keys: Option<Keys>,
    clock: Arc<dyn Clock>,
    warnings: Warnings,
    log_watcher: LogWatcher<Logs>,
}

impl TronChain {
    /// The chain of `node`, with the gateway's keys there; without them it is a destination only.
    ///
    /// # Errors
    /// [`SetupError::NoSubmitter`], or [`SetupError::Reserver`] when the key is not the configured reserver's.
    pub fn new(node: Node, keys: Option<Keys>, clock: Arc<dyn Clock>) -> Result<Self, SetupError> {
        if let Some(keys) = &keys {
            let chain_id = node.chain_id().clone();
            if keys.submitters.is_empty() {
                return Err(SetupError::NoSubmitter(chain_id));
            }
            let (configured, key) = (node.config().common.reserver.clone(), account_of(&keys.reserver));
            if configured != key {
                return Err(SetupError::Reserver { chain_id, configured, key });
            }
        }
        let log_watcher = LogWatcher::new(Logs::of(node.clone()), node.config().common.poll_ms);
        Ok(Self { node, keys, clock, warnings: Warnings::default(), log_watcher })
    }

    /// The node it asks.
    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// The accounts that send the gateway's transactions; none where it is a destination only.
    pub(super) fn submitter_accounts(&self) -> Vec<alloy::primitives::Address> {
        let keys = self.keys.iter().flat_map(|keys| keys.of_submitters().all());
        keys.map(PrivateKeySigner::address).collect()
    }

    fn keys(&self) -> Result<&Keys, Transient> {
        self.keys.as_ref().ok_or_else(|| Transient::misconfigured(format!("{} has no keys", self.node.chain_id())))
    }

    /// Who may send a transaction of this leg for the payment.
    fn senders(&self, leg: Leg, payment_id: &PaymentId) -> Result<Senders<'_>, Transient> {
        let (node, submitters) = (&self.node, self.keys()?.of_submitters());
        let exits_left = submitters.left_over(leg, node.config().common.exits_reserved);
        let keys = submitters.of(leg, payment_id);
        Ok(Senders { node, keys, exits_left, warnings: &self.warnings, now: self.clock.now() })
    }

    /// Tries `call` out, prices it and signs it with a submitter.
    async fn prepare(
        &self,
        submitters: &Senders<'_>,
        call: GatewayCall,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let node = &self.node;
        let GatewayCall { contract, data, energy_least, taken_until, valid_until } = call;
        let refuse = |reason| refused(node.refusal(contract, reason), valid_until);
        let first = submitters.first()?;
        let energy = match node.trial(first.address(), contract, data.clone(), 0).await? {
            Answer::Returned { energy, .. } => with_margin(energy).max(energy_least),
            Answer::Reverted { reason, .. } => return Err(refuse(reason)),
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
        let signed = draft.sign(submitter);
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
    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let submitters = self.senders(Leg::Deposit, &order.payment_id)?;
        let Authorization::Tron(spend) = &order.authorization else {
            return Err(Transient::misconfigured("the payer signed for another family").into());
        };
        let call = reservation::next(order, spend, &self.keys()?.reserver, &submitters).await?;
        self.prepare(&submitters, call, attempt).await
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
        Deposits::of(&self.node).state(order, versions).await
    }

    async fn deposit_mined(
        &self,
        order: &DepositOrder,
        _: &[TransactionPrepared],
    ) -> Result<Option<Inclusion>, Transient> {
        // The payer's own: the reservation moves nothing.
        let Some(id) = payer_deposit_id(&order.authorization) else { return Ok(None) };
        let since = self.log_watcher.round();
        let mined = Transactions::of(&self.node).mined(id).await?;
        if let Some(inclusion) = &mined {
            self.log_watcher.note_shown(order.payment_id.on_chain(), since, inclusion.block_number);
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

    async fn deposit_ruled_out(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        after: u64,
    ) -> Result<bool, Transient> {
        Deposits::of(&self.node).ruled_out(payment_id, escrow, after).await
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
