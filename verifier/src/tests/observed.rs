//! What the client observes of those it asks, and how much it asks of one.

use std::sync::LazyLock;

use futures::FutureExt;
use tokio::{select, sync::Notify, time::timeout};

use super::{sets::case_of_set, *};
use crate::observed::Answer;

type Reply = fn() -> Response;

#[tokio::test]
async fn what_became_of_each_ask_is_on_record() {
    fn said(status: StatusCode, body: Value) -> Response {
        (status, body.to_string()).into_response()
    }
    fn attested(signature: &str) -> Response {
        said(StatusCode::OK, json!({"version": "1.0", "status": "attested", "signature": signature}))
    }
    let replies: [(Answer, Reply); 9] = [
        (Answer::Attested, || attested(GOOD_SIGNATURE)),
        (Answer::Contradiction, || attested("0xbad0")),
        (Answer::Contradiction, || said(StatusCode::OK, json!({"version": "1.0"}))),
        (Answer::Pending, || said(StatusCode::OK, json!({"version": "1.0", "status": "pending"}))),
        (Answer::Refused, || said(StatusCode::OK, json!({"version": "1.0", "status": "refused"}))),
        (Answer::Busy, || said(StatusCode::TOO_MANY_REQUESTS, json!({}))),
        (Answer::Busy, || said(StatusCode::SERVICE_UNAVAILABLE, json!({"code": "BUSY", "message": "later"}))),
        (Answer::Unreachable, || said(StatusCode::SERVICE_UNAVAILABLE, json!({"code": "CHAINS_UNAVAILABLE"}))),
        (Answer::Unreachable, || said(StatusCode::NOT_FOUND, json!({}))),
    ];
    for (answer, reply) in replies {
        let listening = Listening::answering(reply).await;
        for case in [case(), case_of_set(listening.origin())] {
            let client = listening.client(&Arc::default());
            drop(client.attest_delivery(&listening.reference(), &case).await);
            let [record] = client.records().snapshot().try_into().unwrap();
            assert_eq!(record.endpoint, listening.origin());
            let counted = record.answers.iter().filter(|(_, count)| **count > 0);
            assert_eq!(counted.collect::<Vec<_>>(), [(&answer, &1)]);
            assert_eq!(record.last_answered_at.is_some(), answer.is_answer(), "{answer:?}");
            assert_eq!(record.accounts.len(), usize::from(answer == Answer::Attested));
            assert!(record.median_ms.is_some() && record.median_ms == record.p99_ms);
        }
    }
}

#[tokio::test]
async fn silence_is_on_record_with_the_time_that_was_waited() {
    let never = || async { std::future::pending::<StatusCode>().await };
    let listening = Listening::router(Router::new().route(DELIVERY_ATTESTATION_PATH, post(never))).await;
    let client = client(&Arc::default(), vec![listening.origin()], Duration::from_millis(50));
    assert_fault(&client.attest_delivery(&listening.reference(), &case()).await, "did not answer in time");
    let [record] = client.records().snapshot().try_into().unwrap();
    assert_eq!((record.answers[&Answer::Unreachable], record.last_answered_at), (1, None));
    assert!(record.median_ms.is_some_and(|ms| ms >= 50), "{record:?}");
}

#[tokio::test]
async fn a_member_that_is_not_waited_for_is_heard_to_its_end() {
    static BEGUN: LazyLock<Notify> = LazyLock::new(Notify::new);
    static TOLD: LazyLock<Notify> = LazyLock::new(Notify::new);
    let slow = || async {
        BEGUN.notify_one();
        TOLD.notified().await;
        json!({"version": "1.0", "status": "attested", "signature": GOOD_SIGNATURE}).to_string()
    };
    let listening = Listening::router(Router::new().route(DELIVERY_ATTESTATION_PATH, post(slow))).await;
    let (client, case) = (listening.client(&Arc::default()), case_of_set(listening.origin()));
    let (member, records) = (listening.reference(), client.records());
    select! {
        outcome = client.attest_delivery(&member, &case) => panic!("{outcome:?}"),
        () = BEGUN.notified() => {}
    }
    TOLD.notify_one();
    let heard = async {
        while records.snapshot()[0].answers[&Answer::Attested] == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, heard).await.unwrap();
}

#[tokio::test]
async fn of_one_verifier_so_much_is_asked_and_no_more() {
    let never = || async { std::future::pending::<StatusCode>().await };
    let listening = Listening::router(Router::new().route(DELIVERY_ATTESTATION_PATH, post(never))).await;
    let other = Listening::judge(FixedJudge::attesting(GOOD_SIGNATURE)).await;
    let client = client(&Arc::default(), vec![listening.origin(), other.origin()], PATIENCE);
    let (silent, case) = (listening.reference(), case());
    let mut asks = Vec::new();
    for _ in 0..256 {
        let mut ask = client.attest_delivery(&silent, &case);
        assert!((&mut ask).now_or_never().is_none());
        asks.push(ask);
    }
    assert_fault(&client.attest_delivery(&silent, &case).await, "has 256 asks to answer already");
    let skipped = |records: Vec<crate::observed::VerifierRecord>| {
        records.iter().map(|record| record.answers[&Answer::Skipped]).sum::<u64>()
    };
    assert_eq!(skipped(client.records().snapshot()), 1);
    // Nobody else is the worse for it.
    assert_eq!(client.attest_delivery(&other.reference(), &case).await, Ok(Some(GOOD_SIGNATURE.to_owned())));
    drop(asks);
    assert!(client.attest_delivery(&silent, &case).now_or_never().is_none());
}

/// What a verifier's last answer says of itself counts, and that of an older version says nothing.
#[tokio::test]
async fn whether_a_verifier_follows_reassignments_is_learnt_from_its_answers() {
    let current = Listening::judge(FixedJudge::attesting(GOOD_SIGNATURE)).await;
    let older = || json!({"version": "1.0", "status": "attested", "signature": GOOD_SIGNATURE}).to_string();
    let older = Listening::answering(older).await;
    let liar = json!({"version": "1.0", "status": "attested", "signature": "0xbad0", "follows_reassignments": true});
    let liar = Listening::answering(move || liar.to_string()).await;
    for (listening, follows) in [(&current, true), (&older, false), (&liar, false)] {
        for case in [case(), case_of_set(listening.origin())] {
            let (client, reference) = (listening.client(&Arc::default()), listening.reference());
            assert!(!client.follows_reassignments(&reference), "it was not asked");
            drop(client.attest_delivery(&reference, &case).await);
            assert_eq!(client.follows_reassignments(&reference), follows);
            let other =
                VerifierMember { account: "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359".parse().unwrap(), ..reference };
            assert!(!client.follows_reassignments(&other));
        }
    }
    let pending = Ok(Verdict::Pending { reason: String::new() });
    let signed = Ok(Verdict::Attested { signature: GOOD_SIGNATURE.to_owned() });
    let listening = Listening::judge(FixedJudge::new(pending, signed)).await;
    let (client, reference) = (listening.client(&Arc::default()), listening.reference());
    assert_eq!(client.attest_delivery(&reference, &case()).await, Ok(None));
    assert!(!client.follows_reassignments(&reference), "nothing shows whose word it is");
    assert_eq!(client.attest_non_delivery(&reference, &case()).await, Ok(Some(GOOD_SIGNATURE.to_owned())));
    assert!(client.follows_reassignments(&reference));
}
