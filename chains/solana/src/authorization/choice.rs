//! Payer's options: the deadlines, amount and signer that a payload may set.

use ed25519_dalek::VerifyingKey;
use ruint::aliases::U256;
use serde_json::{Value, json};

use events::Amount;

use super::{AuthorizationError, SpendRequest, base58, ed25519_key, terms::Rebuilt};

/// What is the payer's to choose. What is absent has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// Last second of the deposit, UNIX; by default `fulfillment_deadline`.
    pub reserve_deadline: Option<u64>,
    /// First second of the refund, UNIX; by default `fulfillment_deadline` plus the corridor's refund delay.
    pub refund_after: Option<u64>,
    /// The permitted amount where the terms set no cap; else the cap.
    pub permitted_amount: Option<Amount>,
    /// The key that signs instead of the payer; the payer has approved it by its SPL allowance.
    pub delegate_signer: Option<VerifyingKey>,
    /// The address that the payer gave its allowance to, where it says so; it must be the signer's.
    pub allowance_delegate: Option<[u8; 32]>,
}

impl Choice {
    /// Reads the members of a signed message's `payload`: `reserve_deadline`, `refund_after` and `permitted_amount`, each a
    /// decimal string, a hex string or a JSON integer, and `delegate_signer` and `allowance_delegate` in Base58. Other
    /// members are none of ours.
    ///
    /// # Errors
    /// [`AuthorizationError::Malformed`] naming the member.
    pub fn from_payload(payload: Option<&Value>) -> Result<Self, AuthorizationError> {
        let Some(payload) = payload else { return Ok(Self::default()) };
        let malformed = |name: &str, reason: &str| AuthorizationError::malformed(format!("payload.{name}"), reason);
        let number = |name: &str| match payload.get(name) {
            None => Ok(None),
            Some(value) => {
                uint(value).map(Some).ok_or_else(|| malformed(name, "must be a whole number of at most 64 bits"))
            }
        };
        let permitted_amount = match number("permitted_amount")? {
            None => None,
            Some(units) => {
                Some(Amount::new(U256::from(units)).ok_or_else(|| malformed("permitted_amount", "must not be zero"))?)
            }
        };
        let base58 = |name: &str| match payload.get(name) {
            None => Ok(None),
            Some(value) => value
                .as_str()
                .and_then(base58)
                .map(Some)
                .ok_or_else(|| malformed(name, "must be the Base58 form of 32 bytes")),
        };
        let delegate_signer = match base58("delegate_signer")? {
            None => None,
            Some(bytes) => {
                let key = ed25519_key(&bytes);
                Some(key.ok_or_else(|| malformed("delegate_signer", "must be an Ed25519 public key"))?)
            }
        };
        Ok(Self {
            reserve_deadline: number("reserve_deadline")?,
            refund_after: number("refund_after")?,
            permitted_amount,
            delegate_signer,
            allowance_delegate: base58("allowance_delegate")?,
        })
    }

    /// The choice as it was made, defaults filled in, for `payload`.
    pub(super) fn made(&self, spend: &SpendRequest, rebuilt: &Rebuilt) -> Value {
        let plan = rebuilt.plan(spend);
        let mut payload = json!({
            "reserve_deadline": plan.reserve_deadline,
            "refund_after": plan.refund_after,
            "allowance_delegate": bs58::encode(rebuilt.allowance_delegate()).into_string(),
        });
        if spend.terms.max_source_amount.is_none() {
            payload["permitted_amount"] = rebuilt.amount().to_string().into();
        }
        if let Some(signer) = &self.delegate_signer {
            payload["delegate_signer"] = bs58::encode(signer).into_string().into();
        }
        payload
    }
}

/// A whole number as a decimal string, a hex string with 0x, or a JSON integer.
fn uint(value: &Value) -> Option<u64> {
    let digits_of =
        |text: &str, radix| text.chars().all(|c| c.is_digit(radix)).then(|| u64::from_str_radix(text, radix));
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => match text.strip_prefix("0x") {
            Some(digits) => digits_of(digits, 16)?.ok(),
            None => digits_of(text, 10)?.ok(),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Base58 is decoded in the square of its length: these would take minutes.
    #[test]
    fn what_only_looks_like_a_key_costs_nothing_to_refuse() {
        for name in ["delegate_signer", "allowance_delegate"] {
            let refused = Choice::from_payload(Some(&json!({name: "z".repeat(1_000_000)}))).unwrap_err();
            assert_eq!(refused.field(), format!("payload.{name}"));
        }
        assert!(
            Choice::from_payload(Some(&json!({"allowance_delegate": bs58::encode([7; 32]).into_string()}))).is_ok()
        );
    }
}
