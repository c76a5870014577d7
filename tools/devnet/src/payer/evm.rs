//! What a payer signs on EVM chains: Permit2's message as it makes it by itself, or the messages that the gateway prepares, each rebuilt
//! from the order before it is signed.

use alloy::{
    primitives::U256,
    signers::{SignerSync, local::PrivateKeySigner},
};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use chains_evm::authorization::{self, Choice, EscrowSettings, Scheme, SignedMessage, SpendRequest};
use events::{Account, Hash32, OwnedAsset, PaymentId, Terms, quote::SignedQuote, time::Timestamp};

use super::{Answer, Key, Payer, PaymentSpec};

impl Payer {
    /// Asks the gateway at `base` what is to be signed for a body, an order or an award: by `scheme`, or as the gateway offers it.
    ///
    /// # Errors
    /// When no JSON answer comes back.
    pub async fn prepare(&self, base: &str, body: &Value, scheme: Option<&str>) -> Result<Answer> {
        let mut body = body.clone();
        if let Some(scheme) = scheme {
            body["message_scheme"] = scheme.into();
        }
        let response = self.http.post(format!("{base}/v1/payments/prepare")).json(&body).send().await?;
        Answer::of(response).await
    }

    /// `spec` on an EVM chain, signed by `scheme`, or as the gateway at `base` offers it: for the token itself, where that takes
    /// signatures.
    ///
    /// # Errors
    /// When nothing is prepared for it without a transaction of the payer's, or something else than it asked for.
    pub async fn sign_offered(&self, base: &str, spec: &PaymentSpec, scheme: Option<&str>) -> Result<Value> {
        let mut body = self.quote_request(spec);
        let prepared = self.prepare(base, &body, scheme).await?;
        let payment_id = self.payment_id(&spec.request_id);
        body["sender_auth"] = self.sign_rebuilt(base, payment_id, &body, Hash32::ZERO, &prepared).await?;
        Ok(body)
    }

    /// The same of the award of quote `index` of a batch that is ready.
    ///
    /// # Errors
    /// As [`Payer::sign_offered`], or when there is no such quote.
    pub async fn sign_offered_award(
        &self,
        base: &str,
        batch: &Value,
        index: usize,
        request_id: &str,
        scheme: Option<&str>,
    ) -> Result<Value> {
        let offered = batch["quotes"].get(index).context("the batch has no such quote")?;
        let quote = SignedQuote::parse(&offered["fulfillment_quote"].to_string())?;
        let mut award = json!({"version": "1.0", "request_id": request_id, "quote_id": offered["quote_id"]});
        let mut body = award.clone();
        body["quote_request_id"] = batch["quote_request_id"].clone();
        let prepared = self.prepare(base, &body, scheme).await?;
        let payment_id = self.payment_id(request_id);
        award["sender_auth"] = self.sign_rebuilt(base, payment_id, batch, quote.hash(), &prepared).await?;
        Ok(award)
    }

    /// The batch in `body`, signed once for all of its payments, if what the gateway at `base` prepares is what the payments make.
    ///
    /// # Errors
    /// When nothing is prepared for it without a transaction of the payer's, or something else than it asked for.
    pub async fn sign_batch(&self, base: &str, mut body: Value) -> Result<Value> {
        let Key::Evm(signer) = &self.key else { bail!("the payer is on no EVM chain") };
        let response = self.http.post(format!("{base}/v1/payments/batches/prepare")).json(&body).send().await?;
        let prepared = Answer::of(response).await?;
        ensure!(prepared.status == 200, "nothing was prepared: {prepared:?}");
        ensure!(prepared.body.get("approvals").is_none(), "a transaction of the payer's comes first: {prepared:?}");
        let mut spends = Vec::new();
        for order in body["payments"].as_array().context("no payments")? {
            let request_id = order["request_id"].as_str().context("a payment without an id")?;
            let payment_id = self.payment_id(request_id);
            spends.push(self.spend(base, Scheme::EvmPermit2Batch, payment_id, order, Hash32::ZERO).await?);
        }
        let deadline = prepared.body["reserve_deadline"].as_u64().context("no deadline")?;
        let rebuilt = authorization::prepare_batch(&spends, Some(deadline))?;
        let message = &prepared.body["signed_messages"][0];
        ensure!(message["message"] == json!(rebuilt.digest), "the message is not of these payments: {prepared:?}");
        let signature = signer.sign_hash_sync(&rebuilt.digest.0.into())?;
        body["reserve_deadline"] = deadline.into();
        body["sender_auth"] = json!({
            "message_scheme": "EVM_PERMIT2_BATCH",
            "signed_messages": [{"message": rebuilt.digest, "signature": signature.to_string()}],
        });
        Ok(body)
    }

    /// Submits a batch.
    ///
    /// # Errors
    /// When no JSON answer comes back.
    pub async fn submit_batch(&self, base: &str, body: &Value) -> Result<Answer> {
        Answer::of(self.http.post(format!("{base}/v1/payments/batches")).json(body).send().await?).await
    }

