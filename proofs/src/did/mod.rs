//! Decentralized identifiers (DIDs): signers, their keys, and the purposes of the keys.
//!
//! `did:key` and `did:pkh` say everything themselves. A `did:web` is a document on a web site; only sites that the operator
//! named are asked, through a [`Resolver`] that the caller brings, and what they answer is read here.

mod document;
mod web;

use std::{fmt, str::FromStr};

use async_trait::async_trait;
use chrono::{DateTime, Utc};

pub use document::{DidDocument, Method, Unauthorised};
pub use web::{Location, ResolveError, Resolver, Web};

use crate::key::{Key, parse_evm_address};

/// A DID of the form `^did:[a-z][a-z0-9]*:[a-zA-Z0-9._:%-]+$` (spec 2.1). It may be as long as what it stands in; where a name
/// has to be short, its hash is used.
///
/// The EVM account in a `did:pkh:eip155` is written in lower case and the chain in a `did:pkh:tron` in decimal digits, so that
/// one account is one DID.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Did(String);

/// Why a DID cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text breaks the pattern.
    #[error("DID must match ^did:[a-z][a-z0-9]*:[a-zA-Z0-9._:%-]+$")]
    Pattern,
    /// A method other than `key`, `pkh` and `web`.
    #[error("DID method of `{0}` is not supported")]
    Method(Did),
    /// What follows the method is not what it should be.
    #[error("`{did}` is malformed: {reason}")]
    Malformed {
        /// The DID.
        did: Did,
        /// The defect.
        reason: &'static str,
    },
    /// A `did:web` of a site that the operator did not name.
    #[error("`{0}` is not on a configured origin")]
    Origin(Did),
    /// The document of a `did:web` is unusable.
    #[error("document of `{did}` is unusable: {reason}")]
    Document {
        /// The DID.
        did: Did,
        /// What is wrong with its document.
        reason: String,
    },
    /// The document could not be had. Whether it exists is unknown.
    #[error("`{did}` cannot be resolved now: {reason}")]
    Unavailable {
        /// The DID.
        did: Did,
        /// The error.
        reason: String,
    },
}

/// The purpose of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// To state something: quotes, credentials.
    AssertionMethod,
    /// To act as the DID: requests.
    Authentication,
}

impl Purpose {
    /// The value of `proofPurpose`, and the member of a DID document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AssertionMethod => "assertionMethod",
            Self::Authentication => "authentication",
        }
    }
}

impl Did {
    /// The `did:key` of a public key; `None` for an address, which is not a key.
    pub fn from_key(key: &Key) -> Option<Self> {
        key.to_multibase().map(|text| Self(format!("did:key:{text}")))
    }

    /// The DID before the `#` of a DID URL, with the fragment after it.
    ///
    /// # Errors
    /// [`Error::Pattern`] for a text without a non-empty fragment, or whose DID is none.
    pub fn of_url(url: &str) -> Result<(Self, &str), Error> {
        let (did, fragment) = url.split_once('#').ok_or(Error::Pattern)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
        if fragment.is_empty() || !fragment.chars().all(plain) {
            return Err(Error::Pattern);
        }
        Ok((did.parse()?, fragment))
    }

    /// The verification method of the key in a `did:key`.
    pub fn key_verification_method(&self) -> Option<String> {
        self.0.strip_prefix("did:key:").map(|id| format!("{self}#{id}"))
    }

    /// The DID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The method, between the first two colons.
    pub fn method(&self) -> &str {
        self.0.split(':').nth(1).unwrap_or_default()
    }

    /// Whether resolving it asks nobody.
    pub fn is_self_contained(&self) -> bool {
        matches!(self.method(), "key" | "pkh")
    }

    fn id(&self) -> &str {
        self.0.splitn(3, ':').nth(2).unwrap_or_default()
    }

    fn malformed(&self, reason: &'static str) -> Error {
        Error::Malformed { did: self.clone(), reason }
    }

