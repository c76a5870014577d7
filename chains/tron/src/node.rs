//! Node: a connection to one Tron chain, and what may be believed of what it says.
//!
//! A node can lag, be on a fork, or be many nodes behind one address that disagree. So a node of another chain is refused,
//! a solidified block counts when two answers have it, and an answer from before a block that was solidified already is a
//! [`Transient`] fault and never a fact. Nodes do not say which block they answered a call by; where that matters, the
//! contract is asked (`recordAsOf`, `fulfilledAsOf`).

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use alloy::{
    primitives::{Address, B256},
    sol_types::SolCall,
};
use tokio::{sync::OnceCell, time::Instant};
use url::{Host, Url};

use chains::{
    block_poller::BlockPoller,
    config::{Depth, TronConfig},
};
use escrow_abi::known_terms::KnownTerms;
use events::{ChainId, Family, failure::BlockchainContext};
use sagas::ports::Transient;

pub use super::query::{AccountResources, Answer, Block, BlockInfos, BroadcastError, Header, Info, Log, Prices, State};
use super::{
    address::text,
    block_logs::BlockLogs,
    query::{Trial, Tried},
    rpc::{ClientError, Rpc},
};

/// Milliseconds from one block to the next, when none is missed.
pub(super) const BLOCK_MS: u64 = 3_000;
/// How far the newest block's time may be ahead of the settled one's, in milliseconds. Blocks settle within some twenty others,
/// a minute; while they do not, nothing is signed.
const AHEAD_MS_MAX: u64 = 5 * 60 * 1_000;

/// For so long the settled block that a log watcher found last is the newest for everybody: it asks at each block.
const SETTLED_KEPT: Duration = Duration::from_millis(BLOCK_MS);

/// The newest settled block and the newest of all, whose times fit together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// The newest settled block.
    pub settled: Block,
    /// The newest block.
    pub head: Block,
}

/// Why a chain's configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The chain is not of the Tron family.
    #[error("{0} is not a Tron chain")]
    Family(ChainId),
    /// The chain id is none.
    #[error("{0} is not a Tron chain id: its reference must have 32 bits")]
    Reference(ChainId),
    /// The endpoint cannot be used.
    #[error("rpc_url of {chain_id} {reason}")]
    Url {
        /// The chain.
        chain_id: ChainId,
        /// What is wrong.
        reason: String,
    },
    /// Only the chain's own finality settles a block.
    #[error("required_depth of {chain_id} must be \"finalized\"")]
    Depth {
        /// The chain.
        chain_id: ChainId,
    },
    /// The HTTP client cannot be built.
    #[error("HTTP client of {chain_id}: {reason}")]
    Client {
        /// The chain.
        chain_id: ChainId,
        /// What is wrong.
        reason: String,
    },
}

/// A connection to one chain; cheap to clone.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

struct Inner {
    config: TronConfig,
    /// The last four bytes of the first block's id.
    reference: u32,
    rpc: Rpc,
    chain_checked: OnceCell<()>,
    settled: Mutex<Option<Block>>,
    known_terms: KnownTerms,
    /// When a log watcher last found the settled block.
    settled_watched: Mutex<Option<Instant>>,
    block_logs: BlockLogs,
    poller: BlockPoller<B256>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Node").field(self.chain_id()).finish()
    }
}

impl Node {
    /// A connection by `config`. Nothing is sent before the first use; then the node is asked for its first block, and
    /// nothing else is asked of a node of another chain.
    ///
    /// # Errors
    /// [`ConnectError`] when the configuration cannot be meant.
    pub fn connect(config: &TronConfig) -> Result<Self, ConnectError> {
        let chain_id = || config.common.chain_id.clone();
        if config.common.chain_id.family() != Some(Family::Tron) {
            return Err(ConnectError::Family(chain_id()));
        }
        let reference = config.common.chain_id.reference().parse().map_err(|_| ConnectError::Reference(chain_id()))?;
        let url = base(&config.common.rpc_url).map_err(|reason| ConnectError::Url { chain_id: chain_id(), reason })?;
        if config.api_key.is_some() && url.scheme() == "http" && !is_loopback(&url) {
            let reason = "must begin with https:// where an api_key goes along".to_owned();
            return Err(ConnectError::Url { chain_id: chain_id(), reason });
        }
        if config.common.required_depth != Depth::Finalized {
            return Err(ConnectError::Depth { chain_id: chain_id() });
        }
        let timeout = Duration::from_millis(config.common.rpc_timeout_ms);
        let rpc = Rpc::new(&url, timeout, config.api_key.as_ref());
        let rpc =
            rpc.map_err(|error: ClientError| ConnectError::Client { chain_id: chain_id(), reason: error.to_string() })?;
        Ok(Self(Arc::new(Inner {
            config: config.clone(),
            reference,
            rpc,
            chain_checked: OnceCell::new(),
            settled: Mutex::new(None),
            known_terms: KnownTerms::default(),
            settled_watched: Mutex::new(None),
            block_logs: BlockLogs::default(),
            poller: BlockPoller::new(config.common.poll_ms),
        })))
    }

