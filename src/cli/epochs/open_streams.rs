//! The open streams of an epoch: payments and batches that are not at rest, by all its shards folded from the first commit
//! on.
//!
//! Only what is open is held in memory. What has come to rest is forgotten, and read anew should something follow that
//! it does not end with.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use chrono::TimeDelta;
use tokio::time::sleep;

use events::{Epoch, Event, QuoteRequestEvent, StreamId, time::Timestamp};
use journal::{Journal, Recorded};
use sagas::{
    payment::{self, Payment},
    quote_request::{self, QuoteRequest},
};

/// Commits read at a time.
const BATCH: usize = 512;
/// How often a commit that a replica does not give is asked for again.
const ASKED_AGAIN: u32 = 100;
const ASK_PAUSE: Duration = Duration::from_millis(100);
/// How far the clock of a gateway that awards a quote may be behind this one.
const CLOCKS_APART: TimeDelta = TimeDelta::seconds(60);

/// The open payments and batches of an epoch.
pub(super) struct OpenStreams<'a> {
    journal: &'a dyn Journal,
    /// When this began: what the clock had ended by then is over.
    since: Timestamp,
    /// The longest settlement window that is accepted: no quote of a batch with a longer one can be awarded.
    settlement_max: TimeDelta,
    /// The next sequence to read of each shard.
    next: BTreeMap<u16, u64>,
    open: HashMap<StreamId, Known>,
    commits: u64,
}

/// A payment or batch that is not at rest.
struct Known {
    /// Commits of it that were folded.
    version: u64,
    state: State,
}

enum State {
    Payment(Box<Payment>),
    Batch(Box<QuoteRequest>),
    /// Its events cannot follow each other: nobody can tell where it stands.
    Illegal(String),
}

impl<'a> OpenStreams<'a> {
    /// Nothing of `epoch` is read yet.
    pub(super) fn of(journal: &'a dyn Journal, epoch: Epoch, since: Timestamp, settlement_max: TimeDelta) -> Self {
        let next = epoch.range().map(|shard| (shard, 1)).collect();
        Self { journal, since, settlement_max, next, open: HashMap::new(), commits: 0 }
    }

    /// Reads what the shards hold behind what was read before, up to what their leaders hold now.
    ///
    /// # Errors
    /// When the journal gives no answer, or a message of the epoch cannot be read.
    pub(super) async fn read_on(&mut self) -> Result<()> {
        let shards: Vec<u16> = self.next.keys().copied().collect();
        for shard in shards {
            let head = self.journal.head(shard).await?;
            let mut asked = 0;
            while let Some(from) = self.next.get(&shard).copied().filter(|next| *next <= head) {
                let commits = self.journal.replay(shard, from, BATCH).await?;
                let Some(last) = commits.last() else {
                    // The replica that answered is behind the leader.
                    asked += 1;
                    ensure!(asked < ASKED_AGAIN, "shard {shard} gives nothing from {from} on, and has {head} messages");
                    sleep(ASK_PAUSE).await;
                    continue;
                };
                self.next.insert(shard, last.position.sequence + 1);
                for commit in commits {
                    self.take(commit).await?;
                }
            }
        }
        Ok(())
    }

    /// Commits read, without the marks of streams that begin in a later epoch.
    pub(super) fn commits(&self) -> u64 {
        self.commits
    }

    /// What is not at rest at `now`, with where it stands, in order of the ids.
    pub(super) fn open(&self, now: Timestamp) -> Vec<(String, String)> {
        let open = self
            .open
            .iter()
            .filter_map(|(id, known)| Some((id.to_string(), known.state.why_open(now, self.settlement_max)?)));
        let mut open: Vec<_> = open.collect();
        open.sort();
        open
    }

