//! What is observed of the verifiers that are asked: how each answers, how long that takes, and when it last did.
//!
//! Kept in memory, from the start of the process on, of the verifiers that the configuration names, by their origins; any others are
//! of payers' choice and only counted together. A verifier answers when it says anything at all: one that is silent, too slow or
//! away does not.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use metrics::{Counter, Histogram, counter, histogram};

use events::{Account, time::Timestamp};

/// How many of a verifier's newest asks its times are of.
const TIMES_KEPT: usize = 256;
/// Most accounts that are kept of a verifier: one a family, and those it had before.
const ACCOUNTS_MAX: usize = 16;
/// The name of all verifiers together that the configuration does not name.
const OTHERS: &str = "other";

/// What became of one ask of a verifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// It signed.
    Attested,
    /// Not yet.
    Pending,
    /// Never, for this case.
    Refused,
    /// It has too much to do.
    Busy,
    /// No answer, or none in time, or that it cannot read its chains.
    Unreachable,
    /// An answer that cannot be one: nonsense, or a signature that is not its own.
    Contradiction,
    /// It was not asked, because as many asks of it were under way as may be.
    Skipped,
}

impl Answer {
    /// All there are.
    pub const ALL: [Self; 7] = [
        Self::Attested,
        Self::Pending,
        Self::Refused,
        Self::Busy,
        Self::Unreachable,
        Self::Contradiction,
        Self::Skipped,
    ];

    /// What it is called, in metrics too.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Attested => "attested",
            Self::Pending => "pending",
            Self::Refused => "refused",
            Self::Busy => "busy",
            Self::Unreachable => "unreachable",
            Self::Contradiction => "contradiction",
            Self::Skipped => "skipped",
        }
    }

    /// Whether the verifier said anything.
    pub fn is_answer(self) -> bool {
        !matches!(self, Self::Unreachable | Self::Skipped)
    }
}

/// What was observed of one verifier, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierRecord {
    /// Its origin, as the configuration has it in normal form ([`net::origin::origin`]).
    pub endpoint: String,
    /// The accounts that it has signed with, which proves that they are its own; none before it has.
    pub accounts: BTreeSet<Account>,
    /// Whether one of the newest [`TIMES_KEPT`] asks that were made ended in a contradiction.
    pub contradicts: bool,
    /// How often each thing became of an ask, every kind with a number.
    pub answers: BTreeMap<Answer, u64>,
    /// When the last ask of it ended, answered or not; `None` before there was one.
    pub last_asked_at: Option<Timestamp>,
    /// When it last answered, whatever it said; `None` before it has.
    pub last_answered_at: Option<Timestamp>,
    /// Of the newest [`TIMES_KEPT`] asks that were made, the time within which one half was over, in milliseconds; `None` before
    /// there was one. An ask that got no answer took as long as was waited.
    pub median_ms: Option<u64>,
    /// The same of 99 of 100.
    pub p99_ms: Option<u64>,
}

/// What is observed of all verifiers; cheap to clone.
#[derive(Clone)]
pub struct VerifierRecords(Arc<Records>);

struct Records {
    /// By origin.
    members: BTreeMap<String, Member>,
    others: Handles,
}

struct Member {
    handles: Handles,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    accounts: BTreeSet<Account>,
    /// Those with which it has signed beside the word that it follows reassignments, and has said nothing else since.
    followers: BTreeSet<Account>,
    answers: BTreeMap<Answer, u64>,
    last_asked_at: Option<Timestamp>,
    last_answered_at: Option<Timestamp>,
    /// Of the newest asks, oldest first: how long each took, and what became of it.
    newest: VecDeque<(Duration, Answer)>,
}

/// The handles of metrics, made once.
struct Handles {
    answers: BTreeMap<Answer, Counter>,
    seconds: Histogram,
}

impl Handles {
    fn of(verifier: &str) -> Self {
        let of = |answer: Answer| {
            let labels = [("verifier", verifier.to_owned()), ("answer", answer.as_str().to_owned())];
            (answer, counter!("gw_verifier_asks_total", &labels))
        };
        Self {
            answers: Answer::ALL.into_iter().map(of).collect(),
            seconds: histogram!("gw_verifier_ask_seconds", "verifier" => verifier.to_owned()),
        }
    }

    fn count(&self, answer: Answer, took: Option<Duration>) {
        if let Some(counter) = self.answers.get(&answer) {
            counter.increment(1);
        }
        if let Some(took) = took {
            self.seconds.record(took);
        }
    }
}

