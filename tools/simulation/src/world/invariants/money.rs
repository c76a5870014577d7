//! The invariants of money: on every chain and after every block, what everybody holds of the token is what was there at the
//! beginning, and each has what the escrows' records say.

use std::collections::BTreeMap;

use alloy::primitives::U256;

use chains::escrow::State;
use escrow_abi::contracts::units;
use events::{Account, PaymentId};

use super::{
    Violation,
    entry::{End, Entry},
    require, unreadable,
};
use crate::{
    coverage,
    world::{ChainHandle, TOKENS, World},
};

const CONSERVED: &str = "money in is money out";

/// What the records of one chain's escrows say of the token, smallest unit.
#[derive(Default)]
pub(super) struct Ledger {
    /// What the escrows hold.
    held: U256,
    /// What settlers were paid.
    released: U256,
    /// What each payer has given, without what came back.
    spent: BTreeMap<Account, U256>,
}

impl Entry {
    /// Looks at the payment's escrow on its source, and adds what it says to `ledger`.
    pub(super) fn escrow_in_block(
        &mut self,
        world: &World,
        handle: &ChainHandle,
        payment_id: &PaymentId,
        ledger: &mut Ledger,
    ) -> Result<(), Violation> {
        let counts = handle.payment_events(payment_id);
        if counts.reassigned < self.reassigned_in_blocks {
            coverage::fault("reorganisation takes a reassignment away");
        }
        self.reassigned_in_blocks = counts.reassigned;
        let is_once = counts.deposited <= 1 && counts.reserved <= 1 + counts.reassigned;
        require(is_once, "at most one effective deposit", || format!("{payment_id}: {counts:?}"))?;
        require(
            counts.reassigned <= world.plan.lapses.reassignments_max,
            "reassigned no more often than allowed",
            || format!("{payment_id}: {counts:?}"),
        )?;
        require(counts.released + counts.refunded <= 1, "an escrow pays out once", || {
            format!("{payment_id}: {counts:?}")
        })?;
        let record = handle.escrow_record(payment_id).map_err(|error| unreadable(payment_id, &error))?;
        let Some(record) = record else { return Ok(()) };
        require(!self.free, "a payment that failed free of charge stays so", || {
            format!("{payment_id} is in escrow: {record:?}")
        })?;
        let deposited = record.deposited.map(units).unwrap_or_default();
        let most = match handle.deposits_the_price() {
            true => self.may_draw(),
            false => units(self.submitted.authorization.permitted()),
        };
        require(deposited <= most, "no more is taken than was quoted", || {
            format!("{payment_id}: {deposited} of {most}")
        })?;
        let mut spend = |amount: U256| {
            if let Some(payer) = &record.payer {
                *ledger.spent.entry(payer.clone()).or_default() += amount;
            }
        };
        match record.state {
            State::Refunded => {}
            State::Deposited | State::Reserved => {
                ledger.held += deposited;
                spend(deposited);
            }
            State::Released => {
                // Whoever took the place of another may have asked for less; the rest is the payer's.
                let paid = record.source_amount.map(units).unwrap_or_default();
                let quoted = self.quotes.get(&record.quote_hash).map(|quote| units(quote.quote().source_amount));
                require(paid <= deposited && Some(paid) == quoted, "no more is taken than was quoted", || {
                    format!("{payment_id}: {paid} of {deposited} deposited, {quoted:?} quoted")
                })?;
                let remainder = handle.remainder(payment_id);
                require(remainder <= deposited - paid, CONSERVED, || {
                    format!("{payment_id}: {remainder} is left of {deposited}, of which {paid} was paid")
                })?;
                ledger.released += paid;
                ledger.held += remainder;
                spend(paid + remainder);
                require(self.end != Some(End::Failed), "who failed keeps the money", || {
                    format!("{payment_id} failed, and its escrow was released")
                })?;
            }
        }
        Ok(())
    }
}

impl Ledger {
    /// What a payer signed, and what no gateway has for a payment, is the payer's alone: it may be in escrow, and goes nowhere else.
    pub(super) fn stray(&mut self, handle: &ChainHandle, payment_id: &PaymentId) -> Result<(), Violation> {
        let record = handle.escrow_record(payment_id).map_err(|error| unreadable(payment_id, &error))?;
        let is_payers = record.as_ref().is_none_or(|record| {
            !handle.deposits_the_price() && matches!(record.state, State::Deposited | State::Refunded)
        });
        require(is_payers, "nobody is paid for what is no payment", || format!("{payment_id}: {record:?}"))?;
        let Some(record) = record else { return Ok(()) };
        if let (State::Deposited, Some(payer)) = (record.state, record.payer) {
            let deposited = record.deposited.map(units).unwrap_or_default();
            self.held += deposited;
            *self.spent.entry(payer).or_default() += deposited;
        }
        Ok(())
    }

    /// Everybody has what he began with, and what the records say that he paid and got; nothing comes from nowhere.
    pub(super) fn balances(mut self, world: &World, handle: &ChainHandle) -> Result<(), Violation> {
        let (holdings, parties) = (handle.holdings(), &world.parties);
        let mut accounts = holdings.accounts;
        let begun = U256::from(TOKENS) * U256::from((parties.payers.len() + parties.deliverers.len()) as u64);
        let all = accounts.values().fold(holdings.escrow, |sum, amount| sum + *amount);
        require(all == holdings.supply && all == begun, CONSERVED, || {
            format!("all have {all} of a supply of {}, of which there were {begun}", holdings.supply)
        })?;
        for name in &parties.payers {
            let payer = handle.account(name);
            let has = accounts.remove(&payer).unwrap_or_default();
            let left = U256::from(TOKENS) - self.spent.remove(&payer).unwrap_or_default();
            require(has == left, CONSERVED, || format!("{name} has {has}, not {left}"))?;
        }
        require(self.spent.is_empty(), CONSERVED, || format!("nobody paid {:?}", self.spent))?;
        let (escrow, held) = (holdings.escrow, self.held);
        require(escrow == held, CONSERVED, || format!("the escrow holds {escrow}, not {held}"))?;
        let began = U256::from(TOKENS) * U256::from(parties.deliverers.len() as u64);
        let others = parties.deliverers.iter().chain(&parties.recipients);
        let have = others.fold(U256::ZERO, |sum, name| {
            // Whoever is in both is counted once.
            sum + accounts.remove(&handle.account(name)).unwrap_or_default()
        });
        let released = self.released;
        require(have == began + released, CONSERVED, || {
            format!("settlers and recipients have {have}, not {began} and {released}")
        })?;
        require(accounts.values().all(U256::is_zero), CONSERVED, || format!("strangers have {accounts:?}"))
    }
}
