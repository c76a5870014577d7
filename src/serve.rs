//! The long-running roles, wired together from their configuration.

use std::{sync::Arc, time::Duration};

use alloy::signers::local::PrivateKeySigner;
use anyhow::{Context, Result};
use async_nats::{Client, ConnectOptions, connection::State};
use async_trait::async_trait;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use chains::evm::{
    adapter::{EvmChain, EvmChains, Keys},
    node::Node,
    verifier::EvmVerifier,
};
use events::{
    CommitId,
    journal::nats::{NatsJournal, Options as JournalOptions},
    ledger::nats::{NatsLedger, Options as LedgerOptions},
};
use projections::Projections;
use sagas::runner::{Engine, Options as EngineOptions, Ports, Runner};

use crate::{
    auction,
    clock::SystemClock,
    config::{GatewayChain, GatewayConfig, NatsConfig, Secret, VerifierConfig},
    http::{self, Admission, EvmAuthorizer, HttpState, Readiness, Services},
    pause::{ControlBucket, PauseFollower},
    policy::{self, Counterparties},
    verifier::{self, HttpVerifier},
};

/// How long one question to a verifier may take.
const VERIFIER_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long requests in flight may take once the process is to stop.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// Longest pause between two attempts to reach NATS again.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(500);
/// How often NATS is asked whether it is still there; a connection that answers two in a row with silence is dead.
const PING_EVERY: Duration = Duration::from_secs(5);

