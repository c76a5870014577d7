//! The auction of a payment, in events: quotes, the award and its withdrawal.

use serde::{Deserialize, Serialize};

use crate::{Amount, Did, Hash32, identity::HeldPolicy, quote, selection::SignedChoice, time::Timestamp};

/// Payload of [`PaymentEvent::AuctionClosed`](super::PaymentEvent::AuctionClosed).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuctionClosed {
    /// Settlers that were sent the request for quotes.
    pub addressed: Vec<Did>,
    /// Quotes that passed every check.
    pub quotes: Vec<QuoteReceived>,
    /// Settlers that declined, each under its most recent reason.
    pub declines: Vec<Decline>,
    /// Bids that were dropped, each with the rule it broke.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<DroppedBid>,
    /// The required policies that settlers held by credentials, which the judgement of their quotes rested on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_policies: Vec<HeldPolicy>,
    /// Settlers that would have been asked, and were passed over for awards that they missed (ADR 146).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<PassedOver>,
    /// The signed quotes that follow the winner's, best first, as they came: each may be awarded when those before it lapse.
    /// None where the payer chose the quote, itself or by its selector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternates: Vec<CollectedDocument>,
    /// When the auction closed.
    pub closed_at: Timestamp,
}

/// A settler that was not asked because of its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedOver {
    /// Who.
    pub settler: Did,
    /// It is asked again from then on.
    pub until: Timestamp,
}

/// A quote that was eligible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuoteReceived {
    /// Who offered.
    pub settler: Did,
    /// Hash of the quote.
    pub quote_hash: Hash32,
    /// Price, smallest unit of the source asset.
    pub source_amount: Amount,
    /// Promised time of delivery.
    pub fulfill_by: Timestamp,
}

/// An eligible quote that may be awarded later, as its settler signed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectedDocument {
    /// Id of the quote.
    pub quote_id: String,
    /// Its hash.
    pub quote_hash: Hash32,
    /// It may be awarded until then.
    pub valid_until: Timestamp,
    /// The signed document as it came.
    pub document: String,
}

/// A settler's answer that it will not quote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decline {
    /// Who declined.
    pub settler: Did,
    /// SCREAMING_SNAKE_CASE reason code.
    pub reason: String,
}

/// A bid that did not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedBid {
    /// Who sent it, by its subject token; the document itself is not believed.
    pub settler: String,
    /// The rule it broke.
    pub reason: String,
}

/// Payload of [`PaymentEvent::SelectorAsked`](super::PaymentEvent::SelectorAsked): recorded before the selector is asked, so that whoever asks again after a
/// crash shows the same quotes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectorAsked {
    /// The eligible quotes as they came, in the order of [`AuctionClosed::quotes`].
    pub documents: Vec<String>,
    /// When they were put together.
    pub asked_at: Timestamp,
}

/// Payload of [`PaymentEvent::SelectorAnswered`](super::PaymentEvent::SelectorAnswered). What is chosen is in the signed text alone: [`crate::selection`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectorAnswered {
    /// The JSON text that the selector signed, as it came.
    pub choice: String,
    /// Its signature, hex with 0x.
    pub signature: String,
    /// When the choice was verified.
    pub answered_at: Timestamp,
}

impl From<&SelectorAnswered> for SignedChoice {
    fn from(answered: &SelectorAnswered) -> Self {
        Self { text: answered.choice.clone(), signature: answered.signature.clone() }
    }
}

/// Payload of [`PaymentEvent::QuoteAwarded`](super::PaymentEvent::QuoteAwarded).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuoteAwarded {
    /// Id of the quote.
    pub quote_id: String,
    /// Its hash, as committed on chain.
    pub quote_hash: Hash32,
    /// The signed document as it came.
    pub document: String,
    /// When it was awarded.
    pub awarded_at: Timestamp,
}

impl QuoteAwarded {
    /// The quote's content.
    ///
    /// # Errors
    /// As [`quote::SignedQuote::parse_stored`]; the document was verified before it was stored, so an error means that what
    /// is stored was damaged.
    pub fn signed_quote(&self) -> Result<quote::SignedQuote, quote::Error> {
        quote::SignedQuote::parse_stored(&self.document)
    }
}

/// Payload of [`PaymentEvent::AwardLapsed`](super::PaymentEvent::AwardLapsed).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwardLapsed {
    /// The settler that had won.
    pub settler: Did,
    /// Hash of its quote.
    pub quote_hash: Hash32,
    /// Its SCREAMING_SNAKE_CASE reason code, where it refused; absent where it did not answer in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// When it was decided.
    pub lapsed_at: Timestamp,
}

/// Payload of [`PaymentEvent::AwardWithdrawn`](super::PaymentEvent::AwardWithdrawn).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwardWithdrawn {
    /// Why.
    pub cause: WithdrawalCause,
    /// When it was decided.
    pub withdrawn_at: Timestamp,
}

/// Why an award was taken back. In the first two cases no deposit was ever shown to anyone but its payer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WithdrawalCause {
    /// The winner does not stand by its quote.
    Refused {
        /// Its SCREAMING_SNAKE_CASE reason code.
        reason: String,
    },
    /// The winner did not answer its award in time.
    Unanswered,
    /// No deposit was made, and none can be any more.
    NotDeposited,
}

impl WithdrawalCause {
    /// Why a winner is lost: the reason code of its refusal, or `None` for its silence.
    pub fn lost(refusal: Option<String>) -> Self {
        refusal.map_or(Self::Unanswered, |reason| Self::Refused { reason })
    }

    /// The reason code under which the winner is told.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "AWARD_REFUSED",
            Self::Unanswered => "AWARD_UNANSWERED",
            Self::NotDeposited => "NOT_DEPOSITED",
        }
    }
}

/// Payload of [`PaymentEvent::WinnerTold`](super::PaymentEvent::WinnerTold).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WinnerTold {
    /// When the message to the winner was known to be stored.
    pub told_at: Timestamp,
}
