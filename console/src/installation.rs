//! The routes of how the installation stands.

use std::{collections::BTreeSet, sync::Arc};

use axum::{Extension, Json, extract::State};
use chrono::Utc;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    error::Error,
    graphs::{GraphsBody, Reading},
    operators::Operator,
    ports::{Gateways, NetworkChain, Streams},
    settlers::SettlersBody,
    state::Console,
    survey::VerifiersBody,
};

/// Outcomes of calls that are no fault of the node.
const ANSWERS: [&str; 2] = ["ok", "refused"];

/// `GET /api/me`.
pub(crate) async fn me(State(console): State<Arc<Console>>, Extension(operator): Extension<Operator>) -> Json<Value> {
    let installation = &console.installation;
    // Who asks is told who he is, whether NATS is there or not.
    let pause = console.kept.pause.or(installation.pause()).await;
    Json(json!({
        "name": operator.name,
        "may_act": operator.may_act,
        "gateway": console.gateway,
        "version": env!("CARGO_PKG_VERSION"),
        "now": Utc::now(),
        "pause": pause.as_ref().ok().map(|pause| &**pause),
        "pause_unknown": pause.as_ref().err().map(ToString::to_string),
        "network": installation.network(),
    }))
}

/// `GET /api/settlers`.
pub(crate) async fn settlers(State(console): State<Arc<Console>>) -> Result<Json<SettlersBody>, Error> {
    let (payments, registered) = (&console.payments, console.installation.settlers());
    console.settlers.shown(payments.projections(), payments.lane(), registered).await.map(Json)
}

/// `GET /api/verifiers`.
pub(crate) async fn verifiers(State(console): State<Arc<Console>>) -> Result<Json<VerifiersBody>, Error> {
    let (payments, observed) = (&console.payments, console.installation.verifiers()?);
    console.surveys.verifiers(payments.projections(), payments.lane(), observed).await.map(Json)
}

/// `GET /api/gateways`.
pub(crate) async fn gateways(State(console): State<Arc<Console>>) -> Result<Json<Gateways>, Error> {
    let gateways = console.kept.gateways.or(console.installation.gateways()).await?;
    Ok(Json((*gateways).clone()))
}

/// `GET /api/streams`.
pub(crate) async fn streams(State(console): State<Arc<Console>>) -> Result<Json<Value>, Error> {
    let answered = console.kept.streams.or(console.installation.streams()).await?;
    let Streams { streams, has_more, epochs } = &*answered;
    Ok(Json(json!({"streams": streams, "has_more": has_more, "epochs": epochs})))
}

/// `GET /api/alarms`.
pub(crate) async fn alarms(State(console): State<Arc<Console>>) -> Json<Value> {
    let installation = &console.installation;
    let ready = console.kept.ready.or(async { Ok(installation.ready().await) }).await;
    let ready = ready.map_or_else(|error| Err(error.to_string()), |ready| (*ready).clone());
    let (alarms, parked) = (installation.alarms(), console.payments.parked().await.ok());
    Json(json!({
        "ready": ready.is_ok(),
        "not_ready_reason": ready.err(),
        "alarms": alarms.texts,
        "overdue": alarms.overdue,
        // Absent while nobody can tell.
        "parked": parked.map(|parked| parked.records.len()),
        "unattested": alarms.unattested,
        "misconfigured": alarms.misconfigured,
    }))
}

/// `GET /api/graphs`.
pub(crate) async fn graphs(State(console): State<Arc<Console>>) -> Json<GraphsBody> {
    Json(console.graphs.body())
}

/// A chain and its nodes.
#[derive(Debug, Serialize)]
struct ChainBody {
    chain_id: String,
    name: String,
    ready: bool,
    /// Why nothing new may go through it.
    cause: Option<&'static str>,
    head: Option<u64>,
    settled: Option<u64>,
    submitters: Vec<SubmitterBody>,
    nodes: Vec<NodeBody>,
}

