//! A stranger with an RPC address for each chain and funded keys: with the commands of `gw` alone, from an empty directory
//! to payments on chains that know nothing of the gateway. Payers are strangers, too: the programs of `examples/`.

mod foreign_chains;
mod operator;
mod prometheus;
mod relay;

use std::{fs, time::Duration};

use alloy::{primitives::U256, signers::local::PrivateKeySigner};
use anyhow::{Context, Result, ensure};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use tokio::process::Command;

use devkit::{NatsServer, free_port, tools};

use self::{
    foreign_chains::Chains,
    operator::{Operator, of_chain},
    prometheus::Prometheus,
    relay::Relay,
};
use crate::support::example_payers;

const TOKENS: u64 = 1_000_000_000;
/// What a recipient gets, and what it may cost.
const AMOUNT: u64 = 1_000_000;
const CAP: u64 = 1_100_000;
/// Far longer than anything here takes; a test that gets here has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whoever pays: one key for EVM and Tron, one for Solana.
struct Payer {
    key: PrivateKeySigner,
    solana_key: SigningKey,
}

impl Payer {
    fn accounts(&self) -> [String; 3] {
        let (address, solana) = (self.key.address(), chains_solana::keys::account(&self.solana_key));
        [format!("{address:#x}"), solana, chains_tron::address::text(address)]
    }

    /// The program that pays from the chain at `place`, and the text of its key's file.
    fn program(&self, place: usize) -> (Command, String) {
        let hex = hex::encode(self.key.to_bytes());
        let (script, modules, key) = match place {
            0 => ("evm/pay.mjs", None, format!("0x{hex}")),
            1 => {
                let keypair = json!(self.solana_key.to_keypair_bytes().to_vec()).to_string();
                ("solana/pay.cjs", Some(".tools/solana-client/node_modules"), keypair)
            }
            _ => ("tron/pay.cjs", Some(".tools/tronweb/node_modules"), hex),
        };
        let mut command = Command::new("node");
        command.arg(tools::root().join("examples").join(script));
        command.envs(modules.map(|modules| ("NODE_PATH", tools::root().join(modules))));
        (command, key)
    }
}

/// What a payment on each corridor needs to know.
struct Corridors<'a> {
    operator: &'a Operator,
    chains: &'a Chains,
    gateway: &'a str,
    payer: &'a Payer,
    recipient: &'a [String; 3],
}

