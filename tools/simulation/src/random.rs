//! The random source: every random draw of a run comes from its seed.

use std::{
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use sha2::{Digest, Sha256};

/// A stream of random draws. Clones share the stream. Streams with different labels are independent, so that one draw more
/// in one part of the world does not change the draws of the others.
#[derive(Clone)]
pub struct RandomSource(Arc<Mutex<StdRng>>);

impl RandomSource {
    /// The stream of `seed` under `label`.
    pub fn new(seed: u64, label: &str) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(seed.to_be_bytes());
        hasher.update(label.as_bytes());
        Self(Arc::new(Mutex::new(StdRng::from_seed(hasher.finalize().into()))))
    }

    fn rng(&self) -> MutexGuard<'_, StdRng> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True `per_mille` times in a thousand.
    pub fn chance(&self, per_mille: u32) -> bool {
        // A draw is made also when the answer is known, so that a rate of zero does not shift the stream.
        self.rng().gen_range(0..1000) < per_mille
    }

    /// A number of `range`.
    pub fn number(&self, range: RangeInclusive<u64>) -> u64 {
        self.rng().gen_range(range)
    }

    /// One of `choices`, which are not empty.
    pub fn pick<T: Copy>(&self, choices: &[T]) -> T {
        choices[self.rng().gen_range(0..choices.len())]
    }

    /// 32 bytes.
    pub fn bytes(&self) -> [u8; 32] {
        self.rng().r#gen()
    }
}
