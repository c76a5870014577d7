//! Acts of operators: recorded before they are carried out, from a command line and from a console alike (ADR 144).

use anyhow::{Context, Result};
use chrono::Utc;

use app::admission::pause::ChangeError;
use events::StreamId;
use journal::{
    operator_acts::{self, ActId, Entry, OperatorActs, Order, Outcome},
    parking::{Error, Parking, Replayed},
};

use super::client;

/// Records `order`, carries it out, and records how that ended. `effect` gives its result and what there is to say
/// about it.
///
/// Nothing is begun before the order is stored. Where the end cannot be recorded, the result is given all the same and
/// the log says so: what was done is done. If this is dropped half-way the order stays without an end, so a caller
/// whose own caller may hang up lets it run in a task of its own. An effect that [`is_unclear`] has no end either: that
/// it failed nobody knows.
///
/// # Errors
/// When the order cannot be recorded, with nothing done, or that of `effect`.
pub async fn carry_out<T>(
    acts: &dyn OperatorActs,
    order: Order,
    effect: impl Future<Output = Result<(T, Option<String>)>>,
) -> Result<T> {
    let id = order.id.clone();
    if let Err(error) = acts.record(&Entry::Ordered(order)).await {
        if let operator_acts::Error::Unavailable(_) = error {
            withdraw(acts, &id).await;
        }
        return Err(error).context("nothing was done, as the order cannot be recorded");
    }
    let result = effect.await;
    let outcome = match &result {
        Ok((_, details)) => Outcome::done(details.as_deref()),
        Err(error) if is_unclear(error) => {
            let what = format!("whether it was done is not known, and the record has no end of {id}");
            return result.context(what).map(|(value, _)| value);
        }
        Err(error) => Outcome::failed(&format!("{error:#}")),
    };
    let ended = Entry::Ended { id: id.clone(), at: Utc::now(), outcome };
    if let Err(error) = acts.record(&ended).await {
        tracing::warn!(act = %id, %error, "the act has ended, and how cannot be recorded");
    }
    result.map(|(value, _)| value)
}

/// Whether nobody can tell if what failed so has had its effect.
pub fn is_unclear(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(ChangeError::Unclear(_)))
            || matches!(cause.downcast_ref(), Some(client::Error::Unclear(_)))
    })
}

/// An order that may be stored all the same ends before it is begun. Tried once: where the record is still away, what it
/// may hold of the order stays without an end.
async fn withdraw(acts: &dyn OperatorActs, id: &ActId) {
    let outcome = Outcome::failed("not begun, as it was not known in time whether the order was recorded");
    let ended = Entry::Ended { id: id.clone(), at: Utc::now(), outcome };
    match acts.record(&ended).await {
        Ok(_) | Err(operator_acts::Error::NotOrdered(_)) => {}
        Err(error) => {
            tracing::warn!(act = %id, %error, "whether the order was recorded is not known; it was not begun")
        }
    }
}

/// What is said of replays behind one that got no answer.
const NOT_TRIED: &str = "not tried, as one before it got no answer";

/// What came of the replay of each of some parked payments and batches.
pub type Replays = Vec<(StreamId, Result<(), Error>)>;

/// Lets gateways drive parked payments and batches again, in the name of `by`. When the parking does not answer, the
/// rest is not tried.
pub async fn replay(parking: &dyn Parking, ids: &[StreamId], by: &str) -> Replays {
    let replayed = Replayed::new(by, Utc::now());
    let mut replays = Replays::with_capacity(ids.len());
    let mut is_away = false;
    for id in ids {
        let replay = match is_away {
            true => Err(Error::Unavailable(NOT_TRIED.to_owned())),
            false => parking.replay(id, &replayed).await.map(drop),
        };
        let replay = replay.map_err(|error| match error {
            Error::Unavailable(reason) if !std::mem::replace(&mut is_away, true) => {
                Error::Unavailable(format!("it is not known whether it was replayed: {reason}"))
            }
            error => error,
        });
        replays.push((id.clone(), replay));
    }
    replays
}

