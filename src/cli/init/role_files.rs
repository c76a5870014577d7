//! The files of the roles, as `gw init` writes them: what an operator has to decide, and nothing that has a default.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::Path,
};

use anyhow::{Result, ensure};

use chains::config::AssetConfig;
use config::chains_toml::ChainsToml;
use events::{ChainId, Did, Family};

use super::{
    super::role::Role,
    CHAINS_TOML,
    keyring::{Keyring, token},
    verifiers::{Given, GivenSet},
};

/// Margin of a settler's corridors, until its operator decides otherwise, in basis points.
const SPREAD_BPS: u32 = 10;
/// What the keys of a verifier are called.
const RELEASER: &str = "releaser";

/// What surrounds a role.
pub(super) struct Place<'a> {
    pub nats_url: &'a str,
    pub verifier_endpoint: &'a str,
    /// Verifiers who attest together, where they are given.
    pub set: Option<&'a GivenSet>,
    pub chains: &'a ChainsToml,
    pub ids: &'a [ChainId],
}

/// What is made for a role.
#[derive(Default)]
pub(super) struct RoleFile {
    /// Its file.
    pub text: String,
    /// What is filled into the file of chains, by key and family.
    pub in_chains: Vec<(&'static str, BTreeMap<Family, String>)>,
    /// Its accounts and names, each with what it is for.
    pub shown: Vec<(String, String)>,
    /// What is left to do.
    pub next: Vec<String>,
}

impl Place<'_> {
    /// Refuses what cannot be written yet.
    pub(super) fn check(&self, role: Role) -> Result<()> {
        let lacking = self.ids.iter().find(|id| self.chains.get(id, "releaser").is_none());
        if let Some(set) = self.set {
            return set.check(self.chains, self.ids);
        }
        if role == Role::Settler
            && let Some(id) = lacking
        {
            ensure!(
                false,
                "{CHAINS_TOML} names no releaser of {id}: put the verifier's account there, or `gw init --role verifier` first, or give \
                 several by --verifier"
            );
        }
        Ok(())
    }
}

impl RoleFile {
    /// Makes the keys of a role that are missing, and its file.
    pub(super) fn write(
        role: Role,
        place: &Place<'_>,
        families: &BTreeSet<Family>,
        keyring: &mut Keyring,
    ) -> Result<Self> {
        let head = format!(
            "# Made by `gw init`. Every key and its default: config/{}.example.toml.\n\n# The chains; sections [[chains]] here are laid over \
             those there.\nchains_file = \"{CHAINS_TOML}\"\n",
            role.name()
        );
        let mut file = Self { text: head, ..Self::default() };
        if let Some(set) = place.set {
            file.in_chains.push(("releaser", set.releasers()));
        }
        if role != Role::Auditor
            && let Some(path) = keyring.passphrase_file()
        {
            file.text += &format!(
                "# The passphrase of the keystores below. GW_PASSPHRASE_FILE names one where this line is missing, which may be a \
                 descriptor;\n# without either it is asked for.\npassphrase_file = {}\n",
                quoted_path(path)
            );
        }
        match role {
            Role::Gateway => file.gateway(place, families, keyring)?,
            Role::Verifier => file.verifier(place, families, keyring)?,
            Role::Settler => file.settler(place, families, keyring)?,
            Role::Auditor => file.auditor(place, keyring),
            // It knows no chains.
            Role::Selector => {}
        }
        Ok(file)
    }

    /// Makes the keys of a verifier that are missing, and no file: its accounts are shown, as others are given them.
    pub(super) fn keys_only(place: &Place<'_>, families: &BTreeSet<Family>, keyring: &mut Keyring) -> Result<Self> {
        let mut file = Self::default();
        let mut accounts = BTreeMap::new();
        for family in families {
            let (_, account) = keyring.account(RELEASER, *family)?;
            file.show("releaser, attests", *family, &account);
            accounts.insert(*family, account.parse()?);
        }
        let given = Given { endpoint: place.verifier_endpoint.to_owned(), accounts };
        file.next = vec![
            format!("give the others, and whoever runs a gateway or a settler: --verifier '{given}'"),
            "`gw init` for each role, with the --verifier of each of you and --verifier-threshold".to_owned(),
        ];
        Ok(file)
    }

