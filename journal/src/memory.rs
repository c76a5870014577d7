//! The journal in memory, with the semantics of the real one: for the simulation and for tests.
//!
//! Deterministic: nothing depends on anything but the order of calls, and on the clock that is passed in. Stored
//! commits go through the same envelope and the same limits as on JetStream, so hashes are equal for equal commits.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use chrono::Utc;
use tokio::{sync::watch, time::timeout};

use events::{CommitId, Epochs, Hash32, StreamId, time::Timestamp};

use super::{
    AppendError, Commit, ReadError, Recorded, ShardLeases, ShardLog, ShardWorker, StreamStore, WakeUp,
    envelope::EncodedCommit,
    stream_moved::{holds_mark, mark},
    successor::successor,
};

/// Longest wait for a commit that does not come.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// A fault of the next append, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The commit is stored, but the caller is told [`AppendError::Unknown`].
    LoseAcknowledgement,
    /// Nothing is stored and the caller is told [`AppendError::Unavailable`].
    Unavailable,
}

/// The journal in memory. Clones share the same streams, as connections to one server do.
#[derive(Clone)]
pub struct MemoryJournal(Arc<Inner>);

struct Inner {
    epochs: watch::Sender<Epochs>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    state: Mutex<State>,
    /// Counts changes, for those who wait.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// Without the marks.
    streams: HashMap<StreamId, Vec<Recorded>>,
    /// Where a mark keeps a stream from beginning.
    closed: HashSet<(u16, StreamId)>,
    /// Shards that are sealed, of epochs of which others may not be.
    sealed: HashSet<u16>,
    shards: HashMap<u16, Shard>,
    faults: VecDeque<Fault>,
    workers: u64,
}

#[derive(Default)]
struct Shard {
    log: Vec<Recorded>,
    /// Workers in the order in which they own the shard; the first does now.
    workers: VecDeque<u64>,
    /// Counts the changes of the owner.
    term: u64,
}

impl MemoryJournal {
    /// An empty journal with `shards` shards, at least one, stamping commits with the system's time.
    pub fn new(shards: u16) -> Self {
        Self::with_clock(shards, Utc::now)
    }

    /// An empty journal with `shards` shards, at least one, stamping commits with the time that `clock` tells.
    pub fn with_clock(shards: u16, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let (epochs, state) = (watch::Sender::new(Epochs::one(shards)), Mutex::default());
        Self(Arc::new(Inner { epochs, clock: Box::new(clock), state, changes: watch::Sender::new(0) }))
    }

    /// Begins an epoch of `shards` shards, at least one.
    pub fn rotate(&self, shards: u16) {
        // Held, so that no stream begins in an epoch that is over.
        let _state = self.0.lock();
        self.0.epochs.send_modify(|epochs| *epochs = epochs.followed_by(shards));
    }

    /// Seals the epoch of this number: its shards take nothing any more. The current one stays open.
    pub fn seal(&self, epoch: u16) {
        let _state = self.0.lock();
        self.0.epochs.send_modify(|epochs| *epochs = epochs.with_sealed(epoch));
    }

    /// Seals one shard, as of an epoch whose sealing ended half-way.
    pub fn seal_shard(&self, shard: u16) {
        self.0.lock().sealed.insert(shard);
    }

    /// The shard in which the stream lies, once it has begun.
    pub fn shard_of(&self, stream_id: &StreamId) -> Option<u16> {
        let state = self.0.lock();
        state.streams.get(stream_id)?.first().map(|first| first.position.shard)
    }

    /// Appends as a process does that knows of no later epochs than `known`. Where it finds that the stream cannot begin there any
    /// more, it learns of the rest.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub fn append_knowing(&self, commit: &Commit, known: &Epochs) -> Result<Recorded, AppendError> {
        self.0.store(commit, Some(known))
    }

    /// Makes the next append that is not yet spoken for fail in this way.
    pub fn inject(&self, fault: Fault) {
        self.0.lock().faults.push_back(fault);
    }

    /// Takes the shard away from the worker that owns it, as a lease that ran out does; it competes again behind the
    /// others.
    pub fn expire(&self, shard: u16) {
        let mut state = self.0.lock();
        let shard = state.shards.entry(shard).or_default();
        if let Some(owner) = shard.workers.pop_front() {
            shard.workers.push_back(owner);
            shard.term += 1;
        }
        drop(state);
        self.0.changed();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    fn store(&self, commit: &Commit, known: Option<&Epochs>) -> Result<Recorded, AppendError> {
        if holds_mark(commit) {
            return Err(AppendError::Unacceptable("marks are the journal's own".into()));
        }
        let mut state = self.lock();
        let epochs = self.epochs.borrow().clone();
        let is_sealed = |state: &State, shard| epochs.is_sealed(shard) || state.sealed.contains(&shard);
        let begins_in = |known: &&Epochs| known.current().shard_of(&commit.stream_id);
        let is_free = |shard| !is_sealed(&state, shard) && !state.closed.contains(&(shard, commit.stream_id.clone()));
        let known = known.filter(|known| is_free(begins_in(known))).unwrap_or(&epochs);
        let stream = state.streams.get(&commit.stream_id).map_or(&[][..], Vec::as_slice);
        let begun = stream.first().map(|first| first.position.shard);
        let shard = begun.unwrap_or_else(|| begins_in(&known));
        let encoded = encode(commit, shard)?;
        let successor = successor(stream, commit, &encoded);
        let fault = state.faults.pop_front();
        if fault == Some(Fault::Unavailable) {
            return Err(AppendError::Unavailable("injected fault".into()));
        }
        let recorded = match successor? {
            Some(stored) => stored,
            None if is_sealed(&state, shard) => {
                return Err(AppendError::Unacceptable(format!("shard {shard} is sealed")));
            }
            None => {
                let now = (self.clock)();
                if begun.is_none() {
                    state.close_older(commit, known, &epochs, now)?;
                }
                let recorded = state.log(commit, &encoded, now);
                state.streams.entry(commit.stream_id.clone()).or_default().push(recorded.clone());
                recorded
            }
        };
        drop(state);
        self.changed();
        match fault {
            Some(Fault::LoseAcknowledgement) => Err(AppendError::Unknown("injected fault".into())),
            _ => Ok(recorded),
        }
    }
}

