//! Group commit: appends of one shard that wait for each other anyway are stored together.
//!
//! A stream stores one message after the other and syncs each (`sync_interval: always`). An atomic batch (NATS ADR-50) is
//! synced once, however many messages it has, but staging it costs the server as much as some fourteen single messages. So
//! a few messages a shard are on their way by themselves; the others wait meanwhile, and go as a batch once they are
//! enough to be worth one. While a batch is on its way everything waits for the next one: the more messages share a batch,
//! the less each costs. A shard that has little to do never sees a batch.
//!
//! Each message of a batch keeps its own condition and id, and is found by them, so nothing that follows can tell how it was
//! stored. What is known of a batch is known of each of its messages: an acknowledgement that is lost makes each of them
//! unclear, to be resolved by reading. One message whose condition fails takes the whole batch with it, and nothing is
//! stored. What is known to fail here therefore goes by itself: of two messages for one place the second, and one for a
//! place that this process has filled. A batch that is refused all the same goes again in halves, until what spoils it is by
//! itself.

use std::{
    collections::{HashSet, VecDeque},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use async_nats::Client;
use tokio::{runtime::Handle, sync::oneshot, time::timeout};
use tracing::debug;

use super::known_subjects::KnownSubjects;
use crate::requests::{self, Outgoing, Published, PublishedBatch};

/// Messages of a shard that are on their way by themselves; with these, a stream always has something to do.
const ALONE_MAX: usize = 8;
/// Messages of which a batch is worth its cost: measured on nats-server 2.15.1, a batch takes 2.1 ms of processor time and
/// 0.03 to 0.05 ms for each message, and a message by itself 0.2 ms.
const BATCH_MIN: usize = 16;
/// Messages in a batch, and their bytes. A server takes a thousand.
const BATCH_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long a message or batch without an answer keeps others waiting. Its answer may have been lost with a connection.
const KEEPS_WAITING_MAX: Duration = Duration::from_millis(250);

/// The groups of all shards, made as they are needed.
#[derive(Default)]
pub(super) struct Groups(RwLock<Vec<Arc<Group>>>);

#[derive(Default)]
struct Group(Mutex<State>);

#[derive(Default)]
struct State {
    /// Messages that have waited so far.
    counted: u64,
    /// Messages on their way by themselves.
    alone: usize,
    waiting: VecDeque<Waiting>,
    /// Messages that go by themselves once it is their turn, for they would spoil a batch.
    singles: VecDeque<Waiting>,
    /// Whether a batch is on its way.
    batch: bool,
    /// The stream takes no batches.
    never: bool,
    known: KnownSubjects,
}

struct Waiting {
    number: u64,
    message: Outgoing,
    /// By what the message's subject is known.
    key: u64,
    /// Most messages of a batch that it may be in.
    together_max: usize,
    turn: oneshot::Sender<Turn>,
}

/// The outcome of a message that waited.
enum Turn {
    /// It goes by itself.
    Alone(Box<(Slot, Outgoing)>),
    /// It went in a batch.
    Done(Published),
}

/// The right to be on the way by oneself; given up when dropped.
struct Slot(Context);

/// The resources for the next send.
#[derive(Clone)]
struct Context {
    group: Arc<Group>,
    client: Client,
    timeout: Duration,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.group.state().alone -= 1;
        self.0.go_on();
    }
}

impl Groups {
    /// Publishes into the stream of the commit's shard, by itself or together with others, and waits for what becomes of it,
    /// at most twice as long as `within`.
    pub(super) async fn publish(&self, client: &Client, message: Outgoing, within: Duration) -> Published {
        let group = self.group(message.commit.shard);
        let context = Context { group: Arc::clone(&group), client: client.clone(), timeout: within };
        let key = group.state().known.key(&message.commit.envelope.subject);
        let waits = {
            let mut state = context.group.state();
            // While a batch is on its way the stream has enough to do.
            if !state.batch && state.alone < ALONE_MAX && state.waiting.is_empty() {
                state.alone += 1;
                Err(message)
            } else {
                let (turn, told) = oneshot::channel();
                state.counted += 1;
                let number = state.counted;
                let together_max = BATCH_MAX;
                state.waiting.push_back(Waiting { number, message, key, together_max, turn });
                Ok((told, number))
            }
        };
        let (slot, message) = match waits {
            Err(message) => (Slot(context), message),
            Ok((told, number)) => match timeout(within, told).await {
                Ok(Ok(Turn::Alone(turn))) => *turn,
                Ok(Ok(Turn::Done(published))) => return published,
                Ok(Err(_)) => return Published::Unclear("not acknowledged".into()),
                Err(_) if context.group.state().forget(number) => {
                    return Published::NotStored("its turn did not come in time".into());
                }
                // It may have gone, and be told of when nobody listens any more.
                Err(_) => return Published::Unclear("not acknowledged in time".into()),
            },
        };
        if !requests::connected(client) {
            return Published::NotStored("no connection".into());
        }
        let mut publish = pin!(message.publish(client, within));
        let mut slot = Some(slot);
        let published = match timeout(KEEPS_WAITING_MAX, &mut publish).await {
            Ok(published) => published,
            Err(_) => {
                slot.take();
                publish.await
            }
        };
        if let Published::Stored { sequence } = published {
            // Before the next ones are chosen, when the slot is given up.
            group.state().known.stored(key, sequence);
        }
        published
    }

