//! Segments: the messages of a shard log, each with the commits that were stored together.
//!
//! A segment is a message on `gw.log.{shard}` with these headers
//!
//! | header | holds |
//! |---|---|
//! | `Gw-First` | sequence of its first commit in the shard; the others follow without a gap |
//! | `Gw-Commits` | how many commits it has |
//! | `Gw-Time` | when it was made by the writer's clock, which is the time of its commits, in microseconds since 1970 |
//! | `Nats-Expected-Last-Sequence` | sequence of the message before it; 0 for the first |
//!
//! (a message without the first of them is not a segment, and is passed over by everybody) and a body of frames, one for each
//! commit:
//!
//! ```text
//! {before} {bytes}\n
//! {flat form of the commit, so many bytes}\n
//! ```
//!
//! `before` is the sequence of the message in which the stream's commit before this one lies, 0 for the first commit of a
//! stream. So who knows the last message of a payment or batch finds all of it, and a frame is cut out with any client and
//! a shell: its SHA-256 is the hash of the commit.

use std::{ops::Range, str};

use async_nats::{HeaderMap, HeaderValue};
use bytes::Bytes;
use chrono::{DateTime, SubsecRound, Utc};

use events::time::Timestamp;
use journal::{
    Recorded,
    envelope::{self, EncodedCommit, Flat},
};

use crate::requests::Stored;

/// Header: sequence of the first commit.
const FIRST: &str = "Gw-First";
/// Header: number of commits.
const COMMITS: &str = "Gw-Commits";
/// Header: when it was made.
const TIME: &str = "Gw-Time";
/// Header that makes a publish conditional on the last sequence of the whole stream.
const EXPECTED_LAST: &str = "Nats-Expected-Last-Sequence";
/// Most characters of the two numbers in front of a commit.
const FRAME_CHARS_MAX: usize = 41;

/// Name of the JetStream stream that holds the log of a shard.
pub fn stream(shard: u16) -> String {
    format!("LOG_{shard:02}")
}

/// Subject of the messages of a shard's log.
pub fn subject(shard: u16) -> String {
    format!("gw.log.{shard:02}")
}

/// A segment that is being filled.
#[derive(Default)]
pub(super) struct Filling {
    body: Vec<u8>,
    frames: Vec<Frame>,
}

/// Where a commit lies in a segment.
#[derive(Debug, Clone)]
struct Frame {
    /// The message with the stream's commit before it; 0 for none.
    before: u64,
    /// Its flat form in the body.
    range: Range<usize>,
}

/// Where a shard log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct End {
    /// Sequence of the last message; 0 for none.
    pub message: u64,
    /// Sequence of the last commit; 0 for none.
    pub commit: u64,
}

/// A segment, stored or about to be.
#[derive(Debug)]
pub(super) struct Segment {
    /// Sequence of the message.
    pub message: u64,
    /// Sequence of its first commit.
    pub first: u64,
    /// When it was made.
    stored_at: Timestamp,
    /// The body of the message.
    pub body: Bytes,
    frames: Vec<Frame>,
}

/// A commit of a segment.
pub(super) struct Entry<'a> {
    /// Its sequence in the shard.
    pub sequence: u64,
    /// The message with the stream's commit before it; 0 for none.
    pub before: u64,
    pub flat: Flat<'a>,
    stored_at: Timestamp,
}

