//! On-chain events: escrow, delivery, release and refund, and what a failure leaves to be done.

use serde::{Deserialize, Serialize};

use crate::{Account, Amount, ChainId, Did, Failure, Hash32, time::Timestamp};

/// The escrow a payment's funds go into, and its windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscrowPlan {
    /// The source chain.
    pub chain_id: ChainId,
    /// The escrow contract.
    pub contract: Account,
    /// Account that signs reservations.
    pub reserver: Account,
    /// Account that attests delivery and non-delivery.
    pub releaser: Account,
    /// Last second in which the deposit may be made, UNIX.
    pub reserve_deadline: u64,
    /// Last second in which a delivery counts, UNIX.
    pub fulfillment_deadline: u64,
    /// First second from which anyone may trigger the refund, UNIX.
    pub refund_after: u64,
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

/// Payload of [`PaymentEvent::AddressFunded`](super::PaymentEvent::AddressFunded).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressFunded {
    /// What is at the address, smallest unit of the source asset: what is going to be deposited.
    pub amount: Amount,
    /// The block in which it was seen there, not settled yet.
    pub block_number: u64,
    /// End of quote collection in the auction that follows.
    pub quote_deadline: Timestamp,
    /// When it was seen.
    pub funded_at: Timestamp,
}

/// Payload of [`PaymentEvent::AddressHeld`](super::PaymentEvent::AddressHeld).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressHeld {
    /// What is at the address, smallest unit of the source asset.
    pub amount: Amount,
    /// The settled block, past the reserve deadline, in which it is there.
    pub block_number: u64,
    /// When it was found.
    pub held_at: Timestamp,
}

/// Payload of [`PaymentEvent::DepositMined`](super::PaymentEvent::DepositMined).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepositMined {
    /// The transaction under way, in the block that holds it for now; the payer's own where that deposits.
    pub inclusion: Inclusion,
}

/// Payload of [`PaymentEvent::EscrowSecured`](super::PaymentEvent::EscrowSecured).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscrowSecured {
    /// The transaction that deposited and reserved; where the payer's own transaction deposits, the one that reserved.
    pub inclusion: Inclusion,
    /// Amount in escrow, smallest unit of the source asset.
    pub amount: Amount,
    /// The payer's own transaction that deposited, in its settled block. Absent where one transaction does both, and in what
    /// gateways recorded that did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposit: Option<Box<Inclusion>>,
}

/// Payload of [`PaymentEvent::EscrowOpened`](super::PaymentEvent::EscrowOpened).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscrowOpened {
    /// The transaction that deposited, in its settled block.
    pub inclusion: Inclusion,
    /// Amount in escrow, smallest unit of the source asset.
    pub amount: Amount,
    /// The quote that the escrow is reserved for, where the journal has no award of it: it was put in place from a copy that is
    /// older than the award (ADR 136). Absent where no settler is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_for: Option<Hash32>,
}

/// Payload of [`PaymentEvent::DepositRuledOut`](super::PaymentEvent::DepositRuledOut).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepositRuledOut {
    /// When a settled block past the reserve deadline was found that holds no escrow.
    pub ruled_out_at: Timestamp,
    /// What stays at the deposit address, smallest unit of the source asset, because the refund account takes it from nobody; anyone can
    /// have it given back. Absent where nothing is there that was held before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Amount>,
}

/// Payload of [`PaymentEvent::FulfillmentSeen`](super::PaymentEvent::FulfillmentSeen).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FulfillmentSeen {
    /// The transaction that paid the recipient.
    pub inclusion: Inclusion,
}

/// Payload of [`PaymentEvent::FulfillmentFinalized`](super::PaymentEvent::FulfillmentFinalized).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FulfillmentFinalized {
    /// The transaction that paid the recipient, in its settled block.
    pub inclusion: Inclusion,
    /// When it was found at its depth.
    pub finalized_at: Timestamp,
}

/// Payload of [`PaymentEvent::DeliveryAttested`](super::PaymentEvent::DeliveryAttested) and
/// [`PaymentEvent::NonDeliveryAttested`](super::PaymentEvent::NonDeliveryAttested).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberAttested {
    /// The verifier's account.
    pub member: Account,
    /// Its signed statement, hex with 0x.
    pub signature: String,
    /// When it was given.
    pub attested_at: Timestamp,
}

/// Payload of [`PaymentEvent::AttestationAwaited`](super::PaymentEvent::AttestationAwaited).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttestationAwaited {
    /// The transaction that paid the recipient, in its settled block.
    pub inclusion: Inclusion,
    /// When it was recorded that the attestation is missing.
    pub awaited_at: Timestamp,
}

/// Payload of [`PaymentEvent::AttestationMissed`](super::PaymentEvent::AttestationMissed).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttestationMissed {
    /// When a settled block inside the refund window was found in which the escrow still holds the money.
    pub missed_at: Timestamp,
}

/// Payload of [`PaymentEvent::FulfillmentConfirmed`](super::PaymentEvent::FulfillmentConfirmed).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FulfillmentConfirmed {
    /// The transaction that paid the recipient, in its settled block. After a [`FulfillmentFinalized`] it is where it was found
    /// when it was attested, which a reorganisation may have made another block.
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

/// Payload of [`PaymentEvent::ReservationLapsed`](super::PaymentEvent::ReservationLapsed).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationLapsed {
    /// The settler that did not deliver.
    pub settler: Did,
    /// Hash of its quote, for which the escrow is reserved until it is reassigned.
    pub quote_hash: Hash32,
    /// The releaser's signed non-delivery, hex with 0x: what reassigns the escrow, and what returns the money when nobody else
    /// delivers.
    pub attestation: String,
    /// End of quote collection in the auction that follows.
    pub quote_deadline: Timestamp,
    /// When it was decided.
    pub lapsed_at: Timestamp,
}

/// Payload of [`PaymentEvent::EscrowReassigned`](super::PaymentEvent::EscrowReassigned).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscrowReassigned {
    /// The transaction that reassigned, in its settled block.
    pub inclusion: Inclusion,
}

/// Payload of [`PaymentEvent::EscrowReleased`](super::PaymentEvent::EscrowReleased).
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
    pub owner: Account,
    /// How much, smallest unit of the source asset.
    pub amount: Amount,
}

/// Payload of [`PaymentEvent::Failed`](super::PaymentEvent::Failed).
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

/// Payload of [`PaymentEvent::EscrowRefunded`](super::PaymentEvent::EscrowRefunded).
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
