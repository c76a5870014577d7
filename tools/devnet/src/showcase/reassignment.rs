//! The payment whose winner fades after the deposit, and that another settler delivers.

use std::time::Duration;

use anyhow::{Result, bail, ensure};

use events::PaymentEvent;

use super::{Environment, ordinary};
use crate::{payer::PaymentSpec, users::NatsUser};

impl Environment<'_> {
    /// Starts the settler that fades, makes a payment that it wins, and shows who delivers: both others are dearer, so more is deposited
    /// than the winner asks for.
    pub(super) async fn is_reassigned(&mut self) -> Result<()> {
        self.title("A payment whose winner fades after the deposit");
        let _fading = self.network.start_fading_settler().await?;
        let (payers, recipients) = (self.payers_balance().await?, self.recipients_balance().await?);
        let spec = PaymentSpec {
            whitelist: vec![NatsUser::Fading.did(), NatsUser::Settler(2).did(), NatsUser::Settler(3).did()],
            ..ordinary(self.network, "showcase-7")?
        };
        let body = self.payer.sign(&self.base, &spec).await?;
        let answer = self.submit(&body, Duration::ZERO).await?;
        let payment_id = self.payment_id(&answer)?;
        self.timeline_until(&payment_id, |event| matches!(event, PaymentEvent::EscrowReleased(_))).await?;
        let mut awarded = Vec::new();
        for entry in self.auditor.timeline(&payment_id).await? {
            if let PaymentEvent::QuoteAwarded(quote) = &entry.event {
                let signed = quote.signed_quote()?;
                awarded.push((signed.quote().settler.clone(), signed.quote().source_amount));
            }
        }
        let fading = NatsUser::Fading.did();
        let [(first, _), (second, price)] = &awarded[..] else { bail!("awarded {awarded:?}") };
        ensure!(*first == fading && *second != fading, "won by {first} and {second}");
        let received = self.recipients_balance().await? - recipients;
        ensure!(received == spec.amount.get(), "recipient received {received}, not {}", spec.amount);
        let paid = payers - self.payers_balance().await?;
        ensure!(paid == price.get(), "the payer paid {paid}, and the settler that delivered asked for {price}");
        self.outcome_tally.completed += 1;
        println!("   {second} delivered in its place, for {price}; the rest of the deposit is back\n");
        Ok(())
    }
}
