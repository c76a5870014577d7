//! Acts with how they ended.

use std::collections::HashMap;

use serde::Serialize;

use events::time::Timestamp;

use super::{ActId, Entry, Error, OperatorActs, Outcome, PAGE_MAX};

/// How an act ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ending {
    /// When, by the clock of whoever carried it out.
    pub at: Timestamp,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// An act, or an entry that this build does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActRecord {
    /// Sequence of the entry in the stream.
    pub sequence: u64,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// [`Entry::Ordered`] or [`Entry::Unknown`].
    #[serde(flatten)]
    pub entry: Entry,
    /// How the act ended; `None` while it is under way, or when whoever carried it out was killed: then nobody can
    /// tell.
    pub end: Option<Ending>,
}

/// The newest acts, at most `limit`, newest first, each with its end: an end lies behind its order, so whoever reads
/// back to an order has read its end.
///
/// # Errors
/// [`Error::Unavailable`].
pub async fn latest(acts: &dyn OperatorActs, limit: usize) -> Result<Vec<ActRecord>, Error> {
    let mut found = Vec::new();
    let mut ends: HashMap<ActId, Ending> = HashMap::new();
    let mut before = None;
    while found.len() < limit {
        let page = acts.newest(before, PAGE_MAX).await?;
        let Some(oldest) = page.last() else { break };
        before = Some(oldest.sequence);
        for recorded in page {
            let end = match recorded.entry {
                Entry::Ended { id, at, outcome } => {
                    ends.insert(id, Ending { at, outcome });
                    continue;
                }
                Entry::Ordered(ref order) => ends.remove(&order.id),
                Entry::Unknown { .. } => None,
            };
            if found.len() < limit {
                let (sequence, stored_at, entry) = (recorded.sequence, recorded.stored_at, recorded.entry);
                found.push(ActRecord { sequence, stored_at, entry, end });
            }
        }
    }
    Ok(found)
}
