//! The shards, and the state of each.
//!
//! The journal grows by whole epochs while it is followed (ADR 73), and never shrinks.

use std::sync::Arc;

use tokio::sync::{Mutex, Notify, OwnedMutexGuard, watch};

use events::{Epochs, StreamId};

/// The progress of a shard behind its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardStatus {
    /// Stream sequence of the last commit that is in the views; 0 for none, and while [`ShardState::Starting`].
    pub checkpoint: u64,
    /// The state of the shard.
    pub state: ShardState,
}

/// The state of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShardState {
    /// What is stored is not yet checked, or is about to be thrown away.
    Starting,
    /// What is stored is sound but lacks commits that were in the stream when the shard started.
    CatchingUp,
    /// All commits that were in the stream at the start are applied, and new ones as they come.
    Live,
    /// The shard's stream cannot be read any further. Nothing new is shown until this is looked into.
    Stopped {
        /// Why.
        reason: String,
    },
}

/// A shard of which nothing is known.
pub(crate) const STARTING: ShardStatus = ShardStatus { checkpoint: 0, state: ShardState::Starting };

impl ShardStatus {
    pub(crate) fn reached(&self, sequence: u64) -> bool {
        match self.state {
            ShardState::CatchingUp | ShardState::Live => self.checkpoint >= sequence,
            ShardState::Starting => false,
            // What was applied before it stopped remains.
            ShardState::Stopped { .. } => self.checkpoint > 0 && self.checkpoint >= sequence,
        }
    }

    pub(crate) fn has_stopped(&self) -> bool {
        matches!(self.state, ShardState::Stopped { .. })
    }
}

/// The record of one shard.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) status: watch::Sender<ShardStatus>,
    pub(crate) recheck: Notify,
    /// Held while the shard's views and its status are changed.
    turn: Arc<Mutex<()>>,
    /// Tells the follower that a rebuilt copy took the place of the one it follows with.
    pub(crate) moved: Notify,
}

impl Shard {
    fn new() -> Self {
        Self {
            status: watch::Sender::new(STARTING),
            recheck: Notify::new(),
            turn: Arc::default(),
            moved: Notify::new(),
        }
    }

    /// The right to change the shard's views and status.
    pub(crate) async fn turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.turn).lock_owned().await
    }
}

/// The shards that are known at one time.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    epochs: Epochs,
    shards: Vec<Arc<Shard>>,
}

impl Known {
    /// How many there are.
    pub(crate) fn count(&self) -> u16 {
        // As many as the epochs have.
        self.shards.len() as u16
    }

    /// One of them.
    pub(crate) fn get(&self, shard: u16) -> Option<&Arc<Shard>> {
        self.shards.get(usize::from(shard))
    }

    /// All of them, in order.
    pub(crate) fn all(&self) -> &[Arc<Shard>] {
        &self.shards
    }

    /// The shards in which the stream may lie, the likeliest first.
    pub(crate) fn of(&self, stream_id: &StreamId) -> impl Iterator<Item = u16> {
        self.epochs.shards_of(stream_id)
    }

    /// The shards that may take something.
    pub(crate) fn open(&self) -> impl Iterator<Item = u16> {
        self.epochs.open_shards()
    }
}

/// All shards, which become more.
#[derive(Debug)]
pub(crate) struct Shards(watch::Sender<Arc<Known>>);

impl Shards {
    /// So many shards, at least one, of which it is not known yet how ids are spread over them: nothing is found in them
    /// before somebody follows the journal, and who does tells [`Shards::learn`] first.
    pub(crate) fn new(count: u16) -> Self {
        let epochs = Epochs::one(count);
        let shards = (0..epochs.shards()).map(|_| Arc::new(Shard::new())).collect();
        Self(watch::Sender::new(Arc::new(Known { epochs, shards })))
    }

    /// The shards known now.
    pub(crate) fn known(&self) -> Arc<Known> {
        Arc::clone(&self.0.borrow())
    }

    /// The shard, once it is known.
    pub(crate) async fn get(&self, shard: u16) -> Arc<Shard> {
        let mut known = self.0.subscribe();
        loop {
            if let Some(shard) = known.borrow_and_update().get(shard) {
                return Arc::clone(shard);
            }
            // The sender lives as long as this borrow of it.
            let _ = known.changed().await;
        }
    }

    /// Takes in what is known of the epochs now. Knowledge of fewer shards is old, and changes nothing.
    pub(crate) fn learn(&self, epochs: &Epochs) {
        self.0.send_if_modified(|known| {
            if epochs.shards() < known.count() || *epochs == known.epochs {
                return false;
            }
            let mut shards = known.shards.clone();
            shards.resize_with(usize::from(epochs.shards()), || Arc::new(Shard::new()));
            *known = Arc::new(Known { epochs: epochs.clone(), shards });
            true
        });
    }
}
