//! Clock synchronization with the NATS servers: the time that all who share them agree about.
//!
//! Each answer of a server bounds what time it is there: not before what the answer says, and not later than that and the
//! round trip. Bounds of several answers are intersected (Marzullo's algorithm, for one source) and carried on by a monotonic
//! clock, which no step of the time of day touches. A process's own clock is believed within the bounds, and not beyond.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use async_nats::Client;
use chrono::{TimeDelta, Utc};

use events::time::Timestamp;

use crate::requests;

/// Time between two questions for the server's time.
const ASK_EVERY: Duration = Duration::from_secs(3);
/// How long an answer may take; one that takes long says little.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How much faster or slower than the server's clock this machine's monotonic clock may run: one part in so many. Crystals are
/// within a tenth of it, and NTP slews a clock by half of it.
const DRIFT_PARTS: i32 = 1_000;
/// A clock that is off by more than this is warned of.
const OFF_WARNING: TimeDelta = TimeDelta::seconds(1);

/// Time by the server that leads a stream.
pub struct ServerClock {
    client: Client,
    stream: String,
    own: fn() -> Timestamp,
    /// What the answers have said; `None` before the first.
    bounds: Mutex<Option<Bounds>>,
    /// Whether it was said that this machine's clock is off.
    is_off: AtomicBool,
}

/// Between which two times the server's clock stood at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    at: Instant,
    earliest: Timestamp,
    latest: Timestamp,
}

impl Bounds {
    /// What an answer says that was asked for and received then.
    fn of_answer(sent: Instant, received: Instant, told: Timestamp) -> Self {
        Self { at: received, earliest: told, latest: told + received.saturating_duration_since(sent) }
    }

    /// The bounds at a later instant, wider by what the two clocks may have drifted apart meanwhile.
    fn carried_to(self, at: Instant) -> Self {
        let passed = at.saturating_duration_since(self.at);
        let drift = passed / DRIFT_PARTS.unsigned_abs();
        Self { at, earliest: self.earliest + passed.saturating_sub(drift), latest: self.latest + passed + drift }
    }

    /// These bounds of a newer answer, narrowed by those `before`. Where they exclude each other the server's clock was set, or
    /// another server answers, and the newer ones hold.
    fn narrowed_by(self, before: Self) -> Self {
        let before = before.carried_to(self.at);
        let (earliest, latest) = (self.earliest.max(before.earliest), self.latest.min(before.latest));
        if earliest <= latest { Self { earliest, latest, ..self } } else { self }
    }

    /// How far `time` is beyond the bounds: positive when it is ahead of them, negative when it is behind, zero within.
    fn excess(&self, time: Timestamp) -> TimeDelta {
        (time - self.latest).max(TimeDelta::zero()) + (time - self.earliest).min(TimeDelta::zero())
    }
}

impl ServerClock {
    /// A clock that asks the leader of `stream`. Until it has read the server's, it is this machine's.
    pub fn new(client: Client, stream: &str) -> Self {
        Self::with_own(client, stream, Utc::now)
    }

    /// The same with another clock as this machine's.
    pub fn with_own(client: Client, stream: &str, own: fn() -> Timestamp) -> Self {
        Self { client, stream: stream.to_owned(), own, bounds: Mutex::default(), is_off: AtomicBool::default() }
    }

    /// What time it is: by this machine's clock, as far as that agrees with what the server said; otherwise the nearest time
    /// that does.
    pub fn now(&self) -> Timestamp {
        let own = (self.own)();
        match self.bounds() {
            Some(bounds) => own - bounds.carried_to(Instant::now()).excess(own),
            None => own,
        }
    }

    /// Asks the server once.
    ///
    /// # Errors
    /// Why it does not say what time it is; what it said before holds on.
    pub async fn read(&self) -> Result<(), String> {
        let sent = Instant::now();
        let told = requests::server_time(&self.client, &self.stream, ANSWER_TIMEOUT).await?;
        let (received, own) = (Instant::now(), (self.own)());
        let answer = Bounds::of_answer(sent, received, told);
        let bounds = self.bounds().map_or(answer, |before| answer.narrowed_by(before));
        *self.bounds.lock().unwrap_or_else(PoisonError::into_inner) = Some(bounds);
        let excess = bounds.excess(own);
        let is_off = excess.abs() > OFF_WARNING;
        if self.is_off.swap(is_off, Ordering::Relaxed) != is_off {
            let ahead_ms = excess.num_milliseconds();
            match is_off {
                true => tracing::warn!(ahead_ms, "this machine's clock is off from the NATS server's, which counts"),
                false => tracing::info!("this machine's clock agrees with the NATS server's again"),
            }
        }
        Ok(())
    }

