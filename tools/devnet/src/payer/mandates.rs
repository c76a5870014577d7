//! Mandates: what a payer signs once, and what its merchant signs for each payment, each rebuilt before it is signed.

use alloy::signers::{SignerSync, local::PrivateKeySigner};
use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use chains_evm::authorization::{self, Choice, Scheme};
use events::{Hash32, event::Mandate};

use super::{
    Answer, Key, Payer, PaymentSpec,
    evm::{account_in, read_order},
};

impl Payer {
    /// What the gateway at `base` says is to be signed for a mandate with these members, for payments like `spec`.
    ///
    /// # Errors
    /// When no JSON answer comes back.
    pub async fn prepare_mandate(&self, base: &str, spec: &PaymentSpec, mandate: &Value) -> Result<Answer> {
        let order = self.quote_request(spec);
        let body = json!({
            "version": order["version"], "source": order["source"], "destination": order["destination"], "mandate": mandate,
        });
        Answer::of(self.http.post(format!("{base}/v1/payments/mandates/prepare")).json(&body).send().await?).await
    }

    /// The payload by which a merchant asks for payments like `spec`: the mandate, and the payer's signature for it, if what was prepared is
    /// what they make.
    ///
    /// # Errors
    /// When nothing was prepared, or something else.
    pub async fn sign_mandate(&self, base: &str, spec: &PaymentSpec, prepared: &Answer) -> Result<Value> {
        let Key::Evm(signer) = &self.key else { bail!("the payer is on no EVM chain") };
        ensure!(prepared.status == 200, "nothing was prepared: {prepared:?}");
        let mandate: Mandate = serde_json::from_value(prepared.body["mandate"].clone())?;
        let (terms, ..) = read_order(&self.quote_request(spec))?;
        let defaults = self.defaults(base, &terms).await?;
        let account = |member| account_in(&defaults, member);
        let (escrow, releaser) = (account("escrow_contract_address")?, account("releaser")?);
        let rebuilt = authorization::prepare_mandate(&mandate, &terms, (&escrow, &releaser, &account("permit2")?))?;
        let permit = &prepared.body["permit"];
        ensure!(permit["message"] == json!(rebuilt.digest), "the message is not of this mandate: {prepared:?}");
        ensure!(prepared.body["address"] == json!(rebuilt.at.address), "the address is not its own: {prepared:?}");
        let signature = signer.sign_hash_sync(&rebuilt.digest.0.into())?;
        Ok(json!({"mandate": mandate, "permit": signature.to_string()}))
    }

    /// `spec` as the merchant of the payer's mandate asks for it, if what the gateway at `base` prepares is what that makes.
    ///
    /// # Errors
    /// When nothing is prepared, or something else.
    pub async fn charge(
        &self,
        base: &str,
        merchant: &PrivateKeySigner,
        spec: &PaymentSpec,
        payload: &Value,
    ) -> Result<Value> {
        const SCHEME: &str = "EVM_PERMIT2_MANDATE";
        let mut body = self.quote_request(spec);
        let mut asked = body.clone();
        asked["payload"] = payload.clone();
        let prepared = self.prepare(base, &asked, Some(SCHEME)).await?;
        ensure!(prepared.status == 200, "nothing was prepared: {prepared:?}");
        let mut message = prepared.body["signed_messages"][0].clone();
        let payment_id = self.payment_id(&spec.request_id);
        let spend = self.spend(base, Scheme::EvmPermit2Mandate, payment_id, &body, Hash32::ZERO).await?;
        let rebuilt = authorization::prepare(&spend, &Choice::from_payload(Some(&message["payload"]))?)?;
        ensure!(message["message"] == json!(rebuilt.digest), "the message is not of this payment: {message}");
        message["signature"] = merchant.sign_hash_sync(&rebuilt.digest.0.into())?.to_string().into();
        body["sender_auth"] = json!({"message_scheme": SCHEME, "signed_messages": [message]});
        Ok(body)
    }
}
