//! Evidence of an executed transaction: which instructions ran, and what each of them moved.
//!
//! A transaction runs whole or not at all, so an instruction of the gateway's program in one that succeeded had exactly the
//! effect that the program gives it. What it moved is read from the instructions it called, not from the program's log.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use events::event::Inclusion;
use gateway_program::{Key, ids};

use super::{
    node::{Node, instruction_data},
    program::base58,
};

/// `Transfer` and `TransferChecked` of the token programs.
const TOKEN_TRANSFER: u8 = 3;
const TOKEN_TRANSFER_CHECKED: u8 = 12;
/// `CloseAccount` of the token programs, which refuse it for an account that holds anything.
const TOKEN_CLOSE: u8 = 9;
/// `Transfer` of the system program, a `u32`.
const SYSTEM_TRANSFER: [u8; 4] = [2, 0, 0, 0];

/// What `getTransaction` answers, with encoding `json`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawEvidence {
    /// The slot it was executed in.
    pub(crate) slot: u64,
    transaction: Body,
    meta: Option<Meta>,
}

#[derive(Debug, Clone, Deserialize)]
struct Body {
    signatures: Vec<String>,
    message: Message,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    account_keys: Vec<String>,
    instructions: Vec<Compiled>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    err: Option<Value>,
    inner_instructions: Option<Vec<Inner>>,
    loaded_addresses: Option<Loaded>,
    pre_token_balances: Option<Vec<TokenBalance>>,
    post_token_balances: Option<Vec<TokenBalance>>,
}

#[derive(Debug, Clone, Deserialize)]
struct Inner {
    index: usize,
    instructions: Vec<Compiled>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Compiled {
    program_id_index: usize,
    accounts: Vec<usize>,
    data: String,
    stack_height: Option<u32>,
}

#[derive(Debug, Clone, Deserialize)]
struct Loaded {
    writable: Vec<String>,
    readonly: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenBalance {
    account_index: usize,
    ui_token_amount: UiAmount,
}

#[derive(Debug, Clone, Deserialize)]
struct UiAmount {
    amount: String,
}

/// An executed transaction, whole.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    /// The slot it was executed in.
    pub(crate) slot: u64,
    /// UNIX second of that slot's block.
    pub(crate) time: u64,
    /// Why it failed; `None` when it succeeded.
    pub(crate) error: Option<String>,
    top: Vec<Call>,
    inner: BTreeMap<usize, Vec<Call>>,
    /// Token balances before and after, by account.
    balances: BTreeMap<Key, (u64, u64)>,
}

/// One instruction that was executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) program: Key,
    pub(crate) accounts: Vec<Key>,
    pub(crate) data: Vec<u8>,
    /// Depth of an instruction that another called: 2 for those that one of the transaction's own called.
    height: Option<u32>,
}

/// An instruction of the gateway's program, with what it called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) call: Call,
    called: Vec<Call>,
}

impl RawEvidence {
    /// The transaction, when it is the one of `signature` and its parts fit together; else what does not. Its block
    /// has the UNIX second `time`.
    pub(crate) fn read(self, signature: &str, time: u64) -> Result<Evidence, String> {
        if self.transaction.signatures.first().map(String::as_str) != Some(signature) {
            return Err("the transaction is another one".to_owned());
        }
        let meta = self.meta.ok_or("a transaction without its outcome")?;
        let inner_instructions = meta.inner_instructions.ok_or("a transaction without what it called")?;
        let loaded = meta.loaded_addresses.iter().flat_map(|loaded| loaded.writable.iter().chain(&loaded.readonly));
        let keys = self.transaction.message.account_keys.iter().chain(loaded).map(|text| base58(text));
        let keys = keys.collect::<Option<Vec<Key>>>().ok_or("an account that is not Base58 of 32 bytes")?;
        let call = |compiled: &Compiled| compiled.read(&keys).ok_or("an instruction that cannot be read");
        let top = self.transaction.message.instructions.iter().map(call).collect::<Result<Vec<_>, _>>()?;
        let mut inner = BTreeMap::new();
        for Inner { index, instructions } in &inner_instructions {
            let calls = instructions.iter().map(call).collect::<Result<Vec<_>, _>>()?;
            inner.insert(*index, calls);
        }
        let mut balances: BTreeMap<Key, (u64, u64)> = BTreeMap::new();
        let before = meta.pre_token_balances.ok_or("a transaction without its token balances")?;
        let after = meta.post_token_balances.ok_or("a transaction without its token balances")?;
        for (found, is_before) in
            before.iter().map(|found| (found, true)).chain(after.iter().map(|found| (found, false)))
        {
            let account = keys.get(found.account_index).ok_or("a token balance of no account")?;
            let amount = found.ui_token_amount.amount.parse().map_err(|_| "a token balance that is not a number")?;
            let balance = balances.entry(*account).or_default();
            if is_before { balance.0 = amount } else { balance.1 = amount }
        }
        Ok(Evidence { slot: self.slot, time, error: meta.err.map(|error| error.to_string()), top, inner, balances })
    }
}

