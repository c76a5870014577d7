//! Untrusted clients: what they are refused before anything is kept for them, which is windows that never end, payments
//! that nobody can pay, deliveries to contracts, and more open quote-requests than there may be.

use alloy::signers::local::PrivateKeySigner;
use futures::future::join_all;

use chains_evm::authorization::{Choice, Scheme};
use journal::ShardLog;

use super::{
    quote_requests::quote_request,
    reads::{closed, failed, no_quotes},
    *,
};

const PREPARE: &str = "/v1/payments/prepare";
const VERIFY: &str = "/v1/payments/verify";
const QUOTES: &str = "/v1/payments/quote-requests";

impl Gateway {
    /// Commits in the journal.
    async fn commits(&self) -> u64 {
        let mut commits = 0;
        for shard in 0..self.journal.shards() {
            commits += self.journal.head(shard).await.unwrap();
        }
        commits
    }
}

/// `body` without what authorizes it.
fn unsigned(mut body: Value) -> Value {
    body.as_object_mut().unwrap().remove("sender_auth");
    body
}

#[tokio::test]
async fn windows_beyond_the_limits_are_refused_wherever_they_are_stated() {
    let gateway = Gateway::new();
    // The limits themselves: ten minutes, and a day.
    let (quote, fulfillment) = ("2030-01-01T00:10:00Z", "2030-01-02T00:10:00Z");
    let body = |quote: &str, fulfillment: &str| {
        let mut body = with("/quote_deadline", json!(quote));
        set(&mut body, "/fulfillment_deadline", json!(fulfillment));
        body
    };
    for (quote, fulfillment, named) in [
        ("2030-01-01T00:10:00.001Z", fulfillment, "quote_deadline: must be at most 600 seconds"),
        ("9999-12-31T23:59:58Z", "9999-12-31T23:59:59Z", "quote_deadline: must be at most 600 seconds"),
        (quote, "2030-01-02T00:10:00.001Z", "fulfillment_deadline: must be at most 86400 seconds"),
        (quote, "9999-12-31T23:59:59Z", "fulfillment_deadline: must be at most 86400 seconds"),
    ] {
        let far = body(quote, fulfillment);
        for (path, body) in [
            ("/v1/payments", far.clone()),
            (VERIFY, far.clone()),
            (PREPARE, unsigned(far.clone())),
            (QUOTES, unsigned(far.clone())),
        ] {
            let answer = gateway.post_to(path, &body).await.expect_error(400, "INVALID_DEADLINE");
            assert!(answer.message().starts_with(named), "{path}: {answer:?}");
            assert_eq!(answer.body["request_id_reusable"], true);
        }
        // A merchant's requirement that allows it changes nothing.
        let mut message = x402::message_of(&far);
        for at in ["/paymentRequirements", "/paymentPayload/accepted"] {
            set(&mut message, &format!("{at}/extra/gw/quoteDeadlineSeconds"), json!(u64::MAX - 1));
            set(&mut message, &format!("{at}/extra/gw/fulfillmentDeadlineSeconds"), json!(u64::MAX));
        }
        for (path, reason) in [("/x402/v1/verify", "invalidReason"), ("/x402/v1/settle", "errorReason")] {
            assert_eq!(gateway.post_to(path, &message).await.expect(200).body[reason], "invalid_deadline");
        }
    }
    assert_eq!(gateway.commits().await, 0);
    gateway.post_to(QUOTES, &unsigned(body(quote, fulfillment))).await.expect(200);
    gateway.post_to(PREPARE, &unsigned(body(quote, fulfillment))).await.expect(200);
    gateway.post(&body(quote, fulfillment)).await.expect(200);
    // What exists is answered whatever its repetition says.
    let replay = gateway.post(&body("2031-01-01T00:00:00Z", "9999-12-31T23:59:59Z")).await.expect(200);
    assert_eq!(replay.body["idempotent_replay"], true);
}

