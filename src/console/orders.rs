//! Orders of operators, carried out as `gw admin` does: each is recorded before it is begun, and how it ended after it.

use std::{
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Result, bail, ensure};
use async_nats::Client;
use async_trait::async_trait;
use chrono::Utc;
use serde::de::DeserializeOwned;

use app::admission::pause::{Control, ControlBucket};
use events::StreamId;
use gateway_console::{
    error::Error,
    ports::{Carried, Orders},
};
use journal::{
    operator_acts::{Act, OperatorActs, Order, Origin, Outcome, Recorded},
    parking::{self, Parking},
};
use journal_jetstream::operator_acts::NatsOperatorActs;

use crate::operator::{
    InvalidName, Operator, Target,
    acts::{self, Replays},
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

    async fn effect(&self, by: &str, act: &Act, target: &Target) -> Result<Effect> {
        let said = match act {
            Act::Pause { reason } => described(&self.control.pause(reason.clone()).await?),
            Act::Resume => described(&self.control.resume().await?),
            Act::Rebuild { .. } => {
                self.all_do::<Started>(target, Verb::Rebuild, |_| "a rebuild begins".to_owned()).await?
            }
            Act::Acknowledge { .. } => {
                let dropped = |dropped: &Acknowledged| format!("{} alarms dropped", dropped.journal_alarms.len());
                self.all_do(target, Verb::Acknowledge, dropped).await?
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

    /// Has one gateway or all of them do something; what each says.
    async fn all_do<T: DeserializeOwned>(
        &self,
        target: &Target,
        verb: Verb,
        says: impl Fn(&T) -> String,
    ) -> Result<String> {
        let replies = Operator::new(self.client.clone()).ask::<T>(target, verb).await?;
        let (mut said, mut all_did) = (String::new(), true);
        for reply in &replies {
            let separator = if said.is_empty() { "" } else { "; " };
            let what = reply.result.as_ref().map(&says);
            all_did &= what.is_some();
            let what = what.or(reply.error.clone()).unwrap_or_else(|| "its answer is empty".to_owned());
            write!(said, "{separator}{}: {what}", reply.gateway)?;
        }
        ensure!(all_did, "{said}");
        Ok(said)
    }
}

/// Whether of replays some failed, or none was done; whoever was faster did what is wanted.
fn failed(replays: &Replays) -> bool {
    let outcomes = || replays.iter().map(|(_, replay)| replay);
    let none = !replays.is_empty() && outcomes().all(Result::is_err);
    none || outcomes().any(|replay| !matches!(replay, Ok(()) | Err(parking::Error::NotParked(_))))
}

fn described(control: &Control) -> String {
    if control.paused { "paused".to_owned() } else { "accepting".to_owned() }
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
    async fn carry_out(&self, by: &str, act: Act) -> Result<Carried, Error> {
        let target = target(&act)?;
        let order = Order::new(Utc::now(), by, Origin::Console, Some(&self.gateway), act.clone());
        let order = order.map_err(|error| Error::Invalid(error.to_string()))?;
        let (act_id, begun) = (order.id.clone(), AtomicBool::new(false));
        tracing::info!(act = %act_id, by, ?act, "an operator orders");
        let mut replays = Replays::new();
        let effect = async {
            begun.store(true, Ordering::Relaxed);
            let (said, done) = self.effect(by, &act, &target).await?;
            replays = done;
            ensure!(!failed(&replays), "{said}");
            Ok((said.clone(), Some(said)))
        };
        let outcome = match acts::carry_out(&self.acts, order, effect).await {
            Ok(said) => Outcome::done(Some(&said)),
            Err(error) if begun.load(Ordering::Relaxed) => Outcome::failed(&format!("{error:#}")),
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

    use super::*;

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
