//! Texts of key pairs, as wallets export them and as `solana-keygen` writes them.

use ed25519_dalek::SigningKey;

/// Why a text is not a key pair. It never holds the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeypairError {
    /// Neither form.
    #[error("must be the Base58 of 64 bytes, or the JSON array of 64 numbers that solana-keygen writes")]
    Form,
    /// The second half is not the public key of the first.
    #[error("the public key in it is not that of its secret key")]
    Mismatch,
}

/// The key pair of a text: Base58 of 64 bytes, or a JSON array of 64 numbers. The first 32 bytes are the secret key, the
/// others its public key.
///
/// # Errors
/// [`KeypairError`].
pub fn keypair(text: &str) -> Result<SigningKey, KeypairError> {
    let text = text.trim();
    let bytes: Vec<u8> = match text.starts_with('[') {
        true => serde_json::from_str(text).map_err(|_| KeypairError::Form)?,
        false => bs58::decode(text).into_vec().map_err(|_| KeypairError::Form)?,
    };
    let bytes: [u8; 64] = bytes.try_into().map_err(|_| KeypairError::Form)?;
    SigningKey::from_keypair_bytes(&bytes).map_err(|_| KeypairError::Mismatch)
}

/// A key's account, Base58.
pub fn account(key: &SigningKey) -> String {
    bs58::encode(key.verifying_key().as_bytes()).into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let bytes = key.to_keypair_bytes();
        let base58 = bs58::encode(bytes).into_string();
        let json = serde_json::to_string(&bytes.to_vec()).unwrap();
        for text in [base58.clone(), json, format!(" {base58}\n")] {
            assert_eq!(keypair(&text).map(|key| key.to_bytes()), Ok([7; 32]), "{text}");
        }
    }

    #[test]
    fn what_is_no_key_pair_is_refused() {
        let mut bytes = SigningKey::from_bytes(&[7; 32]).to_keypair_bytes();
        bytes[40] ^= 1;
        assert_eq!(keypair(&bs58::encode(bytes).into_string()).err(), Some(KeypairError::Mismatch));
        for text in ["", "[1,2,3]", "[300]", "0x12", &bs58::encode([7; 32]).into_string()] {
            assert_eq!(keypair(text).err(), Some(KeypairError::Form), "{text}");
        }
    }
}
