//! Configurations: what cannot be meant is refused by its key, and the example file is one.

use ed25519_dalek::SigningKey;
use serde_json::{Value, json};

use events::{Account, ChainId, Family, VerifierMember, VerifierSet, event::VerifierRef};
use settler::{
    Config, chain_registry,
    config::{CorridorConfig, QuotingConfig, RateConfig, VerifierConfig},
};

use crate::quoting::{config, indented, key, solana};

#[test]
fn configurations_that_cannot_be_meant_are_refused() {
    let changed = |change: fn(&mut Value)| {
        let mut config = config();
        change(&mut config);
        serde_json::from_value::<Config>(config).map_err(|error| error.to_string())
    };
    assert!(changed(|config| config["spreads"] = json!(1)).is_err_and(|error| error.contains("spreads")));
    assert!(changed(|config| config["corridors"][0]["gas_cost"] = json!("0x10")).is_err());
    let refused = |change: fn(&mut Value)| changed(change).unwrap().options().unwrap_err().key;
    assert_eq!(refused(|config| config["seed"] = json!("07")), "seed");
    assert_eq!(refused(|config| config["chains"][1] = config["chains"][0].clone()), "chains");
    assert_eq!(refused(|config| config["corridors"][1] = config["corridors"][0].clone()), "corridors");
    assert_eq!(refused(|config| config["corridors"][1]["rate"]["source"] = json!(0)), "corridors");
    assert_eq!(refused(|config| config["corridors"][1]["source_asset"] = json!("eip155:1/slip44:60")), "corridors");
    assert_eq!(refused(|config| config["chains"][1]["gas"] = json!({"delivery_max": 149_999})), "chains");
    assert_eq!(refused(|config| config["chains"][0]["assets"][0]["decimals"] = json!(18)), "corridors");
    assert_eq!(refused(|config| config["verifiers"] = json!([])), "verifiers");
    assert_eq!(refused(|config| config["quoting"] = json!({"firm_seconds": 4})), "quoting.firm_seconds");
    assert_eq!(refused(|config| config["quoting"] = json!({"firm_seconds": 601})), "quoting.firm_seconds");
    assert_eq!(refused(|config| config["claims"] = json!({"interval_seconds": 2_592_001})), "claims.interval_seconds");
    for limit in ["quote", "settlement", "refund", "deposit_hold"] {
        for seconds in [0, 31_536_001] {
            let mut config = config();
            config["limits"] = json!({format!("{limit}_seconds_max"): seconds});
            let error = serde_json::from_value::<Config>(config).unwrap().options().unwrap_err();
            assert_eq!(error.key, format!("limits.{limit}_seconds_max"));
        }
    }
}