/// Runs a gateway until `shutdown`: HTTP API, engine, read models, auction.
///
/// # Errors
/// When a dependency is not as configured at start-up, or a part ends that should not.
pub async fn gateway(config: GatewayConfig, shutdown: CancellationToken) -> Result<()> {
    let replicas = usize::from(config.journal.replicas);
    let client = tokio::select! {
        client = connect(&config.nats, "gw serve") => client?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let options = JournalOptions { shards: config.journal.shards, replicas, ..JournalOptions::default() };
    let journal = Arc::new(NatsJournal::connect(client.clone(), options).await.context("open the journal")?);
    let ledger = NatsLedger::connect(client.clone(), LedgerOptions { replicas, ..LedgerOptions::default() });
    let ledger = Arc::new(ledger.await.context("open the signer ledger")?);
    let (settlers, auction_service, mut reports) =
        auction::open(client.clone(), auction::Options { replicas }).await.context("open the auction")?;
    let projections = Projections::open(&config.projections.directory, config.journal.shards)?;

    let control = ControlBucket::open(client.clone(), replicas).await.context("open the operators' bucket")?;
    let pause = PauseFollower::start(control).await.context("read whether the gateways are paused")?;
    let counterparties = counterparties(&config).context("[counterparty]")?;

    let evm = config.chains.iter().map(evm_chain).collect::<Result<Vec<_>>>()?;
    let nodes: Vec<Node> = evm.iter().map(|chain| chain.node.clone()).collect();
    let clock = Arc::new(SystemClock);
    let chains = Arc::new(EvmChains::new(evm, ledger, clock.clone())?);
    let trusted = config.trust.verifiers.iter().chain([&config.verifier]).map(|verifier| verifier.endpoint.clone());
    let trusted_origins = trusted.collect();
    let options = verifier::Options { trusted_origins, wait_max: VERIFIER_WAIT_MAX };
    let verifier = Arc::new(HttpVerifier::new(chains.clone(), options)?);

    let ports = Ports {
        journal: journal.clone(),
        chains: chains.clone(),
        auction: Arc::new(settlers.clone()),
        verifier,
        open_streams: Arc::new(projections.clone()),
        clock: clock.clone(),
    };
    let engine = Engine::new(ports, EngineOptions::default());
    let owner = CommitId::random().to_string();

    let services = Services {
        journal: journal.clone(),
        payments: Arc::new(projections.clone()),
        quote_requests: Arc::new(projections.clone()),
        auctions: Arc::new(settlers),
        authorizer: Arc::new(EvmAuthorizer::new(nodes)),
        clock,
        admission: Admission::new(pause.state(), counterparties.clone()),
        readiness: Arc::new(GatewayReadiness { client, projections: projections.clone() }),
        stopping: shutdown.clone(),
    };
    let router = http::routes::router(Arc::new(HttpState::new(&config, services)?));
    let listener = TcpListener::bind(config.http.listen).await;
    let listener = listener.with_context(|| format!("listen on {}", config.http.listen))?;
    tracing::info!(address = %config.http.listen, chains = config.chains.len(), owner, "gateway listens");

    let mut parts = JoinSet::new();
    parts.spawn({
        let (projections, shutdown) = (projections.clone(), shutdown.clone());
        async move { projections.run(journal, shutdown).await.context("read models") }
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
            shutdown.run_until_cancelled(async { chains.tend().await }).await;
            Ok(())
        }
    });
    parts.spawn(async move {
        // Ends with the auction's service, which holds the sender.
        while let Some(payment_id) = reports.recv().await {
            engine.nudge(&payment_id);
        }
        Ok(())
    });
    parts.spawn({
        let shutdown = shutdown.clone();
        async move { listen(listener, router, shutdown).await }
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

/// Runs a verifier until `shutdown`.
///
/// # Errors
/// When the configuration cannot be used or the address is taken.
pub async fn verifier(config: VerifierConfig, shutdown: CancellationToken) -> Result<()> {
    let nodes = config.chains.iter().map(Node::connect).collect::<Result<Vec<_>, _>>()?;
    let judge = EvmVerifier::new(nodes, signer(&config.releaser_key).context("releaser_key")?);
    let listener = TcpListener::bind(config.listen).await.with_context(|| format!("listen on {}", config.listen))?;
    tracing::info!(address = %config.listen, account = judge.account(), "verifier listens");
    verifier::serve(listener, Arc::new(judge), shutdown).await?;
    Ok(())
}

async fn listen(listener: TcpListener, router: axum::Router, shutdown: CancellationToken) -> Result<()> {
    let drained = shutdown.clone();
    let server = axum::serve(listener, router).with_graceful_shutdown(async move { shutdown.cancelled().await });
    let deadline = async {
        drained.cancelled().await;
        tokio::time::sleep(DRAIN_MAX).await;
    };
    tokio::select! {
        served = server => served.context("HTTP server"),
        () = deadline => Ok(()),
    }
}

fn counterparties(config: &GatewayConfig) -> Result<Counterparties, policy::Error> {
    let assets = config.chains.iter().flat_map(|served| &served.chain.assets);
    let decimals = assets.map(|asset| (asset.asset_identifier.clone(), asset.decimals)).collect();
    Counterparties::load(&config.counterparty, decimals)
}

fn evm_chain(served: &GatewayChain) -> Result<EvmChain> {
    let submitters = served.submitter_keys.iter().map(signer).collect::<Result<Vec<_>>>();
    let chain_id = &served.chain.chain_id;
    let keys = Keys {
        reserver: signer(&served.reserver_key).with_context(|| format!("reserver_key of {chain_id}"))?,
        submitters: submitters.with_context(|| format!("submitter_keys of {chain_id}"))?,
    };
    Ok(EvmChain { node: Node::connect(&served.chain)?, keys: Some(keys) })
}

fn signer(secret: &Secret) -> Result<PrivateKeySigner> {
    // The parser's own error would repeat what it was given.
    secret.expose().parse().ok().context("must be a private key, 0x and 64 hex digits")
}

/// A client with the gateway's credentials, called `name` in the server's own reports.
///
/// # Errors
/// When the server cannot be reached now, or refuses.
pub(crate) async fn connect(config: &NatsConfig, name: &str) -> Result<Client> {
    let servers: Vec<&str> = config.url.split(',').map(str::trim).collect();
    ConnectOptions::with_user_and_password(config.user.clone(), config.password.expose().to_owned())
        .name(name)
        .max_reconnects(None)
        .ping_interval(PING_EVERY)
        .reconnect_delay_callback(|attempts| {
            let pause = Duration::from_millis(50).saturating_mul(u32::try_from(attempts).unwrap_or(u32::MAX));
            pause.min(RECONNECT_PAUSE_MAX)
        })
        .connect(servers)
        .await
        .with_context(|| format!("connect to NATS at {}", config.url))
}

/// What `/readyz` asks.
struct GatewayReadiness {
    client: Client,
    projections: Projections,
}

#[async_trait]
impl Readiness for GatewayReadiness {
    async fn check(&self) -> Result<(), String> {
        if self.client.connection_state() != State::Connected {
            return Err("NATS is not connected".to_owned());
        }
        self.projections.ready().map_err(|unavailable| format!("read models: {unavailable}"))
    }
}
