//! The long-running roles, wired together from their configuration.

mod apart;
mod families;

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, connection::State};
use async_trait::async_trait;
use futures::future::{select_ok, try_join_all};
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use api::{
    self, HttpState,
    x402::{IdentifiersError, NatsIdentifiers},
};
use app::{
    Readiness, Services,
    admission::{
        Admission,
        pause::{self, ControlBucket, PauseFollower},
        policy::{self, Counterparties},
    },
    views::fresh::CurrentViews,
};
use auction::{
    self,
    selector::{self, NatsSelector},
};
use chains::verifier::Verifier;
use config::{GatewayConfig, NatsConfig, SelectorConfig, VerifierConfig, signing_key};
use events::{CommitId, Family, PaymentId};
use identity::{Identities, SettlerPolicies};
use journal::ShardLog;
use journal_jetstream::{
    budget::NatsBudgets,
    connection,
    ledger::{NatsLedger, Options as LedgerOptions},
    parking::{NatsParking, Options as ParkingOptions},
    store::{ConnectError, NatsJournal, Options as JournalOptions},
};
use net::server;
use projections::Projections;
use sagas::runner::{Engine, Misconfigured, Options as EngineOptions, Ports, Runner};
use settler::message_signature::Signer;
use verifier::{self, HttpVerifier};

use self::{
    apart::Apart,
    families::{Connected, signer},
};
use crate::{
    clock::SystemClock,
    operator::{self, Unattested, Watchdog, WatchdogOptions},
    startup::waiting_for,
};

/// How long one question to a verifier may take.
const VERIFIER_WAIT_MAX: Duration = Duration::from_secs(10);
/// Longest pause between two attempts to reach NATS again.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(500);
/// How often NATS is asked whether it is still there; a connection that answers two in a row with silence is dead, and
/// another server is taken, in less time than an append waits for its outcome.
const PING_EVERY: Duration = Duration::from_millis(1500);
/// How long `/readyz` waits for the leader of a stream.
const LEADER_WAIT_MAX: Duration = Duration::from_millis(1500);
/// How long a server may take to greet; one that hangs accepts connections and says nothing.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Connections over which engine and read models read the streams.
const READERS: usize = 4;

