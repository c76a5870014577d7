//! What the models of a gateway allow, and each promise broken once.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use linearizability::{
    Call, Failure, Model, check,
    gateway::{Answer, Awards, Idempotency, Op, Status, Statuses},
    read, write,
};
use proptest::prelude::*;

type Made = Call<Op, Answer>;

const CONFIGURATIONS: usize = 100_000;

/// A call that took half a second; without an answer its outcome is unknown.
fn at(second: u64, op: Op, answer: Option<Answer>) -> Made {
    let (invoked, returned) = (second * 1_000_000, second * 1_000_000 + 500_000);
    Call { client: "client".to_owned(), op, invoked, returned: answer.map(|answer| (returned, answer)) }
}

fn submit(terms: &str) -> Op {
    Op::Submit { payment: "pay_1".to_owned(), terms: terms.to_owned(), session: "one".to_owned() }
}

fn award(payment: &str, quote: &str) -> Op {
    Op::Award {
        payment: payment.to_owned(),
        batch: "qr_1".to_owned(),
        quote: quote.to_owned(),
        session: "one".to_owned(),
    }
}

fn looked(session: &str) -> Op {
    Op::Read { payment: "pay_1".to_owned(), session: session.to_owned() }
}

fn accepted(payment: &str, replay: bool) -> Option<Answer> {
    Some(Answer::Accepted { payment: payment.to_owned(), replay, status: Status::Pending })
}

fn refused(code: &str, exists: Option<bool>) -> Option<Answer> {
    Some(Answer::Refused { code: code.to_owned(), exists })
}

fn shown(status: Status) -> Option<Answer> {
    Some(Answer::Shown(status))
}

fn holds<M: Model<Op = Op, Answer = Answer>>(history: &[Made]) -> bool {
    match check::<M>(history, CONFIGURATIONS) {
        Ok(_) => true,
        Err(Failure::Contradiction(_)) => false,
        Err(failure @ Failure::Undecided { .. }) => panic!("{failure}"),
    }
}

#[test]
fn an_id_has_one_payment() {
    let mismatch = || refused("IDEMPOTENCY_TERMS_MISMATCH", Some(true));
    let good = [
        at(0, looked("one"), Some(Answer::Absent)),
        at(1, submit("a"), refused("SERVICE_UNAVAILABLE", None)),
        at(2, submit("a"), None),
        at(3, submit("a"), accepted("pay_1", true)),
        at(4, submit("b"), mismatch()),
        at(5, looked("one"), shown(Status::Pending)),
    ];
    assert!(holds::<Idempotency>(&good));
    for bad in [
        // Two were created.
        vec![at(0, submit("a"), accepted("pay_1", false)), at(1, submit("a"), accepted("pay_1", false))],
        // A replay of nothing.
        vec![at(0, submit("a"), accepted("pay_1", true))],
        // Other terms are accepted, or another id comes back.
        vec![at(0, submit("a"), accepted("pay_1", false)), at(1, submit("b"), accepted("pay_1", true))],
        vec![at(0, submit("a"), accepted("pay_2", false))],
        // The same terms are refused as others, or others where there are none.
        vec![at(0, submit("a"), accepted("pay_1", false)), at(1, submit("a"), mismatch())],
        vec![at(0, submit("a"), mismatch())],
        // What was accepted is gone, or is said to be free.
        vec![at(0, submit("a"), accepted("pay_1", false)), at(1, looked("two"), Some(Answer::Absent))],
        vec![
            at(0, submit("a"), accepted("pay_1", false)),
            at(1, submit("a"), refused("INVALID_DEADLINE", Some(false))),
        ],
        // What was refused exists.
        vec![at(0, submit("a"), refused("INVALID_DEADLINE", None)), at(1, looked("one"), shown(Status::Pending))],
    ] {
        assert!(!holds::<Idempotency>(&bad), "{bad:?}");
    }
}

#[test]
fn a_batch_has_one_winner() {
    let lost = || refused("QUOTE_REQUEST_ALREADY_AWARDED", Some(false));
    let good = [
        at(0, award("pay_1", "quote_1"), None),
        at(0, award("pay_2", "quote_2"), lost()),
        at(1, award("pay_1", "quote_1"), accepted("pay_1", true)),
    ];
    assert!(holds::<Awards>(&good));
    for bad in [
        vec![
            at(0, award("pay_1", "quote_1"), accepted("pay_1", false)),
            at(1, award("pay_2", "quote_2"), accepted("pay_2", false)),
        ],
        vec![at(0, award("pay_1", "quote_1"), accepted("pay_1", false)), at(1, award("pay_1", "quote_1"), lost())],
        vec![at(0, award("pay_1", "quote_1"), lost())],
    ] {
        assert!(!holds::<Awards>(&bad), "{bad:?}");
    }
}

