//! Payments that nobody can pay, windows that never end, and deliveries to contracts: each would have settlers keep what
//! they are to deliver, for as long as a stranger likes.

use alloy::{
    primitives::{Address, U256},
    signers::local::PrivateKeySigner,
    sol,
    sol_types::SolCall,
};
use anyhow::{Context, Result, ensure};
use chrono::{Duration as Span, SecondsFormat, Utc};
use serde_json::{Value, json};

use devnet::{
    keys::Role,
    network::Chain,
    payer::{Answer, Payer, PaymentSpec},
};
use events::{PaymentEvent, PaymentId};

use crate::support::*;

sol! {
    interface IPermit2 {
        function invalidateUnorderedNonces(uint256 word, uint256 mask) external;
    }
}

/// Sends `body` to a call of the gateway.
async fn post(world: &World, path: &str, body: &Value) -> Result<Answer> {
    let request = reqwest::Client::new().post(format!("{}{path}", world.base(0))).header("prefer", "wait=0");
    let response = request.json(body).send().await?;
    Answer::of(response).await
}

/// Sends a transaction in the name of an account, as its wallet would.
async fn send(chain: &Chain, from: &str, to: &str, data: &str) -> Result<()> {
    let _: Value = chain.dev.rpc("anvil_impersonateAccount", (from,)).await?;
    let transaction = json!({"from": from, "to": to, "data": data});
    let hash: String = chain.dev.rpc("eth_sendTransaction", (transaction,)).await?;
    let mined = || async {
        let receipt = chain.dev.rpc::<_, Value>("eth_getTransactionReceipt", (&hash,)).await;
        receipt.is_ok_and(|receipt| receipt["status"] == "0x1")
    };
    eventually(mined).await.with_context(|| format!("{hash} is not mined"))
}

