//! Credentials, and requests signed by their holders.

use std::sync::Mutex;

use crate::support::{did, document, ed25519, now, options, p256, p384, secp256k1, signed};
use async_trait::async_trait;
use futures::executor::block_on;
use proofs::{
    contexts::{CREDENTIALS_V1, Contexts, DATA_INTEGRITY_V2, GATEWAY_V1, QUOTE},
    credential::{self, Credential, Trust},
    did::{self, Did, Location, NoWeb, Purpose, ResolveError, Resolver, Web},
    envelope,
    json::Document,
    suites::{self, Options, SigningKey, Suite, sign},
};
use serde_json::{Value, json};

const KYC: &str = "https://kyc.example/v1";

/// A vocabulary that an operator added, with a second name for the expiration date.
fn contexts() -> Contexts {
    let text = r#"{"@context":{"Kyc":"https://kyc.example/#Kyc","level":"https://kyc.example/#level",
        "knows":{"@id":"https://kyc.example/#knows","@type":"@id"},
        "until":{"@id":"https://www.w3.org/2018/credentials#expirationDate",
                 "@type":"http://www.w3.org/2001/XMLSchema#dateTime"}}}"#;
    Contexts::with([(KYC, text)]).unwrap()
}

fn trust(contexts: &Contexts) -> Trust<'_> {
    Trust { contexts, web: Web { origins: &[], resolver: &NoWeb }, now: now() }
}

fn kyc(issuer: &Did, subject: &Did) -> Value {
    json!({
        "@context": [CREDENTIALS_V1, KYC, DATA_INTEGRITY_V2],
        "id": "urn:uuid:7c8aed6e-57b4-45cf-b0f9-1d7bc2d8c84a",
        "type": ["VerifiableCredential", "Kyc"],
        "issuer": issuer.as_str(),
        "issuanceDate": "2026-01-01T00:00:00Z",
        "expirationDate": "2028-01-01T00:00:00Z",
        "credentialStatus": {"id": "https://kyc.example/status/7", "type": "Kyc"},
        "credentialSubject": {"id": subject.as_str(), "level": "full"},
    })
}

fn issue(value: Value, key: &SigningKey) -> Document {
    let options = options(key, Purpose::AssertionMethod);
    let suite = match key {
        SigningKey::Ed25519(_) => Suite::EddsaRdfc2022,
        SigningKey::Secp256k1(_) => Suite::EcdsaSecp256k1Signature2019,
        SigningKey::P256(_) | SigningKey::P384(_) => Suite::EcdsaRdfc2019,
    };
    sign(&document(value), suite, key, &options, &contexts()).unwrap()
}

fn verify(credential: &Document, holder: &Did) -> Result<Credential, credential::Error> {
    let contexts = contexts();
    block_on(credential::verify(credential, holder, trust(&contexts)))
}

#[test]
fn a_credential_says_who_says_what_of_whom() {
    let holder = did(&ed25519(1));
    for key in [ed25519(9), p256(9), p384(9)] {
        let issuer = did(&key);
        let credential = verify(&issue(kyc(&issuer, &holder), &key), &holder).unwrap();
        assert_eq!((&credential.issuer, &credential.subject), (&issuer, &holder));
        assert_eq!(credential.types, ["VerifiableCredential", "Kyc"]);
        assert_eq!(Value::Object(credential.claims), json!({"level": "full"}));
    }
    // The issuer's object, and a suite that the first context brings along.
    let key = secp256k1(9);
    let mut value = kyc(&did(&key), &holder);
    value["@context"] = json!([CREDENTIALS_V1, KYC]);
    value["issuer"] = json!({"id": did(&key).as_str(), "type": "Kyc"});
    assert!(verify(&issue(value, &key), &holder).is_ok());
}

