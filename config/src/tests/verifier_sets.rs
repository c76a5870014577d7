//! Sets of verifiers, as gateways and verifiers write them.

use events::{Account, Family, VerifierMember, VerifierSet, event::VerifierRef};

use super::*;
use crate::examples::{commented, with_verifier_set};

/// Accounts of one verifier each, on all families.
const A: [&str; 3] = [
    "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
    "8SFqwqnq4whPhs8icwHA2hQg3hUoN1qrCLK1SBx3WKwe",
    "TFTsyAaajS3DTEbekme2wm9fNcypguDHp4",
];
const B: [&str; 3] = [
    "0x976EA74026E726554dB657fA54763abd0C3a0aa9",
    "GyGKxMyg1p9SsHfm15MkNUu1u9TN2JtTspcdmrtGUdse",
    "TYBNgWfhGuNzdLtjKtxXTfskAhTbMcqbaG",
];
/// The id of two of the example's three: keccak256("gw-verifier-set" ‖ 01 ‖ 02 ‖ 03 ‖ the accounts, ascending), its last 20 bytes.
const ID: &str = "0xab6791deaeb7ebd31a72dd693fe88da12308ba25";
const EVM_ONLY: &str = "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955";

fn id(family: Family, threshold: u8, accounts: &[&str]) -> Account {
    let member = |text: &&str| VerifierMember {
        account: Account::parse(family, text).unwrap(),
        endpoint: "https://v.example".to_owned(),
    };
    VerifierSet::new(threshold, accounts.iter().map(member).collect()).unwrap().id().unwrap()
}

/// The gateway's example with this `[verifier]`, and this releaser of its chain.
fn gateway_with(section: &str, releaser: &str) -> Result<GatewayConfig, String> {
    let (head, rest) = GATEWAY.split_once("[verifier]\n").unwrap();
    let (_, rest) = rest.split_once("\n\n").unwrap();
    let rest = rest.replacen(&format!("\nreleaser = {:?}\n", A[0]), &format!("\nreleaser = {releaser:?}\n"), 1);
    gateway(&format!("{head}[verifier]\n{section}\n{rest}"), &[])
}

fn member(n: usize, accounts: &str) -> String {
    format!("[[verifier.members]]\nendpoint = \"https://v{n}.example\"\n{accounts}\n")
}

/// Members with these accounts on EVM chains.
fn members(accounts: &[&str]) -> String {
    accounts.iter().enumerate().map(|(n, account)| member(n, &format!("account = {account:?}"))).collect()
}

#[test]
fn the_examples_set_is_one() {
    let config = gateway(&with_verifier_set(GATEWAY), &[]).unwrap();
    let chain = &config.chains[0].chain;
    let verifier = config.verifier.of_chain(chain).unwrap();
    assert_eq!((&verifier.account, verifier.account.as_str()), (&chain.common().releaser, ID));
    assert_eq!((verifier.threshold(), verifier.members().len()), (2, 3));
    assert!(verifier.is_consistent());
    let endpoints = ["a", "b", "c"].map(|name| format!("https://verifier-{name}.example"));
    assert_eq!(config.verifier.endpoints().collect::<Vec<_>>(), endpoints);
    // The single verifier, for comparison.
    let plain = gateway(GATEWAY, &[]).unwrap();
    let single = VerifierRef::single(A[0].parse().unwrap(), "http://127.0.0.1:8090");
    assert_eq!(plain.verifier.of_chain(&plain.chains[0].chain), Some(single));

    let set = commented(VERIFIER, "[set]");
    let text = VERIFIER.replacen("# [set]\n", &set, 1).replacen(
        &format!("releaser = {:?}", A[0]),
        &format!("releaser = {ID:?}"),
        1,
    );
    let config = super::verifier(&text, &[]).unwrap();
    assert_eq!((config.set.as_ref().unwrap().threshold, config.chains[0].common().releaser.as_str()), (2, ID));
}

