//! The payer's authorization by Permit2 (TIP-712, ADR 156): rebuilt from the request and compared with what was signed, field by field, as
//! on EVM chains. Addresses in typed data are written as Tron's people write them; what is hashed are their twenty bytes.

use alloy::primitives::Address;
use serde_json::{Map, Value};

use chains::windows::Window;
use escrow_abi::{
    contracts,
    permit2::{self, Demand, PermitMessage},
    signature,
    typed_data::{self, AddressForm, HEX, Object},
};
use events::{
    Amount, Hash32,
    event::{Authorization, EscrowPlan, Permit2},
};

use super::{
    AuthorizationError, Choice, SignedMessage, SpendRequest,
    terms::{Chosen, Expected},
};
use crate::address::{self, parse_address, text};

/// As Tron's people write addresses, or as EVM chains do, which is how most libraries of TIP-712 take them.
static BASE58: AddressForm = AddressForm {
    write: text,
    read: |text| match text.starts_with("0x") {
        true => (HEX.read)(text),
        false => parse_address(text).ok(),
    },
    rule: "must be an address, T… in Base58Check, or its 20 bytes as 0x followed by 40 hex digits",
};

/// What a payer must sign for Permit2.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedPermit {
    /// For `signTypedData` of wallets, and as JSON text for `message_prehash`.
    pub typed_data: Value,
    /// What is hashed and signed: 0x19 0x01, the domain's hash, the message's hash.
    pub preimage: [u8; 66],
    /// Its digest, for `message`.
    pub digest: Hash32,
    /// The numbers that were chosen, for `payload`.
    pub payload: Value,
    /// The most that may be drawn, smallest unit.
    pub amount: Amount,
    /// The nonce of the permit.
    pub nonce: Hash32,
    /// The escrow and its windows.
    pub plan: EscrowPlan,
}

/// The message that [`authorize_permit`] expects for `spend`, with the numbers that are the payer's to choose. No chain is asked.
///
/// # Errors
/// [`AuthorizationError`] when the request can't be authorized by Permit2 at all, or a choice breaks the windows.
pub fn prepare_permit(spend: &SpendRequest, choice: &Choice) -> Result<PreparedPermit, AuthorizationError> {
    let expected = Expected::of(spend)?;
    let message = rebuilt(&expected, spend, choice)?;
    let chosen = check(&expected, spend, &message)?;
    let mut payload = Map::from_iter([
        ("reserve_deadline".to_owned(), chosen.reserve_deadline.into()),
        ("refund_after".to_owned(), chosen.refund_after.into()),
        ("permit_deadline".to_owned(), message.deadline.into()),
    ]);
    if spend.terms.max_source_amount.is_none() {
        payload.insert("permitted_amount".to_owned(), message.amount.to_string().into());
    }
    Ok(PreparedPermit {
        typed_data: message.render(&BASE58),
        preimage: message.preimage(),
        digest: Hash32(message.digest().0),
        payload: payload.into(),
        amount: permitted(&message)?,
        nonce: Hash32(message.nonce.to_be_bytes()),
        plan: expected.plan(spend, chosen),
    })
}

/// Checks that `signed` is the payer's authorization of `spend` by Permit2. No chain is asked, and no clock.
///
/// # Errors
/// [`AuthorizationError`], naming the field.
pub fn authorize_permit(
    spend: &SpendRequest,
    signed: &SignedMessage,
) -> Result<(Authorization, EscrowPlan), AuthorizationError> {
    let expected = Expected::of(spend)?;
    let prehash = signed.message_prehash.as_deref().map(str::trim);
    let message = match prehash {
        Some(json) if json.starts_with('{') => {
            let value = typed_data::parse(json)?;
            PermitMessage::read(&Object::typed_data(&value, &BASE58)?, true)?
        }
        Some(_) | None => rebuilt(&expected, spend, &Choice::from_payload(signed.payload.as_ref())?)?,
    };
    let chosen = check(&expected, spend, &message)?;
    if let Some(preimage) = prehash.filter(|text| !text.starts_with('{')) {
        typed_data::check_preimage(preimage, &message.preimage())?;
    }
    let digest = message.digest();
    typed_data::check_digest(&signed.message, digest)?;
    // In the form in which Permit2 takes it. A contract on Tron signs nothing.
    let signature = signature::by_key(&signature::bytes(&signed.signature)?, digest, expected.payer)?;
    let permit = Permit2 {
        amount: permitted(&message)?,
        nonce: Hash32(message.nonce.to_be_bytes()),
        deadline: message.deadline,
        quote_hash: spend.quote_hash,
        signature: format!("0x{}", hex::encode(signature::canonical(&signature))),
        allowance: None,
    };
    Ok((Authorization::TronPermit2Escrow(permit), expected.plan(spend, chosen)))
}

fn rebuilt(expected: &Expected, spend: &SpendRequest, choice: &Choice) -> Result<PermitMessage, AuthorizationError> {
    let chosen = expected.chosen(choice)?;
    let deadline = choice.permit_deadline.unwrap_or(chosen.reserve_deadline);
    Ok(demand(expected, spend, chosen)?.message(expected.amount(choice)?, deadline, true))
}

/// What the request demands, with the windows that were chosen.
fn demand(expected: &Expected, spend: &SpendRequest, chosen: Chosen) -> Result<Demand, AuthorizationError> {
    Ok(Demand {
        chain_id: expected.chain_id,
        permit2: permit2_of(spend)?,
        token: expected.token,
        escrow: expected.escrow,
        cap: spend.terms.max_source_amount,
        deposit: expected.deposit(chosen)?,
    })
}

fn permit2_of(spend: &SpendRequest) -> Result<Address, AuthorizationError> {
    let none = || AuthorizationError::malformed("message_scheme", "is not served: the chain's escrow has no Permit2");
    let account = spend.escrow.permit2.as_ref().ok_or_else(none)?;
    address::address(account).map_err(|error| AuthorizationError::malformed("permit2", format!("is unusable: {error}")))
}

/// Compares every field of `message` with the request; the windows in it.
fn check(expected: &Expected, spend: &SpendRequest, message: &PermitMessage) -> Result<Chosen, AuthorizationError> {
    let witness = message.witness.as_ref();
    let witness = witness.ok_or_else(|| AuthorizationError::malformed("message.witness", "is missing"))?;
    let chosen = Chosen {
        reserve_deadline: contracts::seconds(witness.reserveDeadline),
        refund_after: contracts::seconds(witness.refundAfter),
    };
    demand(expected, spend, chosen)?.check(message, &BASE58)?;
    expected.check_windows(chosen, |window| match window {
        Window::Reserve => "message.witness.reserveDeadline",
        Window::Refund => "message.witness.refundAfter",
    })?;
    permit2::check_deadline(message, chosen.reserve_deadline)?;
    Ok(chosen)
}

fn permitted(message: &PermitMessage) -> Result<Amount, AuthorizationError> {
    let zero = || AuthorizationError::malformed("message.permitted.amount", "must not be zero");
    Amount::new(message.amount).ok_or_else(zero)
}
