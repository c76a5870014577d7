//! Documents without a canonical form, and the reasons.

use serde_json::{Value, json};

use proofs::{
    canonical::{Error, Reason, canonicalize},
    contexts::{CREDENTIALS_V1, Contexts, GATEWAY_V1},
    json::Document,
};

use crate::support::{did, document, ed25519, quote};

fn refused(value: Value) -> (String, Reason) {
    match canonicalize(&document(value), Contexts::bundled()) {
        Err(Error::Refused { pointer, reason }) => (pointer, reason),
        other => panic!("{other:?}"),
    }
}

fn quote_with(change: impl FnOnce(&mut Value)) -> Value {
    let mut value = quote(&did(&ed25519(7)));
    change(&mut value);
    value
}

#[test]
fn what_would_vanish_is_refused_with_its_place() {
    let cases: Vec<(Value, &str, Reason)> = vec![
        (quote_with(|q| q["discount"] = "1".into()), "/discount", Reason::UnmappedTerm("discount".to_owned())),
        (
            quote_with(|q| q["destination"]["memo"] = "1".into()),
            "/destination/memo",
            Reason::UnmappedTerm("memo".to_owned()),
        ),
        (quote_with(|q| q["type"] = json!(["GatewayQuote", "Offer"])), "/type", Reason::UnmappedType),
        (quote_with(|q| q["sourceAmount"] = Value::Null), "/sourceAmount", Reason::Null),
        (quote_with(|q| q["destination"] = json!([])), "/destination", Reason::EmptyList),
        (quote_with(|q| q["sourceAmount"] = json!(["1", "1"])), "/sourceAmount/1", Reason::RepeatedItem),
        (quote_with(|q| q["settler"] = "settler-1".into()), "/settler", Reason::RelativeId("settler-1".to_owned())),
        (quote_with(|q| q["id"] = "q-1".into()), "/id", Reason::RelativeId("q-1".to_owned())),
        (quote_with(|q| q["id"] = "#q".into()), "/id", Reason::RelativeId("#q".to_owned())),
        (
            quote_with(|q| q["settler"] = "gw:settler-1".into()),
            "/settler",
            Reason::CompactId("https://gateway.example/vocab#settler-1".to_owned()),
        ),
        (
            quote_with(|q| q["type"] = "gw:GatewayQuote".into()),
            "/type",
            Reason::CompactId("https://gateway.example/vocab#GatewayQuote".to_owned()),
        ),
        (json!({"@context": [GATEWAY_V1], "id": "urn:x:y"}), "", Reason::Empty),
        (json!({"@context": [GATEWAY_V1]}), "", Reason::Empty),
    ];
    for (value, pointer, reason) in cases {
        assert_eq!(refused(value), (pointer.to_owned(), reason));
    }
}

#[test]
fn contexts_are_bundled_ones_by_name() {
    let with = |context: Value| refused(quote_with(|quote| quote["@context"] = context));
    let inline = json!([GATEWAY_V1, {"sourceAmount": "https://evil.example/#nothing"}]);
    assert_eq!(with(inline), ("/@context/1".to_owned(), Reason::InlineContext));
    assert_eq!(with(json!({})), ("/@context".to_owned(), Reason::InlineContext));
    let unknown = "https://evil.example/v1";
    assert_eq!(
        with(json!([GATEWAY_V1, unknown])),
        ("/@context/1".to_owned(), Reason::UnknownContext(unknown.to_owned()))
    );
    assert_eq!(with(json!("v1")), ("/@context".to_owned(), Reason::UnknownContext("v1".to_owned())));
    assert_eq!(with(json!([])), ("/@context".to_owned(), Reason::NoContext));
    assert_eq!(with(json!([null])), ("/@context/0".to_owned(), Reason::NoContext));
    let none = quote_with(|quote| drop(quote.as_object_mut().unwrap().remove("@context")));
    assert_eq!(refused(none), ("/@context".to_owned(), Reason::NoContext));
    // Neither may a part of a document bring its own.
    let inner = quote_with(|quote| quote["destination"]["@context"] = json!({"account": null}));
    assert_eq!(refused(inner), ("/destination/@context".to_owned(), Reason::InlineContext));
}

