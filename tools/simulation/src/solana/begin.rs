//! Solana clusters as the world reaches them: the program in its virtual machine below the adapter's JSON-RPC.

use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};

use alloy::primitives::U256;
use async_trait::async_trait;
use ed25519_dalek::{Signature, Signer, VerifyingKey};

use chains::{
    config::{CommonConfig, SolanaConfig},
    escrow::EscrowRecord,
    settler::DeliveryChain,
    verifier::Verifier,
};
use chains_solana::{
    adapter::{Keys, SolanaChain},
    authorization::{self, Choice, ClusterId, EscrowSettings, SignedMessage, SpendRequest},
    escrows::Escrows,
    node::Node,
    program::{key, signature_bytes, statement_digest},
    settler::SettlerChain,
};
use events::{
    Account, AssetId, Hash32, PaymentId,
    event::{Authorization, EscrowPlan, Inclusion, TransactionPrepared},
};
use gateway_program::{Key, host, message::Domain, token::TokenAccount};
use sagas::ports::Statement;
use solana_account::ReadableAccount;

use super::{
    Genesis, NodeKind, RpcOutcome, SharedCluster, SimCluster, SimTransport, Template, Timing, Token, calls::Call,
    truth::known,
};
use crate::{
    chain,
    family::{
        Adapter, Allows, BEGIN, Beginning, Careless, Delivered, EscrowCall, FamilyChain, FaultSource, GatewayProcess,
        Happened, Holdings, Misuse, PaymentEvents, REFUND_DELAY, RPC_TIMEOUT, Refusal, RpcFaults, SetupError,
        SpendOrder, Task, Waits, ed25519,
    },
    random::RandomSource,
};

/// Lamports of everybody who sends transactions.
const COINS: u64 = 1_000_000_000_000;
/// Decimal places of the token.
const DECIMALS: u8 = 6;
/// Genesis hashes of the clusters of a run.
const CLUSTERS: [[u8; 32]; 2] = [[0xc1; 32], [0xc2; 32]];
/// Blocks for which a blockhash counts: fewer than on a cluster, whose blocks come in a tenth of the time.
const BLOCKHASH_AGE: u64 = 24;
/// Methods that are answered out of a node's history.
const OF_HISTORY: [&str; 3] = ["getTransaction", "getSignaturesForAddress", "getBlock"];

/// One cluster of a run.
pub(super) struct SolanaWorld {
    pub(super) program: Key,
    pub(super) mint: Key,
    pub(super) decimals: u8,
    pub(super) config: SolanaConfig,
    pub(super) token: AssetId,
    pub(super) coin: AssetId,
    pub(super) blockhash_age: u64,
    cluster_id: [u8; 32],
    node: Node,
    reader: SettlerChain,
    cluster: SharedCluster,
}

fn public(name: &str) -> Key {
    ed25519(name).verifying_key().to_bytes()
}

fn refused(error: impl std::fmt::Display) -> SetupError {
    SetupError::Connect(error.to_string())
}

fn templates() -> Result<&'static [Template; 2], SetupError> {
    static TEMPLATES: OnceLock<[Template; 2]> = OnceLock::new();
    if let Some(templates) = TEMPLATES.get() {
        return Ok(templates);
    }
    let make = |cluster_id| {
        let tokens = vec![Token { symbol: "SUSD".to_owned(), decimals: DECIMALS }];
        let (reserver, releaser) = (public("reserver"), known(&public("releaser")));
        Template::new(&Genesis { cluster_id, reserver, releaser, tokens, timing: Timing::default() }).map_err(refused)
    };
    let made = [make(CLUSTERS[0])?, make(CLUSTERS[1])?];
    Ok(TEMPLATES.get_or_init(|| made))
}

