//! A thief with the reserver's key, who would have escrows reserved for itself. The verifiers' word it does not have: too few of their
//! keys, words about reservations that are over, or the true word where it lacks the reserver's key.

use std::{sync::Arc, time::Duration};

use alloy::{
    primitives::{Address, U256, aliases::U48},
    signers::SignerSync,
    sol_types::{SolCall, SolError, SolStruct},
};
use tokio::time::sleep;

use chains_evm::attest;
use escrow_abi::{
    contracts::{self, GatewayEscrow, word},
    eip712::{self, escrow_domain},
    record::EscrowTerms,
};
use events::Hash32;
use sagas::ports::Statement;

use super::{Prey, attestation};
use crate::{
    coverage,
    random::RandomSource,
    world::{World, invariants::require, signer},
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
    let Ok(EscrowTerms(terms)) = prey.source.lock().escrow_terms(&prey.payment_id) else { return };
    let reserved_for = Hash32(terms.quoteHash.0);
    let older = prey.nondeliveries.iter().rev().find(|(quote, _)| *quote != reserved_for);
    let present = prey.nondeliveries.iter().rev().find(|(quote, _)| *quote == reserved_for);
    let has_reservers_key = present.is_none() || random.chance(500);
    let said = match (older, present) {
        (_, Some((_, present))) if !has_reservers_key => bytes_of(present),
        (Some((_, older)), _) if random.chance(500) => bytes_of(older),
        _ => few(world, random, prey, reserved_for).await,
    };
    let Some(said) = said else { return };
    let latest = contracts::seconds(terms.deposit.fulfillmentDeadline);
    let reservation = GatewayEscrow::Reservation {
        paymentId: word(prey.payment_id.on_chain()),
        quoteHash: random.bytes().into(),
        settler: world.third_party().address(),
        sourceAmount: terms.deposited,
        fulfillBy: U48::from(latest.min(world.seconds() + 100)),
    };
    let key = signer(if has_reservers_key { "reserver" } else { "impostor" });
    let Some(signature) = signed(&key, prey.source.evm_id, prey.source.contracts.escrow, reserved_for, &reservation)
    else {
        return;
    };
    let call = GatewayEscrow::reassignCall {
        e: terms,
        r: reservation,
        reserverSignature: signature.into(),
        nonDelivery: said.into(),
    };
    let data = call.abi_encode();
    let answer = prey.try_out(world, &data);
    let refused = |selector: [u8; 4]| answer.as_ref().is_err_and(|returned| returned.starts_with(&selector));
    if refused(GatewayEscrow::ReservationNotOver::SELECTOR) {
        coverage::fault("stolen key of the reserver is tried before the promise is over");
    }
    if refused(GatewayEscrow::ReleaserSignatureInvalid::SELECTOR) {
        coverage::fault("stolen key of the reserver is tried without the verifiers' word");
    }
    if refused(GatewayEscrow::ReserverSignatureInvalid::SELECTOR) {
        coverage::fault("verifiers' word is tried without the reserver's key");
    }
    world.judge(require(answer.is_err(), "too few keys move nothing", || {
        format!("{} is given to a thief by 0x{}", prey.payment_id, hex::encode(&data))
    }));
    world.note(format!("a thief would have {} reserved for itself", prey.payment_id));
    // A refusal concerns the thief alone.
    drop(prey.source.send(world.third_party(), prey.source.contracts.escrow, U256::ZERO, data.into()));
}

fn bytes_of(attestation: &str) -> Option<Vec<u8>> {
    hex::decode(attestation.trim_start_matches("0x")).ok()
}

/// A non-delivery of the reservation that stands, by fewer keys than the escrow needs.
async fn few(world: &World, random: &RandomSource, prey: &Prey, quote_hash: Hash32) -> Option<Vec<u8>> {
    let statement = Statement::NonDelivery { payment_id: prey.payment_id.clone(), quote_hash };
    if world.plan.verifiers.is_set() {
        return attestation(world, random, &prey.source, &statement).await;
    }
    let (key, escrow) = (signer("impostor").into(), prey.source.contracts.escrow);
    bytes_of(&attest::sign_statement(&key, &statement, prey.source.evm_id, escrow).await.ok()?)
}

fn signed(
    key: &impl SignerSync,
    evm_id: u64,
    escrow: Address,
    previous: Hash32,
    reservation: &GatewayEscrow::Reservation,
) -> Option<Vec<u8>> {
    let GatewayEscrow::Reservation { paymentId, quoteHash, settler, sourceAmount, fulfillBy } = reservation.clone();
    let reservation = eip712::Reservation { paymentId, quoteHash, settler, sourceAmount, fulfillBy };
    let reassignment = eip712::Reassignment { previousQuoteHash: word(previous), reservation };
    let digest = reassignment.eip712_signing_hash(&escrow_domain(evm_id, escrow));
    Some(key.sign_hash_sync(&digest).ok()?.as_bytes().to_vec())
}
