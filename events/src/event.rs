//! The domain events of a payment: everything that is ever known about it, in the order in which it became known. Those
//! of a quote-request batch are in [`crate::quote_request`]; [`Event`] is either.
//!
//! Stored payloads stay readable for ever. A type here is the *current* version of its event; a change of meaning or
//! shape adds a version, an upcaster and a golden file in [`crate::codec`], and never edits an old one.

mod authorization;
mod transaction;

use serde::{Deserialize, Serialize};

pub use self::{
    authorization::{Authorization, PayerTransaction, Permit2, SolanaSpend, TronSpend},
    transaction::{TransactionAbandoned, TransactionPrepared, Validity},
};
pub use crate::quote_request::QuoteRequestEvent;
use crate::{
    Amount, ChainId, Did, Failure, Hash32, PaymentId, QuoteRequestId, StreamId, Terms,
    identity::{HeldPolicy, ProvenIdentity},
    quote,
    selection::SelectorKey,
    time::Timestamp,
};

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

/// One thing that happened to a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum PaymentEvent {
    /// The payment was accepted.
    Submitted(Box<Submitted>),
    /// The auction is over; who was asked, who answered what.
    AuctionClosed(AuctionClosed),
    /// The payer named a quote selector, which is about to be shown the quotes.
    SelectorAsked(SelectorAsked),
    /// The selector chose.
    SelectorAnswered(SelectorAnswered),
    /// One quote won.
    QuoteAwarded(Box<QuoteAwarded>),
    /// The award is taken back before any money moved; the winner is about to be told. The failure follows in the same
    /// commit.
    AwardWithdrawn(AwardWithdrawn),
    /// The winner finds, however long it is away, that its award is over.
    WinnerTold(WinnerTold),
    /// The deposit is signed and about to be broadcast.
    DepositPrepared(TransactionPrepared),
    /// The deposit under way is signed again, with higher fees at its nonce, and about to be broadcast. Either may land.
    DepositRepriced(TransactionPrepared),
    /// The deposit that was prepared last can never land, in none of its versions.
    DepositAbandoned(TransactionAbandoned),
    /// The payer's funds are in escrow, reserved for the winner, at the depth the source chain requires.
    EscrowSecured(EscrowSecured),
    /// The payer's own transaction brought the funds into escrow, and no settler can be named for them any more.
    EscrowOpened(EscrowOpened),
    /// The payment failed before the escrow, and the payer's own transaction can't bring anything there any more.
    DepositRuledOut(DepositRuledOut),
    /// The delivery is on the destination chain, not yet deep enough; recorded again when it moves to another block.
    FulfillmentSeen(FulfillmentSeen),
    /// The delivery has its depth, and the verifier has not attested it so far.
    AttestationAwaited(AttestationAwaited),
    /// The delivery has its depth and the verifier attested it.
    FulfillmentConfirmed(FulfillmentConfirmed),
    /// The gateway brings the release itself: it is signed and about to be broadcast.
    ReleasePrepared(TransactionPrepared),
    /// The release under way is signed again, with higher fees at its nonce, and about to be broadcast. Either may land.
    ReleaseRepriced(TransactionPrepared),
    /// The release that was prepared last can never land, in none of its versions.
    ReleaseAbandoned(TransactionAbandoned),
    /// The escrow paid the settler.
    EscrowReleased(EscrowReleased),
    /// The payment did not complete. Terminal; a refund may follow.
    Failed(Box<Failed>),
    /// The refund is signed and about to be broadcast.
    RefundPrepared(TransactionPrepared),
    /// The refund under way is signed again, with higher fees at its nonce, and about to be broadcast. Either may land.
    RefundRepriced(TransactionPrepared),
    /// The refund that was prepared last can never land, in none of its versions.
    RefundAbandoned(TransactionAbandoned),
    /// The payer has the money back.
    EscrowRefunded(EscrowRefunded),
}

