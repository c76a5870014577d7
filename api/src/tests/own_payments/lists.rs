//! What is listed, in which order and form.

use events::{
    event::{EscrowReassigned, EscrowSecured, ReservationLapsed},
    quote::SignedQuote,
};
use net::callers::limits::{LimitsConfig, RateConfig};

use super::*;
use crate::tests::reads::{DOCUMENT, awarded, closed, confirmed, inclusion, seen};

#[tokio::test]
async fn an_owner_is_shown_his_own_payments_newest_first() {
    let gateway = Gateway::new();
    let (alice, bob) = (wallet(1), wallet(2));
    for n in 0..7 {
        gateway.clock.set(&format!("2030-01-01T00:00:0{n}Z"));
        gateway.pay(&alice, &format!("alice-{n}")).await;
        gateway.pay(&bob, &format!("bob-{n}")).await;
    }
    let token = gateway.session(&alice).await;
    let all = gateway.list(&token, "").await.expect(200);
    let expected: Vec<String> = (0..7).rev().map(|n| format!("alice-{n}")).collect();
    assert_eq!((all.request_ids(), all.next_cursor()), (expected.clone(), None));
    assert_eq!(all.headers["cache-control"], "no-store");
    let shown = &all.body["payments"][0];
    assert_eq!(shown["source"]["account"], account(&alice).to_lowercase());
    assert_eq!((&shown["status"], &shown["stage"]), (&json!("pending"), &json!("auction")));
    assert_eq!(shown["submitted_at"], "2030-01-01T00:00:06.000Z");
    assert_eq!(shown["source"]["permitted_amount"], "1100000");
    assert!(shown["source"]["paid_amount"].is_null() && shown["rate"].is_null() && shown["destination"].is_null());

    // Page by page, and what comes meanwhile is on none of them.
    let (mut listed, mut cursor) = (Vec::new(), String::new());
    for page in 0..4 {
        let answer = gateway.list(&token, &format!("?limit=2{cursor}")).await.expect(200);
        listed.extend(answer.request_ids());
        gateway.clock.set("2030-01-01T00:00:10Z");
        gateway.pay(&alice, &format!("meanwhile-{page}")).await;
        let Some(next) = answer.next_cursor() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(listed, expected);

    // Whose cursor it is makes no difference: a token shows its owner's.
    let of_bob = gateway.list(&gateway.session(&bob).await, &format!("?limit=200{cursor}")).await.expect(200);
    assert!(of_bob.request_ids().iter().all(|id| id.starts_with("bob-")), "{of_bob:?}");
}

#[tokio::test]
async fn a_did_is_shown_what_was_asked_for_in_its_name() {
    let gateway = Gateway::new();
    let (alice, shop) = (wallet(1), Holder::ed25519(9).unwrap());
    gateway.pay(&alice, "alone").await;
    let mut body = with("/source/account", json!(account(&alice)));
    body["request_id"] = json!("for-the-shop");
    gateway.post(&enveloped(&shop, &body)).await.expect(200);
    let of_shop = gateway.list(&gateway.session_of_did(&shop, 9).await, "").await.expect(200);
    assert_eq!(of_shop.request_ids(), ["for-the-shop"]);
    assert_eq!(of_shop.body["payments"][0]["originator"], shop.did().as_str());
    // The payer pays both.
    let mut of_alice = gateway.list(&gateway.session(&alice).await, "").await.expect(200).request_ids();
    of_alice.sort();
    assert_eq!(of_alice, ["alone", "for-the-shop"]);
    // Somebody else's DID shows neither.
    let other = Holder::ed25519(8).unwrap();
    let of_other = gateway.list(&gateway.session_of_did(&other, 8).await, "").await.expect(200);
    assert_eq!((of_other.request_ids(), of_other.next_cursor()), (Vec::<String>::new(), None));
}

#[tokio::test]
async fn filters_are_all_kept() {
    let gateway = Gateway::new();
    let alice = wallet(1);
    for n in 1..5 {
        gateway.clock.set(&format!("2030-01-01T00:00:0{n}Z"));
        let mut body = with("/source/account", json!(account(&alice)));
        body["request_id"] = json!(format!("order-{n}"));
        body["max_source_amount"] = json!(format!("{n}100000"));
        gateway.post(&body).await.expect(200);
    }
    let token = gateway.session(&alice).await;
    for (query, expected) in [
        ("?status=pending", vec!["order-4", "order-3", "order-2", "order-1"]),
        ("?status=completed", vec![]),
        ("?stage=auction&limit=1", vec!["order-4"]),
        ("?stage=ended", vec![]),
        ("?chain_id=eip155:31337&limit=1", vec!["order-4"]),
        ("?chain_id=eip155:1", vec![]),
        ("?settler=did:example:nobody", vec![]),
        ("?submitted_from=2030-01-01T00:00:03Z", vec!["order-4", "order-3"]),
        ("?submitted_until=2030-01-01T00:00:03Z", vec!["order-2", "order-1"]),
        ("?submitted_from=2030-01-01T00:00:02Z&submitted_until=2030-01-01T00:00:03Z", vec!["order-2"]),
        ("?submitted_from=2030-01-01T00:00:03Z&submitted_until=2030-01-01T00:00:02Z", vec![]),
        ("?amount_from=2100000&amount_to=3100000", vec!["order-3", "order-2"]),
        ("?overdue=true", vec![]),
        ("?overdue=false&limit=1", vec!["order-4"]),
        ("?parked=true", vec![]),
        ("?parked=false&limit=1", vec!["order-4"]),
        ("?submitted_from=2030-01-01T02:00:03%2B02:00", vec!["order-4", "order-3"]),
    ] {
        let answer = gateway.list(&token, query).await.expect(200);
        assert_eq!(answer.request_ids(), expected, "{query}");
    }
    for bad in ["?limit=0", "?limit=201", "?stat=pending", "?status=pending&status=failed", "?cursor=AAAA", "?cursor="]
    {
        gateway.list(&token, bad).await.expect_error(400, "INVALID_REQUEST");
    }
}

#[tokio::test]
async fn tables_have_all_lines_and_no_formula() {
    let gateway = Gateway::new();
    let alice = wallet(1);
    let count = PAGES * 200 + 3;
    for n in 0..count {
        gateway.pay(&alice, &format!("-{n}")).await;
    }
    let token = gateway.session(&alice).await;
    let csv = gateway.list_as(&token, "", "text/csv").await.expect(200);
    assert!(csv.headers["content-type"].to_str().unwrap().starts_with("text/csv"), "{:?}", csv.headers);
    assert_eq!(
        (&csv.headers["cache-control"], csv.headers["vary"].to_str().unwrap().contains("accept")),
        (&"no-store".parse().unwrap(), true)
    );
    let mut lines = csv.text.split("\r\n");
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(head[..2], ["payment_id", "request_id"]);
    let rows: Vec<Vec<&str>> = lines.filter(|line| !line.is_empty()).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), count);
    let mut ids: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    for row in &rows {
        assert_eq!(row.len(), head.len());
        assert!(row[1].starts_with("'-"), "{row:?}");
        assert!(row.iter().all(|cell| !cell.starts_with(['=', '+', '-', '@'])), "{row:?}");
    }

    let lines = gateway.list_as(&token, "", "application/x-ndjson").await.expect(200);
    assert_eq!(lines.headers["content-type"], "application/x-ndjson");
    let payments: Vec<Value> = lines.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(payments.len(), count);
    // Exactly what a page shows, and exactly what the payer chose.
    let page = gateway.list(&token, "?limit=200").await.expect(200);
    assert_eq!(page.body["payments"].as_array().unwrap()[..], payments[..200]);
    assert!(payments.iter().all(|payment| payment["request_id"].as_str().unwrap().starts_with('-')));

    // Filters and cursors count as for pages, a limit does not.
    let cursor = page.next_cursor().unwrap();
    let rest = gateway.list_as(&token, &format!("?cursor={cursor}"), "application/x-ndjson").await.expect(200);
    assert_eq!(rest.text.lines().count(), count - 200);
    let none = gateway.list_as(&token, "?status=failed", "text/csv").await.expect(200);
    assert_eq!(none.text.lines().count(), 1);
    gateway.list_as(&token, "?limit=5", "text/csv").await.expect_error(400, "INVALID_REQUEST");
}

