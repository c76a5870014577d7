//! The transport between the adapter and a simulated node, with RPC faults.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::time::Instant;

use chains::{
    config::SolanaConfig,
    nodes::http::{Answer, HttpFault},
};
use chains_solana::{
    node::{ConnectError, Node},
    transport::Transport,
};

use super::{NodeKind, RpcFault, SharedCluster, careless::Careless};

/// The pause after an answer that asks for one without saying how long, as the product's client makes it.
const PAUSE: Duration = Duration::from_secs(1);

/// The outcome of one RPC call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RpcOutcome {
    /// This node answers.
    Deliver(NodeKind),
    /// This node does what it is asked at once, and its answer takes so long.
    Late(Duration, NodeKind),
    /// The call never arrives.
    LoseRequest,
    /// The call has its effect at this node, and its answer is lost.
    LoseAnswer(NodeKind),
    /// The node answers with this code and message instead.
    Error(i64, String),
    /// The answer has this HTTP status and nothing else.
    Status(u16),
}

type Faults = dyn FnMut(&str) -> RpcOutcome + Send;

/// A connection to a simulated cluster, with the faults that the world gives it; cheap to clone.
#[derive(Clone)]
pub struct SimTransport {
    cluster: SharedCluster,
    faults: Arc<Mutex<Box<Faults>>>,
    timeout: Duration,
    paused: Arc<Mutex<Option<Instant>>>,
    careless: Careless,
}

impl fmt::Debug for SimTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimTransport").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl SimTransport {
    /// A connection to `cluster`. `faults` decides the outcome of each call by its method, in the order of the calls. A lost
    /// call ends after `timeout` of tokio's time, and so does one whose answer takes longer.
    pub fn new(
        cluster: SharedCluster,
        timeout: Duration,
        faults: impl FnMut(&str) -> RpcOutcome + Send + 'static,
    ) -> Self {
        let faults: Arc<Mutex<Box<Faults>>> = Arc::new(Mutex::new(Box::new(faults)));
        Self { cluster, faults, timeout, paused: Arc::default(), careless: Careless::default() }
    }

    /// A connection without faults.
    pub fn honest(cluster: SharedCluster) -> Self {
        Self::new(cluster, Duration::from_secs(1), |_| RpcOutcome::Deliver(NodeKind::Honest))
    }

    /// The adapter's connection over this one.
    ///
    /// # Errors
    /// [`ConnectError`] when `config` cannot be meant.
    pub fn connect(self, config: &SolanaConfig) -> Result<Node, ConnectError> {
        Self::connect_all([self], config)
    }

    /// The adapter's connection over several nodes, each with a vote of its own.
    ///
    /// # Errors
    /// [`ConnectError`] when `config` cannot be meant.
    pub fn connect_all(nodes: impl IntoIterator<Item = Self>, config: &SolanaConfig) -> Result<Node, ConnectError> {
        let nodes = nodes.into_iter().enumerate();
        let nodes = nodes.map(|(index, node)| (format!("node {index}"), Box::new(node) as Box<dyn Transport>));
        Node::over(config, nodes.collect::<Vec<_>>())
    }

    async fn answer(&self, body: &[u8]) -> Result<Answer, HttpFault> {
        let unreadable = |_| HttpFault::Broken;
        let request: Value = serde_json::from_slice(body).map_err(unreadable)?;
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        let outcome = {
            let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
            faults(&method)
        };
        // No answer comes before other tasks had a turn.
        tokio::task::yield_now().await;
        let result = match outcome {
            RpcOutcome::Deliver(node) => self.ask(node, &method, &request["params"]),
            RpcOutcome::Late(after, node) => {
                let result = self.ask(node, &method, &request["params"]);
                if after >= self.timeout {
                    return self.silence().await;
                }
                tokio::time::sleep(after).await;
                result
            }
            RpcOutcome::LoseRequest => return self.silence().await,
            RpcOutcome::LoseAnswer(node) => {
                // The answer is lost; the effect remains.
                drop(self.ask(node, &method, &request["params"]));
                return self.silence().await;
            }
            RpcOutcome::Error(code, message) => Err(RpcFault { code, message, data: None }),
            RpcOutcome::Status(status) => return Ok(Answer { status, retry_after: None, body: Vec::new() }),
        };
        let mut answer = json!({"jsonrpc": "2.0", "id": request["id"]});
        match result {
            Ok(result) => answer["result"] = result,
            Err(RpcFault { code, message, data }) => {
                answer["error"] = json!({"code": code, "message": message});
                if let Some(data) = data {
                    answer["error"]["data"] = data;
                }
            }
        }
        Ok(Answer { status: 200, retry_after: None, body: answer.to_string().into_bytes() })
    }

    fn ask(&self, node: NodeKind, method: &str, params: &Value) -> Result<Value, RpcFault> {
        let mut cluster = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        self.careless.ask(&mut cluster, node, method, params)
    }

    async fn silence(&self) -> Result<Answer, HttpFault> {
        tokio::time::sleep(self.timeout).await;
        Err(HttpFault::TimedOut)
    }

    fn paused(&self) -> MutexGuard<'_, Option<Instant>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pause_left(&self) -> Option<Duration> {
        let paused = *self.paused();
        paused.map(|until| until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }
}

#[async_trait]
impl Transport for SimTransport {
    fn origin(&self) -> &str {
        "simulation"
    }

    async fn post(&self, body: Vec<u8>) -> Result<Answer, HttpFault> {
        if let Some(left) = self.pause_left() {
            return Err(HttpFault::Paused(left));
        }
        let answer = self.answer(&body).await;
        if answer.as_ref().is_ok_and(|answer| answer.status == 429) {
            self.pause(None);
        }
        answer
    }

    fn pause(&self, asked: Option<Duration>) {
        let until = Instant::now() + asked.unwrap_or(PAUSE);
        let mut paused = self.paused();
        *paused = Some(paused.map_or(until, |before| before.max(until)));
    }

    async fn pause_over(&self) {
        if let Some(left) = self.pause_left() {
            tokio::time::sleep(left).await;
        }
    }
}
