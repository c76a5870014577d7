//! Payers, and what their deposits may cost the gateway: bounded, counted and charged to them.
//!
//! Where the account is a contract, its code runs in the gateway's deposit. Permit2 asks an account's code wherever there is some, also where a key signed (EIP-7702). So an account counts as a
//! contract by its code and not by its signature.
//!
//! An account without code runs nothing, but it can take its money away while its deposits are on their way, and all of them
//! revert. So what they cost in vain counts against it as well, and only so many of them are under way at a time.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use alloy::primitives::{Address, B256, keccak256};
use chrono::TimeDelta;

use escrow_abi::{
    contracts::{address, text},
    signature,
};
use events::{
    Hash32,
    event::{Authorization, TransactionPrepared},
    time::Timestamp,
};
use journal::{
    budget::{self, Budget, BudgetKey, Budgets, Room},
    ledger::Purpose,
};
use sagas::ports::{DepositOrder, DepositState, PrepareError, Transient};

use super::{
    adapter::{EvmChains, hash_of},
    escrows::unusable,
    node::{At, Node},
    transaction::{self, raw_bytes},
};

/// How long what an account's code was counts as what it is, where nothing is sent on the strength of it.
const KNOWN_FOR: Duration = Duration::from_secs(15);
/// So many accounts' code is known at a time.
const KNOWN_MAX: usize = 16_384;

/// How long a deposit of an account without code is taken to be under way, unless its end is seen.
const UNDER_WAY_FOR: Duration = Duration::from_secs(3_600);
/// How often those whose end was never seen are dropped.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Whose deposit it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Payer {
    /// An account without code.
    Key(Address),
    /// A contract, or what becomes one.
    Contract(ContractPayer),
}

/// Deposits of accounts without code, as this process has seen them.
#[derive(Debug, Default)]
pub(super) struct KeyDeposits(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// Since when each is under way.
    accounts: HashMap<BudgetKey, HashMap<Purpose, Instant>>,
    /// When what is too old was last dropped.
    swept: Option<Instant>,
}

impl KeyDeposits {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        // Nothing panics between two changes that belong together.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, account: &BudgetKey, purpose: &Purpose) -> bool {
        self.lock().accounts.get(account).is_some_and(|own| own.contains_key(purpose))
    }

    /// Whether `purpose` is one of the `most` deposits of this account that are under way, and from now on it is.
    fn enter(&self, account: &BudgetKey, purpose: &Purpose, most: usize, now: Instant) -> bool {
        let mut seen = self.lock();
        seen.drop_old(now);
        let own = seen.accounts.entry(account.clone()).or_default();
        let enters = own.contains_key(purpose) || own.len() < most;
        if enters {
            own.entry(purpose.clone()).or_insert(now);
        }
        enters
    }

    /// It is over, and what it did cost in vain is counted.
    fn leave(&self, account: &BudgetKey, purpose: &Purpose) {
        let mut seen = self.lock();
        let Some(own) = seen.accounts.get_mut(account) else { return };
        own.remove(purpose);
        if own.is_empty() {
            seen.accounts.remove(account);
        }
    }
}

impl Seen {
    fn drop_old(&mut self, now: Instant) {
        if self.swept.is_some_and(|at| now - at < SWEEP_EVERY) {
            return;
        }
        self.swept = Some(now);
        self.accounts.retain(|_, own| {
            own.retain(|_, since| now - *since < UNDER_WAY_FOR);
            !own.is_empty()
        });
    }
}

/// A payer that is a contract, or becomes one by its deposit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractPayer {
    account: Address,
    /// Of its code; `None` while it has none.
    code_hash: Option<B256>,
    /// What deploys it, where its signature says so (ERC-6492).
    factory: Option<Address>,
}

