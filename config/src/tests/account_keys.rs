//! Keys that services keep (ADR 132): where they may stand, and which service can sign what.

use events::Family;

use crate::{AccountKey, KeyForm, KeyService, Signs, examples::with_tron};

use super::*;

const RESERVER: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const RESERVER_LINE: &str = "reserver_key = \"0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80\"";

/// The example of a gateway with another reserver's key on its first chain.
fn with_reserver_key(value: &str) -> String {
    GATEWAY.replacen(RESERVER_LINE, &format!("reserver_key = {value}"), 1)
}

fn web3signer(account: &str) -> String {
    format!("{{ web3signer = \"https://user:password@signer.example:9000/eth\", account = \"{account}\" }}")
}

#[test]
fn a_key_may_be_at_a_service() {
    let config = gateway(&with_reserver_key(&web3signer(RESERVER)), &[]).unwrap();
    let key = &config.chains[0].reserver_key;
    let AccountKey::Elsewhere(distant) = key else { panic!("{key:?}") };
    let checked = distant.check(Family::Evm, "reserver_key", Signs::Statements).unwrap();
    assert_eq!(checked.account.to_string(), RESERVER.to_lowercase());
    assert_eq!(checked.call_max.as_millis(), 5_000);
    let KeyService::Web3Signer(url) = &checked.service else { panic!("{checked:?}") };
    assert_eq!(url.path(), "/eth");
    assert!(!format!("{checked:?}").contains("password"), "{checked:?}");
    assert!(!format!("{config:?}").contains("password"), "what may be secret is not shown");

    // In a list, beside a key.
    let listed = GATEWAY.replacen(
        &format!("submitter_keys = [\"{SUBMITTER_KEY}\"]"),
        &format!("submitter_keys = [\"{SUBMITTER_KEY}\", {}]", web3signer(RESERVER)),
        1,
    );
    assert_eq!(gateway(&listed, &[]).unwrap().chains[0].submitter_keys.len(), 2);
    let (_directory, path) = file(&listed);
    let places = crate::key_places(&path).unwrap();
    let place = places.iter().find(|place| place.path == "chains[0].submitter_keys[1]").unwrap();
    assert_eq!(place.form, KeyForm::Web3Signer("https://signer.example:9000".to_owned()));
}

#[test]
fn what_is_written_of_a_service_is_checked_and_the_member_is_named() {
    let account = format!("account = \"{RESERVER}\"");
    for (value, named) in [
        (web3signer("0x70997970C51812dc3A010C7d01b50e0d17dc79C8"), "chains[0].reserver_key: must be the private key"),
        (web3signer("0x12"), "chains[0].reserver_key.account: "),
        ("{ web3signer = \"https://signer.example\" }".to_owned(), "chains[0].reserver_key.account: "),
        (format!("{{ {account} }}"), "chains[0].reserver_key: "),
        (format!("{{ web3signer = \"signer.example\", {account} }}"), "chains[0].reserver_key.web3signer: "),
        (format!("{{ web3signer = \"https://a.example/?k=1\", {account} }}"), "chains[0].reserver_key.web3signer: "),
        (
            format!("{{ web3signer = \"https://a.example\", call_ms_max = 99, {account} }}"),
            "chains[0].reserver_key.call_ms_max: ",
        ),
        // A password that anybody on the way reads, and one that is shown to nobody.
        (
            format!("{{ web3signer = \"http://user:password@a.example\", {account} }}"),
            "chains[0].reserver_key.web3signer: must be https",
        ),
        (
            format!(
                "{{ kms = \"alias/k\", region = \"eu-central-1\", endpoint = \"https://user@a.example\", {account} }}"
            ),
            "chains[0].reserver_key.endpoint: ",
        ),
    ] {
        let error = gateway(&with_reserver_key(&value), &[]).unwrap_err();
        assert!(error.starts_with(named), "{value}: {error}");
    }
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        let value = format!("{{ web3signer = \"http://user:password@{host}:9000\", {account} }}");
        gateway(&with_reserver_key(&value), &[]).unwrap();
    }
    let error = gateway(&with_reserver_key(&format!("{{ web3 = \"x\", {account} }}")), &[]).unwrap_err();
    assert!(error.contains("web3") && error.contains("reserver_key"), "{error}");
    for value in ["12345678901234567", "true", "1.5", "[300]"] {
        let error = gateway(&with_reserver_key(value), &[]).unwrap_err();
        assert!(error.contains("must be a key") && !error.contains("1234567"), "{error}");
    }
}

