//! What a gateway looks up and does not count: before each reading what it knows, and from time to time what it has to ask for.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use ::metrics::{Gauge, gauge};
use async_nats::{Client, connection::State};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use app::{Readiness, admission::pause::PauseState};
use chains::{registry::ChainRegistry, vitals::Vitals};
use events::{ChainId, StreamId};
use journal::{ShardLog, parking::Parking};
use projections::{OpenLeg, OverdueStage, Projections};
use sagas::ports::Chains;

use super::HeldShards;
use crate::operator::LastLook;

/// How often it is asked whether the gateway is ready.
const READY_EVERY: Duration = Duration::from_secs(5);
/// How often chains and the parking are asked, of which nobody else may have asked meanwhile.
const ASK_EVERY: Duration = Duration::from_secs(15);
/// How long one question may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Where a gateway's gauges are looked up.
pub(crate) struct GatewayGauges {
    pub(crate) client: Client,
    pub(crate) journal: Arc<dyn ShardLog>,
    pub(crate) projections: Projections,
    pub(crate) parking: Arc<dyn Parking>,
    pub(crate) registry: Arc<ChainRegistry>,
    pub(crate) vitals: Vec<Arc<dyn Vitals>>,
    pub(crate) readiness: Arc<dyn Readiness>,
    pub(crate) pause: PauseState,
    pub(crate) look: LastLook,
    pub(crate) held: HeldShards,
}

/// The handles, made once; those of shards when they are first seen.
struct Handles {
    ready: Gauge,
    paused: Gauge,
    alarms: Gauge,
    nats_connected: Gauge,
    shards: Gauge,
    overdue: Gauge,
    unattested: Gauge,
    open: Vec<(OpenLeg, Gauge)>,
    heads: Vec<(ChainId, OnceLock<Gauge>)>,
    lag: Mutex<BTreeMap<u16, Gauge>>,
}

/// The gauges of a gateway, and what looks after them.
pub(crate) struct Sampler {
    gauges: GatewayGauges,
    handles: Handles,
}

fn flag(holds: bool) -> f64 {
    if holds { 1.0 } else { 0.0 }
}

impl GatewayGauges {
    /// Makes the handles.
    pub(crate) fn into_sampler(self) -> Arc<Sampler> {
        let open = OpenLeg::ALL.into_iter().map(|leg| (leg, gauge!("gw_payments_open", "stage" => leg.as_str())));
        let heads = self.vitals.iter().map(|vitals| (vitals.chain_id().clone(), OnceLock::new()));
        let handles = Handles {
            ready: gauge!("gw_ready"),
            paused: gauge!("gw_paused"),
            alarms: gauge!("gw_alarms"),
            nats_connected: gauge!("gw_nats_connected"),
            shards: gauge!("gw_shards"),
            overdue: gauge!("gw_payments_overdue"),
            unattested: gauge!("gw_payments_unattested"),
            open: open.collect(),
            heads: heads.collect(),
            lag: Mutex::default(),
        };
        Arc::new(Sampler { gauges: self, handles })
    }
}

impl Sampler {
    /// Sets what is known without asking anybody.
    pub(crate) fn sample(&self) {
        let (gauges, handles) = (&self.gauges, &self.handles);
        handles.paused.set(flag(gauges.pause.is_paused()));
        handles.alarms.set(gauges.readiness.alarms().len() as f64);
        handles.nats_connected.set(flag(gauges.client.connection_state() == State::Connected));
        self.sample_shards();
        for (chain_id, head) in &handles.heads {
            if let Some(number) = gauges.registry.head(chain_id) {
                head.get_or_init(|| gauge!("gw_chain_head", "chain" => chain_id.to_string())).set(number as f64);
            }
        }
        gauges.look.read(|look| {
            let ours = |shard: u16| gauges.held.holds(shard);
            for (leg, open) in &handles.open {
                let of_leg = look.open.iter().filter(|((shard, found), _)| found == leg && ours(*shard));
                open.set(of_leg.map(|(_, count)| *count).sum::<u64>() as f64);
            }
            let overdue = look.overdue.iter().filter(|(shard, _)| ours(*shard));
            handles.overdue.set(overdue.clone().count() as f64);
            let unattested = overdue.filter(|(_, stage)| *stage == OverdueStage::Unattested);
            handles.unattested.set(unattested.count() as f64);
        });
    }

    fn sample_shards(&self) {
        let (gauges, handles) = (&self.gauges, &self.handles);
        let shards = gauges.journal.shards();
        // A sealed shard has no lease, and no gateway is missed there.
        handles.shards.set(gauges.journal.epochs().open_shards().count() as f64);
        let mut lag = handles.lag.lock().unwrap_or_else(PoisonError::into_inner);
        for shard in 0..shards {
            let Some(known) = gauges.journal.known_head(shard) else { continue };
            let behind = known.saturating_sub(gauges.projections.checkpoint(shard));
            let new = || gauge!("gw_read_model_lag", "shard" => shard.to_string());
            lag.entry(shard).or_insert_with(new).set(behind as f64);
        }
    }

    /// Asks for the rest, again and again, until `shutdown`.
    pub(crate) async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let asking = async {
            let chains = futures::future::join_all(self.gauges.vitals.iter().map(|vitals| follow(vitals.as_ref())));
            tokio::join!(self.ask_readiness(), self.ask_parking(), chains)
        };
        shutdown.run_until_cancelled(asking).await;
    }

    async fn ask_readiness(&self) {
        loop {
            let ready = timeout(ANSWER_MAX, self.gauges.readiness.check()).await;
            self.handles.ready.set(flag(matches!(ready, Ok(Ok(())))));
            sleep(READY_EVERY).await;
        }
    }

    async fn ask_parking(&self) {
        let parked = gauge!("gw_payments_parked");
        loop {
            match timeout(ANSWER_MAX, self.gauges.parking.parked()).await {
                Ok(Ok(records)) => {
                    let ours = records.iter().filter(|record| self.drives(&record.stream_id));
                    parked.set(ours.count() as f64);
                }
                Ok(Err(fault)) => tracing::debug!(%fault, "what is parked is not known"),
                Err(_) => tracing::debug!("what is parked is not known in time"),
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// Whether the stream lies in a shard that this gateway drives, or would there.
    fn drives(&self, stream_id: &StreamId) -> bool {
        self.gauges.journal.epochs().shards_of(stream_id).any(|shard| self.gauges.held.holds(shard))
    }
}

/// Asks a chain again and again.
async fn follow(vitals: &dyn Vitals) {
    let chain = vitals.chain_id().to_string();
    let settled = gauge!("gw_chain_settled", "chain" => chain.clone());
    loop {
        if let Ok(Ok(number)) = timeout(ANSWER_MAX, vitals.settled()).await {
            settled.set(number as f64);
        }
        if let Ok(Ok(submitters)) = timeout(ANSWER_MAX, vitals.submitters()).await {
            for submitter in submitters {
                let (chain, account) = (chain.clone(), submitter.account);
                if let Some(nonces) = submitter.nonces_in_flight {
                    let labels = [("chain", chain.clone()), ("account", account.clone())];
                    gauge!("gw_nonces_in_flight", &labels).set(nonces as f64);
                }
                gauge!("gw_submitter_balance", "chain" => chain, "account" => account).set(submitter.coins);
            }
        }
        sleep(ASK_EVERY).await;
    }
}
