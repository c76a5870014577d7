//! Transaction status: what became of the gateway's transactions.
//!
//! A transaction of Tron has one id and can be in one block. It is not in a block whose parent's time has reached its
//! expiration. So once a solidified block's time has reached it, what the state of that block does not show will never come.

use alloy::primitives::B256;

use events::{
    event::{Inclusion, TransactionPrepared},
    mutant,
};
use sagas::ports::{TransactionState, Transient};

use super::node::{Block, Connection, Info, Node, State};

/// What the chain shows of a transaction.
pub(super) struct Sight {
    /// The newest solidified block. Whatever landed in time at this block is in the state that was read.
    pub settled: Block,
    /// What became of it in a block, which need not be solidified.
    pub info: Option<Info>,
    /// Whether no later block can have it. Together with no `info`, it is in none.
    pub is_over: bool,
}

impl Sight {
    /// Looks for the transaction `id`, which can land until `expiration_ms`.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn of(connection: &Connection, id: B256, expiration_ms: u64) -> Result<Self, Transient> {
        // Asked for first: whatever landed in time is in the state that is read then.
        let settled = connection.settled().await?;
        let mut info = connection.info(id, State::Newest).await?;
        let is_over = settled.time_ms >= expiration_ms;
        if info.is_none() && is_over {
            // One of several nodes may lag, so that it is nowhere is believed when it was said twice.
            for _ in 0..2 {
                info = match info {
                    None => connection.info(id, State::Solidified).await?,
                    found => found,
                };
            }
        }
        Ok(Self { settled, info, is_over })
    }
}

/// What the solidified state proves about a transaction.
pub(super) enum TransactionStatus {
    /// Nothing yet.
    Open,
    /// It is in a solidified block and had its effect.
    Landed(Info),
    /// It is in a solidified block and failed.
    Failed { evidence: String },
    /// A solidified block's time has reached its expiration, and it is in no block.
    Lost { evidence: String },
}

/// The prepared transactions on one chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transactions<'a> {
    node: &'a Node,
}

impl<'a> Transactions<'a> {
    /// The transactions on the chain of `node`.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// Where a prepared transaction, of whose `versions` any may have landed, stands by itself.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn state(&self, versions: &[TransactionPrepared]) -> Result<TransactionState, Transient> {
        let settled = self.node.settled().await?;
        match self.status(versions, &settled).await? {
            TransactionStatus::Failed { evidence } | TransactionStatus::Lost { evidence } => {
                Ok(TransactionState::Dead { evidence })
            }
            TransactionStatus::Open | TransactionStatus::Landed(_) => Ok(TransactionState::Pending),
        }
    }

    /// The block, perhaps not solidified, that holds the transaction `id` with its effect; `None` while none does.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn mined(&self, id: B256) -> Result<Option<Inclusion>, Transient> {
        let shown = self.node.block_logs().transaction(id);
        let (block, info) = match shown {
            Some((block, info)) => (Some(block), info),
            None => {
                let Some(info) = self.node.info(id, State::Newest).await? else { return Ok(None) };
                (self.node.block(info.block_number, State::Newest).await?, info)
            }
        };
        Ok(block.filter(|_| info.failure.is_none()).map(|block| block.inclusion(self.node.chain_id(), id)))
    }

    /// `settled` must have been asked for before whatever is concluded from the status together with it.
    pub async fn status(
        &self,
        versions: &[TransactionPrepared],
        settled: &Block,
    ) -> Result<TransactionStatus, Transient> {
        let ends: Option<Vec<_>> = versions.iter().map(|version| version.validity.expiration_ms()).collect();
        let ends = ends.ok_or_else(|| Transient::misconfigured("a transaction of this chain has no expiration"))?;
        let Some(expiration) = ends.into_iter().max() else {
            return Err(Transient::misconfigured("no transaction was prepared"));
        };
        let mut failed = None;
        for version in versions {
            let id = id_of(version)?;
            match self.settled_info(id, settled).await? {
                Some(info) => match &info.failure {
                    None => return Ok(TransactionStatus::Landed(info)),
                    Some(failure) => {
                        let number = info.block_number;
                        failed = Some(format!("{id} failed in solidified block {number}: {failure}"));
                    }
                },
                None if settled.time_ms < expiration && !mutant!("expiration-not-waited-out") => {
                    return Ok(TransactionStatus::Open);
                }
                // Asked again: that it is in no block is the word of one node each time.
                None if self.settled_info(id, settled).await?.is_some() => {
                    return Err(self.node.contradiction(format!("{id} was in no solidified block, and then was")));
                }
                None => {}
            }
        }
        if let Some(evidence) = failed {
            return Ok(TransactionStatus::Failed { evidence });
        }
        let ids: Vec<&str> = versions.iter().map(|version| version.transaction_hash.as_str()).collect();
        Ok(TransactionStatus::Lost {
            evidence: format!(
                "solidified block {} {} of {} has time {} ms, no earlier than the expiration {expiration} ms, and there is no {}",
                settled.number,
                settled.id,
                self.node.chain_id(),
                settled.time_ms,
                ids.join(", ")
            ),
        })
    }

    /// What became of a transaction in a block up to `settled`.
    async fn settled_info(&self, id: B256, settled: &Block) -> Result<Option<Info>, Transient> {
        let info = self.node.info(id, State::Solidified).await?;
        Ok(info.filter(|info| info.block_number <= settled.number))
    }
}

/// The id of a journaled transaction.
pub(super) fn id_of(version: &TransactionPrepared) -> Result<B256, Transient> {
    let text = &version.transaction_hash;
    text.parse().map_err(|_| Transient::misconfigured(format!("{text:?} is not a transaction id")))
}
