//! Verifiers as a gateway knows them: whom its configuration names, and what it observed of each since it started.

use std::{collections::BTreeMap, sync::Arc};

use chrono::TimeDelta;

use config::GatewayConfig;
use events::event::VerifierRef;
use net::origin::origin;
use verifier::observed::{VerifierRecord, VerifierRecords};

use super::wire::{Verifier, VerifierAccount, VerifierState};

/// Nothing answered for so long before it was last asked is silence, in seconds.
const SILENT_SECONDS: i64 = 60;
/// Half of the asks that take so long or longer are slow, in milliseconds.
const SLOW_MS: u64 = 2_000;

/// The verifiers that a gateway's configuration names; cheap to clone.
#[derive(Debug, Clone)]
pub struct Verifiers {
    named: Arc<[VerifierRef]>,
    records: VerifierRecords,
}

impl Verifiers {
    /// Those of this configuration, with what `records` observes of them.
    pub fn new(config: &GatewayConfig, records: VerifierRecords) -> Self {
        Self { named: named(config).into(), records }
    }

    /// Them and the sets of them, as payments name them.
    pub fn named(&self) -> &[VerifierRef] {
        &self.named
    }

    /// What was observed of each, in order of their origins.
    pub fn observed(&self) -> Vec<Verifier> {
        self.records.snapshot().into_iter().map(|record| observed(&self.named, record)).collect()
    }
}

/// Who attests for the chains of a configuration, each once, and who is trusted besides.
pub fn named(config: &GatewayConfig) -> Vec<VerifierRef> {
    let defaults = config.chains.iter().filter_map(|served| config.verifier.of_chain(&served.chain));
    let trusted = config.trust.verifiers.iter();
    let trusted = trusted.map(|verifier| VerifierRef::single(verifier.account.clone(), verifier.endpoint.clone()));
    let mut named: Vec<VerifierRef> = Vec::new();
    for verifier in defaults.chain(trusted) {
        if !named.contains(&verifier) {
            named.push(verifier);
        }
    }
    named
}

fn observed(named: &[VerifierRef], record: VerifierRecord) -> Verifier {
    let mut accounts = Vec::new();
    for verifier in named {
        let own =
            verifier.members().into_iter().filter(|member| origin(&member.endpoint).as_ref() == Some(&record.endpoint));
        accounts.extend(own.map(|member| VerifierAccount {
            has_signed: record.accounts.contains(&member.account),
            account: member.account,
            set: verifier.set.is_some().then(|| verifier.account.clone()),
            threshold: verifier.threshold(),
            members: verifier.members().len(),
        }));
    }
    let state = state(&record);
    let answers: BTreeMap<String, u64> =
        record.answers.into_iter().map(|(answer, count)| (answer.as_str().to_owned(), count)).collect();
    Verifier {
        endpoint: record.endpoint,
        accounts,
        answers,
        last_asked_at: record.last_asked_at,
        last_answered_at: record.last_answered_at,
        median_ms: record.median_ms,
        p99_ms: record.p99_ms,
        state: state.as_str().to_owned(),
    }
}

/// How a verifier does, in a word: the worst that holds.
fn state(record: &VerifierRecord) -> VerifierState {
    let Some(asked) = record.last_asked_at else { return VerifierState::Unasked };
    let is_silent =
        record.last_answered_at.is_none_or(|answered| asked - answered >= TimeDelta::seconds(SILENT_SECONDS));
    match record {
        _ if record.contradicts => VerifierState::Contradicts,
        _ if is_silent => VerifierState::Silent,
        _ if record.median_ms.is_some_and(|median| median >= SLOW_MS) => VerifierState::Slow,
        _ => VerifierState::Well,
    }
}

#[cfg(test)]
mod tests {
    use events::{Account, VerifierMember, VerifierSet, time::from_unix_seconds};
    use verifier::observed::Answer;

    use super::*;

    const ACCOUNTS: [&str; 3] = [
        "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
        "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359",
        "0xdbf03b407c01e7cd3cbea99509d93f8dddc8c6fb",
    ];

    fn record(
        answers: &[(Answer, u64)],
        asked: Option<u64>,
        answered: Option<u64>,
        median_ms: Option<u64>,
    ) -> VerifierRecord {
        let at = |seconds: Option<u64>| seconds.map(|seconds| from_unix_seconds(seconds).unwrap());
        VerifierRecord {
            endpoint: "https://v1.example".to_owned(),
            accounts: [ACCOUNTS[0].parse().unwrap()].into(),
            contradicts: answers.iter().any(|(answer, _)| *answer == Answer::Contradiction),
            answers: Answer::ALL.into_iter().map(|answer| (answer, 0)).chain(answers.iter().copied()).collect(),
            last_asked_at: at(asked),
            last_answered_at: at(answered),
            median_ms,
            p99_ms: median_ms,
        }
    }

    #[test]
    fn a_word_says_how_a_verifier_does() {
        for (answers, asked, answered, median, expected) in [
            (&[][..], None, None, None, VerifierState::Unasked),
            (&[(Answer::Skipped, 3)], None, None, None, VerifierState::Unasked),
            (&[(Answer::Attested, 3)], Some(100), Some(100), Some(1_999), VerifierState::Well),
            (&[(Answer::Refused, 3)], Some(159), Some(100), Some(12), VerifierState::Well),
            (&[(Answer::Attested, 3)], Some(100), Some(100), Some(2_000), VerifierState::Slow),
            (&[(Answer::Unreachable, 1)], Some(100), None, Some(1), VerifierState::Silent),
            (&[(Answer::Attested, 3)], Some(160), Some(100), Some(10_000), VerifierState::Silent),
            (&[(Answer::Contradiction, 1)], Some(900), Some(100), Some(10_000), VerifierState::Contradicts),
        ] {
            assert_eq!(state(&record(answers, asked, answered, median)), expected, "{answers:?}");
        }
    }

    #[test]
    fn a_verifier_is_told_with_its_accounts_and_the_sets_that_they_are_in() {
        let account = |n: usize| ACCOUNTS[n].parse::<Account>().unwrap();
        let member = |n: usize| VerifierMember { account: account(n), endpoint: format!("https://V{}.example", n + 1) };
        let set = VerifierRef::of(VerifierSet::new(2, (0..3).map(member).collect()).unwrap()).unwrap();
        let alone = VerifierRef::single(account(1), "https://v1.example");
        let told = observed(&[set.clone(), alone], record(&[(Answer::Attested, 7)], Some(1), Some(1), Some(5)));
        let accounts: Vec<_> = told
            .accounts
            .iter()
            .map(|it| (&it.account, it.set.as_ref(), it.threshold, it.members, it.has_signed))
            .collect();
        assert_eq!(accounts, [(&account(0), Some(&set.account), 2, 3, true), (&account(1), None, 1, 1, false)]);
        assert_eq!((told.answers["attested"], told.answers["skipped"], told.state.as_str()), (7, 0, "ok"));
    }
}