#[test]
fn credentials_that_do_not_count() {
    use credential::Error;
    let (key, holder) = (ed25519(9), did(&ed25519(1)));
    let options = |purpose| options(&key, purpose);
    let refused_by = |suite, change: &dyn Fn(&mut Value)| {
        let mut value = kyc(&did(&key), &holder);
        change(&mut value);
        let signed = sign(&document(value), suite, &key, &options(Purpose::AssertionMethod), &contexts()).unwrap();
        verify(&signed, &holder).unwrap_err()
    };
    // A suite that signs any JSON, so that nothing but the form is wrong.
    let refused = |change: &dyn Fn(&mut Value)| refused_by(Suite::EddsaJcs2022, change);
    let other = did(&ed25519(2)).to_string();
    assert_eq!(refused(&|vc| vc["@context"] = json!([KYC, CREDENTIALS_V1, DATA_INTEGRITY_V2])), Error::Context);
    assert!(matches!(refused(&|vc| vc["type"] = json!(["Kyc"])), Error::Member { member: "type", .. }));
    assert!(matches!(refused(&|vc| vc["type"] = "VerifiableCredential".into()), Error::Member { member: "type", .. }));
    assert!(matches!(
        refused(&|vc| vc["issuer"] = "https://kyc.example".into()),
        Error::Member { member: "issuer", .. }
    ));
    assert_eq!(refused(&|vc| vc["issuer"] = other.as_str().into()), Error::NotTheIssuer(did(&key)));
    assert_eq!(refused(&|vc| vc["issuanceDate"] = "2027-01-02T00:00:00Z".into()), Error::NotYetValid);
    assert_eq!(refused(&|vc| vc["expirationDate"] = "2027-01-01T12:00:00Z".into()), Error::Expired);
    assert!(matches!(
        refused(&|vc| vc["expirationDate"] = "2028-01-01T00:00:00".into()),
        Error::Member { member: "expirationDate", .. }
    ));
    assert!(matches!(
        refused(&|vc| drop(vc["credentialSubject"].as_object_mut().unwrap().remove("id"))),
        Error::Member { member: "credentialSubject", .. }
    ));
    assert_eq!(refused(&|vc| vc["credentialSubject"]["id"] = other.as_str().into()), Error::Subject(holder.clone()));
    // What is signed as an expiry but stands where nobody looks, and a subject described beside the claims.
    let hidden = refused_by(Suite::EddsaRdfc2022, &|vc| {
        let until = vc.as_object_mut().unwrap().remove("expirationDate").unwrap();
        vc["until"] = until;
    });
    assert_eq!(hidden, Error::Hidden("expirationDate"));
    let aside = refused_by(Suite::EddsaRdfc2022, &|vc| {
        vc["credentialSubject"] = json!({"id": holder.as_str()});
        vc["knows"] = json!({"id": holder.as_str(), "level": "none"});
    });
    assert!(matches!(aside, Error::Hidden(_)));

    // Altered after signing.
    let signed = issue(kyc(&did(&key), &holder), &key).to_string();
    let altered = Document::parse(&signed.replace("\"full\"", "\"gold\"")).unwrap();
    assert_eq!(verify(&altered, &holder), Err(Error::Proof(suites::Error::Signature)));
    let renamed = Document::parse(&signed.replace("expirationDate", "until")).unwrap();
    assert_eq!(verify(&renamed, &holder), Err(Error::Hidden("expirationDate")));
    // Signed to authenticate, not to assert.
    let unsigned = document(kyc(&did(&key), &holder));
    let wrong = sign(&unsigned, Suite::EddsaRdfc2022, &key, &options(Purpose::Authentication), &contexts()).unwrap();
    assert!(matches!(verify(&wrong, &holder), Err(Error::Proof(suites::Error::Purpose { .. }))));
}

/// The members of a document with all these proofs over it.
fn with_proofs(signed: &[Document]) -> Document {
    let mut members = signed[0].members().clone();
    let proofs: Vec<Value> = signed.iter().map(|document| document.members()["proof"].clone()).collect();
    members.insert("proof".to_owned(), proofs.into());
    document(Value::Object(members))
}

#[test]
fn a_credential_may_have_witnesses_beside_its_issuer() {
    let (key, witness, holder) = (ed25519(9), p384(8), did(&ed25519(1)));
    let value = kyc(&did(&key), &holder);
    let (own, other) = (issue(value.clone(), &key), issue(value.clone(), &witness));
    for proofs in [[own.clone(), other.clone()], [other.clone(), own.clone()]] {
        assert!(verify(&with_proofs(&proofs), &holder).is_ok());
    }
    assert_eq!(verify(&other, &holder), Err(credential::Error::NotTheIssuer(did(&witness))));
    // One that does not hold takes the others with it.
    let mut later = value;
    later["credentialSubject"]["level"] = "gold".into();
    let broken = with_proofs(&[own, issue(later, &witness)]);
    assert_eq!(verify(&broken, &holder), Err(credential::Error::Proof(suites::Error::Signature)));
}

struct Site {
    text: Result<String, ResolveError>,
    asked: Mutex<usize>,
}

