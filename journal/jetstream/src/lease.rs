//! The lease on a shard: one key in a bucket, taken over by compare-and-set when its owner no longer renews it.
//!
//! No two clocks are ever compared. An owner counts its lease from the moment it *sent* the last renewal that was
//! acknowledged; an observer counts from the moment it first *saw* that renewal, which is later. So the owner knows that
//! its lease has run out by the time another may take over, as far as both clocks run at the same rate.
//!
//! All leases lie in one stream, which elects another leader when it loses its own. That takes seconds in which nobody
//! can renew, and nobody can take over. So an owner whose lease has run out *stays on*: it goes on, and tries to renew under the revision it knows. That
//! succeeds only when nobody has taken over; when somebody has, the first answer tells. An observer counts anew after it
//! could not look, so that the owner comes first. One that is cut off while others are not may be active beside its
//! successor until [`STAY_ON`] is over; what both do is fenced by the expected positions.

use std::time::Duration;

use async_nats::{
    Client, HeaderMap, Subscriber,
    jetstream::{self, kv},
};
use bytes::Bytes;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tracing::{debug, info};

use events::CommitId;

use crate::requests::{self, ConnectError, Pick, Published};

/// Bucket of the leases on shards.
const LEASES: &str = "gw_leases";

/// A lease that was not renewed for this long is dead.
pub(crate) const LEASE: Duration = Duration::from_millis(800);
/// How long an owner that cannot renew its lease stays on after it has run out. A stream elects a leader in 4 to 9 seconds.
const STAY_ON: Duration = Duration::from_secs(12);
/// How often it is renewed: four times in its life.
const RENEW: Duration = Duration::from_millis(200);
/// How long one request about the lease may take.
const ASK_MAX: Duration = Duration::from_millis(700);
/// How often a stand-by looks at the lease even when nothing is heard of it.
const LOOK: Duration = Duration::from_millis(500);
const RETRY: Duration = Duration::from_millis(50);
/// How often a lease is looked at that was heard to be given up: it is heard when that is sent, before it is stored.
const SETTLE: Duration = Duration::from_millis(10);
const DELETED: &str = "KV-Operation";

#[derive(Serialize, Deserialize)]
struct Value {
    owner: String,
    /// Tells this contender from another of the same owner. The stored name is older than the word.
    #[serde(rename = "claim")]
    contender: String,
}

/// Makes the bucket where it is missing.
pub(crate) async fn create(context: &jetstream::Context, replicas: usize) -> Result<(), ConnectError> {
    if requests::stream_config(context, &format!("KV_{LEASES}")).await?.is_some() {
        return Ok(());
    }
    let config = kv::Config { bucket: LEASES.to_owned(), history: 1, num_replicas: replicas, ..kv::Config::default() };
    let created = context.create_key_value(config).await;
    created.map(|_| ()).map_err(|error| ConnectError::Unavailable(error.to_string()))
}

/// The owner of a shard's lease, alive or not; `None` when it was given up.
pub(crate) async fn holder(client: &Client, shard: u16) -> Result<Option<String>, String> {
    let subject = format!("$KV.{LEASES}.{shard:02}");
    let last = Pick::Last { subject: &subject };
    let entry = requests::leader_get(client, &format!("KV_{LEASES}"), &last, ASK_MAX).await?;
    let held = entry.filter(|entry| entry.headers.get(DELETED).is_none());
    let value = held.map(|entry| serde_json::from_slice::<Value>(&entry.body)).transpose();
    value.map(|value| value.map(|value| value.owner)).map_err(|error| error.to_string())
}

/// A contender for the lease of a shard: one worker of one process.
pub(crate) struct Contender {
    subject: String,
    contender: String,
    body: Bytes,
}

/// A lease that was won.
pub(crate) struct Held {
    revision: u64,
    /// The lease may be relied on until then.
    pub(crate) until: Instant,
}

/// The state of the key.
struct Seen {
    revision: u64,
    /// Nobody holds it.
    free: bool,
    /// This very contender holds it.
    mine: bool,
}

impl Contender {
    pub(crate) fn new(shard: u16, owner: &str) -> Self {
        let contender = CommitId::random().to_string();
        let value = Value { owner: owner.to_owned(), contender: contender.clone() };
        // Two strings always serialize; an empty value would only keep the contender from recognising itself.
        let body = serde_json::to_vec(&value).unwrap_or_default().into();
        Self { subject: format!("$KV.{LEASES}.{shard:02}"), contender, body }
    }

    async fn look(&self, client: &Client) -> Result<Seen, String> {
        let pick = Pick::Last { subject: &self.subject };
        let Some(entry) = requests::leader_get(client, &format!("KV_{LEASES}"), &pick, ASK_MAX).await? else {
            return Ok(Seen { revision: 0, free: true, mine: false });
        };
        let deleted = entry.headers.get(DELETED).is_some();
        let mine = serde_json::from_slice(&entry.body).is_ok_and(|value: Value| value.contender == self.contender);
        Ok(Seen { revision: entry.sequence, free: deleted, mine })
    }

