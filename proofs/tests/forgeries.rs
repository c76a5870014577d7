//! Altered and forged proofs, each refused for its own reason.

use crate::support::{did, document, ed25519, now, options, p256, p384, quote, secp256k1, signed};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::TimeDelta;
use proofs::{
    canonical::{self, Reason},
    contexts::Contexts,
    did::{Did, Purpose, Unauthorised},
    json::Document,
    suites::{Error, Secured, SigningKey, Suite, sign},
};
use serde_json::{Value, json};

const SUITES: [Suite; 9] = [
    Suite::Ed25519Signature2018,
    Suite::EcdsaSecp256k1Signature2019,
    Suite::EcdsaSecp256k1RecoverySignature2020,
    Suite::JsonWebSignature2020,
    Suite::Ed25519Signature2020,
    Suite::EddsaRdfc2022,
    Suite::EddsaJcs2022,
    Suite::EcdsaRdfc2019,
    Suite::EcdsaJcs2019,
];

fn key(suite: Suite, seed: u8) -> SigningKey {
    match suite {
        Suite::EcdsaSecp256k1Signature2019 | Suite::EcdsaSecp256k1RecoverySignature2020 => secp256k1(seed),
        Suite::EcdsaRdfc2019 => p256(seed),
        Suite::EcdsaJcs2019 => p384(seed),
        _ => ed25519(seed),
    }
}

fn verify(document: &Document, signer: &Did) -> Result<(), Error> {
    let secured = Secured::of(document)?;
    let signer = signer.expand().unwrap();
    secured.verify(&signer, Purpose::AssertionMethod, now(), Contexts::bundled()).map(drop)
}

/// A signed quote with something in its text changed.
struct Forge {
    signer: Did,
    value: Value,
    refused: usize,
}

impl Forge {
    fn of(suite: Suite) -> Self {
        let key = key(suite, 7);
        let signer = did(&key);
        let document = signed(quote(&signer), suite, &key, Purpose::AssertionMethod);
        assert_eq!(verify(&document, &signer), Ok(()), "{}", suite.name());
        Self { signer, value: Value::Object(document.members().clone()), refused: 0 }
    }

    #[track_caller]
    fn refuses(&mut self, change: impl FnOnce(&mut Value), expected: impl FnOnce(&Error) -> bool) {
        let mut forged = self.value.clone();
        change(&mut forged);
        assert_ne!(forged, self.value);
        let error = verify(&document(forged), &self.signer).unwrap_err();
        assert!(expected(&error), "{error:?}");
        self.refused += 1;
    }
}

#[test]
fn a_hundred_altered_proofs_are_refused_each_for_its_reason() {
    let mut refused = 0;
    for suite in SUITES {
        let mut forge = Forge::of(suite);
        let carrier = suite.carrier();
        let other = if carrier == "jws" { "proofValue" } else { "jws" };

        // What was signed.
        for (member, value) in [
            ("sourceAmount", "25250001"),
            ("settler", "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"),
            ("fulfillBy", "2027-01-01T13:05:00Z"),
        ] {
            forge.refuses(|quote| quote[member] = value.into(), |error| *error == Error::Signature);
        }
        forge.refuses(
            |quote| drop(quote.as_object_mut().unwrap().remove("validUntil")),
            |error| *error == Error::Signature,
        );
        forge.refuses(|quote| quote["destination"]["account"] = "0x00".into(), |error| *error == Error::Signature);
        forge.refuses(
            |quote| quote["proof"]["created"] = "2027-01-01T12:00:01Z".into(),
            |error| *error == Error::Signature,
        );

        // Who signed, for what, and when.
        let stranger = did(&key(suite, 8));
        forge.refuses(
            |quote| quote["proof"]["verificationMethod"] = stranger.key_verification_method().unwrap().into(),
            |error| matches!(error, Error::Unauthorised(Unauthorised::Foreign { .. })),
        );
        let unknown = format!("{}#other", forge.signer);
        forge.refuses(
            |quote| quote["proof"]["verificationMethod"] = unknown.into(),
            |error| matches!(error, Error::Unauthorised(Unauthorised::Unknown(_))),
        );
        forge.refuses(
            |quote| quote["proof"]["proofPurpose"] = "authentication".into(),
            |error| matches!(error, Error::Purpose { .. }),
        );
        forge.refuses(
            |quote| quote["proof"]["created"] = "2027-01-01T12:06:00Z".into(),
            |error| *error == Error::NotYetCreated,
        );
        forge.refuses(
            |quote| quote["proof"]["expires"] = "2027-01-01T12:00:00Z".into(),
            |error| matches!(error, Error::Member { member, .. } if member == "expires"),
        );

        // How the proof is written.
        forge.refuses(
            |quote| {
                let proof = quote["proof"].as_object_mut().unwrap();
                let value = proof.remove(carrier).unwrap();
                proof.insert(other.to_owned(), value);
            },
            |error| *error == Error::WrongCarrier { suite },
        );
        forge.refuses(|quote| quote["proof"][other] = "z".into(), |error| *error == Error::WrongCarrier { suite });
        forge.refuses(
            |quote| quote["proof"]["previousProof"] = "urn:x".into(),
            |error| matches!(error, Error::Member { member, .. } if member == "previousProof"),
        );
        forge.refuses(
            |quote| quote["proof"] = json!([quote["proof"], quote["proof"]]),
            |error| *error == Error::NotOneProof,
        );
        forge.refuses(
            |quote| drop(quote.as_object_mut().unwrap().remove("proof")),
            |error| *error == Error::NotOneProof,
        );
        forge.refuses(
            |quote| quote["proof"]["@context"] = json!(["https://w3id.org/security/v2"]),
            |error| matches!(error, Error::Context),
        );
        if suite.name().contains("-20") {
            forge.refuses(
                |quote| quote["proof"]["cryptosuite"] = "bbs-2023".into(),
                |error| *error == Error::UnknownSuite("bbs-2023".to_owned()),
            );
        } else {
            forge.refuses(
                |quote| quote["proof"]["type"] = "RsaSignature2018".into(),
                |error| *error == Error::UnknownSuite("RsaSignature2018".to_owned()),
            );
        }

        // What would not be hashed at all.
        if !matches!(suite, Suite::EddsaJcs2022 | Suite::EcdsaJcs2019) {
            forge.refuses(
                |quote| quote["discount"] = "1".into(),
                |error| {
                    *error
                        == Error::Canonical(canonical::Error::Refused {
                            pointer: "/discount".to_owned(),
                            reason: Reason::UnmappedTerm("discount".to_owned()),
                        })
                },
            );
        }
        refused += forge.refused;
    }
    assert!(refused >= 100, "{refused}");
}

