//! Own payments: those of an owner who proved that they are his, newest first, as pages and as tables for bookkeeping.
//!
//! [`query`] reads what is asked for, [`OwnedReads`] finds it in the read model's index of owners, [`body`] shows a payment,
//! and [`table`] the same as a line of CSV.

pub mod body;
pub mod parked;
pub mod query;
pub mod table;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use metrics::{Counter, Gauge, counter, gauge};

use events::time::Timestamp;
use net::callers::{Refusal, price};
use projections::{OwnedPage, OwnedSlice, PageBounds, Place, Projections};

use self::{
    parked::{Parked, ParkedPayments},
    query::{Filter, Judged},
};
use crate::{
    bulkhead::fair::{self, FairBulkhead, Full},
    error::{Code, Error},
    sessions::Owner,
};

/// Most payments on a page.
pub const PAGE_MAX: usize = 200;
/// How many there are on one where nobody says.
pub const PAGE_DEFAULT: usize = 50;
/// Most payments that are looked at for a page. A filter that takes few of them makes pages short, not dear.
pub const LOOKS_MAX: usize = 2_000;
/// Payments that are looked at for one unit of the budget for reads, and the least that a page costs.
const LOOKS_PER_UNIT: usize = 100;
const PRICE_MIN: u32 = 4;
const _: () = assert!(
    LOOKS_MAX.div_ceil(LOOKS_PER_UNIT) <= price::PAGE_MAX as usize,
    "a caller's least budget pays for any page"
);
/// Pages that are read at a time, those of one owner, and how long a page may wait for its turn.
const READS_MAX: usize = 4;
const OWNER_READS_MAX: usize = 1;
const WAIT_MAX: Duration = Duration::from_secs(2);
/// What is counted of it stands under this name.
const LANE: &str = "own_payments";

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Whose payments.
    pub owner: Owner,
    /// Which of them.
    pub filter: Filter,
    /// Behind which the page begins, where it is not the first.
    pub before: Option<Place>,
    /// Most payments on it.
    pub payments_max: usize,
    /// The time by which it is judged what is overdue.
    pub now: Timestamp,
    /// What a chain may take until a deadline that has passed can be acted on with proof.
    pub grace: Duration,
}

impl Asked {
    /// Most payments that are looked at for the page: those on it, or [`LOOKS_MAX`] where it takes not all that it comes upon.
    pub fn looks_max(&self) -> usize {
        let is_choosy = self.owner.chain().is_some() || self.filter.is_choosy();
        if is_choosy { LOOKS_MAX } else { self.payments_max }
    }

    /// What the page costs of the budget for reads, besides what any read does. It is that of all that may be looked at: who
    /// cannot pay for it makes no work.
    pub fn price(&self) -> u32 {
        u32::try_from(self.looks_max().div_ceil(LOOKS_PER_UNIT)).unwrap_or(u32::MAX).max(PRICE_MIN)
    }
}

/// The payments of owners, as the read model has them.
#[async_trait]
pub trait OwnedPayments: Send + Sync {
    /// A page. What was accepted in the last moment may be missing.
    ///
    /// # Errors
    /// 503 while the read model lacks something, or as many pages are read as there may be; 429 while as many of this owner
    /// are.
    async fn page(&self, asked: Asked) -> Result<OwnedPage, Error>;
}

/// [`OwnedPayments`] of the read model, behind a bulkhead with turns by owner: a page reads up to [`LOOKS_MAX`] views, and
/// whoever asks for many waits for himself.
pub struct OwnedReads {
    projections: Projections,
    parked: ParkedPayments,
    turns: Turns,
}

impl OwnedReads {
    /// Those of this read model, of which some are `parked`.
    pub fn new(projections: Projections, parked: ParkedPayments) -> Self {
        Self { projections, parked, turns: Turns::new(READS_MAX, OWNER_READS_MAX, WAIT_MAX) }
    }