#[test]
fn a_service_that_cannot_sign_what_a_key_is_for_is_refused_by_name() {
    // A transaction of Tron is signed by its SHA-256; what its escrow is told is EIP-712.
    let tron = with_tron(GATEWAY);
    let section = tron.rfind("\n[[chains]]\n").unwrap();
    let in_tron = |from: &str, to: &str| format!("{}{}", &tron[..section], tron[section..].replacen(from, to, 1));
    let reserver = tron[section..].split("\nreserver = \"").nth(1).unwrap().split('"').next().unwrap();
    let statements = in_tron(RESERVER_LINE, &format!("reserver_key = {}", web3signer(reserver)));
    gateway(&statements, &[]).unwrap();
    let submitter = format!("submitter_keys = [\"{SUBMITTER_KEY}\"]");
    let transactions = in_tron(&submitter, &format!("submitter_keys = [{}]", web3signer(reserver)));
    let error = gateway(&transactions, &[]).unwrap_err();
    assert!(error.starts_with("chains[1].submitter_keys[0].web3signer: "), "{error}");
    assert!(error.contains("SHA-256"), "{error}");

    let solana = with_solana(GATEWAY);
    let section = solana.rfind("\n[[chains]]\n").unwrap();
    let line = solana[section..].lines().find(|line| line.starts_with("reserver_key = ")).unwrap();
    let account = solana[section..].split("\nreserver = \"").nth(1).unwrap().split('"').next().unwrap();
    let (before, chain) = solana.split_at(section);
    let replaced = chain.replacen(line, &format!("reserver_key = {}", web3signer(account)), 1);
    let text = format!("{before}{replaced}");
    let error = gateway(&text, &[]).unwrap_err();
    assert!(error.starts_with("chains[1].reserver_key.web3signer: "), "{error}");
    assert!(error.contains("Ed25519"), "{error}");
}

fn kms(account: &str) -> String {
    format!("{{ kms = \"alias/gateway\", region = \"eu-central-1\", account = \"{account}\" }}")
}

#[test]
fn kms_can_keep_keys_of_every_family() {
    for (text, family) in
        [(GATEWAY.to_owned(), Family::Evm), (with_tron(GATEWAY), Family::Tron), (with_solana(GATEWAY), Family::Solana)]
    {
        let section = text.rfind("\n[[chains]]\n").unwrap();
        let (before, chain) = text.split_at(section);
        let account = chain.split("\nreserver = \"").nth(1).unwrap().split('"').next().unwrap();
        let mut replaced = chain.to_owned();
        for (name, value) in [("reserver_key", kms(account)), ("submitter_keys", format!("[{}]", kms(account)))] {
            let line = chain.lines().find(|line| line.starts_with(&format!("{name} = "))).unwrap();
            replaced = replaced.replacen(line, &format!("{name} = {value}"), 1);
        }
        let config = gateway(&format!("{before}{replaced}"), &[]).unwrap();
        let served = config.chains.last().unwrap();
        assert_eq!(served.chain.family(), family);
        let AccountKey::Elsewhere(distant) = &served.submitter_keys[0] else { panic!("{family:?}") };
        let checked = distant.check(family, "submitter_keys[0]", Signs::Transactions).unwrap();
        assert_eq!(checked.service.to_string(), "kms alias/gateway in eu-central-1");
    }
}

#[test]
fn what_is_written_of_kms_is_checked_and_the_member_is_named() {
    let account = format!("account = \"{RESERVER}\"");
    for (value, named) in [
        (format!("{{ kms = \"k\", {account} }}"), "chains[0].reserver_key.region: "),
        (format!("{{ kms = \"k\", region = \"EU/1\", {account} }}"), "chains[0].reserver_key.region: "),
        (format!("{{ kms = \"\", region = \"eu-1\", {account} }}"), "chains[0].reserver_key.kms: "),
        (
            format!("{{ kms = \"k\", region = \"eu-1\", endpoint = \"vpce\", {account} }}"),
            "chains[0].reserver_key.endpoint: ",
        ),
        (
            format!("{{ kms = \"k\", web3signer = \"https://a.example\", region = \"eu-1\", {account} }}"),
            "chains[0].reserver_key: ",
        ),
        (
            format!("{{ web3signer = \"https://a.example\", region = \"eu-1\", {account} }}"),
            "chains[0].reserver_key.region: ",
        ),
    ] {
        let error = gateway(&with_reserver_key(&value), &[]).unwrap_err();
        assert!(error.starts_with(named), "{value}: {error}");
    }
}

#[test]
fn a_verifiers_key_may_be_at_a_service() {
    let line = VERIFIER.lines().find(|line| line.starts_with("releaser_key = ")).unwrap();
    let releaser = VERIFIER.split("\nreleaser = \"").nth(1).unwrap().split('"').next().unwrap();
    let with = |account: &str| VERIFIER.replacen(line, &format!("releaser_key = {}", web3signer(account)), 1);
    let config = verifier(&with(releaser), &[]).unwrap();
    assert!(matches!(config.releaser_key, Some(AccountKey::Elsewhere(_))));
    let error = verifier(&with(RESERVER), &[]).unwrap_err();
    assert!(error.starts_with("chains[0].releaser: "), "{error}");
}
