//! One line of `Program data:` (Base64) for each effect, with the fields of the EVM contracts' events. For people and
//! indexers; what counts are the accounts.

use crate::{Hash, Key, layout::layout};

/// What a reassignment says in a line of its own (`Program log:`). The program's bytes hold it, so whoever reads them knows whether the
/// program is of a version that reassigns.
pub const REASSIGN_SAID: &str = "Instruction: Reassign";

/// What a return from a deposit address says in a line of its own, as [`REASSIGN_SAID`]: whoever reads the program's bytes knows whether
/// it has deposit addresses.
pub const GIVE_BACK_SAID: &str = "Instruction: GiveBack";

/// What a deposit from the address of an offer says in a line of its own, as [`REASSIGN_SAID`]: whoever reads the program's bytes knows
/// whether it has addresses of offers.
pub const OFFER_SAID: &str = "Instruction: DepositFromOffer";

layout! {
    /// `amount` of `mint` is locked for the payment.
    pub struct Deposited [1] {
        /// The payment.
        pub payment_id: Hash,
        /// The winning quote.
        pub quote_hash: Hash,
        /// Whose money it is.
        pub payer: Key,
        /// Hash of the payment's terms.
        pub terms_hash: Hash,
        /// The token.
        pub mint: Key,
        /// What was taken.
        pub amount: u64,
    }
}

layout! {
    /// `settler` gets `source_amount` if it delivers not later than `fulfill_by`.
    pub struct Reserved [2] {
        /// The payment.
        pub payment_id: Hash,
        /// The winning quote.
        pub quote_hash: Hash,
        /// Who is paid on release.
        pub settler: Key,
        /// What it is paid.
        pub source_amount: u64,
        /// Its deadline.
        pub fulfill_by: u64,
    }
}

layout! {
    /// The delivery was attested and the settler paid.
    pub struct Released [3] {
        /// The payment.
        pub payment_id: Hash,
        /// The quote under which was delivered.
        pub quote_hash: Hash,
        /// Who was paid.
        pub settler: Key,
        /// What of the deposit it was paid.
        pub amount: u64,
        /// What of the deposit is the payer's, and stays in the vault until [`RemainderReturned`].
        pub remainder: u64,
    }
}

layout! {
    /// The whole deposit went back to the payer, by cancellation or by time.
    pub struct Refunded [4] {
        /// The payment.
        pub payment_id: Hash,
        /// The winning quote.
        pub quote_hash: Hash,
        /// Who has the money back.
        pub payer: Key,
        /// How much.
        pub amount: u64,
    }
}

layout! {
    /// A delivery of exactly `amount` of `mint` (zero: native SOL) to `recipient`.
    pub struct Fulfilled [5] {
        /// The payment.
        pub payment_id: Hash,
        /// The quote under which was delivered.
        pub quote_hash: Hash,
        /// Who delivered.
        pub settler: Key,
        /// The token; zero is native SOL.
        pub mint: Key,
        /// The wallet that was paid.
        pub recipient: Key,
        /// How much.
        pub amount: u64,
        /// Last second in which the delivery counted.
        pub fulfill_by: u64,
    }
}

layout! {
    /// The settler of `previous_quote_hash` did not deliver, and the escrow is reserved for another; [`Reserved`] follows.
    pub struct Reassigned [6] {
        /// The payment.
        pub payment_id: Hash,
        /// The quote that was not kept.
        pub previous_quote_hash: Hash,
        /// The quote that it is reserved for now.
        pub quote_hash: Hash,
    }
}

layout! {
    /// What a release left in the vault went to the payer.
    pub struct RemainderReturned [7] {
        /// The payment.
        pub payment_id: Hash,
        /// The quote under which was delivered.
        pub quote_hash: Hash,
        /// Who has it.
        pub payer: Key,
        /// What of the deposit it is.
        pub amount: u64,
    }
}

layout! {
    /// What was at a deposit address went to the payer.
    pub struct GivenBack [8] {
        /// The payment.
        pub payment_id: Hash,
        /// Who has it.
        pub payer: Key,
        /// The token; zero is native SOL.
        pub mint: Key,
        /// How much.
        pub amount: u64,
    }
}

layout! {
    /// What was at the address of an offer went to the merchant.
    pub struct Collected [9] {
        /// The token; zero is native SOL.
        pub mint: Key,
        /// Who has it.
        pub merchant: Key,
        /// The offer's address.
        pub address: Key,
        /// How much.
        pub amount: u64,
    }
}
