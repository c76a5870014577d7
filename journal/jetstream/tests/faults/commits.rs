//! The history of commits by two gateways, and what must hold of it: what was acknowledged is there, nothing is there twice, versions
//! are without gaps, of two first commits one wins, and an outcome that was said is the outcome.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Mutex,
    time::Duration,
};

use futures::future::join_all;
use tokio::time::{Instant, timeout};

use devkit::natsfaults::Dice;
use events::{CommitId, Hash32, StreamId};
use journal::{
    AppendError, Position, ReadError, Recorded, ShardLog, StreamStore,
    conformance::{commit, fresh, fresh_in},
    envelope::Chain,
};
use journal_jetstream::store::NatsJournal;

use super::world::{Run, Violation, World, require};

/// Tasks of each gateway, what each does, and the streams that all do it to.
const TASKS: u64 = 3;
const STEPS: u64 = 7;
const STREAMS: usize = 3;
/// First commits at a time, in the runs that have them: enough for batches.
const CROWD: usize = 40;
/// Far beyond the longest append; what takes longer hangs.
const LIVENESS: Duration = Duration::from_secs(120);

/// What came of an append.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Stored(Position),
    Conflict,
    Unavailable,
    Unknown,
}

#[derive(Debug)]
struct Appended {
    stream_id: StreamId,
    commit_id: CommitId,
    outcome: Outcome,
    ended: Instant,
}

#[derive(Debug)]
struct Loaded {
    stream_id: StreamId,
    commits: Vec<CommitId>,
    began: Instant,
}

#[derive(Default)]
struct History {
    appended: Mutex<Vec<Appended>>,
    loaded: Mutex<Vec<Loaded>>,
    replayed: Mutex<Vec<Vec<Recorded>>>,
}

/// Plays the run of `seed`.
pub async fn run(world: &World, seed: u64) -> Result<(), Violation> {
    let run = world.run(seed).await;
    let (history, streams) = (History::default(), std::array::from_fn::<StreamId, STREAMS, _>(|_| fresh()));
    run.arm();
    let tasks = run.gateways.iter().enumerate().flat_map(|(gateway, own)| {
        let (history, streams) = (&history, &streams);
        (0..TASKS).map(move |task| {
            let dice = Dice::new(seed, "commits", (gateway as u64) * TASKS + task);
            history.task(&own.journal, streams, dice)
        })
    });
    let crowd = async {
        if seed.is_multiple_of(3) {
            let journal = &run.gateways[0].journal;
            join_all((0..CROWD).map(|_| history.append(journal, fresh_in(0, 2), Position::START))).await;
        }
    };
    let played = async { tokio::join!(join_all(tasks), crowd) };
    let (ended, ()) = timeout(LIVENESS, played).await.map_err(|_| "an append or a load hangs".to_owned())?;
    ended.into_iter().collect::<Result<Vec<()>, Violation>>()?;
    run.calm().await;
    history.holds(&run).await
}

impl History {
    /// Loads and appends, as a saga does: after a conflict, and after an outcome that is unknown, it looks first.
    async fn task(&self, journal: &NatsJournal, streams: &[StreamId], mut dice: Dice) -> Result<(), Violation> {
        let mut known: HashMap<StreamId, Position> = HashMap::new();
        for _ in 0..STEPS {
            let stream_id = &streams[usize::try_from(dice.below(streams.len() as u64)).unwrap()];
            match dice.below(8) {
                // Of a stream that was never looked at it is taken for granted that it begins now.
                0..=4 => {
                    let at = known.get(stream_id).copied().unwrap_or(Position::START);
                    match self.append(journal, stream_id.clone(), at).await? {
                        Outcome::Stored(position) => drop(known.insert(stream_id.clone(), position)),
                        _ => self.load(journal, stream_id, &mut known).await?,
                    }
                }
                5 | 6 => self.load(journal, stream_id, &mut known).await?,
                _ => {
                    let shard = u16::try_from(dice.below(2)).unwrap();
                    match journal.replay(shard, 1, 1000).await {
                        Ok(commits) => self.replayed.lock().unwrap().push(commits),
                        Err(ReadError::Unavailable(_)) => {}
                        Err(error) => return Err(format!("a replay fails: {error}")),
                    }
                }
            }
        }
        Ok(())
    }

