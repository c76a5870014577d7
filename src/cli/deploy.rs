//! `gw deploy`: puts the contracts on a chain, or compares what is there with what should be.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use alloy::signers::local::PrivateKeySigner;
use anyhow::{Context, Result, bail, ensure};
use clap::Args as ClapArgs;

use chains::{
    config::ApiKey,
    deployment::{Contracts, DeployError, Deployment, Finding, Guardian, Plan},
};
use chains_evm::deploy::EvmDeployment;
use chains_solana::deploy::{SolanaDeployment, UpgradeAuthority};
use chains_tron::deploy::{Permit2, TronDeployment};
use config::{Secret, chains_toml::ChainsToml, networks::Network};
use events::{Account, ChainId, Family};

use super::{init::CHAINS_TOML, notes::FileNotes};

/// How long one call to a node may take.
const RPC_TIMEOUT: Duration = Duration::from_secs(30);
/// Where Uniswap deployed Permit2 on every chain that has it.
const PERMIT2: &str = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
/// What an explorer is given to compile the contracts by itself.
const STANDARD_JSON: &str = include_str!("../../contracts/artifacts/standard-input.json");

/// Arguments of `gw deploy`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The chain: its CAIP-2 id, or the name of a public network.
    #[arg(long, required_unless_present = "standard_json")]
    chain: Option<String>,
    /// The file of chains, into which the addresses are written.
    #[arg(long, default_value = CHAINS_TOML)]
    chains: PathBuf,
    /// Keystore of the account that pays. On Solana it is the guardian until the deployment is over.
    #[arg(long)]
    payer: Option<PathBuf>,
    /// File with the passphrase of the keystore; asked for without it.
    #[arg(long, env = "GW_PASSPHRASE_FILE")]
    passphrase_file: Option<PathBuf>,
    /// Who can end deposits and propose another reserver, and on Solana, as the program's upgrade authority, replace it: an
    /// account, as a rule a multi-signature one, or `nobody`.
    #[arg(long)]
    guardian: Option<String>,
    /// On Tron: make a Permit2 of one's own, too, by which the escrow draws (ADR 156), unless the file of chains names one as the
    /// chain's `permit2`: then it draws by that.
    #[arg(long, conflicts_with = "verify")]
    own_permit2: bool,
    /// Do it. Without this it is only shown what there is to do, and what it costs.
    #[arg(long)]
    yes: bool,
    /// Compare what is at the addresses in the file of chains with what this version was built with. Needs no payer.
    #[arg(long, conflicts_with_all = ["yes", "payer"])]
    verify: bool,
    /// Print the compiler's standard JSON input of the contracts, for an explorer's verification.
    #[arg(long, conflicts_with_all = ["yes", "verify"])]
    standard_json: bool,
}

/// The key of a Tron chain under which the factory of deposit addresses stands.
const DEPOSIT_ADDRESS_FACTORY: &str = "deposit_address_factory";

