//! Mandates (ADR 159): a payer's allowance for an address that commits to what a merchant may ask for. Each payment is drawn by the deposit
//! that brings it into the escrow.
//!
//! The contract that keeps them is at one address on every chain, because it follows from its code alone ([`deploy`](crate::deploy)). So
//! nothing is configured: where it is, payments can be paid so.

use std::sync::LazyLock;

use alloy::{
    primitives::{Address, B256, Bytes, U256, aliases::U48},
    sol_types::SolCall,
};

use escrow_abi::{
    artefacts::{self, MANDATES},
    contracts::{self, ConvertError, address, units},
    eip712,
    mandates::{self, ChargeMessage, GatewayEscrow, Grant, Granted, Mandates, Permit2Allowances},
    permit2::Deployed,
};
use events::{
    Account, PaymentId, Terms,
    event::{EscrowPlan, Mandate, MandateCharge},
};
use sagas::ports::{DepositOrder, Transient};

use super::{
    batching::Views,
    calls::Call,
    deployer,
    factories::is_served,
    minimal_proxy::{self, implementation},
    node::Node,
    transaction::{plain, raw_bytes},
};

/// Where the contract that keeps mandates is, on every chain.
static CONTRACT: LazyLock<Address> = LazyLock::new(|| deployer::place_of(&MANDATES.creation));

/// Where the contract that keeps mandates is.
pub fn contract() -> Address {
    *CONTRACT
}

/// A mandate's address, with what makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MandateAddress {
    /// The address.
    pub address: Account,
    /// The contract that makes it.
    pub contract: Account,
    /// The contract whose code it runs.
    pub implementation: Account,
}

/// The address of a mandate, at this version's contract.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub fn address_of(granted: &Granted<'_>) -> Result<MandateAddress, ConvertError> {
    let code = implementation(contract());
    let at = minimal_proxy::address(contract(), code, mandates::salt(&granted.mandate()?));
    let account =
        |address: Address| contracts::account(address).ok_or_else(|| ConvertError::Address(address.to_string()));
    Ok(MandateAddress { address: account(at)?, contract: account(contract())?, implementation: account(code)? })
}

/// Whether the chain has the contract that keeps mandates, and the escrow takes what comes from them.
///
/// # Errors
/// [`Transient`].
pub async fn served(node: &Node, escrow: &Account) -> Result<bool, Transient> {
    is_served(node, escrow, contract(), artefacts::mandate_findings).await
}

/// What the merchant signs for a payment, drawn by the mandate at `at`.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub fn charge_message(
    payment_id: &PaymentId,
    (terms, plan): (&Terms, &EscrowPlan),
    amount: U256,
    (contract, at): (Deployed, Address),
) -> Result<ChargeMessage, ConvertError> {
    Ok(ChargeMessage {
        chain_id: U256::from(contract.chain_id),
        contract: contract.address,
        mandate: at,
        payment_id: contracts::word(payment_id.on_chain()),
        fulfillment_amount: units(terms.fulfillment_amount),
        amount,
        reserver: address(&plan.reserver)?,
        reserve_deadline: plan.reserve_deadline,
        fulfillment_deadline: plan.fulfillment_deadline,
        refund_after: plan.refund_after,
    })
}

/// The mandate of a charge that is on record.
fn granted<'a>(terms: &'a Terms, plan: &'a EscrowPlan, mandate: &'a Mandate) -> Granted<'a> {
    Granted { mandate, terms, escrow: &plan.contract, releaser: &plan.releaser }
}

/// Why a charge that is on record is not one of the payment's mandate; `None` where it is.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub(crate) fn mismatch(
    terms: &Terms,
    plan: &EscrowPlan,
    recorded: &MandateCharge,
) -> Result<Option<String>, ConvertError> {
    if let Some(rule) = mandates::broken_rule(&recorded.mandate) {
        return Ok(Some(rule.to_owned()));
    }
    let (contract, code) = (address(&recorded.contract)?, address(&recorded.implementation)?);
    let salt = mandates::salt(&granted(terms, plan, &recorded.mandate).mandate()?);
    let (expected, found) = (minimal_proxy::address(contract, code, salt), address(&recorded.address)?);
    let text = |address: Address| contracts::text(address);
    if expected != found {
        return Ok(Some(format!("it leads to the address {}, not to {}", text(expected), text(found))));
    }
    // Another contract may do anything with what it draws.
    let is_ours = contract == self::contract() && code == implementation(contract);
    Ok((!is_ours).then(|| format!("its contract {} is not known", text(contract))))
}

