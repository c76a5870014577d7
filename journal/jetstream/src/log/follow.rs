//! Following a log: what others store is taken in, when it is needed or when one hears of it.
//!
//! Who has stored something publishes a wake hint on `gw.hint.{shard}`: the sequence of the last commit and nothing else,
//! under load one hint for many. It is neither stored nor proven; it makes others look. A hint that is lost only delays,
//! because a log that somebody waits for is looked at every second anyway.

use std::{
    future::pending,
    str,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use async_nats::Subscriber;
use futures::StreamExt;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::debug;

use journal::ReadError;

use super::{
    Inner,
    read::{BYTES_MAX, MESSAGES_MAX, unavailable, unreadable},
    segment::{self, Defect, Segment},
    shard::Shard,
};
use crate::requests::{self, BatchRequest, Pick, Stored};

/// Longest wait for a commit that does not come.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// A log that somebody waits for is looked at this often even when nothing is heard.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Least time between two hints about one shard.
const HINT_EVERY: Duration = Duration::from_millis(10);
/// How long a look waits for what this process is about to store.
const TOLD_WITHIN: Duration = Duration::from_millis(10);

/// Where hints about a shard are given.
fn hints(shard: u16) -> String {
    format!("gw.hint.{shard:02}")
}

impl Inner {
    /// Takes in everything that is stored in a shard now, by its leader's word. Calls at the same time share a look.
    pub(super) async fn look(&self, shard: &Shard) -> Result<(), ReadError> {
        let looks = &shard.looks;
        let wanted = looks.wanted();
        // What this process is about to store tells the same, for nothing.
        if shard.queue().is_busy() {
            let told = async {
                loop {
                    let changed = looks.changed.notified();
                    if let Some(outcome) = looks.outcome(wanted) {
                        return outcome;
                    }
                    changed.await;
                }
            };
            if let Ok(outcome) = timeout(TOLD_WITHIN, told).await {
                return outcome;
            }
        }
        self.look_for(shard, wanted).await
    }

    /// The same for who stores, and need not wait for itself.
    pub(super) async fn look_now(&self, shard: &Shard) -> Result<(), ReadError> {
        self.look_for(shard, shard.looks.wanted()).await
    }

    async fn look_for(&self, shard: &Shard, wanted: u64) -> Result<(), ReadError> {
        let looks = &shard.looks;
        let _only = looks.one_at_a_time.lock().await;
        if let Some(outcome) = looks.outcome(wanted) {
            return outcome;
        }
        let number = looks.begin();
        let outcome = self.take_in(shard).await;
        looks.over(number, &outcome);
        outcome
    }

    async fn take_in(&self, shard: &Shard) -> Result<(), ReadError> {
        let stream = segment::stream(shard.number);
        let (client, within) = (self.reader(), self.options.attempt_timeout);
        if !requests::connected(client) {
            return Err(unavailable("no connection".into()));
        }
        let at = async |message| requests::leader_get(client, &stream, &Pick::At { seq: message }, within).await;
        // As it is asked, what is stored by this process may come before it.
        let Some(found) = at(shard.end().message + 1).await.map_err(unavailable)? else { return Ok(()) };
        self.apply(shard, found)?;
        // Somebody else writes. What is stored from now on need not be waited for.
        let last = requests::last_sequence(client, &stream, within).await.map_err(unavailable)?;
        loop {
            let next = shard.end().message + 1;
            if next > last {
                return Ok(());
            }
            let ask = BatchRequest { seq: next, subject: None, batch: MESSAGES_MAX, max_bytes: BYTES_MAX };
            for found in requests::direct_batch(client, &stream, &ask, within).await.map_err(unavailable)? {
                if found.sequence > shard.end().message + 1 {
                    break;
                }
                self.apply(shard, found)?;
            }
            if shard.end().message < next {
                // A copy that is behind, or a message that is gone: the leader knows.
                let found = at(next).await.map_err(unavailable)?;
                let gone = || unreadable(shard.number, 0, None, format!("message {next} is missing"));
                self.apply(shard, found.ok_or_else(gone)?)?;
            }
        }
    }

    /// Whether the log goes on behind a message that is missing.
    ///
    /// # Errors
    /// When it does, or goes less far than was seen, or nobody can say.
    pub(super) async fn check_end(&self, shard: &Shard) -> Result<(), ReadError> {
        let before = shard.end().message;
        let (stream, within) = (segment::stream(shard.number), self.options.attempt_timeout);
        let last = requests::last_sequence(self.reader(), &stream, within).await.map_err(unavailable)?;
        self.look(shard).await?;
        let end = shard.end().message;
        if last < before || end < last {
            let reason = format!("it ends with message {last}, and is read up to {end}");
            return Err(unreadable(shard.number, 0, None, reason));
        }
        Ok(())
    }

    /// Takes in a message, if it is not taken in already.
    fn apply(&self, shard: &Shard, found: Stored) -> Result<(), ReadError> {
        let message = found.sequence;
        if message <= shard.end().message {
            return Ok(());
        }
        match Segment::read(found).map(Arc::new).and_then(|segment| shard.apply(&segment)) {
            Ok(()) => Ok(()),
            Err(Defect::Foreign) => {
                shard.pass_over(message);
                Ok(())
            }
            // What this process has stored itself came first.
            Err(_) if message <= shard.end().message => Ok(()),
            Err(defect) => Err(unreadable(shard.number, 0, None, format!("message {message}: {defect}"))),
        }
    }

    /// Tells the others how far this process has brought the shard.
    pub(super) fn tell_others(&self, shard: &Shard) {
        if shard.telling.swap(true, Ordering::Relaxed) {
            return;
        }
        let (client, number, mut own) = (self.client.clone(), shard.number, shard.own.subscribe());
        own.mark_changed();
        tokio::spawn(async move {
            while own.changed().await.is_ok() {
                let sequence = *own.borrow_and_update();
                // A hint that gets lost only delays.
                let _ = client.publish(hints(number), sequence.to_string().into()).await;
                sleep(HINT_EVERY).await;
            }
        });
    }

    /// Takes in what others store in a shard from now on, without anybody asking.
    pub(super) fn follow_hints(self: &Arc<Self>, shard: &Shard) {
        if !shard.following.swap(true, Ordering::Relaxed) {
            tokio::spawn(follow(Arc::downgrade(self), shard.number));
        }
    }

    pub(super) async fn wait_for_more(self: &Arc<Self>, shard: &Shard, sequence: u64) {
        let mut head = shard.heads();
        self.follow_hints(shard);
        // Either there is more or the time is over; the caller cannot tell the difference and need not.
        let _ = timeout(WAIT_MAX, head.wait_for(|head| *head > sequence)).await;
    }
}

/// Follows hints, and looks at the log, for as long as the journal exists.
async fn follow(journal: Weak<Inner>, shard: u16) {
    let mut heard: Option<Subscriber> = None;
    let mut next_look = Instant::now();
    loop {
        let hint = timeout_at(next_look, next_hint(&mut heard)).await;
        let Some(inner) = journal.upgrade() else { return };
        let Some(shard) = inner.shards.get(usize::from(shard)) else { return };
        if heard.is_none() {
            heard = inner.client.subscribe(hints(shard.number)).await.ok();
        }
        match hint {
            Ok(Some(hint)) if hint > shard.end().commit => {
                shard.hinted.send_replace(hint);
            }
            Ok(_) => continue,
            Err(_) => {}
        }
        next_look = Instant::now() + LOOK_EVERY;
        match inner.look(shard).await {
            // Whatever was told: this is how far it goes.
            Ok(()) => drop(shard.hinted.send_replace(0)),
            // What cannot be read now is looked at again.
            Err(error) => debug!(shard = shard.number, %error, "a log cannot be followed"),
        }
        // However many hints there are.
        sleep(HINT_EVERY).await;
    }
}

/// The next hint; `None` for one that cannot be read. Without a subscription none comes.
async fn next_hint(heard: &mut Option<Subscriber>) -> Option<u64> {
    match heard {
        Some(subscriber) => match subscriber.next().await {
            Some(message) => str::from_utf8(&message.payload).ok()?.parse().ok(),
            None => {
                *heard = None;
                None
            }
        },
        None => pending().await,
    }
}
