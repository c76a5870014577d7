//! The auditor on a Tron development chain: a payment that is as its stream tells it, and every field altered.

use std::time::Duration;

use alloy::{
    primitives::{U256, aliases::U48},
    sol_types::SolCall,
};
use anyhow::{Context, Result, bail};

use chains::{
    auditor::{Audit, Case, Discrepancy, Kind},
    escrow::State,
    settler::DeliveryChain,
};
use chains_tron::{
    auditor::check_prepared,
    authorization::Choice,
    transaction::{Draft, read_signed},
};
use escrow_abi::contracts::{DevToken, GatewayEscrow};
use events::{
    Hash32, PaymentId,
    event::{
        Authorization, EscrowOpened, EscrowRefunded, EscrowSecured, Inclusion, PayerTransaction, TransactionPrepared,
        TronSpend, Validity,
    },
    quote::Quote,
    time::from_unix_seconds,
};
use sagas::ports::{Chains, EscrowState, Statement};

use crate::support::{
    TOKENS, World, account, holder, key,
    payment::{CAP, DELIVERED, PRICE, bytes, refund, spend},
    quoted::{Payment, amount},
};

fn kinds(discrepancies: &[Discrepancy]) -> Vec<Kind> {
    discrepancies.iter().map(|discrepancy| discrepancy.kind).collect()
}

fn is_contradicted(discrepancies: &[Discrepancy]) -> bool {
    discrepancies.iter().any(|discrepancy| discrepancy.kind == Kind::Contradiction)
}

/// A payment that was delivered and released, with all that its stream says of the chain.
struct Done {
    world: World,
    payment: Payment,
    prepared: TransactionPrepared,
    secured: EscrowSecured,
    delivery: Inclusion,
    release: Inclusion,
}

impl Done {
    async fn new() -> Result<Self> {
        let world = World::start().await?;
        let destination = world.trc20(&world.token, &account(&world.recipient));
        let payment = Payment::within_tron(&world, 600, destination).await?;
        let (prepared, secured) = payment.secure(&world).await?;
        world.mining(world.settling().deliver(&payment.delivery())).await??;
        let delivery = payment.delivered(&world).await?;
        let attestation = world.attest(&world.statement(&payment.deposit()));
        world.mining(world.settling().release(&payment.id, &payment.plan, &attestation)).await??;
        let EscrowState::Released(release) = payment.ended(&world).await? else { bail!("not released") };
        Ok(Self { world, payment, prepared, secured, delivery, release })
    }
}

#[tokio::test]
async fn a_payment_that_is_as_told_leaves_no_discrepancy() -> Result<()> {
    let Done { world, payment, prepared, secured, delivery, release } = Done::new().await?;
    let auditor = world.auditor();
    let case = payment.audited();
    assert_eq!(secured.amount, amount(CAP));
    let signed = auditor.audit_authorization(&payment.id, &payment.terms, &payment.plan, &payment.authorization);
    assert_eq!(signed.await?, []);
    assert_eq!(check_prepared(&prepared), Ok(()));
    assert_eq!(auditor.audit_deposit(&case, &secured).await?, []);
    assert_eq!(auditor.audit_delivery(&case, &delivery).await?, []);
    assert_eq!(auditor.audit_release(&case, &release, secured.amount).await?, []);
    let (snapshot, discrepancies) = auditor.audit_escrow(&payment.id, &payment.plan, Some(&case)).await?;
    assert_eq!((snapshot.state, discrepancies), (Some(State::Released), vec![]));
    assert!(snapshot.settled_number >= release.block_number && snapshot.settled_time >= release.block_time);
    let statement = Statement::Delivery {
        payment_id: payment.id.clone(),
        quote_hash: payment.quote.hash(),
        payout_account: holder(&world.settler),
    };
    let attestation = world.attest(&statement);
    assert!(auditor.attestation_holds(&statement, &payment.plan, &attestation).await?);
    let refund = EscrowRefunded { inclusion: release.clone(), amount: secured.amount, claims: Vec::new() };
    assert_eq!(kinds(&auditor.audit_refund(&case, &refund, secured.amount).await?), [Kind::Missing]);
    assert_eq!(world.tokens(&world.settler).await?, TOKENS - DELIVERED + PRICE);
    Ok(())
}

