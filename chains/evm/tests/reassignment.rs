//! Reassignment on EVM chains: a settler that does not deliver is followed by another, who delivers and is paid out of the same
//! deposit; and what comes in between.

mod terms;

use std::slice::from_ref;

use alloy::{
    consensus::{Transaction, TxEnvelope},
    eips::eip2718::Decodable2718,
    primitives::U256,
    signers::local::PrivateKeySigner,
};
use anyhow::{Context, Result, bail, ensure};

use chains::{
    settler::{DeliveryChain, ReservationState},
    verifier::{Outcome, Verifier},
};
use chains_evm::{
    adapter::{EvmChain, Keys},
    auditor::check_prepared,
    calls::Call,
    settler::SettlerChain,
    wallet::Wallet,
};
use events::event::{EscrowPlan, Inclusion, TransactionPrepared};
use sagas::ports::{
    Chains, DeliveryState, EscrowState, PrepareError, ReassignmentOrder, ReassignmentState, RefundOrder, Refusal,
    TransactionState, Transient, Waiting,
};

use crate::support::{
    reassignment::{escrowed, next_quote, reassignment, required},
    release, *,
};

/// What the settler asks for that follows.
const NEXT_PRICE: u64 = 880_000;

/// A payment whose settler has not delivered in time, by the destination's clock, and the quote that is to follow.
struct Faded {
    world: World,
    first: Payment,
    next: Payment,
    next_settler: PrivateKeySigner,
    order: ReassignmentOrder,
}

impl Faded {
    /// The source chain's clock is still within the first promise.
    async fn start() -> Result<Self> {
        let world = World::start().await?;
        let next_settler = key(14);
        world.source.dev.fund(&text(&next_settler), U256::from(10).pow(U256::from(20))).await?;
        world.destination.dev.fund(&text(&next_settler), U256::from(10).pow(U256::from(20))).await?;
        world.destination.dev.mint(&world.destination.token, &text(&next_settler), U256::from(CAP)).await?;
        let awarded = world.payment("order")?;
        let (now, last) = (world.now().await?, awarded.escrow.fulfillment_deadline);
        let first = next_quote(&awarded, 0, &world.settler, PRICE, now + 120)?;
        world.secure(&first).await?;
        let next = next_quote(&awarded, 1, &next_settler, NEXT_PRICE, last - 60)?;
        let verifier = verifier(&world);
        let early = verifier.attest_non_delivery(&first.case()).await?;
        ensure!(matches!(early, Outcome::NotYet(_)), "{early:?}");
        world.destination.pass(first.fulfill_by() + 1).await?;
        let non_delivery = attested(verifier.attest_non_delivery(&first.case()).await?)?;
        let order = reassignment(&first.deposit(), &next.deposit(), PRICE, non_delivery);
        Ok(Self { world, first, next, next_settler, order })
    }

    /// The same, and the source chain's clock is past the first promise, too.
    async fn over() -> Result<Self> {
        let faded = Self::start().await?;
        faded.world.source.pass(faded.first.fulfill_by() + 1).await?;
        Ok(faded)
    }

    async fn state(&self) -> Result<ReassignmentState> {
        Ok(self.world.chains.reassignment_state(&self.order).await?)
    }

    /// Sends the reassignment and lets it settle.
    async fn reassign(&self) -> Result<Inclusion> {
        let prepared = self.world.chains.prepare_reassignment(&self.order, 1).await?;
        self.world.chains.broadcast(&prepared).await?;
        self.world.source.mine(1 + DEPTH).await?;
        match self.state().await? {
            ReassignmentState::Reassigned(inclusion) => Ok(inclusion),
            other => bail!("not reassigned: {other:?}"),
        }
    }

