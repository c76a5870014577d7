//! The record of operators' acts in memory, with the semantics of the real one: for tests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::Utc;

use super::{Entry, Error, OperatorActs, PAGE_MAX, Recorded};

/// The record in memory. Clones share the same entries, as connections to one server do.
#[derive(Debug, Clone, Default)]
pub struct MemoryOperatorActs(Arc<Mutex<Vec<Recorded>>>);

impl MemoryOperatorActs {
    fn lock(&self) -> MutexGuard<'_, Vec<Recorded>> {
        // Entries are only ever added, so a poisoned lock guards nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl OperatorActs for MemoryOperatorActs {
    async fn record(&self, entry: &Entry) -> Result<u64, Error> {
        entry.encode()?;
        let mut records = self.lock();
        let of_act: Vec<&Recorded> = records.iter().filter(|recorded| recorded.entry.id() == entry.id()).collect();
        if let Some(same) = of_act.iter().find(|recorded| recorded.entry == *entry) {
            return Ok(same.sequence);
        }
        match (entry, of_act.len()) {
            (Entry::Ordered(_), 0) | (Entry::Ended { .. }, 1) => {}
            (Entry::Ended { id, .. }, 0) => return Err(Error::NotOrdered(id.clone())),
            (Entry::Ended { .. }, _) => return Err(Error::Refused("the act has ended otherwise".to_owned())),
            _ => return Err(Error::Refused("another order has its id".to_owned())),
        }
        let sequence = records.len() as u64 + 1;
        records.push(Recorded { sequence, stored_at: Utc::now(), entry: entry.clone() });
        Ok(sequence)
    }

    async fn newest(&self, before: Option<u64>, limit: usize) -> Result<Vec<Recorded>, Error> {
        let records = self.lock();
        let below =
            records.iter().rev().skip_while(|recorded| before.is_some_and(|before| recorded.sequence >= before));
        Ok(below.take(limit.min(PAGE_MAX)).cloned().collect())
    }
}
