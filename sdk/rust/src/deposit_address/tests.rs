//! What a gateway gives is computed here by the letter of the rules, of the contracts' artefacts.

use alloy::primitives::{B256, U256, address, hex, keccak256};
use events::{OwnedAsset, time::from_unix_seconds};
use serde_json::{Value, json};

use super::*;
use crate::pins::{PERMIT2, tests::NOW};

const FULFILLED: u64 = NOW + 240;
const DEPLOYER: Address = address!("4e59b44847b379578588920ca78fbf26c0b4956c");

/// A chain on which a payment by deposit address is made.
struct Side {
    family: Family,
    chain: &'static str,
    token: &'static str,
    /// CREATE2's first byte.
    prefix: u8,
    factory: Address,
    /// What the addresses of a factory run.
    implementation: fn(Address) -> Address,
    link: fn(&str, &str) -> String,
}

fn sides() -> [Side; 2] {
    [evm(), tron()]
}

fn evm() -> Side {
    Side {
        family: Family::Evm,
        chain: "eip155:1",
        token: "erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48",
        prefix: 0xff,
        factory: create2(0xff, DEPLOYER, B256::ZERO, &creation("DepositAddresses")),
        // The first creation: RLP of the address and the number 1.
        implementation: |factory| hashed(&[&hex!("d694"), factory.as_slice(), &[1]]),
        link: |token, address| format!("ethereum:{token}@1/transfer?address={address}&uint256=110"),
    }
}

fn tron() -> Side {
    Side {
        family: Family::Tron,
        chain: "tron:728126428",
        token: "trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t",
        prefix: 0x41,
        factory: address!("f4c70000000000000000000000000000000000f4"),
        implementation: |factory| create2(0x41, factory, B256::ZERO, &creation("DepositAddress")),
        link: |_, address| format!("tron:{address}"),
    }
}

/// The code that makes a contract, of its artefact.
fn creation(contract: &str) -> Vec<u8> {
    let path = format!("{}/../../contracts/artifacts/{contract}.json", env!("CARGO_MANIFEST_DIR"));
    let artefact: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    hex::decode(artefact["bytecode"].as_str().unwrap()).unwrap()
}

fn hashed(parts: &[&[u8]]) -> Address {
    Address::from_word(keccak256(parts.concat()))
}

fn create2(prefix: u8, deployer: Address, salt: B256, code: &[u8]) -> Address {
    hashed(&[&[prefix], deployer.as_slice(), salt.as_slice(), keccak256(code).as_slice()])
}

impl Side {
    fn account(&self, digit: u8) -> Account {
        self.written(Address::repeat_byte(digit * 0x11))
    }

    fn written(&self, address: Address) -> Account {
        Account::from_bytes(self.family, address.as_slice()).unwrap()
    }

    fn order(&self) -> Order {
        let source: AssetId = format!("{}/{}", self.chain, self.token).parse().unwrap();
        let destination: AssetId = "eip155:10/slip44:60".parse().unwrap();
        Order::new(
            OwnedAsset::new(source, self.account(9).as_str()).unwrap(),
            vec![OwnedAsset::new(destination, evm().account(9).as_str()).unwrap()],
            "100".parse().unwrap(),
            Some("110".parse().unwrap()),
            from_unix_seconds(NOW).unwrap(),
            Windows::default(),
        )
        .under("order-1")
    }

    fn corridor(&self) -> Corridor {
        let mut source = json!({
            "escrow_contract_address": self.account(1),
            "reserver": self.account(2),
            "releaser": self.account(3),
            "refund_delay_seconds": 900,
            "assets": [],
        });
        if self.family == Family::Evm {
            source["permit2"] = json!(PERMIT2);
        }
        Corridor {
            source: serde_json::from_value(source).unwrap(),
            refund_delay_seconds: 900,
            destinations: Vec::new(),
        }
    }

