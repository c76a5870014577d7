//! `GET /x402/v1/supported`: each source network, and what a merchant needs to ask for payments from it.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, extract::State};
use serde::Serialize;

use events::{AssetId, ChainId};

use super::{PAYMENT_IDENTIFIER, SCHEME, VERSION, is_source};
use crate::state::HttpState;
use app::{
    authorization::MessageScheme,
    request::corridors::{Corridor, Corridors},
};

/// Body of the 200.
#[derive(Debug, Serialize)]
pub(crate) struct SupportedBody {
    kinds: Vec<Kind>,
    extensions: [&'static str; 1],
    /// Per network the accounts that sign for the gateway.
    signers: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    // The published name has a small x and a capital V.
    #[serde(rename = "x402Version")]
    version: u64,
    scheme: &'static str,
    network: String,
    extra: Extra,
}

#[derive(Debug, Serialize)]
struct Extra {
    gw: Gw,
}

/// What stands in `extra.gw` of a requirement from this network, and what its payers need.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Gw {
    escrow: String,
    reserver: String,
    releaser: String,
    fulfillment_verifier_endpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    permit2: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    svm_signature_cluster_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    svm_signature_domain_version: Option<u8>,
    message_schemes: Vec<&'static str>,
    refund_delay_seconds: u64,
    /// Address of this service.
    gateway: String,
    assets: Vec<Asset>,
    destinations: Vec<Target>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    network: String,
    fulfillment_proxy: String,
    refund_delay_seconds: u64,
    assets: Vec<Asset>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Asset {
    asset: String,
    asset_identifier: AssetId,
    symbol: String,
    decimals: u8,
}

/// What can be paid with, and where to.
pub(crate) async fn handle(State(state): State<Arc<HttpState>>) -> Json<SupportedBody> {
    let corridors = &state.corridors;
    // A payment is made in a token; the coins of a chain can only be received.
    let sources = || {
        let has_token = |corridor: &Corridor| corridor.assets.iter().any(|asset| is_token(&asset.asset_identifier));
        corridors.iter().filter(move |(_, corridor)| is_source(corridor.family) && has_token(corridor))
    };
    let kinds = sources().map(|(chain, corridor)| Kind {
        version: VERSION,
        scheme: SCHEME,
        network: chain.to_string(),
        extra: Extra { gw: gw(corridor, corridors, &state.http.base_url) },
    });
    let signers = sources().map(|(chain, corridor)| (chain.to_string(), signers(corridor)));
    Json(SupportedBody { kinds: kinds.collect(), extensions: [PAYMENT_IDENTIFIER], signers: signers.collect() })
}

fn is_token(asset: &AssetId) -> bool {
    asset.namespace() != "slip44"
}

fn signers(corridor: &Corridor) -> Vec<String> {
    let mut signers = vec![corridor.reserver.to_string(), corridor.releaser.to_string()];
    signers.dedup();
    signers
}

fn gw(corridor: &Corridor, corridors: &Corridors, base_url: &str) -> Gw {
    let verifier = corridors.default_verifier(corridor);
    let domain = corridor.signature_domain.as_ref();
    Gw {
        escrow: corridor.escrow.to_string(),
        reserver: corridor.reserver.to_string(),
        releaser: verifier.account,
        fulfillment_verifier_endpoint: verifier.endpoint,
        permit2: corridor.permit2.as_ref().map(ToString::to_string),
        svm_signature_cluster_id: domain.map(|(cluster_id, _)| cluster_id.clone()),
        svm_signature_domain_version: domain.map(|(_, version)| *version),
        message_schemes: corridor.message_schemes().map(MessageScheme::name).collect(),
        refund_delay_seconds: corridor.refund_delay_seconds,
        gateway: base_url.to_owned(),
        assets: assets(corridor).into_iter().filter(|asset| is_token(&asset.asset_identifier)).collect(),
        destinations: corridors.iter().map(|(chain, target)| destination(chain, target)).collect(),
    }
}

fn destination(chain: &ChainId, corridor: &Corridor) -> Target {
    Target {
        network: chain.to_string(),
        fulfillment_proxy: corridor.proxy.to_string(),
        refund_delay_seconds: corridor.refund_delay_seconds,
        assets: assets(corridor),
    }
}

fn assets(corridor: &Corridor) -> Vec<Asset> {
    let asset = |asset: &chains::config::AssetConfig| Asset {
        asset: asset.asset_identifier.reference().to_owned(),
        asset_identifier: asset.asset_identifier.clone(),
        symbol: asset.symbol.clone(),
        decimals: asset.decimals,
    };
    corridor.assets.iter().map(asset).collect()
}
