//! Signatures of EVM accounts: their forms, and whose they are.

use alloy::{
    primitives::{Address, B256, Bytes, Signature, b256},
    sol_types::SolValue,
};
use secp256k1::{
    Message, SECP256K1,
    ecdsa::{RecoverableSignature, RecoveryId},
};

/// Largest signature a contract account may be asked to judge (ERC-1271), in bytes, with what ERC-6492 wraps around it.
pub const BYTES_MAX: usize = 8192;
/// The last 32 bytes of a signature wrapped by ERC-6492.
const ERC6492_SUFFIX: B256 = b256!("6492649264926492649264926492649264926492649264926492649264926492");

/// Why a text is not a usable signature of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// Not hex with 0x, empty, or above [`BYTES_MAX`].
    #[error("must be hex with 0x, 1 to {BYTES_MAX} bytes")]
    NotHex,
    /// Neither 65 bytes nor the 64 of EIP-2098.
    #[error("a key's signature has 65 bytes, or 64 by EIP-2098, not {0}")]
    Length(usize),
    /// `v` is none of 0, 1, 27, 28.
    #[error("v must be 0, 1, 27 or 28, not {0}")]
    RecoveryId(u8),
    /// `s` is in the upper half of the curve's order (EIP-2).
    #[error("s is in the upper half of the curve's order")]
    HighS,
    /// The numbers are not a point of the curve.
    #[error("r and s recover no key")]
    Unrecoverable,
    /// Wrapped for an account that is not deployed yet, so that the chain alone can judge it.
    #[error("a signature wrapped by ERC-6492 can only be judged by the chain")]
    Erc6492,
    /// The wrapper of ERC-6492 around something else than a factory, its call and a signature.
    #[error("what ERC-6492 wraps must be a factory's address, its call and a signature, ABI-encoded")]
    BadWrapper,
}

/// Why a signature is not that of an account's own key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is not a usable signature of any key.
    #[error(transparent)]
    Unusable(#[from] SignatureError),
    /// Somebody else signed.
    #[error("is not that of {expected} but of {recovered}")]
    Signer {
        /// The account.
        expected: Address,
        /// Whose key signed.
        recovered: Address,
    },
}

/// The bytes of a signature given as hex with 0x.
///
/// # Errors
/// [`SignatureError::NotHex`].
pub fn bytes(text: &str) -> Result<Vec<u8>, SignatureError> {
    let digits = text.strip_prefix("0x").ok_or(SignatureError::NotHex)?;
    if digits.is_empty() || digits.len() > 2 * BYTES_MAX {
        return Err(SignatureError::NotHex);
    }
    hex::decode(digits).map_err(|_| SignatureError::NotHex)
}

/// A key's signature: 65 bytes with `v` ∈ {0, 1, 27, 28}, or 64 bytes by EIP-2098; `s` in the lower half.
///
/// # Errors
/// The rule of [`SignatureError`] that the bytes break.
pub fn parse(bytes: &[u8]) -> Result<Signature, SignatureError> {
    let signature = match bytes.len() {
        64 => Signature::from_erc2098(bytes),
        65 => {
            let odd = match bytes[64] {
                0 | 27 => false,
                1 | 28 => true,
                other => return Err(SignatureError::RecoveryId(other)),
            };
            Signature::from_bytes_and_parity(&bytes[..64], odd)
        }
        other => return Err(SignatureError::Length(other)),
    };
    if signature.normalize_s().is_some() { Err(SignatureError::HighS) } else { Ok(signature) }
}

/// The account whose key signed `digest`.
///
/// By libsecp256k1, as Ethereum's clients do: under load this is the largest single cost of a submission, and there it
/// takes a quarter of the time (ADR 75).
///
/// # Errors
/// [`SignatureError::Unrecoverable`].
pub fn recover(signature: &Signature, digest: B256) -> Result<Address, SignatureError> {
    let id = if signature.v() { RecoveryId::One } else { RecoveryId::Zero };
    let mut numbers = [0; 64];
    numbers[..32].copy_from_slice(&signature.r().to_be_bytes::<32>());
    numbers[32..].copy_from_slice(&signature.s().to_be_bytes::<32>());
    let key = RecoverableSignature::from_compact(&numbers, id)
        .and_then(|signature| SECP256K1.recover_ecdsa(Message::from_digest(digest.0), &signature))
        .map_err(|_| SignatureError::Unrecoverable)?;
    // The first byte says that the point is not compressed.
    Ok(Address::from_raw_public_key(&key.serialize_uncompressed()[1..]))
}

/// The signature of `digest` by the key of `account`.
///
/// # Errors
/// [`KeyError`].
pub fn by_key(bytes: &[u8], digest: B256, account: Address) -> Result<Signature, KeyError> {
    let parsed = parse(bytes)?;
    let recovered = recover(&parsed, digest)?;
    if recovered == account { Ok(parsed) } else { Err(KeyError::Signer { expected: account, recovered }) }
}

/// Whether the bytes carry the wrapper of ERC-6492.
pub fn is_erc6492(bytes: &[u8]) -> bool {
    bytes.ends_with(ERC6492_SUFFIX.as_slice())
}

/// What ERC-6492 wraps: a contract account's signature, with what deploys the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrapped {
    /// What deploys the account.
    pub factory: Address,
    /// What it is called with.
    pub factory_call: Bytes,
    /// The signature as the account takes it (ERC-1271).
    pub signature: Bytes,
}

