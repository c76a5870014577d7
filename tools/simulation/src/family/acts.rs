//! What parties do on a chain and what is seen of it, in one form for every family.

use std::collections::BTreeMap;

use alloy::primitives::U256;

use events::{Account, AssetId, Hash32};

/// A delivery, as somebody makes it, or as it is in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The payment, as contracts have it.
    pub payment: Hash32,
    /// The quote.
    pub quote_hash: Hash32,
    /// Who delivers.
    pub settler: Account,
    /// The token, or the chain's coin.
    pub asset: AssetId,
    /// Who gets it.
    pub recipient: Account,
    /// How much, smallest unit.
    pub amount: U256,
    /// Last second, UNIX.
    pub fulfill_by: u64,
}

/// A reservation that an escrow is to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The quote.
    pub quote_hash: Hash32,
    /// Who is paid.
    pub settler: Account,
    /// What it is paid, smallest unit.
    pub source_amount: U256,
    /// Last second of its delivery, UNIX.
    pub fulfill_by: u64,
}

/// A call of the escrow that anybody may send. Attestations and non-deliveries are as verifiers give them: hex with 0x, of a set what
/// `VerifierSet::attestation` makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EscrowCall {
    /// Pays the settler.
    Release {
        /// The attested delivery.
        attestation: String,
    },
    /// Returns the money ahead of its time.
    Cancel {
        /// The attested non-delivery.
        non_delivery: String,
    },
    /// Returns the money past the refund window.
    Refund,
    /// Returns what a release left in escrow for the payer, where a release does not do so itself (Solana).
    Remainder,
    /// Reserves it for another.
    Reassign {
        /// The reservation that has lapsed.
        previous: Hash32,
        /// For whom.
        reservation: Reservation,
        /// The party that signs as the reserver.
        reserver: String,
        /// The attested non-delivery of the previous one.
        non_delivery: String,
    },
}

/// What a thief does with the key of an account that sends transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misuse {
    /// Uses up its next nonce.
    Spend,
    /// Sends with a nonce that is not its turn yet.
    Gap,
    /// Takes the place of a transaction of it that waits, by a higher fee.
    Replace,
    /// Sends a call of the escrow that waits, whosever, as its own.
    Copy,
    /// Takes its coins.
    Drain,
}

/// Why the escrow takes a call not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The releaser did not sign it.
    Releaser,
    /// The reserver did not sign it.
    Reserver,
    /// The promise of the settler is not over.
    ReservationNotOver,
    /// Anything else.
    Other(String),
}

/// A change of a payment in a canonical block, with what the call said that made it; `None` where no call of the escrow by its own
/// name did, which no honest chain shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The escrow was reserved for another quote.
    Reassigned(Option<Reassigned>),
    /// The escrow paid the settler.
    Released(Option<Released>),
    /// The escrow paid the payer back.
    Refunded(Option<Cancelled>),
    /// Something was delivered.
    Delivered(Delivered),
}

/// What a reassignment said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reassigned {
    /// The quote before.
    pub previous: Hash32,
    /// What was in escrow, smallest unit.
    pub deposited: U256,
    /// The reservation after.
    pub reservation: Reservation,
    /// The non-delivery, hex with 0x.
    pub non_delivery: String,
}

/// What a release said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// The quote.
    pub quote_hash: Hash32,
    /// Who was paid.
    pub settler: Account,
    /// The attestation, hex with 0x.
    pub attestation: String,
}

/// What a cancellation said; of a refund past the window nothing is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancelled {
    /// The quote.
    pub quote_hash: Hash32,
    /// The non-delivery, hex with 0x.
    pub non_delivery: String,
}

/// A change with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happened {
    /// The payment, as contracts have it.
    pub payment: Hash32,
    /// What happened.
    pub change: Change,
    /// The transaction.
    pub transaction: String,
    /// The UNIX second of the block.
    pub time: u64,
}

/// A transaction that waits for a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waits {
    /// Its hash, as the journal has it.
    pub hash: String,
    /// Who sends it and pays for it.
    pub sender: Account,
    /// Whether it calls the escrow.
    pub is_to_escrow: bool,
}

/// What of the token is where, in the newest block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holdings {
    /// What each account has by itself, on Solana by the owner of the token accounts; without the escrow and its vaults.
    pub accounts: BTreeMap<Account, U256>,
    /// What the escrow holds, with all of its vaults.
    pub escrow: U256,
    /// The supply, as the token reports it.
    pub supply: U256,
}
