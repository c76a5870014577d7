//! Deposit addresses (ADR 153): the contract that makes them, and the terms that an address commits to.

use alloy::{
    primitives::{B256, keccak256},
    sol,
    sol_types::SolValue,
};

use events::{Amount, PaymentId, Terms, event::EscrowPlan};

use super::{
    contracts::{ConvertError, address, erc20, units},
    eip712,
};

sol!(
    #[sol(abi)]
    #[derive(Debug, PartialEq, Eq)]
    DepositAddresses,
    "../../contracts/artifacts/DepositAddresses.json"
);

eip712::structs_of!(GatewayEscrow);

/// What the deposit address of a payment commits to, of whose money at least `amount` is deposited: the escrow with its windows, the
/// token, the payment with its economics, and the payer, to whom goes whatever goes back. No quote is agreed to, for the address is
/// there before the auction.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub fn terms(
    payment_id: &PaymentId,
    terms: &Terms,
    plan: &EscrowPlan,
    amount: Amount,
) -> Result<DepositAddresses::Terms, ConvertError> {
    let payer = address(terms.source.account())?;
    let deposit = eip712::deposit(payment_id, terms.hash(), events::Hash32::ZERO, payer, plan)?;
    Ok(DepositAddresses::Terms {
        escrow: address(&plan.contract)?,
        token: erc20(terms.source.asset())?,
        amount: units(amount),
        deposit: (&deposit).into(),
    })
}

/// The hash of the terms, which is the address's salt.
pub fn salt(terms: &DepositAddresses::Terms) -> B256 {
    keccak256(terms.abi_encode())
}
