//! Commands: what the engine may ask of a payment. Each reports something that was observed or done.

use events::{
    event::{Claim, EscrowOpened, EscrowSecured, Inclusion, MemberAttested, PayerStep, TransactionPrepared},
    failure::BlockchainContext,
    selection::SignedChoice,
    time::Timestamp,
};

use crate::{
    auction::Judgement,
    ports::{AddressFunds, AddressState, DepositState, EscrowState},
};

/// A command to a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Enough is at the deposit address.
    FundAddress {
        /// What is there.
        funds: AddressFunds,
        /// Until when quotes are collected.
        quote_deadline: Timestamp,
        /// When it was seen.
        at: Timestamp,
    },
    /// Too little came to the deposit address in time.
    MissFunds {
        /// What is there.
        funds: AddressFunds,
        /// When it was given up.
        at: Timestamp,
    },
    /// The deposit address of a failed payment was looked at.
    ObserveAddress {
        /// What became of what is there.
        state: AddressState,
        /// When.
        at: Timestamp,
    },
    /// The collection window is over.
    CloseAuction {
        /// Who answered what, and who won.
        judgement: Box<Judgement>,
        /// When it closed.
        at: Timestamp,
    },
    /// The quote selector chose; its signature was verified.
    TakeChoice {
        /// What it signed.
        choice: SignedChoice,
        /// When.
        at: Timestamp,
    },
    /// The quote selector gave no valid choice in time.
    MissChoice {
        /// When it was given up.
        at: Timestamp,
    },
    /// The winner does not stand by its quote, and its answer is final. No deposit was signed.
    LoseWinner {
        /// Its reason code; `None` when it did not answer in time, and can't any more.
        refusal: Option<String>,
        /// When that was found.
        at: Timestamp,
    },
    /// The message that its award is over is stored where the winner finds it.
    TellWinner {
        /// When.
        at: Timestamp,
    },
    /// One of the payer's own transactions is with a node.
    RecordPayerTransaction {
        /// What it is for.
        step: PayerStep,
        /// Its hash.
        transaction_hash: String,
        /// When that was found.
        at: Timestamp,
    },
    /// A deposit was signed.
    PrepareDeposit(TransactionPrepared),
    /// The deposit under way was signed again with higher fees.
    RepriceDeposit(TransactionPrepared),
    /// The source chain keeps refusing the deposit, and what it was shown can't be sent by anyone any more.
    RefuseDeposit {
        /// The refusal.
        context: Box<BlockchainContext>,
        /// When it was given up.
        at: Timestamp,
    },
    /// The payer's own transaction deposited, and no settler can be named any more; or the escrow is reserved for an award that
    /// the journal lost.
    StrandDeposit {
        /// What is in escrow.
        opened: EscrowOpened,
        /// When that was found.
        at: Timestamp,
    },
    /// The deposit's window passed, and a settled block past it holds no deposit.
    MissDepositWindow {
        /// When that was found.
        at: Timestamp,
    },
    /// The journal was put in place from a copy, the payment went no further in it than to its award, and a settled block past
    /// the deposit's window holds no deposit.
    ForgoDeposit {
        /// When that was found.
        at: Timestamp,
    },
    /// The deposit was tried as often as it may be; each attempt is proven to have come to nothing, and a settled block holds no
    /// deposit.
    ExhaustDeposit {
        /// When it was given up.
        at: Timestamp,
    },
    /// With no deposit of the gateway's under way, the escrow holds the funds: somebody who saw the signatures sent it.
    AdoptDeposit(EscrowSecured),
    /// The deposit under way was looked at.
    ObserveDeposit {
        /// What was seen.
        state: DepositState,
        /// When.
        at: Timestamp,
    },
    /// The deposit under way is in a block that is not settled yet.
    ObserveMinedDeposit(Inclusion),
    /// The delivery was seen on chain.
    ObserveDelivery(Inclusion),
    /// The delivery has its depth, and the verifier did not attest it at once.
    FinalizeDelivery {
        /// The delivery in its settled block.
        inclusion: Inclusion,
        /// Members of the verifier set that attested it all the same, too few.
        given: Vec<MemberAttested>,
        /// When.
        at: Timestamp,
    },
    /// The delivery has had its depth for a while, and the verifier has not attested it.
    AwaitAttestation {
        /// When.
        at: Timestamp,
    },
    /// The delivery has its depth, and the verifier attested it.
    ConfirmDelivery {
        /// The delivery in its settled block.
        inclusion: Inclusion,
        /// Members of the verifier set whose attestations are not on record yet; none of a single verifier.
        given: Vec<MemberAttested>,
        /// The verifier's signature, or the set's word.
        attestation: String,
        /// When.
        at: Timestamp,
        /// From when on the gateway brings the release itself.
        release_from: Timestamp,
    },
    /// No delivery was made and none can be made any more.
    FailUndelivered {
        /// Members of the verifier set whose statements are not on record yet; none of a single verifier.
        given: Vec<MemberAttested>,
        /// The releaser's signed non-delivery; without it the refund waits for its window.
        attestation: Option<String>,
        /// When.
        at: Timestamp,
    },
    /// No delivery was made and none can be made any more by the settler that the escrow is reserved for, and another may be found.
    LapseReservation {
        /// Members of the verifier set whose statements are not on record yet; none of a single verifier.
        given: Vec<MemberAttested>,
        /// The releaser's signed non-delivery.
        attestation: String,
        /// Until when quotes are collected anew.
        quote_deadline: Timestamp,
        /// When.
        at: Timestamp,
    },
    /// A reassignment was signed.
    PrepareReassignment(TransactionPrepared),
    /// The reassignment under way was signed again with higher fees.
    RepriceReassignment(TransactionPrepared),
    /// The reassignment under way can never land.
    AbandonReassignment {
        /// What proves it.
        evidence: String,
        /// When that was found.
        at: Timestamp,
    },
    /// The escrow is reserved for the new winner, by the transaction in this settled block.
    ObserveReassignment(Inclusion),
    /// The escrow was not reassigned and can't be any more.
    GiveUpReassignment {
        /// When.
        at: Timestamp,
    },
    /// The journal was put in place from a copy that has the escrow before its reassignment, or it may be so.
    ForgoReassignment {
        /// When.
        at: Timestamp,
    },
    /// Members of the verifier set attested the delivery, too few so far.
    RecordAttestations {
        /// Whose attestations are not on record yet.
        given: Vec<MemberAttested>,
    },
    /// Members of the verifier set attested that nothing was delivered, too few so far.
    RecordNonDeliveries {
        /// Whose statements are not on record yet.
        given: Vec<MemberAttested>,
    },
    /// No attestation was to be had before the refund window opened, and no release can land any more.
    MissAttestation {
        /// When.
        at: Timestamp,
    },
    /// The escrow was looked at.
    ObserveEscrow {
        /// Where it stands.
        state: EscrowState,
        /// Which payouts of its end became claims.
        claims: Vec<Claim>,
    },
    /// A release was signed.
    PrepareRelease(TransactionPrepared),
    /// The release under way was signed again with higher fees.
    RepriceRelease(TransactionPrepared),
    /// The release under way can never land.
    AbandonRelease {
        /// What proves it.
        evidence: String,
        /// When that was found.
        at: Timestamp,
    },
    /// A refund was signed.
    PrepareRefund(TransactionPrepared),
    /// The refund under way was signed again with higher fees.
    RepriceRefund(TransactionPrepared),
    /// The refund under way can never land.
    AbandonRefund {
        /// What proves it.
        evidence: String,
        /// When that was found.
        at: Timestamp,
    },
}

