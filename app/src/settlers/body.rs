//! A settler's record as it is shown, made by pure functions.

use schemars::JsonSchema;
use serde::Serialize;

use events::{Did, time::Timestamp};
use projections::SettlerPage;
use sagas::settler_record::{PauseRule, SettlerRecord};

use super::query::cursor;
use crate::own_payments::body::time;

/// A page of settlers, in the order of their DIDs.
// Body of `GET /v1/settlers`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Settlers")]
pub struct SettlersBody {
    /// The settlers that were ever asked for a quote.
    settlers: Vec<SettlerBody>,
    /// Where the next page begins, for `cursor`. Absent where nothing is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl SettlersBody {
    /// The page, by a rule and a time.
    pub fn new(page: &SettlerPage, pauses: PauseRule, now: Timestamp) -> Self {
        let settlers = page.settlers.iter().map(|(settler, record)| SettlerBody::new(settler, record, pauses, now));
        Self { settlers: settlers.collect(), next_cursor: page.next.as_ref().map(cursor) }
    }
}

/// A settler's record: in how many auctions it was asked, offered and declined, how many awards it won, and how those
/// ended. Counted from the events of all payments and quote-requests of this gateway's journal.
// Body of `GET /v1/settlers/{did}`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Settler")]
pub struct SettlerBody {
    /// The settler's DID.
    settler: Did,
    /// Auctions, and collections of quotes, in which it was asked.
    asked: u64,
    /// Of these, those in which it made an eligible quote.
    offered: u64,
    /// Of these, those in which it declined.
    declined: u64,
    /// Awards.
    won: u64,
    /// Awards that it accepted, and for which a deposit was then signed or found.
    acknowledged: u64,
    /// Awards that it refused.
    refused: u64,
    /// Awards that it did not answer in time.
    unanswered: u64,
    /// Payments that it delivered.
    delivered: u64,
    /// Of these, those in whose delivery the last quarter was used of the time from the escrow to the promise.
    late: u64,
    /// Payments that were in escrow for it and that it did not deliver in its time.
    missed: u64,
    /// The median of its newest 101 deliveries: seconds from the block that secured the escrow to the block that holds the
    /// delivery. Absent without a delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    median_delivery_seconds: Option<u64>,
    /// When it won last. Absent where it never did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    last_won_at: Option<String>,
    /// Until then it is asked only where nobody else is asked, or nobody who is asked offers, for the awards that it missed.
    /// Absent where it is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    passed_over_until: Option<String>,
}

impl SettlerBody {
    /// The record of a settler, by a rule and a time.
    pub fn new(settler: &Did, record: &SettlerRecord, pauses: PauseRule, now: Timestamp) -> Self {
        Self {
            settler: settler.clone(),
            asked: record.asked,
            offered: record.offered,
            declined: record.declined,
            won: record.won,
            acknowledged: record.acknowledged,
            refused: record.refused,
            unanswered: record.unanswered,
            delivered: record.delivered,
            late: record.late,
            missed: record.missed,
            median_delivery_seconds: record.median_seconds().map(u64::from),
            last_won_at: record.last_won_at.map(time),
            passed_over_until: pauses.passed_over_until(record, now).map(time),
        }
    }
}
