//! Payers on Tron: what they hold, what they let Permit2 or the escrow draw, and whether their own transaction has drawn it already.

use alloy::{
    primitives::Address,
    sol_types::{SolCall, SolValue},
};
use async_trait::async_trait;
use ruint::aliases::U256;
use serde_json::{Value, json};

use chains_tron::{
    address::{address, text, trc20},
    authorization::is_on_chain,
    node::{Answer, Node, State},
    permit2, token,
    wrapping::{self, WrapCall},
};
use escrow_abi::contracts::DevToken::{approveCall, balanceOfCall};
use events::{Account, Amount};
use sagas::ports::Transient;

use super::{Approval, Coin, Draw, Funds, Holding, Spend};
use crate::connected::Connected;

/// What an approval's energy may cost at most, in sun: a token's first approval takes some 23,000 energy, dynamic energy several times
/// that.
const APPROVAL_FEE_LIMIT_SUN: u64 = 50_000_000;

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
        let node = self.nodes.of(spend.source)?;
        let (spender, is_judged) = match spend.draw {
            Draw::Permit2 { .. } => (permit2_of(node)?, true),
            // What is prepared holds the approval wherever one is needed.
            Draw::PayerDeposit { deposit, approves } => (&spend.escrow.contract, deposit.is_some() && !approves),
            Draw::Batch { .. } | Draw::Mandate { .. } | Draw::Transfer { .. } | Draw::Delegate { .. } => {
                return Err(Transient::misconfigured("the payer signed for another family"));
            }
        };
        let contract = trc20(spend.source.asset())?;
        let payer = address(spend.source.account())?;
        let drawn_by = address(spender)?;
        let held = async { read(node, contract, &balanceOfCall { account: payer }).await };
        let allowed = async {
            match is_judged {
                true => token::allowance(node, contract, payer, drawn_by).await.map(Some),
                false => Ok(None),
            }
        };
        let (balance, allowance, coin) = tokio::try_join!(held, allowed, coin(node, spend, payer))?;
        Ok(Holding { balance, allowance, spender: spender.to_string(), mandate: None, coin })
    }

    async fn is_used(&self, spend: &Spend<'_>) -> Result<bool, Transient> {
        let Draw::Permit2 { nonce, .. } = spend.draw else { return Ok(false) };
        let node = self.nodes.of(spend.source)?;
        permit2::is_used(node, permit2_of(node)?, spend.source.account(), nonce).await
    }

    async fn has_landed(&self, spend: &Spend<'_>) -> Result<bool, Transient> {
        let Draw::PayerDeposit { deposit: Some(deposit), .. } = spend.draw else { return Ok(false) };
        is_on_chain(deposit, self.nodes.of(spend.source)?).await
    }

    async fn approval(&self, spend: &Spend<'_>) -> Result<Option<Approval>, Transient> {
        // For the escrow's own allowance it is one of the messages.
        let Draw::Permit2 { .. } = spend.draw else { return Ok(None) };
        let spender = permit2_of(self.nodes.of(spend.source)?)?;
        let arguments = (address(spender)?, spend.amount.get()).abi_encode();
        Ok(Some(Approval {
            asset_identifier: spend.source.asset().clone(),
            spender: spender.to_string(),
            amount: spend.amount,
            call: json!({
                "owner_address": spend.source.account(),
                "contract_address": text(trc20(spend.source.asset())?),
                "function_selector": approveCall::SIGNATURE,
                "parameter": hex::encode(arguments),
                "call_value": 0,
                "fee_limit": APPROVAL_FEE_LIMIT_SUN,
                "visible": true,
            }),
        }))
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

/// The Permit2 that payers sign for.
fn permit2_of(node: &Node) -> Result<&Account, Transient> {
    let permit2 = node.config().permit2.as_ref();
    permit2.ok_or_else(|| Transient::misconfigured(format!("{} has no Permit2", node.chain_id())))
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
