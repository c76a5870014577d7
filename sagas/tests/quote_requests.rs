//! Quote-request batches: what is collected, and which payments may come out of them.

use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use tokio::sync::Notify;

use events::{
    Hash32, PaymentEvent, PaymentId, QuoteRequestEvent, StreamId,
    event::{Authorization, CollectedQuote, EscrowPlan, Submitted},
    quote::{Quote, SignedQuote},
    quote_request::QuotesCollected,
    time::unix_seconds,
};
use journal::{
    AppendError, Commit, ReadError, Recorded, StreamStore,
    memory::{Fault, MemoryJournal},
};
use sagas::{
    auction::DOCUMENTS_BYTES_MAX,
    payment::{self, Stage as PaymentStage},
    ports::{Answer, Gathered},
    quote_request::*,
};

use crate::given::{batch::*, *};

fn collection(settlers: &[u8], bids: Vec<sagas::ports::Bid>) -> QuotesCollected {
    let gathered = Gathered { addressed: settlers.iter().map(|n| did(*n)).collect(), bids, ..Gathered::default() };
    batch(&[opened()]).collect(gathered, at(10))
}

fn payment(request_id: &str) -> PaymentId {
    PaymentId::derive("tests", request_id)
}

#[test]
fn every_eligible_quote_is_kept_best_first() {
    let (dear, cheap) = (batch_quote(1, "1010"), batch_quote(2, "1005"));
    let bids = vec![offer(1, &dear), offer(2, &cheap), bid(3, Answer::Decline("BUSY".to_owned()))];
    let collected = collection(&[1, 2, 3], bids);
    assert_eq!(collected.quotes.iter().map(|quote| &quote.quote_id).collect::<Vec<_>>(), [&cheap.id(), &dear.id()]);
    assert_eq!(collected.quotes[0].document, cheap.document());
    assert_eq!(collected.auction.declines.len(), 1);
    assert_eq!(collected.auction.addressed.len(), 3);
    let event = QuoteRequestEvent::Collected(Box::new(collected));
    assert_eq!(next(&batch(&[opened(), event])), Step::Rest);
}

#[test]
fn the_cap_of_a_batch_is_max_source_amount_alone_and_quotes_are_its_own() {
    let with = |change: &dyn Fn(&mut Quote)| {
        let mut quote = batch_quote(1, "1100").quote().clone();
        change(&mut quote);
        let collected = collection(&[1], vec![offer(1, &signed(1, quote))]);
        collected.auction.dropped.first().map(|dropped| dropped.reason.clone())
    };
    assert_eq!(with(&|_| {}), None);
    for (rule, change) in [
        ("max_source_amount", &(|quote: &mut Quote| quote.source_amount = amount("1101")) as &dyn Fn(&mut Quote)),
        ("another auction", &|quote: &mut Quote| quote.auction_id = payment("one").to_string()),
        ("lapses", &|quote: &mut Quote| quote.valid_until = at(9)),
    ] {
        assert!(with(change).unwrap().contains(rule), "{rule}");
    }
}

#[test]
fn more_quotes_than_a_commit_holds_are_dropped_from_the_dear_end() {
    let (mut bids, mut settlers) = (Vec::new(), Vec::new());
    for n in 1..=40 {
        let quote = batch_quote(n, &(1000 + u32::from(n)).to_string());
        // White space costs room and changes nothing else.
        let padded = format!("{}{}", quote.document(), " ".repeat(12_000));
        bids.push(bid(n, Answer::Quote(padded)));
        settlers.push(n);
    }
    let collected = collection(&settlers, bids);
    let (kept, dropped) = (collected.quotes.len(), collected.auction.dropped.len());
    assert_eq!(kept + dropped, 40);
    assert!(kept > 20 && dropped > 5, "{kept} kept, {dropped} dropped");
    assert!(collected.auction.quotes.iter().all(|quote| quote.source_amount <= amount(&(1000 + kept).to_string())));
    assert!(collected.quotes.iter().map(|quote| quote.document.len()).sum::<usize>() <= DOCUMENTS_BYTES_MAX);
    let event = QuoteRequestEvent::Collected(Box::new(collected));
    assert_eq!(batch(&[opened(), event]).stage(), Stage::Collected);
}

