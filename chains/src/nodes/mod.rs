//! Node pool: the RPC nodes that one chain is asked through, with failover, hedged reads and a quorum.
//!
//! Most questions are decided by what is asked: the receipt of a transaction, the logs of a block, the state at a block. Money
//! rests on their answers, so they are put to two nodes of different origins where there are two, and count when both say the
//! same ([`Pool::agreed`]). What has no one answer, as the newest block, is asked of as many nodes and left to the family to
//! reconcile ([`Pool::each`]). Where one node's word does no harm (fees, a trial), one is asked ([`Pool::any`]); transactions go
//! to several ([`Pool::send`]).
//!
//! A node that gives no answer is replaced by the next, one that keeps others waiting is joined by the next, and both are asked
//! later from then on. A node of another chain is left out. With a single node all of this is one call to it.

mod health;
pub mod http;
mod pool;
mod report;
#[cfg(test)]
mod tests;

use std::future::Future;

use sagas::ports::Transient;

pub use self::{
    pool::{Pool, Settings},
    report::{NodeOutcome, NodeReport, is_loopback, origin, voter},
};

/// What one answer says beside another one to the same question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The same.
    Same,
    /// The first lacks what the second has: its node may only lag.
    Behind,
    /// The first has what the second lacks.
    Ahead,
    /// They cannot both be true.
    Differs,
}

/// A connection to one node, in its family's protocol.
pub trait Endpoint: Send + Sync + 'static {
    /// What is asked.
    type Question: Send + Sync;
    /// What is answered.
    type Answer: Send;
    /// Why there is no answer.
    type Fault: From<Transient> + Into<Transient> + Clone + Send;

    /// Whether the node is of the chain; a fault that only an operator can mend where it is not. Asked once, before anything
    /// else.
    fn check(&self) -> impl Future<Output = Result<(), Self::Fault>> + Send;

    /// Asks.
    fn ask(&self, question: &Self::Question) -> impl Future<Output = Result<Self::Answer, Self::Fault>> + Send;

    /// The fault, where it is the lack of an answer; `None` where the node refuses the question itself.
    fn silence(fault: &Self::Fault) -> Option<&Transient>;

    /// What `one` says beside `other`.
    fn compare(question: &Self::Question, one: &Self::Answer, other: &Self::Answer) -> Verdict;

    /// Whether `one` is to be taken rather than `other`, which says the same: the one that is of an older block.
    fn is_older(question: &Self::Question, one: &Self::Answer, other: &Self::Answer) -> bool {
        let _ = (question, one, other);
        false
    }

    /// The question in few words.
    fn name(question: &Self::Question) -> &str;
}