#[test]
fn a_set_of_verifiers_is_trusted_by_its_id() {
    let accounts = [0x11, 0x22, 0x33].map(|n: u8| format!("0x{}", format!("{n:02x}").repeat(20)));
    let origin = |account: &str| format!("https://v{}.example", &account[2..4]);
    let members =
        accounts.clone().map(|account| json!({"account": account, "endpoint": format!("{}/", origin(&account))}));
    let read = |verifier: Value| {
        let mut config = config();
        config["verifiers"] = json!([verifier]);
        let config: Config = serde_json::from_value(config).unwrap();
        let endpoints: Vec<_> = config.verifiers[0].endpoints().map(str::to_owned).collect();
        config.options().map(|options| (options, endpoints)).map_err(|error| (error.key, error.rule))
    };
    let own = |accounts: &[String]| {
        let member = |account: &String| VerifierMember { account: account.parse().unwrap(), endpoint: origin(account) };
        VerifierRef::of(VerifierSet::new(2, accounts.iter().map(member).collect()).unwrap()).unwrap()
    };
    let (set, chain) = (own(&accounts), ChainId::evm(1));
    let verifier = |account: &str, threshold: u8, members: &[Value]| json!({"chain_id": "eip155:1", "account": account, "threshold": threshold, "members": members});
    // In whatever order the members stand.
    let turned: Vec<_> = members.iter().rev().cloned().collect();
    let (options, endpoints) = read(verifier(set.account.as_str(), 2, &turned)).unwrap();
    assert_eq!(options.verifier(&chain, &set.account), Some(&set));
    assert_eq!(endpoints.len(), 3);
    // A member alone is nobody's releaser.
    assert_eq!(options.verifier(&chain, &accounts[0].parse().unwrap()), None);
    // One verifier is no set.
    let (options, _) = read(verifier(&accounts[0], 1, &members[..1])).unwrap();
    let single = VerifierRef::single(accounts[0].parse().unwrap(), origin(&accounts[0]));
    assert_eq!(options.verifier(&chain, &single.account), Some(&single));

    let refused = |verifier: Value| {
        let (key, rule) = read(verifier).unwrap_err();
        assert_eq!(key, "verifiers");
        rule
    };
    let id = set.account.as_str();
    assert!(refused(verifier(&accounts[0], 2, &members)).contains(id), "the id is told");
    assert!(refused(verifier(id, 3, &members)).contains("must be its id"));
    assert!(refused(verifier(id, 4, &members)).contains("threshold"));
    let again = json!({"account": accounts[0], "endpoint": "https://another.example"});
    assert!(refused(verifier(id, 2, &[&members[..], &[again]].concat())).contains("different"));
    let beside = json!({"account": format!("0x{}", "44".repeat(20)), "endpoint": "https://V11.example:443"});
    assert!(refused(verifier(id, 2, &[&members[..], &[beside]].concat())).contains("two members"));
    let mut both = verifier(id, 2, &members);
    both["endpoint"] = "https://v.example".into();
    assert!(refused(both).contains("no endpoint of its own"));
    let mut neither = verifier(id, 2, &members);
    neither.as_object_mut().unwrap().remove("threshold");
    assert!(refused(neither).contains("threshold"));
    assert!(refused(json!({"chain_id": "eip155:1", "account": id})).contains("endpoint"));
    assert!(
        refused(json!({"chain_id": "eip155:1", "account": id, "endpoint": "https://v.example", "threshold": 1}))
            .contains("needs members")
    );
    assert!(refused(verifier(id, 2, &[json!({"account": accounts[0], "endpoint": "v.example"})])).contains("origin"));
}

