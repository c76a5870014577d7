//! How a payment by Permit2 ends: what fails costs the payer nothing and is given up only when nobody can make it any more, and what was
//! deposited goes to the settler and back to the payer.

use std::{slice::from_ref, time::Duration};

use alloy::{
    primitives::{U256, aliases::U48},
    sol,
    sol_types::SolCall,
};
use anyhow::{Context, Result, bail};

use chains_tron::{adapter::TronChain, authorization::Choice, node::State};
use escrow_abi::permit2::word_of;
use events::{Hash32, event::TransactionPrepared};
use sagas::ports::{Chains, DepositOrder, DepositState, EscrowState, ReassignmentState, Reservation};

use super::WINDOW;
use crate::{
    evm_support::{reassignment::reassignment, release},
    support::{
        REFUND_DELAY, TOKENS, World, account, key,
        payment::{CAP, PRICE, next_id, reason, refund, refusal},
        permitted::{call_of, permit},
        quoted::amount,
    },
};

sol! {
    function invalidateUnorderedNonces(uint256 wordPos, uint256 mask) external;
}

/// What a payer can do between two blocks so that Permit2 takes nothing.
#[derive(Debug, Clone, Copy)]
enum TakenBack {
    Allowance,
    Balance,
    Nonce,
}

impl TakenBack {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Allowance, "TRANSFER_FROM_FAILED"),
        (Self::Balance, "TRANSFER_FROM_FAILED"),
        (Self::Nonce, "InvalidNonce"),
    ];

    async fn by_payer(self, world: &World, order: &DepositOrder) -> Result<()> {
        let elsewhere = account(&key(30));
        match self {
            Self::Allowance => world.allow_permit2(0).await,
            Self::Balance => {
                Ok(world.dev.send_token(&world.payer, &world.token, &elsewhere, U256::from(TOKENS)).await?)
            }
            Self::Nonce => {
                let nonce = U256::from_be_bytes(permit(order).nonce.0);
                let mask = U256::from(1) << usize::from(nonce.byte(0));
                let call = invalidateUnorderedNoncesCall { wordPos: word_of(nonce), mask };
                world.dev.execute(&world.payer, &world.contracts.permit2, call.abi_encode(), 0).await?;
                assert!(super::is_used(world, order).await?);
                Ok(())
            }
        }
    }
}

async fn settled(
    world: &World,
    chains: &TronChain,
    order: &DepositOrder,
    prepared: &TransactionPrepared,
) -> Result<()> {
    world.settle(chains, prepared).await?;
    let state = chains.deposit_state(order, from_ref(prepared)).await?;
    assert!(matches!(state, DepositState::Secured(_)), "{state:?}");
    Ok(())
}

#[tokio::test]
async fn nothing_is_sent_where_the_payer_took_back_what_permit2_needs() -> Result<()> {
    for (taken, why) in TakenBack::ALL {
        let world = World::start().await?;
        let chains = world.chains();
        let order = world.permitted(WINDOW).await?;
        taken.by_payer(&world, &order).await?;
        let refused = refusal(chains.prepare_deposit(&order, 1).await)?;
        let reason = refused.context.revert_reason.clone().context("no reason")?;
        assert!(reason.contains(why), "{taken:?}: {reason}");
        // What was tried out can be made by whoever was shown it for a short time only.
        assert!(refused.valid_until <= world.time().await? + 90, "{refused:?}");
        assert_eq!(world.waiting().await?, 0);
        // Nobody else made it; the refusal may end the payment.
        world.advance(Duration::from_secs(91)).await?;
        world.solidify().await?;
        assert!(chains.deposit_ruled_out(&order.payment_id, &order.escrow, refused.valid_until).await?);
    }
    Ok(())
}