    fn group(&self, shard: u16) -> Arc<Group> {
        let index = usize::from(shard);
        if let Some(group) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(index) {
            return Arc::clone(group);
        }
        let mut groups = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if groups.len() <= index {
            groups.resize_with(index + 1, Arc::default);
        }
        Arc::clone(&groups[index])
    }
}

impl Group {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is whole before the lock is let go.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a message out that has not been sent; whether it was there.
    fn forget(&mut self, number: u64) -> bool {
        let count = |state: &Self| state.waiting.len() + state.singles.len();
        let before = count(self);
        self.waiting.retain(|waiting| waiting.number != number);
        self.singles.retain(|waiting| waiting.number != number);
        count(self) < before
    }

    /// Takes the messages of the next batch out, if they are enough to be worth one. What would spoil it is set apart.
    fn take_batch(&mut self) -> Option<Vec<Waiting>> {
        if self.never || self.waiting.len() < BATCH_MIN {
            return None;
        }
        let (mut batch, mut places, mut bytes) = (Vec::new(), HashSet::new(), 0);
        let mut together_max = BATCH_MAX;
        while let Some(next) = self.waiting.front() {
            together_max = together_max.min(next.together_max);
            bytes += next.message.commit.body.len();
            if batch.len() >= together_max || (bytes > BATCH_BYTES_MAX && !batch.is_empty()) {
                break;
            }
            let spoils = self.known.is_beyond(next.key, next.message.expected) || !places.insert(next.key);
            let Some(next) = self.waiting.pop_front() else { break };
            if spoils { self.singles.push_back(next) } else { batch.push(next) }
        }
        if batch.len() >= BATCH_MIN {
            return Some(batch);
        }
        batch.into_iter().rev().for_each(|next| self.waiting.push_front(next));
        None
    }

    /// Takes back the messages of a batch that was refused: its halves may be stored, but for the one that spoils it.
    fn take_back(&mut self, batch: Vec<Waiting>) {
        let half = batch.len().div_ceil(2);
        for mut waiting in batch.into_iter().rev() {
            if half < BATCH_MIN || self.never {
                self.singles.push_front(waiting);
                continue;
            }
            waiting.together_max = half;
            self.waiting.push_front(waiting);
        }
    }
}

impl Context {
    /// Sends what is next, when something has come back.
    fn go_on(&self) {
        let mut alone = Vec::new();
        {
            let mut state = self.group.state();
            // An append whose caller gave up is not sent.
            state.waiting.retain(|waiting| !waiting.turn.is_closed());
            state.singles.retain(|waiting| !waiting.turn.is_closed());
            // Without a runtime the process ends, and nobody waits for anything.
            if let Ok(runtime) = Handle::try_current()
                && !state.batch
                && let Some(batch) = state.take_batch()
            {
                state.batch = true;
                runtime.spawn(self.clone().send(batch));
            }
            while state.alone < ALONE_MAX {
                let next = state.singles.pop_front();
                // While a batch is on its way, others wait for the next one.
                let next = if state.batch { next } else { next.or_else(|| state.waiting.pop_front()) };
                let Some(next) = next else { break };
                state.alone += 1;
                alone.push(next);
            }
        }
        // Outside the lock: the slot of one that gave up in this moment comes back at once.
        for Waiting { message, turn, .. } in alone {
            drop(turn.send(Turn::Alone(Box::new((Slot(self.clone()), message)))));
        }
    }

    /// The outcome of a batch, and whether it was not waited for any more.
    async fn publish(&self, batch: &[Waiting]) -> (PublishedBatch, bool) {
        if !requests::connected(&self.client) {
            return (PublishedBatch::Refused("no connection".into()), false);
        }
        let messages = batch.iter().map(|waiting| waiting.message.ready());
        let mut publish = pin!(requests::publish_batch(&self.client, messages, self.timeout));
        if let Ok(outcome) = timeout(KEEPS_WAITING_MAX, &mut publish).await {
            return (outcome, false);
        }
        self.group.state().batch = false;
        self.go_on();
        (publish.await, true)
    }

    async fn send(self, batch: Vec<Waiting>) {
        let (outcome, late) = self.publish(&batch).await;
        let refused = match outcome {
            PublishedBatch::Stored { first } => {
                let mut state = self.group.state();
                batch.iter().zip(first..).for_each(|(waiting, sequence)| state.known.stored(waiting.key, sequence));
                drop(state);
                for (waiting, sequence) in batch.into_iter().zip(first..) {
                    drop(waiting.turn.send(Turn::Done(Published::Stored { sequence })));
                }
                None
            }
            PublishedBatch::Unclear(reason) => {
                for waiting in batch {
                    drop(waiting.turn.send(Turn::Done(Published::Unclear(reason.clone()))));
                }
                None
            }
            PublishedBatch::Refused(reason) => Some((batch, reason, false)),
            PublishedBatch::Disabled => Some((batch, "the stream takes no batches".to_owned(), true)),
        };
        {
            let mut state = self.group.state();
            // Another may be on its way since.
            state.batch &= late;
            if let Some((batch, reason, never)) = refused {
                debug!(reason, messages = batch.len(), "batch is refused, its halves go by themselves");
                state.never |= never;
                state.take_back(batch);
            }
        }
        self.go_on();
    }
}
