//! Settlers' records: given the events of payments and batches, what is on record of whom.

mod reassigned;

use std::{sync::Arc, time::Duration};

use tempfile::TempDir;

use events::{
    Did, Hash32, PaymentEvent, PaymentId, QuoteRequestId,
    event::{
        AwardLapsed, AwardWithdrawn, CollectedDocument, CollectedQuote, QuoteAwarded, QuoteReceived, RefundDue,
        WithdrawalCause,
    },
    quote::SignedQuote,
};
use projections::{Projections, RecentRecords, Unavailable};
use sagas::{
    ports::SettlerRecords,
    settler_record::{AwardOutcome, DeliveryTime, OUTCOMES_KEPT, SettlerRecord, TIMES_KEPT, originator_tag},
};

use crate::support::*;

const SHARDS: u16 = 4;
/// A quote as it was signed and stored once.
const STORED_QUOTE: &str = include_str!("../../events/tests/quotes/jcs.json");

fn quote_hash(settler: &str) -> Hash32 {
    Hash32::sha256(settler)
}

/// An auction in which `asked` were asked, `offered` offered to deliver by second 90, and the rest declined.
fn auction(asked: &[&str], offered: &[&str]) -> PaymentEvent {
    let declines: Vec<_> =
        asked.iter().filter(|name| !offered.contains(name)).map(|name| (*name, "NO_INVENTORY")).collect();
    let PaymentEvent::AuctionClosed(mut closed) = auction_closed(asked, &declines) else { unreachable!() };
    closed.quotes = offered
        .iter()
        .map(|name| QuoteReceived {
            settler: did(name),
            quote_hash: quote_hash(name),
            source_amount: amount(105),
            fulfill_by: at(90),
        })
        .collect();
    PaymentEvent::AuctionClosed(closed)
}

fn kept(settler: &str) -> CollectedDocument {
    CollectedDocument {
        quote_id: format!("quo_{settler}"),
        quote_hash: quote_hash(settler),
        valid_until: at(13),
        document: "{}".to_owned(),
    }
}

fn won(settler: &str, second: u64) -> PaymentEvent {
    PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
        quote_id: format!("quo_{settler}"),
        quote_hash: quote_hash(settler),
        document: "{}".to_owned(),
        awarded_at: at(second),
    }))
}

fn lapsed(settler: &str, refusal: Option<&str>, second: u64) -> PaymentEvent {
    PaymentEvent::AwardLapsed(AwardLapsed {
        settler: did(settler),
        quote_hash: quote_hash(settler),
        refusal: refusal.map(str::to_owned),
        lapsed_at: at(second),
    })
}

fn withdrawn(cause: WithdrawalCause) -> PaymentEvent {
    PaymentEvent::AwardWithdrawn(AwardWithdrawn { cause, withdrawn_at: at(14) })
}

fn refused() -> WithdrawalCause {
    WithdrawalCause::Refused { reason: "INSUFFICIENT_LIQUIDITY".to_owned() }
}

fn outcome(second: u64, is_missed: bool) -> AwardOutcome {
    let PaymentEvent::Submitted(submitted) = submitted(&PaymentId::derive("payer", "order-1")) else { unreachable!() };
    AwardOutcome { at: at(second), is_missed, originator: originator_tag(&submitted.originator) }
}

/// A submission by a payer of its own.
fn submitted_by(id: &PaymentId, payer: u64) -> PaymentEvent {
    let PaymentEvent::Submitted(mut first) = submitted(id) else { unreachable!() };
    first.originator = format!("payer-{payer}");
    PaymentEvent::Submitted(first)
}

fn missed_at(second: u64) -> AwardOutcome {
    outcome(second, true)
}

fn delivered_at(second: u64) -> AwardOutcome {
    outcome(second, false)
}

/// A payment that settler `a` wins, and what becomes of it, a commit each.
fn won_by_a(behind: Vec<Vec<PaymentEvent>>) -> Vec<Vec<PaymentEvent>> {
    [vec![auction(&["a"], &["a"]), won("a", 11)]].into_iter().chain(behind).collect()
}

