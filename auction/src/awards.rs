//! Awards and their ends, stored where the winner finds them; and word to the losers.

use std::time::Duration;

use async_nats::jetstream::context::PublishErrorKind;
use bytes::Bytes;
use tracing::Instrument;

use events::mutant;
use journal_jetstream::last_message;
use protocol::{AWARDS_STREAM, AwardMessage, AwardNotice, Version, award_subject, over_subject};
use sagas::ports::{AuctionOver, Award, AwardEnd, Transient};

use super::{Inner, wire};

/// How long the server may take to store an award.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

impl Inner {
    /// See [`sagas::ports::Auction::award`].
    pub(super) async fn award(&self, award: &Award) -> Result<(), Transient> {
        let token = award.settler.token();
        let consumer = self.ensure_settler(&token).await;
        consumer.map_err(Transient::unreachable)?;
        let subject = award_subject(&token, wire::token(award));
        let notice = wire::notice(award);
        // The server forgets message ids after minutes; that the subject is still empty it knows for as long as it
        // keeps the award.
        match self.store_award(&subject, &subject, 0, protocol::write(&notice).into()).await? {
            Stored::New => Ok(()),
            Stored::Other => self.is_stored(&subject, &notice).await,
        }
    }

    /// See [`sagas::ports::Auction::end`].
    pub(super) async fn end(&self, end: &AwardEnd) -> Result<(), Transient> {
        let token = end.settler.token();
        let consumer = self.ensure_settler(&token).await;
        consumer.map_err(Transient::unreachable)?;
        let subject = award_subject(&token, wire::ended_token(end));
        let found = self.last_under(AWARDS_STREAM, &subject).await?;
        let sequence = found.as_ref().map_or(0, |(sequence, _)| *sequence);
        if found.is_some_and(|(_, payload)| matches!(AwardMessage::read(&payload), Ok(AwardMessage::End(_)))) {
            return Ok(());
        }
        let id = format!("{subject}.end");
        match self.store_award(&subject, &id, sequence, protocol::write(&wire::end(end)).into()).await? {
            Stored::New => Ok(()),
            // What came in between is read in the next round.
            Stored::Other => Err(Transient::unreachable("the end of an award is not known to be stored")),
        }
    }

    /// See [`sagas::ports::Auction::over`].
    pub(super) async fn over(&self, over: &AuctionOver) {
        let message = protocol::AuctionOver { version: Version, auction_id: over.auction_id.clone() };
        let payload: Bytes = protocol::write(&message).into();
        for settler in &over.settlers {
            let subject = over_subject(&settler.token(), &over.auction_id);
            if let Err(error) = self.client.publish(subject, payload.clone()).await {
                tracing::debug!(auction_id = over.auction_id, %error, "a loser is not told");
            }
        }
    }

    async fn store_award(&self, subject: &str, id: &str, after: u64, payload: Bytes) -> Result<Stored, Transient> {
        let span = tracing::info_span!(target: trace::TARGET, "award", otel.kind = "producer", id);
        let mut headers = wire::trace_headers(&span).unwrap_or_default();
        if !mutant!("award-not-conditional") {
            headers.insert("Nats-Msg-Id", id);
            headers.insert("Nats-Expected-Last-Subject-Sequence", after.to_string().as_str());
        }
        let store = async { self.jetstream.publish_with_headers(subject.to_owned(), headers, payload).await?.await };
        match tokio::time::timeout(STORE_TIMEOUT, store).instrument(span).await {
            Ok(Ok(stored)) if !stored.duplicate => Ok(Stored::New),
            Ok(Ok(_)) => Ok(Stored::Other),
            Ok(Err(error)) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(Stored::Other),
            Ok(Err(_)) | Err(_) if mutant!("awarded-without-acknowledgement") => Ok(Stored::New),
            Ok(Err(error)) => {
                if error.kind() == PublishErrorKind::StreamNotFound {
                    self.restore_streams().await;
                }
                Err(Transient::unreachable(format!("award is not known to be stored: {error}")))
            }
            Err(_) => Err(Transient::unreachable("award is not known to be stored: no acknowledgement in time")),
        }
    }

    /// Whether what lies under `subject` is this award, or its end.
    async fn is_stored(&self, subject: &str, notice: &AwardNotice) -> Result<(), Transient> {
        let stored = self.last_under(AWARDS_STREAM, subject).await?;
        let (_, payload) = stored.ok_or_else(|| {
            Transient::unreachable("award is not known to be stored: another is said to be stored, and is not found")
        })?;
        let stored = read_stored(&payload)?;
        if stored.quote_hash() == notice.quote_hash {
            return Ok(());
        }
        let (found, awarded) = (stored.quote_hash(), notice.quote_hash);
        tracing::error!(subject, stored = %found, %awarded, "two awards under one subject");
        Err(Transient::misconfigured("award is not known to be stored: another award is stored for this payment"))
    }

    /// The newest message under `subject` with its sequence, read from the leader: a replica may not have it yet.
    pub(super) async fn last_under(&self, stream: &str, subject: &str) -> Result<Option<(u64, Bytes)>, Transient> {
        match last_message::by_leader(&self.client, stream, subject, STORE_TIMEOUT).await {
            Ok(found) => Ok(found.map(|message| (message.sequence, message.payload))),
            Err(last_message::Error::Missing) => {
                self.restore_streams().await;
                Err(Transient::unreachable(format!("stream {stream} is not there")))
            }
            Err(error) => Err(Transient::unreachable(format!("{subject}: {error}"))),
        }
    }
}

/// Reads what is stored under an award's subject. What cannot be read is for an operator to mend: nothing overwrites an award
/// but its end.
pub(super) fn read_stored(payload: &[u8]) -> Result<AwardMessage, Transient> {
    AwardMessage::read(payload).map_err(|error| Transient::misconfigured(format!("a stored award: {error}")))
}

/// What became of a message that was to be the next under its subject.
enum Stored {
    /// It is.
    New,
    /// Another was stored before, or the same.
    Other,
}
