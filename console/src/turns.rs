//! The turns of large answers: some MiB each, which stay in memory until they have gone out. Whoever asks for many, or
//! reads them slowly, waits for himself.

use std::{convert::Infallible, time::Duration};

use axum::{
    Extension,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::stream;

use app::bulkhead::fair::{FairBulkhead, Permit};

use crate::{error::Error, operators::Operator};

/// Large answers at a time, those of one operator, and how long one may wait for its turn.
const ANSWERS_MAX: usize = 8;
const OPERATOR_ANSWERS_MAX: usize = 4;
const WAIT_MAX: Duration = Duration::from_secs(2);
/// So much of an answer is given to the connection at a time. It asks for more when that has gone out.
const CHUNK_BYTES: usize = 64 * 1024;

/// No turn is taken yet.
pub(crate) fn none_taken() -> FairBulkhead {
    FairBulkhead::new(ANSWERS_MAX, OPERATOR_ANSWERS_MAX, WAIT_MAX)
}

/// Answers in a turn of the operator's, which ends when the answer has gone out.
pub(crate) async fn in_turn(
    State(turns): State<FairBulkhead>,
    Extension(operator): Extension<Operator>,
    request: Request,
    next: Next,
) -> Response {
    let Ok(turn) = turns.permit(&operator.name).await else {
        return Error::TooBusy.into_response();
    };
    let (head, body) = next.run(request).await.into_parts();
    // It is in memory already.
    match to_bytes(body, usize::MAX).await {
        Ok(whole) => Response::from_parts(head, Body::from_stream(in_chunks(whole, turn))),
        Err(error) => Error::Failed(error.to_string()).into_response(),
    }
}

/// The answer piece by piece. Each is a copy, so that none keeps the whole in memory when the turn is over.
fn in_chunks(whole: Bytes, turn: Permit) -> impl stream::Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold((whole, turn), async |(mut rest, turn)| {
        let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
        (!chunk.is_empty()).then(|| (Ok(Bytes::copy_from_slice(&chunk)), (rest, turn)))
    })
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    #[tokio::test]
    async fn an_answer_goes_out_whole_and_its_turn_ends_with_it() {
        let turns = FairBulkhead::new(1, 1, Duration::from_millis(1));
        let whole: Vec<u8> = (0..3 * CHUNK_BYTES + 7).map(|n| (n % 251) as u8).collect();
        let turn = turns.permit("ana").await.unwrap_or_else(|_| panic!("it is free"));
        let mut chunks = Box::pin(in_chunks(whole.clone().into(), turn));
        let mut sent = Vec::new();
        for _ in 0..4 {
            assert!(turns.permit("bob").await.is_err());
            sent.extend(chunks.next().await.unwrap().unwrap());
        }
        assert_eq!(sent, whole);
        assert!(chunks.next().await.is_none());
        drop(chunks);
        assert!(turns.permit("bob").await.is_ok());
    }
}
