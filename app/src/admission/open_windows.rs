//! Admission control of open windows: how many quote-requests may collect quotes at a time, as nobody pays for them. Each
//! takes memory in the gateway that asks, and an answer of every settler, so those above the bound are answered with 503 until
//! others are over.
//!
//! One caller has a share of them. Else whoever asks a settler that never answers, whose windows stay open to their end, would
//! keep everybody else out; above its share it is answered with 429.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use events::{Hash32, QuoteRequestId, time::Timestamp};
use net::{
    callers::{AddressKey, Caller, Refusal},
    server::ThrottledLog,
};

use crate::{
    error::{Code, Error},
    views::quote_requests::QuoteRequests,
};

/// How long a count of the read model is good for. What is admitted in between is added to it.
const COUNT_EVERY: Duration = Duration::from_millis(200);
/// The share of all windows that an address or a DID may have open, and the share of a /48.
const CALLER_SHARE: usize = 16;
const SITE_SHARE: usize = 4;
/// How many times as many windows as may be open are remembered before all are looked at.
const REMEMBERED: usize = 2;

/// The quote-requests that collect quotes.
pub struct OpenWindows {
    max: usize,
    known: Mutex<Known>,
    refused: ThrottledLog,
}

/// A window that somebody wants to open.
pub struct Window<'a> {
    /// The batch.
    pub id: &'a QuoteRequestId,
    /// Its quote deadline.
    pub closes_at: Timestamp,
    /// Who asks.
    pub caller: &'a Caller,
    /// The DID that it proved.
    pub originator: Option<&'a str>,
}

#[derive(Default)]
struct Known {
    counted: Option<Counted>,
    windows: HashMap<QuoteRequestId, Held>,
    holders: HashMap<Holder, Holding>,
}

struct Counted {
    at: Instant,
    open: usize,
}

/// Whose share a window is of, each with its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Holder {
    Address(AddressKey),
    Site(AddressKey),
    Originator(Hash32),
}

struct Held {
    closes_at: Timestamp,
    by: Vec<Holder>,
    /// Calls that may have opened it: each may be the one that does, so all of them have to give it back.
    calls: usize,
}

#[derive(Default)]
struct Holding {
    windows: HashSet<QuoteRequestId>,
    /// When the read model was last asked which of them are over.
    looked_at: Option<Instant>,
}

impl OpenWindows {
    /// At most `max` at a time.
    pub fn new(max: usize) -> Self {
        Self { max, known: Mutex::default(), refused: ThrottledLog::default() }
    }

    /// Lets one more in.
    ///
    /// # Errors
    /// 429 where its caller has as many as one may, 503 `TOO_MANY_QUOTE_REQUESTS` where all have.
    pub fn admit(&self, window: &Window<'_>, quote_requests: &dyn QuoteRequests, now: Timestamp) -> Result<(), Error> {
        // A panic while it is held leaves at worst counts that are taken again.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let holders = window.holders();
        // A repetition that comes before the read model has the batch takes nothing more.
        let is_new = !known.windows.contains_key(window.id);
        if is_new && holders.iter().any(|holder| !known.has_room(holder, self.share(*holder), quote_requests, now)) {
            return Err(Refusal::Crowded("open quote-requests").into());
        }
        if !known.count(self.max, quote_requests) {
            drop(known);
            if let Some(refused) = self.refused.count() {
                tracing::warn!(refused, max = self.max, "quote-requests are refused: as many are open as there may be");
            }
            return Err(Code::TOO_MANY_QUOTE_REQUESTS.into());
        }
        if let Some(held) = known.windows.get_mut(window.id) {
            held.calls += 1;
        } else if !holders.is_empty() {
            if known.windows.len() >= self.max.saturating_mul(REMEMBERED) {
                let all = known.windows.keys().cloned().collect();
                known.forget_those_over(all, quote_requests, now);
            }
            known.remember(window, holders);
        }
        Ok(())
    }

    /// Gives back a window for a call that was admitted and is certain not to open it; another call for it keeps it.
    pub fn give_back(&self, id: &QuoteRequestId) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(held) = known.windows.get_mut(id) else { return };
        held.calls = held.calls.saturating_sub(1);
        if held.calls == 0 {
            known.forget(id);
        }
    }

    fn share(&self, holder: Holder) -> usize {
        match holder {
            Holder::Address(_) | Holder::Originator(_) => self.max.div_ceil(CALLER_SHARE),
            Holder::Site(_) => self.max.div_ceil(SITE_SHARE),
        }
    }
}

impl Window<'_> {
    /// Whose share it is of; of nobody's where the caller is exempt.
    fn holders(&self) -> Vec<Holder> {
        if self.caller.is_exempt() {
            return Vec::new();
        }
        let address = self.caller.address();
        let originator = self.originator.map(|originator| Holder::Originator(Hash32::sha256(originator)));
        [Some(Holder::Address(address)), address.site().map(Holder::Site), originator].into_iter().flatten().collect()
    }
}

impl Known {
    /// Counts one more of all where there is room for it.
    fn count(&mut self, max: usize, quote_requests: &dyn QuoteRequests) -> bool {
        let known = self.counted.take().filter(|counted| counted.at.elapsed() < COUNT_EVERY);
        let now = known.unwrap_or_else(|| Counted { at: Instant::now(), open: quote_requests.collecting() });
        let has_room = now.open < max;
        self.counted = Some(Counted { open: now.open + usize::from(has_room), ..now });
        has_room
    }

    /// Whether `holder` has fewer than `most`. The read model is asked only where that is in question, and not with every call.
    fn has_room(&mut self, holder: &Holder, most: usize, quote_requests: &dyn QuoteRequests, now: Timestamp) -> bool {
        let Some(holding) = self.holders.get_mut(holder).filter(|holding| holding.windows.len() >= most) else {
            return true;
        };
        if holding.looked_at.is_some_and(|at| at.elapsed() < COUNT_EVERY) {
            return false;
        }
        holding.looked_at = Some(Instant::now());
        let windows = holding.windows.iter().cloned().collect();
        self.forget_those_over(windows, quote_requests, now);
        self.holders.get(holder).is_none_or(|holding| holding.windows.len() < most)
    }

    /// Forgets which of `ids` collect no quotes any more. What the read model does not know may be on its way there until the
    /// window closes.
    fn forget_those_over(&mut self, ids: Vec<QuoteRequestId>, quote_requests: &dyn QuoteRequests, now: Timestamp) {
        for id in ids {
            let closes_at = self.windows.get(&id).map(|held| held.closes_at);
            let is_open = quote_requests.is_collecting(&id);
            if !is_open.unwrap_or_else(|| closes_at.is_some_and(|closes_at| now < closes_at)) {
                self.forget(&id);
            }
        }
    }

    fn remember(&mut self, window: &Window<'_>, by: Vec<Holder>) {
        for holder in &by {
            self.holders.entry(*holder).or_default().windows.insert(window.id.clone());
        }
        self.windows.insert(window.id.clone(), Held { closes_at: window.closes_at, by, calls: 1 });
    }

    fn forget(&mut self, id: &QuoteRequestId) {
        for holder in self.windows.remove(id).into_iter().flat_map(|held| held.by) {
            let Some(holding) = self.holders.get_mut(&holder) else { continue };
            holding.windows.remove(id);
            if holding.windows.is_empty() {
                self.holders.remove(&holder);
            }
        }
    }
}
