//! A stub world without latency: chains, verifier and settlers answer the engine at once, so that only the engine and its
//! journal take time.
//!
//! A payment's chain events come in the order of an undisturbed one: its deposit is sent, found in escrow, its
//! delivery is seen, final, and the escrow released. The time from the answer that shows one of them to the question
//! for the next is the engine's own.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU16, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use chrono::Utc;
use tokio::sync::oneshot;

use devnet::network::{DESTINATION_ID, SOURCE_ID};
use events::{
    Account, Amount, ChainId, Did, Epochs, PaymentEvent, PaymentId, StreamId, VerifierMember,
    event::{EscrowOpened, EscrowPlan, EscrowSecured, Inclusion, TransactionPrepared, Validity},
    selection::SignedChoice,
};
use journal::{
    AppendError, Commit, Journal, ReadError, Recorded, ShardLeases, ShardLog, ShardWorker, StreamStore, WakeUp,
};
use sagas::ports::{
    Answer, Auction, AuctionOver, Award, AwardAnswer, AwardEnd, Bid, Chains, DeliveryOrder, DeliveryState,
    DepositOrder, DepositState, EscrowState, Gathered, OpenStreams, PayerDeposit, PrepareError, RefundOrder,
    ReleaseOrder, RequestForQuotes, SelectionRequest, Selector, Statement, TransactionState, Transient,
    VerificationCase, Verifier,
};

use crate::load::Latencies;

/// How long quotes are collected, as far as anybody asks: they are there at once.
pub const WINDOW: Duration = Duration::from_secs(900);
/// The world's settler, as `settler::dev::key` counts them.
pub const SETTLER: usize = 1;
/// Hex digits of a signed deposit, about as many as a real one has.
const RAW_DIGITS: usize = 2_400;

/// The world. Cheap to clone.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    journal: Arc<dyn Journal>,
    settler: Did,
    /// The settler's quote in each auction, taken out when it is asked for.
    quotes: Mutex<HashMap<String, String>>,
    in_flight: Mutex<HashMap<PaymentId, PaymentInFlight>>,
    times: Mutex<Times>,
    commits: AtomicU64,
    loads: AtomicU64,
    owned: AtomicU16,
}

/// The engine's own time.
#[derive(Debug, Clone)]
pub struct Times {
    /// From the acknowledged submission until the deposit is sent: waking up, auction, award, signing.
    pub to_deposit: Latencies,
    /// Between two chain events, each.
    pub between_events: Latencies,
}

/// A payment on its way.
struct PaymentInFlight {
    /// The last thing that happened to it.
    since: Instant,
    submitted: bool,
    sent: bool,
    seen: bool,
    ended: Option<oneshot::Sender<()>>,
}

/// Chain events of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happening {
    DepositSent,
    Secured,
    Seen,
    Final,
    Released,
}

impl World {
    /// A world over this journal, whose settler is `settler`.
    pub fn new(journal: Arc<dyn Journal>, settler: Did) -> Self {
        Self(Arc::new(Inner {
            journal,
            settler,
            quotes: Mutex::default(),
            in_flight: Mutex::default(),
            times: Mutex::new(Times::new()),
            commits: AtomicU64::new(0),
            loads: AtomicU64::new(0),
            owned: AtomicU16::new(0),
        }))
    }

    /// Gives the settler its quotes, by auction.
    pub fn quotes(&self, quotes: impl IntoIterator<Item = (String, String)>) {
        lock(&self.0.quotes).extend(quotes);
    }

    /// Announces a payment; the receiver is told once it is at rest.
    pub fn expect(&self, payment_id: PaymentId) -> oneshot::Receiver<()> {
        let (ended, told) = oneshot::channel();
        let payment =
            PaymentInFlight { since: Instant::now(), submitted: false, sent: false, seen: false, ended: Some(ended) };
        lock(&self.0.in_flight).insert(payment_id, payment);
        told
    }

    /// Commits stored and streams loaded since the last call of this.
    pub fn take_counts(&self) -> (u64, u64) {
        (self.0.commits.swap(0, Ordering::Relaxed), self.0.loads.swap(0, Ordering::Relaxed))
    }

    /// The engine's own time since the last call of this.
    pub fn take_times(&self) -> Times {
        std::mem::replace(&mut lock(&self.0.times), Times::new())
    }

    /// How many shards are owned through this world now.
    pub fn owned(&self) -> u16 {
        self.0.owned.load(Ordering::Relaxed)
    }

    /// `happening` is asked for, and shown at once.
    fn happens(&self, payment_id: &PaymentId, happening: Happening) {
        let mut in_flight = lock(&self.0.in_flight);
        let Some(payment) = in_flight.get_mut(payment_id) else { return };
        let now = Instant::now();
        let took = now - payment.since;
        payment.since = now;
        drop(in_flight);
        let mut times = lock(&self.0.times);
        match happening {
            Happening::DepositSent => times.to_deposit.record(took),
            Happening::Secured | Happening::Seen | Happening::Final | Happening::Released => {
                times.between_events.record(took);
            }
        }
    }

