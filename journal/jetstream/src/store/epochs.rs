//! Epochs, found by the metadata of the streams (ADR 73).
//!
//! An epoch exists once all its streams do. They are created in ascending order, so one look at the first shard that is
//! not known tells whether there may be a new one. Nothing rests on when a process learns of an epoch: until then the
//! marks that others leave keep it from beginning a stream in the wrong place.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::jetstream::Context;
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, sleep},
};
use tracing::{info, warn};

use events::{
    Epoch, Epochs, StreamId,
    epoch::{EPOCH_KEY, EPOCH_SHARDS_MAX, SHARDS_KEY, SHARDS_MAX},
};
use journal::envelope;

use super::{ConnectError, Inner, NatsJournal};
use crate::requests::{self, StreamPlan, stream_config};

/// How often [`journal::ShardLog::grown`] looks where no background look is asked for otherwise.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Pause before the creation of a stream is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Why no epoch was begun.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// None of this size can follow.
    #[error("the next epoch may have 1 to {most} shards")]
    Shards {
        /// Most shards it may have; 0 when all numbers are taken.
        most: u16,
    },
    /// Another process began the next epoch with another number of shards, and did not finish.
    #[error("epoch {epoch} was begun with {shards} shards and is not finished: begin it with {shards}")]
    Unfinished {
        /// Its number.
        epoch: u16,
        /// Its shards.
        shards: u16,
    },
    /// The streams cannot be read or created. What was created stays, and the same call goes on from there.
    #[error(transparent)]
    Streams(#[from] ConnectError),
}

/// Why an epoch is not sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// There is no such epoch.
    #[error("there is no epoch {0}")]
    Missing(u16),
    /// New streams begin in it.
    #[error("epoch {0} is the current one: begin another before it is sealed")]
    Current(u16),
    /// The server did not seal a stream, or its answer was lost. Streams before this one are sealed, and the same call goes
    /// on from there.
    #[error("stream {stream} is not known to be sealed: {reason}")]
    Refused {
        /// The stream.
        stream: String,
        /// The server's words, or that there were none.
        reason: String,
    },
    /// The streams cannot be read, or are not those of the journal.
    #[error(transparent)]
    Streams(#[from] ConnectError),
}

/// The epochs that this process knows.
pub(super) struct Known {
    epochs: watch::Sender<Epochs>,
    /// The newest look for an epoch that is not known. One at a time.
    look: Mutex<Option<Look>>,
    /// Whether the background look was started.
    looking: AtomicBool,
}

struct Look {
    began: Instant,
    outcome: Result<(), String>,
}

impl Known {
    pub(super) fn new(epochs: Epochs) -> Self {
        Self { epochs: watch::Sender::new(epochs), look: Mutex::default(), looking: AtomicBool::new(false) }
    }

    pub(super) fn all(&self) -> Epochs {
        self.epochs.borrow().clone()
    }

    pub(super) fn shards(&self) -> u16 {
        self.epochs.borrow().shards()
    }

    pub(super) fn is_sealed(&self, shard: u16) -> bool {
        self.epochs.borrow().is_sealed(shard)
    }

    /// Whether the stream may lie in the shard.
    pub(super) fn may_lie_in(&self, shard: u16, stream_id: &StreamId) -> bool {
        self.epochs.borrow().of_shard(shard).is_some_and(|epoch| epoch.shard_of(stream_id) == shard)
    }

    fn learn(&self, epochs: Epochs) {
        self.epochs.send_if_modified(|known| {
            let news = *known != epochs;
            if news {
                let (current, shards) = (epochs.current().number, epochs.shards());
                info!(current, shards, sealed = epochs.all().iter().filter(|epoch| epoch.sealed).count(), "epochs");
            }
            *known = epochs;
            news
        });
    }
}

/// The state of the streams of an epoch.
struct Seen {
    epoch: Epoch,
    /// One of them that is sealed.
    sealed: Option<String>,
}

/// The epoch after those that are known.
enum Next {
    Nothing,
    /// An epoch some of whose streams are missing.
    Begun(Epoch),
    Whole(Seen),
}