#[test]
fn the_environment_gives_a_set() {
    let without = GATEWAY.lines().filter(|line| !line.starts_with("account = ") && !line.starts_with("endpoint = "));
    let text = without.map(|line| format!("{line}\n")).collect::<String>();
    let listed =
        [A[0], B[0]].map(|account| format!("{{endpoint = \"https://{account}.example\", account = {account:?}}}"));
    let id = id(Family::Evm, 1, &[A[0], B[0]]);
    let config = gateway(
        &text,
        &[
            ("GW_VERIFIER__THRESHOLD", "1"),
            ("GW_VERIFIER__MEMBERS", &format!("[{}]", listed.join(", "))),
            ("GW_CHAINS__0__RELEASER", id.as_str()),
        ],
    )
    .unwrap();
    assert_eq!(config.verifier.of_chain(&config.chains[0].chain).unwrap().account, id);

    let config = verifier(
        VERIFIER,
        &[
            ("GW_VERIFIER_SET__THRESHOLD", "1"),
            ("GW_VERIFIER_SET__MEMBERS", &format!("[{{account = {:?}}}, {{account = {:?}}}]", A[0], B[0])),
            ("GW_VERIFIER_CHAINS__0__RELEASER", id.as_str()),
        ],
    )
    .unwrap();
    assert_eq!(config.set.unwrap().members.len(), 2);
}

#[test]
fn one_member_is_no_set_but_a_verifier() {
    let config = gateway_with(&format!("threshold = 1\n{}", members(&A[..1])), A[0]).unwrap();
    let single = VerifierRef::single(A[0].parse().unwrap(), "https://v0.example");
    assert_eq!(config.verifier.of_chain(&config.chains[0].chain), Some(single));
    let error = gateway_with(&format!("threshold = 1\n{}", members(&A[..1])), B[0]).unwrap_err();
    assert!(error.starts_with("chains[0].releaser: ") && error.contains(&A[0].to_lowercase()), "{error}");
}

#[test]
fn what_is_no_set_is_refused_by_its_key() {
    let three = members(&[A[0], B[0], EVM_ONLY]);
    let many: Vec<String> = (1..=17).map(|n| format!("0x{}", format!("{n:02x}").repeat(20))).collect();
    let many = members(&many.iter().map(String::as_str).collect::<Vec<_>>());
    let twice = members(&[A[0], B[0], &A[0].to_lowercase()]);
    let one_origin =
        format!("{}{}", member(0, &format!("account = {:?}", A[0])), member(0, &format!("account = {:?}", B[0])));
    let cases = [
        // The id is told.
        (format!("threshold = 2\n{three}"), "chains[0].releaser", ID),
        // Both at once.
        (format!("threshold = 2\nendpoint = \"https://v.example\"\n{three}"), "verifier.endpoint", "left out"),
        (format!("threshold = 2\naccount = {:?}\n{three}", A[0]), "verifier.account", "left out"),
        (format!("threshold = 2\nsolana_account = {:?}\n{three}", A[1]), "verifier.solana_account", "left out"),
        (format!("threshold = 2\ntron_account = {:?}\n{three}", A[2]), "verifier.tron_account", "left out"),
        // Neither, or half of one.
        (String::new(), "verifier.endpoint", "threshold and members"),
        (format!("account = {:?}", A[0]), "verifier.endpoint", "threshold and members"),
        ("threshold = 2".to_owned(), "verifier.members", "given with threshold"),
        (three.clone(), "verifier.threshold", "given with members"),
        (format!("threshold = 0\n{three}"), "verifier.threshold", "1 to 3"),
        (format!("threshold = 4\n{three}"), "verifier.threshold", "1 to 3"),
        (format!("threshold = 2\n{many}"), "verifier.members", "1 to 16"),
        (format!("threshold = 2\n{twice}"), "verifier.members[2].account", "not repeat"),
        (format!("threshold = 1\n{one_origin}"), "verifier.members[1].endpoint", "not repeat"),
        (
            format!("threshold = 1\n{}", three.replacen("v1.example", "v1.example/v1", 1)),
            "verifier.members[1].endpoint",
            "path",
        ),
        (format!("threshold = 1\n{three}{}", member(3, "")), "verifier.members[3].account", "EVM chains are served"),
        (
            format!("threshold = 1\n{three}{}", member(3, &format!("account = {:?}", A[2]))),
            "verifier.members[3].account",
            "on EVM chains",
        ),
        (
            format!("threshold = 1\n{}", member(0, &format!("account = {:?}\ntron_account = {:?}", A[0], A[0]))),
            "verifier.members[0].tron_account",
            "on Tron chains",
        ),
    ];
    for (section, key, said) in cases {
        let error = gateway_with(&section, A[0]).unwrap_err();
        assert!(error.starts_with(&format!("{key}: ")) && error.contains(said), "{section}: {error}");
    }
    for section in ["threshold = -1", "threshold = 256", "threshold = 2.5"] {
        let error = gateway_with(&format!("{section}\n{three}"), ID).unwrap_err();
        assert!(error.contains("threshold"), "{error}");
    }
    let error = gateway_with(&format!("threshold = 2\n{three}name = \"x\""), ID).unwrap_err();
    assert!(error.contains("name"), "{error}");
}

