//! The journal on three nats-servers while they fail: leaders killed and deposed, servers that hang, a lost majority, what
//! a cluster answers to those who try again, and what becomes of those who work a shard meanwhile.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_nats::Client;
use futures::future::join_all;
use serde_json::Value;
use tokio::time::timeout;

use devkit::NatsCluster;
use events::{CommitId, StreamId};
use journal::{
    AppendError, Position, ShardLeases, ShardLog, ShardWorker, StreamStore, WakeUp,
    conformance::{commit, epochs::Operator, fresh, fresh_in},
    envelope,
};
use journal_jetstream::store::{NatsJournal, Options};

use crate::support::{
    cluster::{PATIENCE, api, journal, leader, level, step_down, three, until},
    connect,
    epochs::FromNats,
    load::{Load, load},
};

/// Faults of each kind in one test.
const ROUNDS: usize = 3;

struct Three {
    cluster: NatsCluster,
    client: Client,
    journal: NatsJournal,
}

/// A cluster, and a journal that gives a single attempt little time.
async fn start() -> Three {
    let cluster = NatsCluster::open().await.unwrap();
    let client = connect(&cluster.url()).await;
    let quick = Options { attempt_timeout: Duration::from_millis(500), ..three() };
    let journal = journal(&client, quick).await;
    Three { cluster, client, journal }
}

