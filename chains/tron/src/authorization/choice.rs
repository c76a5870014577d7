//! Payer's options: the deadlines, amount, fee limit and expiration that a payload may set while a payment is prepared.

use serde_json::Value;

use escrow_abi::eip712::uint;
use events::Amount;

use super::AuthorizationError;

/// What is the payer's to choose while the payment is prepared. What is absent has its default. A transaction that was signed says it
/// all by itself, so nothing is chosen with its submission.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// Last second of the reservation, UNIX; by default `fulfillment_deadline`.
    pub reserve_deadline: Option<u64>,
    /// First second of the refund, UNIX; by default `fulfillment_deadline` plus the corridor's refund delay.
    pub refund_after: Option<u64>,
    /// Permit2's own deadline, UNIX; by default the reserve deadline. Not of transactions.
    pub permit_deadline: Option<u64>,
    /// What is deposited, or permitted, where the terms set no cap; else the cap.
    pub permitted_amount: Option<Amount>,
    /// What the deposit's energy may cost at most, in sun; by default what it is estimated to take, with a margin.
    pub fee_limit_sun: Option<u64>,
    /// When the transactions expire, UNIX milliseconds; by default at the reserve deadline, or as late as the network
    /// takes.
    pub expiration_ms: Option<u64>,
}

impl Choice {
    /// Reads the members `reserve_deadline`, `refund_after`, `permit_deadline`, `permitted_amount`, `fee_limit_sun` and
    /// `expiration_ms` of a `payload`, each a decimal string, a hex string or a JSON integer. Other members are none of ours.
    ///
    /// # Errors
    /// [`AuthorizationError::Malformed`] naming the member.
    pub fn from_payload(payload: Option<&Value>) -> Result<Self, AuthorizationError> {
        let Some(payload) = payload else { return Ok(Self::default()) };
        let malformed = |name: &str, reason| AuthorizationError::malformed(format!("payload.{name}"), reason);
        let number = |name: &str| match payload.get(name) {
            None => Ok(None),
            Some(value) => {
                uint(value).map(Some).ok_or_else(|| malformed(name, "must be a whole number of at most 256 bits"))
            }
        };
        let small = |name: &str| match number(name)? {
            None => Ok(None),
            // What the protocol has are signed numbers of 64 bits.
            Some(value) => match i64::try_from(value) {
                Ok(value) => Ok(Some(value.unsigned_abs())),
                Err(_) => Err(malformed(name, "must fit 63 bits")),
            },
        };
        let amount = |value| Amount::new(value).ok_or_else(|| malformed("permitted_amount", "must not be zero"));
        Ok(Self {
            reserve_deadline: small("reserve_deadline")?,
            refund_after: small("refund_after")?,
            permit_deadline: small("permit_deadline")?,
            permitted_amount: number("permitted_amount")?.map(amount).transpose()?,
            fee_limit_sun: small("fee_limit_sun")?,
            expiration_ms: small("expiration_ms")?,
        })
    }
}
