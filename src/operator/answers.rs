//! What gateways answer to an order: who has done it, who has not, and of whom nobody can tell.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use serde::{Deserialize, de::DeserializeOwned};

use journal::operator_acts::{NAME_CHARS_MAX, printable};

use super::{
    client::{Error, Target},
    wire::{Acknowledged, Reply},
};

/// Stands for a gateway whose answer names none.
const NAMELESS: &str = "a gateway";
/// Most characters of why an answer cannot be read.
const DEFECT_CHARS_MAX: usize = 200;

/// The gateways that there are, as far as somebody has asked before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// Those that answered last time.
    answering: BTreeSet<String>,
    /// Those that had answered earlier, and did not last time.
    silent: BTreeSet<String>,
}

impl Known {
    /// These are there.
    pub fn answering(names: impl IntoIterator<Item = String>) -> Self {
        Self { answering: names.into_iter().collect(), silent: BTreeSet::new() }
    }

    /// And these have been.
    pub fn with_silent(self, names: impl IntoIterator<Item = String>) -> Self {
        Self { silent: names.into_iter().collect(), ..self }
    }
}

/// What one gateway says to an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said<T> {
    /// It has done it.
    Done(T),
    /// It has not, and why.
    Refused(String),
    /// Nobody can tell, and why.
    Unclear(String),
}

/// What gateways say to an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers<T> {
    /// Each with its name, by name; also those that were there a moment ago and say nothing.
    pub said: Vec<(String, Said<T>)>,
    /// Those that say nothing, and had fallen silent before.
    pub silent: Vec<String>,
}

impl<T> Answers<T> {
    pub(super) fn new(replies: Vec<Result<Reply<T>, Unreadable>>, known: &Known) -> Self {
        let mut said: Vec<(String, Said<T>)> = replies.into_iter().map(said).collect();
        let heard: BTreeSet<String> = said.iter().map(|(gateway, _)| gateway.clone()).collect();
        let missed = |names: &BTreeSet<String>| names.difference(&heard).cloned().collect::<Vec<_>>();
        let silent = missed(&known.silent);
        let unheard = missed(&known.answering).into_iter();
        said.extend(unheard.map(|name| (name, Said::Unclear("no answer in time".to_owned()))));
        said.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self { said, silent }
    }

    /// What came of the order, in a line, in which `says` tells what one has done.
    ///
    /// # Errors
    /// Where a gateway has not done it, or nobody can tell whether it has; [`Error::Unclear`] where that holds for each
    /// of them.
    pub fn conclude(&self, says: impl Fn(&T) -> String) -> Result<String> {
        let mut lines: Vec<String> = Vec::new();
        let (mut done, mut refused) = (0, 0);
        for (gateway, said) in &self.said {
            let what = match said {
                Said::Done(result) => {
                    done += 1;
                    says(result)
                }
                Said::Refused(error) => {
                    refused += 1;
                    error.clone()
                }
                Said::Unclear(why) => format!("whether it did is not known: {why}"),
            };
            lines.push(format!("{gateway}: {what}"));
        }
        if !self.silent.is_empty() {
            lines.push(format!("silent since before: {}", self.silent.join(", ")));
        }
        let text = lines.join("; ");
        if done == self.said.len() {
            return Ok(text);
        }
        if done + refused == 0 {
            return Err(Error::Unclear(text).into());
        }
        bail!(text)
    }
}

fn said<T>(reply: Result<Reply<T>, Unreadable>) -> (String, Said<T>) {
    match reply {
        Ok(Reply { gateway, result: Some(result), .. }) => (gateway, Said::Done(result)),
        Ok(Reply { gateway, result: None, error: Some(error) }) => (gateway, Said::Refused(error)),
        Ok(Reply { gateway, result: None, error: None }) => (gateway, Said::Unclear("its answer is empty".to_owned())),
        Err(Unreadable { gateway, defect }) => (gateway, Said::Unclear(defect)),
    }
}

/// An answer that is none, and who gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unreadable {
    gateway: String,
    defect: String,
}

impl Unreadable {
    /// As an answer of that gateway.
    pub(super) fn into_reply<T>(self) -> Reply<T> {
        Reply { gateway: self.gateway, result: None, error: Some(self.defect) }
    }
}

