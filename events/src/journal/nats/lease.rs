//! The lease on a shard: one key in a bucket, taken over by compare-and-set when its owner has stopped renewing it.
//!
//! No two clocks are ever compared. An owner counts its lease from the moment it *sent* the last renewal that was
//! acknowledged; an observer counts from the moment it first *saw* that renewal, which is later. So the owner has
//! given up by the time another may take over, as far as both clocks run at the same rate.

use std::time::Duration;

use async_nats::{HeaderMap, Subscriber};
use bytes::Bytes;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tracing::debug;

use super::{Inner, LEASES};
use crate::{
    CommitId,
    jetstream::{self, Pick, Published},
};

/// A lease that was not renewed for this long is dead.
pub(super) const LEASE: Duration = Duration::from_millis(2100);
/// How often it is renewed: three times in its life.
const RENEW: Duration = Duration::from_millis(700);
/// How often a stand-by looks at the lease even when nothing is heard of it.
const LOOK: Duration = Duration::from_millis(500);
const RETRY: Duration = Duration::from_millis(50);
const DELETED: &str = "KV-Operation";

#[derive(Serialize, Deserialize)]
struct Value {
    owner: String,
    /// Tells this claim from another of the same owner.
    claim: String,
}

/// One worker's claim on the lease of a shard.
pub(super) struct Claim {
    subject: String,
    claim: String,
    body: Bytes,
}

/// A lease that was won.
pub(super) struct Held {
    revision: u64,
    /// The lease may be relied on until then.
    pub(super) until: Instant,
}

/// What the key says.
struct Seen {
    revision: u64,
    /// Nobody holds it.
    free: bool,
    /// This very claim holds it.
    mine: bool,
}

impl Claim {
    pub(super) fn new(shard: u16, owner: &str) -> Self {
        let claim = CommitId::random().to_string();
        let value = Value { owner: owner.to_owned(), claim: claim.clone() };
        // Two strings always serialize; an empty value would only make the claim not know itself again.
        let body = serde_json::to_vec(&value).unwrap_or_default().into();
        Self { subject: format!("$KV.{LEASES}.{shard:02}"), claim, body }
    }

    async fn look(&self, inner: &Inner) -> Result<Seen, String> {
        let pick = Pick::Last { subject: &self.subject };
        let Some(entry) = jetstream::leader_get(&inner.client, &format!("KV_{LEASES}"), &pick, RENEW).await? else {
            return Ok(Seen { revision: 0, free: true, mine: false });
        };
        let deleted = entry.headers.get(DELETED).is_some();
        let mine = serde_json::from_slice(&entry.body).is_ok_and(|value: Value| value.claim == self.claim);
        Ok(Seen { revision: entry.sequence, free: deleted, mine })
    }

    async fn set(&self, inner: &Inner, revision: u64, until: Option<Instant>) -> Published {
        let timeout = until.map_or(RENEW, |until| until.saturating_duration_since(Instant::now()).min(RENEW));
        let mut headers = HeaderMap::new();
        headers.insert(jetstream::EXPECTED_SEQUENCE, revision.to_string().as_str());
        jetstream::publish(&inner.client, &self.subject, headers, self.body.clone(), timeout).await
    }

    /// Competes until the lease is won.
    pub(super) async fn win(&self, inner: &Inner) -> Held {
        // Renewals and releases are heard at once where the network is kind; looking makes up for where it is not.
        let mut heard = None;
        let mut seen: Option<(u64, Instant)> = None;
        loop {
            if heard.is_none() {
                heard = inner.client.subscribe(self.subject.clone()).await.ok();
            }
            if !jetstream::connected(&inner.client) {
                sleep(RETRY).await;
                continue;
            }
            let now = Instant::now();
            match self.look(inner).await {
                Ok(now_seen) => {
                    // Counted from after the look: the renewal was sent before that.
                    let first = match seen {
                        Some((revision, first)) if revision == now_seen.revision => first,
                        _ => Instant::now(),
                    };
                    seen = Some((now_seen.revision, first));
                    if now_seen.free || now_seen.mine || now >= first + LEASE {
                        let sent = Instant::now();
                        if let Published::Stored { sequence } = self.set(inner, now_seen.revision, None).await {
                            return Held { revision: sequence, until: sent + LEASE };
                        }
                        // Somebody else was faster, or the outcome is unclear; the next look tells.
                        sleep(RETRY).await;
                        continue;
                    }
                    let look_again = (Instant::now() + LOOK).min(first + LEASE);
                    wait(&mut heard, look_again).await;
                }
                Err(error) => {
                    debug!(subject = self.subject, error, "lease cannot be read");
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Renews the lease until it is lost; `until` is told how long it may be relied on.
    pub(super) async fn keep(&self, inner: &Inner, held: &mut Held, until: &(impl Fn(Instant) + Sync)) {
        let mut next = held.until - LEASE + RENEW;
        loop {
            sleep_until(next.min(held.until)).await;
            let sent = Instant::now();
            if sent >= held.until {
                return;
            }
            next = sent + RETRY;
            // Without a connection the client would send the renewal later, for a lease that is over by then.
            if !jetstream::connected(&inner.client) {
                continue;
            }
            match self.set(inner, held.revision, Some(held.until)).await {
                Published::Stored { sequence } => {
                    held.revision = sequence;
                    held.until = sent + LEASE;
                    until(held.until);
                    next = sent + RENEW;
                }
                Published::WrongSequence => {
                    // Overtaken, or an earlier renewal of this claim arrived after its time-out.
                    let Ok(looked) = timeout_at(held.until, self.look(inner)).await else { return };
                    match looked {
                        Ok(seen) if seen.mine => held.revision = seen.revision,
                        Ok(_) => return,
                        Err(_) => {}
                    }
                }
                _ => {}
            }
        }
    }

    /// Gives the lease up, so that a stand-by hears of it at once. When that fails the lease runs out by itself.
    pub(super) async fn release(&self, inner: &Inner, held: &Held) {
        let mut headers = HeaderMap::new();
        headers.insert(jetstream::EXPECTED_SEQUENCE, held.revision.to_string().as_str());
        headers.insert(DELETED, "DEL");
        let outcome = jetstream::publish(&inner.client, &self.subject, headers.clone(), Bytes::new(), RENEW).await;
        // A renewal that was still on its way has been stored meanwhile.
        if let (Published::WrongSequence, Ok(Seen { revision, mine: true, .. })) = (outcome, self.look(inner).await) {
            headers.insert(jetstream::EXPECTED_SEQUENCE, revision.to_string().as_str());
            let _ = jetstream::publish(&inner.client, &self.subject, headers, Bytes::new(), RENEW).await;
        }
    }
}

async fn wait(heard: &mut Option<Subscriber>, until: Instant) {
    let Some(subscriber) = heard else { return sleep_until(until).await };
    match timeout_at(until, subscriber.next()).await {
        Ok(Some(_)) | Err(_) => {}
        Ok(None) => *heard = None,
    }
}
