//! Documents signed by others: published test vectors, and documents made with other libraries.
//!
//! `vectors/README.md` says where each comes from.

use std::{fs, path::Path};

use proofs::{
    canonical::canonicalize,
    contexts::Contexts,
    did::Purpose,
    json::Document,
    key::Key,
    suites::{Error, Secured, Suite},
};
use serde_json::{Value, json};

use crate::support::now;

const EXAMPLES: &str = include_str!("contexts/credentials-examples-v2.jsonld");
const EDDSA_KEY: &str = "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2";

fn contexts() -> Contexts {
    Contexts::with([("https://www.w3.org/ns/credentials/examples/v2", EXAMPLES)]).unwrap()
}

fn read(name: &str) -> Document {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors")).join(name);
    Document::parse(&fs::read_to_string(path).unwrap()).unwrap()
}

fn address(hex: &str) -> Key {
    Key::Address(hex::decode(hex).unwrap().try_into().unwrap())
}

#[test]
fn published_vectors_verify() {
    let multibase = |text: &str| Key::from_multibase(text).unwrap();
    let jwk = serde_json::json!({
        "kty": "EC", "crv": "secp256k1",
        "x": "cmbYyDC6cbm807_OmFNYP4CLEL0aB2F1UG683SxFkXM", "y": "zBw5HAh0cJM4YimSQvtYM1HFhzUXVUgrDhxJ70aajt0",
    });
    let vectors = [
        ("vc-di-eddsa-ed25519signature2020.json", Suite::Ed25519Signature2020, multibase(EDDSA_KEY)),
        ("vc-di-eddsa-eddsa-rdfc-2022.json", Suite::EddsaRdfc2022, multibase(EDDSA_KEY)),
        ("vc-di-eddsa-eddsa-jcs-2022.json", Suite::EddsaJcs2022, multibase(EDDSA_KEY)),
        (
            "vc-di-ecdsa-ecdsa-rdfc-2019-p256.json",
            Suite::EcdsaRdfc2019,
            multibase("zDnaepBuvsQ8cpsWrVKw8fbpGpvPeNSjVPTWoq6cRqaYzBKVP"),
        ),
        (
            "vc-di-ecdsa-ecdsa-rdfc-2019-p384.json",
            Suite::EcdsaRdfc2019,
            multibase("z82LkuBieyGShVBhvtE2zoiD6Kma4tJGFtkAhxR5pfkp5QPw4LutoYWhvQCnGjdVn14kujQ"),
        ),
        (
            "eip712-signature-2021.json",
            Suite::EthereumEip712Signature2021,
            Key::from_jwk(jwk.as_object().unwrap()).unwrap(),
        ),
        (
            "eip712-signature-2021-address.json",
            Suite::EthereumEip712Signature2021,
            address("2fbf1be19d90a29aea9363f4ef0b6bf1c4ff0758"),
        ),
    ];
    let contexts = contexts();
    for (name, suite, key) in vectors {
        let secured = Secured::of(&read(name)).unwrap();
        assert_eq!(secured.proof().suite, suite, "{name}");
        let verified = secured.verify_with_key(&key, &contexts);
        assert!(verified.is_ok(), "{name}: {verified:?}");
    }
}

/// The credential of a published vector, with this `proof`.
fn alumni(proof: Value) -> Document {
    with_proof(&read("vc-di-eddsa-eddsa-rdfc-2022.json"), proof)
}

fn with_proof(document: &Document, proof: Value) -> Document {
    let mut members = document.members().clone();
    members.insert("proof".to_owned(), proof);
    Document::from_members(members).unwrap()
}

/// A `DataIntegrityProof` by the `did:key` of a key.
fn proof(cryptosuite: &str, key: &str, created: &str, value: &str) -> Value {
    json!({
        "type": "DataIntegrityProof",
        "cryptosuite": cryptosuite,
        "created": created,
        "verificationMethod": format!("did:key:{key}#{key}"),
        "proofPurpose": "assertionMethod",
        "proofValue": value,
    })
}

