//! Callers of the verifier: how they prove who they are, and who waits for whom.

use ed25519_dalek::SigningKey;
use reqwest::header::HeaderMap;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Notify,
    task::JoinSet,
    time::timeout,
};

use events::time::unix_seconds;
use protocol::message_signature::Signer;

use super::*;

/// Answers when it is told to; signs for one escrow alone, which no chain is asked about.
#[derive(Default)]
struct SlowJudge {
    shown: Mutex<Vec<PaymentId>>,
    begun: Notify,
    told: Notify,
}

impl SlowJudge {
    fn shown(&self) -> Vec<PaymentId> {
        self.shown.lock().unwrap().clone()
    }
}

#[async_trait]
impl Judge for SlowJudge {
    fn screen(&self, case: &VerificationCase) -> Result<(), String> {
        if case.escrow.contract.as_str() == ACCOUNT { Ok(()) } else { Err("somebody else's escrow".to_owned()) }
    }

    async fn delivery(&self, case: &VerificationCase) -> Result<Verdict, Transient> {
        self.shown.lock().unwrap().push(case.payment_id.clone());
        self.begun.notify_one();
        self.told.notified().await;
        Ok(Verdict::Pending { reason: "slow".to_owned() })
    }

    async fn non_delivery(&self, _: &VerificationCase) -> Result<Verdict, Transient> {
        Ok(Verdict::Attested { signature: GOOD_SIGNATURE.to_owned() })
    }
}

fn signer(seed: u8) -> Signer {
    Signer::new(SigningKey::from_bytes(&[seed; 32]))
}

fn known(options: &mut ServiceOptions, seeds: &[u8]) {
    let dids = seeds.iter().map(|seed| signer(*seed).did().clone());
    options.callers.known = dids.map(|did| (did.clone(), did.ed25519_key().unwrap())).collect();
}

fn now() -> u64 {
    unix_seconds(chrono::Utc::now())
}

/// The request for payment number `n`.
fn body(n: u64) -> String {
    let mut body = request_body();
    body["payment_id"] = json!(PaymentId::derive("payer", &format!("order-{n}")));
    body.to_string()
}

impl Listening {
    /// What an ask of `path` is answered with, with these header fields.
    async fn ask(&self, path: &str, headers: HeaderMap, body: String) -> (StatusCode, Value) {
        let request = reqwest::Client::new().post(format!("{}{path}", self.origin())).headers(headers);
        let response = request.header("content-type", "application/json").body(body).send().await.unwrap();
        let accepts = response.headers().contains_key("accept-signature");
        assert_eq!(accepts, response.status() == StatusCode::UNAUTHORIZED);
        (response.status(), response.json().await.unwrap())
    }

    /// The header fields of a signed ask.
    fn signed(&self, signer: &Signer, path: &str, body: &str, created: u64) -> HeaderMap {
        HeaderMap::from_iter(signer.sign("POST", &format!("{}{path}", self.origin()), body.as_bytes(), created))
    }

    /// Waits until this caller has as many asks under way as it may. What asks is never judged: its body is not an ask.
    async fn full(&self, seed: Option<u8>) {
        let path = DELIVERY_ATTESTATION_PATH;
        let busy = async || {
            let headers = seed.map(|seed| self.signed(&signer(seed), path, "{", now())).unwrap_or_default();
            self.ask(path, headers, "{".to_owned()).await.0 == StatusCode::SERVICE_UNAVAILABLE
        };
        let full = async {
            while !busy().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, full).await.unwrap();
    }

    /// An ask for a delivery's attestation by the holder of this seed, or by nobody known, on its way.
    fn begin(self: &Arc<Self>, asks: &mut JoinSet<(StatusCode, Value)>, seed: Option<u8>, body: String) {
        let this = Arc::clone(self);
        asks.spawn(async move {
            let path = DELIVERY_ATTESTATION_PATH;
            let headers = seed.map(|seed| this.signed(&signer(seed), path, &body, now())).unwrap_or_default();
            this.ask(path, headers, body).await
        });
    }
}

