//! The mark of a restore: that the journal was put in place from a copy, and whether that is over (ADR 136).
//!
//! It stands beside the pause in the bucket `gw_control`. A gateway reads it before it opens, or makes, any stream: one that
//! began while only part of the copy is there would drive payments by the wrong half of their history.

use std::collections::BTreeMap;

use async_nats::{
    Client,
    jetstream::{
        self, ErrorCode,
        context::GetStreamErrorKind,
        stream::{LastRawMessageErrorKind, Stream},
    },
};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use events::time::Timestamp;

use super::pause::{ControlBucket, Error, LOOK_MAX, STREAM, unavailable};

/// Key of the mark, as a subject.
const RESTORE_SUBJECT: &str = "$KV.gw_control.restore";

/// How far a restore is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreState {
    /// The streams are being filled, or were when the restore was interrupted.
    UnderWay,
    /// All of the copy is in place.
    Done,
}

/// The mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreMark {
    /// How far it is.
    pub state: RestoreState,
    /// When the copy was made.
    pub copied_at: Timestamp,
    /// When the mark was set.
    pub since: Timestamp,
    /// A payment is accepted once a settled block of its source chain is later: until then a deposit of before the loss may come.
    pub accepts_from: Timestamp,
    /// By shard, the last sequence that comes out of the copy.
    pub heads: BTreeMap<u16, u64>,
}

/// The mark as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMark {
    /// What it says.
    pub mark: RestoreMark,
    /// Its sequence in the bucket, another after each change.
    pub revision: u64,
}

impl RestoreMark {
    /// The mark on this server; `None` where nothing was ever restored. Creates nothing.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn read(client: &Client) -> Result<Option<StoredMark>, Error> {
        let context = jetstream::new(client.clone());
        match timeout(LOOK_MAX, context.get_stream(STREAM)).await.map_err(|_| unavailable("no answer in time"))? {
            Ok(stream) => Self::read_in(&stream).await,
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(reason) if reason.error_code() == ErrorCode::STREAM_NOT_FOUND => Ok(None),
                _ => Err(unavailable(error)),
            },
        }
    }

    async fn read_in(stream: &Stream) -> Result<Option<StoredMark>, Error> {
        let last = timeout(LOOK_MAX, stream.get_last_raw_message_by_subject(RESTORE_SUBJECT));
        match last.await.map_err(|_| unavailable("no answer in time"))? {
            Ok(message) => {
                let mark = serde_json::from_slice(&message.payload);
                let mark = mark.map_err(|error| Error::Unreadable(error.to_string()))?;
                Ok(Some(StoredMark { mark, revision: message.sequence }))
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(unavailable(error)),
        }
    }

    /// Sets the mark in the place of `before`, and of no other; its revision.
    ///
    /// # Errors
    /// [`Error`]; after [`Error::Unavailable`] it is not known whether it was stored.
    pub async fn set(&self, bucket: &ControlBucket, before: Option<u64>) -> Result<u64, Error> {
        let body = serde_json::to_vec(self).map_err(unavailable)?;
        bucket.replace(RESTORE_SUBJECT, before.unwrap_or(0), body).await
    }
}
