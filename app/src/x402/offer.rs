//! Offers of merchants for stock clients of x402 (ADR 154, 160): what stands in a 402 of the scheme `exact`, so that who pays it in a token on
//! one chain pays the merchant on another. An offer is computed; nothing is kept, and the same question has the same answer.

use chrono::TimeDelta;
use ruint::aliases::U512;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use chains::config::AssetConfig;
use events::{
    Amount, amount,
    event::EscrowPlan,
    time::{from_unix_seconds, unix_seconds},
};

use super::{
    EXACT,
    exact::AUCTION_SECONDS,
    fault::Fault,
    matching::{self, Resolved},
    requirement::{Destination, ExactOffer, Requirement, Scheme, seconds, stated, text},
};
use crate::{
    App,
    admission::ready_chains,
    authorization::OfferSigning,
    error::{Code, Error},
    prepare::unsignable,
    request::{
        body::JsonBody,
        corridors::Corridors,
        fields::{Faults, Object},
        horizons::{self, Horizon, TooFar},
    },
    schema,
};

/// How long a client's authorization holds where the merchant does not say, in seconds.
pub const TIMEOUT_SECONDS: u64 = 60;
/// The least: for the auction, and as long for the deposit.
pub const TIMEOUT_SECONDS_MIN: u64 = 2 * AUCTION_SECONDS.unsigned_abs();
/// How long the delivery may take after that, in seconds.
pub const DELIVERY_SECONDS: u32 = 60;
/// What buyers pay beyond the price where the merchant does not say, in basis points.
const MARGIN_BASIS_POINTS: u64 = 100;

/// A merchant's offer, in the two forms in which servers take it.
// Body of the 200.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "X402Offer")]
pub struct OfferBody {
    /// An entry of `accepts` as it stands in a 402, and as `verify` and `settle` are told it.
    #[schemars(schema_with = "schema::free_form")]
    requirement: Value,
    /// The same as an entry of `accepts` in the configuration of a route: of `paymentMiddleware` in `@x402/express` and its like.
    #[schemars(schema_with = "schema::free_form")]
    route: Value,
}

/// What a merchant asks for.
struct Asked {
    /// Of the source chain.
    network: String,
    asset: String,
    destination: Destination,
    fulfillment_amount: String,
    amount: Option<String>,
    merchant: Option<String>,
    timeout_seconds: u64,
    delivery_seconds: u32,
    refund_seconds: Option<u32>,
}

impl Asked {
    fn read(members: &Map<String, Value>) -> Result<Self, Error> {
        let (body, mut faults) = (Object::root(members), Faults::default());
        let (network, asset) = (text(&body, "network", &mut faults), text(&body, "asset", &mut faults));
        let destination = Destination::read(&body, &mut faults);
        let fulfillment_amount = text(&body, "fulfillmentAmount", &mut faults);
        let (amount, merchant) = (stated(&body, "amount", &mut faults), stated(&body, "merchant", &mut faults));
        let timeout_seconds = body.optional("maxTimeoutSeconds", &mut faults).unwrap_or(TIMEOUT_SECONDS);
        if timeout_seconds < TIMEOUT_SECONDS_MIN {
            let rule = format!("must be at least {TIMEOUT_SECONDS_MIN}, for auction and deposit");
            faults.invalid("maxTimeoutSeconds", rule);
        }
        let width = |name: &str, faults: &mut Faults| {
            body.optional(name, faults).and_then(|stated| seconds(stated, &body, name, faults))
        };
        let delivery_seconds = width("deliverySeconds", &mut faults).unwrap_or(DELIVERY_SECONDS);
        let refund_seconds = width("refundSeconds", &mut faults);
        let read = || {
            Some(Self {
                network: network?,
                asset: asset?,
                destination: destination?,
                fulfillment_amount: fulfillment_amount?,
                amount,
                merchant,
                timeout_seconds,
                delivery_seconds,
                refund_seconds,
            })
        };
        faults.or(read())
    }
}

