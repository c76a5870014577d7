//! Questions to the nodes of one chain: which of them two nodes have to answer alike, and when two answers are.

use serde_json::{Map, Value, json};

use chains::nodes::{Endpoint, Pool, Verdict};
use events::ChainId;
use sagas::ports::Transient;

use super::rpc::{Fault, Rpc};

/// A node that is more blocks behind another lags.
pub(crate) const LAG_BLOCKS_MAX: u64 = 5;

/// What is read of a block, of a receipt and of a log. Nodes differ in what they tell besides.
const BLOCK: [&str; 6] = ["number", "hash", "parentHash", "timestamp", "baseFeePerGas", "gasLimit"];
const RECEIPT: [&str; 5] = ["transactionHash", "blockNumber", "blockHash", "status", "gasUsed"];
const LOG: [&str; 7] = ["address", "topics", "data", "blockNumber", "blockHash", "transactionHash", "logIndex"];

/// One method, with the parameters of each call.
#[derive(Debug)]
pub(crate) struct Question {
    pub method: &'static str,
    pub params: Vec<Value>,
}

/// The result of each call. A revert is an answer.
pub(crate) type Answer = Vec<Result<Value, Fault>>;

/// How many nodes are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What is asked decides the answer: two have to give the same.
    Agreed,
    /// One is enough, but for a refusal.
    Trial,
    /// A number that only grows: the lower of two.
    Least,
    /// Something happens.
    Send,
    /// One is enough.
    Any,
}

impl Kind {
    fn of(question: &Question) -> Self {
        let params = question.params.first();
        let parameter = |place: usize| params.and_then(|params| params.get(place)).unwrap_or(&Value::Null);
        let at = params.and_then(Value::as_array).and_then(|params| params.last()).unwrap_or(&Value::Null);
        let is_tag = |at: &Value| at.as_str().is_some_and(|at| !at.starts_with("0x"));
        match question.method {
            "eth_sendRawTransaction" => Self::Send,
            // One node alone must not make a chain seem to be another.
            "eth_chainId" | "eth_getBlockByHash" | "eth_getLogs" | "eth_getTransactionReceipt" => Self::Agreed,
            "eth_getBlockByNumber" if !is_tag(parameter(0)) => Self::Agreed,
            "eth_call" | "eth_getCode" | "eth_getTransactionCount" | "eth_getBalance" if !is_tag(at) => Self::Agreed,
            "eth_getTransactionCount" if at == "latest" => Self::Least,
            "eth_call" | "eth_estimateGas" => Self::Trial,
            _ => Self::Any,
        }
    }
}

/// One node of the chain.
#[derive(Debug)]
pub(crate) struct Member {
    pub rpc: Rpc,
    pub chain_id: ChainId,
    pub evm_id: u64,
}

impl Endpoint for Member {
    type Question = Question;
    type Answer = Answer;
    type Fault = Fault;

    async fn check(&self) -> Result<(), Fault> {
        let found: alloy::primitives::U64 = self.rpc.call("eth_chainId", ()).await?;
        if found.to::<u64>() == self.evm_id {
            return Ok(());
        }
        let (chain_id, node) = (&self.chain_id, self.rpc.endpoint());
        tracing::error!(%chain_id, node, found = found.to::<u64>(), "the node is of another chain");
        let text = format!("the node configured for {chain_id} is of chain {found}");
        Err(Fault::Unanswered(Transient::misconfigured(text)))
    }

    async fn ask(&self, question: &Question) -> Result<Answer, Fault> {
        let answer = match question.params.as_slice() {
            [params] => vec![self.rpc.call(question.method, params.clone()).await],
            params => self.rpc.call_all(question.method, params).await,
        };
        let is_none = |one: &Result<Value, Fault>| matches!(one, Err(Fault::Unanswered(_) | Fault::Rejected(_)));
        match answer.first() {
            Some(Err(fault)) if answer.iter().all(is_none) => Err(fault.clone()),
            _ => Ok(answer),
        }
    }

    fn silence(fault: &Fault) -> Option<&Transient> {
        match fault {
            Fault::Unanswered(fault) => Some(fault),
            Fault::Reverted(_) | Fault::Rejected(_) => None,
        }
    }

    fn compare(question: &Question, one: &Answer, other: &Answer) -> Verdict {
        if one.len() != other.len() {
            return Verdict::Differs;
        }
        let verdicts = one.iter().zip(other).map(|(one, other)| compare(question.method, one, other));
        verdicts.fold(Verdict::Same, |all, one| match (all, one) {
            (Verdict::Same, one) => one,
            (_, Verdict::Differs) => Verdict::Differs,
            (all, _) => all,
        })
    }

    fn name(question: &Question) -> &str {
        question.method
    }
}

fn compare(method: &str, one: &Result<Value, Fault>, other: &Result<Value, Fault>) -> Verdict {
    let same = |is_same| if is_same { Verdict::Same } else { Verdict::Differs };
    match (one, other) {
        (Ok(one), Ok(other)) => match (one.is_null(), other.is_null()) {
            (true, false) => Verdict::Behind,
            (false, true) => Verdict::Ahead,
            _ => same(essence(method, one) == essence(method, other)),
        },
        // The words differ from node to node, what the contract returned does not.
        (Err(Fault::Reverted(one)), Err(Fault::Reverted(other))) => same(one.data == other.data),
        (Ok(_), Err(Fault::Reverted(_))) | (Err(Fault::Reverted(_)), Ok(_)) => Verdict::Differs,
        (Err(_), _) => Verdict::Behind,
        (_, Err(_)) => Verdict::Ahead,
    }
}

