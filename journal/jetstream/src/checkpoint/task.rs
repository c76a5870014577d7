//! The task that signs checkpoints, and raises an alarm when a stream contradicts an earlier checkpoint.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use async_nats::Client;
use chrono::SubsecRound;
use ed25519_dalek::SigningKey;
use tokio::time::sleep;

use events::{CommitId, Did, Epochs, Hash32, time::Timestamp};
use journal::{
    checkpoint::{Checkpoint, Error as CheckpointError, Rolling, SignedCheckpoint},
    envelope,
};

use super::store::{Appended, Found, ReadError, Store};
use crate::raw::{BATCH_MESSAGES, RawReader, Unavailable};

/// Looks after which a message that a stream's leader does not have is missing, and the pause between two.
const MISSING_LOOKS: usize = 4;
const MISSING_PAUSE: Duration = Duration::from_millis(25);

/// How checkpoints are made.
#[derive(Debug, Clone)]
pub struct Options {
    /// Pause between two looks at the shards. A checkpoint is made only of a shard that has moved.
    pub interval: Duration,
    /// Whose checkpoints are believed besides one's own: the keys of the other gateways, where each has its own.
    pub trusted: Vec<Did>,
    /// How long one read tries.
    pub timeout: Duration,
}

/// The streams contradict a signed checkpoint: they were changed, or restored to an older state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Alarm {
    /// The shard ends before a message that was signed.
    #[error("shard {shard} ends at sequence {head}, and sequence {signed} was signed in a checkpoint")]
    Truncated {
        /// The shard.
        shard: u16,
        /// Its last sequence now.
        head: u64,
        /// The sequence that was signed.
        signed: u64,
    },
    /// Messages are not those that were signed.
    #[error("the messages of shard {shard} up to sequence {sequence} hash to {found}, and {signed} was signed")]
    Replaced {
        /// The shard.
        shard: u16,
        /// The checkpoint's sequence.
        sequence: u64,
        /// The rolling hash that was signed.
        signed: Hash32,
        /// What the messages hash to now.
        found: Hash32,
    },
    /// A message is missing in the middle of the shard.
    #[error("message {sequence} of shard {shard} is missing")]
    Missing {
        /// The shard.
        shard: u16,
        /// The sequence that is not there.
        sequence: u64,
    },
    /// A checkpoint does not follow the one before it.
    #[error("the checkpoint of shard {shard} at sequence {sequence} does not follow the one before it")]
    Forked {
        /// The shard.
        shard: u16,
        /// The checkpoint's sequence.
        sequence: u64,
    },
    /// A checkpoint that was seen is gone.
    #[error("the checkpoint of shard {shard} at sequence {sequence} is gone")]
    Vanished {
        /// The shard.
        shard: u16,
        /// The sequence it signed.
        sequence: u64,
    },
    /// A checkpoint by a key that is not trusted.
    #[error("a checkpoint of shard {shard} is signed by {signer}, which is not trusted")]
    UntrustedSigner {
        /// The shard.
        shard: u16,
        /// The signer.
        signer: Did,
    },
    /// A message among the checkpoints is not a checkpoint.
    #[error("message {sequence} among the checkpoints of shard {shard}: {error}")]
    Unreadable {
        /// The shard.
        shard: u16,
        /// Its sequence in `CHK`.
        sequence: u64,
        /// The defect.
        error: CheckpointError,
    },
}

/// Why no checkpoint was made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// No answer; the next look tries again.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The streams are not what was signed.
    #[error(transparent)]
    Alarm(#[from] Alarm),
    /// The key does not sign; cannot happen for a key of Ed25519.
    #[error(transparent)]
    Key(#[from] CheckpointError),
}

/// The result of a step on a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stepped {
    /// The shard has not moved since its last checkpoint.
    Unmoved,
    /// A checkpoint was signed at this sequence of the shard.
    Signed(u64),
    /// Another gateway was faster.
    Lost,
}

/// A checkpoint that agrees with this process's own replay.
#[derive(Debug, Clone, Copy)]
struct Agreed {
    rolling: Rolling,
    /// Hash of the checkpoint; zero before the first.
    hash: Hash32,
    /// Its sequence in `CHK`; 0 before the first.
    stored: u64,
}

/// Signs the head of every shard again and again.
pub struct Checkpointer {
    store: Store,
    reader: RawReader,
    key: SigningKey,
    signer: Did,
    trusted: BTreeSet<Did>,
    options: Options,
    agreed: HashMap<u16, Agreed>,
}

impl Checkpointer {
    /// A checkpointer that signs with `key` what is in the journal that `client` reaches.
    pub fn new(client: Client, store: Store, key: SigningKey, options: Options) -> Self {
        let signer = Did::from_ed25519(&key.verifying_key());
        let trusted = options.trusted.iter().cloned().chain([signer.clone()]).collect();
        let reader = RawReader::new(client, options.timeout);
        Self { store, reader, key, signer, trusted, options, agreed: HashMap::new() }
    }

