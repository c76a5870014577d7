//! Tests of a chain's table: keys by family, defaults, and what is refused.

use figment::{
    Figment,
    providers::{Format, Toml},
};

use super::*;

const COMMON: &str = "rpc_url = \"http://127.0.0.1:1\"\nrequired_depth = \"finalized\"\nrefund_delay_seconds = 60\n";

fn account(chain_id: &str) -> &'static str {
    match chain_id.split_once(':') {
        Some(("solana", _)) => "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
        Some(("tron", _)) => "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t",
        _ => "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
    }
}

fn read(chain_id: &str, own: &str) -> Result<ChainConfig, String> {
    let account = account(chain_id);
    let accounts = ["escrow_contract", "fulfillment_proxy", "reserver", "releaser"];
    let accounts = accounts.map(|key| format!("{key} = {account:?}\n")).concat();
    let text = format!("chain_id = {chain_id:?}\n{COMMON}{accounts}{own}");
    Figment::from(Toml::string(&text)).extract().map_err(|error| error.to_string())
}

#[test]
fn given_a_chain_id_when_a_table_is_read_then_its_namespace_decides_the_family() {
    for (chain_id, own, family) in [
        ("eip155:1", "permit2 = \"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed\"", Family::Evm),
        ("solana:abc", "signature_cluster_id = \"abcd\"", Family::Solana),
        ("tron:5", "api_key = \"e\"", Family::Tron),
    ] {
        let chain = read(chain_id, own).unwrap();
        assert_eq!((chain.family(), chain.common().chain_id.as_str()), (family, chain_id));
        assert_eq!((chain.common().exits_reserved, chain.common().poll_ms), (10, 500));
    }
}

#[test]
fn given_keys_that_are_not_known_when_a_table_is_read_then_the_first_is_named_with_those_that_are() {
    let error = read("tron:5", "gas = {}\n").unwrap_err();
    assert!(
        error.starts_with("tron:5: unknown field of a Tron chain: found `gas`, expected one of `api_key`, "),
        "{error}"
    );
    let error = read("eip155:1", "assets = [{ symbol = \"USDC\", decimal = 6 }]\n").unwrap_err();
    assert!(
        error.starts_with("eip155:1: assets.0.decimal: unknown field: found `decimal`, expected one of "),
        "{error}"
    );
    let error = read("eip155:1", "gas = { deposit = 1 }\n").unwrap_err();
    assert!(error.starts_with("eip155:1: gas.deposit: unknown field: found `deposit`, expected one of "), "{error}");
}

#[test]
fn given_no_family_when_a_table_is_read_then_the_chain_id_is_named() {
    let error = read("cosmos:cosmoshub-4", "").unwrap_err();
    assert!(error.starts_with("chain_id: `cosmos:cosmoshub-4` must be of namespace eip155, solana or tron"), "{error}");
    let error = read("eip155", "").unwrap_err();
    assert!(error.starts_with("chain_id: "), "{error}");
}

/// One account has several spellings, and is one.
#[test]
fn given_trusted_contracts_when_a_table_is_read_then_they_are_compared_as_accounts() {
    let trusted = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
    let chain = read("eip155:1", &format!("trusted_escrow_contracts = [{trusted:?}]\n")).unwrap();
    let trusts = |text: &str| chain.common().trusts_escrow(&text.parse().unwrap());
    assert!(trusts(trusted) && trusts(&trusted.to_lowercase()) && trusts(account("eip155:1")));
    assert!(!trusts("0x000000000022d473030f116ddee9f6b43ac78ba3") && !trusts(account("tron:5")));
    assert!(!chain.common().trusts_proxy(&trusted.parse().unwrap()));
}

