//! Settler, verifier and auditor against a real Solana runtime with the real program, and between it and EVM chains.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use ed25519_dalek::{Signer, SigningKey};
use serde_json::json;

use chains::{
    auditor::{Audit, Case, Discrepancy, Kind},
    escrow::{EscrowRecord, State},
    perform::PerformError,
    verifier::{Outcome, Verifier},
};
use chains_solana::{
    auditor::check_prepared,
    authorization::{Choice, ClusterId, EscrowSettings, SignedMessage, SpendRequest, authorize, prepare},
    keys::account,
    settler::{FEE_RESERVE_LAMPORTS, SettlerChain},
    wallet::{Patience, Wallet},
};
use events::{
    Amount, Did, Hash32, OwnedAsset, PaymentId, Terms,
    event::{Authorization, EscrowPlan, EscrowRefunded, EscrowSecured, Inclusion, TransactionPrepared},
    quote::{Quote, SignedQuote, auction_of},
    time::{from_unix_seconds, unix_seconds},
};
use sagas::ports::{
    Chains, DeliveryOrder, DeliveryState, DepositOrder, DepositState, EscrowState, RefundOrder, Statement,
    VerificationCase,
};

use crate::{
    evm_support::{self, liar::Liar},
    support::{CAP, PRICE, REFUND_DELAY, TOKENS, World, key, settle, until},
};

const DELIVERED: u64 = 1_500_000;

fn amount(units: u64) -> Amount {
    units.to_string().parse().unwrap()
}

fn native(world: &World) -> OwnedAsset {
    let asset = format!("{}/slip44:501", world.surfnet.chain_id());
    OwnedAsset::new(asset.parse().unwrap(), &account(&world.recipient)).unwrap()
}

fn tokens(world: &World, mint: &str, recipient: &str) -> OwnedAsset {
    let asset = format!("{}/token:{mint}", world.surfnet.chain_id());
    OwnedAsset::new(asset.parse().unwrap(), recipient).unwrap()
}

/// A payment with the quote that won it.
#[derive(Clone)]
struct Payment {
    id: PaymentId,
    terms: Terms,
    authorization: Authorization,
    plan: EscrowPlan,
    quote: SignedQuote,
}

impl Payment {
    /// A payment from Solana to `destination`, signed by the payer, with the quote of a settler who delivers from
    /// `delivery_account` through `proxy`.
    async fn from_solana(world: &World, destination: OwnedAsset, delivery_account: &str, proxy: &str) -> Result<Self> {
        let base = world.order(600).await?;
        let delivered = amount(DELIVERED);
        let terms = Terms::new(base.terms.source.clone(), vec![destination], delivered, Some(amount(CAP)));
        let spend = SpendRequest {
            payment_id: base.payment_id,
            terms: terms.clone(),
            quote_deadline: from_unix_seconds(base.escrow.fulfillment_deadline - 300).unwrap(),
            fulfillment_deadline: from_unix_seconds(base.escrow.fulfillment_deadline).unwrap(),
            cluster_id: ClusterId::parse(world.surfnet.genesis_hash()).unwrap(),
            escrow: EscrowSettings {
                program: world.program.clone(),
                reserver: account(&world.reserver),
                releaser: account(&world.releaser),
                refund_delay_seconds: REFUND_DELAY,
            },
            quote_hash: Hash32::ZERO,
        };
        let prepared = prepare(&spend, &Choice::default())?;
        let signed = SignedMessage {
            message: prepared.digest.to_string(),
            message_prehash: None,
            signature: format!("0x{}", hex::encode(world.payer.sign(&prepared.digest.0).to_bytes())),
            payload: None,
        };
        let (authorization, plan) = authorize(&spend, &signed)?;
        let payout = account(&world.settler);
        Self::quoted(spend.payment_id, terms, authorization, plan, &payout, delivery_account, proxy)
    }

