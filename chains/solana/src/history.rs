//! History: which transactions a cluster has seen, and what they did.

use serde::Deserialize;
use serde_json::{Value, json};

use events::event::{Inclusion, TransactionPrepared};
use gateway_program::Key;
use sagas::ports::Transient;

use super::{
    evidence::{Evidence, RawEvidence},
    node::{Commitment, Contextual, Node, instruction_data},
    program::text,
};

/// Signatures that nodes give in one answer.
const SIGNATURES_PAGE: usize = 1_000;
/// Pages of an account's history that are looked through where nothing tells the slot.
const PAGES_MAX_WITHOUT_SLOT: usize = 20;
/// Pages of an account's history that are looked through; then its block is read as a whole. A stranger may name any
/// account in transactions of his own, and so lengthen its history.
const PAGES_MAX: usize = 3;

/// The history of one chain.
#[derive(Debug, Clone, Copy)]
pub struct History<'a> {
    node: &'a Node,
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
    /// What its payer paid, lamports, where the node says.
    pub fee: Option<u64>,
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
    fee: Option<u64>,
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

impl<'a> History<'a> {
    /// The history of the chain of `node`.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// Where a signature was seen, history included; `None` when the node knows nothing of it.
    ///
    /// # Errors
    /// [`Transient`], also when the answer is older than `at_least`.
    pub async fn status(&self, signature: &str, at_least: u64) -> Result<Option<Status>, Transient> {
        let how = json!([[signature], {"searchTransactionHistory": true}]);
        let answer: Contextual<Vec<Option<RawStatus>>> = self.node.request("getSignatureStatuses", how).await?;
        if answer.context.slot < at_least {
            return Err(self
                .node
                .contradiction(format!("a status of slot {}, not of {at_least}", answer.context.slot)));
        }
        let [status] =
            <[_; 1]>::try_from(answer.value).map_err(|_| self.node.contradiction("not one status for one"))?;
        Ok(status.map(|status| Status { slot: status.slot, error: status.err }))
    }