/// The same statement under another key would be missed by a reader that looks for the term.
#[test]
fn keys_are_terms() {
    for key in [
        "https://gateway.example/vocab#sourceAmount",
        "gw:sourceAmount",
        "_:sourceAmount",
        "@id",
        "@type",
        "@graph",
        "@included",
        "@reverse",
        "@index",
        "@nest",
        "@set",
        "@unknown",
    ] {
        let value = quote_with(|quote| quote[key] = "urn:x:y".into());
        assert_eq!(refused(value), (format!("/{}", key.replace('/', "~1")), Reason::NotATerm), "{key}");
    }
}

#[test]
fn a_node_is_described_in_one_place() {
    let subject = did(&ed25519(7)).to_string();
    let value = json!({
        "@context": [CREDENTIALS_V1],
        "type": ["VerifiableCredential"],
        "issuer": {"id": subject, "type": "VerifiableCredential"},
        "issuanceDate": "2026-01-01T00:00:00Z",
        "credentialSubject": {"id": subject, "type": "VerifiableCredential"},
    });
    let (_, reason) = refused(value.clone());
    assert_eq!(reason, Reason::DescribedTwice(subject.clone()));
    let mut once = value;
    once["issuer"] = subject.into();
    assert!(canonicalize(&document(once), Contexts::bundled()).is_ok());
}

#[test]
fn language_tags_are_in_one_form_and_directions_are_not_dropped() {
    let contexts = Contexts::with([(
        "https://kyc.example/v1",
        r#"{"@context":{"name":"https://kyc.example/#name","value":"@value","lang":"@language","dir":"@direction",
            "deutsch":{"@id":"https://kyc.example/#name","@language":"de-AT"}}}"#,
    )])
    .unwrap();
    let reason = |member: &str, value: Value| {
        let value = json!({"@context": "https://kyc.example/v1", member: value});
        match canonicalize(&document(value), &contexts) {
            Ok(nquads) => Ok(nquads.as_str().to_owned()),
            Err(Error::Refused { reason, .. }) => Err(reason),
            Err(other) => panic!("{other}"),
        }
    };
    let plain = reason("name", json!({"@value": "Zoë", "@language": "fr"}));
    assert_eq!(plain, Ok("_:c14n0 <https://kyc.example/#name> \"Zoë\"@fr .\n".to_owned()));
    assert_eq!(reason("name", json!({"value": "Zoë", "lang": "fr-CA"})), Err(Reason::Language));
    assert_eq!(reason("name", json!({"value": "Zoë", "lang": "français"})), Err(Reason::Language));
    assert_eq!(reason("name", json!({"value": "Zoë", "lang": "fr", "dir": "rtl"})), Err(Reason::Language));
    assert_eq!(reason("name", json!({"value": "Zoë", "dir": "rtl"})), Err(Reason::Language));
    assert_eq!(reason("deutsch", json!("Grüß Gott")), Err(Reason::Language));
}

#[test]
fn entangled_and_overgrown_documents_are_given_up_on() {
    // Blank nodes that name each other: every one a leaf of every other.
    let nodes: Vec<Value> = (0..12)
        .map(|a| {
            let others: Vec<Value> = (0..12).filter(|b| *b != a).map(|b| json!({"id": format!("_:n{b}")})).collect();
            json!({"id": format!("_:n{a}"), "destination": others})
        })
        .collect();
    let tangle = json!({"@context": [GATEWAY_V1], "source": nodes});
    assert_eq!(canonicalize(&document(tangle), Contexts::bundled()), Err(Error::TooComplex));
    let many: Vec<Value> = (0..2_100).map(|index| index.to_string().into()).collect();
    let many = json!({"@context": [GATEWAY_V1], "account": many});
    assert_eq!(canonicalize(&document(many), Contexts::bundled()), Err(Error::TooManyStatements));
}

#[test]
fn the_form_of_a_quote_is_what_it_was() {
    let nquads = canonicalize(&document(quote(&did(&ed25519(7)))), Contexts::bundled()).unwrap();
    assert_eq!(nquads.as_str(), include_str!("quote.nq"));
    let text = quote(&did(&ed25519(7))).to_string();
    let again = canonicalize(&Document::parse(&text).unwrap(), Contexts::bundled()).unwrap();
    assert_eq!(again.sha256(), nquads.sha256());
}