    /// The document of a `did:key` or `did:pkh`, which follows from the DID alone.
    ///
    /// # Errors
    /// [`Error::Method`] for every other method, [`Error::Malformed`].
    pub fn expand(&self) -> Result<DidDocument, Error> {
        match self.method() {
            "key" => {
                let key = Key::from_multibase(self.id());
                let key = key.map_err(|_| self.malformed("is not an Ed25519, secp256k1, P-256 or P-384 public key"))?;
                Ok(DidDocument::of_one_key(self, &[self.id()], key))
            }
            "pkh" => self.expand_pkh(),
            _ => Err(Error::Method(self.clone())),
        }
    }

    /// `did:pkh:` and a CAIP-10 account id.
    fn expand_pkh(&self) -> Result<DidDocument, Error> {
        let mut parts = self.id().split(':');
        let (Some(namespace), Some(reference), Some(address), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(self.malformed("is not a CAIP-10 account id"));
        };
        let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
        if reference.is_empty() || reference.len() > 32 || !reference.bytes().all(plain) {
            return Err(self.malformed("chain reference is none of CAIP-2"));
        }
        match namespace {
            "eip155" => {
                let address = parse_evm_address(address).ok_or_else(|| self.malformed("is not an EVM account"))?;
                let methods = ["blockchainAccountId", "controller", "Eip712Method2021"];
                Ok(DidDocument::of_one_key(self, &methods, Key::Address(address)))
            }
            "tron" => {
                let bytes = bs58::decode(Some(address).filter(|a| a.len() <= 40).unwrap_or_default())
                    .with_check(Some(0x41))
                    .into_vec()
                    .map_err(|_| self.malformed("is not a Tron account"))?;
                let address = bytes[1..].try_into().map_err(|_| self.malformed("is not a Tron account"))?;
                Ok(DidDocument::of_one_key(self, &["blockchainAccountId", "controller"], Key::TronAddress(address)))
            }
            "solana" => {
                let bytes = bs58::decode(Some(address).filter(|a| a.len() <= 44).unwrap_or_default()).into_vec();
                let key = bytes.ok().and_then(|bytes| Key::from_ed25519(&bytes).ok());
                let key = key.ok_or_else(|| self.malformed("is not a Solana account that signs"))?;
                let methods = ["controller", "SolanaMethod2021", "blockchainAccountId"];
                Ok(DidDocument::of_one_key(self, &methods, key))
            }
            _ => Err(self.malformed("namespace is none of eip155, solana and tron")),
        }
    }
}

/// The document of a DID as it holds at `now`, of a `did:web` from its site.
///
/// # Errors
/// See [`Error`]; only [`Error::Unavailable`] may go away by itself.
pub async fn resolve(did: &Did, web: Web<'_>, now: DateTime<Utc>) -> Result<DidDocument, Error> {
    if did.method() == "web" { web.resolve(did, now).await } else { did.expand() }
}

/// A resolver that asks nobody, for those who trust no sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoWeb;

#[async_trait]
impl Resolver for NoWeb {
    async fn fetch(&self, _: &Location) -> Result<String, ResolveError> {
        Err(ResolveError::Refused("no site is asked".to_owned()))
    }
}

impl FromStr for Did {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let rest = text.strip_prefix("did:").ok_or(Error::Pattern)?;
        let (method, id) = rest.split_once(':').ok_or(Error::Pattern)?;
        let method_ok = method.starts_with(|c: char| c.is_ascii_lowercase())
            && method.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let id_ok = !id.is_empty()
            && id.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b':' | b'%' | b'-'));
        if !method_ok || !id_ok {
            return Err(Error::Pattern);
        }
        Ok(Self(normalised_pkh(text).unwrap_or_else(|| text.to_owned())))
    }
}

