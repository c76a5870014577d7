//! The long-running roles, wired together from their configuration.

mod chain_watch;
mod connected_chains;
mod console_role;
mod dedicated_runtime;
mod opened;
mod parts;
mod readiness;
mod restore;
mod selector_role;
mod starting;
mod verifier_role;
mod webhooks;

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use async_nats::Client;
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::sync::CancellationToken;

use api::HttpState;
use app::{
    Readiness, Services,
    admission::{
        Admission,
        pause::PauseFollower,
        policy::{self, Counterparties},
        restore_mark::StoredMark,
        restored_journal::RestoredJournal,
    },
    own_payments::{OwnedReads, parked::ParkedPayments},
    sessions::Sessions,
    settlers::RecordReads,
    views::fresh::FreshViews,
};
use auction::{self, selector::NatsSelector};
use chains::{
    readiness::{ChainsReadiness, ReadinessProbe},
    registry::ChainRegistry,
};
use chains_evm::adapter::EvmChain;
use config::{GatewayConfig, signing_key};
use events::{CommitId, PaymentId};
use identity::Identities;
use journal_jetstream::store::NatsJournal;
use net::server;
use projections::Projections;
use protocol::message_signature::Signer;
use sagas::runner::{Engine, Options as EngineOptions, Ports, Runner};
use verifier::HttpVerifier;

use self::{
    connected_chains::ConnectedChains, dedicated_runtime::DedicatedRuntime, opened::Opened, parts::Parts,
    readiness::GatewayReadiness, starting::Starting,
};
pub use self::{selector_role::selector, verifier_role::verifier, webhooks::OpenedWebhooks};
use crate::{
    auditors,
    clock::SharedClock,
    console::{self, GatewayConsole},
    metrics::{GatewayGauges, MeasuredJournal, Metrics, PaymentMetrics, Spending},
    operator::{self, Verifiers, Watchdog, WatchdogOptions},
    signers,
};

/// How long one question to a verifier may take.
const VERIFIER_WAIT_MAX: Duration = Duration::from_secs(10);