#[test]
fn signatures_themselves_are_taken_exactly() {
    // The upper half of s.
    for suite in [Suite::EcdsaSecp256k1Signature2019, Suite::EcdsaSecp256k1RecoverySignature2020] {
        let mut forge = Forge::of(suite);
        forge.refuses(
            |quote| {
                let jws = quote["proof"]["jws"].as_str().unwrap().to_owned();
                let (header, signature) = jws.split_once("..").unwrap();
                let mut bytes = URL_SAFE_NO_PAD.decode(signature).unwrap();
                let low = k256::ecdsa::Signature::from_slice(&bytes[..64]).unwrap();
                let high = k256::ecdsa::Signature::from_scalars(low.r(), -*low.s()).unwrap();
                bytes[..64].copy_from_slice(&high.to_bytes());
                if let Some(v) = bytes.get_mut(64) {
                    *v ^= 1;
                }
                quote["proof"]["jws"] = format!("{header}..{}", URL_SAFE_NO_PAD.encode(bytes)).into();
            },
            |error| *error == Error::HighS,
        );
    }
    // Headers of a JWS.
    let mut forge = Forge::of(Suite::JsonWebSignature2020);
    for header in [
        r#"{"alg":"none","b64":false,"crit":["b64"]}"#,
        r#"{"alg":"ES256K","b64":false,"crit":["b64"]}"#,
        r#"{"alg":"EdDSA","b64":true,"crit":["b64"]}"#,
        r#"{"alg":"EdDSA","b64":false}"#,
        r#"{"alg":"EdDSA","b64":false,"crit":["b64","exp"]}"#,
        r#"{"alg":"EdDSA","b64":false,"crit":["b64"],"kid":"x"}"#,
        r#"{"alg":"EdDSA","alg":"EdDSA","b64":false,"crit":["b64"]}"#,
    ] {
        forge.refuses(
            |quote| {
                let jws = quote["proof"]["jws"].as_str().unwrap().to_owned();
                let (_, signature) = jws.split_once("..").unwrap();
                quote["proof"]["jws"] = format!("{}..{signature}", URL_SAFE_NO_PAD.encode(header)).into();
            },
            |error| *error == Error::JwsHeader { alg: "EdDSA" },
        );
    }
    // A payload inside, other alphabets, padding, pieces.
    for (from, to) in [("..", ".e30."), ("..", "."), ("..", "..="), ("..", "...")] {
        forge.refuses(
            |quote| quote["proof"]["jws"] = quote["proof"]["jws"].as_str().unwrap().replace(from, to).into(),
            |error| matches!(error, Error::Member { member, .. } if member == "jws"),
        );
    }
    for suite in [Suite::EddsaRdfc2022, Suite::EcdsaRdfc2019] {
        let mut forge = Forge::of(suite);
        for value in ["", "z", "u1234", "z0OIl", &format!("z{}", "2".repeat(200))] {
            forge.refuses(
                |quote| quote["proof"]["proofValue"] = value.into(),
                |error| {
                    matches!(error, Error::Member { member, .. } if member == "proofValue")
                        || *error == Error::Signature
                },
            );
        }
    }
}

