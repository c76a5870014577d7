//! A payer: builds, signs and submits payments the way a client of the HTTP API does.

mod evm;
mod mandates;
mod tron;

use std::time::Duration;

use alloy::signers::{SignerSync, local::PrivateKeySigner};
use anyhow::{Context, Result, ensure};
use chrono::{SecondsFormat, Utc};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};

use events::{Amount, AssetId, Did, Hash32, PaymentId, quote::SignedQuote};

use super::keys;

/// What a payer asks for.
#[derive(Debug, Clone)]
pub struct PaymentSpec {
    /// Idempotency key.
    pub request_id: String,
    /// Asset paid with.
    pub source: AssetId,
    /// Asset the recipient gets.
    pub destination: AssetId,
    /// Who gets it.
    pub recipient: String,
    /// Exactly how much it gets, smallest unit.
    pub amount: Amount,
    /// The most that may be spent, smallest unit.
    pub cap: Amount,
    /// How long quotes are collected.
    pub quote_window: Duration,
    /// How long the whole payment may take.
    pub fulfillment_window: Duration,
    /// The only settlers that may win; empty when any may.
    pub whitelist: Vec<Did>,
}

/// An answer of the API.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: Value,
    /// Header `X-Position`: how much of a payment it was made from.
    pub position: Option<String>,
}

impl Answer {
    /// What the gateway answered.
    ///
    /// # Errors
    /// When it is not JSON.
    pub async fn of(response: reqwest::Response) -> Result<Self> {
        let position = response.headers().get("x-position").and_then(|value| value.to_str().ok()).map(str::to_owned);
        Ok(Self { status: response.status().as_u16(), position, body: response.json().await? })
    }

    /// A text member of the body.
    pub fn text(&self, member: &str) -> &str {
        self.body[member].as_str().unwrap_or_default()
    }
}

/// A payer's key, on the chains of one family.
#[derive(Clone)]
enum Key {
    Evm(PrivateKeySigner),
    Solana(SigningKey),
    Tron(PrivateKeySigner),
}

/// A client with one key.
#[derive(Clone)]
pub struct Payer {
    key: Key,
    /// On Solana, the key that signs in the payer's place.
    delegate: Option<SigningKey>,
    http: reqwest::Client,
    /// Who asks, when a proof says so.
    originator: Option<String>,
}

impl Payer {
    /// A payer with this key, on EVM chains.
    ///
    /// # Errors
    /// When the HTTP client cannot be set up.
    pub fn new(signer: PrivateKeySigner) -> Result<Self> {
        Self::of_key(Key::Evm(signer))
    }

    /// A payer with this key, on Solana.
    ///
    /// # Errors
    /// When the HTTP client cannot be set up.
    pub fn on_solana(key: SigningKey) -> Result<Self> {
        Self::of_key(Key::Solana(key))
    }

    /// A payer with this key, on Tron.
    ///
    /// # Errors
    /// When the HTTP client cannot be set up.
    pub fn on_tron(signer: PrivateKeySigner) -> Result<Self> {
        Self::of_key(Key::Tron(signer))
    }

