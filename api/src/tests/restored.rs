//! Submissions and awards on a journal that was restored from a copy (ADR 136).

use std::collections::BTreeMap;

use app::admission::{
    restore_mark::{RestoreMark, RestoreState},
    restored_journal::Escrows,
};
use events::Account;
use journal::{Recorded, ShardLog};
use sagas::ports::Transient;

use super::{
    quote_requests::{award_body, open_batch},
    *,
};

/// A chain on which every payment has an escrow or none as of a settled block of this second, or which cannot be asked.
struct Escrowed(Result<(bool, u64), ()>);

#[async_trait]
impl Escrows for Escrowed {
    async fn has(&self, _: &PaymentId, _: &EscrowPlan, payer: &Account) -> Result<(bool, u64), Transient> {
        assert_eq!(payer.to_string(), PAYER);
        self.0.map_err(|()| Transient::unreachable("the node is away"))
    }
}

const RESTORED_AT: &str = "2030-01-01T00:00:00Z";

/// The second of a settled block `later` seconds behind the wait.
fn settled(later: i64) -> u64 {
    unix_seconds(at(RESTORED_AT)).saturating_add_signed(900 + later)
}

/// A gateway on what `journal` holds, which all came out of a copy.
async fn restored(journal: &MemoryJournal, found: Result<(bool, u64), ()>) -> Gateway {
    let mut heads = BTreeMap::new();
    for shard in 0..journal.shards() {
        heads.insert(shard, journal.head(shard).await.unwrap());
    }
    let since = at(RESTORED_AT);
    let accepts_from = since + chrono::TimeDelta::seconds(900);
    let mark = RestoreMark { state: RestoreState::Done, copied_at: since, since, accepts_from, heads };
    Gateway::restored(journal.clone(), RestoredJournal::new(&mark, Arc::new(Escrowed(found))))
}

#[tokio::test]
async fn a_payment_that_the_copy_lacks_and_that_has_an_escrow_is_refused_and_nothing_is_stored() {
    let journal = MemoryJournal::new(4);
    let gateway = restored(&journal, Ok((true, settled(1)))).await;
    let answer = gateway.post(&body()).await.expect_error(409, "JOURNAL_RESTORED");
    assert_eq!(answer.body["retry_classification"], "RECONCILE_THEN_DECIDE");
    assert_eq!(answer.body["request_id_reusable"], false);
    let payment_id = PaymentId::derive(&format!("eip155:{PAYER}"), "order-1");
    assert!(journal.load(&payment_id.into()).await.unwrap().is_empty());
    // What cannot be looked up, or may have a deposit that is not settled yet, is not accepted; the same call may succeed later.
    for found in [Err(()), Ok((false, settled(0)))] {
        let gateway = restored(&journal, found).await;
        gateway.post(&body()).await.expect_error(503, "SERVICE_UNAVAILABLE");
    }
    restored(&journal, Ok((false, settled(1)))).await.post(&body()).await.expect(200);
}

#[tokio::test]
async fn a_quote_request_out_of_the_copy_gives_no_award_and_one_from_after_it_does() {
    let before = Gateway::new();
    let batch = open_batch(&before).await;
    let gateway = restored(&before.journal, Ok((false, settled(1)))).await;
    let answer = gateway.post_to(&batch.award_path(), &award_body("order-2", &batch.quote_ids[0])).await;
    let answer = answer.expect_error(409, "JOURNAL_RESTORED");
    assert!(answer.message().contains("open a new quote-request"), "{answer:?}");

    let after = Gateway::new();
    let gateway = restored(&after.journal, Ok((false, settled(1)))).await;
    let batch = open_batch(&gateway).await;
    gateway.post_to(&batch.award_path(), &award_body("order-2", &batch.quote_ids[0])).await.expect(200);
}

/// The batch's shard is in the copy up to the award, and the payment's is not up to its beginning.
#[tokio::test]
async fn an_award_that_the_copy_has_is_gone_on_with_unless_its_payment_has_an_escrow() {
    for (found, status) in [(false, 200), (true, 409)] {
        let before = Gateway::new();
        let batch = open_batch(&before).await;
        let body = award_body("order-2", &batch.quote_ids[0]);
        let payment_id = before.post_to(&batch.award_path(), &body).await.expect(200).payment_id();
        let journal = MemoryJournal::new(4);
        for commit in before.journal.load(&(&batch.id).into()).await.unwrap() {
            let stream_id = commit.stream_id.clone();
            let expected = journal.load(&stream_id).await.unwrap().last().map_or(Position::START, |last| last.position);
            let Recorded { commit_id, events, correlation, causation, .. } = commit;
            let copied = Commit { stream_id, expected, commit_id, events, correlation, causation };
            journal.append(&copied).await.unwrap();
        }
        let gateway = restored(&journal, Ok((found, settled(1)))).await;
        let answer = gateway.post_to(&batch.award_path(), &body).await;
        assert_eq!(answer.status.as_u16(), status, "{answer:?}");
        assert_eq!(journal.load(&payment_id.into()).await.unwrap().is_empty(), status == 409);
    }
}
