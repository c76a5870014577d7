//! Events in blocks whose other transactions are somebody else's choice.

use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use axum::{
    Json,
    body::Bytes,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use sagas::ports::{Chains, DeliveryState};

use super::Secured;

/// What became of all transactions of a block.
const OF_BLOCK: &str = "gettransactioninfobyblocknum";

/// A result that is told before that of the block's first transaction.
type Sibling = fn(&Value) -> Value;
/// What is answered instead of a block's results.
type Instead = fn() -> Response;

/// Results that cannot be what they say.
const SIBLINGS: [(&str, Sibling); 6] = [
    ("a result that is none", |one| json!({"id": one["id"], "blockNumber": "x"})),
    ("a log that is none", |one| json!({"id": one["id"], "blockNumber": one["blockNumber"], "log": [{}]})),
    ("failed and succeeded", |one| {
        let mut sibling = one.clone();
        sibling["result"] = json!("FAILED");
        sibling
    }),
    ("null", |_| Value::Null),
    ("a list", |_| json!([1])),
    ("an output that is not hex", |one| {
        let mut sibling = one.clone();
        sibling["receipt"]["result"] = json!("REVERT");
        sibling["contractResult"] = json!(["xx"]);
        sibling
    }),
];

/// Answers in which the event's own result cannot be read.
const ANSWERS: [(&str, Instead); 4] = [
    ("all that is readable is missing", || Json(json!([{"id": 7}])).into_response()),
    ("no time for it", || StatusCode::GATEWAY_TIMEOUT.into_response()),
    ("cut off", || r#"[{"id":"00"#.into_response()),
    ("too large", || {
        // Made once: it is asked for again and again.
        static BODY: LazyLock<Bytes> = LazyLock::new(|| {
            let (id, output) = ("00".repeat(32), "00".repeat(17 * 1024 * 1024));
            format!(r#"[{{"id":"{id}","contractResult":["{output}"]}}]"#).into()
        });
        ([(CONTENT_TYPE, "application/json")], BODY.clone()).into_response()
    }),
];

/// What others have in the same block must not keep an event from being found.
#[tokio::test]
async fn an_event_is_found_whatever_its_siblings_are() -> Result<()> {
    let secured = Secured::start().await?;
    let delivery = secured.world.delivery(&secured.order);
    let fulfilled = secured.world.fulfill(&delivery).await?;
    secured.world.solidify().await?;
    let DeliveryState::Final(inclusion) = secured.chains.delivery_state(&delivery).await? else { bail!("not final") };
    assert_eq!(inclusion.transaction_hash, fulfilled.id.to_string());
    let is_found = async |what: &str| -> Result<()> {
        assert_eq!(secured.look().await.with_context(|| what.to_owned())?, secured.state, "{what}");
        let state = secured.chains.delivery_state(&delivery).await.with_context(|| what.to_owned())?;
        assert_eq!(state, DeliveryState::Final(inclusion.clone()), "{what}");
        let heard = secured.liar.heard();
        assert!(heard.iter().any(|heard| heard.path.ends_with(OF_BLOCK)), "{what}");
        Ok(())
    };
    for (what, sibling) in SIBLINGS {
        secured.liar.tell(move |path, _, mut truth| {
            if path.ends_with(OF_BLOCK)
                && let Some(infos) = truth.as_array_mut()
                && let Some(first) = infos.first().cloned()
            {
                infos.insert(0, sibling(&first));
            }
            truth
        });
        is_found(what).await?;
    }
    // Where the event's own result is the one that cannot be read, or nothing can, it is asked for by itself.
    for (what, instead) in ANSWERS {
        secured.liar.be_honest();
        secured.liar.answer(move |path, _| path.ends_with(OF_BLOCK).then(instead));
        is_found(what).await?;
    }
    // Nor is a single transaction believed that is not as it must be, or is in another block.
    secured.liar.tell(|path, _, mut truth| {
        if path.ends_with("gettransactioninfobyid") {
            truth["blockNumber"] = json!(truth["blockNumber"].as_u64().unwrap_or_default() + 1);
        }
        truth
    });
    secured.look().await.expect_err("in another block");
    secured.chains.delivery_state(&delivery).await.expect_err("in another block");
    // The listing alone has what is in the block where its ids are not known.
    secured.liar.tell(|path, request, mut truth| {
        if path.ends_with("getblock") && request["detail"] == true {
            truth["transactions"] = json!([]);
        }
        truth
    });
    assert_eq!(secured.look().await?, secured.state, "the journal knows both of its transactions");
    secured.chains.delivery_state(&delivery).await.expect_err("not in the listing");
    Ok(())
}
