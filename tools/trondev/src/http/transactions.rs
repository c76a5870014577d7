//! API methods about transactions.

use serde_json::{Value, json};

use super::{
    Shared, lock,
    read::{self, ReadError},
    request::{ApiError, Request},
    shape,
};
use crate::{
    Refusal,
    chain::{Chain, ChainView},
    proto::{Raw, TransferContract},
    signature::recover,
    transaction::{TRANSFER, Transaction},
};

/// How long a transaction that this node builds can be taken.
const EXPIRATION_MS: i64 = 60_000;

/// The reference block and the times of a transaction built now. The block is solidified, so that no fork takes it away.
pub(super) fn header(chain: &Chain, fee_limit: i64, memo: Vec<u8>) -> Raw {
    let (number, hash) = chain.newest(ChainView::Solidified).id.reference();
    Raw {
        ref_block_bytes: number.to_vec(),
        ref_block_hash: hash.to_vec(),
        expiration: chain.head().time().saturating_add(EXPIRATION_MS),
        timestamp: chain.now(),
        data: memo,
        fee_limit,
        ..Default::default()
    }
}

/// A transaction that is yet to be signed.
pub(super) fn unsigned(transaction: &Transaction, visible: bool) -> shape::Object {
    shape::transaction(transaction, visible).put("visible", visible)
}

pub(super) fn permission(request: &Request) -> Result<i32, ApiError> {
    let permission = request.number("Permission_id")?.unwrap_or_default();
    i32::try_from(permission).map_err(|_| ApiError::field("Permission_id", "a number of 32 bits is needed"))
}

/// `createtransaction`: TRX from one account to another.
pub(super) fn transfer(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let message = TransferContract {
        owner_address: request.required_address("owner_address")?.to_bytes().to_vec(),
        to_address: request.required_address("to_address")?.to_bytes().to_vec(),
        amount: request.number("amount")?.unwrap_or_default(),
    };
    let memo = match request.text("extra_data") {
        Some(text) if request.visible => text.as_bytes().to_vec(),
        _ => request.bytes("extra_data")?.unwrap_or_default(),
    };
    let chain = lock(chain);
    let transaction = read::unsigned(TRANSFER, &message, permission(request)?, header(&chain, 0, memo))?;
    // Bandwidth is looked at when it is sent.
    match chain.try_out(&transaction) {
        Ok(()) | Err(Refusal::Bandwidth) => Ok(unsigned(&transaction, request.visible).value()),
        Err(refusal) => Err(refusal.into()),
    }
}

/// `broadcasttransaction`: in JSON.
pub(super) fn broadcast(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let transaction = match read::transaction(request.fields(), request.visible) {
        Ok(transaction) => transaction,
        Err(ReadError::Refused(refusal)) => return Ok(refused(&refusal, request.visible).value()),
        Err(ReadError::Field(error)) => return Err(error),
    };
    let id = transaction.id.to_string();
    Ok(match lock(chain).broadcast(transaction) {
        Ok(_) => json!({ "result": true, "txid": id }),
        Err(refusal) => refused(&refusal, request.visible).put("txid", id).value(),
    })
}

fn refused(refusal: &Refusal, visible: bool) -> shape::Object {
    let message = shape::words(&refusal.to_string(), visible);
    shape::Object::default().put("code", refusal.code()).put("message", message)
}

/// `broadcasthex`: the encoded message in hex.
pub(super) fn broadcast_hex(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let bytes = request.bytes("transaction")?.ok_or_else(|| ApiError::field("transaction", "is needed"))?;
    let transaction = match Transaction::decode(&bytes) {
        Ok(transaction) => transaction,
        Err(refusal) => return Ok(refused(&refusal, request.visible).put("result", false).value()),
    };
    let shown = unsigned(&transaction, request.visible).value();
    let id = transaction.id;
    Ok(match lock(chain).broadcast(transaction) {
        Ok(id) => json!({
            "result": true,
            "code": "SUCCESS",
            "txid": id.to_string(),
            "message": "",
            "transaction": shown.to_string(),
        }),
        Err(refusal) => refused(&refusal, request.visible)
            .put("result", false)
            .put("txid", id.to_string())
            .put("transaction", shown.to_string())
            .value(),
    })
}

