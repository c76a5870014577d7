//! API methods about accounts.

use serde_json::{Value, json};

use super::{
    Shared, lock,
    request::{ApiError, Request},
    shape::{self, Object},
};
use crate::{
    Address,
    chain::{Account, ChainView, free_used},
};

/// What all of a network's accounts share of bandwidth in a day, as the main network says.
const TOTAL_NET: u64 = 43_200_000_000;
/// The same of energy.
const TOTAL_ENERGY: u64 = 180_000_000_000;

pub(super) fn account(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let address = request.required_address("address")?;
    let found = lock(chain).state(request.view).get(address).cloned();
    Ok(found.map_or_else(|| json!({}), |account| shown(address, &account, request.visible)))
}

fn shown(address: Address, account: &Account, visible: bool) -> Value {
    let at = shape::address(address, visible);
    let keys = json!([{ "address": at, "weight": 1 }]);
    let object = Object::default()
        .put("address", at)
        .number("balance", account.balance)
        .number("create_time", account.created_at)
        .number("latest_opration_time", account.last_operation)
        .number("free_net_usage", account.free_used)
        .number("latest_consume_free_time", account.free_used_at)
        .put("net_window_size", 28_800_000)
        .put("net_window_optimized", true)
        .put("account_resource", json!({ "energy_window_size": 28_800_000, "energy_window_optimized": true }));
    if account.is_contract() {
        return object.put("type", "Contract").value();
    }
    object.put("owner_permission", json!({ "permission_name": "owner", "threshold": 1, "keys": keys })).value()
}

pub(super) fn bandwidth(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    Ok(net(chain, request)?.map_or_else(|| json!({}), Object::value))
}

pub(super) fn resources(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let object = net(chain, request)?.map(|object| {
        object.number("TotalEnergyLimit", TOTAL_ENERGY).number("TotalEnergyWeight", TOTAL_ENERGY).value()
    });
    Ok(object.unwrap_or_else(|| json!({})))
}

fn net(chain: &Shared, request: &Request) -> Result<Option<Object>, ApiError> {
    let address = request.required_address("address")?;
    let chain = lock(chain);
    let now = chain.now();
    Ok(chain.state(ChainView::Head).get(address).map(|account| {
        Object::default()
            .number("freeNetUsed", free_used(account, now))
            .number("freeNetLimit", chain.options.free_bandwidth)
            .number("TotalNetLimit", TOTAL_NET)
            .number("TotalNetWeight", TOTAL_NET)
    }))
}

/// `validateaddress`: in either form, whatever `visible` says.
pub(super) fn validate(_chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let text = request.text("address").unwrap_or_default();
    let (valid, message) = match text.len() {
        42 => (Address::from_hex(text), "Hex string format"),
        _ => (Address::from_base58(text), "Base58check format"),
    };
    Ok(match valid {
        Ok(_) => json!({ "result": true, "message": message }),
        Err(error) => json!({ "result": false, "message": error.to_string() }),
    })
}