    async fn take(&mut self, commit: Recorded) -> Result<()> {
        if commit.is_moved() {
            return Ok(());
        }
        self.commits += 1;
        let id = commit.stream_id.clone();
        let known = self.open.remove(&id);
        let known = match known {
            Some(known) if commit.position.version <= known.version => Some(known),
            Some(known) => Some(known.after(&commit)),
            None if commit.position.version == 1 => Known::fold(std::slice::from_ref(&commit)),
            // Nothing follows an award.
            None if commit.quote_request_events().any(|event| matches!(event, QuoteRequestEvent::Awarded(_))) => None,
            // It had come to rest, and goes on.
            None => {
                let commits = self.journal.load(&id).await.with_context(|| format!("read {id}"))?;
                Known::fold(&commits)
            }
        };
        if let Some(known) = known.filter(|known| known.state.why_open(self.since, self.settlement_max).is_some()) {
            self.open.insert(id, known);
        }
        Ok(())
    }
}

impl Known {
    fn fold(commits: &[Recorded]) -> Option<Self> {
        let (first, rest) = commits.split_first()?;
        let begun = Self { version: first.position.version, state: State::begin(first) };
        Some(rest.iter().fold(begun, Self::after))
    }

    fn after(self, commit: &Recorded) -> Self {
        let state = commit.events.iter().fold(self.state, State::after);
        Self { version: commit.position.version, state }
    }
}

impl State {
    fn begin(first: &Recorded) -> Self {
        let Some((event, rest)) = first.events.split_first() else {
            return Self::Illegal("its first commit is empty".to_owned());
        };
        let begun = match event {
            Event::Payment(event) => payment::evolve(None, event).map(|state| Self::Payment(Box::new(state))),
            Event::QuoteRequest(event) => quote_request::evolve(None, event).map(|state| Self::Batch(Box::new(state))),
            Event::Mark(_) => return Self::Illegal("it begins with a mark".to_owned()),
        };
        rest.iter().fold(begun.unwrap_or_else(|error| Self::Illegal(error.to_string())), Self::after)
    }

    fn after(self, event: &Event) -> Self {
        let after = match (self, event) {
            (Self::Payment(state), Event::Payment(event)) => {
                payment::evolve(Some(*state), event).map(|state| Self::Payment(Box::new(state)))
            }
            (Self::Batch(state), Event::QuoteRequest(event)) => {
                quote_request::evolve(Some(*state), event).map(|state| Self::Batch(Box::new(state)))
            }
            (Self::Illegal(reason), _) => return Self::Illegal(reason),
            (_, event) => return Self::Illegal(format!("{} does not belong into it", event.type_name())),
        };
        after.unwrap_or_else(|error| Self::Illegal(error.to_string()))
    }

