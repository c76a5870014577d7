//! Faults around payments that touch Solana: processes, the node, transactions that are lost, deliveries that never
//! come.

use anyhow::{Context, Result};

use devkit::free_port;
use devnet::{keys::Role, network::Options, solana::SolanaOptions};
use events::{
    PaymentEvent, PaymentId,
    event::{RefundDue, TransactionPrepared},
};

use crate::support::{solana::*, *};

/// The events after which the process dies, in the order of an undisturbed payment.
const DELIVERED: [&str; 7] = [
    "Submitted",
    "QuoteAwarded",
    "DepositPrepared",
    "EscrowSecured",
    "FulfillmentSeen",
    "FulfillmentConfirmed",
    "EscrowReleased",
];
/// Likewise for a payment that fails with money in escrow.
const REFUNDED_AFTER: [&str; 3] = ["Failed", "RefundPrepared", "EscrowRefunded"];

impl World {
    async fn restart_gateway(&mut self) -> Result<()> {
        self.network.kill_gateway(0).await?;
        self.network.start_gateway(0).await?;
        self.network.ready(0).await
    }

    /// Every deposit that was signed, oldest first.
    async fn deposits(&self, payment_id: &PaymentId) -> Result<Vec<TransactionPrepared>> {
        let events = self.events(payment_id, "DepositPrepared").await?;
        Ok(events
            .into_iter()
            .filter_map(|event| match event {
                PaymentEvent::DepositPrepared(transaction) => Some(transaction),
                _ => None,
            })
            .collect())
    }
}

