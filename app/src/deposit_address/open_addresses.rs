//! Admission control of deposit addresses: how many may be waited at, as nobody pays for an address. Each is looked at now and then,
//! so those above the bound are answered with 503 until others are paid to or lapse.
//!
//! One caller has a share of them; above its share it is answered with 429.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use events::{Hash32, PaymentId, time::Timestamp};
use net::{
    callers::{AddressKey, Caller, Refusal},
    server::ThrottledLog,
};
use projections::PaymentStatus;

use crate::{
    error::{Code, Error},
    views::payments::Payments,
};

/// The share of all addresses that a caller's address or DID may have, and the share of a /48.
const CALLER_SHARE: usize = 16;
const SITE_SHARE: usize = 4;
/// How many of those in question are looked at before one more is refused: what was paid to is waited at no more.
const LOOKS_MAX: usize = 8;

/// The deposit addresses that this gateway gave and that may be waited at.
pub struct OpenAddresses {
    max: usize,
    known: Mutex<Known>,
    refused: ThrottledLog,
}

/// An address that somebody wants.
pub(crate) struct Wanted<'a> {
    pub(crate) payment_id: &'a PaymentId,
    /// Up to when the money is waited for.
    pub(crate) pay_by: Timestamp,
    /// Who asks.
    pub(crate) caller: &'a Caller,
    /// The DID that it proved.
    pub(crate) originator: Option<&'a str>,
}

#[derive(Default)]
struct Known {
    /// How often some were looked at: other ones each time.
    turn: usize,
    addresses: HashMap<PaymentId, Held>,
    holders: HashMap<Holder, HashSet<PaymentId>>,
}

struct Held {
    pay_by: Timestamp,
    by: Vec<Holder>,
    /// Calls that may have it given: each may be the one that does, so all of them have to give it back.
    calls: usize,
}

/// Whose share an address is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Holder {
    Address(AddressKey),
    Site(AddressKey),
    Originator(Hash32),
}

/// Where there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    Caller(Holder),
    All,
}

impl OpenAddresses {
    /// At most `max` at a time.
    pub fn new(max: usize) -> Self {
        Self { max, known: Mutex::default(), refused: ThrottledLog::default() }
    }

    /// Lets one more in.
    ///
    /// # Errors
    /// 429 where its caller has as many as one may, 503 where all have.
    pub(crate) async fn admit(
        &self,
        wanted: &Wanted<'_>,
        payments: &dyn Payments,
        now: Timestamp,
    ) -> Result<(), Error> {
        let holders = wanted.holders();
        let Err(full) = self.enter(wanted, &holders, now) else { return Ok(()) };
        // Some may have been paid to since.
        for payment_id in self.some_of(full) {
            if let Ok(Some(view)) = payments.view(&payment_id).await
                && (view.status != PaymentStatus::Pending
                    || view.deposit_address.is_none_or(|of| of.received.is_some()))
            {
                self.lock().forget(&payment_id);
            }
        }
        self.enter(wanted, &holders, now).map_err(|full| match full {
            Full::Caller(_) => Refusal::Crowded("open deposit addresses").into(),
            Full::All => {
                if let Some(refused) = self.refused.count() {
                    tracing::warn!(
                        refused,
                        max = self.max,
                        "deposit addresses are refused: as many are open as there may be"
                    );
                }
                Code::TOO_MANY_DEPOSIT_ADDRESSES.into()
            }
        })
    }

    /// Gives back an address for a call that was admitted and is certain to give none; another call for it keeps it.
    pub(crate) fn give_back(&self, payment_id: &PaymentId) {
        let mut known = self.lock();
        let Some(held) = known.addresses.get_mut(payment_id) else { return };
        held.calls = held.calls.saturating_sub(1);
        if held.calls == 0 {
            known.forget(payment_id);
        }
    }

    fn enter(&self, wanted: &Wanted<'_>, holders: &[Holder], now: Timestamp) -> Result<(), Full> {
        let mut known = self.lock();
        if let Some(held) = known.addresses.get_mut(wanted.payment_id) {
            held.calls += 1;
            return Ok(());
        }
        let share = |holder: &Holder| match holder {
            Holder::Address(_) | Holder::Originator(_) => self.max.div_ceil(CALLER_SHARE),
            Holder::Site(_) => self.max.div_ceil(SITE_SHARE),
        };
        let is_full = |known: &Known| {
            let of = |holder: &Holder| known.holders.get(holder).map_or(0, HashSet::len) >= share(holder);
            let caller = holders.iter().find(|holder| of(holder)).map(|holder| Full::Caller(*holder));
            caller.or((known.addresses.len() >= self.max).then_some(Full::All))
        };
        if is_full(&known).is_some() {
            known.forget_lapsed(now);
        }
        if let Some(full) = is_full(&known) {
            return Err(full);
        }
        for holder in holders {
            known.holders.entry(*holder).or_default().insert(wanted.payment_id.clone());
        }
        let held = Held { pay_by: wanted.pay_by, by: holders.to_vec(), calls: 1 };
        known.addresses.insert(wanted.payment_id.clone(), held);
        Ok(())
    }

    fn some_of(&self, full: Full) -> Vec<PaymentId> {
        let mut known = self.lock();
        known.turn = known.turn.wrapping_add(1);
        let turn = known.turn;
        match full {
            Full::Caller(holder) => {
                known.holders.get(&holder).map(|own| some_of(own.iter(), own.len(), turn)).unwrap_or_default()
            }
            Full::All => some_of(known.addresses.keys(), known.addresses.len(), turn),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Nothing panics between two changes that belong together.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As many as are looked at of `count`, other ones at each turn.
fn some_of<'a>(ids: impl Iterator<Item = &'a PaymentId>, count: usize, turn: usize) -> Vec<PaymentId> {
    let first = turn.wrapping_mul(LOOKS_MAX) % count.div_ceil(LOOKS_MAX).max(1).saturating_mul(LOOKS_MAX);
    ids.skip(first).take(LOOKS_MAX).cloned().collect()
}

impl Wanted<'_> {
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
    fn forget_lapsed(&mut self, now: Timestamp) {
        let lapsed = self.addresses.iter().filter(|(_, held)| held.pay_by < now).map(|(id, _)| id.clone());
        for payment_id in lapsed.collect::<Vec<_>>() {
            self.forget(&payment_id);
        }
    }

    fn forget(&mut self, payment_id: &PaymentId) {
        for holder in self.addresses.remove(payment_id).into_iter().flat_map(|held| held.by) {
            let Some(holding) = self.holders.get_mut(&holder) else { continue };
            holding.remove(payment_id);
            if holding.is_empty() {
                self.holders.remove(&holder);
            }
        }
    }
}