/// Reads the wrapper of ERC-6492.
///
/// # Errors
/// [`SignatureError::BadWrapper`], also when there is none.
pub fn unwrap_erc6492(bytes: &[u8]) -> Result<Wrapped, SignatureError> {
    let encoded = bytes.strip_suffix(ERC6492_SUFFIX.as_slice()).ok_or(SignatureError::BadWrapper)?;
    let (factory, factory_call, signature) =
        <(Address, Bytes, Bytes)>::abi_decode_params_validate(encoded).map_err(|_| SignatureError::BadWrapper)?;
    // A wrapper in a wrapper would be judged by an account that understands neither.
    if is_erc6492(&signature) {
        return Err(SignatureError::BadWrapper);
    }
    Ok(Wrapped { factory, factory_call, signature })
}

impl Wrapped {
    /// The bytes of the wrapper.
    pub fn encode(&self) -> Vec<u8> {
        let parts = (self.factory, self.factory_call.clone(), self.signature.clone());
        [parts.abi_encode_params(), ERC6492_SUFFIX.to_vec()].concat()
    }
}

/// The form in which Permit2 and OpenZeppelin's `ECDSA` take the signature: 65 bytes with `v` 27 or 28.
pub fn canonical(signature: &Signature) -> Bytes {
    signature.as_bytes().to_vec().into()
}

/// Whether OpenZeppelin's `ECDSA.recover` would name `signer`: 65 bytes, `v` 27 or 28, low `s`.
pub fn is_of_key(signer: Address, digest: B256, bytes: &[u8]) -> bool {
    bytes.len() == 65
        && matches!(bytes[64], 27 | 28)
        && parse(bytes).and_then(|signature| recover(&signature, digest)) == Ok(signer)
}

#[cfg(test)]
mod tests {
    use alloy::{
        primitives::U256,
        signers::{SignerSync, local::PrivateKeySigner},
    };

    use proptest::prelude::*;

    use super::*;

    /// Of the curve.
    const ORDER: &str = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";

    #[test]
    fn both_lengths_and_all_recovery_ids_recover_the_signer() {
        for seed in 1..=16u8 {
            let signer = PrivateKeySigner::from_bytes(&B256::repeat_byte(seed)).unwrap();
            let digest = B256::repeat_byte(seed.wrapping_mul(7));
            let signature = signer.sign_hash_sync(&digest).unwrap();
            let long = signature.as_bytes();
            let mut low_v = long;
            low_v[64] -= 27;
            for bytes in [&long[..], &low_v[..], &signature.as_erc2098()[..]] {
                let parsed = parse(bytes).unwrap();
                assert_eq!(recover(&parsed, digest), Ok(signer.address()));
                assert_eq!(by_key(bytes, digest, signer.address()), Ok(parsed));
                let (expected, recovered) = (Address::repeat_byte(seed), signer.address());
                assert_eq!(by_key(bytes, digest, expected), Err(KeyError::Signer { expected, recovered }));
                assert_eq!(canonical(&parsed).as_ref(), &long[..]);
            }
            assert!(is_of_key(signer.address(), digest, &long));
            assert!(!is_of_key(signer.address(), digest, &low_v), "the escrow takes v 27 and 28 only");
        }
    }

    proptest! {
        /// The two libraries agree on every signature, also on those that nobody made.
        #[test]
        fn another_library_recovers_the_same(
            r: [u8; 32], s: [u8; 32], odd: bool, digest: [u8; 32], key in 1..=254u8, real: bool, edge in 0..4u8,
        ) {
            let digest = B256::from(digest);
            let order = U256::from_be_bytes(hex_literal(ORDER));
            let signature = if real {
                PrivateKeySigner::from_bytes(&B256::repeat_byte(key)).unwrap().sign_hash_sync(&digest).unwrap()
            } else {
                let r = [U256::from_be_bytes(r), U256::ZERO, order, U256::from(1)][usize::from(edge)];
                Signature::new(r, U256::from_be_bytes(s), odd)
            };
            // What `parse` lets through.
            prop_assume!(signature.normalize_s().is_none());
            let other = signature.recover_address_from_prehash(&digest).map_err(|_| SignatureError::Unrecoverable);
            prop_assert_eq!(recover(&signature, digest), other);
        }
    }

    #[test]
    fn malleable_and_malformed_signatures_are_refused() {
        let signer = PrivateKeySigner::from_bytes(&B256::repeat_byte(3)).unwrap();
        let signature = signer.sign_hash_sync(&B256::repeat_byte(9)).unwrap();
        let order = U256::from_be_bytes(hex_literal(ORDER));
        let twin = Signature::new(signature.r(), order - signature.s(), !signature.v());
        assert_eq!(parse(&twin.as_bytes()), Err(SignatureError::HighS));
        let mut bytes = signature.as_bytes();
        bytes[64] = 29;
        assert_eq!(parse(&bytes), Err(SignatureError::RecoveryId(29)));
        assert_eq!(parse(&bytes[..63]), Err(SignatureError::Length(63)));
        let unusable = Err(KeyError::Unusable(SignatureError::RecoveryId(29)));
        assert_eq!(by_key(&bytes, B256::repeat_byte(9), signer.address()), unusable);
        for bad in ["", "0x", "1234", "0x1", "0xzz"] {
            assert_eq!(super::bytes(bad), Err(SignatureError::NotHex), "{bad}");
        }
    }

    fn hex_literal(text: &str) -> [u8; 32] {
        hex::decode(text).unwrap().try_into().unwrap()
    }
}
