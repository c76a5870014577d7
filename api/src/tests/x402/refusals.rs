//! Refusals of x402: what is refused, and by which field.

use super::*;

#[tokio::test]
async fn a_requirement_that_cannot_be_served_is_refused_by_its_field() {
    let gateway = gateway();
    let bad = "invalid_payment_requirements";
    for (pointer, value, reason) in [
        ("scheme", json!("upto"), "unsupported_scheme"),
        ("network", json!("31337"), "invalid_network"),
        ("network", json!("eip155:1"), "invalid_network"),
        ("network", json!("bip122:000000000019d6689c085ae165831e93"), "invalid_network"),
        ("asset", json!(ESCROW), bad),
        ("asset", json!("eip155:31337/erc20:0x5fbdb2315678afecb367f032d93f642f64180aa3"), bad),
        ("asset", json!(DESTINATION_ASSET), bad),
        ("asset", json!("a/b"), bad),
        ("asset", json!(""), bad),
        ("amount", json!("0"), bad),
        ("amount", json!("1.5"), bad),
        ("payTo", json!(PAYER), bad),
        ("payTo", json!(PROXY), bad),
        ("payTo", json!(""), bad),
        ("extra.gw.destination.network", json!("eip155:1"), "invalid_network"),
        ("extra.gw.destination.asset", json!(SOURCE_ASSET), bad),
        ("extra.gw.destination.asset", json!(ESCROW), bad),
        ("extra.gw.destination.address", json!("0x0000000000000000000000000000000000000000"), bad),
        ("extra.gw.destination.address", json!("somebody"), bad),
        ("extra.gw.fulfillmentAmount", json!("-1"), bad),
        ("extra.gw.escrow", json!(PROXY), bad),
        ("extra.gw.escrow", json!("0x1"), bad),
        ("extra.gw.fulfillmentProxy", json!(ESCROW), bad),
        ("extra.gw.reserver", json!(VERIFIER), bad),
        ("extra.gw.releaser", json!(RESERVER), bad),
        ("extra.gw.fulfillmentVerifierEndpoint", json!("https://verifier.example"), bad),
        ("extra.gw.fulfillmentVerifierEndpoint", json!("http://127.0.0.1:8090/path"), bad),
        ("extra.gw.quoteDeadlineSeconds", json!(600), bad),
        // They would mean nothing for a source that is not on Solana.
        ("extra.gw.svmSignatureClusterId", json!("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"), bad),
        ("extra.gw.svmSignatureDomainVersion", json!(1), bad),
    ] {
        let message = required(&format!("/{}", pointer.replace('.', "/")), &value);
        let said = refused(&gateway, &message, 200, reason).await;
        assert!(said.starts_with(&format!("paymentRequirements.{pointer}: ")), "{pointer} = {value}: {said}");
    }
}

#[tokio::test]
async fn a_payment_that_is_not_what_is_asked_for_is_refused_by_its_field() {
    let gateway = gateway();
    let other = json!([{"asset_identifier": DESTINATION_ASSET, "account": PAYER}]);
    let two = json!([
        {"asset_identifier": DESTINATION_ASSET, "account": RECIPIENT},
        {"asset_identifier": DESTINATION_ASSET, "account": PAYER},
    ]);
    for (field, value) in [
        ("source.asset_identifier", json!(DESTINATION_ASSET)),
        ("destination", other),
        ("destination", two),
        ("destination", json!([{"asset_identifier": SOURCE_ASSET, "account": RECIPIENT}])),
        ("fulfillment_amount", json!("999999")),
        ("max_source_amount", json!("1099999")),
        ("max_source_amount", json!("1100001")),
        ("max_source_amount", json!("REMOVED")),
        ("escrow_contract_address", json!(TRUSTED)),
        ("fulfillment_proxy", json!(TRUSTED)),
        ("fulfillment_verifier", json!({"account": TRUSTED, "endpoint": "https://verifier.example"})),
        ("quote_deadline", json!("2030-01-01T00:01:31Z")),
        ("fulfillment_deadline", json!("2030-01-01T00:10:31Z")),
    ] {
        let message = requested(&format!("/{}", field.replace('.', "/")), &value);
        let said = refused(&gateway, &message, 200, "payment_requirements_mismatch").await;
        assert!(said.starts_with(&format!("paymentRequest.{field}: ")), "{field} = {value}: {said}");
    }
    for (name, value) in [
        ("scheme", json!("exact")),
        ("network", json!("eip155:1")),
        ("asset", json!(SOURCE_ASSET)),
        ("payTo", json!(PAYER)),
        ("amount", json!("1")),
        ("maxTimeoutSeconds", json!(61)),
        ("maxTimeoutSeconds", json!("60")),
        ("amount", json!("REMOVED")),
        ("extra", json!({})),
        ("extra", json!("REMOVED")),
        ("more", json!(1)),
    ] {
        let message = edited(&format!("/paymentPayload/accepted/{name}"), &value);
        let said = refused(&gateway, &message, 200, "payment_requirements_mismatch").await;
        assert!(said.starts_with(&format!("paymentPayload.accepted.{name}: ")), "{name} = {value}: {said}");
    }
    let message = edited("/paymentPayload/accepted/extra/gw/destination/address", &json!(PAYER));
    let said = refused(&gateway, &message, 200, "payment_requirements_mismatch").await;
    assert!(said.starts_with("paymentPayload.accepted.extra: "), "{said}");
}

