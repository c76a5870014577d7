//! `gw admin acts`, and how every order of `gw admin` is recorded.

use std::fmt::Write;

use anyhow::{Context, Result};
use async_nats::Client;
use chrono::{SecondsFormat, Utc};
use clap::Args as ClapArgs;

use config::GatewayConfig;
use events::time::Timestamp;
use journal::operator_acts::{
    Act, ActRecord, Entry, Order, Origin, Outcome, as_name, is_unprintable, latest, printable,
};
use journal_jetstream::operator_acts::NatsOperatorActs;

use crate::operator::acts::carry_out;

/// Payments and batches of a replay that the list names.
const NAMED_MAX: usize = 5;

/// Arguments of `gw admin acts`.
#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// As a JSON array.
    #[arg(long)]
    json: bool,
    /// How many, of the newest.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    limit: u16,
}

/// Shows what operators ordered last, newest first.
///
/// # Errors
/// When NATS does not answer.
pub(super) async fn run(args: Args, config: &GatewayConfig, client: Client) -> Result<()> {
    let acts = open(client, usize::from(config.journal.replicas)).await?;
    let found = latest(&acts, usize::from(args.limit)).await?;
    if args.json {
        return crate::cli::answer(&escaped(&serde_json::to_string_pretty(&found).context("write JSON")?));
    }
    let mut text = String::new();
    for act in &found {
        describe(&mut text, act)?;
    }
    crate::cli::answer(if text.is_empty() { "nothing was ever ordered" } else { text.trim_end() })
}

async fn open(client: Client, replicas: usize) -> Result<NatsOperatorActs> {
    NatsOperatorActs::open(client, replicas).await.context("open the record of operators' acts")
}

fn describe(text: &mut String, act: &ActRecord) -> Result<()> {
    let order = match &act.entry {
        Entry::Ordered(order) => order,
        Entry::Unknown { id, reason } => {
            let id = id.as_ref().map_or("", |id| id.as_str());
            let line = format!("an entry that this build does not know: {reason}");
            writeln!(text, "{}  {id}  {}", time(act.stored_at), one_line(&line))?;
            return Ok(());
        }
        Entry::Ended { id, .. } => {
            writeln!(text, "{}  {id}  an end without an order", time(act.stored_at))?;
            return Ok(());
        }
    };
    let place = match (order.origin, &order.gateway) {
        (Origin::CommandLine, _) => "on a command line".to_owned(),
        (Origin::Console, None) => "on a console".to_owned(),
        (Origin::Console, Some(gateway)) => format!("on the console of {gateway}"),
    };
    let by = one_line(&format!("{}, {place}", order.by));
    writeln!(text, "{}  {}  by {by}", time(act.stored_at), order.id)?;
    writeln!(text, "    {}", one_line(&what(&order.act)))?;
    let end = match &act.end {
        None => "end unknown: it is under way, or whoever carried it out was stopped half-way".to_owned(),
        Some(end) => match &end.outcome {
            Outcome::Done { details: None } => format!("done at {}", time(end.at)),
            Outcome::Done { details: Some(details) } => format!("done at {}: {details}", time(end.at)),
            Outcome::Failed { error } => format!("failed at {}: {error}", time(end.at)),
        },
    };
    writeln!(text, "    {}", one_line(&end))?;
    Ok(())
}

/// What was ordered, in words.
fn what(act: &Act) -> String {
    let whom = |gateway: &Option<String>| gateway.as_ref().map_or("all gateways".to_owned(), String::clone);
    match act {
        Act::Pause { reason: None } => "pause".to_owned(),
        Act::Pause { reason: Some(reason) } => format!("pause: {reason}"),
        Act::Resume { since: None } => "resume".to_owned(),
        Act::Resume { since: Some(since) } => format!("lift the pause of {}", time(*since)),
        Act::Rebuild { gateway } => format!("rebuild the read models of {}", whom(gateway)),
        Act::Acknowledge { gateway } => format!("acknowledge the alarms of {}", whom(gateway)),
        Act::Replay { streams } => {
            let named: Vec<&str> = streams.iter().take(NAMED_MAX).map(|id| id.as_str()).collect();
            let rest = match streams.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                rest => format!(" and {rest} more"),
            };
            format!("replay {}{rest}", named.join(", "))
        }
        Act::BeginEpoch { shards: None } => "begin an epoch".to_owned(),
        Act::BeginEpoch { shards: Some(shards) } => format!("begin an epoch of {shards} shards"),
        Act::SealEpoch { epoch, grace_seconds } => format!("seal epoch {epoch}, with a grace of {grace_seconds} s"),
    }
}

fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

