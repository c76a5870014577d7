//! Putting a copy into empty servers.
//!
//! The mark that a restore is under way comes first, and gateways wait while it stands: one that began with half of the copy
//! would drive payments by half of their history. Then streams are made and filled, and the gateways are paused, so that
//! somebody looks before anything new is accepted. It can be killed anywhere and started again.

use std::{collections::HashSet, path::Path, sync::Arc, time::Duration};

use async_nats::Client;
use chrono::{TimeDelta, Utc};
use tokio::time::sleep;

use app::{
    admission::{
        pause::ControlBucket,
        restore_mark::{RestoreMark, RestoreState, StoredMark},
    },
    payment_identifiers::nats::NatsIdentifiers,
};
use audit::{layout::Layout, progress::Progress};
use config::GatewayConfig;
use events::Epochs;
use journal_jetstream::{
    checkpoint::Store,
    ledger::{NatsLedger, Options as LedgerOptions},
    operator_acts::NatsOperatorActs,
    parking::{NatsParking, Options as ParkingOptions},
    raw::RawReader,
    refill::Refill,
    store::{NatsJournal, Options as JournalOptions},
};
use webhooks::records::nats::{DELIVERIES, NatsStreams, WEBHOOKS};

use super::{
    Error,
    check::{self, kept, newest},
    copy::each_held,
    manifest::Manifest,
    plan,
};

/// How long one read, or the creation of one stream, tries.
pub(crate) const READ_MAX: Duration = Duration::from_secs(15);
/// A gateway that sees the mark while it runs ends within this time.
const ENDS_WITHIN: Duration = Duration::from_secs(3);
/// Messages that are held in memory at a time.
const CHUNK: usize = 512;

/// What was put in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What the copy says of itself.
    pub manifest: Manifest,
    /// The epochs of the journal.
    pub epochs: Epochs,
    /// The shards that were sealed when the copy was made, and take commits now: an operator seals them again.
    pub unsealed: Vec<u16>,
}

