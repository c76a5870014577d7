//! A quote that takes the place of one that lapsed, on an EVM chain as the source.

use alloy::signers::local::PrivateKeySigner;
use anyhow::Result;
use ed25519_dalek::SigningKey;

use chains::settler::ReservationOrder;
use events::{
    Did,
    event::{Authorization, EscrowPlan},
    quote::{Quote, SignedQuote, reassignment_auction_of},
    time::{from_unix_seconds, unix_seconds},
};
use sagas::ports::{DepositOrder, Escrowed, ReassignmentOrder};

use super::{Payment, text};

/// The quote of the payment's `round`-th further auction that has `settler` deliver for `price` until `fulfill_by`.
pub fn next_quote(
    payment: &Payment,
    round: usize,
    settler: &PrivateKeySigner,
    price: u64,
    fulfill_by: u64,
) -> Result<Payment> {
    let signing = SigningKey::from_bytes(&[20; 32]);
    let before = payment.quote.quote();
    let quote = Quote {
        auction_id: reassignment_auction_of(payment.id(), round),
        settler: Did::from_ed25519(&signing.verifying_key()),
        source_amount: price.to_string().parse()?,
        payout_account: text(settler).parse()?,
        delivery_account: text(settler).parse()?,
        fulfill_by: from_unix_seconds(fulfill_by).unwrap(),
        ..before.clone()
    };
    let quote: SignedQuote = quote.sign(&signing, from_unix_seconds(unix_seconds(chrono::Utc::now())).unwrap())?;
    let (spend, authorization): (_, Authorization) = (payment.spend.clone(), payment.authorization.clone());
    let escrow: EscrowPlan = payment.escrow.clone();
    Ok(Payment { spend, authorization, escrow, quote })
}

/// The reassignment from the quote of `lapsed` to that of `next`, by the releaser's word `non_delivery`.
pub fn reassignment(
    lapsed: &DepositOrder,
    next: &DepositOrder,
    deposited: u64,
    non_delivery: String,
) -> ReassignmentOrder {
    ReassignmentOrder {
        payment_id: lapsed.payment_id.clone(),
        terms: lapsed.terms.clone(),
        terms_hash: lapsed.terms_hash,
        escrow: lapsed.escrow.clone(),
        authorization: lapsed.authorization.clone(),
        deposited: deposited.to_string().parse().unwrap(),
        lapsed: lapsed.reservation.clone(),
        non_delivery,
        reservation: next.reservation.clone(),
    }
}

/// What the settler of a deposit's reservation requires; of one that takes another's place with what it was told to be in escrow.
pub fn required(deposit: &DepositOrder, escrowed: Option<Escrowed>) -> ReservationOrder {
    let source = &deposit.terms.source;
    ReservationOrder {
        payment_id: deposit.payment_id.clone(),
        escrow: deposit.escrow.clone(),
        payer: source.account().clone(),
        asset: source.asset().clone(),
        terms_hash: deposit.terms_hash,
        quote_hash: deposit.reservation.quote_hash,
        payout_account: deposit.reservation.payout_account.clone(),
        source_amount: deposit.reservation.source_amount,
        fulfill_by: deposit.reservation.fulfill_by,
        escrowed,
    }
}

/// What the settler that takes the place of the one in `order` is told.
pub fn escrowed(order: &ReassignmentOrder) -> Option<Escrowed> {
    Some(Escrowed { amount: order.deposited, reserved_for: order.lapsed.quote_hash })
}
