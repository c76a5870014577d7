//! What a gateway gives is held against the payer's own order, on each family's chains.

mod sides;
mod solana;

use alloy::{
    primitives::{Address, B256, U256, address},
    sol_types::SolCall,
};
use escrow_abi::{contracts::time, deposit_addresses::GatewayEscrow};
use events::time::from_unix_seconds;
use serde_json::{Value, json};

use self::sides::{FULFILLED, Rule, Side, batch, demand, differs, evm, sides, tron};
use super::*;
use crate::pins::tests::NOW;

/// Made with ethers and TronWeb of contracts/artifacts/DepositAddress.json.
#[test]
fn terms_on_tron_have_the_address_that_others_compute() {
    let byte = Address::repeat_byte;
    let terms = DepositAddresses::Terms {
        escrow: byte(0xe5),
        token: address!("a614f803b6fd780986a42c78ec9c7f77e6ded13c"),
        amount: U256::from(25_000_000),
        deposit: GatewayEscrow::GatewayDeposit {
            paymentId: B256::repeat_byte(1),
            termsHash: B256::repeat_byte(2),
            quoteHash: B256::ZERO,
            payer: byte(0x91),
            reserver: byte(0x92),
            releaser: byte(0x93),
            reserveDeadline: time(1_800_000_000).unwrap(),
            fulfillmentDeadline: time(1_800_000_600).unwrap(),
            refundAfter: time(1_800_003_600).unwrap(),
        },
    };
    let words = super::tron::WORDS;
    let address = |factory| (words.written)((words.address_for)(factory, &terms));
    let factory = (words.read)(&"TYHUGdNv8s5hczDosrcuVSrnfbRkXuy1dD".parse().unwrap()).unwrap();
    assert_eq!(address(factory), "TVF8cdAdWqRaKamYypREyvHzPLBx1EWWnj");
    assert_ne!(address(byte(0xe5)), "TVF8cdAdWqRaKamYypREyvHzPLBx1EWWnj");
}

#[test]
fn the_address_of_the_payers_own_order_is_taken() {
    for side in sides() {
        let body = side.accepted(|_| ());
        let checked = side.check(&Pins::default(), body.clone()).unwrap();
        assert_eq!(side.check(&side.pins(), body.clone()).unwrap(), checked);
        let given = &body["deposit_address"];
        assert_eq!((json!(checked.address), json!(checked.uri)), (given["address"].clone(), given["uri"].clone()));
        assert_eq!((checked.amount, &checked.refund_account), ("110".parse().unwrap(), &side.account(9)));
        assert_eq!((json!(checked.payment_id), &checked.factory), (body["payment_id"].clone(), &side.factory));
        assert_ne!(checked.payment_id, side.order().payment_id(), "the payment is that of the batch");
    }
}

