//! A payment over any corridor, and what came of it.

use std::time::Duration;

use alloy::primitives::U256;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

use events::{AssetId, Family, PaymentEvent, PaymentId};

use super::Environment;
use crate::{
    keys::Role,
    payer::{Payer, PaymentSpec},
};

impl Environment<'_> {
    /// Makes a payment that completes, and checks that the recipient has all of it. The spec is given another request id.
    pub(super) async fn arrives(&mut self, title: &str, payer: &Payer, spec: PaymentSpec) -> Result<PaymentId> {
        let number = self.title(title);
        let spec = PaymentSpec { request_id: format!("showcase-{number}"), ..spec };
        self.pays(payer, &spec).await.with_context(|| format!("payment {number}"))
    }

    async fn pays(&mut self, payer: &Payer, spec: &PaymentSpec) -> Result<PaymentId> {
        let body = payer.sign(&self.base, spec).await?;
        if spec.source.chain().family() == Some(Family::Tron) {
            let messages = body["sender_auth"]["signed_messages"].as_array().into_iter().flatten();
            let functions = messages.filter_map(|message| message["payload"]["function"].as_str()?.split('(').next());
            let functions: Vec<&str> = functions.collect();
            println!("   payer signed its own {}, which are sent when a quote has won", functions.join(" and "));
        }
        self.delivers(spec, &body).await
    }

    /// Submits what was signed, and checks that the payment completes and the recipient has all of it.
    pub(super) async fn delivers(&mut self, spec: &PaymentSpec, body: &Value) -> Result<PaymentId> {
        let before = self.received(&spec.destination).await?;
        let answer = self.submit(body, Duration::from_secs(30)).await?;
        ensure!(answer.text("status") == "completed", "not completed: {}", answer.body);
        let received = self.received(&spec.destination).await? - before;
        ensure!(received == spec.amount.get(), "recipient received {received}, not {}", spec.amount);
        self.outcome_tally.completed += 1;
        let payment_id = self.payment_id(&answer)?;
        self.timeline_until(&payment_id, |event| matches!(event, PaymentEvent::EscrowReleased(_))).await?;
        println!("   recipient received exactly {received}");
        println!("   curl -s {}/v1/payments/{payment_id}/timeline\n", self.base);
        Ok(payment_id)
    }

    /// What the recipient holds of an asset, on any chain.
    async fn received(&self, asset: &AssetId) -> Result<U256> {
        if let Some(solana) = &self.network.solana {
            let account = Role::Recipient.solana_account();
            if *asset == solana.coin()? {
                return Ok(U256::from(solana.dev.lamports(&account).await?));
            }
            for (token, id) in [(&solana.token, solana.token()?), (&solana.token_2022, solana.token_2022()?)] {
                if *asset == id {
                    return Ok(U256::from(solana.dev.token_balance(token, &account).await?));
                }
            }
        }
        if let Some(tron) = &self.network.tron {
            if *asset == tron.coin()? {
                return Ok(U256::from(tron.dev.balance(&Role::Recipient.tron_account()).await?));
            }
            if *asset == tron.token()? {
                return tron.balance(Role::Recipient).await;
            }
        }
        ensure!(*asset == self.network.destination.token()?, "nobody is paid in {asset}");
        self.recipients_balance().await
    }
}