impl ContractPayer {
    /// What its deposits count against: itself, all with the same code or of the same factory, and all of the chain.
    pub fn budgets(&self, node: &Node) -> Vec<Budget> {
        let (chain_id, gas, window) = (node.chain_id(), &node.config().gas, loss_window(node));
        let code = self.code_hash.map(|hash| BudgetKey::code(chain_id, Hash32(hash.0)));
        let factory = self.factory.map(|factory| BudgetKey::factory(chain_id, &text(factory)));
        let shared = [code, factory].into_iter().flatten().map(|key| (key, gas.code_loss_max));
        let own = (BudgetKey::account(chain_id, &text(self.account)), gas.account_loss_max);
        let all = (BudgetKey::chain(chain_id), gas.chain_loss_max);
        let budgets = [own].into_iter().chain(shared).chain([all]);
        budgets.map(|(key, gas_max)| Budget { key, gas_max, window }).collect()
    }

    /// When it may cost again what a deposit may; `None` when it may now.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn shut_out_until(
        &self,
        node: &Node,
        budgets: &dyn Budgets,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Transient> {
        let own = self.budgets(node);
        let room = budget::room(budgets, &own, node.config().gas.deposit_max, now).await;
        Ok(room?)
    }
}

fn loss_window(node: &Node) -> TimeDelta {
    TimeDelta::seconds(i64::try_from(node.config().gas.loss_window_seconds).unwrap_or(i64::MAX / 1_000))
}

/// What deposits of an account without code count against.
fn budget_of(node: &Node, account: Address) -> Budget {
    let key = BudgetKey::account(node.chain_id(), &text(account));
    Budget { key, gas_max: node.config().gas.account_loss_max, window: loss_window(node) }
}

/// The code of accounts, as it was a moment ago: the hash of it, `None` where there was none.
#[derive(Debug, Default)]
pub(super) struct Codes(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    hashes: HashMap<Address, (Option<B256>, Instant)>,
    /// In the order in which they came.
    order: VecDeque<(Address, Instant)>,
}

impl Codes {
    fn get(&self, account: Address, now: Instant) -> Option<Option<B256>> {
        // Entries are replaced whole, so a poisoned lock guards nothing half done.
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.hashes.get(&account).filter(|(_, at)| now - *at < KNOWN_FOR).map(|(hash, _)| *hash)
    }

    fn put(&self, account: Address, hash: Option<B256>, now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.hashes.insert(account, (hash, now));
        known.order.push_back((account, now));
        while known.order.len() > KNOWN_MAX || known.order.front().is_some_and(|(_, at)| now - *at >= KNOWN_FOR) {
            let Some((oldest, at)) = known.order.pop_front() else { break };
            // It may have come again since.
            if known.hashes.get(&oldest).is_some_and(|(_, newest)| *newest == at) {
                known.hashes.remove(&oldest);
            }
        }
    }
}

impl Node {
    /// The hash of the code that `account` had a moment ago, `None` for no code. Asked of the chain where it is not known.
    ///
    /// # Errors
    /// [`Transient`].
    pub(super) async fn code_lately(&self, account: Address) -> Result<Option<B256>, Transient> {
        let now = Instant::now();
        if let Some(known) = self.codes().get(account, now) {
            return Ok(known);
        }
        let hash = self.code_hash(account).await?;
        self.codes().put(account, hash, now);
        Ok(hash)
    }

    async fn code_hash(&self, account: Address) -> Result<Option<B256>, Transient> {
        let code = self.code(account, At::Latest).await?;
        Ok((!code.is_empty()).then(|| keccak256(&code)))
    }

    /// Whether `account` is known to have had no code a moment ago. Nothing is asked.
    pub fn had_no_code(&self, account: &str) -> bool {
        address(account).is_ok_and(|account| self.codes().get(account, Instant::now()) == Some(None))
    }

    /// The payer of an authorization as the contract that it is, or was a moment ago; `None` for an account without code.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn contract_payer(
        &self,
        account: &str,
        authorization: &Authorization,
    ) -> Result<Option<ContractPayer>, Transient> {
        let account = address(account).map_err(unusable)?;
        Ok(contract(account, factory(authorization)?, self.code_lately(account).await?))
    }
}

fn contract(account: Address, factory: Option<Address>, code_hash: Option<B256>) -> Option<ContractPayer> {
    (code_hash.is_some() || factory.is_some()).then_some(ContractPayer { account, code_hash, factory })
}

