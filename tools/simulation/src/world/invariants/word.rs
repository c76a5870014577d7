//! The invariants of attestations: whatever moves money ahead of its time is the true word of the payment's verifiers, of as many
//! of them as have to sign.

use std::collections::BTreeSet;

use alloy::sol_types::SolCall;

use chains_evm::attest;
use escrow_abi::contracts::{GatewayEscrow, address, word};
use events::{
    Account, Family, Hash32, event::MemberAttested, quote::SignedQuote, time::unix_seconds,
    verifier_set::SetAttestation,
};
use sagas::ports::Statement;

use super::{Invariants, Violation, entry::Entry, require, settled};
use crate::{
    chain::{Change, PaymentChange},
    world::{ChainHandle, World, thief::Prey},
};

/// Seconds without faults in which a delivery for good must have been attested by those who are willing.
const ATTESTED_WITHIN: u64 = 120;
/// Seconds after the end of faults in which what was under way may still suffer from them.
const CALMED_WITHIN: u64 = 30;
/// Seconds before the refund window opens in which clocks that differ may disagree about it.
const WINDOW_MARGIN: u64 = 10;

/// Whether `signature` is the statement signed by the key of `account`.
fn is_signed_by(handle: &ChainHandle, account: &Account, statement: &Statement, signature: &str) -> bool {
    address(account).is_ok_and(|account| {
        attest::verify_statement(account, statement, handle.evm_id, handle.contracts.escrow, signature)
    })
}

/// Whether `attestation` is the word of the world's verifiers. The plan says how many have to sign, and nothing that is broken in
/// a variant of the engine is asked.
fn is_word(world: &World, handle: &ChainHandle, statement: &Statement, attestation: &str) -> bool {
    let verifiers = world.verifiers().members();
    if let [single] = verifiers {
        return is_signed_by(handle, &single.account, statement, attestation);
    }
    let Some(word) = SetAttestation::parse(Family::Evm, attestation) else { return false };
    let signers: BTreeSet<_> = word.signatures.iter().map(|(account, _)| account).collect();
    word.id == world.verifier.account
        && signers.len() == word.signatures.len()
        && signers.len() == usize::from(world.plan.verifiers.threshold)
        && word.signatures.iter().all(|(account, bytes)| {
            verifiers.iter().any(|member| member.account == *account)
                && is_signed_by(handle, account, statement, &format!("0x{}", hex::encode(bytes)))
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
            handle.is_some_and(|handle| is_signed_by(handle, &attested.member, &statement, &attested.signature));
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

    /// A payout ahead of the refund window rests on the word of the verifiers about the quote that it names, and that word is true.
    fn paid_out(&self, world: &World, handle: &ChainHandle, change: &PaymentChange) -> Result<(), Violation> {
        let is_release = change.change == Change::Released;
        if !is_release && change.time >= self.submitted.escrow.refund_after {
            return Ok(());
        }
        let (payment_id, input) = (&self.submitted.payment_id, &change.input);
        let called = match is_release {
            _ if change.to != Some(handle.contracts.escrow) => None,
            true => GatewayEscrow::releaseCall::abi_decode(input).ok().map(|call| (call.e, call.attestation)),
            false => GatewayEscrow::cancelCall::abi_decode(input).ok().map(|call| (call.e, call.nonDelivery)),
        };
        let invariant = match is_release {
            true => "an escrow is released on its verifiers' word",
            false => "an escrow is cancelled on its verifiers' word",
        };
        let Some((terms, attestation)) = called else {
            return Err(Violation::new(invariant, format!("{payment_id} by {}", change.transaction)));
        };
        let Some(quote) = self.quotes.get(&Hash32(terms.quoteHash.0)) else {
            return Err(Violation::new(invariant, format!("{payment_id} for {}, which won nothing", terms.quoteHash)));
        };
        let attestation = format!("0x{}", hex::encode(attestation));
        let said = || format!("{payment_id} by {}: {attestation}", change.transaction);
        if is_release {
            require(self.is_attested(world, quote, &attestation), invariant, said)?;
            let is_paid = address(&quote.quote().payout_account) == Ok(terms.settler);
            return require(is_paid && self.delivery_of(world, quote).is_some(), invariant, || {
                format!("{payment_id} is released to {}, and was not delivered", terms.settler)
            });
        }
        require(self.is_nondelivery(world, quote, &attestation), invariant, said)?;
        let fulfill_by = unix_seconds(quote.quote().fulfill_by);
        require(change.time > fulfill_by, "a reservation lasts as long as its promise", || {
            format!("{payment_id} is cancelled at {}, and may be delivered until {fulfill_by}", change.time)
        })?;
        let destination = world.chain(quote.quote().destination.asset().chain());
        let time = destination.map(|destination| settled(&destination.lock()).1);
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
        let changes = handle.lock().changes(|block| blocks.insert(block));
        for change in changes {
            let mut entries = self.payments.iter();
            let found = entries.find(|(payment_id, _)| word(payment_id.on_chain()) == change.payment_id);
            let Some((_, entry)) = found else {
                return Err(Violation::new("an escrow pays out once", format!("nobody's payment: {change:?}")));
            };
            match &change.change {
                Change::Released | Change::Refunded => entry.paid_out(world, handle, &change)?,
                Change::Reassigned => entry.taken_over(world, handle, &change)?,
                Change::Delivered(event) => entry.handed_over(world, event, change.time)?,
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