    /// The terms of payments in escrow that are known here.
    pub(crate) fn known_terms(&self) -> &KnownTerms {
        &self.0.known_terms
    }

    /// What the configuration says.
    pub fn config(&self) -> &TronConfig {
        &self.0.config
    }

    /// The chain.
    pub fn chain_id(&self) -> &ChainId {
        &self.0.config.common.chain_id
    }

    /// The chain's number, which contracts see as `CHAINID` and signatures bind (EIP-712).
    pub fn reference(&self) -> u32 {
        self.0.reference
    }

    /// Whether the node is of this chain: the last four bytes of its first block's id are the chain id. Everything else
    /// asks this first, once.
    ///
    /// # Errors
    /// [`Transient`]: the node behind the address may be replaced by the right one.
    pub async fn check(&self) -> Result<(), Transient> {
        self.rpc().await.map(drop)
    }

    pub(super) async fn rpc(&self) -> Result<&Rpc, Transient> {
        self.0.chain_checked.get_or_try_init(|| self.check_chain()).await?;
        Ok(&self.0.rpc)
    }

    async fn check_chain(&self) -> Result<(), Transient> {
        let first = self.0.rpc.numbered(0, State::Newest).await?;
        let first = first.ok_or_else(|| self.contradiction("no first block"))?;
        if first.id[28..] == self.0.reference.to_be_bytes() {
            return Ok(());
        }
        tracing::error!(chain_id = %self.chain_id(), first_block = %first.id, "the node is of another chain");
        Err(Transient::misconfigured(format!(
            "the node configured for {} has the first block {}",
            self.chain_id(),
            first.id
        )))
    }

    /// The context of a failure on this chain, with nothing but the place and the reason.
    pub(super) fn refusal(&self, contract: Address, reason: String) -> BlockchainContext {
        BlockchainContext {
            chain_id: self.chain_id().clone(),
            transaction_hash: None,
            block_number: None,
            contract_address: Some(text(contract)),
            revert_reason: Some(reason),
            gas_used: None,
            estimated_gas_needed: None,
        }
    }

    /// A fault that says that the node cannot be believed for now.
    pub(super) fn contradiction(&self, what: impl std::fmt::Display) -> Transient {
        Transient::contradiction(format!("{}: the node lags or contradicts itself: {what}", self.chain_id()))
    }

    /// The newest block.
    ///
    /// # Errors
    /// [`Transient`], also when it lies below a block that was settled before.
    pub async fn head(&self) -> Result<Block, Transient> {
        self.head_header().await.map(|head| head.block)
    }

    /// The newest block's header.
    ///
    /// # Errors
    /// As [`head`](Self::head).
    pub(super) async fn head_header(&self) -> Result<Header, Transient> {
        let header = self.rpc().await?.newest_header(State::Newest).await?;
        let head = header.block;
        match self.settled_before() {
            Some(settled) if head.number < settled.number => {
                Err(self.contradiction(format!("newest block {} is below settled {}", head.number, settled.number)))
            }
            _ => Ok(header),
        }
    }

