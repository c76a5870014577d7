//! Admission control: what everything new has to pass before it is stored. [`write_permits`] bounds how many writes are at work,
//! `open_windows` how many quote-requests collect quotes, `bounded_journal` what one shard is asked for; `ready_chains` refuses what goes through a chain that is not ready; [`pause`] and
//! [`policy`] say whether anything new, or this payment, is wanted; [`restore_mark`] says whether the journal was put in place
//! from a copy.

pub(crate) mod bounded_journal;
pub(crate) mod open_windows;
pub mod pause;
pub mod policy;
pub(crate) mod ready_chains;
pub mod restore_mark;
pub mod restored_journal;
pub mod write_permits;

use events::{event::CounterpartyDecision, time::Timestamp};

use self::{
    pause::PauseState,
    policy::{Counterparties, Proposal},
};
use crate::error::{Code, Error};

/// The gate in front of every write. Replays do not go through it: what exists is shown whatever holds now.
#[derive(Debug, Clone)]
pub struct Admission {
    pause: PauseState,
    counterparties: Counterparties,
}

impl Admission {
    /// A gate with these two locks.
    pub fn new(pause: PauseState, counterparties: Counterparties) -> Self {
        Self { pause, counterparties }
    }

    /// A gate that lets everything through.
    pub fn open() -> Self {
        Self::new(PauseState::never(), Counterparties::everyone())
    }

    /// The same gate when nothing is paused, for calls that accept nothing and only say what would be accepted.
    pub fn unpaused(&self) -> Self {
        Self::new(PauseState::never(), self.counterparties.clone())
    }

    /// Whether something new may be accepted now, and what permits it, for the journal.
    ///
    /// Called after every other check and directly before the append (design: order of checks). A refusal is only the
    /// answer to what does not exist: the caller asks the journal before it gives it.
    ///
    /// # Errors
    /// 503 `SERVICE_PAUSED`, or 403 `PAYMENT_DECLINED`, which does not say why.
    pub fn admit(&self, proposal: &Proposal<'_>, now: Timestamp) -> Result<Option<CounterpartyDecision>, Error> {
        if self.pause.is_paused() {
            return Err(Code::SERVICE_PAUSED.into());
        }
        self.counterparties.judge(proposal, now).map_err(|declined| {
            let stage = proposal.kind.name();
            tracing::warn!(id = proposal.id, originator = proposal.originator, stage, %declined, "declined");
            Code::PAYMENT_DECLINED.into()
        })
    }
}
