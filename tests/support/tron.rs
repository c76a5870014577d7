//! A network with a Tron chain, and what tests ask of it.

use std::collections::BTreeMap;

use alloy::primitives::{U256, keccak256};
use anyhow::{Context, Result};
use serde_json::{Value, json};

use devnet::{
    keys::Role,
    network::Options,
    payer::{Payer, PaymentSpec},
    tron::{TronChain, TronOptions},
};
use events::PaymentId;

use super::{World, settlers};

/// TRX that a payment delivers: twenty, in sun.
pub const TRX_AMOUNT: u64 = 20_000_000;
/// Price of the cheapest settler for them: a quarter of a token a TRX, and ten basis points more.
pub const TRX_PRICE: u64 = 5_005_000;

impl World {
    /// A network with a Tron chain, and what else `choose` makes of the options.
    pub async fn with_tron(choose: impl FnOnce(Options) -> Options) -> Result<Self> {
        Self::with(|options| choose(Options { tron: Some(TronOptions::default()), ..options })).await
    }

    /// The Tron chain.
    pub fn tron(&self) -> Result<&TronChain> {
        self.network.tron.as_ref().context("the network has no Tron chain")
    }

    /// Tokens on Tron for tokens on the second EVM chain.
    pub fn spec_from_tron(&self, request_id: &str) -> Result<PaymentSpec> {
        Ok(PaymentSpec { source: self.tron()?.token()?, ..self.spec(request_id)? })
    }

    /// The same for the settler that never delivers.
    pub fn undeliverable_from_tron(&self, request_id: &str) -> Result<PaymentSpec> {
        Ok(PaymentSpec { source: self.tron()?.token()?, ..self.undeliverable_spec(request_id)? })
    }

    /// Tokens on the first EVM chain for tokens on Tron.
    pub fn spec_to_tron(&self, request_id: &str) -> Result<PaymentSpec> {
        let (destination, recipient) = (self.tron()?.token()?, Role::Recipient.tron_account());
        Ok(PaymentSpec { destination, recipient, ..self.spec(request_id)? })
    }

    /// Tokens on the first EVM chain for TRX.
    pub fn spec_to_trx(&self, request_id: &str) -> Result<PaymentSpec> {
        Ok(PaymentSpec {
            destination: self.tron()?.coin()?,
            amount: TRX_AMOUNT.to_string().parse()?,
            cap: "5100000".parse()?,
            ..self.spec_to_tron(request_id)?
        })
    }

    /// What everybody of interest holds on Tron and on the EVM chains.
    pub async fn tron_holdings(&self) -> Result<BTreeMap<&'static str, U256>> {
        let tron = self.tron()?;
        let (source, destination) = (&self.network.source, &self.network.destination);
        let mut all = U256::ZERO;
        for n in 1..=3 {
            all += tron.balance(Role::Settler(n)).await?;
        }
        Ok(BTreeMap::from([
            ("payer", tron.balance(Role::Payer).await?),
            ("escrow", tron.dev.token_balance(&tron.token, &tron.contracts.escrow).await?),
            ("proxy", tron.dev.token_balance(&tron.token, &tron.contracts.proxy).await?),
            ("settlers", all),
            ("recipient", tron.balance(Role::Recipient).await?),
            ("recipient's sun", U256::from(tron.dev.balance(&Role::Recipient.tron_account()).await?)),
            ("evm payer", source.balance(Role::Payer).await?),
            ("evm escrow", source.dev.token_balance(&source.token, &source.contracts.escrow).await?),
            ("evm settlers' source", settlers(source).await?),
            ("evm settlers' destination", settlers(destination).await?),
            ("evm recipient", destination.balance(Role::Recipient).await?),
        ]))
    }

    /// How often `event` was emitted for the payment by the contracts on Tron. Its API has no search, so every block is read.
    pub async fn tron_logs(&self, event: &str, payment_id: &PaymentId) -> Result<usize> {
        let tron = self.tron()?;
        let topic = hex::encode(keccak256(event));
        let payment = hex::encode(payment_id.on_chain().0);
        let http = reqwest::Client::new();
        let ask = async |path: &str, body: Value| -> Result<Value> {
            let url = format!("{}/wallet/{path}", tron.node.url());
            Ok(http.post(url).json(&body).send().await?.error_for_status()?.json().await?)
        };
        let head = ask("getnowblock", json!({})).await?;
        let head = head["block_header"]["raw_data"]["number"].as_u64().context("no number")?;
        let mut count = 0;
        for number in 1..=head {
            let infos = ask("gettransactioninfobyblocknum", json!({"num": number})).await?;
            let logs = infos.as_array().into_iter().flatten().filter_map(|info| info["log"].as_array()).flatten();
            count += logs.filter(|log| log["topics"][0] == topic && log["topics"][1] == payment).count();
        }
        Ok(count)
    }

    /// The payment's allowance that is left over on Tron, smallest unit: none, as the payer permits what it deposits.
    pub async fn tron_allowance(&self) -> Result<U256> {
        let tron = self.tron()?;
        let word = |account: &str| -> Result<String> {
            let bytes = bs58::decode(account).with_check(None).into_vec()?;
            Ok(hex::encode([&[0; 12], bytes.get(1..).context("an address")?].concat()))
        };
        let parameter = format!("{}{}", word(&Role::Payer.tron_account())?, word(&tron.contracts.escrow)?);
        let question = json!({
            "owner_address": Role::Payer.tron_account(),
            "contract_address": tron.token,
            "function_selector": "allowance(address,address)",
            "parameter": parameter,
            "visible": true,
        });
        let url = format!("{}/wallet/triggerconstantcontract", tron.node.url());
        let answer: Value = reqwest::Client::new().post(url).json(&question).send().await?.json().await?;
        let value = answer["constant_result"][0].as_str().with_context(|| format!("no allowance: {answer}"))?;
        Ok(U256::from_str_radix(value, 16)?)
    }
}

/// How often each event was emitted for each payment, as far as the chain was read: each of its blocks once.
#[derive(Default)]
pub struct TronLogs {
    read: u64,
    counts: BTreeMap<(String, String), usize>,
}

impl TronLogs {
    /// How often `event` was emitted for the payment so far.
    pub async fn count(&mut self, world: &World, event: &str, payment_id: &PaymentId) -> Result<usize> {
        let (http, url) = (reqwest::Client::new(), world.tron()?.node.url());
        let ask = async |path: &str, body: Value| -> Result<Value> {
            let asked = http.post(format!("{url}/wallet/{path}")).json(&body);
            Ok(asked.send().await?.error_for_status()?.json().await?)
        };
        let head = ask("getnowblock", json!({})).await?;
        let head = head["block_header"]["raw_data"]["number"].as_u64().context("no number")?;
        while self.read < head {
            let infos = ask("gettransactioninfobyblocknum", json!({"num": self.read + 1})).await?;
            self.read += 1;
            for log in infos.as_array().into_iter().flatten().filter_map(|info| info["log"].as_array()).flatten() {
                let topic = |n: usize| log["topics"][n].as_str().unwrap_or_default().to_owned();
                *self.counts.entry((topic(0), topic(1))).or_default() += 1;
            }
        }
        let key = (hex::encode(keccak256(event)), hex::encode(payment_id.on_chain().0));
        Ok(self.counts.get(&key).copied().unwrap_or_default())
    }
}

/// The payer on Tron.
pub fn tron_payer() -> Result<Payer> {
    Payer::on_tron(Role::Payer.signer())
}