fn stored_settler() -> Did {
    SignedQuote::parse_stored(STORED_QUOTE).unwrap().quote().settler.clone()
}

fn won_by_stored(second: u64) -> PaymentEvent {
    let PaymentEvent::QuoteAwarded(awarded) = won("stored", second) else { unreachable!() };
    PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded { document: STORED_QUOTE.to_owned(), ..*awarded }))
}

fn named(name: &str) -> Did {
    name.parse().unwrap_or_else(|_| did(name))
}

/// The records of `settlers` after a payment with these commits behind its submission.
async fn records(commits: Vec<Vec<PaymentEvent>>, settlers: &[&str]) -> Vec<Option<SettlerRecord>> {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(1)));
    let id = PaymentId::derive("payer", "order-1");
    journal.push(&id, vec![submitted(&id)]);
    for commit in commits {
        journal.push(&id, commit);
    }
    let following = Following::start(directory.path(), &journal).await;
    let records = settlers.iter().map(|name| following.projections.settler_record(&named(name)).unwrap()).collect();
    following.stop().await;
    records
}

async fn record_of_a(behind: Vec<Vec<PaymentEvent>>) -> SettlerRecord {
    records(won_by_a(behind), &["a"]).await.remove(0).unwrap()
}

fn asked_and_won() -> SettlerRecord {
    SettlerRecord { asked: 1, offered: 1, won: 1, last_won_at: Some(at(11)), ..SettlerRecord::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_asked_offers_or_declines() {
    let auction = auction(&["a", "b", "c"], &["a", "c"]);
    let found = records(vec![vec![auction, won("a", 11)]], &["a", "b", "c", "d"]).await;
    let asked = SettlerRecord { asked: 1, ..SettlerRecord::default() };
    let expected = [
        Some(asked_and_won()),
        Some(SettlerRecord { declined: 1, ..asked.clone() }),
        Some(SettlerRecord { offered: 1, ..asked }),
        None,
    ];
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_answers_twice_does_so_in_one_auction() {
    let declines = [("a", "NO_INVENTORY"), ("a", "INSUFFICIENT_LIQUIDITY")];
    let found = records(vec![vec![auction_closed(&["a"], &declines)]], &["a"]).await.remove(0);
    assert_eq!(found, Some(SettlerRecord { asked: 1, declined: 1, ..SettlerRecord::default() }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_counted_once_and_timed_by_its_blocks() {
    let behind = vec![
        vec![deposit_prepared(1, hash(0x11))],
        vec![deposit_abandoned(1), deposit_prepared(2, hash(0x12))],
        vec![secured(hash(0x12), 20)],
        vec![seen(hash(0x22), 29)],
        vec![finalized(hash(0x22), 30)],
        vec![confirmed(hash(0x22), 30)],
        vec![released()],
    ];
    let expected = SettlerRecord {
        acknowledged: 1,
        delivered: 1,
        outcomes: vec![delivered_at(30)],
        times: vec![DeliveryTime { at: at(30), seconds: 10 }],
        ..asked_and_won()
    };
    assert_eq!(record_of_a(behind).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_that_was_found_is_an_acknowledgement_too() {
    let record = record_of_a(vec![vec![secured(hash(0x12), 20)]]).await;
    assert_eq!(record, SettlerRecord { acknowledged: 1, ..asked_and_won() });
}

/// Secured at 20 and promised by 90, the last quarter begins behind 72.5.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_quarter_of_the_time_is_late() {
    for (block, late) in [(72, 0), (73, 1), (90, 1)] {
        let record = record_of_a(vec![vec![secured(hash(0x12), 20)], vec![confirmed(hash(0x22), block)]]).await;
        assert_eq!((record.delivered, record.late), (1, late), "{block}");
        assert_eq!(record.median_seconds(), Some(block as u32 - 20));
        assert_eq!(record.outcomes, [delivered_at(block)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_in_escrow_and_not_delivered_is_missed_and_a_failure_before_is_not() {
    let refund = RefundDue::AfterWindow;
    let record = record_of_a(vec![vec![secured(hash(0x12), 20)], vec![failed(refund, None)]]).await;
    let expected = SettlerRecord { acknowledged: 1, missed: 1, outcomes: vec![missed_at(60)], ..asked_and_won() };
    assert_eq!(record, expected);

    let behind = vec![vec![deposit_prepared(1, hash(0x11))], vec![failed(RefundDue::Nothing, None)]];
    assert_eq!(record_of_a(behind).await, SettlerRecord { acknowledged: 1, ..asked_and_won() });

    // On Tron the payer's deposit may be there, and was never reserved for the settler.
    let behind = vec![vec![escrow_opened(hash(0x11), 20), failed(RefundDue::AfterWindow, None)]];
    assert_eq!(record_of_a(behind).await, asked_and_won());
}

/// The next winner is not in the auction of the same commit: its quote's document says who it is.
#[tokio::test(flavor = "multi_thread")]
async fn an_award_that_lapses_is_its_settlers_and_the_next_is_anothers() {
    for (refusal, unanswered) in [(None, 1), (Some("INSUFFICIENT_LIQUIDITY"), 0)] {
        let behind = vec![
            vec![lapsed("a", refusal, 12), won_by_stored(12)],
            vec![deposit_prepared(1, hash(0x11))],
            vec![secured(hash(0x11), 20)],
            vec![confirmed(hash(0x22), 30)],
        ];
        let next = stored_settler();
        let found = records(won_by_a(behind), &["a", next.as_str()]).await;
        let refused = 1 - unanswered;
        // The silent one is known to have missed it by the next, which answered.
        let outcomes = vec![missed_at(12)];
        assert_eq!(found[0], Some(SettlerRecord { unanswered, refused, outcomes, ..asked_and_won() }));
        let next = found[1].as_ref().unwrap();
        assert_eq!((next.won, next.acknowledged, next.delivered, next.missed), (1, 1, 1, 0));
        assert_eq!((next.last_won_at, &next.outcomes), (Some(at(12)), &vec![delivered_at(30)]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_award_that_is_withdrawn_is_refused_or_not_answered() {
    let refused = record_of_a(vec![vec![withdrawn(refused()), failed(RefundDue::Nothing, None)]]).await;
    let outcomes = vec![missed_at(14)];
    assert_eq!(refused, SettlerRecord { refused: 1, outcomes: outcomes.clone(), ..asked_and_won() });
    let silent = record_of_a(vec![vec![withdrawn(WithdrawalCause::Unanswered), failed(RefundDue::Nothing, None)]]);
    assert_eq!(silent.await, SettlerRecord { unanswered: 1, outcomes, ..asked_and_won() });
    let unpaid = record_of_a(vec![vec![withdrawn(WithdrawalCause::NotDeposited), failed(RefundDue::Nothing, None)]]);
    assert_eq!(unpaid.await, asked_and_won());
}

/// The quote of a batch holds nothing (ADR 95): whoever does not stand by it has not missed an award.
#[tokio::test(flavor = "multi_thread")]
async fn a_collected_quote_may_be_refused_or_left_unanswered() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    let batch = QuoteRequestId::derive("payer", "batch-1");
    journal.push(&batch, vec![opened(&batch)]);
    journal.push(&batch, vec![collected(&[30, 30], &[("z", "NO_INVENTORY")])]);
    for (number, cause) in [refused(), WithdrawalCause::Unanswered].into_iter().enumerate() {
        let id = PaymentId::derive("payer", &format!("award-{number}"));
        let PaymentEvent::Submitted(mut first) = submitted(&id) else { unreachable!() };
        let quote_id = "quo_stored".to_owned();
        first.collected_quote = Some(CollectedQuote { quote_request_id: batch.clone(), quote_id });
        journal.push(&id, vec![PaymentEvent::Submitted(first), won_by_stored(11)]);
        journal.push(&id, vec![withdrawn(cause), failed(RefundDue::Nothing, None)]);
    }
    let following = Following::start(directory.path(), &journal).await;
    let record = |settler: &Did| following.projections.settler_record(settler).unwrap().unwrap();
    let winner = record(&stored_settler());
    assert_eq!((winner.won, winner.refused, winner.unanswered), (2, 1, 1));
    assert_eq!(winner.outcomes, []);
    assert_eq!(record(&did("b")), SettlerRecord { asked: 1, offered: 1, ..SettlerRecord::default() });
    assert_eq!(record(&did("z")), SettlerRecord { asked: 1, declined: 1, ..SettlerRecord::default() });
    following.stop().await;
}

/// Payments of ten settlers, spread over all shards; each commit is its own, so that pages hold parts of many.
fn fill(journal: &Streams, from: u64, count: u64) {
    for number in from..from + count {
        let id = PaymentId::derive("payer", &number.to_string());
        let name = format!("s{}", number % 10);
        let others: Vec<String> = (0..10).map(|n| format!("s{n}")).collect();
        let asked: Vec<&str> = others.iter().map(String::as_str).collect();
        journal.push(&id, vec![submitted_by(&id, number)]);
        journal.push(&id, vec![auction(&asked, &[&name]), won(&name, 11)]);
        let end = match number % 3 {
            0 => vec![withdrawn(WithdrawalCause::Unanswered), failed(RefundDue::Nothing, None)],
            _ => vec![secured(hash(0x11), 20)],
        };
        journal.push(&id, end);
        if number % 3 == 1 {
            journal.push(&id, vec![confirmed(hash(0x22), 20 + number % 50)]);
        }
    }
}

fn page_of(following: &Following, after: Option<&Did>, most: usize) -> Vec<(Did, SettlerRecord)> {
    following.projections.settler_records(after, most).unwrap().settlers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_the_sum_over_shards_however_its_commits_came() {
    let directory = TempDir::new().unwrap();
    let journal = Arc::new(Streams::new(SHARDS));
    fill(&journal, 0, 200);
    let following = Following::start(directory.path(), &journal).await;
    fill(&journal, 200, 400);
    following.caught_up().await;
    let all = page_of(&following, None, 100);
    assert_eq!(all.len(), 10);
    for (settler, record) in &all {
        assert_eq!((record.asked, record.offered, record.declined, record.won), (600, 60, 540, 60), "{settler}");
        assert_eq!((record.unanswered, record.acknowledged, record.delivered), (20, 40, 20), "{settler}");
        assert_eq!((record.outcomes.len(), record.times.len()), (OUTCOMES_KEPT, 20));
        assert_eq!(following.projections.settler_record(settler).unwrap().as_ref(), Some(record));
    }
    // The same after a restart, in a rebuilt copy, and read at once.
    following.rebuilds_the_same().await;
    assert_eq!(page_of(&following, None, 100), all);
    following.stop().await;
    let following = Following::start(directory.path(), &journal).await;
    assert_eq!(page_of(&following, None, 100), all);
    following.stop().await;
    let other = TempDir::new().unwrap();
    let following = Following::unsearched(other.path(), &journal).await;
    assert_eq!(page_of(&following, None, 100), all);
    following.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_keep_what_is_newest() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    let count = TIMES_KEPT as u64 + 20;
    for number in 0..count {
        let id = PaymentId::derive("payer", &number.to_string());
        journal.push(&id, vec![submitted_by(&id, number)]);
        journal.push(&id, vec![auction(&["a"], &["a"]), won("a", number)]);
        journal.push(&id, vec![secured(hash(0x11), 20)]);
        journal.push(&id, vec![confirmed(hash(0x22), 20 + number)]);
    }
    let following = Following::start(directory.path(), &journal).await;
    let record = following.projections.settler_record(&did("a")).unwrap().unwrap();
    let newest = |most: usize| (20 + count - most as u64..20 + count).map(at).collect::<Vec<_>>();
    assert_eq!(record.outcomes.iter().map(|outcome| outcome.at).collect::<Vec<_>>(), newest(OUTCOMES_KEPT));
    assert_eq!(record.times.iter().map(|time| time.at).collect::<Vec<_>>(), newest(TIMES_KEPT));
    assert_eq!((record.delivered, record.last_won_at), (count, Some(at(count - 1))));
    following.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_go_through_all_settlers_once() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal, 0, 40);
    let following = Following::start(directory.path(), &journal).await;
    for most in [1, 3, 10, 11] {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = following.projections.settler_records(after.as_ref(), most).unwrap();
            assert!(page.settlers.len() <= most);
            listed.extend(page.settlers.into_iter().map(|(settler, _)| settler));
            let Some(next) = page.next else { break };
            assert_eq!(listed.last(), Some(&next));
            after = Some(next);
        }
        let expected: Vec<Did> = (0..10).map(|n| did(&format!("s{n}"))).collect();
        assert_eq!(listed, expected, "{most}");
    }
    assert!(page_of(&following, Some(&did("s9")), 10).is_empty());
    following.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_for_requests_is_renewed_and_says_nothing_while_a_shard_is_away() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    let projections = Projections::open_searched(directory.path(), SHARDS).unwrap();
    // Nobody follows yet.
    assert!(matches!(projections.settler_record(&did("a")), Err(Unavailable::CatchingUp { .. })));
    assert!(matches!(projections.settler_records(None, 10), Err(Unavailable::CatchingUp { .. })));
    assert_eq!(RecentRecords::new(projections.clone()).record(&did("a")), None);
    drop(projections);

    fill(&journal, 0, 10);
    let following = Following::start(directory.path(), &journal).await;
    let recent = RecentRecords::new(following.projections.clone());
    let asked = || recent.record(&did("s1")).map(|record| record.asked);
    assert_eq!((asked(), recent.record(&did("nobody"))), (Some(10), None));
    fill(&journal, 10, 10);
    following.caught_up().await;
    let renewed = async {
        while asked() != Some(20) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), renewed).await.unwrap();
    following.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_may_have_brought_about_is_no_miss() {
    let lapse = |refusal, second| vec![lapsed("a", refusal, second), won_by_stored(second)];
    let nobody = || vec![withdrawn(refused()), failed(RefundDue::Nothing, None)];
    let (prepared, secured) = (|| vec![deposit_prepared(1, hash(0x11))], |second| vec![secured(hash(0x12), second)]);
    let undelivered = || vec![failed(RefundDue::AfterWindow, None)];
    let missed = |second| vec![missed_at(second)];
    let cases = [
        // Silent, and nobody acknowledged: what carries awards may have stood still.
        (vec![lapse(None, 12), nobody()], vec![]),
        (vec![lapse(None, 12), prepared()], missed(12)),
        (vec![lapse(None, 12), secured(20)], missed(12)),
        // A payer may choose a receiver that the chain refuses; a quote's time may be over when the award comes.
        (vec![lapse(Some("UNDELIVERABLE"), 12)], vec![]),
        (vec![lapse(Some("QUOTE_EXPIRED"), 17)], vec![]),
        (vec![lapse(Some("QUOTE_EXPIRED"), 16)], missed(16)),
        // Awarded at 11 and promised by 90: at 50 half of the time is left.
        (vec![secured(50), undelivered()], missed(60)),
        (vec![secured(51), undelivered()], vec![]),
    ];
    for (behind, outcomes) in cases {
        let record = record_of_a(behind.clone()).await;
        assert_eq!(record.unanswered + record.refused + record.missed, 1, "{record:?}");
        assert_eq!(record.outcomes, outcomes, "{behind:?}");
    }
}

/// The silence of one that another could follow may have been a short one, whatever kept the other from following.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_silence_is_a_miss_only_of_one_that_nobody_could_follow() {
    let silent = || vec![withdrawn(WithdrawalCause::Unanswered), failed(RefundDue::Nothing, None)];
    for (followers, outcomes) in [(0, vec![missed_at(14)]), (1, vec![])] {
        let PaymentEvent::AuctionClosed(mut closed) = auction(&["a", "b"], &["a", "b"]) else { unreachable!() };
        closed.alternates = [kept("b")].into_iter().take(followers).collect();
        let commits = vec![vec![PaymentEvent::AuctionClosed(closed), won("a", 11)], silent()];
        let record = records(commits, &["a"]).await.remove(0).unwrap();
        assert_eq!((record.unanswered, &record.outcomes), (1, &outcomes));
    }
}
