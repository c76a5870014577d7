//! Epochs: which shards a stream may lie in.
//!
//! Ids are spread over the shards of an *epoch*. A new epoch brings shards of its own, numbered on from those before, and
//! from then on new streams begin there; a stream stays in the shard in which it began. So what is appended to is
//! bounded by the length of an epoch however long the gateway lives, and an epoch may have another number of shards than
//! the one before (ADR 73).

use std::{collections::HashMap, ops::Range, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::StreamId;

/// Metadata of each stream of the journal: number of shards of its epoch.
pub const SHARDS_KEY: &str = "gw.shards";
/// Metadata of each stream of a later epoch than the first: number of its epoch.
pub const EPOCH_KEY: &str = "gw.epoch";
/// Metadata of each stream of a later epoch than the first: first shard of its epoch.
pub const FIRST_KEY: &str = "gw.first";
/// Most shards of one epoch.
pub const EPOCH_SHARDS_MAX: u16 = 256;
/// Most shards of all epochs together. Each is a stream of the server, sealed or not.
pub const SHARDS_MAX: u16 = 1000;

/// A run of shards over which ids are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// 0, 1, 2 … in the order in which they were begun.
    pub number: u16,
    /// Its first shard; those of the epochs before lie below.
    pub first: u16,
    /// How many it has, at least one.
    pub shards: u16,
    /// Whether its shards take nothing any more, by the server's own word.
    pub sealed: bool,
}

impl Epoch {
    /// The shard of this epoch in which the stream lies, if it began here.
    pub fn shard_of(&self, stream_id: &StreamId) -> u16 {
        self.first + stream_id.shard(self.shards)
    }

    /// The shard behind its last one.
    pub fn end(&self) -> u16 {
        self.first.saturating_add(self.shards)
    }

    /// Its shards.
    pub fn range(&self) -> Range<u16> {
        self.first..self.end()
    }

    /// What each of its streams says about it. The first epoch's say only how many shards there are, as they did before
    /// there were epochs.
    pub fn metadata(&self) -> HashMap<String, String> {
        let mut metadata = HashMap::from([(SHARDS_KEY.to_owned(), self.shards.to_string())]);
        if self.number > 0 {
            metadata.insert(EPOCH_KEY.to_owned(), self.number.to_string());
            metadata.insert(FIRST_KEY.to_owned(), self.first.to_string());
        }
        metadata
    }

    /// The epoch that the stream of `shard` says it belongs to, not sealed as far as this tells.
    ///
    /// # Errors
    /// [`InvalidMetadata`] naming the entry by which it is none with this shard in it.
    pub fn of_stream(shard: u16, metadata: &HashMap<String, String>) -> Result<Self, InvalidMetadata> {
        let invalid = |key: &'static str| {
            let found = metadata.get(key).map_or("nothing", String::as_str).to_owned();
            InvalidMetadata { shard, key, found }
        };
        let number = |key: &'static str| -> Result<Option<u16>, InvalidMetadata> {
            let parse = |text: &String| text.parse().map_err(|_| invalid(key));
            metadata.get(key).map(parse).transpose()
        };
        let shards = number(SHARDS_KEY)?.filter(|shards| (1..=EPOCH_SHARDS_MAX).contains(shards));
        let shards = shards.ok_or_else(|| invalid(SHARDS_KEY))?;
        let epoch = Self {
            number: number(EPOCH_KEY)?.unwrap_or(0),
            first: number(FIRST_KEY)?.unwrap_or(0),
            shards,
            sealed: false,
        };
        if (epoch.number == 0) != (epoch.first == 0) {
            return Err(invalid(if epoch.number == 0 { EPOCH_KEY } else { FIRST_KEY }));
        }
        if epoch.end() > SHARDS_MAX || !epoch.range().contains(&shard) {
            return Err(invalid(if epoch.number == 0 { SHARDS_KEY } else { FIRST_KEY }));
        }
        Ok(epoch)
    }
}

