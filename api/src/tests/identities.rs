//! Identities of callers: envelopes, deprecated carriers, credentials, and what becomes of the originator.

mod policies;

use std::collections::BTreeMap;

use alloy_dyn_abi::TypedData;
use k256::ecdsa::SigningKey as Secp256k1;

use devkit::holder::Holder;
use events::{Did, identity::Carrier};
use proofs::{
    contexts::{DATA_INTEGRITY_V2, GATEWAY_V1},
    suites::{SigningKey, Suite},
};

use super::{
    quote_requests::{award_body, open_batch, open_batch_of, quote_request},
    *,
};

const NOW: &str = "2030-01-01T00:00:00Z";
const BATCHES: &str = "/v1/payments/quote-requests";

pub(super) fn holder(seed: u8) -> Holder {
    Holder::ed25519(seed).unwrap()
}

fn secp256k1(seed: u8) -> Secp256k1 {
    Secp256k1::from_slice(&[seed; 32]).unwrap()
}

/// The account of a secp256k1 key.
fn account(seed: u8) -> String {
    let address = alloy::signers::local::PrivateKeySigner::from(secp256k1(seed)).address();
    address.to_string().to_ascii_lowercase()
}

pub(super) fn enveloped(holder: &Holder, body: &Value) -> Value {
    holder.envelope(body, Suite::EddsaRdfc2022, &[], at(NOW)).unwrap()
}

fn kyc(issuer: &Holder, subject: &Holder) -> Value {
    issuer.credential(subject.did().as_str(), "KycCredential", &claims("LI"), at(NOW)).unwrap()
}

/// What the credentials of these tests say: that somebody is known, and lives in Switzerland and elsewhere.
fn claims(elsewhere: &str) -> Value {
    json!({"known": true, "address": {"country": ["CH", elsewhere]}})
}

fn id_of(originator: &str, request_id: &str) -> Value {
    json!(PaymentId::derive(originator, request_id))
}

/// `body` signed as typed data by a wallet: types are made for whatever is in it.
fn eip712(body: &Value, seed: u8) -> Value {
    fn type_of(value: &Value, types: &mut BTreeMap<String, Value>) -> String {
        match value {
            Value::Object(members) => {
                let fields: Vec<Value> =
                    members.iter().map(|(name, value)| json!({"name": name, "type": type_of(value, types)})).collect();
                let name = format!("Type{}", types.len());
                types.insert(name.clone(), fields.into());
                name
            }
            Value::Array(items) => format!("{}[]", type_of(&items[0], types)),
            Value::Bool(_) => "bool".to_owned(),
            _ => "string".to_owned(),
        }
    }
    let did = format!("did:pkh:eip155:1:{}", account(seed));
    let mut body = body.clone();
    set(&mut body, "/@context", json!([GATEWAY_V1, "https://w3id.org/security/suites/eip712sig-2021/v1"]));
    body["proof"] = json!({
        "type": "EthereumEip712Signature2021",
        "created": NOW,
        "verificationMethod": format!("{did}#blockchainAccountId"),
        "proofPurpose": "authentication",
    });
    let mut types = BTreeMap::new();
    let primary_type = type_of(&body, &mut types);
    types.insert("EIP712Domain".to_owned(), json!([{"name": "name", "type": "string"}]));
    let domain = json!({"name": "Gateway"});
    let data = json!({"types": types, "domain": domain, "primaryType": primary_type, "message": body});
    let digest = serde_json::from_value::<TypedData>(data).unwrap().eip712_signing_hash().unwrap();
    let (signature, recovery) = secp256k1(seed).sign_prehash_recoverable(digest.as_slice()).unwrap();
    let signature = [&signature.to_bytes()[..], &[27 + recovery.to_byte()]].concat();
    body["proof"]["eip712"] = json!({"types": types, "domain": domain, "primaryType": primary_type});
    body["proof"]["proofValue"] = json!(format!("0x{}", hex::encode(signature)));
    body
}