/// Puts the copy in `directory` into the servers behind `client`, whose gateways are configured as `config` says, or goes on with
/// it. What is submitted is accepted `wait` after the restore by the clock of its source chain, when no deposit of before the loss can
/// come any more. No gateway may run; `running` names those that answer, and is asked before anything is done, once gateways that are started
/// wait for the restore, and before it is over.
///
/// # Errors
/// [`Error`]. Up to [`Error::NotEmpty`] nothing was changed; what was put in place later stays, and the same call goes on.
pub async fn restore(
    client: Client,
    config: &GatewayConfig,
    directory: &Path,
    wait: TimeDelta,
    running: impl AsyncFn() -> Result<Vec<String>, String>,
    progress: &Arc<Progress>,
) -> Result<Restored, Error> {
    let checked = check::check(directory)?;
    let manifest = &checked.manifest;
    let defective = |what| Error::Defective { path: directory.to_owned(), what };
    let layout = manifest.epochs().map_err(defective)?;
    require_nobody(&running).await?;
    let (reader, refill) = (RawReader::new(client.clone(), READ_MAX), Refill::new(client.clone()));
    let before = RestoreMark::read(&client).await.map_err(other("the mark of the restore"))?;
    if let Some(StoredMark { mark, .. }) = &before
        && (mark.copied_at, &mark.heads) != (manifest.made_at, &manifest.heads())
    {
        return Err(Error::OtherCopy { copied_at: mark.copied_at });
    }
    let found = Found { reader: &reader, refill: &refill, directory, manifest };
    let is_whole = found.is_beginning(before.is_some()).await?;
    let unsealed = (0..layout.shards()).filter(|shard| layout.is_sealed(*shard)).collect();
    let restored = Restored { epochs: layout.epochs().clone(), unsealed, manifest: manifest.clone() };
    if is_whole && before.as_ref().is_some_and(|before| before.mark.state == RestoreState::Done) {
        return Ok(restored);
    }
    let replicas = usize::from(config.journal.replicas);
    let bucket = ControlBucket::open(client.clone(), replicas).await.map_err(other("the bucket of operators"))?;
    let (made_at, heads) = (manifest.made_at, manifest.heads());
    let mark = |state| {
        let (since, heads) = (Utc::now(), heads.clone());
        RestoreMark { state, copied_at: made_at, since, accepts_from: since + wait, heads }
    };
    let before = before.map(|before| before.revision);
    let set = mark(RestoreState::UnderWay).set(&bucket, before).await.map_err(other("the mark of the restore"))?;
    let copied_at = manifest.made_at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let reason = format!("restored from a copy of {copied_at}");
    bucket.pause(Some(reason)).await.map_err(other("the pause"))?;
    // One that was being started had no mark to wait for, and ends when it looks.
    sleep(ENDS_WITHIN).await;
    require_nobody(&running).await?;
    make_streams(&client, config, &layout).await?;
    // They set room aside, which servers without webhooks need not have.
    if config.webhooks.enabled || [WEBHOOKS, DELIVERIES].iter().any(|stream| manifest.kept.contains_key(*stream)) {
        let (replicas, bytes_max) = (usize::from(config.journal.replicas), config.webhooks.stream_bytes_max);
        NatsStreams::open(client.clone(), replicas, bytes_max).await.map_err(other("the webhooks"))?;
    }
    progress.expect(manifest.kept.values().chain(manifest.newest.values()).sum());
    for (stream, last) in &manifest.kept {
        found.fill(stream, *last, progress).await?;
    }
    for stream in manifest.newest.keys() {
        let messages = newest(directory, manifest, stream)?;
        refill.of(stream).await?.by_subject(&messages).await?;
        progress.add(messages.len() as u64);
    }
    for stream in manifest.newest.keys() {
        if !found.newest(stream, true).await? {
            let what = "lacks messages of the copy, which somebody else's took the places of".to_owned();
            return Err(Error::NotEmpty { stream: stream.clone(), what });
        }
    }
    for (stream, last) in &manifest.kept {
        let head = reader.head(stream).await?;
        if head != *last {
            let what = format!("ends at {head}, and {last} is the last of the copy");
            return Err(Error::NotEmpty { stream: stream.clone(), what });
        }
    }
    require_nobody(&running).await?;
    mark(RestoreState::Done).set(&bucket, Some(set)).await.map_err(other("the mark of the restore"))?;
    Ok(restored)
}

pub(crate) async fn require_nobody(running: &impl AsyncFn() -> Result<Vec<String>, String>) -> Result<(), Error> {
    match running().await.map_err(other("whether a gateway runs"))? {
        names if names.is_empty() => Ok(()),
        names => Err(Error::Running(names)),
    }
}

pub(crate) fn other<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::Other { what, reason: error.to_string() }
}

/// What servers hold, held against a copy.
struct Found<'a> {
    reader: &'a RawReader,
    refill: &'a Refill,
    directory: &'a Path,
    manifest: &'a Manifest,
}

