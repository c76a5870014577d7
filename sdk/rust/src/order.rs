//! Order: what a payer asks for, as it is sent and as it is signed.

use std::time::Duration;

use chrono::{SecondsFormat, SubsecRound};
use rand::{Rng, distributions::Alphanumeric};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use events::{
    Amount, OwnedAsset, PaymentId, Terms,
    time::{Timestamp, unix_seconds},
};

use crate::error::Error;

/// Version of the contract that requests name (spec 9).
pub(crate) const VERSION: &str = "1.0";
/// Characters of a `request_id` that is made here.
const REQUEST_ID_CHARS: usize = 24;
/// Characters of a `Caller-Secret` that is made here, of nearly six random bits each.
const CALLER_SECRET_CHARS: usize = 43;

/// How far ahead the deadlines of an order lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Until the end of quote collection.
    pub quote: Duration,
    /// Until the payment fails.
    pub fulfillment: Duration,
}

impl Default for Windows {
    /// Ten seconds for quotes, four minutes for the whole: what a payment on any family needs.
    fn default() -> Self {
        Self { quote: Duration::from_secs(10), fulfillment: Duration::from_secs(240) }
    }
}

/// A payment that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Idempotency key: one payment for each, whatever happens on the way.
    pub request_id: String,
    /// Asset and account that pay.
    pub source: OwnedAsset,
    /// Where it may be delivered; the settler chooses one.
    pub destination: Vec<OwnedAsset>,
    /// Exactly what the recipient gets, smallest unit.
    pub fulfillment_amount: Amount,
    /// The most that may be spent, smallest unit. Quotes can be asked for without it, nothing can be signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_source_amount: Option<Amount>,
    /// End of quote collection, whole seconds.
    pub quote_deadline: Timestamp,
    /// Final completion deadline, whole seconds.
    pub fulfillment_deadline: Timestamp,
    /// Members of the request besides: `settler_requirements`, `settler_auth_required`, `quote_selector`. Members that choose
    /// contracts or accounts are refused by [`Order::body`], since what is signed rests on the defaults that were compared.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub members: Map<String, Value>,
}

/// Members that may be added.
const ADDED: [&str; 3] = ["quote_selector", "settler_auth_required", "settler_requirements"];

impl Order {
    /// An order under a new `request_id`, with deadlines from `now` on.
    pub fn new(
        source: OwnedAsset,
        destination: Vec<OwnedAsset>,
        amount: Amount,
        cap: Option<Amount>,
        now: Timestamp,
        windows: Windows,
    ) -> Self {
        let (quote_deadline, fulfillment_deadline) = deadlines(now, windows);
        Self {
            request_id: request_id(),
            source,
            destination,
            fulfillment_amount: amount,
            max_source_amount: cap,
            quote_deadline,
            fulfillment_deadline,
            members: Map::new(),
        }
    }

    /// The same under this `request_id`.
    #[must_use]
    pub fn under(self, request_id: impl Into<String>) -> Self {
        Self { request_id: request_id.into(), ..self }
    }

    /// The same with deadlines from `now` on. Only for an order that was never signed: what was signed holds for its own.
    #[must_use]
    pub fn from_now(self, now: Timestamp, windows: Windows) -> Self {
        let (quote_deadline, fulfillment_deadline) = deadlines(now, windows);
        Self { quote_deadline, fulfillment_deadline, ..self }
    }

    /// The economics, as they are hashed.
    pub fn terms(&self) -> Terms {
        Terms::new(self.source.clone(), self.destination.clone(), self.fulfillment_amount, self.max_source_amount)
    }

    /// The id that the payment has, which is made of account and `request_id` alone.
    pub fn payment_id(&self) -> PaymentId {
        PaymentId::derive(&self.source.account().originator(), &self.request_id)
    }

    /// `fulfillment_deadline` in UNIX seconds.
    pub fn fulfillment_seconds(&self) -> u64 {
        unix_seconds(self.fulfillment_deadline)
    }

