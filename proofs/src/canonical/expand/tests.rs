//! JSON-LD expansion: plain documents expand the same on the short way and the long one.

use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::json;

use super::*;
use crate::{
    canonical::{NQuads, canonicalize_dataset},
    json::Document,
};

const DID: &str = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";
const TEXTS: [&str; 24] = [
    "",
    "1",
    "GatewayQuote",
    "DataIntegrityProof",
    "assertionMethod",
    "authentication",
    "sourceAmount",
    "proofPurpose",
    "verifiableCredential",
    "id",
    "type",
    "@id",
    "@none",
    "_:b",
    "_:",
    ":x",
    "urn:x:y",
    "gw:settler",
    "xsd:dateTime",
    "https://gateway.example/vocab#GatewayQuote",
    "x:y#assertionMethod",
    "https://a b/",
    "Zo\u{eb} \"quoted\"\n",
    DID,
];

/// Both ways to the statements of a document, canonical; `None` for one that is not plain, or is refused.
fn both(document: &Value) -> (Option<NQuads>, Option<NQuads>) {
    let document = Document::parse(&document.to_string()).unwrap();
    let (members, contexts) = (document.members(), Contexts::bundled());
    if check_object(members, contexts, &mut String::new()).is_err() {
        return (None, None);
    }
    let context = &members["@context"];
    let plain = plain(members, context, &After::new(members, contexts));
    let whole = by_json_ld(members, context, contexts, After::new(members, contexts)).ok();
    let canonical = |quads: Vec<Quad>| canonicalize_dataset(&quads).unwrap();
    (plain.map(canonical), whole.map(canonical))
}

fn quote() -> Value {
    json!({
        "@context": QUOTE, "type": "GatewayQuote", "settler": DID, "sourceChain": "eip155:1", "sourceAmount": "7",
        "destination": {"asset_identifier": "eip155:1/slip44:60", "account": "0x01"},
        "fulfillBy": "2027-01-01T12:05:00Z",
    })
}

fn proof() -> Value {
    json!({
        "@context": QUOTE, "type": "DataIntegrityProof", "cryptosuite": "eddsa-rdfc-2022",
        "created": "2027-01-01T12:00:00Z", "verificationMethod": format!("{DID}#key"),
        "proofPurpose": "assertionMethod",
    })
}

#[test]
fn quotes_and_their_proofs_are_plain() {
    let named = |mut value: Value| {
        value["id"] = "urn:quote:1".into();
        value
    };
    for document in [quote(), proof(), named(quote()), named(proof())] {
        let (plain, whole) = both(&document);
        assert!(plain.is_some(), "{document}");
        assert_eq!(plain, whole, "{document}");
    }
}

/// Whatever is plain says the same by way of `json-ld`; what is refused there is not plain.
#[test]
fn plain_documents_say_the_same_both_ways() {
    let terms = |url: &str| {
        let bundled = crate::contexts::BUNDLED.iter().find(|bundled| bundled.url == url).unwrap();
        let mut keys = Vec::new();
        collect(&serde_json::from_str(bundled.text).unwrap(), &mut keys);
        keys
    };
    fn collect(value: &Value, keys: &mut Vec<String>) {
        for (key, value) in value.as_object().into_iter().flatten() {
            keys.extend((!key.starts_with('@')).then(|| key.clone()));
            collect(value, keys);
        }
    }
    let keys: Vec<String> = QUOTE.into_iter().flat_map(terms).chain(["unknown".to_owned()]).collect();
    let random = &mut StdRng::seed_from_u64(7);
    let (mut plain_ones, mut refused) = (0, 0);
    for _ in 0..3_000 {
        let mut document = if random.gen_bool(0.5) { quote() } else { proof() };
        for _ in 0..random.gen_range(0..4) {
            let key = keys.choose(random).unwrap().as_str();
            let (text, other) = (*TEXTS.choose(random).unwrap(), *TEXTS.choose(random).unwrap());
            let value = match random.gen_range(0..16) {
                0 => json!([text]),
                1 => json!([text, "2"]),
                2 => json!({key: text}),
                3 => json!({"type": text, "account": other}),
                4 => json!({"id": text, "account": {"account": other}}),
                5 => json!({}),
                6 => json!(true),
                _ => json!(text),
            };
            match random.gen_range(0..10) {
                0 => drop(document.as_object_mut().unwrap().remove(key)),
                1 => document["destination"] = json!({"account": "0x02", key: value}),
                _ => document[key] = value,
            }
        }
        let (plain, whole) = both(&document);
        refused += usize::from(whole.is_none());
        if plain.is_some() {
            plain_ones += 1;
            assert_eq!(plain, whole, "{document}");
        }
    }
    assert!(plain_ones > 500 && refused > 500, "{plain_ones} plain, {refused} refused");
}
