//! Payers on EVM chains: what they hold, and what they let Permit2 draw.

use std::collections::BTreeMap;

use alloy::{primitives::Address, sol};
use async_trait::async_trait;
use chains::evm::{
    contracts::{address, erc20},
    node::{At, Node},
    signature,
};
use ruint::aliases::U256;

use events::{ChainId, event::Authorization};

use super::funds::{Funds, FundsError, Spend, Standing};

sol! {
    interface IERC20Holdings {
        function balanceOf(address holder) external view returns (uint256);
        function allowance(address holder, address spender) external view returns (uint256);
    }
}

/// [`Funds`] on the EVM chains it has a node of.
#[derive(Clone)]
pub struct EvmFunds {
    nodes: BTreeMap<ChainId, Node>,
}

impl EvmFunds {
    /// Funds as these nodes see them.
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Self {
        Self { nodes: nodes.into_iter().map(|node| (node.chain_id().clone(), node)).collect() }
    }
}

#[async_trait]
impl Funds for EvmFunds {
    async fn standing(&self, spend: &Spend<'_>) -> Result<Standing, FundsError> {
        let asset = spend.source.asset();
        let node = self.nodes.get(asset.chain()).ok_or_else(|| fault(format!("no node for {}", asset.chain())))?;
        let token = erc20(asset).map_err(fault)?;
        let payer = address(spend.source.account().as_str()).map_err(fault)?;
        let permit2 = address(&node.config().permit2).map_err(fault)?;
        let held = read(node, token, &IERC20Holdings::balanceOfCall { holder: payer }).await?;
        let call = IERC20Holdings::allowanceCall { holder: payer, spender: permit2 };
        let allowed = read(node, token, &call).await?;
        let standing = Standing::of(spend.amount, held, allowed);
        // An account that the deposit itself deploys may give its allowance only then (ERC-6492).
        if matches!(standing, Standing::Allowance(_)) && is_undeployed(node, payer, spend.authorization).await? {
            return Ok(Standing::Sufficient);
        }
        Ok(standing)
    }
}

async fn read<C>(node: &Node, token: Address, call: &C) -> Result<U256, FundsError>
where
    C: alloy::sol_types::SolCall<Return = U256>,
{
    let value = node.view(token, call, At::Latest).await.map_err(fault)?;
    value.ok_or_else(|| fault(format!("{}: no token at {token}", node.chain_id())))
}

async fn is_undeployed(node: &Node, payer: Address, authorization: &Authorization) -> Result<bool, FundsError> {
    let wrapped = match authorization {
        Authorization::EvmPermit2Escrow(permit) | Authorization::EvmPermit2(permit) => {
            signature::bytes(&permit.signature).is_ok_and(|bytes| signature::is_erc6492(&bytes))
        }
        Authorization::Solana(_) | Authorization::Tron(_) => false,
    };
    Ok(wrapped && node.code(payer, At::Latest).await.map_err(fault)?.is_empty())
}

fn fault(error: impl std::fmt::Display) -> FundsError {
    FundsError(error.to_string())
}
