//! Minimal proxies (ERC-1167), which the contracts behind addresses make by CREATE2.

use alloy::primitives::{Address, hex};

/// The code that makes a minimal proxy to `implementation`; its hash goes into the address.
pub fn creation(implementation: Address) -> Vec<u8> {
    let head = hex!("3d602d80600a3d3981f3363d3d373d3d3d363d73");
    let tail = hex!("5af43d82803e903d91602b57fd5bf3");
    [head.as_slice(), implementation.as_slice(), tail.as_slice()].concat()
}
