//! Node: a connection to one Solana cluster, and what may be believed of what it says.
//!
//! A node can lag, be on a fork, or be many nodes behind one address that disagree. So a node of another cluster is
//! refused; what is compared is read in one answer, at one slot, together with that slot's clock; an answer from before a
//! slot that was finalized already is a [`Transient`] fault and never a fact. The accounts are the truth: history only
//! says which transaction made them so.

mod connect;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use data_encoding::BASE64;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::Instant;

use chains::{block_poller::BlockPoller, config::SolanaConfig, head_feed::HeadFeed, nodes::NodeReport};
use events::{ChainId, event::Inclusion};
use gateway_program::{Hash, Key, message::Domain};
use sagas::ports::Transient;

pub use self::connect::ConnectError;
use super::{
    nodes::{CLOCK_SYSVAR, Nodes},
    program::{base58, text},
    rpc::Fault,
};

/// Most accounts that nodes give in one answer.
pub(super) const ACCOUNTS_MAX: usize = 100;
/// For so long the settled slot that a record watcher found last is the newest for everybody while it goes on asking.
const SETTLED_KEPT: Duration = Duration::from_secs(2);
/// Most digits of an instruction's data: 10 KiB, as much as one program may give another, in Base58.
const DATA_DIGITS_MAX: usize = 14_000;
/// Base58 digits of the longest one that a transaction of 1,232 bytes can bring.
const OWN_DATA_DIGITS_MAX: usize = 1_700;
/// So many transactions are remembered that gave nothing back.
const NO_RETURNS_MAX: usize = 16_384;
/// Most accounts of which it is remembered which transaction made them what they are.
const MADE_BY_MAX: usize = 4_096;
/// Owner of the sysvars.
const SYSVAR_OWNER: &str = "Sysvar1111111111111111111111111111111111111";

/// How sure the cluster is of what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commitment {
    /// Voted for by two thirds of the stake; can in theory still vanish.
    Confirmed,
    /// Never goes away.
    Finalized,
}

impl Commitment {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Finalized => "finalized",
        }
    }
}

/// How far the cluster has finalized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// A finalized slot.
    pub slot: u64,
    /// A block height that lies at or below it: a transaction that may not land above this height has landed at or below
    /// that slot, or never will.
    pub height: u64,
}

/// An account as it was at the slot of its [`Snapshot`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The program that it belongs to.
    pub owner: Key,
    /// Its balance.
    pub lamports: u64,
    /// Its bytes.
    pub data: Vec<u8>,
    /// Whether it is a program.
    pub executable: bool,
}

/// Accounts as they were at one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The slot.
    pub slot: u64,
    /// Its time on the cluster's clock, UNIX seconds: what programs compare deadlines with. It never goes back.
    pub time: u64,
    /// The accounts, in the order asked for; `None` for what does not exist.
    pub accounts: Vec<Option<Account>>,
}

impl Snapshot {
    /// The account asked for at `index`.
    pub fn account(&self, index: usize) -> Option<&Account> {
        self.accounts.get(index).and_then(Option::as_ref)
    }
}

/// A response of the RPC with the slot that it was made at (`RpcResponse`).
#[derive(Deserialize)]
pub(super) struct Contextual<T> {
    /// Where the node was.
    pub context: Context,
    /// What was asked for.
    pub value: T,
}

/// Where a node was when it answered.
#[derive(Deserialize)]
pub(super) struct Context {
    /// The slot of the bank that answered, at the commitment asked for.
    pub slot: u64,
}

/// An account as nodes write it, in the encoding `base64`.
#[derive(Deserialize)]
pub(super) struct RawAccount {
    owner: String,
    lamports: u64,
    /// The bytes, and their encoding.
    data: (String, String),
    #[serde(default)]
    executable: bool,
}

impl RawAccount {
    /// The account, or what is wrong with the answer.
    pub fn read(self) -> Result<Account, String> {
        let (data, encoding) = self.data;
        // Not all owners are accounts in the sense of the contract: the system program's address is zero.
        let owner =
            base58::<32>(&self.owner).ok_or_else(|| format!("{:?} where 32 bytes were expected", self.owner))?;
        if encoding != "base64" {
            return Err(format!("an account in {encoding:?}"));
        }
        let data = BASE64.decode(data.as_bytes()).map_err(|error| format!("an account: {error}"))?;
        Ok(Account { owner, lamports: self.lamports, data, executable: self.executable })
    }
}

