use alloy::signers::{SignerSync, local::PrivateKeySigner};
use chains_evm::authorization::{SignedMessage, authorize, prepare_mandate};
use events::{OwnedAsset, PaymentId, event::Authorization, time::from_unix_seconds};
use serde_json::json;

use super::*;
use crate::{
    error::Mismatch,
    key::Key,
    pins::tests::{NOW, account, corridor, mandate_order, order},
};

const SALT: Hash32 = Hash32([7; 32]);

/// A merchant with what its payer handed over.
struct Side {
    payer: PrivateKeySigner,
    merchant: PrivateKeySigner,
    order: Order,
    payload: MandatePayload,
    corridor: Corridor,
    pins: Pins,
}

impl Side {
    fn new() -> Self {
        let (payer, merchant) = (PrivateKeySigner::random(), PrivateKeySigner::random());
        let text = |signer: &PrivateKeySigner| format!("{:#x}", signer.address());
        let granted = mandate_order(&text(&payer), &text(&merchant).parse().unwrap());
        let (mandate, pins) = (granted.mandate(SALT), Pins::default());
        let permit2 = pins.permit2_on(granted.source.asset().chain()).unwrap();
        let own = prepare_mandate(&mandate, &granted.terms(), (&account(1), &account(3), &permit2)).unwrap();
        let permit = payer.sign_hash_sync(&own.digest.0.into()).unwrap();
        let payload = MandatePayload { mandate, permit: Some(permit.to_string()) };
        Self { order: order(&text(&payer)), payer, merchant, payload, corridor: corridor(), pins }
    }

    /// The payer signed nothing, and gave the allowance itself.
    fn bare() -> Self {
        let mut side = Self::new();
        side.payload.permit = None;
        side
    }

