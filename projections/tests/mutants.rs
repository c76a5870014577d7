//! Deliberately broken read models, each of which runs by seed must catch: what is careless stands between the read models, as they
//! are, and the journal that they follow, or between them and who reads.
//!
//! A run writes payments, restarts the read models again and again, and reads: each status at the position that was written, and in
//! the end each view, the list of all payments, their owner's, and what is found by a request id, all compared with the journal.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use events::{CommitId, Epochs, PaymentEvent, PaymentId, StreamId, event::Submitted};
use journal::{AppendError, Commit, ReadError, Recorded, ShardLeases, ShardLog, ShardWorker, StreamStore};
use projections::{ListSlice, OwnedSlice, PageBounds, PaymentView, Place, Projections};

use crate::support::*;

const SHARDS: u16 = 2;
/// Seeds that the read models as they are have to pass.
const SEEDS: u64 = 12;
/// Starts of the read models in one run, and what is written between two.
const STARTS: u64 = 4;
const WRITES: u64 = 12;
/// Long enough for a busy machine; nothing waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Payments on a page.
const PAGE: usize = 3;

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The last commit is applied again after a restart.
    AppliedAgain,
    /// The checkpoint is ahead of the views at a restart: one commit is never applied.
    CheckpointAhead,
    /// A commit is applied to another payment's view.
    FiledUnderAnother,
    /// Two commits of a payment are applied in the wrong order.
    OutOfOrder,
    /// A status is shown before the position that was asked for is reached.
    PositionNotAwaited,
    /// A list goes on behind the second in which its page ended.
    PagesByTimeAlone,
    /// What a payment is found by is cut to fewer characters.
    RequestIdCut,
}

/// Each with the number of seeds within which it is caught.
const MUTANTS: [(Fault, u64); 7] = [
    (Fault::AppliedAgain, 2),
    (Fault::CheckpointAhead, 4),
    (Fault::FiledUnderAnother, 4),
    (Fault::OutOfOrder, 4),
    (Fault::PositionNotAwaited, 2),
    (Fault::PagesByTimeAlone, 2),
    (Fault::RequestIdCut, 2),
];

/// Numbers of a seed (SplitMix64).
struct Draws(u64);

impl Draws {
    /// A number below `count`.
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % count
    }
}

/// The journal as careless read models take it in: where nothing is broken, as it is.
struct Careless {
    journal: Arc<Streams>,
    fault: Option<Fault>,
    shards: Mutex<Vec<Taken>>,
}

/// What was taken in of one shard.
#[derive(Default)]
struct Taken {
    /// As the read models see it.
    log: Vec<Recorded>,
    /// Commits of the journal that are in it, or are left out of it.
    read: u64,
    versions: HashMap<StreamId, u64>,
    /// The read models were started again since.
    is_restarted: bool,
}

impl Taken {
    /// Takes in a commit as the next one of its stream.
    fn push(&mut self, mut commit: Recorded) {
        let version = self.versions.entry(commit.stream_id.clone()).or_default();
        *version += 1;
        commit.position.version = *version;
        commit.position.sequence = self.log.len() as u64 + 1;
        self.log.push(commit);
    }

    /// Takes in what is new, with the fault.
    fn take(&mut self, mut new: Vec<Recorded>, fault: Option<Fault>) {
        self.read += new.len() as u64;
        let restarted = self.is_restarted && !new.is_empty();
        self.is_restarted &= !restarted;
        match fault {
            Some(Fault::AppliedAgain) if restarted => {
                if let Some(last) = self.log.last().cloned() {
                    self.push(Recorded { commit_id: CommitId::random(), ..last });
                }
            }
            Some(Fault::CheckpointAhead) if restarted => drop(new.remove(0)),
            Some(Fault::FiledUnderAnother) => {
                let known: Vec<_> = self.log.iter().map(|commit| commit.stream_id.clone()).collect();
                let moved = new.iter_mut().find(|commit| commit.position.version > 1);
                let other = |commit: &Recorded| known.iter().find(|id| **id != commit.stream_id).cloned();
                if let Some((moved, other)) = moved.and_then(|moved| other(moved).map(|other| (moved, other))) {
                    moved.stream_id = other;
                }
            }
            Some(Fault::OutOfOrder) => {
                let later = (1..new.len()).find(|place| {
                    let (before, commit) = (&new[place - 1], &new[*place]);
                    before.stream_id == commit.stream_id && before.position.version > 1
                });
                if let Some(later) = later {
                    new.swap(later - 1, later);
                }
            }
            Some(Fault::RequestIdCut) => {
                for event in new.iter_mut().flat_map(|commit| &mut commit.events) {
                    if let events::Event::Payment(PaymentEvent::Submitted(submitted)) = event {
                        submitted.request_id.pop();
                    }
                }
            }
            _ => {}
        }
        new.into_iter().for_each(|commit| self.push(commit));
    }
}

