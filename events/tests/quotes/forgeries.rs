//! Forgeries: quotes that were altered, signed by another, or ambiguous are refused, each for its reason.

use super::*;

/// A signed quote and what happens when something in it is changed.
struct Forge {
    value: Value,
    refused: usize,
}

impl Forge {
    #[track_caller]
    fn refuses(&mut self, change: impl FnOnce(&mut Value), expected: impl FnOnce(&Error) -> bool) {
        let mut forged = self.value.clone();
        change(&mut forged);
        assert_ne!(forged, self.value);
        self.refuses_text(&forged.to_string(), expected);
    }

    #[track_caller]
    fn refuses_text(&mut self, text: &str, expected: impl FnOnce(&Error) -> bool) {
        let error = SignedQuote::parse(text).unwrap_err();
        assert!(expected(&error), "{error:?}: {text}");
        // What is stored is held to the same.
        let stored = SignedQuote::parse_stored(text).unwrap_err();
        assert!(stored == error || error == Error::Superseded, "{stored:?}");
        self.refused += 1;
    }
}

fn is_signature(error: &Error) -> bool {
    *error == Error::Proof(suites::Error::Signature)
}

#[test]
fn hundreds_of_forged_and_altered_quotes_are_refused_each_for_its_reason() {
    let mut refused = 0;
    for settler in Settler::all() {
        let text = settler.sign(unsigned(&settler.quote()));
        assert!(SignedQuote::parse(&text).is_ok());
        let mut forge = Forge { value: serde_json::from_str(&text).unwrap(), refused: 0 };
        let suite = settler.suite;
        content_is_changed(&mut forge);
        another_signs(&mut forge, &settler);
        proof_is_changed(&mut forge, suite);
        members_are_smuggled(&mut forge, suite);
        context_is_changed(&mut forge);
        text_is_ambiguous(&mut forge, &text);
        refused += forge.refused;
    }
    assert!(refused >= 400, "{refused}");
}

