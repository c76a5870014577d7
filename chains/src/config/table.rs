//! A chain's table in a configuration file: its keys are taken out one by one, and what is left has to be what chains of
//! every family have.
//!
//! `serde(flatten)` would switch off `deny_unknown_fields`, and which keys are known depends on the family.

use figment::{
    error::{Actual, Kind},
    value::{Dict, Value},
};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned},
};

use events::{Account, ChainId, Family};

use super::CommonConfig;

const CHAIN_ID: &str = "chain_id";

/// Why a chain's table cannot be read. The text names the chain and the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{chain_id}: {rule}")]
pub struct Error {
    chain_id: ChainId,
    rule: String,
}

/// The table of a chain whose family is known. A role takes out the keys that only it has, and makes a
/// [`ChainConfig`](super::ChainConfig) of the rest. It holds secrets, so it has no `Debug`.
pub struct ChainTable {
    chain_id: ChainId,
    family: Family,
    keys: Dict,
    taken: Vec<&'static str>,
}

impl<'de> Deserialize<'de> for ChainTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let keys = Dict::deserialize(deserializer)?;
        let chain_id = keys.get(CHAIN_ID).ok_or_else(|| de::Error::missing_field(CHAIN_ID))?;
        let chain_id: ChainId = chain_id
            .deserialize()
            .map_err(|error: figment::Error| de::Error::custom(format_args!("{CHAIN_ID}: {}", error.kind)))?;
        let family = chain_id.family().ok_or_else(|| {
            let rule = "must be of namespace eip155, solana or tron";
            de::Error::custom(format_args!("{CHAIN_ID}: `{chain_id}` {rule}"))
        })?;
        Ok(Self { chain_id, family, keys, taken: Vec::new() })
    }
}

impl ChainTable {
    /// The chain's family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Takes out the value of `key`, when there is one. The key is known from then on.
    ///
    /// # Errors
    /// [`Error`] when it is not a `T`.
    pub fn take<T: DeserializeOwned>(&mut self, key: &'static str) -> Result<Option<T>, Error> {
        self.taken.push(key);
        let Some(value) = self.keys.remove(key) else { return Ok(None) };
        value.deserialize().map(Some).map_err(|error: figment::Error| {
            let path: Vec<_> = std::iter::once(key).chain(error.path.iter().map(String::as_str)).collect();
            self.error(format!("{}: {}", path.join("."), rule(&error.kind)))
        })
    }

    /// The same for a key that there must be.
    ///
    /// # Errors
    /// [`Error`] when it is missing or not a `T`.
    pub fn require<T: DeserializeOwned>(&mut self, key: &'static str) -> Result<T, Error> {
        self.take(key)?.ok_or_else(|| self.error(Kind::MissingField(key.into()).to_string()))
    }

    /// Takes out the account under `key`, when there is one.
    ///
    /// # Errors
    /// [`Error`] when it is not an account of the chain's family.
    pub(super) fn take_account(&mut self, key: &'static str) -> Result<Option<Account>, Error> {
        let account = self.take(key)?;
        check_family(self.family, key, account.as_ref()).map_err(|rule| self.error(rule))?;
        Ok(account)
    }

    /// What is left, which has to be the common keys to the letter, with accounts of the chain's family.
    pub(super) fn rest(self) -> Result<CommonConfig, Error> {
        let Self { chain_id, family, keys, taken } = self;
        let common = Value::from(keys).deserialize().map_err(|error: figment::Error| match &error.kind {
            // Its path ends with the key itself.
            Kind::UnknownField(found, common) if error.path.len() <= 1 => {
                let known: Vec<_> = taken.iter().chain(common.iter()).copied().collect();
                format!("unknown field of {}: {}", name(family), found_instead(found, &known))
            }
            Kind::MissingField(key) if error.path.is_empty() => format!("{}{}", rule(&error.kind), who_writes(key)),
            kind if error.path.is_empty() => rule(kind),
            kind => format!("{}: {}", error.path.join("."), rule(kind)),
        });
        let common = common.and_then(|mut common: CommonConfig| {
            common.settle_nodes()?;
            if family != Family::Tron && common.rpc_urls.iter().any(|node| node.api_key.is_some()) {
                return Err("rpc_urls: only a node of a Tron chain has an api_key".to_owned());
            }
            common.accounts().try_for_each(|(key, account)| check_family(family, key, Some(account)))?;
            Ok(common)
        });
        common.map_err(|rule| Error { chain_id, rule })
    }

    /// That a rule is broken in this table.
    pub(super) fn error(&self, rule: String) -> Error {
        Error { chain_id: self.chain_id.clone(), rule }
    }
}

/// The rule that the account under `key` breaks when it is of another family.
fn check_family(family: Family, key: &str, account: Option<&Account>) -> Result<(), String> {
    match account.is_none_or(|account| account.family() == family) {
        true => Ok(()),
        false => Err(format!("{key}: must be an account of {}", name(family))),
    }
}

fn name(family: Family) -> &'static str {
    match family {
        Family::Evm => "an EVM chain",
        Family::Solana => "a Solana chain",
        Family::Tron => "a Tron chain",
    }
}

/// The rule that is broken. A text that was found is not repeated: it may be a key that stands where a list of them has to.
fn rule(kind: &Kind) -> String {
    match kind {
        Kind::UnknownField(found, known) => format!("unknown field: {}", found_instead(found, known)),
        Kind::InvalidType(Actual::Str(_) | Actual::Bytes(_), expected) => {
            format!("invalid type: found a text, expected {expected}")
        }
        Kind::InvalidValue(Actual::Str(_) | Actual::Bytes(_), expected) => format!("invalid text, expected {expected}"),
        kind => kind.to_string(),
    }
}

/// Who says what is missing, where a command does.
fn who_writes(key: &str) -> &'static str {
    match key {
        "escrow_contract" | "fulfillment_proxy" => "; `gw deploy` writes it",
        "reserver" => "; `gw init --role gateway` writes it",
        "releaser" => "; `gw init --role verifier` writes it",
        _ => "",
    }
}

fn found_instead(found: &str, known: &[&str]) -> String {
    format!("found `{found}`, expected one of `{}`", known.join("`, `"))
}
