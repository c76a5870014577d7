//! Settlers: those of the registry and those that were ever asked, each with its record, of all payments.

use std::{collections::BTreeMap, time::Duration};

use chrono::Utc;
use serde::Serialize;

use app::settlers::body::SettlerBody;
use events::{Did, time::Timestamp};
use projections::{Projections, SETTLERS_PAGE_MAX};
use sagas::settler_record::{PauseRule, SettlerRecord};

use crate::{error::Error, kept::Kept, lane::Lane, ports::RegisteredSettler};

/// How long what was read is good for: every row is read in every shard.
const FRESH: Duration = Duration::from_secs(5);
/// Pages that are read at most, each in a turn of its own.
const PAGES_MAX: usize = 25;
/// Settlers that are shown; of more, those with the most awards.
const ROWS_MAX: usize = 1_000;

/// The records, kept for all who look.
pub(crate) struct Settlers {
    kept: Kept<Records>,
    pauses: PauseRule,
}

#[derive(Debug, Default)]
struct Records {
    by_settler: BTreeMap<Did, SettlerRecord>,
    /// Whether there are more than were read.
    has_more: bool,
}

/// `GET /api/settlers`.
#[derive(Debug, Serialize)]
pub(crate) struct SettlersBody {
    settlers: Vec<RowBody>,
    /// Whether there are more than are here.
    has_more: bool,
}

#[derive(Debug, Serialize)]
struct RowBody {
    did: Did,
    /// Whether it is in the registry of this gateway now.
    registered: bool,
    /// What it trades, where it is registered.
    corridors: Vec<CorridorBody>,
    record: SettlerBody,
}

#[derive(Debug, Serialize)]
struct CorridorBody {
    source_asset: String,
    destination_asset: String,
}

impl Settlers {
    /// None read yet; `pauses` says who is passed over.
    pub(crate) fn new(pauses: PauseRule) -> Self {
        Self { kept: Kept::new(FRESH), pauses }
    }

    /// The settlers with the most awards, and those that are `registered`.
    pub(crate) async fn shown(
        &self,
        projections: &Projections,
        lane: &Lane,
        registered: Vec<RegisteredSettler>,
    ) -> Result<SettlersBody, Error> {
        Ok(rows(&*self.kept.or(read(projections, lane)).await?, registered, self.pauses, Utc::now()))
    }
}

async fn read(projections: &Projections, lane: &Lane) -> Result<Records, Error> {
    let (mut records, mut after) = (Records::default(), None);
    for _ in 0..PAGES_MAX {
        let (projections, from) = (projections.clone(), after.take());
        let read = move || Ok(projections.settler_records(from.as_ref(), SETTLERS_PAGE_MAX)?);
        let page = lane.run(read).await?;
        records.by_settler.extend(page.settlers);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    records.has_more = after.is_some();
    Ok(records)
}

fn rows(records: &Records, registered: Vec<RegisteredSettler>, pauses: PauseRule, now: Timestamp) -> SettlersBody {
    let mut traded: BTreeMap<Did, Vec<CorridorBody>> = BTreeMap::new();
    for RegisteredSettler { did, corridors } in registered {
        let corridors = corridors.iter().map(|(source, destination)| CorridorBody {
            source_asset: source.to_string(),
            destination_asset: destination.to_string(),
        });
        traded.insert(did, corridors.collect());
    }
    let (none, known) = (SettlerRecord::default(), &records.by_settler);
    let unasked = traded.keys().filter(|did| !known.contains_key(*did)).map(|did| (did.clone(), &none));
    let mut all: Vec<(Did, &SettlerRecord)> =
        known.iter().map(|(did, record)| (did.clone(), record)).chain(unasked).collect();
    all.sort_unstable_by(|(one, first), (other, second)| second.won.cmp(&first.won).then_with(|| one.cmp(other)));
    let has_more = records.has_more || all.len() > ROWS_MAX;
    let settlers = all.into_iter().take(ROWS_MAX).map(|(did, record)| {
        let corridors = traded.remove(&did);
        RowBody {
            registered: corridors.is_some(),
            corridors: corridors.unwrap_or_default(),
            record: SettlerBody::new(&did, record, pauses, now),
            did,
        }
    });
    SettlersBody { settlers: settlers.collect(), has_more }
}

#[cfg(test)]
mod tests {
    use sagas::settler_record::AwardOutcome;

    use super::*;

    fn did(n: usize) -> Did {
        format!("did:example:settler-{n:04}").parse().unwrap()
    }

    fn won(won: u64) -> SettlerRecord {
        SettlerRecord { won, ..SettlerRecord::default() }
    }

    #[test]
    fn settlers_are_those_of_the_registry_and_those_on_record_with_the_most_awards_first() {
        let now = Utc::now();
        let mut records = Records::default();
        records.by_settler.insert(did(1), won(1));
        let mut paused = won(2);
        (0..3).for_each(|originator| paused.ended(AwardOutcome { at: now, is_missed: true, originator }));
        records.by_settler.insert(did(2), paused);
        let asset = |n: u64| format!("eip155:{n}/slip44:60").parse().unwrap();
        let registered = vec![
            RegisteredSettler { did: did(3), corridors: vec![(asset(1), asset(2))] },
            RegisteredSettler { did: did(2), corridors: Vec::new() },
        ];
        let body = serde_json::to_value(rows(&records, registered, PauseRule::DEFAULT, now)).unwrap();
        let of = |n: usize, member: &str| body["settlers"][n][member].clone();
        assert_eq!((of(0, "did"), of(0, "registered")), (did(2).to_string().into(), true.into()));
        assert!(of(0, "record")["passed_over_until"].is_string());
        assert_eq!((of(1, "did"), of(1, "registered")), (did(1).to_string().into(), false.into()));
        assert!(of(1, "record").get("passed_over_until").is_none());
        assert_eq!((of(2, "did"), of(2, "record")["asked"].clone()), (did(3).to_string().into(), 0.into()));
        assert_eq!(of(2, "corridors")[0]["destination_asset"], "eip155:2/slip44:60");
        assert_eq!(body["has_more"], false);
    }

    #[test]
    fn what_strangers_name_is_bounded() {
        let mut records = Records::default();
        for n in 0..ROWS_MAX + 5 {
            records.by_settler.insert(did(n), won(n as u64));
        }
        let body = rows(&records, Vec::new(), PauseRule::DEFAULT, Utc::now());
        assert_eq!((body.settlers.len(), body.has_more), (ROWS_MAX, true));
        assert_eq!(body.settlers[0].did, did(ROWS_MAX + 4));
    }
}