    /// What the settlers find: the first, and the one that follows.
    async fn settlers_find(&self) -> Result<[ReservationState; 2]> {
        let of = |signer: &PrivateKeySigner| SettlerChain::new(self.world.source.node.clone(), signer.clone());
        let first = required(&self.first.deposit(), None);
        let next = required(&self.next.deposit(), escrowed(&self.order));
        Ok([
            of(&self.world.settler).reservation_state(&first).await?,
            of(&self.next_settler).reservation_state(&next).await?,
        ])
    }

    async fn held(&self) -> Result<EscrowState> {
        Ok(self.world.chains.escrow_state(self.first.id(), &self.first.escrow).await?)
    }

    fn refund(&self, non_delivery: Option<String>) -> RefundOrder {
        RefundOrder { payment_id: self.first.id().clone(), escrow: self.first.escrow.clone(), non_delivery }
    }

    /// Cancels by this word of the releaser's, and lets it settle.
    async fn cancel(&self, non_delivery: String) -> Result<()> {
        let prepared = self.world.chains.prepare_refund(&self.refund(Some(non_delivery)), 1).await?;
        self.world.chains.broadcast(&prepared).await?;
        self.world.source.mine(1 + DEPTH).await
    }
}

fn verifier(world: &World) -> Verifier {
    Verifier::default().with_chains([world.source.node.clone(), world.destination.node.clone()], Some(key(3).into()))
}

fn attested(outcome: Outcome) -> Result<String> {
    match outcome {
        Outcome::Attested(signature) => Ok(signature),
        other => bail!("not attested: {other:?}"),
    }
}

fn different() -> ReservationState {
    ReservationState::Different { reason: "quote hash".to_owned() }
}

fn refused(outcome: Result<TransactionPrepared, PrepareError>) -> Result<Refusal> {
    match outcome {
        Err(PrepareError::Refused(refusal)) => Ok(*refusal),
        other => bail!("not refused: {other:?}"),
    }
}

fn missed(state: ReassignmentState) -> Result<String> {
    match state {
        ReassignmentState::Missed { evidence } => Ok(evidence),
        other => bail!("not missed: {other:?}"),
    }
}

/// The call of a signed transaction, as `from` makes it.
fn call_of(prepared: &TransactionPrepared, from: &PrivateKeySigner) -> Result<Call> {
    let bytes = hex::decode(prepared.raw.trim_start_matches("0x"))?;
    let envelope = TxEnvelope::decode_2718(&mut bytes.as_slice())?;
    Ok(Call { from: from.address(), to: envelope.to(), value: U256::ZERO, data: envelope.input().clone() })
}

