//! The beginning of a world's chain: who has what.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use alloy::{primitives::U256, sol_types::SolCall};

use chains::config::{AssetConfig, CommonConfig, Depth, TronConfig};
use chains_tron::{
    address::{account, text},
    settler::SettlerChain,
};
use escrow_abi::contracts::DevToken;
use events::{Account, AssetId};
use trondev::SUN_PER_TRX;

use super::{
    chain::{BLOCK_MS, SimTron, TronError},
    family::{ENERGY_PRICE_SUN, TronWorld, known},
    template::Template,
    transport::TronTransport,
};
use crate::family::{Allows, BEGIN, Beginning, FamilyChain, REFUND_DELAY, SetupError, secp256k1};

/// TRX of everybody who sends transactions, in sun.
const COINS: u64 = 1_000_000 * SUN_PER_TRX;
/// The number of the first chain; that of its neighbour is one more.
const NUMBER: u32 = 2_494_104_990;
/// Nodes that a party asks where it does not trust one.
const NODES: usize = 3;
/// So many seconds before the world begins the contracts are deployed.
const DEPLOYED_BEFORE: u64 = 3_600;

impl From<TronError> for SetupError {
    fn from(error: TronError) -> Self {
        Self::Connect(error.to_string())
    }
}

/// The chain with the number of `index` as it is before anybody has anything: contracts are deployed once.
fn template(index: usize) -> Result<Arc<Template>, SetupError> {
    static TEMPLATES: Mutex<BTreeMap<usize, Arc<Template>>> = Mutex::new(BTreeMap::new());
    let mut templates = TEMPLATES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(template) = templates.get(&index) {
        return Ok(template.clone());
    }
    let number = u32::try_from(index).ok().and_then(|index| NUMBER.checked_add(index));
    let number = number.ok_or_else(|| SetupError::Connect("there are not so many Tron chains".to_owned()))?;
    let (reserver, deployer) = (secp256k1("reserver").address(), secp256k1("deployer"));
    let template = Arc::new(Template::new(number, BEGIN - DEPLOYED_BEFORE, reserver, deployer)?);
    templates.insert(index, template.clone());
    Ok(template)
}

/// A Tron chain at the run's beginning, with everybody's money on it.
///
/// # Errors
/// [`SetupError`].
pub fn begin(beginning: &Beginning<'_>) -> Result<Arc<dyn FamilyChain>, SetupError> {
    let template = template(beginning.index)?;
    let mut chain = template.start();
    let contracts = chain.contracts().clone();
    let mut mint = |to, tokens: u64| {
        let call = DevToken::mintCall { to, amount: U256::from(tokens) };
        chain.submit(template.deployer(), contracts.token, 0, call.abi_encode())
    };
    for party in beginning.parties.iter().filter(|party| party.tokens > 0) {
        mint(secp256k1(&party.name).address(), party.tokens)?;
    }
    chain.mine(chain.head().time_ms + BLOCK_MS)?;
    for party in beginning.parties {
        let signer = secp256k1(&party.name);
        let spender = match party.allows {
            Allows::Deposits => Some(contracts.escrow),
            Allows::Deliveries => Some(contracts.proxy),
            Allows::Nobody => None,
        };
        if party.has_coins || spender.is_some() {
            chain.fund(signer.address(), COINS);
        }
        if let Some(spender) = spender {
            let call = DevToken::approveCall { spender, value: U256::MAX };
            chain.submit(&signer, contracts.token, 0, call.abi_encode())?;
        }
    }
    let begin_ms = i64::try_from(beginning.time.saturating_mul(1_000)).unwrap_or(i64::MAX);
    chain.mine(begin_ms)?;
    if let Some(failed) = chain.mined().iter().find(|mined| !mined.succeeded()) {
        return Err(SetupError::Connect(format!("the beginning fails: {failed:?}")));
    }
    chain.set_solidified_lag(beginning.plan.depth);
    chain.set_energy_price(ENERGY_PRICE_SUN);
    // Most nodes of the network show what waits; a few answer after blocks alone.
    chain.show_pending(!beginning.plan.depth.is_multiple_of(3));
    let (config, token, coin) = configured(&chain, &beginning.releaser)?;
    let chain = chain.shared();
    let node = TronTransport::honest(chain.clone()).connect(&config);
    let node = node.map_err(|error| SetupError::Connect(error.to_string()))?;
    let reader = SettlerChain::new(node, secp256k1("stranger"));
    let rich = beginning.parties.iter().filter(|party| party.has_coins).map(|party| party.name.clone());
    Ok(Arc::new(TronWorld {
        contracts,
        config,
        token,
        coin,
        reader,
        chain,
        depth: beginning.plan.depth,
        rich: rich.collect(),
        // Where blocks come slowly, parties ask several nodes.
        nodes: if beginning.plan.block > 3 { NODES } else { 1 },
        troubles: Mutex::default(),
        signed: Mutex::default(),
    }))
}

/// How everybody is configured for the chain, its token and its coin.
fn configured(chain: &SimTron, releaser: &Account) -> Result<(TronConfig, AssetId, AssetId), SetupError> {
    let (contracts, chain_id) = (chain.contracts(), chain.chain_id()?);
    let asset = |text: String| text.parse::<AssetId>().map_err(|error| SetupError::Connect(error.to_string()));
    let token = asset(format!("{chain_id}/trc20:{}", text(contracts.token)))?;
    let coin = asset(format!("{chain_id}/slip44:195"))?;
    let listed = AssetConfig { asset_identifier: token.clone(), symbol: "SUSD".to_owned(), decimals: 6, wraps: None };
    let contract = |address| account(address).ok_or_else(|| SetupError::Connect("a contract at zero".to_owned()));
    let common = CommonConfig {
        rpc_url: format!("simulation:{chain_id}"),
        rpc_urls: Vec::new(),
        escrow_contract: contract(contracts.escrow)?,
        fulfillment_proxy: contract(contracts.proxy)?,
        trusted_escrow_contracts: Vec::new(),
        trusted_fulfillment_proxies: Vec::new(),
        reserver: known(secp256k1("reserver").address()),
        releaser: releaser.clone(),
        required_depth: Depth::Finalized,
        refund_delay_seconds: REFUND_DELAY,
        submitter_deposits_warning: 1,
        exits_reserved: 2,
        ws_url: None,
        poll_ms: 1_000,
        rpc_timeout_ms: 2_000,
        assets: vec![listed],
        chain_id,
    };
    Ok((
        TronConfig {
            common,
            api_key: None,
            permit2: None,
            permit2_code: None,
            deposit_address_factory: None,
            deposit_returns_daily_max: 0,
        },
        token,
        coin,
    ))
}
