//! Deposit addresses through the engine's port: what counts as having come, how it is deposited, and how it goes back.

use std::{slice::from_ref, time::Duration};

use alloy::sol_types::SolCall;
use anyhow::{Context, Result, bail};

use chains_tron::{
    address::parse_address,
    deposit_addresses,
    node::{Node, State},
};
use escrow_abi::deposit_addresses::DepositAddresses;
use events::{Hash32, event::EscrowRefunded};
use sagas::ports::{
    AddressState, Chains, DepositOrder, DepositState, EscrowState, PrepareError, ReassignmentState, Reservation,
    TransactionState,
};

use crate::evm_support::reassignment::reassignment;
use crate::support::{
    TOKENS, World, holder,
    liar::Liar,
    payment::{CAP, reason},
    permitted::call_of,
};

#[tokio::test]
async fn what_waits_for_a_block_has_not_come() -> Result<()> {
    let world = World::start().await?;
    let (order, given) = world.addressed().await?;
    let chains = world.chains();
    let deposit = order.payer_deposit();
    assert_eq!(chains.address_funds(&deposit).await?.amount, None);
    chains.watch_logs().await?;
    let send = async |amount: u64| -> Result<()> {
        let draft = world.draft(&world.payer, world.token_address(), World::transfer(&given, amount)?).await?;
        Ok(world.node().broadcast(&draft.sign(&world.payer).bytes).await?)
    };
    send(CAP).await?;
    assert_eq!(world.waiting().await?, 1);
    assert_eq!(chains.address_funds(&deposit).await?.amount, None, "it waits, and may never land");
    world.mine(1).await?;
    chains.watch_logs().await?;
    let funds = chains.address_funds(&deposit).await?;
    assert_eq!(funds.amount, Some(CAP.to_string().parse()?), "a log watcher saw it in a block");
    assert_eq!(funds.block_number, world.node().head().await?.number);

    // A gateway that was not there then finds it once it is solidified.
    let late = world.chains();
    assert_eq!(late.address_funds(&deposit).await?.amount, None);
    world.solidify().await?;
    assert_eq!(late.address_funds(&deposit).await?.amount, Some(CAP.to_string().parse()?));
    Ok(())
}

