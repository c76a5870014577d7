//! The auditor on payments by Permit2: one that is as its stream tells it, and every member altered.

use std::slice::from_ref;

use alloy::signers::SignerSync;
use anyhow::{Result, bail};

use chains::{
    auditor::{Audit, Case, Discrepancy, Kind},
    settler::DeliveryChain,
};
use chains_tron::deploy::Permit2 as DrawnBy;
use events::{
    Hash32, PaymentId, Terms,
    event::{Authorization, EscrowPlan, EscrowSecured, Permit2, TokenDomain, TokenPermit},
    quote::Quote,
};
use sagas::ports::{Chains, DepositState, EscrowState};

use crate::support::{
    TOKENS, World, account, holder, key,
    payment::{CAP, DELIVERED, PRICE},
    permitted,
    quoted::{Payment, amount},
};

fn kinds(discrepancies: &[Discrepancy]) -> Vec<Kind> {
    discrepancies.iter().map(|discrepancy| discrepancy.kind).collect()
}

fn is_contradicted(discrepancies: &[Discrepancy]) -> bool {
    kinds(discrepancies).contains(&Kind::Contradiction)
}

fn permit(payment: &Payment) -> Permit2 {
    permitted::permit(&payment.deposit()).clone()
}

/// A payment by Permit2 within Tron, not deposited yet.
async fn by_permit(world: &World, agreed: bool) -> Result<Payment> {
    let destination = world.trc20(&world.token, &account(&world.recipient));
    Payment::permitted(world, 600, destination, agreed).await
}

/// Its deposit of `units`, at depth.
async fn deposited(world: &World, payment: &Payment, units: u64) -> Result<EscrowSecured> {
    let (chains, order) = (world.chains(), payment.deposit());
    let prepared = chains.prepare_larger_deposit(&order, amount(units), 1).await?;
    world.settle(&chains, &prepared).await?;
    match chains.deposit_state(&order, from_ref(&prepared)).await? {
        DepositState::Secured(secured) => Ok(secured),
        other => bail!("not secured: {other:?}"),
    }
}

#[tokio::test]
async fn a_payment_that_is_as_told_leaves_no_discrepancy() -> Result<()> {
    for (agreed, units) in [(false, PRICE), (true, PRICE), (false, CAP)] {
        let world = World::start().await?;
        let auditor = world.auditor();
        let payment = by_permit(&world, agreed).await?;
        assert_eq!(permit(&payment).quote_hash != Hash32::ZERO, agreed);
        let case = payment.audited();
        let secured = deposited(&world, &payment, units).await?;
        world.mining(world.settling().deliver(&payment.delivery())).await??;
        let delivery = payment.delivered(&world).await?;
        let attestation = world.attest(&world.statement(&payment.deposit()));
        world.mining(world.settling().release(&payment.id, &payment.plan, &attestation)).await??;
        let EscrowState::Released(release) = payment.ended(&world).await? else { bail!("not released") };
        let signed = auditor.audit_authorization(&payment.id, &payment.terms, &payment.plan, &payment.authorization);
        assert_eq!(signed.await?, []);
        assert_eq!(auditor.audit_deposit(&case, &secured).await?, []);
        assert_eq!(auditor.audit_delivery(&case, &delivery).await?, []);
        assert_eq!(auditor.audit_release(&case, &release, secured.amount).await?, []);
        let (_, discrepancies) = auditor.audit_escrow(&payment.id, &payment.plan, Some(&case)).await?;
        assert_eq!(discrepancies, []);
        assert_eq!(world.tokens(&world.settler).await?, TOKENS - DELIVERED + PRICE);
        assert_eq!(world.tokens(&world.payer).await?, TOKENS - PRICE);
    }
    Ok(())
}