/// JSON in which whatever moves a cursor or hides something is escaped. Outside of its strings there is no such
/// character but the line breaks.
fn escaped(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unprintable(c) && c != '\n' {
            let mut units = [0; 2];
            shown.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            shown.push(c);
        }
    }
    shown
}

fn time(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Records what this command line orders, and carries it out.
pub(in crate::cli) struct Orders {
    client: Client,
    replicas: usize,
    by: String,
}

impl Orders {
    /// In the name of `by`; of the user and the machine where it is not given.
    pub(super) fn new(by: Option<String>, config: &GatewayConfig, client: Client) -> Self {
        Self { client, replicas: usize::from(config.journal.replicas), by: by.unwrap_or_else(user_at_host) }
    }

    /// Who orders.
    pub(in crate::cli) fn by(&self) -> &str {
        &self.by
    }

    /// Records the order, carries it out, and records how it ended; see [`carry_out`].
    ///
    /// # Errors
    /// With nothing done when the order is out of its bounds or cannot be recorded; otherwise that of `effect`.
    pub(in crate::cli) async fn carry_out<T>(
        &self,
        act: Act,
        effect: impl Future<Output = Result<(T, Option<String>)>>,
    ) -> Result<T> {
        let order = Order::new(Utc::now(), &self.by, Origin::CommandLine, None, act)?;
        let acts = open(self.client.clone(), self.replicas).await;
        let acts = acts.context("nothing was done, as the order cannot be recorded")?;
        carry_out(&acts, order, effect).await
    }
}

/// Whom the environment says: it is a default, and nothing is believed of it.
fn user_at_host() -> String {
    let user = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok()).unwrap_or_default();
    let user = as_name(&user);
    let machine = rustix::system::uname();
    as_name(&format!("{user}@{}", machine.nodename().to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use events::{PaymentId, StreamId};
    use journal::operator_acts::Ending;

    use super::*;

    fn at() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }

    fn shown(entry: Entry, end: Option<Outcome>) -> String {
        let end = end.map(|outcome| Ending { at: at(), outcome });
        let mut text = String::new();
        describe(&mut text, &ActRecord { sequence: 1, stored_at: at(), entry, end }).unwrap();
        text
    }

    fn order(act: Act) -> Order {
        Order::new(at(), "alice@desk", Origin::CommandLine, None, act).unwrap()
    }

    #[test]
    fn an_act_is_told_with_who_when_what_and_how_it_ended() {
        let pause = order(Act::Pause { reason: Some("fork\n\u{1b}[2J".to_owned()) });
        let id = pause.id.clone();
        assert_eq!(
            shown(Entry::Ordered(pause), Some(Outcome::done(Some("paused")))),
            format!(
                "2026-01-02T03:04:05Z  {id}  by alice@desk, on a command line\n    pause: fork \\u{{1b}}[2J\n    \
                 done at 2026-01-02T03:04:05Z: paused\n"
            )
        );
        let on_console = Order {
            origin: Origin::Console,
            gateway: Some("gw-1".to_owned()),
            ..order(Act::Rebuild { gateway: None })
        };
        let text = shown(Entry::Ordered(on_console), None);
        assert!(text.contains("by alice@desk, on the console of gw-1\n    rebuild the read models of all gateways\n"));
        assert!(text.contains("\n    end unknown: "), "{text}");
        let resume = shown(Entry::Ordered(order(Act::Resume { since: Some(at()) })), None);
        assert!(resume.contains("\n    lift the pause of 2026-01-02T03:04:05Z\n"), "{resume}");
        let unknown = Entry::Unknown { id: Some(id.clone()), reason: "no\u{9b}thing".to_owned() };
        let line = format!("{id}  an entry that this build does not know: no\\u{{9b}}thing\n");
        assert!(shown(unknown, None).ends_with(&line));
        let streams = (0..7).map(|n| StreamId::from(PaymentId::derive("a", &n.to_string()))).collect();
        let text = shown(Entry::Ordered(order(Act::Replay { streams })), Some(Outcome::failed("no")));
        assert!(
            text.contains(" and 2 more\n") && text.contains("\n    failed at 2026-01-02T03:04:05Z: no\n"),
            "{text}"
        );
    }

    #[test]
    fn json_is_escaped_and_means_the_same() {
        let texts = ["\u{9b}2J", "\u{202e}x", "\u{e0041}", "a\nb\tc", "é"];
        let json = serde_json::to_string_pretty(&texts).unwrap();
        let shown = escaped(&json);
        assert!(shown.chars().all(|c| !is_unprintable(c) || c == '\n'), "{shown:?}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), texts);
    }

    #[test]
    fn the_environment_gives_a_name() {
        let name = user_at_host();
        assert!(name.contains('@'), "{name}");
        Order::new(at(), &name, Origin::CommandLine, None, Act::Resume { since: None }).unwrap();
    }
}