impl fmt::Debug for VerifierRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VerifierRecords").field(&self.snapshot()).finish()
    }
}

impl VerifierRecords {
    /// Nothing was observed yet; verifiers are told apart that have one of these `origins`, in normal form.
    pub(super) fn of<'a>(origins: impl IntoIterator<Item = &'a String>) -> Self {
        let member = |origin: &String| {
            let member = Member { handles: Handles::of(origin), seen: Mutex::default() };
            (origin.clone(), member)
        };
        let members = origins.into_iter().map(member).collect();
        Self(Arc::new(Records { members, others: Handles::of(OTHERS) }))
    }

    /// An ask of the verifier at `origin` took so long and ended at `now`; `signed_with` is the account whose signature it gave, where
    /// that was checked.
    pub(super) fn asked(
        &self,
        origin: &str,
        signed_with: Option<&Account>,
        answer: Answer,
        took: Duration,
        now: Timestamp,
    ) {
        let Some(member) = self.0.members.get(origin) else { return self.0.others.count(answer, Some(took)) };
        member.handles.count(answer, Some(took));
        let mut seen = member.seen();
        *seen.answers.entry(answer).or_default() += 1;
        seen.last_asked_at = seen.last_asked_at.max(Some(now));
        if answer.is_answer() {
            seen.last_answered_at = seen.last_answered_at.max(Some(now));
        }
        if let Some(account) = signed_with
            && seen.accounts.len() < ACCOUNTS_MAX
            && !seen.accounts.contains(account)
        {
            seen.accounts.insert(account.clone());
        }
        if seen.newest.len() == TIMES_KEPT {
            seen.newest.pop_front();
        }
        seen.newest.push_back((took, answer));
    }

    /// The verifier at `origin`, asked as the owner of `account`, said whether it follows reassignments; `has_signed` with that
    /// account in the same answer. Without a signature it is not known whose word it is, so then it can only take a word back. Of
    /// verifiers that the configuration does not name nothing is kept: whoever a payer names could pass questions on to another, and
    /// say more in its place than that one does.
    pub(super) fn said(&self, origin: &str, account: &Account, follows: bool, has_signed: bool) {
        let Some(member) = self.0.members.get(origin) else { return };
        let mut seen = member.seen();
        if !follows {
            seen.followers.remove(account);
        } else if has_signed && seen.followers.len() < ACCOUNTS_MAX && !seen.followers.contains(account) {
            seen.followers.insert(account.clone());
        }
    }

    /// Whether the owner of `account` at `origin` is known to follow reassignments, by its last answer.
    pub(super) fn follows_reassignments(&self, origin: &str, account: &Account) -> bool {
        self.0.members.get(origin).is_some_and(|member| member.seen().followers.contains(account))
    }

    /// The verifier at `origin` was not asked, because as many asks of it were under way as may be.
    pub(super) fn skipped(&self, origin: &str) {
        let Some(member) = self.0.members.get(origin) else { return self.0.others.count(Answer::Skipped, None) };
        member.handles.count(Answer::Skipped, None);
        *member.seen().answers.entry(Answer::Skipped).or_default() += 1;
    }

    /// What was observed of each verifier of the configuration so far, in order of their origins.
    pub fn snapshot(&self) -> Vec<VerifierRecord> {
        self.0.members.iter().map(|(origin, member)| member.seen().record(origin)).collect()
    }
}

impl Member {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Each change is a few insertions that cannot stop half-way.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn record(&self, origin: &str) -> VerifierRecord {
        let mut times: Vec<_> = self.newest.iter().map(|(took, _)| *took).collect();
        times.sort_unstable();
        let within = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100);
            let time = times.get(rank.checked_sub(1)?)?;
            u64::try_from(time.as_millis()).ok()
        };
        VerifierRecord {
            endpoint: origin.to_owned(),
            accounts: self.accounts.clone(),
            contradicts: self.newest.iter().any(|(_, answer)| *answer == Answer::Contradiction),
            answers: Answer::ALL.map(|answer| (answer, self.answers.get(&answer).copied().unwrap_or_default())).into(),
            last_asked_at: self.last_asked_at,
            last_answered_at: self.last_answered_at,
            median_ms: within(50),
            p99_ms: within(99),
        }
    }
}