/// The stream of a shard does not say which epoch it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stream of shard {shard} has {key} = {found}, which is not a layout")]
pub struct InvalidMetadata {
    /// The shard.
    pub shard: u16,
    /// The entry.
    pub key: &'static str,
    /// What it says.
    pub found: String,
}

/// All epochs of a journal, oldest first; never none. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epochs(Arc<[Epoch]>);

/// Why some epochs do not make a journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEpochs {
    /// There is none.
    #[error("there is no epoch")]
    None,
    /// An epoch is out of order, or leaves a gap to the one before.
    #[error("epoch {found} of {shards} shards from {first} on does not follow on the one before")]
    Order {
        /// Its number.
        found: u16,
        /// Its first shard.
        first: u16,
        /// Its shards.
        shards: u16,
    },
}

impl Epochs {
    /// A journal with one epoch of `shards` shards, at least one.
    pub fn one(shards: u16) -> Self {
        Self(Arc::new([Epoch { number: 0, first: 0, shards: shards.max(1), sealed: false }]))
    }

    /// These epochs, oldest first.
    ///
    /// # Errors
    /// [`InvalidEpochs`] when they do not follow each other without a gap from shard 0 on.
    pub fn new(epochs: Vec<Epoch>) -> Result<Self, InvalidEpochs> {
        if epochs.is_empty() {
            return Err(InvalidEpochs::None);
        }
        let mut end = 0;
        for (epoch, number) in epochs.iter().zip(0..) {
            let follows = (epoch.number, epoch.first) == (number, end) && epoch.shards > 0;
            let next = epoch.first.checked_add(epoch.shards).filter(|_| follows);
            let Epoch { number: found, first, shards, .. } = *epoch;
            end = next.ok_or(InvalidEpochs::Order { found, first, shards })?;
        }
        Ok(Self(epochs.into()))
    }

    /// These epochs and another of `shards` shards, at least one and no more than there are numbers for.
    pub fn followed_by(&self, shards: u16) -> Self {
        let current = self.current();
        let (number, first) = (current.number.saturating_add(1), current.end());
        let shards = shards.min(u16::MAX - first).max(1);
        let next = Epoch { number, first, shards, sealed: false };
        Self(self.0.iter().copied().chain([next]).collect())
    }

    /// These epochs with the one of this number sealed, which is not the current one.
    pub fn with_sealed(&self, number: u16) -> Self {
        let seal = |epoch: &Epoch| Epoch { sealed: epoch.sealed || epoch.number == number, ..*epoch };
        if number == self.current().number { self.clone() } else { Self(self.0.iter().map(seal).collect()) }
    }

    /// Number of shards of all epochs.
    pub fn shards(&self) -> u16 {
        self.current().end()
    }

    /// The epoch in which new streams begin.
    pub fn current(&self) -> &Epoch {
        // `new` and `one` leave at least one, and nothing takes one away.
        &self.0[self.0.len() - 1]
    }

    /// The epochs before the current one, oldest first.
    pub fn older(&self) -> &[Epoch] {
        &self.0[..self.0.len() - 1]
    }

    /// All of them, oldest first.
    pub fn all(&self) -> &[Epoch] {
        &self.0
    }

    /// The epoch of a shard.
    pub fn of_shard(&self, shard: u16) -> Option<&Epoch> {
        self.0.iter().find(|epoch| epoch.range().contains(&shard))
    }

    /// Whether the shard takes nothing any more.
    pub fn is_sealed(&self, shard: u16) -> bool {
        self.of_shard(shard).is_some_and(|epoch| epoch.sealed)
    }

    /// The shards in which the stream may lie, the newest epoch's first.
    pub fn shards_of(&self, stream_id: &StreamId) -> impl Iterator<Item = u16> {
        self.0.iter().rev().map(|epoch| epoch.shard_of(stream_id))
    }

