//! Node: a connection to one EVM chain, and what may be believed of what it says.
//!
//! A node can lag, be on a fork, or be many nodes behind one address that disagree. So whatever leads to a conclusion is
//! read at one block named by its hash; a node of another chain is refused; a settled block that falls behind one seen
//! before, or a log from a block that is not canonical, is a [`Transient`] fault and never a fact.

mod header_cache;
mod several;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use alloy::{
    primitives::{Address, B256, U64, U256},
    rpc::client::RpcClient,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use url::Url;

use chains::{
    block_poller::BlockPoller,
    config::{Depth, EvmConfig, NodeConfig},
    head_feed::{Dialect, HeadFeed, WsUrl},
    nodes::{Pool, Settings},
};
use escrow_abi::{
    contracts::{ConvertError, address},
    known_terms::KnownTerms,
};
use events::{ChainId, event::Inclusion, mutant};
use sagas::ports::Transient;

use self::header_cache::HeaderCache;
use super::{
    questions::{self, Answer, LAG_BLOCKS_MAX, Member, Question},
    rpc::{Fault, Rpc},
};

/// Below the block that is concluded from, so many blocks are followed from child to parent.
const DESCENT_BLOCKS: u64 = 64;

/// Why a chain's configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The chain is not of the EVM family.
    #[error("{0} is not an EVM chain")]
    Family(ChainId),
    /// The endpoint is not a URL.
    #[error("rpc_url of {chain_id} is not a URL: {reason}")]
    Url {
        /// The chain.
        chain_id: ChainId,
        /// What is wrong.
        reason: String,
    },
    /// Permit2 is an account of another family.
    #[error("permit2 of {chain_id}: {error}")]
    Permit2 {
        /// The chain.
        chain_id: ChainId,
        /// What is wrong.
        error: ConvertError,
    },
    /// The HTTP client cannot be built.
    #[error("HTTP client: {0}")]
    Client(String),
}

/// A block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRef {
    /// Its number.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
    /// Its own time, UNIX seconds.
    pub time: u64,
}

/// The state at which something is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Whatever the node has newest; for simulation only.
    Latest,
    /// The state that the node would reach with the transactions it knows; for nonces only.
    Pending,
    /// One canonical block.
    Block(BlockRef),
}

