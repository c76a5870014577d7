//! Reads of a payment, and long polls: what is shown of it as it becomes known.

use serde_json::json;
use tokio::time::Instant;

use events::{
    ChainId, Did, Failure,
    event::{
        AuctionClosed, Decline, DepositMined, EscrowSecured, Failed, FulfillmentConfirmed, FulfillmentSeen, Inclusion,
        QuoteAwarded, RefundDue, TransactionPrepared, Validity,
    },
    failure::{BlockchainContext, Domain, RetryClassification},
};
use journal::StreamStore;
use sagas::ports::{Bid, Gathered};

use super::*;

pub(super) const DOCUMENT: &str = r#"{ "b" : 1.50, "a":"\u0041" }"#;

pub(super) fn inclusion(chain: u64, byte: u8) -> Inclusion {
    Inclusion {
        chain_id: ChainId::evm(chain),
        transaction_hash: Hash32([byte; 32]).to_string(),
        block_number: u64::from(byte),
        block_hash: Hash32([9; 32]).to_string(),
        block_time: 1_893_456_120,
    }
}

pub(super) fn prepared() -> PaymentEvent {
    PaymentEvent::DepositPrepared(TransactionPrepared {
        attempt: 1,
        chain_id: ChainId::evm(31_337),
        sender: VERIFIER.parse().unwrap(),
        validity: Validity::Nonce(1),
        transaction_hash: Hash32([1; 32]).to_string(),
        raw: "0x00".to_owned(),
        prepared_at: at("2030-01-01T00:00:01Z"),
    })
}

pub(super) fn closed(declines: &[(&str, &str)]) -> PaymentEvent {
    PaymentEvent::AuctionClosed(AuctionClosed {
        addressed: (0..4).map(|i| format!("did:web:{i}").parse().unwrap()).collect(),
        quotes: Vec::new(),
        declines: declines
            .iter()
            .map(|(settler, reason)| Decline { settler: settler.parse().unwrap(), reason: (*reason).to_owned() })
            .collect(),
        dropped: Vec::new(),
        held_policies: Vec::new(),
        passed_over: Vec::new(),
        alternates: Vec::new(),
        closed_at: at("2030-01-01T00:00:01Z"),
    })
}

pub(super) fn awarded(document: &str) -> PaymentEvent {
    PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
        quote_id: "quo_1".to_owned(),
        quote_hash: Hash32([5; 32]),
        document: document.to_owned(),
        awarded_at: at("2030-01-01T00:00:01Z"),
    }))
}

pub(super) fn secured() -> PaymentEvent {
    PaymentEvent::EscrowSecured(EscrowSecured {
        inclusion: inclusion(31_337, 1),
        amount: "5".parse().unwrap(),
        deposit: None,
    })
}

pub(super) fn seen() -> PaymentEvent {
    PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion(31_338, 2) })
}

pub(super) fn confirmed() -> PaymentEvent {
    PaymentEvent::FulfillmentConfirmed(FulfillmentConfirmed {
        inclusion: inclusion(31_338, 2),
        attestation: "0x".to_owned(),
        confirmed_at: at("2030-01-01T00:00:01Z"),
        release_from: None,
    })
}

pub(super) fn failed(failure: Failure) -> PaymentEvent {
    let failed_at = at("2030-01-01T00:00:01Z");
    PaymentEvent::Failed(Box::new(Failed { failure, refund: RefundDue::Nothing, failed_at }))
}

pub(super) fn no_quotes() -> Failure {
    Failure {
        code: Failure::NO_QUOTES_RECEIVED.to_owned(),
        message: "nobody offered".to_owned(),
        domain: None,
        retry_classification: None,
        blockchain_context: None,
    }
}

async fn status(gateway: &Gateway, payment_id: &PaymentId) -> Answer {
    gateway.get(&format!("/v1/payments/{payment_id}/status")).await.expect(200)
}

/// The receipt of a payment with the events of these tests.
fn confirmation(id: &PaymentId) -> Value {
    json!({
        "payment_id": id.as_str(),
        "request_id": "order-1",
        "source_chain_id": "eip155:31337",
        "destination_chain_id": "eip155:31338",
        "source_tx_hash": Hash32([1; 32]).to_string(),
        "destination_tx_hash": Hash32([2; 32]).to_string(),
        "fulfillment_timestamp": "2030-01-01T00:02:00Z",
        "source_block_number": 1,
        "destination_block_number": 2,
    })
}

