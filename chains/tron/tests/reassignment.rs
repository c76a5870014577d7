//! Reassignment on Tron: a settler that does not deliver is followed by another, who delivers and is paid out of the same deposit;
//! and what comes in between.

use std::{slice::from_ref, sync::Arc, time::Duration};

use alloy::{primitives::U256, signers::local::PrivateKeySigner, sol_types::SolCall};
use anyhow::{Result, bail, ensure};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};

use chains::{
    auditor::Audit,
    readiness::{Look, ReadinessProbe},
    settler::{DeliveryChain, ReservationState},
    verifier::{Outcome, Verifier},
};
use chains_tron::{
    adapter::{Keys, TronChain},
    authorization::Choice,
    node::{Info, State},
    settler::SettlerChain,
    transaction::read_signed,
};
use escrow_abi::contracts::GatewayEscrow;
use events::{
    Did, Hash32,
    event::{EscrowPlan, TransactionPrepared},
    quote::{Quote, reassignment_auction_of},
    time::from_unix_seconds,
};
use sagas::ports::{
    Chains, DeliveryState, DepositOrder, EscrowState, PrepareError, ReassignmentOrder, ReassignmentState, Reservation,
    TransactionState, Transient,
};

use crate::{
    belief::calls,
    evm_support::{
        reassignment::{escrowed, reassignment, required},
        release,
    },
    support::{
        liar::Liar,
        payment::{CAP, DELIVERED, PRICE, TestClock, bytes, reason, refusal},
        quoted::{Payment, amount},
        *,
    },
};

/// What the settler asks for that follows.
const NEXT_PRICE: u64 = 880_000;
/// How long a payment may take, the first promise and the second last from the beginning, in seconds.
const WINDOW: u64 = 600;
const PROMISE: u64 = WINDOW / 2 + 20;
const NEXT_PROMISE: u64 = PROMISE + 160;

/// The settler that follows.
fn next_settler() -> PrivateKeySigner {
    key(40)
}

/// A deposit whose settler has not delivered by the time that it promised, and the reassignment to the one that follows.
struct Faded {
    world: World,
    chains: TronChain,
    first: DepositOrder,
    order: ReassignmentOrder,
}

impl Faded {
    /// The first promise still lasts.
    async fn start() -> Result<Self> {
        let world = World::start().await?;
        let chains = world.chains();
        let now = world.time().await?;
        // No settler may be named first any more when the reassignment comes.
        let choice = Choice { reserve_deadline: Some(now + WINDOW / 2 + 10), ..Choice::default() };
        let mut first = world.order_by(&world.payer, WINDOW, &choice).await?;
        first.reservation.fulfill_by = now + PROMISE;
        world.secured(&chains, &first).await?;
        let next = Reservation {
            quote_hash: Hash32([10; 32]),
            payout_account: holder(&next_settler()),
            source_amount: amount(NEXT_PRICE),
            fulfill_by: now + NEXT_PROMISE,
        };
        let order = ordered(&world, &first, next);
        Ok(Self { world, chains, first, order })
    }

    /// The same, and it is over.
    async fn over() -> Result<Self> {
        let faded = Self::start().await?;
        faded.past(faded.first.reservation.fulfill_by).await?;
        ensure!(faded.world.time().await? > faded.first.escrow.reserve_deadline);
        Ok(faded)
    }

    /// Solidifies a block that is past this second.
    async fn past(&self, second: u64) -> Result<()> {
        past(&self.world, second).await
    }

    async fn state(&self) -> Result<ReassignmentState> {
        Ok(self.chains.reassignment_state(&self.order).await?)
    }

    async fn prepared(&self, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.chains.prepare_reassignment(&self.order, attempt).await
    }

    async fn reassign(&self) -> Result<TransactionPrepared> {
        let prepared = self.prepared(1).await?;
        self.world.settle(&self.chains, &prepared).await?;
        reassigned(self.state().await?, &prepared.transaction_hash)?;
        Ok(prepared)
    }

    /// Brings the call of `prepared` in a transaction of the payer's.
    async fn bring(&self, prepared: &TransactionPrepared) -> Result<Info> {
        let (decoded, _) = read_signed(&bytes(&prepared.raw)?)?;
        let contract = &self.world.contracts.escrow;
        Ok(self.world.dev.execute(&self.world.payer, contract, decoded.draft.call.data, 0).await?)
    }
}

