//! Deliveries on a real chain: found by every field, followed through reorganisations, ruled out by time.

use std::time::Duration;

use alloy::{primitives::U256, sol_types::SolCall};
use anyhow::{Result, bail};
use serde_json::{Value, json};

use chains::{
    perform::PerformError,
    settler::{DeliveryChain, ReservationOrder, ReservationState},
    verifier::{Outcome, Verifier},
};
use chains_evm::{
    calls::Call,
    node::Node,
    settler::SettlerChain,
    wallet::{Patience, Wallet},
};
use escrow_abi::contracts::{DevToken, FulfillmentProxy, address, parse_address, time, token_or_coin, units, word};
use events::{Hash32, quote::SignedQuote};
use sagas::ports::{Chains, DeliveryOrder, DeliveryState, EscrowState, Statement, VerificationCase};

use crate::support::{liar::Liar, *};

fn settler(world: &World) -> (SettlerChain, SettlerChain) {
    (
        SettlerChain::new(world.source.node.clone(), world.settler.clone()),
        SettlerChain::new(world.destination.node.clone(), world.settler.clone()),
    )
}

fn verifier(world: &World) -> Verifier {
    Verifier::default().with_chains([world.source.node.clone(), world.destination.node.clone()], Some(key(3).into()))
}

#[tokio::test]
async fn a_payment_goes_all_the_way() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let (source, destination) = settler(&world);
    let verifier = verifier(&world);
    let case = payment.case();

    assert_eq!(source.reservation(payment.id(), &payment.escrow.contract).await?.1, None);
    assert!(matches!(verifier.attest_delivery(&case).await?, Outcome::NotYet(_)));
    world.secure(&payment).await?;
    let record = source.reservation(payment.id(), &payment.escrow.contract).await?.1.unwrap();
    assert!(record.is_of(&payment.escrow));
    assert_eq!(record.quote_hash, payment.quote.hash());
    assert_eq!(record.settler, Some(source.account().clone()));
    assert_eq!(record.asset.to_string(), world.source.asset());
    assert_eq!(record.fulfill_by, payment.fulfill_by());

    assert_eq!(world.chains.delivery_state(&payment.delivery()).await?, DeliveryState::NotSeen);
    assert!(matches!(verifier.attest_delivery(&case).await?, Outcome::NotYet(_)));
    assert!(matches!(verifier.attest_non_delivery(&case).await?, Outcome::NotYet(_)));
    let delivered = destination.deliver(&payment.delivery()).await?;
    assert_eq!(destination.deliver(&payment.delivery()).await?, delivered, "once only");
    assert_eq!(world.destination.balance(&world.recipient).await?, DELIVERED);
    assert_eq!(world.chains.delivery_state(&payment.delivery()).await?, DeliveryState::Seen(delivered.clone()));
    assert!(matches!(verifier.attest_delivery(&case).await?, Outcome::NotYet(_)));
    assert!(matches!(verifier.attest_non_delivery(&case).await?, Outcome::NotYet(_)));

    world.destination.mine(DEPTH).await?;
    assert_eq!(world.chains.delivery_state(&payment.delivery()).await?, DeliveryState::Final(delivered));
    let Outcome::Attested(attestation) = verifier.attest_delivery(&case).await? else { bail!("not attested") };
    assert!(matches!(verifier.attest_non_delivery(&case).await?, Outcome::Refused(_)));
    let statement = Statement::Delivery {
        payment_id: payment.id().clone(),
        quote_hash: payment.quote.hash(),
        payout_account: payment.quote.quote().payout_account.clone(),
    };
    assert!(world.chains.attestation_holds(&statement, &payment.escrow, &attestation).await?);

    let (payer, paid) = (world.source.balance(&world.payer).await?, world.source.balance(&world.settler).await?);
    let coins = || world.source.dev.balance(source.account().as_str());
    let (usual, had) = (source.usual_fees().await?.release, coins().await?);
    let released = source.release(payment.id(), &payment.escrow, &attestation).await?;
    let spent = had - coins().await?;
    assert!(spent <= usual && usual < spent * U256::from(4), "{usual} for {spent}");
    assert_eq!(source.release(payment.id(), &payment.escrow, &attestation).await?, released, "once only");
    assert_eq!(world.source.balance(&world.settler).await? - paid, PRICE);
    assert_eq!(world.source.balance(&world.payer).await?, payer);
    assert_eq!(source.balance(&world.source.asset().parse()?).await?, U256::from(paid + PRICE));
    assert_eq!(world.chains.escrow_state(payment.id(), &payment.escrow).await?, EscrowState::Held);
    world.source.mine(DEPTH).await?;
    assert_eq!(world.chains.escrow_state(payment.id(), &payment.escrow).await?, EscrowState::Released(released));
    // A verifier whose answer was lost is asked again, after the settler was paid.
    assert_eq!(verifier.attest_delivery(&case).await?, Outcome::Attested(attestation));
    Ok(())
}

