//! Payer budgets: what deposits may cost the gateway in vain, bounded, counted and charged to their payers.
//!
//! Where the account is a contract, its code runs in the gateway's deposit. An account without code runs nothing, but it can take
//! its money away while its deposits are on their way, and all of them revert. So what they cost in vain counts against it as
//! well, and only so many of them are under way at a time.

use std::{sync::Arc, time::Instant};

use alloy::primitives::Address;

use chains::under_way::{Entry, UnderWay};
use escrow_abi::contracts::{address, text};
use events::{
    event::{Authorization, TransactionPrepared},
    time::Timestamp,
};
use journal::{
    budget::{self, Budget, BudgetKey, BudgetState, Budgets, Room},
    ledger::Purpose,
};
use sagas::ports::{Clock, DepositOrder, DepositState, PrepareError, Transient};

use super::{
    node::Node,
    payers::{self, ContractPayer, account_budget},
    payment_batches::DrawnBatches,
    query::Query,
    transaction::{self, hash_of},
};

/// Whose deposit it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Payer {
    /// An account without code.
    Key(Address),
    /// A contract, or what becomes one.
    Contract(ContractPayer),
}

/// What one preparation has put at stake for its deposit.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what is not released counts until the deposit's end is seen"]
pub(crate) enum Charge {
    /// Nothing: the deposit was charged before, by this worker or another, or is nobody's.
    None,
    /// One more deposit of an account without code.
    Key(BudgetKey),
    /// The gas of a contract's deposit, closed by this budget.
    Contract(BudgetKey),
}

/// The account that an order's deposit is charged to. With a deposit address it is that: the refund account is any that somebody named.
fn charged_account(order: &DepositOrder) -> Result<Address, Transient> {
    let account = order.authorization.deposit_address().map_or(order.terms.source.account(), |given| &given.address);
    Ok(address(account)?)
}

/// The budgets of the payers on one chain.
pub(crate) struct PayerBudgets {
    node: Node,
    budgets: Arc<dyn Budgets>,
    drawn: DrawnBatches,
    clock: Arc<dyn Clock>,
    /// Of accounts without code.
    key_deposits: UnderWay<BudgetKey, Purpose>,
}

impl PayerBudgets {
    /// The budgets on the chain of `node`, which all gateways share that share `budgets`.
    pub fn new(node: Node, budgets: Arc<dyn Budgets>, drawn: DrawnBatches, clock: Arc<dyn Clock>) -> Self {
        Self { node, budgets, drawn, clock, key_deposits: UnderWay::default() }
    }