    fn gateway(&mut self, place: &Place<'_>, families: &BTreeSet<Family>, keyring: &mut Keyring) -> Result<()> {
        let (identity, key) = keyring.identity("gateway")?;
        let (checkpoint, checkpoint_key) = keyring.identity("checkpoint")?;
        let did = Did::from_ed25519(&key.verifying_key());
        let verifier = match place.set {
            Some(set) => set.of_gateway(),
            None => format!(
                "# The verifier that is used when a request names none; its accounts are the releasers in {CHAINS_TOML}.\n[verifier]\nendpoint \
                 = {}\n",
                quoted(place.verifier_endpoint)
            ),
        };
        self.text += &format!(
            "\n[gateway]\n# By this key verifiers know the gateway: {did}\nkey = {}\n\n[nats]\nurl = {}\nca_file = \"nats/ca.pem\"\nseed_file = \
             \"nats/gateway.seed\"\n\n[projections]\ndirectory = \"data/projections\"\n\n{verifier}\n[audit]\ncheckpoint_key = {}\n",
            keystore(&identity),
            quoted(place.nats_url),
            keystore(&checkpoint),
        );
        let (mut reservers, mut submitters) = (BTreeMap::new(), BTreeMap::new());
        for family in families {
            let (reserver, account) = keyring.account("reserver", *family)?;
            self.show("reserver, signs", *family, &account);
            let (submitter, sender) = keyring.account("submitter", *family)?;
            self.show("submitter, pays gas", *family, &sender);
            reservers.insert(*family, (reserver, account));
            submitters.insert(*family, submitter);
        }
        for id in place.ids {
            let Some(family) = id.family() else { continue };
            self.text += &format!(
                "\n[[chains]]\nchain_id = {}\nreserver_key = {}\nsubmitter_keys = [{}]\n",
                quoted(id.as_str()),
                keystore(&reservers[&family].0),
                keystore(&submitters[&family]),
            );
        }
        self.in_chains
            .push(("reserver", reservers.into_iter().map(|(family, (_, account))| (family, account)).collect()));
        self.shown.push(("DID, for `callers.gateways` of verifiers".to_owned(), did.to_string()));
        let signer = Did::from_ed25519(&checkpoint_key.verifying_key());
        self.shown.push(("checkpoints, for auditors".to_owned(), signer.to_string()));
        if place.set.is_none() && place.ids.iter().any(|id| place.chains.get(id, "releaser").is_none()) {
            self.next.push(format!(
                "`gw init --role verifier` beside {CHAINS_TOML}, or put the verifier's accounts there as `releaser`"
            ));
        }
        self.next.extend([
            "send coins for gas to the submitters".to_owned(),
            "gw deploy --chain … : the contracts, for each chain".to_owned(),
            "gw nats init, and nats-server -c nats.conf".to_owned(),
        ]);
        Ok(())
    }

    fn verifier(&mut self, place: &Place<'_>, families: &BTreeSet<Family>, keyring: &mut Keyring) -> Result<()> {
        let mut releasers = BTreeMap::new();
        for family in families {
            let (file, account) = keyring.account(RELEASER, *family)?;
            let key = match family {
                Family::Evm => "releaser_key",
                Family::Solana => "solana_releaser_key",
                Family::Tron => "tron_releaser_key",
            };
            self.text += &format!("{key} = {}\n", keystore(&file));
            self.show("releaser, attests", *family, &account);
            releasers.insert(*family, account);
        }
        let endpoint = match place.set {
            Some(set) => {
                let own = set.own(&releasers)?;
                self.text += &set.of_verifier();
                &own.endpoint
            }
            None => place.verifier_endpoint,
        };
        let known = |name: &str| {
            let key = keyring.existing(name).map(|key| Did::from_ed25519(&key.verifying_key()).to_string());
            key.iter().map(|did| quoted(did)).collect::<Vec<_>>().join(", ")
        };
        self.text += &format!(
            "\n[callers]\n# Where callers reach this verifier: what they sign names it.\norigins = [{}]\n# Known gateways and settlers, by \
             their DIDs; others share one lane.\ngateways = [{}]\nsettlers = [{}]\n",
            quoted(endpoint),
            known("gateway"),
            known("settler"),
        );
        if place.set.is_none() {
            self.in_chains.push(("releaser", releasers));
        }
        self.next.push("add the DIDs of gateways and settlers to [callers]".to_owned());
        Ok(())
    }