#[tokio::test]
async fn a_known_caller_is_known_by_its_signature_over_this_very_request() {
    let listening = Listening::service(Arc::new(SlowJudge::default()), |options| {
        known(options, &[1]);
        options.callers.anonymous_judgements_max = 0;
    })
    .await;
    let (path, body) = (NON_DELIVERY_ATTESTATION_PATH, request_body().to_string());
    let own = signer(1);
    let signed = |created| listening.signed(&own, path, &body, created);
    assert_eq!(listening.ask(path, signed(now()), body.clone()).await.0, StatusCode::OK);

    let elsewhere = own.sign("POST", &format!("https://other.example{path}"), body.as_bytes(), now());
    let mut borrowed = listening.signed(&signer(2), path, &body, now());
    let input = borrowed["signature-input"].to_str().unwrap().to_owned();
    let input = input.replace(signer(2).did().as_str(), own.did().as_str());
    borrowed.insert("signature-input", input.parse().unwrap());
    let mut unreadable = signed(now());
    unreadable.insert("signature", "gw=:AA==:".parse().unwrap());
    let invalid = "SIGNATURE_INVALID";
    for (headers, sent, code, what) in [
        (signed(now() - 120), &body, invalid, "an old one"),
        (signed(now() + 120), &body, invalid, "one from the future"),
        (listening.signed(&own, DELIVERY_ATTESTATION_PATH, &body, now()), &body, invalid, "of another path"),
        (HeaderMap::from_iter(elsewhere), &body, invalid, "made for another verifier"),
        (borrowed, &body, invalid, "by another key in its name"),
        (unreadable, &body, invalid, "that cannot be read"),
        (signed(now()), &self::body(2), invalid, "over another body"),
        (listening.signed(&signer(2), path, &body, now()), &body, "CALLER_UNKNOWN", "a stranger's"),
        (HeaderMap::new(), &body, "CALLER_UNKNOWN", "none"),
    ] {
        let (status, problem) = listening.ask(path, headers, sent.clone()).await;
        assert_eq!((status, problem["code"].as_str()), (StatusCode::UNAUTHORIZED, Some(code)), "{what}: {problem}");
    }
}

/// Engine and settler sign what they ask.
#[tokio::test]
async fn the_own_clients_are_known_callers() {
    let judge = FixedJudge::attesting(GOOD_SIGNATURE);
    let listening = Listening::service(judge, |options| {
        known(options, &[1, 2]);
        options.callers.anonymous_judgements_max = 0;
    })
    .await;
    let origin = listening.origin();
    let trusted_origins = vec![origin.clone()];
    let options = Options { trusted_origins, wait_max: PATIENCE, signer: Some(signer(1)) };
    let engine = HttpVerifier::new(Arc::new(Escrow::default()), options).unwrap();
    let attested = engine.attest_delivery(&listening.reference(), &case()).await;
    assert_eq!(attested, Ok(Some(GOOD_SIGNATURE.to_owned())));

    let settler = settler::verifier::Client::new(signer(2)).unwrap();
    let request = serde_json::from_value(request_body()).unwrap();
    let answer = settler.attest_delivery(&origin, &request).await.unwrap();
    assert_eq!(answer.signature.as_deref(), Some(GOOD_SIGNATURE));
    let stranger = settler::verifier::Client::new(signer(3)).unwrap();
    let refused = stranger.attest_delivery(&origin, &request).await;
    assert!(matches!(refused, Err(settler::verifier::Error::Status(401))), "{refused:?}");
}

/// Strangers fill what is theirs, with asks and with bodies that never come, and one known caller all of its own; another
/// known caller is answered all the same.
#[tokio::test]
async fn nobody_takes_the_permits_of_another() {
    let judge = Arc::new(SlowJudge::default());
    let listening = Listening::service(judge.clone(), |options| {
        known(options, &[1, 2]);
        options.callers.judgements_per_caller_max = 2;
        options.callers.asks_per_caller_max = 3;
        options.callers.anonymous_judgements_max = 1;
        options.callers.anonymous_asks_max = 4;
    })
    .await;
    let listening = Arc::new(listening);
    let mut asks = JoinSet::new();
    // A stranger's judgement, at work.
    listening.begin(&mut asks, None, body(1));
    judge.begun.notified().await;
    // Three bodies that do not come.
    let mut slow = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(listening.address).await.unwrap();
        let head = format!(
            "POST {DELIVERY_ATTESTATION_PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
             content-length: 100\r\nexpect: 100-continue\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // The body is being waited for once it is asked for.
        let mut said = [0; 12];
        timeout(PATIENCE, stream.read_exact(&mut said)).await.unwrap().unwrap();
        assert_eq!(&said, b"HTTP/1.1 100");
        slow.push(stream);
    }
    let (status, problem) = listening.ask(DELIVERY_ATTESTATION_PATH, HeaderMap::new(), body(2)).await;
    assert_eq!((status, &problem["code"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("BUSY")));
    // A known caller's three asks: two at work, one waits, and a fourth is too many.
    for n in 10..12 {
        listening.begin(&mut asks, Some(1), body(n));
        judge.begun.notified().await;
    }
    let waits = PaymentId::derive("payer", "order-12");
    listening.begin(&mut asks, Some(1), body(12));
    let path = DELIVERY_ATTESTATION_PATH;
    listening.full(Some(1)).await;
    assert!(!judge.shown().contains(&waits));
    // The other known caller is at work at once.
    listening.begin(&mut asks, Some(2), body(20));
    judge.begun.notified().await;
    assert!(judge.shown().contains(&PaymentId::derive("payer", "order-20")));
    // A signature's replay counts in its owner's lane and takes nothing of anybody else.
    let headers = listening.signed(&signer(1), path, &body(12), now());
    assert_eq!(listening.ask(path, headers, body(12)).await.0, StatusCode::SERVICE_UNAVAILABLE);
    while !asks.is_empty() {
        judge.told.notify_waiters();
        if let Ok(Some(answered)) = timeout(Duration::from_millis(10), asks.join_next()).await {
            assert_eq!(answered.unwrap().0, StatusCode::OK);
        }
    }
    assert!(judge.shown().contains(&waits));
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let listening = Listening::service(Arc::new(SlowJudge::default()), |options| {
        options.body_max = Duration::from_millis(50);
        options.callers.anonymous_asks_max = 1;
    })
    .await;
    for _ in 0..3 {
        let mut stream = TcpStream::connect(listening.address).await.unwrap();
        let head = format!(
            "POST {NON_DELIVERY_ATTESTATION_PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
             content-length: 100\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut said = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut said)).await.unwrap().unwrap();
        let said = String::from_utf8(said).unwrap();
        assert!(said.starts_with("HTTP/1.1 400 ") && said.contains("did not arrive in time"), "{said}");
    }
    let body = request_body().to_string();
    assert_eq!(listening.ask(NON_DELIVERY_ATTESTATION_PATH, HeaderMap::new(), body).await.0, StatusCode::OK);
}

