//! Chains of Tron in every role's configuration.

use crate::examples::with_tron;

use super::*;

const SETTLER: &str = include_str!("../../settler.example.toml");
const KEY: &str = "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a";
const OTHER_KEY: &str = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
const OTHER_ACCOUNT: &str = "TLEaY8XoqpBmndLsjcfThgdKLN1ssNuUcF";

fn settler_from(text: &str, variables: &[(&str, &str)]) -> Result<settler::Config, String> {
    let (_directory, path) = file(text);
    let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    read_settler(&path, variables).map_err(|error| error.to_string())
}

#[test]
fn the_examples_tron_chain_is_one() {
    let config = gateway(&with_tron(GATEWAY), &[]).unwrap();
    let tron = tron_chain(&config.chains[1].chain);
    assert_eq!((tron.common.chain_id.as_str(), tron.common.assets.len()), ("tron:728126428", 2));
    assert!(tron.api_key.is_none() && GATEWAY.contains("api_key, without a default"));
    // The older form of the reference is the same chain.
    let hex = with_tron(GATEWAY).replace("tron:728126428", "tron:0x2b6653dc");
    assert_eq!(format!("{:?}", gateway(&hex, &[]).unwrap()), format!("{config:?}"));

    let twice = format!("{}{}", with_tron(GATEWAY), section(&hex, "tron"));
    assert!(gateway(&twice, &[]).unwrap_err().starts_with("chains[2].chain_id: "));

    let text = format!("{VERIFIER}{}", section(VERIFIER, "tron"));
    let config = verifier(&text, &[("GW_VERIFIER_TRON_RELEASER_KEY", KEY)]).unwrap();
    assert!(config.tron_releaser_key.is_some() && !format!("{config:?}").contains(&KEY[2..]));
    // A chain whose releaser nobody here can sign for is a destination.
    verifier(&text, &[]).unwrap();
    for (value, named) in [("0x12", "tron_releaser_key: "), (OTHER_KEY, "chains[1].releaser: ")] {
        let error = verifier(&text, &[("GW_VERIFIER_TRON_RELEASER_KEY", value)]).unwrap_err();
        assert!(error.starts_with(named) && !error.contains(&OTHER_KEY[2..]), "{error}");
    }
    // One key for both families is enough to sign with, whichever it is.
    let without = text.replacen("releaser_key = ", "# ", 1);
    verifier(&without, &[("GW_VERIFIER_TRON_RELEASER_KEY", KEY)]).unwrap();
    assert!(verifier(&without, &[]).unwrap_err().starts_with("releaser_key: "));
}

#[test]
fn the_values_of_a_tron_chain_are_checked_and_the_key_is_named() {
    for (name, value, key) in [
        ("CHAIN_ID", "tron:4294967296", "chains[1].chain_id"),
        ("RPC_URL", "http://127.0.0.1:9090/wallet", "chains[1].rpc_url"),
        ("RPC_URL", "http://127.0.0.1:9090/walletsolidity/", "chains[1].rpc_url"),
        ("RELEASER", OTHER_ACCOUNT, "chains[1].releaser"),
        ("REQUIRED_DEPTH", "19", "chains[1].required_depth"),
        ("RESERVER_KEY", KEY, "chains[1].reserver_key"),
        ("RESERVER_KEY", &KEY[2..], "chains[1].reserver_key"),
        ("SUBMITTER_KEYS", "[\"0x11\"]", "chains[1].submitter_keys"),
        ("SUBMITTER_KEYS", &format!("[{KEY:?}, {KEY:?}]"), "chains[1].submitter_keys"),
    ] {
        let error = gateway(&with_tron(GATEWAY), &[(&format!("GW_CHAINS__1__{name}"), value)]).unwrap_err();
        assert!(error.starts_with(&format!("{key}: ")), "{name}={value}: {error}");
        assert!(!error.contains(&KEY[2..]), "{error}");
    }
    for (from, to, key) in [
        (
            "tron_account = \"TFTsyAaajS3DTEbekme2wm9fNcypguDHp4\"",
            "tron_account = \"TYBNgWfhGuNzdLtjKtxXTfskAhTbMcqbaG\"",
            "chains[1].releaser",
        ),
        ("/trc20:TR", "/trc20:TT", "chains[1].assets[0].asset_identifier"),
        ("/trc20:", "/erc20:", "chains[1].assets[0].asset_identifier"),
        ("/slip44:195", "/slip44:60", "chains[1].assets[1].asset_identifier"),
        ("/slip44:195", "/trc10:1002000", "chains[1].assets[1].asset_identifier"),
    ] {
        // In the comments of the example stand the same words.
        let (head, section) =
            with_tron(GATEWAY).rsplit_once("\n[[chains]]\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let text = match from.starts_with("tron_account") {
            true => format!("{}\n[[chains]]\n{section}", head.replacen(&format!("\n{from}"), &format!("\n{to}"), 1)),
            false => format!("{head}\n[[chains]]\n{}", section.replacen(from, to, 1)),
        };
        let error = gateway(&text, &[]).unwrap_err();
        assert!(error.starts_with(&format!("{key}: ")), "{from}: {error}");
    }
}

