//! Answers of nodes: what a node says that lies, lags or is not one at all.
//!
//! An input is a byte that says what is asked, and then the bodies of the answers, one a line, each given once. What chain it is of
//! a node says truly, or nothing else would be asked of it.

use std::{
    collections::VecDeque,
    future::Future,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use alloy::{
    primitives::{Address, B256},
    rpc::{
        client::RpcClient,
        json_rpc::{RequestPacket, Response, ResponsePacket, ResponsePayload, SerializedRequest},
    },
    transports::{TransportError, TransportErrorKind, TransportFut},
};
use async_trait::async_trait;
use chains::{
    config::{ChainConfig, EvmConfig, SolanaConfig, TronConfig},
    nodes::http::{Answer, HttpFault},
};
use chains_evm::node::At;
use chains_solana::node::Commitment;
use chains_tron::transport::{Reply, Silence};
use events::{Hash32, PaymentId, event::EscrowPlan};
use sagas::ports::DeliveryOrder;
use serde_json::{Value, json, value::RawValue};
use tower::Service;

use crate::{bodies::example, evm, input::choice};

/// Longest that an input may keep a caller waiting.
const PATIENCE: Duration = Duration::from_millis(20);

/// Answers, each given once.
#[derive(Debug, Clone)]
struct Answers(Arc<Mutex<VecDeque<Vec<u8>>>>);

impl Answers {
    fn of(bytes: &[u8]) -> Self {
        Self(Arc::new(Mutex::new(bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect())))
    }

    fn next(&self) -> Option<Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// The chains of the example.
struct Chains {
    evm: EvmConfig,
    solana: SolanaConfig,
    tron: TronConfig,
}

static CHAINS: LazyLock<Option<Chains>> = LazyLock::new(|| {
    let (mut evm, mut solana, mut tron) = (None, None, None);
    for served in example().chains {
        match served.chain {
            ChainConfig::Evm(chain) => evm = Some(chain),
            ChainConfig::Solana(chain) => solana = Some(chain),
            ChainConfig::Tron(chain) => tron = Some(chain),
        }
    }
    Some(Chains { evm: evm?, solana: solana?, tron: tron? })
});

fn chains() -> &'static Chains {
    match CHAINS.as_ref() {
        Some(chains) => chains,
        None => panic!("the example has not every family"),
    }
}

/// Asks until it is answered, or nothing is left to say.
fn ask<T>(asked: impl Future<Output = T>) -> Option<T> {
    static RUNTIME: LazyLock<Option<tokio::runtime::Runtime>> =
        LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_time().build().ok());
    let Some(runtime) = RUNTIME.as_ref() else { panic!("there is no runtime") };
    runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await.ok() })
}

fn plan(config: &chains::config::CommonConfig) -> EscrowPlan {
    EscrowPlan {
        chain_id: config.chain_id.clone(),
        contract: config.escrow_contract.clone(),
        reserver: config.reserver.clone(),
        releaser: config.releaser.clone(),
        reserve_deadline: 1_800_000_000,
        fulfillment_deadline: 1_800_000_000,
        refund_after: 1_800_000_600,
    }
}

fn payment() -> PaymentId {
    PaymentId::derive("fuzz", "1")
}

/// An EVM node behind alloy's transport.
#[derive(Debug, Clone)]
struct EvmTransport(Answers, Option<u64>);

impl EvmTransport {
    fn answer(&self, request: &SerializedRequest) -> Result<Response, TransportError> {
        let broken = || TransportErrorKind::custom_str("no answer");
        let body = match self.1 {
            Some(id) if request.method() == "eth_chainId" => format!("\"{id:#x}\"").into_bytes(),
            _ => self.0.next().ok_or_else(broken)?,
        };
        let result: Box<RawValue> = serde_json::from_slice(&body).map_err(|_| broken())?;
        Ok(Response { id: request.id().clone(), payload: ResponsePayload::Success(result) })
    }
}

impl Service<RequestPacket> for EvmTransport {
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
                RequestPacket::Single(request) => this.answer(&request).map(ResponsePacket::Single),
                RequestPacket::Batch(requests) => {
                    let answers = requests.iter().map(|request| this.answer(request)).collect::<Result<_, _>>();
                    answers.map(ResponsePacket::Batch)
                }
            }
        })
    }
}

/// What an EVM node says of blocks, transactions, logs and contracts.
pub fn of_evm_nodes(bytes: &[u8]) {
    let Some((asked, rest)) = choice(bytes) else { return };
    let config = &chains().evm;
    let client = RpcClient::new(EvmTransport(Answers::of(rest), config.common.chain_id.evm_id()), true);
    let Ok(node) = chains_evm::node::Node::over(config, client) else { panic!("the example is refused") };
    let query = chains_evm::query::Query::of(&node);
    let escrows = chains_evm::escrows::Escrows::of(&node);
    let (plan, id) = (plan(&config.common), payment());
    let account = Address::repeat_byte(1);
    match asked {
        b'h' => drop(ask(node.head())),
        b'b' => drop(ask(node.block(5))),
        b's' => drop(ask(node.settled())),
        b'r' => drop(ask(query.receipt(B256::repeat_byte(7)))),
        b'f' => drop(ask(query.fees())),
        b'n' => drop(ask(query.nonce(account, At::Pending))),
        b'c' => drop(ask(query.code(account, At::Latest))),
        b'k' => drop(ask(query.knows(B256::repeat_byte(7)))),
        b'e' => drop(ask(escrows.state(&id, &plan))),
        b'l' => drop(ask(escrows.is_readable(&plan.contract))),
        b'd' => {
            let Some(spend) = evm::spend(chains_evm::authorization::Scheme::EvmPermit2Escrow, None) else { return };
            let Some(destination) = spend.terms.destination().first().cloned() else { return };
            let order = DeliveryOrder {
                payment_id: id,
                quote_hash: Hash32([3; 32]),
                destination,
                amount: spend.terms.fulfillment_amount,
                delivery_account: plan.reserver.clone(),
                proxy: plan.contract.clone(),
                fulfill_by: plan.fulfillment_deadline,
            };
            drop(ask(chains_evm::deliveries::Deliveries::of(&node).state(&order)));
        }
        _ => drop(ask(escrows.settled(&id, &plan.contract))),
    }
}

