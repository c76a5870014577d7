//! The seam between the world and a chain, whatever the chain's family: everything that clients, settlers, verifiers, thieves,
//! strangers and invariants do on a chain or read of it.
//!
//! The family's real adapter, verifier and reader run behind it ([`FamilyChain::adapter`], [`FamilyChain::verifier`],
//! [`FamilyChain::reader`]); only the node below them is simulated. All else here is the world's own: transactions of parties
//! that are not the gateway, and reads that bypass every node and every fault.

mod acts;
mod careless;
mod solidity;

use std::{
    cell::RefCell, collections::BTreeMap, future::Future, ops::Deref, path::PathBuf, pin::Pin, sync::Arc,
    thread::LocalKey, time::Duration,
};

use alloy::{
    primitives::{U256, keccak256},
    signers::local::PrivateKeySigner,
};
use async_trait::async_trait;
use ed25519_dalek::SigningKey;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use chains::{config::CommonConfig, escrow::EscrowRecord, registry::Chain, settler::DeliveryChain, verifier::Verifier};
use events::{
    Account, AssetId, ChainId, Family, Hash32, PaymentId, Terms,
    event::{Authorization, EscrowPlan, Inclusion, TransactionPrepared},
    time::Timestamp,
};
use journal::{budget::Budgets, ledger::Ledger};
use sagas::ports::{Clock, Statement};

pub use self::acts::{
    Cancelled, Change, Delivered, EscrowCall, Happened, Holdings, Misuse, Reassigned, Refusal, Released, Reservation,
    Waits,
};
pub(crate) use self::careless::Careless;
pub(crate) use self::solidity::{SolidityChain, cancelled_by, reassigns_to, refusal};
pub use crate::chain::{NodeKind, PaymentEvents, RpcOutcome};
use crate::{
    plan::{ChainPlan, Faults},
    random::RandomSource,
};

/// The UNIX second at which every run begins.
pub const BEGIN: u64 = 1_800_000_000;
/// How long a call to a node may take.
pub const RPC_TIMEOUT: Duration = Duration::from_secs(2);
/// Least seconds between the end of the delivery and the refund.
pub const REFUND_DELAY: u64 = 120;
/// Units of each token that payers and settlers have.
pub const TOKENS: u64 = 1_000_000_000;

/// Why a world cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The artefact of Permit2 is missing.
    #[error("{path} cannot be read ({error}): run `scripts/tools.sh run`")]
    Permit2 {
        /// Where it should be.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A chain refuses to begin as planned.
    #[error(transparent)]
    Chain(#[from] crate::chain::SimError),
    /// A chain cannot be connected to, or does not begin.
    #[error("{0}")]
    Connect(String),
}

/// Decides the outcome of each call to a node by its method (JSON-RPC method, or path of Tron's HTTP API), in the order of the calls.
pub type RpcFaults = Box<dyn FnMut(&str) -> RpcOutcome + Send>;
/// Something that runs beside the engine.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

thread_local! {
    // Each run has a thread of its own, and asks for the same few names again and again.
    static SECP256K1: RefCell<BTreeMap<String, PrivateKeySigner>> = RefCell::default();
    static ED25519: RefCell<BTreeMap<String, SigningKey>> = RefCell::default();
}

/// The key on secp256k1 of the party with this name: EVM and Tron.
pub fn secp256k1(name: &str) -> PrivateKeySigner {
    kept(&SECP256K1, name, || {
        let mut key = keccak256(format!("simulation: {name}"));
        // A hash that is not a valid key is as unlikely as a collision; the next one is valid.
        loop {
            match PrivateKeySigner::from_bytes(&key) {
                Ok(signer) => return signer,
                Err(_) => key = keccak256(key),
            }
        }
    })
}

/// The key on Ed25519 of the party with this name: Solana.
pub fn ed25519(name: &str) -> SigningKey {
    kept(&ED25519, name, || SigningKey::from_bytes(&Sha256::digest(format!("simulation: {name}")).into()))
}

fn kept<K: Clone>(keys: &'static LocalKey<RefCell<BTreeMap<String, K>>>, name: &str, make: impl FnOnce() -> K) -> K {
    keys.with_borrow_mut(|keys| match keys.get(name) {
        Some(key) => key.clone(),
        None => keys.entry(name.to_owned()).or_insert(make()).clone(),
    })
}

/// The account of the party with this name on chains of `family`.
pub fn account_of(name: &str, family: Family) -> Account {
    let bytes = match family {
        Family::Evm | Family::Tron => secp256k1(name).address().to_vec(),
        Family::Solana => ed25519(name).verifying_key().to_bytes().to_vec(),
    };
    #[expect(clippy::expect_used, reason = "no private key has the account zero")]
    Account::from_bytes(family, &bytes).expect("no private key has the account zero")
}

/// To whom a party has given an allowance without limit when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allows {
    /// Nobody.
    Nobody,
    /// Whatever takes a payer's deposit: Permit2, the escrow program's delegate address of the payer's own key, the Tron escrow.
    Deposits,
    /// Whatever takes a settler's delivery: the proxy.
    Deliveries,
}

