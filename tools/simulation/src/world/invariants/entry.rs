//! The invariants of one payment: its record, and the evidence that each of its events needs.

use std::collections::{BTreeMap, BTreeSet};

use chains::escrow::EscrowRecord;
use escrow_abi::contracts::units;
use events::{
    Account, Amount, Did, Hash32, PaymentEvent, PaymentId,
    event::{
        EscrowOpened, Failed, FulfillmentConfirmed, Inclusion, RefundDue, Submitted, TransactionAbandoned,
        TransactionPrepared, WithdrawalCause,
    },
    quote::SignedQuote,
    time::unix_seconds,
};
use sagas::{
    payment::{Payment, Stage},
    ports::AwardAnswer,
};

use super::{Violation, require, unreadable};
use crate::{
    coverage,
    family::Delivered,
    world::{ChainHandle, World, auction::AuctionState},
};

/// Seconds without faults, from the confirmed delivery to the refund window, in which the gateway must have signed a release: it
/// has half of them at least.
const RELEASE_SIGNED_WITHIN: u64 = 240;
/// Seconds in which it must have landed, too: nonces that were lost before are filled one after the other, and each takes minutes.
const RELEASED_WITHIN: u64 = 900;

/// How a payment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Completed,
    Failed,
}

/// The record of one payment.
pub(super) struct Entry {
    pub(super) submitted: Submitted,
    /// The quote awarded last.
    pub(super) quote: Option<SignedQuote>,
    /// All that were ever awarded.
    pub(super) quotes: BTreeMap<Hash32, SignedQuote>,
    /// Those that the escrow was reserved for, in a settled block, in order.
    pub(super) reserved: Vec<Hash32>,
    /// Those of them whose time ended without a delivery, and when that was recorded, in the world's UNIX seconds.
    pub(super) lapsed: Vec<(Hash32, u64)>,
    /// Reassignments in canonical blocks when they were looked at last.
    pub(super) reassigned_in_blocks: u32,
    /// The settlers of those that lapsed.
    pub(super) faded: BTreeSet<Did>,
    /// The most that a quote of the first auction asks for, smallest unit.
    pub(super) dearest: Option<Amount>,
    /// What was deposited, smallest unit.
    pub(super) deposited: Option<Amount>,
    pub(super) end: Option<End>,
    /// Failed with nothing to refund, so nothing may ever be in escrow.
    pub(super) free: bool,
    pub(super) state: Option<Payment>,
    /// Commits in the state.
    pub(super) version: u64,
    pub(super) deposits: BTreeMap<u32, Vec<TransactionPrepared>>,
    pub(super) refunds: BTreeMap<u32, Vec<TransactionPrepared>>,
    pub(super) releases: BTreeMap<u32, Vec<TransactionPrepared>>,
    pub(super) reassignments: BTreeMap<u32, Vec<TransactionPrepared>>,
    /// When its delivery was found at its depth without an attestation, in the world's UNIX seconds.
    pub(super) finalized_at: Option<u64>,
    /// When its delivery was found attested, in the world's UNIX seconds.
    pub(super) confirmed_at: Option<u64>,
    /// Members of the verifier set whose statements are on record, the quote, and whether they are of its delivery.
    pub(super) on_record: BTreeSet<(Account, Hash32, bool)>,
}

impl Entry {
    /// The record of a payment that begins.
    pub(super) fn new(submitted: Submitted) -> Self {
        Self {
            submitted,
            quote: None,
            quotes: BTreeMap::new(),
            reserved: Vec::new(),
            lapsed: Vec::new(),
            reassigned_in_blocks: 0,
            faded: BTreeSet::new(),
            dearest: None,
            deposited: None,
            end: None,
            free: false,
            state: None,
            version: 0,
            deposits: BTreeMap::new(),
            refunds: BTreeMap::new(),
            releases: BTreeMap::new(),
            reassignments: BTreeMap::new(),
            finalized_at: None,
            confirmed_at: None,
            on_record: BTreeSet::new(),
        }
    }

