//! A stranger with an RPC address for each chain and funded keys: with the commands of `gw` alone, from an empty directory
//! to payments on chains that know nothing of the gateway.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
    time::Duration,
};

use alloy::{
    primitives::U256,
    signers::{SignerSync, local::PrivateKeySigner},
};
use anyhow::{Context, Result, ensure};
use chrono::{SecondsFormat, Utc};
use ed25519_dalek::SigningKey;
use reqwest::Client;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use chains_solana::dev::{DevCluster, TokenProgram};
use devkit::{
    NatsServer, Process,
    anvil::{Anvil, Mining},
    free_port,
    surfnet::Surfnet,
    tools,
};
use trondev::{Blocks, TronDev};

const EVM_ID: u64 = 31_620;
const TRON_ID: u32 = 2_018_365_011;
const PERMIT2: &str = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
const TOKENS: u64 = 1_000_000_000;
/// Coins that operators send to each of their accounts, in the smallest unit.
const SUN: u64 = 100_000_000_000;
const LAMPORTS: u64 = 10_000_000_000;
/// Far longer than anything here takes; a test that gets here has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// An operator at a terminal: a directory, and `gw`.
struct Operator {
    directory: TempDir,
}

impl Operator {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn gw(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gw"));
        command.current_dir(self.directory.path()).env("GW_PASSPHRASE_FILE", "passphrase").kill_on_drop(true);
        command
    }

    async fn run(&self, arguments: &str) -> Result<Output> {
        let command = &mut self.gw();
        Ok(command.args(arguments.split_whitespace()).output().await?)
    }

    /// What a command says that succeeds.
    async fn does(&self, arguments: &str) -> Result<String> {
        let output = self.run(arguments).await?;
        let (said, error) = (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "gw {arguments}: {said}{error}");
        Ok(said)
    }

    /// What a command says that fails.
    async fn fails(&self, arguments: &str) -> Result<String> {
        let output = self.run(arguments).await?;
        ensure!(!output.status.success(), "gw {arguments}: {}", String::from_utf8_lossy(&output.stdout));
        Ok(String::from_utf8(output.stderr)?)
    }

    /// An account of a key, as `gw keys show` says it.
    async fn account(&self, key: &str, family: &str) -> Result<String> {
        let said = self.does(&format!("keys show keys/{key}.json")).await?;
        let line = said.lines().find_map(|line| line.trim().strip_prefix(family));
        Ok(line.with_context(|| format!("no {family} account in {said}"))?.trim().to_owned())
    }

    /// Starts a role, and waits until it listens.
    async fn start(&self, role: &str, variables: &[(&str, String)], port: Option<u16>) -> Result<Process> {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gw"));
        command.current_dir(self.directory.path()).env("RUST_LOG", "info").envs(variables.iter().cloned());
        let name = if role == "gateway" { "serve" } else { role };
        command.arg(name).arg("--config").arg(format!("{role}.toml"));
        let mut process = Process::spawn(role, &mut command.into(), &self.path(&format!("{role}.log")))?;
        if let Some(port) = port {
            process.listening_on(port).await.with_context(|| self.log(role))?;
        }
        Ok(process)
    }

    /// Waits until a role's log has these words.
    async fn logs(&self, role: &str, words: &str) -> Result<()> {
        let said = async {
            while !self.log(role).contains(words) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, said).await.with_context(|| format!("{words}: {}", self.log(role)))
    }

    fn log(&self, role: &str) -> String {
        fs::read_to_string(self.path(&format!("{role}.log"))).unwrap_or_default()
    }
}

/// The chains, as foreign as a public network: contracts are not there, and nobody of the gateway has coins.
struct Chains {
    evm: Anvil,
    evm_dev: chains_evm::dev::DevChain,
    evm_token: String,
    solana: Surfnet,
    solana_dev: DevCluster,
    solana_token: chains_solana::dev::DevToken,
    tron: TronDev,
    tron_dev: chains_tron::dev::DevChain,
    tron_token: String,
}

