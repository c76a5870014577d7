//! Settlers' records as anybody may read them.

use events::{
    Did,
    event::{
        AuctionClosed, AwardWithdrawn, Decline, EscrowSecured, FulfillmentConfirmed, Inclusion, QuoteAwarded,
        QuoteReceived, WithdrawalCause,
    },
};
use net::callers::limits::{LimitsConfig, RateConfig};

use super::*;

const SETTLERS: &str = "/v1/settlers";
/// A DID with a percent sign of its own.
const WINNER: &str = "did:web:settler.example%3A8443";
const WINNER_PATH: &str = "/v1/settlers/did:web:settler.example%253A8443";
const OTHER: &str = "did:example:other";

fn did(text: &str) -> Did {
    text.parse().unwrap()
}

/// An auction of both settlers, which the winner wins.
fn awarded(time: &str) -> Vec<PaymentEvent> {
    let quote_hash = Hash32([5; 32]);
    let quote = QuoteReceived {
        settler: did(WINNER),
        quote_hash,
        source_amount: "5".parse().unwrap(),
        fulfill_by: at("2030-01-01T00:10:00Z"),
    };
    let closed = AuctionClosed {
        addressed: vec![did(OTHER), did(WINNER)],
        quotes: vec![quote],
        declines: vec![Decline { settler: did(OTHER), reason: "NO_INVENTORY".to_owned() }],
        dropped: Vec::new(),
        held_policies: Vec::new(),
        passed_over: Vec::new(),
        alternates: Vec::new(),
        closed_at: at(time),
    };
    let awarded =
        QuoteAwarded { quote_id: "quo_1".to_owned(), quote_hash, document: "{}".to_owned(), awarded_at: at(time) };
    vec![PaymentEvent::AuctionClosed(closed), PaymentEvent::QuoteAwarded(Box::new(awarded))]
}

fn inclusion(chain: u64, time: &str) -> Inclusion {
    Inclusion {
        chain_id: events::ChainId::evm(chain),
        transaction_hash: Hash32([chain as u8; 32]).to_string(),
        block_number: 7,
        block_hash: Hash32([8; 32]).to_string(),
        block_time: unix_seconds(at(time)),
    }
}

fn unanswered(time: &str) -> Vec<PaymentEvent> {
    let withdrawn = AwardWithdrawn { cause: WithdrawalCause::Unanswered, withdrawn_at: at(time) };
    vec![PaymentEvent::AwardWithdrawn(withdrawn)]
}

impl Gateway {
    /// A payment that the winner won.
    async fn won(&self, request_id: &str) -> PaymentId {
        let id = self.post(&with("/request_id", json!(request_id))).await.expect(200).payment_id();
        self.append(&id, awarded("2030-01-01T00:00:01.730Z")).await;
        id
    }
}

#[tokio::test]
async fn a_settler_has_a_record_from_its_first_auction_on() {
    let gateway = Gateway::new();
    assert_eq!(gateway.get(SETTLERS).await.expect(200).body, json!({"settlers": []}));
    gateway.get(WINNER_PATH).await.expect_error(404, "SETTLER_NOT_FOUND");
    let id = gateway.won("order-1").await;
    let secured = EscrowSecured {
        inclusion: inclusion(31_337, "2030-01-01T00:00:05Z"),
        amount: "5".parse().unwrap(),
        deposit: None,
    };
    let confirmed = FulfillmentConfirmed {
        inclusion: inclusion(31_338, "2030-01-01T00:00:11Z"),
        attestation: "0x".to_owned(),
        confirmed_at: at("2030-01-01T00:00:12Z"),
        release_from: None,
    };
    gateway.append(&id, vec![PaymentEvent::EscrowSecured(secured)]).await;
    gateway.append(&id, vec![PaymentEvent::FulfillmentConfirmed(confirmed)]).await;

    let winner = json!({
        "settler": WINNER,
        "asked": 1,
        "offered": 1,
        "declined": 0,
        "won": 1,
        "acknowledged": 1,
        "refused": 0,
        "unanswered": 0,
        "delivered": 1,
        "late": 0,
        "missed": 0,
        "median_delivery_seconds": 6,
        "last_won_at": "2030-01-01T00:00:01.730Z",
    });
    assert_eq!(gateway.get(WINNER_PATH).await.expect(200).body, winner);
    let list = gateway.get(SETTLERS).await.expect(200).body;
    let settlers = list["settlers"].as_array().unwrap();
    assert_eq!((settlers.len(), &settlers[1], list.get("next_cursor")), (2, &winner, None));
    assert_eq!((&settlers[0]["settler"], &settlers[0]["declined"]), (&json!(OTHER), &json!(1)));
    assert!(settlers[0].get("last_won_at").is_none() && settlers[0].get("median_delivery_seconds").is_none());
}