    fn quoted(
        id: PaymentId,
        terms: Terms,
        authorization: Authorization,
        plan: EscrowPlan,
        payout_account: &str,
        delivery_account: &str,
        proxy: &str,
    ) -> Result<Self> {
        let signing = SigningKey::from_bytes(&[7; 32]);
        let quote = Quote {
            kind: Quote::kind(),
            auction_id: auction_of(&id),
            terms_hash: terms.hash(),
            settler: Did::from_ed25519(&signing.verifying_key()),
            source_chain: plan.chain_id.clone(),
            source_amount: amount(PRICE),
            payout_account: payout_account.to_owned(),
            escrow_contract: plan.contract.clone(),
            destination: terms.destination()[0].clone(),
            fulfillment_amount: terms.fulfillment_amount,
            delivery_account: delivery_account.to_owned(),
            fulfillment_proxy: proxy.to_owned(),
            fulfill_by: from_unix_seconds(plan.fulfillment_deadline - 10).unwrap(),
            valid_until: from_unix_seconds(plan.fulfillment_deadline).unwrap(),
        };
        let quote = quote.sign(&signing, from_unix_seconds(plan.fulfillment_deadline - 600).unwrap())?;
        Ok(Self { id, terms, authorization, plan, quote })
    }

    fn fulfill_by(&self) -> u64 {
        unix_seconds(self.quote.quote().fulfill_by)
    }

    fn deposit(&self) -> DepositOrder {
        let quote = self.quote.quote();
        DepositOrder {
            payment_id: self.id.clone(),
            terms: self.terms.clone(),
            terms_hash: self.terms.hash(),
            escrow: self.plan.clone(),
            authorization: self.authorization.clone(),
            reservation: sagas::ports::Reservation {
                quote_hash: self.quote.hash(),
                payout_account: quote.payout_account.clone(),
                source_amount: quote.source_amount,
                fulfill_by: self.fulfill_by(),
            },
        }
    }

    fn delivery(&self) -> DeliveryOrder {
        self.audited().delivery()
    }

    fn case(&self) -> VerificationCase {
        VerificationCase {
            payment_id: self.id.clone(),
            terms: self.terms.clone(),
            escrow: self.plan.clone(),
            quote_document: self.quote.document().to_owned(),
        }
    }

    fn audited(&self) -> Case<'_> {
        Case {
            payment_id: &self.id,
            terms: &self.terms,
            authorization: &self.authorization,
            plan: &self.plan,
            quote: self.quote.quote(),
            quote_hash: self.quote.hash(),
        }
    }
}

async fn secure(world: &World, payment: &Payment) -> Result<(TransactionPrepared, EscrowSecured)> {
    let chains = world.chains();
    let prepared = chains.prepare_deposit(&payment.deposit(), 1).await?;
    match settle(&chains, &payment.deposit(), std::slice::from_ref(&prepared)).await? {
        DepositState::Secured(secured) => Ok((prepared, secured)),
        other => bail!("not secured: {other:?}"),
    }
}

async fn delivered(chain: &SettlerChain, payment: &Payment) -> Result<Inclusion> {
    let order = payment.delivery();
    match until(|| chain.delivery_state(&order), |state| matches!(state, DeliveryState::Final(_))).await? {
        DeliveryState::Final(inclusion) => Ok(inclusion),
        other => bail!("{other:?}"),
    }
}

async fn ended(world: &World, payment: &Payment) -> Result<EscrowState> {
    let node = world.node();
    until(
        || node.escrow_state(&payment.id, &payment.plan),
        |state| matches!(state, EscrowState::Released(_) | EscrowState::Refunded(_)),
    )
    .await
}

fn verifier(world: &World, releaser: &SigningKey) -> Verifier {
    Verifier::default().with_chains([world.node()], Some(releaser.clone()))
}

fn vault(payment: &Payment) -> Result<[u8; 32]> {
    let program: [u8; 32] =
        bs58::decode(&payment.plan.contract).into_vec()?.try_into().map_err(|_| anyhow::anyhow!("no address"))?;
    Ok(gateway_program::host::vault_address(&program, &payment.id.on_chain().0).key)
}