    /// The newest solidified block.
    ///
    /// One that was not seen before is believed only when a second answer has it, too: a node that errs about its head,
    /// one of several behind the address, would else make a block that can still vanish look settled. Where a log watcher asks
    /// at each block, nobody else need.
    ///
    /// # Errors
    /// [`Transient`], also when it lies below what was seen before, or two answers disagree.
    pub async fn settled(&self) -> Result<Block, Transient> {
        let watched = *self.0.settled_watched.lock().unwrap_or_else(PoisonError::into_inner);
        match self.settled_before().filter(|_| watched.is_some_and(|at| at.elapsed() < SETTLED_KEPT)) {
            // What was settled then is settled now, and whoever concludes from it reads no earlier state.
            Some(settled) => Ok(settled),
            None => self.ask_settled().await,
        }
    }

    /// The newest solidified block, asked for on behalf of everybody.
    ///
    /// # Errors
    /// As [`settled`](Self::settled).
    pub(super) async fn watch_settled(&self) -> Result<Block, Transient> {
        let settled = self.ask_settled().await?;
        *self.0.settled_watched.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(settled)
    }

    async fn ask_settled(&self) -> Result<Block, Transient> {
        let known = self.settled_before();
        let rpc = self.rpc().await?;
        let found = rpc.newest(State::Solidified).await?;
        if known != Some(found) && rpc.numbered(found.number, State::Solidified).await? != Some(found) {
            return Err(self.contradiction(format!("settled block {} is not found again", found.number)));
        }
        let mut seen = self.0.settled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = *seen {
            if found.number < before.number {
                if known.is_none_or(|known| known.number <= found.number) {
                    // Another caller was told of a later one since this one asked.
                    return Ok(before);
                }
                let what = format!("settled block {} is below {} seen before", found.number, before.number);
                return Err(self.contradiction(what));
            }
            let follows = found.number > before.number && found.time_ms > before.time_ms;
            if !follows && found != before {
                return Err(self.contradiction(format!("settled block {} and before {}", found.id, before.id)));
            }
        }
        *seen = Some(found);
        Ok(found)
    }

    /// What a transaction's time is reckoned by. The newest block's time is the word of one node; it is believed only within
    /// [`AHEAD_MS_MAX`] of the settled one's, so that no node can make a transaction hold for days or seem too late.
    ///
    /// # Errors
    /// [`Transient`], also when the two do not fit together.
    pub(super) async fn span(&self) -> Result<Span, Transient> {
        let (settled, head) = (self.settled().await?, self.head().await?);
        let follows = head.number > settled.number
            && head.time_ms > settled.time_ms
            && head.time_ms - settled.time_ms <= AHEAD_MS_MAX;
        if !follows && head != settled {
            let what = format!(
                "newest block {} of {} ms, where {} of {} ms is settled",
                head.number, head.time_ms, settled.number, settled.time_ms
            );
            return Err(self.contradiction(what));
        }
        Ok(Span { settled, head })
    }

    fn settled_before(&self) -> Option<Block> {
        *self.0.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The block of this number; `None` when the node has none.
    ///
    /// # Errors
    /// [`Transient`], also when it is missing though it was settled before.
    pub async fn block(&self, number: u64, state: State) -> Result<Option<Block>, Transient> {
        Ok(self.header(number, state).await?.map(|header| header.block))
    }

    /// The header of the block of this number; `None` when the node has none.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    pub(super) async fn header(&self, number: u64, state: State) -> Result<Option<Header>, Transient> {
        let header = self.rpc().await?.numbered_header(number, state).await?;
        match (self.settled_before(), header.map(|header| header.block)) {
            (Some(settled), None) if number <= settled.number => {
                Err(self.contradiction(format!("no block {number}, though {} is settled", settled.number)))
            }
            (Some(settled), Some(block)) if number == settled.number && block != settled => {
                Err(self.contradiction(format!("block {} where {} is settled", block.id, settled.id)))
            }
            _ => Ok(header),
        }
    }

