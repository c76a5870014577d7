//! First appends under way: the streams that this gateway may still begin.
//!
//! A first append goes on when its caller is gone, and one that was broken off may have been sent. Until it has ended with
//! certainty the journal has nothing under its id, and the id is not free (ADR 105).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use events::StreamId;

use crate::error::Error;

/// How long an append of unknown outcome may land: longer than a connection keeps what it was given to send.
const LANDS_WITHIN: Duration = Duration::from_secs(300);
/// Ids kept for it.
const KEPT_MAX: usize = 16_384;

/// The streams that this gateway may still begin.
#[derive(Default)]
pub(crate) struct FirstAppends(Mutex<Known>);

#[derive(Default)]
struct Known {
    ids: HashMap<StreamId, Appends>,
    /// Until when no id is free, because there was no room to keep one.
    crowded_until: Option<Instant>,
}

/// The first appends of one stream.
#[derive(Default)]
struct Appends {
    running: usize,
    /// Until when one of unknown outcome may land.
    lands_until: Option<Instant>,
}

/// A first append under way. Dropped before it has ended, it may land.
pub(crate) struct UnderWay {
    appends: Arc<FirstAppends>,
    id: StreamId,
    certain: bool,
}

/// A look-up of an id, begun before the journal is read: what ends in between is in one of the two.
pub(crate) struct LookUp<'a> {
    appends: &'a FirstAppends,
    id: StreamId,
    may_land: bool,
}

impl FirstAppends {
    /// Notes that the first append of a stream begins.
    pub(crate) fn begin(self: &Arc<Self>, id: StreamId) -> UnderWay {
        self.lock().ids.entry(id.clone()).or_default().running += 1;
        UnderWay { appends: Arc::clone(self), id, certain: false }
    }

    /// Looks up a stream that may still begin; the journal is read after.
    pub(crate) fn look_up(&self, id: impl Into<StreamId>) -> LookUp<'_> {
        let id = id.into();
        LookUp { may_land: self.may_land(&id), appends: self, id }
    }

    fn may_land(&self, id: &StreamId) -> bool {
        let (now, known) = (Instant::now(), self.lock());
        known.crowded_until.is_some_and(|until| now < until) || known.ids.get(id).is_some_and(|known| known.counts(now))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Entries are whole whenever the lock is free.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LookUp<'_> {
    /// Whether the stream may still begin although the journal has nothing of it.
    pub(crate) fn may_land(&self) -> bool {
        self.may_land || self.appends.may_land(&self.id)
    }

    /// A refusal where the journal was found to have nothing: it says so, unless an append of this gateway may still land.
    pub(crate) fn nothing(&self, refusal: Error) -> Error {
        if self.may_land() { refusal } else { refusal.nothing_exists() }
    }
}

impl UnderWay {
    /// Notes that it has ended; `certain` says whether it is known what it came to.
    pub(crate) fn end(mut self, certain: bool) {
        self.certain = certain;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.appends.lock().end(&self.id, self.certain);
    }
}

impl Known {
    fn end(&mut self, id: &StreamId, certain: bool) {
        let now = Instant::now();
        let Some(appends) = self.ids.get_mut(id) else { return };
        appends.running = appends.running.saturating_sub(1);
        if !certain {
            appends.lands_until = Some(now + LANDS_WITHIN);
        }
        if !appends.counts(now) {
            self.ids.remove(id);
        }
        if self.ids.len() > KEPT_MAX && !certain {
            self.ids.retain(|_, appends| appends.counts(now));
            if self.ids.len() > KEPT_MAX {
                self.ids.retain(|_, appends| appends.running > 0);
                self.crowded_until = Some(now + LANDS_WITHIN);
            }
        }
    }
}

impl Appends {
    fn counts(&self, now: Instant) -> bool {
        self.running > 0 || self.lands_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use events::PaymentId;

    use super::*;

    fn id(number: usize) -> PaymentId {
        PaymentId::derive("tests", &number.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn an_id_is_free_once_every_append_of_it_has_ended_with_certainty() {
        let appends = Arc::new(FirstAppends::default());
        let may_land = |number| appends.look_up(id(number)).may_land();
        let (one, two) = (appends.begin(id(1).into()), appends.begin(id(1).into()));
        assert!(may_land(1) && !may_land(2));
        one.end(true);
        assert!(may_land(1), "the other one is under way");
        two.end(true);
        assert!(!may_land(1));
        // A look-up that began while it was under way has seen it.
        let last = appends.begin(id(1).into());
        let look_up = appends.look_up(id(1));
        last.end(true);
        assert!(look_up.may_land() && !may_land(1));
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_land_is_kept_for_a_while_and_the_ids_are_bounded() {
        let appends = Arc::new(FirstAppends::default());
        let may_land = |number| appends.look_up(id(number)).may_land();
        appends.begin(id(1).into()).end(false);
        drop(appends.begin(id(2).into()));
        appends.begin(id(1).into()).end(true);
        tokio::time::advance(LANDS_WITHIN - Duration::from_secs(1)).await;
        assert!(may_land(1) && may_land(2) && !may_land(3));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!may_land(1) && !may_land(2));
        // Where not all of them can be kept, no id is free.
        for number in 0..=KEPT_MAX {
            appends.begin(id(number).into()).end(false);
        }
        assert!(appends.lock().ids.len() <= KEPT_MAX && may_land(7) && may_land(KEPT_MAX + 7));
        tokio::time::advance(LANDS_WITHIN).await;
        assert!(!may_land(7) && !may_land(KEPT_MAX + 7));
    }
}
