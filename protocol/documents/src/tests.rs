//! Tests of the documents: schema and reader agree on every message, and the files are what the code gives.

use std::path::PathBuf;

use jsonschema::Validator;
use serde_json::Value;

use devkit::tools;
use events::quote::{self, SignedQuote};
use protocol::{
    AttestationRequest, AttestationResponse, AuctionOver, AwardAnswer, AwardEnd, AwardNotice, AwardReceipt, Bid,
    Escrowed, Message, Registration, Report, Rfq, is_reassignment_auction, read,
    selection::{SelectionAnswer, SelectionRequest},
};

use super::*;

fn accepts<T: Message>(message: &Value) -> bool {
    read::<T>(message.to_string().as_bytes()).is_ok()
}

/// The reader of each message.
fn reader(name: &str) -> fn(&Value) -> bool {
    match name {
        "Registration" => accepts::<Registration>,
        "RequestForQuotes" => accepts::<Rfq>,
        "Bid" => accepts::<Bid>,
        "Award" => accepts::<AwardNotice>,
        "AwardAnswer" => accepts::<AwardAnswer>,
        "AwardReceipt" => accepts::<AwardReceipt>,
        "AwardEnd" => accepts::<AwardEnd>,
        "AuctionOver" => accepts::<AuctionOver>,
        "Report" => accepts::<Report>,
        "AttestationRequest" => accepts::<AttestationRequest>,
        "AttestationResponse" => accepts::<AttestationResponse>,
        "SelectionRequest" => accepts::<SelectionRequest>,
        "SelectionAnswer" => accepts::<SelectionAnswer>,
        other => panic!("no reader is known for {other}"),
    }
}

fn message(name: &str) -> &'static MessageDocument {
    MESSAGES.iter().find(|message| message.name == name).unwrap()
}

fn validator(message: &MessageDocument) -> Validator {
    jsonschema::draft202012::new(&message.schema()).unwrap()
}

/// Every place of an object in `value`, as a pointer.
fn objects(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.push(at.to_owned());
            members.iter().for_each(|(name, member)| objects(member, &format!("{at}/{name}"), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| objects(item, &format!("{at}/{index}"), found));
        }
        _ => {}
    }
}

#[test]
fn the_committed_documents_are_what_the_code_gives() {
    check(&tools::root().join("protocol")).unwrap();
}

#[test]
fn a_folder_that_differs_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(check(folder.path()), Err(Error::Io { .. })));
    write(folder.path()).unwrap();
    check(folder.path()).unwrap();
    let (stale, surplus) = (folder.path().join("schemas/bid.json"), folder.path().join("schemas/other.json"));
    std::fs::write(&surplus, "{}").unwrap();
    assert!(matches!(check(folder.path()), Err(Error::Surplus(path)) if path == surplus));
    std::fs::remove_file(surplus).unwrap();
    std::fs::write(&stale, "{}\n").unwrap();
    assert!(matches!(check(folder.path()), Err(Error::Differs(path)) if path == stale));
}

#[test]
fn the_asyncapi_document_is_valid() {
    let path: PathBuf = tools::root().join(".tools/asyncapi/node_modules/@asyncapi/specs/schemas/3.0.0.json");
    let text = std::fs::read_to_string(&path).expect("run `scripts/tools.sh test`");
    let specification: Value = serde_json::from_str(&text).unwrap();
    let validator = jsonschema::draft7::new(&specification).unwrap();
    let document = document();
    let errors: Vec<String> =
        validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    // What the specification's schema can tell, it tells.
    for pointer in ["/asyncapi", "/operations/bid/action", "/channels/bids/address"] {
        let mut broken = document.clone();
        *broken.pointer_mut(pointer).unwrap() = Value::Bool(false);
        assert!(!validator.is_valid(&broken), "{pointer}");
    }
}

#[test]
fn every_reference_of_the_asyncapi_document_leads_somewhere() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|member| references(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 20, "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn schema_and_reader_ask_for_the_same_members() {
    for message in MESSAGES.iter().filter(|message| message.name != "Quote") {
        let (validator, reads) = (validator(message), reader(message.name));
        for example in message.examples() {
            assert!(validator.is_valid(&example) && reads(&example), "{}: {example:#}", message.name);
            members_are_asked_for_alike(message.name, &validator, reads, &example);
        }
    }
}