#[tokio::test]
async fn a_journaled_transaction_is_what_it_is_said_to_be() -> Result<()> {
    let Done { prepared, release, world, .. } = Done::new().await?;
    let with = |alter: &dyn Fn(&mut TransactionPrepared)| {
        let mut altered = prepared.clone();
        alter(&mut altered);
        check_prepared(&altered).unwrap_err()
    };
    let hash = release.transaction_hash.clone();
    assert!(with(&|prepared| prepared.transaction_hash = hash.clone()).starts_with("its bytes hash to"));
    assert!(with(&|prepared| prepared.sender = holder(&key(99))).starts_with("its owner is"));
    assert!(with(&|prepared| prepared.validity = Validity::Expiration(1)).starts_with("it expires at"));
    for raw in ["", "0x", "0x00", "0x01ff", "0xzz", &prepared.raw[2..]] {
        with(&|prepared| prepared.raw = raw.to_owned());
    }
    // Signed by another submitter than the owner, and the same bytes otherwise.
    let (decoded, _) = read_signed(&bytes(&prepared.raw)?)?;
    let other = world.submitters.iter().find(|key| holder(key) != prepared.sender).context("one submitter")?;
    let forged = format!("0x{}", hex::encode(decoded.draft.sign(other).bytes));
    assert!(with(&|prepared| prepared.raw = forged.clone()).contains("is not that of"));
    // A byte more or a bit else, wherever it is.
    let raw = bytes(&prepared.raw)?;
    for place in 0..raw.len() {
        let mut altered = raw.clone();
        altered[place] ^= 1;
        with(&|prepared| prepared.raw = format!("0x{}", hex::encode(&altered)));
    }
    with(&|prepared| prepared.raw.push_str("00"));
    Ok(())
}

/// The payer's transaction, altered and signed again.
fn again(
    transaction: &PayerTransaction,
    payer: &alloy::signers::local::PrivateKeySigner,
    alter: impl Fn(&mut Draft),
) -> PayerTransaction {
    let (mut decoded, _) = read_signed(&bytes(&transaction.raw).unwrap()).unwrap();
    alter(&mut decoded.draft);
    let signed = decoded.draft.sign(payer);
    PayerTransaction {
        transaction_hash: signed.id.to_string(),
        raw: format!("0x{}", hex::encode(&signed.bytes)),
        expires_at: signed.expiration_ms,
    }
}

/// The spend with approvals that are not the payer's for its deposit.
fn altered_approvals(world: &World, spend: &TronSpend) -> Result<Vec<(&'static str, TronSpend)>> {
    let approval = spend.approval.as_ref().context("no approval")?;
    let with = |approval| TronSpend { approval: Some(approval), ..spend.clone() };
    let altered = |alter: &dyn Fn(&mut Draft)| with(again(approval, &world.payer, alter));
    let stranger = key(99);
    let approve = |spender, value| DevToken::approveCall { spender, value: U256::from(value) }.abi_encode();
    let (fake, more) = (approve(stranger.address(), CAP), approve(world.escrow(), CAP + 1));
    Ok(vec![
        ("approval's signer", with(again(approval, &stranger, |_| {}))),
        ("approval's token", altered(&|draft| draft.call.contract = stranger.address())),
        ("approval's spender", altered(&|draft| draft.call.data = fake.clone())),
        ("approval's amount", altered(&|draft| draft.call.data = more.clone())),
        ("approval's value", altered(&|draft| draft.call.value_sun = 1)),
    ])
}

