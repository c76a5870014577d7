//! Registry of settlers: who is registered, with which corridors, accounts and policies.
//!
//! A settler costs by what it changes, not by what it says: an unchanged renewal is known by its hash and not read, and
//! changes beyond a settler's token bucket wait. Whatever one settler does, auctions are woken a few times a minute at most.

#[cfg(test)]
mod tests;
mod token_bucket;

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use serde_json::{Map, Value, json};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior},
};

use events::{Did, Hash32, SettlerToken, mutant};
use journal_jetstream::{
    headerless::Message,
    last_message::{self, LastMessage},
    rate_limited::RateLimitedSubscription,
};
use protocol::{Corridor, REGISTRATION_BYTES_MAX, REGISTRATION_SUBJECTS, Registration, registration_subject};
use sagas::ports::RequestForQuotes;

use self::token_bucket::TokenBucket;
use super::{Inner, gather::ANSWER_TIMEOUT, streams};

/// How often the settlers' streams are read; renewals are heard in between.
const SCAN_EVERY: Duration = Duration::from_secs(3);
/// Streams read at a time.
const SCANNING_MAX: usize = 32;
/// Renewals and announcements heard a second, of all settlers together; what is missed is found by the next scan.
const HEARD_MAX: u64 = 256;
/// A settler neither heard nor found in its stream for so long is gone. The stream itself drops what is not renewed.
const UNSEEN_MAX: Duration = Duration::from_secs(10);
/// So much longer one is kept while not all streams can be read. Not for ever: one stream that stays unreadable would keep all
/// who are gone, and every auction waiting for them.
const UNREAD_KEPT: Duration = Duration::from_secs(30);
/// How long one that took its registration back is expected to be just starting anew.
const RETURN_MAX: Duration = Duration::from_secs(10);
/// Most settlers.
const SETTLERS_MAX: usize = 1024;

/// The settlers that are there, as far as this gateway has seen.
#[derive(Default)]
pub struct Registry {
    settlers: Mutex<Settlers>,
    /// Counts what auctions have to look at; zero until the streams were read for the first time.
    version: watch::Sender<u64>,
    /// Since when each reading found all of them; `None` while they cannot be read, and before.
    readable_since: Mutex<Option<Instant>>,
    /// Whether the last reading found no registration of somebody who has had one.
    is_anyone_missing: AtomicBool,
}

#[derive(Default)]
struct Settlers {
    there: HashMap<SettlerToken, Entry>,
    /// Those that took their registration back lately, and when.
    left: HashMap<SettlerToken, (Registration, Instant)>,
    /// Of each settler that changed lately, whether it is there or not.
    changes_left: HashMap<SettlerToken, TokenBucket>,
}

struct Entry {
    registration: Registration,
    /// Of the message that said so.
    hash: Hash32,
    seen: Instant,
}

/// What became of a message about a settler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Noted {
    /// Nothing new.
    Renewed,
    /// The settler is there, or trades something else than before.
    Changed,
    /// It is not there any more.
    Gone,
    /// It changes more often than it may; this change does not count yet.
    Deferred,
}

impl Registry {
    /// A receiver that notes each change by which somebody else may have to be asked; its value is zero until the registry
    /// is filled.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The value of [`Registry::changes`].
    pub fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Returns when that is another one than `known`.
    pub async fn other(&self, known: u64) {
        // The sender lives as long as the registry.
        let mut version = self.version.subscribe();
        let _ = version.wait_for(|version| *version != known).await;
    }

