//! Signers of the accounts in a configuration: keys in this process, or at the services that keep them (ADR 132).

use std::sync::OnceLock;

use alloy::{primitives::Address, signers::local::PrivateKeySigner};
use anyhow::{Context, Result, bail};
use futures::future::join_all;

use chains_solana::keys::keypair;
use config::{AccountKey, CheckedKey, GatewayChain, KeyService, Secret, Signs, VerifierConfig};
use events::{Account, Family};
use signer::{AwsCredentials, Curve, Ed25519Key, Key, KmsPlace, Secp256k1Key, SignError};

/// The keys of a gateway on one chain.
pub(crate) struct ChainKeys<C: Curve> {
    pub(crate) reserver: Key<C>,
    pub(crate) draining_reservers: Vec<Key<C>>,
    pub(crate) submitters: Vec<Key<C>>,
    pub(crate) exit_submitters: Vec<Key<C>>,
    pub(crate) draining_submitters: Vec<Key<C>>,
}

/// A curve with the keys of some families.
pub(crate) trait FamilyKeys: Curve + Sized {
    /// The key of a chain of the family that stands under `name`. Nothing is asked yet.
    ///
    /// # Errors
    /// When it is not a key; the text names the rule and says nothing of the key.
    fn key(family: Family, name: &str, key: &AccountKey, signs: Signs) -> Result<Key<Self>>;
}

/// The process' credentials of AWS, which all keys share: they are renewed once for all.
fn credentials() -> AwsCredentials {
    static SHARED: OnceLock<AwsCredentials> = OnceLock::new();
    SHARED.get_or_init(AwsCredentials::environment).clone()
}

impl FamilyKeys for signer::Secp256k1 {
    fn key(family: Family, name: &str, key: &AccountKey, signs: Signs) -> Result<Secp256k1Key> {
        let distant = match key {
            AccountKey::Here(secret) => return local(secret).with_context(|| name.to_owned()),
            AccountKey::Elsewhere(distant) => distant.check(family, name, signs)?,
        };
        let CheckedKey { service, account, call_max } = distant;
        let account = address(family, &account).with_context(|| format!("{name}.account"))?;
        match service {
            KeyService::Web3Signer(url) => Ok(Secp256k1Key::web3signer(&url, account, call_max)?),
            KeyService::Kms { key_id, region, endpoint } => {
                let place = KmsPlace { key_id, region, endpoint, call_max };
                Ok(Secp256k1Key::kms(place, account, credentials())?)
            }
        }
    }
}

impl FamilyKeys for signer::Ed25519 {
    fn key(family: Family, name: &str, key: &AccountKey, signs: Signs) -> Result<Ed25519Key> {
        let distant = match key {
            AccountKey::Here(secret) => {
                return keypair(secret.expose()).map(Ed25519Key::from).with_context(|| name.to_owned());
            }
            AccountKey::Elsewhere(distant) => distant.check(family, name, signs)?,
        };
        let CheckedKey { service, account, call_max } = distant;
        let public = chains_solana::authorization::wallet_key(&account).context("is not an Ed25519 public key")?;
        match service {
            KeyService::Web3Signer(_) => bail!("{name}.web3signer: has no keys of Ed25519"),
            KeyService::Kms { key_id, region, endpoint } => {
                let place = KmsPlace { key_id, region, endpoint, call_max };
                Ok(Ed25519Key::kms(place, public.to_bytes(), credentials())?)
            }
        }
    }
}

/// The gateway's keys on the chain.
///
/// # Errors
/// See [`FamilyKeys::key`]; the text names the chain, too.
pub(crate) fn of_chain<C: FamilyKeys>(served: &GatewayChain) -> Result<ChainKeys<C>> {
    let (family, chain_id) = (served.chain.family(), &served.chain.common().chain_id);
    let key = |name: &str, key: &AccountKey, signs| {
        C::key(family, name, key, signs).with_context(|| format!("keys of {chain_id}"))
    };
    let keys = |name: &str, keys: &[AccountKey], signs| {
        keys.iter()
            .enumerate()
            .map(|(i, listed)| key(&format!("{name}[{i}]"), listed, signs))
            .collect::<Result<Vec<_>>>()
    };
    Ok(ChainKeys {
        reserver: key("reserver_key", &served.reserver_key, Signs::Statements)?,
        draining_reservers: keys("draining_reserver_keys", &served.draining_reserver_keys, Signs::Statements)?,
        submitters: keys("submitter_keys", &served.submitter_keys, Signs::Transactions)?,
        exit_submitters: keys("exit_submitter_keys", &served.exit_submitter_keys, Signs::Transactions)?,
        draining_submitters: keys("draining_submitter_keys", &served.draining_submitter_keys, Signs::Transactions)?,
    })
}

