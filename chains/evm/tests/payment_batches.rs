//! Payments of a batch (ADR 158): what a payer signs for many, what is deposited of it and what comes back, on a real chain.

use std::slice::from_ref;

use alloy::{primitives::U256, signers::local::PrivateKeySigner, sol_types::SolCall};
use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use chains::auditor::{Audit, Kind};
use chains_evm::{
    auditor::Auditor,
    authorization::{BatchError, PreparedBatch, Scheme, SignedMessage, SpendRequest, authorize, prepare_batch},
    payment_batches,
};
use escrow_abi::{contracts::parse_address, payment_batches::PaymentBatches};
use events::{
    Account, Amount, Hash32,
    event::{Authorization, BatchPermit},
};
use sagas::ports::{AddressState, Chains, DepositState, OwnReturn, PrepareError};

use crate::support::{CAP, DEPTH, PRICE, Payment, World, key, sign, text};

/// Seconds in which payments of a batch are deposited.
const WITHIN: u64 = 100;

fn spends(world: &World, ids: &[&str]) -> Result<Vec<SpendRequest>> {
    ids.iter().map(|id| world.spend(id, Scheme::EvmPermit2Batch, &world.destination.asset())).collect()
}

/// What the payer signs for each of these payments.
fn signed(batch: &PreparedBatch, index: usize, payer: &PrivateKeySigner) -> Result<SignedMessage> {
    let payload = Some(Value::Object(batch.members[index].payload.clone()));
    Ok(SignedMessage { payload, ..sign(payer, batch.digest, None)? })
}

/// Payments of one batch, awarded; found from the block on that is there now.
async fn payments(world: &World, ids: &[&str]) -> Result<Vec<Payment>> {
    let (spends, deadline) = (spends(world, ids)?, world.now().await? + WITHIN);
    let batch = prepare_batch(&spends, Some(deadline))?;
    let from = payment_batches::served_from(&world.source.node, &world.source.config.common.escrow_contract).await?;
    let payments = spends.into_iter().enumerate().map(|(index, spend)| {
        let (mut authorization, escrow) = authorize(&spend, &signed(&batch, index, &world.payer)?)?;
        if let Authorization::EvmPermit2Batch(permit) = &mut authorization {
            permit.from_block = from.unwrap_or_default();
        }
        world.awarded(spend, authorization, escrow)
    });
    payments.collect()
}

fn permit(payment: &Payment) -> &BatchPermit {
    match &payment.authorization {
        Authorization::EvmPermit2Batch(permit) => permit,
        other => panic!("{other:?}"),
    }
}

async fn at_address(world: &World, payment: &Payment) -> Result<u64> {
    let held = world.source.dev.token_balance(&world.source.token, permit(payment).address.as_str()).await?;
    Ok(held.to())
}

