//! Reassignments: an escrow whose settler does not deliver goes to another, through the ports of gateway, settler, verifier and
//! auditor.

use anyhow::{Context, Result, bail};

use chains::{
    auditor::{self, Audit, Case, Kind},
    readiness::{Look, ReadinessProbe},
    settler::{DeliveryChain, ReservationOrder, ReservationState},
    verifier::Outcome,
};
use chains_solana::{
    adapter::SolanaChain,
    auditor::{Auditor, check_prepared},
    keys::account,
    program::key as program_key,
    reassignments::Reassignments,
    settler::SettlerChain,
};
use ed25519_dalek::SigningKey;
use events::{
    Hash32,
    event::{EscrowPlan, EscrowRefunded, EscrowSecured, Inclusion, TransactionPrepared},
};
use gateway_program::log::REASSIGN_SAID;
use sagas::ports::{
    Chains, DepositState, EscrowState, Escrowed, PrepareError, ReassignmentOrder, ReassignmentState, RefundOrder,
    ReleaseOrder, Reservation, TransactionState, Transient,
};
use serde_json::json;

use super::{
    Payment, amount, delivered, ended, kinds, native,
    reassignment_audit::Proven,
    secure, verifier,
    verifier_sets::{Verifiers, world_of},
};
use crate::{
    evm_support::{liar::Liar, release::statement},
    support::{PRICE, TOKENS, World, key, settle, until, wallet},
};

/// What the next settler asks less than the first one.
pub(super) const LESS: u64 = 7;

/// A payment in escrow for a settler whose time is over, and the next settler's quote.
pub(super) struct Lapsed {
    pub(super) first: Payment,
    pub(super) next: Payment,
    pub(super) deposited: TransactionPrepared,
    pub(super) secured: EscrowSecured,
}

pub(super) fn next_settler() -> SigningKey {
    key(9)
}

/// With a first quote whose time is not over.
async fn reserved(world: &World) -> Result<Lapsed> {
    let payment = Payment::from_solana(world, native(world), &account(&world.settler), &world.program).await?;
    let last = payment.plan.fulfillment_deadline;
    let first = payment.requoted(&account(&world.settler), PRICE, last - 400)?;
    let next = payment.requoted(&account(&next_settler()), PRICE - LESS, last - 200)?;
    world.surfnet.airdrop(&account(&next_settler()), 1_000_000_000).await?;
    world.dev.mint(&world.token, &account(&next_settler()), 1).await?;
    let (deposited, secured) = secure(world, &first).await?;
    Ok(Lapsed { first, next, deposited, secured })
}

pub(super) async fn lapsed(world: &World) -> Result<Lapsed> {
    let lapsed = reserved(world).await?;
    world.surfnet.travel_to(lapsed.first.fulfill_by() + 1).await?;
    Ok(lapsed)
}

impl Lapsed {
    pub(super) fn order(&self, world: &World) -> ReassignmentOrder {
        order(&self.first, &self.next, world.attest(&world.non_delivery(&self.first.deposit())))
    }
}

pub(super) fn order(lapsed: &Payment, next: &Payment, non_delivery: String) -> ReassignmentOrder {
    let deposit = next.deposit();
    ReassignmentOrder {
        payment_id: deposit.payment_id,
        terms: deposit.terms,
        terms_hash: deposit.terms_hash,
        escrow: deposit.escrow,
        authorization: deposit.authorization,
        deposited: amount(PRICE),
        lapsed: lapsed.deposit().reservation,
        non_delivery,
        reservation: deposit.reservation,
    }
}

pub(super) async fn reassigned(chain: &SolanaChain, order: &ReassignmentOrder) -> Result<Inclusion> {
    match until(|| chain.reassignment_state(order), |state| *state != ReassignmentState::Open).await? {
        ReassignmentState::Reassigned(inclusion) => Ok(inclusion),
        other => bail!("{other:?}"),
    }
}

async fn refusal(chain: &SolanaChain, order: &ReassignmentOrder) -> Result<String> {
    match chain.prepare_reassignment(order, 1).await {
        Err(PrepareError::Refused(refusal)) => {
            // Nobody signed what the node was shown.
            assert_eq!(refusal.valid_until, 0);
            refusal.context.revert_reason.context("no reason")
        }
        other => bail!("not refused: {other:?}"),
    }
}