#[test]
fn a_batch_goes_one_way() {
    let quote = batch_quote(1, "1010");
    let awarded = || batch_awarded(quote.id(), payment("a"));
    let history = [opened(), collected(), awarded()];
    let stages = (1..=3).map(|n| batch(&history[..n]).stage()).collect::<Vec<_>>();
    assert_eq!(stages, [Stage::Collecting, Stage::Collected, Stage::Awarded]);
    for illegal in [
        vec![collected()],
        vec![opened(), opened()],
        vec![opened(), awarded()],
        vec![opened(), collected(), collected()],
        vec![opened(), collected(), awarded(), awarded()],
        vec![opened(), collected(), batch_awarded("quo_none".to_owned(), payment("a"))],
    ] {
        assert!(fold(&illegal).is_err(), "{:?}", illegal.iter().map(QuoteRequestEvent::type_name).collect::<Vec<_>>());
    }
    let QuoteRequestEvent::Collected(mut tampered) = collected() else { unreachable!() };
    tampered.quotes.swap(0, 1);
    assert!(evolve(Some(batch(&[opened()])), &QuoteRequestEvent::Collected(tampered)).is_err());
    let QuoteRequestEvent::Awarded(mut late) = awarded() else { unreachable!() };
    late.awarded_at = at(51);
    assert!(evolve(Some(batch(&history[..2])), &QuoteRequestEvent::Awarded(late)).is_err());
}

#[test]
fn a_batch_expires_with_the_last_of_its_quotes_and_not_without_any() {
    let lasting = signed(2, Quote { valid_until: at(55), ..batch_quote(2, "1005").quote().clone() });
    let collected = collection(&[1, 2], vec![offer(1, &batch_quote(1, "1010")), offer(2, &lasting)]);
    let offered = batch(&[opened(), QuoteRequestEvent::Collected(Box::new(collected))]);
    let nothing = batch(&[opened(), QuoteRequestEvent::Collected(Box::new(collection(&[1], Vec::new())))]);
    for (seconds, expired) in [(50, false), (55, false), (56, true)] {
        assert_eq!(offered.has_expired(at(seconds)), expired, "{seconds}");
        assert!(!nothing.has_expired(at(seconds)));
    }
    assert!(!batch(&[opened()]).has_expired(at(1000)));
}

#[test]
fn each_refusal_has_its_reason() {
    let (quote, id) = (batch_quote(1, "1010"), payment("a"));
    let judge = |events: &[QuoteRequestEvent], quote_id: &str, payment_id: &PaymentId, seconds| {
        may_award(&batch(events), quote_id, payment_id, at(seconds)).map(|quote| quote.quote_id.clone())
    };
    let ready = [opened(), collected()];
    assert_eq!(judge(&ready[..1], &quote.id(), &id, 5), Err(AwardRefusal::StillCollecting));
    assert_eq!(judge(&ready, "quo_x", &id, 11), Err(AwardRefusal::UnknownQuote));
    assert_eq!(judge(&ready, &quote.id(), &id, 50), Ok(quote.id()));
    assert_eq!(judge(&ready, &quote.id(), &id, 51), Err(AwardRefusal::Expired));
    let [opened, collected] = ready;
    let taken = [opened, collected, batch_awarded(quote.id(), id.clone())];
    let already = Err(AwardRefusal::AlreadyAwarded { payment_id: id.clone() });
    assert_eq!(judge(&taken, &quote.id(), &payment("b"), 21), already);
    assert_eq!(judge(&taken, &batch_quote(2, "1005").id(), &id, 21), already);
    // The very same award goes on, however late.
    assert_eq!(judge(&taken, &quote.id(), &id, 99), Ok(quote.id()));
}

/// A submission out of the batch with `quote`.
fn from_batch(quote: &SignedQuote) -> Submitted {
    Submitted {
        authorization: permit(quote.hash()),
        collected_quote: Some(CollectedQuote { quote_request_id: batch_id(), quote_id: quote.id() }),
        ..submission()
    }
}

