//! Offers of merchants for stock clients of x402 (ADR 154): what stands in a 402 of the scheme `exact`, so that who pays it in a token on
//! one chain pays the merchant on another. An offer is computed; nothing is kept, and the same question has the same answer.

use ruint::aliases::U512;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use chrono::TimeDelta;
use events::{
    Amount, AssetId, ChainId, amount,
    event::EscrowPlan,
    time::{from_unix_seconds, unix_seconds},
};

use super::{EXACT, exact::AUCTION_SECONDS, matching::Resolved, requirement::Requirement};
use crate::{
    App,
    error::{Code, Error},
    request::{
        body::JsonBody,
        corridors::{Corridor, Corridors},
        fields::{Faults, Object},
        horizons,
    },
    schema,
};

/// How long a client's authorization holds where the merchant does not say, in seconds.
pub const TIMEOUT_SECONDS: u64 = 60;
/// How long the delivery may take after that, in seconds.
pub const DELIVERY_SECONDS: u64 = 60;
/// The least time for a deposit behind the auction, in seconds.
const DEPOSIT_SECONDS_MIN: u64 = 5;
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
    destination: Map<String, Value>,
    fulfillment_amount: String,
    amount: Option<String>,
    merchant: Option<String>,
    timeout_seconds: u64,
    delivery_seconds: u64,
    refund_seconds: Option<u64>,
}