impl Careless {
    fn new(journal: Arc<Streams>, fault: Option<Fault>) -> Self {
        Self { journal, fault, shards: Mutex::new((0..SHARDS).map(|_| Taken::default()).collect()) }
    }

    fn restarted(&self) {
        self.shards.lock().unwrap().iter_mut().for_each(|shard| shard.is_restarted = true);
    }

    /// Takes in what the journal has, and returns how much that is.
    async fn taken(&self, shard: u16) -> Result<u64, ReadError> {
        let read = self.shards.lock().unwrap()[usize::from(shard)].read;
        let new = self.journal.replay(shard, read + 1, usize::MAX).await?;
        let mut shards = self.shards.lock().unwrap();
        let taken = &mut shards[usize::from(shard)];
        // Another reader may have been faster.
        let new = new.into_iter().filter(|commit| commit.position.sequence > taken.read).collect();
        taken.take(new, self.fault);
        Ok(taken.log.len() as u64)
    }
}

#[async_trait]
impl StreamStore for Careless {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        self.journal.append(commit).await
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.journal.load(stream_id).await
    }
}

#[async_trait]
impl ShardLog for Careless {
    fn epochs(&self) -> Epochs {
        self.journal.epochs()
    }

    async fn grown(&self, shards: u16) {
        self.journal.grown(shards).await;
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        self.taken(shard).await?;
        let shards = self.shards.lock().unwrap();
        let log = shards[usize::from(shard)].log.iter();
        Ok(log.filter(|commit| commit.position.sequence >= from).take(limit).cloned().collect())
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        self.taken(shard).await
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        if self.taken(shard).await? > sequence {
            return Ok(());
        }
        let read = self.shards.lock().unwrap()[usize::from(shard)].read;
        self.journal.wait_beyond(shard, read).await
    }
}

#[async_trait]
impl ShardLeases for Careless {
    async fn work(&self, shard: u16, owner: &str) -> Box<dyn ShardWorker> {
        self.journal.work(shard, owner).await
    }
}

/// A payment of one run.
struct Written {
    id: PaymentId,
    commits: std::vec::IntoIter<Vec<PaymentEvent>>,
}

/// One run.
struct Run {
    draws: Draws,
    fault: Option<Fault>,
    journal: Arc<Streams>,
    careless: Arc<Careless>,
    payments: Vec<Written>,
}

impl Run {
    /// What does not hold in the run of `seed`.
    async fn play(seed: u64, fault: Option<Fault>) -> Result<(), String> {
        let journal = Arc::new(Streams::new(SHARDS));
        let careless = Arc::new(Careless::new(journal.clone(), fault));
        let mut run = Self { draws: Draws(seed), fault, journal, careless, payments: Vec::new() };
        let directory = TempDir::new().unwrap();
        for _ in 0..STARTS {
            let projections = Projections::open_searched(directory.path(), SHARDS).unwrap();
            let shutdown = CancellationToken::new();
            let following = tokio::spawn({
                let (projections, shutdown, careless) = (projections.clone(), shutdown.clone(), run.careless.clone());
                async move { projections.run(careless, shutdown).await }
            });
            let held = run.use_them(&projections).await;
            shutdown.cancel();
            following.await.unwrap().unwrap();
            held?;
            run.careless.restarted();
        }
        Ok(())
    }

    async fn use_them(&mut self, projections: &Projections) -> Result<(), String> {
        // Until they are live they answer nothing, and their callers read the journal.
        self.all_followed(projections).await?;
        for _ in 0..WRITES {
            self.write_and_read(projections).await?;
        }
        self.all_followed(projections).await?;
        self.views(projections)?;
        self.lists(projections)?;
        self.found(projections)
    }

    /// Waits until what was written to the shard was taken in.
    async fn followed(&self, projections: &Projections, shard: u16) -> Result<(), String> {
        let head = self.careless.taken(shard).await.unwrap();
        match projections.wait_for(shard, head, PATIENCE).await {
            true => Ok(()),
            false => Err(format!("shard {shard} is not at {head}: {:?}", projections.status(shard))),
        }
    }

    async fn all_followed(&self, projections: &Projections) -> Result<(), String> {
        for shard in 0..SHARDS {
            self.followed(projections, shard).await?;
        }
        let live = async {
            while projections.ready().is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, live).await.map_err(|_| format!("{:?}", projections.ready()))
    }

