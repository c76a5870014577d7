//! The run of one auction, from registrations to the end of its award, by two gateways: the second takes over while the window is
//! open, or works beside the first. What must hold is held against what the server has and against what the settlers saw.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::Ordering,
    time::Duration,
};

use async_nats::jetstream;
use chrono::{TimeDelta, Utc};
use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use devkit::natsfaults::Dice;
use events::{Did, SettlerToken, event::VerifierRef, time::Timestamp};
use journal_jetstream::last_message;
use protocol::{
    AWARDS_STREAM, AnswerStatus, AwardMessage, AwardNotice, Version, award_subject, bid_subject, over_subject,
};
use sagas::{
    auction::sift,
    ports::{
        Answer, Auction, AuctionOver, Award, AwardAnswer, AwardEnd, Gathered, RequestForQuotes, Transient,
        VerificationCase,
    },
};

use super::{
    settlers::{Answers, Bids, Settler, intrude},
    world::{
        ACCOUNT, EXCLUDED, Gateway, QUOTING, RELEASER, Run, SETTLERS, UNREGISTERED, Violation, World, did, require,
        token, until,
    },
};

/// A window is over so soon after its deadline, whatever happens: some reads that time out, on a machine that is busy.
const AFTER_DEADLINE: Duration = Duration::from_secs(30);
/// Faults strike awards, answers and ends for so long; then all is calm, and everything has its outcome.
const STRUCK: Duration = Duration::from_secs(4);
/// What has no outcome in a calm after this time has none.
const LIVENESS: Duration = Duration::from_secs(120);
/// So near the deadline two clocks, the server's and the gateway's, may tell a bid's time differently.
const NEAR: TimeDelta = TimeDelta::milliseconds(60);
const RETRY: Duration = Duration::from_millis(20);