impl PaymentEvent {
    /// The event's type name as it stands in `Gw-Type`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Submitted(_) => "Submitted",
            Self::AuctionClosed(_) => "AuctionClosed",
            Self::SelectorAsked(_) => "SelectorAsked",
            Self::SelectorAnswered(_) => "SelectorAnswered",
            Self::QuoteAwarded(_) => "QuoteAwarded",
            Self::AwardWithdrawn(_) => "AwardWithdrawn",
            Self::WinnerTold(_) => "WinnerTold",
            Self::DepositPrepared(_) => "DepositPrepared",
            Self::DepositRepriced(_) => "DepositRepriced",
            Self::DepositAbandoned(_) => "DepositAbandoned",
            Self::EscrowSecured(_) => "EscrowSecured",
            Self::EscrowOpened(_) => "EscrowOpened",
            Self::DepositRuledOut(_) => "DepositRuledOut",
            Self::FulfillmentSeen(_) => "FulfillmentSeen",
            Self::AttestationAwaited(_) => "AttestationAwaited",
            Self::FulfillmentConfirmed(_) => "FulfillmentConfirmed",
            Self::ReleasePrepared(_) => "ReleasePrepared",
            Self::ReleaseRepriced(_) => "ReleaseRepriced",
            Self::ReleaseAbandoned(_) => "ReleaseAbandoned",
            Self::EscrowReleased(_) => "EscrowReleased",
            Self::Failed(_) => "Failed",
            Self::RefundPrepared(_) => "RefundPrepared",
            Self::RefundRepriced(_) => "RefundRepriced",
            Self::RefundAbandoned(_) => "RefundAbandoned",
            Self::EscrowRefunded(_) => "EscrowRefunded",
        }
    }
}

/// Payload of [`PaymentEvent::Submitted`]: everything later decisions need, so that no later step reads configuration
/// that may have changed since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// The payment.
    pub payment_id: PaymentId,
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
    /// Past it an undelivered payment fails.
    pub fulfillment_deadline: Timestamp,
    /// How the payer's funds get into escrow.
    pub authorization: Authorization,
    /// The escrow the payer signed for.
    pub escrow: EscrowPlan,
    /// The proxy through which each destination is delivered, in the order of the terms' destinations.
    pub fulfillment_proxies: Vec<String>,
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
    /// The collected quote that the payment was awarded with in the two-phase flow; absent in the one-call flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected_quote: Option<CollectedQuote>,
    /// Who chooses among the quotes, where the payer named a selector; absent when the gateway does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<SelectorRef>,
    /// What the counterparty authorization rested on; absent where no policy set is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterparty: Option<CounterpartyDecision>,
    /// Who was proven to ask, each by its own proof; empty when the source account asks for itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<ProvenIdentity>,
    /// When the payment was accepted.
    pub submitted_at: Timestamp,
    /// The body of the submission as it came.
    pub request: String,
}

/// The quote of a quote-request batch that a payment was awarded with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectedQuote {
    /// The batch.
    pub quote_request_id: QuoteRequestId,
    /// The quote.
    pub quote_id: String,
}

/// A quote selector that a payer named (spec 2.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectorRef {
    /// The key it signs with.
    pub key: SelectorKey,
    /// Without a valid choice by then the payment fails; after the quote deadline, before the deposit's window ends.
    pub answer_by: Timestamp,
}

/// A counterparty authorization that permitted a payment (spec 5.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterpartyDecision {
    /// Ids of the policies that determined the decision.
    pub policies: Vec<String>,
    /// SHA-256 of the policy set in force.
    pub policy_set: Hash32,
}

/// The escrow a payment's funds go into, and its windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscrowPlan {
    /// The source chain.
    pub chain_id: ChainId,
    /// The escrow contract.
    pub contract: String,
    /// Account that signs reservations.
    pub reserver: String,
    /// Account that attests delivery and non-delivery.
    pub releaser: String,
    /// Last second in which the deposit may be made, UNIX.
    pub reserve_deadline: u64,
    /// Last second in which a delivery counts, UNIX.
    pub fulfillment_deadline: u64,
    /// First second from which anyone may trigger the refund, UNIX.
    pub refund_after: u64,
}

/// A fulfillment verifier (spec 2.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifierRef {
    /// The account it signs attestations with.
    pub account: String,
    /// The origin it is reached at, no path.
    pub endpoint: String,
}

/// Payload of [`PaymentEvent::AuctionClosed`].
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
    /// When the auction closed.
    pub closed_at: Timestamp,
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

/// Payload of [`PaymentEvent::SelectorAsked`]: recorded before the selector is asked, so that whoever asks again after a
/// crash shows the same quotes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectorAsked {
    /// The eligible quotes as they came, in the order of [`AuctionClosed::quotes`].
    pub documents: Vec<String>,
    /// When they were put together.
    pub asked_at: Timestamp,
}

