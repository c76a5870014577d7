//! The policies that settlers hold: by credentials of the issuers that the operator names for each policy, and by records.
//!
//! A payer requires a policy by name (`settler_auth_required`, spec 2.1). What the name means is the operator's to say, in
//! `[settlers.policies.NAME]`: a type of credential and who may issue it, and what the settler's record must show besides. A
//! policy that is not configured is held by nobody.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};

use config::{PolicyRecordConfig, SettlerPolicyConfig};
use events::{Hash32, identity::HeldPolicy, time::Timestamp};
use proofs::{
    credential::{self, Credential, Error},
    did::Did,
    json::Document,
};

use super::{Identities, request::hash};

/// How long a credential that held is not verified again. One whose issuer takes a key back counts for so long.
const KEPT: Duration = Duration::from_secs(60);
/// How long one that did not hold is not verified again.
const FAILURE_KEPT: Duration = Duration::from_secs(5);
/// Most credentials whose verdict is kept: some 4 MiB, as nothing is kept of them that a settler can make large.
const KEPT_MAX: usize = 4096;
/// How long one whose credentials could not be verified in time is not asked where a policy is required.
const SLOW_KEPT: Duration = Duration::from_secs(20);
/// How long the credentials of one settler may take to be verified, sites included.
const VERIFY_MAX: Duration = Duration::from_secs(2);

/// What a policy asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// DIDs of those whose word counts.
    pub issuers: Vec<events::Did>,
    /// Type of the credential.
    pub kind: String,
    /// What the settler's record must show besides.
    pub record: Option<PolicyRecordConfig>,
}

type Verdicts = HashMap<(events::Did, Hash32), (Instant, Verdict)>;

/// What was found out about a credential.
#[derive(Debug, Clone)]
enum Verdict {
    Holds(Arc<Credential>),
    Fails,
    /// It could not be judged, because a site did not answer.
    Unknown,
}

/// Tells which policies a settler holds.
#[derive(Debug, Default)]
pub struct SettlerPolicies {
    identities: Identities,
    policies: BTreeMap<String, Policy>,
    verdicts: Mutex<Verdicts>,
    /// Settlers whose credentials could not be verified in time, and since when they are let wait.
    slow: Mutex<HashMap<events::Did, Instant>>,
}

impl SettlerPolicies {
    /// The policies of a configuration, their credentials verified by `identities`.
    pub fn new(identities: Identities, config: &BTreeMap<String, SettlerPolicyConfig>) -> Self {
        let policies = config.iter().map(|(name, policy)| {
            let SettlerPolicyConfig { issuers, kind, record } = policy.clone();
            (name.clone(), Policy { issuers, kind, record })
        });
        Self { identities, policies: policies.collect(), verdicts: Mutex::default(), slow: Mutex::default() }
    }

    /// Those of the `required` policies that the settler holds at `now`, with the credential for each that lasts longest. Whether
    /// its record is as a policy asks, `meets` says.
    ///
    /// A credential that cannot be verified now, because a site does not answer, does not count now; see
    /// [`SettlerPolicies::unknown_until`].
    pub async fn held(
        &self,
        settler: &events::Did,
        credentials: &[Map<String, Value>],
        required: &[String],
        meets: &(dyn Fn(&PolicyRecordConfig) -> bool + Sync),
        now: Timestamp,
    ) -> Vec<HeldPolicy> {
        let configured = required.iter().filter_map(|name| self.policies.get_key_value(name));
        // First of all: no credential makes up for a record.
        let required: Vec<_> = configured.filter(|(_, policy)| policy.record.as_ref().is_none_or(meets)).collect();
        if required.is_empty() || credentials.is_empty() {
            return Vec::new();
        }
        // One whose credentials take too long holds auctions up once in a while, and not each of them.
        if self.is_slow(settler) {
            return Vec::new();
        }
        let verified = timeout(VERIFY_MAX, self.verified(settler, credentials, now)).await;
        let verified = verified.unwrap_or_else(|_| {
            tracing::warn!(%settler, "credentials could not be verified in time");
            self.slow().insert(settler.clone(), Instant::now());
            Vec::new()
        });
        let held = required.into_iter().filter_map(|(name, policy)| {
            let fitting = verified.iter().filter_map(|(hash, credential)| {
                let issuer = policy.issuers.iter().find(|issuer| issuer.as_str() == credential.issuer.as_str())?;
                credential.types.contains(&policy.kind).then_some((hash, issuer, credential.expires))
            });
            let longest = fitting.max_by_key(|(.., expires)| (expires.is_none(), *expires));
            longest.map(|(hash, issuer, expires)| HeldPolicy {
                settler: settler.clone(),
                policy: name.clone(),
                issuer: issuer.clone(),
                credential_hash: *hash,
                expires,
            })
        });
        held.collect()
    }