/// One spelling of the account in a `did:pkh`; `None` when it has no other. What is wrong in it stays as it is, and is
/// refused when the DID is resolved.
fn normalised_pkh(text: &str) -> Option<String> {
    let (namespace, account) = text.strip_prefix("did:pkh:")?.split_once(':')?;
    let (reference, address) = account.split_once(':')?;
    match namespace {
        "eip155" => {
            parse_evm_address(address)?;
            Some(format!("did:pkh:eip155:{reference}:{}", address.to_ascii_lowercase()))
        }
        // The namespace's registry writes the last bytes of the genesis block's id in hex, others the same number.
        "tron" => {
            let number = u64::from_str_radix(reference.strip_prefix("0x")?, 16).ok()?;
            Some(format!("did:pkh:tron:{number}:{address}"))
        }
        _ => None,
    }
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(text: &str) -> Did {
        text.parse().unwrap()
    }

    #[test]
    fn pattern_of_the_contract() {
        for good in ["did:key:z6Mk", "did:web:example.com%3A8080:user", "did:pkh:eip155:1:0xab", "did:example:a"] {
            assert!(good.parse::<Did>().is_ok(), "{good}");
        }
        for bad in ["", "did:", "did:key", "did:key:", "did:Key:z", "did:1key:z", "key:z", "did:key:z/1", "did:key:z#a"]
        {
            assert_eq!(bad.parse::<Did>(), Err(Error::Pattern), "{bad}");
        }
        // What a body bounds needs no bound of its own.
        assert!(format!("did:web:bank.example:{}", "z".repeat(2_000)).parse::<Did>().is_ok());
    }

    #[test]
    fn one_evm_account_is_one_did() {
        let mixed = did("did:pkh:eip155:1:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed");
        assert_eq!(mixed, did("did:pkh:eip155:1:0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"));
        assert!(mixed.expand().is_ok());
        let wrong = did("did:pkh:eip155:1:0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed");
        assert!(matches!(wrong.expand(), Err(Error::Malformed { .. })));
    }

    #[test]
    fn one_tron_account_is_one_did() {
        let decimal = did("did:pkh:tron:728126428:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t");
        for hex in ["0x2b6653dc", "0x2B6653DC", "0x0000002b6653dc"] {
            let same = did(&format!("did:pkh:tron:{hex}:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"));
            assert_eq!(same, decimal, "{hex}");
            let method = format!("did:pkh:tron:{hex}:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t#controller");
            assert!(decimal.expand().unwrap().authorised(&method, Purpose::Authentication).is_ok(), "{hex}");
        }
        for other in ["0x2b6653dd", "0x", "0xxyz", "0x12b6653dc", "2b6653dc", "0x+2b6653dc"] {
            let text = format!("did:pkh:tron:{other}:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t");
            assert!(text.parse::<Did>().map_or(true, |other| other != decimal), "{other}");
        }
        // On another namespace the text means something else.
        assert_eq!(did("did:pkh:solana:0x2b:x").as_str(), "did:pkh:solana:0x2b:x");
    }

    #[test]
    fn accounts_on_three_kinds_of_chain() {
        let solana =
            did("did:pkh:solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:CKg5d12Jhpej1JqtmxLJgaFqqeYjxgPqToJ4LBdvG9Ev");
        let document = solana.expand().unwrap();
        let method = document.authorised(&format!("{solana}#controller"), Purpose::AssertionMethod).unwrap();
        assert!(matches!(method.key, Key::Ed25519(_)));

        // Tron's burn address, and the same 20 bytes as an EVM account.
        let tron = did("did:pkh:tron:728126428:T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb");
        let method = format!("{tron}#blockchainAccountId");
        assert_eq!(
            tron.expand().unwrap().authorised(&method, Purpose::Authentication).unwrap().key,
            Key::TronAddress([0; 20])
        );

        for bad in [
            "did:pkh:eip155:1",
            "did:pkh:eip155:1:0x00",
            "did:pkh:eip155::0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
            "did:pkh:eip155:1:0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed:x",
            "did:pkh:tron:728126428:T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwc",
            "did:pkh:tron:728126428:1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2",
            "did:pkh:solana:x:11111111111111111111111111111112",
            "did:pkh:bip122:000000000019d6689c085ae165831e93:1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2",
            "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWq",
        ] {
            assert!(matches!(did(bad).expand(), Err(Error::Malformed { .. })), "{bad}");
        }
        assert_eq!(did("did:example:a").expand(), Err(Error::Method(did("did:example:a"))));
    }

    #[test]
    fn urls_are_a_did_and_a_fragment() {
        assert_eq!(Did::of_url("did:example:a#key-1"), Ok((did("did:example:a"), "key-1")));
        for bad in ["did:example:a", "did:example:a#", "#key-1", "did:example:a#b#c", "did:example:a?x=1#b", "x#y"] {
            assert_eq!(Did::of_url(bad), Err(Error::Pattern), "{bad}");
        }
    }
}
