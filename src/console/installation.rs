//! How the installation stands: what this process knows, and what gateways and NATS answer.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_nats::{Client, jetstream};
use async_trait::async_trait;
use futures::TryStreamExt;
use serde_json::Value;
use tokio::time::timeout;

use app::{Readiness, admission::pause::ControlBucket};
use auction::NatsAuction;
use chains::readiness::ChainsReadiness;
use config::{GatewayConfig, networks};
use events::{ChainId, Family, time::Timestamp};
use gateway_console::{
    error::Error,
    ports::{
        Alarms, ChainState, EpochState, Gateways, Installation, Network, NetworkAsset, NetworkChain, Pause,
        RegisteredSettler, StreamState, Streams,
    },
};
use journal::{ShardLog, envelope};
use journal_jetstream::store::NatsJournal;
use sagas::runner::Misconfigured;

use crate::operator::{
    self, LastLook, Operator, Target, Unattested, Verifiers,
    wire::{Status, Verb},
};

/// How long the streams may take to answer.
const STREAMS_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long `/readyz`'s question may take.
const READY_WAIT_MAX: Duration = Duration::from_secs(5);
/// Most streams that are shown: each settler has its own.
const STREAMS_MAX: usize = 4_000;
/// How long a gateway that does not answer any more is named.
const MISSED_FOR: Duration = Duration::from_secs(24 * 3_600);
/// Most gateways that are remembered.
const SEEN_MAX: usize = 1_000;

/// How the installation of this gateway stands.
pub(super) struct GatewayInstallation {
    pub(super) network: Network,
    pub(super) client: Client,
    pub(super) control: ControlBucket,
    pub(super) journal: Arc<NatsJournal>,
    pub(super) readiness: Arc<dyn Readiness>,
    pub(super) look: LastLook,
    pub(super) unattested: Unattested,
    pub(super) misconfigured: Misconfigured,
    pub(super) settlers: Arc<NatsAuction>,
    pub(super) chains: ChainsReadiness,
    pub(super) verifiers: Verifiers,
    pub(super) seen: Seen,
}

/// The gateways that have answered, and when they did last.
#[derive(Default)]
pub(super) struct Seen(Mutex<BTreeMap<String, Instant>>);

impl Seen {
    /// Takes note of who answers, and says who has and does not.
    fn silent(&self, answering: &BTreeSet<String>, now: Instant) -> Vec<String> {
        // One insertion or removal at a time leaves nothing half done.
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, at| now.duration_since(*at) < MISSED_FOR);
        for name in answering {
            if seen.len() < SEEN_MAX || seen.contains_key(name) {
                seen.insert(name.clone(), now);
            }
        }
        seen.keys().filter(|name| !answering.contains(*name)).cloned().collect()
    }
}

#[async_trait]
impl Installation for GatewayInstallation {
    fn network(&self) -> &Network {
        &self.network
    }

    async fn pause(&self) -> Result<Option<Pause>, Error> {
        let control = self.control.read().await.map_err(|error| Error::Unavailable(error.to_string()))?;
        Ok(control.map(|control| Pause { paused: control.paused, since: control.since, reason: control.reason }))
    }

    async fn gateways(&self) -> Result<Gateways, Error> {
        let asked = Operator::new(self.client.clone()).ask::<Status>(&Target::All, Verb::Status).await;
        let replies = match asked {
            Ok(replies) => replies,
            Err(operator::Error::Nobody(_)) => Vec::new(),
            Err(error) => return Err(Error::Unavailable(error.to_string())),
        };
        let answering = replies.iter().map(|reply| reply.gateway.clone()).collect();
        let silent = self.seen.silent(&answering, Instant::now());
        let gateways = replies.iter().map(serde_json::to_value).collect::<Result<_, _>>();
        Ok(Gateways { gateways: gateways.map_err(|error| Error::Failed(error.to_string()))?, silent })
    }

    async fn streams(&self) -> Result<Streams, Error> {
        let unavailable = |reason: &dyn std::fmt::Display| Error::Unavailable(format!("the streams: {reason}"));
        let listing = async {
            let (mut all, mut listed) = (Vec::new(), jetstream::new(self.client.clone()).streams());
            while let Some(info) = listed.try_next().await? {
                if all.len() >= STREAMS_MAX {
                    return Ok((all, true));
                }
                all.push(info);
            }
            Ok::<_, async_nats::Error>((all, false))
        };
        let listed = timeout(STREAMS_WAIT_MAX, listing).await.map_err(|_| unavailable(&"no answer in time"))?;
        let (infos, has_more) = listed.map_err(|error| unavailable(&error))?;
        let begun: HashMap<String, Timestamp> =
            infos.iter().filter_map(|info| Some((info.config.name.clone(), timestamp(info.created)?))).collect();
        let known = self.journal.epochs();
        let epochs = known.all().iter().map(|epoch| EpochState {
            number: epoch.number,
            first_shard: epoch.first,
            shards: epoch.shards,
            sealed: epoch.sealed,
            // With its last stream.
            begun_at: epoch.range().filter_map(|shard| begun.get(&envelope::stream(shard)).copied()).max(),
        });
        let epochs = epochs.collect();
        let mut streams: Vec<StreamState> = infos.into_iter().map(stream_state).collect();
        streams.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(Streams { streams, has_more, epochs })
    }

