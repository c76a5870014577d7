//! A source and a destination, block by block, and what a settler may do on them.

use std::{
    future::pending,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use ruint::aliases::U256;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use chains::{
    escrow::{EscrowRecord, State},
    perform::PerformError,
    settler::{DeliveryChain, ReservationOrder, ReservationState},
};
use events::{
    Account, AssetId, ChainId, Hash32, PaymentId,
    event::{EscrowPlan, Inclusion},
};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};

use super::OTHER;
use crate::outcome::Outcome;

/// Time between two blocks.
const BLOCK: Duration = Duration::from_secs(2);
/// Blocks after which the gateway brings the release of a delivery that is settled.
const RELEASED_AFTER: u64 = 3;
/// Blocks in which calls are lost and blocks are taken back.
const TROUBLED: u64 = 150;
/// Processes that die.
const DEATHS: u64 = 3;

/// Numbers of a seed (SplitMix64).
struct Draws(u64);

impl Draws {
    /// A number of `from..to`.
    fn number(&mut self, from: u64, to: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        from + (mixed ^ (mixed >> 31)) % (to - from)
    }

    fn one_of(&mut self, count: u64) -> bool {
        self.number(0, count) == 0
    }
}

/// What becomes of the escrow, by blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scene {
    /// It is reserved for the settler.
    Mine { at: u64 },
    /// It is, in a block that is taken back, and then again or never.
    TakenBack { at: u64, back: u64, again: Option<u64> },
    /// It is reserved for another quote.
    Theirs { at: u64 },
    /// It holds another token.
    OtherToken { at: u64 },
    /// It goes back while the settler's process is down.
    Refunded { at: u64, back: u64 },
    /// It never comes to hold anything.
    Never,
}

impl Scene {
    fn draw(draws: &mut Draws, depth: u64) -> Self {
        let at = draws.number(1, 40);
        match draws.number(0, 8) {
            0..=2 => Self::Mine { at },
            3 => {
                let back = at + draws.number(1, depth);
                Self::TakenBack { at, back, again: draws.one_of(2).then(|| back + draws.number(1, 30)) }
            }
            4 => Self::Theirs { at },
            5 => Self::OtherToken { at },
            6 => Self::Refunded { at, back: at + draws.number(1, 30) },
            _ => Self::Never,
        }
    }
}

struct Inner {
    draws: Draws,
    scene: Scene,
    depth: u64,
    block: u64,
    /// What the escrow has on record from a block on, the newest last.
    records: Vec<(u64, EscrowRecord)>,
    /// What was delivered, in which block.
    deliveries: Vec<(u64, DeliveryOrder)>,
    /// Calls until the process dies; `None` when it does not.
    dies_after: Option<u64>,
    alive: CancellationToken,
    processes: u64,
    /// The first thing that should not have happened.
    violation: Option<String>,
}

/// The chains of one seed.
pub struct World {
    now: u64,
    order: ReservationOrder,
    account: Account,
    inner: Mutex<Inner>,
}

