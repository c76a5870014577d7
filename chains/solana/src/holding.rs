//! Holding of a payer: its balance of a token, and the delegate that may draw on it.

use gateway_program::token::TokenAccount;

use events::{Account, OwnedAsset};
use sagas::ports::Transient;

use super::{
    node::{Commitment, Node},
    program::{self, key, mint, text},
    token_accounts::{TOKEN_PROGRAMS, token_accounts},
};

/// A payer's associated token account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// Its address, Base58.
    pub address: String,
    /// The token program that it belongs to, Base58.
    pub token_program: String,
    /// What is in it, smallest unit.
    pub amount: u64,
    /// Who may draw on it besides the payer.
    pub delegate: Option<Account>,
    /// How much the delegate may still draw, smallest unit; 0 without one.
    pub delegated: u64,
}

impl Holding {
    /// How much `delegate` may still draw, smallest unit.
    pub fn allowed_to(&self, delegate: &Account) -> u64 {
        if self.delegate.as_ref() == Some(delegate) { self.delegated } else { 0 }
    }

    /// What the account of `source` holds in its associated token account, as the cluster has confirmed it; `None` when
    /// there is no such account that could pay.
    ///
    /// # Errors
    /// [`Transient`], also when the node knows no such token.
    pub async fn read(node: &Node, source: &OwnedAsset) -> Result<Option<Self>, Transient> {
        let payer = key(source.account())?;
        let mint = mint(source.asset())?;
        let addresses = token_accounts(&payer, &mint);
        let snapshot = node.accounts(&[mint, addresses[0], addresses[1]], Commitment::Confirmed, 0).await?;
        // The mint's owner says which of the two is the token's; the other program may have an account there, too.
        let of_mint = snapshot.account(0).map(|account| account.owner);
        let at = TOKEN_PROGRAMS.iter().position(|token_program| Some(*token_program) == of_mint);
        let at =
            at.ok_or_else(|| Transient::contradiction(format!("{}: no token {}", node.chain_id(), text(&mint))))?;
        let Some(account) = snapshot.account(1 + at).filter(|account| account.owner == TOKEN_PROGRAMS[at]) else {
            return Ok(None);
        };
        // The address of the payer's account stays its own when the account is given away.
        let parsed = TokenAccount::parse(&account.owner, &account.data).ok();
        Ok(parsed.filter(|parsed| parsed.mint == mint && parsed.owner == payer).map(|parsed| Self {
            address: text(&addresses[at]),
            token_program: text(&TOKEN_PROGRAMS[at]),
            amount: parsed.amount,
            delegate: parsed.delegate.as_ref().and_then(program::account),
            delegated: parsed.delegated_amount,
        }))
    }
}