    /// The payer of an order as what it is at the newest state.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn payer(&self, order: &DepositOrder) -> Result<Payer, Transient> {
        let account = charged_account(order)?;
        if order.authorization.deposit_address().is_some() {
            // Nothing of the payer's is run.
            return Ok(Payer::Key(account));
        }
        if let Authorization::EvmPermit2Batch(permit) = &order.authorization
            && self.drawn.has(&permit.address).await?
        {
            // The money is there, and no code of the payer's is run any more.
            return Ok(Payer::Key(account));
        }
        let contract = payers::newest(&self.node, account, &order.authorization).await?;
        Ok(contract.map_or(Payer::Key(account), Payer::Contract))
    }

    /// Puts the gas of a deposit at stake, before there is a nonce for it. Of an account without code nothing is stored as
    /// long as nothing is lost. Returns what is to be [released](Self::release) when nothing gets signed: nothing where the deposit
    /// was at stake before, since what was signed for it then may be under way.
    ///
    /// # Errors
    /// [`PrepareError::Waiting`] while other deposits have all that may be at stake; the refusal made by `refused` when too
    /// much was lost lately.
    pub async fn charge(
        &self,
        payer: &Payer,
        purpose: &Purpose,
        gas: u64,
        refused: impl FnOnce(String) -> PrepareError,
    ) -> Result<Charge, PrepareError> {
        let now = self.clock.now();
        let (charged, whose) = match payer {
            Payer::Contract(contract) => (self.charge_contract(contract, purpose, gas, now).await, "by code like this"),
            Payer::Key(account) => (self.charge_key(*account, purpose, gas, now).await, "of this"),
        };
        match charged.map_err(Transient::from)? {
            (Room::Now, charge) => Ok(charge),
            (Room::Soon, _) => {
                Err(PrepareError::Waiting(format!("deposits {whose} account that are under way end first")))
            }
            (Room::At(until), _) => Err(refused(format!(
                "deposits {whose} account came to nothing too often; the next is taken from {} on",
                until.to_rfc3339()
            ))),
        }
    }

    async fn charge_contract(
        &self,
        contract: &ContractPayer,
        purpose: &Purpose,
        gas: u64,
        now: Timestamp,
    ) -> Result<(Room, Charge), budget::Error> {
        let budgets = contract.budgets(&self.node);
        let key = &budgets[0].key;
        // It may have been an account without code when this attempt was begun.
        self.key_deposits.leave(key, purpose);
        let before = self.budgets.charged(key, purpose).await?.is_some();
        let room = budget::charge(&*self.budgets, &budgets, purpose, gas, now).await?;
        Ok((room, if before { Charge::None } else { Charge::Contract(key.clone()) }))
    }

    /// Whether an account without code may make one more deposit.
    async fn charge_key(
        &self,
        account: Address,
        purpose: &Purpose,
        gas: u64,
        now: Timestamp,
    ) -> Result<(Room, Charge), budget::Error> {
        let budget = account_budget(&self.node, account);
        if self.key_deposits.has(&budget.key, purpose) {
            return Ok((Room::Now, Charge::None));
        }
        let BudgetState { is_at_stake, room, .. } = self.budgets.state_of(&budget, purpose, gas, now).await?;
        // It may have been a contract when this attempt was begun.
        if is_at_stake {
            return Ok((Room::Now, Charge::None));
        }
        if room != Room::Now {
            return Ok((room, Charge::None));
        }
        let most = self.node.config().gas.account_deposits_max;
        Ok(match self.key_deposits.enter(&budget.key, purpose, most, Instant::now()) {
            Entry::New => (Room::Now, Charge::Key(budget.key)),
            Entry::Before => (Room::Now, Charge::None),
            Entry::No => (Room::Soon, Charge::None),
        })
    }

    /// Takes back a charge whose deposit was not signed. What can't be taken back now counts until its time is over.
    pub async fn release(&self, charge: Charge, purpose: &Purpose) {
        match charge {
            Charge::None => {}
            Charge::Key(key) => self.key_deposits.leave(&key, purpose),
            Charge::Contract(key) => {
                if let Err(fault) = budget::close(&*self.budgets, &key, purpose, 0, self.clock.now()).await {
                    tracing::warn!(chain_id = %self.node.chain_id(), purpose = purpose.0, %fault,
                        "a deposit that was not signed stays charged to its payer");
                }
            }
        }
    }

    /// Closes the charge of a deposit that is over, and counts what it did cost in vain.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn close(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
        state: &DepositState,
    ) -> Result<(), Transient> {
        let (Some(newest), false) = (versions.last(), matches!(state, DepositState::Pending)) else { return Ok(()) };
        let account = charged_account(order)?;
        let budget = account_budget(&self.node, account);
        let key = &budget.key;
        let purpose = Purpose::deposit(&order.payment_id, newest.attempt);
        let now = self.clock.now();
        let mut is_of_key = self.key_deposits.has(key, &purpose);
        if !is_of_key {
            let of_budget = self.budgets.state_of(&budget, &purpose, 0, now).await?;
            if of_budget.is_counted {
                // Its end was seen before, by this process or another.
                return Ok(());
            }
            // What an account without code deposits is charged nowhere before it is lost, whichever process prepared it.
            is_of_key = !of_budget.is_at_stake;
        }
        if is_of_key {
            // One that came too late, or found its payment ended, is not the payer's doing.
            let lost = match state {
                DepositState::Reverted(_) => self.lost_in(versions).await?.unwrap_or(0),
                _ => 0,
            };
            if lost > 0 {
                let all = Budget { gas_max: u64::MAX, ..budget.clone() };
                // A loss that is counted already, whoever saw it, is not put at stake again, so that nothing is closed.
                if self.budgets.charge_one(&all, &purpose, lost, &[], now).await? == Room::Now
                    && self.budgets.close_one(key, &purpose, lost, now).await?
                {
                    let payer = text(account);
                    tracing::info!(payment_id = %order.payment_id, payer, lost, "an account's deposit cost gas in vain");
                }
            }
            self.key_deposits.leave(key, &purpose);
            return Ok(());
        }
        let lost = self.lost_in(versions).await?;
        // One that is in no block may still get into one, unless its nonce is gone.
        let most =
            || transaction::unsigned(&newest.raw).map_or(self.node.config().gas.deposit_max, |sent| sent.gas_limit);
        let lost = lost.unwrap_or_else(|| if matches!(state, DepositState::Superseded { .. }) { 0 } else { most() });
        if budget::close(&*self.budgets, key, &purpose, lost, now).await? && lost > 0 {
            tracing::info!(payment_id = %order.payment_id, payer = text(account), lost, "a contract account's deposit cost gas");
        }
        Ok(())
    }

    /// What the version that is in a block has cost in vain; `None` when none is.
    async fn lost_in(&self, versions: &[TransactionPrepared]) -> Result<Option<u64>, Transient> {
        let mut lost = None;
        for version in versions {
            if let Some(receipt) = Query::of(&self.node).receipt(hash_of(version)?).await? {
                lost = Some(if receipt.success { 0 } else { receipt.gas_used });
            }
        }
        Ok(lost)
    }
}
