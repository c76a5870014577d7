//! Verifier sets on Solana: two of three release and cancel, by the gateway and by a settler, and an auditor finds their word.

use anyhow::{Result, bail};
use ed25519_dalek::SigningKey;

use chains::{
    auditor::{Audit, Case, Kind},
    settler::DeliveryChain,
};
use chains_solana::{
    auditor::{Auditor, check_prepared},
    keys::account,
    program::fits,
    settler::SettlerChain,
};
use events::{Account, VerifierMember, VerifierSet, event::EscrowPlan};
use sagas::ports::{Chains, EscrowState, PrepareError, RefundOrder, ReleaseOrder, Statement, Transient};

use super::{Payment, delivered, ended, kinds, native, secure};
use crate::{
    evm_support::release::{order, refused, statement},
    support::{PRICE, TOKENS, World, key, until, wallet},
};

/// Members of a set with their keys, the first of which is the same in every set.
pub(super) struct Verifiers {
    set: VerifierSet,
    keys: Vec<SigningKey>,
}

impl Verifiers {
    pub(super) fn new(threshold: u8, count: u8) -> Result<Self> {
        let keys: Vec<_> = (0..count).map(|index| key(100 + index)).collect();
        let member = |key| VerifierMember { account: wallet(key), endpoint: "https://verifier.example".to_owned() };
        Ok(Self { set: VerifierSet::new(threshold, keys.iter().map(member).collect())?, keys })
    }

    pub(super) fn id(&self) -> Account {
        self.set.id().unwrap()
    }

    /// What these of them sign together.
    pub(super) fn attest(&self, world: &World, statement: &Statement, who: &[usize]) -> String {
        let sign = |at: &usize| (wallet(&self.keys[*at]), world.attest_by(&self.keys[*at], statement));
        let signed: Vec<_> = who.iter().map(sign).collect();
        self.set.attestation(signed.iter().map(|(by, signature)| (by, signature.as_str()))).unwrap()
    }
}

/// A world in which payers sign for this set.
pub(super) async fn world_of(verifiers: &Verifiers) -> Result<World> {
    let mut world = World::start().await?;
    world.releaser_account = verifiers.id();
    Ok(world)
}

#[tokio::test]
async fn the_gateway_releases_by_two_of_three_and_by_nobody_else() -> Result<()> {
    let verifiers = Verifiers::new(2, 3)?;
    let world = world_of(&verifiers).await?;
    let chain = world.chain();
    let payment = Payment::from_solana(&world, native(&world), &account(&world.settler), &world.program).await?;
    let (_, secured) = secure(&world, &payment).await?;
    let (deposit, plan) = (payment.deposit(), &payment.plan);
    let (delivery, non_delivery) = (statement(&deposit), world.non_delivery(&deposit));

    let word = verifiers.attest(&world, &delivery, &[0, 2]);
    for who in [[0, 1], [0, 2], [1, 2]] {
        assert!(chain.attestation_holds(&delivery, plan, &verifiers.attest(&world, &delivery, &who)).await?);
    }
    let stranger = EscrowPlan { releaser: wallet(&world.releaser), ..plan.clone() };
    assert!(!chain.attestation_holds(&delivery, &stranger, &word).await?);
    let by_one = world.attest_by(&verifiers.keys[0], &delivery);
    let by_another = Verifiers::new(2, 4)?.attest(&world, &delivery, &[0, 1]);
    let about_another = verifiers.attest(&world, &non_delivery, &[0, 1]);
    for (refused_for, wrong) in [
        ("the Ed25519 signature does not hold", by_one.clone()),
        ("VerifierSetMismatch", by_another),
        ("the Ed25519 signature does not hold", about_another),
    ] {
        assert!(!chain.attestation_holds(&delivery, plan, &wrong).await?, "{refused_for}");
        let reason = refused(&chain, &order(&deposit, wrong)).await?;
        assert!(reason.contains(refused_for), "{reason}");
    }
    // A member's own signature is known for it before there are enough.
    let [one, two] = [0, 1].map(|at| wallet(&verifiers.keys[at]));
    assert!(chain.signed_by(&delivery, plan, &one, &by_one).await?);
    assert!(!chain.signed_by(&delivery, plan, &two, &by_one).await?);
    assert!(!chain.signed_by(&non_delivery, plan, &one, &by_one).await?);
    assert!(!chain.signed_by(&delivery, plan, &one, &word).await?);
    let broken = ReleaseOrder { attestation: format!("{word}00"), ..order(&deposit, String::new()) };
    let error = chain.prepare_release(&broken, 1).await.unwrap_err();
    assert!(matches!(error, PrepareError::Transient(Transient::Misconfigured(_))), "{error:?}");

    let before = world.tokens(&world.settler).await?;
    let prepared = chain.prepare_release(&order(&deposit, word), 1).await?;
    assert_eq!(check_prepared(&prepared), Ok(()));
    chain.broadcast(&prepared).await?;
    let EscrowState::Released(release) = ended(&world, &payment).await? else { bail!("not released") };
    assert_eq!(release.transaction_hash, prepared.transaction_hash);
    assert_eq!(world.tokens(&world.settler).await?, before + PRICE);
    let auditor = Auditor::new(world.node());
    assert_eq!(auditor.audit_release(&payment.audited(), &release, secured.amount).await?, []);
    Ok(())
}

