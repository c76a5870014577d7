//! Webhooks of a gateway: what owners of payments may ask for, and what delivers to them.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use async_nats::Client;
use async_trait::async_trait;
use futures::future::try_join_all;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use app::webhooks::bodies::JournalBodies;
use config::{GatewayConfig, WebhooksConfig, signing_key};
use journal::{ShardLog, StreamLog};
use journal_jetstream::store::NatsJournal;
use webhooks::{
    courier::Equipment,
    deliveries::Deliveries,
    desk::Desk,
    feed::Feed,
    http::HttpEndpoints,
    lanes::Lanes,
    metering::Attempts,
    partitions,
    ports::{Held, Ownership},
    queue::Limits,
    records::{self, nats::NatsStreams},
    registry::{Bounds, Registry},
    service::Service,
    signature::{self, Keys},
    timetable::Timetable,
};

use crate::startup::waiting_for;

/// How long it may take to learn who owns a shard.
const OWNER_WAIT_MAX: Duration = Duration::from_secs(3);

/// The streams of webhooks, opened, and the keys of their messages.
#[derive(Clone)]
pub struct OpenedWebhooks {
    streams: NatsStreams,
    keys: Keys,
    limits: Limits,
}

impl OpenedWebhooks {
    /// Opens the streams; `None` where there are no webhooks.
    ///
    /// # Errors
    /// When a stream is not what it has to be.
    pub async fn open(config: &GatewayConfig, client: &Client) -> Result<Option<Self>> {
        let Some(keys) = keys(config) else { return Ok(None) };
        let replicas = usize::from(config.journal.replicas);
        let is_passing = |error: &records::Error| matches!(error, records::Error::Unavailable(_));
        let open = || NatsStreams::open(client.clone(), replicas, config.webhooks.stream_bytes_max);
        let streams = waiting_for("the webhooks", is_passing, open).await.context("open the webhooks")?;
        Ok(Some(Self { streams, keys, limits: Limits::default() }))
    }

    /// The desk of owners and operators.
    ///
    /// # Errors
    /// When there can be no HTTP client.
    pub fn desk(&self, config: &GatewayConfig) -> Result<Desk> {
        let (registry, deliveries) = self.stores(config);
        let endpoints = Arc::new(endpoints(&config.webhooks)?);
        Ok(Desk::new(registry, deliveries, self.keys.clone(), endpoints, self.limits, timetable(&config.webhooks)))
    }

    fn stores(&self, config: &GatewayConfig) -> (Registry, Deliveries) {
        let NatsStreams { webhooks, deliveries, state } = self.streams.clone();
        let bounds = Bounds { of_owner: config.webhooks.of_owner_max, all: config.webhooks.webhooks_max };
        let partitions = partitions::of_shards(config.journal.shards);
        let deliveries = Deliveries::new(Arc::new(deliveries), Arc::new(state), partitions);
        (Registry::new(Arc::new(webhooks), bounds), deliveries)
    }

    /// What delivers, in a process that owns shards of `journal` as `owner`; `reads` is for what has no hurry.
    ///
    /// # Errors
    /// When there can be no HTTP client.
    pub(super) fn service(
        &self,
        config: &GatewayConfig,
        journal: Arc<NatsJournal>,
        reads: Arc<NatsJournal>,
        owner: String,
    ) -> Result<Service> {
        let (registry, deliveries) = self.stores(config);
        let WebhooksConfig { calls_max, call_ms_max, .. } = config.webhooks;
        let reads: Arc<dyn StreamLog> = reads;
        let feed = Feed::new(reads.clone(), registry.clone(), deliveries.clone());
        let equipment = Equipment {
            deliveries,
            registry,
            endpoints: Arc::new(endpoints(&config.webhooks)?),
            bodies: Arc::new(JournalBodies::new(reads, config.http.base_url.clone())),
            keys: self.keys.clone(),
            limits: self.limits,
            timetable: timetable(&config.webhooks),
            lanes: Lanes::new(calls_max),
            attempts: Attempts::default(),
        };
        let shards = {
            let journal = journal.clone();
            Arc::new(move || journal.shards())
        };
        let ownership = Arc::new(ShardOwnership { journal, owner });
        let pause = Duration::from_millis(call_ms_max);
        Ok(Service::new(Arc::new(equipment), feed, ownership, shards, pause))
    }
}

/// Delivers until `shutdown`.
pub(super) async fn run(service: Option<Service>, shutdown: CancellationToken) {
    match service {
        Some(service) => service.run(shutdown).await,
        None => shutdown.cancelled().await,
    }
}

/// The keys that messages are signed with; `None` where there are no webhooks.
fn keys(config: &GatewayConfig) -> Option<Keys> {
    let webhooks = &config.webhooks;
    if !webhooks.enabled {
        return None;
    }
    let mut configured = webhooks.signing_keys().into_iter();
    let derived = || config.gateway.key.as_ref().and_then(signing_key).map(|key| signature::derived(&key));
    let Some(current) = configured.next().or_else(derived) else {
        tracing::warn!("without `[gateway] key` or `[webhooks] key` there are no webhooks");
        return None;
    };
    Some(Keys::new(current, configured))
}

fn endpoints(config: &WebhooksConfig) -> Result<HttpEndpoints> {
    let call_max = Duration::from_millis(config.call_ms_max);
    HttpEndpoints::new(config.origins.clone(), call_max).context("make an HTTP client for webhooks")
}

fn timetable(config: &WebhooksConfig) -> Timetable {
    Timetable::new(config.pauses())
}

/// Who owns which shard, by the leases of the engine.
struct ShardOwnership {
    journal: Arc<NatsJournal>,
    owner: String,
}

#[async_trait]
impl Ownership for ShardOwnership {
    async fn held(&self) -> Result<Held, String> {
        let epochs = self.journal.epochs();
        let open = epochs.all().iter().filter(|epoch| !epoch.sealed).flat_map(|epoch| epoch.first..epoch.end());
        let open: Vec<u16> = open.collect();
        let owners = try_join_all(open.iter().map(|shard| self.journal.owner(*shard)));
        let owners = timeout(OWNER_WAIT_MAX, owners).await.map_err(|_| "no answer in time".to_owned())?;
        let owners = owners.map_err(|error| error.to_string())?;
        let own = open.iter().zip(owners).filter(|(_, owner)| owner.as_ref() == Some(&self.owner));
        let own: BTreeSet<u16> = own.map(|(shard, _)| *shard).collect();
        Ok(Held { open, own })
    }
}
