//! The scheme `exact` (x402, ADR 154, 160): a stock client signs its token's transfer to `payTo`, which is the address of the merchant's
//! offer. What it sends is read into the payment request that it comes to, of the message scheme `EVM_X402_EXACT` or `SOLANA_X402_EXACT`.

use chrono::{SecondsFormat, TimeDelta};
use serde_json::{Value, json};

use chains_evm::{authorization::ExactTransfer, token_domain::TokenDomain};
use chains_solana::authorization::SentPurchase;
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

/// What a stock client signed, as a payment request has it.
struct Signed {
    scheme: MessageScheme,
    request_id: String,
    /// The payer of the request.
    account: String,
    /// UNIX seconds.
    reserve_deadline: u64,
    fulfillment_deadline: u64,
    message: Value,
}

/// The payment request that what a stock client signed for the requirement comes to, and who pays where the request's source is the
/// merchant's account.
///
/// # Errors
/// What is wrong with its form, or with the requirement's.
pub(super) fn request(
    requirement: &Requirement,
    offer: &ExactOffer,
    payload: &Object<'_>,
    now: Timestamp,
) -> Result<(JsonBody, Option<Account>), Error> {
    let source = asset(&requirement.network, &requirement.asset, "")?;
    let (signed, buyer) = match &offer.domain {
        Some(domain) => (on_evm(&source, domain, offer, payload, now)?, None),
        None => {
            let (signed, buyer) = on_solana(requirement, offer, payload, now)?;
            (signed, Some(buyer))
        }
    };
    Ok((body(requirement, &source, signed, now)?, buyer))
}

/// What was signed for a token on an EVM chain.
fn on_evm(
    source: &AssetId,
    domain: &events::event::TokenDomain,
    offer: &ExactOffer,
    payload: &Object<'_>,
    now: Timestamp,
) -> Result<Signed, Error> {
    let transfer = signed(payload)?;
    if transfer.valid_after >= unix_seconds(now) {
        let rule = "paymentPayload.payload.authorization.validAfter: must be in the past";
        return Err(Error::new(Code::INVALID_SENDER_AUTH, rule));
    }
    let merchant = Account::parse(Family::Evm, &offer.merchant);
    let merchant = merchant.map_err(|rule| Fault::invalid("extra.gw.merchant", rule))?;
    let [reserve_deadline, fulfillment_deadline, refund_after] = offer.windows(transfer.valid_before);
    let domain = TokenDomain { name: domain.name.clone(), version: domain.version.clone() };
    let message = transfer
        .signed((source, domain), &merchant, refund_after)
        .map_err(|error| Fault::invalid(error.field(), format!("exact is not served: {error}")))?;
    Ok(Signed {
        scheme: MessageScheme::EvmX402Exact,
        request_id: transfer.nonce.to_string(),
        account: transfer.from.to_string(),
        reserve_deadline,
        fulfillment_deadline,
        message: json!({
            "message": message.message,
            "message_prehash": message.message_prehash,
            "signature": message.signature,
            "payload": message.payload,
        }),
    })
}

/// What was signed on Solana, where it says no time, so that the offer's are counted from now; and who signed it.
fn on_solana(
    requirement: &Requirement,
    offer: &ExactOffer,
    payload: &Object<'_>,
    now: Timestamp,
) -> Result<(Signed, Account), Error> {
    let mut faults = Faults::default();
    let transaction: Option<&str> = payload.required("transaction", &mut faults);
    let sent = SentPurchase::read(faults.or(transaction)?)
        .map_err(|rule| Error::new(Code::INVALID_SENDER_AUTH, format!("paymentPayload.payload.{rule}")))?;
    let message = sent.signed(offer.delivery_seconds, offer.refund_seconds);
    let reserve_deadline = unix_seconds(now).saturating_add(requirement.timeout_seconds_max);
    let signed = Signed {
        scheme: MessageScheme::SolanaX402Exact,
        request_id: sent.request_id(),
        account: offer.merchant.clone(),
        reserve_deadline,
        fulfillment_deadline: reserve_deadline.saturating_add(offer.delivery_seconds.into()),
        message: json!({"message": message.message, "signature": message.signature, "payload": message.payload}),
    };
    Ok((signed, sent.buyer().clone()))
}

/// The request that a client of the gateway's own would send.
fn body(requirement: &Requirement, source: &AssetId, signed: Signed, now: Timestamp) -> Result<JsonBody, Error> {
    let destination = &requirement.destination;
    let target = asset(&destination.network, &destination.asset, "extra.gw.destination.")?;
    let at = |second| from_unix_seconds(second).ok_or(Code::INVALID_REQUEST);
    // A retry after the last second comes to what it came to before, and is found by its id.
    let auction = now + TimeDelta::seconds(AUCTION_SECONDS);
    let quote_deadline = auction.min(at(signed.reserve_deadline.saturating_sub(1))?);
    let text = |time: Timestamp| time.to_rfc3339_opts(SecondsFormat::Millis, true);
    let mut members = json!({
        "version": "1.0",
        "request_id": signed.request_id,
        "source": {"asset_identifier": source, "account": signed.account},
        "destination": [{"asset_identifier": target, "account": destination.address}],
        "fulfillment_amount": requirement.fulfillment_amount,
        "max_source_amount": requirement.amount,
        "quote_deadline": text(quote_deadline),
        "fulfillment_deadline": text(at(signed.fulfillment_deadline)?),
        "escrow_contract_address": requirement.escrow,
        "fulfillment_verifier": {"account": requirement.releaser, "endpoint": requirement.verifier_endpoint},
        "sender_auth": {"message_scheme": signed.scheme.name(), "signed_messages": [signed.message]},
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