/// The reassignment of the deposit `first` to `next`, by the releaser's own word.
fn ordered(world: &World, first: &DepositOrder, next: Reservation) -> ReassignmentOrder {
    let following = DepositOrder { reservation: next, ..first.clone() };
    reassignment(first, &following, CAP, world.attest(&world.non_delivery(first)))
}

async fn past(world: &World, second: u64) -> Result<()> {
    let left = (second + 1).saturating_sub(world.time().await?);
    world.advance(Duration::from_secs(left)).await?;
    world.solidify().await
}

fn reassigned(state: ReassignmentState, by: &str) -> Result<()> {
    match state {
        ReassignmentState::Reassigned(inclusion) if inclusion.transaction_hash == by => Ok(()),
        other => bail!("not reassigned by {by}: {other:?}"),
    }
}

fn missed(state: ReassignmentState) -> Result<String> {
    match state {
        ReassignmentState::Missed { evidence } => Ok(evidence),
        other => bail!("not missed: {other:?}"),
    }
}

fn waiting(outcome: Result<TransactionPrepared, PrepareError>) -> Result<String> {
    match outcome {
        Err(PrepareError::Waiting(reason)) => Ok(reason),
        other => bail!("does not wait: {other:?}"),
    }
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

/// The payment with a quote of `settler`'s from the auction after its `round`-th lapsed reservation.
fn requoted(
    payment: &Payment,
    round: usize,
    settler: &PrivateKeySigner,
    price: u64,
    fulfill_by: u64,
) -> Result<Payment> {
    let signing = SigningKey::from_bytes(&[20; 32]);
    let quote = Quote {
        auction_id: reassignment_auction_of(&payment.id, round),
        settler: Did::from_ed25519(&signing.verifying_key()),
        source_amount: amount(price),
        payout_account: holder(settler),
        delivery_account: holder(settler),
        fulfill_by: from_unix_seconds(fulfill_by).unwrap(),
        ..payment.quote.quote().clone()
    };
    let quote = quote.sign(&signing, from_unix_seconds(payment.plan.fulfillment_deadline - 600).unwrap())?;
    Ok(Payment { quote, ..payment.clone() })
}

#[tokio::test]
async fn the_next_settler_delivers_and_is_paid_out_of_the_same_deposit() -> Result<()> {
    let world = World::start().await?;
    let (chains, theirs) = (world.chains(), next_settler());
    world.dev.fund(&account(&theirs), FUNDS).await?;
    world.dev.mint(&world.token, &account(&theirs), U256::from(TOKENS)).await?;
    let quoted = Payment::within_tron(&world, WINDOW, world.trc20(&world.token, &account(&world.recipient))).await?;
    let now = world.time().await?;
    let first = requoted(&quoted, 0, &world.settler, PRICE, now + PROMISE)?;
    let next = requoted(&quoted, 1, &theirs, NEXT_PRICE, now + NEXT_PROMISE)?;
    first.secure(&world).await?;
    let verifier = Verifier::default().with_chains([world.node()], Some(world.releaser.clone().into()));
    assert!(matches!(verifier.attest_non_delivery(&first.case()).await?, Outcome::NotYet(_)));
    past(&world, first.fulfill_by()).await?;
    let word = attested(verifier.attest_non_delivery(&first.case()).await?)?;
    assert!(matches!(verifier.attest_delivery(&next.case()).await?, Outcome::Refused(_)), "not reserved yet");

    let order = reassignment(&first.deposit(), &next.deposit(), CAP, word);
    let settlers_find = async || -> Result<[ReservationState; 2]> {
        let following = SettlerChain::new(world.node(), theirs.clone());
        let required_next = required(&next.deposit(), escrowed(&order));
        Ok([
            world.settling().reservation_state(&required(&first.deposit(), None)).await?,
            following.reservation_state(&required_next).await?,
        ])
    };
    assert_eq!(settlers_find().await?, [ReservationState::Reserved, ReservationState::Open]);
    let prepared = chains.prepare_reassignment(&order, 1).await?;
    chains.broadcast(&prepared).await?;
    world.mine(1).await?;
    assert_eq!(chains.reassignment_state(&order).await?, ReassignmentState::Open, "it may still vanish");
    assert_eq!(settlers_find().await?, [ReservationState::Reserved, ReservationState::Open]);
    world.solidify().await?;
    reassigned(chains.reassignment_state(&order).await?, &prepared.transaction_hash)?;
    assert_eq!(settlers_find().await?, [different(), ReservationState::Reserved]);
    assert_eq!(chains.escrow_state(&first.id, &first.plan).await?, EscrowState::Held);

    for outcome in [verifier.attest_delivery(&first.case()).await?, verifier.attest_non_delivery(&first.case()).await?]
    {
        assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    }
    for outcome in [verifier.attest_delivery(&next.case()).await?, verifier.attest_non_delivery(&next.case()).await?] {
        assert!(matches!(outcome, Outcome::NotYet(_)), "{outcome:?}");
    }
    let (following, delivery) = (SettlerChain::new(world.node(), theirs.clone()), next.delivery());
    world.mining(following.deliver(&delivery)).await??;
    let is_final = |state: &DeliveryState| matches!(state, DeliveryState::Final(_));
    world.mining(until(|| following.delivery_state(&delivery), is_final)).await??;
    let attestation = attested(verifier.attest_delivery(&next.case()).await?)?;

    let release = chains.prepare_release(&release::order(&next.deposit(), attestation), 1).await?;
    world.settle(&chains, &release).await?;
    let EscrowState::Released(inclusion) = next.ended(&world).await? else { bail!("not released") };
    assert_eq!(inclusion.transaction_hash, release.transaction_hash);
    assert_eq!(world.tokens(&theirs).await?, TOKENS - DELIVERED + NEXT_PRICE);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - NEXT_PRICE, "what is over goes back");
    assert_eq!(world.tokens(&world.settler).await?, TOKENS);
    assert_eq!(world.auditor().audit_release(&next.audited(), &inclusion, amount(CAP)).await?, []);
    assert_eq!(settlers_find().await?, [different(), ReservationState::Released]);
    reassigned(chains.reassignment_state(&order).await?, &prepared.transaction_hash)
}