    /// A commit is stored.
    pub fn stored(&self, commit: &Commit) {
        self.0.commits.fetch_add(1, Ordering::Relaxed);
        let Some(payment_id) = commit.stream_id.payment() else { return };
        let event = commit.events.last().and_then(|event| event.payment());
        let mut in_flight = lock(&self.0.in_flight);
        let Some(payment) = in_flight.get_mut(payment_id) else { return };
        match event {
            Some(PaymentEvent::Submitted(_)) if !payment.submitted => {
                payment.submitted = true;
                payment.since = Instant::now();
            }
            Some(PaymentEvent::EscrowReleased(_)) => {
                let took = payment.since.elapsed();
                let ended = payment.ended.take();
                in_flight.remove(payment_id);
                drop(in_flight);
                // The last event counts until it is stored.
                lock(&self.0.times).between_events.record(took);
                if let Some(ended) = ended {
                    // Whoever announced it may have given up.
                    let _ = ended.send(());
                }
            }
            _ => {}
        }
    }
}

impl Times {
    fn new() -> Self {
        Self { to_deposit: Latencies::new(), between_events: Latencies::new() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every use is whole by itself.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A transaction in a block of the chain.
pub fn inclusion(chain: u64, kind: u8) -> Inclusion {
    Inclusion {
        chain_id: ChainId::evm(chain),
        transaction_hash: format!("0x{kind:064x}"),
        block_number: 7_000_000 + u64::from(kind),
        block_hash: format!("0x{:064x}", 0xb10c_0000_u64 + u64::from(kind)),
        block_time: Utc::now().timestamp().unsigned_abs(),
    }
}

/// The deposit, found in escrow.
pub fn secured(amount: Amount) -> EscrowSecured {
    EscrowSecured { inclusion: inclusion(SOURCE_ID, 1), amount, deposit: None }
}

/// The bytes of a deposit, which name its payment.
pub fn raw(payment_id: &PaymentId) -> String {
    let id: String = payment_id.as_str().bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{id:0<RAW_DIGITS$}")
}

/// The payment that a deposit's bytes name.
fn payment_of(raw: &str) -> Option<PaymentId> {
    let digits = raw.strip_prefix("0x")?.as_bytes();
    let bytes = digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let text: Vec<u8> = bytes.map_while(|byte| byte.filter(|byte| *byte != 0)).collect();
    String::from_utf8(text).ok()?.parse().ok()
}

#[async_trait]
impl Chains for World {
    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        Ok(TransactionPrepared {
            attempt,
            chain_id: order.escrow.chain_id.clone(),
            sender: order.escrow.reserver.clone(),
            validity: Validity::Nonce(u64::from(attempt)),
            transaction_hash: events::Hash32::sha256(order.payment_id.as_str()).to_string(),
            raw: raw(&order.payment_id),
            prepared_at: Utc::now(),
        })
    }

    async fn prepare_refund(&self, _: &RefundOrder, _: u32) -> Result<TransactionPrepared, PrepareError> {
        Err(PrepareError::Transient(Transient::misconfigured("nothing is refunded here")))
    }

    async fn prepare_release(&self, _: &ReleaseOrder, _: u32) -> Result<TransactionPrepared, PrepareError> {
        Err(PrepareError::Transient(Transient::misconfigured("settlers release here")))
    }

    async fn reprice(&self, _: &[TransactionPrepared]) -> Result<Option<TransactionPrepared>, Transient> {
        Ok(None)
    }

    async fn broadcast(&self, transaction: &TransactionPrepared) -> Result<(), Transient> {
        let payment_id = payment_of(&transaction.raw);
        let payment_id = payment_id.ok_or_else(|| Transient::misconfigured("a deposit that was not made here"))?;
        if let Some(payment) = lock(&self.0.in_flight).get_mut(&payment_id) {
            payment.sent = true;
        }
        self.happens(&payment_id, Happening::DepositSent);
        Ok(())
    }

    async fn deposit_state(&self, order: &DepositOrder, _: &[TransactionPrepared]) -> Result<DepositState, Transient> {
        let sent = lock(&self.0.in_flight).get(&order.payment_id).is_some_and(|payment| payment.sent);
        if !sent {
            return Ok(DepositState::Pending);
        }
        self.happens(&order.payment_id, Happening::Secured);
        Ok(DepositState::Secured(secured(order.reservation.source_amount)))
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        let seen = lock(&self.0.in_flight)
            .get_mut(&order.payment_id)
            .is_some_and(|payment| std::mem::replace(&mut payment.seen, true));
        let inclusion = inclusion(DESTINATION_ID, 2);
        if seen {
            self.happens(&order.payment_id, Happening::Final);
            return Ok(DeliveryState::Final(inclusion));
        }
        self.happens(&order.payment_id, Happening::Seen);
        Ok(DeliveryState::Seen(inclusion))
    }

    async fn escrow_state(&self, payment_id: &PaymentId, _: &EscrowPlan) -> Result<EscrowState, Transient> {
        self.happens(payment_id, Happening::Released);
        Ok(EscrowState::Released(inclusion(SOURCE_ID, 3)))
    }

    async fn deposit_secured(&self, _: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        Ok(None)
    }

    async fn payer_has_escrow(
        &self,
        _: &PaymentId,
        _: &EscrowPlan,
        _: &events::Account,
    ) -> Result<(bool, u64), Transient> {
        Ok((false, 0))
    }

    async fn escrow_found(&self, _: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        Ok(None)
    }

    async fn deposit_ruled_out(&self, _: &PaymentId, _: &EscrowPlan, _: u64) -> Result<bool, Transient> {
        Ok(false)
    }

    async fn transaction_state(&self, _: &[TransactionPrepared]) -> Result<TransactionState, Transient> {
        Ok(TransactionState::Pending)
    }

    async fn attestation_holds(&self, _: &Statement, _: &EscrowPlan, _: &str) -> Result<bool, Transient> {
        Ok(true)
    }

    async fn signed_by(&self, _: &Statement, _: &EscrowPlan, _: &Account, signature: &str) -> Result<bool, Transient> {
        Ok(!signature.is_empty())
    }

    async fn next_block(&self, _: &ChainId) {
        tokio::task::yield_now().await;
    }
}

#[async_trait]
impl Verifier for World {
    async fn attest_delivery(&self, _: &VerifierMember, _: &VerificationCase) -> Result<Option<String>, Transient> {
        Ok(Some(format!("0x{:0130x}", 1)))
    }

    async fn attest_non_delivery(&self, _: &VerifierMember, _: &VerificationCase) -> Result<Option<String>, Transient> {
        Ok(None)
    }
}

#[async_trait]
impl Auction for World {
    async fn gather(&self, request: &RequestForQuotes) -> Result<Gathered, Transient> {
        let document = lock(&self.0.quotes).remove(&request.auction_id);
        let document = document.ok_or_else(|| Transient::contradiction("the settler has no quote for this"))?;
        let settler = self.0.settler.clone();
        let bid = Bid { settler: settler.token(), received_at: Utc::now(), answer: Answer::Quote(document) };
        Ok(Gathered { addressed: vec![settler], bids: vec![bid], ..Gathered::default() })
    }

    async fn award(&self, _: &Award) -> Result<(), Transient> {
        Ok(())
    }

    async fn answer(&self, _: &Award) -> Result<AwardAnswer, Transient> {
        Ok(AwardAnswer::Accepted)
    }

    async fn over(&self, _: &AuctionOver) {}

    async fn end(&self, _: &AwardEnd) -> Result<(), Transient> {
        Ok(())
    }
}

#[async_trait]
impl Selector for World {
    async fn choose(&self, _: &SelectionRequest) -> Result<SignedChoice, Transient> {
        Err(Transient::misconfigured("nobody chooses here"))
    }
}

#[async_trait]
impl OpenStreams for World {
    async fn open_streams(&self, _: u16, _: u64) -> Result<Vec<StreamId>, Transient> {
        // The journal is empty when the engine starts.
        Ok(Vec::new())
    }
}

/// The real journal, whose commits are counted, and the shards that are owned.
#[async_trait]
impl StreamStore for World {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        let recorded = self.0.journal.append(commit).await?;
        self.stored(commit);
        Ok(recorded)
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.0.loads.fetch_add(1, Ordering::Relaxed);
        self.0.journal.load(stream_id).await
    }
}

#[async_trait]
impl ShardLog for World {
    fn epochs(&self) -> Epochs {
        self.0.journal.epochs()
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        self.0.journal.replay(shard, from, limit).await
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        self.0.journal.head(shard).await
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        self.0.journal.wait_beyond(shard, sequence).await
    }
}

#[async_trait]
impl ShardLeases for World {
    async fn work(&self, shard: u16, owner: &str) -> Box<dyn ShardWorker> {
        let worker = self.0.journal.work(shard, owner).await;
        Box::new(CountedWorker { worker, world: self.clone(), owns: false })
    }
}

/// A worker of the journal, whose shard counts as owned while it is.
struct CountedWorker {
    worker: Box<dyn ShardWorker>,
    world: World,
    owns: bool,
}

impl CountedWorker {
    fn set_owns(&mut self, owns: bool) {
        match (self.owns, owns) {
            (false, true) => self.world.0.owned.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.world.0.owned.fetch_sub(1, Ordering::Relaxed),
            (true, true) | (false, false) => return,
        };
        self.owns = owns;
    }
}

#[async_trait]
impl ShardWorker for CountedWorker {
    async fn next(&mut self) -> Result<WakeUp, ReadError> {
        let wake_up = self.worker.next().await?;
        match wake_up {
            WakeUp::Acquired => self.set_owns(true),
            WakeUp::Lost => self.set_owns(false),
            WakeUp::Event { .. } => {}
        }
        Ok(wake_up)
    }

    async fn release(mut self: Box<Self>) {
        self.set_owns(false);
        self.worker.release().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deposit_names_its_payment() {
        let payment_id = PaymentId::derive("bench", "one");
        assert_eq!(payment_of(&raw(&payment_id)), Some(payment_id.clone()));
        assert_eq!(raw(&payment_id).len(), 2 + RAW_DIGITS);
        assert_eq!((payment_of("0x00"), payment_of("zz")), (None, None));
    }
}
