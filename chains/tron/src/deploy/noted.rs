//! Notes: the transaction of a contract, kept so that a later run knows it.

use chains::deployment::{DeployError, Notes};
use events::ChainId;
use serde::{Deserialize, Serialize};

use super::Part;
use crate::{address::text, creation::SignedCreation};

/// A transaction that was noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Noted {
    /// The transaction.
    pub creation: SignedCreation,
    /// Why it had no effect, once that is settled and was told.
    pub failure: Option<String>,
}

/// The note's form. All but `failure` follows from the bytes and is there for people.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Form {
    /// The transaction's id, hex.
    id: String,
    /// The whole signed `Transaction`, hex.
    bytes: String,
    /// UNIX milliseconds.
    expiration_ms: u64,
    /// Who pays, `T…`.
    payer: String,
    /// Where the contract will be, `T…`.
    contract: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

impl Noted {
    /// What was noted of `part`.
    ///
    /// # Errors
    /// [`DeployError::Notes`] for a note that cannot be read, or that is not one of this contract.
    pub fn read(notes: &dyn Notes, part: &Part, chain_id: &ChainId) -> Result<Option<Self>, DeployError> {
        let name = part.note_name(chain_id);
        let Some(value) = notes.get(&name) else { return Ok(None) };
        let unreadable = |why: &str| DeployError::Notes(format!("{name} cannot be read: {why}"));
        let form: Form = serde_json::from_value(value).map_err(|error| unreadable(&error.to_string()))?;
        let bytes = hex::decode(&form.bytes).map_err(|error| unreadable(&error.to_string()))?;
        let creation = SignedCreation::read(&bytes).ok_or_else(|| unreadable("the bytes are not a creation"))?;
        let noted = Self { creation, failure: form.failure.clone() };
        if noted.creation.code != part.code {
            return Err(unreadable("the bytes create another contract"));
        }
        if noted.form() != form {
            return Err(unreadable("it contradicts itself"));
        }
        Ok(Some(noted))
    }

    /// Notes it, in place of what was noted of `part` before.
    ///
    /// # Errors
    /// [`DeployError::Notes`].
    pub fn write(&self, notes: &dyn Notes, part: &Part, chain_id: &ChainId) -> Result<(), DeployError> {
        let value = serde_json::to_value(self.form()).map_err(|error| DeployError::Notes(error.to_string()))?;
        notes.put(&part.note_name(chain_id), value)
    }

    fn form(&self) -> Form {
        Form {
            id: hex::encode(self.creation.signed.id),
            bytes: hex::encode(&self.creation.signed.bytes),
            expiration_ms: self.creation.signed.expiration_ms,
            payer: text(self.creation.owner),
            contract: text(self.creation.contract()),
            failure: self.failure.clone(),
        }
    }
}
