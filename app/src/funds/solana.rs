//! Payers on Solana: what they hold, and what they let the program draw.

use async_trait::async_trait;
use ruint::aliases::U256;
use serde_json::json;

use chains_solana::{authorization::allowance_delegate, holding, node::Node};
use events::Account;
use sagas::ports::Transient;

use super::{Approval, Draw, Funds, Holding, Spend};
use crate::connected::Connected;

/// `Approve` of SPL Token and of Token-2022: this byte, and the amount in eight, the lowest first.
const APPROVE: u8 = 4;

/// [`Funds`] on the Solana chains it has a node of.
#[derive(Clone)]
pub struct SolanaFunds {
    nodes: Connected<Node>,
}

impl SolanaFunds {
    /// Funds as these nodes see them.
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Self {
        Self { nodes: nodes.into_iter().map(|node| (node.chain_id().clone(), node)).collect() }
    }

    async fn read(&self, spend: &Spend<'_>) -> Result<Option<holding::Holding>, Transient> {
        holding::Holding::read(self.nodes.of(spend.source)?, spend.source).await
    }
}

/// The program's address that the payer gives its allowance to.
fn delegate(spend: &Spend<'_>) -> Result<Account, Transient> {
    let Draw::Delegate { signer } = spend.draw else {
        return Err(Transient::misconfigured("the payer signed for another family"));
    };
    Ok(allowance_delegate(&spend.escrow.contract, signer)?)
}

#[async_trait]
impl Funds for SolanaFunds {
    async fn holding(&self, spend: &Spend<'_>) -> Result<Holding, Transient> {
        let delegate = delegate(spend)?;
        let holding = self.read(spend).await?;
        let (held, allowed) = holding.map_or((0, 0), |holding| (holding.amount, holding.allowed_to(&delegate)));
        Ok(Holding { balance: U256::from(held), allowance: Some(U256::from(allowed)), spender: delegate.to_string() })
    }

    async fn approval(&self, spend: &Spend<'_>) -> Result<Option<Approval>, Transient> {
        let delegate = delegate(spend)?;
        let holding = self.read(spend).await?;
        let (Some(holding), Ok(units)) = (holding, u64::try_from(spend.amount.get())) else { return Ok(None) };
        let data: Vec<u8> = std::iter::once(APPROVE).chain(units.to_le_bytes()).collect();
        let account = |pubkey: &str, is_signer, is_writable| json!({"pubkey": pubkey, "is_signer": is_signer, "is_writable": is_writable});
        let accounts = [
            account(&holding.address, false, true),
            account(delegate.as_str(), false, false),
            account(spend.source.account().as_str(), true, false),
        ];
        Ok(Some(Approval {
            asset_identifier: spend.source.asset().clone(),
            amount: spend.amount,
            call: json!({
                "program_id": holding.token_program,
                "accounts": accounts,
                "data": format!("0x{}", hex::encode(data)),
            }),
            spender: delegate.to_string(),
        }))
    }
}