impl Asked {
    fn read(members: &Map<String, Value>) -> Result<Self, Error> {
        let (body, mut faults) = (Object::root(members), Faults::default());
        let text = |name: &str, faults: &mut Faults| body.required::<&str>(name, faults).map(str::to_owned);
        let stated = |name: &str, faults: &mut Faults| {
            body.optional::<&str>(name, faults).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let (network, asset) = (text("network", &mut faults), text("asset", &mut faults));
        let destination: Option<&Map<String, Value>> = body.required("destination", &mut faults);
        let fulfillment_amount = text("fulfillmentAmount", &mut faults);
        let (amount, merchant) = (stated("amount", &mut faults), stated("merchant", &mut faults));
        let timeout_seconds: Option<u64> = body.optional("maxTimeoutSeconds", &mut faults);
        let delivery_seconds: Option<u64> = body.optional("deliverySeconds", &mut faults);
        let refund_seconds: Option<u64> = body.optional("refundSeconds", &mut faults);
        let read = || {
            Some(Self {
                network: network?,
                asset: asset?,
                destination: destination?.clone(),
                fulfillment_amount: fulfillment_amount?,
                amount,
                merchant,
                timeout_seconds: timeout_seconds.unwrap_or(TIMEOUT_SECONDS),
                delivery_seconds: delivery_seconds.unwrap_or(DELIVERY_SECONDS),
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
    let mut requirement = draft(&asked, &state.corridors)?;
    let read = |requirement: &Value| {
        let members = requirement.as_object().cloned().unwrap_or_default();
        Requirement::read(&members).map_err(of_offer)
    };
    let drafted = read(&requirement)?;
    let resolved = Resolved::of(&drafted, &state.corridors).map_err(of_offer)?;
    let (source, plan) = resolved.offer().map_err(of_offer)?;
    if let Some(contract) = state.corridors.contract_at(resolved.destination()) {
        return Err(invalid("destination.address", format!("is {contract}, where nobody receives anything")));
    }
    check_windows(&asked, plan, state)?;
    let domain = state.services.authorizer.offer_domain(source, &plan.contract).await.map_err(|error| {
        let error = crate::prepare::unsignable(error);
        crate::admission::ready_chains::explained(&state.services.chains, source, error)
    })?;
    requirement["extra"]["name"] = domain.name.into();
    requirement["extra"]["version"] = domain.version.into();
    requirement["payTo"] = resolved.offer_address().map_err(of_offer)?.to_string().into();
    // As verify and settle are going to look at it.
    Resolved::new(&read(&requirement)?, &state.corridors).map_err(of_offer)?;
    Ok(OfferBody { route: route(&requirement), requirement })
}

/// Whether a client that signs now could be served: nobody else finds out before a buyer does.
fn check_windows(asked: &Asked, plan: &EscrowPlan, state: &App) -> Result<(), Error> {
    let (now, limits) = (state.services.clock.now(), state.deadlines);
    let quote_deadline = now + TimeDelta::seconds(AUCTION_SECONDS);
    let least = u64::try_from(AUCTION_SECONDS).unwrap_or_default() + DEPOSIT_SECONDS_MIN;
    if asked.timeout_seconds < least {
        return Err(invalid("maxTimeoutSeconds", format!("must be at least {least}, for auction and deposit")));
    }
    let end = unix_seconds(now).saturating_add(asked.timeout_seconds);
    let plan = EscrowPlan {
        reserve_deadline: end,
        fulfillment_deadline: end.saturating_add(plan.fulfillment_deadline),
        refund_after: end.saturating_add(plan.refund_after),
        ..plan.clone()
    };
    let too_far = |error: Error| {
        let message = error.message();
        let message = message.replacen("reserve_deadline: ", "maxTimeoutSeconds: ", 1);
        let message = message.replacen("fulfillment_deadline: ", "deliverySeconds: ", 1);
        Error::new(Code::INVALID_REQUEST, message.replacen("refund_after: ", "refundSeconds: ", 1))
    };
    horizons::check_plan(&plan, quote_deadline, limits).map_err(too_far)?;
    let fulfillment_deadline = from_unix_seconds(plan.fulfillment_deadline).ok_or(Code::INVALID_REQUEST)?;
    horizons::check_deadlines(quote_deadline, fulfillment_deadline, now, limits).map_err(too_far)
}

/// The requirement, but for what the token and the address say.
fn draft(asked: &Asked, corridors: &Corridors) -> Result<Value, Error> {
    let (from, source) = served(&asked.network, "network", corridors)?;
    let destination = Object::at("destination", &asked.destination);
    let mut faults = Faults::default();
    let at: Option<&str> = destination.required("network", &mut faults);
    let token: Option<&str> = destination.required("asset", &mut faults);
    let address: Option<&str> = destination.required("address", &mut faults);
    let (at, (token, address)) = faults.or(at.zip(token.zip(address)))?;
    let (to, target) = served(at, "destination.network", corridors)?;
    let verifier = source.default_verifier();
    let merchant = match &asked.merchant {
        Some(merchant) => merchant.clone(),
        None if target.family == source.family => address.to_owned(),
        None => {
            let rule = "is required where the destination is on a chain of another family: your account on the network that is paid on";
            return Err(invalid("merchant", rule));
        }
    };
    let amount = match &asked.amount {
        Some(amount) => amount.clone(),
        None => priced(asked, (&from, source), (&to, target, token))?,
    };
    let refund = corridors.refund_delay_seconds([&from, &to].into_iter());
    Ok(json!({
        "scheme": EXACT,
        "network": from.to_string(),
        // Stock clients take the bare address, in any case of its letters.
        "asset": asked.asset.rsplit_once(':').map_or(asked.asset.as_str(), |(_, reference)| reference),
        "amount": amount,
        "payTo": "",
        "maxTimeoutSeconds": asked.timeout_seconds,
        "extra": {
            "name": "",
            "version": "",
            "gw": {
                "destination": {"network": to.to_string(), "asset": token, "address": address},
                "fulfillmentAmount": asked.fulfillment_amount,
                "merchant": merchant,
                "escrow": source.escrow.to_string(),
                "fulfillmentProxy": target.proxy.to_string(),
                "reserver": source.reserver.to_string(),
                "releaser": verifier.account.to_string(),
                "fulfillmentVerifierEndpoint": verifier.endpoint,
                "deliverySeconds": asked.delivery_seconds,
                "refundSeconds": asked.refund_seconds.unwrap_or(refund),
            },
        },
    }))
}

/// What buyers pay where the merchant does not say: the price in a token of the same symbol, and a margin for the settler.
fn priced(
    asked: &Asked,
    (from, source): (&ChainId, &Corridor),
    (to, target, token): (&ChainId, &Corridor, &str),
) -> Result<String, Error> {
    let of = |corridor: &'_ Corridor, chain: &ChainId, text: &str| {
        let is_it = |asset: &&chains::config::AssetConfig| {
            let id: &AssetId = &asset.asset_identifier;
            let whole = if text.contains('/') { text.to_owned() } else { format!("{chain}/{}:{text}", id.namespace()) };
            whole.parse().as_ref() == Ok(id)
        };
        corridor.assets.iter().find(is_it).map(|asset| (asset.symbol.clone(), asset.decimals))
    };
    let needed = || invalid("amount", "is required where the two assets have not the same symbol");
    let (pays, receives) = (of(source, from, &asked.asset), of(target, to, token));
    let ((symbol, pays), (same, receives)) = pays.zip(receives).ok_or_else(needed)?;
    if symbol != same {
        return Err(needed());
    }
    let amount: Amount =
        asked.fulfillment_amount.parse().map_err(|rule: amount::Error| invalid("fulfillmentAmount", rule))?;
    let units = |decimals: u8| U512::from(10).checked_pow(U512::from(decimals));
    let above = units(pays).and_then(|units| U512::from(amount.get()).checked_mul(units));
    let above = above.and_then(|above| above.checked_mul(U512::from(10_000 + MARGIN_BASIS_POINTS)));
    let below = units(receives).and_then(|units| units.checked_mul(U512::from(10_000)));
    let (above, below) = above.zip(below).ok_or_else(|| invalid("fulfillmentAmount", "is too large"))?;
    Ok(above.div_ceil(below).to_string())
}

fn served<'a>(text: &str, field: &str, corridors: &'a Corridors) -> Result<(ChainId, &'a Corridor), Error> {
    let chain: ChainId = text.parse().map_err(|rule: events::caip::Error| invalid(field, rule.to_string()))?;
    match corridors.get(&chain) {
        Some(corridor) => Ok((chain, corridor)),
        None => Err(invalid(field, "is not served; /v1/defaults lists the chains that are")),
    }
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

/// A fault of the requirement, which is the request's here: its members have the same names.
fn of_offer(error: Error) -> Error {
    let message = error.message();
    let message = message.strip_prefix("paymentRequirements.").unwrap_or(&message);
    Error::new(Code::INVALID_REQUEST, message.strip_prefix("extra.gw.").unwrap_or(message))
}
