//! Nodes of one cluster: which questions two of them have to answer alike, and when two answers are.
//!
//! Nodes do not answer at a slot that is asked for, so accounts are the same that have the same owners, data and balances,
//! whatever the slots; then the older answer is taken, with its slot and its clock.

use std::sync::Arc;

use data_encoding::BASE64;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use chains::nodes::{Endpoint, NodeReport, Pool, Settings, Verdict};
use events::ChainId;
use gateway_program::Hash;
use sagas::ports::Transient;

use super::{
    program::text,
    rpc::{self, Answer, Fault, Rpc},
};

/// The one method that does something.
pub(super) const SEND: &str = "sendTransaction";
/// The cluster's clock.
pub(super) const CLOCK_SYSVAR: &str = "SysvarC1ock11111111111111111111111111111111";
/// Owner of accounts without a program.
const SYSTEM_PROGRAM: &str = "11111111111111111111111111111111";
/// A node that is more slots behind another lags.
const LAG_SLOTS_MAX: u64 = 32;
/// Seconds by which two nodes' clocks may differ besides a second for each slot: a slot takes 0.4 s, and at most 2.5 times as
/// long by the cluster's clock.
const CLOCK_SECONDS_APART_MAX: u64 = 10;
/// Blocks by which a node may err about the height up to which a blockhash counts; by so many it is waited longer until a
/// transaction is held for lost.
const BLOCKHASH_MARGIN_BLOCKS: u64 = 32;

const GENESIS: &str = "getGenesisHash";
const ACCOUNTS: &str = "getMultipleAccounts";
const STATUSES: &str = "getSignatureStatuses";
const TRANSACTION: &str = "getTransaction";
const BLOCK: &str = "getBlock";
const BLOCK_TIME: &str = "getBlockTime";
const SLOT: &str = "getSlot";
const HEIGHT: &str = "getBlockHeight";
/// Whether a blockhash counts.
const COUNTS: &str = "isBlockhashValid";
const SIMULATION: &str = "simulateTransaction";
const BLOCKHASH: &str = "getLatestBlockhash";

/// What is asked.
#[derive(Debug)]
pub(super) struct Question {
    method: &'static str,
    params: Value,
}

/// One node.
#[derive(Debug)]
pub(super) struct Member {
    rpc: Rpc,
    chain_id: ChainId,
    cluster: Hash,
}

impl Endpoint for Member {
    type Question = Question;
    type Answer = Answer;
    type Fault = Fault;

    async fn check(&self) -> Result<(), Fault> {
        let found = self.rpc.answer(GENESIS, &json!([])).await?;
        let found: String = rpc::parsed(GENESIS, self.rpc.endpoint(), &found)?;
        if found == text(&self.cluster) {
            return Ok(());
        }
        let (chain_id, node) = (&self.chain_id, self.rpc.endpoint());
        tracing::error!(%chain_id, node, found, "the node is of another cluster");
        let text = format!("the node configured for {chain_id} is of the cluster {found}");
        Err(Transient::misconfigured(text).into())
    }

    async fn ask(&self, question: &Question) -> Result<Answer, Fault> {
        match question.method {
            SEND => self.rpc.answer(SEND, &question.params).await.map(Arc::new),
            method => self.rpc.read(method, &question.params).await,
        }
    }

    fn silence(fault: &Fault) -> Option<&Transient> {
        match fault {
            Fault::Unanswered(fault) => Some(fault),
            Fault::Known(_) | Fault::Rejected(_) => None,
        }
    }

    fn compare(question: &Question, one: &Answer, other: &Answer) -> Verdict {
        match (is_nothing(question, one), is_nothing(question, other)) {
            (true, false) => return Verdict::Behind,
            (false, true) => return Verdict::Ahead,
            _ => {}
        }
        if essence(question, one) == essence(question, other) {
            let fit = question.method != ACCOUNTS || clocks_fit(question, one, other);
            return if fit { Verdict::Same } else { Verdict::Differs };
        }
        // What changes from one slot to the next is no lie.
        match (slot_of(one), slot_of(other)) {
            (Some(one), Some(other)) if one < other => Verdict::Behind,
            (Some(one), Some(other)) if one > other => Verdict::Ahead,
            _ => Verdict::Differs,
        }
    }

