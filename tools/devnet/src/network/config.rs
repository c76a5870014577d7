//! The configuration files of the development network's processes.

use anyhow::{Context, Result};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};

use events::{AssetId, ChainId, Did, Family, Hash32, event::VerifierRef};

use super::{Chain, DECIMALS, Network, Verifiers};
use crate::{
    chain::COIN_DECIMALS as EVM_COIN_DECIMALS,
    keys::{self, Role},
    solana::{COIN_DECIMALS, SolanaChain},
    tron::{self, TronChain},
    users::NatsUser,
};

/// Margins of the three settlers in basis points: the first is the cheapest.
const SPREADS_BPS: [u32; 3] = [10, 20, 50];
/// Smallest units of the development token for wei: 3,000 tokens an ETH.
const ETH_RATE: (u64, u64) = (3, 1_000_000_000);
/// Smallest units of the development token for lamports: 150 tokens a SOL.
const COIN_RATE: (u64, u64) = (3, 20);
/// Smallest units of the development token for sun: a quarter of a token a TRX.
const TRX_RATE: (u64, u64) = (1, 4);
/// The settler that wins and never delivers.
const VANISHING: u8 = 3;
/// How soon the settler that fades promises to deliver. It is as cheap as the cheapest, and wins by its promise.
const FADING_PROMISED_SECONDS: u64 = 5;

/// The file of gateway `n`, counted from 0.
pub(super) fn gateway(network: &Network, n: usize, port: u16, projections: &std::path::Path) -> Result<String> {
    let mut chains = Vec::new();
    for chain in network.chains() {
        let mut members = chain_members(network, chain)?;
        members["reserver_key"] = Role::Reserver.secret_hex().into();
        members["submitter_keys"] = json!([Role::Submitter.secret_hex()]);
        chains.push(members);
    }
    if let Some(solana) = &network.solana {
        let mut members = solana_members(network, solana)?;
        members["rpc_url"] = solana.gateway_rpc_url().into();
        members["reserver_key"] = Role::Reserver.solana_secret().into();
        members["submitter_keys"] = json!([Role::Submitter.solana_secret()]);
        chains.push(members);
    }
    if let Some(tron) = &network.tron {
        let mut members = tron_members(network, tron)?;
        members["rpc_url"] = tron.gateway_rpc_url().into();
        members["reserver_key"] = Role::Reserver.secret_hex().into();
        members["submitter_keys"] = json!([Role::Submitter.secret_hex()]);
        chains.push(members);
    }
    let mut nats = nats(network, Some(NatsUser::Gateway))?;
    nats["url"] = network.nats.url_for_gateway(n).into();
    write(&json!({
        "nats": nats,
        "telemetry": telemetry(network),
        "journal": {"replicas": network.nats.replicas()},
        "gateway": {"key": keys::gateway_secret()},
        "audit": {"checkpoint_key": checkpoint_key_hex(), "checkpoint_seconds": 1},
        "http": {"listen": format!("127.0.0.1:{port}"), "base_url": format!("http://127.0.0.1:{port}")},
        "limits": {"exempt": network.options().exempt},
        "projections": {"directory": projections},
        // Blocks settle within seconds here.
        "watchdog": {"grace_seconds": 10, "every_seconds": 1},
        "verifier": verifiers(network),
        "settlers": {"award_ack_ms": network.options().award_ack_ms},
        "trust": {"selectors": [keys::selector_signer().key()]},
        "chains": chains,
    }))
}

/// `[nats]` of a process that may be started anywhere; `user` where its key is in a file.
fn nats(network: &Network, user: Option<NatsUser>) -> Result<Value> {
    let mut members = json!({"url": network.nats.url()});
    if let Some(ca_file) = network.nats.ca_file() {
        members["ca_file"] = json!(ca_file);
    }
    if let Some(user) = user {
        let directory = std::path::absolute(&network.options().directory)?;
        members["seed_file"] = json!(directory.join(user.seed_file()));
    }
    Ok(members)
}

/// `[telemetry]` of whoever sends traces.
fn telemetry(network: &Network) -> Value {
    match &network.options().otlp_endpoint {
        Some(endpoint) => json!({"otlp_endpoint": endpoint}),
        None => json!({}),
    }
}