/// What is read of an answer, in one spelling.
fn essence(method: &str, answer: &Value) -> Value {
    let logs = |logs: &Value| match logs.as_array() {
        Some(logs) => logs.iter().map(|log| picked(log, &LOG)).collect(),
        None => logs.clone(),
    };
    match method {
        "eth_getLogs" => logs(answer),
        "eth_getBlockByHash" | "eth_getBlockByNumber" => picked(answer, &BLOCK),
        "eth_getTransactionReceipt" => json!([picked(answer, &RECEIPT), logs(&answer["logs"])]),
        _ => lower(answer),
    }
}

fn picked(object: &Value, keys: &[&str]) -> Value {
    keys.iter().map(|key| lower(&object[*key])).collect()
}

/// Addresses may be written in mixed case (EIP-55).
fn lower(value: &Value) -> Value {
    match value {
        Value::String(text) => text.to_ascii_lowercase().into(),
        Value::Array(items) => items.iter().map(lower).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(key, value)| (key.clone(), lower(value))).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// What the nodes answer to `question`, by as many of them as it needs.
pub(crate) async fn put(nodes: &Pool<Member>, question: &Question) -> Result<Answer, Fault> {
    match Kind::of(question) {
        Kind::Agreed => nodes.agreed(question).await,
        Kind::Send => nodes.send(question).await,
        Kind::Any => nodes.any(question).await,
        Kind::Trial => {
            let answer = nodes.any(question).await?;
            let refuses = answer.iter().any(|one| matches!(one, Err(Fault::Reverted(_))));
            // One node's refusal would end a payment.
            if refuses && nodes.quorum() > 1 { nodes.agreed(question).await } else { Ok(answer) }
        }
        Kind::Least => {
            let number = |answer: &Answer| match answer.first() {
                Some(Ok(Value::String(text))) => u64::from_str_radix(text.trim_start_matches("0x"), 16).ok(),
                _ => None,
            };
            let answers = nodes.each(question).await?;
            let least = answers.into_iter().map(|(_, answer)| answer).min_by_key(number);
            least.ok_or_else(|| Fault::Unanswered(Transient::unreachable("no node answers")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_money_rests_on_needs_two_nodes() {
        let kind = |method, params| Kind::of(&Question { method, params: vec![params] });
        let block = json!({"blockHash": "0x01", "requireCanonical": true});
        for (method, params, expected) in [
            ("eth_getLogs", json!([{"fromBlock": "0x1"}]), Kind::Agreed),
            ("eth_getTransactionReceipt", json!(["0x01"]), Kind::Agreed),
            ("eth_getBlockByNumber", json!(["0x1", false]), Kind::Agreed),
            ("eth_getBlockByHash", json!(["0x01", false]), Kind::Agreed),
            ("eth_call", json!([{}, block]), Kind::Agreed),
            ("eth_getTransactionCount", json!(["0x01", block]), Kind::Agreed),
            ("eth_getTransactionCount", json!(["0x01", "latest"]), Kind::Least),
            ("eth_getTransactionCount", json!(["0x01", "pending"]), Kind::Any),
            ("eth_call", json!([{}, "latest"]), Kind::Trial),
            ("eth_estimateGas", json!([{}]), Kind::Trial),
            ("eth_getBlockByNumber", json!(["latest", false]), Kind::Any),
            ("eth_sendRawTransaction", json!(["0x01"]), Kind::Send),
            ("eth_maxPriorityFeePerGas", json!([]), Kind::Any),
        ] {
            assert_eq!(kind(method, params.clone()), expected, "{method} {params}");
        }
    }

    #[test]
    fn answers_are_compared_by_what_is_read_of_them() {
        let log = json!({"address": "0xAb", "topics": ["0x01"], "data": "0x", "blockNumber": "0x1", "blockHash": "0x02",
            "transactionHash": "0x03", "logIndex": "0x0"});
        let mut spelt = log.clone();
        spelt["address"] = json!("0xab");
        spelt["blockTimestamp"] = json!("0x5");
        let mut forged = log.clone();
        forged["data"] = json!("0x01");
        let verdict = |one: Value, other: Value| compare("eth_getLogs", &Ok(one), &Ok(other));
        assert_eq!(verdict(json!([log]), json!([spelt])), Verdict::Same);
        assert_eq!(verdict(json!([log]), json!([forged])), Verdict::Differs);
        assert_eq!(verdict(json!([log]), json!([])), Verdict::Differs);
        let receipt = json!({"transactionHash": "0x03", "status": "0x1", "logs": [log]});
        let mut failed = receipt.clone();
        failed["status"] = json!("0x0");
        let mut other_logs = receipt.clone();
        other_logs["logs"] = json!([forged]);
        let verdict =
            |one: &Value, other: &Value| compare("eth_getTransactionReceipt", &Ok(one.clone()), &Ok(other.clone()));
        assert_eq!(verdict(&receipt, &receipt), Verdict::Same);
        assert_eq!(verdict(&receipt, &failed), Verdict::Differs);
        assert_eq!(verdict(&receipt, &other_logs), Verdict::Differs);
        assert_eq!(verdict(&Value::Null, &receipt), Verdict::Behind);
    }
}
