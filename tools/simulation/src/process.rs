//! The life of one process of the gateway: it may end before or after any call that it makes to the world.
//!
//! Everything the engine awaits is, in the end, a call of one of its ports, a call to a node or a time to pass. So a
//! process that can die on either side of each of these dies at every await point that there is. From then on none of
//! its calls returns or has an effect, as if its memory were gone, and the world takes its tasks away.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::sync::Notify;

/// One life of a process.
pub struct Life {
    dead: AtomicBool,
    steps: AtomicU64,
    dies_at: AtomicU64,
    ended: Notify,
}

impl Life {
    /// A life that ends at step `dies_at`, counted from 1.
    pub fn new(dies_at: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            dead: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            dies_at: AtomicU64::new(dies_at.unwrap_or(u64::MAX)),
            ended: Notify::new(),
        })
    }

    /// One step; whether the process is still alive after it.
    pub fn step(&self) -> bool {
        if self.is_dead() {
            return false;
        }
        let step = self.steps.fetch_add(1, Ordering::SeqCst) + 1;
        if step >= self.dies_at.load(Ordering::SeqCst) {
            self.end();
        }
        !self.is_dead()
    }

    /// One step, that never returns for the dead.
    pub async fn point(&self) {
        if !self.step() {
            pending::<()>().await;
        }
    }

    /// Ends it now.
    pub fn end(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.ended.notify_one();
    }

    /// It dies no more of itself.
    pub fn spare(&self) {
        self.dies_at.store(u64::MAX, Ordering::SeqCst);
    }

    /// Whether it is over.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::SeqCst)
    }

    /// Returns when it is over.
    pub async fn ended(&self) {
        if !self.is_dead() {
            self.ended.notified().await;
        }
    }
}