#[tokio::test]
async fn every_field_of_what_the_payer_signed_is_compared() -> Result<()> {
    let Done { world, payment, .. } = Done::new().await?;
    let auditor = world.auditor();
    let spend = spend(&payment.deposit()).clone();
    let (payer, approval) = (&world.payer, spend.approval.clone().context("no approval")?);
    let deposit =
        |alter: &dyn Fn(&mut Draft)| TronSpend { deposit: again(&spend.deposit, payer, alter), ..spend.clone() };
    let call = |alter: &dyn Fn(&mut GatewayEscrow::depositOwnCall)| {
        deposit(&|draft| {
            let mut call = GatewayEscrow::depositOwnCall::abi_decode(&draft.call.data).unwrap();
            alter(&mut call);
            draft.call.data = call.abi_encode();
        })
    };
    let stranger = key(99);
    let other = stranger.address();
    let tampered = |alter: &dyn Fn(&mut PayerTransaction)| {
        let mut altered = spend.clone();
        alter(&mut altered.deposit);
        altered
    };
    let altered = [
        ("amount", TronSpend { amount: amount(CAP + 1), ..spend.clone() }),
        ("quote", TronSpend { quote_hash: Hash32([1; 32]), ..spend.clone() }),
        ("hash", tampered(&|deposit| deposit.transaction_hash = approval.transaction_hash.clone())),
        ("expiration", tampered(&|deposit| deposit.expires_at += 1)),
        ("bytes", tampered(&|deposit| deposit.raw = "0x12".to_owned())),
        ("the other transaction", tampered(&|deposit| *deposit = approval.clone())),
        ("signer", TronSpend { deposit: again(&spend.deposit, &stranger, |_| {}), ..spend.clone() }),
        ("owner", deposit(&|draft| draft.call.owner = other)),
        ("contract", deposit(&|draft| draft.call.contract = other)),
        ("value", deposit(&|draft| draft.call.value_sun = 1)),
        ("selector", deposit(&|draft| draft.call.data[0] ^= 1)),
        ("another encoding", deposit(&|draft| draft.call.data.extend([0; 32]))),
        ("payment", call(&|call| call.d.paymentId.0[0] ^= 1)),
        ("terms", call(&|call| call.d.termsHash.0[0] ^= 1)),
        ("agreed quote", call(&|call| call.d.quoteHash.0[0] ^= 1)),
        ("payer", call(&|call| call.d.payer = other)),
        ("reserver", call(&|call| call.d.reserver = other)),
        ("releaser", call(&|call| call.d.releaser = other)),
        ("reserve deadline", call(&|call| call.d.reserveDeadline -= U48::from(1))),
        ("fulfillment deadline", call(&|call| call.d.fulfillmentDeadline += U48::from(1))),
        ("refund window", call(&|call| call.d.refundAfter += U48::from(1))),
        ("token", call(&|call| call.token = other)),
        ("deposited", call(&|call| call.amount += U256::from(1))),
        ("admission", call(&|call| call.reserverSignature = vec![1; 65].into())),
    ];
    for (name, altered) in altered.into_iter().chain(altered_approvals(&world, &spend)?) {
        let authorization = Authorization::Tron(altered);
        let discrepancies =
            auditor.audit_authorization(&payment.id, &payment.terms, &payment.plan, &authorization).await?;
        assert!(is_contradicted(&discrepancies), "{name}: {discrepancies:?}");
    }
    // Where the allowance stood already there is no approval to look at.
    let alone = Authorization::Tron(TronSpend { approval: None, ..spend });
    assert_eq!(auditor.audit_authorization(&payment.id, &payment.terms, &payment.plan, &alone).await?, []);
    Ok(())
}

#[tokio::test]
async fn every_field_that_a_chain_can_contradict_is_compared() -> Result<()> {
    let done = Done::new().await?;
    done.compares_payments().await?;
    done.compares_quotes().await?;
    done.compares_deliveries().await?;
    done.compares_amounts().await?;
    done.compares_inclusions().await
}

