//! Scans: reading a shard page by page from one sequence on.
//!
//! Followers and full scans ask for one page after the other, each where the one before ended. The
//! first is read by Direct Gets, and those behind it come from a consumer of the stream, which is much less work for the
//! server. The consumer is an aid and no more: what it gives is taken where it is what lies at the sequences that were
//! asked for, one behind the other, and whatever else it does, it is given up and the page is read by Direct Gets. Nothing
//! is believed of it that is not believed of them.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tracing::info;

use events::CommitId;
use journal::envelope;

use super::{Inner, SCAN_CONSUMER_PREFIX};
use crate::requests::{
    self,
    consumer::{self, Delivered},
};

/// Who asks for fewer commits is not reading all of them.
const LIMIT_MIN: usize = 256;
/// Most messages and bytes that a consumer is asked for at a time.
const BATCH_MESSAGES: usize = 512;
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// How long the server keeps a consumer that nobody asks, and how long one is asked after it was asked last.
const IDLE_MAX: Duration = Duration::from_secs(60);
const USED_WITHIN: Duration = Duration::from_secs(30);
/// Most that are kept for one shard: of who follows it, who builds its views again, and who counts something.
const KEPT_MAX: usize = 4;
/// A server that makes none within the first of these is not asked again before the second has passed.
const MADE_WITHIN: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_secs(10);

/// Consumers that stand where a scan is expected to go on.
#[derive(Default)]
pub(super) struct Scans(Mutex<State>);

#[derive(Default)]
struct State {
    kept: Vec<Scan>,
    /// Shards for which none was made, and when that was.
    paused: HashMap<u16, Instant>,
}

struct Scan {
    shard: u16,
    consumer: String,
    /// The sequence that it delivers next.
    next: u64,
    used_at: Instant,
}

impl Scans {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        // A panic in here leaves a list of consumers, of which any may be missing.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The one that stands at `next`. It is nobody else's from here on, and given up by whoever does not give it back.
    fn take(&self, shard: u16, next: u64) -> Option<Scan> {
        self.with(|state| {
            state.kept.retain(|scan| scan.used_at.elapsed() < USED_WITHIN);
            let at = state.kept.iter().position(|scan| (scan.shard, scan.next) == (shard, next))?;
            Some(state.kept.swap_remove(at))
        })
    }

    fn give_back(&self, scan: Scan) {
        self.with(|state| {
            let of_shard = state.kept.iter().enumerate().filter(|(_, kept)| kept.shard == scan.shard);
            if of_shard.clone().count() >= KEPT_MAX
                && let Some((oldest, _)) = of_shard.min_by_key(|(_, kept)| kept.used_at)
            {
                state.kept.swap_remove(oldest);
            }
            state.kept.push(scan);
        });
    }
}

impl Inner {
    /// Messages of a shard from `next` on, up to `limit` and to what is asked for at a time. `None` where none can be had in
    /// this way, and another has to say what is there.
    pub(super) async fn scan(&self, shard: u16, next: u64, limit: usize) -> Option<Delivered> {
        let client = self.reader(shard);
        // Without a connection this is not what waits for one.
        let mut scan = self.scans.take(shard, next).filter(|_| requests::connected(client))?;
        let (stream, batch) = (envelope::stream(shard), limit.min(BATCH_MESSAGES));
        let (consumer, timeout) = ((&*stream, &*scan.consumer), self.options.attempt_timeout);
        let delivered = consumer::next(client, consumer, batch, BATCH_BYTES, timeout).await.ok()?;
        let in_order = delivered.messages.iter().zip(next..).all(|(message, at)| message.sequence == at);
        if !in_order || delivered.messages.len() > batch {
            return None;
        }
        scan.next += delivered.messages.len() as u64;
        scan.used_at = Instant::now();
        self.scans.give_back(scan);
        // Where it has nothing, another replica may have something.
        Some(delivered).filter(|delivered| !delivered.messages.is_empty())
    }

    /// Expects that the scan that wanted `wanted` commits, and was given some, goes on at `next`.
    pub(super) async fn expect_scan(&self, shard: u16, next: u64, wanted: usize) {
        let paused = |state: &mut State| state.paused.get(&shard).is_some_and(|since| since.elapsed() < PAUSE);
        // An auditor may make no consumers.
        if self.read_only || wanted < LIMIT_MIN || self.scans.with(paused) {
            return;
        }
        let (stream, consumer) = (envelope::stream(shard), format!("{SCAN_CONSUMER_PREFIX}{}", CommitId::random()));
        let timeout = self.options.attempt_timeout.min(MADE_WITHIN);
        match consumer::create(self.reader(shard), &stream, &consumer, next, IDLE_MAX, timeout).await {
            Ok(()) => self.scans.give_back(Scan { shard, consumer, next, used_at: Instant::now() }),
            Err(reason) => {
                info!(shard, reason, "no consumer can be had to read a shard by, so it is read by Direct Gets");
                self.scans.with(|state| state.paused.insert(shard, Instant::now()));
            }
        }
    }
}
