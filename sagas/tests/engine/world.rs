//! The small world in memory that the engine's tests run in.
//!
//! It is only as deep as the engine's promises need it: a deposit that is broadcast is mined, a reserved escrow is
//! delivered against, and everything that would cost money twice is counted.

mod chains;
pub mod escrow;
mod stores;

use journal::{ShardLeases, ShardLog, StreamStore};

use super::*;

/// What happens in the world of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plot {
    /// The settler delivers and fetches its money.
    Delivers,
    /// The settler never delivers.
    Vanishes,
    /// The winner doesn't stand by its quote.
    WinnerRefuses,
    /// The winner doesn't answer its award.
    WinnerIsSilent,
    /// Three settlers bid, and this becomes of their awards.
    Lapses(lapses::Lapse),
    /// The chain refuses the deposit.
    Refuses,
    /// The chain refuses the deposit, because somebody who was shown it has sent it.
    Usurped,
    /// The first deposit's nonce is taken by another transaction.
    Superseded,
    /// Neither deposit nor refund is taken into a block before it offers more; the settler never delivers.
    Dear,
    /// As `Dear`, but what lands in the end is the version that was sent first.
    DearAtFirst,
    /// The settler never delivers, and the chain refuses the releaser's word for it.
    WordRefused,
    /// The settler never delivers; the cancellation that is sent lands too late to be taken.
    WordTooLate,
    /// The auction is not configured before second 20, and then nobody bids.
    Misconfigured,
    /// Nobody bids.
    NoQuotes,
    /// The settler never delivers and the verifier never answers.
    SilentVerifier,
    /// The settler delivers, but the verifier never answers.
    Unattested,
    /// The settler delivers and never fetches its money.
    Idle,
    /// As `Idle`, and a release is not taken into a block before it offers more.
    IdleDear,
    /// As `Idle`, and the first release that is sent can never land.
    IdleLost,
    /// As `Idle`, and the release is settled just before it is asked for, at a node that knows nothing of it.
    IdleHidden,
    /// The settler brings its release when the gateway's is on its way.
    Overtaken,
    /// As `Idle`, and the escrow refuses every release.
    Unreleasable,
    /// As `Idle`, and no release that is sent lands, which is known of the first only once the refund window is open.
    LandsTooLate,
    /// As `Delivers`, and the deposit is in a block before that block is settled.
    MinedFirst,
    /// As `MinedFirst`, and the nodes that are asked in turn are on two forks.
    MinedOnForks,
    /// The settler delivers, and the verifier answers only long after.
    AttestedLate,
    /// As `AttestedLate`, and meanwhile the node of the source chain says that the refund window is open.
    LapsedByOneNode,
    /// As `AttestedLate`, and meanwhile a reorganisation takes the delivery to this block, or away.
    Reorganised(Option<u64>),
    /// The settler delivers, and the verifier answers only in the second in which the refund window opens.
    AttestedTooLate,
    /// The settler delivers, and the verifier says up to this second that it does not see it. Nobody releases before that.
    Doubted(i64),
    /// The settler delivers, and the verifier takes the question and keeps it.
    AttestationHangs,
    /// The settler delivers and brings its attestation; the verifier answers nobody else.
    AttestedElsewhere,
    /// The releaser is a set of verifiers, and this becomes of their answers.
    Set(verifier_sets::Members),
    /// The payer's selector does this with the quotes of two settlers.
    Selector(selection::Conduct),
    /// The journal was restored from a copy that knows no deposit of the payment.
    Restored(restored::Escrow),
    /// The payment was deposited for before the loss, the copy lacks it, and it was submitted again.
    Resubmitted(restored::Resubmitted),
    /// The payer deposits by transactions of its own.
    PayerDeposits(payer_deposit::PayerPlot),
    /// The money is at a deposit address, and nobody sold anything for it.
    Addressed(deposit_address::Emptied),
    /// Winners fade after the deposit, and the escrow is reassigned.
    Reassigns(reassignment::Course),
}