#[test]
fn a_key_of_another_kind_signs_nothing() {
    let key = ed25519(7);
    let signer = did(&key);
    for (from, to) in [("eddsa-rdfc-2022", "ecdsa-rdfc-2019"), ("eddsa-rdfc-2022", "eddsa-jcs-2022")] {
        let document = signed(quote(&signer), Suite::EddsaRdfc2022, &key, Purpose::AssertionMethod);
        let forged = Document::parse(&document.to_string().replace(from, to)).unwrap();
        let error = verify(&forged, &signer).unwrap_err();
        assert!(matches!(error, Error::KeyKind { suite: Suite::EcdsaRdfc2019 } | Error::Signature), "{error:?}");
    }
    for suite in SUITES {
        let wrong = if matches!(key_kind(suite), "ed25519") { p256(1) } else { ed25519(1) };
        if suite == Suite::JsonWebSignature2020 {
            continue;
        }
        let unsigned = document(quote(&did(&wrong)));
        let result = sign(&unsigned, suite, &wrong, &options(&wrong, Purpose::AssertionMethod), Contexts::bundled());
        assert_eq!(result, Err(Error::KeyKind { suite }));
    }
}

fn key_kind(suite: Suite) -> &'static str {
    match key(suite, 1) {
        SigningKey::Ed25519(_) => "ed25519",
        SigningKey::Secp256k1(_) => "secp256k1",
        SigningKey::P256(_) => "p256",
        SigningKey::P384(_) => "p384",
    }
}

#[test]
fn proofs_end_when_they_say() {
    let key = ed25519(7);
    let expires = now() + TimeDelta::seconds(60);
    let options = proofs::suites::Options { expires: Some(expires), ..options(&key, Purpose::AssertionMethod) };
    let document = document(quote(&did(&key)));
    let document = sign(&document, Suite::EddsaRdfc2022, &key, &options, Contexts::bundled()).unwrap();
    let secured = Secured::of(&document).unwrap();
    let signer = did(&key).expand().unwrap();
    let at = |time| secured.verify(&signer, Purpose::AssertionMethod, time, Contexts::bundled()).map(drop);
    assert_eq!(at(expires - TimeDelta::seconds(1)), Ok(()));
    assert_eq!(at(expires), Err(Error::Expired));
    assert_eq!(at(now() - TimeDelta::seconds(300)), Ok(()));
    assert_eq!(at(now() - TimeDelta::seconds(301)), Err(Error::NotYetCreated));
}

/// The published EIP-712 vector, with members that its types do not name, or name as something else.
#[test]
fn typed_data_covers_the_whole_document() {
    let text = include_str!("vectors/eip712-signature-2021-address.json");
    let key =
        proofs::key::Key::Address(hex::decode("2fbf1be19d90a29aea9363f4ef0b6bf1c4ff0758").unwrap().try_into().unwrap());
    let verify = |change: &dyn Fn(&mut Value)| {
        let mut value: Value = serde_json::from_str(text).unwrap();
        change(&mut value);
        Secured::of(&document(value))?.verify_with_key(&key, Contexts::bundled()).map(drop)
    };
    assert_eq!(verify(&|_| ()), Ok(()));
    for change in [
        (|vc| vc["expirationDate"] = "2040-01-01T00:00:00Z".into()) as fn(&mut Value),
        |vc| vc["credentialSubject"]["level"] = "gold".into(),
        |vc| vc["issuer"] = json!({"id": "did:example:a"}),
        |vc| vc["type"] = "VerifiableCredential".into(),
        |vc| vc["proof"]["nonce"] = "1".into(),
        |vc| vc["proof"]["eip712Domain"]["domain"]["version"] = "1".into(),
        |vc| drop(vc["proof"]["eip712Domain"]["messageSchema"]["Proof"].as_array_mut().unwrap().pop()),
        |vc| drop(vc["proof"].as_object_mut().unwrap().remove("eip712Domain")),
        |vc| vc["proof"]["eip712"] = vc["proof"]["eip712Domain"].clone(),
        |vc| vc["proof"]["eip712Domain"]["messageSchema"] = "https://schemas.example/v1".into(),
        |vc| vc["proof"]["eip712Domain"]["primaryType"] = "string".into(),
    ] {
        let error = verify(&change).unwrap_err();
        assert!(matches!(error, Error::TypedData(_)), "{error:?}");
    }
    for change in [
        (|vc| vc["issuanceDate"] = "2020-03-18T16:38:25Z".into()) as fn(&mut Value),
        |vc| vc["proof"]["eip712Domain"]["domain"]["name"] = "Other".into(),
        |vc| vc["proof"]["created"] = "2021-06-17T17:16:39.792Z".into(),
    ] {
        assert_eq!(verify(&change), Err(Error::Signature));
    }
}
