//! Payments under a mandate (ADR 159): the merchant signs for each, by a mandate that the payer signed once, or gave its allowance itself. The
//! mandate is rebuilt from the request and from what the payload says of it, and what both signed has to be for its address.

use alloy::primitives::{Address, U256, hex};
use serde::Deserialize;
use serde_json::Value;

use escrow_abi::{
    contracts::{self, ConvertError},
    mandates::{self, ChargeMessage, Grant, Granted},
    permit2::Deployed,
    signature::{self, SignatureError},
    typed_data::{HEX, equal},
};
use events::{
    Account, Amount, Hash32, Terms,
    event::{EscrowPlan, Mandate, MandateCharge},
    time::unix_seconds,
};

use super::{AuthorizationError, SpendRequest, choice::Choice, expected::Expected};
use crate::mandates::{MandateAddress, charge_message, grant};

/// What a chain's clock may be behind ours, seconds: by it the time for which a payment is held is counted from its deposit.
pub const CLOCK_BEHIND: u64 = 60;
/// Where a payment has its mandate.
const FIELD: &str = "payload.mandate";
/// Where a payer has it that is to sign it.
const PREPARED: &str = "mandate";

/// The mandate that a payload names.
fn named(choice: &Choice) -> Result<Mandate, AuthorizationError> {
    let missing = || AuthorizationError::malformed(FIELD, "is required under EVM_PERMIT2_MANDATE");
    let value = choice.mandate.as_ref().ok_or_else(missing)?;
    Mandate::deserialize(value)
        .map_err(|error| AuthorizationError::malformed(FIELD, format!("cannot be read: {error}")))
}

/// The payer's signature that a payload brings.
fn brought(choice: &Choice) -> Result<Option<&str>, AuthorizationError> {
    let Some(value) = &choice.permit else { return Ok(None) };
    let malformed = || AuthorizationError::malformed("payload.permit", "must be a string");
    value.as_str().map(Some).ok_or_else(malformed)
}

/// Who has to sign for a payment under the mandate.
///
/// # Errors
/// [`AuthorizationError`], naming the field.
pub(super) fn merchant(choice: &Choice) -> Result<Address, AuthorizationError> {
    address(&named(choice)?.merchant, FIELD)
}

/// A payment that a merchant asks for, checked against its mandate.
pub(super) struct MandateSpend {
    amount: Amount,
    mandate: Mandate,
    at: MandateAddress,
    /// The payer's signature as it came, and what it has to be over.
    permit: Option<String>,
    grant: Grant,
    payer: Address,
    /// What it signs.
    pub message: ChargeMessage,
    /// The escrow and its windows.
    pub plan: EscrowPlan,
}

impl MandateSpend {
    /// What a request means, with what `payload` says of it.
    ///
    /// # Errors
    /// [`AuthorizationError`], naming the field.
    pub fn of(spend: &SpendRequest, expected: &Expected, choice: &Choice) -> Result<Self, AuthorizationError> {
        let mandate = named(choice)?;
        let rule = "is required under EVM_PERMIT2_MANDATE, which draws all of it";
        let amount = spend.terms.max_source_amount;
        let amount = amount.ok_or_else(|| AuthorizationError::malformed("max_source_amount", rule))?;
        if spend.quote_hash != Hash32::ZERO {
            let rule = "EVM_PERMIT2_MANDATE is signed before there are quotes";
            return Err(AuthorizationError::malformed("message_scheme", rule));
        }
        if amount > mandate.amount {
            let rule = format!("must be at most {}, which the mandate allows in a period", mandate.amount);
            return Err(AuthorizationError::malformed("max_source_amount", rule));
        }
        if !mandates::delivers_enough(&mandate, spend.terms.fulfillment_amount, amount) {
            let (all, least) = (mandate.amount, mandate.least.map_or_else(String::new, |least| least.to_string()));
            let rule = format!(
                "must not be less for {amount} than the mandate says: at least {least} for {all}, and so in proportion"
            );
            return Err(AuthorizationError::malformed("fulfillment_amount", rule));
        }
        let plan = expected.plan(spend, choice)?;
        check_times(spend, &mandate, &plan)?;
        let permit2 = Deployed { chain_id: expected.evm_id, address: expected.permit2 };
        let granted = Granted {
            mandate: &mandate,
            terms: &spend.terms,
            escrow: &spend.escrow.contract,
            releaser: &spend.escrow.releaser,
        };
        let (at, grant) = granted_by(&granted, permit2, FIELD)?;
        let permit = brought(choice)?.map(str::to_owned);
        let contract = Deployed { chain_id: expected.evm_id, address: address(&at.contract, FIELD)? };
        let place = (contract, address(&at.address, FIELD)?);
        let message =
            charge_message(&spend.payment_id, (&spend.terms, &plan), amount.get(), place).map_err(unusable(FIELD))?;
        // What no contract holds is refused here, and named, so that it is in no message.
        message.preimage().map_err(unusable(FIELD))?;
        Ok(Self { amount, mandate, at, permit, grant, payer: expected.payer, message, plan })
    }