/// The offer that a merchant asks for.
///
/// # Errors
/// 400 naming the member, 503 where the token or the escrow cannot be asked now.
pub async fn offer(state: &App, body: &JsonBody) -> Result<OfferBody, Error> {
    let asked = Asked::read(&body.members)?;
    let (requirement, offer) = draft(&asked, &state.corridors)?;
    let resolved = Resolved::of(&requirement, &state.corridors).map_err(of_offer)?;
    let merchant = resolved.merchant(&offer, &state.corridors).map_err(of_offer)?;
    if let Some(contract) = state.corridors.contract_at(resolved.destination()) {
        return Err(invalid("destination.address", format!("is {contract}, where nobody receives anything")));
    }
    let end = unix_seconds(state.services.clock.now()).saturating_add(asked.timeout_seconds);
    let plan = resolved.plan(offer.windows(end));
    check_windows(&plan, state)?;
    let pay_to = resolved.offer_address(&merchant, &offer).map_err(of_offer)?;
    let signing = state.services.authorizer.offer_signing(&merchant, &plan.contract, &pay_to).await;
    let signing =
        signing.map_err(|error| ready_chains::explained(&state.services.chains, &merchant, unsignable(error)))?;
    let requirement = rendered(&requirement, &offer, &signing, pay_to.as_str());
    Ok(OfferBody { route: route(&requirement), requirement })
}

/// Whether a client that signs now could be served: nobody else finds out before a buyer does.
fn check_windows(plan: &EscrowPlan, state: &App) -> Result<(), Error> {
    let (now, limits) = (state.services.clock.now(), state.deadlines);
    let quote_deadline = now + TimeDelta::seconds(AUCTION_SECONDS);
    let too_far = |error: TooFar| match error.horizon {
        Horizon::Quote | Horizon::Reserve => invalid("maxTimeoutSeconds", error.rule),
        Horizon::Fulfillment => invalid("deliverySeconds", error.rule),
        Horizon::Refund => invalid("refundSeconds", error.rule),
    };
    horizons::check_plan(plan, quote_deadline, limits).map_err(too_far)?;
    let fulfillment_deadline = from_unix_seconds(plan.fulfillment_deadline).ok_or(Code::INVALID_REQUEST)?;
    horizons::check_deadlines(quote_deadline, fulfillment_deadline, now, limits).map_err(too_far)
}

/// The requirement, but for what the token and the address say.
fn draft(asked: &Asked, corridors: &Corridors) -> Result<(Requirement, ExactOffer), Error> {
    let Destination { network: at, asset: token, address } = &asked.destination;
    let (from, source) = matching::network(&asked.network, "network", corridors).map_err(of_offer)?;
    let (to, target) = matching::network(at, "extra.gw.destination.network", corridors).map_err(of_offer)?;
    let pays = matching::asset(&asked.asset, &from, source, "asset").map_err(of_offer)?;
    let receives = matching::asset(token, &to, target, "extra.gw.destination.asset").map_err(of_offer)?;
    let merchant = match &asked.merchant {
        Some(merchant) => merchant.clone(),
        None if target.family == source.family => address.clone(),
        None => {
            let rule = "is required where the destination is on a chain of another family: your account on the network that is paid on";
            return Err(invalid("merchant", rule));
        }
    };
    let amount = match &asked.amount {
        Some(amount) => amount.clone(),
        None => priced(&asked.fulfillment_amount, pays, receives)?,
    };
    let least = corridors.refund_delay_seconds([&from, &to].into_iter());
    let verifier = source.default_verifier();
    let offer = ExactOffer {
        // The token is asked later, and the address does not commit to it.
        domain: None,
        merchant,
        delivery_seconds: asked.delivery_seconds,
        refund_seconds: asked.refund_seconds.unwrap_or(u32::try_from(least).unwrap_or(u32::MAX)),
    };
    let requirement = Requirement {
        scheme: Scheme::Exact(offer.clone()),
        network: from.to_string(),
        // Stock clients take the bare address.
        asset: pays.asset_identifier.reference().to_owned(),
        pay_to: String::new(),
        amount,
        timeout_seconds_max: asked.timeout_seconds,
        destination: Destination { network: to.to_string(), asset: token.clone(), address: address.clone() },
        fulfillment_amount: asked.fulfillment_amount.clone(),
        escrow: Some(source.escrow.to_string()),
        fulfillment_proxy: Some(target.proxy.to_string()),
        reserver: Some(source.reserver.to_string()),
        releaser: Some(verifier.account.to_string()),
        verifier_endpoint: Some(verifier.endpoint.clone()),
        quote_deadline_seconds: None,
        fulfillment_deadline_seconds: None,
        signature_cluster_id: None,
        signature_domain_version: None,
    };
    Ok((requirement, offer))
}