impl Compiled {
    fn read(&self, keys: &[Key]) -> Option<Call> {
        let accounts = self.accounts.iter().map(|index| keys.get(*index).copied()).collect::<Option<Vec<_>>>()?;
        let data = instruction_data(&self.data)?;
        Some(Call { program: *keys.get(self.program_id_index)?, accounts, data, height: self.stack_height })
    }
}

impl Evidence {
    /// Every instruction of `program` that ran, also those that another program called.
    pub(crate) fn effects(&self, program: &Key) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (index, call) in self.top.iter().enumerate() {
            let inner = self.inner.get(&index).map(Vec::as_slice).unwrap_or_default();
            if call.program == *program {
                effects.push(Effect { call: call.clone(), called: inner.to_vec() });
            }
            for (place, call) in inner.iter().enumerate().filter(|(_, call)| call.program == *program) {
                // What stands behind an instruction at a greater depth was called by it.
                let below = inner[place + 1..].iter().take_while(|later| later.height > call.height);
                effects.push(Effect { call: call.clone(), called: below.cloned().collect() });
            }
        }
        effects
    }

    /// The data of the transaction's own instruction `index`, if that is one of the Ed25519 precompile.
    pub(crate) fn ed25519(&self, index: u8) -> Option<&[u8]> {
        let call = self.top.get(usize::from(index)).filter(|call| call.program == ids::ED25519_PROGRAM)?;
        Some(&call.data)
    }

    /// Its place on the chain of `node`, in the block with this hash.
    pub(crate) fn inclusion(&self, node: &Node, transaction_hash: &str, block_hash: String) -> Inclusion {
        Inclusion {
            chain_id: node.chain_id().clone(),
            transaction_hash: transaction_hash.to_owned(),
            block_number: self.slot,
            block_hash,
            block_time: self.time,
        }
    }

    /// What the token account held before and after the transaction; an account that was not there held nothing.
    pub(crate) fn token_balance(&self, account: &Key) -> (u64, u64) {
        self.balances.get(account).copied().unwrap_or_default()
    }
}

impl Effect {
    /// What the instruction had moved between token accounts for which `counts` (from, to).
    pub(crate) fn tokens_moved(&self, counts: impl Fn(&Key, &Key) -> bool) -> u64 {
        let moves = self.called.iter().filter(|call| ids::is_token_program(&call.program)).filter_map(|call| {
            let (kind, rest) = call.data.split_first()?;
            let amount = rest.get(..8)?.try_into().ok().map(u64::from_le_bytes)?;
            match (*kind, call.accounts.as_slice()) {
                (TOKEN_TRANSFER, [from, to, ..]) | (TOKEN_TRANSFER_CHECKED, [from, _, to, ..]) => {
                    Some((*from, *to, amount))
                }
                _ => None,
            }
        });
        let counted = moves.filter(|(from, to, _)| counts(from, to));
        counted.fold(0, |sum: u64, (_, _, amount)| sum.saturating_add(amount))
    }

    /// Whether the instruction had the token account closed, which must have been empty then.
    pub(crate) fn closed(&self, account: &Key) -> bool {
        let mut closes = self.called.iter().filter(|call| ids::is_token_program(&call.program));
        closes.any(|call| call.data == [TOKEN_CLOSE] && call.accounts.first() == Some(account))
    }

