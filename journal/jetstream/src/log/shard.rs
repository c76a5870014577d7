//! What this process knows of a shard: how far its log goes, and the last commit of each stream in it.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::sync::{Notify, watch};
use tracing::error;

use events::{Hash32, StreamId};
use journal::{
    Position, ReadError,
    envelope::{self, EncodedCommit},
};

use super::{
    cache::Cache,
    queue::{Outcome, Queue, Waiting},
    segment::{Defect, End, Filling, Segment},
    tail::Tail,
};

/// Bytes of segments that are kept for a shard.
const CACHE_BYTES: usize = 8 * 1024 * 1024;
/// Most places of a shard's commits that are remembered.
const PLACES_MAX: usize = 256;
/// Most bytes of a segment with more than one commit.
const SEGMENT_BYTES_MAX: usize = 256 * 1024;

/// A shard, as far as this process knows it.
pub(super) struct Shard {
    pub number: u16,
    state: Mutex<State>,
    /// Sequence of the last commit that is known to be stored.
    head: watch::Sender<u64>,
    /// Highest sequence that another process told of.
    pub hinted: watch::Sender<u64>,
    /// Sequence of the last commit that this process stored.
    pub own: watch::Sender<u64>,
    queue: Mutex<Queue>,
    pub looks: Looks,
    /// Whether hints are followed.
    pub following: AtomicBool,
    /// Whether hints are given.
    pub telling: AtomicBool,
}

/// Looks at the end of the log, of which many can share one.
#[derive(Default)]
pub(super) struct Looks {
    pub one_at_a_time: tokio::sync::Mutex<()>,
    /// Looks that were begun.
    pub begun: AtomicU64,
    /// The last one that is over, and what was wrong with it.
    pub last: Mutex<(u64, Option<ReadError>)>,
    /// One is over.
    pub changed: Notify,
}

struct State {
    end: End,
    streams: HashMap<StreamId, Head>,
    cache: Cache,
    /// Sequences of commits, and the messages that begin with them or with what comes before.
    places: VecDeque<(u64, u64)>,
    /// Something is stored of which nobody can say to which stream it belongs.
    is_damaged: bool,
    tails: Vec<Weak<Tail>>,
    /// Most bytes of a segment with more than one commit.
    bytes_max: usize,
}

/// The last commit of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub version: u64,
    pub sequence: u64,
    pub hash: Hash32,
    /// The message that it lies in.
    pub message: u64,
    /// What is stored behind it does not follow it.
    pub is_broken: bool,
}

/// What becomes of a commit as the log is now.
enum Verdict {
    /// It follows what is stored. `before` is the message of the commit that it follows.
    Follows {
        before: u64,
    },
    /// It is the last commit of its stream.
    Stored {
        sequence: u64,
    },
    DoesNotFollow,
    Broken,
}

/// A segment that is to be stored, and those who wait for it.
pub(super) struct Planned {
    pub segment: Arc<Segment>,
    pub chosen: Vec<Waiting>,
}

