//! Stages: how far a payment has come, by the events of its timeline. `web/data/stages.json` says to which stage each event
//! belongs, and what is waited for behind it.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::Value;

use projections::{PaymentStatus, PaymentView};

use super::{
    chains,
    texts::{text, time},
};

/// The table.
#[derive(Deserialize, Default)]
struct Table {
    stages: Vec<String>,
    /// Those of a payment whose money is sent to a deposit address.
    by_address: Vec<String>,
    /// The stage that stands behind those of a payment that failed with money in escrow.
    after_failure: String,
    events: BTreeMap<String, Step>,
}

/// What an event means for the stages.
#[derive(Deserialize)]
struct Step {
    stage: Option<String>,
    /// `done` or `running`.
    state: Option<String>,
    waiting: String,
}

static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../web/data/stages.json")).unwrap_or_default());

fn step(entry: &Value) -> Option<&'static Step> {
    TABLE.events.get(entry["event"].as_str()?)
}

/// Whether the money of a payment is waited for at its deposit address.
pub(crate) fn is_awaited(view: &PaymentView) -> bool {
    view.status == PaymentStatus::Pending
        && view.deposit_address.as_ref().is_some_and(|address| address.received.is_none())
}

/// Whether there is money of a failed payment that can come back: to a deposit address it may not have come.
pub(crate) fn may_come_back(view: &PaymentView) -> bool {
    view.deposit_address.as_ref().is_none_or(|address| address.received.is_some())
}

/// What is waited for after these entries; the end of its text's name.
pub(crate) fn waiting(view: &PaymentView, entries: &[Value]) -> Option<&'static str> {
    if is_awaited(view) {
        return Some("address");
    }
    if entries.last().is_some_and(|entry| entry["event"] == "Failed") {
        return may_come_back(view).then_some("refund");
    }
    entries.iter().rev().find_map(step).map(|step| step.waiting.as_str()).filter(|waiting| *waiting != "nothing")
}

/// The stages as a list, HTML.
pub(crate) fn list(view: &PaymentView, entries: &[Value]) -> String {
    let failed = view.status == PaymentStatus::Failed;
    let refund = (failed && (view.refund_owed.is_some() || view.refund.is_some())).then_some(&TABLE.after_failure);
    let mut has_stopped = false;
    let stages = if view.deposit_address.is_some() { &TABLE.by_address } else { &TABLE.stages };
    let items = stages.iter().chain(refund).map(|stage| {
        let last =
            entries.iter().rev().find(|entry| step(entry).is_some_and(|step| step.stage.as_ref() == Some(stage)));
        let state = last.and_then(step).and_then(|step| step.state.as_deref());
        let state = match state {
            Some("done") => "done",
            // The first stage that was not reached is the one that failed; those behind it were not tried.
            _ if failed && refund != Some(stage) => {
                if std::mem::replace(&mut has_stopped, true) {
                    return String::new();
                }
                "failed"
            }
            Some(_) => "running",
            None if is_awaited(view) && stage == "received" => "running",
            None => "open",
        };
        let at = last.and_then(|entry| entry["at"].as_str()).map_or_else(String::new, |at| format!(" {}", time(at)));
        format!(
            "<li class=\"{state}\"><span class=\"stage\">{}</span> <span class=\"state\">{}</span>{at}{}</li>",
            text(&format!("stage.{stage}")),
            text(&format!("state.{state}")),
            transactions(last),
        )
    });
    format!("<ol class=\"stages\">{}</ol>", items.collect::<String>())
}

/// The transactions of an entry, each with its stage.
fn transactions(entry: Option<&Value>) -> String {
    let transactions = entry.and_then(|entry| entry["transactions"].as_object());
    let shown = transactions.into_iter().flatten().map(|(stage, transaction)| {
        let word = |member: &str| transaction[member].as_str().unwrap_or_default();
        let linked = chains::transaction(word("chain_id"), word("transaction_hash"));
        format!("<br><span class=\"muted\">{}</span> {linked}", text(&format!("transaction.{stage}")))
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_and_everything_that_is_waited_for_has_a_text() {
        assert_eq!((TABLE.stages.len(), TABLE.by_address.len()), (4, 5));
        let has_text = |name: String| assert_ne!(text(&name), "", "{name}");
        has_text("waiting.address".to_owned());
        TABLE.stages.iter().chain(&TABLE.by_address).for_each(|stage| has_text(format!("stage.{stage}")));
        for step in TABLE.events.values() {
            has_text(format!("waiting.{}", step.waiting));
            step.stage.iter().for_each(|stage| has_text(format!("stage.{stage}")));
            assert!(step.state.as_deref().is_none_or(|state| ["done", "running"].contains(&state)));
        }
        for state in ["done", "running", "failed", "open"] {
            has_text(format!("state.{state}"));
        }
    }
}
