//! Nodes of one chain: which questions two of them have to answer alike, and when two answers are.

use std::sync::Arc;

use alloy::{primitives::U256, sol_types::SolCall};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use chains::nodes::{Endpoint, NodeReport, Pool, Settings, Verdict};
use escrow_abi::{
    contracts::{FulfillmentProxy, GatewayEscrow},
    deposit_addresses::TronDepositAddresses,
};
use events::ChainId;
use sagas::ports::Transient;

use super::rpc::{self, Bytes, Fault, Rpc, shortened};

/// A node that is more blocks behind another lags.
const LAG_BLOCKS_MAX: u64 = 4;
const SEND: &str = "broadcasthex";
const BLOCK: &str = "getblock";
const INFO: &str = "gettransactioninfobyid";
const INFOS: &str = "gettransactioninfobyblocknum";
const CALL: &str = "triggerconstantcontract";
const CODE: &str = "getcontractinfo";
/// Bytes of a word of the ABI.
const WORD: usize = 32;

/// What is asked.
#[derive(Debug)]
pub(super) struct Question {
    path: String,
    body: Value,
    /// Whether who asks the same at the same time may have the same answer.
    is_read: bool,
    /// The number of a block that is there already: a node that has not got so far lags. Asked of the newest block.
    floor: Option<u64>,
}

impl Question {
    fn method(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    fn is_settled(&self) -> bool {
        self.path.starts_with("walletsolidity/")
    }

    /// Whether a contract answers with the block that it answers by, in its last two words: number and time.
    fn is_dated(&self) -> bool {
        let selectors = [
            GatewayEscrow::recordAsOfCall::SELECTOR,
            FulfillmentProxy::fulfilledAsOfCall::SELECTOR,
            TronDepositAddresses::heldAsOfCall::SELECTOR,
        ];
        let data = self.body["data"].as_str().unwrap_or_default();
        self.method() == CALL && selectors.iter().any(|selector| data.starts_with(&hex::encode(selector)))
    }

    /// Whether two nodes have to give the same answer.
    fn is_agreed(&self) -> bool {
        match self.method() {
            BLOCK => !self.is_newest(),
            INFO | INFOS | CODE => true,
            CALL => self.is_settled() || self.is_dated(),
            _ => false,
        }
    }

    fn is_newest(&self) -> bool {
        self.method() == BLOCK && self.body["id_or_num"].is_null()
    }
}

/// One node.
#[derive(Debug)]
pub(super) struct Member {
    rpc: Arc<Rpc>,
    /// Nothing where it does not matter of which chain the node is.
    chain: Option<(ChainId, u32)>,
}

impl Endpoint for Member {
    type Question = Question;
    type Answer = Bytes;
    type Fault = Fault;

    async fn check(&self) -> Result<(), Fault> {
        let Some((chain_id, reference)) = &self.chain else { return Ok(()) };
        let asked = json!({"id_or_num": "0", "detail": false});
        let first: Value = self.rpc.read(&format!("wallet/{BLOCK}"), &asked).await?;
        let Some(id) = first["blockID"].as_str() else {
            return Err(Fault::Unanswered(Transient::contradiction(format!("{chain_id}: no first block"))));
        };
        // The last four bytes of the first block's id are the chain's number.
        let last = id.len().checked_sub(8).and_then(|at| id.get(at..));
        if last.and_then(|last| u32::from_str_radix(last, 16).ok()) == Some(*reference) {
            return Ok(());
        }
        let (node, first_block) = (self.rpc.endpoint(), shortened(id));
        tracing::error!(%chain_id, node, first_block, "the node is of another chain");
        let text = format!("the node configured for {chain_id} has the first block 0x{first_block}");
        Err(Fault::Unanswered(Transient::misconfigured(text)))
    }

    async fn ask(&self, question: &Question) -> Result<Bytes, Fault> {
        match question.is_read {
            true => self.rpc.read_bytes(&question.path, &question.body).await,
            false => self.rpc.post_bytes(&question.path, &question.body).await,
        }
    }

    fn silence(fault: &Fault) -> Option<&Transient> {
        match fault {
            Fault::Unanswered(fault) => Some(fault),
            Fault::Rejected(_) => None,
        }
    }

    fn compare(question: &Question, one: &Bytes, other: &Bytes) -> Verdict {
        let parsed = |bytes: &Bytes| serde_json::from_slice::<Value>(bytes).ok();
        let (Some(one), Some(other)) = (parsed(one), parsed(other)) else { return Verdict::Differs };
        match (is_nothing(question, &one), is_nothing(question, &other)) {
            (true, true) => return Verdict::Same,
            (true, false) => return Verdict::Behind,
            (false, true) => return Verdict::Ahead,
            (false, false) => {}
        }
        if essence(question, &one) == essence(question, &other) {
            return Verdict::Same;
        }
        if question.is_dated() {
            // What is on record may have changed from one block to the next.
            match (as_of(&one), as_of(&other)) {
                (Some(one), Some(other)) if one < other => return Verdict::Behind,
                (Some(one), Some(other)) if one > other => return Verdict::Ahead,
                _ => {}
            }
        }
        Verdict::Differs
    }

