//! What the routes work with.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use events::{Family, caip};
use journal::Journal;
use sagas::ports::Clock;

use super::{
    admission::Admission,
    authorizer::Authorizer,
    bounded_journal::BoundedJournal,
    checks::Checks,
    corridors::Corridors,
    docs::Documents,
    funds::{Funds, FundsCheck},
    open_windows::OpenWindows,
    payments::Payments,
    quote_requests::QuoteRequests,
    writes::Writes,
    x402::Identifiers,
};
use auction::Progress;
use config::{DeadlinesConfig, GatewayConfig, HttpConfig, X402Config};
use identity::Identities;
use net::callers::Callers;

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
    pub journal: Arc<dyn Journal>,
    /// The same streams for reading alone, best over a connection of its own: no answer should wait behind appends.
    pub reads: Arc<dyn Journal>,
    /// The read model.
    pub payments: Arc<dyn Payments>,
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
    /// What reads the payers' funds, for each family of source chains.
    pub funds: BTreeMap<Family, Arc<dyn Funds>>,
    /// What `/readyz` asks.
    pub readiness: Arc<dyn Readiness>,
    /// Ends every hold at once when the process is to stop; the submissions are answered with the status they have.
    pub stopping: CancellationToken,
}

/// The routes' state: services, and the configuration in the form in which requests are compared with it.
pub struct HttpState {
    pub(super) services: Services,
    pub(super) http: HttpConfig,
    pub(super) deadlines: DeadlinesConfig,
    pub(super) x402: X402Config,
    pub(super) corridors: Corridors,
    pub(super) funds: FundsCheck,
    pub(super) callers: Arc<Callers>,
    pub(super) writes: Writes,
    pub(super) checks: Checks,
    pub(super) open_windows: OpenWindows,
    pub(super) holds: Semaphore,
    pub(super) streams: Arc<Semaphore>,
    documents: OnceLock<Documents>,
}

impl HttpState {
    /// The state for a configuration that was loaded.
    ///
    /// # Errors
    /// The rule that an account of a chain breaks, which loading the configuration has checked already.
    pub fn new(config: &GatewayConfig, mut services: Services) -> Result<Self, caip::Error> {
        let reads = Arc::clone(&services.reads);
        services.journal = Arc::new(BoundedJournal::new(services.journal, reads, &config.http));
        let funds = FundsCheck::new(services.funds.clone());
        Ok(Self {
            services,
            funds,
            http: config.http.clone(),
            deadlines: config.deadlines,
            x402: config.x402,
            corridors: Corridors::new(config)?,
            callers: Callers::new(&config.limits, config.http.holds_max),
            writes: Writes::new(&config.http),
            checks: Checks::new(config.http.check_threads),
            open_windows: OpenWindows::new(config.http.quote_requests_open_max),
            holds: Semaphore::new(config.http.holds_max.min(Semaphore::MAX_PERMITS)),
            streams: Arc::new(Semaphore::new(config.http.event_streams_max.min(Semaphore::MAX_PERMITS))),
            documents: OnceLock::new(),
        })
    }

    /// Who calls, and how much each may ask for.
    pub fn callers(&self) -> &Arc<Callers> {
        &self.callers
    }

    /// What the service says about itself, made when it is first asked for.
    pub(super) fn documents(&self) -> &Documents {
        self.documents.get_or_init(|| Documents::new(&self.http.base_url))
    }

    pub(super) fn hold_max(&self) -> Duration {
        Duration::from_millis(self.http.hold_ms_max)
    }
}
