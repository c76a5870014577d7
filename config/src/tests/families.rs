//! The chains of each role's configuration, by family: what the examples mean, and what only another family has.

use chains::config::{CommonConfig, Depth, EvmConfig, GasConfig};
use events::Family;

use crate::examples::with_tron;

use super::*;

const SETTLER: &str = include_str!("../../settler.example.toml");
const AUDITOR: &str = include_str!("../../auditor.example.toml");
const CLUSTER: &str = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG";

/// The chains of a file of each role, with the role's name.
fn read(role: &str, text: &str) -> Result<Vec<ChainConfig>, String> {
    let (_directory, path) = file(text);
    let told = |error: Error| error.to_string();
    match role {
        "gateway" => gateway(text, &[]).map(|config| config.chains.into_iter().map(|served| served.chain).collect()),
        "verifier" => verifier(text, &[]).map(|config| config.chains),
        "settler" => read_settler(&path, Vec::new()).map(|config: settler::Config| config.chains).map_err(told),
        _ => AuditorConfig::read(&path, Vec::new()).map(|config| config.chains).map_err(told),
    }
}

/// Each role's example with a chain of the family as its last.
fn examples(family: Family) -> Vec<(&'static str, String)> {
    let with = |role, example: &str, chain: &str| (role, format!("{example}{chain}"));
    match family {
        Family::Evm => [("gateway", GATEWAY), ("verifier", VERIFIER), ("settler", SETTLER), ("auditor", AUDITOR)]
            .map(|(role, example)| (role, example.to_owned()))
            .to_vec(),
        Family::Solana | Family::Tron => {
            let chain = |example| section(example, family.namespace());
            let gateway = if family == Family::Solana { with_solana(GATEWAY) } else { with_tron(GATEWAY) };
            vec![
                ("gateway", gateway),
                with("verifier", VERIFIER, &chain(VERIFIER)),
                with("settler", SETTLER, &chain(SETTLER)),
                // An auditor's chains have the keys of a verifier's.
                with("auditor", AUDITOR, &chain(VERIFIER)),
            ]
        }
    }
}

/// The example with a line more in the last of its chains.
fn with_line(example: &str, line: &str) -> String {
    let header = "\n[[chains]]\n";
    let at = example.rfind(header).unwrap() + header.len();
    format!("{}{line}\n{}", &example[..at], &example[at..])
}

#[test]
fn given_an_example_when_it_is_read_then_its_evm_chain_has_the_documented_defaults() {
    for (role, text) in examples(Family::Evm) {
        let chains = read(role, &text).unwrap();
        let ChainConfig::Evm(chain) = chains.last().unwrap() else { panic!("{role}: {chains:?}") };
        let expected = EvmConfig {
            common: CommonConfig {
                required_depth: Depth::Finalized,
                refund_delay_seconds: 3_600,
                submitter_deposits_warning: 100,
                exits_reserved: 10,
                ws_url: None,
                poll_ms: 500,
                rpc_timeout_ms: 5_000,
                ..chain.common.clone()
            },
            permit2: "0x000000000022D473030F116dDEE9F6B43aC78BA3".parse().unwrap(),
            admission_seconds: 120,
            reprice_seconds: 30,
            contract_payers: true,
            gas: GasConfig::default(),
        };
        assert_eq!(*chain, expected, "{role}");
        assert_eq!(chains.last().unwrap().family(), Family::Evm);
    }
}

#[test]
fn given_an_example_with_a_solana_chain_when_it_is_read_then_the_chain_is_one() {
    for (role, text) in examples(Family::Solana) {
        let chains = read(role, &text).unwrap();
        let chain = solana_chain(chains.last().unwrap());
        assert_eq!((chain.signature_cluster_id.as_str(), chain.signature_domain_version), (CLUSTER, 1), "{role}");
        assert_eq!(chain.common.rpc_url, "http://127.0.0.1:8899", "{role}");
        assert_eq!(chains.last().unwrap().family(), Family::Solana);
    }
}