/// The factory that a signature names (ERC-6492).
fn factory(authorization: &Authorization) -> Result<Option<Address>, Transient> {
    let permit = match authorization {
        Authorization::EvmPermit2Escrow(permit) | Authorization::EvmPermit2(permit) => permit,
        Authorization::Solana(_) | Authorization::Tron(_) => return Ok(None),
    };
    let raw =
        raw_bytes(&permit.signature).ok_or_else(|| Transient::misconfigured("the payer's signature is no hex"))?;
    if !signature::is_erc6492(&raw) {
        return Ok(None);
    }
    let wrapped = signature::unwrap_erc6492(&raw).map_err(Transient::misconfigured)?;
    Ok(Some(wrapped.factory))
}

impl EvmChains {
    /// The payer of an order as what it is at the newest state.
    pub(super) async fn payer(&self, node: &Node, order: &DepositOrder) -> Result<Payer, Transient> {
        let account = address(order.terms.source.account().as_str()).map_err(unusable)?;
        let contract = contract(account, factory(&order.authorization)?, node.code_hash(account).await?);
        Ok(contract.map_or(Payer::Key(account), Payer::Contract))
    }

    /// Puts the gas of a deposit at stake, before there is a nonce for it. Of an account without code nothing is stored as
    /// long as nothing is lost.
    ///
    /// # Errors
    /// [`PrepareError::Waiting`] while other deposits have all that may be at stake; the refusal made by `refused` when too
    /// much was lost lately.
    pub(super) async fn charge_payer(
        &self,
        node: &Node,
        payer: &Payer,
        purpose: &Purpose,
        gas: u64,
        refused: impl FnOnce(String) -> PrepareError,
    ) -> Result<(), PrepareError> {
        let now = self.clock.now();
        let (room, whose) = match payer {
            Payer::Contract(contract) => {
                let budgets = contract.budgets(node);
                // It may have been an account without code when this attempt was begun.
                self.key_deposits.leave(&budgets[0].key, purpose);
                (budget::charge(&*self.budgets, &budgets, purpose, gas, now).await, "by code like this")
            }
            Payer::Key(account) => (self.room_of_key(node, *account, purpose, gas).await, "of this"),
        };
        match room.map_err(Transient::from)? {
            Room::Now => Ok(()),
            Room::Soon => Err(PrepareError::Waiting(format!("deposits {whose} account that are under way end first"))),
            Room::At(until) => Err(refused(format!(
                "deposits {whose} account came to nothing too often; the next is taken from {} on",
                until.to_rfc3339()
            ))),
        }
    }

    /// Whether an account without code may make one more deposit.
    async fn room_of_key(
        &self,
        node: &Node,
        account: Address,
        purpose: &Purpose,
        gas: u64,
    ) -> Result<Room, budget::Error> {
        let budget = budget_of(node, account);
        // It may have been a contract when this attempt was begun.
        if self.key_deposits.has(&budget.key, purpose) || self.budgets.charged(&budget.key, purpose).await?.is_some() {
            return Ok(Room::Now);
        }
        let room = self.budgets.room_of(&budget, gas, self.clock.now()).await?;
        let most = node.config().gas.account_deposits_max;
        let is_full = room == Room::Now && !self.key_deposits.enter(&budget.key, purpose, most, Instant::now());
        Ok(if is_full { Room::Soon } else { room })
    }

