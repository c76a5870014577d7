use alloy::{primitives::keccak256, signers::local::PrivateKeySigner};
use chains_evm::{
    authorization::{Choice, Scheme, charge},
    mandates::contract,
};
use escrow_abi::signature;
use events::{OwnedAsset, Terms};

use super::*;
use crate::{
    authorization::{Demand, evm::spend},
    pins::{
        PERMIT2,
        tests::{NOW, account, corridor, mandate_order, order},
    },
};

const SALT: Hash32 = Hash32([7; 32]);

/// A payer, who trusts what the gateway names.
struct Side {
    order: MandateOrder,
    corridor: Corridor,
    pins: Pins,
}

impl Side {
    fn of(payer: &str) -> Self {
        Self { order: mandate_order(payer, &account(7)), corridor: corridor(), pins: Pins::default() }
    }

    fn new() -> Self {
        Self::of(account(9).as_str())
    }

    fn demand(&self) -> MandateDemand<'_> {
        MandateDemand { order: &self.order, corridor: &self.corridor, pins: &self.pins, now: NOW }
    }

    fn honest(&self) -> PreparedMandate {
        let named = &self.corridor.source;
        prepared(&self.order, SALT, (&named.escrow_contract_address, &named.releaser, PERMIT2))
    }

    fn refused(&self, prepared: &PreparedMandate) -> String {
        match self.demand().check(SALT, prepared) {
            Err(Error::Mismatch(mismatch)) => mismatch.field,
            other => panic!("{other:?}"),
        }
    }

    fn invalid(&self) -> String {
        match self.demand().draw_salt() {
            Err(Error::Invalid(text)) => text,
            other => panic!("{other:?}"),
        }
    }
}

/// What a gateway answers that has this order signed for, whatever it was asked.
fn prepared(
    order: &MandateOrder,
    salt: Hash32,
    (escrow, releaser, permit2): (&Account, &Account, &str),
) -> PreparedMandate {
    let (mandate, permit2) = (order.mandate(salt), permit2.parse().unwrap());
    let own = prepare_mandate(&mandate, &order.terms(), (escrow, releaser, &permit2)).unwrap();
    let body = json!({
        "message_scheme": BY_MANDATE,
        "mandate": mandate,
        "address": own.at.address,
        "contract": own.at.contract,
        "permit": {"message": own.digest, "message_prehash": own.typed_data.to_string(), "payload": {}},
        "fulfillment_verifier": {"account": releaser, "endpoint": "https://v1.example"},
        "approval": {"amount": own.all},
        "later": {"member": 1},
    });
    serde_json::from_value(body).unwrap()
}

#[tokio::test]
async fn what_was_asked_for_is_signed_and_counts_at_the_gateway() {
    let local = PrivateKeySigner::random();
    let payer = format!("{:#x}", local.address());
    let side = Side::of(&payer);
    let checked = side.demand().check(SALT, &side.honest()).unwrap();
    let signed = checked.sign(&Key::Secp256k1(local.into())).await.unwrap();
    assert_eq!(signed.payload.mandate, side.order.mandate(SALT));
    let bare = checked.unsigned();
    assert_eq!((&bare.payload.permit, &bare.address), (&None, &signed.address));
    let strangers = Key::Secp256k1(PrivateKeySigner::random().into());
    assert!(matches!(checked.sign(&strangers).await, Err(Error::Key(text)) if text.contains("pays")));

    let order = order(&payer);
    let demand = Demand {
        order: &order,
        corridor: &side.corridor,
        pins: &side.pins,
        quote_hash: Hash32::ZERO,
        price: None,
        now: NOW,
    };
    let spend = spend(&demand, Scheme::EvmPermit2Mandate, None).unwrap();
    let MandatePayload { mandate, permit } = signed.payload.clone();
    let charge = charge(
        &spend,
        &Choice { mandate: Some(serde_json::json!(mandate)), permit: permit.map(Into::into), ..Choice::default() },
    )
    .unwrap();
    assert_eq!((charge.address, charge.permit), (signed.address, signed.payload.permit));
}

