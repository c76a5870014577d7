//! Transactions as JSON-RPC writes them.

use serde_json::{Value, json};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_message::compiled_instruction::CompiledInstruction;
use solana_transaction::TransactionError;

use super::{
    SimCluster,
    block::{Block, Landed},
    rpc::base58,
    tokens::{self, Held},
};

/// Calls of the instructions at the top have this depth.
const TOP: u32 = 1;

/// An error as nodes write it.
pub(super) fn written(error: &TransactionError) -> Value {
    serde_json::to_value(error).unwrap_or_else(|_| json!(error.to_string()))
}

/// Why a transaction failed; null when it did not.
pub(super) fn error(landed: &Landed) -> Value {
    landed.execution.error.as_ref().map_or(Value::Null, written)
}

/// How a transaction ended, as older clients read it.
pub(super) fn result(landed: &Landed) -> Value {
    match &landed.execution.error {
        None => json!({"Ok": null}),
        Some(error) => json!({"Err": written(error)}),
    }
}

impl SimCluster {
    /// A transaction in a block, in the encoding `json`.
    pub(super) fn transaction_answer(&self, block: &Block, landed: &Landed, how: &Value) -> Value {
        let signed = &landed.signed;
        let message = &signed.transaction.message;
        let header = message.header();
        let instructions = message.instructions().iter().map(|call| instruction(call, TOP));
        let mut answer = json!({
            "slot": block.slot,
            "blockTime": block.time,
            "transaction": {
                "signatures": signed.transaction.signatures.iter().map(|one| base58(one.as_ref())).collect::<Vec<_>>(),
                "message": {
                    "accountKeys": signed.keys().iter().map(|key| base58(&key.to_bytes())).collect::<Vec<_>>(),
                    "header": {
                        "numRequiredSignatures": header.num_required_signatures,
                        "numReadonlySignedAccounts": header.num_readonly_signed_accounts,
                        "numReadonlyUnsignedAccounts": header.num_readonly_unsigned_accounts,
                    },
                    "instructions": instructions.collect::<Vec<_>>(),
                    "recentBlockhash": base58(&signed.blockhash()),
                },
            },
            "meta": self.outcome(landed),
        });
        if !how["maxSupportedTransactionVersion"].is_null() {
            answer["version"] = json!("legacy");
        }
        answer
    }

    fn outcome(&self, landed: &Landed) -> Value {
        let execution = &landed.execution;
        let inner = execution.inner.iter().enumerate().filter(|(_, calls)| !calls.is_empty()).map(|(index, calls)| {
            let calls = calls.iter().map(|call| instruction(&call.instruction, call.stack_height.into()));
            json!({"index": index, "instructions": calls.collect::<Vec<_>>()})
        });
        let lamports = |account: &Option<AccountSharedData>| account.as_ref().map_or(0, ReadableAccount::lamports);
        let (before, after): (Vec<_>, Vec<_>) = landed.accounts.iter().cloned().unzip();
        json!({
            "err": error(landed),
            "status": result(landed),
            "fee": execution.fee,
            "preBalances": before.iter().map(lamports).collect::<Vec<_>>(),
            "postBalances": after.iter().map(lamports).collect::<Vec<_>>(),
            "innerInstructions": inner.collect::<Vec<_>>(),
            "logMessages": execution.logs,
            "preTokenBalances": self.token_balances_of(&before),
            "postTokenBalances": self.token_balances_of(&after),
            "rewards": [],
            "loadedAddresses": {"writable": [], "readonly": []},
            "computeUnitsConsumed": execution.units,
        })
    }

    fn token_balances_of(&self, accounts: &[Option<AccountSharedData>]) -> Value {
        let held = |account: &Option<AccountSharedData>| account.as_ref().and_then(tokens::held);
        let held = accounts.iter().enumerate().filter_map(|(index, account)| Some((index, held(account)?)));
        let balances = held.filter_map(|(index, Held { mint, owner, amount, program })| {
            let mint_account = self.runtime.account(&self.head_block().state, &mint)?;
            let decimals = tokens::decimals(mint_account)?;
            let places = usize::from(decimals);
            #[expect(clippy::cast_precision_loss, reason = "nodes write it so, for people")]
            let shown = amount as f64 / 10_f64.powi(i32::from(decimals));
            Some(json!({
                "accountIndex": index,
                "mint": base58(&mint),
                "owner": base58(&owner),
                "programId": base58(&program),
                "uiTokenAmount": {
                    "amount": amount.to_string(),
                    "decimals": decimals,
                    "uiAmount": (amount > 0).then_some(shown),
                    "uiAmountString": decimal(amount, places),
                },
            }))
        });
        balances.collect()
    }
}

fn instruction(call: &CompiledInstruction, depth: u32) -> Value {
    json!({
        "programIdIndex": call.program_id_index,
        "accounts": call.accounts,
        "data": base58(&call.data),
        "stackHeight": depth,
    })
}

/// An amount of the smallest unit with its decimal point, without zeros at the end.
fn decimal(amount: u64, places: usize) -> String {
    if places == 0 {
        return amount.to_string();
    }
    let digits = format!("{amount:0>width$}", width = places + 1);
    let (whole, part) = digits.split_at(digits.len() - places);
    let text = format!("{whole}.{part}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
