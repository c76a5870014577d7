//! Reads that append nothing to the journal (spec 4.5).

use journal::ShardLog;

use super::{
    reads::{DOCUMENT, awarded, closed, confirmed, failed, no_quotes, prepared, secured, seen},
    *,
};

async fn commits(gateway: &Gateway) -> u64 {
    let heads = futures::future::join_all((0..4).map(|shard| gateway.journal.head(shard))).await;
    heads.into_iter().map(Result::unwrap).sum()
}

#[tokio::test]
async fn status_resolve_and_timeline_append_nothing() {
    let gateway = Gateway::new();
    let id = gateway.post(&body()).await.expect(200).payment_id();
    let unknown = PaymentId::derive("nobody", "1");
    let reads = [
        (format!("/v1/payments/{id}/status"), 200),
        (format!("/v1/payments/{id}/timeline"), 200),
        (format!("/v1/payments/resolve?request_id=order-1&account={PAYER}"), 200),
        (format!("/v1/payments/{unknown}/status"), 404),
        (format!("/v1/payments/{unknown}/timeline"), 404),
        (format!("/v1/payments/resolve?request_id=order-2&account={PAYER}"), 404),
        ("/v1/payments/resolve?request_id=order-1".to_owned(), 400),
    ];
    // Before its deadlines and long after them, in every status, and where the read model knows nothing.
    for (events, status) in [
        (Vec::new(), "pending"),
        (vec![closed(&[]), awarded(DOCUMENT), prepared()], "pending"),
        (vec![secured(), seen()], "finalizing"),
        (vec![confirmed()], "completed"),
    ] {
        if !events.is_empty() {
            gateway.append(&id, events).await;
        }
        let before = commits(&gateway).await;
        for time in ["2030-01-01T00:00:00Z", "2031-01-01T00:00:00Z"] {
            gateway.clock.set(time);
            for blind in [false, true] {
                gateway.payments.set_blind(blind);
                for (path, answered) in &reads {
                    let answer = gateway.get(path).await.expect(*answered);
                    assert!(*answered != 200 || answer.body["status"] == status, "{path}: {answer:?}");
                }
            }
        }
        assert_eq!(commits(&gateway).await, before, "{status}");
    }
    // The control: a write is counted.
    let before = commits(&gateway).await;
    gateway.clock.set("2030-01-01T00:00:00Z");
    let other = gateway.post(&with("/request_id", json!("order-3"))).await.expect(200).payment_id();
    assert_eq!(commits(&gateway).await, before + 1);
    gateway.append(&other, vec![closed(&[]), failed(no_quotes())]).await;
    let before = commits(&gateway).await;
    for read in ["status", "timeline"] {
        assert_eq!(gateway.get(&format!("/v1/payments/{other}/{read}")).await.expect(200).body["status"], "failed");
    }
    assert_eq!(commits(&gateway).await, before, "failed");
}