#[tokio::test]
async fn a_delivery_that_differs_in_any_field_is_none() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let right = payment.delivery();
    let (_, own) = settler(&world);
    let stranger = key(44);
    world.destination.dev.fund(&text(&stranger), U256::from(10).pow(U256::from(18))).await?;
    world.destination.dev.mint(&world.destination.token, &text(&stranger), U256::from(CAP)).await?;
    let theirs = SettlerChain::new(world.destination.node.clone(), stranger.clone());
    let other_token = world.destination.dev.deploy_token("Other", "OTH", 6).await?;
    world.destination.dev.mint(&other_token, &text(&world.settler), U256::from(CAP)).await?;
    let owned = |token: &str, account: &str| {
        events::OwnedAsset::new(format!("eip155:31338/erc20:{token}").parse().unwrap(), account).unwrap()
    };
    let recipient = text(&world.recipient);

    let wrong: Vec<(&str, &SettlerChain, DeliveryOrder)> = vec![
        ("payment", &own, DeliveryOrder { payment_id: world.payment("other")?.id().clone(), ..right.clone() }),
        ("quote", &own, DeliveryOrder { quote_hash: Hash32([5; 32]), ..right.clone() }),
        ("settler", &theirs, DeliveryOrder { delivery_account: text(&stranger).parse()?, ..right.clone() }),
        ("token", &own, DeliveryOrder { destination: owned(&other_token, &recipient), ..right.clone() }),
        (
            "recipient",
            &own,
            DeliveryOrder { destination: owned(&world.destination.token, &text(&stranger)), ..right.clone() },
        ),
        ("amount", &own, DeliveryOrder { amount: (DELIVERED - 1).to_string().parse()?, ..right.clone() }),
        ("time", &own, DeliveryOrder { fulfill_by: right.fulfill_by - 1, ..right.clone() }),
    ];
    for (field, settler, order) in &wrong {
        settler.deliver(order).await?;
        world.destination.mine(DEPTH).await?;
        assert!(matches!(world.chains.delivery_state(order).await?, DeliveryState::Final(_)), "{field}");
        assert_eq!(world.chains.delivery_state(&right).await?, DeliveryState::NotSeen, "{field}");
    }
    let delivered = own.deliver(&right).await?;
    world.destination.mine(DEPTH).await?;
    assert_eq!(world.chains.delivery_state(&right).await?, DeliveryState::Final(delivered));
    Ok(())
}

#[tokio::test]
async fn a_reorganisation_takes_a_delivery_away_and_it_is_made_again() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let (_, destination) = settler(&world);
    let first = destination.deliver(&payment.delivery()).await?;
    assert_eq!(world.chains.delivery_state(&payment.delivery()).await?, DeliveryState::Seen(first.clone()));
    let _: Value = world.destination.dev.rpc("anvil_reorg", (1u64, Vec::<Value>::new())).await?;
    assert_eq!(world.chains.delivery_state(&payment.delivery()).await?, DeliveryState::NotSeen);
    let second = destination.deliver(&payment.delivery()).await?;
    assert_ne!(first.block_hash, second.block_hash);
    world.destination.mine(DEPTH).await?;
    assert_eq!(world.chains.delivery_state(&payment.delivery()).await?, DeliveryState::Final(second));
    assert_eq!(world.destination.balance(&world.recipient).await?, DELIVERED);
    Ok(())
}

