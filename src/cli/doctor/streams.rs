//! Checks of JetStream: the streams of the journal, their copies, the account's limits, and the server's clock.

use std::time::SystemTime;

use async_nats::{
    Client,
    jetstream::stream::{ClusterInfo, Info},
};
use chrono::{DateTime, Utc};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;

use chains::diagnosis::Diagnosis;
use journal_jetstream::store::{ConnectError, NatsJournal, Options};

use super::nats::{Journal, context};

/// Most streams that are looked at: there are two for each settler.
const STREAMS_MAX: usize = 512;
/// So many are asked for at a time.
const ASKED_AT_A_TIME: usize = 16;
/// An account that has used so much of its limit is warned of, percent.
const USED_WARNING_PERCENT: u64 = 80;
/// How far two clocks may differ, beyond what the round trip leaves open, in milliseconds.
const CLOCK_WARNING_MS: i64 = 1_000;
const CLOCK_WRONG_MS: i64 = 5_000;
/// The journal's first stream.
const FIRST_STREAM: &str = "EVT_00";

/// What a gateway keeps.
pub(super) async fn gateway(client: &Client, journal: Journal) -> Vec<Diagnosis> {
    let (account, settings, copies, clock) =
        tokio::join!(account(client), settings(client, journal), copies(client, journal.replicas), clock(client));
    let mut found = vec![account, settings];
    found.extend(copies);
    found.push(clustered(client, journal.replicas));
    found.push(clock);
    found
}

/// What an auditor reads.
pub(super) async fn auditor(client: &Client) -> Vec<Diagnosis> {
    let opened = NatsJournal::bind(client.clone(), Options::default()).await;
    let journal = match opened {
        Ok(_) => Diagnosis::ok("journal", "can be read"),
        Err(error @ ConnectError::Unavailable(_)) => Diagnosis::not_checked("journal", error, "try again"),
        Err(error) => {
            Diagnosis::wrong("journal", error, "start a gateway, which makes the streams; else ask its operator")
        }
    };
    vec![journal, clock(client).await]
}

async fn account(client: &Client) -> Diagnosis {
    let subject = "JetStream";
    match context(client).query_account().await {
        Ok(account) => {
            // Without a limit the disk is the limit.
            let used = |used: u64, limit: Option<i64>| match limit.and_then(|limit| u64::try_from(limit).ok()) {
                None | Some(0) => (format!("{} MiB", used >> 20), false),
                Some(limit) => {
                    let percent = used.saturating_mul(100) / limit;
                    (format!("{} of {} MiB", used >> 20, limit >> 20), percent >= USED_WARNING_PERCENT)
                }
            };
            let (disk, disk_full) = used(account.storage, account.limits.max_storage);
            let (memory, memory_full) = used(account.memory, account.limits.max_memory);
            let found = format!("{} streams; {disk} on disk, {memory} in memory", account.streams);
            match disk_full || memory_full {
                false => Diagnosis::ok(subject, found),
                true => Diagnosis::warning(subject, found, "raise the account's limits before they are reached"),
            }
        }
        Err(error) => Diagnosis::wrong(subject, error, "switch JetStream on for the account GATEWAY in nats.conf"),
    }
}

/// The settings of the journal's streams, held against what this version makes them with.
async fn settings(client: &Client, journal: Journal) -> Diagnosis {
    let subject = "settings of the journal's streams";
    let options = Options { shards: journal.shards, replicas: journal.replicas, ..Options::default() };
    match NatsJournal::examine(client.clone(), &options).await {
        Ok(epochs) => {
            let found =
                format!("{} shards in {} epochs are as this version makes them", epochs.shards(), epochs.all().len());
            Diagnosis::ok(subject, found)
        }
        Err(ConnectError::Missing(stream)) if stream == FIRST_STREAM => Diagnosis::not_checked(
            subject,
            "there are none",
            "the first gateway that is started makes them, with `[journal]` as it is configured then",
        ),
        Err(error @ ConnectError::Missing(_)) => {
            Diagnosis::wrong(subject, error, "streams of the journal are gone: stop the gateways, and restore them")
        }
        Err(error @ ConnectError::Unavailable(_)) => Diagnosis::not_checked(subject, error, "try again"),
        Err(error) => {
            let remedy = "correct `[journal]` to what the streams were made with; a stream's own settings are the operators' to mend";
            Diagnosis::wrong(subject, error, remedy)
        }
    }
}

