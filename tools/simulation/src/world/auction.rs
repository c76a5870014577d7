//! The simulated auction: its state (bids in the order in which settlers answer, awards kept for the winner) and the port
//! [`Auction`] over it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use events::{Did, Hash32, PaymentId, mutant};
use sagas::ports::{
    ANSWER_WAIT_MAX, Auction, AuctionOver, Award, AwardAnswer, AwardEnd, Bid, Clock, Gathered, Gathering, OpenWindow,
    REPLACEABLE_ANSWER_WAIT, RequestForQuotes, Transient,
};

use super::{World, bids, ports::PortContext, settlers};

/// How often a gathering looks for new answers.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Looks for answers before a window is left open.
const LOOKS: u32 = 4;

/// Auction state: what settlers were asked and answered, and what they won.
#[derive(Default)]
pub struct AuctionState(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    auctions: BTreeMap<String, Vec<Bid>>,
    awards: BTreeMap<AwardKey, Award>,
    /// What stands as the answer to each award.
    answers: BTreeMap<AwardKey, AwardAnswer>,
    ended: BTreeSet<AwardKey>,
}

/// A payment and the quote that it was awarded to; when the award lapses, another follows.
type AwardKey = (PaymentId, Hash32);

fn key(award: &Award) -> AwardKey {
    (award.case.payment_id.clone(), award.quote_hash)
}

impl AuctionState {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the auction is opened by this call.
    fn open(&self, auction_id: &str) -> bool {
        let mut inner = self.lock();
        let new = !inner.auctions.contains_key(auction_id);
        inner.auctions.entry(auction_id.to_owned()).or_default();
        new
    }

    /// Keeps a bid.
    pub fn bid(&self, auction_id: &str, bid: Bid) {
        self.lock().auctions.entry(auction_id.to_owned()).or_default().push(bid);
    }

    /// The bids so far.
    pub fn bids(&self, auction_id: &str) -> Vec<Bid> {
        self.lock().auctions.get(auction_id).cloned().unwrap_or_default()
    }

    /// Keeps an award; whether it is new.
    fn award(&self, award: &Award) -> bool {
        self.lock().awards.insert(key(award), award.clone()).is_none()
    }

    /// The award of `quote_hash`, once its settler was told.
    pub fn award_of(&self, payment_id: &PaymentId, quote_hash: Hash32) -> Option<Award> {
        self.lock().awards.get(&(payment_id.clone(), quote_hash)).cloned()
    }

    /// How many awards of a payment this settler was told of.
    pub fn awards_to(&self, payment_id: &PaymentId, settler: &Did) -> usize {
        let inner = self.lock();
        inner.awards.values().filter(|award| award.case.payment_id == *payment_id && award.settler == *settler).count()
    }

    /// Keeps an answer, unless there is one; what stands.
    pub fn answer(&self, award: &Award, answer: AwardAnswer) -> AwardAnswer {
        self.lock().answers.entry(key(award)).or_insert(answer).clone()
    }

    /// What stands as the answer to the award of `quote_hash`.
    pub fn answered(&self, payment_id: &PaymentId, quote_hash: Hash32) -> Option<AwardAnswer> {
        self.lock().answers.get(&(payment_id.clone(), quote_hash)).cloned()
    }

    /// Whether the settler of `quote_hash` stands by it.
    pub fn has_accepted(&self, payment_id: &PaymentId, quote_hash: Hash32) -> bool {
        self.answered(payment_id, quote_hash) == Some(AwardAnswer::Accepted)
    }

    /// Whether the settler of `quote_hash` finds that its award is over.
    pub fn is_ended(&self, payment_id: &PaymentId, quote_hash: Hash32) -> bool {
        self.lock().ended.contains(&(payment_id.clone(), quote_hash))
    }

    /// Whether the settler of `quote_hash` was told that it won.
    pub fn is_awarded(&self, payment_id: &PaymentId, quote_hash: Hash32) -> bool {
        self.lock().awards.contains_key(&(payment_id.clone(), quote_hash))
    }
}

/// The auction as one process sees it.
pub struct SimAuction(pub PortContext);

