//! What a gateway keeps in NATS, and its connections: appends, leases, four for engine and read models, reads of the
//! API, asking settlers, hearing them, selectors, auditors, webhooks, and one of the operators' console where there is one. The
//! read models, which are kept beside it, are opened here because auctions read settlers' records in them.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use async_nats::Client;
use futures::future::try_join_all;
use tokio::sync::mpsc;

use app::{
    admission::{
        pause::{self, ControlBucket, PauseFollower},
        restore_mark::StoredMark,
    },
    payment_identifiers::{IdentifiersError, nats::NatsIdentifiers},
    sessions::{SessionKey, StoredKeyError},
};
use config::GatewayConfig;
use events::PaymentId;
use identity::{Identities, SettlerPolicies};
use journal::ShardLog;
use journal_jetstream::{
    budget::NatsBudgets,
    headerless::{self, HeaderlessClient},
    ledger::{NatsLedger, Options as LedgerOptions},
    parking::{NatsParking, Options as ParkingOptions},
    store::{ConnectError, NatsJournal, Options as JournalOptions},
};
use projections::{Projections, RecentRecords};

use super::{dedicated_runtime::DedicatedRuntime, restore, webhooks::OpenedWebhooks};
use crate::{
    nats::client::{connect, is_away},
    startup::waiting_for,
};

/// Connections over which engine and read models read the streams.
const READERS: usize = 4;

/// What a gateway keeps in NATS, opened, and its read models.
pub(super) struct Opened {
    pub(super) client: Client,
    pub(super) journal: Arc<NatsJournal>,
    pub(super) reads: Arc<NatsJournal>,
    pub(super) projections: Projections,
    pub(super) ledger: Arc<NatsLedger>,
    pub(super) budgets: Arc<NatsBudgets>,
    pub(super) parking: Arc<NatsParking>,
    /// The same over the connection of the API's reads.
    pub(super) parking_reads: Arc<NatsParking>,
    /// Over which settlers are heard.
    pub(super) heard: HeaderlessClient,
    pub(super) auction: (auction::NatsAuction, auction::Service, mpsc::Receiver<PaymentId>),
    /// Connections of their own: what comes over them was written by others than gateways.
    pub(super) auditors: Client,
    pub(super) selectors: Client,
    pub(super) pause: PauseFollower,
    pub(super) identifiers: NatsIdentifiers,
    /// Absent where there are none.
    pub(super) webhooks: Option<OpenedWebhooks>,
    /// The connection of the operators' console, where there is one: what they look at holds up no append and no
    /// reading of the API.
    pub(super) console: Option<Client>,
    /// What all gateways make tokens with.
    pub(super) session_key: SessionKey,
    /// How the journal was put in place from a copy, where it was.
    pub(super) restored: Option<StoredMark>,
}

impl Opened {
    /// Waits for servers that are away or have no leader. A refusal ends the wait where it can be told from that: the
    /// journal comes first, and its streams need the same of a server as all others.
    pub(super) async fn open(
        config: &GatewayConfig,
        identities: &Identities,
        following: &DedicatedRuntime,
    ) -> Result<Self> {
        let replicas = usize::from(config.journal.replicas);
        let client = waiting_for("NATS", is_away, || connect(&config.nats, "gw serve")).await?;
        let restored = restore::look(&client, config).await?;
        let shards = config.journal.shards;
        let options = JournalOptions { shards, replicas, ..JournalOptions::default() };
        let journal = || NatsJournal::connect(client.clone(), options.clone());
        let journal =
            waiting_for("the journal", ConnectError::is_passing, journal).await.context("open the journal")?;
        restore::require_unchanged(&client, restored.as_ref()).await?;
        // The server takes what comes over a connection one by one, and each question to a stream waits until what is
        // just being stored there is synced. So engine and read models ask over other connections than appends take, and
        // the API's clients over one of their own.
        let reader = async |name: &'static str| {
            let nats = config.nats.clone();
            // A connection is kept up where it was made.
            let connecting = async move { waiting_for("NATS", is_away, || connect(&nats, name)).await };
            following.spawn(connecting).await?
        };
        journal.read_over(try_join_all((0..READERS).map(|_| reader("gw serve, engine and read models"))).await?);
        journal.lease_over(reader("gw serve, leases").await?);
        let reads = || NatsJournal::connect(client.clone(), options.clone());
        let reads = waiting_for("the journal", ConnectError::is_passing, reads).await.context("open the journal")?;
        let api_reads = reader("gw serve, reads of the API").await?;
        reads.read_over(vec![api_reads.clone()]);
        // The index for search is the console's alone.
        let open = match config.console.listen {
            Some(_) => Projections::open_searched,
            None => Projections::open,
        };
        let projections = open(&config.projections.directory, journal.shards())?;
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
        // Settlers are asked over a connection of their own, and heard over another, which takes none of their headers.
        let asking = reader("gw serve, auctions").await?;
        let endpoint = config.nats.endpoint("gw serve, settlers").context("[nats]")?;
        let connecting = async move {
            waiting_for("NATS", headerless::Error::is_passing, || HeaderlessClient::connect(endpoint.clone())).await
        };
        let heard = following.spawn(connecting).await??;
        let records = Arc::new(RecentRecords::new(projections.clone()));
        let auction = || {
            let policies = SettlerPolicies::new(identities.clone(), &config.settlers.policies);
            // A second for clocks that differ.
            let window_max = Duration::from_secs(config.deadlines.quote_seconds_max + 1);
            let grace = Duration::from_millis(config.settlers.absence_ms_max);
            let options = auction::Options {
                replicas,
                window_max,
                grace,
                replaceable_answer_wait: config.settlers.award_ack(),
                pauses: config.settlers.pauses.into(),
                ..auction::Options::default()
            };
            auction::open(asking.clone(), heard.clone(), options, policies, Some(records.clone()))
        };
        let auction = waiting_for("the auction", |_| true, auction).await.context("open the auction")?;
        let auditors = reader("gw serve, auditors").await?;
        let selectors = reader("gw serve, selectors").await?;
        let pause = || async { PauseFollower::start(ControlBucket::open(client.clone(), replicas).await?).await };
        let pause = waiting_for("the operators' bucket", |error| matches!(error, pause::Error::Unavailable(_)), pause);
        let pause = pause.await.context("read whether the gateways are paused")?;
        let session_key = || SessionKey::shared(client.clone());
        let is_passing = |error: &StoredKeyError| matches!(error, StoredKeyError::Unavailable(_));
        let session_key =
            waiting_for("the session key", is_passing, session_key).await.context("open the session key")?;
        let identifiers = || NatsIdentifiers::open(client.clone(), replicas);
        let identifiers = waiting_for("the payment identifiers", IdentifiersError::is_passing, identifiers).await;
        let identifiers = identifiers.context("open the payment identifiers")?;
        // They are read and written beside the API's reads, and hold up no append.
        let webhooks = OpenedWebhooks::open(config, &reader("gw serve, webhooks").await?).await?;
        let console = match config.console.listen {
            Some(_) => Some(reader("gw serve, console").await?),
            None => None,
        };
        restore::require_unchanged(&client, restored.as_ref()).await?;
        Ok(Self {
            journal: Arc::new(journal),
            reads: Arc::new(reads),
            projections,
            ledger: Arc::new(ledger),
            budgets: Arc::new(budgets),
            parking_reads: Arc::new(parking.over(api_reads)),
            parking: Arc::new(parking),
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
            client,
        })
    }
}