/// A connection to one cluster; cheap to clone.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

struct Inner {
    config: SolanaConfig,
    cluster: Hash,
    nodes: Nodes,
    settled: Mutex<Option<Settled>>,
    /// When a record watcher last found the settled slot.
    settled_watched: Mutex<Option<Instant>>,
    /// Finalized transactions that name a deposit address's token account and gave nothing back from it.
    no_returns: Mutex<HashSet<(Key, String)>>,
    /// By which transactions accounts were found to be what they are, by address.
    made_by: Mutex<HashMap<Key, Inclusion>>,
    /// The newest slot whose finalized state was seen.
    finalized_read: Mutex<u64>,
    /// Whether the chain's own program was seen to have no reassignments.
    lacks_reassignments: AtomicBool,
    poller: BlockPoller<u64>,
    head_feed: Option<HeadFeed>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Node").field(self.chain_id()).finish()
    }
}

impl Node {
    /// What the configuration says.
    pub fn config(&self) -> &SolanaConfig {
        &self.0.config
    }

    /// What hints at its new blocks, where the configuration names it.
    pub(crate) fn head_feed(&self) -> Option<&HeadFeed> {
        self.0.head_feed.as_ref()
    }

    /// The chain.
    pub fn chain_id(&self) -> &ChainId {
        &self.0.config.common.chain_id
    }

    /// The cluster's genesis hash.
    pub fn cluster_id(&self) -> Hash {
        self.0.cluster
    }

    /// Where signatures for the program `program_id` count.
    pub fn domain(&self, program_id: &Key) -> Domain {
        Domain { cluster_id: self.0.cluster, program_id: *program_id }
    }

    /// Whether the chain's own program is known to be of a version before there were reassignments.
    pub(super) fn lacks_reassignments(&self) -> bool {
        self.0.lacks_reassignments.load(Ordering::Relaxed)
    }

    /// Notes whether it is one; whether that is another word than before.
    pub(super) fn note_reassignments(&self, lacks: bool) -> bool {
        self.0.lacks_reassignments.swap(lacks, Ordering::Relaxed) != lacks
    }

    pub(super) async fn request<R: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<R, Fault> {
        self.0.nodes.request(method, params).await
    }

    /// What each node says of itself: whether it is of the cluster, its newest slot, and how far it lags.
    pub async fn node_reports(&self) -> Vec<NodeReport> {
        self.0.nodes.reports().await
    }