    fn demand(&self) -> ChargeDemand<'_> {
        let Self { order, payload, corridor, pins, .. } = self;
        ChargeDemand { order, payload, corridor, pins, now: NOW }
    }

    fn spend(&self) -> SpendRequest {
        self.demand().rebuild().unwrap().0
    }

    fn choice(&self) -> Choice {
        let MandatePayload { mandate, permit } = self.payload.clone();
        Choice { mandate: Some(json!(mandate)), permit: permit.map(Into::into), ..Choice::default() }
    }

    fn refused(&self, prepared: &Prepared) -> String {
        match self.demand().check(prepared) {
            Err(Error::Mismatch(Mismatch { field, .. })) => field,
            other => panic!("{other:?}"),
        }
    }

    fn invalid(&self) -> String {
        match self.demand().check_own() {
            Err(Error::Invalid(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    /// What a gateway answers that has this signed, whatever it was asked.
    fn prepared(&self, spend: &SpendRequest, choice: &Choice) -> Prepared {
        let own = authorization::prepare(spend, choice).unwrap();
        let message = json!({
            "message": own.digest, "message_prehash": own.typed_data.to_string(), "payload": own.payload,
        });
        let body = json!({
            "payment_id": self.order.payment_id(), "message_scheme": BY_MANDATE, "signed_messages": [message],
        });
        serde_json::from_value(body).unwrap()
    }
}

#[tokio::test]
async fn what_was_asked_for_is_signed_by_the_merchant_and_counts_at_the_gateway() {
    for side in [Side::new(), Side::bare()] {
        let (spend, demand) = (side.spend(), side.demand());
        assert!(demand.check_own().is_ok());
        let checked = demand.check(&side.prepared(&spend, &side.choice())).unwrap();
        assert_eq!(
            (checked.payment_id.clone(), checked.amount.to_string()),
            (side.order.payment_id(), "110".to_owned())
        );
        let auth = checked.sign(&Key::Secp256k1(side.merchant.clone().into())).await.unwrap();
        assert_eq!(auth["message_scheme"], BY_MANDATE);
        let message = &auth["signed_messages"][0];
        let text = |name: &str| message[name].as_str().unwrap().to_owned();
        let signed = SignedMessage {
            message: text("message"),
            message_prehash: Some(text("message_prehash")),
            signature: text("signature"),
            payload: Some(message["payload"].clone()),
        };
        let (authorization, plan) = authorize(&spend, &signed).unwrap();
        let Authorization::EvmPermit2Mandate(charge) = authorization else { panic!("{authorization:?}") };
        assert_eq!((charge.mandate, charge.permit), (side.payload.mandate.clone(), side.payload.permit.clone()));
        assert_eq!(plan, checked.plan);
        // The payer has signed once, and signs no payment.
        let payers = Key::Secp256k1(side.payer.clone().into());
        assert!(matches!(checked.sign(&payers).await, Err(Error::Key(text)) if text.contains(ASKS)));
    }
}

#[test]
fn nothing_else_is_signed_and_what_differs_is_named() {
    let side = Side::bare();
    let honest = side.spend();
    type Change = fn(&mut SpendRequest, &mut Choice);
    let changes: [(&str, Change); 11] = [
        ("message.mandate", |spend, _| spend.escrow.releaser = account(8)),
        ("message.mandate", |spend, _| spend.escrow.contract = account(8)),
        ("message.mandate", |_, choice| {
            choice.mandate.as_mut().unwrap()["merchant"] = json!(account(8));
        }),
        ("message.mandate", |spend, _| {
            let terms = &spend.terms;
            let stranger = OwnedAsset::new(terms.destination()[0].asset().clone(), account(8).as_str()).unwrap();
            let (amount, cap) = (terms.fulfillment_amount, terms.max_source_amount);
            spend.terms = events::Terms::new(terms.source.clone(), vec![stranger], amount, cap);
        }),
        ("message.paymentId", |spend, _| spend.payment_id = PaymentId::derive("x", "y")),
        ("message.fulfillmentAmount", |spend, _| spend.terms.fulfillment_amount = "101".parse().unwrap()),
        ("message.amount", |spend, _| spend.terms.max_source_amount = Some("109".parse().unwrap())),
        ("message.reserver", |spend, _| spend.escrow.reserver = account(8)),
        ("message.reserveDeadline", |_, choice| choice.reserve_deadline = Some(NOW + 200)),
        ("message.reserveDeadline", |spend, _| spend.fulfillment_deadline = from_unix_seconds(NOW + 250).unwrap()),
        ("message.refundAfter", |_, choice| choice.refund_after = Some(NOW + 1_200)),
    ];
    for (field, change) in changes {
        let (mut spend, mut choice) = (honest.clone(), side.choice());
        change(&mut spend, &mut choice);
        assert_eq!(side.refused(&side.prepared(&spend, &choice)), field);
    }
    let changed = |change: &dyn Fn(&mut Prepared)| {
        let mut other = side.prepared(&honest, &side.choice());
        change(&mut other);
        side.refused(&other)
    };
    assert_eq!(changed(&|other| other.payment_id = PaymentId::derive("x", "y")), "payment_id");
    assert_eq!(changed(&|other| other.message_scheme = "EVM_PERMIT2_ESCROW".to_owned()), "message_scheme");
    assert_eq!(changed(&|other| other.signed_messages.clear()), "signed_messages");
    assert_eq!(changed(&|other| other.signed_messages[0].message = SALT.to_string()), "message");
}

#[test]
fn what_the_mandate_does_not_allow_is_not_asked_for() {
    type Change = fn(&mut Side);
    let changes: [(&str, Change); 10] = [
        ("max_source_amount must be at most 110", |side| side.order.max_source_amount = Some("111".parse().unwrap())),
        ("max_source_amount is required", |side| side.order.max_source_amount = None),
        ("fulfillment_amount must not be less", |side| side.order.fulfillment_amount = "99".parse().unwrap()),
        ("payload.refund_after must be at most", |side| {
            side.order.fulfillment_deadline = from_unix_seconds(NOW + 3_600).unwrap();
        }),
        ("begins at", |side| side.payload.mandate.begins += 100),
        // The payer's signature is for its own mandate alone.
        ("payload.permit", |side| side.payload.mandate.amount = "999".parse().unwrap()),
        ("payload.permit", |side| side.order.destination.push(side.order.source.clone())),
        ("payload.permit", |side| side.corridor.source.escrow_contract_address = account(8)),
        ("payload.permit", |side| side.corridor.source.releaser = account(8)),
        ("payload.permit", |side| side.payload.permit = Some("0x00".to_owned())),
    ];
    for (rule, change) in changes {
        let mut side = Side::new();
        change(&mut side);
        let text = side.invalid();
        assert!(text.contains(rule), "{rule}: {text}");
    }
    let mut pinned = Side::new();
    pinned.pins.escrow = Some(account(8));
    assert!(matches!(pinned.demand().check_own(), Err(Error::Mismatch(wrong)) if wrong.field == "escrow"));
}
