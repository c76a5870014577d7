//! Admission control per caller: rate limits and permits, by address and by proven originator.
//!
//! Whoever can reach the port is told apart by address first: an IPv4 address, or the /64 of an IPv6 address, which is
//! the least that one subscriber is given. Many are given a /48, so all of that together has only a few times as much.
//! A budget is a token bucket; a call takes units out of it, the more the dearer it is for the gateway. Reads, writes, and
//! what nobody signed for have budgets of their own, so that a flood of one kind leaves an honest caller behind the same
//! address the others. What a signature or a proof stands behind is counted for its originator as well, wherever it calls
//! from.
//!
//! The memory for all of it is bounded: see `budget` and `permits`.

mod address;
mod budget;
pub mod limits;
mod permits;

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, Once, PoisonError},
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use events::Hash32;

pub use self::{
    address::AddressKey,
    permits::{Permit, Permits},
};
use self::{
    address::Source,
    budget::{Balance, Budget},
    limits::{LimitsConfig, RateConfig},
};

/// The quota policies in force (draft-ietf-httpapi-ratelimit-headers).
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// What is left of them.
pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// How many times the budget of one /64 a whole /48 has. One subscriber is often given a /48, which are 65,536 of them.
const SITE_RATES: u32 = 16;
/// How many times the permits of one /64 a whole /48 has. Fewer, because permits are held and do not come back with the
/// time.
const SITE_PERMITS: usize = 4;

/// What a call takes out of a budget.
pub mod price {
    /// A read, out of [`Kind::Reads`](super::Kind::Reads).
    pub const READ: u32 = 1;
    /// The dearest page of a list, besides the read: one that looks at as many rows as a page may.
    pub const PAGE_MAX: u32 = 20;
    /// Any write: its body is received, read, and its signature checked. Out of [`Kind::Writes`](super::Kind::Writes) where
    /// somebody has to sign it, else out of [`Kind::Unsigned`](super::Kind::Unsigned).
    pub const WRITE: u32 = 1;
    /// Something new of a proven originator, out of [`Kind::Accepted`](super::Kind::Accepted).
    pub const ACCEPT: u32 = 1;
    /// Messages to sign, out of [`Kind::Unsigned`](super::Kind::Unsigned): on Tron a node is asked and a key signs.
    pub const PREPARE: u32 = 4;
    /// The message of a batch, out of the same: it is made of up to 256 payments.
    pub const PREPARE_BATCH: u32 = 12;
    /// The rehearsal of a submission, out of the same: nodes are asked, and nothing comes of it.
    pub const VERIFY: u32 = 4;
    /// The rehearsal for a merchant, which precedes every settlement.
    pub const X402_VERIFY: u32 = 2;
    /// A new quote-request, besides what any write costs, out of [`Kind::Unsigned`](super::Kind::Unsigned) whoever proves to ask:
    /// settlers are asked, and a proof costs nothing.
    pub const QUOTE_REQUEST: u32 = 10;
    /// A payment identifier for a payment that there is already, out of the same: it is kept for ever, and whoever has seen the
    /// payload can ask for it.
    pub const IDENTIFIER: u32 = 10;
    /// A look in the journal, whether a refused write names a payment that exists; out of the same.
    pub const LOOK_UP: u32 = 1;
    /// Code of the caller's choice that a node has to run.
    pub const FOREIGN_CODE: u32 = 20;

    /// Bytes of a body for which one unit is paid.
    const BODY_UNIT_BYTES: usize = 4 * 1_024;

    /// What a body of so many bytes costs besides, because what is accepted is kept for ever: a unit for each 4 KiB behind
    /// the first.
    pub fn length(bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(BODY_UNIT_BYTES).saturating_sub(1)).unwrap_or(u32::MAX)
    }
}

/// A kind of budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Reads of an address.
    Reads,
    /// Writes of an address, whatever comes of them.
    Writes,
    /// What an address asks for without a signature that anything hangs on.
    Unsigned,
    /// What was accepted of an originator: an account or a DID that proved itself.
    Accepted,
}

impl Kind {
    /// Its name in the header fields.
    fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Unsigned => "unsigned",
            Self::Accepted => "accepted",
        }
    }
}

/// Why a caller has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A budget has not as much left.
    #[error("the budget for {} has not enough left for {}", kind.name(), of_whom(*kind))]
    Spent {
        /// Which.
        kind: Kind,
        /// Until it has.
        after: Duration,
    },
    /// The caller has as many of something at the same time as it may.
    #[error("as many {0} as one caller may have are under way")]
    Crowded(&'static str),
}