    /// Since when all that is stored of settlers is known here; `None` while it cannot be read, so that nobody can say that a
    /// settler is not there.
    pub fn readable_since(&self) -> Option<Instant> {
        *self.readable_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether what is stored can be read.
    fn set_readable(&self, readable: bool, now: Instant) {
        let mut since = self.readable_since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = since.or(Some(now)).filter(|_| readable);
    }

    /// Whether somebody who was registered once, here or elsewhere, was not at the last reading.
    pub fn is_anyone_missing(&self) -> bool {
        self.is_anyone_missing.load(Ordering::Relaxed)
    }

    /// Until when somebody may come back who could be asked, and left a moment ago: a settler that is started anew leaves first.
    pub fn expected_back_until(&self, request: &RequestForQuotes) -> Option<Instant> {
        let settlers = self.settlers();
        let fitting = settlers.left.values().filter(|(registration, _)| fits(registration, request));
        fitting.map(|(_, left)| *left + RETURN_MAX).max()
    }

    /// The settlers that may be asked but for the required policies, in the order of their DIDs, each with the credentials
    /// it presents for these: those with a corridor to one of the destinations, allowed by the lists (the blacklist wins); where it is
    /// about an escrow that is to be reassigned, of those that follow reassignments.
    pub fn eligible(&self, request: &RequestForQuotes) -> Vec<(Did, Vec<Map<String, Value>>)> {
        let settlers = self.settlers();
        let registrations = settlers.there.values().map(|entry| &entry.registration);
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
        let settlers = self.settlers();
        settlers.there.get(&settler.token()).map(|entry| entry.registration.credentials.clone()).unwrap_or_default()
    }

    /// Whether a settler says that it follows reassignments; not when it is not there.
    pub fn follows_reassignments(&self, settler: &Did) -> bool {
        self.settlers().there.get(&settler.token()).is_some_and(|entry| entry.registration.follows_reassignments)
    }

    /// The settlers that are there with what they trade, in the order of their DIDs.
    pub fn registered(&self) -> Vec<(Did, Vec<Corridor>)> {
        let settlers = self.settlers();
        let registrations = settlers.there.values().map(|entry| &entry.registration);
        let traded = |of: &Registration| (of.settler.clone(), of.corridors.clone());
        let mut registered: Vec<_> = registrations.map(traded).collect();
        drop(settlers);
        registered.sort_by(|(one, _), (other, _)| one.cmp(other));
        registered
    }

    fn is_there(&self, token: &SettlerToken) -> bool {
        self.settlers().there.contains_key(token)
    }

    fn tokens(&self) -> Vec<SettlerToken> {
        self.settlers().there.keys().cloned().collect()
    }

    /// Takes note of a message under a settler's subject.
    fn note(&self, token: &SettlerToken, payload: &[u8], now: Instant) -> Result<Noted, String> {
        let mut settlers = self.settlers();
        if leaves(payload) {
            settlers.left.retain(|_, (_, left)| now.duration_since(*left) < RETURN_MAX);
            // Nobody needs to be asked because somebody has left.
            let Some(entry) = settlers.there.remove(token) else { return Ok(Noted::Renewed) };
            settlers.left.insert(token.clone(), (entry.registration, now));
            return Ok(Noted::Gone);
        }
        if payload.len() > REGISTRATION_BYTES_MAX {
            return Err(format!("it is larger than {REGISTRATION_BYTES_MAX} bytes"));
        }
        let hash = Hash32::sha256(payload);
        if let Some(entry) = settlers.there.get_mut(token)
            && entry.hash == hash
        {
            entry.seen = now;
            return Ok(Noted::Renewed);
        }
        if settlers.there.len() >= SETTLERS_MAX && !settlers.there.contains_key(token) {
            return Err("there are too many settlers".to_owned());
        }
        // Before it is read: what is not allowed costs a hash and nothing else.
        settlers.changes_left.retain(|_, bucket| !bucket.is_full(now));
        if settlers.changes_left.len() >= 2 * SETTLERS_MAX && !settlers.changes_left.contains_key(token) {
            return Ok(Noted::Deferred);
        }
        if !settlers.changes_left.entry(token.clone()).or_insert_with(|| TokenBucket::new(now)).take(now) {
            if let Some(entry) = settlers.there.get_mut(token) {
                entry.seen = now;
            }
            return Ok(Noted::Deferred);
        }
        let registration: Registration = protocol::read(payload).map_err(|error| error.to_string())?;
        if registration.settler.token() != *token {
            return Err("its DID's token is not its key".to_owned());
        }
        settlers.left.remove(token);
        settlers.there.insert(token.clone(), Entry { registration, hash, seen: now });
        drop(settlers);
        self.version.send_modify(|version| *version += 1);
        Ok(Noted::Changed)
    }

    fn drop_unseen(&self, now: Instant) {
        self.settlers().there.retain(|_, entry| now.duration_since(entry.seen) < UNSEEN_MAX);
    }

    fn settlers(&self) -> MutexGuard<'_, Settlers> {
        // No holder of the lock leaves the maps half changed where it could panic.
        self.settlers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Keeps the registry current, for ever.
    ///
    /// Hearing and reading go side by side: where streams have no leader reading takes long, and settlers go on saying that
    /// they are there.
    pub(super) async fn keep_registry(&self) {
        tokio::join!(self.hear_all(), self.scan_all());
    }

    async fn hear_all(&self) {
        let (connection, period) = (self.heard.clone(), Duration::from_secs(1));
        let mut heard = RateLimitedSubscription::new(connection, REGISTRATION_SUBJECTS, HEARD_MAX, period);
        loop {
            self.hear(heard.next().await).await;
        }
    }

    async fn scan_all(&self) {
        let mut scans = tokio::time::interval(SCAN_EVERY);
        scans.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            scans.tick().await;
            self.scan().await;
        }
    }

    /// A settler has said that it is there, or that it leaves.
    async fn hear(&self, message: Message) {
        let Some(token) = token(&message.subject) else { return };
        let payload = message.payload.clone();
        // Whoever was there already stays so, however long its streams take; a new one is asked once it has them.
        let was_there = self.registry.is_there(&token);
        if was_there {
            self.note(&token, &payload);
        }
        // Whose subject it is the server has seen to, so this makes streams for settlers that an operator has admitted alone.
        if !self.is_known(&token) && !leaves(&payload) {
            if let Err(error) = self.ensure_settler(&token).await {
                tracing::warn!(%token, %error, "settler has no streams yet");
                return;
            }
            // What was said before there was a stream for it was not stored, and the settler waits to hear that it is.
            if let Err(reason) = self.store(message.subject.clone(), payload.clone(), message.reply).await {
                tracing::warn!(%token, reason, "registration is not stored yet");
            }
        }
        if !was_there {
            self.note(&token, &payload);
        }
    }

