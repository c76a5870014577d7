//! `gw keys list`: the keys of a role's file, what each is used for, and what its account holds.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use futures::future::join_all;
use serde::Serialize;
use tokio::time::timeout;

use chains::config::ChainConfig;
use config::{GatewayConfig, KeyForm, KeyPlace, Signs, VerifierConfig, account_of, key_places, signing_key};
use events::{Account, AssetId, Did, Family};

use super::super::{deploy::decimal, doctor, role::Role};

/// Longest that one balance is waited for.
const BALANCE_MAX: Duration = Duration::from_secs(10);

/// Arguments of `gw keys list`.
#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// What is run with the file.
    #[arg(long, value_enum)]
    role: Role,
    /// The role's file.
    #[arg(long)]
    config: PathBuf,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// One use of a key.
struct Use {
    /// The chain on which it is used; none where it proves a DID.
    chain: Option<ChainConfig>,
    /// The key's own name in the file, with its number in a list.
    name: String,
    /// The section that it stands in, where that is not the chain's.
    section: Option<&'static str>,
    purpose: &'static str,
    /// The account or DID.
    account: String,
}

/// What is shown of a use.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    chain_id: Option<String>,
    key: String,
    purpose: &'static str,
    account: String,
    /// `keystore`, `secret_file`, `clear`, `environment`, `web3signer` or `kms`.
    form: &'static str,
    /// The file that the key is in, where it is in one of its own; at a service the service's address, or the key's name there.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// What the account holds of the chain's coin, in whole coins; none where the node did not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    balance: Option<String>,
}

/// Shows the keys of a role's file, and nothing that is secret.
///
/// # Errors
/// When the file cannot be used.
pub(super) async fn run(args: &Args) -> Result<()> {
    let uses = match args.role {
        Role::Gateway => of_gateway(&GatewayConfig::load(&args.config)?)?,
        Role::Verifier => of_verifier(&VerifierConfig::load(&args.config)?)?,
        Role::Settler => of_settler(&config::settler(&args.config)?)?,
        Role::Selector | Role::Auditor => bail!("the file of {} has no keys of accounts", args.role.name()),
    };
    let places = key_places(&args.config)?;
    let balances = join_all(uses.iter().map(balance)).await;
    let rows: Vec<_> = uses.into_iter().zip(balances).map(|(used, balance)| row(used, balance, &places)).collect();
    super::super::answer(&if args.json { serde_json::to_string_pretty(&rows)? } else { table(&rows) })
}

fn of_gateway(config: &GatewayConfig) -> Result<Vec<Use>> {
    let mut uses = Vec::new();
    let identities = [
        ("gateway", "key", "asks verifiers", &config.gateway.key),
        ("audit", "checkpoint_key", "signs checkpoints", &config.audit.checkpoint_key),
        ("webhooks", "key", "signs webhooks", &config.webhooks.key),
    ];
    for (section, name, purpose, key) in identities {
        if let Some(key) = key {
            let key = signing_key(key).with_context(|| format!("{section}.{name}: is no Ed25519 seed"))?;
            let account = Did::from_ed25519(&key.verifying_key()).to_string();
            uses.push(Use { chain: None, name: name.to_owned(), section: Some(section), purpose, account });
        }
    }
    for served in &config.chains {
        for (name, key, signs) in served.keys() {
            let account = key.account(served.chain.family(), &name, signs)?;
            let purpose = match name.split('[').next() {
                Some("reserver_key") => "reserver, signs",
                Some("draining_reserver_keys") => "draining reserver, signs",
                Some("submitter_keys") => "submitter, pays gas",
                Some("exit_submitter_keys") => "pays gas of refunds and releases",
                _ => "draining",
            };
            uses.push(Use { chain: Some(served.chain.clone()), name, section: None, purpose, account });
        }
    }
    Ok(uses)
}

fn of_verifier(config: &VerifierConfig) -> Result<Vec<Use>> {
    let mut uses = Vec::new();
    for chain in &config.chains {
        if let (name, Some(key)) = config.releaser_key_of(chain.family()) {
            let account = key.account(chain.family(), name, Signs::Statements)?;
            let (chain, name) = (Some(chain.clone()), name.to_owned());
            uses.push(Use { chain, name, section: None, purpose: "releaser, attests", account });
        }
    }
    Ok(uses)
}