    /// Whether what is asked is of this cluster, by its genesis hash, whatever was said before.
    pub(super) async fn is_of_its_cluster(&self) -> Result<bool, Transient> {
        match self.request::<String>("getGenesisHash", json!([])).await.map_err(Transient::from) {
            Ok(found) => Ok(found == text(&self.0.cluster)),
            Err(fault) if fault.is_misconfigured() => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// A fault that says that the node cannot be believed for now.
    pub(super) fn contradiction(&self, what: impl std::fmt::Display) -> Transient {
        Transient::contradiction(format!("{}: the node lags or contradicts itself: {what}", self.chain_id()))
    }

    /// The 32 bytes that the node wrote as Base58.
    pub(super) fn bytes32(&self, text: &str) -> Result<[u8; 32], Transient> {
        base58::<32>(text).ok_or_else(|| self.contradiction(format!("{text:?} where 32 bytes were expected")))
    }

    /// The newest confirmed slot.
    ///
    /// # Errors
    /// [`Transient`], also when it lies below a slot that was settled before.
    pub async fn head(&self) -> Result<u64, Transient> {
        let slot: u64 = self.request("getSlot", json!([{"commitment": Commitment::Confirmed.text()}])).await?;
        match self.settled_before() {
            Some(settled) if slot < settled.slot => {
                Err(self.contradiction(format!("newest slot {slot} is below settled {}", settled.slot)))
            }
            _ => Ok(slot),
        }
    }

    /// How far the cluster has finalized.
    ///
    /// What was not seen before is believed only when a second answer reaches it, too: a node that errs about its head,
    /// one of several behind the address, would else make a slot that can still vanish look settled. Where several nodes are
    /// configured, two of them have to have reached it. Where a record watcher
    /// asks again and again, nobody else need.
    ///
    /// # Errors
    /// [`Transient`], also when it lies below what was seen before, or two answers disagree.
    pub async fn settled(&self) -> Result<Settled, Transient> {
        let watched = *self.0.settled_watched.lock().unwrap_or_else(PoisonError::into_inner);
        match self.settled_before().filter(|_| watched.is_some_and(|at| at.elapsed() < SETTLED_KEPT)) {
            // What was settled then is settled now, and whoever concludes from it reads no earlier state.
            Some(settled) => Ok(settled),
            None => self.ask_settled().await,
        }
    }

    /// How far the cluster has finalized, asked for on behalf of everybody.
    ///
    /// # Errors
    /// As [`settled`](Self::settled).
    pub(super) async fn watch_settled(&self) -> Result<Settled, Transient> {
        let settled = self.ask_settled().await?;
        *self.0.settled_watched.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(settled)
    }

    /// How far the cluster has finalized now, whatever is kept of it.
    ///
    /// # Errors
    /// As [`settled`](Self::settled).
    pub(super) async fn ask_settled(&self) -> Result<Settled, Transient> {
        let known = self.settled_before();
        let found = self.said_to_be_settled().await?;
        if known != Some(found) {
            let again = self.said_to_be_settled().await?;
            if again.slot < found.slot || again.height < found.height {
                return Err(self.contradiction(format!("settled slot {}, and then {}", found.slot, again.slot)));
            }
        }
        let mut seen = self.0.settled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = *seen
            && (found.slot < before.slot || found.height < before.height)
        {
            let is_overtaken = known.is_none_or(|known| known.slot <= found.slot && known.height <= found.height);
            if is_overtaken || self.0.nodes.has_quorum() {
                // Another caller has seen a later one since this one asked, or one of two nodes lags; what two had settled is
                // settled.
                return Ok(before);
            }
            let what = format!("settled slot {} is below {} seen before", found.slot, before.slot);
            return Err(self.contradiction(what));
        }
        *seen = Some(found);
        Ok(found)
    }

    async fn said_to_be_settled(&self) -> Result<Settled, Transient> {
        let at = json!([{"commitment": Commitment::Finalized.text()}]);
        // The slot is asked for after the height, so the height is never above it.
        let height: u64 = self.request("getBlockHeight", at.clone()).await?;
        let slot: u64 = self.request("getSlot", at).await?;
        if slot < height {
            return Err(self.contradiction(format!("slot {slot} is below its block height {height}")));
        }
        Ok(Settled { slot, height })
    }

    pub(super) fn settled_before(&self) -> Option<Settled> {
        *self.0.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accounts at one slot that is not below `at_least`.
    ///
    /// # Errors
    /// [`Transient`], also when the answer is older than one that was finalized before.
    pub async fn accounts(&self, keys: &[Key], commitment: Commitment, at_least: u64) -> Result<Snapshot, Transient> {
        if keys.len() >= ACCOUNTS_MAX {
            return Err(Transient::misconfigured(format!("{} accounts are more than one answer holds", keys.len())));
        }
        let seen = match commitment {
            Commitment::Confirmed => self.settled_before().map_or(0, |settled| settled.slot),
            Commitment::Finalized => *self.0.finalized_read.lock().unwrap_or_else(PoisonError::into_inner),
        };
        let slot_min = seen.max(at_least);
        let mut names: Vec<String> = keys.iter().map(text).collect();
        names.push(CLOCK_SYSVAR.to_owned());
        let how = json!({"encoding": "base64", "commitment": commitment.text(), "minContextSlot": slot_min});
        let answer: Contextual<Vec<Option<RawAccount>>> =
            self.request("getMultipleAccounts", json!([names, how])).await?;
        let slot = answer.context.slot;
        if slot < slot_min {
            return Err(self.contradiction(format!("accounts of slot {slot}, {slot_min} was asked for")));
        }
        if answer.value.len() != names.len() {
            return Err(self.contradiction(format!("{} accounts for {} names", answer.value.len(), names.len())));
        }
        let mut accounts = Vec::with_capacity(names.len());
        for account in answer.value {
            let account = account.map(RawAccount::read).transpose();
            accounts.push(account.map_err(|what| self.contradiction(what))?);
        }
        let clock = accounts.pop().flatten().filter(|clock| text(&clock.owner) == SYSVAR_OWNER);
        let clock = clock.as_ref().and_then(|clock| read_clock(&clock.data));
        let (clock_slot, time) = clock.ok_or_else(|| self.contradiction("no clock"))?;
        if clock_slot != slot {
            return Err(self.contradiction(format!("accounts of slot {slot} with the clock of {clock_slot}")));
        }
        if commitment == Commitment::Finalized {
            let mut seen = self.0.finalized_read.lock().unwrap_or_else(PoisonError::into_inner);
            *seen = slot.max(*seen);
        }
        Ok(Snapshot { slot, time, accounts })
    }

    /// Whether a finalized transaction is known to have given nothing back from the token account of a deposit address.
    pub(super) fn is_no_return(&self, tokens: &Key, signature: &str) -> bool {
        let known = self.0.no_returns.lock().unwrap_or_else(PoisonError::into_inner);
        known.contains(&(*tokens, signature.to_owned()))
    }

    /// Remembers that it gave nothing back.
    pub(super) fn note_no_return(&self, tokens: Key, signature: String) {
        let mut known = self.0.no_returns.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= NO_RETURNS_MAX {
            known.clear();
        }
        known.insert((tokens, signature));
    }

    /// By which transaction an account was found to be what it is: a hint where to look first.
    pub(super) fn made_by(&self, account: &Key) -> Option<Inclusion> {
        self.0.made_by.lock().unwrap_or_else(PoisonError::into_inner).get(account).cloned()
    }

    /// Remembers by which transaction `account` was found to be what it is; forgets it where there is none.
    pub(super) fn note_made_by(&self, account: Key, transaction: Option<Inclusion>) {
        let mut made_by = self.0.made_by.lock().unwrap_or_else(PoisonError::into_inner);
        if made_by.len() >= MADE_BY_MAX {
            made_by.clear();
        }
        match transaction {
            Some(transaction) => drop(made_by.insert(account, transaction)),
            None => drop(made_by.remove(&account)),
        }
    }

    /// Lamports of an account as the cluster has confirmed them; none where there is no such account. Its data, which may be
    /// long, is not asked for.
    ///
    /// # Errors
    /// [`Transient`], also when the answer is older than one that was finalized before.
    pub async fn lamports(&self, account: &Key) -> Result<u64, Transient> {
        let slot_min = self.settled_before().map_or(0, |settled| settled.slot);
        let how = json!({"commitment": Commitment::Confirmed.text(), "minContextSlot": slot_min});
        let answer: Contextual<u64> = self.request("getBalance", json!([text(account), how])).await?;
        if answer.context.slot < slot_min {
            let slot = answer.context.slot;
            return Err(self.contradiction(format!("a balance of slot {slot}, {slot_min} was asked for")));
        }
        Ok(answer.value)
    }

    /// Returns when the chain has a new slot, or after a bounded time. All callers share one poller.
    pub async fn next_block(&self) {
        let node = Arc::downgrade(&self.0);
        let look = move || {
            let node = node.upgrade().map(Node);
            async move {
                let node = node?;
                let head = node.head().await;
                head.inspect_err(|fault| tracing::debug!(chain_id = %node.chain_id(), %fault, "no newest slot")).ok()
            }
        };
        self.0.poller.next(look).await;
    }
}

/// The data of an instruction as nodes write it; nothing where it is longer than any that is looked into here, which anybody may have
/// brought about: decoding takes time with the square of the length. `None` when it is not Base58, or longer than any instruction.
pub(super) fn instruction_data(text: &str) -> Option<Vec<u8>> {
    if text.len() > DATA_DIGITS_MAX {
        return None;
    }
    if text.len() > OWN_DATA_DIGITS_MAX {
        return Some(Vec::new());
    }
    bs58::decode(text).into_vec().ok()
}

/// Slot and UNIX second of the clock sysvar: slot, start of the epoch, epoch, epoch of the leader schedule, time.
fn read_clock(data: &[u8]) -> Option<(u64, u64)> {
    let number = |at: usize| data.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    if data.len() != 40 {
        return None;
    }
    let time = number(32)?;
    // Signed on chain; a time before 1970 is none.
    i64::try_from(time).ok()?;
    Some((number(0)?, time))
}
