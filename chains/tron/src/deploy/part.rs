//! Part: a contract that a deployment puts on the chain.

use alloy::{
    primitives::{Address, U256, hex, keccak256},
    sol_types::SolConstructor,
};

use escrow_abi::{
    artefacts::{Artefact, FULFILLMENT_PROXY, GATEWAY_ESCROW, PERMIT2, TRON_DEPOSIT_ADDRESSES},
    contracts::{GatewayEscrow, PAYOUT_GAS},
};
use events::ChainId;

/// Bytes of the code's hash in a note's name: enough that two of one deployment differ.
const NAME_BYTES: usize = 8;

/// A contract, and what makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its name in the source.
    pub name: &'static str,
    /// Creation code with the constructor's arguments.
    pub code: Vec<u8>,
    /// Bytes of the code that is left on the chain.
    pub deployed_bytes: usize,
}

impl Part {
    /// `GatewayEscrow`. `permit2` may be zero for none, `guardian` for nobody.
    pub fn escrow(permit2: Address, reserver: Address, guardian: Address) -> Self {
        Self::of(&GATEWAY_ESCROW, &escrow_arguments(permit2, reserver, guardian))
    }

    /// Uniswap's `Permit2`.
    pub fn permit2() -> Self {
        Self::of(&PERMIT2, &[])
    }

    /// `FulfillmentProxy`.
    pub fn proxy() -> Self {
        Self::of(&FULFILLMENT_PROXY, &[])
    }

    /// `TronDepositAddresses`.
    pub fn deposit_address_factory() -> Self {
        Self::of(&TRON_DEPOSIT_ADDRESSES, &[])
    }

    fn of(artefact: &'static Artefact, arguments: &[u8]) -> Self {
        Self { name: &artefact.name, code: artefact.creation_with(arguments), deployed_bytes: artefact.deployed.len() }
    }

    /// The name of its note. Other code or other arguments are another contract, which the note of this one says nothing of.
    pub fn note_name(&self, chain_id: &ChainId) -> String {
        let hash = keccak256(&self.code);
        format!("{chain_id}/{}/{}", self.name, hex::encode(&hash[..NAME_BYTES]))
    }
}

/// The ABI-encoded arguments of the escrow's constructor.
pub(super) fn escrow_arguments(permit2: Address, reserver: Address, guardian: Address) -> Vec<u8> {
    GatewayEscrow::constructorCall {
        permit2_: permit2,
        reserver_: reserver,
        guardian_: guardian,
        payoutGas_: U256::from(PAYOUT_GAS),
    }
    .abi_encode()
}
