//! Batches: many payments that are signed for as one, in one body.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until};

use events::PaymentId;

use super::Gateway;
use crate::{
    answers::{BatchPayment, BatchPayments, PreparedPaymentBatch},
    error::{Error, Mismatch},
    order::Order,
    retry::Backoff,
};

/// What each payment has for itself, whatever the others have.
const OWN: &str = "request_id";

/// The body of a batch, signed. As of a [`Submission`](crate::Submission) these very bytes are sent, however often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchSubmission {
    /// The ids that the payments have, in their order, made here.
    pub payment_ids: Vec<PaymentId>,
    /// The body.
    pub body: String,
}

impl BatchSubmission {
    /// The orders with the authorization that their payer signed for all of them, up to `reserve_deadline`.
    ///
    /// # Errors
    /// As [`Order::body`].
    pub fn new(orders: &[Order], reserve_deadline: u64, sender_auth: Value) -> Result<Self, Error> {
        let mut body = body(orders, reserve_deadline)?;
        body.insert("sender_auth".to_owned(), sender_auth);
        let payment_ids = orders.iter().map(Order::payment_id).collect();
        Ok(Self { payment_ids, body: Value::Object(body).to_string() })
    }
}

/// What all orders have in common stands beside them, since bodies have a limit.
fn body(orders: &[Order], reserve_deadline: u64) -> Result<Map<String, Value>, Error> {
    let mut payments = orders.iter().map(Order::body).collect::<Result<Vec<_>, Error>>()?;
    let first = payments.first().cloned().unwrap_or_default();
    let is_shared = |name: &str, value: &Value| name != OWN && payments.iter().all(|one| one.get(name) == Some(value));
    let mut body: Map<String, Value> = first.into_iter().filter(|(name, value)| is_shared(name, value)).collect();
    for payment in &mut payments {
        payment.retain(|name, _| !body.contains_key(name));
    }
    body.insert("reserve_deadline".to_owned(), reserve_deadline.into());
    body.insert("payments".to_owned(), payments.into_iter().map(Value::Object).collect());
    Ok(body)
}

/// What became of each payment, where the answer is about these.
fn of(submission: &BatchSubmission, payments: Vec<BatchPayment>) -> Result<Vec<BatchPayment>, Mismatch> {
    let (expected, found) = (submission.payment_ids.len(), payments.len());
    if found != expected {
        return Err(Mismatch::new("payments", format!("{expected} of them"), found));
    }
    for (at, (id, one)) in submission.payment_ids.iter().zip(&payments).enumerate() {
        let of_payment = one.outcome.as_ref().map_or(&one.payment_id, |payment| &payment.payment_id);
        if let Some(other) = [&one.payment_id, of_payment].into_iter().find(|found| *found != id) {
            return Err(Mismatch::new(format!("payments[{at}].payment_id"), id, other));
        }
    }
    Ok(payments)
}

impl Gateway {
    /// What is to be signed for these orders as one, whose deposits are made up to `reserve_deadline`, as the gateway says it.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn prepare_batch(&self, orders: &[Order], reserve_deadline: u64) -> Result<PreparedPaymentBatch, Error> {
        let body = Value::Object(body(orders, reserve_deadline)?).to_string();
        self.read(&self.post(&["v1", "payments", "batches", "prepare"], body)?).await
    }

    /// Submits a batch; what became of each payment, in their order. Nobody waits for outcomes. Until `until` the same bytes are
    /// sent again wherever [`Gateway::submit`] would, also where that is so of some of the payments alone: the others are found.
    ///
    /// # Errors
    /// [`Error`]. Where [`Error::is_unknown`], payments may exist: submit the same again. What is refused of one payment is in its
    /// place.
    pub async fn submit_batch(&self, submission: &BatchSubmission, until: Instant) -> Result<Vec<BatchPayment>, Error> {
        let call = self.post(&["v1", "payments", "batches"], submission.body.clone())?;
        let (mut backoff, mut answered) = (Backoff::default(), None);
        loop {
            let payments = match (self.persist::<BatchPayments>(&call, until).await, answered) {
                (Ok(body), _) => of(submission, body.value.payments)?,
                // It says more of each payment than what the whole was refused with later.
                (Err(_), Some(payments)) => return Ok(payments),
                (Err(error), None) => return Err(error),
            };
            let refused = payments.iter().filter_map(|one| one.outcome.as_ref().err());
            let mut asks = refused.filter(|refusal| refusal.asks_again());
            let again = asks.next().map(|_| Instant::now() + backoff.next()).filter(|again| *again < until);
            let Some(again) = again else { return Ok(payments) };
            tracing::debug!(url = %call.url, "asked again for some payments");
            sleep_until(again).await;
            answered = Some(payments);
        }
    }
}
