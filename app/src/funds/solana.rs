//! Payers on Solana: what they hold, and what they let the program draw.

use async_trait::async_trait;
use ruint::aliases::U256;
use serde_json::{Value, json};

use chains_solana::{
    authorization::allowance_delegate, broadcaster::Broadcaster, holding, node::Node, program, wrapping,
};
use events::{Account, Amount};
use sagas::ports::Transient;

use super::{Approval, Coin, Draw, Funds, Holding, Spend};
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

    /// What the payer holds of SOL, where the source is its wrapped form.
    async fn coin(&self, spend: &Spend<'_>) -> Result<Option<Coin>, Transient> {
        let node = self.nodes.of(spend.source)?;
        let Some(asset) = node.config().common.coin_of(spend.source.asset()) else { return Ok(None) };
        let lamports = node.lamports(&program::key(spend.source.account())?).await?;
        Ok(Some(Coin { asset: asset.clone(), balance: U256::from(lamports) }))
    }

    /// The payer's token account and the program of its token; of wrapped SOL also where it is not there yet, as wrapping makes it.
    async fn token_account(&self, spend: &Spend<'_>) -> Result<Option<(String, String)>, Transient> {
        if wrapping::is_wrapped_sol(spend.source.asset()) {
            let address = wrapping::token_account(spend.source.account())?;
            return Ok(Some((program::text(&address), program::text(&wrapping::TOKEN_PROGRAM))));
        }
        Ok(self.read(spend).await?.map(|holding| (holding.address, holding.token_program)))
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
        // What a client of x402 signs sends the token itself.
        let delegate = match spend.draw {
            Draw::Transfer { .. } => None,
            _ => Some(delegate(spend)?),
        };
        let (holding, coin) = tokio::try_join!(self.read(spend), self.coin(spend))?;
        let allowed_to = |delegate: &Account| holding.as_ref().map_or(0, |holding| holding.allowed_to(delegate));
        Ok(Holding {
            mandate: None,
            balance: U256::from(holding.as_ref().map_or(0, |holding| holding.amount)),
            allowance: delegate.as_ref().map(|delegate| U256::from(allowed_to(delegate))),
            spender: delegate.map(|delegate| delegate.to_string()).unwrap_or_default(),
            coin,
        })
    }

    async fn approval(&self, spend: &Spend<'_>) -> Result<Option<Approval>, Transient> {
        let delegate = delegate(spend)?;
        let (Some((address, token_program)), Ok(units)) =
            (self.token_account(spend).await?, u64::try_from(spend.amount.get()))
        else {
            return Ok(None);
        };
        let data: Vec<u8> = std::iter::once(APPROVE).chain(units.to_le_bytes()).collect();
        let accounts = [
            account(&address, false, true),
            account(delegate.as_str(), false, false),
            account(spend.source.account().as_str(), true, false),
        ];
        let node = self.nodes.of(spend.source)?;
        let block = Broadcaster::of(node).blockhash(node.settled().await?).await?;
        let mut call = instruction(&token_program, &accounts, &data);
        // For a wallet whose page asks no node: a transaction names a block that is not old.
        call["recent_blockhash"] = program::text(&block.hash).into();
        Ok(Some(Approval {
            asset_identifier: spend.source.asset().clone(),
            amount: spend.amount,
            call,
            spender: delegate.to_string(),
        }))
    }

    fn wrapping(&self, spend: &Spend<'_>, amount: Amount) -> Result<Vec<Value>, Transient> {
        let built = wrapping::wrap(spend.source.account(), program::units(amount)?)?;
        let shown = built.iter().map(|built| {
            let accounts =
                built.accounts.iter().map(|meta| account(&program::text(&meta.key), meta.signer, meta.writable));
            instruction(&program::text(&built.program_id), &accounts.collect::<Vec<_>>(), &built.data)
        });
        Ok(shown.collect())
    }
}

/// An instruction as the clients' libraries have it.
fn instruction(program_id: &str, accounts: &[Value], data: &[u8]) -> Value {
    json!({"program_id": program_id, "accounts": accounts, "data": format!("0x{}", hex::encode(data))})
}

fn account(pubkey: &str, is_signer: bool, is_writable: bool) -> Value {
    json!({"pubkey": pubkey, "is_signer": is_signer, "is_writable": is_writable})
}
