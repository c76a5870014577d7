//! Reading a shard page after page: by consumers where they can be had, and the same where they can not.

use std::collections::HashSet;

use async_nats::jetstream::{self, stream::Stream};
use futures::{TryStreamExt, future::join_all};
use tokio::time::timeout;

use devkit::NatsServer;
use journal::{
    Position, Recorded, ShardLog, StreamStore,
    conformance::{commit, fresh_in},
};
use journal_jetstream::store::{NatsJournal, Options};

use crate::support::{cluster::PATIENCE, connect, options};

const SHARDS: u16 = 2;
/// As many as the read models ask for.
const PAGE: usize = 512;

struct Shard {
    server: NatsServer,
    journal: NatsJournal,
    stream: Stream,
}

impl Shard {
    async fn open() -> Self {
        Self::with(options()).await
    }

    async fn with(options: Options) -> Self {
        let server = NatsServer::open().await.unwrap();
        let client = connect(&server.url()).await;
        let journal = NatsJournal::connect(client.clone(), options).await.unwrap();
        let stream = jetstream::new(client).get_stream("EVT_00").await.unwrap();
        Self { server, journal, stream }
    }

    /// Another process's journal, which has read nothing yet.
    async fn other(&self) -> NatsJournal {
        NatsJournal::connect(connect(&self.server.url()).await, options()).await.unwrap()
    }

    /// Adds payments with a commit each, and a second one for some of them.
    async fn grow(&self, count: usize) {
        let appends = (0..count).map(|number| async move {
            let id = fresh_in(0, SHARDS);
            let first = self.journal.append(&commit(&id, Position::START, "first")).await.unwrap();
            if number % 3 == 0 {
                self.journal.append(&commit(&id, first.position, "second")).await.unwrap();
            }
        });
        join_all(appends).await;
    }

    async fn consumers(&self) -> HashSet<String> {
        self.stream.consumer_names().try_collect().await.unwrap()
    }
}