impl Found<'_> {
    /// That what is on the server is the beginning of the copy, and nothing where its restore was not `begun`; whether all of the
    /// copy is there.
    async fn is_beginning(&self, begun: bool) -> Result<bool, Error> {
        let there = self.reader.streams().await?;
        let names = self.manifest.streams().filter(|name| there.iter().all(|other| other != name));
        let mut is_whole = names.count() == 0;
        for stream in &there {
            is_whole &= match () {
                () if plan::is_kept(stream) => self.kept(stream, begun).await?,
                () if plan::NEWEST.contains(&stream.as_str()) => self.newest(stream, begun).await?,
                () => true,
            };
        }
        Ok(is_whole)
    }

    async fn kept(&self, stream: &str, begun: bool) -> Result<bool, Error> {
        let last = self.manifest.kept.get(stream).copied().unwrap_or(0);
        let head = self.reader.head(stream).await?;
        let refuse = |what: String| Err(Error::NotEmpty { stream: stream.to_owned(), what });
        if head > last {
            return refuse(format!("goes up to {head}, and {last} is the last of the copy"));
        }
        if head > 0 && !begun {
            return refuse(format!("holds {head} messages, and no restore was begun"));
        }
        // The copy may lack a stream that a restore makes.
        if head == 0 {
            return Ok(last == 0);
        }
        let newest = kept(self.directory, self.manifest, stream, head)?.last().transpose()?;
        if let Some(newest) = newest
            && !self.refill.holds(&newest).await?
        {
            return refuse(format!("holds another message at {head} than the copy"));
        }
        Ok(head == last)
    }

    async fn newest(&self, stream: &str, begun: bool) -> Result<bool, Error> {
        let copied = match self.manifest.newest.contains_key(stream) {
            true => newest(self.directory, self.manifest, stream)?,
            false => Vec::new(),
        };
        let copied: HashSet<_> = copied.iter().map(|message| (message.subject.as_str(), &message.body)).collect();
        let refuse = |what: String| Err(Error::NotEmpty { stream: stream.to_owned(), what });
        let mut found = HashSet::new();
        each_held(self.reader, stream, |message| {
            if !begun {
                return refuse("holds messages, and no restore was begun".to_owned());
            }
            if !copied.contains(&(message.subject.as_str(), &message.body)) {
                return refuse(format!("holds a message at {} that the copy has not", message.sequence));
            }
            found.insert(message.subject.clone());
            Ok(())
        })
        .await?;
        Ok(copied.iter().all(|(subject, _)| found.contains(*subject)))
    }

    /// Puts into `stream` what it has not got of the copy.
    async fn fill(&self, stream: &str, last: u64, progress: &Progress) -> Result<(), Error> {
        let head = self.reader.head(stream).await?;
        let refill = self.refill.of(stream).await?;
        let mut chunk = Vec::with_capacity(CHUNK);
        for message in kept(self.directory, self.manifest, stream, last)? {
            let message = message?;
            progress.add(1);
            if message.sequence <= head {
                continue;
            }
            chunk.push(message);
            if chunk.len() == CHUNK {
                refill.in_order(&chunk).await?;
                chunk.clear();
            }
        }
        Ok(refill.in_order(&chunk).await?)
    }
}

/// Makes the streams that are missing, as gateways make them.
async fn make_streams(client: &Client, config: &GatewayConfig, layout: &Layout) -> Result<(), Error> {
    let (shards, replicas) = (config.journal.shards, usize::from(config.journal.replicas));
    let options = JournalOptions { shards, replicas, look_every: None, ..JournalOptions::default() };
    let [first, later @ ..] = layout.epochs().all() else { return Ok(()) };
    if first.shards != shards {
        let what = format!("has {} shards in its first epoch, and the configuration says {shards}", first.shards);
        return Err(Error::NotEmpty { stream: "the copy".to_owned(), what });
    }
    let journal = NatsJournal::connect(client.clone(), options).await?;
    for epoch in later {
        let known = journal::ShardLog::epochs(&journal);
        if !known.all().iter().any(|known| known.number == epoch.number) {
            journal.begin_epoch(epoch.shards).await?;
        }
    }
    Store::connect(client.clone(), replicas, READ_MAX).await?;
    NatsLedger::connect(client.clone(), LedgerOptions { replicas, ..LedgerOptions::default() }).await?;
    NatsParking::connect(client.clone(), ParkingOptions { shards, replicas, ..ParkingOptions::default() }).await?;
    NatsOperatorActs::open(client.clone(), replicas).await?;
    NatsIdentifiers::open(client.clone(), replicas).await.map_err(other("the payment identifiers"))?;
    let options = auction::Options { replicas, ..auction::Options::default() };
    auction::create_streams(client.clone(), options).await.map_err(other("the auction"))
}