#[async_trait]
impl chains_solana::transport::Transport for Answers {
    fn origin(&self) -> &str {
        "fuzz"
    }

    async fn post(&self, asked: Vec<u8>) -> Result<Answer, HttpFault> {
        let asked: Value = serde_json::from_slice(&asked).unwrap_or_default();
        let body = if asked["method"] == "getGenesisHash" {
            json!({"jsonrpc": "2.0", "id": 1, "result": chains().solana.signature_cluster_id}).to_string().into_bytes()
        } else {
            self.next().ok_or(HttpFault::Broken)?
        };
        Ok(Answer { status: 200, retry_after: None, body })
    }

    fn pause(&self, _: Option<Duration>) {}

    async fn pause_over(&self) {}
}

/// What a Solana node says of slots, accounts and transactions.
pub fn of_solana_nodes(bytes: &[u8]) {
    let Some((asked, rest)) = choice(bytes) else { return };
    let config = &chains().solana;
    let transport: Box<dyn chains_solana::transport::Transport> = Box::new(Answers::of(rest));
    let node = chains_solana::node::Node::over(config, [("fuzz".to_owned(), transport)]);
    let Ok(node) = node else { panic!("the example is refused") };
    let escrows = chains_solana::escrows::Escrows::of(&node);
    let history = chains_solana::history::History::of(&node);
    let (plan, id) = (plan(&config.common), payment());
    // A signature of 64 bytes 1.
    let signature = "2AXDGYSE4f2sz7tvMMzyHvUfcoJmxudvdhBcmiUSo6ijwfYmfZYsKRxboQMPh3R4kUhXRVdtSXFXMheka4Rc4P2";
    match asked {
        b'h' => drop(ask(node.head())),
        b's' => drop(ask(node.settled())),
        b'a' => drop(ask(node.accounts(&[[1; 32], [2; 32]], Commitment::Confirmed, 0))),
        b'l' => drop(ask(node.lamports(&[1; 32]))),
        b'e' => drop(ask(escrows.state(&id, &plan))),
        b'c' => drop(ask(escrows.claims(&id, &plan))),
        b't' => drop(ask(history.transaction(signature, Commitment::Finalized))),
        b'u' => drop(ask(history.status(signature, 0))),
        _ => drop(ask(history.block_at(5, Commitment::Finalized))),
    }
}

#[async_trait]
impl chains_tron::transport::Transport for Answers {
    async fn post(&self, _: &str, asked: &Value) -> Result<Reply, Silence> {
        let chain_id = &chains().tron.common.chain_id;
        let body = match chain_id.reference().parse::<u32>() {
            Ok(reference) if asked["id_or_num"] == "0" => {
                json!({"blockID": format!("{:056x}{reference:08x}", 0)}).to_string().into_bytes()
            }
            _ => self.next().ok_or_else(|| Silence("no answer".to_owned()))?,
        };
        Ok(Reply { status: 200, retry_after: None, body })
    }
}

/// What a Tron node says of blocks, transactions, accounts and contracts.
pub fn of_tron_nodes(bytes: &[u8]) {
    let Some((asked, rest)) = choice(bytes) else { return };
    let config = &chains().tron;
    let transport: Arc<dyn chains_tron::transport::Transport> = Arc::new(Answers::of(rest));
    let node = chains_tron::node::Node::over(config, [("fuzz".to_owned(), transport)]);
    let Ok(node) = node else { panic!("the example is refused") };
    let escrows = chains_tron::escrows::Escrows::of(&node);
    let (plan, id) = (plan(&config.common), payment());
    let (account, transaction) = (Address::repeat_byte(1), B256::repeat_byte(7));
    match asked {
        b'h' => drop(ask(node.head())),
        b's' => drop(ask(node.settled())),
        b'b' => drop(ask(node.balance(account))),
        b'r' => drop(ask(node.resources(account))),
        b'p' => drop(ask(node.prices())),
        b'w' => drop(ask(node.waits(transaction))),
        b'c' => drop(ask(escrows.is_readable(&plan.contract))),
        b'e' => drop(ask(escrows.state(&id, &plan))),
        _ => drop(ask(node.check())),
    }
}

/// Messages as a NATS server sends them to a connection that takes no headers.
pub fn of_nats_servers(bytes: &[u8]) {
    let Ok(messages) = journal_jetstream::headerless::messages(bytes) else { return };
    let carried: usize = messages.iter().map(|message| message.payload.len()).sum();
    assert!(carried <= bytes.len(), "nothing comes of nothing");
    for message in messages {
        assert!(!message.subject.is_empty() && !message.subject.contains([' ', '\t']));
        assert!(message.reply.is_none_or(|reply| !reply.is_empty()));
    }
}
