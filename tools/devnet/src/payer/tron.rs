//! What a payer on Tron signs for Permit2: typed data, hashed by a library of EIP-712 that knows nothing of Tron.

use alloy::signers::SignerSync;
use alloy_dyn_abi::TypedData;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use events::Hash32;

use super::{Key, Payer};

impl Payer {
    /// The signature of the typed data in `message`, hex with 0x, where its digest is the one that is shown beside it.
    pub(super) fn sign_typed_data(&self, message: &Value) -> Result<String> {
        let Key::Tron(signer) = &self.key else { bail!("the payer is not on Tron") };
        let mut typed: Value = serde_json::from_str(message["message_prehash"].as_str().context("no typed data")?)?;
        let owner = typed["message"]["witness"]["payer"].clone();
        ensure!(owner == *self.account(), "somebody else is to pay: {owner}");
        as_on_evm_chains(&mut typed);
        let digest = serde_json::from_value::<TypedData>(typed)?.eip712_signing_hash()?;
        let shown: Hash32 = message["message"].as_str().context("no digest")?.parse()?;
        ensure!(digest.0 == shown.0, "the digest is of other typed data: {message}");
        Ok(signer.sign_hash_sync(&digest)?.to_string())
    }
}

/// Writes each address as EVM chains do, which is what TIP-712 hashes of it.
fn as_on_evm_chains(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Ok(address) = chains_tron::address::parse_address(text) {
                *text = address.to_string();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(as_on_evm_chains),
        Value::Object(members) => members.values_mut().for_each(as_on_evm_chains),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
