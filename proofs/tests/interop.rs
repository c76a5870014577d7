//! The same documents through npm `jsonld`, a JSON-LD library that shares no code with this one.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use crate::support::{self, did, ed25519, now, quote};
use proofs::{
    canonical::canonicalize,
    contexts::{BUNDLED, CREDENTIALS_V1, Contexts, GATEWAY_V1, QUOTE},
    did::Purpose,
    json::Document,
    suites::Secured,
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Map, Value, json};

const SEED: u8 = 7;

/// What `jsonld.mjs` says of each document.
fn jsonld(documents: &[Value]) -> Vec<Value> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules = here.join("../.tools/jsonld/node_modules");
    assert!(modules.join("jsonld").is_dir(), "npm `jsonld` is missing; run scripts/tools.sh test");
    let directory = tempfile::tempdir().unwrap();
    let contexts = directory.path().join("contexts.json");
    let texts = BUNDLED.iter().map(|bundled| (bundled.url.to_owned(), serde_json::from_str(bundled.text).unwrap()));
    fs::write(&contexts, Value::Object(texts.collect()).to_string()).unwrap();
    let lines: String = documents.iter().map(|document| format!("{document}\n")).collect();
    let mut node = Command::new("node")
        .arg(here.join("tests/interop/jsonld.mjs"))
        .env("JSONLD_MODULES", modules)
        .env("CONTEXTS", contexts)
        .env("SEED", hex::encode([SEED; 32]))
        .env("METHOD", did(&ed25519(SEED)).key_verification_method().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = node.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = node.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The text of a value with its keys in any order, any white space, and characters escaped in any way.
fn scrambled(value: &Value, random: &mut StdRng) -> String {
    let space = |random: &mut StdRng| ["", "", " ", "\n  ", "\t", "\r\n"].choose(random).copied().unwrap_or_default();
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.shuffle(random);
            let members: Vec<String> = members
                .into_iter()
                .map(|(key, value)| {
                    let key = scrambled(&Value::from(key.as_str()), random);
                    let (before, after) = (space(random), space(random));
                    format!("{before}{key}{after}:{}", scrambled(value, random))
                })
                .collect();
            format!("{{{}{}}}", members.join(","), space(random))
        }
        Value::Array(items) => {
            let items: Vec<String> =
                items.iter().map(|item| format!("{}{}", space(random), scrambled(item, random))).collect();
            format!("[{}{}]", items.join(","), space(random))
        }
        Value::String(text) => {
            let characters = text.chars().map(|c| match c {
                '"' => "\\\"".to_owned(),
                '\\' => "\\\\".to_owned(),
                '\n' if random.gen_bool(0.5) => "\\n".to_owned(),
                '/' if random.gen_bool(0.3) => "\\/".to_owned(),
                c if c.is_control() || random.gen_bool(0.2) => {
                    let mut units = [0; 2];
                    c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
                }
                c => c.to_string(),
            });
            format!("\"{}\"", characters.collect::<String>())
        }
        other => other.to_string(),
    }
}

/// A word out of what documents trip over.
fn word(random: &mut StdRng) -> String {
    let alphabet: Vec<char> =
        "aZ09 .:/#\"\\'<>{}|^`~\n\r_é\u{80}\u{9f}\u{2028}\u{fffd}\u{feff}漢𝄞\u{1fffe}e\u{301}".chars().collect();
    (0..random.gen_range(1..24)).filter_map(|_| alphabet.choose(random)).collect()
}

/// A key in a JSON literal; the rule that keys are terms holds there too.
fn key(random: &mut StdRng) -> String {
    word(random).replace(':', "")
}