pub(super) fn releasing(payment: &Payment, attestation: String) -> ReleaseOrder {
    let deposit = payment.deposit();
    ReleaseOrder {
        payment_id: deposit.payment_id,
        escrow: deposit.escrow,
        quote_hash: deposit.reservation.quote_hash,
        payout_account: deposit.reservation.payout_account,
        attestation,
    }
}

fn cancelling(payment: &Payment, non_delivery: String) -> RefundOrder {
    RefundOrder { payment_id: payment.id.clone(), escrow: payment.plan.clone(), non_delivery: Some(non_delivery) }
}

#[tokio::test]
async fn the_next_settler_delivers_and_is_paid_and_the_rest_is_the_payers() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let lapsed = lapsed(&world).await?;
    let Lapsed { first, next, .. } = &lapsed;
    let order = lapsed.order(&world);
    let verifier = verifier(&world, &world.releaser);
    let Outcome::Attested(signed) = until_attested(&verifier, first).await? else { bail!("refused") };
    assert_eq!(signed, order.non_delivery);
    assert!(chain.takes_reassignments(&first.plan));
    assert_eq!(until(|| chain.reassignment_state(&order), |_| true).await?, ReassignmentState::Open);

    let settler = SettlerChain::new(world.node(), next_settler());
    let awaited = reservation_order(first, next);
    assert_eq!(settler.reservation_state(&awaited).await?, ReservationState::Open);
    let prepared = chain.prepare_reassignment(&order, 1).await?;
    assert_eq!(check_prepared(&prepared), Ok(()));
    assert_eq!(
        chain.reassignment_state(&order).await?,
        ReassignmentState::Open,
        "nothing is sent before it is journaled"
    );
    chain.broadcast(&prepared).await?;
    chain.broadcast(&prepared).await?;
    let inclusion = reassigned(&chain, &order).await?;
    assert_eq!(inclusion.transaction_hash, prepared.transaction_hash);

    // What was there before is found as ever.
    assert_eq!(chain.escrow_state(&first.id, &first.plan).await?, EscrowState::Held);
    assert_eq!(chain.deposit_secured(&first.deposit()).await?, Some(lapsed.secured.clone()));
    let deposit_state = chain.deposit_state(&first.deposit(), std::slice::from_ref(&lapsed.deposited)).await?;
    assert_eq!(deposit_state, DepositState::Secured(lapsed.secured.clone()));
    let found = chain.escrow_found(&first.deposit().payer_deposit()).await?.context("not found")?;
    assert_eq!((found.reserved_for, found.inclusion), (Some(next.quote.hash()), lapsed.secured.inclusion.clone()));
    assert_eq!(chain.transaction_state(std::slice::from_ref(&prepared)).await?, TransactionState::Pending);
    assert!(refusal(&chain, &order).await?.starts_with("ReservationMismatch"));

    assert_eq!(settler.reservation_state(&awaited).await?, ReservationState::Reserved);
    settler.deliver(&next.delivery()).await?;
    let delivery = delivered(&settler, next).await?;
    let Outcome::Attested(attestation) = verifier.attest_delivery(&next.case()).await? else { bail!("refused") };
    let prepared = chain.prepare_release(&releasing(next, attestation), 1).await?;
    chain.broadcast(&prepared).await?;
    let EscrowState::Released(release) = ended(&world, next).await? else { bail!("not released") };
    assert_eq!(release.transaction_hash, prepared.transaction_hash);
    assert_eq!(world.tokens(&next_settler()).await?, 1 + PRICE - LESS);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - PRICE + LESS, "along with the release");
    assert_eq!(chain.claims(&first.id, &first.plan, &release).await?, []);
    assert_eq!(chain.reassignment_state(&order).await?, ReassignmentState::Reassigned(inclusion.clone()));

    let proven = Proven { auditor: Auditor::new(world.node()), lapsed: &lapsed, inclusion: &inclusion };
    proven.is_clean(&delivery, &release).await?;
    proven.every_field_is_compared(&release).await
}

