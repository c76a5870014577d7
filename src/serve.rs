//! The long-running roles, wired together from their configuration.

mod chain_watch;
mod connected_chains;
mod dedicated_runtime;
mod opened;
mod parts;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, connection::State};
use async_trait::async_trait;
use futures::future::{select_ok, try_join};
use tokio::{net::TcpListener, sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use api::HttpState;
use app::{
    Readiness, Services,
    admission::{
        Admission,
        pause::PauseFollower,
        policy::{self, Counterparties},
    },
    views::fresh::FreshViews,
};
use auction::{
    self,
    selector::{self, NatsSelector},
};
use chains::{
    config::ChainConfig,
    readiness::{ChainsReadiness, ReadinessProbe},
    registry::ChainRegistry,
    verifier::Verifier,
};
use chains_evm::adapter::EvmChain;
use config::{GatewayConfig, NatsConfig, SelectorConfig, VerifierConfig, signing_key};
use events::{CommitId, PaymentId};
use identity::Identities;
use journal::ShardLog;
use journal_jetstream::{
    connection::{self, CONNECT_MAX, PING_EVERY},
    headerless::HeaderlessClient,
    store::NatsJournal,
};
use net::server;
use projections::Projections;
use protocol::message_signature::Signer;
use sagas::runner::{Engine, Misconfigured, Options as EngineOptions, Ports, Runner};
use verifier::{self, HttpVerifier};

use self::{
    connected_chains::{ConnectedChains, signer},
    dedicated_runtime::DedicatedRuntime,
    opened::Opened,
    parts::Parts,
};
use crate::{
    auditors,
    clock::SystemClock,
    metrics::{GatewayGauges, MeasuredJournal, Metrics, PaymentMetrics, Spending},
    operator::{self, Unattested, Watchdog, WatchdogOptions},
    startup::waiting_for,
};

/// How long one question to a verifier may take.
const VERIFIER_WAIT_MAX: Duration = Duration::from_secs(10);
/// Longest pause between two attempts to reach NATS again.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(500);
/// How long `/readyz` waits for the leader of a stream.
const LEADER_WAIT_MAX: Duration = Duration::from_millis(1500);

/// Runs a gateway until `shutdown`: HTTP API, engine, read models, auction.
///
/// # Errors
/// When a dependency is not as configured at start-up, or a part ends that should not.
pub async fn gateway(config: GatewayConfig, shutdown: CancellationToken) -> Result<()> {
    // Before any part makes its handles.
    let metrics = Metrics::install(config.metrics.listen)?;
    let identities = Identities::load(&config.identity).context("[identity]")?;
    let following = DedicatedRuntime::start("following").context("start a thread")?;
    let opened = shutdown.run_until_cancelled(Opened::open(&config, &identities, &following)).await;
    let Some(opened) = opened.transpose()? else { return Ok(()) };
    let assembled = Assembled::new(&config, opened, identities, &following, &shutdown)?;
    assembled.run(&config, metrics, &following, shutdown).await
}

/// The parts of a gateway, put together and not started yet.
struct Assembled {
    client: Client,
    journal: Arc<NatsJournal>,
    projections: Projections,
    engine: Engine,
    /// Tells this process from others; the owner of its shards.
    owner: String,
    /// The DID that it asks verifiers as, where a key is configured.
    did: Option<String>,
    clock: Arc<SystemClock>,
    evm: Vec<Arc<EvmChain>>,
    /// What looks at the chains, and what is made of it.
    probes: Vec<Arc<dyn ReadinessProbe>>,
    chain_readiness: ChainsReadiness,
    auction_service: auction::Service,
    auditors: auditors::Service,
    /// Payments whose delivery a settler reported.
    reports: mpsc::Receiver<PaymentId>,
    pause: PauseFollower,
    counterparties: Counterparties,
    watchdog: Watchdog,
    spending: Arc<Spending>,
    gauges: GatewayGauges,
    state: Arc<HttpState>,
}

impl Assembled {
    fn new(
        config: &GatewayConfig,
        opened: Opened,
        identities: Identities,
        following: &DedicatedRuntime,
        shutdown: &CancellationToken,
    ) -> Result<Self> {
        let Opened {
            client,
            journal,
            reads,
            ledger,
            budgets,
            parking,
            heard,
            auction,
            auditors,
            selectors,
            pause,
            identifiers,
        } = opened;
        let (settlers, auction_service, reports) = auction;
        let settlers = Arc::new(settlers);
        let projections = Projections::open(&config.projections.directory, journal.shards())?;
        let counterparties = counterparties(config).context("[counterparty]")?;
        let clock = Arc::new(SystemClock);
        let ConnectedChains { chains, vitals, evm, authorizer, funds, probes, readiness: chain_readiness } =
            ConnectedChains::new(config, ledger, budgets, clock.clone())?;
        let (verifier, did) = verifier_client(config, chains.clone())?;
        let heads = chains.clone();
        let measured = Arc::new(MeasuredJournal::new(journal.clone()));
        let ports = Ports {
            journal: measured.clone(),
            chains: chains.clone(),
            auction: settlers.clone(),
            selector: Arc::new(NatsSelector::new(selectors)),
            verifier: Arc::new(verifier),
            open_streams: Arc::new(projections.clone()),
            parking: parking.clone(),
            clock: clock.clone(),
        };
        let engine = Engine::new(ports, EngineOptions { release: config.release.into(), ..EngineOptions::default() });
        let spending = Arc::new(Spending::new(&vitals));
        let engine = match config.metrics.listen {
            Some(_) => engine.observed(Arc::new(PaymentMetrics::new(spending.clone()))),
            None => engine,
        };
        let owner = CommitId::random().to_string();
        let watchdog = Watchdog::new(projections.clone(), (*journal).clone(), owner.clone(), watching(config));
        let readiness = GatewayReadiness::new(&client, heard, &journal, &projections, &watchdog, &engine);
        let readiness: Arc<dyn Readiness> = Arc::new(readiness);
        let gauges = GatewayGauges {
            client: client.clone(),
            journal: journal.clone(),
            projections: projections.clone(),
            parking,
            registry: chains,
            vitals,
            readiness: readiness.clone(),
            pause: pause.state(),
            look: watchdog.last_look(),
            held: measured.held(),
        };
        let views = FreshViews::new(projections.clone(), journal.clone(), reads.clone(), following.handle());
        let services = Services {
            journal: measured,
            reads,
            payments: Arc::new(views.clone()),
            quote_requests: Arc::new(views),
            auctions: settlers,
            authorizer,
            clock: clock.clone(),
            admission: Admission::new(pause.state(), counterparties.clone()),
            identities,
            identifiers: Arc::new(identifiers),
            chains: chain_readiness.clone(),
            heads,
            funds,
            readiness,
            stopping: shutdown.clone(),
        };
        let state = Arc::new(HttpState::new(config, services));
        Ok(Self {
            client,
            journal,
            projections,
            engine,
            owner,
            did,
            clock,
            evm,
            probes,
            chain_readiness,
            auction_service,
            auditors: auditors::Service::new(auditors),
            reports,
            pause,
            counterparties,
            watchdog,
            spending,
            gauges,
            state,
        })
    }

    /// Listens, starts the parts and waits for their end.
    async fn run(
        self,
        config: &GatewayConfig,
        metrics: Option<Metrics>,
        following: &DedicatedRuntime,
        shutdown: CancellationToken,
    ) -> Result<()> {
        let operator = self.operator(config);
        let Self {
            client,
            journal,
            projections,
            engine,
            owner,
            did,
            clock,
            evm,
            probes,
            chain_readiness,
            mut reports,
            counterparties,
            spending,
            gauges,
            ..
        } = self;
        let callers = Arc::clone(self.state.callers());
        let router = api::routes::router(self.state);
        let listener = TcpListener::bind(config.http.listen).await;
        let listener = listener.with_context(|| format!("listen on {}", config.http.listen))?;
        let (address, name) = (config.http.listen, config.name());
        tracing::info!(%address, chains = config.chains.len(), name, owner, did, "gateway listens");

        let replicas = usize::from(config.journal.replicas);
        let mut parts = Parts::until(shutdown.clone());
        if let Some(metrics) = metrics {
            let (sampler, sampled) = (gauges.into_sampler(), shutdown.clone());
            parts.start(sampler.clone().run(shutdown.clone()));
            parts.start({
                let shutdown = shutdown.clone();
                async move { spending.run(shutdown).await }
            });
            parts.start_fallible(metrics.serve(move || sampler.sample(), sampled));
        }
        parts.start_fallible({
            let (journal, shutdown) = (journal.clone(), shutdown.clone());
            let follows = following.spawn(async move { projections.run(journal, shutdown).await });
            async move { follows.await?.context("read models") }
        });
        parts.start(Runner::new(engine.clone(), owner).run(shutdown.clone()));
        parts.start(self.auction_service.run(shutdown.clone()));
        parts.start(self.auditors.run(shutdown.clone()));
        parts.start(self.pause.run(shutdown.clone()));
        parts.start({
            let shutdown = shutdown.clone();
            async move { counterparties.run(shutdown).await }
        });
        parts.start({
            let shutdown = shutdown.clone();
            async move {
                shutdown.run_until_cancelled(EvmChain::maintain(&evm, &*clock)).await;
            }
        });
        parts.start(chain_watch::run(chain_readiness, probes, shutdown.clone()));
        parts.start(operator.run(shutdown.clone()));
        parts.start(self.watchdog.run(shutdown.clone()));
        parts.start(audit::signing::run(client, config.audit.clone(), journal, replicas, shutdown.clone()));
        parts.start(async move {
            // Ends with the auction's service, which holds the sender.
            while let Some(payment_id) = reports.recv().await {
                engine.hint(&payment_id);
            }
        });
        let limits = config.http.limits();
        parts.start(server::serve(listener, router, limits, move |peer| callers.connection(peer), shutdown));
        parts.join().await
    }

    /// What answers operators.
    fn operator(&self, config: &GatewayConfig) -> operator::Service {
        let subject = operator::Subject {
            name: config.name(),
            owner: self.owner.clone(),
            listen: config.http.listen.to_string(),
            projections: self.projections.clone(),
            journal: (*self.journal).clone(),
            grace: watching(config).grace,
            unattested: self.watchdog.unattested(),
        };
        operator::Service::new(self.client.clone(), subject)
    }
}

/// When the watchdog looks, and for what.
fn watching(config: &GatewayConfig) -> WatchdogOptions {
    let (every, grace) = (config.watchdog.every_seconds, config.watchdog.grace_seconds);
    WatchdogOptions { every: Duration::from_secs(every), grace: Duration::from_secs(grace) }
}

/// The client that asks verifiers, and the DID that it signs as, where a key is configured.
fn verifier_client(
    config: &GatewayConfig,
    chains: Arc<ChainRegistry>,
) -> Result<(HttpVerifier, Option<String>), verifier::OptionsError> {
    let trusted = config.trust.verifiers.iter().map(|verifier| &verifier.endpoint).chain([&config.verifier.endpoint]);
    let trusted_origins = trusted.cloned().collect();
    let signer = config.gateway.key.as_ref().and_then(signing_key).map(Signer::new);
    let did = signer.as_ref().map(|signer| signer.did().to_string());
    if did.is_none() {
        tracing::warn!("without `[gateway] key` this gateway is an unknown caller to verifiers");
    }
    let options = verifier::Options { trusted_origins, wait_max: VERIFIER_WAIT_MAX, signer };
    Ok((HttpVerifier::new(chains, options)?, did))
}

/// Whether no server was reached at all, as against one that refuses.
fn is_away(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref().map(async_nats::ConnectError::kind);
    matches!(kind, Some(ConnectErrorKind::Io | ConnectErrorKind::TimedOut | ConnectErrorKind::Dns))
}

/// Runs a verifier until `shutdown`.
///
/// # Errors
/// When the configuration cannot be used or the address is taken.
pub async fn verifier(config: VerifierConfig, shutdown: CancellationToken) -> Result<()> {
    // Before any part makes its handles.
    let metrics = Metrics::install(config.metrics.listen)?;
    let options = verifier::ServiceOptions::from(&config);
    let (mut evm_nodes, mut solana_nodes, mut tron_nodes) = (Vec::new(), Vec::new(), Vec::new());
    for chain in &config.chains {
        match chain {
            ChainConfig::Evm(chain) => evm_nodes.push(chains_evm::node::Node::connect(chain)?),
            ChainConfig::Solana(chain) => solana_nodes.push(chains_solana::node::Node::connect(chain)?),
            ChainConfig::Tron(chain) => tron_nodes.push(chains_tron::node::Node::connect(chain)?),
        }
    }
    let evm_key = config.releaser_key.as_ref().map(signer).transpose().context("releaser_key")?;
    let solana_key =
        config.solana_releaser_key.as_ref().map(|key| chains_solana::keys::keypair(key.expose())).transpose();
    let solana_key = solana_key.context("solana_releaser_key")?;
    let tron_key = config.tron_releaser_key.as_ref().map(signer).transpose().context("tron_releaser_key")?;
    let judge = Verifier::default()
        .with_chains(evm_nodes, evm_key)
        .with_chains(solana_nodes, solana_key)
        .with_chains(tron_nodes, tron_key);
    let listener = TcpListener::bind(config.listen).await.with_context(|| format!("listen on {}", config.listen))?;
    let known = options.callers.known.len();
    let releasers: BTreeMap<_, _> =
        judge.releasers().into_iter().map(|(chain_id, releaser)| (chain_id, releaser.to_string())).collect();
    tracing::info!(address = %config.listen, ?releasers, known, "verifier listens");
    let serving = async {
        verifier::serve(listener, Arc::new(judge), options, shutdown.clone()).await;
        Ok(())
    };
    match metrics {
        Some(metrics) => try_join(serving, metrics.serve(|| (), shutdown.clone())).await.map(drop),
        None => serving.await,
    }
}

/// Runs a quote selector until `shutdown`.
///
/// # Errors
/// When the configuration cannot be used, NATS refuses, or the connection is closed for good.
pub async fn selector(config: SelectorConfig, shutdown: CancellationToken) -> Result<()> {
    let signer = config.signer()?;
    let ca_file = config.nats.ca_file.as_deref();
    let (servers, identity) = (connection::servers(&config.nats.url, ca_file)?, config.identity()?);
    let connecting =
        waiting_for("NATS", is_away, || connect_with(servers.clone(), identity.options(ca_file), "gw selector"));
    let Some(client) = shutdown.run_until_cancelled(connecting).await.transpose()? else { return Ok(()) };
    Ok(selector::run(client, signer, config.rule, config.delivery_seconds_max, shutdown).await?)
}

fn counterparties(config: &GatewayConfig) -> Result<Counterparties, policy::Error> {
    let assets = config.chains.iter().flat_map(|served| &served.chain.common().assets);
    let decimals = assets.map(|asset| (asset.asset_identifier.clone(), asset.decimals)).collect();
    Counterparties::load(&config.counterparty, decimals)
}

/// A client with the gateway's credentials, called `name` in the server's own reports.
///
/// # Errors
/// When the server cannot be reached now, or refuses.
pub(crate) async fn connect(config: &NatsConfig, name: &str) -> Result<Client> {
    let (servers, options) = config.client()?;
    connect_with(servers, options, name).await
}

async fn connect_with(servers: Vec<String>, options: ConnectOptions, name: &str) -> Result<Client> {
    let addresses = servers.join(", ");
    options
        .name(name)
        .max_reconnects(None)
        .ping_interval(PING_EVERY)
        .connection_timeout(CONNECT_MAX)
        .reconnect_delay_callback(|attempts| {
            let pause = Duration::from_millis(50).saturating_mul(u32::try_from(attempts).unwrap_or(u32::MAX));
            pause.min(RECONNECT_PAUSE_MAX)
        })
        .connect(servers)
        .await
        .with_context(|| format!("connect to NATS at {addresses}"))
}

/// What `/readyz` asks.
struct GatewayReadiness {
    client: Client,
    heard: HeaderlessClient,
    journal: Arc<NatsJournal>,
    projections: Projections,
    unattested: Unattested,
    misconfigured: Misconfigured,
}

impl GatewayReadiness {
    fn new(
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
