//! The events of a payment, and its submission.

use serde::{Deserialize, Serialize};

use super::{
    auction::{AuctionClosed, AwardLapsed, AwardWithdrawn, QuoteAwarded, SelectorAnswered, SelectorAsked, WinnerTold},
    authorization::Authorization,
    escrow::{
        AddressFunded, AddressHeld, AttestationAwaited, AttestationMissed, DepositMined, DepositRuledOut, EscrowOpened,
        EscrowPlan, EscrowReassigned, EscrowRefunded, EscrowReleased, EscrowSecured, Failed, FulfillmentConfirmed,
        FulfillmentFinalized, FulfillmentSeen, MemberAttested, ReservationLapsed,
    },
    transaction::{PayerTransactionSent, TransactionAbandoned, TransactionPrepared},
};
use crate::{
    Account, Did, Hash32, PaymentId, QuoteRequestId, Terms, VerifierMember, VerifierSet, identity::ProvenIdentity,
    selection::SelectorKey, time::Timestamp,
};

/// One thing that happened to a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum PaymentEvent {
    /// The payment was accepted.
    Submitted(Box<Submitted>),
    /// The money is at the payment's deposit address, and the auction begins.
    AddressFunded(AddressFunded),
    /// The auction is over; who was asked, who answered what.
    AuctionClosed(AuctionClosed),
    /// The payer named a quote selector, which is about to be shown the quotes.
    SelectorAsked(SelectorAsked),
    /// The selector chose.
    SelectorAnswered(SelectorAnswered),
    /// One quote won.
    QuoteAwarded(Box<QuoteAwarded>),
    /// The winner does not stand by its quote, or did not say so in time, and knows that its award is over. The next quote is
    /// awarded in the same commit (ADR 146).
    AwardLapsed(AwardLapsed),
    /// The award is taken back before any money moved; the winner is about to be told. The failure follows in the same
    /// commit.
    AwardWithdrawn(AwardWithdrawn),
    /// The winner finds, however long it is away, that its award is over.
    WinnerTold(WinnerTold),
    /// One of the payer's own transactions, an approval or the deposit, was sent; recorded once for each.
    PayerTransactionSent(PayerTransactionSent),
    /// The deposit is signed and about to be broadcast. Where the payer's own transaction deposits, the reservation is.
    DepositPrepared(TransactionPrepared),
    /// The deposit under way is signed again, with higher fees at its nonce, and about to be broadcast. Either may land.
    DepositRepriced(TransactionPrepared),
    /// The deposit under way is in a block that is not settled yet; recorded again when it moves to another block.
    DepositMined(DepositMined),
    /// The deposit that was prepared last can never land, in none of its versions.
    DepositAbandoned(TransactionAbandoned),
    /// The payer's funds are in escrow, reserved for the winner, at the depth the source chain requires.
    EscrowSecured(EscrowSecured),
    /// The payment failed before its escrow, and its deposit address holds money that nobody can deposit any more: it is about to be
    /// given back.
    AddressHeld(AddressHeld),
    /// The payer's own transaction brought the funds into escrow, and no settler can be named for them any more; or they are
    /// reserved for an award that the journal lost.
    EscrowOpened(EscrowOpened),
    /// The payment failed before the escrow, and the payer's own transaction can't bring anything there any more.
    DepositRuledOut(DepositRuledOut),
    /// The winner did not deliver by the time that it promised, and so many verifiers attest it that the escrow takes another
    /// settler in its place: quotes are collected anew (ADR 148).
    ReservationLapsed(ReservationLapsed),
    /// The escrow's reassignment to the quote that won then is signed and about to be broadcast.
    ReassignmentPrepared(TransactionPrepared),
    /// The reassignment under way is signed again, with higher fees at its nonce, and about to be broadcast. Either may land.
    ReassignmentRepriced(TransactionPrepared),
    /// The reassignment that was prepared last can never land, in none of its versions.
    ReassignmentAbandoned(TransactionAbandoned),
    /// The escrow is reserved for the new winner, at the depth the source chain requires.
    EscrowReassigned(EscrowReassigned),
    /// The delivery is on the destination chain, not yet deep enough; recorded again when it moves to another block.
    FulfillmentSeen(FulfillmentSeen),
    /// The delivery has its depth, which completes the payment, and the verifier did not attest it at once.
    FulfillmentFinalized(FulfillmentFinalized),
    /// One verifier of a set attested the delivery. Of a single verifier it is not recorded: its word is
    /// [`PaymentEvent::FulfillmentConfirmed`] at once.
    DeliveryAttested(MemberAttested),
    /// One verifier of a set attested that nothing was delivered and nothing can be any more.
    NonDeliveryAttested(MemberAttested),
    /// The delivery has had its depth for a while, and the verifier has not attested it so far. It does not complete the
    /// payment: gateways from before [`PaymentEvent::FulfillmentFinalized`] recorded it of payments that they went on to fail.
    AttestationAwaited(AttestationAwaited),
    /// The delivery has its depth, which completes the payment unless it was completed before, and the verifier attested it.
    FulfillmentConfirmed(FulfillmentConfirmed),
    /// The refund window opened before the delivery was attested, so the settler cannot be paid any more and the escrow is
    /// about to be returned. The payment stays completed.
    AttestationMissed(AttestationMissed),
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
            Self::AddressFunded(_) => "AddressFunded",
            Self::AuctionClosed(_) => "AuctionClosed",
            Self::SelectorAsked(_) => "SelectorAsked",
            Self::SelectorAnswered(_) => "SelectorAnswered",
            Self::QuoteAwarded(_) => "QuoteAwarded",
            Self::AwardLapsed(_) => "AwardLapsed",
            Self::AwardWithdrawn(_) => "AwardWithdrawn",
            Self::WinnerTold(_) => "WinnerTold",
            Self::PayerTransactionSent(_) => "PayerTransactionSent",
            Self::DepositPrepared(_) => "DepositPrepared",
            Self::DepositRepriced(_) => "DepositRepriced",
            Self::DepositMined(_) => "DepositMined",
            Self::DepositAbandoned(_) => "DepositAbandoned",
            Self::EscrowSecured(_) => "EscrowSecured",
            Self::AddressHeld(_) => "AddressHeld",
            Self::EscrowOpened(_) => "EscrowOpened",
            Self::DepositRuledOut(_) => "DepositRuledOut",
            Self::ReservationLapsed(_) => "ReservationLapsed",
            Self::ReassignmentPrepared(_) => "ReassignmentPrepared",
            Self::ReassignmentRepriced(_) => "ReassignmentRepriced",
            Self::ReassignmentAbandoned(_) => "ReassignmentAbandoned",
            Self::EscrowReassigned(_) => "EscrowReassigned",
            Self::FulfillmentSeen(_) => "FulfillmentSeen",
            Self::FulfillmentFinalized(_) => "FulfillmentFinalized",
            Self::DeliveryAttested(_) => "DeliveryAttested",
            Self::NonDeliveryAttested(_) => "NonDeliveryAttested",
            Self::AttestationAwaited(_) => "AttestationAwaited",
            Self::FulfillmentConfirmed(_) => "FulfillmentConfirmed",
            Self::AttestationMissed(_) => "AttestationMissed",
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

