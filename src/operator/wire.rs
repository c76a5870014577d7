//! Subjects, requests and answers between operators and gateways.
//!
//! Members may be added; whoever reads ignores what it does not know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use events::{Account, Amount, AssetId, ChainId, Did, PaymentId, StreamId, event::VerifierRef, time::Timestamp};
use projections::{JournalAlarm, Overdue, OverdueStage, RebuildPhase, RebuildStatus, ShardState, ShardStatus, Verdict};

/// What every subject begins with.
pub const PREFIX: &str = "gw.operator";
/// Stands in the place of a gateway's name when all are meant.
pub const ALL: &str = "all";
/// What the subject of every answer begins with.
pub const REPLY_PREFIX: &str = "gw.operator.reply.";
/// Most payments in one answer about what is overdue, so that it fits a NATS message.
pub const OVERDUE_MAX: usize = 800;

/// What a gateway can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// How it stands: [`Status`].
    Status,
    /// To build its read models again: [`Started`].
    Rebuild,
    /// Which payments are past their time: [`OverdueReport`].
    Overdue,
    /// To drop the alarms that the journal lost commits: [`Acknowledged`].
    Acknowledge,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Self; 4] = [Self::Status, Self::Rebuild, Self::Overdue, Self::Acknowledge];

    /// The verb as the last token of a subject.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Rebuild => "rebuild",
            Self::Overdue => "overdue",
            Self::Acknowledge => "acknowledge",
        }
    }

    /// The verb that `token` stands for.
    pub fn of(token: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == token)
    }
}

/// The subject on which `gateway`, a name or [`ALL`], is asked `verb`.
pub fn subject(gateway: &str, verb: Verb) -> String {
    format!("{PREFIX}.{gateway}.{}", verb.as_str())
}

/// An answer: a result, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply<T> {
    /// Who answers.
    pub gateway: String,
    /// The result.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub result: Option<T>,
    /// Why there is none, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn none<T>() -> Option<T> {
    None
}

/// How a gateway stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Tells this process from others, also of the same name.
    pub instance: String,
    /// Version of the program.
    pub version: String,
    /// Address it listens on.
    pub listen: String,
    /// When it started.
    pub started_at: Timestamp,
    /// Seconds since then.
    pub uptime_seconds: u64,
    /// Its shards, in order.
    pub shards: Vec<Shard>,
    /// The rebuild of its read models that is under way, or the last one since it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<Rebuild>,
    /// Alarms that the journal lost commits, not acknowledged.
    #[serde(default)]
    pub journal_alarms: Vec<Alarm>,
    /// Deliveries that nobody attests while the refund window comes near, in all shards, as its watchdog found last.
    #[serde(default)]
    pub unattested: u64,
    /// Payments and batches that wait for the configuration to be mended.
    #[serde(default)]
    pub misconfigured: u64,
    /// The verifiers that its configuration names, by their origins; absent in answers of gateways that do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifiers: Option<Vec<Verifier>>,
}

/// A verifier, and what a gateway observed of it since it started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verifier {
    /// Its origin.
    pub endpoint: String,
    /// The accounts by which the configuration names it.
    pub accounts: Vec<VerifierAccount>,
    /// How often each thing became of an ask: `attested`, `pending`, `refused`, `busy`, `unreachable`, `contradiction`, `skipped`.
    pub answers: BTreeMap<String, u64>,
    /// When the last ask of it ended; absent before there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_asked_at: Option<Timestamp>,
    /// When it last answered, whatever it said; absent before it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_answered_at: Option<Timestamp>,
    /// Within how many milliseconds half of its newest asks were over; absent before there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_ms: Option<u64>,
    /// The same of 99 of 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<u64>,
    /// How it does: what a [`VerifierState`] is called.
    pub state: String,
}

/// An account by which a configuration names a verifier.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VerifierAccount {
    /// The account.
    pub account: Account,
    /// The id of the set that it is in; absent where it attests alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<Account>,
    /// How many of them have to attest.
    pub threshold: usize,
    /// How many they are.
    pub members: usize,
    /// Whether it was seen to sign with it.
    pub has_signed: bool,
}

/// How a verifier does, from well to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VerifierState {
    /// It was not asked yet.
    Unasked,
    /// Nothing is wrong.
    Well,
    /// Half of its newest asks took two seconds or longer.
    Slow,
    /// It answered nothing in the minute before it was last asked, or never.
    Silent,
    /// It answered what cannot be an answer: nonsense, or a signature that is not its own.
    Contradicts,
}

impl VerifierState {
    /// All states.
    pub const ALL: [Self; 5] = [Self::Unasked, Self::Well, Self::Slow, Self::Silent, Self::Contradicts];

    /// What it is called.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unasked => "unasked",
            Self::Well => "ok",
            Self::Slow => "slow",
            Self::Silent => "silent",
            Self::Contradicts => "contradicts",
        }
    }

    /// The state that is called so; `None` for one that another version knows.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// How a gateway stands to one shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shard {
    /// The shard.
    pub shard: u16,
    /// Whether this gateway drives its payments; absent while unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned: Option<bool>,
    /// The read model: `starting`, `catching_up`, `live` or `stopped`.
    pub state: String,
    /// Why it has stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Stream sequence of the last commit in the read model.
    pub checkpoint: u64,
    /// Stream sequence of the newest commit; absent while the stream does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<u64>,
}