fn kinds(discrepancies: &[Discrepancy]) -> Vec<Kind> {
    discrepancies.iter().map(|discrepancy| discrepancy.kind).collect()
}

#[tokio::test]
async fn tokens_are_delivered_to_a_new_account_attested_released_and_audited() -> Result<()> {
    let world = World::start().await?;
    let own = account(&world.settler);
    let recipient = account(&world.recipient);
    let destination = tokens(&world, &world.token.mint, &recipient);
    let payment = Payment::from_solana(&world, destination.clone(), &own, &world.program).await?;
    let settler = SettlerChain::new(world.node(), world.settler.clone());
    let verifier = verifier(&world, &world.releaser);
    assert_eq!(settler.account(), own);
    assert_eq!(settler.balance(destination.asset()).await?, TOKENS);
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
    let statement =
        Statement::Delivery { payment_id: payment.id.clone(), quote_hash: payment.quote.hash(), payout_account: own };
    let node = world.node();
    let auditor: &dyn Audit = &node;
    assert!(auditor.attestation_holds(&statement, &payment.plan, &attestation).await?);

    audit_is_clean(auditor, &payment, &prepared, &secured, &delivery, &release).await?;
    tampering_is_found(auditor, &payment, &secured, &delivery, &release).await
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
    let (standing, discrepancies) = auditor.audit_escrow(&payment.id, &payment.plan, Some(&case)).await?;
    assert_eq!((standing.state, discrepancies), (Some(State::Released), vec![]));
    assert!(standing.settled_number >= release.block_number && standing.settled_time >= release.block_time);
    let refund = EscrowRefunded { inclusion: release.clone(), amount: secured.amount, claims: Vec::new() };
    assert_eq!(kinds(&auditor.audit_refund(&case, &refund, secured.amount).await?), [Kind::Missing]);

    let mut raw = hex::decode(&prepared.raw[2..])?;
    *raw.last_mut().unwrap() ^= 1;
    let altered = TransactionPrepared { raw: format!("0x{}", hex::encode(raw)), ..prepared.clone() };
    assert!(check_prepared(&altered).unwrap_err().contains("is not that of"));
    let renamed = TransactionPrepared { transaction_hash: release.transaction_hash.clone(), ..prepared.clone() };
    assert!(check_prepared(&renamed).unwrap_err().starts_with("its first signature is"));
    let stranger = TransactionPrepared { sender: account(&key(99)), ..prepared.clone() };
    assert!(check_prepared(&stranger).unwrap_err().starts_with("its fee payer is"));
    for raw in ["", "0x", "0x00", "0x01ff", "0xzz"] {
        assert!(check_prepared(&TransactionPrepared { raw: raw.to_owned(), ..prepared.clone() }).is_err(), "{raw}");
    }
    Ok(())
}

/// Every field of the stream that a chain can contradict, altered one at a time.
async fn tampering_is_found(
    auditor: &dyn Audit,
    payment: &Payment,
    secured: &EscrowSecured,
    delivery: &Inclusion,
    release: &Inclusion,
) -> Result<()> {
    let stranger = account(&key(99));
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
        ("signer", authorization(|spend| spend.signer = account(&key(99)))),
        ("signature", authorization(|spend| spend.signature.replace_range(10..11, "x"))),
        ("reserver", Box::new(|payment| payment.plan.reserver = stranger.clone())),
        ("releaser", Box::new(|payment| payment.plan.releaser = stranger.clone())),
        ("reserve deadline", Box::new(|payment| payment.plan.reserve_deadline -= 1)),
        ("fulfillment deadline", Box::new(|payment| payment.plan.fulfillment_deadline += 1)),
        ("refund window", Box::new(|payment| payment.plan.refund_after += 1)),
        ("program", Box::new(|payment| payment.plan.contract = stranger.clone())),
    ];
    for (name, alter) in &altered {
        let mut altered = payment.clone();
        alter(&mut altered);
        let Payment { id, terms, plan, authorization, .. } = &altered;
        let signed = auditor.audit_authorization(id, terms, plan, authorization).await?;
        assert!(signed.iter().any(|discrepancy| discrepancy.kind == Kind::Contradiction), "{name}: {signed:?}");
        let deposit = auditor.audit_deposit(&altered.audited(), secured).await?;
        assert!(!deposit.is_empty(), "deposit, {name}");
    }
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
    let mut amounts = secured.clone();
    amounts.amount = amount(PRICE + 1);
    assert!(!auditor.audit_deposit(&case, &amounts).await?.is_empty());

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
    let elsewhere = EscrowSecured { inclusion: release.clone(), amount: secured.amount };
    assert_eq!(kinds(&auditor.audit_deposit(&case, &elsewhere).await?), [Kind::Missing]);
    assert_eq!(kinds(&auditor.audit_delivery(&case, release).await?), [Kind::Missing]);
    Ok(())
}