    /// All that a payer can know by itself.
    fn pins(&self) -> Pins {
        let [escrow, reserver, releaser] = [1, 2, 3].map(|digit| Some(self.account(digit)));
        let deposit_address_factory = Some(self.written(self.factory));
        Pins { escrow, reserver, releaser, deposit_address_factory, ..Pins::default() }
    }

    /// The answer of a gateway; its address and link follow what `change` does to the terms.
    fn accepted(&self, change: impl Fn(&mut Value)) -> Value {
        let (order, corridor) = (self.order(), self.corridor());
        let source = &order.source;
        let batch_id = QuoteRequestId::derive(&source.account().originator(), &order.request_id);
        let payment_id = PaymentId::derive(&source.account().originator(), batch_id.as_str());
        let mut body = json!({
            "payment_id": payment_id,
            "status": "pending",
            "deposit_address": {
                "chain_id": source.asset().chain(),
                "asset_identifier": source.asset(),
                "amount": "110",
                "pay_by": from_unix_seconds(FULFILLED - 120).unwrap(),
                "refund_account": source.account(),
                "factory": self.written(self.factory),
                "terms": {
                    "escrow": corridor.source.escrow_contract_address,
                    "token": source.asset().reference(),
                    "amount": "110",
                    "deposit": {
                        "payment_id": payment_id.on_chain(),
                        "terms_hash": order.terms().hash(),
                        "quote_hash": Hash32::ZERO,
                        "payer": source.account(),
                        "reserver": corridor.source.reserver,
                        "releaser": corridor.source.releaser,
                        "reserve_deadline": FULFILLED - 60,
                        "fulfillment_deadline": FULFILLED,
                        "refund_after": FULFILLED + 900,
                    },
                },
            },
        });
        change(&mut body);
        let computed = self.computed(&body, self.factory, (self.implementation)(self.factory));
        let given = body["deposit_address"].as_object_mut().unwrap();
        let address = given.entry("address").or_insert_with(|| json!(computed)).clone();
        let link = (self.link)(source.asset().reference(), address.as_str().unwrap());
        given.entry("uri").or_insert_with(|| json!(link));
        body
    }

    /// Where the terms that are shown lead.
    fn computed(&self, body: &Value, factory: Address, implementation: Address) -> Account {
        let code = [
            &hex!("3d602d80600a3d3981f3363d3d373d3d3d363d73")[..],
            implementation.as_slice(),
            &hex!("5af43d82803e903d91602b57fd5bf3"),
        ];
        self.written(create2(self.prefix, factory, keccak256(self.words(body)), &code.concat()))
    }

    /// The terms that are shown, as Solidity's ABI has them.
    fn words(&self, body: &Value) -> Vec<u8> {
        let shown = |pointer: &str| body.pointer(&format!("/deposit_address/terms{pointer}")).unwrap();
        let account = |pointer: &str| {
            let account = Account::parse(self.family, shown(pointer).as_str().unwrap()).unwrap();
            B256::left_padding_from(&account.to_bytes())
        };
        let hash = |name: &str| shown(&format!("/deposit/{name}")).as_str().unwrap().parse::<B256>().unwrap();
        let time = |name: &str| B256::from(U256::from(shown(&format!("/deposit/{name}")).as_u64().unwrap()));
        let amount: U256 = shown("/amount").as_str().unwrap().parse().unwrap();
        [
            account("/escrow"),
            account("/token"),
            B256::from(amount),
            hash("payment_id"),
            hash("terms_hash"),
            hash("quote_hash"),
            account("/deposit/payer"),
            account("/deposit/reserver"),
            account("/deposit/releaser"),
            time("reserve_deadline"),
            time("fulfillment_deadline"),
            time("refund_after"),
        ]
        .concat()
    }

    fn check(&self, pins: &Pins, body: Value) -> Result<Checked, Error> {
        let (order, corridor) = (self.order(), self.corridor());
        demand(&order, &batch(&order), &corridor, pins).check(&serde_json::from_value(body).unwrap())
    }
}