impl Shard {
    /// Shard `number` of a gateway.
    pub fn new(number: u16, status: ShardStatus, owned: Option<bool>, head: Option<u64>) -> Self {
        let (state, reason) = match status.state {
            ShardState::Starting => ("starting", None),
            ShardState::CatchingUp => ("catching_up", None),
            ShardState::Live => ("live", None),
            ShardState::Stopped { reason } => ("stopped", Some(reason)),
        };
        Self { shard: number, owned, state: state.to_owned(), reason, checkpoint: status.checkpoint, head }
    }

    /// Commits that the read model lacks; `None` while unknown.
    pub fn lag(&self) -> Option<u64> {
        self.head.map(|head| head.saturating_sub(self.checkpoint))
    }
}

/// A rebuild of a gateway's read models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebuild {
    /// Tells it from others.
    pub id: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; absent while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// `building`, `comparing`, `done` or `failed`.
    pub state: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How far each shard is.
    pub shards: Vec<RebuildShard>,
}

/// How far a rebuild is with a shard, and what the comparison with the old copy came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildShard {
    /// The shard.
    pub shard: u16,
    /// Commits applied.
    pub done: u64,
    /// Commits there are, as far as known.
    pub total: u64,
    /// The comparison, once done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<ShardVerdict>,
}

/// What the comparison of the new copy of a shard with the old one came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum ShardVerdict {
    /// They are the same.
    Equal {
        /// Stream sequence of both.
        sequence: u64,
        /// Payments and batches compared.
        streams: u64,
    },
    /// The old copy was wrong.
    Different {
        /// Stream sequence of both.
        sequence: u64,
        /// Payments and batches that it showed wrongly.
        count: u64,
        /// The first of them.
        streams: Vec<StreamId>,
    },
    /// There was nothing to compare with.
    NotCompared {
        /// Why.
        reason: String,
    },
}

impl From<Verdict> for ShardVerdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Equal { sequence, streams } => Self::Equal { sequence, streams },
            Verdict::Different { sequence, streams, count } => Self::Different { sequence, count, streams },
            Verdict::NotCompared { reason } => Self::NotCompared { reason },
        }
    }
}

impl From<RebuildStatus> for Rebuild {
    fn from(status: RebuildStatus) -> Self {
        let (state, error, verdicts) = match status.phase {
            RebuildPhase::Building => ("building", None, Vec::new()),
            RebuildPhase::Comparing => ("comparing", None, Vec::new()),
            RebuildPhase::Done { verdicts } => ("done", None, verdicts),
            RebuildPhase::Failed { error } => ("failed", Some(error.to_string()), Vec::new()),
        };
        let mut verdicts = verdicts.into_iter().map(ShardVerdict::from);
        let shards = status.shards.into_iter();
        let shards =
            shards.map(|at| RebuildShard { shard: at.shard, done: at.done, total: at.total, verdict: verdicts.next() });
        Self {
            id: status.id,
            started_at: status.started_at,
            ended_at: status.ended_at,
            state: state.to_owned(),
            error,
            shards: shards.collect(),
        }
    }
}

/// A stream lost commits that had been read from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// The shard.
    pub shard: u16,
    /// Stream sequence up to which commits had been read.
    pub checkpoint: u64,
    /// Id of the commit at it.
    pub commit_id: String,
    /// The stream's head when this was found.
    pub head: u64,
    /// When it was found.
    pub found_at: Timestamp,
    /// The same in words.
    pub message: String,
}

impl From<JournalAlarm> for Alarm {
    fn from(alarm: JournalAlarm) -> Self {
        let message = alarm.to_string();
        let JournalAlarm { shard, checkpoint, commit_id, head, found_at } = alarm;
        Self { shard, checkpoint, commit_id, head, found_at, message }
    }
}

/// A rebuild has begun; [`Status`] shows how it goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// What [`Rebuild::id`] says of it.
    pub id: String,
}

/// The alarms that were dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// What they were.
    pub journal_alarms: Vec<Alarm>,
}

/// The payments that are past their time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverdueReport {
    /// How many there are.
    pub total: u64,
    /// Those that are so for longest, at most [`OVERDUE_MAX`].
    pub payments: Vec<OverduePayment>,
    /// Payments that cannot be read, of which nobody can tell whether they are; at most [`OVERDUE_MAX`].
    #[serde(default)]
    pub unreadable: Vec<PaymentId>,
    /// Shards whose read model is not live: payments of theirs may be missing or shown as they were.
    pub uncertain_shards: Vec<u16>,
}

/// A payment that is past its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverduePayment {
    /// The payment.
    pub payment_id: PaymentId,
    /// What should have happened: `undeposited`, `undelivered`, `unreassigned`, `unattested`, `unreleased`,
    /// `unrefunded`.
    pub stage: OverdueStage,
    /// The asset that pays.
    pub asset: AssetId,
    /// How much is in escrow, smallest unit; while `undeposited`, the most that may be.
    pub amount: Amount,
    /// When it should have happened at the latest.
    pub since: Timestamp,
    /// What the engine waits for.
    pub waits_for: String,
    /// Chain of the last transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<ChainId>,
    /// The last transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction_hash: Option<String>,
    /// Who delivers, or has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settler: Option<Did>,
    /// Who attests the delivery; absent in answers of gateways that do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<VerifierRef>,
}

impl From<Overdue> for OverduePayment {
    fn from(overdue: Overdue) -> Self {
        let Overdue { payment_id, shard: _, stage, asset, amount, since, waits_for, transaction, settler, verifier } =
            overdue;
        let (chain_id, transaction_hash) = transaction.map(|last| (last.chain_id, last.transaction_hash)).unzip();
        Self {
            payment_id,
            stage,
            asset,
            amount,
            since,
            waits_for: waits_for.to_owned(),
            chain_id,
            transaction_hash,
            settler,
            verifier: Some(verifier),
        }
    }
}