fn members_are_asked_for_alike(name: &str, validator: &Validator, reads: fn(&Value) -> bool, example: &Value) {
    let mut places = Vec::new();
    objects(example, "", &mut places);
    // What a payer says in a payload may be of any type.
    for place in places.into_iter().filter(|place| !place.starts_with("/payloads/")) {
        let members: Vec<String> =
            example.pointer(&place).and_then(Value::as_object).unwrap().keys().cloned().collect();
        for member in members {
            let mut altered = example.clone();
            altered.pointer_mut(&place).and_then(Value::as_object_mut).unwrap().remove(&member);
            // Without its cap the terms are others, so their hash in the request is wrong: no schema sees that.
            if member == "max_source_amount" {
                assert!(validator.is_valid(&altered));
                continue;
            }
            let what = format!("{name} without {place}/{member}");
            assert_eq!(validator.is_valid(&altered), reads(&altered), "{what}");
            *altered.pointer_mut(&place).unwrap() = example.pointer(&place).unwrap().clone();
            let of_another_type =
                if example.pointer(&place).unwrap()[&member].is_boolean() { 7.into() } else { true.into() };
            altered.pointer_mut(&place).unwrap()[&member] = of_another_type;
            assert!(!validator.is_valid(&altered) && !reads(&altered), "{place}/{member} of another type");
        }
        let mut extended = example.clone();
        extended.pointer_mut(&place).unwrap()["a_member_of_tomorrow"] = 1.into();
        assert!(validator.is_valid(&extended) && reads(&extended), "{name} with more at {place}");
    }
}

/// Who reads the examples finds in them what a settler checks of an escrow that is to be reassigned.
#[test]
fn the_examples_of_a_reassignment_are_of_one_payment() {
    let shown = |name: &str, number: usize| message(name).examples().swap_remove(number);
    let [first, next] =
        [0, 1].map(|number| read::<Rfq>(shown("RequestForQuotes", number).to_string().as_bytes()).unwrap());
    let [won, won_next] =
        [0, 1].map(|number| read::<AwardNotice>(shown("Award", number).to_string().as_bytes()).unwrap());
    let payment_id = first.payment_id.unwrap();
    assert_eq!(next.payment_id.as_ref(), Some(&payment_id));
    assert!(is_reassignment_auction(&next.auction_id, &payment_id));
    let lapsed = SignedQuote::parse(&won.quote).unwrap();
    let escrowed = Escrowed { amount: lapsed.quote().source_amount, reserved_for: won.quote_hash };
    assert_eq!((next.escrowed, won_next.escrowed, won.escrowed), (Some(escrowed), Some(escrowed), None));
    let quote = SignedQuote::parse(&won_next.quote).unwrap();
    assert_eq!((quote.quote().auction_id.as_str(), quote.hash()), (next.auction_id.as_str(), won_next.quote_hash));
    assert!(quote.quote().source_amount <= escrowed.amount && quote.quote().settler != lapsed.quote().settler);
    assert!(lapsed.quote().fulfill_by < next.quote_deadline);
}

/// Of a quote every byte is signed, so what is altered is sound to the schema or not, and never to the reader.
#[test]
fn the_schema_of_a_quote_asks_for_its_members_and_knows_no_others() {
    let message = message("Quote");
    let (validator, example) = (validator(message), (message.example)());
    assert!(validator.is_valid(&example) && SignedQuote::parse(&example.to_string()).is_ok(), "{example:#}");
    for member in example.as_object().unwrap().keys() {
        let mut altered = example.clone();
        altered.as_object_mut().unwrap().remove(member);
        assert!(!validator.is_valid(&altered), "a quote without {member}");
        assert!(SignedQuote::parse(&altered.to_string()).is_err(), "a quote without {member}");
    }
    let mut extended = example.clone();
    extended["surcharge"] = "1".into();
    assert!(!validator.is_valid(&extended));
    assert!(matches!(SignedQuote::parse(&extended.to_string()), Err(quote::Error::UnknownMember(_))));
}

