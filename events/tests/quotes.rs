//! Quotes as others make them: npm `jsonld`, a JSON-LD library that shares no code with the gateway, other kinds of key,
//! and forgers.

mod forgeries;

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Value, json};

use events::{
    Account, ChainId, Did, Family, Hash32, OwnedAsset, PaymentId,
    quote::{self, CONTEXTS_MAX, DOCUMENT_BYTES_MAX, Error, Quote, SignedQuote},
    time::from_unix_seconds,
};
use proofs::{
    canonical::{self, Reason},
    contexts::{BUNDLED, Contexts, GATEWAY_V1},
    did::{self, Purpose, Unauthorised},
    json::{self, Rule},
    key::address_of,
    suites::{self, Options, SigningKey, Suite},
};

const SEED: u8 = 7;
const SUITES_CONTEXT: &str = "https://w3id.org/security/suites/ed25519-2020/v1";

fn ed25519(seed: u8) -> SigningKey {
    SigningKey::Ed25519(ed25519_dalek::SigningKey::from_bytes(&[seed; 32]))
}

fn secp256k1(seed: u8) -> SigningKey {
    SigningKey::Secp256k1(k256::ecdsa::SigningKey::from_slice(&[seed; 32]).unwrap())
}

fn p256(seed: u8) -> SigningKey {
    SigningKey::P256(p256::ecdsa::SigningKey::from_slice(&[seed; 32]).unwrap())
}

fn p384(seed: u8) -> SigningKey {
    SigningKey::P384(p384::ecdsa::SigningKey::from_slice(&[seed; 48]).unwrap())
}

/// Somebody who may offer quotes: a DID, its key, the name of its verification method, and the suite it signs with.
#[derive(Clone)]
struct Settler {
    did: Did,
    method: String,
    key: SigningKey,
    suite: Suite,
}

impl Settler {
    fn by_key(key: SigningKey, suite: Suite) -> Self {
        let did = did::Did::from_key(&key.public()).unwrap();
        let method = did.key_verification_method().unwrap();
        Self { did: did.as_str().parse().unwrap(), method, key, suite }
    }

    fn by_account(account: &str, fragment: &str, key: SigningKey, suite: Suite) -> Self {
        let did: Did = format!("did:pkh:{account}").parse().unwrap();
        Self { method: format!("{did}#{fragment}"), did, key, suite }
    }

    /// Every suite with every kind of DID that signs with it.
    fn all() -> Vec<Self> {
        let evm = match secp256k1(SEED) {
            SigningKey::Secp256k1(key) => hex::encode(address_of(key.verifying_key())),
            _ => unreachable!(),
        };
        let solana = match ed25519(SEED) {
            SigningKey::Ed25519(key) => bs58::encode(key.verifying_key().as_bytes()).into_string(),
            _ => unreachable!(),
        };
        let (evm, solana) = (format!("eip155:1:0x{evm}"), format!("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:{solana}"));
        vec![
            Self::by_key(ed25519(SEED), Suite::EddsaRdfc2022),
            Self::by_key(ed25519(SEED), Suite::EddsaJcs2022),
            Self::by_key(ed25519(SEED), Suite::Ed25519Signature2018),
            Self::by_key(ed25519(SEED), Suite::Ed25519Signature2020),
            Self::by_key(ed25519(SEED), Suite::JsonWebSignature2020),
            Self::by_key(secp256k1(SEED), Suite::JsonWebSignature2020),
            Self::by_key(secp256k1(SEED), Suite::EcdsaSecp256k1Signature2019),
            Self::by_key(secp256k1(SEED), Suite::EcdsaSecp256k1RecoverySignature2020),
            Self::by_key(p256(SEED), Suite::EcdsaRdfc2019),
            Self::by_key(p384(SEED), Suite::EcdsaRdfc2019),
            Self::by_key(p256(SEED), Suite::EcdsaJcs2019),
            Self::by_account(&evm, "blockchainAccountId", secp256k1(SEED), Suite::EcdsaSecp256k1RecoverySignature2020),
            Self::by_account(&solana, "controller", ed25519(SEED), Suite::EddsaRdfc2022),
        ]
    }

    fn options(&self) -> Options {
        Options {
            verification_method: self.method.clone(),
            purpose: Purpose::AssertionMethod,
            created: from_unix_seconds(1_798_804_800).unwrap(),
            expires: None,
        }
    }

    /// The quote signed as it stands, under contexts of the caller's.
    fn sign(&self, document: Value) -> String {
        let document = json::Document::parse(&document.to_string()).unwrap();
        let signed = suites::sign(&document, self.suite, &self.key, &self.options(), Contexts::bundled());
        signed.unwrap().to_string()
    }