    /// Counts what a deposit that is over did cost in vain.
    pub(super) async fn settle_payer(
        &self,
        node: &Node,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
        state: &DepositState,
    ) -> Result<(), Transient> {
        let (Some(newest), false) = (versions.last(), matches!(state, DepositState::Pending)) else { return Ok(()) };
        let account = address(order.terms.source.account().as_str()).map_err(unusable)?;
        let budget = budget_of(node, account);
        let key = &budget.key;
        let purpose = Purpose::deposit(&order.payment_id, newest.attempt);
        // What an account without code deposits is charged nowhere before it is lost, whichever process prepared it.
        if self.key_deposits.has(key, &purpose) || self.budgets.charged(key, &purpose).await?.is_none() {
            // One that came too late, or found its payment ended, is no doing of the payer's.
            let lost = match state {
                DepositState::Reverted(_) => lost_in(node, versions).await?.unwrap_or(0),
                _ => 0,
            };
            if lost > 0 {
                let (now, all) = (self.clock.now(), Budget { gas_max: u64::MAX, ..budget.clone() });
                if self.budgets.charge_one(&all, &purpose, lost, &[], now).await? == Room::Now {
                    self.budgets.settle_one(key, &purpose, lost, now).await?;
                    let payer = text(account);
                    tracing::info!(payment_id = %order.payment_id, payer, lost, "an account's deposit cost gas in vain");
                }
            }
            self.key_deposits.leave(key, &purpose);
            return Ok(());
        }
        let lost = lost_in(node, versions).await?;
        // One that is in no block may still get into one, unless its nonce is gone.
        let most = || transaction::unsigned(&newest.raw).map_or(node.config().gas.deposit_max, |sent| sent.gas_limit);
        let lost = lost.unwrap_or_else(|| if matches!(state, DepositState::Superseded { .. }) { 0 } else { most() });
        if lost > 0 {
            tracing::info!(payment_id = %order.payment_id, payer = text(account), lost, "a contract account's deposit cost gas");
        }
        Ok(budget::settle(&*self.budgets, key, &purpose, lost, self.clock.now()).await?)
    }
}

/// What the version that is in a block has cost in vain; `None` when none is.
async fn lost_in(node: &Node, versions: &[TransactionPrepared]) -> Result<Option<u64>, Transient> {
    let mut lost = None;
    for version in versions {
        if let Some(receipt) = node.receipt(hash_of(version)?).await? {
            lost = Some(if receipt.success { 0 } else { receipt.gas_used });
        }
    }
    Ok(lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_deposits_of_an_account_are_under_way_until_their_end_is_seen_or_long_past() {
        let (deposits, start) = (KeyDeposits::default(), Instant::now());
        let account = |n: &str| BudgetKey::account(&"eip155:1".parse().unwrap(), n);
        let purpose = |n: u32| Purpose(format!("pay_a/deposit/{n}"));
        let enters = |of: &str, n, at| deposits.enter(&account(of), &purpose(n), 2, at);
        assert!(enters("a", 1, start) && enters("a", 2, start));
        assert!(!enters("a", 3, start) && enters("a", 2, start) && enters("b", 3, start));
        deposits.leave(&account("a"), &purpose(1));
        assert!(enters("a", 3, start) && !enters("a", 4, start));
        assert!(deposits.has(&account("a"), &purpose(2)) && !deposits.has(&account("a"), &purpose(4)));
        // All that was never seen to end is forgotten, whoever comes next.
        assert!(enters("c", 6, start + UNDER_WAY_FOR));
        assert_eq!(deposits.lock().accounts.len(), 1);
        deposits.leave(&account("c"), &purpose(6));
        assert!(deposits.lock().accounts.is_empty());
    }

    #[test]
    fn code_is_known_for_a_while_and_of_so_many() {
        let (codes, start) = (Codes::default(), Instant::now());
        let account = |n: u64| Address::left_padding_from(&n.to_be_bytes());
        codes.put(account(1), None, start);
        codes.put(account(2), Some(B256::ZERO), start);
        assert_eq!(codes.get(account(1), start), Some(None));
        assert_eq!(codes.get(account(2), start), Some(Some(B256::ZERO)));
        assert_eq!(codes.get(account(3), start), None);
        assert_eq!(codes.get(account(1), start + KNOWN_FOR), None);
        for n in 10..10 + 2 * KNOWN_MAX as u64 {
            codes.put(account(n), None, start + Duration::from_secs(1));
        }
        let known = codes.0.lock().unwrap();
        assert!(known.hashes.len() <= KNOWN_MAX && known.order.len() <= KNOWN_MAX);
    }
}
