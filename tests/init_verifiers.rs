//! `gw init` of three people whose verifiers attest together, of the gateway and of a settler that trust them.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Runs `gw`; what it says, or its error.
fn gw(directory: &Path, arguments: &[&str]) -> Result<Result<String, String>> {
    let output = Command::new(env!("CARGO_BIN_EXE_gw")).args(arguments).current_dir(directory).output()?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Ok(if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) })
}

fn does(directory: &Path, arguments: &[&str]) -> Result<String> {
    gw(directory, arguments)?.map_err(anyhow::Error::msg)
}

fn refuses(directory: &Path, arguments: &[&str]) -> Result<String> {
    gw(directory, arguments)?.err().with_context(|| format!("{arguments:?} is not refused"))
}

fn checked(directory: &Path, role: &str) -> Result<String> {
    does(directory, &["config", "check", "--role", role, "--config", &format!("{role}.toml")])
}

/// The file of chains, with contracts as a deployment writes them.
fn deployed(chains: &str) -> String {
    let contracts = |line: &str| {
        let (escrow, proxy) = match line {
            _ if line.starts_with("chain_id = \"eip155:") => {
                ("0x".to_owned() + &"1".repeat(40), "0x".to_owned() + &"2".repeat(40))
            }
            _ if line.starts_with("chain_id = \"solana:") => {
                let program = "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU".to_owned();
                (program.clone(), program)
            }
            _ => return format!("{line}\n"),
        };
        format!("{line}\nescrow_contract = \"{escrow}\"\nfulfillment_proxy = \"{proxy}\"\n")
    };
    chains.lines().map(contracts).collect()
}

#[test]
fn three_verifiers_who_exchange_their_accounts_and_who_trusts_them_have_files_that_fit() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let networks = ["--network", "base-sepolia,solana-devnet", "--passphrase-file", "passphrase"];
    let mut members = Vec::new();
    for name in ["a", "b", "c"] {
        let home = folder.path().join(name);
        fs::create_dir(&home)?;
        let endpoint = format!("https://verifier-{name}.example");
        let keys_only = ["init", "--role", "verifier", "--keys-only", "--verifier-endpoint", &endpoint];
        let said = does(&home, &[&keys_only[..], &networks].concat())?;
        ensure!(!home.join("verifier.toml").exists());
        let (_, given) = said.split_once("--verifier '").context(said.clone())?;
        members.push(given.split_once('\'').context("no end")?.0.to_owned());
    }
    let trusting = |threshold: &'static str, members: &[String]| -> Vec<String> {
        let members = members.iter().flat_map(|member| ["--verifier".to_owned(), member.clone()]);
        ["--verifier-threshold".to_owned(), threshold.to_owned()].into_iter().chain(members).collect()
    };
    let init = |home: &Path, role: &str, further: &[&str], set: &[String]| {
        let mut arguments = vec!["init", "--role", role, "--passphrase-file", "passphrase"];
        arguments.extend(further);
        arguments.extend(set.iter().map(String::as_str));
        gw(home, &arguments)
    };

    // Who gives them in whatever order means the same set.
    let gateway = folder.path().join("gateway");
    fs::create_dir(&gateway)?;
    let backwards: Vec<String> = members.iter().rev().cloned().collect();
    init(&gateway, "gateway", &networks[..2], &trusting("2", &backwards))?.map_err(anyhow::Error::msg)?;
    init(&gateway, "settler", &[], &trusting("2", &members))?.map_err(anyhow::Error::msg)?;
    let chains = deployed(&fs::read_to_string(gateway.join("chains.toml"))?);
    fs::write(gateway.join("chains.toml"), &chains)?;
    for (name, own) in ["a", "b", "c"].into_iter().zip(&members) {
        let home = folder.path().join(name);
        // One that is left out is told, and so is another set than the gateway's.
        let others: Vec<String> = members.iter().filter(|member| *member != own).cloned().collect();
        let error = init(&home, "verifier", &[], &trusting("1", &others))?.err().context("it is not among them")?;
        ensure!(error.contains("no --verifier has 0x"), "{error}");
        fs::write(home.join("chains.toml"), &chains)?;
        let error = init(&home, "verifier", &[], &trusting("3", &members))?.err().context("another set")?;
        ensure!(error.contains("names another releaser of eip155:84532"), "{error}");
        ensure!(!home.join("verifier.toml").exists());
        init(&home, "verifier", &[], &trusting("2", &members))?.map_err(anyhow::Error::msg)?;
        let said = checked(&home, "verifier")?;
        ensure!(said.contains("2 of 3 have to attest, this one among them"), "{said}");
        let file: toml::Value = toml::from_str(&fs::read_to_string(home.join("verifier.toml"))?)?;
        assert_eq!(file["callers"]["origins"][0].as_str(), own.split('=').next());
    }

    // The id is the one that anyone computes of the accounts.
    let account = |member: &String| member.split(['=', ',']).find(|part| part.starts_with("0x")).map(str::to_owned);
    let accounts = members.iter().map(account).collect::<Option<Vec<_>>>().context("an EVM account of each")?;
    let flags = accounts.iter().flat_map(|account| ["--member", account]);
    let id = ["verifiers", "id", "--threshold", "2", "--json"].into_iter().chain(flags).collect::<Vec<_>>();
    let told: Value = serde_json::from_str(&does(folder.path(), &id)?)?;
    let id = told["id"].as_str().context("no id")?;
    for role in ["gateway", "settler"] {
        let said = checked(&gateway, role)?;
        ensure!(said.contains("2 of 3 have to attest: https://verifier-a.example, ") && said.contains(id), "{said}");
    }
    ensure!(chains.contains(&format!("releaser = \"{id}\"")), "{chains}");

    let error = refuses(&gateway, &["verifiers", "id", "--threshold", "4", "--member", &accounts[0]])?;
    ensure!(error.contains("the threshold of a verifier set must be"), "{error}");
    Ok(())
}
