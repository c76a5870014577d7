//! Settings of a gateway that are about settlers: how long they are waited for, how often another takes the place of one that did not
//! deliver, who is passed over, what policies mean.

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use serde::Deserialize;

use events::Did;
use sagas::{
    payment::REASSIGNMENT_ATTEMPTS_MAX,
    ports::{ANSWER_WAIT_MAX, REPLACEABLE_ANSWER_WAIT},
    reassignment::ReassignmentRule,
    settler_record::{OUTCOMES_KEPT, PauseRule},
};

use crate::{Error, rules::require};

/// The longest for which an auction may stay open without anybody to ask, milliseconds: a day.
const ABSENCE_MS_LIMIT: u64 = 86_400_000;
/// The least that a winner may be given to answer, milliseconds: some round trips to another continent.
const AWARD_ACK_MS_LEAST: u64 = 100;
/// Most reassignments of one escrow that may be configured: the payment tries no more transactions for them.
const REASSIGNMENTS_LIMIT: u32 = REASSIGNMENT_ATTEMPTS_MAX;
/// The least and the most for which quotes may be collected for an escrow that is to be reassigned, milliseconds. While they are,
/// the payer waits.
const REASSIGN_WINDOW_MS: RangeInclusive<u64> = 100..=30_000;
/// The longest pause that may be configured, seconds: a day.
const PAUSE_SECONDS_LIMIT: u64 = 86_400;

/// `[settlers]`: what is asked of settlers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SettlersConfig {
    /// How long an auction stays open while nobody serves its corridor, in milliseconds, whoever may be expected.
    pub absence_ms_max: u64,
    /// How long a winner is waited for while another quote can be awarded in its place, in milliseconds.
    pub award_ack_ms: u64,
    /// How often an escrow whose settler did not deliver in time is reserved for another, at most; 0 for never.
    pub reassignments_max: u32,
    /// How long quotes are collected then, in milliseconds, unless all that were asked answer before.
    pub reassign_window_ms: u64,
    /// Whether more is deposited than the winner asks for, so that the escrow can be reserved for one of the next quotes.
    pub reassign_deposits: bool,
    /// Who is passed over for awards that it missed.
    pub pauses: SettlerPausesConfig,
    /// What each policy means that payers may require of settlers (`settler_auth_required`), by its name.
    pub policies: BTreeMap<String, SettlerPolicyConfig>,
}

impl Default for SettlersConfig {
    fn default() -> Self {
        Self {
            absence_ms_max: 0,
            award_ack_ms: milliseconds(REPLACEABLE_ANSWER_WAIT),
            reassignments_max: ReassignmentRule::DEFAULT.reassignments_max,
            reassign_window_ms: milliseconds(ReassignmentRule::DEFAULT.window),
            reassign_deposits: ReassignmentRule::DEFAULT.deposits_for_next,
            pauses: SettlerPausesConfig::default(),
            policies: BTreeMap::new(),
        }
    }
}

impl SettlersConfig {
    /// How long a winner is waited for while another quote can be awarded in its place.
    pub fn award_ack(&self) -> Duration {
        Duration::from_millis(self.award_ack_ms)
    }