/// The seed with which the gateways sign checkpoints. Everyone knows it: never use it where money is.
fn checkpoint_key_hex() -> String {
    Hash32::sha256("gw dev checkpoint key").to_string()
}

/// Whose signature under checkpoints an auditor takes.
pub(crate) fn checkpoint_signer() -> Did {
    Did::from_ed25519(&SigningKey::from_bytes(&Hash32::sha256("gw dev checkpoint key").0).verifying_key())
}

/// The auditor's file.
pub(super) fn auditor(network: &Network) -> Result<String> {
    write(&json!({
        "nats": nats(network, Some(NatsUser::Auditor))?,
        "checkpoint_signers": [checkpoint_signer()],
        // A chain shows at once what the journal has a block or two later.
        "lag_seconds": 20,
        "chains": all_chains(network)?,
    }))
}

/// `[verifier]` of the gateway: the single verifier, or the set.
fn verifiers(network: &Network) -> Value {
    let member = |n| {
        let mut member = accounts(network, n);
        member["endpoint"] = network.verifier_endpoint(n).into();
        member
    };
    let Verifiers { members, threshold } = network.options().verifiers;
    match members {
        1 => member(1),
        _ => json!({"threshold": threshold, "members": network.verifier_numbers().map(member).collect::<Vec<_>>()}),
    }
}

/// The accounts of verifier `n` on the chains that there are.
fn accounts(network: &Network, n: u8) -> Value {
    let role = Role::verifier(n);
    let mut accounts = json!({"account": role.account()});
    if network.solana.is_some() {
        accounts["solana_account"] = role.solana_account().into();
    }
    if network.tron.is_some() {
        accounts["tron_account"] = role.tron_account().into();
    }
    accounts
}

/// The file of verifier `n`, counted from 1.
pub(super) fn verifier(network: &Network, n: u8) -> Result<String> {
    let (role, endpoint) = (Role::verifier(n), network.verifier_endpoint(n));
    let mut members = json!({
        "listen": endpoint.trim_start_matches("http://"),
        "telemetry": telemetry(network),
        "releaser_key": role.secret_hex(),
        "callers": {
            "origins": [endpoint],
            "gateways": [keys::gateway_signer().did()],
            "settlers": settler::dev::dids(),
        },
        "chains": all_chains(network)?,
    });
    if network.solana.is_some() {
        members["solana_releaser_key"] = role.solana_secret().into();
    }
    if network.tron.is_some() {
        members["tron_releaser_key"] = role.secret_hex().into();
    }
    if network.options().verifiers.members > 1 {
        let accounts: Vec<_> = network.verifier_numbers().map(|n| accounts(network, n)).collect();
        members["set"] = json!({"threshold": network.options().verifiers.threshold, "members": accounts});
    }
    write(&members)
}

/// The quote selector's file.
pub(super) fn selector(network: &Network) -> Result<String> {
    write(&json!({
        "nats": nats(network, None)?,
        "key": keys::selector_secret(),
        "rule": {"kind": "fastest"},
    }))
}

/// The file of settler `n`, counted from 1.
pub(super) fn settler(network: &Network, n: u8) -> Result<String> {
    let index = usize::from(n) - 1;
    let seed = settler::dev::SEEDS.get(index).context("the network has three settlers")?;
    let mut members = settler_members(network, n, seed, SPREADS_BPS[index])?;
    members["deliver"] = (n != VANISHING).into();
    write(&members)
}

/// The file of the settler that offers the best price and accepts its awards, and that never delivers. It shows the tokens of the first
/// settler, of which it needs none.
pub(super) fn fading_settler(network: &Network) -> Result<String> {
    let mut members = settler_members(network, 1, &NatsUser::Fading.key().to_bytes(), SPREADS_BPS[0])?;
    members["deliver"] = false.into();
    members["quoting"] =
        json!({"delivery_seconds_promised": FADING_PROMISED_SECONDS, "delivery_seconds_min": FADING_PROMISED_SECONDS});
    write(&members)
}

