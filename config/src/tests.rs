//! Tests of the configuration files: the examples, the rules of each key, and what the environment overrides.

mod account_keys;
mod families;
mod networks;
mod settlers;
mod shared;
mod tron;
mod verifier_sets;

use std::path::PathBuf;

use net::origin::origin;

use super::*;
use chains::config::{ChainConfig, SolanaConfig, TronConfig};

use crate::examples::{section, solana_section, with_solana};

const GATEWAY: &str = include_str!("../gateway.example.toml");
const VERIFIER: &str = include_str!("../verifier.example.toml");

/// Of the example's submitter.
const SUBMITTER_KEY: &str = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.toml");
    std::fs::write(&path, text).unwrap();
    (directory, path)
}

fn solana_chain(chain: &ChainConfig) -> &SolanaConfig {
    let ChainConfig::Solana(chain) = chain else { panic!("{chain:?} is not a Solana chain") };
    chain
}

fn tron_chain(chain: &ChainConfig) -> &TronConfig {
    let ChainConfig::Tron(chain) = chain else { panic!("{chain:?} is not a Tron chain") };
    chain
}

fn gateway(text: &str, variables: &[(&str, &str)]) -> Result<GatewayConfig, String> {
    let (_directory, path) = file(text);
    let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    GatewayConfig::read(&path, variables).map_err(|error| error.to_string())
}

fn verifier(text: &str, variables: &[(&str, &str)]) -> Result<VerifierConfig, String> {
    let (_directory, path) = file(text);
    let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    VerifierConfig::read(&path, variables).map_err(|error| error.to_string())
}

