//! The fixed keys of the development network. Everyone knows them: never use them where money is.

use alloy::{
    primitives::{Address, B256, keccak256},
    signers::local::PrivateKeySigner,
};
use ed25519_dalek::SigningKey;

use events::{Family, Hash32, selection::SelectorSigner};
use protocol::message_signature::Signer;

/// A role of the development network. It holds an EVM key, which is its key on Tron, too, and a Solana key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Deploys the contracts and mints tokens.
    Deployer,
    /// Signs reservations.
    Reserver,
    /// May retire an escrow and propose another reserver.
    Guardian,
    /// The first verifier, or the only one: attests deliveries.
    Releaser,
    /// A further verifier of a set; 2 to 16.
    Verifier(u8),
    /// Sends the gateway's transactions.
    Submitter,
    /// Pays.
    Payer,
    /// Is paid.
    Recipient,
    /// Settles; 1 to 3.
    Settler(u8),
}

impl Role {
    /// Every role but those of further verifiers, which send no transactions.
    pub const ALL: [Self; 10] = [
        Self::Deployer,
        Self::Reserver,
        Self::Guardian,
        Self::Releaser,
        Self::Submitter,
        Self::Payer,
        Self::Recipient,
        Self::Settler(1),
        Self::Settler(2),
        Self::Settler(3),
    ];

    /// The role of verifier `n`, counted from 1.
    pub fn verifier(n: u8) -> Self {
        match n {
            1 => Self::Releaser,
            n => Self::Verifier(n),
        }
    }

    /// The role's private key.
    pub fn secret(self) -> B256 {
        keccak256(format!("gw dev key of {self:?}"))
    }

    /// The private key as hex with 0x, as configuration files hold it.
    pub fn secret_hex(self) -> String {
        self.secret().to_string()
    }

    /// The role's signer.
    pub fn signer(self) -> PrivateKeySigner {
        // A keccak-256 digest is outside the curve's order with probability 2^-128, and these are not.
        PrivateKeySigner::from_bytes(&self.secret()).unwrap_or_else(|_| PrivateKeySigner::random())
    }

    /// The role's address.
    pub fn address(self) -> Address {
        self.signer().address()
    }

    /// The address as normalised text.
    pub fn account(self) -> String {
        self.address().to_string().to_ascii_lowercase()
    }

    /// The account on Tron, `T…`.
    pub fn tron_account(self) -> String {
        chains_tron::address::text(self.address())
    }

    /// The role's Solana key.
    pub fn solana_key(self) -> SigningKey {
        SigningKey::from_bytes(&Hash32::sha256(format!("gw dev solana key of {self:?}")).0)
    }

    /// The Solana key as wallets export it and configuration files hold it: Base58 of seed and public key.
    pub fn solana_secret(self) -> String {
        bs58::encode(self.solana_key().to_keypair_bytes()).into_string()
    }

    /// The account on Solana, Base58.
    pub fn solana_account(self) -> String {
        solana_account(&self.solana_key())
    }

    /// The account on chains of `family`, as text.
    pub fn account_on(self, family: Family) -> String {
        match family {
            Family::Evm => self.account(),
            Family::Solana => self.solana_account(),
            Family::Tron => self.tron_account(),
        }
    }
}

/// The Solana account of a key, Base58.
pub fn solana_account(key: &SigningKey) -> String {
    bs58::encode(key.verifying_key().as_bytes()).into_string()
}

/// Signs what the development network's gateways ask of the verifier. Everyone knows the key: never use it where money is.
pub fn gateway_signer() -> Signer {
    Signer::new(SigningKey::from_bytes(&gateway_secret().0))
}

/// The same key as configuration files hold it.
pub fn gateway_secret() -> Hash32 {
    Hash32::sha256("gw dev gateway key")
}

/// The key of the development network's quote selector. Everyone knows it: never use it where money is.
pub fn selector_signer() -> SelectorSigner {
    SelectorSigner::Ed25519(SigningKey::from_bytes(&selector_secret().0))
}

/// The same as configuration files hold it.
pub fn selector_secret() -> Hash32 {
    Hash32::sha256("gw dev selector key")
}
