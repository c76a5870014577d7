//! The chains that are connected, each with what asks it.

use std::collections::BTreeMap;

use events::{ChainId, OwnedAsset};
use sagas::ports::Transient;

/// What asks each chain, such as its node.
#[derive(Debug, Clone)]
pub(crate) struct Connected<T>(BTreeMap<ChainId, T>);

impl<T> Default for Connected<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> FromIterator<(ChainId, T)> for Connected<T> {
    fn from_iter<I: IntoIterator<Item = (ChainId, T)>>(chains: I) -> Self {
        Self(chains.into_iter().collect())
    }
}

impl<T> Connected<T> {
    /// What asks this chain; `None` where it is not connected.
    pub(crate) fn get(&self, chain: &ChainId) -> Option<&T> {
        self.0.get(chain)
    }

    /// What asks the chain on which the payer of `source` is.
    ///
    /// # Errors
    /// [`Transient::Misconfigured`] where that chain is not connected.
    pub(crate) fn of(&self, source: &OwnedAsset) -> Result<&T, Transient> {
        let chain = source.asset().chain();
        self.0.get(chain).ok_or_else(|| Transient::misconfigured(format!("no node for {chain}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_without_a_node_is_named() {
        let connected: Connected<u8> = [("eip155:1".parse().unwrap(), 1)].into_iter().collect();
        let source = |chain: &str| {
            let asset = format!("{chain}/erc20:0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0").parse().unwrap();
            OwnedAsset::new(asset, "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed").unwrap()
        };
        assert_eq!(connected.of(&source("eip155:1")), Ok(&1));
        assert_eq!(connected.of(&source("eip155:2")), Err(Transient::misconfigured("no node for eip155:2")));
    }
}
