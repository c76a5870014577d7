//! EVM chains and Tron: what an address commits to, in the twelve words of the contract, which is the same on both.

use alloy::{primitives::Address, sol_types::SolCall};

use escrow_abi::{
    contracts::{time, units, word},
    deposit_addresses::{DepositAddresses, GatewayEscrow},
};
use events::{Account, AssetId, Family, Hash32};

use super::{AddressTerms, Checked, Commitment, Payable, unusable};
use crate::error::Error;

/// What of it is a family's own.
pub(super) struct Words {
    /// Where the terms' money is sent to, of what a factory makes.
    pub address_for: fn(Address, &DepositAddresses::Terms) -> Address,
    /// The bytes of an account.
    pub read: fn(&Account) -> Result<Address, Error>,
    /// An address as accounts are written.
    pub written: fn(Address) -> String,
    /// The token's contract.
    pub token: fn(&AssetId) -> Result<Address, Error>,
}

impl Words {
    fn of(family: Family) -> Result<&'static Self, Error> {
        match family {
            #[cfg(feature = "evm")]
            Family::Evm => Ok(&super::evm::WORDS),
            #[cfg(feature = "tron")]
            Family::Tron => Ok(&super::tron::WORDS),
            other => Err(unusable(format!("{} has no contract that makes them", other.namespace()))),
        }
    }

    /// What the payment's address commits to, of those that `factory` makes, and where it is.
    pub(super) fn commit(&self, payable: &Payable<'_>, factory: &Account) -> Result<Commitment, Error> {
        let Payable { payment_id, terms, plan, amount } = payable;
        let seconds = |at| time(at).map_err(unusable);
        let terms = DepositAddresses::Terms {
            escrow: (self.read)(&plan.contract)?,
            token: (self.token)(terms.source.asset())?,
            amount: units(*amount),
            deposit: GatewayEscrow::GatewayDeposit {
                paymentId: word(payment_id.on_chain()),
                termsHash: word(terms.hash()),
                quoteHash: word(Hash32::ZERO),
                payer: (self.read)(terms.source.account())?,
                reserver: (self.read)(&plan.reserver)?,
                releaser: (self.read)(&plan.releaser)?,
                reserveDeadline: seconds(plan.reserve_deadline)?,
                fulfillmentDeadline: seconds(plan.fulfillment_deadline)?,
                refundAfter: seconds(plan.refund_after)?,
            },
        };
        let address = (self.written)((self.address_for)((self.read)(factory)?, &terms));
        Ok(Commitment { terms: AddressTerms::Solidity(terms), address })
    }
}

impl Checked {
    /// Receiver and data of the call by which anyone has sent to the refund account what is at the address, on EVM chains and Tron: all
    /// of the ERC-20 or TRC-20 `token`, or of the chain's coin where it is `None`. Of the payment's own token that is possible once no
    /// deposit can be made any more: after the terms' `reserveDeadline`, or when the payment has been deposited. The receiver is
    /// [`Checked::factory`].
    ///
    /// # Errors
    /// [`Error::Invalid`] for an asset that is not such a token of the address's family, and for an address on Solana.
    pub fn give_back(&self, token: Option<&AssetId>) -> Result<(Address, Vec<u8>), Error> {
        let words = Words::of(self.factory.family())?;
        let terms = match &self.terms {
            AddressTerms::Solidity(terms) => terms.clone(),
            #[cfg(feature = "solana")]
            AddressTerms::Solana(_) => return Err(unusable("the terms are those of an address on Solana")),
        };
        let token = token.map_or(Ok(Address::ZERO), words.token)?;
        let call = DepositAddresses::giveBackCall { t: terms, token };
        Ok(((words.read)(&self.factory)?, call.abi_encode()))
    }
}
