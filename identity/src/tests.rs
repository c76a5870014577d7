//! Policies of settlers: the credentials that settlers present for them.

use std::{collections::BTreeMap, future::pending, slice::from_ref, sync::Mutex, time::Duration};

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use config::{ContextConfig, PolicyRecordConfig, SettlerPolicyConfig};
use devkit::holder::Holder;
use proofs::{
    did::{Location, ResolveError},
    suites::SigningKey,
};

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

/// What the policy `proven` asks of a record.
const RECORD: PolicyRecordConfig = PolicyRecordConfig { delivered_min: 20, missed_percent_max: 5 };

/// Policies `kyc` and `licence`, both by holder 9, the second also by holder 8; and `proven`, which asks for a record besides.
fn policies() -> SettlerPolicies {
    let policy = |issuers: &[u8], kind: &str| SettlerPolicyConfig {
        issuers: issuers.iter().map(|seed| did(&holder(*seed))).collect(),
        kind: kind.to_owned(),
        record: None,
    };
    let proven = SettlerPolicyConfig { record: Some(RECORD), ..policy(&[9], "KycCredential") };
    let config = BTreeMap::from([
        ("kyc".to_owned(), policy(&[9], "KycCredential")),
        ("licence".to_owned(), policy(&[9, 8], "LicenceCredential")),
        ("proven".to_owned(), proven),
    ]);
    SettlerPolicies::new(Identities::default(), &config)
}

fn credential(issuer: u8, subject: u8, kind: &str) -> Map<String, Value> {
    let subject = holder(subject).did().to_string();
    let credential = holder(issuer).credential(&subject, kind, &json!({}), at(NOW)).unwrap();
    credential.as_object().unwrap().clone()
}

async fn held(policies: &SettlerPolicies, credentials: &[Map<String, Value>], required: &[&str]) -> Vec<String> {
    held_with(policies, credentials, required, false).await
}

