//! A client that does what the contract says on every kind of answer: it tries again under the same `request_id`, anywhere.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use alloy::{
    primitives::{U256, keccak256},
    signers::local::PrivateKeySigner,
};
use anyhow::{Result, bail, ensure};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use devnet::{
    network::Network,
    payer::{Answer, Payer, PaymentSpec},
};
use events::{Hash32, PaymentId};
use linearizability::gateway::Op;

use super::recorder::Recorder;

/// How long an answer is waited for before another gateway is asked.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// How long a submission is held; the rest is polled.
const HOLD: Duration = Duration::from_secs(1);
/// Between two attempts when nothing said how long to wait.
const PAUSE: Duration = Duration::from_millis(300);
/// `retry_after_seconds` of the gateways.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long it is tried to get a word.
const GIVE_UP: Duration = Duration::from_secs(60);

/// The last word the client had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LastAnswer {
    /// A gateway answered 200.
    Accepted,
    /// A gateway said that this will not be accepted, with this code.
    Refused(String),
    /// No gateway said either.
    Nothing,
}

/// A payment that was asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    pub payment_id: PaymentId,
    pub last_answer: LastAnswer,
    /// Answers and silences before the last word.
    pub retries: usize,
    /// The session in which it was accepted.
    pub session: Option<Session>,
}

/// Calls about one payment, each of which is told what the one before was answered.
#[derive(Debug, Clone)]
pub struct Session {
    pub name: String,
    /// The last answer, whose position goes with the next read.
    pub seen: Option<Answer>,
}

impl Asked {
    /// What is known after two calls for one payment: that it is accepted where either was told so, that it is refused where
    /// neither may have been accepted.
    fn or(self, other: Self) -> Self {
        let retries = self.retries + other.retries;
        let session = self.session.or(other.session);
        let last_answer = match (self.last_answer, other.last_answer) {
            (LastAnswer::Accepted, _) | (_, LastAnswer::Accepted) => LastAnswer::Accepted,
            (LastAnswer::Refused(code), LastAnswer::Refused(_)) => LastAnswer::Refused(code),
            _ => LastAnswer::Nothing,
        };
        Self { payment_id: self.payment_id, last_answer, retries, session }
    }
}

/// A payer, and the gateways it knows.
pub struct Client {
    pub payer: Payer,
    bases: Vec<String>,
    next: AtomicUsize,
    http: reqwest::Client,
    recorder: Option<(Arc<Recorder>, String)>,
}

impl Client {
    /// The `n`th payer of a test, with money on the source chain.
    pub async fn endowed(network: &Network, n: usize) -> Result<Self> {
        let signer = PrivateKeySigner::from_bytes(&keccak256(format!("payer {n} of a test")))?;
        let payer = Payer::new(signer.clone())?;
        let source = &network.source;
        source.dev.fund(&payer.account(), U256::from(10_u64.pow(19))).await?;
        source.dev.mint(&source.token, &payer.account(), U256::from(10_u64.pow(12))).await?;
        source.dev.approve(&signer, &source.token, &source.contracts.permit2, U256::MAX).await?;
        Ok(Self::of(network, n, payer))
    }

    /// A payer that has money; it asks gateway `n` first.
    pub fn of(network: &Network, n: usize, payer: Payer) -> Self {
        let bases = network.gateways.iter().map(|gateway| gateway.base_url()).collect();
        Self { payer, bases, next: AtomicUsize::new(n), http: reqwest::Client::new(), recorder: None }
    }

    /// The same, whose calls are written down as those of `name`.
    #[must_use]
    pub fn recorded(self, recorder: Arc<Recorder>, name: &str) -> Self {
        Self { recorder: Some((recorder, name.to_owned())), ..self }
    }

    /// The same payer in another place.
    pub fn again(&self) -> Self {
        let (payer, bases, http) = (self.payer.clone(), self.bases.clone(), self.http.clone());
        Self { payer, bases, next: AtomicUsize::new(0), http, recorder: self.recorder.clone() }
    }

    /// The gateways in turn.
    fn base(&self) -> &str {
        &self.bases[self.next.fetch_add(1, Ordering::Relaxed) % self.bases.len()]
    }

    /// Submits until there is a word.
    ///
    /// # Errors
    /// When an answer breaks the contract.
    pub async fn pay(&self, spec: &PaymentSpec) -> Result<Asked> {
        let until = Instant::now() + GIVE_UP;
        let sign = || self.payer.sign(self.base(), spec);
        match persist(until, sign).await {
            Some(body) => self.submit(spec, &body, until, "").await,
            None => Ok(self.asked(spec)),
        }
    }