fn begun(submitted: Submitted, quote: &SignedQuote) -> Result<payment::Payment, String> {
    let events = [PaymentEvent::Submitted(Box::new(submitted)), award_of(quote)];
    payment::fold(&events).map(Option::unwrap).map_err(|error| error.reason)
}

#[test]
fn a_payment_out_of_a_batch_begins_with_its_award() {
    let quote = batch_quote(1, "1010");
    assert_eq!(begun(from_batch(&quote), &quote).unwrap().stage(), PaymentStage::Awarded);
    // Without the batch an award needs an auction, and with it there is none.
    assert!(begun(submission(), &quote).is_err());
    let opened = PaymentEvent::Submitted(Box::new(from_batch(&quote)));
    assert!(payment::fold(&[opened, auction_closed()]).is_err());
    // A payer that signed no witness named no quote.
    let Authorization::EvmPermit2Escrow(permit) = submission().authorization else { unreachable!() };
    let bare = Submitted { authorization: Authorization::EvmPermit2(permit), ..from_batch(&quote) };
    assert!(begun(bare, &quote).is_ok());
}

#[test]
fn a_payment_out_of_a_batch_takes_no_quote_that_its_payer_did_not_sign_for() {
    let quote = batch_quote(1, "1010");
    let (other, foreign) = (batch_quote(2, "1005"), signed(1, self::quote(1, "1010")));
    let refused = |change: &dyn Fn(&mut Submitted), quote: &SignedQuote| {
        let mut submitted = from_batch(quote);
        change(&mut submitted);
        begun(submitted, quote).unwrap_err()
    };
    let named = |id: String| {
        move |submitted: &mut Submitted| {
            submitted.collected_quote.as_mut().unwrap().quote_id = id.clone();
        }
    };
    assert!(refused(&named(other.id()), &quote).contains("submitted with"));
    assert!(refused(&|it| it.authorization = permit(other.hash()), &quote).contains("another quote"));
    assert!(refused(&|it| it.authorization = permit(Hash32::ZERO), &quote).contains("another quote"));
    assert!(refused(&|_| {}, &foreign).contains("another auction"));
    assert!(refused(&|it| it.terms_hash = Hash32([7; 32]), &quote).contains("other terms"));
    assert!(refused(&|it| it.blacklist = vec![did(1)], &quote).contains("blacklist"));
    let small = |it: &mut Submitted| {
        let Authorization::EvmPermit2Escrow(permit) = &mut it.authorization else { unreachable!() };
        permit.amount = amount("1009");
    };
    assert!(refused(&small, &quote).contains("permitted"));
}

/// A batch whose quotes are collected, in a journal of its own.
async fn ready() -> MemoryJournal {
    let journal = MemoryJournal::new(4);
    append(&journal, batch_id(), vec![opened().into()]).await;
    append(&journal, batch_id(), vec![collected().into()]).await;
    journal
}

const AWARDED: [&str; 3] = ["QuoteRequestOpened", "QuotesCollected", "QuoteRequestAwarded"];
const BEGUN: [&str; 2] = ["Submitted", "QuoteAwarded"];

#[tokio::test]
async fn an_award_makes_the_payment_once() {
    let journal = ready().await;
    let (quote, other) = (batch_quote(1, "1010"), batch_quote(2, "1005"));
    let Ok(AwardOutcome::Created(first)) = award(&journal, &call("a", &quote), at(20)).await else { panic!() };
    let PaymentEvent::Submitted(submitted) = first.payment_events().next().unwrap() else { panic!() };
    assert_eq!((submitted.terms_hash, submitted.quote_deadline), (opening().terms_hash, at(10)));
    assert_eq!(submitted.payment_id, payment("a"));
    let batch = journal.load(&batch_id().into()).await.unwrap();
    assert_eq!(first.causation, batch.last().unwrap().commit_id.as_str());

    let Ok(AwardOutcome::Existing(commits)) = award(&journal, &call("a", &quote), at(99)).await else { panic!() };
    assert_eq!(commits, [*first]);
    let refused = award(&journal, &call("b", &other), at(21)).await;
    let payment_id = payment("a");
    assert_eq!(refused, Ok(AwardOutcome::Refused(AwardRefusal::AlreadyAwarded { payment_id })));
    assert_eq!(types_of(&journal, batch_id()).await, AWARDED);
    assert_eq!(types_of(&journal, payment("a")).await, BEGUN);
    assert!(types_of(&journal, payment("b")).await.is_empty());
}

