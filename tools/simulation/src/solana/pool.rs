//! Transactions that wait for a leader's block.

use std::sync::Arc;

use super::wire::Signed;

/// A transaction that waits.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub signed: Arc<Signed>,
    /// The place in the order in which transactions came.
    pub arrival: u64,
    /// The first slot that may hold it.
    pub not_before: u64,
}

/// The transactions that wait, in the order in which they came.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    waiting: Vec<Waiting>,
    arrivals: u64,
}

impl Pool {
    /// Takes a transaction in, unless it waits already.
    pub fn add(&mut self, signed: Arc<Signed>) {
        if self.get(&signed.signature).is_none() {
            self.arrivals += 1;
            self.waiting.push(Waiting { signed, arrival: self.arrivals, not_before: 0 });
        }
    }

    pub fn all(&self) -> &[Waiting] {
        &self.waiting
    }

    pub fn get(&self, signature: &[u8; 64]) -> Option<&Waiting> {
        self.waiting.iter().find(|waiting| waiting.signed.signature == *signature)
    }

    pub fn get_mut(&mut self, signature: &[u8; 64]) -> Option<&mut Waiting> {
        self.waiting.iter_mut().find(|waiting| waiting.signed.signature == *signature)
    }

    /// Forgets a transaction; whether it was there.
    pub fn remove(&mut self, signature: &[u8; 64]) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.signed.signature != *signature);
        self.waiting.len() < before
    }
}
