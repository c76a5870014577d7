//! The payment that does without one of its verifiers.

use anyhow::{Context, Result, ensure};

use events::{Account, Family, PaymentEvent};

use super::{Environment, ordinary};
use crate::{keys::Role, network::Verifiers};

impl Environment<'_> {
    /// Kills a verifier that is not needed, where there is one, makes a payment that is released all the same, and starts the
    /// verifier again.
    pub(super) async fn misses_a_verifier(&mut self) -> Result<()> {
        let Verifiers { members, threshold } = self.network.options().verifiers;
        if members == threshold {
            return Ok(());
        }
        self.network.kill_verifier(members).await?;
        let title = format!("A payment that {threshold} of {members} verifiers have to attest, of which one is killed");
        let (payer, spec) = (self.payer.clone(), ordinary(self.network, "")?);
        let payment_id = self.arrives(&title, &payer, spec).await?;
        self.network.start_verifier(members).await?;
        let killed: Account = Role::verifier(members).account_on(Family::Evm).parse()?;
        let timeline = self.auditor.timeline(&payment_id).await?;
        let attested = timeline.iter().filter_map(|entry| match &entry.event {
            PaymentEvent::DeliveryAttested(attested) => Some(&attested.member),
            _ => None,
        });
        let attested: Vec<_> = attested.collect();
        ensure!(attested.len() == usize::from(threshold) && !attested.contains(&&killed), "attested by {attested:?}");
        let released = timeline.iter().any(|entry| matches!(entry.event, PaymentEvent::EscrowReleased(_)));
        released.then_some(()).context("the escrow was not released")?;
        println!("   {threshold} verifiers of {members} attested the delivery, and none was {killed}\n");
        Ok(())
    }
}
