//! Rehearsals: what a payer can ask before it pays: what to sign, and whether a submission would be accepted.

use alloy::signers::{SignerSync, local::PrivateKeySigner};

use super::*;

const PREPARE: &str = "/v1/payments/prepare";
const VERIFY: &str = "/v1/payments/verify";

async fn post_to(gateway: &Gateway, path: &str, body: &Value) -> Answer {
    let request = Request::post(path).header("content-type", "application/json");
    gateway.send(request.body(body.to_string().into()).unwrap()).await
}

fn unsigned(account: &str) -> Value {
    let mut body = with("/source/account", json!(account));
    body.as_object_mut().unwrap().remove("sender_auth");
    body
}

/// The body of a submission with what `prepared` says, signed.
fn signed(body: &Value, prepared: &Answer, signer: &PrivateKeySigner) -> Value {
    let mut message = prepared.body["signed_messages"][0].clone();
    let digest: Hash32 = message["message"].as_str().unwrap().parse().unwrap();
    let signature = signer.sign_hash_sync(&digest.0.into()).unwrap();
    message["signature"] = json!(format!("0x{}", hex::encode(signature.as_bytes())));
    let mut body = body.clone();
    let scheme = &prepared.body["message_scheme"];
    body["sender_auth"] = json!({"message_scheme": scheme, "signed_messages": [message]});
    body
}

/// A gateway, and the node that it asks whether payers have code.
async fn real_gateway() -> (devkit::Anvil, Gateway) {
    let anvil = devkit::Anvil::start(31_337, devkit::anvil::Mining::Instant).await.unwrap();
    let gateway = signatures::gateway(&anvil.url());
    (anvil, gateway)
}

