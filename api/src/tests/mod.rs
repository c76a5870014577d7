//! The routes through their router, over a journal in memory.

mod admission;
mod bad_bodies;
mod browsers;
mod document;
mod doubles;
mod event_streams;
mod existing;
mod fresh_views;
mod generators;
mod history;
mod hoarding;
mod idempotency;
mod idempotency_rules;
mod identities;
mod limits;
mod overload;
mod own_payments;
mod pages;
mod quote_request_bodies;
mod quote_requests;
mod reads;
mod rehearsals;
mod restored;
mod selectors;
mod settlers;
mod shapes;
mod side_effects;
mod signatures;
mod solana;
mod tron;
mod untrusted_clients;
mod validation;
mod verifier_sets;
mod webhooks;
mod wrapped_coins;
mod x402;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode},
};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use app::{
    Services,
    admission::{
        Admission,
        pause::PauseState,
        policy::{Counterparties, Decimals},
        restored_journal::RestoredJournal,
    },
    authorization::{AuthorizationRequest, AuthorizeError, Authorized, Authorizer, Prepared},
    funds::{Funds, Holding, Spend},
    payment_identifiers::{Identifiers, MemoryIdentifiers},
    sessions::Sessions,
    views::payments::Payments,
};
use chains::readiness::ChainsReadiness;
use config::{GatewayConfig, SettlerPolicyConfig};
use events::{
    CommitId, Family, Hash32, PaymentEvent, PaymentId,
    event::{Authorization, EscrowPlan, Permit2, Submitted},
    time::{Timestamp, unix_seconds},
};
use identity::Identities;
use journal::{Commit, Position, StreamLog, StreamStore, memory::MemoryJournal};
use net::callers::limits::Networks;
use projections::Unavailable;

use self::{
    doubles::{JournalPayments, LenientAuthorizer, SetClock, SetFunds, SetHeads, SetReadiness},
    own_payments::{FollowedPayments, SetContracts, session_key},
    quote_requests::SetAuctions,
};
use super::{routes::router, state::HttpState};

pub const PAYER: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
pub const RECIPIENT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
pub const SOURCE_ASSET: &str = "eip155:31337/erc20:0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0";
pub const DESTINATION_ASSET: &str = "eip155:31338/erc20:0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0";
pub const ESCROW: &str = "0x5fbdb2315678afecb367f032d93f642f64180aa3";
pub const PROXY: &str = "0xe7f1725e7734ce288f8367e1bb143e90bb3f0512";
pub const VERIFIER: &str = "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc";
/// A contract and verifier that only `[trust]` makes acceptable.
pub const TRUSTED: &str = "0xcf7ed3acca5a467e9e704c703e8d87f634fb0fc9";
/// A selector that only `[trust]` makes acceptable.
pub const SELECTOR: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
/// Signatures that the authorizer of these tests treats apart.
pub const FORGED: &str = "0xbad0";
pub const UNJUDGED: &str = "0xdead";
pub const UNAPPROVED: &str = "0xabcd";
pub const PANICKING: &str = "0xfa11";

/// A gateway whose parts can be made to misbehave.
pub struct Gateway {
    pub router: Router,
    pub state: Arc<HttpState>,
    pub journal: MemoryJournal,
    pub payments: Arc<JournalPayments>,
    pub auctions: Arc<SetAuctions>,
    pub owned: Arc<FollowedPayments>,
    pub contracts: Arc<SetContracts>,
    pub clock: Arc<SetClock>,
    pub ready: Arc<SetReadiness>,
    pub funds: Arc<SetFunds>,
    pub stopping: CancellationToken,
    pub pause: watch::Sender<bool>,
    pub chains: ChainsReadiness,
}

/// An answer, read.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
    pub text: String,
}

impl Gateway {
    pub fn new() -> Self {
        let journal = MemoryJournal::new(4);
        Self::with_journal(Arc::new(journal.clone()), journal, |_| {})
    }

    pub fn configured(change: impl FnOnce(&mut GatewayConfig)) -> Self {
        let journal = MemoryJournal::new(4);
        Self::with_journal(Arc::new(journal.clone()), journal, change)
    }

    /// A gateway that appends to one journal and whose read model follows another.
    pub fn with_journal(
        appended: Arc<dyn StreamLog>,
        journal: MemoryJournal,
        change: impl FnOnce(&mut GatewayConfig),
    ) -> Self {
        Self::with_parts(appended, journal, Arc::new(LenientAuthorizer), change)
    }

    pub fn with_parts(
        appended: Arc<dyn StreamLog>,
        journal: MemoryJournal,
        authorizer: Arc<dyn Authorizer>,
        change: impl FnOnce(&mut GatewayConfig),
    ) -> Self {
        Self::with_identifiers(appended, journal, authorizer, Arc::new(MemoryIdentifiers::default()), change)
    }

