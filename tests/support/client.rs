//! A client that does what the contract says on every kind of answer: it tries again under the same `request_id`, anywhere.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
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
use events::PaymentId;

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
}

/// A payer, and the gateways it knows.
pub struct Client {
    pub payer: Payer,
    bases: Vec<String>,
    next: AtomicUsize,
    http: reqwest::Client,
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
        let bases = network.gateways.iter().map(|gateway| gateway.base_url()).collect();
        Ok(Self { payer, bases, next: AtomicUsize::new(n), http: reqwest::Client::new() })
    }

    /// The same payer in another place.
    pub fn again(&self) -> Self {
        let (payer, bases, http) = (self.payer.clone(), self.bases.clone(), self.http.clone());
        Self { payer, bases, next: AtomicUsize::new(0), http }
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
        let mut asked = self.asked(spec);
        let sign = || self.payer.sign(self.base(), spec);
        let Some(body) = persist(until, sign).await else { return Ok(asked) };
        self.insist(&mut asked, spec, until, || self.payer.submit(self.base(), &body, HOLD)).await?;
        Ok(asked)
    }

    /// Asks for quotes, takes the best one and awards it until there is a word. Where there is no quote, nothing is paid.
    ///
    /// # Errors
    /// When an answer breaks the contract.
    pub async fn choose(&self, spec: &PaymentSpec) -> Result<Asked> {
        let until = Instant::now() + GIVE_UP;
        let mut asked = self.asked(spec);
        let order = self.payer.quote_request(spec);
        let opened = persist(until, || async {
            let opened = self.payer.open(self.base(), &order, false).await?;
            ensure!(opened.status == 200, "{opened:?}");
            Ok(opened)
        });
        let Some(opened) = opened.await else { return Ok(asked) };
        let batch_id = opened.text("quote_request_id").to_owned();
        let collected = persist(until, || async {
            let batch = self.payer.batch(self.base(), &batch_id).await?;
            ensure!(batch.status == 200 && batch.text("status") != "collecting", "{batch:?}");
            Ok(batch)
        });
        let Some(batch) = collected.await else { return Ok(asked) };
        if batch.body["quotes"].as_array().is_none_or(Vec::is_empty) {
            return Ok(asked);
        }
        let sign = || self.payer.sign_award(self.base(), &batch.body, 0, &spec.request_id);
        let Some(body) = persist(until, sign).await else { return Ok(asked) };
        self.insist(&mut asked, spec, until, || self.payer.award(self.base(), &batch_id, &body, HOLD)).await?;
        Ok(asked)
    }

    fn asked(&self, spec: &PaymentSpec) -> Asked {
        Asked { payment_id: self.payer.payment_id(&spec.request_id), last_answer: LastAnswer::Nothing, retries: 0 }
    }

    /// Sends the same again and again until there is a word.
    async fn insist<F>(&self, asked: &mut Asked, spec: &PaymentSpec, until: Instant, send: impl Fn() -> F) -> Result<()>
    where
        F: Future<Output = Result<Answer>>,
    {
        while Instant::now() < until {
            let pause = match timeout(ANSWER_MAX, send()).await {
                Ok(Ok(answer)) => match self.judge(&answer, asked, spec).await? {
                    Some(pause) => pause,
                    None => return Ok(()),
                },
                // No answer: it may be accepted or not, and asking again under the same id finds out.
                Ok(Err(_)) | Err(_) => PAUSE,
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
