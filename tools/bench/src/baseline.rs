//! The baseline: raw durable appends to JetStream by an independent loop on async-nats.
//!
//! Streams with the journal's settings, messages with the subject, headers and body of real submissions, one
//! connection, and so many messages in flight: one by one, and in atomic batches, which are synced once each. What it does not
//! do: check anything, read anything, resolve anything. The disk is measured by itself, since nothing durable can be faster than that.

use std::{
    fs::File,
    io::Write,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use async_nats::{
    Client, HeaderMap, Request,
    jetstream::{
        self,
        message::PublishMessage,
        stream::{Config, DiscardPolicy, RetentionPolicy, StorageType},
    },
};
use bytes::Bytes;
use serde::Deserialize;

use events::{CommitId, PaymentId};
use journal::envelope::{self, EncodedCommit};

use crate::{
    context::{Baseline, Context, SHARDS},
    environment::{Environment, PATIENCE},
    load::{self, Answered, Bound, Caller, Load, rate},
    orders::in_parallel,
    report::Rows,
};

/// Messages in flight, and submissions in flight, at which baseline and gateway are compared.
pub const IN_FLIGHT: [usize; 3] = [64, 256, 1_024];
/// Messages in an atomic batch. Each shard has one under way at a time: with the first of these and the usual shards, as many
/// messages are in flight as the last of [`IN_FLIGHT`] says.
pub const BATCHES: [usize; 2] = [128, 256];
/// About what a commit after the submission takes in its stream, in bytes.
const LATER_BYTES: f64 = 1_400.0;
/// How long the disk is measured.
const DISK_TIME: Duration = Duration::from_secs(2);

/// One message with its subject, taken out when it is sent.
type Message = Mutex<Option<(String, PublishMessage)>>;

struct Publisher {
    context: jetstream::Context,
    messages: Arc<Vec<Message>>,
}

impl Caller for Publisher {
    async fn call(&mut self, number: usize) -> Result<Answered> {
        let message = self.messages[number].lock().map(|mut message| message.take()).ok().flatten();
        let (subject, message) = message.context("a message is sent once")?;
        let ack = self.context.send_publish(subject, message).await?.await?;
        ensure!(!ack.duplicate && ack.sequence > 0, "not stored: {ack:?}");
        Ok(Answered::Served)
    }
}

/// Messages of an atomic batch, taken out when it is sent.
type Batch = Mutex<Vec<(String, HeaderMap)>>;

struct BatchPublisher {
    client: Client,
    body: Bytes,
    batches: Arc<Vec<Batch>>,
}

/// What the server says of a batch.
#[derive(Debug, Deserialize)]
struct BatchStored {
    #[serde(default)]
    count: u64,
    #[serde(default)]
    error: Option<serde_json::Value>,
}

impl Caller for BatchPublisher {
    async fn call(&mut self, number: usize) -> Result<Answered> {
        let mut batch = self.batches[number].lock().map(|mut batch| std::mem::take(&mut *batch)).unwrap_or_default();
        let count = batch.len() as u64;
        let (subject, headers) = batch.pop().context("a batch is sent once")?;
        for (subject, headers) in batch {
            self.client.publish_with_headers(subject, headers, self.body.clone()).await?;
        }
        let last = Request::new().headers(headers).payload(self.body.clone()).timeout(Some(PATIENCE));
        let answer = self.client.send_request(subject, last).await?;
        let stored: BatchStored = serde_json::from_slice(&answer.payload)?;
        ensure!(stored.error.is_none() && stored.count == count, "a batch of {count} is not stored: {stored:?}");
        Ok(Answered::Served)
    }
}

/// The bench.
///
/// # Errors
/// When it cannot be measured.
pub async fn run(context: &Context, rows: &mut Rows) -> Result<()> {
    std::fs::create_dir_all(&context.paths.data)?;
    let time = context.pick(DISK_TIME / 10, DISK_TIME);
    let data = context.paths.data.clone();
    let disk = tokio::task::spawn_blocking(move || syncs(&data, time)).await??;
    rows.add("disk: 4 KiB written and synced, one thread", disk, "a second");
    let baseline = of(context).await?;
    for (in_flight, load) in IN_FLIGHT.into_iter().zip(&baseline.loads) {
        let name = format!("appends, {SHARDS} shards, {in_flight} in flight");
        rows.add(&name, load.rate(), "a second");
        rows.add(format!("{name}: p50"), load.latencies.ms(0.5), "ms");
        rows.add(format!("{name}: p99"), load.latencies.ms(0.99), "ms");
    }
    for (batch, load) in &baseline.batched {
        let name =
            format!("appends in atomic batches of {batch}, {SHARDS} shards, {} in flight", batch * usize::from(SHARDS));
        rows.add(&name, load.rate(), "a second");
    }
    rows.add("size of a message in its stream", baseline.message_bytes, "bytes");
    let cut = (baseline.message_bytes - LATER_BYTES).max(0.0) as usize;
    for batch in BATCHES {
        let rate = batched(context, SHARDS, batch, cut).await?.rate();
        rows.add(
            format!("the same of {LATER_BYTES} bytes, as later commits have, in atomic batches of {batch}"),
            rate,
            "a second",
        );
    }
    Ok(())
}

/// The baseline with the usual shards, measured once in a run.
///
/// # Errors
/// When it cannot be measured.
pub async fn of(context: &Context) -> Result<&Baseline> {
    let measure = async || {
        let mut baseline = measure(context, SHARDS, &IN_FLIGHT).await?;
        for batch in BATCHES {
            baseline.batched.push((batch, batched(context, SHARDS, batch, 0).await?));
        }
        Ok(baseline)
    };
    context.baseline.get_or_try_init(measure).await
}

/// Measures raw appends to so many shards, with each of these numbers of messages in flight.
///
/// # Errors
/// When nats-server refuses, or does not hold what it acknowledged.
pub async fn measure(context: &Context, shards: u16, in_flight: &[usize]) -> Result<Baseline> {
    let mut loads = Vec::new();
    let mut message_bytes = 0.0;
    for &in_flight in in_flight {
        let bound = context.bound(400, 150_000);
        let (environment, client) = with_streams(context, shards).await?;
        let jetstream = jetstream::new(client);
        let template = Template::new(context, shards)?;
        let messages = Arc::new(in_parallel(0..bound.calls, |number| Ok(template.message(number)))?);
        let publisher = |_| Publisher { context: jetstream.clone(), messages: messages.clone() };
        let (load, _) = load::closed((0..in_flight).map(publisher).collect(), bound).await?;
        let (stored, bytes) = environment.stored().await?;
        ensure!(stored == load.served, "{} appends were acknowledged, {stored} are stored", load.served);
        message_bytes = bytes as f64 / stored.max(1) as f64;
        loads.push(load);
    }
    Ok(Baseline { loads, batched: Vec::new(), message_bytes })
}

/// Measures raw appends in atomic batches of so many messages, one batch a shard under way at a time, and bodies that are
/// shorter than a submission's by `cut` bytes. Counted are messages.
async fn batched(context: &Context, shards: u16, batch: usize, cut: usize) -> Result<Load> {
    let bound = context.bound(8 * batch, 150_000);
    let bound = Bound { calls: bound.calls / batch, ..bound };
    let (environment, client) = with_streams(context, shards).await?;
    let mut template = Template::new(context, shards)?;
    template.body.truncate(template.body.len().saturating_sub(cut));
    let batches = Arc::new(in_parallel(0..bound.calls, |number| Ok(template.batch(number, batch)))?);
    let publisher =
        |_| BatchPublisher { client: client.clone(), body: template.body.clone(), batches: batches.clone() };
    let (mut load, _) = load::closed((0..shards).map(publisher).collect(), bound).await?;
    load.served *= batch as u64;
    let (stored, _) = environment.stored().await?;
    ensure!(stored == load.served, "{} appends were acknowledged, {stored} are stored", load.served);
    Ok(load)
}

/// A server with the streams of so many shards, and a connection to it.
async fn with_streams(context: &Context, shards: u16) -> Result<(Environment, Client)> {
    let environment = Environment::start(&context.paths, shards).await?;
    let client = environment.client().await?;
    let jetstream = jetstream::new(client.clone());
    for shard in 0..shards {
        jetstream.create_stream(config(shard)).await?;
    }
    Ok((environment, client))
}

/// A real submission, of which all messages are copies under ids of their own.
struct Template {
    headers: HeaderMap,
    body: Bytes,
    shards: u16,
}

impl Template {
    fn new(context: &Context, shards: u16) -> Result<Self> {
        let order = context.payer.sign("baseline", 0..1, Duration::from_secs(600))?.remove(0);
        let encoded = EncodedCommit::new(&order.commit()?, order.payment_id.shard(shards))?;
        Ok(Self { headers: journal_jetstream::header_map(encoded.headers(0)), body: encoded.body, shards })
    }

    fn message(&self, number: usize) -> Message {
        let payment_id = PaymentId::derive("baseline", &number.to_string());
        let subject = envelope::subject(payment_id.shard(self.shards), &payment_id.into());
        let mut headers = self.headers.clone();
        headers.insert("Nats-Msg-Id", CommitId::random().as_str());
        Mutex::new(Some((subject, PublishMessage::build().headers(headers).payload(self.body.clone()))))
    }

    /// The batch of this number, which goes to the shards in turn.
    fn batch(&self, number: usize, messages: usize) -> Batch {
        let shard = (number % usize::from(self.shards)) as u16;
        let id = CommitId::random();
        let message = |index: usize| {
            let payment_id = PaymentId::derive("baseline", &format!("{number}-{index}"));
            let mut headers = self.headers.clone();
            headers.insert("Nats-Msg-Id", CommitId::random().as_str());
            headers.insert("Nats-Batch-Id", id.as_str());
            headers.insert("Nats-Batch-Sequence", (index + 1).to_string().as_str());
            if index + 1 == messages {
                headers.insert("Nats-Batch-Commit", "1");
            }
            (envelope::subject(shard, &payment_id.into()), headers)
        };
        Mutex::new((0..messages).map(message).collect())
    }
}

/// The settings of the journal's streams, as design §2 has them.
fn config(shard: u16) -> Config {
    Config {
        name: envelope::stream(shard),
        subjects: vec![envelope::shard_subjects(shard)],
        storage: StorageType::File,
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::New,
        deny_delete: true,
        deny_purge: true,
        allow_direct: true,
        allow_atomic_publish: true,
        ..Config::default()
    }
}

/// Blocks written and synced a second, one after the other.
fn syncs(directory: &std::path::Path, time: Duration) -> Result<f64> {
    let path = directory.join("disk");
    let mut file = File::create(&path)?;
    let block = vec![0x5a_u8; 4_096];
    let started = Instant::now();
    let mut count = 0;
    while started.elapsed() < time {
        file.write_all(&block)?;
        file.sync_data()?;
        count += 1;
    }
    let elapsed = started.elapsed();
    std::fs::remove_file(&path)?;
    Ok(rate(count, elapsed))
}
