//! The auditor on Solana: payments that were released and cancelled, and streams that were tampered with.

use anyhow::{Context, Result, bail};
use ruint::aliases::U256;

use chains::{
    auditor::{Audit, Case, Kind},
    escrow::{EscrowRecord, State},
    perform::PerformError,
    settler::DeliveryChain,
    verifier::Outcome,
};
use chains_solana::{
    auditor::{Auditor, check_prepared},
    keys::account,
    settler::SettlerChain,
};
use events::{
    Hash32, PaymentId,
    event::{Authorization, EscrowRefunded, EscrowSecured, Inclusion, TransactionPrepared},
    quote::Quote,
    time::from_unix_seconds,
};
use sagas::ports::{Chains, DeliveryState, EscrowState, RefundOrder, Statement};

use super::{DELIVERED, Payment, amount, delivered, ended, kinds, native, secure, tokens, vault, verifier};
use crate::support::{CAP, PRICE, TOKENS, World, key, until, wallet};

#[tokio::test]
async fn tokens_are_delivered_to_a_new_account_attested_released_and_audited() -> Result<()> {
    let world = World::start().await?;
    let own = account(&world.settler);
    let recipient = account(&world.recipient);
    let destination = tokens(&world, &world.token.mint, &recipient);
    let payment = Payment::from_solana(&world, destination.clone(), &own, &world.program).await?;
    let settler = SettlerChain::new(world.node(), world.settler.clone());
    let verifier = verifier(&world, &world.releaser);
    assert_eq!(settler.account().to_string(), own);
    assert_eq!(settler.balance(destination.asset()).await?, U256::from(TOKENS));
    assert_eq!(settler.reservation(&payment.id, &payment.plan.contract).await?.1, None);
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::NotYet(_)));

    let (prepared, secured) = secure(&world, &payment).await?;
    let (_, record) = settler.reservation(&payment.id, &payment.plan.contract).await?;
    let record: EscrowRecord = record.context("no reservation")?;
    assert!(record.is_of(&payment.plan));
    assert_eq!((record.state, record.quote_hash), (State::Reserved, payment.quote.hash()));
    assert_eq!((record.asset, record.source_amount), (payment.terms.source.asset().clone(), Some(amount(PRICE))));

    let hash = settler.deliver(&payment.delivery()).await?;
    assert_eq!(world.tokens(&world.recipient).await?, DELIVERED);
    let delivery = delivered(&settler, &payment).await?;
    assert_eq!(delivery.transaction_hash, hash);
    assert_eq!(settler.deliver(&payment.delivery()).await?, hash);

    assert!(matches!(verifier.attest_non_delivery(&payment.case()).await?, Outcome::Refused(_)));
    let Outcome::Attested(attestation) = verifier.attest_delivery(&payment.case()).await? else { bail!("refused") };
    // A stranger sends a unit to the vault: the settler's gain, and no contradiction to an auditor.
    world.dev.mint_into(&world.token, &vault(&payment)?, 1).await?;
    let released_by = settler.release(&payment.id, &payment.plan, &attestation).await?;
    assert_eq!(settler.release(&payment.id, &payment.plan, &attestation).await?, released_by);
    let EscrowState::Released(release) = ended(&world, &payment).await? else { bail!("not released") };
    assert_eq!(release.transaction_hash, released_by);
    assert_eq!(world.tokens(&world.settler).await?, TOKENS - DELIVERED + PRICE + 1);
    assert_eq!(world.tokens(&world.recipient).await?, DELIVERED);
    // A verifier whose answer was lost is asked again, after the settler was paid.
    assert_eq!(verifier.attest_delivery(&payment.case()).await?, Outcome::Attested(attestation.clone()));
    let statement = Statement::Delivery {
        payment_id: payment.id.clone(),
        quote_hash: payment.quote.hash(),
        payout_account: wallet(&world.settler),
    };
    let auditor: &dyn Audit = &Auditor::new(world.node());
    assert!(auditor.attestation_holds(&statement, &payment.plan, &attestation).await?);

    audit_is_clean(auditor, &payment, &prepared, &secured, &delivery, &release).await?;
    let proven = Proven { auditor, payment: &payment, secured: &secured, delivery: &delivery, release: &release };
    proven.what_was_signed_is_compared().await?;
    proven.the_quote_is_compared().await?;
    proven.the_places_are_compared().await
}

