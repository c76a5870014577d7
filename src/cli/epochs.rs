//! `gw admin epochs`.

mod open_streams;

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use async_nats::Client;
use chrono::{SecondsFormat, TimeDelta, Utc};
use clap::{Args as ClapArgs, Subcommand};
use serde_json::{Value, json};

use audit::layout::Layout;
use config::GatewayConfig;
use events::{Epoch, StreamId, time::Timestamp};
use journal::{envelope, operator_acts::Act};
use journal_jetstream::{
    connection::Identity,
    raw::RawReader,
    store::{NatsJournal, Options},
};

use self::open_streams::OpenStreams;
use super::admin::acts::Orders;

/// How long one read tries.
const READ_MAX: Duration = Duration::from_secs(15);
/// How long the operator's connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Payments and batches that a refusal names.
const NAMED_MAX: usize = 10;
/// What the subjects of the operator's inboxes begin with, as nats.conf has it.
const INBOX_PREFIX: &str = "_INBOX_operator";

/// Arguments of `gw admin epochs`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Write JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Begin an epoch: from now on new payments and batches begin in its shards; those that are under way stay where
    /// they are. Completes one whose creation was interrupted.
    Begin {
        /// Its number of shards; by default as many as the newest epoch has.
        #[arg(long)]
        shards: Option<u16>,
    },
    /// Seal an epoch in which nothing is under way: the server takes nothing into it any more, for ever. Needs the
    /// operator's NKEY.
    Seal {
        /// Its number.
        epoch: u16,
        /// How long a newer epoch must exist, as a gateway may not know it yet: a number with s, m or h.
        #[arg(long, default_value = "10m", value_parser = duration)]
        grace: Duration,
        /// File with the seed of the NKEY that may seal, as `gw nats init` writes it.
        #[arg(long, env = "GW_NATS_OPERATOR_SEED_FILE", default_value = "nats/operator.seed")]
        seed_file: PathBuf,
    },
}

/// Carries out one order.
///
/// # Errors
/// When NATS does not answer, or the order is refused.
pub(super) async fn run(args: Args, config: &GatewayConfig, client: Client, orders: &Orders) -> Result<()> {
    match args.command {
        None => list(client, args.json).await,
        Some(Command::Begin { shards }) => {
            let effect = async {
                let epoch = begin(config, client, shards).await?;
                Ok((epoch, Some(format!("epoch {}, {}", epoch.number, self::shards(&epoch)))))
            };
            answer_begun(&orders.carry_out(Act::BeginEpoch { shards }, effect).await?, args.json)
        }
        Some(Command::Seal { epoch, grace, seed_file }) => {
            let operator = connect(config, &seed_file).await?;
            let settlement = config.deadlines.settlement_seconds_max;
            let settlement_max = TimeDelta::seconds(settlement.cast_signed());
            let effect = async {
                let (epoch, late) = seal(operator, epoch, grace, settlement_max).await?;
                Ok(((epoch, late), Some(format!("{}; commits at the last moment: {late}", self::shards(&epoch)))))
            };
            let act = Act::SealEpoch { epoch, grace_seconds: grace.as_secs() };
            let (epoch, late) = orders.carry_out(act, effect).await?;
            answer_sealed(&epoch, late, args.json)
        }
    }
}

/// A duration such as `90s`, `10m` or `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    let found = text.chars().last().and_then(|unit| {
        let (_, seconds) = [('s', 1), ('m', 60), ('h', 3600)].into_iter().find(|(name, _)| *name == unit)?;
        let number: u64 = text[..text.len() - 1].parse().ok()?;
        number.checked_mul(seconds)
    });
    found.map(Duration::from_secs).ok_or_else(|| "must be a number with s, m or h, such as 10m".to_owned())
}

async fn connect(config: &GatewayConfig, seed_file: &Path) -> Result<Client> {
    let (servers, _) = config.nats.client()?;
    Identity::in_file(seed_file)?
        .options(config.nats.ca_file.as_deref())
        .name("gw admin epochs seal")
        .custom_inbox_prefix(INBOX_PREFIX)
        .connection_timeout(CONNECT_MAX)
        .connect(servers)
        .await
        .with_context(|| format!("connect to NATS at {} as the operator", config.nats.url))
}