    fn quote(&self) -> Quote {
        quote_of(&self.did)
    }
}

fn quote_of(settler: &Did) -> Quote {
    let recipient = "0xdbf03b407c01e7cd3cbea99509d93f8dddc8c6fb";
    let asset = "eip155:10/erc20:0x0b2c639c533813f4aa9d7837caf62653d097ff85";
    Quote {
        kind: Quote::kind(),
        auction_id: PaymentId::derive("a", "b").to_string(),
        terms_hash: Hash32([1; 32]),
        settler: settler.clone(),
        source_chain: ChainId::evm(1),
        source_amount: "25250000".parse().unwrap(),
        payout_account: "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed".parse().unwrap(),
        escrow_contract: "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359".parse().unwrap(),
        destination: OwnedAsset::new(asset.parse().unwrap(), recipient).unwrap(),
        fulfillment_amount: "25000000".parse().unwrap(),
        delivery_account: "0xd1220a0cf47c7b9be7a2e6ba89f429762e7b9adb".parse().unwrap(),
        fulfillment_proxy: "0x52908400098527886e0f7030069857d2e4169ee7".parse().unwrap(),
        fulfill_by: from_unix_seconds(1_798_805_100).unwrap(),
        valid_until: from_unix_seconds(1_798_804_860).unwrap(),
    }
}

fn unsigned(quote: &Quote) -> Value {
    Value::Object(quote.to_document().unwrap().members().clone())
}

