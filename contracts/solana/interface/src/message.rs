//! What payer and releaser sign, and the key of a delivery: bytes whose SHA-256 is the digest.
//!
//! Digest = SHA-256(`"gw-escrow"` ‖ domain version ‖ cluster id ‖ program id ‖ body). The body's first byte is its kind.
//! The Ed25519 signature is over the 32 bytes of the digest. Cluster and program in the digest keep a signature from
//! counting on another cluster or for another program; the kind keeps it from counting as another message.

use crate::{Hash, Key, layout::layout};

/// First bytes of what is hashed for a signature.
pub const ESCROW_DOMAIN: &[u8] = b"gw-escrow";
/// First bytes of what is hashed for a delivery's key.
pub const FULFILLMENT_DOMAIN: &[u8] = b"gw-fulfillment";
/// First bytes of what is hashed for a deposit address.
pub const ADDRESS_DOMAIN: &[u8] = b"gw-address";
/// First bytes of what is hashed for the address of a merchant's offer.
pub const OFFER_DOMAIN: &[u8] = b"gw-offer";
/// Version of the signing domain. It changes with any change of the messages.
pub const DOMAIN_VERSION: u8 = 1;

/// Where a signature counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The cluster's genesis hash.
    pub cluster_id: Hash,
    /// The program's address.
    pub program_id: Key,
}

impl Domain {
    /// What is hashed for `body`, in order.
    pub fn preimage<'a>(&'a self, body: &'a [u8]) -> [&'a [u8]; 5] {
        [ESCROW_DOMAIN, &[DOMAIN_VERSION], &self.cluster_id, &self.program_id, body]
    }
}

layout! {
    /// What the payer signs (kind 0): up to `amount` of `mint` may be locked for this payment.
    pub struct Deposit [0] {
        /// The payment; one escrow each for ever.
        pub payment_id: Hash,
        /// Hash of the payment's terms (source, destinations, amounts).
        pub terms_hash: Hash,
        /// The quote that the payer accepted, or zero when the payer signs before the auction.
        pub quote_hash: Hash,
        /// Whose money is taken, and who gets it back when nothing is delivered.
        pub payer: Key,
        /// The token.
        pub mint: Key,
        /// The most that may be taken.
        pub amount: u64,
        /// Who admits the deposit and names the settler; must be the program's.
        pub reserver: Key,
        /// Who attests the delivery.
        pub releaser: Key,
        /// Last second of the deposit.
        pub reserve_deadline: u64,
        /// Last second that the reservation may allow for the delivery.
        pub fulfillment_deadline: u64,
        /// First second of the refund, and the end of release and cancellation.
        pub refund_after: u64,
    }
}

impl Deposit {
    /// What is hashed for the deposit address that commits to the terms of these bytes, in order: whoever sends `amount` or more there
    /// agrees to them as one who signs. The cluster is not in it, so that what comes to the same address on another cluster can be given
    /// back there.
    pub fn address_preimage(bytes: &[u8; Self::SIZE]) -> [&[u8]; 3] {
        [ADDRESS_DOMAIN, &[DOMAIN_VERSION], bytes]
    }
}

layout! {
    /// What the address of a merchant's offer commits to (ADR 160). One address serves all who buy: each pays the same amount, and the
    /// program makes a deposit of it under these terms.
    pub struct Offer [] {
        /// Hash of the payment's terms (source, destinations, amounts), the same for every purchase.
        pub terms_hash: Hash,
        /// The merchant's wallet on this cluster, who has whatever is not delivered.
        pub merchant: Key,
        /// The token.
        pub mint: Key,
        /// What each buyer pays, all of it deposited, in the mint's smallest unit.
        pub amount: u64,
        /// Who admits the deposits and names the settlers; must be the program's.
        pub reserver: Key,
        /// Who attests the deliveries.
        pub releaser: Key,
        /// Seconds from the last one of the deposit to the last one of the delivery.
        pub delivery_seconds: u64,
        /// Seconds from there to the first one of the refund.
        pub refund_seconds: u64,
    }
}

impl Offer {
    /// What is hashed for the address that commits to the offer of these bytes, in order. The cluster is not in it, as in
    /// [`Deposit::address_preimage`].
    pub fn address_preimage(bytes: &[u8; Self::SIZE]) -> [&[u8]; 3] {
        [OFFER_DOMAIN, &[DOMAIN_VERSION], bytes]
    }
}

layout! {
    /// What the releaser signs (kind 1) when the delivery is final on its chain.
    pub struct Delivery [1] {
        /// The payment.
        pub payment_id: Hash,
        /// The quote under which was delivered.
        pub quote_hash: Hash,
        /// Who is to be paid.
        pub settler: Key,
    }
}

layout! {
    /// What the releaser signs (kind 2) when nothing was delivered and nothing can be any more.
    pub struct NonDelivery [2] {
        /// The payment.
        pub payment_id: Hash,
        /// The quote that was not kept.
        pub quote_hash: Hash,
    }
}

layout! {
    /// All terms of a delivery. Their hash is its once-only key: whoever delivers under other terms, or as another
    /// settler, has another key, so nobody can use up somebody's payment with one lamport.
    pub struct Fulfillment [] {
        /// The payment.
        pub payment_id: Hash,
        /// The quote under which is delivered.
        pub quote_hash: Hash,
        /// Who delivers.
        pub settler: Key,
        /// The token; zero is native SOL.
        pub mint: Key,
        /// The wallet that is paid; tokens go to its associated token account.
        pub recipient: Key,
        /// How much.
        pub amount: u64,
        /// Last second of the delivery.
        pub fulfill_by: u64,
    }
}

impl Fulfillment {
    /// What is hashed for the key of the delivery that has these bytes, in order.
    pub fn preimage<'a>(program_id: &'a Key, bytes: &'a [u8; Self::SIZE]) -> [&'a [u8]; 4] {
        [FULFILLMENT_DOMAIN, &[DOMAIN_VERSION], program_id, bytes]
    }
}
