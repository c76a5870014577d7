//! Server-sent events: what happens to a payment, live.

use axum::{body::BodyDataStream, response::Response};
use futures::StreamExt;

use super::{
    doubles::AwayJournal,
    history::{completed, released},
    reads::{DOCUMENT, awarded, closed, confirmed, prepared, secured, seen},
    *,
};

/// An open event stream.
pub(super) struct Stream {
    data: BodyDataStream,
    text: String,
}

impl Stream {
    async fn open(gateway: &Gateway, id: &PaymentId, last: Option<&str>) -> Response {
        let mut request = Request::get(format!("/v1/payments/{id}/events"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        gateway.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    pub(super) async fn follow(gateway: &Gateway, id: &PaymentId, last: Option<&str>) -> Self {
        let response = Self::open(gateway, id, last).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert!(response.headers().contains_key("x-request-id"));
        Self { data: response.into_body().into_data_stream(), text: String::new() }
    }

    /// The next event's id and data; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<(String, Value)> {
        self.block().await.map(|block| (block.id, block.data))
    }

    /// The next block, as httpx-sse tells them apart: whatever a blank line ends is an event.
    async fn block(&mut self) -> Option<Block> {
        loop {
            if let Some((text, rest)) = self.text.split_once("\n\n") {
                let block = Block::parse(text);
                self.text = rest.to_owned();
                return Some(block);
            }
            let Some(frame) = self.data.next().await else {
                assert!(self.text.lines().all(|line| line.starts_with(':')), "cut off: {:?}", self.text);
                return None;
            };
            self.text += std::str::from_utf8(&frame.unwrap()).unwrap();
        }
    }
}

/// What a blank line ends.
struct Block {
    id: String,
    data: Value,
    retry: Option<u64>,
    comments: usize,
}

impl Block {
    /// Every block has an id and data; nothing else is an event to all clients.
    fn parse(text: &str) -> Self {
        let (mut id, mut data, mut retry, mut comments) = (None, None, None, 0);
        for line in text.lines() {
            match line.split_once(": ") {
                _ if line.starts_with(':') => comments += 1,
                Some(("id", value)) => assert_eq!(id.replace(value.to_owned()), None, "{text:?}"),
                Some(("data", value)) => assert_eq!(data.replace(value), None, "{text:?}"),
                Some(("retry", value)) => retry = Some(value.parse().unwrap()),
                _ => panic!("a line of no known field: {text:?}"),
            }
        }
        let data = data.unwrap_or_else(|| panic!("a block without data is an event to httpx-sse: {text:?}"));
        Self { id: id.unwrap(), data: serde_json::from_str(data).unwrap(), retry, comments }
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_and_beats_are_no_events_to_clients_that_take_every_block_for_one() {
    let gateway = Gateway::new();
    let id = gateway.post(&body()).await.expect(200).payment_id();
    let mut stream = Stream::follow(&gateway, &id, None).await;
    let first = stream.block().await.unwrap();
    assert_eq!((first.id.as_str(), first.retry, first.comments), ("1.0", Some(1000), 0));
    // The stream is idle for so long that it beats three times, and then there is news.
    let beats = Duration::from_secs(50);
    assert!(tokio::time::timeout(beats, stream.block()).await.is_err());
    gateway.append(&id, vec![closed(&[])]).await;
    let second = stream.block().await.unwrap();
    assert_eq!((second.id.as_str(), second.retry, second.comments), ("2.0", None, 3));
    // One that goes on says the pause with its own first event.
    let again = Stream::follow(&gateway, &id, Some("1.0")).await.block().await.unwrap();
    assert_eq!((again.id.as_str(), again.retry, again.comments), ("2.0", Some(1000), 0));
}

#[tokio::test]
async fn events_come_live_and_end_by_themselves() {
    let gateway = Gateway::new();
    let id = gateway.post(&body()).await.expect(200).payment_id();
    let mut stream = Stream::follow(&gateway, &id, None).await;
    let (event_id, entry) = stream.next().await.unwrap();
    assert_eq!((event_id.as_str(), &entry["event"]), ("1.0", &json!("Submitted")));
    for (event, name) in [
        (closed(&[]), "AuctionClosed"),
        (awarded(DOCUMENT), "QuoteAwarded"),
        (prepared(), "DepositPrepared"),
        (secured(), "EscrowSecured"),
        (seen(), "FulfillmentSeen"),
        (confirmed(), "FulfillmentConfirmed"),
        (released(), "EscrowReleased"),
    ] {
        gateway.append(&id, vec![event]).await;
        assert_eq!(stream.next().await.unwrap().1["event"], name);
    }
    assert_eq!(stream.next().await, None);

    let timeline = gateway.get(&format!("/v1/payments/{id}/timeline")).await.expect(200).body;
    let mut again = Stream::follow(&gateway, &id, None).await;
    for entry in timeline["entries"].as_array().unwrap() {
        assert_eq!(again.next().await.unwrap(), (entry["id"].as_str().unwrap().to_owned(), entry.clone()));
    }
    assert_eq!(again.next().await, None);
}

#[tokio::test]
async fn a_stream_goes_on_after_the_last_event() {
    let gateway = Gateway::new();
    let id = completed(&gateway).await;
    for (last, next) in [("1.0", "2.0"), ("2.0", "2.1"), ("2.1", "3.0"), ("2.7", "3.0"), ("0.0", "1.0"), ("", "1.0")] {
        let mut stream = Stream::follow(&gateway, &id, Some(last)).await;
        assert_eq!(stream.next().await.unwrap().0, next, "{last}");
    }
    // Nothing is left and nothing will come: a browser stops asking.
    assert_eq!(Stream::open(&gateway, &id, Some("7.0")).await.status(), 204);
    for bad in ["7", "a.b", "1.-1", "+1.0", "1.0.0"] {
        let request = Request::get(format!("/v1/payments/{id}/events")).header("last-event-id", bad);
        let answer = gateway.send(request.body(Body::empty()).unwrap()).await.expect_error(400, "INVALID_REQUEST");
        assert!(answer.message().starts_with("Last-Event-ID"), "{answer:?}");
    }
}

#[tokio::test]
async fn streams_above_their_number_are_refused_until_one_ends() {
    let gateway = Gateway::configured(|config| config.http.event_streams_max = 1);
    let id = gateway.post(&body()).await.expect(200).payment_id();
    let first = Stream::follow(&gateway, &id, None).await;
    gateway.get(&format!("/v1/payments/{id}/events")).await.expect_error(503, "TOO_MANY_STREAMS");
    drop(first);
    let mut second = Stream::follow(&gateway, &id, None).await;
    assert_eq!(second.next().await.unwrap().0, "1.0");
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_beats_and_a_stopping_gateway_ends_it() {
    let gateway = Gateway::new();
    let id = gateway.post(&body()).await.expect(200).payment_id();
    let mut stream = Stream::follow(&gateway, &id, None).await;
    stream.next().await.unwrap();
    let beat = stream.data.next().await.unwrap().unwrap();
    assert!(beat.starts_with(b":"), "{beat:?}");
    gateway.stopping.cancel();
    assert_eq!(stream.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_stream_survives_the_journal_being_away() {
    let journal = MemoryJournal::new(4);
    let away = AwayJournal::of(&journal);
    let gateway = Gateway::with_journal(away.clone(), journal, |_| {});
    let id = gateway.post(&body()).await.expect(200).payment_id();
    let mut stream = Stream::follow(&gateway, &id, None).await;
    stream.next().await.unwrap();

    away.set_away(true);
    gateway.get(&format!("/v1/payments/{id}/timeline")).await.expect_error(503, "SERVICE_UNAVAILABLE");
    gateway.append(&id, vec![closed(&[])]).await;
    // Nothing but beats comes while the journal is away, also on a stream that is opened meanwhile.
    let mut later = Stream::follow(&gateway, &id, Some("1.0")).await;
    for open in [&mut stream, &mut later] {
        assert!(tokio::time::timeout(Duration::from_secs(300), open.next()).await.is_err());
    }
    away.set_away(false);
    assert_eq!(stream.next().await.unwrap().0, "2.0");
    assert_eq!(later.next().await.unwrap().0, "2.0");

    gateway.payments.set_blind(true);
    away.set_away(true);
    gateway.get(&format!("/v1/payments/{id}/events")).await.expect_error(503, "SERVICE_UNAVAILABLE");
}
