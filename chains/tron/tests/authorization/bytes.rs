//! Ids, signatures and encodings: nothing is signed that was not read.

use proptest::prelude::*;
use prost::Message;
use trondev::proto::{Any, Contract, Raw, TransferContract, TriggerSmartContract};

use super::*;

#[test]
fn ids_and_signatures_are_those_of_the_transaction_and_of_the_payer() {
    for index in [APPROVAL, DEPOSIT] {
        let with = |change: &dyn Fn(&mut SignedMessage)| {
            let mut messages = good();
            change(&mut messages[index]);
            messages
        };
        let bytes = hex::decode(&good()[index].signature[2..]).unwrap();
        let signed = |bytes: &[u8]| format!("0x{}", hex::encode(bytes));
        let v = |v: u8| signed(&[&bytes[..64], &[v]].concat());
        let raw = raw_data(&good()[index]);
        for (field, changed) in [
            ("message", with(&|signed| signed.message = B256::repeat_byte(1).to_string())),
            ("message", with(&|signed| signed.message = "0x".to_owned())),
            ("message", with(&|signed| signed.message.truncate(64))),
            ("message", with(&|signed| signed.message.push_str("00"))),
            ("message_prehash", with(&|signed| signed.message_prehash = None)),
            ("message_prehash", with(&|signed| signed.message_prehash = Some(String::new()))),
            ("message_prehash", with(&|signed| signed.message_prehash = Some("0xzz".to_owned()))),
            ("message_prehash", with(&|signed| signed.message_prehash = Some("00".repeat(5_000)))),
            ("message_prehash", with(&|signed| signed.message_prehash = Some(hex::encode(&raw[..raw.len() - 1])))),
            ("signature", with(&|signed| signed.signature = "0x".to_owned())),
            ("signature", with(&|text| text.signature = hex::encode(&bytes))),
            ("signature", with(&|text| text.signature = signed(&bytes[..64]))),
            ("signature", with(&|text| text.signature = signed(&[&bytes[..], &[0]].concat()))),
            ("signature", with(&|text| text.signature = v(29))),
            ("signature", with(&|text| text.signature = v(55 - bytes[64]))),
            ("signature", with(&|text| text.signature = signed(&high_s(&bytes)))),
            ("signature", with(&|text| text.signature = signed(&[0; 65]))),
            ("signature", with(&|text| text.signature = signature(id(&raw), &key(7)))),
            ("signature", with(&|text| text.signature = good()[1 - index].signature.clone())),
        ] {
            refused_at(&changed, index, field);
        }
    }
}

/// What the API's own decoder would pass over: the deposit's bytes read by somebody else's definitions, changed, and
/// signed by the payer.
#[test]
fn a_transaction_that_says_more_is_refused() {
    type Alter = fn(&mut Raw);
    fn contract(raw: &mut Raw) -> &mut Contract {
        &mut raw.contract[0]
    }
    fn called(raw: &mut Raw, alter: impl FnOnce(&mut TriggerSmartContract)) {
        let parameter = contract(raw).parameter.as_mut().unwrap();
        let mut call = TriggerSmartContract::decode(parameter.value.as_slice()).unwrap();
        alter(&mut call);
        parameter.value = call.encode_to_vec();
    }
    let alterations: [Alter; 17] = [
        |raw| raw.data = b"memo".to_vec(),
        |raw| raw.scripts = vec![1],
        |raw| raw.ref_block_num = 1,
        |raw| raw.contract.push(raw.contract[0].clone()),
        |raw| raw.contract.clear(),
        |raw| raw.ref_block_bytes = vec![1],
        |raw| raw.ref_block_hash = Vec::new(),
        |raw| raw.fee_limit = -1,
        |raw| raw.expiration = -1,
        |raw| contract(raw).permission_id = 2,
        |raw| contract(raw).provider = vec![1],
        |raw| contract(raw).contract_name = vec![1],
        |raw| contract(raw).r#type = 1,
        |raw| contract(raw).parameter = None,
        |raw| {
            let transfer = TransferContract {
                owner_address: [&[0x41], payer().address().as_slice()].concat(),
                to_address: [&[0x41], key(7).address().as_slice()].concat(),
                amount: 1,
            };
            let type_url = "type.googleapis.com/protocol.TransferContract".to_owned();
            let parameter = Some(Any { type_url, value: transfer.encode_to_vec() });
            raw.contract = vec![Contract { r#type: 1, parameter, ..Default::default() }];
        },
        |raw| called(raw, |call| call.call_token_value = 1),
        |raw| called(raw, |call| call.owner_address[0] = 0xa0),
    ];
    for index in [APPROVAL, DEPOSIT] {
        for (number, alter) in alterations.into_iter().enumerate() {
            let mut messages = good();
            let mut raw = Raw::decode(raw_data(&messages[index]).as_slice()).unwrap();
            assert_eq!(raw.encode_to_vec(), raw_data(&messages[index]));
            alter(&mut raw);
            messages[index] = message(&raw.encode_to_vec(), &payer());
            let denied = refused(&spend(), &messages);
            assert_eq!((denied.message, denied.error.field()), (Some(index), "message_prehash"), "{number}: {denied}");
        }
        // A member that nobody knows, and a known one twice, of which readers take the last.
        let raw = raw_data(&good()[index]);
        for extra in [&[0x98, 0x06, 1][..], &[0x90, 0x01, 1]] {
            let mut messages = good();
            messages[index] = message(&[&raw, extra].concat(), &payer());
            refused_at(&messages, index, "message_prehash");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Whatever byte is changed, it is refused, or it changed nothing but what is the payer's to choose.
    #[test]
    fn no_byte_can_be_changed_that_matters(index in 0_usize..2, at in any::<prop::sample::Index>(), by in 1_u8..) {
        let mut messages = good();
        let mut raw = raw_data(&messages[index]);
        let at = at.index(raw.len());
        raw[at] ^= by;
        let before = draft(&messages[index]);
        // Not signed anew it is always refused.
        messages[index].message_prehash = Some(hex::encode(&raw));
        prop_assert!(authorize(&spend(), &messages).is_err());
        messages[index] = message(&raw, &payer());
        if let Ok((authorization, plan)) = authorize(&spend(), &messages) {
            let after = draft(&messages[index]);
            let Draft { fee_limit_sun, reference, timestamp_ms, expiration_ms, .. } = after;
            let free = Draft { fee_limit_sun, reference, timestamp_ms, expiration_ms, ..before };
            prop_assert_eq!(after, free);
            prop_assert_eq!(plan, prepared(&spend()).plan);
            prop_assert_eq!(tron((authorization, prepared(&spend()).plan)).amount.to_string(), "110");
        }
    }

    /// No text makes the reader stumble.
    #[test]
    fn nothing_is_taken_from_noise(text in "[0-9a-fA-Fx]{0,200}", bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        for prehash in [text.clone(), hex::encode(&bytes)] {
            let noise = SignedMessage { message: text.clone(), message_prehash: Some(prehash), signature: text.clone(), payload: None };
            prop_assert!(authorize(&spend(), &[noise]).is_err());
        }
    }
}