async fn audit_is_clean(
    auditor: &dyn Audit,
    payment: &Payment,
    prepared: &TransactionPrepared,
    secured: &EscrowSecured,
    delivery: &Inclusion,
    release: &Inclusion,
) -> Result<()> {
    let case = payment.audited();
    assert_eq!(check_prepared(prepared), Ok(()));
    let signed = auditor.audit_authorization(&payment.id, &payment.terms, &payment.plan, &payment.authorization);
    assert_eq!(signed.await?, []);
    assert_eq!(auditor.audit_deposit(&case, secured).await?, []);
    assert_eq!(auditor.audit_delivery(&case, delivery).await?, []);
    assert_eq!(auditor.audit_release(&case, release, secured.amount).await?, []);
    let (snapshot, discrepancies) = auditor.audit_escrow(&payment.id, &payment.plan, Some(&case)).await?;
    assert_eq!((snapshot.state, discrepancies), (Some(State::Released), vec![]));
    assert!(snapshot.settled_number >= release.block_number && snapshot.settled_time >= release.block_time);
    let refund = EscrowRefunded { inclusion: release.clone(), amount: secured.amount, claims: Vec::new() };
    assert_eq!(kinds(&auditor.audit_refund(&case, &refund, secured.amount).await?), [Kind::Missing]);

    let mut raw = hex::decode(&prepared.raw[2..])?;
    *raw.last_mut().unwrap() ^= 1;
    let altered = TransactionPrepared { raw: format!("0x{}", hex::encode(raw)), ..prepared.clone() };
    assert!(check_prepared(&altered).unwrap_err().contains("is not that of"));
    let renamed = TransactionPrepared { transaction_hash: release.transaction_hash.clone(), ..prepared.clone() };
    assert!(check_prepared(&renamed).unwrap_err().starts_with("its first signature is"));
    let stranger = TransactionPrepared { sender: wallet(&key(99)), ..prepared.clone() };
    assert!(check_prepared(&stranger).unwrap_err().starts_with("its fee payer is"));
    for raw in ["", "0x", "0x00", "0x01ff", "0xzz"] {
        assert!(check_prepared(&TransactionPrepared { raw: raw.to_owned(), ..prepared.clone() }).is_err(), "{raw}");
    }
    Ok(())
}

/// A payment that went well, and where: every field of the stream that a chain can contradict is altered, one at a time.
struct Proven<'a> {
    auditor: &'a dyn Audit,
    payment: &'a Payment,
    secured: &'a EscrowSecured,
    delivery: &'a Inclusion,
    release: &'a Inclusion,
}

