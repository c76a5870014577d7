//! Report of a pre-flight check: a table for people, JSON for programs.

use anyhow::Result;
use serde_json::{Value, json};

use chains::diagnosis::{Diagnosis, Verdict};

use crate::cli::role::Role;

/// What was found, by where it was looked for.
pub(super) struct Report {
    role: Role,
    found: Vec<(String, Diagnosis)>,
}

impl Report {
    pub(super) fn new(role: Role) -> Self {
        Self { role, found: Vec::new() }
    }

    pub(super) fn add(&mut self, place: &str, found: impl IntoIterator<Item = Diagnosis>) {
        self.found.extend(found.into_iter().map(|one| (place.to_owned(), one)));
    }

    /// Whether something is wrong, as against what a human should look at.
    pub(super) fn is_wrong(&self) -> bool {
        self.count(Verdict::Wrong) > 0
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.found.iter().filter(|(_, one)| one.verdict == verdict).count()
    }

    /// A line for each thing, with what to do about it below.
    pub(super) fn table(&self) -> String {
        let mut lines = Vec::new();
        let mut at = "";
        for (place, one) in &self.found {
            if place != at {
                lines.push(line(place));
                at = place;
            }
            lines.push(format!("  {:<11} {}: {}", word(one.verdict), line(&one.subject), line(&one.found)));
            if let Some(remedy) = &one.remedy {
                lines.push(format!("  {:<11}   -> {}", "", line(remedy)));
            }
        }
        lines.push(format!(
            "{}: {} ok, {} warnings, {} wrong, {} not checked",
            self.role.name(),
            self.count(Verdict::Ok),
            self.count(Verdict::Warning),
            self.count(Verdict::Wrong),
            self.count(Verdict::NotChecked)
        ));
        lines.join("\n")
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Result<String> {
        let checks: Vec<Value> = self
            .found
            .iter()
            .map(|(place, one)| {
                let mut check = serde_json::to_value(one)?;
                check["place"] = json!(place);
                Ok(check)
            })
            .collect::<Result<_, serde_json::Error>>()?;
        let verdict = if self.is_wrong() { "wrong" } else { "ok" };
        let report = json!({"role": self.role.name(), "verdict": verdict, "checks": checks});
        Ok(serde_json::to_string_pretty(&report)?)
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::NotChecked => "not checked",
        Verdict::Warning => "WARNING",
        Verdict::Wrong => "WRONG",
    }
}

/// Most characters of one text: what a node or a server says may be long.
const TEXT_CHARS_MAX: usize = 400;

/// One line that no terminal obeys: some of it is the word of a node.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_what_to_do_and_no_terminal_obeys_it() {
        let mut report = Report::new(Role::Gateway);
        report.add(
            "nats",
            [Diagnosis::ok("server", "answers"), Diagnosis::warning("disk", "is nearly full", "free some")],
        );
        assert!(!report.is_wrong());
        report.add("eip155:1", [Diagnosis::wrong("node", "says \u{1b}[2J\nno", "ask another")]);
        assert!(report.is_wrong());
        let table = report.table();
        assert!(table.contains("WRONG       node: says  [2J no\n"), "{table}");
        assert!(
            table.contains("-> ask another") && table.ends_with("1 ok, 1 warnings, 1 wrong, 0 not checked"),
            "{table}"
        );
        let json: Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        assert_eq!((&json["verdict"], &json["role"]), (&json!("wrong"), &json!("gateway")));
        let expected = json!({"place": "nats", "subject": "server", "verdict": "ok", "found": "answers"});
        assert_eq!(json["checks"][0], expected);
    }
}