/// What buyers pay where the merchant does not say: the price in a token of the same symbol, and a margin for the settler.
fn priced(fulfillment_amount: &str, pays: &AssetConfig, receives: &AssetConfig) -> Result<String, Error> {
    if pays.symbol != receives.symbol {
        return Err(invalid("amount", "is required where the two assets have not the same symbol"));
    }
    let amount: Amount =
        fulfillment_amount.parse().map_err(|rule: amount::Error| invalid("fulfillmentAmount", rule))?;
    let units = |asset: &AssetConfig| U512::from(10).checked_pow(U512::from(asset.decimals));
    let above = units(pays).and_then(|units| U512::from(amount.get()).checked_mul(units));
    let above = above.and_then(|above| above.checked_mul(U512::from(10_000 + MARGIN_BASIS_POINTS)));
    let below = units(receives).and_then(|units| units.checked_mul(U512::from(10_000)));
    let (above, below) = above.zip(below).ok_or_else(|| invalid("fulfillmentAmount", "is too large"))?;
    Ok(above.div_ceil(below).to_string())
}

/// The requirement as it stands in a 402.
fn rendered(requirement: &Requirement, offer: &ExactOffer, signing: &OfferSigning, pay_to: &str) -> Value {
    let Destination { network, asset, address } = &requirement.destination;
    let mut extra = match signing {
        OfferSigning::Domain(domain) => json!({"name": domain.name, "version": domain.version}),
        OfferSigning::FeePayer(account) => json!({"feePayer": account}),
    };
    extra["gw"] = json!({
        "destination": {"network": network, "asset": asset, "address": address},
        "fulfillmentAmount": requirement.fulfillment_amount,
        "merchant": offer.merchant,
        "escrow": requirement.escrow,
        "fulfillmentProxy": requirement.fulfillment_proxy,
        "reserver": requirement.reserver,
        "releaser": requirement.releaser,
        "fulfillmentVerifierEndpoint": requirement.verifier_endpoint,
        "deliverySeconds": offer.delivery_seconds,
        "refundSeconds": offer.refund_seconds,
    });
    json!({
        "scheme": EXACT,
        "network": requirement.network,
        "asset": requirement.asset,
        "amount": requirement.amount,
        "payTo": pay_to,
        "maxTimeoutSeconds": requirement.timeout_seconds_max,
        "extra": extra,
    })
}

/// The requirement as a route's configuration has it.
fn route(requirement: &Value) -> Value {
    json!({
        "scheme": requirement["scheme"],
        "network": requirement["network"],
        "payTo": requirement["payTo"],
        "price": {"asset": requirement["asset"], "amount": requirement["amount"], "extra": requirement["extra"]},
        "maxTimeoutSeconds": requirement["maxTimeoutSeconds"],
    })
}

fn invalid(field: &str, rule: impl std::fmt::Display) -> Error {
    Error::new(Code::INVALID_REQUEST, format!("{field}: {rule}"))
}

/// A fault of the requirement, which is the request's here: its members have the names that they have there.
fn of_offer(fault: Fault) -> Error {
    invalid(fault.member.strip_prefix("extra.gw.").unwrap_or(&fault.member), fault.rule)
}
