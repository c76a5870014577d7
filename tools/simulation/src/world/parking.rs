//! The simulated parking (dead letters) of one process of the gateway.

use std::{future::ready, time::Duration};

use async_trait::async_trait;
use tokio::time::sleep;

use events::{Epoch, StreamId};
use journal::parking::{Error, Parked, Parking, ParkingPartition, Record, Replayed};

use super::ports::PortContext;

/// How often a follower looks for new entries.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// The parking, with calls that fail.
pub struct SimParking(pub PortContext);

impl SimParking {
    async fn fault(&self) -> Result<(), Error> {
        self.0.process.crash_point().await;
        match self.0.world.strikes(&self.0.random, "a call to the parking fails", self.0.world.plan.faults.parking) {
            true => Err(Error::Unavailable("fault".to_owned())),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Parking for SimParking {
    async fn park(&self, stream_id: &StreamId, after: u64, parked: &Parked) -> Result<Record, Error> {
        self.fault().await?;
        let record = self.0.world.parking.park(stream_id, after, parked).await;
        self.fault().await?;
        record
    }

    async fn replay(&self, stream_id: &StreamId, replayed: &Replayed) -> Result<Record, Error> {
        self.fault().await?;
        self.0.world.parking.replay(stream_id, replayed).await
    }

    async fn history(&self, stream_id: &StreamId) -> Result<Vec<Record>, Error> {
        self.fault().await?;
        self.0.world.parking.history(stream_id).await
    }

    async fn parked(&self) -> Result<Vec<Record>, Error> {
        self.fault().await?;
        self.0.world.parking.parked().await
    }

    fn follow(&self, epoch: Epoch, shard: u16) -> Box<dyn ParkingPartition> {
        Box::new(SimPartition { parking: Self(self.0.clone()), entries: self.0.world.parking.follow(epoch, shard) })
    }
}

struct SimPartition {
    parking: SimParking,
    entries: Box<dyn ParkingPartition>,
}

#[async_trait]
impl ParkingPartition for SimPartition {
    async fn next(&mut self) -> Result<Vec<Record>, Error> {
        self.parking.fault().await?;
        loop {
            // Polled once and not awaited: tokio wakes waiting tasks in an order that the seed does not decide.
            tokio::select! {
                biased;
                entries = self.entries.next() => return entries,
                () = ready(()) => {}
            }
            sleep(LOOK_EVERY).await;
        }
    }
}
