//! The invariants of escrows whose reservation lapsed: nobody loses one before its time, nobody gets one that may not have it, and
//! whoever delivered in time keeps it.

use alloy::primitives::U256;

use chains::escrow::State;
use escrow_abi::contracts::units;
use events::{
    Did, Hash32,
    event::{Inclusion, ReservationLapsed, TransactionPrepared},
    quote::{Quote, SignedQuote, reassignment_auction_of},
    time::unix_seconds,
};
use sagas::{
    auction::takes_any_quote,
    ports::{Award, Escrowed, RequestForQuotes},
};

use super::{
    FINAL_WITHIN, Invariants, Violation,
    entry::{End, Entry, included},
    require,
};
use crate::{
    coverage,
    family::{Change, Delivered, Happened, Reassigned},
    world::{ChainHandle, World},
};

/// So near to the end of a promise a reorganisation decides whether it was kept.
const MOMENT_SECONDS: u64 = 25;
const NOT_EARLY: &str = "a reservation lasts as long as its promise";
const ATTESTED: &str = "a reservation ends on its verifiers' word";
const AS_DEPOSITED: &str = "no reassignment above what was deposited, or past the payer's deadline";
const NOT_AGAIN: &str = "who did not deliver is not asked again";
const NO_MORE: &str = "reassigned no more often than allowed";

impl Entry {
    /// A deposit draws more than the winner asks for only where a dearer one may follow, and all follow that have to.
    pub(super) fn draws(&self, world: &World, prepared: &TransactionPrepared) -> Result<(), Violation> {
        let source = world.chain(&self.submitted.escrow.chain_id);
        // Where the payer's own transaction deposits, that is as it must be.
        let source = source.filter(|source| source.deposits_the_price());
        let amount = source.and_then(|source| source.draws(prepared));
        let (Some(amount), Some(quote)) = (amount, &self.quote) else { return Ok(()) };
        coverage::party("deposit is larger than the price");
        let settler = world.settlers().iter().find(|settler| settler.did == quote.quote().settler);
        let may = takes_any_quote(&self.submitted)
            && amount <= self.may_draw()
            && world.plan.verifiers.follow()
            && settler.is_some_and(|settler| settler.plan.follows);
        require(may, "a larger deposit is for those who may follow", || {
            format!("{}: {amount} for {:?}", self.submitted.payment_id, quote.quote())
        })
    }

    /// The most that may be drawn of the payer: what the first winner asks for, or what the dearest does that may follow it.
    pub(super) fn may_draw(&self) -> U256 {
        let first = self.reserved.first().and_then(|hash| self.quotes.get(hash)).or(self.quote.as_ref());
        let price = first.map(|quote| quote.quote().source_amount);
        let dearest = self.dearest.filter(|_| takes_any_quote(&self.submitted));
        price.max(dearest).map(units).unwrap_or_default()
    }

    /// The quote that the escrow is reserved for, by what is recorded; the one that won before anything is.
    pub(super) fn reservation(&self) -> Option<&SignedQuote> {
        self.reserved.last().and_then(|hash| self.quotes.get(hash)).or(self.quote.as_ref())
    }

    /// Whether another settler is looked for.
    fn is_reopened(&self) -> bool {
        !self.reserved.is_empty() && self.reserved.len() == self.lapsed.len()
    }

    fn escrowed(&self) -> Option<Escrowed> {
        let (amount, reserved_for) = (self.deposited?, self.reserved.last().copied()?);
        self.is_reopened().then_some(Escrowed { amount, reserved_for })
    }

    /// A quote that wins what is in escrow fits it.
    pub(super) fn awarded_anew(&self, quote: &Quote) -> Result<(), Violation> {
        if self.reserved.is_empty() {
            return Ok(());
        }
        let payment_id = &self.submitted.payment_id;
        require(self.is_reopened(), "one reservation at a time", || format!("{payment_id}: {quote:?}"))?;
        let fits = self.deposited.is_some_and(|deposited| quote.source_amount <= deposited)
            && unix_seconds(quote.fulfill_by) <= self.submitted.escrow.fulfillment_deadline;
        require(fits, AS_DEPOSITED, || format!("{payment_id}: {quote:?} of {:?}", self.deposited))?;
        let round = reassignment_auction_of(&self.submitted.payment_id, self.lapsed.len());
        require(quote.auction_id == round, "one reservation at a time", || format!("{payment_id}: {quote:?}"))?;
        require(!self.faded.contains(&quote.settler), NOT_AGAIN, || format!("{payment_id}: {quote:?}"))
    }

