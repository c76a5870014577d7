//! Chain watch, a health check of each chain: looks whether the chains are ready, for as long as the gateway runs (ADR 137).
//!
//! The gauge `gw_chain_ready`, by `chain`, is 1 while new payments may go through the chain, else 0.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use chains::readiness::{ChainsReadiness, ReadinessProbe};

/// Longest that one look may take, whatever the time limits of its calls add up to.
const LOOK_MAX: Duration = Duration::from_secs(20);

/// Looks at every chain, each at its own pace, until `shutdown`.
pub(super) async fn run(readiness: ChainsReadiness, probes: Vec<Arc<dyn ReadinessProbe>>, shutdown: CancellationToken) {
    let watching = join_all(probes.iter().map(|probe| watch(&readiness, probe.as_ref())));
    shutdown.run_until_cancelled(watching).await;
}

async fn watch(readiness: &ChainsReadiness, probe: &dyn ReadinessProbe) {
    let ready = metrics::gauge!("gw_chain_ready", "chain" => probe.chain_id().to_string());
    loop {
        let (pause, is_ready) = readiness.look(probe, LOOK_MAX).await;
        ready.set(if is_ready { 1.0 } else { 0.0 });
        tokio::time::sleep(pause).await;
    }
}
