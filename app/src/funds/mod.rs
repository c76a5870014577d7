//! Funds check: whether a payer can pay, asked before anything is kept for its payment. It reads what the payer holds
//! of the asset, what it lets the escrow draw, and whether its signature can still be used. One piece for all that
//! accept or rehearse a payment, and for every family of chains.
//!
//! Only what only the chain can say is asked here, and only for what passed every check that needs no chain: a forged
//! signature costs no call to a node. `check` is the admission control in front of the nodes: a bulkhead of its own for
//! those who proved nothing, and single flight with a short cache for what many ask of one account. `promises` sees to it that
//! one balance is not shown for many payments.

mod check;
mod evm;
mod promises;
mod solana;
mod tron;

use async_trait::async_trait;
use ruint::aliases::U256;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use escrow_abi::signature;
use events::{
    Account, Amount, AssetId, Hash32, OwnedAsset,
    event::{Authorization, EscrowPlan, MandateCharge, PayerTransaction},
};
use sagas::ports::Transient;

pub(crate) use self::{check::FundsCheck, promises::Promised};
pub use self::{evm::EvmFunds, solana::SolanaFunds, tron::TronFunds};
use crate::schema;

/// What is to be drawn from the payer.
#[derive(Debug, Clone, Copy)]
pub struct Spend<'a> {
    /// The asset and the account that pays with it.
    pub source: &'a OwnedAsset,
    /// What has to be there, smallest unit.
    pub amount: Amount,
    /// How it is drawn.
    pub draw: Draw<'a>,
    /// The escrow that draws it.
    pub escrow: &'a EscrowPlan,
}

/// How the source chain lets the escrow draw from the payer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draw<'a> {
    /// By Permit2, once per nonce, out of what the payer allows Permit2 to take.
    Permit2 {
        /// The nonce that is signed.
        nonce: Hash32,
        /// The signature brings a call of its own that is made before it is judged (ERC-6492), which deploys the account, and may
        /// give the allowance; or the allowance is signed, too (ERC-2612).
        prepares: bool,
    },
    /// By Permit2, once for all payments of a batch.
    Batch {
        /// The nonce that is signed.
        nonce: Hash32,
        /// Where it is once it is drawn.
        address: &'a Account,
    },
    /// By a mandate, out of what the payer allows its address at Permit2, so much in each period.
    Mandate {
        /// What is asked for.
        charge: &'a MandateCharge,
    },
    /// By the token itself, once per nonce, without an allowance (ERC-3009).
    Transfer {
        /// The nonce that is signed.
        nonce: Hash32,
    },
    /// Out of the payer's SPL allowance for deposits that this key signs.
    Delegate {
        /// The key.
        signer: &'a Account,
    },
    /// By the payer's own transaction.
    PayerDeposit {
        /// The deposit; `None` while it is being prepared.
        deposit: Option<&'a PayerTransaction>,
        /// The allowance is given by another transaction that is signed together with it.
        approves: bool,
    },
}

impl<'a> Draw<'a> {
    /// How what was authorized is drawn.
    pub fn of(authorization: &'a Authorization) -> Self {
        match authorization {
            Authorization::EvmPermit2Escrow(permit)
            | Authorization::EvmPermit2(permit)
            | Authorization::TronPermit2Escrow(permit) => Self::Permit2 {
                nonce: permit.nonce,
                prepares: permit.allowance.is_some()
                    || signature::bytes(&permit.signature).is_ok_and(|bytes| signature::is_erc6492(&bytes)),
            },
            Authorization::EvmPermit2Batch(permit) => Self::Batch { nonce: permit.nonce, address: &permit.address },
            Authorization::EvmPermit2Mandate(charge) => Self::Mandate { charge },
            Authorization::EvmEip3009(transfer) => Self::Transfer { nonce: transfer.nonce },
            Authorization::EvmX402Exact(purchase) => Self::Transfer { nonce: purchase.nonce },
            // Its nonce is the payment's id, which is made of what was signed; no promise of another payment is asked by it.
            Authorization::SolanaX402Exact(_) => Self::Transfer { nonce: Hash32::ZERO },
            Authorization::Solana(spend) => Self::Delegate { signer: &spend.signer },
            // What is at the address is looked at when it is there; before that nobody promises anything.
            Authorization::DepositAddress(_) => Self::PayerDeposit { deposit: None, approves: true },
            Authorization::Tron(spend) => {
                Self::PayerDeposit { deposit: Some(&spend.deposit), approves: spend.approval.is_some() }
            }
        }
    }
}

/// What an account holds, and lets be drawn, at the newest block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// What it holds of the asset, smallest unit.
    pub balance: U256,
    /// What it lets be drawn, smallest unit; `None` where that cannot be said before the deposit.
    pub allowance: Option<U256>,
    /// Who draws it, as the chain writes accounts.
    pub spender: String,
    /// The mandate that draws it through that spender, where a merchant asks for it.
    pub mandate: Option<Allowed>,
    /// What it holds of the chain's own coin, where the asset is that coin's wrapped form.
    pub coin: Option<Coin>,
}

/// What a payer lets be drawn by somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// By whom.
    pub spender: String,
    /// How much, smallest unit.
    pub units: U256,
}

/// What an account holds of the chain's own coin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coin {
    /// The coin.
    pub asset: AssetId,
    /// How much, smallest unit. What a transaction costs is not taken off.
    pub balance: U256,
}

/// Whether what a payer holds covers an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// It can pay, as far as the chain can say.
    Sufficient,
    /// It holds only so much of the asset, smallest unit.
    Balance(U256),
    /// It holds enough, and allows only so much of it to be drawn, smallest unit.
    Allowance(U256),
    /// Permit2 may draw enough of it, and the mandate only so much now, smallest unit.
    Mandate(U256),
}