impl Command {
    /// The command as errors name it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::FundAddress { .. } => "FundAddress",
            Self::MissFunds { .. } => "MissFunds",
            Self::ObserveAddress { .. } => "ObserveAddress",
            Self::CloseAuction { .. } => "CloseAuction",
            Self::TakeChoice { .. } => "TakeChoice",
            Self::MissChoice { .. } => "MissChoice",
            Self::LoseWinner { .. } => "LoseWinner",
            Self::TellWinner { .. } => "TellWinner",
            Self::RecordPayerTransaction { .. } => "RecordPayerTransaction",
            Self::PrepareDeposit(_) => "PrepareDeposit",
            Self::RepriceDeposit(_) => "RepriceDeposit",
            Self::RefuseDeposit { .. } => "RefuseDeposit",
            Self::StrandDeposit { .. } => "StrandDeposit",
            Self::MissDepositWindow { .. } => "MissDepositWindow",
            Self::ForgoDeposit { .. } => "ForgoDeposit",
            Self::ExhaustDeposit { .. } => "ExhaustDeposit",
            Self::AdoptDeposit(_) => "AdoptDeposit",
            Self::ObserveDeposit { .. } => "ObserveDeposit",
            Self::ObserveMinedDeposit(_) => "ObserveMinedDeposit",
            Self::ObserveDelivery(_) => "ObserveDelivery",
            Self::FinalizeDelivery { .. } => "FinalizeDelivery",
            Self::AwaitAttestation { .. } => "AwaitAttestation",
            Self::ConfirmDelivery { .. } => "ConfirmDelivery",
            Self::FailUndelivered { .. } => "FailUndelivered",
            Self::LapseReservation { .. } => "LapseReservation",
            Self::PrepareReassignment(_) => "PrepareReassignment",
            Self::RepriceReassignment(_) => "RepriceReassignment",
            Self::AbandonReassignment { .. } => "AbandonReassignment",
            Self::ObserveReassignment(_) => "ObserveReassignment",
            Self::GiveUpReassignment { .. } => "GiveUpReassignment",
            Self::ForgoReassignment { .. } => "ForgoReassignment",
            Self::RecordAttestations { .. } => "RecordAttestations",
            Self::RecordNonDeliveries { .. } => "RecordNonDeliveries",
            Self::MissAttestation { .. } => "MissAttestation",
            Self::ObserveEscrow { .. } => "ObserveEscrow",
            Self::PrepareRelease(_) => "PrepareRelease",
            Self::RepriceRelease(_) => "RepriceRelease",
            Self::AbandonRelease { .. } => "AbandonRelease",
            Self::PrepareRefund(_) => "PrepareRefund",
            Self::RepriceRefund(_) => "RepriceRefund",
            Self::AbandonRefund { .. } => "AbandonRefund",
        }
    }
}
