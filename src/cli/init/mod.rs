//! `gw init`: from nothing to files that a role can be run with.

mod keyring;
mod role_files;
mod verifiers;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args as ClapArgs;

use config::{chains_toml::ChainsToml, networks::Network};
use events::{ChainId, Family};

use self::{
    keyring::Keyring,
    role_files::{Place, RoleFile},
    verifiers::{Given, GivenSet},
};
use super::role::Role;

/// What the file of chains is called.
pub(super) const CHAINS_TOML: &str = "chains.toml";

/// Arguments of `gw init`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Public networks, separated by commas, such as base-sepolia,solana-devnet,tron-nile; `gw init --list` shows them. Without
    /// any, the chains of the file that is there.
    #[arg(long, value_delimiter = ',')]
    network: Vec<String>,
    /// A network of one's own, described as those in config/networks are; may be given several times.
    #[arg(long)]
    network_file: Vec<PathBuf>,
    /// The node of a network, NAME=URL, in place of the public one; may be given several times.
    #[arg(long, value_name = "NAME=URL")]
    rpc_url: Vec<String>,
    /// What is to be run.
    #[arg(long, value_enum, required_unless_present = "list")]
    role: Option<Role>,
    /// Where the files are written.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// File with the passphrase of the keystores; made, with a new one, where it is not there. Without it the passphrase is
    /// asked for, and again whenever the role is started.
    #[arg(long)]
    passphrase_file: Option<PathBuf>,
    /// Where nats-server is reached.
    #[arg(long, default_value = "nats://127.0.0.1:4222")]
    nats_url: String,
    /// Where the verifier is reached: an origin, http(s)://host[:port].
    #[arg(long, default_value = "http://127.0.0.1:8090")]
    verifier_endpoint: String,
    /// A verifier of a set: its origin, and its account on each family, in whatever order; given once for each. A verifier's own
    /// among them.
    #[arg(
        long,
        value_name = "ENDPOINT=ACCOUNT,…",
        requires = "verifier_threshold",
        conflicts_with = "verifier_endpoint"
    )]
    verifier: Vec<Given>,
    /// How many verifiers of the set have to attest.
    #[arg(long, value_name = "K", requires = "verifier")]
    verifier_threshold: Option<u8>,
    /// Of a verifier, make its keys and show its accounts, which the other members of a set need before any can be set up.
    #[arg(long, conflicts_with = "verifier")]
    keys_only: bool,
    /// Show the public networks, and write nothing.
    #[arg(long)]
    list: bool,
}

/// Writes the file of chains, the role's keys and the role's file, and says what is left to do.
///
/// # Errors
/// When a file of the role is there already, a network is not known, or a file cannot be written.
pub fn run(args: &Args) -> Result<()> {
    if args.list {
        return list();
    }
    let role = args.role.context("--role is needed")?;
    ensure!(role != Role::Selector, "a selector knows no chains: config/selector.example.toml is its file");
    let directory = &args.directory;
    ensure!(!args.keys_only || role == Role::Verifier, "--keys-only is for --role verifier");
    let own = directory.join(format!("{}.toml", role.name()));
    // Looked for first: nothing is written beside a role that is set up.
    ensure!(!own.exists(), "{} exists; nothing was written", own.display());
    let networks = networks(args)?;
    fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    let mut chains = ChainsToml::open_or_new(&directory.join(CHAINS_TOML))?;
    for (network, rpc_url) in &networks {
        chains.add(network, rpc_url);
    }
    let ids: Vec<ChainId> = chains
        .chain_ids()
        .iter()
        .map(|id| id.parse().with_context(|| format!("chain_id {id}")))
        .collect::<Result<_>>()?;
    ensure!(!ids.is_empty(), "--network is needed: there are no chains yet; `gw init --list` shows the networks");
    let families: BTreeSet<Family> = ids.iter().filter_map(ChainId::family).collect();
    // A settler has to know whom it trusts before it can be written at all.
    let set = args.verifier_threshold.map(|threshold| GivenSet::new(threshold, args.verifier.clone(), &families));
    let set = set.transpose()?;
    let place = Place {
        nats_url: &args.nats_url,
        verifier_endpoint: &args.verifier_endpoint,
        set: set.as_ref(),
        chains: &chains,
        ids: &ids,
    };
    place.check(role)?;

    let mut keyring = Keyring::open(directory, args.passphrase_file.as_deref())?;
    if args.keys_only {
        let file = RoleFile::keys_only(&place, &families, &mut keyring)?;
        chains.save()?;
        let made = format!("Made {}.", directory.join(CHAINS_TOML).display());
        return report(directory, made, &file, &keyring, &networks);
    }
    let mut file = RoleFile::write(role, &place, &families, &mut keyring)?;
    for id in &ids {
        for (key, accounts) in &file.in_chains {
            if let Some(account) = id.family().and_then(|family| accounts.get(&family))
                && chains.get(id, key).is_none()
            {
                chains.set(id, key, account);
            }
        }
    }
    chains.save()?;
    // The last: where it stands, everything does.
    keyring::create(&own, file.text.as_bytes(), 0o644)?;
    file.next.push(format!("gw config check --role {} --config {}", role.name(), own.display()));
    let made = format!("Made {} and {}.", own.display(), directory.join(CHAINS_TOML).display());
    report(directory, made, &file, &keyring, &networks)
}