    pub(super) fn rests(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.stage() == Stage::Rest)
    }

    pub(super) fn look(
        &mut self,
        world: &World,
        payment_id: &PaymentId,
        event: &PaymentEvent,
    ) -> Result<(), Violation> {
        match event {
            PaymentEvent::AddressFunded(_) | PaymentEvent::AddressHeld(_) => {
                let what = format!("{payment_id} has a deposit address, and none is given in a simulated world");
                return Err(Violation::new("payments are of those submitted", what));
            }
            PaymentEvent::QuoteAwarded(awarded) => {
                coverage::checked("quotes are signed");
                let quote = SignedQuote::parse(&awarded.document);
                let quote = quote.map_err(|error| Violation::new("quotes are signed", error.to_string()))?;
                let chosen = world.choices.holds(payment_id.as_str(), quote.hash());
                require(chosen || self.submitted.selector.is_none(), "the payer's selector chooses", || {
                    format!("{payment_id}: nobody chose {}", quote.hash())
                })?;
                let permitted = self.submitted.authorization.permitted();
                require(quote.quote().source_amount <= permitted, "no more is taken than was permitted", || {
                    format!("{payment_id}: {:?}", quote.quote())
                })?;
                self.awarded_anew(quote.quote())?;
                self.quotes.insert(quote.hash(), quote.clone());
                self.quote = Some(quote);
            }
            PaymentEvent::DepositPrepared(prepared) => {
                self.agreed(world)?;
                self.draws(world, prepared)?;
                self.deposits.entry(prepared.attempt).or_default().push(prepared.clone());
            }
            PaymentEvent::DepositRepriced(prepared) => {
                self.deposits.entry(prepared.attempt).or_default().push(prepared.clone());
            }
            PaymentEvent::RefundPrepared(prepared) | PaymentEvent::RefundRepriced(prepared) => {
                self.refunds.entry(prepared.attempt).or_default().push(prepared.clone());
            }
            // It may be gone when it is looked at.
            PaymentEvent::DepositMined(_) | PaymentEvent::PayerTransactionSent(_) => {}
            PaymentEvent::DepositAbandoned(abandoned) => self.abandoned(world, abandoned, &self.deposits)?,
            PaymentEvent::ReleasePrepared(prepared) | PaymentEvent::ReleaseRepriced(prepared) => {
                self.releases.entry(prepared.attempt).or_default().push(prepared.clone());
            }
            PaymentEvent::ReleaseAbandoned(abandoned) => self.abandoned(world, abandoned, &self.releases)?,
            PaymentEvent::RefundAbandoned(abandoned) => self.abandoned(world, abandoned, &self.refunds)?,
            PaymentEvent::EscrowSecured(secured) => {
                included(world, &secured.inclusion, "a secured escrow is settled")?;
                let record = self.record(world, payment_id)?;
                let right = record
                    .is_some_and(|record| self.quote.as_ref().is_some_and(|quote| record.quote_hash == quote.hash()));
                require(right, "a secured escrow is settled", || format!("{payment_id} is not in escrow"))?;
                self.deposited = Some(secured.amount);
                self.reserved.extend(self.quote.as_ref().map(SignedQuote::hash));
            }
            PaymentEvent::FulfillmentFinalized(finalized) => {
                self.ended(payment_id, End::Completed)?;
                self.finalized_at = Some(world.seconds());
                self.settled_delivery(world, payment_id, &finalized.inclusion)?;
                self.not_attested_at_once(world)?;
            }
            PaymentEvent::DeliveryAttested(attested) => self.member_attested(world, attested, true)?,
            PaymentEvent::NonDeliveryAttested(attested) => self.member_attested(world, attested, false)?,
            PaymentEvent::AttestationMissed(_) => {
                let handle = world.chain(&self.submitted.escrow.chain_id);
                let time = handle.map(|handle| handle.settled().1);
                let lapsed = time.is_none_or(|time| time >= self.submitted.escrow.refund_after);
                require(lapsed, "who delivered in time is paid", || {
                    format!("{payment_id} could be released, and {time:?} is settled")
                })?;
            }
            PaymentEvent::AttestationAwaited(awaited) => {
                let invariant = "a delivery whose attestation is awaited is for good";
                included(world, &awaited.inclusion, invariant)?;
                let block = self.delivery(world);
                require(block == Some(awaited.inclusion.block_number), invariant, || {
                    format!("{payment_id} was delivered in {block:?}, not in {}", awaited.inclusion.block_number)
                })?;
            }
            PaymentEvent::FulfillmentConfirmed(confirmed) => {
                // Completed by its depth, once, and attested then, once.
                if self.finalized_at.is_none() || self.confirmed_at.is_some() {
                    self.ended(payment_id, End::Completed)?;
                }
                self.confirmed_at = Some(world.seconds());
                self.confirmed(world, payment_id, confirmed)?;
            }
            PaymentEvent::Failed(failed) => {
                self.ended(payment_id, End::Failed)?;
                self.failed(world, payment_id, failed)?;
            }
            PaymentEvent::EscrowReleased(released) => {
                included(world, &released.inclusion, "a payout is settled")?;
                require(self.end == Some(End::Completed), "who failed keeps the money", || payment_id.to_string())?;
            }
            PaymentEvent::EscrowRefunded(refunded) => {
                included(world, &refunded.inclusion, "a payout is settled")?;
                let early = refunded.inclusion.block_time < self.submitted.escrow.refund_after;
                require(!(early && self.delivered(world)), "who delivered in time is paid", || {
                    format!("{payment_id} was delivered, and cancelled")
                })?;
                self.left_unreleased(world, payment_id)?;
            }
            PaymentEvent::ReservationLapsed(lapsed) => self.reservation_lapsed(world, lapsed)?,
            PaymentEvent::ReassignmentPrepared(prepared) => {
                self.reassigns(world)?;
                self.reassignments.entry(prepared.attempt).or_default().push(prepared.clone());
            }
            PaymentEvent::ReassignmentRepriced(prepared) => {
                coverage::party("reassignment is signed again with higher fees");
                self.reassignments.entry(prepared.attempt).or_default().push(prepared.clone());
            }
            PaymentEvent::ReassignmentAbandoned(abandoned) => self.abandoned(world, abandoned, &self.reassignments)?,
            PaymentEvent::EscrowReassigned(reassigned) => self.reassigned(world, &reassigned.inclusion)?,
            PaymentEvent::EscrowOpened(opened) => self.stranded(world, payment_id, opened)?,
            PaymentEvent::DepositRuledOut(_) => self.ruled_out(world, payment_id)?,
            PaymentEvent::AwardLapsed(lapsed) => {
                coverage::checked("who lost an award has nothing to deliver");
                let awarded = self.quote.as_ref().is_some_and(|quote| quote.hash() == lapsed.quote_hash);
                require(awarded, "who lost an award has nothing to deliver", || {
                    format!("{payment_id}: {} was not awarded", lapsed.quote_hash)
                })?;
                self.passed_over(world, payment_id, lapsed.quote_hash)?;
                let told = world.auctions.is_ended(payment_id, lapsed.quote_hash);
                require(told, "the winner hears of the end", || payment_id.to_string())?;
            }
            PaymentEvent::AwardWithdrawn(withdrawn) => {
                if let Some(quote) = self.quote.as_ref().filter(|_| withdrawn.cause != WithdrawalCause::NotDeposited) {
                    self.passed_over(world, payment_id, quote.hash())?;
                }
            }
            PaymentEvent::WinnerTold(_) => {
                let hash = self.quote.as_ref().map(SignedQuote::hash);
                let told = hash.is_some_and(|hash| world.auctions.is_ended(payment_id, hash));
                require(told, "the winner hears of the end", || payment_id.to_string())?;
            }
            PaymentEvent::Submitted(_)
            | PaymentEvent::SelectorAsked(_)
            | PaymentEvent::SelectorAnswered(_)
            | PaymentEvent::FulfillmentSeen(_) => {}
            PaymentEvent::AuctionClosed(closed) => {
                if self.reserved.is_empty() {
                    self.dearest = closed.quotes.iter().map(|quote| quote.source_amount).max();
                }
            }
        }
        Ok(())
    }

    /// An award is taken back only where its settler was heard, or too late.
    fn passed_over(&self, world: &World, payment_id: &PaymentId, quote_hash: Hash32) -> Result<(), Violation> {
        let answer = world.auctions.answered(payment_id, quote_hash);
        let is_lost = matches!(answer, Some(AwardAnswer::Refused(_) | AwardAnswer::Silent));
        require(is_lost, "who accepted is not passed over", || format!("{payment_id}: {answer:?}"))
    }

    /// What was delivered for good is refunded to the payer only where there was no time for a release without faults, to have
    /// it attested included.
    fn left_unreleased(&self, world: &World, payment_id: &PaymentId) -> Result<(), Violation> {
        let Some(delivered_at) = self.confirmed_at.or(self.finalized_at) else { return Ok(()) };
        let calm = crate::world::BEGIN + world.plan.faults_end_after.as_secs();
        let (begin, end) = (delivered_at.max(calm), self.submitted.escrow.refund_after);
        let is_unsigned = self.confirmed_at.is_some() && self.releases.is_empty();
        let within = if is_unsigned { RELEASE_SIGNED_WITHIN } else { RELEASED_WITHIN };
        require(begin + within > end, "who delivered and is attested is paid in time", || {
            let signed = self.releases.len();
            format!(
                "{payment_id} could be released without a fault from {begin} to {end}, and was not; {signed} signed"
            )
        })
    }

    fn ended(&mut self, payment_id: &PaymentId, end: End) -> Result<(), Violation> {
        let before = self.end.replace(end);
        require(before.is_none(), "terminal states never change", || format!("{payment_id}: {before:?}, then {end:?}"))
    }

    /// The winner was told and agreed, before its escrow is signed for.
    pub(super) fn agreed(&self, world: &World) -> Result<(), Violation> {
        let payment_id = &self.submitted.payment_id;
        let is = |holds: fn(&AuctionState, &PaymentId, Hash32) -> bool| {
            self.quote.as_ref().is_some_and(|quote| holds(&world.auctions, payment_id, quote.hash()))
        };
        require(is(AuctionState::is_awarded), "the winner is told before money moves", || payment_id.to_string())?;
        require(is(AuctionState::has_accepted), "the winner agrees before money moves", || payment_id.to_string())
    }

    pub(super) fn record(&self, world: &World, payment_id: &PaymentId) -> Result<Option<EscrowRecord>, Violation> {
        let Some(chain) = world.chain(&self.submitted.escrow.chain_id) else { return Ok(None) };
        chain.escrow_record(payment_id).map_err(|error| unreadable(payment_id, &error))
    }

    /// Whether the very delivery that an awarded quote is for is on its chain.
    pub(super) fn delivered(&self, world: &World) -> bool {
        self.quotes.values().any(|quote| self.delivery_of(world, quote).is_some())
    }

    /// The block of the very delivery that the quote awarded last is for.
    fn delivery(&self, world: &World) -> Option<u64> {
        self.delivery_of(world, self.quote.as_ref()?)
    }

    /// The block of the very delivery that a quote is for.
    pub(super) fn delivery_of(&self, world: &World, signed: &SignedQuote) -> Option<u64> {
        let handle = world.chain(signed.quote().destination.asset().chain())?;
        let deliveries = handle.deliveries(&self.submitted.payment_id);
        deliveries.into_iter().find(|(_, delivered)| self.is_delivery(delivered, signed)).map(|(block, _)| block)
    }

    /// Whether this is the very delivery that a quote is for.
    pub(super) fn is_delivery(&self, delivered: &Delivered, signed: &SignedQuote) -> bool {
        let quote = signed.quote();
        delivered.quote_hash == signed.hash()
            && delivered.settler == quote.delivery_account
            && delivered.asset == *quote.destination.asset()
            && delivered.recipient == *quote.destination.account()
            && delivered.amount == units(self.submitted.terms.fulfillment_amount)
            && delivered.fulfill_by == unix_seconds(quote.fulfill_by)
    }

    /// The delivery is where it is said to be, for good.
    fn settled_delivery(&self, world: &World, payment_id: &PaymentId, inclusion: &Inclusion) -> Result<(), Violation> {
        included(world, inclusion, "a completed payment is delivered for good")?;
        let block = self.delivery(world);
        require(block == Some(inclusion.block_number), "a completed payment is delivered for good", || {
            format!("{payment_id} was delivered in {block:?}, not in {}", inclusion.block_number)
        })
    }

    fn confirmed(
        &self,
        world: &World,
        payment_id: &PaymentId,
        confirmed: &FulfillmentConfirmed,
    ) -> Result<(), Violation> {
        self.settled_delivery(world, payment_id, &confirmed.inclusion)?;
        let attestation = &confirmed.attestation;
        let holds = self.quote.as_ref().is_some_and(|quote| self.is_attested(world, quote, attestation));
        require(holds, "a completed payment is attested", || format!("{payment_id}: {attestation}"))
    }

    fn failed(&mut self, world: &World, payment_id: &PaymentId, failed: &Failed) -> Result<(), Violation> {
        let invariant = "a payment fails on evidence only";
        let Some(handle) = world.chain(&self.submitted.escrow.chain_id) else { return Ok(()) };
        if failed.refund == RefundDue::Nothing {
            return self.failed_free(handle, failed);
        }
        if self.is_payer_deposit() && self.reserved.is_empty() {
            // Nobody can be named for it any more.
            let record = handle.escrow_record(payment_id).map_err(|error| unreadable(payment_id, &error))?;
            let (_, time) = handle.settled();
            let is_stranded = record.is_some_and(|record| record.settler.is_none());
            let until = self.submitted.escrow.reserve_deadline;
            return require(is_stranded && time > until, invariant, || {
                format!("{payment_id} could be reserved until {until}, and {time} is settled")
            });
        }
        // What is on chain is what counts, and not what was to take its place.
        let Some(signed) = self.reservation() else {
            return Err(Violation::new(invariant, format!("{payment_id} has no quote and owes a refund")));
        };
        let quote = signed.quote();
        require(!self.delivered(world), "a delivered payment never fails", || {
            format!("{payment_id} fails with {}", failed.failure.code)
        })?;
        let Some(destination) = world.chain(quote.destination.asset().chain()) else { return Ok(()) };
        let (_, time) = destination.settled();
        let fulfill_by = unix_seconds(quote.fulfill_by);
        if let RefundDue::ByNonDelivery { attestation } = &failed.refund {
            let holds = self.is_nondelivery(world, signed, attestation);
            require(holds, "a refund ahead of its time is attested", || format!("{payment_id}: {attestation}"))?;
        }
        self.not_reassigned(world, handle)?;
        require(time > fulfill_by, invariant, || {
            format!("{payment_id} could be delivered until {fulfill_by}, and {time} is settled")
        })
    }

    fn is_payer_deposit(&self) -> bool {
        self.submitted.authorization.is_payer_deposit()
    }

    /// A payment fails free of charge where nothing can be deposited any more; where the payer's own transaction deposits, where
    /// nobody can be paid out of it any more.
    fn failed_free(&mut self, handle: &ChainHandle, failed: &Failed) -> Result<(), Violation> {
        let (invariant, payment_id) = ("a payment fails on evidence only", self.submitted.payment_id.clone());
        let record = handle.escrow_record(&payment_id).map_err(|error| unreadable(&payment_id, &error))?;
        self.free = !self.is_payer_deposit();
        let is_nobodys = record.as_ref().is_none_or(|record| !self.free && record.settler.is_none());
        require(is_nobodys, invariant, || format!("{payment_id} is in escrow: {record:?}"))?;
        let (_, time) = handle.settled();
        let deposits = || self.deposits.values().flatten();
        let open = deposits().filter_map(|prepared| handle.admitted_until(prepared)).max();
        // No escrow takes a deposit past this.
        let is_late = time > self.submitted.escrow.reserve_deadline;
        for prepared in deposits().filter(|prepared| handle.admitted_until(prepared).is_none()) {
            let over = handle.is_over(prepared);
            require(is_late || over.is_ok(), invariant, || format!("{payment_id} may be deposited: {over:?}"))?;
        }
        require(open.is_none_or(|until| time > until), invariant, || {
            let said = &failed.failure;
            format!("{payment_id} could be deposited until {open:?}, and {time} is settled: {said:?}")
        })
    }

    /// The payer's own deposit is settled, and nobody can be named for it.
    fn stranded(&self, world: &World, payment_id: &PaymentId, opened: &EscrowOpened) -> Result<(), Violation> {
        let invariant = "a stranded deposit is settled";
        coverage::party("payer's deposit is stranded");
        included(world, &opened.inclusion, invariant)?;
        let record = self.record(world, payment_id)?;
        let is_stranded = record.as_ref().is_some_and(|record| record.settler.is_none());
        let holds = is_stranded && self.is_payer_deposit() && opened.reserved_for.is_none();
        require(holds, invariant, || format!("{payment_id}: {opened:?} of {record:?}"))
    }

    /// The payer's own deposit was not made, and cannot be made any more.
    fn ruled_out(&mut self, world: &World, payment_id: &PaymentId) -> Result<(), Violation> {
        coverage::party("payer's deposit is ruled out");
        self.free = true;
        let record = self.record(world, payment_id)?;
        let time = world.chain(&self.submitted.escrow.chain_id).map(|handle| handle.settled().1);
        let until = self.submitted.escrow.reserve_deadline;
        let holds = record.is_none() && time > Some(until) && self.is_payer_deposit();
        require(holds, "a deposit is ruled out when it can never be made", || {
            format!("{payment_id} could be deposited until {until}, and {time:?} is settled: {record:?}")
        })
    }

    /// An attempt is given up only when none of its versions can ever land.
    fn abandoned(
        &self,
        world: &World,
        abandoned: &TransactionAbandoned,
        attempts: &BTreeMap<u32, Vec<TransactionPrepared>>,
    ) -> Result<(), Violation> {
        let invariant = "a transaction is given up only when it can never land";
        for prepared in attempts.get(&abandoned.attempt).into_iter().flatten() {
            let Some(handle) = world.chain(&prepared.chain_id) else { continue };
            let over = handle.is_over(prepared);
            require(over.is_ok(), invariant, || format!("{over:?}"))?;
        }
        Ok(())
    }
}

/// The transaction is in a settled block, the one that it is said to be in.
pub(super) fn included(world: &World, inclusion: &Inclusion, invariant: &'static str) -> Result<(), Violation> {
    let Some(handle) = world.chain(&inclusion.chain_id) else {
        return Err(Violation::new(invariant, format!("{} is not a chain", inclusion.chain_id)));
    };
    let found = handle.holds(inclusion);
    require(found.is_ok(), invariant, || format!("{inclusion:?} {found:?}"))
}
