//! Reading: one payment or batch, or a shard in order.

use std::{pin::pin, time::Duration};

use async_nats::Client;
use tokio::time::{Instant, sleep};

use events::{StreamId, mutant};
use journal::{
    ReadError, Recorded,
    envelope::{self, Chain, Envelope},
};

use super::Inner;
use crate::requests::{self, BatchRequest, Pick, Stored, consumer::Delivered};

/// Most messages one Direct Get asks for.
const BATCH_MESSAGES: usize = 512;
/// Most bytes one Direct Get asks for; with [`BATCH_MESSAGES`] it bounds what is on its way at a time.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// How long a connection for reading may be silent about a head before the first one is asked, too.
const HEDGE_AFTER: Duration = Duration::from_millis(250);
const RETRY_PAUSE: Duration = Duration::from_millis(25);
/// Looks after which a message that the server counts and does not find is taken for damaged.
const DAMAGED_LOOKS: usize = 4;
/// Most messages read one by one from the leader when a replica is behind it.
const LEADER_READS_MAX: usize = 64;

fn unavailable(reason: String) -> ReadError {
    ReadError::Unavailable(reason)
}

fn unreadable(shard: u16, message: &Stored, reason: &envelope::Error) -> ReadError {
    let (sequence, subject) = (message.sequence, Some(message.subject.clone()));
    ReadError::Unreadable { shard, sequence, subject, reason: reason.to_string() }
}

fn open(shard: u16, stored: &Stored) -> Result<Recorded, ReadError> {
    stored.open(shard).map_err(|error| unreadable(shard, stored, &error))
}

/// The commits that the messages of one subject are, each the successor of the one before.
fn chain(shard: u16, stored: &[Stored]) -> Result<Vec<Recorded>, ReadError> {
    let mut chain = Chain::default();
    let mut commits = Vec::with_capacity(stored.len());
    for message in stored {
        let commit = open(shard, message)?;
        chain.follow(&commit).map_err(|error| unreadable(shard, message, &error))?;
        if commit.is_moved() && stored.len() > 1 {
            let error = envelope::Error::Chain("a mark beside commits".to_owned());
            return Err(unreadable(shard, message, &error));
        }
        commits.push(commit);
    }
    Ok(commits)
}

impl Inner {
    /// Runs `read` until it succeeds, the stored data is at fault, or the read time-out has passed.
    async fn retrying<T, F>(&self, shard: u16, read: impl FnMut() -> F) -> Result<T, ReadError>
    where
        F: Future<Output = Result<T, ReadError>>,
    {
        self.retrying_connected(|| self.reader(shard), self.options.read_timeout, read).await
    }