#[test]
fn the_payers_own_calls_are_made_here() {
    let side = Side::new();
    let checked = side.demand().check(SALT, &side.honest()).unwrap();
    let kept = checked.unsigned();
    assert_eq!((kept.total.to_string().as_str(), kept.chain_id.as_str()), ("1320", "eip155:1"));
    let approval = kept.approval.as_ref().unwrap();
    assert_eq!(approval.to.as_str(), side.order.source.asset().reference());
    let approve = format!("0x095ea7b3{:0>64}{:064x}", PERMIT2.trim_start_matches("0x"), 1_320);
    assert_eq!((approval.data.as_str(), approval.value.as_str()), (approve.as_str(), "0x0"));
    assert_eq!(kept.allowance.to.as_str(), PERMIT2);
    assert_eq!(kept.cancel.to.as_str(), contracts::text(contract()));
    // Where the gateway says that nothing is missing, nothing is to be sent.
    let allowed = PreparedMandate { approval: None, ..side.honest() };
    assert_eq!(side.demand().check(SALT, &allowed).unwrap().unsigned().approval, None);
    assert_eq!(serde_json::from_value::<SignedMandate>(json!(kept)).unwrap(), *kept);
}

/// What the contract itself makes of the same mandates.
#[test]
fn mandates_are_those_of_the_vectors() {
    let vectors = include_str!("../../../../../../contracts/vectors/mandates.json");
    let vectors: Value = serde_json::from_str(vectors).unwrap();
    let all = vectors["mandates"].as_array().unwrap();
    assert!(all.len() > 2);
    for known in all {
        let text = |name: &str| known[name].as_str().unwrap();
        let number = |name: &str| known[name].as_u64().unwrap();
        let seconds = |name: &str| u32::try_from(number(name)).unwrap();
        let terms: Terms = serde_json::from_str(known["charges"][0]["terms"].as_str().unwrap()).unwrap();
        let mut side = Side::new();
        side.order = MandateOrder {
            source: terms.source.clone(),
            destination: terms.destination().to_vec(),
            merchant: text("merchant").parse().unwrap(),
            amount: text("amount").parse().unwrap(),
            least: text("least").parse().ok(),
            begins: number("begins"),
            period_seconds: seconds("period_seconds"),
            periods: seconds("periods"),
            lock_seconds: seconds("lock_seconds"),
        };
        let named = &mut side.corridor.source;
        named.escrow_contract_address = text("escrow").parse().unwrap();
        named.releaser = text("releaser").parse().unwrap();
        // Some allow too little time for any payment, so none is checked as a whole.
        let (_, own) = side.demand().rebuild(text("salt").parse().unwrap()).unwrap();
        assert_eq!(own.at.address.as_str(), text("address"));
        let permit = |name: &str| known["permit"][name].as_str().unwrap();
        assert_eq!(
            (own.all.to_string().as_str(), own.digest.to_string().as_str()),
            (permit("amount"), permit("digest"))
        );
        let signature = signature::bytes(permit("signature")).unwrap();
        let payer = contracts::address(side.order.source.account()).unwrap();
        assert!(signature::by_key(&signature, keccak256(own.preimage), payer).is_ok());
    }
}

#[test]
fn another_mandate_is_not_signed_and_what_differs_is_named() {
    let side = Side::new();
    let named = (&account(1), &account(3), PERMIT2);
    type Change = fn(&mut MandateOrder);
    let changes: [(&str, Change); 9] = [
        ("mandate.merchant", |order| order.merchant = account(8)),
        ("mandate.amount", |order| order.amount = "111".parse().unwrap()),
        ("mandate.least", |order| order.least = None),
        ("mandate.begins", |order| order.begins += 1),
        ("mandate.period_seconds", |order| order.period_seconds -= 1),
        ("mandate.periods", |order| order.periods += 1),
        ("mandate.lock_seconds", |order| order.lock_seconds += 1),
        ("address", |order| order.destination.push(order.source.clone())),
        ("address", |order| order.source = owned("eip155:1/erc20:0x0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a")),
    ];
    for (field, change) in changes {
        let mut other = side.order.clone();
        change(&mut other);
        assert_eq!(side.refused(&prepared(&other, SALT, named)), field);
    }
    assert_eq!(side.refused(&prepared(&side.order, Hash32([8; 32]), named)), "mandate.salt");
    let unverified = |prepared: PreparedMandate| PreparedMandate { fulfillment_verifier: None, ..prepared };
    for parties in [(&account(8), &account(3), PERMIT2), (&account(1), &account(8), PERMIT2)] {
        assert_eq!(side.refused(&unverified(prepared(&side.order, SALT, parties))), "address");
    }
    let permit2 = account(8);
    let elsewhere = prepared(&side.order, SALT, (&account(1), &account(3), permit2.as_str()));
    assert_eq!(side.refused(&elsewhere), "domain.verifyingContract");
}