#[tokio::test]
async fn the_holder_of_an_envelope_is_the_originator_with_every_suite() {
    let gateway = Gateway::new();
    let ed25519 = SigningKey::Ed25519(ed25519_dalek::SigningKey::from_bytes(&[1; 32]));
    let (k1, p256) = (SigningKey::Secp256k1(secp256k1(2)), p256::ecdsa::SigningKey::from_slice(&[3; 32]).unwrap());
    let of_key = |key: &SigningKey| Holder::of_key(key.clone()).unwrap();
    let of_account = format!("did:pkh:eip155:1:{}#blockchainAccountId", account(2));
    let pkh = Holder::with_method(k1.clone(), &of_account).unwrap();
    let signers = [
        (of_key(&ed25519), Suite::EddsaRdfc2022),
        (of_key(&ed25519), Suite::EddsaJcs2022),
        (of_key(&ed25519), Suite::Ed25519Signature2020),
        (of_key(&ed25519), Suite::Ed25519Signature2018),
        (of_key(&ed25519), Suite::JsonWebSignature2020),
        (of_key(&k1), Suite::EcdsaSecp256k1Signature2019),
        (of_key(&k1), Suite::EcdsaSecp256k1RecoverySignature2020),
        (of_key(&k1), Suite::JsonWebSignature2020),
        (pkh, Suite::EcdsaSecp256k1RecoverySignature2020),
        (of_key(&SigningKey::P256(p256.clone())), Suite::EcdsaRdfc2019),
        (of_key(&SigningKey::P256(p256)), Suite::EcdsaJcs2019),
    ];
    for (index, (holder, suite)) in signers.iter().enumerate() {
        let request_id = format!("order-{index}");
        let plain = with("/request_id", json!(request_id));
        let body = holder.envelope(&plain, *suite, &[], at(NOW)).unwrap();
        let answer = gateway.post(&body).await.expect(200);
        assert_eq!(answer.body["payment_id"], id_of(holder.did().as_str(), &request_id), "{suite:?}");
        let submitted = gateway.submitted(answer.body["payment_id"].as_str().unwrap()).await;
        assert_eq!(submitted.originator, holder.did().as_str());
        let identity = &submitted.identities[0];
        assert_eq!((identity.carrier, identity.did.as_str()), (Carrier::Envelope, holder.did().as_str()));
        assert_eq!(gateway.post(&body).await.expect(200).body["idempotent_replay"], true);

        // Under its own key another body is told to be another; under a new one, that its proof does not hold.
        let mut forged = body.clone();
        set(&mut forged, "/fulfillment_amount", json!("1000001"));
        gateway.post(&forged).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
        set(&mut forged, "/request_id", json!(format!("forged-{index}")));
        let answer = gateway.post(&forged).await.expect_error(401, "INVALID_PROOF");
        assert_eq!(answer.message(), "proof: request's proof: signature does not verify", "{suite:?}");
    }
    let wallet = eip712(&body(), 5);
    let did = format!("did:pkh:eip155:1:{}", account(5));
    let answer = gateway.post(&wallet).await.expect(200);
    assert_eq!(answer.body["payment_id"], id_of(&did, "order-1"));
    let mut forged = wallet.clone();
    set(&mut forged, "/request_id", json!("forged"));
    gateway.post(&forged).await.expect_error(401, "INVALID_PROOF");
    // The same payment without an envelope is another one, of the account.
    let plain = gateway.post(&body()).await.expect(200);
    assert_eq!(plain.body["payment_id"], id_of(&format!("eip155:{PAYER}"), "order-1"));
    assert!(gateway.submitted(plain.body["payment_id"].as_str().unwrap()).await.identities.is_empty());
}

