//! A chain of the simulated world: its beginning, and the handle through which everybody reaches it.

use std::{
    path::PathBuf,
    sync::{Arc, MutexGuard, OnceLock, PoisonError},
};

use alloy::{
    consensus::{SignableTransaction, TxEip1559, TxEnvelope},
    eips::eip2718::Encodable2718,
    primitives::{Address, Bytes, U256, keccak256},
    signers::{SignerSync, local::PrivateKeySigner},
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use chains::config::{Depth, EvmConfig};
use chains_evm::node::Node;
use escrow_abi::contracts::text;
use events::{Account, AssetId, ChainId};

use super::{BEGIN, REFUND_DELAY, RPC_TIMEOUT, TOKENS, client, settlers::Settler};
use crate::{
    chain::{Contracts, Genesis, NodeKind, RpcOutcome, SharedChain, SimChain, SimTransport, Template},
    plan::{Funding, Plan},
};

/// Coins of every account that sends transactions, in wei.
const COINS: u128 = 1_000_000_000_000_000_000_000;
/// Gas limit of every transaction that is not the gateway's.
const GAS: u64 = 500_000;
/// Tip of every transaction that is not the gateway's, wei per unit of gas.
const TIP: u128 = 2_000_000_000;

/// Why a world cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The artefact of Permit2 is missing.
    #[error("{path} cannot be read ({error}): run `scripts/tools.sh run`")]
    Permit2 {
        /// Where it should be.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A chain refuses to begin as planned.
    #[error(transparent)]
    Chain(#[from] crate::chain::SimError),
    /// A chain cannot be connected to.
    #[error("{0}")]
    Connect(String),
}

/// The key of the party with this name.
pub fn signer(name: &str) -> PrivateKeySigner {
    let mut key = keccak256(format!("simulation: {name}"));
    // A hash that is not a valid key is as unlikely as a collision; the next one is valid.
    loop {
        match PrivateKeySigner::from_bytes(&key) {
            Ok(signer) => return signer,
            Err(_) => key = keccak256(key),
        }
    }
}

pub(super) fn templates() -> Result<&'static [Template; 2], SetupError> {
    static TEMPLATES: OnceLock<[Template; 2]> = OnceLock::new();
    if let Some(templates) = TEMPLATES.get() {
        return Ok(templates);
    }
    let home = std::env::var_os("GW_HOME").map(PathBuf::from);
    let home = home.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
    let path = home.join(".tools/permit2/Permit2.json");
    let permit2 = std::fs::read(&path).map_err(|error| SetupError::Permit2 { path, error })?;
    let make = |evm_id| {
        let tokens = vec![("Simulated Dollar".to_owned(), "SUSD".to_owned(), 6)];
        let (reserver, releaser) = (signer("reserver").address(), signer("releaser").address());
        Template::new(&Genesis { evm_id, reserver, releaser, tokens }, &permit2)
    };
    let made = [make(1)?, make(10)?];
    Ok(TEMPLATES.get_or_init(|| made))
}

/// A handle to one chain: its ids, contracts and configuration, and an honest connection.
#[derive(Clone)]
pub struct ChainHandle {
    /// Its CAIP-2 id.
    pub chain_id: ChainId,
    /// Its EIP-155 id.
    pub evm_id: u64,
    /// The contracts on it.
    pub contracts: Contracts,
    /// How the gateway, the verifier and the settlers are configured for it.
    pub config: EvmConfig,
    /// The token that is paid with.
    pub token: AssetId,
    /// Its own coin.
    pub coin: AssetId,
    /// Notified at each new block.
    pub blocks: Arc<Notify>,
    /// An honest connection, for the world's own use.
    pub node: Node,
    chain: SharedChain,
}

impl ChainHandle {
    /// The chain.
    pub fn lock(&self) -> MutexGuard<'_, SimChain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a transaction of `signer`, priced for the next blocks.
    ///
    /// # Errors
    /// The message of the node that refuses it.
    pub fn send(&self, signer: &PrivateKeySigner, to: Address, value: U256, data: Bytes) -> Result<(), String> {
        let mut chain = self.lock();
        let mut ask = |method: &str, params: Value| {
            chain.rpc(&NodeKind::Honest, method, &params).map_err(|fault| fault.to_string())
        };
        let number = |value: Value| {
            let digits = value.as_str().unwrap_or_default().trim_start_matches("0x").to_owned();
            u64::from_str_radix(&digits, 16).map_err(|error| error.to_string())
        };
        let nonce = number(ask("eth_getTransactionCount", json!([signer.address(), "pending"]))?)?;
        let head = ask("eth_getBlockByNumber", json!(["latest", false]))?;
        let base = number(head.get("baseFeePerGas").cloned().unwrap_or_default())?;
        let transaction = TxEip1559 {
            chain_id: self.evm_id,
            nonce,
            gas_limit: GAS,
            max_fee_per_gas: u128::from(base) * 2 + TIP,
            max_priority_fee_per_gas: TIP,
            to: to.into(),
            value,
            input: data,
            ..TxEip1559::default()
        };
        let signature = signer.sign_hash_sync(&transaction.signature_hash()).map_err(|error| error.to_string())?;
        let raw: Bytes = TxEnvelope::from(transaction.into_signed(signature)).encoded_2718().into();
        ask("eth_sendRawTransaction", json!([raw])).map(|_| ())
    }

    /// A connection whose calls end as `faults` says.
    pub fn connect(&self, faults: impl FnMut(&str) -> RpcOutcome + Send + 'static) -> Result<Node, SetupError> {
        let transport = SimTransport::new(self.chain.clone(), RPC_TIMEOUT, faults);
        transport.connect(&self.config).map_err(|error| SetupError::Connect(error.to_string()))
    }
}

/// The chain of `template` at the run's beginning, with everybody's money on it; payments are released by `releaser`.
pub(super) fn chain_handle(
    template: &Template,
    plan: &Plan,
    index: usize,
    settlers: &[Settler],
    releaser: &Account,
) -> Result<ChainHandle, SetupError> {
    let mut chain = template.start(BEGIN - 1);
    let chain_plan = plan.chains[index];
    chain.set_lags(chain_plan.depth.min(2), chain_plan.depth);
    let contracts = chain.contracts().clone();
    let token = contracts.tokens[0];
    let coins = U256::from(COINS);
    for submitter in 0..plan.submitters {
        chain.fund(signer(&format!("submitter {submitter}")).address(), coins)?;
    }
    for settler in settlers {
        let account = settler.signer.address();
        chain.fund(account, coins)?;
        chain.mint(token, account, U256::from(TOKENS))?;
        chain.approve(account, token, contracts.proxy, U256::MAX)?;
    }
    let third_party = signer("stranger").address();
    chain.fund(third_party, coins)?;
    chain.mint(token, third_party, U256::from(TOKENS))?;
    chain.approve(third_party, token, contracts.proxy, U256::MAX)?;
    for (number, payment) in plan.payments.iter().enumerate() {
        let payer = client::payer(&plan.payments, number).address();
        if chain.coins(payer).is_zero() {
            chain.fund(payer, coins)?;
            chain.mint(token, payer, U256::from(TOKENS))?;
        }
        if payment.funding != Funding::NoAllowance {
            chain.approve(payer, token, contracts.permit2, U256::MAX)?;
        }
    }
    let depth = match chain_plan.by_tag {
        true => Depth::Finalized,
        false => Depth::Confirmations(chain_plan.depth),
    };
    let mut config = chain.config(depth, REFUND_DELAY);
    config.common.releaser = releaser.clone();
    config.admission_seconds = 60;
    config.reprice_seconds = 10;
    let (evm_id, chain_id) = (chain.evm_id(), config.common.chain_id.clone());
    let asset = |text: String| text.parse::<AssetId>().map_err(|error| SetupError::Connect(error.to_string()));
    let token = asset(format!("{chain_id}/erc20:{}", text(token)))?;
    let coin = asset(format!("{chain_id}/slip44:60"))?;
    let shared = chain.shared();
    let honest = SimTransport::new(shared.clone(), RPC_TIMEOUT, |_: &str| RpcOutcome::Deliver(NodeKind::Honest));
    let node = honest.connect(&config).map_err(|error| SetupError::Connect(error.to_string()))?;
    let blocks = Arc::new(Notify::new());
    Ok(ChainHandle { chain_id, evm_id, contracts, config, token, coin, blocks, node, chain: shared })
}
