//! Journal layout: its epochs, by what the streams themselves say (ADR 73).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use events::{Epoch, Epochs, StreamId};
use journal::envelope;
use journal_jetstream::raw::{RawReader, StreamDescription};

use super::Error;

/// The epochs of a journal, and which of its shards are sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    epochs: Epochs,
    sealed: BTreeSet<u16>,
}

/// A layout as an export holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exported {
    /// The epochs, oldest first.
    pub epochs: Vec<Run>,
    /// The shards that take nothing any more.
    pub sealed: BTreeSet<u16>,
}

/// The run of shards of one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Number of the epoch.
    pub number: u16,
    /// Its first shard.
    pub first: u16,
    /// How many it has.
    pub shards: u16,
}

impl From<&Epoch> for Run {
    fn from(epoch: &Epoch) -> Self {
        Self { number: epoch.number, first: epoch.first, shards: epoch.shards }
    }
}

impl Layout {
    /// A journal of one epoch that takes commits.
    pub fn one(shards: u16) -> Self {
        Self { epochs: Epochs::one(shards), sealed: BTreeSet::new() }
    }

    /// The layout of these runs.
    ///
    /// # Errors
    /// [`Error::NoJournal`] when they do not follow each other.
    pub fn new(runs: &[Run], sealed: BTreeSet<u16>) -> Result<Self, Error> {
        let epoch = |&Run { number, first, shards }: &Run| {
            let all = (first..first.saturating_add(shards)).all(|shard| sealed.contains(&shard));
            Epoch { number, first, shards, sealed: all }
        };
        let epochs = Epochs::new(runs.iter().map(epoch).collect());
        let epochs = epochs.map_err(|error| Error::NoJournal(error.to_string()))?;
        Ok(Self { epochs, sealed })
    }

    /// What the streams of a server say.
    ///
    /// # Errors
    /// [`Error::NoJournal`] when there is none, part of it is not there, or a stream says otherwise than its neighbours.
    pub async fn read(reader: &RawReader) -> Result<Self, Error> {
        let names = reader.streams().await?;
        let (mut runs, mut sealed) = (Vec::new(), BTreeSet::new());
        loop {
            let (number, first) = runs.last().map_or((0, 0), |last: &Run| (last.number + 1, last.first + last.shards));
            let name = envelope::stream(first);
            let Some(described) = found(reader, &names, &name).await? else { break };
            let said =
                Epoch::of_stream(first, &described.metadata).map_err(|error| Error::NoJournal(error.to_string()))?;
            let run = Run::from(&said);
            if (run.number, run.first) != (number, first) {
                let what = format!("{name} says that it is of epoch {}, where epoch {number} begins", run.number);
                return Err(Error::NoJournal(what));
            }
            match all_of(reader, &names, run).await? {
                Some(closed) => sealed.extend(closed),
                // Its creation goes on, or is to be completed; nothing is in it before it is whole.
                None if number > 0 => break,
                None => {
                    return Err(Error::NoJournal(format!("of {} shards not all are there", run.shards)));
                }
            }
            runs.push(run);
        }
        if runs.is_empty() {
            return Err(Error::NoJournal(format!("no stream is called {}", envelope::stream(0))));
        }
        let layout = Self::new(&runs, sealed)?;
        for name in names.iter().filter(|name| name.starts_with("EVT_") && layout.shard_of(name).is_none()) {
            let described = reader.describe(name).await?;
            if described.is_some_and(|described| described.messages > 0) {
                return Err(Error::NoJournal(format!("{name} holds messages and belongs to no epoch that is whole")));
            }
        }
        Ok(layout)
    }

    /// What an export is to hold; `None` where one epoch is all there is, as in exports of old.
    pub fn exported(&self) -> Option<Exported> {
        let all = self.epochs.all();
        (all.len() > 1).then(|| Exported { epochs: all.iter().map(Run::from).collect(), sealed: self.sealed.clone() })
    }

    /// The epochs, oldest first.
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Number of shards of all epochs.
    pub fn shards(&self) -> u16 {
        self.epochs.shards()
    }

    /// Whether the shard takes nothing any more, by the server's own word.
    pub fn is_sealed(&self, shard: u16) -> bool {
        self.sealed.contains(&shard)
    }

    /// The shards in which a stream of `shard` may not lie too: those of the epochs before, the newest first.
    pub fn older_than(&self, shard: u16, stream_id: &StreamId) -> Vec<u16> {
        let own = self.epochs.of_shard(shard).map_or(0, |epoch| epoch.first);
        self.epochs.shards_of(stream_id).filter(|older| *older < own).collect()
    }

    /// The shard of the stream with this name.
    fn shard_of(&self, name: &str) -> Option<u16> {
        (0..self.shards()).find(|shard| envelope::stream(*shard) == name)
    }
}

/// What the stream says of itself, when the server names it.
async fn found(reader: &RawReader, names: &[String], name: &str) -> Result<Option<StreamDescription>, Error> {
    if !names.iter().any(|known| known == name) {
        return Ok(None);
    }
    Ok(reader.describe(name).await?)
}

/// The sealed shards of a run whose streams are all there and say the same of it; `None` when one is not there.
async fn all_of(reader: &RawReader, names: &[String], run: Run) -> Result<Option<Vec<u16>>, Error> {
    let mut sealed = Vec::new();
    for shard in run.first..run.first + run.shards {
        let name = envelope::stream(shard);
        let Some(described) = found(reader, names, &name).await? else { return Ok(None) };
        let said = Epoch::of_stream(shard, &described.metadata).map_err(|error| Error::NoJournal(error.to_string()))?;
        if Run::from(&said) != run {
            let Run { number, first, shards } = run;
            let what = format!("{name} does not say that it is of epoch {number}, {shards} shards from {first} on");
            return Err(Error::NoJournal(what));
        }
        if described.sealed {
            sealed.push(shard);
        }
    }
    Ok(Some(sealed))
}

#[cfg(test)]
mod tests {
    use events::PaymentId;

    use super::*;

    fn runs() -> Vec<Run> {
        vec![
            Run { number: 0, first: 0, shards: 4 },
            Run { number: 1, first: 4, shards: 2 },
            Run { number: 2, first: 6, shards: 8 },
        ]
    }

    #[test]
    fn a_stream_may_lie_in_one_shard_of_each_epoch_before_its_own() {
        let layout = Layout::new(&runs(), (0..4).chain([5]).collect()).unwrap();
        let id = StreamId::from(PaymentId::derive("payer", "order"));
        assert_eq!(layout.older_than(6 + id.shard(8), &id), [4 + id.shard(2), id.shard(4)]);
        assert_eq!(layout.older_than(4, &id), [id.shard(4)]);
        assert!(layout.older_than(3, &id).is_empty());
        assert!(layout.is_sealed(5) && !layout.is_sealed(4));
        let sealed: Vec<_> = layout.epochs().all().iter().map(|epoch| epoch.sealed).collect();
        assert_eq!(sealed, [true, false, false], "an epoch of which a part is sealed is not");
    }

    #[test]
    fn a_layout_reads_back_from_an_export_and_one_epoch_needs_none() {
        let layout = Layout::new(&runs(), (0..4).collect()).unwrap();
        let Exported { epochs, sealed } = layout.exported().unwrap();
        assert_eq!(Layout::new(&epochs, sealed).unwrap(), layout);
        assert_eq!(Layout::one(8).exported(), None);
        assert!(Layout::new(&runs()[1..], BTreeSet::new()).is_err());
    }
}
