//! The auditor on payments by deposit address: one that is as its stream tells it, and every member altered.

use anyhow::{Context, Result, bail};

use chains::auditor::{Audit, Case, Kind};
use chains_solana::{auditor::Auditor, deposit_addresses, history::History, keys::account, node::Commitment};
use events::{
    Hash32, PaymentId,
    event::{Authorization, DepositAddress, EscrowPlan, EscrowRefunded, EscrowSecured, Inclusion},
    quote::Quote,
    time::from_unix_seconds,
};
use gateway_program::host;
use sagas::ports::{Chains, EscrowState, PayerDeposit};

use crate::{
    deposit_addresses::came_back,
    evm_support::release,
    settlement::{Payment, ended, kinds, native},
    support::{
        CAP, PRICE, World,
        addressed::{Addressed, amount, public, token_account},
        key, wallet,
    },
};

/// What is sent there.
const ALL: u64 = CAP + 5;

/// A payment whose money is sent to an address, with the quote that won it.
async fn by_address(world: &World) -> Result<(Payment, Addressed)> {
    let payment = Payment::from_solana(world, native(world), &account(&world.settler), &world.program).await?;
    let from_slot = deposit_addresses::served_from(&world.node(), &payment.plan.contract).await?;
    let from_slot = from_slot.context("there are no deposit addresses")?;
    let pay_by = from_unix_seconds(payment.plan.reserve_deadline - 60).context("no time")?;
    let (id, terms, plan) = (&payment.id, &payment.terms, &payment.plan);
    let given = deposit_addresses::of_payment(id, terms, plan, amount(CAP), pay_by, from_slot)?;
    let payment = Payment { authorization: Authorization::DepositAddress(given.clone()), ..payment };
    let addressed = Addressed { order: payment.deposit(), given, token: world.token.clone() };
    Ok((payment, addressed))
}