fn plan(shard: u16, epoch: &Epoch, replicas: usize) -> StreamPlan {
    StreamPlan {
        name: envelope::stream(shard),
        subject: envelope::shard_subjects(shard),
        replicas,
        metadata: epoch.metadata(),
    }
}

async fn see(context: &Context, epoch: Epoch, replicas: usize, create: bool) -> Result<Seen, ConnectError> {
    let (mut sealed, mut all) = (None, true);
    for shard in epoch.range() {
        let plan = plan(shard, &epoch, replicas);
        match plan.ensure_or_sealed(context, create).await? {
            true => sealed = sealed.or(Some(plan.name)),
            false => all = false,
        }
    }
    Ok(Seen { epoch: Epoch { sealed: all, ..epoch }, sealed })
}

/// What the first stream of an epoch says, and how many copies there are of it.
async fn first_stream(context: &Context, shard: u16) -> Result<Option<(Epoch, usize)>, ConnectError> {
    let stream = envelope::stream(shard);
    let Some(config) = stream_config(context, &stream).await? else { return Ok(None) };
    let epoch = Epoch::of_stream(shard, &config.metadata).map_err(|invalid| ConnectError::Mismatch {
        stream,
        setting: invalid.key.to_owned(),
        found: invalid.found,
        expected: "what the layout of an epoch says".to_owned(),
    })?;
    Ok(Some((epoch, config.num_replicas)))
}

/// With `replicas` unknown, those of the first stream are taken for all.
async fn next(context: &Context, known: &Epochs, replicas: Option<usize>) -> Result<Next, ConnectError> {
    let (first, number) = (known.shards(), known.current().number + 1);
    if first >= SHARDS_MAX {
        return Ok(Next::Nothing);
    }
    let Some((epoch, found)) = first_stream(context, first).await? else { return Ok(Next::Nothing) };
    if (epoch.number, epoch.first) != (number, first) {
        return Err(ConnectError::Mismatch {
            stream: envelope::stream(first),
            setting: EPOCH_KEY.to_owned(),
            found: epoch.number.to_string(),
            expected: number.to_string(),
        });
    }
    match see(context, epoch, replicas.unwrap_or(found), false).await {
        Ok(seen) => Ok(Next::Whole(seen)),
        Err(ConnectError::Missing(_)) => Ok(Next::Begun(epoch)),
        Err(error) => Err(error),
    }
}

fn joined(known: &Epochs, epoch: Epoch) -> Result<Epochs, ConnectError> {
    let epochs = known.all().iter().copied().chain([epoch]).collect();
    // `next` found it where it belongs.
    Epochs::new(epochs).map_err(|_| ConnectError::Options("the epochs do not follow each other"))
}

/// All epochs from the first on, which is created when `create` says so.
pub(super) async fn read(
    context: &Context,
    shards: u16,
    replicas: Option<usize>,
    create: bool,
) -> Result<Epochs, ConnectError> {
    let first = Epoch { number: 0, first: 0, shards, sealed: false };
    let of_first = match replicas {
        Some(replicas) => replicas,
        None => stream_config(context, &envelope::stream(0)).await?.map_or(1, |config| config.num_replicas),
    };
    let mut newest = see(context, first, of_first, create).await?;
    // The layout does not say whether it is sealed.
    let mut epochs = joined_first(newest.epoch)?;
    while let Next::Whole(seen) = next(context, &epochs, replicas).await? {
        epochs = joined(&epochs, seen.epoch)?;
        newest = seen;
    }
    match newest.sealed {
        None => Ok(epochs),
        Some(stream) => Err(ConnectError::Mismatch {
            stream,
            setting: "sealed".to_owned(),
            found: "true".to_owned(),
            expected: "false, as it is of the current epoch".to_owned(),
        }),
    }
}

fn joined_first(epoch: Epoch) -> Result<Epochs, ConnectError> {
    Epochs::new(vec![epoch]).map_err(|_| ConnectError::Options("shards must be 1 to 256"))
}

/// The number of shards of the first epoch.
pub(super) async fn shards_of_first(context: &Context) -> Result<u16, ConnectError> {
    let stream = envelope::stream(0);
    let (first, _) = first_stream(context, 0).await?.ok_or_else(|| ConnectError::Missing(stream.clone()))?;
    match first.number {
        0 => Ok(first.shards),
        number => Err(ConnectError::Mismatch {
            stream,
            setting: SHARDS_KEY.to_owned(),
            found: format!("that of epoch {number}"),
            expected: "that of epoch 0".to_owned(),
        }),
    }
}

