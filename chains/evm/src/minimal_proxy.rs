//! Minimal proxies (ERC-1167) that a contract of this gateway makes by CREATE2: where they are, whether their code is made or not.

use alloy::primitives::{Address, B256, hex, keccak256};

/// What all proxies of a factory run: its first creation.
pub fn implementation(factory: Address) -> Address {
    factory.create(1)
}

/// The address of the proxy with this salt (EIP-1014).
pub(crate) fn address(factory: Address, implementation: Address, salt: B256) -> Address {
    let head = hex!("3d602d80600a3d3981f3363d3d373d3d3d363d73");
    let tail = hex!("5af43d82803e903d91602b57fd5bf3");
    let creation = [head.as_slice(), implementation.as_slice(), tail.as_slice()].concat();
    factory.create2(salt, keccak256(creation))
}
