//! Subject of a pre-flight check: what a role's configuration says that can be held against the world.

use std::{collections::BTreeSet, path::Path, path::PathBuf};

use anyhow::{Context, Result};

use chains::{config::ChainConfig, diagnosis::Diagnosis};
use config::{
    AUDITOR_INBOX_PREFIX, AuditorConfig, AuditorNatsConfig, GatewayConfig, Secret, SelectorConfig, Signs,
    VerifierConfig, account_of,
};
use events::{Account, AssetId, Family};
use journal_jetstream::connection::{self, Identity};
use settler::nats_credentials::inbox_prefix;
use signer::SignError;

use super::{
    Check,
    chain::{Examination, Sender},
    disk,
    endpoints::{self, Attestors},
    nats::{self, Bus, Part},
};
use crate::{
    cli::role::Role,
    operator::named_verifiers,
    signers::{self, DistantSigner},
};

/// Fewer transactions than a settler's coins pay for are warned of.
const SETTLER_TRANSACTIONS_WARNING: u64 = 20;

/// What is looked at.
pub(super) struct Subject {
    chains: Vec<Examination>,
    bus: Option<Bus>,
    /// Verifiers, and sets of them.
    verifiers: BTreeSet<Attestors>,
    /// Where clients reach a gateway.
    base_url: Option<String>,
    directories: Vec<PathBuf>,
    /// Keys that services keep.
    signers: Vec<DistantSigner>,
}

impl Subject {
    /// Reads a role's file as the role does.
    ///
    /// # Errors
    /// When it cannot be used; the text names the key and the rule.
    pub(super) fn load(role: Role, path: &Path) -> Result<Self> {
        match role {
            Role::Gateway => Self::gateway(GatewayConfig::load(path)?),
            Role::Settler => Self::settler(&config::settler(path)?),
            Role::Verifier => {
                let config = VerifierConfig::load(path)?;
                let signers = signers::distant_of_verifier(&config)?;
                Ok(Self { signers, ..Self::of_chains(config.chains) })
            }
            Role::Auditor => Self::auditor(AuditorConfig::load(path)?),
            Role::Selector => Self::selector(&SelectorConfig::load(path)?),
        }
    }

    fn of_chains(chains: Vec<ChainConfig>) -> Self {
        Self {
            chains: chains.into_iter().map(Examination::of).collect(),
            bus: None,
            verifiers: BTreeSet::new(),
            base_url: None,
            directories: Vec::new(),
            signers: Vec::new(),
        }
    }

    fn gateway(config: GatewayConfig) -> Result<Self> {
        let identity = Identity::in_file(&config.nats.seed_file).context("nats.seed_file")?;
        let journal = nats::Journal { shards: config.journal.shards, replicas: usize::from(config.journal.replicas) };
        let bus = Bus {
            servers: connection::servers(&config.nats.url, config.nats.ca_file.as_deref()).context("nats.url")?,
            identity,
            ca_file: config.nats.ca_file.clone(),
            inbox_prefix: None,
            part: Part::Gateway(journal),
        };
        let verifiers = named_verifiers(&config).iter().map(Attestors::of).collect();
        let signers = signers::distant_of_gateway(&config.chains)?;
        let mut chains = Vec::new();
        for served in config.chains {
            let (family, common) = (served.chain.family(), served.chain.common().clone());
            let mut senders = Vec::new();
            for (role, name, keys) in [
                ("submitter", "submitter_keys", &served.submitter_keys),
                ("exit submitter", "exit_submitter_keys", &served.exit_submitter_keys),
            ] {
                for key in keys {
                    let text = key.account(family, name, Signs::Transactions)?;
                    let account = Account::parse(family, &text).with_context(|| format!("{name}: has no account"))?;
                    senders.push(Sender { role, account, least: common.submitter_deposits_warning });
                }
            }
            chains.push(Examination { senders, ..Examination::of(served.chain) });
        }
        Ok(Self {
            chains,
            bus: Some(bus),
            verifiers,
            base_url: Some(config.http.base_url.clone()),
            directories: vec![config.projections.directory],
            signers,
        })
    }

