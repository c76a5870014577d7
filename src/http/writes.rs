//! How many writes the gateway takes at a time, and the refusal of those above.
//!
//! A write is any request that costs checks or a commit: submissions, quote-requests and awards, new or repeated, and
//! the calls that rehearse them. What it holds until it is done with is bounded three times: the bytes of all bodies
//! that are arriving or were read, the writes at work, and those that wait for them, in number and in time. Whatever is
//! above is answered with 503 before its body is parsed, and where there is not even room in line before it is kept.
//!
//! The place at work is taken when the body is there and not before: else as many slow clients as there are places
//! would keep everybody out. It is given back as soon as the commit is stored, so that holding for an outcome takes
//! none; `tower`'s limits last until the response and cannot do that.
//!
//! Nobody takes all of it: each caller has so many places and a share of the memory, and the writes that nobody has to sign
//! take half of the places together at most.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{FromRequest, MatchedPath, Request},
    http::HeaderMap,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{Instrument, Span};

use super::{
    body::{self, RawBody, Unread},
    error::{ApiError, Code},
    line::Line,
    routes::unsigned_price,
    state::HttpState,
};
use config::HttpConfig;
use net::{
    callers::{self, Caller, Kind, Places, Refusal, price},
    server::Tally,
};

/// Unit in which the bytes of bodies are counted.
const KIBIBYTE: usize = 1_024;
/// Memory for all bodies together, in KiB: a thousand of the largest by default, some ten thousand of usual ones.
const BODIES_KIB_MAX: usize = 64 * KIBIBYTE;
/// The share of it that the bodies of one address may take, and those of one /48.
const ADDRESS_SHARE: usize = 32;
const SITE_SHARE: usize = 8;

/// The writes of a gateway.
pub(super) struct Writes {
    bodies: Arc<Semaphore>,
    /// Each caller's share of them.
    shares: Places,
    at_work: Line,
    /// Half of the places: the most that those writes take together that nobody has to sign.
    unsigned: Line,
    refused: Tally,
}

/// A place at work, and the memory of a body. Whoever drops it has nothing more to do but to answer.
#[derive(Debug)]
pub(super) struct Place {
    _at_work: OwnedSemaphorePermit,
    _unsigned: Option<OwnedSemaphorePermit>,
    _body: Room,
    _of_caller: Option<callers::Place>,
}

/// Memory for a body, of all that there is for bodies and of its caller's share.
#[derive(Debug)]
pub(super) struct Room {
    of_all: OwnedSemaphorePermit,
    of_caller: Option<callers::Place>,
}

impl Room {
    fn merge(&mut self, more: Self) {
        self.of_all.merge(more.of_all);
        if let Some((held, more)) = self.of_caller.as_mut().zip(more.of_caller) {
            held.merge(more);
        }
    }
}

/// A write that may be worked on.
#[derive(Debug)]
pub(super) struct Write {
    /// Who sent it.
    pub(super) caller: Caller,
    /// The request's headers.
    pub(super) headers: HeaderMap,
    /// Its body, as it came.
    pub(super) body: RawBody,
    /// Its place.
    pub(super) place: Place,
}

impl Place {
    /// What `work` comes to. It goes on to its end when the caller is gone, and only then is the place given back.
    /// `None` when it panics.
    pub(super) async fn finish<T: Send + 'static>(self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let work = async move {
            let _place = self;
            work.await
        };
        let ended = tokio::spawn(work.instrument(Span::current())).await;
        ended.inspect_err(|error| tracing::error!(%error, "a write ended without an outcome")).ok()
    }
}

impl Writes {
    pub(super) fn new(config: &HttpConfig) -> Self {
        let wait_max = Duration::from_millis(config.write_wait_ms_max);
        // One body always fits.
        let largest = kibibytes(config.body_bytes_max);
        let all = BODIES_KIB_MAX.max(largest);
        Self {
            bodies: Arc::new(Semaphore::new(all)),
            shares: Places::new((all / ADDRESS_SHARE).max(largest), (all / SITE_SHARE).max(largest)),
            at_work: Line::new(config.writes_in_flight_max, config.writes_waiting_max, wait_max),
            unsigned: Line::new(
                config.writes_in_flight_max.div_ceil(2),
                config.writes_waiting_max.div_ceil(2),
                wait_max,
            ),
            refused: Tally::default(),
        }
    }