    /// A commit or two, and then the payment's status at the position of the last.
    async fn write_and_read(&mut self, projections: &Projections) -> Result<(), String> {
        let number = self.payments.len() as u64;
        let chosen = self.draws.below(number + 3);
        if chosen >= number {
            let id = PaymentId::derive("mutants", &number.to_string());
            self.payments.push(Written { commits: commits(&id, number).into_iter(), id });
        }
        let written = &mut self.payments[chosen.min(number) as usize];
        let (id, most) = (written.id.clone(), 1 + self.draws.below(2) as usize);
        let Some((shard, _)) = written.commits.by_ref().take(most).map(|events| self.journal.push(&id, events)).last()
        else {
            return Ok(());
        };
        if self.fault != Some(Fault::PositionNotAwaited) {
            self.followed(projections, shard).await?;
        }
        let shown = projections.find(&id).map_err(|unavailable| unavailable.to_string())?;
        let (version, written) = (shown.map_or(0, |found| found.view.version), self.journal.commits_of(&id).len());
        match version == written as u64 {
            true => Ok(()),
            false => Err(format!("{id} is shown at version {version}, and {written} commits were written before")),
        }
    }

    /// Every view is the fold of what is in the journal.
    fn views(&self, projections: &Projections) -> Result<(), String> {
        for Written { id, .. } in &self.payments {
            let (shown, folded) = (projections.get(id), PaymentView::fold(&self.journal.commits_of(id)));
            if shown.as_ref() != Ok(&folded) {
                return Err(format!("{id}: {shown:?} is not {folded:?}"));
            }
        }
        Ok(())
    }

    /// What `page` lists from place to place is every payment once, newest first.
    fn whole(
        &self,
        what: &str,
        page: impl Fn(Option<Place>) -> (Vec<(u16, PaymentView)>, Option<Place>),
    ) -> Result<(), String> {
        let views = self.payments.iter().filter_map(|written| PaymentView::fold(&self.journal.commits_of(&written.id)));
        let mut expected: Vec<_> = views.map(|view| Place::of(&view)).collect();
        expected.sort();
        expected.reverse();
        let (mut listed, mut before) = (Vec::new(), None);
        loop {
            let (payments, next) = page(before);
            listed.extend(payments.iter().map(|(_, view)| Place::of(view)));
            let Some(mut next) = next else { break };
            if self.fault == Some(Fault::PagesByTimeAlone) {
                next.submitted_ms -= 1;
            }
            before = Some(next);
        }
        match listed == expected {
            true => Ok(()),
            false => Err(format!("{what} has {} of {} payments, or others", listed.len(), expected.len())),
        }
    }

    fn lists(&self, projections: &Projections) -> Result<(), String> {
        let bounds = PageBounds { payments_max: PAGE, looks_max: 1_000 };
        self.whole("the list of all payments", |before| {
            let slice = ListSlice { before, ..ListSlice::default() };
            let page = projections.listed(&slice, bounds, |_, _| true).unwrap();
            (page.payments, page.next)
        })?;
        self.whole("the owner's list", |before| {
            let slice = OwnedSlice { owner: format!("eip155:{ACCOUNT}"), before, from: None, until: None };
            let page = projections.owned(&slice, bounds, |_, _| true).unwrap();
            (page.payments, page.next)
        })
    }

    /// Every payment is found by its request id.
    fn found(&self, projections: &Projections) -> Result<(), String> {
        for (number, Written { id, .. }) in self.payments.iter().enumerate() {
            let text = request_id(number as u64);
            let found = projections.search(&text, 10).unwrap();
            if !found.payments.iter().any(|(_, view)| view.payment_id == *id) {
                return Err(format!("{id} is not found by its request id {text}"));
            }
        }
        Ok(())
    }
}

fn request_id(number: u64) -> String {
    format!("order-of-{number:04}")
}

/// All commits of payment `number`; several are submitted in the same second.
fn commits(id: &PaymentId, number: u64) -> Vec<Vec<PaymentEvent>> {
    let mut commits = all_commits(id);
    let PaymentEvent::Submitted(plain) = submitted(id) else { unreachable!() };
    let submission = Submitted { request_id: request_id(number), submitted_at: at(number / 5), ..*plain };
    commits[0] = vec![PaymentEvent::Submitted(Box::new(submission))];
    commits
}

#[tokio::test]
async fn read_models_show_what_is_in_the_journal_after_any_restart() {
    for seed in 1..=SEEDS {
        assert_eq!(Run::play(seed, None).await, Ok(()), "seed {seed}");
    }
}

#[tokio::test]
async fn every_careless_read_model_is_caught() {
    for (fault, within) in MUTANTS {
        let mut caught = None;
        for seed in 1..=within {
            if let Err(why) = Run::play(seed, Some(fault)).await {
                caught = Some((seed, why));
                break;
            }
        }
        let (seed, why) = caught.unwrap_or_else(|| panic!("{fault:?} is not caught within {within} seeds"));
        let shown: String = why.chars().take(200).collect();
        println!("{fault:?}: seed {seed}: {shown}");
    }
}