    /// Where it stands when that is not rest at `now`.
    fn why_open(&self, now: Timestamp, settlement_max: TimeDelta) -> Option<String> {
        match self {
            Self::Payment(payment) => match payment.stage() {
                payment::Stage::Rest => None,
                stage => Some(format!("{stage:?}").to_lowercase()),
            },
            Self::Batch(batch) => match batch.stage() {
                quote_request::Stage::Awarded => None,
                quote_request::Stage::Collecting => Some("collecting".to_owned()),
                quote_request::Stage::Collected => {
                    let opened = &batch.opened;
                    let can_be_awarded = opened.fulfillment_deadline - opened.quote_deadline <= settlement_max;
                    let last = batch.quotes().iter().map(|quote| quote.valid_until).max();
                    let last = last.map(|last| last.min(opened.fulfillment_deadline)).filter(|_| can_be_awarded);
                    let last = last.filter(|last| now <= last.checked_add_signed(CLOCKS_APART).unwrap_or(*last));
                    last.map(|last| format!("collected, and may be awarded until {}", last.to_rfc3339()))
                }
            },
            Self::Illegal(reason) => Some(format!("cannot be told: {reason}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use events::{CommitId, PaymentEvent};
    use journal::{Commit, Position, ShardLog, StreamStore, memory::MemoryJournal};

    use super::*;

    macro_rules! golden {
        ($name:literal) => {
            serde_json::from_str(include_str!(concat!("../../../events/tests/golden/v1/", $name, ".json"))).unwrap()
        };
    }

    async fn append(journal: &MemoryJournal, id: &StreamId, expected: Position, event: impl Into<Event>) -> Position {
        let commit = Commit {
            stream_id: id.clone(),
            expected,
            commit_id: CommitId::random(),
            events: vec![event.into()],
            correlation: "req".into(),
            causation: "req".into(),
        };
        journal.append(&commit).await.unwrap().position
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// The open ones, without their ids.
    fn open(streams: &OpenStreams, now: &str) -> Vec<String> {
        streams.open(at(now)).into_iter().map(|(_, stands)| stands).collect()
    }

    const BEFORE: &str = "2026-01-02T03:04:00Z";
    /// The quote of the batch is valid until 03:04:55.
    const AFTER: &str = "2026-01-02T03:05:56Z";

    #[tokio::test]
    async fn a_payment_is_open_until_nothing_is_left_to_do() {
        let journal = MemoryJournal::new(4);
        let submitted: PaymentEvent = golden!("submitted");
        let PaymentEvent::Submitted(first) = &submitted else { panic!("{submitted:?}") };
        let id = StreamId::from(&first.payment_id);
        let position = append(&journal, &id, Position::START, submitted.clone()).await;
        let epoch = *journal.epochs().current();
        let mut streams = OpenStreams::of(&journal, epoch, at(BEFORE), TimeDelta::days(1));
        streams.read_on().await.unwrap();
        assert_eq!(streams.open(at(AFTER)), [(id.to_string(), "auction".to_owned())]);
        let failed: PaymentEvent = golden!("failed_with_nothing_to_refund");
        append(&journal, &id, position, failed).await;
        streams.read_on().await.unwrap();
        assert_eq!((open(&streams, AFTER), streams.commits()), (vec![], 2));
    }

    #[tokio::test]
    async fn a_batch_is_open_while_it_may_be_awarded() {
        let journal = MemoryJournal::new(4);
        let opened: QuoteRequestEvent = golden!("quote_request_opened");
        let QuoteRequestEvent::Opened(first) = &opened else { panic!("{opened:?}") };
        let id = StreamId::from(&first.quote_request_id);
        let position = append(&journal, &id, Position::START, opened.clone()).await;
        let epoch = *journal.epochs().current();
        let mut streams = OpenStreams::of(&journal, epoch, at(BEFORE), TimeDelta::days(1));
        streams.read_on().await.unwrap();
        assert_eq!(open(&streams, AFTER), ["collecting"]);
        let collected: QuoteRequestEvent = golden!("quotes_collected");
        let position = append(&journal, &id, position, collected).await;
        streams.read_on().await.unwrap();
        assert!(open(&streams, BEFORE)[0].contains("may be awarded until"), "{:?}", open(&streams, BEFORE));
        assert_eq!(open(&streams, "2026-01-02T03:05:50Z").len(), 1, "clocks may differ");
        assert!(open(&streams, AFTER).is_empty());
        // Who begins later forgets it at once, and knows an award by itself.
        let mut later = OpenStreams::of(&journal, epoch, at(AFTER), TimeDelta::days(1));
        later.read_on().await.unwrap();
        assert!(later.open.is_empty() && streams.open.len() == 1);
        let awarded: QuoteRequestEvent = golden!("quote_request_awarded");
        append(&journal, &id, position, awarded).await;
        for streams in [&mut streams, &mut later] {
            streams.read_on().await.unwrap();
            assert_eq!((open(streams, BEFORE), streams.commits()), (vec![], 3));
        }
    }

    #[tokio::test]
    async fn what_cannot_be_told_is_not_at_rest() {
        let journal = MemoryJournal::new(4);
        let submitted: PaymentEvent = golden!("submitted");
        let PaymentEvent::Submitted(first) = &submitted else { panic!("{submitted:?}") };
        let id = StreamId::from(&first.payment_id);
        let position = append(&journal, &id, Position::START, submitted.clone()).await;
        append(&journal, &id, position, submitted).await;
        let epoch = *journal.epochs().current();
        let mut streams = OpenStreams::of(&journal, epoch, at(BEFORE), TimeDelta::days(1));
        streams.read_on().await.unwrap();
        assert!(open(&streams, AFTER)[0].starts_with("cannot be told"), "{:?}", open(&streams, AFTER));
    }
}
