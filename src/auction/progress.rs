//! What settlers have answered so far in a window that is still open, as any gateway can read it.

use async_trait::async_trait;

use sagas::ports::{Bid, Gathered, RequestForQuotes, Transient};
use settler::protocol::{bid_subjects, split_subject};

use super::{
    NatsAuction,
    gather::addressed,
    stored::{self, last_of_each},
    streams::{BIDS_STREAM, asked_subject},
    wire,
};

/// Auctions under way. Nothing that is read here is final.
#[async_trait]
pub trait Progress: Send + Sync {
    /// Who was asked so far, and the last answer of each that has answered.
    ///
    /// # Errors
    /// [`Transient`] when that cannot be read for now.
    async fn so_far(&self, request: &RequestForQuotes) -> Result<Gathered, Transient>;
}

#[async_trait]
impl Progress for NatsAuction {
    async fn so_far(&self, request: &RequestForQuotes) -> Result<Gathered, Transient> {
        let (bids, asked) = (bid_subjects(&request.auction_id), asked_subject(&request.auction_id));
        let messages = match last_of_each(&self.0.client, BIDS_STREAM, &[&bids, &asked]).await {
            Ok(messages) => messages,
            Err(stored::Error::Missing) => Vec::new(),
            Err(error) => return Err(Transient(format!("bids cannot be read: {error}"))),
        };
        let mut gathered = Gathered::default();
        for message in messages {
            if message.subject == asked {
                gathered.addressed = addressed(&message);
            } else if let Some((settler, _)) = split_subject(&message.subject, "bid") {
                let answer = wire::answer(&message.payload);
                gathered.bids.push(Bid { settler, received_at: message.stored_at, answer });
            }
        }
        Ok(gathered)
    }
}
