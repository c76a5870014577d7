//! Auction progress: what settlers have answered so far in a window that is still open, as any gateway can read it.

use async_trait::async_trait;

use events::Did;
use journal_jetstream::last_message;
use sagas::ports::{Bid, Gathered, RequestForQuotes, Transient};

use super::{NatsAuction, wire};

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
        let unreadable = |error| Transient::unreachable(format!("bids cannot be read: {error}"));
        let addressed = match self.0.asked(&request.auction_id).await {
            Ok(addressed) => addressed,
            Err(last_message::Error::Missing) => Vec::new(),
            Err(error) => return Err(unreadable(error)),
        };
        let settlers = addressed.iter().map(Did::token).collect();
        let bids = self.0.stored_bids(settlers, request).await.map_err(unreadable)?;
        let mut gathered = Gathered { addressed, ..Gathered::default() };
        let bids = bids.into_iter().map(|(settler, message)| {
            let answer = wire::answer(&message.payload);
            Bid { settler, received_at: message.stored_at, answer }
        });
        gathered.bids.extend(bids);
        Ok(gathered)
    }
}