    fn is_older(_: &Question, one: &Answer, other: &Answer) -> bool {
        matches!((slot_of(one), slot_of(other)), (Some(one), Some(other)) if one < other)
    }

    fn name(question: &Question) -> &str {
        question.method
    }
}

/// The nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    pool: Pool<Member>,
    place: String,
}

impl Nodes {
    /// Nodes of this cluster, each with its address and its weight.
    pub fn new(chain_id: &ChainId, cluster: Hash, nodes: Vec<(Rpc, String, u32)>) -> Self {
        let origins: Vec<_> = nodes.iter().map(|(rpc, ..)| rpc.endpoint().to_owned()).collect();
        let settings = Settings { chain_id: chain_id.clone(), lag_blocks_max: LAG_SLOTS_MAX, has_clock: true };
        let members = nodes.into_iter().map(|(rpc, url, weight)| {
            let member = Member { rpc, chain_id: chain_id.clone(), cluster };
            (member, url, weight)
        });
        Self { pool: Pool::new(settings, members), place: origins.join(", ") }
    }

    /// Whether two nodes have to agree.
    pub fn has_quorum(&self) -> bool {
        self.pool.quorum() > 1
    }

    /// What the nodes answer: what money rests on is what two answer, where there are two. Asked once for all who want to read
    /// it at the same time.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn request<R: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<R, Fault> {
        let question = Question { method, params };
        let answer = match method {
            SEND => self.pool.send(&question).await,
            SLOT | HEIGHT => self.lowest(&question).await,
            BLOCKHASH if self.has_quorum() => self.blockhash(&question).await,
            // One node alone must not make a cluster seem to be another.
            GENESIS | ACCOUNTS | STATUSES | TRANSACTION | BLOCK | BLOCK_TIME | COUNTS => {
                self.pool.agreed(&question).await
            }
            SIMULATION => {
                let answer = self.pool.any(&question).await?;
                // One node's refusal would end a payment.
                let refuses = !answer["value"]["err"].is_null();
                if refuses && self.has_quorum() { self.pool.agreed(&question).await } else { Ok(answer) }
            }
            _ => self.pool.any(&question).await,
        };
        rpc::parsed(method, &self.place, &*answer?)
    }

    /// What each node says of itself.
    pub async fn reports(&self) -> Vec<NodeReport> {
        let newest = Question { method: SLOT, params: json!([{"commitment": "confirmed"}]) };
        self.pool.report(&newest, |answer| answer.as_u64()).await
    }

    /// The slot or height that every node has reached which was asked.
    async fn lowest(&self, question: &Question) -> Result<Answer, Fault> {
        let answers = self.pool.each(question).await?;
        if question.method == SLOT && question.params[0]["commitment"] == "confirmed" {
            for (node, answer) in &answers {
                if let Some(slot) = answer.as_u64() {
                    self.pool.note_height(*node, slot);
                }
            }
        }
        let lowest = answers.into_iter().map(|(_, answer)| answer).min_by_key(|answer| answer.as_u64());
        lowest.ok_or_else(|| Transient::unreachable("no node answers").into())
    }

    /// The older of two blockhashes, with the later of the heights up to which nodes say that theirs count, and more: no node
    /// alone makes a transaction seem lost that can still land.
    async fn blockhash(&self, question: &Question) -> Result<Answer, Fault> {
        let mut answers = self.pool.each(question).await?;
        let height = |answer: &Answer| answer["value"]["lastValidBlockHeight"].as_u64();
        let latest = answers.iter().filter_map(|(_, answer)| height(answer)).max();
        answers.sort_by_key(|(_, answer)| slot_of(answer));
        let (Some((_, older)), Some(latest)) = (answers.first(), latest) else {
            return Err(Transient::unreachable("no node has a blockhash").into());
        };
        let mut older = Value::clone(older);
        older["value"]["lastValidBlockHeight"] = latest.saturating_add(BLOCKHASH_MARGIN_BLOCKS).into();
        Ok(Arc::new(older))
    }
}

