//! Conversions between the engine's types and the wire form of `protocol`.

use async_nats::HeaderMap;
use tracing::Span;

use protocol::{AwardNotice, AwardToken, Bid, Rfq, Version, is_reassignment_auction};
use sagas::ports::{Answer, Award, AwardEnd, Escrowed, RequestForQuotes};

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
        escrowed: request.escrowed.map(escrowed),
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
        escrowed: award.escrowed.map(escrowed),
    }
}

/// The notice that an award is over.
pub(super) fn end(end: &AwardEnd) -> protocol::AwardEnd {
    protocol::AwardEnd {
        version: Version,
        settler: end.settler.clone(),
        payment_id: end.payment_id.clone(),
        quote_hash: end.quote_hash,
        auction_id: Some(end.auction_id.clone()),
        ended: end.code.clone(),
    }
}

/// Under which token an award is stored and answered.
pub(super) fn token(award: &Award) -> AwardToken {
    AwardToken::of(&award.case.payment_id, award.quote_hash, award.escrowed.is_some())
}

/// Under which token the award lies that `end` ends.
pub(super) fn ended_token(end: &AwardEnd) -> AwardToken {
    AwardToken::of(&end.payment_id, end.quote_hash, is_reassignment_auction(&end.auction_id, &end.payment_id))
}

fn escrowed(escrowed: Escrowed) -> protocol::Escrowed {
    protocol::Escrowed { amount: escrowed.amount, reserved_for: escrowed.reserved_for }
}
