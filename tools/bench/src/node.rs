//! A stub EVM node, for gateways whose submissions are measured: every account holds and allows as much as
//! anybody asks for, and has used no nonce; every escrow is of this version and holds nothing. Blocks come by the clock, and
//! nothing happens in them. What else it is asked for it refuses.

use std::{
    convert::Infallible,
    time::{SystemTime, UNIX_EPOCH},
};

use alloy::sol_types::SolCall;
use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use escrow_abi::contracts::GatewayEscrow;

/// `balanceOf(address)` and `allowance(address,address)`.
const HOLDINGS: [&str; 2] = ["0x70a08231", "0xdd62ed3e"];

/// Words of an escrow's record.
const RECORD_WORDS: usize = 6;

/// Time between two blocks.
const BLOCK_SECONDS: u64 = 2;

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
    let record_of = format!("0x{}", alloy::hex::encode(GatewayEscrow::recordOfCall::SELECTOR));
    let data = call.pointer("/params/0/data").and_then(Value::as_str).unwrap_or_default();
    if let Some(result) = of_blocks(call) {
        return json!({"jsonrpc": "2.0", "id": call["id"], "result": result});
    }
    let result = match call["method"].as_str() {
        Some("eth_chainId") => format!("{evm_id:#x}"),
        Some("eth_call") if HOLDINGS.iter().any(|selector| data.starts_with(selector)) => word(0x80),
        Some("eth_call") if data.starts_with(&record_of) => format!("0x{}", "00".repeat(32 * RECORD_WORDS)),
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

/// What is asked about blocks and what is in them.
fn of_blocks(call: &Value) -> Option<Value> {
    let newest = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / BLOCK_SECONDS;
    let number_of = |hex: &str| u64::from_str_radix(hex.trim_start_matches("0x").trim_start_matches('0'), 16).ok();
    let asked = call.pointer("/params/0").and_then(Value::as_str).unwrap_or_default();
    match call["method"].as_str()? {
        "eth_getLogs" => Some(json!([])),
        "eth_getBlockByNumber" => Some(block(number_of(asked).filter(|number| *number <= newest).unwrap_or(newest))),
        "eth_getBlockByHash" => Some(number_of(asked).map_or(Value::Null, block)),
        _ => None,
    }
}

/// A block, whose hash is its number.
fn block(number: u64) -> Value {
    let hash = |number: u64| format!("0x{number:064x}");
    json!({
        "number": format!("{number:#x}"),
        "hash": hash(number),
        "parentHash": hash(number.saturating_sub(1)),
        "timestamp": format!("{:#x}", number * BLOCK_SECONDS),
    })
}
