//! The commits of a successful payment, for benches that write them into the journal themselves.

use anyhow::{Context as _, Result};
use chrono::Utc;
use ed25519_dalek::SigningKey;

use devnet::network::{DESTINATION_ID, SOURCE_ID};
use events::{
    CommitId, PaymentEvent,
    event::{
        AuctionClosed, EscrowReleased, FulfillmentConfirmed, FulfillmentSeen, QuoteAwarded, QuoteReceived,
        TransactionPrepared, Validity,
    },
    quote::SignedQuote,
};
use journal::{Commit, Journal, Position, Recorded};

use crate::{
    orders::Order,
    world::{inclusion, raw, secured},
};

/// The commits after the submission, one for each decision.
///
/// # Errors
/// When the quote cannot be signed.
pub fn after_submission(order: &Order, settler: &SigningKey) -> Result<Vec<Vec<PaymentEvent>>> {
    let now = Utc::now();
    let signed = SignedQuote::parse(&order.quote(settler)?)?;
    let quote = signed.quote();
    let closed = AuctionClosed {
        addressed: vec![quote.settler.clone()],
        quotes: vec![QuoteReceived {
            settler: quote.settler.clone(),
            quote_hash: signed.hash(),
            source_amount: quote.source_amount,
            fulfill_by: quote.fulfill_by,
        }],
        declines: Vec::new(),
        dropped: Vec::new(),
        held_policies: Vec::new(),
        passed_over: Vec::new(),
        alternates: Vec::new(),
        closed_at: now,
    };
    let awarded = QuoteAwarded {
        quote_id: signed.id(),
        quote_hash: signed.hash(),
        document: signed.document().to_owned(),
        awarded_at: now,
    };
    let deposit = TransactionPrepared {
        attempt: 1,
        chain_id: order.spend.terms.source.asset().chain().clone(),
        sender: order.spend.escrow.reserver.clone(),
        validity: Validity::Nonce(1),
        transaction_hash: events::Hash32::sha256(order.payment_id.as_str()).to_string(),
        raw: raw(&order.payment_id),
        prepared_at: now,
    };
    let delivery = inclusion(DESTINATION_ID, 2);
    let confirmed = FulfillmentConfirmed {
        inclusion: delivery.clone(),
        attestation: format!("0x{:0130x}", 1),
        confirmed_at: now,
        release_from: Some(now),
    };
    Ok(vec![
        vec![PaymentEvent::AuctionClosed(closed), PaymentEvent::QuoteAwarded(Box::new(awarded))],
        vec![PaymentEvent::DepositPrepared(deposit)],
        vec![PaymentEvent::EscrowSecured(secured(quote.source_amount))],
        vec![PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: delivery })],
        vec![PaymentEvent::FulfillmentConfirmed(confirmed)],
        vec![PaymentEvent::EscrowReleased(EscrowReleased { inclusion: inclusion(SOURCE_ID, 3), claims: Vec::new() })],
    ])
}

/// Appends one decision about a payment.
///
/// # Errors
/// When it is not stored.
pub async fn append(
    journal: &impl Journal,
    order: &Order,
    expected: Position,
    events: Vec<PaymentEvent>,
) -> Result<Recorded> {
    let commit = Commit {
        stream_id: order.payment_id.clone().into(),
        expected,
        commit_id: CommitId::random(),
        events: events.into_iter().map(Into::into).collect(),
        correlation: "bench".to_owned(),
        causation: "bench".to_owned(),
    };
    journal.append(&commit).await.context("append")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sagas::payment::{Stage, fold};

    use super::*;
    use crate::orders::Payer;

    #[test]
    fn the_commits_are_those_of_a_payment_that_comes_to_rest() {
        let order = Payer::new().unwrap().sign("t", 0..1, Duration::from_secs(60)).unwrap().remove(0);
        let mut events = vec![PaymentEvent::Submitted(Box::new(order.submitted().unwrap()))];
        events.extend(after_submission(&order, &settler::dev::key(1).unwrap()).unwrap().into_iter().flatten());
        assert_eq!(fold(&events).unwrap().unwrap().stage(), Stage::Rest);
    }
}