impl Chains {
    async fn start() -> Result<Self> {
        let mint = PrivateKeySigner::random();
        let evm = Anvil::start(EVM_ID, Mining::Every { seconds: 1 }).await?;
        let evm_dev = chains_evm::dev::DevChain::connect(&evm.url(), mint.clone()).await?;
        evm_dev.install_permit2(&fs::read(tools::root().join(".tools/permit2/Permit2.json"))?).await?;
        let evm_token = evm_dev.deploy_token("Development Dollar", "DEV", 6).await?;
        let solana = Surfnet::start(100).await?;
        let solana_mint = SigningKey::from_bytes(&[9; 32]);
        solana.airdrop(&chains_solana::keys::account(&solana_mint), LAMPORTS).await?;
        let solana_dev = DevCluster::connect(&solana.url(), &solana_mint);
        let solana_token = solana_dev.create_token(&SigningKey::from_bytes(&[8; 32]), TokenProgram::Token, 6).await?;
        let tron = TronDev::start(trondev::Options {
            chain_id: TRON_ID,
            blocks: Blocks::Every(Duration::from_millis(200)),
            solidified_lag: 2,
            ..trondev::Options::default()
        })
        .await?;
        let tron_dev = chains_tron::dev::DevChain::connect(&tron.url(), mint).await?;
        let tron_token = tron_dev.deploy_token("Development Dollar", "DEV", 6).await?;
        Ok(Self { evm, evm_dev, evm_token, solana, solana_dev, solana_token, tron, tron_dev, tron_token })
    }

