//! The gateway's own release on EVM chains: it pays the settler whatever has become of it, is refused where the escrow takes none, and
//! where somebody else's comes first its transaction is given up by proof.

use std::slice::from_ref;

use anyhow::{Result, bail};
use serde_json::json;

use chains_evm::{
    adapter::{EvmChain, Keys},
    attest,
    auditor::check_prepared,
    node::Node,
};
use escrow_abi::contracts::address;
use sagas::ports::{Chains, EscrowState, ExpectedTerms, PrepareError, RefundOrder, ReleaseOrder, TransactionState};

use crate::support::{
    liar::Liar,
    release::{order, refused, statement},
    *,
};

async fn attested(payment: &Payment) -> Result<String> {
    let escrow = address(&payment.escrow.contract)?;
    Ok(attest::sign_statement(&key(3).into(), &statement(&payment.deposit()), 31_337, escrow).await?)
}

#[tokio::test]
async fn the_gateway_pays_a_settler_that_is_gone_and_only_in_time() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("gone")?;
    let release = order(&payment.deposit(), attested(&payment).await?);
    assert!(refused(&world.chains, &release).await?.starts_with("StateNotAllowed"), "nothing is reserved");
    world.secure(&payment).await?;
    let before = world.source.balance(&world.settler).await?;

    let forged = attest::sign_statement(
        &key(4).into(),
        &statement(&payment.deposit()),
        31_337,
        address(&payment.escrow.contract)?,
    )
    .await?;
    refused(&world.chains, &ReleaseOrder { attestation: forged, ..release.clone() }).await?;

    let prepared = world.chains.prepare_release(&release, 1).await?;
    assert_eq!(check_prepared(&prepared), Ok(()));
    // Nothing is sent before it is journaled; asked again, as after a crash, it has the same nonce.
    assert_eq!(world.source.balance(&world.settler).await?, before);
    let again = world.chains.prepare_release(&release, 1).await?;
    assert_eq!((again.validity, &again.sender), (prepared.validity, &prepared.sender));
    assert_eq!(world.chains.transaction_state(from_ref(&prepared)).await?, TransactionState::Pending);
    world.chains.broadcast(&prepared).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    let state = world.chains.escrow_state(payment.id(), &payment.escrow).await?;
    let EscrowState::Released(inclusion) = state else { bail!("{state:?}") };
    assert_eq!(inclusion.transaction_hash, prepared.transaction_hash);
    assert_eq!(world.source.balance(&world.settler).await?, before + PRICE);
    assert!(refused(&world.chains, &release).await?.starts_with("StateNotAllowed"));

    let late = world.payment("late")?;
    world.secure(&late).await?;
    let release = order(&late.deposit(), attested(&late).await?);
    world.source.pass(late.escrow.refund_after).await?;
    assert!(refused(&world.chains, &release).await?.starts_with("ReleaseWindowClosed"));
    assert_eq!(world.chains.escrow_state(late.id(), &late.escrow).await?, EscrowState::Lapsed);
    Ok(())
}

#[tokio::test]
async fn a_release_of_the_settlers_that_comes_first_is_found_and_the_gateways_is_given_up() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("overtaken")?;
    world.secure(&payment).await?;
    let before = world.source.balance(&world.settler).await?;
    let attestation = attested(&payment).await?;
    let prepared = world.chains.prepare_release(&order(&payment.deposit(), attestation.clone()), 1).await?;
    // The settler's own goes into the block before.
    let settling = chains_evm::settler::SettlerChain::new(world.source.node.clone(), world.settler.clone());
    let theirs = settling.release(payment.id(), &payment.escrow, &attestation).await?.transaction_hash;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    let state = world.chains.escrow_state(payment.id(), &payment.escrow).await?;
    let EscrowState::Released(inclusion) = state else { bail!("{state:?}") };
    assert_eq!(inclusion.transaction_hash, theirs);
    assert_eq!(world.source.balance(&world.settler).await?, before + PRICE);
    // It came too late, used its nonce, and nothing waits behind it.
    let state = world.chains.transaction_state(from_ref(&prepared)).await?;
    let TransactionState::Dead { evidence } = state else { bail!("{state:?}") };
    assert!(evidence.contains(&prepared.transaction_hash), "{evidence}");
    world.secure(&world.payment("next")?).await.map(drop)
}

/// The journal has the terms, so a gateway that was started anew needs no node that still tells the events of its deposits.
#[tokio::test]
async fn a_gateway_that_was_started_anew_ends_its_payments_without_their_events() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("restarted")?;
    world.secure(&payment).await?;
    let liar = Liar::before(&world.source.anvil.url()).await?;
    liar.say("eth_getLogs", json!([]));
    let started = || -> Result<EvmChain> {
        let mut config = world.source.config.clone();
        config.common.rpc_url = liar.url.clone();
        let keys = Keys {
            reserver: key(2).into(),
            draining_reservers: Vec::new(),
            submitters: vec![world.submitter.clone().into()],
            exit_submitters: Vec::new(),
            draining_submitters: Vec::new(),
        };
        let (ledger, budgets, clock) = (world.ledger.clone(), world.budgets.clone(), world.clock.clone());
        Ok(EvmChain::new(Node::connect(&config)?, Some(keys), ledger, budgets, clock)?)
    };
    let deposit = payment.deposit();

    let gateway = started()?;
    let release = order(&deposit, attested(&payment).await?);
    let untold = gateway.prepare_release(&release, 1).await;
    assert!(matches!(untold, Err(PrepareError::Transient(_))), "{untold:?}");
    // Before there is an award, nothing is deposited.
    gateway.expect_terms(&ExpectedTerms { reservation: None, ..deposit.expected_terms() });
    gateway.escrow_state(payment.id(), &payment.escrow).await.unwrap_err();
    gateway.expect_terms(&deposit.expected_terms());
    assert_eq!(gateway.escrow_state(payment.id(), &payment.escrow).await?, EscrowState::Held);
    gateway.prepare_release(&release, 1).await?;

    world.source.pass(payment.escrow.refund_after).await?;
    let gateway = started()?;
    gateway.expect_terms(&deposit.expected_terms());
    let refund = RefundOrder { payment_id: payment.id().clone(), escrow: payment.escrow.clone(), non_delivery: None };
    gateway.prepare_refund(&refund, 1).await?;
    Ok(())
}
