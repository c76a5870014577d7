//! On chain: what a payer does by itself, with nothing but a node: it gives allowances, ends mandates, looks at what an escrow has on
//! record, and brings refunds and claims home. No gateway is asked.
//!
//! What a node says of a payment's terms is believed where the escrow's commitment proves it. Its transactions are made and
//! signed here, for the chain that was named; the node says their nonce, gas and fees alone, and what these come to is bounded.

#[cfg(feature = "evm")]
mod evm;
mod json_rpc;
#[cfg(feature = "solana")]
mod solana;
#[cfg(any(feature = "evm", feature = "tron"))]
mod solidity;
#[cfg(feature = "tron")]
mod tron;

use ruint::aliases::U256;
use serde::Serialize;
use serde_json::{Value, json};

use chains::{
    config::ChainConfig,
    escrow::{EscrowRecord, State},
};
use events::{Account, Amount, AssetId, ChainId, Family, OwnedAsset, PaymentId};

use crate::{deposit_address::Checked, error::Error, key::Key, mandate_order::SignedMandate};

/// A chain through one node, with one escrow on it.
#[derive(Debug)]
pub struct Chain {
    id: ChainId,
    escrow: Account,
    family: OfFamily,
}

#[derive(Debug)]
enum OfFamily {
    #[cfg(feature = "evm")]
    Evm(evm::Evm),
    #[cfg(feature = "solana")]
    Solana(solana::Solana),
    #[cfg(feature = "tron")]
    Tron(tron::Tron),
}

/// What an escrow has on record for a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The record; `None` when the escrow knows nothing of the payment.
    pub record: Option<EscrowRecord>,
    /// The newest block's time as contracts see it, UNIX seconds.
    pub time: u64,
}

/// What can be done about a payment's money, by anyone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Outlook {
    /// This escrow has nothing of the payment.
    Nothing,
    /// The money is locked. Until `refund_after` only the releaser's word ends it: the settler is paid, or the payer paid back.
    Locked {
        /// First second of the refund, UNIX.
        refund_after: u64,
        /// How long that is from now.
        seconds_left: u64,
    },
    /// The window is open: whoever sends the refund brings the money back to the payer.
    Refundable {
        /// Since when, UNIX.
        refund_after: u64,
    },
    /// The settler was paid; what the price left went back to the payer.
    Released,
    /// The payer was paid back.
    Refunded,
}

impl Look {
    /// What can be done.
    pub fn outlook(&self) -> Outlook {
        let Some(record) = &self.record else { return Outlook::Nothing };
        let refund_after = record.refund_after;
        match record.state {
            State::Released => Outlook::Released,
            State::Refunded => Outlook::Refunded,
            State::Deposited | State::Reserved if self.time >= refund_after => Outlook::Refundable { refund_after },
            State::Deposited | State::Reserved => {
                Outlook::Locked { refund_after, seconds_left: refund_after.saturating_sub(self.time) }
            }
        }
    }
}

/// A call that was tried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trial {
    /// What it costs at most, in the smallest unit of the chain's coin, decimal.
    pub cost_max: String,
}

impl Chain {
    /// The chain `id` through the node at `url`, with its escrow. Permit2 is where `permit2` says, on EVM chains.
    ///
    /// # Errors
    /// [`Error::Invalid`] when that cannot be meant; on Solana, whose node is asked for its cluster, [`Error::Node`], too.
    pub async fn connect(id: &ChainId, url: &str, escrow: &Account, permit2: Option<&Account>) -> Result<Self, Error> {
        let family = id.family().ok_or_else(|| Error::Invalid(format!("{id} is of no family that is known here")))?;
        if escrow.family() != family {
            return Err(Error::Invalid(format!("the escrow {escrow} is not an account of {id}")));
        }
        let of_family = match family {
            #[cfg(feature = "evm")]
            Family::Evm => OfFamily::Evm(evm::Evm::connect(id, url, escrow, permit2)?),
            #[cfg(feature = "solana")]
            Family::Solana => OfFamily::Solana(solana::Solana::connect(id, url, escrow).await?),
            #[cfg(feature = "tron")]
            Family::Tron => OfFamily::Tron(tron::Tron::connect(id, url, escrow)?),
            #[cfg(not(all(feature = "evm", feature = "solana", feature = "tron")))]
            other => return Err(Error::Invalid(format!("this build has no {}", other.namespace()))),
        };
        let _ = permit2;
        Ok(Self { id: id.clone(), escrow: escrow.clone(), family: of_family })
    }

