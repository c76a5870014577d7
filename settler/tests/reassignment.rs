//! Quotes for escrows that are to be reassigned: within what is in them, past their deposits' windows, and in auctions of their own
//! payments alone.

use events::{Hash32, PaymentId, QuoteRequestId, quote::reassignment_auction_of};
use protocol::{Escrowed, REASSIGNMENTS_MAX, Rfq};

use crate::quoting::{NOW, USD_TEN, answer, at, is_free, quoted, rfq, with_balance};

/// A request for the escrow, with so much in it, of a payment whose winner did not deliver; its deposit's window is over.
fn reassignment(id: &str, amount: u64, escrowed: u64) -> Rfq {
    let first = rfq(id, &[USD_TEN], amount, None);
    let auction_id = reassignment_auction_of(first.payment_id.as_ref().unwrap(), 1);
    let escrowed = Escrowed { amount: escrowed.to_string().parse().unwrap(), reserved_for: Hash32([7; 32]) };
    let mut next = Rfq { auction_id, escrowed: Some(escrowed), ..first };
    next.escrow.reserve_deadline.0 = NOW - 60;
    next
}

#[tokio::test]
async fn an_escrow_is_quoted_for_within_what_is_in_it_and_past_its_deposits_window() {
    let fixture = with_balance(100_000);
    let quote = quoted(&fixture, &reassignment("a", 100_000, 101_050)).await;
    assert_eq!(quote.quote().source_amount.to_string(), "101050");
    assert_eq!((quote.quote().fulfill_by, quote.quote().valid_until), (at(NOW + 120), at(NOW + 35)));
    assert!(!is_free(&fixture, 1, 100_000), "the payment is signed, so its tokens are held");

    let bid = answer(&with_balance(100_000), &reassignment("a", 100_000, 101_049), NOW).await;
    assert_eq!(bid.decline.as_deref(), Some("PRICE_ABOVE_CAP"));
    // A quote is not firm beyond what it promises.
    let mut short = reassignment("a", 100_000, 200_000);
    short.escrow.fulfillment_deadline.0 = NOW + 20;
    let quote = quoted(&with_balance(100_000), &short).await;
    assert_eq!((quote.quote().fulfill_by, quote.quote().valid_until), (at(NOW + 20), at(NOW + 20)));
    // When the deposit had to be made does not matter any more, and the payer's own cap does.
    let mut far = reassignment("a", 100_000, 200_000);
    far.escrow.reserve_deadline.0 = u64::MAX;
    quoted(&with_balance(100_000), &far).await;
    far.terms.max_source_amount = Some("101049".parse().unwrap());
    assert_eq!(answer(&with_balance(100_000), &far, NOW).await.decline.as_deref(), Some("PRICE_ABOVE_CAP"));
    far.terms.max_source_amount = None;
    far.escrow.fulfillment_deadline.0 = u64::MAX;
    assert_eq!(answer(&with_balance(100_000), &far, NOW).await.decline.as_deref(), Some("DEADLINE_TOO_LONG"));
}

#[tokio::test]
async fn an_escrow_is_quoted_for_in_an_auction_of_its_own_payment_alone() {
    let request = reassignment("a", 100_000, 200_000);
    let payment_id = request.payment_id.clone().unwrap();
    let other = PaymentId::derive("quoting", "another");
    let in_auction = |auction_id: String| Rfq { auction_id, ..request.clone() };
    for round in [1, REASSIGNMENTS_MAX] {
        quoted(&with_balance(100_000), &in_auction(reassignment_auction_of(&payment_id, round))).await;
    }
    let foreign = [
        payment_id.to_string(),
        reassignment_auction_of(&payment_id, REASSIGNMENTS_MAX + 1),
        reassignment_auction_of(&other, 1),
        QuoteRequestId::derive("payer", "batch").to_string(),
    ];
    let unsigned = Rfq { payment_id: None, ..request.clone() };
    for request in foreign.map(in_auction).into_iter().chain([unsigned]) {
        let bid = answer(&with_balance(100_000), &request, NOW).await;
        assert_eq!(bid.decline.as_deref(), Some("INVALID_REASSIGNMENT"), "{}", request.auction_id);
    }
}