#[test]
fn every_member_that_is_changed_is_noticed() {
    for side in sides() {
        let (other, hash) = (json!(side.account(8)), json!(Hash32([1; 32])));
        let (chain, asset) = (json!("eip155:10"), json!("eip155:10/slip44:60"));
        let terms = "/deposit_address/terms";
        for (field, pointer, value) in [
            ("payment_id", "/payment_id".to_owned(), json!(PaymentId::derive("x", "y"))),
            ("chain_id", "/deposit_address/chain_id".to_owned(), chain),
            ("asset_identifier", "/deposit_address/asset_identifier".to_owned(), asset),
            ("amount", "/deposit_address/amount".to_owned(), json!("111")),
            ("refund_account", "/deposit_address/refund_account".to_owned(), other.clone()),
            (
                "terms.deposit.reserve_deadline",
                "/deposit_address/pay_by".to_owned(),
                json!(from_unix_seconds(FULFILLED)),
            ),
            ("terms.escrow", format!("{terms}/escrow"), other.clone()),
            ("terms.token", format!("{terms}/token"), other.clone()),
            ("terms.amount", format!("{terms}/amount"), json!("109")),
            ("terms.deposit.payment_id", format!("{terms}/deposit/payment_id"), hash.clone()),
            ("terms.deposit.terms_hash", format!("{terms}/deposit/terms_hash"), hash.clone()),
            ("terms.deposit.quote_hash", format!("{terms}/deposit/quote_hash"), hash),
            ("terms.deposit.payer", format!("{terms}/deposit/payer"), other.clone()),
            ("terms.deposit.reserver", format!("{terms}/deposit/reserver"), other.clone()),
            ("terms.deposit.releaser", format!("{terms}/deposit/releaser"), other.clone()),
            (
                "terms.deposit.fulfillment_deadline",
                format!("{terms}/deposit/fulfillment_deadline"),
                json!(FULFILLED + 1),
            ),
            ("terms.deposit.reserve_deadline", format!("{terms}/deposit/reserve_deadline"), json!(FULFILLED + 1)),
            ("terms.deposit.refund_after", format!("{terms}/deposit/refund_after"), json!(FULFILLED)),
            ("terms.deposit.refund_after", format!("{terms}/deposit/refund_after"), json!(FULFILLED + 901)),
        ] {
            let body = side.accepted(|body| *body.pointer_mut(&pointer).unwrap() = value.clone());
            let refused = side.check(&Pins::default(), body);
            assert_eq!(differs(&refused), Some(field), "{refused:?}");
        }
        let forged = (side.link)("0x1", "0x2");
        let own = side.accepted(|_| ())["deposit_address"]["uri"].as_str().unwrap().to_owned();
        let longer = format!("{own}&amount=110");
        for (field, value) in [("address", other), ("uri", json!(forged)), ("uri", json!("")), ("uri", json!(longer))] {
            let body = side.accepted(|body| body["deposit_address"][field] = value.clone());
            let refused = side.check(&Pins::default(), body);
            assert_eq!(differs(&refused), Some(field), "{refused:?}");
        }
        let mut none = side.accepted(|_| ());
        none.as_object_mut().unwrap().remove("deposit_address");
        let refused = side.check(&Pins::default(), none);
        assert_eq!(differs(&refused), Some("deposit_address"), "{refused:?}");
    }
}

/// The last letters in the other case, where Base58 has both.
fn swapped(text: &str) -> String {
    let cased = |letter: char| match letter {
        'L' | 'O' | 'I' | 'i' | 'o' | 'x' => letter,
        'a'..='z' => letter.to_ascii_uppercase(),
        _ => letter.to_ascii_lowercase(),
    };
    let (head, tail) = text.split_at(text.len() - 3);
    let swapped = format!("{head}{}", tail.chars().map(cased).collect::<String>());
    assert_ne!(swapped, text);
    swapped
}

/// What is text is compared to the letter on Solana and Tron. Accounts of another case do not parse on Tron; on Solana they are others.
#[test]
fn case_counts_in_base58_alone() {
    let change = |side: &Side, pointer: &str| {
        let mut body = side.accepted(|_| ());
        let text = body.pointer(pointer).and_then(Value::as_str).map(swapped).unwrap();
        *body.pointer_mut(pointer).unwrap() = json!(text);
        body
    };
    for (field, pointer) in
        [("asset_identifier", "/deposit_address/asset_identifier"), ("terms.token", "/deposit_address/terms/token")]
    {
        for side in [sides::solana(), tron()] {
            let refused = side.check(&side.pins(), change(&side, pointer));
            assert_eq!(differs(&refused), Some(field), "{refused:?}");
        }
        assert!(evm().check(&evm().pins(), change(&evm(), pointer)).is_ok(), "{field}");
    }
    for side in [sides::solana(), tron()] {
        let refused = side.check(&side.pins(), change(&side, "/deposit_address/uri"));
        assert_eq!(differs(&refused), Some("uri"), "{refused:?}");
    }
    let mut upper = evm().accepted(|_| ());
    upper["deposit_address"]["uri"] = json!(upper["deposit_address"]["uri"].as_str().unwrap().to_uppercase());
    assert!(evm().check(&Pins::default(), upper).is_ok());
    for field in [
        "factory",
        "address",
        "refund_account",
        "terms.escrow",
        "terms.deposit.payer",
        "terms.deposit.reserver",
        "terms.deposit.releaser",
    ] {
        let pointer = format!("/deposit_address/{}", field.replace('.', "/"));
        assert!(serde_json::from_value::<Payment>(change(&tron(), &pointer)).is_err(), "{pointer}");
        let refused = sides::solana().check(&Pins::default(), change(&sides::solana(), &pointer));
        assert_eq!(differs(&refused), Some(field), "{refused:?}");
    }
}

