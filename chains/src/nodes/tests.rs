//! Tests of the pool on nodes in memory: who is asked, who is believed, and what is counted against whom.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use sagas::ports::Transient;

use super::*;

/// What a node does when it is asked.
#[derive(Debug, Clone)]
enum Does {
    Says(u64),
    SaysAfter(u64, Duration),
    HasNothing,
    Refuses,
    IsDead,
    Hangs,
    IsForeign,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    Silent(Transient),
    Refused,
}

impl From<Transient> for Fault {
    fn from(fault: Transient) -> Self {
        Self::Silent(fault)
    }
}

impl From<Fault> for Transient {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Silent(fault) => fault,
            Fault::Refused => Self::contradiction("refused"),
        }
    }
}

#[derive(Debug, Clone)]
struct TestNode {
    does: Arc<Mutex<Does>>,
    asked: Arc<AtomicUsize>,
}

impl TestNode {
    fn new(does: Does) -> Self {
        Self { does: Arc::new(Mutex::new(does)), asked: Arc::default() }
    }

    fn now(&self, does: Does) {
        *self.does.lock().unwrap() = does;
    }

    fn asked(&self) -> usize {
        self.asked.swap(0, Ordering::Relaxed)
    }
}

impl Endpoint for TestNode {
    type Question = &'static str;
    type Answer = Option<u64>;
    type Fault = Fault;

    async fn check(&self) -> Result<(), Fault> {
        match *self.does.lock().unwrap() {
            Does::IsForeign => Err(Transient::misconfigured("of another chain").into()),
            _ => Ok(()),
        }
    }

    async fn ask(&self, _: &&'static str) -> Result<Option<u64>, Fault> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let does = self.does.lock().unwrap().clone();
        match does {
            Does::Says(number) => Ok(Some(number)),
            Does::SaysAfter(number, time) => {
                tokio::time::sleep(time).await;
                Ok(Some(number))
            }
            Does::HasNothing => Ok(None),
            Does::Refuses => Err(Fault::Refused),
            Does::IsDead => Err(Transient::unreachable("dead").into()),
            Does::Hangs => std::future::pending().await,
            Does::IsForeign => Err(Transient::misconfigured("of another chain").into()),
        }
    }

    fn silence(fault: &Fault) -> Option<&Transient> {
        match fault {
            Fault::Silent(fault) => Some(fault),
            Fault::Refused => None,
        }
    }

    fn compare(_: &&'static str, one: &Option<u64>, other: &Option<u64>) -> Verdict {
        match (one, other) {
            (None, Some(_)) => Verdict::Behind,
            (Some(_), None) => Verdict::Ahead,
            (one, other) if one == other => Verdict::Same,
            _ => Verdict::Differs,
        }
    }

    fn name<'a>(question: &'a &'static str) -> &'a str {
        question
    }
}

/// Nodes of as many origins, all of weight 1.
fn pool(nodes: &[&TestNode]) -> Pool<TestNode> {
    let at = |place: usize| format!("http://127.0.0.1:{}", 7_000 + place);
    weighted(nodes.iter().enumerate().map(|(place, node)| ((*node).clone(), at(place), 1)))
}

fn weighted(nodes: impl IntoIterator<Item = (TestNode, String, u32)>) -> Pool<TestNode> {
    let settings = Settings { chain_id: "eip155:1".parse().unwrap(), lag_blocks_max: 3, has_clock: true };
    Pool::new(settings, nodes)
}

fn says(number: u64) -> TestNode {
    TestNode::new(Does::Says(number))
}

#[tokio::test(start_paused = true)]
async fn given_two_nodes_when_they_differ_then_nothing_is_believed() {
    let (honest, liar) = (says(1), says(2));
    let pool = pool(&[&honest, &liar]);
    let fault = pool.agreed(&"state").await.unwrap_err();
    assert!(matches!(&fault, Fault::Silent(Transient::Contradiction(_))), "{fault:?}");
    // Nor when the other has nothing, or is dead, or is of another chain.
    for does in [Does::HasNothing, Does::IsDead, Does::Refuses] {
        liar.now(does.clone());
        assert!(pool.agreed(&"state").await.is_err(), "{does:?}");
    }
    liar.now(Does::Says(1));
    assert_eq!(pool.agreed(&"state").await, Ok(Some(1)));
}

