//! Clock, open streams and journal of the small world.

use super::*;

#[async_trait]
impl Clock for World {
    fn now(&self) -> Timestamp {
        at(self.state.lock().unwrap().now)
    }

    async fn sleep(&self, duration: Duration) {
        let seconds = i64::try_from(duration.as_secs()).unwrap().max(1);
        self.state.lock().unwrap().now += seconds;
        tokio::task::yield_now().await;
    }
}

#[async_trait]
impl OpenStreams for World {
    async fn open_streams(&self, shard: u16, _: u64) -> Result<Vec<StreamId>, Transient> {
        let payment = StreamId::from(submission().payment_id);
        Ok(if payment.shard(self.shards()) == shard { vec![payment] } else { Vec::new() })
    }
}

/// The journal of the world, whose calls count as port calls.
#[async_trait]
impl StreamStore for World {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        let unavailable = |fault: Transient| AppendError::Unavailable(fault.to_string());
        self.call(|_| ()).await.map_err(unavailable)?;
        if let Plot::Reassigns(_) = self.plot {
            commit
                .events
                .iter()
                .filter_map(|event| event.clone().into_payment())
                .for_each(|event| self.check_journaled(&event));
        }
        let recorded = self.journal.append(commit).await?;
        // The acknowledgement may be lost, or the process may die, after the commit is durable.
        self.call(|_| ()).await.map_err(|fault| AppendError::Unknown(fault.to_string()))?;
        Ok(recorded)
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.call(|_| ()).await.map_err(|fault| ReadError::Unavailable(fault.to_string()))?;
        self.journal.load(stream_id).await
    }
}

#[async_trait]
impl ShardLog for World {
    fn epochs(&self) -> Epochs {
        self.journal.epochs()
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        self.journal.replay(shard, from, limit).await
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        self.journal.head(shard).await
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        self.journal.wait_beyond(shard, sequence).await
    }
}

#[async_trait]
impl ShardLeases for World {
    async fn work(&self, shard: u16, owner: &str) -> Box<dyn ShardWorker> {
        self.journal.work(shard, owner).await
    }
}
