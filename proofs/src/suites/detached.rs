//! A signature over a text, beside it and without a proof's options: what the deprecated carriers of credentials have.

use sha3::{Digest, Keccak256};

use super::{
    Error,
    verify::{verify_bytes, verify_recoverable},
};
use crate::key::Key;

/// Longest signature as text: 65 bytes in hex with 0x.
const SIGNATURE_CHARS_MAX: usize = 132;

/// Checks a signature over `text` in the way that is usual for the kind of key: Ed25519 over its bytes, secp256k1 and
/// P-256 over their SHA-256 (r and s in 64 bytes), an address as `personal_sign` does (EIP-191; r, s, v in 65 bytes).
///
/// The signature is hex with 0x, or base58btc multibase, `z…`.
///
/// # Errors
/// [`Error::Signature`] when it is no such text or does not verify, [`Error::HighS`].
pub fn verify_text(key: &Key, text: &str, signature: &str) -> Result<(), Error> {
    let bytes = decode(signature).ok_or(Error::Signature)?;
    match key {
        Key::Ed25519(_) | Key::Secp256k1(_) | Key::P256(_) => verify_bytes(key, text.as_bytes(), &bytes),
        Key::Address(_) => {
            let mut hasher = Keccak256::new();
            hasher.update(format!("\x19Ethereum Signed Message:\n{}", text.len()));
            hasher.update(text);
            verify_recoverable(key, &hasher.finalize().into(), &bytes)
        }
    }
}

fn decode(signature: &str) -> Option<Vec<u8>> {
    if signature.len() > SIGNATURE_CHARS_MAX {
        return None;
    }
    match signature.strip_prefix("0x") {
        Some(digits) => hex::decode(digits).ok(),
        None => bs58::decode(signature.strip_prefix('z')?).into_vec().ok(),
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signer, SigningKey};
    use k256::ecdsa::SigningKey as Secp256k1;

    use super::*;

    #[test]
    fn each_kind_of_key_signs_in_its_own_way() {
        let ed25519 = SigningKey::from_bytes(&[7; 32]);
        let key = Key::Ed25519(ed25519.verifying_key());
        let signature = ed25519.sign(b"text").to_bytes();
        for good in [format!("0x{}", hex::encode(signature)), format!("z{}", bs58::encode(signature).into_string())] {
            assert_eq!(verify_text(&key, "text", &good), Ok(()));
            assert_eq!(verify_text(&key, "texts", &good), Err(Error::Signature));
            assert_eq!(verify_text(&key, "text", &good[1..]), Err(Error::Signature));
        }
        let secp256k1 = Secp256k1::from_bytes(&[7; 32].into()).unwrap();
        let signature: k256::ecdsa::Signature = secp256k1.sign(b"text");
        let signature = format!("0x{}", hex::encode(signature.to_bytes()));
        assert_eq!(verify_text(&Key::Secp256k1(*secp256k1.verifying_key()), "text", &signature), Ok(()));
        for bad in ["", "0x", "z", "0x00", "text", &"z".repeat(133)] {
            assert_eq!(verify_text(&key, "text", bad), Err(Error::Signature), "{bad}");
        }
    }

    /// The vector of web3.js's documentation of `eth.accounts.sign`.
    #[test]
    fn accounts_sign_as_wallets_do() {
        let address: [u8; 20] = hex::decode("2c7536e3605d9c16a7a3d7b1898e529396a65c23").unwrap().try_into().unwrap();
        let signature = "0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd6007e74cd82e037b800186422fc2\
                         da167c747ef045e5d18a5f5d4300f8e1a0291c";
        assert_eq!(verify_text(&Key::Address(address), "Some data", signature), Ok(()));
        assert_eq!(verify_text(&Key::Address(address), "Some dato", signature), Err(Error::Signature));
    }
}
