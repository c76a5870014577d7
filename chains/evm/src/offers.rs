//! Addresses of merchants' offers (ADR 154): x402's `exact` is paid to them. What a buyer signs for such an address is carried out and
//! brought into the escrow in one call, with the award.
//!
//! The contract that makes them is at one address on every chain, because it follows from its code alone
//! ([`deploy`](crate::deploy)). So nothing is configured: where it is, payments can be paid so.

use std::sync::LazyLock;

use alloy::{
    primitives::{Address, Bytes, U256, aliases::U48},
    sol_types::SolCall,
};

use chains::offer::Commitment;
use escrow_abi::{
    artefacts::{self, OFFER_ADDRESSES},
    contracts::{self, ConvertError, address},
    offers::{
        self, GatewayEscrow,
        OfferAddresses::{self, Purchase},
    },
};
use events::{
    Account, Terms,
    event::{EscrowPlan, X402Exact},
};
use sagas::ports::Transient;

use super::{
    calls::Call,
    deployer,
    factories::is_served,
    minimal_proxy::{self, implementation},
    node::Node,
    transaction::plain,
};

/// Where the contract that makes the addresses of offers is, on every chain.
static FACTORY: LazyLock<Address> = LazyLock::new(|| deployer::place_of(&OFFER_ADDRESSES.creation));

/// Where the contract that makes the addresses of offers is.
pub fn factory() -> Address {
    *FACTORY
}

/// An offer's address, with what makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferAddress {
    /// The address.
    pub pay_to: Account,
    /// The contract that makes it.
    pub factory: Account,
    /// The contract whose code it runs.
    pub implementation: Account,
}

/// The address of an offer, at this version's contract.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub fn address_of(commitment: &Commitment<'_>) -> Result<OfferAddress, ConvertError> {
    let offer = offers::offer(commitment)?;
    let code = implementation(factory());
    let account =
        |address: Address| contracts::account(address).ok_or_else(|| ConvertError::Address(address.to_string()));
    Ok(OfferAddress {
        pay_to: account(minimal_proxy::address(factory(), code, offers::salt(&offer)))?,
        factory: account(factory())?,
        implementation: account(code)?,
    })
}

/// Why an address that is on record is not that of the payment's offer; `None` where it is.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub(crate) fn mismatch(terms: &Terms, plan: &EscrowPlan, recorded: &X402Exact) -> Result<Option<String>, ConvertError> {
    let offer = offers::offer(&offers::of_purchase(terms, plan, recorded.amount, &recorded.merchant)?)?;
    let (factory, code) = (address(&recorded.factory)?, address(&recorded.implementation)?);
    let (expected, found) = (minimal_proxy::address(factory, code, offers::salt(&offer)), address(&recorded.pay_to)?);
    let text = |address: Address| contracts::text(address);
    if expected != found {
        return Ok(Some(format!("the payment's terms lead to {}, not to {}", text(expected), text(found))));
    }
    // Another factory's addresses may do anything with what comes there.
    let is_ours = factory == self::factory() && code == implementation(factory);
    Ok((!is_ours).then(|| format!("its factory {} is not known", text(factory))))
}

/// Whether the chain has the contract that makes the addresses of offers, and the escrow takes what comes from them.
///
/// # Errors
/// [`Transient`].
pub async fn served(node: &Node, escrow: &Account) -> Result<bool, Transient> {
    is_served(node, escrow, factory(), artefacts::offer_address_findings).await
}

/// The call that has the token carry out what the buyer signed, and brings it into the escrow with the award.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub(crate) fn deposit_call(
    sender: Address,
    (terms, plan): (&Terms, &EscrowPlan),
    (purchase, signature): (&X402Exact, Bytes),
    reservation: GatewayEscrow::Reservation,
    admitted_until: U48,
    reserver_signature: Bytes,
) -> Result<Call, ConvertError> {
    let o = offers::offer(&offers::of_purchase(terms, plan, purchase.amount, &purchase.merchant)?)?;
    let p = Purchase {
        payer: address(terms.source.account())?,
        validAfter: U256::from(purchase.valid_after),
        validBefore: U256::from(purchase.valid_before),
        nonce: contracts::word(purchase.nonce),
        signature,
    };
    let data = OfferAddresses::depositCall {
        o,
        p,
        r: reservation,
        admittedUntil: admitted_until,
        reserverSignature: reserver_signature,
    };
    Ok(plain(sender, address(&purchase.factory)?, data.abi_encode()))
}

/// The last second in which the escrow takes the deposit that `data` calls; `None` when it is none.
pub(crate) fn admitted_until(data: &[u8]) -> Option<u64> {
    OfferAddresses::depositCall::abi_decode(data).ok().map(|call| contracts::seconds(call.admittedUntil))
}
