//! The application: the services, limits and stores that every use case works with.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use ::auction::Progress;
use chains::readiness::ChainsReadiness;
use config::{DeadlinesConfig, GatewayConfig, HttpConfig, X402Config};
use events::Family;
use identity::{Identities, Proven};
use journal::{StreamLog, StreamStore};
use net::callers::Callers;
use sagas::{ports::Clock, settler_record::PauseRule};
use webhooks::desk::Desk;

use crate::{
    admission::{
        Admission, bounded_journal::BoundedJournal, open_windows::OpenWindows, restored_journal::RestoredJournal,
        write_permits::WriteAdmission,
    },
    authorization::Authorizer,
    deposit_address::open_addresses::OpenAddresses,
    error::Error,
    existing::first_appends::FirstAppends,
    funds::{Funds, FundsCheck},
    own_payments::OwnedPayments,
    payment_identifiers::Identifiers,
    request::{body::JsonBody, corridors::Corridors, envelope},
    sessions::Sessions,
    settlers::SettlerReads,
    views::{auction_progress::AuctionProgress, heads::ChainHeads, payments::Payments, quote_requests::QuoteRequests},
};

/// Whether the gateway can serve.
#[async_trait]
pub trait Readiness: Send + Sync {
    /// Checks that NATS is connected and the read models are live.
    ///
    /// # Errors
    /// What is missing, in words that anyone may read.
    async fn check(&self) -> Result<(), String>;

    /// What an operator has to look into although the gateway can serve, in words that anyone may read.
    fn alarms(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The parts of the gateway that the routes call.
#[derive(Clone)]
pub struct Services {
    /// The event streams.
    pub journal: Arc<dyn StreamStore>,
    /// The same streams for reading alone, best over a connection of its own: no answer should wait behind appends.
    pub reads: Arc<dyn StreamLog>,
    /// The read model.
    pub payments: Arc<dyn Payments>,
    /// The same by who owns them.
    pub owned_payments: Arc<dyn OwnedPayments>,
    /// The read model of settlers' records.
    pub settlers: Arc<dyn SettlerReads>,
    /// What sessions are made with.
    pub sessions: Sessions,
    /// What owners of payments have called, where the operator serves that.
    pub webhooks: Option<Desk>,
    /// The read model of quote-requests.
    pub quote_requests: Arc<dyn QuoteRequests>,
    /// What settlers have answered so far.
    pub auctions: Arc<dyn Progress>,
    /// Checks payers' signatures.
    pub authorizer: Arc<dyn Authorizer>,
    /// The time that deadlines are compared with.
    pub clock: Arc<dyn Clock>,
    /// Verifies who asks.
    pub identities: Identities,
    /// What everything new has to pass.
    pub admission: Admission,
    /// Whom payment identifiers of x402 belong to.
    pub identifiers: Arc<dyn Identifiers>,
    /// What is not taken for granted since the journal was put in place from a copy, where it was.
    pub restored: Option<RestoredJournal>,
    /// Which chains new payments may go through.
    pub chains: ChainsReadiness,
    /// How many confirmations there are.
    pub heads: Arc<dyn ChainHeads>,
    /// What reads the payers' funds, for each family of source chains.
    pub funds: BTreeMap<Family, Arc<dyn Funds>>,
    /// What `/readyz` asks.
    pub readiness: Arc<dyn Readiness>,
    /// Ends every long poll at once when the process is to stop; the submissions are answered with the status they have.
    pub stopping: CancellationToken,
}

/// The use cases' state: services, and the configuration in the form in which requests are compared with it.
pub struct App {
    /// What the use cases call.
    pub services: Services,
    /// The API's configuration.
    pub http: HttpConfig,
    /// Least and longest windows of a new payment.
    pub deadlines: DeadlinesConfig,
    /// x402's configuration.
    pub x402: X402Config,
    /// What a chain may take until a deadline that has passed can be acted on with proof.
    pub overdue_grace: Duration,
    /// When a settler that missed awards is passed over.
    pub settler_pauses: PauseRule,
    /// What is traded.
    pub corridors: Corridors,
    /// Whether payers hold what they sign away.
    pub(crate) funds: FundsCheck,
    /// Who calls, and how much each may ask for.
    pub callers: Arc<Callers>,
    /// How many writes are taken at a time.
    pub writes: WriteAdmission,
    /// Open windows of quote-requests.
    pub(crate) open_windows: Arc<OpenWindows>,
    /// Deposit addresses that are waited at.
    pub(crate) open_addresses: Arc<OpenAddresses>,
    /// The streams that this gateway may still begin.
    pub(crate) first_appends: Arc<FirstAppends>,
    /// How many requests may be held by long polls at a time.
    pub long_polls: Semaphore,
    /// What open auctions of payments have come to.
    pub(crate) auction_progress: AuctionProgress,
}

impl App {
    /// The state for a configuration that was loaded.
    pub fn new(config: &GatewayConfig, mut services: Services) -> Self {
        let reads = Arc::clone(&services.reads);
        services.journal = Arc::new(BoundedJournal::new(services.journal, reads, &config.http));
        let funds = FundsCheck::new(services.funds.clone());
        Self {
            services,
            funds,
            http: config.http.clone(),
            deadlines: config.deadlines,
            x402: config.x402,
            overdue_grace: Duration::from_secs(config.watchdog.grace_seconds),
            settler_pauses: config.settlers.pauses.into(),
            corridors: Corridors::new(config),
            callers: Callers::new(&config.limits, config.http.holds_max),
            writes: WriteAdmission::new(&config.http),
            open_windows: Arc::new(OpenWindows::new(config.http.quote_requests_open_max)),
            open_addresses: Arc::new(OpenAddresses::new(config.http.deposit_addresses_open_max)),
            first_appends: Arc::default(),
            long_polls: Semaphore::new(config.http.holds_max.min(Semaphore::MAX_PERMITS)),
            auction_progress: AuctionProgress::default(),
        }
    }

    /// Verifies what a body whose form was checked claims about who asks; see [`envelope::prove`].
    ///
    /// # Errors
    /// 401 `INVALID_PROOF`, or 503.
    pub async fn prove(&self, body: &JsonBody) -> Result<Proven, Error> {
        envelope::prove(body, &self.services.identities, &self.http.base_url, self.services.clock.now()).await
    }
}