#[tokio::test]
async fn a_proof_that_does_not_hold_is_refused_with_the_reason() {
    let gateway = Gateway::new();
    let (alice, mallory) = (holder(1), holder(2));
    let good = enveloped(&alice, &body());
    type Spoil = Box<dyn Fn(&mut Value)>;
    let replace =
        |pointer: &'static str, value: Value| -> Spoil { Box::new(move |body| set(body, pointer, value.clone())) };
    let others: [(Spoil, &str); 16] = [
        (replace("/source/account", json!(RECIPIENT)), "signature does not verify"),
        (replace("/quote_deadline", json!("2030-01-01T00:02:00Z")), "signature does not verify"),
        (replace("/quote_selector", json!("")), "signature does not verify"),
        (replace("/remark", json!("unsigned")), "/remark"),
        (replace("/sender_auth/signed_messages/0/payload", json!({"n": 1})), "is a number outside a string"),
        (replace("/proof", json!({})), "proof member `type` is missing"),
        (replace("/proof", json!([])), "there is no proof, or more than 4"),
        (replace("/proof", json!(vec![good["proof"].clone(); 5])), "there is no proof, or more than 4"),
        (replace("/proof/type", json!("Unheard2030")), "is not of this suite"),
        (replace("/proof/cryptosuite", json!("bbs-2023")), "proof suite `bbs-2023` is not supported"),
        (replace("/proof/proofPurpose", json!("assertionMethod")), "proof is for `assertionMethod`"),
        (replace("/proof/created", json!("2031-01-01T00:00:00Z")), "created in the future"),
        (replace("/proof/expires", json!("2029-12-31T23:59:59Z")), "is not after `created`"),
        (replace("/proof/jws", json!("a..b")), "carries its signature in `proofValue` and nowhere else"),
        (replace("/@context", json!([DATA_INTEGRITY_V2])), "request's first @context is not"),
        (
            replace("/proof/verificationMethod", json!("did:web:bank.example#key-1")),
            "`did:web:bank.example` is not on a configured origin",
        ),
    ];
    for (spoil, reason) in &others {
        let mut body = good.clone();
        spoil(&mut body);
        let answer = gateway.post(&body).await.expect_error(401, "INVALID_PROOF");
        assert!(answer.message().starts_with("proof: ") && answer.message().contains(reason), "{reason}: {answer:?}");
        // Where the proof does not say whose the request is, there is nothing to look for.
        let proof = &body["proof"];
        let says = proof.get("verificationMethod").is_some() || proof.get(0).is_some();
        assert_eq!(answer.body.get("request_id_reusable"), says.then(|| json!(true)).as_ref(), "{reason}");
    }
    // Mallory's key under Alice's name.
    let mut stolen = enveloped(&mallory, &body());
    let method = good["proof"]["verificationMethod"].clone();
    set(&mut stolen, "/proof/verificationMethod", method);
    gateway.post(&stolen).await.expect_error(401, "INVALID_PROOF");
    // A proof for another service, and one for this one, by its address and by its name.
    for (domain, status) in [("https://other.example", 401), ("https://pay.example", 200), ("pay.example", 200)] {
        let mut options = good.clone();
        options["proof"]["domain"] = json!(domain);
        let answer = gateway.post(&resigned(&alice, &options)).await;
        assert_eq!(answer.status.as_u16(), status, "{domain}: {answer:?}");
    }
    // Credentials without a holder's proof are nobody's.
    let mut unsigned = body();
    set(&mut unsigned, "/verifiableCredential", json!([kyc(&mallory, &alice)]));
    let answer = gateway.post(&unsigned).await.expect_error(401, "INVALID_PROOF");
    assert!(answer.message().contains("@context"), "{answer:?}");
}

