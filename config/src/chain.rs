//! What a gateway's configuration says about chains and the contracts on them.

use figment::value::{Dict, Value};
use serde::{Deserialize, Deserializer, de};

use chains::config::ChainConfig;
use events::{Account, ChainId, caip};

use super::Secret;

/// A contract on a chain, written as a CAIP-10 account: `eip155:1:0x…`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct ContractRef {
    /// The chain.
    pub chain_id: ChainId,
    /// The contract's account on it.
    pub account: Account,
}

impl TryFrom<String> for ContractRef {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let rule = |rule: caip::Error| format!("`{text}` is no CAIP-10 account: {rule}");
        let (chain, account) = text.rsplit_once(':').ok_or_else(|| rule(caip::Error::NotCaip2))?;
        let chain_id: ChainId = chain.parse().map_err(rule)?;
        let family = chain_id.family().ok_or_else(|| rule(caip::Error::UnknownFamily))?;
        let account = Account::parse(family, account).map_err(rule)?;
        Ok(Self { chain_id, account })
    }
}

/// One of the gateway's `[[chains]]`: what every role knows about a chain, and the gateway's keys for it.
#[derive(Debug, Clone)]
pub struct GatewayChain {
    /// What every role knows.
    pub chain: ChainConfig,
    /// Private key of the chain's `reserver`: hex with 0x; on Solana a keypair, Base58 of its 64 bytes or the JSON array of
    /// `solana-keygen`.
    pub reserver_key: Secret,
    /// Private keys of the accounts that send the gateway's transactions, in the same form; at least one.
    pub submitter_keys: Vec<Secret>,
    /// Private keys of the accounts that send refunds and releases and nothing else, in the same form; none where the
    /// submitters do.
    pub exit_submitter_keys: Vec<Secret>,
    /// On EVM chains, and only there: whether payers may sign a Permit2 transfer without a witness (`EVM_PERMIT2`). Such a
    /// permit binds neither releaser nor windows nor quote, so it trusts whoever holds the reserver's key with the whole cap.
    pub permit2_without_witness: bool,
}

impl<'de> Deserialize<'de> for GatewayChain {
    // `serde(flatten)` would switch off `deny_unknown_fields` of both structs, so the keys are taken out by hand and the
    // rest has to be a `ChainConfig` to the letter.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fn take<T: de::DeserializeOwned, E: de::Error>(members: &mut Dict, name: &'static str) -> Result<T, E> {
            let value = members.remove(name).ok_or_else(|| E::missing_field(name))?;
            value.deserialize().map_err(|error| E::custom(format!("{name}: {}", error.kind)))
        }
        let mut members = Dict::deserialize(deserializer)?;
        let reserver_key = take(&mut members, "reserver_key")?;
        let submitter_keys = take(&mut members, "submitter_keys")?;
        let exits = "exit_submitter_keys";
        let exit_submitter_keys = if members.contains_key(exits) { take(&mut members, exits)? } else { Vec::new() };
        let permit2_without_witness = match members.contains_key("permit2_without_witness") {
            true => take(&mut members, "permit2_without_witness")?,
            false => false,
        };
        let chain = Value::from(members).deserialize().map_err(|error: figment::Error| {
            let path = if error.path.is_empty() { String::new() } else { format!("{}: ", error.path.join(".")) };
            de::Error::custom(format!("{path}{}", error.kind))
        })?;
        Ok(Self { chain, reserver_key, submitter_keys, exit_submitter_keys, permit2_without_witness })
    }
}
