//! A node within this process: the same chain behind the same API, without a socket, with a clock that its owner sets.

use std::sync::{Arc, Mutex, MutexGuard};

use revm::primitives::{Log, U256};

use crate::{
    Address, Options, Refusal, StartError,
    chain::{Block, Chain, ChainView, Clock, DevelopmentError, Ending, Included, deployed_at},
    http,
    transaction::{Call, Transaction, TxId},
};

/// The answer of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// JSON.
    pub body: Vec<u8>,
}

/// A block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRef {
    /// Its number.
    pub number: u64,
    /// Its id.
    pub id: [u8; 32],
    /// Its time, milliseconds since 1970.
    pub time_ms: i64,
}

/// A transaction in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its id.
    pub id: TxId,
    /// Who signed it and pays.
    pub owner: Address,
    /// The contract that it calls, and with what; nothing where it does another thing.
    pub call: Option<(Address, Vec<u8>)>,
    /// Its result as the protocol names it, for example `OUT_OF_ENERGY`.
    pub result: &'static str,
    /// What contracts logged, in order.
    pub logs: Vec<Log>,
    /// All that was burnt for it, in sun.
    pub fee_sun: u64,
}

/// How a call ended that is in no block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run {
    /// It returned this.
    Returned(Vec<u8>),
    /// It was reverted with this.
    Reverted(Vec<u8>),
    /// Its code failed, in words.
    Failed(String),
}

/// A node in this process. Nothing happens by itself: its owner sets the clock and makes the blocks, and the same calls in the same
/// order give the same chain. A clone is another node that has seen the same; it shares what neither changes.
///
/// ```
/// use trondev::{LocalNode, Options};
///
/// let mut node = LocalNode::new(Options::default(), 1_800_000_000_000)?;
/// node.mine(1_800_000_003_000)?;
/// let reply = node.answer("wallet/getblock", br#"{"detail":false}"#);
/// assert_eq!((reply.status, node.head().number), (200, 1));
/// # Ok::<(), trondev::StartError>(())
/// ```
#[derive(Debug)]
pub struct LocalNode(http::Shared);

impl Clone for LocalNode {
    fn clone(&self) -> Self {
        Self::over(http::lock(&self.0).clone())
    }
}

impl LocalNode {
    /// A chain with its first block, of the time `time_ms`. Nothing listens, and what [`Options`] say of that is not heard.
    ///
    /// # Errors
    /// When the accounts are given more sun than there can be.
    pub fn new(options: Options, time_ms: i64) -> Result<Self, StartError> {
        Chain::new(options, Clock::Set(time_ms)).map(Self::over)
    }

    fn over(chain: Chain) -> Self {
        Self(Arc::new(Mutex::new(chain)))
    }

