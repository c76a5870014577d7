//! Payers on Tron: what they hold, what they let the escrow draw, and whether their own transaction has drawn it already.

use alloy::{primitives::Address, sol_types::SolCall};
use async_trait::async_trait;
use ruint::aliases::U256;
use serde_json::{Value, json};

use chains_tron::{
    address::{address, text, trc20},
    authorization::is_on_chain,
    node::{Answer, Node, State},
    wrapping::{self, WrapCall},
};
use escrow_abi::contracts::DevToken::{allowanceCall, balanceOfCall};
use events::Amount;
use sagas::ports::Transient;

use super::{Approval, Coin, Draw, Funds, Holding, Spend};
use crate::connected::Connected;

/// [`Funds`] on the Tron chains it has a node of.
#[derive(Clone)]
pub struct TronFunds {
    nodes: Connected<Node>,
}

impl TronFunds {
    /// Funds as these nodes see them.
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Self {
        Self { nodes: nodes.into_iter().map(|node| (node.chain_id().clone(), node)).collect() }
    }
}

#[async_trait]
impl Funds for TronFunds {
    async fn holding(&self, spend: &Spend<'_>) -> Result<Holding, Transient> {
        let Draw::PayerDeposit { deposit, approves } = spend.draw else {
            return Err(Transient::misconfigured("the payer signed for another family"));
        };
        let node = self.nodes.of(spend.source)?;
        let token = trc20(spend.source.asset())?;
        let payer = address(spend.source.account())?;
        let escrow = address(&spend.escrow.contract)?;
        let held = async { read(node, token, &balanceOfCall { account: payer }).await };
        let allowed = async {
            // What is prepared holds the approval wherever one is needed.
            if approves || deposit.is_none() {
                return Ok(None);
            }
            read(node, token, &allowanceCall { owner: payer, spender: escrow }).await.map(Some)
        };
        let (balance, allowance, coin) = tokio::try_join!(held, allowed, coin(node, spend, payer))?;
        Ok(Holding { balance, allowance, spender: spend.escrow.contract.to_string(), coin })
    }

    async fn has_landed(&self, spend: &Spend<'_>) -> Result<bool, Transient> {
        let Draw::PayerDeposit { deposit: Some(deposit), .. } = spend.draw else { return Ok(false) };
        is_on_chain(deposit, self.nodes.of(spend.source)?).await
    }

    async fn approval(&self, _: &Spend<'_>) -> Result<Option<Approval>, Transient> {
        // It is one of the messages.
        Ok(None)
    }

    fn wrapping(&self, spend: &Spend<'_>, amount: Amount) -> Result<Vec<Value>, Transient> {
        let WrapCall { contract, function, value_sun, fee_limit_sun } = wrapping::wrap(spend.source.asset(), amount)?;
        Ok(vec![json!({
            "owner_address": spend.source.account(),
            "contract_address": text(contract),
            "function_selector": function,
            "call_value": value_sun,
            "fee_limit": fee_limit_sun,
            "visible": true,
        })])
    }
}

/// What the payer holds of TRX, where the source is its wrapped form.
async fn coin(node: &Node, spend: &Spend<'_>, payer: Address) -> Result<Option<Coin>, Transient> {
    let Some(asset) = node.config().common.coin_of(spend.source.asset()) else { return Ok(None) };
    let balance = U256::from(node.balance(payer).await?);
    Ok(Some(Coin { asset: asset.clone(), balance }))
}

async fn read<C: SolCall<Return = U256>>(node: &Node, token: Address, call: &C) -> Result<U256, Transient> {
    match node.call(None, token, call, State::Newest).await? {
        Answer::Returned { value, .. } => Ok(value),
        Answer::Reverted { reason, .. } => {
            Err(Transient::contradiction(format!("{}: the token refuses: {reason}", node.chain_id())))
        }
    }
}