/// A cluster at the run's beginning, with everybody's money on it.
///
/// # Errors
/// [`SetupError`].
pub fn begin(beginning: &Beginning<'_>) -> Result<Arc<dyn FamilyChain>, SetupError> {
    let template = templates()?.get(beginning.index);
    let template = template.ok_or_else(|| refused("there are not so many clusters"))?;
    let mut cluster = template.start(BEGIN - 1);
    let finalized_lag = usize::try_from(beginning.plan.depth).map_err(refused)?;
    let timing = Timing { confirmed_lag: finalized_lag.min(1), finalized_lag, blockhash_age: BLOCKHASH_AGE };
    cluster.set_timing(timing);
    for party in beginning.parties {
        let account = public(&party.name);
        if party.has_coins {
            cluster.fund(&account, COINS).map_err(refused)?;
        }
        if party.tokens > 0 {
            cluster.mint(0, &account, party.tokens).map_err(refused)?;
        }
        if party.allows == Allows::Deposits {
            cluster.approve(0, &account, &account, u64::MAX).map_err(refused)?;
        }
    }
    let mut config = cluster.config(REFUND_DELAY).map_err(refused)?;
    config.common.releaser = beginning.releaser.clone();
    let coin = format!("{}/slip44:501", config.common.chain_id);
    let (program, mint, cluster_id) = (cluster.program(), cluster.mints()[0], cluster.cluster_id());
    let token = cluster.token(0).map_err(refused)?;
    let cluster = cluster.shared();
    let honest = SimTransport::new(cluster.clone(), RPC_TIMEOUT, |_| RpcOutcome::Deliver(NodeKind::Honest));
    let node = honest.connect(&config).map_err(refused)?;
    Ok(Arc::new(SolanaWorld {
        program,
        mint,
        decimals: DECIMALS,
        token,
        coin: coin.parse().map_err(|_| refused("no coin of the cluster"))?,
        blockhash_age: BLOCKHASH_AGE,
        cluster_id,
        reader: SettlerChain::new(node.clone(), ed25519("stranger")),
        node,
        config,
        cluster,
    }))
}

/// The node of this family that fares as one of any: one that is behind has at times the accounts already, and not its history.
fn node_kind(kind: chain::NodeKind, method: &str) -> NodeKind {
    match kind {
        chain::NodeKind::Honest => NodeKind::Honest,
        chain::NodeKind::Lagging { blocks } => {
            let blocks = usize::try_from(blocks).unwrap_or(usize::MAX);
            let is_unwritten = OF_HISTORY.contains(&method) && blocks % 2 == 1;
            if is_unwritten { NodeKind::Unindexed { blocks } } else { NodeKind::Lagging { blocks } }
        }
        chain::NodeKind::OnFork => NodeKind::OnFork,
        chain::NodeKind::LyingHead { ahead } => NodeKind::LyingHead { ahead },
    }
}

fn outcome(outcome: chain::RpcOutcome, method: &str) -> RpcOutcome {
    match outcome {
        chain::RpcOutcome::Deliver(kind) => RpcOutcome::Deliver(node_kind(kind, method)),
        chain::RpcOutcome::Late(after, kind) => RpcOutcome::Late(after, node_kind(kind, method)),
        chain::RpcOutcome::LoseRequest => RpcOutcome::LoseRequest,
        chain::RpcOutcome::LoseAnswer(kind) => RpcOutcome::LoseAnswer(node_kind(kind, method)),
        chain::RpcOutcome::Error(code, message) => RpcOutcome::Error(code, message),
    }
}

impl SolanaWorld {
    pub(super) fn lock(&self) -> MutexGuard<'_, SimCluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn domain(&self) -> Domain {
        Domain { cluster_id: self.cluster_id, program_id: self.program }
    }

    fn connect(&self, mut faults: RpcFaults) -> Result<Node, SetupError> {
        let drawn = move |method: &str| outcome(faults(method), method);
        SimTransport::new(self.cluster.clone(), RPC_TIMEOUT, drawn).connect(&self.config).map_err(refused)
    }

    /// The key that may sign in the payer's place, where the payer's allowance is that key's.
    fn delegate_of(&self, payer: &str) -> Option<VerifyingKey> {
        let delegate = ed25519(&format!("delegate of {payer}")).verifying_key();
        let allowed = host::delegate_address(&self.program, &delegate.to_bytes()).key;
        let cluster = self.lock();
        let account = cluster.account(&cluster.token_account(0, &public(payer)))?;
        let held = TokenAccount::parse(&account.owner().to_bytes(), account.data()).ok()?;
        (held.delegate == Some(allowed)).then_some(delegate)
    }
}