/// Of one whose record is as `proven` asks, or is not.
async fn held_with(
    policies: &SettlerPolicies,
    credentials: &[Map<String, Value>],
    required: &[&str],
    has_record: bool,
) -> Vec<String> {
    let required: Vec<String> = required.iter().map(ToString::to_string).collect();
    let meets = |rule: &PolicyRecordConfig| has_record && *rule == RECORD;
    let held = policies.held(&did(&holder(1)), credentials, &required, &meets, at(NOW)).await;
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
async fn a_policy_that_asks_for_a_record_besides_is_held_by_credential_and_record() {
    let policies = policies();
    let kyc = credential(9, 1, "KycCredential");
    let held = async |credentials: &[Map<String, Value>], has_record| {
        held_with(&policies, credentials, &["kyc", "proven"], has_record).await
    };
    assert_eq!(held(from_ref(&kyc), true).await, ["kyc", "proven"]);
    assert_eq!(held(from_ref(&kyc), false).await, ["kyc"]);
    let others = credential(8, 1, "KycCredential");
    assert!(held(from_ref(&others), true).await.is_empty());
    assert!(held(&[], true).await.is_empty());
}

#[tokio::test]
async fn a_verdict_that_is_kept_ends_with_the_credential() {
    let policies = policies();
    let (settler, required) = (did(&holder(1)), ["kyc".to_owned()]);
    let credentials = [credential(9, 1, "KycCredential")];
    let held = async |now: &str| policies.held(&settler, &credentials, &required, &|_| false, at(now)).await;
    let first = held(NOW).await;
    assert_eq!(first[0].issuer, did(&holder(9)));
    assert_eq!(first[0].expires, Some(at("2030-01-01T01:00:00Z")));
    assert_eq!(held("2030-01-01T00:59:59Z").await, first);
    assert!(held("2030-01-01T01:00:00Z").await.is_empty());
}

/// The site of an issuer of credentials.
#[derive(Clone)]
enum Site {
    Away,
    Hangs,
    Answers(String),
}

struct Sites(Arc<Mutex<Site>>);

#[async_trait]
impl Resolver for Sites {
    async fn fetch(&self, _: &Location) -> Result<String, ResolveError> {
        let site = self.0.lock().unwrap().clone();
        match site {
            Site::Away => Err(ResolveError::Unavailable("away".to_owned())),
            Site::Hangs => pending().await,
            Site::Answers(text) => Ok(text),
        }
    }
}

/// The policy `kyc` by an issuer on the web, whose site does as it is told; a credential of it, and what its site says then.
fn on_the_web() -> (SettlerPolicies, Arc<Mutex<Site>>, Map<String, Value>, Site) {
    let (key, did) = (holder(9), "did:web:kyc.example");
    let method = format!("{did}#key");
    let document = json!({
        "id": did,
        "verificationMethod": [{
            "id": method, "type": "Multikey", "controller": did,
            "publicKeyMultibase": key.did().as_str().trim_start_matches("did:key:"),
        }],
        "assertionMethod": [method],
    });
    let signer = SigningKey::Ed25519(ed25519_dalek::SigningKey::from_bytes(&[9; 32]));
    let issuer = Holder::with_method(signer, &method).unwrap();
    let credential = issuer.credential(holder(1).did().as_str(), "KycCredential", &json!({}), at(NOW)).unwrap();
    let site = Arc::new(Mutex::new(Site::Away));
    let resolver: Box<dyn Resolver> = Box::new(Sites(Arc::clone(&site)));
    let inner = Inner { contexts: None, origins: vec!["https://kyc.example".to_owned()], resolver };
    let kyc =
        SettlerPolicyConfig { issuers: vec![did.parse().unwrap()], kind: "KycCredential".to_owned(), record: None };
    let policies = SettlerPolicies::new(Identities(Arc::new(inner)), &BTreeMap::from([("kyc".to_owned(), kyc)]));
    (policies, site, credential.as_object().unwrap().clone(), Site::Answers(document.to_string()))
}

#[tokio::test(start_paused = true)]
async fn what_a_site_that_does_not_answer_has_to_say_is_unknown_and_asked_for_again() {
    let (policies, site, credential, answers) = on_the_web();
    let unknown = |settler: u8, credentials: &[Map<String, Value>]| {
        let until = policies.unknown_until(&did(&holder(settler)), credentials, &["kyc".to_owned()]);
        until.map(|until| until - Instant::now())
    };
    let presented = from_ref(&credential);
    assert_eq!(unknown(1, presented), None, "nobody has asked yet");
    assert!(held(&policies, presented, &["kyc"]).await.is_empty());
    assert_eq!(unknown(1, presented), Some(Duration::from_secs(5)));
    // One that takes its time is left alone for longer.
    sleep(Duration::from_secs(5)).await;
    assert_eq!(unknown(1, presented), None, "it is time to ask again");
    *site.lock().unwrap() = Site::Hangs;
    assert!(held(&policies, presented, &["kyc"]).await.is_empty());
    assert_eq!(unknown(1, presented), Some(Duration::from_secs(20)));
    assert_eq!(unknown(1, &[]), None, "nothing is presented");
    *site.lock().unwrap() = answers;
    sleep(Duration::from_secs(20)).await;
    assert_eq!(held(&policies, presented, &["kyc"]).await, ["kyc"]);
    assert_eq!(unknown(1, presented), None);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_hold_whatever_a_site_says_is_known_not_to() {
    let (policies, _, credential, _) = on_the_web();
    let unknown = |credential: &Map<String, Value>, required: &str| {
        policies.unknown_until(&did(&holder(1)), from_ref(credential), &[required.to_owned()])
    };
    // Of an issuer whose word does not count, and one that is about somebody else.
    let others = self::credential(8, 1, "KycCredential");
    let mut misplaced = credential.clone();
    misplaced.insert("credentialSubject".to_owned(), json!({"id": holder(2).did().as_str()}));
    assert!(held(&policies, &[others.clone(), misplaced.clone(), credential.clone()], &["kyc"]).await.is_empty());
    assert_eq!((unknown(&others, "kyc"), unknown(&misplaced, "kyc")), (None, None));
    assert_eq!(unknown(&credential, "licence"), None);
    assert!(unknown(&credential, "kyc").is_some());
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