/// The digests that were signed for a charge on record, on the chain with this EIP-155 id: the merchant's, and the payer's.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub(crate) fn recorded_digests(
    payment_id: &PaymentId,
    (terms, plan): (&Terms, &EscrowPlan),
    recorded: &MandateCharge,
    permit2: Deployed,
) -> Result<(B256, B256), ConvertError> {
    let at = address(&recorded.address)?;
    let contract = Deployed { chain_id: permit2.chain_id, address: address(&recorded.contract)? };
    let charge = charge_message(payment_id, (terms, plan), units(recorded.amount), (contract, at))?;
    let grant = Grant::of(&granted(terms, plan, &recorded.mandate), at, permit2)?;
    Ok((charge.digest()?, grant.digest()?))
}

/// What may be drawn by a charge at the UNIX second `now` or that of the newest block, whichever is later, smallest unit: what is left of the
/// period, at most what the payer lets the mandate's address draw at Permit2, or is going to by its signature.
///
/// # Errors
/// [`Transient`].
pub async fn left(
    views: &Views,
    permit2: Address,
    (payer, token): (Address, Address),
    charge: &MandateCharge,
    now: u64,
) -> Result<U256, Transient> {
    let at = address(&charge.address)?;
    let used = Mandates::usedCall { at };
    let allowed = Permit2Allowances::allowanceCall { owner: payer, token, spender: at };
    let (used, allowed, head) = futures::try_join!(
        views.read(address(&charge.contract)?, &used),
        views.read(permit2, &allowed),
        views.node().head()
    )?;
    let now = now.max(head.time);
    Ok(mandates::left(&charge.mandate, &used, now).min(drawn_by(charge, &allowed, now)?))
}

/// What Permit2 lets the mandate's address draw, as far as the payer's signature does not give it: the contract brings that where none was
/// taken and too little is allowed, whether what is allowed is over or not.
fn drawn_by(
    charge: &MandateCharge,
    allowed: &Permit2Allowances::allowanceReturn,
    now: u64,
) -> Result<U256, ConvertError> {
    let is_brought = charge.permit.is_some() && allowed.nonce.is_zero();
    if is_brought && allowed.amount < mandates::allowed(charge.amount)? {
        return Ok(U256::MAX);
    }
    if contracts::seconds(allowed.expiration) < now {
        return Ok(U256::ZERO);
    }
    // What is allowed is used up first, and then the signature is brought.
    Ok(if is_brought { U256::MAX } else { U256::from(allowed.amount) })
}

/// Whether a mandate was ended.
///
/// # Errors
/// [`Transient`].
pub async fn is_ended(views: &Views, charge: &MandateCharge) -> Result<bool, Transient> {
    let at = address(&charge.address)?;
    Ok(views.read(address(&charge.contract)?, &Mandates::usedCall { at }).await?.cancelled)
}

/// Whether the payer of a charge that brings no signature of its has had to do with the mandate: it let the mandate's address draw at
/// Permit2, or that has drawn.
///
/// # Errors
/// [`Transient`].
pub async fn is_granted(
    node: &Node,
    (payer, token): (Address, Address),
    charge: &MandateCharge,
) -> Result<bool, Transient> {
    let (views, at) = (Views::new(node.clone()), address(&charge.address)?);
    let (used, allowed) =
        (Mandates::usedCall { at }, Permit2Allowances::allowanceCall { owner: payer, token, spender: at });
    let (used, allowed) =
        futures::try_join!(views.read(address(&charge.contract)?, &used), views.read(node.permit2(), &allowed))?;
    Ok(!allowed.amount.is_zero() || !allowed.nonce.is_zero() || !used.amount.is_zero() || used.cancelled)
}

/// The call by which a payer that signs nothing gives the mandate's allowance at Permit2 itself.
///
/// # Errors
/// [`ConvertError`] for a time that no contract holds.
pub fn allowance_call(grant: &Grant) -> Result<Vec<u8>, ConvertError> {
    let Grant { token, amount, spender, last, .. } = *grant;
    let expiration = contracts::time(last)?;
    Ok(Permit2Allowances::approveCall { token, spender, amount, expiration }.abi_encode())
}

/// The call by which its payer ends a mandate.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub fn cancel_call(granted: &Granted<'_>) -> Result<Vec<u8>, ConvertError> {
    Ok(Mandates::cancelCall { m: granted.mandate()?, signature: Bytes::new() }.abi_encode())
}

/// What the payer signs for a mandate, with the address that it is for.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub fn grant(granted: &Granted<'_>, permit2: Deployed) -> Result<(MandateAddress, Grant), ConvertError> {
    let at = address_of(granted)?;
    let grant = Grant::of(granted, address(&at.address)?, permit2)?;
    Ok((at, grant))
}

