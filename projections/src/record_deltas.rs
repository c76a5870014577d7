//! Record deltas: what commits add to the records of settlers.
//!
//! Records are sums, and keep of lists what is newest, so what a page of commits adds is put together first and then added
//! to what is stored, once a settler.

use std::collections::{BTreeSet, HashMap};

use events::{Did, event::AuctionClosed};
use sagas::settler_record::{AwardOutcome, DeliveryTime, SettlerRecord, originator_tag};

use crate::view::AwardStep;

/// What commits add to the record of each settler that they concern.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordDeltas(HashMap<Did, SettlerRecord>);

impl RecordDeltas {
    /// How many settlers are concerned.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Each settler with what is added to its record.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Did, &SettlerRecord)> {
        self.0.iter()
    }

    /// An auction, or the collection of quotes of a batch, was closed. Whoever answered more than once did so in one auction.
    pub(crate) fn auction(&mut self, closed: &AuctionClosed) {
        let asked: BTreeSet<_> = closed.addressed.iter().collect();
        asked.into_iter().for_each(|settler| self.of(settler).asked += 1);
        let offered: BTreeSet<_> = closed.quotes.iter().map(|quote| &quote.settler).collect();
        offered.into_iter().for_each(|settler| self.of(settler).offered += 1);
        let declined: BTreeSet<_> = closed.declines.iter().map(|decline| &decline.settler).collect();
        declined.into_iter().for_each(|settler| self.of(settler).declined += 1);
    }

    /// This became of an award of the settler's, of a payment of `originator`.
    pub(crate) fn award(&mut self, settler: &Did, originator: &str, step: AwardStep) {
        let record = self.of(settler);
        let outcome = |at, is_missed| AwardOutcome { at, is_missed, originator: originator_tag(originator) };
        match step {
            AwardStep::Won { at } => {
                record.won += 1;
                record.last_won_at = record.last_won_at.max(Some(at));
            }
            AwardStep::Acknowledged => record.acknowledged += 1,
            AwardStep::Refused { at, is_missed } => {
                record.refused += 1;
                if is_missed {
                    record.ended(outcome(at, true));
                }
            }
            AwardStep::Unanswered { at, is_missed } => {
                record.unanswered += 1;
                if is_missed {
                    record.ended(outcome(at, true));
                }
            }
            AwardStep::Overtaken { at } => record.ended(outcome(at, true)),
            AwardStep::Delivered { at, seconds, is_late } => {
                record.delivered += 1;
                record.late += u64::from(is_late);
                record.ended(outcome(at, false));
                if let Some(seconds) = seconds {
                    record.took(DeliveryTime { at, seconds });
                }
            }
            AwardStep::Missed { at, is_missed } => {
                record.missed += 1;
                if is_missed {
                    record.ended(outcome(at, true));
                }
            }
        }
    }

    fn of(&mut self, settler: &Did) -> &mut SettlerRecord {
        self.0.entry(settler.clone()).or_default()
    }
}