#[tokio::test]
async fn whoever_missed_often_is_passed_over_by_the_rule_of_the_configuration() {
    let gateway = Gateway::configured(|config| {
        config.settlers.pauses.missed = 1;
        config.settlers.pauses.pause_seconds = 90;
    });
    let passed_over = async || gateway.get(WINNER_PATH).await.expect(200).body.get("passed_over_until").cloned();
    let id = gateway.won("order-1").await;
    assert_eq!(passed_over().await, None);
    gateway.append(&id, unanswered("2030-01-01T00:00:04Z")).await;
    let until = json!("2030-01-01T00:01:34.000Z");
    assert_eq!(passed_over().await, Some(until.clone()));
    // The same payer again says no more.
    let id = gateway.won("order-2").await;
    gateway.append(&id, unanswered("2030-01-01T00:00:04Z")).await;
    assert_eq!(passed_over().await, Some(until));
    let list = gateway.get(SETTLERS).await.expect(200).body;
    assert_eq!(list["settlers"][1]["passed_over_until"], "2030-01-01T00:01:34.000Z");
    // By the time of asking.
    gateway.clock.set("2030-01-01T00:01:34Z");
    assert_eq!(passed_over().await, None);
}

#[tokio::test]
async fn a_list_goes_on_behind_its_cursor() {
    let gateway = Gateway::new();
    gateway.won("order-1").await;
    let first = gateway.get("/v1/settlers?limit=1").await.expect(200).body;
    assert_eq!(first["settlers"][0]["settler"], OTHER);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = gateway.get(&format!("/v1/settlers?cursor={cursor}&limit=1")).await.expect(200).body;
    assert_eq!((&second["settlers"][0]["settler"], second.get("next_cursor")), (&json!(WINNER), None));
    for query in ["limit=0", "limit=201", "cursor=x", "cursor=", "page=2", "limit=1&limit=2", "cursor=%ff"] {
        gateway.get(&format!("/v1/settlers?{query}")).await.expect_error(400, "INVALID_REQUEST");
    }
}

#[tokio::test]
async fn what_is_no_settler_is_not_found_and_what_cannot_be_read_is_not_said_to_be_missing() {
    let gateway = Gateway::new();
    gateway.won("order-1").await;
    for path in ["did:example:nobody", "me", "did:", "%ff", "did:web:settler.example%3A8443"] {
        gateway.get(&format!("/v1/settlers/{path}")).await.expect_error(404, "SETTLER_NOT_FOUND");
    }
    gateway.owned.set_away(true);
    gateway.get(SETTLERS).await.expect_error(503, "SERVICE_UNAVAILABLE");
    gateway.get(WINNER_PATH).await.expect_error(503, "SERVICE_UNAVAILABLE");
}

/// A page is paid for by how many settlers it may hold; one settler is a read like any.
#[tokio::test]
async fn pages_cost_what_is_read_for_them() {
    let gateway = Gateway::configured(|config| {
        config.limits = LimitsConfig {
            reads: RateConfig { per_second: 1, burst: 30 },
            exempt: Networks::default(),
            ..LimitsConfig::default()
        };
    });
    let get = |path: &'static str| {
        let gateway = &gateway;
        async move { gateway.send(limits::request(limits::ATTACKER, "GET", path, None)).await.status.as_u16() }
    };
    assert_eq!(get("/v1/settlers?limit=200").await, 200);
    assert_eq!(get("/v1/settlers?limit=200").await, 429);
    assert_eq!(get("/v1/settlers/did:example:nobody").await, 404);
}