    /// The chain.
    pub fn id(&self) -> &ChainId {
        &self.id
    }

    /// The escrow.
    pub fn escrow(&self) -> &Account {
        &self.escrow
    }

    /// How much of `source`'s asset the account lets `spender` draw, smallest unit. On Tron the spender is Permit2: the escrow's
    /// allowance is among what is signed there.
    ///
    /// # Errors
    /// [`Error::Node`].
    pub async fn allowance(&self, source: &OwnedAsset, spender: &Account) -> Result<U256, Error> {
        match &self.family {
            #[cfg(feature = "evm")]
            OfFamily::Evm(chain) => chain.allowance(source, spender).await,
            #[cfg(feature = "solana")]
            OfFamily::Solana(chain) => chain.allowance(source, spender).await,
            #[cfg(feature = "tron")]
            OfFamily::Tron(chain) => chain.allowance(source, spender).await,
        }
    }

    /// Lets `spender` draw exactly `amount`, and waits until that is in a block; the transactions that were sent. What stood
    /// there before is taken back first where the token may ask for that.
    ///
    /// # Errors
    /// [`Error::Dear`] and [`Error::Reverted`] before anything is sent; [`Error::Node`] says nothing of what was sent.
    pub async fn approve(
        &self,
        source: &OwnedAsset,
        spender: &Account,
        amount: Amount,
        key: &Key,
        fee_max: U256,
    ) -> Result<Vec<String>, Error> {
        match &self.family {
            #[cfg(feature = "evm")]
            OfFamily::Evm(chain) => chain.approve(source, spender, amount, key, fee_max).await,
            #[cfg(feature = "solana")]
            OfFamily::Solana(chain) => chain.approve(source, spender, amount, key, fee_max).await,
            #[cfg(feature = "tron")]
            OfFamily::Tron(chain) => chain.approve(source, spender, amount, key, fee_max).await,
        }
    }

    /// How much of a token the account has, smallest unit; on Solana in its associated token account, where that is not frozen.
    ///
    /// # Errors
    /// [`Error::Node`].
    pub async fn balance(&self, held: &OwnedAsset) -> Result<U256, Error> {
        match &self.family {
            #[cfg(feature = "evm")]
            OfFamily::Evm(chain) => chain.balance(held).await,
            #[cfg(feature = "solana")]
            OfFamily::Solana(chain) => chain.balance(held).await,
            #[cfg(feature = "tron")]
            OfFamily::Tron(chain) => chain.balance(held).await,
        }
    }

    /// Sends so much of a token to an account, such as a deposit address, and waits until that is in a block; its transaction. On
    /// Solana the associated token account of the receiver is made with it where it is missing, and `fee_max` counts its rent.
    ///
    /// # Errors
    /// As [`Chain::approve`].
    pub async fn transfer(&self, to: &OwnedAsset, amount: Amount, key: &Key, fee_max: U256) -> Result<String, Error> {
        match &self.family {
            #[cfg(feature = "evm")]
            OfFamily::Evm(chain) => chain.transfer(to, amount, key, fee_max).await,
            #[cfg(feature = "solana")]
            OfFamily::Solana(chain) => chain.transfer(to, amount, key, fee_max).await,
            #[cfg(feature = "tron")]
            OfFamily::Tron(chain) => chain.transfer(to, amount, key, fee_max).await,
        }
    }

    /// Makes what an account needs to receive a token, such as the refund account of a deposit address, and waits until that is in a
    /// block; its transaction. That is its associated token account on Solana, at the key's cost, which `fee_max` counts; `None` where
    /// it is there, and on EVM chains and Tron, where nothing is needed.
    ///
    /// # Errors
    /// As [`Chain::approve`].
    pub async fn open_token_account(
        &self,
        owned: &OwnedAsset,
        key: &Key,
        fee_max: U256,
    ) -> Result<Option<String>, Error> {
        let _ = (owned, key, fee_max);
        match &self.family {
            #[cfg(feature = "evm")]
            OfFamily::Evm(_) => Ok(None),
            #[cfg(feature = "solana")]
            OfFamily::Solana(chain) => chain.open_token_account(owned, key, fee_max).await,
            #[cfg(feature = "tron")]
            OfFamily::Tron(_) => Ok(None),
        }
    }