async fn until_attested(verifier: &chains::verifier::Verifier, payment: &Payment) -> Result<Outcome> {
    let case = payment.case();
    until(|| verifier.attest_non_delivery(&case), |outcome| !matches!(outcome, Outcome::NotYet(_))).await
}

fn reservation_order(first: &Payment, next: &Payment) -> ReservationOrder {
    let deposit = next.deposit();
    let Reservation { quote_hash, payout_account, source_amount, fulfill_by } = deposit.reservation;
    ReservationOrder {
        payment_id: deposit.payment_id,
        escrow: deposit.escrow,
        payer: next.terms.source.account().clone(),
        asset: next.terms.source.asset().clone(),
        terms_hash: deposit.terms_hash,
        quote_hash,
        payout_account,
        source_amount,
        fulfill_by,
        escrowed: Some(Escrowed { amount: amount(PRICE), reserved_for: first.quote.hash() }),
    }
}

#[tokio::test]
async fn nothing_is_reassigned_before_the_promise_has_passed_or_against_the_rules() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let lapsed = reserved(&world).await?;
    let order = lapsed.order(&world);
    match chain.prepare_reassignment(&order, 1).await {
        Err(PrepareError::Waiting(why)) => assert!(why.contains("the reservation lapses after"), "{why}"),
        other => bail!("{other:?}"),
    }
    assert_eq!(chain.reassignment_state(&order).await?, ReassignmentState::Open);
    world.surfnet.travel_to(lapsed.first.fulfill_by() + 1).await?;

    type Change = fn(&mut ReassignmentOrder);
    let changes: [(&str, Change); 5] = [
        ("AmountAboveCap", |order| order.reservation.source_amount = amount(PRICE + 1)),
        ("FulfillByPassed", |order| order.reservation.fulfill_by = order.lapsed.fulfill_by),
        ("FulfillByTooLate", |order| order.reservation.fulfill_by = order.escrow.fulfillment_deadline + 1),
        ("QuoteNotAnother", |order| order.reservation.quote_hash = order.lapsed.quote_hash),
        ("ReservationMismatch", |order| order.lapsed.quote_hash = Hash32([3; 32])),
    ];
    for (reason, change) in changes {
        let mut order = order.clone();
        change(&mut order);
        let refused = refusal(&chain, &order).await?;
        assert!(refused.starts_with(reason), "{refused}");
    }
    let word_of = |word: String| ReassignmentOrder { non_delivery: word, ..order.clone() };
    let delivery = statement(&lapsed.first.deposit());
    for word in [
        world.attest(&delivery),
        world.attest_by(&key(99), &world.non_delivery(&lapsed.first.deposit())),
        world.attest(&world.non_delivery(&lapsed.next.deposit())),
    ] {
        let refused = refusal(&chain, &word_of(word)).await?;
        assert!(refused.contains("the Ed25519 signature does not hold"), "{refused}");
    }
    let broken = chain.prepare_reassignment(&word_of("0x12".to_owned()), 1).await;
    assert!(matches!(broken, Err(PrepareError::Transient(Transient::Misconfigured(_)))), "{broken:?}");
    let mut stranger = order.clone();
    stranger.escrow.refund_after += 1;
    assert!(refusal(&chain, &stranger).await?.contains("not the payment's"));
    let other_contract = EscrowPlan { contract: wallet(&key(99)), ..order.escrow.clone() };
    assert!(!chain.takes_reassignments(&other_contract));
    let other_reserver = EscrowPlan { reserver: wallet(&key(99)), ..order.escrow.clone() };
    assert!(!chain.takes_reassignments(&other_reserver));
    assert!(
        !SolanaChain::new(world.node(), None, std::sync::Arc::new(crate::support::TestClock))?
            .takes_reassignments(&order.escrow)
    );
    let prepared = chain.prepare_reassignment(&order, 1).await?;
    chain.broadcast(&prepared).await?;
    reassigned(&chain, &order).await?;
    Ok(())
}