    /// Submits the same in two places at once.
    ///
    /// # Errors
    /// When an answer breaks the contract.
    pub async fn pay_twice(&self, spec: &PaymentSpec) -> Result<Asked> {
        let until = Instant::now() + GIVE_UP;
        let sign = || self.payer.sign(self.base(), spec);
        let Some(body) = persist(until, sign).await else { return Ok(self.asked(spec)) };
        let calls = tokio::join!(self.submit(spec, &body, until, "-one"), self.submit(spec, &body, until, "-two"));
        Ok(calls.0?.or(calls.1?))
    }

    /// Submits two payments of different terms under one `request_id` at once, of which one is accepted at most.
    ///
    /// # Errors
    /// When an answer breaks the contract.
    pub async fn pay_either(&self, one: &PaymentSpec, other: &PaymentSpec) -> Result<Asked> {
        let until = Instant::now() + GIVE_UP;
        let signed = tokio::join!(
            persist(until, || self.payer.sign(self.base(), one)),
            persist(until, || self.payer.sign(self.base(), other))
        );
        let (Some(first), Some(second)) = signed else { return Ok(self.asked(one)) };
        let calls = tokio::join!(self.submit(one, &first, until, "-one"), self.submit(other, &second, until, "-two"));
        Ok(calls.0?.or(calls.1?))
    }

    async fn submit(&self, spec: &PaymentSpec, body: &Value, until: Instant, session: &str) -> Result<Asked> {
        let mut terms = body.clone();
        if let Some(members) = terms.as_object_mut() {
            members.remove("sender_auth");
        }
        let payment = self.payer.payment_id(&spec.request_id).to_string();
        let terms = Hash32::sha256(terms.to_string()).to_string();
        let op = Op::Submit { session: format!("{payment}{session}"), payment, terms };
        let mut asked = self.asked(spec);
        self.insist(&mut asked, spec, until, &op, || self.payer.submit(self.base(), body, HOLD)).await?;
        Ok(asked)
    }

    /// Asks for quotes, takes the best one and awards it until there is a word. Where there is no quote, nothing is paid.
    ///
    /// # Errors
    /// When an answer breaks the contract.
    pub async fn choose(&self, spec: &PaymentSpec) -> Result<Asked> {
        let until = Instant::now() + GIVE_UP;
        match self.collect(spec, until).await {
            Some(batch) => self.award(spec, &batch, 0, until).await,
            None => Ok(self.asked(spec)),
        }
    }

    /// Asks for quotes, and awards two of them at once to two payments, of which one is accepted at most.
    ///
    /// # Errors
    /// When an answer breaks the contract.
    pub async fn choose_either(&self, one: &PaymentSpec, other: &PaymentSpec) -> Result<Vec<Asked>> {
        let until = Instant::now() + GIVE_UP;
        let Some(batch) = self.collect(one, until).await else { return Ok(vec![self.asked(one)]) };
        let last = batch["quotes"].as_array().map_or(0, |quotes| quotes.len() - 1);
        let awards = tokio::join!(self.award(one, &batch, 0, until), self.award(other, &batch, last, until));
        Ok(vec![awards.0?, awards.1?])
    }

    /// A batch that has quotes.
    async fn collect(&self, spec: &PaymentSpec, until: Instant) -> Option<Value> {
        let order = self.payer.quote_request(spec);
        let opened = persist(until, || async {
            let opened = self.payer.open(self.base(), &order, false).await?;
            ensure!(opened.status == 200, "{opened:?}");
            Ok(opened)
        });
        let batch_id = opened.await?.text("quote_request_id").to_owned();
        let collected = persist(until, || async {
            let batch = self.payer.batch(self.base(), &batch_id).await?;
            ensure!(batch.status == 200 && batch.text("status") != "collecting", "{batch:?}");
            Ok(batch)
        });
        let batch = collected.await?.body;
        batch["quotes"].as_array().is_some_and(|quotes| !quotes.is_empty()).then_some(batch)
    }

    async fn award(&self, spec: &PaymentSpec, batch: &Value, index: usize, until: Instant) -> Result<Asked> {
        let mut asked = self.asked(spec);
        let sign = || self.payer.sign_award(self.base(), batch, index, &spec.request_id);
        let Some(body) = persist(until, sign).await else { return Ok(asked) };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (payment, id) = (asked.payment_id.to_string(), text(&batch["quote_request_id"]));
        let (batch, quote, session) = (id.clone(), text(&body["quote_id"]), payment.clone());
        let op = Op::Award { payment, batch, quote, session };
        self.insist(&mut asked, spec, until, &op, || self.payer.award(self.base(), &id, &body, HOLD)).await?;
        Ok(asked)
    }