pub(super) fn by_id(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let Some(id) = request.transaction_id()? else { return Ok(json!({})) };
    let chain = lock(chain);
    let found = chain.included(request.view, id);
    Ok(found.map_or_else(|| json!({}), |(_, included)| shape::included(included, request.visible)))
}

pub(super) fn info_by_id(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let Some(id) = request.transaction_id()? else { return Ok(json!({})) };
    let chain = lock(chain);
    let found = chain.included(request.view, id);
    Ok(found.map_or_else(|| json!({}), |(block, included)| shape::info(block, included, request.visible)))
}

pub(super) fn info_by_block(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let number = request.number("num")?.unwrap_or_default();
    let block = u64::try_from(number).ok().and_then(|number| lock(chain).by_number(request.view, number).cloned());
    let Some(block) = block else { return Ok(json!([])) };
    Ok(block.transactions.iter().map(|included| shape::info(&block, included, request.visible)).collect())
}

/// `gettransactionfrompending`: one that waits for a block.
pub(super) fn pending(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let Some(id) = request.transaction_id()? else { return Ok(json!({})) };
    let chain = lock(chain);
    let found = chain.pending().iter().find(|transaction| transaction.id == id);
    Ok(found.map_or_else(|| json!({}), |transaction| shape::transaction(transaction, request.visible).value()))
}

pub(super) fn pending_list(chain: &Shared, _request: &Request) -> Result<Value, ApiError> {
    let ids: Vec<String> = lock(chain).pending().iter().map(|transaction| transaction.id.to_string()).collect();
    Ok(json!({ "txId": ids }))
}

pub(super) fn pending_size(chain: &Shared, _request: &Request) -> Result<Value, ApiError> {
    Ok(json!({ "pendingSize": lock(chain).pending().len() }))
}

/// `getsignweight`: whether the signatures so far suffice.
pub(super) fn sign_weight(_chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let transaction = read::transaction(request.fields(), request.visible)?;
    let owner = shape::address(transaction.owner, request.visible);
    let signers = signers(&transaction)?;
    let approved = signers.contains(&transaction.owner);
    let weight = i64::from(approved);
    let code = if approved { json!({}) } else { json!({ "code": "NOT_ENOUGH_PERMISSION" }) };
    Ok(shape::Object::default()
        .put("result", code)
        .put("approved_list", signers.iter().map(|one| shape::address(*one, request.visible)).collect::<Vec<_>>())
        .put(
            "permission",
            json!({ "permission_name": "owner", "threshold": 1, "keys": [{ "address": owner, "weight": 1 }] }),
        )
        .number("current_weight", weight)
        .put("transaction", envelope(&transaction, request.visible))
        .value())
}

/// `getapprovedlist`: who signed.
pub(super) fn approved(_chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let transaction = read::transaction(request.fields(), request.visible)?;
    let signers: Vec<String> = signers(&transaction)?.iter().map(|one| shape::address(*one, request.visible)).collect();
    Ok(json!({ "result": {}, "approved_list": signers, "transaction": envelope(&transaction, request.visible) }))
}

fn signers(transaction: &Transaction) -> Result<Vec<crate::Address>, ApiError> {
    let recovered = transaction.signatures.iter().map(|signature| recover(&transaction.id.0, signature));
    Ok(recovered.collect::<Result<_, _>>()?)
}

fn envelope(transaction: &Transaction, visible: bool) -> Value {
    json!({
        "result": { "result": true },
        "txid": transaction.id.to_string(),
        "transaction": shape::transaction(transaction, visible).value(),
    })
}
