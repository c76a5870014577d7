//! Awarding a collected quote.

use journal::StreamStore;

use super::*;

#[tokio::test]
async fn an_award_is_a_payment_of_the_batchs_terms_at_the_quotes_price() {
    let gateway = Gateway::new();
    let batch = open_batch(&gateway).await;
    // After the quote deadline, as long as the quote is valid (design: readings of the contract).
    gateway.clock.set("2030-01-01T00:01:30Z");
    let text = award_body("order-1", &batch.quote_ids[1]);
    let answer = gateway.post_to(&batch.award_path(), &text).await.expect(200);
    assert_eq!(members(&answer.body), BTreeSet::from(["payment_id", "status", "idempotent_replay"]));
    assert_eq!((&answer.body["status"], &answer.body["idempotent_replay"]), (&json!("pending"), &json!(false)));
    let payment_id = answer.payment_id();
    assert_eq!(payment_id, PaymentId::derive(&format!("eip155:{PAYER}"), "order-1"));

    let submitted = gateway.submitted(payment_id.as_str()).await;
    let opened = state_of(&gateway, &batch.id).await.opened;
    assert_eq!(submitted.terms, opened.terms);
    assert_eq!(submitted.quote_deadline, opened.quote_deadline);
    assert_eq!(submitted.fulfillment_deadline, opened.fulfillment_deadline);
    assert_eq!(submitted.request, text.to_string());
    let collected = submitted.collected_quote.unwrap();
    assert_eq!((collected.quote_request_id, collected.quote_id), (batch.id.clone(), batch.quote_ids[1].clone()));
    // The payer's witness names the quote.
    let Authorization::EvmPermit2Escrow(permit) = submitted.authorization else { panic!("{answer:?}") };
    assert_eq!(permit.quote_hash, batch.quotes[1].hash());

    let status = gateway.get(&format!("/v1/payments/{payment_id}/status")).await.expect(200);
    assert_eq!(status.body["quote_id"], batch.quote_ids[1].as_str());
    // Its declines are the batch's.
    assert!(status.body.get("decline_summary").is_none() && status.body.get("requested_count").is_none());
}

#[tokio::test]
async fn the_same_award_again_is_a_replay_of_its_payment() {
    let gateway = Gateway::new();
    let batch = open_batch(&gateway).await;
    let body = award_body("order-1", &batch.quote_ids[0]);
    let first = gateway.post_to(&batch.award_path(), &body).await.expect(200);
    let commits = gateway.journal.load(&(&first.payment_id()).into()).await.unwrap().len();
    for time in ["2030-01-01T00:00:00Z", "2031-01-01T00:00:00Z"] {
        gateway.clock.set(time);
        for blind in [false, true] {
            gateway.payments.set_blind(blind);
            let again = gateway.post_to(&batch.award_path(), &body).await.expect(200);
            assert_eq!(again.body["idempotent_replay"], true);
            assert_eq!(again.body["payment_id"], first.body["payment_id"]);
        }
    }
    // The payment answers its economics in the one-call flow too.
    gateway.payments.set_blind(false);
    assert_eq!(gateway.post(&super::body()).await.expect(200).body["idempotent_replay"], true);
    assert_eq!(gateway.journal.load(&(&first.payment_id()).into()).await.unwrap().len(), commits);

    // Every replay needs a good signature.
    let mut forged = body.clone();
    set(&mut forged, "/sender_auth/signed_messages/0/signature", json!(FORGED));
    gateway.post_to(&batch.award_path(), &forged).await.expect_error(401, "INVALID_SENDER_AUTH");
}

