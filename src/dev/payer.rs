//! A payer: builds, signs and submits payments the way a client of the HTTP API does.

use std::time::Duration;

use alloy::signers::{SignerSync, local::PrivateKeySigner};
use anyhow::{Context, Result, ensure};
use chrono::{SecondsFormat, Utc};
use serde_json::{Value, json};

use chains::evm::permit2::{self, Choice, EscrowSettings, Scheme, SpendRequest};
use events::{Amount, AssetId, Did, Hash32, OwnedAsset, PaymentId, Terms, time::Timestamp};

/// What a payer asks for.
#[derive(Debug, Clone)]
pub struct Wish {
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
}

impl Answer {
    /// A text member of the body.
    pub fn text(&self, member: &str) -> &str {
        self.body[member].as_str().unwrap_or_default()
    }
}

/// A client with one key.
#[derive(Clone)]
pub struct Payer {
    signer: PrivateKeySigner,
    http: reqwest::Client,
}

impl Payer {
    /// A payer with this key.
    ///
    /// # Errors
    /// When the HTTP client cannot be set up.
    pub fn new(signer: PrivateKeySigner) -> Result<Self> {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(60)).build()?;
        Ok(Self { signer, http })
    }

    /// The payer's account.
    pub fn account(&self) -> String {
        self.signer.address().to_string().to_ascii_lowercase()
    }

    /// The id that a payment of this payer has under `request_id`.
    pub fn payment_id(&self, request_id: &str) -> PaymentId {
        PaymentId::derive(&format!("eip155:{}", self.account()), request_id)
    }

    /// Asks the gateway at `base` for its defaults, and signs `wish` for them.
    ///
    /// # Errors
    /// When the gateway cannot be asked, or does not serve the source chain.
    pub async fn sign(&self, base: &str, wish: &Wish) -> Result<Value> {
        let now = Utc::now();
        // Whole seconds, so that what is signed is what is written.
        let after = |window: Duration| (now + window).to_rfc3339_opts(SecondsFormat::Secs, true);
        let (quote_deadline, fulfillment_deadline) = (after(wish.quote_window), after(wish.fulfillment_window));
        let source = OwnedAsset::new(wish.source.clone(), &self.account())?;
        let destination = OwnedAsset::new(wish.destination.clone(), &wish.recipient)?;
        let terms = Terms::new(source, vec![destination], wish.amount, Some(wish.cap));

        let chain_id = wish.source.chain();
        let defaults: Value = self
            .http
            .get(format!("{base}/v1/defaults?chain_id={chain_id}"))
            .send()
            .await?
            .error_for_status()?
            .json()
            .await?;
        let text = |member: &str| {
            defaults[member].as_str().map(str::to_owned).with_context(|| format!("defaults lack {member}"))
        };
        let spend = SpendRequest {
            scheme: Scheme::EvmPermit2Escrow,
            payment_id: self.payment_id(&wish.request_id),
            terms,
            quote_deadline: timestamp(&quote_deadline)?,
            fulfillment_deadline: timestamp(&fulfillment_deadline)?,
            escrow: EscrowSettings {
                contract: text("escrow_contract_address")?,
                reserver: text("reserver")?,
                releaser: text("releaser")?,
                permit2: text("permit2")?,
                refund_delay_seconds: defaults["refund_delay_seconds"].as_u64().context("defaults lack a delay")?,
            },
            quote_hash: Hash32::ZERO,
        };
        let prepared = permit2::prepare(&spend, &Choice::default())?;
        let signature = self.signer.sign_hash_sync(&prepared.digest.0.into())?;

        let mut body = json!({
            "version": "1.0",
            "request_id": wish.request_id,
            "source": {"asset_identifier": wish.source, "account": self.account()},
            "destination": [{"asset_identifier": wish.destination, "account": wish.recipient}],
            "fulfillment_amount": wish.amount,
            "max_source_amount": wish.cap,
            "quote_deadline": quote_deadline,
            "fulfillment_deadline": fulfillment_deadline,
            "sender_auth": {
                "message_scheme": "EVM_PERMIT2_ESCROW",
                "signed_messages": [{
                    "message": prepared.digest,
                    "message_prehash": prepared.typed_data.to_string(),
                    "signature": signature.to_string(),
                }],
            },
        });
        if !wish.whitelist.is_empty() {
            body["settler_requirements"] = json!({"whitelist": wish.whitelist});
        }
        Ok(body)
    }

    /// Submits a signed body; holds for the outcome for at most `hold`.
    ///
    /// # Errors
    /// When no JSON answer comes back.
    pub async fn submit(&self, base: &str, body: &Value, hold: Duration) -> Result<Answer> {
        let request = self.http.post(format!("{base}/v1/payments")).json(body);
        let response = request.header("prefer", format!("wait={}", hold.as_secs())).send().await?;
        Ok(Answer { status: response.status().as_u16(), body: response.json().await? })
    }

    /// Reads a payment's status.
    ///
    /// # Errors
    /// When no JSON answer comes back.
    pub async fn status(&self, base: &str, payment_id: &str) -> Result<Answer> {
        let response = self.http.get(format!("{base}/v1/payments/{payment_id}/status")).send().await?;
        Ok(Answer { status: response.status().as_u16(), body: response.json().await? })
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

fn timestamp(text: &str) -> Result<Timestamp> {
    Ok(chrono::DateTime::parse_from_rfc3339(text)?.to_utc())
}
