//! Metrics (Prometheus): what a process counts and measures, and the listener at which that is read.
//!
//! Everything is off unless `[metrics] listen` is configured, or the operators' console, which has graphs of it; then
//! the recorder is installed before any part is made, because a part makes its handles once. Libraries know the facade
//! (`metrics`) alone. [`table`] has every name.
//!
//! What is counted of a payment is counted where its commit was acknowledged, by the gateway that appended it
//! ([`payments`]), and measured by the journal's times.

mod gauges;
mod journal;
mod payments;
mod recorder;
mod service;
mod spending;
pub mod table;

use std::net::SocketAddr;

use anyhow::{Context, Result};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub(crate) use self::{
    gauges::GatewayGauges,
    journal::{HeldShards, MeasuredJournal},
    payments::PaymentMetrics,
    spending::Spending,
};

/// What this process records, and where it is read.
pub struct Metrics {
    handle: PrometheusHandle,
    listen: Option<SocketAddr>,
}

impl Metrics {
    /// Begins to record where an address is configured; to be called before the parts of the process are made.
    ///
    /// # Errors
    /// When this process records already.
    pub fn install(listen: Option<SocketAddr>) -> Result<Option<Self>> {
        Self::install_for(listen, false)
    }

    /// The same, and also without an address where somebody `is_inside` the process who reads what is recorded.
    ///
    /// # Errors
    /// When this process records already.
    pub fn install_for(listen: Option<SocketAddr>, is_inside: bool) -> Result<Option<Self>> {
        if listen.is_none() && !is_inside {
            return Ok(None);
        }
        if let Some(listen) = listen.filter(|listen| !listen.ip().is_loopback()) {
            tracing::warn!(%listen, "metrics are read by whoever reaches this address");
        }
        Ok(Some(Self { handle: recorder::install()?, listen }))
    }

    /// What gives all metrics as text for Prometheus, as they are when it is called.
    pub fn renderer(&self) -> impl Fn() -> String + Send + Sync + 'static {
        let handle = self.handle.clone();
        move || handle.render()
    }

    /// Listens where an address is configured, and answers until `shutdown`. `sample` sets what is looked up and not
    /// counted, before each reading.
    ///
    /// # Errors
    /// When the address is taken.
    pub async fn serve(self, sample: impl Fn() + Send + Sync + 'static, shutdown: CancellationToken) -> Result<()> {
        let Some(listen) = self.listen else {
            shutdown.cancelled().await;
            return Ok(());
        };
        let listener = TcpListener::bind(listen).await;
        let listener = listener.with_context(|| format!("listen on {listen} for [metrics]"))?;
        tracing::info!(address = %listen, "metrics are read here");
        service::serve(listener, self.handle, sample, shutdown).await;
        Ok(())
    }
}
