//! Instructions: a tag, then the data. The accounts, in order, are in the README and made by [`crate::host`].

use crate::{
    GatewayError, Hash, Key,
    layout::layout,
    message::{Deposit, Offer},
    verifier_set::VerifierSet,
};

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
    /// Locks what came to a deposit address for a settler; data [`Deposit`], then [`Reservation`].
    DepositFromAddress = 10,
    /// Gives the payer tokens that are at a deposit address; data [`Deposit`], then [`GiveBack::closes`].
    GiveBack = 11,
    /// Gives the payer the native SOL that is at a deposit address; data [`Deposit`].
    GiveBackLamports = 12,
    /// Locks what a buyer paid to the address of a merchant's offer for a settler; data [`Offer`], then [`Purchase`] and
    /// [`Reservation`].
    DepositFromOffer = 13,
    /// Gives the merchant tokens that are at the address of its offer; data [`Offer`], then [`Collect::amount`].
    Collect = 14,
    /// Gives the merchant the native SOL that is at the address of its offer; data [`Offer`].
    CollectLamports = 15,
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
            10 => Self::DepositFromAddress,
            11 => Self::GiveBack,
            12 => Self::GiveBackLamports,
            13 => Self::DepositFromOffer,
            14 => Self::Collect,
            15 => Self::CollectLamports,
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
    /// What a deposit from an address reserves, behind what the address commits to.
    pub struct Reservation [] {
        /// What is deposited: at least the `amount` of the terms, and exactly that of an offer.
        pub deposited: u64,
        /// The winning quote.
        pub quote_hash: Hash,
        /// Who is paid on release.
        pub settler: Key,
        /// What the settler is paid: at most the `amount` of the terms.
        pub source_amount: u64,
        /// The settler's deadline.
        pub fulfill_by: u64,
    }
}

impl Reservation {
    /// The deposit of `terms` as if their payer had signed them, for what is judged and kept of every deposit alike. What is deposited
    /// may be more than its `source_amount`.
    pub fn as_signed(&self, terms: &Deposit) -> DepositAndReserve {
        DepositAndReserve {
            payment_id: terms.payment_id,
            terms_hash: terms.terms_hash,
            agreed_quote_hash: terms.quote_hash,
            payer: terms.payer,
            cap: terms.amount,
            releaser: terms.releaser,
            reserve_deadline: terms.reserve_deadline,
            fulfillment_deadline: terms.fulfillment_deadline,
            refund_after: terms.refund_after,
            signer: terms.payer,
            ed25519_index: 0,
            quote_hash: self.quote_hash,
            settler: self.settler,
            source_amount: self.source_amount,
            fulfill_by: self.fulfill_by,
        }
    }
}

/// Data of [`Tag::DepositFromAddress`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepositFromAddress {
    /// What the address commits to.
    pub terms: Deposit,
    /// What is reserved.
    pub reservation: Reservation,
}

impl DepositFromAddress {
    /// Length of the data.
    pub const SIZE: usize = 1 + Deposit::SIZE + Reservation::SIZE;

    /// Reads the whole data; `None` for another instruction's.
    pub fn from_bytes(data: &[u8]) -> Option<Self> {
        let (terms, rest) = terms_of(data, Tag::DepositFromAddress)?;
        Some(Self { terms, reservation: Reservation::from_bytes(rest)? })
    }

    /// The deposit as if the payer had signed its terms, for what is judged and kept of both alike. What is deposited may be more than
    /// its `source_amount`.
    pub fn as_signed(&self) -> DepositAndReserve {
        self.reservation.as_signed(&self.terms)
    }
}

/// Data of [`Tag::GiveBack`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveBack {
    /// What the address commits to.
    pub terms: Deposit,
    /// Whether the emptied token account is closed, so that its rent goes to who carries the money.
    pub closes: bool,
}

impl GiveBack {
    /// Length of the data.
    pub const SIZE: usize = 1 + Deposit::SIZE + 1;

    /// Reads the whole data; `None` for another instruction's.
    pub fn from_bytes(data: &[u8]) -> Option<Self> {
        let (terms, rest) = terms_of(data, Tag::GiveBack)?;
        let [closes @ 0..=1] = rest else { return None };
        Some(Self { terms, closes: *closes == 1 })
    }
}

/// The terms of a [`Tag::GiveBackLamports`]; `None` for another instruction's data.
pub fn terms_of_lamports(data: &[u8]) -> Option<Deposit> {
    terms_of(data, Tag::GiveBackLamports).filter(|(_, rest)| rest.is_empty()).map(|(terms, _)| terms)
}