/// One epoch, as it is shown.
struct Shown {
    epoch: Epoch,
    state: &'static str,
    /// When its last stream was created.
    begun_at: Timestamp,
    subjects: u64,
    messages: u64,
    bytes: u64,
}

impl Shown {
    async fn read(reader: &RawReader, layout: &Layout, epoch: Epoch) -> Result<Self> {
        let sealed = epoch.range().filter(|shard| layout.is_sealed(*shard)).count();
        let state = match sealed {
            _ if epoch.sealed => "sealed",
            0 if epoch.number == layout.epochs().current().number => "current",
            0 => "draining",
            _ => "partly sealed",
        };
        let mut shown = Self { epoch, state, begun_at: Timestamp::UNIX_EPOCH, subjects: 0, messages: 0, bytes: 0 };
        for shard in epoch.range() {
            let name = envelope::stream(shard);
            let described = reader.describe(&name).await?.with_context(|| format!("{name} is gone"))?;
            shown.begun_at = shown.begun_at.max(described.created_at);
            shown.subjects += described.subjects;
            shown.messages += described.messages;
            shown.bytes += described.bytes;
        }
        Ok(shown)
    }

    fn json(&self) -> Value {
        json!({
            "epoch": self.epoch.number,
            "first_shard": self.epoch.first,
            "shards": self.epoch.shards,
            "state": self.state,
            "begun_at": self.begun_at,
            "subjects": self.subjects,
            "messages": self.messages,
            "bytes": self.bytes,
        })
    }
}

/// The shards of an epoch, for people.
fn shards(epoch: &Epoch) -> String {
    match epoch.shards {
        1 => format!("shard {}", epoch.first),
        _ => format!("shards {} to {}", epoch.first, epoch.end() - 1),
    }
}

async fn list(client: Client, json: bool) -> Result<()> {
    let reader = RawReader::new(client, READ_MAX);
    let layout = Layout::read(&reader).await?;
    let mut epochs = Vec::new();
    for epoch in layout.epochs().all() {
        epochs.push(Shown::read(&reader, &layout, *epoch).await?);
    }
    // Streams beyond the last whole epoch are those of one whose creation was interrupted, or goes on.
    let unfinished = reader.describe(&envelope::stream(layout.shards())).await?.is_some();
    if json {
        let epochs: Vec<_> = epochs.iter().map(Shown::json).collect();
        return answer_json(&json!({"epochs": epochs, "unfinished": unfinished}));
    }
    let mut text = String::new();
    for shown in &epochs {
        let Shown { epoch, state, begun_at, subjects, messages, bytes } = shown;
        let (number, shards, mib) = (epoch.number, shards(epoch), bytes / (1024 * 1024));
        writeln!(text, "epoch {number}  {state}  {shards}, since {}", time(*begun_at))?;
        // A mark is a subject too.
        writeln!(text, "    {subjects} payments, batches and marks in {messages} messages, {mib} MiB")?;
    }
    if unfinished {
        writeln!(text, "an epoch is being begun; where that was interrupted, `gw admin epochs begin` completes it")?;
    }
    super::answer(text.trim_end())
}

async fn begin(config: &GatewayConfig, client: Client, shards: Option<u16>) -> Result<Epoch> {
    let options =
        Options { shards: config.journal.shards, replicas: usize::from(config.journal.replicas), ..Options::default() };
    let layout = Layout::read(&RawReader::new(client.clone(), READ_MAX)).await?;
    let journal = NatsJournal::connect(client, options).await.context("open the journal")?;
    Ok(journal.begin_epoch(shards.unwrap_or(layout.epochs().current().shards)).await?)
}

fn answer_begun(epoch: &Epoch, json: bool) -> Result<()> {
    if json {
        return answer_json(&json!({"epoch": epoch.number, "first_shard": epoch.first, "shards": epoch.shards}));
    }
    super::answer(&format!(
        "epoch {} is begun: {}; new payments and batches begin in it, gateways know it within seconds",
        epoch.number,
        shards(epoch)
    ))
}

