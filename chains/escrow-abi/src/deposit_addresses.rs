//! Deposit addresses (ADR 153): the contract that makes them, and the terms that an address commits to.

use alloy::{
    primitives::{Address, B256, keccak256},
    sol,
    sol_types::SolValue,
};

use events::Amount;

use super::{contracts::units, eip712};

sol!(
    #[sol(abi)]
    #[derive(Debug, PartialEq, Eq)]
    DepositAddresses,
    "../../contracts/artifacts/DepositAddresses.json"
);

eip712::structs_of!(GatewayEscrow);

sol! {
    /// What `TronDepositAddresses` has besides, because nodes of Tron search no logs.
    #[derive(Debug)]
    interface TronDepositAddresses {
        event GivenBackAfter(address indexed from, uint256 previous);
        function heldAsOf(address at, address token)
            external
            view
            returns (uint256 held, uint256 lastGivenBackIn, uint256 blockNumber, uint256 time);
    }
}

/// What the deposit address of a payment commits to, of whose money at least `amount` of `token` goes into `escrow`: the payment with its
/// economics, its windows, and the payer, to whom goes whatever goes back. No quote is agreed to in `deposit`, for the address is there
/// before the auction.
pub fn terms(
    deposit: &eip712::GatewayDeposit,
    escrow: Address,
    token: Address,
    amount: Amount,
) -> DepositAddresses::Terms {
    DepositAddresses::Terms { escrow, token, amount: units(amount), deposit: deposit.into() }
}

/// The hash of the terms, which is the address's salt.
pub fn salt(terms: &DepositAddresses::Terms) -> B256 {
    keccak256(terms.abi_encode())
}
