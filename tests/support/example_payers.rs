//! Example payers: how tests run one of `examples/`, and `/v1/defaults` that are not to be believed.

use std::process::Output;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::process::Command;

use devnet::keys::Role;

use super::{PATIENCE, tampering_proxy::Change};

/// Where a payer asks for contracts and accounts.
pub const DEFAULTS: &str = "/v1/defaults";

/// Runs a payer for an order, through the gateway and the node at these addresses.
pub async fn pay(mut payer: Command, gateway: &str, node: &str, key: &str, order: &Value) -> Result<Output> {
    let directory = tempfile::tempdir()?;
    let files = [directory.path().join("key"), directory.path().join("order.json")];
    std::fs::write(&files[0], key)?;
    std::fs::write(&files[1], order.to_string())?;
    let command = payer.args([gateway, node]).args(files).kill_on_drop(true);
    Ok(tokio::time::timeout(PATIENCE, command.output()).await??)
}

/// The environment of a payer who knows the escrow and its accounts without asking a gateway; `account` is the form that a role's
/// account has there.
pub fn pins(escrow: &str, account: fn(Role) -> String) -> [(&'static str, String); 3] {
    [("ESCROW", escrow.to_owned()), ("RESERVER", account(Role::Reserver)), ("RELEASER", account(Role::Releaser))]
}

/// What a gateway might name, and what a payer with pins answers before it has sent anything.
pub const FALSE_DEFAULTS: [(Change, &str); 4] = [
    (|defaults| put_for(defaults, "escrow_contract_address", "releaser"), "the gateway names another ESCROW"),
    (|defaults| put_for(defaults, "reserver", "releaser"), "the gateway names another RESERVER"),
    (|defaults| put_for(defaults, "releaser", "reserver"), "the gateway names another RELEASER"),
    (
        |defaults| {
            defaults["refund_delay_seconds"] = json!(7_200);
            Ok(())
        },
        "LOCK_SECONDS_MAX is 7200",
    ),
];

/// Names one account in the place of another.
fn put_for(defaults: &mut Value, member: &str, other: &str) -> Result<()> {
    defaults[member] = defaults.get(other).with_context(|| format!("no {other}"))?.clone();
    Ok(())
}

/// Says of every token that it is the wrapped form of a coin.
pub fn wrap_everything(defaults: &mut Value) -> Result<()> {
    for asset in defaults["assets"].as_array_mut().context("no assets")? {
        asset["wraps"] = json!("eip155:31337/slip44:60");
    }
    Ok(())
}