    /// The shards that may take something.
    pub fn open_shards(&self) -> impl Iterator<Item = u16> {
        self.0.iter().filter(|epoch| !epoch.sealed).flat_map(Epoch::range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PaymentId;

    fn epoch(number: u16, first: u16, shards: u16) -> Epoch {
        Epoch { number, first, shards, sealed: false }
    }

    #[test]
    fn a_stream_may_lie_in_one_shard_of_each_epoch() {
        let mut old = epoch(0, 0, 4);
        old.sealed = true;
        let epochs = Epochs::new(vec![old, epoch(1, 4, 16)]).unwrap();
        assert_eq!((epochs.shards(), epochs.current().number), (20, 1));
        let id = StreamId::from(PaymentId::derive("payer", "order"));
        let shards: Vec<_> = epochs.shards_of(&id).collect();
        assert_eq!(shards, [4 + id.shard(16), id.shard(4)]);
        assert_eq!(epochs.open_shards().collect::<Vec<_>>(), (4..20).collect::<Vec<_>>());
        assert!(epochs.is_sealed(3) && !epochs.is_sealed(4) && epochs.of_shard(20).is_none());
    }

    #[test]
    fn epochs_follow_each_other_without_a_gap() {
        assert_eq!(Epochs::new(vec![]), Err(InvalidEpochs::None));
        let refused = [
            vec![epoch(1, 0, 4)],
            vec![epoch(0, 1, 4)],
            vec![epoch(0, 0, 0)],
            vec![epoch(0, 0, 4), epoch(1, 5, 4)],
            vec![epoch(0, 0, 4), epoch(2, 4, 4)],
            vec![epoch(0, 0, 4), epoch(1, 4, u16::MAX)],
        ];
        for epochs in refused {
            assert!(matches!(Epochs::new(epochs.clone()), Err(InvalidEpochs::Order { .. })), "{epochs:?}");
        }
        assert_eq!(Epochs::one(0).shards(), 1);
    }

    #[test]
    fn the_current_epoch_is_never_sealed() {
        let epochs = Epochs::one(2).followed_by(3);
        assert_eq!(epochs.with_sealed(1), epochs);
        let sealed = epochs.with_sealed(0);
        assert_eq!((sealed.older()[0].sealed, sealed.current().sealed), (true, false));
        assert_eq!(sealed.open_shards().collect::<Vec<_>>(), [2, 3, 4]);
    }

    #[test]
    fn a_stream_says_which_epoch_it_belongs_to() {
        for epoch in [epoch(0, 0, 8), epoch(1, 8, 16), epoch(7, 990, 10)] {
            for shard in epoch.range() {
                assert_eq!(Epoch::of_stream(shard, &epoch.metadata()), Ok(epoch));
            }
            assert!(Epoch::of_stream(epoch.end(), &epoch.metadata()).is_err());
        }
        assert_eq!(epoch(0, 0, 8).metadata().len(), 1, "streams from before there were epochs say the same");
        let refused = [
            (0, vec![]),
            (0, vec![(SHARDS_KEY, "0")]),
            (0, vec![(SHARDS_KEY, "257")]),
            (8, vec![(SHARDS_KEY, "8"), (EPOCH_KEY, "1")]),
            (8, vec![(SHARDS_KEY, "8"), (FIRST_KEY, "8")]),
            (8, vec![(SHARDS_KEY, "8"), (EPOCH_KEY, "1"), (FIRST_KEY, "x")]),
            (7, vec![(SHARDS_KEY, "8"), (EPOCH_KEY, "1"), (FIRST_KEY, "8")]),
            (990, vec![(SHARDS_KEY, "11"), (EPOCH_KEY, "7"), (FIRST_KEY, "990")]),
        ];
        for (shard, metadata) in refused {
            let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            let refused: Result<Epoch, InvalidMetadata> = Epoch::of_stream(shard, &metadata);
            assert!(refused.is_err(), "{refused:?}");
        }
    }
}