#[test]
fn an_address_of_before_is_refused() {
    for side in sides() {
        let (order, corridor, pins) = (side.order(), side.corridor(), side.pins());
        let batch = batch(&order);
        let demand = demand(&order, &batch, &corridor, &pins);
        let accepted = side.accepted(|_| ());
        let checked =
            |demand: Demand<'_>, accepted: &Value| demand.check(&serde_json::from_value(accepted.clone()).unwrap());
        for status in ["finalizing", "completed", "failed"] {
            let mut over = accepted.clone();
            over["status"] = json!(status);
            let refused = checked(demand, &over);
            assert!(
                matches!(&refused, Err(Error::Mismatch(wrong)) if wrong.field == "status" && wrong.found == status),
                "{refused:?}"
            );
        }
        let (paid, at) = (FULFILLED - 120, from_unix_seconds);
        for (now, asked, holds) in [
            (paid - 5, None, true),
            (paid - 4, None, false),
            (paid + 1, None, false),
            (NOW, at(paid).map(|at| at + Duration::from_millis(999)), true),
            (NOW, at(paid - 1), false),
            (NOW, at(paid + 1), false),
        ] {
            let found = checked(Demand { now, pay_by: asked, ..demand }, &accepted);
            assert_eq!(
                (found.is_ok(), differs(&found)),
                (holds, (!holds).then_some("pay_by")),
                "{now} {asked:?}: {found:?}"
            );
        }
    }
}

#[test]
fn the_secret_is_part_of_the_batch() {
    let side = evm();
    let (order, corridor, pins) = (side.order(), side.corridor(), Pins::default());
    let (mut batch, secret) = (batch(&order), "correct-horse-battery");
    let refused = Demand { caller_secret: Some(secret), ..demand(&order, &batch, &corridor, &pins) }.payment();
    assert!(matches!(&refused, Err(Error::Mismatch(wrong)) if wrong.field == "quote_request_id"), "{refused:?}");
    let (plain, ..) = demand(&order, &batch, &corridor, &pins).payment().unwrap();
    let originator = order.source.account().originator();
    batch.quote_request_id =
        QuoteRequestId::derive_with_secret(&originator, &order.request_id, &Hash32::sha256(secret));
    let own = Demand { caller_secret: Some(secret), ..demand(&order, &batch, &corridor, &pins) }.payment();
    assert_ne!(own.unwrap().0, plain);
    assert!(demand(&order, &batch, &corridor, &pins).payment().is_err());
}

#[test]
fn addresses_of_another_factory_are_refused() {
    for side in sides() {
        let stranger = side.account(8);
        let own = side.accepted(|_| ());
        let mut others = vec![side.computed(&own, &stranger)];
        if let Rule::Proxy { prefix, .. } = side.rule {
            let [factory, code] = [&side.factory, &stranger].map(|account| Address::from_slice(&account.to_bytes()));
            others.push(side.proxy(&own, prefix, factory, code));
        }
        for other in others {
            let body = side.accepted(|body| body["deposit_address"]["address"] = json!(other));
            let refused = side.check(&Pins::default(), body);
            assert_eq!(differs(&refused), Some("address"), "{refused:?}");
        }
    }
}

#[test]
fn another_factory_is_refused_where_the_payer_knows_one() {
    // On Solana it is the escrow's program, whether anything is pinned or not.
    for (side, pins) in [
        (evm(), Pins::default()),
        (evm(), evm().pins()),
        (sides::solana(), Pins::default()),
        (sides::solana(), sides::solana().pins()),
        (tron(), tron().pins()),
    ] {
        let refused = side.check(&pins, side.of_factory(&side.account(8)));
        assert_eq!(differs(&refused), Some("factory"), "{refused:?}");
    }
    // There and on EVM chains no pin makes another one right.
    for side in [evm(), sides::solana()] {
        let pins = Pins { deposit_address_factory: Some(side.account(8)), ..Pins::default() };
        for factory in [&side.account(8), &side.factory] {
            let refused = side.check(&pins, side.of_factory(factory));
            assert_eq!(differs(&refused), Some("factory"), "{refused:?}");
        }
    }
    for foreign in [evm(), sides::solana()] {
        let body = tron().accepted(|body| body["deposit_address"]["factory"] = json!(foreign.account(8)));
        let refused = tron().check(&Pins::default(), body);
        assert_eq!(differs(&refused), Some("factory"), "{refused:?}");
    }
}

