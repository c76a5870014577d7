//! Queries: what a node says of accounts, fees and transactions, and sending it transactions.

use alloy::primitives::{Address, B256, Bytes, U64, U256};
use serde::Deserialize;
use serde_json::Value;

use sagas::ports::Transient;

use super::{
    node::{At, Node},
    rpc::Fault,
};

/// Priority fee where the node has no opinion, in wei.
const PRIORITY_FEE_DEFAULT: u128 = 1_000_000_000;
/// No node talks us into a higher priority fee, in wei.
const PRIORITY_FEE_MAX: u128 = 1_000_000_000_000;
/// The most that a transaction offers, as a multiple of the base fee: it may double several times before the
/// transaction no longer fits a block, and what isn't needed isn't paid (EIP-1559).
const BASE_FEE_HEADROOM: u128 = 4;

/// What a mined transaction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The transaction.
    pub transaction_hash: B256,
    /// Number of the block that holds it.
    pub block_number: u64,
    /// Hash of that block.
    pub block_hash: B256,
    /// Whether it did what it was to do.
    pub success: bool,
    /// Gas it used.
    pub gas_used: u64,
    /// What its sender paid for it, wei: with what a rollup took for its data; 0 where the node does not say.
    pub fee: u128,
}

/// Fees of a transaction, wei per unit of gas (EIP-1559).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fees {
    /// What the newest block burned.
    pub base: u128,
    /// The most that is paid altogether.
    pub max: u128,
    /// What the block's maker gets.
    pub priority: u128,
    /// Gas that the newest block had room for.
    pub block_gas: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawReceipt {
    transaction_hash: B256,
    block_number: Option<U64>,
    block_hash: Option<B256>,
    status: Option<U64>,
    gas_used: U64,
    effective_gas_price: Option<U256>,
    /// What rollups of the OP stack take besides.
    l1_fee: Option<U256>,
}

/// What one node says.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    node: &'a Node,
}

impl<'a> Query<'a> {
    /// What `node` says.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// The code at `account`; empty where there is no contract.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn code(&self, account: Address, at: At) -> Result<Bytes, Transient> {
        Ok(self.node.request("eth_getCode", (account, at.parameter())).await?)
    }

    /// How many transactions of `account` are in the chain at `at`: its next nonce.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn nonce(&self, account: Address, at: At) -> Result<u64, Transient> {
        let count: U64 = self.node.request("eth_getTransactionCount", (account, at.parameter())).await?;
        Ok(count.to())
    }

    /// Coins that `account` holds at `at`, wei.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn balance(&self, account: Address, at: At) -> Result<U256, Transient> {
        Ok(self.node.request("eth_getBalance", (account, at.parameter())).await?)
    }

    /// What the transaction did, if it is in a block that the node holds canonical. The block is not checked.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn receipt(&self, transaction: B256) -> Result<Option<Receipt>, Transient> {
        let raw: Option<RawReceipt> = self.node.request("eth_getTransactionReceipt", (transaction,)).await?;
        let Some(raw) = raw else { return Ok(None) };
        let (Some(number), Some(hash)) = (raw.block_number, raw.block_hash) else { return Ok(None) };
        if raw.transaction_hash != transaction {
            return Err(self.node.contradiction("a receipt of another transaction"));
        }
        let status = raw.status.ok_or_else(|| self.node.contradiction("a receipt without status"))?;
        Ok(Some(Receipt {
            transaction_hash: transaction,
            block_number: number.to(),
            block_hash: hash,
            success: status.to::<u64>() == 1,
            gas_used: raw.gas_used.to(),
            fee: raw
                .effective_gas_price
                .map_or(U256::ZERO, |price| price.saturating_mul(U256::from(raw.gas_used)))
                .saturating_add(raw.l1_fee.unwrap_or_default())
                .saturating_to(),
        }))
    }

    /// Whether the node knows the transaction, mined or not.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn knows(&self, transaction: B256) -> Result<bool, Transient> {
        let found: Option<Value> = self.node.request("eth_getTransactionByHash", (transaction,)).await?;
        Ok(found.is_some())
    }

    /// Fees with which a transaction gets into a block even if the base fee doubles twice before.
    ///
    /// # Errors
    /// [`Transient`], also for a chain without EIP-1559.
    pub async fn fees(&self) -> Result<Fees, Transient> {
        let (base, block_gas) = self.node.newest_gas().await?;
        let base = base
            .ok_or_else(|| Transient::misconfigured(format!("{} has no base fee (EIP-1559)", self.node.chain_id())))?;
        let base = u128::try_from(base).map_err(|_| self.node.contradiction("a base fee above 128 bits"))?;
        let priority = match self.node.request::<_, U256>("eth_maxPriorityFeePerGas", ()).await {
            Ok(fee) => u128::try_from(fee).unwrap_or(PRIORITY_FEE_MAX),
            Err(Fault::Rejected(_)) => PRIORITY_FEE_DEFAULT,
            Err(fault) => return Err(fault.into()),
        };
        let priority = priority.clamp(1, PRIORITY_FEE_MAX);
        let max = base.saturating_mul(BASE_FEE_HEADROOM).saturating_add(priority);
        Ok(Fees { base, max, priority, block_gas })
    }

    /// Sends a signed transaction. One that the node or the chain has already is not a fault.
    ///
    /// # Errors
    /// [`Transient`]; the transaction may be on its way all the same.
    pub async fn send(&self, raw: &Bytes) -> Result<(), Transient> {
        Ok(self.try_send(raw).await?)
    }

    /// As [`Query::send`], with the node's refusals told apart from silence.
    pub(crate) async fn try_send(&self, raw: &Bytes) -> Result<(), Fault> {
        match self.node.request::<_, B256>("eth_sendRawTransaction", (raw,)).await {
            Ok(_) => Ok(()),
            Err(Fault::Rejected(text)) if is_known(&text) => Ok(()),
            Err(fault) => Err(fault),
        }
    }
}

/// The words of the common nodes for a transaction that needs not be sent again.
fn is_known(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    [
        "already known",
        "alreadyknown",
        "known transaction",
        "already imported",
        "already exists",
        "nonce too low",
        "nonce is too low",
        "oldnonce",
    ]
    .iter()
    .any(|known| text.contains(known))
}