impl Done {
    async fn compares_payments(&self) -> Result<()> {
        let Self { world, payment, .. } = self;
        let (auditor, stranger) = (world.auditor(), holder(&key(99)));
        type Alter<'a> = Box<dyn Fn(&mut Payment) + 'a>;
        let altered: Vec<(&str, Alter<'_>)> = vec![
            ("payment", Box::new(|payment| payment.id = PaymentId::derive("tron:x", "other"))),
            ("terms", Box::new(|payment| payment.terms.fulfillment_amount = amount(DELIVERED + 1))),
            ("reserver", Box::new(|payment| payment.plan.reserver = stranger.clone())),
            ("releaser", Box::new(|payment| payment.plan.releaser = stranger.clone())),
            ("reserve deadline", Box::new(|payment| payment.plan.reserve_deadline -= 1)),
            ("fulfillment deadline", Box::new(|payment| payment.plan.fulfillment_deadline += 1)),
            ("refund window", Box::new(|payment| payment.plan.refund_after += 1)),
            ("escrow", Box::new(|payment| payment.plan.contract = world.contracts.proxy.parse().unwrap())),
        ];
        for (name, alter) in &altered {
            let mut altered = payment.clone();
            alter(&mut altered);
            let Payment { id, terms, plan, authorization, .. } = &altered;
            let signed = auditor.audit_authorization(id, terms, plan, authorization).await?;
            assert!(is_contradicted(&signed), "{name}: {signed:?}");
            // Another contract has no record that could be read.
            if let Ok((_, discrepancies)) = auditor.audit_escrow(id, plan, Some(&altered.audited())).await {
                assert!(*name == "payment" || is_contradicted(&discrepancies), "record, {name}: {discrepancies:?}");
            }
        }
        Ok(())
    }

    async fn compares_quotes(&self) -> Result<()> {
        let Self { world, payment, secured, delivery, release, .. } = self;
        let (auditor, stranger) = (world.auditor(), holder(&key(99)));
        let (case, quote) = (payment.audited(), payment.quote.quote());
        let sooner = from_unix_seconds(payment.fulfill_by() - 1).unwrap();
        let quotes = [
            ("payout account", Quote { payout_account: stranger.clone(), ..quote.clone() }),
            ("source amount", Quote { source_amount: amount(PRICE - 1), ..quote.clone() }),
            ("fulfill by", Quote { fulfill_by: sooner, ..quote.clone() }),
        ];
        for (name, quote) in &quotes {
            let case = Case { quote, ..case };
            let deposit = auditor.audit_deposit(&case, secured).await?;
            assert!(is_contradicted(&deposit), "deposit, {name}: {deposit:?}");
            let (_, discrepancies) = auditor.audit_escrow(&payment.id, &payment.plan, Some(&case)).await?;
            assert!(is_contradicted(&discrepancies), "record, {name}: {discrepancies:?}");
        }
        let other_quote = Case { quote_hash: Hash32([3; 32]), ..case };
        for (name, discrepancies) in [
            ("deposit", auditor.audit_deposit(&other_quote, secured).await?),
            ("delivery", auditor.audit_delivery(&other_quote, delivery).await?),
            ("release", auditor.audit_release(&other_quote, release, secured.amount).await?),
        ] {
            assert!(is_contradicted(&discrepancies), "{name} under another quote: {discrepancies:?}");
        }
        Ok(())
    }

    async fn compares_deliveries(&self) -> Result<()> {
        let Self { world, payment, delivery, .. } = self;
        let (auditor, stranger) = (world.auditor(), holder(&key(99)));
        let (case, quote) = (payment.audited(), payment.quote.quote());
        let sooner = from_unix_seconds(payment.fulfill_by() - 1).unwrap();
        let deliveries = [
            ("delivery account", Kind::Contradiction, Quote { delivery_account: stranger.clone(), ..quote.clone() }),
            ("proxy", Kind::Missing, Quote { fulfillment_proxy: stranger.clone(), ..quote.clone() }),
            ("amount", Kind::Contradiction, Quote { fulfillment_amount: amount(DELIVERED - 1), ..quote.clone() }),
            (
                "recipient",
                Kind::Contradiction,
                Quote { destination: world.trc20(&world.token, stranger.as_str()), ..quote.clone() },
            ),
            ("token", Kind::Contradiction, Quote { destination: world.trx(), ..quote.clone() }),
            ("time", Kind::Contradiction, Quote { fulfill_by: sooner, ..quote.clone() }),
        ];
        for (name, kind, quote) in &deliveries {
            let discrepancies = auditor.audit_delivery(&Case { quote, ..case }, delivery).await?;
            assert_eq!(kinds(&discrepancies), [*kind], "delivery, {name}");
        }
        Ok(())
    }

