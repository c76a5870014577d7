//! The domain events of a quote-request batch (spec 2.12): quotes are collected before anybody authorized a spend, and
//! one of them may be awarded later.
//!
//! There is no event for `expired`: a batch has expired when it was collected, nothing was awarded and every quote has
//! lapsed, which follows from the quotes' `valid_until` and the time of asking.

use serde::{Deserialize, Serialize};

pub use super::CollectedDocument;
use super::{AuctionClosed, CounterpartyDecision, EscrowPlan, VerifierRef};
use crate::{
    Account, Did, Hash32, PaymentId, QuoteRequestId, Terms, identity::ProvenIdentity, selection::SelectorKey,
    time::Timestamp,
};

/// One thing that happened to a quote-request batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum QuoteRequestEvent {
    /// The batch was accepted; quotes are being collected.
    #[serde(rename = "QuoteRequestOpened")]
    Opened(Box<QuoteRequestOpened>),
    /// The collection is over.
    #[serde(rename = "QuotesCollected")]
    Collected(Box<QuotesCollected>),
    /// One of the quotes was awarded, to one payment. Nothing follows.
    #[serde(rename = "QuoteRequestAwarded")]
    Awarded(QuoteRequestAwarded),
}

impl QuoteRequestEvent {
    /// The event's type name as it stands in `Gw-Type`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Opened(_) => "QuoteRequestOpened",
            Self::Collected(_) => "QuotesCollected",
            Self::Awarded(_) => "QuoteRequestAwarded",
        }
    }
}

/// Payload of [`QuoteRequestEvent::Opened`]: everything the auction and the later award need, so that neither reads
/// configuration that may have changed since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuoteRequestOpened {
    /// The batch.
    pub quote_request_id: QuoteRequestId,
    /// The caller's idempotency key.
    pub request_id: String,
    /// Who asked (design: identity and idempotency).
    pub originator: String,
    /// The economics.
    pub terms: Terms,
    /// SHA-256 of the canonical terms.
    pub terms_hash: Hash32,
    /// End of quote collection.
    pub quote_deadline: Timestamp,
    /// `quote_deadline` as the caller wrote it; it is carried verbatim to the award call (spec 2.12).
    pub quote_deadline_text: String,
    /// Final completion deadline of a payment awarded out of the batch.
    pub fulfillment_deadline: Timestamp,
    /// `fulfillment_deadline` as the caller wrote it.
    pub fulfillment_deadline_text: String,
    /// The escrow, with the widest windows that a payment out of the batch can have. The payer fixes them with the
    /// award: see [`EscrowPlan::of_batch`].
    pub escrow: EscrowPlan,
    /// The proxy through which each destination is delivered, in the order of the terms' destinations.
    pub fulfillment_proxies: Vec<Account>,
    /// Who attests delivery.
    pub verifier: VerifierRef,
    /// Settlers that may win; empty when any may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub whitelist: Vec<Did>,
    /// Settlers that may not win.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blacklist: Vec<Did>,
    /// Policies a settler must hold to win.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_policies: Vec<String>,
    /// What the counterparty authorization rested on; absent where no policy set is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterparty: Option<CounterpartyDecision>,
    /// Who was proven to ask, each by its own proof; empty when the source account asks for itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<ProvenIdentity>,
    /// The quote selector that the request named; absent where it named none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<SelectorKey>,
    /// When the selector has to have chosen; absent where none is named, and in batches of gateways that asked none for batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector_answer_by: Option<Timestamp>,
    /// SHA-256 of the secret by which a caller is told apart that proved nothing; absent where it gave none. With it the
    /// id is derived by [`QuoteRequestId::derive_with_secret`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller_secret_hash: Option<Hash32>,
    /// When the batch was accepted.
    pub opened_at: Timestamp,
    /// The body of the request as it came.
    pub request: String,
}

/// Payload of [`QuoteRequestEvent::Collected`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotesCollected {
    /// Who was asked and who answered what. Its quotes are those of `quotes`, in the same order.
    pub auction: AuctionClosed,
    /// The eligible quotes, best first (design: selection).
    pub quotes: Vec<CollectedDocument>,
    /// What the quote selector that the request named said of them, in time; absent where it named none or that said nothing
    /// that counts. Verified before it was recorded; a batch does not wait for more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<BatchSelection>,
}

/// The choice of a quote selector among the quotes of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchSelection {
    /// The quote that it prefers; absent when it takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote_hash: Option<Hash32>,
    /// The text that it signed.
    pub choice: String,
    /// Its signature, hex with 0x.
    pub signature: String,
}

impl QuotesCollected {
    /// The quotes in the order in which they are offered: the selector's choice first, the rest best first. `true` where the
    /// selector has chosen.
    pub fn offered(&self) -> (Vec<&CollectedDocument>, bool) {
        let chosen = self.selection.as_ref().and_then(|selection| selection.quote_hash);
        let is_chosen = |quote: &&CollectedDocument| Some(quote.quote_hash) == chosen;
        let (mut offered, rest): (Vec<_>, Vec<_>) = self.quotes.iter().partition(is_chosen);
        let by_selector = !offered.is_empty();
        offered.extend(rest);
        (offered, by_selector)
    }
}

/// Payload of [`QuoteRequestEvent::Awarded`]. It comes before the first commit of the payment, so that of several
/// awards one wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuoteRequestAwarded {
    /// The quote.
    pub quote_id: String,
    /// The payment it was awarded to.
    pub payment_id: PaymentId,
    /// When.
    pub awarded_at: Timestamp,
}

impl QuoteRequestOpened {
    /// The id that follows from who asked, and under which key.
    pub fn derived_id(&self) -> QuoteRequestId {
        match &self.caller_secret_hash {
            Some(secret) => QuoteRequestId::derive_with_secret(&self.originator, &self.request_id, secret),
            None => QuoteRequestId::derive(&self.originator, &self.request_id),
        }
    }
}

impl EscrowPlan {
    /// Makes this the plan that settlers of a batch are told: nobody has signed the windows yet, so they are the widest
    /// that a payer can sign at least, deposit until `fulfillment_deadline` and refund as soon as `refund_delay_seconds`
    /// after it.
    #[must_use]
    pub fn of_batch(self, fulfillment_deadline: u64, refund_delay_seconds: u64) -> Self {
        Self {
            reserve_deadline: fulfillment_deadline,
            fulfillment_deadline,
            refund_after: fulfillment_deadline.saturating_add(refund_delay_seconds),
            ..self
        }
    }
}
