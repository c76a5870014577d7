//! A stub EVM node, for gateways whose submissions are measured: every account holds and allows as much as
//! anybody asks for, and has used no nonce. What else it is asked for it refuses.

use std::convert::Infallible;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// `balanceOf(address)` and `allowance(address,address)`.
const HOLDINGS: [&str; 2] = ["0x70a08231", "0xdd62ed3e"];

/// The node, until it is dropped. A chain's endpoint is its EIP-155 id behind the address.
pub struct Node {
    port: u16,
    _task: AbortOnDropHandle<()>,
}

impl Node {
    /// Starts it on a free port.
    ///
    /// # Errors
    /// When there is none.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let accepting = async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        };
        Ok(Self { port, _task: AbortOnDropHandle::new(tokio::spawn(accepting)) })
    }

    /// The endpoint of a chain.
    pub fn url(&self, evm_id: u64) -> String {
        format!("http://127.0.0.1:{}/{evm_id}", self.port)
    }
}

async fn serve(stream: TcpStream) {
    let serving =
        http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service_fn(respond));
    // A gateway that is gone has closed it.
    let _ = serving.await;
}

async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let evm_id: u64 = request.uri().path().trim_start_matches('/').parse().unwrap_or_default();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let answer = match serde_json::from_slice(&body).unwrap_or_default() {
        Value::Array(calls) => calls.iter().map(|call| answer(call, evm_id)).collect(),
        call => answer(&call, evm_id),
    };
    let mut response = Response::new(Full::new(answer.to_string().into()));
    response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
    Ok(response)
}

fn answer(call: &Value, evm_id: u64) -> Value {
    let word = |top: u8| format!("0x{top:02x}{}", "00".repeat(31));
    let data = call.pointer("/params/0/data").and_then(Value::as_str).unwrap_or_default();
    let result = match call["method"].as_str() {
        Some("eth_chainId") => format!("{evm_id:#x}"),
        Some("eth_call") if HOLDINGS.iter().any(|selector| data.starts_with(selector)) => word(0x80),
        Some("eth_call") => word(0),
        // Payers have keys.
        Some("eth_getCode") => "0x".to_owned(),
        _ => {
            let error = json!({"code": -32601, "message": "there is no chain here"});
            return json!({"jsonrpc": "2.0", "id": call["id"], "error": error});
        }
    };
    json!({"jsonrpc": "2.0", "id": call["id"], "result": result})
}
