//! Orders and states of a chain: what the engine asks for of an escrow, a delivery or a transaction, and where it stands.

use events::{
    Account, Amount, Hash32, PaymentId, Terms,
    event::{Authorization, EscrowOpened, EscrowPlan, EscrowRefunded, EscrowSecured, Inclusion, PayerStep, Submitted},
    failure::BlockchainContext,
};

use super::transient::Transient;

/// The deposit-and-reserve that secures a payment's funds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DepositOrder {
    /// The payment.
    pub payment_id: PaymentId,
    /// Its economics.
    pub terms: Terms,
    /// Their hash.
    pub terms_hash: Hash32,
    /// The escrow and its windows.
    pub escrow: EscrowPlan,
    /// What the payer signed.
    pub authorization: Authorization,
    /// What the awarded quote reserves.
    pub reservation: Reservation,
    /// The buyer's transfer, once the journal says that it is sent (ADR 160).
    pub transfer: Option<String>,
}

/// The deposit of a payment without a reservation: what the payer's own transaction makes, whoever broadcasts it, and what is
/// looked for where the award is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayerDeposit {
    /// The payment.
    pub payment_id: PaymentId,
    /// Its economics.
    pub terms: Terms,
    /// Their hash.
    pub terms_hash: Hash32,
    /// The escrow and its windows.
    pub escrow: EscrowPlan,
    /// What the payer signed.
    pub authorization: Authorization,
    /// The buyer's transfer, once the journal says that it is sent (ADR 160).
    pub transfer: Option<String>,
}

impl From<&Submitted> for PayerDeposit {
    fn from(submitted: &Submitted) -> Self {
        Self {
            payment_id: submitted.payment_id.clone(),
            terms: submitted.terms.clone(),
            terms_hash: submitted.terms_hash,
            escrow: submitted.escrow.clone(),
            authorization: submitted.authorization.clone(),
            transfer: None,
        }
    }
}

impl DepositOrder {
    /// The deposit without the reservation.
    pub fn payer_deposit(&self) -> PayerDeposit {
        PayerDeposit {
            payment_id: self.payment_id.clone(),
            terms: self.terms.clone(),
            terms_hash: self.terms_hash,
            escrow: self.escrow.clone(),
            authorization: self.authorization.clone(),
            transfer: self.transfer.clone(),
        }
    }

    /// What the escrow commits to.
    pub fn expected_terms(&self) -> ExpectedTerms<'_> {
        ExpectedTerms {
            payment_id: &self.payment_id,
            terms: &self.terms,
            terms_hash: self.terms_hash,
            escrow: &self.escrow,
            authorization: &self.authorization,
            reservation: Some(self.reservation.clone()),
            deposited: None,
        }
    }
}

/// What the escrow of one of the gateway's own payments commits to, as the journal determines it.
#[derive(Debug, Clone)]
pub struct ExpectedTerms<'a> {
    /// The payment.
    pub payment_id: &'a PaymentId,
    /// Its economics.
    pub terms: &'a Terms,
    /// Their hash.
    pub terms_hash: Hash32,
    /// The escrow and its windows.
    pub escrow: &'a EscrowPlan,
    /// What the payer signed.
    pub authorization: &'a Authorization,
    /// What the awarded quote reserves; `None` before there is an award.
    pub reservation: Option<Reservation>,
    /// What was deposited, smallest unit, once that is known of a settled block; before that what may be deposited besides what the
    /// reservation asks for, where the gateway makes the deposit. `None` where it follows from scheme and reservation.
    pub deposited: Option<Amount>,
}

/// What the gateway's own transactions gave back from a deposit address, as of a settled block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnReturn {
    /// None of them is in a settled block with its effect.
    NotLanded,
    /// One is, and there was nothing any more.
    Nothing {
        /// What proves it.
        evidence: String,
    },
    /// One gave back what was there.
    Returned(EscrowRefunded),
}

/// What a reservation commits to on chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Hash of the awarded quote.
    pub quote_hash: Hash32,
    /// Account on the source chain that is paid.
    pub payout_account: Account,
    /// What it is paid, smallest unit of the source asset.
    pub source_amount: Amount,
    /// Last second in which a delivery counts, UNIX.
    pub fulfill_by: u64,
}

