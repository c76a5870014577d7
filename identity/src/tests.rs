//! What settlers present for policies.

use std::{collections::BTreeMap, slice::from_ref};

use serde_json::{Map, Value, json};

use config::{ContextConfig, SettlerPolicyConfig};
use devkit::holder::Holder;

use super::*;

const NOW: &str = "2030-01-01T00:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn holder(seed: u8) -> Holder {
    Holder::ed25519(seed).unwrap()
}

fn did(holder: &Holder) -> events::Did {
    holder.did().as_str().parse().unwrap()
}

/// Policies `kyc` and `licence`, both by holder 9, the second also by holder 8.
fn policies() -> SettlerPolicies {
    let policy = |issuers: &[u8], kind: &str| SettlerPolicyConfig {
        issuers: issuers.iter().map(|seed| did(&holder(*seed))).collect(),
        kind: kind.to_owned(),
    };
    let config = BTreeMap::from([
        ("kyc".to_owned(), policy(&[9], "KycCredential")),
        ("licence".to_owned(), policy(&[9, 8], "LicenceCredential")),
    ]);
    SettlerPolicies::new(Identities::default(), &config)
}

fn credential(issuer: u8, subject: u8, kind: &str) -> Map<String, Value> {
    let subject = holder(subject).did().to_string();
    let credential = holder(issuer).credential(&subject, kind, &json!({}), at(NOW)).unwrap();
    credential.as_object().unwrap().clone()
}

async fn held(policies: &SettlerPolicies, credentials: &[Map<String, Value>], required: &[&str]) -> Vec<String> {
    let required: Vec<String> = required.iter().map(ToString::to_string).collect();
    let held = policies.held(&did(&holder(1)), credentials, &required, at(NOW)).await;
    assert!(held.iter().all(|held| held.settler == did(&holder(1))));
    held.into_iter().map(|held| held.policy).collect()
}

#[tokio::test]
async fn a_policy_is_held_by_a_credential_of_its_type_and_its_issuers_about_the_settler() {
    let policies = policies();
    let kyc = credential(9, 1, "KycCredential");
    assert_eq!(held(&policies, from_ref(&kyc), &["kyc"]).await, ["kyc"]);
    assert_eq!(held(&policies, from_ref(&kyc), &["kyc", "licence"]).await, ["kyc"]);
    assert_eq!(
        held(&policies, &[kyc.clone(), credential(8, 1, "LicenceCredential")], &["kyc", "licence"]).await,
        ["kyc", "licence"]
    );
    let mut altered = kyc.clone();
    altered.insert("id".to_owned(), json!("urn:uuid:other"));
    for other in [
        credential(8, 1, "KycCredential"),
        credential(9, 2, "KycCredential"),
        credential(9, 1, "OtherCredential"),
        credential(1, 1, "KycCredential"),
        altered,
        Map::new(),
    ] {
        assert!(held(&policies, &[other], &["kyc"]).await.is_empty());
    }
    assert!(held(&policies, from_ref(&kyc), &["unheard"]).await.is_empty());
    assert!(held(&policies, &[kyc], &[]).await.is_empty());
}

#[tokio::test]
async fn a_verdict_that_is_kept_ends_with_the_credential() {
    let policies = policies();
    let (settler, required) = (did(&holder(1)), ["kyc".to_owned()]);
    let credentials = [credential(9, 1, "KycCredential")];
    let held = async |now: &str| policies.held(&settler, &credentials, &required, at(now)).await;
    let first = held(NOW).await;
    assert_eq!(first[0].issuer, did(&holder(9)));
    assert_eq!(first[0].expires, Some(at("2030-01-01T01:00:00Z")));
    assert_eq!(held("2030-01-01T00:59:59Z").await, first);
    assert!(held("2030-01-01T01:00:00Z").await.is_empty());
}

#[test]
fn contexts_come_from_files_and_replace_none() {
    let directory = tempfile::tempdir().unwrap();
    let load = |url: &str, text: Option<&str>| {
        let file = directory.path().join("context.jsonld");
        let _ = fs::remove_file(&file);
        text.iter().for_each(|text| fs::write(&file, text).unwrap());
        let contexts = vec![ContextConfig { url: url.to_owned(), file }];
        Identities::load(&IdentityConfig { contexts, ..IdentityConfig::default() })
    };
    let own = "https://kyc.example/v1";
    let text = r#"{"@context":{"KycCredential":"https://kyc.example/#KycCredential"}}"#;
    assert!(load(own, Some(text)).unwrap().trust(at(NOW)).contexts.knows(own));
    assert!(matches!(load(own, None), Err(Error::Unreadable { .. })));
    assert!(matches!(load(own, Some("[]")), Err(Error::Context(_))));
    assert!(matches!(load(contexts::CREDENTIALS_V1, Some(text)), Err(Error::Context(contexts::Error::Taken(_)))));
    assert!(matches!(load(own, Some(&" ".repeat(CONTEXT_BYTES_MAX as usize + 1))), Err(Error::TooLarge(_))));
}
