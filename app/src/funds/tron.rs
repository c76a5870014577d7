//! Payers on Tron: what they hold, what they let the escrow draw, and whether their own transaction has drawn it already.

use std::collections::BTreeMap;

use alloy::{primitives::Address, sol_types::SolCall};
use async_trait::async_trait;
use ruint::aliases::U256;

use chains_tron::{
    address::{address, trc20},
    authorization::is_on_chain,
    node::{Answer, Node, State},
};
use escrow_abi::contracts::DevToken::{allowanceCall, balanceOfCall};
use events::ChainId;

use super::{Approval, Draw, Funds, FundsError, Holding, Spend};

/// [`Funds`] on the Tron chains it has a node of.
#[derive(Clone)]
pub struct TronFunds {
    nodes: BTreeMap<ChainId, Node>,
}

impl TronFunds {
    /// Funds as these nodes see them.
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Self {
        Self { nodes: nodes.into_iter().map(|node| (node.chain_id().clone(), node)).collect() }
    }

    fn node(&self, spend: &Spend<'_>) -> Result<&Node, FundsError> {
        let chain = spend.source.asset().chain();
        self.nodes.get(chain).ok_or_else(|| fault(format!("no node for {chain}")))
    }
}

#[async_trait]
impl Funds for TronFunds {
    async fn holding(&self, spend: &Spend<'_>) -> Result<Holding, FundsError> {
        let Draw::PayerDeposit { deposit, approves } = spend.draw else {
            return Err(fault("the payer signed for another family"));
        };
        let node = self.node(spend)?;
        let token = trc20(spend.source.asset()).map_err(fault)?;
        let payer = address(spend.source.account()).map_err(fault)?;
        let escrow = address(&spend.escrow.contract).map_err(fault)?;
        let held = async { read(node, token, &balanceOfCall { account: payer }).await };
        let allowed = async {
            // What is prepared holds the approval wherever one is needed.
            if approves || deposit.is_none() {
                return Ok(None);
            }
            read(node, token, &allowanceCall { owner: payer, spender: escrow }).await.map(Some)
        };
        let (balance, allowance) = tokio::try_join!(held, allowed)?;
        Ok(Holding { balance, allowance, spender: spend.escrow.contract.to_string() })
    }

    async fn has_landed(&self, spend: &Spend<'_>) -> Result<bool, FundsError> {
        let Draw::PayerDeposit { deposit: Some(deposit), .. } = spend.draw else { return Ok(false) };
        is_on_chain(deposit, self.node(spend)?).await.map_err(fault)
    }

    async fn approval(&self, _: &Spend<'_>) -> Result<Option<Approval>, FundsError> {
        // It is one of the messages.
        Ok(None)
    }
}

async fn read<C: SolCall<Return = U256>>(node: &Node, token: Address, call: &C) -> Result<U256, FundsError> {
    match node.call(None, token, call, State::Newest).await.map_err(fault)? {
        Answer::Returned { value, .. } => Ok(value),
        Answer::Reverted { reason, .. } => Err(fault(format!("{}: the token refuses: {reason}", node.chain_id()))),
    }
}

fn fault(error: impl std::fmt::Display) -> FundsError {
    FundsError(error.to_string())
}
