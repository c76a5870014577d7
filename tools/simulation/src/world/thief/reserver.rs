//! A thief with the reserver's key, who would have escrows reserved for itself. The verifiers' word it does not have: too few of their
//! keys, words about reservations that are over, or the true word where it lacks the reserver's key.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use escrow_abi::contracts::units;
use events::Hash32;
use sagas::ports::Statement;

use super::{Prey, attestation};
use crate::{
    coverage,
    family::{EscrowCall, Refusal, Reservation, account_of},
    random::RandomSource,
    world::{THIRD_PARTY, World, invariants::require},
};

/// Tries for as long as it runs, where the key is stolen.
pub async fn usurp(world: Arc<World>) {
    if !world.plan.lapses.reserver_is_stolen {
        return;
    }
    let random = world.random("usurper");
    loop {
        sleep(Duration::from_millis(random.number(5_000..=40_000))).await;
        let prey = world.invariants().prey(&world);
        if prey.is_empty() {
            continue;
        }
        let prey = &prey[random.number(0..=prey.len() as u64 - 1) as usize];
        name_itself(&world, &random, prey).await;
    }
}

async fn name_itself(world: &World, random: &RandomSource, prey: &Prey) {
    let Ok(Some(record)) = prey.source.escrow_record(&prey.payment_id) else { return };
    let reserved_for = record.quote_hash;
    let older = prey.nondeliveries.iter().rev().find(|(quote, _)| *quote != reserved_for);
    let present = prey.nondeliveries.iter().rev().find(|(quote, _)| *quote == reserved_for);
    let has_reservers_key = present.is_none() || random.chance(500);
    let said = match (older, present) {
        (_, Some((_, present))) if !has_reservers_key => Some(present.clone()),
        (Some((_, older)), _) if random.chance(500) => Some(older.clone()),
        _ => few(world, random, prey, reserved_for).await,
    };
    let Some(non_delivery) = said else { return };
    let call = EscrowCall::Reassign {
        previous: reserved_for,
        reservation: Reservation {
            quote_hash: Hash32(random.bytes()),
            settler: account_of(THIRD_PARTY, prey.source.family),
            source_amount: record.deposited.map(units).unwrap_or_default(),
            fulfill_by: record.fulfillment_deadline.min(world.seconds() + 100),
        },
        reserver: if has_reservers_key { "reserver" } else { "impostor" }.to_owned(),
        non_delivery,
    };
    let answer = prey.source.attempt(THIRD_PARTY, &prey.payment_id, &call);
    match &answer {
        Err(Refusal::ReservationNotOver) => {
            coverage::fault("stolen key of the reserver is tried before the promise is over");
        }
        Err(Refusal::Releaser) => {
            coverage::fault("stolen key of the reserver is tried without the verifiers' word");
        }
        Err(Refusal::Reserver) => coverage::fault("verifiers' word is tried without the reserver's key"),
        Err(Refusal::Other(_)) | Ok(()) => {}
    }
    world.judge(require(answer.is_err(), "too few keys move nothing", || {
        format!("{} is given to a thief by {call:?}", prey.payment_id)
    }));
    world.note(format!("a thief would have {} reserved for itself", prey.payment_id));
    // A refusal concerns the thief alone.
    drop(prey.source.send(THIRD_PARTY, &prey.payment_id, &call));
}

/// A non-delivery of the reservation that stands, by fewer keys than the escrow needs.
pub(super) async fn few(world: &World, random: &RandomSource, prey: &Prey, quote_hash: Hash32) -> Option<String> {
    let statement = Statement::NonDelivery { payment_id: prey.payment_id.clone(), quote_hash };
    if world.plan.verifiers.is_set() {
        let said = attestation(world, random, &prey.source, &statement).await?;
        return Some(format!("0x{}", hex::encode(said)));
    }
    prey.source.sign("impostor", &statement).await
}
