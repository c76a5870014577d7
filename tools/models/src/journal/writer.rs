//! An append, from its call to its outcome, as `journal-jetstream` does it: published under a condition, resolved by reading where
//! that is not acknowledged, and, where it begins a stream, after that was closed in the older epoch.

use super::{
    config::{Config, Variant},
    server::{Body, Message, Publish, Published, Shard},
};

/// Where an append stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Outcome {
    /// It was not called, or is under way.
    #[default]
    Open,
    /// Stored.
    Stored,
    /// Another commit lies in its place.
    Conflict,
    /// Not stored, and never will be.
    Unavailable,
    /// Not known.
    Unknown,
}

/// What an attempt stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Job {
    /// The mark that closes the stream's id in the older epoch.
    Mark,
    /// The commit.
    Commit,
}

/// What is known of an attempt's last publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// It is to be published.
    Ready,
    /// It was, and the answer is awaited.
    Awaiting,
    /// There was no answer, or none that says what became of it.
    Unclear,
    /// It was refused for its sequence.
    RefusedForSequence,
    /// It was refused for ever.
    RefusedForEver,
}

/// `store::append::Attempt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempt {
    /// What it stores.
    pub job: Job,
    /// Where.
    pub shard: u8,
    /// The sequence behind which it stores it.
    pub expected: u8,
    /// What is known.
    pub phase: Phase,
    /// Whether some publish has an outcome that is not known.
    pub may_be_stored: bool,
    /// Publishes so far.
    pub publishes: u8,
    /// Whether it goes by itself, as it was in a batch that was refused.
    pub is_alone: bool,
}

impl Attempt {
    fn new(job: Job, shard: u8, expected: u8) -> Self {
        let (phase, may_be_stored, publishes, is_alone) = (Phase::Ready, false, 0, false);
        Self { job, shard, expected, phase, may_be_stored, publishes, is_alone }
    }
}

/// Where a writer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Place {
    /// Its append is called: the epochs are looked up.
    #[default]
    Called,
    /// Its id is looked for in the sealed older epoch (`first_of`).
    Looking,
    /// An attempt is under way.
    Attempting(Attempt),
    /// It waits for a newer epoch (`learn_beyond`).
    Learning,
    /// The stream is loaded for the second commit.
    Loading,
    /// Nothing is under way.
    Idle,
}

/// A writer: one append at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Writer {
    /// Where it is.
    pub place: Place,
    /// What became of its first commit and of its second.
    pub outcomes: [Outcome; 2],
    /// The commit that is appended: 0 or 1.
    pub commit: u8,
    /// Calls of this append so far.
    pub calls: u8,
    /// Whether an earlier call of an append ended without knowing.
    pub was_unknown: bool,
}

/// What a gateway knows of the epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Known {
    /// How many there are.
    pub epochs: u8,
    /// Whether the older one is sealed.
    pub is_sealed: bool,
}

/// What is behind the expected position, as far as was read (`store::append::Successor`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Successor {
    Mine,
    Another(Message),
    None { is_below_expected: bool },
}

/// `store::append::Placed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placed {
    Mine,
    Another(Option<Message>),
    Never,
}

/// The id of a writer's commit.
pub fn commit_id(writer: u8, commit: u8) -> u8 {
    writer * 2 + commit
}

/// The id of a writer's mark.
pub fn mark_id(writer: u8) -> u8 {
    0x80 + writer
}

impl Writer {
    /// The next publish of its attempt.
    pub fn publish(&self, writer: u8, stream: u8) -> Option<Publish> {
        let Place::Attempting(attempt) = self.place else { return None };
        (attempt.phase == Phase::Ready).then(|| Publish {
            writer,
            number: self.number(&attempt),
            shard: attempt.shard,
            expected: attempt.expected,
            message: self.message(writer, stream, &attempt),
        })
    }

    /// The number of its next publish, over all calls of the append.
    fn number(&self, attempt: &Attempt) -> u8 {
        self.calls * 8 + attempt.publishes
    }

    /// Whether the answer to this very publish is awaited: each request has an inbox of its own.
    pub fn awaits(&self, publish: &Publish, stream: u8) -> bool {
        let Place::Attempting(attempt) = self.place else { return false };
        attempt.phase == Phase::Awaiting
            && self.number(&attempt) == publish.number + 1
            && attempt.shard == publish.shard
            && self.message(publish.writer, stream, &attempt) == publish.message
    }

    fn message(&self, writer: u8, stream: u8, attempt: &Attempt) -> Message {
        let (id, body) = match attempt.job {
            Job::Mark => (mark_id(writer), Body::Mark),
            Job::Commit => (commit_id(writer, self.commit), Body::Commit(self.commit + 1)),
        };
        Message { stream, id, body }
    }

    /// `append_first`: what comes first, by what the gateway knows.
    pub fn call(&mut self, config: &Config, known: Known) {
        self.place = match known.epochs {
            1 => Place::Attempting(Attempt::new(Job::Commit, 0, 0)),
            _ if config.is(Variant::NoMark) => Place::Attempting(Attempt::new(Job::Commit, 1, 0)),
            _ if known.is_sealed && config.is(Variant::SealedUnread) => {
                Place::Attempting(Attempt::new(Job::Commit, 1, 0))
            }
            _ if known.is_sealed => Place::Looking,
            _ => Place::Attempting(Attempt::new(Job::Mark, 0, 0)),
        };
    }

    /// `first_of`, and what follows from what is there.
    pub fn look(&mut self, writer: u8, stream: u8, older: &Shard) {
        self.closed(writer, older.next(stream, 0, older.log.len()));
    }

