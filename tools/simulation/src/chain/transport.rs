//! The transport between the adapters and a simulated node, with RPC faults.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use alloy::{
    rpc::{
        client::RpcClient,
        json_rpc::{ErrorPayload, RequestPacket, Response, ResponsePacket, ResponsePayload, SerializedRequest},
    },
    transports::{TransportError, TransportErrorKind, TransportFut},
};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use tower::Service;

use chains::config::EvmConfig;
use chains_evm::node::{ConnectError, Node};

use super::{NodeKind, RpcFault, SharedChain};

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
}

type Faults = dyn FnMut(&str) -> RpcOutcome + Send;

/// A connection to a simulated chain, with the faults that the world gives it; cheap to clone.
#[derive(Clone)]
pub struct SimTransport {
    chain: SharedChain,
    faults: Arc<Mutex<Box<Faults>>>,
    timeout: Duration,
}

impl fmt::Debug for SimTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimTransport").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl SimTransport {
    /// A connection to `chain`. `faults` decides the outcome of each call by its method, in the order of the calls. A lost
    /// call ends after `timeout` of tokio's time, and so does one whose answer takes longer.
    pub fn new(chain: SharedChain, timeout: Duration, faults: impl FnMut(&str) -> RpcOutcome + Send + 'static) -> Self {
        Self { chain, faults: Arc::new(Mutex::new(Box::new(faults))), timeout }
    }

    /// A connection without faults.
    pub fn honest(chain: SharedChain) -> Self {
        Self::new(chain, Duration::from_secs(1), |_| RpcOutcome::Deliver(NodeKind::Honest))
    }

    /// The adapters' connection over this one.
    ///
    /// # Errors
    /// [`ConnectError`] when `config` cannot be meant.
    pub fn connect(self, config: &EvmConfig) -> Result<Node, ConnectError> {
        Node::over(config, RpcClient::new(self, true))
    }

    async fn answer(self, request: SerializedRequest) -> Result<Response, TransportError> {
        let outcome = {
            let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
            faults(request.method())
        };
        // No answer comes before other tasks had a turn.
        tokio::task::yield_now().await;
        let result = match outcome {
            RpcOutcome::Deliver(node) => self.ask(&node, &request),
            RpcOutcome::Late(after, node) => {
                let result = self.ask(&node, &request);
                if after >= self.timeout {
                    return self.silence().await;
                }
                tokio::time::sleep(after).await;
                result
            }
            RpcOutcome::LoseRequest => return self.silence().await,
            RpcOutcome::LoseAnswer(node) => {
                // The answer is lost; the effect remains.
                drop(self.ask(&node, &request));
                return self.silence().await;
            }
            RpcOutcome::Error(code, message) => Err(RpcFault { code, message, data: None }),
        };
        let payload = match result {
            Ok(value) => ResponsePayload::Success(raw(&value)?),
            Err(fault) => ResponsePayload::Failure(ErrorPayload {
                code: fault.code,
                message: fault.message.into(),
                data: fault.data.as_ref().map(raw).transpose()?,
            }),
        };
        Ok(Response { id: request.id().clone(), payload })
    }

    fn ask(&self, node: &NodeKind, request: &SerializedRequest) -> Result<Value, RpcFault> {
        let params = match request.params() {
            Some(params) => {
                serde_json::from_str(params.get()).map_err(|error| RpcFault::parameters(error.to_string()))?
            }
            None => Value::Array(Vec::new()),
        };
        self.chain.lock().unwrap_or_else(PoisonError::into_inner).rpc(node, request.method(), &params)
    }

    async fn silence<T>(&self) -> Result<T, TransportError> {
        tokio::time::sleep(self.timeout).await;
        Err(TransportErrorKind::custom_str("timed out"))
    }
}

impl Service<RequestPacket> for SimTransport {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, packet: RequestPacket) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            match packet {
                RequestPacket::Single(request) => this.answer(request).await.map(ResponsePacket::Single),
                RequestPacket::Batch(requests) => {
                    let mut responses = Vec::with_capacity(requests.len());
                    for request in requests {
                        responses.push(this.clone().answer(request).await?);
                    }
                    Ok(ResponsePacket::Batch(responses))
                }
            }
        })
    }
}

fn raw(value: &Value) -> Result<Box<RawValue>, TransportError> {
    to_raw_value(value).map_err(|error| TransportErrorKind::custom_str(&error.to_string()))
}
