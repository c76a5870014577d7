//! `gw doctor` on a network of real servers and chains: nothing wrong where all is well, and each fault by its name.

use std::path::PathBuf;

use alloy::signers::local::PrivateKeySigner;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use devnet::{network::Options, solana::SolanaOptions, users::NatsUser};

use crate::support::*;

/// A key that nobody uses.
const STRANGER: &str = "0x00000000000000000000000000000000000000000000000000000000000d0c70";

/// What is broken, by which variables, and how the line begins that names it.
type Fault = (&'static str, Vec<(&'static str, String)>, String);

/// What the doctor says of a role, with variables laid over its file; and whether it found nothing wrong.
async fn doctor(world: &World, role: &str, file: &str, variables: &[(&str, String)]) -> Result<(bool, Value)> {
    let options = world.network.options();
    let mut command = Command::new(&options.gw);
    command.args(["doctor", "--json", "--role", role, "--config"]).arg(options.directory.join(file));
    command.env("GW_DEVELOPMENT_KEYS", "1").envs(variables.iter().cloned()).kill_on_drop(true);
    let output = command.output().await?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(!said.contains(&STRANGER[2..]), "a key is shown: {said}");
    let report: Value = serde_json::from_str(&said).with_context(|| said.clone())?;
    let is_well = output.status.success();
    ensure!(is_well == (report["verdict"] == "ok"), "exit code and verdict differ: {said}");
    Ok((is_well, report))
}

/// The file with the seed of a NATS user, where the gateway's own stands.
fn seed_of(world: &World, user: NatsUser) -> Result<PathBuf> {
    let gateway: toml::Table =
        toml::from_str(&std::fs::read_to_string(world.network.options().directory.join("gateway-1.toml"))?)?;
    let own = gateway["nats"]["seed_file"].as_str().context("no seed_file")?;
    let theirs = PathBuf::from(own.replace(&NatsUser::Gateway.seed_file(), &user.seed_file()));
    ensure!(theirs.exists() && theirs.as_os_str() != own, "{}", theirs.display());
    Ok(theirs)
}

/// What is wrong, a line each: place, subject and what was found.
fn wrong(report: &Value) -> Vec<String> {
    let checks = report["checks"].as_array().into_iter().flatten();
    let wrong = checks.filter(|check| check["verdict"] == "wrong");
    wrong.map(|check| format!("{} {}: {}", check["place"], check["subject"], check["found"]).replace('"', "")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_wrong_where_all_is_well_and_each_fault_has_its_name() -> Result<()> {
    let world = World::with_tron(|options| Options { solana: Some(SolanaOptions::default()), ..options }).await?;
    for (role, file) in [
        ("gateway", "gateway-1.toml"),
        ("settler", "settler-1.toml"),
        ("verifier", "verifier.toml"),
        ("selector", "selector.toml"),
        ("auditor", "auditor.toml"),
    ] {
        let (is_well, report) = doctor(&world, role, file, &[]).await?;
        assert!(is_well, "{role}: {report:#}");
    }

    let destination = world.network.destination.anvil.url();
    let contracts = &world.network.source.contracts;
    let auditor = seed_of(&world, NatsUser::Auditor)?;
    let place = format!("eip155:{}", world.network.source.anvil.chain_id());
    let reserver = "0x0b6d8a64cfcf3b4b7a9b47d7aab1c5ef3c0e6e0d".to_owned();
    let set = |key: &'static str, value: &str| (key, value.to_owned());
    let cases: [Fault; 11] = [
        (
            "another reserver",
            vec![
                ("GW_CHAINS__0__RESERVER", format!("{:#x}", STRANGER.parse::<PrivateKeySigner>()?.address())),
                set("GW_CHAINS__0__RESERVER_KEY", STRANGER),
            ],
            format!("{place} reserver of GatewayEscrow"),
        ),
        (
            "another chain's node",
            vec![set("GW_CHAINS__0__RPC_URL", &destination)],
            format!("{place} node: the node configured for {place} is of chain"),
        ),
        ("no node", vec![set("GW_CHAINS__0__RPC_URL", "http://127.0.0.1:1/?key=hidden")], format!("{place} node: ")),
        ("no code", vec![set("GW_CHAINS__0__ESCROW_CONTRACT", &reserver)], format!("{place} code of GatewayEscrow")),
        (
            "the proxy's code at the escrow's address",
            vec![set("GW_CHAINS__0__ESCROW_CONTRACT", &contracts.proxy)],
            format!("{place} code of GatewayEscrow"),
        ),
        ("another Permit2", vec![set("GW_CHAINS__0__PERMIT2", &reserver)], format!("{place} Permit2")),
        (
            "no coins",
            vec![set("GW_CHAINS__0__SUBMITTER_KEYS", &format!("[\"{STRANGER}\"]"))],
            format!("{place} coins of submitter"),
        ),
        (
            "another layout of shards",
            vec![set("GW_JOURNAL__SHARDS", "4")],
            "nats settings of the journal's streams".to_owned(),
        ),
        ("copies without servers", vec![set("GW_JOURNAL__REPLICAS", "3")], "nats servers for the copies".to_owned()),
        (
            "no permission",
            vec![("GW_NATS__SEED_FILE", auditor.display().to_string())],
            "nats permission: appending to the journal".to_owned(),
        ),
        (
            "no verifier",
            vec![set("GW_VERIFIER__ENDPOINT", "http://127.0.0.1:1")],
            "endpoints verifier http://127.0.0.1:1".to_owned(),
        ),
    ];
    // What stands in a list no variable reaches.
    let directory = &world.network.options().directory;
    let mut config: toml::Table = toml::from_str(&std::fs::read_to_string(directory.join("gateway-1.toml"))?)?;
    config["chains"][0]["assets"][0]["decimals"] = 9.into();
    std::fs::write(directory.join("gateway-decimals.toml"), toml::to_string(&config)?)?;
    let (is_well, report) = doctor(&world, "gateway", "gateway-decimals.toml", &[]).await?;
    let expected = format!("{place} decimals of ");
    assert!(!is_well && wrong(&report).iter().any(|line| line.starts_with(&expected)), "{report:#}");

    for (fault, variables, expected) in cases {
        let (is_well, report) = doctor(&world, "gateway", "gateway-1.toml", &variables).await?;
        assert!(!is_well, "{fault}: {report:#}");
        let wrong = wrong(&report);
        assert!(wrong.iter().any(|line| line.starts_with(&expected)), "{fault}: {expected}: {wrong:#?}");
        assert!(!report.to_string().contains("hidden"), "{fault}: {report}");
        if fault == "no node" {
            assert!(report["checks"].as_array().unwrap().iter().any(|check| check["verdict"] == "ok"
                && check["place"] == format!("eip155:{}", world.network.destination.anvil.chain_id()).as_str()));
        }
    }
    Ok(())
}