#[test]
fn given_an_example_with_a_tron_chain_when_it_is_read_then_the_chain_is_one() {
    for (role, text) in examples(Family::Tron) {
        let chains = read(role, &text).unwrap();
        let chain = tron_chain(chains.last().unwrap());
        assert_eq!((chain.common.rpc_url.as_str(), &chain.api_key), ("http://127.0.0.1:9090", &None), "{role}");
        assert_eq!(chains.last().unwrap().family(), Family::Tron);
    }
}

#[test]
fn given_an_option_of_another_family_when_a_file_is_read_then_chain_and_option_are_named() {
    let cluster = format!("signature_cluster_id = {CLUSTER:?}");
    let (cluster, version) =
        ((cluster.as_str(), "signature_cluster_id"), ("signature_domain_version = 1", "signature_domain_version"));
    let api_key = ("api_key = \"7713-secret\"", "api_key");
    let permit2 = ("permit2 = \"0x000000000022D473030F116dDEE9F6B43aC78BA3\"", "permit2");
    let admission = ("admission_seconds = 120", "admission_seconds");
    let reprice = ("reprice_seconds = 30", "reprice_seconds");
    let payers = ("contract_payers = true", "contract_payers");
    let gas = ("gas = { deposit_max = 1500000 }", "gas");
    let witness = ("permit2_without_witness = false", "permit2_without_witness");
    let permit2_code = ("permit2_code = \"0x00\"", "permit2_code");
    let of_evm = [admission, reprice, payers, gas, witness];
    let others = |family| match family {
        Family::Evm => vec![cluster, version, api_key, permit2_code],
        Family::Solana => [&of_evm[..], &[api_key, permit2, permit2_code]].concat(),
        Family::Tron => [&of_evm[..], &[cluster, version]].concat(),
    };
    for (family, chain_id, name, own) in [
        (Family::Evm, "eip155:", "an EVM chain", "`permit2`"),
        (Family::Solana, "solana:", "a Solana chain", "`signature_cluster_id`"),
        (Family::Tron, "tron:", "a Tron chain", "`api_key`"),
    ] {
        for (role, example) in examples(family) {
            for (line, option) in others(family) {
                let error = read(role, &with_line(&example, line)).unwrap_err();
                let rule = format!(": unknown field of {name}: found `{option}`, expected one of `");
                assert!(error.contains(&rule) && error.contains(chain_id), "{role} {option}: {error}");
                let (_, known) = error.split_once("expected one of ").unwrap();
                assert!(known.contains(own) && known.contains("`rpc_url`"), "{role} {option}: {error}");
                assert!(!known.contains(&format!("`{option}`")) && !error.contains("7713"), "{role} {option}: {error}");
            }
        }
    }
}

#[test]
fn given_a_chain_of_no_family_when_a_file_is_read_then_its_id_and_the_families_are_named() {
    for (role, example) in examples(Family::Evm) {
        let text = example.replace("chain_id = \"eip155:", "chain_id = \"cosmos:");
        let error = read(role, &text).unwrap_err();
        assert!(error.contains("chain_id: `cosmos:"), "{role}: {error}");
        assert!(error.contains("must be of namespace eip155, solana or tron"), "{role}: {error}");
    }
}

