//! Webhooks at the edge: who may register what, and what he is shown. How they are delivered is tested in the crate `webhooks` and
//! end to end.

use ::webhooks::{
    deliveries::Deliveries,
    desk::Desk,
    http::HttpEndpoints,
    message::Due,
    ports::{Bodies, BodyError},
    queue::Limits,
    records::memory::MemoryRecords,
    registry::{Bounds, Registry},
    signature::Keys,
    timetable::Timetable,
    webhook::{EventType, WebhookId},
};
use alloy::signers::{SignerSync, local::PrivateKeySigner};
use axum::http::Method;
use ed25519_dalek::SigningKey as Ed25519;
use k256::ecdsa::SigningKey as Secp256k1;

use app::webhooks::bodies::JournalBodies;

use super::*;

const WEBHOOKS: &str = "/v1/webhooks";
const ENDPOINT: &str = "https://1.1.1.1/hooks";

/// Webhooks in memory, three an owner.
pub fn desk() -> Desk {
    let records = Arc::<MemoryRecords>::default;
    let registry = Registry::new(records(), Bounds { of_owner: 3, all: 5 });
    let deliveries = Deliveries::new(records(), records(), 4);
    let endpoints = Arc::new(HttpEndpoints::new([], Duration::from_secs(1)).unwrap());
    let keys = Keys::new(Ed25519::from_bytes(&[9; 32]), []);
    Desk::new(registry, deliveries, keys, endpoints, Limits::default(), Timetable::default())
}

fn wallet(seed: u8) -> PrivateKeySigner {
    PrivateKeySigner::from(Secp256k1::from_slice(&[seed; 32]).unwrap())
}

/// A caller with a session.
struct Client<'a> {
    gateway: &'a Gateway,
    token: String,
}

impl<'a> Client<'a> {
    async fn of(gateway: &'a Gateway, wallet: &PrivateKeySigner) -> Self {
        let account = format!("eip155:31337:{}", wallet.address());
        let challenge = gateway.post_to("/v1/sessions/challenges", &json!({"account": account})).await.expect(200);
        let message = challenge.body["message"].as_str().unwrap();
        let signature = wallet.sign_message_sync(message.as_bytes()).unwrap().to_string();
        let body = json!({"message": message, "signature": signature});
        let session = gateway.post_to("/v1/sessions", &body).await.expect(200);
        Self { gateway, token: session.body["token"].as_str().unwrap().to_owned() }
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {}", self.token));
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        self.gateway.send(request.body(body).unwrap()).await
    }

    async fn register(&self, body: Value) -> Answer {
        self.call(Method::POST, WEBHOOKS, Some(&body)).await
    }
}

#[tokio::test]
async fn an_owner_registers_sees_and_deletes_his_webhooks_and_nobody_elses() {
    let gateway = Gateway::new();
    let (alice, bob) = (Client::of(&gateway, &wallet(1)).await, Client::of(&gateway, &wallet(2)).await);
    let registered =
        alice.register(json!({"url": ENDPOINT, "events": ["payment.failed", "payment.completed"]})).await.expect(200);
    assert_eq!(registered.headers["cache-control"], "no-store");
    assert_eq!(registered.body["url"], ENDPOINT);
    assert_eq!(registered.body["events"], json!(["payment.completed", "payment.failed"]));
    assert!(registered.body["secret"].as_str().unwrap().starts_with("whsec_"));
    let keys = gateway.get("/v1/webhooks/keys").await.expect(200);
    assert_eq!(keys.body["keys"], registered.body["keys"]);
    let id = registered.body["id"].as_str().unwrap();
    let path = format!("{WEBHOOKS}/{id}");

    let listed = alice.call(Method::GET, WEBHOOKS, None).await.expect(200);
    assert_eq!(listed.body["webhooks"][0]["id"], id);
    assert!(listed.body["webhooks"][0].get("secret").is_none());
    let shown = alice.call(Method::GET, &path, None).await.expect(200);
    assert_eq!(shown.body["deliveries"]["waiting"], 0);
    assert_eq!(shown.body["secret"], registered.body["secret"]);

    assert_eq!(bob.call(Method::GET, WEBHOOKS, None).await.expect(200).body["webhooks"], json!([]));
    for (method, path, body) in [
        (Method::GET, path.clone(), None),
        (Method::DELETE, path.clone(), None),
        (Method::POST, format!("{path}/redeliver"), Some(json!({"dead": true}))),
        (Method::GET, format!("{WEBHOOKS}/whk_{}", "a".repeat(26)), None),
        (Method::GET, format!("{WEBHOOKS}/x"), None),
    ] {
        let answer = bob.call(method, &path, body.as_ref()).await.expect(404);
        assert_eq!(answer.body["code"], "WEBHOOK_NOT_FOUND", "{path}");
    }
    alice.call(Method::DELETE, &path, None).await.expect(200);
    alice.call(Method::GET, &path, None).await.expect(404);
}

