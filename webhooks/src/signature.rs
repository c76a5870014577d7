//! Signatures after Standard Webhooks: `v1a` (Ed25519) with the gateway's webhook key, and `v1` (HMAC-SHA256) with a secret of the
//! webhook's own, which follows from that key. Both stand in the header, so that a receiver verifies with whichever its library
//! knows. While a key is rotated both are there once for each key.

use data_encoding::BASE64;
use ed25519_dalek::{Signer, SigningKey};
use hmac::{Hmac, Mac};
use serde::Serialize;
use sha2::Sha256;

use events::Did;

use crate::webhook::WebhookId;

type HmacSha256 = Hmac<Sha256>;

/// What a public key begins with.
pub const PUBLIC_PREFIX: &str = "whpk_";
/// What a secret begins with.
pub const SECRET_PREFIX: &str = "whsec_";
const KEY_PURPOSE: &str = "gw:webhooks:key:v1";
const SECRET_PURPOSE: &str = "gw:webhooks:secret:v1";

/// The keys that messages are signed with: the current one first, then those that receivers may still verify with. At least one.
#[derive(Clone)]
pub struct Keys(Vec<SigningKey>);

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.public()).finish()
    }
}

/// A public key, as receivers need it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PublicKey {
    /// `whpk_` and Base64.
    pub public_key: String,
    /// The same as a `did:key`.
    pub did: Did,
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut block = [0; 64];
    let length = key.len().min(block.len());
    // As HMAC itself fills up a key that is shorter than a block; all keys here are of 32 bytes.
    block[..length].copy_from_slice(&key[..length]);
    let mut mac = HmacSha256::new(&block.into());
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// The webhook key that follows from another Ed25519 key. It is not that key, so that nothing that is signed for receivers can stand for
/// anything that is signed in the name of the DID, and so that it may be rotated without another DID.
pub fn derived(key: &SigningKey) -> SigningKey {
    SigningKey::from_bytes(&hmac(key.as_bytes(), &[KEY_PURPOSE.as_bytes()]))
}

impl Keys {
    /// With this current key, and others that are still accepted.
    pub fn new(current: SigningKey, others: impl IntoIterator<Item = SigningKey>) -> Self {
        Self([current].into_iter().chain(others).collect())
    }

    /// The public keys, the current one first.
    pub fn public(&self) -> Vec<PublicKey> {
        let public = |key: &SigningKey| {
            let verifying = key.verifying_key();
            let public_key = format!("{PUBLIC_PREFIX}{}", BASE64.encode(verifying.as_bytes()));
            PublicKey { public_key, did: Did::from_ed25519(&verifying) }
        };
        self.0.iter().map(public).collect()
    }

    /// The secret of a webhook for `v1`, from the current key.
    pub fn secret(&self, webhook_id: &WebhookId) -> String {
        let current = self.0.first().map(|key| secret(key, webhook_id)).unwrap_or_default();
        format!("{SECRET_PREFIX}{}", BASE64.encode(&current))
    }

    /// The header `webhook-signature` of a message.
    pub fn sign(&self, webhook_id: &WebhookId, id: &str, timestamp: i64, body: &[u8]) -> String {
        let head = format!("{id}.{timestamp}.");
        let signed = [head.as_bytes(), body].concat();
        let both = |key: &SigningKey| {
            let asymmetric = BASE64.encode(&key.sign(&signed).to_bytes());
            let symmetric = BASE64.encode(&hmac(&secret(key, webhook_id), &[&signed]));
            [format!("v1a,{asymmetric}"), format!("v1,{symmetric}")]
        };
        self.0.iter().flat_map(both).collect::<Vec<_>>().join(" ")
    }
}

fn secret(key: &SigningKey, webhook_id: &WebhookId) -> [u8; 32] {
    hmac(key.as_bytes(), &[SECRET_PURPOSE.as_bytes(), webhook_id.as_str().as_bytes()])
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signature, Verifier};

    use super::*;

    fn key(byte: u8) -> SigningKey {
        SigningKey::from_bytes(&[byte; 32])
    }

    fn decoded(text: &str, prefix: &str) -> Vec<u8> {
        BASE64.decode(text.strip_prefix(prefix).unwrap().as_bytes()).unwrap()
    }

    /// The test vector of the specification's reference libraries.
    #[test]
    fn a_symmetric_signature_is_that_of_the_reference_libraries() {
        let secret = BASE64.decode(b"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let mac = hmac(&secret, &[b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.", br#"{"test": 2432232314}"#]);
        assert_eq!(BASE64.encode(&mac), "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_message_is_verified_with_what_its_owner_has() {
        let webhook = WebhookId::random();
        let keys = Keys::new(key(1), [key(2)]);
        let header = keys.sign(&webhook, "msg_1", 1_700_000_000, b"{}");
        let signatures: Vec<&str> = header.split(' ').collect();
        assert_eq!(signatures.len(), 4);
        for (i, public) in keys.public().iter().enumerate() {
            let signature = Signature::from_slice(&decoded(signatures[2 * i], "v1a,")).unwrap();
            let verifying = public.did.ed25519_key().unwrap();
            assert_eq!(decoded(&public.public_key, PUBLIC_PREFIX), verifying.as_bytes());
            assert!(verifying.verify(b"msg_1.1700000000.{}", &signature).is_ok());
            assert!(verifying.verify(b"msg_1.1700000001.{}", &signature).is_err());
        }
        for (i, current) in [(1, 1), (3, 2)] {
            let secret = decoded(&Keys::new(key(current), []).secret(&webhook), SECRET_PREFIX);
            assert_eq!(decoded(signatures[i], "v1,"), hmac(&secret, &[b"msg_1.1700000000.{}"]));
        }
    }

    #[test]
    fn secrets_and_keys_are_each_their_own() {
        let (one, two) = (WebhookId::random(), WebhookId::random());
        let keys = Keys::new(key(1), []);
        assert_ne!(keys.secret(&one), keys.secret(&two));
        assert_ne!(keys.secret(&one), Keys::new(key(2), []).secret(&one));
        assert_ne!(derived(&key(1)), key(1));
        assert_ne!(derived(&key(1)), derived(&key(2)));
        assert!(!format!("{keys:?}").contains(&hex(key(1).as_bytes())));
    }

    fn hex(bytes: &[u8]) -> String {
        data_encoding::HEXLOWER.encode(bytes)
    }
}
