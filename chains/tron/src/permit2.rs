//! Permit2 on Tron (ADR 156): by which an escrow draws, and whether it verifies what payers sign here.

use alloy::{
    primitives::{Address, U256},
    sol_types::SolCall,
};

use escrow_abi::{
    contracts::GatewayEscrow,
    permit2::{self, Deployed, IPermit2},
};
use events::{Account, Hash32};
use sagas::ports::Transient;

use super::{
    address::address,
    node::{Answer, Node, State},
};

/// The Permit2 by which an escrow draws, as of a solidified block; `None` where it has none.
///
/// # Errors
/// [`Transient`].
pub(crate) async fn of_escrow(node: &Node, escrow: &Account) -> Result<Option<Address>, Transient> {
    let permit2 = settled(node, address(escrow)?, &GatewayEscrow::permit2Call {}).await?;
    Ok(permit2.filter(|permit2| !permit2.is_zero()))
}

/// The chain's Permit2, where payers may sign for it: the escrow draws by the one that is configured, and that verifies signatures in the
/// domain of this chain. `None` where not.
///
/// # Errors
/// [`Transient`].
pub async fn served_from(node: &Node, escrow: &Account) -> Result<Option<Address>, Transient> {
    let Some(configured) = node.config().permit2.as_ref().map(address).transpose()? else { return Ok(None) };
    if of_escrow(node, escrow).await? != Some(configured) {
        return Ok(None);
    }
    let domain = settled(node, configured, &IPermit2::DOMAIN_SEPARATORCall {}).await?;
    let expected = Deployed { chain_id: node.reference().into(), address: configured }.domain().separator();
    Ok((domain == Some(expected)).then_some(configured))
}

/// Whether a payer has used, or revoked, the nonce of a permit, in the newest state.
///
/// # Errors
/// [`Transient`].
pub async fn is_used(node: &Node, permit2: &Account, owner: &Account, nonce: Hash32) -> Result<bool, Transient> {
    let nonce = U256::from_be_bytes(nonce.0);
    let call = IPermit2::nonceBitmapCall { owner: address(owner)?, word: permit2::word_of(nonce) };
    match node.call(None, address(permit2)?, &call, State::Newest).await? {
        Answer::Returned { value, .. } => Ok(permit2::is_used(nonce, value)),
        Answer::Reverted { reason, .. } => Err(node.contradiction(format!("Permit2 tells no nonces: {reason}"))),
    }
}

/// What a contract answers as of a solidified block; `None` where it refuses, or is none.
async fn settled<C: SolCall>(node: &Node, contract: Address, call: &C) -> Result<Option<C::Return>, Transient> {
    match node.call(None, contract, call, State::Solidified).await {
        Ok(Answer::Returned { value, .. }) => Ok(Some(value)),
        Ok(Answer::Reverted { .. }) => Ok(None),
        // A node says no more of a contract that is not there.
        Err(fault) => match node.nodes().contract_code(contract).await.map_err(Transient::from)? {
            Some(_) => Err(fault),
            None => Ok(None),
        },
    }
}