impl SimAuction {
    fn world(&self) -> &Arc<World> {
        &self.0.world
    }

    fn fault(&self) -> Result<(), Transient> {
        let strikes =
            self.world().strikes(&self.0.random, "a call to the auction fails", self.world().plan.faults.auction);
        if strikes { Err(Transient::unreachable("the bus is away")) } else { Ok(()) }
    }
}

#[async_trait]
impl Auction for SimAuction {
    async fn gather(&self, request: &RequestForQuotes) -> Result<Gathered, Transient> {
        loop {
            if let Gathering::Over(gathered) = self.gather_for_now(request, None).await? {
                return Ok(gathered);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn gather_for_now(&self, request: &RequestForQuotes, _: Option<OpenWindow>) -> Result<Gathering, Transient> {
        self.0.process.crash_point().await;
        self.fault()?;
        let world = self.world();
        let settlers = world.settlers();
        let addressed: Vec<Did> = settlers
            .iter()
            .filter(|settler| request.escrowed.is_none() || settler.plan.follows)
            .map(|settler| settler.did.clone())
            .filter(|did| !request.blacklist.contains(did))
            .filter(|did| request.whitelist.is_empty() || request.whitelist.contains(did))
            .collect();
        if world.auctions.open(&request.auction_id) {
            let held = world.invariants().asked(&addressed, request);
            world.judge(held);
            for settler in settlers.iter().filter(|settler| addressed.contains(&settler.did)) {
                tokio::spawn(bids::bid(world.clone(), settler.clone(), request.clone()));
            }
        }
        self.0.process.crash_point().await;
        self.fault()?;
        for _ in 0..LOOKS {
            let bids = world.auctions.bids(&request.auction_id);
            let all = sagas::auction::answered(&addressed, &bids) == addressed.len();
            if all || self.0.now() >= request.quote_deadline {
                self.0.process.crash_point().await;
                return Ok(Gathering::Over(Gathered { addressed, bids, ..Gathered::default() }));
            }
            sleep(LOOK_EVERY).await;
        }
        let now = Instant::now().into_std();
        Ok(Gathering::Open(OpenWindow { begun: now, ask_again: now, pause: LOOK_EVERY, settlers: 0, rest: LOOK_EVERY }))
    }

    fn follows_reassignments(&self, settler: &Did) -> bool {
        let mut settlers = self.world().settlers().iter();
        settlers.any(|known| known.did == *settler && known.plan.follows) || mutant!("older-settlers-follow")
    }

    async fn award(&self, award: &Award) -> Result<(), Transient> {
        self.0.process.crash_point().await;
        self.fault()?;
        if self.world().auctions.award(award) {
            self.world().note(format!("award {} to {}", award.case.payment_id, award.settler));
            let held = self.world().invariants().told(award);
            self.world().judge(held);
            settlers::won(self.world(), award);
        }
        self.0.process.crash_point().await;
        self.fault()
    }

    async fn answer(&self, award: &Award) -> Result<AwardAnswer, Transient> {
        let since = self.0.now();
        let wait = match award.is_replaceable_after(since, REPLACEABLE_ANSWER_WAIT) {
            true => REPLACEABLE_ANSWER_WAIT,
            false => ANSWER_WAIT_MAX,
        };
        loop {
            self.0.process.crash_point().await;
            self.fault()?;
            if let Some(answer) = self.world().auctions.answered(&award.case.payment_id, award.quote_hash) {
                return Ok(answer);
            }
            if (self.0.now() - since).to_std().unwrap_or_default() >= wait {
                return Ok(self.world().auctions.answer(award, AwardAnswer::Silent));
            }
            self.0.rest(LOOK_EVERY).await;
        }
    }

    // The settlers of the simulation hold nothing that they were not awarded.
    async fn over(&self, _: &AuctionOver) {}

    async fn end(&self, end: &AwardEnd) -> Result<(), Transient> {
        self.0.process.crash_point().await;
        self.fault()?;
        self.world().auctions.lock().ended.insert((end.payment_id.clone(), end.quote_hash));
        self.world().note(format!("award of {} is over: {}", end.payment_id, end.code));
        self.0.process.crash_point().await;
        self.fault()
    }
}