fn list() -> Result<()> {
    let mut lines = Vec::new();
    for name in Network::names() {
        let network = Network::named(name)?;
        let symbols: Vec<_> = network.assets.iter().map(|asset| asset.symbol.as_str()).collect();
        lines.push(format!("{name:<18} {:<44} {}", network.chain_id.as_str(), symbols.join(" ")));
    }
    super::answer(&lines.join("\n"))
}

/// The networks that are asked for, each with its node.
fn networks(args: &Args) -> Result<Vec<(Network, String)>> {
    let mut networks = Vec::new();
    for name in &args.network {
        networks.push(Network::named(name)?);
    }
    for path in &args.network_file {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        networks.push(Network::read(&path.display().to_string(), &text)?);
    }
    let mut nodes = Vec::new();
    for given in &args.rpc_url {
        let Some((name, url)) = given.split_once('=') else { bail!("--rpc-url {given}: must be NAME=URL") };
        ensure!(networks.iter().any(|network| network.name == name), "--rpc-url {given}: {name} is not asked for");
        nodes.push((name, url));
    }
    let node = |network: &Network| {
        let given = nodes.iter().find(|(name, _)| *name == network.name).map(|(_, url)| (*url).to_owned());
        given.unwrap_or_else(|| network.public_rpc_url.clone())
    };
    Ok(networks.into_iter().map(|network| (network.clone(), node(&network))).collect())
}

/// Says what was `made` and what is left to do.
fn report(
    directory: &Path,
    made: String,
    file: &RoleFile,
    keyring: &Keyring,
    networks: &[(Network, String)],
) -> Result<()> {
    let mut lines = vec![made];
    if !keyring.made().is_empty() {
        lines.push(format!(
            "New keys in {}, encrypted: {}.",
            directory.join("keys").display(),
            keyring.made().join(", ")
        ));
    }
    lines.extend(keyring.passphrase_made().map(|path| {
        format!("The passphrase is in {}: keep it apart from the keys, and a copy of both.", path.display())
    }));
    lines.push(String::new());
    for (purpose, account) in &file.shown {
        lines.push(format!("{purpose:<34} {account}"));
    }
    lines.push(String::new());
    lines.push("Next:".to_owned());
    let mut steps = file.next.clone();
    let public: Vec<_> = networks.iter().filter(|(network, url)| network.public_rpc_url == *url).collect();
    if !public.is_empty() {
        let names: Vec<_> = public.iter().map(|(network, _)| network.name.as_str()).collect();
        steps.insert(
            0,
            format!(
                "put nodes of your own into {CHAINS_TOML}: the public ones of {} are for trying out",
                names.join(", ")
            ),
        );
    }
    lines.extend(steps.iter().enumerate().map(|(at, step)| format!("{:>3}. {step}", at + 1)));
    super::answer(&lines.join("\n"))
}