#[tokio::test]
async fn past_its_time_a_delivery_is_impossible_once_that_is_settled() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    world.secure(&payment).await?;
    let (_, destination) = settler(&world);
    let verifier = verifier(&world);
    let dev = &world.destination.dev;
    // In the last second a delivery still counts.
    let _: Value = dev.rpc("evm_setNextBlockTimestamp", (payment.fulfill_by(),)).await?;
    world.destination.mine(1).await?;
    assert_eq!(world.chains.delivery_state(&payment.delivery()).await?, DeliveryState::NotSeen);
    let _: Value = dev.rpc("evm_setNextBlockTimestamp", (payment.fulfill_by() + 1,)).await?;
    world.destination.mine(1).await?;
    assert_eq!(world.chains.delivery_state(&payment.delivery()).await?, DeliveryState::NotSeen, "not settled");
    assert!(matches!(destination.deliver(&payment.delivery()).await, Err(PerformError::TooLate(_))));
    world.destination.mine(DEPTH).await?;
    assert_eq!(world.chains.delivery_state(&payment.delivery()).await?, DeliveryState::Impossible);

    let case = payment.case();
    assert!(matches!(verifier.attest_delivery(&case).await?, Outcome::Refused(_)));
    let Outcome::Attested(signed) = verifier.attest_non_delivery(&case).await? else { bail!("not attested") };
    let statement = Statement::NonDelivery { payment_id: payment.id().clone(), quote_hash: payment.quote.hash() };
    assert!(world.chains.attestation_holds(&statement, &payment.escrow, &signed).await?);
    Ok(())
}

#[tokio::test]
async fn a_delivery_refused_by_the_token_is_told_with_its_reason() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let poor = key(45);
    world.destination.dev.fund(&text(&poor), U256::from(10).pow(U256::from(18))).await?;
    let settler = SettlerChain::new(world.destination.node.clone(), poor.clone());
    let order = DeliveryOrder { delivery_account: text(&poor).parse()?, ..payment.delivery() };
    match settler.deliver(&order).await {
        Err(PerformError::Refused(context)) => {
            let reason = context.revert_reason.unwrap();
            assert_eq!(reason, format!("DeliveredNotExact(expected: {DELIVERED}, delivered: 0)"));
        }
        other => bail!("not refused: {other:?}"),
    }
    // A quote for another account's delivery is not this settler's to make.
    assert!(matches!(settler.deliver(&payment.delivery()).await, Err(PerformError::Transient(_))));
    Ok(())
}

#[tokio::test]
async fn a_delivery_on_its_way_is_waited_for_and_not_sent_twice() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let order = payment.delivery();
    let wallet = Wallet::new(world.destination.node.clone(), world.settler.clone());
    let proxy = &world.destination.contracts.proxy;
    world.destination.dev.approve(&world.settler, &world.destination.token, proxy, U256::MAX).await?;
    let call = FulfillmentProxy::fulfillCall {
        paymentId: word(order.payment_id.on_chain()),
        quoteHash: word(order.quote_hash),
        token: token_or_coin(order.destination.asset())?,
        recipient: address(order.destination.account())?,
        amount: units(order.amount),
        fulfillBy: time(order.fulfill_by)?,
    };
    let call = Call {
        from: world.settler.address(),
        to: Some(parse_address(proxy)?),
        value: U256::ZERO,
        data: call.abi_encode().into(),
    };
    world.destination.automine(false).await?;
    let mine = async {
        let pending = || async {
            let count: U256 = world.destination.dev.rpc("eth_getBlockTransactionCountByNumber", ("pending",)).await?;
            Ok(count == U256::from(1))
        };
        eventually("one pending transaction", pending).await?;
        world.destination.mine(1).await
    };
    let (one, two, mined) = tokio::join!(wallet.execute("x", &call), wallet.execute("x", &call), mine);
    mined?;
    // One of the two sees the receipt; the other may find that there is nothing left to wait for.
    let hashes: Vec<_> = [one, two].into_iter().flatten().map(|receipt| receipt.transaction_hash).collect();
    assert!(!hashes.is_empty() && hashes.iter().all(|hash| *hash == hashes[0]));
    assert_eq!(world.destination.balance(&world.recipient).await?, DELIVERED);
    Ok(())
}