    /// A gateway on a journal and identifiers that others have, too.
    pub fn sharing(
        journal: MemoryJournal,
        identifiers: Arc<dyn Identifiers>,
        change: impl FnOnce(&mut GatewayConfig),
    ) -> Self {
        let appended = Arc::new(journal.clone());
        Self::with_identifiers(appended, journal, Arc::new(LenientAuthorizer), identifiers, change)
    }

    fn with_identifiers(
        appended: Arc<dyn StreamLog>,
        journal: MemoryJournal,
        authorizer: Arc<dyn Authorizer>,
        identifiers: Arc<dyn Identifiers>,
        change: impl FnOnce(&mut GatewayConfig),
    ) -> Self {
        Self::build(appended, journal, authorizer, identifiers, None, change)
    }

    /// A gateway on a journal that came out of a copy.
    pub fn restored(journal: MemoryJournal, restored: RestoredJournal) -> Self {
        let (appended, identifiers) = (Arc::new(journal.clone()), Arc::new(MemoryIdentifiers::default()));
        Self::build(appended, journal, Arc::new(LenientAuthorizer), identifiers, Some(restored), |_| {})
    }

    fn build(
        appended: Arc<dyn StreamLog>,
        journal: MemoryJournal,
        authorizer: Arc<dyn Authorizer>,
        identifiers: Arc<dyn Identifiers>,
        restored: Option<RestoredJournal>,
        change: impl FnOnce(&mut GatewayConfig),
    ) -> Self {
        let mut config = config();
        config.http.hold_ms_max = 0;
        change(&mut config);
        let payments = Arc::new(JournalPayments {
            journal: journal.clone(),
            blind: AtomicBool::new(false),
            collecting: AtomicUsize::new(0),
        });
        let clock = Arc::new(SetClock(Mutex::new(at("2030-01-01T00:00:00Z"))));
        let ready = Arc::new(SetReadiness(Mutex::new(Ok(())), Mutex::default()));
        let stopping = CancellationToken::new();
        let auctions = Arc::new(SetAuctions::default());
        let chains = ChainsReadiness::new(config.chains.iter().map(|served| served.chain.common().chain_id.clone()));
        let (pause, decimals) = (watch::Sender::new(false), Decimals::new());
        let counterparties = Counterparties::load(&config.counterparty, decimals).unwrap();
        let funds = Arc::new(SetFunds::default());
        let owned = FollowedPayments::of(&journal);
        let contracts = Arc::new(SetContracts::default());
        let services = Services {
            journal: appended.clone(),
            reads: appended,
            payments: payments.clone(),
            owned_payments: owned.clone(),
            settlers: owned.clone(),
            webhooks: Some(webhooks::desk()),
            sessions: Sessions { key: session_key(), contracts: contracts.clone() },
            quote_requests: payments.clone(),
            auctions: auctions.clone(),
            authorizer,
            clock: clock.clone(),
            admission: Admission::new(PauseState::follow(&pause), counterparties),
            identities: Identities::load(&config.identity).unwrap(),
            identifiers,
            restored,
            chains: chains.clone(),
            heads: Arc::new(SetHeads),
            funds: [Family::Evm, Family::Solana, Family::Tron]
                .map(|family| (family, funds.clone() as Arc<dyn Funds>))
                .into(),
            readiness: ready.clone(),
            stopping: stopping.clone(),
        };
        let state = Arc::new(HttpState::new(&config, services));
        let router = router(state.clone());
        Self {
            router,
            state,
            journal,
            payments,
            auctions,
            owned,
            contracts,
            clock,
            ready,
            funds,
            stopping,
            pause,
            chains,
        }
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.into()).unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        let answer = Answer { status: parts.status, headers: parts.headers, body, text };
        document::check(&method, &path, &answer);
        answer
    }

    pub async fn post(&self, body: &Value) -> Answer {
        self.post_text(body.to_string()).await
    }

    pub async fn post_text(&self, body: impl Into<Body>) -> Answer {
        let request = Request::post("/v1/payments").header("content-type", "application/json");
        self.send(request.body(body.into()).unwrap()).await
    }

    pub async fn post_to(&self, path: &str, body: &Value) -> Answer {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request.body(body.to_string().into()).unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    /// The first event of the only payment in the journal that was made from `body`.
    pub async fn submitted(&self, payment_id: &str) -> Submitted {
        let commits = self.journal.load(&payment_id.parse().unwrap()).await.unwrap();
        match commits[0].payment_events().next() {
            Some(PaymentEvent::Submitted(submitted)) => *submitted.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// Appends what the engine would.
    pub async fn append(&self, payment_id: &PaymentId, events: Vec<PaymentEvent>) {
        let commits = self.journal.load(&payment_id.into()).await.unwrap();
        let commit = Commit {
            stream_id: payment_id.into(),
            expected: commits.last().map_or(Position::START, |last| last.position),
            commit_id: CommitId::random(),
            events: events.into_iter().map(Into::into).collect(),
            correlation: "test".to_owned(),
            causation: "test".to_owned(),
        };
        self.journal.append(&commit).await.unwrap();
    }
}

impl Answer {
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        self
    }

    /// Checks that this is an ErrorResponse (spec 2.10) with this status and code.
    #[track_caller]
    pub fn expect_error(self, status: u16, code: &str) -> Self {
        let answer = self.expect(status);
        assert_eq!(answer.body["code"], code, "{answer:?}");
        let message = answer.body["message"].as_str().unwrap();
        assert!((1..=500).contains(&message.chars().count()), "{answer:?}");
        let request_id = answer.headers["x-request-id"].to_str().unwrap();
        assert_eq!(answer.body["request_id"], request_id, "{answer:?}");
        assert_eq!(answer.body["docs_url"], format!("https://pay.example/docs/errors#{code}"), "{answer:?}");
        assert!(answer.body["domain"].is_string() && answer.body["retry_classification"].is_string(), "{answer:?}");
        assert_eq!(answer.headers["content-type"], "application/json", "{answer:?}");
        assert_eq!(answer.headers.contains_key("retry-after"), matches!(status, 429 | 503), "{answer:?}");
        answer
    }

    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    pub fn payment_id(&self) -> PaymentId {
        self.body["payment_id"].as_str().unwrap().parse().unwrap()
    }
}

/// The example configuration with a second chain, and with trust in a few others.
pub fn config() -> GatewayConfig {
    let example = include_str!("../../../config/gateway.example.toml");
    let chains = &example[example.find("\n[[chains]]").unwrap()..];
    let text = format!("{example}\n{}", chains.replace("31337", "31338").replace("3600", "7200"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.toml");
    std::fs::write(&path, text).unwrap();
    let mut config = GatewayConfig::load(&path).unwrap();
    // Requests of these tests come over no connection, and most tests are about other things than how many there are.
    config.limits.exempt = Networks::parse(["0.0.0.0"]).unwrap();
    config.http.base_url = "https://pay.example".to_owned();
    let contract = |chain: &str| format!("{chain}:{TRUSTED}").try_into().unwrap();
    config.trust.escrow_contracts = vec![contract("eip155:31337")];
    config.trust.fulfillment_proxies = vec![contract("eip155:31338")];
    config.trust.verifiers = vec![config::VerifierEndpoint {
        account: TRUSTED.parse().unwrap(),
        endpoint: "https://verifier.example".to_owned(),
    }];
    config.trust.selectors = vec![SELECTOR.parse().unwrap()];
    let policy = || SettlerPolicyConfig {
        issuers: vec!["did:web:kyc.example".parse().unwrap()],
        kind: "Kyc".to_owned(),
        record: None,
    };
    config.settlers.policies = ["aml", "kyc"].map(|name| (name.to_owned(), policy())).into();
    config
}

/// The windows of the example configuration, as `/v1/defaults` shows them.
pub fn deadline_limits() -> Value {
    json!({
        "quote_ms_min": 100,
        "quote_seconds_max": 600,
        "settlement_ms_min": 0,
        "settlement_seconds_max": 86_400,
        "refund_seconds_max": 86_400,
    })
}

/// A submission in which everything is in order.
pub fn body() -> Value {
    json!({
        "version": "1.0",
        "request_id": "order-1",
        "source": {"asset_identifier": SOURCE_ASSET, "account": PAYER},
        "destination": [{"asset_identifier": DESTINATION_ASSET, "account": RECIPIENT}],
        "fulfillment_amount": "1000000",
        "max_source_amount": "1100000",
        "quote_deadline": "2030-01-01T00:01:00Z",
        "fulfillment_deadline": "2030-01-01T00:10:00Z",
        "sender_auth": {
            "message_scheme": "EVM_PERMIT2_ESCROW",
            "signed_messages": [{"message": "0x11", "signature": "0x22", "message_prehash": "{}", "payload": {}}],
        },
    })
}

/// [`body`] with the value at a JSON pointer replaced or added.
pub fn with(pointer: &str, value: Value) -> Value {
    let mut body = body();
    set(&mut body, pointer, value);
    body
}

/// What is shown of a single verifier.
pub fn single_verifier(account: &str, endpoint: &str) -> Value {
    let member = json!({"account": account, "endpoint": endpoint});
    json!({"account": account, "endpoint": endpoint, "threshold": 1, "members": [member]})
}

pub fn set(body: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match body.pointer_mut(parent).unwrap() {
        Value::Object(members) => {
            members.insert(name.replace("~1", "/"), value);
        }
        Value::Array(items) => match name.parse::<usize>().unwrap() {
            index if index < items.len() => items[index] = value,
            _ => items.push(value),
        },
        other => panic!("{other}"),
    }
}

/// [`body`] without the member at a JSON pointer.
pub fn without(pointer: &str) -> Value {
    let mut body = body();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    body.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name).unwrap();
    body
}

pub fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}
