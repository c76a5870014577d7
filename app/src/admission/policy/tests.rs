//! Policy sets and deny lists as files, and what they permit.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;

use events::{OwnedAsset, PaymentId};
use identity::NOBODY;

use super::*;

const PAYER: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
const RECIPIENT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
const USDC: &str = "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
const TRON_USDT: &str = "tron:728126428/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";
const TRON: &str = "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8";
const WITHIN: Duration = Duration::from_secs(30);
const ANYONE: &str = "@id(\"anyone\") permit (principal, action, resource);";

fn owned(asset: &str, account: &str) -> OwnedAsset {
    OwnedAsset::new(asset.parse().unwrap(), account).unwrap()
}

fn terms(units: &str) -> Terms {
    Terms::new(owned(USDC, PAYER), vec![owned(USDC, RECIPIENT)], units.parse().unwrap(), Some("7".parse().unwrap()))
}

fn decimals() -> Decimals {
    Decimals::from([(USDC.parse().unwrap(), 6), (TRON_USDT.parse().unwrap(), 6)])
}

/// A policy file and a deny list in a directory of their own.
struct Set {
    directory: TempDir,
    config: CounterpartyConfig,
}

impl Set {
    fn new(policies: Option<&str>, deny: Option<&str>) -> Self {
        let directory = TempDir::new().unwrap();
        let write = |name: &str, text: Option<&str>| {
            let path = directory.path().join(name);
            text.map(|text| std::fs::write(&path, text).map(|()| path.clone()).unwrap())
        };
        let config =
            CounterpartyConfig { policy_file: write("policies.cedar", policies), deny_list: write("deny.txt", deny) };
        Self { directory, config }
    }

    fn load(&self) -> Result<Counterparties, Error> {
        Counterparties::load(&self.config, decimals())
    }

