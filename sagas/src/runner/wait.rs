//! Waits of a drive: what it waits for, in its task for a moment, and folded into the worker's waiting set after that.

use std::{
    convert::Infallible,
    future::pending,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::OwnedSemaphorePermit,
    time::{sleep, timeout},
};

use events::{ChainId, PaymentId, mutant, time::unix_seconds};

use super::{Engine, wake_hints::HintReceiver};
use crate::{
    handlers::{Action, WakeCondition},
    ports::{Cursor, OpenWindow, UNSEEN_MAX, Waiting},
};

/// The wait before a quote selector is asked again. Its time is short, so this does not grow.
pub(super) const SELECTOR_PAUSE: Duration = Duration::from_millis(250);

/// The wait after the source chain refused a release, where no event can be awaited.
const RELEASE_PAUSE: Duration = Duration::from_secs(5);

/// The wait after a refund account took nothing back.
const GIVE_BACK_PAUSE: Duration = Duration::from_secs(600);

/// So long at the most a drive that was resumed keeps others from being resumed: what it asks may hang.
const RESUMING_MAX: Duration = Duration::from_secs(1);

/// What a drive waits for: whichever of these comes first. A wait for a chain is over at a wake hint, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wait {
    /// For so long at the most; for ever when `None`.
    pub longest: Option<Duration>,
    pub chain: Option<ChainWait>,
    /// Until [`Auction::settlers`](crate::ports::Auction::settlers) is another number than this.
    pub settlers: Option<u64>,
}

/// What is waited for on a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChainWait {
    pub chain_id: ChainId,
    /// The event that is waited for; the next block when `None`.
    pub event: Option<EventWait>,
}

/// What of [`Waiting`] is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventWait {
    pub since: Cursor,
    pub deadline: u64,
    pub is_pushed: bool,
}

impl EventWait {
    pub(super) fn waiting<'a>(&self, chain_id: &'a ChainId, payment_id: &'a PaymentId) -> Waiting<'a> {
        let Self { since, deadline, is_pushed } = *self;
        Waiting { chain_id, payment_id, since, deadline, is_pushed }
    }
}

impl Wait {
    /// Until `longest` has passed.
    pub(super) fn timer(longest: Duration) -> Self {
        Self { longest: Some(longest), chain: None, settlers: None }
    }

    /// Until the chain has a new block.
    fn block(chain_id: &ChainId) -> Self {
        Self { longest: None, chain: Some(ChainWait { chain_id: chain_id.clone(), event: None }), settlers: None }
    }

    /// Until there is something to do in an open collection window.
    pub(super) fn window(window: &OpenWindow) -> Self {
        Self { longest: Some(window.rest), chain: None, settlers: Some(window.settlers) }
    }

    /// Until looking again can show something new.
    pub(super) fn pause(action: &Action, backoff_min: Duration) -> Self {
        match action {
            Action::AskSelector(_) => Self::timer(SELECTOR_PAUSE),
            Action::SecureRelease { .. } => Self::timer(RELEASE_PAUSE),
            Action::SecureGiveBack { .. } => Self::timer(GIVE_BACK_PAUSE),
            Action::FollowEscrow { patience: Some(_), .. } if mutant!("timers-not-armed") => {
                Self { longest: None, chain: None, settlers: None }
            }
            Action::FollowEscrow { patience: Some(patience), .. } => Self::timer(*patience),
            action => action.chain().map_or_else(|| Self::timer(backoff_min), Self::block),
        }
    }
}

/// One resumption of a drive that waited without a task: it keeps others from being resumed up to its own first wait.
pub(super) struct Resumption {
    /// Whether it had to wait for its turn.
    pub in_turn: bool,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Resumption {
    pub(super) fn new(permit: Option<OwnedSemaphorePermit>) -> Self {
        Self { in_turn: permit.is_some(), permit: Mutex::new(permit) }
    }

    /// Lets another one begin.
    pub(super) fn over(&self) {
        drop(self.permit.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Lets another one begin when this one takes long. Does not return.
    pub(super) async fn over_in_time(&self) -> Infallible {
        sleep(RESUMING_MAX).await;
        self.over();
        pending().await
    }
}

impl Engine {
    /// The wait until looking again can show something new.
    pub(super) fn pause(&self, action: &Action) -> Wait {
        Wait::pause(action, self.options().backoff_min)
    }

    /// The wait for the event that the action waits for; where none can be awaited, until looking again can show something new.
    pub(super) fn await_event_or_pause(&self, action: &Action, since: Option<Cursor>) -> Wait {
        match (since, action.wake_condition()) {
            (Some(since), Some(condition)) if !mutant!("timers-not-armed") => self.await_event(&condition, since),
            _ => self.pause(action),
        }
    }

    /// The wait for an event after which looking again can show something new, no longer than it may be missed.
    fn await_event(&self, condition: &WakeCondition<'_>, since: Cursor) -> Wait {
        let WakeCondition { chain_id, payment_id, deadline, is_pushed, until, .. } = *condition;
        let left = until.saturating_add(1).saturating_sub(unix_seconds(self.ports().clock.now()));
        // Not all at once, where many began to wait together.
        let longest = UNSEEN_MAX.mul_f64(1.0 - f64::from(payment_id.on_chain().0[1]) / 1024.0);
        let event = Some(EventWait { since, deadline, is_pushed });
        Wait {
            longest: Some(longest.min(Duration::from_secs(left))),
            chain: Some(ChainWait { chain_id: chain_id.clone(), event }),
            settlers: None,
        }
    }

    /// Waits in this task until `wait` is over. Without a `resumption` nobody else would wait; with one, what is left of a
    /// longer wait is returned, to be waited for without a task.
    pub(super) async fn rest(
        &self,
        mut wait: Wait,
        hints: &HintReceiver,
        resumption: Option<&Resumption>,
    ) -> Option<Wait> {
        let Some(resumption) = resumption else {
            self.wait(&wait, hints).await;
            return None;
        };
        resumption.over();
        let moment = self.options().moment;
        // What is left of an open window, and longer times, are not over in a moment.
        let is_long = wait.settlers.is_some() || wait.longest.is_none_or(|longest| longest > moment);
        if wait.chain.is_none() && is_long {
            return Some(wait);
        }
        let Ok(_permit) = self.moments().try_acquire() else { return Some(wait) };
        match timeout(moment, self.wait(&wait, hints)).await {
            Ok(()) => None,
            Err(_) => {
                wait.longest = wait.longest.map(|longest| longest.saturating_sub(moment));
                Some(wait)
            }
        }
    }

    async fn wait(&self, wait: &Wait, hints: &HintReceiver) {
        let longest = async {
            match wait.longest {
                Some(longest) => self.ports().clock.sleep(longest).await,
                None => pending().await,
            }
        };
        if let Some(known) = wait.settlers {
            tokio::select! {
                biased;
                () = self.ports().auction.other_settlers(known) => {}
                () = longest => {}
            }
            return;
        }
        let Some(ChainWait { chain_id, event }) = &wait.chain else { return longest.await };
        let chains = &self.ports().chains;
        let chain = async {
            match event {
                Some(event) => chains.next_event(&event.waiting(chain_id, hints.payment_id())).await,
                None => chains.next_block(chain_id).await,
            }
        };
        // In this order, so that the same happenings always come to the same.
        tokio::select! {
            biased;
            () = hints.received() => {}
            () = chain => {}
            () = longest => {}
        }
    }
}