    /// The signer.
    pub fn signer(&self) -> &Did {
        &self.signer
    }

    /// Works for ever, on all shards of the `epochs` that there are at each look. What goes wrong is logged and tried again
    /// at the next look; an [`Alarm`] is an error in the log each time, and nothing is signed for its shard as long as it
    /// lasts. A sealed shard is not looked at any more once it is signed to its end.
    pub async fn run(mut self, epochs: impl Fn() -> Epochs + Send, now: impl Fn() -> Timestamp + Send) {
        let mut ended = BTreeSet::new();
        loop {
            let epochs = epochs();
            for shard in 0..epochs.shards() {
                if !ended.contains(&shard) && self.look(shard, epochs.is_sealed(shard), now()).await {
                    ended.insert(shard);
                }
            }
            sleep(self.options.interval).await;
        }
    }

    /// One look at a shard, and whether it is the last one that it needs.
    async fn look(&mut self, shard: u16, sealed: bool, now: Timestamp) -> bool {
        match self.step(shard, now).await {
            Ok(Stepped::Signed(sequence)) => tracing::debug!(shard, sequence, "checkpoint signed"),
            Ok(Stepped::Unmoved) => return sealed && self.is_signed_to_the_end(shard).await,
            Ok(Stepped::Lost) => {}
            Err(StepError::Alarm(alarm)) => {
                tracing::error!(shard, "ALARM: the journal is not what was signed before: {alarm}");
            }
            Err(StepError::Unavailable(error)) => tracing::debug!(shard, %error, "no checkpoint for now"),
            Err(error @ StepError::Key(_)) => tracing::error!(shard, %error, "no checkpoint"),
        }
        false
    }

    /// Whether the last checkpoint is of the last message that the leader knows: a step that found nothing to sign may have
    /// asked a replica that is behind.
    async fn is_signed_to_the_end(&self, shard: u16) -> bool {
        let signed = self.agreed.get(&shard).map(|agreed| agreed.rolling.sequence);
        self.reader.head(&envelope::stream(shard)).await.is_ok_and(|head| Some(head) == signed)
    }

    /// Looks at one shard: everything that was signed since the last look must agree with the messages; then signs what
    /// is new.
    ///
    /// # Errors
    /// [`StepError`]; nothing was signed then, as far as is known.
    pub async fn step(&mut self, shard: u16, now: Timestamp) -> Result<Stepped, StepError> {
        let last = self.store.last(shard).await.map_err(|error| read(shard, error))?;
        let agreed = match self.agreed.get(&shard) {
            Some(agreed) => *agreed,
            None => self.base(shard, last.as_ref()).await?,
        };
        let stored = last.as_ref().map_or(0, |last| last.sequence);
        if stored < agreed.stored {
            return Err(Alarm::Vanished { shard, sequence: agreed.rolling.sequence }.into());
        }
        let mut newer = Vec::new();
        if stored > agreed.stored {
            let found =
                self.store.between(shard, agreed.stored + 1, stored).await.map_err(|error| read(shard, error))?;
            newer = self.linked(shard, agreed, found)?;
        }
        let head = self.reader.head(&envelope::stream(shard)).await?;
        let signed = newer.last().map_or(agreed.rolling.sequence, |last| last.signed.checkpoint().sequence);
        if head < signed {
            return Err(Alarm::Truncated { shard, head, signed }.into());
        }
        let (rolling, commit_id) = self.replay(shard, agreed.rolling, &newer, head).await?;
        let mut agreed = agreed;
        if let Some(last) = newer.last() {
            let checkpoint = last.signed.checkpoint();
            let (sequence, hash) = (checkpoint.sequence, checkpoint.rolling_hash);
            agreed = Agreed { rolling: Rolling { sequence, hash }, hash: checkpoint.hash(), stored: last.sequence };
        }
        self.agreed.insert(shard, agreed);
        if rolling.sequence <= agreed.rolling.sequence {
            return Ok(Stepped::Unmoved);
        }
        let signed = self.sign(shard, rolling, commit_id, agreed.hash, now)?;
        match self.store.append(&signed, agreed.stored).await.map_err(|error| read(shard, error))? {
            Appended::Stored(stored) => {
                let hash = signed.checkpoint().hash();
                self.agreed.insert(shard, Agreed { rolling, hash, stored });
                Ok(Stepped::Signed(rolling.sequence))
            }
            Appended::Lost => Ok(Stepped::Lost),
        }
    }

    /// Where a process that has just started begins: at the checkpoint before the last, so that the last one is checked
    /// against the messages. Earlier messages were checked by the signer.
    async fn base(&self, shard: u16, last: Option<&Found>) -> Result<Agreed, StepError> {
        let start = Agreed { rolling: Rolling::START, hash: Hash32::ZERO, stored: 0 };
        let Some(last) = last else { return Ok(start) };
        let before = self.store.before(shard, last.sequence).await.map_err(|error| read(shard, error))?;
        let Some(before) = before else { return Ok(start) };
        let checkpoint = before.signed.checkpoint();
        self.trust(shard, checkpoint)?;
        let rolling = Rolling { sequence: checkpoint.sequence, hash: checkpoint.rolling_hash };
        Ok(Agreed { rolling, hash: checkpoint.hash(), stored: before.sequence })
    }

