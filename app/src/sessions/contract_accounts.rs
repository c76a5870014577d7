//! Accounts that are contracts, asked whether a signature is their own (ERC-1271, ERC-6492).
//!
//! A node runs code of the caller's choice for it, so it costs the caller what foreign code costs, and has a bulkhead of its
//! own beside that of payers' signatures: whoever signs in holds up nobody who pays.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use tokio::time::timeout;

use chains_evm::{node::Node, payers::Payers, signed_digest::code_accepts};
use events::{Account, ChainId, Hash32};
use net::callers::{Caller, Refusal};
use sagas::ports::Transient;

use crate::{
    bulkhead::fair::{FairBulkhead, Full},
    error::{Code, Error},
};

/// Signatures that are judged at a time on one chain, and those of one caller.
const CALLS_MAX: usize = 8;
const CALLER_CALLS_MAX: usize = 2;
/// How long one waits for its turn.
const TURN_WAIT_MAX: Duration = Duration::from_secs(1);

/// What asks accounts that are contracts.
#[async_trait]
pub trait ContractAccounts: Send + Sync {
    /// Whether the code of `account` on `chain` takes `signature` for its own over `digest`; not where there is none.
    ///
    /// # Errors
    /// 429, and 503 when the chain gives no answer.
    async fn accept(
        &self,
        caller: &Caller,
        chain: &ChainId,
        account: &Account,
        digest: &Hash32,
        signature: &[u8],
    ) -> Result<bool, Error>;
}

/// [`ContractAccounts`] on the EVM chains it has a node of.
pub struct EvmContractAccounts(BTreeMap<ChainId, (Payers, FairBulkhead)>);

impl EvmContractAccounts {
    /// Those on the chains of these nodes.
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Self {
        let chain = |node: Node| {
            let bulkhead = FairBulkhead::new(CALLS_MAX, CALLER_CALLS_MAX, TURN_WAIT_MAX);
            (node.chain_id().clone(), (Payers::new(node), bulkhead))
        };
        Self(nodes.into_iter().map(chain).collect())
    }
}

#[async_trait]
impl ContractAccounts for EvmContractAccounts {
    async fn accept(
        &self,
        caller: &Caller,
        chain: &ChainId,
        account: &Account,
        digest: &Hash32,
        signature: &[u8],
    ) -> Result<bool, Error> {
        let Some((payers, bulkhead)) = self.0.get(chain) else { return Ok(false) };
        caller.foreign_code()?;
        // Who is exempt from limits shares the permits account by account.
        let share = if caller.is_exempt() { account.to_string() } else { format!("{:?}", caller.address()) };
        let _permit = bulkhead.permit(&share).await.map_err(|full| match full {
            Full::Caller => Error::from(Refusal::Crowded("signatures that contracts judge")),
            Full::All => Code::SERVICE_UNAVAILABLE.into(),
        })?;
        let longest = Duration::from_millis(payers.node().config().gas.call_ms_max);
        let judged = timeout(longest, code_accepts(payers, account, digest, signature)).await;
        let judged = judged.unwrap_or_else(|_| Err(Transient::unreachable(format!("no answer in {longest:?}"))));
        judged.map_err(|fault| Error::unavailable(&fault, "a contract's signature could not be judged"))
    }
}
