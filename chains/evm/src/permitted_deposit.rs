//! Deposits that bring the allowance for Permit2 along (ERC-2612): the gateway's transaction creates a contract whose creation code
//! calls the token and then the escrow, and which leaves nothing behind.

use alloy::{
    primitives::{Address, B256, Bytes, U256},
    sol_types::{SolConstructor, SolType},
};

use escrow_abi::contracts::{PermittedDeposit, units};
use events::event::TokenPermit;
use sagas::ports::Transient;

use super::{calls::Call, transaction::raw_bytes};

/// The call by `sender` that gives `permit2` the allowance on `token` by the signature of `owner`, and then calls the escrow with
/// `deposit`.
///
/// # Errors
/// [`Transient`] when the signature is not what was accepted.
pub(crate) fn deposit(
    sender: Address,
    (token, owner, permit2): (Address, Address, Address),
    permit: &TokenPermit,
    escrow: Address,
    deposit: Vec<u8>,
) -> Result<Call, Transient> {
    let signature = raw_bytes(&permit.signature).filter(|bytes| bytes.len() == 65);
    let signature = signature.ok_or_else(|| Transient::misconfigured("the payer's permit is not 65 bytes in hex"))?;
    let p = PermittedDeposit::TokenPermit {
        token,
        owner,
        spender: permit2,
        value: units(permit.value),
        deadline: U256::from(permit.deadline),
        v: signature[64],
        r: B256::from_slice(&signature[..32]),
        s: B256::from_slice(&signature[32..64]),
    };
    let arguments = PermittedDeposit::constructorCall { p, escrow, deposit: deposit.into() };
    let data = [PermittedDeposit::BYTECODE.to_vec(), arguments.abi_encode()].concat();
    Ok(Call { from: sender, to: None, value: U256::ZERO, data: data.into() })
}

/// The call of the escrow inside what [`deposit`] makes; `None` when `data` is something else.
pub(crate) fn deposit_in(data: &[u8]) -> Option<Bytes> {
    let arguments = data.strip_prefix(PermittedDeposit::BYTECODE.as_ref())?;
    type Arguments<'a> = <PermittedDeposit::constructorCall as SolConstructor>::Parameters<'a>;
    let (_, _, deposit) = Arguments::abi_decode_params(arguments).ok()?;
    Some(deposit)
}