#[tokio::test]
async fn none_is_signed_before_the_promise_has_passed_on_the_source_chain() -> Result<()> {
    let faded = Faded::start().await?;
    let lapses = faded.first.reservation.fulfill_by;
    assert!(waiting(faded.prepared(1).await)?.contains(&lapses.to_string()));
    assert_eq!(faded.state().await?, ReassignmentState::Open);
    faded.past(lapses).await?;
    faded.reassign().await?;
    // A gateway that was started anew finds all of it, told by its journal or by events.
    for told in [true, false] {
        let chains = faded.world.chains();
        if told {
            chains.expect_terms(&faded.order.terms_after());
        }
        let (id, plan) = (&faded.order.payment_id, &faded.order.escrow);
        assert_eq!(chains.escrow_state(id, plan).await?, EscrowState::Held);
    }
    let reason = reason(faded.prepared(2).await)?;
    assert!(reason.contains("not reserved for the quote that lapsed"), "{reason}");
    Ok(())
}

#[tokio::test]
async fn one_that_somebody_else_brought_is_found_and_the_gateways_is_given_up() -> Result<()> {
    let faded = Faded::over().await?;
    let ours = faded.prepared(1).await?;
    let theirs = faded.bring(&ours).await?;
    ensure!(theirs.failure.is_none(), "{theirs:?}");
    let refused = refusal(faded.prepared(2).await)?;
    assert_eq!(refused.valid_until, faded.order.reservation.fulfill_by, "so long the first may be brought");
    faded.world.settle(&faded.chains, &ours).await?;
    reassigned(faded.state().await?, &theirs.id.to_string())?;
    let state = faded.chains.transaction_state(from_ref(&ours)).await?;
    let TransactionState::Dead { evidence } = state else { bail!("{state:?}") };
    assert!(evidence.contains(&ours.transaction_hash), "{evidence}");
    Ok(())
}

#[tokio::test]
async fn one_that_a_fork_takes_away_lands_again_by_the_same_bytes_or_by_others() -> Result<()> {
    let faded = Faded::over().await?;
    let prepared = faded.prepared(1).await?;
    let mined = async || -> Result<bool> {
        Ok(faded.world.node().info(prepared.transaction_hash.parse()?, State::Newest).await?.is_some())
    };
    faded.chains.broadcast(&prepared).await?;
    faded.world.mine(1).await?;
    ensure!(mined().await?);
    faded.world.dev.control("fork", json!({"blocks": 1, "drop_transactions": true})).await?;
    faded.world.mine(1).await?;
    ensure!(!mined().await?);
    faded.world.solidify().await?;
    assert_eq!(faded.state().await?, ReassignmentState::Open);
    assert_eq!(faded.chains.transaction_state(from_ref(&prepared)).await?, TransactionState::Pending);
    faded.world.settle(&faded.chains, &prepared).await?;
    reassigned(faded.state().await?, &prepared.transaction_hash)
}

