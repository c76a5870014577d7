//! Key of an account on a chain: the key itself, or the service that keeps it (ADR 132).

use std::{fmt, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{self, Error as _, MapAccess, SeqAccess, value::MapAccessDeserializer},
};
use url::Url;

use chains::nodes::is_loopback;
use chains_solana::authorization::wallet_key;
use events::{Account, Family};

use super::family_rules;
use crate::{
    Error, Secret,
    rules::{invalid, require},
};

/// Longest that one call of a service may take, in milliseconds, where nothing is said.
const CALL_MS_MAX: u64 = 5_000;
/// Longest that one may be given, in milliseconds.
const CALL_MS_LIMIT: u64 = 30_000;
/// What stands where a key has to.
const EXPECTED: &str = "must be a key as text or as an array of bytes, or a table that names the service that keeps it";

/// The key of an account on a chain: itself, or where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountKey {
    /// The key, to sign with in this process.
    Here(Secret),
    /// A service has it. [`DistantKey::check`] checks what is written.
    Elsewhere(Box<DistantKey>),
}

/// A key that a service keeps, as it is written: `{ web3signer = "https://…", account = "0x…" }`, `{ kms = "alias/…", region = "…",
/// account = "0x…" }`.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DistantKey {
    /// The address of a Web3Signer.
    web3signer: Option<String>,
    /// A key's ARN, id or alias in AWS KMS.
    kms: Option<String>,
    /// The region of AWS.
    region: Option<String>,
    /// Another address of KMS than the region's own.
    endpoint: Option<String>,
    /// The account, which every signature is verified against.
    account: Option<String>,
    /// How long one call may take, in milliseconds; 5000 by default.
    call_ms_max: Option<u64>,
}

/// Its address may hold a password.
impl fmt::Debug for DistantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistantKey").field("account", &self.account).finish_non_exhaustive()
    }
}

/// A service that keeps a key.
#[derive(Clone, PartialEq, Eq)]
pub enum KeyService {
    /// At the Web3Signer of this address, which may hold a password and is not shown.
    Web3Signer(Url),
    /// In AWS KMS.
    Kms {
        /// The key's ARN, id or alias.
        key_id: String,
        /// The region.
        region: String,
        /// Another address than the region's own.
        endpoint: Option<Url>,
    },
}

impl fmt::Debug for KeyService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_string())
    }
}

/// What may be shown of it.
impl fmt::Display for KeyService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Web3Signer(url) => write!(f, "web3signer {}", url.origin().ascii_serialization()),
            Self::Kms { key_id, region, .. } => write!(f, "kms {key_id} in {region}"),
        }
    }
}

/// What a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signs {
    /// Transactions of its own account.
    Transactions,
    /// What contracts take: admissions, reservations, statements. On Solana these are transactions, too.
    Statements,
}

/// A key that a service keeps, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedKey {
    /// Which service keeps it.
    pub service: KeyService,
    /// Its account.
    pub account: Account,
    /// How long one call may take.
    pub call_max: Duration,
}

impl AccountKey {
    /// The account of the key, which stands under `key`; in the family's own spelling, on EVM chains in lower case.
    ///
    /// # Errors
    /// [`Error::Invalid`] where it is not a key of the family, or the service cannot sign what it is for.
    pub fn account(&self, family: Family, key: &str, signs: Signs) -> Result<String, Error> {
        match self {
            Self::Here(secret) => family_rules::account_of(family, key, secret),
            Self::Elsewhere(distant) => Ok(distant.check(family, key, signs)?.account.to_string()),
        }
    }
}

impl From<Secret> for AccountKey {
    fn from(secret: Secret) -> Self {
        Self::Here(secret)
    }
}

impl DistantKey {
    /// What is written under `key`, checked for a chain of the family.
    ///
    /// # Errors
    /// [`Error::Invalid`], naming the member.
    pub fn check(&self, family: Family, key: &str, signs: Signs) -> Result<CheckedKey, Error> {
        let member = |name: &str| format!("{key}.{name}");
        let service = self.service(key)?;
        suits(&service, family, signs).map_err(|rule| invalid(member("web3signer"), rule))?;
        let text = self.account.as_deref().unwrap_or_default();
        require(
            !text.is_empty(),
            &member("account"),
            "must name the key's account: what is signed is verified against it",
        )?;
        let account = Account::parse(family, text).map_err(|rule| invalid(member("account"), rule.to_string()))?;
        let is_a_keys = family != Family::Solana || wallet_key(&account).is_some();
        require(is_a_keys, &member("account"), "must be an Ed25519 public key")?;
        let call_ms = self.call_ms_max.unwrap_or(CALL_MS_MAX);
        let range = (100..=CALL_MS_LIMIT).contains(&call_ms);
        require(range, &member("call_ms_max"), "must be 100 to 30000")?;
        Ok(CheckedKey { service, account, call_max: Duration::from_millis(call_ms) })
    }

