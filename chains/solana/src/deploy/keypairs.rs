//! Key pairs of the program and of its buffer: they are made once, and noted before anything is sent.
//!
//! They are noted as `solana-keygen` writes them, 64 numbers each, the secret key and then its public key. So that what was begun
//! can also be ended by Solana's own tools: `solana program close BUFFER` gives back what a buffer cost. **They are secrets until the
//! program is deployed**: who has the program's can take its address before. Afterwards neither opens anything.

use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use solana_keypair::Keypair;

use chains::deployment::{DeployError, Notes};
use gateway_program::Key;

use crate::keys;

/// Where they are noted.
const NOTE: &str = "solana_keypairs";

/// The key pairs whose public keys are addresses.
pub(super) struct Keypairs {
    /// Of the program.
    pub program: SigningKey,
    /// Of the buffer.
    pub buffer: SigningKey,
}

impl Keypairs {
    /// Those that were noted; `None` before.
    ///
    /// # Errors
    /// [`DeployError::Notes`] when the note is anything else.
    pub fn noted(notes: &dyn Notes) -> Result<Option<Self>, DeployError> {
        let Some(note) = notes.get(NOTE) else { return Ok(None) };
        let keypair = |name: &str| {
            let text = note.get(name).map(Value::to_string).unwrap_or_default();
            keys::keypair(&text).map_err(|error| DeployError::Notes(format!("{NOTE}.{name} {error}")))
        };
        Ok(Some(Self { program: keypair("program")?, buffer: keypair("buffer")? }))
    }

    /// New ones, noted in one.
    ///
    /// # Errors
    /// [`DeployError::Notes`] when they cannot be noted.
    pub fn make(notes: &dyn Notes) -> Result<Self, DeployError> {
        let random = || SigningKey::from_bytes(Keypair::new().secret_bytes());
        let keypairs = Self { program: random(), buffer: random() };
        let text = |key: &SigningKey| json!(key.to_keypair_bytes().to_vec());
        notes.put(NOTE, json!({"program": text(&keypairs.program), "buffer": text(&keypairs.buffer)}))?;
        Ok(keypairs)
    }
}

/// The address that a key pair has.
pub(super) fn address(key: &SigningKey) -> Key {
    key.verifying_key().to_bytes()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Mutex};

    use super::*;

    #[derive(Default)]
    struct Memory(Mutex<BTreeMap<String, Value>>);

    impl Notes for Memory {
        fn get(&self, name: &str) -> Option<Value> {
            self.0.lock().unwrap().get(name).cloned()
        }

        fn put(&self, name: &str, value: Value) -> Result<(), DeployError> {
            self.0.lock().unwrap().insert(name.to_owned(), value);
            Ok(())
        }
    }

    #[test]
    fn what_was_noted_is_read_again() {
        let notes = Memory::default();
        assert!(Keypairs::noted(&notes).unwrap().is_none());
        let made = Keypairs::make(&notes).unwrap();
        let noted = Keypairs::noted(&notes).unwrap().unwrap();
        assert_eq!((&made.program, &made.buffer), (&noted.program, &noted.buffer));
        assert_ne!(made.program, made.buffer);
    }

    #[test]
    fn a_damaged_note_is_not_replaced() {
        let notes = Memory::default();
        for note in [json!({}), json!({"program": [1, 2]}), json!("")] {
            notes.put(NOTE, note.clone()).unwrap();
            let Err(error) = Keypairs::noted(&notes) else { panic!("{note}") };
            assert!(matches!(&error, DeployError::Notes(what) if what.contains("program")), "{error}");
        }
    }
}