    /// Lamports that the instruction had moved from one account to another by the system program.
    pub(crate) fn lamports_moved(&self, from: &Key, to: &Key) -> u64 {
        let moves = self.called.iter().filter(|call| call.program == ids::SYSTEM_PROGRAM).filter_map(|call| {
            let amount = call.data.strip_prefix(&SYSTEM_TRANSFER)?.try_into().ok().map(u64::from_le_bytes)?;
            (call.accounts.first() == Some(from) && call.accounts.get(1) == Some(to)).then_some(amount)
        });
        moves.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OWN: Key = [9; 32];

    fn base58(bytes: impl AsRef<[u8]>) -> String {
        bs58::encode(bytes).into_string()
    }

    /// A transaction in which another program calls ours twice, and ours moves 5 and 7 tokens.
    fn answer() -> Value {
        let moved = |amount: u64| {
            let mut data = vec![TOKEN_TRANSFER_CHECKED];
            data.extend_from_slice(&amount.to_le_bytes());
            data.push(6);
            json!({"programIdIndex": 4, "accounts": [1, 0, 2, 0], "data": base58(data), "stackHeight": 3})
        };
        let own = |tag: u8| json!({"programIdIndex": 3, "accounts": [0], "data": base58([tag]), "stackHeight": 2});
        json!({
            "slot": 8,
            "transaction": {
                "signatures": ["sig"],
                "message": {
                    "accountKeys": [base58([1; 32]), base58([2; 32]), base58([3; 32])],
                    "instructions": [{"programIdIndex": 0, "accounts": [], "data": "", "stackHeight": null}],
                },
            },
            "meta": {
                "err": null,
                "innerInstructions": [{"index": 0, "instructions": [own(1), moved(5), own(2), moved(7)]}],
                "loadedAddresses": {"writable": [base58(OWN)], "readonly": [base58(ids::TOKEN_PROGRAM)]},
                "preTokenBalances": [{"accountIndex": 1, "uiTokenAmount": {"amount": "12"}}],
                "postTokenBalances": [{"accountIndex": 2, "uiTokenAmount": {"amount": "12"}}],
            },
        })
    }

    fn read(answer: Value) -> Result<Evidence, String> {
        serde_json::from_value::<RawEvidence>(answer).map_err(|error| error.to_string())?.read("sig", 77)
    }

    #[test]
    fn what_an_instruction_moved_is_what_it_called_itself() {
        let evidence = read(answer()).unwrap();
        let effects = evidence.effects(&OWN);
        let moved: Vec<u64> = effects.iter().map(|effect| effect.tokens_moved(|_, to| *to == [3; 32])).collect();
        assert_eq!(moved, [5, 7]);
        assert_eq!(effects[0].tokens_moved(|from, _| *from == [3; 32]), 0);
        assert!(!effects[0].closed(&[2; 32]));
        assert_eq!((evidence.slot, evidence.time, evidence.error.clone()), (8, 77, None));
        assert_eq!(evidence.token_balance(&[2; 32]), (12, 0));
        assert_eq!(evidence.token_balance(&[3; 32]), (0, 12));
        assert_eq!(evidence.token_balance(&[1; 32]), (0, 0));
        assert_eq!(evidence.ed25519(0), None);
    }

    #[test]
    fn what_does_not_fit_together_is_no_evidence() {
        type Spoil = fn(&mut Value);
        let spoilt: [(&str, Spoil); 9] = [
            ("signature", |answer| answer["transaction"]["signatures"] = json!(["other"])),
            ("outcome", |answer| answer["meta"] = Value::Null),
            ("calls", |answer| answer["meta"]["innerInstructions"] = Value::Null),
            ("balances", |answer| answer["meta"]["postTokenBalances"] = Value::Null),
            ("balance of no account", |answer| answer["meta"]["preTokenBalances"][0]["accountIndex"] = json!(9)),
            ("unnamed account", |answer| answer["meta"]["loadedAddresses"] = Value::Null),
            ("account", |answer| answer["transaction"]["message"]["accountKeys"][0] = json!("0x12")),
            // Base58 is decoded in the square of its length: these would take minutes.
            ("long account", |answer| {
                answer["transaction"]["message"]["accountKeys"][0] = json!("z".repeat(1_000_000))
            }),
            ("long data", |answer| {
                answer["transaction"]["message"]["instructions"][0]["data"] = json!("z".repeat(1_000_000));
            }),
        ];
        for (name, spoil) in spoilt {
            let mut answer = answer();
            spoil(&mut answer);
            assert!(read(answer).is_err(), "{name}");
        }
        let mut failed = answer();
        failed["meta"]["err"] = json!({"InstructionError": [0, {"Custom": 1}]});
        assert!(read(failed).unwrap().error.unwrap().contains("Custom"));
    }
}
