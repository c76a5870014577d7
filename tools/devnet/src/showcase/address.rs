//! The payments whose payers sign nothing: an exchange sends the money to an address.

use std::time::Duration;

use alloy::{primitives::U256, signers::local::PrivateKeySigner};
use anyhow::{Context, Result, ensure};
use ed25519_dalek::SigningKey;
use serde_json::json;

use events::PaymentEvent;

use super::{Environment, ordinary};
use crate::{
    keys::solana_account,
    payer::{Answer, Payer, PaymentSpec},
};

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
        let (given, address) = self.address_for(&payer, &spec).await?;
        let source = &self.network.source;
        source.dev.send_token(&exchange, &source.token, &address, spec.cap.get()).await?;
        let received = self.delivers_what_came(&given, before, &spec).await?;
        let source = &self.network.source;
        let returned = source.dev.token_balance(&source.token, &payer.account()).await?;
        self.has_returned(received, returned)
    }

    /// The same on Tron, where there is one.
    pub(super) async fn pays_to_an_address_on_tron(&mut self) -> Result<()> {
        if self.network.tron.is_none() {
            return Ok(());
        }
        let number = self.title("A payer on Tron whose money lies at an exchange");
        let (payer, exchange) = (Payer::on_tron(PrivateKeySigner::random())?, PrivateKeySigner::random());
        let before = self.recipients_balance().await?;
        let tron = self.network.tron.as_ref().context("the network has no Tron chain")?;
        let account = chains_tron::address::text(exchange.address());
        tron.dev.mint(&tron.token, &account, U256::from(1_000_000_000)).await?;
        tron.dev.fund(&account, 1_000_000_000).await?;
        let spec = PaymentSpec {
            source: tron.token()?,
            fulfillment_window: Duration::from_secs(300),
            ..ordinary(self.network, &format!("showcase-{number}"))?
        };
        let (given, address) = self.address_for(&payer, &spec).await?;
        let tron = self.network.tron.as_ref().context("the network has no Tron chain")?;
        tron.dev.send_token(&exchange, &tron.token, &address, spec.cap.get()).await?;
        let received = self.delivers_what_came(&given, before, &spec).await?;
        let tron = self.network.tron.as_ref().context("the network has no Tron chain")?;
        let returned = tron.dev.token_balance(&tron.token, &payer.account()).await?;
        self.has_returned(received, returned)
    }

    /// The same on Solana, where there is one.
    pub(super) async fn pays_to_an_address_on_solana(&mut self) -> Result<()> {
        if self.network.solana.is_none() {
            return Ok(());
        }
        let number = self.title("A payer on Solana whose money lies at an exchange");
        let key = || SigningKey::from_bytes(&PrivateKeySigner::random().to_bytes().0);
        let (payer, exchange) = (Payer::on_solana(key())?, key());
        let before = self.recipients_balance().await?;
        let solana = self.network.solana.as_ref().context("the network has no Solana chain")?;
        let account = solana_account(&exchange);
        solana.dev.mint(&solana.token, &account, 1_000_000_000).await?;
        solana.surfnet.airdrop(&account, 1_000_000_000).await?;
        // Money comes back to a token account that is there, and to no other.
        solana.dev.mint(&solana.token, &payer.account(), 0).await?;
        let spec = PaymentSpec {
            source: solana.token()?,
            fulfillment_window: Duration::from_secs(300),
            ..ordinary(self.network, &format!("showcase-{number}"))?
        };
        let (given, address) = self.address_for(&payer, &spec).await?;
        let solana = self.network.solana.as_ref().context("the network has no Solana chain")?;
        solana.dev.send_token(&exchange, &solana.token, &address, spec.cap.get().to()).await?;
        let received = self.delivers_what_came(&given, before, &spec).await?;
        let solana = self.network.solana.as_ref().context("the network has no Solana chain")?;
        let returned = solana.dev.token_balance(&solana.token, &payer.account()).await?;
        self.has_returned(received, U256::from(returned))
    }

    /// The payment that waits for its money, and where that is to be sent.
    async fn address_for(&self, payer: &Payer, spec: &PaymentSpec) -> Result<(Answer, String)> {
        let batch = payer.open(&self.base, &payer.quote_request(spec), false).await?;
        ensure!(batch.status == 200, "HTTP {}: {}", batch.status, batch.body);
        let given = payer.deposit_address(&self.base, batch.text("quote_request_id"), &json!({})).await?;
        ensure!(given.status == 200, "HTTP {}: {}", given.status, given.body);
        let address = given.body["deposit_address"]["address"].as_str().unwrap_or_default().to_owned();
        let (payment_id, status) = (given.text("payment_id"), given.text("status"));
        println!("   POST …/address → {payment_id} {status}: {} to {address}", spec.cap);
        Ok((given, address))
    }

    /// Shows the payment until its end; what the recipient got.
    async fn delivers_what_came(&self, given: &Answer, before: U256, spec: &PaymentSpec) -> Result<U256> {
        let payment_id = self.payment_id(given)?;
        self.timeline_until(&payment_id, |event| matches!(event, PaymentEvent::EscrowReleased(_))).await?;
        let received = self.recipients_balance().await? - before;
        ensure!(received == spec.amount.get(), "recipient received {received}, not {}", spec.amount);
        Ok(received)
    }

    fn has_returned(&mut self, received: U256, returned: U256) -> Result<()> {
        ensure!(!returned.is_zero(), "nothing came back of what was over");
        println!(
            "   recipient received exactly {received}; {returned} that were over are back at the refund account\n"
        );
        self.outcome_tally.completed += 1;
        Ok(())
    }
}