    /// As [`Inner::retrying`], giving up when there is no connection within `connection_wait`.
    async fn retrying_connected<'a, T, F>(
        &'a self,
        client: impl Fn() -> &'a Client,
        connection_wait: Duration,
        mut read: impl FnMut() -> F,
    ) -> Result<T, ReadError>
    where
        F: Future<Output = Result<T, ReadError>>,
    {
        let deadline = Instant::now() + self.options.read_timeout;
        loop {
            let connected_by = deadline.min(Instant::now() + connection_wait);
            // Which one is asked may change with each look.
            while !requests::connected(client()) {
                if Instant::now() >= connected_by {
                    return Err(ReadError::Unavailable("no connection".into()));
                }
                sleep(RETRY_PAUSE).await;
            }
            match read().await {
                Err(ReadError::Unavailable(_)) if Instant::now() + RETRY_PAUSE < deadline => sleep(RETRY_PAUSE).await,
                other => return other,
            }
        }
    }

    pub(super) async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        let mut since = Instant::now();
        loop {
            let epochs = self.known.all();
            let mut moved_to = 0;
            // A stream never changes its shard, so one that is in none of them was in none when this began.
            for shard in epochs.shards_of(stream_id) {
                let subject = envelope::subject(shard, stream_id);
                let read = || self.stored_of(shard, &subject);
                let wait_max = self.options.unstored_timeout;
                let stored = self.retrying_connected(|| self.reader(shard), wait_max, read).await?;
                let commits = chain(shard, &stored)?;
                match commits.first().map(Recorded::moved_to) {
                    None => {}
                    Some(Some(epoch)) => moved_to = moved_to.max(epoch),
                    Some(None) => return Ok(commits),
                }
            }
            // It may have begun in an epoch that another process has begun.
            let look = || {
                // A look that failed says nothing to who tries again.
                let asked = std::mem::replace(&mut since, Instant::now());
                async move { self.look(asked).await.map_err(unavailable) }
            };
            self.retrying_connected(|| &self.client, self.options.unstored_timeout, look).await?;
            let now = self.known.all();
            if now.all().len() == epochs.all().len() {
                if moved_to > now.current().number {
                    return Err(ReadError::Unavailable(format!("epoch {moved_to} is not there yet")));
                }
                return Ok(Vec::new());
            }
        }
    }

    /// All messages of a subject up to what the leader holds now.
    async fn stored_of(&self, shard: u16, subject: &str) -> Result<Vec<Stored>, ReadError> {
        let stream = envelope::stream(shard);
        let client = self.reader(shard);
        let Some(tail) = self.tail(client, &stream, subject).await? else {
            return self.require_whole(client, shard, subject, Vec::new()).await;
        };
        // Whoever is told of it is told of no less by this process later.
        self.head_cache.note(shard, tail.sequence);
        // The tail says how many there are; a tail that says nothing of the kind is reported when it is opened.
        let version =
            Envelope::read(&tail.subject, tail.header_pairs()).map_or(BATCH_MESSAGES as u64, |tail| tail.version);
        let batch = usize::try_from(version).unwrap_or(BATCH_MESSAGES).clamp(1, BATCH_MESSAGES);
        let mut messages: Vec<Stored> = Vec::new();
        let (mut from, mut pending) = (1, 1);
        // What a copy has beyond the tail is acknowledged, too, and what it counts it has to give.
        while pending > 0 {
            let request = BatchRequest { seq: from, subject: Some(subject), batch, max_bytes: BATCH_BYTES };
            let read = requests::direct_batch_counted(client, &stream, &request, self.options.attempt_timeout).await;
            let read = read.map_err(unavailable)?;
            let Some(last) = read.messages.last() else { break };
            (from, pending) = (last.sequence + 1, read.pending);
            messages.extend(read.messages);
        }
        self.catch_up(client, &stream, subject, &mut messages, tail).await?;
        if pending > 0 {
            messages = self.require_whole(client, shard, subject, messages).await?;
        }
        if let Some(last) = messages.last() {
            self.head_cache.note(shard, last.sequence);
        }
        Ok(messages)
    }

    /// `found`, where it is all that there is of a subject, or what the leader has. A message that is damaged on its disk a server
    /// finds no more, and answers as if it had never been; but it goes on counting it. Without this a payment whose last
    /// commit is damaged would not exist, or would be in an earlier state.
    ///
    /// # Errors
    /// [`ReadError::Unreadable`] when the leader itself does not find what it counts: the damage of one replica is nobody's loss.
    async fn require_whole(
        &self,
        client: &Client,
        shard: u16,
        subject: &str,
        mut found: Vec<Stored>,
    ) -> Result<Vec<Stored>, ReadError> {
        let (stream, timeout) = (envelope::stream(shard), self.options.attempt_timeout);
        let mut counted = 0;
        // A leader that was elected a moment ago may not know its newest commits yet, so one look proves nothing.
        for look in 0..DAMAGED_LOOKS {
            counted = requests::count_of(client, &stream, subject, timeout).await.map_err(unavailable)?;
            if counted <= found.len() as u64 {
                return if look == 0 {
                    Ok(found)
                } else {
                    Err(ReadError::Unavailable("the leader has changed".into()))
                };
            }
            if self.read_only {
                return Err(ReadError::Unavailable("a replica is behind, or a message of it is damaged".into()));
            }
            found = self.all_of_leader(client, &stream, subject, counted).await?;
            if found.len() as u64 >= counted {
                return Ok(found);
            }
            sleep(RETRY_PAUSE).await;
        }
        let reason = format!("the server counts {counted} messages, and finds {}: it lost one", found.len());
        Err(ReadError::Unreadable { shard, sequence: 0, subject: Some(subject.to_owned()), reason })
    }

    /// The messages of a subject that the leader finds, `max` at most.
    async fn all_of_leader(
        &self,
        client: &Client,
        stream: &str,
        subject: &str,
        max: u64,
    ) -> Result<Vec<Stored>, ReadError> {
        let (mut found, mut from) = (Vec::new(), 1);
        for _ in 0..max {
            let pick = Pick::Next { from, subject };
            let next = requests::leader_get(client, stream, &pick, self.options.attempt_timeout).await;
            let Some(next) = next.map_err(unavailable)? else { break };
            from = next.sequence + 1;
            found.push(next);
        }
        Ok(found)
    }

    /// The last message of a subject: through the leader, who sees every acknowledged append. An auditor has no right
    /// to ask the leader and takes what a replica holds.
    async fn tail(&self, client: &Client, stream: &str, subject: &str) -> Result<Option<Stored>, ReadError> {
        let timeout = self.options.attempt_timeout;
        if !self.read_only {
            let last = requests::leader_get(client, stream, &Pick::Last { subject }, timeout).await;
            return last.map_err(unavailable);
        }
        requests::direct_last(client, stream, subject, timeout).await.map_err(unavailable)
    }

    /// Reads from the leader what the replica that answered does not have yet.
    async fn catch_up(
        &self,
        client: &Client,
        stream: &str,
        subject: &str,
        messages: &mut Vec<Stored>,
        tail: Stored,
    ) -> Result<(), ReadError> {
        if mutant!("replica-is-level") {
            return Ok(());
        }
        for _ in 0..LEADER_READS_MAX {
            let at = messages.last().map_or(0, |message| message.sequence);
            if at >= tail.sequence {
                return Ok(());
            }
            if self.read_only {
                return Err(ReadError::Unavailable("a replica is behind".into()));
            }
            let next = Pick::Next { from: at + 1, subject };
            let next = requests::leader_get(client, stream, &next, self.options.attempt_timeout).await;
            match next.map_err(unavailable)? {
                Some(next) if next.sequence > at => messages.push(next),
                _ => return Err(ReadError::Unavailable("the leader has changed".into())),
            }
        }
        Err(ReadError::Unavailable("a replica is far behind".into()))
    }

    pub(super) async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        let mut commits = Vec::with_capacity(limit.min(BATCH_MESSAGES));
        let mut next = from.max(1);
        while commits.len() < limit {
            let batch = (limit - commits.len()).min(BATCH_MESSAGES);
            let read = match self.scan(shard, next, batch).await {
                Some(read) => read,
                None => self.direct_page(shard, next, batch, limit).await?,
            };
            for message in &read.messages {
                if message.sequence != next {
                    return Err(self.gap(shard, next).await);
                }
                commits.push(open(shard, message)?);
                next += 1;
            }
            if read.ended {
                break;
            }
        }
        Ok(commits)
    }

    /// Messages from `from` on by Direct Get, up to `batch`, of whoever wants `wanted` in all.
    async fn direct_page(&self, shard: u16, from: u64, batch: usize, wanted: usize) -> Result<Delivered, ReadError> {
        let stream = envelope::stream(shard);
        let request = BatchRequest { seq: from, subject: None, batch, max_bytes: BATCH_BYTES };
        let timeout = self.options.attempt_timeout;
        let read = || async {
            requests::direct_batch(self.reader(shard), &stream, &request, timeout).await.map_err(unavailable)
        };
        let messages = self.retrying(shard, read).await?;
        // Only who finds a full page is behind, and likely to go on at once: in a cluster a consumer costs all servers a
        // vote, so one who follows what is new makes none.
        let bytes: usize = messages.iter().map(|message| message.body.len()).sum();
        let is_full = messages.len() == batch || bytes > BATCH_BYTES / 2;
        if let Some(last) = messages.last().filter(|_| is_full) {
            self.expect_scan(shard, last.sequence + 1, wanted).await;
        }
        // Fewer than were asked for may be all that fits into the bytes.
        Ok(Delivered { ended: messages.is_empty(), messages })
    }

    /// Nothing is ever taken out of these streams, so a sequence that is passed over is either not yet at the replica
    /// that answered, or lost.
    async fn gap(&self, shard: u16, sequence: u64) -> ReadError {
        let stream = envelope::stream(shard);
        if self.read_only {
            let reason = "the message is missing".into();
            return ReadError::Unreadable { shard, sequence, subject: None, reason };
        }
        let timeout = self.options.attempt_timeout;
        match requests::leader_get(self.reader(shard), &stream, &Pick::At { seq: sequence }, timeout).await {
            Ok(None) => {
                let reason = "the message is missing".into();
                ReadError::Unreadable { shard, sequence, subject: None, reason }
            }
            Ok(Some(_)) => ReadError::Unavailable("a replica is behind".into()),
            Err(reason) => ReadError::Unavailable(reason),
        }
    }

    pub(super) async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        let stream = envelope::stream(shard);
        let timeout = self.options.attempt_timeout;
        let read = || async {
            let mut own = pin!(requests::last_sequence(self.reader(shard), &stream, timeout));
            let head = match tokio::time::timeout(HEDGE_AFTER, &mut own).await {
                Ok(head) => head,
                // A connection whose server hangs is not lost for seconds, and appends may go on over the first.
                Err(_) => tokio::select! {
                    Ok(head) = &mut own => Ok(head),
                    head = requests::last_sequence(&self.client, &stream, timeout) => head,
                },
            };
            head.map_err(unavailable)
        };
        let head = self.retrying(shard, read).await?;
        self.head_cache.note(shard, head);
        Ok(head)
    }
}
