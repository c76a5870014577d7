//! Metrics of auctions: which bids came into the windows that are over, and who was passed over in them.

use metrics::{Counter, counter};

use sagas::ports::{Answer, Bid};

/// The handles, made once.
pub(super) struct BidMetrics {
    quote: Counter,
    decline: Counter,
    malformed: Counter,
    late: Counter,
    foreign: Counter,
    passed_over: Counter,
}

impl Default for BidMetrics {
    fn default() -> Self {
        let of = |kind: &'static str| counter!("gw_bids_total", "kind" => kind);
        Self {
            quote: of("quote"),
            decline: of("decline"),
            malformed: of("malformed"),
            late: of("late"),
            foreign: of("foreign"),
            passed_over: counter!("gw_settlers_passed_over_total"),
        }
    }
}

impl BidMetrics {
    /// Counts what a window that is over took in, and what it did not, and the settlers that were passed over in it.
    pub(super) fn count(&self, bids: &[Bid], late: usize, foreign: usize, passed_over: usize) {
        for bid in bids {
            let kind = match bid.answer {
                Answer::Quote(_) => &self.quote,
                Answer::Decline(_) => &self.decline,
                Answer::Malformed(_) => &self.malformed,
            };
            kind.increment(1);
        }
        self.late.increment(late as u64);
        self.foreign.increment(foreign as u64);
        self.passed_over.increment(passed_over as u64);
    }
}