    fn settler(config: &settler::Config) -> Result<Self> {
        let options = config.options()?;
        let key = config.signing_key()?;
        let token = events::Did::from_ed25519(&key.verifying_key()).token();
        let bus = Bus {
            servers: connection::servers(&config.nats.url, config.nats.ca_file.as_deref()).context("nats.url")?,
            identity: Identity::of(&key),
            ca_file: config.nats.ca_file.clone(),
            inbox_prefix: Some(inbox_prefix(&token)),
            part: Part::Settler(token),
        };
        let destinations: BTreeSet<&AssetId> =
            config.corridors.iter().map(|corridor| &corridor.destination_asset).collect();
        let mut chains = Vec::new();
        for chain in &config.chains {
            let family = chain.family();
            let (name, key) = match family {
                Family::Evm => ("evm_private_key", &config.evm_private_key),
                Family::Solana => ("solana_private_key", &config.solana_private_key),
                Family::Tron => ("tron_private_key", &config.tron_private_key),
            };
            let Some(key) = key else { continue };
            let account = account(family, name, &settlers_key(family, key))?;
            let here = |asset: &&&AssetId| *asset.chain() == chain.common().chain_id;
            let holdings = destinations.iter().filter(here).map(|asset| ((*asset).clone(), account.clone())).collect();
            let sender = Sender { role: "settler", account, least: SETTLER_TRANSACTIONS_WARNING };
            chains.push(Examination { senders: vec![sender], holdings, ..Examination::of(chain.clone()) });
        }
        let verifiers = options.verifiers.values().map(Attestors::of).collect();
        Ok(Self { chains, bus: Some(bus), verifiers, ..Self::of_chains(Vec::new()) })
    }

    fn auditor(config: AuditorConfig) -> Result<Self> {
        let bus = config.nats.map(|nats| auditor_bus(&nats)).transpose()?;
        let directories = config.state.iter().filter_map(|state| state.parent()).map(Path::to_owned).collect();
        Ok(Self { bus, directories, ..Self::of_chains(config.chains) })
    }

    fn selector(config: &SelectorConfig) -> Result<Self> {
        let key = config.signer()?.key();
        let bus = Bus {
            servers: connection::servers(&config.nats.url, config.nats.ca_file.as_deref()).context("nats.url")?,
            identity: config.identity()?,
            ca_file: config.nats.ca_file.clone(),
            inbox_prefix: None,
            part: Part::Selector(protocol::selection::selector_subject(&key)),
        };
        Ok(Self { bus: Some(bus), ..Self::of_chains(Vec::new()) })
    }

    /// All checks, ready to run.
    pub(super) fn checks(self) -> Vec<Check> {
        let mut checks: Vec<Check> = self.chains.into_iter().flat_map(Examination::checks).collect();
        checks.extend(self.signers.into_iter().map(signer));
        if let Some(bus) = self.bus {
            checks.push(Check::new("nats", "server", bus.examine()));
        }
        let verifiers = self.verifiers.into_iter();
        checks.extend(verifiers.map(|attestors| Check::new("endpoints", "verifier", endpoints::verifiers(attestors))));
        let base_url = self.base_url.into_iter();
        checks.extend(base_url.map(|url| Check::new("endpoints", "base_url", endpoints::base_url(url))));
        let directories = self.directories.into_iter();
        checks.extend(directories.map(|path| Check::new("disk", "directory", async move { disk::directory(&path) })));
        checks
    }
}

/// Whether a service has the key that it is said to keep.
fn signer(key: DistantSigner) -> Check {
    let place = key.chain_id.clone().unwrap_or_else(|| "keys".to_owned());
    Check::new(place, "key", async move {
        let subject = format!("{} at {}", key.name, key.service);
        vec![match key.check().await {
            Ok(()) => Diagnosis::ok(subject, format!("it is that of {}", key.account)),
            Err(error @ SignError::OtherKey { .. }) => {
                Diagnosis::wrong(subject, error, "name the account of the key that is there, or have the key put there")
            }
            Err(error) => Diagnosis::wrong(
                subject,
                error,
                "see that the service runs, knows the key, and lets this machine use it",
            ),
        }]
    })
}

fn auditor_bus(config: &AuditorNatsConfig) -> Result<Bus> {
    let prefix = if config.inbox_prefix.is_empty() { AUDITOR_INBOX_PREFIX } else { &config.inbox_prefix };
    Ok(Bus {
        servers: connection::servers(&config.url, config.ca_file.as_deref()).context("nats.url")?,
        identity: Identity::in_file(&config.seed_file).context("nats.seed_file")?,
        ca_file: config.ca_file.clone(),
        inbox_prefix: Some(prefix.to_owned()),
        part: Part::Auditor,
    })
}

fn account(family: Family, key: &str, secret: &Secret) -> Result<Account> {
    let text = account_of(family, key, secret)?;
    Account::parse(family, &text).with_context(|| format!("{key}: has no account"))
}

/// A settler's key may stand without 0x.
pub(in crate::cli) fn settlers_key(family: Family, key: &str) -> Secret {
    Secret::new(match family {
        Family::Evm | Family::Tron if !key.starts_with("0x") => format!("0x{key}"),
        Family::Evm | Family::Solana | Family::Tron => key.to_owned(),
    })
}
