//! The session key where all gateways find it: beside the pause in the bucket `gw_control`, which gateways alone read. The
//! first gateway that looks makes it, and nothing replaces it: all others find that one.

use std::time::Duration;

use async_nats::{
    Client, HeaderMap, header,
    jetstream::{
        self,
        context::PublishErrorKind,
        stream::{LastRawMessageErrorKind, Stream},
    },
};
use data_encoding::HEXLOWER;
use tokio::time::timeout;

use super::session_key::{KEY_BYTES, SessionKey};

/// The stream of the bucket, and the key as a subject.
const STREAM: &str = "KV_gw_control";
const SUBJECT: &str = "$KV.gw_control.session_key";
/// How long one question may take.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The key cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// NATS does not answer, or refuses.
    #[error("the session key: {0}")]
    Unavailable(String),
    /// What stands there is not a key.
    #[error("{SUBJECT} holds no key of {KEY_BYTES} bytes in hex")]
    Unreadable,
}

fn unavailable(error: impl std::fmt::Display) -> Error {
    Error::Unavailable(error.to_string())
}

impl SessionKey {
    /// The key that all gateways on this server have; it is made where there is none yet. The bucket has to be there.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn shared(client: Client) -> Result<Self, Error> {
        let context = jetstream::new(client);
        let stream = timeout(ANSWER_MAX, context.get_stream(STREAM)).await;
        let stream = stream.map_err(|_| unavailable("no answer in time"))?.map_err(unavailable)?;
        if let Some(key) = stored(&stream).await? {
            return Ok(key);
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, "0");
        let made = HEXLOWER.encode(Self::random().bytes());
        let sent = context.publish_with_headers(SUBJECT, headers, made.into()).await.map_err(unavailable)?;
        match timeout(ANSWER_MAX, sent).await.map_err(|_| unavailable("no acknowledgement in time"))? {
            Err(error) if error.kind() != PublishErrorKind::WrongLastSequence => Err(unavailable(error)),
            // Stored, or another gateway's was before: what stands there counts.
            _ => stored(&stream).await?.ok_or_else(|| unavailable("it is not there although it was stored")),
        }
    }
}

/// What the stream's leader has.
async fn stored(stream: &Stream) -> Result<Option<SessionKey>, Error> {
    let last = timeout(ANSWER_MAX, stream.get_last_raw_message_by_subject(SUBJECT)).await;
    match last.map_err(|_| unavailable("no answer in time"))? {
        Ok(message) => {
            let bytes = HEXLOWER.decode(&message.payload).ok().and_then(|bytes| bytes.try_into().ok());
            bytes.map(|bytes| Some(SessionKey::new(bytes))).ok_or(Error::Unreadable)
        }
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(unavailable(error)),
    }
}