#[tokio::test]
async fn an_escrow_that_gave_the_money_back_meanwhile_takes_none() -> Result<()> {
    let faded = Faded::over().await?;
    let cancel = faded.chains.prepare_refund(&faded.world.cancellation(&faded.first), 1).await?;
    faded.world.settle(&faded.chains, &cancel).await?;
    let evidence = missed(faded.state().await?)?;
    assert!(evidence.contains("given the money back"), "{evidence}");
    assert!(reason(faded.prepared(1).await)?.contains("no reservation"));
    let order = required(
        &DepositOrder { reservation: faded.order.reservation.clone(), ..faded.first.clone() },
        escrowed(&faded.order),
    );
    let following = SettlerChain::new(faded.world.node(), next_settler());
    assert_eq!(following.reservation_state(&order).await?, ReservationState::Refunded);
    Ok(())
}

#[tokio::test]
async fn past_the_new_promise_none_comes_any_more() -> Result<()> {
    let faded = Faded::over().await?;
    let until = faded.order.reservation.fulfill_by;
    let prepared = faded.prepared(1).await?;
    faded.past(until).await?;
    let evidence = missed(faded.state().await?)?;
    assert!(evidence.contains("the promise of the new quote has passed"), "{evidence}");
    let order = required(
        &DepositOrder { reservation: faded.order.reservation.clone(), ..faded.first.clone() },
        escrowed(&faded.order),
    );
    let following = SettlerChain::new(faded.world.node(), next_settler());
    assert_eq!(following.reservation_state(&order).await?, ReservationState::Lapsed);
    refusal(faded.prepared(2).await)?;
    // The network takes the transaction no more, and the contract its call.
    let state = faded.chains.transaction_state(from_ref(&prepared)).await?;
    assert!(matches!(state, TransactionState::Dead { .. }), "{state:?}");
    let theirs = faded.bring(&prepared).await;
    ensure!(theirs.as_ref().is_err_and(|error| error.to_string().contains("FulfillByPassed")), "{theirs:?}");
    // The word that would have reassigned it gives the money back.
    let cancel = faded.chains.prepare_refund(&faded.world.cancellation(&faded.first), 1).await?;
    faded.world.settle(&faded.chains, &cancel).await?;
    let state = faded.chains.escrow_state(&faded.first.payment_id, &faded.first.escrow).await?;
    assert!(matches!(state, EscrowState::Refunded(_)), "{state:?}");
    assert_eq!(faded.world.tokens(&faded.world.payer).await?, TOKENS);
    Ok(())
}

#[tokio::test]
async fn it_is_reassigned_once_more_and_cancelled_by_the_last_reservations_word_only() -> Result<()> {
    let faded = Faded::over().await?;
    let world = &faded.world;
    faded.reassign().await?;
    let second = DepositOrder { reservation: faded.order.reservation.clone(), ..faded.first.clone() };
    past(world, second.reservation.fulfill_by).await?;
    let third = Reservation {
        quote_hash: Hash32([11; 32]),
        payout_account: holder(&world.settler),
        // More than any before, and all that is in escrow.
        source_amount: amount(CAP),
        fulfill_by: second.escrow.fulfillment_deadline,
    };
    let order = ordered(world, &second, third.clone());
    let old = ReassignmentOrder { non_delivery: faded.order.non_delivery.clone(), ..order.clone() };
    let refused = reason(faded.chains.prepare_reassignment(&old, 1).await)?;
    assert!(refused.contains("Releaser"), "{refused}");
    let prepared = faded.chains.prepare_reassignment(&order, 1).await?;
    world.settle(&faded.chains, &prepared).await?;
    reassigned(faded.chains.reassignment_state(&order).await?, &prepared.transaction_hash)?;
    let before = faded.chains.reassignment_state(&faded.order).await;
    assert!(matches!(before, Err(Transient::Contradiction(_))), "nothing is said that would be a guess: {before:?}");

    for old in [&faded.first, &second] {
        refusal(faded.chains.prepare_refund(&world.cancellation(old), 1).await)?;
    }
    let last = DepositOrder { reservation: third, ..second };
    let cancel = faded.chains.prepare_refund(&world.cancellation(&last), 1).await?;
    world.settle(&faded.chains, &cancel).await?;
    let state = faded.chains.escrow_state(&last.payment_id, &last.escrow).await?;
    let EscrowState::Refunded(refunded) = state else { bail!("{state:?}") };
    assert_eq!(refunded.amount, amount(CAP));
    Ok(())
}

