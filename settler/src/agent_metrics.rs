//! Metrics of the settler: its answers to requests for quotes, how its awards ended, what it has left to promise, and how its feeds of prices
//! answer.

use metrics::{Counter, counter, gauge};
use ruint::aliases::U256;

use events::{AssetId, ChainId};

/// The handles of answers to requests for quotes, made once.
pub(crate) struct QuoteMetrics {
    quoted: Counter,
    declined: Counter,
    over: Counter,
    unsent: Counter,
    dropped: Counter,
}

/// What became of a request for quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answered {
    /// A quote was sent.
    Quoted,
    /// A decline was sent.
    Declined,
    /// The auction was over first.
    Over,
    /// The answer could not be stored.
    Unsent,
    /// As many were being answered as there may be.
    Dropped,
}

impl Default for QuoteMetrics {
    fn default() -> Self {
        let of = |outcome: &'static str| counter!("gw_settler_quotes_total", "outcome" => outcome);
        Self {
            quoted: of("quoted"),
            declined: of("declined"),
            over: of("over"),
            unsent: of("unsent"),
            dropped: of("dropped"),
        }
    }
}

impl QuoteMetrics {
    pub(crate) fn count(&self, answered: Answered) {
        let counter = match answered {
            Answered::Quoted => &self.quoted,
            Answered::Declined => &self.declined,
            Answered::Over => &self.over,
            Answered::Unsent => &self.unsent,
            Answered::Dropped => &self.dropped,
        };
        counter.increment(1);
    }
}

/// Counts the end of an award whose delivery is on `chain_id`, one of the configuration's. It ends once in seconds at the
/// most, so no handle is kept.
pub(crate) fn award_ended(chain_id: &ChainId, outcome: &'static str) {
    counter!("gw_settler_deliveries_total", "chain" => chain_id.to_string(), "outcome" => outcome).increment(1);
}

/// Counts a read of a feed of prices, one of the configuration's. It is read in seconds at the soonest, so no handle is kept.
pub(crate) fn feed_read(feed: &str, is_ok: bool) {
    let outcome = if is_ok { "read" } else { "failed" };
    counter!("gw_settler_feed_reads_total", "feed" => feed.to_owned(), "outcome" => outcome).increment(1);
}

/// Notes what is left to be promised of an asset that is traded, smallest unit. A node was just asked for it, so no handle is
/// kept.
pub(crate) fn free_to_promise(asset: &AssetId, free: U256) {
    let gauge = gauge!("gw_settler_inventory", "chain" => asset.chain().to_string(), "asset" => asset.to_string());
    gauge.set(f64::from(free));
}
