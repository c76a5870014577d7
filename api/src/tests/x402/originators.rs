//! Originators of payments by x402: the identity binding of `payload.paymentRequest` (spec 2.14).

use super::{
    super::identities::{enveloped, holder},
    *,
};

#[tokio::test]
async fn a_proof_that_holds_makes_its_did_the_originator() {
    let gateway = gateway();
    let alice = holder(1);
    let id = PaymentId::derive(alice.did().as_str(), "order-1");
    let message = message_of(&enveloped(&alice, &body()));
    let verified = gateway.post_to(VERIFY, &message).await.expect(200).body;
    assert_eq!((&verified["isValid"], &verified["extensions"]["gw"]["paymentId"]), (&json!(true), &json!(id)));
    for replay in [false, true] {
        let mut settled = gateway.post_to(SETTLE, &message).await.expect(200).body;
        assert!(settled.as_object_mut().unwrap().remove("errorMessage").unwrap().is_string());
        assert_eq!(settled, pending(&id, replay));
    }
    let submitted = gateway.submitted(id.as_str()).await;
    assert_eq!((submitted.originator.as_str(), submitted.identities.len()), (alice.did().as_str(), 1));
    let by = format!("/v1/payments/resolve?request_id=order-1&originator={}", alice.did());
    assert_eq!(gateway.get(&by).await.expect(200).payment_id(), id);

    // The same request as another holder's, and as nobody's, is another payment each.
    let account = format!("eip155:{PAYER}");
    for (request, originator) in
        [(enveloped(&holder(2), &body()), holder(2).did().as_str()), (body(), account.as_str())]
    {
        let settled = gateway.post_to(SETTLE, &message_of(&request)).await.expect(200).body;
        let own = PaymentId::derive(originator, "order-1");
        assert_eq!(settled["extensions"]["gw"]["paymentId"], json!(own), "{settled}");
        assert_eq!(gateway.submitted(own.as_str()).await.originator, originator);
    }
}
