//! The operators' console: an HTTP API for operators alone, and the page that uses it.
//!
//! [`operators`] says who may use it and `guard` lets nobody else in; `payments` lists, finds and shows payments; `settlers`
//! shows what is on record of settlers, and `survey` counts what became of payments by verifier; [`graphs`] keeps the last hour of some
//! metrics; `acts` takes orders. What asks NATS stands behind the traits of [`ports`].

mod acts;
pub mod error;
pub mod graphs;
mod guard;
mod installation;
mod kept;
mod lane;
pub mod operators;
mod page;
mod payment_routes;
mod payments;
pub mod ports;
mod routes;
mod settlers;
mod state;
mod survey;
#[cfg(test)]
mod tests;
pub mod token;
mod turns;

use std::{sync::Arc, time::Duration};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use app::own_payments::parked::ParkedPayments;
use events::event::VerifierRef;
use journal::parking::{Entry, Parking};
use net::server::{self, Limits};
use projections::Projections;
use sagas::settler_record::PauseRule;

use self::{
    graphs::Graphs,
    operators::Operators,
    ports::{Installation, Orders, StoredCommits},
};
pub use self::{
    routes::{router, starting},
    state::Console,
};

/// What connections may do. Operators are few, and of one's own; a page has six.
pub const LIMITS: Limits = Limits {
    connections_max: 128,
    head_max: Duration::from_secs(5),
    idle_max: Duration::from_secs(120),
    write_max: Duration::from_secs(10),
};

/// What a console is made of.
pub struct Parts {
    /// The gateway's name.
    pub gateway: String,
    /// Who may use it.
    pub operators: Operators,
    /// The read models.
    pub projections: Projections,
    /// What is parked, and where it is asked for with its history.
    pub parked: ParkedPayments,
    /// The same.
    pub parking: Arc<dyn Parking>,
    /// What an operator does about an entry of the parking.
    pub advice: fn(&Entry) -> &'static str,
    /// The journal's messages as they are stored.
    pub commits: Arc<dyn StoredCommits>,
    /// How the installation stands.
    pub installation: Arc<dyn Installation>,
    /// What carries out orders.
    pub orders: Arc<dyn Orders>,
    /// The last hour of some metrics.
    pub graphs: Graphs,
    /// The verifiers that the configuration names.
    pub verifiers: Vec<VerifierRef>,
    /// When a settler that missed awards is passed over.
    pub settler_pauses: PauseRule,
    /// What a chain may take until a deadline that has passed can be acted on with proof.
    pub grace: Duration,
}

/// Answers operators until `shutdown`.
pub async fn serve(listener: TcpListener, parts: Parts, shutdown: CancellationToken) {
    let router = router(Arc::new(Console::new(parts)));
    server::serve(listener, router, LIMITS, |_| Some(()), shutdown).await;
}