#[async_trait]
impl FamilyChain for SolanaWorld {
    fn common(&self) -> &CommonConfig {
        &self.config.common
    }

    fn token(&self) -> &AssetId {
        &self.token
    }

    fn coin(&self) -> &AssetId {
        &self.coin
    }

    fn account(&self, name: &str) -> Account {
        known(&public(name))
    }

    fn adapter(&self, faults: RpcFaults, process: &GatewayProcess) -> Result<Adapter, SetupError> {
        let keys = Keys {
            reserver: ed25519("reserver").into(),
            draining_reservers: Vec::new(),
            submitters: process.submitters.iter().map(|name| ed25519(name).into()).collect(),
            exit_submitters: Vec::new(),
        };
        let chain = SolanaChain::new(self.connect(faults)?, Some(keys), process.clock.clone()).map_err(refused)?;
        let chain = Arc::new(chain);
        let watched = chain.clone();
        // Who waits at the adapter's own poller is woken in an order that no seed decides.
        let watch = Arc::new(move || -> Task {
            let watched = watched.clone();
            // A failure is repeated in the next round.
            Box::pin(async move { drop(watched.watch_records().await) })
        });
        Ok(Adapter { chain, watch: Some(watch), upkeep: None })
    }

    fn verifier(&self, service: Verifier, name: &str, faults: RpcFaults) -> Result<Verifier, SetupError> {
        Ok(service.with_chains([Careless(self.connect(faults)?)], Some(ed25519(name).into())))
    }

    fn reader(&self) -> &dyn DeliveryChain {
        &self.reader
    }

    async fn authorize(&self, order: &SpendOrder<'_>) -> Option<(Authorization, EscrowPlan)> {
        let common = &self.config.common;
        let spend = SpendRequest {
            payment_id: order.payment_id.clone(),
            terms: order.terms.clone(),
            quote_deadline: order.quote_deadline,
            fulfillment_deadline: order.fulfillment_deadline,
            cluster_id: ClusterId::from(self.cluster_id),
            escrow: EscrowSettings {
                program: common.escrow_contract.clone(),
                reserver: common.reserver.clone(),
                releaser: order.releaser.clone(),
                refund_delay_seconds: REFUND_DELAY,
            },
            quote_hash: order.quote_hash,
        };
        let delegate = order.other_scheme.then(|| self.delegate_of(order.payer)).flatten();
        let choice = Choice {
            reserve_deadline: Some(order.reserve_deadline),
            refund_after: Some(order.refund_after),
            delegate_signer: delegate,
            ..Choice::default()
        };
        let prepared = authorization::prepare(&spend, &choice).ok()?;
        let signer = match delegate {
            Some(_) => ed25519(&format!("delegate of {}", order.payer)),
            None => ed25519(order.payer),
        };
        let signed = SignedMessage {
            message: prepared.digest.to_string(),
            message_prehash: Some(format!("0x{}", hex::encode(&prepared.preimage))),
            signature: format!("0x{}", hex::encode(signer.sign(&prepared.digest.0).to_bytes())),
            payload: Some(prepared.payload),
        };
        authorization::authorize(&spend, &signed).ok()
    }

    fn allow(&self, payer: &str, is_allowed: bool) -> Result<(), String> {
        self.place(&self.allowance(payer, if is_allowed { u64::MAX } else { 0 }))
    }

    fn deliver(&self, sender: &str, delivery: &Delivered) -> Result<(), String> {
        self.place(&self.delivery(sender, delivery)?)
    }

    fn send(&self, sender: &str, payment_id: &PaymentId, call: &EscrowCall) -> Result<(), String> {
        self.place(&self.escrow_call(sender, payment_id, call)?)
    }

