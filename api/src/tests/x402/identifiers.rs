//! Payment identifiers: each belongs to one payload.

use super::{
    super::limits::{ATTACKER, VICTIM, flood, limited, post},
    *,
};

#[tokio::test]
async fn a_payment_identifier_belongs_to_one_payload() {
    let gateway = gateway();
    for (info, reason) in [
        (json!({"required": true}), "payment_identifier_required"),
        (json!({"required": true, "id": "short"}), "invalid_payment_identifier"),
        (json!({"required": false, "id": "x".repeat(129)}), "invalid_payment_identifier"),
        (json!({"required": false, "id": "with a space in it"}), "invalid_payment_identifier"),
        (json!({"required": false, "id": "with.dots.in.it.now"}), "invalid_payment_identifier"),
        (json!({"required": false, "id": 5}), "invalid_payment_identifier"),
        (json!({"id": IDENTIFIER}), "invalid_payment_identifier"),
        (json!([]), "invalid_payment_identifier"),
    ] {
        let mut message = message();
        message["paymentPayload"]["extensions"] = json!({"payment-identifier": {"info": info}});
        let said = refused(&gateway, &message, 400, reason).await;
        assert!(said.starts_with("paymentPayload.extensions.payment-identifier.info"), "{info}: {said}");
    }
    for extensions in [json!({}), json!({"payment-identifier": {"info": {"required": false}}}), json!({"other": 1})] {
        let mut message = message();
        message["paymentPayload"]["extensions"] = extensions;
        assert_eq!(gateway.post_to(VERIFY, &message).await.expect(200).body["isValid"], true);
    }

    let first = identified(message(), IDENTIFIER);
    // Verifying binds nothing.
    gateway.post_to(VERIFY, &first).await.expect(200);
    let other = identified(requested("/request_id", &json!("order-2")), IDENTIFIER);
    assert_eq!(gateway.post_to(VERIFY, &other).await.expect(200).body["isValid"], true);

    let settled = gateway.post_to(SETTLE, &first).await.expect(200).body;
    refused(&gateway, &other, 409, "payment_identifier_conflict").await;
    let resigned = identified(requested("/sender_auth/signed_messages/0/signature", &json!("0x33")), IDENTIFIER);
    refused(&gateway, &resigned, 409, "payment_identifier_conflict").await;
    // Whatever else is wrong with it.
    let forged = identified(requested("/sender_auth/signed_messages/0/signature", &json!(FORGED)), IDENTIFIER);
    refused(&gateway, &forged, 409, "payment_identifier_conflict").await;
    // The identical call is none of this, however its members are ordered.
    let again = gateway.post_to(SETTLE, &first).await.expect(200).body;
    assert_eq!(again["extensions"]["gw"]["paymentId"], settled["extensions"]["gw"]["paymentId"]);
    assert_eq!(again["extensions"]["gw"]["idempotentReplay"], true);

    // Whatever has become of keys and clocks since: this is the payload that was taken.
    gateway.clock.set("2031-01-01T00:00:00Z");
    assert_eq!(gateway.post_to(SETTLE, &first).await.expect(200).body, again);
    gateway.clock.set("2030-01-01T00:00:00Z");

    // A payload that is refused takes no identifier.
    let fresh = "pay_ffffffffffffffff";
    let forged = identified(requested("/sender_auth/signed_messages/0/signature", &json!(FORGED)), fresh);
    gateway.post_to(SETTLE, &forged).await.expect(200);
    let good = identified(requested("/request_id", &json!("order-3")), fresh);
    let answer = gateway.post_to(SETTLE, &good).await.expect(200);
    assert_eq!(answer.body["errorReason"], "settlement_pending");
}

