//! Local keys: in the memory of this process.

use alloy::{
    primitives::{Address, B256, Signature, keccak256},
    signers::{SignerSync, local::PrivateKeySigner},
};
use async_trait::async_trait;
use ed25519_dalek::{Signer as _, SigningKey};
use sha2::{Digest, Sha256};

use crate::{Curve, Ed25519, Hash, Key, Secp256k1, SignError, Signer};

impl Hash {
    /// The hash of `message`.
    pub(crate) fn of(self, message: &[u8]) -> B256 {
        match self {
            Self::Keccak256 => keccak256(message),
            Self::Sha256 => B256::from_slice(&Sha256::digest(message)),
        }
    }
}

/// A key of secp256k1 in memory. What it signs is of its account by its making.
struct LocalSecp256k1(PrivateKeySigner);

impl std::fmt::Debug for LocalSecp256k1 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LocalSecp256k1({})", self.0.address())
    }
}

#[async_trait]
impl Signer<Secp256k1> for LocalSecp256k1 {
    fn public(&self) -> Address {
        self.0.address()
    }

    async fn sign(&self, hash: Hash, message: &[u8]) -> Result<Signature, SignError> {
        let signed = self.0.sign_hash_sync(&hash.of(message));
        // The library's error says nothing of the key, and nothing else either.
        signed.map_err(|_| SignError::Local(Secp256k1::text(&self.public())))
    }

    async fn check(&self) -> Result<(), SignError> {
        Ok(())
    }

    fn is_elsewhere(&self) -> bool {
        false
    }
}

impl From<PrivateKeySigner> for Key<Secp256k1> {
    fn from(key: PrivateKeySigner) -> Self {
        Self::new(LocalSecp256k1(key))
    }
}

/// A key of Ed25519 in memory.
struct LocalEd25519(SigningKey);

impl std::fmt::Debug for LocalEd25519 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LocalEd25519({})", Ed25519::text(&self.0.verifying_key().to_bytes()))
    }
}

#[async_trait]
impl Signer<Ed25519> for LocalEd25519 {
    fn public(&self) -> [u8; 32] {
        self.0.verifying_key().to_bytes()
    }

    async fn sign(&self, (): (), message: &[u8]) -> Result<[u8; 64], SignError> {
        Ok(self.0.sign(message).to_bytes())
    }

    async fn check(&self) -> Result<(), SignError> {
        Ok(())
    }

    fn is_elsewhere(&self) -> bool {
        false
    }
}

impl From<SigningKey> for Key<Ed25519> {
    fn from(key: SigningKey) -> Self {
        Self::new(LocalEd25519(key))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    /// What `future` gives at its first poll: a simulation's order of things must not depend on local keys.
    fn at_once<F: Future>(future: F) -> F::Output {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("a local key waits"),
        }
    }

    #[test]
    fn a_local_key_signs_at_once_and_for_its_account() {
        let local = PrivateKeySigner::from_bytes(&B256::repeat_byte(7)).unwrap();
        let key = Key::from(local.clone());
        assert_eq!(key.address(), local.address());
        for (hash, digest) in [
            (Hash::Keccak256, keccak256(b"a preimage")),
            (Hash::Sha256, B256::from_slice(&Sha256::digest(b"a preimage"))),
        ] {
            let signature = at_once(key.sign(hash, b"a preimage")).unwrap();
            assert_eq!(signature, local.sign_hash_sync(&digest).unwrap());
            assert_eq!(signature.recover_address_from_prehash(&digest).unwrap(), key.address());
        }
        at_once(key.check()).unwrap();

        let local = SigningKey::from_bytes(&[7; 32]);
        let key = Key::from(local.clone());
        let signature = at_once(key.sign(b"a message")).unwrap();
        assert!(local.verify(b"a message", &signature.into()).is_ok());
        assert_eq!(key.public(), local.verifying_key().to_bytes());
    }

    #[test]
    fn keys_show_their_account_and_are_told_apart_by_it() {
        let [first, second] = [1, 2].map(|byte| Key::from(SigningKey::from_bytes(&[byte; 32])));
        assert!(first == first.clone() && first != second);
        let told = format!("{first:?}");
        assert!(told.contains(&Ed25519::text(&first.public())) && !told.contains("1, 1"), "{told}");
        let key = Key::from(PrivateKeySigner::from_bytes(&B256::repeat_byte(7)).unwrap());
        assert_eq!(format!("{key:?}"), format!("Key({:#x})", key.address()));
    }
}
