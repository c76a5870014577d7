//! Payments whose payer named a quote selector.

use events::{
    Hash32,
    event::{SelectorRef, Submitted},
    failure::Domain,
    quote::SignedQuote,
    quote_request::{BatchSelection, QuoteRequestOpened, QuotesCollected},
    selection::{Choice, SelectorSigner, Shown, SignedChoice},
};
use sagas::auction::judge;

use super::*;

/// What a selector does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conduct {
    /// It takes the quote that promises to deliver first, which is not the cheapest.
    Chooses,
    /// The same, but only after it was asked more than once.
    ChoosesLate,
    /// It takes none.
    TakesNone,
    /// It does not answer.
    Silent,
    /// It names a quote that was not among those it was shown.
    Invents,
    /// Somebody else signs in its name.
    Impostor,
    /// It repeats what it chose in another auction.
    Repeats,
}

/// Second up to which the selector may answer.
const ANSWER_BY: i64 = 14;
const CHOSEN: [&str; 10] = [
    "Submitted",
    "AuctionClosed",
    "SelectorAsked",
    "SelectorAnswered",
    "QuoteAwarded",
    "DepositPrepared",
    "EscrowSecured",
    "FulfillmentSeen",
    "FulfillmentConfirmed",
    "EscrowReleased",
];

fn signer(n: u8) -> SelectorSigner {
    SelectorSigner::Ed25519(settler(n))
}

pub fn submission() -> Submitted {
    let selector = SelectorRef { key: signer(100).key(), answer_by: at(ANSWER_BY) };
    Submitted { selector: Some(selector), ..crate::given::submission() }
}

/// The cheapest quote delivers last, and the third lapses before the selector has to answer.
fn quotes() -> [SignedQuote; 3] {
    let with = |n, price, fulfill_by, valid_until| {
        signed(n, Quote { fulfill_by: at(fulfill_by), valid_until: at(valid_until), ..quote(n, price) })
    };
    [with(1, "1005", 60, 50), with(2, "1010", 40, 50), with(3, "1001", 30, ANSWER_BY - 1)]
}

pub fn gathered() -> Gathered {
    let bid = |(n, quote): (u8, SignedQuote)| {
        let answer = Answer::Quote(quote.document().to_owned());
        Bid { settler: did(n).token(), received_at: at(3), answer }
    };
    Gathered {
        addressed: vec![did(1), did(2), did(3)],
        bids: (1..).zip(quotes()).map(bid).collect(),
        ..Gathered::default()
    }
}

/// The cheaper one first.
fn batch_quotes() -> [SignedQuote; 2] {
    [batch::batch_quote(1, "1005"), batch::batch_quote(2, "1010")]
}

pub fn gathered_for_batch() -> Gathered {
    let bids = (1..).zip(&batch_quotes()).map(|(n, quote)| batch::offer(n, quote)).collect();
    Gathered { addressed: vec![did(1), did(2)], bids, ..Gathered::default() }
}

/// What is recorded of the quotes of a batch that names the selector, however often the gateway dies.
async fn collected(world: World) -> (Arc<World>, QuotesCollected) {
    let world = Arc::new(world);
    let named = QuoteRequestOpened {
        selector: Some(signer(100).key()),
        selector_answer_by: Some(at(ANSWER_BY)),
        ..batch::opening()
    };
    let opened = QuoteRequestEvent::Opened(Box::new(named));
    batch::append(&world.journal, batch::batch_id(), vec![opened.into()]).await;
    drive(&world, &batch::batch_id().into()).await;
    let commits = world.journal.load(&batch::batch_id().into()).await.unwrap();
    let events: Vec<_> = commits.iter().flat_map(Recorded::quote_request_events).collect();
    let [QuoteRequestEvent::Opened(_), QuoteRequestEvent::Collected(collected)] = events[..] else {
        panic!("{events:?}")
    };
    (world, (**collected).clone())
}

#[tokio::test]
async fn the_selector_s_choice_comes_first_in_a_batch() {
    let [cheap, dear] = batch_quotes();
    for conduct in [Conduct::Chooses, Conduct::ChoosesLate] {
        let (_, collected) = collected(World::new(Plot::Selector(conduct))).await;
        let (offered, by_selector) = collected.offered();
        let offered: Vec<_> = offered.iter().map(|quote| quote.quote_hash).collect();
        assert_eq!((offered, by_selector), (vec![dear.hash(), cheap.hash()], true));
        // What is stored stays in the order that auditors check.
        assert_eq!(collected.quotes[0].quote_hash, cheap.hash());
    }
    let (undisturbed, _) = collected(World::new(Plot::Selector(Conduct::Chooses))).await;
    let calls = undisturbed.calls.load(Ordering::SeqCst);
    for stop_at in (1..=calls).flat_map(|number| [(number, false), (number, true)]) {
        let world = World { stop_at: Some(stop_at), ..World::new(Plot::Selector(Conduct::Chooses)) };
        assert!(collected(world).await.1.offered().1, "died at {stop_at:?}");
    }
}

