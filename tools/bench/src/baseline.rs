//! The baseline: raw durable appends to JetStream by an independent loop on async-nats.
//!
//! Streams with the journal's settings, messages with the subject, headers and body of real submissions, one
//! connection, and so many messages in flight. What it does not do: check anything, read anything, resolve anything.
//! The disk is measured by itself, since nothing durable can be faster than that.

use std::{
    fs::File,
    io::Write,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use async_nats::{
    HeaderMap,
    jetstream::{
        self,
        message::PublishMessage,
        stream::{Config, DiscardPolicy, RetentionPolicy, StorageType},
    },
};
use bytes::Bytes;
use events::{CommitId, PaymentId};
use journal::envelope::{self, EncodedCommit};

use crate::{
    context::{Baseline, Context, SHARDS},
    environment::Environment,
    load::{self, Answered, Caller, rate},
    orders::in_parallel,
    report::Rows,
};

/// Messages in flight, and submissions in flight, at which baseline and gateway are compared.
pub const IN_FLIGHT: [usize; 3] = [64, 256, 1_024];
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
    rows.add("size of a message in its stream", baseline.message_bytes, "bytes");
    Ok(())
}

/// The baseline with the usual shards, measured once in a run.
///
/// # Errors
/// When it cannot be measured.
pub async fn of(context: &Context) -> Result<&Baseline> {
    context.baseline.get_or_try_init(|| measure(context, SHARDS, &IN_FLIGHT)).await
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
        let environment = Environment::start(&context.paths, shards).await?;
        let client = environment.client().await?;
        let jetstream = jetstream::new(client);
        for shard in 0..shards {
            jetstream.create_stream(config(shard)).await?;
        }
        let template = Template::new(context, shards)?;
        let messages = Arc::new(in_parallel(0..bound.calls, |number| Ok(template.message(number)))?);
        let publisher = |_| Publisher { context: jetstream.clone(), messages: messages.clone() };
        let (load, _) = load::closed((0..in_flight).map(publisher).collect(), bound).await?;
        let (stored, bytes) = environment.stored().await?;
        ensure!(stored == load.served, "{} appends were acknowledged, {stored} are stored", load.served);
        message_bytes = bytes as f64 / stored.max(1) as f64;
        loads.push(load);
    }
    Ok(Baseline { loads, message_bytes })
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