    async fn append(&self, journal: &NatsJournal, stream_id: StreamId, at: Position) -> Result<Outcome, Violation> {
        let commit = commit(&stream_id, at, "next");
        let outcome = match journal.append(&commit).await {
            Ok(recorded) => Outcome::Stored(recorded.position),
            Err(AppendError::Conflict) => Outcome::Conflict,
            Err(AppendError::Unavailable(_)) => Outcome::Unavailable,
            Err(AppendError::Unknown(_)) => Outcome::Unknown,
            Err(error @ AppendError::Unacceptable(_)) => return Err(format!("{stream_id}: {error}")),
        };
        let appended =
            Appended { stream_id, commit_id: commit.commit_id, outcome: outcome.clone(), ended: Instant::now() };
        self.appended.lock().unwrap().push(appended);
        Ok(outcome)
    }

    async fn load(
        &self,
        journal: &NatsJournal,
        stream_id: &StreamId,
        known: &mut HashMap<StreamId, Position>,
    ) -> Result<(), Violation> {
        let began = Instant::now();
        let commits = match journal.load(stream_id).await {
            Ok(commits) => commits,
            Err(ReadError::Unavailable(_)) => return Ok(()),
            Err(error) => return Err(format!("a load fails: {error}")),
        };
        known.insert(stream_id.clone(), commits.last().map_or(Position::START, |last| last.position));
        let commits = commits.into_iter().map(|commit| commit.commit_id).collect();
        self.loaded.lock().unwrap().push(Loaded { stream_id: stream_id.clone(), commits, began });
        Ok(())
    }

    async fn holds(self, run: &Run) -> Result<(), Violation> {
        let (appended, loaded, replayed) = (
            self.appended.into_inner().unwrap(),
            self.loaded.into_inner().unwrap(),
            self.replayed.into_inner().unwrap(),
        );
        let shards = [run.stored(0).await?, run.stored(1).await?];
        let mut streams: BTreeMap<StreamId, Vec<&Recorded>> = BTreeMap::new();
        let mut places: HashMap<&CommitId, Position> = HashMap::new();
        for commit in shards.iter().flatten() {
            streams.entry(commit.stream_id.clone()).or_default().push(commit);
            let before = places.insert(&commit.commit_id, commit.position);
            require(before.is_none(), || format!("{} is stored twice", commit.commit_id))?;
        }
        for (stream_id, commits) in &streams {
            let (mut chain, mut prev) = (Chain::default(), Hash32::ZERO);
            for (commit, version) in commits.iter().zip(1..) {
                let follows = commit.position.version == version && commit.prev == prev;
                require(follows, || format!("{stream_id}: {version} does not follow: {commit:?}"))?;
                chain.follow(commit).map_err(|error| format!("{stream_id}: {error}"))?;
                prev = commit.position.hash;
            }
            let own = run.loaded(stream_id).await?;
            let positions = commits.iter().map(|commit| commit.position);
            require(own.iter().map(|commit| commit.position).eq(positions), || {
                format!("{stream_id} is loaded otherwise")
            })?;
        }
        for Appended { stream_id, commit_id, outcome, .. } in &appended {
            let place = places.get(commit_id).copied();
            let as_said = match outcome {
                Outcome::Stored(position) => place == Some(*position),
                Outcome::Conflict | Outcome::Unavailable => place.is_none(),
                Outcome::Unknown => true,
            };
            require(as_said, || format!("{stream_id}: {commit_id} was said to be {outcome:?}, and is at {place:?}"))?;
        }
        let said: HashSet<&CommitId> = appended.iter().map(|appended| &appended.commit_id).collect();
        let foreign = places.keys().find(|commit_id| !said.contains(*commit_id));
        require(foreign.is_none(), || format!("nobody appended {foreign:?}"))?;
        for load in &loaded {
            let stored = streams.get(&load.stream_id).map_or(&[][..], Vec::as_slice);
            let prefix = stored.iter().map(|commit| &commit.commit_id).take(load.commits.len());
            require(prefix.eq(&load.commits), || {
                format!("a load of {} is of nothing that was: {load:?}", load.stream_id)
            })?;
            let missed = appended.iter().find(|appended| {
                appended.stream_id == load.stream_id
                    && matches!(appended.outcome, Outcome::Stored(_))
                    && appended.ended < load.began
                    && !load.commits.contains(&appended.commit_id)
            });
            require(missed.is_none(), || format!("a load of {} misses {missed:?}", load.stream_id))?;
        }
        for replay in replayed.iter().filter(|replay| !replay.is_empty()) {
            let shard = &shards[usize::from(replay[0].position.shard)];
            let positions = shard.iter().map(|commit| commit.position).take(replay.len());
            require(replay.iter().map(|commit| commit.position).eq(positions), || {
                "a replay is of nothing that was".to_owned()
            })?;
        }
        Ok(())
    }
}
