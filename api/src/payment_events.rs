//! `GET /v1/payments/{id}/events`: the timeline as server-sent events, live (design: HTTP).
//!
//! A stream begins with what happened after `Last-Event-ID`, goes on with what happens, and ends by itself once nothing
//! more will happen. It holds no copy of anything: it is told by the read model that there is news, and reads it from the
//! journal. While the journal is away it only beats.
//!
//! Every block that a blank line ends has data. A block without is nothing by the standard (WHATWG HTML, 9.2.6), and still
//! an event to clients like httpx-sse, which make one of any blank line once they have seen an id or a pause.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, StatusCode},
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
};
use futures::{StreamExt, stream};
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

use app::{
    error::Code,
    timeline::{self, News},
    views::timeline_body::{Entry, EntryId, History},
};
use events::PaymentId;
use net::callers::{Caller, Permit};

use super::state::HttpState;
use crate::error::ApiError;

const LAST_EVENT_ID: &str = "last-event-id";
/// Pause between two comments that keep the connection open; below the idle limits of the usual proxies.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Such a comment: a line that is part of the event behind it, as a blank line of its own would make it a block without data.
const BEAT: &[u8] = b":\n";
/// The client's own pause before it connects again; the first event carries it.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);

/// Opens a stream. 204 when there is nothing to tell and never will be, which ends a browser's reconnecting.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    path: Result<Path<String>, PathRejection>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let payment_id: PaymentId = path.ok().and_then(|Path(text)| text.parse().ok()).ok_or(Code::PAYMENT_NOT_FOUND)?;
    let seen = last_event_id(&headers)?;
    let follow = Follow::begin(state, payment_id, seen, &caller).await?;
    if follow.at_rest && follow.news.is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let mut pause = Some(RECONNECT_AFTER);
    let events = stream::unfold(follow, Follow::next).map(move |event| match pause.take() {
        Some(pause) => Ok(event.retry(pause)),
        None => Ok::<_, Infallible>(event),
    });
    Ok(Sse::new(events).into_response().map(beating))
}

/// The body, with a comment whenever it has been silent for [`HEARTBEAT`].
fn beating(events: Body) -> Body {
    let frames = stream::unfold(events.into_data_stream(), |mut events| async move {
        let frame = match timeout(HEARTBEAT, events.next()).await {
            Ok(frame) => frame?,
            Err(_) => Ok(Bytes::from_static(BEAT)),
        };
        Some((frame, events))
    });
    Body::from_stream(frames)
}

/// The entry after which the client wants to go on; the beginning when it names none.
fn last_event_id(headers: &HeaderMap) -> Result<EntryId, ApiError> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(EntryId::START) };
    let id = value.to_str().ok().map(str::trim).filter(|text| !text.is_empty());
    match id {
        None if value.is_empty() => Ok(EntryId::START),
        id => id.and_then(EntryId::parse).ok_or_else(|| {
            ApiError::new(Code::INVALID_REQUEST, "Last-Event-ID: must be the id of an event of this payment")
        }),
    }
}

/// One stream.
struct Follow {
    state: Arc<HttpState>,
    payment_id: PaymentId,
    /// The last entry that the client has, or is being sent.
    seen: EntryId,
    /// Version of the history that was read last; `None` while the journal is away.
    version: Option<u64>,
    news: VecDeque<Entry>,
    at_rest: bool,
    permit: OwnedSemaphorePermit,
    _of_caller: Option<Permit>,
}

impl Follow {
    /// A stream of what comes after `seen`, with what there is of it.
    ///
    /// # Errors
    /// 404 when there is no such payment, 429 and 503 when as many streams are open as there may be, 503 and 500 when the
    /// payment cannot be read.
    async fn begin(
        state: Arc<HttpState>,
        payment_id: PaymentId,
        seen: EntryId,
        caller: &Caller,
    ) -> Result<Self, ApiError> {
        let of_caller = caller.stream()?;
        let permit = Arc::clone(&state.streams).try_acquire_owned().map_err(|_| Code::TOO_MANY_STREAMS)?;
        let mut follow = Self {
            state,
            payment_id,
            seen,
            version: None,
            news: VecDeque::new(),
            at_rest: false,
            permit,
            _of_caller: of_caller,
        };
        if let Some(history) = timeline::begin(&follow.state, &follow.payment_id).await? {
            follow.take(history);
        }
        Ok(follow)
    }

    /// The next event, and the stream after it.
    async fn next(mut self) -> Option<(Event, Self)> {
        loop {
            if let Some(entry) = self.news.pop_front() {
                return Some((event(&entry), self));
            }
            if self.at_rest {
                return None;
            }
            debug_assert_eq!(self.permit.num_permits(), 1, "a stream counts while it lives");
            match timeline::news(&self.state, &self.payment_id, self.version).await {
                News::History(history) => self.take(*history),
                News::Away => self.version = None,
                News::Over => return None,
            }
        }
    }

    fn take(&mut self, history: History) {
        self.version = Some(history.view.version);
        self.at_rest = history.view.at_rest;
        let seen = self.seen;
        self.news.extend(history.entries.into_iter().filter(|entry| entry.id > seen));
        self.seen = self.news.back().map_or(seen, |last| last.id);
    }
}

/// An entry as an event. It has no name of its own, so that a browser's `onmessage` gets it.
fn event(entry: &Entry) -> Event {
    let event = Event::default().id(entry.id.to_string());
    // An entry holds texts, numbers and maps with text keys; there is nothing in it that JSON cannot hold.
    event.json_data(entry).unwrap_or_default()
}
