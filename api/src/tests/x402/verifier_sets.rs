//! A set of verifiers as a merchant's requirement names it.

use super::*;
use crate::tests::verifier_sets::{ID, MEMBERS, under_set};

fn gateway_with_a_set() -> Gateway {
    Gateway::configured(|config| {
        config.x402.settle_hold_ms_max = 0;
        under_set(config);
    })
}

/// A message in which the merchant names the set by this endpoint.
fn message_at(endpoint: &str) -> Value {
    let mut message = required("/extra/gw/releaser", &json!(ID));
    for at in ["/paymentRequirements", "/paymentPayload/accepted"] {
        set(&mut message, &format!("{at}/extra/gw/fulfillmentVerifierEndpoint"), json!(endpoint));
    }
    message
}

#[tokio::test]
async fn a_requirement_names_a_set_by_its_id_and_any_members_endpoint() {
    let gateway = gateway_with_a_set();
    let supported = gateway.get("/x402/v1/supported").await.expect(200).body;
    let gw = &supported["kinds"][0]["extra"]["gw"];
    assert_eq!((&gw["releaser"], &gw["fulfillmentVerifierEndpoint"]), (&json!(ID), &json!(MEMBERS[0].1)));
    let mut signers = vec![RESERVER];
    signers.extend(MEMBERS.map(|(account, _)| account));
    assert_eq!(supported["signers"]["eip155:31337"], json!(signers));

    for (_, endpoint) in MEMBERS {
        let mut message = message_at(endpoint);
        assert_eq!(gateway.post_to(VERIFY, &message).await.expect(200).body["isValid"], true, "{endpoint}");
        // The payer may name another member of it than the merchant.
        let verifier = json!({"account": ID, "endpoint": MEMBERS[2].1});
        set(&mut message, "/paymentPayload/payload/paymentRequest/fulfillment_verifier", verifier);
        let answer = gateway.post_to(VERIFY, &message).await.expect(200).body;
        assert_eq!(answer["isValid"], true, "{endpoint}: {answer}");
    }

    // Once it is accepted, too, whichever it was.
    gateway.post(&body()).await.expect(200);
    for (_, endpoint) in MEMBERS {
        let answer = gateway.post_to(SETTLE, &message_at(endpoint)).await.expect(200).body;
        assert_eq!(answer["extensions"]["gw"]["idempotentReplay"], true, "{endpoint}: {answer}");
    }
}

#[tokio::test]
async fn a_requirement_of_another_escrow_names_a_single_verifier() {
    let mut message = message_at(MEMBERS[0].1);
    for at in ["/paymentRequirements", "/paymentPayload/accepted"] {
        set(&mut message, &format!("{at}/extra/gw/escrow"), json!(TRUSTED));
    }
    let said = refused(&gateway_with_a_set(), &message, 200, "invalid_payment_requirements").await;
    assert!(said.starts_with("paymentRequirements.extra.gw.escrow: takes a single verifier's word only"), "{said}");
}

#[tokio::test]
async fn a_member_alone_is_not_the_set() {
    let gateway = gateway_with_a_set();
    let bad = "invalid_payment_requirements";
    for (_, value) in [("a member's account", json!(MEMBERS[0].0)), ("a single verifier that is none", json!(RESERVER))]
    {
        let said = refused(&gateway, &required("/extra/gw/releaser", &value), 200, bad).await;
        assert!(said.starts_with("paymentRequirements.extra.gw.releaser: "), "{said}");
    }
    let said = refused(&gateway, &message_at("https://verifier.example"), 200, bad).await;
    assert!(said.starts_with("paymentRequirements.extra.gw.fulfillmentVerifierEndpoint: "), "{said}");
    // What the payer signed for has to be what the merchant asks for.
    let mut message = message_at(MEMBERS[1].1);
    let verifier = json!({"account": TRUSTED, "endpoint": "https://verifier.example"});
    set(&mut message, "/paymentPayload/payload/paymentRequest/fulfillment_verifier", verifier);
    let said = refused(&gateway, &message, 200, "payment_requirements_mismatch").await;
    assert!(said.starts_with("paymentRequest.fulfillment_verifier: "), "{said}");
}