/// The reassignment of an escrow whose reservation has lapsed to another quote (ADR 148).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReassignmentOrder {
    /// The payment.
    pub payment_id: PaymentId,
    /// Its economics.
    pub terms: Terms,
    /// Their hash.
    pub terms_hash: Hash32,
    /// The escrow and its windows.
    pub escrow: EscrowPlan,
    /// What the payer signed.
    pub authorization: Authorization,
    /// What is in escrow, smallest unit of the source asset.
    pub deposited: Amount,
    /// The reservation that has lapsed, for which the escrow is reserved until it is reassigned.
    pub lapsed: Reservation,
    /// The releaser's signed non-delivery of that.
    pub non_delivery: String,
    /// What the newly awarded quote reserves.
    pub reservation: Reservation,
}

impl ReassignmentOrder {
    /// What the escrow commits to before the reassignment.
    pub fn terms_before(&self) -> ExpectedTerms<'_> {
        self.terms_with(&self.lapsed)
    }

    /// What it commits to after it.
    pub fn terms_after(&self) -> ExpectedTerms<'_> {
        self.terms_with(&self.reservation)
    }

    fn terms_with(&self, reservation: &Reservation) -> ExpectedTerms<'_> {
        ExpectedTerms {
            payment_id: &self.payment_id,
            terms: &self.terms,
            terms_hash: self.terms_hash,
            escrow: &self.escrow,
            authorization: &self.authorization,
            reservation: Some(reservation.clone()),
            deposited: Some(self.deposited),
        }
    }
}

/// Where a reassignment stands at the required depth, whoever's transaction brought it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReassignmentState {
    /// The escrow is reserved for the quote that lapsed, and may still be reassigned to the new one.
    Open,
    /// The escrow is, or was, reserved for the new quote.
    Reassigned(Inclusion),
    /// The escrow is not reserved for the new quote and never will be: it has given the money back, or a settled block is past the
    /// promise of the new quote, after which no reassignment to it is taken.
    Missed {
        /// What proves it.
        evidence: String,
    },
    /// It never will be, either, because it is, or was, reserved for a quote that the payment does not know, and has paid or takes
    /// no release any more: somebody else may have delivered.
    Lost {
        /// What proves it.
        evidence: String,
    },
}

/// The return of a payment's funds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundOrder {
    /// The payment.
    pub payment_id: PaymentId,
    /// The escrow and its windows.
    pub escrow: EscrowPlan,
    /// The releaser's signed non-delivery; without it the refund window must be open.
    pub non_delivery: Option<String>,
}

/// The payment of the settler out of the escrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseOrder {
    /// The payment.
    pub payment_id: PaymentId,
    /// The escrow and its windows.
    pub escrow: EscrowPlan,
    /// Hash of the awarded quote.
    pub quote_hash: Hash32,
    /// Account on the source chain that is paid.
    pub payout_account: Account,
    /// The releaser's signed attestation of the delivery.
    pub attestation: String,
}

/// The delivery that is looked for on the destination chain; every field must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryOrder {
    /// The payment.
    pub payment_id: PaymentId,
    /// Hash of the awarded quote.
    pub quote_hash: Hash32,
    /// Destination asset and recipient.
    pub destination: events::OwnedAsset,
    /// Exact amount, smallest unit of the destination asset.
    pub amount: Amount,
    /// Account that delivers.
    pub delivery_account: Account,
    /// Contract through which it delivers.
    pub proxy: Account,
    /// Last second in which a delivery counts, UNIX.
    pub fulfill_by: u64,
}

/// Why no transaction could be prepared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// Nothing is known; try again.
    #[error(transparent)]
    Transient(#[from] Transient),
    /// Nothing is wrong, and it is too early: what has to be on chain before is on its way. Look again at the next block.
    #[error("not yet: {0}")]
    Waiting(String),
    /// One of the payer's own transactions, which has to be on chain before, is with a node now. Look again at the next block.
    #[error("not yet: the payer's {} {transaction_hash} is on its way", step.as_str())]
    PayerSent {
        /// What it is for.
        step: PayerStep,
        /// Its hash, as in the payer's authorization; of a transfer on Solana the signature of who pays its fee.
        transaction_hash: String,
    },
    /// The chain refuses the call at its latest state; no nonce was taken. The refusal may pass (a lagging node, an
    /// allowance about to be given), so the caller decides how often to ask again.
    #[error("the chain refuses the transaction: {}", .0.context.revert_reason.as_deref().unwrap_or("no reason given"))]
    Refused(Box<Refusal>),
}

