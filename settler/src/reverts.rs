//! Bounded losses: how often a delivery may revert in a block before it is not sent again.
//!
//! A delivery is simulated before it is sent, and one that is refused then costs nothing. The code of a recipient can accept
//! the simulation and revert in the block, by what it is told there or by a change in between, and each time the settler
//! pays for the gas. A token's code is its operator's choice. A coin runs the recipient's, which is the payer's choice.
//!
//! The count is this process's: after a restart it begins at nought.

use chains::perform::PerformError;
use events::AssetId;

/// So many deliveries of coins may revert for one award.
const REVERTS_MAX: u32 = 3;

/// The deliveries of one award that reverted in a block.
#[derive(Debug, Default)]
pub struct Reverts(u32);

impl Reverts {
    /// Counts `error`, when it is of a transaction that is in a block and so was paid for.
    pub fn count(&mut self, error: &PerformError) {
        if let PerformError::Refused(context) = error
            && context.transaction_hash.is_some()
        {
            self.0 = self.0.saturating_add(1);
            tracing::warn!(reverts = self.0, %error, "a delivery reverted in a block, and was paid for");
        }
    }

    /// Whether no further delivery of `asset` is sent for the award.
    pub fn is_exhausted(&self, asset: &AssetId) -> bool {
        asset.is_coin() && self.0 >= REVERTS_MAX
    }
}

#[cfg(test)]
mod tests {
    use events::{ChainId, failure::BlockchainContext};
    use sagas::ports::Transient;

    use super::*;

    fn refused(transaction_hash: Option<&str>) -> PerformError {
        PerformError::Refused(Box::new(BlockchainContext {
            chain_id: ChainId::evm(10),
            transaction_hash: transaction_hash.map(str::to_owned),
            block_number: None,
            contract_address: None,
            revert_reason: None,
            gas_used: None,
            estimated_gas_needed: None,
        }))
    }

    #[test]
    fn only_what_was_paid_for_ends_the_deliveries_of_coins_and_none_of_tokens() {
        let coin: AssetId = "eip155:10/slip44:60".parse().unwrap();
        let token = "eip155:10/erc20:0x2222222222222222222222222222222222222222".parse().unwrap();
        let mut reverts = Reverts::default();
        for _ in 0..9 {
            reverts.count(&refused(None));
            reverts.count(&PerformError::TooLate(String::new()));
            reverts.count(&Transient::unreachable("no answer").into());
        }
        for _ in 0..REVERTS_MAX {
            assert!(!reverts.is_exhausted(&coin));
            reverts.count(&refused(Some("0x01")));
        }
        assert!(reverts.is_exhausted(&coin) && !reverts.is_exhausted(&token));
    }
}