#[async_trait]
impl Resolver for Site {
    async fn fetch(&self, _: &Location) -> Result<String, ResolveError> {
        *self.asked.lock().unwrap() += 1;
        self.text.clone()
    }
}

#[test]
fn an_issuer_on_the_web_is_asked_when_its_origin_is_named() {
    let (key, holder) = (ed25519(9), did(&ed25519(1)));
    let issuer: Did = "did:web:kyc.example".parse().unwrap();
    let method = format!("{issuer}#key-1");
    let text = json!({
        "id": issuer.as_str(),
        "verificationMethod": [{
            "id": method, "type": "Multikey", "controller": issuer.as_str(),
            "publicKeyMultibase": key.public().to_multibase(),
        }],
        "assertionMethod": [method],
    });
    let options = Options { verification_method: method, ..options(&key, Purpose::AssertionMethod) };
    let contexts = contexts();
    let credential = document(kyc(&issuer, &holder));
    let credential = sign(&credential, Suite::EddsaRdfc2022, &key, &options, &contexts).unwrap();
    let ask = |origins: &[String], text: Result<String, ResolveError>| {
        let site = Site { text, asked: Mutex::new(0) };
        let web = Web { origins, resolver: &site };
        let result = block_on(credential::verify(&credential, &holder, Trust { web, ..trust(&contexts) }));
        (result, site.asked.into_inner().unwrap())
    };
    let origins = ["https://kyc.example".to_owned()];
    assert!(matches!(ask(&origins, Ok(text.to_string())), (Ok(_), 1)));
    // Numbers of somebody else's, and an end that is to come; then the key's time is over.
    let until = |time: &str| {
        let mut text = text.clone();
        text["service"] = json!([{"id": "#pay", "type": "Bank", "priority": 1}]);
        text["verificationMethod"][0]["revoked"] = time.into();
        ask(&origins, Ok(text.to_string())).0
    };
    assert!(until("2027-01-01T12:00:01Z").is_ok());
    assert!(matches!(
        until("2027-01-01T12:00:00Z"),
        Err(credential::Error::Proof(suites::Error::Unauthorised(did::Unauthorised::Ended { .. })))
    ));
    let (stranger, asked) = ask(&[], Ok(text.to_string()));
    assert_eq!((stranger, asked), (Err(credential::Error::Issuer(did::Error::Origin(issuer))), 0));
    let (away, _) = ask(&origins, Err(ResolveError::Unavailable("timed out".to_owned())));
    assert!(away.unwrap_err().is_transient());
}

fn request(credentials: Vec<Value>) -> Value {
    let mut request = json!({
        "@context": QUOTE,
        "version": "1.0",
        "request_id": "order-7",
        "source": {"asset_identifier": "eip155:1/slip44:60", "account": "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"},
        "destination": [
            {"asset_identifier": "eip155:10/slip44:60", "account": "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359"},
        ],
        "fulfillment_amount": "100",
        "quote_deadline": "2027-01-01T12:00:10Z",
        "fulfillment_deadline": "2027-01-01T12:05:00Z",
        "settler_auth_required": {"kyc": true},
        "sender_auth": {"message_scheme": "EVM_PERMIT2", "signed_messages": [{"message": "0x00", "signature": "0x00"}]},
    });
    if !credentials.is_empty() {
        request["verifiableCredential"] = credentials.into();
    }
    request
}

fn open(request: &Document) -> Result<envelope::Holder, envelope::Error> {
    let contexts = contexts();
    block_on(envelope::verify(request, trust(&contexts)))
}

#[test]
fn an_envelope_says_who_asks_and_what_is_said_of_him() {
    let (key, issuer) = (ed25519(1), ed25519(9));
    let holder = did(&key);
    let credential = |level: &str| {
        let mut value = kyc(&did(&issuer), &holder);
        value["credentialSubject"]["level"] = level.into();
        value["id"] = format!("urn:kyc:{level}").into();
        Value::Object(issue(value, &issuer).members().clone())
    };
    let options = options(&key, Purpose::Authentication);
    for suite in [Suite::EddsaRdfc2022, Suite::EddsaJcs2022, Suite::Ed25519Signature2020, Suite::JsonWebSignature2020] {
        let unsigned = document(request(vec![credential("basic"), credential("full")]));
        let enveloped = sign(&unsigned, suite, &key, &options, &contexts()).unwrap();
        assert!(envelope::is_enveloped(&enveloped));
        let opened = open(&enveloped).unwrap();
        assert_eq!(opened.did, holder);
        let levels: Vec<&Value> = opened.credentials.iter().map(|credential| &credential.claims["level"]).collect();
        assert_eq!(levels, ["basic", "full"]);

        // The deprecated carrier is not covered; everything else is.
        let mut value = Value::Object(enveloped.members().clone());
        value["sender_auth"]["verifiable_credential"] = json!({"signature": "x"});
        assert_eq!(open(&document(value.clone())), Ok(opened));
        value["sender_auth"]["signed_messages"][0]["signature"] = "0x01".into();
        assert_eq!(open(&document(value)), Err(envelope::Error::Proof(suites::Error::Signature)));
    }
}

