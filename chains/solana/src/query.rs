//! What else a node is asked: history, blockhashes, fees, and to send.

use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::{Value, json};

use events::event::Inclusion;
use gateway_program::{Hash, Key};
use sagas::ports::Transient;

use super::{
    node::{Commitment, Contextual, Node, Settled},
    program::text,
    rpc::Fault,
};

/// Blocks for which a blockhash counts.
const BLOCKHASH_AGE_MAX: u64 = 150;
/// Blocks by which a node's newest block may be above what is settled; what is said beyond is not believed.
const UNSETTLED_BLOCKS_MAX: u64 = 512;
/// Signatures that nodes give in one answer.
const SIGNATURES_PAGE: usize = 1_000;
/// Pages of an account's history that are looked through; then its block is read as a whole. A stranger may name any
/// account in transactions of his own, and so lengthen its history.
const PAGES_MAX: usize = 3;
/// A blockhash to sign with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blockhash {
    /// The hash.
    pub hash: Hash,
    /// Last block height at which a transaction with it may land.
    pub last_valid_height: u64,
}

/// Where a signature was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// The slot.
    pub slot: u64,
    /// Why the transaction failed; `None` when it did not.
    pub error: Option<Value>,
}

/// An instruction that was carried out, at the top or called by another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// The program.
    pub program: Key,
    /// Its accounts.
    pub accounts: Vec<Key>,
    /// Its data.
    pub data: Vec<u8>,
}

/// A transaction in a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Landed {
    /// The slot.
    pub slot: u64,
    /// Why it failed; `None` when it did not.
    pub error: Option<Value>,
    /// What it did.
    pub instructions: Vec<Executed>,
    /// Programs of the instructions at the top, in order.
    pub programs: Vec<Key>,
    /// Compute units used, where the node says.
    pub units: Option<u64>,
}

/// What came of trying a transaction out.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// Why it would fail; `None` when it would not.
    pub error: Option<Value>,
    /// Compute units it takes.
    pub units: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBlockhash {
    blockhash: String,
    last_valid_block_height: u64,
}

#[derive(Deserialize)]
struct RawStatus {
    slot: u64,
    err: Option<Value>,
}

#[derive(Deserialize)]
struct RawSignature {
    signature: String,
    slot: u64,
    err: Option<Value>,
}

#[derive(Deserialize)]
struct RawTransaction {
    slot: u64,
    transaction: RawBody,
    meta: Option<RawMeta>,
}

