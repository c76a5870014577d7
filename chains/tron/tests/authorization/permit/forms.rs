//! The forms in which a permit may be submitted, and what of it is the payer's to choose.

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn all_forms_of_the_prehash_mean_the_same() {
    let (spend, prepared) = (spend(), prepared(&spend()));
    let expected = authorize_permit(&spend, &good()).unwrap();
    let mut numbers = data(&good());
    numbers["domain"]["chainId"] = json!(format!("{CHAIN_ID:#x}"));
    numbers["message"]["permitted"]["amount"] = json!(110);
    numbers["message"]["deadline"] = json!(format!("{FULFILLMENT_DEADLINE:#x}"));
    let mut bare = data(&good());
    bare["types"].as_object_mut().unwrap().remove("EIP712Domain");
    // As `json.dumps` of Python writes it from integers.
    let nonce = data(&good())["message"]["nonce"].as_str().unwrap().to_owned();
    let long = data(&good()).to_string().replace(&format!("\"{nonce}\""), &nonce);
    let preimage = format!("0x{}", hex::encode(prepared.preimage));
    for prehash in [
        Some(numbers.to_string()),
        Some(bare.to_string()),
        Some(format!(" {:#}\n", data(&good()))),
        Some(long),
        Some(preimage.clone()),
        None,
    ] {
        let message = SignedMessage { message_prehash: prehash, ..good() };
        assert_eq!(authorize_permit(&spend, &message).unwrap(), expected, "{:?}", message.message_prehash);
    }
    // Of a preimage the payload says the rest, where it is not the default.
    let bare = SignedMessage { message_prehash: Some(preimage.clone()), payload: None, ..good() };
    assert_eq!(authorize_permit(&spend, &bare).unwrap(), expected);
    let flipped = |at: usize| {
        let mut bytes = prepared.preimage;
        bytes[at] ^= 1;
        format!("0x{}", hex::encode(bytes))
    };
    for (prehash, field) in [
        (flipped(2), "message_prehash.domainSeparator"),
        (flipped(33), "message_prehash.domainSeparator"),
        (flipped(34), "message_prehash.structHash"),
        (flipped(65), "message_prehash.structHash"),
        (flipped(1), "message_prehash"),
        (format!("{preimage}00"), "message_prehash"),
        (preimage[2..].to_owned(), "message_prehash"),
        ("nonsense".to_owned(), "message_prehash"),
        (String::new(), "message_prehash"),
        ("{".to_owned(), "message_prehash"),
        ("[]".to_owned(), "message_prehash"),
    ] {
        assert_eq!(refused(&spend, &with_prehash(prehash.clone())).field(), field, "{prehash}");
    }
}

#[test]
fn the_payer_may_choose_within_the_windows() {
    let spend = spend();
    let choice = Choice {
        reserve_deadline: Some(QUOTE_DEADLINE + 1),
        refund_after: Some(REFUND_AFTER + 60),
        permit_deadline: Some(FULFILLMENT_DEADLINE + 5),
        ..Choice::default()
    };
    let prepared = prepare_permit(&spend, &choice).unwrap();
    let mut message = SignedMessage { message_prehash: None, ..signed(&prepared) };
    let authorized = authorize_permit(&spend, &message).unwrap();
    assert_eq!(
        (permit(&authorized).deadline, authorized.1.reserve_deadline),
        (FULFILLMENT_DEADLINE + 5, QUOTE_DEADLINE + 1)
    );
    assert_eq!(authorized.1.refund_after, REFUND_AFTER + 60);
    message.payload = None;
    assert_eq!(refused(&spend, &message).field(), "message", "the choice is not known");
    for (member, value) in [
        ("refund_after", json!("soon")),
        ("refund_after", json!(REFUND_AFTER - 1)),
        ("reserve_deadline", json!(QUOTE_DEADLINE)),
        ("reserve_deadline", json!(FULFILLMENT_DEADLINE + 1)),
        ("reserve_deadline", json!("0x8000000000000000")),
        ("permit_deadline", json!(-1)),
        ("permitted_amount", json!("0")),
    ] {
        message.payload = Some(json!({member: value}));
        assert_eq!(refused(&spend, &message).field(), format!("payload.{member}"), "{value}");
    }
    // One that ends before the deposit is to be made.
    let short = Choice { permit_deadline: Some(FULFILLMENT_DEADLINE - 1), ..Choice::default() };
    assert_eq!(prepare_permit(&spend, &short).unwrap_err().field(), "message.deadline");
}