impl State {
    /// Leaves marks where others could still begin the stream, as JetStream's journal does.
    fn close_older(
        &mut self,
        opening: &Commit,
        known: &Epochs,
        epochs: &Epochs,
        now: Timestamp,
    ) -> Result<(), AppendError> {
        for epoch in known.older() {
            let shard = epoch.shard_of(&opening.stream_id);
            if epochs.is_sealed(shard) || self.sealed.contains(&shard) {
                continue;
            }
            if self.closed.insert((shard, opening.stream_id.clone())) {
                let id = Hash32::sha256(format!("{}\n{shard}", opening.commit_id));
                let mark = mark(opening, known.current().number, CommitId::from_stored(id.to_string()));
                self.log(&mark, &encode(&mark, shard)?, now);
            }
        }
        Ok(())
    }

    fn log(&mut self, commit: &Commit, encoded: &EncodedCommit, now: Timestamp) -> Recorded {
        let log = &mut self.shards.entry(encoded.shard).or_default().log;
        let recorded = encoded.recorded(commit, log.len() as u64 + 1, now);
        log.push(recorded.clone());
        recorded
    }
}

fn encode(commit: &Commit, shard: u16) -> Result<EncodedCommit, AppendError> {
    EncodedCommit::new(commit, shard).map_err(|error| AppendError::Unacceptable(error.to_string()))
}

#[async_trait]
impl StreamStore for MemoryJournal {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        self.0.store(commit, None)
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        Ok(self.0.lock().streams.get(stream_id).cloned().unwrap_or_default())
    }
}

#[async_trait]
impl ShardLog for MemoryJournal {
    fn epochs(&self) -> Epochs {
        self.0.epochs.borrow().clone()
    }

    async fn grown(&self, shards: u16) {
        // The sender lives as long as the journal.
        let _ = self.0.epochs.subscribe().wait_for(|epochs| epochs.shards() > shards).await;
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        let state = self.0.lock();
        let Some(shard) = state.shards.get(&shard) else { return Ok(Vec::new()) };
        // Sequence n lies at index n − 1.
        let skip = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX);
        Ok(shard.log.iter().skip(skip).take(limit).cloned().collect())
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        Ok(self.0.lock().shards.get(&shard).map_or(0, |shard| shard.log.len() as u64))
    }

    fn known_head(&self, shard: u16) -> Option<u64> {
        Some(self.0.lock().shards.get(&shard).map_or(0, |shard| shard.log.len() as u64))
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        let mut changes = self.0.changes.subscribe();
        let beyond = async {
            while self.head(shard).await? <= sequence {
                // The sender lives as long as the journal.
                let _ = changes.changed().await;
            }
            Ok(())
        };
        timeout(WAIT_MAX, beyond).await.unwrap_or(Ok(()))
    }
}

#[async_trait]
impl ShardLeases for MemoryJournal {
    async fn work(&self, shard: u16, _owner: &str) -> Box<dyn ShardWorker> {
        let mut state = self.0.lock();
        state.workers += 1;
        let id = state.workers;
        state.shards.entry(shard).or_default().workers.push_back(id);
        drop(state);
        self.0.changed();
        Box::new(Worker { journal: self.0.clone(), shard, id, held: None, next: 0 })
    }
}

struct Worker {
    journal: Arc<Inner>,
    shard: u16,
    id: u64,
    /// The lease term in which it owns the shard.
    held: Option<u64>,
    /// Index of the next commit to wake up for.
    next: usize,
}

impl Worker {
    fn poll(&mut self) -> Option<WakeUp> {
        let state = self.journal.lock();
        let shard = state.shards.get(&self.shard)?;
        let owns = shard.workers.front() == Some(&self.id);
        match self.held {
            Some(term) if !owns || term != shard.term => {
                self.held = None;
                Some(WakeUp::Lost)
            }
            Some(_) => {
                // A mark wakes nobody: the stream begins in another shard, whose worker is woken.
                let mut rest = shard.log[self.next..].iter();
                let commit = rest.find(|commit| !commit.is_moved());
                self.next = shard.log.len() - rest.len();
                let Recorded { stream_id, position, .. } = commit?;
                Some(WakeUp::Event { stream_id: stream_id.clone(), sequence: position.sequence })
            }
            None if owns => {
                self.held = Some(shard.term);
                self.next = shard.log.len();
                Some(WakeUp::Acquired)
            }
            None => None,
        }
    }
}

#[async_trait]
impl ShardWorker for Worker {
    async fn next(&mut self) -> Result<WakeUp, ReadError> {
        let mut changes = self.journal.changes.subscribe();
        loop {
            if let Some(wake_up) = self.poll() {
                return Ok(wake_up);
            }
            // The sender lives as long as the journal.
            let _ = changes.changed().await;
        }
    }

    async fn release(self: Box<Self>) {
        // Dropping gives the shard up.
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let mut state = self.journal.lock();
        if let Some(shard) = state.shards.get_mut(&self.shard) {
            if shard.workers.front() == Some(&self.id) {
                shard.term += 1;
            }
            shard.workers.retain(|id| *id != self.id);
        }
        drop(state);
        self.journal.changed();
    }
}