#[derive(Deserialize)]
struct RawBody {
    signatures: Vec<String>,
    message: RawMessage,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMessage {
    account_keys: Vec<String>,
    instructions: Vec<RawInstruction>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawInstruction {
    program_id_index: usize,
    accounts: Vec<usize>,
    data: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMeta {
    err: Option<Value>,
    inner_instructions: Option<Vec<RawInner>>,
    loaded_addresses: Option<RawLoaded>,
    compute_units_consumed: Option<u64>,
}

#[derive(Deserialize)]
struct RawInner {
    instructions: Vec<RawInstruction>,
}

#[derive(Deserialize)]
struct RawLoaded {
    writable: Vec<String>,
    readonly: Vec<String>,
}

#[derive(Deserialize)]
struct RawBlock {
    blockhash: String,
    #[serde(default)]
    signatures: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSimulated {
    err: Option<Value>,
    units_consumed: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawFee {
    prioritization_fee: u64,
}

impl Node {
    /// A confirmed blockhash.
    ///
    /// # Errors
    /// [`Transient`], also when the height up to which it is said to count fits nothing that is settled.
    pub async fn blockhash(&self, settled: Settled) -> Result<Blockhash, Transient> {
        let how = json!([{"commitment": Commitment::Confirmed.text(), "minContextSlot": settled.slot}]);
        let answer: Contextual<RawBlockhash> = self.request("getLatestBlockhash", how).await?;
        let RawBlockhash { blockhash, last_valid_block_height: last_valid_height } = answer.value;
        let most = settled.height.saturating_add(BLOCKHASH_AGE_MAX + UNSETTLED_BLOCKS_MAX);
        if answer.context.slot < settled.slot || last_valid_height <= settled.height || last_valid_height > most {
            let what = format!("a blockhash up to height {last_valid_height}, with {} settled", settled.height);
            return Err(self.contradiction(what));
        }
        Ok(Blockhash { hash: self.bytes(&blockhash)?, last_valid_height })
    }

    /// Where a signature was seen, history included; `None` when the node knows nothing of it.
    ///
    /// # Errors
    /// [`Transient`], also when the answer is older than `at_least`.
    pub async fn status(&self, signature: &str, at_least: u64) -> Result<Option<Status>, Transient> {
        let how = json!([[signature], {"searchTransactionHistory": true}]);
        let answer: Contextual<Vec<Option<RawStatus>>> = self.request("getSignatureStatuses", how).await?;
        if answer.context.slot < at_least {
            return Err(self.contradiction(format!("a status of slot {}, not of {at_least}", answer.context.slot)));
        }
        let [status] = <[_; 1]>::try_from(answer.value).map_err(|_| self.contradiction("not one status for one"))?;
        Ok(status.map(|status| Status { slot: status.slot, error: status.err }))
    }

    /// The transaction of a signature in a block; `None` when the node has none.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn transaction(&self, signature: &str, commitment: Commitment) -> Result<Option<Landed>, Transient> {
        let how = json!({"encoding": "json", "commitment": commitment.text(), "maxSupportedTransactionVersion": 0});
        let found: Option<RawTransaction> = self.request("getTransaction", json!([signature, how])).await?;
        let Some(found) = found else { return Ok(None) };
        if found.transaction.signatures.first().map(String::as_str) != Some(signature) {
            return Err(self.contradiction(format!("asked for {signature}, got another transaction")));
        }
        let meta = found.meta.ok_or_else(|| self.contradiction(format!("{signature} without an outcome")))?;
        let mut keys = Vec::new();
        let loaded = meta.loaded_addresses.unwrap_or(RawLoaded { writable: Vec::new(), readonly: Vec::new() });
        let message = found.transaction.message;
        for name in message.account_keys.iter().chain(&loaded.writable).chain(&loaded.readonly) {
            keys.push(self.bytes(name)?);
        }
        let top = message.instructions.iter().map(|raw| self.executed(raw, &keys)).collect::<Result<Vec<_>, _>>()?;
        let programs = top.iter().map(|executed| executed.program).collect();
        let mut instructions = top;
        for raw in meta.inner_instructions.iter().flatten().flat_map(|inner| &inner.instructions) {
            instructions.push(self.executed(raw, &keys)?);
        }
        let units = meta.compute_units_consumed;
        Ok(Some(Landed { slot: found.slot, error: meta.err, instructions, programs, units }))
    }

    fn executed(&self, raw: &RawInstruction, keys: &[Key]) -> Result<Executed, Transient> {
        let named = |index: usize| keys.get(index).copied().ok_or_else(|| self.contradiction("an unnamed account"));
        let data = bs58::decode(&raw.data).into_vec();
        Ok(Executed {
            program: named(raw.program_id_index)?,
            accounts: raw.accounts.iter().map(|index| named(*index)).collect::<Result<_, _>>()?,
            data: data.map_err(|error| self.contradiction(format!("an instruction: {error}")))?,
        })
    }

    /// The transaction by which `program` changed `account` at `slot`, told by `is` from others that only name it.
    ///
    /// # Errors
    /// [`Transient`], also when the node has no history of it.
    pub(super) async fn transaction_at(
        &self,
        account: &Key,
        slot: u64,
        commitment: Commitment,
        is: impl Fn(&Executed) -> bool,
    ) -> Result<Inclusion, Transient> {
        let candidates = match self.history_at(account, slot, commitment).await? {
            Some(candidates) => candidates,
            None => self.signatures_in(slot, commitment).await?,
        };
        for signature in candidates {
            let Some(found) = self.transaction(&signature, commitment).await? else { continue };
            if found.slot == slot && found.error.is_none() && found.instructions.iter().any(&is) {
                return self.inclusion(signature, slot, commitment).await;
            }
        }
        Err(self.contradiction(format!("no transaction of slot {slot} made {} what it is", text(account))))
    }

    /// Signatures of transactions at `slot` that name `account` and did not fail; `None` when its history is too long.
    async fn history_at(
        &self,
        account: &Key,
        slot: u64,
        commitment: Commitment,
    ) -> Result<Option<Vec<String>>, Transient> {
        let mut found = Vec::new();
        let mut before: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let mut how = json!({"commitment": commitment.text(), "limit": SIGNATURES_PAGE, "minContextSlot": slot});
            if let Some(before) = &before {
                how["before"] = json!(before);
            }
            let page: Vec<RawSignature> = self.request("getSignaturesForAddress", json!([text(account), how])).await?;
            let last = page.last().map(|last| (last.signature.clone(), last.slot));
            let full = page.len() >= SIGNATURES_PAGE;
            let fits = page.into_iter().filter(|entry| entry.slot == slot && entry.err.is_none());
            found.extend(fits.map(|entry| entry.signature));
            match last {
                Some((signature, oldest)) if full && oldest >= slot => before = Some(signature),
                _ => return Ok(Some(found)),
            }
        }
        Ok(None)
    }

    async fn signatures_in(&self, slot: u64, commitment: Commitment) -> Result<Vec<String>, Transient> {
        Ok(self.block(slot, commitment, "signatures").await?.signatures)
    }

    async fn block(&self, slot: u64, commitment: Commitment, details: &str) -> Result<RawBlock, Transient> {
        let how = json!({
            "commitment": commitment.text(),
            "transactionDetails": details,
            "rewards": false,
            "maxSupportedTransactionVersion": 0,
        });
        let block: Option<RawBlock> = self.request("getBlock", json!([slot, how])).await?;
        block.ok_or_else(|| self.contradiction(format!("no block at slot {slot}")))
    }

    async fn inclusion(
        &self,
        transaction_hash: String,
        slot: u64,
        commitment: Commitment,
    ) -> Result<Inclusion, Transient> {
        let block_hash = self.block(slot, commitment, "none").await?.blockhash;
        self.bytes(&block_hash)?;
        let time: Option<u64> = self.request("getBlockTime", json!([slot])).await?;
        let block_time = time.ok_or_else(|| self.contradiction(format!("no time of slot {slot}")))?;
        Ok(Inclusion {
            chain_id: self.chain_id().clone(),
            transaction_hash,
            block_number: slot,
            block_hash,
            block_time,
        })
    }

    /// Tries a transaction out at the newest confirmed state. Its signatures and its blockhash are not looked at.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn simulate(&self, wire: &[u8]) -> Result<Simulated, Transient> {
        let how = json!({
            "encoding": "base64",
            "sigVerify": false,
            "replaceRecentBlockhash": true,
            "commitment": Commitment::Confirmed.text(),
        });
        let answer: Contextual<RawSimulated> =
            self.request("simulateTransaction", json!([BASE64.encode(wire), how])).await?;
        Ok(Simulated { error: answer.value.err, units: answer.value.units_consumed.unwrap_or(0) })
    }

    /// Sends a transaction's bytes. That the node knows it already is not a fault.
    ///
    /// # Errors
    /// [`Transient`]; it may be on its way all the same.
    pub async fn send(&self, wire: &[u8]) -> Result<(), Transient> {
        // Without preflight: it was tried out before it was signed, and a node that lags would refuse what is right.
        let how = json!({"encoding": "base64", "skipPreflight": true, "maxRetries": 0});
        match self.request::<String>("sendTransaction", json!([BASE64.encode(wire), how])).await {
            Ok(_) | Err(Fault::Known(_)) => Ok(()),
            Err(fault) => Err(fault.into()),
        }
    }

    /// What transactions that wrote to `accounts` paid in the last slots for each compute unit besides the base fee, in
    /// millionths of a lamport.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn recent_fees(&self, accounts: &[Key]) -> Result<Vec<u64>, Transient> {
        let names: Vec<String> = accounts.iter().map(text).collect();
        let fees: Vec<RawFee> = self.request("getRecentPrioritizationFees", json!([names])).await?;
        Ok(fees.into_iter().map(|fee| fee.prioritization_fee).collect())
    }

    fn bytes(&self, base58: &str) -> Result<[u8; 32], Transient> {
        let bytes = bs58::decode(base58).into_vec().ok().and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| self.contradiction(format!("{base58:?} where 32 bytes were expected")))
    }
}

/// Whether `executed` is `program`'s instruction `tag` on `account`, which stands at `index` of its accounts.
pub(super) fn is_call(executed: &Executed, program: &Key, tag: u8, index: usize, account: &Key) -> bool {
    executed.program == *program && executed.data.first() == Some(&tag) && executed.accounts.get(index) == Some(account)
}