#[tokio::test]
async fn several_proofs_are_of_one_did_and_each_holds() {
    let gateway = Gateway::new();
    let (alice, mallory) = (holder(1), holder(2));
    let good = enveloped(&alice, &body());
    let jcs = alice.envelope(&body(), Suite::EddsaJcs2022, &[], at(NOW)).unwrap();
    let with_proofs = |other: &Value| {
        let mut body = good.clone();
        set(&mut body, "/proof", json!([good["proof"], other]));
        body
    };
    let mixed = gateway.post(&with_proofs(&enveloped(&mallory, &body())["proof"])).await;
    assert!(mixed.expect_error(401, "INVALID_PROOF").message().contains("proofs are of several DIDs"));
    let mut forged = jcs["proof"].clone();
    forged["created"] = json!("2029-12-31T23:59:59Z");
    let forged = gateway.post(&with_proofs(&forged)).await;
    assert!(forged.expect_error(401, "INVALID_PROOF").message().contains("signature does not verify"));
    let both = gateway.post(&with_proofs(&jcs["proof"])).await.expect(200);
    assert_eq!(both.body["payment_id"], id_of(alice.did().as_str(), "order-1"));
}

/// The same body and proof options, signed by eddsa-jcs-2022 over what is in them.
fn resigned(holder: &Holder, body: &Value) -> Value {
    use ed25519_dalek::Signer;
    use sha2::{Digest, Sha256};

    let key = ed25519_dalek::SigningKey::from_bytes(&[1; 32]);
    assert_eq!(Holder::of_key(SigningKey::Ed25519(key.clone())).unwrap().did(), holder.did());
    let mut document = body.as_object().unwrap().clone();
    let mut proof = document.remove("proof").unwrap();
    proof["cryptosuite"] = json!("eddsa-jcs-2022");
    proof.as_object_mut().unwrap().remove("proofValue");
    let hash = |value: &Value| Sha256::digest(serde_json_canonicalizer::to_vec(value).unwrap());
    let signed = [hash(&proof), hash(&Value::Object(document.clone()))].concat();
    let signature = bs58::encode(key.sign(&signed).to_bytes()).into_string();
    proof["proofValue"] = json!(format!("z{signature}"));
    document.insert("proof".to_owned(), proof);
    document.into()
}

#[tokio::test]
async fn one_originator_has_one_key_space_whatever_account_it_names() {
    let gateway = Gateway::new();
    let alice = holder(1);
    let first = gateway.post(&enveloped(&alice, &body())).await.expect(200);
    let other_account = with("/source/account", json!(RECIPIENT));
    gateway.post(&enveloped(&alice, &other_account)).await.expect_error(409, "REQUEST_ID_TAKEN");
    let other_terms = with("/fulfillment_amount", json!("1000001"));
    gateway.post(&enveloped(&alice, &other_terms)).await.expect_error(409, "IDEMPOTENCY_TERMS_MISMATCH");
    // Another holder, and the account by itself, have their own.
    for body in [enveloped(&holder(2), &other_account), other_account.clone()] {
        assert_eq!(gateway.post(&body).await.expect(200).body["idempotent_replay"], false);
    }
    let batch = gateway.post_to(BATCHES, &enveloped(&alice, &quote_request())).await.expect(200);
    let mut other = quote_request();
    set(&mut other, "/source/account", json!(RECIPIENT));
    gateway.post_to(BATCHES, &enveloped(&alice, &other)).await.expect_error(409, "REQUEST_ID_TAKEN");
    let again = gateway.post_to(BATCHES, &enveloped(&alice, &quote_request())).await.expect(200);
    assert_eq!(again.body["quote_request_id"], batch.body["quote_request_id"]);

    let by = |originator: &str| format!("/v1/payments/resolve?request_id=order-1&originator={originator}");
    let found = gateway.get(&by(alice.did().as_str())).await.expect(200);
    assert_eq!(found.body["payment_id"], first.body["payment_id"]);
    gateway.get(&by(holder(9).did().as_str())).await.expect_error(404, "PAYMENT_NOT_FOUND");
}

#[tokio::test]
async fn an_account_s_did_is_one_originator_in_whatever_letters() {
    let gateway = Gateway::new();
    let answer = gateway.post(&eip712(&body(), 5)).await.expect(200);
    let mixed = account(5).parse::<alloy::primitives::Address>().unwrap().to_checksum(None);
    let path = format!("/v1/payments/resolve?request_id=order-1&originator=did:pkh:eip155:1:{mixed}");
    assert_eq!(gateway.get(&path).await.expect(200).body["payment_id"], answer.body["payment_id"]);
}