fn of_whom(kind: Kind) -> &'static str {
    if kind == Kind::Accepted { "this originator" } else { "this address" }
}

impl Refusal {
    /// When to come again, in whole seconds, at least one.
    pub fn retry_after_seconds(self) -> u64 {
        match self {
            Self::Spent { after, .. } => whole_seconds(after).max(1),
            Self::Crowded(_) => 1,
        }
    }
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// Every caller of a gateway.
pub struct Callers {
    source: Source,
    reads: Budget<AddressKey>,
    writes: Budget<AddressKey>,
    unsigned: Budget<AddressKey>,
    /// The same for the sites that addresses belong to.
    sites: BTreeMap<Kind, Budget<AddressKey>>,
    accepted: Budget<Hash32>,
    connections: Permits,
    at_work: Permits,
    long_polls: Permits,
    streams: Permits,
    /// Long polls of those who proved nothing, all together.
    anonymous_long_polls: Arc<Semaphore>,
    warned: Once,
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers").finish_non_exhaustive()
    }
}

impl Callers {
    /// Callers under these limits, of a gateway that takes so many long polls at the same time.
    pub fn new(config: &LimitsConfig, long_polls_max: usize) -> Arc<Self> {
        let budget = |rate: RateConfig| Budget::new(rate, config.callers_max);
        let site = |rate: RateConfig| Budget::new(rate.times(SITE_RATES), config.callers_max);
        let permits = |of_address: usize| Permits::new(of_address, of_address.saturating_mul(SITE_PERMITS));
        let sites = [(Kind::Reads, config.reads), (Kind::Writes, config.writes), (Kind::Unsigned, config.unsigned)];
        Arc::new(Self {
            source: Source::new(config),
            reads: budget(config.reads),
            writes: budget(config.writes),
            unsigned: budget(config.unsigned),
            sites: sites.map(|(kind, rate)| (kind, site(rate))).into(),
            accepted: Budget::new(config.accepted, config.callers_max),
            connections: permits(config.connections_per_address_max),
            at_work: permits(config.writes_per_address_max),
            long_polls: permits(config.holds_per_address_max),
            streams: permits(config.event_streams_per_address_max),
            // Who proved nothing never keeps out who did.
            anonymous_long_polls: Arc::new(Semaphore::new((long_polls_max / 2).min(Semaphore::MAX_PERMITS))),
            warned: Once::new(),
        })
    }

    /// A permit for a connection from `peer`, until it is dropped; `None` where its address or its site has as many as it may. A
    /// trusted proxy's connections are those of many callers, and are not counted.
    pub fn connection(&self, peer: SocketAddr) -> Option<Option<Permit>> {
        if self.source.is_exempt(peer.ip()) || self.source.is_trusted_proxy(peer.ip()) {
            return Some(None);
        }
        self.connections.take(AddressKey::of(peer.ip()), 1).map(Some)
    }

    /// Who sent a request over a connection from `peer`. A request without a connection, which only tests have, is
    /// everybody's.
    pub fn identify(self: &Arc<Self>, peer: Option<SocketAddr>, headers: &HeaderMap) -> Caller {
        let peer = peer.map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.ip());
        let address = self.source.of(peer, headers);
        if self.source.is_hidden(peer, headers) {
            self.warned.call_once(|| {
                tracing::warn!(
                    proxy = %peer,
                    "requests come through a proxy that is not among limits.trusted_proxies: all its callers are limited as one"
                );
            });
        }
        Caller(Arc::new(Inner {
            callers: Arc::clone(self),
            address: AddressKey::of(address),
            exempt: self.source.is_exempt(address),
            balances: Mutex::default(),
        }))
    }

    fn of_address(&self, kind: Kind) -> Option<&Budget<AddressKey>> {
        match kind {
            Kind::Reads => Some(&self.reads),
            Kind::Writes => Some(&self.writes),
            Kind::Unsigned => Some(&self.unsigned),
            Kind::Accepted => None,
        }
    }
}

/// Who sent a request, as far as that is known. An extension of every request; clones are the same caller.
#[derive(Clone)]
pub struct Caller(Arc<Inner>);

struct Inner {
    callers: Arc<Callers>,
    address: AddressKey,
    exempt: bool,
    /// What this request took, to be told with its answer.
    balances: Mutex<BTreeMap<Kind, Balance>>,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("address", &self.0.address).field("exempt", &self.0.exempt).finish()
    }
}

impl Caller {
    /// The address it is told apart by: what bulkheads take as their key as long as nothing else is proven.
    pub fn address(&self) -> AddressKey {
        self.0.address
    }

    /// Whether the operator exempts it from all limits per caller.
    pub fn is_exempt(&self) -> bool {
        self.0.exempt
    }

