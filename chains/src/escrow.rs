//! Escrow record: what an escrow stores of a payment, in one form for every family of chains.
//!
//! An account that is not set is the zero address on chain, which is nobody's, and `None` here.

use events::{Account, Amount, AssetId, ChainId, Hash32, OwnedAsset, PaymentId, event::EscrowPlan};

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
    /// Hash of the awarded quote; before there is one, of the quote that the payer agreed to, or zero where it agreed to any.
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
    /// The quote that it is, or was, reserved for; `None` where no settler was ever named.
    pub fn reserved_for(&self) -> Option<Hash32> {
        // A deposit that awaits its settler may name the one quote that the payer agreed to.
        self.settler.as_ref().map(|_| self.quote_hash)
    }

    /// Whether it is the deposit under `plan` for a payment of these terms, whatever has become of it since.
    pub fn is_deposit_of(&self, source: &OwnedAsset, terms_hash: Hash32, plan: &EscrowPlan) -> bool {
        self.is_of(plan)
            && self.payer.as_ref() == Some(source.account())
            && self.asset == *source.asset()
            && self.terms_hash == terms_hash
    }

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

/// All that an escrow commits to once a quote is reserved in it, as those can write it down who hold terms and quote.
#[derive(Debug, Clone, Copy)]
pub struct QuotedEscrow<'a> {
    /// The payment.
    pub payment_id: &'a PaymentId,
    /// The escrow and its windows.
    pub plan: &'a EscrowPlan,
    /// Whose money it is.
    pub payer: &'a Account,
    /// What it holds.
    pub asset: &'a AssetId,
    /// Hash of the payment's terms.
    pub terms_hash: Hash32,
    /// Hash of the quote.
    pub quote_hash: Hash32,
    /// Who is paid.
    pub payout_account: &'a Account,
    /// What it is paid, smallest unit.
    pub source_amount: Amount,
    /// Last second of the delivery, UNIX.
    pub fulfill_by: u64,
    /// What was deposited, smallest unit, to who was told that the escrow had another reservation before.
    pub deposited: Option<Amount>,
}

/// What an escrow has on record, to somebody who can write down what he requires of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotedRecord {
    /// Nothing.
    Absent,
    /// A deposit for which no settler is named.
    Deposited,
    /// A reservation, or what became of it; its fields are still to be compared.
    Reserved(Box<EscrowRecord>),
    /// Something else than what is required, which was not looked for any further.
    Other,
}

impl From<Option<EscrowRecord>> for QuotedRecord {
    fn from(record: Option<EscrowRecord>) -> Self {
        match record {
            None => Self::Absent,
            Some(record) if record.state == State::Deposited => Self::Deposited,
            Some(record) => Self::Reserved(Box::new(record)),
        }
    }
}
