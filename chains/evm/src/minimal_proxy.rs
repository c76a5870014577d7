//! Minimal proxies (ERC-1167) that a contract of this gateway makes by CREATE2: where they are, whether their code is made or not.

use alloy::primitives::{Address, B256, keccak256};

use escrow_abi::minimal_proxy;

/// What all proxies of a factory run: its first creation.
pub fn implementation(factory: Address) -> Address {
    factory.create(1)
}

/// The address of the proxy with this salt (EIP-1014).
pub(crate) fn address(factory: Address, implementation: Address, salt: B256) -> Address {
    factory.create2(salt, keccak256(minimal_proxy::creation(implementation)))
}