    fn attempt(&self, sender: &str, payment_id: &PaymentId, call: &EscrowCall) -> Result<(), Refusal> {
        self.try_out(&self.escrow_call(sender, payment_id, call).map_err(Refusal::Other)?)
    }

    fn misuse(&self, name: &str, way: Misuse, random: &RandomSource) -> Result<(), String> {
        self.misused(name, way, random)
    }

    fn give_coins(&self, from: &str, to: &str) -> Result<(), String> {
        self.place(&Self::transfer(from, to, COINS / 8))
    }

    async fn sign(&self, name: &str, statement: &Statement) -> Option<String> {
        let digest = statement_digest(statement, &self.domain()).ok()?;
        Some(format!("0x{}", hex::encode(ed25519(name).sign(&digest.0).to_bytes())))
    }

    fn is_signed_by(&self, account: &Account, statement: &Statement, signature: &str) -> bool {
        let holds = || {
            let signer = VerifyingKey::from_bytes(&key(account).ok()?).ok()?;
            let digest = statement_digest(statement, &self.domain()).ok()?;
            signer.verify_strict(&digest.0, &Signature::from_bytes(&signature_bytes(signature)?)).ok()
        };
        holds().is_some()
    }

    fn inject_faults(&self, world: &dyn FaultSource, random: &RandomSource, is_moment: bool) {
        self.suffer(world, random, is_moment);
    }

    fn make_block(&self, time: u64) -> Result<String, String> {
        let block = self.lock().produce(time).map_err(|error| error.to_string())?;
        Ok(format!("{} {}", block.slot, bs58::encode(block.hash).into_string()))
    }

    fn settled(&self) -> (u64, u64) {
        let finalized = self.lock().finalized();
        (finalized.slot, finalized.time)
    }

    fn escrow_record(&self, payment_id: &PaymentId) -> Result<Option<EscrowRecord>, String> {
        let record = self.lock().escrow(payment_id);
        let read = record.map(|record| Escrows::of(&self.node).to_record(&record)).transpose();
        read.map_err(|error| error.to_string())
    }

    fn remainder(&self, payment_id: &PaymentId) -> U256 {
        U256::from(self.left(payment_id))
    }

    fn holdings(&self) -> Holdings {
        self.held()
    }

    fn payment_events(&self, payment_id: &PaymentId) -> PaymentEvents {
        self.lock().payment_events(payment_id)
    }

    fn changes(&self, is_new: &mut dyn FnMut(Hash32) -> bool) -> Vec<Happened> {
        self.happened(is_new)
    }

    fn deliveries(&self, payment_id: &PaymentId) -> Vec<(u64, Delivered)> {
        self.delivered(payment_id)
    }

    fn was_reserved(&self, payment_id: &PaymentId, quote_hash: Hash32) -> bool {
        self.reserved(payment_id, quote_hash)
    }

    fn holds(&self, inclusion: &Inclusion) -> Result<(), String> {
        self.includes(inclusion)
    }

    fn waiting(&self) -> Vec<Waits> {
        self.waits()
    }

    fn knows(&self, transaction: &str) -> bool {
        self.lock().knows(transaction)
    }

    fn is_over(&self, prepared: &TransactionPrepared) -> Result<(), String> {
        self.never_lands(prepared)
    }

    /// Past its deadline the program refuses the deposit, though a block may hold the transaction still; one that no block can hold any
    /// more has ended before.
    fn admitted_until(&self, prepared: &TransactionPrepared) -> Option<u64> {
        if self.never_lands(prepared).is_ok() {
            return None;
        }
        let calls = self.calls_of(prepared);
        calls.iter().find_map(Call::deposit).map(|deposit| deposit.reserve_deadline)
    }

    fn draws(&self, _: &TransactionPrepared) -> Option<U256> {
        None
    }

    fn reassigns_to(&self, prepared: &TransactionPrepared) -> Option<Hash32> {
        let calls = self.calls_of(prepared);
        calls.iter().find_map(Call::reassignment).map(|to| Hash32(to.quote_hash))
    }
}