/// Shows what there is to do on a chain, does it, or verifies it.
///
/// # Errors
/// When the node does not answer, refuses, or something is not as it should be.
pub async fn run(args: &Args) -> Result<()> {
    if args.standard_json {
        return super::answer(STANDARD_JSON.trim_end());
    }
    let named = args.chain.as_deref().context("--chain is needed")?;
    let mut chains = ChainsToml::open(&args.chains)?;
    let chain = Chain::of(&chains, chain_id(named)?, &args.chains)?;
    let guardian = guardian(args.guardian.as_deref(), chain.family)?;
    if args.verify {
        let contracts = chain.contracts(&chains)?;
        let findings = chain.deployment(guardian.unwrap_or(Guardian::Any), None, args)?.verify(&contracts).await?;
        return show_findings(&chain.id, &findings);
    }
    let guardian =
        guardian.context("--guardian ACCOUNT, or --guardian nobody, is needed: it can't be changed later")?;
    let payer = args.payer.as_deref().context("--payer KEYSTORE is needed: the account that pays")?;
    let payer = open(payer, args.passphrase_file.as_deref())?;
    let deployment = chain.deployment(guardian, Some(&payer), args)?;
    let notes = FileNotes::beside(&args.chains, &chain.id)?;

    let plan = deployment.plan(&notes).await?;
    show_plan(&chain, &plan)?;
    if !args.yes {
        return super::answer("Nothing was sent. Add --yes to do it.");
    }
    let contracts = match deployment.run(&notes, &|what: &str| eprintln!("{what}")).await {
        Ok(contracts) => contracts,
        Err(error @ DeployError::Unanswered(_)) => {
            return Err(error).context("stopped; the same command goes on from here");
        }
        Err(error) => return Err(error.into()),
    };
    let findings = deployment.verify(&contracts).await?;
    chains.set(&chain.id, "escrow_contract", contracts.escrow.as_str());
    chains.set(&chain.id, "fulfillment_proxy", contracts.proxy.as_str());
    let mut written =
        vec![format!("escrow_contract   {}", contracts.escrow), format!("fulfillment_proxy {}", contracts.proxy)];
    if let Some(factory) = &contracts.deposit_address_factory {
        chains.set(&chain.id, DEPOSIT_ADDRESS_FACTORY, factory.as_str());
        written.push(format!("{DEPOSIT_ADDRESS_FACTORY} {factory}"));
    }
    if let Some(permit2) = &contracts.permit2 {
        chains.set(&chain.id, "permit2", permit2.as_str());
        written.push(format!("permit2           {permit2}"));
    }
    chains.save()?;
    super::answer(&format!("{}\nare written to {}.", written.join("\n"), args.chains.display()))?;
    show_findings(&chain.id, &findings)
}

/// The chain that a word names.
fn chain_id(named: &str) -> Result<ChainId> {
    if let Ok(network) = Network::named(named) {
        return Ok(network.chain_id);
    }
    named.parse().with_context(|| format!("--chain {named}: is neither a CAIP-2 id nor a public network"))
}

fn guardian(named: Option<&str>, family: Family) -> Result<Option<Guardian>> {
    match named {
        None => Ok(None),
        Some("nobody") => Ok(Some(Guardian::Nobody)),
        Some(text) => {
            let account = Account::parse(family, text).with_context(|| format!("--guardian {text}"))?;
            Ok(Some(Guardian::Account(account)))
        }
    }
}

fn open(path: &Path, passphrase_file: Option<&Path>) -> Result<Secret> {
    let mut passphrase = config::keystore::Passphrase::new(passphrase_file.map(Path::to_owned));
    let passphrase = passphrase.get().map_err(anyhow::Error::msg)?;
    config::keystore::open(path, passphrase).with_context(|| path.display().to_string())
}

/// What the file of chains says of a chain.
struct Chain {
    id: ChainId,
    family: Family,
    rpc_url: String,
    reserver: Account,
    permit2: Option<String>,
    permit2_code: Option<String>,
    cluster: Option<String>,
    api_key: Option<ApiKey>,
}

impl Chain {
    fn of(chains: &ChainsToml, id: ChainId, file: &Path) -> Result<Self> {
        let place = file.display();
        let known = chains.chain_ids();
        // One node is enough: what is sent is looked for again, and nobody else's money depends on it.
        let Some(node) = chains.nodes(&id)?.into_iter().next() else {
            bail!("{place} has no chain {id} with an rpc_url or rpc_urls; it has {}", known.join(", "))
        };
        let family = id.family().context("the chain is of no family that is served")?;
        let reserver = chains.get(&id, "reserver");
        let reserver = reserver.with_context(|| {
            format!(
                "{place} names no reserver of {id}: `gw init --role gateway` makes its key, or put the gateway's there"
            )
        })?;
        let reserver = Account::parse(family, reserver).with_context(|| format!("reserver of {id}"))?;
        let text = |key: &str| chains.get(&id, key).map(str::to_owned);
        let (permit2, cluster) = (text("permit2"), text("signature_cluster_id"));
        Ok(Self {
            family,
            rpc_url: node.url,
            reserver,
            permit2,
            permit2_code: text("permit2_code"),
            cluster,
            api_key: node.api_key.or_else(|| text("api_key").map(ApiKey::new)),
            id,
        })
    }