#[tokio::test]
async fn a_selector_that_is_away_lies_or_takes_none_holds_no_batch_up() {
    let [cheap, dear] = batch_quotes();
    for conduct in [Conduct::Silent, Conduct::Invents, Conduct::Impostor, Conduct::Repeats, Conduct::TakesNone] {
        let (world, collected) = collected(World::new(Plot::Selector(conduct))).await;
        let (offered, by_selector) = collected.offered();
        let offered: Vec<_> = offered.iter().map(|quote| quote.quote_hash).collect();
        assert_eq!((offered, by_selector), (vec![cheap.hash(), dear.hash()], false), "{conduct:?}");
        let state = world.state.lock().unwrap();
        assert_eq!(collected.selection.is_some(), conduct == Conduct::TakesNone);
        assert!(conduct == Conduct::TakesNone || state.asked > 2, "it is asked as long as there is time");
        assert!(state.now <= ANSWER_BY + 2, "{conduct:?}: {}", state.now);
    }
}

#[tokio::test]
async fn a_batch_in_which_the_choice_does_not_hold_is_illegal() {
    let (_, collected) = collected(World::new(Plot::Selector(Conduct::Chooses))).await;
    let opened = |named: bool| {
        let selector = named.then(|| signer(100).key());
        let selector_answer_by = selector.map(|_| at(ANSWER_BY));
        QuoteRequestOpened { selector, selector_answer_by, ..batch::opening() }
    };
    let fold = |named: bool, change: &dyn Fn(&mut BatchSelection)| {
        let mut changed = collected.clone();
        change(changed.selection.as_mut().unwrap());
        let events =
            [QuoteRequestEvent::Opened(Box::new(opened(named))), QuoteRequestEvent::Collected(Box::new(changed))];
        sagas::quote_request::fold(&events).map(|_| ()).map_err(|illegal| illegal.reason)
    };
    assert_eq!(fold(true, &|_| ()), Ok(()));
    let reason = "the selection is not the selector's choice of these quotes";
    assert_eq!(fold(false, &|_| ()), Err(reason.to_owned()));
    let cheap = batch_quotes()[0].hash();
    assert_eq!(fold(true, &|selection| selection.quote_hash = Some(cheap)), Err(reason.to_owned()));
    assert_eq!(fold(true, &|selection| selection.choice.push(' ')), Err(reason.to_owned()));
}

#[async_trait]
impl Selector for World {
    async fn choose(&self, request: &SelectionRequest) -> Result<SignedChoice, Transient> {
        let Plot::Selector(conduct) = self.plot else { panic!("nobody named a selector") };
        let [cheap, fast] = match request.auction_id.starts_with("qrq_") {
            true => batch_quotes(),
            false => quotes()[..2].to_vec().try_into().unwrap(),
        };
        assert_eq!(request.quotes, [cheap.hash(), fast.hash()]);
        assert_eq!(request.documents, [cheap.document(), fast.document()]);
        let asked = self.call(|state| {
            state.asked += 1;
            state.asked
        });
        let asked = asked.await?;
        let shown = request.shown();
        let choice = Choice::of(shown, fast.hash());
        let away = || Err(Transient::unreachable("nobody listens"));
        match conduct {
            Conduct::ChoosesLate if asked < 3 => away(),
            Conduct::Chooses | Conduct::ChoosesLate => Ok(choice.sign(&signer(100))),
            Conduct::TakesNone => Ok(Choice::none(shown, Some("TOO_DEAR".to_owned())).sign(&signer(100))),
            Conduct::Silent => away(),
            Conduct::Invents => Ok(Choice::of(shown, Hash32([7; 32])).sign(&signer(100))),
            Conduct::Impostor => Ok(choice.sign(&signer(101))),
            Conduct::Repeats => {
                let other = Shown { auction_id: "pay_other", ..shown };
                Ok(Choice::of(other, fast.hash()).sign(&signer(100)))
            }
        }
    }
}

#[test]
fn the_selector_is_shown_the_eligible_quotes_that_last_until_it_has_to_answer() {
    let judged = judge(&submission(), gathered(), at(10));
    assert!(judged.winner.is_none());
    assert_eq!(judged.offered, quotes()[..2]);
    assert_eq!(judged.quotes.len(), 2);
    assert_eq!(judged.dropped.len(), 1);
    assert!(judged.dropped[0].reason.contains("lapses"), "{:?}", judged.dropped);
}

