//! Preparing payments on Tron: what is signed, and for whom.

use super::*;

#[tokio::test]
async fn an_award_that_was_prepared_and_signed_is_accepted() {
    let world = World::start().await;
    let gateway = &world.gateway;
    for (n, capped) in [true, false].into_iter().enumerate() {
        let mut batch = world.unsigned();
        set(&mut batch, "/request_id", json!(format!("batch-{n}")));
        if !capped {
            batch.as_object_mut().unwrap().remove("max_source_amount");
        }
        let id = quote_requests::open(gateway, &batch).await;
        let quotes = quote_requests::collect(gateway, &id, &[1, 2]).await;
        let (quote, other) = (&quotes[1], &quotes[0]);
        let request = json!({
            "version": "1.0", "request_id": format!("order-{n}"), "quote_request_id": id, "quote_id": quote.id(),
        });
        let mut award = world.signed(&request).await;
        // Without a cap no more is permitted than the quote asks for.
        let price = quote.quote().source_amount.to_string();
        let deposit = &award["sender_auth"]["signed_messages"][1]["payload"];
        assert_eq!(deposit["amount"], if capped { "1100000" } else { &price });

        let path = format!("/v1/payments/quote-requests/{id}/award");
        award["quote_id"] = json!(other.id());
        let refused = gateway.post_to(&path, &award).await.expect_error(401, "INVALID_SENDER_AUTH");
        assert!(refused.message().contains("message_prehash.depositOwn.d.quoteHash"), "{refused:?}");
        award["quote_id"] = json!(quote.id());
        let awarded = gateway.post_to(&path, &award).await.expect(200);
        let submitted = gateway.submitted(awarded.payment_id().as_str()).await;
        assert_eq!(submitted.authorization.quote_hash(), Some(quote.hash()));
    }
}

/// What is prepared carries the reserver's signature for the payment id, with which a payer can use the id up on chain. So
/// nobody gets it in another's name.
#[tokio::test]
async fn an_originator_is_proven_before_anything_is_prepared_in_its_name() {
    let world = World::start().await;
    let (gateway, alice) = (&world.gateway, Holder::ed25519(1).unwrap());
    let enveloped = |body: &Value| alice.envelope(body, Suite::EddsaJcs2022, &[], at("2030-01-01T00:00:00Z")).unwrap();
    let mut named = world.unsigned();
    set(&mut named, "/originator", json!(alice.did().as_str()));
    let refused = gateway.post_to(PREPARE, &named).await.expect_error(400, "INVALID_REQUEST");
    assert!(refused.message().starts_with("originator: must be proven"), "{refused:?}");
    let id = json!(PaymentId::derive(alice.did().as_str(), "order-1"));
    for body in [enveloped(&named), enveloped(&world.unsigned())] {
        assert_eq!(gateway.post_to(PREPARE, &body).await.expect(200).body["payment_id"], id);
    }
    // Elsewhere nothing is signed before the award, and naming it is enough.
    let mut elsewhere = without("/sender_auth");
    set(&mut elsewhere, "/originator", json!(alice.did().as_str()));
    assert_eq!(gateway.post_to(PREPARE, &elsewhere).await.expect(200).body["payment_id"], id);

    // An award of the payer's own batch, in the name of somebody else.
    let batch = quote_requests::open_batch_of(gateway, &world.unsigned()).await;
    let mut award = json!({
        "version": "1.0", "request_id": "order-1", "quote_request_id": batch.id, "quote_id": batch.quote_ids[0],
        "originator": alice.did().as_str(),
    });
    gateway.post_to(PREPARE, &award).await.expect_error(400, "INVALID_REQUEST");
    assert_eq!(gateway.post_to(PREPARE, &enveloped(&award)).await.expect(200).body["payment_id"], id);
    award.as_object_mut().unwrap().remove("originator");
    let own = json!(PaymentId::derive(&format!("tron:{}", account(&payer())), "order-1"));
    assert_eq!(gateway.post_to(PREPARE, &award).await.expect(200).body["payment_id"], own);

    // A batch that somebody else opened by proof: its payer is not whom it would be asked for.
    let mut opened = world.unsigned();
    set(&mut opened, "/request_id", json!("batch-2"));
    let hers = quote_requests::open_batch_of(gateway, &enveloped(&opened)).await;
    award["quote_request_id"] = json!(hers.id);
    award["quote_id"] = json!(hers.quote_ids[0]);
    for named in [None, Some(alice.did())] {
        let mut award = award.clone();
        if let Some(did) = named {
            award["originator"] = json!(did.as_str());
        }
        let refused = gateway.post_to(PREPARE, &award).await.expect_error(400, "INVALID_REQUEST");
        assert!(refused.message().starts_with("originator: must be proven"), "{refused:?}");
    }
    assert_eq!(gateway.post_to(PREPARE, &enveloped(&award)).await.expect(200).body["payment_id"], id);
}

/// What the payer signs carries the reserver's signature, which nobody gets for windows beyond the limits.
#[tokio::test]
async fn windows_beyond_the_limits_are_not_prepared() {
    let world = World::start().await;
    let most = FULFILLMENT_DEADLINE + 86_400;
    for (refund_after, code) in [
        (most + 1, "INVALID_DEADLINE"),
        ((1 << 48) - 1, "INVALID_DEADLINE"),
        (1 << 48, "INVALID_REQUEST"),
        (u64::MAX, "INVALID_REQUEST"),
    ] {
        let mut asked = world.unsigned();
        asked["payload"] = json!({"refund_after": refund_after});
        world.gateway.post_to(PREPARE, &asked).await.expect_error(400, code);
    }
    let mut asked = world.unsigned();
    asked["payload"] = json!({"refund_after": most});
    let body = world.signed(&asked).await;
    let accepted = world.gateway.post(&body).await.expect(200);
    assert_eq!(world.gateway.submitted(accepted.payment_id().as_str()).await.escrow.refund_after, most);
}