/// The example with every commented key switched on, so that documented keys are keys and documented defaults defaults.
fn uncommented(text: &str) -> String {
    let is_key = |line: &str| {
        let key = line.strip_prefix("# ").and_then(|line| line.split_once(" = "));
        key.is_some_and(|(key, _)| key.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_'))
    };
    let lines = text.lines().map(|line| if is_key(line) { &line[2..] } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_examples_solana_chain_is_one() {
    let config = gateway(&with_solana(GATEWAY), &[]).unwrap();
    let solana = solana_chain(&config.chains[1].chain);
    assert_eq!(solana.common.chain_id.as_str(), "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1");
    assert_eq!((solana.signature_domain_version, solana.common.assets.len()), (1, 2));
    assert_eq!(solana.signature_cluster_id, "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG");
    let full = uncommented(&with_solana(GATEWAY));
    assert!(full.contains("\nsignature_domain_version = 1\n") && full.contains("\nsignature_cluster_id = "), "{full}");
    assert_eq!(format!("{:?}", gateway(&full, &[]).unwrap()), format!("{config:?}"));

    let key = "6pc4LiB8KHAPvbUbkozrTcPL5zXspYBdATv5raNDyVbpoz75fGXT3N41QtwPtrdu4wMT1tyRu2125Uyu92AnxEC";
    let text = format!("{VERIFIER}{}", solana_section(VERIFIER));
    let config = verifier(&text, &[("GW_VERIFIER_SOLANA_RELEASER_KEY", key)]).unwrap();
    assert_eq!(config.chains.len(), 2);
    // A chain whose releaser nobody here can sign for is a destination.
    verifier(&text, &[]).unwrap();
    for (value, named) in [("abc", "solana_releaser_key: "), (OTHER_KEYPAIR, "chains[1].releaser: ")] {
        let error = verifier(&text, &[("GW_VERIFIER_SOLANA_RELEASER_KEY", value)]).unwrap_err();
        assert!(error.starts_with(named) && !error.contains(OTHER_KEYPAIR), "{error}");
    }
}

const OTHER_KEYPAIR: &str = "5f5r5AjuFd8WwUagQSztAgufUCE6rdYhXmjU5rtnBPtC8ky1rA78ap2MWs3HCm94AaHn6skXbGvsnkbEG2jf8vF";

#[test]
fn the_values_of_a_solana_chain_are_checked_and_the_key_is_named() {
    let cluster = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG";
    let other_cluster = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d";
    let off_curve = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knM";
    for (name, value, key) in [
        ("CHAIN_ID", "solana:abc", "chains[1].signature_cluster_id"),
        ("SIGNATURE_CLUSTER_ID", other_cluster, "chains[1].signature_cluster_id"),
        ("SIGNATURE_CLUSTER_ID", &cluster[..40], "chains[1].signature_cluster_id"),
        ("SIGNATURE_DOMAIN_VERSION", "2", "chains[1].signature_domain_version"),
        ("FULFILLMENT_PROXY", cluster, "chains[1].fulfillment_proxy"),
        ("REQUIRED_DEPTH", "3", "chains[1].required_depth"),
        ("RELEASER", off_curve, "chains[1].releaser"),
        ("RELEASER", cluster, "chains[1].releaser"),
        ("RESERVER_KEY", OTHER_KEYPAIR, "chains[1].reserver_key"),
        ("RESERVER_KEY", "0x11", "chains[1].reserver_key"),
        ("SUBMITTER_KEYS", "[\"abc\"]", "chains[1].submitter_keys"),
    ] {
        let error = gateway(&with_solana(GATEWAY), &[(&format!("GW_CHAINS__1__{name}"), value)]).unwrap_err();
        assert!(error.starts_with(&format!("{key}: ")), "{name}={value}: {error}");
        assert!(!error.contains(OTHER_KEYPAIR), "{error}");
    }
    for (from, to, key) in [
        (
            "solana_account = \"8SFqwqnq4whPhs8icwHA2hQg3hUoN1qrCLK1SBx3WKwe\"",
            "solana_account = \"GyGKxMyg1p9SsHfm15MkNUu1u9TN2JtTspcdmrtGUdse\"",
            "chains[1].releaser",
        ),
        ("/token:", "/erc20:", "chains[1].assets[0].asset_identifier"),
        ("/token:EP", "/token:", "chains[1].assets[0].asset_identifier"),
        ("/slip44:501", "/slip44:60", "chains[1].assets[1].asset_identifier"),
    ] {
        let (head, section) =
            with_solana(GATEWAY).rsplit_once("\n[[chains]]\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let text = match from.starts_with("solana_account") {
            true => format!("{}\n[[chains]]\n{section}", head.replacen(from, to, 1)),
            false => format!("{head}\n[[chains]]\n{}", section.replacen(from, to, 1)),
        };
        let error = gateway(&text, &[]).unwrap_err();
        assert!(error.starts_with(&format!("{key}: ")), "{from}: {error}");
    }
    // A key in the other form that it may have.
    let numbers: Vec<u8> = bs58::decode(OTHER_KEYPAIR).into_vec().unwrap();
    for array in [format!("[{:?}]", format!("{numbers:?}")), format!("[{numbers:?}]")] {
        let config = gateway(&with_solana(GATEWAY), &[("GW_CHAINS__1__SUBMITTER_KEYS", &array)]).unwrap();
        assert!(!format!("{config:?}").contains(&format!("{numbers:?}")));
    }
}

#[test]
fn the_examples_parse_and_show_the_defaults() {
    let plain = gateway(GATEWAY, &[]).unwrap();
    let full = uncommented(GATEWAY);
    assert_ne!(full, GATEWAY);
    assert_eq!(format!("{:?}", gateway(&full, &[]).unwrap()), format!("{plain:?}"));
    assert_eq!(plain.journal, JournalConfig { shards: 8, replicas: 1 });
    assert_eq!(plain.http.hold_ms_max, 30_000);
    assert_eq!(plain.chains[0].submitter_keys.len(), 1);

    let plain = verifier(VERIFIER, &[]).unwrap();
    assert_eq!(format!("{:?}", verifier(&uncommented(VERIFIER), &[]).unwrap()), format!("{plain:?}"));
}

/// The keys that a section may have, as the types say them: a key that is not known is refused with those that are.
fn keys<T: std::fmt::Debug>(read: impl Fn(&str) -> Result<T, String>, text: &str, header: &str) -> Vec<String> {
    let at = if header.is_empty() { 0 } else { text.find(&format!("\n{header}\n")).unwrap() + header.len() + 2 };
    let error = read(&format!("{}a_key_of_nobody = 1\n{}", &text[..at], &text[at..])).unwrap_err();
    let (_, expected) = error.split_once("found `a_key_of_nobody`, expected ").unwrap_or_else(|| panic!("{error}"));
    let expected = expected.split_once(" for key ").map_or(expected, |(expected, _)| expected);
    expected.split('`').map(str::trim).filter(is_name).map(str::to_owned).collect()
}

/// Whether it can be a key, and is not a word between two of them.
fn is_name(text: &&str) -> bool {
    let names = !text.is_empty() && text.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_');
    names && !matches!(*text, "or" | "one" | "of")
}

/// The lines of an example from a header to the next.
fn lines_under<'a>(text: &'a str, header: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| *line != header).skip(1);
    lines.take_while(|line| !line.starts_with('[')).collect()
}

/// Whether one of the lines sets the key, shows its default, or says that it has none.
fn names(lines: &[&str], key: &str) -> bool {
    let is_key = |line: &&str| {
        let line = line.trim_start_matches(['#', ' ']);
        line.strip_prefix(key).is_some_and(|rest| rest.starts_with(" = ") || rest.starts_with(", "))
    };
    lines.iter().any(is_key)
}

/// The sections of an example, and what must be in each: every key that the types know.
fn check_example<T: std::fmt::Debug>(read: impl Fn(&str) -> Result<T, String>, text: &str) {
    let head: Vec<_> = text.lines().take_while(|line| !line.starts_with('[')).collect();
    for section in keys(&read, text, "") {
        let forms = [format!("[{section}]"), format!("[[{section}]]")];
        let Some(header) = forms.iter().find(|form| text.lines().any(|line| line == form.as_str())) else {
            // Of what is left out, the section is in a comment; else it is a key of the head.
            let is_commented = forms.iter().any(|form| text.contains(&format!("# {form}\n")));
            assert!(is_commented || names(&head, &section), "{section}");
            continue;
        };
        let lines = if section == "chains" { text.lines().collect() } else { lines_under(text, header) };
        for key in keys(&read, text, header) {
            let is_section =
                text.contains(&format!("[{section}.{key}")) || text.contains(&format!("[[{section}.{key}"));
            assert!(is_section || names(&lines, &key), "{header} {key}");
        }
    }
}

#[test]
fn the_examples_name_every_key() {
    check_example(|text| gateway(text, &[]), GATEWAY);
    for header in ["[chains.gas]", "[[chains.assets]]"] {
        for key in keys(|text| gateway(text, &[]), GATEWAY, header) {
            assert!(names(&lines_under(GATEWAY, header), &key), "{header} {key}");
        }
    }
    check_example(|text| verifier(text, &[]), VERIFIER);
    check_example(settler_file, include_str!("../settler.example.toml"));
}

fn settler_file(text: &str) -> Result<(), String> {
    let (_directory, path) = file(text);
    read_settler::<settler::Config>(&path, Vec::new()).map(drop).map_err(|error| error.to_string())
}

#[test]
fn unknown_keys_are_refused_by_name() {
    for (section, key) in [
        ("[nats]", "pasword"),
        ("[journal]", "shard"),
        ("[http]", "lisen"),
        ("[deadlines]", "quote_ms"),
        ("[projections]", "dir"),
        ("[verifier]", "url"),
        ("[trust]", "escrows"),
        ("[audit]", "key"),
        ("[identity]", "origins"),
        ("[settlers]", "policy"),
        ("[[chains]]", "rpc"),
        ("[chains.gas]", "deposit"),
        ("[[chains.assets]]", "decimal"),
    ] {
        let line = format!("\n{section}\n");
        let error = gateway(&GATEWAY.replace(&line, &format!("{line}{key} = 1\n")), &[]).unwrap_err();
        assert!(error.contains(key) && error.contains("gateway.toml"), "{section} {key}: {error}");
    }
    let error = gateway(&format!("{GATEWAY}\n[htpp]\nlisten = 1"), &[]).unwrap_err();
    assert!(error.contains("htpp"), "{error}");
    let error = gateway(GATEWAY, &[("GW_HTTP__LISEN", "1")]).unwrap_err();
    assert!(error.contains("lisen"), "{error}");
    let error = verifier(&format!("listn = 1\n{VERIFIER}"), &[]).unwrap_err();
    assert!(error.contains("listn"), "{error}");
    let error = verifier(VERIFIER, &[("GW_VERIFIER_LISTN", "1")]).unwrap_err();
    assert!(error.contains("listn"), "{error}");
}

#[test]
fn missing_keys_are_named() {
    for key in ["seed_file", "directory", "reserver_key", "submitter_keys", "rpc_url", "required_depth"] {
        let without: Vec<_> = GATEWAY.lines().filter(|line| !line.starts_with(&format!("{key} = "))).collect();
        let error = gateway(&without.join("\n"), &[]).unwrap_err();
        assert!(error.contains(key), "{key}: {error}");
    }
    let missing = GatewayConfig::read("does-not-exist.toml".as_ref(), Vec::new()).unwrap_err().to_string();
    assert!(missing.contains("does-not-exist.toml"), "{missing}");
}

#[test]
fn the_environment_overrides_every_level() {
    let config = gateway(
        GATEWAY,
        &[
            ("GW_HTTP__LISTEN", "127.0.0.1:9999"),
            ("GW_HTTP__HOLD_MS_MAX", "5"),
            ("GW_NATS__SEED_FILE", "/run/secrets/gateway.seed"),
            ("GW_CHAINS__0__RPC_URL", "http://127.0.0.1:7777"),
            ("GW_TRUST__SELECTORS", "[\"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed\"]"),
            // None of these is a key of the gateway's.
            ("GW_LOG", "debug"),
            ("GW_NATS__URL", ""),
            ("GW_VERIFIER_LISTEN", "127.0.0.1:1"),
            ("GW_VERIFIER_CHAINS__0__RPC_URL", "http://127.0.0.1:1"),
            ("GW_AUDITOR_NATS__INBOX_PREFIX", "_INBOX_a"),
            ("GW_SETTLER_NATS__URL", "tls://nats.example"),
        ],
    )
    .unwrap();
    assert_eq!(config.http.listen.port(), 9999);
    assert_eq!(config.http.hold_ms_max, 5);
    assert_eq!(config.nats.seed_file.to_str(), Some("/run/secrets/gateway.seed"));
    assert_eq!(config.chains[0].chain.common().rpc_url, "http://127.0.0.1:7777");
    assert_eq!(config.chains[0].chain.common().assets.len(), 1);
    assert_eq!(config.trust.selectors[0].to_string(), "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed");
    let error = gateway(GATEWAY, &[("GW_CHAINS__1__RPC_URL", "http://127.0.0.1:7777")]).unwrap_err();
    assert!(error.contains("chains") && error.contains('1'), "{error}");

    let variables = [
        ("GW_VERIFIER_LISTEN", "127.0.0.1:1"),
        ("GW_VERIFIER__ENDPOINT", "x"),
        ("GW_VERIFIER_CHAINS__0__POLL_MS", "7"),
    ];
    let config = verifier(VERIFIER, &variables).unwrap();
    assert_eq!((config.listen.port(), config.chains[0].common().poll_ms), (1, 7));
}

#[test]
fn values_are_checked_and_the_key_is_named() {
    for (name, value, key) in [
        ("GW_NATS__URL", "http://127.0.0.1", "nats.url"),
        ("GW_NATS__URL", "nats://10.0.0.1:4222", "nats.url"),
        ("GW_GATEWAY__KEY", "0x12", "gateway.key"),
        ("GW_JOURNAL__SHARDS", "0", "journal.shards"),
        ("GW_JOURNAL__REPLICAS", "2", "journal.replicas"),
        ("GW_HTTP__BASE_URL", "https://pay.example/", "http.base_url"),
        ("GW_HTTP__BASE_URL", "pay.example", "http.base_url"),
        ("GW_HTTP__HOLD_MS_MAX", "30001", "http.hold_ms_max"),
        ("GW_HTTP__BODY_BYTES_MAX", "300000", "http.body_bytes_max"),
        ("GW_HTTP__BODY_MS_MAX", "0", "http.body_ms_max"),
        ("GW_HTTP__RETRY_AFTER_SECONDS", "0", "http.retry_after_seconds"),
        ("GW_HTTP__CONNECTIONS_MAX", "0", "http.connections_max"),
        ("GW_HTTP__HEAD_MS_MAX", "0", "http.head_ms_max"),
        ("GW_HTTP__IDLE_MS_MAX", "999", "http.idle_ms_max"),
        ("GW_HTTP__WRITE_MS_MAX", "0", "http.write_ms_max"),
        ("GW_HTTP__WRITES_IN_FLIGHT_MAX", "0", "http.writes_in_flight_max"),
        ("GW_HTTP__WRITES_WAITING_MAX", "0", "http.writes_waiting_max"),
        ("GW_HTTP__WRITE_WAIT_MS_MAX", "30001", "http.write_wait_ms_max"),
        ("GW_HTTP__QUOTE_REQUESTS_OPEN_MAX", "0", "http.quote_requests_open_max"),
        ("GW_HTTP__DEPOSIT_ADDRESSES_OPEN_MAX", "0", "http.deposit_addresses_open_max"),
        ("GW_LIMITS__WRITES", "{per_second = 1, burst = 15}", "limits.writes.burst"),
        ("GW_LIMITS__UNSIGNED", "{per_second = 1, burst = 25}", "limits.unsigned.burst"),
        ("GW_LIMITS__ACCEPTED", "{per_second = 1, burst = 15}", "limits.accepted.burst"),
        ("GW_SETTLERS__ABSENCE_MS_MAX", "86400001", "settlers.absence_ms_max"),
        ("GW_DEADLINES__SETTLEMENT_MS_MIN", "86400000", "deadlines.settlement_seconds_max"),
        ("GW_DEADLINES__QUOTE_SECONDS_MAX", "0", "deadlines.quote_seconds_max"),
        ("GW_DEADLINES__QUOTE_SECONDS_MAX", "86401", "deadlines.quote_seconds_max"),
        ("GW_DEADLINES__QUOTE_MS_MIN", "600000", "deadlines.quote_seconds_max"),
        ("GW_DEADLINES__SETTLEMENT_SECONDS_MAX", "0", "deadlines.settlement_seconds_max"),
        ("GW_DEADLINES__SETTLEMENT_SECONDS_MAX", "2592001", "deadlines.settlement_seconds_max"),
        ("GW_DEADLINES__REFUND_SECONDS_MAX", "3599", "deadlines.refund_seconds_max"),
        ("GW_DEADLINES__REFUND_SECONDS_MAX", "18446744073709551615", "deadlines.refund_seconds_max"),
        ("GW_PROJECTIONS__DIRECTORY", "\"\"", "projections.directory"),
        ("GW_AUDIT__CHECKPOINT_KEY", "0x12", "audit.checkpoint_key"),
        ("GW_AUDIT__CHECKPOINT_SECONDS", "0", "audit.checkpoint_seconds"),
        ("GW_AUDIT__TRUSTED_SIGNERS", "[\"did:web:x\"]", "audit.trusted_signers"),
        ("GW_VERIFIER__ENDPOINT", "http://127.0.0.1:8090/v1", "verifier.endpoint"),
        ("GW_VERIFIER__ACCOUNT", "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "chains[0].releaser"),
        ("GW_CHAINS", "[]", "chains"),
        (
            "GW_TRUST__ESCROW_CONTRACTS",
            "[\"eip155:5:0x5FbDB2315678afecb367f032d93F642f64180aa3\"]",
            "trust.escrow_contracts",
        ),
        (
            "GW_TRUST__VERIFIERS",
            "[{account = \"0x70997970C51812dc3A010C7d01b50e0d17dc79C8\", endpoint = \"ftp://x\"}]",
            "trust.verifiers[0].endpoint",
        ),
        (
            "GW_TRUST__VERIFIER_ORIGINS",
            "[\"https://a.example\", \"https://b.example/v1\"]",
            "trust.verifier_origins[1]",
        ),
    ] {
        assert_names(name, value, key);
    }
    let error = gateway(GATEWAY, &[("GW_TRUST__FULFILLMENT_PROXIES", "[\"0x1\"]")]).unwrap_err();
    assert!(error.contains("CAIP-10"), "{error}");
    for (name, value) in [
        ("GW_TRUST__VERIFIERS", "[{account = \"0x1\", endpoint = \"https://verifier.example\"}]"),
        ("GW_VERIFIER__ACCOUNT", "0x70997970C51812dc3A010C7d01b50e0d17dc79"),
    ] {
        let error = gateway(GATEWAY, &[(name, value)]).unwrap_err();
        assert!(error.starts_with("account must be 0x followed by 40 hex digits"), "{error}");
    }
}

/// That a gateway whose variable has this value is refused with this key.
fn assert_names(name: &str, value: &str, key: &str) {
    let error = gateway(GATEWAY, &[(name, value)]).unwrap_err();
    assert!(error.starts_with(&format!("{key}: ")), "{name}={value}: {error}");
    assert!(!error.contains(OTHER_KEY), "{error}");
}

const RESERVERS_KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
/// Of the releaser, which is not a key of a gateway's chain.
const OTHER_KEY: &str = "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a";

#[test]
fn the_values_of_a_chain_are_checked_and_the_key_is_named() {
    for (name, value, key) in [
        ("GW_CHAINS__0__RPC_URL", "127.0.0.1", "chains[0].rpc_url"),
        ("GW_CHAINS__0__CHAIN_ID", "eip155:5", "chains[0].assets[0].asset_identifier"),
        ("GW_CHAINS__0__RESERVER_KEY", OTHER_KEY, "chains[0].reserver_key"),
        ("GW_CHAINS__0__RESERVER_KEY", "0x12", "chains[0].reserver_key"),
        ("GW_CHAINS__0__DRAINING_RESERVER_KEYS", &format!("[{RESERVERS_KEY:?}]"), "chains[0].draining_reserver_keys"),
        (
            "GW_CHAINS__0__DRAINING_RESERVER_KEYS",
            &format!("[{OTHER_KEY:?}, {OTHER_KEY:?}]"),
            "chains[0].draining_reserver_keys",
        ),
        ("GW_CHAINS__0__DRAINING_RESERVER_KEYS", "[\"0x12\"]", "chains[0].draining_reserver_keys"),
        ("GW_CHAINS__0__SUBMITTER_KEYS", "[]", "chains[0].submitter_keys"),
        ("GW_CHAINS__0__EXIT_SUBMITTER_KEYS", &format!("[{SUBMITTER_KEY:?}]"), "chains[0].exit_submitter_keys"),
        ("GW_CHAINS__0__EXIT_SUBMITTER_KEYS", "[\"0x12\"]", "chains[0].exit_submitter_keys"),
        ("GW_CHAINS__0__DRAINING_SUBMITTER_KEYS", &format!("[{SUBMITTER_KEY:?}]"), "chains[0].draining_submitter_keys"),
        ("GW_CHAINS__0__EXITS_RESERVED", "10001", "chains[0].exits_reserved"),
        ("GW_CHAINS__0__GAS__DEPOSIT_MAX", "299999", "chains[0].gas.deposit_max"),
        ("GW_CHAINS__0__GAS__DELIVERY_MAX", "149999", "chains[0].gas.delivery_max"),
        ("GW_CHAINS__0__GAS__CALLER_CALLS_MAX", "17", "chains[0].gas.caller_calls_max"),
        ("GW_CHAINS__0__GAS__ACCOUNT_LOSS_MAX", "1499999", "chains[0].gas.account_loss_max"),
        ("GW_CHAINS__0__POLL_MS", "0", "chains[0].poll_ms"),
    ] {
        assert_names(name, value, key);
    }
}

#[test]
fn the_values_of_a_verifier_are_checked_and_the_key_is_named() {
    for (name, value, key) in [
        ("HTTP__CONNECTIONS_MAX", "0", "http.connections_max"),
        ("HTTP__HEAD_MS_MAX", "0", "http.head_ms_max"),
        ("HTTP__IDLE_MS_MAX", "999", "http.idle_ms_max"),
        ("HTTP__BODY_MS_MAX", "60001", "http.body_ms_max"),
        ("HTTP__WRITE_MS_MAX", "0", "http.write_ms_max"),
        ("CALLERS__ORIGINS", "[\"http://verifier.example/v1\"]", "callers.origins[0]"),
        ("CALLERS__ORIGINS", "[]", "callers.origins"),
        ("CALLERS__GATEWAYS", "[\"did:web:gateway.example\"]", "callers.gateways"),
        ("CALLERS__SETTLERS", "[\"did:key:z6MktULudTtAsAhRegYPiZ6631RV3viv12qd4GQF8z1xB22S\"]", "callers.settlers"),
        ("CALLERS__SIGNATURE_SECONDS_MAX", "0", "callers.signature_seconds_max"),
        ("CALLERS__ASKS_PER_CALLER_MAX", "0", "callers.asks_per_caller_max"),
        ("CALLERS__JUDGEMENTS_MAX", "0", "callers.judgements_max"),
        ("CALLERS__JUDGEMENTS_PER_CALLER_MAX", "0", "callers.judgements_per_caller_max"),
        ("CALLERS__ANONYMOUS_ASKS_MAX", "0", "callers.anonymous_asks_max"),
        ("CALLERS__ANONYMOUS_JUDGEMENTS_MAX", "1000001", "callers.anonymous_judgements_max"),
    ] {
        let error = verifier(VERIFIER, &[(&format!("GW_VERIFIER_{name}"), value)]).unwrap_err();
        assert!(error.starts_with(&format!("{key}: ")), "{name}={value}: {error}");
    }
    // With nobody known there is nothing to sign for, and strangers need not be served.
    let nobody = [("ORIGINS", "[]"), ("GATEWAYS", "[]"), ("SETTLERS", "[]"), ("ANONYMOUS_JUDGEMENTS_MAX", "0")]
        .map(|(name, value)| (format!("GW_VERIFIER_CALLERS__{name}"), value));
    verifier(VERIFIER, &nobody.each_ref().map(|(name, value)| (name.as_str(), *value))).unwrap();

    let error = verifier(VERIFIER, &[("GW_VERIFIER_RELEASER_KEY", &"0x11".repeat(16))]).unwrap_err();
    assert!(error.starts_with("releaser_key: "), "{error}");
    let error = verifier(VERIFIER, &[("GW_VERIFIER_RELEASER_KEY", &format!("0x{}", "11".repeat(32)))]).unwrap_err();
    assert!(error.starts_with("chains[0].releaser: "), "{error}");
}

#[test]
fn secrets_are_never_shown() {
    let shown = format!("{:?}", gateway(GATEWAY, &[]).unwrap());
    assert!(!shown.contains("ac0974be") && !shown.contains("change-me"), "{shown}");
    // A key stands where a list of them has to.
    for name in ["SUBMITTER_KEYS", "EXIT_SUBMITTER_KEYS"] {
        let error = gateway(GATEWAY, &[(&format!("GW_CHAINS__0__{name}"), SUBMITTER_KEY)]).unwrap_err();
        assert!(
            error.contains(&format!("{}: ", name.to_lowercase())) && !error.contains(&SUBMITTER_KEY[2..]),
            "{error}"
        );
    }
}

/// The reader's own error repeats the line.
#[test]
fn a_secret_that_is_not_quoted_is_not_repeated() {
    for line in
        ["reserver_key = 0xac0974bec39a17e36ba4a6b4d238ff94", "reserver_key = \"0xac0974bec39a17e3", "x = ac0974be-1"]
    {
        let text = format!("# first\n{line}\n");
        for error in [gateway(&text, &[]).unwrap_err(), verifier(&text, &[]).unwrap_err()] {
            assert!(!error.contains("ac0974be"), "{error}");
            assert!(error.contains("line 2, column "), "{error}");
        }
    }
}

#[test]
fn an_origin_has_nothing_behind_it() {
    for good in ["http://127.0.0.1:8090", "https://verifier.example", "http://[::1]:80"] {
        assert!(origin(good).is_some(), "{good}");
    }
    assert_eq!(origin("HTTPS://Verifier.Example:443").as_deref(), Some("https://verifier.example"));
    for bad in [
        "",
        "verifier.example",
        "ftp://x",
        "https://",
        "https://x/",
        "https://x/v1",
        "https://x?a",
        "https://x#a",
        "https://u@x",
        "https:x",
        "https://x\\y",
        " https://x",
        "https://x:99999",
    ] {
        assert_eq!(origin(bad), None, "{bad}");
    }
}