#[tokio::test]
async fn a_verifier_refuses_whatever_does_not_match() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let other = world.payment("other")?;
    world.secure(&payment).await?;
    let (_, destination) = settler(&world);
    destination.deliver(&payment.delivery()).await?;
    world.destination.mine(DEPTH).await?;
    let nodes = || [world.source.node.clone(), world.destination.node.clone()];
    let verifier = Verifier::default().with_chains(nodes(), Some(key(3).into()));
    let right = payment.case();
    assert!(matches!(verifier.attest_delivery(&right).await?, Outcome::Attested(_)));

    let mut cases: Vec<(&str, VerificationCase)> = vec![
        ("another payment", VerificationCase { payment_id: other.id().clone(), ..right.clone() }),
        ("another quote", VerificationCase { quote_document: other.quote.document().to_owned(), ..right.clone() }),
        ("no quote", VerificationCase { quote_document: "{}".to_owned(), ..right.clone() }),
    ];
    let mut terms = right.clone();
    terms.terms.fulfillment_amount = (DELIVERED + 1).to_string().parse()?;
    cases.push(("other terms", terms));
    let mut windows = right.clone();
    windows.escrow.refund_after += 1;
    cases.push(("other windows", windows));
    let mut releaser = right.clone();
    releaser.escrow.releaser = text(&key(9)).parse()?;
    cases.push(("another releaser", releaser));
    let mut chain = right.clone();
    chain.escrow.chain_id = world.destination.config.common.chain_id.clone();
    cases.push(("another chain", chain));
    let tampered = right.quote_document.replace(&text(&world.settler), &text(&key(9)));
    assert!(SignedQuote::parse(&tampered).is_err());
    cases.push(("a tampered quote", VerificationCase { quote_document: tampered, ..right.clone() }));
    for (name, case) in cases {
        for outcome in [verifier.attest_delivery(&case).await?, verifier.attest_non_delivery(&case).await?] {
            assert!(matches!(outcome, Outcome::Refused(_)), "{name}: {outcome:?}");
        }
    }
    let stranger = Verifier::default().with_chains(nodes(), Some(key(9).into()));
    assert!(matches!(stranger.attest_delivery(&right).await?, Outcome::Refused(_)));
    let blind = Verifier::default().with_chains([world.source.node.clone()], Some(key(3).into()));
    assert!(matches!(blind.attest_delivery(&right).await?, Outcome::Refused(_)));

    // Whoever asks brings the terms, and a node that tells no events is asked for none where they are right. Where they are not, it
    // is asked once: more may be in escrow than the quote asks for.
    let liar = Liar::before(&world.source.anvil.url()).await?;
    liar.say("eth_getLogs", json!([]));
    let mut config = world.source.config.clone();
    config.common.rpc_url = liar.url.clone();
    let (source, theirs) = (Node::connect(&config)?, world.payment("theirs")?);
    world.secure(&theirs).await?;
    let verifier =
        Verifier::default().with_chains([source.clone(), world.destination.node.clone()], Some(key(3).into()));
    assert!(matches!(verifier.attest_delivery(&right).await?, Outcome::Attested(_)));
    let mut windows = theirs.case();
    windows.escrow.refund_after += 1;
    let unknown = verifier.attest_delivery(&windows).await;
    assert!(unknown.is_err(), "{unknown:?}");
    for is_told in [true, false] {
        match is_told {
            true => liar.be_honest(),
            false => liar.say("eth_getLogs", json!([])),
        }
        let refused = verifier.attest_delivery(&windows).await?;
        assert!(matches!(refused, Outcome::Refused(_)), "{refused:?}");
    }

    let settler = SettlerChain::new(Node::connect(&config)?, world.settler.clone());
    let quote = payment.quote.quote();
    let order = ReservationOrder {
        payment_id: payment.id().clone(),
        escrow: payment.escrow.clone(),
        payer: right.terms.source.account().clone(),
        asset: right.terms.source.asset().clone(),
        terms_hash: right.terms.hash(),
        quote_hash: payment.quote.hash(),
        payout_account: quote.payout_account.clone(),
        source_amount: quote.source_amount,
        fulfill_by: payment.fulfill_by(),
        escrowed: None,
    };
    assert_eq!(settler.reservation_state(&order).await?, ReservationState::Reserved);
    // It holds the terms of the payment by now.
    let other = ReservationOrder { fulfill_by: order.fulfill_by - 1, ..order };
    assert!(matches!(settler.reservation_state(&other).await?, ReservationState::Different { .. }));
    Ok(())
}