    async fn compares_amounts(&self) -> Result<()> {
        let Self { world, payment, secured, release, .. } = self;
        let auditor = world.auditor();
        let (case, quote) = (payment.audited(), payment.quote.quote());
        let paid_more = Case { quote: &Quote { source_amount: amount(PRICE + 1), ..quote.clone() }, ..case };
        assert_eq!(kinds(&auditor.audit_release(&paid_more, release, secured.amount).await?), [Kind::Contradiction]);
        let to_another = Case { quote: &Quote { payout_account: holder(&key(99)), ..quote.clone() }, ..case };
        assert_eq!(kinds(&auditor.audit_release(&to_another, release, secured.amount).await?), [Kind::Contradiction]);
        // Price and remainder must be the deposit: neither the price alone nor a unit more.
        for deposited in [PRICE, CAP + 1, CAP - 1] {
            let discrepancies = auditor.audit_release(&case, release, amount(deposited)).await?;
            assert_eq!(kinds(&discrepancies), [Kind::Contradiction], "{deposited}");
            let secured = EscrowSecured { amount: amount(deposited), ..secured.clone() };
            assert!(is_contradicted(&auditor.audit_deposit(&case, &secured).await?), "{deposited}");
        }
        Ok(())
    }

    async fn compares_inclusions(&self) -> Result<()> {
        let Self { world, payment, secured, delivery, release, .. } = self;
        let (auditor, case) = (world.auditor(), payment.audited());
        let inclusions = [
            (Kind::Missing, Inclusion { transaction_hash: Hash32([5; 32]).to_string(), ..release.clone() }),
            (Kind::Contradiction, Inclusion { transaction_hash: "0x12".to_owned(), ..release.clone() }),
            (Kind::Contradiction, Inclusion { block_number: release.block_number + 1, ..release.clone() }),
            (Kind::Contradiction, Inclusion { block_hash: Hash32([6; 32]).to_string(), ..release.clone() }),
            (Kind::Contradiction, Inclusion { block_time: release.block_time + 1, ..release.clone() }),
            (Kind::Missing, delivery.clone()),
            (Kind::Missing, secured.inclusion.clone()),
        ];
        for (kind, inclusion) in &inclusions {
            let discrepancies = auditor.audit_release(&case, inclusion, secured.amount).await?;
            assert_eq!(kinds(&discrepancies), [*kind], "{inclusion:?}");
        }
        let elsewhere = EscrowSecured { inclusion: release.clone(), ..secured.clone() };
        assert!(kinds(&auditor.audit_deposit(&case, &elsewhere).await?).contains(&Kind::Missing));
        assert_eq!(kinds(&auditor.audit_delivery(&case, release).await?), [Kind::Missing]);
        Ok(())
    }
}