#[tokio::test]
async fn every_member_of_what_the_payer_signed_is_compared() -> Result<()> {
    let world = World::start().await?;
    let auditor = world.auditor();
    let payment = by_permit(&world, false).await?;
    let audited = async |payment: &Payment| {
        let Payment { id, terms, plan, authorization, .. } = payment;
        auditor.audit_authorization(id, terms, plan, authorization).await
    };
    assert_eq!(audited(&payment).await?, []);
    let own = permit(&payment);
    let stranger = key(99);
    let digest = alloy::primitives::B256::repeat_byte(3);
    let signature = |key: &alloy::signers::local::PrivateKeySigner| {
        format!("0x{}", hex::encode(key.sign_hash_sync(&digest).unwrap().as_bytes()))
    };
    let short_v = format!("{}{:02x}", &own.signature[..130], u8::from_str_radix(&own.signature[130..], 16)? - 27);
    let allowance = TokenPermit {
        domain: TokenDomain { name: "Test Dollar".to_owned(), version: "1".to_owned() },
        value: amount(CAP),
        nonce: Hash32::ZERO,
        deadline: own.deadline,
        signature: own.signature.clone(),
    };
    let permits = [
        ("amount", Permit2 { amount: amount(CAP + 1), ..own.clone() }),
        ("less", Permit2 { amount: amount(CAP - 1), ..own.clone() }),
        ("nonce", Permit2 { nonce: Hash32([1; 32]), ..own.clone() }),
        ("later", Permit2 { deadline: own.deadline + 1, ..own.clone() }),
        ("sooner", Permit2 { deadline: own.deadline - 1, ..own.clone() }),
        ("quote", Permit2 { quote_hash: Hash32([1; 32]), ..own.clone() }),
        ("another signer", Permit2 { signature: signature(&stranger), ..own.clone() }),
        ("another message", Permit2 { signature: signature(&world.payer), ..own.clone() }),
        ("a form that Permit2 does not take", Permit2 { signature: short_v, ..own.clone() }),
        ("no hex", Permit2 { signature: "0xzz".to_owned(), ..own.clone() }),
        ("allowance", Permit2 { allowance: Some(allowance), ..own.clone() }),
    ];
    for (name, permit) in permits {
        let altered = Payment { authorization: Authorization::TronPermit2Escrow(permit), ..payment.clone() };
        let found = audited(&altered).await?;
        assert!(is_contradicted(&found), "{name}: {found:?}");
    }
    let plan = &payment.plan;
    let other = holder(&stranger);
    // Another escrow, which draws by the same Permit2, or by none.
    let same = world.another_escrow(&world.reserver, world.permit2()).await?.escrow;
    let without = world.another_escrow(&world.reserver, DrawnBy::None).await?.escrow;
    let plans = [
        EscrowPlan { contract: same, ..plan.clone() },
        EscrowPlan { contract: without.clone(), ..plan.clone() },
        EscrowPlan { contract: other.clone(), ..plan.clone() },
        EscrowPlan { reserver: other.clone(), ..plan.clone() },
        EscrowPlan { releaser: other.clone(), ..plan.clone() },
        EscrowPlan { reserve_deadline: plan.reserve_deadline - 1, ..plan.clone() },
        EscrowPlan { fulfillment_deadline: plan.fulfillment_deadline + 1, ..plan.clone() },
        EscrowPlan { refund_after: plan.refund_after + 1, ..plan.clone() },
    ];
    for plan in plans {
        let found = audited(&Payment { plan: plan.clone(), ..payment.clone() }).await?;
        assert!(is_contradicted(&found), "{plan:?}: {found:?}");
        assert_eq!(
            [&without, &other].contains(&&plan.contract),
            found.iter().any(|one| one.what.contains("draws by no Permit2"))
        );
    }
    let found = audited(&Payment { id: PaymentId::derive("tron:x", "other"), ..payment.clone() }).await?;
    assert!(is_contradicted(&found), "{found:?}");
    let Terms { ref source, fulfillment_amount, max_source_amount, .. } = payment.terms;
    let to = payment.terms.destination().to_vec();
    let theirs = events::OwnedAsset::new(source.asset().clone(), other.as_str())?;
    let wrapped =
        events::OwnedAsset::new(world.asset(&format!("trc20:{}", world.contracts.proxy)), source.account().as_str())?;
    for terms in [
        Terms::new(source.clone(), to.clone(), amount(DELIVERED + 1), max_source_amount),
        Terms::new(source.clone(), to.clone(), fulfillment_amount, Some(amount(CAP + 1))),
        Terms::new(theirs, to.clone(), fulfillment_amount, max_source_amount),
        Terms::new(wrapped, to, fulfillment_amount, max_source_amount),
    ] {
        let found = audited(&Payment { terms: terms.clone(), ..payment.clone() }).await?;
        assert!(is_contradicted(&found), "{terms:?}: {found:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_deposit_is_of_the_payers_money_and_of_what_the_stream_says() -> Result<()> {
    let world = World::start().await?;
    let auditor = world.auditor();
    let payment = by_permit(&world, false).await?;
    let secured = deposited(&world, &payment, CAP).await?;
    let case = payment.audited();
    assert_eq!(auditor.audit_deposit(&case, &secured).await?, []);
    for units in [CAP - 1, CAP + 1, PRICE - 1] {
        let altered = EscrowSecured { amount: amount(units), ..secured.clone() };
        assert!(is_contradicted(&auditor.audit_deposit(&case, &altered).await?), "{units}");
    }
    // Another's money, of which nothing was taken.
    let Terms { ref source, fulfillment_amount, max_source_amount, .. } = payment.terms;
    let theirs = events::OwnedAsset::new(source.asset().clone(), &account(&world.settler))?;
    let terms = Terms::new(theirs, payment.terms.destination().to_vec(), fulfillment_amount, max_source_amount);
    let found = auditor.audit_deposit(&Case { terms: &terms, ..case }, &secured).await?;
    assert!(
        is_contradicted(&found) && found.iter().any(|one| one.what.contains("0 were taken from the payer")),
        "{found:?}"
    );
    // The quote that the payer agreed to is in the deposit.
    let agreed = Permit2 { quote_hash: payment.quote.hash(), ..permit(&payment) };
    let authorization = Authorization::TronPermit2Escrow(agreed);
    let found = auditor.audit_deposit(&Case { authorization: &authorization, ..case }, &secured).await?;
    assert!(is_contradicted(&found), "{found:?}");
    let quote = payment.quote.quote();
    for quote in [
        Quote { payout_account: holder(&key(99)), ..quote.clone() },
        Quote { source_amount: amount(PRICE - 1), ..quote.clone() },
        Quote { source_amount: amount(CAP + 1), ..quote.clone() },
    ] {
        let found = auditor.audit_deposit(&Case { quote: &quote, ..case }, &secured).await?;
        assert!(is_contradicted(&found), "{quote:?}: {found:?}");
    }
    let found = auditor.audit_deposit(&Case { quote_hash: Hash32([3; 32]), ..case }, &secured).await?;
    assert!(is_contradicted(&found), "{found:?}");
    // Another payment's deposit.
    let other = by_permit(&world, false).await?;
    let others = deposited(&world, &other, PRICE).await?;
    let found =
        auditor.audit_deposit(&case, &EscrowSecured { inclusion: others.inclusion.clone(), ..secured.clone() }).await?;
    let place = &others.inclusion.transaction_hash;
    for name in ["deposit", "reservation"] {
        let what = format!("{place} made no {name} for the payment");
        assert!(found.contains(&Discrepancy { kind: Kind::Missing, what }), "{name}: {found:?}");
    }
    Ok(())
}