    fn chain(&self) -> MutexGuard<'_, Chain> {
        http::lock(&self.0)
    }

    /// The answer to `body` that is posted to `path`, for example `wallet/getblock`.
    pub fn answer(&self, path: &str, body: &[u8]) -> Reply {
        let (status, body) = http::posted(&self.0, path, body);
        Reply { status: status.as_u16(), body: body.to_string().into_bytes() }
    }

    /// Sets the clock, milliseconds since 1970, to any time.
    pub fn set_time(&mut self, time_ms: i64) {
        self.chain().show_time(time_ms);
    }

    /// Makes a block of all that waits, of the time `time_ms` or, where the head is as late, just after it.
    ///
    /// # Errors
    /// When the block cannot be signed.
    pub fn mine(&mut self, time_ms: i64) -> Result<BlockRef, Refusal> {
        let mut chain = self.chain();
        chain.show_time(time_ms);
        chain.mine()?;
        Ok(reference(chain.head()))
    }

    /// As [`mine`](Self::mine), of those of what waits that have these ids, in this order.
    ///
    /// # Errors
    /// When the block cannot be signed.
    pub fn mine_chosen(&mut self, time_ms: i64, chosen: &[TxId]) -> Result<BlockRef, Refusal> {
        let mut chain = self.chain();
        chain.show_time(time_ms);
        chain.mine_chosen(chosen)?;
        Ok(reference(chain.head()))
    }

    /// Takes the last `blocks` away, at most those that are not solidified; whether they are away. Their transactions wait again,
    /// or are forgotten.
    pub fn fork(&mut self, blocks: u64, are_forgotten: bool) -> bool {
        self.chain().fork(blocks, are_forgotten).is_ok()
    }

    /// Gives `sun` to an account, in every block that is not yet solidified, too; whether there can be as much.
    pub fn fund(&mut self, account: Address, sun: u64) -> bool {
        !matches!(self.chain().fund(account, sun), Err(DevelopmentError::TooMuch))
    }

    /// Takes all sun from an account, in every block that is not yet solidified, too; what it had in the newest.
    pub fn drain(&mut self, account: Address) -> u64 {
        self.chain().drain(account)
    }

    /// Sets the price of energy from the next block on, in sun.
    pub fn set_energy_price(&mut self, sun: u64) {
        self.chain().set_energy_price(sun);
    }

    /// Sets how many blocks the solidified one is behind the head from the next block on. What is solidified stays so.
    pub fn set_solidified_lag(&mut self, blocks: u64) {
        self.chain().set_solidified_lag(blocks);
    }

    /// Whether questions about the head are answered after all that waits, as Tron's nodes do.
    pub fn show_pending(&mut self, are_shown: bool) {
        self.chain().show_pending(are_shown);
    }

    /// Takes a transaction that waits for the next block from now on.
    ///
    /// # Errors
    /// When the network would refuse it.
    pub fn broadcast(&mut self, transaction: Transaction) -> Result<TxId, Refusal> {
        self.chain().broadcast(transaction)
    }

    /// Takes the deployment of `code`, creation code with the constructor's arguments; where the contract is once a block has it.
    /// `sign` signs a transaction's id with the owner's key.
    ///
    /// # Errors
    /// When the network would refuse it.
    pub fn deploy(
        &mut self,
        owner: Address,
        name: &str,
        code: Vec<u8>,
        sign: impl FnOnce(&[u8; 32]) -> [u8; 65],
    ) -> Result<Address, Refusal> {
        let mut chain = self.chain();
        let mut transaction = http::deployment(&chain, owner, name, code)?;
        transaction.signatures.push(sign(&transaction.id.0).to_vec());
        chain.broadcast(transaction).map(|id| deployed_at(id, owner))
    }

    /// Forgets a transaction that waits; whether it did.
    pub fn forget(&mut self, id: TxId) -> bool {
        self.chain().drop_one(id)
    }

    /// What waits for a block, the oldest first.
    pub fn pending(&self) -> Vec<Transaction> {
        self.chain().pending().iter().map(|transaction| Transaction::clone(transaction)).collect()
    }

    /// The newest block.
    pub fn head(&self) -> BlockRef {
        reference(self.chain().head())
    }

    /// The newest solidified block.
    pub fn solidified(&self) -> BlockRef {
        reference(self.chain().newest(ChainView::Solidified))
    }

    /// The transactions of the block at a height, in order; none where there is no such block.
    pub fn transactions(&self, number: u64) -> Vec<Held> {
        let block = self.chain().by_number(ChainView::Head, number).cloned();
        block.iter().flat_map(|block| &block.transactions).map(held).collect()
    }

    /// The block at a height.
    pub fn block(&self, number: u64) -> Option<BlockRef> {
        self.chain().by_number(ChainView::Head, number).map(|block| reference(block))
    }

    /// Sun of an account in the newest block.
    pub fn balance(&self, account: Address) -> u64 {
        self.chain().state(ChainView::Head).get(account).map_or(0, |account| account.balance)
    }

    /// A word of a contract's storage after the newest block.
    pub fn stored(&self, contract: Address, slot: U256) -> U256 {
        let chain = self.chain();
        let account = chain.state(ChainView::Head).get(contract);
        account.and_then(|account| account.storage.get(&slot)).copied().unwrap_or_default()
    }

    /// What a call would do after the newest block, without what waits.
    ///
    /// # Errors
    /// When there is no such contract.
    pub fn run(&self, caller: Address, contract: Address, data: &[u8]) -> Result<Run, Refusal> {
        let call = self.chain().call_in_blocks(ChainView::Head);
        let answer = call.ask(TxId([0; 32]), caller, Some(contract), 0, data)?;
        Ok(match answer.ending {
            Ending::Success => Run::Returned(answer.output),
            Ending::Revert => Run::Reverted(answer.output),
            Ending::Halt(_, words) => Run::Failed(words),
        })
    }
}

fn reference(block: &Block) -> BlockRef {
    BlockRef { number: block.number(), id: block.id.0, time_ms: block.time() }
}

fn held(included: &Included) -> Held {
    let transaction = &included.transaction;
    let call = match &transaction.call {
        Call::Trigger { contract, data, .. } => Some((*contract, data.clone())),
        Call::Transfer { .. } | Call::Create { .. } => None,
    };
    let outcome = &included.outcome;
    Held {
        id: transaction.id,
        owner: transaction.owner,
        call,
        result: outcome.result,
        logs: outcome.logs.clone(),
        fee_sun: outcome.fee,
    }
}