    /// Has sent to the refund account what is at a payment's deposit address of a token, or of the chain's coin where `token` is
    /// `None`, and waits until that is in a block; its transaction. See `give_back` of [`Checked`], and on Solana its
    /// `give_back_token`: there the key has the rent of the emptied token account, and makes that of the refund account where it is
    /// missing, whose rent `fee_max` counts.
    ///
    /// # Errors
    /// As [`Chain::approve`].
    pub async fn give_back(
        &self,
        address: &Checked,
        token: Option<&AssetId>,
        key: &Key,
        fee_max: U256,
    ) -> Result<String, Error> {
        if address.asset.chain() != &self.id {
            return Err(Error::Invalid(format!("the address is one on {}, not on {}", address.asset.chain(), self.id)));
        }
        match &self.family {
            #[cfg(feature = "evm")]
            OfFamily::Evm(chain) => chain.give_back(address, token, key, fee_max).await,
            #[cfg(feature = "solana")]
            OfFamily::Solana(chain) => chain.give_back(address, token, key, fee_max).await,
            #[cfg(feature = "tron")]
            OfFamily::Tron(chain) => chain.give_back(address, token, key, fee_max).await,
        }
    }

    /// Ends a mandate for ever, by the payer's key or the merchant's, and waits until that is in a block; its transaction. What is in
    /// escrow by then stays there for its payment.
    ///
    /// # Errors
    /// As [`Chain::approve`]; [`Error::Invalid`] for a mandate on another chain, or a call that ends none.
    pub async fn end_mandate(&self, mandate: &SignedMandate, key: &Key, fee_max: U256) -> Result<String, Error> {
        let _ = (key, fee_max);
        if mandate.chain_id != self.id {
            return Err(Error::Invalid(format!("the mandate is one on {}, not on {}", mandate.chain_id, self.id)));
        }
        match &self.family {
            #[cfg(feature = "evm")]
            OfFamily::Evm(chain) => chain.end_mandate(&mandate.cancel, key, fee_max).await,
            #[cfg(feature = "solana")]
            OfFamily::Solana(_) => Err(Error::Invalid("there are no mandates on Solana".to_owned())),
            #[cfg(feature = "tron")]
            OfFamily::Tron(_) => Err(Error::Invalid("there are no mandates on Tron".to_owned())),
        }
    }

    /// What the escrow has on record for a payment, by the newest block.
    ///
    /// # Errors
    /// [`Error::Node`].
    pub async fn look(&self, payment_id: &PaymentId) -> Result<Look, Error> {
        match &self.family {
            #[cfg(feature = "evm")]
            OfFamily::Evm(chain) => chain.look(payment_id).await,
            #[cfg(feature = "solana")]
            OfFamily::Solana(chain) => chain.look(payment_id).await,
            #[cfg(feature = "tron")]
            OfFamily::Tron(chain) => chain.look(payment_id).await,
        }
    }

    /// Tries out the refund of a payment in the newest state; nothing is sent. `from` would send it.
    ///
    /// # Errors
    /// [`Error::Reverted`] when the escrow refuses it.
    pub async fn try_refund(&self, payment_id: &PaymentId, from: &Account) -> Result<Trial, Error> {
        match &self.family {
            #[cfg(feature = "evm")]
            OfFamily::Evm(chain) => chain.try_refund(payment_id, from).await,
            #[cfg(feature = "solana")]
            OfFamily::Solana(chain) => chain.try_refund(payment_id, from).await,
            #[cfg(feature = "tron")]
            OfFamily::Tron(chain) => chain.try_refund(payment_id, from).await,
        }
    }

    /// Sends the refund of a payment, and waits until it is in a block; its transaction. The money goes to the payer, whoever
    /// sends it.
    ///
    /// # Errors
    /// As [`Chain::approve`].
    pub async fn refund(&self, payment_id: &PaymentId, key: &Key, fee_max: U256) -> Result<String, Error> {
        match &self.family {
            #[cfg(feature = "evm")]
            OfFamily::Evm(chain) => chain.refund(payment_id, key, fee_max).await,
            #[cfg(feature = "solana")]
            OfFamily::Solana(chain) => chain.refund(payment_id, key, fee_max).await,
            #[cfg(feature = "tron")]
            OfFamily::Tron(chain) => chain.refund(payment_id, key, fee_max).await,
        }
    }

    /// What the escrow owes `owner` in `asset` because the token would not hand it over, smallest unit. None on Solana, where a
    /// payout that fails is not made.
    ///
    /// # Errors
    /// [`Error::Node`].
    pub async fn claimable(&self, owner: &Account, asset: &AssetId) -> Result<U256, Error> {
        match &self.family {
            #[cfg(feature = "evm")]
            OfFamily::Evm(chain) => chain.claimable(owner, asset).await,
            #[cfg(feature = "solana")]
            OfFamily::Solana(_) => Ok(U256::ZERO),
            #[cfg(feature = "tron")]
            OfFamily::Tron(chain) => chain.claimable(owner, asset).await,
        }
    }

