//! The transport between the adapters and a simulated node, with faults of the calls.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Value, json};

use chains::config::TronConfig;
use chains_tron::{
    node::{ConnectError, Node},
    transport::{Reply, Silence, Transport},
};

use super::{
    chain::SharedTron,
    view::{BROADCAST, TronView},
};

/// The outcome of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TronOutcome {
    /// This node answers.
    Deliver(TronView),
    /// This node does what it is asked at once, and its answer takes so long.
    Late(Duration, TronView),
    /// The call never arrives.
    LoseRequest,
    /// The call has its effect at this node, and its answer is lost.
    LoseAnswer(TronView),
    /// The node answers with this status instead, and with this `Retry-After`.
    Status(u16, Option<&'static str>),
    /// The node answers with these words in the member `Error` instead.
    Refused(&'static str),
    /// The node answers what is not JSON.
    Garbage,
    /// The node does not take a transaction, with this code; other calls it answers truthfully.
    Untaken(&'static str),
    /// The node takes a transaction and says with this code that it did not; other calls it answers truthfully.
    TakenAll(&'static str),
}

type Faults = dyn FnMut(&str) -> TronOutcome + Send;

/// A connection to a simulated chain, with the faults that the world gives it; cheap to clone.
#[derive(Clone)]
pub struct TronTransport {
    chain: SharedTron,
    faults: Arc<Mutex<Box<Faults>>>,
    timeout: Duration,
}

impl fmt::Debug for TronTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TronTransport").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl TronTransport {
    /// A connection to `chain`. `faults` decides the outcome of each call by its path, for example `wallet/getblock`, in the order of
    /// the calls. A lost call ends after `timeout` of tokio's time, and so does one whose answer takes longer.
    pub fn new(chain: SharedTron, timeout: Duration, faults: impl FnMut(&str) -> TronOutcome + Send + 'static) -> Self {
        Self { chain, faults: Arc::new(Mutex::new(Box::new(faults))), timeout }
    }

    /// A connection without faults.
    pub fn honest(chain: SharedTron) -> Self {
        Self::new(chain, Duration::from_secs(1), |_| TronOutcome::Deliver(TronView::Honest))
    }

    /// The adapters' connection over this one alone.
    ///
    /// # Errors
    /// [`ConnectError`] when `config` cannot be meant.
    pub fn connect(self, config: &TronConfig) -> Result<Node, ConnectError> {
        Self::connect_all([self], config)
    }

    /// The adapters' connection over several nodes, each with a vote of its own.
    ///
    /// # Errors
    /// [`ConnectError`] when `config` cannot be meant.
    pub fn connect_all(nodes: impl IntoIterator<Item = Self>, config: &TronConfig) -> Result<Node, ConnectError> {
        let name = &config.common.rpc_url;
        let nodes = nodes.into_iter().enumerate().map(|(number, node)| {
            let node: Arc<dyn Transport> = Arc::new(node);
            (format!("{name}:{number}"), node)
        });
        Node::over(config, nodes)
    }

    fn ask(&self, view: TronView, path: &str, body: &Value) -> Reply {
        let mut chain = self.chain.lock().unwrap_or_else(PoisonError::into_inner);
        let trondev::Reply { status, body } = chain.answer(view, path, body);
        Reply { status, retry_after: None, body }
    }

    async fn silence(&self) -> Result<Reply, Silence> {
        tokio::time::sleep(self.timeout).await;
        Err(Silence("no answer in time".to_owned()))
    }
}

#[async_trait]
impl Transport for TronTransport {
    async fn post(&self, path: &str, body: &Value) -> Result<Reply, Silence> {
        let outcome = {
            let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
            faults(path)
        };
        // No answer comes before other tasks had a turn.
        tokio::task::yield_now().await;
        let told = |answer: Value| Reply { status: 200, retry_after: None, body: answer.to_string().into_bytes() };
        let untaken = |code: &str| told(json!({"result": false, "code": code, "message": hex::encode("not taken")}));
        Ok(match outcome {
            TronOutcome::Deliver(view) => self.ask(view, path, body),
            TronOutcome::Late(after, view) => {
                let reply = self.ask(view, path, body);
                if after >= self.timeout {
                    return self.silence().await;
                }
                tokio::time::sleep(after).await;
                reply
            }
            TronOutcome::LoseRequest => return self.silence().await,
            TronOutcome::LoseAnswer(view) => {
                // The answer is lost; the effect remains.
                drop(self.ask(view, path, body));
                return self.silence().await;
            }
            TronOutcome::Status(status, retry_after) => {
                Reply { status, retry_after: retry_after.map(str::to_owned), body: Vec::new() }
            }
            TronOutcome::Refused(words) => told(json!({ "Error": words })),
            TronOutcome::Garbage => {
                Reply { status: 200, retry_after: None, body: b"<html>a moment, please</html>".to_vec() }
            }
            TronOutcome::Untaken(code) if path == BROADCAST => untaken(code),
            TronOutcome::TakenAll(code) if path == BROADCAST => {
                drop(self.ask(TronView::Honest, path, body));
                untaken(code)
            }
            TronOutcome::Untaken(_) | TronOutcome::TakenAll(_) => self.ask(TronView::Honest, path, body),
        })
    }
}