/// `count` payments of the ordinary amount went from Solana to the second EVM chain.
fn paid_from_solana(count: i128) -> Moves {
    let (amount, price) = (count * i128::from(AMOUNT), count * i128::from(PRICE));
    Moves::from([
        ("payer", -price),
        ("settlers", price),
        ("evm settlers' destination", -amount),
        ("evm recipient", amount),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_killed_after_any_event_of_a_delivery_goes_on_and_pays_once() -> Result<()> {
    let mut world = World::with_solana(|options| options).await?;
    let payer = solana_payer()?;
    let before = world.holdings().await?;
    let mut payments = Vec::new();
    for event in DELIVERED {
        let payment_id = world.submit_by(&payer, &world.spec_from_solana(&format!("killed-after-{event}"))?).await?;
        world.until(&payment_id, event).await?;
        world.restart_gateway().await?;
        payments.push(payment_id);
    }
    for payment_id in &payments {
        world.completed(payment_id).await?;
        assert_eq!(world.escrow_transactions(payment_id).await?, 2, "a deposit and a release");
    }
    assert_eq!(moves(&before, &world.holdings().await?), paid_from_solana(7));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_killed_after_any_event_of_a_refund_goes_on_and_refunds_once() -> Result<()> {
    let mut world = World::with_solana(|options| options).await?;
    let payer = solana_payer()?;
    let before = world.holdings().await?;
    let mut payments = Vec::new();
    for event in REFUNDED_AFTER {
        let spec = world.undeliverable_from_solana(&format!("killed-after-{event}"))?;
        payments.push((event, world.submit_by(&payer, &spec).await?));
    }
    for (event, payment_id) in &payments {
        world.until(payment_id, event).await?;
        world.restart_gateway().await?;
    }
    for (_, payment_id) in &payments {
        // The verifier says that nothing came, so nobody waits for the window.
        assert!(matches!(world.failed(payment_id).await?, RefundDue::ByNonDelivery { .. }));
        world.until(payment_id, "EscrowRefunded").await?;
        assert_eq!(world.escrow_transactions(payment_id).await?, 2, "a deposit and a refund");
    }
    assert_eq!(moves(&before, &world.holdings().await?), Moves::new());
    world.audited(&payments[0].1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_verifier_the_money_comes_back_by_the_window() -> Result<()> {
    let mut world = World::with_solana(|options| Options { refund_delay_seconds: 10, ..options }).await?;
    world.network.kill_verifier(1).await?;
    let before = world.holdings().await?;
    let payment_id = world.submit_by(&solana_payer()?, &world.undeliverable_from_solana("no-verifier")?).await?;
    assert_eq!(world.failed(&payment_id).await?, RefundDue::AfterWindow);
    world.until(&payment_id, "EscrowRefunded").await?;
    let (submitted, refunded) =
        (world.events(&payment_id, "Submitted").await?, world.events(&payment_id, "EscrowRefunded").await?);
    match (&submitted[0], &refunded[0]) {
        (PaymentEvent::Submitted(submitted), PaymentEvent::EscrowRefunded(refunded)) => {
            assert!(refunded.inclusion.block_time >= submitted.escrow.refund_after, "{refunded:?}");
        }
        other => anyhow::bail!("{other:?}"),
    }
    assert_eq!(moves(&before, &world.holdings().await?), Moves::new());
    assert_eq!(world.escrow_transactions(&payment_id).await?, 2, "a deposit and a refund");
    world.audited(&payment_id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settler_killed_around_its_delivery_delivers_once_and_is_paid() -> Result<()> {
    let mut world = World::with_solana(|options| options).await?;
    let before = world.holdings().await?;
    let mut payments = Vec::new();
    for event in ["QuoteAwarded", "EscrowSecured", "FulfillmentSeen", "FulfillmentConfirmed"] {
        let payment_id = world.submit(&world.spec_to_solana(&format!("settler-killed-after-{event}"))?).await?;
        world.until(&payment_id, event).await?;
        world.network.kill_settler(1).await?;
        world.network.start_settler(1)?;
        // A settler that is away wins nothing: the next payment waits until it is back in the auction.
        world.outcome(&payment_id).await?;
        payments.push(payment_id);
    }
    for payment_id in &payments {
        world.completed(payment_id).await?;
    }
    let (amount, price) = (4 * i128::from(AMOUNT), 4 * i128::from(PRICE));
    let expected = Moves::from([
        ("evm payer", -price),
        ("evm settlers' source", price),
        ("settlers", -amount),
        ("recipient", amount),
    ]);
    assert_eq!(moves(&before, &world.holdings().await?), expected);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_that_is_lost_dies_with_its_blockhash_and_is_made_again_once() -> Result<()> {
    let port = free_port()?;
    let node = LossyNode::start(port).await?;
    let solana = SolanaOptions { port: Some(port), gateway_rpc_url: Some(node.url()), ..SolanaOptions::default() };
    let mut world = World::with(|options| Options { solana: Some(solana), ..options }).await?;
    let payer = solana_payer()?;
    let before = world.holdings().await?;

    node.lose(true);
    let payment_id = world.submit_by(&payer, &world.spec_from_solana("lost")?).await?;
    world.until(&payment_id, "DepositPrepared").await?;
    let first = world.deposits(&payment_id).await?.remove(0);
    eventually(|| async { node.lost().contains(&first.transaction_hash) }).await.context("it is not sent")?;
    // Whoever goes on sends the same bytes, and they are lost as well.
    let sent = node.lost().len();
    world.restart_gateway().await?;
    eventually(|| async { node.lost()[sent..].contains(&first.transaction_hash) }).await.context("not sent again")?;
    assert_eq!(world.deposits(&payment_id).await?.len(), 1, "another deposit while this one may land");
    world.until(&payment_id, "DepositAbandoned").await?;
    node.lose(false);

    world.completed(&payment_id).await?;
    let deposits = world.deposits(&payment_id).await?;
    assert!(deposits.len() >= 2, "{deposits:?}");
    match &world.events(&payment_id, "DepositAbandoned").await?[0] {
        PaymentEvent::DepositAbandoned(abandoned) => assert!(!abandoned.evidence.is_empty()),
        other => anyhow::bail!("{other:?}"),
    }
    assert!(deposits[1..].iter().all(|deposit| deposit.validity > first.validity), "an older blockhash: {deposits:?}");
    assert_eq!(world.escrow_transactions(&payment_id).await?, 2, "a deposit and a release");
    assert_eq!(moves(&before, &world.holdings().await?), paid_from_solana(1));
    world.audited(&payment_id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowance_that_is_gone_when_the_deposit_lands_fails_the_payment_with_its_context() -> Result<()> {
    let port = free_port()?;
    let node = LossyNode::start(port).await?;
    let solana = SolanaOptions { port: Some(port), gateway_rpc_url: Some(node.url()), ..SolanaOptions::default() };
    let world = World::with(|options| Options { solana: Some(solana), ..options }).await?;
    let before = world.holdings().await?;

    node.lose(true);
    let payment_id = world.submit_by(&solana_payer()?, &world.spec_from_solana("withdrawn")?).await?;
    world.until(&payment_id, "DepositPrepared").await?;
    let (solana, payer) = (world.solana()?, Role::Payer);
    solana.dev.approve(&payer.solana_key(), &solana.token, &solana.program, &payer.solana_account(), 0).await?;
    node.lose(false);

    let outcome = world.outcome(&payment_id).await?;
    assert_eq!(outcome.text("status"), "failed", "{outcome:?}");
    let error = &outcome.body["error"];
    assert_eq!(error["code"], "SETTLEMENT_FAILED", "{outcome:?}");
    let context = &error["blockchain_context"];
    assert_eq!(context["chain_id"], solana.id()?.as_str());
    assert!(context["revert_reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{context}");
    assert_eq!(world.escrow_transactions(&payment_id).await?, 0);
    assert_eq!(moves(&before, &world.holdings().await?), Moves::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_away_or_hangs_costs_time_and_nothing_else() -> Result<()> {
    let mut world = World::with_solana(|options| options).await?;
    let payer = solana_payer()?;
    let before = world.holdings().await?;
    let mut payments = Vec::new();
    for event in ["QuoteAwarded", "DepositPrepared", "FulfillmentSeen"] {
        let payment_id = world.submit_by(&payer, &world.spec_from_solana(&format!("away-after-{event}"))?).await?;
        world.until(&payment_id, event).await?;
        world.network.solana.as_mut().context("no Solana")?.surfnet.stop().await?;
        // Another payment meanwhile, which needs Solana and is accepted all the same.
        let body = world.payer.sign(&world.base(0), &world.spec_to_solana(&format!("meanwhile-{event}"))?).await?;
        let answer = world.payer.submit(&world.base(0), &body, std::time::Duration::ZERO).await?;
        assert_eq!(answer.status, 200, "{answer:?}");
        let other = answer.text("payment_id").parse()?;
        world.until(&other, "AuctionClosed").await?;
        assert_ne!(payer.status(&world.base(0), payment_id.as_str()).await?.text("status"), "failed");
        world.network.solana.as_mut().context("no Solana")?.surfnet.restart().await?;
        payments.push((payment_id, other));
    }
    let hung = world.submit_by(&payer, &world.spec_from_solana("hung")?).await?;
    world.until(&hung, "EscrowSecured").await?;
    let solana = world.solana()?;
    let silences = || world.network.log("gateway-1").map(|log| log.matches("no answer").count());
    let before_pause = silences()?;
    solana.surfnet.pause().await?;
    eventually(|| async { silences().is_ok_and(|count| count > before_pause) })
        .await
        .context("nobody asks the node")?;
    solana.surfnet.resume().await?;
    world.completed(&hung).await?;

    let mut expected = paid_from_solana(4);
    for (payment_id, other) in &payments {
        world.completed(payment_id).await?;
        assert_eq!(world.escrow_transactions(payment_id).await?, 2, "a deposit and a release");
        // Without a look at its own balance a settler declines; with one it delivers.
        if world.outcome(other).await?.text("status") == "completed" {
            world.until(other, "EscrowReleased").await?;
            let (amount, price) = (i128::from(AMOUNT), i128::from(PRICE));
            for (name, moved) in
                [("evm payer", -price), ("evm settlers' source", price), ("settlers", -amount), ("recipient", amount)]
            {
                *expected.entry(name).or_default() += moved;
            }
        }
    }
    assert_eq!(moves(&before, &world.holdings().await?), expected);
    Ok(())
}