#[tokio::test]
async fn an_award_may_echo_its_batch_and_a_difference_is_named() {
    let gateway = Gateway::new();
    let batch = open_batch(&gateway).await;
    // All that the response echoes, besides the award's own members, and what was asked for besides.
    let mut echoed = gateway.get(&batch.path()).await.expect(200).body;
    for (name, value) in award_body("order-1", &batch.quote_ids[0]).as_object().unwrap() {
        set(&mut echoed, &format!("/{name}"), value.clone());
    }
    for (name, value) in [
        ("quote_selector", json!("")),
        ("settler_auth_required", json!({"kyc": false})),
        ("escrow_contract_address", json!(ESCROW)),
        ("fulfillment_proxy", json!(PROXY)),
        ("fulfillment_proxies", json!({"eip155:31338": PROXY})),
        ("fulfillment_verifier", json!({"account": VERIFIER, "endpoint": "http://127.0.0.1:8090"})),
    ] {
        set(&mut echoed, &format!("/{name}"), value);
    }
    let did = "did:web:a.example";
    for (pointer, value, named) in [
        ("/quote_request_id", json!("qrq_other"), "quote_request_id"),
        ("/source/account", json!(RECIPIENT), "source.account"),
        ("/source/asset_identifier", json!(DESTINATION_ASSET), "source.asset_identifier"),
        ("/destination/0/account", json!(PAYER), "destination"),
        ("/destination/1", json!({"asset_identifier": SOURCE_ASSET, "account": RECIPIENT}), "destination"),
        ("/fulfillment_amount", json!("1000001"), "fulfillment_amount"),
        ("/max_source_amount", json!("1099999"), "max_source_amount"),
        ("/quote_deadline", json!("2030-01-01T00:01:00.001Z"), "quote_deadline"),
        ("/fulfillment_deadline", json!("2030-01-01T00:10:01Z"), "fulfillment_deadline"),
        ("/settler_requirements", json!({"whitelist": [did]}), "settler_requirements.whitelist"),
        ("/settler_requirements", json!({"blacklist": [did]}), "settler_requirements.blacklist"),
        ("/settler_auth_required", json!({"kyc": true}), "settler_auth_required"),
        ("/quote_selector", json!(SELECTOR), "quote_selector"),
        ("/escrow_contract_address", json!(TRUSTED), "escrow_contract_address"),
        ("/fulfillment_proxy", json!(TRUSTED), "fulfillment_proxy"),
        ("/fulfillment_proxies", json!({"eip155:31338": TRUSTED}), "fulfillment_proxies.eip155:31338"),
        ("/fulfillment_proxies", json!({"eip155:31337": PROXY}), "fulfillment_proxies.eip155:31337"),
        ("/fulfillment_verifier/account", json!(TRUSTED), "fulfillment_verifier.account"),
        ("/fulfillment_verifier/endpoint", json!("https://verifier.example"), "fulfillment_verifier.endpoint"),
    ] {
        let mut other = echoed.clone();
        set(&mut other, pointer, value.clone());
        let answer = gateway.post_to(&batch.award_path(), &other).await.expect_error(409, "AWARD_TERMS_MISMATCH");
        assert!(answer.message().starts_with(&format!("{named}: ")), "{pointer}: {answer:?}");
        assert_eq!(answer.body["request_id_reusable"], true, "{pointer}: {answer:?}");
    }
    for (pointer, value, named) in [
        ("/source", json!("x"), "source"),
        ("/destination/0/account", json!("x"), "destination[0].account"),
        ("/fulfillment_amount", json!(5), "fulfillment_amount"),
        ("/quote_deadline", json!("tomorrow"), "quote_deadline"),
        ("/settler_requirements", json!({"whitelist": [5]}), "settler_requirements.whitelist[0]"),
    ] {
        let mut other = echoed.clone();
        set(&mut other, pointer, value.clone());
        let answer = gateway.post_to(&batch.award_path(), &other).await.expect_error(400, "INVALID_REQUEST");
        assert!(answer.message().starts_with(&format!("{named}: ")), "{pointer}: {answer:?}");
    }
    // The same in other letters is the same.
    set(&mut echoed, "/source/account", json!("0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"));
    set(&mut echoed, "/quote_deadline", json!("2030-01-01T01:01:00+01:00"));
    let awarded = gateway.post_to(&batch.award_path(), &echoed).await.expect(200);
    // A repetition has to be the batch's, too, and says which payment stands.
    set(&mut echoed, "/max_source_amount", json!("1"));
    let answer = gateway.post_to(&batch.award_path(), &echoed).await.expect_error(409, "AWARD_TERMS_MISMATCH");
    assert_eq!((&answer.body["request_id_reusable"], answer.payment_id()), (&json!(false), awarded.payment_id()));
}

