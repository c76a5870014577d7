//! The scheme `exact` (x402, ADR 154): a stock client signs its token's transfer to `payTo`, which is the address of the merchant's offer.
//! What it sends is read into the payment request that it comes to, of the message scheme `EVM_X402_EXACT`.

use chrono::{SecondsFormat, TimeDelta};
use serde_json::{Map, Value, json};

use chains_evm::{authorization::ExactTransfer, token_domain::TokenDomain};
use events::{
    Account, Amount, AssetId, ChainId, Family, Hash32,
    time::{Timestamp, from_unix_seconds, unix_seconds},
};

use super::requirement::{ExactOffer, Requirement};
use crate::{
    authorization::MessageScheme,
    error::{Code, Error},
    request::{
        body::JsonBody,
        fields::{Faults, Object},
    },
};

/// How long settlers are asked, in seconds.
pub(super) const AUCTION_SECONDS: i64 = 5;
/// The last UNIX second that the contract takes for the end of an authorization.
const VALID_BEFORE_MAX: u64 = (1 << 40) - 1;

/// What a stock client signed (`payload` of x402's `exact` on EVM chains), of the right form and otherwise not believed.
#[derive(Debug)]
struct Signed {
    signature: String,
    from: Account,
    to: Account,
    value: Amount,
    valid_after: u64,
    valid_before: u64,
    nonce: Hash32,
}

impl Signed {
    fn read(payload: &Object<'_>) -> Result<Self, Error> {
        let mut faults = Faults::default();
        let signature: Option<&str> = payload.required("signature", &mut faults);
        let authorization = payload.required_object("authorization", &mut faults);
        let read = authorization.and_then(|members| {
            let account = |name: &str, faults: &mut Faults| {
                let text: &str = members.required(name, faults)?;
                let account = Account::parse(Family::Evm, text);
                account.map_err(|rule| faults.invalid(&members.path(name), rule)).ok()
            };
            let (from, to) = (account("from", &mut faults), account("to", &mut faults));
            let value = members.required::<&str>("value", &mut faults).and_then(|text| {
                text.parse().map_err(|rule: events::amount::Error| faults.invalid(&members.path("value"), rule)).ok()
            });
            let second = |name: &str, faults: &mut Faults| {
                let text: &str = members.required(name, faults)?;
                let is_whole = text.bytes().all(|digit| digit.is_ascii_digit());
                let second = text.parse().ok().filter(|second| is_whole && *second <= VALID_BEFORE_MAX);
                if second.is_none() {
                    faults.invalid(&members.path(name), "must be a UNIX second in decimal digits, below 2^40");
                }
                second
            };
            let (valid_after, valid_before) = (second("validAfter", &mut faults), second("validBefore", &mut faults));
            let nonce = members.required::<&str>("nonce", &mut faults).and_then(|text| {
                let rule = "must be 0x followed by 64 hex digits";
                text.to_ascii_lowercase().parse().map_err(|_| faults.invalid(&members.path("nonce"), rule)).ok()
            });
            Some(Self {
                signature: signature?.to_owned(),
                from: from?,
                to: to?,
                value: value?,
                valid_after: valid_after?,
                valid_before: valid_before?,
                nonce: nonce?,
            })
        });
        faults.or(read)
    }
}

