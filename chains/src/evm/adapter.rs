//! The engine's [`Chains`] port for EVM chains.

use std::{collections::HashMap, sync::Arc, time::Duration};

use alloy::{
    primitives::{Address, B256, Bytes, U256, keccak256},
    signers::local::PrivateKeySigner,
    sol_types::SolCall,
};
use async_trait::async_trait;

use events::{
    ChainId, Hash32, PaymentId,
    event::{Authorization, EscrowPlan, EscrowSecured, Permit2, TransactionPrepared},
    ledger::{Ledger, Purpose, SignerAccount},
    time::unix_seconds,
};
use sagas::ports::{
    Chains, Clock, DeliveryOrder, DeliveryState, DepositOrder, DepositState, EscrowState, PrepareError, RefundOrder,
    Refusal, Statement, TransactionState, Transient,
};

use super::{
    attest,
    contracts::{self, GatewayEscrow, address, text, units, word},
    eip712::{self, Admission},
    node::{At, Node},
    query::{Call, CallError},
    reads::unusable,
    signature,
    transaction::{self, plain, raw_bytes},
    undeployed,
};

/// A nonce given out so long ago, with no transaction at it in sight, is filled with an empty transaction.
const GAP_AGE: chrono::TimeDelta = chrono::TimeDelta::seconds(120);
/// Most gas of a deposit that deploys the payer's account: what it runs there is the payer's choice and the gateway's
/// expense. The common accounts need a tenth.
const DEPLOY_GAS_MAX: u64 = 3_000_000;
/// How often [`EvmChains::tend`] looks.
const TEND_EVERY: Duration = Duration::from_secs(30);
/// How long the escrow would take the deposit that a node is shown to try it out, in seconds: the node sees a signature
/// that anyone could use, whatever comes of it.
const TRIAL_SECONDS: u64 = 15;
/// Gas of a transfer of coins to an account without code.
const TRANSFER_GAS: u64 = 21_000;
/// Gas limit of a call that the newest state refuses but whose nonce was taken before, so it must be sent.
const REFUSED_CALL_GAS: u64 = 700_000;

/// The keys with which the gateway acts on one chain.
#[derive(Debug, Clone)]
pub struct Keys {
    /// Signs reservations; its account is the reserver of the chain's configuration.
    pub reserver: PrivateKeySigner,
    /// Send the gateway's transactions and pay for their gas; payments are spread over them.
    pub submitters: Vec<PrivateKeySigner>,
}

/// A chain the gateway is connected to.
#[derive(Debug, Clone)]
pub struct EvmChain {
    /// The connection.
    pub node: Node,
    /// The gateway's keys there; without them the chain is a destination only.
    pub keys: Option<Keys>,
}

/// Why the chains cannot be used as configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// A chain stands twice.
    #[error("{0} is configured twice")]
    Twice(ChainId),
    /// There is no account to send from.
    #[error("{0} has no submitter key")]
    NoSubmitter(ChainId),
    /// The reserver's key and the configured reserver differ.
    #[error("reserver of {chain_id} is configured as {configured}, its key is of {key}")]
    Reserver {
        /// The chain.
        chain_id: ChainId,
        /// The account in the configuration.
        configured: String,
        /// The key's account.
        key: String,
    },
}

/// The EVM chains of a gateway.
pub struct EvmChains {
    pub(super) chains: HashMap<ChainId, EvmChain>,
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
}

/// What is to be sent, by which account and for what.
struct Intent<'a> {
    chain: &'a EvmChain,
    signer: &'a PrivateKeySigner,
    /// What is tried out.
    trial: Call,
    /// The last second in which the escrow takes the trial from anyone, or 0 when that does no harm.
    trial_until: u64,
    /// What is signed when the trial is taken.
    call: Call,
    /// The escrow, which the call ends in.
    escrow: Address,
    purpose: Purpose,
    attempt: u32,
}

impl EvmChains {
    /// The port over `chains`; nonces come from `ledger`, which all gateways that share the submitters' keys share too.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn new(
        chains: impl IntoIterator<Item = EvmChain>,
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SetupError> {
        let mut by_id = HashMap::new();
        for chain in chains {
            let chain_id = chain.node.chain_id().clone();
            if let Some(keys) = &chain.keys {
                if keys.submitters.is_empty() {
                    return Err(SetupError::NoSubmitter(chain_id));
                }
                let configured = chain.node.config().reserver.clone();
                if address(&configured) != Ok(keys.reserver.address()) {
                    return Err(SetupError::Reserver { chain_id, configured, key: text(keys.reserver.address()) });
                }
            }
            if by_id.insert(chain_id.clone(), chain).is_some() {
                return Err(SetupError::Twice(chain_id));
            }
        }
        Ok(Self { chains: by_id, ledger, clock })
    }