/// It would fail again, so it ends the award, but not before nobody can make a copy of it any more.
#[tokio::test]
async fn what_the_payer_takes_back_while_the_deposit_waits_for_its_block_reverts_it() -> Result<()> {
    for (taken, why) in TakenBack::ALL {
        let world = World::start().await?;
        let chains = world.chains();
        let order = world.permitted(WINDOW).await?;
        let prepared = chains.prepare_deposit(&order, 1).await?;
        taken.by_payer(&world, &order).await?;
        chains.broadcast(&prepared).await?;
        world.mine(1).await?;
        let info =
            world.node().info(prepared.transaction_hash.parse()?, State::Newest).await?.context("in no block")?;
        assert!(info.failure.is_some_and(|failure| failure.contains(why)), "{taken:?}");
        world.solidify().await?;
        assert_eq!(chains.deposit_mined(&order, from_ref(&prepared)).await?, None);
        let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
        assert_eq!(state, DepositState::Pending, "{taken:?}: anyone can make a copy of it");
        world.advance(Duration::from_secs(61)).await?;
        world.solidify().await?;
        let DepositState::Reverted(context) = chains.deposit_state(&order, from_ref(&prepared)).await? else {
            bail!("{taken:?}: it failed")
        };
        let reason = context.revert_reason.unwrap_or_default();
        let says = format!("{} failed in solidified block", prepared.transaction_hash);
        assert!(reason.starts_with(&says) && reason.contains(why), "{taken:?}: {reason}");
        assert_eq!(context.contract_address.as_deref(), Some(world.contracts.escrow.as_str()));
        assert_eq!(world.tokens_of(&world.contracts.escrow).await?, 0);
        let held = world.tokens(&world.payer).await? + world.tokens(&key(30)).await?;
        assert_eq!(held, TOKENS, "{taken:?}: nothing is lost");
    }
    Ok(())
}

/// A copy that comes while the admission holds is the deposit, though the gateway's own transaction has failed.
#[tokio::test]
async fn a_copy_of_what_failed_counts_while_it_is_admitted() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.permitted(WINDOW).await?;
    let prepared = chains.prepare_deposit(&order, 1).await?;
    world.allow_permit2(0).await?;
    chains.broadcast(&prepared).await?;
    world.mine(1).await?;
    world.allow_permit2(CAP).await?;
    let copied = world.dev.execute(&world.settler, &world.contracts.escrow, call_of(&prepared.raw)?.1, 0).await?;
    world.solidify().await?;
    let DepositState::Secured(secured) = chains.deposit_state(&order, from_ref(&prepared)).await? else {
        bail!("it is not in escrow")
    };
    assert_eq!(secured.inclusion.transaction_hash, copied.id.to_string());
    Ok(())
}

#[tokio::test]
async fn what_no_block_has_is_made_anew_once_nobody_can_make_it_any_more() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.permitted(WINDOW).await?;
    let prepared = chains.prepare_deposit(&order, 1).await?;
    let (_, data) = call_of(&prepared.raw)?;
    let call = escrow_abi::contracts::GatewayEscrow::depositWithWitnessCall::abi_decode(&data)?;
    let left = call.admittedUntil.to::<u64>() - world.time().await?;
    world.advance(Duration::from_secs(left)).await?;
    world.solidify().await?;
    let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
    assert_eq!(state, DepositState::Pending, "in its last second anyone can make it");
    world.advance(Duration::from_secs(1)).await?;
    world.solidify().await?;
    let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
    assert!(matches!(state, DepositState::Superseded { .. }), "{state:?}");
    let copied = world.dev.execute(&world.settler, &world.contracts.escrow, data, 0).await;
    assert!(copied.is_err_and(|error| error.to_string().contains("AdmissionExpired")), "nobody can make it any more");

    // The payer's signature is good for the next.
    let second = chains.prepare_deposit(&order, 2).await?;
    let call = escrow_abi::contracts::GatewayEscrow::depositWithWitnessCall::abi_decode(&call_of(&second.raw)?.1)?;
    assert!(call.admittedUntil <= U48::from(order.escrow.reserve_deadline));
    settled(&world, &chains, &order, &second).await
}

