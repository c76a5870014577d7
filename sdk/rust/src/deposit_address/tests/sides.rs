//! What an honest gateway gives on each family's chains, by the letter of the rules and of the contracts' artefacts: the code under test
//! has no part in it.

use alloy::primitives::{Address, B256, U256, address, hex, keccak256};
use ed25519_dalek::VerifyingKey;
use events::{Account, AssetId, Family, Hash32, OwnedAsset, PaymentId, QuoteRequestId, time::from_unix_seconds};
use serde_json::{Value, json};

use super::super::{Checked, Demand};
use crate::{
    answers::{Batch, Corridor},
    error::Error,
    order::{Order, Windows},
    pins::{PERMIT2, Pins, tests::NOW},
};

pub(super) const FULFILLED: u64 = NOW + 240;
const DEPLOYER: Address = address!("4e59b44847b379578588920ca78fbf26c0b4956c");

/// A chain on which a payment by deposit address is made.
pub(super) struct Side {
    pub family: Family,
    pub chain: &'static str,
    pub token: &'static str,
    pub factory: Account,
    pub rule: Rule,
    pub link: fn(&str, &str) -> String,
}

/// How an address follows from terms and what makes it.
pub(super) enum Rule {
    /// By CREATE2, whose first byte differs, that of a proxy of what a factory's addresses run.
    Proxy { prefix: u8, implementation: fn(Address) -> Address },
    /// One that the program derives.
    Derived,
}

pub(super) fn sides() -> [Side; 3] {
    [evm(), solana(), tron()]
}

pub(super) fn evm() -> Side {
    let factory = create2(0xff, DEPLOYER, B256::ZERO, &creation("DepositAddresses"));
    Side {
        family: Family::Evm,
        chain: "eip155:1",
        token: "erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48",
        factory: written(Family::Evm, factory.as_slice()),
        rule: Rule::Proxy {
            prefix: 0xff,
            // The first creation: RLP of the address and the number 1.
            implementation: |factory| hashed(&[&hex!("d694"), factory.as_slice(), &[1]]),
        },
        link: |token, address| format!("ethereum:{token}@1/transfer?address={address}&uint256=110"),
    }
}

pub(super) fn solana() -> Side {
    Side {
        family: Family::Solana,
        chain: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
        token: "token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
        // The escrow.
        factory: written(Family::Solana, &[0x11; 32]),
        rule: Rule::Derived,
        link: |token, address| format!("solana:{address}?spl-token={token}"),
    }
}

pub(super) fn tron() -> Side {
    Side {
        family: Family::Tron,
        chain: "tron:728126428",
        token: "trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t",
        factory: written(Family::Tron, &hex!("f4c70000000000000000000000000000000000f4")),
        rule: Rule::Proxy {
            prefix: 0x41,
            implementation: |factory| create2(0x41, factory, B256::ZERO, &creation("DepositAddress")),
        },
        link: |_, address| format!("tron:{address}"),
    }
}

fn written(family: Family, bytes: &[u8]) -> Account {
    Account::from_bytes(family, bytes).unwrap()
}

/// The code that makes a contract, of its artefact.
fn creation(contract: &str) -> Vec<u8> {
    let artefact = repository(&format!("contracts/artifacts/{contract}.json"));
    hex::decode(artefact["bytecode"].as_str().unwrap()).unwrap()
}