    fn contracts(&self, chains: &ChainsToml) -> Result<Contracts> {
        let account = |key: &str| {
            let text = chains.get(&self.id, key).with_context(|| format!("{key} of {} is not known", self.id))?;
            Account::parse(self.family, text).with_context(|| format!("{key} of {}", self.id))
        };
        let deposit_address_factory =
            chains.get(&self.id, DEPOSIT_ADDRESS_FACTORY).map(|_| account(DEPOSIT_ADDRESS_FACTORY)).transpose()?;
        let (escrow, proxy) = (account("escrow_contract")?, account("fulfillment_proxy")?);
        let permit2 = match self.family {
            Family::Tron => self.permit2()?,
            Family::Evm | Family::Solana => None,
        };
        Ok(Contracts { escrow, proxy, deposit_address_factory, permit2 })
    }

    fn permit2(&self) -> Result<Option<Account>> {
        let parsed = self.permit2.as_deref().map(|text| Account::parse(self.family, text));
        parsed.transpose().with_context(|| format!("permit2 of {}", self.id))
    }

    /// The Permit2 of an escrow on Tron.
    fn tron_permit2(&self, args: &Args) -> Result<Permit2> {
        let permit2 = self.permit2()?;
        ensure!(
            permit2.is_some() || self.permit2_code.is_none(),
            "permit2_code of {}: is of the code of `permit2`, which is not set",
            self.id
        );
        Ok(match (permit2, args.own_permit2) {
            (Some(account), _) => {
                let code = self.permit2_code.as_deref().map(str::parse).transpose();
                Permit2::At { account, code: code.with_context(|| format!("permit2_code of {}", self.id))? }
            }
            (None, true) => Permit2::Own,
            (None, false) => Permit2::None,
        })
    }

    fn deployment(&self, guardian: Guardian, payer: Option<&Secret>, args: &Args) -> Result<Box<dyn Deployment>> {
        ensure!(!args.own_permit2 || self.family == Family::Tron, "--own-permit2 is for Tron");
        let hex = || payer.map(signer).transpose();
        let (chain_id, reserver) = (self.id.clone(), self.reserver.clone());
        Ok(match self.family {
            Family::Evm => {
                let permit2 = match self.permit2()? {
                    Some(permit2) => permit2,
                    None => Account::parse(self.family, PERMIT2)?,
                };
                let settings = chains_evm::deploy::Settings { chain_id, reserver, guardian, permit2 };
                Box::new(EvmDeployment::new(&self.rpc_url, settings, hex()?, RPC_TIMEOUT)?)
            }
            Family::Solana => {
                let cluster_id = self.cluster.clone();
                let cluster_id =
                    cluster_id.with_context(|| format!("signature_cluster_id of {} is not known", self.id))?;
                let payer = payer.map(|secret| chains_solana::keys::keypair(secret.expose())).transpose();
                let payer = payer.context("--payer: is no Solana keypair")?;
                let upgrade_authority = match guardian {
                    Guardian::Account(account) => UpgradeAuthority::Account(account),
                    Guardian::Nobody => UpgradeAuthority::Nobody,
                    Guardian::Any => UpgradeAuthority::Payer,
                };
                let settings = chains_solana::deploy::Settings { cluster_id, reserver, upgrade_authority };
                Box::new(SolanaDeployment::new(&self.rpc_url, &settings, payer, RPC_TIMEOUT)?)
            }
            Family::Tron => {
                let permit2 = self.tron_permit2(args)?;
                let settings = chains_tron::deploy::Settings { chain_id, reserver, guardian, permit2 };
                let key = self.api_key.as_ref();
                Box::new(TronDeployment::new(&self.rpc_url, key, &settings, hex()?, RPC_TIMEOUT)?)
            }
        })
    }
}