#[tokio::test]
async fn all_that_came_is_deposited_and_reserved_in_one_transaction() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let (order, given) = world.addressed().await?;
    world.send_to(&given, CAP + 5).await?;
    let amount = (CAP + 5).to_string().parse()?;
    let prepared = chains.prepare_larger_deposit(&order, amount, 1).await?;
    chains.broadcast(&prepared).await?;
    assert_eq!(chains.deposit_mined(&order, from_ref(&prepared)).await?, None);
    world.mine(1).await?;
    let mined = chains.deposit_mined(&order, from_ref(&prepared)).await?.context("it is in no block")?;
    assert_eq!(mined.transaction_hash, prepared.transaction_hash);
    assert_eq!(chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending, "not solidified");
    world.solidify().await?;
    let DepositState::Secured(secured) = chains.deposit_state(&order, from_ref(&prepared)).await? else {
        bail!("it is not in escrow")
    };
    assert_eq!((secured.inclusion, secured.amount, secured.deposit), (mined, amount, None));
    assert_eq!(world.tokens_of(given.address.as_str()).await?, 0);
    assert_eq!(chains.escrow_state(&order.payment_id, &order.escrow).await?, EscrowState::Held);
    // Who does not know the terms is told them by the events.
    let other = world.chains();
    let found = other.escrow_found(&order.payer_deposit()).await?.context("nothing is found")?;
    assert_eq!((found.amount, found.reserved_for), (amount, Some(order.reservation.quote_hash)));
    let again = chains.prepare_larger_deposit(&order, amount, 2).await;
    let refused = reason(again)?;
    assert!(refused.contains("is used by a deposit already"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn whoever_copies_a_deposit_makes_the_same_and_it_is_given_up_only_when_nobody_can() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let (order, given) = world.addressed().await?;
    world.send_to(&given, CAP).await?;
    let amount = CAP.to_string().parse()?;
    let prepared = chains.prepare_larger_deposit(&order, amount, 1).await?;
    let (factory, data) = call_of(&prepared.raw)?;
    assert_eq!(Some(factory), parse_address(&world.contracts.deposit_address_factory).ok());
    let admitted_until = DepositAddresses::depositCall::abi_decode(&data)?.admittedUntil.to::<u64>();
    // It did not get into a block, and can't any more; the admission is over with the block after that.
    let left = admitted_until - world.time().await?;
    world.advance(Duration::from_secs(left)).await?;
    world.solidify().await?;
    let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
    assert_eq!(state, DepositState::Pending, "in its last second anyone can make it");
    world.advance(Duration::from_secs(1)).await?;
    world.solidify().await?;
    let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
    assert!(matches!(state, DepositState::Superseded { .. }), "{state:?}");
    let copied = world.dev.execute(&world.settler, &world.contracts.deposit_address_factory, data, 0).await;
    assert!(copied.is_err(), "nobody can make it any more");

    let second = chains.prepare_larger_deposit(&order, amount, 2).await?;
    let (_, data) = call_of(&second.raw)?;
    // A stranger is first, and pays for it.
    let by_stranger = world.dev.execute(&world.settler, &world.contracts.deposit_address_factory, data, 0).await?;
    chains.broadcast(&second).await?;
    world.mine(1).await?;
    let own = world.node().info(second.transaction_hash.parse()?, State::Newest).await?.context("in no block")?;
    assert!(own.failure.is_some(), "{own:?}");
    assert_eq!(chains.deposit_state(&order, from_ref(&second)).await?, DepositState::Pending);
    world.solidify().await?;
    let DepositState::Secured(secured) = chains.deposit_state(&order, from_ref(&second)).await? else {
        bail!("it is not in escrow")
    };
    assert_eq!(secured.inclusion.transaction_hash, by_stranger.id.to_string());
    Ok(())
}

#[tokio::test]
async fn what_was_not_deposited_goes_back_by_whomever() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let (order, given) = world.addressed().await?;
    let deposit = order.payer_deposit();
    world.send_to(&given, CAP).await?;
    world.solidify().await?;
    assert_eq!(chains.address_state(&deposit, None).await?, AddressState::Open, "a deposit may still be made");
    let early = reason(chains.prepare_give_back(&deposit, 1).await)?;
    assert!(early.contains("NotYet"), "{early}");
    world.pass(&order).await?;
    let AddressState::Held { amount, block_number } = chains.address_state(&deposit, None).await? else {
        bail!("nothing is held")
    };
    assert_eq!(amount, CAP.to_string().parse()?);

    let prepared = chains.prepare_give_back(&deposit, 1).await?;
    chains.broadcast(&prepared).await?;
    world.mine(1).await?;
    let pending = chains.transaction_state(from_ref(&prepared)).await?;
    assert_eq!(pending, TransactionState::Pending);
    world.solidify().await?;
    let AddressState::GivenBack(EscrowRefunded { inclusion, amount, .. }) =
        chains.address_state(&deposit, Some(block_number)).await?
    else {
        bail!("nothing was given back")
    };
    assert_eq!(inclusion.transaction_hash, prepared.transaction_hash);
    assert_eq!(amount, CAP.to_string().parse()?);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);

    // What comes later hides nothing: it is the first return after the money was there that counts.
    let call = call_of(&prepared.raw)?.1;
    for _ in 0..3 {
        world.send_to(&given, 1).await?;
        world.dev.execute(&world.settler, &world.contracts.deposit_address_factory, call.clone(), 0).await?;
    }
    world.solidify().await?;
    let again = chains.address_state(&deposit, Some(block_number)).await?;
    assert_eq!(again, AddressState::GivenBack(EscrowRefunded { inclusion, amount, claims: Vec::new() }));
    // Without knowing since when, the first of all is told, and what is less than a hundredth is left to others.
    world.send_to(&given, CAP / 100 - 1).await?;
    world.solidify().await?;
    assert_eq!(chains.address_state(&deposit, None).await?, again);
    Ok(())
}

#[tokio::test]
async fn nothing_is_given_out_where_the_factory_is_another_or_the_refund_account_takes_nothing() -> Result<()> {
    let world = World::start().await?;
    let escrow = world.contracts.escrow.parse()?;
    let served = async |configured: Option<&str>| -> Result<bool> {
        let mut config = world.config();
        config.deposit_address_factory = configured.map(str::parse).transpose()?;
        Ok(deposit_addresses::served_from(&Node::connect(&config)?, &escrow).await?.is_some())
    };
    assert!(served(Some(&world.contracts.deposit_address_factory)).await?);
    let nobody = crate::support::account(&crate::support::key(99));
    for other in [None, Some(world.contracts.proxy.as_str()), Some(world.token.as_str()), Some(nobody.as_str())] {
        assert!(!served(other).await?, "{other:?}");
    }
    let (order, given) = world.addressed().await?;
    assert_eq!(deposit_addresses::refuses_refunds(&world.node(), &given, &order.terms.source).await?, None);
    // Another contract takes no transfer at all.
    let odd = events::OwnedAsset::new(
        world.asset(&format!("trc20:{}", world.contracts.proxy)),
        holder(&world.payer).as_str(),
    )?;
    let refused = deposit_addresses::refuses_refunds(&world.node(), &given, &odd).await?;
    assert!(refused.is_some());
    Ok(())
}

#[tokio::test]
async fn nothing_is_sent_for_an_address_where_the_money_is_not() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let (order, _) = world.addressed().await?;
    let refused = chains.prepare_larger_deposit(&order, CAP.to_string().parse()?, 1).await;
    let Err(PrepareError::Refused(refusal)) = &refused else { bail!("{refused:?}") };
    // What was tried out can be made by whoever was shown it for a short time only.
    assert!(refusal.valid_until <= world.time().await? + 90, "{refusal:?}");
    assert_eq!(world.waiting().await?, 0);
    Ok(())
}