/// Spec 2.11: what a pending payment drew, while it draws it; whoever declined and then quoted has not declined.
#[tokio::test]
async fn who_declined_is_shown_while_the_auction_is_open() {
    let gateway = Gateway::new();
    let id = gateway.post(&body()).await.expect(200).payment_id();
    let addressed: Vec<Did> = (0..4).map(|i| format!("did:web:{i}").parse().unwrap()).collect();
    let received_at = at("2029-12-31T00:00:00Z");
    let bid = |settler: usize, answer| Bid { settler: addressed[settler].token(), received_at, answer };
    let decline = |settler, reason: &str| bid(settler, sagas::ports::Answer::Decline(reason.to_owned()));
    let quote = bid(2, sagas::ports::Answer::Quote("a quote".to_owned()));
    let bids = vec![
        decline(0, "BUSY"),
        decline(0, "INSUFFICIENT_LIQUIDITY"),
        decline(1, "INSUFFICIENT_LIQUIDITY"),
        decline(2, "BUSY"),
        quote,
    ];
    *gateway.auctions.0.lock().unwrap() = Some(Gathered { addressed: addressed.clone(), bids, ..Gathered::default() });
    let shown = status(&gateway, &id).await.body;
    assert_eq!((&shown["status"], &shown["requested_count"]), (&json!("pending"), &json!(4)));
    let expected = json!({
        "reason": "INSUFFICIENT_LIQUIDITY",
        "count": 2,
        "retry_classification": "RETRY_AFTER_DELAY",
        "docs_url": "https://pay.example/docs/errors#INSUFFICIENT_LIQUIDITY",
    });
    assert_eq!(shown["decline_summary"], json!([expected]));
    let resolved = format!("/v1/payments/resolve?request_id=order-1&account={PAYER}");
    assert_eq!(gateway.get(&resolved).await.expect(200).body, shown);
    // What is on record in the end is the record's.
    gateway.append(&id, vec![closed(&[]), awarded(DOCUMENT)]).await;
    assert_eq!(status(&gateway, &id).await.body["decline_summary"], json!([]));
}

#[tokio::test]
async fn a_payment_is_shown_as_it_becomes_known() {
    let gateway = Gateway::new();
    let id = gateway.post(&body()).await.expect(200).payment_id();
    let replay = async || gateway.post(&body()).await.expect(200).body;

    let pending = json!({"payment_id": id.as_str(), "status": "pending", "idempotent_replay": true});
    assert_eq!(replay().await, pending);
    let mut shown = status(&gateway, &id).await.body;
    assert!(shown["updated_at"].as_str().unwrap().parse::<Timestamp>().is_ok());
    shown.as_object_mut().unwrap().remove("updated_at");
    assert_eq!(shown, json!({"payment_id": id.as_str(), "status": "pending"}));

    let declines = [("did:web:1", "INSUFFICIENT_LIQUIDITY"), ("did:web:2", "OWN_REASON"), ("did:web:3", "OWN_REASON")];
    gateway.append(&id, vec![closed(&declines), awarded(DOCUMENT), prepared()]).await;
    let answer = status(&gateway, &id).await;
    assert_eq!(answer.body["requested_count"], 4);
    assert_eq!(
        answer.body["decline_summary"],
        json!([
            {
                "reason": "INSUFFICIENT_LIQUIDITY",
                "count": 1,
                "retry_classification": "RETRY_AFTER_DELAY",
                "docs_url": "https://pay.example/docs/errors#INSUFFICIENT_LIQUIDITY",
            },
            {"reason": "OWN_REASON", "count": 2, "docs_url": "https://pay.example/docs/errors#OWN_REASON"},
        ])
    );
    assert_eq!(answer.body["quote_id"], "quo_1");
    // The bytes that came, not written anew.
    assert!(answer.text.contains(DOCUMENT), "{}", answer.text);
    let deposit = json!({"transaction_hash": Hash32([1; 32]).to_string(), "chain_id": "eip155:31337"});
    assert_eq!(answer.body["transactions"], json!({"deposit": deposit}));
    let response = replay().await;
    assert!(response.get("quote_id").is_none() && response.get("fulfillment_quote").is_none(), "{response}");
    assert_eq!(response["transactions"], json!({"deposit": deposit}));

    // Spec 2.7: from the block that it is mined in, and told apart from the block in which it stays.
    let block = |response: &Value, stage: &str| {
        let transaction = &response["transactions"][stage];
        (transaction["block_number"].as_u64(), transaction["settled"].as_bool())
    };
    assert_eq!(block(&replay().await, "deposit"), (None, None));
    gateway.append(&id, vec![PaymentEvent::DepositMined(DepositMined { inclusion: inclusion(31_337, 1) })]).await;
    assert_eq!(block(&replay().await, "deposit"), (Some(1), Some(false)));
    // The block itself, and two above it.
    assert_eq!(status(&gateway, &id).await.body["transactions"]["deposit"]["confirmations"], 3);
    gateway.append(&id, vec![secured()]).await;
    assert_eq!(block(&replay().await, "deposit"), (Some(1), Some(true)));
    assert_eq!(status(&gateway, &id).await.body["transactions"]["deposit"].get("confirmations"), None);
    gateway.append(&id, vec![seen()]).await;
    let response = replay().await;
    assert_eq!(response["status"], "finalizing");
    assert_eq!(block(&response, "deposit"), (Some(1), Some(true)));
    assert_eq!(block(&response, "fulfillment"), (Some(2), Some(false)));
    assert!(response.get("fulfillment_confirmation").is_none());

    gateway.append(&id, vec![confirmed()]).await;
    for answer in [gateway.post(&body()).await.expect(200), status(&gateway, &id).await] {
        assert_eq!(answer.body["status"], "completed");
        assert_eq!(answer.body["fulfillment_confirmation"], confirmation(&id));
        assert_eq!(answer.body["quote_id"], "quo_1");
        assert!(answer.text.contains(DOCUMENT), "{}", answer.text);
        assert!(answer.body.get("error").is_none());
    }
}