    /// The connection to a chain, or `None` for a chain that is not configured.
    pub fn node(&self, chain_id: &ChainId) -> Option<&Node> {
        self.chains.get(chain_id).map(|chain| &chain.node)
    }

    pub(super) fn chain(&self, chain_id: &ChainId) -> Result<&EvmChain, Transient> {
        self.chains.get(chain_id).ok_or_else(|| Transient(format!("{chain_id} is not configured")))
    }

    /// Keeps nonces without gaps for as long as it runs; the process runs it beside the engine.
    ///
    /// A worker that died between taking a nonce and journaling its transaction, for a payment that then needed no
    /// transaction any more, leaves a nonce that nothing will use, and everything behind it waits for ever.
    pub async fn tend(&self) {
        loop {
            for chain in self.chains.values() {
                if let Err(fault) = self.fill_gaps(chain).await {
                    tracing::debug!(chain_id = %chain.node.chain_id(), %fault, "nonces not tended");
                }
            }
            self.clock.sleep(TEND_EVERY).await;
        }
    }

    /// Fills the next nonce of each submitter if it was given out long ago and the node knows no transaction at it. Should
    /// there be one after all, one of the two lands, and the payment's saga finds out which.
    async fn fill_gaps(&self, chain: &EvmChain) -> Result<(), Transient> {
        let Some(keys) = &chain.keys else { return Ok(()) };
        for signer in &keys.submitters {
            let account = account(chain, signer);
            let open = self.ledger.open(&account).await.map_err(|error| Transient(error.to_string()))?;
            let next = chain.node.nonce(signer.address(), At::Latest).await?;
            let stale = |reserved_at| self.clock.now() - reserved_at > GAP_AGE;
            let gap = open.iter().find(|reservation| reservation.nonce == next && stale(reservation.reserved_at));
            let Some(gap) = gap else { continue };
            if chain.node.nonce(signer.address(), At::Pending).await? > next {
                continue;
            }
            tracing::warn!(chain_id = %account.chain_id, sender = account.address, nonce = next, purpose = gap.purpose.0,
                "filling a nonce that nothing used");
            let call = plain(signer.address(), signer.address(), Vec::new());
            let fees = chain.node.fees().await?;
            let filler = transaction::transaction(&call, chain.node.evm_id(), next, TRANSFER_GAS, fees);
            chain.node.send(&transaction::sign(signer, &filler).map_err(Transient)?.raw).await?;
        }
        Ok(())
    }

    /// Simulates, takes a nonce, signs.
    async fn prepare(&self, intent: Intent<'_>) -> Result<TransactionPrepared, PrepareError> {
        let node = &intent.chain.node;
        let account = account(intent.chain, intent.signer);
        let (call, gas_limit) = match self.simulate(node, &intent).await {
            Ok(gas) => (&intent.call, transaction::gas_limit(gas)),
            Err(PrepareError::Refused(refusal)) => {
                let open = self.ledger.open(&account).await.map_err(|error| Transient(error.to_string()))?;
                if open.iter().all(|reservation| reservation.purpose != intent.purpose) {
                    return Err(PrepareError::Refused(refusal));
                }
                // An earlier try took the nonce and was cut off. The chain will refuse this transaction, but it uses
                // the nonce up, and the refusal becomes a fact with a receipt.
                (&intent.trial, REFUSED_CALL_GAS)
            }
            Err(fault) => return Err(fault),
        };
        let fees = node.fees().await?;
        let final_nonce = node.nonce(intent.signer.address(), At::Block(node.settled().await?)).await?;
        let chain_nonce = node.nonce(intent.signer.address(), At::Latest).await?;
        if chain_nonce < final_nonce {
            return Err(node.contradiction("the newest nonce is below the settled one").into());
        }
        let now = self.clock.now();
        let nonce = self
            .ledger
            .reserve(&account, &intent.purpose, chain_nonce, final_nonce, now)
            .await
            .map_err(|error| Transient(error.to_string()))?;
        let unsigned = transaction::transaction(call, node.evm_id(), nonce, gas_limit, fees);
        let signed = transaction::sign(intent.signer, &unsigned).map_err(Transient)?;
        Ok(TransactionPrepared {
            attempt: intent.attempt,
            chain_id: account.chain_id,
            sender: account.address,
            nonce,
            transaction_hash: signed.hash.to_string(),
            raw: signed.raw.to_string(),
            prepared_at: now,
        })
    }

