//! Connection: what one Tron chain is asked over HTTP, and what may be believed of what is answered.
//!
//! A node can lag, be on a fork, or be many nodes behind one address that disagree. So a node of another chain is refused,
//! a solidified block counts when two answers have it, and an answer from before a block that was solidified already is a
//! [`Transient`] fault and never a fact. Nodes do not say which block they answered a call by; where that matters, the
//! contract is asked (`recordAsOf`, `fulfilledAsOf`).

mod error;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use alloy::{
    primitives::{Address, B256},
    sol_types::SolCall,
};
use tokio::time::Instant;

use chains::{
    config::{ApiKey, NodeConfig},
    nodes::{NodeReport, is_loopback},
};
use events::{ChainId, Family};
use sagas::ports::Transient;

pub use error::ConnectError;

use super::{
    nodes::Nodes,
    query::{AccountResources, Answer, Block, BlockInfos, BroadcastError, Header, Info, Prices, State, Trial, Tried},
    rpc::{Rpc, base},
    transport::{ClientError, Transport},
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
/// A connection to one chain.
pub struct Connection {
    chain_id: ChainId,
    /// The last four bytes of the first block's id.
    reference: u32,
    nodes: Nodes,
    /// The first of them, whatever chain it is of.
    first: Nodes,
    settled: Mutex<Option<Block>>,
    /// When a log watcher last found the settled block.
    settled_watched: Mutex<Option<Instant>>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Connection").field(&self.chain_id).finish()
    }
}

impl Connection {
    /// The chain `chain_id` through the node at `rpc_url`, the address under which `/wallet` and `/walletsolidity` are. Nothing
    /// is sent before the first use; then the node is asked for its first block, and nothing else is asked of a node of another
    /// chain. `timeout` is the longest that one call takes.
    ///
    /// # Errors
    /// [`ConnectError`] when that cannot be meant.
    pub fn new(
        chain_id: &ChainId,
        rpc_url: &str,
        api_key: Option<&ApiKey>,
        timeout: Duration,
    ) -> Result<Self, ConnectError> {
        let node = NodeConfig { api_key: api_key.cloned(), ..NodeConfig::new(rpc_url) };
        Self::through(chain_id, &[node], timeout)
    }

    /// As [`new`](Self::new), through several nodes. Where two are of different origins, what money rests on is what two answer.
    ///
    /// # Errors
    /// [`ConnectError`] when that cannot be meant.
    pub fn through(chain_id: &ChainId, nodes: &[NodeConfig], timeout: Duration) -> Result<Self, ConnectError> {
        let reference = reference(chain_id)?;
        let refused = |reason| ConnectError::Url { chain_id: chain_id.clone(), reason };
        let mut members = Vec::with_capacity(nodes.len());
        for NodeConfig { url: text, weight, api_key } in nodes {
            let url = base(text).map_err(refused)?;
            if api_key.is_some() && url.scheme() == "http" && !is_loopback(&url) {
                return Err(refused("must begin with https:// where an api_key goes along".to_owned()));
            }
            let rpc = Rpc::new(&url, timeout, api_key.as_ref()).map_err(|error: ClientError| ConnectError::Client {
                chain_id: chain_id.clone(),
                reason: error.to_string(),
            })?;
            members.push((Arc::new(rpc), text.clone(), *weight));
        }
        Self::with(chain_id, reference, members)
    }

    /// As [`through`](Self::through), over transports of the caller's own instead of HTTP, each with the name by which messages call
    /// its node and its vote is told from others'.
    ///
    /// # Errors
    /// [`ConnectError`] when that cannot be meant.
    pub fn over(
        chain_id: &ChainId,
        nodes: impl IntoIterator<Item = (String, Arc<dyn Transport>)>,
    ) -> Result<Self, ConnectError> {
        let nodes = nodes.into_iter().map(|(name, transport)| (Arc::new(Rpc::over(name.clone(), transport)), name, 1));
        Self::with(chain_id, reference(chain_id)?, nodes.collect())
    }

    fn with(chain_id: &ChainId, reference: u32, members: Vec<(Arc<Rpc>, String, u32)>) -> Result<Self, ConnectError> {
        let nobody = || ConnectError::Url { chain_id: chain_id.clone(), reason: "must be an address".to_owned() };
        let (first, ..) = members.first().ok_or_else(nobody)?;
        Ok(Self {
            chain_id: chain_id.clone(),
            reference,
            first: Nodes::unchecked(chain_id.clone(), first.clone()),
            nodes: Nodes::new(chain_id, reference, members),
            settled: Mutex::new(None),
            settled_watched: Mutex::new(None),
        })
    }

