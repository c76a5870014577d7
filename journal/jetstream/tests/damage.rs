//! Damage to a server's disk: blocks with flipped bits, truncated blocks, a lost or garbled index, and stores that were put back from
//! an older copy, as in published analyses of JetStream. What was acknowledged is found, or something says that it is not: the load
//! of a stream, the replay of a shard, the read models' look at their position, or the alarm of checkpoints.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use chrono::Utc;
use ed25519_dalek::SigningKey;
use futures::future::join_all;

use devkit::{NatsCluster, NatsServer};
use events::StreamId;
use journal::{
    AppendError, Position, ReadError, Recorded, ShardLog, StreamStore,
    conformance::{commit, fresh},
    ledger::{self, Error as LedgerError, Ledger, Purpose},
};
use journal_jetstream::{
    checkpoint::{Alarm, Checkpointer, Options as CheckpointOptions, StepError, Stepped, Store},
    ledger::{NatsLedger, Options as LedgerOptions},
    store::{NatsJournal, Options},
};

use crate::support::{cluster, connect};

const TIMEOUT: Duration = Duration::from_secs(5);
/// Streams in the shard, and commits of each but the last, which has one.
const STREAMS: usize = 5;
const ROUNDS: usize = 4;
/// In the damaged record of the block: somewhere in its body, and in the number that it has in its stream.
const BODY: usize = 200;
const SEQUENCE: usize = 4;
/// Bits of a record's length that do not belong to it: whether it has headers.
const LENGTH: u32 = 0x7fff_ffff;

/// What was acknowledged in one shard, in order.
struct Written {
    commits: Vec<Recorded>,
}

impl Written {
    /// Payments whose commits alternate, and one at the end that has only begun.
    async fn write(journal: &NatsJournal) -> Self {
        let ids: Vec<StreamId> = (0..STREAMS).map(|_| fresh()).collect();
        let (mut at, mut commits) = (vec![Position::START; STREAMS], Vec::new());
        for round in 0..ROUNDS {
            for (n, id) in ids.iter().enumerate() {
                commits.push(journal.append(&commit(id, at[n], &format!("{round}"))).await.unwrap());
                at[n] = commits.last().unwrap().position;
            }
        }
        commits.push(journal.append(&commit(&fresh(), Position::START, "only")).await.unwrap());
        Self { commits }
    }

    fn ids(&self) -> Vec<StreamId> {
        let mut ids: Vec<StreamId> = self.commits.iter().map(|commit| commit.stream_id.clone()).collect();
        ids.sort();
        ids.dedup();
        ids
    }

    fn of(&self, id: &StreamId) -> Vec<Position> {
        self.commits.iter().filter(|commit| commit.stream_id == *id).map(|commit| commit.position).collect()
    }

    fn head(&self) -> &Recorded {
        self.commits.last().unwrap()
    }
}

/// What is said of a damaged shard.
#[derive(Debug, Default)]
struct Said {
    /// Streams that were loaded with less than was acknowledged, in silence.
    lost: usize,
    /// Streams whose load says that something is wrong.
    refused: usize,
    /// The replay of the whole shard says so, or it ends before what was acknowledged.
    replay: Option<String>,
    /// A read model whose position is the last commit finds another there, or nothing.
    position: Option<String>,
    /// The checkpoints' alarm, in a process that has just started.
    alarm: Option<Alarm>,
}

