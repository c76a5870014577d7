//! The operators' console of a gateway: what it asks of NATS and of the parts of this process, behind the ports of the crate
//! `gateway-console`.

mod commits;
mod installation;
mod orders;

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use async_nats::Client;

use app::{
    Readiness,
    admission::pause::{self, ControlBucket},
    own_payments::parked::ParkedPayments,
};
use auction::NatsAuction;
use chains::readiness::ChainsReadiness;
use config::{ConsoleConfig, GatewayConfig};
use gateway_console::{
    Parts,
    graphs::Graphs,
    operators::{Operator, Operators},
    ports::Network,
};
use journal::parking::Parking;
use journal_jetstream::{
    operator_acts::NatsOperatorActs,
    store::{ConnectError, NatsJournal},
};
use projections::Projections;
use sagas::{runner::Misconfigured, settler_record::PauseRule};

use self::{commits::JournalCommits, installation::GatewayInstallation, orders::GatewayOrders};
use crate::{
    operator::{LastLook, Unattested, Verifiers, parked_advice},
    startup::waiting_for,
};

/// What a console shows of the parts of this process.
pub(crate) struct Shown {
    pub(crate) projections: Projections,
    pub(crate) journal: Arc<NatsJournal>,
    /// Over the console's connection.
    pub(crate) parking: Arc<dyn Parking>,
    pub(crate) parked: ParkedPayments,
    pub(crate) readiness: Arc<dyn Readiness>,
    pub(crate) look: LastLook,
    pub(crate) unattested: Unattested,
    pub(crate) misconfigured: Misconfigured,
    pub(crate) settlers: Arc<NatsAuction>,
    pub(crate) chains: ChainsReadiness,
    pub(crate) verifiers: Verifiers,
}

/// The console of a gateway, for which nothing was opened yet.
pub(crate) struct GatewayConsole {
    gateway: String,
    replicas: usize,
    operators: Operators,
    network: Network,
    settler_pauses: PauseRule,
    grace: Duration,
    graphs: Graphs,
    client: Client,
    shown: Shown,
}

impl GatewayConsole {
    /// That of the gateway with this configuration, which asks NATS over `client`.
    pub(crate) fn new(config: &GatewayConfig, client: Client, shown: Shown) -> Self {
        Self {
            gateway: config.name(),
            replicas: usize::from(config.journal.replicas),
            operators: operators(&config.console),
            network: installation::network(config),
            settler_pauses: config.settlers.pauses.into(),
            grace: Duration::from_secs(config.watchdog.grace_seconds),
            graphs: Graphs::default(),
            client,
            shown,
        }
    }

    /// The last hour of some metrics.
    pub(crate) fn graphs(&self) -> &Graphs {
        &self.graphs
    }

    /// Opens what it needs of NATS, and waits for servers that are away or have no leader.
    ///
    /// # Errors
    /// When a stream is not what it has to be.
    pub(crate) async fn opened(self) -> Result<Parts> {
        let Self { gateway, replicas, operators, network, settler_pauses, grace, graphs, client, shown } = self;
        let acts = || NatsOperatorActs::open(client.clone(), replicas);
        let acts = waiting_for("the operators' acts", ConnectError::is_passing, acts).await;
        let acts = acts.context("open the record of operators' acts")?;
        let control = || ControlBucket::open(client.clone(), replicas);
        let is_passing = |error: &pause::Error| matches!(error, pause::Error::Unavailable(_));
        let control = waiting_for("the operators' bucket", is_passing, control).await;
        let control = control.context("open the operators' bucket")?;
        let Shown {
            projections,
            journal,
            parking,
            parked,
            readiness,
            look,
            unattested,
            misconfigured,
            settlers,
            chains,
            verifiers,
        } = shown;
        let orders = GatewayOrders::new(gateway.clone(), acts, control.clone(), parking.clone(), client.clone());
        let commits = JournalCommits::new(client.clone(), journal.clone());
        let named = verifiers.named().to_vec();
        let installation = GatewayInstallation {
            network,
            seen: installation::Seen::default(),
            client,
            control,
            journal,
            readiness,
            look,
            unattested,
            misconfigured,
            settlers,
            chains,
            verifiers,
        };
        Ok(Parts {
            gateway,
            operators,
            projections,
            parked,
            parking,
            advice: parked_advice::advice,
            commits: Arc::new(commits),
            installation: Arc::new(installation),
            orders: Arc::new(orders),
            graphs,
            verifiers: named,
            settler_pauses,
            grace,
        })
    }
}

/// Those of the configuration, which was checked.
fn operators(config: &ConsoleConfig) -> Operators {
    let known = config.operators.iter().filter_map(|operator| {
        let known = Operator { name: operator.name.clone(), may_act: operator.acts };
        Some((operator.token_digest()?, known))
    });
    Operators::new(known)
}