impl Inner {
    /// Replicas of each stream that is not sealed; readers take them as they are.
    fn replicas(&self) -> Option<usize> {
        (!self.read_only).then_some(self.options.replicas)
    }

    /// Makes sure that every epoch is known that was there at `since`.
    pub(super) async fn look(&self, since: Instant) -> Result<(), String> {
        let mut look = self.known.look.lock().await;
        if let Some(newest) = look.as_ref().filter(|look| look.began >= since) {
            return newest.outcome.clone();
        }
        let began = Instant::now();
        let outcome = self.look_beyond().await;
        *look = Some(Look { began, outcome: outcome.clone() });
        outcome
    }

    async fn look_beyond(&self) -> Result<(), String> {
        let epochs = self.known.all();
        let first = epochs.shards();
        let subjects = envelope::shard_subjects(first);
        if first < SHARDS_MAX && requests::takes(&self.client, &subjects, self.options.attempt_timeout).await? {
            let epochs = self.read_on(epochs).await.map_err(|error| error.to_string())?;
            self.known.learn(epochs);
        }
        Ok(())
    }

    /// `epochs` and those that follow.
    async fn read_on(&self, mut epochs: Epochs) -> Result<Epochs, ConnectError> {
        while let Next::Whole(seen) = next(&self.context, &epochs, self.replicas()).await? {
            epochs = joined(&epochs, seen.epoch)?;
        }
        Ok(epochs)
    }

    /// Learns which epochs were sealed. As streams are sealed in ascending order, one look at the last tells about most.
    async fn look_for_seals(&self) -> Result<(), ConnectError> {
        let mut sealed = Vec::new();
        for epoch in self.known.all().older().iter().filter(|epoch| !epoch.sealed) {
            let asked = tokio::time::timeout(self.options.attempt_timeout, self.is_sealed(epoch.range().rev())).await;
            if asked.map_err(|_| ConnectError::Unavailable("no answer in time".into()))?? {
                sealed.push(epoch.number);
            }
        }
        // Not before there is an answer: everyone who misses a stream waits for this lock.
        let _one_at_a_time = self.known.look.lock().await;
        let known = self.known.all();
        self.known.learn(sealed.into_iter().fold(known, |epochs, number| epochs.with_sealed(number)));
        Ok(())
    }

    async fn is_sealed(&self, shards: impl Iterator<Item = u16>) -> Result<bool, ConnectError> {
        for shard in shards {
            let stream = envelope::stream(shard);
            let config = stream_config(&self.context, &stream).await?.ok_or(ConnectError::Missing(stream))?;
            if !config.sealed {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Seals a stream. Tried again, as an epoch that is sealed in part is of no use.
    async fn seal_stream(&self, stream: &str) -> Result<(), String> {
        let deadline = Instant::now() + self.options.append_timeout;
        loop {
            match requests::seal(&self.client, stream, self.options.attempt_timeout).await {
                Err(_) if Instant::now() + RETRY_PAUSE < deadline => sleep(RETRY_PAUSE).await,
                outcome => return outcome,
            }
        }
    }

    /// Creates a stream that is not there. Tried again, so that a lost answer about the last one does not leave the caller with
    /// an epoch of which it does not know.
    async fn ensure(&self, plan: &StreamPlan, deadline: Instant) -> Result<(), ConnectError> {
        loop {
            match plan.ensure(&self.context, true).await {
                Err(error) if error.is_passing() && Instant::now() + RETRY_PAUSE < deadline => sleep(RETRY_PAUSE).await,
                outcome => return outcome,
            }
        }
    }

    /// Looks every now and then, for as long as the journal exists. Whoever reads once and goes has no use for it, so it is
    /// started by [`NatsJournal::connect`], or where somebody waits for more shards.
    pub(super) fn look_every(self: &Arc<Self>, every: Duration) {
        if self.known.looking.swap(true, Ordering::Relaxed) {
            return;
        }
        let journal = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                sleep(every).await;
                let Some(inner) = journal.upgrade() else { return };
                if !requests::connected(&inner.client) {
                    continue;
                }
                if let Err(reason) = inner.look(Instant::now()).await {
                    warn!(reason, "cannot look for a new epoch");
                } else if let Err(error) = inner.look_for_seals().await {
                    warn!(%error, "cannot look for sealed epochs");
                }
            }
        });
    }