#[derive(Debug, Serialize)]
struct SubmitterBody {
    account: String,
    coins: Option<f64>,
    nonces_in_flight: Option<u64>,
}

/// A node, by the calls of this process since it started.
#[derive(Debug, Serialize)]
struct NodeBody {
    origin: String,
    up: Option<bool>,
    head_lag: Option<u64>,
    /// What its calls took lately, in the mean.
    latency_ms: Option<f64>,
    calls: u64,
    errors: u64,
    disagreements: u64,
}

/// `GET /api/chains`, from what this process counts anyway: no node is asked anything for it.
pub(crate) async fn chains(State(console): State<Arc<Console>>) -> Json<Value> {
    let (states, reading) = (console.installation.chains(), console.graphs.last());
    let cause = |chain_id: &str| {
        let state = states.iter().find(|state| state.chain_id.as_str() == chain_id);
        state.and_then(|state| state.cause)
    };
    let served = console.installation.network().chains.iter();
    let chains: Vec<ChainBody> =
        served.map(|chain| chain_body(chain, cause(chain.chain_id.as_str()), &reading, &console)).collect();
    Json(json!({"chains": chains}))
}

fn chain_body(chain: &NetworkChain, cause: Option<&'static str>, reading: &Reading, console: &Console) -> ChainBody {
    let chain_id = chain.chain_id.as_str();
    let of_chain = [("chain", chain_id)];
    let number = |name: &str, labels: &[(&str, &str)]| reading.one(name, labels).map(|value| value as u64);
    let accounts = values(reading, "gw_submitter_balance", chain_id, "account");
    let nodes = values(reading, "gw_node_calls_total", chain_id, "node");
    ChainBody {
        chain_id: chain_id.to_owned(),
        name: chain.name.clone(),
        ready: cause.is_none(),
        cause,
        head: number("gw_chain_head", &of_chain),
        settled: number("gw_chain_settled", &of_chain),
        submitters: accounts.into_iter().map(|account| submitter(account, chain_id, reading)).collect(),
        nodes: nodes.into_iter().map(|node| node_body(node, chain_id, reading, console)).collect(),
    }
}

fn submitter(account: &str, chain_id: &str, reading: &Reading) -> SubmitterBody {
    let labels = [("chain", chain_id), ("account", account)];
    SubmitterBody {
        account: account.to_owned(),
        coins: reading.one("gw_submitter_balance", &labels),
        nonces_in_flight: reading.one("gw_nonces_in_flight", &labels).map(|value| value as u64),
    }
}

fn node_body(node: &str, chain_id: &str, reading: &Reading, console: &Console) -> NodeBody {
    let labels = [("chain", chain_id), ("node", node)];
    let calls = reading.sum("gw_node_calls_total", &labels);
    let answered = ANSWERS.iter().map(|outcome| {
        let [chain, node] = labels;
        reading.sum("gw_node_calls_total", &[chain, node, ("outcome", *outcome)])
    });
    let answered: f64 = answered.sum();
    NodeBody {
        origin: node.to_owned(),
        up: reading.one("gw_node_up", &labels).map(|up| up > 0.0),
        head_lag: reading.one("gw_node_lag_blocks", &labels).map(|lag| lag as u64),
        latency_ms: console.graphs.newest("node_seconds", &labels).map(|seconds| f64::from(seconds) * 1_000.0),
        calls: calls as u64,
        errors: (calls - answered) as u64,
        disagreements: reading.sum("gw_node_disagreements_total", &labels) as u64,
    }
}

/// The values of a label in the series of a chain.
fn values<'a>(reading: &'a Reading, name: &str, chain_id: &str, label: &str) -> BTreeSet<&'a str> {
    let of_chain = reading.all(name).iter().filter(|(labels, _)| labels.get("chain").is_some_and(|of| of == chain_id));
    of_chain.filter_map(|(labels, _)| labels.get(label).map(String::as_str)).collect()
}