/// Checks everything but the purpose, by the key that the proof itself names.
fn verify(secured: &Secured) -> Result<(), Error> {
    let signer = secured.proof().signer()?.expand().unwrap();
    secured.verify(&signer, Purpose::AssertionMethod, now(), &contexts()).map(drop)
}

#[test]
fn ecdsa_jcs_proofs_of_another_library_verify_on_both_curves() {
    for name in ["ecdsa-jcs-2019-p256.json", "ecdsa-jcs-2019-p384.json"] {
        let signed = read(name);
        let secured = Secured::of(&signed).unwrap();
        assert_eq!(secured.proof().suite, Suite::EcdsaJcs2019);
        assert_eq!(verify(&secured), Ok(()), "{name}");
        let mut altered = signed.members().clone();
        altered.insert("name".to_owned(), "Degree of another".into());
        let altered = Secured::of(&Document::from_members(altered).unwrap()).unwrap();
        assert_eq!(verify(&altered), Err(Error::Signature), "{name}");
    }
}

/// A P-384 proof covers the N-Quads in which SHA-384 told the blank nodes apart; hashed elsewhere are those of SHA-256.
#[test]
fn blank_nodes_are_told_apart_by_the_hash_of_the_curve() {
    let secured = Secured::of(&read("ecdsa-rdfc-2019-p384-blank-nodes.json")).unwrap();
    assert_eq!(verify(&secured), Ok(()));
    let key = secured.proof().signer().unwrap().to_string();
    let key = Key::from_multibase(key.strip_prefix("did:key:").unwrap()).unwrap();
    let verified = secured.verify_with_key(&key, &contexts()).unwrap();
    assert_eq!(verified.nquads, canonicalize(secured.document(), &contexts()).ok());
}

/// A chain of another library's proofs: the third covers the first two, which are a set, and the fourth the third.
fn chain() -> (Document, [Value; 4]) {
    let signed = read("eddsa-rdfc-2022-chain.json");
    let proofs: Vec<Value> = signed.members()["proof"].as_array().unwrap().clone();
    (signed, proofs.try_into().unwrap())
}

#[test]
fn sets_and_chains_of_proofs_of_another_library_verify() {
    let (signed, chain) = chain();
    let verdicts = |proofs: &[Value]| -> Result<Vec<_>, Error> {
        Ok(Secured::all(&with_proof(&signed, proofs.into()))?.iter().map(verify).collect())
    };
    for length in 1..=4 {
        assert_eq!(verdicts(&chain[..length]), Ok(vec![Ok(()); length]), "{length}");
    }
    // The order of the list means nothing.
    let turned: Vec<Value> = chain.iter().rev().cloned().collect();
    assert_eq!(verdicts(&turned), Ok(vec![Ok(()); 4]));
    // What is covered cannot be exchanged, and its absence is noticed.
    let mut altered = chain.clone();
    altered[0]["created"] = "2024-05-01T12:00:01Z".into();
    let broken = Err(Error::Signature);
    assert_eq!(verdicts(&altered), Ok(vec![broken.clone(), Ok(()), broken, Ok(())]));
    let missing = |result: Result<Vec<_>, Error>| matches!(result, Err(Error::Member { member, .. }) if member == "previousProof");
    assert!(missing(verdicts(&chain[1..])));
    let mut own = chain.clone();
    own[2]["previousProof"] = own[2]["id"].clone();
    assert!(missing(verdicts(&own)));
    let mut nothing = chain.clone();
    nothing[3]["previousProof"] = json!([true]);
    assert!(missing(verdicts(&nothing)));
    let mut twice = chain.clone();
    twice[1]["id"] = twice[0]["id"].clone();
    assert!(matches!(verdicts(&twice), Err(Error::Member { member, .. }) if member == "id"));
    let five: Vec<Value> = chain.iter().cloned().chain([proof("eddsa-rdfc-2022", "z6Mk", "", "z")]).collect();
    assert_eq!(verdicts(&five), Err(Error::NoProofs));
    assert_eq!(verdicts(&[]), Err(Error::NoProofs));
}

