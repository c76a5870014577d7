//! The journal as it is measured: how appends and leases go, and which shards this gateway drives.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use ::metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use async_trait::async_trait;

use events::{Epochs, PaymentEvent, StreamId};
use journal::{
    AppendError, Commit, Journal, ReadError, Recorded, ShardLeases, ShardLog, ShardWorker, StreamStore, WakeUp,
};

/// The shards whose leases this process holds. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HeldShards(Arc<Held>);

struct Held {
    shards: Mutex<BTreeSet<u16>>,
    gauge: Gauge,
}

impl HeldShards {
    fn new() -> Self {
        Self(Arc::new(Held { shards: Mutex::default(), gauge: gauge!("gw_leases_held") }))
    }

    /// Whether `shard` is one of them.
    pub(crate) fn holds(&self, shard: u16) -> bool {
        self.0.shards.lock().unwrap_or_else(PoisonError::into_inner).contains(&shard)
    }

    fn set(&self, shard: u16, held: bool) {
        let mut shards = self.0.shards.lock().unwrap_or_else(PoisonError::into_inner);
        match held {
            true => shards.insert(shard),
            false => shards.remove(&shard),
        };
        self.0.gauge.set(shards.len() as f64);
    }
}

/// A journal whose appends and leases are measured. It does everything else as the one that it is made of.
pub(crate) struct MeasuredJournal<J> {
    journal: Arc<J>,
    held: HeldShards,
    append_seconds: Histogram,
    lease_seconds: Histogram,
    stored: Counter,
    conflict: Counter,
    unavailable: Counter,
    unknown: Counter,
    unacceptable: Counter,
    submitted: Counter,
}

impl<J: Journal> MeasuredJournal<J> {
    /// `journal`, measured.
    pub(crate) fn new(journal: Arc<J>) -> Self {
        let appends = |outcome: &'static str| counter!("gw_journal_appends_total", "outcome" => outcome);
        Self {
            journal,
            held: HeldShards::new(),
            append_seconds: histogram!("gw_journal_append_seconds"),
            lease_seconds: histogram!("gw_lease_seconds"),
            stored: appends("stored"),
            conflict: appends("conflict"),
            unavailable: appends("unavailable"),
            unknown: appends("unknown"),
            unacceptable: appends("unacceptable"),
            submitted: counter!("gw_payments_total", "event" => "submitted"),
        }
    }

    /// The shards that this process drives.
    pub(crate) fn held(&self) -> HeldShards {
        self.held.clone()
    }
}

#[async_trait]
impl<J: Journal> StreamStore for MeasuredJournal<J> {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        let begun = Instant::now();
        let appended = self.journal.append(commit).await;
        self.append_seconds.record(begun.elapsed());
        let outcome = match &appended {
            Ok(_) => &self.stored,
            Err(AppendError::Conflict) => &self.conflict,
            Err(AppendError::Unavailable(_)) => &self.unavailable,
            Err(AppendError::Unknown(_)) => &self.unknown,
            Err(AppendError::Unacceptable(_)) => &self.unacceptable,
        };
        outcome.increment(1);
        if appended.is_ok() && commit.expected.version == 0 {
            let payments = commit.events.iter().filter_map(events::Event::payment);
            self.submitted
                .increment(payments.filter(|event| matches!(event, PaymentEvent::Submitted(_))).count() as u64);
        }
        appended
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.journal.load(stream_id).await
    }
}

#[async_trait]
impl<J: Journal> ShardLog for MeasuredJournal<J> {
    fn epochs(&self) -> Epochs {
        self.journal.epochs()
    }

    fn shards(&self) -> u16 {
        self.journal.shards()
    }

    async fn grown(&self, shards: u16) {
        self.journal.grown(shards).await;
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        self.journal.replay(shard, from, limit).await
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        self.journal.head(shard).await
    }

    fn known_head(&self, shard: u16) -> Option<u64> {
        self.journal.known_head(shard)
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        self.journal.wait_beyond(shard, sequence).await
    }
}

#[async_trait]
impl<J: Journal> ShardLeases for MeasuredJournal<J> {
    async fn work(&self, shard: u16, owner: &str) -> Box<dyn ShardWorker> {
        let (held, seconds) = (self.held.clone(), self.lease_seconds.clone());
        let worker = self.journal.work(shard, owner).await;
        Box::new(MeasuredWorker {
            worker: Some(worker),
            lease: Lease { shard, held, seconds, competes_since: Instant::now() },
        })
    }
}

/// A worker whose lease is measured.
struct MeasuredWorker {
    /// There until it is released.
    worker: Option<Box<dyn ShardWorker>>,
    lease: Lease,
}

struct Lease {
    shard: u16,
    held: HeldShards,
    seconds: Histogram,
    competes_since: Instant,
}

impl Lease {
    fn note(&mut self, wake_up: &WakeUp) {
        match wake_up {
            WakeUp::Acquired => {
                self.seconds.record(self.competes_since.elapsed());
                self.held.set(self.shard, true);
            }
            WakeUp::Lost => {
                self.competes_since = Instant::now();
                self.held.set(self.shard, false);
            }
            WakeUp::Event { .. } => {}
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.held.set(self.shard, false);
    }
}

#[async_trait]
impl ShardWorker for MeasuredWorker {
    async fn next(&mut self) -> Result<WakeUp, ReadError> {
        let Some(worker) = &mut self.worker else { return std::future::pending().await };
        let wake_up = worker.next().await?;
        self.lease.note(&wake_up);
        Ok(wake_up)
    }

    async fn release(mut self: Box<Self>) {
        if let Some(worker) = self.worker.take() {
            worker.release().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use ::metrics::with_local_recorder;
    use journal::memory::MemoryJournal;
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn leases_are_counted_until_they_are_given_up() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        with_local_recorder(&recorder, || {
            runtime.block_on(async {
                let journal = MeasuredJournal::new(Arc::new(MemoryJournal::new(2)));
                let held = journal.held();
                let mut worker = journal.work(1, "owner").await;
                assert!(!held.holds(1));
                assert!(matches!(worker.next().await, Ok(WakeUp::Acquired)));
                assert!(held.holds(1) && !held.holds(0));
                assert!(handle.render().contains("gw_leases_held 1"));
                worker.release().await;
                assert!(!held.holds(1));
            });
        });
        let text = handle.render();
        assert!(text.contains("gw_leases_held 0") && text.contains("gw_lease_seconds_count 1"), "{text}");
    }
}