#[tokio::test]
async fn the_next_settler_delivers_and_is_paid_out_of_the_same_deposit() -> Result<()> {
    let faded = Faded::over().await?;
    let Faded { world, first, next, next_settler, order } = &faded;
    assert_eq!(faded.state().await?, ReassignmentState::Open);
    assert_eq!(faded.settlers_find().await?, [ReservationState::Reserved, ReservationState::Open]);
    let verifier = verifier(world);
    assert!(matches!(verifier.attest_delivery(&next.case()).await?, Outcome::Refused(_)), "not reserved yet");

    let prepared = world.chains.prepare_reassignment(order, 1).await?;
    assert_eq!(check_prepared(&prepared), Ok(()));
    // Nothing is sent before it is journaled; asked again, as after a crash, it has the same nonce.
    let again = world.chains.prepare_reassignment(order, 1).await?;
    assert_eq!((again.validity, &again.sender), (prepared.validity, &prepared.sender));
    assert_eq!(world.chains.transaction_state(from_ref(&prepared)).await?, TransactionState::Pending);
    let chain_id = &first.escrow.chain_id;
    let since = world.chains.cursor(chain_id, &first.escrow.contract).context("the escrow is not followed")?;
    let waits = |deadline| Waiting { chain_id, payment_id: first.id(), since, deadline, is_pushed: false };
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1).await?;
    world.gateway.watch_logs().await?;
    assert!(world.chains.has_news(&mut waits(u64::MAX)), "its event wakes who waits");
    assert_eq!(faded.state().await?, ReassignmentState::Open, "a block that may still vanish");
    assert_eq!(faded.settlers_find().await?, [ReservationState::Reserved, ReservationState::Open]);
    world.source.mine(DEPTH).await?;
    let ReassignmentState::Reassigned(inclusion) = faded.state().await? else { bail!("not reassigned") };
    assert_eq!(inclusion.transaction_hash, prepared.transaction_hash);
    assert_eq!(faded.held().await?, EscrowState::Held);
    assert_eq!(faded.settlers_find().await?, [different(), ReservationState::Reserved]);

    // The first settler's word and time are over, and the next one's count.
    for outcome in [verifier.attest_delivery(&first.case()).await?, verifier.attest_non_delivery(&first.case()).await?]
    {
        assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    }
    for outcome in [verifier.attest_delivery(&next.case()).await?, verifier.attest_non_delivery(&next.case()).await?] {
        assert!(matches!(outcome, Outcome::NotYet(_)), "{outcome:?}");
    }
    let delivering = SettlerChain::new(world.destination.node.clone(), next_settler.clone());
    delivering.deliver(&next.delivery()).await?;
    world.destination.mine(DEPTH).await?;
    let attestation = attested(verifier.attest_delivery(&next.case()).await?)?;
    assert_eq!(world.destination.balance(&world.recipient).await?, DELIVERED);

    let (payer, settler) = (world.source.balance(&world.payer).await?, world.source.balance(next_settler).await?);
    let release = world.chains.prepare_release(&release::order(&next.deposit(), attestation), 1).await?;
    world.chains.broadcast(&release).await?;
    world.source.mine(1 + DEPTH).await?;
    let EscrowState::Released(inclusion) = faded.held().await? else { bail!("not released") };
    assert_eq!(inclusion.transaction_hash, release.transaction_hash);
    assert_eq!(world.source.balance(next_settler).await?, settler + NEXT_PRICE);
    assert_eq!(world.source.balance(&world.payer).await?, payer + PRICE - NEXT_PRICE, "what is over goes back");
    assert_eq!(world.source.balance(&world.settler).await?, 10 * CAP);
    // Whoever asks again afterwards is told the same.
    assert!(matches!(faded.state().await?, ReassignmentState::Reassigned(_)));
    assert_eq!(faded.settlers_find().await?, [different(), ReservationState::Released]);
    Ok(())
}

#[tokio::test]
async fn no_reassignment_is_signed_before_the_promise_has_passed_on_the_source_chain() -> Result<()> {
    let faded = Faded::start().await?;
    let (world, lapses) = (&faded.world, faded.first.fulfill_by());
    // The destination and this process are past it.
    world.clock.advance(1_000);
    let waiting = |outcome: Result<TransactionPrepared, PrepareError>| match outcome {
        Err(PrepareError::Waiting(reason)) => Ok(reason),
        other => bail!("{other:?}"),
    };
    let reason = waiting(world.chains.prepare_reassignment(&faded.order, 1).await)?;
    assert!(reason.contains(&lapses.to_string()), "{reason}");
    let _: serde_json::Value = world.source.dev.rpc("evm_setNextBlockTimestamp", (lapses,)).await?;
    world.source.mine(1).await?;
    waiting(world.chains.prepare_reassignment(&faded.order, 1).await)?;
    assert_eq!(faded.state().await?, ReassignmentState::Open);
    world.source.pass(lapses + 1).await?;
    faded.reassign().await?;
    Ok(())
}