    /// What is parked, where it matters.
    async fn parked(&self, filter: &Filter) -> Result<Arc<Parked>, Error> {
        if !filter.asks_parked() {
            return Ok(Arc::default());
        }
        self.parked.now().await.map_err(|fault| {
            tracing::warn!(fault, "which payments are parked is not known for now");
            Code::SERVICE_UNAVAILABLE.into()
        })
    }
}

#[async_trait]
impl OwnedPayments for OwnedReads {
    async fn page(&self, asked: Asked) -> Result<OwnedPage, Error> {
        // Before the turn, for nobody else waits while the parking does not answer.
        let parked = self.parked(&asked.filter).await?;
        let turn = self.turns.of(&asked.owner).await?;
        let projections = self.projections.clone();
        let read = tokio::task::spawn_blocking(move || {
            // Held by the work, which goes on when nobody waits for it any more.
            let _turn = turn;
            let bounds = PageBounds { payments_max: asked.payments_max, looks_max: asked.looks_max() };
            let slice = OwnedSlice {
                owner: asked.owner.originator(),
                before: asked.before.clone(),
                from: asked.filter.from,
                until: asked.filter.until,
            };
            let judged = Judged { now: asked.now, grace: asked.grace, parked: &parked.payments };
            projections
                .owned(&slice, bounds, |shard, view| asked.owner.owns(view) && asked.filter.takes(view, shard, judged))
        });
        match read.await {
            Ok(Ok(page)) => Ok(page),
            Ok(Err(unavailable)) => {
                tracing::warn!(%unavailable, "an owner's payments cannot be listed for now");
                Err(Code::SERVICE_UNAVAILABLE.into())
            }
            Err(error) => {
                tracing::error!(%error, "an owner's payments could not be listed");
                Err(Code::INTERNAL_ERROR.into())
            }
        }
    }
}

/// The turns of owners, counted under [`LANE`].
struct Turns {
    bulkhead: FairBulkhead,
    in_use: Gauge,
    refused: Counter,
}

/// The turn of an owner, until it is dropped.
struct Turn {
    _permit: fair::Permit,
    in_use: Gauge,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.in_use.decrement(1.0);
    }
}

impl Turns {
    fn new(permits: usize, owner_max: usize, wait_max: Duration) -> Self {
        Self {
            bulkhead: FairBulkhead::new(permits, owner_max, wait_max),
            in_use: gauge!("gw_permits_in_use", "lane" => LANE),
            refused: counter!("gw_permits_refused_total", "lane" => LANE),
        }
    }

