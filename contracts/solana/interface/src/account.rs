//! The program's accounts. Each begins with its tag and the version of its layout.

use crate::{GatewayError, Hash, Key, instruction::Reassign, layout::layout};

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

/// Most reassignments of one escrow.
pub const REASSIGNMENTS_MAX: u8 = u8::MAX >> STATE_BITS;
/// [`Escrow::ended_slot`] of an escrow that has not ended and may be reserved for any quote.
pub const ANY_QUOTE: u64 = 1;

/// Bits of [`Escrow::state`] that hold the [`State`].
const STATE_BITS: u32 = 2;
/// Bits of [`Escrow::slots`] that hold the slot of the deposit.
const SLOT_BITS: u32 = 40;
/// Most slots from the deposit to a reassignment, some 78 days.
const SLOTS_AFTER_MAX: u64 = u64::MAX >> SLOT_BITS;

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
        /// Low two bits: a [`State`]. Above them: how often the escrow was reassigned. See [`Escrow::state`].
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
        /// What the settler is paid; after a reassignment it may be less than was deposited, and the rest is the payer's.
        pub source_amount: u64,
        /// Hash of the payment's terms.
        pub terms_hash: Hash,
        /// The quote that it is reserved for.
        pub quote_hash: Hash,
        /// Last second of the deposit.
        pub reserve_deadline: u64,
        /// The payer's deadline for the delivery.
        pub fulfillment_deadline: u64,
        /// The settler's deadline for the delivery.
        pub fulfill_by: u64,
        /// First second of the refund.
        pub refund_after: u64,
        /// Low 40 bits: the slot of the deposit. Above them: how many slots after it the last reassignment was. See
        /// [`Escrow::secured_slot`] and [`Escrow::reassigned_slot`].
        pub slots: u64,
        /// The slot of release or refund. Before: [`ANY_QUOTE`] where the payer signed for none, else 0.
        pub ended_slot: u64,
    }
}

impl Escrow {
    /// The state, if there is such a one.
    pub fn state(&self) -> Option<State> {
        State::from_byte(self.state & !(u8::MAX << STATE_BITS))
    }

    /// How often it was reassigned.
    pub fn reassignments(&self) -> u8 {
        self.state >> STATE_BITS
    }

    /// The slot of the deposit.
    pub fn secured_slot(&self) -> u64 {
        self.slots & !(u64::MAX << SLOT_BITS)
    }

    /// The slot of the last reassignment, if there was one.
    pub fn reassigned_slot(&self) -> Option<u64> {
        // Both are far below what overflows.
        (self.reassignments() > 0).then(|| self.secured_slot() + (self.slots >> SLOT_BITS))
    }

    /// The slot of its last change: the deposit, a reassignment, or its end.
    pub fn changed_slot(&self) -> u64 {
        match self.state() {
            Some(State::Released | State::Refunded) => self.ended_slot,
            Some(State::Reserved) | None => self.reassigned_slot().unwrap_or(self.secured_slot()),
        }
    }

    /// As it was before it ended. Whether it took any quote is not known any more.
    pub fn before_end(self) -> Self {
        Self { state: self.reassignments() << STATE_BITS | State::Reserved as u8, ended_slot: 0, ..self }
    }

    /// Whether it may be reserved for another quote: it has not ended, and the payer signed for none. Of escrows that an older
    /// version of the program made nothing is known of that.
    pub fn takes_any_quote(&self) -> bool {
        self.state() == Some(State::Reserved) && self.ended_slot == ANY_QUOTE
    }

    /// What of the deposit is the payer's when the settler is paid.
    pub fn remainder(&self) -> u64 {
        self.deposited.saturating_sub(self.source_amount)
    }

    /// Ends it at `slot`.
    pub fn end(&mut self, state: State, slot: u64) {
        self.state = self.reassignments() << STATE_BITS | state as u8;
        self.ended_slot = slot;
    }

    /// Reserves it anew at `slot`.
    ///
    /// # Errors
    /// [`GatewayError::ReassignmentsUsedUp`] when the record has no room for another.
    pub fn reassign(&mut self, to: &Reassign, slot: u64) -> Result<(), GatewayError> {
        let after = slot.saturating_sub(self.secured_slot());
        if self.reassignments() >= REASSIGNMENTS_MAX || after > SLOTS_AFTER_MAX {
            return Err(GatewayError::ReassignmentsUsedUp);
        }
        self.state += 1 << STATE_BITS;
        self.slots = after << SLOT_BITS | self.secured_slot();
        self.quote_hash = to.quote_hash;
        self.settler = to.settler;
        self.source_amount = to.source_amount;
        self.fulfill_by = to.fulfill_by;
        Ok(())
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