    /// Takes so many units out of one of the address's budgets.
    ///
    /// # Errors
    /// [`Refusal::Spent`].
    pub fn spend(&self, kind: Kind, units: u32) -> Result<(), Refusal> {
        let inner = &self.0;
        let Some(budget) = inner.callers.of_address(kind).filter(|_| !inner.exempt && units > 0) else { return Ok(()) };
        self.note(kind, budget.spend(&inner.address, units))?;
        match inner.address.site().zip(inner.callers.sites.get(&kind)) {
            Some((site, budget)) => match budget.spend(&site, units) {
                Balance { refused: Some(after), .. } => Err(Refusal::Spent { kind, after }),
                _ => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Takes what something new, with a body of so many bytes, costs out of the budget of `originator`, which proved itself: a
    /// source account by its signature, or a DID by its proof. Replays are not counted: whoever has seen a signed request
    /// could else spend the budget of the one who signed it.
    ///
    /// # Errors
    /// [`Refusal::Spent`].
    pub fn accept(&self, originator: &str, bytes: usize) -> Result<(), Refusal> {
        if self.0.exempt {
            return Ok(());
        }
        let units = price::ACCEPT.saturating_add(price::length(bytes));
        self.note(Kind::Accepted, self.0.callers.accepted.spend(&Hash32::sha256(originator), units))
    }

    /// Takes what it costs to have a node run code of the caller's choice.
    ///
    /// # Errors
    /// [`Refusal::Spent`].
    pub fn foreign_code(&self) -> Result<(), Refusal> {
        self.spend(Kind::Unsigned, price::FOREIGN_CODE)
    }

    /// A permit for one of the writes of the address that are being received or checked.
    ///
    /// # Errors
    /// [`Refusal::Crowded`].
    pub fn work(&self) -> Result<Option<Permit>, Refusal> {
        self.share(&self.0.callers.at_work, 1).ok_or(Refusal::Crowded("writes"))
    }

    /// A permit for one of its event streams.
    ///
    /// # Errors
    /// [`Refusal::Crowded`].
    pub fn stream(&self) -> Result<Option<Permit>, Refusal> {
        self.share(&self.0.callers.streams, 1).ok_or(Refusal::Crowded("event streams"))
    }

    /// A permit for one of its long polls; `None` where it has as many as it may, or, for one that proved nothing, all like
    /// it together have as many as they may.
    pub fn long_poll(&self, proven: bool) -> Option<LongPoll> {
        let anonymous = match proven || self.0.exempt {
            true => None,
            false => Some(Arc::clone(&self.0.callers.anonymous_long_polls).try_acquire_owned().ok()?),
        };
        Some(LongPoll { _of_caller: self.share(&self.0.callers.long_polls, 1)?, _anonymous: anonymous })
    }

    /// So many of `permits`; `None` where it has as many as it may. Who is exempt takes none.
    pub fn share(&self, permits: &Permits, count: usize) -> Option<Option<Permit>> {
        if self.0.exempt { Some(None) } else { permits.take(self.0.address, count).map(Some) }
    }

    fn note(&self, kind: Kind, balance: Balance) -> Result<(), Refusal> {
        let refused = balance.refused;
        self.0.balances.lock().unwrap_or_else(PoisonError::into_inner).insert(kind, balance);
        refused.map_or(Ok(()), |after| Err(Refusal::Spent { kind, after }))
    }

    /// Says in `headers` what this request took, and what is left.
    pub fn declare(&self, headers: &mut HeaderMap) {
        let balances = self.0.balances.lock().unwrap_or_else(PoisonError::into_inner);
        if balances.is_empty() {
            return;
        }
        let (policies, left): (Vec<_>, Vec<_>) = balances
            .iter()
            .map(|(kind, Balance { quota, window, left, whole_in, .. })| {
                let (name, window, whole_in) = (kind.name(), whole_seconds(*window), whole_seconds(*whole_in));
                (format!("\"{name}\";q={quota};w={window}"), format!("\"{name}\";r={left};t={whole_in}"))
            })
            .unzip();
        // Names and numbers are legal in a header.
        for (name, items) in [(RATE_LIMIT_POLICY, policies), (RATE_LIMIT, left)] {
            if let Ok(value) = HeaderValue::try_from(items.join(", ")) {
                headers.insert(name, value);
            }
        }
    }
}

/// The permit of a long poll, until it is dropped.
#[derive(Debug)]
pub struct LongPoll {
    _of_caller: Option<Permit>,
    _anonymous: Option<OwnedSemaphorePermit>,
}

#[cfg(test)]
mod tests;
