//! `[metrics]`: where a process is measured by Prometheus.

use std::net::SocketAddr;

use serde::Deserialize;

/// `[metrics]`: where what a process counts and measures can be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Address of `/metrics`, which asks nobody who it is. Without it nothing is counted and nothing listens.
    pub listen: Option<SocketAddr>,
}