/// Second up to which a deposit that was refused when it was tried out may be sent by whoever saw it.
pub const REFUSED_UNTIL: i64 = 20;

/// Second at which the block that holds the deposit is settled.
pub const MINED_UNTIL: i64 = 14;

#[derive(Default)]
pub struct State {
    pub now: i64,
    /// Deposits by hash, with the number of times each was sent.
    pub deposits: BTreeMap<String, u32>,
    pub refunds: BTreeMap<String, u32>,
    /// The hash of the deposit that took effect.
    pub effective: Option<String>,
    pub refunded: bool,
    /// The gateway's releases by hash, with the number of times each was sent.
    pub releases: BTreeMap<String, u32>,
    pub released: bool,
    pub awards: u32,
    /// What the losers were told.
    pub over: Vec<AuctionOver>,
    /// What the winner was told of the end.
    pub ends: Vec<AwardEnd>,
    /// How often a selector was asked, or an auction that may not be configured.
    pub asked: u32,
    /// Hashes of all that was ever sent.
    pub sent: BTreeSet<String>,
    pub payer_deposit: payer_deposit::PayerDepositState,
    /// The escrow of a payment that is reassigned.
    pub reserved: escrow::Reserved,
    /// The payloads that each port was shown, by what it was asked for.
    pub payloads: BTreeMap<&'static str, Vec<Payload>>,
    /// The payments of which the process that runs was told what their escrows commit to.
    pub expected: BTreeSet<PaymentId>,
}

pub struct World {
    pub plot: Plot,
    pub state: Mutex<State>,
    pub journal: MemoryJournal,
    /// Port calls so far.
    pub calls: AtomicU32,
    /// The call at which the process dies, and whether it dies before or after the call's effect.
    pub stop_at: Option<(u32, bool)>,
    pub stopped: Notify,
    /// On average one call in so many fails, in a fixed but irregular pattern: at even steps a call that is repeated
    /// together with the one before it would fail for ever.
    pub fault_one_in: Option<u32>,
    /// The call at which the code that makes it panics.
    pub panic_at: Option<u32>,
}

impl World {
    pub fn new(plot: Plot) -> Self {
        Self {
            plot,
            state: Mutex::default(),
            journal: MemoryJournal::new(4),
            calls: AtomicU32::new(0),
            stop_at: None,
            stopped: Notify::new(),
            fault_one_in: None,
            panic_at: None,
        }
    }

    pub fn is_dear(&self) -> bool {
        match self.plot {
            Plot::Dear | Plot::DearAtFirst => true,
            Plot::IdleDear => self.state.lock().unwrap().effective.is_some(),
            _ => false,
        }
    }

    /// Whether the first refund or release that was sent can never land.
    fn is_lost(&self, state: &State) -> bool {
        match self.plot {
            Plot::WordTooLate | Plot::LandsTooLate => state.now > 100,
            Plot::IdleLost | Plot::IdleHidden => !state.releases.is_empty(),
            _ => false,
        }
    }

    /// Every port call passes through here: it may be the process's last, before or after its effect.
    pub async fn call<T>(&self, effect: impl FnOnce(&mut State) -> T) -> Result<T, Transient> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let dies = |after| self.stop_at == Some((number, after));
        if dies(false) {
            self.die().await;
        }
        assert!(self.panic_at != Some(number), "as the test wants it");
        if self.fault_one_in.is_some_and(|n| toss(number).is_multiple_of(u64::from(n))) {
            return Err(Transient::unreachable("injected"));
        }
        let result = effect(&mut self.state.lock().unwrap());
        if dies(true) {
            self.die().await;
        }
        Ok(result)
    }

    async fn die(&self) {
        self.state.lock().unwrap().expected.clear();
        self.stopped.notify_one();
        std::future::pending::<()>().await;
    }
}