/// What is pending on the destination: the transaction's hash.
async fn pending(world: &World) -> Result<Option<String>> {
    let content: Value = world.destination.dev.rpc("txpool_content", ()).await?;
    let by_nonce = content["pending"].as_object().and_then(|senders| senders.values().next()).cloned();
    let first = by_nonce.and_then(|by_nonce| by_nonce.as_object()?.values().next().cloned());
    Ok(first.and_then(|transaction| Some(transaction["hash"].as_str()?.to_owned())))
}

/// An approval by the settler of the destination's token, which no test depends on.
fn harmless(world: &World) -> Result<Call> {
    let from = world.settler.address();
    let approve = DevToken::approveCall { spender: from, value: U256::from(1) };
    let to = Some(parse_address(&world.destination.token)?);
    Ok(Call { from, to, value: U256::ZERO, data: approve.abi_encode().into() })
}

const NEVER: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn what_the_node_dropped_is_sent_again() -> Result<()> {
    let world = World::start().await?;
    let patience =
        Patience { wait_max: Duration::from_secs(60), resend_after: Duration::from_millis(20), reprice_after: NEVER };
    let wallet = Wallet::new(world.destination.node.clone(), world.settler.clone()).with_patience(patience);
    world.destination.automine(false).await?;
    let disturb = async {
        eventually("a pending transaction", || async { Ok(pending(&world).await?.is_some()) }).await?;
        let first = pending(&world).await?;
        let _: Value = world.destination.dev.rpc("anvil_dropAllTransactions", ()).await?;
        eventually("the same is back", || async { Ok(pending(&world).await? == first) }).await?;
        world.destination.mine(1).await?;
        Ok::<_, anyhow::Error>(first)
    };
    let call = harmless(&world)?;
    let (receipt, disturbed) = tokio::join!(wallet.execute("x", &call), disturb);
    let (receipt, first) = (receipt?, disturbed?);
    assert!(receipt.success);
    assert_eq!(Some(receipt.transaction_hash.to_string()), first);
    Ok(())
}

#[tokio::test]
async fn what_the_node_finds_too_cheap_is_repriced_until_it_is_mined() -> Result<()> {
    let world = World::start().await?;
    let patience = Patience {
        wait_max: Duration::from_secs(60),
        resend_after: Duration::from_millis(20),
        reprice_after: Duration::from_millis(400),
    };
    let wallet = Wallet::new(world.destination.node.clone(), world.settler.clone()).with_patience(patience);
    world.destination.automine(false).await?;
    let cheap = tokio::sync::OnceCell::new();
    let dear = async {
        eventually("a pending transaction", || async { Ok(pending(&world).await?.is_some()) }).await?;
        cheap.set(pending(&world).await?)?;
        // From here on blocks ask for more than it offers, until it offers more.
        loop {
            let fee = U256::from(1_000_000_000_000u64);
            let _: Value = world.destination.dev.rpc("anvil_setNextBlockBaseFeePerGas", (fee,)).await?;
            world.destination.mine(1).await?;
        }
        #[allow(unreachable_code, reason = "it names the type of the error")]
        Ok::<(), anyhow::Error>(())
    };
    let call = harmless(&world)?;
    let receipt = tokio::select! {
        receipt = wallet.execute("x", &call) => receipt?,
        stopped = dear => bail!("the blocks stopped: {stopped:?}"),
    };
    assert!(receipt.success);
    assert_ne!(Some(&Some(receipt.transaction_hash.to_string())), cheap.get());
    Ok(())
}
