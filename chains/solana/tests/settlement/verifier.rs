//! The verifier on Solana: what it signs for, and what it refuses.

use anyhow::Result;

use chains::{
    settler::DeliveryChain,
    verifier::{Outcome, Verifier},
};
use chains_solana::{keys::account, settler::SettlerChain};
use events::event::EscrowPlan;
use sagas::ports::VerificationCase;

use super::{DELIVERED, Payment, amount, delivered, native, secure};
use crate::support::{World, key, wallet};

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
    let verifier = super::verifier(&world, &world.releaser);
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
        ("another reserver", plan(|plan| plan.reserver = wallet(&key(99)))),
        ("another releaser", plan(|plan| plan.releaser = wallet(&key(99)))),
        ("another reserve deadline", plan(|plan| plan.reserve_deadline += 1)),
        ("another fulfillment deadline", plan(|plan| plan.fulfillment_deadline += 1)),
        ("another refund window", plan(|plan| plan.refund_after += 1)),
        ("another program", plan(|plan| plan.contract = wallet(&key(99)))),
        (
            "an account of another family",
            plan(|plan| plan.contract = format!("0x{}", "11".repeat(20)).parse().unwrap()),
        ),
        ("another chain", plan(|plan| plan.chain_id = "eip155:1".parse().unwrap())),
    ];
    for (name, case) in cases {
        for outcome in [verifier.attest_delivery(&case).await?, verifier.attest_non_delivery(&case).await?] {
            assert!(matches!(outcome, Outcome::Refused(_)), "{name}: {outcome:?}");
        }
    }
    let stranger = super::verifier(&world, &key(99));
    assert!(matches!(stranger.attest_delivery(&right).await?, Outcome::Refused(_)));
    // Without the releaser's key a chain is a destination only.
    let blind = Verifier::default().with_chains([world.node()], None);
    assert!(blind.releasers().is_empty());
    assert!(matches!(blind.attest_delivery(&right).await?, Outcome::Refused(_)));
    Ok(())
}