#[test]
fn a_chain_needs_the_key_of_its_family() {
    let mut both = config();
    both["chains"].as_array_mut().unwrap().push(solana());
    let connect = |config: &Value| chain_registry::connect(&serde_json::from_value::<Config>(config.clone()).unwrap());
    assert!(matches!(connect(&both), Err(chain_registry::Error::NoSolanaKey(_))));
    both["solana_private_key"] = "0x12".into();
    let refused = connect(&both).map(drop).unwrap_err().to_string();
    assert!(refused.starts_with("solana_private_key ") && !refused.contains("0x12"), "{refused}");
    both["solana_private_key"] = serde_json::to_string(&key().to_keypair_bytes().to_vec()).unwrap().into();
    let chains = connect(&both).unwrap();
    let account = bs58::encode(key().verifying_key()).into_string();
    let solana_id: ChainId = solana()["chain_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(chains.get(&solana_id).unwrap().account().as_str(), account);
    assert_eq!(chains.len(), 3);

    let mut alone = both.clone();
    alone["chains"] = json!([solana()]);
    alone.as_object_mut().unwrap().remove("evm_private_key");
    assert_eq!(connect(&alone).map(|chains| chains.len()).ok(), Some(1));
    both.as_object_mut().unwrap().remove("evm_private_key");
    assert!(matches!(connect(&both), Err(chain_registry::Error::EvmKey)));
}

#[test]
fn a_tron_chain_needs_a_key_of_its_own() {
    let account = "TYBNgWfhGuNzdLtjKtxXTfskAhTbMcqbaG";
    let mut config = config();
    config["chains"].as_array_mut().unwrap().push(json!({
        "chain_id": "tron:0x2b6653dc", "rpc_url": "http://127.0.0.1:1", "escrow_contract": account,
        "fulfillment_proxy": account, "reserver": account, "releaser": account, "required_depth": "finalized",
        "refund_delay_seconds": 60,
    }));
    let connect = |config: &Value| chain_registry::connect(&serde_json::from_value::<Config>(config.clone()).unwrap());
    // The key for EVM chains is not taken for it.
    assert!(matches!(connect(&config), Err(chain_registry::Error::TronKey)));
    config["tron_private_key"] = "0x12".into();
    let refused = connect(&config).map(drop).unwrap_err().to_string();
    assert!(refused.starts_with("tron_private_key ") && !refused.contains("0x12"), "{refused}");
    config["tron_private_key"] = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80".into();
    let chains = connect(&config).unwrap();
    let tron: ChainId = "tron:728126428".parse().unwrap();
    assert_eq!((chains.get(&tron).unwrap().account().as_str(), chains.len()), (account, 3));
    config["chains"][2]["required_depth"] = 19.into();
    assert!(matches!(connect(&config), Err(chain_registry::Error::Tron(_))));
}

/// Nobody could release what does not fit into a transaction there, or needs a signature by an account that has no key.
#[test]
fn a_set_on_solana_signs_and_fits_into_a_transaction() {
    let keys: Vec<_> = (1..=7u8)
        .map(|n| bs58::encode(SigningKey::from_bytes(&[n; 32]).verifying_key().as_bytes()).into_string())
        .collect();
    let read = |threshold: u8, keys: &[String]| {
        let member = |(n, account): (usize, &String)| VerifierMember {
            account: Account::parse(Family::Solana, account).unwrap(),
            endpoint: format!("https://v{n}.example"),
        };
        let set = VerifierSet::new(threshold, keys.iter().enumerate().map(member).collect()).unwrap();
        let mut config = config();
        config["chains"].as_array_mut().unwrap().push(solana());
        config["verifiers"] = json!([{
            "chain_id": solana()["chain_id"], "account": set.id().unwrap(), "threshold": threshold, "members": set.members(),
        }]);
        serde_json::from_value::<Config>(config).unwrap().options().map(drop).map_err(|error| error.rule)
    };
    read(2, &keys[..3]).unwrap();
    read(3, &keys[..5]).unwrap();
    assert!(read(4, &keys).unwrap_err().contains("fit into a transaction"));
    // A point off the curve: the address of a program's account.
    let off = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knM".to_owned();
    assert!(read(2, &[keys[0].clone(), off.clone()]).unwrap_err().contains("Ed25519"));
    let mut config = config();
    config["verifiers"] = json!([{"chain_id": solana()["chain_id"], "account": off, "endpoint": "https://v.example"}]);
    assert!(serde_json::from_value::<Config>(config).unwrap().options().unwrap_err().rule.contains("Ed25519"));
}

#[test]
fn the_example_file_is_a_configuration() {
    let config: Config = toml::from_str(include_str!("../../config/settler.example.toml")).unwrap();
    let options = config.options().unwrap();
    assert_eq!((options.chains.len(), options.book.corridors.len()), (2, 1));
    assert!(options.deliver && chain_registry::connect(&config).is_ok());

    // The keys that are commented out are known, and with their defaults.
    let all = include_str!("../../config/settler.example.toml").lines().map(|line| {
        let uncommented = line.strip_prefix("# ").filter(|rest| {
            let key = rest.split(" = ").next().unwrap_or_default();
            rest.starts_with("[[") || (rest.contains(" = ") && !key.contains(' '))
        });
        format!("{}\n", uncommented.unwrap_or(line))
    });
    let all: Config = toml::from_str(&all.collect::<String>()).unwrap();
    assert_eq!(all.corridors, config.corridors.iter().map(with_par_rate).collect::<Vec<_>>());
    assert_eq!(all.quoting, QuotingConfig { delivery_seconds_promised: Some(60), ..config.quoting });
    assert_eq!(all.limits, config.limits);
    assert_eq!(all.claims, config.claims);

    // And so is its set of verifiers, under its id.
    let sets: toml::Value = toml::from_str(&indented()).unwrap();
    let set: VerifierConfig = sets["verifiers"][0].clone().try_into().unwrap();
    let (chain_id, account) = (set.chain_id.clone(), set.account.parse().unwrap());
    let options = Config { verifiers: vec![set], ..config }.options().unwrap();
    assert_eq!(options.verifier(&chain_id, &account).map(VerifierRef::threshold), Some(2));
}

fn with_par_rate(corridor: &CorridorConfig) -> CorridorConfig {
    CorridorConfig { rate: Some(RateConfig { source: 1, destination: 1 }), ..corridor.clone() }
}