#[tokio::test]
async fn a_settler_that_was_killed_in_between_delivers_once() -> Result<()> {
    let world = World::start().await?;
    let payment = Payment::from_solana(&world, native(&world), &account(&world.settler), &world.program).await?;
    let asset = native(&world).asset().clone();
    let order = payment.delivery();
    let [before, after] = [0, 1].map(|_| SettlerChain::new(world.node(), world.settler.clone()));
    let recipient = account(&world.recipient);
    let had = world.dev.lamports(&recipient).await?;
    let held = before.balance(&asset).await?;
    assert_eq!(held, world.dev.lamports(&account(&world.settler)).await? - FEE_RESERVE_LAMPORTS);
    // Two processes with the same key, as when one was killed with its transaction on its way.
    let (one, other) = tokio::join!(before.deliver(&order), after.deliver(&order));
    let hash = delivered(&before, &payment).await?.transaction_hash;
    for outcome in [one, other] {
        match outcome {
            Ok(sent) => assert_eq!(sent, hash),
            Err(PerformError::Refused(context)) => {
                let reason = context.revert_reason.unwrap_or_default();
                assert!(reason.starts_with("AlreadyFulfilled"), "{reason}");
            }
            Err(error) => bail!("{error}"),
        }
    }
    assert_eq!(after.deliver(&order).await?, hash);
    assert_eq!(world.dev.lamports(&recipient).await?, had + DELIVERED);
    Ok(())
}

#[tokio::test]
async fn a_delivery_that_differs_in_any_field_is_none() -> Result<()> {
    let world = World::start().await?;
    let recipient = account(&world.recipient);
    let destination = tokens(&world, &world.token.mint, &recipient);
    let payment = Payment::from_solana(&world, destination, &account(&world.settler), &world.program).await?;
    let right = payment.delivery();
    let stranger = key(44);
    world.surfnet.airdrop(&account(&stranger), 1_000_000_000).await?;
    world.dev.mint(&world.token, &account(&stranger), TOKENS).await?;
    let other_token = world.dev.create_token(&key(45), chains_solana::dev::TokenProgram::Token2022, 6).await?;
    world.dev.mint(&other_token, &account(&world.settler), TOKENS).await?;
    let own = SettlerChain::new(world.node(), world.settler.clone());
    let theirs = SettlerChain::new(world.node(), stranger.clone());
    let wrong = [
        ("payment", &own, DeliveryOrder { payment_id: PaymentId::derive("solana:x", "other"), ..right.clone() }),
        ("quote", &own, DeliveryOrder { quote_hash: Hash32([5; 32]), ..right.clone() }),
        ("settler", &theirs, DeliveryOrder { delivery_account: account(&stranger), ..right.clone() }),
        ("token", &own, DeliveryOrder { destination: tokens(&world, &other_token.mint, &recipient), ..right.clone() }),
        (
            "recipient",
            &own,
            DeliveryOrder { destination: tokens(&world, &world.token.mint, &account(&stranger)), ..right.clone() },
        ),
        ("amount", &own, DeliveryOrder { amount: amount(DELIVERED - 1), ..right.clone() }),
        ("time", &own, DeliveryOrder { fulfill_by: right.fulfill_by - 1, ..right.clone() }),
    ];
    for (field, settler, order) in &wrong {
        settler.deliver(order).await.with_context(|| (*field).to_owned())?;
        let last = until(|| settler.delivery_state(order), |state| matches!(state, DeliveryState::Final(_))).await;
        last.with_context(|| (*field).to_owned())?;
        assert_eq!(own.delivery_state(&right).await?, DeliveryState::NotSeen, "{field}");
    }
    // A quote for another account's delivery is not this settler's to make, and what does not fit 64 bits is nobody's.
    assert!(matches!(theirs.deliver(&right).await, Err(PerformError::Transient(_))));
    let huge = DeliveryOrder { amount: "18446744073709551616".parse()?, ..right.clone() };
    assert!(matches!(own.deliver(&huge).await, Err(PerformError::Transient(_))));
    let dear = DeliveryOrder { amount: amount(2 * TOKENS), ..right.clone() };
    match own.deliver(&dear).await {
        Err(PerformError::Refused(context)) => assert!(context.revert_reason.is_some()),
        other => bail!("not refused: {other:?}"),
    }
    own.deliver(&right).await?;
    delivered(&own, &payment).await?;
    Ok(())
}

