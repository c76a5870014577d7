//! `GET /x402/v1/supported`: each source network, and what a merchant needs to ask for payments from it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Serialize;

use app::{
    authorization::MessageScheme,
    request::corridors::{Corridor, Corridors},
    x402::{EXACT, PAYMENT_IDENTIFIER, SCHEME, VERSION},
};
use events::{Account, AssetId, ChainId, Family};

use crate::state::HttpState;

/// What the facilitator takes: each source chain by `gw-escrow`, and EVM chains and Solana by `exact` besides.
// Body of the 200.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "X402Supported")]
pub(crate) struct SupportedBody {
    /// One for each chain that can be paid from and each scheme.
    kinds: Vec<Kind>,
    /// Extensions that are understood.
    #[schemars(with = "Vec<String>")]
    extensions: [&'static str; 1],
    /// By chain, the accounts that sign for the gateway: its reserver, and its fulfillment verifier or the members of its set.
    signers: BTreeMap<String, Vec<String>>,
}

/// A source chain.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Kind {
    /// Version of x402.
    // The published name has a small x and a capital V.
    #[serde(rename = "x402Version")]
    #[schemars(with = "i64", extend("const" = VERSION))]
    version: u64,
    /// The scheme.
    #[schemars(extend("enum" = [SCHEME, EXACT]))]
    scheme: &'static str,
    /// CAIP-2 id of the source chain.
    #[schemars(with = "ChainId")]
    network: String,
    /// Members of the scheme.
    extra: Extra,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Extra {
    /// The requirement's `extra.feePayer`, of `exact` on Solana: who pays the fee of what buyers sign. Stock servers copy it from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    fee_payer: Option<Account>,
    gw: Gw,
}

/// What a requirement is built from.
// What stands in `extra.gw` of a requirement from this network, and what its payers need. The protocol promises these.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    inline,
    extend("required" = ["escrow", "reserver", "releaser", "fulfillmentVerifierEndpoint", "maxTimeoutSeconds", "assets", "destinations"])
)]
struct Gw {
    /// The requirement's `extra.gw.escrow`.
    escrow: String,
    /// The requirement's `extra.gw.reserver`.
    reserver: String,
    /// The requirement's `extra.gw.releaser`: the verifier's account, or the id of the set.
    releaser: String,
    /// The requirement's `extra.gw.fulfillmentVerifierEndpoint`: of a set the first member's, and any other's would do.
    fulfillment_verifier_endpoint: String,
    /// Permit2, on EVM chains.
    #[serde(skip_serializing_if = "Option::is_none")]
    permit2: Option<String>,
    /// The requirement's `extra.gw.svmSignatureClusterId`, on Solana.
    #[serde(skip_serializing_if = "Option::is_none")]
    svm_signature_cluster_id: Option<String>,
    /// The requirement's `extra.gw.svmSignatureDomainVersion`, on Solana.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    svm_signature_domain_version: Option<u8>,
    /// How its payers sign.
    message_schemes: Vec<&'static str>,
    /// Least time from `fulfillment_deadline` to the refund window, in seconds.
    refund_delay_seconds: u64,
    /// The longest `maxTimeoutSeconds` that a settle is held for. One that asks for more is answered before, and says so.
    max_timeout_seconds: u64,
    /// Address of this service, for `/v1/payments/prepare` and `/v1/defaults`.
    gateway: String,
    /// What is served there.
    assets: Vec<Asset>,
    /// Where merchants can be paid.
    destinations: Vec<Target>,
}

/// A chain that can be paid on.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Target {
    /// CAIP-2 id.
    #[schemars(with = "ChainId")]
    network: String,
    /// The requirement's `extra.gw.fulfillmentProxy`.
    fulfillment_proxy: String,
    /// As above, for this chain; the longer of both counts.
    refund_delay_seconds: u64,
    /// What is served there.
    assets: Vec<Asset>,
}

/// An asset that is served.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "X402Asset")]
struct Asset {
    /// Its bare reference, as in a requirement.
    asset: String,
    /// Its CAIP-19 id.
    #[schemars(with = "String")]
    asset_identifier: AssetId,
    /// For display.
    symbol: String,
    /// For display.
    #[schemars(with = "u64")]
    decimals: u8,
    /// The chain's own coin, where the asset is its wrapped form: whoever holds the coin can pay what is asked in this asset
    /// (ADR 116).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    wraps: Option<AssetId>,
}

/// What can be paid with, and where to.
pub(crate) async fn handle(State(state): State<Arc<HttpState>>) -> Json<SupportedBody> {
    let corridors = &state.corridors;
    // A payment is made in a token; the coins of a chain can only be received.
    let sources = || {
        let has_token = |corridor: &Corridor| corridor.assets.iter().any(|asset| is_token(&asset.asset_identifier));
        corridors.iter().filter(move |(_, corridor)| has_token(corridor))
    };
    let fee_payer = |chain: &ChainId| state.services.authorizer.fee_payer(chain);
    let kind = |scheme, chain: &ChainId, corridor| Kind {
        version: VERSION,
        scheme,
        network: chain.to_string(),
        extra: Extra { fee_payer: fee_payer(chain).filter(|_| scheme == EXACT).cloned(), gw: gw(corridor, &state) },
    };
    // Stock servers ask once, when they start. Whether a token takes what is signed for it, its offers tell.
    let exact = sources().filter(|(chain, corridor)| match corridor.family {
        Family::Evm => true,
        Family::Solana => fee_payer(chain).is_some(),
        Family::Tron => false,
    });
    let exact = exact.map(|(chain, corridor)| kind(EXACT, chain, corridor));
    let kinds = sources().map(|(chain, corridor)| kind(SCHEME, chain, corridor)).chain(exact);
    let signers = sources().map(|(chain, corridor)| (chain.to_string(), signers(corridor)));
    Json(SupportedBody { kinds: kinds.collect(), extensions: [PAYMENT_IDENTIFIER], signers: signers.collect() })
}

fn is_token(asset: &AssetId) -> bool {
    asset.namespace() != "slip44"
}

fn signers(corridor: &Corridor) -> Vec<String> {
    let mut signers = vec![corridor.reserver.to_string()];
    signers.extend(corridor.default_verifier().members().iter().map(|member| member.account.to_string()));
    signers.dedup();
    signers
}

fn gw(corridor: &Corridor, state: &HttpState) -> Gw {
    let corridors: &Corridors = &state.corridors;
    let verifier = corridor.default_verifier();
    let domain = corridor.signature_domain.as_ref();
    Gw {
        escrow: corridor.escrow.to_string(),
        reserver: corridor.reserver.to_string(),
        releaser: verifier.account.to_string(),
        fulfillment_verifier_endpoint: verifier.endpoint.clone(),
        permit2: corridor.permit2.as_ref().map(ToString::to_string),
        svm_signature_cluster_id: domain.map(|(cluster_id, _)| cluster_id.clone()),
        svm_signature_domain_version: domain.map(|(_, version)| *version),
        message_schemes: corridor.message_schemes().map(MessageScheme::name).collect(),
        refund_delay_seconds: corridor.refund_delay_seconds,
        max_timeout_seconds: Duration::from_millis(state.x402.settle_hold_ms_max).as_secs(),
        gateway: state.http.base_url.clone(),
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
        wraps: asset.wraps.clone(),
    };
    corridor.assets.iter().map(asset).collect()
}