#[test]
fn several_proofs_of_a_request_are_of_one_holder() {
    let (key, other) = (ed25519(1), p256(2));
    let sealed = |key: &SigningKey, suite| {
        let options = options(key, Purpose::Authentication);
        sign(&document(request(vec![])), suite, key, &options, &contexts()).unwrap()
    };
    let own = [sealed(&key, Suite::EddsaRdfc2022), sealed(&key, Suite::EddsaJcs2022)];
    assert_eq!(open(&with_proofs(&own)).unwrap().did, did(&key));
    let both = with_proofs(&[sealed(&key, Suite::EddsaRdfc2022), sealed(&other, Suite::EcdsaRdfc2019)]);
    assert_eq!(open(&both), Err(envelope::Error::SeveralHolders(did(&key), did(&other))));
    let mut altered = with_proofs(&own).members().clone();
    altered["proof"][1]["created"] = "2027-01-01T11:59:59Z".into();
    assert_eq!(open(&document(Value::Object(altered))), Err(envelope::Error::Proof(suites::Error::Signature)));
}

#[test]
fn a_list_of_no_credentials_is_none() {
    let key = ed25519(1);
    let options = options(&key, Purpose::Authentication);
    for suite in [Suite::EddsaRdfc2022, Suite::EddsaJcs2022] {
        let mut value = request(vec![]);
        if suite == Suite::EddsaJcs2022 {
            value["verifiableCredential"] = json!([]);
        }
        let signed = sign(&document(value), suite, &key, &options, &contexts()).unwrap();
        // Its N-Quads are the same with it, its RFC 8785 form is not.
        let mut members = signed.members().clone();
        members.insert("verifiableCredential".to_owned(), json!([]));
        let opened = open(&document(Value::Object(members.clone()))).unwrap();
        assert_eq!((opened.did, opened.credentials), (did(&key), Vec::new()));
        members.remove("verifiableCredential");
        assert_eq!(open(&document(Value::Object(members))).is_ok(), suite == Suite::EddsaRdfc2022);
    }
}

#[test]
fn envelopes_that_do_not_hold() {
    use envelope::Error;
    let (key, issuer) = (ed25519(1), ed25519(9));
    let sealed = |value: Value, purpose| {
        sign(&document(value), Suite::EddsaRdfc2022, &key, &options(&key, purpose), &contexts()).unwrap()
    };
    assert!(open(&sealed(request(vec![]), Purpose::Authentication)).is_ok());
    let asserted = open(&sealed(request(vec![]), Purpose::AssertionMethod));
    assert!(matches!(asserted, Err(Error::Proof(suites::Error::Purpose { .. }))));
    assert_eq!(open(&document(request(vec![]))), Err(Error::Proof(suites::Error::NoProofs)));
    let mut reordered = request(vec![]);
    reordered["@context"] = json!([DATA_INTEGRITY_V2, GATEWAY_V1]);
    assert_eq!(open(&sealed(reordered, Purpose::Authentication)), Err(Error::Context));
    let mut none = request(vec![]);
    none["verifiableCredential"] = json!({"id": "urn:x:y"});
    assert_eq!(open(&signed(none, Suite::EddsaJcs2022, &key, Purpose::Authentication)), Err(Error::Credentials));
    // Somebody else's credential.
    let theirs = Value::Object(issue(kyc(&did(&issuer), &did(&ed25519(2))), &issuer).members().clone());
    let lent = open(&sealed(request(vec![theirs]), Purpose::Authentication));
    let expected = credential::Error::Subject(did(&key));
    assert_eq!(lent, Err(Error::Credential { index: 0, error: expected }));
    assert!(!envelope::is_enveloped(&document(json!({"version": "1.0"}))));
}