#[tokio::test]
async fn a_settler_brings_the_word_of_a_set_and_the_audit_knows_whose_it_is() -> Result<()> {
    let verifiers = Verifiers::new(3, 5)?;
    let world = world_of(&verifiers).await?;
    let payment = Payment::from_solana(&world, native(&world), &account(&world.settler), &world.program).await?;
    let (_, secured) = secure(&world, &payment).await?;
    let settler = SettlerChain::new(world.node(), world.settler.clone());
    settler.deliver(&payment.delivery()).await?;
    delivered(&settler, &payment).await?;
    let delivery = statement(&payment.deposit());
    let word = verifiers.attest(&world, &delivery, &[0, 3, 4]);
    let member = wallet(&verifiers.keys[3]);
    assert!(settler.signed_by(&delivery, &payment.plan, &member, &world.attest_by(&verifiers.keys[3], &delivery)));

    // Its account is gone, so the same transaction makes it anew.
    world.dev.close(&world.token, &world.settler).await?;
    let released_by = settler.release(&payment.id, &payment.plan, &word).await?;
    let EscrowState::Released(release) = ended(&world, &payment).await? else { bail!("not released") };
    assert_eq!(release.transaction_hash, released_by);
    assert_eq!(world.tokens(&world.settler).await?, PRICE);

    let auditor: &dyn Audit = &Auditor::new(world.node());
    let case = payment.audited();
    assert!(auditor.attestation_holds(&delivery, &payment.plan, &word).await?);
    assert_eq!(auditor.audit_release(&case, &release, secured.amount).await?, []);
    for releaser in [wallet(&verifiers.keys[0]), Verifiers::new(2, 5)?.id(), wallet(&world.releaser)] {
        let plan = EscrowPlan { releaser, ..payment.plan.clone() };
        let other = Case { plan: &plan, ..case };
        let found = auditor.audit_release(&other, &release, secured.amount).await?;
        assert_eq!(kinds(&found), [Kind::Contradiction], "{}", plan.releaser);
    }
    Ok(())
}

#[tokio::test]
async fn two_of_three_give_the_money_back() -> Result<()> {
    let verifiers = Verifiers::new(2, 3)?;
    let world = world_of(&verifiers).await?;
    let chain = world.chain();
    let payment = Payment::from_solana(&world, native(&world), &account(&world.settler), &world.program).await?;
    let (_, secured) = secure(&world, &payment).await?;
    let non_delivery = world.non_delivery(&payment.deposit());
    let cancel = |word: String| RefundOrder {
        payment_id: payment.id.clone(),
        escrow: payment.plan.clone(),
        non_delivery: Some(word),
    };
    let by_one = world.attest_by(&verifiers.keys[1], &non_delivery);
    let Err(PrepareError::Refused(refusal)) = chain.prepare_refund(&cancel(by_one), 1).await else {
        bail!("not refused")
    };
    assert!(refusal.context.revert_reason.is_some_and(|reason| reason.contains("Ed25519 signature does not hold")));

    let word = verifiers.attest(&world, &non_delivery, &[1, 2]);
    assert!(chain.attestation_holds(&non_delivery, &payment.plan, &word).await?);
    let prepared = chain.prepare_refund(&cancel(word), 1).await?;
    chain.broadcast(&prepared).await?;
    let EscrowState::Refunded(refunded) = ended(&world, &payment).await? else { bail!("not refunded") };
    assert_eq!(refunded.inclusion.transaction_hash, prepared.transaction_hash);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    let auditor = Auditor::new(world.node());
    let case = payment.audited();
    assert_eq!(auditor.audit_refund(&case, &refunded, secured.amount).await?, []);
    let plan = EscrowPlan { releaser: wallet(&world.releaser), ..payment.plan.clone() };
    let other = Case { plan: &plan, ..case };
    assert_eq!(kinds(&auditor.audit_refund(&other, &refunded, secured.amount).await?), [Kind::Contradiction]);
    Ok(())
}

/// No configuration should name such a set; where one does, the money is the payer's again when its time comes.
#[tokio::test]
async fn the_word_of_a_set_that_is_too_large_is_shown_to_no_node() -> Result<()> {
    let verifiers = Verifiers::new(5, 9)?;
    assert!(!fits(5, 9) && fits(3, 5));
    let world = world_of(&verifiers).await?;
    let chain = world.chain();
    let payment = Payment::from_solana(&world, native(&world), &account(&world.settler), &world.program).await?;
    secure(&world, &payment).await?;
    let deposit = payment.deposit();
    let word = verifiers.attest(&world, &statement(&deposit), &[0, 1, 2, 3, 4]);
    assert!(chain.attestation_holds(&statement(&deposit), &payment.plan, &word).await?);
    let error = chain.prepare_release(&order(&deposit, word.clone()), 1).await.unwrap_err();
    assert!(matches!(&error, PrepareError::Transient(Transient::Misconfigured(_))), "{error:?}");
    assert!(error.to_string().contains("more than the 1232 that the network carries"), "{error}");
    let settler = SettlerChain::new(world.node(), world.settler.clone());
    let error = settler.release(&payment.id, &payment.plan, &word).await.unwrap_err();
    assert!(error.to_string().contains("more than the 1232 that the network carries"), "{error}");

    world.surfnet.travel_to(payment.plan.refund_after + 1).await?;
    let refund = RefundOrder { payment_id: payment.id.clone(), escrow: payment.plan.clone(), non_delivery: None };
    let prepared = chain.prepare_refund(&refund, 1).await?;
    chain.broadcast(&prepared).await?;
    let ask = || chain.escrow_state(&payment.id, &payment.plan);
    until(ask, |state| matches!(state, EscrowState::Refunded(_))).await?;
    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    Ok(())
}