    /// What a contract answers, in words of its interface; asked by nobody where `from` is absent.
    ///
    /// # Errors
    /// [`Transient`], also when there is no such contract or its answer cannot be read: a node that lags may not have it yet.
    pub async fn call<C: SolCall>(
        &self,
        from: Option<Address>,
        to: Address,
        call: &C,
        state: State,
    ) -> Result<Answer<C::Return>, Transient> {
        let data = call.abi_encode();
        let trial = Trial { from, to, data: &data, value_sun: 0 };
        match self.rpc().await?.constant(&trial, state).await? {
            Tried::Answered(Answer::Returned { value, energy }) => match C::abi_decode_returns(&value) {
                Ok(value) => Ok(Answer::Returned { value, energy }),
                Err(error) => Err(self.contradiction(format!("{} answered {error}", C::SIGNATURE))),
            },
            Tried::Answered(Answer::Reverted { reason, data }) => Ok(Answer::Reverted { reason, data }),
            Tried::Impossible(reason) => {
                Err(Transient::contradiction(format!("{}: {}: {reason}", self.chain_id(), C::SIGNATURE)))
            }
        }
    }

    /// What a transaction would do in the newest state. One that cannot be executed at all counts as reverted.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn trial(
        &self,
        from: Address,
        to: Address,
        data: Vec<u8>,
        value_sun: u64,
    ) -> Result<Answer<Vec<u8>>, Transient> {
        let trial = Trial { from: Some(from), to, data: &data, value_sun };
        Ok(match self.rpc().await?.constant(&trial, State::Newest).await? {
            Tried::Answered(answer) => answer,
            Tried::Impossible(reason) => Answer::Reverted { reason, data: Vec::new() },
        })
    }

    /// What the network asks for energy and bandwidth.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn prices(&self) -> Result<Prices, Transient> {
        Ok(self.rpc().await?.parameters().await?)
    }

    /// What an account can spend on transactions, in the newest state; nothing where there is no such account.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn resources(&self, account: Address) -> Result<AccountResources, Transient> {
        Ok(self.rpc().await?.account_resources(account).await?)
    }

    /// TRX of an account in the newest state, in sun; none where there is no such account.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn balance(&self, account: Address) -> Result<u64, Transient> {
        Ok(self.rpc().await?.balance(account).await?)
    }

    /// What became of a transaction. `None` says only that this answer knows it in no block.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn info(&self, id: B256, state: State) -> Result<Option<Info>, Transient> {
        Ok(self.rpc().await?.transaction_info(id, state).await?)
    }

    /// Whether a transaction waits for a block at the node that answers. `false` says only that this one knows of none.
    ///
    /// # Errors
    /// [`Transient`], also when the node does not offer to tell.
    pub async fn waits(&self, id: B256) -> Result<bool, Transient> {
        Ok(self.rpc().await?.waits(id).await?)
    }

    /// What became of the transactions of a block. What is missing is not disproved: a node without the block answers with
    /// nothing, too.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn infos_of(&self, block: u64, state: State) -> Result<BlockInfos, Transient> {
        Ok(self.rpc().await?.block_infos(block, state).await?)
    }

    /// What a log watcher saw of the newest blocks.
    pub(super) fn block_logs(&self) -> &BlockLogs {
        &self.0.block_logs
    }

    /// Hands a signed transaction to the network. That it is known already is not a fault.
    ///
    /// # Errors
    /// [`BroadcastError`]. Neither kind says what becomes of the transaction.
    pub async fn broadcast(&self, signed: &[u8]) -> Result<(), BroadcastError> {
        self.rpc().await?.send(signed).await
    }

    /// Returns when the chain has a new block, or after a bounded time. All callers share one poller.
    pub async fn next_block(&self) {
        let node = Arc::downgrade(&self.0);
        let look = move || {
            let node = node.upgrade().map(Node);
            async move {
                let node = node?;
                let head = node.head().await;
                let told =
                    head.inspect_err(|fault| tracing::debug!(chain_id = %node.chain_id(), %fault, "no newest block"));
                told.ok().map(|head| head.id)
            }
        };
        self.0.poller.next(look).await;
    }
}

/// Whether nobody on a network can read what is sent there.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The address under which the calls are.
fn base(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error: url::ParseError| format!("is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err("must begin with http:// or https:// and a host".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have no query and no fragment: a key goes into api_key".to_owned());
    }
    let last = url.path().trim_end_matches('/').rsplit('/').next();
    if let Some("wallet" | "walletsolidity" | "jsonrpc") = last {
        return Err(
            "must end before /wallet and /walletsolidity, which both are under it; /jsonrpc is not asked".to_owned()
        );
    }
    Ok(url)
}