fn content_is_changed(forge: &mut Forge) {
    for (member, value) in [
        ("auctionId", "pay_y"),
        ("termsHash", "0x0202020202020202020202020202020202020202020202020202020202020202"),
        ("sourceChain", "eip155:2"),
        ("sourceAmount", "25250001"),
        ("payoutAccount", "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359"),
        ("escrowContract", "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"),
        ("fulfillmentAmount", "24999999"),
        ("deliveryAccount", "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359"),
        ("fulfillmentProxy", "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359"),
        ("fulfillBy", "2030-01-01T00:00:00Z"),
        ("validUntil", "2030-01-01T00:00:00Z"),
        // The same time in other words is another text.
        ("validUntil", "2027-01-01T12:01:00.000Z"),
    ] {
        forge.refuses(|quote| quote[member] = value.into(), is_signature);
    }
    let account = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
    forge.refuses(|quote| quote["destination"]["account"] = account.into(), is_signature);
    forge.refuses(|quote| quote["destination"]["asset_identifier"] = "eip155:10/slip44:60".into(), is_signature);
    forge.refuses(|quote| quote["id"] = "urn:uuid:1".into(), is_signature);
    forge.refuses(|quote| quote["proof"]["created"] = "2027-01-01T12:00:01Z".into(), is_signature);
    let malformed = |error: &Error| matches!(error, Error::Malformed(_));
    for name in ["payoutAccount", "escrowContract", "deliveryAccount", "fulfillmentProxy"] {
        let is_named =
            |error: &Error| matches!(error, Error::Malformed(text) if text.starts_with(&format!("{name}: ")));
        forge.refuses(|quote| quote[name] = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6u".into(), is_named);
    }
    forge.refuses(|quote| drop(quote.as_object_mut().unwrap().remove("validUntil")), malformed);
    forge.refuses(|quote| quote["type"] = json!(["GatewayQuote"]), malformed);
    forge.refuses(|quote| quote["type"] = "Quote".into(), malformed);
    forge.refuses(|quote| quote["settler"] = json!({"id": quote["settler"]}), malformed);
    forge.refuses(|quote| quote["sourceAmount"] = Value::Null, malformed);
    forge.refuses(|quote| quote["sourceAmount"] = "025250000".into(), malformed);
}

fn another_signs(forge: &mut Forge, settler: &Settler) {
    let other = match &settler.key {
        SigningKey::Ed25519(_) => ed25519(8),
        SigningKey::Secp256k1(_) => secp256k1(8),
        SigningKey::P256(_) => p256(8),
        SigningKey::P384(_) => p384(8),
    };
    let stranger = Settler::by_key(other, settler.suite);
    let foreign =
        |error: &Error| matches!(error, Error::Proof(suites::Error::Unauthorised(Unauthorised::Foreign { .. })));
    // In the settler's name, by one's own right, and the settler's quote as one's own.
    forge.refuses_text(&stranger.sign(unsigned(&settler.quote())), foreign);
    let posing = Settler { method: settler.method.clone(), ..stranger.clone() };
    forge.refuses_text(&posing.sign(unsigned(&settler.quote())), is_signature);
    forge.refuses(|quote| quote["settler"] = stranger.did.as_str().into(), foreign);
    forge.refuses(|quote| quote["proof"]["verificationMethod"] = stranger.method.clone().into(), foreign);
    forge.refuses(
        |quote| {
            quote["settler"] = stranger.did.as_str().into();
            quote["proof"]["verificationMethod"] = stranger.method.clone().into();
        },
        is_signature,
    );
    let unknown = |error: &Error| matches!(error, Error::Proof(suites::Error::Unauthorised(Unauthorised::Unknown(_))));
    let key = format!("{}#other", settler.did);
    forge.refuses(|quote| quote["proof"]["verificationMethod"] = key.into(), unknown);
    // A settler whose key somebody else would have to say.
    forge.refuses(
        |quote| quote["settler"] = "did:web:settler.example".into(),
        |error| matches!(error, Error::Settler(did::Error::Method(_))),
    );
    forge.refuses(
        |quote| quote["settler"] = "did:key:z6Mk".into(),
        |error| matches!(error, Error::Settler(did::Error::Malformed { .. })),
    );
}

fn proof_is_changed(forge: &mut Forge, suite: Suite) {
    let carrier = suite.carrier();
    let other = if carrier == "jws" { "proofValue" } else { "jws" };
    let wrong = |error: &Error| *error == Error::Proof(suites::Error::WrongCarrier { suite });
    forge.refuses(
        |quote| {
            let proof = quote["proof"].as_object_mut().unwrap();
            let value = proof.remove(carrier).unwrap();
            proof.insert(other.to_owned(), value);
        },
        wrong,
    );
    forge.refuses(|quote| quote["proof"][other] = "z".into(), wrong);
    forge.refuses(|quote| drop(quote["proof"].as_object_mut().unwrap().remove(carrier)), wrong);
    forge.refuses(
        |quote| quote["proof"]["proofPurpose"] = "authentication".into(),
        |error| matches!(error, Error::Proof(suites::Error::Purpose { .. })),
    );
    forge.refuses(|quote| quote["proof"]["expires"] = "2040-01-01T00:00:00Z".into(), |error| *error == Error::Expires);
    forge.refuses(
        |quote| quote["proof"]["note"] = "x".into(),
        |error| matches!(error, Error::Proof(suites::Error::Member { member, .. }) if member == "note"),
    );
    let not_one = |error: &Error| *error == Error::Proof(suites::Error::NotOneProof);
    forge.refuses(|quote| quote["proof"] = json!([quote["proof"], quote["proof"]]), not_one);
    forge.refuses(|quote| drop(quote.as_object_mut().unwrap().remove("proof")), not_one);
    forge.refuses(
        |quote| quote["proof"]["type"] = "RsaSignature2018".into(),
        |error| matches!(error, Error::Proof(suites::Error::UnknownSuite(_) | suites::Error::Member { .. })),
    );
}

fn members_are_smuggled(forge: &mut Forge, suite: Suite) {
    let unknown = |name: &'static str| move |error: &Error| *error == Error::UnknownMember(name.to_owned());
    forge.refuses(|quote| quote["discount"] = "1".into(), unknown("discount"));
    // A term of the context is not a member of a quote for that.
    forge.refuses(|quote| quote["max_source_amount"] = "1".into(), unknown("max_source_amount"));
    forge.refuses(
        |quote| quote["https://gateway.example/vocab#sourceAmount"] = "1".into(),
        |error| matches!(error, Error::UnknownMember(_)),
    );
    forge.refuses(|quote| quote["destination"]["memo"] = "1".into(), unknown("destination/memo"));
    forge.refuses(|quote| quote["destination"]["id"] = "urn:x:y".into(), unknown("destination/id"));
    if !matches!(suite, Suite::EddsaJcs2022 | Suite::EcdsaJcs2019) {
        forge.refuses(
            |quote| quote["id"] = "quote-1".into(),
            |error| {
                let refused = canonical::Error::Refused {
                    pointer: "/id".to_owned(),
                    reason: Reason::RelativeId("quote-1".to_owned()),
                };
                *error == Error::Proof(suites::Error::Canonical(refused))
            },
        );
    }
}

fn context_is_changed(forge: &mut Forge) {
    let context = |error: &Error| *error == Error::Context;
    forge.refuses(|quote| quote["@context"] = GATEWAY_V1.into(), context);
    forge.refuses(|quote| quote["@context"] = json!([]), context);
    forge.refuses(|quote| quote["@context"] = json!([SUITES_CONTEXT, GATEWAY_V1]), context);
    forge.refuses(|quote| quote["@context"] = json!([{"sourceAmount": "urn:x:y"}]), context);
    forge.refuses(|quote| quote["@context"] = vec![GATEWAY_V1; CONTEXTS_MAX + 1].into(), context);
    forge.refuses(|quote| drop(quote.as_object_mut().unwrap().remove("@context")), |error| *error == Error::Superseded);
    // Inline and unknown ones after the gateway's: either no canonical form, or not the context that was signed.
    for smuggled in [json!({"sourceAmount": "urn:x:y"}), json!("https://evil.example/v1")] {
        forge.refuses(
            |quote| quote["@context"][1] = smuggled,
            |error| {
                let reason = match error {
                    Error::Proof(suites::Error::Canonical(canonical::Error::Refused { reason, .. })) => Some(reason),
                    Error::Proof(suites::Error::Context) => None,
                    other => panic!("{other:?}"),
                };
                reason.is_none_or(|reason| matches!(reason, Reason::InlineContext | Reason::UnknownContext(_)))
            },
        );
    }
}

fn text_is_ambiguous(forge: &mut Forge, text: &str) {
    let rule = |rule: Rule| move |error: &Error| matches!(error, Error::Json(error) if error.rule == rule);
    let amount = "\"sourceAmount\":\"25250000\"";
    assert!(text.contains(amount));
    forge.refuses_text(&text.replace(amount, &format!("{amount},{amount}")), rule(Rule::DuplicateKey));
    forge.refuses_text(&text.replace(amount, "\"sourceAmount\":25250000"), rule(Rule::Number));
    forge.refuses_text(&text.replace(amount, "\"sourceAmount\":\"\\ud800\""), rule(Rule::LoneSurrogate));
    forge.refuses_text(&text.replace(amount, "\"sourceAmount\":\"\\u0007\""), rule(Rule::ControlCharacter));
    forge.refuses_text(&text[1..], rule(Rule::Syntax));
    forge.refuses_text(&format!("[{text}]"), rule(Rule::NotAnObject));
    let padded = format!("{text}{}", " ".repeat(DOCUMENT_BYTES_MAX));
    forge.refuses_text(&padded, |error| *error == Error::TooLarge);
}