/// SplitMix64 of the call's number, which has no period that a loop of calls could fall into step with.
fn toss(number: u32) -> u64 {
    let mixed = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Prices until a dear chain takes a transaction.
pub const PRICES: u32 = 3;

pub fn vanishes(plot: Plot) -> bool {
    match plot {
        Plot::Vanishes | Plot::SilentVerifier | Plot::Dear | Plot::DearAtFirst => true,
        Plot::WordRefused | Plot::WordTooLate => true,
        Plot::Delivers | Plot::Refuses | Plot::Usurped | Plot::Superseded | Plot::NoQuotes | Plot::Unattested => false,
        Plot::Idle | Plot::IdleDear | Plot::IdleLost | Plot::IdleHidden => false,
        Plot::Overtaken | Plot::Unreleasable => false,
        Plot::LandsTooLate | Plot::LapsedByOneNode | Plot::Reorganised(_) | Plot::Doubted(_) => false,
        Plot::AttestedLate | Plot::AttestationHangs | Plot::AttestedElsewhere | Plot::Misconfigured => false,
        Plot::AttestedTooLate | Plot::MinedOnForks | Plot::Restored(_) | Plot::Resubmitted(_) => false,
        Plot::MinedFirst | Plot::Selector(_) | Plot::Lapses(_) | Plot::WinnerRefuses | Plot::WinnerIsSilent => false,
        Plot::Set(members) => members.vanishes(),
        Plot::PayerDeposits(plot) => plot.vanishes(),
        // See `escrow`.
        Plot::Addressed(_) => false,
        // See `escrow`.
        Plot::Reassigns(_) => false,
    }
}

/// Whether nobody but the gateway releases, or not in time.
pub fn idle(plot: Plot) -> bool {
    matches!(plot, Plot::Idle | Plot::IdleDear | Plot::IdleLost | Plot::IdleHidden)
        || matches!(plot, Plot::Overtaken | Plot::Unreleasable | Plot::LandsTooLate)
}

/// Whether nobody releases before the refund window opens.
pub fn lapses(plot: Plot) -> bool {
    vanishes(plot)
        || matches!(plot, Plot::Unattested | Plot::AttestedTooLate | Plot::Doubted(i64::MAX))
        || plot == Plot::Set(verifier_sets::Members::AloneUntil(i64::MAX))
}

/// What a deposit puts in escrow.
pub fn drawn(plot: Plot) -> events::Amount {
    if let Plot::PayerDeposits(_) = plot { payer_deposit::cap() } else { amount("1010") }
}

pub fn context(reason: &str) -> BlockchainContext {
    BlockchainContext {
        chain_id: ChainId::evm(1),
        transaction_hash: None,
        block_number: None,
        contract_address: None,
        revert_reason: Some(reason.to_owned()),
        gas_used: None,
        estimated_gas_needed: None,
    }
}

pub fn escrowed(state: &State) -> bool {
    state.effective.is_some() && !state.refunded
}

#[async_trait]
impl Verifier for World {
    async fn attest_delivery(
        &self,
        verifier: &VerifierMember,
        case: &VerificationCase,
    ) -> Result<Option<String>, Transient> {
        if let Plot::Set(members) = self.plot {
            return verifier_sets::answer(self, members, verifier).await;
        }
        if let Plot::Reassigns(_) = self.plot {
            return self.verdict(&verifier.account, case, true).await;
        }
        let silent = match self.plot {
            Plot::Unattested | Plot::AttestedElsewhere => true,
            Plot::AttestationHangs if self.state.lock().unwrap().asked == 0 => {
                self.state.lock().unwrap().asked += 1;
                return std::future::pending().await;
            }
            Plot::AttestedLate | Plot::LapsedByOneNode | Plot::Reorganised(_) => self.state.lock().unwrap().now < 70,
            Plot::AttestedTooLate => self.state.lock().unwrap().now < 100,
            Plot::Doubted(until) if self.state.lock().unwrap().now < until => return self.call(|_| None).await,
            _ => false,
        };
        if silent {
            return Err(Transient::unreachable("verifier is silent"));
        }
        self.call(|state| {
            state.payloads.insert("delivery", case.payloads.clone());
            Some("0xgood".to_owned())
        })
        .await
    }

    async fn attest_non_delivery(
        &self,
        verifier: &VerifierMember,
        case: &VerificationCase,
    ) -> Result<Option<String>, Transient> {
        if let Plot::Set(members) = self.plot {
            return verifier_sets::answer(self, members, verifier).await;
        }
        if let Plot::Reassigns(_) = self.plot {
            return self.verdict(&verifier.account, case, false).await;
        }
        if self.plot == Plot::SilentVerifier {
            return Err(Transient::unreachable("verifier is silent"));
        }
        self.call(|state| {
            state.payloads.insert("non-delivery", case.payloads.clone());
            Some("0xgood".to_owned())
        })
        .await
    }

    fn follows_reassignments(&self, verifier: &VerifierMember) -> bool {
        let is_known = matches!(self.plot, Plot::Reassigns(course) if course.is_larger());
        is_known || self.state.lock().unwrap().reserved.follow.contains(&verifier.account)
    }
}

#[async_trait]
impl Auction for World {
    async fn gather(&self, request: &RequestForQuotes) -> Result<Gathered, Transient> {
        if self.plot == Plot::Misconfigured {
            let mut state = self.state.lock().unwrap();
            state.asked += 1;
            if state.now < 20 {
                return Err(Transient::misconfigured("the auction is not configured"));
            }
        }
        self.call(|state| {
            state.now = state.now.max(10);
            assert_eq!(request.terms, submission().terms);
            state.payloads.insert("quotes", request.payloads.clone());
            if let Plot::Reassigns(_) = self.plot {
                return self.gathered_for_reserved(state, request);
            }
            let addressed = vec![did(1)];
            let unsold = Plot::Resubmitted(restored::Resubmitted::Unsold);
            if matches!(self.plot, Plot::NoQuotes | Plot::Misconfigured) || self.plot == unsold {
                return Gathered { addressed, bids: Vec::new(), ..Gathered::default() };
            }
            if matches!(self.plot, Plot::Lapses(_)) {
                return lapses::gathered(&request.auction_id);
            }
            if matches!(self.plot, Plot::Selector(_)) {
                return match &request.payment_id {
                    Some(_) => selection::gathered(),
                    None => selection::gathered_for_batch(),
                };
            }
            let quote = Quote { auction_id: request.auction_id.clone(), valid_until: at(50), ..quote(1, "1010") };
            let answer = Answer::Quote(signed(1, quote).document().to_owned());
            let bids = vec![Bid { settler: did(1).token(), received_at: at(3), answer }];
            let gathered = Gathered { addressed, bids, ..Gathered::default() };
            if let Plot::PayerDeposits(plot) = self.plot {
                payer_deposit::gathered(plot, state, gathered)
            } else {
                gathered
            }
        })
        .await
    }

    async fn award(&self, award: &Award) -> Result<(), Transient> {
        self.call(|state| {
            state.payloads.insert("award", award.case.payloads.clone());
            state.awards += 1;
            state.reserved.winners.insert(award.quote_hash, award.settler.clone());
        })
        .await
    }

    async fn answer(&self, award: &Award) -> Result<AwardAnswer, Transient> {
        self.call(|state| {
            assert!(state.awards > 0, "nobody answers what it was not told");
            match self.plot {
                Plot::WinnerRefuses => AwardAnswer::Refused("INSUFFICIENT_LIQUIDITY".to_owned()),
                Plot::WinnerIsSilent => AwardAnswer::Silent,
                Plot::Lapses(lapse) => lapses::answer(lapse, award),
                Plot::Reassigns(course) => reassignment::answer(course, award),
                _ => AwardAnswer::Accepted,
            }
        })
        .await
    }

    fn follows_reassignments(&self, _: &events::Did) -> bool {
        matches!(self.plot, Plot::Reassigns(course) if course.is_larger())
    }

    async fn over(&self, over: &AuctionOver) {
        self.state.lock().unwrap().over.push(over.clone());
    }

    async fn end(&self, end: &AwardEnd) -> Result<(), Transient> {
        self.call(|state| state.ends.push(end.clone())).await
    }
}
