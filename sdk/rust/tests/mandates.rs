//! Mandates: what a payer signs once, and what its merchant asks for by it, each payment as any other.

use alloy::signers::local::PrivateKeySigner;
use chains_evm::authorization::{
    Choice, EscrowSettings, Scheme, SignedMessage, SpendRequest, authorize, prepare, prepare_mandate,
};
use serde_json::{Value, json};

use events::{
    Account, Family, Hash32, OwnedAsset, Terms,
    event::{Authorization, Mandate},
    time::unix_seconds,
};
use gateway_client::{
    Error, Key, MandateOrder, MandatePayload, Order, PERMIT2, Pins, SignedMandate, Status, Windows, charge,
    onchain::Chain, sign_mandate,
};

use crate::scripted::{Answer, Scripted, refusal};

const USDC: &str = "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
const SCHEME: &str = "EVM_PERMIT2_MANDATE";

fn account(digit: u8) -> Account {
    format!("0x{}", format!("{digit:x}").repeat(40)).parse().unwrap()
}

/// Twice the order in each of three days.
fn mandate_order(payer: &str, merchant: &Key) -> MandateOrder {
    let Order { source, destination, .. } = order(payer, "any");
    MandateOrder {
        source,
        destination,
        merchant: merchant.account(Family::Evm).unwrap(),
        amount: "12".parse().unwrap(),
        least: Some("10".parse().unwrap()),
        begins: unix_seconds(chrono::Utc::now()),
        period_seconds: 86_400,
        periods: 3,
        lock_seconds: 7_200,
    }
}

fn order(payer: &str, request_id: &str) -> Order {
    let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), payer).unwrap();
    let (amount, cap) = ("5".parse().unwrap(), Some("6".parse().unwrap()));
    let destination = vec![owned("eip155:10/slip44:60")];
    Order::new(owned(USDC), destination, amount, cap, chrono::Utc::now(), Windows::default()).under(request_id)
}

/// A payer's key with its account, and a merchant's.
fn parties() -> (Key, String, Key) {
    let payer = PrivateKeySigner::random();
    let account = format!("{:#x}", payer.address());
    (Key::Secp256k1(payer.into()), account, Key::Secp256k1(PrivateKeySigner::random().into()))
}

/// What the gateway uses on a chain.
fn defaults(refund_delay_seconds: u64) -> Answer {
    let body = json!({
        "escrow_contract_address": account(1),
        "reserver": account(2),
        "releaser": account(3),
        "permit2": PERMIT2,
        "refund_delay_seconds": refund_delay_seconds,
        "assets": [],
    });
    Answer::Json(200, body)
}

/// What a gateway answers that has the mandate signed for payments into this escrow.
fn mandate_into(escrow: &Account, asked: &Value) -> Value {
    let mandate: Mandate = serde_json::from_value(asked["mandate"].clone()).unwrap();
    let source: OwnedAsset = serde_json::from_value(asked["source"].clone()).unwrap();
    let destination: Vec<OwnedAsset> = serde_json::from_value(asked["destination"].clone()).unwrap();
    let terms = Terms::new(source, destination, mandate.amount, None);
    let permit2: Account = PERMIT2.parse().unwrap();
    let own = prepare_mandate(&mandate, &terms, (escrow, &account(3), &permit2)).unwrap();
    json!({
        "message_scheme": SCHEME,
        "mandate": mandate,
        "address": own.at.address,
        "contract": own.at.contract,
        "permit": {"message": own.digest, "message_prehash": own.typed_data.to_string(), "payload": {}},
        "allowance": {"to": permit2, "data": own.allowance.1, "value": "0x0"},
        "fulfillment_verifier": {"account": account(3), "endpoint": "https://v1.example"},
        "approval": {"amount": own.all, "call": {"to": account(8), "data": "0x", "value": "0x0"}},
        "cancel": {"call": {"to": account(8), "data": "0x", "value": "0x0"}},
    })
}

fn honest_mandate(asked: &Value) -> Value {
    mandate_into(&account(1), asked)
}

fn other_mandate(asked: &Value) -> Value {
    mandate_into(&account(8), asked)
}

fn spend(order: &Order, reserver: u8) -> SpendRequest {
    SpendRequest {
        scheme: Scheme::EvmPermit2Mandate,
        payment_id: order.payment_id(),
        terms: order.terms(),
        quote_deadline: order.quote_deadline,
        fulfillment_deadline: order.fulfillment_deadline,
        escrow: EscrowSettings {
            contract: account(1),
            reserver: account(reserver),
            releaser: account(3),
            permit2: PERMIT2.parse().unwrap(),
            refund_delay_seconds: 900,
        },
        quote_hash: Hash32::ZERO,
        token: None,
    }
}