/// The epoch that is sealed, and how many commits came at the last moment.
async fn seal(client: Client, number: u16, grace: Duration, settlement_max: TimeDelta) -> Result<(Epoch, u64)> {
    let reader = RawReader::new(client.clone(), READ_MAX);
    let layout = Layout::read(&reader).await?;
    let all = layout.epochs().all();
    let epoch = *all.get(usize::from(number)).with_context(|| format!("there is no epoch {number}"))?;
    let Some(next) = all.get(usize::from(number) + 1) else {
        bail!("epoch {number} is the newest, in which payments begin: `gw admin epochs begin` comes first");
    };
    let begun_at = Shown::read(&reader, &layout, *next).await?.begun_at;
    let age = Utc::now() - begun_at;
    let grace = TimeDelta::from_std(grace).context("the grace is too long")?;
    ensure!(
        epoch.sealed || age >= grace,
        "epoch {} was begun at {}, {} s ago: a gateway may not know it yet and begin a payment in epoch {number}; try \
         again after {}, or say --grace",
        next.number,
        time(begun_at),
        age.num_seconds(),
        time(begun_at + grace)
    );
    let journal = NatsJournal::bind(client, Options::default()).await.context("open the journal")?;
    let mut streams = OpenStreams::of(&journal, epoch, Utc::now(), settlement_max);
    streams.read_on().await.context("nothing is sealed")?;
    // Once more, as reading all of it takes its time.
    streams.read_on().await.context("nothing is sealed")?;
    // In a stream that is sealed already nothing can come to rest any more, and waiting for it would keep the others open.
    let may_go_on = |id: &str| id.parse().is_ok_and(|id: StreamId| !layout.is_sealed(epoch.shard_of(&id)));
    let mut open = streams.open(Utc::now());
    open.retain(|(id, _)| may_go_on(id));
    if !open.is_empty() {
        bail!("epoch {number} is not sealed: {}", named("not at rest", &open));
    }
    let before = streams.commits();
    journal.seal(number).await.with_context(|| format!("seal epoch {number}; what is sealed of it stays so"))?;
    streams.read_on().await.context("the epoch is sealed, and what came just before could not be read")?;
    let open = streams.open(Utc::now());
    if !open.is_empty() {
        bail!(
            "EPOCH {number} IS SEALED, AND SOMETHING CAME BETWEEN THE LAST LOOK AND THE SEAL. It cannot go on: look at \
             each with `gw audit replay`, and tell whoever asked for it to pay under a new request_id; what is in an \
             escrow goes back to its payer when the refund window opens. {}",
            named("not at rest", &open)
        );
    }
    Ok((epoch, streams.commits() - before))
}

/// Says that an epoch is sealed, and how many commits came at the last moment.
fn answer_sealed(epoch: &Epoch, late: u64, json: bool) -> Result<()> {
    if json {
        return answer_json(&json!({"epoch": epoch.number, "state": "sealed", "late_commits": late}));
    }
    let late = match late {
        0 => String::new(),
        count => format!("; {count} commits came just before, and all they belong to is at rest"),
    };
    super::answer(&format!("epoch {} is sealed: {} take nothing any more{late}", epoch.number, shards(epoch)))
}

fn named(what: &str, open: &[(String, String)]) -> String {
    let mut text = format!("{} are {what}", open.len());
    for (id, why) in open.iter().take(NAMED_MAX) {
        text.push_str(&format!("\n    {id}  {why}"));
    }
    if open.len() > NAMED_MAX {
        text.push_str(&format!("\n    … and {} more", open.len() - NAMED_MAX));
    }
    text
}

fn time(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn answer_json(value: &Value) -> Result<()> {
    super::answer(&serde_json::to_string_pretty(value).context("write JSON")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_is_a_number_with_a_unit() {
        let seconds = |text| duration(text).map(|duration| duration.as_secs());
        assert_eq!((seconds("0s"), seconds("10m"), seconds("2h")), (Ok(0), Ok(600), Ok(7200)));
        for text in ["", "m", "10", "10d", "-1s", "1.5m", "10ß", "99999999999999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