#[tokio::test]
async fn a_narrower_limit_has_no_say_about_what_exists() {
    let journal = MemoryJournal::new(4);
    let identifiers = Arc::new(MemoryIdentifiers::default());
    let wide = Gateway::sharing(journal.clone(), identifiers.clone(), |_| {});
    let first = wide.post(&body()).await.expect(200);
    let batch = quote_requests::open_batch(&wide).await;
    let narrow = Gateway::sharing(journal, identifiers, |config| {
        config.deadlines.quote_seconds_max = 10;
        config.deadlines.settlement_seconds_max = 60;
    });
    let replay = narrow.post(&body()).await.expect(200);
    assert_eq!((&replay.body["idempotent_replay"], replay.payment_id()), (&json!(true), first.payment_id()));
    assert_eq!(narrow.post_to(QUOTES, &quote_request()).await.expect(200).body["idempotent_replay"], true);
    // A batch of the wider time makes no new payment: its settlement window is too long by now.
    let award = quote_requests::award_body("order-9", &batch.quote_ids[0]);
    let answer = narrow.post_to(&batch.award_path(), &award).await.expect_error(400, "INVALID_DEADLINE");
    assert!(answer.message().starts_with("fulfillment_deadline: must be at most 60 seconds"), "{answer:?}");
    let prepare = json!({
        "version": "1.0", "request_id": "order-9", "quote_request_id": batch.id, "quote_id": batch.quote_ids[0],
    });
    narrow.post_to(PREPARE, &prepare).await.expect_error(400, "INVALID_DEADLINE");
    // The one that was awarded before is the same payment.
    let awarded = wide.post_to(&batch.award_path(), &award).await.expect(200);
    let replay = narrow.post_to(&batch.award_path(), &award).await.expect(200);
    assert_eq!((&replay.body["idempotent_replay"], replay.payment_id()), (&json!(true), awarded.payment_id()));
}

#[tokio::test]
async fn what_a_payer_signed_is_bound_by_the_same_limits() {
    let anvil = devkit::Anvil::start(31_337, devkit::anvil::Mining::Instant).await.unwrap();
    let gateway = signatures::gateway(&anvil.url());
    let signer = PrivateKeySigner::random();
    let deadline = unix_seconds(at("2030-01-01T00:10:00Z"));
    let most = deadline + 86_400;
    for refund_after in [most + 1, 253_402_300_800, (1 << 48) - 1] {
        let choice = Choice { refund_after: Some(refund_after), ..Choice::default() };
        let body = signatures::chosen_body(&signer, Scheme::EvmPermit2Escrow, &choice);
        // In the typed data, and where the payload alone says it.
        let mut short = body.clone();
        let message = &mut short["sender_auth"]["signed_messages"][0];
        message.as_object_mut().unwrap().remove("message_prehash");
        message["payload"] = json!({"refund_after": refund_after});
        for body in [&body, &short] {
            for path in ["/v1/payments", VERIFY] {
                let answer = gateway.post_to(path, body).await.expect_error(400, "INVALID_DEADLINE");
                assert!(answer.message().starts_with("refund_after: must be at most 86400 seconds"), "{answer:?}");
            }
        }
        let mut asked = unsigned(body);
        asked["payload"] = json!({"refund_after": refund_after});
        gateway.post_to(PREPARE, &asked).await.expect_error(400, "INVALID_DEADLINE");
    }
    // Beyond what the contracts hold, and before and behind what the rules of the windows allow.
    for (payload, named) in [
        (json!({"refund_after": 1_u64 << 48}), "payload.refund_after"),
        (json!({"refund_after": u64::MAX}), "payload.refund_after"),
        (json!({"reserve_deadline": u64::MAX}), "payload.reserve_deadline"),
        (json!({"reserve_deadline": deadline + 1}), "message.witness.reserveDeadline"),
    ] {
        let mut asked = unsigned(signatures::signed_body(&signer, Scheme::EvmPermit2Escrow));
        asked["payload"] = payload;
        let answer = gateway.post_to(PREPARE, &asked).await.expect_error(400, "INVALID_REQUEST");
        assert!(answer.message().starts_with(named), "{answer:?}");
    }
    assert_eq!((gateway.commits().await, gateway.funds.asked()), (0, 0));
    let choice = Choice { refund_after: Some(most), ..Choice::default() };
    gateway.post(&signatures::chosen_body(&signer, Scheme::EvmPermit2Escrow, &choice)).await.expect(200);
}

