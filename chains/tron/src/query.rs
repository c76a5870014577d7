//! Queries: what nodes are asked, one call each, and how their answers are read. What may be believed of them is
//! [`super::node`]'s.

mod answers;
mod contracts;

use alloy::primitives::{Address, B256};
use answers::{
    RawAccount, RawBlock, RawDetailedBlock, RawInfo, RawListed, RawParameters, RawResources, RawReturn, RawSibling,
    RawWaiting,
};
use serde_json::{Value, json};

use events::{ChainId, event::Inclusion};
use sagas::ports::Transient;

pub(super) use contracts::{ContractCode, Trial, Tried};

use super::{
    address,
    nodes::Nodes,
    rpc::{Fault, shortened},
};

/// How the TVM's result is named when everything went well.
const SUCCESS: &str = "SUCCESS";
/// What a system contract's receipt has, which ran no code.
const DEFAULT: &str = "DEFAULT";
/// How the API marks what failed.
const FAILED: &str = "FAILED";
/// The node has the transaction, or the chain does.
const DUPLICATE: &str = "DUP_TRANSACTION_ERROR";
/// Refusals to take a transaction that say something about the node and nothing about the transaction.
const NOT_NOW: [&str; 5] =
    ["SERVER_BUSY", "NO_CONNECTION", "NOT_ENOUGH_EFFECTIVE_CONNECTION", "BLOCK_UNSOLIDIFIED", "OTHER_ERROR"];
/// Which state is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The newest (`/wallet`); a fork may take it away.
    Newest,
    /// What is solidified (`/walletsolidity`): no fork takes it away.
    Solidified,
}

impl State {
    fn path(self, name: &str) -> String {
        match self {
            Self::Newest => format!("wallet/{name}"),
            Self::Solidified => format!("walletsolidity/{name}"),
        }
    }
}

/// A block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Its number.
    pub number: u64,
    /// Its id, which begins with the number.
    pub id: B256,
    /// The id of the block before.
    pub parent: B256,
    /// Its time, UNIX milliseconds.
    pub time_ms: u64,
}

impl Block {
    /// Its time as contracts see it, UNIX seconds.
    pub(super) fn seconds(&self) -> u64 {
        self.time_ms / 1_000
    }

    /// The number in the last four bytes of its id: the first block's is its chain's.
    pub(super) fn reference(&self) -> u32 {
        self.id[28..].iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
    }

    /// The transaction `id` in this block of `chain_id`.
    pub(super) fn inclusion(&self, chain_id: &ChainId, id: B256) -> Inclusion {
        Inclusion {
            chain_id: chain_id.clone(),
            transaction_hash: id.to_string(),
            block_number: self.number,
            block_hash: self.id.to_string(),
            block_time: self.seconds(),
        }
    }
}

/// A block, and what else its header tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The block.
    pub block: Block,
    /// Whether it has transactions; `false` also where the node does not say.
    pub has_transactions: bool,
}

/// What a call of a contract did that is in no block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    /// It returned.
    Returned {
        /// What it returned.
        value: T,
        /// Energy that it took.
        energy: u64,
    },
    /// The contract refused, or its code failed.
    Reverted {
        /// Why, in words.
        reason: String,
        /// What it returned.
        data: Vec<u8>,
    },
}

/// What became of a transaction in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// The transaction.
    pub id: B256,
    /// Its block's number.
    pub block_number: u64,
    /// Its block's time, UNIX milliseconds.
    pub block_time_ms: u64,
    /// Why it had no effect but its costs; `None` when it had its effect.
    pub failure: Option<String>,
    /// Energy that it took.
    pub energy: u64,
    /// All that was burnt for it, in sun.
    pub fee_sun: u64,
    /// The contract that was called or deployed.
    pub contract: Option<Address>,
    /// What contracts logged, in order; nothing when it failed.
    pub logs: Vec<Log>,
}

/// What became of the transactions of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockInfos {
    /// Those that could be read, in order. Why one failed is told without what its contract returned.
    pub read: Vec<Info>,
    /// How many there are besides.
    pub unread: usize,
}

/// An event of a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Who logged it.
    pub address: Address,
    /// What it is indexed by.
    pub topics: Vec<B256>,
    /// The rest.
    pub data: Vec<u8>,
}

impl From<Log> for alloy::primitives::Log {
    fn from(log: Log) -> Self {
        // How many topics there are says which event it is, and one that no contract can log is none of ours.
        Self::new_unchecked(log.address, log.topics, log.data.into())
    }
}