/// How many copies of each stream there are, and whether all of them keep up.
async fn copies(client: &Client, replicas: usize) -> Vec<Diagnosis> {
    let subject = "copies of streams";
    let context = context(client);
    let names: Result<Vec<String>, _> = context.stream_names().take(STREAMS_MAX).try_collect().await;
    let names = match names {
        Ok(names) => names,
        Err(error) => return vec![Diagnosis::not_checked(subject, error, "try again")],
    };
    let asked = stream::iter(names).map(|name| {
        let context = context.clone();
        async move { context.get_stream(&name).await.ok().map(|stream| stream.cached_info().clone()) }
    });
    let infos: Vec<Info> = asked.buffer_unordered(ASKED_AT_A_TIME).filter_map(std::future::ready).collect().await;
    let (mut few, mut behind) = (Vec::new(), Vec::new());
    for info in &infos {
        let name = &info.config.name;
        if info.config.num_replicas != replicas && !info.config.sealed {
            few.push(format!("{name} has {}", info.config.num_replicas));
        }
        if info.cluster.as_ref().is_some_and(lags) {
            behind.push(name.clone());
        }
    }
    few.sort();
    behind.sort();
    let shown = |names: &[String]| {
        let more = names.len().saturating_sub(5);
        let first = names.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        if more == 0 { first } else { format!("{first} and {more} more") }
    };
    let mut found = vec![match few.as_slice() {
        [] => Diagnosis::ok(subject, format!("{replicas} of each of {} streams", infos.len())),
        few => Diagnosis::wrong(
            subject,
            format!("`journal.replicas` is {replicas}, and {}", shown(few)),
            "have the operator of the servers change the streams, or correct `journal.replicas`",
        ),
    }];
    if !behind.is_empty() {
        let remedy = "see to the servers of the cluster: one more that fails stops these streams";
        found.push(Diagnosis::warning(
            "servers of the cluster",
            format!("are away or behind: {}", shown(&behind)),
            remedy,
        ));
    }
    found
}

fn lags(cluster: &ClusterInfo) -> bool {
    let is_led = cluster.leader.as_deref().is_some_and(|leader| !leader.is_empty());
    !is_led || cluster.replicas.iter().any(|peer| peer.offline || !peer.current)
}

/// Whether there are servers for so many copies.
fn clustered(client: &Client, replicas: usize) -> Diagnosis {
    let subject = "servers for the copies";
    match (client.server_info().cluster, replicas) {
        (None, 1) => Diagnosis::warning(
            subject,
            "one server has the only copy",
            "for more than trials run three servers, with `journal.replicas = 3`; back up the streams until then",
        ),
        (None, _) => Diagnosis::wrong(
            subject,
            format!("`journal.replicas` is {replicas}, and the server is in no cluster"),
            "start the cluster, as config/nats.cluster.conf has it, or set `journal.replicas = 1`",
        ),
        (Some(cluster), 1) => Diagnosis::warning(
            subject,
            format!("the server is in cluster {cluster}, and keeps one copy of each stream"),
            "make the journal with `journal.replicas = 3`",
        ),
        (Some(cluster), _) => Diagnosis::ok(subject, format!("the server is in cluster {cluster}")),
    }
}

/// The server's clock beside this machine's. A server says its time with the state of a stream; the round trip says how sure it is.
async fn clock(client: &Client) -> Diagnosis {
    let subject = "clock";
    let (before, asked) =
        (SystemTime::now(), client.request(format!("$JS.API.STREAM.INFO.{FIRST_STREAM}"), "".into()).await);
    let after = SystemTime::now();
    let told = asked.ok().and_then(|answer| {
        let answer: Value = serde_json::from_slice(&answer.payload).ok()?;
        DateTime::parse_from_rfc3339(answer["ts"].as_str()?).ok()
    });
    match told {
        Some(theirs) => compare(before.into(), theirs.into(), after.into()),
        None => Diagnosis::not_checked(
            subject,
            "the server tells no time before there is a journal",
            "the blocks' times of the chains above are the other witnesses",
        ),
    }
}

/// `theirs` was read between the two others.
fn compare(before: DateTime<Utc>, theirs: DateTime<Utc>, after: DateTime<Utc>) -> Diagnosis {
    let subject = "clock";
    let ahead = (theirs - after).num_milliseconds().max(0);
    let behind = (before - theirs).num_milliseconds().max(0);
    let open = (after - before).num_milliseconds();
    let remedy = "set both machines' clocks by NTP: deadlines are compared with them";
    let found = match (ahead, behind) {
        (0, 0) => format!("the server's agrees, within the {open} ms of the question"),
        (0, behind) => format!("the server's is {behind} to {} ms behind this machine's", behind + open),
        (ahead, _) => format!("the server's is {ahead} to {} ms ahead of this machine's", ahead + open),
    };
    match ahead.max(behind) {
        differ if differ >= CLOCK_WRONG_MS => Diagnosis::wrong(subject, found, remedy),
        differ if differ >= CLOCK_WARNING_MS => Diagnosis::warning(subject, found, remedy),
        _ => Diagnosis::ok(subject, found),
    }
}

#[cfg(test)]
mod tests {
    use chains::diagnosis::Verdict;
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn clocks_are_compared_as_surely_as_the_round_trip_allows() {
        let start = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let at = |ms| start + TimeDelta::milliseconds(ms);
        let verdict = |theirs, after| compare(start, at(theirs), at(after)).verdict;
        assert_eq!(verdict(5, 10), Verdict::Ok);
        assert_eq!(verdict(-999, 10), Verdict::Ok);
        assert_eq!(verdict(-1_000, 10), Verdict::Warning);
        assert_eq!(verdict(1_010, 10), Verdict::Warning);
        assert_eq!(verdict(5_010, 10), Verdict::Wrong);
        // A slow answer proves nothing.
        assert_eq!(verdict(9_000, 10_000), Verdict::Ok);
        assert!(compare(start, at(-5_000), at(10)).found.contains("5000 to 5010 ms behind"));
    }
}
