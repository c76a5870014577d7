//! The memory of a drive: what it remembers from turn to turn, and while no task waits for it.

use events::{Hash32, PaymentId, failure::BlockchainContext};

use super::{backoff::Backoff, learned::Learned};
use crate::ports::{OpenWindow, Refusal};

/// What a drive of one payment remembers from turn to turn. None of it is on record: another process begins without it.
#[derive(Default)]
pub(super) struct Memory {
    pub backoff: Backoff,
    /// How often the deposit was refused.
    pub refusals: u32,
    pub learned: Learned,
    /// Why the payer deposit is refused, to be told if it stays so until its window ends.
    pub refused: Option<Box<BlockchainContext>>,
    /// The refusal by which the payment is to fail, once it is proven that nobody has sent the deposit or can send it.
    pub ruling_out: Option<Box<Refusal>>,
    /// Why the release was refused last, to be said once.
    pub refused_for: Option<String>,
}

impl Memory {
    /// Logs that a release or a reassignment was refused, unless that was so for the same reason before.
    pub(super) fn note_refused(&mut self, payment_id: &PaymentId, what: &str, reason: Option<String>) {
        if reason != self.refused_for {
            let said = reason.as_deref();
            tracing::info!(%payment_id, what, reason = said, "refused by the source chain, or not needed any more");
        }
        self.refused_for = reason;
    }
}

/// The memory of a drive that no task is at work on. Most have nothing to remember, or no more than that the winner stands by
/// its quote or that a window is open; those take no room for the rest.
#[derive(Default)]
pub(super) struct Folded {
    agreed: Option<Hash32>,
    window: Option<Box<OpenWindow>>,
    more: Option<Box<Memory>>,
}

impl From<Memory> for Folded {
    fn from(mut memory: Memory) -> Self {
        let window = memory.learned.window.take().map(Box::new);
        let Memory { backoff, refusals, learned, refused, ruling_out, refused_for } = &memory;
        let Learned { window: _, agreed, unconfirmed, moved } = learned;
        let is_nothing = backoff.count() == 0
            && *refusals == 0
            && unconfirmed.is_none()
            && moved.is_none()
            && refused.is_none()
            && ruling_out.is_none()
            && refused_for.is_none();
        Self { agreed: *agreed, window, more: (!is_nothing).then(|| Box::new(memory)) }
    }
}

impl From<Folded> for Memory {
    fn from(folded: Folded) -> Self {
        let mut memory = folded.more.map(|more| *more).unwrap_or_default();
        memory.learned.agreed = folded.agreed;
        memory.learned.window = folded.window.map(|window| *window);
        memory
    }
}

#[cfg(test)]
mod tests {
    use events::time::from_unix_seconds;

    use super::*;

    #[test]
    fn nothing_is_lost_in_between_and_nothing_takes_no_room() {
        let now = from_unix_seconds(1_800_000_000).unwrap();
        let folded = Folded::from(Memory {
            learned: Learned { agreed: Some(Hash32::ZERO), ..Learned::default() },
            ..Memory::default()
        });
        assert!(folded.more.is_none());
        assert_eq!(Memory::from(folded).learned.agreed, Some(Hash32::ZERO));
        let mut memory = Memory { refusals: 2, refused_for: Some("paused".to_owned()), ..Memory::default() };
        memory.backoff.another(now);
        memory.backoff.another(now);
        let memory = Memory::from(Folded::from(memory));
        assert_eq!((memory.refusals, memory.backoff.count(), memory.learned.agreed), (2, 2, None));
        assert_eq!(memory.refused_for.as_deref(), Some("paused"));
        let refusals = |refusals| Folded::from(Memory { refusals, ..Memory::default() }).more.is_some();
        assert!(refusals(1) && !refusals(0));
    }
}
