//! Documents signed by others: published test vectors, and documents made with other libraries.
//!
//! `vectors/README.md` says where each comes from.

use std::{fs, path::Path};

use proofs::{
    contexts::Contexts,
    json::Document,
    key::Key,
    suites::{Secured, Suite},
};

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