/// Payload of [`PaymentEvent::SelectorAnswered`]. What is chosen is in the signed text alone: [`crate::selection`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectorAnswered {
    /// The JSON text that the selector signed, as it came.
    pub choice: String,
    /// Its signature, hex with 0x.
    pub signature: String,
    /// When the choice was verified.
    pub answered_at: Timestamp,
}

/// Payload of [`PaymentEvent::QuoteAwarded`].
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

/// Payload of [`PaymentEvent::AwardWithdrawn`].
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
    /// The reason code under which the winner is told.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "AWARD_REFUSED",
            Self::Unanswered => "AWARD_UNANSWERED",
            Self::NotDeposited => "NOT_DEPOSITED",
        }
    }
}

/// Payload of [`PaymentEvent::WinnerTold`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WinnerTold {
    /// When the message to the winner was known to be stored.
    pub told_at: Timestamp,
}

/// A transaction on a chain, with the block that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inclusion {
    /// The chain.
    pub chain_id: ChainId,
    /// The transaction.
    pub transaction_hash: String,
    /// Block number (slot on Solana).
    pub block_number: u64,
    /// Hash of that block.
    pub block_hash: String,
    /// The block's own time, UNIX seconds.
    pub block_time: u64,
}

/// Payload of [`PaymentEvent::EscrowSecured`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscrowSecured {
    /// The transaction that deposited and reserved.
    pub inclusion: Inclusion,
    /// Amount in escrow, smallest unit of the source asset.
    pub amount: Amount,
}

/// Payload of [`PaymentEvent::EscrowOpened`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscrowOpened {
    /// The payer's transaction, in its settled block.
    pub inclusion: Inclusion,
    /// Amount in escrow, smallest unit of the source asset.
    pub amount: Amount,
}

/// Payload of [`PaymentEvent::DepositRuledOut`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepositRuledOut {
    /// When a settled block past the reserve deadline was found that holds no escrow.
    pub ruled_out_at: Timestamp,
}

/// Payload of [`PaymentEvent::FulfillmentSeen`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FulfillmentSeen {
    /// The transaction that paid the recipient.
    pub inclusion: Inclusion,
}

/// Payload of [`PaymentEvent::AttestationAwaited`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttestationAwaited {
    /// The transaction that paid the recipient, in its settled block.
    pub inclusion: Inclusion,
    /// When it was recorded that the attestation is missing.
    pub awaited_at: Timestamp,
}

/// Payload of [`PaymentEvent::FulfillmentConfirmed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FulfillmentConfirmed {
    /// The transaction that paid the recipient, in its settled block.
    pub inclusion: Inclusion,
    /// The verifier's signed attestation of delivery, hex with 0x.
    pub attestation: String,
    /// When it was confirmed.
    pub confirmed_at: Timestamp,
    /// From when on the gateway brings the release itself, unless somebody did before. Absent in payments that were confirmed
    /// before gateways released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_from: Option<Timestamp>,
}

/// Payload of [`PaymentEvent::EscrowReleased`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscrowReleased {
    /// The transaction that released.
    pub inclusion: Inclusion,
    /// What the token would not hand over: the settler's price, what is left over for the payer, or both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
}

/// A payout that did not go through. The escrow ended the payment all the same, and owes this to its owner from then on, until
/// the owner takes it (`claim`) or anyone brings it to the owner (`claimFor`). Whether that has happened is the chain's to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Account that is owed, on the payment's source chain.
    pub owner: String,
    /// How much, smallest unit of the source asset.
    pub amount: Amount,
}

/// Payload of [`PaymentEvent::Failed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The reason shown to the payer.
    pub failure: Failure,
    /// How the payer's money stands.
    pub refund: RefundDue,
    /// When the payment failed.
    pub failed_at: Timestamp,
}

/// What must still happen to the payer's money after a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RefundDue {
    /// The money never left the payer, and no signature that was given for it can take it any more. Where the payer's own
    /// transaction deposits, it is watched until this is so.
    Nothing,
    /// The escrow is to be cancelled with the releaser's signed non-delivery.
    ByNonDelivery {
        /// The signed statement, hex with 0x.
        attestation: String,
    },
    /// The escrow is to be refunded once its refund window opens.
    AfterWindow,
}

/// Payload of [`PaymentEvent::EscrowRefunded`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscrowRefunded {
    /// The transaction that refunded.
    pub inclusion: Inclusion,
    /// Amount returned, smallest unit of the source asset.
    pub amount: Amount,
    /// What of it the token would not hand to the payer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
}