/// What the network asks for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prices {
    /// Sun for a unit of energy.
    pub energy_sun: u64,
    /// Sun for a byte of bandwidth.
    pub bandwidth_sun: u64,
    /// The highest `fee_limit` that is taken, in sun, when the node says so.
    pub fee_limit_max_sun: Option<u64>,
}

/// What an account can spend on transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountResources {
    /// TRX, in sun.
    pub balance_sun: u64,
    /// Energy from its stake that is left.
    pub energy: u64,
    /// Bytes that are left of its stake's or of the free ones, whichever is more: one transaction takes from one only.
    pub bandwidth: u64,
}

/// Why a node did not take a transaction. It proves nothing about what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BroadcastError {
    /// The node cannot be asked, or not now.
    #[error(transparent)]
    Transient(#[from] Transient),
    /// The node refuses this transaction.
    #[error("{code}: {message}")]
    Refused {
        /// The API's name for the refusal, for example `TAPOS_ERROR`.
        code: String,
        /// The node's words.
        message: String,
    },
}

impl From<Fault> for BroadcastError {
    fn from(fault: Fault) -> Self {
        Self::Transient(fault.into())
    }
}

impl Nodes {
    /// The newest block.
    pub async fn newest(&self, state: State) -> Result<Block, Fault> {
        self.newest_header(state, None).await.map(|header| header.block)
    }

    /// The newest block's header, by nodes that have the block of number `floor`, if there are as many as have to agree.
    pub async fn newest_header(&self, state: State, floor: Option<u64>) -> Result<Header, Fault> {
        let answer: RawBlock = self.read_newest(&state.path("getblock"), floor).await?;
        answer.read_header()?.ok_or_else(|| unreadable("no newest block"))
    }

    /// The block of this number; `None` when the node has none.
    pub async fn numbered(&self, number: u64, state: State) -> Result<Option<Block>, Fault> {
        Ok(self.numbered_header(number, state).await?.map(|header| header.block))
    }

    /// The header of the block of this number; `None` when the node has none.
    pub async fn numbered_header(&self, number: u64, state: State) -> Result<Option<Header>, Fault> {
        let asked = json!({"id_or_num": number.to_string(), "detail": false});
        let header = self.find_header(asked, state).await?;
        match header {
            Some(Header { block, .. }) if block.number != number => {
                Err(unreadable(format!("block {} where {number} was asked for", block.number)))
            }
            header => Ok(header),
        }
    }

    async fn find_header(&self, asked: Value, state: State) -> Result<Option<Header>, Fault> {
        let answer: RawBlock = self.read(&state.path("getblock"), &asked).await?;
        answer.read_header()
    }

    /// What became of a transaction; `None` when it is in no block.
    pub async fn transaction_info(&self, id: B256, state: State) -> Result<Option<Info>, Fault> {
        let asked = json!({"value": hex::encode(id)});
        let answer: RawInfo = self.read(&state.path("gettransactioninfobyid"), &asked).await?;
        if answer.id.is_none() {
            return Ok(None);
        }
        let info = answer.read()?;
        if info.id == id { Ok(Some(info)) } else { Err(unreadable(format!("{} where {id} was asked for", info.id))) }
    }

    /// Whether a transaction waits for a block at the node.
    pub async fn waits(&self, id: B256) -> Result<bool, Fault> {
        let asked = json!({"value": hex::encode(id)});
        let answer: RawWaiting = self.read("wallet/gettransactionfrompending", &asked).await?;
        match answer.id {
            None => Ok(false),
            Some(found) if word(&found) == Some(id) => Ok(true),
            Some(found) => Err(unreadable(format!("{} where {id} was asked for", shortened(&found)))),
        }
    }

    /// What became of the transactions of a block; of none, too, when the node has no such block.
    pub async fn block_infos(&self, number: u64, state: State) -> Result<BlockInfos, Fault> {
        let answer: Vec<RawSibling> =
            self.read(&state.path("gettransactioninfobyblocknum"), &json!({"num": number})).await?;
        let all = answer.len();
        // One transaction in a block must not hide the others.
        let read: Vec<Info> = answer.into_iter().filter_map(|sibling| sibling.0?.read().ok()).collect();
        match read.iter().find(|info| info.block_number != number) {
            Some(other) => Err(unreadable(format!("{} of block {} in {number}", other.id, other.block_number))),
            None => Ok(BlockInfos { unread: all - read.len(), read }),
        }
    }