/// Why a message is not a segment.
#[derive(Debug, thiserror::Error)]
pub enum Defect {
    /// A message without the header that tells a segment.
    #[error("it is not a segment")]
    Foreign,
    /// A header is missing, or of the wrong form.
    #[error("header {0} is missing or is not a number")]
    Header(&'static str),
    /// A frame is not one.
    #[error("a frame is damaged: {0}")]
    Frame(&'static str),
    /// Headers and body disagree.
    #[error("it has {found} commits and says {said}")]
    Count {
        /// Commits by the header.
        said: u64,
        /// Frames in the body.
        found: u64,
    },
    /// Its sequence is another than the one behind the message before it.
    #[error("it does not follow the message before it")]
    Place,
    /// A frame holds no commit.
    #[error(transparent)]
    Commit(#[from] envelope::Error),
}

/// The commits of a message of a shard's log, for whoever has the message and no journal.
///
/// # Errors
/// [`Defect`] of the message, or of the first commit that is none.
pub fn commits(shard: u16, sequence: u64, headers: HeaderMap, body: Bytes) -> Result<Vec<Recorded>, Defect> {
    let stored = Stored { subject: subject(shard), sequence, headers, body, stored_at: Utc::now() };
    let segment = Segment::read(stored)?;
    segment.entries().map(|(_, entry)| Ok(entry?.open(shard)?)).collect()
}

impl Filling {
    /// Takes one more commit, whose stream's commit before lies in the message `before`.
    pub(super) fn push(&mut self, before: u64, commit: &EncodedCommit) {
        let head = commit.flat_head();
        self.body.extend_from_slice(format!("{before} {}\n", head.len() + commit.body.len()).as_bytes());
        let start = self.body.len();
        self.body.extend_from_slice(head.as_bytes());
        self.body.extend_from_slice(&commit.body);
        self.frames.push(Frame { before, range: start..self.body.len() });
        self.body.push(b'\n');
    }

    /// Its bytes with one more commit of these bytes in its body, at most.
    pub(super) fn bytes_with(&self, commit: &EncodedCommit) -> usize {
        // What stands around the body is bounded, and the largest commits are far below what a server takes.
        self.body.len() + commit.body.len() + 4096
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The segment that it becomes behind `end`.
    pub(super) fn seal(self, end: End) -> Segment {
        Segment {
            message: end.message + 1,
            first: end.commit + 1,
            // As exactly as it is stored.
            stored_at: Utc::now().trunc_subsecs(6),
            body: self.body.into(),
            frames: self.frames,
        }
    }
}

impl Segment {
    /// Reads a stored message.
    ///
    /// # Errors
    /// [`Defect`], where it is none. What the commits are is not looked at yet.
    pub(super) fn read(stored: Stored) -> Result<Self, Defect> {
        if stored.headers.get(FIRST).is_none() {
            return Err(Defect::Foreign);
        }
        let number = |name: &'static str| {
            let value = stored.headers.get(name).and_then(|value| value.as_str().parse::<u64>().ok());
            value.filter(|number| *number > 0).ok_or(Defect::Header(name))
        };
        let (first, said, time) = (number(FIRST)?, number(COMMITS)?, number(TIME)?);
        let stored_at =
            i64::try_from(time).ok().and_then(DateTime::from_timestamp_micros).ok_or(Defect::Header(TIME))?;
        let mut frames = Vec::new();
        let mut at = 0;
        while at < stored.body.len() {
            let (frame, next) = frame(&stored.body, at)?;
            frames.push(frame);
            at = next;
        }
        let found = frames.len() as u64;
        if found != said {
            return Err(Defect::Count { said, found });
        }
        let Stored { sequence: message, body, .. } = stored;
        let is_counted = first.checked_add(said).is_some();
        is_counted.then_some(Self { message, first, stored_at, body, frames }).ok_or(Defect::Header(FIRST))
    }

    /// The headers of its message.
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED_LAST, HeaderValue::from(self.message - 1));
        headers.insert(FIRST, HeaderValue::from(self.first));
        headers.insert(COMMITS, HeaderValue::from(self.frames.len() as u64));
        headers.insert(TIME, HeaderValue::from(self.stored_at.timestamp_micros().unsigned_abs()));
        headers
    }

    /// Where the log ends with it.
    pub(super) fn end(&self) -> End {
        End { message: self.message, commit: self.first + self.frames.len() as u64 - 1 }
    }

    /// How much memory it takes, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.body.len() + self.frames.len() * size_of::<Frame>()
    }

    /// Its commits, in order, each with the subject that it says it has, if it says one.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Option<&str>, Result<Entry<'_>, Defect>)> {
        self.frames.iter().zip(self.first..).map(|(frame, sequence)| {
            let line = self.body[frame.range.clone()].split(|byte| *byte == b'\n').next();
            (line.and_then(|line| str::from_utf8(line).ok()), self.entry(frame, sequence))
        })
    }

    /// The commits with sequence at or above `from`.
    pub(super) fn entries_from(&self, from: u64) -> impl Iterator<Item = Result<Entry<'_>, Defect>> {
        let skip = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let frames = self.frames.iter().zip(self.first..).skip(skip);
        frames.map(|(frame, sequence)| self.entry(frame, sequence))
    }

    /// The last commit of the stream with this subject in it, up to this version.
    pub(super) fn last_of(&self, subject: &str, version: u64) -> Result<Option<Entry<'_>>, Defect> {
        let line = |frame: &Frame| {
            let flat = &self.body[frame.range.clone()];
            flat.strip_prefix(subject.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'\n'))
        };
        for (index, frame) in self.frames.iter().enumerate().rev().filter(|(_, frame)| line(frame)) {
            let entry = self.entry(frame, self.first + index as u64)?;
            if entry.flat.version() <= version {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    fn entry(&self, frame: &Frame, sequence: u64) -> Result<Entry<'_>, Defect> {
        let flat = Flat::read(&self.body[frame.range.clone()])?;
        Ok(Entry { sequence, before: frame.before, flat, stored_at: self.stored_at })
    }
}