fn batch(order: &Order) -> Batch {
    let id = QuoteRequestId::derive(&order.source.account().originator(), &order.request_id);
    let mut body = order.body().unwrap();
    body.insert("quote_request_id".to_owned(), json!(id));
    body.insert("status".to_owned(), json!("collecting"));
    serde_json::from_value(Value::Object(body)).unwrap()
}

fn demand<'a>(order: &'a Order, batch: &'a Batch, corridor: &'a Corridor, pins: &'a Pins) -> Demand<'a> {
    Demand { order, batch, corridor, pins, amount: None, pay_by: None, caller_secret: None, now: NOW }
}

fn differs(checked: &Result<Checked, Error>) -> Option<&str> {
    match checked {
        Err(Error::Mismatch(mismatch)) => Some(&mismatch.field),
        _ => None,
    }
}

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
    let address = |factory| (tron::FAMILY.written)((tron::FAMILY.address_for)(factory, &terms));
    let factory = (tron::FAMILY.read)(&"TYHUGdNv8s5hczDosrcuVSrnfbRkXuy1dD".parse().unwrap()).unwrap();
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
        assert_eq!(
            (json!(checked.payment_id), &checked.factory),
            (body["payment_id"].clone(), &side.written(side.factory))
        );
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
        for (field, value) in [("address", other), ("uri", json!(forged)), ("uri", json!(""))] {
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

/// Accounts of another case do not parse; what is text is compared to the letter on Tron alone.
#[test]
fn case_counts_on_tron_alone() {
    let swapped = |text: &str| -> String {
        let cased = |letter: char| match letter {
            'L' | 'O' | 'I' | 'x' => letter,
            'a'..='z' => letter.to_ascii_uppercase(),
            _ => letter.to_ascii_lowercase(),
        };
        let (head, tail) = text.split_at(text.len() - 3);
        format!("{head}{}", tail.chars().map(cased).collect::<String>())
    };
    let change = |side: &Side, pointer: &str| {
        let mut body = side.accepted(|_| ());
        let text = body.pointer(pointer).and_then(Value::as_str).map(swapped).unwrap();
        *body.pointer_mut(pointer).unwrap() = json!(text);
        body
    };
    for (field, pointer) in
        [("asset_identifier", "/deposit_address/asset_identifier"), ("terms.token", "/deposit_address/terms/token")]
    {
        let refused = tron().check(&tron().pins(), change(&tron(), pointer));
        assert_eq!(differs(&refused), Some(field), "{refused:?}");
        assert!(evm().check(&evm().pins(), change(&evm(), pointer)).is_ok(), "{field}");
    }
    let refused = tron().check(&tron().pins(), change(&tron(), "/deposit_address/uri"));
    assert_eq!(differs(&refused), Some("uri"), "{refused:?}");
    let mut upper = evm().accepted(|_| ());
    upper["deposit_address"]["uri"] = json!(upper["deposit_address"]["uri"].as_str().unwrap().to_uppercase());
    assert!(evm().check(&Pins::default(), upper).is_ok());
    for pointer in [
        "/factory",
        "/address",
        "/refund_account",
        "/terms/escrow",
        "/terms/deposit/payer",
        "/terms/deposit/reserver",
        "/terms/deposit/releaser",
    ] {
        let body = change(&tron(), &format!("/deposit_address{pointer}"));
        assert!(serde_json::from_value::<Payment>(body).is_err(), "{pointer}");
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
    let stranger = Address::repeat_byte(0x88);
    for side in sides() {
        for (factory, code) in [(stranger, (side.implementation)(stranger)), (side.factory, stranger)] {
            let mut body = side.accepted(|_| ());
            body["deposit_address"]["address"] = json!(side.computed(&body, factory, code));
            let refused = side.check(&Pins::default(), body);
            assert_eq!(differs(&refused), Some("address"), "{refused:?}");
        }
    }
}

/// Names another factory, with its address.
fn of_factory(side: &Side, factory: Address) -> Value {
    side.accepted(|body| {
        let address = side.computed(body, factory, (side.implementation)(factory));
        body["deposit_address"]["factory"] = json!(side.written(factory));
        body["deposit_address"]["address"] = json!(address);
    })
}

#[test]
fn another_factory_is_refused_where_the_payer_knows_one() {
    let stranger = Address::repeat_byte(0x88);
    for (side, pins) in [(evm(), Pins::default()), (evm(), evm().pins()), (tron(), tron().pins())] {
        let refused = side.check(&pins, of_factory(&side, stranger));
        assert_eq!(differs(&refused), Some("factory"), "{refused:?}");
    }
    // On EVM chains no pin makes another one right.
    let pins = Pins { deposit_address_factory: Some(evm().account(8)), ..Pins::default() };
    for factory in [stranger, evm().factory] {
        let refused = evm().check(&pins, of_factory(&evm(), factory));
        assert_eq!(differs(&refused), Some("factory"), "{refused:?}");
    }
    let foreign = tron().accepted(|body| body["deposit_address"]["factory"] = json!(evm().account(8)));
    let refused = tron().check(&Pins::default(), foreign);
    assert_eq!(differs(&refused), Some("factory"), "{refused:?}");
}

#[test]
fn a_factory_that_nobody_pinned_is_believed_and_listed() {
    let believed = |side: &Side, pins: &Pins, body: Value| {
        let (order, corridor) = (side.order(), side.corridor());
        let checked = side.check(pins, body).unwrap();
        demand(&order, &batch(&order), &corridor, pins).believed(&checked)
    };
    let side = tron();
    let stranger = of_factory(&side, Address::repeat_byte(0x88));
    let unpinned = Pins { deposit_address_factory: None, ..side.pins() };
    assert_eq!(believed(&side, &unpinned, stranger.clone()), [("deposit_address_factory", side.account(8))]);
    let names = believed(&side, &Pins::default(), stranger).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names, ["escrow", "reserver", "releaser", "deposit_address_factory"]);
    assert_eq!(believed(&side, &side.pins(), side.accepted(|_| ())), []);
    // On EVM chains it is known without a pin.
    let unpinned = Pins { deposit_address_factory: None, ..evm().pins() };
    assert_eq!(believed(&evm(), &unpinned, evm().accepted(|_| ())), []);
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
    for asset in ["eip155:1/slip44:60", "tron:728126428/slip44:195", "tron:728126428/trc20:0x1"] {
        let asset: AssetId = asset.parse().unwrap();
        let family = asset.chain().family().unwrap();
        assert!(matches!((AddressFamily::of(family).unwrap().token)(&asset), Err(Error::Invalid(_))), "{asset}");
    }
    assert!(matches!(AddressFamily::of(Family::Solana), Err(Error::Invalid(text)) if text.contains("solana")));
}

#[test]
fn the_call_that_gives_back_names_the_terms_and_their_factory() {
    let stranger = Address::repeat_byte(0x88);
    let of_nobodys = of_factory(&tron(), stranger);
    for (side, factory, body) in [
        (evm(), evm().factory, evm().accepted(|_| ())),
        (tron(), tron().factory, tron().accepted(|_| ())),
        (tron(), stranger, of_nobodys),
    ] {
        let checked = side.check(&Pins::default(), body).unwrap();
        let (to, data) = checked.give_back(Some(&checked.asset)).unwrap();
        let call = DepositAddresses::giveBackCall::abi_decode(&data).unwrap();
        assert_eq!((to, call.token, call.t), (factory, checked.terms.token, checked.terms.clone()));
        let (_, data) = checked.give_back(None).unwrap();
        assert_eq!(DepositAddresses::giveBackCall::abi_decode(&data).unwrap().token, Address::ZERO);
        assert!(matches!(checked.give_back(Some(&"eip155:1/slip44:60".parse().unwrap())), Err(Error::Invalid(_))));
    }
}