#[tokio::test]
async fn what_does_not_fit_leaves_the_batch_as_it_was() {
    let journal = ready().await;
    let quote = batch_quote(1, "1010");
    let plan = |change: &dyn Fn(&mut EscrowPlan)| {
        let mut call = call("a", &quote);
        change(&mut call.escrow);
        call
    };
    let unfit = [
        AwardCall { authorization: permit(Hash32::ZERO), ..call("a", &quote) },
        plan(&|plan| plan.contract = PAYER.parse().unwrap()),
        plan(&|plan| plan.releaser = PAYER.parse().unwrap()),
        plan(&|plan| plan.refund_after = unix_seconds(at(99))),
        plan(&|plan| plan.reserve_deadline = unix_seconds(at(61))),
        plan(&|plan| plan.fulfillment_deadline = unix_seconds(at(61))),
    ];
    for call in unfit {
        let outcome = award(&journal, &call, at(20)).await;
        assert!(matches!(outcome, Err(AwardError::Unfit(_))), "{outcome:?}");
    }
    let nowhere = AwardCall { quote_request_id: events::QuoteRequestId::derive("tests", "none"), ..call("a", &quote) };
    assert_eq!(award(&journal, &nowhere, at(20)).await, Err(AwardError::NoSuchBatch));
    assert_eq!(types_of(&journal, batch_id()).await, AWARDED[..2]);
}

#[tokio::test]
async fn of_awards_of_different_quotes_one_wins_and_the_same_call_is_one_payment() {
    let created = |it: &Result<_, _>| matches!(it, Ok(AwardOutcome::Created(_)));
    let journal = Process::new(ready().await);
    let (one, two) = (call("a", &batch_quote(1, "1010")), call("b", &batch_quote(2, "1005")));
    let (one, two) = tokio::join!(award(&journal, &one, at(20)), award(&journal, &two, at(20)));
    let refused = |it: &Result<_, _>| matches!(it, Ok(AwardOutcome::Refused(AwardRefusal::AlreadyAwarded { .. })));
    assert!(created(&one) ^ created(&two) && refused(&one) ^ refused(&two), "{one:?} {two:?}");

    let journal = Process::new(ready().await);
    let same = call("a", &batch_quote(1, "1010"));
    let (one, two) = tokio::join!(award(&journal, &same, at(20)), award(&journal, &same, at(21)));
    let existing = |it: &Result<_, _>| matches!(it, Ok(AwardOutcome::Existing(_)));
    assert!(created(&one) ^ created(&two) && existing(&one) ^ existing(&two), "{one:?} {two:?}");
    assert_eq!(types_of(&journal, batch_id()).await, AWARDED);
    assert_eq!(types_of(&journal, payment("a")).await, BEGUN);
}

#[tokio::test]
async fn an_acknowledgement_that_is_lost_changes_nothing() {
    let quote = batch_quote(1, "1010");
    for faults in [&[Fault::LoseAcknowledgement][..], &[Fault::Unavailable], &[Fault::LoseAcknowledgement; 2]] {
        let journal = ready().await;
        faults.iter().for_each(|fault| journal.inject(*fault));
        let outcome = award(&journal, &call("a", &quote), at(20)).await;
        assert!(matches!(outcome, Ok(AwardOutcome::Created(_))), "{faults:?}: {outcome:?}");
        assert_eq!(types_of(&journal, batch_id()).await, AWARDED);
        assert_eq!(types_of(&journal, payment("a")).await, BEGUN);
    }
}

