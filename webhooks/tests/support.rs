//! A gateway's webhooks on a nats-server, with endpoints that answer as told.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_nats::Client;
use async_trait::async_trait;
use bytes::Bytes;
use chrono::Utc;
use devkit::NatsServer;
use ed25519_dalek::SigningKey;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use events::{CommitId, Hash32, PaymentId};
use journal::{ShardLog, memory::MemoryJournal};
use webhooks::{
    courier::Equipment,
    deliveries::Deliveries,
    desk::Desk,
    feed::Feed,
    http::HttpEndpoints,
    lanes::Lanes,
    message::{Due, MessageId},
    metering::Attempts,
    ports::{Bodies, BodyError, Call, Endpoints, Held, Ownership},
    queue::{Answer, Limits},
    records::nats::NatsStreams,
    registry::{Bounds, Registry},
    service::Service,
    signature::Keys,
    timetable::Timetable,
    webhook::{EventType, Registration, Scope, Webhook, WebhookOwner},
};

/// Far longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(60);
pub const PARTITIONS: u16 = 4;
/// Far more than anything here stores.
pub const STREAM_BYTES: u64 = 64 << 20;

/// Endpoints by URL: what they answer, and what they were told.
#[derive(Default)]
pub struct SetEndpoints {
    answers: Mutex<HashMap<String, Answer>>,
    calls: Mutex<Vec<Call>>,
    /// URLs whose next call panics.
    panics: Mutex<HashSet<String>>,
}

impl SetEndpoints {
    pub fn set(&self, url: &str, answer: Answer) {
        self.answers.lock().unwrap().insert(url.to_owned(), answer);
    }

    pub fn panic_once(&self, url: &str) {
        self.panics.lock().unwrap().insert(url.to_owned());
    }

    /// Whether the next call to it panics, still.
    pub fn panics(&self, url: &str) -> bool {
        self.panics.lock().unwrap().contains(url)
    }

    /// The ids of the messages that `url` was called with, in order.
    pub fn told(&self, url: &str) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|call| call.url == url).map(|call| call.id.clone()).collect()
    }
}

#[async_trait]
impl Endpoints for SetEndpoints {
    async fn call(&self, call: Call) -> Answer {
        let panics = self.panics.lock().unwrap().remove(&call.url);
        assert!(!panics, "as the test wants it");
        let answer = self.answers.lock().unwrap().get(&call.url).cloned();
        self.calls.lock().unwrap().push(call);
        answer.unwrap_or(Answer::Taken { status: 200 })
    }
}

/// Bodies that say which message they are of.
pub struct PlainBodies;

#[async_trait]
impl Bodies for PlainBodies {
    async fn body(&self, due: &Due) -> Result<Bytes, BodyError> {
        Ok(Bytes::from(serde_json::to_vec(due).unwrap()))
    }
}

/// Owns all shards, or none.
pub struct Owns(pub bool);

#[async_trait]
impl Ownership for Owns {
    async fn held(&self) -> Result<Held, String> {
        let open: Vec<u16> = (0..PARTITIONS).collect();
        let own = if self.0 { open.iter().copied().collect() } else { BTreeSet::new() };
        Ok(Held { open, own })
    }
}

/// A gateway, as far as webhooks go.
pub struct Gateway {
    pub log: Arc<MemoryJournal>,
    pub registry: Registry,
    pub deliveries: Deliveries,
    pub desk: Desk,
    pub endpoints: Arc<SetEndpoints>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

pub async fn client(server: &NatsServer) -> Client {
    async_nats::connect(server.url()).await.unwrap()
}

pub fn failed() -> Answer {
    Answer::Failed { error: "answered 500".to_owned(), retry_after: None }
}

impl Gateway {
    pub async fn start(server: &NatsServer, endpoints: &Arc<SetEndpoints>, pauses_ms: &[u64]) -> Self {
        Self::start_on(server, endpoints, pauses_ms, Arc::new(MemoryJournal::new(PARTITIONS))).await
    }

    /// One that follows `log`.
    pub async fn start_on(
        server: &NatsServer,
        endpoints: &Arc<SetEndpoints>,
        pauses_ms: &[u64],
        log: Arc<MemoryJournal>,
    ) -> Self {
        let streams = NatsStreams::open(client(server).await, 1, STREAM_BYTES).await.unwrap();
        let deliveries = Deliveries::new(Arc::new(streams.deliveries), Arc::new(streams.state), PARTITIONS);
        let registry = Registry::new(Arc::new(streams.webhooks), Bounds { of_owner: 3, all: 5 });
        let keys = Keys::new(SigningKey::from_bytes(&[7; 32]), []);
        let timetable = Timetable::new(pauses_ms.iter().copied().map(Duration::from_millis).collect());
        let shards = log.shards();
        let http = Arc::new(HttpEndpoints::new([], Duration::from_secs(1)).unwrap());
        let desk =
            Desk::new(registry.clone(), deliveries.clone(), keys.clone(), http, Limits::default(), timetable.clone());
        let equipment = Arc::new(Equipment {
            deliveries: deliveries.clone(),
            registry: registry.clone(),
            endpoints: endpoints.clone(),
            bodies: Arc::new(PlainBodies),
            keys,
            limits: Limits::default(),
            timetable,
            lanes: Lanes::new(64),
            attempts: Attempts::default(),
        });
        let feed = Feed::new(log.clone(), registry.clone(), deliveries.clone());
        let ownership = Arc::new(Owns(true));
        let service = Service::new(equipment, feed, ownership, Arc::new(move || shards), Duration::from_millis(10));
        let stop = CancellationToken::new();
        let task = tokio::spawn(service.run(stop.clone()));
        Self { log, registry, deliveries, desk, endpoints: endpoints.clone(), stop, task }
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }

    /// As kill -9 does: nothing is finished and nothing recorded.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    pub async fn register(&self, url: &str) -> Arc<Webhook> {
        self.registry.register(registration(url), true, Utc::now()).await.unwrap()
    }

    pub async fn enqueue(&self, webhook: &Webhook, payment: usize, version: u64) -> Due {
        let due = due(webhook, payment, version);
        assert!(self.deliveries.enqueue(&webhook.id, &due).await.unwrap());
        due
    }

    pub async fn until_told(&self, url: &str, ids: &[&Due]) {
        let ids: Vec<String> = ids.iter().map(|due| due.id.to_string()).collect();
        eventually(async || self.endpoints.told(url).len() >= ids.len()).await;
        assert_eq!(self.endpoints.told(url), ids);
    }
}

pub fn registration(url: &str) -> Registration {
    let owner = WebhookOwner { originator: "did:web:shop.example".to_owned(), chain: None };
    Registration { owner, url: url.to_owned(), scope: Scope::Owner, events: Vec::new() }
}

pub fn due(webhook: &Webhook, payment: usize, version: u64) -> Due {
    let payment_id = PaymentId::derive("payer", &payment.to_string());
    let commit_id = Hash32::sha256(format!("{payment} {version}")).to_string();
    Due {
        id: MessageId::derive(&webhook.id, &payment_id, version, &commit_id),
        payment_id,
        version,
        commit_id,
        kind: EventType::Pending,
        occurred_at: Utc::now(),
        redelivery: 0,
        newest: None,
    }
}

/// Waits until `holds` does.
pub async fn eventually(holds: impl AsyncFn() -> bool) {
    let polled = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, polled).await.expect("it did not happen in time");
}

/// A name for an endpoint that no other test has.
pub fn url(name: &str) -> String {
    format!("https://{name}.example/{}", CommitId::random().as_str())
}