#[tokio::test]
async fn the_first_deposit_draws_the_batch_and_what_is_left_of_it_comes_back_in_one_call() -> Result<()> {
    let world = World::start().await?;
    let before = world.source.balance(&world.payer).await?;
    let payments = payments(&world, &["one", "two", "three", "four", "five"]).await?;
    let [one, two, three, four, _] = payments.as_slice() else { bail!("five") };
    // Two would draw it twice.
    let drawing = world.chains.prepare_deposit(&one.deposit(), 1).await?;
    assert!(matches!(world.chains.prepare_deposit(&two.deposit(), 1).await, Err(PrepareError::Waiting(_))));
    world.chains.broadcast(&drawing).await?;
    world.source.mine(1 + DEPTH).await?;
    let DepositState::Secured(secured) = world.chains.deposit_state(&one.deposit(), from_ref(&drawing)).await? else {
        bail!("not secured");
    };
    assert_eq!(secured.amount.to_string(), CAP.to_string(), "the award asks for {PRICE}");
    assert_eq!(world.source.balance(&world.payer).await?, before - 5 * CAP, "all of it is drawn at once");
    assert_eq!(world.secure(two).await?, CAP);
    assert_eq!(at_address(&world, one).await?, 3 * CAP);
    assert!(payment_batches::is_drawn(&world.source.node, &permit(one).address).await?);
    // An id is deposited once.
    assert!(matches!(world.chains.prepare_deposit(&one.deposit(), 2).await, Err(PrepareError::Refused(_))));

    let (third, fourth) = (three.deposit().payer_deposit(), four.deposit().payer_deposit());
    assert_eq!(world.chains.address_state(&third, None).await?, AddressState::Open);
    assert!(matches!(world.chains.prepare_give_back(&third, 1).await, Err(PrepareError::Refused(_))), "too early");
    world.source.pass(permit(&payments[0]).deadline + 1).await?;
    world.source.mine(1 + DEPTH).await?;
    let AddressState::Held { amount, block_number } = world.chains.address_state(&third, None).await? else {
        bail!("not held");
    };
    assert_eq!(amount.to_string(), CAP.to_string(), "of what all have left, this payment's share");
    let prepared = world.chains.prepare_give_back(&third, 1).await?;
    assert!(matches!(world.chains.prepare_give_back(&fourth, 1).await, Err(PrepareError::Waiting(_))), "one for all");
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    assert!(matches!(world.chains.given_back_by(&third, from_ref(&prepared)).await?, OwnReturn::NotLanded));
    // What comes after is nothing of theirs.
    world
        .source
        .dev
        .send_token(&world.settler, &world.source.token, permit(one).address.as_str(), U256::from(CAP))
        .await?;
    world.source.mine(1 + DEPTH).await?;
    let auditor = Auditor::new(world.source.node.clone());
    for (deposit, since) in [(&third, Some(block_number)), (&fourth, None)] {
        let AddressState::GivenBack(refunded) = world.chains.address_state(deposit, since).await? else {
            bail!("not given back");
        };
        assert_eq!(refunded.amount.to_string(), CAP.to_string());
        assert_eq!(auditor.audit_given_back(deposit, &refunded).await?, []);
        let more = events::event::EscrowRefunded { amount: amount_of(CAP + 1)?, ..refunded };
        assert_eq!(auditor.audit_given_back(deposit, &more).await?.len(), 1);
    }
    assert_eq!(world.source.balance(&world.payer).await?, before - 2 * CAP);
    Ok(())
}

fn amount_of(units: u64) -> Result<Amount> {
    Ok(units.to_string().parse()?)
}

#[tokio::test]
async fn a_batch_of_which_nothing_is_deposited_is_never_drawn() -> Result<()> {
    let world = World::start().await?;
    let payments = payments(&world, &["one", "two"]).await?;
    world.source.pass(permit(&payments[0]).deadline + 1).await?;
    world.source.mine(1 + DEPTH).await?;
    // What a stranger sends there is nothing that the gateway gives back.
    let address = permit(&payments[0]).address.to_string();
    world.source.dev.send_token(&world.settler, &world.source.token, &address, U256::from(CAP)).await?;
    world.source.mine(1 + DEPTH).await?;
    let deposit = payments[0].deposit().payer_deposit();
    assert_eq!(world.chains.address_state(&deposit, None).await?, AddressState::Empty);
    let (order, permit) = (payments[0].deposit(), permit(&payments[0]));
    let batch = escrow_abi::payment_batches::batch(permit, order.terms.source.account(), &order.escrow.contract)?;
    let call = PaymentBatches::giveBackCall { b: batch, token: parse_address(&world.source.token)? }.abi_encode();
    world.source.dev.call(&world.settler, permit.contract.as_str(), call, U256::ZERO).await?;
    world.source.mine(1 + DEPTH).await?;
    for payment in &payments {
        let deposit = payment.deposit().payer_deposit();
        assert_eq!(world.chains.address_state(&deposit, None).await?, AddressState::Empty, "nor a return of ours");
        assert!(matches!(world.chains.prepare_deposit(&payment.deposit(), 1).await, Err(PrepareError::Refused(_))));
    }
    Ok(())
}

