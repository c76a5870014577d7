//! The originator check for auditors: what a journaled request shows of its originator. The proof stands in the body, so
//! anybody can make it.

use futures::FutureExt;
use serde_json::{Map, Value};

use events::time::Timestamp;
use proofs::{contexts::Contexts, did::Did};

use super::Identities;

/// What the request shows of the originator that was journaled with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginatorCheck {
    /// It is the source account, or the request proves it.
    Shown,
    /// The request does not prove it.
    Contradicted(String),
    /// That takes what an auditor does not have: a web site, or contexts of the gateway's operator.
    Unverifiable(String),
}

/// Checks that the body `request` proves `originator` as of `at`, unless this is the source account itself, `account`. No
/// site is asked. Credentials, and the service that a proof was made for, are not looked at.
pub fn check_originator(request: &str, originator: &str, account: &str, at: Timestamp) -> OriginatorCheck {
    if originator == account {
        return OriginatorCheck::Shown;
    }
    let Ok(body) = serde_json::from_str::<Map<String, Value>>(request) else {
        return OriginatorCheck::Contradicted(
            "the request is not a JSON object, so it proves no originator".to_owned(),
        );
    };
    let identities = Identities::default();
    // Nothing is waited for where no site is asked.
    let Some(verified) = identities.verify(request, &body, None, at).now_or_never() else {
        return OriginatorCheck::Unverifiable("the proof takes what is not at hand".to_owned());
    };
    match verified {
        Ok(proven) if proven.originator().is_some_and(|did| did.as_str() == originator) => OriginatorCheck::Shown,
        Ok(proven) => {
            let shown = proven.originator().map_or("none", Did::as_str);
            OriginatorCheck::Contradicted(format!("the originator is {originator}, the request proves {shown}"))
        }
        Err(refusal) => {
            let known = |url: &Value| url.as_str().is_some_and(|url| Contexts::bundled().knows(url));
            let contexts = body.get("@context").and_then(Value::as_array);
            let self_contained = originator.parse().is_ok_and(|did: Did| did.is_self_contained());
            if self_contained && contexts.is_none_or(|contexts| contexts.iter().all(known)) {
                OriginatorCheck::Contradicted(format!("the request does not prove its originator: {refusal}"))
            } else {
                OriginatorCheck::Unverifiable(refusal.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use devkit::holder::Holder;
    use proofs::suites::Suite;

    use super::*;

    #[test]
    fn an_originator_is_shown_by_its_proof_alone() {
        let at: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        let (alice, mallory) = (Holder::ed25519(1).unwrap(), Holder::ed25519(2).unwrap());
        let body = alice.envelope(&json!({"request_id": "order-1"}), Suite::EddsaRdfc2022, &[], at).unwrap();
        let account = "eip155:0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
        let judge = |body: &Value, originator: &str| check_originator(&body.to_string(), originator, account, at);
        let (shown, other) = (alice.did().as_str(), mallory.did().as_str());
        assert_eq!(judge(&body, shown), OriginatorCheck::Shown);
        assert_eq!(judge(&json!({}), account), OriginatorCheck::Shown);
        let mut forged = body.clone();
        forged["request_id"] = json!("order-2");
        for (body, originator) in [(&body, other), (&forged, shown), (&json!({}), shown), (&json!([]), shown)] {
            assert!(matches!(judge(body, originator), OriginatorCheck::Contradicted(_)), "{body} {originator}");
        }
        let site = "did:web:bank.example";
        let mut of_site = body.clone();
        of_site["proof"]["verificationMethod"] = json!(format!("{site}#key-1"));
        assert!(matches!(judge(&of_site, site), OriginatorCheck::Unverifiable(_)));
        let mut own_terms = forged;
        own_terms["@context"] = json!([body["@context"][0], "https://kyc.example/v1"]);
        assert!(matches!(judge(&own_terms, shown), OriginatorCheck::Unverifiable(_)));
    }
}