impl Proven<'_> {
    async fn what_was_signed_is_compared(&self) -> Result<()> {
        let Self { auditor, payment, secured, .. } = self;
        let stranger = wallet(&key(99));
        let Authorization::Solana(spend) = payment.authorization.clone() else { bail!("not signed on Solana") };
        type Alter<'a> = Box<dyn Fn(&mut Payment) + 'a>;
        let authorization = |alter: fn(&mut events::event::SolanaSpend)| -> Alter<'_> {
            let mut altered = spend.clone();
            alter(&mut altered);
            Box::new(move |payment| payment.authorization = Authorization::Solana(altered.clone()))
        };
        let altered: Vec<(&str, Alter<'_>)> = vec![
            ("payment", Box::new(|payment| payment.id = PaymentId::derive("solana:x", "other"))),
            ("terms", Box::new(|payment| payment.terms.fulfillment_amount = amount(DELIVERED + 1))),
            ("amount", authorization(|spend| spend.amount = amount(CAP + 1))),
            ("quote", authorization(|spend| spend.quote_hash = Hash32([1; 32]))),
            ("signer", authorization(|spend| spend.signer = wallet(&key(99)))),
            ("signature", authorization(|spend| spend.signature.replace_range(10..11, "x"))),
            ("reserver", Box::new(|payment| payment.plan.reserver = stranger.clone())),
            ("releaser", Box::new(|payment| payment.plan.releaser = stranger.clone())),
            ("reserve deadline", Box::new(|payment| payment.plan.reserve_deadline -= 1)),
            ("fulfillment deadline", Box::new(|payment| payment.plan.fulfillment_deadline += 1)),
            ("refund window", Box::new(|payment| payment.plan.refund_after += 1)),
            ("program", Box::new(|payment| payment.plan.contract = stranger.clone())),
        ];
        for (name, alter) in &altered {
            let mut altered = Payment::clone(payment);
            alter(&mut altered);
            let Payment { id, terms, plan, authorization, .. } = &altered;
            let signed = auditor.audit_authorization(id, terms, plan, authorization).await?;
            assert!(signed.iter().any(|discrepancy| discrepancy.kind == Kind::Contradiction), "{name}: {signed:?}");
            let deposit = auditor.audit_deposit(&altered.audited(), secured).await?;
            assert!(!deposit.is_empty(), "deposit, {name}");
        }
        Ok(())
    }

    async fn the_quote_is_compared(&self) -> Result<()> {
        let Self { auditor, payment, secured, delivery, release } = self;
        let stranger = wallet(&key(99));
        let case = payment.audited();
        let quote = payment.quote.quote();
        let quotes = [
            ("payout account", Quote { payout_account: stranger.clone(), ..quote.clone() }),
            ("source amount", Quote { source_amount: amount(PRICE - 1), ..quote.clone() }),
            ("fulfill by", Quote { fulfill_by: from_unix_seconds(payment.fulfill_by() - 1).unwrap(), ..quote.clone() }),
        ];
        for (name, quote) in &quotes {
            let case = Case { quote, ..case };
            assert!(!auditor.audit_deposit(&case, secured).await?.is_empty(), "deposit, {name}");
            let (_, discrepancies) = auditor.audit_escrow(&payment.id, &payment.plan, Some(&case)).await?;
            assert!(!discrepancies.is_empty(), "record, {name}");
        }
        let deliveries = [
            ("delivery account", Quote { delivery_account: stranger.clone(), ..quote.clone() }),
            ("proxy", Quote { fulfillment_proxy: stranger.clone(), ..quote.clone() }),
            ("delivered amount", Quote { fulfillment_amount: amount(DELIVERED - 1), ..quote.clone() }),
            ("time", quotes[2].1.clone()),
        ];
        for (name, quote) in &deliveries {
            let discrepancies = auditor.audit_delivery(&Case { quote, ..case }, delivery).await?;
            assert!(!discrepancies.is_empty(), "delivery, {name}");
        }
        let other_quote = Case { quote_hash: Hash32([3; 32]), ..case };
        for (name, discrepancies) in [
            ("deposit", auditor.audit_deposit(&other_quote, secured).await?),
            ("delivery", auditor.audit_delivery(&other_quote, delivery).await?),
            ("release", auditor.audit_release(&other_quote, release, secured.amount).await?),
        ] {
            assert!(
                discrepancies.iter().any(|discrepancy| discrepancy.kind == Kind::Contradiction),
                "{name} under another quote: {discrepancies:?}"
            );
        }
        // One more than the price and the stranger's gift.
        let more = Case { quote: &Quote { source_amount: amount(PRICE + 2), ..quote.clone() }, ..case };
        assert_eq!(kinds(&auditor.audit_release(&more, release, secured.amount).await?), [Kind::Contradiction]);
        let deposited = auditor.audit_release(&case, release, amount(PRICE + 2)).await?;
        assert_eq!(kinds(&deposited), [Kind::Contradiction]);
        let mut amounts = EscrowSecured::clone(secured);
        amounts.amount = amount(PRICE + 1);
        assert!(!auditor.audit_deposit(&case, &amounts).await?.is_empty());
        Ok(())
    }

    async fn the_places_are_compared(&self) -> Result<()> {
        let Self { auditor, payment, secured, delivery, release } = *self;
        let case = payment.audited();
        let inclusions = [
            (Kind::Missing, Inclusion { transaction_hash: bs58::encode([5; 64]).into_string(), ..release.clone() }),
            (Kind::Contradiction, Inclusion { transaction_hash: "0x12".to_owned(), ..release.clone() }),
            (Kind::Contradiction, Inclusion { block_number: release.block_number + 1, ..release.clone() }),
            (Kind::Contradiction, Inclusion { block_hash: account(&key(99)), ..release.clone() }),
            (Kind::Contradiction, Inclusion { block_time: release.block_time + 1, ..release.clone() }),
            (Kind::Missing, delivery.clone()),
            (Kind::Missing, secured.inclusion.clone()),
        ];
        for (kind, inclusion) in &inclusions {
            let discrepancies = auditor.audit_release(&case, inclusion, secured.amount).await?;
            assert_eq!(kinds(&discrepancies), [*kind], "{inclusion:?}");
        }
        let elsewhere = EscrowSecured { inclusion: release.clone(), ..secured.clone() };
        assert_eq!(kinds(&auditor.audit_deposit(&case, &elsewhere).await?), [Kind::Missing]);
        assert_eq!(kinds(&auditor.audit_delivery(&case, release).await?), [Kind::Missing]);
        Ok(())
    }
}