/// The commits from `from` on, page by page.
async fn follow(journal: &NatsJournal, from: u64, page: usize) -> Vec<Recorded> {
    let mut commits: Vec<Recorded> = Vec::new();
    loop {
        let read = journal.replay(0, from + commits.len() as u64, page).await.unwrap();
        let ended = read.len() < page;
        commits.extend(read);
        if ended {
            return commits;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_are_the_same_with_and_without_a_consumer() {
    let shard = Shard::open().await;
    shard.grow(1_000).await;
    // An auditor reads by Direct Gets, and so does who asks for few.
    let auditor = NatsJournal::bind(connect(&shard.server.url()).await, Options::default()).await.unwrap();
    let expected = follow(&auditor, 1, PAGE).await;
    assert!(expected.len() > 2 * PAGE, "{}", expected.len());
    assert_eq!(follow(&shard.journal, 1, PAGE / 8).await, expected);
    assert_eq!(shard.consumers().await.len(), 0);

    assert_eq!(follow(&shard.journal, 1, PAGE).await, expected);
    assert_eq!(shard.consumers().await.len(), 1, "one for all pages");
    assert_eq!(shard.journal.replay(0, 0, usize::MAX).await.unwrap(), expected);
    assert_eq!(shard.journal.replay(0, 100, PAGE).await.unwrap(), expected[99..99 + PAGE]);
    let head = expected.len() as u64;
    for from in [head + 1, head + 2, head + 1_000] {
        assert_eq!(shard.journal.replay(0, from, PAGE).await.unwrap(), Vec::new(), "{from}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_fell_behind_has_one_consumer_from_then_on() {
    let shard = Shard::open().await;
    let other = shard.other().await;
    let mut followed = Vec::new();
    for round in 0..5 {
        // What is there already is asked for twice, as by who was told too early.
        assert_eq!(other.replay(0, followed.len() as u64 + 1, PAGE).await.unwrap(), Vec::new());
        shard.grow(1 + 150 * round).await;
        followed.extend(follow(&other, followed.len() as u64 + 1, PAGE).await);
        assert_eq!(followed.len() as u64, shard.journal.head(0).await.unwrap());
        // None for what is new, and one from the first page that was full on.
        assert_eq!(shard.consumers().await.len(), usize::from(round >= 3));
    }
    assert_eq!(followed, follow(&shard.journal, 1, PAGE / 8).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_is_gone_or_was_read_by_another_costs_nothing_but_time() {
    let shard = Shard::open().await;
    shard.grow(1_200).await;
    let expected = follow(&shard.journal, 1, PAGE / 8).await;
    let other = shard.other().await;
    let mut read = other.replay(0, 1, PAGE).await.unwrap();
    for name in shard.consumers().await {
        shard.stream.delete_consumer(&name).await.unwrap();
    }
    read.extend(other.replay(0, read.len() as u64 + 1, PAGE).await.unwrap());
    assert_eq!(read, expected[..2 * PAGE]);

    // Somebody takes what it would have delivered next.
    let name = shard.consumers().await.into_iter().next().expect("there is one again");
    let consumer: jetstream::consumer::PullConsumer = shard.stream.get_consumer(&name).await.unwrap();
    let stolen: Vec<_> = consumer.fetch().max_messages(10).messages().await.unwrap().try_collect().await.unwrap();
    assert_eq!(stolen.len(), 10);
    read.extend(follow(&other, read.len() as u64 + 1, PAGE).await);
    assert_eq!(read, expected);
}

/// What comes while a page is on its way is in the next one, and not lost with the first. In a cluster each consumer is put
/// to the vote, so none is made for what is new.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_grows_all_the_while_is_followed_without_a_consumer() {
    let shard = Shard::open().await;
    let other = shard.other().await;
    let mut followed = Vec::new();
    for _ in 0..40 {
        // Each round reads a page while the shard grows: what the last round left there, or what comes now.
        let seen = followed.len() as u64;
        let page = async {
            loop {
                let read = other.replay(0, seen + 1, PAGE).await.unwrap();
                if !read.is_empty() {
                    break read;
                }
                other.wait_beyond(0, seen).await.unwrap();
            }
        };
        let (_, read) = tokio::join!(shard.grow(30), timeout(PATIENCE, page));
        followed.extend(read.expect("what was appended is read"));
    }
    followed.extend(follow(&other, followed.len() as u64 + 1, PAGE).await);
    assert_eq!(followed, follow(&shard.journal, 1, PAGE / 8).await);
    assert_eq!(shard.consumers().await.len(), 0);
}

/// More readers than consumers are kept for, each at its own place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_do_not_get_in_each_others_way() {
    // What is read is judged, and not how soon: a dozen readers at a time take a busy machine longer than a gateway waits.
    let shard = Shard::with(Options { read_timeout: PATIENCE, ..options() }).await;
    shard.grow(1_500).await;
    let expected = follow(&shard.journal, 1, PAGE / 8).await;
    let readers = (0..12).map(|number| {
        let journal = shard.journal.clone();
        tokio::spawn(async move { follow(&journal, 1 + number, 256 + number as usize).await })
    });
    for (number, read) in join_all(readers).await.into_iter().enumerate() {
        assert_eq!(read.unwrap(), expected[number..]);
    }
}

/// Far more bytes than are asked for at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_commits_make_pages_too() {
    let shard = Shard::open().await;
    for number in 0..60 {
        let text = number.to_string().repeat(100 * 1024);
        shard.journal.append(&commit(&fresh_in(0, SHARDS), Position::START, &text)).await.unwrap();
    }
    let expected = follow(&shard.journal, 1, 5).await;
    assert_eq!(expected.len(), 60);
    assert_eq!(follow(&shard.journal, 1, PAGE).await, expected);
    assert_eq!(shard.consumers().await.len(), 1);
}
