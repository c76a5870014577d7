//! Signers: keys of accounts, in this process or at a service elsewhere, behind one trait (ADR 132).
//!
//! A [`Key`] is what the adapters of chains hold. It knows its account without being asked, and gives out no signature but of that
//! account: what comes from elsewhere is verified before. It is told what is signed, not a digest of it, since some services hash
//! by themselves.
//!
//! - `local`: in memory. It answers at the first poll, so a simulation that uses local keys alone stays the same for the same
//!   seed.
//! - `web3signer`: kept by a Web3Signer, asked over HTTP.
//! - `kms`: kept by AWS KMS.

mod error;
mod http;
mod kms;
mod local;
mod verification;
mod web3signer;

use std::{fmt, sync::Arc};

use alloy::primitives::{Address, Signature};
use async_trait::async_trait;

pub use self::{
    error::SignError,
    kms::{AwsCredentials, KmsPlace},
};

/// A curve, with what an account and a signature on it are.
pub trait Curve: fmt::Debug + Send + Sync + 'static {
    /// What signatures are verified against.
    type Public: Copy + Eq + fmt::Debug + Send + Sync;
    /// What is done to a message before it is signed.
    type Hash: Copy + fmt::Debug + Send + Sync + 'static;
    /// A signature.
    type Signature: Send + 'static;

    /// An account in texts.
    fn text(public: &Self::Public) -> String;
}

/// The curve of accounts on EVM chains and Tron. Signatures have a low `s` (EIP-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Secp256k1;

/// Which hash of a message a signature on secp256k1 is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// Keccak-256: transactions of EVM chains, EIP-712 everywhere.
    Keccak256,
    /// SHA-256: transactions of Tron.
    Sha256,
}

impl Curve for Secp256k1 {
    type Public = Address;
    type Hash = Hash;
    type Signature = Signature;

    fn text(public: &Address) -> String {
        format!("{public:#x}")
    }
}

/// The curve of accounts on Solana. A message is signed as it is (RFC 8032, without a prehash).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ed25519;

impl Curve for Ed25519 {
    type Public = [u8; 32];
    type Hash = ();
    type Signature = [u8; 64];

    fn text(public: &[u8; 32]) -> String {
        bs58::encode(public).into_string()
    }
}

/// Who signs for an account.
#[async_trait]
pub trait Signer<C: Curve>: fmt::Debug + Send + Sync {
    /// The account.
    fn public(&self) -> C::Public;

    /// The account's signature over `message`, hashed with `hash`. It is verified: whoever answered in its place, no other
    /// account's signature is given out.
    ///
    /// # Errors
    /// [`SignError`]. The call ends within a bounded time.
    async fn sign(&self, hash: C::Hash, message: &[u8]) -> Result<C::Signature, SignError>;

    /// Whether the account's key is where it is said to be: asks for the public key and compares.
    ///
    /// # Errors
    /// [`SignError`].
    async fn check(&self) -> Result<(), SignError>;

    /// Whether a service has the key, so that each signature takes time and counts against a quota.
    fn is_elsewhere(&self) -> bool {
        true
    }
}

/// The key of an account, wherever it is.
pub struct Key<C: Curve>(Arc<dyn Signer<C>>);

/// The key of an account on an EVM chain or Tron.
pub type Secp256k1Key = Key<Secp256k1>;
/// The key of an account on Solana.
pub type Ed25519Key = Key<Ed25519>;

impl<C: Curve> Key<C> {
    /// The key that `signer` signs with.
    pub fn new(signer: impl Signer<C> + 'static) -> Self {
        Self(Arc::new(signer))
    }

    /// The account.
    pub fn public(&self) -> C::Public {
        self.0.public()
    }

    /// See [`Signer::check`].
    ///
    /// # Errors
    /// [`SignError`].
    pub async fn check(&self) -> Result<(), SignError> {
        self.0.check().await
    }

    /// See [`Signer::is_elsewhere`].
    pub fn is_elsewhere(&self) -> bool {
        self.0.is_elsewhere()
    }
}

impl Key<Secp256k1> {
    /// The account.
    pub fn address(&self) -> Address {
        self.public()
    }

    /// The signature over `message`, hashed with `hash`.
    ///
    /// # Errors
    /// [`SignError`].
    pub async fn sign(&self, hash: Hash, message: &[u8]) -> Result<Signature, SignError> {
        self.0.sign(hash, message).await
    }
}

impl Key<Ed25519> {
    /// The signature over `message`.
    ///
    /// # Errors
    /// [`SignError`].
    pub async fn sign(&self, message: &[u8]) -> Result<[u8; 64], SignError> {
        self.0.sign((), message).await
    }
}

impl<C: Curve> Clone for Key<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// The account, and nothing of the key.
impl<C: Curve> fmt::Debug for Key<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", C::text(&self.public()))
    }
}

/// Keys are equal that are of one account.
impl<C: Curve> PartialEq for Key<C> {
    fn eq(&self, other: &Self) -> bool {
        self.public() == other.public()
    }
}

impl<C: Curve> Eq for Key<C> {}
