//! Which payments are parked, for filters: read from the parking when somebody asks, and at most every two seconds.

use std::{collections::HashSet, sync::Arc, time::Duration};

use moka::future::Cache;
use tokio::time::timeout;

use events::{PaymentId, StreamId};
use journal::parking::{Parking, Record};

/// How long what was read is good for.
const FRESH: Duration = Duration::from_secs(2);
/// How long one reading may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The payments and batches that are parked, as they were when the parking was read.
#[derive(Debug, Default)]
pub struct Parked {
    /// The newest entry of each, in the order in which they were parked.
    pub records: Vec<Record>,
    /// The payments among them.
    pub payments: HashSet<PaymentId>,
}

/// What is parked, as it was two seconds ago at most. However many ask at the same time, the parking is read once. Cheap to
/// clone.
#[derive(Clone)]
pub struct ParkedPayments {
    parking: Arc<dyn Parking>,
    known: Cache<(), Arc<Parked>>,
}

impl ParkedPayments {
    /// Those of this parking.
    pub fn new(parking: Arc<dyn Parking>) -> Self {
        Self { parking, known: Cache::builder().max_capacity(1).time_to_live(FRESH).build() }
    }

    /// What is parked.
    ///
    /// # Errors
    /// Why the parking cannot be read.
    pub async fn now(&self) -> Result<Arc<Parked>, String> {
        let read = async {
            let parked = timeout(ANSWER_MAX, self.parking.parked()).await;
            let records = parked.map_err(|_| "no answer in time".to_owned())?.map_err(|error| error.to_string())?;
            let payments = records.iter().filter_map(|record| StreamId::payment(&record.stream_id)).cloned().collect();
            Ok(Arc::new(Parked { records, payments }))
        };
        self.known.try_get_with((), read).await.map_err(|fault: Arc<String>| (*fault).clone())
    }

    /// Forgets what was read, as after a change of one's own.
    pub async fn forget(&self) {
        self.known.invalidate(&()).await;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::{
        future::pending,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use async_trait::async_trait;
    use futures::future::join_all;

    use events::{CommitId, Epoch, QuoteRequestId};
    use journal::parking::{self, ParkingPartition, Replayed, conformance, memory::MemoryParking};

    use super::*;

    /// A parking that counts how often it is read.
    #[derive(Default)]
    pub(crate) struct Counted {
        parking: MemoryParking,
        readings: AtomicUsize,
        is_silent: bool,
    }

    impl Counted {
        /// One that never says what is parked.
        pub(crate) fn silent() -> Self {
            Self { is_silent: true, ..Self::default() }
        }
    }

    #[async_trait]
    impl Parking for Counted {
        async fn park(&self, id: &StreamId, after: u64, why: &parking::Parked) -> Result<Record, parking::Error> {
            self.parking.park(id, after, why).await
        }

        async fn replay(&self, id: &StreamId, replayed: &Replayed) -> Result<Record, parking::Error> {
            self.parking.replay(id, replayed).await
        }

        async fn history(&self, id: &StreamId) -> Result<Vec<Record>, parking::Error> {
            self.parking.history(id).await
        }

        async fn parked(&self) -> Result<Vec<Record>, parking::Error> {
            self.readings.fetch_add(1, Ordering::SeqCst);
            if self.is_silent {
                pending::<()>().await;
            }
            tokio::task::yield_now().await;
            self.parking.parked().await
        }

        fn follow(&self, epoch: Epoch, shard: u16) -> Box<dyn ParkingPartition> {
            self.parking.follow(epoch, shard)
        }
    }

    #[tokio::test]
    async fn a_crowd_reads_the_parking_once_and_sees_payments_and_batches() {
        let parking = Arc::new(Counted::default());
        let payment = conformance::fresh();
        let batch: StreamId = QuoteRequestId::derive("parking", CommitId::random().as_str()).into();
        for stream_id in [&payment, &batch] {
            parking.park(stream_id, 0, &conformance::parked("a")).await.unwrap();
        }
        let parked = ParkedPayments::new(parking.clone());
        for found in join_all((0..50).map(|_| parked.now())).await {
            let found = found.unwrap();
            assert_eq!(found.records.len(), 2);
            assert_eq!(found.payments.iter().collect::<Vec<_>>(), [payment.payment().unwrap()]);
        }
        assert_eq!(parking.readings.load(Ordering::SeqCst), 1);
        parking.replay(&payment, &Replayed::new("ana", chrono::Utc::now())).await.unwrap();
        parked.forget().await;
        assert!(parked.now().await.unwrap().payments.is_empty());
        assert_eq!(parking.readings.load(Ordering::SeqCst), 2);
    }
}