    /// Places at work, and in line for them, that are free.
    #[cfg(test)]
    pub(super) fn free(&self) -> (usize, usize) {
        self.at_work.free()
    }

    /// Memory for bodies that is free, in KiB.
    #[cfg(test)]
    pub(super) fn free_kibibytes(&self) -> usize {
        self.bodies.available_permits()
    }

    /// Memory for so many bytes of a caller's body.
    pub(super) fn room(&self, caller: &Caller, bytes: usize) -> Result<Room, ApiError> {
        let kibibytes = kibibytes(bytes);
        let of_caller = caller.share(&self.shares, kibibytes).ok_or(Refusal::Crowded("bytes of bodies"))?;
        let of_all = Arc::clone(&self.bodies).try_acquire_many_owned(u32::try_from(kibibytes).unwrap_or(u32::MAX));
        Ok(Room { of_all: of_all.map_err(|_| self.refuse())?, of_caller })
    }

    /// As much more of it as so many bytes take together.
    pub(super) fn more_room(&self, caller: &Caller, room: &mut Room, bytes: usize) -> Result<(), ApiError> {
        let more = kibibytes(bytes).saturating_sub(room.of_all.num_permits());
        if more > 0 {
            room.merge(self.room(caller, more * KIBIBYTE)?);
        }
        Ok(())
    }

    /// Whether who comes now would get no place, not even in line.
    fn is_full(&self, unsigned: bool) -> bool {
        self.at_work.is_full() || unsigned && self.unsigned.is_full()
    }

    /// A place at work, at once or after a short wait in line.
    async fn place(&self, unsigned: bool, body: Room, of_caller: Option<callers::Place>) -> Result<Place, ApiError> {
        let unsigned = match unsigned {
            true => Some(self.unsigned.place().await.ok_or_else(|| self.refuse())?),
            false => None,
        };
        let at_work = self.at_work.place().await.ok_or_else(|| self.refuse())?;
        Ok(Place { _at_work: at_work, _unsigned: unsigned, _body: body, _of_caller: of_caller })
    }

    fn refuse(&self) -> ApiError {
        if let Some(refused) = self.refused.count() {
            tracing::warn!(refused, "writes are refused: as many are at work and waiting as there may be");
        }
        let message = "The gateway has as much to do as it can take. Nothing of this request was looked at or stored; it is \
                       safe to send the same request again, after as long as Retry-After says.";
        ApiError::new(Code::SERVICE_UNAVAILABLE, message)
    }
}

impl FromRequest<Arc<HttpState>> for Write {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &Arc<HttpState>) -> Result<Self, ApiError> {
        let caller = request.extensions().get::<Caller>().cloned();
        let caller = caller.unwrap_or_else(|| state.callers.identify(None, request.headers()));
        let unsigned = request.extensions().get::<MatchedPath>().and_then(|path| unsigned_price(path.as_str()));
        let of_caller = match admit(&caller, unsigned) {
            Ok(of_caller) if !state.writes.is_full(unsigned.is_some()) => of_caller,
            refused => {
                let unread = Unread::of(&request);
                body::drain(request.into_body().into_data_stream(), &unread).await;
                return Err(refused.map_or_else(ApiError::from, |_| state.writes.refuse()));
            }
        };
        let headers = request.headers().clone();
        let (body, room) = RawBody::receive(request, &caller, state).await?;
        caller.spend(budget(unsigned), price::length(body.len()))?;
        let place = state.writes.place(unsigned.is_some(), room, of_caller).await?;
        Ok(Self { caller, headers, body, place })
    }
}

/// Takes what a write costs before its body is there, and its place among those of its caller.
fn admit(caller: &Caller, unsigned: Option<u32>) -> Result<Option<callers::Place>, Refusal> {
    caller.spend(budget(unsigned), unsigned.unwrap_or(price::WRITE))?;
    caller.work()
}

/// What a write is paid from.
fn budget(unsigned: Option<u32>) -> Kind {
    if unsigned.is_some() { Kind::Unsigned } else { Kind::Writes }
}

fn kibibytes(bytes: usize) -> usize {
    bytes.div_ceil(KIBIBYTE)
}