#[tokio::test]
async fn the_read_of_a_batch_says_what_was_awarded_to_which_payment() {
    let gateway = Gateway::new();
    let batch = open_batch(&gateway).await;
    let before = gateway.get(&batch.path()).await.expect(200).body;
    assert_eq!((before.get("awarded_quote_id"), before.get("payment_id")), (None, None));
    let award = award_body("order-1", &batch.quote_ids[1]);
    let payment_id = gateway.post_to(&batch.award_path(), &award).await.expect(200).payment_id();
    let after = gateway.get(&batch.path()).await.expect(200);
    assert_eq!((&after.body["status"], after.payment_id()), (&json!("awarded"), payment_id));
    assert_eq!(after.body["awarded_quote_id"], batch.quote_ids[1].as_str());
    // The repeated opening knows no award.
    let replay = gateway.post_to(PATH, &quote_request()).await.expect(200).body;
    assert_eq!((replay.get("awarded_quote_id"), replay.get("payment_id")), (None, None));
}

#[tokio::test]
async fn the_quotes_of_a_batch_say_what_they_are_ordered_by() {
    let gateway = Gateway::new();
    let batch = open_batch(&gateway).await;
    let by_price = gateway.get(&batch.path()).await.expect(200).body;
    assert_eq!(by_price["quotes_ordered_by"], "price");

    let mut named = quote_request();
    set(&mut named, "/quote_selector", json!(SELECTOR));
    set(&mut named, "/request_id", json!("batch-2"));
    let id = open(&gateway, &named).await;
    assert!(gateway.get(&format!("{PATH}/{id}")).await.expect(200).body.get("quotes_ordered_by").is_none());
    let state = state_of(&gateway, &id).await;
    assert_eq!(state.opened.selector_answer_by, Some(at("2030-01-01T00:01:05Z")));
    let request = request_for_batch(&state.opened);
    let quotes = [quote(1, &request), quote(2, &request)];
    let bids = (1..).zip(&quotes).map(|(n, quote)| bid(n, BidAnswer::Quote(quote.document().to_owned()))).collect();
    let gathered = Gathered { addressed: vec![did(1), did(2)], bids, ..Gathered::default() };
    let mut collected = state.collect(gathered, at("2030-01-01T00:00:30Z"));
    let (choice, signature) = (String::new(), String::new());
    collected.selection = Some(BatchSelection { quote_hash: Some(quotes[1].hash()), choice, signature });
    append(&gateway, &id, QuoteRequestEvent::Collected(Box::new(collected))).await;
    for answer in [gateway.get(&format!("{PATH}/{id}")).await, gateway.post_to(PATH, &named).await] {
        let body = answer.expect(200).body;
        assert_eq!(body["quotes_ordered_by"], "selector");
        let shown: Vec<_> = body["quotes"].as_array().unwrap().iter().map(|quote| quote["quote_id"].clone()).collect();
        assert_eq!(shown, [json!(quotes[1].id()), json!(quotes[0].id())]);
    }
}

#[tokio::test]
async fn a_batch_is_awarded_once() {
    let gateway = Gateway::new();
    let batch = open_batch(&gateway).await;
    let first = gateway.post_to(&batch.award_path(), &award_body("order-1", &batch.quote_ids[0])).await.expect(200);
    for quote_id in &batch.quote_ids {
        let other = award_body("order-2", quote_id);
        let answer = gateway.post_to(&batch.award_path(), &other).await;
        let answer = answer.expect_error(409, "QUOTE_REQUEST_ALREADY_AWARDED");
        assert_eq!(answer.body["payment_id"], first.body["payment_id"]);
        assert_eq!(answer.body["request_id_reusable"], true);
        // The winner is named, and there will be no other: there is nothing to find out, and nothing to wait for.
        assert_eq!(answer.body["retry_classification"], "NOT_RETRYABLE");
    }
    // Under the id of the award, another quote is another order.
    let other = award_body("order-1", &batch.quote_ids[1]);
    gateway.post_to(&batch.award_path(), &other).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
    let mut unknown = other.clone();
    unknown["quote_id"] = json!("quo_other");
    gateway.post_to(&batch.award_path(), &unknown).await.expect_error(404, "QUOTE_NOT_FOUND");
}

#[tokio::test]
async fn simultaneous_awards_make_one_payment() {
    let gateway = Gateway::new();
    let batch = open_batch(&gateway).await;
    let path = batch.award_path();
    let awards = (0..8).map(|n| {
        let body = award_body(&format!("order-{n}"), &batch.quote_ids[n % 2]);
        let (gateway, path) = (&gateway, &path);
        async move { gateway.post_to(path, &body).await }
    });
    let answers = futures::future::join_all(awards).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == StatusCode::OK).count(), 1);
    for answer in answers.into_iter().filter(|answer| answer.status != StatusCode::OK) {
        answer.expect_error(409, "QUOTE_REQUEST_ALREADY_AWARDED");
    }
}