/// A deposit that nobody was named for, with or without an award, and its way back.
#[tokio::test]
async fn a_deposit_that_was_never_reserved_is_audited_until_it_is_back() -> Result<()> {
    let world = World::start().await?;
    let (auditor, chains) = (world.auditor(), world.chains());
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    let order = payment.deposit();
    world.deposit(&order).await?;
    let left = payment.plan.reserve_deadline + 1 - world.time().await?;
    world.advance(Duration::from_secs(left)).await?;
    world.solidify().await?;
    let payer_deposit = payment.payer_deposit();
    let opened = chains.stranded_deposit(&payer_deposit).await?.context("not stranded")?;
    assert_eq!(opened.inclusion.transaction_hash, spend(&order).deposit.transaction_hash);
    assert_eq!(auditor.audit_opened(&payer_deposit, &opened).await?, []);
    let (snapshot, _) = auditor.audit_escrow(&payment.id, &payment.plan, None).await?;
    assert_eq!(snapshot.state, Some(State::Deposited));

    let left = payment.plan.refund_after + 1 - world.time().await?;
    world.advance(Duration::from_secs(left)).await?;
    world.solidify().await?;
    world.settle(&chains, &chains.prepare_refund(&refund(&order), 1).await?).await?;
    let EscrowState::Refunded(refunded) = payment.ended(&world).await? else { bail!("not refunded") };
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    assert_eq!(auditor.audit_return(&payer_deposit, &refunded, opened.amount).await?, []);
    assert_eq!(auditor.audit_refund(&payment.audited(), &refunded, opened.amount).await?, []);
    let (snapshot, discrepancies) = auditor.audit_escrow(&payment.id, &payment.plan, Some(&payment.audited())).await?;
    assert_eq!((snapshot.state, discrepancies), (Some(State::Refunded), vec![]));

    let other = Payment::within_tron(&world, 600, world.trx()).await?;
    let less = EscrowOpened { amount: amount(CAP - 1), ..opened.clone() };
    assert!(is_contradicted(&auditor.audit_opened(&payer_deposit, &less).await?));
    assert_eq!(kinds(&auditor.audit_opened(&other.payer_deposit(), &opened).await?), [Kind::Missing]);
    let approved = spend(&order).approval.as_ref().context("no approval")?.transaction_hash.clone();
    let elsewhere = Inclusion { transaction_hash: approved, ..opened.inclusion.clone() };
    let discrepancies =
        auditor.audit_opened(&payer_deposit, &EscrowOpened { inclusion: elsewhere, ..opened.clone() }).await?;
    assert!(kinds(&discrepancies).contains(&Kind::Missing), "{discrepancies:?}");
    let mut terms = payer_deposit.clone();
    terms.terms_hash = Hash32([1; 32]);
    assert!(is_contradicted(&auditor.audit_opened(&terms, &opened).await?));
    let mut early = payer_deposit.clone();
    early.escrow.reserve_deadline = opened.inclusion.block_time - 1;
    assert!(is_contradicted(&auditor.audit_opened(&early, &opened).await?));

    let less = EscrowRefunded { amount: amount(CAP - 1), ..refunded.clone() };
    assert!(is_contradicted(&auditor.audit_return(&payer_deposit, &less, opened.amount).await?));
    let missing = auditor.audit_return(&other.payer_deposit(), &refunded, opened.amount).await?;
    assert_eq!(kinds(&missing), [Kind::Missing]);
    let not_back = EscrowRefunded { inclusion: opened.inclusion.clone(), ..refunded };
    assert_eq!(kinds(&auditor.audit_return(&payer_deposit, &not_back, opened.amount).await?), [Kind::Missing]);
    Ok(())
}

