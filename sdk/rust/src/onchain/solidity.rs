//! The escrow's calls on EVM chains and Tron, whose contracts are the same.

use alloy::{primitives::Address, sol_types::SolCall};

use escrow_abi::{contracts::GatewayEscrow, record::EscrowTerms};

/// The refund of a payment whose escrow commits to these terms.
pub(super) fn refund(terms: EscrowTerms) -> Vec<u8> {
    GatewayEscrow::refundCall { e: terms.0 }.abi_encode()
}

/// What brings `owner` its claims in `token`.
pub(super) fn claim_for(owner: Address, token: Address) -> Vec<u8> {
    GatewayEscrow::claimForCall { owner, token }.abi_encode()
}
