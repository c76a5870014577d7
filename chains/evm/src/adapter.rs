//! The engine's [`Chains`] port for EVM chains.

use std::{collections::BTreeMap, sync::Arc};

use alloy::{
    primitives::{Address, B256, Bytes, U256},
    signers::local::PrivateKeySigner,
    sol_types::SolCall,
};
use async_trait::async_trait;

use chains::{
    registry::Adapter,
    setup::SetupError,
    submitters::{Leg, Submitters},
};
use escrow_abi::{
    contracts::{self, GatewayEscrow, address, text, units, word},
    eip712::{self, Admission},
    signature,
};
use events::{
    ChainId, Hash32, PaymentId,
    event::{Authorization, Claim, EscrowPlan, EscrowSecured, Inclusion, Permit2, TransactionPrepared, Validity},
    mutant,
    time::unix_seconds,
};
use journal::{
    budget::Budgets,
    ledger::{Ledger, Purpose},
};
use sagas::ports::{
    Chains, Clock, Cursor, DeliveryOrder, DeliveryState, DepositOrder, DepositState, EscrowState, PrepareError,
    RefundOrder, Refusal, ReleaseOrder, Statement, TransactionState, Transient, Waiting,
};

use super::{
    attest, erc6492,
    escrows::unusable,
    node::{At, Node},
    payers::{KeyDeposits, Payer},
    query::{Call, CallError, Fees, Trial},
    rpc::Fault,
    submitters::{MAINTAIN_EVERY, Watch, account},
    transaction::{self, plain, raw_bytes},
};

/// How long the escrow would take the deposit that a node is shown to try it out, in seconds: the node sees a signature
/// that anyone could use, whatever comes of it.
const TRIAL_SECONDS: u64 = 15;
/// Gas limit of a call that the newest state refuses but whose nonce was taken before, so it must be sent.
const REFUSED_CALL_GAS: u64 = 700_000;

/// The keys with which the gateway acts on one chain.
#[derive(Debug, Clone)]
pub struct Keys {
    /// Signs reservations; its account is the reserver of the chain's configuration.
    pub reserver: PrivateKeySigner,
    /// Send the gateway's transactions and pay for their gas; payments are spread over them.
    pub submitters: Vec<PrivateKeySigner>,
    /// Send refunds and releases and nothing else; when there are none, the submitters do, and deposits leave them a reserve.
    pub exit_submitters: Vec<PrivateKeySigner>,
}

impl Keys {
    fn of_submitters(&self) -> Submitters<'_, PrivateKeySigner> {
        Submitters { usual: &self.submitters, exits: &self.exit_submitters }
    }

    /// The keys of all accounts that send something.
    pub(super) fn all(&self) -> impl Iterator<Item = &PrivateKeySigner> {
        self.of_submitters().all()
    }
}

/// A chain the gateway is connected to.
#[derive(Debug, Clone)]
pub struct EvmChain {
    /// The connection.
    pub node: Node,
    /// The gateway's keys there; without them the chain is a destination only.
    pub keys: Option<Keys>,
}

/// The EVM chains of a gateway.
pub struct EvmChains {
    pub(super) chains: BTreeMap<ChainId, EvmChain>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) budgets: Arc<dyn Budgets>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) watch: Watch,
    pub(super) key_deposits: KeyDeposits,
}

/// What is to be sent, and for what.
struct Intent<'a> {
    chain: &'a EvmChain,
    /// The accounts that may send it, the preferred one first.
    signers: Vec<&'a PrivateKeySigner>,
    /// How many exits whoever sends it must have the coins for after it.
    exits_left: u64,
    /// The most gas that it may take, where it runs code that a stranger chose.
    gas_max: Option<u64>,
    /// Whom it is charged to when it comes to nothing; nobody where it takes money out of escrow.
    payer: Option<Payer>,
    /// What is tried out.
    trial: Call,
    /// The last second in which the escrow takes the trial from anyone, or 0 when that does no harm.
    trial_until: u64,
    /// What is signed when the trial is taken. Its effect is the same whoever sends it.
    call: Call,
    /// The escrow, which the call ends in.
    escrow: Address,
    purpose: Purpose,
    attempt: u32,
}

impl Intent<'_> {
    /// Why it is not sent, and the gas that it would have needed.
    fn refused(&self, reason: String, gas: Option<u64>) -> PrepareError {
        let mut context = self.chain.node.refusal(Some(self.escrow), reason);
        context.estimated_gas_needed = gas.map(|gas| gas.to_string());
        PrepareError::Refused(Box::new(Refusal { context, valid_until: self.trial_until }))
    }
}