/// The answer that a message is.
pub(super) fn read<T: DeserializeOwned>(payload: &[u8]) -> Result<Reply<T>, Unreadable> {
    /// Of an answer of another build this can be read.
    #[derive(Deserialize)]
    struct Named {
        gateway: String,
    }
    serde_json::from_slice(payload).map_err(|error| {
        let named = serde_json::from_slice::<Named>(payload).ok().map(|named| named.gateway);
        let named = named.filter(|name| Target::of(Some(name)).is_ok() && name.len() <= NAME_CHARS_MAX);
        let defect: String = printable(&error.to_string()).chars().take(DEFECT_CHARS_MAX).collect();
        let gateway = named.unwrap_or_else(|| NAMELESS.to_owned());
        Unreadable { gateway, defect: format!("its answer cannot be read: {defect}") }
    })
}

/// The alarms that a gateway has dropped.
pub fn dropped(dropped: &Acknowledged) -> String {
    match &dropped.journal_alarms[..] {
        [] => "no alarms".to_owned(),
        alarms => alarms.iter().map(|alarm| alarm.message.as_str()).collect::<Vec<_>>().join("; "),
    }
}

#[cfg(test)]
mod tests {
    use crate::operator::wire::{Alarm, Started};

    use super::*;

    fn replies(payloads: &[&str]) -> Vec<Result<Reply<Started>, Unreadable>> {
        payloads.iter().map(|payload| read(payload.as_bytes())).collect()
    }

    fn concluded(payloads: &[&str], known: &Known) -> Result<String> {
        Answers::new(replies(payloads), known).conclude(|started| format!("begun {}", started.id))
    }

    fn is_unclear(outcome: &Result<String>) -> bool {
        outcome.as_ref().is_err_and(|error| matches!(error.downcast_ref(), Some(Error::Unclear(_))))
    }

    const ONE: &str = r#"{"gateway":"one","result":{"id":"a"}}"#;
    const TWO: &str = r#"{"gateway":"two","error":"a rebuild is under way"}"#;
    const NEWER: &str = r#"{"gateway":"three","result":{"number":7}}"#;

    #[test]
    fn an_answer_that_cannot_be_read_is_that_gateways_and_takes_nothing_from_the_others() {
        let said = replies(&[NEWER, r#"{"gateway":"a b"}x"#, ""]);
        let names: Vec<&str> = said.iter().map(|said| said.as_ref().unwrap_err().gateway.as_str()).collect();
        assert_eq!(names, ["three", NAMELESS, NAMELESS]);
        let outcome = concluded(&[ONE, NEWER], &Known::default());
        assert!(!is_unclear(&outcome));
        let text = outcome.unwrap_err().to_string();
        let expected = "one: begun a; three: whether it did is not known: its answer cannot be read: ";
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(read::<Started>(NEWER.as_bytes()).unwrap_err().into_reply::<()>().gateway, "three");
    }

    #[test]
    fn what_nobody_can_tell_of_any_is_unclear_and_not_failed() {
        for payloads in [&[NEWER][..], &[r#"{"gateway":"one"}"#], &["", NEWER]] {
            assert!(is_unclear(&concluded(payloads, &Known::default())), "{payloads:?}");
        }
        assert_eq!(concluded(&[ONE], &Known::default()).unwrap(), "one: begun a");
        let refused = concluded(&[TWO], &Known::default());
        assert!(!is_unclear(&refused));
        assert_eq!(refused.unwrap_err().to_string(), "two: a rebuild is under way");
    }

    #[test]
    fn who_was_there_a_moment_ago_is_missed_and_who_was_gone_is_named() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let known = Known::answering(names(&["one"])).with_silent(names(&["gone"]));
        assert_eq!(concluded(&[ONE], &known).unwrap(), "one: begun a; silent since before: gone");
        let known = Known::answering(names(&["one", "two"]));
        let error = concluded(&[ONE], &known).unwrap_err().to_string();
        assert_eq!(error, "one: begun a; two: whether it did is not known: no answer in time");
    }

    #[test]
    fn the_alarms_that_were_dropped_are_told_one_by_one() {
        let alarm = |message: &str| Alarm {
            shard: 0,
            checkpoint: 7,
            commit_id: "c".to_owned(),
            head: 1,
            found_at: "2026-01-02T03:04:05Z".parse().unwrap(),
            message: message.to_owned(),
        };
        assert_eq!(dropped(&Acknowledged { journal_alarms: vec![alarm("a"), alarm("b")] }), "a; b");
        assert_eq!(dropped(&Acknowledged { journal_alarms: Vec::new() }), "no alarms");
    }
}