#[tokio::test]
async fn a_payer_who_cannot_pay_is_refused_before_anything_is_kept() {
    let gateway = Gateway::new();
    for (balance, allowance, code, said) in [
        (1_099_999, u64::MAX, "INSUFFICIENT_FUNDS", "source: holds 1099999 of"),
        (1_100_000, 1_099_999, "INSUFFICIENT_ALLOWANCE", "source: allows permit2 to draw 1099999 of"),
    ] {
        gateway.funds.set(balance, allowance);
        for path in ["/v1/payments", VERIFY] {
            let answer = gateway.post_to(path, &body()).await.expect_error(400, code);
            assert!(answer.message().starts_with(said) && answer.message().ends_with("needs 1100000"), "{answer:?}");
            assert_eq!(
                (&answer.body["request_id_reusable"], &answer.body["retry_classification"]),
                (&json!(true), &json!("RETRY_AFTER_DELAY"))
            );
        }
    }
    gateway.funds.set(1_100_000, 1_100_000);
    gateway.funds.used.store(true, Ordering::SeqCst);
    for (path, body) in [("/v1/payments", body()), (VERIFY, body()), (PREPARE, unsigned(body()))] {
        let answer = gateway.post_to(path, &body).await.expect_error(400, "NONCE_ALREADY_USED");
        assert_eq!(answer.body["retry_classification"], "RETRY_WITH_NEW_REQUEST_ID");
    }
    gateway.funds.used.store(false, Ordering::SeqCst);
    gateway.funds.fail("node secret.internal is down");
    let other = with("/source/account", json!(RECIPIENT));
    for (path, body) in [("/v1/payments", other.clone()), (VERIFY, other.clone()), (PREPARE, unsigned(other))] {
        let answer = gateway.post_to(path, &body).await.expect_error(503, "SERVICE_UNAVAILABLE");
        assert!(!answer.text.contains("secret.internal"), "{answer:?}");
    }
    assert_eq!(gateway.commits().await, 0);
    // The control, with exactly what is needed; and what exists is not asked about any more.
    gateway.funds.set(1_100_000, 1_100_000);
    gateway.post(&body()).await.expect(200);
    gateway.funds.set(0, 0);
    gateway.funds.used.store(true, Ordering::SeqCst);
    let asked = gateway.funds.asked();
    for path in ["/v1/payments", VERIFY] {
        assert_eq!(gateway.post_to(path, &body()).await.expect(200).body["status"], "pending", "{path}");
    }
    // Whoever sends it again may ask what to sign.
    let prepared = gateway.post_to(PREPARE, &unsigned(body())).await.expect(200);
    assert!(prepared.body.get("approval").is_none(), "{prepared:?}");
    assert_eq!(gateway.funds.asked(), asked);
}

