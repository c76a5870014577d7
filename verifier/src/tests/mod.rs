//! Service and client over loopback, and what else may sit at a verifier's address.

mod callers;
mod observed;
mod service;
mod sets;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    Router,
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use chrono::DateTime;
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use events::{
    Account, ChainId, Did, OwnedAsset, PaymentId, Terms, VerifierMember,
    event::{EscrowOpened, EscrowPlan, EscrowSecured, TransactionPrepared},
    quote::Quote,
};
use net::server::Limits;
use protocol::{DELIVERY_ATTESTATION_PATH, MESSAGE_BYTES_MAX, NON_DELIVERY_ATTESTATION_PATH};
use sagas::ports::{
    Chains, DeliveryOrder, DeliveryState, DepositOrder, DepositState, EscrowState, PayerDeposit, PrepareError,
    RefundOrder, ReleaseOrder, Statement, TransactionState, Transient, VerificationCase, Verifier,
};

use super::{CallerOptions, HttpVerifier, Judge, Options, OptionsError, ServiceOptions, Verdict, serve};

const ACCOUNT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
/// The one signature that the escrow of these tests takes.
const GOOD_SIGNATURE: &str = "0x600d";
/// Long enough for a busy machine; nothing waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

fn case() -> VerificationCase {
    let owned = |chain: u64| OwnedAsset::new(format!("eip155:{chain}/slip44:60").parse().unwrap(), ACCOUNT).unwrap();
    let amount = |units: &str| units.parse().unwrap();
    let terms = Terms::new(owned(1), vec![owned(10)], amount("100"), Some(amount("110")));
    let payment_id = PaymentId::derive("payer", "order");
    let key = SigningKey::from_bytes(&[7; 32]);
    let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
    let quote = Quote {
        kind: Quote::kind(),
        auction_id: payment_id.to_string(),
        terms_hash: terms.hash(),
        settler: Did::from_ed25519(&key.verifying_key()),
        source_chain: ChainId::evm(1),
        source_amount: amount("105"),
        payout_account: ACCOUNT.parse().unwrap(),
        escrow_contract: ACCOUNT.parse().unwrap(),
        destination: owned(10),
        fulfillment_amount: amount("100"),
        delivery_account: ACCOUNT.parse().unwrap(),
        fulfillment_proxy: ACCOUNT.parse().unwrap(),
        fulfill_by: at(1_800_000_100),
        valid_until: at(1_800_000_050),
    };
    VerificationCase {
        payment_id,
        terms,
        escrow: EscrowPlan {
            chain_id: ChainId::evm(1),
            contract: ACCOUNT.parse().unwrap(),
            reserver: ACCOUNT.parse().unwrap(),
            releaser: ACCOUNT.parse().unwrap(),
            reserve_deadline: 1_800_000_050,
            fulfillment_deadline: 1_800_000_100,
            refund_after: 1_800_000_200,
        },
        verifier_set: None,
        quote_document: quote.sign(&key, at(1_700_000_000)).unwrap().document().to_owned(),
        payloads: serde_json::from_str(r#"[{"order": 12345678901234567890123}]"#).unwrap(),
    }
}

/// Judges everything the same way, and remembers what it was shown.
struct FixedJudge {
    delivery: Result<Verdict, Transient>,
    non_delivery: Result<Verdict, Transient>,
    shown: Mutex<Vec<VerificationCase>>,
}

impl FixedJudge {
    fn new(delivery: Result<Verdict, Transient>, non_delivery: Result<Verdict, Transient>) -> Arc<Self> {
        Arc::new(Self { delivery, non_delivery, shown: Mutex::default() })
    }

    fn attesting(signature: &str) -> Arc<Self> {
        let verdict = Verdict::Attested { signature: signature.to_owned() };
        Self::new(Ok(verdict.clone()), Ok(verdict))
    }
}

#[async_trait]
impl Judge for FixedJudge {
    fn screen(&self, _: &VerificationCase) -> Result<(), String> {
        Ok(())
    }

    async fn delivery(&self, case: &VerificationCase) -> Result<Verdict, Transient> {
        self.shown.lock().unwrap().push(case.clone());
        self.delivery.clone()
    }

    async fn non_delivery(&self, case: &VerificationCase) -> Result<Verdict, Transient> {
        self.shown.lock().unwrap().push(case.clone());
        self.non_delivery.clone()
    }
}

/// Knows one good signature, and which statements were put to it.
#[derive(Default)]
struct Escrow {
    asked: Mutex<Vec<Statement>>,
    /// Whose own signature was asked about.
    members: Mutex<Vec<Account>>,
    unreachable: bool,
}

#[async_trait]
impl Chains for Escrow {
    async fn prepare_deposit(&self, _: &DepositOrder, _: u32) -> Result<TransactionPrepared, PrepareError> {
        unreachable!("a verifier moves no money")
    }

    async fn prepare_refund(&self, _: &RefundOrder, _: u32) -> Result<TransactionPrepared, PrepareError> {
        unreachable!("a verifier moves no money")
    }

    async fn prepare_release(&self, _: &ReleaseOrder, _: u32) -> Result<TransactionPrepared, PrepareError> {
        unreachable!("a verifier moves no money")
    }

    async fn reprice(&self, _: &[TransactionPrepared]) -> Result<Option<TransactionPrepared>, Transient> {
        unreachable!("a verifier moves no money")
    }

    async fn broadcast(&self, _: &TransactionPrepared) -> Result<(), Transient> {
        unreachable!("a verifier moves no money")
    }

    async fn deposit_state(&self, _: &DepositOrder, _: &[TransactionPrepared]) -> Result<DepositState, Transient> {
        unreachable!("not asked by a verifier's client")
    }

    async fn delivery_state(&self, _: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        unreachable!("not asked by a verifier's client")
    }

    async fn escrow_state(&self, _: &PaymentId, _: &EscrowPlan) -> Result<EscrowState, Transient> {
        unreachable!("not asked by a verifier's client")
    }

    async fn deposit_secured(&self, _: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        unreachable!("not asked by a verifier's client")
    }

    async fn payer_has_escrow(&self, _: &PaymentId, _: &EscrowPlan, _: &Account) -> Result<(bool, u64), Transient> {
        unreachable!("not asked by a verifier's client")
    }

    async fn escrow_found(&self, _: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        unreachable!("not asked by a verifier's client")
    }

    async fn deposit_ruled_out(&self, _: &PaymentId, _: &EscrowPlan, _: u64) -> Result<bool, Transient> {
        unreachable!("not asked by a verifier's client")
    }

    async fn transaction_state(&self, _: &[TransactionPrepared]) -> Result<TransactionState, Transient> {
        unreachable!("not asked by a verifier's client")
    }

    async fn attestation_holds(
        &self,
        statement: &Statement,
        _: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient> {
        self.asked.lock().unwrap().push(statement.clone());
        if self.unreachable { Err(Transient::unreachable("node is away")) } else { Ok(signature == GOOD_SIGNATURE) }
    }

    async fn signed_by(
        &self,
        _: &Statement,
        _: &EscrowPlan,
        member: &Account,
        signature: &str,
    ) -> Result<bool, Transient> {
        self.members.lock().unwrap().push(member.clone());
        Ok(signature == GOOD_SIGNATURE)
    }

    async fn next_block(&self, _: &ChainId) {
        unreachable!("not asked by a verifier's client")
    }
}

/// A service that knows nobody.
fn service_options(origin: String) -> ServiceOptions {
    ServiceOptions {
        limits: Limits { connections_max: 1_000, head_max: PATIENCE, idle_max: PATIENCE, write_max: PATIENCE },
        body_max: PATIENCE,
        callers: CallerOptions {
            origins: vec![origin],
            known: Vec::new(),
            signature_seconds_max: 60,
            asks_per_caller_max: 64,
            judgements_max: 64,
            judgements_per_caller_max: 16,
            anonymous_asks_max: 64,
            anonymous_judgements_max: 8,
        },
    }
}

/// Something that listens on loopback until it is dropped.
struct Listening {
    address: SocketAddr,
    shutdown: CancellationToken,
}

impl Listening {
    async fn judge(judge: Arc<dyn Judge>) -> Self {
        Self::service(judge, |_| ()).await
    }

    /// The service with what `choose` makes of its options; it knows its own origin.
    async fn service(judge: Arc<dyn Judge>, choose: impl FnOnce(&mut ServiceOptions)) -> Self {
        let (listener, this) = Self::bind().await;
        let mut options = service_options(this.origin());
        choose(&mut options);
        tokio::spawn(serve(listener, judge, options, this.shutdown.clone()));
        this
    }

    async fn router(router: Router) -> Self {
        let (listener, this) = Self::bind().await;
        let ended = this.shutdown.clone().cancelled_owned();
        tokio::spawn(async move { axum::serve(listener, router).with_graceful_shutdown(ended).await });
        this
    }

    /// Answers a request for a delivery's attestation in this way.
    async fn answering<R: IntoResponse>(answer: impl Fn() -> R + Clone + Send + Sync + 'static) -> Self {
        let answer = move || {
            let response = answer().into_response();
            async { response }
        };
        Self::router(Router::new().route(DELIVERY_ATTESTATION_PATH, post(answer))).await
    }

    async fn bind() -> (TcpListener, Self) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, Self { address, shutdown: CancellationToken::new() })
    }

    fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    fn reference(&self) -> VerifierMember {
        VerifierMember { account: ACCOUNT.parse().unwrap(), endpoint: self.origin() }
    }

    fn client(&self, escrow: &Arc<Escrow>) -> HttpVerifier {
        client(escrow, vec![self.origin()], PATIENCE)
    }

    async fn post(&self, path: &str, content_type: &str, body: impl Into<reqwest::Body>) -> (StatusCode, Value) {
        let request = reqwest::Client::new().post(format!("{}{path}", self.origin()));
        let response = request.header("content-type", content_type).body(body).send().await.unwrap();
        (response.status(), response.json().await.unwrap())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn client(escrow: &Arc<Escrow>, trusted_origins: Vec<String>, wait_max: Duration) -> HttpVerifier {
    HttpVerifier::new(Arc::clone(escrow) as _, Options { trusted_origins, wait_max, signer: None }).unwrap()
}

fn assert_fault(outcome: &Result<Option<String>, Transient>, text: &str) {
    let Err(fault) = outcome else { panic!("no fault but {outcome:?}") };
    let reason = fault.to_string();
    assert!(reason.contains(text), "{reason}");
}

#[tokio::test]
async fn an_attestation_travels_from_judge_to_engine() {
    let judge = FixedJudge::attesting(GOOD_SIGNATURE);
    let listening = Listening::judge(judge.clone()).await;
    let escrow = Arc::new(Escrow::default());
    let client = listening.client(&escrow);
    let good = Ok(Some(GOOD_SIGNATURE.to_owned()));
    assert_eq!(client.attest_delivery(&listening.reference(), &case()).await, good);
    assert_eq!(client.attest_non_delivery(&listening.reference(), &case()).await, good);
    assert_eq!(*judge.shown.lock().unwrap(), [case(), case()], "the judge is shown what the engine has");

    let case = case();
    let quote = events::quote::SignedQuote::parse(&case.quote_document).unwrap();
    let (payment_id, quote_hash) = (case.payment_id, quote.hash());
    let expected = [
        Statement::Delivery { payment_id: payment_id.clone(), quote_hash, payout_account: ACCOUNT.parse().unwrap() },
        Statement::NonDelivery { payment_id, quote_hash },
    ];
    assert_eq!(*escrow.asked.lock().unwrap(), expected);
}

#[tokio::test]
async fn pending_and_refused_give_nothing_and_faults_are_transient() {
    let pending = Ok(Verdict::Pending { reason: "two blocks are missing".to_owned() });
    let refused = Ok(Verdict::Refused { reason: "the amount differs".to_owned() });
    let listening = Listening::judge(FixedJudge::new(pending, refused)).await;
    let escrow = Arc::new(Escrow::default());
    assert_eq!(listening.client(&escrow).attest_delivery(&listening.reference(), &case()).await, Ok(None));
    assert_eq!(listening.client(&escrow).attest_non_delivery(&listening.reference(), &case()).await, Ok(None));

    let away = || Err(Transient::unreachable("node is away at http://10.1.2.3"));
    let listening = Listening::judge(FixedJudge::new(away(), away())).await;
    let outcome = listening.client(&escrow).attest_delivery(&listening.reference(), &case()).await;
    assert_fault(&outcome, "CHAINS_UNAVAILABLE");
    let Err(fault) = outcome else { unreachable!() };
    assert!(!fault.to_string().contains("10.1.2.3"), "the verifier's own nodes are nobody's business");
    assert!(escrow.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_signature_counts_only_when_the_escrow_takes_it() {
    let listening = Listening::judge(FixedJudge::attesting("0xbad0")).await;
    let escrow = Arc::new(Escrow::default());
    let outcome = listening.client(&escrow).attest_delivery(&listening.reference(), &case()).await;
    assert_fault(&outcome, "not the statement of");

    let listening = Listening::judge(FixedJudge::attesting(GOOD_SIGNATURE)).await;
    let escrow = Arc::new(Escrow { unreachable: true, ..Escrow::default() });
    let outcome = listening.client(&escrow).attest_delivery(&listening.reference(), &case()).await;
    assert_fault(&outcome, "node is away");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let target = Listening::judge(FixedJudge::attesting(GOOD_SIGNATURE)).await;
    let location = format!("{}{DELIVERY_ATTESTATION_PATH}", target.origin());
    for status in [StatusCode::FOUND, StatusCode::TEMPORARY_REDIRECT, StatusCode::PERMANENT_REDIRECT] {
        let headers = [(header::LOCATION, location.clone())];
        let listening = Listening::answering(move || (status, headers.clone())).await;
        let escrow = Arc::new(Escrow::default());
        let trusted = vec![listening.origin(), target.origin()];
        let outcome = client(&escrow, trusted, PATIENCE).attest_delivery(&listening.reference(), &case()).await;
        assert_fault(&outcome, &format!("answered {status}"));
        assert!(escrow.asked.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn an_oversized_answer_is_cut_off() {
    let answer = json!({
        "version": "1.0", "status": "attested", "signature": GOOD_SIGNATURE, "reason": "x".repeat(1 << 20),
    });
    let listening = Listening::answering(move || answer.to_string()).await;
    let outcome = listening.client(&Arc::default()).attest_delivery(&listening.reference(), &case()).await;
    assert_fault(&outcome, "answered more than");

    // Without an end, and without a stated length.
    let endless = || {
        let chunks = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b' '; 1024]));
        Response::new(Body::from_stream(chunks))
    };
    let listening = Listening::answering(endless).await;
    let outcome = listening.client(&Arc::default()).attest_delivery(&listening.reference(), &case()).await;
    assert_fault(&outcome, "answered more than");
}

#[tokio::test]
async fn a_slow_answer_is_not_waited_for() {
    let never = || async { std::future::pending::<StatusCode>().await };
    let listening = Listening::router(Router::new().route(DELIVERY_ATTESTATION_PATH, post(never))).await;
    let short = client(&Arc::default(), vec![listening.origin()], Duration::from_millis(200));
    assert_fault(&short.attest_delivery(&listening.reference(), &case()).await, "did not answer in time");

    // The head comes at once and the body never.
    let head_only = || Response::new(Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>()));
    let listening = Listening::answering(head_only).await;
    let short = client(&Arc::default(), vec![listening.origin()], Duration::from_millis(200));
    assert_fault(&short.attest_delivery(&listening.reference(), &case()).await, "did not answer in time");
}

#[tokio::test]
async fn nonsense_is_a_fault_that_names_the_verifier() {
    let answers = [
        "not json".to_owned(),
        "[]".to_owned(),
        json!({"version": "2.0", "status": "pending"}).to_string(),
        json!({"version": "1.0", "status": "perhaps"}).to_string(),
        json!({"version": "1.0", "status": "attested"}).to_string(),
        json!({"version": "1.0", "status": "refused", "signature": GOOD_SIGNATURE}).to_string(),
    ];
    for answer in answers {
        let listening = Listening::answering(move || answer.clone()).await;
        let outcome = listening.client(&Arc::default()).attest_delivery(&listening.reference(), &case()).await;
        assert_fault(&outcome, &listening.origin());
    }
    let nobody = { Listening::bind().await.1.reference() };
    let outcome =
        client(&Arc::default(), vec![nobody.endpoint.clone()], PATIENCE).attest_delivery(&nobody, &case()).await;
    assert_fault(&outcome, &nobody.endpoint);
}

#[tokio::test]
async fn strangers_reach_nothing_but_public_https() {
    let judge = FixedJudge::attesting(GOOD_SIGNATURE);
    let listening = Listening::judge(judge.clone()).await;
    let port = listening.address.port();
    let client = client(&Arc::default(), vec!["https://verifier.example".to_owned()], PATIENCE);
    let endpoints = [
        (listening.origin(), "neither trusted nor https"),
        (format!("http://localhost:{port}"), "neither trusted nor https"),
        ("http://1.1.1.1".to_owned(), "neither trusted nor https"),
        (format!("https://127.0.0.1:{port}"), "public address"),
        (format!("https://localhost:{port}"), "public address"),
        (format!("https://[::1]:{port}"), "public address"),
        (format!("https://[::ffff:127.0.0.1]:{port}"), "public address"),
        // Other spellings of 127.0.0.1.
        (format!("https://2130706433:{port}"), "public address"),
        (format!("https://0x7f.1:{port}"), "public address"),
        ("https://10.0.0.1".to_owned(), "public address"),
        ("https://169.254.169.254".to_owned(), "public address"),
        ("https://verifier.example/v1".to_owned(), "is not an origin"),
        ("https://verifier.example@127.0.0.1".to_owned(), "is not an origin"),
        ("file:///etc/passwd".to_owned(), "is not an origin"),
        (String::new(), "is not an origin"),
    ];
    for (endpoint, text) in endpoints {
        let verifier = VerifierMember { account: ACCOUNT.parse().unwrap(), endpoint };
        assert_fault(&client.attest_delivery(&verifier, &case()).await, text);
    }
    assert!(judge.shown.lock().unwrap().is_empty());
}

#[tokio::test]
async fn trust_is_by_origin_in_any_spelling() {
    let listening = Listening::judge(FixedJudge::attesting(GOOD_SIGNATURE)).await;
    let trusted = vec![listening.origin().replace("http://", "HTTP://")];
    let outcome = client(&Arc::default(), trusted, PATIENCE).attest_delivery(&listening.reference(), &case()).await;
    assert_eq!(outcome, Ok(Some(GOOD_SIGNATURE.to_owned())));
    let options = Options { trusted_origins: vec!["verifier.example".to_owned()], wait_max: PATIENCE, signer: None };
    let refused = HttpVerifier::new(Arc::new(Escrow::default()), options);
    assert!(matches!(refused, Err(OptionsError::NotAnOrigin(_))));
}

#[tokio::test]
async fn a_case_with_an_unreadable_quote_goes_nowhere() {
    let judge = FixedJudge::attesting(GOOD_SIGNATURE);
    let listening = Listening::judge(judge.clone()).await;
    let spoilt = VerificationCase { quote_document: "{}".to_owned(), ..case() };
    let outcome = listening.client(&Arc::default()).attest_delivery(&listening.reference(), &spoilt).await;
    assert_fault(&outcome, "cannot be read");
    assert!(judge.shown.lock().unwrap().is_empty());
}

fn request_body() -> Value {
    let case = case();
    json!({
        "version": "1.0",
        "payment_id": case.payment_id,
        "terms": case.terms,
        "escrow": protocol::Escrow::from(&case.escrow),
        "quote": case.quote_document,
    })
}