#[tokio::test]
async fn a_transaction_that_never_landed_is_made_again_and_counts_once() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.surfnet.url()).await?;
    let payment = Payment::from_solana(&world, native(&world), &account(&world.settler), &world.program).await?;
    let patience = Patience { wait_max: Duration::from_secs(100), resend_after: Duration::from_millis(50) };
    let wallet = Wallet::new(world.node_at(&liar.url), world.settler.clone()).with_patience(patience);
    let settler = SettlerChain::over(wallet);
    let recipient = account(&world.recipient);
    let had = world.dev.lamports(&recipient).await?;
    // A blockhash that no block ever had: whatever is signed with it is lost, as if every node had dropped it.
    liar.tell(|request, mut truth| {
        if request["method"] == "getLatestBlockhash" {
            let value = &mut truth["result"]["value"];
            value["blockhash"] = json!(bs58::encode([7; 32]).into_string());
            let height = value["lastValidBlockHeight"].as_u64().unwrap();
            value["lastValidBlockHeight"] = json!(height - 100);
        }
        truth
    });
    match settler.deliver(&payment.delivery()).await {
        Err(PerformError::Transient(fault)) => {
            assert!(fault.to_string().contains("did not land up to height"), "{fault}")
        }
        other => bail!("{other:?}"),
    }
    liar.be_honest();
    settler.deliver(&payment.delivery()).await?;
    delivered(&settler, &payment).await?;
    assert_eq!(world.dev.lamports(&recipient).await?, had + DELIVERED);
    Ok(())
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

    let chains = world.chains();
    let cancel =
        RefundOrder { payment_id: payment.id.clone(), escrow: payment.plan.clone(), non_delivery: Some(signed) };
    // A payer that closes its account before each refund would keep the rent of a new one each time: nobody makes it one.
    world.dev.close(&world.token, &world.payer).await?;
    let waits = chains.prepare_refund(&cancel, 1).await.unwrap_err().to_string();
    assert!(waits.contains("has closed its token account"), "{waits}");
    world.dev.mint(&world.token, &account(&world.payer), 5).await?;
    world.dev.mint_into(&world.token, &vault(&payment)?, 1).await?;
    let prepared = chains.prepare_refund(&cancel, 1).await?;
    chains.broadcast(&prepared).await?;
    assert_eq!(check_prepared(&prepared), Ok(()));
    let EscrowState::Refunded(refunded) = ended(&world, &payment).await? else { bail!("not refunded") };
    assert_eq!(world.tokens(&world.payer).await?, 5 + PRICE + 1, "what it had, the refund, and a stranger's gift");
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::Refused(_)));
    assert!(matches!(
        settler.release(&payment.id, &payment.plan, &format!("0x{}", "00".repeat(64))).await,
        Err(PerformError::TooLate(_))
    ));

    let node = world.node();
    let case = payment.audited();
    assert_eq!(node.audit_refund(&case, &refunded, secured.amount).await?, []);
    let (standing, discrepancies) = node.audit_escrow(&payment.id, &payment.plan, Some(&case)).await?;
    assert_eq!((standing.state, discrepancies), (Some(State::Refunded), vec![]));
    let less = EscrowRefunded { amount: amount(PRICE - 1), ..refunded.clone() };
    assert!(!node.audit_refund(&case, &less, secured.amount).await?.is_empty());
    let other_quote = Case { quote_hash: Hash32([3; 32]), ..case };
    assert_eq!(kinds(&node.audit_refund(&other_quote, &refunded, secured.amount).await?), [Kind::Contradiction]);
    assert_eq!(kinds(&node.audit_release(&case, &refunded.inclusion, secured.amount).await?), [Kind::Missing]);
    Ok(())
}

