//! Orders of operators, carried out as `gw admin` does: each is recorded before it is begun, and how it ended after it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::{Result, bail, ensure};
use async_nats::Client;
use async_trait::async_trait;
use chrono::Utc;
use serde_json::Value;

use app::admission::pause::{Control, ControlBucket};
use events::StreamId;
use gateway_console::{
    error::Error,
    ports::{Carried, Gateways, Orders},
};
use journal::{
    operator_acts::{Act, OperatorActs, Order, Origin, Outcome, Recorded},
    parking::{self, Parking},
};
use journal_jetstream::operator_acts::NatsOperatorActs;

use crate::operator::{
    InvalidName, Known, Operator, Target,
    acts::{self, Replays},
    dropped,
    wire::{Acknowledged, Started, Verb},
};

/// Carries out what operators order at this gateway's console.
pub(super) struct GatewayOrders {
    gateway: String,
    acts: NatsOperatorActs,
    control: ControlBucket,
    parking: Arc<dyn Parking>,
    client: Client,
}

/// What came of an effect: what there is to say of it, and of a replay what came of each.
type Effect = (String, Replays);

impl GatewayOrders {
    pub(super) fn new(
        gateway: String,
        acts: NatsOperatorActs,
        control: ControlBucket,
        parking: Arc<dyn Parking>,
        client: Client,
    ) -> Self {
        Self { gateway, acts, control, parking, client }
    }

    async fn effect(&self, by: &str, act: &Act, target: &Target, known: &Known) -> Result<Effect> {
        let operator = || Operator::new(self.client.clone());
        let said = match act {
            Act::Pause { reason } => described(Some(&self.control.pause(reason.clone()).await?)),
            Act::Resume { since } => described(self.control.resume(*since).await?.as_ref()),
            Act::Rebuild { .. } => {
                let answers = operator().order::<Started>(target, Verb::Rebuild, known).await?;
                answers.conclude(|_| "a rebuild begins".to_owned())?
            }
            Act::Acknowledge { .. } => {
                operator().order::<Acknowledged>(target, Verb::Acknowledge, known).await?.conclude(dropped)?
            }
            Act::Replay { streams } => return Ok(self.replay(by, streams).await),
            Act::BeginEpoch { .. } | Act::SealEpoch { .. } => bail!("epochs are begun and sealed by `gw admin epochs`"),
        };
        Ok((said, Replays::new()))
    }

    async fn replay(&self, by: &str, streams: &[StreamId]) -> Effect {
        let replays = acts::replay(&*self.parking, streams, by).await;
        (acts::summary(&replays), replays)
    }
}

/// Whether of replays some failed, or none was done; whoever was faster did what is wanted.
fn failed(replays: &Replays) -> bool {
    let outcomes = || replays.iter().map(|(_, replay)| replay);
    let none = !replays.is_empty() && outcomes().all(Result::is_err);
    none || outcomes().any(|replay| !matches!(replay, Ok(()) | Err(parking::Error::NotParked(_))))
}

fn described(control: Option<&Control>) -> String {
    control.map_or_else(|| "accepting; never paused".to_owned(), Control::to_string)
}

/// The gateways by name, as they answered last.
fn known(gateways: &Gateways) -> Known {
    let names = gateways.gateways.iter().filter_map(|answer| answer.get("gateway").and_then(Value::as_str));
    Known::answering(names.map(str::to_owned)).with_silent(gateways.silent.iter().cloned())
}

/// Whom an act is for, where it is for gateways; their names become parts of subjects.
fn target(act: &Act) -> Result<Target, Error> {
    let gateway = match act {
        Act::Rebuild { gateway } | Act::Acknowledge { gateway } => gateway.as_deref(),
        _ => None,
    };
    Target::of(gateway).map_err(|rule: InvalidName| Error::Invalid(format!("gateway: {rule}")))
}

#[async_trait]
impl Orders for GatewayOrders {
    async fn carry_out(&self, by: &str, act: Act, gateways: &Gateways) -> Result<Carried, Error> {
        let (target, known) = (target(&act)?, known(gateways));
        let order = Order::new(Utc::now(), by, Origin::Console, Some(&self.gateway), act.clone());
        let order = order.map_err(|error| Error::Invalid(error.to_string()))?;
        let (act_id, begun) = (order.id.clone(), AtomicBool::new(false));
        tracing::info!(act = %act_id, by, ?act, "an operator orders");
        let mut replays = Replays::new();
        let effect = async {
            begun.store(true, Ordering::Relaxed);
            let (said, done) = self.effect(by, &act, &target, &known).await?;
            replays = done;
            ensure!(!failed(&replays), "{said}");
            Ok((said.clone(), Some(said)))
        };
        let outcome = match acts::carry_out(&self.acts, order, effect).await {
            Ok(said) => Outcome::done(Some(&said)),
            Err(error) if begun.load(Ordering::Relaxed) && !acts::is_unclear(&error) => {
                Outcome::failed(&format!("{error:#}"))
            }
            Err(error) => return Err(Error::Unavailable(format!("{error:#}"))),
        };
        let replays =
            replays.into_iter().map(|(id, replay)| (id.to_string(), replay.map_err(|error| error.to_string())));
        Ok(Carried { act_id, outcome, replays: replays.collect() })
    }

    async fn newest(&self, before: Option<u64>, limit: usize) -> Result<Vec<Recorded>, Error> {
        self.acts.newest(before, limit).await.map_err(|error| Error::Unavailable(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use journal::parking::conformance::fresh;

    use serde_json::json;

    use super::*;

    #[test]
    fn gateways_are_known_by_how_they_answered_last() {
        let gateways = vec![json!({"gateway": "one", "result": {}}), json!({"gateway": 7})];
        let found = known(&Gateways { gateways, silent: vec!["two".to_owned()] });
        assert_eq!(found, Known::answering(["one".to_owned()]).with_silent(["two".to_owned()]));
    }

    #[test]
    fn a_replay_fails_when_some_failed_or_none_was_done() {
        let (one, other) = (fresh(), fresh());
        let not_parked = || Err(parking::Error::NotParked(other.clone()));
        let away = || Err(parking::Error::Unavailable("away".to_owned()));
        assert!(!failed(&Replays::new()));
        assert!(!failed(&vec![(one.clone(), Ok(())), (other.clone(), not_parked())]));
        assert!(failed(&vec![(other.clone(), not_parked())]));
        assert!(failed(&vec![(one, Ok(())), (other.clone(), away())]));
    }
}