/// What every settler has, with the accounts of settler `n`.
fn settler_members(network: &Network, n: u8, seed: &[u8; 32], spread_bps: u32) -> Result<Value> {
    let mut members = json!({
        "nats": nats(network, None)?,
        "telemetry": telemetry(network),
        "seed": hex::encode(seed),
        "evm_private_key": Role::Settler(n).secret_hex(),
        "chains": all_chains(network)?,
        "corridors": corridors(network, spread_bps)?,
    });
    let mut verifiers = vec![verifier_of(network, network.source.id(), Family::Evm)?];
    if let Some(solana) = &network.solana {
        members["solana_private_key"] = Role::Settler(n).solana_secret().into();
        verifiers.push(verifier_of(network, solana.id()?, Family::Solana)?);
    }
    if let Some(tron) = &network.tron {
        members["tron_private_key"] = Role::Settler(n).secret_hex().into();
        verifiers.push(verifier_of(network, tron.id()?, Family::Tron)?);
    }
    members["verifiers"] = verifiers.into();
    Ok(members)
}

/// The verifier, or the set, that attests for the escrows of a chain.
fn verifier_of(network: &Network, chain: ChainId, family: Family) -> Result<Value> {
    let VerifierRef { account, endpoint, set } = network.verifier(family)?;
    Ok(match set {
        None => json!({"chain_id": chain, "account": account, "endpoint": endpoint}),
        Some(set) => json!({
            "chain_id": chain,
            "account": account,
            "threshold": set.threshold(),
            "members": set.members(),
        }),
    })
}

/// What the settlers trade.
fn corridors(network: &Network, spread_bps: u32) -> Result<Vec<Value>> {
    let pair = |source: AssetId, destination: AssetId| json!({"source_asset": source, "destination_asset": destination, "spread_bps": spread_bps});
    let (source, destination) = (network.source.token()?, network.destination.token()?);
    // What wraps a coin is paid with at the coin's price.
    let wrapped = |asset: AssetId, (tokens, coins): (u64, u64)| {
        let mut wrapped = pair(asset, destination.clone());
        wrapped["rate"] = json!({"source": coins, "destination": tokens});
        wrapped
    };
    let mut pairs = vec![
        pair(source.clone(), destination.clone()),
        pair(network.source.stablecoin()?, destination.clone()),
        pair(network.source.stablecoin()?, source.clone()),
        pair(network.source.wrapped_coin()?, network.destination.wrapped_coin()?),
        pair(network.source.wrapped_coin()?, network.destination.coin()?),
    ];
    let mut eth = pair(source.clone(), network.destination.coin()?);
    eth["rate"] = json!({"source": ETH_RATE.0, "destination": ETH_RATE.1});
    pairs.push(eth);
    if let Some(tron) = &network.tron {
        let mut coin = pair(source.clone(), tron.coin()?);
        coin["rate"] = json!({"source": TRX_RATE.0, "destination": TRX_RATE.1});
        pairs.push(pair(source.clone(), tron.token()?));
        pairs.push(coin);
        pairs.push(pair(tron.token()?, destination.clone()));
        pairs.push(pair(tron.permitted_token()?, destination.clone()));
        pairs.push(wrapped(tron.wrapped_coin()?, TRX_RATE));
    }
    if let (Some(solana), Some(tron)) = (&network.solana, &network.tron) {
        pairs.push(pair(solana.token()?, tron.token()?));
        pairs.push(pair(tron.token()?, solana.token()?));
    }
    if let Some(solana) = &network.solana {
        let mut coin = pair(source.clone(), solana.coin()?);
        coin["rate"] = json!({"source": COIN_RATE.0, "destination": COIN_RATE.1});
        pairs.push(pair(source, solana.token()?));
        pairs.push(coin);
        pairs.push(pair(solana.token()?, destination.clone()));
        pairs.push(wrapped(solana.wrapped_coin()?, COIN_RATE));
        pairs.push(pair(solana.token()?, solana.token_2022()?));
    }
    Ok(pairs)
}

