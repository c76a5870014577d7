//! Tron: nothing deploys a contract at the same place on every network, so each has its factory elsewhere.

use chains_tron::{
    address::{address, text, trc20},
    deposit_addresses::address_for,
};

use super::{AddressFamily, solidity::Words, unusable};

pub(super) const WORDS: Words = Words {
    address_for,
    read: |account| address(account).map_err(unusable),
    written: text,
    token: |asset| trc20(asset).map_err(unusable),
};

pub(super) const FAMILY: AddressFamily = AddressFamily {
    factory: None,
    commit: |payable, factory| WORDS.commit(payable, factory),
    token: |asset| (WORDS.token)(asset).map(drop),
    uri: |_, address, _| format!("tron:{address}"),
    ignores_case: false,
};
