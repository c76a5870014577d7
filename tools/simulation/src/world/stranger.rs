//! A stranger who cancels escrows with non-deliveries that anybody can have: as soon as verifiers give one, and with those of
//! reservations that others have followed.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use events::Hash32;

use super::{THIRD_PARTY, World, invariants::require, thief::Prey, verifiers::Question};
use crate::{coverage, family::EscrowCall, random::RandomSource};

/// Cancels for as long as it runs, where it is planned.
pub async fn meddle(world: Arc<World>) {
    if !world.plan.lapses.stranger_cancels {
        return;
    }
    let random = world.random("stranger");
    loop {
        sleep(Duration::from_millis(random.number(2_000..=25_000))).await;
        let prey = world.invariants().prey(&world);
        if prey.is_empty() {
            continue;
        }
        let prey = &prey[random.number(0..=prey.len() as u64 - 1) as usize];
        let told = match random.chance(400) {
            true => asked(&world, prey).await,
            false if prey.nondeliveries.is_empty() => None,
            false => Some(random.pick(&prey.nondeliveries.iter().collect::<Vec<_>>()).clone()),
        };
        if let Some((quote_hash, attestation)) = told {
            cancel(&world, &random, prey, quote_hash, &attestation);
        }
    }
}

/// What the verifiers give whoever asks them, while the promise lasts too.
async fn asked(world: &World, prey: &Prey) -> Option<(Hash32, String)> {
    let quote_hash = prey.quote.hash();
    if world.verifiers_are_away() {
        return None;
    }
    let award = world.auctions.award_of(&prey.payment_id, quote_hash)?;
    let attestation = world.verifiers().word(world, &award.case, Question::NonDelivery).await?;
    Some((quote_hash, attestation))
}

fn cancel(world: &World, random: &RandomSource, prey: &Prey, quote_hash: Hash32, attestation: &str) {
    let Ok(Some(record)) = prey.source.escrow_record(&prey.payment_id) else { return };
    let is_over = record.quote_hash != quote_hash;
    // A reservation that stands goes on more often than not.
    if !is_over && random.chance(500) {
        return;
    }
    let call = EscrowCall::Cancel { non_delivery: attestation.to_owned() };
    if is_over {
        coverage::fault("stranger cancels with the word about an older reservation");
        let answer = prey.source.attempt(THIRD_PARTY, &prey.payment_id, &call);
        world.judge(require(answer.is_err(), "a word about one reservation does not end another", || {
            format!("{} is cancelled by {call:?}", prey.payment_id)
        }));
    } else {
        coverage::fault("stranger cancels");
    }
    world.note(format!("a stranger cancels {}", prey.payment_id));
    // A refusal concerns the stranger alone.
    drop(prey.source.send(THIRD_PARTY, &prey.payment_id, &call));
}