    async fn set(&self, client: &Client, revision: u64) -> Published {
        let mut headers = HeaderMap::new();
        headers.insert(requests::EXPECTED_SEQUENCE, revision.to_string().as_str());
        requests::publish(client, &self.subject, headers, self.body.clone(), ASK_MAX).await
    }

    /// Competes until the lease is won.
    pub(crate) async fn win(&self, client: &Client) -> Held {
        // Renewals and releases are heard at once where the network is kind; looking makes up for where it is not.
        let mut heard = None;
        let mut seen: Option<(u64, Instant)> = None;
        let mut given_up_until = Instant::now();
        loop {
            if heard.is_none() {
                heard = client.subscribe(self.subject.clone()).await.ok();
            }
            if !requests::connected(client) {
                seen = None;
                sleep(RETRY).await;
                continue;
            }
            let now = Instant::now();
            match self.look(client).await {
                Ok(now_seen) => {
                    // Counted from after the look: the renewal was sent before that.
                    let first = match seen {
                        Some((revision, first)) if revision == now_seen.revision => first,
                        _ => Instant::now(),
                    };
                    seen = Some((now_seen.revision, first));
                    if now_seen.free || now_seen.mine || now >= first + LEASE {
                        let sent = Instant::now();
                        match self.set(client, now_seen.revision).await {
                            Published::Stored { sequence } => {
                                return Held { revision: sequence, until: sent + LEASE };
                            }
                            // Another contender was faster.
                            Published::WrongSequence => {}
                            // Nobody can renew at the moment. The next look shows whether this was stored.
                            _ => seen = None,
                        }
                        sleep(RETRY).await;
                        continue;
                    }
                    let now = Instant::now();
                    let look_again = now + if now < given_up_until { SETTLE } else { LOOK };
                    if wait(&mut heard, look_again.min(first + LEASE)).await {
                        given_up_until = Instant::now() + LOOK;
                    }
                }
                Err(error) => {
                    debug!(subject = self.subject, error, "lease cannot be read");
                    seen = None;
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Renews the lease until it is lost. It may have run out when this has not returned yet: then nobody is known to have
    /// taken over.
    pub(crate) async fn keep(&self, client: &Client, held: &mut Held) {
        let mut next = held.until - LEASE + RENEW;
        loop {
            let end = held.until + STAY_ON;
            sleep_until(next.min(end)).await;
            let sent = Instant::now();
            // A process that stood still comes here late. It asks once before it goes.
            let last = sent >= end;
            next = sent + RETRY;
            // Without a connection the client would send the renewal later, for a lease that is over by then.
            if requests::connected(client) {
                match self.set(client, held.revision).await {
                    Published::Stored { sequence } => {
                        if sent >= held.until {
                            info!(subject = self.subject, "lease had run out and is renewed");
                        }
                        held.revision = sequence;
                        held.until = sent + LEASE;
                        next = sent + RENEW;
                        continue;
                    }
                    Published::WrongSequence => {
                        // Overtaken, or an earlier renewal of this contender arrived after its time-out.
                        match self.look(client).await {
                            Ok(seen) if seen.mine => held.revision = seen.revision,
                            Ok(_) => return,
                            Err(error) => debug!(subject = self.subject, error, "lease cannot be read"),
                        }
                    }
                    _ => {}
                }
            }
            if last {
                return;
            }
        }
    }

    /// Gives the lease up, so that a stand-by hears of it at once. When that fails the lease runs out by itself.
    pub(crate) async fn release(&self, client: &Client, held: &Held) {
        let mut headers = HeaderMap::new();
        headers.insert(requests::EXPECTED_SEQUENCE, held.revision.to_string().as_str());
        headers.insert(DELETED, "DEL");
        let outcome = requests::publish(client, &self.subject, headers.clone(), Bytes::new(), ASK_MAX).await;
        // A renewal that was still on its way has been stored meanwhile.
        if let (Published::WrongSequence, Ok(Seen { revision, mine: true, .. })) = (outcome, self.look(client).await) {
            headers.insert(requests::EXPECTED_SEQUENCE, revision.to_string().as_str());
            let _ = requests::publish(client, &self.subject, headers, Bytes::new(), ASK_MAX).await;
        }
    }
}

/// Waits for a message about the lease; whether it says that the lease was given up.
async fn wait(heard: &mut Option<Subscriber>, until: Instant) -> bool {
    let Some(subscriber) = heard else {
        sleep_until(until).await;
        return false;
    };
    match timeout_at(until, subscriber.next()).await {
        Ok(Some(message)) => message.headers.is_some_and(|headers| headers.get(DELETED).is_some()),
        Ok(None) => {
            *heard = None;
            false
        }
        Err(_) => false,
    }
}