#[tokio::test]
async fn a_verifier_refuses_whatever_does_not_match() -> Result<()> {
    let world = World::start().await?;
    let own = account(&world.settler);
    let payment = Payment::from_solana(&world, native(&world), &own, &world.program).await?;
    let other = Payment::from_solana(&world, native(&world), &own, &world.program).await?;
    secure(&world, &payment).await?;
    let settler = SettlerChain::new(world.node(), world.settler.clone());
    settler.deliver(&payment.delivery()).await?;
    delivered(&settler, &payment).await?;
    let verifier = verifier(&world, &world.releaser);
    let right = payment.case();
    assert!(matches!(verifier.attest_delivery(&right).await?, Outcome::Attested(_)));

    let stranger = account(&key(99));
    let plan = |alter: fn(&mut EscrowPlan)| {
        let mut case = right.clone();
        alter(&mut case.escrow);
        case
    };
    let mut terms = right.clone();
    terms.terms.fulfillment_amount = amount(DELIVERED + 1);
    let tampered = right.quote_document.replace(&own, &stranger);
    assert!(tampered != right.quote_document);
    let cases = [
        ("another payment", VerificationCase { payment_id: other.id.clone(), ..right.clone() }),
        ("another quote", VerificationCase { quote_document: other.quote.document().to_owned(), ..right.clone() }),
        ("no quote", VerificationCase { quote_document: "{}".to_owned(), ..right.clone() }),
        ("a tampered quote", VerificationCase { quote_document: tampered, ..right.clone() }),
        ("other terms", terms),
        ("another reserver", plan(|plan| plan.reserver = account(&key(99)))),
        ("another releaser", plan(|plan| plan.releaser = account(&key(99)))),
        ("another reserve deadline", plan(|plan| plan.reserve_deadline += 1)),
        ("another fulfillment deadline", plan(|plan| plan.fulfillment_deadline += 1)),
        ("another refund window", plan(|plan| plan.refund_after += 1)),
        ("another program", plan(|plan| plan.contract = account(&key(99)))),
        ("no program", plan(|plan| plan.contract = "0x1".to_owned())),
        ("another chain", plan(|plan| plan.chain_id = "eip155:1".parse().unwrap())),
    ];
    for (name, case) in cases {
        for outcome in [verifier.attest_delivery(&case).await?, verifier.attest_non_delivery(&case).await?] {
            assert!(matches!(outcome, Outcome::Refused(_)), "{name}: {outcome:?}");
        }
    }
    let stranger = self::verifier(&world, &key(99));
    assert!(matches!(stranger.attest_delivery(&right).await?, Outcome::Refused(_)));
    // Without the releaser's key a chain is a destination only.
    let blind = Verifier::default().with_chains([world.node()], None);
    assert!(blind.releasers().is_empty());
    assert!(matches!(blind.attest_delivery(&right).await?, Outcome::Refused(_)));
    Ok(())
}