/// The payment request that what a stock client signed for the requirement comes to.
///
/// # Errors
/// What is wrong with its form, or with the requirement's.
pub(super) fn request(
    requirement: &Requirement,
    offer: &ExactOffer,
    payload: &Object<'_>,
    now: Timestamp,
) -> Result<JsonBody, Error> {
    let signed = Signed::read(payload)?;
    if signed.valid_after >= unix_seconds(now) {
        let rule = "paymentPayload.payload.authorization.validAfter: must be in the past";
        return Err(Error::new(Code::INVALID_SENDER_AUTH, rule));
    }
    let source = asset(&requirement.network, &requirement.asset, "")?;
    let destination = &requirement.destination;
    let target = asset(&destination.network, &destination.asset, "extra.gw.destination.")?;
    let chain = source.chain();
    let Some(evm_id) = chain.evm_id() else {
        let rule = "paymentRequirements.network: exact is served on EVM chains; see gw-escrow";
        return Err(Error::new(Code::INVALID_NETWORK, rule));
    };
    let reserve_deadline = signed.valid_before.saturating_sub(1);
    let fulfillment_deadline = reserve_deadline.saturating_add(offer.delivery_seconds.into());
    let refund_after = fulfillment_deadline.saturating_add(offer.refund_seconds.into());
    let at = |second| from_unix_seconds(second).ok_or(Code::INVALID_REQUEST);
    // A retry after the last second comes to what it came to before, and is found by its id.
    let auction = now + TimeDelta::seconds(AUCTION_SECONDS);
    let quote_deadline = auction.min(at(reserve_deadline.saturating_sub(1))?);
    let transfer = ExactTransfer {
        domain: TokenDomain { name: offer.token_name.clone(), version: offer.token_version.clone() },
        evm_id,
        token: account(source.reference(), "asset")?,
        from: signed.from.clone(),
        to: signed.to,
        value: signed.value,
        valid_after: signed.valid_after,
        valid_before: signed.valid_before,
        nonce: signed.nonce,
        signature: signed.signature,
    };
    let merchant = account(&offer.merchant, "extra.gw.merchant")?;
    let message = transfer.signed(&merchant, refund_after).map_err(|error| invalid("asset", error))?;
    let text = |time: Timestamp| time.to_rfc3339_opts(SecondsFormat::Millis, true);
    let mut members = json!({
        "version": "1.0",
        "request_id": signed.nonce.to_string(),
        "source": {"asset_identifier": source, "account": signed.from.to_string()},
        "destination": [{"asset_identifier": target, "account": destination.address}],
        "fulfillment_amount": requirement.fulfillment_amount,
        "max_source_amount": requirement.amount,
        "quote_deadline": text(quote_deadline),
        "fulfillment_deadline": text(at(fulfillment_deadline)?),
        "escrow_contract_address": requirement.escrow,
        "fulfillment_verifier": {"account": requirement.releaser, "endpoint": requirement.verifier_endpoint},
        "sender_auth": {
            "message_scheme": MessageScheme::EvmX402Exact.name(),
            "signed_messages": [{
                "message": message.message,
                "message_prehash": message.message_prehash,
                "signature": message.signature,
                "payload": message.payload,
            }],
        },
    });
    if let Some(proxy) = &requirement.fulfillment_proxy {
        members["fulfillment_proxy"] = proxy.clone().into();
    }
    let text = members.to_string();
    let members = match members {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    Ok(JsonBody { text, members })
}

/// An asset of a requirement: its CAIP-19 id, or its bare reference, of a token on its network.
fn asset(network: &str, text: &str, place: &str) -> Result<AssetId, Error> {
    let whole = match text.contains('/') {
        true => text.to_owned(),
        false => {
            let chain: Option<ChainId> = network.parse().ok();
            let namespace = match chain.as_ref().and_then(ChainId::family) {
                Some(Family::Evm) => "erc20",
                Some(Family::Solana) => "token",
                Some(Family::Tron) => "trc20",
                None => {
                    let rule = format!("paymentRequirements.{place}network: is not served");
                    return Err(Error::new(Code::INVALID_NETWORK, rule));
                }
            };
            format!("{network}/{namespace}:{text}")
        }
    };
    whole.parse().map_err(|rule: events::caip::Error| invalid(&format!("{place}asset"), rule))
}

fn account(text: &str, field: &str) -> Result<Account, Error> {
    Account::parse(Family::Evm, text).map_err(|rule| invalid(field, rule))
}

fn invalid(field: &str, rule: impl std::fmt::Display) -> Error {
    Error::new(Code::INVALID_PAYMENT_REQUIREMENTS, format!("paymentRequirements.{field}: {rule}"))
}