/// A set has an id on each family, of the accounts there.
#[test]
fn each_family_has_its_own_id() {
    let all = |[evm, solana, tron]: [&str; 3]| {
        format!("account = {evm:?}\nsolana_account = {solana:?}\ntron_account = {tron:?}")
    };
    let sections = format!("{}{}", solana_section(GATEWAY), section(GATEWAY, "tron"));
    let with = |members: &str, solana: &str, tron: &str| {
        let (head, rest) = GATEWAY.split_once("[verifier]\n").unwrap();
        let (_, rest) = rest.split_once("\n\n").unwrap();
        let evm = id(Family::Evm, 2, &[A[0], B[0]]);
        let rest = rest.replacen(&format!("\nreleaser = {:?}\n", A[0]), &format!("\nreleaser = \"{evm}\"\n"), 1);
        let sections = sections.replacen(A[1], solana, 1).replacen(A[2], tron, 1);
        gateway(&format!("{head}[verifier]\nthreshold = 2\n{members}\n{rest}{sections}"), &[])
    };
    let (solana, tron) = (id(Family::Solana, 2, &[A[1], B[1]]), id(Family::Tron, 2, &[A[2], B[2]]));
    let both = format!("{}{}", member(0, &all(A)), member(1, &all(B)));
    let config = with(&both, solana.as_str(), tron.as_str()).unwrap();
    for (served, expected) in config.chains.iter().zip([&id(Family::Evm, 2, &[A[0], B[0]]), &solana, &tron]) {
        let verifier = config.verifier.of_chain(&served.chain).unwrap();
        assert_eq!((&verifier.account, verifier.threshold()), (expected, 2));
        assert_eq!(verifier.account, served.chain.common().releaser);
    }

    for (members, key, said) in [
        (
            both.replacen(&format!("solana_account = {:?}\n", B[1]), "", 1),
            "verifier.members[1].solana_account",
            "Solana chains are served",
        ),
        (
            both.replacen(&format!("tron_account = {:?}\n", A[2]), "", 1),
            "verifier.members[0].tron_account",
            "Tron chains are served",
        ),
        // Nobody has the key of an account that is no point of the curve.
        (
            both.replacen(B[1], "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knM", 1),
            "verifier.members[1].solana_account",
            "Ed25519",
        ),
    ] {
        let error = with(&members, solana.as_str(), tron.as_str()).unwrap_err();
        assert!(error.starts_with(&format!("{key}: ")) && error.contains(said), "{error}");
    }
    for (own, error) in [(&solana, with(&both, A[1], tron.as_str())), (&tron, with(&both, solana.as_str(), A[2]))] {
        let error = error.unwrap_err();
        assert!(error.contains(".releaser: ") && error.contains(own.as_str()), "{error}");
    }
}

/// What does not fit into a transaction on Solana would never be released.
#[test]
fn a_set_on_solana_fits_into_a_transaction() {
    let keys: Vec<String> = (1..=7u8)
        .map(|n| bs58::encode(ed25519_dalek::SigningKey::from_bytes(&[n; 32]).verifying_key().as_bytes()).into_string())
        .collect();
    let with = |threshold: u8, members: usize| {
        let listed = keys[..members].iter().enumerate().map(|(n, key)| {
            member(n, &format!("account = \"0x{}\"\nsolana_account = {key:?}", format!("{:02x}", n + 1).repeat(20)))
        });
        let (head, rest) = GATEWAY.split_once("[verifier]\n").unwrap();
        let (_, rest) = rest.split_once("\n\n").unwrap();
        let evm: Vec<String> = (1..=members).map(|n| format!("0x{}", format!("{n:02x}").repeat(20))).collect();
        let evm = id(Family::Evm, threshold, &evm.iter().map(String::as_str).collect::<Vec<_>>());
        let rest = rest.replacen(&format!("\nreleaser = {:?}\n", A[0]), &format!("\nreleaser = \"{evm}\"\n"), 1);
        let solana = id(Family::Solana, threshold, &keys[..members].iter().map(String::as_str).collect::<Vec<_>>());
        let section = solana_section(GATEWAY).replacen(A[1], solana.as_str(), 1);
        let text =
            format!("{head}[verifier]\nthreshold = {threshold}\n{}\n{rest}{section}", listed.collect::<String>());
        gateway(&text, &[]).map(drop)
    };
    assert_eq!(with(3, 5), Ok(()));
    assert_eq!(with(2, 3), Ok(()));
    let error = with(4, 7).unwrap_err();
    assert!(error.starts_with("verifier.threshold: ") && error.contains("1232 bytes"), "{error}");
}