    /// Brings `owner` what the escrow owes it in `asset`, and waits until that is in a block; its transaction.
    ///
    /// # Errors
    /// As [`Chain::approve`].
    pub async fn claim_for(&self, owner: &Account, asset: &AssetId, key: &Key, fee_max: U256) -> Result<String, Error> {
        match &self.family {
            #[cfg(feature = "evm")]
            OfFamily::Evm(chain) => chain.claim_for(owner, asset, key, fee_max).await,
            #[cfg(feature = "solana")]
            OfFamily::Solana(_) => Err(Error::Invalid("escrows on Solana have no claims".to_owned())),
            #[cfg(feature = "tron")]
            OfFamily::Tron(chain) => chain.claim_for(owner, asset, key, fee_max).await,
        }
    }
}

/// What the adapters need to know of a chain of which only its node and its escrow are known. The other accounts are asked about
/// by nobody here.
fn config(id: &ChainId, url: &str, escrow: &Account, besides: &[(&str, Value)]) -> Result<ChainConfig, Error> {
    let mut table = json!({
        "chain_id": id.as_str(),
        "rpc_url": url,
        "escrow_contract": escrow.as_str(),
        "fulfillment_proxy": escrow.as_str(),
        "reserver": escrow.as_str(),
        "releaser": escrow.as_str(),
        "required_depth": "finalized",
        "refund_delay_seconds": 1,
    });
    for (name, value) in besides {
        table[name] = value.clone();
    }
    serde_json::from_value(table).map_err(|error| Error::Invalid(error.to_string()))
}

/// A chain's fault: nothing is known by it.
fn fault(error: impl std::fmt::Display) -> Error {
    Error::Node(error.to_string())
}

/// What is asked of a chain cannot be meant there.
fn unusable(error: impl std::fmt::Display) -> Error {
    Error::Invalid(error.to_string())
}

/// A cost has to be within what is allowed.
fn within(what: &str, cost: U256, fee_max: U256, unit: &str) -> Result<(), Error> {
    match cost <= fee_max {
        true => Ok(()),
        false => {
            Err(Error::Dear { what: what.to_owned(), cost: format!("{cost} {unit}"), max: format!("{fee_max} {unit}") })
        }
    }
}

#[cfg(test)]
mod tests {
    use events::Hash32;

    use super::*;

    fn record(state: State) -> EscrowRecord {
        let account = |digit: &str| Some(format!("0x{}", digit.repeat(40)).parse::<Account>().unwrap());
        EscrowRecord {
            chain_id: ChainId::evm(1),
            state,
            payer: account("1"),
            reserver: account("2"),
            releaser: account("3"),
            asset: "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48".parse().unwrap(),
            settler: None,
            deposited: Some("5".parse().unwrap()),
            source_amount: None,
            terms_hash: Hash32::ZERO,
            quote_hash: Hash32::ZERO,
            reserve_deadline: 100,
            fulfillment_deadline: 200,
            fulfill_by: 0,
            refund_after: 300,
        }
    }

    #[test]
    fn a_refund_is_anyones_from_its_first_second_on() {
        for state in [State::Deposited, State::Reserved] {
            let at = |time| Look { record: Some(record(state)), time }.outlook();
            assert_eq!(at(299), Outlook::Locked { refund_after: 300, seconds_left: 1 });
            assert_eq!(at(300), Outlook::Refundable { refund_after: 300 });
        }
        let ended = |state| Look { record: Some(record(state)), time: 400 }.outlook();
        assert_eq!((ended(State::Released), ended(State::Refunded)), (Outlook::Released, Outlook::Refunded));
        assert_eq!(Look { record: None, time: 400 }.outlook(), Outlook::Nothing);
    }

    #[tokio::test]
    async fn an_escrow_is_an_account_of_its_chain() {
        let escrow: Account = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t".parse().unwrap();
        let refused = Chain::connect(&ChainId::evm(1), "http://127.0.0.1:1", &escrow, None).await;
        assert!(matches!(refused, Err(Error::Invalid(text)) if text.contains("not an account of eip155:1")));
        let tron = Chain::connect(&"tron:5".parse().unwrap(), "http://127.0.0.1:1", &escrow, None).await;
        assert_eq!(tron.unwrap().escrow(), &escrow);
    }
}
