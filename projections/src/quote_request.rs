//! Quote-request view: one batch as it is shown, a fold over its own events.

use serde::{Deserialize, Serialize};

use events::{
    Hash32, PaymentId, QuoteRequestEvent, QuoteRequestId, Terms,
    quote_request::{CollectedDocument, QuoteRequestOpened},
    time::Timestamp,
};
use journal::Recorded;

use crate::view::{Applied, DeclineCount, as_json};

/// The states of a batch (spec 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuoteRequestStatus {
    /// Quotes are being collected.
    Collecting,
    /// The collection is over; there may be no quotes.
    Ready,
    /// A quote was awarded.
    Awarded,
    /// Nothing was awarded, and every collected quote has lapsed.
    Expired,
}

impl QuoteRequestStatus {
    /// The status as the contract writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Collecting => "collecting",
            Self::Ready => "ready",
            Self::Awarded => "awarded",
            Self::Expired => "expired",
        }
    }
}

/// A collected quote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedQuote {
    /// Its id.
    pub quote_id: String,
    /// Its hash.
    pub quote_hash: Hash32,
    /// It may be awarded until then.
    pub valid_until: Timestamp,
    /// The signed document as it came, JSON.
    pub document: String,
}

impl From<&CollectedDocument> for OfferedQuote {
    fn from(collected: &CollectedDocument) -> Self {
        Self {
            quote_id: collected.quote_id.clone(),
            quote_hash: collected.quote_hash,
            valid_until: collected.valid_until,
            document: collected.document.clone(),
        }
    }
}

/// The award of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchAward {
    /// The quote.
    pub quote_id: String,
    /// The payment it was awarded to. Its stream begins right after the award; when the process died in between, with
    /// the next repetition of the award call.
    pub payment_id: PaymentId,
    /// When.
    pub awarded_at: Timestamp,
}

/// Everything the HTTP responses show of a batch (spec 2.13), and where its stream stood.
///
/// Its serde form is the one that is stored, and no wire format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuoteRequestView {
    /// The batch.
    pub quote_request_id: QuoteRequestId,
    /// The caller's idempotency key.
    pub request_id: String,
    /// Who asked.
    pub originator: String,
    /// The economics, normalised.
    #[serde(with = "as_json")]
    pub terms: Terms,
    /// Their hash, equal exactly when a retry is a replay.
    pub terms_hash: Hash32,
    /// End of quote collection.
    pub quote_deadline: Timestamp,
    /// The same as the caller wrote it.
    pub quote_deadline_text: String,
    /// Final completion deadline.
    pub fulfillment_deadline: Timestamp,
    /// The same as the caller wrote it.
    pub fulfillment_deadline_text: String,
    /// The body of the request as it came.
    pub request: String,
    /// When the last commit was stored.
    pub updated_at: Timestamp,
    /// Settlers the request was broadcast to; absent while collecting.
    pub requested_count: Option<u64>,
    /// Declines by reason, in order of the reasons; absent while collecting.
    pub declines: Option<Vec<DeclineCount>>,
    /// The eligible quotes, the selector's choice first, else best first; absent while collecting.
    pub quotes: Option<Vec<OfferedQuote>>,
    /// Whether the first of them is there because the quote selector that the request named chose it.
    pub ordered_by_selector: bool,
    /// The award.
    pub award: Option<BatchAward>,
    /// Whether nothing is left for the engine to do: the quotes are collected.
    pub at_rest: bool,
    /// Commits in the view.
    pub version: u64,
    /// Stream sequence of the last of them.
    pub sequence: u64,
}

impl QuoteRequestView {
    /// The view of a batch with these commits, from the first on; `None` when there is none, or when the first one does
    /// not begin with [`QuoteRequestEvent::Opened`]. Folding stops before a missing commit.
    pub fn fold(commits: &[Recorded]) -> Option<Self> {
        let (first, rest) = commits.split_first()?;
        let mut view = Self::begin(first)?;
        for recorded in rest {
            if view.apply(recorded) == Applied::Gap {
                break;
            }
        }
        Some(view)
    }

    /// The view after a batch's first commit; `None` when this is not one.
    pub fn begin(first: &Recorded) -> Option<Self> {
        let mut events = first.quote_request_events();
        let QuoteRequestEvent::Opened(opened) = events.next()? else { return None };
        if first.position.version != 1 {
            return None;
        }
        let mut view = Self::opened(opened, first);
        for event in events {
            view.evolve(event);
        }
        Some(view)
    }

    /// Takes in one commit. A commit at or below the view's version is skipped, so that repeating is harmless.
    pub fn apply(&mut self, recorded: &Recorded) -> Applied {
        let mine = recorded.stream_id.quote_request() == Some(&self.quote_request_id);
        if !mine || recorded.position.version <= self.version {
            return Applied::Skipped;
        }
        if recorded.position.version != self.version + 1 {
            return Applied::Gap;
        }
        for event in recorded.quote_request_events() {
            self.evolve(event);
        }
        self.updated_at = recorded.stored_at;
        self.version = recorded.position.version;
        self.sequence = recorded.position.sequence;
        Applied::Next
    }

    /// The status at `now`. A batch expires by the clock alone, once each of its quotes, of which there is at least one,
    /// is past its validity, or the fulfillment deadline has come.
    pub fn status(&self, now: Timestamp) -> QuoteRequestStatus {
        let lapsed = |quote: &OfferedQuote| now > quote.valid_until || now >= self.fulfillment_deadline;
        match (&self.award, &self.quotes) {
            (Some(_), _) => QuoteRequestStatus::Awarded,
            (None, None) => QuoteRequestStatus::Collecting,
            (None, Some(quotes)) if !quotes.is_empty() && quotes.iter().all(lapsed) => QuoteRequestStatus::Expired,
            (None, Some(_)) => QuoteRequestStatus::Ready,
        }
    }

    fn opened(opened: &QuoteRequestOpened, recorded: &Recorded) -> Self {
        Self {
            quote_request_id: opened.quote_request_id.clone(),
            request_id: opened.request_id.clone(),
            originator: opened.originator.clone(),
            terms: opened.terms.clone(),
            terms_hash: opened.terms_hash,
            quote_deadline: opened.quote_deadline,
            quote_deadline_text: opened.quote_deadline_text.clone(),
            fulfillment_deadline: opened.fulfillment_deadline,
            fulfillment_deadline_text: opened.fulfillment_deadline_text.clone(),
            request: opened.request.clone(),
            updated_at: recorded.stored_at,
            requested_count: None,
            declines: None,
            quotes: None,
            ordered_by_selector: false,
            award: None,
            at_rest: false,
            version: recorded.position.version,
            sequence: recorded.position.sequence,
        }
    }

    fn evolve(&mut self, event: &QuoteRequestEvent) {
        match event {
            // A batch is opened once; its first commit made this view.
            QuoteRequestEvent::Opened(_) => {}
            QuoteRequestEvent::Collected(collected) => {
                self.requested_count = Some(collected.auction.addressed.len() as u64);
                self.declines = Some(DeclineCount::of(&collected.auction.declines));
                let (quotes, by_selector) = collected.offered();
                self.quotes = Some(quotes.into_iter().map(OfferedQuote::from).collect());
                self.ordered_by_selector = by_selector;
                self.at_rest = true;
            }
            QuoteRequestEvent::Awarded(awarded) => {
                self.award = Some(BatchAward {
                    quote_id: awarded.quote_id.clone(),
                    payment_id: awarded.payment_id.clone(),
                    awarded_at: awarded.awarded_at,
                });
                self.at_rest = true;
            }
        }
    }
}
