//! Conversions between the engine's types and the wire form of `protocol`.

use async_nats::HeaderMap;
use tracing::Span;

use protocol::{AwardNotice, Bid, Rfq, Version};
use sagas::ports::{Answer, Award, RequestForQuotes};

/// Longest text kept about a malformed bid, in characters.
const MALFORMED_CHARS_MAX: usize = 200;

/// The headers of a message that is sent in `span`; `None` where spans are not exported, and nothing is said of them.
pub(super) fn trace_headers(span: &Span) -> Option<HeaderMap> {
    let parent = span.in_scope(trace::current)?;
    let mut headers = HeaderMap::new();
    headers.insert(trace::TRACEPARENT, parent);
    Some(headers)
}

/// The request as settlers see it. Whom else the payer admits or excludes is not their business.
pub(super) fn rfq(request: &RequestForQuotes) -> Rfq {
    Rfq {
        version: Version,
        auction_id: request.auction_id.clone(),
        payment_id: request.payment_id.clone(),
        terms: request.terms.clone(),
        terms_hash: request.terms_hash,
        escrow: (&request.escrow).into(),
        fulfillment_proxies: request.fulfillment_proxies.clone(),
        quote_deadline: request.quote_deadline,
        fulfillment_deadline: request.fulfillment_deadline,
        required_policies: request.required_policies.clone(),
        payloads: request.payloads.clone(),
    }
}

/// What a settler's bid says.
pub(super) fn answer(payload: &[u8]) -> Answer {
    match protocol::read::<Bid>(payload) {
        Ok(Bid { quote: Some(document), .. }) => Answer::Quote(document),
        Ok(Bid { decline: Some(reason), .. }) => Answer::Decline(reason),
        Ok(_) => Answer::Malformed("neither a quote nor a decline".to_owned()),
        Err(error) => Answer::Malformed(error.to_string().chars().take(MALFORMED_CHARS_MAX).collect()),
    }
}

/// The notice to the winner.
pub(super) fn notice(award: &Award) -> AwardNotice {
    AwardNotice {
        version: Version,
        settler: award.settler.clone(),
        payment_id: award.case.payment_id.clone(),
        terms: award.case.terms.clone(),
        escrow: (&award.case.escrow).into(),
        quote: award.case.quote_document.clone(),
        quote_hash: award.quote_hash,
        verifier: (&award.verifier).into(),
        payloads: award.case.payloads.clone(),
    }
}