    /// Signs each message that was prepared, if it is the one that `order` makes.
    async fn sign_rebuilt(
        &self,
        base: &str,
        payment_id: PaymentId,
        order: &Value,
        quote_hash: Hash32,
        prepared: &Answer,
    ) -> Result<Value> {
        let Key::Evm(signer) = &self.key else { bail!("the payer is on no EVM chain") };
        ensure!(prepared.status == 200, "nothing was prepared: {prepared:?}");
        for step in ["approval", "wrap"] {
            ensure!(prepared.body.get(step).is_none(), "a transaction of the payer's comes first: {prepared:?}");
        }
        let scheme = match prepared.text("message_scheme") {
            "EVM_EIP3009" => Scheme::EvmEip3009,
            "EVM_PERMIT2_ESCROW" => Scheme::EvmPermit2Escrow,
            other => bail!("nobody signs for {other:?} here"),
        };
        let spend = self.spend(base, scheme, payment_id, order, quote_hash).await?;
        let mut messages = prepared.body["signed_messages"].clone();
        for message in messages.as_array_mut().context("no messages")? {
            let digest = rebuilt(&spend, message)?;
            ensure!(message["message"] == json!(digest), "the message is not of this order: {message}");
            message["signature"] = signer.sign_hash_sync(&digest.0.into())?.to_string().into();
        }
        Ok(json!({"message_scheme": prepared.body["message_scheme"], "signed_messages": messages}))
    }

    /// The Permit2 signature for the terms in `order`, which is the body of a request or a batch.
    pub(super) async fn permit(
        &self,
        signer: &PrivateKeySigner,
        base: &str,
        payment_id: PaymentId,
        order: &Value,
        quote_hash: Hash32,
    ) -> Result<Value> {
        let spend = self.spend(base, Scheme::EvmPermit2Escrow, payment_id, order, quote_hash).await?;
        let prepared = authorization::prepare(&spend, &Choice::default())?;
        let signature = signer.sign_hash_sync(&prepared.digest.0.into())?;
        Ok(json!({
            "message_scheme": "EVM_PERMIT2_ESCROW",
            "signed_messages": [{
                "message": prepared.digest,
                "message_prehash": prepared.typed_data.to_string(),
                "signature": signature.to_string(),
            }],
        }))
    }

    /// What is to be signed for, by the terms in `order`, which is the body of a request or a batch, and the gateway's defaults.
    pub(super) async fn spend(
        &self,
        base: &str,
        scheme: Scheme,
        payment_id: PaymentId,
        order: &Value,
        quote_hash: Hash32,
    ) -> Result<SpendRequest> {
        let (terms, quote_deadline, fulfillment_deadline) = read_order(order)?;
        let defaults = self.defaults(base, &terms).await?;
        let account = |member| account_in(&defaults, member);
        Ok(SpendRequest {
            scheme,
            payment_id,
            terms,
            quote_deadline,
            fulfillment_deadline,
            escrow: EscrowSettings {
                contract: account("escrow_contract_address")?,
                reserver: account("reserver")?,
                releaser: account("releaser")?,
                permit2: account("permit2")?,
                refund_delay_seconds: defaults["refund_delay_seconds"].as_u64().context("defaults lack a delay")?,
            },
            quote_hash,
            token: None,
        })
    }

    /// What the gateway at `base` says of the chain that pays.
    pub(super) async fn defaults(&self, base: &str, terms: &Terms) -> Result<Value> {
        let url = format!("{base}/v1/defaults?chain_id={}", terms.source.asset().chain());
        Ok(self.http.get(url).send().await?.error_for_status()?.json().await?)
    }
}

/// The digest of the message that `spend` makes, with the domain of the token and the numbers that came with `message`.
fn rebuilt(spend: &SpendRequest, message: &Value) -> Result<Hash32> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let shown = SignedMessage {
        message: text(&message["message"]).context("no digest")?,
        message_prehash: text(&message["message_prehash"]),
        signature: String::new(),
        payload: Some(message["payload"].clone()),
    };
    if authorization::is_allowance(&shown) {
        let domain = authorization::domain_of_allowance(&shown).context("a permit without a domain")?;
        let number = |member: &str| -> Result<U256> {
            Ok(message["payload"][member].as_str().with_context(|| format!("a permit without {member}"))?.parse()?)
        };
        let deadline = number("deadline")?.try_into().map_err(|_| anyhow::anyhow!("a permit without an end"))?;
        return Ok(authorization::prepare_allowance(spend, &domain, number("nonce")?, deadline)?.digest);
    }
    let spend = SpendRequest { token: authorization::claimed_domain(&shown), ..spend.clone() };
    Ok(authorization::prepare(&spend, &Choice::from_payload(shown.payload.as_ref())?)?.digest)
}

/// An account that the gateway's defaults name.
pub(super) fn account_in(defaults: &Value, member: &str) -> Result<Account> {
    Ok(defaults[member].as_str().with_context(|| format!("defaults lack {member}"))?.parse()?)
}

/// Terms, quote deadline and fulfillment deadline of a request or a batch.
pub(super) fn read_order(order: &Value) -> Result<(Terms, Timestamp, Timestamp)> {
    let text =
        |pointer: &str| order.pointer(pointer).and_then(Value::as_str).with_context(|| format!("{pointer} is missing"));
    let owned = |pointer: &str| -> Result<OwnedAsset> {
        let asset = text(&format!("{pointer}/asset_identifier"))?.parse()?;
        Ok(OwnedAsset::new(asset, text(&format!("{pointer}/account"))?)?)
    };
    let destinations = order["destination"].as_array().map_or(0, Vec::len);
    let destination = (0..destinations).map(|index| owned(&format!("/destination/{index}"))).collect::<Result<_>>()?;
    let cap = order["max_source_amount"].as_str().map(str::parse).transpose()?;
    let terms = Terms::new(owned("/source")?, destination, text("/fulfillment_amount")?.parse()?, cap);
    Ok((terms, timestamp(text("/quote_deadline")?)?, timestamp(text("/fulfillment_deadline")?)?))
}

fn timestamp(text: &str) -> Result<Timestamp> {
    Ok(chrono::DateTime::parse_from_rfc3339(text)?.to_utc())
}