#[test]
fn given_a_key_that_is_missing_or_of_another_type_when_a_file_is_read_then_chain_and_key_are_named() {
    for (role, example) in examples(Family::Solana) {
        let line = format!("signature_cluster_id = {CLUSTER:?}");
        let error = read(role, &example.replace(&format!("\n{line}"), "\n")).unwrap_err();
        assert!(
            error.contains("solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1: missing field `signature_cluster_id`"),
            "{error}"
        );
    }
    for (line, rule) in [
        ("signature_domain_version = 256", "signature_domain_version: "),
        ("signature_domain_version = \"one\"", "signature_domain_version: "),
        ("poll_ms = \"often\"", "poll_ms: "),
    ] {
        for (role, example) in examples(Family::Solana) {
            let error = read(role, &with_line(&example, line)).unwrap_err();
            assert!(error.contains(&format!("xqa1: {rule}")), "{role} {line}: {error}");
        }
    }
    for (role, example) in examples(Family::Evm) {
        let error =
            read(role, &with_line(&example, "gas = { call_max = -1 }").replace("\n[chains.gas]\n", "\n")).unwrap_err();
        assert!(error.contains(": gas.call_max: "), "{role}: {error}");
        let text: Vec<_> = example.lines().filter(|line| !line.starts_with("chain_id = ")).collect();
        let error = read(role, &text.join("\n")).unwrap_err();
        assert!(error.contains("missing field `chain_id`"), "{role}: {error}");
    }
}