/// Runs a gateway until `shutdown`: HTTP API, engine, read models, auction.
///
/// # Errors
/// When a dependency is not as configured at start-up, or a part ends that should not.
pub async fn gateway(config: GatewayConfig, shutdown: CancellationToken) -> Result<()> {
    let identities = Identities::load(&config.identity).context("[identity]")?;
    let following = Apart::start("following").context("start a thread")?;
    let opened = shutdown.run_until_cancelled(Opened::open(&config, &identities, &following)).await;
    let Some(Opened { client, journal, reads, ledger, budgets, parking, auction, pause, identifiers }) =
        opened.transpose()?
    else {
        return Ok(());
    };
    let (settlers, auction_service, mut reports) = auction;
    let projections = Projections::open(&config.projections.directory, journal.shards())?;
    let counterparties = counterparties(&config).context("[counterparty]")?;

    let clock = Arc::new(SystemClock);
    let Connected { chains, evm, authorizer, funds } = Connected::new(&config, ledger, budgets, clock.clone())?;
    let trusted = config.trust.verifiers.iter().map(|verifier| &verifier.endpoint).chain([&config.verifier.endpoint]);
    let trusted_origins = trusted.cloned().collect();
    let signer = config.gateway.key.as_ref().and_then(signing_key).map(Signer::new);
    let did = signer.as_ref().map(|signer| signer.did().to_string());
    if did.is_none() {
        tracing::warn!("without `[gateway] key` this gateway is a stranger to verifiers");
    }
    let options = verifier::Options { trusted_origins, wait_max: VERIFIER_WAIT_MAX, signer };
    let verifier = Arc::new(HttpVerifier::new(chains.clone(), options)?);

    let ports = Ports {
        journal: journal.clone(),
        chains: chains.clone(),
        auction: Arc::new(settlers.clone()),
        selector: Arc::new(NatsSelector::new(client.clone())),
        verifier,
        open_streams: Arc::new(projections.clone()),
        parking,
        clock: clock.clone(),
    };
    let engine = Engine::new(ports, EngineOptions { release: config.release.into(), ..EngineOptions::default() });
    let owner = CommitId::random().to_string();

    let name = config.name();
    let grace = Duration::from_secs(config.watchdog.grace_seconds);
    let options = WatchdogOptions { every: Duration::from_secs(config.watchdog.every_seconds), grace };
    let watchdog = Watchdog::new(projections.clone(), (*journal).clone(), owner.clone(), options);
    let operator = operator::Service::new(
        client.clone(),
        operator::Subject {
            name: name.clone(),
            owner: owner.clone(),
            listen: config.http.listen.to_string(),
            projections: projections.clone(),
            journal: (*journal).clone(),
            grace,
            unattested: watchdog.unattested(),
        },
    );
    let views = CurrentViews::new(projections.clone(), reads.clone(), following.handle());

    let replicas = usize::from(config.journal.replicas);
    let signing =
        audit::signing::run(client.clone(), config.audit.clone(), journal.clone(), replicas, shutdown.clone());
    let services = Services {
        journal: journal.clone(),
        reads,
        payments: Arc::new(views.clone()),
        quote_requests: Arc::new(views),
        auctions: Arc::new(settlers),
        authorizer,
        clock,
        admission: Admission::new(pause.state(), counterparties.clone()),
        identities,
        identifiers: Arc::new(identifiers),
        funds,
        readiness: Arc::new(GatewayReadiness {
            client,
            journal: journal.clone(),
            projections: projections.clone(),
            unattested: watchdog.unattested(),
            misconfigured: engine.misconfigured().clone(),
        }),
        stopping: shutdown.clone(),
    };
    let state = Arc::new(HttpState::new(&config, services)?);
    let callers = Arc::clone(state.callers());
    let router = api::routes::router(state);
    let listener = TcpListener::bind(config.http.listen).await;
    let listener = listener.with_context(|| format!("listen on {}", config.http.listen))?;
    tracing::info!(address = %config.http.listen, chains = config.chains.len(), name, owner, did, "gateway listens");

    let mut parts = JoinSet::new();
    parts.spawn({
        let (projections, shutdown) = (projections.clone(), shutdown.clone());
        let follows = following.spawn(async move { projections.run(journal, shutdown).await });
        async move { follows.await?.context("read models") }
    });
    parts.spawn({
        let (runner, shutdown) = (Runner::new(engine.clone(), owner), shutdown.clone());
        async move {
            runner.run(shutdown).await;
            Ok(())
        }
    });
    parts.spawn({
        let shutdown = shutdown.clone();
        async move {
            auction_service.run(shutdown).await;
            Ok(())
        }
    });
    parts.spawn({
        let shutdown = shutdown.clone();
        async move {
            pause.run(shutdown).await;
            Ok(())
        }
    });
    parts.spawn({
        let shutdown = shutdown.clone();
        async move {
            counterparties.run(shutdown).await;
            Ok(())
        }
    });
    parts.spawn({
        let shutdown = shutdown.clone();
        async move {
            shutdown.run_until_cancelled(async { evm.maintain().await }).await;
            Ok(())
        }
    });
    parts.spawn({
        let shutdown = shutdown.clone();
        async move {
            operator.run(shutdown).await;
            Ok(())
        }
    });
    parts.spawn({
        let shutdown = shutdown.clone();
        async move {
            watchdog.run(shutdown).await;
            Ok(())
        }
    });
    parts.spawn(async move {
        signing.await;
        Ok(())
    });
    parts.spawn(async move {
        // Ends with the auction's service, which holds the sender.
        while let Some(payment_id) = reports.recv().await {
            engine.hint(&payment_id);
        }
        Ok(())
    });
    parts.spawn({
        let (config, shutdown) = (config.http.clone(), shutdown.clone());
        async move {
            server::serve(listener, router, config.limits(), move |peer| callers.connection(peer), shutdown).await;
            Ok(())
        }
    });

    // All parts end by `shutdown` alone; one that ends before it takes the process with it.
    let mut outcome = Ok(());
    while let Some(ended) = parts.join_next().await {
        let ended = ended.context("a part of the gateway panicked").flatten();
        if !shutdown.is_cancelled() {
            tracing::error!("a part of the gateway ended; shutting down");
            shutdown.cancel();
        }
        outcome = outcome.and(ended);
    }
    outcome
}

/// What a gateway keeps in NATS, opened.
struct Opened {
    client: Client,
    journal: Arc<NatsJournal>,
    reads: Arc<NatsJournal>,
    ledger: Arc<NatsLedger>,
    budgets: Arc<NatsBudgets>,
    parking: Arc<NatsParking>,
    auction: (auction::NatsAuction, auction::Service, mpsc::Receiver<PaymentId>),
    pause: PauseFollower,
    identifiers: NatsIdentifiers,
}