#[tokio::test]
async fn one_that_somebody_else_brought_is_found_and_the_gateways_is_given_up() -> Result<()> {
    let faded = Faded::over().await?;
    let world = &faded.world;
    let ours = world.chains.prepare_reassignment(&faded.order, 1).await?;
    let theirs = Wallet::new(world.source.node.clone(), world.payer.clone());
    let theirs = theirs.execute("theirs", &call_of(&ours, &world.payer)?).await?;
    assert!(theirs.success);
    // Another attempt is refused by what is there now, and says until when the first may be brought.
    let refusal = refused(world.chains.prepare_reassignment(&faded.order, 2).await)?;
    assert_eq!(refusal.valid_until, faded.next.fulfill_by());
    world.chains.broadcast(&ours).await?;
    world.source.mine(1 + DEPTH).await?;
    let ReassignmentState::Reassigned(inclusion) = faded.state().await? else { bail!("not reassigned") };
    assert_eq!(inclusion.transaction_hash, theirs.transaction_hash.to_string());
    let state = world.chains.transaction_state(from_ref(&ours)).await?;
    let TransactionState::Dead { evidence } = state else { bail!("{state:?}") };
    assert!(evidence.contains(&ours.transaction_hash), "{evidence}");
    // Its nonce is used, and nothing waits behind it.
    world.secure(&world.payment("next")?).await.map(drop)
}

#[tokio::test]
async fn one_that_a_reorganisation_takes_away_lands_again_by_the_same_bytes() -> Result<()> {
    let faded = Faded::over().await?;
    let world = &faded.world;
    let prepared = world.chains.prepare_reassignment(&faded.order, 1).await?;
    let mined = world.send(&prepared).await?;
    world.source.mine(DEPTH - 1).await?;
    world.source.forget(DEPTH).await?;
    assert_eq!(world.source.query().receipt(prepared.transaction_hash.parse()?).await?, None);
    world.source.mine(DEPTH).await?;
    assert_eq!(faded.state().await?, ReassignmentState::Open);
    assert_eq!(faded.settlers_find().await?, [ReservationState::Reserved, ReservationState::Open]);
    assert_eq!(world.chains.transaction_state(from_ref(&prepared)).await?, TransactionState::Pending);

    world.send(&prepared).await?;
    world.source.mine(DEPTH).await?;
    let ReassignmentState::Reassigned(inclusion) = faded.state().await? else { bail!("not reassigned") };
    assert_eq!(inclusion.transaction_hash, prepared.transaction_hash);
    assert!(inclusion.block_number > mined.block_number);
    assert_eq!(faded.settlers_find().await?, [different(), ReservationState::Reserved]);
    Ok(())
}

#[tokio::test]
async fn an_escrow_that_gave_the_money_back_meanwhile_takes_none() -> Result<()> {
    let faded = Faded::over().await?;
    let world = &faded.world;
    let prepared = world.chains.prepare_reassignment(&faded.order, 1).await?;
    let before = world.source.balance(&world.payer).await?;
    // Anyone may bring the releaser's word to `cancel`.
    let theirs = Wallet::new(world.source.node.clone(), world.payer.clone());
    let cancel = world.chains.prepare_refund(&faded.refund(Some(faded.order.non_delivery.clone())), 1).await?;
    theirs.execute("cancel", &call_of(&cancel, &world.payer)?).await?;
    let refusal = refused(world.chains.prepare_reassignment(&faded.order, 2).await)?;
    let reason = refusal.context.revert_reason.context("no reason")?;
    assert!(reason.starts_with("StateNotAllowed"), "{reason}");
    world.source.mine(DEPTH).await?;
    let evidence = missed(faded.state().await?)?;
    assert!(evidence.contains("given the money back"), "{evidence}");
    assert_eq!(faded.settlers_find().await?[1], ReservationState::Refunded);
    assert_eq!(world.source.balance(&world.payer).await?, before + PRICE);
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    missed(faded.state().await?)?;
    Ok(())
}

