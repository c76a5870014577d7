//! The routes with doubles of what they ask: who is let in, what is asked of whom, and what comes of lists.

mod reads;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    Router,
    body::Body,
    extract::ConnectInfo,
    http::{Method, Request, StatusCode, header},
    response::Response,
};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use app::own_payments::parked::ParkedPayments;
use events::PaymentId;
use journal::{
    ShardLog,
    memory::MemoryJournal,
    operator_acts::{Act, ActId, Outcome, Recorded, STREAMS_MAX},
    parking::{Entry, Parking, conformance, memory::MemoryParking},
};
use projections::Projections;
use sagas::settler_record::PauseRule;

use crate::{
    Parts,
    error::Error,
    graphs::Graphs,
    operators::{Operator, Operators},
    ports::*,
    router,
    state::Console,
    token,
};

/// What the console asks, which counts how often it is asked.
#[derive(Default)]
struct Doubles {
    network: Network,
    gateways: AtomicUsize,
    ordered: std::sync::Mutex<Vec<(String, Act)>>,
    /// The gateways that are missed where they do not answer to the last order.
    missed: std::sync::Mutex<Gateways>,
}

#[async_trait]
impl StoredCommits for Doubles {
    async fn of(&self, _: &PaymentId) -> Result<Option<StoredStream>, Error> {
        Ok(None)
    }
}

#[async_trait]
impl Installation for Doubles {
    fn network(&self) -> &Network {
        &self.network
    }

    async fn pause(&self) -> Result<Option<Pause>, Error> {
        Err(Error::Unavailable("NATS is away".to_owned()))
    }

    async fn gateways(&self) -> Result<Gateways, Error> {
        self.gateways.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(10)).await;
        Ok(Gateways { gateways: vec![json!({"gateway": "one"})], silent: vec!["two".to_owned()] })
    }

    async fn streams(&self) -> Result<Streams, Error> {
        Ok(Streams::default())
    }

    async fn ready(&self) -> Result<(), String> {
        Err("NATS is not connected".to_owned())
    }

    fn alarms(&self) -> Alarms {
        Alarms { overdue: 3, ..Alarms::default() }
    }

    fn settlers(&self) -> Vec<RegisteredSettler> {
        Vec::new()
    }

    fn verifiers(&self) -> Result<Vec<Value>, Error> {
        Ok(vec![json!({"endpoint": "https://v1.example", "state": "silent"})])
    }

    fn chains(&self) -> Vec<ChainState> {
        Vec::new()
    }
}

#[async_trait]
impl Orders for Doubles {
    async fn carry_out(&self, by: &str, act: Act, gateways: &Gateways) -> Result<Carried, Error> {
        *self.missed.lock().unwrap() = gateways.clone();
        self.ordered.lock().unwrap().push((by.to_owned(), act));
        Ok(Carried { act_id: ActId::random(), outcome: Outcome::done(None), replays: Vec::new() })
    }

    async fn newest(&self, _: Option<u64>, _: usize) -> Result<Vec<Recorded>, Error> {
        Ok(Vec::new())
    }
}

/// A console of two operators over empty read models.
struct Desk {
    router: Router,
    doubles: Arc<Doubles>,
    parking: Arc<MemoryParking>,
    journal: MemoryJournal,
    projections: Projections,
    ana: String,
    bob: String,
    _directory: TempDir,
}

impl Desk {
    async fn start() -> Self {
        Self::start_over(|parking| parking).await
    }

    /// One that reads its parking by way of another.
    async fn start_over<P: Parking + 'static>(over: impl FnOnce(Arc<MemoryParking>) -> Arc<P>) -> Self {
        let (doubles, parking, directory) =
            (Arc::new(Doubles::default()), Arc::new(MemoryParking::default()), TempDir::new().unwrap());
        let journal = MemoryJournal::new(2);
        let projections = Projections::open_searched(directory.path(), journal.shards()).unwrap();
        let (following, followed) = (projections.clone(), Arc::new(journal.clone()));
        tokio::spawn(async move { following.run(followed, CancellationToken::new()).await });
        while projections.ready().is_err() {
            tokio::task::yield_now().await;
        }
        let (ana, bob) = (token::random(), token::random());
        let known =
            |token: &str, name: &str, may_act| (token::digest(token), Operator { name: name.to_owned(), may_act });
        let console = Console::new(Parts {
            gateway: "one".to_owned(),
            operators: Operators::new([known(&ana, "ana", true), known(&bob, "bob", false)]),
            projections: projections.clone(),
            parked: ParkedPayments::new(over(parking.clone())),
            parking: parking.clone(),
            advice: |_: &Entry| "look into it",
            commits: doubles.clone(),
            installation: doubles.clone(),
            orders: doubles.clone(),
            graphs: Graphs::default(),
            verifiers: Vec::new(),
            settler_pauses: PauseRule::DEFAULT,
            grace: Duration::ZERO,
        });
        let router = router(Arc::new(console));
        Self { router, doubles, parking, journal, projections, ana, bob, _directory: directory }
    }

    /// The answer with its body not read yet.
    async fn answer(&self, mut request: Request<Body>) -> Response {
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))));
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn ask(&self, method: Method, path: &str, token: Option<&str>, body: &str) -> (StatusCode, Value) {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let answer = self.answer(request.body(Body::from(body.to_owned())).unwrap()).await;
        assert_eq!(answer.headers()[header::CACHE_CONTROL], "no-store");
        assert!(answer.headers().contains_key(header::CONTENT_SECURITY_POLICY));
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, path, Some(&self.ana), "").await
    }

    async fn post(&self, act: &str, body: &str) -> (StatusCode, Value) {
        self.ask(Method::POST, &format!("/api/acts/{act}"), Some(&self.ana), body).await
    }
}

