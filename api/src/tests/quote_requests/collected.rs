//! Collected quotes: what a batch shows of them, and of declines.

use super::*;

#[tokio::test]
async fn collected_quotes_are_shown_as_the_bytes_that_were_signed() {
    let gateway = Gateway::new();
    let batch = open_batch(&gateway).await;
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        let read = gateway.get(&batch.path()).await.expect(200);
        let replay = gateway.post_to(PATH, &quote_request()).await.expect(200);
        for answer in [&read, &replay] {
            assert_eq!(answer.body["status"], "ready");
            let quotes = answer.body["quotes"].as_array().unwrap();
            assert_eq!(quotes.len(), 2);
            for ((shown, quote_id), signed) in quotes.iter().zip(&batch.quote_ids).zip(&batch.quotes) {
                assert_eq!(members(shown), BTreeSet::from(["fulfillment_quote", "quote_id"]));
                assert_eq!(shown["quote_id"], quote_id.as_str());
                assert!(answer.text.contains(&format!("\"fulfillment_quote\":{}", signed.document())), "{answer:?}");
            }
            assert_eq!(answer.body["requested_count"], 3);
            let declines = json!([{
                "reason": "INSUFFICIENT_LIQUIDITY",
                "count": 1,
                "retry_classification": "RETRY_AFTER_DELAY",
                "docs_url": "https://pay.example/docs/errors#INSUFFICIENT_LIQUIDITY",
            }]);
            assert_eq!(answer.body["decline_summary"], declines);
        }
        assert_eq!(replay.body["idempotent_replay"], true);
        assert!(read.body.get("idempotent_replay").is_none());
    }
}

#[tokio::test]
async fn no_quotes_are_a_result_that_never_expires() {
    let gateway = Gateway::new();
    let id = open(&gateway, &quote_request()).await;
    collect(&gateway, &id, &[]).await;
    for time in ["2030-01-01T00:00:00Z", "2031-01-01T00:00:00Z"] {
        gateway.clock.set(time);
        let answer = gateway.get(&format!("{PATH}/{id}")).await.expect(200);
        assert_eq!((&answer.body["status"], &answer.body["quotes"]), (&json!("ready"), &json!([])));
        assert_eq!(answer.body["decline_summary"][0]["reason"], "INSUFFICIENT_LIQUIDITY");
        assert_eq!(answer.body["requested_count"], 1);
    }
    let path = format!("{PATH}/{id}/award");
    gateway.post_to(&path, &award_body("order-1", "quo_x")).await.expect_error(404, "QUOTE_NOT_FOUND");
}

#[tokio::test]
async fn declines_are_provisional_while_quotes_are_collected() {
    let gateway = Gateway::new();
    let id = open(&gateway, &quote_request()).await;
    let path = format!("{PATH}/{id}");
    // Nothing is known while the answers cannot be read, and nobody was asked as far as is known.
    assert!(gateway.get(&path).await.expect(200).body.get("decline_summary").is_none());
    *gateway.auctions.0.lock().unwrap() = Some(Gathered::default());
    let answer = gateway.get(&path).await.expect(200);
    assert_eq!(answer.body["decline_summary"], json!([]));
    assert!(answer.body.get("requested_count").is_none(), "unknown is absent, never zero: {answer:?}");

    let decline = |n, reason: &str| bid(n, BidAnswer::Decline(reason.to_owned()));
    let bids = vec![
        decline(1, "PRICE_ABOVE_CAP"),
        decline(1, "INSUFFICIENT_LIQUIDITY"),
        decline(2, "INSUFFICIENT_LIQUIDITY"),
        decline(3, "we are on holiday"),
        // Not asked.
        decline(7, "INSUFFICIENT_LIQUIDITY"),
    ];
    let addressed = [1, 2, 3, 4].map(did).to_vec();
    *gateway.auctions.0.lock().unwrap() = Some(Gathered { addressed, bids, ..Gathered::default() });
    let replay = gateway.post_to(PATH, &quote_request()).await.expect(200);
    for answer in [gateway.get(&path).await.expect(200), replay] {
        assert_eq!((&answer.body["status"], &answer.body["requested_count"]), (&json!("collecting"), &json!(4)));
        let summary = answer.body["decline_summary"].as_array().unwrap();
        let counts: Vec<_> = summary.iter().map(|item| (item["reason"].as_str().unwrap(), &item["count"])).collect();
        assert_eq!(counts, [("INSUFFICIENT_LIQUIDITY", &json!(2)), ("UNSPECIFIED", &json!(1))]);
        assert!(answer.body.get("quotes").is_none());
    }
}