    pub(super) async fn grown(self: &Arc<Self>, shards: u16) {
        self.look_every(self.options.look_every.unwrap_or(LOOK_EVERY));
        // The sender lives as long as the journal.
        let _ = self.known.epochs.subscribe().wait_for(|epochs| epochs.shards() > shards).await;
    }
}

impl NatsJournal {
    /// Begins the next epoch, of `shards` shards: creates its streams, with as many copies as [`Options::replicas`] says. A
    /// journal that is open for reading only makes as many as the current epoch has.
    ///
    /// When it ends half-way, the same call goes on from there; until then the epoch does not exist for anybody. Gateways
    /// that run learn of it by themselves. The user of the connection needs `$JS.API.STREAM.CREATE.EVT_*`.
    ///
    /// # Errors
    /// See [`BeginError`].
    ///
    /// [`Options::replicas`]: super::Options::replicas
    pub async fn begin_epoch(&self, shards: u16) -> Result<Epoch, BeginError> {
        let inner = &self.0;
        let _one_at_a_time = inner.known.look.lock().await;
        let epochs = inner.read_on(inner.known.all()).await?;
        inner.known.learn(epochs.clone());
        let current = epochs.current();
        let (number, first) = (current.number + 1, epochs.shards());
        let most = SHARDS_MAX.saturating_sub(first).min(EPOCH_SHARDS_MAX);
        if !(1..=most).contains(&shards) {
            return Err(BeginError::Shards { most });
        }
        let replicas = match inner.replicas() {
            Some(replicas) => replicas,
            None => {
                let stream = envelope::stream(current.first);
                let config = stream_config(&inner.context, &stream).await?;
                config.ok_or(ConnectError::Missing(stream))?.num_replicas
            }
        };
        if let Next::Begun(epoch) = next(&inner.context, &epochs, Some(replicas)).await?
            && epoch.shards != shards
        {
            return Err(BeginError::Unfinished { epoch: number, shards: epoch.shards });
        }
        let epoch = Epoch { number, first, shards, sealed: false };
        let deadline = Instant::now() + inner.options.append_timeout;
        for shard in epoch.range() {
            inner.ensure(&plan(shard, &epoch, replicas), deadline).await?;
        }
        inner.known.learn(joined(&epochs, epoch)?);
        Ok(epoch)
    }

    /// Seals an epoch that is not the current one: the server takes nothing into its streams any more, not from anybody, and
    /// nothing undoes that. Whether everything in it is at rest is for the caller to know.
    ///
    /// When it ends half-way, the same call goes on from there; an epoch that is sealed stays so. The user of the connection
    /// needs `$JS.API.STREAM.UPDATE.EVT_*`, which no gateway has.
    ///
    /// # Errors
    /// See [`SealError`].
    pub async fn seal(&self, number: u16) -> Result<Epoch, SealError> {
        let inner = &self.0;
        let _one_at_a_time = inner.known.look.lock().await;
        let epochs = inner.read_on(inner.known.all()).await?;
        inner.known.learn(epochs.clone());
        if number == epochs.current().number {
            return Err(SealError::Current(number));
        }
        let epoch = *epochs.all().get(usize::from(number)).ok_or(SealError::Missing(number))?;
        for shard in epoch.range() {
            let stream = envelope::stream(shard);
            let config = stream_config(&inner.context, &stream).await?;
            let replicas = config.ok_or_else(|| ConnectError::Missing(stream.clone()))?.num_replicas;
            if !plan(shard, &epoch, replicas).ensure_or_sealed(&inner.context, false).await? {
                inner.seal_stream(&stream).await.map_err(|reason| SealError::Refused { stream, reason })?;
            }
        }
        inner.known.learn(epochs.with_sealed(number));
        Ok(Epoch { sealed: true, ..epoch })
    }
}
