//! The program's accounts. Each begins with its tag and the version of its layout.

use crate::{Hash, Key, layout::layout};

/// Version of all layouts here.
pub const LAYOUT_VERSION: u8 = 1;

/// First byte of [`Config`].
pub const CONFIG_TAG: u8 = 1;
/// First byte of [`Escrow`].
pub const ESCROW_TAG: u8 = 2;
/// First byte of [`FulfillmentRecord`].
pub const FULFILLMENT_TAG: u8 = 3;

/// Life of an escrow, as [`Escrow::state`] holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The money is locked for the settler.
    Reserved = 1,
    /// The settler was paid. Final.
    Released = 2,
    /// The payer has the money back, by cancellation or by time. Final.
    Refunded = 3,
}

impl State {
    /// The state of a byte, if it is one.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Reserved),
            2 => Some(Self::Released),
            3 => Some(Self::Refunded),
            _ => None,
        }
    }
}

layout! {
    /// What the program was set up with, once for ever.
    pub struct Config [CONFIG_TAG, LAYOUT_VERSION] {
        /// [`crate::message::DOMAIN_VERSION`].
        pub domain_version: u8,
        /// Bump of the account's address.
        pub bump: u8,
        /// The genesis hash of the cluster that the program runs on.
        pub cluster_id: Hash,
        /// The only reserver: no deposit comes in without its signature on the transaction.
        pub reserver: Key,
    }
}

layout! {
    /// All that the program knows of a payment's escrow. Kept after the end, for auditors and the engine, until
    /// [`crate::rules::RECLAIM_DELAY_SECONDS`] past `refund_after`.
    pub struct Escrow [ESCROW_TAG, LAYOUT_VERSION] {
        /// A [`State`].
        pub state: u8,
        /// Bump of the account's address.
        pub bump: u8,
        /// Bump of the vault's address.
        pub vault_bump: u8,
        /// The payment.
        pub payment_id: Hash,
        /// Whose money it is.
        pub payer: Key,
        /// Who paid for the accounts and gets that back.
        pub rent_payer: Key,
        /// Who admitted the deposit.
        pub reserver: Key,
        /// Whose signature releases or cancels.
        pub releaser: Key,
        /// The token.
        pub mint: Key,
        /// SPL Token or Token-2022.
        pub token_program: Key,
        /// Who is paid on release.
        pub settler: Key,
        /// What was taken from the payer.
        pub deposited: u64,
        /// What the settler is paid.
        pub source_amount: u64,
        /// Hash of the payment's terms.
        pub terms_hash: Hash,
        /// The winning quote.
        pub quote_hash: Hash,
        /// Last second of the deposit.
        pub reserve_deadline: u64,
        /// The payer's deadline for the delivery.
        pub fulfillment_deadline: u64,
        /// The settler's deadline for the delivery.
        pub fulfill_by: u64,
        /// First second of the refund.
        pub refund_after: u64,
        /// The slot of the deposit.
        pub secured_slot: u64,
        /// The slot of release or refund; 0 before.
        pub ended_slot: u64,
    }
}

impl Escrow {
    /// The state, if the byte is one.
    pub fn state(&self) -> Option<State> {
        State::from_byte(self.state)
    }
}

layout! {
    /// A delivery that was made: exactly `amount` reached `recipient` in time, once.
    pub struct FulfillmentRecord [FULFILLMENT_TAG, LAYOUT_VERSION] {
        /// Bump of the account's address.
        pub bump: u8,
        /// The payment.
        pub payment_id: Hash,
        /// The quote under which was delivered.
        pub quote_hash: Hash,
        /// Who delivered, and who gets the record's rent back.
        pub settler: Key,
        /// The token; zero is native SOL.
        pub mint: Key,
        /// The wallet that was paid.
        pub recipient: Key,
        /// How much.
        pub amount: u64,
        /// Last second in which the delivery counted.
        pub fulfill_by: u64,
        /// The slot of the delivery.
        pub slot: u64,
    }
}
