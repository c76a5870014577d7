//! Payers who are not among the network's roles, each with an allowance of its own, and what they do by themselves.

use std::time::Duration;

use alloy::{
    primitives::{B256, U256, keccak256},
    signers::local::PrivateKeySigner,
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use chains_tron::{address::text, transaction};
use devnet::payer::{Payer, PaymentSpec};
use events::PaymentId;

use crate::support::*;

/// The cap of an ordinary payment, and all the tokens that a payer has.
pub const CAP: u64 = 25_500_000;
/// TRX of a payer, in sun.
pub const SUN: u64 = 1_000_000_000;

/// A payer with TRX and with tokens for one payment.
pub struct TronPayer {
    pub key: PrivateKeySigner,
    pub payer: Payer,
    pub account: String,
}

/// One of the transactions that a payer signed.
#[derive(Debug, Clone)]
pub struct SignedTransaction {
    pub id: B256,
    pub bytes: Vec<u8>,
}

impl TronPayer {
    pub async fn endowed(world: &World, name: &str) -> Result<Self> {
        Self::with(world, name, SUN).await
    }

    /// With so much TRX.
    pub async fn with(world: &World, name: &str, sun: u64) -> Result<Self> {
        let (key, tron) = (PrivateKeySigner::from_bytes(&keccak256(name))?, world.tron()?);
        let account = text(key.address());
        tron.dev.fund(&account, sun).await?;
        tron.dev.mint(&tron.token, &account, U256::from(CAP)).await?;
        Ok(Self { payer: Payer::on_tron(key.clone())?, key, account })
    }

    /// Signs `spec` with the payer's choices in `payload`.
    pub async fn sign(&self, world: &World, spec: &PaymentSpec, payload: Value) -> Result<Value> {
        let mut body = self.payer.quote_request(spec);
        let mut asked = body.clone();
        asked["payload"] = payload;
        body["sender_auth"] = self.payer.sign_prepared(&world.base(0), asked).await?;
        Ok(body)
    }

    /// Signs and submits without waiting for the outcome; what was signed, too.
    pub async fn submit(
        &self,
        world: &World,
        spec: &PaymentSpec,
        payload: Value,
    ) -> Result<(PaymentId, Vec<SignedTransaction>)> {
        let body = self.sign(world, spec, payload).await?;
        let answer = self.payer.submit(&world.base(0), &body, Duration::ZERO).await?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok((answer.text("payment_id").parse()?, signed_transactions(&body)?))
    }

    pub async fn tokens(&self, world: &World) -> Result<u64> {
        let tron = world.tron()?;
        Ok(tron.dev.token_balance(&tron.token, &self.account).await?.to())
    }

    pub async fn sun(&self, world: &World) -> Result<u64> {
        Ok(world.tron()?.dev.balance(&self.account).await?)
    }
}

/// The transactions in a submission, in the order in which they are sent.
pub fn signed_transactions(body: &Value) -> Result<Vec<SignedTransaction>> {
    let messages = body["sender_auth"]["signed_messages"].as_array().context("messages")?;
    let transactions = messages.iter().map(|message| {
        let bytes = |name: &str| -> Result<Vec<u8>> {
            Ok(hex::decode(message[name].as_str().context("hex")?.trim_start_matches("0x"))?)
        };
        let raw_data = bytes("message_prehash")?;
        let signature = bytes("signature")?.try_into().map_err(|_| anyhow::anyhow!("a signature has 65 bytes"))?;
        Ok(SignedTransaction { id: transaction::id(&raw_data), bytes: transaction::assemble(&raw_data, &signature) })
    });
    transactions.collect()
}

/// A call of the real node.
pub async fn ask(world: &World, path: &str, body: &Value) -> Result<Value> {
    let url = format!("{}/{path}", world.tron()?.node.url());
    Ok(reqwest::Client::new().post(url).json(body).send().await?.error_for_status()?.json().await?)
}

/// Sends a transaction as a wallet does; what the node says to it.
pub async fn send(world: &World, transaction: &SignedTransaction) -> Result<Value> {
    ask(world, "wallet/broadcasthex", &json!({"transaction": hex::encode(&transaction.bytes)})).await
}

/// What became of a transaction, in the newest state; nothing where it is in no block.
pub async fn info(world: &World, id: B256) -> Result<Option<Value>> {
    let info = ask(world, "wallet/gettransactioninfobyid", &json!({"value": hex::encode(id)})).await?;
    Ok(info["id"].is_string().then_some(info))
}

/// Sends a transaction and waits until it is in a block; what became of it.
pub async fn bring(world: &World, transaction: &SignedTransaction) -> Result<Value> {
    let answer = send(world, transaction).await?;
    ensure!(answer["result"] == true, "{answer}");
    eventually(|| async { info(world, transaction.id).await.is_ok_and(|info| info.is_some()) }).await?;
    info(world, transaction.id).await?.context("it was there")
}

/// What a transaction burnt of its sender's TRX, in sun.
pub fn fee(info: &Value) -> u64 {
    info["fee"].as_u64().unwrap_or_default()
}

/// What transactions that are in blocks burnt altogether, in sun.
pub async fn fees(world: &World, transactions: &[SignedTransaction]) -> Result<u64> {
    let mut sun = 0;
    for transaction in transactions {
        sun +=
            fee(&info(world, transaction.id).await?.with_context(|| format!("{} is in no block", transaction.id))?);
    }
    Ok(sun)
}

/// Time of the newest block, or of the newest that no fork takes away, UNIX milliseconds.
pub async fn chain_time_ms(world: &World, path: &str) -> Result<u64> {
    let block = ask(world, &format!("{path}/getnowblock"), &json!({})).await?;
    block["block_header"]["raw_data"]["timestamp"].as_u64().context("a time")
}

/// How often the payment's escrow on Tron was deposited, released and refunded.
pub async fn escrow_moves(world: &World, payment_id: &PaymentId) -> Result<[usize; 3]> {
    Ok([
        world.tron_logs(DEPOSITED, payment_id).await?,
        world.tron_logs(RELEASED, payment_id).await?,
        world.tron_logs(REFUNDED, payment_id).await?,
    ])
}

/// The windows of a payment that is to end soon: an auction of five seconds, and the reservation fifteen seconds later at most.
pub fn soon(spec: PaymentSpec) -> PaymentSpec {
    PaymentSpec { quote_window: Duration::from_secs(5), fulfillment_window: Duration::from_secs(20), ..spec }
}