#[tokio::test]
async fn a_gateway_that_was_killed_between_signature_and_broadcast_goes_on_and_so_may_another() -> Result<()> {
    let world = World::start().await?;
    let lapsed = lapsed(&world).await?;
    let order = lapsed.order(&world);
    let prepared = world.chain().prepare_reassignment(&order, 1).await?;
    // Another process with the same journal, and one that prepared its own in the meantime.
    let (chain, other) = (world.chain(), world.chain());
    let versions = std::slice::from_ref(&prepared);
    assert_eq!(chain.transaction_state(versions).await?, TransactionState::Pending);
    let others = other.prepare_reassignment(&order, 2).await?;
    assert_ne!(others.transaction_hash, prepared.transaction_hash);
    other.broadcast(&others).await?;
    let inclusion = reassigned(&chain, &order).await?;
    assert_eq!(inclusion.transaction_hash, others.transaction_hash, "whoever brought it");
    // The other's bytes can have no effect any more, whatever a node says to them.
    let _ = chain.broadcast(&prepared).await;
    let dead = until(|| chain.transaction_state(versions), |state| *state != TransactionState::Pending).await?;
    assert!(matches!(dead, TransactionState::Dead { .. }));
    assert_eq!(chain.reassignment_state(&order).await?, ReassignmentState::Reassigned(inclusion));
    Ok(())
}

#[tokio::test]
async fn a_reassignment_that_never_landed_is_missed_and_the_money_goes_back() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let lapsed = lapsed(&world).await?;
    let order = lapsed.order(&world);
    let prepared = chain.prepare_reassignment(&order, 1).await?;
    world.surfnet.travel_to(lapsed.next.fulfill_by() + 1).await?;
    let state = until(|| chain.reassignment_state(&order), |state| *state != ReassignmentState::Open).await?;
    let ReassignmentState::Missed { evidence } = state else { bail!("{state:?}") };
    assert!(evidence.contains("the promise of the new quote has passed"), "{evidence}");
    // Late bytes change nothing.
    let _ = chain.broadcast(&prepared).await;
    assert!(refusal(&chain, &order).await?.starts_with("FulfillByPassed"));
    let cancel = chain.prepare_refund(&cancelling(&lapsed.first, order.non_delivery.clone()), 1).await?;
    chain.broadcast(&cancel).await?;
    let EscrowState::Refunded(refunded) = ended(&world, &lapsed.first).await? else { bail!("not refunded") };
    assert_eq!((refunded.inclusion.transaction_hash, refunded.amount), (cancel.transaction_hash, amount(PRICE)));
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    let state = chain.reassignment_state(&order).await?;
    assert!(matches!(state, ReassignmentState::Missed { .. }), "{state:?}");
    Ok(())
}

#[tokio::test]
async fn one_after_the_other_and_the_history_tells_them_all() -> Result<()> {
    let world = World::start().await?;
    let (chain, node) = (world.chain(), world.node());
    let lapsed = lapsed(&world).await?;
    let Lapsed { first, next: second, .. } = &lapsed;
    let program = program_key(&first.plan.contract)?;
    let made = || async { Reassignments::of(&node).all(&first.id, &program).await };
    assert_eq!(made().await?, []);
    let to_second = lapsed.order(&world);
    chain.broadcast(&chain.prepare_reassignment(&to_second, 1).await?).await?;
    let one = reassigned(&chain, &to_second).await?;

    // The word about the first settler says nothing of the second.
    let old = chain.prepare_refund(&cancelling(first, to_second.non_delivery.clone()), 1).await;
    assert!(matches!(old, Err(PrepareError::Refused(_))), "{old:?}");
    let late = releasing(first, world.attest(&statement(&first.deposit())));
    let reason = crate::evm_support::release::refused(&chain, &late).await?;
    assert!(reason.contains("reserved under another quote"), "{reason}");

    world.surfnet.travel_to(second.fulfill_by() + 1).await?;
    // The third asks more than the second, and all that was deposited.
    let third = second.requoted(&account(&world.settler), PRICE, first.plan.fulfillment_deadline)?;
    let non_delivery = world.attest(&world.non_delivery(&second.deposit()));
    let to_third = order(second, &third, non_delivery.clone());
    chain.broadcast(&chain.prepare_reassignment(&to_third, 1).await?).await?;
    let two = reassigned(&chain, &to_third).await?;
    // Who lost the journal's last line and asks for the second still finds it.
    assert_eq!(chain.reassignment_state(&to_second).await?, ReassignmentState::Reassigned(one.clone()));
    let made = made().await?;
    let told: Vec<_> = made.iter().map(|made| (made.previous_quote_hash, made.quote_hash, &made.inclusion)).collect();
    let quotes = [first, second, &third].map(|payment| payment.quote.hash());
    assert_eq!(told, [(quotes[0], quotes[1], &one), (quotes[1], quotes[2], &two)]);

    let word = world.attest(&world.non_delivery(&third.deposit()));
    let old = chain.prepare_refund(&cancelling(first, non_delivery), 1).await;
    assert!(matches!(old, Err(PrepareError::Refused(_))), "{old:?}");
    chain.broadcast(&chain.prepare_refund(&cancelling(first, word), 1).await?).await?;
    let EscrowState::Refunded(refunded) = ended(&world, first).await? else { bail!("not refunded") };
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    let EscrowRefunded { amount: back, .. } = refunded;
    assert_eq!(back, amount(PRICE));
    for (order, inclusion) in [(&to_second, one), (&to_third, two)] {
        assert_eq!(chain.reassignment_state(order).await?, ReassignmentState::Reassigned(inclusion));
    }
    Ok(())
}