/// A party that is there when a run begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// Its name, of which its keys are made.
    pub name: String,
    /// Whether it pays for transactions of its own: it has coins for all of a run, and on Solana its token account, if it has tokens.
    pub has_coins: bool,
    /// Units of the token that it has.
    pub tokens: u64,
    /// Its allowance.
    pub allows: Allows,
}

/// What a chain of a run begins with.
#[derive(Debug, Clone)]
pub struct Beginning<'a> {
    /// Its place among the chains of its family, from 0; they have different ids.
    pub index: usize,
    /// The UNIX second of its first block.
    pub time: u64,
    /// How it runs.
    pub plan: ChainPlan,
    /// The default verifier on chains of this family, or the id of the set. The reserver is the party "reserver".
    pub releaser: Account,
    /// Everybody with money.
    pub parties: &'a [Party],
}

/// What one process of the gateway brings along.
#[derive(Clone)]
pub struct GatewayProcess {
    /// Names of the parties that it sends from; the party "reserver" reserves.
    pub submitters: Vec<String>,
    /// Names of the parties that it sends from no more, and whose transactions it sees to their end, where the family has such.
    pub draining: Vec<String>,
    /// Where it takes nonces.
    pub ledger: Arc<dyn Ledger>,
    /// Gas budgets of payers that are contracts.
    pub budgets: Arc<dyn Budgets>,
    /// Its clock.
    pub clock: Arc<dyn Clock>,
}

/// The real adapter of a family, connected to its simulated node.
pub struct Adapter {
    /// The engine's port.
    pub chain: Arc<dyn Chain>,
    /// Looks once for news of the newest block, where the adapter can be told of blocks. Where it is `None` the adapter polls by
    /// itself, with tokio's clock.
    pub watch: Option<Arc<dyn Fn() -> Task + Send + Sync>>,
    /// What the process runs beside the engine.
    pub upkeep: Option<Task>,
}

/// What a payer is asked to authorize.
#[derive(Debug, Clone)]
pub struct SpendOrder<'a> {
    /// The party that pays.
    pub payer: &'a str,
    /// The payment.
    pub payment_id: &'a PaymentId,
    /// Its terms.
    pub terms: &'a Terms,
    /// End of quotes.
    pub quote_deadline: Timestamp,
    /// End of the delivery.
    pub fulfillment_deadline: Timestamp,
    /// Whom the payer trusts.
    pub releaser: &'a Account,
    /// The quote that is accepted, or zero.
    pub quote_hash: Hash32,
    /// Last second of the deposit, UNIX.
    pub reserve_deadline: u64,
    /// First second of the refund, UNIX.
    pub refund_after: u64,
    /// The other way to sign, where the family has one: EVM without a witness (then the windows have their defaults); Solana by a
    /// delegate signer whom the payer approved (the party "delegate of <payer>", if it holds an allowance); nothing on Tron.
    pub other_scheme: bool,
    /// Whether an approval is to be in what is signed, where the family has that (Tron).
    pub with_approval: bool,
    /// Whether it is only to be known what would be signed: nobody gets it, so nobody sends it.
    pub is_draft: bool,
}

/// The world, as far as a chain has to know it to have faults.
pub trait FaultSource {
    /// Fault rates, in a thousand.
    fn faults(&self) -> &Faults;

    /// Whether all faults are over.
    fn faults_ended(&self) -> bool;

    /// Draws whether a fault of this rate strikes now, and counts it under `name`.
    fn strikes(&self, random: &RandomSource, name: &'static str, per_mille: u32) -> bool;

    /// Draws whether a fault of this rate strikes now; the caller counts it.
    fn draws(&self, random: &RandomSource, per_mille: u32) -> bool;

    /// Adds a line to the trace.
    fn note(&self, line: String);
}

/// A chain of a run. All methods that are not told to bypass nodes may do so, too: faults are for [`FamilyChain::adapter`] and
/// [`FamilyChain::verifier`] alone. Nothing here reads a machine's clock, draws by itself, or iterates over a hash map.
#[async_trait]
pub trait FamilyChain: Send + Sync {
    // --- what it is

