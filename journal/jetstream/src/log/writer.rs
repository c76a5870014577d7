//! Writing: all commits that wait in a shard go into one segment, while the next ones gather.
//!
//! A segment is stored on condition of the message before it (`Nats-Expected-Last-Sequence`), so it is stored only by who
//! has taken in the whole log up to there. That is the fence: whatever a process believes of itself, what it stores follows
//! what is stored. An acknowledgement that says something else, or does not come, is resolved by reading what lies behind
//! the message before. As nothing is ever taken out of a log, no segment can come into a place that is filled.

use std::{pin::pin, sync::Arc, time::Duration};

use chrono::Utc;
use tokio::{
    sync::{SemaphorePermit, oneshot},
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tracing::debug;

use journal::{
    AppendError, Commit, Recorded, StreamStore, envelope::EncodedCommit, stream_moved::holds_mark, successor::successor,
};

use super::{
    Inner, LogJournal,
    queue::{Outcome, Waiting},
    segment,
    shard::{Planned, Shard},
};
use crate::requests::{self, Published};

/// First pause before a segment goes again; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(400);
/// How long a segment without an answer keeps other shards waiting. Its answer may have been lost with a connection.
const KEEPS_WAITING_MAX: Duration = Duration::from_millis(250);
/// Least time from one segment to the next in its place in flight, while several commits share one: more share the next.
const GATHER: Duration = Duration::from_millis(2);
/// Commits of a segment that others are gathered after.
const SHARED_MIN: usize = 4;
/// How long a segment without an answer is waited for which the leader does not have.
const LOST_AFTER: Duration = Duration::from_millis(500);

impl LogJournal {
    pub(super) async fn append_commit(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        let inner = &self.0;
        if holds_mark(commit) {
            return Err(AppendError::Unacceptable("marks are the journal's own".into()));
        }
        let shard = inner.shard_of(&commit.stream_id);
        if commit.expected.version > 0 && commit.expected.shard != shard.number {
            return Err(AppendError::Unacceptable("its position never existed".into()));
        }
        let encoded = EncodedCommit::new(commit, shard.number);
        let encoded = Arc::new(encoded.map_err(|error| AppendError::Unacceptable(error.to_string()))?);
        match inner.write(shard, commit, &encoded).await {
            Outcome::Stored { sequence } => Ok(encoded.recorded(commit, sequence, Utc::now())),
            Outcome::DoesNotFollow => {
                let stream = self.load(&commit.stream_id).await;
                // A first attempt of somebody's may have stored it.
                let stream = stream.map_err(|error| AppendError::Unknown(error.to_string()))?;
                successor(&stream, commit, &encoded)?
                    .ok_or_else(|| AppendError::Unavailable("what it follows was not there yet".into()))
            }
            Outcome::NotStored(reason) => Err(AppendError::Unavailable(reason)),
            Outcome::Unacceptable(reason) => Err(AppendError::Unacceptable(reason)),
            Outcome::Unknown(reason) => Err(AppendError::Unknown(reason)),
        }
    }
}

impl Inner {
    /// Has a commit written, together with others, and waits for what becomes of it.
    async fn write(self: &Arc<Self>, shard: &Shard, commit: &Commit, encoded: &Arc<EncodedCommit>) -> Outcome {
        let started = Instant::now();
        let deadline = started + self.options.append_timeout;
        let unstored = deadline.min(started + self.options.unstored_timeout);
        let (outcome, told) = oneshot::channel();
        let mut told = pin!(told);
        let number = {
            let mut queue = shard.queue();
            let number = queue.next_number();
            let is_first = queue.push(Waiting {
                number,
                stream_id: commit.stream_id.clone(),
                expected: commit.expected,
                encoded: Arc::clone(encoded),
                unstored,
                deadline,
                unclear_behind: None,
                outcome,
            });
            if is_first {
                tokio::spawn(Arc::clone(self).write_all(shard.number));
            }
            number
        };
        let ended = |_| Outcome::Unknown("not acknowledged".into());
        match timeout_at(unstored, &mut told).await {
            Ok(outcome) => outcome.unwrap_or_else(ended),
            Err(_) if shard.queue().forget(number) => Outcome::NotStored("its turn did not come in time".into()),
            // Who writes it tells, and a little later than it gives up itself.
            Err(_) => match timeout_at(deadline + PAUSE_MAX, told).await {
                Ok(outcome) => outcome.unwrap_or_else(ended),
                Err(_) => Outcome::Unknown("not acknowledged in time".into()),
            },
        }
    }

    /// Writes what waits in a shard until nothing does.
    async fn write_all(self: Arc<Self>, shard: u16) {
        let Some(shard) = self.shards.get(usize::from(shard)) else { return };
        let mut writing = Writing { shard, is_over: false };
        let mut batch = Vec::new();
        let mut pause = PAUSE_MIN;
        loop {
            // It is never closed. Meanwhile more commits gather.
            let Ok(permit) = self.in_flight.acquire().await else { return };
            let begun = Instant::now();
            if !shard.queue().take(&mut batch) {
                writing.is_over = true;
                return;
            }
            // An append whose caller gave up is not sent.
            batch.retain(|one| !one.outcome.is_closed());
            let Some(planned) = shard.plan(&mut batch) else { continue };
            let (place, commits) = (planned.segment.message, planned.chosen.len());
            let number = shard.looks.begin();
            match self.publish(shard, planned, permit).await {
                Ok((planned, permit)) => {
                    shard.stored(planned);
                    // Nothing else was stored before it: that was a look at the end, too.
                    shard.looks.over(number, &Ok(()));
                    self.tell_others(shard);
                    pause = PAUSE_MIN;
                    if commits >= SHARED_MIN {
                        sleep_until(begun + GATHER).await;
                    }
                    drop(permit);
                }
                Err((reason, chosen)) => {
                    debug!(shard = shard.number, reason, "a segment is not acknowledged");
                    // What cannot be read now is looked at again.
                    drop(self.look_now(shard).await);
                    batch.splice(..0, chosen);
                    batch = give_up(shard, batch, &reason);
                    if shard.end().message >= place {
                        // Somebody else was faster: at once again.
                        pause = PAUSE_MIN;
                    } else {
                        sleep(pause).await;
                        pause = (pause * 2).min(PAUSE_MAX);
                    }
                }
            }
        }
    }

    /// Returns when the segment for the place `message` is not worth waiting for: something lies there, or the leader has
    /// nothing there after a time in which it should.
    async fn lost(&self, shard: &Shard, message: u64) -> &'static str {
        let started = Instant::now();
        loop {
            let looked = self.look_now(shard).await;
            if shard.end().message >= message {
                return "its place is filled";
            }
            if looked.is_ok() && started.elapsed() >= LOST_AFTER - KEEPS_WAITING_MAX {
                return "not acknowledged in time";
            }
            sleep(PAUSE_MAX / 4).await;
        }
    }

    /// Publishes a segment once. Where it is not known to be stored: why, and who waits for it.
    async fn publish<'a>(
        &self,
        shard: &Shard,
        planned: Planned,
        permit: SemaphorePermit<'a>,
    ) -> Result<(Planned, Option<SemaphorePermit<'a>>), (String, Vec<Waiting>)> {
        let mut permit = Some(permit);
        let Planned { segment, mut chosen } = planned;
        if !requests::connected(&self.client) {
            return Err(("no connection".into(), chosen));
        }
        let (subject, behind) = (segment::subject(shard.number), segment.message - 1);
        let within = self.options.attempt_timeout;
        let mut publish =
            pin!(requests::publish(&self.client, &subject, segment.headers(), segment.body.clone(), within));
        let published = match timeout(KEEPS_WAITING_MAX, &mut publish).await {
            Ok(published) => published,
            Err(_) => {
                permit.take();
                // It goes again behind the same message, so it is stored once at most.
                tokio::select! {
                    published = &mut publish => published,
                    why = self.lost(shard, segment.message) => Published::Unclear(why.to_owned()),
                }
            }
        };
        let (reason, is_unclear) = match published {
            Published::Stored { sequence } if sequence == segment.message => {
                return Ok((Planned { segment, chosen }, permit));
            }
            Published::Stored { sequence } => (format!("it is said to lie at {sequence}"), true),
            Published::Duplicate { .. } => ("the server takes it for a duplicate".to_owned(), true),
            Published::Unclear(reason) => (reason, true),
            Published::WrongSequence => ("something else lies in its place".to_owned(), false),
            Published::NotStored(reason) | Published::Sealed(reason) => (reason, false),
            Published::TooLarge(reason) => {
                if chosen.len() > 1 {
                    shard.shrink();
                } else if chosen.iter().all(|one| one.unclear_behind.is_none()) {
                    chosen.drain(..).for_each(|one| one.tell(Outcome::Unacceptable(reason.clone())));
                }
                (reason, false)
            }
        };
        if is_unclear {
            chosen.iter_mut().for_each(|one| one.unclear_behind = Some(behind));
        }
        Err((reason, chosen))
    }
}

/// That somebody writes in a shard; however it ends, another can begin.
struct Writing<'a> {
    shard: &'a Shard,
    /// It was told already that nobody writes any more.
    is_over: bool,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.shard.queue().stop();
        }
    }
}

/// Tells those whose time is over, after the log was looked at; the others go again.
fn give_up(shard: &Shard, chosen: Vec<Waiting>, reason: &str) -> Vec<Waiting> {
    let (end, now) = (shard.end(), Instant::now());
    let mut again = Vec::with_capacity(chosen.len());
    for mut one in chosen {
        // In a place that is filled nothing of it can come any more.
        one.unclear_behind = one.unclear_behind.filter(|behind| end.message <= *behind);
        match one.unclear_behind {
            None if now >= one.unstored => {
                // It may be what fills the place: then the next plan would say so.
                let mut only = vec![one];
                if let Some(planned) = shard.plan(&mut only) {
                    planned.chosen.into_iter().for_each(|one| one.tell(Outcome::NotStored(reason.to_owned())));
                }
            }
            Some(_) if now >= one.deadline => one.tell(Outcome::Unknown(reason.to_owned())),
            _ => again.push(one),
        }
    }
    again
}
