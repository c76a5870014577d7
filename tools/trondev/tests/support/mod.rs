//! A development node that makes blocks on demand, and transactions to send to it.

use anyhow::{Context, Result, ensure};
use k256::ecdsa::SigningKey;
use prost::Message;
use serde_json::{Value, json};

use trondev::{Address, Blocks, Options, Transaction, TronDev, proto, sign};

pub const LAG: u64 = 3;
pub const TRX: i64 = 1_000_000;

/// A node and a client of it.
pub struct Network {
    pub node: TronDev,
    http: reqwest::Client,
}

/// Someone with a key.
pub struct Party {
    pub key: SigningKey,
    pub address: Address,
}

impl Party {
    pub fn new(seed: u8) -> Self {
        let key = SigningKey::from_slice(&[seed; 32]).unwrap();
        let address = Address::of_key(key.verifying_key());
        Self { key, address }
    }
}

impl Network {
    pub async fn start() -> Result<Self> {
        Self::with(Options { blocks: Blocks::OnDemand, solidified_lag: LAG, ..Options::default() }).await
    }

    pub async fn with(options: Options) -> Result<Self> {
        Ok(Self { node: TronDev::start(options).await?, http: reqwest::Client::new() })
    }

    /// Posts to a path and reads the JSON.
    pub async fn post(&self, path: &str, body: Value) -> Result<Value> {
        let request = self.http.post(format!("{}/{path}", self.node.url())).body(body.to_string());
        Ok(request.send().await?.json().await?)
    }