#[tokio::test]
async fn without_a_session_there_is_nothing() {
    let gateway = Gateway::new();
    let stranger = Client { gateway: &gateway, token: "gws1.x.y".to_owned() };
    let path = format!("{WEBHOOKS}/whk_{}", "a".repeat(26));
    for (method, path, body) in [
        (Method::POST, WEBHOOKS.to_owned(), Some(json!({"url": ENDPOINT}))),
        (Method::GET, WEBHOOKS.to_owned(), None),
        (Method::GET, path.clone(), None),
        (Method::DELETE, path.clone(), None),
        (Method::POST, format!("{path}/redeliver"), Some(json!({"dead": true}))),
    ] {
        let answer = stranger.call(method, &path, body.as_ref()).await.expect(401);
        assert_eq!(
            (&answer.body["code"], &answer.headers["www-authenticate"]),
            (&json!("INVALID_TOKEN"), &"Bearer".parse().unwrap())
        );
    }
}

#[tokio::test]
async fn endpoints_inside_and_bodies_that_make_no_sense_are_refused() {
    let gateway = Gateway::new();
    let alice = Client::of(&gateway, &wallet(1)).await;
    for body in [
        json!({}),
        json!({"url": 7}),
        json!({"url": "http://1.1.1.1/"}),
        json!({"url": "https://127.0.0.1/"}),
        json!({"url": "https://[::1]:8443/"}),
        json!({"url": "https://0x7f.1/"}),
        json!({"url": "https://1.1.1.1:22/"}),
        json!({"url": "https://user@1.1.1.1/"}),
        json!({"url": "https://1.1.1.1/#x"}),
        json!({"url": format!("https://1.1.1.1/{}", "x".repeat(2_000))}),
        json!({"url": ENDPOINT, "events": []}),
        json!({"url": ENDPOINT, "events": ["payment.unknown"]}),
        json!({"url": ENDPOINT, "events": [7]}),
        json!({"url": ENDPOINT, "payment_id": "pay_1"}),
    ] {
        let answer = alice.register(body.clone()).await.expect(400);
        assert_eq!(answer.body["code"], "INVALID_REQUEST", "{body}");
        assert!(!answer.text.contains("127.0.0.1"), "where a name leads is nobody's business: {}", answer.text);
    }
    let of_nobody = json!({"url": ENDPOINT, "payment_id": format!("pay_{}", "a".repeat(52))});
    assert_eq!(alice.register(of_nobody).await.expect(404).body["code"], "PAYMENT_NOT_FOUND");

    for _ in 0..3 {
        alice.register(json!({"url": ENDPOINT})).await.expect(200);
    }
    assert_eq!(alice.register(json!({"url": ENDPOINT})).await.expect(409).body["code"], "TOO_MANY_WEBHOOKS");
    let id = alice.call(Method::GET, WEBHOOKS, None).await.body["webhooks"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("{WEBHOOKS}/{id}/redeliver");
    for body in [
        json!({}),
        json!({"dead": false}),
        json!({"from": "2030-01-01T00:00:00Z"}),
        json!({"from": "yesterday", "to": "2030-01-01T00:00:00Z"}),
        json!({"message_ids": []}),
        json!({"message_ids": ["x"]}),
        json!({"message_ids": [format!("msg_{}_1_aaaaaaaaaa", "a".repeat(52))]}),
        json!({"dead": true, "payment_id": format!("pay_{}", "a".repeat(52))}),
    ] {
        alice.call(Method::POST, &path, Some(&body)).await.expect(400);
    }
    let nothing = alice.call(Method::POST, &path, Some(&json!({"dead": true}))).await.expect(200);
    assert_eq!(nothing.body["message_ids"], json!([]));
}

#[tokio::test]
async fn half_of_the_places_are_not_for_keys_that_never_paid() {
    let gateway = Gateway::new();
    let (alice, bob) = (Client::of(&gateway, &wallet(1)).await, Client::of(&gateway, &wallet(2)).await);
    for _ in 0..3 {
        alice.register(json!({"url": ENDPOINT})).await.expect(200);
    }
    let refused = bob.register(json!({"url": ENDPOINT})).await.expect(409);
    assert_eq!(refused.body["code"], "TOO_MANY_WEBHOOKS");
    assert!(refused.text.contains("payment that was accepted"), "{}", refused.text);
    let mut payment = with("/source/account", json!(wallet(2).address().to_string()));
    payment["request_id"] = json!("bobs");
    gateway.post(&payment).await.expect(200);
    bob.register(json!({"url": ENDPOINT})).await.expect(200);
}

#[tokio::test]
async fn a_body_is_made_of_the_commit_that_the_message_names_alone() {
    let gateway = Gateway::new();
    let payment_id = gateway.post(&body()).await.expect(200).payment_id();
    let commits = gateway.journal.load(&(&payment_id).into()).await.unwrap();
    let due = Due::new(&WebhookId::random(), &commits[0], &payment_id, EventType::Pending);
    let bodies = JournalBodies::new(Arc::new(gateway.journal.clone()), "https://pay.example".to_owned());
    let made: Value = serde_json::from_slice(&bodies.body(&due).await.unwrap()).unwrap();
    assert_eq!((&made["type"], &made["data"]["payment_id"]), (&json!("payment.pending"), &json!(payment_id)));
    let of_another = Due { commit_id: CommitId::random().to_string(), ..due };
    assert!(matches!(bodies.body(&of_another).await, Err(BodyError::Never(_))));
}
