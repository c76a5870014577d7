//! Records in memory, with the semantics of the real ones: for tests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::Utc;
use futures::{StreamExt, stream::BoxStream};
use tokio::sync::broadcast;

use super::{Error, Record, Records};

/// Hints that wait for a slow listener.
const HINTS_MAX: usize = 1_024;

/// Records in memory. Clones share them, as connections to one server do.
#[derive(Debug, Clone)]
pub struct MemoryRecords {
    records: Arc<Mutex<Vec<Record>>>,
    hints: broadcast::Sender<String>,
}

impl Default for MemoryRecords {
    fn default() -> Self {
        Self { records: Arc::default(), hints: broadcast::Sender::new(HINTS_MAX) }
    }
}

impl MemoryRecords {
    fn lock(&self) -> MutexGuard<'_, Vec<Record>> {
        // Records are only ever added, so a poisoned lock guards nothing half done.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a filter, which may have `*` and end with `>`, matches a subject.
fn matches(filter: &str, subject: &str) -> bool {
    let (mut filter, mut subject) = (filter.split('.'), subject.split('.'));
    loop {
        match (filter.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(wanted), Some(token)) if wanted == token => {}
            _ => return false,
        }
    }
}

#[async_trait]
impl Records for MemoryRecords {
    async fn append(&self, subject: &str, after: Option<u64>, body: Bytes) -> Result<u64, Error> {
        let sequence = {
            let mut records = self.lock();
            let last = records.iter().rev().find(|record| record.subject == subject).map_or(0, |last| last.sequence);
            if after.is_some_and(|after| after != last) {
                return Err(Error::Conflict);
            }
            let sequence = records.len() as u64 + 1;
            records.push(Record { sequence, subject: subject.to_owned(), stored_at: Utc::now(), body });
            sequence
        };
        // Nobody has to listen.
        let _ = self.hints.send(subject.to_owned());
        Ok(sequence)
    }

    async fn last(&self, subject: &str) -> Result<Option<Record>, Error> {
        Ok(self.lock().iter().rev().find(|record| record.subject == subject).cloned())
    }

    async fn read(&self, filter: &str, from: u64, limit: usize) -> Result<Vec<Record>, Error> {
        let records = self.lock();
        let found = records.iter().filter(|record| record.sequence >= from && matches(filter, &record.subject));
        Ok(found.take(limit).cloned().collect())
    }

    async fn head(&self) -> Result<u64, Error> {
        Ok(self.lock().len() as u64)
    }

    async fn hints(&self, filter: &str) -> Result<BoxStream<'static, String>, Error> {
        let (heard, filter) = (self.hints.subscribe(), filter.to_owned());
        let hints = futures::stream::unfold(heard, |mut heard| async {
            loop {
                match heard.recv().await {
                    Ok(subject) => return Some((subject, heard)),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        });
        Ok(hints.filter(move |subject| futures::future::ready(matches(&filter, subject))).boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_those_of_nats() {
        for (filter, subject, expected) in [
            ("a.b", "a.b", true),
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            ("a.*.c", "a.b.c", true),
            ("a.*.c", "a.b.d", false),
            ("a.b.c", "a.b", false),
        ] {
            assert_eq!(matches(filter, subject), expected, "{filter} {subject}");
        }
    }
}