    /// As an editor that does it well: in one step.
    fn replace(&self, path: &Option<PathBuf>, text: &str) {
        let next = self.directory.path().join("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, path.as_ref().unwrap()).unwrap();
    }
}

fn judge(
    counterparties: &Counterparties,
    terms: &Terms,
    required_policies: &[String],
) -> Result<Vec<String>, Declined> {
    let originator = terms.source.account().originator();
    let id = PaymentId::derive(&originator, "order-1");
    let kind = RequestKind::Payment;
    let proposal = Proposal {
        kind,
        id: id.as_str(),
        originator: &originator,
        proven: &NOBODY,
        payer: terms.source.account(),
        terms,
        required_policies,
        payer_is_contract: Some(false),
    };
    let decision = counterparties.judge(&proposal, chrono::Utc::now())?;
    Ok(decision.expect("a policy set is configured").policies)
}

fn permitted(policies: &str, terms: &Terms) -> Result<Vec<String>, Declined> {
    judge(&Set::new(Some(policies), None).load().unwrap(), terms, &[])
}

#[test]
fn what_policies_permit_and_forbid() {
    let ordinary = terms("25000000");
    let forbid = |rule: &str| format!("{ANYONE}\n@id(\"rule\") forbid (principal, action, resource) {rule};");
    for (policies, expected) in [
        (ANYONE.to_owned(), true),
        (String::new(), false),
        ("@id(\"a\") permit (principal, action, resource) when { false };".to_owned(), false),
        (format!("@id(\"a\") permit (principal == Payer::\"eip155:{PAYER}\", action, resource);"), true),
        (format!("@id(\"a\") permit (principal == Payer::\"eip155:{RECIPIENT}\", action, resource);"), false),
        ("@id(\"a\") permit (principal, action == Action::\"Pay\", resource);".to_owned(), true),
        (forbid("when { true }"), false),
        (forbid(&format!("when {{ principal.account == \"{PAYER}\" }}")), false),
        (forbid(&format!("when {{ principal.originator == \"eip155:{PAYER}\" }}")), false),
        (forbid("when { principal.chain == \"eip155:10\" }"), true),
        (forbid("when { resource.source_chain like \"eip155:*\" }"), false),
        (forbid(&format!("when {{ resource.source_account == \"{PAYER}\" }}")), false),
        (forbid(&format!("when {{ resource.source_asset == \"{USDC}\" }}")), false),
        (forbid("when { resource.destination_chains.contains(\"eip155:10\") }"), true),
        (forbid("when { resource.destination_chains.containsAny([\"eip155:10\", \"eip155:1\"]) }"), false),
        (forbid(&format!("when {{ resource.destination_assets.contains(\"{USDC}\") }}")), false),
        (forbid(&format!("when {{ resource.destination_accounts.contains(\"{RECIPIENT}\") }}")), false),
        (
            forbid(&format!(
                "when {{ resource.destinations.contains({{asset: \"{USDC}\", chain: \"eip155:1\", account: \
                 \"{RECIPIENT}\"}}) }}"
            )),
            false,
        ),
        (forbid("when { resource.amount == \"25000000\" }"), false),
        (forbid("when { resource.amount_tokens > 25 }"), true),
        (forbid("when { resource.amount_tokens >= 25 }"), false),
        (forbid("unless { resource has max_source_amount && resource.max_source_amount == \"7\" }"), true),
        (forbid("unless { resource has max_source_tokens && resource.max_source_tokens == 1 }"), true),
        (forbid("unless { context.stage == \"payment\" }"), true),
        (forbid("when { context.stage == \"award\" }"), true),
        (forbid("when { context.unix_time < 1700000000 }"), true),
        (forbid("unless { resource.required_policies.contains(\"kyc\") }"), false),
    ] {
        let outcome = permitted(&policies, &ordinary);
        assert_eq!(outcome.is_ok(), expected, "{policies}: {outcome:?}");
    }
    let policies = forbid("unless { resource.required_policies.contains(\"kyc\") }");
    let set = Set::new(Some(&policies), None).load().unwrap();
    assert_eq!(judge(&set, &ordinary, &["kyc".to_owned()]).unwrap(), ["anyone"]);
}

#[test]
fn amounts_in_tokens_are_above_a_limit_exactly_when_the_amount_is() {
    let limit = format!("{ANYONE}\nforbid (principal, action, resource) when {{ resource.amount_tokens > 25 }};");
    for (units, expected) in [("1", true), ("24999999", true), ("25000000", true), ("25000001", false)] {
        assert_eq!(permitted(&limit, &terms(units)).is_ok(), expected, "{units}");
    }
    // More than a 64-bit number of tokens, and units of which nobody knows how many make a token.
    assert!(permitted(&limit, &terms(&"9".repeat(70))).is_err());
    let unknown = owned("eip155:1/erc20:0x0b2c639c533813f4aa9d7837caf62653d097ff85", RECIPIENT);
    let terms = Terms::new(owned(USDC, PAYER), vec![unknown], "26".parse().unwrap(), None);
    assert!(permitted(&limit, &terms).is_err());
}

#[test]
fn what_cannot_be_evaluated_is_declined() {
    // The sum overflows only for this payment; Cedar would skip the policy.
    let overflowing = format!(
        "{ANYONE}\n@id(\"sum\") forbid (principal, action, resource) when {{ resource.amount_tokens + \
         9223372036854775807 > 5 && false }};"
    );
    assert!(permitted(&overflowing, &terms("25000000")).unwrap_err().to_string().contains("cannot be evaluated"));
}

#[test]
fn a_set_that_breaks_a_rule_is_no_set() {
    for (policies, expected) in [
        ("permit (principal, action", "unexpected end"),
        ("permit (principal, action, resource) when { resource.amont == \"1\" };", "amont"),
        ("permit (principal, action, resource) when { resource.amount > 5 };", "type"),
        ("permit (principal, action == Action::\"Steal\", resource);", "Steal"),
        ("permit (principal, action, resource) when { resource.max_source_tokens > 5 };", "max_source_tokens"),
        ("permit (principal == ?principal, action, resource);", "templates"),
        (
            "@id(\"a\") permit (principal, action, resource); @id(\"a\") forbid (principal, action, resource);",
            "the id a",
        ),
        (
            "\npermit (principal == Payer::\"eip155:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed\", action, resource);",
            "line 2: write",
        ),
    ] {
        let error = Set::new(Some(policies), None).load().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("policies.cedar"), "{policies}: {error}");
    }
    let error = Set::new(Some(ANYONE), Some("0x12")).load().unwrap_err().to_string();
    assert!(error.contains("deny.txt") && error.contains("line 1"), "{error}");
    let mut missing = Set::new(Some(ANYONE), None);
    missing.config.deny_list = Some(Path::new("/nowhere/deny.txt").to_owned());
    assert!(matches!(missing.load(), Err(Error::Unreadable { .. })));
}