/// What `jsonld.mjs` says of each document: its hash, and a proof by Node's own Ed25519.
fn jsonld(documents: &[Value], method: &str) -> Vec<Value> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let modules = workspace.join(".tools/jsonld/node_modules");
    assert!(modules.join("jsonld").is_dir(), "npm `jsonld` is missing; run scripts/tools.sh test");
    let directory = tempfile::tempdir().unwrap();
    let contexts = directory.path().join("contexts.json");
    let texts = BUNDLED.iter().map(|bundled| (bundled.url.to_owned(), serde_json::from_str(bundled.text).unwrap()));
    fs::write(&contexts, Value::Object(texts.collect()).to_string()).unwrap();
    let mut node = Command::new("node")
        .arg(workspace.join("proofs/tests/interop/jsonld.mjs"))
        .env("JSONLD_MODULES", modules)
        .env("CONTEXTS", contexts)
        .env("SEED", hex::encode([SEED; 32]))
        .env("METHOD", method)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = node.stdin.take().unwrap();
    let lines: String = documents.iter().map(|document| format!("{document}\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = node.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The text of a value with its keys in any order, any white space, and characters escaped in any way.
fn scrambled(value: &Value, random: &mut StdRng) -> String {
    let mut space = |text: String| {
        let space = ["", " ", "\n  ", "\t", "\r\n"].choose(random).copied().unwrap_or_default();
        format!("{space}{text}")
    };
    match value {
        Value::Object(members) => {
            let mut members: Vec<(String, &Value)> =
                members.iter().map(|(name, value)| (space(name.clone()), value)).collect();
            members.shuffle(random);
            let members: Vec<String> = members
                .into_iter()
                .map(|(spaced, value)| {
                    let name = spaced.trim_start();
                    let blank = &spaced[..spaced.len() - name.len()];
                    let name = scrambled(&name.into(), random);
                    format!("{blank}{name}{blank}:{blank}{}", scrambled(value, random))
                })
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| scrambled(item, random)).collect();
            format!("[ {}\t]", items.join(" ,"))
        }
        Value::String(text) => {
            let escaped = |c: char| {
                let mut units = [0; 2];
                c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>()
            };
            let characters = text.chars().map(|c| match c {
                '/' if random.gen_bool(0.5) => "\\/".to_owned(),
                '\n' if random.gen_bool(0.5) => "\\n".to_owned(),
                '"' | '\\' if random.gen_bool(0.5) => format!("\\{c}"),
                '"' | '\\' => escaped(c),
                c if c.is_control() || random.gen_bool(0.2) => escaped(c),
                c => c.to_string(),
            });
            format!("\"{}\"", characters.collect::<String>())
        }
        other => other.to_string(),
    }
}

/// A quote with texts that documents trip over.
fn random_quote(settler: &Did, random: &mut StdRng) -> Quote {
    let alphabet: Vec<char> =
        "aZ09 .:/#\"\\'<>{}|^`~\n\r_é\u{80}\u{9f}\u{2028}\u{fffd}\u{feff}漢𝄞\u{1fffe}e\u{301}".chars().collect();
    let mut word = || (0..24).filter_map(|_| alphabet.choose(random)).collect::<String>();
    let mut quote = quote_of(settler);
    quote.auction_id = word();
    let mut account = || Account::from_bytes(Family::Evm, &random.r#gen::<[u8; 20]>()).unwrap();
    quote.payout_account = account();
    quote.escrow_contract = account();
    quote.delivery_account = account();
    quote.fulfillment_proxy = account();
    quote.terms_hash = Hash32(random.r#gen());
    quote.source_amount = random.r#gen::<u128>().max(1).to_string().parse().unwrap();
    quote.fulfillment_amount = random.r#gen::<u64>().max(1).to_string().parse().unwrap();
    quote.valid_until = from_unix_seconds(random.gen_range(1_700_000_000..1_900_000_000)).unwrap();
    quote
}

#[test]
fn two_hundred_quotes_made_with_npm_jsonld_verify_and_hash_alike() {
    let mut random = StdRng::seed_from_u64(2027);
    let settler = Settler::by_key(ed25519(SEED), Suite::EddsaRdfc2022);
    let quotes: Vec<Quote> = (0..200).map(|_| random_quote(&settler.did, &mut random)).collect();
    let mut documents: Vec<Value> = quotes.iter().map(unsigned).collect();
    for document in documents.iter_mut().step_by(3) {
        document["id"] = format!("urn:uuid:{:032x}", random.r#gen::<u128>()).into();
    }
    let answers = jsonld(&documents, &settler.method);
    assert_eq!(answers.len(), 200);
    for ((quote, document), answer) in quotes.iter().zip(documents).zip(answers) {
        assert_eq!(answer.get("error"), None, "{document}");
        let mut signed = document.clone();
        signed["proof"] = answer["proof"].clone();
        let texts = [signed.to_string(), scrambled(&signed, &mut random), scrambled(&signed, &mut random)];
        for text in texts {
            let read = SignedQuote::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(format!("0x{}", answer["hash"].as_str().unwrap()), read.hash().to_string(), "{text}");
            assert_eq!((read.quote(), read.document()), (quote, text.as_str()));
        }
        let own = quote::canonical(&scrambled(&document, &mut random)).unwrap();
        assert_eq!(answer["hash"], hex::encode(own.sha256()));
    }
}

/// The other way round: what our settlers sign is what the other library says it should be. Ed25519 has one signature.
#[test]
fn our_own_quotes_are_those_of_npm_jsonld() {
    let SigningKey::Ed25519(key) = ed25519(SEED) else { unreachable!() };
    let settler = Settler::by_key(ed25519(SEED), Suite::EddsaRdfc2022);
    let signed = settler.quote().sign(&key, "2027-01-01T12:00:00Z".parse().unwrap()).unwrap();
    let answer = &jsonld(&[unsigned(&settler.quote())], &settler.method)[0];
    let document: Value = serde_json::from_str(signed.document()).unwrap();
    assert_eq!(answer["proof"], document["proof"]);
    assert_eq!(format!("0x{}", answer["hash"].as_str().unwrap()), signed.hash().to_string());
}

#[test]
fn settlers_sign_with_any_suite_and_the_hash_is_the_same() {
    for settler in Settler::all() {
        let quote = settler.quote();
        let signed = SignedQuote::parse(&settler.sign(unsigned(&quote))).unwrap();
        assert_eq!(signed.quote(), &quote);
        let hash = Hash32(quote::canonical(&unsigned(&quote).to_string()).unwrap().sha256());
        assert_eq!(signed.hash(), hash, "{}", settler.suite.name());
        // Other contexts after the gateway's change nothing that is said.
        let mut other = unsigned(&quote);
        other["@context"] = json!([GATEWAY_V1, SUITES_CONTEXT]);
        assert_eq!(SignedQuote::parse(&settler.sign(other)).unwrap().hash(), hash, "{}", settler.suite.name());
        // A token for every DID, without characters that mean something in a subject.
        assert!(settler.did.token().as_str().bytes().all(|c| c.is_ascii_alphanumeric()));
    }
}

/// With a suite that signs RFC 8785, what is hashed is still the N-Quads, so the document has to have them.
#[test]
fn a_quote_signed_over_jcs_needs_a_canonical_form_all_the_same() {
    let settler = Settler::by_key(ed25519(SEED), Suite::EddsaJcs2022);
    let mut document = unsigned(&settler.quote());
    document["id"] = "quote-1".into();
    let error = SignedQuote::parse(&settler.sign(document)).unwrap_err();
    assert!(matches!(error, Error::Canonical(canonical::Error::Refused { .. })), "{error:?}");
}