#[tokio::test]
async fn deprecated_carriers_prove_who_signed_this_request() {
    let gateway = Gateway::new();
    let (alice, bank) = (holder(1), holder(9));
    let credential = kyc(&bank, &alice);
    let mut body = body();
    let auth = alice.carrier(Carrier::OriginatorAuth, &body, &credential).unwrap();
    set(&mut body, "/originator_auth", auth.clone());
    let answer = gateway.post(&body).await.expect(200);
    assert!(answer.headers.contains_key("deprecation"));
    assert_eq!(answer.body["payment_id"], id_of(alice.did().as_str(), "order-1"));
    let submitted = gateway.submitted(answer.body["payment_id"].as_str().unwrap()).await;
    assert_eq!(submitted.identities[0].carrier, Carrier::OriginatorAuth);
    assert_eq!(submitted.identities[0].credentials[0].issuer.as_str(), bank.did().as_str());
    // It is not covered by itself, and does not cover what authorizes the spend.
    let mut spent_otherwise = body.clone();
    set(&mut spent_otherwise, "/sender_auth/signed_messages/0/signature", json!("0x33"));
    assert_eq!(gateway.post(&spent_otherwise).await.expect(200).body["idempotent_replay"], true);

    // Moved to another request, to the other carrier, or to another key.
    let mut moved = body.clone();
    set(&mut moved, "/request_id", json!("order-2"));
    let answer = gateway.post(&moved).await.expect_error(401, "INVALID_PROOF");
    assert_eq!(answer.message(), "originator_auth.signature: signature does not verify");
    let mut swapped = with("/request_id", json!("order-1"));
    set(&mut swapped, "/sender_auth/verifiable_credential", auth.clone());
    let answer = gateway.post(&swapped).await.expect_error(401, "INVALID_PROOF");
    assert_eq!(answer.message(), "sender_auth.verifiable_credential.signature: signature does not verify");
    let method = holder(2).did().key_verification_method().unwrap();
    for (method, reason) in [
        (method.as_str(), "signature does not verify"),
        ("did:key:zNone#zNone", "is not an Ed25519, secp256k1, P-256 or P-384 public key"),
        ("nobody", "is not a DID URL with a fragment"),
    ] {
        let mut other = body.clone();
        set(&mut other, "/originator_auth/verification_method_id", json!(method));
        let answer = gateway.post(&other).await.expect_error(401, "INVALID_PROOF");
        assert!(answer.message().starts_with("originator_auth.") && answer.message().contains(reason), "{answer:?}");
    }

    // The sender's credential makes nobody the originator, and an envelope does not cover it.
    let plain = with("/request_id", json!("order-2"));
    let auth = alice.carrier(Carrier::SenderAuth, &plain, &credential).unwrap();
    let mut carried = plain.clone();
    set(&mut carried, "/sender_auth/verifiable_credential", auth.clone());
    let answer = gateway.post(&carried).await.expect(200);
    assert_eq!(answer.body["payment_id"], id_of(&format!("eip155:{PAYER}"), "order-2"));
    let mut wrapped = enveloped(&holder(3), &plain);
    set(&mut wrapped, "/sender_auth/verifiable_credential", auth);
    let answer = gateway.post(&wrapped).await.expect(200);
    assert_eq!(answer.body["payment_id"], id_of(holder(3).did().as_str(), "order-2"));
    let submitted = gateway.submitted(answer.body["payment_id"].as_str().unwrap()).await;
    let carriers: Vec<_> = submitted.identities.iter().map(|identity| identity.carrier).collect();
    assert_eq!(carriers, [Carrier::Envelope, Carrier::SenderAuth]);
}