    /// Asks the server again and again, for ever.
    pub async fn follow(&self) {
        loop {
            if let Err(reason) = self.read().await {
                tracing::debug!(reason, "the server does not say what time it is");
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    fn bounds(&self) -> Option<Bounds> {
        *self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use async_nats::jetstream::{self, stream};
    use chrono::DateTime;
    use devkit::NatsServer;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn time(ms: i64) -> Timestamp {
        DateTime::from_timestamp(1_893_456_000, 0).unwrap() + TimeDelta::milliseconds(ms)
    }

    /// An answer that was asked for `sent_ms` after `origin` and took so long.
    fn answer(origin: Instant, sent_ms: u64, took_ms: u64, told: Timestamp) -> Bounds {
        let sent = origin + Duration::from_millis(sent_ms);
        Bounds::of_answer(sent, sent + Duration::from_millis(took_ms), told)
    }

    #[test]
    fn an_answer_bounds_the_servers_time_by_its_round_trip_and_drift_widens_the_bounds() {
        let origin = Instant::now();
        let bounds = answer(origin, 0, 40, time(0));
        assert_eq!((bounds.earliest, bounds.latest), (time(0), time(40)));
        let later = bounds.carried_to(bounds.at + SECOND);
        assert_eq!((later.earliest, later.latest), (time(999), time(1_041)));
        let excess = |ms| bounds.excess(time(ms)).num_milliseconds();
        assert_eq!([excess(-5), excess(0), excess(20), excess(40), excess(90_040)], [-5, 0, 0, 0, 90_000]);
    }

    #[test]
    fn a_slow_answer_takes_nothing_from_what_a_quick_one_said_and_a_clock_that_was_set_is_followed() {
        let origin = Instant::now();
        let quick = answer(origin, 0, 2, time(0));
        let slow = answer(origin, 1_000, 1_500, time(1_600));
        let both = slow.narrowed_by(quick);
        assert_eq!(both, Bounds { at: slow.at, ..quick.carried_to(slow.at) });
        // A minute ahead of what it said before.
        let set = answer(origin, 4_000, 2, time(64_000));
        assert_eq!(set.narrowed_by(both), set);
    }

    fn ahead() -> Timestamp {
        Utc::now() + TimeDelta::seconds(90)
    }

    fn behind() -> Timestamp {
        Utc::now() - TimeDelta::seconds(90)
    }

    #[tokio::test]
    async fn a_clock_that_is_off_is_held_to_the_servers() -> anyhow::Result<()> {
        let server = NatsServer::open().await?;
        let client = async_nats::connect(server.url()).await?;
        let own: [fn() -> Timestamp; 3] = [Utc::now, ahead, behind];
        let clocks = own.map(|own| ServerClock::with_own(client.clone(), "KEPT", own));
        assert!(clocks[0].read().await.is_err(), "there is no such stream");
        let off = |clock: &ServerClock| (clock.now() - Utc::now()).abs();
        // Until the server has said its time each goes by its own.
        let before = clocks.each_ref().map(|clock| off(clock) > TimeDelta::seconds(60));
        assert_eq!(before, [false, true, true]);

        let config =
            stream::Config { name: "KEPT".to_owned(), subjects: vec!["kept".to_owned()], ..Default::default() };
        jetstream::new(client.clone()).create_stream(config).await?;
        for clock in &clocks {
            clock.read().await.map_err(anyhow::Error::msg)?;
            // The server is on this machine, and its answer took no longer than it may.
            let off = off(clock);
            assert!(off <= TimeDelta::from_std(ANSWER_TIMEOUT)?, "{off}");
        }
        Ok(())
    }
}