/// Pages of a table beyond its first.
const PAGES: usize = 2;

#[tokio::test]
async fn a_read_model_that_is_not_whole_shows_nothing() {
    let gateway = Gateway::new();
    let alice = wallet(1);
    gateway.pay(&alice, "order-1").await;
    let token = gateway.session(&alice).await;
    gateway.owned.set_away(true);
    for accept in ["application/json", "text/csv", "application/x-ndjson"] {
        let answer = gateway.list_as(&token, "", accept).await.expect_error(503, "SERVICE_UNAVAILABLE");
        assert_eq!(answer.headers["cache-control"], "no-store");
    }
    gateway.owned.set_away(false);
    assert_eq!(gateway.list(&token, "").await.expect(200).request_ids(), ["order-1"]);
}

#[tokio::test]
async fn a_table_waits_for_its_budget_and_is_whole() {
    let plenty = RateConfig { per_second: 100_000, burst: 100_000 };
    let gateway = Gateway::configured(|config| {
        config.limits = LimitsConfig {
            // The call itself and one page more; what is behind them has to be waited for.
            reads: RateConfig { per_second: 100, burst: 9 },
            writes: plenty,
            unsigned: plenty,
            accepted: plenty,
            ..LimitsConfig::default()
        };
    });
    let alice = wallet(1);
    let count = PAGES * 200 + 3;
    for n in 0..count {
        gateway.pay(&alice, &format!("order-{n}")).await;
    }
    let token = gateway.session(&alice).await;
    let table = gateway.list_as(&token, "", "application/x-ndjson").await.expect(200);
    assert_eq!(table.text.lines().count(), count);
}