/// The slot at which a node answered.
fn slot_of(answer: &Value) -> Option<u64> {
    answer.pointer("/context/slot")?.as_u64()
}

fn is_nothing(question: &Question, answer: &Value) -> bool {
    match question.method {
        STATUSES => answer["value"][0].is_null(),
        _ => answer.is_null(),
    }
}

/// What is read of an answer. Nodes differ in what they tell besides.
fn essence(question: &Question, answer: &Value) -> Value {
    let listed = |of: &Value, one: fn(&Value) -> Value| match of.as_array() {
        Some(items) => items.iter().map(one).collect(),
        None => Value::Null,
    };
    match question.method {
        ACCOUNTS => {
            let mut accounts = answer["value"].as_array().cloned().unwrap_or_default();
            if ends_with_clock(question) {
                accounts.pop();
            }
            accounts.iter().map(account).collect()
        }
        STATUSES => listed(&answer["value"], |status| picked(status, &["slot", "err"])),
        TRANSACTION => {
            let meta = &answer["meta"];
            let loaded = picked(&meta["loadedAddresses"], &["writable", "readonly"]);
            let loaded: Vec<_> =
                loaded.as_array().into_iter().flatten().map(|keys| listed(keys, Value::clone)).collect();
            let loaded: Vec<_> = loaded.into_iter().map(|keys| if keys.is_null() { json!([]) } else { keys }).collect();
            let inner = meta["innerInstructions"].as_array().cloned().unwrap_or_default();
            let inner: Value = inner.iter().map(without_depth).collect();
            let balances = ["preTokenBalances", "postTokenBalances"].map(|key| listed(&meta[key], balance));
            json!([answer["slot"], without_depth(&answer["transaction"]), meta["err"], inner, loaded, balances])
        }
        BLOCK => picked(answer, &["blockhash", "signatures"]),
        SIMULATION => answer["value"]["err"].clone(),
        COUNTS => answer["value"].clone(),
        _ => answer.clone(),
    }
}

/// What is compared of an account. Anyone may send lamports to one without a program, and fees are paid from them.
fn account(account: &Value) -> Value {
    let is_wallet = account["owner"] == SYSTEM_PROGRAM && account["data"][0] == "";
    match is_wallet {
        true => picked(account, &["owner"]),
        false => picked(account, &["owner", "lamports", "data", "executable"]),
    }
}

fn balance(balance: &Value) -> Value {
    json!([balance["accountIndex"], balance["mint"], balance["owner"], balance["uiTokenAmount"]["amount"]])
}

fn picked(object: &Value, keys: &[&str]) -> Value {
    keys.iter().map(|key| object[*key].clone()).collect()
}

/// The same without what only some versions tell of an instruction.
fn without_depth(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_depth).collect(),
        Value::Object(members) => {
            let kept = members.iter().filter(|(key, _)| *key != "stackHeight" && *key != "version");
            Value::Object(kept.map(|(key, value)| (key.clone(), without_depth(value))).collect())
        }
        other => other.clone(),
    }
}

fn ends_with_clock(question: &Question) -> bool {
    question.params[0].as_array().and_then(|keys| keys.last()).is_some_and(|last| last == CLOCK_SYSVAR)
}