    /// The next turn of `owner`.
    ///
    /// # Errors
    /// 429 while the owner has as many as he may, and 503 while all are taken.
    async fn of(&self, owner: &Owner) -> Result<Turn, Error> {
        match self.bulkhead.permit(&owner.originator()).await {
            Ok(permit) => {
                self.in_use.increment(1.0);
                Ok(Turn { _permit: permit, in_use: self.in_use.clone() })
            }
            Err(full) => {
                self.refused.increment(1);
                Err(match full {
                    Full::Caller => Refusal::Crowded("pages of their own payments").into(),
                    Full::All => Code::SERVICE_UNAVAILABLE.into(),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, future::join_all};
    use tempfile::TempDir;
    use tokio_util::sync::CancellationToken;

    use journal::{ShardLog, memory::MemoryJournal};

    use super::{parked::tests::Counted, query::Query, *};

    fn owner(name: &str) -> Owner {
        Owner::Did(format!("did:example:{name}").parse().unwrap())
    }

    fn asked(owner: Owner, query: &str) -> Asked {
        let query = Query::read(query.split('&').filter_map(|pair| pair.split_once('='))).unwrap();
        Asked {
            owner,
            payments_max: query.payments_max(),
            filter: query.filter,
            before: query.before,
            now: "2030-01-01T00:00:00Z".parse().unwrap(),
            grace: Duration::ZERO,
        }
    }

    #[test]
    fn a_page_costs_what_may_be_looked_at_for_it() {
        let priced = |owner: Owner, query: &str| {
            let asked = asked(owner, query);
            (asked.looks_max(), asked.price())
        };
        let (days, alice) =
            ("submitted_from=2030-01-01T00:00:00Z&submitted_until=2030-01-02T00:00:00Z", || owner("alice"));
        assert_eq!(priced(alice(), ""), (PAGE_DEFAULT, 4));
        assert_eq!(priced(alice(), "limit=1"), (1, 4));
        assert_eq!(priced(alice(), "limit=200"), (PAGE_MAX, 4));
        // The index knows the time.
        assert_eq!(priced(alice(), days), (PAGE_DEFAULT, 4));
        for choosy in [
            "status=failed",
            "stage=refund",
            "chain_id=eip155:1",
            "settler=did:example:s",
            "amount_from=1",
            "amount_to=1",
            "overdue=false",
            "parked=true",
            "status=failed&limit=1",
        ] {
            assert_eq!(priced(alice(), choosy), (LOOKS_MAX, 20), "{choosy}");
        }
        // A contract on one chain is not shown what it owns on others.
        let account = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359".parse::<events::Account>().unwrap();
        let of_key = Owner::Account { account: account.clone(), chain: None };
        let of_contract = Owner::Account { account, chain: Some(events::ChainId::evm(1)) };
        assert_eq!(priced(of_key, ""), (PAGE_DEFAULT, 4));
        assert_eq!(priced(of_contract, ""), (LOOKS_MAX, 20));
    }

    /// Whoever has many pages read takes one turn at a time, and whoever comes after them is not behind them.
    #[tokio::test(start_paused = true)]
    async fn an_owner_waits_for_himself_alone() {
        let turns = Turns::new(2, OWNER_READS_MAX, WAIT_MAX);
        let (mallory, alice, bob) = (owner("mallory"), owner("alice"), owner("bob"));
        let at_work = turns.of(&mallory).await.unwrap();
        // All that are behind him wait for him, and those who would be one too many are told.
        let mut more: Vec<_> = (0..20).map(|_| Box::pin(turns.of(&mallory))).collect();
        let told: Vec<_> = more.iter_mut().filter_map(|turn| turn.now_or_never()).collect();
        assert_eq!(told.len(), 18);
        for refused in told {
            let refused = refused.err().unwrap();
            assert_eq!((refused.code, refused.retry_after_seconds()), (Code::RATE_LIMITED, Some(1)));
        }
        let of_alice = turns.of(&alice).now_or_never().expect("a permit was free").unwrap();
        // Bob came last, and is next.
        let mut of_bob = Box::pin(turns.of(&bob));
        assert!((&mut of_bob).now_or_never().is_none());
        drop(of_alice);
        let of_bob = of_bob.now_or_never().expect("his turn").unwrap();
        // Where all are taken by others that is not the owner's fault.
        assert_eq!(turns.of(&alice).await.err().unwrap().code, Code::SERVICE_UNAVAILABLE);
        drop((at_work, of_bob, more));
        assert!(join_all([turns.of(&mallory), turns.of(&alice)]).await.iter().all(Result::is_ok));
    }

    /// Whoever filters by what is parked waits for the parking, and nobody waits for him.
    #[tokio::test]
    async fn a_parking_that_does_not_answer_takes_no_turns() {
        let (directory, journal) = (TempDir::new().unwrap(), MemoryJournal::new(1));
        let projections = Projections::open(directory.path(), journal.shards()).unwrap();
        let following = projections.clone();
        tokio::spawn(async move { following.run(Arc::new(journal), CancellationToken::new()).await });
        while projections.ready().is_err() {
            tokio::task::yield_now().await;
        }
        let reads = OwnedReads::new(projections, ParkedPayments::new(Arc::new(Counted::silent())));
        let alice = owner("alice");
        let others = (0..READS_MAX).map(|number| owner(&format!("other-{number}")));
        let waiting = others.chain([alice.clone()]).map(|owner| reads.page(asked(owner, "parked=true")));
        let mut waiting: Vec<_> = waiting.collect();
        for page in &mut waiting {
            assert!(page.now_or_never().is_none());
        }
        assert!(reads.page(asked(alice, "")).await.unwrap().payments.is_empty());
    }
}
