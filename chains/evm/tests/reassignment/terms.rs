//! How the terms of a reassigned escrow are found: by who knows them without the node's events, by anyone else with them.

use alloy::sol_types::SolCall;
use anyhow::{Result, bail};
use serde_json::{Value, json};

use chains::{
    readiness::{Look, ReadinessProbe},
    settler::{DeliveryChain, ReservationState},
    verifier::{Outcome, Verifier},
};
use chains_evm::{
    adapter::{EvmChain, Keys},
    node::Node,
    settler::SettlerChain,
};
use escrow_abi::contracts::GatewayEscrow;
use sagas::ports::{Chains, EscrowState, ReassignmentState, Transient};

use super::{Faded, different};
use crate::support::{
    liar::Liar,
    reassignment::{escrowed, next_quote, reassignment, required},
    *,
};

/// A node of the source that tells no events.
async fn untold(world: &World) -> Result<(Liar, Node)> {
    let liar = Liar::before(&world.source.anvil.url()).await?;
    liar.say("eth_getLogs", json!([]));
    let mut config = world.source.config.clone();
    config.common.rpc_url = liar.url.clone();
    let node = Node::connect(&config)?;
    Ok((liar, node))
}

fn gateway(world: &World, node: Node) -> Result<EvmChain> {
    let keys = Keys {
        reserver: key(2).into(),
        draining_reservers: Vec::new(),
        submitters: vec![world.submitter.clone().into()],
        exit_submitters: Vec::new(),
        draining_submitters: Vec::new(),
    };
    let (ledger, budgets, clock) = (world.ledger.clone(), world.budgets.clone(), world.clock.clone());
    Ok(EvmChain::new(node, Some(keys), ledger, budgets, clock)?)
}

#[tokio::test]
async fn who_holds_the_journal_needs_no_events_before_a_reassignment_nor_after_it() -> Result<()> {
    let faded = Faded::over().await?;
    let (id, plan) = (faded.first.id(), &faded.first.escrow);
    let (liar, node) = untold(&faded.world).await?;
    let chains = gateway(&faded.world, node)?;
    chains.escrow_state(id, plan).await.unwrap_err();
    // The order tells both.
    assert_eq!(chains.reassignment_state(&faded.order).await?, ReassignmentState::Open);
    let prepared = chains.prepare_reassignment(&faded.order, 1).await?;
    chains.broadcast(&prepared).await?;
    faded.world.source.mine(1 + DEPTH).await?;
    assert_eq!(chains.escrow_state(id, plan).await?, EscrowState::Held);
    // Where it is only the node can say.
    chains.reassignment_state(&faded.order).await.unwrap_err();
    liar.be_honest();
    let state = chains.reassignment_state(&faded.order).await?;
    assert!(matches!(state, ReassignmentState::Reassigned(_)), "{state:?}");

    // A gateway that was started anew is told by what it has in its journal.
    let (_liar, node) = untold(&faded.world).await?;
    let chains = gateway(&faded.world, node)?;
    chains.expect_terms(&faded.order.terms_before());
    chains.escrow_state(id, plan).await.unwrap_err();
    chains.expect_terms(&faded.order.terms_after());
    assert_eq!(chains.escrow_state(id, plan).await?, EscrowState::Held);
    Ok(())
}

#[tokio::test]
async fn a_verifier_asks_for_events_only_where_the_deposit_is_not_what_the_quote_asks_for() -> Result<()> {
    let faded = Faded::over().await?;
    let world = &faded.world;
    faded.reassign().await?;
    let (liar, node) = untold(world).await?;
    let verifier = Verifier::default().with_chains([node.clone(), world.destination.node.clone()], Some(key(3).into()));
    let unknown = verifier.attest_delivery(&faded.next.case()).await;
    assert!(matches!(unknown, Err(Transient::Contradiction(_))), "{unknown:?}");
    liar.be_honest();
    assert!(matches!(verifier.attest_delivery(&faded.next.case()).await?, Outcome::NotYet(_)));
    // They are looked for once, whoever asks for which quote, and another quote is still refused.
    liar.say("eth_getLogs", json!([]));
    assert!(matches!(verifier.attest_delivery(&faded.next.case()).await?, Outcome::NotYet(_)));
    for outcome in
        [verifier.attest_delivery(&faded.first.case()).await?, verifier.attest_non_delivery(&faded.first.case()).await?]
    {
        assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    }

    // The settlers know what was deposited: the next one was told.
    let (_liar, node) = untold(world).await?;
    let settler = SettlerChain::new(node, faded.next_settler.clone());
    let told = required(&faded.next.deposit(), escrowed(&faded.order));
    assert_eq!(settler.reservation_state(&told).await?, ReservationState::Reserved);
    let untold_order = required(&faded.first.deposit(), None);
    let settler = SettlerChain::new(untold(world).await?.1, world.settler.clone());
    settler.reservation_state(&untold_order).await.unwrap_err();
    let settler = SettlerChain::new(world.source.node.clone(), world.settler.clone());
    assert_eq!(settler.reservation_state(&untold_order).await?, different());
    Ok(())
}

#[tokio::test]
async fn a_quote_for_all_that_is_in_escrow_is_verified_without_events() -> Result<()> {
    let faded = Faded::over().await?;
    let next = next_quote(&faded.first, 1, &faded.next_settler, PRICE, faded.next.fulfill_by())?;
    let order = reassignment(&faded.first.deposit(), &next.deposit(), PRICE, faded.order.non_delivery.clone());
    let faded = Faded { next, order, ..faded };
    faded.reassign().await?;
    let (_liar, node) = untold(&faded.world).await?;
    let verifier = Verifier::default().with_chains([node, faded.world.destination.node.clone()], Some(key(3).into()));
    assert!(matches!(verifier.attest_delivery(&faded.next.case()).await?, Outcome::NotYet(_)));
    Ok(())
}

#[tokio::test]
async fn an_escrow_of_a_version_without_reassignments_is_found_out_and_stays_in_use() -> Result<()> {
    let world = World::start().await?;
    let plan = world.payment("order")?.escrow;
    let liar = Liar::before(&world.source.anvil.url()).await?;
    let mut config = world.source.config.clone();
    config.common.rpc_url = liar.url.clone();
    let node = Node::connect(&config)?;
    let chains = gateway(&world, node.clone())?;
    let looked = async || match node.look(true).await? {
        Look::Head(_) => anyhow::Ok(chains.takes_reassignments(&plan)),
        other => bail!("{other:?}"),
    };
    assert!(looked().await?);
    let selector = hex::encode(GatewayEscrow::reassignCall::SELECTOR);
    liar.tell(move |request, mut truth| {
        if request["method"] == "eth_getCode"
            && let Some(code) = truth["result"].as_str()
        {
            truth["result"] = Value::from(code.replace(&selector, "00000000"));
        }
        truth
    });
    assert!(!looked().await?);
    assert!(!chains.takes_reassignments(&plan), "also between two looks");
    liar.be_honest();
    assert!(looked().await?);
    Ok(())
}