#[tokio::test]
async fn what_was_prepared_and_signed_is_accepted() {
    let (_anvil, gateway) = real_gateway().await;
    let signer = PrivateKeySigner::random();
    let account = format!("{:#x}", signer.address());
    for (n, (scheme, expected)) in [
        (None, "EVM_PERMIT2_ESCROW"),
        (Some("EVM_PERMIT2_ESCROW"), "EVM_PERMIT2_ESCROW"),
        (Some("EVM_PERMIT2"), "EVM_PERMIT2"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut body = unsigned(&account);
        body["request_id"] = json!(format!("prepared-{n}"));
        if let Some(scheme) = scheme {
            body["message_scheme"] = json!(scheme);
        }
        let prepared = post_to(&gateway, PREPARE, &body).await.expect(200);
        assert_eq!(prepared.body["message_scheme"], expected);
        let data: Value =
            serde_json::from_str(prepared.body["signed_messages"][0]["message_prehash"].as_str().unwrap()).unwrap();
        assert_eq!(data["domain"]["name"], "Permit2");
        assert_eq!(data["message"].get("witness").is_some(), expected == "EVM_PERMIT2_ESCROW");

        let submission = signed(&body, &prepared, &signer);
        let verified = post_to(&gateway, VERIFY, &submission).await.expect(200);
        let id = &prepared.body["payment_id"];
        assert_eq!(
            verified.body,
            json!({"valid": true, "payment_id": id}),
            "it created nothing, and says so by no member"
        );
        gateway.get(&format!("/v1/payments/{}/status", id.as_str().unwrap())).await.expect(404);
        let submitted = gateway.post(&submission).await.expect(200);
        assert_eq!((&submitted.body["payment_id"], &submitted.body["idempotent_replay"]), (id, &json!(false)));
        let replay = post_to(&gateway, VERIFY, &submission).await.expect(200);
        assert_eq!(replay.body, json!({"valid": true, "payment_id": id, "status": "pending"}));

        // The digest and the few numbers that were chosen are enough.
        let mut short = submission.clone();
        short["sender_auth"]["signed_messages"][0].as_object_mut().unwrap().remove("message_prehash");
        assert_eq!(gateway.post(&short).await.expect(200).body["idempotent_replay"], true);
    }
}

#[tokio::test]
async fn the_payer_chooses_what_is_open() {
    let (_anvil, gateway) = real_gateway().await;
    let signer = PrivateKeySigner::random();
    let mut body = unsigned(&format!("{:#x}", signer.address()));
    body.as_object_mut().unwrap().remove("max_source_amount");
    let answer = post_to(&gateway, PREPARE, &body).await.expect_error(400, "INVALID_REQUEST");
    assert!(answer.message().starts_with("payload.permitted_amount"), "{answer:?}");
    body["payload"] = json!({"permitted_amount": "1200000", "refund_after": "1893500000"});
    let prepared = post_to(&gateway, PREPARE, &body).await.expect(200);
    assert_eq!(prepared.body["signed_messages"][0]["payload"]["permitted_amount"], "1200000");
    let submitted = gateway.post(&signed(&body, &prepared, &signer)).await.expect(200);
    let submitted = gateway.submitted(submitted.payment_id().as_str()).await;
    assert_eq!(submitted.escrow.refund_after, 1_893_500_000);

    body["payload"] = json!({"refund_after": "1"});
    let answer = post_to(&gateway, PREPARE, &body).await.expect_error(400, "INVALID_REQUEST");
    assert!(answer.message().contains("payload.permitted_amount"), "{answer:?}");
}

#[tokio::test]
async fn what_cannot_be_signed_for_is_refused() {
    let (_anvil, gateway) = real_gateway().await;
    for (pointer, value, code, named) in [
        ("/request_id", json!("a b"), "INVALID_REQUEST_ID", "request_id"),
        ("/message_scheme", json!("SOLANA"), "INVALID_REQUEST", "message_scheme"),
        ("/message_scheme", json!("PAPER"), "INVALID_REQUEST", "message_scheme"),
        ("/message_scheme", Value::Null, "INVALID_REQUEST", "message_scheme"),
        ("/payload", json!([]), "INVALID_REQUEST", "payload"),
        ("/payload", json!({"refund_after": "soon"}), "INVALID_REQUEST", "payload.refund_after"),
        ("/fulfillment_amount", json!("0"), "INVALID_REQUEST", "fulfillment_amount"),
        ("/quote_deadline", json!("2020-01-01T00:00:00Z"), "INVALID_DEADLINE", "quote_deadline"),
    ] {
        let mut body = unsigned(PAYER);
        set(&mut body, pointer, value.clone());
        let answer = post_to(&gateway, PREPARE, &body).await.expect_error(400, code);
        assert!(answer.message().starts_with(named), "{pointer} = {value}: {answer:?}");
    }
}

#[tokio::test]
async fn a_rehearsal_is_refused_as_the_submission_would_be() {
    let gateway = Gateway::new();
    gateway.post(&body()).await.expect(200);
    let mut cases = vec![
        (with("/request_id", json!("a b")), 400, "INVALID_REQUEST_ID"),
        (without("/sender_auth"), 400, "INVALID_REQUEST"),
        (with("/max_source_amount", json!("5")), 409, "IDEMPOTENCY_TERMS_MISMATCH"),
        (with("/sender_auth/signed_messages/0/signature", json!(FORGED)), 401, "INVALID_SENDER_AUTH"),
        (with("/sender_auth/signed_messages/0/signature", json!(UNJUDGED)), 503, "SERVICE_UNAVAILABLE"),
    ];
    let mut late = with("/request_id", json!("order-2"));
    set(&mut late, "/quote_deadline", json!("2020-01-01T00:00:00Z"));
    cases.push((late, 400, "INVALID_DEADLINE"));
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        for (body, status, code) in &cases {
            let rehearsed = post_to(&gateway, VERIFY, body).await.expect_error(*status, code);
            let submitted = gateway.post(body).await.expect_error(*status, code);
            assert_eq!(rehearsed.message(), submitted.message());
            assert_eq!(rehearsed.body["payment_id"], submitted.body["payment_id"]);
        }
        // A replay is one whatever its deadlines.
        let expired = with("/quote_deadline", json!("2020-01-01T00:00:00Z"));
        let replay = post_to(&gateway, VERIFY, &expired).await.expect(200);
        assert_eq!((replay.body.get("idempotent_replay"), &replay.body["status"]), (None, &json!("pending")));
    }
    let request = Request::post(VERIFY).header("content-type", "text/plain");
    gateway.send(request.body(body().to_string().into()).unwrap()).await.expect_error(400, "INVALID_REQUEST");
    let huge = Request::post(VERIFY).header("content-type", "application/json");
    gateway.send(huge.body(" ".repeat(100_000).into()).unwrap()).await.expect_error(413, "REQUEST_TOO_LARGE");
}