    /// The older epoch is closed for the stream, with `first` in the place of the mark.
    fn closed(&mut self, writer: u8, first: Option<Message>) {
        match first {
            Some(Message { body: Body::Commit(_), id, .. }) => {
                let is_mine = id == commit_id(writer, 0);
                self.end(if is_mine { Outcome::Stored } else { Outcome::Conflict });
            }
            _ => self.place = Place::Attempting(Attempt::new(Job::Commit, 1, 0)),
        }
    }

    /// The commit's append is over.
    fn end(&mut self, outcome: Outcome) {
        self.outcomes[usize::from(self.commit)] = outcome;
        self.place = Place::Idle;
    }

    /// The server's answer is heard.
    pub fn hear(&mut self, config: &Config, writer: u8, published: Published) {
        let Place::Attempting(attempt) = &mut self.place else { return };
        match published {
            Published::Stored => self.placed(writer, Placed::Mine),
            Published::Duplicate(_) if config.is(Variant::DuplicateIsRefused) => {
                self.placed(writer, Placed::Another(None));
            }
            Published::Duplicate(_) => {
                (attempt.phase, attempt.may_be_stored) = (Phase::Unclear, true);
            }
            Published::WrongSequence if config.is(Variant::RefusedUnread) => {
                self.placed(writer, Placed::Another(None));
            }
            Published::WrongSequence => attempt.phase = Phase::RefusedForSequence,
            Published::Sealed => attempt.phase = Phase::RefusedForEver,
        }
    }

    /// No answer came in time.
    pub fn time_out(&mut self, config: &Config, writer: u8) {
        let Place::Attempting(attempt) = &mut self.place else { return };
        (attempt.phase, attempt.may_be_stored) = (Phase::Unclear, true);
        if config.is(Variant::UnknownIsFailed) {
            return self.end(Outcome::Unavailable);
        }
        if config.is(Variant::UnknownIsStored) {
            self.placed(writer, Placed::Mine);
        }
    }

    /// The batch that it was in was refused.
    pub fn batch_refused(&mut self, config: &Config, writer: u8) {
        let Place::Attempting(attempt) = &mut self.place else { return };
        (attempt.phase, attempt.is_alone) = (Phase::Ready, true);
        attempt.publishes -= 1;
        if config.is(Variant::BatchRefusedIsConflict) {
            self.placed(writer, Placed::Another(None));
        }
    }

    /// The tail is read through the leader, of which the first `length` messages are seen, and what follows from it.
    pub fn resolve(&mut self, config: &Config, writer: u8, stream: u8, shard: &Shard, length: usize) {
        let Place::Attempting(attempt) = self.place else { return };
        let mine = self.message(writer, stream, &attempt).id;
        let successor = match shard.next(stream, attempt.expected, length) {
            Some(next) if next.id == mine => Successor::Mine,
            Some(next) => Successor::Another(next),
            None => Successor::None { is_below_expected: shard.last(stream, length) < attempt.expected },
        };
        let is_refused = attempt.phase == Phase::RefusedForSequence;
        let is_refused_for_ever = attempt.phase == Phase::RefusedForEver;
        match successor {
            Successor::Mine => self.placed(writer, Placed::Mine),
            Successor::Another(next) => self.placed(writer, Placed::Another(Some(next))),
            Successor::None { is_below_expected: true } if is_refused && !attempt.may_be_stored => {
                self.placed(writer, Placed::Another(None));
            }
            Successor::None { .. } if is_refused_for_ever && !attempt.may_be_stored => {
                self.placed(writer, Placed::Never);
            }
            Successor::None { .. } if attempt.publishes < config.publishes_max => {
                self.place = Place::Attempting(Attempt { phase: Phase::Ready, is_alone: true, ..attempt });
            }
            Successor::None { .. } => self.give_up(&attempt),
        }
    }

    /// The attempt ends before its next publish.
    pub fn give_up_unpublished(&mut self) {
        let Place::Attempting(attempt) = self.place else { return };
        self.give_up(&attempt);
    }

    fn give_up(&mut self, attempt: &Attempt) {
        let is_known = !attempt.may_be_stored || attempt.job == Job::Mark;
        self.end(if is_known { Outcome::Unavailable } else { Outcome::Unknown });
    }

    /// What follows from the outcome of an attempt.
    fn placed(&mut self, writer: u8, placed: Placed) {
        let Place::Attempting(attempt) = self.place else { return };
        match (attempt.job, placed) {
            (Job::Mark, Placed::Another(first)) => self.closed(writer, first),
            (Job::Mark, Placed::Mine | Placed::Never) => self.closed(writer, None),
            (Job::Commit, Placed::Mine) => self.end(Outcome::Stored),
            (Job::Commit, _) if self.commit == 1 => self.end(match placed {
                Placed::Never => Outcome::Unavailable,
                _ => Outcome::Conflict,
            }),
            (Job::Commit, Placed::Another(Some(Message { body: Body::Mark, .. })) | Placed::Never) => {
                self.place = Place::Learning;
            }
            (Job::Commit, Placed::Another(_)) => self.end(Outcome::Conflict),
        }
    }

    /// The same append is called again.
    pub fn call_again(&mut self) {
        let outcome = &mut self.outcomes[usize::from(self.commit)];
        self.was_unknown |= *outcome == Outcome::Unknown;
        *outcome = Outcome::Open;
        self.calls += 1;
        self.place = if self.commit == 0 { Place::Called } else { Place::Loading };
    }

    /// The stream was loaded, with its last commit at `sequence` of `shard`: the second commit is decided on it.
    pub fn append_second(&mut self, shard: u8, sequence: u8) {
        self.place = Place::Attempting(Attempt::new(Job::Commit, shard, sequence));
    }

    /// The second commit's turn comes.
    pub fn go_on(&mut self) {
        (self.commit, self.calls, self.place) = (1, 0, Place::Loading);
    }
}
