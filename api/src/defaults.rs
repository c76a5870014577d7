//! `GET /v1/defaults`: per chain, what a request that names nothing else gets (design: HTTP).

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use chains::config::Depth;
use serde::{Deserialize, Serialize};

use events::{Account, AssetId, ChainId, Family, event::VerifierRef};

use super::state::HttpState;
use crate::error::ApiError;
use app::{authorization::MessageScheme, error::Code, request::corridors::Corridor};
use config::DeadlinesConfig;

#[derive(Deserialize)]
pub(super) struct Parameters {
    chain_id: Option<String>,
}

#[derive(Serialize)]
struct DefaultsBody<'a> {
    chains: BTreeMap<&'a str, ChainBody<'a>>,
}

/// One chain. The members that stand in for request fields bear their names.
#[derive(Serialize)]
struct ChainBody<'a> {
    family: Family,
    /// Empty: the gateway selects by itself, as it does for a request that names none.
    quote_selector: &'static str,
    fulfillment_verifier: VerifierBody,
    escrow_contract_address: &'a str,
    fulfillment_proxy: &'a str,
    reserver: &'a str,
    releaser: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    permit2: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature_cluster_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature_domain_version: Option<u8>,
    message_schemes: Vec<&'static str>,
    refund_delay_seconds: u64,
    deadlines: DeadlinesBody,
    required_depth: DepthBody,
    assets: Vec<AssetBody<'a>>,
}

/// The windows of a new payment.
#[derive(Serialize)]
struct DeadlinesBody {
    quote_ms_min: u64,
    quote_seconds_max: u64,
    settlement_ms_min: u64,
    settlement_seconds_max: u64,
    refund_seconds_max: u64,
}

impl From<DeadlinesConfig> for DeadlinesBody {
    fn from(deadlines: DeadlinesConfig) -> Self {
        let DeadlinesConfig {
            quote_ms_min,
            quote_seconds_max,
            settlement_ms_min,
            settlement_seconds_max,
            refund_seconds_max,
        } = deadlines;
        Self { quote_ms_min, quote_seconds_max, settlement_ms_min, settlement_seconds_max, refund_seconds_max }
    }
}

#[derive(Serialize)]
struct VerifierBody {
    account: String,
    endpoint: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum DepthBody {
    Tag(&'static str),
    Blocks(u64),
}

#[derive(Serialize)]
struct AssetBody<'a> {
    asset_identifier: &'a AssetId,
    symbol: &'a str,
    decimals: u8,
}

/// All chains, or the one in `chain_id`.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    parameters: Result<Query<Parameters>, QueryRejection>,
) -> Result<Response, ApiError> {
    let rule = "chain_id: must be given at most once, as a CAIP-2 id";
    let Query(parameters) = parameters.map_err(|_| ApiError::new(Code::INVALID_REQUEST, rule))?;
    let corridors = &state.corridors;
    let Some(chain) = parameters.chain_id else {
        let chains = corridors.iter().map(|(id, corridor)| (id.as_str(), chain_body(&state, corridor)));
        return Ok(Json(DefaultsBody { chains: chains.collect() }).into_response());
    };
    let chain = chain.parse::<ChainId>().ok().and_then(|chain| corridors.get(&chain));
    let corridor = chain.ok_or(Code::CHAIN_NOT_SUPPORTED)?;
    Ok(Json(chain_body(&state, corridor)).into_response())
}

fn chain_body<'a>(state: &HttpState, corridor: &'a Corridor) -> ChainBody<'a> {
    let VerifierRef { account, endpoint } = state.corridors.default_verifier(corridor);
    let assets = corridor.assets.iter().map(|asset| AssetBody {
        asset_identifier: &asset.asset_identifier,
        symbol: &asset.symbol,
        decimals: asset.decimals,
    });
    ChainBody {
        family: corridor.family,
        quote_selector: "",
        fulfillment_verifier: VerifierBody { account, endpoint },
        escrow_contract_address: corridor.escrow.as_str(),
        fulfillment_proxy: corridor.proxy.as_str(),
        reserver: corridor.reserver.as_str(),
        releaser: corridor.releaser.as_str(),
        permit2: corridor.permit2.as_ref().map(Account::as_str),
        signature_cluster_id: corridor.signature_domain.as_ref().map(|(cluster_id, _)| cluster_id.as_str()),
        signature_domain_version: corridor.signature_domain.as_ref().map(|(_, version)| *version),
        message_schemes: corridor.message_schemes().map(MessageScheme::name).collect(),
        refund_delay_seconds: corridor.refund_delay_seconds,
        deadlines: state.deadlines.into(),
        required_depth: match corridor.required_depth {
            Depth::Finalized => DepthBody::Tag("finalized"),
            Depth::Confirmations(blocks) => DepthBody::Blocks(blocks),
        },
        assets: assets.collect(),
    }
}
