//! Simulated process of the gateway, which may crash before or after any call that it makes to the world.
//!
//! Everything the engine awaits is a call of one of its ports, a call to a node or a timer. So a process that can crash on
//! either side of each of these can crash at every await point. After the crash none of its calls returns or has an
//! effect, as if its memory were gone, and the world aborts its tasks.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::sync::Notify;

/// One process, from its start to its crash.
pub struct Process {
    dead: AtomicBool,
    steps: AtomicU64,
    dies_at: AtomicU64,
    ended: Notify,
}

impl Process {
    /// A process that crashes at step `dies_at`, counted from 1.
    pub fn new(dies_at: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            dead: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            dies_at: AtomicU64::new(dies_at.unwrap_or(u64::MAX)),
            ended: Notify::new(),
        })
    }

    /// Counts one step; whether the process is alive after it.
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

    /// Counts one step; never returns once the process is dead.
    pub async fn crash_point(&self) {
        if !self.step() {
            pending::<()>().await;
        }
    }

    /// Crashes it now.
    pub fn end(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.ended.notify_one();
    }

    /// Cancels the planned crash.
    pub fn spare(&self) {
        self.dies_at.store(u64::MAX, Ordering::SeqCst);
    }

    /// Whether it has crashed.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::SeqCst)
    }

    /// Returns when it has crashed.
    pub async fn ended(&self) {
        if !self.is_dead() {
            self.ended.notified().await;
        }
    }
}