#[tokio::test]
async fn an_address_commits_to_all_that_the_stream_shows() -> Result<()> {
    let world = World::start().await?;
    let (payment, Addressed { given, .. }) = by_address(&world).await?;
    let auditor = Auditor::new(world.node());
    let audited = async |payment: &Payment| {
        let Payment { id, terms, plan, authorization, .. } = payment;
        auditor.audit_authorization(id, terms, plan, authorization).await
    };
    assert_eq!(audited(&payment).await?, []);
    let other = wallet(&key(99));
    // All that is not signed by anybody: what the address is made of, and what the record of it says.
    let addresses = [
        DepositAddress { address: other.clone(), ..given.clone() },
        DepositAddress { amount: amount(CAP - 1), ..given.clone() },
        DepositAddress { factory: other.clone(), ..given.clone() },
        DepositAddress { implementation: other.clone(), ..given.clone() },
    ];
    for altered in addresses {
        let authorization = Authorization::DepositAddress(altered.clone());
        let found = audited(&Payment { authorization, ..payment.clone() }).await?;
        let expected = if altered.amount == given.amount { 1 } else { 2 };
        assert_eq!(kinds(&found), vec![Kind::Contradiction; expected], "{altered:?}");
    }
    // An address of other terms, or of another program, rightly computed.
    let of = |plan: &EscrowPlan, units: u64| {
        deposit_addresses::of_payment(&payment.id, &payment.terms, plan, amount(units), given.pay_by, given.from_block)
    };
    let elsewhere = EscrowPlan { contract: other.clone(), ..payment.plan.clone() };
    for altered in [of(&elsewhere, CAP)?, of(&payment.plan, CAP - 1)?] {
        let authorization = Authorization::DepositAddress(altered.clone());
        let found = audited(&Payment { authorization, ..payment.clone() }).await?;
        assert_eq!(kinds(&found), [Kind::Contradiction], "{altered:?}");
    }
    type Alter<'a> = Box<dyn Fn(&mut Payment) + 'a>;
    let alterations: [(&str, Alter<'_>); 9] = [
        ("payment", Box::new(|payment| payment.id = PaymentId::derive("solana:x", "other"))),
        ("terms", Box::new(|payment| payment.terms.fulfillment_amount = amount(1))),
        ("payer", Box::new(|payment| payment.terms.source = token_of(&world, &key(99)))),
        ("program", Box::new(|payment| payment.plan.contract = other.clone())),
        ("reserver", Box::new(|payment| payment.plan.reserver = other.clone())),
        ("releaser", Box::new(|payment| payment.plan.releaser = other.clone())),
        ("reserve deadline", Box::new(|payment| payment.plan.reserve_deadline += 1)),
        ("fulfillment deadline", Box::new(|payment| payment.plan.fulfillment_deadline += 1)),
        ("refund window", Box::new(|payment| payment.plan.refund_after += 1)),
    ];
    for (what, alter) in alterations {
        let mut altered = payment.clone();
        alter(&mut altered);
        assert_eq!(kinds(&audited(&altered).await?), [Kind::Contradiction], "{what}");
    }
    // What is no asset of an escrow here cannot be read at all.
    let mut unreadable = payment.clone();
    unreadable.terms.source = native(&world);
    assert!(!audited(&unreadable).await?.is_empty());
    Ok(())
}

/// The payment's token of another owner.
fn token_of(world: &World, owner: &ed25519_dalek::SigningKey) -> events::OwnedAsset {
    let asset = format!("{}/token:{}", world.surfnet.chain_id(), world.token.mint);
    events::OwnedAsset::new(asset.parse().unwrap(), &account(owner)).unwrap()
}

#[tokio::test]
async fn a_deposit_came_from_the_address_and_every_field_is_compared() -> Result<()> {
    let world = World::start().await?;
    let (payment, addressed) = by_address(&world).await?;
    let (transfer, _) = world.send_to(&addressed, ALL).await?;
    let secured = world.deposited(&addressed, ALL).await?;
    let (chain, auditor) = (world.chain(), Auditor::new(world.node()));
    let word = world.attest(&world.statement(&addressed.order));
    chain.broadcast(&chain.prepare_release(&release::order(&addressed.order, word), 1).await?).await?;
    let EscrowState::Released(released) = ended(&world, &payment).await? else { bail!("not released") };
    let case = payment.audited();
    assert_eq!(auditor.audit_deposit(&case, &secured).await?, []);
    assert_eq!(auditor.audit_release(&case, &released, secured.amount).await?, []);
    let (_, found) = auditor.audit_escrow(&payment.id, &payment.plan, Some(&case)).await?;
    assert_eq!(found, []);

    for units in [ALL - 1, ALL + 1, PRICE, CAP] {
        let altered = EscrowSecured { amount: amount(units), ..secured.clone() };
        assert_eq!(kinds(&auditor.audit_deposit(&case, &altered).await?), [Kind::Contradiction], "{units}");
    }
    assert_eq!(kinds(&auditor.audit_release(&case, &released, amount(ALL + 1)).await?), [Kind::Contradiction]);
    let Inclusion { block_number, block_hash, block_time, .. } = secured.inclusion.clone();
    let places = [
        (
            Kind::Missing,
            Inclusion { transaction_hash: bs58::encode([5; 64]).into_string(), ..secured.inclusion.clone() },
        ),
        (Kind::Missing, released.clone()),
        (Kind::Contradiction, Inclusion { block_number: block_number + 1, ..secured.inclusion.clone() }),
        (Kind::Contradiction, Inclusion { block_hash: account(&key(99)), ..secured.inclusion.clone() }),
        (Kind::Contradiction, Inclusion { block_time: block_time + 1, ..secured.inclusion.clone() }),
    ];
    for (kind, inclusion) in places {
        let altered = EscrowSecured { inclusion, ..secured.clone() };
        assert_eq!(kinds(&auditor.audit_deposit(&case, &altered).await?), [kind], "{altered:?}");
    }
    // The transfer to the address is not its deposit.
    let transferred = Inclusion { transaction_hash: transfer, block_number, block_hash, block_time, ..released };
    let altered = EscrowSecured { inclusion: transferred, ..secured.clone() };
    assert!(kinds(&auditor.audit_deposit(&case, &altered).await?).contains(&Kind::Missing));

    let given = &addressed.given;
    let other = wallet(&key(99));
    for altered in [
        DepositAddress { address: other.clone(), ..given.clone() },
        DepositAddress { amount: amount(CAP - 1), ..given.clone() },
    ] {
        let authorization = Authorization::DepositAddress(altered.clone());
        let found = auditor.audit_deposit(&Case { authorization: &authorization, ..case }, &secured).await?;
        assert_eq!(kinds(&found), [Kind::Contradiction], "{altered:?}");
    }
    // Nobody signed for it.
    let signed = Payment::from_solana(&world, native(&world), &account(&world.settler), &world.program).await?;
    let as_signed = Case { authorization: &signed.authorization, ..case };
    assert_eq!(kinds(&auditor.audit_deposit(&as_signed, &secured).await?), [Kind::Missing]);
    what_was_agreed_is_compared(&auditor, &payment, &secured).await
}

async fn what_was_agreed_is_compared(auditor: &Auditor, payment: &Payment, secured: &EscrowSecured) -> Result<()> {
    let (case, other) = (payment.audited(), wallet(&key(99)));
    let quote = payment.quote.quote();
    let quotes = [
        Quote { payout_account: other.clone(), ..quote.clone() },
        Quote { source_amount: amount(PRICE - 1), ..quote.clone() },
        Quote { fulfill_by: from_unix_seconds(payment.fulfill_by() - 1).context("no time")?, ..quote.clone() },
    ];
    for quote in &quotes {
        let found = auditor.audit_deposit(&Case { quote, ..case }, secured).await?;
        assert_eq!(kinds(&found), [Kind::Contradiction], "{quote:?}");
    }
    // More than is in escrow, and not what was reserved.
    let dear = Quote { source_amount: amount(ALL + 1), ..quote.clone() };
    let found = auditor.audit_deposit(&Case { quote: &dear, ..case }, secured).await?;
    assert_eq!(kinds(&found), [Kind::Contradiction; 2], "{found:?}");
    let found = auditor.audit_deposit(&Case { quote_hash: Hash32([3; 32]), ..case }, secured).await?;
    assert_eq!(kinds(&found), [Kind::Contradiction]);
    let plan = case.plan;
    for plan in [
        EscrowPlan { reserver: other.clone(), ..plan.clone() },
        EscrowPlan { releaser: other.clone(), ..plan.clone() },
        EscrowPlan { reserve_deadline: plan.reserve_deadline + 1, ..plan.clone() },
        EscrowPlan { fulfillment_deadline: plan.fulfillment_deadline + 1, ..plan.clone() },
        EscrowPlan { refund_after: plan.refund_after + 1, ..plan.clone() },
    ] {
        let found = auditor.audit_deposit(&Case { plan: &plan, ..case }, secured).await?;
        assert_eq!(kinds(&found), [Kind::Contradiction], "{plan:?}");
    }
    let mut terms = payment.terms.clone();
    terms.fulfillment_amount = amount(1);
    assert_eq!(kinds(&auditor.audit_deposit(&Case { terms: &terms, ..case }, secured).await?), [Kind::Contradiction]);
    let id = PaymentId::derive("solana:x", "other");
    assert_eq!(kinds(&auditor.audit_deposit(&Case { payment_id: &id, ..case }, secured).await?), [Kind::Missing]);
    Ok(())
}

#[tokio::test]
async fn a_return_came_from_the_address_with_its_amount() -> Result<()> {
    let world = World::start().await?;
    let (token, auditor) = (world.token.clone(), Auditor::new(world.node()));
    let (paid, other) = (world.addressed().await?, world.addressed().await?);
    for addressed in [&paid, &other] {
        world.send_to(addressed, CAP).await?;
    }
    world.pass(&other).await?;
    // A return that failed, as it would have gone to somebody else.
    let mut astray = paid.give_back(&world.settler);
    astray.accounts[4].key = token_account(&token, &public(&world.settler));
    let failed = world.send_all(&[vec![astray]]).await?.pop().context("not sent")?;
    // One out of another token account of the address, where nothing was waited for.
    let mut unasked = paid.give_back(&world.settler);
    unasked.accounts[3].key = world.hand_over(&paid, CAP).await?;
    let unasked = world.send(&[unasked]).await?;
    let (of_other, _) = world.give_back(&other).await?;
    world.give_back(&paid).await?;
    let refunded = came_back(&world, &paid, None).await?;
    let deposit = paid.deposit();
    assert_eq!(auditor.audit_given_back(&deposit, &refunded).await?, []);
    let others = came_back(&world, &other, None).await?;
    assert_eq!(others.inclusion.transaction_hash, of_other);

    let inclusion = &refunded.inclusion;
    let node = world.node();
    let placed = async |(hash, slot): (String, u64)| -> Result<EscrowRefunded> {
        let (block_hash, block_time) = History::of(&node).block_at(slot, Commitment::Finalized).await?;
        let inclusion =
            Inclusion { transaction_hash: hash, block_number: slot, block_hash, block_time, ..inclusion.clone() };
        Ok(EscrowRefunded { inclusion, ..refunded.clone() })
    };
    let lies = [
        (Kind::Contradiction, EscrowRefunded { amount: amount(CAP - 1), ..refunded.clone() }),
        (Kind::Contradiction, EscrowRefunded { amount: amount(CAP + 1), ..refunded.clone() }),
        (Kind::Missing, EscrowRefunded { inclusion: others.inclusion, ..refunded.clone() }),
        (Kind::Contradiction, placed(failed).await?),
        (Kind::Missing, placed(unasked).await?),
    ];
    for (kind, lie) in lies {
        assert_eq!(kinds(&auditor.audit_given_back(&deposit, &lie).await?), [kind], "{lie:?}");
    }
    let places = [
        (Kind::Missing, Inclusion { transaction_hash: bs58::encode([5; 64]).into_string(), ..inclusion.clone() }),
        (Kind::Contradiction, Inclusion { transaction_hash: "0x12".to_owned(), ..inclusion.clone() }),
        (Kind::Contradiction, Inclusion { block_number: inclusion.block_number + 1, ..inclusion.clone() }),
        (Kind::Contradiction, Inclusion { block_hash: account(&key(99)), ..inclusion.clone() }),
        (Kind::Contradiction, Inclusion { block_time: inclusion.block_time + 1, ..inclusion.clone() }),
    ];
    for (kind, inclusion) in places {
        let lie = EscrowRefunded { inclusion, ..refunded.clone() };
        assert_eq!(kinds(&auditor.audit_given_back(&deposit, &lie).await?), [kind], "{lie:?}");
    }
    // Of another address, or of other terms, the same transaction gave back nothing.
    let recorded = DepositAddress { address: wallet(&key(99)), ..paid.given.clone() };
    let plan = EscrowPlan { refund_after: deposit.escrow.refund_after + 1, ..deposit.escrow.clone() };
    for altered in [
        PayerDeposit { authorization: Authorization::DepositAddress(recorded), ..deposit.clone() },
        PayerDeposit { escrow: plan, ..deposit.clone() },
        other.deposit(),
    ] {
        let found = auditor.audit_given_back(&altered, &refunded).await?;
        assert_eq!(kinds(&found), [Kind::Missing], "{altered:?}");
    }

    // The payer may have it given to another account of the token.
    world.send_to(&paid, 7).await?;
    let elsewhere = token_account(&token, &public(&world.settler));
    world.send(&[host::given_back_to(paid.give_back(&world.settler), elsewhere)]).await?;
    let again = came_back(&world, &paid, Some(inclusion.block_number)).await?;
    assert_eq!(again.amount, amount(7));
    assert_eq!(auditor.audit_given_back(&deposit, &again).await?, []);
    Ok(())
}