impl Three {
    /// The server that leads the stream of shard `shard`.
    async fn leader(&self, shard: u16) -> usize {
        let name = leader(&self.client, &envelope::stream(shard)).await;
        self.cluster.node_of(&name).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_killed_under_load_loses_nothing_and_repeats_nothing() {
    let mut three = start().await;
    let load = Load::start(&three.journal, 12);
    for round in 0..ROUNDS {
        load.goes_on(100).await;
        let killed = three.leader(u16::try_from(round % 2).unwrap()).await;
        three.cluster.kill(killed).await.unwrap();
        // The two that are left are enough.
        load.goes_on(100).await;
        three.cluster.restart(killed).unwrap();
        three.cluster.ready(killed).await.unwrap();
        level(&three.client, 2).await;
    }
    load.check(&three.journal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_that_give_way_under_load_lose_nothing_and_repeat_nothing() {
    let three = start().await;
    let load = Load::start(&three.journal, 12);
    let mut deposed = 0;
    while deposed < 2 * ROUNDS {
        load.goes_on(50).await;
        for shard in 0..2 {
            deposed += usize::from(step_down(&three.client, &envelope::stream(shard)).await);
        }
    }
    load.goes_on(50).await;
    load.check(&three.journal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_hang_under_load_lose_nothing_and_repeat_nothing() {
    let three = start().await;
    let load = Load::start(&three.journal, 12);
    for round in 0..ROUNDS {
        load.goes_on(50).await;
        // The leader once, whoever leads the other shard next; the client may be connected to it or not.
        let hung = three.leader(u16::try_from(round % 2).unwrap()).await;
        three.cluster.pause(hung).await.unwrap();
        load.goes_on(50).await;
        // It still believes to lead, with what it had taken in before.
        three.cluster.resume(hung).await.unwrap();
        level(&three.client, 2).await;
    }
    load.check(&three.journal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_at_a_server_that_is_behind_sees_every_acknowledged_append() {
    let three = start().await;
    let (id, shard) = (fresh_in(0, 2), 0);
    let mut last = three.journal.append(&commit(&id, Position::START, "0")).await.unwrap();
    let subject = format!("$JS.API.DIRECT.GET.{}.{}", envelope::stream(shard), envelope::subject(shard, &id));
    let mut stale = 0;
    // Whether it answers before it has caught up is the server's affair, so it takes more than one try.
    for round in 0..40 {
        let leader = three.leader(shard).await;
        let behind = (leader + 1) % three.cluster.len();
        let writer =
            journal(&connect(&three.cluster.url_of((leader + 2) % 3)).await, crate::support::cluster::three()).await;
        let local = connect(&three.cluster.url_of(behind)).await;
        let reader = journal(&local, crate::support::cluster::three()).await;
        three.cluster.pause(behind).await.unwrap();
        for n in 0..20 {
            last = writer.append(&commit(&id, last.position, &format!("{round} {n}"))).await.unwrap();
        }
        // Asked while it hangs, so that the questions are the first thing it finds.
        let ask = async {
            let asked = (0..20).map(|_| local.request(subject.clone(), "".into()));
            tokio::join!(join_all(asked), load(&reader, &id))
        };
        let resume = async {
            local.flush().await.unwrap();
            three.cluster.resume(behind).await.unwrap();
        };
        let ((raw, read), ()) = tokio::join!(ask, resume);
        let sequence = |raw: async_nats::Message| raw.headers?.get("Nats-Sequence")?.as_str().parse::<u64>().ok();
        let seen = raw.into_iter().filter_map(|raw| sequence(raw.ok()?));
        stale += seen.filter(|seen| *seen < last.position.sequence).count();
        assert_eq!(read.last().map(|commit| commit.position), Some(last.position));
        assert_eq!(u64::try_from(read.len()).unwrap(), last.position.version);
        level(&three.client, 2).await;
        if stale > 0 {
            return;
        }
    }
    panic!("no replica was ever behind, so this has shown nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_nothing_succeeds_and_with_it_everything_goes_on() {
    let mut three = start().await;
    let short = Options {
        append_timeout: Duration::from_secs(3),
        attempt_timeout: Duration::from_millis(500),
        ..crate::support::cluster::three()
    };
    let left = three.leader(0).await;
    let alone = journal(&connect(&three.cluster.url_of(left)).await, short).await;
    let before = fresh();
    let first = alone.append(&commit(&before, Position::START, "before")).await.unwrap();
    level(&three.client, 2).await;
    let lost: Vec<usize> = (0..3).filter(|n| *n != left).collect();
    for n in &lost {
        three.cluster.kill(*n).await.unwrap();
    }
    let attempts: Vec<_> = (0..6).map(|n| commit(&fresh(), Position::START, &n.to_string())).collect();
    let second = commit(&before, first.position, "second");
    let outcomes = join_all(attempts.iter().chain([&second]).map(|commit| alone.append(commit))).await;
    for outcome in &outcomes {
        let refused = matches!(outcome, Err(AppendError::Unavailable(_) | AppendError::Unknown(_)));
        assert!(refused, "one copy of three is not a success: {outcome:?}");
    }
    for n in &lost {
        three.cluster.restart(*n).unwrap();
    }
    for n in lost {
        three.cluster.ready(n).await.unwrap();
    }
    // The one whose outcome was not known is appended again under the same id and found, or stored now.
    for (attempt, outcome) in attempts.iter().zip(&outcomes) {
        if matches!(outcome, Err(AppendError::Unavailable(_))) {
            assert!(load(&alone, &attempt.stream_id).await.is_empty(), "what was denied is stored");
        }
        until("an append with all servers back", || async { alone.append(attempt).await.ok() }).await;
        assert_eq!(load(&alone, &attempt.stream_id).await.len(), 1);
    }
    until("a second append", || async { alone.append(&second).await.ok() }).await;
    assert_eq!(load(&alone, &before).await.len(), 2);
}

/// Begins streams until told to stop, and counts.
async fn begin_streams(journal: NatsJournal, stop: Arc<AtomicBool>, count: Arc<AtomicUsize>) -> Vec<StreamId> {
    let mut opened = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let id = fresh();
        let opening = commit(&id, Position::START, "first");
        until("a first commit", || async { journal.append(&opening).await.ok() }).await;
        opened.push(id);
        count.fetch_add(1, Ordering::SeqCst);
    }
    opened
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_epoch_that_is_sealed_under_load_is_the_same_on_all_servers() {
    let three = start().await;
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let goes_on = |more: usize| {
        let (count, so_far) = (count.clone(), count.load(Ordering::SeqCst));
        async move {
            until("more first commits", || async { (count.load(Ordering::SeqCst) > so_far + more).then_some(()) }).await
        }
    };
    let mut tasks = Vec::new();
    for n in 0..9 {
        let client = connect(&three.cluster.url_of(n % 3)).await;
        let journal = journal(&client, crate::support::cluster::three()).await;
        tasks.push(tokio::spawn(begin_streams(journal, stop.clone(), count.clone())));
    }
    let operator = FromNats(three.journal.clone());
    for epoch in 0..3 {
        goes_on(50).await;
        operator.begin(2).await;
        // Everybody leaves marks in the epoch that is sealed under them.
        goes_on(50).await;
        operator.seal(epoch).await;
    }
    goes_on(50).await;
    stop.store(true, Ordering::SeqCst);
    let mut opened = Vec::new();
    for task in tasks {
        opened.extend(timeout(PATIENCE, task).await.unwrap().unwrap());
    }
    let mut heads = Vec::new();
    for n in 0..3 {
        let client = connect(&three.cluster.url_of(n)).await;
        let auditor = NatsJournal::bind(client, Options::default()).await.unwrap();
        let all = until("the commits of every shard", || async {
            let mut all = Vec::new();
            for shard in 0..auditor.shards() {
                let commits = auditor.replay(shard, 1, usize::MAX).await.ok()?;
                let last = commits.last().map_or(0, |last| last.position.sequence);
                (last == three.journal.head(shard).await.ok()?).then_some(())?;
                all.extend(commits);
            }
            Some(all)
        })
        .await;
        for id in &opened {
            let begun = all.iter().filter(|commit| commit.stream_id == *id && !commit.is_moved()).count();
            assert_eq!(begun, 1, "{id} on server {n}");
        }
        heads.push(all.iter().map(|commit| (commit.position, commit.commit_id.clone())).collect::<Vec<_>>());
    }
    assert!(heads.windows(2).all(|pair| pair[0] == pair[1]));
}

/// What a server answered to one publish: a code, or `stored`, `duplicate` or `silence`.
async fn publish(client: &Client, subject: &str, id: &str, expected: u64) -> String {
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Msg-Id", id);
    headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string().as_str());
    let answer = client.request_with_headers(subject.to_owned(), headers, "[]".into()).await;
    let Ok(answer) = answer else { return "silence".to_owned() };
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
    match (&answer["error"]["err_code"], answer["duplicate"].as_bool()) {
        (Value::Number(code), _) => code.to_string(),
        (_, Some(true)) => "duplicate".to_owned(),
        _ => "stored".to_owned(),
    }
}

/// The answers to a retry that the journal tells apart. Each is given by a real cluster, and none of them stores twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answers_to_a_retry_are_those_the_journal_knows() {
    let three = start().await;
    let shard = 0;
    let other = connect(&three.cluster.url_of(1)).await;
    let clients = [&three.client, &other];
    let mut seen = BTreeSet::new();
    let wanted: BTreeSet<String> = ["10071", "10158", "10164", "duplicate"].map(str::to_owned).into();
    // Some are only given while the first is still on its way to the other servers, so it takes more than one try.
    for _ in 0..200 {
        let subject = envelope::subject(shard, &fresh_in(shard, 2));
        let id = CommitId::random().to_string();
        let same = join_all((0..20).map(|n| publish(clients[n % 2], &subject, &id, 0))).await;
        assert_eq!(same.iter().filter(|answer| *answer == "stored").count(), 1, "{same:?}");
        let ids: Vec<String> = (0..20).map(|_| CommitId::random().to_string()).collect();
        let openings = envelope::subject(shard, &fresh_in(shard, 2));
        let others = ids.iter().enumerate().map(|(n, id)| publish(clients[n % 2], &openings, id, 0));
        let others = join_all(others).await;
        assert_eq!(others.iter().filter(|answer| *answer == "stored").count(), 1, "{others:?}");
        seen.extend(same.into_iter().chain(others));
        seen.insert(publish(&three.client, &subject, &id, 0).await);
        if wanted.is_subset(&seen) {
            break;
        }
    }
    seen.remove("stored");
    assert!(wanted.is_subset(&seen), "{seen:?}");
}

/// The stream of the leases.
const LEASES: &str = "KV_gw_leases";
/// How long a lease lasts.
const LEASE: Duration = Duration::from_millis(800);

async fn next(worker: &mut Box<dyn ShardWorker>) -> WakeUp {
    timeout(PATIENCE, worker.next()).await.expect("no wake-up came").unwrap()
}

/// Appends to shard 0 and waits until the worker is woken for it.
async fn woken(journal: &NatsJournal, worker: &mut Box<dyn ShardWorker>, n: usize) {
    let id = fresh_in(0, 2);
    let first = commit(&id, Position::START, &n.to_string());
    until("an append", || async { journal.append(&first).await.ok() }).await;
    loop {
        match next(worker).await {
            WakeUp::Event { stream_id, .. } if stream_id == id => return,
            WakeUp::Event { .. } => {}
            other => panic!("{other:?} while nobody else could own the shard"),
        }
    }
}

/// Revision of the lease on shard 0, once somebody tells.
async fn renewed(client: &Client) -> Option<u64> {
    let answer =
        api(client, format!("$JS.API.STREAM.MSG.GET.{LEASES}"), r#"{"last_by_subj":"$KV.gw_leases.00"}"#).await?;
    answer["message"]["seq"].as_u64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_stay_with_their_owners_while_the_leases_have_no_leader() {
    let mut three = start().await;
    let mut owner = three.journal.work(0, "owner").await;
    assert!(matches!(next(&mut owner).await, WakeUp::Acquired));
    let other = journal(&connect(&three.cluster.url()).await, crate::support::cluster::three()).await;
    let mut stand_by = other.work(0, "stand-by").await;
    for round in 0..ROUNDS {
        // A server that leads the shard's stream as well would stop the shard in another way.
        while leader(&three.client, LEASES).await == leader(&three.client, &envelope::stream(0)).await {
            step_down(&three.client, LEASES).await;
        }
        woken(&three.journal, &mut owner, round).await;
        let before = until("the lease", || renewed(&three.client)).await;
        let killed = three.cluster.node_of(&leader(&three.client, LEASES).await).unwrap();
        three.cluster.kill(killed).await.unwrap();
        let since = Instant::now();
        while renewed(&three.client).await.is_none_or(|revision| revision <= before + 1) {
            woken(&three.journal, &mut owner, round).await;
        }
        let away = since.elapsed();
        woken(&three.journal, &mut owner, round).await;
        let taken = timeout(Duration::from_millis(1), stand_by.next()).await;
        assert!(taken.is_err(), "{taken:?}");
        if away > LEASE {
            return;
        }
        three.cluster.restart(killed).unwrap();
        three.cluster.ready(killed).await.unwrap();
        level(&three.client, 2).await;
    }
    panic!("the leases were never without a leader for as long as one lasts, so this has shown nothing");
}