/// Nothing of a payment can be another than is under the root, nor can the batch.
#[tokio::test]
async fn no_payment_is_deposited_or_proven_but_as_it_was_signed() -> Result<()> {
    let world = World::start().await?;
    let mut payments = payments(&world, &["one", "two", "three"]).await?;
    let (two, one) = (payments.remove(1), payments.remove(0));
    let auditor = Auditor::new(world.source.node.clone());
    let audited = async |permit: &BatchPermit| -> Result<Vec<Kind>> {
        let (order, authorization) = (one.deposit(), Authorization::EvmPermit2Batch(permit.clone()));
        let found = auditor.audit_authorization(one.id(), &order.terms, &order.escrow, &authorization).await?;
        Ok(found.into_iter().map(|discrepancy| discrepancy.kind).collect())
    };
    assert_eq!(audited(permit(&one)).await?, []);
    type Alter = fn(&mut BatchPermit);
    let other = || -> Account { text(&key(66)).parse().unwrap() };
    let altered: [(&str, Alter); 8] = [
        ("amount", |permit| permit.amount = "999999".parse().unwrap()),
        ("permitted", |permit| permit.permitted[0].amount = "2999999".parse().unwrap()),
        ("nonce", |permit| permit.nonce = Hash32([7; 32])),
        ("deadline", |permit| permit.deadline += 1),
        ("payments", |permit| permit.payments = Hash32([7; 32])),
        ("proof", |permit| permit.proof[0] = Hash32([7; 32])),
        ("signature", |permit| permit.signature = format!("0x{}1b", "07".repeat(64))),
        ("a shorter proof", |permit| permit.proof.truncate(1)),
    ];
    for (what, alter) in altered {
        let mut order = one.deposit();
        let mut permit = permit(&one).clone();
        alter(&mut permit);
        assert!(!audited(&permit).await?.is_empty(), "{what}");
        order.authorization = Authorization::EvmPermit2Batch(permit);
        let prepared = world.chains.prepare_deposit(&order, 1).await;
        match prepared {
            Err(PrepareError::Refused(_)) => {}
            prepared => bail!("{what}: {prepared:?}"),
        }
    }
    let moved = BatchPermit { address: other(), ..permit(&one).clone() };
    assert_eq!(audited(&moved).await?, [Kind::Contradiction]);
    let foreign = BatchPermit { contract: other(), ..permit(&one).clone() };
    assert!(!audited(&foreign).await?.is_empty());
    // Another payment's place.
    let mut of_two = one.deposit();
    of_two.authorization = two.authorization.clone();
    assert!(matches!(world.chains.prepare_deposit(&of_two, 1).await, Err(PrepareError::Refused(_))));
    // As it was signed, it is deposited.
    world.chains.prepare_deposit(&one.deposit(), 1).await?;
    Ok(())
}