/// A JSON file of this repository.
pub(super) fn repository(path: &str) -> Value {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn hashed(parts: &[&[u8]]) -> Address {
    Address::from_word(keccak256(parts.concat()))
}

fn create2(prefix: u8, deployer: Address, salt: B256, code: &[u8]) -> Address {
    hashed(&[&[prefix], deployer.as_slice(), salt.as_slice(), keccak256(code).as_slice()])
}

/// The address that a program derives for the terms of these 257 bytes: of the first bump from above that leads to no point of the curve.
pub(super) fn derived(program: &[u8], terms: &[u8]) -> [u8; 32] {
    assert_eq!(terms.len(), 257);
    let hash = Hash32::sha256([b"gw-address", &[1][..], terms].concat());
    program_address(program, &[b"address", &hash.0])
}

/// The address that a program derives from seeds.
pub(super) fn program_address(program: &[u8], seeds: &[&[u8]]) -> [u8; 32] {
    let at = |bump| Hash32::sha256([&seeds.concat(), &[bump][..], program, b"ProgramDerivedAddress"].concat()).0;
    (0..=u8::MAX).rev().map(at).find(|key| VerifyingKey::from_bytes(key).is_err()).unwrap()
}

impl Side {
    pub fn account(&self, digit: u8) -> Account {
        let bytes = if self.family == Family::Solana { 32 } else { 20 };
        written(self.family, &vec![digit * 0x11; bytes])
    }

    pub fn order(&self) -> Order {
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

    pub fn corridor(&self) -> Corridor {
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
    pub fn pins(&self) -> Pins {
        let [escrow, reserver, releaser] = [1, 2, 3].map(|digit| Some(self.account(digit)));
        let deposit_address_factory = Some(self.factory.clone());
        Pins { escrow, reserver, releaser, deposit_address_factory, ..Pins::default() }
    }

    /// The answer of a gateway; its address and link follow what `change` does to the terms.
    pub fn accepted(&self, change: impl Fn(&mut Value)) -> Value {
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
                "factory": self.factory,
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
        let computed = self.computed(&body, &self.factory);
        let given = body["deposit_address"].as_object_mut().unwrap();
        let address = given.entry("address").or_insert_with(|| json!(computed)).clone();
        let link = (self.link)(source.asset().reference(), address.as_str().unwrap());
        given.entry("uri").or_insert_with(|| json!(link));
        body
    }

    /// Names another factory, with its address.
    pub fn of_factory(&self, factory: &Account) -> Value {
        self.accepted(|body| {
            let address = self.computed(body, factory);
            body["deposit_address"]["factory"] = json!(factory);
            body["deposit_address"]["address"] = json!(address);
        })
    }

    /// Where the terms that are shown lead, of what `factory` makes.
    pub fn computed(&self, body: &Value, factory: &Account) -> Account {
        match self.rule {
            Rule::Proxy { prefix, implementation } => {
                let factory = Address::from_slice(&factory.to_bytes());
                self.proxy(body, prefix, factory, implementation(factory))
            }
            Rule::Derived => written(self.family, &derived(&factory.to_bytes(), &self.signed(body))),
        }
    }

    /// Where a proxy of `implementation` is that a factory makes for the terms that are shown.
    pub fn proxy(&self, body: &Value, prefix: u8, factory: Address, implementation: Address) -> Account {
        let code = [
            &hex!("3d602d80600a3d3981f3363d3d373d3d3d363d73")[..],
            implementation.as_slice(),
            &hex!("5af43d82803e903d91602b57fd5bf3"),
        ];
        written(self.family, create2(prefix, factory, keccak256(self.words(body)), &code.concat()).as_slice())
    }

    /// The terms that are shown, as Solidity's ABI has them.
    fn words(&self, body: &Value) -> Vec<u8> {
        let shown = Shown { family: self.family, terms: &body["deposit_address"]["terms"] };
        let account = |pointer: &str| B256::left_padding_from(&shown.account(pointer));
        let time = |name: &str| B256::from(U256::from(shown.time(name)));
        [
            account("/escrow"),
            account("/token"),
            B256::from(shown.amount()),
            shown.hash("payment_id"),
            shown.hash("terms_hash"),
            shown.hash("quote_hash"),
            account("/deposit/payer"),
            account("/deposit/reserver"),
            account("/deposit/releaser"),
            time("reserve_deadline"),
            time("fulfillment_deadline"),
            time("refund_after"),
        ]
        .concat()
    }

    /// The terms that are shown, as payers on Solana sign them: contracts/solana/README.md lists the members.
    fn signed(&self, body: &Value) -> Vec<u8> {
        let shown = Shown { family: self.family, terms: &body["deposit_address"]["terms"] };
        [
            vec![0],
            shown.hash("payment_id").to_vec(),
            shown.hash("terms_hash").to_vec(),
            shown.hash("quote_hash").to_vec(),
            shown.account("/deposit/payer"),
            shown.account("/token"),
            shown.amount().to::<u64>().to_le_bytes().to_vec(),
            shown.account("/deposit/reserver"),
            shown.account("/deposit/releaser"),
            shown.time("reserve_deadline").to_le_bytes().to_vec(),
            shown.time("fulfillment_deadline").to_le_bytes().to_vec(),
            shown.time("refund_after").to_le_bytes().to_vec(),
        ]
        .concat()
    }

    pub fn check(&self, pins: &Pins, body: Value) -> Result<Checked, Error> {
        let (order, corridor) = (self.order(), self.corridor());
        demand(&order, &batch(&order), &corridor, pins).check(&serde_json::from_value(body).unwrap())
    }
}

/// Terms as a gateway shows them.
struct Shown<'a> {
    family: Family,
    terms: &'a Value,
}

impl Shown<'_> {
    fn text(&self, pointer: &str) -> &str {
        self.terms.pointer(pointer).and_then(Value::as_str).unwrap()
    }

    fn account(&self, pointer: &str) -> Vec<u8> {
        Account::parse(self.family, self.text(pointer)).unwrap().to_bytes()
    }

    fn amount(&self) -> U256 {
        self.text("/amount").parse().unwrap()
    }

    fn hash(&self, name: &str) -> B256 {
        self.text(&format!("/deposit/{name}")).parse().unwrap()
    }

    fn time(&self, name: &str) -> u64 {
        self.terms["deposit"][name].as_u64().unwrap()
    }
}

pub(super) fn batch(order: &Order) -> Batch {
    let id = QuoteRequestId::derive(&order.source.account().originator(), &order.request_id);
    let mut body = order.body().unwrap();
    body.insert("quote_request_id".to_owned(), json!(id));
    body.insert("status".to_owned(), json!("collecting"));
    serde_json::from_value(Value::Object(body)).unwrap()
}

pub(super) fn demand<'a>(order: &'a Order, batch: &'a Batch, corridor: &'a Corridor, pins: &'a Pins) -> Demand<'a> {
    Demand { order, batch, corridor, pins, amount: None, pay_by: None, caller_secret: None, now: NOW }
}

/// The member in which what was given is not the payer's own.
pub(super) fn differs(checked: &Result<Checked, Error>) -> Option<&str> {
    match checked {
        Err(Error::Mismatch(mismatch)) => Some(&mismatch.field),
        _ => None,
    }
}
