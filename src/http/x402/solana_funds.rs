//! Payers on Solana: what they hold, and what they let the program draw.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chains::solana::{authorization::allowance_delegate, node::Node};
use ruint::aliases::U256;

use events::{ChainId, event::Authorization};

use super::funds::{Funds, FundsError, Spend, Standing};

/// [`Funds`] on the Solana chains it has a node of.
#[derive(Clone)]
pub struct SolanaFunds {
    nodes: BTreeMap<ChainId, Node>,
}

impl SolanaFunds {
    /// Funds as these nodes see them.
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Self {
        Self { nodes: nodes.into_iter().map(|node| (node.chain_id().clone(), node)).collect() }
    }
}

#[async_trait]
impl Funds for SolanaFunds {
    async fn standing(&self, spend: &Spend<'_>) -> Result<Standing, FundsError> {
        let chain = spend.source.asset().chain();
        let node = self.nodes.get(chain).ok_or_else(|| FundsError(format!("no node for {chain}")))?;
        let Authorization::Solana(signed) = spend.authorization else {
            return Err(FundsError("the payer signed for another family".to_owned()));
        };
        let delegate = allowance_delegate(&spend.escrow.contract, &signed.signer);
        let delegate = delegate.ok_or_else(|| FundsError("no program, or no signer".to_owned()))?;
        let holding = node.holding(spend.source).await.map_err(|error| FundsError(error.to_string()))?;
        let (held, allowed) = holding.map_or((0, 0), |holding| (holding.amount, holding.allowed_to(&delegate)));
        Ok(Standing::of(spend.amount, U256::from(held), U256::from(allowed)))
    }
}
