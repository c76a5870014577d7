//! Transactions: their bytes, their id, and whose signature they carry.
//!
//! The id is SHA-256 over the encoded `raw_data`, and the signature is over the id. What is read is therefore taken only
//! when it encodes to the very same bytes again: nothing was signed that was not read.

use alloy::{
    primitives::{Address, B256},
    signers::{SignerSync, local::PrivateKeySigner},
};
use prost::Message;
use sha2::{Digest, Sha256};

use escrow_abi::signature;
use signer::{Hash, Secp256k1Key, SignError};

use super::{
    address,
    node::Block,
    proto::{self, Any, Contract, Raw, TRIGGER_SMART_CONTRACT, TriggerSmartContract},
};

/// Longest transaction, in bytes: what the network takes.
pub const BYTES_MAX: usize = 500 * 1024;
/// Bytes of a signature: r, s and v.
pub const SIGNATURE_BYTES: usize = 65;
const TYPE_URL: &str = "type.googleapis.com/protocol.TriggerSmartContract";

/// A call of a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Who calls, signs and pays.
    pub owner: Address,
    /// What is called.
    pub contract: Address,
    /// Selector and arguments.
    pub data: Vec<u8>,
    /// TRX that go along, in sun.
    pub value_sun: u64,
}

/// The block that a transaction names: it is valid only on a chain that has it among its last 65536.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The last two bytes of the block's number.
    pub number: [u8; 2],
    /// Bytes 8 to 16 of the block's id.
    pub hash: [u8; 8],
}

impl Reference {
    /// The reference to `block`. A solidified one is not taken away by a fork, and the transaction with it.
    pub fn of(block: &Block) -> Self {
        let (mut number, mut hash) = ([0; 2], [0; 8]);
        number.copy_from_slice(&block.number.to_be_bytes()[6..]);
        hash.copy_from_slice(&block.id[8..16]);
        Self { number, hash }
    }
}

/// What is signed. Amounts and times above 2^63 - 1, which the protocol does not have, are written as that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The call.
    pub call: Call,
    /// Sun that energy may cost at most.
    pub fee_limit_sun: u64,
    /// The block that is named.
    pub reference: Reference,
    /// When it was made, UNIX milliseconds; only the client says so.
    pub timestamp_ms: u64,
    /// UNIX milliseconds. No block whose parent's time has reached it holds the transaction.
    pub expiration_ms: u64,
}

impl Draft {
    /// The encoded `raw_data`.
    pub fn raw_data(&self) -> Vec<u8> {
        let message = TriggerSmartContract {
            owner_address: address::bytes(self.call.owner).to_vec(),
            contract_address: address::bytes(self.call.contract).to_vec(),
            call_value: signed(self.call.value_sun),
            data: self.call.data.clone(),
            ..Default::default()
        };
        let parameter = Any { type_url: TYPE_URL.to_owned(), value: message.encode_to_vec() };
        let contract = Contract { r#type: TRIGGER_SMART_CONTRACT, parameter: Some(parameter), ..Default::default() };
        let raw = Raw {
            ref_block_bytes: self.reference.number.to_vec(),
            ref_block_hash: self.reference.hash.to_vec(),
            expiration: signed(self.expiration_ms),
            contract: vec![contract],
            timestamp: signed(self.timestamp_ms),
            fee_limit: signed(self.fee_limit_sun),
            ..Default::default()
        };
        raw.encode_to_vec()
    }

    /// Signs it with a key in memory; `key` should be the owner's, or the network refuses it.
    pub fn sign(&self, key: &PrivateKeySigner) -> Signed {
        let raw_data = self.raw_data();
        let signature = signature_of(id(&raw_data), key);
        self.signed(&raw_data, &signature)
    }

    /// As [`Draft::sign`], with a key that may be elsewhere.
    ///
    /// # Errors
    /// [`SignError`].
    pub(super) async fn sign_by(&self, key: &Secp256k1Key) -> Result<Signed, SignError> {
        let raw_data = self.raw_data();
        let signature = key.sign(Hash::Sha256, &raw_data).await?;
        Ok(self.signed(&raw_data, &signature.as_bytes()))
    }

    fn signed(&self, raw_data: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> Signed {
        Signed { id: id(raw_data), bytes: assemble(raw_data, signature), expiration_ms: self.expiration_ms }
    }
}

/// A signed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// Its id.
    pub id: B256,
    /// The whole encoded `Transaction`.
    pub bytes: Vec<u8>,
    /// UNIX milliseconds; see [`Draft::expiration_ms`].
    pub expiration_ms: u64,
}

/// A transaction that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Its id.
    pub id: B256,
    /// All that it says. Its `raw_data` are the bytes that were read.
    pub draft: Draft,
}

