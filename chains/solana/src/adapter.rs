//! The engine's [`Chains`] port for Solana clusters.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use ed25519_dalek::SigningKey;
use gateway_program::Key;

use chains::{
    registry::Adapter,
    setup::SetupError,
    submitters::{Leg, Submitters},
};
use events::{
    ChainId, PaymentId,
    event::{EscrowPlan, EscrowSecured, TransactionPrepared, Validity},
};
use sagas::ports::{
    Chains, Clock, DeliveryOrder, DeliveryState, DepositOrder, DepositState, EscrowState, PrepareError, RefundOrder,
    Refusal, ReleaseOrder, Statement, TransactionState, Transient,
};

use super::{
    calls::{Call, deposit, refund, release},
    keys,
    node::Node,
    submitters::Warnings,
    transaction::{self, Budget},
};

/// How long the wait for a slot of a chain that is not connected lasts.
const NO_BLOCK_WAIT: Duration = Duration::from_secs(1);

/// The keys with which the gateway acts on one cluster.
#[derive(Clone)]
pub struct Keys {
    /// Signs every deposit beside the submitter; its account is the reserver of the chain's configuration.
    pub reserver: SigningKey,
    /// Send the gateway's transactions and pay for them; payments are spread over them.
    pub submitters: Vec<SigningKey>,
    /// Send refunds and releases and nothing else; when there are none, the submitters do, and deposits leave them a reserve.
    pub exit_submitters: Vec<SigningKey>,
}

impl Keys {
    fn of_submitters(&self) -> Submitters<'_, SigningKey> {
        Submitters { usual: &self.submitters, exits: &self.exit_submitters }
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let accounts = |keys: &[SigningKey]| keys.iter().map(keys::account).collect::<Vec<_>>();
        f.debug_struct("Keys")
            .field("reserver", &keys::account(&self.reserver))
            .field("submitters", &accounts(&self.submitters))
            .field("exit_submitters", &accounts(&self.exit_submitters))
            .finish()
    }
}

/// A cluster the gateway is connected to.
#[derive(Debug, Clone)]
pub struct SolanaChain {
    /// The connection.
    pub node: Node,
    /// The gateway's keys there; without them the chain is a destination only.
    pub keys: Option<Keys>,
}

/// The Solana clusters of a gateway.
///
/// There are no nonces: a transaction carries a blockhash and can land for a minute or so. One that did not is given up
/// when that is proven, and another is made, so nothing is ever replaced.
pub struct SolanaChains {
    chains: BTreeMap<ChainId, SolanaChain>,
    clock: Arc<dyn Clock>,
    warnings: Warnings,
}

