//! The domain events of a payment: everything that is ever known about it, in the order in which it became known. Those
//! of a quote-request batch are in [`quote_request`]; [`Event`] is either.
//!
//! Stored payloads stay readable for ever. A type here is the *current* version of its event; a change of meaning or
//! shape adds a version, an upcaster and a golden file in [`crate::codec`], and never edits an old one.

mod auction;
mod authorization;
mod escrow;
mod payment;
pub mod quote_request;
mod transaction;

use serde::{Deserialize, Serialize};

pub use self::{
    auction::{
        AuctionClosed, AwardLapsed, AwardWithdrawn, CollectedDocument, Decline, DroppedBid, PassedOver, QuoteAwarded,
        QuoteReceived, SelectorAnswered, SelectorAsked, WinnerTold, WithdrawalCause,
    },
    authorization::{
        Authorization, BatchPermit, BatchToken, DepositAddress, Eip3009, Mandate, MandateCharge, PayerTransaction,
        Permit2, SolanaPurchase, SolanaSpend, TokenDomain, TokenPermit, TronSpend, X402Exact,
    },
    escrow::{
        AddressFunded, AddressHeld, AttestationAwaited, AttestationMissed, Claim, DepositMined, DepositRuledOut,
        EscrowOpened, EscrowPlan, EscrowReassigned, EscrowRefunded, EscrowReleased, EscrowSecured, Failed,
        FulfillmentConfirmed, FulfillmentFinalized, FulfillmentSeen, Inclusion, MemberAttested, RefundDue,
        ReservationLapsed,
    },
    payment::{CollectedQuote, CounterpartyDecision, PaymentEvent, SelectorRef, Submitted, VerifierRef},
    quote_request::QuoteRequestEvent,
    transaction::{PayerStep, PayerTransactionSent, TransactionAbandoned, TransactionPrepared, Validity},
};
use crate::StreamId;

/// One thing that happened in a stream, in the stored form of its own kind: `{"type": …, "data": …}`, with type names
/// that are unique over all kinds. It is read by [`crate::codec::decode`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Event {
    /// It happened to a payment.
    Payment(PaymentEvent),
    /// It happened to a quote-request batch.
    QuoteRequest(QuoteRequestEvent),
    /// Neither: a mark of the journal's own, of either kind of stream.
    Mark(Mark),
}

impl Event {
    /// The event's type name as it stands in `Gw-Type`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Payment(event) => event.type_name(),
            Self::QuoteRequest(event) => event.type_name(),
            Self::Mark(mark) => mark.type_name(),
        }
    }

    /// Whether the event is of the kind of `stream`.
    pub fn belongs_to(&self, stream: &StreamId) -> bool {
        match (self, stream) {
            (Self::Payment(_), StreamId::Payment(_)) | (Self::QuoteRequest(_), StreamId::QuoteRequest(_)) => true,
            (Self::Payment(_), StreamId::QuoteRequest(_)) | (Self::QuoteRequest(_), StreamId::Payment(_)) => false,
            (Self::Mark(_), _) => true,
        }
    }

    /// The payment's event, when it is one.
    pub fn payment(&self) -> Option<&PaymentEvent> {
        match self {
            Self::Payment(event) => Some(event),
            Self::QuoteRequest(_) | Self::Mark(_) => None,
        }
    }

    /// The payment's event itself, when it is one.
    pub fn into_payment(self) -> Option<PaymentEvent> {
        match self {
            Self::Payment(event) => Some(event),
            Self::QuoteRequest(_) | Self::Mark(_) => None,
        }
    }

    /// The batch's event, when it is one.
    pub fn quote_request(&self) -> Option<&QuoteRequestEvent> {
        match self {
            Self::QuoteRequest(event) => Some(event),
            Self::Payment(_) | Self::Mark(_) => None,
        }
    }
}

impl From<PaymentEvent> for Event {
    fn from(event: PaymentEvent) -> Self {
        Self::Payment(event)
    }
}

impl From<Mark> for Event {
    fn from(mark: Mark) -> Self {
        Self::Mark(mark)
    }
}

impl From<QuoteRequestEvent> for Event {
    fn from(event: QuoteRequestEvent) -> Self {
        Self::QuoteRequest(event)
    }
}

/// A mark that the journal leaves in a stream's place (ADR 73). It says nothing about a payment or batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum Mark {
    /// Whoever asks for this id begins its stream in a later epoch. Stands alone, as the only commit of its subject, and
    /// keeps everyone who does not know of the later epoch from beginning the same stream here.
    #[serde(rename = "StreamMoved")]
    Moved(Moved),
}

/// See [`Mark::Moved`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// The epoch in which the stream was about to begin.
    pub to_epoch: u16,
}

impl Mark {
    /// Type name of [`Mark::Moved`].
    pub const MOVED: &'static str = "StreamMoved";

    /// The mark's type name as it stands in `Gw-Type`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Moved(_) => Self::MOVED,
        }
    }
}