/// What a gateway answers that has the order signed for by this payload, for deposits that this account admits.
fn charge_by(order: &Order, payload: &MandatePayload, reserver: u8) -> Answer {
    let MandatePayload { mandate, permit } = payload.clone();
    let choice = Choice { mandate: Some(json!(mandate)), permit: permit.map(Into::into), ..Choice::default() };
    let own = prepare(&spend(order, reserver), &choice).unwrap();
    let message = json!({"message": own.digest, "message_prehash": own.typed_data.to_string(), "payload": own.payload});
    let body = json!({
        "payment_id": order.payment_id(),
        "message_scheme": SCHEME,
        "signed_messages": [message],
        "fulfillment_verifier": {"account": account(3), "endpoint": "https://v1.example"},
    });
    Answer::Json(200, body)
}

/// A mandate that its payer has signed.
async fn signed(payer: &Key, order: &MandateOrder) -> SignedMandate {
    let gateway = Scripted::start([defaults(600), defaults(900), Answer::Made(honest_mandate)]).await;
    sign_mandate(&gateway.client, order, payer, &Pins::default()).await.unwrap()
}

#[tokio::test]
async fn a_mandate_is_prepared_compared_and_signed() {
    let (payer, account_of_payer, merchant) = parties();
    let order = mandate_order(&account_of_payer, &merchant);
    let gateway = Scripted::start([defaults(600), defaults(900), Answer::Made(honest_mandate)]).await;
    let first = sign_mandate(&gateway.client, &order, &payer, &Pins::default()).await.unwrap();
    let asked = gateway.asked();
    let paths: Vec<&str> = asked.iter().map(|one| one.path.trim_start_matches("/base/v1/")).collect();
    let chains = ["defaults?chain_id=eip155%3A1", "defaults?chain_id=eip155%3A10"];
    assert_eq!(paths, [chains[0], chains[1], "payments/mandates/prepare"]);
    let body: Value = serde_json::from_slice(&asked[2].body).unwrap();
    let salt = first.payload.mandate.salt;
    assert_eq!(body, Value::Object(order.body(salt)), "nothing is left to the gateway to fill in");
    assert_eq!(first.payload.mandate, order.mandate(salt));
    assert!(first.payload.permit.is_some());
    assert_eq!(first.total.to_string(), "36");
    // The gateway's own calls lead elsewhere.
    let approval = first.approval.as_ref().unwrap();
    assert_eq!(approval.to.as_str(), order.source.asset().reference());
    assert_ne!(first.cancel.to, account(8));
    // The same again is another mandate.
    let second = signed(&payer, &order).await;
    assert_ne!(second.payload.mandate.salt, salt);
    assert_ne!(second.address, first.address);
}

#[tokio::test]
async fn a_mandate_that_is_not_the_payers_is_not_signed() {
    let (payer, account_of_payer, merchant) = parties();
    let order = mandate_order(&account_of_payer, &merchant);
    let gateway = Scripted::start([defaults(600), defaults(900), Answer::Made(other_mandate)]).await;
    let error = sign_mandate(&gateway.client, &order, &payer, &Pins::default()).await.unwrap_err();
    assert!(matches!(&error, Error::Mismatch(wrong) if wrong.field == "address"), "{error}");

    // What is no mandate, or not what is pinned, is not asked for.
    let gateway = Scripted::start([defaults(600), defaults(900), defaults(600), defaults(900)]).await;
    let endless = MandateOrder { lock_seconds: u32::MAX, ..order.clone() };
    let error = sign_mandate(&gateway.client, &endless, &payer, &Pins::default()).await.unwrap_err();
    assert!(matches!(&error, Error::Invalid(text) if text.contains("at most 7200 s")), "{error}");
    let pins = Pins { escrow: Some(account(8)), ..Pins::default() };
    let error = sign_mandate(&gateway.client, &order, &payer, &pins).await.unwrap_err();
    assert!(matches!(error, Error::Mismatch(wrong) if wrong.field == "escrow"));
    assert_eq!(gateway.asked().len(), 4);
}