    /// Compares what was signed with that.
    ///
    /// # Errors
    /// [`AuthorizationError`], naming the field.
    pub fn check(&self, signed: &ChargeMessage) -> Result<(), AuthorizationError> {
        let demanded = &self.message;
        equal("domain.chainId", demanded.chain_id, signed.chain_id)?;
        equal("domain.verifyingContract", demanded.contract, signed.contract)?;
        equal("message.mandate", demanded.mandate, signed.mandate)?;
        equal("message.paymentId", demanded.payment_id, signed.payment_id)?;
        equal("message.fulfillmentAmount", demanded.fulfillment_amount, signed.fulfillment_amount)?;
        equal("message.amount", demanded.amount, signed.amount)?;
        equal("message.reserver", demanded.reserver, signed.reserver)?;
        equal("message.reserveDeadline", demanded.reserve_deadline, signed.reserve_deadline)?;
        equal("message.fulfillmentDeadline", demanded.fulfillment_deadline, signed.fulfillment_deadline)?;
        Ok(equal("message.refundAfter", demanded.refund_after, signed.refund_after)?)
    }

    /// What was signed, if the payer's signature is its own.
    ///
    /// # Errors
    /// [`AuthorizationError`] of `payload.permit`.
    pub fn authorization(self, signature: &[u8]) -> Result<MandateCharge, AuthorizationError> {
        let permit =
            self.permit.as_deref().map(|permit| checked_permit(permit, &self.grant, self.payer)).transpose()?;
        let MandateAddress { address, contract, implementation } = self.at;
        Ok(MandateCharge {
            amount: self.amount,
            mandate: self.mandate,
            address,
            contract,
            implementation,
            permit,
            signature: format!("0x{}", hex::encode(signature)),
        })
    }
}

/// Whether what a merchant asks for is held no longer than its mandate allows where it is deposited at the UNIX second `now` or later.
///
/// # Errors
/// [`AuthorizationError`], naming the field.
pub fn check_lock(charge: &MandateCharge, plan: &EscrowPlan, now: u64) -> Result<(), AuthorizationError> {
    let lock = charge.mandate.lock_seconds;
    let latest = now.saturating_add(u64::from(lock)).saturating_sub(CLOCK_BEHIND);
    if plan.refund_after <= latest {
        return Ok(());
    }
    let rule = format!(
        "must be at most {latest}, not {}: the mandate allows {lock} seconds from the deposit, of which {CLOCK_BEHIND} are for clocks that \
         differ",
        plan.refund_after
    );
    Err(AuthorizationError::malformed("payload.refund_after", rule))
}

/// The times of a payment against those of its mandate.
fn check_times(spend: &SpendRequest, mandate: &Mandate, plan: &EscrowPlan) -> Result<(), AuthorizationError> {
    let (ends, quoted) = (mandates::ends(mandate), unix_seconds(spend.quote_deadline));
    if quoted < mandate.begins {
        let rule = format!("begins at {}, after the payment's quote_deadline {quoted}", mandate.begins);
        return Err(AuthorizationError::malformed("payload.mandate", rule));
    }
    if plan.reserve_deadline >= ends {
        let rule = format!("must be less than {ends}, when the mandate ends");
        return Err(AuthorizationError::malformed("payload.reserve_deadline", rule));
    }
    Ok(())
}

/// The mandate's address, and what its payer signs; what is wrong is told of `field`.
fn granted_by(
    granted: &Granted<'_>,
    permit2: Deployed,
    field: &str,
) -> Result<(MandateAddress, Grant), AuthorizationError> {
    match mandates::broken_rule(granted.mandate) {
        Some(rule) => Err(AuthorizationError::malformed(field, rule)),
        None => grant(granted, permit2).map_err(unusable(field)),
    }
}