impl World {
    pub fn new(seed: u64, now: u64, order: ReservationOrder) -> Self {
        let mut draws = Draws(seed);
        let depth = draws.number(2, 6);
        let inner = Inner {
            scene: Scene::draw(&mut draws, depth),
            draws,
            depth,
            block: 0,
            records: Vec::new(),
            deliveries: Vec::new(),
            dies_after: None,
            alive: CancellationToken::new(),
            processes: 0,
            violation: None,
        };
        Self { now, account: order.payout_account.clone(), order, inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Makes blocks.
    pub async fn mine(self: Arc<Self>) {
        loop {
            sleep(BLOCK).await;
            self.make_block();
        }
    }

    fn make_block(&self) {
        let mut guard = self.lock();
        let inner = &mut *guard;
        inner.block += 1;
        let (block, settled) = (inner.block, inner.settled());
        if block < TROUBLED && inner.draws.one_of(12) {
            inner.deliveries.retain(|(mined, _)| *mined <= settled);
        }
        match inner.scene {
            Scene::Mine { at } | Scene::TakenBack { at, .. } | Scene::Refunded { at, .. } if block == at => {
                inner.records.push((block, self.record(State::Reserved)));
            }
            Scene::TakenBack { back, .. } if block == back => inner.records.clear(),
            Scene::TakenBack { again: Some(again), .. } if block == again => {
                inner.records.push((block, self.record(State::Reserved)));
            }
            Scene::Refunded { back, .. } if block == back => inner.records.push((block, self.record(State::Refunded))),
            Scene::Theirs { at } if block == at => {
                let theirs = EscrowRecord {
                    quote_hash: Hash32([3; 32]),
                    settler: Some(OTHER.parse().unwrap()),
                    ..self.record(State::Reserved)
                };
                inner.records.push((block, theirs));
            }
            Scene::OtherToken { at } if block == at => {
                let asset = "eip155:1/erc20:0x3333333333333333333333333333333333333333".parse().unwrap();
                inner.records.push((block, EscrowRecord { asset, ..self.record(State::Reserved) }));
            }
            _ => {}
        }
        let is_delivered = inner.deliveries.iter().any(|(mined, _)| mined + RELEASED_AFTER <= settled);
        let is_reserved = inner.records.last().is_some_and(|(_, record)| record.state == State::Reserved);
        if is_delivered && is_reserved {
            inner.records.push((block, self.record(State::Released)));
        }
    }

    /// What the escrow has on record for the settler's quote.
    fn record(&self, state: State) -> EscrowRecord {
        let order = &self.order;
        EscrowRecord {
            chain_id: order.escrow.chain_id.clone(),
            state,
            payer: Some(order.payer.clone()),
            reserver: Some(order.escrow.reserver.clone()),
            releaser: Some(order.escrow.releaser.clone()),
            asset: order.asset.clone(),
            settler: Some(order.payout_account.clone()),
            deposited: Some(order.source_amount),
            source_amount: Some(order.source_amount),
            terms_hash: order.terms_hash,
            quote_hash: order.quote_hash,
            reserve_deadline: order.escrow.reserve_deadline,
            fulfillment_deadline: order.escrow.fulfillment_deadline,
            fulfill_by: order.fulfill_by,
            refund_after: order.escrow.refund_after,
        }
    }

    /// Waits until the settler has its first process.
    pub async fn first_process(&self) {
        let scene = self.lock().scene;
        let from = if let Scene::Refunded { back, .. } = scene { back + self.depth() } else { 0 };
        while self.lock().block < from {
            sleep(BLOCK).await;
        }
    }

    /// Waits until the settler has another process.
    pub async fn next_process(&self) {
        let down = self.lock().draws.number(1, 20);
        sleep(Duration::from_secs(down)).await;
    }

    /// A process of the settler, and when it dies.
    pub fn begin_process(&self) -> CancellationToken {
        let mut inner = self.lock();
        inner.processes += 1;
        let dies = inner.processes <= DEATHS;
        inner.dies_after = dies.then(|| inner.draws.number(1, 40));
        inner.alive = CancellationToken::new();
        inner.alive.clone()
    }

    /// A call of the process, at which it may die.
    async fn call(&self) {
        let is_dead = {
            let mut inner = self.lock();
            inner.dies_after = inner.dies_after.map(|calls| calls.saturating_sub(1));
            if inner.dies_after == Some(0) {
                inner.alive.cancel();
            }
            inner.alive.is_cancelled()
        };
        if is_dead {
            pending::<()>().await;
        }
    }

    /// Some processes die when a delivery is on its way, and the next one has to find it by what the chain shows.
    fn may_die(&self) {
        let mut inner = self.lock();
        if inner.processes <= DEATHS && inner.draws.one_of(2) {
            inner.alive.cancel();
        }
    }

    /// Whether a call is lost.
    fn loses(&self) -> bool {
        let mut inner = self.lock();
        inner.block < TROUBLED && inner.draws.one_of(6)
    }

    /// The second of a block, and what the escrow has on record there.
    pub fn record_at(&self, depth: u64) -> (u64, Option<EscrowRecord>) {
        let inner = self.lock();
        let block = inner.block.saturating_sub(depth);
        let record = inner.records.iter().rev().find(|(from, _)| *from <= block).map(|(_, record)| record.clone());
        (self.now + block * BLOCK.as_secs(), record)
    }

    fn depth(&self) -> u64 {
        self.lock().depth
    }

    /// Takes a delivery into a block, which is what must not happen without a reason.
    fn take(&self, order: &DeliveryOrder) -> String {
        let depth = self.depth();
        let (time, record) = self.record_at(depth);
        let state = ReservationState::of(record.as_ref(), &self.order, time);
        let mut inner = self.lock();
        let block = inner.block;
        if let Some((mined, _)) = inner.deliveries.iter().find(|(_, delivered)| delivered == order) {
            return hash(*mined);
        }
        if state != ReservationState::Reserved {
            inner.violation.get_or_insert(format!("delivered in block {block} for what is {state:?}"));
        }
        inner.deliveries.push((block, order.clone()));
        if inner.deliveries.len() > 1 {
            let deliveries = inner.deliveries.len();
            inner.violation.get_or_insert(format!("delivered in block {block}, {deliveries} times by now"));
        }
        hash(block)
    }

    /// What does not hold of the settlement that ended so, or did not end.
    pub fn judge(&self, outcome: Option<&Outcome>) -> Result<(), String> {
        let inner = self.lock();
        if let Some(violation) = &inner.violation {
            return Err(format!("{:?}: {violation}", inner.scene));
        }
        let deliveries = inner.deliveries.len();
        let is_right = match (inner.scene, outcome) {
            (Scene::Mine { .. } | Scene::TakenBack { again: Some(_), .. }, Some(Outcome::Released)) => deliveries == 1,
            (Scene::TakenBack { again: None, .. } | Scene::Never, Some(Outcome::Lapsed))
            | (Scene::Theirs { .. } | Scene::OtherToken { .. }, Some(Outcome::Different { .. }))
            | (Scene::Refunded { .. }, Some(Outcome::Refunded)) => deliveries == 0,
            _ => false,
        };
        match is_right {
            true => Ok(()),
            false => Err(format!("{:?} ends as {outcome:?} after {deliveries} deliveries", inner.scene)),
        }
    }
}

impl Inner {
    fn settled(&self) -> u64 {
        self.block.saturating_sub(self.depth)
    }
}

fn hash(block: u64) -> String {
    Hash32([u8::try_from(block % 256).unwrap(); 32]).to_string()
}

/// Both chains at once: each is asked only for its own.
#[async_trait]
impl DeliveryChain for World {
    fn account(&self) -> &Account {
        &self.account
    }

    async fn balance(&self, _: &AssetId) -> Result<U256, Transient> {
        self.call().await;
        Ok(U256::from(1_000_000u64))
    }

    async fn reservation(&self, _: &PaymentId, _: &Account) -> Result<(u64, Option<EscrowRecord>), Transient> {
        self.call().await;
        if self.loses() {
            return Err(Transient::unreachable("lost"));
        }
        Ok(self.record_at(self.depth()))
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.call().await;
        if self.loses() {
            return Err(Transient::unreachable("lost"));
        }
        let inner = self.lock();
        let found = inner.deliveries.iter().find(|(_, delivered)| delivered == order);
        let Some((mined, _)) = found else { return Ok(DeliveryState::NotSeen) };
        let inclusion = Inclusion {
            chain_id: ChainId::evm(10),
            transaction_hash: hash(*mined),
            block_number: *mined,
            block_hash: hash(*mined),
            block_time: self.now + mined * BLOCK.as_secs(),
        };
        let is_settled = *mined <= inner.settled();
        Ok(if is_settled { DeliveryState::Final(inclusion) } else { DeliveryState::Seen(inclusion) })
    }

    async fn try_delivery(&self, _: &DeliveryOrder) -> Result<(), PerformError> {
        self.call().await;
        Ok(())
    }

    async fn deliver(&self, order: &DeliveryOrder) -> Result<String, PerformError> {
        self.call().await;
        if self.loses() {
            return Err(Transient::unreachable("lost").into());
        }
        let taken = self.take(order);
        self.may_die();
        self.call().await;
        if self.loses() {
            return Err(Transient::unreachable("the answer is lost").into());
        }
        Ok(taken)
    }

    fn signed_by(&self, _: &Statement, _: &EscrowPlan, _: &Account, _: &str) -> bool {
        true
    }

    async fn release(&self, _: &PaymentId, _: &EscrowPlan, _: &str) -> Result<String, PerformError> {
        Err(Transient::unreachable("no verifier attests here").into())
    }

    async fn next_block(&self) {
        sleep(BLOCK).await;
    }
}
