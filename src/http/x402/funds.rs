//! Whether the payer holds what it signed away, and lets the escrow take it.

use async_trait::async_trait;
use ruint::aliases::U256;

use events::{
    Amount, OwnedAsset,
    event::{Authorization, EscrowPlan},
};

/// What is to be drawn from the payer.
#[derive(Debug, Clone, Copy)]
pub struct Spend<'a> {
    /// The asset and the account that pays with it.
    pub source: &'a OwnedAsset,
    /// What has to be there, smallest unit: the cap.
    pub amount: Amount,
    /// How the payer permitted it, already verified.
    pub authorization: &'a Authorization,
    /// The escrow that draws it.
    pub escrow: &'a EscrowPlan,
}

/// How a payer stands at the newest block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It can pay.
    Sufficient,
    /// It holds only so much of the asset, smallest unit.
    Balance(U256),
    /// It holds enough, and allows only so much of it to be drawn, smallest unit.
    Allowance(U256),
}

impl Standing {
    /// The standing of one who holds `balance` and allows `allowance` of it to be drawn.
    pub fn of(amount: Amount, balance: U256, allowance: U256) -> Self {
        if balance < amount.get() {
            Self::Balance(balance)
        } else if allowance < amount.get() {
            Self::Allowance(allowance)
        } else {
            Self::Sufficient
        }
    }
}

/// The chain cannot be asked for now. The text is logged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FundsError(pub String);

/// Reads balances and allowances of payers on the chains of one family.
#[async_trait]
pub trait Funds: Send + Sync {
    /// How the payer stands.
    ///
    /// # Errors
    /// [`FundsError`].
    async fn standing(&self, spend: &Spend<'_>) -> Result<Standing, FundsError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_balance_is_judged_before_the_allowance() {
        let amount: Amount = "10".parse().unwrap();
        let [nine, ten] = [9_u64, 10].map(U256::from);
        assert_eq!(Standing::of(amount, ten, ten), Standing::Sufficient);
        assert_eq!(Standing::of(amount, nine, ten), Standing::Balance(nine));
        assert_eq!(Standing::of(amount, nine, U256::ZERO), Standing::Balance(nine));
        assert_eq!(Standing::of(amount, ten, nine), Standing::Allowance(nine));
    }
}