/// Who signs with the id of a set is nobody, and members of a former set may go on being asked.
#[test]
fn trust_names_no_set_as_one_verifier() {
    let text = with_verifier_set(GATEWAY);
    let listed = |account: &str| format!("[{{account = {account:?}, endpoint = \"https://v.example\"}}]");
    let error = gateway(&text, &[("GW_TRUST__VERIFIERS", &listed(ID))]).unwrap_err();
    assert!(error.starts_with("trust.verifiers[0].account: ") && error.contains("id of the set"), "{error}");
    let former = [("GW_TRUST__VERIFIER_ORIGINS", "[\"http://10.0.0.7:8090\", \"https://v.example\"]")];
    assert_eq!(gateway(&text, &former).unwrap().trust.verifier_origins, ["http://10.0.0.7:8090", "https://v.example"]);
    // A member alone is a verifier as any other, and so is the default one that is no set.
    gateway(&text, &[("GW_TRUST__VERIFIERS", &listed(A[0]))]).unwrap();
    gateway(GATEWAY, &[("GW_TRUST__VERIFIERS", &listed(A[0]))]).unwrap();
}

#[test]
fn a_verifier_is_a_member_of_its_set() {
    let text = |set: &str, releaser: &str| {
        VERIFIER.replacen("# [set]\n", &format!("[set]\n{set}\n"), 1).replacen(
            &format!("releaser = {:?}", A[0]),
            &format!("releaser = {releaser:?}"),
            1,
        )
    };
    let set = |threshold: u8, accounts: &[&str]| {
        let members: Vec<String> = accounts.iter().map(|account| format!("{{ account = {account:?} }}")).collect();
        format!("threshold = {threshold}\nmembers = [{}]", members.join(", "))
    };
    let all = [A[0], B[0], EVM_ONLY];
    verifier(&text(&set(2, &all), ID), &[]).unwrap();
    // Alone on a chain, and in a set on others.
    verifier(&text(&set(2, &all), A[0]), &[]).unwrap();
    let other = id(Family::Evm, 2, &[B[0], EVM_ONLY]);
    for (set, releaser, key, said) in [
        (set(1, &all), ID, "chains[0].releaser", id(Family::Evm, 1, &all).to_string()),
        (set(2, &[B[0], EVM_ONLY]), other.as_str(), "set.members", A[0].to_lowercase()),
        (set(0, &all), ID, "set.threshold", "1 to 3".to_owned()),
        (set(4, &all), ID, "set.threshold", "1 to 3".to_owned()),
        (set(1, &[]), ID, "set.members", "1 to 16".to_owned()),
        (set(2, &[A[0], B[0], A[0]]), ID, "set.members[2].account", "not repeat".to_owned()),
        (set(2, &[A[0], B[0], A[2]]), ID, "set.members[2].account", "on EVM chains".to_owned()),
        (
            format!("threshold = 1\nmembers = [{{ account = {:?} }}, {{ tron_account = {:?} }}]", A[0], B[2]),
            ID,
            "set.members[1].account",
            "EVM chains are served".to_owned(),
        ),
    ] {
        let error = verifier(&text(&set, releaser), &[]).unwrap_err();
        assert!(error.starts_with(&format!("{key}: ")) && error.contains(&said), "{set}: {error}");
    }
    // Without the section the releaser is nobody's whom this one can sign for.
    let error = verifier(VERIFIER, &[("GW_VERIFIER_CHAINS__0__RELEASER", ID)]).unwrap_err();
    assert!(error.starts_with("chains[0].releaser: "), "{error}");
}