#[test]
fn a_deny_list_works_alone_and_against_every_permit() {
    let ordinary = terms("1");
    for entry in ["0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", "eip155:137:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"]
    {
        for policies in [None, Some(ANYONE)] {
            let counterparties = Set::new(policies, Some(entry)).load().unwrap();
            assert!(judge(&counterparties, &ordinary, &[]).is_err(), "{entry}");
        }
    }
    let other = Set::new(None, Some("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t")).load().unwrap();
    assert_eq!(judge(&other, &ordinary, &[]).unwrap(), Vec::<String>::new());
    // One of several destinations is enough.
    let destination = vec![owned(USDC, RECIPIENT), owned(TRON_USDT, TRON)];
    let terms = Terms::new(owned(USDC, PAYER), destination, "1".parse().unwrap(), None);
    assert!(judge(&Set::new(None, Some(TRON)).load().unwrap(), &terms, &[]).is_err());
}

#[test]
fn everyone_is_permitted_where_nothing_is_configured() {
    let nothing = Counterparties::load(&CounterpartyConfig::default(), decimals()).unwrap();
    let terms = terms("1");
    let proposal = Proposal {
        kind: RequestKind::Award,
        id: "pay_x",
        originator: "did:web:a",
        proven: &NOBODY,
        payer: terms.source.account(),
        terms: &terms,
        required_policies: &[],
        payer_is_contract: None,
    };
    assert_eq!(nothing.judge(&proposal, chrono::Utc::now()), Ok(None));
}