#[test]
fn an_answer_that_says_one_thing_and_has_another_signed_is_refused() {
    let side = Side::new();
    let changed = |change: &dyn Fn(&mut PreparedMandate)| {
        let mut other = side.honest();
        change(&mut other);
        side.refused(&other)
    };
    assert_eq!(changed(&|other| other.message_scheme = "EVM_PERMIT2_ESCROW".to_owned()), "message_scheme");
    assert_eq!(changed(&|other| other.contract = account(8)), "contract");
    assert_eq!(changed(&|other| other.address = account(8)), "address");
    let verifier = |account: &Account| serde_json::from_value(json!({"account": account, "endpoint": ""})).unwrap();
    assert_eq!(changed(&|other| other.fulfillment_verifier = verifier(&account(8))), "fulfillment_verifier.account");
    let permit_of = |change: fn(&mut MandateOrder)| {
        let mut other = side.order.clone();
        change(&mut other);
        let permit = prepared(&other, SALT, (&account(1), &account(3), PERMIT2)).permit;
        changed(&|shown| shown.permit = permit.clone())
    };
    // Whoever else is the spender may do with the money what it likes.
    assert_eq!(permit_of(|order| order.merchant = account(8)), "message.spender");
    assert_eq!(permit_of(|order| order.amount = "1000000".parse().unwrap()), "message.details.amount");
    assert_eq!(permit_of(|order| order.period_seconds += 1), "message.details.expiration");
    let unlike = Hash32([7; 32]).to_string();
    assert_eq!(changed(&|other| other.permit.message = unlike.clone()), "permit.message");
    let unshown = |other: &mut PreparedMandate| {
        other.permit = UnsignedMessage { message: unlike.clone(), message_prehash: "0x1901".to_owned(), payload: None };
    };
    assert_eq!(changed(&unshown), "message_prehash");
}

#[test]
fn what_is_pinned_is_not_the_gateways_to_name() {
    type Change = fn(&mut Pins);
    let changes: [(&str, Change); 4] = [
        ("escrow", |pins| pins.escrow = Some(account(8))),
        ("reserver", |pins| pins.reserver = Some(account(8))),
        ("releaser", |pins| pins.releaser = Some(account(8))),
        ("permit2", |pins| pins.permit2 = Some(account(8))),
    ];
    for (field, change) in changes {
        let mut side = Side::new();
        change(&mut side.pins);
        assert_eq!(side.refused(&side.honest()), field);
        assert!(matches!(side.demand().draw_salt(), Err(Error::Mismatch(wrong)) if wrong.field == field));
    }
}

#[test]
fn a_salt_is_drawn_for_what_makes_a_mandate() {
    let salt = || Side::new().demand().draw_salt().unwrap();
    assert_ne!(salt(), salt());
    type Change = fn(&mut MandateOrder);
    let changes: [(&str, Change); 7] = [
        ("EVM chains alone", |order| {
            let asset = "tron:728126428/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t".parse().unwrap();
            order.source = OwnedAsset::new(asset, "TYHUGdNv8s5hczDosrcuVSrnfbRkXuy1dD").unwrap();
        }),
        ("cannot be signed for", |order| order.source = owned("eip155:1/slip44:60")),
        ("must not be zero", |order| order.periods = 0),
        ("must not be zero", |order| order.period_seconds = 0),
        ("at most 7200 s", |order| order.lock_seconds = 7_201),
        ("more than 960", |order| order.lock_seconds = 960),
        ("ends at", |order| order.begins = NOW - 12 * 86_400),
    ];
    for (rule, change) in changes {
        let mut side = Side::new();
        change(&mut side.order);
        let text = side.invalid();
        assert!(text.contains(rule), "{rule}: {text}");
    }
}

fn owned(asset: &str) -> OwnedAsset {
    OwnedAsset::new(asset.parse().unwrap(), account(9).as_str()).unwrap()
}
