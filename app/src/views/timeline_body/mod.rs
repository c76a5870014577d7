//! A payment's history as JSON: one entry an event, made from the stored commits by pure functions.
//!
//! An entry shows what concerns the payer: stages, transactions, amounts, reasons. It never shows signatures, raw
//! transactions, other settlers' bids, or text that a settler wrote.

mod cause;
mod shown;

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value};

use events::{PaymentEvent, PaymentId, time::Timestamp};
use journal::Recorded;
use projections::{Applied, PaymentView};

use self::{
    cause::{Cause, Course, cause},
    shown::{Shown, shown},
};
use super::payment_body::{TransactionBody, date_time};
use crate::schema;

/// Everything that happened to a payment.
// Body of `GET /v1/payments/{id}/timeline`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PaymentTimeline")]
pub struct TimelineBody {
    /// Tracking id of the payment.
    payment_id: PaymentId,
    // As in the status read.
    #[schemars(with = "schema::StatusName")]
    status: &'static str,
    /// Nothing more will happen: the money is with the settler or back with the payer. A failed payment whose payer deposits by
    /// a transaction of its own (Tron) is not there before that transaction can't land any more.
    at_rest: bool,
    /// In the order of events.
    pub entries: Vec<Entry>,
}

/// One thing that happened; also the data of one server-sent event.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TimelineEntry")]
pub struct Entry {
    /// What `Last-Event-ID` takes.
    #[schemars(with = "String", regex(pattern = ENTRY_ID_PATTERN))]
    pub id: EntryId,
    /// Number of the decision it belongs to, from 1.
    version: u64,
    /// Type of the event, such as `EscrowSecured`.
    event: &'static str,
    /// When it was recorded.
    #[schemars(with = "Timestamp")]
    at: String,
    // The payment's status from then on.
    #[schemars(with = "schema::StatusName")]
    status: &'static str,
    cause: Cause,
    /// For humans; may be reworded.
    summary: String,
    /// Transactions by stage.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "transactions_by_stage")]
    transactions: BTreeMap<&'static str, TransactionBody>,
    /// What else there is to know, by the type of the event. An `EscrowReleased` or `EscrowRefunded` whose money the token would
    /// not hand over has `claims`, each a `PaymentClaim`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "schema::free_form")]
    data: Map<String, Value>,
}

/// The id of an entry, as [`EntryId`] writes it.
const ENTRY_ID_PATTERN: &str = r"^[0-9]{1,18}\.[0-9]{1,9}$";

fn transactions_by_stage(generator: &mut SchemaGenerator) -> Schema {
    let mut stage = |description: &str| {
        let mut schema = generator.subschema_for::<TransactionBody>();
        schema.insert("description".to_owned(), description.into());
        schema
    };
    json_schema!({
        "type": "object",
        "properties": {
            "approval": stage("On Tron: the payer's own transaction that gives the escrow its allowance."),
            "transfer": stage("On Solana: what a stock client of x402 pays to the address of its merchant's offer."),
            "deposit": stage(
                "Commits the payer's funds; on Tron the payer's own transaction, or from a deposit address the gateway's, \
                 which reserves, too.",
            ),
            "reservation": stage("On Tron: reserves the deposit for the settler, where the deposit does not."),
            "reassignment": stage("Reserves the escrow for another settler, in the place of one that did not deliver."),
            "fulfillment": stage("Pays the recipient."),
            "release": stage("Pays the settler out of the escrow."),
            "refund": stage("Returns the escrow to the payer."),
        },
    })
}

/// Where an event stands in its payment: the commit's version and the event's index in it. Written `version.index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId {
    version: u64,
    index: usize,
}

impl EntryId {
    /// Before every entry.
    pub const START: Self = Self { version: 0, index: 0 };

    /// The id written as `text`.
    pub fn parse(text: &str) -> Option<Self> {
        let (version, index) = text.split_once('.')?;
        let decimal = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
        let id = Self { version: version.parse().ok()?, index: index.parse().ok()? };
        (decimal(version) && decimal(index)).then_some(id)
    }
}

impl std::fmt::Display for EntryId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.version, self.index)
    }
}

impl Serialize for EntryId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A payment's history, with the view at its end.
pub struct History {
    pub view: PaymentView,
    pub entries: Vec<Entry>,
}

impl History {
    /// The history of a payment with these commits; `None` when they do not begin with a submission.
    pub fn of(commits: &[Recorded], base_url: &str) -> Option<Self> {
        let (first, rest) = commits.split_first()?;
        let mut view = PaymentView::begin(first)?;
        let PaymentEvent::Submitted(submitted) = first.payment_events().next()? else { return None };
        let (mut entries, mut course) = (Vec::new(), Course::of(submitted));
        add(first, &mut course, &view, base_url, &mut entries);
        for recorded in rest {
            match view.apply(recorded) {
                Applied::Next => add(recorded, &mut course, &view, base_url, &mut entries),
                Applied::Skipped => {}
                Applied::Gap => break,
            }
        }
        Some(Self { view, entries })
    }
}

impl From<History> for TimelineBody {
    fn from(History { view, entries }: History) -> Self {
        Self { payment_id: view.payment_id, status: view.status.as_str(), at_rest: view.at_rest, entries }
    }
}

fn add(recorded: &Recorded, course: &mut Course<'_>, view: &PaymentView, base_url: &str, entries: &mut Vec<Entry>) {
    let version = recorded.position.version;
    for (index, event) in recorded.payment_events().enumerate() {
        let Shown { summary, transactions, data } = shown(event, view, base_url);
        entries.push(Entry {
            id: EntryId { version, index },
            version,
            event: event.type_name(),
            at: date_time(recorded.stored_at),
            status: view.status.as_str(),
            cause: cause(event, course, view),
            summary,
            transactions: transactions.into_iter().collect(),
            data,
        });
        course.go_on(event);
    }
}