/// What `signMessageV2` of a Tron wallet gives, or `personal_sign`.
fn signed_by_wallet(prefix: &str, text: &str, seed: u8) -> Value {
    let digest = alloy::primitives::keccak256(format!("\x19{prefix} Signed Message:\n{}{text}", text.len()));
    let (signature, recovery) = secp256k1(seed).sign_prehash_recoverable(digest.as_slice()).unwrap();
    json!(format!("0x{}{:02x}", hex::encode(signature.to_bytes()), 27 + recovery.to_byte()))
}

#[tokio::test]
async fn a_tron_wallet_proves_its_account_which_is_one_originator_however_its_chain_is_written() {
    let gateway = Gateway::new();
    let address = [&[0x41][..], &hex::decode(&account(5)[2..]).unwrap()].concat();
    let address = bs58::encode(address).with_check().into_string();
    let decimal = format!("did:pkh:tron:728126428:{address}");
    for (number, (reference, prefix, seed, proves)) in [
        ("728126428", "TRON", 5, true),
        ("0x2b6653dc", "TRON", 5, true),
        ("0x2B6653DC", "Ethereum", 5, true),
        ("728126428", "TRON", 6, false),
        ("728126428", "Bitcoin", 5, false),
    ]
    .into_iter()
    .enumerate()
    {
        let did = format!("did:pkh:tron:{reference}:{address}");
        let (method, request_id) = (format!("{did}#controller"), format!("order-{number}"));
        let mut body = with("/request_id", json!(request_id));
        let credential = holder(9).credential(&did, "KycCredential", &claims("LI"), at(NOW)).unwrap();
        let (members, held) = (body.as_object().unwrap(), credential.as_object().unwrap());
        let text = Carrier::OriginatorAuth.signed_text(members, held, &method).unwrap();
        let auth = json!({
            "verifiable_credential": credential,
            "verification_method_id": method,
            "signature": signed_by_wallet(prefix, &text, seed),
        });
        set(&mut body, "/originator_auth", auth);
        let answer = gateway.post(&body).await;
        if !proves {
            answer.expect_error(401, "INVALID_PROOF");
            continue;
        }
        let answer = answer.expect(200);
        assert_eq!(answer.body["payment_id"], id_of(&decimal, &request_id), "{reference}");
        let submitted = gateway.submitted(answer.body["payment_id"].as_str().unwrap()).await;
        assert_eq!(submitted.identities[0].did.as_str(), decimal);
        for written in [&decimal, &did] {
            let path = format!("/v1/payments/resolve?request_id={request_id}&originator={written}");
            assert_eq!(gateway.get(&path).await.expect(200).body["payment_id"], answer.body["payment_id"]);
        }
    }
}

#[tokio::test]
async fn a_credential_that_does_not_hold_refuses_what_is_new() {
    let gateway = Gateway::new();
    let (alice, bank) = (holder(1), holder(9));
    let mut altered = kyc(&bank, &alice);
    set(&mut altered, "/credentialSubject/known", json!(false));
    let mut lapsed = kyc(&bank, &alice);
    lapsed.as_object_mut().unwrap().remove("proof");
    set(&mut lapsed, "/expirationDate", json!("2029-12-31T23:59:00Z"));
    let lapsed = bank.issue(lapsed, at(NOW)).unwrap();
    for (credential, reason) in [
        (altered, "signature does not verify"),
        (lapsed, "credential has expired"),
        (kyc(&bank, &holder(2)), "credential is about another than"),
    ] {
        let jcs = alice.envelope(&body(), Suite::EddsaJcs2022, &[credential], at(NOW)).unwrap();
        let answer = gateway.post(&jcs).await.expect_error(401, "INVALID_CREDENTIAL");
        let message = answer.message();
        assert!(message.contains("verifiableCredential/0: ") && message.contains(reason), "{answer:?}");
    }
    // By N-Quads every term has to be mapped, which the credential's type is not here: it could not even be signed.
    assert!(alice.envelope(&body(), Suite::EddsaRdfc2022, &[kyc(&bank, &alice)], at(NOW)).is_err());

    // What was accepted is shown when its credential has lapsed meanwhile.
    let good = alice.envelope(&body(), Suite::EddsaJcs2022, &[kyc(&bank, &alice)], at(NOW)).unwrap();
    let first = gateway.post(&good).await.expect(200);
    let submitted = gateway.submitted(first.body["payment_id"].as_str().unwrap()).await;
    assert_eq!(submitted.identities[0].credentials[0].types, ["VerifiableCredential", "KycCredential"]);
    gateway.clock.set("2030-01-01T02:00:00Z");
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        let again = gateway.post(&good).await.expect(200);
        assert_eq!(
            (&again.body["payment_id"], &again.body["idempotent_replay"]),
            (&first.body["payment_id"], &json!(true))
        );
    }
}

