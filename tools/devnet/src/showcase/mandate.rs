//! The payments of a mandate: the payer signs once, the merchant asks.

use std::time::Duration;

use alloy::{
    primitives::{U256, keccak256},
    signers::local::PrivateKeySigner,
};
use anyhow::{Context, Result, ensure};
use serde_json::json;

use events::{PaymentEvent, PaymentId};

use super::{Environment, ordinary};
use crate::payer::PaymentSpec;

/// Payments in the first month.
const CHARGES: u32 = 2;
const MONTH: u32 = 30 * 86_400;

impl Environment<'_> {
    /// Has a merchant ask for two payments of a month, and shows that there is no third.
    pub(super) async fn pays_by_a_mandate(&mut self) -> Result<()> {
        let number = self.title("A mandate: two payments a month, signed once");
        let before = self.recipients_balance().await?;
        let spec = ordinary(self.network, "")?;
        let merchant = PrivateKeySigner::from_bytes(&keccak256("merchant"))?;
        let (most, least) = (spec.cap.get() * U256::from(CHARGES), spec.amount.get() * U256::from(CHARGES));
        let mandate = json!({
            "merchant": merchant.address(),
            "amount": most.to_string(),
            "least": least.to_string(),
            "period_seconds": MONTH,
            "periods": 12,
            "salt": keccak256(format!("showcase-{number}")),
        });
        let prepared = self.payer.prepare_mandate(&self.base, &spec, &mandate).await?;
        let payload = self.payer.sign_mandate(&self.base, &spec, &prepared).await?;
        println!("   payer signed PermitSingle for the mandate {}", prepared.text("address"));
        for charge in 1..=CHARGES {
            let spec = PaymentSpec { request_id: format!("showcase-{number}-{charge}"), ..spec.clone() };
            let body = self.payer.charge(&self.base, &merchant, &spec, &payload).await?;
            let answer = self.payer.submit(&self.base, &body, Duration::ZERO).await?;
            ensure!(answer.status == 200, "HTTP {}: {}", answer.status, answer.body);
            let payment_id: PaymentId = answer.text("payment_id").parse()?;
            println!("   merchant signed Charge: POST /v1/payments → {payment_id} {}", answer.text("status"));
            self.timeline_until(&payment_id, |event| matches!(event, PaymentEvent::EscrowReleased(_))).await?;
            self.outcome_tally.completed += 1;
        }
        let third = PaymentSpec { request_id: format!("showcase-{number}-3"), ..spec.clone() };
        let refused = self.payer.charge(&self.base, &merchant, &third, &payload).await;
        let reason = refused.err().context("a third payment of the month was prepared")?.to_string();
        ensure!(reason.contains("INSUFFICIENT_ALLOWANCE"), "{reason}");
        let received = self.recipients_balance().await? - before;
        ensure!(received == least, "the recipient received {received}, not {least}");
        println!("   recipient received exactly {received}; a third payment of the month is refused\n");
        Ok(())
    }
}