    /// The newest of `versions` that had its effect in a slot up to `settled`; `None` while none did.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn landed_of<'v>(
        &self,
        versions: &'v [TransactionPrepared],
        settled: u64,
    ) -> Result<Option<(&'v str, u64)>, Transient> {
        for version in versions.iter().rev() {
            let hash = &version.transaction_hash;
            let status = self.status(hash, settled).await?;
            if let Some(status) = status.filter(|status| status.error.is_none() && status.slot <= settled) {
                return Ok(Some((hash, status.slot)));
            }
        }
        Ok(None)
    }

    /// The transaction of a signature in a block; `None` when the node has none.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn transaction(&self, signature: &str, commitment: Commitment) -> Result<Option<Landed>, Transient> {
        let how = json!({"encoding": "json", "commitment": commitment.text(), "maxSupportedTransactionVersion": 0});
        let found: Option<RawTransaction> = self.node.request("getTransaction", json!([signature, how])).await?;
        let Some(found) = found else { return Ok(None) };
        if found.transaction.signatures.first().map(String::as_str) != Some(signature) {
            return Err(self.node.contradiction(format!("asked for {signature}, got another transaction")));
        }
        let meta = found.meta.ok_or_else(|| self.node.contradiction(format!("{signature} without an outcome")))?;
        let mut keys = Vec::new();
        let loaded = meta.loaded_addresses.unwrap_or(RawLoaded { writable: Vec::new(), readonly: Vec::new() });
        let message = found.transaction.message;
        for name in message.account_keys.iter().chain(&loaded.writable).chain(&loaded.readonly) {
            keys.push(self.node.bytes32(name)?);
        }
        let top = message.instructions.iter().map(|raw| self.executed(raw, &keys)).collect::<Result<Vec<_>, _>>()?;
        let programs = top.iter().map(|executed| executed.program).collect();
        let mut instructions = top;
        for raw in meta.inner_instructions.iter().flatten().flat_map(|inner| &inner.instructions) {
            instructions.push(self.executed(raw, &keys)?);
        }
        let (units, fee) = (meta.compute_units_consumed, meta.fee);
        Ok(Some(Landed { slot: found.slot, error: meta.err, instructions, programs, units, fee }))
    }

    fn executed(&self, raw: &RawInstruction, keys: &[Key]) -> Result<Executed, Transient> {
        let named =
            |index: usize| keys.get(index).copied().ok_or_else(|| self.node.contradiction("an unnamed account"));
        let data = instruction_data(&raw.data);
        Ok(Executed {
            program: named(raw.program_id_index)?,
            accounts: raw.accounts.iter().map(|index| named(*index)).collect::<Result<_, _>>()?,
            data: data.ok_or_else(|| self.node.contradiction("an instruction whose data are none"))?,
        })
    }

    /// The transaction by which `program` changed `account` at `slot`, which `is` tells from others that only name it.
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
        let known = self.node.made_by(account).filter(|known| known.block_number == slot);
        if let Some(known) = known
            && self.is_made_by(&known.transaction_hash, slot, commitment, &is).await?
            && self.block(slot, commitment, "none").await?.blockhash == known.block_hash
        {
            return Ok(known);
        }
        let candidates = match self.history_at(account, slot, commitment).await? {
            Some(candidates) => candidates,
            None => self.signatures_in(slot, commitment).await?,
        };
        for signature in candidates {
            if self.is_made_by(&signature, slot, commitment, &is).await? {
                let found = self.inclusion(signature, slot, commitment).await?;
                if commitment == Commitment::Confirmed {
                    // It is looked for again once it is settled.
                    self.node.note_made_by(*account, Some(found.clone()));
                }
                return Ok(found);
            }
        }
        Err(self.node.contradiction(format!("no transaction of slot {slot} made {} what it is", text(account))))
    }

    /// The first `count` instructions on `account`, newest first and none before `since`, that `read` makes something of, with their
    /// transactions.
    ///
    /// # Errors
    /// [`Transient`], also when there are fewer, or they are buried under what strangers did.
    pub(super) async fn find_calls<T>(
        &self,
        account: &Key,
        since: u64,
        count: usize,
        read: impl Fn(&Executed) -> Option<T>,
    ) -> Result<Vec<(T, Inclusion)>, Transient> {
        let commitment = Commitment::Finalized;
        let mut found = Vec::new();
        let mut before: Option<String> = None;
        for _ in 0..PAGES_MAX_WITHOUT_SLOT {
            let page = self.page(account, since, commitment, before.as_deref()).await?;
            let is_last = page.len() < SIGNATURES_PAGE;
            before = page.last().map(|last| last.signature.clone());
            for RawSignature { signature, slot, err } in page {
                if err.is_some() || slot < since {
                    continue;
                }
                let Some(landed) = self.transaction(&signature, commitment).await? else { continue };
                if landed.slot != slot || landed.error.is_some() {
                    continue;
                }
                // The last of a transaction is the newest.
                for call in landed.instructions.iter().rev().filter_map(&read) {
                    found.push((call, self.inclusion(signature.clone(), slot, commitment).await?));
                }
                if found.len() >= count {
                    found.truncate(count);
                    return Ok(found);
                }
            }
            if is_last {
                break;
            }
        }
        let (found, name) = (found.len(), text(account));
        Err(self.node.contradiction(format!("{found} of {count} changes of {name} are in its history")))
    }

    /// Finalized transactions after slot `after` that name `account` and did not fail, oldest first, of a node that has seen slot
    /// `settled`: at most `count`, of which the newest half where there are more.
    ///
    /// # Errors
    /// [`Transient`].
    pub(super) async fn signatures_after(
        &self,
        account: &Key,
        after: u64,
        settled: u64,
        count: usize,
    ) -> Result<Vec<String>, Transient> {
        // A node that has not reached the slot refuses. Nothing else is asked of it so: there are some that leave out what is older.
        self.page(account, settled, Commitment::Finalized, None).await?;
        let mut found = Vec::new();
        let mut before: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let page = self.page(account, after.saturating_add(1), Commitment::Finalized, before.as_deref()).await?;
            let is_last = page.len() < SIGNATURES_PAGE || page.last().is_none_or(|oldest| oldest.slot <= after);
            before = page.last().map(|oldest| oldest.signature.clone());
            let counts = page.into_iter().filter(|entry| entry.slot > after && entry.err.is_none());
            found.extend(counts.map(|entry| entry.signature));
            if is_last {
                break;
            }
        }
        found.reverse();
        if found.len() > count {
            found.drain(count / 2..found.len() - count.div_ceil(2));
        }
        Ok(found)
    }

    /// A transaction whole, and the hash of its block; `None` when the node has none.
    ///
    /// # Errors
    /// [`Transient`].
    pub(super) async fn evidence(
        &self,
        signature: &str,
        commitment: Commitment,
    ) -> Result<Option<(Evidence, String)>, Transient> {
        let how = json!({"encoding": "json", "commitment": commitment.text(), "maxSupportedTransactionVersion": 0});
        let answer: Option<RawEvidence> = self.node.request("getTransaction", json!([signature, how])).await?;
        let Some(answer) = answer else { return Ok(None) };
        let (hash, time) = self.block_at(answer.slot, commitment).await?;
        let evidence = answer.read(signature, time).map_err(|what| self.node.contradiction(what))?;
        Ok(Some((evidence, hash)))
    }

    /// Whether the transaction of a signature is in `slot` and did what `is` describes.
    async fn is_made_by(
        &self,
        signature: &str,
        slot: u64,
        commitment: Commitment,
        is: impl Fn(&Executed) -> bool,
    ) -> Result<bool, Transient> {
        let Some(found) = self.transaction(signature, commitment).await? else { return Ok(false) };
        Ok(found.slot == slot && found.error.is_none() && found.instructions.iter().any(is))
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
            let page = self.page(account, slot, commitment, before.as_deref()).await?;
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

    /// Signatures of transactions that name `account`, newest first, those older than `before` where that is one; of a node that has
    /// seen `slot`.
    async fn page(
        &self,
        account: &Key,
        slot: u64,
        commitment: Commitment,
        before: Option<&str>,
    ) -> Result<Vec<RawSignature>, Transient> {
        let mut how = json!({"commitment": commitment.text(), "limit": SIGNATURES_PAGE, "minContextSlot": slot});
        if let Some(before) = before {
            how["before"] = json!(before);
        }
        self.node.request("getSignaturesForAddress", json!([text(account), how])).await.map_err(Into::into)
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
        let block: Option<RawBlock> = self.node.request("getBlock", json!([slot, how])).await?;
        block.ok_or_else(|| self.node.contradiction(format!("no block at slot {slot}")))
    }

    /// Hash and UNIX second of the block at `slot`.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn block_at(&self, slot: u64, commitment: Commitment) -> Result<(String, u64), Transient> {
        let hash = self.block(slot, commitment, "none").await?.blockhash;
        let time: Option<u64> = self.node.request("getBlockTime", json!([slot])).await?;
        Ok((hash, time.ok_or_else(|| self.node.contradiction(format!("no time of slot {slot}")))?))
    }

    /// `transaction_hash` in the block of `slot`.
    pub(super) async fn inclusion(
        &self,
        transaction_hash: String,
        slot: u64,
        commitment: Commitment,
    ) -> Result<Inclusion, Transient> {
        let (block_hash, block_time) = self.block_at(slot, commitment).await?;
        self.node.bytes32(&block_hash)?;
        Ok(Inclusion {
            chain_id: self.node.chain_id().clone(),
            transaction_hash,
            block_number: slot,
            block_hash,
            block_time,
        })
    }
}

/// Whether `executed` is `program`'s instruction `tag` on `account`, the one at `index` of its accounts.
pub(super) fn is_call(executed: &Executed, program: &Key, tag: u8, index: usize, account: &Key) -> bool {
    executed.program == *program && executed.data.first() == Some(&tag) && executed.accounts.get(index) == Some(account)
}
