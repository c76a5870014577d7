//! What `/readyz` asks of a gateway, and its alarms.

use std::{sync::Arc, time::Duration};

use async_nats::{Client, connection::State};
use async_trait::async_trait;
use futures::future::select_ok;
use tokio::time::timeout;

use app::Readiness;
use journal::ShardLog;
use journal_jetstream::{headerless::HeaderlessClient, store::NatsJournal};
use projections::Projections;
use sagas::runner::{Engine, Misconfigured};

use crate::operator::{Unattested, Watchdog};

/// How long `/readyz` waits for the leader of a stream.
const LEADER_WAIT_MAX: Duration = Duration::from_millis(1500);

/// What `/readyz` asks.
pub(super) struct GatewayReadiness {
    client: Client,
    heard: HeaderlessClient,
    journal: Arc<NatsJournal>,
    projections: Projections,
    unattested: Unattested,
    misconfigured: Misconfigured,
}

impl GatewayReadiness {
    pub(super) fn new(
        client: &Client,
        heard: HeaderlessClient,
        journal: &Arc<NatsJournal>,
        projections: &Projections,
        watchdog: &Watchdog,
        engine: &Engine,
    ) -> Self {
        Self {
            client: client.clone(),
            heard,
            journal: journal.clone(),
            projections: projections.clone(),
            unattested: watchdog.unattested(),
            misconfigured: engine.misconfigured().clone(),
        }
    }
}

#[async_trait]
impl Readiness for GatewayReadiness {
    async fn check(&self) -> Result<(), String> {
        if self.client.connection_state() != State::Connected {
            return Err("NATS is not connected".to_owned());
        }
        if !self.heard.is_connected() {
            return Err("settlers cannot be heard: their connection to NATS is lost".to_owned());
        }
        self.projections.ready().map_err(|unavailable| format!("read models: {unavailable}"))?;
        // Without a majority of the servers no stream has a leader. One stream that has none will have another in
        // seconds; were that enough to be not ready, all gateways would be so at once for the sake of one shard.
        let epochs = self.journal.epochs();
        let heads = epochs.open_shards().map(|shard| self.journal.head(shard));
        match timeout(LEADER_WAIT_MAX, select_ok(heads)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(format!("no stream of the journal has a leader: {error}")),
            Err(_) => return Err("no stream of the journal has a leader".to_owned()),
        }
        // A sealed stream takes nothing, but every submission asks one of each sealed epoch whether it has the id, and they
        // may lie on other servers.
        for epoch in epochs.all().iter().filter(|epoch| epoch.sealed) {
            let heads = epoch.range().map(|shard| self.journal.head(shard));
            let asked = timeout(LEADER_WAIT_MAX, select_ok(heads)).await;
            if !matches!(asked, Ok(Ok(_))) {
                return Err(format!("no stream of the sealed epoch {} has a leader", epoch.number));
            }
        }
        Ok(())
    }

    fn alarms(&self) -> Vec<String> {
        let journal = self.projections.alarms();
        journal
            .iter()
            .map(ToString::to_string)
            .chain(self.unattested.alarm())
            .chain(self.misconfigured.alarm())
            .collect()
    }
}