#[tokio::test]
async fn what_is_no_message_is_refused_with_400() {
    let gateway = gateway();
    let (payload, version) = ("invalid_payload", "invalid_x402_version");
    let requirement = "invalid_payment_requirements";
    for (pointer, value, reason, named) in [
        ("/x402Version", json!("REMOVED"), version, "x402Version"),
        ("/x402Version", json!(1), version, "x402Version"),
        ("/x402Version", json!("2"), version, "x402Version"),
        ("/paymentPayload/x402Version", json!(1), version, "paymentPayload.x402Version"),
        ("/paymentPayload", json!("REMOVED"), payload, "paymentPayload"),
        ("/paymentPayload", json!([]), payload, "paymentPayload"),
        ("/paymentPayload/accepted", json!("REMOVED"), payload, "paymentPayload.accepted"),
        ("/paymentPayload/payload", json!(null), payload, "paymentPayload.payload"),
        ("/paymentPayload/payload/paymentRequest", json!("x"), payload, "paymentPayload.payload.paymentRequest"),
        ("/paymentPayload/payload/paymentRequest/request_id", json!("REMOVED"), payload, "request_id"),
        ("/paymentPayload/payload/paymentRequest/request_id", json!("a b"), "invalid_request_id", "request_id"),
        ("/paymentPayload/payload/paymentRequest/sender_auth", json!("REMOVED"), payload, "sender_auth"),
        ("/paymentPayload/payload/paymentRequest/quote_deadline", json!("soon"), payload, "quote_deadline"),
        ("/paymentRequirements", json!("REMOVED"), payload, "paymentRequirements"),
        ("/paymentRequirements/asset", json!("REMOVED"), requirement, "paymentRequirements.asset"),
        ("/paymentRequirements/amount", json!(5), requirement, "paymentRequirements.amount"),
        ("/paymentRequirements/maxTimeoutSeconds", json!(0), requirement, "paymentRequirements.maxTimeoutSeconds"),
        ("/paymentRequirements/maxTimeoutSeconds", json!(1.5), requirement, "paymentRequirements.maxTimeoutSeconds"),
        ("/paymentRequirements/extra", json!("REMOVED"), requirement, "paymentRequirements.extra"),
        ("/paymentRequirements/extra/gw", json!("REMOVED"), requirement, "paymentRequirements.extra.gw"),
        (
            "/paymentRequirements/extra/gw/destination",
            json!("REMOVED"),
            requirement,
            "paymentRequirements.extra.gw.destination",
        ),
        (
            "/paymentRequirements/extra/gw/destination/asset",
            json!(null),
            requirement,
            "paymentRequirements.extra.gw.destination.asset",
        ),
        (
            "/paymentRequirements/extra/gw/quoteDeadlineSeconds",
            json!("5"),
            requirement,
            "paymentRequirements.extra.gw.quoteDeadlineSeconds",
        ),
    ] {
        let said = refused(&gateway, &edited(pointer, &value), 400, reason).await;
        assert!(said.starts_with(&format!("{named}: ")), "{pointer} = {value}: {said}");
    }
    let deep = json!({"more": {"a": "REMOVED"}});
    refused(&gateway, &deep, 400, version).await;
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused_in_the_shape_of_the_call() {
    let gateway = gateway();
    for path in [VERIFY, SETTLE] {
        let post = |content_type: &str, text: String| {
            Request::post(path).header("content-type", content_type).body(text.into()).unwrap()
        };
        let plain = gateway.send(post("text/plain", message().to_string())).await.expect(400);
        let huge = gateway.send(post("application/json", " ".repeat(100_000))).await.expect(413);
        let twice = gateway.send(post("application/json", r#"{"x402Version":2,"x402Version":2}"#.to_owned())).await;
        for (answer, reason) in
            [(&plain, "invalid_payload"), (&huge, "request_too_large"), (&twice.expect(400), "invalid_payload")]
        {
            let said = &answer.body[if path == VERIFY { "invalidReason" } else { "errorReason" }];
            assert_eq!(said, reason, "{answer:?}");
        }
    }
}

/// Nothing but a chain and an account is repeated, so that the header stays small.
#[tokio::test]
async fn nothing_foreign_is_repeated() {
    let gateway = gateway();
    for network in ["x".repeat(10_000), format!("solana:{}", "x".repeat(10_000)), "\u{1F600}\r\n".to_owned()] {
        let mut message = required("/network", &json!(network));
        set(&mut message, "/paymentRequirements/extra/gw/destination/network", json!(network));
        set(&mut message, "/paymentPayload/payload/paymentRequest/source/account", json!(network));
        let answer = gateway.post_to(SETTLE, &message).await;
        assert_eq!((&answer.body["network"], answer.body.get("payer")), (&json!(""), None), "{answer:?}");
        assert!(answer.headers["payment-response"].len() < 2_048, "{answer:?}");
    }
}

#[tokio::test]
async fn judgements_of_the_payment_keep_the_shape() {
    let gateway = gateway();
    let signature = "/sender_auth/signed_messages/0/signature";
    let forged = requested(signature, &json!(FORGED));
    let said = refused(&gateway, &forged, 200, "invalid_sender_auth").await;
    assert_eq!(said, "signature is not that of the payer");
    refused(&gateway, &requested(signature, &json!(UNJUDGED)), 503, "service_unavailable").await;
    gateway.clock.set("2030-01-01T00:02:00Z");
    let said = refused(&gateway, &message(), 200, "invalid_deadline").await;
    assert!(said.starts_with("quote_deadline: "), "{said}");
    gateway.clock.set("2030-01-01T00:00:00Z");

    // What is wrong with the identity is not a fault of form.
    let proof = json!({"type": "DataIntegrityProof", "cryptosuite": "eddsa-jcs-2022"});
    refused(&gateway, &requested("/proof", &proof), 200, "invalid_proof").await;

    let files = tempfile::tempdir().unwrap();
    let deny = files.path().join("deny.txt");
    std::fs::write(&deny, PAYER).unwrap();
    let guarded = Gateway::configured(|config| config.counterparty.deny_list = Some(deny));
    refused(&guarded, &message(), 200, "payment_declined").await;
}

#[tokio::test]
async fn a_pause_refuses_settling_and_not_verifying() {
    let gateway = gateway();
    gateway.pause.send_replace(true);
    assert_eq!(gateway.post_to(VERIFY, &message()).await.expect(200).body["isValid"], true);
    let answer = gateway.post_to(SETTLE, &identified(message(), IDENTIFIER)).await.expect(503);
    assert_eq!(answer.body["errorReason"], "service_paused");
    assert_eq!(answer.headers["retry-after"], "1");
    gateway.pause.send_replace(false);
    // The pause left nothing behind: the identifier is as free as the request id.
    let other = requested("/request_id", &json!("order-2"));
    let answer = gateway.post_to(SETTLE, &identified(other, IDENTIFIER)).await.expect(200);
    assert_eq!(answer.body["errorReason"], "settlement_pending");
}

#[tokio::test]
async fn a_payer_who_cannot_pay_is_not_valid() {
    let gateway = gateway();
    for (balance, allowance, reason, said) in [
        (5, u64::MAX, "insufficient_funds", "holds 5 of"),
        (u64::MAX, 0, "insufficient_allowance", "allows permit2 to draw 0 of"),
    ] {
        gateway.funds.set(balance, allowance);
        let answer = gateway.post_to(VERIFY, &message()).await.expect(200).body;
        assert_eq!((&answer["isValid"], &answer["invalidReason"]), (&json!(false), &json!(reason)));
        assert!(answer["invalidMessage"].as_str().unwrap().contains(said), "{answer}");
        assert_eq!(answer["payer"], PAYER);
        // A settle asks the same before anything is accepted.
        refused(&gateway, &message(), 200, reason).await;
    }
    gateway.funds.fail("node secret.internal is down");
    let answer = gateway.post_to(VERIFY, &message()).await.expect(503);
    assert_eq!(answer.body["invalidReason"], "service_unavailable");
    assert!(!answer.text.contains("secret.internal"), "{answer:?}");
    // A bad signature is told before the payer's funds.
    let forged = requested("/sender_auth/signed_messages/0/signature", &json!(FORGED));
    assert_eq!(gateway.post_to(VERIFY, &forged).await.expect(200).body["invalidReason"], "invalid_sender_auth");
}