fn signer(secret: &Secret) -> Result<PrivateKeySigner> {
    // The parser's own error would repeat what it was given.
    secret.expose().parse().ok().context("--payer: is no private key of an EVM or Tron account")
}

fn show_plan(chain: &Chain, plan: &Plan) -> Result<()> {
    let (decimals, symbol) = coin(chain);
    let amount = |units: u128| format!("{} {symbol}", decimal(units, decimals));
    let mut lines = vec![format!("On {}, paid by {}, which has {}:", chain.id, plan.payer, amount(plan.balance))];
    for step in &plan.steps {
        let state = if step.is_done { "is there".to_owned() } else { format!("at most {}", amount(step.cost)) };
        lines.push(format!("  {:<72} {state}", step.title));
    }
    if let Some(contracts) = plan.contracts.as_ref().filter(|_| !plan.is_done()) {
        let addresses = contracts.deposit_address_factory.as_ref();
        let addresses =
            addresses.map(|account| format!(", the factory of deposit addresses {account}")).unwrap_or_default();
        lines.push(format!("The escrow will be {}, the proxy {}{addresses}.", contracts.escrow, contracts.proxy));
    }
    let cost = plan.cost();
    lines.push(match plan.is_done() {
        true => "Nothing is left to do.".to_owned(),
        false => format!("In all at most {}.", amount(cost)),
    });
    if plan.balance < cost {
        lines.push(format!("{} lacks {}.", plan.payer, amount(cost - plan.balance)));
    }
    super::answer(&lines.join("\n"))
}

/// The chain's coin: its decimal places and its name.
fn coin(chain: &Chain) -> (u32, String) {
    match chain.family {
        Family::Evm => {
            let networks = Network::names().filter_map(|name| Network::named(name).ok());
            let network = networks.into_iter().find(|network| network.chain_id == chain.id);
            let symbol = network.and_then(|network| {
                network.assets.iter().find(|asset| asset.asset_identifier.is_coin()).map(|asset| asset.symbol.clone())
            });
            (18, symbol.unwrap_or_else(|| "coins".to_owned()))
        }
        Family::Solana => (9, "SOL".to_owned()),
        Family::Tron => (6, "TRX".to_owned()),
    }
}

/// An amount in whole coins, to the last place that is not zero.
pub(super) fn decimal(units: u128, decimals: u32) -> String {
    let unit = 10_u128.pow(decimals);
    let text = format!("{}.{:0width$}", units / unit, units % unit, width = decimals as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Shows what was compared.
fn show_findings(chain: &ChainId, findings: &[Finding]) -> Result<()> {
    let lines = findings.iter().map(|finding| match &finding.fault {
        None => format!("ok     {}", finding.subject),
        Some(fault) => format!("WRONG  {}: {fault}", finding.subject),
    });
    super::answer(&lines.collect::<Vec<_>>().join("\n"))?;
    let wrong = findings.iter().filter(|finding| finding.fault.is_some()).count();
    ensure!(wrong == 0, "{wrong} of {} on {chain} are not as they should be", findings.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_in_whole_coins() {
        for (units, decimals, text) in [
            (0, 18, "0"),
            (1, 6, "0.000001"),
            (1_500_000, 6, "1.5"),
            (10_u128.pow(18), 18, "1"),
            (u128::MAX, 0, "340282366920938463463374607431768211455"),
        ] {
            assert_eq!(decimal(units, decimals), text);
        }
    }

    #[test]
    fn chains_are_named_by_id_or_by_network() {
        assert_eq!(chain_id("base-sepolia").unwrap().as_str(), "eip155:84532");
        assert_eq!(chain_id("eip155:31337").unwrap().as_str(), "eip155:31337");
        assert!(chain_id("nowhere").is_err());
    }
}
