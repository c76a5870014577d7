//! A journal that can be told to fail.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use async_trait::async_trait;
use tokio::sync::watch;

use events::{
    CommitId, Epochs, Event, Hash32, PaymentId, StreamId,
    event::{Mark, Moved},
};
use journal::{
    AppendError, Commit, Position, ReadError, Recorded, ShardLeases, ShardLog, ShardWorker, StreamStore, envelope,
};

use super::at;

/// A journal of which the test is the only writer, and which can be made to fail.
pub struct Streams {
    epochs: watch::Sender<Epochs>,
    shards: Mutex<Vec<Shard>>,
    streams: Mutex<HashMap<StreamId, Stream>>,
    faults: Mutex<Faults>,
}

#[derive(Default)]
struct Shard {
    log: Vec<Recorded>,
    head: watch::Sender<u64>,
    /// Calls about it that were answered or refused so far.
    reads: u64,
}

#[derive(Clone, Copy)]
struct Stream {
    shard: u16,
    version: u64,
}

#[derive(Default)]
struct Faults {
    unavailable: bool,
    unreadable: Option<(u16, u64)>,
    /// Whether what is unreadable is so because it is not there.
    missing: bool,
    short_heads: u32,
    /// Nothing behind it is given out by replay.
    end: Option<u64>,
    replayed: u64,
    from_the_start: u64,
}

impl Faults {
    fn readable(&self, commits: &[Recorded]) -> Result<(), ReadError> {
        let Some((shard, sequence)) = self.unreadable else { return Ok(()) };
        let is_bad = |commit: &&Recorded| (commit.position.shard, commit.position.sequence) == (shard, sequence);
        let Some(bad) = commits.iter().find(is_bad) else { return Ok(()) };
        let subject = (!self.missing).then(|| envelope::subject(shard, &bad.stream_id));
        Err(ReadError::Unreadable { shard, sequence, subject, reason: "unknown event Mystery".to_owned() })
    }
}

impl Streams {
    pub fn new(shards: u16) -> Self {
        let epochs = Epochs::one(shards);
        Self {
            shards: Mutex::new((0..epochs.shards()).map(|_| Shard::default()).collect()),
            epochs: watch::Sender::new(epochs),
            streams: Mutex::default(),
            faults: Mutex::default(),
        }
    }

    /// Begins an epoch of `shards` shards.
    pub fn begin_epoch(&self, shards: u16) {
        let epochs = self.epochs.borrow().followed_by(shards);
        self.shards.lock().unwrap().resize_with(usize::from(epochs.shards()), Shard::default);
        self.epochs.send_replace(epochs);
    }

    /// Lets the shards of an epoch take nothing any more.
    pub fn seal_epoch(&self, number: u16) {
        let mut epochs = self.epochs.borrow().all().to_vec();
        epochs[usize::from(number)].sealed = true;
        self.epochs.send_replace(Epochs::new(epochs).unwrap());
    }

    /// Appends a commit and returns where it lies. A stream begins in the newest epoch and stays in its shard.
    pub fn push<E: Into<Event>>(&self, stream_id: impl Into<StreamId>, events: Vec<E>) -> (u16, u64) {
        let stream_id = stream_id.into();
        let mut streams = self.streams.lock().unwrap();
        let shard = self.epochs.borrow().current().shard_of(&stream_id);
        let stream = streams.entry(stream_id.clone()).or_insert(Stream { shard, version: 0 });
        stream.version += 1;
        let Stream { shard, version } = *stream;
        (shard, self.store(shard, version, stream_id, events.into_iter().map(Into::into).collect()))
    }

    /// Leaves a mark in `shard` that the stream begins in a later epoch, and returns where it lies.
    pub fn mark(&self, stream_id: impl Into<StreamId>, shard: u16) -> u64 {
        self.store(shard, 1, stream_id.into(), vec![Mark::Moved(Moved { to_epoch: 1 }).into()])
    }

    fn store(&self, shard: u16, version: u64, stream_id: StreamId, events: Vec<Event>) -> u64 {
        assert!(!self.epochs.borrow().is_sealed(shard));
        let mut shards = self.shards.lock().unwrap();
        let Shard { log, head, .. } = &mut shards[usize::from(shard)];
        let sequence = log.len() as u64 + 1;
        log.push(Recorded {
            stream_id,
            position: Position { shard, version, sequence, hash: Hash32::sha256(sequence.to_be_bytes()) },
            commit_id: CommitId::random(),
            prev: Hash32::ZERO,
            correlation: String::new(),
            causation: String::new(),
            stored_at: at(sequence),
            events,
        });
        head.send_replace(sequence);
        sequence
    }

    /// The shard in which the stream lies.
    pub fn shard_of(&self, stream_id: impl Into<StreamId>) -> Option<u16> {
        self.streams.lock().unwrap().get(&stream_id.into()).map(|stream| stream.shard)
    }

