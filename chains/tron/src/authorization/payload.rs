//! Payload of a signed message: what it repeats of the transaction, compared with it. Nothing is chosen by it with a
//! submission: the transaction says it all. So what contradicts the transaction is refused, since somebody believes it.

use alloy::sol_types::SolCall;
use serde_json::{Map, Value, json};

use escrow_abi::{
    contracts::{DevToken::approveCall, GatewayEscrow::depositOwnCall},
    eip712::uint,
};
use events::{Account, Amount, Family};

use super::{
    AuthorizationError,
    terms::{Chosen, Expected},
};
use crate::{address::text, transaction::Draft};

/// The member that repeats what is deposited, where the terms set no cap.
pub(super) const PERMITTED_AMOUNT: &str = "permitted_amount";

/// What an approval does.
pub(super) fn of_approval(expected: &Expected, draft: &Draft, amount: Amount) -> Map<String, Value> {
    members(json!({
        "function": approveCall::SIGNATURE,
        "contract": text(expected.token),
        "spender": text(expected.escrow),
        "amount": amount.to_string(),
        "fee_limit_sun": draft.fee_limit_sun,
        "expiration_ms": draft.expiration_ms,
    }))
}

/// What a deposit does.
pub(super) fn of_deposit(expected: &Expected, draft: &Draft, amount: Amount, chosen: Chosen) -> Map<String, Value> {
    members(json!({
        "function": depositOwnCall::SIGNATURE,
        "contract": text(expected.escrow),
        "token": text(expected.token),
        "amount": amount.to_string(),
        "reserve_deadline": chosen.reserve_deadline,
        "refund_after": chosen.refund_after,
        "fee_limit_sun": draft.fee_limit_sun,
        "expiration_ms": draft.expiration_ms,
        PERMITTED_AMOUNT: amount.to_string(),
    }))
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Checks that what a message says of its transaction is what the transaction does. Other members are the payer's own.
///
/// # Errors
/// [`AuthorizationError::Mismatch`] naming the first member that contradicts it.
pub(super) fn check(stated: Option<&Value>, done: &Map<String, Value>) -> Result<(), AuthorizationError> {
    let Some(stated) = stated else { return Ok(()) };
    for (name, done) in done {
        match stated.get(name) {
            Some(stated) if !is_same(stated, done) => {
                return Err(AuthorizationError::mismatch(format!("payload.{name}"), shown(done), shown(stated)));
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// Whether both are one text, one number in any spelling, or one account.
fn is_same(stated: &Value, done: &Value) -> bool {
    let account = |value: &Value| value.as_str().and_then(|text| Account::parse(Family::Tron, text).ok());
    stated == done
        || uint(stated).is_some_and(|number| Some(number) == uint(done))
        || account(stated).is_some_and(|stated| Some(stated) == account(done))
}

fn shown(value: &Value) -> String {
    /// Longest part of a stated value that is repeated, in characters.
    const CHARS_MAX: usize = 128;
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.chars().take(CHARS_MAX).collect()
}