/// All chains, for those who have no keys of a gateway.
fn all_chains(network: &Network) -> Result<Vec<Value>> {
    let mut chains = network.chains().map(|chain| chain_members(network, chain)).collect::<Result<Vec<_>>>()?;
    if let Some(solana) = &network.solana {
        chains.push(solana_members(network, solana)?);
    }
    if let Some(tron) = &network.tron {
        chains.push(tron_members(network, tron)?);
    }
    Ok(chains)
}

/// What every role knows about the Solana chain.
fn solana_members(network: &Network, chain: &SolanaChain) -> Result<Value> {
    Ok(json!({
        "chain_id": chain.id()?,
        "rpc_url": chain.surfnet.url(),
        "escrow_contract": chain.program,
        "fulfillment_proxy": chain.program,
        "signature_cluster_id": chain.surfnet.genesis_hash(),
        "reserver": Role::Reserver.solana_account(),
        "releaser": network.verifier(Family::Solana)?.account,
        "required_depth": "finalized",
        "refund_delay_seconds": network.options().refund_delay_seconds,
        "poll_ms": 200,
        "assets": [
            {"asset_identifier": chain.token()?, "symbol": "DEV", "decimals": DECIMALS},
            {"asset_identifier": chain.token_2022()?, "symbol": "DEV22", "decimals": DECIMALS},
            {"asset_identifier": chain.coin()?, "symbol": "SOL", "decimals": COIN_DECIMALS},
            {"asset_identifier": chain.wrapped_coin()?, "symbol": "WSOL", "decimals": COIN_DECIMALS},
        ],
    }))
}

/// What every role knows about the Tron chain.
fn tron_members(network: &Network, chain: &TronChain) -> Result<Value> {
    Ok(json!({
        "chain_id": chain.id()?,
        "rpc_url": chain.node.url(),
        "escrow_contract": chain.contracts.escrow,
        "fulfillment_proxy": chain.contracts.proxy,
        "permit2": chain.contracts.permit2,
        "deposit_address_factory": chain.contracts.deposit_address_factory,
        "reserver": Role::Reserver.tron_account(),
        "releaser": network.verifier(Family::Tron)?.account,
        "required_depth": "finalized",
        "refund_delay_seconds": network.options().refund_delay_seconds,
        "poll_ms": 200,
        "assets": [
            {"asset_identifier": chain.token()?, "symbol": "DEV", "decimals": DECIMALS},
            {"asset_identifier": chain.permitted_token()?, "symbol": "dUSDT", "decimals": DECIMALS},
            {"asset_identifier": chain.coin()?, "symbol": "TRX", "decimals": tron::COIN_DECIMALS},
            {
                "asset_identifier": chain.wrapped_coin()?,
                "symbol": "WTRX",
                "decimals": tron::COIN_DECIMALS,
                "wraps": chain.coin()?,
            },
        ],
    }))
}

/// What every role knows about an EVM chain.
fn chain_members(network: &Network, chain: &Chain) -> Result<Value> {
    Ok(json!({
        "chain_id": chain.id(),
        "rpc_url": chain.anvil.url(),
        "escrow_contract": chain.contracts.escrow,
        "fulfillment_proxy": chain.contracts.proxy,
        "permit2": chain.contracts.permit2,
        "reserver": Role::Reserver.account(),
        "releaser": network.verifier(Family::Evm)?.account,
        "required_depth": network.options().depth,
        "refund_delay_seconds": network.options().refund_delay_seconds,
        "admission_seconds": 15,
        "reprice_seconds": 5,
        "poll_ms": 200,
        "assets": [
            {"asset_identifier": chain.token()?, "symbol": "DEV", "decimals": DECIMALS},
            {"asset_identifier": chain.stablecoin()?, "symbol": "dUSDC", "decimals": DECIMALS},
            {"asset_identifier": chain.coin()?, "symbol": "ETH", "decimals": EVM_COIN_DECIMALS},
            {
                "asset_identifier": chain.wrapped_coin()?,
                "symbol": "WETH",
                "decimals": EVM_COIN_DECIMALS,
                "wraps": chain.coin()?,
            },
        ],
    }))
}

fn write(members: &Value) -> Result<String> {
    let heading =
        "# Written by `gw-dev` for a development network. The keys are published: never use them elsewhere.\n\n";
    Ok(format!("{heading}{}", toml::to_string_pretty(members)?))
}