#[tokio::test]
async fn the_word_of_a_set_reassigns_and_each_of_these_transactions_fits() -> Result<()> {
    for (threshold, count, who) in [(2, 3, &[0, 2][..]), (3, 5, &[0, 1, 4])] {
        let verifiers = Verifiers::new(threshold, count)?;
        let world = world_of(&verifiers).await?;
        let chain = world.chain();
        let lapsed = lapsed(&world).await?;
        let non_delivery = world.non_delivery(&lapsed.first.deposit());
        let order = |word: String| order(&lapsed.first, &lapsed.next, word);
        let too_few = world.attest_by(&world.releaser, &non_delivery);
        let refused = refusal(&chain, &order(too_few)).await?;
        assert!(refused.contains("the Ed25519 signature does not hold"), "{refused}");
        let order = order(verifiers.attest(&world, &non_delivery, who));
        let prepared = chain.prepare_reassignment(&order, 1).await?;
        println!("reassignment by {threshold} of {count}: {} bytes", prepared.raw.len() / 2 - 1);
        chain.broadcast(&prepared).await?;
        let inclusion = reassigned(&chain, &order).await?;
        let told = auditor::Reassignment {
            previous: lapsed.first.quote.hash(),
            previous_fulfill_by: lapsed.first.fulfill_by(),
            deposited: amount(PRICE),
            inclusion: &inclusion,
        };
        let auditor = Auditor::new(world.node());
        assert_eq!(auditor.audit_reassignment(&lapsed.next.audited(), &told).await?, []);
        let plan = EscrowPlan { releaser: Verifiers::new(1, 2)?.id(), ..lapsed.first.plan.clone() };
        let other = Case { plan: &plan, ..lapsed.next.audited() };
        assert_eq!(kinds(&auditor.audit_reassignment(&other, &told).await?), [Kind::Contradiction]);
    }
    Ok(())
}

/// Where a node says that it has finalized no more than this, whatever it has.
fn stand_still(liar: &Liar, slot: u64, height: u64) {
    liar.tell(move |request, mut truth| {
        match request["method"].as_str() {
            Some("getSlot") => truth["result"] = json!(slot),
            Some("getBlockHeight") => truth["result"] = json!(height),
            _ => {}
        }
        truth
    });
}