#[test]
fn given_the_hash_of_a_permit2_that_is_not_named_when_a_table_is_read_then_it_is_refused() {
    let (permit2, code) =
        (format!("permit2 = {:?}\n", account("tron:5")), format!("permit2_code = \"0x{}\"\n", "07".repeat(32)));
    let ChainConfig::Tron(chain) = read("tron:5", &format!("{permit2}{code}")).unwrap() else { panic!("not Tron") };
    assert_eq!((chain.permit2.is_some(), chain.permit2_code), (true, Some(events::Hash32([7; 32]))));
    let refused = "tron:5: permit2_code: is of the code of `permit2`, which is not set";
    assert_eq!(read("tron:5", &code).unwrap_err().lines().next(), Some(refused));
    let error = read("tron:5", &format!("{permit2}permit2_code = \"0x07\"\n")).unwrap_err();
    assert!(error.starts_with("tron:5: permit2_code: "), "{error}");
}

/// A value that is a secret is not repeated, whatever is wrong with it.
#[test]
fn given_an_api_key_that_cannot_be_one_when_a_table_is_read_then_it_is_not_shown() {
    for value in ["7713", "[7713]", "\"7713 secret\"", "\"\""] {
        let error = read("tron:5", &format!("api_key = {value}\n")).unwrap_err();
        assert!(error.starts_with("tron:5: api_key: ") && !error.contains("7713"), "{error}");
    }
    let chain = read("tron:5", "api_key = \"7713\"\n").unwrap();
    assert!(!format!("{chain:?}").contains("7713"), "{chain:?}");
}

fn with_nodes(chain_id: &str, nodes: &str) -> Result<ChainConfig, String> {
    let account = account(chain_id);
    let accounts = ["escrow_contract", "fulfillment_proxy", "reserver", "releaser"];
    let accounts = accounts.map(|key| format!("{key} = {account:?}\n")).concat();
    let common = COMMON.replace("rpc_url = \"http://127.0.0.1:1\"\n", &format!("{nodes}\n"));
    let text = format!("chain_id = {chain_id:?}\n{common}\n{accounts}");
    Figment::from(Toml::string(&text)).extract().map_err(|error| error.to_string())
}

#[test]
fn given_several_nodes_when_a_table_is_read_then_each_is_an_address_or_a_table() {
    let nodes = "rpc_urls = [\"https://a.example/KEY\", { url = \"https://b.example\", weight = 3, api_key = \"7713\" }]\n\
        api_key = \"7714\"\n";
    let ChainConfig::Tron(chain) = with_nodes("tron:5", nodes).unwrap() else { panic!("not Tron") };
    let weights: Vec<_> = chain.common.nodes().iter().map(|node| (node.url.clone(), node.weight)).collect();
    assert_eq!(weights, [("https://a.example/KEY".to_owned(), 1), ("https://b.example".to_owned(), 3)]);
    assert_eq!(chain.common.rpc_url, "https://a.example/KEY");
    let keys: Vec<_> = chain.nodes().into_iter().map(|node| node.api_key.map(|key| key.expose().to_owned())).collect();
    assert_eq!(keys, [Some("7714".to_owned()), Some("7713".to_owned())]);
    let shown = format!("{:?}", chain.common.rpc_urls);
    assert!(!shown.contains("KEY") && !shown.contains("771"), "{shown}");
}

#[test]
fn given_nodes_that_cannot_be_when_a_table_is_read_then_the_key_and_the_rule_are_named() {
    let many = format!("rpc_urls = [{}]", "\"http://a\", ".repeat(17));
    for (nodes, rule) in [
        ("", "missing field `rpc_url`"),
        ("rpc_urls = []", "missing field `rpc_url`"),
        ("rpc_url = \"http://a\"\nrpc_urls = [\"http://b\"]", "rpc_urls: must not stand beside rpc_url"),
        ("rpc_urls = [{ url = \"http://a\", weight = 0 }]", "weight must be 1 to 1000"),
        ("rpc_urls = [{ url = \"http://a\", wait = 1 }]", "unknown field"),
        (
            "rpc_urls = [{ url = \"http://a\", api_key = \"7713\" }]",
            "rpc_urls: only a node of a Tron chain has an api_key",
        ),
        (&many, "rpc_urls: must be at most 16 nodes"),
    ] {
        let error = with_nodes("eip155:1", nodes).unwrap_err();
        assert!(error.contains(rule) && error.starts_with("eip155:1: ") && !error.contains("7713"), "{nodes}: {error}");
    }
}