/// What the gateway refuses of what is submitted, field by field.
#[tokio::test]
async fn what_is_submitted_is_compared_with_what_was_signed() -> Result<()> {
    let world = World::start().await?;
    let spends = spends(&world, &["one", "two", "three"])?;
    let batch = prepare_batch(&spends, Some(world.now().await? + WITHIN))?;
    let message = signed(&batch, 1, &world.payer)?;
    let (authorization, plan) = authorize(&spends[1], &message)?;
    assert_eq!(authorization.permitted().to_string(), CAP.to_string());
    assert!(authorization.is_drawn_whole() && authorization.leaves_money_outside());
    assert_eq!(plan.reserve_deadline, batch.members[1].plan.reserve_deadline);
    let with_typed_data = SignedMessage { message_prehash: Some(batch.typed_data.to_string()), ..message.clone() };
    assert_eq!(authorize(&spends[1], &with_typed_data)?, (authorization, plan));
    let refused = |spend: &SpendRequest, message: &SignedMessage| match authorize(spend, message) {
        Err(error) => Ok(error.field().to_owned()),
        Ok(authorized) => bail!("authorized: {authorized:?}"),
    };
    let altered = |pointer: &str, to: Value| -> Result<String> {
        let mut payload = message.payload.clone().unwrap();
        *payload.pointer_mut(pointer).unwrap() = to;
        refused(&spends[1], &SignedMessage { payload: Some(payload), ..message.clone() })
    };
    let hash = json!(format!("0x{}", "07".repeat(32)));
    assert_eq!(altered("/batch", json!({}))?, "payload.batch.permitted");
    assert_eq!(altered("/batch/payments", hash.clone())?, "payload.batch.payments");
    assert_eq!(altered("/batch/proof/0", hash)?, "payload.batch.payments");
    assert_eq!(altered("/batch/proof", json!(vec![0; 9]))?, "payload.batch.proof");
    assert_eq!(altered("/batch/permitted", json!([]))?, "payload.batch.permitted");
    assert_eq!(altered("/batch/permitted/0/amount", json!("1"))?, "payload.batch.permitted");
    // Enough for this payment, and not what was signed.
    assert_eq!(altered("/batch/permitted/0/amount", json!((CAP + 1).to_string()))?, "message");
    assert_eq!(altered("/reserve_deadline", json!(plan_deadline(&batch) + 1))?, "payload.batch.payments");
    assert_eq!(altered("/refund_after", json!(batch.members[1].plan.refund_after + 1))?, "payload.batch.payments");
    let mut data = batch.typed_data.clone();
    data["message"]["deadline"] = json!("1");
    let shown = SignedMessage { message_prehash: Some(data.to_string()), ..message.clone() };
    assert_eq!(refused(&spends[1], &shown)?, "message.deadline");
    assert_eq!(refused(&spends[0], &message)?, "payload.batch.payments", "another payment's place");
    let mut uncapped = spends[1].clone();
    uncapped.terms.max_source_amount = None;
    assert_eq!(refused(&uncapped, &message)?, "max_source_amount");
    let quoted = SpendRequest { quote_hash: Hash32([1; 32]), ..spends[1].clone() };
    assert_eq!(refused(&quoted, &message)?, "message_scheme");
    let by_other = signed(&batch, 1, &key(66))?;
    assert_eq!(refused(&spends[1], &by_other)?, "signature");

    assert!(matches!(prepare_batch(&[], None), Err(BatchError::Batch(_))));
    let of_others = SpendRequest { terms: of_another(&spends[0])?, ..spends[0].clone() };
    assert!(matches!(prepare_batch(&[spends[1].clone(), of_others], None), Err(BatchError::Member { index: 1, .. })));
    let late = prepare_batch(&spends, Some(u64::MAX >> 20));
    ensure!(matches!(late, Err(BatchError::Member { index: 0, .. })), "{late:?}");
    Ok(())
}

fn plan_deadline(batch: &PreparedBatch) -> u64 {
    batch.members[1].plan.reserve_deadline
}

/// The same terms of another payer.
fn of_another(spend: &SpendRequest) -> Result<events::Terms> {
    let terms = &spend.terms;
    let source = events::OwnedAsset::new(terms.source.asset().clone(), &text(&key(66)))?;
    let destination = terms.destination().to_vec();
    Ok(events::Terms::new(source, destination, terms.fulfillment_amount, terms.max_source_amount))
}

/// A payer who has less than the batch permits is not drawn at all, whichever payment comes first.
#[tokio::test]
async fn a_batch_is_drawn_whole_or_not_at_all() -> Result<()> {
    let world = World::start().await?;
    let before = world.source.balance(&world.payer).await?;
    let payments = payments(&world, &["one", "two"]).await?;
    let recipient = text(&key(66));
    let dev = &world.source.dev;
    dev.send_token(&world.payer, &world.source.token, &recipient, U256::from(before - CAP)).await?;
    for payment in &payments {
        assert!(matches!(world.chains.prepare_deposit(&payment.deposit(), 1).await, Err(PrepareError::Refused(_))));
    }
    assert_eq!(world.source.balance(&world.payer).await?, CAP);
    Ok(())
}
