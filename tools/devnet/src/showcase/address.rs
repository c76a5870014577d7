//! The payment whose payer signs nothing: an exchange sends the money to an address.

use std::time::Duration;

use alloy::{primitives::U256, signers::local::PrivateKeySigner};
use anyhow::{Result, ensure};
use serde_json::json;

use events::PaymentEvent;

use super::{Environment, ordinary};
use crate::payer::{Payer, PaymentSpec};

impl Environment<'_> {
    /// Has an exchange pay for somebody who has no money of its own, and checks that what is over comes back.
    pub(super) async fn pays_to_an_address(&mut self) -> Result<()> {
        let number = self.title("A payer whose money lies at an exchange: a plain transfer to an address");
        let (payer, exchange) = (Payer::new(PrivateKeySigner::random())?, PrivateKeySigner::random());
        let before = self.recipients_balance().await?;
        let source = &self.network.source;
        let account = exchange.address().to_string();
        source.dev.mint(&source.token, &account, U256::from(1_000_000_000)).await?;
        source.dev.fund(&account, U256::from(10).pow(U256::from(18))).await?;
        let spec = PaymentSpec {
            // An exchange takes its time.
            fulfillment_window: Duration::from_secs(300),
            ..ordinary(self.network, &format!("showcase-{number}"))?
        };
        let batch = payer.open(&self.base, &payer.quote_request(&spec), false).await?;
        ensure!(batch.status == 200, "HTTP {}: {}", batch.status, batch.body);
        let given = payer.deposit_address(&self.base, batch.text("quote_request_id"), &json!({})).await?;
        ensure!(given.status == 200, "HTTP {}: {}", given.status, given.body);
        let address = given.body["deposit_address"]["address"].as_str().unwrap_or_default().to_owned();
        println!(
            "   POST …/address → {} {}: {} to {address}",
            given.text("payment_id"),
            given.text("status"),
            spec.cap
        );
        source.dev.send_token(&exchange, &source.token, &address, spec.cap.get()).await?;
        let payment_id = self.payment_id(&given)?;
        self.timeline_until(&payment_id, |event| matches!(event, PaymentEvent::EscrowReleased(_))).await?;
        let received = self.recipients_balance().await? - before;
        ensure!(received == spec.amount.get(), "recipient received {received}, not {}", spec.amount);
        let source = &self.network.source;
        let returned = source.dev.token_balance(&source.token, &payer.account()).await?;
        ensure!(!returned.is_zero(), "nothing came back of what was over");
        println!(
            "   recipient received exactly {received}; {returned} that were over are back at the refund account\n"
        );
        self.outcome_tally.completed += 1;
        Ok(())
    }
}