    /// How the gateway, the verifier and the settlers are configured for it: chain id, escrow, proxy, reserver (the party
    /// "reserver"), releaser ([`Beginning::releaser`]), depth, and `refund_delay_seconds` = [`REFUND_DELAY`].
    fn common(&self) -> &CommonConfig;

    /// The token that is paid with; it has 6 decimal places and takes no fee.
    fn token(&self) -> &AssetId;

    /// The chain's own coin.
    fn coin(&self) -> &AssetId;

    /// The account of the party with this name: of [`secp256k1`] or [`ed25519`].
    fn account(&self, name: &str) -> Account;

    // --- the gateway's own code

    /// The real adapter, over calls that end as `faults` says ([`RpcOutcome`]: deliver from an honest, lagging, forked or lying node;
    /// late; request lost; answer lost, the effect stays; an error). A lost call ends after [`RPC_TIMEOUT`] of tokio's time.
    /// `faults` also counts the process's steps: it is asked exactly once for each call, before the call has any effect.
    ///
    /// # Errors
    /// [`SetupError`].
    fn adapter(&self, faults: RpcFaults, process: &GatewayProcess) -> Result<Adapter, SetupError>;

    /// `service` with this chain besides (`Verifier::with_chains`), over a connection of its own with `faults`, and signing with the
    /// key of the party `name`.
    ///
    /// # Errors
    /// [`SetupError`].
    fn verifier(&self, service: Verifier, name: &str, faults: RpcFaults) -> Result<Verifier, SetupError>;

    /// A settler's look at the chain over an honest connection: `reservation` and `delivery_state` at the depth that the chain
    /// requires. Nothing is sent with it.
    fn reader(&self) -> &dyn DeliveryChain;

    // --- payers