#[tokio::test]
async fn every_path_but_those_of_the_page_is_for_operators_alone() {
    let desk = Desk::start().await;
    for path in ["/", "/console.css", "/console.js"] {
        assert_eq!(desk.ask(Method::GET, path, None, "").await.0, StatusCode::OK, "{path}");
    }
    let payment = format!("/api/payments/{}", PaymentId::derive("a", "b"));
    for path in [
        "/api/me",
        "/api/payments",
        &payment,
        "/api/search?q=abcdef",
        "/api/parked",
        "/api/settlers",
        "/api/verifiers",
        "/api/chains",
        "/api/gateways",
        "/api/streams",
        "/api/alarms",
        "/api/graphs",
        "/api/acts",
        "/api/none",
        "/index.html",
    ] {
        for method in [Method::GET, Method::POST, Method::OPTIONS, Method::DELETE] {
            let (status, body) = desk.ask(method, path, Some("gwc_wrong"), "").await;
            assert_eq!((status, &body["error"]["code"]), (StatusCode::UNAUTHORIZED, &json!("UNAUTHORIZED")), "{path}");
        }
        let expected = match path {
            path if path == payment => StatusCode::NOT_FOUND,
            "/api/none" | "/index.html" => StatusCode::NOT_FOUND,
            _ => StatusCode::OK,
        };
        assert_eq!(desk.get(path).await.0, expected, "{path}");
    }
    assert_eq!(desk.ask(Method::POST, "/api/acts/pause", None, "{}").await.0, StatusCode::UNAUTHORIZED);
    assert!(desk.doubles.ordered.lock().unwrap().is_empty());
}

