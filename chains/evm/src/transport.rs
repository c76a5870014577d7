//! HTTP transport: alloy's requests over the client that bounds answers and keeps pauses.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use alloy::{
    rpc::json_rpc::{RequestPacket, ResponsePacket},
    transports::{TransportError, TransportErrorKind, TransportFut},
};
use tower::Service;

use chains::nodes::http::Http;

/// Characters of an answer without success that are kept.
const BODY_CHARS_MAX: usize = 400;

/// A transport over one node's client.
#[derive(Debug, Clone)]
pub(crate) struct HttpTransport(pub Arc<Http>);

impl HttpTransport {
    async fn send(self, packet: RequestPacket) -> Result<ResponsePacket, TransportError> {
        let body = serde_json::to_vec(&packet).map_err(TransportError::ser_err)?;
        let answer = self.0.post(body).await.map_err(TransportErrorKind::custom)?;
        let read = serde_json::from_slice::<ResponsePacket>(&answer.body);
        match (answer.is_success(), read) {
            // Some nodes say why in the body, whatever the status.
            (true, Ok(read)) => Ok(read),
            (false, Ok(read)) if read.as_error().is_some() => Ok(read),
            (true, Err(error)) => Err(TransportError::deser_err(error, shortened(&answer.body))),
            (false, _) => Err(TransportErrorKind::http_error_with_retry_after(
                answer.status,
                shortened(&answer.body),
                answer.retry_after,
            )),
        }
    }
}

fn shortened(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(BODY_CHARS_MAX).collect()
}

impl Service<RequestPacket> for HttpTransport {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, packet: RequestPacket) -> Self::Future {
        Box::pin(self.clone().send(packet))
    }
}