#[test]
fn without_a_cap_what_is_permitted_is_the_payers_to_choose() {
    let spend = uncapped(spend());
    assert_eq!(prepare_permit(&spend, &Choice::default()).unwrap_err().field(), "payload.permitted_amount");
    let most = U256::MAX.to_string();
    for amount in ["777", &most] {
        let choice = Choice { permitted_amount: Some(amount.parse().unwrap()), ..Choice::default() };
        let prepared = prepare_permit(&spend, &choice).unwrap();
        assert_eq!(prepared.payload["permitted_amount"], amount);
        let typed = signed(&prepared);
        let short = SignedMessage { message_prehash: None, ..typed.clone() };
        for message in [typed, short] {
            assert_eq!(authorize_permit(&spend, &message).unwrap().0.permitted().to_string(), amount);
        }
    }
    let choice = Choice { permitted_amount: Some("7".parse().unwrap()), ..Choice::default() };
    let mut message = signed(&prepare_permit(&spend, &choice).unwrap());
    let mut data = data(&message);
    data["message"]["permitted"]["amount"] = json!("0");
    message.message_prehash = Some(data.to_string());
    assert_eq!(refused(&spend, &message).field(), "message.permitted.amount");
}

prop_compose! {
    fn any_choice()(
        reserve_deadline in prop::option::of(QUOTE_DEADLINE - 5..FULFILLMENT_DEADLINE + 5),
        refund_after in prop::option::of(REFUND_AFTER - 5..REFUND_AFTER + 100_000),
        permit_deadline in prop::option::of(prop_oneof![QUOTE_DEADLINE..FULFILLMENT_DEADLINE + 5, any::<u64>()]),
        permitted_amount in prop::option::of(1_u64..),
        fee_limit_sun in prop::option::of(any::<u64>()),
    ) -> Choice {
        let permitted_amount = permitted_amount.map(|amount| amount.to_string().parse().unwrap());
        Choice { reserve_deadline, refund_after, permit_deadline, permitted_amount, fee_limit_sun, ..Choice::default() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Nobody is asked to sign what would be refused, in whatever form it is submitted.
    #[test]
    fn what_is_prepared_under_any_choice_is_accepted(choice in any_choice(), capped: bool, quote: [u8; 32]) {
        let spend = SpendRequest { quote_hash: Hash32(quote), ..if capped { spend() } else { uncapped(spend()) } };
        let Ok(prepared) = prepare_permit(&spend, &choice) else { return Ok(()) };
        let message = signed(&prepared);
        let preimage = format!("0x{}", hex::encode(prepared.preimage));
        let (authorization, plan) = authorize_permit(&spend, &message).unwrap();
        prop_assert_eq!(&plan, &prepared.plan);
        prop_assert!(plan.reserve_deadline > QUOTE_DEADLINE && plan.reserve_deadline <= plan.fulfillment_deadline);
        prop_assert!(plan.refund_after >= REFUND_AFTER);
        prop_assert_eq!(authorization.permitted(), prepared.amount);
        let authorized = (authorization, plan);
        prop_assert!(permit(&authorized).deadline >= authorized.1.reserve_deadline);
        // What a payload can say is a signed number of 64 bits.
        if permit(&authorized).deadline > u64::MAX / 2 {
            return Ok(());
        }
        for prehash in [None, Some(preimage)] {
            let short = SignedMessage { message_prehash: prehash, ..message.clone() };
            prop_assert_eq!(&authorize_permit(&spend, &short).unwrap(), &authorized);
        }
    }

    /// Whatever byte of the text is changed, it is refused, or means the same.
    #[test]
    fn no_byte_can_be_changed_that_matters(at in any::<prop::sample::Index>(), by in 1_u8..128) {
        let mut text = good().message_prehash.unwrap().into_bytes();
        let at = at.index(text.len());
        text[at] ^= by;
        let Ok(text) = String::from_utf8(text) else { return Ok(()) };
        if let Ok(authorized) = authorize_permit(&spend(), &with_prehash(text)) {
            prop_assert_eq!(authorized, authorize_permit(&spend(), &good()).unwrap());
        }
    }

    /// No text makes the reader stumble.
    #[test]
    fn nothing_is_taken_from_noise(noise in "\\PC{0,200}", hex in "[0-9a-fA-Fx]{0,200}") {
        for text in [noise.clone(), format!("{{{noise}"), hex, format!("{{\"types\":{noise}}}")] {
            let message = SignedMessage {
                message: text.clone(), message_prehash: Some(text.clone()), signature: text, payload: None,
            };
            prop_assert!(authorize_permit(&spend(), &message).is_err());
        }
    }
}