impl EvmChains {
    /// The port over `chains`; nonces come from `ledger` and what contract accounts may cost from `budgets`, which all gateways
    /// that share the submitters' keys share too.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn new(
        chains: impl IntoIterator<Item = EvmChain>,
        ledger: Arc<dyn Ledger>,
        budgets: Arc<dyn Budgets>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SetupError> {
        let mut by_id = BTreeMap::new();
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
        Ok(Self {
            chains: by_id,
            ledger,
            budgets,
            clock,
            watch: Watch::default(),
            key_deposits: KeyDeposits::default(),
        })
    }

    /// The connection to a chain, or `None` for a chain that is not configured.
    pub fn node(&self, chain_id: &ChainId) -> Option<&Node> {
        self.chains.get(chain_id).map(|chain| &chain.node)
    }

    pub(super) fn chain(&self, chain_id: &ChainId) -> Result<&EvmChain, Transient> {
        self.chains.get(chain_id).ok_or_else(|| Transient::misconfigured(format!("{chain_id} is not configured")))
    }

    /// Sees what happened in the newest blocks of a chain, as [`Chains::next_event`] does by itself: for who learns of blocks
    /// in another way.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn watch_logs(&self, chain_id: &ChainId) -> Result<(), Transient> {
        let node = &self.chain(chain_id)?.node;
        node.watch_logs(node.head().await?).await;
        Ok(())
    }

    /// Whether something that is waited for may have happened in the rounds since; where nothing did, those are over for
    /// `waiting`.
    pub fn has_news(&self, waiting: &mut Waiting<'_>) -> bool {
        self.chain(waiting.chain_id).is_ok_and(|chain| chain.node.log_watcher().has_news(waiting))
    }

    /// Whether nothing of the payment is on its way to being settled, so that the next block is waited for and no event.
    pub fn is_pushed(&self, waiting: &Waiting<'_>) -> bool {
        let has_unsettled_event = |chain: &EvmChain| chain.node.log_watcher().has_unsettled_event(waiting);
        waiting.is_pushed && !self.chain(waiting.chain_id).is_ok_and(has_unsettled_event)
    }

    /// Simulates, takes a nonce, signs.
    async fn prepare(&self, intent: Intent<'_>) -> Result<TransactionPrepared, PrepareError> {
        let node = &intent.chain.node;
        let fees = node.fees().await?;
        // An earlier try may have taken a nonce and been cut off; the purpose stays with its account.
        let mut holder = None;
        if intent.signers.len() > 1 {
            holder = self.holder(intent.chain, &intent.signers, &intent.purpose).await?;
        }
        // Code that may be a stranger's is tried out by the very account that would send it, which can pay for all of it.
        let able = match (intent.gas_max, holder) {
            (Some(gas), None) => Some(self.payer_of_gas(node, &intent.signers, gas, fees, intent.exits_left).await?),
            _ => None,
        };
        let trier = holder.or(able).map_or_else(|| first(&intent.signers), |signer| Ok(signer.address()))?;
        let simulated = self.simulate(node, &intent, trier, fees).await;
        if holder.is_none() && matches!(simulated, Err(PrepareError::Refused(_))) {
            holder = self.holder(intent.chain, &intent.signers, &intent.purpose).await?;
        }
        let gas_most = intent.gas_max.unwrap_or(u64::MAX);
        let (call, gas_limit, signer) = match (simulated, holder) {
            (Ok(gas), holder) => {
                let gas_limit = transaction::gas_limit(gas).min(gas_most);
                let signer = match holder.or(able) {
                    Some(signer) => signer,
                    None => self.payer_of_gas(node, &intent.signers, gas_limit, fees, intent.exits_left).await?,
                };
                (&intent.call, gas_limit, signer)
            }
            // The chain will refuse this transaction, but it uses the nonce up, and the refusal becomes a fact with a
            // receipt.
            (Err(PrepareError::Refused(_)), Some(holder)) => (&intent.trial, REFUSED_CALL_GAS.min(gas_most), holder),
            (Err(fault), _) => return Err(fault),
        };
        if let Some(payer) = &intent.payer {
            let refused = |reason| intent.refused(reason, None);
            self.charge_payer(node, payer, &intent.purpose, gas_limit, refused).await?;
        }
        let account = account(intent.chain, signer);
        let final_nonce = node.nonce(signer.address(), At::Block(node.settled().await?)).await?;
        let chain_nonce = node.nonce(signer.address(), At::Latest).await?;
        if chain_nonce < final_nonce {
            return Err(node.contradiction("the newest nonce is below the settled one").into());
        }
        let now = self.clock.now();
        let nonce = self
            .ledger
            .reserve(&account, &intent.purpose, chain_nonce, final_nonce, now)
            .await
            .map_err(Transient::from)?;
        let nonce = if mutant!("nonce-from-the-chain") { chain_nonce } else { nonce };
        let unsigned = transaction::transaction(call, node.evm_id(), nonce, gas_limit, fees);
        let signed = transaction::sign(signer, &unsigned).map_err(Transient::misconfigured)?;
        Ok(TransactionPrepared {
            attempt: intent.attempt,
            chain_id: account.chain_id,
            sender: account.address,
            validity: Validity::Nonce(nonce),
            transaction_hash: signed.hash.to_string(),
            raw: signed.raw.to_string(),
            prepared_at: now,
        })
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
        let chain = self.chain(&plan.chain_id)?;
        let (signers, exits_left) = signers(chain, keys(chain)?, Leg::Exit, payment_id);
        let escrow = address(&plan.contract).map_err(unusable)?;
        let call = plain(first(&signers)?, escrow, data);
        let trial = call.clone();
        let intent = Intent {
            chain,
            signers,
            exits_left,
            gas_max: None,
            payer: None,
            trial,
            trial_until: 0,
            call,
            escrow,
            purpose,
            attempt,
        };
        self.prepare(intent).await
    }

    /// Gas that the call needs, or why it is not sent: the chain refuses it, or it is dearer than a deposit may be. What may
    /// run a stranger's code is tried out by `trier` for the price that it would be sent for, so that it shows what it will do.
    async fn simulate(
        &self,
        node: &Node,
        intent: &Intent<'_>,
        trier: Address,
        fees: Fees,
    ) -> Result<u64, PrepareError> {
        let escrow = intent.escrow;
        let refused = |reason, gas| intent.refused(reason, gas);
        if node.code(escrow, At::Latest).await?.is_empty() {
            // A call of an account without code succeeds and does nothing.
            return Err(refused(format!("there is no contract at {}", text(escrow)), None));
        }
        let call = Call { from: trier, ..intent.trial.clone() };
        let trial = Trial { gas: intent.gas_max, fees: intent.gas_max.map(|_| fees) };
        let gas = node.simulate(&call, trial).await.map_err(|error| match error {
            CallError::Transient(fault) => fault.into(),
            CallError::Reverted(revert) => match intent.gas_max.filter(|_| revert.data.is_empty()) {
                Some(gas) => refused(format!("{}; it was given {gas} gas", revert.reason), None),
                None => refused(revert.reason, None),
            },
        })?;
        let most = intent.gas_max.unwrap_or(u64::MAX).min(fees.block_gas);
        if gas > most {
            // No node takes what fits no block, and it would use its nonce up all the same.
            return Err(refused(format!("it needs {gas} gas, and {most} is the most"), Some(gas)));
        }
        Ok(gas)
    }

    /// The deposit-and-reserve, admitted by the reserver up to the UNIX second `admitted_until`.
    fn deposit_call(
        &self,
        order: &DepositOrder,
        keys: &Keys,
        evm_id: u64,
        sender: Address,
        admitted_until: u64,
    ) -> Result<Call, Transient> {
        let escrow = address(&order.escrow.contract).map_err(unusable)?;
        let source = &order.terms.source;
        let payer = address(source.account().as_str()).map_err(unusable)?;
        let token = contracts::erc20(source.asset()).map_err(unusable)?;
        let (permit, with_witness) = match &order.authorization {
            Authorization::EvmPermit2Escrow(permit) => (permit, true),
            Authorization::EvmPermit2(permit) => (permit, false),
            Authorization::Solana(_) | Authorization::Tron(_) => {
                return Err(Transient::misconfigured("the payer signed for no EVM chain"));
            }
        };
        let deposit = eip712::deposit(&order.payment_id, order.terms_hash, permit.quote_hash, payer, &order.escrow)
            .map_err(unusable)?;
        let reservation = eip712::reservation(&order.payment_id, &order.reservation).map_err(unusable)?;
        let d = GatewayEscrow::GatewayDeposit::from(&deposit);
        let r = GatewayEscrow::Reservation::from(&reservation);
        let raw =
            raw_bytes(&permit.signature).ok_or_else(|| Transient::misconfigured("the payer's signature is no hex"))?;
        let wrapped = match signature::is_erc6492(&raw) {
            true => Some(signature::unwrap_erc6492(&raw).map_err(Transient::misconfigured)?),
            false => None,
        };
        let p = permit_of(permit, token, wrapped.as_ref().map_or(raw, |wrapped| wrapped.signature.clone()));
        let until = contracts::time(admitted_until).map_err(unusable)?;
        let admission = Admission { deposit, reservation, token, admittedUntil: until };
        let signed =
            attest::sign_admission(&keys.reserver, &admission, evm_id, escrow).map_err(Transient::misconfigured)?;
        let signature =
            raw_bytes(&signed).ok_or_else(|| Transient::misconfigured("the reserver's signature is no hex"))?;
        let data = match with_witness {
            true => {
                GatewayEscrow::depositWithWitnessCall { d, p, r, admittedUntil: until, reserverSignature: signature }
                    .abi_encode()
            }
            false => {
                GatewayEscrow::depositWithPermitCall { d, p, r, admittedUntil: until, reserverSignature: signature }
                    .abi_encode()
            }
        };
        Ok(match wrapped {
            None => plain(sender, escrow, data),
            Some(wrapped) => erc6492::deposit(sender, payer, &wrapped, escrow, data),
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

fn keys(chain: &EvmChain) -> Result<&Keys, Transient> {
    chain.keys.as_ref().ok_or_else(|| Transient::misconfigured(format!("{} has no keys", chain.node.chain_id())))
}

/// The accounts that may send a transaction of this leg, the preferred one first, and how many exits it leaves the coins of.
fn signers<'a>(chain: &EvmChain, keys: &'a Keys, leg: Leg, payment_id: &PaymentId) -> (Vec<&'a PrivateKeySigner>, u64) {
    let submitters = keys.of_submitters();
    (submitters.of(leg, payment_id), submitters.left_over(leg, chain.node.config().exits_reserved))
}

/// The account that is named as the caller when a call is tried out.
fn first(signers: &[&PrivateKeySigner]) -> Result<Address, Transient> {
    signers.first().map(|signer| signer.address()).ok_or_else(|| Transient::misconfigured("no submitter key"))
}

impl Adapter for EvmChains {
    fn chain_ids(&self) -> Vec<ChainId> {
        self.chains.keys().cloned().collect()
    }
}

#[async_trait]
impl Chains for EvmChains {
    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let chain = self.chain(&order.escrow.chain_id)?;
        let keys = keys(chain)?;
        let (signers, exits_left) = signers(chain, keys, Leg::Deposit, &order.payment_id);
        let sender = first(&signers)?;
        // Both clocks count: nodes judge by the head's time, or by that of the block they would make now.
        let now = chain.node.head().await?.time.max(unix_seconds(self.clock.now()));
        // Never longer than what is sent after it: whatever proves that that can't land proves it of the trial, too.
        let ends = |seconds: u64| now.saturating_add(seconds).min(order.escrow.reserve_deadline);
        let admission_seconds = chain.node.config().admission_seconds;
        let (trial_until, until) = (ends(TRIAL_SECONDS.min(admission_seconds)), ends(admission_seconds));
        let trial = self.deposit_call(order, keys, chain.node.evm_id(), sender, trial_until)?;
        let call = self.deposit_call(order, keys, chain.node.evm_id(), sender, until)?;
        let escrow = address(&order.escrow.contract).map_err(unusable)?;
        let purpose = Purpose::deposit(&order.payment_id, attempt);
        // Whoever pays: the payer's account may have code although a key signed (EIP-7702), and the token has some.
        let gas_max = Some(chain.node.config().gas.deposit_max);
        let payer = Some(self.payer(&chain.node, order).await?);
        let intent =
            Intent { chain, signers, exits_left, gas_max, payer, trial, trial_until, call, escrow, purpose, attempt };
        self.prepare(intent).await
    }

    async fn prepare_refund(&self, order: &RefundOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let payment_id = word(order.payment_id.on_chain());
        let data = match &order.non_delivery {
            None => GatewayEscrow::refundCall { paymentId: payment_id }.abi_encode(),
            Some(signature) => {
                let signature =
                    raw_bytes(signature).ok_or_else(|| Transient::misconfigured("the non-delivery is no hex"))?;
                GatewayEscrow::cancelCall { paymentId: payment_id, nonDelivery: signature }.abi_encode()
            }
        };
        let purpose = Purpose::refund(&order.payment_id, attempt);
        self.prepare_exit(&order.payment_id, &order.escrow, data, purpose, attempt).await
    }

    async fn prepare_release(&self, order: &ReleaseOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        let attestation =
            raw_bytes(&order.attestation).ok_or_else(|| Transient::misconfigured("the attestation is no hex"))?;
        let data =
            GatewayEscrow::releaseCall { paymentId: word(order.payment_id.on_chain()), attestation }.abi_encode();
        let purpose = Purpose::release(&order.payment_id, attempt);
        self.prepare_exit(&order.payment_id, &order.escrow, data, purpose, attempt).await
    }

    async fn reprice(&self, versions: &[TransactionPrepared]) -> Result<Option<TransactionPrepared>, Transient> {
        self.replacement(versions).await
    }

    async fn broadcast(&self, transaction: &TransactionPrepared) -> Result<(), Transient> {
        let raw = raw_bytes(&transaction.raw).ok_or_else(|| Transient::misconfigured("the transaction is no hex"))?;
        let sent = self.chain(&transaction.chain_id)?.node.try_send(&raw).await;
        if let Err(Fault::Rejected(text)) = &sent
            && is_too_large(text)
        {
            // It stays what it is, and would hold up everything behind it.
            self.watch.give_up(transaction);
        }
        Ok(sent?)
    }

    async fn deposit_state(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<DepositState, Transient> {
        let node = &self.chain(&order.escrow.chain_id)?.node;
        let state = node.transactions().deposit_state(order, versions).await?;
        // Before it is a fact in the journal, so that a process that dies in between does it again.
        self.settle_payer(node, order, versions, &state).await?;
        Ok(state)
    }

    async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        self.chain(&order.escrow.chain_id)?.node.transactions().deposit_secured(order).await
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.chain(order.destination.asset().chain())?.node.deliveries().state(order).await
    }

    async fn escrow_state(&self, payment_id: &PaymentId, escrow: &EscrowPlan) -> Result<EscrowState, Transient> {
        self.chain(&escrow.chain_id)?.node.escrows().state(payment_id, escrow).await
    }

    async fn claims(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        self.chain(&escrow.chain_id)?.node.escrows().claims(payment_id, escrow, end).await
    }

    async fn deposit_ruled_out(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        after: u64,
    ) -> Result<bool, Transient> {
        self.chain(&escrow.chain_id)?.node.transactions().deposit_ruled_out(payment_id, escrow, after).await
    }

    async fn transaction_state(&self, versions: &[TransactionPrepared]) -> Result<TransactionState, Transient> {
        let newest = versions.last().ok_or_else(|| Transient::misconfigured("no transaction was prepared"))?;
        self.chain(&newest.chain_id)?.node.transactions().state(versions).await
    }

    async fn attestation_holds(
        &self,
        statement: &Statement,
        escrow: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient> {
        self.chain(&escrow.chain_id)?.node.escrows().attestation_holds(statement, escrow, signature).await
    }

    async fn next_block(&self, chain_id: &ChainId) {
        match self.chain(chain_id) {
            Ok(chain) => chain.node.next_block().await,
            Err(_) => self.clock.sleep(MAINTAIN_EVERY).await,
        }
    }

    fn cursor(&self, chain_id: &ChainId, contract: &str) -> Option<Cursor> {
        self.chain(chain_id).ok()?.node.log_watcher().cursor(contract)
    }

    async fn next_event(&self, waiting: &Waiting<'_>) {
        match self.chain(waiting.chain_id) {
            Ok(chain) => chain.node.next_event(waiting).await,
            Err(_) => self.clock.sleep(MAINTAIN_EVERY).await,
        }
    }
}

/// The words of the common nodes for a transaction that no block has room for.
fn is_too_large(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["block gas limit", "gas limit too high", "gas limit is too high", "gaslimitexceeded", "gas limit cap"]
        .iter()
        .any(|words| text.contains(words))
}

/// The hash of a journaled transaction.
pub(super) fn hash_of(transaction: &TransactionPrepared) -> Result<B256, Transient> {
    let hash: Hash32 = transaction
        .transaction_hash
        .parse()
        .map_err(|_| Transient::misconfigured("the transaction hash is no hash"))?;
    Ok(word(hash))
}