/// Each return costs, and who brings one about pays nothing for it.
#[tokio::test]
async fn a_day_has_so_many_returns_and_what_takes_too_much_energy_is_not_sent() -> Result<()> {
    let world = World::start().await?;
    let mut config = world.config();
    config.deposit_returns_daily_max = 1;
    let chains = world.chains_with(Node::connect(&config)?);
    let (order, given) = world.addressed().await?;
    let deposit = order.payer_deposit();
    world.send_to(&given, CAP).await?;
    world.pass(&order).await?;
    chains.prepare_give_back(&deposit, 1).await?;
    let waits = chains.prepare_give_back(&deposit, 2).await;
    let Err(PrepareError::Transient(fault)) = &waits else { bail!("{waits:?}") };
    assert!(fault.kind() == "rate limited" && fault.to_string().contains("(1 times)"), "{fault}");

    let liar = Liar::before(&world.tron.url()).await?;
    liar.tell(|path, _, mut answer| {
        if path == "wallet/triggerconstantcontract" {
            answer["energy_used"] = 1_000_001.into();
        }
        answer
    });
    let refused = reason(world.chains_at(&liar.url).prepare_give_back(&deposit, 1).await)?;
    assert!(refused.contains("1000001 energy"), "{refused}");
    Ok(())
}

/// What failed in a block would fail again: it ends the award, once nobody can make a copy of it any more.
#[tokio::test]
async fn a_deposit_that_failed_in_a_block_is_reverted_once_its_admission_is_over() -> Result<()> {
    let world = World::start().await?;
    let (order, given) = world.addressed().await?;
    world.send_to(&given, CAP).await?;
    // By a price that is too low, the fee limit does not cover the energy.
    let liar = Liar::before(&world.tron.url()).await?;
    liar.tell(|path, _, mut answer| {
        if path == "wallet/getchainparameters" {
            for parameter in answer["chainParameter"].as_array_mut().into_iter().flatten() {
                if parameter["key"] == "getEnergyFee" {
                    parameter["value"] = 50.into();
                }
            }
        }
        answer
    });
    let amount = CAP.to_string().parse()?;
    let prepared = world.chains_at(&liar.url).prepare_larger_deposit(&order, amount, 1).await?;
    let chains = world.chains();
    chains.broadcast(&prepared).await?;
    world.mine(1).await?;
    world.solidify().await?;
    assert_eq!(chains.deposit_mined(&order, from_ref(&prepared)).await?, None);
    let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
    assert_eq!(state, DepositState::Pending, "anyone can make a copy of it");
    world.advance(Duration::from_secs(120)).await?;
    world.solidify().await?;
    let DepositState::Reverted(context) = chains.deposit_state(&order, from_ref(&prepared)).await? else {
        bail!("it failed")
    };
    let reason = context.revert_reason.unwrap_or_default();
    let says = format!("{} failed in solidified block", prepared.transaction_hash);
    assert!(reason.starts_with(&says), "{reason}");
    assert_eq!(world.tokens_of(given.address.as_str()).await?, CAP, "the money is where it was");
    Ok(())
}

/// Escrows that money of an address went into are reassigned as others are, though they hold more than either quote asks for.
#[tokio::test]
async fn a_settler_that_does_not_deliver_is_followed_by_another() -> Result<()> {
    const PROMISE: u64 = 60;
    let world = World::start().await?;
    let chains = world.chains();
    let (mut order, given) = world.addressed().await?;
    order.reservation.fulfill_by = world.time().await? + PROMISE;
    world.send_to(&given, CAP).await?;
    let amount = CAP.to_string().parse()?;
    let prepared = chains.prepare_larger_deposit(&order, amount, 1).await?;
    chains.broadcast(&prepared).await?;
    world.mine(1).await?;
    world.solidify().await?;
    let DepositState::Secured(secured) = chains.deposit_state(&order, from_ref(&prepared)).await? else {
        bail!("it is not in escrow")
    };
    assert_eq!(secured.amount, amount);
    world.advance(Duration::from_secs(PROMISE + 1)).await?;
    world.solidify().await?;
    let next = Reservation {
        quote_hash: Hash32([10; 32]),
        fulfill_by: order.escrow.fulfillment_deadline,
        ..order.reservation.clone()
    };
    let word = world.attest(&world.non_delivery(&order));
    let followed = DepositOrder { reservation: next.clone(), ..order.clone() };
    let reassignment = reassignment(&order, &followed, CAP, word);
    let prepared = chains.prepare_reassignment(&reassignment, 1).await?;
    chains.broadcast(&prepared).await?;
    world.mine(1).await?;
    world.solidify().await?;
    let state = chains.reassignment_state(&reassignment).await?;
    assert!(matches!(state, ReassignmentState::Reassigned(_)), "{state:?}");
    // Who was not there finds it, with its money and the quote that it is for now.
    let found = world.chains().escrow_found(&order.payer_deposit()).await?.context("nothing is found")?;
    assert_eq!((found.amount, found.reserved_for), (amount, Some(next.quote_hash)));
    Ok(())
}