/// Where the source is the merchant's account, it is the buyer that pays.
#[test]
fn who_pays_is_judged_where_another_account_is_the_source() {
    let (terms, payer) = (terms("1"), RECIPIENT.parse().unwrap());
    let to_pay = |payer| Proposal {
        kind: RequestKind::Payment,
        id: "pay_x",
        originator: "did:web:a",
        proven: &NOBODY,
        payer,
        terms: &terms,
        required_policies: &[],
        payer_is_contract: Some(false),
    };
    let terms_elsewhere = Terms::new(owned(USDC, PAYER), vec![owned(TRON_USDT, TRON)], "1".parse().unwrap(), None);
    let denied = Set::new(None, Some(RECIPIENT)).load().unwrap();
    let now = chrono::Utc::now();
    let judged = |payer| denied.judge(&Proposal { terms: &terms_elsewhere, ..to_pay(payer) }, now);
    assert!(judged(&payer).is_err());
    assert!(judged(terms.source.account()).is_ok());
    let policies = format!(r#"permit (principal, action, resource) when {{ principal.account == "{payer}" }};"#);
    let named = Set::new(Some(&policies), None).load().unwrap();
    assert!(named.judge(&to_pay(&payer), now).is_ok() && named.judge(&to_pay(terms.source.account()), now).is_err());
}

#[test]
fn a_proven_originator_is_judged_by_its_did() {
    let terms = terms("1");
    let named = Set::new(Some("permit (principal == Payer::\"did:web:shop.example\", action, resource);"), None);
    let denied = Set::new(None, Some("did:web:shop.example"));
    let proposal = |originator| Proposal {
        kind: RequestKind::Payment,
        id: "pay_x",
        originator,
        proven: &NOBODY,
        payer: terms.source.account(),
        terms: &terms,
        required_policies: &[],
        payer_is_contract: None,
    };
    for (originator, permitted) in [("did:web:shop.example", true), ("did:web:other.example", false)] {
        let now = chrono::Utc::now();
        assert_eq!(named.load().unwrap().judge(&proposal(originator), now).is_ok(), permitted);
        assert_eq!(denied.load().unwrap().judge(&proposal(originator), now).is_ok(), !permitted);
    }
}

#[test]
fn contracts_that_pay_can_be_told_apart() {
    let terms = terms("1");
    let only = |whom: &str| {
        let policies = format!(
            "permit (principal, action, resource); forbid (principal, action, resource) \
             when {{ resource has payer_is_contract && resource.payer_is_contract }} unless {{ {whom} }};"
        );
        Set::new(Some(&policies), None).load().unwrap()
    };
    let (nobody, these) = (only("false"), only(&format!("resource.source_account == \"{PAYER}\"")));
    let proposal = |payer_is_contract| Proposal {
        kind: RequestKind::Payment,
        id: "pay_x",
        originator: "did:web:a",
        proven: &NOBODY,
        payer: terms.source.account(),
        terms: &terms,
        required_policies: &[],
        payer_is_contract,
    };
    for (is_contract, by_nobody, by_these) in [(Some(true), false, true), (Some(false), true, true), (None, true, true)]
    {
        let now = chrono::Utc::now();
        assert_eq!(nobody.judge(&proposal(is_contract), now).is_ok(), by_nobody, "{is_contract:?}");
        assert_eq!(these.judge(&proposal(is_contract), now).is_ok(), by_these, "{is_contract:?}");
    }
}

#[test]
fn the_hash_is_of_everything_that_decides() {
    let hash = |policies, deny| {
        let set = Set::new(policies, deny).load().unwrap();
        set.inner.unwrap().rules.read().unwrap().hash()
    };
    let all = [
        hash(Some(ANYONE), None),
        hash(Some(ANYONE), Some("")),
        hash(Some(ANYONE), Some(PAYER)),
        hash(Some(""), Some(PAYER)),
        hash(None, Some(PAYER)),
    ];
    for (i, one) in all.iter().enumerate() {
        assert!(all[i + 1..].iter().all(|other| other != one), "{i}");
    }
    assert_eq!(hash(Some(ANYONE), None), all[0]);
}

#[tokio::test]
async fn changed_files_are_in_force_without_a_restart_and_broken_ones_never() {
    let set = Set::new(Some(ANYONE), Some("# nobody"));
    let counterparties = set.load().unwrap();
    let shutdown = CancellationToken::new();
    let (told, mut outcomes) = tokio::sync::mpsc::unbounded_channel();
    let task = tokio::spawn({
        let (inner, shutdown) = (counterparties.inner.clone().unwrap(), shutdown.clone());
        async move {
            let tell = |outcome: Result<Rules, Error>| {
                let text = outcome.as_ref().err().map(ToString::to_string);
                inner.take(outcome);
                told.send(text).unwrap();
            };
            inner.files.follow(&shutdown, tell).await;
        }
    });
    let ordinary = terms("1");
    let becomes = |expected: bool| {
        let (counterparties, ordinary) = (&counterparties, &ordinary);
        async move {
            let holds = async {
                while judge(counterparties, ordinary, &[]).is_ok() != expected {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::time::timeout(WITHIN, holds).await.unwrap();
        }
    };
    becomes(true).await;
    set.replace(&set.config.deny_list, PAYER);
    becomes(false).await;
    set.replace(&set.config.deny_list, "");
    becomes(true).await;
    set.replace(&set.config.policy_file, "");
    becomes(false).await;
    set.replace(&set.config.policy_file, "@id(\"second\") permit (principal, action, resource);");
    becomes(true).await;

    // A broken set, a broken list and a file that is gone leave in force what was.
    let mut refused = async |expected: &str| {
        let found = async { while !outcomes.recv().await.unwrap().is_some_and(|error| error.contains(expected)) {} };
        tokio::time::timeout(WITHIN, found).await.unwrap();
        assert_eq!(judge(&counterparties, &ordinary, &[]).unwrap(), ["second"]);
    };
    set.replace(&set.config.policy_file, "permit (");
    refused("policies.cedar").await;
    std::fs::remove_file(set.config.policy_file.as_ref().unwrap()).unwrap();
    refused("cannot be read").await;
    set.replace(&set.config.policy_file, ANYONE);
    set.replace(&set.config.deny_list, &format!("{PAYER}\nnobody"));
    refused("line 2").await;
    set.replace(&set.config.deny_list, PAYER);
    becomes(false).await;
    shutdown.cancel();
    task.await.unwrap();
}

#[test]
fn the_samples_are_sound() {
    let sample = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/policies").join(name);
    let config =
        CounterpartyConfig { policy_file: Some(sample("example.cedar")), deny_list: Some(sample("deny.example.txt")) };
    let samples = Counterparties::load(&config, decimals()).unwrap();
    assert_eq!(judge(&samples, &terms("250000000000"), &[]).unwrap(), ["anyone"]);
    assert!(judge(&samples, &terms("250000000001"), &[]).unwrap_err().to_string().contains("large-payments"));
    let destination = vec![owned(TRON_USDT, TRON)];
    let to_tron = Terms::new(owned(USDC, PAYER), destination, "1".parse().unwrap(), Some("1".parse().unwrap()));
    assert!(judge(&samples, &to_tron, &[]).is_err());
    assert!(judge(&samples, &to_tron, &["travel-rule".to_owned()]).is_ok());
    let uncapped = Terms::new(owned(USDC, PAYER), vec![owned(USDC, RECIPIENT)], "1".parse().unwrap(), None);
    assert!(judge(&samples, &uncapped, &[]).unwrap_err().to_string().contains("cap-required"));
}