#[test]
fn a_proof_that_is_derived_for_every_reader_is_refused_by_its_name() {
    let derived = |cryptosuite: &str| {
        proof(cryptosuite, "zDnaepBuvsQ8cpsWrVKw8fbpGpvPeNSjVPTWoq6cRqaYzBKVP", "2024-05-01T12:00:00Z", "uAAAA")
    };
    for name in ["ecdsa-sd-2023", "bbs-2023"] {
        let unknown = Err(Error::UnknownSuite(name.to_owned()));
        assert_eq!(Secured::of(&alumni(derived(name))).map(drop), unknown);
        // Nor does another proof beside it make up for it.
        assert_eq!(Secured::all(&alumni(json!([chain().1[0], derived(name)]))).map(drop), unknown);
        assert_eq!(Error::UnknownSuite(name.to_owned()).to_string(), format!("proof suite `{name}` is not supported"));
    }
}

#[test]
fn documents_of_other_libraries_verify() {
    let jwk = |crv: &str, x: &str, y: &str| {
        let jwk = serde_json::json!({"kty": if y.is_empty() { "OKP" } else { "EC" }, "crv": crv, "x": x, "y": y});
        Key::from_jwk(jwk.as_object().unwrap()).unwrap()
    };
    let base58 = |text: &str| bs58::decode(text).into_vec().unwrap();
    let secp256k1 = k256::ecdsa::VerifyingKey::from_sec1_bytes(&base58("scqMrX2GpZuRZeutK38WLny3vhMnVbDqRDP1kpLG1mkD"));
    let vectors = [
        (
            "ed25519-signature-2018.json",
            Suite::Ed25519Signature2018,
            Key::from_ed25519(&base58("8SFqwqnq4whPhs8icwHA2hQg3hUoN1qrCLK1SBx3WKwe")).unwrap(),
        ),
        (
            "json-web-signature-2020-ed25519.json",
            Suite::JsonWebSignature2020,
            jwk("Ed25519", "TEZgskJtdu5urtHk_4W0H8PK9b222Bz69KoksEfDHkc", ""),
        ),
        (
            "json-web-signature-2020-secp256k1.json",
            Suite::JsonWebSignature2020,
            jwk(
                "secp256k1",
                "dHUaJ4N3tANhd6GMDp-hbkFH2xIyFbKWEdSLpsMAZ-k",
                "0oERDrzecJTFCw3PrH7bn3OJBCzXWGFb60BotmGPUw0",
            ),
        ),
        (
            "json-web-signature-2020-p256.json",
            Suite::JsonWebSignature2020,
            jwk("P-256", "_0hPwdblPHWJetEX1COjYCdDdo0OQzK0H6ImWvAvxR4", "7Obvldav-gSYyQbBdicESwZapXGQWftVTZFeyrxU2Ls"),
        ),
        (
            "json-web-signature-2020-p384.json",
            Suite::JsonWebSignature2020,
            jwk(
                "P-384",
                "-CiR50XBfZ3ek4upyUFQp3-hevFu1vmw49W_s0yfASy_gPu4vpL5kWZjTKf7R4ma",
                "L7Cy7Tqb3UlkIU44uPPLvOeq8T4Xcij26oP4DmI7AeRa_qA8zfHMsUFIzKZxi-Uj",
            ),
        ),
        ("ecdsa-secp256k1-signature-2019.json", Suite::EcdsaSecp256k1Signature2019, Key::Secp256k1(secp256k1.unwrap())),
    ];
    for (name, suite, key) in vectors {
        let secured = Secured::of(&read(name)).unwrap();
        assert_eq!(secured.proof().suite, suite, "{name}");
        let verified = secured.verify_with_key(&key, Contexts::bundled());
        assert!(verified.is_ok(), "{name}: {verified:?}");
    }
}

/// SHA-256 of the canonical document that vc-di-eddsa prints beside its vector.
#[test]
fn the_published_canonical_hash_is_found() {
    let secured = Secured::of(&read("vc-di-eddsa-eddsa-rdfc-2022.json")).unwrap();
    let verified = secured.verify_with_key(&Key::from_multibase(EDDSA_KEY).unwrap(), &contexts()).unwrap();
    let expected = "517744132ae165a5349155bef0bb0cf2258fff99dfe1dbd914b938d775a36017";
    assert_eq!(hex::encode(verified.nquads.unwrap().sha256()), expected);
}
