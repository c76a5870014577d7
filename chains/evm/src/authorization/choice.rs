//! What of a message is the payer's to choose.

use serde_json::{Map, Value};

use escrow_abi::{
    contracts,
    eip712::{GatewayDeposit, uint},
};
use events::{Account, Amount, Hash32};

use super::{AuthorizationError, SpendRequest, batch::Membership, exact, mandate, message::Message, transfer};

/// The numbers that are the payer's to choose. What is absent has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// Last second of the deposit, UNIX; by default `fulfillment_deadline`.
    pub reserve_deadline: Option<u64>,
    /// First second of the refund, UNIX; by default `fulfillment_deadline` plus the corridor's refund delay.
    pub refund_after: Option<u64>,
    /// Permit2's own deadline, UNIX; by default the reserve deadline.
    pub permit_deadline: Option<u64>,
    /// First second in which an ERC-3009 authorization does not hold any more, UNIX; by default the one after the reserve deadline.
    pub valid_before: Option<u64>,
    /// Most that may be drawn, smallest unit; by default the cap. Needed where the terms set none. An ERC-3009 authorization for a
    /// quote that the payer knows may be of less than the cap.
    pub permitted_amount: Option<Amount>,
    /// Last second in which an authorization under x402's `exact` does not hold yet, UNIX.
    pub valid_after: Option<u64>,
    /// The nonce of such an authorization.
    pub nonce: Option<Hash32>,
    /// Where strays of the offer go to whose address such an authorization pays.
    pub merchant: Option<Account>,
    /// Where the payment is in the batch that was signed.
    pub batch: Option<Membership>,
    /// Under which mandate the merchant asks, as it came: other schemes may have a member of that name.
    pub mandate: Option<Value>,
    /// The payer's signature for Permit2 that gives the mandate's allowance, as it came.
    pub permit: Option<Value>,
}

impl Choice {
    /// Reads the members `reserve_deadline`, `refund_after`, `permit_deadline`, `valid_before`, `valid_after` and `permitted_amount` of a
    /// signed message's `payload`, each a decimal string, a hex string or a JSON integer, and `nonce` and `merchant`, each hex with 0x.
    /// So is `batch`, of a payment that is signed for with others, and `mandate` and `permit`, of one that a merchant asks for. Other members
    /// are none of ours.
    ///
    /// # Errors
    /// [`AuthorizationError::Malformed`] naming the member.
    pub fn from_payload(payload: Option<&Value>) -> Result<Self, AuthorizationError> {
        let Some(payload) = payload else { return Ok(Self::default()) };
        let number = |name: &str| match payload.get(name) {
            None => Ok(None),
            Some(value) => uint(value)
                .map(Some)
                .ok_or_else(|| AuthorizationError::malformed(format!("payload.{name}"), "must be a whole number")),
        };
        let time = |name: &str| match number(name)? {
            None => Ok(None),
            Some(value) => u64::try_from(value)
                .map(Some)
                .map_err(|_| AuthorizationError::malformed(format!("payload.{name}"), "must fit 64 bits")),
        };
        let permitted_amount = match number("permitted_amount")? {
            None => None,
            Some(value) => Some(
                Amount::new(value)
                    .ok_or_else(|| AuthorizationError::malformed("payload.permitted_amount", "must not be zero"))?,
            ),
        };
        let text = |name: &str| payload.get(name).and_then(Value::as_str);
        // Under the other schemes nobody reads it, and it may be anything.
        let nonce = text("nonce").and_then(|text| text.parse().ok());
        Ok(Self {
            reserve_deadline: time("reserve_deadline")?,
            refund_after: time("refund_after")?,
            permit_deadline: time("permit_deadline")?,
            valid_before: time("valid_before")?,
            permitted_amount,
            valid_after: time("valid_after")?,
            nonce,
            merchant: payload.get("merchant").and_then(exact::merchant),
            batch: payload.get("batch").map(Membership::read).transpose()?,
            mandate: payload.get("mandate").cloned(),
            permit: payload.get("permit").cloned(),
        })
    }

    /// The choice as it was made, defaults filled in, for `payload`.
    pub(super) fn made(&self, spend: &SpendRequest, message: &Message, deposit: &GatewayDeposit) -> Value {
        let mut payload = Map::from_iter([
            ("reserve_deadline".to_owned(), contracts::seconds(deposit.reserveDeadline).into()),
            ("refund_after".to_owned(), contracts::seconds(deposit.refundAfter).into()),
        ]);
        let mut is_chosen = spend.terms.max_source_amount.is_none();
        match message {
            Message::Permit(permit) => payload.extend([("permit_deadline".to_owned(), permit.deadline.into())]),
            // A batch is prepared as a whole.
            Message::Batch(_) => {}
            Message::Charge(_) => payload.extend(mandate::shown(self)),
            Message::Transfer(transfer) => {
                is_chosen |= spend.quote_hash != Hash32::ZERO;
                payload.extend([
                    ("valid_before".to_owned(), transfer.valid_before.into()),
                    ("deposit".to_owned(), transfer::shown(deposit).into()),
                ]);
            }
        }
        if is_chosen {
            payload.insert("permitted_amount".to_owned(), message.amount().to_string().into());
        }
        payload.into()
    }
}
