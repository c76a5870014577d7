//! Payments from Solana, to Solana and on Solana, from the payer's signature to the last unit.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use ed25519_dalek::{Signer, SigningKey};
use serde_json::{Value, json};
use tokio::process::Command;

use devkit::tools;
use devnet::{
    keys::{Role, solana_account},
    payer::{Payer, PaymentSpec},
};
use events::Hash32;
use gateway_program::{host, ids};

use crate::support::{solana::*, *};

/// The most that a payment of these tests may cost.
const CAP: u64 = 25_500_000;

#[tokio::test(flavor = "multi_thread")]
async fn every_corridor_pays_to_the_unit_and_is_proven_by_the_audit() -> Result<()> {
    let world = World::with_solana(|options| options).await?;
    let payer = solana_payer()?;
    let before = world.holdings().await?;
    // The recipient has neither an account for tokens nor lamports.
    assert!(before["recipient"].is_zero() && before["recipient's lamports"].is_zero());
    // A recipient needs no key: a multisig's vault is an address of its program.
    let vault = bs58::encode(host::find_program_address(&[b"vault"], &[5; 32]).key).into_string();
    let to_vault = |spec: PaymentSpec| PaymentSpec { recipient: vault.clone(), ..spec };
    let payments = [
        world.submit_by(&payer, &world.spec_from_solana("solana-to-evm")?).await?,
        world.submit(&world.spec_to_solana("evm-to-solana")?).await?,
        world.submit(&world.spec_to_coin("evm-to-sol")?).await?,
        world.submit_by(&payer, &world.spec_on_solana("solana-to-solana")?).await?,
        world.submit(&to_vault(world.spec_to_solana("tokens-to-vault")?)).await?,
        world.submit(&to_vault(world.spec_to_coin("sol-to-vault")?)).await?,
    ];
    for payment_id in &payments {
        let outcome = world.outcome(payment_id).await?;
        assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
        world.until(payment_id, "EscrowReleased").await?;
    }
    let (amount, price) = (i128::from(AMOUNT), i128::from(PRICE));
    let (coin_amount, coin_price) = (i128::from(COIN_AMOUNT), i128::from(COIN_PRICE));
    let expected = Moves::from([
        ("payer", -2 * price),
        ("settlers", 2 * price - 2 * amount),
        ("recipient", amount),
        ("settlers' 2022", -amount),
        ("recipient's 2022", amount),
        ("recipient's lamports", coin_amount),
        ("evm payer", -2 * (price + coin_price)),
        ("evm settlers' source", 2 * (price + coin_price)),
        ("evm settlers' destination", -amount),
        ("evm recipient", amount),
    ]);
    assert_eq!(moves(&before, &world.holdings().await?), expected);
    let solana = world.solana()?;
    assert_eq!(solana.dev.token_balance(&solana.token, &vault).await?, AMOUNT);
    assert_eq!(solana.dev.lamports(&vault).await?, COIN_AMOUNT);
    for from_solana in [&payments[0], &payments[3]] {
        assert_eq!(world.escrow_transactions(from_solana).await?, 2, "a deposit and a release");
    }
    for payment_id in &payments {
        world.audited(payment_id).await?;
    }

    // A token account has no tokens of its own: what is sent to it could never be moved, and nobody quotes.
    let before = world.holdings().await?;
    let mint = solana_key(&solana.token.mint)?;
    let owner = Role::Payer.solana_key().verifying_key().to_bytes();
    let account = host::associated_token_address(&owner, &ids::TOKEN_PROGRAM, &mint).key;
    let to_account = |spec: PaymentSpec| PaymentSpec { recipient: bs58::encode(account).into_string(), ..spec };
    let refused = [
        world.submit(&to_account(world.spec_to_solana("tokens-to-account")?)).await?,
        world.submit(&to_account(world.spec_to_coin("sol-to-account")?)).await?,
    ];
    for payment_id in &refused {
        let outcome = world.outcome(payment_id).await?;
        assert_eq!(outcome.body["error"]["code"], "NO_QUOTES_RECEIVED", "{outcome:?}");
        let declines = outcome.body["decline_summary"].as_array().context("nobody declined")?;
        assert!(declines.iter().all(|decline| decline["reason"] == "UNDELIVERABLE"), "{declines:?}");
    }
    assert_eq!(world.holdings().await?, before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quote_is_taken_by_the_key_that_the_payer_appointed() -> Result<()> {
    let world = World::with_solana(|options| options).await?;
    let solana = world.solana()?;
    let delegate = SigningKey::from_bytes(&[42; 32]);
    let (key, signer) = (Role::Payer.solana_key(), solana_account(&delegate));
    // The allowance that the payer's own signature would need is gone with this one.
    solana.dev.approve(&key, &solana.token, &solana.program, &signer, PRICE).await?;
    let payer = solana_payer()?.signing_by(delegate);
    let before = world.holdings().await?;
    let base = world.base(0);
    let batch = payer.open(&base, &payer.quote_request(&world.spec_from_solana("batch")?), true).await?;
    assert_eq!(batch.text("status"), "ready", "{batch:?}");
    let body = payer.sign_award(&base, &batch.body, 0, "taken").await?;
    let answer = payer.award(&base, batch.text("quote_request_id"), &body, Duration::ZERO).await?;
    ensure!(answer.status == 200, "{answer:?}");
    let payment_id = answer.text("payment_id").parse()?;
    let outcome = world.outcome(&payment_id).await?;
    assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
    world.until(&payment_id, "EscrowReleased").await?;
    let moved = moves(&before, &world.holdings().await?);
    assert_eq!((moved["payer"], moved["evm recipient"]), (-i128::from(PRICE), i128::from(AMOUNT)));
    // Without an allowance for the payer's own key its signature moves nothing, and nobody is asked for anything.
    let own = solana_payer()?;
    let unsigned = own.quote_request(&world.spec_from_solana("own-key")?);
    let body = own.sign(&base, &world.spec_from_solana("own-key")?).await?;
    let answer = own.submit(&base, &body, Duration::ZERO).await?;
    assert_eq!((answer.status, answer.text("code")), (400, "INSUFFICIENT_ALLOWANCE"), "{answer:?}");
    assert!(world.types(&own.payment_id("own-key")).await?.is_empty());
    // What is prepared comes with the instruction that gives it.
    let prepare = reqwest::Client::new().post(format!("{base}/v1/payments/prepare")).json(&unsigned);
    let prepared: Value = prepare.send().await?.json().await?;
    let (approval, account) = (&prepared["approval"], solana_account(&Role::Payer.solana_key()));
    let accounts = approval["call"]["accounts"].as_array().context("no accounts")?;
    assert_eq!(approval["spender"], prepared["signed_messages"][0]["payload"]["allowance_delegate"]);
    assert_eq!((&accounts[1]["pubkey"], &accounts[2]["pubkey"]), (&approval["spender"], &json!(account)));
    let mut data = vec![4];
    data.extend(CAP.to_le_bytes());
    assert_eq!(approval["call"]["data"], format!("0x{}", hex::encode(data)));
    world.audited(&payment_id).await
}

/// A body whose preimage was changed at `at`, with a signature over what came of it.
fn signed_anew(body: &Value, key: &SigningKey, at: usize) -> Result<Value> {
    let mut body = body.clone();
    let message = body.pointer_mut("/sender_auth/signed_messages/0").context("no message")?;
    let prehash =
        message["message_prehash"].as_str().and_then(|text| text.strip_prefix("0x")).context("no preimage")?;
    let mut bytes = hex::decode(prehash)?;
    *bytes.get_mut(at).context("the preimage is shorter")? ^= 1;
    let digest = Hash32::sha256(&bytes);
    message["message"] = json!(digest);
    message["message_prehash"] = format!("0x{}", hex::encode(bytes)).into();
    message["signature"] = format!("0x{}", hex::encode(key.sign(&digest.0).to_bytes())).into();
    Ok(body)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_for_another_cluster_version_program_or_terms_is_refused() -> Result<()> {
    let world = World::with_solana(|options| options).await?;
    let (payer, key) = (solana_payer()?, Role::Payer.solana_key());
    let (base, before) = (world.base(0), world.holdings().await?);
    let body = payer.sign(&base, &world.spec_from_solana("elsewhere")?).await?;
    // "gw-escrow", version, cluster, program, kind, payment, terms, quote, payer, mint, amount.
    let places = [
        ("version", 9),
        ("cluster", 10),
        ("program", 42),
        ("kind", 74),
        ("payment", 75),
        ("terms", 107),
        ("quote", 139),
        ("payer", 171),
        ("mint", 203),
        ("amount", 235),
    ];
    for (name, at) in places {
        let mut forged = signed_anew(&body, &key, at)?;
        for without_preimage in [false, true] {
            if without_preimage {
                let message = forged.pointer_mut("/sender_auth/signed_messages/0").and_then(Value::as_object_mut);
                message.context("no message")?.remove("message_prehash");
            }
            let answer = payer.submit(&base, &forged, Duration::ZERO).await?;
            assert_eq!(answer.status, 401, "another {name} is taken: {answer:?}");
        }
    }
    let stranger = signed_anew(&body, &SigningKey::from_bytes(&[9; 32]), 9)?;
    assert_eq!(payer.submit(&base, &stranger, Duration::ZERO).await?.status, 401);
    // Nothing of that was kept: the true one is a new payment.
    let answer = payer.submit(&base, &body, Duration::ZERO).await?;
    assert_eq!((answer.status, &answer.body["idempotent_replay"]), (200, &json!(false)), "{answer:?}");
    let payment_id = answer.text("payment_id").parse()?;
    world.until(&payment_id, "EscrowReleased").await?;
    let moved = moves(&before, &world.holdings().await?);
    assert_eq!((moved["payer"], moved["evm recipient"]), (-i128::from(PRICE), i128::from(AMOUNT)));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_of_another_client_approves_signs_and_pays() -> Result<()> {
    let world = World::with_solana(|options| options).await?;
    let solana = world.solana()?;
    // Somebody who is not among the network's roles, with money and no allowance.
    let key = SigningKey::from_bytes(&Hash32::sha256("a payer with web3.js").0);
    let account = solana_account(&key);
    solana.surfnet.airdrop(&account, 1_000_000_000).await?;
    // The cap has to be there, though the price alone is drawn.
    solana.dev.mint(&solana.token, &account, CAP).await?;
    let directory = tempfile::tempdir()?;
    let (keypair, request) = (directory.path().join("keypair.json"), directory.path().join("request.json"));
    std::fs::write(&keypair, json!(key.to_keypair_bytes().to_vec()).to_string())?;
    let order = Payer::on_solana(key)?.quote_request(&world.spec_from_solana("web3.js")?);
    std::fs::write(&request, order.to_string())?;
    let before = world.holdings().await?;

    let mut command = Command::new("node");
    command.arg(tools::root().join("examples/solana/pay.cjs")).arg(world.base(0)).arg(solana.surfnet.url());
    command.args([&keypair, &request]).env("NODE_PATH", tools::root().join(".tools/solana-client/node_modules"));
    let output = tokio::time::timeout(PATIENCE, command.kill_on_drop(true).output()).await??;
    ensure!(output.status.success(), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(said["status"], "completed");
    world.until(&said["payment_id"].as_str().context("payment_id")?.parse()?, "EscrowReleased").await?;
    // The price went, and no unit elsewhere.
    assert_eq!(solana.dev.token_balance(&solana.token, &account).await?, CAP - PRICE);
    let expected = BTreeMap::from([
        ("settlers", i128::from(PRICE)),
        ("evm settlers' destination", -i128::from(AMOUNT)),
        ("evm recipient", i128::from(AMOUNT)),
    ]);
    assert_eq!(moves(&before, &world.holdings().await?), expected);
    Ok(())
}
