//! Escrow record: what an escrow stores of a payment, in one form for every family of chains.
//!
//! An account that is not set is the zero address on chain, which is nobody's, and `None` here.

use events::{Account, Amount, AssetId, ChainId, Hash32, event::EscrowPlan};

/// Where an escrow stands that holds, or held, a payment's money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The money is there and no settler is named.
    Deposited,
    /// The money is there for a settler.
    Reserved,
    /// The settler was paid.
    Released,
    /// The payer was paid back.
    Refunded,
}

/// All that an escrow knows of a payment, at one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EscrowRecord {
    /// The chain it is on.
    pub chain_id: ChainId,
    /// Where the payment stands.
    pub state: State,
    /// Whose money it is.
    pub payer: Option<Account>,
    /// Who may name the settler.
    pub reserver: Option<Account>,
    /// Who attests the delivery.
    pub releaser: Option<Account>,
    /// What it holds.
    pub asset: AssetId,
    /// Who is paid on release; `None` before the reservation.
    pub settler: Option<Account>,
    /// What is in escrow, smallest unit.
    pub deposited: Option<Amount>,
    /// What the settler is paid, smallest unit; `None` before the reservation.
    pub source_amount: Option<Amount>,
    /// Hash of the payment's terms.
    pub terms_hash: Hash32,
    /// Hash of the awarded quote; zero before there is one.
    pub quote_hash: Hash32,
    /// Last second of the reservation, UNIX.
    pub reserve_deadline: u64,
    /// Last second of any delivery, UNIX.
    pub fulfillment_deadline: u64,
    /// Last second of this delivery, UNIX.
    pub fulfill_by: u64,
    /// First second of the refund, UNIX.
    pub refund_after: u64,
}

impl EscrowRecord {
    /// Whether the record carries the accounts and windows of `plan`. A payment id is public before its deposit is mined,
    /// so a stranger may have opened an escrow of his own under it; that one is not the payment's.
    pub fn is_of(&self, plan: &EscrowPlan) -> bool {
        self.chain_id == plan.chain_id
            && self.reserver.as_ref() == Some(&plan.reserver)
            && self.releaser.as_ref() == Some(&plan.releaser)
            && self.reserve_deadline == plan.reserve_deadline
            && self.fulfillment_deadline == plan.fulfillment_deadline
            && self.refund_after == plan.refund_after
    }
}
