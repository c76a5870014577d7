//! Web3Signer: a service that keeps keys of secp256k1, asked over HTTP (its API for `eth1`).
//!
//! `POST /api/v1/eth1/sign/{identifier}` takes data, hashes it with Keccak-256 by itself and answers with r, s and v in hex. The
//! identifier is the public key, which `GET /api/v1/eth1/publicKeys` lists. So nothing but Keccak-256 can be signed with, and no
//! digest whose preimage is not known.

use std::{fmt, sync::OnceLock, time::Duration};

use alloy::primitives::{Address, Signature, U256, keccak256};
use async_trait::async_trait;
use serde_json::json;
use url::Url;

use crate::{Hash, Key, Secp256k1, SignError, Signer, http::Service, verification};

/// Bytes of a public key without the byte that says that it is uncompressed.
const PUBLIC_BYTES: usize = 64;
/// Bytes of r, s and v.
const SIGNATURE_BYTES: usize = 65;

/// A key that a Web3Signer keeps.
struct Web3Signer {
    service: Service,
    base: Url,
    account: Address,
    /// The key's name there, once it was found.
    identifier: OnceLock<String>,
}

/// Its address may hold a password.
impl fmt::Debug for Web3Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Web3Signer").field(&self.service.key).finish()
    }
}

impl Key<Secp256k1> {
    /// The key of `account` that the Web3Signer at `url` keeps. Nothing is asked yet. Each call may take `call_max`.
    ///
    /// # Errors
    /// [`SignError::Unusable`] where the address cannot be used.
    pub fn web3signer(url: &Url, account: Address, call_max: Duration) -> Result<Self, SignError> {
        let key = format!("the key of {account:#x} at the Web3Signer {}", url.origin().ascii_serialization());
        if url.cannot_be_a_base() {
            return Err(SignError::Unusable { key, reason: "its address cannot be used".to_owned() });
        }
        let mut base = url.clone();
        base.set_query(None);
        base.set_fragment(None);
        base.set_path(&format!("{}/api/v1/eth1/", url.path().trim_end_matches('/')));
        let service = Service::new(key, call_max)?;
        Ok(Self::new(Web3Signer { service, base, account, identifier: OnceLock::new() }))
    }
}

impl Web3Signer {
    fn at(&self, path: &str) -> Result<Url, SignError> {
        self.base.join(path).map_err(|_| self.service.unreadable("its address cannot be joined"))
    }

    /// The account's name there. It is asked for once.
    async fn identifier(&self) -> Result<&str, SignError> {
        if let Some(known) = self.identifier.get() {
            return Ok(known);
        }
        // Each for itself, so that nobody waits for a question that somebody else has put.
        let found = self.find().await?;
        Ok(self.identifier.get_or_init(|| found))
    }

    async fn find(&self) -> Result<String, SignError> {
        let answer = self.service.ask(self.service.get(self.at("publicKeys")?)).await?;
        if answer.status != 200 {
            return Err(self.service.of_status(answer.status, ""));
        }
        let listed: Vec<String> = serde_json::from_slice(&answer.body)
            .map_err(|_| self.service.unreadable("its list of public keys is not one"))?;
        let own = listed.into_iter().find(|identifier| address_of(identifier) == Some(self.account));
        own.ok_or_else(|| self.service.unusable(format!("it keeps no key of {:#x}", self.account)))
    }
}

/// The account of a public key in hex; `None` for what is none.
fn address_of(identifier: &str) -> Option<Address> {
    let bytes = alloy::hex::decode(identifier).ok()?;
    let point = match bytes.len() {
        PUBLIC_BYTES => &bytes[..],
        65 if bytes[0] == 0x04 => &bytes[1..],
        _ => return None,
    };
    Some(Address::from_slice(&keccak256(point)[12..]))
}

#[async_trait]
impl Signer<Secp256k1> for Web3Signer {
    fn public(&self) -> Address {
        self.account
    }

    async fn sign(&self, hash: Hash, message: &[u8]) -> Result<Signature, SignError> {
        if hash != Hash::Keccak256 {
            let reason = "a Web3Signer hashes with Keccak-256 alone".to_owned();
            return Err(SignError::Unsuited { key: self.service.key.clone(), reason });
        }
        let url = self.at(&format!("sign/{}", self.identifier().await?))?;
        let data = json!({"data": format!("0x{}", alloy::hex::encode(message))});
        let answer = self.service.ask(self.service.post(url).json(&data)).await?;
        if answer.status != 200 {
            return Err(self.service.of_status(answer.status, ""));
        }
        let unreadable = || self.service.unreadable("its answer is not a signature");
        let text = std::str::from_utf8(&answer.body).map_err(|_| unreadable())?;
        let bytes = alloy::hex::decode(text.trim()).map_err(|_| unreadable())?;
        if bytes.len() != SIGNATURE_BYTES {
            return Err(unreadable());
        }
        let scalars = (U256::from_be_slice(&bytes[..32]), U256::from_be_slice(&bytes[32..64]));
        verification::of_account(&self.service, self.account, hash.of(message), scalars)
    }

    async fn check(&self) -> Result<(), SignError> {
        self.find().await.map(drop)
    }
}