    /// The networks, described as those in config/networks are.
    fn networks(&self) -> [(&'static str, String); 3] {
        let network = |name: &str, id: &str, url: &str, own: &str, depth: &str, token: &str| {
            format!(
                "name = \"{name}\"\ntitle = \"{name}\"\nchain_id = \"{id}\"\n{own}\nis_test = true\npublic_rpc_url = \"{url}\"\n\
                 transaction_url = \"https://e.example/{{transaction}}\"\naddress_url = \"https://e.example/{{address}}\"\nblock_ms = \
                 1000\nrequired_depth = {depth}\ndepth_reason = \"A network of a test.\"\nrefund_delay_seconds = 600\npoll_ms = \
                 200\n[[assets]]\nasset_identifier = \"{id}/{token}\"\nsymbol = \"DEV\"\ndecimals = 6\n"
            )
        };
        let permit2 = format!("permit2 = \"{PERMIT2}\"");
        let genesis = format!("genesis_hash = \"{}\"", self.solana.genesis_hash());
        let (evm_id, tron_id) = (format!("eip155:{EVM_ID}"), format!("tron:{TRON_ID}"));
        let solana_id = self.solana.chain_id();
        let tokens = [
            format!("erc20:{}", self.evm_token),
            format!("token:{}", self.solana_token.mint),
            format!("trc20:{}", self.tron_token),
        ];
        [
            ("evm", network("evm", &evm_id, &self.evm.url(), &permit2, "1", &tokens[0])),
            ("solana", network("solana-here", &solana_id, &self.solana.url(), &genesis, "\"finalized\"", &tokens[1])),
            ("tron", network("tron-here", &tron_id, &self.tron.url(), "", "\"finalized\"", &tokens[2])),
        ]
    }

    async fn fund(&self, evm: &str, solana: &str, tron: &str) -> Result<()> {
        self.evm_dev.fund(evm, U256::from(10_u64.pow(19))).await?;
        self.solana.airdrop(solana, LAMPORTS).await?;
        Ok(self.tron_dev.fund(tron, SUN).await?)
    }
}

/// What is in a file of chains under a key of a chain.
fn of_chain(chains: &Path, id: &str, key: &str) -> Result<String> {
    let table: toml::Table = toml::from_str(&fs::read_to_string(chains)?)?;
    let sections = table["chains"].as_array().context("no chains")?;
    let section = sections.iter().find(|section| section["chain_id"].as_str() == Some(id)).context("no such chain")?;
    let text = section.get(key).and_then(toml::Value::as_str);
    Ok(text.with_context(|| format!("no {key}"))?.to_owned())
}

async fn post(url: String, body: &Value) -> Result<Value> {
    let response = Client::new().post(url).header("prefer", "wait=0").json(body).send().await?;
    let (status, body): (_, Value) = (response.status(), response.json().await?);
    ensure!(status.is_success(), "{status}: {body}");
    Ok(body)
}

/// Pays from the EVM chain, as any wallet does, and waits for the delivery.
async fn pay(base: &str, payer: &PrivateKeySigner, source: &str, destination: &str, recipient: &str) -> Result<()> {
    let after = |seconds| (Utc::now() + chrono::TimeDelta::seconds(seconds)).to_rfc3339_opts(SecondsFormat::Secs, true);
    let mut body = json!({
        "version": "1.0",
        "request_id": format!("to-{}", &recipient[..8]),
        "source": {"asset_identifier": source, "account": format!("{:#x}", payer.address())},
        "destination": [{"asset_identifier": destination, "account": recipient}],
        "fulfillment_amount": "1000000",
        "max_source_amount": "1100000",
        "quote_deadline": after(4),
        "fulfillment_deadline": after(240),
    });
    let prepared = post(format!("{base}/v1/payments/prepare"), &body).await?;
    let mut message = prepared["signed_messages"][0].clone();
    let digest = message["message"].as_str().context("no digest")?.parse()?;
    message["signature"] = format!("0x{}", hex::encode(payer.sign_hash_sync(&digest)?.as_bytes())).into();
    body["sender_auth"] = json!({"message_scheme": prepared["message_scheme"], "signed_messages": [message]});
    let submitted = post(format!("{base}/v1/payments"), &body).await?;
    let id = submitted["payment_id"].as_str().context("no payment_id")?;
    let url = format!("{base}/v1/payments/{id}/status");
    let completed = async {
        loop {
            let response = Client::new().get(&url).send().await?.error_for_status()?;
            let status: Value = response.json().await?;
            match status["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed") => anyhow::bail!("{status}"),
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, completed).await.with_context(|| format!("{id} is not completed"))?
}

#[tokio::test(flavor = "multi_thread")]
async fn from_an_empty_directory_to_payments_on_three_families() -> Result<()> {
    let chains = Chains::start().await?;
    let operator = Operator { directory: tempfile::tempdir()? };
    let mut networks = String::new();
    for (name, text) in chains.networks() {
        fs::write(operator.path(&format!("{name}.network.toml")), text)?;
        networks += &format!(" --network-file {name}.network.toml");
    }

    // Files and keys for all roles. A settler has to know whom it trusts.
    let error = operator.fails(&format!("init --role settler{networks} --passphrase-file passphrase")).await?;
    assert!(error.contains("gw init --role verifier"), "{error}");
    let error = operator.fails(&format!("init --role gateway{networks} --network nowhere")).await?;
    assert!(error.contains("there is no network `nowhere`"), "{error}");
    let said = operator.does(&format!("init --role gateway{networks} --passphrase-file passphrase")).await?;
    assert!(said.contains("reserver-evm") && said.contains("gw deploy"), "{said}");
    for role in ["verifier", "settler", "auditor"] {
        operator.does(&format!("init --role {role} --passphrase-file passphrase")).await?;
    }
    let error = operator.fails("init --role gateway --passphrase-file passphrase").await?;
    assert!(error.contains("gateway.toml exists; nothing was written"), "{error}");
    let error = operator.fails("config check --role gateway --config gateway.toml").await?;
    assert!(error.contains("escrow_contract") && error.contains("`gw deploy` writes it"), "{error}");

    // The contracts.
    operator.does("keys new --kind evm keys/deployer-evm.json").await?;
    operator.does("keys new --kind solana keys/deployer-solana.json").await?;
    let (evm, tron) = (operator.account("deployer-evm", "EVM").await?, operator.account("deployer-evm", "Tron").await?);
    chains.fund(&evm, &operator.account("deployer-solana", "Solana").await?, &tron).await?;
    let (evm_id, solana_id, tron_id) =
        (format!("eip155:{EVM_ID}"), chains.solana.chain_id(), format!("tron:{TRON_ID}"));
    for (id, key) in [(&evm_id, "deployer-evm"), (&solana_id, "deployer-solana"), (&tron_id, "deployer-evm")] {
        let deploy = format!("deploy --chain {id} --payer keys/{key}.json --guardian nobody");
        let said = operator.does(&deploy).await?;
        assert!(said.contains("In all at most ") && said.contains("Nothing was sent"), "{said}");
        assert!(of_chain(&operator.path("chains.toml"), id, "escrow_contract").is_err());
        let said = operator.does(&format!("{deploy} --yes")).await?;
        assert!(said.contains("are written to chains.toml") && !said.contains("WRONG"), "{said}");
        operator.does(&format!("deploy --chain {id} --verify")).await?;
        let said = operator.does(&format!("{deploy} --yes")).await?;
        assert!(said.contains("Nothing is left to do."), "{said}");
    }
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
    let nats = NatsServer::in_directory(&operator.path("nats.conf"), &operator.path("data/nats"), free_port()?).await?;

    // Coins and tokens for those who need them.
    let accounts = async |key: &str| -> Result<[String; 3]> {
        let evm = operator.account(&format!("{key}-evm"), "EVM").await?;
        let solana = operator.account(&format!("{key}-solana"), "Solana").await?;
        let tron = operator.account(&format!("{key}-tron"), "Tron").await?;
        chains.fund(&evm, &solana, &tron).await?;
        Ok([evm, solana, tron])
    };
    accounts("submitter").await?;
    let [_, settler_solana, settler_tron] = accounts("settler").await?;
    chains.solana_dev.mint(&chains.solana_token, &settler_solana, TOKENS).await?;
    chains.tron_dev.mint(&chains.tron_token, &settler_tron, U256::from(TOKENS)).await?;

    // The roles.
    let url = nats.url();
    let (verifier_port, gateway_port) = (free_port()?, free_port()?);
    let verifier = format!("127.0.0.1:{verifier_port}");
    let _verifier = operator
        .start(
            "verifier",
            &[
                ("GW_VERIFIER_LISTEN", verifier.clone()),
                ("GW_VERIFIER_CALLERS__ORIGINS", format!("[\"http://{verifier}\"]")),
            ],
            Some(verifier_port),
        )
        .await?;
    let base = format!("http://127.0.0.1:{gateway_port}");
    let _gateway = operator
        .start(
            "gateway",
            &[
                ("GW_HTTP__LISTEN", format!("127.0.0.1:{gateway_port}")),
                ("GW_HTTP__BASE_URL", base.clone()),
                ("GW_NATS__URL", url.clone()),
                ("GW_VERIFIER__ENDPOINT", format!("http://{verifier}")),
            ],
            Some(gateway_port),
        )
        .await?;
    // Which verifier it asks stands in a list, which no variable reaches.
    let settler = fs::read_to_string(operator.path("settler.toml"))?;
    fs::write(operator.path("settler.toml"), settler.replace("http://127.0.0.1:8090", &format!("http://{verifier}")))?;
    let _settler = operator.start("settler", &[("GW_SETTLER_NATS__URL", url)], None).await?;

    operator.logs("gateway", "settler is registered").await?;

    // Somebody pays.
    let payer = PrivateKeySigner::random();
    let account = format!("{:#x}", payer.address());
    chains.evm_dev.fund(&account, U256::from(10_u64.pow(18))).await?;
    chains.evm_dev.mint(&chains.evm_token, &account, U256::from(TOKENS)).await?;
    chains.evm_dev.approve(&payer, &chains.evm_token, PERMIT2, U256::MAX).await?;
    let source = format!("{evm_id}/erc20:{}", chains.evm_token);
    let recipient = chains_solana::keys::account(&SigningKey::from_bytes(&[5; 32]));
    let to_solana = format!("{solana_id}/token:{}", chains.solana_token.mint);
    let to_tron = format!("{tron_id}/trc20:{}", chains.tron_token);
    let tron_recipient = "TYBNgWfhGuNzdLtjKtxXTfskAhTbMcqbaG";
    let paid = async {
        pay(&base, &payer, &source, &to_solana, &recipient).await?;
        pay(&base, &payer, &source, &to_tron, tron_recipient).await
    };
    paid.await.with_context(|| {
        format!("{}\n{}\n{}", operator.log("gateway"), operator.log("settler"), operator.log("verifier"))
    })?;
    assert_eq!(chains.solana_dev.token_balance(&chains.solana_token, &recipient).await?, 1_000_000);
    assert_eq!(chains.tron_dev.token_balance(&chains.tron_token, tron_recipient).await?, U256::from(1_000_000));

    // Nothing secret stands in the files that are not keys.
    for file in ["chains.toml", "gateway.toml", "verifier.toml", "settler.toml"] {
        let text = fs::read_to_string(operator.path(file))?;
        let is_key = |word: &str| word.len() == 66 && word.starts_with("0x");
        assert!(!text.split('"').any(is_key), "{file}: {text}");
    }
    assert!(!operator.log("gateway").contains("IN THE CLEAR"), "the keys are in keystores");
    Ok(())
}
