//! The configuration files of the development network's processes.

use anyhow::{Context, Result};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};

use events::{Did, Hash32};

use super::{
    keys::{self, Role},
    network::{Chain, DECIMALS, Network, nats_password},
};

/// Margins of the three settlers in basis points: the first is the cheapest.
const SPREADS_BPS: [u32; 3] = [10, 20, 50];
/// The settler that wins and never delivers.
const VANISHING: u8 = 3;

/// The gateway's file.
pub(super) fn gateway(network: &Network, port: u16, projections: &std::path::Path) -> Result<String> {
    let chains = network.chains().map(|chain| {
        let mut members = chain_members(network, chain)?;
        members["reserver_key"] = Role::Reserver.secret_hex().into();
        members["submitter_keys"] = json!([Role::Submitter.secret_hex()]);
        Ok(members)
    });
    write(&json!({
        "nats": {"url": network.nats.url(), "user": "gateway", "password": nats_password("GATEWAY")},
        "journal": {"replicas": network.nats.replicas()},
        "audit": {"checkpoint_key": checkpoint_key_hex(), "checkpoint_seconds": 1},
        "http": {"listen": format!("127.0.0.1:{port}"), "base_url": format!("http://127.0.0.1:{port}")},
        "projections": {"directory": projections},
        // Blocks settle within seconds here.
        "watchdog": {"grace_seconds": 10, "every_seconds": 1},
        "verifier": {"account": Role::Releaser.account(), "endpoint": network.verifier_endpoint()},
        "trust": {"selectors": [keys::selector_signer().key()]},
        "chains": chains.collect::<Result<Vec<_>>>()?,
    }))
}

/// The seed with which the gateways sign checkpoints. Everyone knows it: never use it where money is.
fn checkpoint_key_hex() -> String {
    Hash32::sha256("gw dev checkpoint key").to_string()
}

/// The auditor's file.
pub(super) fn auditor(network: &Network) -> Result<String> {
    let key = SigningKey::from_bytes(&Hash32::sha256("gw dev checkpoint key").0);
    let chains = network.chains().map(|chain| chain_members(network, chain));
    write(&json!({
        "nats": {"url": network.nats.url(), "password": nats_password("AUDITOR")},
        "checkpoint_signers": [Did::from_ed25519(&key.verifying_key())],
        // A chain shows at once what the journal has a block or two later.
        "lag_seconds": 20,
        "chains": chains.collect::<Result<Vec<_>>>()?,
    }))
}

/// The verifier's file.
pub(super) fn verifier(network: &Network, port: u16) -> Result<String> {
    let chains = network.chains().map(|chain| chain_members(network, chain));
    write(&json!({
        "listen": format!("127.0.0.1:{port}"),
        "releaser_key": Role::Releaser.secret_hex(),
        "chains": chains.collect::<Result<Vec<_>>>()?,
    }))
}

/// The quote selector's file.
pub(super) fn selector(network: &Network) -> Result<String> {
    write(&json!({
        "nats": {"url": network.nats.url(), "user": "selector_1", "password": nats_password("SELECTOR_1")},
        "key": keys::selector_secret(),
        "rule": {"kind": "fastest"},
    }))
}

/// The file of settler `n`, counted from 1.
pub(super) fn settler(network: &Network, n: u8) -> Result<String> {
    let index = usize::from(n) - 1;
    let seed = settler::dev::SEEDS.get(index).context("the network has three settlers")?;
    let chains = network.chains().map(|chain| chain_members(network, chain));
    write(&json!({
        "nats": {
            "url": network.nats.url(),
            "user": format!("settler_{n}"),
            "password": nats_password(&format!("SETTLER_{n}")),
        },
        "seed": hex::encode(seed),
        "evm_private_key": Role::Settler(n).secret_hex(),
        "deliver": n != VANISHING,
        "chains": chains.collect::<Result<Vec<_>>>()?,
        "verifiers": [{
            "chain_id": network.source.id(),
            "account": Role::Releaser.account(),
            "endpoint": network.verifier_endpoint(),
        }],
        "corridors": [{
            "source_asset": network.source.token()?,
            "destination_asset": network.destination.token()?,
            "spread_bps": SPREADS_BPS[index],
        }],
    }))
}

/// What every role knows about a chain.
fn chain_members(network: &Network, chain: &Chain) -> Result<Value> {
    Ok(json!({
        "chain_id": chain.id(),
        "rpc_url": chain.anvil.url(),
        "escrow_contract": chain.contracts.escrow,
        "fulfillment_proxy": chain.contracts.proxy,
        "permit2": chain.contracts.permit2,
        "reserver": Role::Reserver.account(),
        "releaser": Role::Releaser.account(),
        "required_depth": network.options().depth,
        "refund_delay_seconds": network.options().refund_delay_seconds,
        "admission_seconds": 15,
        "reprice_seconds": 5,
        "poll_ms": 200,
        "assets": [{"asset_identifier": chain.token()?, "symbol": "DEV", "decimals": DECIMALS}],
    }))
}

fn write(members: &Value) -> Result<String> {
    let heading =
        "# Written by `gw dev` for a development network. The keys are published: never use them elsewhere.\n\n";
    Ok(format!("{heading}{}", toml::to_string_pretty(members)?))
}
