//! A releaser's word about a payment, as it is journaled: one key's signature, or those of a verifier set's members.

use ed25519_dalek::{Signature, VerifyingKey};
use gateway_program::{
    Hash, Key,
    host::{self, Instruction},
    verifier_set::VerifierSet,
};

use events::{Account, Family, verifier_set::SetAttestation};
use sagas::ports::Transient;

use super::program::{key, signature_bytes};

/// What is brought to an escrow to end it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// Of a releaser that is a key.
    Key([u8; 64]),
    /// Of a releaser that is the id of a verifier set.
    Set(SetWord),
}

/// A set and the signatures of as many members as have to sign, both ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SetWord {
    id: Key,
    threshold: u8,
    members: Vec<Key>,
    signed: Vec<(Key, [u8; 64])>,
}

impl Word {
    /// Reads a signature or a set's attestation, hex with 0x. Whose it is, is not looked at.
    ///
    /// # Errors
    /// [`Transient::Misconfigured`] for anything else, which is no verifier's answer.
    pub(super) fn read(text: &str) -> Result<Self, Transient> {
        let key = || signature_bytes(text).map(Self::Key);
        let set = || SetWord::of(&SetAttestation::parse(Family::Solana, text)?).map(Self::Set);
        key().or_else(set).ok_or_else(|| {
            Transient::misconfigured("the attestation is neither a signature of 64 bytes nor a verifier set's, in hex")
        })
    }

    /// Whether it is the word of `releaser` over `digest`, as the program would judge it.
    pub(super) fn holds(&self, releaser: &Key, digest: &Hash) -> bool {
        match self {
            Self::Key(signature) => signs(releaser, digest, signature),
            Self::Set(SetWord { id, signed, .. }) => {
                id == releaser && signed.iter().all(|(member, signature)| signs(member, digest, signature))
            }
        }
    }

    /// The instruction that proves the signatures over `digest`, and behind it the release or cancellation `end`, which brings
    /// the word of `releaser`.
    ///
    /// # Errors
    /// [`Transient::Misconfigured`] for a set that the program takes from nobody.
    pub(super) fn bring(&self, releaser: &Key, digest: &Hash, end: Instruction) -> Result<[Instruction; 2], Transient> {
        Ok(match self {
            Self::Key(signature) => [host::ed25519(releaser, signature, digest), end],
            Self::Set(SetWord { threshold, members, signed, .. }) => {
                let set = VerifierSet::new(*threshold, members).map_err(Transient::misconfigured)?;
                [host::ed25519_of_set(signed, digest), host::by_set(end, &set)]
            }
        })
    }
}

impl SetWord {
    fn of(attestation: &SetAttestation) -> Option<Self> {
        let SetAttestation { id, threshold, members, signatures } = attestation;
        let signed =
            |(member, signature): &(Account, Vec<u8>)| Some((key(member).ok()?, signature.as_slice().try_into().ok()?));
        Some(Self {
            id: key(id).ok()?,
            threshold: *threshold,
            members: members.iter().map(|member| key(member).ok()).collect::<Option<_>>()?,
            signed: signatures.iter().map(signed).collect::<Option<_>>()?,
        })
    }
}

/// Whether `signature` is that of `key` over `digest`, as strictly as the precompile has it.
pub(super) fn signs(key: &Key, digest: &Hash, signature: &[u8; 64]) -> bool {
    VerifyingKey::from_bytes(key).is_ok_and(|key| key.verify_strict(digest, &Signature::from_bytes(signature)).is_ok())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::program::parse_key;

    use super::*;

    fn vectors() -> Value {
        serde_json::from_str(include_str!("../../../contracts/solana/vectors.json")).unwrap()
    }

    fn text<'a>(vectors: &'a Value, place: &str) -> &'a str {
        vectors.pointer(place).and_then(Value::as_str).unwrap()
    }

    fn bytes(vectors: &Value, place: &str) -> Vec<u8> {
        hex::decode(text(vectors, place)).unwrap()
    }

    #[test]
    fn a_journaled_word_becomes_the_published_instructions() {
        let vectors = vectors();
        let set = parse_key(text(&vectors, "/verifier_set/id")).unwrap();
        let key = parse_key(text(&vectors, "/delivery/signer")).unwrap();
        let single = |statement: &str| format!("0x{}", text(&vectors, &format!("/{statement}/signature")));
        let of_set = |statement: &str| text(&vectors, &format!("/verifier_set/{statement}/attestation")).to_owned();
        for (statement, end) in [("delivery", "release"), ("non_delivery", "cancel")] {
            let digest: Hash = bytes(&vectors, &format!("/{statement}/digest")).try_into().unwrap();
            let plain = |data: Vec<u8>| Instruction { program_id: [9; 32], accounts: Vec::new(), data };
            for (releaser, word, place) in
                [(key, single(statement), String::new()), (set, of_set(statement), "/verifier_set".to_owned())]
            {
                let word = Word::read(&word).unwrap();
                let data = bytes(&vectors, &format!("/instructions/{end}/data"));
                let [proof, end_by_word] = word.bring(&releaser, &digest, plain(data)).unwrap();
                let expected = bytes(&vectors, &format!("{place}/{statement}/ed25519_instruction_data"));
                assert_eq!(proof.data, expected, "{place} {statement}");
                let expected = bytes(&vectors, &format!("{place}/instructions/{end}/data"));
                assert_eq!(end_by_word.data, expected, "{place} {end}");

                assert!(word.holds(&releaser, &digest));
                let other = if releaser == key { set } else { key };
                assert!(!word.holds(&other, &digest), "another releaser's");
                assert!(!word.holds(&releaser, &[7; 32]), "over something else");
            }
        }
    }

    #[test]
    fn a_spoilt_word_holds_no_more() {
        let vectors = vectors();
        let set = parse_key(text(&vectors, "/verifier_set/id")).unwrap();
        let digest: Hash = bytes(&vectors, "/delivery/digest").try_into().unwrap();
        let word = hex::decode(&text(&vectors, "/verifier_set/delivery/attestation")[2..]).unwrap();
        // Every byte counts: threshold, members, places and signatures.
        for at in 0..word.len() {
            let mut other = word.clone();
            other[at] ^= 1;
            let read = Word::read(&format!("0x{}", hex::encode(other)));
            assert!(!read.is_ok_and(|word| word.holds(&set, &digest)), "byte {at}");
        }
        for broken in ["", "0x", "0x00", &text(&vectors, "/verifier_set/delivery/attestation")[2..]] {
            assert!(matches!(Word::read(broken), Err(Transient::Misconfigured(_))), "{broken}");
        }
    }
}
