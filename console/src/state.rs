//! The state of the routes.

use std::{sync::Arc, time::Duration};

use metrics::{Counter, counter};
use tokio::sync::Semaphore;

use net::server::ThrottledLog;

use crate::{
    Parts,
    graphs::Graphs,
    kept::Kept,
    operators::Operators,
    payments::PaymentReads,
    ports::{Gateways, Installation, Orders, Pause, Streams},
    settlers::Settlers,
    survey::Surveys,
};

/// How long what is asked of NATS is good for.
const PAUSE_FRESH: Duration = Duration::from_secs(2);
const GATEWAYS_FRESH: Duration = Duration::from_secs(4);
const STREAMS_FRESH: Duration = Duration::from_secs(5);
const READY_FRESH: Duration = Duration::from_secs(3);
/// Acts that are being carried out at a time.
const ACTS_MAX: usize = 4;

/// What the routes work with.
pub struct Console {
    pub(crate) gateway: String,
    pub(crate) operators: Operators,
    pub(crate) refused: Refused,
    pub(crate) payments: PaymentReads,
    pub(crate) settlers: Settlers,
    pub(crate) surveys: Surveys,
    pub(crate) installation: Arc<dyn Installation>,
    pub(crate) orders: Arc<dyn Orders>,
    pub(crate) graphs: Graphs,
    pub(crate) kept: KeptAnswers,
    pub(crate) acts: Arc<Semaphore>,
}

/// Answers of NATS that are kept for all who look.
pub(crate) struct KeptAnswers {
    pub(crate) pause: Kept<Option<Pause>>,
    pub(crate) gateways: Kept<Gateways>,
    pub(crate) streams: Kept<Streams>,
    pub(crate) ready: Kept<Result<(), String>>,
}

/// Requests that were refused for their token.
pub(crate) struct Refused {
    pub(crate) count: Counter,
    pub(crate) log: ThrottledLog,
}

impl Console {
    /// The state of a console that is made of these.
    pub fn new(parts: Parts) -> Self {
        let payments = PaymentReads::new(&parts);
        Self {
            settlers: Settlers::new(parts.settler_pauses),
            surveys: Surveys::new(parts.verifiers),
            payments,
            gateway: parts.gateway,
            operators: parts.operators,
            refused: Refused { count: counter!("gw_console_refused_tokens_total"), log: ThrottledLog::default() },
            installation: parts.installation,
            orders: parts.orders,
            graphs: parts.graphs,
            kept: KeptAnswers {
                pause: Kept::new(PAUSE_FRESH),
                gateways: Kept::new(GATEWAYS_FRESH),
                streams: Kept::new(STREAMS_FRESH),
                ready: Kept::new(READY_FRESH),
            },
            acts: Arc::new(Semaphore::new(ACTS_MAX)),
        }
    }
}
