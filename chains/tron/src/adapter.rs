//! The engine's [`Chains`] port for Tron chains.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use alloy::signers::local::PrivateKeySigner;
use async_trait::async_trait;

use chains::{
    registry::Adapter,
    setup::SetupError,
    submitters::{Leg, Submitters},
};
use events::{
    ChainId, PaymentId,
    event::{Authorization, Claim, EscrowOpened, EscrowPlan, EscrowSecured, Inclusion, TransactionPrepared, Validity},
};
use sagas::ports::{
    Chains, Clock, DeliveryOrder, DeliveryState, DepositOrder, DepositState, EscrowState, PayerDeposit, PrepareError,
    RefundOrder, Refusal, ReleaseOrder, Statement, TransactionState, Transient,
};

use super::{
    address::{address, text},
    calls::{self, Cost, Next, OwnCall, with_margin},
    node::{Answer, BroadcastError, Node, Span},
    submitters::{Senders, Warnings},
    transaction::{Call, Draft, Reference},
};

/// How long the wait for a block of a chain that is not connected lasts.
const NO_BLOCK_WAIT: Duration = Duration::from_secs(1);
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

/// A chain the gateway is connected to.
#[derive(Debug, Clone)]
pub struct TronChain {
    /// The connection.
    pub node: Node,
    /// The gateway's keys there; without them the chain is a destination only.
    pub keys: Option<Keys>,
}

/// The Tron chains of a gateway.
///
/// The payer's own transaction deposits, so there are two steps: it is brought on chain, and then the gateway's reservation
/// names the settler. There are no nonces: a transaction can get into a block until it expires. One that did not is given
/// up when that is proven, and another is made, so nothing is ever replaced.
pub struct TronChains {
    chains: BTreeMap<ChainId, TronChain>,
    clock: Arc<dyn Clock>,
    warnings: Warnings,
}

impl TronChains {
    /// The port over `chains`.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn new(chains: impl IntoIterator<Item = TronChain>, clock: Arc<dyn Clock>) -> Result<Self, SetupError> {
        let mut by_id = BTreeMap::new();
        for chain in chains {
            let chain_id = chain.node.chain_id().clone();
            if let Some(keys) = &chain.keys {
                if keys.submitters.is_empty() {
                    return Err(SetupError::NoSubmitter(chain_id));
                }
                let configured = chain.node.config().reserver.clone();
                let key = text(keys.reserver.address());
                if address(&configured) != Ok(keys.reserver.address()) {
                    return Err(SetupError::Reserver { chain_id, configured, key });
                }
            }
            if by_id.insert(chain_id.clone(), chain).is_some() {
                return Err(SetupError::Twice(chain_id));
            }
        }
        Ok(Self { chains: by_id, clock, warnings: Warnings::default() })
    }

    /// The connection to a chain, or `None` for a chain that is not configured.
    pub fn node(&self, chain_id: &ChainId) -> Option<&Node> {
        self.chains.get(chain_id).map(|chain| &chain.node)
    }

    fn chain(&self, chain_id: &ChainId) -> Result<&TronChain, Transient> {
        self.chains.get(chain_id).ok_or_else(|| Transient::misconfigured(format!("{chain_id} is not configured")))
    }

    /// Who may send a transaction of this leg for the payment on `chain`.
    fn senders<'a>(&'a self, chain: &'a TronChain, keys: &'a Keys, leg: Leg, payment_id: &PaymentId) -> Senders<'a> {
        let (node, submitters) = (&chain.node, keys.of_submitters());
        let exits_left = submitters.left_over(leg, node.config().exits_reserved);
        let keys = submitters.of(leg, payment_id);
        Senders { node, keys, exits_left, warnings: &self.warnings, now: self.clock.now() }
    }

    /// Tries `call` out, prices it and signs it with a submitter.
    async fn prepare(
        &self,
        submitters: &Senders<'_>,
        call: OwnCall,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let node = submitters.node;
        let OwnCall { contract, data, energy_least, taken_until, valid_until } = call;
        let refuse = |reason| {
            let context = node.refusal(contract, reason);
            PrepareError::Refused(Box::new(Refusal { context, valid_until }))
        };
        let first = submitters.first()?;
        let energy = match node.trial(first.address(), contract, data.clone(), 0).await? {
            Answer::Returned { energy, .. } => with_margin(energy).max(energy_least),
            Answer::Reverted { reason, .. } => return Err(refuse(reason)),
        };
        let (now, prices) = (self.clock.now(), node.prices().await?);
        let Span { settled, head } = node.span().await?;
        // In a block after the contract's own deadline it would only cost.
        let last_ms = taken_until.map_or(u64::MAX, |second| second.saturating_mul(1_000));
        let expiration_ms = head.time_ms.saturating_add(VALID_MS).min(last_ms);
        if expiration_ms <= head.time_ms {
            return Err(refuse(format!(
                "the contract takes it up to {last_ms} ms, and the chain is at {} ms",
                head.time_ms
            )));
        }
        let mut draft = Draft {
            call: Call { owner: first.address(), contract, data, value_sun: 0 },
            fee_limit_sun: 0,
            reference: Reference::of(&settled),
            // The clock is after 1970.
            timestamp_ms: now.timestamp_millis().unsigned_abs(),
            expiration_ms,
        };
        let cost = Cost::new(energy, draft.raw_data().len() + SIGNATURE_BYTES);
        draft.fee_limit_sun = cost.fee_limit(&prices).ok_or_else(|| {
            Transient::misconfigured(format!("{} takes no fee_limit that covers {energy} energy", node.chain_id()))
        })?;
        // Nothing is signed before somebody can pay.
        let submitter = submitters.choose(&cost, &prices).await?.ok_or_else(|| {
            Transient::rate_limited(format!("no submitter of {} has the TRX for a transaction", node.chain_id()))
        })?;
        draft.call.owner = submitter.address();
        let signed = draft.sign(submitter);
        Ok(TransactionPrepared {
            attempt,
            chain_id: node.chain_id().clone(),
            sender: text(submitter.address()),
            validity: Validity::Expiration(signed.expiration_ms),
            transaction_hash: signed.id.to_string(),
            raw: format!("0x{}", hex::encode(signed.bytes)),
            prepared_at: now,
        })
    }
}