    pub fn commits_of(&self, stream_id: impl Into<StreamId>) -> Vec<Recorded> {
        let stream_id = stream_id.into();
        let Some(shard) = self.shard_of(stream_id.clone()) else { return Vec::new() };
        let shards = self.shards.lock().unwrap();
        let log = shards[usize::from(shard)].log.iter();
        log.filter(|recorded| recorded.stream_id == stream_id).cloned().collect()
    }

    pub fn streams(&self) -> Vec<StreamId> {
        self.streams.lock().unwrap().keys().cloned().collect()
    }

    pub fn payments(&self) -> Vec<PaymentId> {
        self.streams().iter().filter_map(StreamId::payment).cloned().collect()
    }

    pub fn head_of(&self, shard: u16) -> u64 {
        *self.shards.lock().unwrap()[usize::from(shard)].head.borrow()
    }

    /// Calls about the shard that were answered or refused so far.
    pub fn reads_of(&self, shard: u16) -> u64 {
        self.shards.lock().unwrap()[usize::from(shard)].reads
    }

    /// Replays of any shard from its first commit on, so far.
    pub fn replays_from_the_start(&self) -> u64 {
        self.faults.lock().unwrap().from_the_start
    }

    pub fn set_unavailable(&self, unavailable: bool) {
        self.faults.lock().unwrap().unavailable = unavailable;
    }

    pub fn set_unreadable(&self, shard: u16, sequence: u64) {
        self.faults.lock().unwrap().unreadable = Some((shard, sequence));
    }

    /// Makes the message readable that was not.
    pub fn set_readable(&self) {
        self.faults.lock().unwrap().unreadable = None;
    }

    /// Makes a message vanish.
    pub fn set_missing(&self, shard: u16, sequence: u64) {
        let mut faults = self.faults.lock().unwrap();
        (faults.unreadable, faults.missing) = (Some((shard, sequence)), true);
    }

    /// Lets replay give out nothing that lies behind this sequence of a shard.
    pub fn set_end(&self, end: Option<u64>) {
        self.faults.lock().unwrap().end = end;
    }

    /// Lets so many answers about a head say that the stream is empty.
    pub fn set_short_heads(&self, count: u32) {
        self.faults.lock().unwrap().short_heads = count;
    }

    /// Answers of that kind still to be given.
    pub fn short_heads(&self) -> u32 {
        self.faults.lock().unwrap().short_heads
    }

    /// Calls that were answered or refused so far.
    pub fn reads(&self) -> u64 {
        self.shards.lock().unwrap().iter().map(|shard| shard.reads).sum()
    }

    /// Commits that were given out by replay so far.
    pub fn replayed(&self) -> u64 {
        self.faults.lock().unwrap().replayed
    }

    fn read(&self, shard: u16) -> Result<(), ReadError> {
        self.shards.lock().unwrap()[usize::from(shard)].reads += 1;
        self.available()
    }

    fn available(&self) -> Result<(), ReadError> {
        let unavailable = self.faults.lock().unwrap().unavailable;
        if unavailable { Err(ReadError::Unavailable("switched off".to_owned())) } else { Ok(()) }
    }
}

#[async_trait]
impl StreamStore for Streams {
    async fn append(&self, _: &Commit) -> Result<Recorded, AppendError> {
        Err(AppendError::Unacceptable("the test writes with push".to_owned()))
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.available()?;
        let commits = self.commits_of(stream_id.clone());
        self.faults.lock().unwrap().readable(&commits)?;
        Ok(commits)
    }
}

#[async_trait]
impl ShardLog for Streams {
    fn epochs(&self) -> Epochs {
        self.epochs.borrow().clone()
    }

    async fn grown(&self, shards: u16) {
        self.epochs.subscribe().wait_for(|epochs| epochs.shards() > shards).await.unwrap();
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        self.faults.lock().unwrap().from_the_start += u64::from(from == 1);
        self.read(shard)?;
        let shards = self.shards.lock().unwrap();
        // Sequences are 1, 2, 3 and so on.
        let stream = shards[usize::from(shard)].log.iter().skip(from.saturating_sub(1) as usize);
        let mut page: Vec<Recorded> = stream.take(limit).cloned().collect();
        let mut faults = self.faults.lock().unwrap();
        page.retain(|recorded| faults.end.is_none_or(|end| recorded.position.sequence <= end));
        faults.readable(&page)?;
        faults.replayed += page.len() as u64;
        Ok(page)
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        self.read(shard)?;
        let mut faults = self.faults.lock().unwrap();
        if faults.short_heads > 0 {
            faults.short_heads -= 1;
            return Ok(0);
        }
        drop(faults);
        Ok(self.head_of(shard))
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        self.read(shard)?;
        let mut head = self.shards.lock().unwrap()[usize::from(shard)].head.subscribe();
        let beyond = head.wait_for(|head| *head > sequence);
        let _ = tokio::time::timeout(Duration::from_millis(50), beyond).await;
        Ok(())
    }
}

#[async_trait]
impl ShardLeases for Streams {
    async fn work(&self, _: u16, _: &str) -> Box<dyn ShardWorker> {
        unreachable!("projections do no work")
    }
}