/// Plays the run of `seed`, and counts it where it came to an award.
pub async fn run(world: &World, seed: u64) -> Result<(), Violation> {
    let run = world.run(seed).await;
    let mut dice = Dice::new(seed, "auction", 0);
    let (first, second) = (run.gateway(1).await, run.gateway(2).await);
    let settlers = join_all((0..SETTLERS).map(|n| Settler::start(&run, n))).await;
    registered(&settlers, [&first, &second], dice.below(4) == 0).await?;

    let request = run.request(Duration::from_millis(1800 + dice.below(1400)));
    arm(&settlers, &[&first, &second]);
    let taken_over = Duration::from_millis(200 + dice.below(1500));
    let (dies, floods) = (dice.below(2) == 0, seed % 4 == 1);
    let flood = async {
        if floods {
            sleep(Duration::from_millis(150)).await;
            settlers[QUOTING - 1].flood(&request.auction_id, &unawarded(&request)).await;
        }
        sleep(Duration::from_millis(300)).await;
        intrude(&settlers[EXCLUDED], &request.auction_id).await;
    };
    let of_first = async {
        let gathering = gathered(&first, &request);
        if dies { timeout(taken_over, gathering).await.ok().transpose() } else { gathering.await.map(Some) }
    };
    let of_second = async {
        sleep(taken_over).await;
        gathered(&second, &request).await
    };
    let ((), of_first, of_second) = tokio::join!(flood, of_first, of_second);
    let (of_first, of_second) = (of_first?, of_second?);
    for gathered in of_first.iter().chain([&of_second]) {
        counts(&run, &request, gathered, &settlers).await?;
    }
    let quotes = |gathered: &Gathered| {
        let sifted = sift(&request, None, gathered.clone(), request.quote_deadline);
        sifted.quotes.into_iter().map(|quote| (quote.quote().settler.clone(), quote.hash())).collect::<Vec<_>>()
    };
    // What a settler says twice may be heard in part, and what comes near the deadline by one clock alone.
    let mut certain = Vec::new();
    for settler in settlers.iter().filter(|settler| settler.bids == Bids::Once && settler.number < QUOTING - 1) {
        let at = stored(&run, &token(settler.number), &request).await?;
        certain.extend(at.filter(|at| *at + NEAR < request.quote_deadline).map(|_| did(settler.number)));
    }
    let comparable = |of: &[(Did, events::Hash32)]| {
        of.iter().filter(|(settler, _)| certain.contains(settler)).cloned().collect::<Vec<_>>()
    };
    if let Some(of_first) = &of_first {
        let (one, other) = (comparable(&quotes(of_first)), comparable(&quotes(&of_second)));
        require(one == other, || format!("one gateway finds {one:?}, the other {other:?}"))?;
    }

    let winner = sift(&request, None, of_second.clone(), Utc::now()).quotes.into_iter().next();
    let Some(winner) = winner else { return Ok(()) };
    let award = award(&request, &winner.quote().settler, winner.document(), winner.hash());
    // Where the first gateway has died, nobody does its work again.
    let driving = if dies { vec![&second] } else { vec![&first, &second] };
    awarded(&run, &request, &award, &driving, &settlers, &of_second).await?;
    world.awarded.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn arm(settlers: &[Settler], gateways: &[&Gateway]) {
    settlers.iter().for_each(|settler| settler.proxy.arm());
    gateways.iter().for_each(|gateway| gateway.proxy.arm());
}

fn calm(settlers: &[Settler], gateways: &[&Gateway]) {
    settlers.iter().for_each(|settler| settler.proxy.calm());
    gateways.iter().for_each(|gateway| gateway.proxy.calm());
}

/// Waits until both gateways know who has registered, and nobody else.
async fn registered(settlers: &[Settler], gateways: [&Gateway; 2], is_struck: bool) -> Result<(), Violation> {
    if is_struck {
        arm(settlers, &gateways);
    }
    let registering = join_all(settlers.iter().filter(|one| one.number != UNREGISTERED).map(Settler::register));
    let struck = async {
        sleep(STRUCK).await;
        calm(settlers, &gateways);
    };
    let registering = async {
        tokio::join!(registering, async {
            if is_struck {
                struck.await
            }
        })
    };
    timeout(LIVENESS, registering).await.map_err(|_| "a registration is never stored".to_owned())?;
    let mut expected: Vec<Did> = (0..SETTLERS).filter(|n| *n != UNREGISTERED).map(did).collect();
    expected.sort();
    for gateway in gateways {
        let known = || async {
            let found: Vec<Did> = gateway.auction.registered().into_iter().map(|(settler, _)| settler).collect();
            found == expected
        };
        until("all that are registered are known", LIVENESS, known).await?;
    }
    Ok(())
}

/// Gathers as the engine does, again after what is transient, and never beyond the window's end.
async fn gathered(gateway: &Gateway, request: &RequestForQuotes) -> Result<Gathered, Violation> {
    let left = (request.quote_deadline - Utc::now()).to_std().unwrap_or_default();
    let gathering = async {
        loop {
            match gateway.auction.gather(request).await {
                Ok(gathered) => return Ok(gathered),
                Err(fault) if fault.is_misconfigured() => return Err(format!("a window fails: {fault}")),
                Err(_) => sleep(RETRY).await,
            }
        }
    };
    let late = |_| format!("a window is open {AFTER_DEADLINE:?} after its deadline");
    timeout(left + AFTER_DEADLINE, gathering).await.map_err(late)?
}

/// What is gathered was asked for, and came in time from whoever was asked, each answer once; and what the server had in time is there.
async fn counts(
    run: &Run,
    request: &RequestForQuotes,
    gathered: &Gathered,
    settlers: &[Settler],
) -> Result<(), Violation> {
    let asked: BTreeSet<SettlerToken> = gathered.addressed.iter().map(Did::token).collect();
    let may: BTreeSet<SettlerToken> = (0..QUOTING).map(token).collect();
    require(asked.is_subset(&may), || format!("asked were {asked:?}"))?;
    for settler in settlers.iter().filter(|settler| settler.number >= QUOTING) {
        let asked = settler.seen.lock().unwrap().asked.clone();
        require(asked.is_empty(), || format!("settler {} was asked in {asked:?}", settler.number))?;
    }
    let mut of_settlers: BTreeMap<&SettlerToken, Vec<&Answer>> = BTreeMap::new();
    for bid in &gathered.bids {
        require(asked.contains(&bid.settler), || format!("{} bids and was not asked", bid.settler))?;
        require(bid.received_at <= request.quote_deadline, || format!("{} bids too late", bid.settler))?;
        let before = of_settlers.entry(&bid.settler).or_default();
        require(!before.contains(&&bid.answer), || format!("{} is counted twice: {:?}", bid.settler, bid.answer))?;
        before.push(&bid.answer);
        let Answer::Quote(document) = &bid.answer else { continue };
        let settler = settlers.iter().find(|settler| token(settler.number) == bid.settler).unwrap();
        let sent = settler.seen.lock().unwrap().sent.clone();
        let in_time = sent.iter().any(|(at, said)| said == document && *at <= request.quote_deadline);
        require(in_time, || format!("{} never said in time: {document:.80}", bid.settler))?;
    }
    require(of_settlers.values().all(|answers| answers.len() <= 8), || "a settler fills a window".to_owned())?;
    for settler in settlers.iter().filter(|settler| settler.bids == Bids::Once && settler.number < QUOTING - 1) {
        let own = token(settler.number);
        let Some(stored) = stored(run, &own, request).await? else { continue };
        // What came near the deadline has no certain time.
        if stored + NEAR > request.quote_deadline {
            continue;
        }
        require(of_settlers.contains_key(&own), || {
            format!("{own} bid in time, and is not among {:?} of {:?}", of_settlers.keys(), gathered.addressed)
        })?;
    }
    Ok(())
}

/// When the server stored a settler's bid, where it stored one and no other.
async fn stored(run: &Run, settler: &SettlerToken, request: &RequestForQuotes) -> Result<Option<Timestamp>, Violation> {
    let (stream, subject) = (format!("BIDS_{settler}"), bid_subject(settler, &request.auction_id));
    let stored = last_message::by_leader(&run.truth, &stream, &subject, LIVENESS).await;
    let stored = stored.map_err(|error| error.to_string())?;
    Ok(stored.filter(|stored| stored.sequence == 1).map(|stored| stored.stored_at))
}

fn award(request: &RequestForQuotes, settler: &Did, document: &str, quote_hash: events::Hash32) -> Award {
    Award {
        settler: settler.clone(),
        case: VerificationCase {
            payment_id: request.payment_id.clone().unwrap(),
            terms: request.terms.clone(),
            escrow: request.escrow.clone(),
            verifier_set: None,
            quote_document: document.to_owned(),
            payloads: request.payloads.clone(),
        },
        quote_hash,
        verifier: VerifierRef::single(RELEASER.parse().unwrap(), "http://127.0.0.1:1".to_owned()),
        replaceable_until: None,
        escrowed: None,
    }
}

/// A notice that nobody was given.
fn unawarded(request: &RequestForQuotes) -> AwardNotice {
    AwardNotice {
        version: Version,
        settler: did(0),
        payment_id: request.payment_id.clone().unwrap(),
        terms: request.terms.clone(),
        escrow: (&request.escrow).into(),
        quote: "{}".to_owned(),
        quote_hash: events::Hash32::sha256(ACCOUNT),
        verifier: (&VerifierRef::single(RELEASER.parse().unwrap(), "http://127.0.0.1:1".to_owned())).into(),
        payloads: Vec::new(),
        escrowed: None,
    }
}

/// Until it succeeds, as the engine does.
async fn again<T, F>(what: &str, mut act: impl FnMut() -> F) -> Result<T, Violation>
where
    F: Future<Output = Result<T, Transient>>,
{
    let acting = async {
        loop {
            match act().await {
                Ok(done) => return Ok(done),
                Err(fault) if fault.is_misconfigured() => return Err(format!("{what} fails: {fault}")),
                Err(_) => sleep(RETRY).await,
            }
        }
    };
    timeout(LIVENESS, acting).await.map_err(|_| format!("{what} has no outcome"))?
}

/// Awards, answers and the end, by both gateways at a time.
async fn awarded(
    run: &Run,
    request: &RequestForQuotes,
    award: &Award,
    gateways: &[&Gateway],
    settlers: &[Settler],
    gathered: &Gathered,
) -> Result<(), Violation> {
    let began = Instant::now();
    let struck = async {
        sleep(STRUCK).await;
        calm(settlers, gateways);
    };
    let losers: Vec<Did> = gathered.addressed.iter().filter(|did| **did != award.settler).cloned().collect();
    let over = AuctionOver { auction_id: request.auction_id.clone(), settlers: losers.clone() };
    let end = AwardEnd {
        settler: award.settler.clone(),
        payment_id: award.case.payment_id.clone(),
        quote_hash: award.quote_hash,
        auction_id: request.auction_id.clone(),
        code: "AWARD_REFUSED".to_owned(),
    };
    let driven = gateways.iter().map(|gateway| {
        let auction = &gateway.auction;
        let (over, end) = (&over, &end);
        async move {
            again("an award", || auction.award(award)).await?;
            let answer = again("an answer", || auction.answer(award)).await?;
            auction.over(over).await;
            let same = again("the same answer", || auction.answer(award)).await?;
            require(answer == same, || format!("{answer:?} became {same:?}"))?;
            if answer != AwardAnswer::Accepted {
                again("an end", || auction.end(end)).await?;
                let ended = again("the award again", || auction.award(award)).await;
                require(ended.is_ok(), || format!("an award that ended cannot be given again: {ended:?}"))?;
            }
            Ok::<_, Violation>(answer)
        }
    });
    let notice = AwardNotice { quote_hash: award.quote_hash, ..unawarded(request) };
    let loser =
        settlers.iter().find(|settler| settler.number < QUOTING && did(settler.number) != award.settler).unwrap();
    let anothers = async { timeout(LIVENESS, loser.answers_anothers(&notice)).await };
    let ((), answers, anothers) = tokio::join!(struck, join_all(driven), anothers);
    let answers = answers.into_iter().collect::<Result<Vec<AwardAnswer>, Violation>>()?;
    let same = answers.iter().all(|answer| *answer == answers[0]);
    require(same, || format!("gateways are answered differently: {answers:?}"))?;
    let anothers = anothers.map_err(|_| "whoever answers another's award is never told".to_owned())?;
    require(anothers == AnswerStatus::Unknown, || format!("another's award is answered: {anothers:?}"))?;
    require(began.elapsed() < STRUCK + LIVENESS, || "an award takes too long".to_owned())?;
    stands(run, request, award, settlers, &answers[0]).await
}

/// What lies in the server, and what the settlers were told.
async fn stands(
    run: &Run,
    request: &RequestForQuotes,
    award: &Award,
    settlers: &[Settler],
    answer: &AwardAnswer,
) -> Result<(), Violation> {
    let context = jetstream::new(run.truth.clone());
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let awards = context.get_stream(AWARDS_STREAM).await.map_err(|error| failed(&error))?;
    let answers = context.get_stream("ANSWERS").await.map_err(|error| failed(&error))?;
    let accepted = *answer == AwardAnswer::Accepted;
    // An award is stored once, and its end, where there is one, once in its place.
    let stored = awards.cached_info().state.clone();
    let expected = if accepted { (1, 1) } else { (1, 2) };
    require((stored.messages, stored.last_sequence) == expected, || format!("of one award are stored {stored:?}"))?;
    let kept = answers.cached_info().state.clone();
    require((kept.messages, kept.last_sequence) == (1, 1), || format!("of one answer are stored {kept:?}"))?;
    let subject = award_subject(&award.settler.token(), &award.case.payment_id);
    let last = awards.get_last_raw_message_by_subject(&subject).await.map_err(|error| failed(&error))?;
    let last = AwardMessage::read(&last.payload).map_err(|error| failed(&error))?;
    require(last.quote_hash() == award.quote_hash, || "another award is stored".to_owned())?;
    let is_end = matches!(last, AwardMessage::End(_));
    require(is_end != accepted, || format!("answered {answer:?}, and what is stored is {last:?}"))?;

    let winner = settlers.iter().find(|settler| did(settler.number) == award.settler).unwrap();
    // It may be told of what it said later, by a receipt that is still on its way.
    let told = winner.seen.lock().unwrap().receipts.clone();
    let expected = match answer {
        AwardAnswer::Accepted => AnswerStatus::Accepted,
        AwardAnswer::Refused(_) => AnswerStatus::Refused,
        AwardAnswer::Silent => AnswerStatus::Withdrawn,
    };
    // Once an award has ended nothing is known of it any more.
    let may_be = |told: AnswerStatus| told == expected || (told == AnswerStatus::Unknown && !accepted);
    let others = told.iter().filter(|told| !may_be(**told));
    require(others.count() == 0, || format!("{answer:?} stands, and the winner was told {told:?}"))?;
    let possible = match winner.answers {
        Answers::Never => *answer == AwardAnswer::Silent,
        Answers::Accepts => !matches!(answer, AwardAnswer::Refused(_)),
        Answers::Refuses => !accepted,
        Answers::Both => true,
    };
    require(possible, || format!("the winner {:?}, and {answer:?} stands", winner.answers))?;
    for settler in settlers.iter().filter(|settler| did(settler.number) != award.settler) {
        let seen = settler.seen.lock().unwrap();
        require(seen.awards.is_empty(), || format!("settler {} lost, and has {:?}", settler.number, seen.awards))?;
    }
    require(winner.seen.lock().unwrap().over == 0, || {
        format!("the winner was told that it lost, under {}", over_subject(&award.settler.token(), &request.auction_id))
    })
}
