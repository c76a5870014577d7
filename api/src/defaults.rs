//! `GET /v1/defaults`: per chain, what a request that names nothing else gets (design: HTTP).

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use app::{
    authorization::MessageScheme, error::Code, request::corridors::Corridor, schema, views::verifier::VerifierBody,
};
use chains::config::Depth;
use config::DeadlinesConfig;
use events::{Account, AssetId, ChainId, Family};

use super::state::HttpState;
use crate::error::ApiError;

#[derive(Deserialize)]
pub(super) struct Parameters {
    chain_id: Option<String>,
}

/// Every chain that is served.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Defaults")]
pub(super) struct DefaultsBody<'a> {
    /// By CAIP-2 id.
    #[schemars(extend("propertyNames" = {"pattern": schema::CHAIN_ID_PATTERN}))]
    chains: BTreeMap<&'a str, ChainBody<'a>>,
}

/// What a request on this chain gets that names nothing else.
// The members that stand in for request fields bear their names.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChainDefaults")]
pub(super) struct ChainBody<'a> {
    #[schemars(schema_with = "schema::family")]
    family: Family,
    /// Selector used when a request names none; empty means the gateway itself.
    quote_selector: &'static str,
    /// Verifier used when a request names none.
    fulfillment_verifier: VerifierBody,
    /// Escrow used when a request names none.
    escrow_contract_address: &'a str,
    /// Proxy used on this chain when a request names none.
    fulfillment_proxy: &'a str,
    /// Escrows that a request whose source is on this chain may name: the default one first.
    escrow_contract_addresses: Vec<&'a str>,
    /// Proxies that a request with a destination on this chain may name: the default one first.
    fulfillment_proxy_addresses: Vec<&'a str>,
    /// Verifiers that a request whose source is on this chain may name: the default one first.
    fulfillment_verifiers: Vec<VerifierBody>,
    /// Policies that a request may require of settlers (`settler_auth_required`), on every chain the same.
    settler_policies: Vec<&'a str>,
    /// Account that signs reservations; part of what the payer signs.
    reserver: &'a str,
    /// Account that attests deliveries; part of what the payer signs.
    releaser: &'a str,
    /// Permit2, on EVM chains, and on Tron where payers may sign for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    permit2: Option<&'a str>,
    /// Genesis hash of the cluster, Base58, on Solana; part of what the payer signs.
    #[serde(skip_serializing_if = "Option::is_none")]
    signature_cluster_id: Option<&'a str>,
    /// Version of the domain of what the payer signs, on Solana.
    #[serde(skip_serializing_if = "Option::is_none")]
    signature_domain_version: Option<u8>,
    /// Schemes a payer on this chain may sign with. `EVM_PERMIT2` is there only by the operator's word: it has no witness, so
    /// the gateway's reserver alone decides on verifier, windows and quote, and could take the whole cap.
    #[schemars(schema_with = "MessageScheme::list_schema")]
    message_schemes: Vec<&'static str>,
    /// Least seconds from `fulfillment_deadline` to the refund window.
    refund_delay_seconds: u64,
    deadlines: DeadlinesBody,
    /// When a block counts as settled: `finalized`, or so many blocks on top of it.
    #[schemars(schema_with = "depth")]
    required_depth: DepthBody,
    /// The assets served on the chain.
    assets: Vec<AssetBody<'a>>,
}

/// The windows of a new payment; others are refused with `INVALID_DEADLINE`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeadlineLimits")]
struct DeadlinesBody {
    /// Least milliseconds from now to `quote_deadline`.
    quote_ms_min: u64,
    /// Most seconds from now to `quote_deadline`.
    quote_seconds_max: u64,
    /// Least milliseconds from `quote_deadline` to `fulfillment_deadline`.
    settlement_ms_min: u64,
    /// Most seconds from `quote_deadline` to `fulfillment_deadline`, and to the `reserve_deadline` that is signed.
    settlement_seconds_max: u64,
    /// Most seconds from `fulfillment_deadline` to the `refund_after` that is signed.
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
#[serde(untagged)]
enum DepthBody {
    Tag(&'static str),
    Blocks(u64),
}

fn depth(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"oneOf": [{"type": "string", "enum": [FINALIZED]}, {"type": "integer", "minimum": 0}]})
}

const FINALIZED: &str = "finalized";

/// An asset.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ServedAsset")]
struct AssetBody<'a> {
    /// CAIP-19 identifier.
    asset_identifier: &'a AssetId,
    /// Ticker symbol, for display.
    symbol: &'a str,
    /// Decimal places.
    decimals: u8,
    /// The chain's own coin, where the asset is its wrapped form: whoever holds the coin pays with this asset, and what is missing
    /// of it is wrapped as `/v1/payments/prepare` shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    wraps: Option<&'a AssetId>,
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

fn chain_body<'a>(state: &'a HttpState, corridor: &'a Corridor) -> ChainBody<'a> {
    let assets = corridor.assets.iter().map(|asset| AssetBody {
        asset_identifier: &asset.asset_identifier,
        symbol: &asset.symbol,
        decimals: asset.decimals,
        wraps: asset.wraps.as_ref(),
    });
    ChainBody {
        family: corridor.family,
        quote_selector: "",
        fulfillment_verifier: corridor.default_verifier().into(),
        escrow_contract_address: corridor.escrow.as_str(),
        fulfillment_proxy: corridor.proxy.as_str(),
        escrow_contract_addresses: corridor.escrows().map(Account::as_str).collect(),
        fulfillment_proxy_addresses: corridor.proxies().map(Account::as_str).collect(),
        fulfillment_verifiers: corridor.known_verifiers().map(VerifierBody::from).collect(),
        settler_policies: state.corridors.settler_policies().collect(),
        reserver: corridor.reserver.as_str(),
        releaser: corridor.releaser.as_str(),
        permit2: corridor.permit2.as_ref().map(Account::as_str),
        signature_cluster_id: corridor.signature_domain.as_ref().map(|(cluster_id, _)| cluster_id.as_str()),
        signature_domain_version: corridor.signature_domain.as_ref().map(|(_, version)| *version),
        message_schemes: corridor.message_schemes().map(MessageScheme::name).collect(),
        refund_delay_seconds: corridor.refund_delay_seconds,
        deadlines: state.deadlines.into(),
        required_depth: match corridor.required_depth {
            Depth::Finalized => DepthBody::Tag(FINALIZED),
            Depth::Confirmations(blocks) => DepthBody::Blocks(blocks),
        },
        assets: assets.collect(),
    }
}
