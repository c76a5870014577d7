//! What gateways say of their verifiers, put together: a table for people, and the same as JSON.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use chrono::SecondsFormat;
use serde_json::json;

use config::chains_of;
use events::{Account, time::Timestamp};

use crate::{
    cli::pay::plain,
    operator::wire::{Reply, Status, Verifier, VerifierAccount, VerifierState},
};

/// The answers, as they are called and as heads of their columns.
const ANSWERS: [(&str, &str); 7] = [
    ("attested", "ATTESTED"),
    ("pending", "PENDING"),
    ("refused", "REFUSED"),
    ("busy", "BUSY"),
    ("unreachable", "UNREACHABLE"),
    ("contradiction", "CONTRADICTION"),
    ("skipped", "SKIPPED"),
];
const COLUMNS: usize = ANSWERS.len() + 4;

/// What the gateways say.
pub(super) struct Told {
    /// By origin, and in order of the gateways' names.
    verifiers: BTreeMap<String, Vec<(String, Verifier)>>,
    /// Gateways that say nothing of verifiers, and why.
    notes: Vec<String>,
    has_answer: bool,
}

impl Told {
    pub(super) fn of(replies: Vec<Reply<Status>>) -> Self {
        let mut told = Self { verifiers: BTreeMap::new(), notes: Vec::new(), has_answer: false };
        for Reply { gateway, result, error } in replies {
            let Some(status) = result else {
                let why = error.unwrap_or_else(|| "its answer is empty".to_owned());
                told.notes.push(format!("{gateway}: {why}"));
                continue;
            };
            let Some(verifiers) = status.verifiers else {
                told.notes.push(format!("{gateway}: says nothing of verifiers, as gw {}", status.version));
                continue;
            };
            told.has_answer = true;
            for verifier in verifiers {
                told.verifiers.entry(verifier.endpoint.clone()).or_default().push((gateway.clone(), verifier));
            }
        }
        told
    }

    /// Whether any gateway says anything of them.
    pub(super) fn has_answer(&self) -> bool {
        self.has_answer
    }

    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(super) fn json(&self) -> Result<String> {
        let verifiers = self.verifiers.iter().map(|(endpoint, seen)| {
            let by: Vec<_> =
                seen.iter().map(|(gateway, verifier)| json!({"gateway": gateway, "observed": verifier})).collect();
            json!({"endpoint": endpoint, "state": worst(seen), "accounts": accounts(seen), "gateways": by})
        });
        let verifiers: Vec<_> = verifiers.collect();
        Ok(serde_json::to_string_pretty(&json!({"verifiers": verifiers, "notes": self.notes}))?)
    }