    /// A reservation lapses on evidence only, and only where the payer took any quote.
    pub(super) fn reservation_lapsed(&mut self, world: &World, lapsed: &ReservationLapsed) -> Result<(), Violation> {
        let payment_id = &self.submitted.payment_id;
        let Some(signed) = self.reservation().cloned().filter(|_| !self.reserved.is_empty() && !self.is_reopened())
        else {
            return Err(Violation::new("one reservation at a time", format!("{payment_id} is not reserved")));
        };
        let (quote, escrow) = (signed.quote(), &self.submitted.escrow);
        let is_it = lapsed.quote_hash == signed.hash() && lapsed.settler == quote.settler;
        require(is_it, "one reservation at a time", || format!("{payment_id}: {lapsed:?} of {quote:?}"))?;
        require(takes_any_quote(&self.submitted), "whom the payer chose nobody follows", || payment_id.to_string())?;
        let destination = world.chain(quote.destination.asset().chain());
        let (time, fulfill_by) = (destination.map(|handle| handle.settled().1), unix_seconds(quote.fulfill_by));
        require(time > Some(fulfill_by), NOT_EARLY, || {
            format!("{payment_id} may be delivered until {fulfill_by}, and {time:?} is settled")
        })?;
        require(!self.delivered(world), "who delivered in time is paid", || {
            format!("{payment_id} was delivered, and its reservation lapses")
        })?;
        require(self.is_nondelivery(world, &signed, &lapsed.attestation), ATTESTED, || {
            format!("{payment_id}: {}", lapsed.attestation)
        })?;
        require(world.plan.verifiers.follow(), "no reassignment that verifiers do not follow", || {
            payment_id.to_string()
        })?;
        let is_time = unix_seconds(lapsed.quote_deadline) < escrow.fulfillment_deadline;
        require(is_time, AS_DEPOSITED, || format!("{payment_id}: quotes until {}", lapsed.quote_deadline))?;
        let most = usize::try_from(world.plan.lapses.reassignments_max).unwrap_or(usize::MAX);
        require(self.lapsed.len() < most, NO_MORE, || format!("{payment_id}: {} of {most}", self.lapsed.len() + 1))?;
        coverage::party("reservation lapses");
        self.lapsed.push((signed.hash(), world.seconds()));
        self.faded.insert(quote.settler.clone());
        Ok(())
    }

    /// A reassignment is signed to a winner that agreed, within what was deposited.
    pub(super) fn reassigns(&self, world: &World) -> Result<(), Violation> {
        let payment_id = &self.submitted.payment_id;
        require(self.is_reopened(), "one reservation at a time", || payment_id.to_string())?;
        self.agreed(world)
    }

    /// The escrow is reserved for the new winner, for good.
    pub(super) fn reassigned(&mut self, world: &World, inclusion: &Inclusion) -> Result<(), Violation> {
        let invariant = "a reassigned escrow is settled";
        let payment_id = &self.submitted.payment_id;
        included(world, inclusion, invariant)?;
        let record = self.record(world, payment_id)?;
        let Some(quote) = self.quote.as_ref().filter(|_| self.is_reopened()) else {
            return Err(Violation::new(invariant, format!("{payment_id} is reserved already")));
        };
        let right = record.as_ref().is_some_and(|record| {
            record.quote_hash == quote.hash()
                && record.deposited == self.deposited
                && record.source_amount == Some(quote.quote().source_amount)
        });
        require(right, invariant, || format!("{payment_id}: {record:?} is not of {}", quote.hash()))?;
        coverage::party(match self.lapsed.len() {
            1 => "escrow is reassigned",
            _ => "escrow is reassigned once more",
        });
        self.reserved.push(quote.hash());
        Ok(())
    }

