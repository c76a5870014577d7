//! The lease on a shard between two gateways: whoever holds it appends, and once the other has appended in its own term, the first
//! never does again in its.

use std::{
    sync::{Mutex, atomic::Ordering},
    time::Duration,
};

use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use events::{CommitId, StreamId};
use journal::{
    AppendError, Position, ShardLeases, StreamStore, WakeUp,
    conformance::{commit, fresh_in},
};

use super::world::{Gateway, Run, Violation, World, require};

/// How long the lease is fought for: several times its life.
const FIGHT: Duration = Duration::from_millis(2600);
/// In a calm somebody holds it within this time.
const LIVENESS: Duration = Duration::from_secs(120);
const BETWEEN: Duration = Duration::from_millis(10);

/// A commit that was acknowledged to a gateway, in one of its terms.
#[derive(Debug, Clone)]
struct Held {
    holder: (usize, u64),
    commit_id: CommitId,
}

/// Plays the run of `seed`, and counts how often one gateway followed the other.
pub async fn run(world: &World, seed: u64) -> Result<(), Violation> {
    let run = world.run(seed).await;
    let (stream_id, held) = (fresh_in(0, 2), Mutex::new(Vec::new()));
    run.arm();
    let ends = Instant::now() + FIGHT;
    let (stream_id, held) = (&stream_id, &held);
    let fights = run.gateways.iter().enumerate().map(|(n, gateway)| hold(gateway, n, stream_id, held, ends));
    join_all(fights).await.into_iter().collect::<Result<Vec<()>, Violation>>()?;
    run.calm().await;
    let held = std::mem::take(&mut *held.lock().unwrap());
    let successions = one_after_the_other(&run, stream_id, &held).await?;
    world.successions.fetch_add(successions, Ordering::Relaxed);
    let acquired = async {
        let mut worker = run.gateways[0].journal.work(0, "in a calm").await;
        while !matches!(worker.next().await, Ok(WakeUp::Acquired)) {}
        worker.release().await;
    };
    timeout(LIVENESS, acquired).await.map_err(|_| "nobody is given the lease in a calm".to_owned())
}

/// Appends while the lease is held, from what was loaded when it was acquired, and until another comes first.
async fn hold(
    gateway: &Gateway,
    number: usize,
    stream_id: &StreamId,
    held: &Mutex<Vec<Held>>,
    ends: Instant,
) -> Result<(), Violation> {
    let (mut worker, mut term) = (gateway.journal.work(0, &number.to_string()).await, 0);
    let mut at: Option<Position> = None;
    while Instant::now() < ends {
        // Wake-ups of one's own commits are many; what matters is whether the term goes on.
        match timeout(BETWEEN, worker.next()).await {
            Ok(Ok(WakeUp::Acquired)) => {
                term += 1;
                let loaded = gateway.journal.load(stream_id).await;
                at = loaded.ok().map(|commits| commits.last().map_or(Position::START, |last| last.position));
                continue;
            }
            Ok(Ok(WakeUp::Lost)) => at = None,
            _ => {}
        }
        let Some(position) = at else { continue };
        let next = commit(stream_id, position, "held");
        match gateway.journal.append(&next).await {
            Ok(recorded) => {
                at = Some(recorded.position);
                held.lock().unwrap().push(Held { holder: (number, term), commit_id: next.commit_id });
            }
            Err(AppendError::Unavailable(_)) => {}
            Err(AppendError::Conflict | AppendError::Unknown(_)) => at = None,
            Err(error @ AppendError::Unacceptable(_)) => return Err(error.to_string()),
        }
        // The next holder comes when this one gives up, too.
        if term % 2 == 1 && held.lock().unwrap().len() % 12 == 11 {
            worker.release().await;
            at = None;
            sleep(BETWEEN * 5).await;
            worker = gateway.journal.work(0, &number.to_string()).await;
        }
    }
    Ok(())
}

/// How often one gateway appended after the other, where each holder appended before the next, and what they appended is one chain.
async fn one_after_the_other(run: &Run, stream_id: &StreamId, held: &[Held]) -> Result<usize, Violation> {
    let mut stored = run.stored(0).await?;
    stored.retain(|commit| commit.stream_id == *stream_id);
    let holder = |commit_id: &CommitId| held.iter().find(|held| held.commit_id == *commit_id).map(|held| held.holder);
    for one in held {
        let times = stored.iter().filter(|commit| commit.commit_id == one.commit_id).count();
        require(times == 1, || format!("{one:?} is stored {times} times"))?;
    }
    let mut holders: Vec<_> = stored.iter().filter_map(|commit| holder(&commit.commit_id)).collect();
    holders.dedup();
    let mut once = holders.clone();
    once.sort_unstable();
    once.dedup();
    require(once.len() == holders.len(), || format!("a holder appends after its successor: {holders:?}"))?;
    let loaded = run.loaded(stream_id).await?;
    let positions = stored.iter().map(|commit| commit.position);
    require(loaded.iter().map(|commit| commit.position).eq(positions), || format!("{stream_id} is loaded otherwise"))?;
    Ok(holders.windows(2).filter(|pair| pair[0].0 != pair[1].0).count())
}