    /// A line a verifier, in columns that are as wide as what is in them, and below it a line for each of its accounts.
    pub(super) fn text(&self) -> String {
        let heads =
            ["VERIFIER"].into_iter().chain(ANSWERS.map(|(_, head)| head)).chain(["MEDIAN", "LAST ANSWERED", "STATE"]);
        let head: Vec<String> = heads.map(str::to_owned).collect();
        let rows: Vec<(Vec<String>, Vec<String>)> =
            self.verifiers.iter().map(|(endpoint, seen)| (row(endpoint, seen), account_lines(seen))).collect();
        let widths: Vec<usize> = (0..COLUMNS)
            .map(|column| {
                rows.iter()
                    .map(|(row, _)| &row[column])
                    .chain([&head[column]])
                    .map(|cell| cell.chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let line = |cells: &[String]| {
            let cells = cells.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                // Nothing is behind the state, and numbers end where their head ends.
                _ if column == COLUMNS - 1 => cell.clone(),
                0 | 9 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            cells.collect::<Vec<_>>().join("  ")
        };
        let mut lines = match rows.is_empty() {
            true => vec!["no gateway names a verifier".to_owned()],
            false => vec![line(&head)],
        };
        for (row, accounts) in &rows {
            lines.push(line(row));
            lines.extend(accounts.iter().map(|account| format!("  {account}")));
        }
        lines.extend(self.notes.iter().map(|note| plain(note)));
        lines.join("\n")
    }
}

/// A verifier as all gateways saw it: counts of all together, the median of the gateway that waits longest, the last answer to any.
fn row(endpoint: &str, seen: &[(String, Verifier)]) -> Vec<String> {
    let of = |answer: &str| {
        seen.iter().filter_map(|(_, it)| it.answers.get(answer)).fold(0, |sum: u64, it| sum.saturating_add(*it))
    };
    let median = seen.iter().filter_map(|(_, it)| it.median_ms).max();
    let last = seen.iter().filter_map(|(_, it)| it.last_answered_at).max();
    let mut row = vec![plain(endpoint)];
    row.extend(ANSWERS.map(|(answer, _)| of(answer).to_string()));
    row.extend([median.map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms")), time(last), plain(&shown_state(seen))]);
    row
}

fn time(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "-".to_owned(), |at| at.to_rfc3339_opts(SecondsFormat::Secs, true))
}

/// The worst that any gateway finds. What another version calls a state is worse than what is known.
fn worst(seen: &[(String, Verifier)]) -> &str {
    let badness = |state: &str| VerifierState::of(state).map_or(VerifierState::ALL.len(), |state| state as usize);
    seen.iter().map(|(_, verifier)| verifier.state.as_str()).max_by_key(|state| badness(state)).unwrap_or_default()
}

/// The state, with the gateways that find it where others do not.
fn shown_state(seen: &[(String, Verifier)]) -> String {
    let worst = worst(seen);
    let found: Vec<&str> =
        seen.iter().filter(|(_, verifier)| verifier.state == worst).map(|(gateway, _)| gateway.as_str()).collect();
    match found.len() == seen.len() {
        true => worst.to_owned(),
        false => format!("{worst}, says {}", found.join(", ")),
    }
}

/// The accounts by which gateways name a verifier. One that any saw it sign with is its own.
fn accounts(seen: &[(String, Verifier)]) -> Vec<VerifierAccount> {
    let all = || seen.iter().flat_map(|(_, verifier)| &verifier.accounts);
    let signed: BTreeSet<&Account> = all().filter(|it| it.has_signed).map(|it| &it.account).collect();
    let told = all().map(|it| VerifierAccount { has_signed: signed.contains(&it.account), ..it.clone() });
    told.collect::<BTreeSet<_>>().into_iter().collect()
}

fn account_lines(seen: &[(String, Verifier)]) -> Vec<String> {
    let line = |it: VerifierAccount| {
        let VerifierAccount { account, set, threshold, members, has_signed } = it;
        let place = match set {
            Some(_) => format!("{threshold} of {members}"),
            None => "alone".to_owned(),
        };
        let signed = if has_signed { "" } else { "  (has not signed yet)" };
        format!("{place} on {:<13}  {account}{signed}", chains_of(account.family()))
    };
    accounts(seen).into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const MEMBER: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
    const SET: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";

    fn verifier(endpoint: &str, attested: u64, state: &str) -> Value {
        let account = json!({"account": MEMBER, "set": SET, "threshold": 2, "members": 3, "has_signed": attested > 0});
        let mut verifier = json!({
            "endpoint": endpoint,
            "accounts": [account],
            "answers": {"attested": attested, "unreachable": 1, "of_another_version": 5},
            "state": state,
        });
        if attested > 0 {
            verifier["median_ms"] = json!(attested);
            verifier["last_answered_at"] = json!("2030-01-01T00:00:01.730Z");
        }
        verifier
    }

    fn reply(gateway: &str, verifiers: Option<Value>) -> Reply<Status> {
        let mut status = json!({
            "instance": "a", "version": "0.9.0", "listen": "127.0.0.1:8080", "started_at": "2030-01-01T00:00:00Z",
            "uptime_seconds": 1, "shards": [],
        });
        if let Some(verifiers) = verifiers {
            status["verifiers"] = verifiers;
        }
        serde_json::from_value(json!({"gateway": gateway, "result": status})).unwrap()
    }

    #[test]
    fn gateways_together_say_how_each_verifier_does() {
        let (one, two) = ("https://v1.example", "https://v2.example");
        let told = Told::of(vec![
            reply("gateway-1", Some(json!([verifier(one, 1204, "ok"), verifier(two, 0, "unasked")]))),
            reply("gateway-2", Some(json!([verifier(one, 7, "silent"), verifier(two, 0, "unasked")]))),
            reply("gateway-3", None),
        ]);
        assert!(told.has_answer());
        let text = told.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        let ends = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        assert_eq!(ends(lines[0], "ATTESTED"), ends(lines[1], "1211"));
        assert_eq!(lines[0].find("STATE"), lines[1].find("silent, says gateway-2"));
        assert!(lines[1].starts_with(one) && lines[1].contains("  1204 ms  2030-01-01T00:00:01Z  "), "{text}");
        assert_eq!(lines[2], format!("  2 of 3 on EVM chains     {MEMBER}"));
        assert!(lines[3].starts_with(two) && lines[3].ends_with("  unasked"), "{text}");
        assert!(lines[4].ends_with("  (has not signed yet)"), "{text}");
        assert_eq!(lines[5], "gateway-3: says nothing of verifiers, as gw 0.9.0");
    }

    #[test]
    fn as_json_each_gateways_word_is_told_apart() {
        let endpoint = "https://v1.example";
        let replies = ["a", "b"].map(|name| reply(name, Some(json!([verifier(endpoint, 3, "of_another_version")]))));
        let told: Value = serde_json::from_str(&Told::of(replies.into()).json().unwrap()).unwrap();
        let verifier = &told["verifiers"][0];
        assert_eq!((&verifier["endpoint"], &verifier["state"]), (&json!(endpoint), &json!("of_another_version")));
        assert_eq!(verifier["accounts"].as_array().map(Vec::len), Some(1));
        assert_eq!(verifier["gateways"][1]["observed"]["answers"]["attested"], 3);
    }

    #[test]
    fn gateways_of_older_versions_alone_say_nothing() {
        let error = Reply { gateway: "b".to_owned(), result: None, error: Some("busy".to_owned()) };
        let told = Told::of(vec![reply("a", None), error]);
        assert!(!told.has_answer());
        assert_eq!(told.notes(), ["a: says nothing of verifiers, as gw 0.9.0", "b: busy"]);
    }
}
