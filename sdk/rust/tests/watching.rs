//! Watching: a stream goes on behind the last event, over connections that break.

use futures::StreamExt;

use events::PaymentId;
use gateway_client::{Entry, Error, Status};

use crate::scripted::{Answer, Scripted, refusal};

const FIRST: &str = "retry: 1\nid: 1.0\ndata: {\"id\":\"1.0\",\"version\":1,\"event\":\"Submitted\",\"at\":\"2027-01-15T08:00:10Z\",\
                     \"status\":\"pending\",\"summary\":\"a\",\"cause\":{}}\n\n:\nid: 2.0\ndata: {\"id\":\"2.0\",\"versi";
const SECOND: &str = "id: 2.0\ndata: {\"id\":\"2.0\",\"version\":2,\"event\":\"Failed\",\"at\":\"2027-01-15T08:00:20Z\",\
                      \"status\":\"failed\",\"summary\":\"b\",\"cause\":{}}\n\n";

fn id() -> PaymentId {
    PaymentId::derive("eip155:0x1", "watched")
}

#[tokio::test]
async fn a_stream_goes_on_behind_the_last_event_and_ends_when_nothing_more_happens() {
    let gateway = Scripted::start([
        Answer::Text(502, "away"),
        Answer::Events(FIRST),
        Answer::Json(503, refusal("TOO_MANY_STREAMS")),
        Answer::Events(SECOND),
        Answer::Text(204, ""),
    ])
    .await;
    let entries: Vec<Result<Entry, Error>> = gateway.client.watch(&id()).collect().await;
    let entries: Vec<Entry> = entries.into_iter().map(Result::unwrap).collect();
    let told: Vec<_> = entries.iter().map(|entry| (entry.event.as_str(), entry.status)).collect();
    assert_eq!(told, [("Submitted", Status::Pending), ("Failed", Status::Failed)]);
    let asked = gateway.asked();
    let behind: Vec<_> =
        asked.iter().map(|one| one.headers.get("last-event-id").map(|id| id.to_str().unwrap())).collect();
    assert_eq!(behind, [None, None, Some("1.0"), Some("1.0"), Some("2.0")]);
    assert!(asked.iter().all(|one| one.headers["accept"] == "text/event-stream"));
    assert!(asked[0].path.ends_with(&format!("/v1/payments/{}/events", id())));
}

#[tokio::test]
async fn a_stream_that_is_refused_says_so_once_and_ends() {
    let gateway = Scripted::start([Answer::Json(404, refusal("PAYMENT_NOT_FOUND"))]).await;
    let entries: Vec<Result<Entry, Error>> = gateway.client.watch(&id()).collect().await;
    let [Err(error)] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!(error.refusal().unwrap().code, "PAYMENT_NOT_FOUND");
}
