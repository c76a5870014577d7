//! The state of the routes: what each handler works with.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::sync::Semaphore;

use app::{App, Services};
use config::GatewayConfig;
use net::callers::Callers;

use super::{documents::Documents, http_metrics::HttpMetrics};

/// The routes' state: that of the use cases, and what is HTTP's alone.
pub struct HttpState {
    app: App,
    pub(super) streams: Arc<Semaphore>,
    /// What the service says about itself, made when it is first asked for.
    pub(super) documents: OnceLock<Documents>,
    /// What is counted of the routes, once there are some.
    pub(super) metrics: OnceLock<HttpMetrics>,
}

impl Deref for HttpState {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

impl HttpState {
    /// The state for a configuration that was loaded.
    pub fn new(config: &GatewayConfig, services: Services) -> Self {
        Self {
            app: App::new(config, services),
            streams: Arc::new(Semaphore::new(config.http.event_streams_max.min(Semaphore::MAX_PERMITS))),
            documents: OnceLock::new(),
            metrics: OnceLock::new(),
        }
    }

    /// Who calls, and how much each may ask for.
    pub fn callers(&self) -> &Arc<Callers> {
        &self.app.callers
    }

    pub(super) fn long_poll_max(&self) -> Duration {
        Duration::from_millis(self.http.hold_ms_max)
    }
}