impl Holding {
    /// Whether it is enough for `amount`. The balance is judged before the allowance.
    pub fn coverage(&self, amount: Amount) -> Coverage {
        match self.allowance {
            _ if self.balance < amount.get() => Coverage::Balance(self.balance),
            Some(allowance) if allowance < amount.get() => Coverage::Allowance(allowance),
            Some(_) | None => match &self.mandate {
                Some(mandate) if mandate.units < amount.get() => Coverage::Mandate(mandate.units),
                Some(_) | None => Coverage::Sufficient,
            },
        }
    }

    /// Whether the allowance is known to be smaller than `amount`.
    fn lacks_allowance(&self, amount: Amount) -> bool {
        self.allowance.is_some_and(|allowance| allowance < amount.get())
    }
}

/// What the payer itself has to send to the chain before the payment is submitted, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirstSteps {
    /// Where it holds too little of a wrapped coin, and enough of the coin.
    pub wrap: Option<Wrap>,
    /// Where its allowance is too small.
    pub approval: Option<Approval>,
}

/// The payer's own transaction that has to be on chain before the payment is submitted, where the source is the wrapped form of
/// the chain's coin and the payer holds too little of it: it wraps what is missing. Absent where nothing is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Wrap {
    /// What comes of it: the source's asset.
    pub asset_identifier: AssetId,
    /// What is wrapped: the chain's own coin.
    pub coin: AssetId,
    /// How much, smallest unit, one for one. Fees, and on Solana the rent of a new token account, come on top.
    #[schemars(with = "String")]
    pub amount: Amount,
    /// The calls as wallets take them, in order. On EVM chains one, `to`, `data` and `value` of `eth_sendTransaction`; on Solana
    /// `program_id`, `accounts` and `data`, in hex, of the instructions of one transaction, which `approval` may follow in the
    /// same; on Tron one, the body of `/wallet/triggersmartcontract`, which answers with the transaction to sign and broadcast.
    #[schemars(schema_with = "schema::free_forms")]
    pub calls: Vec<Value>,
}

/// The payer's own transaction that has to be on chain before the payment is submitted, as its allowance is too small; absent
/// where it suffices, and under `TRON`, where it is one of the messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Approval {
    /// What is allowed to be drawn.
    pub asset_identifier: AssetId,
    /// Who is allowed to draw it: Permit2 on EVM chains and on Tron, the program's address for the signing key on Solana.
    pub spender: String,
    /// How much, smallest unit. A payer may allow more, once for all its payments.
    #[schemars(with = "String")]
    pub amount: Amount,
    /// The call as wallets take it. On EVM chains `to`, `data` and `value` of `eth_sendTransaction`; on Solana `program_id`,
    /// `accounts` and `data`, in hex, of one instruction; on Tron the body of `/wallet/triggersmartcontract`, which answers with the
    /// transaction to sign and broadcast.
    #[schemars(schema_with = "schema::free_form")]
    pub call: Value,
}

/// Reads balances and allowances of payers on the chains of one family.
#[async_trait]
pub trait Funds: Send + Sync {
    /// What the payer holds, and lets be drawn.
    ///
    /// # Errors
    /// [`Transient`] when the chain cannot be asked for now.
    async fn holding(&self, spend: &Spend<'_>) -> Result<Holding, Transient>;

    /// Whether what the payer signed was used up, or revoked, so that nothing can ever be drawn by it.
    ///
    /// # Errors
    /// [`Transient`] when the chain cannot be asked for now.
    async fn is_used(&self, _: &Spend<'_>) -> Result<bool, Transient> {
        Ok(false)
    }

    /// Whether the payer's own transaction, or another payment of its batch, has drawn the amount already, so that it need not be there any
    /// more.
    ///
    /// # Errors
    /// [`Transient`] when the chain cannot be asked for now, also when that is about to be decided.
    async fn has_landed(&self, _: &Spend<'_>) -> Result<bool, Transient> {
        Ok(false)
    }

    /// The approval that `spend` needs; `None` where none can be named, or it is among what is signed anyway.
    ///
    /// # Errors
    /// [`Transient`] when the chain cannot be asked for now.
    async fn approval(&self, spend: &Spend<'_>) -> Result<Option<Approval>, Transient>;

    /// What turns `amount` of the chain's own coin into the source's asset, its wrapped form. Nothing is asked of the chain.
    ///
    /// # Errors
    /// [`Transient`] when the asset is not a wrapped form.
    fn wrapping(&self, spend: &Spend<'_>, amount: Amount) -> Result<Vec<Value>, Transient>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_balance_is_judged_before_the_allowance() {
        let amount: Amount = "10".parse().unwrap();
        let [nine, ten] = [9_u64, 10].map(U256::from);
        let coverage = |balance, allowance| {
            Holding { balance, allowance, spender: String::new(), mandate: None, coin: None }.coverage(amount)
        };
        assert_eq!(coverage(ten, Some(ten)), Coverage::Sufficient);
        assert_eq!(coverage(nine, Some(ten)), Coverage::Balance(nine));
        assert_eq!(coverage(nine, Some(U256::ZERO)), Coverage::Balance(nine));
        assert_eq!(coverage(ten, Some(nine)), Coverage::Allowance(nine));
        // What comes with the deposit cannot be said before it.
        assert_eq!(coverage(ten, None), Coverage::Sufficient);
        assert_eq!(coverage(nine, None), Coverage::Balance(nine));
    }
}