#[tokio::test]
async fn a_delivery_on_an_evm_chain_releases_on_solana() -> Result<()> {
    let (world, evm) = tokio::try_join!(World::start(), evm_support::World::start())?;
    let recipient = evm_support::text(&evm.recipient);
    let destination = OwnedAsset::new(evm.destination.asset().parse()?, &recipient)?;
    let delivery_account = evm_support::text(&evm.settler);
    let proxy = evm.destination.contracts.proxy.clone();
    let payment = Payment::from_solana(&world, destination, &delivery_account, &proxy).await?;
    secure(&world, &payment).await?;
    let verifier = Verifier::default()
        .with_chains([world.node()], Some(world.releaser.clone()))
        .with_chains([evm.destination.node.clone()], Some(evm_support::key(3)));
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::NotYet(_)));
    let deliverer = chains_evm::settler::SettlerChain::new(evm.destination.node.clone(), evm.settler.clone());
    let inclusion = deliverer.deliver(&payment.delivery()).await?;
    evm.destination.mine(evm_support::DEPTH).await?;
    let Outcome::Attested(attestation) = verifier.attest_delivery(&payment.case()).await? else { bail!("refused") };
    let settler = SettlerChain::new(world.node(), world.settler.clone());
    settler.release(&payment.id, &payment.plan, &attestation).await?;
    assert!(matches!(ended(&world, &payment).await?, EscrowState::Released(_)));
    assert_eq!(world.tokens(&world.settler).await?, TOKENS + PRICE);
    assert_eq!(evm.destination.node.audit_delivery(&payment.audited(), &inclusion).await?, []);
    Ok(())
}

#[tokio::test]
async fn a_delivery_on_solana_releases_on_an_evm_chain() -> Result<()> {
    let (world, evm) = tokio::try_join!(World::start(), evm_support::World::start())?;
    let mut spend = evm.spend("to solana", chains_evm::permit2::Scheme::EvmPermit2Escrow, &evm.destination.asset())?;
    let destination = tokens(&world, &world.token.mint, &account(&world.recipient));
    let source = spend.terms.source.clone();
    spend.terms = Terms::new(source, vec![destination], amount(DELIVERED), Some(amount(evm_support::CAP)));
    let prepared = chains_evm::permit2::prepare(&spend, &chains_evm::permit2::Choice::default())?;
    let signed = evm_support::sign(&evm.payer, prepared.digest, Some(prepared.typed_data.to_string()))?;
    let (authorization, plan) = chains_evm::permit2::authorize(&spend, &signed)?;
    let payout = evm_support::text(&evm.settler);
    let own = account(&world.settler);
    let id = spend.payment_id.clone();
    let payment = Payment::quoted(id, spend.terms, authorization, plan, &payout, &own, &world.program)?;
    let deposit = payment.deposit();
    let prepared = evm.chains.prepare_deposit(&deposit, 1).await?;
    evm.chains.broadcast(&prepared).await?;
    evm.source.mine(evm_support::DEPTH).await?;
    let secured = evm.chains.deposit_state(&deposit, std::slice::from_ref(&prepared)).await?;
    assert!(matches!(secured, DepositState::Secured(_)), "{secured:?}");

    let verifier = Verifier::default()
        .with_chains([evm.source.node.clone()], Some(evm_support::key(3)))
        .with_chains([world.node()], None);
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::NotYet(_)));
    let settler = SettlerChain::new(world.node(), world.settler.clone());
    settler.deliver(&payment.delivery()).await?;
    let inclusion = delivered(&settler, &payment).await?;
    let Outcome::Attested(attestation) = verifier.attest_delivery(&payment.case()).await? else { bail!("refused") };
    let paid = chains_evm::settler::SettlerChain::new(evm.source.node.clone(), evm.settler.clone());
    paid.release(&payment.id, &payment.plan, &attestation).await?;
    assert_eq!(world.tokens(&world.recipient).await?, DELIVERED);
    assert_eq!(world.node().audit_delivery(&payment.audited(), &inclusion).await?, []);
    Ok(())
}