#[tokio::test]
async fn a_payment_is_signed_by_the_merchant_and_submitted_with_the_same_bytes_until_it_is_answered() {
    let (payer, account_of_payer, merchant) = parties();
    let payload = signed(&payer, &mandate_order(&account_of_payer, &merchant)).await.payload;
    let order = order(&account_of_payer, "month-1");
    let completed = json!({"payment_id": order.payment_id(), "status": "completed", "idempotent_replay": true});
    let script = [
        defaults(600),
        defaults(900),
        charge_by(&order, &payload, 2),
        Answer::Text(502, "<html>"),
        Answer::Json(500, refusal("OUTCOME_UNKNOWN")),
        Answer::Json(200, completed),
    ];
    let gateway = Scripted::start(script).await;
    let payment = charge(&gateway.client, &order, &payload, &merchant, &Pins::default()).await.unwrap();
    assert_eq!((payment.status, payment.idempotent_replay), (Status::Completed, Some(true)));
    let asked = gateway.asked();
    let paths: Vec<&str> = asked.iter().skip(2).map(|one| one.path.trim_start_matches("/base/v1/")).collect();
    assert_eq!(paths, ["payments/prepare", "payments", "payments", "payments"]);
    assert!(asked[3].body == asked[4].body && asked[4].body == asked[5].body);
    let body = |at: usize| serde_json::from_slice::<Value>(&asked[at].body).unwrap();
    let (mut unsigned, mut submitted) = (body(2), body(3));
    let mut taken = |name: &str| unsigned.as_object_mut().unwrap().remove(name).unwrap();
    assert_eq!((taken("message_scheme"), taken("payload")), (json!(SCHEME), json!(payload)));
    let auth = submitted.as_object_mut().unwrap().remove("sender_auth").unwrap();
    assert_eq!(unsigned, submitted, "what was prepared is what is submitted");
    assert_eq!(submitted["source"]["account"], account_of_payer.as_str());

    let message = &auth["signed_messages"][0];
    let text = |name: &str| message[name].as_str().unwrap().to_owned();
    let by_merchant = SignedMessage {
        message: text("message"),
        message_prehash: Some(text("message_prehash")),
        signature: text("signature"),
        payload: Some(message["payload"].clone()),
    };
    let (authorization, _) = authorize(&spend(&order, 2), &by_merchant).unwrap();
    let Authorization::EvmPermit2Mandate(charged) = authorization else { panic!("{authorization:?}") };
    assert_eq!((charged.mandate, charged.permit), (payload.mandate, payload.permit));
}

#[tokio::test]
async fn a_payment_that_is_not_the_merchants_is_neither_signed_nor_submitted() {
    let (payer, account_of_payer, merchant) = parties();
    let payload = signed(&payer, &mandate_order(&account_of_payer, &merchant)).await.payload;
    let order = order(&account_of_payer, "month-1");
    let pins = Pins::default();
    let gateway = Scripted::start([defaults(600), defaults(900), charge_by(&order, &payload, 8)]).await;
    let error = charge(&gateway.client, &order, &payload, &merchant, &pins).await.unwrap_err();
    assert!(matches!(&error, Error::Mismatch(wrong) if wrong.field == "message.reserver"), "{error}");
    assert_eq!(gateway.asked().len(), 3);

    // The payer's key is not the merchant's.
    let gateway = Scripted::start([defaults(600), defaults(900), charge_by(&order, &payload, 2)]).await;
    let error = charge(&gateway.client, &order, &payload, &payer, &pins).await.unwrap_err();
    assert!(matches!(&error, Error::Key(text) if text.contains("is the mandate's merchant")), "{error}");
    assert_eq!(gateway.asked().len(), 3);

    // What the mandate does not allow is not asked for, and what it leaves is the chain's to say.
    let lacks = Answer::Json(400, refusal("INSUFFICIENT_ALLOWANCE"));
    let gateway = Scripted::start([defaults(600), defaults(900), defaults(600), defaults(900), lacks]).await;
    let dear = Order { max_source_amount: Some("13".parse().unwrap()), ..order.clone() };
    let error = charge(&gateway.client, &dear, &payload, &merchant, &pins).await.unwrap_err();
    assert!(matches!(&error, Error::Invalid(text) if text.contains("must be at most 12")), "{error}");
    assert_eq!(gateway.asked().len(), 2);
    let error = charge(&gateway.client, &order, &payload, &merchant, &pins).await.unwrap_err();
    assert_eq!(error.refusal().map(|refusal| refusal.code.as_str()), Some("INSUFFICIENT_ALLOWANCE"));
    assert_eq!(gateway.asked().len(), 5);
}

#[tokio::test]
async fn nothing_but_the_end_of_a_mandate_is_sent_as_one() {
    let (payer, account_of_payer, merchant) = parties();
    let kept = signed(&payer, &mandate_order(&account_of_payer, &merchant)).await;
    let fee_max = Pins::default().fee_max(Family::Evm);
    let on =
        async |id: &str| Chain::connect(&id.parse().unwrap(), "http://127.0.0.1:1", &account(1), None).await.unwrap();
    let altered = SignedMandate { cancel: kept.allowance.clone(), ..kept.clone() };
    for (chain, mandate, rule) in [("eip155:1", &altered, "ends no mandate"), ("eip155:10", &kept, "eip155:1")] {
        let error = on(chain).await.end_mandate(mandate, &payer, fee_max).await.unwrap_err();
        assert!(matches!(&error, Error::Invalid(text) if text.contains(rule)), "{error}");
    }
    // The call itself goes to the node, which is away.
    let error = on("eip155:1").await.end_mandate(&kept, &payer, fee_max).await.unwrap_err();
    assert!(matches!(error, Error::Node(_)), "{error}");
}
