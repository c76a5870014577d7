//! `gw admin status`, `rebuild`, `overdue` and `acknowledge`: what is asked of running gateways.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use async_nats::Client;
use chrono::SecondsFormat;
use clap::Args as ClapArgs;
use serde_json::json;
use tokio::time::{Instant, sleep};

use app::admission::pause::Control;
use events::time::Timestamp;
use journal::operator_acts::Act;

use super::admin::acts::Orders;
use crate::operator::{
    Error, Known, Operator, Said, Target, dropped,
    wire::{Acknowledged, OverduePayment, OverdueReport, Rebuild, Reply, ShardVerdict, Started, Status, Verb},
};

/// How often the progress of a rebuild is asked for.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);
/// How long a gateway that rebuilds may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Arguments of `gw admin status` and `gw admin overdue`.
#[derive(Debug, ClapArgs)]
pub struct Shown {
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// Whom an order is for.
#[derive(Debug, ClapArgs)]
pub struct Addressed {
    /// The gateway's name, as `gw admin status` shows it; all of them when absent.
    #[arg(long, value_name = "NAME")]
    gateway: Option<String>,
}

/// Shows the pause, whose description is `paused`, and how every gateway stands.
///
/// # Errors
/// When NATS does not answer.
pub async fn status(args: Shown, client: Client, control: Option<&Control>, paused: &str) -> Result<()> {
    let gateways = match Operator::new(client).ask::<Status>(&Target::All, Verb::Status).await {
        Ok(gateways) => gateways,
        Err(Error::Nobody(_)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if args.json {
        return answer_json(&json!({"pause": control, "gateways": gateways}));
    }
    let mut text = format!("{paused}\n");
    if gateways.is_empty() {
        text += "\nno gateway answers";
    }
    for reply in &gateways {
        match &reply.result {
            Some(status) => describe_status(&mut text, &reply.gateway, status)?,
            None => writeln!(text, "\n{}: {}", reply.gateway, failure(reply))?,
        }
    }
    super::answer(text.trim_end())
}

fn describe_status(text: &mut String, name: &str, status: &Status) -> Result<()> {
    let Status { listen, version, uptime_seconds, instance, .. } = status;
    let up = chrono::TimeDelta::seconds(i64::try_from(*uptime_seconds)?);
    let up = format!(
        "{}d {:02}:{:02}:{:02}",
        up.num_days(),
        up.num_hours() % 24,
        up.num_minutes() % 60,
        up.num_seconds() % 60
    );
    writeln!(text, "\n{name}  on {listen}, gw {version}, up {up}, instance {instance}")?;
    writeln!(text, "  shard  drives  read model   checkpoint        head  behind")?;
    for shard in &status.shards {
        let drives = match shard.owned {
            Some(true) => "yes",
            Some(false) => "-",
            None => "?",
        };
        let known = |number: Option<u64>| number.map_or("?".to_owned(), |number| number.to_string());
        writeln!(
            text,
            "  {:>5}  {drives:<6}  {:<11}  {:>10}  {:>10}  {:>6}",
            shard.shard,
            shard.state,
            shard.checkpoint,
            known(shard.head),
            known(shard.lag()),
        )?;
        if let Some(reason) = &shard.reason {
            writeln!(text, "         {reason}")?;
        }
    }
    if let Some(rebuild) = &status.rebuild {
        writeln!(text, "  {}", progress(rebuild, None))?;
    }
    for alarm in &status.journal_alarms {
        writeln!(text, "  JOURNAL ALARM of {}: {}", time(alarm.found_at), alarm.message)?;
    }
    if status.unattested > 0 {
        writeln!(text, "  ALARM: deliveries that nobody attests, see `gw admin overdue`: {}", status.unattested)?;
    }
    if status.misconfigured > 0 {
        let (count, what) =
            (status.misconfigured, "payments and batches wait for the configuration to be mended, see the log");
        writeln!(text, "  MISCONFIGURED: {what}: {count}")?;
    }
    Ok(())
}

/// Lets gateways build their read models again, and shows how that goes.
///
/// # Errors
/// When a gateway refuses, fails, falls silent, or finds that its old copy was wrong.
pub(super) async fn rebuild(args: Addressed, client: Client, orders: &Orders) -> Result<()> {
    let target = Target::of(args.gateway.as_deref())?;
    let effect = async { Ok(((), Some(rebuilt(&target, client).await?))) };
    orders.carry_out(Act::Rebuild { gateway: args.gateway.clone() }, effect).await
}

/// What was rebuilt, in a line.
async fn rebuilt(target: &Target, client: Client) -> Result<String> {
    let operator = Operator::new(client);
    let answers = operator.order::<Started>(target, Verb::Rebuild, &known(&operator, target).await).await?;
    // Of those who begin it is followed how it ends.
    let begun = answers.conclude(|_| "it has begun".to_owned());
    let names: Vec<String> = answers.said.iter().map(|(gateway, _)| gateway.clone()).collect();
    let mut running = BTreeMap::new();
    for (gateway, said) in answers.said {
        if let Said::Done(started) = said {
            super::answer(&format!("{gateway}: rebuild begins; until it ends the read models take twice the disk"))?;
            running.insert(started.id, Followed { gateway, heard: Instant::now(), last: None });
        }
    }
    let mut troubles = Vec::new();
    match begun {
        Err(error) if running.is_empty() => return Err(error),
        Err(error) => troubles.push(error.to_string()),
        Ok(_) => {}
    }
    while !running.is_empty() {
        sleep(PROGRESS_EVERY).await;
        let statuses = operator.ask::<Status>(&Target::All, Verb::Status).await;
        // A gateway may be busy, or NATS away for a moment; each has its time.
        let statuses = statuses.unwrap_or_default();
        let mut ended = Vec::new();
        for (id, followed) in &mut running {
            let mut same_name = statuses.iter().filter(|reply| reply.gateway == followed.gateway).peekable();
            let found =
                same_name.clone().find_map(|reply| reply.result.as_ref()?.rebuild.clone().filter(|it| it.id == *id));
            if let Some(rebuild) = found {
                followed.show(&rebuild)?;
                if rebuild.ended_at.is_some() {
                    troubles.extend(conclude(&followed.gateway, &rebuild)?);
                    ended.push(id.clone());
                }
            } else if same_name.peek().is_some() {
                let name = &followed.gateway;
                troubles.push(format!(
                    "{name}: it was started again meanwhile; the old copy is in use and the new one gone"
                ));
                ended.push(id.clone());
            } else if followed.heard.elapsed() > SILENCE_MAX {
                let name = &followed.gateway;
                troubles.push(format!("{name}: it does not answer any more; how its rebuild ends is in its log"));
                ended.push(id.clone());
            }
        }
        running.retain(|id, _| !ended.contains(id));
    }
    ensure!(troubles.is_empty(), "{}", troubles.join("\n    "));
    Ok(format!("rebuilt: {}", names.join(", ")))
}

/// A rebuild that is being shown.
struct Followed {
    gateway: String,
    heard: Instant,
    /// When and at how many commits it was shown last.
    last: Option<(Instant, u64)>,
}

impl Followed {
    fn show(&mut self, rebuild: &Rebuild) -> Result<()> {
        let now = Instant::now();
        let done = rebuild.shards.iter().map(|shard| shard.done).sum::<u64>();
        let rate = self.last.map(|(at, before)| {
            let seconds = now.duration_since(at).as_secs_f64().max(0.001);
            done.saturating_sub(before) as f64 / seconds
        });
        (self.heard, self.last) = (now, Some((now, done)));
        super::answer(&format!("{}: {}", self.gateway, progress(rebuild, rate)))
    }
}

fn progress(rebuild: &Rebuild, rate: Option<f64>) -> String {
    let (done, total) =
        rebuild.shards.iter().fold((0, 0), |(done, total), shard| (done + shard.done, total + shard.total));
    let full = rebuild.shards.iter().filter(|shard| shard.done >= shard.total).count();
    let percent = (done * 100).checked_div(total).unwrap_or(100);
    let rate = rate.filter(|rate| *rate > 0.0).map(|rate| format!(", {rate:.0}/s")).unwrap_or_default();
    let state = match (&rebuild.error, rebuild.ended_at) {
        (Some(error), Some(at)) => format!("failed at {}: {error}", time(at)),
        (None, Some(at)) => format!("{} at {}", rebuild.state, time(at)),
        _ => rebuild.state.clone(),
    };
    let shards = rebuild.shards.len();
    format!("rebuild {state}: {done} of {total} commits ({percent} %), {full} of {shards} shards{rate}")
}

/// Says what came of a rebuild, shard by shard; returns what an operator has to know.
fn conclude(gateway: &str, rebuild: &Rebuild) -> Result<Vec<String>> {
    if let Some(error) = &rebuild.error {
        return Ok(vec![format!("{gateway}: {error}; the old copy is in use")]);
    }
    let mut troubles = Vec::new();
    for shard in &rebuild.shards {
        let number = shard.shard;
        match &shard.verdict {
            Some(ShardVerdict::Equal { sequence, streams }) => {
                super::answer(&format!(
                    "{gateway}: shard {number}: equal at sequence {sequence}, {streams} payments and batches"
                ))?;
            }
            Some(ShardVerdict::Different { sequence, count, streams }) => {
                let names: Vec<_> = streams.iter().map(|stream_id| stream_id.as_str()).collect();
                let names = if names.is_empty() { "only its own accounts".to_owned() } else { names.join(", ") };
                troubles.push(format!(
                    "{gateway}: shard {number}: THE OLD COPY WAS WRONG at sequence {sequence} in {count} payments and \
                     batches: {names}; the new one is in use"
                ));
            }
            Some(ShardVerdict::NotCompared { reason }) => {
                super::answer(&format!("{gateway}: shard {number}: new, not compared: {reason}"))?;
            }
            None => troubles.push(format!("{gateway}: shard {number}: nothing is known of it")),
        }
    }
    Ok(troubles)
}

/// Lists the payments that are past their time.
///
/// # Errors
/// When no gateway answers, or none can tell.
pub async fn overdue(args: Shown, client: Client) -> Result<()> {
    let replies = Operator::new(client).ask::<OverdueReport>(&Target::All, Verb::Overdue).await?;
    let mut payments = BTreeMap::<_, OverduePayment>::new();
    let mut unreadable = BTreeSet::new();
    let (mut total, mut told) = (0, 0);
    let mut notes = Vec::new();
    for reply in &replies {
        let Some(report) = &reply.result else {
            notes.push(format!("{}: {}", reply.gateway, failure(reply)));
            continue;
        };
        told += 1;
        // All gateways know all payments; one that is a moment behind may miss one or show one too many.
        total = total.max(report.total);
        if !report.uncertain_shards.is_empty() {
            notes.push(format!(
                "{}: its read models of shards {:?} are not current",
                reply.gateway, report.uncertain_shards
            ));
        }
        unreadable.extend(report.unreadable.iter().cloned());
        payments.extend(report.payments.iter().map(|payment| (payment.payment_id.clone(), payment.clone())));
    }
    ensure!(told > 0, "{}", notes.join("\n    "));
    let mut payments: Vec<_> = payments.into_values().collect();
    payments.sort_by(|a, b| (a.since, &a.payment_id).cmp(&(b.since, &b.payment_id)));
    total = total.max(payments.len() as u64);
    if args.json {
        return answer_json(&json!({"total": total, "payments": payments, "unreadable": unreadable, "notes": notes}));
    }
    let mut text = String::new();
    for payment in &payments {
        let OverduePayment { payment_id, stage, asset, amount, since, waits_for, .. } = payment;
        writeln!(text, "{payment_id}  {}  {amount} of {asset}", stage.as_str())?;
        writeln!(text, "    since {}, waits for {waits_for}", time(*since))?;
        if let (Some(chain_id), Some(hash)) = (&payment.chain_id, &payment.transaction_hash) {
            writeln!(text, "    last transaction {hash} on {chain_id}")?;
        }
        if let Some(settler) = &payment.settler {
            writeln!(text, "    settler {settler}")?;
        }
        if let Some(verifier) = &payment.verifier {
            writeln!(text, "    verifier {} at {}", verifier.account, verifier.endpoint)?;
        }
    }
    if (payments.len() as u64) < total {
        writeln!(text, "{total} payments are overdue; shown are the {} that are so for longest", payments.len())?;
    } else if payments.is_empty() {
        writeln!(text, "nothing is overdue")?;
    }
    for payment_id in &unreadable {
        writeln!(text, "{payment_id}  cannot be read, so nobody can tell; see `gw admin park show {payment_id}`")?;
    }
    for note in notes {
        writeln!(text, "{note}")?;
    }
    super::answer(text.trim_end())
}

/// Drops the alarms that the journal lost commits.
///
/// # Errors
/// When a gateway does not take the order.
pub(super) async fn acknowledge(args: Addressed, client: Client, orders: &Orders) -> Result<()> {
    let target = Target::of(args.gateway.as_deref())?;
    let effect = async { Ok(((), Some(acknowledged(&target, client).await?))) };
    orders.carry_out(Act::Acknowledge { gateway: args.gateway.clone() }, effect).await
}

/// What was dropped, in a line.
async fn acknowledged(target: &Target, client: Client) -> Result<String> {
    let operator = Operator::new(client);
    let answers = operator.order::<Acknowledged>(target, Verb::Acknowledge, &known(&operator, target).await).await?;
    for (gateway, said) in &answers.said {
        match said {
            Said::Done(done) if done.journal_alarms.is_empty() => super::answer(&format!("{gateway}: no alarms"))?,
            Said::Done(done) => {
                for alarm in &done.journal_alarms {
                    super::answer(&format!("{gateway}: acknowledged: {}", alarm.message))?;
                }
            }
            Said::Refused(_) | Said::Unclear(_) => {}
        }
    }
    answers.conclude(dropped)
}

/// Who is there now, and is missed where all are told to do something.
async fn known(operator: &Operator, target: &Target) -> Known {
    match target {
        Target::All => operator.known().await,
        Target::One(_) => Known::default(),
    }
}

fn failure<T>(reply: &Reply<T>) -> &str {
    reply.error.as_deref().unwrap_or("its answer is empty")
}

fn time(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn answer_json(value: &serde_json::Value) -> Result<()> {
    super::answer(&serde_json::to_string_pretty(value).context("write JSON")?)
}