    fn trust(&self, shard: u16, checkpoint: &Checkpoint) -> Result<(), Alarm> {
        if checkpoint.shard == shard && self.trusted.contains(&checkpoint.signer) {
            return Ok(());
        }
        Err(Alarm::UntrustedSigner { shard, signer: checkpoint.signer.clone() })
    }

    /// `found`, when each is trusted and follows the one before.
    fn linked(&self, shard: u16, agreed: Agreed, found: Vec<Found>) -> Result<Vec<Found>, StepError> {
        let (mut previous, mut sequence) = (agreed.hash, agreed.rolling.sequence);
        for next in &found {
            let checkpoint = next.signed.checkpoint();
            self.trust(shard, checkpoint)?;
            if checkpoint.previous != previous || checkpoint.sequence <= sequence {
                return Err(Alarm::Forked { shard, sequence: checkpoint.sequence }.into());
            }
            (previous, sequence) = (checkpoint.hash(), checkpoint.sequence);
        }
        Ok(found)
    }

    /// Reads on from `rolling` to `head`, comparing with each of `signed` on the way; the rolling hash at the last message
    /// that could be read, with its commit id.
    async fn replay(
        &self,
        shard: u16,
        mut rolling: Rolling,
        signed: &[Found],
        head: u64,
    ) -> Result<(Rolling, CommitId), StepError> {
        let stream = envelope::stream(shard);
        let signed: Vec<&Checkpoint> = signed.iter().map(|found| found.signed.checkpoint()).collect();
        let mut signed = signed.into_iter().peekable();
        let mut commit_id = String::new();
        while rolling.sequence < head {
            let batch = self.reader.batch(&stream, rolling.sequence + 1, None, BATCH_MESSAGES).await?;
            if batch.is_empty() {
                break;
            }
            for message in batch.iter().take_while(|message| message.sequence <= head) {
                let sequence = rolling.sequence + 1;
                if message.sequence != sequence {
                    // That one replica has lost it is nobody's loss.
                    if self.is_missing(&stream, sequence).await? {
                        return Err(Alarm::Missing { shard, sequence }.into());
                    }
                    return Err(Unavailable { what: stream, reason: "a replica is damaged".to_owned() }.into());
                }
                rolling.follow(message.hash());
                commit_id.clear();
                commit_id.push_str(message.header("Nats-Msg-Id").unwrap_or_default());
                if let Some(checkpoint) = signed.next_if(|checkpoint| checkpoint.sequence == rolling.sequence)
                    && checkpoint.rolling_hash != rolling.hash
                {
                    let (sequence, signed, found) = (rolling.sequence, checkpoint.rolling_hash, rolling.hash);
                    return Err(Alarm::Replaced { shard, sequence, signed, found }.into());
                }
            }
        }
        if rolling.sequence < head {
            // A replica that answered may be behind. What the leader has not either is lost, though it counts it.
            let sequence = rolling.sequence + 1;
            if self.is_missing(&stream, sequence).await? {
                return Err(Alarm::Missing { shard, sequence }.into());
            }
        }
        if signed.peek().is_some() {
            // The leader has these messages; the replica that answered does not have them yet.
            return Err(Unavailable { what: stream, reason: "a replica is behind".to_owned() }.into());
        }
        Ok((rolling, CommitId::from_stored(commit_id)))
    }

    /// Whether a stream's leader counts a message and does not have it. A leader that was elected a moment ago may not know its
    /// newest messages yet, so one look proves nothing.
    async fn is_missing(&self, stream: &str, sequence: u64) -> Result<bool, Unavailable> {
        for _ in 0..MISSING_LOOKS {
            let next = self.reader.next_of_leader(stream, sequence, ">").await?;
            let is_there = next.is_some_and(|next| next.sequence == sequence);
            if is_there || self.reader.head(stream).await? < sequence {
                return Ok(false);
            }
            sleep(MISSING_PAUSE).await;
        }
        Ok(true)
    }

    fn sign(
        &self,
        shard: u16,
        rolling: Rolling,
        commit_id: CommitId,
        previous: Hash32,
        now: Timestamp,
    ) -> Result<SignedCheckpoint, StepError> {
        let checkpoint = Checkpoint {
            shard,
            sequence: rolling.sequence,
            rolling_hash: rolling.hash,
            commit_id,
            time: now.trunc_subsecs(3),
            previous,
            signer: self.signer.clone(),
        };
        Ok(checkpoint.sign(&self.key)?)
    }
}

fn read(shard: u16, error: ReadError) -> StepError {
    match error {
        ReadError::Unavailable(error) => error.into(),
        ReadError::Unreadable { sequence, error } => Alarm::Unreadable { shard, sequence, error }.into(),
    }
}