    fn of_key(key: Key) -> Result<Self> {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(60)).build()?;
        Ok(Self { key, delegate: None, http, originator: None })
    }

    /// The same payer on Solana, for whom `delegate` signs. The allowance on chain has to be for that key.
    #[must_use]
    pub fn signing_by(&self, delegate: SigningKey) -> Self {
        Self { delegate: Some(delegate), ..self.clone() }
    }

    /// The same payer, whose payments are asked for by the DID `originator`. Its bodies need the DID's proof.
    #[must_use]
    pub fn asking_for(&self, originator: &str) -> Self {
        Self { originator: Some(originator.to_owned()), ..self.clone() }
    }

    /// The payer's account.
    pub fn account(&self) -> String {
        match &self.key {
            Key::Evm(signer) => signer.address().to_string().to_ascii_lowercase(),
            Key::Solana(key) => keys::solana_account(key),
            Key::Tron(signer) => chains_tron::address::text(signer.address()),
        }
    }

    /// The id that a payment of this payer has under `request_id`.
    pub fn payment_id(&self, request_id: &str) -> PaymentId {
        let namespace = match self.key {
            Key::Evm(_) => "eip155",
            Key::Solana(_) => "solana",
            Key::Tron(_) => "tron",
        };
        let account = || format!("{namespace}:{}", self.account());
        PaymentId::derive(&self.originator.clone().unwrap_or_else(account), request_id)
    }

    /// Asks the gateway at `base` for its defaults, and signs `spec` for them.
    ///
    /// # Errors
    /// When the gateway cannot be asked, or does not serve the source chain.
    pub async fn sign(&self, base: &str, spec: &PaymentSpec) -> Result<Value> {
        let mut body = self.quote_request(spec);
        let payment_id = self.payment_id(&spec.request_id);
        body["sender_auth"] = match &self.key {
            Key::Evm(signer) => self.permit(signer, base, payment_id, &body, Hash32::ZERO).await?,
            Key::Solana(_) | Key::Tron(_) => self.sign_prepared(base, body.clone()).await?,
        };
        Ok(body)
    }

    /// `spec` without a signature: the body of a quote-request.
    pub fn quote_request(&self, spec: &PaymentSpec) -> Value {
        let now = Utc::now();
        // Whole seconds, so that what is signed is what is written.
        let after = |window: Duration| (now + window).to_rfc3339_opts(SecondsFormat::Secs, true);
        let mut body = json!({
            "version": "1.0",
            "request_id": spec.request_id,
            "source": {"asset_identifier": spec.source, "account": self.account()},
            "destination": [{"asset_identifier": spec.destination, "account": spec.recipient}],
            "fulfillment_amount": spec.amount,
            "max_source_amount": spec.cap,
            "quote_deadline": after(spec.quote_window),
            "fulfillment_deadline": after(spec.fulfillment_window),
        });
        if !spec.whitelist.is_empty() {
            body["settler_requirements"] = json!({"whitelist": spec.whitelist});
        }
        body
    }

    /// Opens a batch with the body of a quote-request; holds for its quotes when `wait`.
    ///
    /// # Errors
    /// When no JSON answer comes back.
    pub async fn open(&self, base: &str, body: &Value, wait: bool) -> Result<Answer> {
        let url = format!("{base}/v1/payments/quote-requests?wait={wait}");
        let response = self.http.post(url).json(body).send().await?;
        Answer::of(response).await
    }

    /// Reads a batch.
    ///
    /// # Errors
    /// When no JSON answer comes back.
    pub async fn batch(&self, base: &str, quote_request_id: &str) -> Result<Answer> {
        let response = self.http.get(format!("{base}/v1/payments/quote-requests/{quote_request_id}")).send().await?;
        Answer::of(response).await
    }

    /// Signs the award of quote `index` of a batch that is ready, as its response shows it, to the payment under
    /// `request_id`. The signature is for this quote and no other.
    ///
    /// # Errors
    /// When there is no such quote, its settler's signature does not hold, or the gateway cannot be asked.
    pub async fn sign_award(&self, base: &str, batch: &Value, index: usize, request_id: &str) -> Result<Value> {
        let offered = batch["quotes"].get(index).context("the batch has no such quote")?;
        let quote = SignedQuote::parse(&offered["fulfillment_quote"].to_string())?;
        let auth = match &self.key {
            Key::Evm(signer) => self.permit(signer, base, self.payment_id(request_id), batch, quote.hash()).await?,
            Key::Solana(_) | Key::Tron(_) => {
                let award = json!({
                    "version": "1.0",
                    "request_id": request_id,
                    "quote_request_id": batch["quote_request_id"],
                    "quote_id": offered["quote_id"],
                });
                self.sign_prepared(base, award).await?
            }
        };
        Ok(json!({
            "version": "1.0",
            "request_id": request_id,
            "quote_id": offered["quote_id"],
            "sender_auth": auth,
        }))
    }

    /// Awards a quote with a signed body; holds for the outcome for at most `hold`.
    ///
    /// # Errors
    /// When no JSON answer comes back.
    pub async fn award(&self, base: &str, quote_request_id: &str, body: &Value, hold: Duration) -> Result<Answer> {
        let url = format!("{base}/v1/payments/quote-requests/{quote_request_id}/award");
        let request = self.http.post(url).json(body);
        let response = request.header("prefer", format!("wait={}", hold.as_secs())).send().await?;
        Answer::of(response).await
    }

    /// Asks for the deposit address of a quote-request.
    ///
    /// # Errors
    /// When no JSON answer comes back.
    pub async fn deposit_address(&self, base: &str, quote_request_id: &str, body: &Value) -> Result<Answer> {
        let url = format!("{base}/v1/payments/quote-requests/{quote_request_id}/address");
        Answer::of(self.http.post(url).json(body).send().await?).await
    }

    /// Asks the gateway what is to be signed for `body`, and signs it as a wallet does: one message after the other, each a
    /// digest of the bytes that come with it.
    ///
    /// # Errors
    /// When nothing is prepared for it, or a digest is of other bytes.
    pub async fn sign_prepared(&self, base: &str, mut body: Value) -> Result<Value> {
        if let Some(delegate) = &self.delegate {
            body["payload"] = json!({"delegate_signer": keys::solana_account(delegate)});
        }
        if let Some(originator) = &self.originator {
            body["originator"] = originator.as_str().into();
        }
        let response = self.http.post(format!("{base}/v1/payments/prepare")).json(&body).send().await?;
        let (status, mut prepared) = (response.status(), response.json::<Value>().await?);
        ensure!(status.is_success(), "nothing was prepared: {prepared}");
        let scheme = prepared["message_scheme"].as_str().unwrap_or_default().to_owned();
        let messages = prepared["signed_messages"].as_array_mut().context("no messages")?;
        ensure!(!messages.is_empty(), "no message is to be signed");
        for message in messages {
            if scheme == "TRON_PERMIT2_ESCROW" {
                message["signature"] = self.sign_typed_data(message)?.into();
                continue;
            }
            let bytes = |member: &str| -> Result<Vec<u8>> {
                let text = message[member].as_str().context("no text")?;
                Ok(hex::decode(text.strip_prefix("0x").unwrap_or(text))?)
            };
            let prehash = bytes("message_prehash")?;
            let digest = Hash32::sha256(&prehash);
            ensure!(bytes("message")? == digest.0, "the digest is of other bytes: {message}");
            message["signature"] = self.sign_digest(digest, &prehash)?.into();
        }
        let members = prepared.as_object_mut().context("an object")?;
        members.remove("payment_id");
        members.remove("approval");
        Ok(prepared)
    }

    /// The signature over the SHA-256 of `prehash`, hex with 0x.
    fn sign_digest(&self, digest: Hash32, prehash: &[u8]) -> Result<String> {
        use ed25519_dalek::Signer;

        match &self.key {
            Key::Solana(key) => {
                let signer = self.delegate.as_ref().unwrap_or(key);
                Ok(format!("0x{}", hex::encode(signer.sign(&digest.0).to_bytes())))
            }
            Key::Tron(signer) => {
                // Nobody signs a transaction of somebody else's, nor one that gives TRX away.
                let call = chains_tron::transaction::read(prehash)?.draft.call;
                ensure!(call.owner == signer.address() && call.value_sun == 0, "cannot be meant: {call:?}");
                Ok(signer.sign_hash_sync(&digest.0.into())?.to_string())
            }
            Key::Evm(_) => anyhow::bail!("EVM payers sign typed data"),
        }
    }

    /// Submits a signed body; holds for the outcome for at most `hold`.
    ///
    /// # Errors
    /// When no JSON answer comes back.
    pub async fn submit(&self, base: &str, body: &Value, hold: Duration) -> Result<Answer> {
        let request = self.http.post(format!("{base}/v1/payments")).json(body);
        let response = request.header("prefer", format!("wait={}", hold.as_secs())).send().await?;
        Answer::of(response).await
    }

    /// Reads a payment's status.
    ///
    /// # Errors
    /// When no JSON answer comes back.
    pub async fn status(&self, base: &str, payment_id: &str) -> Result<Answer> {
        let response = self.http.get(format!("{base}/v1/payments/{payment_id}/status")).send().await?;
        Answer::of(response).await
    }

    /// Reads a payment's status with no less than `seen` was made from, which is another answer about it.
    ///
    /// # Errors
    /// When no JSON answer comes back.
    pub async fn status_since(&self, base: &str, payment_id: &str, seen: &Answer) -> Result<Answer> {
        let request = self.http.get(format!("{base}/v1/payments/{payment_id}/status"));
        let position = seen.position.as_deref().context("an answer without a position")?;
        Answer::of(request.header("x-position", position).send().await?).await
    }

    /// Polls a payment until it is `completed` or `failed`.
    ///
    /// # Errors
    /// When that does not happen within `patience`.
    pub async fn outcome(&self, base: &str, payment_id: &str, patience: Duration) -> Result<Answer> {
        let polled = async {
            loop {
                // A gateway that is being started again refuses connections for a moment.
                if let Ok(answer) = self.status(base, payment_id).await
                    && matches!(answer.text("status"), "completed" | "failed")
                {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let answer = tokio::time::timeout(patience, polled).await;
        let answer = answer.with_context(|| format!("{payment_id} has no outcome after {patience:?}"))?;
        ensure!(answer.status == 200, "status of {payment_id} is {answer:?}");
        Ok(answer)
    }
}
