//! Signatures: recovery of the signer.

use k256::ecdsa::{RecoveryId, Signature, SigningKey, VerifyingKey};

use crate::{Address, Refusal, transaction::Transaction};

/// The account whose key signed `hash`, from 65 bytes: r, s and the recovery id as 0, 1, 27 or 28.
///
/// # Errors
/// When the bytes are not such a signature.
pub fn recover(hash: &[u8; 32], signature: &[u8]) -> Result<Address, Refusal> {
    let refused = |text: &str| Refusal::Signature(text.to_owned());
    if signature.len() != 65 {
        return Err(Refusal::Signature(format!("Signature size is {}", signature.len())));
    }
    let (rs, v) = (&signature[..64], signature[64]);
    let id = match v {
        0 | 1 => v,
        27 | 28 => v - 27,
        _ => return Err(Refusal::Signature(format!("Header byte out of range: {v}"))),
    };
    let mut signature = Signature::from_slice(rs).map_err(|_| refused("r or s is out of range"))?;
    let mut odd = id == 1;
    // The network takes both halves of s; the curve's library recovers from the lower one.
    if let Some(low) = signature.normalize_s() {
        signature = low;
        odd = !odd;
    }
    VerifyingKey::recover_from_prehash(hash, &signature, RecoveryId::new(odd, false))
        .map(|key| Address::of_key(&key))
        .map_err(|_| refused("no key has this signature"))
}

/// Signs `hash` as Tron's wallets do: r, s and 27 or 28.
///
/// # Errors
/// When the key cannot sign it, which no hash is known to cause.
pub fn sign(key: &SigningKey, hash: &[u8; 32]) -> Result<[u8; 65], Refusal> {
    let (signature, id) = key.sign_prehash_recoverable(hash).map_err(|error| Refusal::Signature(error.to_string()))?;
    let mut bytes = [0; 65];
    bytes[..64].copy_from_slice(&signature.to_bytes());
    bytes[64] = 27 + id.to_byte();
    Ok(bytes)
}

/// Checks that the owner's key signed, and nobody else.
///
/// # Errors
/// When it did not, or when another permission than the owner's is named.
pub(crate) fn check(transaction: &Transaction) -> Result<(), Refusal> {
    let permission = transaction.raw.contract.first().map_or(0, |contract| contract.permission_id);
    if permission != 0 {
        return Err(Refusal::Signature(format!(
            "permission {permission} is not known to this development node, which has the owner's (0) only"
        )));
    }
    let signature = match transaction.signatures.as_slice() {
        [] => return Err(Refusal::Signature("miss sig or contract".to_owned())),
        [signature] => signature,
        more => {
            return Err(Refusal::Signature(format!(
                "Signature count is {} more than key counts of permission : 1",
                more.len()
            )));
        }
    };
    let signer = recover(&transaction.id.0, signature)?;
    if signer != transaction.owner {
        let shown = hex::encode(signature);
        return Err(Refusal::Signature(format!(
            "{shown} is signed by {signer} but it is not contained of permission."
        )));
    }
    Ok(())
}