impl Shard {
    pub(super) fn new(number: u16) -> Self {
        let state = State {
            end: End::default(),
            streams: HashMap::new(),
            cache: Cache::new(CACHE_BYTES),
            places: VecDeque::new(),
            is_damaged: false,
            tails: Vec::new(),
            bytes_max: SEGMENT_BYTES_MAX,
        };
        Self {
            number,
            state: Mutex::new(state),
            head: watch::Sender::new(0),
            hinted: watch::Sender::new(0),
            own: watch::Sender::new(0),
            queue: Mutex::default(),
            looks: Looks::default(),
            following: AtomicBool::new(false),
            telling: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is whole before the lock is let go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        // Every change is whole before the lock is let go.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end(&self) -> End {
        self.state().end
    }

    /// The last commit that is known to be stored, or that another process told of.
    pub(super) fn newest(&self) -> u64 {
        (*self.head.borrow()).max(*self.hinted.borrow())
    }

    pub(super) fn heads(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    pub(super) fn head_of(&self, stream_id: &StreamId) -> Option<Head> {
        self.state().streams.get(stream_id).copied()
    }

    pub(super) fn cached(&self, message: u64) -> Option<Arc<Segment>> {
        self.state().cache.get(message)
    }

    /// Remembers that the commit at `sequence` lies in `message` or behind it.
    pub(super) fn remember(&self, sequence: u64, message: u64) {
        let mut state = self.state();
        if state.places.len() >= PLACES_MAX {
            state.places.pop_front();
        }
        state.places.push_back((sequence, message));
    }

    /// A message in which the commit at `sequence` lies or behind which it does, and one before which it does.
    pub(super) fn place(&self, sequence: u64) -> (u64, u64) {
        let state = self.state();
        let below = state.places.iter().filter(|(at, _)| *at <= sequence).map(|(_, message)| *message).max();
        let above = state.places.iter().filter(|(at, _)| *at > sequence).map(|(_, message)| *message + 1).min();
        (below.unwrap_or(1), above.unwrap_or(state.end.message + 1))
    }

    /// The tail of the shard from now on, until it is dropped.
    pub(super) fn open_tail(&self) -> Arc<Tail> {
        let tail = Arc::new(Tail::default());
        let mut state = self.state();
        state.tails.retain(|tail| tail.strong_count() > 0);
        state.tails.push(Arc::downgrade(&tail));
        tail
    }

    /// Forgets what waits in a tail, and takes in again what comes; the sequence of the last commit before that.
    pub(super) fn restart(&self, tail: &Tail) -> u64 {
        let state = self.state();
        tail.clear();
        state.end.commit
    }

    /// Takes in what another process stored, or this one without hearing of it.
    ///
    /// # Errors
    /// When it is not what follows.
    pub(super) fn apply(&self, segment: &Arc<Segment>) -> Result<(), Defect> {
        let mut commits = Vec::new();
        let mut is_damaged = false;
        for ((subject, entry), sequence) in segment.entries().zip(segment.first..) {
            let stream_id = subject.and_then(|subject| envelope::stream_of(self.number, subject).ok());
            let read =
                entry.map(|entry| (Some((entry.before, entry.flat.prev())), entry.flat.version(), entry.flat.hash()));
            if let Err(defect) = &read {
                error!(shard = self.number, sequence, subject, %defect, "a stored commit is damaged");
            }
            match stream_id {
                Some(stream_id) => commits.push((stream_id, sequence, read.unwrap_or((None, 0, Hash32::ZERO)))),
                None => is_damaged = true,
            }
        }
        let mut state = self.state();
        if (segment.message, segment.first) != (state.end.message + 1, state.end.commit + 1) {
            return Err(Defect::Place);
        }
        state.is_damaged |= is_damaged;
        for (stream_id, sequence, (follows, version, hash)) in &commits {
            let before = state.streams.get(stream_id).copied();
            let (at, end) = before.map_or((0, (0, Hash32::ZERO)), |head| (head.version, (head.message, head.hash)));
            let is_next = *follows == Some(end) && at.checked_add(1) == Some(*version);
            let is_broken = !is_next || before.is_some_and(|before| before.is_broken);
            if is_broken {
                error!(shard = self.number, sequence, %stream_id, "a stored commit does not follow the one before it");
            }
            let head =
                Head { version: *version, sequence: *sequence, hash: *hash, message: segment.message, is_broken };
            state.streams.insert(stream_id.clone(), head);
        }
        let woken = commits.into_iter().map(|(stream_id, sequence, _)| (sequence, stream_id)).collect();
        state.grow(segment, woken);
        drop(state);
        self.rise(segment.end().commit);
        Ok(())
    }

    /// Passes over a message that is not a segment.
    pub(super) fn pass_over(&self, message: u64) {
        let mut state = self.state();
        if message == state.end.message + 1 {
            error!(shard = self.number, message, "a message in the log is not a segment");
            state.end.message = message;
        }
    }

    /// Whether something is stored of which nobody can say to which stream it belongs.
    pub(super) fn is_damaged(&self) -> bool {
        self.state().is_damaged
    }

    /// Chooses from `waiting` what the next segment has. Those of whom it is known already what becomes of them are told;
    /// the others stay.
    pub(super) fn plan(&self, waiting: &mut Vec<Waiting>) -> Option<Planned> {
        let state = self.state();
        let (mut filling, mut chosen, mut later) = (Filling::default(), Vec::new(), Vec::new());
        let mut streams: HashSet<StreamId> = HashSet::new();
        for one in waiting.drain(..) {
            let is_full = !filling.is_empty() && filling.bytes_with(&one.encoded) > state.bytes_max;
            match state.judge(&one) {
                Verdict::Follows { .. } if is_full || streams.contains(&one.stream_id) => later.push(one),
                Verdict::Follows { before } => {
                    filling.push(before, &one.encoded);
                    streams.insert(one.stream_id.clone());
                    chosen.push(one);
                }
                Verdict::Stored { sequence } => one.tell(Outcome::Stored { sequence }),
                Verdict::DoesNotFollow => one.tell(Outcome::DoesNotFollow),
                // What cannot be read may be this very commit.
                Verdict::Broken => one.tell(Outcome::Unknown("what is stored is damaged".into())),
            }
        }
        *waiting = later;
        (!chosen.is_empty()).then(|| Planned { segment: Arc::new(filling.seal(state.end)), chosen })
    }

    /// A planned segment is stored: takes it in, and tells who waits.
    pub(super) fn stored(&self, planned: Planned) {
        let Planned { segment, chosen } = planned;
        let mut state = self.state();
        // Another look may have taken it in already.
        if segment.message == state.end.message + 1 {
            let mut woken = Vec::with_capacity(chosen.len());
            for (one, sequence) in chosen.iter().zip(segment.first..) {
                let EncodedCommit { envelope, hash, .. } = &*one.encoded;
                let (version, hash, message) = (envelope.version, *hash, segment.message);
                let head = Head { version, sequence, hash, message, is_broken: false };
                state.streams.insert(one.stream_id.clone(), head);
                woken.push((sequence, one.stream_id.clone()));
            }
            state.grow(&segment, woken);
        }
        drop(state);
        let last = segment.end().commit;
        self.rise(last);
        self.own.send_if_modified(|own| mem::replace(own, last.max(*own)) < last);
        for (one, sequence) in chosen.into_iter().zip(segment.first..) {
            one.tell(Outcome::Stored { sequence });
        }
    }

    /// The server takes no segments of this size; from now on they are smaller.
    pub(super) fn shrink(&self) {
        self.state().bytes_max /= 2;
    }

    fn rise(&self, sequence: u64) {
        self.head.send_if_modified(|head| mem::replace(head, sequence.max(*head)) < sequence);
    }
}

impl State {
    /// The log has one more segment, with these commits.
    fn grow(&mut self, segment: &Arc<Segment>, woken: Vec<(u64, StreamId)>) {
        self.end = segment.end();
        self.cache.put(Arc::clone(segment));
        self.tails.retain(|tail| tail.strong_count() > 0);
        let tails: Vec<_> = self.tails.iter().filter_map(Weak::upgrade).collect();
        if let Some((last, others)) = tails.split_last() {
            others.iter().for_each(|tail| tail.push(woken.clone()));
            last.push(woken);
        }
    }

    fn judge(&self, one: &Waiting) -> Verdict {
        let Position { version, sequence, hash, .. } = one.expected;
        if self.is_damaged {
            return Verdict::Broken;
        }
        match self.streams.get(&one.stream_id) {
            None if version == 0 => Verdict::Follows { before: 0 },
            None => Verdict::DoesNotFollow,
            Some(head) if head.is_broken => Verdict::Broken,
            Some(head) if head.hash == one.encoded.hash => Verdict::Stored { sequence: head.sequence },
            Some(head) if (head.version, head.sequence, head.hash) == (version, sequence, hash) => {
                Verdict::Follows { before: head.message }
            }
            Some(_) => Verdict::DoesNotFollow,
        }
    }
}

impl Looks {
    /// The look that a caller who comes now has to see over.
    pub(super) fn wanted(&self) -> u64 {
        self.begun.load(Ordering::SeqCst) + 1
    }

    /// What came of a look that was begun as this number or later; `None` while none is over.
    pub(super) fn outcome(&self, wanted: u64) -> Option<Result<(), ReadError>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, fault) = &*last;
        (*number >= wanted).then(|| fault.as_ref().map_or(Ok(()), |fault| Err(copy_of(fault))))
    }

    /// A look begins: its number.
    pub(super) fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The look of this number is over.
    pub(super) fn over(&self, number: u64, outcome: &Result<(), ReadError>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if number > last.0 {
            *last = (number, outcome.as_ref().err().map(copy_of));
        }
        drop(last);
        self.changed.notify_waiters();
    }
}

fn copy_of(fault: &ReadError) -> ReadError {
    match fault {
        ReadError::Unavailable(reason) => ReadError::Unavailable(reason.clone()),
        ReadError::Unreadable { shard, sequence, subject, reason } => ReadError::Unreadable {
            shard: *shard,
            sequence: *sequence,
            subject: subject.clone(),
            reason: reason.clone(),
        },
    }
}