/// Whether the clocks of two answers can both be right.
fn clocks_fit(question: &Question, one: &Value, other: &Value) -> bool {
    let seconds = |answer: &Value| -> Option<i64> {
        let clock = answer["value"].as_array()?.last()?["data"][0].as_str()?;
        let clock = BASE64.decode(clock.as_bytes()).ok()?;
        Some(i64::from_le_bytes(clock.get(32..40)?.try_into().ok()?))
    };
    if !ends_with_clock(question) {
        return true;
    }
    match (seconds(one), seconds(other), slot_of(one), slot_of(other)) {
        (Some(one), Some(other), Some(slot), Some(other_slot)) => {
            let apart = slot.abs_diff(other_slot).saturating_add(CLOCK_SECONDS_APART_MAX);
            one.abs_diff(other) <= apart && (slot != other_slot || one == other)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(method: &'static str, params: Value) -> Question {
        Question { method, params }
    }

    fn clock(seconds: i64) -> Value {
        let mut data = [0; 40];
        data[32..].copy_from_slice(&seconds.to_le_bytes());
        json!({"owner": "sysvar", "data": [BASE64.encode(&data), "base64"]})
    }

    fn accounts(slot: u64, data: &str, seconds: i64) -> Answer {
        let escrow = json!({"owner": "program", "lamports": 5, "data": [data, "base64"], "rentEpoch": slot});
        let wallet = json!({"owner": SYSTEM_PROGRAM, "lamports": slot, "data": ["", "base64"]});
        Arc::new(json!({"context": {"slot": slot}, "value": [escrow, wallet, null, clock(seconds)]}))
    }

    #[test]
    fn accounts_are_the_same_at_different_slots_when_their_clocks_fit() {
        let asked = question(ACCOUNTS, json!([["escrow", "wallet", "none", CLOCK_SYSVAR]]));
        let verdict = |one: &Answer, other: &Answer| Member::compare(&asked, one, other);
        let honest = accounts(100, "AA==", 1_000);
        assert_eq!(verdict(&honest, &accounts(103, "AA==", 1_001)), Verdict::Same);
        assert!(Member::is_older(&asked, &honest, &accounts(103, "AA==", 1_001)));
        assert_eq!(verdict(&honest, &accounts(100, "AQ==", 1_000)), Verdict::Differs);
        assert_eq!(verdict(&honest, &accounts(103, "AQ==", 1_001)), Verdict::Behind);
        // A node that would make a deadline pass, or not pass.
        assert_ne!(verdict(&honest, &accounts(103, "AA==", 9_000)), Verdict::Same);
        assert_ne!(verdict(&honest, &accounts(100, "AA==", 1_001)), Verdict::Same);
    }

    #[test]
    fn a_transaction_is_compared_by_what_is_read_of_it() {
        let asked = question(TRANSACTION, json!(["signature"]));
        let answer = json!({"slot": 5, "version": 0, "transaction": {"signatures": ["s"]},
            "meta": {"err": null, "innerInstructions": [{"instructions": [{"data": "d", "stackHeight": 2}]}]}});
        let mut spelt = answer.clone();
        spelt["meta"]["innerInstructions"][0]["instructions"][0]["stackHeight"] = Value::Null;
        spelt["meta"]["loadedAddresses"] = json!({"writable": [], "readonly": []});
        let mut forged = answer.clone();
        forged["meta"]["innerInstructions"][0]["instructions"][0]["data"] = json!("e");
        let verdict = |one: &Value, other: &Value| Member::compare(&asked, &one.clone().into(), &other.clone().into());
        assert_eq!(verdict(&answer, &spelt), Verdict::Same);
        assert_eq!(verdict(&answer, &forged), Verdict::Differs);
        assert_eq!(verdict(&Value::Null, &answer), Verdict::Behind);
    }

    #[test]
    fn a_status_that_one_node_lacks_is_not_agreed() {
        let asked = question(STATUSES, json!([["s"], {}]));
        let status = |value: Value| Arc::new(json!({"context": {"slot": 9}, "value": [value]}));
        let (none, seen) = (status(Value::Null), status(json!({"slot": 7, "err": null, "confirmations": 3})));
        let rooted = status(json!({"slot": 7, "err": null, "confirmations": null}));
        let verdict = |one: &Answer, other: &Answer| Member::compare(&asked, one, other);
        assert_eq!(verdict(&none, &none), Verdict::Same);
        assert_eq!(verdict(&none, &seen), Verdict::Behind);
        assert_eq!(verdict(&seen, &rooted), Verdict::Same);
    }
}