/// Why bytes are not a transaction of the form that is taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// More than the network takes.
    #[error("a transaction has at most {BYTES_MAX} bytes")]
    TooLong,
    /// Not a protobuf message of this type.
    #[error("{0} is not a protobuf message of its type")]
    Protobuf(&'static str),
    /// Members that are not known here, or another encoding than the one that has one form.
    #[error("{0} has members that are not taken, or is not encoded in the canonical way")]
    NotCanonical(&'static str),
    /// Not exactly one contract.
    #[error("raw_data must have exactly one contract, not {0}")]
    Contracts(usize),
    /// Something else than the call of a contract.
    #[error("the contract must be a TriggerSmartContract")]
    NotTrigger,
    /// A member that must not be there.
    #[error("{0} must be absent")]
    Unwanted(&'static str),
    /// A member with a value that it cannot have.
    #[error("{0} cannot be meant")]
    Value(&'static str),
    /// Not exactly one signature.
    #[error("there must be exactly one signature, not {0}")]
    Signatures(usize),
}

/// The id of a transaction: SHA-256 over its `raw_data`.
pub fn id(raw_data: &[u8]) -> B256 {
    B256::from_slice(&Sha256::digest(raw_data))
}

/// The whole encoded `Transaction`.
pub fn assemble(raw_data: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> Vec<u8> {
    proto::Transaction { raw_data: raw_data.to_vec(), signature: vec![signature.to_vec()] }.encode_to_vec()
}

/// Reads `raw_data` that has exactly one `TriggerSmartContract`, signed by the owner's permission, without TRC-10 tokens
/// and without a memo.
///
/// # Errors
/// [`DecodeError`].
pub fn read(raw_data: &[u8]) -> Result<Decoded, DecodeError> {
    let raw: Raw = canonical("raw_data", raw_data)?;
    let [contract] = raw.contract.as_slice() else { return Err(DecodeError::Contracts(raw.contract.len())) };
    let parameter = contract.parameter.as_ref().ok_or(DecodeError::NotTrigger)?;
    if contract.r#type != TRIGGER_SMART_CONTRACT || parameter.type_url != TYPE_URL {
        return Err(DecodeError::NotTrigger);
    }
    let call: TriggerSmartContract = canonical("the contract", &parameter.value)?;
    for (name, is_there) in [
        ("Permission_id", contract.permission_id != 0),
        ("a memo", !raw.data.is_empty()),
        ("call_token_value", call.call_token_value != 0),
        ("token_id", call.token_id != 0),
    ] {
        if is_there {
            return Err(DecodeError::Unwanted(name));
        }
    }
    let who = |name, bytes: &[u8]| address::from_bytes(bytes).ok_or(DecodeError::Value(name));
    let number = |name, value: i64| u64::try_from(value).map_err(|_| DecodeError::Value(name));
    let draft = Draft {
        call: Call {
            owner: who("owner_address", &call.owner_address)?,
            contract: who("contract_address", &call.contract_address)?,
            value_sun: number("call_value", call.call_value)?,
            data: call.data,
        },
        fee_limit_sun: number("fee_limit", raw.fee_limit)?,
        reference: Reference {
            number: exactly(&raw.ref_block_bytes).ok_or(DecodeError::Value("ref_block_bytes"))?,
            hash: exactly(&raw.ref_block_hash).ok_or(DecodeError::Value("ref_block_hash"))?,
        },
        timestamp_ms: number("timestamp", raw.timestamp)?,
        expiration_ms: number("expiration", raw.expiration)?,
    };
    Ok(Decoded { id: id(raw_data), draft })
}

/// Reads a whole `Transaction` with one signature, which is not judged: see [`signer`].
///
/// # Errors
/// [`DecodeError`].
pub fn read_signed(bytes: &[u8]) -> Result<(Decoded, Vec<u8>), DecodeError> {
    let transaction: proto::Transaction = canonical("the transaction", bytes)?;
    let decoded = read(&transaction.raw_data)?;
    let count = transaction.signature.len();
    match <[Vec<u8>; 1]>::try_from(transaction.signature) {
        Ok([signature]) => Ok((decoded, signature)),
        Err(_) => Err(DecodeError::Signatures(count)),
    }
}

/// Whose key signed the id: 65 bytes with v ∈ {0, 1, 27, 28} and s in the lower half of the curve's order, so that there
/// is one signature only; `None` for everything else.
pub fn signer(id: B256, signature: &[u8]) -> Option<Address> {
    if signature.len() != SIGNATURE_BYTES {
        return None;
    }
    signature::recover(&signature::parse(signature).ok()?, id).ok()
}

/// The signature of `id` as wallets write it: r, s and 27 or 28.
#[expect(clippy::expect_used, reason = "a key in memory signs every digest")]
pub(super) fn signature_of(id: B256, key: &PrivateKeySigner) -> [u8; SIGNATURE_BYTES] {
    // The nonce is derived from key and message (RFC 6979). It fails for none that anybody could find.
    key.sign_hash_sync(&id).expect("a key in memory signs every digest").as_bytes()
}

fn canonical<M: Message + Default>(name: &'static str, bytes: &[u8]) -> Result<M, DecodeError> {
    if bytes.len() > BYTES_MAX {
        return Err(DecodeError::TooLong);
    }
    let message = M::decode(bytes).map_err(|_| DecodeError::Protobuf(name))?;
    if message.encode_to_vec() == bytes { Ok(message) } else { Err(DecodeError::NotCanonical(name)) }
}

fn exactly<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

/// A number as the protocol's `int64`.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{U256, b256, uint};
    use proptest::{collection::vec, prelude::*};
    use serde_json::Value;

    use super::*;

    /// Order of secp256k1.
    const ORDER: U256 = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);

    fn draft() -> Draft {
        Draft {
            call: Call {
                owner: Address::repeat_byte(1),
                contract: Address::repeat_byte(2),
                data: vec![3; 68],
                value_sun: 4,
            },
            fee_limit_sun: 5,
            reference: Reference { number: [6; 2], hash: [7; 8] },
            timestamp_ms: 1_700_000_000_000,
            expiration_ms: 1_700_000_060_000,
        }
    }

    fn message() -> Raw {
        Raw::decode(draft().raw_data().as_slice()).unwrap()
    }

    fn call() -> TriggerSmartContract {
        let parameter = message().contract.remove(0).parameter.unwrap();
        TriggerSmartContract::decode(parameter.value.as_slice()).unwrap()
    }

    fn with(change: impl FnOnce(&mut Raw)) -> Result<Decoded, DecodeError> {
        let mut raw = message();
        change(&mut raw);
        read(&raw.encode_to_vec())
    }

    fn with_call(change: impl FnOnce(&mut TriggerSmartContract)) -> Result<Decoded, DecodeError> {
        let mut call = call();
        change(&mut call);
        with(|raw| raw.contract[0].parameter.as_mut().unwrap().value = call.encode_to_vec())
    }

    prop_compose! {
        fn any_draft()(
            owner in any::<[u8; 20]>(),
            contract in any::<[u8; 20]>(),
            data in vec(any::<u8>(), 0..300),
            numbers in any::<[u64; 4]>(),
            zeros in any::<u8>(),
            number in any::<[u8; 2]>(),
            hash in any::<[u8; 8]>(),
        ) -> Draft {
            // Zero is left out of the encoding, so it is a case of its own.
            let numbers: Vec<u64> = numbers.iter().enumerate()
                .map(|(at, number)| if (zeros >> at) & 1 == 0 { 0 } else { number >> 1 >> ((zeros >> 3) & 0x1f) })
                .collect();
            Draft {
                call: Call { owner: owner.into(), contract: contract.into(), data, value_sun: numbers[0] },
                fee_limit_sun: numbers[1],
                reference: Reference { number, hash },
                timestamp_ms: numbers[2],
                expiration_ms: numbers[3],
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(draft in any_draft(), key in 1u8..255) {
            let raw_data = draft.raw_data();
            let decoded = read(&raw_data).unwrap();
            prop_assert_eq!(&decoded.draft, &draft);
            prop_assert_eq!(decoded.id, id(&raw_data));
            let key = PrivateKeySigner::from_bytes(&B256::repeat_byte(key)).unwrap();
            let signed = draft.sign(&key);
            let (again, signature) = read_signed(&signed.bytes).unwrap();
            prop_assert_eq!(&again, &decoded);
            prop_assert_eq!(signer(signed.id, &signature), Some(key.address()));
            prop_assert_eq!(assemble(&raw_data, &signature.try_into().unwrap()), signed.bytes);
        }

        #[test]
        fn no_other_bytes_say_the_same(draft in any_draft(), at in any::<prop::sample::Index>(), flip in 1u8..) {
            let mut raw_data = draft.raw_data();
            let at = at.index(raw_data.len());
            raw_data[at] ^= flip;
            if let Ok(other) = read(&raw_data) {
                prop_assert_ne!(&other.draft, &draft);
                prop_assert_eq!(other.draft.raw_data(), raw_data);
            }
        }

        #[test]
        fn what_is_cut_off_or_continued_says_something_else(
            draft in any_draft(), length in any::<prop::sample::Index>(), more in vec(any::<u8>(), 1..20),
        ) {
            let raw_data = draft.raw_data();
            let cut = &raw_data[..length.index(raw_data.len())];
            prop_assert!(read(cut).is_ok_and(|other| other.draft != draft) || read(cut).is_err());
            let longer = [raw_data, more].concat();
            prop_assert!(read(&longer).is_ok_and(|other| other.draft != draft) || read(&longer).is_err());
        }

        #[test]
        fn unknown_members_are_refused(draft in any_draft(), member in 19u32..5000, value in any::<u8>()) {
            // A member of bytes with one byte in it.
            let mut tag = Vec::new();
            prost::encoding::encode_key(member, prost::encoding::WireType::LengthDelimited, &mut tag);
            tag.extend([1, value]);
            prop_assert_eq!(
                read(&[draft.raw_data(), tag.clone()].concat()),
                Err(DecodeError::NotCanonical("raw_data"))
            );
            let mut raw = Raw::decode(draft.raw_data().as_slice()).unwrap();
            raw.contract[0].parameter.as_mut().unwrap().value.extend(tag);
            prop_assert_eq!(read(&raw.encode_to_vec()), Err(DecodeError::NotCanonical("the contract")));
        }

        #[test]
        fn nothing_makes_the_reader_fail(bytes in vec(any::<u8>(), 0..400)) {
            let _ = read(&bytes);
            let _ = read_signed(&bytes);
            prop_assert!(signer(B256::ZERO, &bytes).is_none() || bytes.len() == SIGNATURE_BYTES);
        }
    }

    /// Made by tronweb; see the development node's README.
    #[test]
    fn what_wallets_make_is_read() {
        let text = include_str!("../../../tools/trondev/tests/tronweb/vectors.json");
        let vectors: Vec<Value> = serde_json::from_str(text).unwrap();
        let mut calls = 0;
        for vector in vectors {
            let bytes = |name: &str| hex::decode(vector[name].as_str().unwrap()).unwrap();
            let raw_data = bytes("raw_data_hex");
            assert_eq!(hex::encode(id(&raw_data)), vector["id"].as_str().unwrap());
            let owner = address::parse_address(vector["base58"].as_str().unwrap()).unwrap();
            assert_eq!(signer(id(&raw_data), &bytes("signature")), Some(owner));
            assert_eq!(assemble(&raw_data, &bytes("signature").try_into().unwrap()), bytes("message"));
            if vector["kind"] != "trigger" {
                assert!(read(&raw_data).is_err());
                continue;
            }
            let (decoded, signature) = read_signed(&bytes("message")).unwrap();
            assert_eq!((decoded.draft.call.owner, decoded.draft.raw_data()), (owner, raw_data));
            assert_eq!(signature, bytes("signature"));
            let key = PrivateKeySigner::from_slice(&bytes("key")).unwrap();
            assert_eq!(decoded.draft.sign(&key).bytes, bytes("message"));
            calls += 1;
        }
        assert_eq!(calls, 3);
    }

    #[test]
    fn everything_but_one_call_is_refused() {
        let contract = || message().contract.remove(0);
        assert_eq!(with(|_| {}).map(|read| read.draft), Ok(draft()));
        assert_eq!(with(|raw| raw.contract.clear()), Err(DecodeError::Contracts(0)));
        assert_eq!(with(|raw| raw.contract.push(contract())), Err(DecodeError::Contracts(2)));
        assert_eq!(with(|raw| raw.contract[0].r#type = 1), Err(DecodeError::NotTrigger));
        assert_eq!(with(|raw| raw.contract[0].parameter = None), Err(DecodeError::NotTrigger));
        let other = "type.googleapis.com/protocol.TransferContract";
        let renamed = with(|raw| raw.contract[0].parameter.as_mut().unwrap().type_url = other.to_owned());
        assert_eq!(renamed, Err(DecodeError::NotTrigger));
        assert_eq!(with(|raw| raw.contract[0].permission_id = 2), Err(DecodeError::Unwanted("Permission_id")));
        assert_eq!(with(|raw| raw.data = vec![1]), Err(DecodeError::Unwanted("a memo")));
        assert_eq!(with_call(|call| call.call_token_value = 1), Err(DecodeError::Unwanted("call_token_value")));
        assert_eq!(with_call(|call| call.token_id = -1), Err(DecodeError::Unwanted("token_id")));
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        let refused = |name| Err(DecodeError::Value(name));
        assert_eq!(with_call(|call| call.owner_address[0] = 0xa0), refused("owner_address"));
        assert_eq!(with_call(|call| call.contract_address.clear()), refused("contract_address"));
        assert_eq!(with_call(|call| call.call_value = -1), refused("call_value"));
        assert_eq!(with(|raw| raw.fee_limit = i64::MIN), refused("fee_limit"));
        assert_eq!(with(|raw| raw.expiration = -1), refused("expiration"));
        assert_eq!(with(|raw| raw.timestamp = -1), refused("timestamp"));
        assert_eq!(with(|raw| raw.ref_block_bytes.push(0)), refused("ref_block_bytes"));
        assert_eq!(with(|raw| raw.ref_block_hash.clear()), refused("ref_block_hash"));
        assert_eq!(with_call(|call| call.data = vec![0; BYTES_MAX]), Err(DecodeError::TooLong));
    }

    #[test]
    fn a_transaction_has_one_signature() {
        let signed = |signatures: &[&[u8]]| {
            let signature = signatures.iter().map(|one| one.to_vec()).collect();
            proto::Transaction { raw_data: draft().raw_data(), signature }.encode_to_vec()
        };
        assert_eq!(read_signed(&signed(&[])), Err(DecodeError::Signatures(0)));
        assert_eq!(read_signed(&signed(&[&[1; 65], &[1; 65]])), Err(DecodeError::Signatures(2)));
        assert_eq!(read_signed(&signed(&[&[1; 9]])).map(|(_, signature)| signature), Ok(vec![1; 9]));
        let results = [signed(&[&[1; 65]]), vec![0x2a, 0]].concat();
        assert_eq!(read_signed(&results), Err(DecodeError::NotCanonical("the transaction")));
    }

    #[test]
    fn only_one_form_of_a_signature_counts() {
        let key = PrivateKeySigner::from_bytes(&B256::repeat_byte(9)).unwrap();
        let id = b256!("1111111111111111111111111111111111111111111111111111111111111111");
        let signature = signature_of(id, &key);
        let with_v = |v: u8| [&signature[..64], &[v]].concat();
        let v = signature[64];
        assert!(matches!(v, 27 | 28));
        for same in [v, v - 27] {
            assert_eq!(signer(id, &with_v(same)), Some(key.address()));
        }
        for other in [55 - v, 1 - (v - 27)] {
            assert_ne!(signer(id, &with_v(other)), Some(key.address()));
        }
        for none in [2, 26, 29, 255] {
            assert_eq!(signer(id, &with_v(none)), None);
        }
        // The same signature with s in the upper half, which the network takes.
        let s = ORDER - U256::from_be_slice(&signature[32..64]);
        let upper = [&signature[..32], &s.to_be_bytes::<32>(), &[55 - v]].concat();
        assert_eq!(signer(id, &upper), None);
        assert_eq!(signer(id, &signature[..64]), None);
        assert_eq!(signer(id, &[signature.as_slice(), &[0]].concat()), None);
        assert_eq!(signer(id, &[0; 65]), None);
    }
}