/// Runs a gateway until `shutdown`: HTTP API, engine, read models, auction.
///
/// # Errors
/// When a dependency is not as configured at start-up, or a part ends that should not.
pub async fn gateway(config: GatewayConfig, shutdown: CancellationToken) -> Result<()> {
    // Before any part makes its handles.
    let metrics = Metrics::install_for(config.metrics.listen, config.console.listen.is_some())?;
    let http = (api::starting::router(&config.http), config.http.limits());
    let starting = Starting::begin("http", config.http.listen, http.0, http.1).await?;
    let console = console_role::begin(&config.console).await?;
    signers::check(&signers::distant_of_gateway(&config.chains)?).await?;
    let identities = Identities::load(&config.identity).context("[identity]")?;
    let following = DedicatedRuntime::start("following").context("start a thread")?;
    let opened = shutdown.run_until_cancelled(Opened::open(&config, &identities, &following)).await;
    let Some(opened) = opened.transpose()? else { return Ok(()) };
    let assembled = Assembled::new(&config, opened, identities, &following, &shutdown)?;
    let listener = starting.end().await?;
    assembled.run(&config, listener, console, metrics, &following, shutdown).await
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
    clock: Arc<SharedClock>,
    evm: Vec<Arc<EvmChain>>,
    /// What looks at the chains, and what is made of it.
    probes: Vec<Arc<dyn ReadinessProbe>>,
    chain_readiness: ChainsReadiness,
    auction_service: auction::Service,
    auditors: auditors::Service,
    /// What delivers webhooks, where there are any.
    webhooks: Option<::webhooks::service::Service>,
    /// The operators' console, where there is one.
    console: Option<GatewayConsole>,
    /// Payments whose delivery a settler reported.
    reports: mpsc::Receiver<PaymentId>,
    pause: PauseFollower,
    restored: Option<StoredMark>,
    counterparties: Counterparties,
    watchdog: Watchdog,
    verifiers: Verifiers,
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
            projections,
            ledger,
            budgets,
            parking,
            parking_reads,
            heard,
            auction,
            auditors,
            selectors,
            pause,
            identifiers,
            webhooks,
            console,
            session_key,
            restored,
        } = opened;
        let (settlers, auction_service, reports) = auction;
        let settlers = Arc::new(settlers);
        let counterparties = counterparties(config).context("[counterparty]")?;
        let clock = Arc::new(SharedClock(settlers.clock()));
        let connected = ConnectedChains::new(config, ledger, budgets, clock.clone())?;
        let ConnectedChains { chains, vitals, evm, authorizer, contracts, funds, probes, readiness: chain_readiness } =
            connected;
        let (verifier, did) = verifier_client(config, chains.clone())?;
        let verifiers = Verifiers::new(config, verifier.records());
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
        let copied = restored.as_ref().map(|restored| Arc::new(restored.mark.heads.clone()));
        let options = EngineOptions {
            release: config.release.into(),
            reassignment: config.settlers.reassignment(),
            restored: copied,
            ..EngineOptions::default()
        };
        let engine = Engine::new(ports, options);
        let spending = Arc::new(Spending::new(&vitals));
        let is_measured = config.metrics.listen.is_some() || config.console.listen.is_some();
        let engine = match is_measured {
            true => engine.observed(Arc::new(PaymentMetrics::new(spending.clone()))),
            false => engine,
        };
        let owner = CommitId::random().to_string();
        let desk = webhooks.as_ref().map(|webhooks| webhooks.desk(config)).transpose()?;
        let webhooks = webhooks.map(|opened| opened.service(config, journal.clone(), reads.clone(), owner.clone()));
        let webhooks = webhooks.transpose()?;
        let watchdog = Watchdog::new(projections.clone(), (*journal).clone(), owner.clone(), watching(config));
        let readiness = GatewayReadiness::new(&client, heard, &journal, &projections, &watchdog, &engine);
        let readiness: Arc<dyn Readiness> = Arc::new(readiness);
        let parked = ParkedPayments::new(parking_reads.clone());
        let console = console.map(|client| {
            let shown = console::Shown {
                projections: projections.clone(),
                journal: journal.clone(),
                parking: Arc::new(parking.over(client.clone())),
                parked: parked.clone(),
                readiness: readiness.clone(),
                look: watchdog.last_look(),
                unattested: watchdog.unattested(),
                misconfigured: engine.misconfigured().clone(),
                settlers: settlers.clone(),
                chains: chain_readiness.clone(),
                verifiers: verifiers.clone(),
            };
            GatewayConsole::new(config, client, shown)
        });
        let gauges = GatewayGauges {
            client: client.clone(),
            journal: journal.clone(),
            projections: projections.clone(),
            parking: parking_reads,
            registry: chains,
            vitals,
            readiness: readiness.clone(),
            pause: pause.state(),
            look: watchdog.last_look(),
            held: measured.held(),
        };
        let views = FreshViews::new(projections.clone(), journal.clone(), reads.clone(), following.handle());
        let restored_journal = restored.as_ref().map(|restored| RestoredJournal::new(&restored.mark, heads.clone()));
        let services = Services {
            journal: measured,
            reads,
            payments: Arc::new(views.clone()),
            owned_payments: Arc::new(OwnedReads::new(projections.clone(), parked)),
            settlers: Arc::new(RecordReads::new(projections.clone())),
            sessions: Sessions { key: session_key, contracts },
            quote_requests: Arc::new(views),
            auctions: settlers,
            authorizer,
            clock: clock.clone(),
            admission: Admission::new(pause.state(), counterparties.clone()),
            identities,
            webhooks: desk,
            identifiers: Arc::new(identifiers),
            restored: restored_journal,
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
            webhooks,
            console,
            reports,
            pause,
            restored,
            counterparties,
            watchdog,
            verifiers,
            spending,
            gauges,
            state,
        })
    }

    /// Starts the parts and waits for their end.
    async fn run(
        self,
        config: &GatewayConfig,
        listener: TcpListener,
        console_starting: Option<Starting>,
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
            console,
            mut reports,
            counterparties,
            spending,
            gauges,
            ..
        } = self;
        let callers = Arc::clone(self.state.callers());
        let router = api::routes::router(self.state);
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
            if let Some(console) = &console {
                let (render, sampler) = (metrics.renderer(), sampler.clone());
                let render = move || {
                    sampler.sample();
                    render()
                };
                parts.start(console.graphs().clone().run(render, shutdown.clone()));
            }
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
        parts.start(webhooks::run(self.webhooks, shutdown.clone()));
        if let (Some(console), Some(starting)) = (console, console_starting) {
            parts.start_fallible(console_role::run(console, starting, shutdown.clone()));
        }
        parts.start_fallible(restore::watch(client.clone(), self.restored, shutdown.clone()));
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
            misconfigured: self.engine.misconfigured().clone(),
            verifiers: self.verifiers.clone(),
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
    let trusted = config.trust.verifiers.iter().map(|verifier| verifier.endpoint.as_str());
    let former = config.trust.verifier_origins.iter().map(String::as_str);
    let trusted_origins = trusted.chain(former).chain(config.verifier.endpoints()).map(str::to_owned).collect();
    let signer = config.gateway.key.as_ref().and_then(signing_key).map(Signer::new);
    let did = signer.as_ref().map(|signer| signer.did().to_string());
    if did.is_none() {
        tracing::warn!("without `[gateway] key` this gateway is an unknown caller to verifiers");
    }
    let options = verifier::Options { trusted_origins, wait_max: VERIFIER_WAIT_MAX, signer };
    Ok((HttpVerifier::new(chains, options)?, did))
}

fn counterparties(config: &GatewayConfig) -> Result<Counterparties, policy::Error> {
    let assets = config.chains.iter().flat_map(|served| &served.chain.common().assets);
    let decimals = assets.map(|asset| (asset.asset_identifier.clone(), asset.decimals)).collect();
    Counterparties::load(&config.counterparty, decimals)
}
