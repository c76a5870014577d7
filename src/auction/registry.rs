//! Which settlers are there.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use async_nats::HeaderMap;
use futures::StreamExt;
use serde_json::{Map, Value};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior},
};

use events::{Did, SettlerToken};
use sagas::ports::RequestForQuotes;
use settler::protocol::{self, REGISTRATION_SUBJECTS, REGISTRY_BUCKET, Registration};

use super::{Inner, RETRY_PAUSE, stored};

/// How often the bucket is read in full; renewals are heard in between.
const SCAN_EVERY: Duration = Duration::from_secs(3);
/// A settler neither heard nor found in the bucket for so long is gone. The bucket itself drops what is not renewed.
const UNSEEN_MAX: Duration = Duration::from_secs(10);
/// Most settlers; the server answers no larger scan.
const SETTLERS_MAX: usize = 1024;

/// The settlers that are there, as far as this gateway has seen.
#[derive(Default)]
pub struct Registry {
    entries: Mutex<HashMap<SettlerToken, Entry>>,
    /// Counts changes; zero until the bucket was read for the first time.
    version: watch::Sender<u64>,
    /// When that was.
    first_read: OnceLock<Instant>,
}

struct Entry {
    registration: Registration,
    seen: Instant,
}

/// What happened to a key.
enum Sighting {
    There(Box<Registration>),
    Gone,
}

impl Registry {
    /// A receiver that notes each change; its value is zero until the registry is filled.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// When the bucket was read for the first time; `None` until then.
    pub fn first_read(&self) -> Option<Instant> {
        self.first_read.get().copied()
    }

    /// The settlers that may be asked but for the required policies, in the order of their DIDs, each with the credentials
    /// it presents for these: those with a corridor to one of the destinations, allowed by the lists (the blacklist wins).
    pub fn eligible(&self, request: &RequestForQuotes) -> Vec<(Did, Vec<Map<String, Value>>)> {
        let entries = self.entries();
        let registrations = entries.values().map(|entry| &entry.registration);
        let with_credentials = |registration: &Registration| {
            let needed = !request.required_policies.is_empty();
            let credentials = if needed { registration.credentials.clone() } else { Vec::new() };
            (registration.settler.clone(), credentials)
        };
        let fitting = registrations.filter(|registration| fits(registration, request));
        let mut settlers: Vec<_> = fitting.map(with_credentials).collect();
        settlers.sort_by(|(one, _), (other, _)| one.cmp(other));
        settlers
    }

    /// What a settler presents for the policies it holds; nothing when it is not there.
    pub fn credentials(&self, settler: &Did) -> Vec<Map<String, Value>> {
        let entries = self.entries();
        entries.get(&settler.token()).map(|entry| entry.registration.credentials.clone()).unwrap_or_default()
    }

    fn tokens(&self) -> Vec<SettlerToken> {
        self.entries().keys().cloned().collect()
    }

    fn note(&self, token: SettlerToken, sighting: Sighting, seen: Instant) {
        let mut entries = self.entries();
        let changed = match sighting {
            Sighting::Gone => entries.remove(&token).is_some(),
            Sighting::There(_) if !entries.contains_key(&token) && entries.len() >= SETTLERS_MAX => {
                tracing::warn!(%token, "too many settlers; this one is left out");
                false
            }
            Sighting::There(registration) => {
                let before = entries.insert(token, Entry { registration: (*registration).clone(), seen });
                before.is_none_or(|entry| entry.registration != *registration)
            }
        };
        drop(entries);
        if changed {
            self.version.send_modify(|version| *version += 1);
        }
    }

    fn drop_unseen(&self, now: Instant) {
        let mut entries = self.entries();
        let before = entries.len();
        entries.retain(|_, entry| now.duration_since(entry.seen) < UNSEEN_MAX);
        let changed = entries.len() != before;
        drop(entries);
        if changed {
            self.version.send_modify(|version| *version += 1);
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<SettlerToken, Entry>> {
        // No holder of the lock leaves the map half changed where it could panic.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Keeps the registry current, for ever.
    pub(super) async fn keep_registry(&self) {
        loop {
            match self.client.subscribe(REGISTRATION_SUBJECTS).await {
                Ok(renewals) => self.follow(renewals).await,
                Err(error) => tracing::warn!(%error, "cannot listen to registrations, trying again"),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    async fn follow(&self, mut renewals: async_nats::Subscriber) {
        let mut scans = tokio::time::interval(SCAN_EVERY);
        scans.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = scans.tick() => self.scan().await,
                message = renewals.next() => {
                    let Some(message) = message else { return };
                    match sighting(&message.subject, message.headers.as_ref(), &message.payload) {
                        Ok((token, sighting)) => self.registry.note(token, sighting, Instant::now()),
                        Err(rule) => tracing::warn!(subject = %message.subject, rule, "registration does not count"),
                    }
                }
            }
            for settler in self.registry.tokens() {
                if let Err(error) = self.ensure_consumer(&settler).await {
                    tracing::warn!(%settler, %error, "settler has no consumer of awards yet");
                }
            }
        }
    }

    async fn scan(&self) {
        let bucket = format!("KV_{REGISTRY_BUCKET}");
        match stored::last_of_each(&self.client, &bucket, &[REGISTRATION_SUBJECTS]).await {
            Ok(messages) => {
                let now = Instant::now();
                for message in messages {
                    match sighting(&message.subject, Some(&message.headers), &message.payload) {
                        Ok((token, sighting)) => self.registry.note(token, sighting, now),
                        Err(rule) => tracing::debug!(subject = message.subject, rule, "registration does not count"),
                    }
                }
                self.registry.first_read.get_or_init(Instant::now);
                self.registry.version.send_if_modified(|version| {
                    let first = *version == 0;
                    *version += u64::from(first);
                    first
                });
            }
            Err(stored::Error::Missing) => self.restore_streams().await,
            Err(error) => tracing::warn!(%error, "the registry cannot be read for now"),
        }
        self.registry.drop_unseen(Instant::now());
    }
}

fn sighting(subject: &str, headers: Option<&HeaderMap>, payload: &[u8]) -> Result<(SettlerToken, Sighting), String> {
    let prefix = REGISTRATION_SUBJECTS.trim_end_matches('*');
    let token = SettlerToken::from_subject(subject.strip_prefix(prefix).unwrap_or_default());
    if headers.and_then(|headers| headers.get("KV-Operation")).is_some() {
        return Ok((token, Sighting::Gone));
    }
    let registration: Registration = protocol::read(payload).map_err(|error| error.to_string())?;
    if registration.settler.token() != token {
        return Err("its DID's token is not its key".to_owned());
    }
    Ok((token, Sighting::There(Box::new(registration))))
}

fn fits(registration: &Registration, request: &RequestForQuotes) -> bool {
    let terms = &request.terms;
    let corridor = registration.corridors.iter().any(|corridor| {
        corridor.source_asset == *terms.source.asset()
            && terms.destination().iter().any(|destination| corridor.destination_asset == *destination.asset())
    });
    let settler = &registration.settler;
    corridor
        && !request.blacklist.contains(settler)
        && (request.whitelist.is_empty() || request.whitelist.contains(settler))
}