/// Checks that nothing was accepted under `request_id`, and so nobody was asked for anything.
async fn nothing_is_known(world: &World, payer: &Payer, request_id: &str) -> Result<()> {
    let answer = payer.status(&world.base(0), payer.payment_id(request_id).as_str()).await?;
    ensure!((answer.status, answer.text("code")) == (404, "PAYMENT_NOT_FOUND"), "{answer:?}");
    ensure!(world.types(&payer.payment_id(request_id)).await?.is_empty(), "something is in the journal");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_pay_occupies_nobody_and_who_can_is_served() -> Result<()> {
    let world = World::start(1).await?;
    let source = &world.network.source;
    let (base, payer) = (world.base(0), Payer::new(PrivateKeySigner::random())?);
    let account = payer.account();
    let spec = world.spec("unfunded")?;
    let body = payer.sign(&base, &spec).await?;
    let unsigned = payer.quote_request(&spec);
    let refused = async |code: &str| -> Result<Answer> {
        for path in ["/v1/payments/verify", "/v1/payments"] {
            let answer = post(&world, path, &body).await?;
            ensure!((answer.status, answer.text("code")) == (400, code), "{path}: {answer:?}");
            ensure!(answer.body["request_id_reusable"] == (code != "NONCE_ALREADY_USED"), "{answer:?}");
        }
        nothing_is_known(&world, &payer, "unfunded").await?;
        post(&world, "/v1/payments/prepare", &unsigned).await
    };
    // A key that holds nothing, and one that holds a unit too little.
    source.dev.fund(&account, U256::from(10_u64.pow(18))).await?;
    for units in [0_u64, 25_499_999] {
        source.dev.mint(&source.token, &account, U256::from(units)).await?;
        let prepared = refused("INSUFFICIENT_FUNDS").await?;
        assert_eq!((prepared.status, prepared.text("code")), (400, "INSUFFICIENT_FUNDS"), "{prepared:?}");
    }
    // One that holds enough and allows nothing: what is prepared comes with the call that does.
    source.dev.mint(&source.token, &account, U256::ONE).await?;
    let funded = || async {
        let prepared = post(&world, "/v1/payments/prepare", &unsigned).await;
        prepared.is_ok_and(|prepared| prepared.status == 200)
    };
    eventually(funded).await.context("what was minted is not seen")?;
    let prepared = refused("INSUFFICIENT_ALLOWANCE").await?;
    assert_eq!(prepared.status, 200, "{prepared:?}");
    let approval = &prepared.body["approval"];
    assert_eq!(
        (&approval["spender"], &approval["amount"], &approval["asset_identifier"]),
        (&json!(source.contracts.permit2), &json!(spec.cap), &json!(spec.source))
    );
    let call = &approval["call"];
    assert_eq!((&call["to"], &call["value"]), (&json!(source.token), &json!("0x0")));
    let data = call["data"].as_str().context("no data")?;
    send(source, &account, &source.token, data).await?;

    // The control: exactly what was missing is there.
    let accepted = || async { post(&world, "/v1/payments", &body).await.is_ok_and(|answer| answer.status == 200) };
    eventually(accepted).await.context("the approval is not seen")?;
    let payment_id = payer.payment_id("unfunded");
    world.completed(&payment_id).await?;
    // Drawn and spent, it is still the answer to its repetition.
    let replay = post(&world, "/v1/payments", &body).await?;
    assert_eq!((replay.status, &replay.body["idempotent_replay"]), (200, &json!(true)), "{replay:?}");
    world.settled_once(&[payment_id]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_signature_a_window_without_end_and_a_contract_as_recipient_are_refused() -> Result<()> {
    let world = World::start(1).await?;
    let (base, payer) = (world.base(0), &world.payer);
    let source = &world.network.source;

    // The nonce of a payment that is about to be submitted, marked as used by its owner.
    let body = payer.sign(&base, &world.spec("revoked")?).await?;
    let typed = body.pointer("/sender_auth/signed_messages/0/message_prehash").and_then(Value::as_str);
    let typed: Value = serde_json::from_str(typed.context("no typed data")?)?;
    let nonce: U256 = typed["message"]["nonce"].as_str().context("no nonce")?.parse()?;
    let revoke = IPermit2::invalidateUnorderedNoncesCall { word: nonce >> 8, mask: U256::ONE << nonce.byte(0) };
    let data = format!("0x{}", hex::encode(revoke.abi_encode()));
    send(source, &payer.account(), &source.contracts.permit2, &data).await?;
    for path in ["/v1/payments/verify", "/v1/payments"] {
        let answer = post(&world, path, &body).await?;
        assert_eq!((answer.status, answer.text("code")), (400, "NONCE_ALREADY_USED"), "{path}: {answer:?}");
    }
    nothing_is_known(&world, payer, "revoked").await?;

    // Years, for nothing and for a signature.
    let years = (Utc::now() + Span::days(3_650)).to_rfc3339_opts(SecondsFormat::Secs, true);
    let soon = payer.quote_request(&world.spec("years")?)["quote_deadline"].clone();
    for (quote, fulfillment) in [(json!(years.replace("Z", ".5Z")), years.replace("Z", ".9Z")), (soon, years)] {
        let mut asked = payer.quote_request(&world.spec("years")?);
        (asked["quote_deadline"], asked["fulfillment_deadline"]) = (quote, json!(fulfillment));
        for path in ["/v1/payments/quote-requests", "/v1/payments/prepare"] {
            let answer = post(&world, path, &asked).await?;
            assert_eq!((answer.status, answer.text("code")), (400, "INVALID_DEADLINE"), "{path}: {answer:?}");
        }
    }
    // In what is signed alone.
    let mut locked = payer.quote_request(&world.spec("locked")?);
    locked["payload"] = json!({"refund_after": (1_u64 << 48) - 1});
    let answer = post(&world, "/v1/payments/prepare", &locked).await?;
    assert_eq!((answer.status, answer.text("code")), (400, "INVALID_DEADLINE"), "{answer:?}");

    let contracts = &world.network.destination.contracts;
    let token = &world.network.destination.token;
    for recipient in [&contracts.escrow, &contracts.proxy, &contracts.permit2, token] {
        let spec = PaymentSpec { recipient: recipient.parse::<Address>()?.to_string(), ..world.spec("to-a-contract")? };
        for (path, body) in [
            ("/v1/payments", payer.sign(&base, &spec).await?),
            ("/v1/payments/quote-requests", payer.quote_request(&spec)),
        ] {
            let answer = post(&world, path, &body).await?;
            assert_eq!(answer.text("code"), "INVALID_DESTINATION_ACCOUNT", "{answer:?}");
        }
    }
    nothing_is_known(&world, payer, "to-a-contract").await?;

    // The control: an honest payment of the same payer, within the limits and to somebody.
    let payment_id: PaymentId =
        world.submit(&PaymentSpec { recipient: Role::Recipient.account(), ..world.spec("honest")? }).await?;
    world.completed(&payment_id).await?;
    let Some(PaymentEvent::Submitted(submitted)) = world.events(&payment_id, "Submitted").await?.pop() else {
        anyhow::bail!("no submission of {payment_id}")
    };
    assert!(submitted.escrow.refund_after < submitted.escrow.fulfillment_deadline + 86_400);
    Ok(())
}