#[tokio::test]
async fn past_the_new_promise_none_comes_any_more() -> Result<()> {
    let faded = Faded::over().await?;
    let world = &faded.world;
    let prepared = world.chains.prepare_reassignment(&faded.order, 1).await?;
    world.source.automine(false).await?;
    let until = faded.next.fulfill_by();
    world.source.pass(until - DEPTH).await?;
    assert_eq!(faded.state().await?, ReassignmentState::Open);
    world.source.pass(until + 1).await?;
    let evidence = missed(faded.state().await?)?;
    assert!(evidence.contains("the promise of the new quote has passed"), "{evidence}");
    assert_eq!(faded.settlers_find().await?, [ReservationState::Reserved, ReservationState::Lapsed]);
    // One that is still on its way has no effect.
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    let state = world.chains.transaction_state(from_ref(&prepared)).await?;
    assert!(matches!(state, TransactionState::Dead { .. }), "{state:?}");
    missed(faded.state().await?)?;
    world.source.automine(true).await?;
    // The word that would have reassigned it gives the money back.
    faded.cancel(faded.order.non_delivery.clone()).await?;
    assert!(matches!(faded.held().await?, EscrowState::Refunded(_)));
    Ok(())
}

#[tokio::test]
async fn it_is_reassigned_once_more_and_cancelled_by_the_last_reservations_word_only() -> Result<()> {
    let faded = Faded::over().await?;
    // The next one promises less than there is time for a third.
    let last = faded.first.escrow.fulfillment_deadline;
    let next = next_quote(&faded.first, 1, &faded.next_settler, NEXT_PRICE, last - 240)?;
    let order = reassignment(&faded.first.deposit(), &next.deposit(), PRICE, faded.order.non_delivery.clone());
    let faded = Faded { next, order, ..faded };
    faded.reassign().await?;
    let world_verifier = verifier(&faded.world);

    faded.world.destination.pass(faded.next.fulfill_by() + 1).await?;
    let word = attested(world_verifier.attest_non_delivery(&faded.next.case()).await?)?;
    faded.world.source.pass(faded.next.fulfill_by() + 1).await?;
    // It asks for more than the one before, and for all that is in escrow.
    let third = next_quote(&faded.first, 2, &faded.world.settler, PRICE, last - 60)?;
    let order = reassignment(&faded.next.deposit(), &third.deposit(), PRICE, word.clone());
    let old = ReassignmentOrder { non_delivery: faded.order.non_delivery.clone(), ..order.clone() };
    let reason = refused(faded.world.chains.prepare_reassignment(&old, 2).await)?.context.revert_reason;
    assert!(reason.as_ref().is_some_and(|reason| reason.contains("Releaser")), "{reason:?}");
    let prepared = faded.world.chains.prepare_reassignment(&order, 2).await?;
    faded.world.chains.broadcast(&prepared).await?;
    faded.world.source.mine(1 + DEPTH).await?;
    let state = faded.world.chains.reassignment_state(&order).await?;
    let ReassignmentState::Reassigned(inclusion) = state else { bail!("{state:?}") };
    assert_eq!(inclusion.transaction_hash, prepared.transaction_hash);
    // Of the one before nothing is said that would be a guess.
    let before = faded.world.chains.reassignment_state(&faded.order).await;
    assert!(matches!(before, Err(Transient::Contradiction(_))), "{before:?}");
    assert_eq!(faded.settlers_find().await?, [different(), different()]);

    faded.world.destination.pass(third.fulfill_by() + 1).await?;
    let last_word = attested(world_verifier.attest_non_delivery(&third.case()).await?)?;
    for old in [faded.order.non_delivery.clone(), word] {
        refused(faded.world.chains.prepare_refund(&faded.refund(Some(old)), 1).await)?;
    }
    let before = faded.world.source.balance(&faded.world.payer).await?;
    faded.cancel(last_word).await?;
    let EscrowState::Refunded(refunded) = faded.held().await? else { bail!("not refunded") };
    assert_eq!(refunded.amount.to_string(), PRICE.to_string());
    assert_eq!(faded.world.source.balance(&faded.world.payer).await?, before + PRICE);
    Ok(())
}

