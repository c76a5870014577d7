//! API methods about blocks.

use serde_json::{Value, json};

use super::{
    Shared, lock,
    request::{ApiError, Request},
    shape,
};

/// How many blocks one answer has.
const BLOCKS_MAX: i64 = 100;

pub(super) fn newest(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let block = lock(chain).newest(request.view).clone();
    Ok(shape::block(&block, true, request.visible))
}

/// `getblock`: by number or id, the newest where neither is given; the transactions only with `detail`.
pub(super) fn one(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let detail = request.flag("detail");
    let chain = lock(chain);
    let named = match request.number("id_or_num") {
        Ok(None) => Some(chain.newest(request.view)),
        Ok(Some(number)) => {
            let number = u64::try_from(number).map_err(|_| ApiError::field("id_or_num", "must be >= 0"))?;
            chain.by_number(request.view, number)
        }
        Err(_) => {
            let id = request.bytes("id_or_num")?.and_then(|bytes| bytes.try_into().ok());
            let id = id.ok_or_else(|| ApiError::field("id_or_num", "a number or 32 bytes in hex are needed"))?;
            chain.by_id(request.view, &id)
        }
    };
    let block = named.cloned();
    drop(chain);
    Ok(block.map_or_else(|| json!({}), |block| shape::block(&block, detail, request.visible)))
}

pub(super) fn by_number(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let number = request.number("num")?.unwrap_or_default();
    let block = u64::try_from(number).ok().and_then(|number| lock(chain).by_number(request.view, number).cloned());
    Ok(block.map_or_else(|| json!({}), |block| shape::block(&block, true, request.visible)))
}

pub(super) fn by_id(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let block = request.hash()?.and_then(|id| lock(chain).by_id(request.view, &id).cloned());
    Ok(block.map_or_else(|| json!({}), |block| shape::block(&block, true, request.visible)))
}

/// `getblockbylimitnext`: from `startNum` to before `endNum`.
pub(super) fn range(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let start = request.number("startNum")?.unwrap_or_default();
    let end = request.number("endNum")?.unwrap_or_default();
    if start < 0 || end <= start || end - start > BLOCKS_MAX {
        return Ok(json!({}));
    }
    blocks(chain, request, start.unsigned_abs()..end.unsigned_abs())
}

/// `getblockbylatestnum`: the newest `num`.
pub(super) fn latest(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let count = request.number("num")?.unwrap_or_default();
    if !(1..BLOCKS_MAX).contains(&count) {
        return Ok(json!({}));
    }
    let end = lock(chain).newest(request.view).number() + 1;
    blocks(chain, request, end.saturating_sub(count.unsigned_abs())..end)
}

fn blocks(chain: &Shared, request: &Request, numbers: std::ops::Range<u64>) -> Result<Value, ApiError> {
    let chain = lock(chain);
    let found: Vec<_> = numbers.filter_map(|number| chain.by_number(request.view, number).cloned()).collect();
    drop(chain);
    if found.is_empty() {
        return Ok(json!({}));
    }
    let shown: Vec<Value> = found.iter().map(|block| shape::block(block, true, request.visible)).collect();
    Ok(json!({ "block": shown }))
}
