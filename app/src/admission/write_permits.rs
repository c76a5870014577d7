//! Admission control of writes: how many the gateway takes at a time, and the refusal of those above.
//!
//! A write is any request that costs checks or a commit: submissions, quote-requests and awards, new or repeated, and
//! the calls that rehearse them. What it holds until it is done with is bounded three times: the bytes of all bodies
//! that are arriving or were read, the writes at work, and those that wait for them, in number and in time. Whatever is
//! above is answered with 503 before its body is parsed, and where there is not even a place in the queue before it is kept.
//!
//! The permit is taken when the body is there and not before: else as many slow clients as there are permits
//! would keep everybody out. It is given back as soon as the commit is stored, so that holding for an outcome takes
//! none; `tower`'s limits last until the response and cannot do that.
//!
//! Nobody takes all of it: each caller has so many permits and a share of the memory, and the writes that nobody has to sign
//! take half of the permits together at most.

use std::{sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{Instrument, Span};

use config::HttpConfig;
use net::{
    callers::{self, Caller, Permits, Refusal},
    server::ThrottledLog,
};

use crate::{
    bulkhead::{self, Bulkhead},
    error::{Code, Error},
};

/// Unit in which the bytes of bodies are counted.
const KIBIBYTE: usize = 1_024;
/// Memory for all bodies together, in KiB: a thousand of the largest by default, some ten thousand of usual ones.
const BODIES_KIB_MAX: usize = 64 * KIBIBYTE;
/// The share of it that the bodies of one address may take, and those of one /48.
const ADDRESS_SHARE: usize = 32;
const SITE_SHARE: usize = 8;

/// Admission control of the writes of a gateway.
pub struct WriteAdmission {
    bodies: Arc<Semaphore>,
    /// Each caller's share of them.
    shares: Permits,
    at_work: Bulkhead,
    /// Half of the permits: the most that those writes take together that nobody has to sign.
    unsigned: Bulkhead,
    refused: ThrottledLog,
}

/// The permit of a write to be at work, and the memory of its body. Whoever drops it has nothing more to do but to answer.
#[derive(Debug)]
pub struct Permit {
    _at_work: bulkhead::Permit,
    _unsigned: Option<bulkhead::Permit>,
    _body: BodyMemory,
    _of_caller: Option<callers::Permit>,
}

/// Memory for a body, of all that there is for bodies and of its caller's share.
#[derive(Debug)]
pub struct BodyMemory {
    of_all: OwnedSemaphorePermit,
    of_caller: Option<callers::Permit>,
}

impl BodyMemory {
    fn merge(&mut self, more: Self) {
        self.of_all.merge(more.of_all);
        if let Some((held, more)) = self.of_caller.as_mut().zip(more.of_caller) {
            held.merge(more);
        }
    }
}

impl Permit {
    /// What `work` comes to. It goes on to its end when the caller is gone, and only then is the permit given back.
    /// `None` when it panics.
    pub async fn finish<T: Send + 'static>(
        self: Arc<Self>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let work = async move {
            let _permit = self;
            work.await
        };
        let ended = tokio::spawn(work.instrument(Span::current())).await;
        ended.inspect_err(|error| tracing::error!(%error, "a write ended without an outcome")).ok()
    }
}

impl WriteAdmission {
    /// With the bounds of a configuration.
    pub fn new(config: &HttpConfig) -> Self {
        let wait_max = Duration::from_millis(config.write_wait_ms_max);
        // One body always fits.
        let largest = kibibytes(config.body_bytes_max);
        let all = BODIES_KIB_MAX.max(largest);
        Self {
            bodies: Arc::new(Semaphore::new(all)),
            shares: Permits::new((all / ADDRESS_SHARE).max(largest), (all / SITE_SHARE).max(largest)),
            at_work: Bulkhead::new("writes", config.writes_in_flight_max, config.writes_waiting_max, wait_max),
            unsigned: Bulkhead::new(
                "unsigned_writes",
                config.writes_in_flight_max.div_ceil(2),
                config.writes_waiting_max.div_ceil(2),
                wait_max,
            ),
            refused: ThrottledLog::default(),
        }
    }

    /// Permits that are free, and places in the queue for them.
    pub fn free(&self) -> (usize, usize) {
        self.at_work.free()
    }

    /// Memory for bodies that is free, in KiB.
    pub fn free_kibibytes(&self) -> usize {
        self.bodies.available_permits()
    }

    /// Memory for so many bytes of a caller's body.
    pub fn memory(&self, caller: &Caller, bytes: usize) -> Result<BodyMemory, Error> {
        let kibibytes = kibibytes(bytes);
        let of_caller = caller.share(&self.shares, kibibytes).ok_or(Refusal::Crowded("bytes of bodies"))?;
        let of_all = Arc::clone(&self.bodies).try_acquire_many_owned(u32::try_from(kibibytes).unwrap_or(u32::MAX));
        Ok(BodyMemory { of_all: of_all.map_err(|_| self.refuse())?, of_caller })
    }

    /// As much more of it as so many bytes take together.
    pub fn more_memory(&self, caller: &Caller, memory: &mut BodyMemory, bytes: usize) -> Result<(), Error> {
        let more = kibibytes(bytes).saturating_sub(memory.of_all.num_permits());
        if more > 0 {
            memory.merge(self.memory(caller, more * KIBIBYTE)?);
        }
        Ok(())
    }

    /// Whether who comes now would get neither a permit nor a place in the queue.
    pub fn is_full(&self, unsigned: bool) -> bool {
        self.at_work.is_full() || unsigned && self.unsigned.is_full()
    }

    /// A permit, at once or after a short wait in the queue.
    ///
    /// # Errors
    /// 503.
    pub async fn permit(
        &self,
        unsigned: bool,
        body: BodyMemory,
        of_caller: Option<callers::Permit>,
    ) -> Result<Permit, Error> {
        let unsigned = match unsigned {
            true => Some(self.unsigned.permit().await.ok_or_else(|| self.refuse())?),
            false => None,
        };
        let at_work = self.at_work.permit().await.ok_or_else(|| self.refuse())?;
        Ok(Permit { _at_work: at_work, _unsigned: unsigned, _body: body, _of_caller: of_caller })
    }

    /// The refusal of who comes while there is neither a permit nor a place in the queue.
    pub fn turn_away(&self, unsigned: bool) -> Error {
        let full = if self.at_work.is_full() || !unsigned { &self.at_work } else { &self.unsigned };
        full.count_refusal();
        self.refuse()
    }

    /// The refusal of what comes when as much is at work and waiting as there may be.
    fn refuse(&self) -> Error {
        if let Some(refused) = self.refused.count() {
            tracing::warn!(refused, "writes are refused: as many are at work and waiting as there may be");
        }
        let message = "The gateway has as much to do as it can take. Nothing of this request was looked at or stored; it is \
                       safe to send the same request again, after as long as Retry-After says.";
        Error::new(Code::SERVICE_UNAVAILABLE, message)
    }
}

fn kibibytes(bytes: usize) -> usize {
    bytes.div_ceil(KIBIBYTE)
}
