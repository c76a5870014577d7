//! The operators' console of a gateway: what it asks of NATS and of the parts of this process, behind the ports of the crate
//! `gateway-console`.

mod commits;
mod installation;
mod orders;

use std::sync::Arc;

use anyhow::{Context, Result};
use async_nats::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use app::{
    Readiness,
    admission::pause::{self, ControlBucket},
    own_payments::parked::ParkedPayments,
};
use auction::NatsAuction;
use chains::readiness::ChainsReadiness;
use config::{ConsoleConfig, GatewayConfig};
use events::event::VerifierRef;
use gateway_console::{
    Parts,
    graphs::Graphs,
    operators::{Operator, Operators},
};
use journal::parking::Parking;
use journal_jetstream::{
    operator_acts::NatsOperatorActs,
    store::{ConnectError, NatsJournal},
};
use projections::Projections;
use sagas::runner::Misconfigured;

use self::{commits::JournalCommits, installation::GatewayInstallation, orders::GatewayOrders};
use crate::{
    operator::{LastLook, Unattested, parked_advice},
    startup::waiting_for,
};

/// What a console has of NATS.
pub(crate) struct OpenedConsole {
    /// A connection of its own: what operators look at holds up no append and no reading of the API.
    client: Client,
    acts: NatsOperatorActs,
    control: ControlBucket,
}

impl OpenedConsole {
    /// Opens what a console needs over `client`.
    ///
    /// # Errors
    /// When a stream is not what it has to be.
    pub(crate) async fn open(client: Client, replicas: usize) -> Result<Self> {
        let acts = || NatsOperatorActs::open(client.clone(), replicas);
        let acts = waiting_for("the operators' acts", ConnectError::is_passing, acts).await;
        let acts = acts.context("open the record of operators' acts")?;
        let control = || ControlBucket::open(client.clone(), replicas);
        let is_passing = |error: &pause::Error| matches!(error, pause::Error::Unavailable(_));
        let control = waiting_for("the operators' bucket", is_passing, control).await;
        let control = control.context("open the operators' bucket")?;
        Ok(Self { client, acts, control })
    }
}

/// What a console shows of the parts of this process.
pub(crate) struct Shown {
    pub(crate) projections: Projections,
    pub(crate) journal: Arc<NatsJournal>,
    pub(crate) parking: Arc<dyn Parking>,
    pub(crate) parked: ParkedPayments,
    pub(crate) readiness: Arc<dyn Readiness>,
    pub(crate) look: LastLook,
    pub(crate) unattested: Unattested,
    pub(crate) misconfigured: Misconfigured,
    pub(crate) settlers: Arc<NatsAuction>,
    pub(crate) chains: ChainsReadiness,
}

impl OpenedConsole {
    /// The console of the gateway with this configuration.
    pub(crate) fn parts(self, config: &GatewayConfig, shown: Shown) -> Parts {
        let Self { client, acts, control } = self;
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
        } = shown;
        let orders = GatewayOrders::new(config.name(), acts, control.clone(), parking.clone(), client.clone());
        let commits = JournalCommits::new(client.clone(), journal.clone());
        let installation = GatewayInstallation {
            network: installation::network(config),
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
        };
        Parts {
            gateway: config.name(),
            operators: operators(&config.console),
            projections,
            parked,
            parking,
            advice: parked_advice::advice,
            commits: Arc::new(commits),
            installation: Arc::new(installation),
            orders: Arc::new(orders),
            graphs: Graphs::default(),
            verifiers: verifiers(config),
            grace: std::time::Duration::from_secs(config.watchdog.grace_seconds),
        }
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

/// The verifiers that the configuration names.
fn verifiers(config: &GatewayConfig) -> Vec<VerifierRef> {
    let default = &config.verifier;
    let accounts = [&default.account, &default.solana_account, &default.tron_account].into_iter().flatten();
    let defaults = accounts.map(|account| (account, &default.endpoint));
    let trusted = config.trust.verifiers.iter().map(|verifier| (&verifier.account, &verifier.endpoint));
    let named = defaults.chain(trusted);
    named.map(|(account, endpoint)| VerifierRef { account: account.clone(), endpoint: endpoint.clone() }).collect()
}

/// Listens where the configuration says, and answers until `shutdown`.
///
/// # Errors
/// When the address is taken.
pub(crate) async fn serve(config: ConsoleConfig, parts: Parts, shutdown: CancellationToken) -> Result<()> {
    let Some(listen) = config.listen else { return Ok(()) };
    if let Some(listen) = config.beyond_loopback() {
        tracing::warn!(%listen, "tokens of operators go to this address over plain HTTP; put TLS before it");
    }
    let listener = TcpListener::bind(listen).await.with_context(|| format!("listen on {listen} for [console]"))?;
    tracing::info!(address = %listen, operators = config.operators.len(), "the operators' console is here");
    gateway_console::serve(listener, parts, shutdown).await;
    Ok(())
}
