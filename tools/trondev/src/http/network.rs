//! API methods about the network and its prices.

use serde_json::{Value, json};

use super::{
    Shared, lock,
    request::{ApiError, Request},
    shape,
};
use crate::{
    chain::{ChainView, MEMO_SUN, NEW_ACCOUNT_NET_SUN},
    options::SUN_PER_TRX,
};

/// Votes are counted every six hours on Tron, and never here.
const MAINTENANCE_MS: i64 = 6 * 60 * 60 * 1000;

pub(super) fn parameters(chain: &Shared, _request: &Request) -> Result<Value, ApiError> {
    let options = lock(chain).options.clone();
    let parameters = [
        ("getMaintenanceTimeInterval", MAINTENANCE_MS.unsigned_abs()),
        ("getTransactionFee", options.bandwidth_price_sun),
        ("getCreateAccountFee", NEW_ACCOUNT_NET_SUN),
        ("getCreateNewAccountFeeInSystemContract", SUN_PER_TRX),
        ("getCreateNewAccountBandwidthRate", 1),
        ("getEnergyFee", options.energy_price_sun),
        ("getMaxFeeLimit", options.fee_limit_max_sun),
        ("getFreeNetLimit", options.free_bandwidth),
        ("getMemoFee", MEMO_SUN),
        ("getForbidTransferToContract", 1),
    ];
    let shown: Vec<Value> = parameters.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
    Ok(json!({ "chainParameter": shown }))
}

pub(super) fn energy_prices(chain: &Shared, _request: &Request) -> Result<Value, ApiError> {
    Ok(json!({ "prices": format!("0:{}", lock(chain).options.energy_price_sun) }))
}

pub(super) fn bandwidth_prices(chain: &Shared, _request: &Request) -> Result<Value, ApiError> {
    Ok(json!({ "prices": format!("0:{}", lock(chain).options.bandwidth_price_sun) }))
}

pub(super) fn node_info(chain: &Shared, _request: &Request) -> Result<Value, ApiError> {
    let chain = lock(chain);
    let named = |view| {
        let block = chain.newest(view);
        format!("Num:{},ID:{}", block.number(), block.id)
    };
    Ok(json!({
        "block": named(ChainView::Head),
        "solidityBlock": named(ChainView::Solidified),
        "currentConnectCount": 0,
        "peerList": [],
        "configNodeInfo": {
            "codeVersion": concat!("trondev ", env!("CARGO_PKG_VERSION"), ", a development tool and no Tron node"),
            "supportConstant": true,
        },
    }))
}

/// There are no peers.
pub(super) fn nodes(_chain: &Shared, _request: &Request) -> Result<Value, ApiError> {
    Ok(json!({}))
}

pub(super) fn witnesses(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let shown: Vec<Value> = lock(chain)
        .witnesses()
        .iter()
        .map(|witness| json!({ "address": shape::address(witness.address, request.visible), "isJobs": true }))
        .collect();
    Ok(json!({ "witnesses": shown }))
}

pub(super) fn maintenance(chain: &Shared, _request: &Request) -> Result<Value, ApiError> {
    let now = lock(chain).now();
    Ok(json!({ "num": (now / MAINTENANCE_MS + 1) * MAINTENANCE_MS }))
}
