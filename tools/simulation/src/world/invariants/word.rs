//! The invariants of attestations: whatever moves money ahead of its time is the true word of the payment's verifiers, of as many
//! of them as have to sign.

use std::collections::BTreeSet;

use events::{Family, event::MemberAttested, quote::SignedQuote, time::unix_seconds, verifier_set::SetAttestation};
use sagas::ports::Statement;

use super::{Invariants, Violation, entry::Entry, require};
use crate::{
    family::{Cancelled, Change, Happened, Released},
    world::{ChainHandle, World, thief::Prey},
};

/// Seconds without faults in which a delivery for good must have been attested by those who are willing.
const ATTESTED_WITHIN: u64 = 120;
/// Seconds after the end of faults in which what was under way may still suffer from them.
const CALMED_WITHIN: u64 = 30;
/// Seconds before the refund window opens in which clocks that differ may disagree about it.
const WINDOW_MARGIN: u64 = 10;

/// Whether `attestation` is the word of the world's verifiers. The plan says how many have to sign, and nothing that is broken in
/// a variant of the engine is asked.
fn is_word(world: &World, handle: &ChainHandle, statement: &Statement, attestation: &str) -> bool {
    let verifiers = world.verifiers().members();
    if let [single] = verifiers {
        return handle.is_signed_by(&single.account(handle.family), statement, attestation);
    }
    let Some(word) = SetAttestation::parse(handle.family, attestation) else { return false };
    let signers: BTreeSet<_> = word.signatures.iter().map(|(account, _)| account).collect();
    world.verifier(handle.family).is_some_and(|verifier| verifier.account == word.id)
        && signers.len() == word.signatures.len()
        && signers.len() == usize::from(world.plan.verifiers.threshold)
        && word.signatures.iter().all(|(account, bytes)| {
            verifiers.iter().any(|member| member.account(handle.family) == *account)
                && handle.is_signed_by(account, statement, &format!("0x{}", hex::encode(bytes)))
        })
}

impl Entry {
    fn delivery_statement(&self, quote: &SignedQuote) -> Statement {
        Statement::Delivery {
            payment_id: self.submitted.payment_id.clone(),
            quote_hash: quote.hash(),
            payout_account: quote.quote().payout_account.clone(),
        }
    }

    fn nondelivery_statement(&self, quote: &SignedQuote) -> Statement {
        Statement::NonDelivery { payment_id: self.submitted.payment_id.clone(), quote_hash: quote.hash() }
    }

    fn holds(&self, world: &World, statement: &Statement, attestation: &str) -> bool {
        let handle = world.chain(&self.submitted.escrow.chain_id);
        handle.is_some_and(|handle| is_word(world, handle, statement, attestation))
    }

    /// Whether it is the word of the verifiers that `quote` was delivered.
    pub(super) fn is_attested(&self, world: &World, quote: &SignedQuote, attestation: &str) -> bool {
        self.holds(world, &self.delivery_statement(quote), attestation)
    }

    /// Whether it is the word of the verifiers that `quote` was not delivered.
    pub(super) fn is_nondelivery(&self, world: &World, quote: &SignedQuote, attestation: &str) -> bool {
        self.holds(world, &self.nondelivery_statement(quote), attestation)
    }

    /// A member of the set is on record with its own statement, once.
    pub(super) fn member_attested(
        &mut self,
        world: &World,
        attested: &MemberAttested,
        is_delivery: bool,
    ) -> Result<(), Violation> {
        let payment_id = &self.submitted.payment_id;
        let Some(quote) = &self.quote else {
            return Err(Violation::new("a member on record made its statement", format!("{payment_id} has no quote")));
        };
        let statement = if is_delivery { self.delivery_statement(quote) } else { self.nondelivery_statement(quote) };
        let handle = world.chain(&self.submitted.escrow.chain_id);
        let is_own =
            handle.is_some_and(|handle| handle.is_signed_by(&attested.member, &statement, &attested.signature));
        let is_member = world.plan.verifiers.is_set() && world.verifiers().member(&attested.member).is_some();
        require(is_own && is_member, "a member on record made its statement", || {
            format!("{payment_id}: {attested:?}")
        })?;
        let is_new = self.on_record.insert((attested.member.clone(), quote.hash(), is_delivery));
        require(is_new, "a member is on record once", || format!("{payment_id}: {attested:?}"))
    }

    /// A delivery for good that is not attested at once, with time for it and as many verifiers willing as have to sign: those who
    /// are silent have held the others up.
    pub(super) fn not_attested_at_once(&self, world: &World) -> Result<(), Violation> {
        let now = world.seconds();
        let (from, until) =
            (calm(world) + CALMED_WITHIN, self.submitted.escrow.refund_after.saturating_sub(WINDOW_MARGIN));
        let in_time = world.faults_ended() && now > from && now < until;
        require(!in_time || !world.are_verifiers_enough(), "a silent verifier holds nobody up", || {
            format!("{} is delivered for good at {now}, and attested by nobody", self.submitted.payment_id)
        })
    }

    /// A delivery for good is attested while the escrow takes it, once nothing but a few verifiers stands in the way.
    pub(super) fn attested_in_time(&self, world: &World) -> Result<(), Violation> {
        let (Some(finalized_at), None, false) = (self.finalized_at, self.confirmed_at, self.rests()) else {
            return Ok(());
        };
        let (begin, now) = (finalized_at.max(calm(world)), world.seconds());
        let is_late = now > begin + ATTESTED_WITHIN && now < self.submitted.escrow.refund_after;
        require(!is_late || !world.are_verifiers_enough(), "a delivery is attested in time", || {
            format!("{} is not attested from {begin} to {now}", self.submitted.payment_id)
        })
    }