    async fn ready(&self) -> Result<(), String> {
        let ready = timeout(READY_WAIT_MAX, self.readiness.check()).await;
        ready.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }

    fn alarms(&self) -> Alarms {
        Alarms {
            texts: self.readiness.alarms(),
            overdue: self.look.read(|look| look.overdue.len() as u64),
            unattested: self.unattested.count(),
            misconfigured: self.misconfigured.count(),
        }
    }

    fn settlers(&self) -> Vec<RegisteredSettler> {
        let registered = self.settlers.registered().into_iter();
        let settlers = registered.map(|(did, corridors)| {
            let corridors = corridors.into_iter().map(|corridor| (corridor.source_asset, corridor.destination_asset));
            RegisteredSettler { did, corridors: corridors.collect() }
        });
        settlers.collect()
    }

    fn verifiers(&self) -> Result<Vec<Value>, Error> {
        let observed = self.verifiers.observed();
        let told = observed.iter().map(serde_json::to_value).collect::<Result<_, _>>();
        told.map_err(|error| Error::Failed(error.to_string()))
    }

    fn chains(&self) -> Vec<ChainState> {
        let all = self.chains.all();
        all.map(|(chain_id, cause)| ChainState { chain_id: chain_id.clone(), cause: cause.map(|cause| cause.text()) })
            .collect()
    }
}

fn stream_state(info: jetstream::stream::Info) -> StreamState {
    let state = info.state;
    StreamState {
        name: info.config.name,
        messages: state.messages,
        bytes: state.bytes,
        first_sequence: state.first_sequence,
        last_sequence: state.last_sequence,
        last_at: timestamp(state.last_timestamp).filter(|_| state.last_sequence > 0),
        replicas: info.config.num_replicas,
        consumers: state.consumer_count,
    }
}

fn timestamp(time: async_nats::datetime::DateTime) -> Option<Timestamp> {
    Timestamp::from_timestamp(time.unix_timestamp(), time.nanosecond())
}

/// What the gateway serves, with what is known of public networks.
pub(super) fn network(config: &GatewayConfig) -> Network {
    let presets: Vec<networks::Network> =
        networks::Network::names().filter_map(|name| networks::Network::named(name).ok()).collect();
    let chains = config.chains.iter().map(|served| {
        let common = served.chain.common();
        let preset = presets.iter().find(|preset| preset.chain_id == common.chain_id);
        NetworkChain {
            name: preset.map_or_else(|| common.chain_id.to_string(), |preset| preset.title.clone()),
            explorer_tx: preset.map(|preset| explorer(&preset.transaction_url, &common.chain_id)),
            chain_id: common.chain_id.clone(),
            assets: common.assets.iter().map(asset).collect(),
        }
    });
    Network { chains: chains.collect() }
}

fn asset(asset: &chains::config::AssetConfig) -> NetworkAsset {
    NetworkAsset {
        asset_identifier: asset.asset_identifier.clone(),
        symbol: asset.symbol.clone(),
        decimals: asset.decimals,
    }
}

/// Explorers of Tron take hashes as Tron writes them.
fn explorer(template: &str, chain_id: &ChainId) -> String {
    let hash = if chain_id.family() == Some(Family::Tron) { "{bare}" } else { "{hash}" };
    template.replace("{transaction}", hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_falls_silent_is_named_for_a_day() {
        let (seen, start) = (Seen::default(), Instant::now());
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert!(seen.silent(&names(&["one", "two"]), start).is_empty());
        let hour = Duration::from_secs(3_600);
        assert_eq!(seen.silent(&names(&["one"]), start + hour), ["two"]);
        assert_eq!(seen.silent(&names(&[]), start + 23 * hour), ["one", "two"]);
        assert_eq!(seen.silent(&names(&[]), start + 24 * hour), ["one"]);
        let many: BTreeSet<String> = (0..2 * SEEN_MAX).map(|n| n.to_string()).collect();
        seen.silent(&many, start + 25 * hour);
        assert_eq!(seen.silent(&names(&[]), start + 25 * hour).len(), SEEN_MAX);
    }

    #[test]
    fn explorers_are_asked_for_hashes_as_they_write_them() {
        let template = "https://x.example/tx/{transaction}";
        assert_eq!(explorer(template, &ChainId::evm(1)), "https://x.example/tx/{hash}");
        assert_eq!(explorer(template, &"tron:728126428".parse().unwrap()), "https://x.example/tx/{bare}");
    }
}