#[tokio::test]
async fn an_unreadable_quote_is_left_out_and_its_id_kept() {
    for unreadable in ["", "not json", "[1]", "{\"a\":1} trailing"] {
        let gateway = Gateway::new();
        let id = gateway.post(&body()).await.expect(200).payment_id();
        gateway.append(&id, vec![closed(&[]), awarded(unreadable)]).await;
        let answer = status(&gateway, &id).await;
        assert_eq!(answer.body["quote_id"], "quo_1", "{unreadable}");
        assert!(answer.body.get("fulfillment_quote").is_none(), "{unreadable}");
        assert_eq!(answer.body["decline_summary"], json!([]), "{unreadable}");
        // As it is when the payment is completed, in the answer of a submission, too.
        gateway.append(&id, vec![prepared(), secured(), seen(), confirmed()]).await;
        for answer in [gateway.post(&body()).await.expect(200), status(&gateway, &id).await] {
            let body = answer.body;
            assert_eq!((&body["status"], &body["quote_id"]), (&json!("completed"), &json!("quo_1")), "{unreadable}");
            assert!(body.get("fulfillment_quote").is_none(), "{unreadable}");
        }
    }
}

#[tokio::test]
async fn a_failure_is_the_same_however_it_is_read() {
    let gateway = Gateway::new();
    let id = gateway.post(&body()).await.expect(200).payment_id();
    gateway.append(&id, vec![closed(&[]), failed(no_quotes())]).await;
    let error = json!({
        "code": "NO_QUOTES_RECEIVED",
        "message": "nobody offered",
        "domain": "SETTLER_GATEWAY",
        "docs_url": "https://pay.example/docs/errors#NO_QUOTES_RECEIVED",
        "retry_classification": "RETRY_WITH_NEW_REQUEST_ID",
        "request_id_reusable": false,
    });
    for answer in [gateway.post(&body()).await.expect(200), status(&gateway, &id).await] {
        assert_eq!(answer.body["status"], "failed");
        assert_eq!(answer.body["error"], error);
        assert_eq!(answer.body["transactions"], json!({}));
    }
}