/// A gateway that has other contracts by now, on the same streams.
#[tokio::test]
async fn an_identified_payload_has_its_outcome_whatever_has_changed() {
    let identifiers: Arc<dyn Identifiers> = Arc::new(MemoryIdentifiers::default());
    let journal = MemoryJournal::new(4);
    let with_escrow = |escrow: &str| {
        Gateway::sharing(journal.clone(), identifiers.clone(), |config| {
            config.x402.settle_hold_ms_max = 0;
            config.trust.escrow_contracts.clear();
            for served in &mut config.chains {
                served.chain.common_mut().escrow_contract = escrow.parse().unwrap();
            }
        })
    };
    let message = identified(message(), IDENTIFIER);
    let first = with_escrow(ESCROW).post_to(SETTLE, &message).await.expect(200).body;
    let changed = with_escrow(TRUSTED);
    let mut later = changed.post_to(SETTLE, &message).await.expect(200).body;
    assert_eq!(later["extensions"]["gw"]["idempotentReplay"], true);
    later["extensions"]["gw"]["idempotentReplay"] = json!(false);
    assert_eq!(later, first);
    assert_eq!(changed.post_to(VERIFY, &message).await.expect(200).body["isValid"], true);
    // But under no other requirement.
    let mut other = message.clone();
    other["paymentRequirements"]["amount"] = json!("1");
    refused(&changed, &other, 200, "payment_requirements_mismatch").await;
    // And what is new is judged by what holds now.
    let fresh = identified(requested("/request_id", &json!("order-2")), "pay_0123456789abcdef");
    let answer = changed.post_to(SETTLE, &fresh).await.expect(200);
    assert_eq!(answer.body["errorReason"], "invalid_payment_requirements", "{answer:?}");
}

/// An identifier that was bound for a payment that another one forestalled says nothing about that one.
#[tokio::test]
async fn an_identifier_does_not_stand_for_another_payment() {
    let identifiers: Arc<dyn Identifiers> = Arc::new(MemoryIdentifiers::default());
    let gateway = Gateway::sharing(MemoryJournal::new(4), identifiers.clone(), |_| {});
    let message = identified(message(), IDENTIFIER);
    // Its append failed, whatever the reason.
    gateway.journal.inject(journal::memory::Fault::Unavailable);
    gateway.post_to(SETTLE, &message).await.expect(503);
    assert!(identifiers.bound(IDENTIFIER).await.unwrap().is_some());
    // Under the same request id, something cheaper.
    gateway.post(&with("/fulfillment_amount", json!("1"))).await.expect(200);
    for path in [VERIFY, SETTLE] {
        let answer = gateway.post_to(path, &message).await.expect(409).body;
        assert_eq!(answer["extensions"]["gw"]["code"], "IDEMPOTENCY_TERMS_MISMATCH");
    }
}

/// An identifier is kept for ever, so nobody gets one for nothing: not beyond what a payer's budget allows, and not with a
/// payment that there is already.
#[tokio::test]
async fn an_identifier_is_bound_when_it_is_paid_for() {
    let gateway = limited(|config| {
        config.limits.writes.burst = 1_000;
        config.x402.settle_hold_ms_max = 0;
    });
    let identifiers = &gateway.state.services.identifiers;
    let named = |what: &str, n: usize| format!("pay_{what}_{n:016}");
    let fresh = |n: usize| {
        let request = with("/request_id", json!(format!("order-{n}")));
        identified(message_of(&request), &named("fresh", n))
    };
    let (settled, refused) = flood(async |n| post(&gateway, ATTACKER, SETTLE, &fresh(n)).await).await;
    assert_eq!(refused.body["errorReason"], "rate_limited");
    assert!(identifiers.bound(&named("fresh", 0)).await.unwrap().is_some());
    assert_eq!(identifiers.bound(&named("fresh", settled)).await.unwrap(), None);
    // The control: it is the first's who has paid.
    let mut others = fresh(settled);
    set(&mut others, "/paymentPayload/payload/paymentRequest/source/account", json!(RECIPIENT));
    let answer = post(&gateway, VICTIM, SETTLE, &others).await.expect(200);
    assert_eq!(answer.body["errorReason"], "settlement_pending", "{answer:?}");
    assert!(identifiers.bound(&named("fresh", settled)).await.unwrap().is_some());

    // One payment under identifier after identifier: the address pays, by what it has for what nobody signs.
    let again = |n: usize| identified(message_of(&with("/request_id", json!("order-0"))), &named("again", n));
    let (bound, refused) = flood(async |n| post(&gateway, ATTACKER, SETTLE, &again(n)).await).await;
    assert_eq!((bound, &refused.body["errorReason"]), (2, &json!("rate_limited")));
    assert_eq!(identifiers.bound(&named("again", bound)).await.unwrap(), None);
    // What is bound is answered for nothing.
    let answer = post(&gateway, ATTACKER, SETTLE, &again(0)).await.expect(200);
    assert_eq!(answer.body["extensions"]["gw"]["idempotentReplay"], true);
}
