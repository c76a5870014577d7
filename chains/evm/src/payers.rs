//! Payers: whether an account's own code judges its signatures, and what a deposit of such an account counts against.
//!
//! Permit2 asks an account's code wherever there is some, also where a key signed (EIP-7702). So an account counts as a contract
//! by its code and not by its signature.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use alloy::primitives::{Address, B256, keccak256};
use chrono::TimeDelta;

use escrow_abi::{
    contracts::{address, text},
    signature,
};
use events::{Account, Hash32, event::Authorization, time::Timestamp};
use journal::budget::{self, Budget, BudgetKey, Budgets};
use sagas::ports::Transient;

use super::{
    node::{At, Node},
    query::Query,
    transaction::raw_bytes,
};

/// How long what an account's code was counts as what it is, where nothing is sent on the strength of it.
const KNOWN_FOR: Duration = Duration::from_secs(15);
/// So many accounts' code is known at a time.
const KNOWN_MAX: usize = 16_384;

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
        let all = (BudgetKey::chain(chain_id), gas.chain_loss_max);
        let others = shared.chain([all]).map(|(key, gas_max)| Budget { key, gas_max, window });
        [account_budget(node, self.account)].into_iter().chain(others).collect()
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

/// What the deposits of one account count against, whether it has code or not.
pub(crate) fn account_budget(node: &Node, account: Address) -> Budget {
    let key = BudgetKey::account(node.chain_id(), &text(account));
    Budget { key, gas_max: node.config().gas.account_loss_max, window: loss_window(node) }
}

/// How long what was lost counts.
fn loss_window(node: &Node) -> TimeDelta {
    TimeDelta::seconds(i64::try_from(node.config().gas.loss_window_seconds).unwrap_or(i64::MAX / 1_000))
}

/// The code of accounts, as it was a moment ago: the hash of it, `None` where there was none.
#[derive(Debug, Default)]
struct Codes(Mutex<Known>);

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

/// The payers on one chain, and what is known of their code. Clones share it.
#[derive(Debug, Clone)]
pub struct Payers {
    node: Node,
    codes: Arc<Codes>,
}

impl Payers {
    /// The payers on the chain of `node`.
    pub fn new(node: Node) -> Self {
        Self { node, codes: Arc::default() }
    }

    /// The node that is asked about them.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The hash of the code that `account` had a moment ago, `None` for no code. Asked of the chain where it is not known.
    ///
    /// # Errors
    /// [`Transient`].
    pub(crate) async fn code_lately(&self, account: Address) -> Result<Option<B256>, Transient> {
        let now = Instant::now();
        if let Some(known) = self.codes.get(account, now) {
            return Ok(known);
        }
        let hash = code_hash(&self.node, account).await?;
        self.codes.put(account, hash, now);
        Ok(hash)
    }

    /// Whether `account` had no code a moment ago.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn is_key(&self, account: &Account) -> Result<bool, Transient> {
        Ok(self.code_lately(address(account)?).await?.is_none())
    }

    /// Whether `account` is known to have had no code a moment ago. Nothing is asked.
    pub fn had_no_code(&self, account: &Account) -> bool {
        address(account).is_ok_and(|account| self.codes.get(account, Instant::now()) == Some(None))
    }

    /// The payer of an authorization as the contract that it is, or was a moment ago; `None` for an account without code.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn contract_payer(
        &self,
        account: &Account,
        authorization: &Authorization,
    ) -> Result<Option<ContractPayer>, Transient> {
        let account = address(account)?;
        Ok(contract(account, factory(authorization)?, self.code_lately(account).await?))
    }
}

/// The payer of an authorization as the contract that it is at the newest state; `None` for an account without code.
///
/// # Errors
/// [`Transient`].
pub(crate) async fn newest(
    node: &Node,
    account: Address,
    authorization: &Authorization,
) -> Result<Option<ContractPayer>, Transient> {
    Ok(contract(account, factory(authorization)?, code_hash(node, account).await?))
}

async fn code_hash(node: &Node, account: Address) -> Result<Option<B256>, Transient> {
    let code = Query::of(node).code(account, At::Latest).await?;
    Ok((!code.is_empty()).then(|| keccak256(&code)))
}

fn contract(account: Address, factory: Option<Address>, code_hash: Option<B256>) -> Option<ContractPayer> {
    (code_hash.is_some() || factory.is_some()).then_some(ContractPayer { account, code_hash, factory })
}

/// The factory that a signature names (ERC-6492).
fn factory(authorization: &Authorization) -> Result<Option<Address>, Transient> {
    let signature = match authorization {
        Authorization::EvmPermit2Escrow(permit) | Authorization::EvmPermit2(permit) => &permit.signature,
        Authorization::EvmEip3009(transfer) => &transfer.signature,
        Authorization::EvmPermit2Batch(permit) => &permit.signature,
        Authorization::EvmX402Exact(purchase) => &purchase.signature,
        // The payer of a mandate is there, and the merchant is a key.
        Authorization::EvmPermit2Mandate(_)
        | Authorization::DepositAddress(_)
        | Authorization::Solana(_)
        | Authorization::SolanaX402Exact(_)
        | Authorization::Tron(_)
        | Authorization::TronPermit2Escrow(_) => return Ok(None),
    };
    let raw = raw_bytes(signature).ok_or_else(|| Transient::misconfigured("the payer's signature is not hex"))?;
    if !signature::is_erc6492(&raw) {
        return Ok(None);
    }
    let wrapped = signature::unwrap_erc6492(&raw).map_err(Transient::misconfigured)?;
    Ok(Some(wrapped.factory))
}

#[cfg(test)]
mod tests {
    use super::*;

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