#[cfg(test)]
mod tests {
    use events::time::from_unix_seconds;

    use super::*;

    const ORIGIN: &str = "https://v1.example";
    const ACCOUNT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";

    fn asked(records: &VerifierRecords, origin: &str, answer: Answer, ms: u64, at: u64) {
        let now = from_unix_seconds(at).unwrap();
        let account: Account = ACCOUNT.parse().unwrap();
        let signed_with = (answer == Answer::Attested).then_some(&account);
        records.asked(origin, signed_with, answer, Duration::from_millis(ms), now);
    }

    #[test]
    fn a_verifier_is_known_by_what_it_answered_and_how_fast() {
        let records = VerifierRecords::of(&[ORIGIN.to_owned(), "https://v2.example".to_owned()]);
        let account: Account = ACCOUNT.parse().unwrap();
        asked(&records, ORIGIN, Answer::Pending, 10, 100);
        asked(&records, ORIGIN, Answer::Contradiction, 20, 101);
        assert!(records.snapshot()[0].accounts.is_empty(), "it has not signed");
        asked(&records, ORIGIN, Answer::Attested, 30, 103);
        // Of two that were under way side by side, the one that was answered first is noted last.
        asked(&records, ORIGIN, Answer::Attested, 40, 102);
        asked(&records, ORIGIN, Answer::Unreachable, 10_000, 200);
        records.skipped(ORIGIN);
        // Strangers are nobody's record.
        asked(&records, "https://stranger.example", Answer::Attested, 1, 300);
        records.skipped("https://stranger.example");

        let [first, second] = records.snapshot().try_into().unwrap();
        assert_eq!((first.endpoint.as_str(), second.endpoint.as_str()), (ORIGIN, "https://v2.example"));
        assert_eq!(first.answers.values().copied().collect::<Vec<_>>(), [2, 1, 0, 0, 1, 1, 1]);
        assert_eq!(first.accounts, [account].into());
        assert!(first.contradicts && !second.contradicts);
        assert_eq!(first.last_answered_at, from_unix_seconds(103), "silence is no answer");
        assert_eq!(first.last_asked_at, from_unix_seconds(200), "it was asked");
        assert_eq!((first.median_ms, first.p99_ms), (Some(30), Some(10_000)));
        assert_eq!((second.last_answered_at, second.median_ms, second.p99_ms), (None, None, None));
        assert!(second.answers.len() == Answer::ALL.len() && second.answers.values().all(|count| *count == 0));
    }

    #[test]
    fn who_follows_reassignments_has_signed_beside_that_word_and_not_taken_it_back() {
        const STRANGER: &str = "https://stranger.example";
        let records = VerifierRecords::of(&[ORIGIN.to_owned()]);
        let account: Account = ACCOUNT.parse().unwrap();
        let other: Account = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359".parse().unwrap();
        let follows = |account: &Account| records.follows_reassignments(ORIGIN, account);
        assert!(!follows(&account), "nothing is known");
        records.said(ORIGIN, &account, true, false);
        assert!(!follows(&account), "anybody can say so");
        records.said(ORIGIN, &account, true, true);
        assert!(follows(&account) && !follows(&other));
        records.said(ORIGIN, &account, true, false);
        assert!(follows(&account), "it said the same again");
        records.said(ORIGIN, &account, false, false);
        assert!(!follows(&account), "an older version has taken its place");
        records.said(STRANGER, &account, true, true);
        assert!(!records.follows_reassignments(STRANGER, &account));
        // However many keys one signs with.
        for number in 1..=2 * ACCOUNTS_MAX {
            records.said(ORIGIN, &format!("0x{number:040x}").parse().unwrap(), true, true);
        }
        assert_eq!(records.0.members[ORIGIN].seen().followers.len(), ACCOUNTS_MAX);
    }

    #[test]
    fn times_are_of_the_newest_asks() {
        let records = VerifierRecords::of(&[ORIGIN.to_owned()]);
        for _ in 0..TIMES_KEPT {
            asked(&records, ORIGIN, Answer::Contradiction, 10_000, 100);
        }
        for ms in 1..=TIMES_KEPT as u64 {
            asked(&records, ORIGIN, Answer::Pending, ms, 200);
        }
        let record = &records.snapshot()[0];
        assert_eq!((record.median_ms, record.p99_ms), (Some(128), Some(254)));
        assert!(!record.contradicts, "what is long past");
    }
}
