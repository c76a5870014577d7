//! The values of a Permit2 message.

use alloy::{
    primitives::{Address, B256, U256},
    sol_types::{Eip712Domain, SolStruct},
};

use escrow_abi::eip712::{
    GatewayDeposit, PermitTransferFrom, PermitWitnessTransferFrom, TokenPermissions, permit2_domain,
};

/// The values of one Permit2 message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PermitMessage {
    /// EIP-155 id of the domain's chain.
    pub chain_id: U256,
    /// The Permit2 contract, which verifies the message.
    pub permit2: Address,
    /// The ERC-20 token that is drawn.
    pub token: Address,
    /// The most that may be drawn, smallest unit of the token.
    pub amount: U256,
    /// The escrow, which alone may draw.
    pub spender: Address,
    /// Permit2's unordered nonce: 248 bits of a word's position, 8 of the bit in it.
    pub nonce: U256,
    /// The last second in which Permit2 takes the message, UNIX.
    pub deadline: u64,
    /// The deposit that the message is for; `None` where it is signed without a witness.
    pub witness: Option<GatewayDeposit>,
}

impl PermitMessage {
    pub fn domain(&self) -> Eip712Domain {
        // A chain id above 64 bits is refused before any digest is made.
        permit2_domain(u64::try_from(self.chain_id).unwrap_or_default(), self.permit2)
    }

    pub fn hash_struct(&self) -> B256 {
        let permitted = TokenPermissions { token: self.token, amount: self.amount };
        let (spender, nonce, deadline) = (self.spender, self.nonce, U256::from(self.deadline));
        match &self.witness {
            Some(witness) => {
                PermitWitnessTransferFrom { permitted, spender, nonce, deadline, witness: witness.clone() }
                    .eip712_hash_struct()
            }
            None => PermitTransferFrom { permitted, spender, nonce, deadline }.eip712_hash_struct(),
        }
    }
}
