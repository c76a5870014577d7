//! Deposit addresses (ADR 153): the contract that makes them, and the terms that an address commits to.

use alloy::{
    primitives::{Address, B256, U256, keccak256},
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

/// Of less than this part of what was asked for a gateway gives nothing back by itself: it may bring less than its transaction costs.
const GIVEN_BACK_LEAST: u64 = 100;

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

/// What is held at an address for which `asked` was asked, where it is worth a transaction that gives it back.
pub fn worth_giving_back(held: U256, asked: Amount) -> Option<Amount> {
    let least = asked.get() / U256::from(GIVEN_BACK_LEAST);
    Amount::new(held).filter(|amount| amount.get() >= least)
}

/// The hash of the terms, which is the address's salt.
pub fn salt(terms: &DepositAddresses::Terms) -> B256 {
    keccak256(terms.abi_encode())
}
