//! What roles share: the file of chains, and keys in files of their own.

use std::{fs, path::Path};

use super::*;
use crate::{
    AccountKey, KeyForm,
    keystore::{self, KeystoreError},
};

const RESERVER_KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const PASSPHRASE: &str = "correct horse battery";

/// The gateway's example in two files: what all roles say of the chain, and what the gateway alone does.
fn split() -> (String, String) {
    let (head, chain) = GATEWAY.split_once("# One section a chain.\n[[chains]]\n").unwrap();
    let own = ["reserver_key = ", "submitter_keys = "];
    let is_own = |line: &&str| own.iter().any(|key| line.starts_with(key));
    let chain_id = "chain_id = \"eip155:31337\"\n";
    let mine: String = chain.lines().filter(is_own).map(|line| format!("{line}\n")).collect();
    let shared: String = chain.lines().filter(|line| !is_own(line)).map(|line| format!("{line}\n")).collect();
    (format!("chains_file = \"chains.toml\"\n{head}\n[[chains]]\n{chain_id}{mine}"), format!("[[chains]]\n{shared}"))
}

fn load(directory: &Path, text: &str) -> Result<GatewayConfig, String> {
    let path = directory.join("gateway.toml");
    fs::write(&path, text).unwrap();
    GatewayConfig::read(&path, Vec::new()).map_err(|error| error.to_string())
}

#[test]
fn chains_stand_in_a_file_that_roles_share() {
    let directory = tempfile::tempdir().unwrap();
    let (own, shared) = split();
    fs::write(directory.path().join("chains.toml"), &shared).unwrap();
    let whole = gateway(GATEWAY, &[]).unwrap();
    assert_eq!(format!("{:?}", load(directory.path(), &own).unwrap()), format!("{whole:?}"));

    // A role's own word stands above the shared one, also inside a table.
    let other = format!("{own}required_depth = 7\n[chains.gas]\ndelivery_max = 400000\n");
    let config = load(directory.path(), &other).unwrap();
    let ChainConfig::Evm(chain) = &config.chains[0].chain else { panic!("{config:?}") };
    assert_eq!(chain.common.required_depth, chains::config::Depth::Confirmations(7));
    assert_eq!((chain.gas.delivery_max, chain.gas.deposit_max), (400_000, 1_500_000));

    // A verifier reads the same file.
    let head = VERIFIER.split_once("# One section a chain").unwrap().0;
    let path = directory.path().join("verifier.toml");
    fs::write(&path, format!("chains_file = \"chains.toml\"\n{head}")).unwrap();
    assert_eq!(VerifierConfig::read(&path, Vec::new()).unwrap().chains.len(), 1);

    let errors = [
        (own.replace("chains.toml", "none.toml"), "none.toml"),
        (own.replace("\"chains.toml\"", "7"), "chains_file: must be a text"),
        (own.replace("eip155:31337", "eip155:1"), "missing field"),
    ];
    for (text, said) in errors {
        let error = load(directory.path(), &text).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    fs::write(directory.path().join("chains.toml"), format!("listen = 1\n{shared}")).unwrap();
    let error = load(directory.path(), &own).unwrap_err();
    assert!(error.starts_with("chains_file: holds `listen`"), "{error}");
}

#[test]
fn what_is_missing_is_named_with_who_writes_it() {
    for (key, command) in [
        ("escrow_contract = ", "`gw deploy` writes it"),
        ("reserver = ", "`gw init --role gateway` writes it"),
        ("releaser = ", "`gw init --role verifier` writes it"),
    ] {
        let text = GATEWAY.replacen(&format!("\n{key}"), "\n# ", 1);
        let error = gateway(&text, &[]).unwrap_err();
        assert!(error.contains("eip155:31337") && error.contains(command), "{key}: {error}");
    }
}

#[test]
fn the_verifiers_accounts_are_the_releasers_of_the_chains() {
    let without = GATEWAY.replacen("\naccount = ", "\n# ", 1);
    let config = gateway(&without, &[]).unwrap();
    assert_eq!(config.verifier.account.as_ref(), Some(&config.chains[0].chain.common().releaser));
    assert_eq!(config.verifier.solana_account, None);
}

#[test]
fn keys_stand_in_keystores_and_files() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let key = hex::decode(RESERVER_KEY).unwrap();
    keystore::create(&place.join("reserver.json"), &key, PASSPHRASE).unwrap();
    for name in ["submitter", "earlier"] {
        fs::write(place.join(name), format!("{SUBMITTER_KEY}\n")).unwrap();
    }
    fs::write(place.join("passphrase"), format!("{PASSPHRASE}\n")).unwrap();
    let text = format!(
        "passphrase_file = \"passphrase\"\n{}",
        GATEWAY
            .replace(&format!("\"0x{RESERVER_KEY}\""), "{ keystore = \"reserver.json\" }")
            .replace(&format!("\"{SUBMITTER_KEY}\""), "{ secret_file = \"submitter\" }")
            .replace("# draining_reserver_keys = []", "draining_reserver_keys = [{ secret_file = \"earlier\" }]")
    );
    let config = load(place, &text).unwrap();
    assert_eq!(config.chains[0].reserver_key, AccountKey::from(Secret::new(format!("0x{RESERVER_KEY}"))));
    assert_eq!(config.chains[0].submitter_keys[0], AccountKey::from(Secret::new(SUBMITTER_KEY)));
    assert_eq!(config.chains[0].draining_reserver_keys[0], AccountKey::from(Secret::new(SUBMITTER_KEY)));

    // The settler, whose keys have no type of their own.
    let settler = include_str!("../../settler.example.toml").replacen(
        "\"0000000000000000000000000000000000000000000000000000000000000001\"",
        "{ keystore = \"reserver.json\" }",
        1,
    );
    let path = place.join("settler.toml");
    fs::write(&path, format!("passphrase_file = \"passphrase\"\n{settler}")).unwrap();
    let read: settler::Config = read_settler(&path, Vec::new()).unwrap();
    assert_eq!(read.evm_private_key, Some(format!("0x{RESERVER_KEY}")));

    let (first, second) = ("chains[0].reserver_key: keystore ", "chains[0].submitter_keys[0]: secret_file ");
    let errors: [(&str, &str, &str, &str); 4] = [
        ("\"reserver.json\"", "\"none.json\"", first, "No such file"),
        ("\"reserver.json\"", "\"passphrase\"", first, "is no keystore"),
        ("\"submitter\"", "\"none\"", second, "No such file"),
        ("\"passphrase\"", "\"submitter\"", first, "cannot be decrypted with this passphrase"),
    ];
    for (from, to, place_of, said) in errors {
        let error = load(place, &text.replacen(from, to, 1)).unwrap_err();
        assert!(error.starts_with(place_of) && error.contains(said), "{error}");
        assert!(!error.contains(PASSPHRASE) && !error.contains(RESERVER_KEY), "{error}");
    }
    fs::write(place.join("submitter"), "\n").unwrap();
    let error = load(place, &text).unwrap_err();
    assert!(error.starts_with(second) && error.ends_with("is empty"), "{error}");
}

