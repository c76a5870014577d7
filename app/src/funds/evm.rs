//! Payers on EVM chains: what they hold, what they let Permit2 draw, and which of its nonces they have used.

use alloy::{
    primitives::{Address, B256, Bytes, U256},
    sol,
    sol_types::SolCall,
};
use async_trait::async_trait;
use chrono::Utc;
use serde_json::{Value, json};

use chains_evm::{
    batching::Views,
    mandates,
    node::{At, Node},
    payment_batches,
    query::Query,
    token_domain::Tokens,
    wrapping::{self, WrapCall},
};
use escrow_abi::{
    contracts::{address, erc20, text},
    permit2::{self, IPermit2},
};
use events::Amount;
use sagas::ports::Transient;

use super::{Allowed, Approval, Coin, Draw, Funds, Holding, Spend};
use crate::connected::Connected;

sol! {
    interface IERC20Holdings {
        function balanceOf(address holder) external view returns (uint256);
        function allowance(address holder, address spender) external view returns (uint256);
        function approve(address spender, uint256 amount) external returns (bool);
    }
}

/// [`Funds`] on the EVM chains it has a node of.
#[derive(Clone)]
pub struct EvmFunds {
    chains: Connected<Chain>,
}

#[derive(Clone)]
struct Chain {
    views: Views,
    tokens: Tokens,
}

impl EvmFunds {
    /// Funds as these nodes see them.
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Self {
        let chain = |node: Node| {
            let (id, views) = (node.chain_id().clone(), Views::new(node));
            (id, Chain { tokens: Tokens::new(views.clone()), views })
        };
        Self { chains: nodes.into_iter().map(chain).collect() }
    }

    fn parties(&self, spend: &Spend<'_>) -> Result<Parties<'_>, Transient> {
        let Chain { views, tokens } = self.chains.of(spend.source)?;
        Ok(Parties {
            views,
            tokens,
            token: erc20(spend.source.asset())?,
            payer: address(spend.source.account())?,
            permit2: views.node().permit2(),
        })
    }
}

/// Who has to do with a payment out of an account, and where.
struct Parties<'a> {
    views: &'a Views,
    tokens: &'a Tokens,
    token: Address,
    payer: Address,
    permit2: Address,
}

#[async_trait]
impl Funds for EvmFunds {
    async fn holding(&self, spend: &Spend<'_>) -> Result<Holding, Transient> {
        let Parties { views, token, payer: holder, permit2: spender, .. } = self.parties(spend)?;
        let held = IERC20Holdings::balanceOfCall { holder };
        if matches!(spend.draw, Draw::Transfer { .. }) {
            let (balance, coin) = tokio::try_join!(views.read(token, &held), coin(views.node(), spend, holder))?;
            return Ok(Holding {
                balance,
                allowance: None,
                spender: spend.escrow.contract.to_string(),
                mandate: None,
                coin,
            });
        }
        let allowed = IERC20Holdings::allowanceCall { holder, spender };
        if let Draw::Mandate { charge } = spend.draw {
            let now = u64::try_from(Utc::now().timestamp()).unwrap_or_default();
            let left = mandates::left(views, spender, (holder, token), charge, now);
            let (balance, allowance, left) =
                tokio::try_join!(views.read(token, &held), views.read(token, &allowed), left)?;
            let mandate = Some(Allowed { spender: charge.address.to_string(), units: left });
            // Whoever asks cannot wrap the payer's coins.
            return Ok(Holding { balance, allowance: Some(allowance), spender: text(spender), mandate, coin: None });
        }
        let coin = coin(views.node(), spend, holder);
        let (balance, allowance, coin) = tokio::try_join!(views.read(token, &held), views.read(token, &allowed), coin)?;
        // The call that deploys an account may approve, too; nobody can say before it was made.
        let comes_later = matches!(spend.draw, Draw::Permit2 { prepares: true, .. }) && allowance < spend.amount.get();
        let (allowance, spender) = ((!comes_later).then_some(allowance), text(spender));
        Ok(Holding { balance, allowance, spender, mandate: None, coin })
    }

    /// A batch is drawn with the deposit of one of its payments, and all others find their money there.
    async fn has_landed(&self, spend: &Spend<'_>) -> Result<bool, Transient> {
        let Draw::Batch { address: at, .. } = spend.draw else { return Ok(false) };
        let Parties { views, token, .. } = self.parties(spend)?;
        let held = IERC20Holdings::balanceOfCall { holder: address(at)? };
        let (is_drawn, held) = tokio::try_join!(payment_batches::is_drawn(views.node(), at), views.read(token, &held))?;
        Ok(is_drawn && held >= spend.amount.get())
    }

    async fn is_used(&self, spend: &Spend<'_>) -> Result<bool, Transient> {
        let Parties { views, tokens, token, payer: owner, permit2 } = self.parties(spend)?;
        let nonce = match spend.draw {
            Draw::Permit2 { nonce, .. } | Draw::Batch { nonce, .. } => nonce,
            Draw::Transfer { nonce } => return tokens.is_used(token, owner, B256::from(nonce.0)).await,
            Draw::Mandate { charge } => return mandates::is_ended(views, charge).await,
            Draw::Delegate { .. } | Draw::PayerDeposit { .. } => return Ok(false),
        };
        let nonce = U256::from_be_bytes(nonce.0);
        let word = permit2::word_of(nonce);
        let word = views.read(permit2, &IPermit2::nonceBitmapCall { owner, word }).await?;
        Ok(permit2::is_used(nonce, word))
    }

    async fn approval(&self, spend: &Spend<'_>) -> Result<Option<Approval>, Transient> {
        let Parties { token, permit2: spender, .. } = self.parties(spend)?;
        if matches!(spend.draw, Draw::Transfer { .. } | Draw::Mandate { .. }) {
            return Ok(None);
        }
        let data: Bytes = IERC20Holdings::approveCall { spender, amount: spend.amount.get() }.abi_encode().into();
        Ok(Some(Approval {
            asset_identifier: spend.source.asset().clone(),
            spender: text(spender),
            amount: spend.amount,
            call: json!({"to": text(token), "data": data, "value": "0x0"}),
        }))
    }

    fn wrapping(&self, spend: &Spend<'_>, amount: Amount) -> Result<Vec<Value>, Transient> {
        let WrapCall { to, data, value } = wrapping::wrap(spend.source.asset(), amount)?;
        Ok(vec![json!({"to": text(to), "data": data, "value": value})])
    }
}

/// What the payer holds of the chain's own coin, where the source is its wrapped form.
async fn coin(node: &Node, spend: &Spend<'_>, payer: Address) -> Result<Option<Coin>, Transient> {
    let Some(asset) = node.config().common.coin_of(spend.source.asset()) else { return Ok(None) };
    let balance = Query::of(node).balance(payer, At::Latest).await?;
    Ok(Some(Coin { asset: asset.clone(), balance }))
}
