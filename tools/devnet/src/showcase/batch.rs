//! The payments of a batch: one signature for all of them.

use alloy::primitives::U256;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use events::{PaymentEvent, PaymentId};

use super::{Environment, ordinary};
use crate::payer::PaymentSpec;

/// Payments of the batch.
const WAGES: usize = 3;

impl Environment<'_> {
    /// Pays three at once, and checks that each got what it is owed.
    pub(super) async fn pays_a_batch(&mut self) -> Result<()> {
        let number = self.title("Three payments for one signature");
        let (before, held) = (self.recipients_balance().await?, self.payers_balance().await?);
        let spec = ordinary(self.network, "")?;
        let specs =
            (1..=WAGES).map(|wage| PaymentSpec { request_id: format!("showcase-{number}-{wage}"), ..spec.clone() });
        let payments: Vec<Value> = specs.map(|spec| self.payer.quote_request(&spec)).collect();
        let body = self.payer.sign_batch(&self.base, json!({"payments": payments})).await?;
        println!("   payer signed PermitBatchWitnessTransferFrom (EVM_PERMIT2_BATCH)");
        let answer = self.payer.submit_batch(&self.base, &body).await?;
        ensure!(answer.status == 200, "HTTP {}: {}", answer.status, answer.body);
        let accepted = answer.body["payments"].as_array().context("no payments")?;
        for each in accepted {
            let id = each["payment"]["payment_id"].as_str().with_context(|| format!("refused: {each}"))?;
            let payment_id: PaymentId = id.parse()?;
            println!("   POST /v1/payments/batches → {payment_id} {}", each["payment"]["status"]);
            self.timeline_until(&payment_id, |event| matches!(event, PaymentEvent::EscrowReleased(_))).await?;
            self.outcome_tally.completed += 1;
        }
        let (received, spent) = (self.recipients_balance().await? - before, held - self.payers_balance().await?);
        let due = spec.amount.get() * U256::from(WAGES);
        ensure!(accepted.len() == WAGES && received == due, "the recipients received {received}, not {due}");
        println!("   recipients received exactly {received}; payer spent {spent}\n");
        Ok(())
    }
}