/// A balance that is enough for two payments is shown for two, also by many at once, and stands for the next when one has ended.
#[tokio::test]
async fn one_balance_stands_for_as_many_payments_as_it_is_enough_for() {
    let gateway = Gateway::new();
    gateway.funds.set(2_200_000, u64::MAX);
    let numbered = |n: usize| with("/request_id", json!(format!("of-one-balance-{n}")));
    let bodies: Vec<Value> = (0..8).map(numbered).collect();
    let answers = join_all(bodies.iter().map(|body| gateway.post(body))).await;
    let (accepted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!((accepted.len(), refused.len()), (2, 6));
    for answer in refused {
        let answer = answer.expect_error(400, "INSUFFICIENT_FUNDS");
        assert!(answer.message().contains("of which 2200000 are signed away"), "{answer:?}");
    }
    // Another account is not concerned, and a rehearsal promises nothing.
    gateway.post(&with("/source/account", json!(RECIPIENT))).await.expect(200);
    gateway.post_to(VERIFY, &numbered(8)).await.expect_error(400, "INSUFFICIENT_FUNDS");

    let ended = accepted[0].payment_id();
    gateway.append(&ended, vec![closed(&[]), failed(no_quotes())]).await;
    gateway.post_to(VERIFY, &numbered(8)).await.expect(200);
    gateway.post(&numbered(8)).await.expect(200);
    gateway.post(&numbered(9)).await.expect_error(400, "INSUFFICIENT_FUNDS");
}

/// What costs a caller nothing costs no call to a node.
#[tokio::test]
async fn nothing_forged_or_malformed_is_asked_about() {
    let gateway = Gateway::new();
    let far = with("/fulfillment_deadline", json!("2035-01-01T00:00:00Z"));
    for (path, body, status) in [
        ("/v1/payments", with("/sender_auth/signed_messages/0/signature", json!(FORGED)), 401),
        (VERIFY, with("/sender_auth/signed_messages/0/signature", json!(FORGED)), 401),
        ("/v1/payments", with("/sender_auth/signed_messages/0/signature", json!(UNAPPROVED)), 401),
        ("/v1/payments", with("/quote_deadline", json!("2020-01-01T00:00:00Z")), 400),
        ("/v1/payments", far.clone(), 400),
        (PREPARE, unsigned(far), 400),
        (PREPARE, unsigned(with("/destination/0/account", json!(ESCROW))), 400),
        ("/v1/payments", without("/source"), 400),
    ] {
        gateway.post_to(path, &body).await.expect(status);
    }
    // A quote-request authorizes nothing, so nothing has to be there for it.
    gateway.funds.set(0, 0);
    gateway.post_to(QUOTES, &quote_request()).await.expect(200);
    assert_eq!(gateway.funds.asked(), 0);
}

#[tokio::test]
async fn what_is_prepared_comes_with_the_approval_that_is_missing() {
    let gateway = Gateway::new();
    let asked = unsigned(body());
    let prepared = gateway.post_to(PREPARE, &asked).await.expect(200);
    assert!(prepared.body.get("approval").is_none(), "{prepared:?}");
    let gateway = Gateway::new();
    gateway.funds.set(1_100_000, 1_099_999);
    let prepared = gateway.post_to(PREPARE, &asked).await.expect(200);
    assert_eq!(
        prepared.body["approval"],
        json!({
            "asset_identifier": SOURCE_ASSET, "spender": "permit2", "amount": "1100000", "call": {"to": "token"},
        })
    );
    assert_eq!(prepared.body["signed_messages"].as_array().unwrap().len(), 1);
    let gateway = Gateway::new();
    gateway.funds.set(1_099_999, 0);
    gateway.post_to(PREPARE, &asked).await.expect_error(400, "INSUFFICIENT_FUNDS");
}

/// An award draws the price of its quote, and not the cap.
#[tokio::test]
async fn an_award_needs_its_price_and_not_a_unit_less() {
    let gateway = Gateway::new();
    let batch = quote_requests::open_batch(&gateway).await;
    let price: u64 = batch.quotes[0].quote().source_amount.to_string().parse().unwrap();
    let award = quote_requests::award_body("order-1", &batch.quote_ids[0]);
    let prepare = json!({
        "version": "1.0", "request_id": "order-1", "quote_request_id": batch.id, "quote_id": batch.quote_ids[0],
    });
    let before = gateway.commits().await;
    gateway.funds.set(price - 1, u64::MAX);
    gateway.post_to(&batch.award_path(), &award).await.expect_error(400, "INSUFFICIENT_FUNDS");
    gateway.post_to(PREPARE, &prepare).await.expect_error(400, "INSUFFICIENT_FUNDS");
    gateway.funds.set(price, price - 1);
    gateway.post_to(&batch.award_path(), &award).await.expect_error(400, "INSUFFICIENT_ALLOWANCE");
    let prepared = gateway.post_to(PREPARE, &prepare).await.expect(200);
    assert_eq!(prepared.body["approval"]["amount"], price.to_string());
    assert_eq!(gateway.commits().await, before);
    gateway.funds.set(price, price);
    gateway.post_to(&batch.award_path(), &award).await.expect(200);
    gateway.funds.set(0, 0);
    assert_eq!(gateway.post_to(&batch.award_path(), &award).await.expect(200).body["idempotent_replay"], true);
}

#[tokio::test]
async fn nothing_is_delivered_to_a_contract_that_payments_go_through() {
    let gateway = Gateway::configured(|config| {
        config.trust.escrow_contracts.push(format!("eip155:31338:{VERIFIER}").try_into().unwrap());
    });
    let permit2 = "0x000000000022d473030f116ddee9f6b43ac78ba3";
    let token = "0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0";
    for (account, what) in [
        (ESCROW, "an escrow contract"),
        (VERIFIER, "an escrow contract"),
        (PROXY, "a fulfillment proxy"),
        (TRUSTED, "a fulfillment proxy"),
        (permit2, "Permit2"),
        ("0x000000000022D473030F116dDEE9F6B43aC78BA3", "Permit2"),
        (token, "a token contract"),
    ] {
        let body = with("/destination/0/account", json!(account));
        for (path, body) in [
            ("/v1/payments", body.clone()),
            (VERIFY, body.clone()),
            (PREPARE, unsigned(body.clone())),
            (QUOTES, unsigned(body.clone())),
        ] {
            let answer = gateway.post_to(path, &body).await.expect_error(400, "INVALID_DESTINATION_ACCOUNT");
            let said = format!("destination[0].account: must not be {what}: ");
            assert!(answer.message().starts_with(&said), "{path}: {answer:?}");
        }
        let mut message = x402::message_of(&body);
        for at in ["/paymentRequirements", "/paymentPayload/accepted"] {
            set(&mut message, &format!("{at}/extra/gw/destination/address"), json!(account));
            set(&mut message, &format!("{at}/payTo"), json!(account));
        }
        for (path, reason) in [("/x402/v1/verify", "invalidReason"), ("/x402/v1/settle", "errorReason")] {
            let answer = gateway.post_to(path, &message).await.expect(400);
            assert_eq!(answer.body[reason], "invalid_destination_account", "{answer:?}");
        }
    }
    // Where it means nothing, an address is as good as any other.
    gateway.post(&with("/destination/0/account", json!(PAYER))).await.expect(200);
    assert_eq!(gateway.commits().await, 1);
}

#[tokio::test]
async fn as_many_quote_requests_are_open_as_there_may_be() {
    let gateway = Gateway::configured(|config| config.http.quote_requests_open_max = 3);
    let numbered = |n: usize| {
        let mut body = quote_request();
        set(&mut body, "/request_id", json!(format!("batch-{n}")));
        body
    };
    // As the read model takes them in.
    let known = |open| gateway.payments.collecting.store(open, Ordering::SeqCst);
    for n in 0..3 {
        gateway.post_to(QUOTES, &numbered(n)).await.expect(200);
        known(n + 1);
    }
    let answer = gateway.post_to(QUOTES, &numbered(3)).await.expect_error(503, "TOO_MANY_QUOTE_REQUESTS");
    assert_eq!(
        (&answer.body["request_id_reusable"], &answer.headers["retry-after"]),
        (&json!(true), &"1".parse().unwrap())
    );
    // What exists is answered, and who authorizes a spend asks for no place.
    assert_eq!(gateway.post_to(QUOTES, &numbered(0)).await.expect(200).body["idempotent_replay"], true);
    gateway.post(&body()).await.expect(200);
    assert_eq!(gateway.commits().await, 4);
    // The read model says when others are over; a count is good for a moment.
    known(2);
    let opened = async {
        while gateway.post_to(QUOTES, &numbered(3)).await.status != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), opened).await.unwrap();
    known(3);
    gateway.post_to(QUOTES, &numbered(4)).await.expect_error(503, "TOO_MANY_QUOTE_REQUESTS");
}