impl At {
    /// The parameter of JSON-RPC calls (EIP-1898).
    pub(crate) fn parameter(self) -> Value {
        match self {
            Self::Latest => "latest".into(),
            Self::Pending => "pending".into(),
            Self::Block(block) => json!({"blockHash": block.hash, "requireCanonical": true}),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    number: Option<U64>,
    hash: Option<B256>,
    parent_hash: B256,
    timestamp: U64,
    base_fee_per_gas: Option<U256>,
    gas_limit: Option<U64>,
}

/// A connection to one chain; cheap to clone.
#[derive(Debug, Clone)]
pub struct Node(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: EvmConfig,
    evm_id: u64,
    permit2: Address,
    nodes: Pool<Member>,
    settled: Mutex<Option<BlockRef>>,
    header_cache: Mutex<HeaderCache>,
    known_terms: KnownTerms,
    searching: tokio::sync::Mutex<()>,
    /// Whether the chain's own escrow was seen to have no reassignments.
    lacks_reassignments: AtomicBool,
    poller: BlockPoller<BlockRef>,
    head_feed: Option<HeadFeed>,
}

impl Node {
    /// A connection by `config`. Nothing is sent before the first use; then the node is asked for its chain id, and
    /// nothing else is asked of a node of another chain.
    ///
    /// # Errors
    /// [`ConnectError`] when the configuration cannot be meant.
    pub fn connect(config: &EvmConfig) -> Result<Self, ConnectError> {
        let mut nodes = Vec::new();
        for NodeConfig { url, weight, .. } in config.common.nodes() {
            let parsed: Url = url.parse().map_err(|error: url::ParseError| ConnectError::Url {
                chain_id: config.common.chain_id.clone(),
                reason: error.to_string(),
            })?;
            let rpc = Rpc::new(parsed, Duration::from_millis(config.common.rpc_timeout_ms))
                .map_err(|error| ConnectError::Client(error.to_string()))?;
            nodes.push((rpc, url, weight));
        }
        Self::with(config, nodes, true)
    }

    /// As [`Node::connect`], over a transport of the caller's own instead of HTTP. The transport limits the time of a
    /// call; `rpc_url` is only what messages call the node.
    ///
    /// # Errors
    /// [`ConnectError`] when the configuration cannot be meant.
    pub fn over(config: &EvmConfig, client: RpcClient) -> Result<Self, ConnectError> {
        Self::over_all(config, [(config.common.rpc_url.clone(), client)])
    }

    /// As [`Node::over`], over several nodes, each with the name by which its vote is told from others'. There is no clock:
    /// nothing is hedged and no node rests.
    ///
    /// # Errors
    /// [`ConnectError`] when the configuration cannot be meant.
    pub fn over_all(
        config: &EvmConfig,
        nodes: impl IntoIterator<Item = (String, RpcClient)>,
    ) -> Result<Self, ConnectError> {
        let nodes = nodes.into_iter().map(|(name, client)| (Rpc::over(client, name.clone()), name, 1));
        Self::with(config, nodes.collect(), false)
    }

    fn with(config: &EvmConfig, nodes: Vec<(Rpc, String, u32)>, has_clock: bool) -> Result<Self, ConnectError> {
        let chain_id = config.common.chain_id.clone();
        let evm_id = chain_id.evm_id().ok_or_else(|| ConnectError::Family(chain_id.clone()))?;
        let permit2 = address(&config.permit2).map_err(|error| {
            let chain_id = chain_id.clone();
            ConnectError::Permit2 { chain_id, error }
        })?;
        let settings = Settings { chain_id: chain_id.clone(), lag_blocks_max: LAG_BLOCKS_MAX, has_clock };
        let nodes = nodes.into_iter().map(|(rpc, url, weight)| {
            let member = Member { rpc, chain_id: chain_id.clone(), evm_id };
            (member, url, weight)
        });
        let feed = |url: WsUrl| HeadFeed::new(chain_id.clone(), url, Dialect::Evm);
        let head_feed = config.common.ws_url.clone().map(feed);
        Ok(Self(Arc::new(Inner {
            config: config.clone(),
            evm_id,
            permit2,
            nodes: Pool::new(settings, nodes),
            settled: Mutex::new(None),
            header_cache: Mutex::default(),
            known_terms: KnownTerms::default(),
            searching: tokio::sync::Mutex::default(),
            lacks_reassignments: AtomicBool::default(),
            poller: BlockPoller::new(config.common.poll_ms).hinted(head_feed.clone()),
            head_feed,
        })))
    }

    /// What the configuration says.
    pub fn config(&self) -> &EvmConfig {
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

    /// Its EIP-155 id.
    pub fn evm_id(&self) -> u64 {
        self.0.evm_id
    }

    /// Uniswap's Permit2 on the chain.
    pub fn permit2(&self) -> Address {
        self.0.permit2
    }

    /// The terms of payments in escrow that are known here.
    pub(crate) fn known_terms(&self) -> &KnownTerms {
        &self.0.known_terms
    }

    /// Whether the chain's own escrow is known to be of a version before there were reassignments.
    pub(crate) fn lacks_reassignments(&self) -> bool {
        self.0.lacks_reassignments.load(Ordering::Relaxed)
    }

    /// Notes whether it is one; whether that is another word than before.
    pub(crate) fn note_reassignments(&self, lacks: bool) -> bool {
        self.0.lacks_reassignments.swap(lacks, Ordering::Relaxed) != lacks
    }

    /// The turn of a search through many blocks: there is one at a time.
    pub(crate) async fn searching(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.searching.lock().await
    }

    /// What the nodes answer to `method`, once each has said that it is of this chain. Where two nodes are configured, what
    /// money rests on is what two answer.
    pub(crate) async fn request<P: Serialize, R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: P,
    ) -> Result<R, Fault> {
        let question = Question { method, params: vec![written(&params)?] };
        let answer = questions::put(&self.0.nodes, &question).await?;
        let only = answer.into_iter().next();
        self.read(method, only.unwrap_or_else(|| Err(Fault::Unanswered(self.contradiction("an answer to nothing")))))
    }

    /// As [`Node::request`] for each of `params`, in one request where the node takes that.
    pub(crate) async fn request_all<P: Serialize, R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &[P],
    ) -> Vec<Result<R, Fault>> {
        let all = || params.iter();
        let written = match all().map(written).collect::<Result<Vec<_>, _>>() {
            Ok(written) if !written.is_empty() => written,
            Ok(_) => return Vec::new(),
            Err(fault) => return all().map(|_| Err(fault.clone())).collect(),
        };
        match questions::put(&self.0.nodes, &Question { method, params: written }).await {
            Ok(answers) => answers.into_iter().map(|answer| self.read(method, answer)).collect(),
            Err(fault) => all().map(|_| Err(fault.clone())).collect(),
        }
    }

    fn read<R: DeserializeOwned>(&self, method: &str, answer: Result<Value, Fault>) -> Result<R, Fault> {
        serde_json::from_value(answer?).map_err(|error| {
            let text = format!("{}: {method}: unreadable answer: {error}", self.chain_id());
            Fault::Unanswered(Transient::unreachable(text))
        })
    }

    /// Whether what is asked is of this chain, by its EIP-155 id, whatever was said before.
    pub(crate) async fn is_of_its_chain(&self) -> Result<bool, Transient> {
        match self.request::<_, U64>("eth_chainId", ()).await.map_err(Transient::from) {
            Ok(found) => Ok(found.to::<u64>() == self.evm_id()),
            Err(fault) if fault.is_misconfigured() => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    pub(crate) async fn header(&self, block: Value) -> Result<Option<(BlockRef, Option<U256>)>, Transient> {
        let header: Option<Header> = match block.as_str() {
            Some("latest") if self.has_quorum() => self.lowest("latest").await?,
            Some("finalized") if self.has_quorum() => self.lowest("finalized").await?,
            _ => self.request("eth_getBlockByNumber", (block, false)).await?,
        };
        let Some(header) = header else { return Ok(None) };
        Ok(Some((self.block_of(&header)?, header.base_fee_per_gas)))
    }

    /// Whether two nodes have to agree.
    fn has_quorum(&self) -> bool {
        self.0.nodes.quorum() > 1
    }

    fn block_of(&self, header: &Header) -> Result<BlockRef, Transient> {
        let (Some(number), Some(hash)) = (header.number, header.hash) else {
            return Err(self.contradiction("a block without number or hash"));
        };
        Ok(BlockRef { number: number.to(), hash, time: header.timestamp.to() })
    }

    /// Base fee of the newest block, if it has one, and the gas that it had room for.
    pub(crate) async fn newest_gas(&self) -> Result<(Option<U256>, u64), Transient> {
        let header: Option<Header> = self.request("eth_getBlockByNumber", ("latest", false)).await?;
        let header = header.ok_or_else(|| self.contradiction("no newest block"))?;
        // A node that does not say leaves it to the configured limits.
        Ok((header.base_fee_per_gas, header.gas_limit.map_or(u64::MAX, |gas| gas.to())))
    }

    /// A fault that says that the node cannot be believed for now.
    pub(crate) fn contradiction(&self, what: impl std::fmt::Display) -> Transient {
        Transient::contradiction(format!("{}: the node lags or contradicts itself: {what}", self.chain_id()))
    }

    /// The newest block.
    ///
    /// # Errors
    /// [`Transient`], also when it lies below a block that was settled before.
    pub async fn head(&self) -> Result<BlockRef, Transient> {
        let head = self.header("latest".into()).await?;
        let (head, _) = head.ok_or_else(|| self.contradiction("no newest block"))?;
        match self.settled_before() {
            Some(settled) if head.number < settled.number => {
                Err(self.contradiction(format!("newest block {} is below settled {}", head.number, settled.number)))
            }
            _ => Ok(head),
        }
    }

    /// The canonical block `number`, or `None` when the node has none.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn block(&self, number: u64) -> Result<Option<BlockRef>, Transient> {
        let Some((block, _)) = self.header(json!(U64::from(number))).await? else { return Ok(None) };
        if block.number != number {
            return Err(self.contradiction(format!("asked for block {number}, got {}", block.number)));
        }
        Ok(Some(block))
    }

    /// The newest block of the depth that the configuration requires.
    ///
    /// One that was not seen before is believed only when a second answer reaches it, too: a node that errs about its
    /// head, one of several behind the address, would else make a block that can still vanish look settled. A block
    /// below the head is found by its descendants and not by its number, which a node on another branch would answer
    /// with a block of that branch. Where there are several nodes, the second answer is another node's.
    ///
    /// # Errors
    /// [`Transient`], also when it lies below one seen before, a finalized block changed, or two answers disagree.
    pub async fn settled(&self) -> Result<BlockRef, Transient> {
        let known = self.settled_before();
        let block = match self.has_quorum() {
            true => self.settled_by_several(known).await?,
            false => self.said_to_be_settled().await?,
        };
        if known != Some(block) && !self.has_quorum() && !mutant!("one-answer-settles") {
            let again = self.said_to_be_settled().await?;
            if again.number < block.number {
                let what = format!("settled block {}, and then {}", block.number, again.number);
                return Err(self.contradiction(what));
            }
            if again != block && self.ancestor(again, block.number).await? != block {
                let what = format!("settled block {} is not below {}, which is settled, too", block.hash, again.hash);
                return Err(self.contradiction(what));
            }
        }
        let mut seen = self.0.settled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = *seen {
            let is_overtaken = known.is_none_or(|known| known.number <= block.number);
            if block.number < before.number && (is_overtaken || self.has_quorum()) {
                // Another caller was told of a later one since this one asked, or one of two nodes lags; what two had settled
                // is settled.
                return Ok(before);
            }
            if block.number < before.number {
                let what = format!("settled block {} is below {} seen before", block.number, before.number);
                return Err(self.contradiction(what));
            }
            let final_changed = self.0.config.common.required_depth == Depth::Finalized
                && block.number == before.number
                && block.hash != before.hash;
            if final_changed {
                return Err(self.contradiction(format!("finalized block {} changed its hash", block.number)));
            }
        }
        *seen = Some(block);
        Ok(block)
    }

    async fn said_to_be_settled(&self) -> Result<BlockRef, Transient> {
        let block = match self.0.config.common.required_depth {
            _ if mutant!("newest-is-settled") => Some(self.head().await?),
            Depth::Finalized => self.header("finalized".into()).await?.map(|(block, _)| block),
            Depth::Confirmations(blocks) => {
                let head = self.head().await?;
                Some(self.ancestor(head, head.number.saturating_sub(blocks)).await?)
            }
        };
        block.ok_or_else(|| self.contradiction("no settled block"))
    }

    /// The block `number` on the branch that ends in `block`, found from child to parent.
    ///
    /// # Errors
    /// [`Transient`], also when the node does not have one of the blocks between.
    pub(crate) async fn ancestor(&self, block: BlockRef, number: u64) -> Result<BlockRef, Transient> {
        let mut at = block;
        while at.number > number {
            let (_, parent) = self.header_by_hash(at.number, at.hash).await?;
            (at, _) = self.header_by_hash(at.number - 1, parent).await?;
        }
        Ok(at)
    }

    /// A block and the hash of its parent. They never change, so what was answered is kept, within a bound.
    async fn header_by_hash(&self, number: u64, hash: B256) -> Result<(BlockRef, B256), Transient> {
        if let Some(known) = self.header_cache().get(number, hash) {
            return Ok(known);
        }
        let header: Option<Header> = self.request("eth_getBlockByHash", (hash, false)).await?;
        let header = header.filter(|header| header.hash == Some(hash) && header.number == Some(U64::from(number)));
        let header = header.ok_or_else(|| self.contradiction(format!("no block {number} {hash}")))?;
        let found = (BlockRef { number, hash, time: header.timestamp.to() }, header.parent_hash);
        self.header_cache().insert(found.0, found.1);
        Ok(found)
    }

    fn header_cache(&self) -> MutexGuard<'_, HeaderCache> {
        // A panic while it is held leaves at worst a block that is asked for again.
        self.0.header_cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settled_before(&self) -> Option<BlockRef> {
        *self.0.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The canonical block that holds `block_number` and `block_hash`, not above `limit`.
    ///
    /// # Errors
    /// [`Transient`] when that block is not canonical.
    pub(crate) async fn canonical(&self, number: u64, hash: B256) -> Result<BlockRef, Transient> {
        match self.block(number).await? {
            Some(block) if block.hash == hash => Ok(block),
            _ => Err(self.contradiction(format!("block {number} {hash} is not canonical"))),
        }
    }

    /// The block with this number and hash, on the branch of `up_to` and not above it.
    ///
    /// One of several nodes behind the address may still be on a branch that was left, and the event may be there, too, in
    /// another block of the same number. So the block is found by its descendants. One that is too far below for that is
    /// asked for on either side of `up_to`, which a node that answers several times in a row from such a branch does not
    /// have.
    ///
    /// # Errors
    /// [`Transient`], also when that block is on another branch.
    pub(crate) async fn below(&self, number: u64, hash: B256, up_to: BlockRef) -> Result<BlockRef, Transient> {
        if up_to.number.saturating_sub(number) <= DESCENT_BLOCKS {
            let block = self.ancestor(up_to, number).await?;
            let what = || format!("block {number} below {} is {}, not {hash}", up_to.hash, block.hash);
            return if hash == block.hash { Ok(block) } else { Err(self.contradiction(what())) };
        }
        self.canonical(number, hash).await?;
        self.canonical(up_to.number, up_to.hash).await?;
        self.canonical(number, hash).await
    }

    /// `transaction` in `block`.
    pub(crate) fn inclusion(&self, transaction: B256, block: BlockRef) -> Inclusion {
        Inclusion {
            chain_id: self.chain_id().clone(),
            transaction_hash: transaction.to_string(),
            block_number: block.number,
            block_hash: block.hash.to_string(),
            block_time: block.time,
        }
    }

    /// Returns when the chain has a new block, or after a bounded time. All who wait at this node share one poller; who
    /// waits at a log watcher over it has that one's.
    pub async fn next_block(&self) {
        let node = Arc::downgrade(&self.0);
        let look = move || {
            let node = node.upgrade().map(Node);
            async move { node?.polled_head().await }
        };
        self.0.poller.next(look).await;
    }

    /// The newest block for a poller, which looks again where there is none.
    pub(crate) async fn polled_head(&self) -> Option<BlockRef> {
        let head = self.head().await;
        head.inspect_err(|fault| tracing::debug!(chain_id = %self.chain_id(), %fault, "no newest block")).ok()
    }
}

/// Parameters as they are sent; none is an empty list.
fn written<P: Serialize>(params: &P) -> Result<Value, Fault> {
    match serde_json::to_value(params) {
        Ok(Value::Null) => Ok(json!([])),
        Ok(params) => Ok(params),
        Err(error) => Err(Fault::Unanswered(Transient::misconfigured(format!("a request cannot be written: {error}")))),
    }
}