#[tokio::test]
async fn a_failure_on_chain_carries_its_context() {
    for (gas_used, gas_needed) in [(None, None), (Some("51234"), Some("60000")), (Some("1"), None)] {
        let gateway = Gateway::new();
        let id = gateway.post(&body()).await.expect(200).payment_id();
        let failure = Failure {
            code: Failure::SETTLEMENT_FAILED.to_owned(),
            message: "the deposit reverted".to_owned(),
            domain: Some(Domain::Blockchain),
            retry_classification: Some(RetryClassification::NotRetryable),
            blockchain_context: Some(BlockchainContext {
                chain_id: ChainId::evm(31_337),
                transaction_hash: Some(Hash32([1; 32]).to_string()),
                block_number: Some(7),
                contract_address: Some(ESCROW.to_owned()),
                revert_reason: Some("TRANSFER_FROM_FAILED".to_owned()),
                gas_used: gas_used.map(str::to_owned),
                estimated_gas_needed: gas_needed.map(str::to_owned),
            }),
        };
        gateway.append(&id, vec![closed(&[]), awarded(DOCUMENT), prepared()]).await;
        gateway.append(&id, vec![failed(failure)]).await;
        let mut context = json!({
            "chain_id": "eip155:31337",
            "transaction_hash": Hash32([1; 32]).to_string(),
            "block_number": 7,
            "contract_address": ESCROW,
            "revert_reason": "TRANSFER_FROM_FAILED",
        });
        for (member, known) in [("gas_used", gas_used), ("estimated_gas_needed", gas_needed)] {
            if let Some(known) = known {
                context[member] = json!(known);
            }
        }
        for answer in [gateway.post(&body()).await.expect(200), status(&gateway, &id).await] {
            assert_eq!(answer.body["error"]["retry_classification"], "NOT_RETRYABLE");
            assert_eq!(answer.body["error"]["blockchain_context"], context);
            assert_eq!(answer.body["transactions"]["deposit"]["block_number"], 7);
        }
    }
}

/// Spec 2.9: the common codes. The engine ends no payment with `INTERNAL_ERROR`: a fault of the gateway's own parks it.
#[tokio::test]
async fn the_common_codes_of_a_failure_are_shown_with_what_the_table_says_of_them() {
    for (code, domain, classification) in [
        ("SETTLEMENT_FAILED", "BLOCKCHAIN", "RETRY_WITH_NEW_REQUEST_ID"),
        ("NO_QUOTES_RECEIVED", "SETTLER_GATEWAY", "RETRY_WITH_NEW_REQUEST_ID"),
        ("INTERNAL_ERROR", "PAYMENT_GATEWAY", "RECONCILE_THEN_DECIDE"),
    ] {
        let gateway = Gateway::new();
        let id = gateway.post(&body()).await.expect(200).payment_id();
        gateway.append(&id, vec![closed(&[]), failed(Failure { code: code.to_owned(), ..no_quotes() })]).await;
        let error = json!({
            "code": code,
            "message": "nobody offered",
            "domain": domain,
            "docs_url": format!("https://pay.example/docs/errors#{code}"),
            "retry_classification": classification,
            "request_id_reusable": false,
        });
        for answer in [gateway.post(&body()).await.expect(200), status(&gateway, &id).await] {
            assert_eq!((&answer.body["status"], &answer.body["error"]), (&json!("failed"), &error));
        }
    }
}

/// Spec 2.9: only when the failure happened on chain. Streams of before have contexts of what never reached one.
#[tokio::test]
async fn a_failure_of_which_nothing_reached_a_chain_has_no_context_and_says_why_in_words() {
    let gateway = Gateway::new();
    let context = |revert_reason: Option<&str>| BlockchainContext {
        chain_id: ChainId::evm(31_337),
        transaction_hash: None,
        block_number: None,
        contract_address: Some(ESCROW.to_owned()),
        revert_reason: revert_reason.map(str::to_owned),
        gas_used: None,
        estimated_gas_needed: None,
    };
    for (request_id, reason, message) in [
        ("refused", Some("TRANSFER_FROM_FAILED"), "nobody offered (TRANSFER_FROM_FAILED)"),
        ("undelivered", None, "nobody offered"),
    ] {
        let mut body = body();
        body["request_id"] = request_id.into();
        let id = gateway.post(&body).await.expect(200).payment_id();
        let failure = Failure { blockchain_context: Some(context(reason)), ..no_quotes() };
        gateway.append(&id, vec![closed(&[]), awarded(DOCUMENT)]).await;
        gateway.append(&id, vec![failed(failure)]).await;
        let error = status(&gateway, &id).await.body["error"].clone();
        assert_eq!((&error["message"], error.get("blockchain_context")), (&json!(message), None), "{error}");
    }
}

#[tokio::test]
async fn a_payment_can_be_read_at_once_and_an_unknown_one_is_404() {
    let gateway = Gateway::new();
    gateway.payments.set_blind(true);
    let id = gateway.post(&body()).await.expect(200).payment_id();
    assert_eq!(status(&gateway, &id).await.body["status"], "pending");
    for unknown in ["pay_x", "order-1", "%ff", PaymentId::derive("nobody", "1").as_str()] {
        let answer = gateway.get(&format!("/v1/payments/{unknown}/status")).await;
        answer.expect_error(404, "PAYMENT_NOT_FOUND");
    }
}

