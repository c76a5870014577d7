//! EVM chains: one factory at one address, which follows from its code.

use chains_evm::{
    deposit_addresses::{address_for, factory},
    minimal_proxy::implementation,
};
use escrow_abi::contracts;

use super::{AddressFamily, solidity::Words, unusable};

pub(super) const WORDS: Words = Words {
    address_for: |factory, terms| address_for(factory, implementation(factory), terms),
    read: |account| contracts::address(account).map_err(unusable),
    written: contracts::text,
    token: |asset| contracts::erc20(asset).map_err(unusable),
};

pub(super) const FAMILY: AddressFamily = AddressFamily {
    factory: Some(|_| contracts::text(factory())),
    commit: |payable, factory| WORDS.commit(payable, factory),
    token: |asset| (WORDS.token)(asset).map(drop),
    uri: |asset, address, amount| {
        let (token, chain) = (asset.reference(), asset.chain().reference());
        format!("ethereum:{token}@{chain}/transfer?address={address}&uint256={amount}")
    },
    ignores_case: true,
};