/// The payer's signature for Permit2, in the form in which that takes it.
fn checked_permit(permit: &str, grant: &Grant, payer: Address) -> Result<String, AuthorizationError> {
    let wrong = |what: String| AuthorizationError::malformed("payload.permit", what);
    let of_contract = "a payer that is a contract gives Permit2's allowance by a call, and brings no permit";
    let bytes = signature::bytes(permit).map_err(|error| wrong(error.to_string()))?;
    let digest = grant.digest().map_err(unusable(FIELD))?;
    let parsed = signature::by_key(&bytes, digest, payer).map_err(|error| match error {
        signature::KeyError::Unusable(SignatureError::Length(_) | SignatureError::Erc6492) => {
            wrong(format!("{error}; {of_contract}"))
        }
        signature::KeyError::Unusable(error) => wrong(error.to_string()),
        signature::KeyError::Signer { .. } => {
            wrong(format!("{error}, over {digest}, which /v1/payments/mandates/prepare shows; {of_contract}"))
        }
    })?;
    // Permit2 knows v 27 and 28 only; EIP-2098 it takes as it is.
    let taken = if bytes.len() == 65 { signature::canonical(&parsed).to_vec() } else { bytes };
    Ok(format!("0x{}", hex::encode(taken)))
}

fn unusable(field: &str) -> impl Fn(ConvertError) -> AuthorizationError {
    move |error| AuthorizationError::malformed(field, format!("is unusable: {error}"))
}

fn address(account: &Account, field: &str) -> Result<Address, AuthorizationError> {
    contracts::address(account).map_err(unusable(field))
}

/// What a merchant asks for by `spend`, before it is signed.
///
/// # Errors
/// [`AuthorizationError`], naming the field.
pub fn charge(spend: &SpendRequest, choice: &Choice) -> Result<MandateCharge, AuthorizationError> {
    MandateSpend::of(spend, &Expected::of(spend)?, choice)?.authorization(&[])
}

/// What a payer signs for a mandate, and what it can do with it besides.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedMandate {
    /// For `eth_signTypedData_v4`, in Permit2's domain.
    pub typed_data: Value,
    /// Its digest.
    pub digest: Hash32,
    /// The mandate's address, to which the allowance is given.
    pub at: MandateAddress,
    /// `0x1901`, the domain's separator and the message's hash, of which the digest is the hash.
    pub preimage: [u8; 66],
    /// The allowance of all periods together, smallest unit.
    pub all: Amount,
    /// Who verifies the signature, and what a payer that is a contract calls there instead, in hex with 0x.
    pub allowance: (Account, String),
    /// What ends the mandate: its call at the contract, and the typed data, with its digest, that serves whoever calls in the payer's place.
    pub cancel: (String, (Value, Hash32)),
}

/// What is signed for a mandate of payments by these terms, whatever their amounts, into this escrow.
///
/// # Errors
/// [`AuthorizationError`], naming the field.
pub fn prepare_mandate(
    mandate: &Mandate,
    terms: &Terms,
    (escrow, releaser, permit2): (&Account, &Account, &Account),
) -> Result<PreparedMandate, AuthorizationError> {
    let chain = terms.source.asset().chain();
    let no_chain = || AuthorizationError::malformed("source.asset_identifier", "is not on an EVM chain");
    let verified_by = Deployed { chain_id: chain.evm_id().ok_or_else(no_chain)?, address: address(permit2, PREPARED)? };
    let granted = Granted { mandate, terms, escrow, releaser };
    let (at, grant) = granted_by(&granted, verified_by, PREPARED)?;
    let hexed = |bytes: Vec<u8>| format!("0x{}", hex::encode(bytes));
    let contract = Deployed { chain_id: verified_by.chain_id, address: address(&at.contract, PREPARED)? };
    let (cancellation, digest_of_it) = mandates::cancellation(contract, address(&at.address, PREPARED)?, &HEX);
    let all = Amount::new(U256::from(grant.amount));
    let preimage = grant.preimage().map_err(unusable(PREPARED))?;
    Ok(PreparedMandate {
        typed_data: grant.render(&HEX),
        digest: Hash32::keccak256(preimage),
        preimage,
        all: all.ok_or_else(|| AuthorizationError::malformed("mandate.amount", "must not be zero"))?,
        allowance: (permit2.clone(), hexed(crate::mandates::allowance_call(&grant).map_err(unusable(PREPARED))?)),
        cancel: (
            hexed(crate::mandates::cancel_call(&granted).map_err(unusable(PREPARED))?),
            (cancellation, Hash32(digest_of_it.0)),
        ),
        at,
    })
}

/// The mandate and the payer's signature as a payload has them.
pub(super) fn shown(choice: &Choice) -> impl Iterator<Item = (String, Value)> {
    let members = [("mandate", choice.mandate.clone()), ("permit", choice.permit.clone())];
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)))
}
