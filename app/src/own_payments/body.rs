//! A payment as its owner is shown it, made from the view by pure functions.

use std::time::Duration;

use chrono::SecondsFormat;
use schemars::JsonSchema;
use serde::Serialize;

use events::{
    Amount, AssetId, ChainId, Did, OwnedAsset, PaymentId,
    quote::{Quote, SignedQuote},
    time::Timestamp,
};
use projections::{AwardedQuote, OwnedPage, PaymentStatus, PaymentView, Transaction, overdue};

use super::{
    Asked,
    query::{cursor, stage},
};
use crate::schema;

/// A page of the caller's payments, newest first.
// Body of `GET /v1/payments`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OwnPayments")]
pub struct OwnPaymentsBody {
    /// The payments. There may be fewer than `limit`, and none at all, although there is a `next_cursor`: what is looked at for
    /// one page is bounded.
    payments: Vec<OwnPaymentBody>,
    /// Where the next page begins, for `cursor`. Absent where nothing is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl OwnPaymentsBody {
    /// The page that was `asked` for.
    pub fn new(page: &OwnedPage, asked: &Asked) -> Self {
        let payments = page.payments.iter().map(|(shard, view)| OwnPaymentBody::new(view, *shard, asked));
        Self { payments: payments.collect(), next_cursor: page.next.as_ref().map(cursor) }
    }
}

/// A payment of the caller's.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OwnPayment")]
pub struct OwnPaymentBody {
    /// Tracking id of the payment.
    pub payment_id: PaymentId,
    /// The payer's idempotency key.
    pub request_id: String,
    /// Who asked: a DID, or the source account behind its namespace.
    pub originator: String,
    /// When it was submitted.
    #[schemars(with = "Timestamp")]
    pub submitted_at: String,
    /// When it was completed, by the time of the block that holds the delivery, or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    pub finished_at: Option<String>,
    #[schemars(with = "schema::StatusName")]
    pub status: &'static str,
    /// What the payment waits for, or `ended`.
    #[schemars(schema_with = "schema::own_payment_stage")]
    pub stage: &'static str,
    /// Which step is past its time, and since when. Absent where none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overdue: Option<OverdueBody>,
    /// Why it failed: the code of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = schema::CODE_PATTERN))]
    pub failure_code: Option<String>,
    pub source: PaidBody,
    /// Absent until a quote is awarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<DeliveredBody>,
    /// Delivered for paid, of a completed payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateBody>,
    /// The settler that was awarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub settler: Option<Did>,
    /// The account that attests the delivery.
    pub verifier: String,
    pub transactions: OwnTransactionsBody,
}

/// A step that is past its time.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OwnPaymentOverdue")]
pub struct OverdueBody {
    /// `undeposited`, `undelivered`, `unreassigned`, `unattested`, `unreleased` or `unrefunded`.
    pub step: &'static str,
    /// When it should have happened at the latest.
    #[schemars(with = "Timestamp")]
    pub since: String,
}

/// What was paid, and by whom.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OwnPaymentSource")]
pub struct PaidBody {
    /// The asset, CAIP-19.
    #[schemars(regex(pattern = schema::ASSET_PATTERN))]
    pub asset_identifier: AssetId,
    /// The payer.
    pub account: String,
    /// The most that the payer's signature permits, smallest unit, decimal.
    #[schemars(with = "String")]
    pub permitted_amount: Amount,
    /// What was taken into escrow, smallest unit, decimal. Absent until it is there at the required depth. What is over the
    /// settler's price comes back with the release: a deposit may leave room for another settler, and on Tron it is the most that
    /// is permitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub paid_amount: Option<Amount>,
    /// Whether the payer has it back.
    pub refunded: bool,
}

/// What is delivered, and to whom.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OwnPaymentDestination")]
pub struct DeliveredBody {
    /// The asset, CAIP-19.
    #[schemars(regex(pattern = schema::ASSET_PATTERN))]
    pub asset_identifier: AssetId,
    /// The recipient.
    pub account: String,
    /// What the settler has to deliver, smallest unit, decimal.
    #[schemars(with = "String")]
    pub amount: Amount,
    /// Whether it is delivered at the required depth.
    pub delivered: bool,
}

/// An exact rate: smallest units delivered for smallest units paid, in lowest terms. Assets with other decimals have to be
/// scaled by them. It holds the settler's spread and all that the payer paid for; the gateway takes nothing.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OwnPaymentRate")]
pub struct RateBody {
    /// Smallest units delivered, decimal.
    pub numerator: String,
    /// Smallest units paid, decimal.
    pub denominator: String,
}

/// The transactions that are known.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "OwnPaymentTransactions")]
pub struct OwnTransactionsBody {
    /// Takes the payer's funds into escrow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deposit: Option<OwnTransactionBody>,
    /// On Tron: reserves the deposit for the settler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<OwnTransactionBody>,
    /// Reserves the escrow for another settler, in the place of one that did not deliver in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reassignment: Option<OwnTransactionBody>,
    /// Pays the recipient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fulfillment: Option<OwnTransactionBody>,
    /// Pays the settler out of the escrow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<OwnTransactionBody>,
    /// Gives the payer the escrow back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refund: Option<OwnTransactionBody>,
}

