//! A verifier set with the keys of its members.

use ed25519_dalek::{Signer as _, SigningKey};
use gateway_program::{
    Hash, Key,
    host::{self, Message},
    message::Domain,
    verifier_set::VerifierSet,
};
use solana_keypair::Keypair;

use crate::world::{key, keypair};

/// The first key of a set's members; the first member of every set is the same.
const FIRST: u8 = 100;

/// Verifiers in order of their public keys, of whom `threshold` have to sign.
pub struct Verifiers {
    /// How many have to sign.
    pub threshold: u8,
    /// The members' keys, ascending.
    pub keypairs: Vec<Keypair>,
    /// Their public keys.
    pub members: Vec<Key>,
}

impl Verifiers {
    /// `count` verifiers.
    pub fn new(threshold: u8, count: u8) -> Self {
        let mut keypairs: Vec<_> = (FIRST..FIRST + count).map(keypair).collect();
        keypairs.sort_by_key(key);
        let members = keypairs.iter().map(key).collect();
        Self { threshold, keypairs, members }
    }

    /// The set.
    pub fn set(&self) -> VerifierSet<'_> {
        VerifierSet::new(self.threshold, &self.members).unwrap()
    }

    /// The releaser of a payment that they attest.
    pub fn id(&self) -> Key {
        self.set().id()
    }

    /// Signatures over the digest by the members at these places, in this order.
    pub fn signatures(&self, digest: &Hash, who: &[usize]) -> Vec<(Key, [u8; 64])> {
        who.iter().map(|at| signature(&self.keypairs[*at], digest)).collect()
    }

    /// The precompile's instruction with the message signed by the members at these places, in this order.
    pub fn sign(&self, message: &impl Message, domain: &Domain, who: &[usize]) -> host::Instruction {
        let digest = message.digest(domain);
        host::ed25519_of_set(&self.signatures(&digest, who), &digest)
    }
}

/// The key and its signature over the bytes.
pub fn signature(signer: &Keypair, bytes: &[u8]) -> (Key, [u8; 64]) {
    (key(signer), SigningKey::from_bytes(signer.secret_bytes()).sign(bytes).to_bytes())
}
