use alloy::{primitives::Address, signers::local::PrivateKeySigner};
use chains_evm::authorization::{SignedMessage, authorize};
use events::{Terms, time::from_unix_seconds};

use super::*;
use crate::pins::tests::{NOW, account, corridor, order};

const OTHER_TOKEN: &str = "eip155:1/erc20:0x0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";

/// Five payments; the second in another token, the third over a chain that is slow, and with a deadline of its own.
struct Side {
    orders: Vec<Order>,
    corridors: Vec<Corridor>,
    pins: Pins,
}

impl Side {
    fn of(payer: &str) -> Self {
        let mut orders: Vec<Order> = (0..5).map(|at| order(payer).under(format!("wages-{at}"))).collect();
        orders[1].source = OwnedAsset::new(OTHER_TOKEN.parse().unwrap(), payer).unwrap();
        orders[2].fulfillment_deadline = from_unix_seconds(NOW + 300).unwrap();
        let mut corridors = vec![corridor(); orders.len()];
        corridors[2].refund_delay_seconds = 1_800;
        Self { orders, corridors, pins: Pins::default() }
    }

    fn new() -> Self {
        Self::of(account(9).as_str())
    }

    fn demand(&self) -> BatchDemand<'_> {
        let reserve_deadline = reserve_deadline(&self.orders, None).unwrap();
        BatchDemand { orders: &self.orders, corridors: &self.corridors, pins: &self.pins, reserve_deadline, now: NOW }
    }

    /// What a gateway answers that has these payments signed for, whatever it was asked.
    fn prepared(&self, spends: &[SpendRequest], deadline: u64) -> PreparedPaymentBatch {
        let own = prepare_batch(spends, Some(deadline)).unwrap();
        let ids = self.orders.iter().map(|order| json!({"payment_id": order.payment_id()}));
        let body = json!({
            "message_scheme": SCHEME,
            "signed_messages": [
                {"message": own.digest, "message_prehash": own.typed_data.to_string(), "payload": {}},
            ],
            "reserve_deadline": self.demand().reserve_deadline,
            "payments": ids.collect::<Vec<_>>(),
            "approvals": [{"amount": "440"}],
        });
        serde_json::from_value(body).unwrap()
    }

    fn honest(&self) -> PreparedPaymentBatch {
        self.prepared(&self.demand().spends().unwrap(), self.demand().reserve_deadline)
    }

    fn refused(&self, prepared: &PreparedPaymentBatch) -> String {
        match self.demand().check(prepared) {
            Err(Error::Mismatch(mismatch)) => mismatch.field,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn what_was_asked_for_is_signed_once_and_counts_for_each_payment() {
    let local = PrivateKeySigner::random();
    let side = Side::of(&format!("{:#x}", local.address()));
    let (demand, spends) = (side.demand(), side.demand().spends().unwrap());
    assert_eq!(demand.reserve_deadline, NOW + 240, "the earliest of the fulfillment deadlines");
    let checked = demand.check(&side.honest()).unwrap();
    assert_eq!(checked.payment_ids, side.orders.iter().map(Order::payment_id).collect::<Vec<_>>());
    assert_eq!(checked.plans.iter().map(|plan| plan.reserve_deadline).collect::<Vec<_>>(), [NOW + 240; 5]);
    assert_eq!(checked.plans[2].refund_after, NOW + 300 + 1_800);
    let drawn: Vec<_> = checked.draws.iter().map(|(source, sum)| (source.asset().clone(), sum.to_string())).collect();
    let of = |at: usize, sum: &str| (side.orders[at].source.asset().clone(), sum.to_owned());
    assert_eq!(drawn, [of(1, "110"), of(0, "440")]);
    assert_eq!(checked.spender.as_str(), crate::PERMIT2);
    let auth = checked.sign(&Key::Secp256k1(local.into())).await.unwrap();
    assert_eq!(auth["message_scheme"], SCHEME);
    let own = prepare_batch(&spends, Some(demand.reserve_deadline)).unwrap();
    for (spend, member) in spends.iter().zip(own.members) {
        let text = |name: &str| auth["signed_messages"][0][name].as_str().unwrap().to_owned();
        let signed = SignedMessage {
            message: text("message"),
            message_prehash: None,
            signature: text("signature"),
            payload: Some(Value::Object(member.payload)),
        };
        assert_eq!(authorize(spend, &signed).unwrap().1, member.plan);
    }
    let strangers = Key::Secp256k1(PrivateKeySigner::random().into());
    assert!(matches!(checked.sign(&strangers).await, Err(Error::Key(text)) if text.contains("pays")));
}

/// Computed with ethers and Node's SHA-256, of the orders as they are written.
#[test]
fn the_root_is_the_one_that_others_compute() {
    let side = Side::new();
    let own = prepare_batch(&side.demand().spends().unwrap(), Some(NOW + 240)).unwrap();
    assert_eq!(own.nonce.to_string(), "0xfa9fa879bc41902031f134de3761ebc95c5b4fbd6dba669de5f701eb80686994");
    let id = "pay_5emu4exn22lp3u43g2k3zf6ye5jl2sgd2wwfdcktkxzgbgjsnk6a";
    assert_eq!(side.orders[0].payment_id().as_str(), id);
}

#[test]
fn other_payments_are_not_signed_and_what_differs_is_named() {
    let side = Side::new();
    let honest = side.demand().spends().unwrap();
    let all = |change: fn(&mut SpendRequest)| move |spends: &mut Vec<SpendRequest>| spends.iter_mut().for_each(change);
    type Change = Box<dyn Fn(&mut Vec<SpendRequest>)>;
    let changes: [(&str, Change); 12] = [
        ("message.witness.escrow", Box::new(all(|spend| spend.escrow.contract = account(8)))),
        ("domain.verifyingContract", Box::new(all(|spend| spend.escrow.permit2 = account(8)))),
        (
            "domain.chainId",
            Box::new(all(|spend| {
                let account = spend.terms.source.account().clone();
                let asset = spend.terms.source.asset().to_string().replace("eip155:1/", "eip155:10/");
                spend.terms.source = OwnedAsset::new(asset.parse().unwrap(), account.as_str()).unwrap();
            })),
        ),
        ("message.witness.payments", Box::new(|spends| spends[3].escrow.releaser = account(8))),
        ("message.witness.payments", Box::new(|spends| spends[0].escrow.reserver = account(8))),
        ("message.witness.payments", Box::new(|spends| spends[1].escrow.refund_delay_seconds += 1)),
        ("message.witness.payments", Box::new(|spends| spends[4].terms.fulfillment_amount = "1".parse().unwrap())),
        (
            "message.witness.payments",
            Box::new(|spends| {
                let terms = &mut spends[2].terms;
                let asset = terms.destination()[0].asset().clone();
                let stranger = OwnedAsset::new(asset, account(8).as_str()).unwrap();
                let (amount, cap) = (terms.fulfillment_amount, terms.max_source_amount);
                *terms = Terms::new(terms.source.clone(), vec![stranger], amount, cap);
            }),
        ),
        ("message.witness.payments", Box::new(|spends| spends[0].payment_id = PaymentId::derive("x", "y"))),
        // In another order they have another root, though not where two neighbours change places: then all is as it was.
        ("message.witness.payments", Box::new(|spends| spends.swap(0, 4))),
        ("message.permitted", Box::new(|spends| spends[4].terms.max_source_amount = Some("111".parse().unwrap()))),
        ("message.permitted", Box::new(|spends| drop(spends.pop()))),
    ];
    for (at, (field, change)) in changes.into_iter().enumerate() {
        let mut spends = honest.clone();
        change(&mut spends);
        assert_eq!(side.refused(&side.prepared(&spends, side.demand().reserve_deadline)), field, "{at}");
    }
}

#[test]
fn an_answer_that_says_one_thing_and_has_another_signed_is_refused() {
    let side = Side::new();
    let honest = side.demand().spends().unwrap();
    // The answer still says the deadline that was asked for.
    assert_eq!(side.refused(&side.prepared(&honest, NOW + 239)), "message.deadline");
    let changed = |change: &dyn Fn(&mut PreparedPaymentBatch)| {
        let mut other = side.honest();
        change(&mut other);
        side.refused(&other)
    };
    assert_eq!(changed(&|other| other.reserve_deadline -= 1), "reserve_deadline");
    assert_eq!(changed(&|other| other.message_scheme = "EVM_PERMIT2_ESCROW".to_owned()), "message_scheme");
    assert_eq!(changed(&|other| other.payments.swap(0, 1)), "payments[0].payment_id");
    assert_eq!(changed(&|other| drop(other.payments.pop())), "payments");
    assert_eq!(changed(&|other| other.signed_messages.clear()), "signed_messages");
    let twice = |other: &mut PreparedPaymentBatch| other.signed_messages.push(other.signed_messages[0].clone());
    assert_eq!(changed(&twice), "signed_messages");
    assert_eq!(changed(&|other| other.signed_messages[0].message = Hash32([7; 32]).to_string()), "message");
    let shown = |text: &str| {
        changed(&|other| {
            other.signed_messages[0].message = Hash32([7; 32]).to_string();
            other.signed_messages[0].message_prehash = text.to_owned();
        })
    };
    assert_eq!(shown("0x1901"), "message_prehash");
    // Whoever else is the spender may do with the money what it likes.
    let own = prepare_batch(&honest, Some(side.demand().reserve_deadline)).unwrap();
    let mut typed = own.typed_data;
    typed["message"]["spender"] = json!(Address::repeat_byte(8).to_string().to_lowercase());
    assert_eq!(shown(&typed.to_string()), "message.spender");
}

#[test]
fn what_is_pinned_is_compared_for_each_payment() {
    let side = Side::new();
    type Change = fn(&mut Pins);
    let changes: [(&str, Change); 5] = [
        ("escrow", |pins| pins.escrow = Some(account(8))),
        ("reserver", |pins| pins.reserver = Some(account(8))),
        ("releaser", |pins| pins.releaser = Some(account(8))),
        ("permit2", |pins| pins.permit2 = Some(account(8))),
        ("payments[2]: the time that money is locked", |pins| {
            pins.lock_max = std::time::Duration::from_secs(2_099);
        }),
    ];
    for (field, change) in changes {
        let mut other = Side::new();
        change(&mut other.pins);
        assert_eq!(other.refused(&side.honest()), field);
        assert!(other.demand().check_named().is_err());
    }
    let mut one = Side::new();
    one.corridors[4].source.escrow_contract_address = account(8);
    let refused = one.demand().check(&side.honest());
    assert!(matches!(&refused, Err(Error::Invalid(text)) if text.contains("payments[4]")), "{refused:?}");
    one.corridors.pop();
    assert!(matches!(one.demand().check(&side.honest()), Err(Error::Invalid(_))));
}

#[test]
fn orders_that_make_no_batch_are_refused() {
    let refused = |orders: &[Order]| match draws(orders) {
        Err(Error::Invalid(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(refused(&[]).contains("1 to 256"));
    let many = |count: usize| (0..count).map(|at| order(account(9).as_str()).under(at.to_string())).collect::<Vec<_>>();
    assert!(draws(&many(256)).is_ok());
    assert!(refused(&many(257)).contains("there are 257"));
    let owned = |asset: &str, digit: u8| OwnedAsset::new(asset.parse().unwrap(), account(digit).as_str()).unwrap();
    type Change<'a> = &'a dyn Fn(&mut Order);
    let changes: [(&str, Change<'_>); 6] = [
        ("account and chain", &|order| order.source = owned(OTHER_TOKEN, 8)),
        ("account and chain", &|order| order.source = owned(&OTHER_TOKEN.replace("eip155:1/", "eip155:10/"), 9)),
        ("EVM chains", &|order| {
            let asset = "tron:728126428/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t".parse().unwrap();
            order.source = OwnedAsset::new(asset, "TYHUGdNv8s5hczDosrcuVSrnfbRkXuy1dD").unwrap();
        }),
        ("max_source_amount", &|order| order.max_source_amount = None),
        ("request_id", &|order| order.request_id = "0".to_owned()),
        ("payments[1]", &|order| order.source = owned("eip155:1/slip44:60", 9)),
    ];
    for (rule, change) in changes {
        let mut orders = many(2);
        change(&mut orders[1]);
        let text = refused(&orders);
        assert!(text.starts_with("payments[1]: ") && text.contains(rule), "{rule}: {text}");
    }
    let mut tokens = many(9);
    for (at, order) in tokens.iter_mut().enumerate() {
        order.source = owned(&format!("eip155:1/erc20:0x{}", format!("{at}a").repeat(20)), 9);
    }
    assert!(refused(&tokens).contains("9 tokens"));

    // Each deposit comes after the auction, and in time for the delivery.
    let orders = many(2);
    for (wanted, is_taken) in [(NOW + 10, false), (NOW + 11, true), (NOW + 240, true), (NOW + 241, false)] {
        assert_eq!(reserve_deadline(&orders, Some(wanted)).is_ok(), is_taken, "{wanted}");
    }
}