/// A transaction.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OwnPaymentTransaction")]
pub struct OwnTransactionBody {
    /// CAIP-2 id.
    pub chain_id: ChainId,
    /// Its hash.
    #[schemars(regex(pattern = schema::TRANSACTION_HASH_PATTERN))]
    pub transaction_hash: String,
    /// Absent until mined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_number: Option<u64>,
}

/// What the settler offered. The quote was verified before it was stored, and is not again for each line of a list.
pub fn offer(quote: &AwardedQuote) -> Option<Quote> {
    match serde_json::from_str(&quote.document) {
        Ok(quote) => Some(quote),
        // Stored in the form that quotes had before they were JSON-LD.
        Err(_) => SignedQuote::parse_stored(&quote.document).ok().map(|signed| signed.quote().clone()),
    }
}

impl OwnPaymentBody {
    /// The payment, which lies in `shard`, as it stands when it was `asked` for.
    pub fn new(view: &PaymentView, shard: u16, asked: &Asked) -> Self {
        Self::at(view, shard, asked.now, asked.grace)
    }

    /// The same as it stands at `now`, where a chain may take `grace` until a deadline can be acted on with proof.
    pub fn at(view: &PaymentView, shard: u16, now: Timestamp, grace: Duration) -> Self {
        let completed = view.status == PaymentStatus::Completed;
        let offer = view.quote.as_ref().and_then(offer);
        let overdue = overdue(view, shard, now, grace);
        let finished_at = if completed { view.fulfilled_at } else { view.failed_at };
        let rate = offer.as_ref().zip(view.escrowed).filter(|_| completed);
        Self {
            payment_id: view.payment_id.clone(),
            request_id: view.request_id.clone(),
            originator: view.originator.clone(),
            submitted_at: time(view.submitted_at),
            finished_at: finished_at.map(time),
            status: view.status.as_str(),
            stage: stage(view),
            overdue: overdue.map(|overdue| OverdueBody { step: overdue.stage.as_str(), since: time(overdue.since) }),
            failure_code: view.failure.as_ref().map(|failure| failure.code.clone()),
            source: PaidBody {
                asset_identifier: view.source.asset().clone(),
                account: view.source.account().to_string(),
                permitted_amount: view.permitted,
                paid_amount: view.escrowed,
                refunded: view.at_rest && view.refund.as_ref().is_some_and(|refund| refund.block_number.is_some()),
            },
            // What is over its price comes back.
            rate: rate.map(|(offer, paid)| RateBody::of(offer.fulfillment_amount, paid.min(offer.source_amount))),
            settler: offer.as_ref().map(|offer| offer.settler.clone()),
            destination: offer.map(|offer| DeliveredBody::of(&offer.destination, offer.fulfillment_amount, completed)),
            verifier: view.verifier.account.to_string(),
            transactions: OwnTransactionsBody {
                deposit: view.deposit.as_ref().map(OwnTransactionBody::of),
                reservation: view.reservation.as_ref().map(OwnTransactionBody::of),
                reassignment: view.reassignment.as_ref().map(OwnTransactionBody::of),
                fulfillment: view.fulfillment.as_ref().map(OwnTransactionBody::of),
                release: view.release.as_ref().map(OwnTransactionBody::of),
                refund: view.refund.as_ref().map(OwnTransactionBody::of),
            },
        }
    }
}

impl DeliveredBody {
    fn of(destination: &OwnedAsset, amount: Amount, delivered: bool) -> Self {
        Self {
            asset_identifier: destination.asset().clone(),
            account: destination.account().to_string(),
            amount,
            delivered,
        }
    }
}

impl RateBody {
    fn of(delivered: Amount, paid: Amount) -> Self {
        let (delivered, paid) = (delivered.get(), paid.get());
        // Neither is zero.
        let common = delivered.gcd(paid);
        Self { numerator: (delivered / common).to_string(), denominator: (paid / common).to_string() }
    }
}

impl OwnTransactionBody {
    fn of(transaction: &Transaction) -> Self {
        Self {
            chain_id: transaction.chain_id.clone(),
            transaction_hash: transaction.transaction_hash.clone(),
            block_number: transaction.block_number,
        }
    }
}

/// A time as lists show it, to the millisecond.
pub(crate) fn time(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_exact_and_in_lowest_terms() {
        let rate = |delivered: &str, paid: &str| {
            let rate = RateBody::of(delivered.parse().unwrap(), paid.parse().unwrap());
            (rate.numerator, rate.denominator)
        };
        assert_eq!(rate("1000000", "1000500"), ("2000".to_owned(), "2001".to_owned()));
        assert_eq!(rate("5", "5"), ("1".to_owned(), "1".to_owned()));
        let largest = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
        assert_eq!(rate(largest, "1"), (largest.to_owned(), "1".to_owned()));
    }
}
