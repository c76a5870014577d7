//! What a message says: its type, when that happened, and the payment's status as of then.

use std::sync::Arc;

use ::webhooks::{
    message::Due,
    ports::{Bodies, BodyError},
};
use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;

use events::ChainId;
use journal::{ReadError, StreamLog};
use projections::PaymentView;

use crate::views::{
    heads::ChainHeads,
    payment_body::{StatusBody, date_time},
};

/// Body of a message.
#[derive(Serialize)]
struct MessageBody {
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: String,
    data: StatusBody,
}

/// Makes bodies from the journal: from the commits up to the one that a message is about, so that each attempt says the same.
pub struct JournalBodies {
    journal: Arc<dyn StreamLog>,
    base_url: String,
}

impl JournalBodies {
    /// From this journal, for a service at `base_url`.
    pub fn new(journal: Arc<dyn StreamLog>, base_url: String) -> Self {
        Self { journal, base_url }
    }
}

/// How many confirmations there are is of the moment, and no message says it.
struct NoHeads;

impl ChainHeads for NoHeads {
    fn head(&self, _: &ChainId) -> Option<u64> {
        None
    }
}

#[async_trait]
impl Bodies for JournalBodies {
    async fn body(&self, due: &Due) -> Result<Bytes, BodyError> {
        let mut commits = self.journal.load(&(&due.payment_id).into()).await.map_err(|error| match error {
            ReadError::Unavailable(reason) => BodyError::Unavailable(reason),
            ReadError::Unreadable { .. } => BodyError::Never(error.to_string()),
        })?;
        commits.retain(|commit| commit.position.version <= due.version);
        // After a restore another commit may be in its place.
        if commits.last().is_none_or(|last| last.commit_id.to_string() != due.commit_id) {
            return Err(BodyError::Never("the journal does not have the commit of the message".to_owned()));
        }
        let view = PaymentView::fold(&commits).filter(|view| view.version == due.version);
        let view = view.ok_or_else(|| BodyError::Never("the journal lacks commits of the payment".to_owned()))?;
        let body = MessageBody {
            kind: due.kind.as_str(),
            timestamp: date_time(due.occurred_at),
            data: StatusBody::new(view, &NoHeads, &self.base_url),
        };
        serde_json::to_vec(&body).map(Bytes::from).map_err(|error| BodyError::Never(error.to_string()))
    }
}