    fn settler(&mut self, place: &Place<'_>, families: &BTreeSet<Family>, keyring: &mut Keyring) -> Result<()> {
        let (seed, key) = keyring.identity("settler")?;
        let did = Did::from_ed25519(&key.verifying_key());
        self.text += &format!("# Of the settler's DID, {did}\nseed = {}\n", keystore(&seed));
        for family in families {
            let (file, account) = keyring.account("settler", *family)?;
            self.text += &format!("{}_private_key = {}\n", token(*family), keystore(&file));
            self.show("delivers and is paid", *family, &account);
        }
        self.text += &format!("\n[nats]\nurl = {}\nca_file = \"nats/ca.pem\"\n", quoted(place.nats_url));
        for id in place.ids {
            let trusted = place.set.and_then(|set| set.of_settler(id)).unwrap_or_else(|| {
                // It was looked for before.
                let releaser = place.chains.get(id, "releaser").unwrap_or_default();
                format!("account = {}\nendpoint = {}\n", quoted(releaser), quoted(place.verifier_endpoint))
            });
            self.text += &format!("\n[[verifiers]]\nchain_id = {}\n{trusted}", quoted(id.as_str()));
        }
        let traded = self.corridors(place)?;
        ensure!(
            !traded.is_empty(),
            "no token is on two of the chains: a settler of one chain alone has nothing to trade"
        );
        for id in place.ids.iter().filter(|id| !traded.contains(*id)) {
            self.next.push(format!(
                "write [[corridors]] with a `rate` for {id}: none of its tokens is on another of the chains under the same symbol, so \
                 no payment from it or to it is quoted"
            ));
        }
        self.shown.push(("DID".to_owned(), did.to_string()));
        self.next.extend([
            "send the settler's accounts coins for gas, and tokens to deliver".to_owned(),
            "look through [[corridors]]: margins, and `gas_cost` of each".to_owned(),
            "gw settler id --config settler.toml : what the gateway's operator puts into nats/accounts.conf".to_owned(),
        ]);
        Ok(())
    }

    /// A corridor for each token that is on two chains, both ways; the chains that are traded.
    fn corridors(&mut self, place: &Place<'_>) -> Result<BTreeSet<ChainId>> {
        let mut tokens = Vec::new();
        for id in place.ids {
            let assets = place.chains.assets(id)?;
            // A coin is delivered at a rate, and that is the operator's to say.
            tokens.extend(assets.into_iter().filter(|asset| !asset.asset_identifier.is_coin()));
        }
        let mut traded = BTreeSet::new();
        for source in &tokens {
            for destination in &tokens {
                let same_chain = source.asset_identifier.chain() == destination.asset_identifier.chain();
                if same_chain || source.symbol != destination.symbol {
                    continue;
                }
                traded.insert(source.asset_identifier.chain().clone());
                self.text += &format!(
                    "\n# {} on {} to {}\n[[corridors]]\nsource_asset = {}\ndestination_asset = {}\nspread_bps = {SPREAD_BPS}\n# What its \
                     transactions cost, in the smallest unit of the source.\ngas_cost = \"0\"\n",
                    source.symbol,
                    source.asset_identifier.chain(),
                    destination.asset_identifier.chain(),
                    quoted(&source.asset_identifier.to_string()),
                    quoted(&destination.asset_identifier.to_string()),
                );
                if source.decimals != destination.decimals {
                    let unit = |asset: &AssetConfig| 10_u64.checked_pow(u32::from(asset.decimals));
                    let (Some(source), Some(destination)) = (unit(source), unit(destination)) else { continue };
                    // Writing to a text cannot fail.
                    let _ = writeln!(self.text, "rate = {{ source = {source}, destination = {destination} }}");
                }
            }
        }
        Ok(traded)
    }

    fn auditor(&mut self, place: &Place<'_>, keyring: &Keyring) {
        let signer = keyring.existing("checkpoint").map(|key| Did::from_ed25519(&key.verifying_key()).to_string());
        let signers = signer.iter().map(|did| quoted(did)).collect::<Vec<_>>().join(", ");
        self.text += &format!(
            "# Whose checkpoints are believed: the gateways' did:key, which `gw init --role gateway` showed.\ncheckpoint_signers = \
             [{signers}]\n\n[nats]\nurl = {}\nca_file = \"nats/ca.pem\"\nseed_file = \"nats/auditor.seed\"\n",
            quoted(place.nats_url)
        );
        self.next.push(
            "have the gateway's operator give you nats/auditor.seed, or admit your own (`gw nats key`)".to_owned(),
        );
    }

    fn show(&mut self, purpose: &str, family: Family, account: &str) {
        self.shown.push((format!("{} {purpose}", token(family)), account.to_owned()));
    }
}

/// A text as TOML writes it.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// A keystore as a role's file names it.
fn keystore(file: &str) -> String {
    format!("{{ keystore = {} }}", quoted(file))
}
