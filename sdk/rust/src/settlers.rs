//! Settlers: what is on record of who delivers.

use serde::{Deserialize, Serialize};

use events::{Did, time::Timestamp};

use crate::{error::Error, gateway::Gateway};

/// A page of settlers, in the order of their DIDs.
#[derive(Debug, Clone, Deserialize)]
pub struct Settlers {
    /// The settlers.
    pub settlers: Vec<Settler>,
    /// Where the next page begins; `None` where nothing is left.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// A settler's record: in how many auctions it was asked, offered and declined, how many awards it won, and how those
/// ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settler {
    /// Who.
    pub settler: Did,
    /// Auctions in which it was asked.
    pub asked: u64,
    /// Of these, those in which it made an eligible quote.
    pub offered: u64,
    /// Of these, those in which it declined.
    pub declined: u64,
    /// Awards.
    pub won: u64,
    /// Awards that it accepted, and for which a deposit was then signed or found.
    pub acknowledged: u64,
    /// Awards that it refused.
    pub refused: u64,
    /// Awards that it did not answer in time.
    pub unanswered: u64,
    /// Payments that it delivered.
    pub delivered: u64,
    /// Of these, those that used the last quarter of their time.
    pub late: u64,
    /// Payments that were in escrow for it and that it did not deliver in its time.
    pub missed: u64,
    /// Median seconds from the escrow to the delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_delivery_seconds: Option<u32>,
    /// When it won last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_won_at: Option<Timestamp>,
    /// Until then it is asked only where nobody else is asked, or nobody who is asked offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_over_until: Option<Timestamp>,
}

impl Gateway {
    /// A page of the settlers that the gateway ever asked: the first, or the one that begins at a cursor.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn settlers(&self, cursor: Option<&str>) -> Result<Settlers, Error> {
        let mut call = self.get(&["v1", "settlers"])?;
        if let Some(cursor) = cursor {
            call.url.query_pairs_mut().append_pair("cursor", cursor);
        }
        self.read(&call).await
    }

    /// The record of a settler.
    ///
    /// # Errors
    /// [`Error`], with `SETTLER_NOT_FOUND` where it was never asked.
    pub async fn settler(&self, settler: &Did) -> Result<Settler, Error> {
        self.read(&self.get(&["v1", "settlers", settler.as_str()])?).await
    }
}