#[tokio::test]
async fn a_quote_that_the_payer_chose_is_not_replaced_nor_one_dearer_than_the_deposit() -> Result<()> {
    let faded = Faded::over().await?;
    let dear = next_quote(&faded.first, 1, &faded.next_settler, PRICE + 1, faded.next.fulfill_by())?;
    let order = reassignment(&faded.first.deposit(), &dear.deposit(), PRICE, faded.order.non_delivery.clone());
    let reason = refused(faded.world.chains.prepare_reassignment(&order, 1).await)?.context.revert_reason;
    assert!(reason.as_ref().is_some_and(|reason| reason.starts_with("AmountAboveCap")), "{reason:?}");
    let same = ReassignmentOrder { reservation: faded.order.lapsed.clone(), ..faded.order.clone() };
    refused(faded.world.chains.prepare_reassignment(&same, 1).await)?;
    faded.reassign().await?;
    Ok(())
}

#[tokio::test]
async fn only_the_chains_own_escrow_is_reassigned() -> Result<()> {
    let world = World::start().await?;
    let plan = world.payment("order")?.escrow;
    assert!(world.chains.takes_reassignments(&plan));
    let another = EscrowPlan { contract: world.source.contracts.proxy.parse()?, ..plan.clone() };
    let unserved = EscrowPlan { chain_id: "eip155:1".parse()?, ..plan.clone() };
    let strange = EscrowPlan { reserver: text(&key(9)).parse()?, ..plan.clone() };
    for other in [another, unserved, strange] {
        assert!(!world.chains.takes_reassignments(&other), "{other:?}");
    }
    // Without keys it is a destination only.
    let destination = EscrowPlan {
        chain_id: world.destination.config.common.chain_id.clone(),
        contract: world.destination.config.common.escrow_contract.clone(),
        ..plan
    };
    assert!(!world.chains.takes_reassignments(&destination));
    Ok(())
}

#[tokio::test]
async fn it_goes_past_deposits_and_leaves_exits_their_coins() -> Result<()> {
    let faded = Faded::over().await?;
    let world = &faded.world;
    let (usual, for_exits) = (key(60), key(61));
    let keys = Keys {
        reserver: key(2).into(),
        draining_reservers: Vec::new(),
        submitters: vec![usual.clone().into()],
        exit_submitters: vec![for_exits.clone().into()],
        draining_submitters: Vec::new(),
    };
    let (ledger, budgets, clock) = (world.ledger.clone(), world.budgets.clone(), world.clock.clone());
    let chains = EvmChain::new(world.source.node.clone(), Some(keys), ledger, budgets, clock)?;
    let fees = world.source.query().fees().await?;
    let exits = U256::from(10 * 500_000) * U256::from(fees.base + fees.priority);
    let some = U256::from(1_000_000) * U256::from(fees.max);

    // Deposits have used up the usual account's coins; the other has what exits need, and no more.
    world.source.dev.fund(&text(&for_exits), exits).await?;
    let outcome = chains.prepare_reassignment(&faded.order, 1).await;
    assert!(matches!(outcome, Err(PrepareError::Transient(_))), "{outcome:?}");
    world.source.dev.fund(&text(&for_exits), exits + some).await?;
    assert_eq!(chains.prepare_reassignment(&faded.order, 1).await?.sender.as_str(), text(&for_exits));
    // Where that account can't, a usual one does.
    world.source.dev.fund(&text(&for_exits), exits).await?;
    world.source.dev.fund(&text(&usual), exits + some).await?;
    assert_eq!(chains.prepare_reassignment(&faded.order, 2).await?.sender.as_str(), text(&usual));
    let state = chains.delivery_state(&faded.first.delivery()).await;
    assert!(!matches!(state, Ok(DeliveryState::Final(_))), "{state:?}");
    Ok(())
}
