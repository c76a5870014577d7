//! What the worker of a shard is woken for: all that is stored in its log, by this process or another.

use std::{sync::Arc, time::Duration};

use async_nats::Client;
use tokio::time::sleep;
use tracing::debug;

use super::{Inner, shard::Shard, tail::Commits};
use crate::shard_worker::{Followed, Report, Unheard};

const RETRY: Duration = Duration::from_millis(100);
/// Most commits that are read at a time.
const PAGE: usize = 256;

impl Followed for Inner {
    fn lease_client(&self) -> &Client {
        self.leaser.get().unwrap_or(&self.client)
    }

    async fn follow(self: &Arc<Self>, shard: u16, report: Report<'_>) {
        let Some(shard) = self.shards.get(usize::from(shard)) else { return };
        // From here on what is stored is heard of, so that nothing falls between the list of open payments that the owner
        // makes and the first wake-up.
        let tail = shard.open_tail();
        self.follow_hints(shard);
        while let Err(error) = self.look(shard).await {
            debug!(shard = shard.number, %error, "the log cannot be read");
            sleep(RETRY).await;
        }
        let mut seen = shard.restart(&tail);
        report.acquired(shard.number);
        loop {
            let Commits { known, has_more } = tail.take();
            for (sequence, stream_id) in known {
                seen = sequence;
                if report.wake(stream_id, sequence).await.is_err() {
                    return;
                }
            }
            if has_more {
                let until = shard.restart(&tail);
                match self.read_up_to(shard, &mut seen, until, &report).await {
                    Ok(()) => continue,
                    Err(Unheard) => return,
                }
            }
            tail.changed().await;
        }
    }
}

impl Inner {
    /// Reports what found no room in the tail.
    async fn read_up_to(&self, shard: &Shard, seen: &mut u64, until: u64, report: &Report<'_>) -> Result<(), Unheard> {
        while *seen < until {
            let left = usize::try_from(until - *seen).unwrap_or(PAGE);
            match self.streams(shard, *seen + 1, left.min(PAGE)).await {
                Ok(page) => {
                    for (sequence, stream_id) in page {
                        *seen = sequence;
                        // What belongs to no stream wakes nobody.
                        if let Some(stream_id) = stream_id {
                            report.wake(stream_id, sequence).await?;
                        }
                    }
                }
                Err(error) => {
                    debug!(shard = shard.number, %error, "what was stored cannot be read");
                    sleep(RETRY).await;
                }
            }
        }
        Ok(())
    }
}
