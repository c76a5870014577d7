//! Payment identifiers in JetStream: one message an identifier, the first and only one.

use std::time::Duration;

use async_nats::{
    Client,
    jetstream::{
        self,
        message::PublishMessage,
        stream::{Config, DiscardPolicy, LastRawMessageErrorKind, StorageType, Stream},
    },
};
use async_trait::async_trait;
use data_encoding::BASE32_NOPAD;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use events::Hash32;

use super::{Binding, Identifiers, IdentifiersError};

/// Name of the JetStream stream that holds the identifiers.
pub const STREAM: &str = "X402";
const SUBJECT: &str = "gw.x402";
/// How long one question to the stream may take.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// How often a binding whose outcome is unknown is repeated. It can be stored only once.
const ATTEMPTS: u32 = 3;

/// A binding, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    identifier: String,
    #[serde(flatten)]
    binding: Binding,
}

/// [`Identifiers`] of all gateways on one NATS.
#[derive(Debug, Clone)]
pub struct NatsIdentifiers {
    context: jetstream::Context,
    stream: Stream,
}

impl NatsIdentifiers {
    /// Opens the stream, creating it where it is missing.
    ///
    /// # Errors
    /// [`IdentifiersError`] when the server cannot be asked, or the stream has another form.
    pub async fn open(client: Client, replicas: usize) -> Result<Self, IdentifiersError> {
        let context = jetstream::new(client);
        let stream = context.get_or_create_stream(config(replicas)).await.map_err(unavailable)?;
        // What makes a binding final. A stream without it was not made by a gateway.
        let found = &stream.cached_info().config;
        if found.discard != DiscardPolicy::New || !found.discard_new_per_subject || !found.deny_delete {
            return Err(IdentifiersError::Unusable(format!("stream {STREAM} does not keep every first binding")));
        }
        Ok(Self { context, stream })
    }

    async fn publish(&self, identifier: &str, binding: &Binding) -> Result<(), IdentifiersError> {
        let stored = Stored { identifier: identifier.to_owned(), binding: binding.clone() };
        let body = serde_json::to_vec(&stored).map_err(unavailable)?;
        let message = PublishMessage::build().payload(body.into()).expected_last_subject_sequence(0);
        let stored = self.context.send_publish(subject(identifier), message).await.map_err(unavailable)?;
        stored.await.map_err(unavailable)?;
        Ok(())
    }
}

#[async_trait]
impl Identifiers for NatsIdentifiers {
    async fn bound(&self, identifier: &str) -> Result<Option<Binding>, IdentifiersError> {
        // The leader, which knows every binding: a replica may lag.
        let subject = subject(identifier);
        let last = timeout(ANSWER_MAX, self.stream.get_last_raw_message_by_subject(&subject)).await;
        match last.map_err(|_| unavailable("no answer in time"))? {
            Ok(message) => {
                let stored: Stored = serde_json::from_slice(&message.payload)
                    .map_err(|error| IdentifiersError::Unusable(format!("{subject} holds no binding: {error}")))?;
                Ok(Some(stored.binding))
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(unavailable(error)),
        }
    }

    async fn bind(&self, identifier: &str, binding: &Binding) -> Result<Binding, IdentifiersError> {
        let mut last = unavailable("no attempt was made");
        for _ in 0..ATTEMPTS {
            match timeout(ANSWER_MAX, self.publish(identifier, binding)).await {
                Ok(Ok(())) => return Ok(binding.clone()),
                Ok(Err(error)) => last = error,
                Err(_) => last = unavailable("no acknowledgement in time"),
            }
            // Refused, lost, or stored with a lost acknowledgement: what stands there says which.
            if let Some(bound) = self.bound(identifier).await? {
                return Ok(bound);
            }
        }
        Err(last)
    }
}

fn unavailable(error: impl std::fmt::Display) -> IdentifiersError {
    IdentifiersError::Unavailable(error.to_string())
}

/// Of one length, whatever the identifier's.
fn subject(identifier: &str) -> String {
    let token = BASE32_NOPAD.encode(&Hash32::sha256(identifier).0).to_ascii_lowercase();
    format!("{SUBJECT}.{token}")
}

/// One message a subject, which nothing replaces and nobody takes out.
fn config(replicas: usize) -> Config {
    Config {
        name: STREAM.to_owned(),
        description: Some("the payload that each payment identifier belongs to".to_owned()),
        subjects: vec![format!("{SUBJECT}.*")],
        storage: StorageType::File,
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        deny_delete: true,
        deny_purge: true,
        allow_direct: true,
        num_replicas: replicas,
        ..Default::default()
    }
}