fn of_settler(config: &settler::Config) -> Result<Vec<Use>> {
    let did = Did::from_ed25519(&config.signing_key()?.verifying_key()).to_string();
    let mut uses =
        vec![Use { chain: None, name: "seed".to_owned(), section: None, purpose: "signs quotes", account: did }];
    for chain in &config.chains {
        let (name, key) = match chain.family() {
            Family::Evm => ("evm_private_key", &config.evm_private_key),
            Family::Solana => ("solana_private_key", &config.solana_private_key),
            Family::Tron => ("tron_private_key", &config.tron_private_key),
        };
        if let Some(key) = key {
            let account = account_of(chain.family(), name, &doctor::settlers_key(chain.family(), key))?;
            let (chain, name) = (Some(chain.clone()), name.to_owned());
            uses.push(Use { chain, name, section: None, purpose: "delivers and is paid", account });
        }
    }
    Ok(uses)
}

/// What the account holds of its chain's coin; `None` where there is no chain, or nobody said.
async fn balance(used: &Use) -> Option<String> {
    let chain = used.chain.as_ref()?;
    let account = Account::parse(chain.family(), &used.account).ok()?;
    let node = doctor::connected(chain).ok()?;
    let held = timeout(BALANCE_MAX, node.holding(&coin(chain)?, &account)).await.ok()?.ok()?;
    let (decimals, _) = coin_form(chain.family());
    Some(decimal(u128::try_from(held).ok()?, decimals))
}

/// The chain's coin, as its assets have it or as chains of its family usually do.
fn coin(chain: &ChainConfig) -> Option<AssetId> {
    let common = chain.common();
    let listed = common.assets.iter().map(|asset| &asset.asset_identifier).find(|asset| asset.is_coin());
    let (_, number) = coin_form(chain.family());
    listed.cloned().or_else(|| format!("{}/slip44:{number}", common.chain_id).parse().ok())
}

/// Decimal places of a family's coins, and the number that they usually have in SLIP-44.
fn coin_form(family: Family) -> (u32, u32) {
    match family {
        Family::Evm => (18, 60),
        Family::Solana => (9, 501),
        Family::Tron => (6, 195),
    }
}

fn row(used: Use, balance: Option<String>, places: &[KeyPlace]) -> Row {
    let chain_id = used.chain.as_ref().map(|chain| chain.common().chain_id.to_string());
    let of_chain =
        |place: &&KeyPlace| place.name == used.name && place.chain_id.is_some() && place.chain_id == chain_id;
    let own = used.section.map_or_else(|| used.name.clone(), |section| format!("{section}.{}", used.name));
    let place = places.iter().find(of_chain).or_else(|| places.iter().find(|place| place.path == own));
    let (form, file) = match place.map(|place| &place.form) {
        Some(KeyForm::Keystore(file)) => ("keystore", Some(file.clone())),
        Some(KeyForm::SecretFile(file)) => ("secret_file", Some(file.clone())),
        Some(KeyForm::InTheClear) => ("clear", None),
        Some(KeyForm::Web3Signer(origin)) => ("web3signer", Some(origin.clone())),
        Some(KeyForm::Kms(key_id)) => ("kms", Some(key_id.clone())),
        None => ("environment", None),
    };
    Row { chain_id, key: own, purpose: used.purpose, account: used.account, form, file, balance }
}

fn table(rows: &[Row]) -> String {
    let lines = rows.iter().map(|row| {
        let place = row.chain_id.as_deref().unwrap_or("-");
        let form = row.file.as_ref().map_or_else(|| row.form.to_owned(), |file| format!("{} {file}", row.form));
        let balance = match (&row.chain_id, &row.balance) {
            (None, _) => "",
            (Some(_), Some(balance)) => balance,
            (Some(_), None) => "unknown",
        };
        let line = format!("{place:<44} {:<28} {:<34} {:<58} {form:<44} {balance}", row.key, row.purpose, row.account);
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}