/// A payer has two deposits of other terms admitted under one id and the same windows, submits one and broadcasts the other.
#[tokio::test]
async fn a_deposit_of_other_terms_is_the_payers_doing() -> Result<()> {
    let world = World::start().await?;
    let (auditor, chains) = (world.auditor(), world.chains());
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    let (plan, id) = (&payment.plan, payment.id.clone());
    let cap = CAP - 1;
    let (deadline, end) = (plan.fulfillment_deadline - 300, plan.fulfillment_deadline);
    let other = world.order_for(&world.payer, id, cap, deadline, end, &Choice::default()).await?;
    assert_eq!((&other.escrow, &other.payment_id), (plan, &payment.id));
    assert_ne!(other.terms_hash, payment.terms.hash());
    world.deposit(&other).await?;
    let left = plan.reserve_deadline + 1 - world.time().await?;
    world.advance(Duration::from_secs(left)).await?;
    world.solidify().await?;
    let payer_deposit = payment.payer_deposit();
    let opened = chains.stranded_deposit(&payer_deposit).await?.context("not stranded")?;
    assert_eq!(opened.amount, amount(cap));
    assert_eq!(auditor.audit_opened(&payer_deposit, &opened).await?, []);
    let (snapshot, discrepancies) = auditor.audit_escrow(&payment.id, plan, Some(&payment.audited())).await?;
    assert_eq!((snapshot.state, discrepancies), (Some(State::Deposited), vec![]));

    // What the gateway says of it is compared all the same.
    let more = EscrowOpened { amount: amount(CAP), ..opened.clone() };
    assert!(is_contradicted(&auditor.audit_opened(&payer_deposit, &more).await?));
    let approved = spend(&other).approval.as_ref().context("no approval")?.transaction_hash.clone();
    let elsewhere = Inclusion { transaction_hash: approved, ..opened.inclusion.clone() };
    let discrepancies =
        auditor.audit_opened(&payer_deposit, &EscrowOpened { inclusion: elsewhere, ..opened.clone() }).await?;
    assert!(kinds(&discrepancies).contains(&Kind::Missing), "{discrepancies:?}");
    let mut later = opened.clone();
    later.inclusion.block_number += 1;
    assert!(is_contradicted(&auditor.audit_opened(&payer_deposit, &later).await?));
    // So is whether what the stream shows as submitted is what is on the chain.
    let mut shown = payer_deposit.clone();
    shown.authorization = other.authorization.clone();
    assert!(is_contradicted(&auditor.audit_opened(&shown, &opened).await?));
    let mut early = payer_deposit.clone();
    early.escrow.reserve_deadline = opened.inclusion.block_time - 1;
    assert!(is_contradicted(&auditor.audit_opened(&early, &opened).await?));

    let left = plan.refund_after + 1 - world.time().await?;
    world.advance(Duration::from_secs(left)).await?;
    world.solidify().await?;
    world.settle(&chains, &chains.prepare_refund(&refund(&other), 1).await?).await?;
    let EscrowState::Refunded(refunded) = payment.ended(&world).await? else { bail!("not refunded") };
    assert_eq!(auditor.audit_opened(&payer_deposit, &opened).await?, []);
    assert_eq!(auditor.audit_return(&payer_deposit, &refunded, opened.amount).await?, []);
    assert!(is_contradicted(&auditor.audit_return(&payer_deposit, &refunded, amount(CAP)).await?));
    let (snapshot, discrepancies) = auditor.audit_escrow(&payment.id, plan, Some(&payment.audited())).await?;
    assert_eq!((snapshot.state, discrepancies), (Some(State::Refunded), vec![]));
    Ok(())
}

/// A transaction that is in a block and failed made nothing, whatever the stream says.
#[tokio::test]
async fn a_failed_transaction_proves_nothing() -> Result<()> {
    let world = World::start().await?;
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    let order = payment.deposit();
    // Without the approval the deposit reverts.
    let deposit = &spend(&order).deposit;
    let info = world.bring(deposit).await?;
    let failure = info.failure.context("it did not fail")?;
    assert!(failure.starts_with("REVERT: ReceivedNotExact("), "{failure}");
    world.solidify().await?;
    let block = world.node().block(info.block_number, chains_tron::node::State::Newest).await?.context("no block")?;
    let inclusion = Inclusion {
        chain_id: payment.plan.chain_id.clone(),
        transaction_hash: deposit.transaction_hash.clone(),
        block_number: block.number,
        block_hash: block.id.to_string(),
        block_time: block.time_ms / 1_000,
    };
    let opened = EscrowOpened { inclusion, amount: amount(CAP), reserved_for: None };
    let discrepancies = world.auditor().audit_opened(&payment.payer_deposit(), &opened).await?;
    assert_eq!(kinds(&discrepancies), [Kind::Contradiction]);
    assert!(discrepancies[0].what.contains("failed: REVERT"), "{discrepancies:?}");
    Ok(())
}