#[test]
fn where_keys_stand_is_told_without_reading_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("role.toml");
    let chain = "[[chains]]\nchain_id = \"solana:a\"\nreserver_key = [1, 2]\nsubmitter_keys = [\"k\", { secret_file = \"f\" }]\n";
    fs::write(
        &path,
        format!("seed = \"\"\n[audit]\ncheckpoint_key = {{ keystore = \"c.json\" }}\nkeystore = \"no key\"\n{chain}"),
    )
    .unwrap();
    let places = crate::key_places(&path).unwrap();
    let told: Vec<_> =
        places.iter().map(|place| (place.path.as_str(), place.chain_id.as_deref(), &place.form)).collect();
    assert_eq!(
        told,
        [
            ("audit.checkpoint_key", None, &KeyForm::Keystore("c.json".to_owned())),
            ("chains[0].reserver_key", Some("solana:a"), &KeyForm::InTheClear),
            ("chains[0].submitter_keys[0]", Some("solana:a"), &KeyForm::InTheClear),
            ("chains[0].submitter_keys[1]", Some("solana:a"), &KeyForm::SecretFile("f".to_owned())),
        ]
    );
    assert_eq!(places[3].name, "submitter_keys[1]");
}

#[test]
fn a_keystore_holds_a_key_and_is_not_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key.json");
    keystore::create(&path, &[7; 64], PASSPHRASE).unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(keystore::create(&path, &[8; 32], PASSPHRASE), Err(KeystoreError::File(_))));
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(keystore::open(&path, PASSPHRASE).unwrap().expose(), bs58::encode([7; 64]).into_string());
    assert!(matches!(keystore::open(&path, "another"), Err(KeystoreError::Passphrase)));
    let short = directory.path().join("short.json");
    assert!(matches!(keystore::create(&short, &[1; 31], PASSPHRASE), Err(KeystoreError::Length(31))));
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o600);

    // Files that the library would panic at, or work on for minutes.
    let text = String::from_utf8(before).unwrap();
    for (from, to) in [
        ("\"dklen\":32", "\"dklen\":8"),
        ("\"n\":8192", "\"n\":1073741824"),
        ("\"r\":8", "\"r\":4294967295"),
        ("\"iv\":\"", "\"iv\":\"\",\"was\":\""),
        ("\"scrypt\"", "\"none\""),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        fs::write(&short, text.replace(from, to)).unwrap();
        let error = keystore::open(&short, PASSPHRASE).unwrap_err();
        assert!(matches!(error, KeystoreError::Form(_)), "{from}: {error}");
    }
}
