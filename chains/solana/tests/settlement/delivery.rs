//! A settler's deliveries: made once, of exactly these terms, whatever is lost on the way.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use ruint::aliases::U256;
use serde_json::json;

use chains::{perform::PerformError, settler::DeliveryChain, verifier::Outcome};
use chains_solana::{
    dev::TokenProgram,
    keys::account,
    program,
    settler::{FEE_RESERVE_LAMPORTS, SettlerChain},
    wallet::{Patience, Wallet},
};
use events::{Hash32, OwnedAsset, PaymentId};
use gateway_program::{account::FulfillmentRecord, host, ids};
use sagas::ports::{DeliveryOrder, DeliveryState};

use super::{DELIVERED, Payment, amount, delivered, native, secure, tokens};
use crate::{
    evm_support::liar::Liar,
    support::{TOKENS, World, key, until, wallet},
};

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
    let spare = world.dev.lamports(&account(&world.settler)).await? - FEE_RESERVE_LAMPORTS;
    assert_eq!(held, U256::from(spare));
    let fees = before.usual_fees().await?;
    // What a token account of 165 bytes has to hold; where nobody offers anything, a signature is all that a delivery costs besides.
    let rent = world.surfnet.rpc("getMinimumBalanceForRentExemption", json!([165])).await?;
    assert_eq!(fees.token_delivery - fees.coin_delivery, U256::from(rent.as_u64().context("no number")?));
    let record = world.surfnet.rpc("getMinimumBalanceForRentExemption", json!([FulfillmentRecord::SIZE])).await?;
    let beside = fees.coin_delivery - U256::from(record.as_u64().context("no number")?);
    assert!((U256::from(5_000)..U256::from(50_000)).contains(&beside), "{fees:?}");
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
    let other_token = world.dev.create_token(&key(45), TokenProgram::Token2022, 6).await?;
    world.dev.mint(&other_token, &account(&world.settler), TOKENS).await?;
    let own = SettlerChain::new(world.node(), world.settler.clone());
    let theirs = SettlerChain::new(world.node(), stranger.clone());
    let wrong = [
        ("payment", &own, DeliveryOrder { payment_id: PaymentId::derive("solana:x", "other"), ..right.clone() }),
        ("quote", &own, DeliveryOrder { quote_hash: Hash32([5; 32]), ..right.clone() }),
        ("settler", &theirs, DeliveryOrder { delivery_account: wallet(&stranger), ..right.clone() }),
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
    let sender = Wallet::new(world.node_at(&liar.url), world.settler.clone()).with_patience(patience);
    let settler = SettlerChain::over(sender);
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

/// A multisig's vault is an address of its program. A trial finds recipients from which nobody could move what is delivered.
#[tokio::test]
async fn a_recipient_needs_no_key_and_is_not_a_token_account() -> Result<()> {
    let world = World::start().await?;
    let own = account(&world.settler);
    let settler = SettlerChain::new(world.node(), world.settler.clone());
    let verifier = super::verifier(&world, &world.releaser);
    let vault = bs58::encode(host::find_program_address(&[b"vault"], &[5; 32]).key).into_string();
    let (sol, token) = (native(&world).asset().clone(), tokens(&world, &world.token.mint, &own).asset().clone());
    for asset in [&sol, &token] {
        let destination = OwnedAsset::new(asset.clone(), &vault)?;
        let payment = Payment::from_solana(&world, destination, &own, &world.program).await?;
        secure(&world, &payment).await?;
        settler.try_delivery(&payment.delivery()).await?;
        settler.deliver(&payment.delivery()).await?;
        delivered(&settler, &payment).await?;
        assert!(matches!(verifier.attest_delivery(&payment.case()).await?, Outcome::Attested(_)), "{asset}");
    }
    assert_eq!(world.dev.lamports(&vault).await?, DELIVERED);
    assert_eq!(world.dev.token_balance(&world.token, &vault).await?, DELIVERED);

    let mint = program::parse_key(&world.token.mint)?;
    let of = |owner: &[u8; 32]| host::associated_token_address(owner, &ids::TOKEN_PROGRAM, &mint).key;
    let lost = [
        of(&world.settler.verifying_key().to_bytes()),
        mint,
        host::config_address(&program::parse_key(&world.program)?).key,
    ];
    for recipient in lost {
        let recipient = bs58::encode(recipient).into_string();
        for asset in [&sol, &token] {
            let destination = OwnedAsset::new(asset.clone(), &recipient)?;
            let payment = Payment::from_solana(&world, destination, &own, &world.program).await?;
            match settler.try_delivery(&payment.delivery()).await {
                Err(PerformError::Refused(context)) => {
                    let reason = context.revert_reason.context("no reason")?;
                    assert!(reason.starts_with("RecipientInvalid"), "{asset} to {recipient}: {reason}");
                }
                other => bail!("{asset} to {recipient}: {other:?}"),
            }
        }
    }
    Ok(())
}