    /// Gas that the call needs, or the chain's refusal.
    async fn simulate(&self, node: &Node, intent: &Intent<'_>) -> Result<u64, PrepareError> {
        let (call, escrow) = (&intent.trial, intent.escrow);
        let refused = |reason: String| {
            let context = node.refusal(Some(escrow), reason);
            PrepareError::Refused(Box::new(Refusal { context, valid_until: intent.trial_until }))
        };
        if node.code(escrow, At::Latest).await?.is_empty() {
            // A call of an account without code succeeds and does nothing.
            return Err(refused(format!("there is no contract at {}", text(escrow))));
        }
        let gas = node.simulate(call).await.map_err(|error| match error {
            CallError::Transient(fault) => fault.into(),
            CallError::Reverted(revert) => refused(revert.reason),
        })?;
        if call.to.is_none() && gas > DEPLOY_GAS_MAX {
            return Err(refused(format!(
                "deploying the account needs {gas} gas with the deposit, above {DEPLOY_GAS_MAX}"
            )));
        }
        Ok(gas)
    }

    /// The deposit-and-reserve, admitted by the reserver up to the UNIX second `admitted_until`.
    fn deposit_call(
        &self,
        order: &DepositOrder,
        keys: &Keys,
        evm_id: u64,
        signer: &PrivateKeySigner,
        admitted_until: u64,
    ) -> Result<Call, Transient> {
        let escrow = address(&order.escrow.contract).map_err(unusable)?;
        let source = &order.terms.source;
        let payer = address(source.account().as_str()).map_err(unusable)?;
        let token = contracts::erc20(source.asset()).map_err(unusable)?;
        let (Authorization::EvmPermit2Escrow(permit) | Authorization::EvmPermit2(permit)) = &order.authorization;
        let deposit = eip712::deposit(&order.payment_id, order.terms_hash, permit.quote_hash, payer, &order.escrow)
            .map_err(unusable)?;
        let reservation = eip712::reservation(&order.payment_id, &order.reservation).map_err(unusable)?;
        let d = GatewayEscrow::GatewayDeposit::from(&deposit);
        let r = GatewayEscrow::Reservation::from(&reservation);
        let raw =
            raw_bytes(&permit.signature).ok_or_else(|| Transient("the payer's signature is no hex".to_owned()))?;
        let wrapped = match signature::is_erc6492(&raw) {
            true => Some(signature::unwrap_erc6492(&raw).map_err(|error| Transient(error.to_string()))?),
            false => None,
        };
        let p = permit_of(permit, token, wrapped.as_ref().map_or(raw, |wrapped| wrapped.signature.clone()));
        let until = contracts::time(admitted_until).map_err(unusable)?;
        let admission = Admission { deposit, reservation, token, admittedUntil: until };
        let signed = attest::sign_admission(&keys.reserver, &admission, evm_id, escrow)
            .map_err(|error| Transient(error.to_string()))?;
        let signature = raw_bytes(&signed).ok_or_else(|| Transient("the reserver's signature is no hex".to_owned()))?;
        let data = match &order.authorization {
            Authorization::EvmPermit2Escrow(_) => {
                GatewayEscrow::depositWithWitnessCall { d, p, r, admittedUntil: until, reserverSignature: signature }
                    .abi_encode()
            }
            Authorization::EvmPermit2(_) => {
                GatewayEscrow::depositWithPermitCall { d, p, r, admittedUntil: until, reserverSignature: signature }
                    .abi_encode()
            }
        };
        Ok(match wrapped {
            None => plain(signer.address(), escrow, data),
            Some(wrapped) => undeployed::deposit(signer.address(), payer, &wrapped, escrow, data),
        })
    }
}

fn permit_of(permit: &Permit2, token: Address, signature: Bytes) -> GatewayEscrow::Permit {
    let Hash32(nonce) = permit.nonce;
    GatewayEscrow::Permit {
        token,
        amount: units(permit.amount),
        nonce: U256::from_be_bytes(nonce),
        deadline: U256::from(permit.deadline),
        signature,
    }
}

fn account(chain: &EvmChain, signer: &PrivateKeySigner) -> SignerAccount {
    SignerAccount { chain_id: chain.node.chain_id().clone(), address: text(signer.address()) }
}

fn keys(chain: &EvmChain) -> Result<&Keys, Transient> {
    chain.keys.as_ref().ok_or_else(|| Transient(format!("{} has no keys", chain.node.chain_id())))
}

