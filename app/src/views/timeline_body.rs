//! A payment's history as JSON: one entry an event, made from the stored commits by pure functions.
//!
//! An entry shows what concerns the payer: stages, transactions, amounts, reasons. It never shows signatures, raw
//! transactions, other settlers' bids, or text that a settler wrote.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value, json};

use events::{
    PaymentEvent, PaymentId,
    event::{
        AuctionClosed, AwardWithdrawn, Failed, Inclusion, QuoteAwarded, RefundDue, SelectorAnswered, Submitted,
        TransactionPrepared, WithdrawalCause,
    },
    selection::Choice,
    time::{Timestamp, from_unix_seconds},
};
use journal::Recorded;
use projections::{Applied, PaymentView};

use super::payment_body::{ClaimBody, FailureBody, TransactionBody, date_time};
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
            "deposit": stage("Commits the payer's funds; on Tron to the settler, once they are in escrow."),
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
        let mut entries = Vec::new();
        add(first, &view, base_url, &mut entries);
        for recorded in rest {
            match view.apply(recorded) {
                Applied::Next => add(recorded, &view, base_url, &mut entries),
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

fn add(recorded: &Recorded, view: &PaymentView, base_url: &str, entries: &mut Vec<Entry>) {
    let version = recorded.position.version;
    for (index, event) in recorded.payment_events().enumerate() {
        let Shown { summary, transactions, data } = shown(event, view, base_url);
        entries.push(Entry {
            id: EntryId { version, index },
            version,
            event: event.type_name(),
            at: date_time(recorded.stored_at),
            status: view.status.as_str(),
            summary,
            transactions: transactions.into_iter().collect(),
            data,
        });
    }
}

/// What an event shows of itself.
struct Shown {
    summary: String,
    transactions: Option<(&'static str, TransactionBody)>,
    data: Map<String, Value>,
}

impl Shown {
    fn new(summary: impl Into<String>, data: Value) -> Self {
        let data = match data {
            Value::Object(members) => members.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            _ => Map::new(),
        };
        Self { summary: summary.into(), transactions: None, data }
    }

    fn at(mut self, stage: &'static str, inclusion: &Inclusion) -> Self {
        let transaction = TransactionBody {
            transaction_hash: inclusion.transaction_hash.clone(),
            chain_id: inclusion.chain_id.clone(),
            block_number: Some(inclusion.block_number),
        };
        self.transactions = Some((stage, transaction));
        self
    }

    fn sent(mut self, stage: &'static str, prepared: &TransactionPrepared) -> Self {
        let transaction = TransactionBody {
            transaction_hash: prepared.transaction_hash.clone(),
            chain_id: prepared.chain_id.clone(),
            block_number: None,
        };
        self.transactions = Some((stage, transaction));
        self
    }
}

/// `view` is the payment after the commit that holds the event.
fn shown(event: &PaymentEvent, view: &PaymentView, base_url: &str) -> Shown {
    match event {
        PaymentEvent::Submitted(submitted) => self::submitted(submitted),
        PaymentEvent::AuctionClosed(closed) => auction_closed(closed),
        PaymentEvent::SelectorAsked(asked) => Shown::new(
            "The quotes are shown to the selector that the request names.",
            json!({"quote_count": asked.documents.len()}),
        ),
        PaymentEvent::SelectorAnswered(answered) => selector_answered(answered),
        PaymentEvent::QuoteAwarded(awarded) => quote_awarded(awarded),
        PaymentEvent::AwardWithdrawn(withdrawn) => award_withdrawn(withdrawn),
        PaymentEvent::WinnerTold(_) => {
            Shown::new("The settler that had won finds that its award is over, and lets go of its tokens.", json!({}))
        }
        PaymentEvent::DepositPrepared(prepared) => {
            let summary = match view.payer_deposit {
                true => "The payer's deposit is on chain; its reservation for the settler is signed and being sent.",
                false => "The deposit is signed and being sent.",
            };
            Shown::new(summary, json!({"attempt": prepared.attempt})).sent("deposit", prepared)
        }
        PaymentEvent::DepositRepriced(prepared) => Shown::new(
            "The deposit waits for a block and is sent again with higher fees; one of its transactions lands at most.",
            json!({"attempt": prepared.attempt}),
        )
        .sent("deposit", prepared),
        PaymentEvent::DepositAbandoned(abandoned) => Shown::new(
            "The deposit that was sent can never land; another attempt may follow.",
            json!({"attempt": abandoned.attempt}),
        ),
        PaymentEvent::EscrowSecured(secured) => {
            let data = json!({"amount": secured.amount, "block_time": block_time(&secured.inclusion)});
            Shown::new("The funds are in escrow, reserved for the settler.", data).at("deposit", &secured.inclusion)
        }
        PaymentEvent::EscrowOpened(opened) => {
            let data = json!({"amount": opened.amount, "block_time": block_time(&opened.inclusion)});
            let summary = "The payer's own transaction brought the funds into escrow, where no settler can be named any \
                           more; they go back to the payer when the refund window opens.";
            Shown::new(summary, data).at("deposit", &opened.inclusion)
        }
        PaymentEvent::DepositRuledOut(_) => {
            Shown::new("The payer's own transaction can deposit nothing any more. No money was taken.", json!({}))
        }
        PaymentEvent::FulfillmentSeen(seen) => {
            let data = json!({"block_time": block_time(&seen.inclusion)});
            Shown::new("The delivery is on chain and gathers confirmations.", data).at("fulfillment", &seen.inclusion)
        }
        PaymentEvent::FulfillmentConfirmed(confirmed) => {
            let data = json!({
                "block_time": block_time(&confirmed.inclusion),
                "release_from": confirmed.release_from.map(date_time),
            });
            Shown::new("The delivery is final.", data).at("fulfillment", &confirmed.inclusion)
        }
        PaymentEvent::AttestationAwaited(awaited) => {
            let data = json!({
                "block_time": block_time(&awaited.inclusion),
                "fulfillment_verifier": {"account": view.verifier.account, "endpoint": view.verifier.endpoint},
            });
            let summary = "The delivery is final, and the fulfillment verifier has not attested it so far; without that the \
                           settler cannot be paid.";
            Shown::new(summary, data).at("fulfillment", &awaited.inclusion)
        }
        PaymentEvent::ReleasePrepared(prepared) => Shown::new(
            "The settler has not released the escrow, so the gateway does: the release is signed and being sent.",
            json!({"attempt": prepared.attempt}),
        )
        .sent("release", prepared),
        PaymentEvent::ReleaseRepriced(prepared) => Shown::new(
            "The release waits for a block and is sent again with higher fees; one of its transactions lands at most.",
            json!({"attempt": prepared.attempt}),
        )
        .sent("release", prepared),
        PaymentEvent::ReleaseAbandoned(abandoned) => Shown::new(
            "The release that was sent can never land; another attempt may follow.",
            json!({"attempt": abandoned.attempt}),
        ),
        PaymentEvent::EscrowReleased(released) => {
            let summary = match released.claims.is_empty() {
                true => "The escrow paid the settler.",
                false => {
                    "The escrow was released. The token would not hand over all of it; what it did not waits in the escrow as \
                     a claim of its owner, to whom anyone can bring it."
                }
            };
            let data = json!({"block_time": block_time(&released.inclusion), "claims": claims(view)});
            Shown::new(summary, data).at("release", &released.inclusion)
        }
        PaymentEvent::Failed(failed) => self::failed(failed, view, base_url),
        PaymentEvent::RefundPrepared(prepared) => {
            Shown::new("The refund is signed and being sent.", json!({"attempt": prepared.attempt}))
                .sent("refund", prepared)
        }
        PaymentEvent::RefundRepriced(prepared) => Shown::new(
            "The refund waits for a block and is sent again with higher fees; one of its transactions lands at most.",
            json!({"attempt": prepared.attempt}),
        )
        .sent("refund", prepared),
        PaymentEvent::RefundAbandoned(abandoned) => Shown::new(
            "The refund that was sent can never land; another attempt follows.",
            json!({"attempt": abandoned.attempt}),
        ),
        PaymentEvent::EscrowRefunded(refunded) => {
            let summary = match refunded.claims.is_empty() {
                true => "The payer has the money back.",
                false => {
                    "The escrow was refunded. The token would not hand the money to the payer; it waits in the escrow as the \
                     payer's claim, which anyone can bring there, and which the payer can take to another account."
                }
            };
            let data = json!({
                "amount": refunded.amount,
                "block_time": block_time(&refunded.inclusion),
                "claims": claims(view),
            });
            Shown::new(summary, data).at("refund", &refunded.inclusion)
        }
    }
}

fn submitted(submitted: &Submitted) -> Shown {
    let terms = &submitted.terms;
    let message_scheme = submitted.authorization.scheme();
    let escrow = &submitted.escrow;
    let collected = submitted.collected_quote.as_ref();
    let data = json!({
        "request_id": submitted.request_id,
        "source": terms.source,
        "destination": terms.destination(),
        "fulfillment_amount": terms.fulfillment_amount,
        "max_source_amount": terms.max_source_amount,
        "quote_deadline": date_time(submitted.quote_deadline),
        "fulfillment_deadline": date_time(submitted.fulfillment_deadline),
        "message_scheme": message_scheme,
        "escrow": {
            "chain_id": escrow.chain_id,
            "contract_address": escrow.contract,
            "reserve_deadline": seconds(escrow.reserve_deadline),
            "refund_after": seconds(escrow.refund_after),
        },
        "fulfillment_verifier": {"account": submitted.verifier.account, "endpoint": submitted.verifier.endpoint},
        "quote_request_id": collected.map(|collected| &collected.quote_request_id),
        "quote_id": collected.map(|collected| &collected.quote_id),
        "quote_selector": submitted.selector.as_ref().map(|selector| selector.key),
    });
    Shown::new("The payment was accepted.", data)
}

fn auction_closed(closed: &AuctionClosed) -> Shown {
    let mut declines = BTreeMap::<&str, u64>::new();
    // A settler that answered more than once counts under its last reason (spec 2.11).
    let latest: BTreeMap<_, _> = closed.declines.iter().map(|decline| (&decline.settler, &decline.reason)).collect();
    for reason in latest.into_values() {
        *declines.entry(reason).or_default() += 1;
    }
    let declines: Vec<_> = declines.iter().map(|(reason, count)| json!({"reason": reason, "count": count})).collect();
    let (requested, quotes) = (closed.addressed.len(), closed.quotes.len());
    let data = json!({
        "requested_count": requested,
        "quote_count": quotes,
        "dropped_count": closed.dropped.len(),
        "decline_summary": declines,
        "closed_at": date_time(closed.closed_at),
    });
    Shown::new(format!("The auction is over: {requested} settlers asked, {quotes} quotes."), data)
}

fn selector_answered(answered: &SelectorAnswered) -> Shown {
    // It was verified before it was stored.
    let choice: Option<Choice> = serde_json::from_str(&answered.choice).ok();
    let (chosen, reason) = choice.map(|choice| (choice.quote_hash, choice.reason)).unwrap_or_default();
    let summary = match chosen {
        Some(_) => "The selector chose a quote.",
        None => "The selector took none of the quotes.",
    };
    Shown::new(summary, json!({"quote_hash": chosen, "reason": reason}))
}

fn quote_awarded(awarded: &QuoteAwarded) -> Shown {
    let signed = awarded.signed_quote().ok();
    let quote = signed.as_ref().map(|signed| signed.quote());
    let data = json!({
        "quote_id": awarded.quote_id,
        "quote_hash": awarded.quote_hash,
        "settler": quote.map(|quote| &quote.settler),
        "source_amount": quote.map(|quote| quote.source_amount),
        "destination": quote.map(|quote| &quote.destination),
        "fulfill_by": quote.map(|quote| date_time(quote.fulfill_by)),
    });
    Shown::new("A quote was awarded.", data)
}

fn award_withdrawn(withdrawn: &AwardWithdrawn) -> Shown {
    let (summary, reason) = match &withdrawn.cause {
        WithdrawalCause::Refused { reason } => ("The settler that won does not stand by its quote.", Some(reason)),
        WithdrawalCause::Unanswered => ("The settler that won did not answer its award in time.", None),
        WithdrawalCause::NotDeposited => ("No deposit was made for the settler that won, and none can be.", None),
    };
    Shown::new(summary, json!({"cause": withdrawn.cause.code(), "reason": reason}))
}

fn failed(failed: &Failed, view: &PaymentView, base_url: &str) -> Shown {
    let refund = match &failed.refund {
        RefundDue::Nothing => "nothing_due",
        RefundDue::ByNonDelivery { .. } => "by_cancellation",
        RefundDue::AfterWindow => "after_refund_window",
    };
    let error = FailureBody::new(failed.failure.clone(), base_url);
    let summary = match &failed.refund {
        RefundDue::Nothing if view.watched => {
            "The payment failed. The payer's own transaction is watched until it can deposit nothing any more; what it \
             deposits goes back."
        }
        RefundDue::Nothing => "The payment failed. No money was taken.",
        RefundDue::ByNonDelivery { .. } => "The payment failed. The escrow is being cancelled in favour of the payer.",
        RefundDue::AfterWindow => "The payment failed. The escrow goes back to the payer when its refund window opens.",
    };
    // A body of strings and numbers is always representable.
    let error = serde_json::to_value(error).unwrap_or_default();
    Shown::new(summary, json!({"error": error, "refund": refund}))
}

/// What waits in the escrow; nothing when all was paid out.
fn claims(view: &PaymentView) -> Option<Vec<ClaimBody>> {
    Some(ClaimBody::all(view)).filter(|claims| !claims.is_empty())
}

fn block_time(inclusion: &Inclusion) -> Option<String> {
    from_unix_seconds(inclusion.block_time).map(date_time)
}

/// A time of a chain, as responses write times.
fn seconds(unix: u64) -> Option<String> {
    from_unix_seconds(unix).map(|at: Timestamp| date_time(at))
}
