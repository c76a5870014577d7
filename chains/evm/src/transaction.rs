//! EIP-1559 transactions: making, signing and reading them.

use alloy::{
    consensus::{SignableTransaction, Transaction, TxEip1559, TxEnvelope},
    eips::eip2718::{Decodable2718, Encodable2718},
    primitives::{Address, B256, Bytes, U256},
};

use escrow_abi::contracts::{self, word};
use events::{Account, Hash32, event::TransactionPrepared};
use sagas::ports::Transient;
use signer::{Hash, Secp256k1Key, SignError};

use super::{calls::Call, query::Fees};

/// Added to every estimate: state may change between the estimate and the block, and the escrow asks for spare gas.
const GAS_RESERVE: u64 = 40_000;
/// What a replacement raises fees by at least, in percent; nodes want 10.
const BUMP_PERCENT: u128 = 30;
/// Most that a replacement offers altogether, as a multiple of what a new transaction would.
const MAX_FEE_CEILING: u128 = 2;
/// Most that a replacement tips, as a multiple of what the node suggests.
const PRIORITY_CEILING: u128 = 10;

/// A signed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signed {
    pub hash: B256,
    pub raw: Bytes,
}

/// The gas limit for a call that was estimated at `gas`.
pub(crate) fn gas_limit(gas: u64) -> u64 {
    gas.saturating_add(gas / 4).saturating_add(GAS_RESERVE)
}

/// The transaction that makes `call` with `nonce`.
pub(crate) fn transaction(call: &Call, evm_id: u64, nonce: u64, gas_limit: u64, fees: Fees) -> TxEip1559 {
    TxEip1559 {
        chain_id: evm_id,
        nonce,
        gas_limit,
        max_fee_per_gas: fees.max,
        max_priority_fee_per_gas: fees.priority,
        to: call.to.into(),
        value: call.value,
        input: call.data.clone(),
        ..TxEip1559::default()
    }
}

/// The account of a key.
#[expect(clippy::expect_used, reason = "no private key has the zero address")]
pub(crate) fn account_of(signer: &Secp256k1Key) -> Account {
    contracts::account(signer.address()).expect("no private key has the zero address")
}

/// Signs `transaction`.
pub(crate) async fn sign(signer: &Secp256k1Key, transaction: &TxEip1559) -> Result<Signed, SignError> {
    let signature = signer.sign(Hash::Keccak256, &transaction.encoded_for_signing()).await?;
    let envelope = TxEnvelope::from(transaction.clone().into_signed(signature));
    Ok(Signed { hash: *envelope.tx_hash(), raw: envelope.encoded_2718().into() })
}

/// Whether `transaction` offers less than a block asks for now. Only then is a higher price of use: whatever else keeps it
/// waiting would only grow dearer.
pub(crate) fn is_outpriced(transaction: &TxEip1559, current: Fees) -> bool {
    // The base fee rises by an eighth a block at most.
    let asked = current.base.saturating_add(current.base / 8).saturating_add(current.priority);
    transaction.max_fee_per_gas < asked || transaction.max_priority_fee_per_gas < current.priority
}

/// `transaction` with fees that replace it at its nonce, and are no lower than `current`.
pub(crate) fn bumped(transaction: &TxEip1559, current: Fees) -> TxEip1559 {
    let raised = |fee: u128| fee.saturating_add(fee.saturating_mul(BUMP_PERCENT) / 100).saturating_add(1);
    let mut bumped = transaction.clone();
    bumped.max_fee_per_gas = raised(transaction.max_fee_per_gas).max(current.max);
    bumped.max_priority_fee_per_gas = raised(transaction.max_priority_fee_per_gas).max(current.priority);
    bumped
}

/// `transaction` as [`bumped`], or `None` when that would be far above what the chain asks for: fees that grew against
/// a node that is wrong, or that lies, have an end.
pub(crate) fn replacement(transaction: &TxEip1559, current: Fees) -> Option<TxEip1559> {
    let bumped = bumped(transaction, current);
    let within = bumped.max_fee_per_gas <= current.max.saturating_mul(MAX_FEE_CEILING)
        && bumped.max_priority_fee_per_gas <= current.priority.saturating_mul(PRIORITY_CEILING)
        && bumped.max_priority_fee_per_gas <= bumped.max_fee_per_gas;
    within.then_some(bumped)
}

/// What was signed, without its signature; `None` when the bytes are not an EIP-1559 transaction.
pub(crate) fn unsigned(raw: &str) -> Option<TxEip1559> {
    Some(eip1559(raw)?.strip_signature())
}

/// As [`unsigned`], of what `sender` itself signed.
pub(crate) fn signed_by(raw: &str, sender: Address) -> Option<TxEip1559> {
    let signed = eip1559(raw)?;
    let signer = signed.signature().recover_address_from_prehash(&signed.signature_hash());
    signer.is_ok_and(|signer| signer == sender).then(|| signed.strip_signature())
}

fn eip1559(raw: &str) -> Option<alloy::consensus::Signed<TxEip1559>> {
    match TxEnvelope::decode_2718(&mut raw_bytes(raw)?.as_ref()).ok()? {
        TxEnvelope::Eip1559(signed) => Some(signed),
        _ => None,
    }
}

/// The call that a signed transaction makes, by `from`; `None` when the bytes are not a transaction.
pub(crate) fn call_of(raw: &str, from: Address) -> Option<Call> {
    let envelope = TxEnvelope::decode_2718(&mut raw_bytes(raw)?.as_ref()).ok()?;
    Some(Call { from, to: envelope.to(), value: envelope.value(), data: envelope.input().clone() })
}

/// A call that sends no coins.
pub(crate) fn plain(from: Address, to: Address, data: Vec<u8>) -> Call {
    Call { from, to: Some(to), value: U256::ZERO, data: data.into() }
}

/// The bytes of hex with 0x.
pub(crate) fn raw_bytes(text: &str) -> Option<Bytes> {
    hex::decode(text.strip_prefix("0x")?).ok().map(Bytes::from)
}

/// The hash of a journaled transaction.
pub(crate) fn hash_of(transaction: &TransactionPrepared) -> Result<B256, Transient> {
    let hash: Hash32 = transaction
        .transaction_hash
        .parse()
        .map_err(|_| Transient::misconfigured("the transaction hash is not a hash"))?;
    Ok(word(hash))
}

#[cfg(test)]
mod tests {
    use alloy::signers::local::PrivateKeySigner;

    use super::*;

    /// A copy of the journal can name any bytes as a submitter's transaction.
    #[tokio::test]
    async fn bytes_that_somebody_else_signed_are_not_the_senders() {
        let own = Secp256k1Key::from(PrivateKeySigner::random());
        let thief = Secp256k1Key::from(PrivateKeySigner::random());
        let drain =
            TxEip1559 { chain_id: 1, nonce: 7, value: U256::MAX, to: thief.address().into(), ..Default::default() };
        let forged = sign(&thief, &drain).await.unwrap().raw.to_string();
        assert_eq!(signed_by(&forged, own.address()), None);
        assert_eq!(signed_by(&forged, thief.address()), Some(drain));
        assert_eq!(signed_by("0x02", own.address()), None);
    }
}
