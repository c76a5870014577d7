//! Detached signatures over a text, without a proof's options, as the deprecated carriers of credentials have them.

use sha3::{Digest, Keccak256};

use super::{
    Error,
    verify::{verify_bytes, verify_recoverable},
};
use crate::key::Key;

/// Longest signature as text: 96 bytes, of P-384, in hex with 0x.
const SIGNATURE_CHARS_MAX: usize = 194;

/// What wallets put before a text, and its length in bytes, when they sign it: EIP-191, and TIP-191 for
/// `signMessageV2` of TronWeb.
const EVM_PREFIX: &str = "\x19Ethereum Signed Message:\n";
const TRON_PREFIX: &str = "\x19TRON Signed Message:\n";

/// Checks a signature over `text` in the way that is usual for the kind of key: Ed25519 over its bytes, secp256k1 and
/// P-256 over their SHA-256 (r and s in 64 bytes), P-384 over their SHA-384 (r and s in 96 bytes), an address as its
/// wallets do (r, s, v in 65 bytes): `personal_sign` on EVM, `signMessageV2` on Tron.
///
/// Of an address of Tron `personal_sign` counts too. Wallets of both families that hold the key sign so, signatures of that
/// form are in journals, and it gives nothing away: the key is the same, and what is signed here names its own purpose.
///
/// The signature is hex with 0x, or base58btc multibase, `z…`.
///
/// # Errors
/// [`Error::Signature`] when it is not such a text or does not verify, [`Error::HighS`].
pub fn verify_text(key: &Key, text: &str, signature: &str) -> Result<(), Error> {
    let bytes = decode(signature).ok_or(Error::Signature)?;
    let by_wallet = |prefix| verify_recoverable(key, &wallet_digest(prefix, text), &bytes);
    match key {
        Key::Ed25519(_) | Key::Secp256k1(_) | Key::P256(_) | Key::P384(_) => verify_bytes(key, text.as_bytes(), &bytes),
        Key::Address(_) => by_wallet(EVM_PREFIX),
        Key::TronAddress(_) => by_wallet(TRON_PREFIX).or_else(|_| by_wallet(EVM_PREFIX)),
    }
}

fn wallet_digest(prefix: &str, text: &str) -> [u8; 32] {
    let mut hasher = Keccak256::new();
    hasher.update(prefix);
    hasher.update(text.len().to_string());
    hasher.update(text);
    hasher.finalize().into()
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
        for bad in ["", "0x", "z", "0x00", "text", &"z".repeat(195)] {
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

    /// Made by tronweb 6.5.1, `trx.signMessageV2`.
    #[test]
    fn accounts_on_tron_sign_as_their_wallets_do() {
        let address: [u8; 20] = hex::decode("4a62316623ad457f02cdc5d997ded67a383ec569").unwrap().try_into().unwrap();
        let tron = Key::TronAddress(address);
        let ascii = "0x1e1ee3a4df0d5cc097d6d672999a725953278f6c531d69fa7edb9a665c670f994e31ec54063c69eb386c913ea579972a1834\
                     ba651e7d0fb80d2dc4eaca0006561c";
        // The length is that of the bytes.
        let utf8 = "0x51f80367d6f5f7aaafd1bfeb2d5fb12b19b7bec6b8b7b310b1ea5d19e2bc2e822727efd69f1455f2eabe8f6cf430dc3e78d2\
                    4b0546a2b8ac0390bcfdc3afc7731c";
        for (text, signature) in [("Some data", ascii), ("Grüße", utf8)] {
            assert_eq!(verify_text(&tron, text, signature), Ok(()));
            assert_eq!(verify_text(&tron, &format!("{text} "), signature), Err(Error::Signature));
            // No account on EVM signs so.
            assert_eq!(verify_text(&Key::Address(address), text, signature), Err(Error::Signature));
            assert_eq!(verify_text(&Key::TronAddress([1; 20]), text, signature), Err(Error::Signature));
            // The second signature of the same key over the same text, with the other s.
            let mut bytes = decode(signature).unwrap();
            let s = k256::ecdsa::Signature::from_slice(&bytes[..64]).unwrap().s().negate().to_bytes();
            bytes[32..64].copy_from_slice(&s);
            bytes[64] = 27 + 28 - bytes[64];
            assert!(verify_text(&tron, text, &format!("0x{}", hex::encode(bytes))).is_err());
        }
        let (key, recovery) = Secp256k1::from_bytes(&[7; 32].into())
            .unwrap()
            .sign_prehash_recoverable(&wallet_digest(EVM_PREFIX, "Some data"))
            .unwrap();
        let personal = format!("0x{}{:02x}", hex::encode(key.to_bytes()), 27 + recovery.to_byte());
        assert_eq!(verify_text(&tron, "Some data", &personal), Ok(()));
        assert_eq!(verify_text(&tron, "Some dato", &personal), Err(Error::Signature));
    }
}