#[tokio::test]
async fn nothing_is_concluded_from_a_reassignment_that_is_not_settled() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let lapsed = lapsed(&world).await?;
    let Lapsed { first, next, .. } = &lapsed;
    let order = lapsed.order(&world);
    let liar = Liar::before(&world.surfnet.url()).await?;
    let behind = world.chain_at(&liar.url);
    let until_now = world.node_at(&liar.url).settled().await?;
    stand_still(&liar, until_now.slot, until_now.height);
    assert_eq!(until(|| behind.reassignment_state(&order), |_| true).await?, ReassignmentState::Open);

    chain.broadcast(&chain.prepare_reassignment(&order, 1).await?).await?;
    let inclusion = reassigned(&chain, &order).await?;
    // The record does not keep whom it was reserved for at that slot.
    let fault = behind.reassignment_state(&order).await.expect_err("concluded");
    assert!(fault.to_string().contains("is not finalized yet"), "{fault}");
    behind.escrow_state(&first.id, &first.plan).await.expect_err("concluded");
    behind.deposit_secured(&first.deposit()).await.expect_err("concluded");
    liar.be_honest();
    let state = until(|| behind.reassignment_state(&order), |_| true).await?;
    assert_eq!(state, ReassignmentState::Reassigned(inclusion.clone()));

    // An end that is not settled is none, and the reassignment before it stays.
    let until_now = world.node_at(&liar.url).settled().await?;
    stand_still(&liar, until_now.slot, until_now.height);
    let behind = world.chain_at(&liar.url);
    let attestation = world.attest(&statement(&next.deposit()));
    chain.broadcast(&chain.prepare_release(&releasing(next, attestation), 1).await?).await?;
    ended(&world, next).await?;
    assert_eq!(behind.escrow_state(&first.id, &first.plan).await?, EscrowState::Held);
    assert_eq!(behind.reassignment_state(&order).await?, ReassignmentState::Reassigned(inclusion));
    Ok(())
}

/// A payer who signed for one quote gets that one or the money.
#[tokio::test]
async fn a_payment_whose_payer_chose_the_quote_is_not_reassigned() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let mut deposit = world.order_for_quote(1_200, Hash32([9; 32])).await?;
    deposit.reservation.fulfill_by = deposit.escrow.fulfillment_deadline - 400;
    let prepared = chain.prepare_deposit(&deposit, 1).await?;
    settle(&chain, &deposit, &[prepared]).await?;
    world.surfnet.travel_to(deposit.reservation.fulfill_by + 1).await?;
    let reservation = Reservation {
        quote_hash: Hash32([10; 32]),
        fulfill_by: deposit.escrow.fulfillment_deadline,
        ..deposit.reservation.clone()
    };
    let order = ReassignmentOrder {
        payment_id: deposit.payment_id.clone(),
        terms: deposit.terms.clone(),
        terms_hash: deposit.terms_hash,
        escrow: deposit.escrow.clone(),
        authorization: deposit.authorization.clone(),
        deposited: amount(PRICE),
        lapsed: deposit.reservation.clone(),
        non_delivery: world.attest(&world.non_delivery(&deposit)),
        reservation,
    };
    assert!(refusal(&chain, &order).await?.starts_with("QuoteHashMismatch"));
    Ok(())
}

#[tokio::test]
async fn a_program_of_a_version_before_is_known_by_its_bytes() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let plan = world.order(600).await?.escrow;
    let node = world.node();
    let on_node = |node: &chains_solana::node::Node| {
        let keys = world.keys();
        SolanaChain::new(node.clone(), Some(keys), std::sync::Arc::new(crate::support::TestClock)).unwrap()
    };
    assert!(matches!(node.look(true).await?, Look::Head(_)));
    assert!(on_node(&node).takes_reassignments(&plan));

    // As it was before there were reassignments: the program runs, and has not these bytes.
    let mut elf = std::fs::read(World::artifact())?;
    let said = REASSIGN_SAID.as_bytes();
    let at = elf.windows(said.len()).position(|bytes| bytes == said).context("the artifact does not say it")?;
    elf[at..at + said.len()].fill(b'-');
    world.surfnet.write_program(&world.program, &elf, &account(&key(1))).await?;
    assert!(matches!(node.look(true).await?, Look::Head(_)), "nothing is lost without them");
    assert!(!on_node(&node).takes_reassignments(&plan));
    assert!(chain.takes_reassignments(&plan), "another connection has not looked");
    world.surfnet.write_program(&world.program, &std::fs::read(World::artifact())?, &account(&key(1))).await?;
    node.look(true).await?;
    assert!(on_node(&node).takes_reassignments(&plan));
    Ok(())
}
