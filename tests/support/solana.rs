//! A network with a Solana chain, what tests ask of it, and a node in between that drops transactions.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use alloy::primitives::U256;
use anyhow::{Context, Result};
use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use data_encoding::BASE64;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use devnet::{
    keys::Role,
    network::Options,
    payer::{Payer, PaymentSpec},
    solana::{SolanaChain, SolanaOptions},
};
use events::PaymentId;
use gateway_program::host;

use super::{World, settlers};

/// Native SOL that a payment delivers: two SOL, in lamports.
pub const COIN_AMOUNT: u64 = 2_000_000_000;
/// Price of the cheapest settler for it: 150 tokens a SOL, and ten basis points more.
pub const COIN_PRICE: u64 = 300_300_000;

impl World {
    /// A network with a Solana chain, and what else `choose` makes of the options.
    pub async fn with_solana(choose: impl FnOnce(Options) -> Options) -> Result<Self> {
        Self::with(|options| choose(Options { solana: Some(SolanaOptions::default()), ..options })).await
    }

    /// The Solana chain.
    pub fn solana(&self) -> Result<&SolanaChain> {
        self.network.solana.as_ref().context("the network has no Solana chain")
    }

    /// Tokens on Solana for tokens on the second EVM chain.
    pub fn spec_from_solana(&self, request_id: &str) -> Result<PaymentSpec> {
        Ok(PaymentSpec { source: self.solana()?.token()?, ..self.spec(request_id)? })
    }

    /// The same for the settler that never delivers.
    pub fn undeliverable_from_solana(&self, request_id: &str) -> Result<PaymentSpec> {
        Ok(PaymentSpec { source: self.solana()?.token()?, ..self.undeliverable_spec(request_id)? })
    }

    /// Tokens on the first EVM chain for tokens on Solana.
    pub fn spec_to_solana(&self, request_id: &str) -> Result<PaymentSpec> {
        let (destination, recipient) = (self.solana()?.token()?, Role::Recipient.solana_account());
        Ok(PaymentSpec { destination, recipient, ..self.spec(request_id)? })
    }

    /// Tokens on the first EVM chain for native SOL.
    pub fn spec_to_coin(&self, request_id: &str) -> Result<PaymentSpec> {
        Ok(PaymentSpec {
            destination: self.solana()?.coin()?,
            amount: COIN_AMOUNT.to_string().parse()?,
            cap: "310000000".parse()?,
            ..self.spec_to_solana(request_id)?
        })
    }

    /// Tokens on Solana for tokens of Token-2022 there.
    pub fn spec_on_solana(&self, request_id: &str) -> Result<PaymentSpec> {
        let (source, destination) = (self.solana()?.token()?, self.solana()?.token_2022()?);
        Ok(PaymentSpec { source, destination, ..self.spec_to_solana(request_id)? })
    }

    /// What everybody of interest holds, on all chains.
    pub async fn holdings(&self) -> Result<BTreeMap<&'static str, U256>> {
        let solana = self.solana()?;
        let (source, destination) = (&self.network.source, &self.network.destination);
        let mut held = BTreeMap::from([
            ("evm payer", source.balance(Role::Payer).await?),
            ("evm escrow", source.dev.token_balance(&source.token, &source.contracts.escrow).await?),
            ("evm settlers' source", settlers(source).await?),
            ("evm settlers' destination", settlers(destination).await?),
            ("evm recipient", destination.balance(Role::Recipient).await?),
        ]);
        let recipient = Role::Recipient.solana_account();
        held.insert("recipient's lamports", U256::from(solana.dev.lamports(&recipient).await?));
        let names = [("payer", "settlers", "recipient"), ("payer's 2022", "settlers' 2022", "recipient's 2022")];
        for ((payer, settlers, recipient), token) in names.into_iter().zip([&solana.token, &solana.token_2022]) {
            let of = async |role: Role| {
                Ok::<_, anyhow::Error>(U256::from(solana.dev.token_balance(token, &role.solana_account()).await?))
            };
            held.insert(payer, of(Role::Payer).await?);
            held.insert(recipient, of(Role::Recipient).await?);
            let mut all = U256::ZERO;
            for n in 1..=3 {
                all += of(Role::Settler(n)).await?;
            }
            held.insert(settlers, all);
        }
        Ok(held)
    }

    /// How often a transaction of success changed the payment's escrow on Solana: its deposit, and its release or refund.
    pub async fn escrow_transactions(&self, payment_id: &PaymentId) -> Result<usize> {
        let solana = self.solana()?;
        let program = solana_key(&solana.program)?;
        let record = bs58::encode(host::escrow_address(&program, &payment_id.on_chain().0).key).into_string();
        let found = solana.surfnet.rpc("getSignaturesForAddress", json!([record, {"commitment": "confirmed"}])).await?;
        let found = found.as_array().context("no list of signatures")?;
        Ok(found.iter().filter(|entry| entry["err"].is_null()).count())
    }
}