impl Opened {
    /// Waits for servers that are away or have no leader. A refusal ends the wait where it can be told from that: the
    /// journal comes first, and its streams need the same of a server as all others.
    async fn open(config: &GatewayConfig, identities: &Identities, following: &Apart) -> Result<Self> {
        let replicas = usize::from(config.journal.replicas);
        let client = waiting_for("NATS", is_away, || connect(&config.nats, "gw serve")).await?;
        let options = JournalOptions { shards: config.journal.shards, replicas, ..JournalOptions::default() };
        let journal = || NatsJournal::connect(client.clone(), options.clone());
        let journal =
            waiting_for("the journal", ConnectError::is_passing, journal).await.context("open the journal")?;
        // The server takes what comes over a connection one by one, and each question to a stream waits until what is
        // just being stored there is synced. So engine and read models ask over other connections than appends take, and
        // the API's clients over one of their own.
        let reader = async |name: &'static str| {
            let nats = config.nats.clone();
            // A connection is tended where it was made.
            let connecting = async move { waiting_for("NATS", is_away, || connect(&nats, name)).await };
            following.spawn(connecting).await?
        };
        journal.read_over(try_join_all((0..READERS).map(|_| reader("gw serve, engine and read models"))).await?);
        let reads = || NatsJournal::connect(client.clone(), options.clone());
        let reads = waiting_for("the journal", ConnectError::is_passing, reads).await.context("open the journal")?;
        reads.read_over(vec![reader("gw serve, reads of the API").await?]);
        let ledger = || NatsLedger::connect(client.clone(), LedgerOptions { replicas, ..LedgerOptions::default() });
        let ledger = waiting_for("the signer ledger", ConnectError::is_passing, ledger).await;
        let ledger = ledger.context("open the signer ledger")?;
        let budgets = || NatsBudgets::connect(client.clone(), LedgerOptions { replicas, ..LedgerOptions::default() });
        let budgets = waiting_for("the gas budgets", ConnectError::is_passing, budgets).await;
        let budgets = budgets.context("open the gas budgets")?;
        let options = ParkingOptions { shards: config.journal.shards, replicas, ..ParkingOptions::default() };
        let parking = || NatsParking::connect(client.clone(), options.clone());
        let parking =
            waiting_for("the parking", ConnectError::is_passing, parking).await.context("open the parking")?;
        // What settlers say comes over a connection of its own: a flood of theirs is not in front of the journal's answers.
        let heard = reader("gw serve, auctions").await?;
        let auction = || {
            let policies = SettlerPolicies::new(identities.clone(), &config.settlers.policies);
            // A second for clocks that differ.
            let window_max = Duration::from_secs(config.deadlines.quote_seconds_max + 1);
            let grace = Duration::from_millis(config.settlers.absence_ms_max);
            let options = auction::Options { replicas, window_max, grace, ..auction::Options::default() };
            auction::open(heard.clone(), options, policies)
        };
        let auction = waiting_for("the auction", |_| true, auction).await.context("open the auction")?;
        let pause = || async { PauseFollower::start(ControlBucket::open(client.clone(), replicas).await?).await };
        let pause = waiting_for("the operators' bucket", |error| matches!(error, pause::Error::Unavailable(_)), pause);
        let pause = pause.await.context("read whether the gateways are paused")?;
        let identifiers = || NatsIdentifiers::open(client.clone(), replicas);
        let identifiers = waiting_for("the payment identifiers", IdentifiersError::is_passing, identifiers).await;
        let identifiers = identifiers.context("open the payment identifiers")?;
        Ok(Self {
            journal: Arc::new(journal),
            reads: Arc::new(reads),
            ledger: Arc::new(ledger),
            budgets: Arc::new(budgets),
            parking: Arc::new(parking),
            auction,
            pause,
            identifiers,
            client,
        })
    }
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
    let options = verifier::ServiceOptions::from(&config);
    let of = |family| config.chains.iter().filter(move |chain| chain.chain_id.family() == Some(family));
    let evm_nodes = of(Family::Evm).map(chains_evm::node::Node::connect).collect::<Result<Vec<_>, _>>()?;
    let evm_key = config.releaser_key.as_ref().map(signer).transpose().context("releaser_key")?;
    let solana_nodes = of(Family::Solana).map(chains_solana::node::Node::connect).collect::<Result<Vec<_>, _>>()?;
    let solana_key =
        config.solana_releaser_key.as_ref().map(|key| chains_solana::keys::keypair(key.expose())).transpose();
    let solana_key = solana_key.context("solana_releaser_key")?;
    let tron_nodes = of(Family::Tron).map(chains_tron::node::Node::connect).collect::<Result<Vec<_>, _>>()?;
    let tron_key = config.tron_releaser_key.as_ref().map(signer).transpose().context("tron_releaser_key")?;
    let judge = Verifier::default()
        .with_chains(evm_nodes, evm_key)
        .with_chains(solana_nodes, solana_key)
        .with_chains(tron_nodes, tron_key);
    let listener = TcpListener::bind(config.listen).await.with_context(|| format!("listen on {}", config.listen))?;
    let known = options.callers.known.len();
    tracing::info!(address = %config.listen, releasers = ?judge.releasers(), known, "verifier listens");
    verifier::serve(listener, Arc::new(judge), options, shutdown).await;
    Ok(())
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
    selector::run(client, signer, config.rule, config.delivery_seconds_max, shutdown).await
}

fn counterparties(config: &GatewayConfig) -> Result<Counterparties, policy::Error> {
    let assets = config.chains.iter().flat_map(|served| &served.chain.assets);
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
    journal: Arc<NatsJournal>,
    projections: Projections,
    unattested: Unattested,
    misconfigured: Misconfigured,
}

#[async_trait]
impl Readiness for GatewayReadiness {
    async fn check(&self) -> Result<(), String> {
        if self.client.connection_state() != State::Connected {
            return Err("NATS is not connected".to_owned());
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