    fn note(&self, token: &SettlerToken, payload: &[u8]) {
        match self.registry.note(token, payload, Instant::now()) {
            // As often as one may change.
            Ok(Noted::Changed) => tracing::info!(%token, "settler is registered"),
            Ok(_) => {}
            Err(rule) => tracing::debug!(%token, rule, "registration does not count"),
        }
    }

    /// Stores a registration in its settler's stream, and says so to the settler as the stream itself would. It cannot be left
    /// to the stream: the server lets no client name the reply of another account's request.
    async fn store(&self, subject: String, payload: Bytes, reply: Option<String>) -> Result<(), String> {
        let stored = self.jetstream.publish(subject, payload).await.map_err(|error| error.to_string())?;
        let stored = stored.await.map_err(|error| error.to_string())?;
        if let Some(reply) = reply {
            let answer = json!({"stream": stored.stream, "seq": stored.sequence}).to_string();
            self.client.publish(reply, answer.into()).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Reads the stream of every settler that any gateway has seen.
    async fn scan(&self) {
        let mut whole = true;
        let mut tokens = streams::settlers(&self.jetstream).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the settlers cannot be listed for now");
            whole = false;
            Vec::new()
        });
        if !whole {
            self.registry.set_readable(false, Instant::now());
            self.restore_streams().await;
        }
        // Their consumer may have gone with a server's disk.
        tokens.extend(self.registry.tokens());
        tokens.sort();
        tokens.dedup();
        tokens.truncate(2 * SETTLERS_MAX);
        let found = stream::iter(tokens).map(|token| async move {
            let found = self.stored_registration(&token).await;
            (token, found)
        });
        let (mut found, mut missing) = (std::pin::pin!(found.buffer_unordered(SCANNING_MAX)), false);
        while let Some((token, found)) = found.next().await {
            match found {
                Ok(message) => {
                    missing |= is_missing(message.as_ref());
                    if let Some(message) = message {
                        self.note(&token, &message.payload);
                    }
                }
                Err(error) => {
                    whole = false;
                    tracing::warn!(%token, %error, "a registration cannot be read for now");
                }
            }
        }
        self.registry.is_anyone_missing.store(missing, Ordering::Relaxed);
        // In this order: nobody is missed before it is known that somebody may be there.
        let now = Instant::now();
        self.registry.set_readable(whole, now);
        // Whoever could not be read may be there all the same, for a while.
        self.registry.drop_unseen(if whole { now } else { now.checked_sub(UNREAD_KEPT).unwrap_or(now) });
        if whole {
            self.registry.version.send_if_modified(|version| {
                let first = *version == 0;
                *version += u64::from(first);
                first
            });
        }
    }

    /// What lies in a settler's stream. One that went with its server is made anew.
    async fn stored_registration(&self, token: &SettlerToken) -> Result<Option<LastMessage>, last_message::Error> {
        let (stream, subject) = (streams::registration_stream(token), registration_subject(token));
        match last_message::by_leader(&self.client, &stream, &subject, ANSWER_TIMEOUT).await {
            Err(last_message::Error::Missing) => {
                // Others may have to register again, too.
                self.registry.set_readable(false, Instant::now());
                self.forget(token);
                let made = self.ensure_settler(token).await;
                made.map(|()| None).map_err(|error| last_message::Error::Unavailable(error.to_string()))
            }
            found => found,
        }
    }
}

/// Whether the message takes a registration back. It is the empty body that says so: headers of what a settler writes are not
/// read (ADR 119).
fn leaves(payload: &[u8]) -> bool {
    payload.is_empty()
}

/// Whether a stream that holds this last of all has no registration: it lapsed, or was taken back, as by a settler that is just
/// started anew.
fn is_missing(found: Option<&LastMessage>) -> bool {
    found.is_none_or(|message| leaves(&message.payload))
}

fn token(subject: &str) -> Option<SettlerToken> {
    let token = subject.strip_prefix(REGISTRATION_SUBJECTS.trim_end_matches('*'))?;
    protocol::is_token(token).then(|| SettlerToken::from_subject(token))
}

fn fits(registration: &Registration, request: &RequestForQuotes) -> bool {
    let terms = &request.terms;
    let corridor = registration.corridors.iter().any(|corridor| {
        corridor.source_asset == *terms.source.asset()
            && terms.destination().iter().any(|destination| corridor.destination_asset == *destination.asset())
    });
    let settler = &registration.settler;
    corridor
        && (request.escrowed.is_none() || registration.follows_reassignments)
        && (!request.blacklist.contains(settler) || mutant!("excluded-settler-asked"))
        && (request.whitelist.is_empty() || request.whitelist.contains(settler))
}