    /// A payment that fails while another settler is looked for has none, and gets none.
    pub(super) fn not_reassigned(&self, world: &World, handle: &ChainHandle) -> Result<(), Violation> {
        if !self.is_reopened() {
            return Ok(());
        }
        let invariant = "a payment fails on evidence only";
        let payment_id = &self.submitted.payment_id;
        let record = self.record(world, payment_id)?;
        let is_over = record.as_ref().is_none_or(|record| matches!(record.state, State::Released | State::Refunded));
        let is_reserved = record.as_ref().is_some_and(|record| self.reserved.last() != Some(&record.quote_hash));
        require(is_over || !is_reserved, invariant, || format!("{payment_id} is reassigned: {record:?}"))?;
        let (_, time) = handle.settled();
        let signed = self.reassignments.values().flatten().filter_map(|prepared| handle.reassigns_to(prepared));
        let signed = signed.filter(|hash| !self.reserved.contains(hash)).filter_map(|hash| self.quotes.get(&hash));
        let until = signed.map(|quote| unix_seconds(quote.quote().fulfill_by)).max();
        coverage::party(match until {
            Some(_) => "payment fails after a reassignment was signed",
            None => "payment fails because nobody follows",
        });
        require(is_over || until.is_none_or(|until| time > until), invariant, || {
            format!("{payment_id} could be reassigned until {until:?}, and {time} is settled")
        })
    }

    /// What takes an escrow from one settler and gives it to another, in a block.
    pub(super) fn taken_over(
        &self,
        world: &World,
        handle: &ChainHandle,
        happened: &Happened,
        call: Option<&Reassigned>,
    ) -> Result<(), Violation> {
        let (payment_id, at) = (&self.submitted.payment_id, happened.time);
        let Some(Reassigned { previous, deposited, reservation, non_delivery }) = call else {
            return Err(Violation::new(ATTESTED, format!("{payment_id} by {}", happened.transaction)));
        };
        let quotes = |hash: &Hash32| self.quotes.get(hash);
        let (Some(before), Some(after)) = (quotes(previous), quotes(&reservation.quote_hash)) else {
            return Err(Violation::new("one reservation at a time", format!("{payment_id}: {reservation:?}")));
        };
        let until = unix_seconds(before.quote().fulfill_by);
        require(at > until, NOT_EARLY, || format!("{payment_id} at {at}, may be delivered until {until}"))?;
        require(self.is_nondelivery(world, before, non_delivery), ATTESTED, || {
            format!("{payment_id}: {non_delivery}")
        })?;
        require(self.delivery_of(world, before).is_none(), "who delivered in time is paid", || {
            format!("{payment_id} was delivered, and is given to another")
        })?;
        let quote = after.quote();
        let is_as_quoted = quote.payout_account == reservation.settler
            && units(quote.source_amount) == reservation.source_amount
            && unix_seconds(quote.fulfill_by) == reservation.fulfill_by
            && world.auctions.has_accepted(payment_id, after.hash());
        require(is_as_quoted, "the winner agrees before money moves", || format!("{payment_id}: {reservation:?}"))?;
        let fits = reservation.source_amount <= *deposited
            && reservation.fulfill_by <= self.submitted.escrow.fulfillment_deadline;
        require(fits, AS_DEPOSITED, || format!("{payment_id}: {reservation:?} of {deposited}"))?;
        let mut signed = self.reassignments.values().flatten().filter_map(|prepared| handle.reassigns_to(prepared));
        require(signed.any(|hash| hash == after.hash()), "intent before effect", || {
            format!("{payment_id} is reassigned by {}, and nothing is stored of it", happened.transaction)
        })?;
        require(self.end != Some(End::Failed), "who failed keeps the money", || {
            format!("{payment_id} failed, and is reassigned at {at}")
        })
    }