impl Entry<'_> {
    /// The commit that it is.
    pub(super) fn open(&self, shard: u16) -> Result<Recorded, envelope::Error> {
        self.flat.open(shard, self.sequence, self.stored_at)
    }
}

/// The frame at `at` of a body, and where the next one begins.
fn frame(body: &[u8], at: usize) -> Result<(Frame, usize), Defect> {
    let rest = &body[at..];
    let digits = &rest[..rest.len().min(FRAME_CHARS_MAX)];
    let end = digits.iter().position(|byte| *byte == b'\n').ok_or(Defect::Frame("its numbers do not end"))?;
    let line = str::from_utf8(&digits[..end]).map_err(|_| Defect::Frame("its numbers are not text"))?;
    let (before, bytes) = line.split_once(' ').ok_or(Defect::Frame("it has not two numbers"))?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| Defect::Frame("a number is not one"));
    let (before, bytes) = (number(before)?, number(bytes)?);
    let start = at + end + 1;
    let bytes = usize::try_from(bytes).map_err(|_| Defect::Frame("it is too long"))?;
    let stop = start.checked_add(bytes).filter(|stop| body.get(*stop) == Some(&b'\n'));
    let stop = stop.ok_or(Defect::Frame("it does not end where it says"))?;
    Ok((Frame { before, range: start..stop }, stop + 1))
}

#[cfg(test)]
mod tests {
    use events::StreamId;
    use journal::{
        Position,
        conformance::{commit, fresh},
    };

    use super::*;

    /// As it is read back.
    fn stored(segment: &Segment) -> Stored {
        Stored {
            subject: subject(3),
            sequence: segment.message,
            headers: segment.headers(),
            body: segment.body.clone(),
            stored_at: Utc::now(),
        }
    }

    fn segment(ids: &[StreamId]) -> Segment {
        let mut filling = Filling::default();
        for (number, id) in ids.iter().enumerate() {
            let encoded = EncodedCommit::new(&commit(id, Position::START, &format!("text\n{number}")), 3).unwrap();
            filling.push(number as u64, &encoded);
        }
        filling.seal(End { message: 8, commit: 40 })
    }

    #[test]
    fn what_is_written_is_read() {
        let ids: Vec<StreamId> = (0..5).map(|_| fresh()).collect();
        let whole = segment(&ids);
        let segment = Segment::read(stored(&whole)).unwrap();
        assert_eq!((segment.message, segment.first, segment.end()), (9, 41, End { message: 9, commit: 45 }));
        for ((entry, id), number) in segment.entries().zip(&ids).zip(0..) {
            let (subject, entry) = (entry.0, entry.1.unwrap());
            assert_eq!((entry.sequence, entry.before), (41 + number, number));
            assert_eq!(subject, Some(&*envelope::subject(3, id)));
            assert_eq!(entry.flat.stream_id(3).unwrap(), *id);
            let subject = envelope::subject(3, id);
            assert_eq!(segment.last_of(&subject, 1).unwrap().unwrap().sequence, 41 + number);
            assert!(segment.last_of(&subject, 0).unwrap().is_none());
            let opened = entry.open(3).unwrap();
            assert_eq!((opened.position.hash, opened.position.sequence), (entry.flat.hash(), 41 + number));
            assert_eq!(opened.stored_at, whole.stored_at);
        }
        assert!(segment.last_of(&envelope::subject(3, &fresh()), 9).unwrap().is_none());
        assert_eq!(segment.entries_from(44).count(), 2);
        assert_eq!(segment.entries_from(0).count(), 5);
    }

    #[test]
    fn a_damaged_one_is_told() {
        let whole = segment(&[fresh(), fresh()]);
        for end in 0..whole.body.len() {
            let cut = Stored { body: whole.body.slice(..end), ..stored(&whole) };
            assert!(Segment::read(cut).is_err(), "cut at {end}");
        }
        for name in [FIRST, COMMITS, TIME] {
            let mut damaged = stored(&whole);
            damaged.headers.insert(name, "0");
            assert!(matches!(Segment::read(damaged), Err(Defect::Header(damaged)) if damaged == name));
        }
        let foreign = Stored { headers: HeaderMap::new(), ..stored(&whole) };
        assert!(matches!(Segment::read(foreign), Err(Defect::Foreign)));
        let huge = Stored { body: "0 18446744073709551615\nx\n".into(), ..stored(&whole) };
        assert!(Segment::read(huge).is_err());
    }
}