#[tokio::test(start_paused = true)]
async fn given_three_nodes_when_one_lies_then_the_other_two_are_believed_and_it_is_asked_last() {
    let nodes = [says(2), says(1), says(1)];
    let pool = pool(&[&nodes[0], &nodes[1], &nodes[2]]);
    for _ in 0..6 {
        assert_eq!(pool.agreed(&"state").await, Ok(Some(1)));
    }
    nodes[0].asked();
    for _ in 0..6 {
        assert_eq!(pool.agreed(&"state").await, Ok(Some(1)));
    }
    assert_eq!(nodes[0].asked(), 0, "who was alone with its word is asked when others cannot be");
    // It counts again where it is needed.
    nodes[1].now(Does::IsDead);
    assert!(pool.agreed(&"state").await.is_err());
    nodes[0].now(Does::Says(1));
    assert_eq!(pool.agreed(&"state").await, Ok(Some(1)));
}

#[tokio::test(start_paused = true)]
async fn given_three_nodes_when_one_is_dead_or_silent_or_foreign_then_the_others_go_on() {
    for does in [Does::IsDead, Does::Hangs, Does::IsForeign, Does::Refuses, Does::HasNothing] {
        let nodes = [TestNode::new(does.clone()), says(1), says(1)];
        let pool = pool(&[&nodes[0], &nodes[1], &nodes[2]]);
        for _ in 0..9 {
            assert_eq!(pool.agreed(&"state").await, Ok(Some(1)), "{does:?}");
            assert_eq!(pool.each(&"head").await.unwrap().len(), 2, "{does:?}");
            if !matches!(does, Does::HasNothing) {
                assert_eq!(pool.any(&"fees").await, Ok(Some(1)), "{does:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn given_three_nodes_when_one_is_not_yet_there_then_two_that_are_speak_and_with_two_all_is_told() {
    let nodes = [says(7), says(9), says(10)];
    let is_there = |said: &Option<u64>| *said >= Some(9);
    let said = |answers: Vec<(usize, Option<u64>)>| {
        let mut said: Vec<_> = answers.into_iter().map(|(_, said)| said).collect();
        said.sort_unstable();
        said
    };
    let three = pool(&[&nodes[0], &nodes[1], &nodes[2]]);
    let two = pool(&[&nodes[0], &nodes[2]]);
    for _ in 0..6 {
        assert_eq!(said(three.each_there(&"head", is_there).await.unwrap()), [Some(9), Some(10)]);
        assert_eq!(said(two.each_there(&"head", is_there).await.unwrap()), [Some(7), Some(10)]);
    }
    nodes[2].now(Does::IsDead);
    assert_eq!(said(three.each_there(&"head", is_there).await.unwrap()), [Some(7), Some(9)]);
    assert!(two.each_there(&"head", is_there).await.is_err(), "one of two is not enough");
}

#[tokio::test(start_paused = true)]
async fn given_one_origin_twice_when_money_needs_two_nodes_then_it_has_one_vote() {
    let (liar, again, honest) = (says(2), says(2), says(1));
    let urls = ["http://liar.example/a", "https://LIAR.example/b", "http://honest.example"];
    let nodes = [&liar, &again, &honest].into_iter().zip(urls);
    let pool = weighted(nodes.map(|(node, url)| (node.clone(), url.to_owned(), 1)));
    assert_eq!(pool.quorum(), 2);
    for _ in 0..4 {
        assert!(pool.agreed(&"state").await.is_err());
        assert_eq!(pool.each(&"head").await.unwrap().iter().filter(|(_, said)| *said == Some(1)).count(), 1);
    }
    // The other address of the origin takes the place of the one that is dead.
    liar.now(Does::IsDead);
    again.now(Does::Says(1));
    assert_eq!(pool.agreed(&"state").await, Ok(Some(1)));
    let alone = weighted([(liar, "http://a.example/1".to_owned(), 1), (again, "http://a.example/2".to_owned(), 1)]);
    assert_eq!(alone.quorum(), 1);
    assert_eq!(alone.agreed(&"state").await, Ok(Some(1)), "with one origin all is as with one node");
}

#[tokio::test(start_paused = true)]
async fn given_a_node_that_is_slow_on_purpose_when_others_are_fast_then_it_holds_nobody_up_for_long() {
    let nodes = [TestNode::new(Does::SaysAfter(1, Duration::from_secs(4))), says(1), says(1)];
    let pool = pool(&[&nodes[0], &nodes[1], &nodes[2]]);
    let begun = Instant::now();
    for _ in 0..30 {
        assert_eq!(pool.agreed(&"state").await, Ok(Some(1)));
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn given_weights_when_one_node_is_enough_then_each_has_its_share() {
    let (much, little) = (says(1), says(1));
    let urls = ["http://much.example", "http://little.example"].map(str::to_owned);
    let [of_much, of_little] = urls;
    let pool = weighted([(much.clone(), of_much, 3), (little.clone(), of_little, 1)]);
    for _ in 0..40 {
        pool.any(&"fees").await.unwrap();
    }
    assert_eq!((much.asked(), little.asked()), (30, 10));
}

#[tokio::test(start_paused = true)]
async fn given_a_node_that_lags_when_heads_are_known_then_it_is_asked_last() {
    let nodes = [says(1), says(1), says(1)];
    let pool = pool(&[&nodes[0], &nodes[1], &nodes[2]]);
    for (node, height) in [(0, 10), (1, 100), (2, 99)] {
        pool.note_height(node, height);
    }
    for _ in 0..6 {
        pool.agreed(&"state").await.unwrap();
    }
    assert_eq!(nodes.each_ref().map(TestNode::asked), [0, 6, 6]);
    // Who makes up blocks makes nobody lag.
    pool.note_height(0, u64::MAX);
    for _ in 0..6 {
        pool.agreed(&"state").await.unwrap();
    }
    assert_eq!(nodes.each_ref().map(TestNode::asked), [4, 4, 4]);
    let reports = pool.report(&"head", |said| *said).await;
    assert!(reports.iter().all(|one| one.outcome == NodeOutcome::Answers { head: 1, lag_blocks: 0 }), "{reports:?}");
}

#[tokio::test(start_paused = true)]
async fn given_a_transaction_when_one_node_takes_it_then_it_is_sent_and_a_refusal_needs_all() {
    let nodes = [TestNode::new(Does::Refuses), says(1), TestNode::new(Does::Hangs)];
    let pool = pool(&[&nodes[0], &nodes[1], &nodes[2]]);
    assert_eq!(pool.send(&"send").await, Ok(Some(1)));
    assert_eq!(nodes.each_ref().map(TestNode::asked), [1, 1, 1]);
    nodes[1].now(Does::IsDead);
    nodes[2].now(Does::Refuses);
    // What a silent node was sent may be on its way.
    assert!(matches!(pool.send(&"send").await, Err(Fault::Silent(_))));
    nodes[1].now(Does::Refuses);
    assert_eq!(pool.send(&"send").await, Err(Fault::Refused));
}

#[tokio::test(start_paused = true)]
async fn given_nodes_without_an_answer_when_they_are_looked_at_then_each_is_told_for_itself() {
    let nodes = [says(7), TestNode::new(Does::IsDead), TestNode::new(Does::IsForeign), says(5)];
    let pool = pool(&[&nodes[0], &nodes[1], &nodes[2], &nodes[3]]);
    let outcomes: Vec<_> = pool.report(&"head", |said| *said).await.into_iter().map(|one| one.outcome).collect();
    assert_eq!(
        outcomes,
        [
            NodeOutcome::Answers { head: 7, lag_blocks: 0 },
            NodeOutcome::Silent("dead".to_owned()),
            NodeOutcome::Unusable("of another chain".to_owned()),
            NodeOutcome::Answers { head: 5, lag_blocks: 2 },
        ]
    );
}
