//! Digests that an account signs for other ends than a payment, judged by the account's own code: deployed (ERC-1271), or
//! as its factory would deploy it (ERC-6492). Nothing is sent to the chain.

use alloy::primitives::B256;

use escrow_abi::{
    contracts::address,
    signature::{is_erc6492, unwrap_erc6492},
};
use events::{Account, Hash32};
use sagas::ports::Transient;

use super::{calls::Calls, erc6492, node::At, payers::Payers, query::Query};

/// Whether the code of `account` takes `signature` for its own over `digest`. An account without code, and a signature that
/// names no factory, is not asked: its key alone signs.
///
/// A node runs code of the caller's choice for it, under the bounds of gas that a payer's signature has.
///
/// # Errors
/// [`Transient`].
pub async fn code_accepts(
    payers: &Payers,
    account: &Account,
    digest: &Hash32,
    signature: &[u8],
) -> Result<bool, Transient> {
    let (account, digest, node) = (address(account)?, B256::from(digest.0), payers.node());
    if !is_erc6492(signature) {
        if payers.code_lately(account).await?.is_none() {
            return Ok(false);
        }
        let head = At::Block(node.head().await?);
        return Calls::of(node).contract_accepts(account, digest, signature, head).await;
    }
    let Ok(wrapped) = unwrap_erc6492(signature) else { return Ok(false) };
    let head = At::Block(node.head().await?);
    let is_deployed = !Query::of(node).code(account, head).await?.is_empty();
    if is_deployed && Calls::of(node).contract_accepts(account, digest, &wrapped.signature, head).await? {
        return Ok(true);
    }
    erc6492::accepts(node, account, digest, &wrapped, head).await
}