impl Corridors<'_> {
    /// Pays from the chain at `place` to each of the others, one after the other.
    async fn pay_from(&self, place: usize) -> Result<()> {
        for to in (0..self.recipient.len()).filter(|to| *to != place) {
            self.pay(place, to).await?;
        }
        Ok(())
    }

    /// Pays from the chain at `place` to the one at `to`, and believes the file of chains alone.
    async fn pay(&self, place: usize, to: usize) -> Result<()> {
        let (ids, assets, accounts) = (self.chains.ids(), self.chains.assets(), self.payer.accounts());
        let order = json!({
            "version": "1.0",
            "source": {"asset_identifier": assets[place], "account": accounts[place]},
            "destination": [{"asset_identifier": assets[to], "account": self.recipient[to]}],
            "fulfillment_amount": AMOUNT.to_string(),
            "max_source_amount": CAP.to_string(),
        });
        let (mut program, key) = self.payer.program(place);
        for (name, key) in [("ESCROW", "escrow_contract"), ("RESERVER", "reserver"), ("RELEASER", "releaser")] {
            program.env(name, of_chain(&self.operator.path("chains.toml"), &ids[place], key)?);
        }
        let output = example_payers::pay(program, self.gateway, &self.chains.urls()[place], &key, &order).await?;
        let corridor = format!("{} to {}", ids[place], ids[to]);
        ensure!(output.status.success(), "{corridor}: {output:?}");
        let said: Value = serde_json::from_slice(&output.stdout)?;
        ensure!(said["status"] == "completed", "{corridor}: {said}");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn from_an_empty_directory_to_payments_on_every_corridor() -> Result<()> {
    let chains = Chains::start().await?;
    let operator = Operator::new()?;
    let mut networks = String::new();
    for (name, text) in chains.networks() {
        fs::write(operator.path(&format!("{name}.network.toml")), text)?;
        networks += &format!(" --network-file {name}.network.toml");
    }
    let (nats_port, verifier_port, gateway_port) = (free_port()?, free_port()?, free_port()?);
    let (nats_url, verifier) = (format!("nats://127.0.0.1:{nats_port}"), format!("127.0.0.1:{verifier_port}"));
    let places = format!("--passphrase-file passphrase --nats-url {nats_url} --verifier-endpoint http://{verifier}");

    // Files and keys for all roles. A settler has to know whom it trusts.
    let error = operator.fails(&format!("init --role settler{networks} --passphrase-file passphrase")).await?;
    assert!(error.contains("gw init --role verifier"), "{error}");
    let error = operator.fails(&format!("init --role gateway{networks} --network nowhere")).await?;
    assert!(error.contains("there is no network `nowhere`"), "{error}");
    let said = operator.does(&format!("init --role gateway{networks} {places}")).await?;
    assert!(said.contains("reserver-evm") && said.contains("gw deploy"), "{said}");
    for role in ["verifier", "settler", "auditor"] {
        operator.does(&format!("init --role {role} {places}")).await?;
    }
    let error = operator.fails("init --role gateway --passphrase-file passphrase").await?;
    assert!(error.contains("gateway.toml exists; nothing was written"), "{error}");
    let error = operator.fails("config check --role gateway --config gateway.toml").await?;
    assert!(error.contains("escrow_contract") && error.contains("`gw deploy` writes it"), "{error}");

    // The contracts.
    operator.does("keys new --kind evm keys/deployer-evm.json").await?;
    operator.does("keys new --kind solana keys/deployer-solana.json").await?;
    let deployers = [("deployer-evm", "EVM"), ("deployer-solana", "Solana"), ("deployer-evm", "Tron")];
    chains.fund(&operator.accounts(deployers).await?).await?;
    for (id, (key, _)) in chains.ids().iter().zip(deployers) {
        // On Tron with a Permit2 of its own.
        let own = if id.starts_with("tron:") { " --own-permit2" } else { "" };
        let deploy = format!("deploy --chain {id} --payer keys/{key}.json --guardian nobody{own}");
        let said = operator.does(&deploy).await?;
        assert!(said.contains("In all at most ") && said.contains("Nothing was sent"), "{said}");
        assert!(of_chain(&operator.path("chains.toml"), id, "escrow_contract").is_err());
        let said = operator.does(&format!("{deploy} --yes")).await?;
        assert!(said.contains("are written to chains.toml") && !said.contains("WRONG"), "{said}");
        let draws =
            said.contains("constructor of Permit2") && of_chain(&operator.path("chains.toml"), id, "permit2").is_ok();
        assert_eq!(draws, !own.is_empty(), "{said}");
        operator.does(&format!("deploy --chain {id} --verify")).await?;
        let said = operator.does(&format!("{deploy} --yes")).await?;
        assert!(said.contains("Nothing is left to do."), "{said}");
    }
    // Three nodes of one chain, of which money goes by what two say.
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(Relay::to(&chains.urls()[0]).await?);
    }
    let urls = |nodes: &[Relay]| format!("rpc_urls = {:?}", nodes.iter().map(Relay::url).collect::<Vec<_>>());
    let one = format!("rpc_url = \"{}\"", chains.urls()[0]);
    operator.edit("chains.toml", &one, &urls(&nodes))?;
    for role in ["gateway", "verifier", "settler", "auditor"] {
        operator.does(&format!("config check --role {role} --config {role}.toml")).await?;
    }

    // NATS, on the configuration of this repository, with the settler admitted.
    operator.does("nats init").await?;
    let said = operator.does("settler id --config settler.toml").await?;
    let (_, admitted) = said.split_once("twice:\n\n").context("no account of the settler's")?;
    let accounts = operator.path("nats/accounts.conf");
    fs::write(&accounts, format!("{}\n{admitted}", fs::read_to_string(&accounts)?))?;
    fs::copy(tools::root().join("nats.conf"), operator.path("nats.conf"))?;
    let _nats = NatsServer::in_directory(&operator.path("nats.conf"), &operator.path("data/nats"), nats_port).await?;

    // Coins and tokens for those who need them.
    let of_role = async |role: &str| {
        let [evm, solana, tron] = ["evm", "solana", "tron"].map(|family| format!("{role}-{family}"));
        operator.accounts([(&evm, "EVM"), (&solana, "Solana"), (&tron, "Tron")]).await
    };
    chains.fund(&of_role("submitter").await?).await?;
    let settler = of_role("settler").await?;
    chains.fund(&settler).await?;
    chains.endow(&settler, TOKENS).await?;

    // The roles, each of which Prometheus may scrape.
    let scraped = [("gateway", free_port()?), ("verifier", free_port()?), ("settler", free_port()?)];
    for (role, port) in scraped {
        operator.append(&format!("{role}.toml"), &format!("\n[metrics]\nlisten = \"127.0.0.1:{port}\"\n"))?;
    }
    let prometheus = Prometheus::start(operator.directory(), &scraped).await?;
    let base = format!("http://127.0.0.1:{gateway_port}");
    let verifies = [("GW_VERIFIER_LISTEN", verifier.clone())];
    let serves = [("GW_HTTP__LISTEN", format!("127.0.0.1:{gateway_port}")), ("GW_HTTP__BASE_URL", base.clone())];
    let _verifier = operator.start("verifier", &verifies, Some(verifier_port)).await?;
    let mut gateway = operator.start("gateway", &serves, Some(gateway_port)).await?;
    let mut settler_process = operator.start("settler", &[], None).await?;
    operator.logs("gateway", "settler is registered").await?;

    // Somebody pays, from each chain to each other, and the graphs move.
    let payer = Payer { key: PrivateKeySigner::random(), solana_key: SigningKey::from_bytes(&[6; 32]) };
    chains.fund(&payer.accounts()).await?;
    chains.endow(&payer.accounts(), TOKENS).await?;
    let recipient = Payer { key: PrivateKeySigner::random(), solana_key: SigningKey::from_bytes(&[5; 32]) }.accounts();
    let corridors =
        Corridors { operator: &operator, chains: &chains, gateway: &base, payer: &payer, recipient: &recipient };
    let logs = || format!("{}\n{}\n{}", operator.log("gateway"), operator.log("settler"), operator.log("verifier"));
    let paid = tokio::try_join!(corridors.pay_from(0), corridors.pay_from(1), corridors.pay_from(2));
    paid.with_context(logs)?;
    assert_eq!(chains.tokens(&recipient).await?, [U256::from(2 * AMOUNT); 3]);
    prometheus.sees("sum(gw_payments_total{event=\"completed\"})", 6.0).await?;
    prometheus.sees("sum(gw_attestations_total) > bool 0", 1.0).await?;
    prometheus.sees("sum(gw_settler_deliveries_total) > bool 0", 1.0).await?;

    // Nothing is wrong, and every key is where it was put.
    for role in ["verifier", "settler"] {
        operator.does(&format!("doctor --role {role} --config {role}.toml")).await?;
    }
    let listed: Value =
        serde_json::from_str(&operator.does("keys list --role gateway --config gateway.toml --json").await?)?;
    let keys = listed.as_array().context("no list")?;
    assert!(keys.len() == 8 && keys.iter().all(|key| key["form"] == "keystore"), "{listed:#}");
    let submitters: Vec<_> = keys.iter().filter(|key| key["key"] == "submitter_keys[0]").collect();
    let has_coins =
        |key: &&Value| key["balance"].as_str().is_some_and(|coins| coins.parse::<f64>().is_ok_and(|coins| coins > 0.0));
    assert!(submitters.len() == 3 && submitters.iter().all(has_coins), "{listed:#}");

    // A node is killed: the others are enough.
    let dead = nodes.remove(0).url();
    prometheus.sees(&format!("gw_node_up{{job=\"gateway\",node={dead:?}}}"), 0.0).await?;
    corridors.pay(0, 1).await.with_context(logs)?;

    // It is replaced, and with it the account that sends: the old one ends what it began.
    let before = urls(&nodes);
    let lost = format!("rpc_urls = [{dead:?}, {}", before.trim_start_matches("rpc_urls = ["));
    nodes.push(Relay::to(&chains.urls()[0]).await?);
    operator.edit("chains.toml", &lost, &urls(&nodes))?;
    operator.does("keys new --kind evm keys/submitter-evm-2.json").await?;
    let second = operator.account("submitter-evm-2", "EVM").await?;
    chains.evm_dev.fund(&second, U256::from(10_u64.pow(18))).await?;
    operator.edit_chain(
        "gateway.toml",
        &chains.ids()[0],
        "submitter_keys = [{ keystore = \"keys/submitter-evm.json\" }]",
        "submitter_keys = [{ keystore = \"keys/submitter-evm-2.json\" }]\ndraining_submitter_keys = [{ keystore = \"keys/submitter-evm.json\" }]",
    )?;
    operator.does("config check --role gateway --config gateway.toml").await?;
    gateway.kill().await?;
    settler_process.kill().await?;
    let _gateway = operator.start("gateway", &serves, Some(gateway_port)).await?;
    let _settler = operator.start("settler", &[], None).await?;
    corridors.pay(0, 2).await.with_context(logs)?;
    let sent = chains.evm_dev.rpc::<_, U256>("eth_getTransactionCount", (second.as_str(), "latest")).await?;
    assert!(sent > U256::ZERO, "the new submitter sends");
    let replaced = nodes[2].url();
    prometheus.sees(&format!("gw_node_up{{job=\"gateway\",node={replaced:?}}}"), 1.0).await?;
    assert_eq!(
        chains.tokens(&recipient).await?,
        [U256::from(2 * AMOUNT), U256::from(3 * AMOUNT), U256::from(3 * AMOUNT)]
    );

    // Nothing secret stands in the files that are not keys.
    for file in ["chains.toml", "gateway.toml", "verifier.toml", "settler.toml"] {
        let text = fs::read_to_string(operator.path(file))?;
        let is_key = |word: &str| word.len() == 66 && word.starts_with("0x");
        assert!(!text.split('"').any(is_key), "{file}: {text}");
    }
    assert!(!operator.log("gateway").contains("IN THE CLEAR"), "the keys are in keystores");
    Ok(())
}