    fn service(&self, key: &str) -> Result<KeyService, Error> {
        let member = |name: &str| format!("{key}.{name}");
        match (&self.web3signer, &self.kms) {
            (Some(text), None) => {
                for (name, value) in [("region", &self.region), ("endpoint", &self.endpoint)] {
                    require(value.is_none(), &member(name), "belongs to kms, which is not named")?;
                }
                let url = address(&member("web3signer"), text)?;
                let is_read_by_others = has_password(&url) && url.scheme() == "http" && !is_loopback(&url);
                require(!is_read_by_others, &member("web3signer"), "must be https where it holds a password")?;
                Ok(KeyService::Web3Signer(url))
            }
            (None, Some(key_id)) => {
                require(!key_id.is_empty(), &member("kms"), "must be a key's ARN, id or alias")?;
                let region = self.region.clone().unwrap_or_default();
                let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                let is_one = !region.is_empty() && region.chars().all(legal);
                require(is_one, &member("region"), "must be a region of AWS, such as eu-central-1")?;
                let endpoint = self.endpoint.as_ref().map(|text| address(&member("endpoint"), text)).transpose()?;
                let is_anonymous = endpoint.as_ref().is_none_or(|url| !has_password(url));
                require(
                    is_anonymous,
                    &member("endpoint"),
                    "must not hold a user or password: AWS's credentials count",
                )?;
                Ok(KeyService::Kms { key_id: key_id.clone(), region, endpoint })
            }
            _ => Err(invalid(key, "must name one service that keeps the key, web3signer or kms")),
        }
    }
}

/// Whether `service` can sign what a key of the family is for; the rule that it breaks.
fn suits(service: &KeyService, family: Family, signs: Signs) -> Result<(), &'static str> {
    match (service, family, signs) {
        (KeyService::Web3Signer(_), Family::Solana, _) => Err(
            "cannot keep a key of Solana: a Web3Signer's keys for eth1 are of secp256k1, and Solana's are of Ed25519",
        ),
        (KeyService::Web3Signer(_), Family::Tron, Signs::Transactions) => Err(
            "cannot sign transactions of Tron: a Web3Signer hashes with Keccak-256 alone, and a transaction of Tron is signed by \
             its SHA-256",
        ),
        (KeyService::Web3Signer(_), Family::Evm | Family::Tron, _) | (KeyService::Kms { .. }, _, _) => Ok(()),
    }
}

/// An address of a service.
fn address(key: &str, text: &str) -> Result<Url, Error> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or_else(|| invalid(key, "must be an http(s) address"))?;
    let is_bare = url.query().is_none() && url.fragment().is_none();
    require(is_bare, key, "must be an http(s) address without a query or fragment")?;
    Ok(url)
}

fn has_password(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

impl<'de> Deserialize<'de> for AccountKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

/// Reads either form. Errors never repeat what was there: it may be a key that somebody forgot to quote.
struct KeyVisitor;

impl<'de> de::Visitor<'de> for KeyVisitor {
    type Value = AccountKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<AccountKey, E> {
        Ok(Secret::new(text).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut bytes: A) -> Result<AccountKey, A::Error> {
        let mut read = Vec::new();
        while let Some(byte) = bytes.next_element::<u8>().map_err(|_| A::Error::custom(EXPECTED))? {
            read.push(byte);
        }
        Ok(Secret::new(format!("{read:?}")).into())
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<AccountKey, A::Error> {
        DistantKey::deserialize(MapAccessDeserializer::new(table)).map(|key| AccountKey::Elsewhere(Box::new(key)))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<AccountKey, E> {
        Err(E::custom(EXPECTED))
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<AccountKey, E> {
        Err(E::custom(EXPECTED))
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<AccountKey, E> {
        Err(E::custom(EXPECTED))
    }

    fn visit_i128<E: de::Error>(self, _: i128) -> Result<AccountKey, E> {
        Err(E::custom(EXPECTED))
    }

    fn visit_u128<E: de::Error>(self, _: u128) -> Result<AccountKey, E> {
        Err(E::custom(EXPECTED))
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<AccountKey, E> {
        Err(E::custom(EXPECTED))
    }
}