    fn is_older(question: &Question, one: &Bytes, other: &Bytes) -> bool {
        let number = |bytes: &Bytes| as_of(&serde_json::from_slice(bytes).ok()?);
        question.is_dated() && matches!((number(one), number(other)), (Some(one), Some(other)) if one < other)
    }

    fn name(question: &Question) -> &str {
        &question.path
    }
}

/// The nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    pool: Pool<Member>,
    place: String,
}

impl Nodes {
    /// Nodes of this chain, each with its address and its weight.
    pub fn new(chain_id: &ChainId, reference: u32, nodes: Vec<(Arc<Rpc>, String, u32)>) -> Self {
        Self::of(chain_id.clone(), Some((chain_id.clone(), reference)), nodes)
    }

    /// One node, of whichever chain it is.
    pub fn unchecked(chain_id: ChainId, rpc: Arc<Rpc>) -> Self {
        let url = rpc.endpoint().to_owned();
        Self::of(chain_id, None, vec![(rpc, url, 1)])
    }

    fn of(chain_id: ChainId, chain: Option<(ChainId, u32)>, nodes: Vec<(Arc<Rpc>, String, u32)>) -> Self {
        let origins: Vec<_> = nodes.iter().map(|(rpc, ..)| rpc.endpoint().to_owned()).collect();
        let settings = Settings { chain_id, lag_blocks_max: LAG_BLOCKS_MAX, has_clock: true };
        let nodes = nodes.into_iter().map(|(rpc, url, weight)| (Member { rpc, chain: chain.clone() }, url, weight));
        Self { pool: Pool::new(settings, nodes), place: origins.join(", ") }
    }

    /// What the nodes answer to `path`, for example `wallet/getblock`: what money rests on is what two answer, where there are
    /// two. Asked once for all who want to read it at the same time.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn read<R: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<R, Fault> {
        self.put(Question { path: path.to_owned(), body: body.clone(), is_read: true, floor: None }).await
    }

    /// As [`read`](Self::read), for each who asks.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn post<R: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<R, Fault> {
        self.put(Question { path: path.to_owned(), body: body.clone(), is_read: false, floor: None }).await
    }

    /// As [`read`](Self::read) of the newest block, by those who have the block of number `floor`, where as many have it as have to
    /// agree: what a node says that lags is nothing new, and no contradiction.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn read_newest<R: DeserializeOwned>(&self, path: &str, floor: Option<u64>) -> Result<R, Fault> {
        self.put(Question { path: path.to_owned(), body: json!({"detail": false}), is_read: true, floor }).await
    }

    /// Whether the nodes are of the chain.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn check(&self) -> Result<(), Fault> {
        self.pool.check().await
    }

    /// What each node says of itself.
    pub async fn reports(&self) -> Vec<NodeReport> {
        let (path, body) = (format!("wallet/{BLOCK}"), json!({"detail": false}));
        let newest = Question { path, body, is_read: true, floor: None };
        self.pool.report(&newest, number_of).await
    }

    async fn put<R: DeserializeOwned>(&self, question: Question) -> Result<R, Fault> {
        let answer = if question.method() == SEND {
            self.pool.send(&question).await?
        } else if question.is_newest() {
            self.lowest(&question).await?
        } else if question.is_agreed() {
            self.pool.agreed(&question).await?
        } else {
            self.pool.any(&question).await?
        };
        rpc::parsed(&format!("{} at {}", question.path, self.place), &answer)
    }

    /// The newest block that every node has which was asked and is where the chain was before.
    async fn lowest(&self, question: &Question) -> Result<Bytes, Fault> {
        let mut lowest: Option<(Option<u64>, Bytes)> = None;
        let is_there = |answer: &Bytes| number_of(answer).is_some_and(|number| question.floor <= Some(number));
        for (node, answer) in self.pool.each_there(question, is_there).await? {
            let number = number_of(&answer);
            if let Some(number) = number.filter(|_| !question.is_settled()) {
                self.pool.note_height(node, number);
            }
            if lowest.as_ref().is_none_or(|(least, _)| number < *least) {
                lowest = Some((number, answer));
            }
        }
        let none = || Fault::Unanswered(Transient::unreachable("no node answers"));
        lowest.map(|(_, answer)| answer).ok_or_else(none)
    }
}

/// The number of a block.
fn number_of(answer: &Bytes) -> Option<u64> {
    let block: Value = serde_json::from_slice(answer).ok()?;
    let header = block.pointer("/block_header/raw_data")?;
    // The first block's number is left out, as all that is zero.
    header.get("number").map_or(Some(0), Value::as_u64)
}

fn is_nothing(question: &Question, answer: &Value) -> bool {
    match question.method() {
        BLOCK => answer["blockID"].is_null(),
        INFO => answer["id"].is_null(),
        INFOS => answer.as_array().is_some_and(Vec::is_empty),
        CODE => answer["smart_contract"].is_null(),
        _ => false,
    }
}

