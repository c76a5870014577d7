//! Views: what a node of the chain has, and how far it says the truth.

use serde_json::{Value, json};
use trondev::{LocalNode, Reply};

use super::chain::{BLOCK_MS, SimTron};
use crate::chain::NodeKind;

/// The call that hands a transaction to the network.
pub(super) const BROADCAST: &str = "wallet/broadcasthex";
/// Where what is solidified is told.
const SOLIDIFIED: &str = "walletsolidity/";

/// The kind of node that answers a call: behind one address there may be several that disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TronView {
    /// Answers truthfully.
    Honest,
    /// Is so many blocks behind, in all that it tells. It hands on what is given to it.
    Lagging {
        /// How many.
        blocks: u64,
    },
    /// Is so many blocks behind in what it calls solidified, and in nothing else: such answers come from a process of their own.
    LateSolidified {
        /// How many.
        blocks: u64,
    },
    /// Is still on the branch that the last fork left, and keeps what is given to it; honest before the first.
    OnFork,
    /// Makes up so many blocks on top of the newest, and calls the newest block solidified. Its answers about real blocks and
    /// contracts are true.
    LyingHead {
        /// How many.
        ahead: u64,
    },
    /// Says that it takes every transaction that it could take, and hands none on.
    Swallowing,
}

impl From<NodeKind> for TronView {
    fn from(kind: NodeKind) -> Self {
        match kind {
            NodeKind::Honest => Self::Honest,
            NodeKind::Lagging { blocks } => Self::Lagging { blocks },
            NodeKind::OnFork => Self::OnFork,
            NodeKind::LyingHead { ahead } => Self::LyingHead { ahead },
        }
    }
}

/// What a liar made up.
pub(super) struct Made {
    /// On top of this block.
    head: [u8; 32],
    ahead: u64,
    node: LocalNode,
}

impl SimTron {
    /// What the node of `view` answers to `body` that is posted to `path`.
    pub fn answer(&mut self, view: TronView, path: &str, body: &Value) -> Reply {
        let is_broadcast = path == BROADCAST;
        let bytes = body.to_string().into_bytes();
        match view {
            TronView::Honest => self.node.answer(path, &bytes),
            TronView::LyingHead { .. } if is_broadcast => self.node.answer(path, &bytes),
            TronView::LyingHead { ahead } => match self.made_up(ahead) {
                Some(liar) => liar.answer(path, &bytes),
                None => self.node.answer(path, &bytes),
            },
            TronView::Lagging { blocks } => {
                let told = self.behind(blocks).answer(path, &bytes);
                if is_broadcast && took(&told) {
                    // What the network makes of it, the node does not tell.
                    let _ = self.node.answer(path, &bytes);
                }
                told
            }
            TronView::LateSolidified { blocks } if path.starts_with(SOLIDIFIED) => {
                self.behind(blocks).answer(path, &bytes)
            }
            TronView::LateSolidified { .. } => self.node.answer(path, &bytes),
            TronView::OnFork => self.fork.as_ref().unwrap_or(&self.node).answer(path, &bytes),
            TronView::Swallowing if is_broadcast => self.node.clone().answer(path, &bytes),
            TronView::Swallowing => self.node.answer(path, &bytes),
        }
    }

    /// What a node has that is so many blocks behind, as far back as is known.
    fn behind(&self, blocks: u64) -> LocalNode {
        let back = usize::try_from(blocks).unwrap_or(usize::MAX).min(self.past.len());
        self.past.get(self.past.len() - back).unwrap_or(&self.node).clone()
    }

    /// The node with made-up blocks; `None` where they cannot be made.
    fn made_up(&mut self, ahead: u64) -> Option<&LocalNode> {
        let head = self.head();
        if !self.made.as_ref().is_some_and(|made| made.head == head.id && made.ahead == ahead) {
            let mut node = self.node.clone();
            // Other witnesses than those whose turn it is, so that no real block is made up.
            node.fork(0, false);
            node.set_solidified_lag(ahead);
            for above in 1..=i64::try_from(ahead).ok()? {
                node.mine_chosen(head.time_ms + above * BLOCK_MS, &[]).ok()?;
            }
            self.made = Some(Made { head: head.id, ahead, node });
        }
        self.made.as_ref().map(|made| &made.node)
    }
}

/// Whether a node said that it took a transaction.
fn took(reply: &Reply) -> bool {
    serde_json::from_slice::<Value>(&reply.body).is_ok_and(|answer| answer["result"] == json!(true))
}