#[test]
fn a_factory_that_nobody_pinned_is_believed_and_listed() {
    let believed = |side: &Side, pins: &Pins, body: Value| {
        let (order, corridor) = (side.order(), side.corridor());
        let checked = side.check(pins, body).unwrap();
        demand(&order, &batch(&order), &corridor, pins).believed(&checked)
    };
    let side = tron();
    let stranger = side.of_factory(&side.account(8));
    let unpinned = Pins { deposit_address_factory: None, ..side.pins() };
    assert_eq!(believed(&side, &unpinned, stranger.clone()), [("deposit_address_factory", side.account(8))]);
    let names = believed(&side, &Pins::default(), stranger).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names, ["escrow", "reserver", "releaser", "deposit_address_factory"]);
    assert_eq!(believed(&side, &side.pins(), side.accepted(|_| ())), []);
    // On EVM chains and Solana it is known without a pin.
    for side in [evm(), sides::solana()] {
        let unpinned = Pins { deposit_address_factory: None, ..side.pins() };
        assert_eq!(believed(&side, &unpinned, side.accepted(|_| ())), []);
    }
}

#[test]
fn batch_and_pins_are_the_payers() {
    for side in sides() {
        let (order, corridor, body) = (side.order(), side.corridor(), side.accepted(|_| ()));
        let checked = |order: &Order, batch: &Batch, pins: &Pins| {
            demand(order, batch, &corridor, pins).check(&serde_json::from_value(body.clone()).unwrap())
        };
        let mut other = batch(&order);
        other.quote_request_id = QuoteRequestId::derive("x", "y");
        let refused = checked(&order, &other, &Pins::default());
        assert_eq!(differs(&refused), Some("quote_request_id"), "{refused:?}");
        let mut other = batch(&order);
        other.fulfillment_amount = "1".parse().unwrap();
        let refused = checked(&order, &other, &Pins::default());
        assert_eq!(differs(&refused), Some("the batch"), "{refused:?}");
        let pins = Pins { escrow: Some(side.account(8)), ..Pins::default() };
        let refused = checked(&order, &batch(&order), &pins);
        assert_eq!(differs(&refused), Some("escrow"), "{refused:?}");
        let uncapped = Order { max_source_amount: None, ..order };
        let refused = checked(&uncapped, &batch(&uncapped), &Pins::default());
        assert!(matches!(&refused, Err(Error::Invalid(text)) if text.contains("max_source_amount")), "{refused:?}");
    }
}

#[test]
fn what_has_no_address_is_said() {
    let solana = sides::solana().chain;
    for asset in [
        "eip155:1/slip44:60",
        "tron:728126428/slip44:195",
        "tron:728126428/trc20:0x1",
        &format!("{solana}/slip44:501"),
        &format!("{solana}/token:11111111111111111111111111111111"),
    ] {
        let asset: AssetId = asset.parse().unwrap();
        let family = asset.chain().family().unwrap();
        assert!(matches!((AddressFamily::of(family).unwrap().token)(&asset), Err(Error::Invalid(_))), "{asset}");
    }
}

#[test]
fn the_call_that_gives_back_names_the_terms_and_their_factory() {
    let stranger = tron().account(8);
    let of_nobodys = tron().of_factory(&stranger);
    for (side, factory, body) in [
        (evm(), evm().factory, evm().accepted(|_| ())),
        (tron(), tron().factory, tron().accepted(|_| ())),
        (tron(), stranger, of_nobodys),
    ] {
        let checked = side.check(&Pins::default(), body).unwrap();
        let AddressTerms::Solidity(terms) = &checked.terms else { panic!("{:?}", checked.terms) };
        let (to, data) = checked.give_back(Some(&checked.asset)).unwrap();
        let call = DepositAddresses::giveBackCall::abi_decode(&data).unwrap();
        assert_eq!((to.to_vec(), call.token, &call.t), (factory.to_bytes(), terms.token, terms));
        let (_, data) = checked.give_back(None).unwrap();
        assert_eq!(DepositAddresses::giveBackCall::abi_decode(&data).unwrap().token, Address::ZERO);
        assert!(matches!(checked.give_back(Some(&"eip155:1/slip44:60".parse().unwrap())), Err(Error::Invalid(_))));
        let on_solana = sides::solana();
        let mint = on_solana.order().source.asset().clone();
        let refused = checked.give_back_token(&mint, &on_solana.account(5), &on_solana.account(6), true);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        assert!(matches!(checked.give_back_lamports(), Err(Error::Invalid(_))));
    }
}