#[tokio::test]
async fn past_the_reserve_deadline_none_is_made_and_none_can_come() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.permitted(WINDOW).await?;
    let deadline = order.escrow.reserve_deadline;
    let prepared = chains.prepare_deposit(&order, 1).await?;
    world.advance(Duration::from_secs(WINDOW + 1)).await?;
    let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
    assert_eq!(state, DepositState::Pending, "not solidified");
    world.solidify().await?;
    let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
    assert!(matches!(state, DepositState::Expired { .. }), "{state:?}");
    assert!(chains.deposit_ruled_out(&order.payment_id, &order.escrow, deadline).await?);
    let refused = refusal(chains.prepare_deposit(&order, 2).await)?;
    assert!(refused.valid_until <= deadline, "{refused:?}");
    assert_eq!(world.waiting().await?, 0);
    assert_eq!(chains.stranded_deposit(&order.payer_deposit()).await?, None);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    Ok(())
}

/// A payer that had a payment prepared for both schemes, submits the one and broadcasts the other: what it deposits by itself is no
/// deposit of the gateway's, and its own to take back.
#[tokio::test]
async fn a_deposit_of_the_payers_own_beside_its_permit_is_not_the_gateways() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let until = world.time().await? + WINDOW;
    let id = next_id(&world.payer);
    let permitted = world.request(&world.payer, id.clone(), CAP, until - WINDOW / 2, until)?;
    let order = world.permitted_for(permitted).await?;
    let own = world.order_for(&world.payer, id, CAP, until - WINDOW / 2, until, &Choice::default()).await?;
    assert_eq!((&own.escrow, own.terms_hash), (&order.escrow, order.terms_hash));
    let prepared = chains.prepare_deposit(&order, 1).await?;
    world.deposit(&own).await?;
    let refused = refusal(chains.prepare_deposit(&order, 2).await)?;
    assert!(refused.context.revert_reason.is_some_and(|reason| reason.contains("used by a deposit already")));
    assert_eq!(refused.valid_until, order.escrow.reserve_deadline);
    chains.broadcast(&prepared).await?;
    world.mine(1).await?;
    world.solidify().await?;
    assert_eq!(chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending);
    world.advance(Duration::from_secs(61)).await?;
    world.solidify().await?;
    let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
    assert!(matches!(state, DepositState::Reverted(_)), "{state:?}");
    // A gateway that looks only now finds nothing that it could record.
    world.advance(Duration::from_secs(WINDOW)).await?;
    world.solidify().await?;
    let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
    assert!(matches!(state, DepositState::Expired { .. }), "{state:?}");
    assert_eq!(chains.deposit_secured(&order).await?, None);
    assert_eq!(chains.escrow_found(&order.payer_deposit()).await?, None);
    assert!(chains.escrow_found(&own.payer_deposit()).await?.is_some());

    world.advance(Duration::from_secs(REFUND_DELAY)).await?;
    world.solidify().await?;
    world.settle(&chains, &chains.prepare_refund(&refund(&order), 1).await?).await?;
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    Ok(())
}

#[tokio::test]
async fn the_settler_is_paid_and_the_remainder_comes_back_to_the_payer() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.permitted(WINDOW).await?;
    let prepared = chains.prepare_larger_deposit(&order, amount(CAP), 1).await?;
    settled(&world, &chains, &order, &prepared).await?;
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - CAP);
    let releasing = release::order(&order, world.attest(&world.statement(&order)));
    // By a gateway that has to be told the terms by the escrow's events.
    let late = world.chains();
    world.settle(&late, &late.prepare_release(&releasing, 1).await?).await?;
    let state = chains.escrow_state(&order.payment_id, &order.escrow).await?;
    assert!(matches!(state, EscrowState::Released(_)), "{state:?}");
    assert_eq!(world.tokens(&world.settler).await?, TOKENS + PRICE);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - PRICE);
    assert_eq!(world.tokens_of(&world.contracts.escrow).await?, 0);
    // It stays what it was to whoever looks for the deposit.
    assert_eq!(chains.deposit_secured(&order).await?.map(|secured| secured.amount), Some(amount(CAP)));
    Ok(())
}

