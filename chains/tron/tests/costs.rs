//! What each call of the contracts costs on Tron: energy, which is the caller's money there. The numbers are those of
//! `contracts/checks/costs/tron.json`, which `UPDATE_EXPECT=1` writes anew.

use std::{collections::BTreeMap, time::Duration};

use alloy::sol_types::SolCall;
use anyhow::{Context, Result, ensure};
use expect_test::expect_file;

use chains_tron::node::{Info, State};
use escrow_abi::contracts::GatewayEscrow;
use events::{Hash32, event::TransactionPrepared};
use sagas::ports::{Chains, DepositOrder, Reservation};

use crate::{
    evm_support::reassignment::reassignment,
    support::{
        REFUND_DELAY, World,
        payment::{CAP, deposited_terms, spend},
    },
};

fn energy(info: &Info) -> Result<u64> {
    ensure!(info.failure.is_none(), "{info:?}");
    Ok(info.energy)
}

impl World {
    async fn energy_of(&self, prepared: &TransactionPrepared) -> Result<u64> {
        let id = prepared.transaction_hash.parse()?;
        energy(&self.node().info(id, State::Newest).await?.context("in no block")?)
    }
}

/// The first payment writes words of storage that nobody has written, and pays an account that is not there yet.
#[tokio::test]
async fn each_call_costs_the_energy_that_is_committed() -> Result<()> {
    const WINDOW: u64 = 3_600;
    const PROMISE: u64 = 60;
    let world = World::start().await?;
    let chains = world.chains();
    let mut costs = BTreeMap::new();
    for nth in ["first", "further"] {
        let mut calls = BTreeMap::new();
        let order = world.order(WINDOW).await?;
        let own = spend(&order);
        let approval = own.approval.as_ref().context("no approval")?;
        calls.insert("approve", energy(&world.bring(approval).await?)?);
        calls.insert("depositOwn", energy(&world.bring(&own.deposit).await?)?);
        let prepared = world.reservation(&chains, &order).await?;
        chains.broadcast(&prepared).await?;
        world.mine(1).await?;
        calls.insert("reserve", world.energy_of(&prepared).await?);
        calls.insert("fulfill (TRX)", energy(&world.fulfill(&world.delivery(&order)).await?)?);
        calls.insert("releaseWithRemainder", energy(&world.release(&order).await?)?);
        costs.insert(nth, calls);
    }

    let mut order = world.order(WINDOW).await?;
    order.reservation.fulfill_by = world.time().await? + PROMISE;
    world.secured(&chains, &order).await?;
    world.advance(Duration::from_secs(PROMISE + 1)).await?;
    world.solidify().await?;
    let next = Reservation {
        quote_hash: Hash32([10; 32]),
        fulfill_by: order.escrow.fulfillment_deadline,
        ..order.reservation.clone()
    };
    let word = world.attest(&world.non_delivery(&order));
    let reassignment = reassignment(&order, &DepositOrder { reservation: next, ..order.clone() }, CAP, word);
    let prepared = chains.prepare_reassignment(&reassignment, 1).await?;
    chains.broadcast(&prepared).await?;
    world.mine(1).await?;
    costs.entry("further").or_default().insert("reassign", world.energy_of(&prepared).await?);

    let order = world.order(WINDOW).await?;
    world.deposit(&order).await?;
    world.advance(Duration::from_secs(WINDOW + REFUND_DELAY)).await?;
    let refund = GatewayEscrow::refundCall { e: deposited_terms(&order)?.0 }.abi_encode();
    let refund = world.dev.execute(&world.settler, &world.contracts.escrow, refund, 0).await?;
    costs.entry("further").or_default().insert("refund", energy(&refund)?);

    world.solidify().await?;
    for (name, larger) in [("depositWithWitness", None), ("depositMoreWithWitness", Some(CAP))] {
        let order = world.permitted(WINDOW).await?;
        let prepared = match larger {
            None => chains.prepare_deposit(&order, 1).await?,
            Some(units) => chains.prepare_larger_deposit(&order, units.to_string().parse()?, 1).await?,
        };
        chains.broadcast(&prepared).await?;
        world.mine(1).await?;
        costs.entry("further").or_default().insert(name, world.energy_of(&prepared).await?);
    }
    let (order, given) = world.addressed().await?;
    world.send_to(&given, CAP).await?;
    let prepared = chains.prepare_larger_deposit(&order, CAP.to_string().parse()?, 1).await?;
    chains.broadcast(&prepared).await?;
    world.mine(1).await?;
    costs.entry("further").or_default().insert("deposit (address)", world.energy_of(&prepared).await?);
    let (order, given) = world.addressed().await?;
    world.send_to(&given, CAP).await?;
    world.pass(&order).await?;
    let prepared = chains.prepare_give_back(&order.payer_deposit(), 1).await?;
    chains.broadcast(&prepared).await?;
    world.mine(1).await?;
    costs.entry("further").or_default().insert("giveBack", world.energy_of(&prepared).await?);

    let costs = serde_json::to_string_pretty(&costs)? + "\n";
    expect_file!["../../../contracts/checks/costs/tron.json"].assert_eq(&costs);
    Ok(())
}