#[test]
fn what_was_shown_with_a_position_holds_and_an_end_is_the_end_for_everybody() {
    let good = [
        at(0, submit("a"), accepted("pay_1", false)),
        at(1, looked("one"), shown(Status::Finalizing)),
        at(2, looked("two"), shown(Status::Pending)),
        at(3, looked("one"), shown(Status::Completed)),
        at(4, looked("two"), shown(Status::Finalizing)),
        at(5, looked("two"), shown(Status::Completed)),
    ];
    assert!(holds::<Statuses>(&good));
    for bad in [
        [at(0, looked("one"), shown(Status::Finalizing)), at(1, looked("one"), shown(Status::Pending))],
        [at(0, looked("one"), shown(Status::Completed)), at(1, looked("one"), shown(Status::Finalizing))],
        [at(0, looked("one"), shown(Status::Completed)), at(1, looked("two"), shown(Status::Failed))],
    ] {
        assert!(!holds::<Statuses>(&bad), "{bad:?}");
    }
}

#[test]
fn a_history_is_read_as_it_was_written() {
    let history = vec![
        at(0, submit("a"), accepted("pay_1", false)),
        at(1, award("pay_1", "quote_1"), refused("QUOTE_EXPIRED", Some(false))),
        at(2, looked("one"), None),
        at(3, looked("one"), shown(Status::Failed)),
        at(4, looked("one"), Some(Answer::Absent)),
    ];
    let mut file = Vec::new();
    for call in &history {
        write(&mut file, call).unwrap();
    }
    assert_eq!(read::<Op, Answer>(file.as_slice()).unwrap(), history);
    file.extend(b"{\"client\": 1}\n");
    let error = read::<Op, Answer>(file.as_slice()).unwrap_err();
    assert!(error.to_string().starts_with("line 6 of the history"), "{error}");
}

fn ops() -> impl Strategy<Value = Op> {
    let text = |texts: &'static [&'static str]| prop::sample::select(texts).prop_map(str::to_owned);
    let (terms, quote, session) = (text(&["a", "b"]), text(&["quote_1", "quote_2"]), text(&["one", "two"]));
    let payment = || text(&["pay_1", "pay_2"]);
    prop_oneof![
        (payment(), terms, session.clone()).prop_map(|(payment, terms, session)| Op::Submit {
            payment,
            terms,
            session
        }),
        (payment(), quote, session.clone()).prop_map(|(payment, quote, session)| Op::Award {
            payment,
            batch: "qr_1".to_owned(),
            quote,
            session
        }),
        (payment(), session).prop_map(|(payment, session)| Op::Read { payment, session }),
    ]
}

fn answers() -> impl Strategy<Value = Answer> {
    let status = || prop::sample::select(&[Status::Pending, Status::Finalizing, Status::Completed, Status::Failed][..]);
    let code =
        prop::sample::select(&["IDEMPOTENCY_TERMS_MISMATCH", "QUOTE_REQUEST_ALREADY_AWARDED", "RATE_LIMITED"][..]);
    prop_oneof![
        (prop::sample::select(&["pay_1", "pay_2"][..]), any::<bool>(), status())
            .prop_map(|(payment, replay, status)| { Answer::Accepted { payment: payment.to_owned(), replay, status } }),
        (code, any::<Option<bool>>()).prop_map(|(code, exists)| Answer::Refused { code: code.to_owned(), exists }),
        status().prop_map(Answer::Shown),
        Just(Answer::Absent),
    ]
}

/// Registers that are written once: an answer leads nowhere else than the call does whose answer is unknown.
fn effects_cover_steps<M: Model<Op = Op, Answer = Answer>>(before: &[(Op, Answer)], op: &Op, answer: &Answer)
where
    M::State: std::fmt::Debug,
{
    let state = before.iter().fold(M::initial(), |state, (op, answer)| M::step(&state, op, answer).unwrap_or(state));
    if let (Some(_), Some(after)) = (M::key(op), M::step(&state, op, answer)) {
        assert!(after == state || after == M::effect(&state, op), "{state:?} {op:?} {answer:?} {after:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn unknown_outcomes_explain_what_answers_do(
        before in prop::collection::vec((ops(), answers()), 0..5),
        op in ops(),
        answer in answers(),
    ) {
        effects_cover_steps::<Idempotency>(&before, &op, &answer);
        effects_cover_steps::<Awards>(&before, &op, &answer);
    }
}
