//! Tokens: what an account lets another draw.

use alloy::primitives::{Address, U256};

use escrow_abi::contracts::DevToken::allowanceCall;
use sagas::ports::Transient;

use super::node::{Answer, Node, State};

/// How much of its `token` the account `owner` lets `spender` draw, smallest unit, in the newest state.
///
/// # Errors
/// [`Transient`], also where the token refuses.
pub async fn allowance(node: &Node, token: Address, owner: Address, spender: Address) -> Result<U256, Transient> {
    match node.call(None, token, &allowanceCall { owner, spender }, State::Newest).await? {
        Answer::Returned { value, .. } => Ok(value),
        Answer::Reverted { reason, .. } => Err(node.contradiction(format!("the token tells no allowance: {reason}"))),
    }
}
