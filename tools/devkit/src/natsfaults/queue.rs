//! What is read on one side of a connection and still to be written to the other, each when it is due.

use std::{
    cmp::Ordering as Order,
    collections::BinaryHeap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::AsyncWriteExt,
    net::tcp::OwnedWriteHalf,
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

/// What is to be written to one side.
pub(super) struct Item {
    pub(super) at: Instant,
    /// Of what is due at a time the lowest is first.
    pub(super) number: u64,
    pub(super) bytes: Vec<u8>,
    /// The connection ends behind it.
    pub(super) is_last: bool,
    pub(super) _held: Held,
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Item {}
impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}
/// The first due is the greatest, as a heap has it.
impl Ord for Item {
    fn cmp(&self, other: &Self) -> Order {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// Counts as under way, until it is dropped.
pub(super) struct Held(Arc<AtomicUsize>);

impl Held {
    pub(super) fn new(under_way: &Arc<AtomicUsize>) -> Self {
        under_way.fetch_add(1, Ordering::SeqCst);
        Self(under_way.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Writes what is due, until the connection has ended; to the server also what was sent before.
pub(super) async fn write(
    mut queue: mpsc::UnboundedReceiver<Item>,
    mut to: OwnedWriteHalf,
    mut is_ended: Option<watch::Receiver<bool>>,
    ended: &watch::Sender<bool>,
) {
    let (mut held, mut is_open) = (BinaryHeap::<Item>::new(), true);
    while is_open || !held.is_empty() {
        let due = held.peek().map(|item| item.at);
        tokio::select! {
            item = queue.recv(), if is_open => match item {
                Some(item) => held.push(item),
                None => is_open = false,
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            () = over(&mut is_ended) => return,
        }
        while let Ok(item) = queue.try_recv() {
            held.push(item);
        }
        while held.peek().is_some_and(|item| item.at <= Instant::now()) {
            let Some(item) = held.pop() else { break };
            if to.write_all(&item.bytes).await.is_err() || item.is_last {
                ended.send_replace(true);
                return;
            }
        }
    }
}

/// Returns when the connection has ended; never where nobody minds.
async fn over(is_ended: &mut Option<watch::Receiver<bool>>) {
    match is_ended {
        // Its sender lives as long as this is asked.
        Some(is_ended) => drop(is_ended.wait_for(|ended| *ended).await),
        None => std::future::pending().await,
    }
}
