//! Payments by the real adapters, settler and verifier, without any network.

use std::time::Duration;

use alloy::{primitives::B256, sol_types::SolCall};
use anyhow::{Context, Result, bail};

use chains::{escrow::State, settler::DeliveryChain, verifier::Outcome};
use escrow_abi::contracts::{DevToken, GatewayEscrow};
use events::VerifierSet;
use sagas::ports::{
    Chains, DeliveryState, DepositState, EscrowState, ReassignmentOrder, ReassignmentState, ReleaseOrder, Reservation,
    Statement,
};
use simulation::{chain::PaymentEvents, family::secp256k1};

use crate::support::*;

/// Waits until the escrow stands as `is` says.
async fn escrow(world: &World, payment: &Payment, is: impl Fn(&EscrowState) -> bool) -> Result<EscrowState> {
    eventually("the escrow's state", || async {
        let state = world.chains.escrow_state(payment.id(), &payment.escrow).await?;
        Ok(is(&state).then_some(state))
    })
    .await
}

async fn delivered(world: &World, payment: &Payment) -> Result<()> {
    world.destination_settler.deliver(&payment.delivery()).await?;
    eventually("the delivery's depth", || async {
        match world.chains.delivery_state(&payment.delivery()).await? {
            DeliveryState::Final(_) => Ok(Some(())),
            DeliveryState::Seen(_) => Ok(None),
            other => bail!("{other:?}"),
        }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_payment_goes_all_the_way_and_what_was_deposited_beyond_its_price_comes_back() -> Result<()> {
    let world = World::new()?;
    let payment = world.payment("order").await?;
    let approval = payment.tron().approval.clone().context("no approval")?;
    let all = secure(&world.chains, &payment.deposit()).await?;
    assert_eq!(all.len(), 1, "the first reservation lands");
    let contract = lock(&world.source).contracts().escrow;
    assert_eq!(tokens(&world.source, contract), CAP);
    {
        // One after the other, each in a block of its own.
        let source = lock(&world.source);
        let ids = [&approval.transaction_hash, &payment.tron().deposit.transaction_hash, &all[0].transaction_hash];
        let numbers = ids.map(|id| source.transaction(id.parse().unwrap()).map(|mined| mined.number));
        assert!(numbers[0] < numbers[1] && numbers[1] < numbers[2] && numbers[0].is_some(), "{numbers:?}");
    }

    delivered(&world, &payment).await?;
    let Outcome::Attested(attestation) = world.verifier.attest_delivery(&payment.case()).await? else {
        bail!("not attested")
    };
    let released = world.source_settler.release(payment.id(), &payment.escrow, &attestation).await?;
    let EscrowState::Released(inclusion) =
        escrow(&world, &payment, |state| matches!(state, EscrowState::Released(_))).await?
    else {
        bail!("not released")
    };
    assert_eq!(inclusion.transaction_hash, released);

    assert_eq!(tokens(&world.source, contract), 0);
    assert_eq!(tokens(&world.source, payer().address()), TOKENS - PRICE);
    assert_eq!(tokens(&world.source, settler().address()), TOKENS + PRICE);
    assert_eq!(tokens(&world.destination, recipient()), DELIVERED);
    assert_eq!(tokens(&world.destination, settler().address()), TOKENS - DELIVERED);
    let (source, destination) = (lock(&world.source), lock(&world.destination));
    assert_conserved(&source);
    assert_conserved(&destination);
    let events = PaymentEvents { deposited: 1, reserved: 1, released: 1, ..PaymentEvents::default() };
    assert_eq!(source.payment_events(payment.id()), events);
    assert_eq!(destination.payment_events(payment.id()), PaymentEvents { fulfilled: 1, ..PaymentEvents::default() });
    assert_eq!(source.escrow_record(payment.id())?.map(|record| record.state), Some(State::Released));
    assert_eq!(destination.escrow_record(payment.id())?, None);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_gateway_brings_a_release_itself() -> Result<()> {
    let world = World::new()?;
    let payment = world.payment("order").await?;
    secure(&world.chains, &payment.deposit()).await?;
    delivered(&world, &payment).await?;
    let Outcome::Attested(attestation) = world.verifier.attest_delivery(&payment.case()).await? else {
        bail!("not attested")
    };
    let order = ReleaseOrder {
        payment_id: payment.id().clone(),
        escrow: payment.escrow.clone(),
        quote_hash: payment.quote.hash(),
        payout_account: holder(&settler()),
        attestation,
    };
    let release = world.chains.prepare_release(&order, 1).await?;
    world.chains.broadcast(&release).await?;
    escrow(&world, &payment, |state| matches!(state, EscrowState::Released(_))).await?;
    assert_eq!(tokens(&world.source, settler().address()), TOKENS + PRICE);
    assert_eq!(tokens(&world.source, payer().address()), TOKENS - PRICE);
    assert_conserved(&lock(&world.source));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_nobody_delivers_is_cancelled_on_the_verifiers_word() -> Result<()> {
    let world = World::new()?;
    let payment = world.payment("order").await?;
    secure(&world.chains, &payment.deposit()).await?;
    let non_delivery = eventually("the verifier's word", || async {
        Ok(match world.verifier.attest_non_delivery(&payment.case()).await? {
            Outcome::Attested(word) => Some(word),
            _ => None,
        })
    })
    .await?;
    assert!(world.now() > payment.fulfill_by());
    let cancel = world.chains.prepare_refund(&payment.refund(Some(non_delivery)), 1).await?;
    world.chains.broadcast(&cancel).await?;
    escrow(&world, &payment, |state| matches!(state, EscrowState::Refunded(_))).await?;
    assert!(world.now() < payment.escrow.refund_after, "ahead of its time");
    assert_eq!(tokens(&world.source, payer().address()), TOKENS);
    assert_eq!(lock(&world.source).payment_events(payment.id()).refunded, 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deposit_that_nobody_delivers_comes_back_in_its_time() -> Result<()> {
    let world = World::new()?;
    let payment = world.payment("order").await?;
    secure(&world.chains, &payment.deposit()).await?;
    escrow(&world, &payment, |state| *state == EscrowState::Lapsed).await?;
    assert_eq!(tokens(&world.source, payer().address()), TOKENS - CAP);
    let refund = world.chains.prepare_refund(&payment.refund(None), 1).await?;
    world.chains.broadcast(&refund).await?;
    escrow(&world, &payment, |state| matches!(state, EscrowState::Refunded(_))).await?;
    assert_eq!(tokens(&world.source, payer().address()), TOKENS);
    assert_conserved(&lock(&world.source));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deposit_without_a_reservation_is_stranded_and_one_that_never_came_has_expired() -> Result<()> {
    let world = World::new()?;
    let (came, missing) = (world.payment("came").await?, world.payment("missing").await?);
    for own in came.tron().approval.iter().chain([&came.tron().deposit]) {
        lock(&world.source).hand_over(&bytes(own))?;
        tokio::time::sleep(Duration::from_secs(4)).await;
    }
    assert_eq!(lock(&world.source).payment_events(came.id()).deposited, 1);
    // The reserver's signature was never used.
    let end = async |payment: &Payment| {
        let prepared = secured_nowhere(&world, payment).await?;
        eventually("an end", || async {
            Ok(match world.chains.deposit_state(&payment.deposit(), std::slice::from_ref(&prepared)).await? {
                DepositState::Pending | DepositState::Superseded { .. } => None,
                other => Some(other),
            })
        })
        .await
    };
    let DepositState::Stranded(opened) = end(&came).await? else { bail!("not stranded") };
    assert_eq!(opened.inclusion.transaction_hash, came.tron().deposit.transaction_hash);
    assert!(matches!(end(&missing).await?, DepositState::Expired { .. }));
    assert!(world.now() > came.escrow.reserve_deadline);
    let after = missing.escrow.reserve_deadline;
    assert!(world.chains.deposit_ruled_out(missing.id(), &missing.escrow, after).await?);
    assert!(!world.chains.deposit_ruled_out(came.id(), &came.escrow, after).await?);
    Ok(())
}

/// A reservation that is prepared for another payment, and so lands nowhere here.
async fn secured_nowhere(world: &World, payment: &Payment) -> Result<events::event::TransactionPrepared> {
    let other = world.payment(&format!("other than {}", payment.id())).await?;
    let mut prepared = reservation(&world.chains, &other.deposit(), 1).await?;
    prepared.transaction_hash = B256::repeat_byte(9).to_string();
    Ok(prepared)
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_reservation_is_reassigned_to_another_settler() -> Result<()> {
    let world = World::new()?;
    let payment = world.payment("order").await?;
    let order = payment.deposit();
    secure(&world.chains, &order).await?;
    // A promise that ends early leaves time for another.
    let non_delivery = eventually("the verifier's word", || async {
        Ok(match world.verifier.attest_non_delivery(&payment.case()).await? {
            Outcome::Attested(word) => Some(word),
            _ => None,
        })
    })
    .await?;
    let next = Reservation {
        quote_hash: events::Hash32([3; 32]),
        payout_account: holder(&secp256k1("next settler")),
        source_amount: (PRICE - 1).to_string().parse()?,
        fulfill_by: payment.escrow.fulfillment_deadline,
    };
    let reassignment = ReassignmentOrder {
        payment_id: payment.id().clone(),
        terms: order.terms.clone(),
        terms_hash: order.terms_hash,
        escrow: order.escrow.clone(),
        authorization: order.authorization.clone(),
        deposited: CAP.to_string().parse()?,
        lapsed: order.reservation.clone(),
        reservation: next.clone(),
        non_delivery,
    };
    assert!(world.chains.takes_reassignments(&payment.escrow));
    let prepared = world.chains.prepare_reassignment(&reassignment, 1).await?;
    world.chains.broadcast(&prepared).await?;
    let ReassignmentState::Reassigned(inclusion) = eventually("the reassignment", || async {
        let state = world.chains.reassignment_state(&reassignment).await?;
        Ok((state != ReassignmentState::Open).then_some(state))
    })
    .await?
    else {
        bail!("not reassigned")
    };
    assert_eq!(inclusion.transaction_hash, prepared.transaction_hash);
    let source = lock(&world.source);
    let record = source.escrow_record(payment.id())?.context("no record")?;
    assert_eq!((record.quote_hash, record.settler), (next.quote_hash, Some(next.payout_account)));
    assert_eq!(source.payment_events(payment.id()).reassigned, 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_payment_under_a_set_of_verifiers_is_released_by_as_many_as_its_threshold_says() -> Result<()> {
    let world = World::new()?;
    let keys = ["verifier 0", "verifier 1", "verifier 2"].map(secp256k1);
    let members = keys
        .iter()
        .map(|key| events::VerifierMember { account: holder(key), endpoint: format!("http://{}", holder(key)) });
    let set = VerifierSet::new(2, members.collect())?;
    let mut source = world.source_node.config().clone();
    source.common.releaser = set.id().context("no id")?;
    let transport = simulation::tron::TronTransport::honest(world.source.clone());
    let node = transport.connect(&source)?;
    let destination = world.destination_node.config();
    let asset = destination.common.assets[0].asset_identifier.clone();
    let to = events::OwnedAsset::new(asset, &chains_tron::address::text(recipient()))?;
    let to = (to, destination.common.fulfillment_proxy.clone());
    let payment = sign(&node, world.now(), "order", &chains_tron::authorization::Choice::default(), to).await?;
    secure(&world.chains, &payment.deposit()).await?;
    delivered(&world, &payment).await?;
    let statement = Statement::Delivery {
        payment_id: payment.id().clone(),
        quote_hash: payment.quote.hash(),
        payout_account: holder(&settler()),
    };
    let number = u64::from(lock(&world.source).contracts().number);
    let contract = lock(&world.source).contracts().escrow;
    let preimage = escrow_abi::attest::statement_preimage(&statement, number, contract, chains_tron::address::address)?;
    let mut words = Vec::new();
    for key in &keys {
        words.push((holder(key), escrow_abi::attest::sign_preimage(&key.clone().into(), &preimage).await?));
    }
    let word = |index: usize| (&words[index].0, words[index].1.as_str());
    let too_few = set.attestation([word(1)]);
    assert_eq!(too_few, None);
    let attestation = set.attestation([word(2), word(0)]).context("no attestation")?;
    assert!(world.chains.attestation_holds(&statement, &payment.escrow, &attestation).await?);
    world.source_settler.release(payment.id(), &payment.escrow, &attestation).await?;
    escrow(&world, &payment, |state| matches!(state, EscrowState::Released(_))).await?;
    assert_eq!(tokens(&world.source, settler().address()), TOKENS + PRICE);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn strangers_move_nothing_before_its_time() -> Result<()> {
    let world = World::new()?;
    let payment = world.payment("order").await?;
    secure(&world.chains, &payment.deposit()).await?;
    let stranger = secp256k1("stranger");
    let mut source = lock(&world.source);
    source.fund(stranger.address(), FUNDS);
    let (contract, terms) = (source.contracts().escrow, source.escrow_terms(payment.id())?.0);
    let nobody_signed = vec![1; 65];
    let calls = [
        GatewayEscrow::refundCall { e: terms.clone() }.abi_encode(),
        GatewayEscrow::cancelCall { e: terms.clone(), nonDelivery: nobody_signed.clone().into() }.abi_encode(),
        GatewayEscrow::releaseCall { e: terms, attestation: nobody_signed.into() }.abi_encode(),
        DevToken::transferFromCall { from: contract, to: stranger.address(), value: alloy::primitives::U256::from(1) }
            .abi_encode(),
    ];
    let ids: Vec<_> =
        calls.into_iter().map(|data| source.submit(&stranger, contract, 0, data)).collect::<Result<_, _>>()?;
    let slot = source.head().time_ms + simulation::tron::BLOCK_MS;
    source.mine(slot)?;
    for id in ids {
        assert_eq!(source.transaction(id).context("in no block")?.result, "REVERT");
    }
    assert_eq!(source.escrow_record(payment.id())?.map(|record| record.state), Some(State::Reserved));
    assert_conserved(&source);
    Ok(())
}
