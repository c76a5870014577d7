//! The settler's connection to NATS, on which it has its own subjects.

use async_nats::{
    HeaderMap,
    jetstream::{self, context::PublishError},
};
use bytes::Bytes;

use events::SettlerToken;
use trace::TraceParent;

/// The settler's own subjects on NATS. Cheap to clone.
#[derive(Clone)]
pub struct Nats {
    /// What its subjects bear.
    pub token: SettlerToken,
    /// The connection.
    pub client: async_nats::Client,
    /// The streams behind it.
    pub jetstream: jetstream::Context,
}

impl Nats {
    /// Publishes and waits until the message is stored.
    pub async fn publish(&self, subject: String, payload: Bytes) -> Result<(), PublishError> {
        self.jetstream.publish(subject, payload).await?.await.map(drop)
    }
}

/// The span that the gateway sent a message in.
pub fn traceparent(headers: Option<&HeaderMap>) -> Option<TraceParent> {
    TraceParent::parse_only(headers?.get_all(trace::TRACEPARENT).map(|value| value.as_str()))
}
