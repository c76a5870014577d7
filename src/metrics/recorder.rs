//! The recorder: where everything that is counted in this process is kept, and how it is written for Prometheus.

use ::metrics::{Unit, describe_counter, describe_gauge, describe_histogram, gauge, set_global_recorder};
use anyhow::{Context, Result};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use super::table::{Kind, Metric, TABLE};

/// Begins to count, in this process: handles that were made before count nothing.
///
/// # Errors
/// When something counts already.
pub(super) fn install() -> Result<PrometheusHandle> {
    let mut builder = PrometheusBuilder::new();
    for metric in TABLE {
        if let Kind::Histogram(buckets) = metric.kind {
            builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)?;
        }
    }
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    set_global_recorder(recorder).context("metrics are recorded already")?;
    for Metric { name, kind, help, .. } in TABLE.iter().copied() {
        match kind {
            Kind::Counter => describe_counter!(name, help),
            Kind::Gauge => describe_gauge!(name, help),
            Kind::Histogram(_) => describe_histogram!(name, Unit::Seconds, help),
        }
    }
    gauge!("gw_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}