#[tokio::test]
async fn what_was_reassigned_after_the_solidified_block_is_looked_at_again() -> Result<()> {
    let faded = Faded::over().await?;
    let liar = Liar::before(&faded.world.tron.url()).await?;
    let chains = faded.world.chains_at(&liar.url);
    assert_eq!(chains.reassignment_state(&faded.order).await?, ReassignmentState::Open);
    chains.broadcast(&faded.prepared(1).await?).await?;
    faded.world.mine(1).await?;
    assert_eq!(chains.reassignment_state(&faded.order).await?, ReassignmentState::Open);
    // A node that answers questions about the solidified state by its newest one: what was reserved before nobody tells.
    let record = GatewayEscrow::recordAsOfCall { paymentId: faded.order.payment_id.on_chain().0.into() };
    let asked = json!({
        "owner_address": "41".to_owned() + &"00".repeat(20),
        "contract_address": chains_tron::address::api(faded.world.escrow()),
        "data": hex::encode(record.abi_encode()),
    });
    let newest: Value = faded.world.dev.control("../wallet/triggerconstantcontract", asked).await?;
    liar.tell(move |path, request, truth| {
        let is = path.starts_with("walletsolidity") && calls(path, request, "recordAsOf(bytes32)");
        if is { newest.clone() } else { truth }
    });
    for outcome in [
        chains.reassignment_state(&faded.order).await.map(drop),
        chains.escrow_state(&faded.order.payment_id, &faded.order.escrow).await.map(drop),
    ] {
        assert!(matches!(outcome, Err(Transient::Unreachable(_))), "{outcome:?}");
    }
    liar.be_honest();
    assert_eq!(chains.reassignment_state(&faded.order).await?, ReassignmentState::Open);
    faded.world.solidify().await?;
    let state = chains.reassignment_state(&faded.order).await?;
    assert!(matches!(state, ReassignmentState::Reassigned(_)), "{state:?}");
    Ok(())
}

#[tokio::test]
async fn only_the_chains_own_escrow_of_this_version_is_reassigned() -> Result<()> {
    let world = World::start().await?;
    let plan = world.order(600).await?.escrow;
    let liar = Liar::before(&world.tron.url()).await?;
    let (chains, node) = {
        let node = world.node_at(&liar.url);
        let keys = Keys {
            reserver: world.reserver.clone().into(),
            draining_reservers: Vec::new(),
            submitters: vec![world.submitters[0].clone().into()],
            exit_submitters: Vec::new(),
        };
        (TronChain::new(node.clone(), Some(keys), Arc::new(TestClock))?, node)
    };
    let another = EscrowPlan { contract: world.contracts.proxy.parse()?, ..plan.clone() };
    let strange = EscrowPlan { reserver: holder(&key(99)), ..plan.clone() };
    for other in [&another, &strange] {
        assert!(!chains.takes_reassignments(other), "{other:?}");
    }
    let destination = TronChain::new(node.clone(), None, Arc::new(TestClock))?;
    assert!(!destination.takes_reassignments(&plan), "without keys it is a destination only");

    let looked = async || match node.look(true).await? {
        Look::Head(_) => anyhow::Ok(chains.takes_reassignments(&plan)),
        other => bail!("{other:?}"),
    };
    assert!(looked().await?);
    let selector = hex::encode(GatewayEscrow::reassignCall::SELECTOR);
    liar.tell(move |path, _, mut truth| {
        if path == "wallet/getcontractinfo"
            && let Some(code) = truth["runtimecode"].as_str()
        {
            truth["runtimecode"] = Value::from(code.replace(&selector, "00000000"));
        }
        truth
    });
    assert!(!looked().await?);
    liar.be_honest();
    assert!(looked().await?);
    Ok(())
}