/// A contract that is mistyped is not left out of what is trusted, whoever's file it is.
#[test]
fn given_an_account_that_cannot_be_one_of_the_chain_when_a_file_is_read_then_chain_and_key_are_named() {
    let (evm, tron) = ("0x5FbDB2315678afecb367f032d93F642f64180aa3", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t");
    let other = |family| if family == Family::Evm { tron } else { evm };
    let mistyped = |family| match family {
        Family::Evm => "0x5FbDB2315678afecb367f032d93F642f64180aA3",
        Family::Solana => "Bu4YY2J4tTs7UP6nd8uqS7YwzeLpmF1cHSuV5J4DvGl",
        Family::Tron => "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6u",
    };
    for (family, name) in [(Family::Evm, "an EVM"), (Family::Solana, "a Solana"), (Family::Tron, "a Tron")] {
        for (role, example) in examples(family) {
            let refused = |key: &str, text: &str, rule: &str| {
                let error = read(role, text).unwrap_err();
                let named = error.starts_with(family.namespace()) && error.contains(&format!(": {key}: "));
                assert!(named && error.contains(rule), "{role} {key}: {error}");
            };
            let of_another = format!("must be an account of {name} chain");
            for key in ["escrow_contract", "fulfillment_proxy", "reserver", "releaser"] {
                let start = format!("\n{key} = ");
                let (head, tail) = example.rsplit_once(&start).unwrap();
                let (_, tail) = tail.split_once('\n').unwrap();
                let with = |account: &str| format!("{head}{start}{account:?}\n{tail}");
                refused(key, &with(other(family)), &of_another);
                refused(key, &with(mistyped(family)), "account must ");
            }
            for key in ["trusted_escrow_contracts", "trusted_fulfillment_proxies"] {
                let with = |account: &str| with_line(&example, &format!("{key} = [{account:?}]"));
                refused(key, &with(other(family)), &of_another);
                refused(&format!("{key}.0"), &with(mistyped(family)), "account must ");
            }
            if family != Family::Solana {
                let with = |account: &str| with_line(&example, &format!("permit2 = {account:?}"));
                refused("permit2", &with(other(family)), &of_another);
                refused("permit2", &with(mistyped(family)), "account must ");
            }
        }
    }
}

/// Whoever signs one trusts the holder of the reserver's key, which is the gateway's to say.
#[test]
fn given_permit2_without_witness_when_a_file_is_read_then_only_a_gateways_may_name_it() {
    for (role, example) in examples(Family::Evm) {
        let text = with_line(&example, "permit2_without_witness = true");
        let chains = read(role, &text);
        match (role, chains) {
            ("gateway", chains) => {
                chains.unwrap();
                let says = |text: &str| gateway(text, &[]).unwrap().chains.last().unwrap().permit2_without_witness;
                assert!(says(&text) && !says(&example));
            }
            (_, chains) => {
                let error = chains.unwrap_err();
                assert!(error.contains("found `permit2_without_witness`"), "{role}: {error}");
            }
        }
    }
}

/// What the sections in comments leave out stands with the EVM chain.
#[test]
fn given_any_family_when_the_keys_of_its_chain_are_listed_then_the_examples_name_every_one() {
    for family in [Family::Evm, Family::Solana, Family::Tron] {
        for (role, example) in examples(family).into_iter().filter(|(role, _)| *role != "auditor") {
            let error = read(role, &with_line(&example, "a_key_of_nobody = 1")).unwrap_err();
            let (_, known) = error.split_once("found `a_key_of_nobody`, expected one of ").expect("the keys");
            let known = known.split_once(" for key ").map_or(known, |(known, _)| known);
            let lines: Vec<_> = example.lines().collect();
            for key in known.split('`').map(str::trim).filter(is_name) {
                let is_section = example.contains(&format!("[chains.{key}]"));
                assert!(is_section || names(&lines, key), "{role} {}: {key}", family.namespace());
            }
        }
    }
}

const NATIVE_MINT: &str = "So11111111111111111111111111111111111111112";

/// The example with the first asset of its last chain saying that it wraps `coin`.
fn wrapping(example: &str, coin: &str) -> String {
    let at = example.rfind("\n[[chains]]\n").unwrap();
    let (head, section) = example.split_at(at);
    let line = format!("[[chains.assets]]\nwraps = {coin:?}\n");
    format!("{head}{}", section.replacen("[[chains.assets]]\n", &line, 1))
}

#[test]
fn given_an_asset_that_wraps_the_coin_when_a_file_is_read_then_the_chain_knows_it() {
    for (family, number) in [(Family::Evm, 60), (Family::Tron, 195)] {
        for (role, example) in examples(family) {
            let chains = read(role, &example).unwrap();
            let common = chains.last().unwrap().common();
            assert!(common.assets.iter().all(|asset| asset.wraps.is_none()), "{role}");
            if common.assets.is_empty() {
                continue;
            }
            let coin = format!("{}/slip44:{number}", common.chain_id);
            let chains = read(role, &wrapping(&example, &coin)).unwrap();
            let common = chains.last().unwrap().common();
            let wrapped = &common.assets[0].asset_identifier;
            assert_eq!(common.coin_of(wrapped).map(ToString::to_string).as_deref(), Some(coin.as_str()), "{role}");
        }
    }
    // Of wrapped SOL it is known, and of no other token.
    let example = with_solana(GATEWAY);
    let coin = |text: &str| {
        let chains = read("gateway", text).unwrap();
        let common = chains.last().unwrap().common().clone();
        common.assets[0].wraps.clone().map(|coin| coin.to_string())
    };
    assert_eq!(coin(&example), None);
    let native = example.replace("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", NATIVE_MINT);
    let sol = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1/slip44:501";
    assert_eq!(coin(&native).as_deref(), Some(sol));
    assert_eq!(coin(&wrapping(&native, sol)).as_deref(), Some(sol));
}

#[test]
fn given_a_coin_that_an_asset_cannot_wrap_when_a_file_is_read_then_key_and_rule_are_named() {
    let (solana, tron) = ("solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "tron:728126428");
    let native = with_solana(GATEWAY).replace("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", NATIVE_MINT);
    let sol = format!("{solana}/slip44:501");
    for (example, coin, chain, rule) in [
        (GATEWAY, "eip155:1/slip44:60", 0, "must be on this chain"),
        (GATEWAY, "eip155:31337/erc20:0x9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0", 0, "must be of namespace slip44"),
        (&with_tron(GATEWAY), &format!("{tron}/slip44:60"), 1, "must be slip44:195"),
        (&native, &format!("{solana}/slip44:60"), 1, "must be slip44:501"),
        (&with_solana(GATEWAY), &sol, 1, "must be said of So11111111111111111111111111111111111111112 alone"),
    ] {
        let error = read("gateway", &wrapping(example, coin)).unwrap_err();
        assert!(error.starts_with(&format!("chains[{chain}].assets[0].wraps: {rule}")), "{coin}: {error}");
    }
    let error = read("gateway", &wrapping(GATEWAY, "ETH")).unwrap_err();
    assert!(error.contains("assets.0.wraps: "), "{error}");
    // A coin wraps nothing, and two tokens are not the wrapped form of one coin.
    let second = |asset: &str, coin: &str| {
        let assets = format!("\n[[chains.assets]]\nasset_identifier = {asset:?}\nsymbol = \"W\"\ndecimals = 6\n");
        format!("{}{assets}wraps = {coin:?}\n", with_tron(GATEWAY).trim_end())
    };
    let trx = format!("{tron}/slip44:195");
    let wtrx = format!("{tron}/trc20:TNUC9Qb1rRpS5CbWLmNMxXBjyFoydXjWFR");
    let text = second(&wtrx, &trx);
    assert_eq!(read("gateway", &text).unwrap().last().unwrap().common().assets[2].wraps, trx.parse().ok());
    let error = read("gateway", &wrapping(&text, &trx)).unwrap_err();
    assert!(error.starts_with("chains[1].assets[2].wraps: must be said of one asset of a chain"), "{error}");
    let mut coin = with_tron(GATEWAY);
    coin.insert_str(coin.rfind("asset_identifier = ").unwrap(), &format!("wraps = {trx:?}\n"));
    let error = read("gateway", &coin).unwrap_err();
    assert!(error.starts_with("chains[1].assets[1].wraps: must be said of a token"), "{error}");
}

/// The gateway's example with another asset of its EVM chain.
fn with_evm_asset(asset: &str) -> String {
    let example = GATEWAY.trim_end();
    format!("{example}\n[[chains.assets]]\nasset_identifier = {asset:?}\nsymbol = \"ETH\"\ndecimals = 18\n")
}

#[test]
fn given_the_coin_of_an_evm_chain_when_a_file_is_read_then_it_is_served_once_and_as_its_wrapped_form_says() {
    let coin = "eip155:31337/slip44:60";
    for text in [with_evm_asset(coin), wrapping(&with_evm_asset(coin), coin)] {
        let chains = read("gateway", &text).unwrap();
        let assets = &chains[0].common().assets;
        assert_eq!((assets.len(), assets[1].asset_identifier.to_string().as_str()), (2, coin));
    }
    for (asset, rule) in [
        ("eip155:1/slip44:60", "must be on this chain"),
        ("eip155:31337/slip44:060", "must name the coin by its number in SLIP-44"),
        ("eip155:31337/slip44:ETH", "must name the coin by its number in SLIP-44"),
        ("eip155:31337/slip44:2147483648", "must name the coin by its number in SLIP-44"),
        ("eip155:31337/slip44:60/1", "must name the coin by its number in SLIP-44"),
        ("eip155:31337/erc721:0x9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0", "must be of namespace erc20, or slip44"),
    ] {
        let error = read("gateway", &with_evm_asset(asset)).unwrap_err();
        assert!(error.starts_with(&format!("chains[0].assets[1].asset_identifier: {rule}")), "{asset}: {error}");
    }
    // A delivery of coins is of the chain's own, whatever its number: two would be one.
    let second =
        "\n[[chains.assets]]\nasset_identifier = \"eip155:31337/slip44:61\"\nsymbol = \"ETC\"\ndecimals = 18\n";
    let error = read("gateway", &format!("{}{second}", with_evm_asset(coin))).unwrap_err();
    assert!(error.starts_with("chains[0].assets[2].asset_identifier: must be the only coin of its chain"), "{error}");
    let error = read("gateway", &wrapping(&with_evm_asset(coin), "eip155:31337/slip44:61")).unwrap_err();
    assert!(error.starts_with(&format!("chains[0].assets[0].wraps: must be {coin}, the chain's coin")), "{error}");
    let error = read("gateway", &wrapping(GATEWAY, "eip155:31337/slip44:ETH")).unwrap_err();
    assert!(error.starts_with("chains[0].assets[0].wraps: must name the coin by its number"), "{error}");
}