/// Who asks the same again and again is judged once, whoever he is; junk in the payment's name is another ask.
#[tokio::test]
async fn the_same_ask_is_one_judgement() {
    let judge = Arc::new(SlowJudge::default());
    let listening = Listening::service(judge.clone(), |options| {
        known(options, &[1]);
        options.callers.judgements_max = 1;
        options.callers.asks_per_caller_max = 20;
        options.callers.anonymous_judgements_max = 2;
        options.callers.anonymous_asks_max = 22;
    })
    .await;
    let listening = Arc::new(listening);
    let mut asks = JoinSet::new();
    listening.begin(&mut asks, None, body(1));
    judge.begun.notified().await;
    for _ in 0..20 {
        listening.begin(&mut asks, None, body(1));
        listening.begin(&mut asks, Some(1), body(1));
    }
    let mut junk: Value = serde_json::from_str(&body(1)).unwrap();
    junk["quote"] = json!("{}");
    listening.begin(&mut asks, None, junk.to_string());
    judge.begun.notified().await;
    listening.full(None).await;
    listening.full(Some(1)).await;
    while !asks.is_empty() {
        judge.told.notify_waiters();
        if let Ok(Some(answered)) = timeout(Duration::from_millis(10), asks.join_next()).await {
            assert_eq!(answered.unwrap().0, StatusCode::OK);
        }
    }
    // One for the ask, one for the junk.
    assert_eq!(judge.shown().len(), 2);
}

/// What is somebody else's escrow is refused by configuration alone, in no queue, however many ask.
#[tokio::test]
async fn a_case_that_is_not_ours_takes_no_permit() {
    let judge = Arc::new(SlowJudge::default());
    let listening = Listening::service(judge.clone(), |options| options.callers.anonymous_judgements_max = 1).await;
    let listening = Arc::new(listening);
    let mut asks = JoinSet::new();
    listening.begin(&mut asks, None, body(1));
    judge.begun.notified().await;
    for n in 0..20 {
        let mut junk: Value = serde_json::from_str(&body(n)).unwrap();
        junk["escrow"]["contract"] = json!("0x0000000000000000000000000000000000000bad");
        let answer = listening.ask(DELIVERY_ATTESTATION_PATH, HeaderMap::new(), junk.to_string()).await;
        let refused = json!({
            "version": "1.0", "status": "refused", "reason": "somebody else's escrow", "follows_reassignments": true,
        });
        assert_eq!(answer, (StatusCode::OK, refused));
    }
    assert_eq!(judge.shown().len(), 1);
    judge.told.notify_one();
    assert_eq!(asks.join_next().await.unwrap().unwrap().0, StatusCode::OK);
}

/// However fast the chains answer, they are read for strangers a bounded number of times in a second.
#[tokio::test]
async fn strangers_are_judged_at_a_pace() {
    let judge = FixedJudge::attesting(GOOD_SIGNATURE);
    let listening = Listening::service(judge.clone(), |options| options.callers.anonymous_judgements_max = 2).await;
    let listening = Arc::new(listening);
    let mut asks = JoinSet::new();
    let begun = tokio::time::Instant::now();
    for n in 0..6 {
        listening.begin(&mut asks, None, body(n));
    }
    while let Some(answered) = asks.join_next().await {
        assert_eq!(answered.unwrap().0, StatusCode::OK);
    }
    // Two at once, two a second later, two another second later.
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(judge.shown.lock().unwrap().len(), 6);
}
