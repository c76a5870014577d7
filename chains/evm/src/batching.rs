//! Request batching: what many want to read of contracts at the same moment, asked of the node in few requests.

use std::{
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use alloy::{
    primitives::{Address, Bytes},
    sol_types::SolCall,
};
use tokio::sync::{Semaphore, oneshot};

use sagas::ports::Transient;

use super::{
    calls::Calls,
    node::{At, Node},
    rpc::Fault,
};

/// Calls in one request; providers take about a hundred.
const BATCH_MAX: usize = 60;
/// Requests on their way at a time. What comes meanwhile waits for the next one, and so shares it.
const REQUESTS_MAX: usize = 4;

/// View calls at a chain's newest block. Clones share their requests.
#[derive(Clone)]
pub struct Views(Arc<Inner>);

struct Inner {
    node: Node,
    waiting: Mutex<Vec<Asked>>,
    requests: Semaphore,
}

struct Asked {
    contract: Address,
    data: Bytes,
    answer: oneshot::Sender<Result<Bytes, Fault>>,
}

impl fmt::Debug for Views {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Views").field(self.0.node.chain_id()).finish()
    }
}

impl Views {
    /// Views of the chain of `node`.
    pub fn new(node: Node) -> Self {
        Self(Arc::new(Inner { node, waiting: Mutex::default(), requests: Semaphore::new(REQUESTS_MAX) }))
    }

    /// The node that is asked.
    pub fn node(&self) -> &Node {
        &self.0.node
    }

    /// What the view function `call` of `contract` returns.
    ///
    /// # Errors
    /// [`Transient`], also when there is no such contract, or it reverts or returns something else.
    pub async fn read<C: SolCall>(&self, contract: Address, call: &C) -> Result<C::Return, Transient> {
        let returned = self.returned(contract, call).await?;
        C::abi_decode_returns(&returned).map_err(|error| {
            let chain = self.0.node.chain_id();
            Transient::contradiction(format!("{chain}: {contract} returned what is not a {}: {error}", C::SIGNATURE))
        })
    }

    /// The same, `None` where the contract has no such function: where it reverts, or returns something else.
    ///
    /// # Errors
    /// [`Transient`] when the node does not answer, or refuses.
    pub async fn read_if_there<C: SolCall>(&self, contract: Address, call: &C) -> Result<Option<C::Return>, Transient> {
        match self.returned(contract, call).await {
            Ok(returned) => Ok(C::abi_decode_returns(&returned).ok()),
            Err(Fault::Reverted(_)) => Ok(None),
            Err(fault) => Err(fault.into()),
        }
    }

    async fn returned<C: SolCall>(&self, contract: Address, call: &C) -> Result<Bytes, Fault> {
        let (answer, answered) = oneshot::channel();
        self.waiting().push(Asked { contract, data: call.abi_encode().into(), answer });
        if self.0.requests.available_permits() > 0 {
            // Not at once: what this task asks for besides goes into the same request.
            tokio::spawn(self.clone().ask_on());
        }
        let chain = self.0.node.chain_id();
        answered.await.map_err(|_| Transient::unreachable(format!("{chain}: a request was given up")))?
    }

    /// Asks until nobody waits, unless as many do so as may.
    async fn ask_on(self) {
        loop {
            {
                let Ok(_request) = self.0.requests.try_acquire() else { return };
                loop {
                    let batch = self.next_batch();
                    if batch.is_empty() {
                        break;
                    }
                    self.ask(batch).await;
                }
            }
            // Who came just before the place was given back has seen none free.
            if self.waiting().is_empty() {
                return;
            }
        }
    }

    async fn ask(&self, batch: Vec<Asked>) {
        let calls: Vec<_> = batch.iter().map(|asked| (asked.contract, asked.data.clone())).collect();
        let answers = Calls::of(&self.0.node).view_all(&calls, At::Latest).await;
        for (asked, answer) in batch.into_iter().zip(answers) {
            // Nobody listens when who asked is gone.
            let _ = asked.answer.send(answer);
        }
    }

    /// Those who wait longest and are still there.
    fn next_batch(&self) -> Vec<Asked> {
        let mut waiting = self.waiting();
        waiting.retain(|asked| !asked.answer.is_closed());
        let count = waiting.len().min(BATCH_MAX);
        let rest = waiting.split_off(count);
        mem::replace(&mut waiting, rest)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Asked>> {
        // No holder of the lock leaves it half changed where it could panic.
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
