//! The invariants of attestations: whatever moves money ahead of its time is the true word of the payment's verifiers, of as many
//! of them as have to sign.

use std::collections::BTreeSet;

use alloy::sol_types::SolCall;

use chains_evm::attest;
use escrow_abi::contracts::{GatewayEscrow, address, word};
use events::{Account, Family, event::MemberAttested, time::unix_seconds, verifier_set::SetAttestation};
use sagas::ports::Statement;

use super::{Invariants, Violation, entry::Entry, require, settled};
use crate::{
    chain::Payout,
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
    fn delivery_statement(&self) -> Option<Statement> {
        let quote = self.quote.as_ref()?;
        Some(Statement::Delivery {
            payment_id: self.submitted.payment_id.clone(),
            quote_hash: quote.hash(),
            payout_account: quote.quote().payout_account.clone(),
        })
    }

    fn nondelivery_statement(&self) -> Option<Statement> {
        let quote_hash = self.quote.as_ref()?.hash();
        Some(Statement::NonDelivery { payment_id: self.submitted.payment_id.clone(), quote_hash })
    }

    fn holds(&self, world: &World, statement: Option<Statement>, attestation: &str) -> bool {
        let handle = world.chain(&self.submitted.escrow.chain_id);
        statement.zip(handle).is_some_and(|(statement, handle)| is_word(world, handle, &statement, attestation))
    }

    /// The delivery is confirmed by the word of the verifiers.
    pub(super) fn is_attested(&self, world: &World, attestation: &str) -> bool {
        self.holds(world, self.delivery_statement(), attestation)
    }

    /// The refund rests on the word of the verifiers.
    pub(super) fn is_nondelivery(&self, world: &World, attestation: &str) -> bool {
        self.holds(world, self.nondelivery_statement(), attestation)
    }

    /// A member of the set is on record with its own statement, once.
    pub(super) fn member_attested(
        &mut self,
        world: &World,
        attested: &MemberAttested,
        is_delivery: bool,
    ) -> Result<(), Violation> {
        let payment_id = &self.submitted.payment_id;
        let statement = if is_delivery { self.delivery_statement() } else { self.nondelivery_statement() };
        let handle = world.chain(&self.submitted.escrow.chain_id);
        let is_own = statement
            .zip(handle)
            .is_some_and(|(statement, handle)| is_signed_by(handle, &attested.member, &statement, &attested.signature));
        let is_member = world.plan.verifiers.is_set() && world.verifiers().member(&attested.member).is_some();
        require(is_own && is_member, "a member on record made its statement", || {
            format!("{payment_id}: {attested:?}")
        })?;
        let is_new = self.on_record.insert((attested.member.clone(), is_delivery));
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

    /// A payout ahead of the refund window rests on the word of the verifiers, and that word is true.
    fn paid_out(&self, world: &World, handle: &ChainHandle, payout: &Payout) -> Result<(), Violation> {
        if !payout.is_release && payout.time >= self.submitted.escrow.refund_after {
            return Ok(());
        }
        let (payment_id, input) = (&self.submitted.payment_id, &payout.input);
        let attestation = match payout.is_release {
            _ if payout.to != Some(handle.contracts.escrow) => None,
            true => GatewayEscrow::releaseCall::abi_decode(input).ok().map(|call| call.attestation),
            false => GatewayEscrow::cancelCall::abi_decode(input).ok().map(|call| call.nonDelivery),
        };
        let attestation = attestation.map(|bytes| format!("0x{}", hex::encode(bytes)));
        let said = || format!("{payment_id} by {}: {attestation:?}", payout.transaction);
        if payout.is_release {
            let holds = attestation.as_ref().is_some_and(|attestation| self.is_attested(world, attestation));
            require(holds, "an escrow is released on its verifiers' word", said)?;
            return require(self.delivered(world), "an escrow is released on its verifiers' word", || {
                format!("{payment_id} is released, and was not delivered")
            });
        }
        let holds = attestation.as_ref().is_some_and(|attestation| self.is_nondelivery(world, attestation));
        require(holds, "an escrow is cancelled on its verifiers' word", said)?;
        let destination = self.quote.as_ref().and_then(|quote| world.chain(quote.quote().destination.asset().chain()));
        let time = destination.map(|destination| settled(&destination.lock()).1);
        let fulfill_by = self.quote.as_ref().map(|quote| unix_seconds(quote.quote().fulfill_by));
        require(time > fulfill_by && !self.delivered(world), "an escrow is cancelled on its verifiers' word", || {
            format!("{payment_id} is cancelled, could be delivered until {fulfill_by:?}, and {time:?} is settled")
        })
    }
}

/// When faults end, in the world's UNIX seconds.
fn calm(world: &World) -> u64 {
    crate::world::BEGIN + world.plan.faults_end_after.as_secs()
}

impl Invariants {
    /// Looks at all payouts in blocks that were not looked at before.
    pub(super) fn payouts(&mut self, world: &World, handle: &ChainHandle) -> Result<(), Violation> {
        let blocks = &mut self.blocks;
        let payouts = handle.lock().payouts(|block| blocks.insert(block));
        for payout in payouts {
            let mut entries = self.payments.iter();
            let found = entries.find(|(payment_id, _)| word(payment_id.on_chain()) == payout.payment_id);
            match found {
                Some((_, entry)) => entry.paid_out(world, handle, &payout)?,
                None => return Err(Violation::new("an escrow pays out once", format!("nobody's payment: {payout:?}"))),
            }
        }
        Ok(())
    }

    /// Escrows with money in them.
    pub fn prey(&self, world: &World) -> Vec<Prey> {
        let secured = |entry: &Entry| entry.state.as_ref().is_some_and(|state| state.secured.is_some());
        let open = self.payments.iter().filter(|(_, entry)| secured(entry) && !entry.rests());
        let prey = open.filter_map(|(payment_id, entry)| {
            Some(Prey {
                payment_id: payment_id.clone(),
                source: world.chain(&entry.submitted.escrow.chain_id)?.clone(),
                quote: entry.quote.clone()?,
            })
        });
        prey.collect()
    }
}