/// What is read of an answer. Nodes differ in what they tell besides.
fn essence(question: &Question, answer: &Value) -> Value {
    match question.method() {
        BLOCK => {
            let header =
                picked(&answer["block_header"]["raw_data"], &["number", "timestamp", "parentHash", "txTrieRoot"]);
            let listed = |one: &Value| json!([one["txID"], one["raw_data_hex"], one["ret"][0]["contractRet"]]);
            let transactions: Value = answer["transactions"].as_array().into_iter().flatten().map(listed).collect();
            json!([answer["blockID"], header, transactions])
        }
        INFO => info(answer),
        INFOS => answer.as_array().into_iter().flatten().map(info).collect(),
        CALL => {
            let result = picked(&answer["result"], &["result", "code"]);
            let mut returned = output(answer);
            if question.is_dated() {
                returned.truncate(returned.len().saturating_sub(2 * WORD));
            }
            let rets = answer["transaction"]["ret"].as_array().into_iter().flatten();
            let rets: Value = rets.map(|ret| ret["ret"].clone()).collect();
            json!([result, hex::encode(returned), rets])
        }
        // How much a contract is in use they count from block to block.
        CODE => {
            let made = picked(&answer["smart_contract"], &["contract_address", "bytecode"]);
            json!([answer["runtimecode"], made])
        }
        _ => answer.clone(),
    }
}

fn info(info: &Value) -> Value {
    const INFO: [&str; 8] =
        ["id", "blockNumber", "blockTimeStamp", "fee", "contractResult", "contract_address", "result", "resMessage"];
    const RECEIPT: [&str; 2] = ["result", "energy_usage_total"];
    let log = |log: &Value| picked(log, &["address", "topics", "data"]);
    let logs: Value = info["log"].as_array().into_iter().flatten().map(log).collect();
    json!([picked(info, &INFO), picked(&info["receipt"], &RECEIPT), logs])
}

fn picked(object: &Value, keys: &[&str]) -> Value {
    keys.iter().map(|key| object[*key].clone()).collect()
}

fn output(answer: &Value) -> Vec<u8> {
    hex::decode(answer["constant_result"][0].as_str().unwrap_or_default()).unwrap_or_default()
}

/// The number of the block by which a contract answered.
fn as_of(answer: &Value) -> Option<U256> {
    let output = output(answer);
    let at = output.len().checked_sub(2 * WORD)?;
    Some(U256::from_be_slice(&output[at..at + WORD]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(path: &str, body: Value) -> Question {
        Question { path: path.to_owned(), body, is_read: true, floor: None }
    }

    fn bytes(value: &Value) -> Bytes {
        value.to_string().into_bytes().into()
    }

    #[test]
    fn a_record_is_compared_without_the_block_that_it_was_read_at() {
        let data = hex::encode(GatewayEscrow::recordAsOfCall::SELECTOR);
        let asked = question("walletsolidity/triggerconstantcontract", json!({"data": data}));
        let answer = |record: u64, number: u64| {
            let words = [record, number, number * 3].map(|word| hex::encode(U256::from(word).to_be_bytes::<32>()));
            bytes(&json!({"result": {"result": true}, "constant_result": [words.concat()], "energy_used": number}))
        };
        let verdict = |one: &Bytes, other: &Bytes| Member::compare(&asked, one, other);
        assert_eq!(verdict(&answer(1, 10), &answer(1, 11)), Verdict::Same);
        assert!(Member::is_older(&asked, &answer(1, 10), &answer(1, 11)));
        assert_eq!(verdict(&answer(0, 10), &answer(1, 11)), Verdict::Behind);
        assert_eq!(verdict(&answer(0, 11), &answer(1, 11)), Verdict::Differs);
    }

    #[test]
    fn what_money_rests_on_needs_two_nodes() {
        for (path, body, agreed) in [
            ("walletsolidity/getblock", json!({"id_or_num": "7"}), true),
            ("walletsolidity/getblock", json!({"detail": false}), false),
            ("wallet/gettransactioninfobyid", json!({}), true),
            ("walletsolidity/gettransactioninfobyblocknum", json!({}), true),
            ("walletsolidity/triggerconstantcontract", json!({"data": "00"}), true),
            ("wallet/triggerconstantcontract", json!({"data": "00"}), false),
            ("wallet/getchainparameters", json!({}), false),
            ("wallet/broadcasthex", json!({}), false),
        ] {
            assert_eq!(question(path, body).is_agreed(), agreed, "{path}");
        }
    }

    #[test]
    fn a_node_that_lags_is_told_from_one_that_lies() {
        let asked = question("wallet/gettransactioninfobyid", json!({}));
        let found = json!({"id": "aa", "blockNumber": 7, "log": [{"address": "bb", "topics": [], "data": "01"}]});
        let mut forged = found.clone();
        forged["log"][0]["data"] = json!("02");
        let verdict = |one: &Value, other: &Value| Member::compare(&asked, &bytes(one), &bytes(other));
        assert_eq!(verdict(&found, &found), Verdict::Same);
        assert_eq!(verdict(&json!({}), &found), Verdict::Behind);
        assert_eq!(verdict(&found, &forged), Verdict::Differs);
    }
}
