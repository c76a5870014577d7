//! ERC-6492, accounts that are not deployed yet: judged, and deployed in the very transaction of their deposit.
//!
//! Permit2 asks an account for its signature only where there is code. So the gateway's transaction creates a contract
//! whose creation code calls the account's factory and then the escrow, and which leaves nothing behind. What the factory
//! does is the payer's choice; it is called by an address without rights or money, under a bound of gas.

use alloy::{
    primitives::{Address, B256, Bytes, U256},
    sol_types::{SolConstructor, SolType},
};

use escrow_abi::{
    contracts::{AccountDeposit, AccountProbe},
    signature::Wrapped,
};
use sagas::ports::Transient;

use super::{
    calls::{Call, CallError, Calls},
    node::{At, Node},
};

/// Whether `account` takes the wrapped signature for its own, deployed by its factory if it is not yet, within the gas that its
/// deposit may take. Nothing is sent to the chain.
///
/// # Errors
/// [`Transient`].
pub(crate) async fn accepts(
    node: &Node,
    account: Address,
    digest: B256,
    wrapped: &Wrapped,
    at: At,
) -> Result<bool, Transient> {
    let arguments = AccountProbe::constructorCall {
        account,
        digest,
        signature: wrapped.signature.clone(),
        factory: wrapped.factory,
        factoryCall: wrapped.factory_call.clone(),
    };
    let data = [AccountProbe::BYTECODE.to_vec(), arguments.abi_encode()].concat();
    let call = Call { from: Address::ZERO, to: None, value: U256::ZERO, data: data.into() };
    match Calls::of(node).call_foreign(&call, at, node.config().gas.deposit_max).await {
        Ok(answer) => Ok(answer.as_ref() == B256::with_last_byte(1).as_slice()),
        Err(CallError::Reverted(_)) => Ok(false),
        Err(CallError::Transient(fault)) => Err(fault),
    }
}

/// The call of the escrow inside what [`deposit`] makes; `None` when `data` is something else.
pub(crate) fn deposit_in(data: &[u8]) -> Option<Bytes> {
    let arguments = data.strip_prefix(AccountDeposit::BYTECODE.as_ref())?;
    type Arguments<'a> = <AccountDeposit::constructorCall as SolConstructor>::Parameters<'a>;
    let (_, _, _, _, deposit) = Arguments::abi_decode_params(arguments).ok()?;
    Some(deposit)
}

/// The call by `sender` that deploys `account` and then calls the escrow with `deposit`.
pub(crate) fn deposit(sender: Address, account: Address, wrapped: &Wrapped, escrow: Address, deposit: Vec<u8>) -> Call {
    let arguments = AccountDeposit::constructorCall {
        account,
        factory: wrapped.factory,
        factoryCall: wrapped.factory_call.clone(),
        escrow,
        deposit: deposit.into(),
    };
    let data = [AccountDeposit::BYTECODE.to_vec(), arguments.abi_encode()].concat();
    Call { from: sender, to: None, value: U256::ZERO, data: data.into() }
}