/// The call that draws what the merchant asks for and brings it into the escrow with the award.
///
/// # Errors
/// [`Transient`] for what fits no EVM chain.
pub(crate) fn deposit_call(
    sender: Address,
    order: &DepositOrder,
    (recorded, signature): (&MandateCharge, Bytes),
    reservation: &eip712::Reservation,
    admitted_until: U48,
    reserver_signature: Bytes,
) -> Result<Call, Transient> {
    let unreadable = || Transient::misconfigured("the payer's signature is not hex");
    let permit = raw_bytes(recorded.permit.as_deref().unwrap_or("0x")).ok_or_else(unreadable)?;
    let plan = &order.escrow;
    let data = Mandates::depositCall {
        m: granted(&order.terms, plan, &recorded.mandate).mandate()?,
        permit,
        c: Mandates::Charge {
            paymentId: contracts::word(order.payment_id.on_chain()),
            fulfillmentAmount: units(order.terms.fulfillment_amount),
            amount: mandates::allowed(recorded.amount)?,
            reserver: address(&plan.reserver)?,
            reserveDeadline: contracts::time(plan.reserve_deadline)?,
            fulfillmentDeadline: contracts::time(plan.fulfillment_deadline)?,
            refundAfter: contracts::time(plan.refund_after)?,
            signature,
        },
        r: GatewayEscrow::Reservation::from(reservation),
        admittedUntil: admitted_until,
        reserverSignature: reserver_signature,
    };
    Ok(plain(sender, address(&recorded.contract)?, data.abi_encode()))
}

/// The last second in which the escrow takes the deposit that `data` calls; `None` when it is none.
pub(crate) fn admitted_until(data: &[u8]) -> Option<u64> {
    Mandates::depositCall::abi_decode(data).ok().map(|call| contracts::seconds(call.admittedUntil))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use events::Hash32;

    use super::*;

    fn text<'a>(value: &'a Value, name: &str) -> &'a str {
        value[name].as_str().unwrap()
    }

    fn account(value: &Value, name: &str) -> Account {
        text(value, name).parse().unwrap()
    }

    fn number(value: &Value, name: &str) -> u64 {
        value[name].as_u64().unwrap()
    }

    fn mandate(shown: &Value) -> Mandate {
        let seconds = |name| u32::try_from(number(shown, name)).unwrap();
        Mandate {
            merchant: account(shown, "merchant"),
            amount: text(shown, "amount").parse().unwrap(),
            least: text(shown, "least").parse().ok(),
            begins: number(shown, "begins"),
            period_seconds: seconds("period_seconds"),
            periods: seconds("periods"),
            lock_seconds: seconds("lock_seconds"),
            salt: text(shown, "salt").parse().unwrap(),
        }
    }

    /// What the contract itself makes of the same mandates.
    #[test]
    fn mandates_and_what_is_signed_for_them_are_those_of_the_vectors() {
        let vectors: Value = serde_json::from_str(include_str!("../../../contracts/vectors/mandates.json")).unwrap();
        let chain_id = number(&vectors, "chain_id");
        let place = |name| address(&account(&vectors, name)).unwrap();
        assert_eq!((place("contract"), place("implementation")), (contract(), implementation(contract())));
        let permit2 = Deployed { chain_id, address: place("permit2") };
        let kept_by = Deployed { chain_id, address: contract() };
        let shown = vectors["mandates"].as_array().unwrap();
        assert!(shown.len() > 2);
        for shown in shown {
            let (mandate, escrow, releaser) = (mandate(shown), account(shown, "escrow"), account(shown, "releaser"));
            assert_eq!(mandates::broken_rule(&mandate), None);
            for charge in shown["charges"].as_array().unwrap() {
                let terms: Terms = serde_json::from_str(text(charge, "terms")).unwrap();
                assert_eq!(terms.hash().to_string(), text(charge, "terms_hash"));
                let granted = Granted { mandate: &mandate, terms: &terms, escrow: &escrow, releaser: &releaser };
                let (at, grant) = grant(&granted, permit2).unwrap();
                assert_eq!(at.address, account(shown, "address"));
                assert_eq!(grant.digest().unwrap().to_string(), text(&shown["permit"], "digest"));
                let at = address(&at.address).unwrap();
                let (_, cancellation) = mandates::cancellation(kept_by, at, &escrow_abi::typed_data::HEX);
                assert_eq!(cancellation.to_string(), text(&shown["cancellation"], "digest"));
                let amount = terms.max_source_amount.unwrap();
                assert!(mandates::delivers_enough(&mandate, terms.fulfillment_amount, amount));
                let message = ChargeMessage {
                    chain_id: U256::from(chain_id),
                    contract: contract(),
                    mandate: at,
                    payment_id: contracts::word(text(charge, "payment_id").parse::<Hash32>().unwrap()),
                    fulfillment_amount: units(terms.fulfillment_amount),
                    amount: units(amount),
                    reserver: address(&account(charge, "reserver")).unwrap(),
                    reserve_deadline: number(charge, "reserve_deadline"),
                    fulfillment_deadline: number(charge, "fulfillment_deadline"),
                    refund_after: number(charge, "refund_after"),
                };
                assert_eq!(message.digest().unwrap().to_string(), text(charge, "digest"));
            }
        }
    }
}