#[tokio::test]
async fn a_table_that_cannot_go_on_breaks_off_and_many_are_not_open_at_once() {
    let gateway = Gateway::configured(|config| config.http.event_streams_max = 1);
    let alice = wallet(1);
    for n in 0..201 {
        gateway.pay(&alice, &format!("order-{n}")).await;
    }
    let token = gateway.session(&alice).await;
    let ask = || {
        let request = Request::get(PAYMENTS).header("authorization", format!("Bearer {token}"));
        request.header("accept", "text/csv").body(Body::empty()).unwrap()
    };
    let begun = gateway.router.clone().oneshot(ask()).await.unwrap();
    assert_eq!(begun.status(), StatusCode::OK);
    gateway.send(ask()).await.expect_error(503, "TOO_MANY_STREAMS");
    gateway.owned.set_away(true);
    assert!(to_bytes(begun.into_body(), usize::MAX).await.is_err(), "a table that lacks lines ended in order");
    gateway.owned.set_away(false);
    assert_eq!(gateway.send(ask()).await.expect(200).text.lines().count(), 202);
}

/// A quote as it was signed and stored once.
const QUOTE: &str = include_str!("../../../../events/tests/quotes/jcs.json");

#[tokio::test]
async fn a_payment_is_listed_under_every_settler_that_its_escrow_was_reserved_for() {
    let gateway = Gateway::new();
    let alice = wallet(1);
    let id = gateway.pay(&alice, "order-1").await;
    let token = gateway.session(&alice).await;
    let lapsed = ReservationLapsed {
        settler: "did:web:1".parse().unwrap(),
        quote_hash: Hash32([5; 32]),
        attestation: "0x22".to_owned(),
        quote_deadline: at("2030-01-01T00:00:01Z"),
        lapsed_at: at("2030-01-01T00:00:01Z"),
    };
    // More than the next settler asks for.
    let secured =
        EscrowSecured { inclusion: inclusion(31_337, 1), amount: "900000000000".parse().unwrap(), deposit: None };
    for events in [
        vec![closed(&[]), awarded(DOCUMENT)],
        vec![PaymentEvent::EscrowSecured(secured)],
        vec![PaymentEvent::ReservationLapsed(lapsed)],
    ] {
        gateway.append(&id, events).await;
    }
    let found = async |query: &str| !gateway.list(&token, query).await.expect(200).request_ids().is_empty();
    assert!(found("?stage=reassignment&settler=did:web:1").await && !found("?stage=delivery").await);

    let reassigned = EscrowReassigned { inclusion: inclusion(31_337, 8) };
    for events in [
        vec![closed(&[]), awarded(QUOTE)],
        vec![PaymentEvent::EscrowReassigned(reassigned)],
        vec![seen()],
        vec![confirmed()],
    ] {
        gateway.append(&id, events).await;
    }
    let signed = SignedQuote::parse_stored(QUOTE).unwrap();
    let settler = &signed.quote().settler;
    for settler in ["did:web:1", settler.as_str()] {
        assert!(found(&format!("?stage=release&settler={settler}")).await, "{settler}");
    }
    let shown = gateway.list(&token, "").await.expect(200).body["payments"][0].clone();
    assert_eq!(shown["settler"], settler.as_str());
    let hash = Hash32([8; 32]).to_string();
    assert_eq!(shown["transactions"]["reassignment"]["transaction_hash"], hash);
    // Delivered for the price, not for what was deposited.
    let [numerator, denominator] = ["numerator", "denominator"].map(|part| number(&shown["rate"][part]));
    let [delivered, price] = [signed.quote().fulfillment_amount, signed.quote().source_amount]
        .map(|units| units.to_string().parse::<u128>().unwrap());
    assert_eq!(
        (shown["source"]["paid_amount"].as_str(), numerator * price),
        (Some("900000000000"), denominator * delivered)
    );
    let csv = gateway.list_as(&token, "", "text/csv").await.expect(200).text;
    assert!(csv.lines().next().unwrap().ends_with(",reassignment_transaction"), "{csv}");
    assert!(csv.lines().nth(1).unwrap().ends_with(&format!(",{hash}")), "{csv}");
}

fn number(text: &Value) -> u128 {
    text.as_str().unwrap().parse().unwrap()
}