fn keys(chain: &TronChain) -> Result<&Keys, Transient> {
    chain.keys.as_ref().ok_or_else(|| Transient::misconfigured(format!("{} has no keys", chain.node.chain_id())))
}

impl Adapter for TronChains {
    fn chain_ids(&self) -> Vec<ChainId> {
        self.chains.keys().cloned().collect()
    }
}

#[async_trait]
impl Chains for TronChains {
    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let chain = self.chain(&order.escrow.chain_id)?;
        let keys = keys(chain)?;
        let Authorization::Tron(spend) = &order.authorization else {
            return Err(Transient::misconfigured("the payer signed for no Tron chain").into());
        };
        let submitters = self.senders(chain, keys, Leg::Deposit, &order.payment_id);
        match calls::deposit(order, spend, &keys.reserver, &submitters).await? {
            Next::Reserve(call) => self.prepare(&submitters, call, attempt).await,
            Next::NotYet(why) => Err(why),
        }
    }

    async fn prepare_refund(&self, order: &RefundOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let chain = self.chain(&order.escrow.chain_id)?;
        let keys = keys(chain)?;
        let call = calls::refund(&chain.node, order).await?;
        self.prepare(&self.senders(chain, keys, Leg::Exit, &order.payment_id), call, attempt).await
    }

    async fn prepare_release(&self, order: &ReleaseOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let chain = self.chain(&order.escrow.chain_id)?;
        let keys = keys(chain)?;
        let call = calls::release(&chain.node, order).await?;
        self.prepare(&self.senders(chain, keys, Leg::Exit, &order.payment_id), call, attempt).await
    }

    async fn reprice(&self, _versions: &[TransactionPrepared]) -> Result<Option<TransactionPrepared>, Transient> {
        // A price is the network's and not offered; and two transactions could both land.
        Ok(None)
    }

    async fn broadcast(&self, transaction: &TransactionPrepared) -> Result<(), Transient> {
        let bytes = transaction.raw.strip_prefix("0x").and_then(|digits| hex::decode(digits).ok());
        let bytes = bytes.ok_or_else(|| Transient::misconfigured("the transaction is no hex"))?;
        let sent = self.chain(&transaction.chain_id)?.node.broadcast(&bytes).await;
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
        self.chain(&order.escrow.chain_id)?.node.deposit_state(order, versions).await
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.chain(order.destination.asset().chain())?.node.delivery_state(order).await
    }

    async fn escrow_state(&self, payment_id: &PaymentId, escrow: &EscrowPlan) -> Result<EscrowState, Transient> {
        self.chain(&escrow.chain_id)?.node.escrow_state(payment_id, escrow).await
    }

    async fn claims(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        self.chain(&escrow.chain_id)?.node.claims(payment_id, escrow, end).await
    }

    async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        self.chain(&order.escrow.chain_id)?.node.deposit_secured(order).await
    }

    async fn stranded_deposit(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        self.chain(&deposit.escrow.chain_id)?.node.stranded_deposit(deposit).await
    }

    async fn deposit_ruled_out(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        after: u64,
    ) -> Result<bool, Transient> {
        self.chain(&escrow.chain_id)?.node.deposit_ruled_out(payment_id, escrow, after).await
    }

    async fn transaction_state(&self, versions: &[TransactionPrepared]) -> Result<TransactionState, Transient> {
        let newest = versions.last().ok_or_else(|| Transient::misconfigured("no transaction was prepared"))?;
        self.chain(&newest.chain_id)?.node.transaction_state(versions).await
    }

    async fn attestation_holds(
        &self,
        statement: &Statement,
        escrow: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient> {
        Ok(self.chain(&escrow.chain_id)?.node.attestation_holds(statement, escrow, signature))
    }

    async fn next_block(&self, chain_id: &ChainId) {
        match self.chain(chain_id) {
            Ok(chain) => chain.node.next_block().await,
            Err(_) => self.clock.sleep(NO_BLOCK_WAIT).await,
        }
    }
}
