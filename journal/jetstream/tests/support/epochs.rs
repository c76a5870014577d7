//! Epochs in tests: beginning and sealing them, and processes that know of them.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{sleep, timeout};

use journal::{ShardLog, conformance::epochs::Operator, memory::MemoryJournal};
use journal_jetstream::store::{BeginError, NatsJournal, Options, SealError};

use super::{connect, options};

const PATIENCE: Duration = Duration::from_secs(60);

/// A process that looks for new epochs only where something gives reason to.
pub async fn unaware(url: &str) -> NatsJournal {
    NatsJournal::connect(connect(url).await, Options { look_every: None, ..options() }).await.unwrap()
}

/// A process that looks for new epochs often.
pub async fn aware(url: &str) -> NatsJournal {
    let often = Some(Duration::from_millis(50));
    NatsJournal::connect(connect(url).await, Options { look_every: often, ..options() }).await.unwrap()
}

/// How many it knows.
pub fn epochs(journal: &NatsJournal) -> usize {
    journal.epochs().all().len()
}

pub struct FromMemory(pub MemoryJournal);

#[async_trait]
impl Operator for FromMemory {
    async fn begin(&self, shards: u16) {
        self.0.rotate(shards);
    }

    async fn seal(&self, epoch: u16) {
        self.0.seal(epoch);
    }
}

pub struct FromNats(pub NatsJournal);

/// Again and again while a cluster elects its leaders.
#[async_trait]
impl Operator for FromNats {
    async fn begin(&self, shards: u16) {
        let begun = async {
            loop {
                match self.0.begin_epoch(shards).await {
                    Err(BeginError::Streams(error)) if error.is_passing() => sleep(Duration::from_millis(20)).await,
                    begun => return begun.unwrap(),
                }
            }
        };
        assert_eq!(timeout(PATIENCE, begun).await.unwrap().shards, shards);
    }

    async fn seal(&self, epoch: u16) {
        let sealed = async {
            loop {
                match self.0.seal(epoch).await {
                    Err(SealError::Refused { .. }) => sleep(Duration::from_millis(20)).await,
                    Err(SealError::Streams(error)) if error.is_passing() => sleep(Duration::from_millis(20)).await,
                    sealed => return sealed.unwrap(),
                }
            }
        };
        assert!(timeout(PATIENCE, sealed).await.unwrap().sealed);
    }
}