#[test]
fn schema_and_reader_refuse_the_same_texts() {
    let altered = [
        ("Registration", "/version", "2.0"),
        ("Registration", "/settler", "z6Mk"),
        ("Registration", "/corridors/0/source_asset", "USDC"),
        ("RequestForQuotes", "/auction_id", "two.tokens"),
        ("RequestForQuotes", "/terms/fulfillment_amount", "0"),
        ("RequestForQuotes", "/terms/source/asset_identifier", "eip155:1"),
        ("RequestForQuotes", "/terms_hash", "0x00"),
        ("RequestForQuotes", "/escrow/refund_after", "1e9"),
        ("Award", "/payment_id", "pay_1"),
        ("AwardEnd", "/auction_id", "two.tokens"),
        ("Award", "/escrow/chain_id", "mainnet"),
        ("SelectionRequest", "/auction_id", "two.tokens"),
        ("AttestationResponse", "/status", "perhaps"),
        ("AttestationResponse", "/status", "pending"),
    ];
    for (name, pointer, text) in altered {
        let message = message(name);
        let mut example = (message.example)();
        *example.pointer_mut(pointer).unwrap() = text.into();
        assert!(!validator(message).is_valid(&example), "the schema of {name} takes {pointer} = {text}");
        assert!(!reader(name)(&example), "the reader of {name} takes {pointer} = {text}");
    }
    let bid = message("Bid");
    let mut both = (bid.example)();
    both["decline"] = "NO_LIQUIDITY".into();
    assert!(!validator(bid).is_valid(&both) && !reader("Bid")(&both));
    both.as_object_mut().unwrap().remove("quote");
    assert!(validator(bid).is_valid(&both) && reader("Bid")(&both));
    both["decline"] = "no liquidity".into();
    assert!(!validator(bid).is_valid(&both) && !reader("Bid")(&both));
}

/// Which accounts there are on a chain no schema says, and an account of another family is well-formed where it stands.
#[test]
fn a_reader_takes_no_account_of_another_family_than_its_chain() {
    let places = [
        ("RequestForQuotes", "/escrow/contract", "accounts of its chain's family"),
        ("RequestForQuotes", "/escrow/reserver", "accounts of its chain's family"),
        ("RequestForQuotes", "/escrow/releaser", "accounts of its chain's family"),
        ("RequestForQuotes", "/fulfillment_proxies/0", "each proxy must be an account of its destination's"),
        ("Award", "/escrow/contract", "accounts of its chain's family"),
        ("Award", "/escrow/reserver", "accounts of its chain's family"),
        ("Award", "/escrow/releaser", "accounts of its chain's family"),
        ("Award", "/verifier/account", "the verifier's account must be of the family"),
        ("AttestationRequest", "/escrow/contract", "accounts of its chain's family"),
        ("AttestationRequest", "/escrow/reserver", "accounts of its chain's family"),
        ("AttestationRequest", "/escrow/releaser", "accounts of its chain's family"),
    ];
    for (name, pointer, rule) in places {
        for foreign in ["11111111111111111111111111111112", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"] {
            let mut example = (message(name).example)();
            *example.pointer_mut(pointer).unwrap() = foreign.into();
            let text = example.to_string();
            let error = match name {
                "RequestForQuotes" => read::<Rfq>(text.as_bytes()).unwrap_err(),
                "Award" => read::<AwardNotice>(text.as_bytes()).unwrap_err(),
                _ => read::<AttestationRequest>(text.as_bytes()).unwrap_err(),
            };
            assert!(error.to_string().contains(rule), "{name}{pointer} = {foreign}: {error}");
        }
    }
}

/// Who is asked has to be who the payer signed for: the hash of threshold and members is the releaser.
#[test]
fn a_reader_takes_no_set_with_another_id_than_is_said() {
    let places = [
        ("Award", "/verifier/set", "the verifier's account must be the id of its set"),
        ("AttestationRequest", "/verifier_set", "the releaser of the escrow must be the id of verifier_set"),
    ];
    for (name, set, rule) in places {
        let example = (message(name).example)();
        assert_eq!(example.pointer(&format!("{set}/members")).unwrap().as_array().unwrap().len(), 3);
        let error_of = |change: &dyn Fn(&mut Value)| {
            let mut altered = example.clone();
            change(altered.pointer_mut(set).unwrap());
            let text = altered.to_string();
            match name {
                "Award" => read::<AwardNotice>(text.as_bytes()).map(drop),
                _ => read::<AttestationRequest>(text.as_bytes()).map(drop),
            }
            .map_err(|error| error.to_string())
        };
        let other = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
        for change in [
            &(|set: &mut Value| set["threshold"] = 1.into()) as &dyn Fn(&mut Value),
            &|set| set["members"][0]["account"] = other.into(),
            &|set| drop(set["members"].as_array_mut().unwrap().pop()),
        ] {
            let error = error_of(change).unwrap_err();
            assert!(error.contains(rule), "{name}: {error}");
        }
        // Their order and where they are reached has no part in it.
        error_of(&|set| set["members"].as_array_mut().unwrap().reverse()).unwrap();
        error_of(&|set| set["members"][0]["endpoint"] = "https://elsewhere.example".into()).unwrap();
        assert!(error_of(&|set| set["threshold"] = 4.into()).unwrap_err().contains("threshold"));
    }
}
