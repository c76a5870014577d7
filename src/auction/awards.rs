//! Awards, stored where the winner finds them.

use std::time::Duration;

use async_nats::{HeaderMap, jetstream::context::PublishErrorKind};

use sagas::ports::{Award, Transient};
use settler::protocol::{self, AWARDS_STREAM, AwardNotice, award_subject};

use super::{Inner, wire};

/// How long the server may take to store an award.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

impl Inner {
    /// See [`sagas::ports::Auction::award`].
    pub(super) async fn award(&self, award: &Award) -> Result<(), Transient> {
        let token = award.settler.token();
        let consumer = self.ensure_settler(&token).await;
        consumer.map_err(|error| Transient(error.to_string()))?;
        let payment_id = &award.case.payment_id;
        let subject = award_subject(&token, payment_id);
        let notice = wire::notice(award);

        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", payment_id.as_str());
        // The server forgets message ids after minutes; that the subject is still empty it knows for as long as it
        // keeps the award.
        headers.insert("Nats-Expected-Last-Subject-Sequence", "0");
        let payload = protocol::write(&notice).into();
        let store = async { self.jetstream.publish_with_headers(subject.clone(), headers, payload).await?.await };
        match tokio::time::timeout(STORE_TIMEOUT, store).await {
            Ok(Ok(stored)) if !stored.duplicate => Ok(()),
            Ok(Ok(_)) => self.is_stored(&subject, &notice).await,
            Ok(Err(error)) if error.kind() == PublishErrorKind::WrongLastSequence => {
                self.is_stored(&subject, &notice).await
            }
            Ok(Err(error)) => {
                if error.kind() == PublishErrorKind::StreamNotFound {
                    self.restore_streams().await;
                }
                Err(Transient(format!("award is not known to be stored: {error}")))
            }
            Err(_) => Err(Transient("award is not known to be stored: no acknowledgement in time".to_owned())),
        }
    }

    /// Whether what lies under `subject` is this award. Asked of the leader: a replica may not have it yet.
    async fn is_stored(&self, subject: &str, notice: &AwardNotice) -> Result<(), Transient> {
        let unknown = |reason: String| Transient(format!("award is not known to be stored: {reason}"));
        let stream = self.jetstream.get_stream_no_info(AWARDS_STREAM).await;
        let stream = stream.map_err(|error| unknown(error.to_string()))?;
        let stored = stream.get_last_raw_message_by_subject(subject).await;
        let stored = stored.map_err(|error| unknown(error.to_string()))?;
        let stored: AwardNotice = protocol::read(&stored.payload).map_err(|error| unknown(error.to_string()))?;
        if stored.quote_hash == notice.quote_hash {
            return Ok(());
        }
        tracing::error!(subject, stored = %stored.quote_hash, awarded = %notice.quote_hash, "two awards for one payment");
        Err(unknown("another award is stored for this payment".to_owned()))
    }
}