    /// Until when [`SettlerPolicies::held`] cannot tell whether the settler holds the `required` policies, because the site of an
    /// issuer of one did not answer, or took too long; `None` where what it told is known.
    pub fn unknown_until(
        &self,
        settler: &events::Did,
        credentials: &[Map<String, Value>],
        required: &[String],
    ) -> Option<Instant> {
        let issuers = || required.iter().filter_map(|name| self.policies.get(name)).flat_map(|policy| &policy.issuers);
        // What somebody else has issued cannot count, whatever is found out about it.
        let of_interest = |members: &&Map<String, Value>| {
            stated_issuer(members).is_some_and(|stated| issuers().any(|issuer| issuer.as_str() == stated))
        };
        let of_interest = credentials.iter().filter(of_interest);
        let keys: Vec<_> =
            of_interest.map(|members| (settler.clone(), hash(&Value::Object(members.clone())))).collect();
        let slow = self.slow().get(settler).map(|since| *since + SLOW_KEPT);
        let verdicts = self.verdicts();
        if keys.iter().all(|key| matches!(verdicts.get(key), Some((_, Verdict::Fails)))) {
            return None;
        }
        let unknown = keys.iter().filter_map(|key| match verdicts.get(key)? {
            (made, Verdict::Unknown) => Some(*made + FAILURE_KEPT),
            (_, Verdict::Holds(_) | Verdict::Fails) => None,
        });
        unknown.chain(slow).max().filter(|until| *until > Instant::now())
    }

    async fn verified(
        &self,
        settler: &events::Did,
        credentials: &[Map<String, Value>],
        now: Timestamp,
    ) -> Vec<(Hash32, Arc<Credential>)> {
        let mut verified = Vec::with_capacity(credentials.len());
        for members in credentials {
            let hash = hash(&Value::Object(members.clone()));
            let verdict = match self.kept(settler, hash) {
                Some(verdict) => verdict,
                None => self.verify(settler, members, hash, now).await,
            };
            // What is kept was judged before.
            if let Verdict::Holds(credential) = verdict
                && credential.expires.is_none_or(|expires| expires > now)
            {
                verified.push((hash, credential));
            }
        }
        verified
    }

    fn is_slow(&self, settler: &events::Did) -> bool {
        let mut slow = self.slow();
        slow.retain(|_, since| since.elapsed() < SLOW_KEPT);
        slow.contains_key(settler)
    }

    /// A verdict that need not be made again.
    fn kept(&self, settler: &events::Did, hash: Hash32) -> Option<Verdict> {
        let verdicts = self.verdicts();
        let (made, verdict) = verdicts.get(&(settler.clone(), hash))?;
        let kept = if matches!(verdict, Verdict::Holds(_)) { KEPT } else { FAILURE_KEPT };
        (made.elapsed() < kept).then(|| verdict.clone())
    }

    async fn verify(
        &self,
        settler: &events::Did,
        members: &Map<String, Value>,
        hash: Hash32,
        now: Timestamp,
    ) -> Verdict {
        let verdict = match self.judge(settler, members, now).await {
            Ok(mut credential) => {
                // No policy asks for more.
                credential.types.retain(|kind| self.policies.values().any(|policy| policy.kind == *kind));
                // Whoever issues to himself chooses how many there were.
                credential.types.shrink_to_fit();
                (credential.id, credential.claims) = Default::default();
                Verdict::Holds(Arc::new(credential))
            }
            Err((reason, is_transient)) => {
                tracing::warn!(%settler, reason, is_transient, "a settler's credential does not count");
                if is_transient { Verdict::Unknown } else { Verdict::Fails }
            }
        };
        let mut verdicts = self.verdicts();
        if verdicts.len() >= KEPT_MAX {
            verdicts.retain(|_, (made, _)| made.elapsed() < KEPT);
        }
        if verdicts.len() < KEPT_MAX {
            verdicts.insert((settler.clone(), hash), (Instant::now(), verdict.clone()));
        }
        verdict
    }

    /// What a credential says; why it does not count, and whether that may be otherwise soon.
    async fn judge(
        &self,
        settler: &events::Did,
        members: &Map<String, Value>,
        now: Timestamp,
    ) -> Result<Credential, (String, bool)> {
        let holder: Did = settler.as_str().parse().map_err(|error: proofs::did::Error| (error.to_string(), false))?;
        let document = Document::from_members(members.clone()).map_err(|error| (error.to_string(), false))?;
        let verified = credential::verify(&document, &holder, self.identities.trust(now)).await;
        verified.map_err(|error: Error| (error.to_string(), error.is_transient()))
    }

    fn slow(&self) -> MutexGuard<'_, HashMap<events::Did, Instant>> {
        // Nothing panics while it is held.
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn verdicts(&self) -> MutexGuard<'_, Verdicts> {
        // Nothing panics while it is held.
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who a credential says has issued it.
fn stated_issuer(members: &Map<String, Value>) -> Option<&str> {
    match members.get("issuer")? {
        Value::Object(issuer) => issuer.get("id")?.as_str(),
        issuer => issuer.as_str(),
    }
}