#[tokio::test]
async fn an_award_that_was_prepared_and_signed_is_accepted() {
    for capped in [true, false] {
        let (_anvil, gateway) = real_gateway().await;
        let signer = PrivateKeySigner::random();
        let mut batch = unsigned(&format!("{:#x}", signer.address()));
        batch["request_id"] = json!("batch-1");
        if !capped {
            batch.as_object_mut().unwrap().remove("max_source_amount");
        }
        let id = quote_requests::open(&gateway, &batch).await;
        let request = |quote_id: &str| json!({"version": "1.0", "request_id": "order-1", "quote_request_id": id, "quote_id": quote_id});
        post_to(&gateway, PREPARE, &request("quo_1")).await.expect_error(409, "QUOTE_REQUEST_COLLECTING");
        let quotes = quote_requests::collect(&gateway, &id, &[1, 2]).await;
        post_to(&gateway, PREPARE, &request("quo_1")).await.expect_error(404, "QUOTE_NOT_FOUND");

        let (quote, other) = (&quotes[1], &quotes[0]);
        let body = request(&quote.id());
        let prepared = post_to(&gateway, PREPARE, &body).await.expect(200);
        let message = &prepared.body["signed_messages"][0];
        let data: Value = serde_json::from_str(message["message_prehash"].as_str().unwrap()).unwrap();
        assert_eq!(data["message"]["witness"]["quoteHash"], quote.hash().to_string());
        // Without a cap no more is permitted than the quote asks for.
        let permitted = if capped { "1100000".to_owned() } else { quote.quote().source_amount.to_string() };
        assert_eq!(data["message"]["permitted"]["amount"], permitted);

        let mut award = signed(&body, &prepared, &signer);
        let path = format!("/v1/payments/quote-requests/{id}/award");
        award["quote_id"] = json!(other.id());
        post_to(&gateway, &path, &award).await.expect_error(401, "INVALID_SENDER_AUTH");
        award["quote_id"] = json!(quote.id());
        let awarded = post_to(&gateway, &path, &award).await.expect(200);
        assert_eq!(awarded.body["payment_id"], prepared.body["payment_id"]);
        assert_eq!(awarded.body["idempotent_replay"], false);
    }
    let (_anvil, gateway) = real_gateway().await;
    for (body, status, code, named) in [
        (json!({"version": "1.0", "request_id": "a", "quote_id": "q"}), 400, "INVALID_REQUEST", "quote_request_id"),
        (json!({"version": "1.0", "request_id": "a", "quote_request_id": "q"}), 400, "INVALID_REQUEST", "quote_id"),
        (
            json!({"version": "1.0", "request_id": "a", "quote_request_id": "q", "quote_id": "q"}),
            404,
            "QUOTE_REQUEST_NOT_FOUND",
            "",
        ),
    ] {
        let answer = post_to(&gateway, PREPARE, &body).await.expect_error(status, code);
        assert!(answer.message().starts_with(named), "{answer:?}");
    }
}

/// A permit without a witness trusts the reserver with the whole cap, so it is taken only where the operator says so; the
/// test above is the control, where he does.
#[tokio::test]
async fn a_permit_without_a_witness_is_off_by_default() {
    let gateway = Gateway::configured(|_| {});
    let defaults = gateway.get("/v1/defaults").await.expect(200);
    assert_eq!(
        defaults.body["chains"]["eip155:31337"]["message_schemes"],
        json!(["EVM_PERMIT2_ESCROW", "EVM_PERMIT2_BATCH", "EVM_PERMIT2_MANDATE", "EVM_EIP3009"])
    );

    let account = format!("{:#x}", PrivateKeySigner::random().address());
    let mut unsigned = unsigned(&account);
    unsigned["message_scheme"] = json!("EVM_PERMIT2");
    let refused = post_to(&gateway, PREPARE, &unsigned).await.expect(400);
    assert_eq!(refused.body["code"], "MESSAGE_SCHEME_NOT_SERVED", "{:?}", refused.body);
    let body = super::with("/sender_auth/message_scheme", json!("EVM_PERMIT2"));
    for path in [VERIFY, "/v1/payments"] {
        let refused = post_to(&gateway, path, &body).await.expect(400);
        assert_eq!(refused.body["code"], "MESSAGE_SCHEME_NOT_SERVED", "{path}: {:?}", refused.body);
        assert_eq!(refused.body["request_id_reusable"], true);
    }
}

#[tokio::test]
async fn a_wallet_signs_what_was_prepared_as_it_is() {
    let anvil = devkit::Anvil::start(31_337, devkit::anvil::Mining::Instant).await.unwrap();
    let rpc = async |method: &str, params: Value| {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = reqwest::Client::new().post(anvil.url()).json(&call).send().await.unwrap();
        answer.json::<Value>().await.unwrap()["result"].take()
    };
    let account = rpc("eth_accounts", json!([])).await[0].as_str().unwrap().to_owned();
    let gateway = signatures::gateway(&anvil.url());
    for scheme in ["EVM_PERMIT2", "EVM_PERMIT2_ESCROW"] {
        let mut body = unsigned(&account);
        body["request_id"] = json!(scheme);
        body["message_scheme"] = json!(scheme);
        let prepared = post_to(&gateway, PREPARE, &body).await.expect(200);
        let mut message = prepared.body["signed_messages"][0].clone();
        let typed_data: Value = serde_json::from_str(message["message_prehash"].as_str().unwrap()).unwrap();
        message["signature"] = rpc("eth_signTypedData_v4", json!([account, typed_data])).await;
        body["sender_auth"] = json!({"message_scheme": scheme, "signed_messages": [message]});
        assert_eq!(gateway.post(&body).await.expect(200).body["idempotent_replay"], false);
    }
}