#[tokio::test]
async fn a_submission_is_held_for_its_outcome() {
    let gateway = Arc::new(Gateway::configured(|config| config.http.hold_ms_max = 30_000));
    let id = PaymentId::derive(&format!("eip155:{PAYER}"), "order-1");
    let held = tokio::spawn({
        let gateway = gateway.clone();
        async move { gateway.post(&body()).await }
    });
    while gateway.journal.load(&(&id).into()).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    gateway.append(&id, vec![closed(&[]), awarded(DOCUMENT), prepared()]).await;
    gateway.append(&id, vec![secured()]).await;
    gateway.append(&id, vec![seen()]).await;
    assert!(!held.is_finished());
    gateway.append(&id, vec![confirmed()]).await;
    let answer = held.await.unwrap().expect(200);
    assert_eq!(answer.body["status"], "completed");
    assert_eq!(answer.body["idempotent_replay"], false);
    assert!(answer.body["fulfillment_confirmation"].is_object());
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_by_itself_and_the_caller_may_shorten_it() {
    let gateway = Gateway::configured(|config| config.http.hold_ms_max = 20_000);
    for (i, (prefer, seconds)) in [
        (None, 20),
        (Some("wait=5"), 5),
        (Some("respond-async, WAIT = \"7\"; x=1"), 7),
        (Some("wait=0"), 0),
        (Some("wait=99999999999"), 20),
        (Some("wait=-1"), 20),
        (Some("wait=soon"), 20),
        (Some("handling=lenient"), 20),
    ]
    .into_iter()
    .enumerate()
    {
        let mut request = Request::post("/v1/payments").header("content-type", "application/json");
        if let Some(prefer) = prefer {
            request = request.header("prefer", prefer);
        }
        let body = with("/request_id", json!(format!("order-{i}"))).to_string();
        let started = Instant::now();
        let answer = gateway.send(request.body(body.into()).unwrap()).await.expect(200);
        assert_eq!(answer.body["status"], "pending");
        assert_eq!(started.elapsed().as_secs(), seconds, "{prefer:?}");
    }
}

/// The hold is one of the request, so that a slow body, or checks that wait for a node, take nothing on top of it (spec 8).
#[tokio::test(start_paused = true)]
async fn a_hold_counts_from_the_arrival_of_its_request() {
    let gateway = Gateway::configured(|config| {
        config.http.hold_ms_max = 5_000;
        config.http.quotes_hold_ms_max = 5_000;
    });
    let mut quotes = body();
    quotes.as_object_mut().unwrap().remove("sender_auth");
    for (path, body) in [("/v1/payments", body()), ("/v1/payments/quote-requests?wait=true", quotes)] {
        let (first, second) = (body.to_string(), b"  ".as_slice());
        let slow = futures::stream::unfold(0, move |n| {
            let chunk = if n == 0 { first.clone().into_bytes() } else { second.to_vec() };
            async move {
                tokio::time::sleep(Duration::from_millis(600)).await;
                (n < 2).then_some((Ok::<_, std::convert::Infallible>(chunk), n + 1))
            }
        });
        let request = Request::post(path).header("content-type", "application/json");
        let started = Instant::now();
        gateway.send(request.body(Body::from_stream(slow)).unwrap()).await.expect(200);
        assert_eq!(started.elapsed().as_millis() / 10, 500, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopping_gateway_ends_its_holds() {
    let gateway = Arc::new(Gateway::configured(|config| config.http.hold_ms_max = 30_000));
    let held = tokio::spawn({
        let gateway = gateway.clone();
        async move { gateway.post(&body()).await }
    });
    let id = PaymentId::derive(&format!("eip155:{PAYER}"), "order-1");
    while gateway.journal.load(&(&id).into()).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let started = Instant::now();
    gateway.stopping.cancel();
    let answer = held.await.unwrap().expect(200);
    assert_eq!((answer.body["status"].as_str(), &answer.body["idempotent_replay"]), (Some("pending"), &json!(false)));
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn holds_above_their_number_are_answered_at_once() {
    let gateway = Gateway::configured(|config| {
        config.http.hold_ms_max = 30_000;
        config.http.holds_max = 0;
    });
    let started = Instant::now();
    assert_eq!(gateway.post(&body()).await.expect(200).body["status"], "pending");
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_replay_is_not_held() {
    let gateway = Gateway::configured(|config| config.http.hold_ms_max = 30_000);
    gateway.post(&body()).await.expect(200);
    let started = Instant::now();
    assert_eq!(gateway.post(&body()).await.expect(200).body["idempotent_replay"], true);
    assert_eq!(started.elapsed(), Duration::ZERO);
}