    /// What is delivered in a block in the terms of an awarded quote.
    pub(super) fn handed_over(&self, world: &World, delivered: &Delivered, at: u64) -> Result<(), Violation> {
        let payment_id = &self.submitted.payment_id;
        let Some(quote) = self.quotes.get(&delivered.quote_hash).filter(|quote| self.is_delivery(delivered, quote))
        else {
            return Ok(());
        };
        let until = unix_seconds(quote.quote().fulfill_by);
        require(at <= until, "nothing is delivered after its promise", || {
            format!("{payment_id} is delivered at {at}, promised until {until}")
        })?;
        let source = world.chain(&self.submitted.escrow.chain_id);
        let is_reserved = source.is_some_and(|source| source.was_reserved(payment_id, quote.hash()));
        require(is_reserved, "a settler delivers for its own settled reservation", || {
            format!("{payment_id} is delivered for {}", quote.hash())
        })?;
        let kept = self.quotes.values().filter(|quote| self.delivery_of(world, quote).is_some());
        let delivered: Vec<_> = kept.map(SignedQuote::hash).collect();
        require(delivered.len() <= 1, "a payment is delivered once", || format!("{payment_id}: {delivered:?}"))?;
        require(self.end != Some(End::Failed), "a delivered payment never fails", || {
            format!("{payment_id} failed, and is delivered at {at}")
        })
    }

    /// Once nothing stands in the way, a reservation that is over, and an escrow for which another settler is looked for, are dealt
    /// with.
    pub(super) fn moves_on(&self, world: &World, calm: u64) -> Result<(), Violation> {
        if self.reserved.is_empty() || self.end.is_some() {
            return Ok(());
        }
        let lapsed = self.lapsed.last().map_or(0, |(_, at)| *at);
        // Of an escrow that is to be reassigned the promise counts of whoever won it since, if anybody did.
        let promised = self.quote.as_ref().map_or(0, |quote| unix_seconds(quote.quote().fulfill_by));
        let due = calm.max(lapsed).max(promised) + FINAL_WITHIN;
        require(world.seconds() <= due, "every promise is acted on", || {
            let stage = self.state.as_ref().map(sagas::payment::Payment::stage);
            format!("{} is {stage:?}, promised until {promised}", self.submitted.payment_id)
        })
    }
}

impl Invariants {
    /// Whether a reorganisation of this chain could take a reassignment away now, or a delivery at the end of its promise.
    pub fn is_moment(&self, world: &World, handle: &ChainHandle) -> bool {
        let is_reassigned = |happened: &Happened| matches!(happened.change, Change::Reassigned(_));
        let mut promises = self.payments.values().filter(|entry| entry.end.is_none()).filter_map(Entry::reservation);
        let is_about_over = |signed: &SignedQuote| {
            let quote = signed.quote();
            quote.destination.asset().chain() == &handle.chain_id
                && world.seconds().abs_diff(unix_seconds(quote.fulfill_by)) < MOMENT_SECONDS
        };
        promises.any(is_about_over) || handle.changes(&mut |_| true).iter().any(is_reassigned)
    }

    /// Whoever is asked for quotes may be, and is told the truth about what is in escrow.
    pub fn asked(&self, settlers: &[Did], request: &RequestForQuotes) -> Result<(), Violation> {
        let Some(payment_id) = &request.payment_id else { return Ok(()) };
        let Some(entry) = self.payments.get(payment_id) else { return Ok(()) };
        let again = settlers.iter().find(|did| entry.faded.contains(did));
        require(again.is_none(), NOT_AGAIN, || format!("{payment_id}: {again:?}"))?;
        require(request.escrowed == entry.escrowed(), "settlers are told what is in escrow", || {
            format!("{payment_id}: {:?} is not {:?}", request.escrowed, entry.escrowed())
        })
    }

    /// Whoever is told that it won did, and is told the truth about what is in escrow.
    pub fn told(&self, award: &Award) -> Result<(), Violation> {
        let payment_id = &award.case.payment_id;
        let Some(entry) = self.payments.get(payment_id) else { return Ok(()) };
        require(!entry.faded.contains(&award.settler), NOT_AGAIN, || format!("{payment_id}: {}", award.settler))?;
        require(award.escrowed == entry.escrowed(), "settlers are told what is in escrow", || {
            format!("{payment_id}: {:?} is not {:?}", award.escrowed, entry.escrowed())
        })
    }
}