#[tokio::test]
async fn what_the_selector_chose_is_awarded_and_delivered() {
    for conduct in [Conduct::Chooses, Conduct::ChoosesLate] {
        let (world, events) = live(World::new(Plot::Selector(conduct))).await;
        assert_eq!(types(&events), CHOSEN);
        let PaymentEvent::QuoteAwarded(awarded) = &events[4] else { panic!() };
        assert_eq!(awarded.quote_hash, quotes()[1].hash());
        assert_eq!(awarded.document, quotes()[1].document());
        assert_eq!(world.state.lock().unwrap().deposits.len(), 1);
    }
}

#[tokio::test]
async fn a_selector_that_takes_no_quote_ends_the_payment_with_its_reason() {
    let (world, events) = live(World::new(Plot::Selector(Conduct::TakesNone))).await;
    assert_eq!(types(&events), ["Submitted", "AuctionClosed", "SelectorAsked", "SelectorAnswered", "Failed"]);
    let Some(PaymentEvent::Failed(failed)) = events.last() else { panic!() };
    assert_eq!(failed.failure.code, "NO_QUOTE_SELECTED");
    assert!(failed.failure.message.ends_with("TOO_DEAR"), "{}", failed.failure.message);
    assert!(world.state.lock().unwrap().deposits.is_empty());
}

#[tokio::test]
async fn without_a_valid_choice_in_time_nobody_else_chooses_and_no_money_moves() {
    for conduct in [Conduct::Silent, Conduct::Invents, Conduct::Impostor, Conduct::Repeats] {
        let (world, events) = live(World::new(Plot::Selector(conduct))).await;
        assert_eq!(types(&events), ["Submitted", "AuctionClosed", "SelectorAsked", "Failed"]);
        let Some(PaymentEvent::Failed(failed)) = events.last() else { panic!() };
        assert_eq!(failed.failure.code, "SELECTOR_UNAVAILABLE");
        assert_eq!(failed.failure.domain, Some(Domain::ExternalService));
        assert!(failed.failed_at > at(ANSWER_BY));
        let state = world.state.lock().unwrap();
        assert!(state.asked > 2, "it is asked as long as there is time");
        assert!(state.deposits.is_empty() && state.awards == 0);
    }
}

#[tokio::test]
async fn a_death_at_any_port_call_changes_nothing_about_the_choice() {
    let plot = Plot::Selector(Conduct::Chooses);
    let (undisturbed, _) = live(World::new(plot)).await;
    let calls = undisturbed.calls.load(Ordering::SeqCst);
    for stop_at in (1..=calls).flat_map(|number| [(number, false), (number, true)]) {
        let (world, events) = live(World { stop_at: Some(stop_at), ..World::new(plot) }).await;
        assert_eq!(types(&events), CHOSEN, "died at {stop_at:?}");
        assert_eq!(world.state.lock().unwrap().deposits.len(), 1, "died at {stop_at:?}");
    }
}

#[tokio::test]
async fn a_history_in_which_the_choice_does_not_hold_is_illegal() {
    let (_, events) = live(World::new(Plot::Selector(Conduct::Chooses))).await;
    let fold = |change: &dyn Fn(&mut Vec<PaymentEvent>)| {
        let mut events = events[..5].to_vec();
        change(&mut events);
        sagas::payment::fold(&events).map(|_| ()).map_err(|illegal| illegal.reason)
    };
    assert_eq!(fold(&|_| ()), Ok(()));
    let award = |index: usize| {
        let quote = &quotes()[index];
        let PaymentEvent::QuoteAwarded(mut awarded) = events[4].clone() else { panic!() };
        (awarded.quote_id, awarded.quote_hash) = (quote.id(), quote.hash());
        awarded.document = quote.document().to_owned();
        PaymentEvent::QuoteAwarded(awarded)
    };
    type Change<'a> = &'a dyn Fn(&mut Vec<PaymentEvent>);
    let changes: [(Change<'_>, &str); 6] = [
        (&|events| events[4] = award(0), "did not choose this quote"),
        (&|events| drop(events.remove(3)), "did not choose this quote"),
        (&|events| drop(events.remove(2)), "no selector is asked"),
        (&|events| events.swap(1, 2), "is shown the eligible quotes"),
        (
            &|events| {
                let PaymentEvent::SelectorAnswered(answered) = &mut events[3] else { panic!() };
                answered.choice = answered.choice.replacen("pay_", "pay-", 1);
            },
            "signature does not verify",
        ),
        (
            &|events| {
                let PaymentEvent::AuctionClosed(closed) = &mut events[1] else { panic!() };
                closed.quotes[0].quote_hash = Hash32([7; 32]);
            },
            "other quotes",
        ),
    ];
    for (change, reason) in changes {
        let illegal = fold(change).expect_err(reason);
        assert!(illegal.contains(reason), "{illegal} does not say {reason}");
    }
}