#[tokio::test]
async fn nothing_stored_and_not_known_are_told_apart() {
    let quote = batch_quote(1, "1010");
    for (faults, unavailable) in [
        (vec![Fault::Unavailable; 3], true),
        (vec![Fault::LoseAcknowledgement; 3], false),
        (vec![Fault::LoseAcknowledgement, Fault::Unavailable, Fault::Unavailable], false),
    ] {
        let journal = ready().await;
        faults.iter().for_each(|fault| journal.inject(*fault));
        let outcome = award(&journal, &call("a", &quote), at(20)).await;
        match outcome {
            Err(AwardError::Unavailable(_)) => assert!(unavailable, "{faults:?}"),
            Err(AwardError::Unknown(_)) => assert!(!unavailable, "{faults:?}"),
            other => panic!("{faults:?}: {other:?}"),
        }
        assert!(types_of(&journal, payment("a")).await.is_empty());
        // The same call completes it.
        let outcome = award(&journal, &call("a", &quote), at(21)).await;
        assert!(matches!(outcome, Ok(AwardOutcome::Created(_))), "{outcome:?}");
    }
}

/// Dies at every append, before and after it is stored, and is called again, by then too late for a new award.
#[tokio::test]
async fn a_death_at_any_append_is_healed_by_the_same_call() {
    let quote = batch_quote(1, "1010");
    for number in 1..=2 {
        for after in [false, true] {
            let process = Process { dies_at: Some((number, after)), ..Process::new(ready().await) };
            let dying = call("a", &quote);
            tokio::select! {
                outcome = award(&process, &dying, at(20)) => panic!("survived: {outcome:?}"),
                () = process.died.notified() => {}
            }
            let journal = &process.journal;
            let fenced = number == 2 || after;
            assert_eq!(types_of(journal, batch_id()).await.len(), if fenced { 3 } else { 2 });
            if fenced {
                // Nobody else can take the batch in the meantime.
                let refused = award(journal, &call("b", &batch_quote(2, "1005")), at(21)).await;
                assert!(matches!(refused, Ok(AwardOutcome::Refused(AwardRefusal::AlreadyAwarded { .. }))));
            }
            let again = award(journal, &call("a", &quote), at(if fenced { 52 } else { 22 })).await;
            let begun = number == 2 && after;
            match again {
                Ok(AwardOutcome::Existing(_)) => assert!(begun),
                Ok(AwardOutcome::Created(first)) => {
                    assert!(!begun);
                    let Some(PaymentEvent::QuoteAwarded(awarded)) = first.payment_events().nth(1) else { panic!() };
                    assert_eq!(awarded.awarded_at, at(if fenced { 20 } else { 22 }));
                }
                other => panic!("append {number}, after {after}: {other:?}"),
            }
            assert_eq!(types_of(journal, batch_id()).await, AWARDED);
            assert_eq!(types_of(journal, payment("a")).await, BEGUN);
        }
    }
}

/// The journal as one process sees it: calls that run at once take turns at every step, and the process may die at one
/// of its appends.
struct Process {
    journal: MemoryJournal,
    appends: AtomicU32,
    /// The append at which it dies, and whether after it is stored.
    dies_at: Option<(u32, bool)>,
    died: Notify,
}

impl Process {
    fn new(journal: MemoryJournal) -> Self {
        Self { journal, appends: AtomicU32::new(0), dies_at: None, died: Notify::new() }
    }

    async fn die(&self) -> ! {
        self.died.notify_one();
        std::future::pending().await
    }
}

#[async_trait]
impl StreamStore for Process {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        let number = self.appends.fetch_add(1, Ordering::SeqCst) + 1;
        tokio::task::yield_now().await;
        if self.dies_at == Some((number, false)) {
            self.die().await;
        }
        let appended = self.journal.append(commit).await;
        if self.dies_at == Some((number, true)) {
            self.die().await;
        }
        appended
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        let loaded = self.journal.load(stream_id).await;
        tokio::task::yield_now().await;
        loaded
    }
}