/// A transaction that was refused when it was tried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What the chain said.
    pub context: BlockchainContext,
    /// The node was shown a call that anyone who saw it may send, and that the escrow takes up to this UNIX second.
    pub valid_until: u64,
}

/// Where a prepared deposit stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DepositState {
    /// It, or a copy of it sent by somebody else, may still take effect: broadcast again.
    Pending,
    /// In escrow at the required depth, reserved under the right quote. True whichever transaction did it.
    Secured(EscrowSecured),
    /// Mined and reverted, and a settled block past the time up to which the escrow takes the same call from anyone holds
    /// no escrow.
    Reverted(Box<BlockchainContext>),
    /// It can never take effect, for a reason that another attempt does not share: its nonce is consumed at finality by
    /// another transaction, or it came into a block too late. Nothing is in escrow at the required depth.
    Superseded {
        /// What proves it.
        evidence: String,
    },
    /// A final block is past the deposit's window and holds no escrow, so none can ever be made.
    Expired {
        /// What proves it.
        evidence: String,
    },
    /// A final block is past the deposit's window and holds the payer's money with no settler named, so none ever will be.
    /// Only where the payer's own transaction deposits.
    Stranded(EscrowOpened),
}

/// Where a delivery stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryState {
    /// Nothing found so far.
    NotSeen,
    /// On chain, with every field right, not yet at the required depth.
    Seen(Inclusion),
    /// On chain, with every field right, at the required depth.
    Final(Inclusion),
    /// A final block is past `fulfill_by` and holds no delivery, so none can ever be made.
    Impossible,
}

/// Where an escrow stands at the required depth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EscrowState {
    /// Holds nothing and never did.
    Absent,
    /// Holds the payer's money, and may still be released.
    Held,
    /// Holds the payer's money at a settled block inside the refund window: no release can land any more.
    Lapsed,
    /// Paid the settler.
    Released(Inclusion),
    /// Paid the payer back.
    Refunded(EscrowRefunded),
}

/// What is at a deposit address, as of a block that need not be settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressFunds {
    /// How much, smallest unit of the source asset; `None` for nothing.
    pub amount: Option<Amount>,
    /// The block. On Tron the last one in which something came since the newest settled one, or that one.
    pub block_number: u64,
    /// Its time, UNIX seconds: too little is there for good once it is past the deadline. On Tron, where nodes show transfers that no
    /// block has, it is that of the newest settled block.
    pub block_time: u64,
}

/// What became of the money at a deposit address, or at a batch's or an offer's, at a settled block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressState {
    /// No settled block is past the reserve deadline, and nothing was given back: a deposit may still be made.
    Open,
    /// Past the reserve deadline nothing, or nothing worth a transaction, is there, and nothing was given back.
    Empty,
    /// Past the reserve deadline this is there.
    Held {
        /// How much, smallest unit of the source asset.
        amount: Amount,
        /// The block.
        block_number: u64,
    },
    /// The same, and it stays there: the refund account has taken nothing for so long that it is not tried any more. No port says so.
    Left {
        /// How much, smallest unit of the source asset.
        amount: Amount,
    },
    /// It went back to the payer, who is the merchant of an offer on Solana.
    GivenBack(EscrowRefunded),
}

/// Where a prepared refund or release stands, apart from what the escrow says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionState {
    /// May still land: broadcast again.
    Pending,
    /// Can never land, or landed and reverted at the required depth: prepare another.
    Dead {
        /// What proves it.
        evidence: String,
    },
}

/// What a releaser attests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// The delivery is on the destination chain at depth, with every field right.
    Delivery {
        /// The payment.
        payment_id: PaymentId,
        /// Hash of the awarded quote.
        quote_hash: Hash32,
        /// Account on the source chain that is paid.
        payout_account: Account,
    },
    /// No delivery was made and none can be made any more.
    NonDelivery {
        /// The payment.
        payment_id: PaymentId,
        /// Hash of the awarded quote.
        quote_hash: Hash32,
    },
}