/// What came of replays, in a line.
pub fn summary(replays: &Replays) -> String {
    let replayed = replays.iter().filter(|(_, replay)| replay.is_ok()).count();
    let not_parked = replays.iter().filter(|(_, replay)| matches!(replay, Err(Error::NotParked(_)))).count();
    let mut text = format!("{replayed} replayed");
    if not_parked > 0 {
        text += &format!(", {not_parked} not parked");
    }
    let failed: Vec<&Error> = replays.iter().filter_map(|(_, replay)| replay.as_ref().err()).collect();
    let (unavailable, refused): (Vec<&Error>, Vec<&Error>) = failed
        .into_iter()
        .filter(|error| !matches!(error, Error::NotParked(_)))
        .partition(|error| matches!(error, Error::Unavailable(_)));
    if let Some(first) = refused.first() {
        text += &format!(", {} failed: {first}", refused.len());
    }
    // Of the one that got no answer nobody knows, and those behind it were not tried.
    if let Some(first) = unavailable.first() {
        text += &format!(", 1 not known and {} not tried: {first}", unavailable.len() - 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use anyhow::bail;
    use async_trait::async_trait;

    use journal::{
        operator_acts::{Act, Error as ActError, Origin, Recorded, latest, memory::MemoryOperatorActs},
        parking::{Parked, ParkingPartition, Record, conformance, memory::MemoryParking},
    };

    use events::Epoch;

    use super::*;

    /// A record that takes only what `takes` says.
    struct Picky {
        acts: MemoryOperatorActs,
        takes: fn(&Entry) -> bool,
    }

    #[async_trait]
    impl OperatorActs for Picky {
        async fn record(&self, entry: &Entry) -> Result<u64, ActError> {
            match (self.takes)(entry) {
                true => self.acts.record(entry).await,
                false => Err(ActError::Unavailable("no leader".to_owned())),
            }
        }

        async fn newest(&self, before: Option<u64>, limit: usize) -> Result<Vec<Recorded>, ActError> {
            self.acts.newest(before, limit).await
        }
    }

    fn order() -> Order {
        Order::new(Utc::now(), "alice", Origin::CommandLine, None, Act::Resume { since: None }).unwrap()
    }

    #[tokio::test]
    async fn the_order_is_stored_before_the_effect_and_the_end_after_it() {
        let acts = MemoryOperatorActs::default();
        let order = order();
        let effect = async {
            let [seen] = &latest(&acts, 10).await?[..] else { bail!("one order") };
            assert_eq!((&seen.entry, &seen.end), (&Entry::Ordered(order.clone()), &None));
            Ok((7, Some("as it should be".to_owned())))
        };
        assert_eq!(carry_out(&acts, order.clone(), effect).await.unwrap(), 7);
        let seen = latest(&acts, 10).await.unwrap();
        assert_eq!(seen[0].end.as_ref().unwrap().outcome, Outcome::done(Some("as it should be")));

        let effect = async { Err::<((), _), _>(anyhow::anyhow!("inner").context("outer")) };
        let error = carry_out(&acts, super::tests::order(), effect).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "outer: inner");
        let seen = latest(&acts, 1).await.unwrap();
        assert_eq!(seen[0].end.as_ref().unwrap().outcome, Outcome::failed("outer: inner"));
    }

    #[tokio::test]
    async fn what_cannot_be_recorded_is_not_done() {
        let acts = Picky { acts: MemoryOperatorActs::default(), takes: |_| false };
        let done = AtomicBool::new(false);
        let effect = async {
            done.store(true, Ordering::SeqCst);
            Ok(((), None))
        };
        let error = carry_out(&acts, order(), effect).await.unwrap_err();
        assert!(format!("{error:#}").starts_with("nothing was done"), "{error:#}");
        assert!(!done.load(Ordering::SeqCst));
        assert_eq!(acts.newest(None, 10).await.unwrap(), []);
    }

    /// A record whose acknowledgements of orders are lost.
    struct Deaf(MemoryOperatorActs);

    #[async_trait]
    impl OperatorActs for Deaf {
        async fn record(&self, entry: &Entry) -> Result<u64, ActError> {
            let stored = self.0.record(entry).await?;
            match entry {
                Entry::Ordered(_) => Err(ActError::Unavailable("no acknowledgement".to_owned())),
                _ => Ok(stored),
            }
        }

        async fn newest(&self, before: Option<u64>, limit: usize) -> Result<Vec<Recorded>, ActError> {
            self.0.newest(before, limit).await
        }
    }

    #[tokio::test]
    async fn an_order_that_stands_though_nobody_said_so_ends_as_not_begun() {
        let acts = Deaf(MemoryOperatorActs::default());
        let effect = async { unreachable!("the effect of an order that is not known to be recorded") };
        let error = carry_out::<()>(&acts, order(), effect).await.unwrap_err();
        assert!(format!("{error:#}").starts_with("nothing was done"), "{error:#}");
        let seen = latest(&acts, 10).await.unwrap();
        let end = seen[0].end.as_ref().unwrap();
        assert!(matches!(&end.outcome, Outcome::Failed { error } if error.starts_with("not begun")), "{end:?}");
    }

    #[tokio::test]
    async fn an_effect_of_which_nobody_can_tell_has_no_end_and_is_not_said_to_have_failed() {
        let unclear = [
            anyhow::Error::from(ChangeError::Unclear("away".to_owned())),
            anyhow::Error::from(client::Error::Unclear("away".to_owned())).context("outer"),
        ];
        for error in unclear {
            let acts = MemoryOperatorActs::default();
            let error = carry_out::<()>(&acts, order(), async { Err(error) }).await.unwrap_err();
            assert!(is_unclear(&error) && format!("{error:#}").contains("is not known"), "{error:#}");
            let seen = latest(&acts, 10).await.unwrap();
            assert_eq!((seen.len(), &seen[0].end), (1, &None));
        }
        for error in [client::Error::Nobody(None).into(), anyhow::anyhow!("no")] {
            let acts = MemoryOperatorActs::default();
            let error = carry_out::<()>(&acts, order(), async { Err(error) }).await.unwrap_err();
            assert!(!is_unclear(&error));
            assert!(latest(&acts, 10).await.unwrap()[0].end.is_some());
        }
    }

    #[tokio::test]
    async fn an_end_that_cannot_be_recorded_takes_nothing_back() {
        let takes = |entry: &Entry| matches!(entry, Entry::Ordered(_));
        let acts = Picky { acts: MemoryOperatorActs::default(), takes };
        assert_eq!(carry_out(&acts, order(), async { Ok((7, None)) }).await.unwrap(), 7);
        assert_eq!(latest(&acts, 10).await.unwrap()[0].end, None);
    }

    /// A parking that stores what it is told, and gives no answer from the second replay on.
    struct Mute {
        parking: MemoryParking,
        answered: AtomicBool,
    }

    #[async_trait]
    impl Parking for Mute {
        async fn park(&self, id: &StreamId, after: u64, parked: &Parked) -> Result<Record, Error> {
            self.parking.park(id, after, parked).await
        }

        async fn replay(&self, id: &StreamId, replayed: &Replayed) -> Result<Record, Error> {
            let stored = self.parking.replay(id, replayed).await;
            let is_mute = self.answered.swap(true, Ordering::SeqCst);
            if is_mute { Err(Error::Unavailable("no answer".to_owned())) } else { stored }
        }

        async fn history(&self, id: &StreamId) -> Result<Vec<Record>, Error> {
            self.parking.history(id).await
        }

        async fn parked(&self) -> Result<Vec<Record>, Error> {
            self.parking.parked().await
        }

        fn follow(&self, epoch: Epoch, shard: u16) -> Box<dyn ParkingPartition> {
            self.parking.follow(epoch, shard)
        }
    }

    #[tokio::test]
    async fn a_replay_without_an_answer_is_not_said_to_have_failed_and_those_behind_it_are_not_tried() {
        let mute = Mute { parking: MemoryParking::default(), answered: AtomicBool::new(false) };
        let ids: Vec<StreamId> = std::iter::repeat_with(conformance::fresh).take(4).collect();
        for id in &ids {
            mute.park(id, 0, &conformance::parked("a")).await.unwrap();
        }
        let replays = replay(&mute, &ids, "alice").await;
        let said: Vec<_> = replays.iter().map(|(_, replay)| replay.as_ref().err().map(Error::to_string)).collect();
        assert_eq!(said[0], None);
        assert!(said[1].as_ref().is_some_and(|said| said.contains("not known whether it was replayed")), "{said:?}");
        assert!(said[2..].iter().flatten().all(|said| said.contains("not tried")), "{said:?}");
        let summary = summary(&replays);
        assert!(summary.starts_with("1 replayed, 1 not known and 2 not tried: "), "{summary}");
        assert!(!summary.contains("failed"), "{summary}");
        let left = mute.parked().await.unwrap();
        assert_eq!(left.iter().map(|record| &record.stream_id).collect::<Vec<_>>(), [&ids[2], &ids[3]]);
    }

    #[tokio::test]
    async fn each_of_several_replays_has_its_answer() {
        let parking = MemoryParking::default();
        let ids: Vec<StreamId> = std::iter::repeat_with(conformance::fresh).take(3).collect();
        for id in &ids[..2] {
            parking.park(id, 0, &conformance::parked("a")).await.unwrap();
        }
        let replays = replay(&parking, &ids, "alice").await;
        assert_eq!(replays.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), ids);
        assert!(replays[0].1.is_ok() && replays[1].1.is_ok());
        assert_eq!(replays[2].1, Err(Error::NotParked(ids[2].clone())));
        assert_eq!(summary(&replays), "2 replayed, 1 not parked");
        assert!(parking.parked().await.unwrap().is_empty());
    }
}
