//! Instructions: a tag, then the data. The accounts, in order, are in the README and made by [`crate::host`].

use crate::{GatewayError, Hash, Key, layout::layout, verifier_set::VerifierSet};

/// First byte of an instruction's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// Sets the program up, once; data [`Initialize`].
    Initialize = 0,
    /// Locks a payer's money for a settler; data [`DepositAndReserve`].
    DepositAndReserve = 1,
    /// Pays the settler; data [`Attested`].
    Release = 2,
    /// Gives the money back on the releaser's word; data [`Attested`].
    Cancel = 3,
    /// Gives the money back when the time is over; no data.
    Refund = 4,
    /// Delivers; data [`Fulfill`].
    Fulfill = 5,
    /// Closes the record of an escrow that ended long ago; no data.
    ReclaimEscrow = 6,
    /// Closes the record of a delivery made long ago; no data.
    ReclaimFulfillment = 7,
    /// Reserves an escrow for another settler on the releaser's word that the one before did not deliver; data [`Reassign`], then
    /// [`Attested`].
    Reassign = 8,
    /// Gives the payer what a release left of the deposit; no data.
    ReturnRemainder = 9,
}

impl Tag {
    /// The instruction of a byte, if there is one.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Initialize,
            1 => Self::DepositAndReserve,
            2 => Self::Release,
            3 => Self::Cancel,
            4 => Self::Refund,
            5 => Self::Fulfill,
            6 => Self::ReclaimEscrow,
            7 => Self::ReclaimFulfillment,
            8 => Self::Reassign,
            9 => Self::ReturnRemainder,
            _ => return None,
        })
    }
}

layout! {
    /// Data of [`Tag::Initialize`].
    pub struct Initialize [Tag::Initialize as u8] {
        /// The cluster's genesis hash.
        pub cluster_id: Hash,
        /// The only reserver.
        pub reserver: Key,
    }
}

layout! {
    /// Data of [`Tag::DepositAndReserve`]: what the payer signed, who signed it and where, and the reservation. Mint and
    /// reserver are taken from the accounts.
    pub struct DepositAndReserve [Tag::DepositAndReserve as u8] {
        /// The payment.
        pub payment_id: Hash,
        /// Hash of the payment's terms.
        pub terms_hash: Hash,
        /// The quote that the payer accepted, or zero.
        pub agreed_quote_hash: Hash,
        /// Whose money is taken.
        pub payer: Key,
        /// The most that may be taken, as signed.
        pub cap: u64,
        /// Who attests the delivery.
        pub releaser: Key,
        /// Last second of the deposit.
        pub reserve_deadline: u64,
        /// The payer's deadline for the delivery.
        pub fulfillment_deadline: u64,
        /// First second of the refund.
        pub refund_after: u64,
        /// Whose Ed25519 signature it is: the payer or its delegate signer. Its allowance pays.
        pub signer: Key,
        /// Index in the transaction of the Ed25519 instruction with the signature.
        pub ed25519_index: u8,
        /// The winning quote.
        pub quote_hash: Hash,
        /// Who is paid on release.
        pub settler: Key,
        /// What is taken and what the settler is paid.
        pub source_amount: u64,
        /// The settler's deadline.
        pub fulfill_by: u64,
    }
}

layout! {
    /// First part of the data of [`Tag::Reassign`]: the reservation that is over, and the new one. The releaser's word that the
    /// first was not kept comes behind it, see [`Reassign::with_word`].
    pub struct Reassign [Tag::Reassign as u8] {
        /// The quote that the escrow is reserved for until then, so that the instruction serves once.
        pub previous_quote_hash: Hash,
        /// The quote that it is reserved for from then on.
        pub quote_hash: Hash,
        /// Who is paid on release.
        pub settler: Key,
        /// What it is paid, at most what was deposited.
        pub source_amount: u64,
        /// Its deadline.
        pub fulfill_by: u64,
    }
}

impl Reassign {
    /// Reads the whole data.
    ///
    /// # Errors
    /// [`GatewayError::InstructionInvalid`] when it is too short, and as [`Attested::from_bytes`].
    pub fn with_word(data: &[u8]) -> Result<(Self, Attested<'_>), GatewayError> {
        let (fixed, word) = data.split_at_checked(Self::SIZE).ok_or(GatewayError::InstructionInvalid)?;
        let reassign = Self::from_bytes(fixed).ok_or(GatewayError::InstructionInvalid)?;
        Ok((reassign, Attested::from_bytes(word)?))
    }
}

/// Data of [`Tag::Release`] and [`Tag::Cancel`] after the tag, and last part of that of [`Tag::Reassign`]: where the releaser's signatures are, and whose they are when
/// the releaser is a verifier set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attested<'a> {
    /// Index in the transaction of the Ed25519 instruction with the signatures.
    pub ed25519_index: u8,
    /// The set whose id the releaser is; `None` when it is a key.
    pub set: Option<VerifierSet<'a>>,
}

impl<'a> Attested<'a> {
    /// Reads the index, and the set where anything comes behind it.
    ///
    /// # Errors
    /// [`GatewayError::InstructionInvalid`] when nothing is there, [`GatewayError::VerifierSetInvalid`] when what comes behind
    /// the index is no set.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, GatewayError> {
        let (ed25519_index, set) = bytes.split_first().ok_or(GatewayError::InstructionInvalid)?;
        let set = if set.is_empty() { None } else { Some(VerifierSet::from_bytes(set)?) };
        Ok(Self { ed25519_index: *ed25519_index, set })
    }
}

layout! {
    /// Data of [`Tag::Fulfill`]: the delivery's terms without the settler, who signs the transaction.
    pub struct Fulfill [Tag::Fulfill as u8] {
        /// The payment.
        pub payment_id: Hash,
        /// The quote under which is delivered.
        pub quote_hash: Hash,
        /// How much.
        pub amount: u64,
        /// Last second of the delivery.
        pub fulfill_by: u64,
        /// The wallet that is paid.
        pub recipient: Key,
        /// The token; zero is native SOL.
        pub mint: Key,
    }
}