/// The submitter of a payment: always the same one, so that asking again for a purpose finds the nonce it was given.
fn submitter<'a>(keys: &'a Keys, payment_id: &PaymentId) -> Result<&'a PrivateKeySigner, Transient> {
    let digest = keccak256(payment_id.as_str());
    let head = digest.0.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let index = head.checked_rem(keys.submitters.len() as u64).unwrap_or_default();
    // The remainder is below a length that is a usize.
    keys.submitters.get(index as usize).ok_or_else(|| Transient("no submitter key".to_owned()))
}

#[async_trait]
impl Chains for EvmChains {
    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let chain = self.chain(&order.escrow.chain_id)?;
        let keys = keys(chain)?;
        let signer = submitter(keys, &order.payment_id)?;
        // Both clocks count: nodes judge by the head's time, or by that of the block they would make now.
        let now = chain.node.head().await?.time.max(unix_seconds(self.clock.now()));
        let trial_until = now.saturating_add(TRIAL_SECONDS);
        let until = now.saturating_add(chain.node.config().admission_seconds).min(order.escrow.reserve_deadline);
        let trial = self.deposit_call(order, keys, chain.node.evm_id(), signer, trial_until)?;
        let call = self.deposit_call(order, keys, chain.node.evm_id(), signer, until)?;
        let escrow = address(&order.escrow.contract).map_err(unusable)?;
        let purpose = Purpose(format!("{}/deposit/{attempt}", order.payment_id));
        self.prepare(Intent { chain, signer, trial, trial_until, call, escrow, purpose, attempt }).await
    }

    async fn prepare_refund(&self, order: &RefundOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let chain = self.chain(&order.escrow.chain_id)?;
        let signer = submitter(keys(chain)?, &order.payment_id)?;
        let escrow = address(&order.escrow.contract).map_err(unusable)?;
        let payment_id = word(order.payment_id.on_chain());
        let data = match &order.non_delivery {
            None => GatewayEscrow::refundCall { paymentId: payment_id }.abi_encode(),
            Some(signature) => {
                let signature =
                    raw_bytes(signature).ok_or_else(|| Transient("the non-delivery is no hex".to_owned()))?;
                GatewayEscrow::cancelCall { paymentId: payment_id, nonDelivery: signature }.abi_encode()
            }
        };
        let purpose = Purpose(format!("{}/refund/{attempt}", order.payment_id));
        let call = plain(signer.address(), escrow, data);
        let trial = call.clone();
        self.prepare(Intent { chain, signer, trial, trial_until: 0, call, escrow, purpose, attempt }).await
    }

    async fn broadcast(&self, transaction: &TransactionPrepared) -> Result<(), Transient> {
        let raw = raw_bytes(&transaction.raw).ok_or_else(|| Transient("the transaction is no hex".to_owned()))?;
        self.chain(&transaction.chain_id)?.node.send(&raw).await
    }

    async fn deposit_state(
        &self,
        order: &DepositOrder,
        transaction: &TransactionPrepared,
    ) -> Result<DepositState, Transient> {
        self.chain(&order.escrow.chain_id)?.node.deposit_state(order, transaction).await
    }

    async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        self.chain(&order.escrow.chain_id)?.node.deposit_secured(order).await
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.chain(order.destination.asset().chain())?.node.delivery_state(order).await
    }

    async fn escrow_state(&self, payment_id: &PaymentId, escrow: &EscrowPlan) -> Result<EscrowState, Transient> {
        self.chain(&escrow.chain_id)?.node.escrow_state(payment_id, escrow).await
    }

    async fn deposit_ruled_out(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        after: u64,
    ) -> Result<bool, Transient> {
        self.chain(&escrow.chain_id)?.node.deposit_ruled_out(payment_id, escrow, after).await
    }

    async fn transaction_state(&self, transaction: &TransactionPrepared) -> Result<TransactionState, Transient> {
        self.chain(&transaction.chain_id)?.node.transaction_state(transaction).await
    }

    async fn attestation_holds(
        &self,
        statement: &Statement,
        escrow: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient> {
        self.chain(&escrow.chain_id)?.node.attestation_holds(statement, escrow, signature).await
    }

    async fn next_block(&self, chain_id: &ChainId) {
        match self.chain(chain_id) {
            Ok(chain) => chain.node.next_block().await,
            Err(_) => self.clock.sleep(TEND_EVERY).await,
        }
    }
}

/// The hash of a journaled transaction.
pub(super) fn hash_of(transaction: &TransactionPrepared) -> Result<B256, Transient> {
    let hash: Hash32 =
        transaction.transaction_hash.parse().map_err(|_| Transient("the transaction hash is no hash".to_owned()))?;
    Ok(word(hash))
}
