//! The auction over NATS: the settlers' registry, requests and bids, awards and reports.
//!
//! | what | where it lives |
//! |---|---|
//! | registrations | key-value bucket `settlers`, lapsing after 30 s |
//! | requests for quotes | published to each eligible settler; a settler that misses one is asked again |
//! | bids | heard live, and kept an hour in stream `BIDS`, the latest of each settler in each auction, so that a gateway that takes over in mid-auction finds what was offered before |
//! | who was asked | stream `BIDS` too, for the same reason |
//! | awards | stream `AWARDS`, with a durable consumer for each settler |
//! | reports | published; hints and nothing more |
//!
//! Nothing here judges a bid: `sagas::auction` does. The wire form of the messages is `settler::protocol`; [`wire`] turns
//! it into the engine's types and back.

mod awards;
mod gather;
mod progress;
mod registry;
mod stored;
pub(crate) mod streams;
pub mod wire;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_nats::jetstream;
use async_trait::async_trait;
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use events::{PaymentId, SettlerToken};
use sagas::ports::{Auction, Award, Gathered, RequestForQuotes, Transient};
use settler::protocol::{self, Report, split_subject};

use self::registry::Registry;
pub use self::{progress::Progress, streams::Error};
use crate::identity::SettlerPolicies;

/// Reports that may wait to be looked at; more are dropped, since each is a hint only.
const HINTS_MAX: usize = 1024;
/// Pause before something that failed is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How the auction's streams are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Replicas of each stream: 1 on one machine, 3 in a cluster; takes effect when they are created.
    pub replicas: usize,
    /// Longest collection window, whatever its request says: streams may hold requests of a time with other limits.
    pub window_max: Duration,
    /// How long a window without anybody to ask stays open, for a settler that is just coming back.
    pub grace: Duration,
    /// How long it does so at least after the registry was read for the first time: settlers that were cut off together with
    /// the gateway may not have registered again.
    pub settling: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            replicas: 1,
            window_max: Duration::from_secs(600),
            grace: Duration::from_secs(1),
            settling: Duration::from_secs(10),
        }
    }
}

/// The settlers as the engine sees them. Cheap to clone; works as long as its [`Service`] runs.
#[derive(Clone)]
pub struct NatsAuction(Arc<Inner>);

/// Keeps the registry current, gives new settlers their award consumers and listens to reports.
pub struct Service {
    inner: Arc<Inner>,
    hints: mpsc::Sender<PaymentId>,
}

struct Inner {
    client: async_nats::Client,
    jetstream: jetstream::Context,
    options: Options,
    registry: Registry,
    /// By which credentials settlers hold policies.
    policies: SettlerPolicies,
    /// Settlers whose award consumer is known to exist.
    consumers: Mutex<HashSet<SettlerToken>>,
}

/// Creates the streams that are missing and opens the auction. The receiver yields payments whose delivery a settler
/// reported: hints to look at the chain.
///
/// # Errors
/// [`Error`] when NATS cannot be reached or refuses.
pub async fn open(
    client: async_nats::Client,
    options: Options,
    policies: SettlerPolicies,
) -> Result<(NatsAuction, Service, mpsc::Receiver<PaymentId>), Error> {
    let jetstream = jetstream::new(client.clone());
    streams::ensure(&jetstream, options).await?;
    let (hints, receiver) = mpsc::channel(HINTS_MAX);
    let (registry, consumers) = (Registry::default(), Mutex::default());
    let inner = Arc::new(Inner { client, jetstream, options, registry, policies, consumers });
    Ok((NatsAuction(inner.clone()), Service { inner, hints }, receiver))
}

#[async_trait]
impl Auction for NatsAuction {
    async fn gather(&self, request: &RequestForQuotes) -> Result<Gathered, Transient> {
        self.0.gather(request).await
    }

    async fn award(&self, award: &Award) -> Result<(), Transient> {
        self.0.award(award).await
    }
}

impl Service {
    /// Works until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        shutdown
            .run_until_cancelled(async {
                tokio::join!(self.inner.keep_registry(), self.listen_to_reports());
            })
            .await;
    }

    async fn listen_to_reports(&self) {
        loop {
            match self.inner.client.subscribe(protocol::REPORT_SUBJECTS).await {
                Ok(mut reports) => {
                    while let Some(message) = reports.next().await {
                        if let Some(payment_id) = reported(&message) {
                            // Full: the engine has enough to look at, and finds deliveries without being told.
                            let _ = self.hints.try_send(payment_id);
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "cannot listen to reports, trying again"),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

fn reported(message: &async_nats::Message) -> Option<PaymentId> {
    let report: Report = protocol::read(&message.payload).ok()?;
    let (_, id) = split_subject(&message.subject, "report")?;
    (report.payment_id.as_str() == id).then_some(report.payment_id)
}

impl Inner {
    /// Makes sure that streams exist which vanish with a server (memory) or with its disk. Whoever finds one missing
    /// calls this.
    async fn restore_streams(&self) {
        match streams::ensure(&self.jetstream, self.options).await {
            // A new stream of awards has no consumers.
            Ok(created) if created.awards => self.consumers().clear(),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "streams of the auction cannot be restored for now"),
        }
    }

    /// Makes sure that the settler has its durable consumer of awards.
    async fn ensure_consumer(&self, settler: &SettlerToken) -> Result<(), Error> {
        if self.consumers().contains(settler) {
            return Ok(());
        }
        streams::create_consumer(&self.jetstream, settler).await?;
        self.consumers().insert(settler.clone());
        Ok(())
    }

    fn consumers(&self) -> std::sync::MutexGuard<'_, HashSet<SettlerToken>> {
        // Inserting cannot panic half way.
        self.consumers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
