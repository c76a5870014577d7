//! The presets of public networks.

use std::{collections::BTreeSet, fs, path::Path};

use chains::config::Depth;
use events::Family;

use crate::{chains_toml::ChainsToml, networks::Network};

/// The presets as they lie in the folder.
fn files() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("networks");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let presets = paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    presets
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap()))
        .collect()
}

/// Whether a text is an EVM address with its checksum (EIP-55).
fn is_checksummed(text: &str) -> bool {
    text.parse::<alloy::primitives::Address>().is_ok_and(|address| address.to_checksum(None) == text)
}

#[test]
fn every_preset_is_known_by_its_name_and_says_what_is_so() {
    let (mut names, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for (name, text) in files() {
        let network = Network::named(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(network.name, name);
        assert!(names.insert(name.clone()) && ids.insert(network.chain_id.clone()), "{name} stands twice");
        let family = network.chain_id.family().unwrap();
        for url in [&network.public_rpc_url, &network.transaction_url, &network.address_url] {
            assert!(url.starts_with("https://"), "{name}: {url}");
        }
        if family != Family::Evm {
            assert_eq!(network.required_depth, Depth::Finalized, "{name}");
        }
        if let Some(genesis) = &network.genesis_hash {
            assert!(bs58::decode(genesis).into_vec().unwrap().len() == 32, "{name}");
            assert_eq!(network.chain_id.as_str(), format!("solana:{}", &genesis[..32]), "{name}");
        }
        assert!((500..=2_000).contains(&network.poll_ms), "{name}");
        assert!(network.refund_delay_seconds >= 1_800, "{name}");
        assert!(network.depth_reason.ends_with('.') && !network.title.is_empty(), "{name}");

        // Of what decides where money goes each fact has a source, and each address its checksum as it is written.
        for section in text.split("[[assets]]").skip(1) {
            assert!(section.contains("# Source: "), "{name}: an asset without a source: {section}");
        }
        assert!(text.split("[[assets]]").next().unwrap().contains("# Source: "), "{name}");
        for address in text.split('"').filter(|text| text.contains("/erc20:") || text.starts_with("0x")) {
            let address = address.rsplit(':').next().unwrap();
            assert!(is_checksummed(address), "{name}: {address}");
        }
        assert!(network.assets.iter().any(|asset| asset.asset_identifier.is_coin()), "{name} has no coin");
    }
    assert_eq!(names, Network::names().map(str::to_owned).collect());
}

#[test]
fn every_preset_makes_a_section_that_roles_can_use() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chains.toml");
    let mut chains = ChainsToml::open_or_new(&path).unwrap();
    let networks: Vec<_> = Network::names().map(|name| Network::named(name).unwrap()).collect();
    for network in &networks {
        assert!(chains.add(network, "https://node.example/key"), "{}", network.name);
        assert!(!chains.add(network, "https://other.example"), "{} stands there already", network.name);
        let (contract, account) = match network.chain_id.family().unwrap() {
            Family::Evm => ("0x5FbDB2315678afecb367f032d93F642f64180aa3", "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
            Family::Solana => {
                ("Bu4YY2J4tTs7UP6nd8uqS7YwzeLpmF1cHSuV5J4DvGA4", "GyGKxMyg1p9SsHfm15MkNUu1u9TN2JtTspcdmrtGUdse")
            }
            Family::Tron => ("TJhSSbZ8dVqtEiLYgva1WWcV4R4NkRCARH", "TYBNgWfhGuNzdLtjKtxXTfskAhTbMcqbaG"),
        };
        for (key, text) in [
            ("escrow_contract", contract),
            ("fulfillment_proxy", contract),
            ("reserver", account),
            ("releaser", account),
        ] {
            assert!(chains.set(&network.chain_id, key, text), "{}", network.name);
            assert_eq!(chains.get(&network.chain_id, key), Some(text));
        }
    }
    for network in &networks {
        assert_eq!(chains.assets(&network.chain_id).unwrap().len(), network.assets.len(), "{}", network.name);
    }
    assert!(chains.assets(&"eip155:999".parse().unwrap()).unwrap().is_empty());
    chains.save().unwrap();
    // An auditor needs nothing besides.
    let auditor = directory.path().join("auditor.toml");
    fs::write(&auditor, "chains_file = \"chains.toml\"\n").unwrap();
    let config = crate::AuditorConfig::read(&auditor, Vec::new()).unwrap();
    assert_eq!(config.chains.len(), networks.len());
    for (chain, network) in config.chains.iter().zip(&networks) {
        assert_eq!(chain.common().chain_id, network.chain_id);
        assert_eq!(chain.common().assets.len(), network.assets.len(), "{}", network.name);
        assert_eq!(chain.common().required_depth, network.required_depth);
        assert_eq!(chain.common().rpc_url, "https://node.example/key");
    }
}

#[test]
fn what_an_operator_wrote_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chains.toml");
    let text = "# Mine.\n[[chains]] # the first\nchain_id = \"eip155:1\"\nrpc_url = \"http://n\" # paid until May\n";
    fs::write(&path, text).unwrap();
    let mut chains = ChainsToml::open(&path).unwrap();
    assert!(!chains.add(&Network::named("ethereum").unwrap(), "http://other"));
    chains.add(&Network::named("tron-nile").unwrap(), "http://nile");
    chains.set(&"eip155:1".parse().unwrap(), "releaser", "0x01");
    chains.save().unwrap();
    let written = fs::read_to_string(&path).unwrap();
    assert!(written.starts_with(text), "{written}");
    assert_eq!(written.matches("[[chains]]").count(), 2, "{written}");
    assert_eq!(ChainsToml::open(&path).unwrap().chain_ids(), ["eip155:1", "tron:3448148188"]);

    let url = |chain: &str| -> Vec<String> {
        let nodes = ChainsToml::open(&path).unwrap().nodes(&chain.parse().unwrap()).unwrap();
        nodes.into_iter().map(|node| node.url).collect()
    };
    assert_eq!((url("eip155:1"), url("eip155:2")), (vec!["http://n".to_owned()], vec![]));
    fs::write(
        &path,
        text.replace("rpc_url = \"http://n\"", "rpc_urls = [{ url = \"http://a\", weight = 2 }, \"http://b\"]"),
    )
    .unwrap();
    assert_eq!(url("eip155:1"), ["http://a", "http://b"]);

    fs::write(&path, "a = 1\nkey = unquoted secret\n").unwrap();
    let error = ChainsToml::open(&path).err().unwrap().to_string();
    assert!(error.ends_with("line 2 is not TOML"), "{error}");
}

#[test]
fn the_first_of_several_nodes_is_one_that_can_be_asked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chains.toml");
    let node = |chain: &str| {
        fs::write(&path, format!("[[chains]]\nchain_id = \"tron:5\"\n{chain}\n")).unwrap();
        let chains = ChainsToml::open(&path).unwrap();
        let first = chains.nodes(&"tron:5".parse().unwrap()).unwrap().into_iter().next();
        first.map(|node| (node.url, node.api_key.map(|key| key.expose().to_owned())))
    };
    let first = |key: Option<&str>| Some(("http://a".to_owned(), key.map(str::to_owned)));
    assert_eq!(node("rpc_url = \"http://a\""), first(None));
    assert_eq!(node("rpc_urls = [\"http://a\", \"http://b\"]"), first(None));
    assert_eq!(node("rpc_urls = [{ url = \"http://a\", api_key = \"k\" }, \"http://b\"]"), first(Some("k")));
    assert_eq!((node("rpc_urls = []"), node("")), (None, None));
}

#[test]
fn a_preset_that_is_none_is_told() {
    let known = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("networks/base.toml")).unwrap();
    for (from, to, said) in [
        ("chain_id = \"eip155:8453\"", "chain_id = \"cosmos:x\"", "chain_id"),
        ("permit2 = ", "# ", "permit2 is said of every EVM chain"),
        ("is_test", "is_tst", "is_tst"),
        ("{transaction}\"", "\"", "transaction_url holds {transaction}"),
    ] {
        assert!(known.contains(from), "{from}");
        let error = Network::read("mine.toml", &known.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with("mine.toml: ") && error.contains(said), "{error}");
    }
    let error = Network::named("mainnet").unwrap_err().to_string();
    assert!(error.contains("there is no network `mainnet`") && error.contains("base-sepolia"), "{error}");
}