/// The 32 bytes of an account.
pub fn solana_key(account: &str) -> Result<[u8; 32]> {
    let bytes = bs58::decode(account).into_vec()?;
    bytes.try_into().map_err(|_| anyhow::anyhow!("{account} has another length"))
}

/// The payer on Solana.
pub fn solana_payer() -> Result<Payer> {
    Payer::on_solana(Role::Payer.solana_key())
}

/// A node that passes everything on to the real one, but can lose transactions: it answers with their signatures and keeps
/// them to itself, as a cluster under load does.
pub struct LossyNode {
    url: String,
    shared: Arc<Shared>,
    _serving: AbortOnDropHandle<()>,
}

struct Shared {
    target: String,
    http: reqwest::Client,
    loses: AtomicBool,
    lost: Mutex<Vec<(String, Value)>>,
}

impl LossyNode {
    /// A node in front of the one on `port`.
    pub async fn start(port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            target: format!("http://127.0.0.1:{port}"),
            http: reqwest::Client::new(),
            loses: AtomicBool::new(false),
            lost: Mutex::default(),
        });
        let routes = Router::new().route("/", post(pass_on)).with_state(shared.clone());
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { url, shared, _serving: AbortOnDropHandle::new(serving) })
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Loses every transaction from now on, or none.
    pub fn lose(&self, loses: bool) {
        self.shared.loses.store(loses, Ordering::SeqCst);
    }

    /// The signatures of the transactions that were lost, in order; one that came again is there again.
    pub fn lost(&self) -> Vec<String> {
        self.shared.lost.lock().unwrap().iter().map(|(signature, _)| signature.clone()).collect()
    }

    /// Brings the transaction that was lost first to the real node.
    pub async fn find_first(&self) -> Result<String> {
        self.find(0).await
    }

    /// The same with the one before which `earlier` were lost.
    pub async fn find(&self, earlier: usize) -> Result<String> {
        let found = self.shared.lost.lock().unwrap().get(earlier).cloned();
        let (signature, call) = found.context("nothing was lost")?;
        let answer: Value = self.shared.http.post(&self.shared.target).json(&call).send().await?.json().await?;
        anyhow::ensure!(answer["result"] == json!(signature), "{answer}");
        Ok(signature)
    }
}

async fn pass_on(State(shared): State<Arc<Shared>>, Json(call): Json<Value>) -> (StatusCode, Json<Value>) {
    if call["method"] == "sendTransaction" && shared.loses.load(Ordering::SeqCst) {
        let Some(signature) = first_signature(&call["params"]) else {
            return (StatusCode::BAD_REQUEST, Json(json!({"error": "no transaction"})));
        };
        shared.lost.lock().unwrap().push((signature.clone(), call.clone()));
        return (StatusCode::OK, Json(json!({"jsonrpc": "2.0", "id": call["id"], "result": signature})));
    }
    let answer = async { shared.http.post(&shared.target).json(&call).send().await?.json::<Value>().await };
    match answer.await {
        Ok(answer) => (StatusCode::OK, Json(answer)),
        Err(error) => (StatusCode::BAD_GATEWAY, Json(json!({"error": error.to_string()}))),
    }
}

/// The first signature of a transaction as `sendTransaction` gets it.
fn first_signature(params: &Value) -> Option<String> {
    let text = params[0].as_str()?;
    let bytes = match params[1]["encoding"].as_str() {
        Some("base64") => BASE64.decode(text.as_bytes()).ok()?,
        _ => bs58::decode(text).into_vec().ok()?,
    };
    // One byte that counts the signatures, then 64 bytes each.
    Some(bs58::encode(bytes.get(1..65)?).into_string())
}