fn random_quote(random: &mut StdRng) -> Value {
    let mut value = quote(&did(&ed25519(SEED)));
    for (_, member) in value.as_object_mut().unwrap().iter_mut().filter(|(name, _)| {
        ["auctionId", "sourceChain", "sourceAmount", "payoutAccount", "deliveryAccount"].contains(&name.as_str())
    }) {
        *member = word(random).into();
    }
    value["destination"]["account"] = word(random).into();
    value["fulfillBy"] = format!("2027-01-01T12:{:02}:00Z", random.gen_range(0..60)).into();
    if random.gen_bool(0.3) {
        value["id"] = format!("urn:uuid:{:032x}", random.r#gen::<u128>()).into();
    }
    value
}

/// A request with lists, JSON literals and credentials.
fn random_request(random: &mut StdRng) -> Value {
    let asset = |random: &mut StdRng| json!({"asset_identifier": word(random), "account": word(random)});
    let destinations: Vec<Value> = (0..random.gen_range(1..5)).map(|_| asset(random)).collect();
    let policies: Map<String, Value> = (0..5).map(|_| (key(random), Value::Bool(random.r#gen()))).collect();
    let settlers: Vec<String> = (1..random.gen_range(2..5)).map(|seed| did(&ed25519(seed)).to_string()).collect();
    let credential = json!({
        "@context": [CREDENTIALS_V1],
        "type": ["VerifiableCredential"],
        "issuer": did(&ed25519(2)).as_str(),
        "issuanceDate": "2026-01-01T00:00:00Z",
        "credentialSubject": {"id": did(&ed25519(SEED)).as_str()},
        "proof": {
            "type": "Ed25519Signature2018", "created": "2026-01-01T00:00:00Z", "proofPurpose": "assertionMethod",
            "verificationMethod": did(&ed25519(2)).key_verification_method().unwrap(), "jws": word(random),
        },
    });
    json!({
        "@context": QUOTE,
        "version": "1.0",
        "request_id": word(random),
        "source": asset(random),
        "destination": destinations,
        "fulfillment_amount": word(random),
        "quote_deadline": "2027-01-01T12:00:10Z",
        "settler_auth_required": policies,
        "sender_auth": {
            "message_scheme": "SOLANA",
            "signed_messages": [
                {"message": word(random), "signature": word(random), "payload": {key(random): [word(random), true]}},
                {"message": format!("second {}", word(random)), "signature": word(random)},
            ],
        },
        "settler_requirements": {"whitelist": settlers},
        "verifiableCredential": [credential],
    })
}

#[test]
fn two_hundred_documents_hash_and_verify_alike() {
    let mut random = StdRng::seed_from_u64(2027);
    let mut documents: Vec<Value> = (0..200).map(|_| random_quote(&mut random)).collect();
    documents.extend((0..50).map(|_| random_request(&mut random)));
    let signer = did(&ed25519(SEED)).expand().unwrap();
    for (document, answer) in documents.iter().zip(jsonld(&documents)) {
        assert_eq!(answer.get("error"), None, "{document}");
        let text = scrambled(document, &mut random);
        let parsed = Document::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let nquads = canonicalize(&parsed, Contexts::bundled()).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(answer["hash"], hex::encode(nquads.sha256()), "{text}\n{}", nquads.as_str());
        let mut signed = document.clone();
        signed["proof"] = answer["proof"].clone();
        let signed = Document::parse(&scrambled(&signed, &mut random)).unwrap();
        let secured = Secured::of(&signed).unwrap();
        let verified = secured.verify(&signer, Purpose::AssertionMethod, now(), Contexts::bundled()).unwrap();
        assert_eq!(verified.nquads, Some(nquads));
    }
}

/// What would vanish is refused by both.
#[test]
fn what_jsonld_drops_in_safe_mode_is_refused_too() {
    let with = |pointer: &str, name: &str, value: Value| {
        let mut document = quote(&did(&ed25519(SEED)));
        document.pointer_mut(pointer).unwrap()[name] = value;
        document
    };
    let documents = [
        with("", "discount", "1".into()),
        with("/destination", "memo", "1".into()),
        with("", "settler", "relative".into()),
        with("", "type", "Unknown".into()),
        with("", "id", "quote-1".into()),
        with("", "@context", json!([GATEWAY_V1, "https://nowhere.example/v1"])),
    ];
    for (document, answer) in documents.iter().zip(jsonld(&documents)) {
        assert!(answer["error"].is_string(), "{document}");
        assert!(canonicalize(&support::document(document.clone()), Contexts::bundled()).is_err(), "{document}");
    }
}
