//! Offers of merchants for stock clients of x402 (ADR 154, 160): what the address of one commits to, on every chain.

use events::{Account, Amount, Terms};

/// What the address of an offer commits to. Each family has a form of its own for it, and another address.
#[derive(Debug, Clone, Copy)]
pub struct Commitment<'a> {
    /// The terms of a purchase, whoever pays. On Solana their source is the merchant's account.
    pub terms: &'a Terms,
    /// What each buyer pays, smallest unit.
    pub amount: Amount,
    /// The escrow contract, or the escrow's program.
    pub escrow: &'a Account,
    /// Who admits deposits and names settlers.
    pub reserver: &'a Account,
    /// Who attests deliveries.
    pub releaser: &'a Account,
    /// Where strays go; on Solana all that is not delivered.
    pub merchant: &'a Account,
    /// From the last second of the deposit to the last of the delivery.
    pub delivery_seconds: u32,
    /// From there to the first second of the refund.
    pub refund_seconds: u32,
}