    /// A release rests on the word of the verifiers about the quote that it names, and that word is true: its delivery is settled.
    fn paid(&self, world: &World, happened: &Happened, call: Option<&Released>) -> Result<(), Violation> {
        let (payment_id, by) = (&self.submitted.payment_id, &happened.transaction);
        let invariant = "an escrow is released on its verifiers' word";
        let Some(Released { quote_hash, settler, attestation }) = call else {
            return Err(Violation::new(invariant, format!("{payment_id} by {by}")));
        };
        let Some(quote) = self.quotes.get(quote_hash) else {
            return Err(Violation::new(invariant, format!("{payment_id} for {quote_hash}, which won nothing")));
        };
        require(self.is_attested(world, quote, attestation), invariant, || {
            format!("{payment_id} by {by}: {attestation}")
        })?;
        let is_paid = quote.quote().payout_account == *settler;
        let settled = world.chain(quote.quote().destination.asset().chain()).map(|destination| destination.settled().0);
        // What was settled when it was attested is settled now.
        let is_delivered = self.delivery_of(world, quote).is_some_and(|block| Some(block) <= settled);
        require(is_paid && is_delivered, invariant, || {
            format!("{payment_id} is released to {settler}, and no delivery up to {settled:?} is settled")
        })
    }

    /// Money that goes back ahead of the refund window rests on the word of the verifiers, and that word is true.
    fn returned(
        &self,
        world: &World,
        handle: &ChainHandle,
        happened: &Happened,
        call: Option<&Cancelled>,
    ) -> Result<(), Violation> {
        if happened.time >= self.submitted.escrow.refund_after {
            return Ok(());
        }
        let (payment_id, by) = (&self.submitted.payment_id, &happened.transaction);
        let invariant = "an escrow is cancelled on its verifiers' word";
        let Some(Cancelled { quote_hash, non_delivery }) = call else {
            return Err(Violation::new(invariant, format!("{payment_id} by {by}")));
        };
        let Some(quote) = self.quotes.get(quote_hash) else {
            return Err(Violation::new(invariant, format!("{payment_id} for {quote_hash}, which won nothing")));
        };
        require(self.is_nondelivery(world, quote, non_delivery), invariant, || {
            format!("{payment_id} by {by}: {non_delivery}")
        })?;
        let fulfill_by = unix_seconds(quote.quote().fulfill_by);
        // Where blocks are late the chain's clock is behind, and the destination's decides; no escrow compares them.
        let at = if handle.family == Family::Evm { happened.time } else { world.seconds() };
        require(at > fulfill_by, "a reservation lasts as long as its promise", || {
            format!("{payment_id} is cancelled at {at}, and may be delivered until {fulfill_by}")
        })?;
        let destination = world.chain(quote.quote().destination.asset().chain());
        let time = destination.map(|destination| destination.settled().1);
        require(time > Some(fulfill_by) && !self.delivered(world), invariant, || {
            format!("{payment_id} is cancelled, could be delivered until {fulfill_by}, and {time:?} is settled")
        })
    }
}

/// When faults end, in the world's UNIX seconds.
fn calm(world: &World) -> u64 {
    crate::world::BEGIN + world.plan.faults_end_after.as_secs()
}

impl Invariants {
    /// Looks at all that happened in blocks that were not looked at before.
    pub(super) fn changes(&mut self, world: &World, handle: &ChainHandle) -> Result<(), Violation> {
        let blocks = &mut self.blocks;
        let changes = handle.changes(&mut |block| blocks.insert(block));
        for happened in changes {
            let mut entries = self.payments.iter();
            let found = entries.find(|(payment_id, _)| payment_id.on_chain() == happened.payment);
            let Some((_, entry)) = found else {
                // A payer may have deposited for what is no payment, and has it back.
                let is_stray = self.signed.keys().any(|payment_id| payment_id.on_chain() == happened.payment);
                if is_stray && happened.change == Change::Refunded(None) {
                    continue;
                }
                return Err(Violation::new("an escrow pays out once", format!("nobody's payment: {happened:?}")));
            };
            match &happened.change {
                Change::Released(call) => entry.paid(world, &happened, call.as_ref())?,
                Change::Refunded(call) => entry.returned(world, handle, &happened, call.as_ref())?,
                Change::Reassigned(call) => entry.taken_over(world, handle, &happened, call.as_ref())?,
                Change::Delivered(delivered) => entry.handed_over(world, delivered, happened.time)?,
            }
        }
        Ok(())
    }

    /// Escrows with money in them.
    pub fn prey(&self, world: &World) -> Vec<Prey> {
        let secured = |entry: &Entry| entry.state.as_ref().is_some_and(|state| state.secured.is_some());
        let open = self.payments.iter().filter(|(_, entry)| secured(entry) && !entry.rests());
        let prey = open.filter_map(|(payment_id, entry)| {
            let nondeliveries = entry.state.as_ref()?.lapsed_reservations.iter();
            Some(Prey {
                payment_id: payment_id.clone(),
                source: world.chain(&entry.submitted.escrow.chain_id)?.clone(),
                quote: entry.reservation()?.clone(),
                nondeliveries: nondeliveries
                    .map(|lapsed| (lapsed.event.quote_hash, lapsed.event.attestation.clone()))
                    .collect(),
            })
        });
        prey.collect()
    }
}