    /// Reads a payment so often, here and there, each time with the position of the answer before.
    ///
    /// # Errors
    /// When an answer breaks the contract.
    pub async fn follow(
        &self,
        payment_id: &PaymentId,
        mut session: Session,
        reads: usize,
        pause: Duration,
    ) -> Result<()> {
        let id = payment_id.as_str();
        for _ in 0..reads {
            let base = self.base();
            let read = async {
                match &session.seen {
                    Some(seen) => self.payer.status_since(base, id, seen).await,
                    None => self.payer.status(base, id).await,
                }
            };
            let op = Op::Read { payment: id.to_owned(), session: session.name.clone() };
            let answer = self.call(op, read).await?;
            session.seen = answer.filter(|answer| answer.position.is_some()).or(session.seen);
            sleep(pause).await;
        }
        Ok(())
    }

    /// Makes a call, and writes it down.
    async fn call(&self, op: Op, send: impl Future<Output = Result<Answer>>) -> Result<Option<Answer>> {
        let invoked = self.recorder.as_ref().map(|(recorder, _)| recorder.now());
        let answer = timeout(ANSWER_MAX, send).await.ok().and_then(Result::ok);
        if let (Some((recorder, name)), Some(invoked)) = (&self.recorder, invoked) {
            recorder.add(name, op, invoked, answer.as_ref())?;
        }
        Ok(answer)
    }

    fn asked(&self, spec: &PaymentSpec) -> Asked {
        let payment_id = self.payer.payment_id(&spec.request_id);
        Asked { payment_id, last_answer: LastAnswer::Nothing, retries: 0, session: None }
    }

    /// Sends the same again and again until there is a word.
    async fn insist<F>(
        &self,
        asked: &mut Asked,
        spec: &PaymentSpec,
        until: Instant,
        op: &Op,
        send: impl Fn() -> F,
    ) -> Result<()>
    where
        F: Future<Output = Result<Answer>>,
    {
        while Instant::now() < until {
            let pause = match self.call(op.clone(), send()).await? {
                Some(answer) => match self.judge(&answer, asked, spec).await? {
                    Some(pause) => pause,
                    None => {
                        let (Op::Submit { session, .. } | Op::Award { session, .. } | Op::Read { session, .. }) = op;
                        let accepted = answer.status == 200;
                        let session = || Session { name: session.clone(), seen: Some(answer) };
                        asked.session = accepted.then(session);
                        return Ok(());
                    }
                },
                // No answer: it may be accepted or not, and asking again under the same id finds out.
                None => PAUSE,
            };
            asked.retries += 1;
            sleep(pause).await;
        }
        Ok(())
    }

    /// What an answer means: `None` when it is the last word, else how long to wait before trying again.
    async fn judge(&self, answer: &Answer, asked: &mut Asked, spec: &PaymentSpec) -> Result<Option<Duration>> {
        if answer.status == 200 {
            ensure!(answer.text("payment_id") == asked.payment_id.as_str(), "another payment: {answer:?}");
            asked.last_answer = LastAnswer::Accepted;
            return Ok(None);
        }
        match answer.text("retry_classification") {
            "RETRY_AFTER_DELAY" => {
                ensure!(answer.status == 503 || answer.status == 429, "{answer:?}");
                Ok(Some(RETRY_AFTER))
            }
            "RECONCILE_THEN_DECIDE" => {
                if self.resolve(&spec.request_id).await {
                    asked.last_answer = LastAnswer::Accepted;
                    return Ok(None);
                }
                Ok(Some(PAUSE))
            }
            "RETRY_WITH_NEW_REQUEST_ID" | "NOT_RETRYABLE_FIX_REQUEST" | "NOT_RETRYABLE" => {
                asked.last_answer = LastAnswer::Refused(answer.text("code").to_owned());
                Ok(None)
            }
            _ => bail!("an answer without a retry classification: {answer:?}"),
        }
    }

    /// Whether a gateway knows a payment under this request id.
    async fn resolve(&self, request_id: &str) -> bool {
        let account = self.payer.account();
        let url = format!("{}/v1/payments/resolve?request_id={request_id}&account={account}", self.base());
        let answer = timeout(ANSWER_MAX, async { self.http.get(url).send().await?.json::<Value>().await }).await;
        answer.is_ok_and(|answer| answer.is_ok_and(|body| body["payment_id"].is_string()))
    }
}

/// What `attempt` comes to at last; nothing when it has not by then.
async fn persist<T, F>(until: Instant, attempt: impl Fn() -> F) -> Option<T>
where
    F: Future<Output = Result<T>>,
{
    loop {
        match timeout(ANSWER_MAX, attempt()).await {
            Ok(Ok(value)) => return Some(value),
            _ if Instant::now() > until => return None,
            _ => sleep(PAUSE).await,
        }
    }
}
