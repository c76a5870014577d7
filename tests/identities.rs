//! Payments asked for by a proven DID, with real processes.

use std::time::Duration;

use anyhow::{Context, Result};
use chrono::Utc;
use k256::ecdsa::SigningKey as Secp256k1;
use serde_json::{Value, json};

use devkit::holder::Holder;
use devnet::{keys::Role, payer::Payer};
use events::{PaymentEvent, PaymentId, identity::Carrier};
use proofs::suites::{SigningKey, Suite};

use crate::support::*;

fn sealed(holder: &Holder, body: &Value) -> Result<Value> {
    holder.envelope(body, Suite::EddsaRdfc2022, &[], Utc::now())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_in_an_envelope_is_its_holder_s_and_nobody_else_s() -> Result<()> {
    let world = World::start(1).await?;
    let base = world.base(0);
    let (alice, mallory) = (Holder::ed25519(1)?, Holder::ed25519(2)?);
    let payer = world.payer.asking_for(alice.did().as_str());
    let spec = world.spec("order-1")?;
    let signed = payer.sign(&base, &spec).await?;

    // The payer's signature is for a payment of this originator: neither without the envelope nor in another's.
    for moved in [signed.clone(), sealed(&mallory, &signed)?] {
        let answer = payer.submit(&base, &moved, Duration::ZERO).await?;
        assert_eq!((answer.status, answer.text("code")), (401, "INVALID_SENDER_AUTH"), "{answer:?}");
    }
    let mut forged = sealed(&alice, &signed)?;
    forged["settler_auth_required"] = json!({"kyc": false});
    let answer = payer.submit(&base, &forged, Duration::ZERO).await?;
    assert_eq!((answer.status, answer.text("code")), (401, "INVALID_PROOF"), "{answer:?}");
    assert!(answer.text("message").contains("signature does not verify"), "{answer:?}");

    let body = sealed(&alice, &signed)?;
    let answer = payer.submit(&base, &body, Duration::ZERO).await?;
    assert_eq!((answer.status, &answer.body["idempotent_replay"]), (200, &json!(false)), "{answer:?}");
    let payment_id: PaymentId = answer.text("payment_id").parse()?;
    assert_eq!(payment_id, PaymentId::derive(alice.did().as_str(), "order-1"));
    // Another account in the name of the same holder.
    let other = Payer::new(Role::Settler(1).signer())?.asking_for(alice.did().as_str());
    let taken = sealed(&alice, &other.sign(&base, &spec).await?)?;
    let answer = other.submit(&base, &taken, Duration::ZERO).await?;
    assert_eq!((answer.status, answer.text("code")), (409, "REQUEST_ID_TAKEN"), "{answer:?}");

    assert_eq!(world.outcome(&payment_id).await?.text("status"), "completed");
    world.until(&payment_id, "EscrowReleased").await?;
    world.settled_once(std::slice::from_ref(&payment_id)).await?;
    let answer = payer.submit(&base, &body, Duration::ZERO).await?;
    assert_eq!((answer.text("status"), &answer.body["idempotent_replay"]), ("completed", &json!(true)), "{answer:?}");
    let resolve = format!("{base}/v1/payments/resolve?request_id=order-1&originator={}", alice.did());
    let found: Value = reqwest::get(resolve).await?.json().await?;
    assert_eq!(found["payment_id"], payment_id.as_str());

    let events = world.events(&payment_id, "Submitted").await?;
    let Some(PaymentEvent::Submitted(submitted)) = events.into_iter().next() else { panic!("no submission") };
    assert_eq!(submitted.originator, alice.did().as_str());
    assert_eq!(submitted.identities[0].carrier, Carrier::Envelope);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_an_account_s_did_is_awarded_by_its_key() -> Result<()> {
    let world = World::start(1).await?;
    let (base, payer) = (world.base(0), &world.payer);
    let key = Secp256k1::from_slice(&Role::Payer.signer().to_bytes()[..])?;
    let method = format!("did:pkh:eip155:1:{}#blockchainAccountId", payer.account());
    let holder = Holder::with_method(SigningKey::Secp256k1(key), &method)?;
    let sealed = |body: &Value| holder.envelope(body, Suite::EcdsaSecp256k1RecoverySignature2020, &[], Utc::now());
    let payer = payer.asking_for(holder.did().as_str());

    let body = sealed(&payer.quote_request(&world.spec("cart-1")?))?;
    let ready = payer.open(&base, &body, true).await?;
    assert_eq!((ready.status, ready.text("status")), (200, "ready"), "{ready:?}");
    let id = ready.text("quote_request_id");
    let award = payer.sign_award(&base, &ready.body, 0, "order-1").await?;
    let plain = world.payer.sign_award(&base, &ready.body, 0, "order-1").await?;
    for stranger in [award.clone(), plain] {
        let answer = payer.award(&base, id, &stranger, Duration::ZERO).await?;
        assert_eq!((answer.status, answer.text("code")), (401, "INVALID_PROOF"), "{answer:?}");
    }
    let answer = payer.award(&base, id, &sealed(&award)?, Duration::ZERO).await?;
    assert_eq!(answer.status, 200, "{answer:?}");
    let payment_id: PaymentId = answer.text("payment_id").parse().context("no payment")?;
    assert_eq!(payment_id, PaymentId::derive(holder.did().as_str(), "order-1"));
    assert_eq!(world.outcome(&payment_id).await?.text("status"), "completed");
    Ok(())
}