#[tokio::test]
async fn an_award_under_the_id_of_another_payment_is_refused() {
    let gateway = Gateway::new();
    let batch = open_batch(&gateway).await;
    // The same economics in the one-call flow, and other ones.
    gateway.post(&with("/request_id", json!("order-1"))).await.expect(200);
    let mut other = with("/request_id", json!("order-2"));
    set(&mut other, "/fulfillment_amount", json!("5"));
    gateway.post(&other).await.expect(200);
    for request_id in ["order-1", "order-2"] {
        let award = award_body(request_id, &batch.quote_ids[0]);
        let answer = gateway.post_to(&batch.award_path(), &award).await;
        let answer = answer.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
        assert!(answer.body["payment_id"].is_string());
    }
    assert_eq!(batch.status(&gateway).await, "ready");
}

#[tokio::test]
async fn what_is_collecting_or_has_lapsed_cannot_be_awarded() {
    let gateway = Gateway::new();
    let id = open(&gateway, &quote_request()).await;
    let path = format!("{PATH}/{id}/award");
    let answer = gateway.post_to(&path, &award_body("order-1", "quo_x")).await;
    let answer = answer.expect_error(409, "QUOTE_REQUEST_COLLECTING");
    assert_eq!(answer.body["retry_classification"], "RETRY_AFTER_DELAY");

    let quotes = collect(&gateway, &id, &[1]).await;
    let award = award_body("order-1", &quotes[0].id());
    gateway.clock.set("2030-01-01T00:02:01Z");
    let answer = gateway.post_to(&path, &award).await.expect_error(409, "QUOTE_EXPIRED");
    assert_eq!(answer.body["request_id_reusable"], true);
    // A bad signature is said first.
    let mut forged = award.clone();
    set(&mut forged, "/sender_auth/signed_messages/0/signature", json!(FORGED));
    gateway.post_to(&path, &forged).await.expect_error(401, "INVALID_SENDER_AUTH");
    let mut unjudged = award.clone();
    set(&mut unjudged, "/sender_auth/signed_messages/0/signature", json!(UNJUDGED));
    gateway.post_to(&path, &unjudged).await.expect_error(503, "SERVICE_UNAVAILABLE");
    // Nothing of it was kept.
    gateway.clock.set("2030-01-01T00:02:00Z");
    assert_eq!(gateway.post_to(&path, &award).await.expect(200).body["idempotent_replay"], false);
}

/// A batch that names the payment of its first quote, which has not begun: whoever was to begin it was cut off.
async fn cut_off(gateway: &Gateway) -> (Batch, PaymentId) {
    let batch = open_batch(gateway).await;
    let payment_id = PaymentId::derive(&format!("eip155:{PAYER}"), "order-1");
    let awarded = QuoteRequestAwarded {
        quote_id: batch.quote_ids[0].clone(),
        payment_id: payment_id.clone(),
        awarded_at: at("2030-01-01T00:01:00Z"),
    };
    append(gateway, &batch.id, QuoteRequestEvent::Awarded(awarded)).await;
    (batch, payment_id)
}

#[tokio::test]
async fn an_award_cut_off_after_the_batch_is_completed_by_its_repetition_alone() {
    let gateway = Gateway::new();
    let (batch, payment_id) = cut_off(&gateway).await;
    gateway.clock.set("2030-01-01T00:03:00Z");
    let path = batch.award_path();
    let other = award_body("order-2", &batch.quote_ids[0]);
    gateway.post_to(&path, &other).await.expect_error(409, "QUOTE_REQUEST_ALREADY_AWARDED");
    let other = award_body("order-1", &batch.quote_ids[1]);
    gateway.post_to(&path, &other).await.expect_error(409, "QUOTE_REQUEST_ALREADY_AWARDED");
    // The award was in time, whatever the time is now.
    let answer = gateway.post_to(&path, &award_body("order-1", &batch.quote_ids[0])).await.expect(200);
    assert_eq!((answer.payment_id(), &answer.body["idempotent_replay"]), (payment_id, &json!(false)));
}