/// Who attests a payment's delivery (spec 2.1): one verifier, or a set of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifierRef {
    /// The releaser of the escrow: the account that the verifier signs attestations with, or the id of the set.
    pub account: Account,
    /// The origin it is reached at, no path; the first member's of a set.
    pub endpoint: String,
    /// The set, when it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<VerifierSet>,
}

impl VerifierRef {
    /// A single verifier.
    pub fn single(account: Account, endpoint: impl Into<String>) -> Self {
        Self { account, endpoint: endpoint.into(), set: None }
    }

    /// A set of verifiers. One member is no set: its own account is the releaser (ADR 147). `None` for a set whose id is no account,
    /// which nobody finds.
    pub fn of(set: VerifierSet) -> Option<Self> {
        let VerifierMember { account, endpoint } = set.members()[0].clone();
        match set.members().len() {
            1 => Some(Self::single(account, endpoint)),
            _ => Some(Self { account: set.id()?, endpoint, set: Some(set) }),
        }
    }

    /// How many have to attest.
    pub fn threshold(&self) -> usize {
        self.set.as_ref().map_or(1, VerifierSet::threshold)
    }

    /// All who may attest.
    pub fn members(&self) -> Vec<VerifierMember> {
        match &self.set {
            Some(set) => set.members().to_vec(),
            None => vec![VerifierMember { account: self.account.clone(), endpoint: self.endpoint.clone() }],
        }
    }

    /// Whether the account is that of the set, where there is one.
    pub fn is_consistent(&self) -> bool {
        self.set.as_ref().is_none_or(|set| set.id().as_ref() == Some(&self.account))
    }

    /// What the escrow takes for the word of all: of a single verifier its signature, of a set what [`VerifierSet::attestation`]
    /// makes of them. `None` while they are too few.
    pub fn attestation<'a>(&self, signatures: impl IntoIterator<Item = (&'a Account, &'a str)>) -> Option<String> {
        match &self.set {
            Some(set) => set.attestation(signatures),
            None => {
                let mut own = signatures.into_iter().filter(|(account, _)| **account == self.account);
                own.next().map(|(_, signature)| signature.to_owned())
            }
        }
    }
}