#[tokio::test]
async fn who_may_look_may_not_act_and_who_acts_does_so_by_name() {
    let desk = Desk::start().await;
    for act in ["pause", "resume", "rebuild", "acknowledge", "replay", "evict"] {
        let (status, body) = desk.ask(Method::POST, &format!("/api/acts/{act}"), Some(&desk.bob), "{}").await;
        assert_eq!((status, &body["error"]["code"]), (StatusCode::FORBIDDEN, &json!("FORBIDDEN")), "{act}");
    }
    let id = conformance::fresh();
    desk.parking.park(&id, 0, &conformance::parked("a")).await.unwrap();
    let since = "2026-01-02T03:04:05.000000006Z".parse().unwrap();
    for (act, body, ordered) in [
        ("pause", "", Act::Pause { reason: None }),
        ("pause", r#"{"reason": "  "}"#, Act::Pause { reason: None }),
        ("pause", r#"{"reason": "a fork"}"#, Act::Pause { reason: Some("a fork".to_owned()) }),
        ("resume", r#"{"since": "2026-01-02T03:04:05.000000006Z"}"#, Act::Resume { since: Some(since) }),
        ("rebuild", r#"{"gateway": "one"}"#, Act::Rebuild { gateway: Some("one".to_owned()) }),
        ("acknowledge", "{}", Act::Acknowledge { gateway: None }),
        ("replay", r#"{"all": true}"#, Act::Replay { streams: vec![id.clone()] }),
        ("replay", &json!({"ids": [id, id]}).to_string(), Act::Replay { streams: vec![id.clone()] }),
    ] {
        let (status, body) = desk.post(act, body).await;
        assert_eq!((status, &body["outcome"]), (StatusCode::OK, &json!({"outcome": "done"})), "{act}");
        assert_eq!(desk.doubles.ordered.lock().unwrap().pop(), Some(("ana".to_owned(), ordered)));
    }
    let many: Vec<_> = std::iter::repeat_with(conformance::fresh).take(1_001).collect();
    for (act, body) in [
        ("pause", r#"{"reason": 1}"#),
        ("pause", r#"{"by": "bob"}"#),
        ("resume", "[]"),
        ("pause", r#"["a fork"]"#),
        ("replay", "{}"),
        ("replay", r#"{"ids": []}"#),
        ("replay", r#"{"ids": ["pay_x"]}"#),
        ("replay", &json!({"ids": many}).to_string()),
    ] {
        let (status, body) = desk.post(act, body).await;
        assert_eq!((status, &body["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("INVALID_REQUEST")), "{act}");
    }
    // Whoever resumes says what he has seen.
    for body in ["", "{}", r#"{"since": null}"#, r#"{"since": 7}"#, r#"{"since": "today"}"#] {
        let (status, answer) = desk.post("resume", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
        assert!(answer["error"]["message"].as_str().unwrap().starts_with("since: must be "), "{answer}");
    }
    assert_eq!(desk.post("evict", "{}").await.0, StatusCode::NOT_FOUND);
    let (status, body) = desk.post("pause", &" ".repeat(200_000)).await;
    assert_eq!((status, &body["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("INVALID_REQUEST")));
    assert!(desk.doubles.ordered.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_order_for_all_gateways_misses_those_that_answered_last() {
    let desk = Desk::start().await;
    for act in ["rebuild", "acknowledge"] {
        assert_eq!(desk.post(act, "{}").await.0, StatusCode::OK);
        let missed = std::mem::take(&mut *desk.doubles.missed.lock().unwrap());
        assert_eq!((&missed.gateways[0]["gateway"], &missed.silent[0]), (&json!("one"), &"two".to_owned()), "{act}");
        assert_eq!(desk.post(act, r#"{"gateway": "one"}"#).await.0, StatusCode::OK);
        assert!(desk.doubles.missed.lock().unwrap().gateways.is_empty(), "{act}");
    }
}

#[tokio::test]
async fn of_all_that_is_parked_it_is_said_how_much_one_order_leaves() {
    let desk = Desk::start().await;
    for count in [STREAMS_MAX, STREAMS_MAX + 7] {
        while desk.parking.parked().await.unwrap().len() < count {
            desk.parking.park(&conformance::fresh(), 0, &conformance::parked("a")).await.unwrap();
        }
        let (status, body) = desk.post("replay", r#"{"all": true}"#).await;
        assert_eq!((status, &body["left"]), (StatusCode::OK, &json!(count - STREAMS_MAX)));
        let ordered = desk.doubles.ordered.lock().unwrap().pop().unwrap().1;
        assert!(matches!(ordered, Act::Replay { streams } if streams.len() == STREAMS_MAX));
    }
    let (_, body) = desk.post("replay", &json!({"ids": [conformance::fresh()]}).to_string()).await;
    assert!(body.get("left").is_none(), "{body}");
}

#[tokio::test]
async fn what_asks_others_is_asked_once_for_all_who_look() {
    let desk = Desk::start().await;
    for (status, body) in futures::future::join_all((0..50).map(|_| desk.get("/api/gateways"))).await {
        assert_eq!((status, body), (StatusCode::OK, json!({"gateways": [{"gateway": "one"}], "silent": ["two"]})));
    }
    assert_eq!(desk.doubles.gateways.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_cannot_be_known_is_said_to_be_so() {
    let desk = Desk::start().await;
    let (_, me) = desk.get("/api/me").await;
    assert_eq!((&me["name"], &me["may_act"], &me["pause"]), (&json!("ana"), &json!(true), &Value::Null));
    assert_eq!(me["pause_unknown"], "NATS is away");
    let (_, alarms) = desk.get("/api/alarms").await;
    assert_eq!((&alarms["ready"], &alarms["not_ready_reason"]), (&json!(false), &json!("NATS is not connected")));
    assert_eq!((&alarms["overdue"], &alarms["parked"]), (&json!(3), &json!(0)));
    for query in ["", "?overdue=true", "?in_flight=true", "?parked=true", "?originator=did:web:a.example"] {
        let (status, page) = desk.get(&format!("/api/payments{query}")).await;
        let empty = json!({"payments": [], "next_cursor": null, "looked_at": 0, "uncertain_shards": []});
        assert_eq!((status, page), (StatusCode::OK, empty), "{query}");
    }
    let id = conformance::fresh();
    desk.parking.park(&id, 0, &conformance::parked("a")).await.unwrap();
    let (_, graphs) = desk.get("/api/graphs").await;
    assert_eq!((&graphs["points"], &graphs["ends_at"], &graphs["series"]), (&json!(360), &Value::Null, &json!([])));
    let (_, settlers) = desk.get("/api/settlers").await;
    assert_eq!(settlers, json!({"settlers": [], "has_more": false}));
    let (_, verifiers) = desk.get("/api/verifiers").await;
    assert_eq!(verifiers["surveyed"], json!({"payments": 0, "since": null}));
    assert_eq!(verifiers["observed"], json!([{"endpoint": "https://v1.example", "state": "silent"}]));
}