/// The terms behind `tag`, and what comes behind them.
fn terms_of(data: &[u8], tag: Tag) -> Option<(Deposit, &[u8])> {
    let (terms, rest) = committed(data, tag, Deposit::SIZE)?;
    Some((Deposit::from_bytes(terms)?, rest))
}

layout! {
    /// What is a purchase's own, behind the offer.
    pub struct Purchase [] {
        /// The payment; one escrow each for ever.
        pub payment_id: Hash,
        /// Last second of the deposit, at most [`crate::rules::RESERVE_AHEAD_SECONDS_MAX`] ahead of the cluster's clock. The offer counts
        /// delivery and refund from there.
        pub reserve_deadline: u64,
    }
}

impl Offer {
    /// The terms that a purchase makes: those of a deposit whose payer is the merchant, for any quote. A time that no `u64` holds becomes
    /// the last one that it does.
    pub fn deposit(&self, purchase: &Purchase) -> Deposit {
        let fulfillment_deadline = purchase.reserve_deadline.saturating_add(self.delivery_seconds);
        Deposit {
            payment_id: purchase.payment_id,
            terms_hash: self.terms_hash,
            quote_hash: [0; 32],
            payer: self.merchant,
            mint: self.mint,
            amount: self.amount,
            reserver: self.reserver,
            releaser: self.releaser,
            reserve_deadline: purchase.reserve_deadline,
            fulfillment_deadline,
            refund_after: fulfillment_deadline.saturating_add(self.refund_seconds),
        }
    }
}

/// Data of [`Tag::DepositFromOffer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepositFromOffer {
    /// What the address commits to.
    pub offer: Offer,
    /// Which purchase it is.
    pub purchase: Purchase,
    /// What is reserved.
    pub reservation: Reservation,
}

impl DepositFromOffer {
    /// Length of the data.
    pub const SIZE: usize = 1 + Offer::SIZE + Purchase::SIZE + Reservation::SIZE;

    /// Reads the whole data; `None` for another instruction's.
    pub fn from_bytes(data: &[u8]) -> Option<Self> {
        let (offer, rest) = offer_of(data, Tag::DepositFromOffer)?;
        let (purchase, reservation) = rest.split_at_checked(Purchase::SIZE)?;
        Some(Self {
            offer,
            purchase: Purchase::from_bytes(purchase)?,
            reservation: Reservation::from_bytes(reservation)?,
        })
    }

    /// The terms that the purchase makes of the offer.
    pub fn terms(&self) -> Deposit {
        self.offer.deposit(&self.purchase)
    }

    /// The deposit as if the merchant had signed its terms, as [`DepositFromAddress::as_signed`].
    pub fn as_signed(&self) -> DepositAndReserve {
        self.reservation.as_signed(&self.terms())
    }
}

/// Data of [`Tag::Collect`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collect {
    /// What the address commits to.
    pub offer: Offer,
    /// How much is moved, in the mint's smallest unit; not zero.
    pub amount: u64,
}

impl Collect {
    /// Length of the data.
    pub const SIZE: usize = 1 + Offer::SIZE + size_of::<u64>();

    /// Reads the whole data; `None` for another instruction's.
    pub fn from_bytes(data: &[u8]) -> Option<Self> {
        let (offer, amount) = offer_of(data, Tag::Collect)?;
        Some(Self { offer, amount: u64::from_le_bytes(amount.try_into().ok()?) })
    }
}

/// Data of [`Tag::CollectLamports`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectLamports {
    /// What the address commits to.
    pub offer: Offer,
}

impl CollectLamports {
    /// Length of the data.
    pub const SIZE: usize = 1 + Offer::SIZE;

    /// Reads the whole data; `None` for another instruction's.
    pub fn from_bytes(data: &[u8]) -> Option<Self> {
        let (offer, rest) = offer_of(data, Tag::CollectLamports)?;
        rest.is_empty().then_some(Self { offer })
    }
}

/// The offer behind `tag`, and what comes behind it.
fn offer_of(data: &[u8], tag: Tag) -> Option<(Offer, &[u8])> {
    let (offer, rest) = committed(data, tag, Offer::SIZE)?;
    Some((Offer::from_bytes(offer)?, rest))
}

/// The `size` bytes behind `tag` that an address commits to, and what comes behind them.
fn committed(data: &[u8], tag: Tag, size: usize) -> Option<(&[u8], &[u8])> {
    let (first, rest) = data.split_first()?;
    (*first == tag as u8).then(|| rest.split_at_checked(size))?
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