#[tokio::test]
async fn what_is_not_delivered_comes_back_to_the_payer() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    // By the verifier's word at once, else when the window opens.
    for is_told in [true, false] {
        let order = world.permitted(WINDOW).await?;
        let prepared = chains.prepare_deposit(&order, 1).await?;
        settled(&world, &chains, &order, &prepared).await?;
        let refunding = match is_told {
            true => world.cancellation(&order),
            false => {
                let early = reason(chains.prepare_refund(&refund(&order), 1).await)?;
                assert!(early.contains("RefundWindowNotOpen"), "{early}");
                world.advance(Duration::from_secs(WINDOW + REFUND_DELAY)).await?;
                world.solidify().await?;
                refund(&order)
            }
        };
        world.settle(&chains, &chains.prepare_refund(&refunding, 1).await?).await?;
        let state = chains.escrow_state(&order.payment_id, &order.escrow).await?;
        let EscrowState::Refunded(refunded) = state else { bail!("{state:?}") };
        assert_eq!(refunded.amount, amount(PRICE));
        assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    }
    Ok(())
}

/// Where more was deposited than the first settler asked for, a dearer one can follow.
#[tokio::test]
async fn a_settler_that_does_not_deliver_is_followed_by_another() -> Result<()> {
    const PROMISE: u64 = 60;
    let world = World::start().await?;
    let chains = world.chains();
    let mut order = world.permitted(WINDOW).await?;
    order.reservation.fulfill_by = world.time().await? + PROMISE;
    let prepared = chains.prepare_larger_deposit(&order, amount(CAP), 1).await?;
    settled(&world, &chains, &order, &prepared).await?;
    world.advance(Duration::from_secs(PROMISE + 1)).await?;
    world.solidify().await?;
    let next = Reservation {
        quote_hash: Hash32([10; 32]),
        source_amount: amount(CAP),
        fulfill_by: order.escrow.fulfillment_deadline,
        ..order.reservation.clone()
    };
    let word = world.attest(&world.non_delivery(&order));
    let followed = DepositOrder { reservation: next.clone(), ..order.clone() };
    let reassignment = reassignment(&order, &followed, CAP, word);
    world.settle(&chains, &chains.prepare_reassignment(&reassignment, 1).await?).await?;
    let state = chains.reassignment_state(&reassignment).await?;
    assert!(matches!(state, ReassignmentState::Reassigned(_)), "{state:?}");
    let found = world.chains().escrow_found(&order.payer_deposit()).await?.context("nothing is found")?;
    assert_eq!((found.amount, found.reserved_for), (amount(CAP), Some(next.quote_hash)));
    let releasing = release::order(&followed, world.attest(&world.statement(&followed)));
    world.settle(&chains, &chains.prepare_release(&releasing, 1).await?).await?;
    assert_eq!(world.tokens(&world.settler).await?, TOKENS + CAP);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - CAP);
    Ok(())
}

/// A payer that agreed to one quote has its money back rather than another settler.
#[tokio::test]
async fn a_quote_that_the_payer_named_is_followed_by_none() -> Result<()> {
    const PROMISE: u64 = 60;
    let world = World::start().await?;
    let chains = world.chains();
    let until = world.time().await? + WINDOW;
    let mut spend = world.request(&world.payer, next_id(&world.payer), CAP, until - WINDOW / 2, until)?;
    spend.quote_hash = Hash32([9; 32]);
    let mut order = world.permitted_for(spend).await?;
    order.reservation.fulfill_by = world.time().await? + PROMISE;
    let prepared = chains.prepare_larger_deposit(&order, amount(CAP), 1).await?;
    settled(&world, &chains, &order, &prepared).await?;
    world.advance(Duration::from_secs(PROMISE + 1)).await?;
    world.solidify().await?;
    let next = Reservation {
        quote_hash: Hash32([10; 32]),
        fulfill_by: order.escrow.fulfillment_deadline,
        ..order.reservation.clone()
    };
    let word = world.attest(&world.non_delivery(&order));
    let followed = DepositOrder { reservation: next, ..order.clone() };
    let refused = reason(chains.prepare_reassignment(&reassignment(&order, &followed, CAP, word), 1).await)?;
    assert!(refused.contains("QuoteHashMismatch"), "{refused}");
    Ok(())
}