#[tokio::test]
async fn past_its_time_a_delivery_is_impossible_and_the_cancellation_is_audited() -> Result<()> {
    let world = World::start().await?;
    let payment = Payment::from_solana(&world, native(&world), &account(&world.settler), &world.program).await?;
    let (_, secured) = secure(&world, &payment).await?;
    let settler = SettlerChain::new(world.node(), world.settler.clone());
    let verifier = verifier(&world, &world.releaser);
    assert!(matches!(verifier.attest_non_delivery(&payment.case()).await?, Outcome::NotYet(_)));
    world.surfnet.travel_to(payment.fulfill_by() + 1).await?;
    assert!(matches!(settler.deliver(&payment.delivery()).await, Err(PerformError::TooLate(_))));
    let order = payment.delivery();
    until(|| settler.delivery_state(&order), |state| *state == DeliveryState::Impossible).await?;
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::Refused(_)));
    let Outcome::Attested(signed) = verifier.attest_non_delivery(&payment.case()).await? else { bail!("refused") };

    let chain = world.chain();
    let cancel =
        RefundOrder { payment_id: payment.id.clone(), escrow: payment.plan.clone(), non_delivery: Some(signed) };
    // A payer that closes its account before each refund would keep the rent of a new one each time: nobody makes it one.
    world.dev.close(&world.token, &world.payer).await?;
    let waits = chain.prepare_refund(&cancel, 1).await.unwrap_err().to_string();
    assert!(waits.contains("has closed its token account"), "{waits}");
    world.dev.mint(&world.token, &account(&world.payer), 5).await?;
    world.dev.mint_into(&world.token, &vault(&payment)?, 1).await?;
    let prepared = chain.prepare_refund(&cancel, 1).await?;
    chain.broadcast(&prepared).await?;
    assert_eq!(check_prepared(&prepared), Ok(()));
    let EscrowState::Refunded(refunded) = ended(&world, &payment).await? else { bail!("not refunded") };
    assert_eq!(world.tokens(&world.payer).await?, 5 + PRICE + 1, "what it had, the refund, and a stranger's gift");
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::Refused(_)));
    assert!(matches!(
        settler.release(&payment.id, &payment.plan, &format!("0x{}", "00".repeat(64))).await,
        Err(PerformError::TooLate(_))
    ));

    let auditor = Auditor::new(world.node());
    let case = payment.audited();
    assert_eq!(auditor.audit_refund(&case, &refunded, secured.amount).await?, []);
    let (snapshot, discrepancies) = auditor.audit_escrow(&payment.id, &payment.plan, Some(&case)).await?;
    assert_eq!((snapshot.state, discrepancies), (Some(State::Refunded), vec![]));
    let less = EscrowRefunded { amount: amount(PRICE - 1), ..refunded.clone() };
    assert!(!auditor.audit_refund(&case, &less, secured.amount).await?.is_empty());
    let other_quote = Case { quote_hash: Hash32([3; 32]), ..case };
    assert_eq!(kinds(&auditor.audit_refund(&other_quote, &refunded, secured.amount).await?), [Kind::Contradiction]);
    assert_eq!(kinds(&auditor.audit_release(&case, &refunded.inclusion, secured.amount).await?), [Kind::Missing]);
    Ok(())
}
