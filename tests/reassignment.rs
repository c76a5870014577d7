//! A winner that accepts its award, is reserved for, and does not deliver: another settler delivers out of the same escrow, whatever
//! the source chain, and where nobody else does, the payer has its money back before the window.

use anyhow::{Result, ensure};
use serde_json::Value;

use devnet::{network::Options, payer::PaymentSpec, solana::SolanaOptions, tron::TronOptions, users::NatsUser};
use events::{Did, PaymentEvent, PaymentId, event::RefundDue, quote::reassignment_auction_of};

use crate::support::{solana::*, tron::*, *};

/// Long enough that money that comes back earlier came by the verifier's word.
const REFUND_DELAY_SECONDS: u64 = 300;
/// Price of the second settler, which is dearer than the winner: twenty basis points more than what is delivered.
const NEXT_PRICE: i128 = 25_050_000;
/// The escrow's event.
const REASSIGNED: &str = "Reassigned(bytes32,bytes32,bytes32)";

/// A payment that the fading settler wins, and that `others` may deliver.
fn won_by_fading(spec: PaymentSpec, others: &[usize]) -> PaymentSpec {
    let others = others.iter().map(|number| NatsUser::Settler(*number).did());
    PaymentSpec { whitelist: std::iter::once(NatsUser::Fading.did()).chain(others).collect(), ..spec }
}

impl World {
    /// Whose quotes were awarded, in order, each with its auction.
    async fn awarded(&self, payment_id: &PaymentId) -> Result<Vec<(Did, String)>> {
        let events = self.events(payment_id, "QuoteAwarded").await?;
        let awarded = events.into_iter().map(|event| match event {
            PaymentEvent::QuoteAwarded(awarded) => {
                let signed = awarded.signed_quote()?;
                Ok((signed.quote().settler.clone(), signed.quote().auction_id.clone()))
            }
            other => anyhow::bail!("{other:?}"),
        });
        awarded.collect()
    }

    /// Checks that the payment was won by the settler that fades, and completed by settler `n` out of the same escrow.
    async fn reassigned_to(&self, payment_id: &PaymentId, n: usize) -> Result<()> {
        self.completed(payment_id).await?;
        let types = self.types(payment_id).await?;
        for (name, count) in [("EscrowSecured", 1), ("ReservationLapsed", 1), ("EscrowReassigned", 1), ("Failed", 0)] {
            let found = types.iter().filter(|of| **of == name).count();
            ensure!(found == count, "{found} {name} of {payment_id}: {types:?}");
        }
        let awarded = self.awarded(payment_id).await?;
        let second = (NatsUser::Settler(n).did(), reassignment_auction_of(payment_id, 1));
        ensure!(awarded.len() == 2 && awarded[0].0 == NatsUser::Fading.did() && awarded[1] == second, "{awarded:?}");
        self.audited(payment_id).await
    }
}

#[tokio::test]
async fn the_next_settler_delivers_what_the_winner_did_not() -> Result<()> {
    let mut world = World::with(|options| Options {
        solana: Some(SolanaOptions::default()),
        tron: Some(TronOptions::default()),
        refund_delay_seconds: REFUND_DELAY_SECONDS,
        ..options
    })
    .await?;
    // The gateway learns from an answer of its verifier that this attests out of reassigned escrows.
    let first = world.submit(&world.spec("first")?).await?;
    world.completed(&first).await?;
    let _fading = world.network.start_fading_settler().await?;
    let before = world.balances().await?;

    let payment_id = world.submit(&won_by_fading(world.spec("reassigned")?, &[2, 3])).await?;
    // It dies when the reassignment is signed, which nobody need have seen.
    world.until(&payment_id, "ReassignmentPrepared").await?;
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    let unserved = world.submit(&won_by_fading(world.spec("unserved")?, &[])).await?;
    let spec = won_by_fading(world.spec_from_tron("from-tron")?, &[1]);
    let from_tron = world.submit_by(&tron_payer()?, &spec).await?;
    let spec = won_by_fading(world.spec_from_solana("from-solana")?, &[1]);
    let from_solana = world.submit_by(&solana_payer()?, &spec).await?;

    world.reassigned_to(&payment_id, 2).await?;
    world.settled_once(std::slice::from_ref(&payment_id)).await?;
    let reassigned = logs(&world.network.source, REASSIGNED, &payment_id).await?;
    ensure!(reassigned == 1, "it was reassigned {reassigned} times");
    world.reassigned_to(&from_tron, 1).await?;
    world.reassigned_to(&from_solana, 1).await?;

    let due = world.failed(&unserved).await?;
    ensure!(matches!(due, RefundDue::ByNonDelivery { .. }), "{due:?}");
    world.until(&unserved, "EscrowRefunded").await?;
    ensure!(world.awarded(&unserved).await?.len() == 1, "nobody else may win");
    world.audited(&unserved).await?;

    // What was deposited beyond the price of who delivered is back, and so is all of what nobody delivered.
    let moved = moves(&before, &world.balances().await?);
    let amount = i128::from(AMOUNT);
    ensure!(moved["payer"] == -NEXT_PRICE, "{moved:?}");
    ensure!(moved["recipient"] == 3 * amount, "{moved:?}");
    ensure!(!moved.contains_key("escrow"), "{moved:?}");

    let url = format!("{}/v1/settlers/{}", world.base(0), NatsUser::Fading.did());
    let record: Value = reqwest::get(url).await?.json().await?;
    ensure!(record["missed"] == 4 && record["delivered"] == 0, "{record}");
    Ok(())
}