/// The releaser's key of a family, where the verifier has one.
///
/// # Errors
/// See [`FamilyKeys::key`].
pub(crate) fn releaser<C: FamilyKeys>(config: &VerifierConfig, family: Family) -> Result<Option<Key<C>>> {
    let (name, key) = config.releaser_key_of(family);
    key.map(|key| C::key(family, name, key, Signs::Statements)).transpose()
}

fn local(secret: &Secret) -> Result<Secp256k1Key> {
    // The parser's own error would repeat what it was given.
    let key = secret.expose().parse::<PrivateKeySigner>().ok();
    key.map(Secp256k1Key::from).context("must be a private key, 0x and 64 hex digits")
}

fn address(family: Family, account: &Account) -> Result<Address> {
    match family {
        Family::Tron => Ok(chains_tron::address::parse_address(account.as_str())?),
        Family::Evm | Family::Solana => account.as_str().parse().context("is not an address"),
    }
}

/// A key that a service keeps, to ask the service about.
pub(crate) struct DistantSigner {
    /// The chain; none where the key is for all chains of a family.
    pub(crate) chain_id: Option<String>,
    /// The key's name in the file.
    pub(crate) name: String,
    /// The service, as far as it may be shown.
    pub(crate) service: String,
    /// The account.
    pub(crate) account: String,
    key: AnyKey,
}

enum AnyKey {
    Secp256k1(Secp256k1Key),
    Ed25519(Ed25519Key),
}

impl DistantSigner {
    /// The key under `name`, where a service keeps it.
    fn of(
        chain_id: Option<String>,
        family: Family,
        name: &str,
        key: &AccountKey,
        signs: Signs,
    ) -> Result<Option<Self>> {
        let AccountKey::Elsewhere(distant) = key else { return Ok(None) };
        let CheckedKey { service, account, .. } = distant.check(family, name, signs)?;
        let (service, account) = (service.to_string(), account.to_string());
        let key = match family {
            Family::Evm | Family::Tron => AnyKey::Secp256k1(FamilyKeys::key(family, name, key, signs)?),
            Family::Solana => AnyKey::Ed25519(FamilyKeys::key(family, name, key, signs)?),
        };
        Ok(Some(Self { chain_id, name: name.to_owned(), service, account, key }))
    }

    /// Asks for the public key, and compares.
    ///
    /// # Errors
    /// [`SignError`].
    pub(crate) async fn check(&self) -> Result<(), SignError> {
        match &self.key {
            AnyKey::Secp256k1(key) => key.check().await,
            AnyKey::Ed25519(key) => key.check().await,
        }
    }
}

/// The keys of a gateway's chains that services keep.
///
/// # Errors
/// See [`FamilyKeys::key`].
pub(crate) fn distant_of_gateway(chains: &[GatewayChain]) -> Result<Vec<DistantSigner>> {
    let mut found = Vec::new();
    for served in chains {
        let (family, chain_id) = (served.chain.family(), served.chain.common().chain_id.to_string());
        for (name, key, signs) in served.keys() {
            found.extend(DistantSigner::of(Some(chain_id.clone()), family, &name, key, signs)?);
        }
    }
    Ok(found)
}

/// The keys of a verifier that services keep.
///
/// # Errors
/// See [`FamilyKeys::key`].
pub(crate) fn distant_of_verifier(config: &VerifierConfig) -> Result<Vec<DistantSigner>> {
    let mut found = Vec::new();
    for family in [Family::Evm, Family::Solana, Family::Tron] {
        if let (name, Some(key)) = config.releaser_key_of(family) {
            found.extend(DistantSigner::of(None, family, name, key, Signs::Statements)?);
        }
    }
    Ok(found)
}

/// Asks whether the keys are where they are said to be, all at once. One that is away may come back and holds up no start: what it
/// signs is verified then.
///
/// # Errors
/// [`SignError::OtherKey`]: nothing that the service signs could ever be used.
pub(crate) async fn check(keys: &[DistantSigner]) -> Result<(), SignError> {
    for (key, checked) in keys.iter().zip(join_all(keys.iter().map(DistantSigner::check)).await) {
        match checked {
            Ok(()) => tracing::info!(name = key.name, service = key.service, account = key.account, "a key is found"),
            Err(error @ SignError::OtherKey { .. }) => return Err(error),
            Err(error) => {
                tracing::warn!(name = key.name, %error, "a key is not found yet, and what needs it waits");
            }
        }
    }
    Ok(())
}
