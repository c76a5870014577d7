//! Keys of payers: in this process, or wherever else a [`signer`] finds them.

use std::fmt;

use alloy::primitives::{Address, Signature};
use events::{Account, Family};
use signer::{Ed25519Key, Hash, Secp256k1Key};

use crate::error::Error;

/// The key of an account.
#[derive(Clone, PartialEq, Eq)]
pub enum Key {
    /// On EVM chains and Tron.
    Secp256k1(Secp256k1Key),
    /// On Solana.
    Ed25519(Ed25519Key),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secp256k1(key) => key.fmt(f),
            Self::Ed25519(key) => key.fmt(f),
        }
    }
}

impl Key {
    /// The key that a text is: `0x` and 64 hex digits for EVM chains and Tron; a keypair in Base58, or as `solana-keygen` writes
    /// it, for Solana.
    ///
    /// # Errors
    /// [`Error::Key`], which says nothing of the text.
    pub fn parse(family: Family, text: &str) -> Result<Self, Error> {
        let refused = |rule: &str| Error::Key(rule.to_owned());
        match family {
            Family::Evm | Family::Tron => {
                let digits = text.trim();
                let digits = digits.strip_prefix("0x").unwrap_or(digits);
                let key = (digits.len() == 64).then(|| digits.parse::<alloy::signers::local::PrivateKeySigner>());
                let key = key.and_then(Result::ok).ok_or_else(|| refused("the key is not 0x and 64 hex digits"))?;
                Ok(Self::Secp256k1(key.into()))
            }
            #[cfg(feature = "solana")]
            Family::Solana => {
                let key = chains_solana::keys::keypair(text.trim())
                    .map_err(|_| refused("the key is not a Solana keypair"))?;
                Ok(Self::Ed25519(key.into()))
            }
            #[cfg(not(feature = "solana"))]
            Family::Solana => Err(refused("this build has no Solana")),
        }
    }

    /// The account that it has on chains of this family; `None` where it has none.
    pub fn account(&self, family: Family) -> Option<Account> {
        match (self, family) {
            (Self::Secp256k1(key), Family::Evm | Family::Tron) => Account::from_bytes(family, key.address().as_slice()),
            (Self::Ed25519(key), Family::Solana) => Account::from_bytes(family, &key.public()),
            (Self::Secp256k1(_), Family::Solana) | (Self::Ed25519(_), Family::Evm | Family::Tron) => None,
        }
    }

    pub(crate) fn secp256k1(&self) -> Result<&Secp256k1Key, Error> {
        match self {
            Self::Secp256k1(key) => Ok(key),
            Self::Ed25519(_) => Err(Error::Key("the key is Solana's".to_owned())),
        }
    }

    #[cfg(feature = "solana")]
    pub(crate) fn ed25519(&self) -> Result<&Ed25519Key, Error> {
        match self {
            Self::Ed25519(key) => Ok(key),
            Self::Secp256k1(_) => Err(Error::Key("the key is not Solana's".to_owned())),
        }
    }

    pub(crate) fn address(&self) -> Result<Address, Error> {
        Ok(self.secp256k1()?.address())
    }
}

/// The signature over `message`, hashed with `hash`.
pub(crate) async fn sign_secp256k1(key: &Key, hash: Hash, message: &[u8]) -> Result<Signature, Error> {
    key.secp256k1()?.sign(hash, message).await.map_err(|error| Error::Key(error.to_string()))
}
