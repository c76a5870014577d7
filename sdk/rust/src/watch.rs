//! Watch: a payment's events live, over a connection that is made again wherever it breaks.

use std::{collections::VecDeque, time::Duration};

use futures::{Stream, stream};
use reqwest::{Response, StatusCode, header::HeaderValue};
use tokio::time::{sleep, timeout};

use events::PaymentId;

use crate::{
    answers::Entry,
    error::{Error, NoAnswer},
    gateway::Gateway,
    retry::{Backoff, RETRY_AFTER_MAX},
    sse::Reader,
    transport::Call,
};

/// A stream that says nothing for so long is broken: a gateway beats every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Connections in a row that brought nothing, after which it is an error.
const FAILURES_MAX: u32 = 12;

struct Watch {
    gateway: Gateway,
    payment_id: PaymentId,
    /// The id of the last event.
    seen: Option<String>,
    open: Option<(Response, Reader)>,
    news: VecDeque<Entry>,
    backoff: Backoff,
    failures: u32,
    is_over: bool,
}

impl Gateway {
    /// The payment's events, from its first on, as they happen. It ends when nothing more will happen. A connection that breaks
    /// is made again, and goes on behind the last event.
    ///
    /// The stream gives an error, and ends, where the gateway refuses, or does not answer many times in a row.
    pub fn watch(&self, payment_id: &PaymentId) -> impl Stream<Item = Result<Entry, Error>> + Send + use<> {
        let watch = Watch {
            gateway: self.clone(),
            payment_id: payment_id.clone(),
            seen: None,
            open: None,
            news: VecDeque::new(),
            backoff: Backoff::default(),
            failures: 0,
            is_over: false,
        };
        stream::unfold(watch, |mut watch| async move { watch.next().await.map(|entry| (entry, watch)) })
    }
}

impl Watch {
    async fn next(&mut self) -> Option<Result<Entry, Error>> {
        loop {
            if let Some(entry) = self.news.pop_front() {
                return Some(Ok(entry));
            }
            if self.is_over {
                return None;
            }
            match self.advance().await {
                Ok(()) => {}
                Err(error) => {
                    self.open = None;
                    self.failures += 1;
                    match error.pause(&mut self.backoff).filter(|_| self.failures < FAILURES_MAX) {
                        Some(pause) => sleep(pause).await,
                        None => {
                            self.is_over = true;
                            return Some(Err(error));
                        }
                    }
                }
            }
        }
    }

    /// Opens the stream, or reads what comes next of it.
    async fn advance(&mut self) -> Result<(), Error> {
        let Some((response, reader)) = &mut self.open else { return self.reopen().await };
        let silent = |_| NoAnswer::new("the stream is silent");
        let chunk = timeout(SILENCE_MAX, response.chunk()).await.map_err(silent)?;
        let Some(chunk) = chunk.map_err(NoAnswer::new)? else {
            // The end of a stream and a connection that was cut look alike; a gateway that has nothing more to tell says so.
            let pause = reader.pause().unwrap_or_default().min(RETRY_AFTER_MAX);
            self.open = None;
            sleep(pause).await;
            return Ok(());
        };
        for event in reader.read(&chunk).map_err(NoAnswer::new)? {
            let entry: Entry = serde_json::from_str(&event.data)
                .map_err(|error| NoAnswer::new(format!("an event that cannot be read: {error}")))?;
            self.seen = event.id.or(self.seen.take());
            self.news.push_back(entry);
            (self.backoff, self.failures) = (Backoff::default(), 0);
        }
        Ok(())
    }

    async fn reopen(&mut self) -> Result<(), Error> {
        let mut call: Call = self.gateway.get(&["v1", "payments", self.payment_id.as_str(), "events"])?;
        call.headers.insert("accept", HeaderValue::from_static("text/event-stream"));
        if let Some(seen) = self.seen.as_deref().and_then(|id| HeaderValue::try_from(id).ok()) {
            call.headers.insert("last-event-id", seen);
        }
        let silent = |_| NoAnswer::new("the stream does not open");
        let response = timeout(SILENCE_MAX, self.gateway.transport().open(&call)).await.map_err(silent)??;
        match response.status() {
            StatusCode::OK => self.open = Some((response, Reader::default())),
            StatusCode::NO_CONTENT => self.is_over = true,
            _ => {
                self.gateway.transport().accepted(&call, response).await?;
                return Err(Error::Invalid(format!("{} is not a stream of events", call.url)));
            }
        }
        Ok(())
    }
}