    /// The chain.
    pub fn chain_id(&self) -> &ChainId {
        &self.chain_id
    }

    /// The chain's number, which contracts see as `CHAINID` and signatures bind (EIP-712).
    pub fn reference(&self) -> u32 {
        self.reference
    }

    /// Whether the nodes are of this chain: the last four bytes of their first block's id are the chain id. Everything else
    /// that a node is asked asks this first, once.
    ///
    /// # Errors
    /// [`Transient`]: the node behind the address may be replaced by the right one.
    pub async fn check(&self) -> Result<(), Transient> {
        Ok(self.nodes.check().await?)
    }

    /// What each node says of itself: whether it is of the chain, its newest block, and how far it lags.
    pub async fn node_reports(&self) -> Vec<NodeReport> {
        self.nodes.reports().await
    }

    pub(super) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The first block of the chain that the first node is of, whichever that is.
    ///
    /// # Errors
    /// [`Transient`].
    pub(super) async fn first_block(&self) -> Result<Block, Transient> {
        let first = self.first.numbered(0, State::Newest).await?;
        first.ok_or_else(|| self.contradiction("no first block"))
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
        let floor = self.settled_before().map(|settled| settled.number);
        let header = self.nodes.newest_header(State::Newest, floor).await?;
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
    /// one of several behind the address, would else make a block that can still vanish look settled. Where several nodes are
    /// configured, two of them have to have it, and one that has not got as far as the chain was before is not heard where two
    /// others have. Where a log watcher asks at each block, nobody else need.
    ///
    /// # Errors
    /// [`Transient`], also when it lies below what was seen before, or two answers disagree.
    pub async fn settled(&self) -> Result<Block, Transient> {
        let watched = *self.settled_watched.lock().unwrap_or_else(PoisonError::into_inner);
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
        *self.settled_watched.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(settled)
    }

    async fn ask_settled(&self) -> Result<Block, Transient> {
        let known = self.settled_before();
        let found = self.nodes.newest_header(State::Solidified, known.map(|known| known.number)).await?.block;
        if known != Some(found) && self.nodes.numbered(found.number, State::Solidified).await? != Some(found) {
            return Err(self.contradiction(format!("settled block {} is not found again", found.number)));
        }
        let mut seen = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
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
        *self.settled.lock().unwrap_or_else(PoisonError::into_inner)
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
        let header = self.nodes.numbered_header(number, state).await?;
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
        match self.nodes.constant(&trial, state).await? {
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
        Ok(match self.nodes.constant(&trial, State::Newest).await? {
            Tried::Answered(answer) => answer,
            Tried::Impossible(reason) => Answer::Reverted { reason, data: Vec::new() },
        })
    }

    /// What the network asks for energy and bandwidth.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn prices(&self) -> Result<Prices, Transient> {
        Ok(self.nodes.parameters().await?)
    }

    /// What an account can spend on transactions, in the newest state; nothing where there is no such account.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn resources(&self, account: Address) -> Result<AccountResources, Transient> {
        Ok(self.nodes.account_resources(account).await?)
    }

    /// TRX of an account in the newest state, in sun; none where there is no such account.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn balance(&self, account: Address) -> Result<u64, Transient> {
        Ok(self.nodes.balance(account).await?)
    }

    /// What became of a transaction. `None` says only that this answer knows it in no block.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn info(&self, id: B256, state: State) -> Result<Option<Info>, Transient> {
        Ok(self.nodes.transaction_info(id, state).await?)
    }

    /// Whether a transaction waits for a block at the node that answers. `false` says only that this one knows of none.
    ///
    /// # Errors
    /// [`Transient`], also when the node does not offer to tell.
    pub async fn waits(&self, id: B256) -> Result<bool, Transient> {
        Ok(self.nodes.waits(id).await?)
    }

    /// What became of the transactions of a block. What is missing is not disproved: a node without the block answers with
    /// nothing, too.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn infos_of(&self, block: u64, state: State) -> Result<BlockInfos, Transient> {
        Ok(self.nodes.block_infos(block, state).await?)
    }

    /// Hands a signed transaction to the network. That it is known already is not a fault.
    ///
    /// # Errors
    /// [`BroadcastError`]. Neither kind says what becomes of the transaction.
    pub async fn broadcast(&self, signed: &[u8]) -> Result<(), BroadcastError> {
        self.nodes.send(signed).await
    }
}

/// The number of a chain of this family.
fn reference(chain_id: &ChainId) -> Result<u32, ConnectError> {
    if chain_id.family() != Some(Family::Tron) {
        return Err(ConnectError::Family(chain_id.clone()));
    }
    chain_id.reference().parse().map_err(|_| ConnectError::Reference(chain_id.clone()))
}