#[test]
fn an_api_key_comes_from_file_or_environment_and_is_never_shown() {
    let key = "7f3c1c1e-secret";
    let config = gateway(&with_tron(GATEWAY), &[("GW_CHAINS__1__API_KEY", key)]).unwrap();
    assert!(tron_chain(&config.chains[1].chain).api_key.is_some() && !format!("{config:?}").contains(key));
    let verifier_text = format!("{VERIFIER}{}", section(VERIFIER, "tron"));
    let config = verifier(&verifier_text, &[("GW_VERIFIER_CHAINS__1__API_KEY", key)]).unwrap();
    assert!(tron_chain(&config.chains[1]).api_key.is_some() && !format!("{config:?}").contains(key));
    // What cannot be one is not shown either.
    for unusable in ["7713", "[7713]", "7713 secret", "7713\u{e9}", "\"\""] {
        let error = gateway(&with_tron(GATEWAY), &[("GW_CHAINS__1__API_KEY", unusable)]).unwrap_err();
        assert!(error.contains("api_key") && !error.contains("7713"), "{unusable}: {error}");
    }
    let error = gateway(GATEWAY, &[("GW_CHAINS__0__API_KEY", key)]).unwrap_err();
    assert!(error.contains("found `api_key`") && !error.contains(key), "{error}");
}

#[test]
fn a_settler_has_a_key_for_tron() {
    let (key, api_key) = (&KEY[2..], "7f3c1c1e-secret");
    let text =
        format!("tron_private_key = {key:?}\n{}", SETTLER.replacen("\n[[verifiers]]", "{tron}\n[[verifiers]]", 1));
    let text = text.replacen("{tron}", &section(SETTLER, "tron"), 1);
    let variables = [("GW_SETTLER_CONFIG", "x"), ("GW_SETTLER_CHAINS__2__API_KEY", api_key)];
    let config = settler_from(&text, &variables).unwrap();
    assert_eq!((config.tron_private_key.as_deref(), config.chains.len()), (Some(key), 3));
    assert!(tron_chain(&config.chains[2]).api_key.is_some());
    config.options().unwrap();
    let config =
        settler_from(SETTLER, &[("GW_SETTLER_TRON_PRIVATE_KEY", KEY), ("GW_SETTLER_NATS__URL", "tls://a")]).unwrap();
    assert_eq!((config.tron_private_key.as_deref(), config.nats.url.as_str()), (Some(KEY), "tls://a"));
    let error = settler_from(SETTLER, &[("GW_SETTLER_TRON_KEY", KEY)]).err().unwrap();
    assert!(error.contains("tron_key") && !error.contains(key), "{error}");
}
