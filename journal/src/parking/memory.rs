//! The parking (dead letters) in memory, with the semantics of the real one: for the simulation and for tests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::Utc;
use tokio::sync::watch;

use events::{Epoch, StreamId, time::Timestamp};

use super::{Entry, Error, Parked, Parking, ParkingPartition, Record, Replayed, still_parked};

/// The parking in memory. Clones share the same entries, as connections to one server do.
#[derive(Clone)]
pub struct MemoryParking(Arc<Inner>);

struct Inner {
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// The entry at sequence n lies at index n − 1.
    records: Mutex<Vec<Record>>,
    count: watch::Sender<usize>,
}

impl Default for MemoryParking {
    fn default() -> Self {
        Self::with_clock(Utc::now)
    }
}

impl MemoryParking {
    /// An empty parking, stamping entries with the time that `clock` tells.
    pub fn with_clock(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let (records, count) = (Mutex::default(), watch::Sender::new(0));
        Self(Arc::new(Inner { clock: Box::new(clock), records, count }))
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Vec<Record>> {
        // Records are only ever added, so a poisoned lock guards nothing half done.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, records: &mut Vec<Record>, stream_id: &StreamId, entry: Entry) -> Result<Record, Error> {
        // Through the stored form, so that whatever could not be stored fails here, too.
        let entry = Entry::decode(stream_id, &entry.encode(stream_id)?);
        let sequence = records.len() as u64 + 1;
        let record = Record { stream_id: stream_id.clone(), sequence, stored_at: (self.clock)(), entry };
        records.push(record.clone());
        self.count.send_replace(records.len());
        Ok(record)
    }
}

fn newest<'a>(records: &'a [Record], stream_id: &StreamId) -> Option<&'a Record> {
    records.iter().rev().find(|record| record.stream_id == *stream_id)
}

#[async_trait]
impl Parking for MemoryParking {
    async fn park(&self, stream_id: &StreamId, after: u64, parked: &Parked) -> Result<Record, Error> {
        let mut records = self.0.lock();
        match newest(&records, stream_id) {
            Some(newest) if newest.sequence != after => Ok(newest.clone()),
            None if after != 0 => Err(Error::Refused(format!("there is no entry at sequence {after}"))),
            _ => self.0.append(&mut records, stream_id, Entry::Parked(parked.clone())),
        }
    }

    async fn replay(&self, stream_id: &StreamId, replayed: &Replayed) -> Result<Record, Error> {
        let mut records = self.0.lock();
        if !newest(&records, stream_id).is_some_and(Record::is_parked) {
            return Err(Error::NotParked(stream_id.clone()));
        }
        self.0.append(&mut records, stream_id, Entry::Replayed(replayed.clone()))
    }

    async fn history(&self, stream_id: &StreamId) -> Result<Vec<Record>, Error> {
        Ok(self.0.lock().iter().filter(|record| record.stream_id == *stream_id).cloned().collect())
    }

    async fn parked(&self) -> Result<Vec<Record>, Error> {
        let records = self.0.lock().clone();
        Ok(still_parked(records))
    }

    fn follow(&self, epoch: Epoch, shard: u16) -> Box<dyn ParkingPartition> {
        Box::new(MemoryPartition { inner: self.0.clone(), epoch, shard, next: None, count: self.0.count.subscribe() })
    }
}

struct MemoryPartition {
    inner: Arc<Inner>,
    epoch: Epoch,
    shard: u16,
    /// Index of the next record to look at; `None` before the first look.
    next: Option<usize>,
    count: watch::Receiver<usize>,
}

#[async_trait]
impl ParkingPartition for MemoryPartition {
    async fn next(&mut self) -> Result<Vec<Record>, Error> {
        loop {
            let first = self.next.is_none();
            self.count.mark_unchanged();
            let found: Vec<Record> = {
                let records = self.inner.lock();
                let from = self.next.replace(records.len()).unwrap_or_default();
                let ours = |record: &&Record| self.epoch.shard_of(&record.stream_id) == self.shard;
                records[from..].iter().filter(ours).cloned().collect()
            };
            if first || !found.is_empty() {
                return Ok(found);
            }
            // The sender lives as long as the parking, which this partition holds.
            let _ = self.count.changed().await;
        }
    }
}
