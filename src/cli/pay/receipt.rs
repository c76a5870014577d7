//! The answer of `gw pay`: how a payment stands, as JSON on standard output, and the exit code that goes with it.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Map, Value, json};

use events::quote::SignedQuote;
use gateway_client::{Error, Gateway, Next, Payment, Status, money::Whereabouts};

use super::{
    intents::Intent,
    text::{plain, plain_json},
};

/// Exit code: the payment failed, or was refused.
const FAILED: u8 = 1;
/// Exit code: the outcome is not known yet.
const UNKNOWN: u8 = 3;

/// What the command ends with.
#[derive(Debug)]
pub struct Receipt {
    /// The answer.
    pub answer: Value,
    code: u8,
    /// For the person at the terminal.
    said: String,
    /// Whether the payment is completed or failed.
    pub is_over: bool,
}

impl Receipt {
    /// Writes the answer, and gives the exit code.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn give(&self) -> Result<ExitCode> {
        super::super::answer(&plain_json(&serde_json::to_string_pretty(&self.answer)?))?;
        eprintln!("{}", self.said);
        Ok(ExitCode::from(self.code))
    }
}

/// How the payment of an intent stands, with where its money is.
pub async fn of(gateway: &Gateway, intent: &Intent, payment: &Payment) -> Receipt {
    let mut answer = base(intent, payment.status.as_str());
    for name in ["transactions", "quote_id", "fulfillment_confirmation", "updated_at", "claims"] {
        if let Some(value) = payment.more.get(name) {
            answer.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(price) = price(payment) {
        answer.insert("source_amount".to_owned(), price.into());
    }
    if let Some(error) = &payment.error {
        answer.insert("error".to_owned(), json!(error));
    }
    let id = &payment.payment_id;
    // What a payment's money did is told by its timeline; where that cannot be had, nothing is said.
    let money = gateway.timeline(id).await.ok().map(|timeline| Whereabouts::of(payment, &timeline));
    if let Some(money) = &money {
        answer.insert("money".to_owned(), json!(money));
    }
    let told =
        money.map_or_else(|| "where its money is, the timeline tells".to_owned(), |money| plain(&money.describe()));
    let (code, said) = match payment.status {
        Status::Completed => (0, format!("{id} is completed: {told}.")),
        Status::Failed => {
            let reason = payment
                .error
                .as_ref()
                .map_or_else(String::new, |error| format!(", {}: {}", plain(&error.code), plain(&error.message)));
            (FAILED, format!("{id} has failed{reason}\n{told}."))
        }
        Status::Pending | Status::Finalizing => {
            (UNKNOWN, format!("{id} is {}: {told}.\nThe same command goes on with it.", payment.status.as_str()))
        }
    };
    Receipt { answer: Value::Object(answer), code, said, is_over: payment.status.is_final() }
}

/// The outcome is not known.
pub fn unknown(intent: &Intent, error: &Error) -> Receipt {
    let mut answer = base(intent, "unknown");
    answer.insert("reason".to_owned(), error.to_string().into());
    let id = intent.order.payment_id();
    let said = format!(
        "Nobody knows whether {id} was accepted: {}\nThe same command asks again, with the same signature, and pays once.",
        plain(&error.to_string())
    );
    Receipt { answer: Value::Object(answer), code: UNKNOWN, said, is_over: false }
}

/// The gateway refused, or nothing was submitted for another reason.
pub fn refused(intent: &Intent, error: &Error) -> Receipt {
    let mut answer = base(intent, if error.refusal().is_some() { "refused" } else { "not_submitted" });
    let mut said = format!("Refused: {}", plain(&error.to_string()));
    if let Some(refusal) = error.refusal() {
        answer.insert(
            "error".to_owned(),
            json!({
                "code": refusal.code,
                "message": refusal.message,
                "field": refusal.field(),
                "docs_url": refusal.docs_url,
                "retry_classification": refusal.retry_classification,
                "request_id_reusable": refusal.request_id_reusable,
            }),
        );
        let advice = match refusal.next() {
            Next::SendAgain(_) => "Nothing was accepted; the same command may be run again.",
            Next::ChangeThenSend => "Change what it says, and run the same command again.",
            Next::NewRequestId => "A new --request-id begins another payment.",
            Next::FixRequest => "Correct what it names.",
            Next::GiveUp => "Nothing that you change helps.",
            Next::Reconcile => "Look at what exists already before you try again.",
            Next::Unclassified => "The gateway does not say whether another try helps.",
        };
        said = format!("{said}\n{advice}");
        if refusal.request_id_reusable == Some(true) {
            answer.insert("money".to_owned(), json!(Whereabouts::WithPayer));
            said = format!("{said} {}.", Whereabouts::WithPayer.describe());
        }
    } else {
        answer.insert("reason".to_owned(), error.to_string().into());
        answer.insert("money".to_owned(), json!(Whereabouts::WithPayer));
        said = format!("{said}\nNothing was submitted.");
    }
    Receipt { answer: Value::Object(answer), code: FAILED, said, is_over: false }
}

fn base(intent: &Intent, status: &str) -> Map<String, Value> {
    let order = &intent.order;
    let answer = json!({
        "payment_id": order.payment_id(),
        "request_id": order.request_id,
        "status": status,
        "gateway": intent.gateway,
        "source": order.source,
        "destination": order.destination,
        "fulfillment_amount": order.fulfillment_amount,
        "max_source_amount": order.max_source_amount,
        "approvals": intent.approvals,
        "escrow": intent.plan,
    });
    match answer {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// What the payment cost, by the quote that its settler signed.
fn price(payment: &Payment) -> Option<String> {
    let document = payment.more.get("fulfillment_quote")?.to_string();
    Some(SignedQuote::parse_stored(&document).ok()?.quote().source_amount.to_string())
}
