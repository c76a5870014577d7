//! The routes of acts: what operators order, and what they have ordered.
//!
//! An act that is begun runs to its end, whether who ordered it waits or not.

use std::sync::Arc;

use axum::{
    Extension, Json,
    body::Bytes,
    extract::{
        Path, Query, State,
        rejection::{BytesRejection, QueryRejection},
    },
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use events::{StreamId, time::Timestamp};
use journal::operator_acts::{Act, PAGE_MAX, STREAMS_MAX};

use crate::{
    error::Error,
    guard::may_act,
    operators::Operator,
    ports::{Carried, Gateways},
    state::Console,
};

/// Acts on a page where nobody says how many.
const PAGE_DEFAULT: usize = 50;

/// Which acts are wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    before: Option<u64>,
    limit: Option<usize>,
}

/// `GET /api/acts`.
pub(crate) async fn list(
    State(console): State<Arc<Console>>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<Value>, Error> {
    let rule = "before and limit: must be whole numbers, and nothing else";
    let Query(Asked { before, limit }) = asked.map_err(|_| Error::Invalid(rule.to_owned()))?;
    let limit = limit.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(Error::Invalid(format!("limit: must be a whole number from 1 to {PAGE_MAX}")));
    }
    let acts = console.orders.newest(before, limit).await?;
    let next = acts.last().map(|last| last.sequence).filter(|sequence| acts.len() == limit && *sequence > 1);
    Ok(Json(json!({"acts": acts, "next_before": next})))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PauseBody {
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeBody {
    #[serde(default)]
    since: Option<Value>,
}

impl ResumeBody {
    /// Which pause is to be lifted.
    fn since(&self) -> Result<Timestamp, Error> {
        let text = self.since.as_ref().and_then(Value::as_str);
        let rule = "since: must be that of the pause which is to be lifted, as `pause.since` of /api/me shows it";
        text.and_then(|text| text.parse().ok()).ok_or_else(|| Error::Invalid(rule.to_owned()))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Addressed {
    #[serde(default)]
    gateway: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplayBody {
    #[serde(default)]
    ids: Option<Vec<StreamId>>,
    #[serde(default)]
    all: bool,
}

/// `POST /api/acts/{act}`.
pub(crate) async fn order(
    State(console): State<Arc<Console>>,
    Extension(operator): Extension<Operator>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Error> {
    may_act(&operator)?;
    let body = body.map_err(|rejected| Error::Invalid(format!("the body: {rejected}")))?;
    let mut left = None;
    let act = match name.as_str() {
        "pause" => Act::Pause { reason: read::<PauseBody>(&body)?.reason.filter(|reason| !reason.trim().is_empty()) },
        "resume" => Act::Resume { since: Some(read::<ResumeBody>(&body)?.since()?) },
        "rebuild" => Act::Rebuild { gateway: read::<Addressed>(&body)?.gateway },
        "acknowledge" => Act::Acknowledge { gateway: read::<Addressed>(&body)?.gateway },
        "replay" => {
            let streams;
            (streams, left) = replayed(&console, read(&body)?).await?;
            Act::Replay { streams }
        }
        _ => return Err(Error::NotFound("there is no act of this name")),
    };
    let permit = Arc::clone(&console.acts).try_acquire_owned().map_err(|_| Error::TooBusy)?;
    let carrying = tokio::spawn(async move {
        let _permit = permit;
        let carried = console.orders.carry_out(&operator.name, act.clone(), &*gateways(&console, &act).await).await;
        // What is shown next is how it is now.
        console.payments.forget_parked().await;
        console.kept.pause.forget().await;
        console.kept.gateways.forget().await;
        carried
    });
    let carried = carrying.await.map_err(|error| Error::Failed(error.to_string()))??;
    Ok(Json(body_of(&carried, left)))
}

/// How all gateways answered last, where the act is for them; nobody where nobody can say.
async fn gateways(console: &Console, act: &Act) -> Arc<Gateways> {
    match act {
        Act::Rebuild { gateway: None } | Act::Acknowledge { gateway: None } => {
            console.kept.gateways.or(console.installation.gateways()).await.unwrap_or_default()
        }
        _ => Arc::default(),
    }
}

/// A body of JSON; one that is empty says nothing.
fn read<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, Error> {
    if body.is_empty() {
        return Ok(T::default());
    }
    let invalid = |error: serde_json::Error| Error::Invalid(format!("the body: {error}"));
    // Members by their names alone: a list would stand for them in order.
    let members: Map<String, Value> = serde_json::from_slice(body).map_err(invalid)?;
    serde_json::from_value(members.into()).map_err(invalid)
}

/// The payments and batches that are to be replayed, and where all of them are, how many more are parked than one order
/// replays.
async fn replayed(console: &Console, body: ReplayBody) -> Result<(Vec<StreamId>, Option<usize>), Error> {
    let (mut ids, left) = match (body.ids, body.all) {
        (Some(ids), false) => (ids, None),
        (None, true) => {
            let parked = console.payments.parked().await?;
            let all = parked.records.iter().map(|record| record.stream_id.clone());
            (all.take(STREAMS_MAX).collect(), Some(parked.records.len().saturating_sub(STREAMS_MAX)))
        }
        _ => return Err(Error::Invalid("ids or all: exactly one of them must be given".to_owned())),
    };
    ids.sort_unstable();
    ids.dedup();
    match ids.len() {
        0 => Err(Error::Invalid("ids: nothing is parked, or none is named".to_owned())),
        1..=STREAMS_MAX => Ok((ids, left)),
        _ => Err(Error::Invalid(format!("ids: must be at most {STREAMS_MAX}"))),
    }
}

fn body_of(carried: &Carried, left: Option<usize>) -> Value {
    let mut body = json!({"act_id": carried.act_id, "outcome": carried.outcome});
    if let Some(left) = left {
        body["left"] = left.into();
    }
    if !carried.replays.is_empty() {
        let results = carried.replays.iter().map(|(id, replay)| match replay {
            Ok(()) => json!({"id": id, "outcome": "replayed"}),
            Err(error) => json!({"id": id, "outcome": "failed", "error": error}),
        });
        body["results"] = results.collect();
    }
    body
}