    /// What the payer signs for `order`, made and checked by the code that the gateway itself uses (`prepare`, then `authorize`);
    /// `None` when it cannot be signed.
    async fn authorize(&self, order: &SpendOrder<'_>) -> Option<(Authorization, EscrowPlan)>;

    /// Sends a transaction of the payer that gives its deposit allowance anew, without limit, or takes it away.
    ///
    /// # Errors
    /// Why the node refuses it.
    fn allow(&self, payer: &str, is_allowed: bool) -> Result<(), String>;

    // --- everybody's transactions: sent to an honest node, fit for the next blocks; nobody waits for them

    /// Sends a delivery of the party `sender`, whose account is `delivery.settler`, through the proxy. What it delivers need not be
    /// what was quoted. On Solana the recipient's token account is made where it is not there, and so is the settler's payout
    /// account of the source (at the first [`EscrowCall::Release`]).
    ///
    /// # Errors
    /// Why the node refuses it.
    fn deliver(&self, sender: &str, delivery: &Delivered) -> Result<(), String>;

    /// Sends a call of the escrow about `payment_id`, in the terms that the escrow has of it now.
    ///
    /// # Errors
    /// Why the node refuses it, or that the escrow knows no such payment.
    fn send(&self, sender: &str, payment_id: &PaymentId, call: &EscrowCall) -> Result<(), String>;

    /// What the escrow answers to such a call in the newest block; nothing is sent.
    ///
    /// # Errors
    /// Why it refuses.
    fn attempt(&self, sender: &str, payment_id: &PaymentId, call: &EscrowCall) -> Result<(), Refusal>;

    // --- thieves

    /// Misuses the key of the party `name`, by what was published on this chain.
    ///
    /// # Errors
    /// Why it comes to nothing: the family has no such way, or there is nothing for it now.
    fn misuse(&self, name: &str, way: Misuse, random: &RandomSource) -> Result<(), String>;

    /// Sends coins of the party `from`, enough for many transactions, to the party `to`.
    ///
    /// # Errors
    /// Why the node refuses it.
    fn give_coins(&self, from: &str, to: &str) -> Result<(), String>;

    // --- statements

    /// The statement, signed with the key of the party `name` for this chain's escrow; hex with 0x.
    async fn sign(&self, name: &str, statement: &Statement) -> Option<String>;

    /// Whether `signature` is the statement signed by the key of `account` for this chain's escrow. Written for the simulation, or
    /// at least not with what `events::mutant!` breaks.
    fn is_signed_by(&self, account: &Account, statement: &Statement, signature: &str) -> bool;

    // --- blocks

    /// Injects the chain's own faults ahead of a block: reorganisations (no deeper than what is settled; `is_moment` says that one
    /// now decides who is paid, so it strikes more often), forgotten and stuck transactions, fees, third parties who copy. Rates are
    /// those of [`FaultSource::faults`], drawn with [`FaultSource::strikes`], which counts the fault, or [`FaultSource::draws`], after
    /// which it is counted where it happens (`coverage::fault`); neither strikes once all faults have ended. Each is noted.
    fn inject_faults(&self, world: &dyn FaultSource, random: &RandomSource, is_moment: bool);

    /// Makes the chain's next block or blocks, up to the UNIX second `time`; called every [`ChainPlan::block`] seconds or a little
    /// later. What it returns goes into the trace: number and hash of the newest block.
    ///
    /// # Errors
    /// Why there is none.
    fn make_block(&self, time: u64) -> Result<String, String>;

    // --- the truth, past all nodes

    /// Number (slot) and UNIX second of the newest settled block: finalized by this chain, or at the depth that it is configured for.
    /// Nothing at or below it is ever reorganised.
    fn settled(&self) -> (u64, u64);

    /// The escrow's record of a payment in the newest block, also after its end; `None` when there never was one.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn escrow_record(&self, payment_id: &PaymentId) -> Result<Option<EscrowRecord>, String>;

    /// What of a released deposit is still in escrow for the payer, smallest unit.
    fn remainder(&self, payment_id: &PaymentId) -> U256 {
        let _ = payment_id;
        U256::ZERO
    }

    /// What of the token is where, in the newest block.
    fn holdings(&self) -> Holdings;

    /// How often the events of a payment are in canonical blocks.
    fn payment_events(&self, payment_id: &PaymentId) -> PaymentEvents;

    /// The changes in canonical blocks that `is_new`, by the block's hash; no block twice, and none that cannot vanish any more has to
    /// be told again.
    fn changes(&self, is_new: &mut dyn FnMut(Hash32) -> bool) -> Vec<Happened>;

    /// What was delivered for a payment in canonical blocks, and the block's number (slot).
    fn deliveries(&self, payment_id: &PaymentId) -> Vec<(u64, Delivered)>;

    /// Whether a payment was ever reserved for this quote, in a settled block.
    fn was_reserved(&self, payment_id: &PaymentId, quote_hash: Hash32) -> bool;

    /// Whether the transaction is in the very block that is named, succeeded, and the block is settled.
    ///
    /// # Errors
    /// What is found instead.
    fn holds(&self, inclusion: &Inclusion) -> Result<(), String>;

    /// The transactions that wait for a block, in the order in which they came.
    fn waiting(&self) -> Vec<Waits>;

    /// Whether any node knows the transaction, in a block or waiting.
    fn knows(&self, transaction: &str) -> bool;

    /// Whether a prepared transaction can never take effect any more, by what is settled: it failed in a settled block, or its nonce
    /// is used by another, its blockhash expired or its expiration passed without it, at settled blocks.
    ///
    /// # Errors
    /// What is found instead.
    fn is_over(&self, prepared: &TransactionPrepared) -> Result<(), String>;

    /// The last UNIX second in which the escrow takes a deposit that was prepared, from anybody who has seen it; `None` when its own
    /// validity alone decides ([`FamilyChain::is_over`]).
    fn admitted_until(&self, prepared: &TransactionPrepared) -> Option<u64>;

    /// Whether a deposit is of the winner's price alone unless a dearer quote may follow: not where the payer's own transaction
    /// deposits, which was signed before there was a price (Tron).
    fn deposits_the_price(&self) -> bool {
        true
    }

    /// What a prepared deposit draws that is larger than the price; `None` of any other.
    fn draws(&self, prepared: &TransactionPrepared) -> Option<U256>;

    /// The quote that a prepared reassignment reserves for; `None` of any other transaction.
    fn reassigns_to(&self, prepared: &TransactionPrepared) -> Option<Hash32>;
}

/// A chain of the world, shared by everybody.
#[derive(Clone)]
pub struct ChainHandle {
    /// Its CAIP-2 id.
    pub chain_id: ChainId,
    /// Its family.
    pub family: Family,
    /// Notified at each new block.
    pub blocks: Arc<Notify>,
    chain: Arc<dyn FamilyChain>,
}

impl ChainHandle {
    /// A handle of `chain`.
    ///
    /// # Errors
    /// [`SetupError::Connect`] when its id is of no family.
    pub fn new(chain: Arc<dyn FamilyChain>) -> Result<Self, SetupError> {
        let chain_id = chain.common().chain_id.clone();
        let family = chain_id.family().ok_or_else(|| SetupError::Connect(format!("{chain_id} is of no family")))?;
        Ok(Self { chain_id, family, blocks: Arc::default(), chain })
    }
}

impl Deref for ChainHandle {
    type Target = dyn FamilyChain;

    fn deref(&self) -> &Self::Target {
        &*self.chain
    }
}