    /// How another settler is found for an escrow whose settler did not deliver in time.
    pub fn reassignment(&self) -> ReassignmentRule {
        ReassignmentRule {
            reassignments_max: self.reassignments_max,
            window: Duration::from_millis(self.reassign_window_ms),
            deposits_for_next: self.reassign_deposits,
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let absence = self.absence_ms_max;
        require(absence <= ABSENCE_MS_LIMIT, "settlers.absence_ms_max", "must be at most 86400000")?;
        let longest = milliseconds(ANSWER_WAIT_MAX);
        let rule = format!("must be {AWARD_ACK_MS_LEAST} to {longest}");
        let range = AWARD_ACK_MS_LEAST..=longest;
        require(range.contains(&self.award_ack_ms), "settlers.award_ack_ms", &rule)?;
        let rule = format!("must be at most {REASSIGNMENTS_LIMIT}; 0 reassigns no escrow");
        require(self.reassignments_max <= REASSIGNMENTS_LIMIT, "settlers.reassignments_max", &rule)?;
        let rule = format!("must be {} to {}", REASSIGN_WINDOW_MS.start(), REASSIGN_WINDOW_MS.end());
        require(REASSIGN_WINDOW_MS.contains(&self.reassign_window_ms), "settlers.reassign_window_ms", &rule)?;
        self.pauses.check()?;
        self.policies.iter().try_for_each(|(name, policy)| policy.check(name))
    }
}

/// `[settlers] pauses`: who is passed over for awards that it missed, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SettlerPausesConfig {
    /// So many of a settler's newest awards are looked at, one an originator.
    pub of: usize,
    /// So many of them missed begin a pause; 0 for never.
    pub missed: usize,
    /// The first pause, in seconds, from the last miss on. Each further miss doubles it.
    pub pause_seconds: u64,
    /// The longest pause, in seconds.
    pub pause_seconds_max: u64,
}

impl Default for SettlerPausesConfig {
    fn default() -> Self {
        let PauseRule { of, missed, pause, pause_max } = PauseRule::DEFAULT;
        Self { of, missed, pause_seconds: pause.as_secs(), pause_seconds_max: pause_max.as_secs() }
    }
}

impl From<SettlerPausesConfig> for PauseRule {
    fn from(config: SettlerPausesConfig) -> Self {
        let SettlerPausesConfig { of, missed, pause_seconds, pause_seconds_max } = config;
        let (pause, pause_max) = (Duration::from_secs(pause_seconds), Duration::from_secs(pause_seconds_max));
        Self { of, missed, pause, pause_max }
    }
}

impl SettlerPausesConfig {
    fn check(self) -> Result<(), Error> {
        let rule = format!("must be 1 to {OUTCOMES_KEPT}, of which it is known how they ended");
        require((1..=OUTCOMES_KEPT).contains(&self.of), "settlers.pauses.of", &rule)?;
        require(self.missed <= self.of, "settlers.pauses.missed", "must be at most `of`; 0 passes nobody over")?;
        let longest = self.pause_seconds_max;
        let rule = "must be 1 to 86400";
        require((1..=PAUSE_SECONDS_LIMIT).contains(&longest), "settlers.pauses.pause_seconds_max", rule)?;
        let rule = "must be at least 1 and at most `pause_seconds_max`";
        require((1..=longest).contains(&self.pause_seconds), "settlers.pauses.pause_seconds", rule)
    }
}

/// `[settlers.policies.NAME]`: the credential by which a settler holds a policy, and the record that it needs besides.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettlerPolicyConfig {
    /// DIDs of those who may issue the credential; at least one.
    #[serde(default)]
    pub issuers: Vec<Did>,
    /// Its type.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The record that the settler needs.
    #[serde(default)]
    pub record: Option<PolicyRecordConfig>,
}

impl SettlerPolicyConfig {
    fn check(&self, name: &str) -> Result<(), Error> {
        let key = |member: &str| format!("settlers.policies.{name}.{member}");
        require(!self.issuers.is_empty(), &key("issuers"), "must name at least one DID")?;
        require(!self.kind.is_empty(), &key("type"), "must not be empty")?;
        let Some(PolicyRecordConfig { delivered_min, missed_percent_max }) = self.record else { return Ok(()) };
        let rule = "must be at least 1: who never delivered has no record";
        require(delivered_min >= 1, &key("record.delivered_min"), rule)?;
        require(missed_percent_max <= 100, &key("record.missed_percent_max"), "must be at most 100")
    }
}

/// `record` of a policy: what a settler's record must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRecordConfig {
    /// So many payments delivered at least, ever.
    pub delivered_min: u64,
    /// Of its newest awards that were delivered or missed, one an originator, [`OUTCOMES_KEPT`] at most, no more than so
    /// many missed, percent.
    #[serde(default = "any_share")]
    pub missed_percent_max: u32,
}

fn any_share() -> u32 {
    100
}

fn milliseconds(duration: Duration) -> u64 {
    // Both are constants of seconds.
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
