//! The scheme `exact` (x402, ADR 154): a stock client signs its token's transfer to `payTo`, which is the address of the merchant's offer.
//! What it sends is read into the payment request that it comes to, of the message scheme `EVM_X402_EXACT`.

use chrono::{SecondsFormat, TimeDelta};
use serde_json::json;

use chains_evm::{authorization::ExactTransfer, token_domain::TokenDomain};
use events::{
    Account, AssetId, ChainId, Family, caip,
    time::{Timestamp, from_unix_seconds, unix_seconds},
};

use super::{
    fault::Fault,
    requirement::{ExactOffer, Requirement, stated_asset},
};
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
fn signed(payload: &Object<'_>) -> Result<ExactTransfer, Error> {
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
        Some(ExactTransfer {
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
    let transfer = signed(payload)?;
    if transfer.valid_after >= unix_seconds(now) {
        let rule = "paymentPayload.payload.authorization.validAfter: must be in the past";
        return Err(Error::new(Code::INVALID_SENDER_AUTH, rule));
    }
    let source = asset(&requirement.network, &requirement.asset, "")?;
    let destination = &requirement.destination;
    let target = asset(&destination.network, &destination.asset, "extra.gw.destination.")?;
    let merchant = Account::parse(Family::Evm, &offer.merchant);
    let merchant = merchant.map_err(|rule| Fault::invalid("extra.gw.merchant", rule))?;
    let [reserve_deadline, fulfillment_deadline, refund_after] = offer.windows(transfer.valid_before);
    let at = |second| from_unix_seconds(second).ok_or(Code::INVALID_REQUEST);
    // A retry after the last second comes to what it came to before, and is found by its id.
    let auction = now + TimeDelta::seconds(AUCTION_SECONDS);
    let quote_deadline = auction.min(at(reserve_deadline.saturating_sub(1))?);
    let domain = TokenDomain { name: offer.token_name.clone(), version: offer.token_version.clone() };
    let message = transfer
        .signed((&source, domain), &merchant, refund_after)
        .map_err(|error| Fault::invalid(error.field(), format!("exact is not served: {error}")))?;
    let text = |time: Timestamp| time.to_rfc3339_opts(SecondsFormat::Millis, true);
    let mut members = json!({
        "version": "1.0",
        "request_id": transfer.nonce.to_string(),
        "source": {"asset_identifier": source, "account": transfer.from.to_string()},
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
    JsonBody::parse(members.to_string().into_bytes())
}

/// An asset of a requirement: its CAIP-19 id, or its bare reference, of a token on its network.
fn asset(network: &str, text: &str, place: &str) -> Result<AssetId, Fault> {
    let unknown = |rule: String| Fault { code: Code::INVALID_NETWORK, member: format!("{place}network"), rule };
    let chain: ChainId = network.parse().map_err(|rule: caip::Error| unknown(rule.to_string()))?;
    let family = chain.family().ok_or_else(|| unknown("is not served".to_owned()))?;
    stated_asset(text, &chain, family.token_namespace()).map_err(|rule| Fault::invalid(&format!("{place}asset"), rule))
}