    /// The request's body without `sender_auth`: that of a quote-request and of `prepare`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for members that may not be added.
    pub fn body(&self) -> Result<Map<String, Value>, Error> {
        if let Some(name) = self.members.keys().find(|name| !ADDED.contains(&name.as_str())) {
            return Err(Error::Invalid(format!(
                "{name} cannot be added to an order: what is signed would not show it"
            )));
        }
        let text = |time: Timestamp| time.to_rfc3339_opts(SecondsFormat::Secs, true);
        let body = json!({
            "version": VERSION,
            "request_id": self.request_id,
            "source": self.source,
            "destination": self.destination,
            "fulfillment_amount": self.fulfillment_amount,
            "quote_deadline": text(self.quote_deadline),
            "fulfillment_deadline": text(self.fulfillment_deadline),
        });
        let Value::Object(mut body) = body else { return Err(Error::Invalid("an order is an object".to_owned())) };
        if let Some(cap) = self.max_source_amount {
            body.insert("max_source_amount".to_owned(), json!(cap));
        }
        body.extend(self.members.clone());
        Ok(body)
    }
}

/// A `request_id` that nobody has used: 24 random letters and digits behind `gc-`.
pub fn request_id() -> String {
    let random = rand::rngs::OsRng.sample_iter(Alphanumeric).take(REQUEST_ID_CHARS).map(char::from);
    format!("gc-{}", random.collect::<String>())
}

/// A `Caller-Secret` that nobody has used: 43 random letters and digits. It is part of a batch's id: keep it with the
/// `request_id`.
pub fn caller_secret() -> String {
    rand::rngs::OsRng.sample_iter(Alphanumeric).take(CALLER_SECRET_CHARS).map(char::from).collect()
}

/// Whole seconds, so that what is signed is what is written.
fn deadlines(now: Timestamp, windows: Windows) -> (Timestamp, Timestamp) {
    let now = now.trunc_subsecs(0);
    (now + windows.quote, now + windows.fulfillment)
}

#[cfg(test)]
mod tests {
    use events::time::from_unix_seconds;

    use super::*;

    fn order() -> Order {
        let owned = |asset: &str, account: &str| OwnedAsset::new(asset.parse().unwrap(), account).unwrap();
        let account = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
        Order::new(
            owned("eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48", account),
            vec![owned("eip155:10/slip44:60", account)],
            "5".parse().unwrap(),
            Some("6".parse().unwrap()),
            from_unix_seconds(1_800_000_000).unwrap() + Duration::from_millis(999),
            Windows::default(),
        )
    }

    #[test]
    fn an_order_is_written_as_it_is_signed() {
        let order = order();
        let body = order.body().unwrap();
        assert_eq!(body["quote_deadline"], "2027-01-15T08:00:10Z");
        assert_eq!((&body["fulfillment_amount"], &body["max_source_amount"]), (&json!("5"), &json!("6")));
        assert_eq!(order.fulfillment_seconds(), 1_800_000_240);
        assert_ne!(order.request_id, super::request_id());
        let secret = caller_secret();
        assert!(secret.len() == 43 && secret.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{secret}");
        assert_ne!(secret, caller_secret());
        let id = PaymentId::derive("eip155:0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", "again");
        assert_eq!(order.under("again").payment_id(), id);
    }

    #[test]
    fn members_that_choose_contracts_are_not_added() {
        let mut order = order();
        order.members.insert("settler_requirements".to_owned(), json!({"whitelist": ["did:key:z6Mk"]}));
        assert!(order.body().unwrap().contains_key("settler_requirements"));
        for name in ["escrow_contract_address", "sender_auth", "max_source_amount"] {
            let mut other = order.clone();
            other.members.insert(name.to_owned(), json!("x"));
            assert!(matches!(other.body(), Err(Error::Invalid(text)) if text.contains(name)));
        }
    }

    #[test]
    fn an_order_that_was_kept_is_the_same_again() {
        let order = order();
        let kept = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<Order>(&kept).unwrap(), order);
    }
}