/// The quote is spent for this payment alone, so its id is, too, whatever the payer holds by now.
#[tokio::test]
async fn an_award_cut_off_after_the_batch_keeps_its_id_while_its_payer_cannot_pay() {
    let gateway = Gateway::new();
    let (batch, payment_id) = cut_off(&gateway).await;
    let mut other = quote_request();
    set(&mut other, "/request_id", json!("batch-2"));
    let other = open_batch_of(&gateway, &other).await;
    let award = award_body("order-1", &batch.quote_ids[0]);
    let free = award_body("order-2", &other.quote_ids[0]);
    let refused = async |status: u16, code: &str| {
        let answer = gateway.post_to(&batch.award_path(), &award).await.expect_error(status, code);
        assert_eq!((&answer.body["request_id_reusable"], answer.payment_id()), (&json!(false), payment_id.clone()));
        // The control: what no batch names is free.
        let answer = gateway.post_to(&other.award_path(), &free).await.expect_error(status, code);
        assert_eq!((&answer.body["request_id_reusable"], answer.body.get("payment_id")), (&json!(true), None));
        assert!(gateway.journal.load(&(&payment_id).into()).await.unwrap().is_empty(), "{code}");
    };
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        gateway.funds.set(5, u64::MAX);
        refused(400, "INSUFFICIENT_FUNDS").await;
        gateway.funds.set(u64::MAX, 0);
        refused(400, "INSUFFICIENT_ALLOWANCE").await;
        gateway.funds.fail("node secret.internal is down");
        refused(503, "SERVICE_UNAVAILABLE").await;
    }
    // Once it can, the same call begins the payment.
    gateway.funds.set(u64::MAX, u64::MAX);
    let answer = gateway.post_to(&batch.award_path(), &award).await.expect(200);
    assert_eq!((answer.payment_id(), &answer.body["idempotent_replay"]), (payment_id, &json!(false)));
}

#[tokio::test]
async fn a_journal_that_fails_awards_nothing() {
    let gateway = Gateway::new();
    let batch = open_batch(&gateway).await;
    let award = award_body("order-1", &batch.quote_ids[0]);
    for _ in 0..3 {
        gateway.journal.inject(Fault::Unavailable);
    }
    gateway.post_to(&batch.award_path(), &award).await.expect_error(503, "SERVICE_UNAVAILABLE");
    assert_eq!(batch.status(&gateway).await, "ready");
    gateway.journal.inject(Fault::LoseAcknowledgement);
    assert_eq!(gateway.post_to(&batch.award_path(), &award).await.expect(200).body["idempotent_replay"], false);
}

#[tokio::test]
async fn a_permit_that_does_not_go_with_the_quote_is_no_authorization() {
    let gateway = Gateway::with_parts_of(Arc::new(Misfit));
    let batch = open_batch(&gateway).await;
    let award = award_body("order-1", &batch.quote_ids[0]);
    let answer = gateway.post_to(&batch.award_path(), &award).await.expect_error(401, "INVALID_SENDER_AUTH");
    assert!(answer.message().starts_with("sender_auth: "), "{answer:?}");
    assert_eq!(batch.status(&gateway).await, "ready");
}

/// Takes every signature, and says that it permits one unit.
struct Misfit;

#[async_trait]
impl Authorizer for Misfit {
    async fn authorize(&self, request: &AuthorizationRequest<'_>) -> Result<Authorized, AuthorizeError> {
        let Authorized { authorization, escrow } = LenientAuthorizer.authorize(request).await?;
        let Authorization::EvmPermit2Escrow(permit) = authorization else { unreachable!() };
        let amount = "1".parse().unwrap();
        Ok(Authorized { authorization: Authorization::EvmPermit2Escrow(Permit2 { amount, ..permit }), escrow })
    }

    async fn confirm(&self, _: &AuthorizationRequest<'_>, _: &Authorized) -> Result<(), AuthorizeError> {
        Ok(())
    }

    async fn prepare(
        &self,
        request: &AuthorizationRequest<'_>,
        payload: Option<&Map<String, Value>>,
    ) -> Result<Prepared, AuthorizeError> {
        LenientAuthorizer.prepare(request, payload).await
    }
}

impl Gateway {
    fn with_parts_of(authorizer: Arc<dyn Authorizer>) -> Self {
        let journal = MemoryJournal::new(4);
        Self::with_parts(Arc::new(journal.clone()), journal, authorizer, |_| {})
    }
}