#[tokio::test]
async fn a_proven_originator_s_batch_is_awarded_by_it_alone() {
    let gateway = Gateway::new();
    let (alice, mallory) = (holder(1), holder(2));
    let batch = open_batch_of(&gateway, &enveloped(&alice, &quote_request())).await;
    let award = award_body("order-1", &batch.quote_ids[0]);
    for stranger in [award.clone(), enveloped(&mallory, &award)] {
        let answer = gateway.post_to(&batch.award_path(), &stranger).await.expect_error(401, "INVALID_PROOF");
        assert!(answer.message().contains("opened by another originator"), "{answer:?}");
    }
    let answer = gateway.post_to(&batch.award_path(), &enveloped(&alice, &award)).await.expect(200);
    assert_eq!(answer.body["payment_id"], id_of(alice.did().as_str(), "order-1"));
    let submitted = gateway.submitted(answer.body["payment_id"].as_str().unwrap()).await;
    assert_eq!(submitted.identities[0].did, alice.did().as_str().parse::<Did>().unwrap());

    // An account's batch needs the account's signature, and may be awarded in a holder's name.
    let gateway = Gateway::new();
    let batch = open_batch(&gateway).await;
    let award = award_body("order-1", &batch.quote_ids[0]);
    let answer = gateway.post_to(&batch.award_path(), &enveloped(&alice, &award)).await.expect(200);
    assert_eq!(answer.body["payment_id"], id_of(alice.did().as_str(), "order-1"));
}

#[tokio::test]
async fn rehearsals_know_the_originator() {
    let gateway = Gateway::new();
    let alice = holder(1);
    let id = id_of(alice.did().as_str(), "order-1");
    let answer = gateway.post_to("/v1/payments/verify", &enveloped(&alice, &body())).await.expect(200);
    assert_eq!(answer.body["payment_id"], id);
    let mut forged = enveloped(&alice, &body());
    set(&mut forged, "/fulfillment_amount", json!("1000001"));
    gateway.post_to("/v1/payments/verify", &forged).await.expect_error(401, "INVALID_PROOF");

    let unsigned = without("/sender_auth");
    let mut named = unsigned.clone();
    set(&mut named, "/originator", json!(alice.did().as_str()));
    for body in [named.clone(), enveloped(&alice, &unsigned)] {
        let answer = gateway.post_to("/v1/payments/prepare", &body).await.expect(200);
        assert_eq!(answer.body["payment_id"], id);
    }
    let contradicted = holder(2).envelope(&named, Suite::EddsaJcs2022, &[], at(NOW)).unwrap();
    gateway.post_to("/v1/payments/prepare", &contradicted).await.expect_error(400, "INVALID_REQUEST");
    set(&mut named, "/originator", json!("alice"));
    gateway.post_to("/v1/payments/prepare", &named).await.expect_error(400, "INVALID_REQUEST");

    // For an award it is the one that opened the batch.
    let batch = open_batch_of(&gateway, &enveloped(&alice, &quote_request())).await;
    let award = json!({
        "version": "1.0", "request_id": "order-1", "quote_request_id": batch.id, "quote_id": batch.quote_ids[0],
    });
    let answer = gateway.post_to("/v1/payments/prepare", &award).await.expect(200);
    assert_eq!(answer.body["payment_id"], id);
}