    /// Posts bytes, and tells the status, too.
    pub async fn post_bytes(&self, path: &str, body: Vec<u8>) -> Result<(u16, String)> {
        let answer = self.http.post(format!("{}/{path}", self.node.url())).body(body).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    pub async fn get(&self, path_and_query: &str) -> Result<Value> {
        Ok(self.http.get(format!("{}/{path_and_query}", self.node.url())).send().await?.json().await?)
    }

    /// Uses a development control, which must not refuse.
    pub async fn dev(&self, name: &str, body: Value) -> Result<Value> {
        let answer = self.post(&format!("dev/{name}"), body).await?;
        ensure!(answer.get("error").is_none(), "/dev/{name}: {answer}");
        Ok(answer)
    }

    pub async fn mine(&self, blocks: u64) -> Result<()> {
        self.dev("mine", json!({ "blocks": blocks })).await.map(drop)
    }

    /// A party with TRX.
    pub async fn funded(&self, seed: u8, sun: i64) -> Result<Party> {
        let party = Party::new(seed);
        self.dev("fund", json!({ "address": party.address.to_base58(), "sun": sun })).await?;
        Ok(party)
    }

    pub async fn balance(&self, address: Address) -> Result<i64> {
        let account = self.post("wallet/getaccount", json!({ "address": address.to_hex() })).await?;
        Ok(account["balance"].as_i64().unwrap_or(0))
    }

    /// Reference, times and a fee limit of 100 TRX, on the head.
    pub async fn header(&self) -> Result<proto::Raw> {
        let head = self.get("wallet/getnowblock").await?;
        let id = hex::decode(head["blockID"].as_str().context("an id")?)?;
        let time = head["block_header"]["raw_data"]["timestamp"].as_i64().context("a time")?;
        Ok(proto::Raw {
            ref_block_bytes: id[6..8].to_vec(),
            ref_block_hash: id[8..16].to_vec(),
            expiration: time + 60_000,
            timestamp: time,
            fee_limit: 100 * TRX,
            ..Default::default()
        })
    }

    pub async fn transfer(&self, from: Address, to: Address, amount: i64) -> Result<proto::Raw> {
        let message = transfer_message(from, to, amount);
        Ok(proto::Raw { contract: vec![contract(1, "TransferContract", &message)], ..self.header().await? })
    }

    pub async fn trigger(&self, from: Address, to: Address, value: i64, data: &[u8]) -> Result<proto::Raw> {
        let message = proto::TriggerSmartContract {
            owner_address: from.to_bytes().to_vec(),
            contract_address: to.to_bytes().to_vec(),
            call_value: value,
            data: data.to_vec(),
            ..Default::default()
        };
        Ok(proto::Raw { contract: vec![contract(31, "TriggerSmartContract", &message)], ..self.header().await? })
    }

    pub async fn deployment(&self, from: Address, contract: proto::SmartContract) -> Result<proto::Raw> {
        let message = proto::CreateSmartContract {
            owner_address: from.to_bytes().to_vec(),
            new_contract: Some(contract),
            ..Default::default()
        };
        let contract = self::contract(30, "CreateSmartContract", &message);
        Ok(proto::Raw { contract: vec![contract], ..self.header().await? })
    }

    /// Signs and sends, in hex.
    pub async fn send(&self, by: &Party, raw: proto::Raw) -> Result<Value> {
        self.send_message(&signed(by, raw)?).await
    }

    pub async fn send_message(&self, message: &proto::Transaction) -> Result<Value> {
        self.post("wallet/broadcasthex", json!({ "transaction": hex::encode(message.encode_to_vec()) })).await
    }

    /// Signs and sends; the network must refuse with `code`. What it says is given back.
    pub async fn refused(&self, by: &Party, raw: proto::Raw, code: &str) -> Result<String> {
        refusal(&self.send(by, raw).await?, code)
    }

    /// Signs and sends; the network must take it. After a block, what came of it.
    pub async fn done(&self, by: &Party, raw: proto::Raw) -> Result<Value> {
        let answer = self.send(by, raw).await?;
        ensure!(answer["result"] == true, "{answer}");
        self.mine(1).await?;
        self.post("wallet/gettransactioninfobyid", json!({ "value": answer["txid"] })).await
    }

    /// The words that a call returns.
    pub async fn ask(&self, from: Address, contract: Address, data: &[u8]) -> Result<(Vec<Vec<u8>>, Value)> {
        self.ask_under("wallet", from, contract, data).await
    }

    /// The words that a call returns under `wallet` or `walletsolidity`.
    pub async fn ask_under(
        &self,
        root: &str,
        from: Address,
        contract: Address,
        data: &[u8],
    ) -> Result<(Vec<Vec<u8>>, Value)> {
        let body = json!({
            "owner_address": from.to_hex(),
            "contract_address": contract.to_hex(),
            "data": hex::encode(data),
        });
        let answer = self.post(&format!("{root}/triggerconstantcontract"), body).await?;
        let output = hex::decode(answer["constant_result"][0].as_str().with_context(|| answer.to_string())?)?;
        Ok((output.chunks(32).map(<[u8]>::to_vec).collect(), answer))
    }
}

/// What a refusal says, which must have `code`.
pub fn refusal(answer: &Value, code: &str) -> Result<String> {
    ensure!(answer["code"] == code && answer["result"] != true, "not {code}: {answer}");
    Ok(String::from_utf8(hex::decode(answer["message"].as_str().context("a message")?)?)?)
}

pub fn transfer_message(from: Address, to: Address, amount: i64) -> proto::TransferContract {
    proto::TransferContract { owner_address: from.to_bytes().to_vec(), to_address: to.to_bytes().to_vec(), amount }
}

pub fn contract(kind: i32, name: &str, message: &impl Message) -> proto::Contract {
    let parameter =
        proto::Any { type_url: format!("type.googleapis.com/protocol.{name}"), value: message.encode_to_vec() };
    proto::Contract { r#type: kind, parameter: Some(parameter), ..Default::default() }
}

pub fn signed(by: &Party, raw: proto::Raw) -> Result<proto::Transaction> {
    use sha2::{Digest, Sha256};

    let id = Sha256::digest(raw.encode_to_vec()).into();
    let signature = sign(&by.key, &id)?.to_vec();
    Ok(proto::Transaction { raw_data: Some(raw), signature: vec![signature] })
}

/// The id of a message that can be read.
pub fn id(message: &proto::Transaction) -> Result<trondev::TxId> {
    Ok(Transaction::from_message(message.clone())?.id)
}