impl Said {
    async fn of(journal: &NatsJournal, checkpointer: &mut Checkpointer, written: &Written) -> Self {
        let mut said = Self::default();
        let loads = written.ids().into_iter().map(|id| async move { (written.of(&id), journal.load(&id).await) });
        for (expected, loaded) in join_all(loads).await {
            match loaded {
                Ok(loaded) => {
                    let found: Vec<Position> = loaded.iter().map(|commit| commit.position).collect();
                    said.lost += usize::from(!found.starts_with(&expected));
                }
                Err(ReadError::Unreadable { .. }) => said.refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        let head = written.head();
        let expected: Vec<Position> = written.commits.iter().map(|commit| commit.position).collect();
        said.replay = match journal.replay(0, 1, 1000).await {
            Ok(replayed) => {
                let found: Vec<Position> = replayed.iter().map(|commit| commit.position).collect();
                (!found.starts_with(&expected)).then(|| format!("{} of {}", found.len(), expected.len()))
            }
            Err(error) => Some(error.to_string()),
        };
        let now = journal.head(0).await.unwrap();
        let at_position = journal.replay(0, head.position.sequence, 1).await;
        said.position = match at_position {
            _ if now < head.position.sequence => Some(format!("the shard ends at {now}")),
            Ok(found) if found.first().is_some_and(|found| found.commit_id == head.commit_id) => None,
            Ok(_) => Some("another commit".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        said.alarm = match checkpointer.step(0, Utc::now()).await {
            Err(StepError::Alarm(alarm)) => Some(alarm),
            Ok(Stepped::Unmoved | Stepped::Signed(_)) => None,
            other => panic!("{other:?}"),
        };
        said
    }

    /// Whether the replay names the message of this sequence as missing, or ends before it: a server that finds nothing behind the
    /// damage says that there is nothing.
    fn replay_ends_at(&self, sequence: u64) -> bool {
        let missing = format!("stored message {sequence} of shard 0 is unreadable: the message is missing");
        let ended = format!("{} of ", sequence - 1);
        self.replay.as_ref().is_some_and(|said| *said == missing || said.starts_with(&ended))
    }

    /// Whether anything is wrong that nobody says.
    fn is_silent(&self) -> bool {
        self.lost > 0 && (self.position.is_none() || self.alarm.is_none())
    }
}

fn one_shard() -> Options {
    Options { shards: 1, read_timeout: Duration::from_secs(2), ..Options::default() }
}

async fn checkpointer(url: &str, replicas: usize) -> Checkpointer {
    let client = connect(url).await;
    let store = Store::connect(client.clone(), replicas, TIMEOUT).await.unwrap();
    let options = CheckpointOptions { interval: TIMEOUT, trusted: Vec::new(), timeout: TIMEOUT };
    Checkpointer::new(client, store, SigningKey::from_bytes(&[7; 32]), options)
}

/// A stream's files in a server's directory.
struct Files(PathBuf);

impl Files {
    fn of(directory: &Path, stream: &str) -> Self {
        Self(directory.join("jetstream/jetstream/$G/streams").join(stream).join("msgs"))
    }

    fn block(&self) -> Vec<u8> {
        fs::read(self.0.join("1.blk")).unwrap()
    }

    /// Where record `number` begins, from 1 on.
    fn record(&self, number: usize) -> usize {
        let block = self.block();
        (1..number).fold(0, |at, _| {
            let length = u32::from_le_bytes(block[at..at + 4].try_into().unwrap()) & LENGTH;
            at + usize::try_from(length).unwrap()
        })
    }

    fn flip(&self, number: usize, byte: usize) {
        let (mut block, at) = (self.block(), self.record(number) + byte);
        block[at] ^= 1;
        fs::write(self.0.join("1.blk"), block).unwrap();
    }

    fn truncate(&self, number: usize, byte: usize) {
        let mut block = self.block();
        block.truncate(self.record(number) + byte);
        fs::write(self.0.join("1.blk"), block).unwrap();
    }

    /// Whether a server that ended in order has left one.
    fn index(&self) -> PathBuf {
        self.0.join("index.db")
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// What a kind of damage comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Everything is found.
    Whole,
    /// The message of this sequence is damaged. Whoever loads it is told so, the replay of the shard ends there, and the
    /// checkpoints' alarm says that it is missing, or that the shard ends before it; everything else is found.
    Refused(usize),
    /// The server has thrown everything away from the damage on. The read models and the checkpoints say so.
    CutOff,
}

/// A kind of damage: whether the server had ended in order, what is done, and what it comes to.
type Damage = (&'static str, bool, fn(&Files), Outcome);

/// Record of a commit in the middle of its payment, of the last of a payment, and of one that is all of a payment.
const MIDDLE: usize = 2 * STREAMS + 1;
const LAST: usize = ROUNDS * STREAMS;
const ONLY: usize = ROUNDS * STREAMS + 1;

const DAMAGES: [Damage; 13] = [
    ("nothing", true, |_| {}, Outcome::Whole),
    ("the index is lost", true, |files| fs::remove_file(files.index()).unwrap(), Outcome::Whole),
    ("the index is garbled", true, |files| fs::write(files.index(), [0xff; 64]).unwrap(), Outcome::Whole),
    ("a bit in a commit, index kept", true, |files| files.flip(MIDDLE, BODY), Outcome::Refused(MIDDLE)),
    ("a bit in a payment's last commit, index kept", true, |files| files.flip(LAST, BODY), Outcome::Refused(LAST)),
    ("a bit in a payment's only commit, index kept", true, |files| files.flip(ONLY, BODY), Outcome::Refused(ONLY)),
    ("a bit in a last commit's number, index kept", true, |files| files.flip(LAST, SEQUENCE), Outcome::Refused(LAST)),
    ("a bit in an only commit's number, index kept", true, |files| files.flip(ONLY, SEQUENCE), Outcome::Refused(ONLY)),
    ("a bit in a commit, killed", false, |files| files.flip(MIDDLE, BODY), Outcome::CutOff),
    ("a bit in the last commit, killed", false, |files| files.flip(ONLY, BODY), Outcome::CutOff),
    ("a block cut in a record, killed", false, |files| files.truncate(LAST, 30), Outcome::CutOff),
    ("a block cut between records, killed", false, |files| files.truncate(LAST, 0), Outcome::CutOff),
    ("the block is gone, killed", false, |files| fs::remove_file(files.0.join("1.blk")).unwrap(), Outcome::CutOff),
];

async fn damaged((what, in_order, damage, outcome): Damage) {
    let mut server = NatsServer::open().await.unwrap();
    let journal = NatsJournal::connect(connect(&server.url()).await, one_shard()).await.unwrap();
    let mut signing = checkpointer(&server.url(), 1).await;
    let written = Written::write(&journal).await;
    assert!(matches!(signing.step(0, Utc::now()).await, Ok(Stepped::Signed(_))));
    if in_order {
        server.stop().await.unwrap();
    } else {
        server.kill().await.unwrap();
    }
    damage(&Files::of(server.directory(), "EVT_00"));
    server.restart().await.unwrap();
    let journal = NatsJournal::connect(connect(&server.url()).await, one_shard()).await.unwrap();
    let said = Said::of(&journal, &mut checkpointer(&server.url(), 1).await, &written).await;
    assert!(!said.is_silent(), "{what}: {said:?}");
    let found = match &said {
        Said { lost: 0, refused: 0, replay: None, position: None, alarm: None } => Outcome::Whole,
        Said {
            lost: 0,
            refused: 1..,
            alarm: Some(Alarm::Missing { shard: 0, sequence } | Alarm::Truncated { shard: 0, signed: sequence, .. }),
            ..
        } if said.replay_ends_at(*sequence) => Outcome::Refused(usize::try_from(*sequence).unwrap()),
        Said {
            lost: 1.., position: Some(_), alarm: Some(Alarm::Truncated { .. } | Alarm::Replaced { .. }), ..
        } => Outcome::CutOff,
        _ => panic!("{what}: {said:?}"),
    };
    assert_eq!(found, outcome, "{what}: {said:?}");
    if outcome == Outcome::CutOff {
        // What is appended now takes the places of what is lost, and that does not go unnoticed either.
        for _ in 0..ONLY {
            journal.append(&commit(&fresh(), Position::START, "after")).await.unwrap();
        }
        let said = Said::of(&journal, &mut checkpointer(&server.url(), 1).await, &written).await;
        assert!(said.position.is_some() && said.alarm.is_some(), "{what}: {said:?}");
    }
}

#[tokio::test]
async fn what_a_damaged_server_lost_is_never_lost_in_silence() {
    join_all(DAMAGES.map(damaged)).await;
}

/// A payment whose only commit is damaged may begin again, as the server takes it for new. Whoever loads it finds out.
#[tokio::test]
async fn a_payment_that_begins_a_second_time_is_noticed() {
    let mut server = NatsServer::open().await.unwrap();
    let journal = NatsJournal::connect(connect(&server.url()).await, one_shard()).await.unwrap();
    let written = Written::write(&journal).await;
    server.stop().await.unwrap();
    Files::of(server.directory(), "EVT_00").flip(ONLY, BODY);
    server.restart().await.unwrap();
    let journal = NatsJournal::connect(connect(&server.url()).await, one_shard()).await.unwrap();
    let again = commit(&written.head().stream_id, Position::START, "again");
    match journal.append(&again).await {
        Ok(_) | Err(AppendError::Conflict | AppendError::Unavailable(_) | AppendError::Unknown(_)) => {}
        Err(error) => panic!("{error}"),
    }
    let loaded = journal.load(&again.stream_id).await;
    assert!(matches!(loaded, Err(ReadError::Unreadable { .. })), "{loaded:?}");
}

/// What a purpose is given after so many others once a bit of the last entry, at `byte` of it, has flipped.
async fn given_by_a_damaged_ledger(purposes: usize, byte: usize) -> Result<u64, LedgerError> {
    let mut server = NatsServer::open().await.unwrap();
    let ledger = NatsLedger::connect(connect(&server.url()).await, LedgerOptions::default()).await.unwrap();
    let (account, now) = (ledger::conformance::fresh(), "2026-01-02T03:04:05Z".parse().unwrap());
    for purpose in 0..purposes {
        ledger.reserve(&account, &Purpose(purpose.to_string()), 0, 0, now).await.unwrap();
    }
    server.stop().await.unwrap();
    Files::of(server.directory(), "SIG").flip(purposes, byte);
    server.restart().await.unwrap();
    let options = LedgerOptions { timeout: Duration::from_secs(2), ..LedgerOptions::default() };
    let ledger = NatsLedger::connect(connect(&server.url()).await, options).await.unwrap();
    ledger.reserve(&account, &Purpose("another".to_owned()), 0, 0, now).await
}

/// A nonce is given out once, also when the server has lost who it was given to.
#[tokio::test]
async fn a_damaged_ledger_gives_no_nonce_twice() {
    for (purposes, byte) in [(3, 60), (1, 60), (3, SEQUENCE), (1, SEQUENCE)] {
        let given = given_by_a_damaged_ledger(purposes, byte).await;
        assert!(matches!(given, Err(LedgerError::Damaged(_))), "entry {purposes}, byte {byte}: {given:?}");
    }
}

/// A whole store that was put back from an older copy: every stream is as it was, and so are the checkpoints. What was read from it
/// since is not.
#[tokio::test]
async fn a_store_that_was_put_back_is_noticed_by_what_was_read_from_it() {
    let mut server = NatsServer::open().await.unwrap();
    let journal = NatsJournal::connect(connect(&server.url()).await, one_shard()).await.unwrap();
    let mut signing = checkpointer(&server.url(), 1).await;
    let before = Written::write(&journal).await;
    signing.step(0, Utc::now()).await.unwrap();
    let (store, old) = (server.directory().join("jetstream"), server.directory().join("old"));
    server.stop().await.unwrap();
    copy(&store, &old);
    server.restart().await.unwrap();
    let after = Written::write(&journal).await;
    let mut running = checkpointer(&server.url(), 1).await;
    running.step(0, Utc::now()).await.unwrap();
    server.stop().await.unwrap();
    fs::remove_dir_all(&store).unwrap();
    copy(&old, &store);
    server.restart().await.unwrap();
    let journal = NatsJournal::connect(connect(&server.url()).await, one_shard()).await.unwrap();
    // A gateway that ran through it knows a checkpoint that is gone; and read models are ahead of their shard.
    let said = Said::of(&journal, &mut running, &Written { commits: [before.commits, after.commits].concat() }).await;
    assert!(said.position.is_some() && said.lost > 0, "{said:?}");
    assert!(matches!(said.alarm, Some(Alarm::Vanished { .. } | Alarm::Truncated { .. })), "{said:?}");
}

/// One of three servers is put back to an older copy of its store, or has flipped bits, and leads afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_damaged_server_of_three_loses_nothing_in_silence() {
    let mut servers = NatsCluster::open().await.unwrap();
    let client = connect(&servers.url()).await;
    let options = Options { replicas: 3, ..one_shard() };
    let journal = cluster::journal(&client, options.clone()).await;
    let mut commits = Written::write(&journal).await.commits;
    cluster::level(&client, 1).await;
    let victim = 0;
    let (store, old) = (servers.directory_of(victim).join("jetstream"), servers.directory_of(victim).join("old"));
    servers.stop(victim).await.unwrap();
    copy(&store, &old);
    servers.restart(victim).unwrap();
    servers.current(victim).await.unwrap();
    commits.extend(Written::write(&journal).await.commits);
    cluster::level(&client, 1).await;
    for is_put_back in [true, false] {
        servers.stop(victim).await.unwrap();
        if is_put_back {
            fs::remove_dir_all(&store).unwrap();
            copy(&old, &store);
        } else {
            let files = Files::of(servers.directory_of(victim), "EVT_00");
            files.flip(LAST, BODY);
            files.flip(ONLY, BODY);
        }
        servers.restart(victim).unwrap();
        servers.current(victim).await.unwrap();
        leads(&client, &servers, victim).await;
        let journal = cluster::journal(&client, options.clone()).await;
        let written = Written { commits: commits.clone() };
        for id in written.ids() {
            match cluster::until("a load", || async {
                match journal.load(&id).await {
                    Err(ReadError::Unavailable(_)) => None,
                    loaded => Some(loaded),
                }
            })
            .await
            {
                Ok(loaded) => {
                    let found: Vec<Position> = loaded.iter().map(|commit| commit.position).collect();
                    assert_eq!(found, written.of(&id), "put back: {is_put_back}");
                }
                Err(error) => assert!(matches!(error, ReadError::Unreadable { .. }) && !is_put_back, "{error}"),
            }
        }
        assert_eq!(journal.head(0).await.unwrap(), written.head().position.sequence, "put back: {is_put_back}");
    }
}

/// Waits until the victim leads the shard's stream.
async fn leads(client: &async_nats::Client, servers: &NatsCluster, victim: usize) {
    cluster::until("the damaged server leads", || async {
        if servers.node_of(&cluster::leader(client, "EVT_00").await) == Some(victim) {
            return Some(());
        }
        cluster::step_down(client, "EVT_00").await;
        None
    })
    .await;
}
