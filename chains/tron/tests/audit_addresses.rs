//! The auditor on payments by deposit address: one that is as its stream tells it, and every member altered.

use std::slice::from_ref;

use anyhow::{Result, bail};

use chains::auditor::{Audit, Discrepancy, Kind};
use chains_tron::deposit_addresses;
use events::{
    Account,
    event::{Authorization, DepositAddress, EscrowPlan, EscrowRefunded, EscrowSecured},
    time::from_unix_seconds,
};
use sagas::ports::{AddressState, Chains, DepositState};

use crate::support::{World, account, holder, key, payment::CAP, quoted::Payment, quoted::amount};

fn kinds(discrepancies: &[Discrepancy]) -> Vec<Kind> {
    discrepancies.iter().map(|discrepancy| discrepancy.kind).collect()
}

/// A payment whose money is sent to an address.
async fn by_address(world: &World) -> Result<(Payment, DepositAddress)> {
    let destination = world.trc20(&world.token, &account(&world.recipient));
    let payment = Payment::within_tron(world, 600, destination).await?;
    let Some((factory, from_block)) = deposit_addresses::served_from(&world.node(), &payment.plan.contract).await?
    else {
        bail!("there are no deposit addresses")
    };
    let Some(pay_by) = from_unix_seconds(payment.plan.reserve_deadline - 60) else { bail!("no time") };
    let given = deposit_addresses::of_payment(
        factory,
        &payment.id,
        &payment.terms,
        &payment.plan,
        amount(CAP),
        pay_by,
        from_block,
    )?;
    Ok((Payment { authorization: Authorization::DepositAddress(given.clone()), ..payment }, given))
}

#[tokio::test]
async fn an_address_commits_to_all_that_the_stream_shows() -> Result<()> {
    let world = World::start().await?;
    let (payment, given) = by_address(&world).await?;
    let auditor = world.auditor();
    let audited = async |plan: &EscrowPlan, given: DepositAddress| {
        let authorization = Authorization::DepositAddress(given);
        auditor.audit_authorization(&payment.id, &payment.terms, plan, &authorization).await
    };
    assert_eq!(audited(&payment.plan, given.clone()).await?, []);
    let other = holder(&key(99));
    let factory: Account = world.contracts.proxy.parse()?;
    for altered in [
        DepositAddress { amount: amount(CAP - 1), ..given.clone() },
        DepositAddress { address: other.clone(), ..given.clone() },
        DepositAddress { implementation: other.clone(), ..given.clone() },
        DepositAddress { factory: factory.clone(), ..given.clone() },
    ] {
        let found = audited(&payment.plan, altered.clone()).await?;
        assert!(kinds(&found).contains(&Kind::Contradiction), "{altered:?}: {found:?}");
    }
    for plan in [
        EscrowPlan { reserver: other.clone(), ..payment.plan.clone() },
        EscrowPlan { releaser: other.clone(), ..payment.plan.clone() },
        EscrowPlan { contract: other, ..payment.plan.clone() },
        EscrowPlan { reserve_deadline: payment.plan.reserve_deadline + 1, ..payment.plan.clone() },
        EscrowPlan { refund_after: payment.plan.refund_after + 1, ..payment.plan.clone() },
    ] {
        let found = audited(&plan, given.clone()).await?;
        assert_eq!(kinds(&found), [Kind::Contradiction], "{plan:?}");
    }
    // The right computation for a contract that is not the factory: its addresses may do anything with what comes there.
    let elsewhere = deposit_addresses::of_payment(
        chains_tron::address::address(&factory)?,
        &payment.id,
        &payment.terms,
        &payment.plan,
        given.amount,
        given.pay_by,
        given.from_block,
    )?;
    let found = audited(&payment.plan, elsewhere).await?;
    assert_eq!(kinds(&found), [Kind::Contradiction]);
    assert!(found[0].what.contains("is not known"), "{found:?}");
    Ok(())
}

#[tokio::test]
async fn a_deposit_came_from_the_address_and_a_return_went_to_the_payer() -> Result<()> {
    let world = World::start().await?;
    let (chains, auditor) = (world.chains(), world.auditor());
    let (payment, given) = by_address(&world).await?;
    world.send_to(&given, CAP).await?;
    let order = payment.deposit();
    let prepared = chains.prepare_larger_deposit(&order, amount(CAP), 1).await?;
    chains.broadcast(&prepared).await?;
    world.mine(1).await?;
    world.solidify().await?;
    let DepositState::Secured(secured) = chains.deposit_state(&order, from_ref(&prepared)).await? else {
        bail!("it is not in escrow")
    };
    let case = payment.audited();
    assert_eq!(auditor.audit_deposit(&case, &secured).await?, []);
    let less = EscrowSecured { amount: amount(CAP - 1), ..secured.clone() };
    assert_eq!(kinds(&auditor.audit_deposit(&case, &less).await?), [Kind::Contradiction]);
    // Of another address's money it would not have been made.
    let other = DepositAddress { address: holder(&key(99)), ..given };
    let elsewhere = Payment { authorization: Authorization::DepositAddress(other), ..payment.clone() };
    assert_eq!(kinds(&auditor.audit_deposit(&elsewhere.audited(), &secured).await?), [Kind::Contradiction]);

    let (order, given) = world.addressed().await?;
    world.send_to(&given, CAP).await?;
    world.pass(&order).await?;
    let deposit = order.payer_deposit();
    let prepared = chains.prepare_give_back(&deposit, 1).await?;
    chains.broadcast(&prepared).await?;
    world.mine(1).await?;
    world.solidify().await?;
    let AddressState::GivenBack(refunded) = chains.address_state(&deposit, Some(given.from_block)).await? else {
        bail!("nothing was given back")
    };
    assert_eq!(auditor.audit_given_back(&deposit, &refunded).await?, []);
    let less = EscrowRefunded { amount: amount(CAP - 1), ..refunded.clone() };
    assert_eq!(kinds(&auditor.audit_given_back(&deposit, &less).await?), [Kind::Contradiction]);
    let another = EscrowRefunded { inclusion: secured.inclusion, ..refunded };
    assert_eq!(kinds(&auditor.audit_given_back(&deposit, &another).await?), [Kind::Missing]);
    Ok(())
}
