//! Mandates: what a payer signs once, and what its merchant signs for each payment. A payment under a mandate is submitted as any other.

use serde_json::{Value, json};

use events::Hash32;

use super::Gateway;
use crate::{
    answers::{Prepared, PreparedMandate},
    error::Error,
    mandate_order::{MandateOrder, MandatePayload},
    order::Order,
};

const SCHEME: &str = "EVM_PERMIT2_MANDATE";

impl Gateway {
    /// What is to be signed for the mandate with this salt, as the gateway says it. It keeps nothing of it.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn prepare_mandate(&self, order: &MandateOrder, salt: Hash32) -> Result<PreparedMandate, Error> {
        let body = Value::Object(order.body(salt)).to_string();
        self.read(&self.post(&["v1", "payments", "mandates", "prepare"], body)?).await
    }

    /// What a merchant is to sign for an order of its payer's under a mandate, as the gateway says it.
    ///
    /// # Errors
    /// [`Error`], with `INSUFFICIENT_ALLOWANCE` where the mandate leaves too little now.
    pub async fn prepare_charge(&self, order: &Order, payload: &MandatePayload) -> Result<Prepared, Error> {
        let mut body = order.body()?;
        body.insert("payload".to_owned(), json!(payload));
        self.prepared(body, Some(SCHEME)).await
    }
}