    /// A block with the ids of its transactions, those first that name `payment` and did not fail; `None` when the node has
    /// none.
    pub async fn transactions_of(
        &self,
        number: u64,
        payment: B256,
        state: State,
    ) -> Result<Option<(Block, Vec<B256>)>, Fault> {
        let asked = json!({"id_or_num": number.to_string(), "detail": true});
        let answer: RawDetailedBlock = self.read(&state.path("getblock"), &asked).await?;
        let Some(block) = (RawBlock { id: answer.id, header: answer.header }).read()? else { return Ok(None) };
        let payment = hex::encode(payment);
        let failed = |one: &RawListed| one.ret.iter().any(|ret| ret.result != SUCCESS);
        let mut listed: Vec<_> = answer
            .transactions
            .into_iter()
            .filter_map(|one| Some(((!one.raw_data.contains(&payment), failed(&one)), word(&one.id)?)))
            .collect();
        listed.sort_by_key(|(rank, _)| *rank);
        Ok(Some((block, listed.into_iter().map(|(_, id)| id).collect())))
    }

    /// What the network asks for.
    pub async fn parameters(&self) -> Result<Prices, Fault> {
        let answer: RawParameters = self.read("wallet/getchainparameters", &json!({})).await?;
        let find = |key| answer.parameters.iter().find(|one| one.key == key).map(|one| one.value);
        let price = |key| find(key).ok_or_else(|| unreadable(format!("no {key}")));
        let positive = |value: i64| u64::try_from(value).map_err(|_| unreadable(format!("the price {value}")));
        Ok(Prices {
            energy_sun: positive(price("getEnergyFee")?)?,
            bandwidth_sun: positive(price("getTransactionFee")?)?,
            fee_limit_max_sun: find("getMaxFeeLimit").map(positive).transpose()?,
        })
    }

    /// TRX of an account, in sun; none when there is no such account.
    pub async fn balance(&self, account: Address) -> Result<u64, Fault> {
        let found: RawAccount = self.read("wallet/getaccount", &of_account(account)).await?;
        if found.address.is_some_and(|address| address::from_api(&address) != Some(account)) {
            return Err(unreadable("another account than was asked for"));
        }
        Ok(found.balance)
    }

    /// What an account has; nothing at all when there is none.
    pub async fn account_resources(&self, account: Address) -> Result<AccountResources, Fault> {
        let balance_sun = self.balance(account).await?;
        let asked = of_account(account);
        let left: RawResources = self.read("wallet/getaccountresource", &asked).await?;
        let staked = left.net_limit.saturating_sub(left.net_used);
        let free = left.free_net_limit.saturating_sub(left.free_net_used);
        Ok(AccountResources {
            balance_sun,
            energy: left.energy_limit.saturating_sub(left.energy_used),
            bandwidth: staked.max(free),
        })
    }

    /// Hands a signed transaction to the network. One that is known already is fine.
    pub async fn send(&self, signed: &[u8]) -> Result<(), BroadcastError> {
        let answer: RawReturn = self.post("wallet/broadcasthex", &json!({"transaction": hex::encode(signed)})).await?;
        let code = answer.code.unwrap_or_default();
        if answer.result || code == DUPLICATE {
            return Ok(());
        }
        let (code, message) = (shortened(&code), shortened(&words(&answer.message)));
        if code.is_empty() || NOT_NOW.contains(&code.as_str()) {
            return Err(Transient::rate_limited(format!("not taken for now: {code}: {message}")).into());
        }
        Err(BroadcastError::Refused { code, message })
    }
}

/// What asks about an account.
fn of_account(account: Address) -> Value {
    json!({"address": address::api(account), "visible": false})
}

fn unreadable(what: impl Into<String>) -> Fault {
    Fault::Unanswered(Transient::contradiction(format!("the node contradicts itself: {}", what.into())))
}

fn unhex(text: &str) -> Result<Vec<u8>, Fault> {
    hex::decode(text).map_err(|_| unreadable("bytes that are not hex"))
}

fn word(text: &str) -> Option<B256> {
    B256::try_from(hex::decode(text).ok()?.as_slice()).ok()
}

/// A node's words, which most calls write in hex and some do not.
fn words(text: &str) -> String {
    let decoded = hex::decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.unwrap_or_else(|| text.to_owned())
}
