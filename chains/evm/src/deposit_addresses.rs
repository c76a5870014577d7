//! Deposit addresses (ADR 153): numbers that commit to a payment. Who sends the payment's money there has made the deposit; it is carried
//! into the escrow with the award, or given back.
//!
//! The contract that makes them is at one address on every chain, because it follows from its code alone
//! ([`deploy`](crate::deploy)). So nothing is configured: where it is, payments can be paid so.

use std::sync::LazyLock;

use alloy::{
    primitives::{Address, Bytes, U256, aliases::U48},
    sol_types::SolCall,
};

use escrow_abi::{
    artefacts::{self, DEPOSIT_ADDRESSES},
    contracts::{self, ConvertError, DevToken as Erc20, address},
    deposit_addresses::{
        self,
        DepositAddresses::{self, Terms},
        GatewayEscrow,
    },
    eip712,
};
use events::{
    Account, Amount, Hash32, OwnedAsset, PaymentId,
    event::{DepositAddress, EscrowPlan},
};
use sagas::ports::{DepositOrder, Transient};

use super::{
    calls::{Call, CallError, Calls},
    deployer,
    factories::is_served,
    minimal_proxy::{self, implementation},
    node::{At, Node},
    transaction::plain,
};

/// Where the contract that makes deposit addresses is, on every chain.
static FACTORY: LazyLock<Address> = LazyLock::new(|| deployer::place_of(&DEPOSIT_ADDRESSES.creation));

/// Where the contract that makes deposit addresses is.
pub fn factory() -> Address {
    *FACTORY
}

/// The address for `terms`, whether its code is made or not: that of a minimal proxy whose salt is their hash.
pub fn address_for(factory: Address, implementation: Address, terms: &Terms) -> Address {
    minimal_proxy::address(factory, implementation, deposit_addresses::salt(terms))
}

/// What the deposit address of a payment commits to.
pub(crate) fn committed(
    payment_id: &PaymentId,
    terms: &events::Terms,
    plan: &EscrowPlan,
    amount: Amount,
) -> Result<Terms, ConvertError> {
    let (deposit, escrow, token) = unquoted(payment_id, terms, plan)?;
    Ok(deposit_addresses::terms(&deposit, escrow, token, amount))
}

/// The deposit of a payment that agreed to no quote, its escrow, and its token.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub(crate) fn unquoted(
    payment_id: &PaymentId,
    terms: &events::Terms,
    plan: &EscrowPlan,
) -> Result<(eip712::GatewayDeposit, Address, Address), ConvertError> {
    let payer = address(terms.source.account())?;
    let deposit = eip712::deposit(payment_id, terms.hash(), Hash32::ZERO, payer, plan)?;
    Ok((deposit, address(&plan.contract)?, contracts::erc20(terms.source.asset())?))
}

/// The deposit address of a payment at this version's contract, whose code need not be there.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub fn of_payment(
    payment_id: &PaymentId,
    terms: &events::Terms,
    plan: &EscrowPlan,
    amount: Amount,
    pay_by: events::time::Timestamp,
    from_block: u64,
) -> Result<DepositAddress, ConvertError> {
    let committed = committed(payment_id, terms, plan, amount)?;
    let (factory, implementation) = (factory(), implementation(factory()));
    let account =
        |address: Address| contracts::account(address).ok_or_else(|| ConvertError::Address(address.to_string()));
    Ok(DepositAddress {
        amount,
        address: account(address_for(factory, implementation, &committed))?,
        factory: account(factory)?,
        implementation: account(implementation)?,
        pay_by,
        from_block,
    })
}

/// Why an address that is on record is not the payment's; `None` where it is.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub fn mismatch(
    payment_id: &PaymentId,
    terms: &events::Terms,
    plan: &EscrowPlan,
    recorded: &DepositAddress,
) -> Result<Option<String>, ConvertError> {
    let committed = committed(payment_id, terms, plan, recorded.amount)?;
    let (factory, code) = (address(&recorded.factory)?, address(&recorded.implementation)?);
    let (expected, found) = (address_for(factory, code, &committed), address(&recorded.address)?);
    let text = |address: Address| contracts::text(address);
    if expected != found {
        return Ok(Some(format!("the payment's terms lead to {}, not to {}", text(expected), text(found))));
    }
    // Another factory's addresses may do anything with what comes there.
    let is_ours = factory == self::factory() && code == implementation(factory);
    Ok((!is_ours).then(|| format!("its factory {} is not known", text(factory))))
}

/// Whether the token lets the refund account receive, as far as a transfer of nothing tells: a blocklisted account could not be given
/// anything back.
///
/// # Errors
/// [`Transient`]; the token's own reason where it refuses.
pub async fn refuses_refunds(
    node: &Node,
    given: &DepositAddress,
    source: &OwnedAsset,
) -> Result<Option<String>, Transient> {
    let (from, token, to) = (address(&given.address)?, contracts::erc20(source.asset())?, address(source.account())?);
    let transfer = Erc20::transferCall { to, value: U256::ZERO }.abi_encode();
    let call = plain(from, token, transfer);
    match Calls::of(node).call_foreign(&call, At::Latest, node.config().gas.call_max).await {
        Ok(_) => Ok(None),
        Err(CallError::Reverted(revert)) => Ok(Some(revert.reason)),
        Err(CallError::Transient(fault)) => Err(fault),
    }
}

/// The newest settled block, where the chain has the contract that makes deposit addresses, and the escrow takes what comes from them; `None`
/// where not.
///
/// # Errors
/// [`Transient`].
pub async fn served_from(node: &Node, escrow: &Account) -> Result<Option<u64>, Transient> {
    let served = is_served(node, escrow, factory(), artefacts::deposit_address_findings);
    let (is_served, settled) = futures::try_join!(served, node.settled())?;
    Ok(is_served.then_some(settled.number))
}

/// The call that brings `amount` of what is at the payment's address into the escrow, with the award.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub(crate) fn deposit_call(
    sender: Address,
    (order, recorded): (&DepositOrder, &DepositAddress),
    amount: U256,
    reservation: GatewayEscrow::Reservation,
    admitted_until: U48,
    reserver_signature: Bytes,
) -> Result<Call, ConvertError> {
    let data = DepositAddresses::depositCall {
        t: committed(&order.payment_id, &order.terms, &order.escrow, recorded.amount)?,
        amount,
        r: reservation,
        admittedUntil: admitted_until,
        reserverSignature: reserver_signature,
    };
    Ok(plain(sender, address(&recorded.factory)?, data.abi_encode()))
}

/// The last second in which the escrow takes the deposit that `data` calls; `None` when it is none.
pub(crate) fn admitted_until(data: &[u8]) -> Option<u64> {
    DepositAddresses::depositCall::abi_decode(data).ok().map(|call| contracts::seconds(call.admittedUntil))
}
