//! The verifier on Tron: what it refuses, and that lying nodes do not make it sign.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anyhow::Result;
use serde_json::Value;

use chains::{
    settler::DeliveryChain,
    verifier::{Outcome, Verifier},
};
use events::{Account, Family, event::EscrowPlan};
use sagas::ports::{Transient, VerificationCase};

use super::verifier;
use crate::support::{
    World, account, holder, key,
    liar::Liar,
    payment::DELIVERED,
    quoted::{Payment, amount},
};

#[tokio::test]
async fn a_verifier_refuses_whatever_does_not_match() -> Result<()> {
    let world = World::start().await?;
    let own = account(&world.settler);
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    let other = Payment::within_tron(&world, 600, world.trx()).await?;
    payment.secure(&world).await?;
    world.mining(world.settling().deliver(&payment.delivery())).await??;
    payment.delivered(&world).await?;
    let verifier = verifier(&world);
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
        ("another reserver", plan(|plan| plan.reserver = holder(&key(99)))),
        ("another releaser", plan(|plan| plan.releaser = holder(&key(99)))),
        ("another reserve deadline", plan(|plan| plan.reserve_deadline += 1)),
        ("another fulfillment deadline", plan(|plan| plan.fulfillment_deadline += 1)),
        ("another refund window", plan(|plan| plan.refund_after += 1)),
        ("another escrow", plan(|plan| plan.contract = holder(&key(99)))),
        (
            "another family's escrow",
            plan(|plan| plan.contract = Account::parse(Family::Evm, &format!("0x{}", "11".repeat(20))).unwrap()),
        ),
        ("another chain", plan(|plan| plan.chain_id = "eip155:1".parse().unwrap())),
    ];
    for (name, case) in cases {
        for outcome in [verifier.attest_delivery(&case).await?, verifier.attest_non_delivery(&case).await?] {
            assert!(matches!(outcome, Outcome::Refused(_)), "{name}: {outcome:?}");
        }
    }
    let stranger = Verifier::default().with_chains([world.node()], Some(key(99).into()));
    assert!(matches!(stranger.attest_delivery(&right).await?, Outcome::Refused(_)));
    // Without the releaser's key a chain is a destination only.
    let blind = Verifier::default().with_chains([world.node()], None);
    assert!(blind.releasers().is_empty());
    assert!(matches!(blind.attest_delivery(&right).await?, Outcome::Refused(_)));
    Ok(())
}

/// A verifier behind nodes that lie about one thing each signs nothing that is not so.
#[tokio::test]
async fn a_verifier_behind_lying_nodes_signs_nothing() -> Result<()> {
    let world = World::start().await?;
    let payment = Payment::within_tron(&world, 600, world.trx()).await?;
    payment.secure(&world).await?;
    world.mining(world.settling().deliver(&payment.delivery())).await??;
    // Delivered, and not solidified yet.
    let liar = Liar::before(&world.tron.url()).await?;
    let verifier = Verifier::default().with_chains([world.node_at(&liar.url)], Some(world.releaser.clone().into()));
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::NotYet(_)));
    // The newest block is passed off as the solidified one, so that the delivery would be settled.
    let head = reqwest::Client::new().post(format!("{}/wallet/getblock", world.tron.url())).body(r#"{"detail":true}"#);
    let head: Value = head.send().await?.json().await?;
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    liar.tell(move |path, _, truth| {
        if path != "walletsolidity/getblock" {
            return truth;
        }
        count.fetch_add(1, Ordering::Relaxed);
        head.clone()
    });
    let outcome = verifier.attest_delivery(&payment.case()).await;
    assert!(matches!(outcome, Err(Transient::Contradiction(_))), "{outcome:?}");
    assert!(told.load(Ordering::Relaxed) > 0);
    liar.be_honest();
    payment.delivered(&world).await?;
    assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::Attested(_)));
    Ok(())
}