impl SolanaChains {
    /// The port over `chains`.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn new(chains: impl IntoIterator<Item = SolanaChain>, clock: Arc<dyn Clock>) -> Result<Self, SetupError> {
        let mut by_id = BTreeMap::new();
        for chain in chains {
            let chain_id = chain.node.chain_id().clone();
            if let Some(keys) = &chain.keys {
                if keys.submitters.is_empty() {
                    return Err(SetupError::NoSubmitter(chain_id));
                }
                let configured = chain.node.config().reserver.clone();
                let key = keys::account(&keys.reserver);
                if configured != key {
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

    fn chain(&self, chain_id: &ChainId) -> Result<&SolanaChain, Transient> {
        self.chains.get(chain_id).ok_or_else(|| Transient::misconfigured(format!("{chain_id} is not configured")))
    }

    /// Tries `call` out, prices it and signs it with `submitter` and whoever else has to.
    async fn prepare(
        &self,
        node: &Node,
        keys: &Keys,
        submitter: &SigningKey,
        call: Call<'_>,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let payer = submitter.verifying_key().to_bytes();
        let trial = transaction::message(&call.instructions, Budget::TRIAL, &payer, &[0; 32]);
        let simulated = node.simulate(&transaction::unsigned(&trial)).await?;
        if let Some(error) = &simulated.error {
            return Err(refused_trial(node, &call.program, error, &transaction::programs(&trial)));
        }
        let recent = node.recent_fees(&call.contended).await?;
        let budget = Budget::new(simulated.units, &recent, attempt);
        let blockhash = node.blockhash(node.settled().await?).await?;
        let message = transaction::message(&call.instructions, budget, &payer, &blockhash.hash);
        let signed = transaction::sign(&message, &[submitter, &keys.reserver]);
        let signed = signed.map_err(Transient::misconfigured)?;
        Ok(TransactionPrepared {
            attempt,
            chain_id: node.chain_id().clone(),
            sender: keys::account(submitter),
            validity: Validity::LastBlockHeight(blockhash.last_valid_height),
            transaction_hash: signed.hash,
            raw: format!("0x{}", hex::encode(signed.wire)),
            prepared_at: self.clock.now(),
        })
    }
}

/// A refusal that holds for the chain's state as it is now. What a node was shown nobody signed, so nobody can send it.
pub(super) fn refused(node: &Node, program: &Key, reason: String) -> PrepareError {
    PrepareError::Refused(Box::new(Refusal { context: node.refusal(program, reason), valid_until: 0 }))
}

/// What failed when it was tried out: a refusal when one of its instructions failed; anything else is the node's trouble, or
/// the submitter's.
fn refused_trial(node: &Node, program: &Key, error: &serde_json::Value, programs: &[Key]) -> PrepareError {
    let reason = super::program::reason(error, programs);
    match error.get("InstructionError") {
        Some(_) => refused(node, program, reason),
        None => Transient::contradiction(format!("{}: the transaction cannot be tried out: {reason}", node.chain_id()))
            .into(),
    }
}

fn keys(chain: &SolanaChain) -> Result<&Keys, Transient> {
    chain.keys.as_ref().ok_or_else(|| Transient::misconfigured(format!("{} has no keys", chain.node.chain_id())))
}

impl Adapter for SolanaChains {
    fn chain_ids(&self) -> Vec<ChainId> {
        self.chains.keys().cloned().collect()
    }
}

#[async_trait]
impl Chains for SolanaChains {
    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let chain = self.chain(&order.escrow.chain_id)?;
        let keys = keys(chain)?;
        let submitters = keys.of_submitters();
        let exits_left = submitters.left_over(Leg::Deposit, chain.node.config().exits_reserved);
        let senders = submitters.of(Leg::Deposit, &order.payment_id);
        let (call, submitter) = deposit(&chain.node, order, &senders, exits_left).await?;
        self.warn_of_low(chain, &call);
        self.prepare(&chain.node, keys, submitter, call, attempt).await
    }

    async fn prepare_refund(&self, order: &RefundOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let chain = self.chain(&order.escrow.chain_id)?;
        let keys = keys(chain)?;
        let senders = keys.of_submitters().of(Leg::Exit, &order.payment_id);
        let (call, submitter) = refund(&chain.node, order, &senders).await?;
        self.warn_of_low(chain, &call);
        self.prepare(&chain.node, keys, submitter, call, attempt).await
    }

    async fn prepare_release(&self, order: &ReleaseOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let chain = self.chain(&order.escrow.chain_id)?;
        let keys = keys(chain)?;
        let senders = keys.of_submitters().of(Leg::Exit, &order.payment_id);
        let (call, submitter) = release(&chain.node, order, &senders).await?;
        self.warn_of_low(chain, &call);
        self.prepare(&chain.node, keys, submitter, call, attempt).await
    }

    async fn reprice(&self, _versions: &[TransactionPrepared]) -> Result<Option<TransactionPrepared>, Transient> {
        // Two transactions with two blockhashes could both land; so the first is given up before there is another.
        Ok(None)
    }

    async fn broadcast(&self, transaction: &TransactionPrepared) -> Result<(), Transient> {
        let wire = transaction::wire_of(&transaction.raw);
        let wire = wire.ok_or_else(|| Transient::misconfigured("the transaction is no hex"))?;
        self.chain(&transaction.chain_id)?.node.send(&wire).await
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

    async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        self.chain(&order.escrow.chain_id)?.node.deposit_secured(order).await
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

impl SolanaChains {
    fn warn_of_low(&self, chain: &SolanaChain, call: &Call) {
        let now = self.clock.now();
        for (account, lamports) in &call.submitters {
            self.warnings.look(&chain.node, account, *lamports, now);
        }
    }
}
