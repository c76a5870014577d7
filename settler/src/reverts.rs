//! Bounded losses: how often deliveries to a recipient may revert in a block before none is sent there.
//!
//! A delivery is simulated before it is sent, and one that is refused then costs nothing. The code of a recipient can accept
//! the simulation and revert in the block, by what it is told there or by a change in between, and each time the settler
//! pays for the gas. A token's code is its operator's choice. A coin runs the recipient's, which is the payer's choice.
//!
//! So the losses to one recipient are counted, over all awards. The count is this process's: after a restart it begins at nought.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use chains::perform::PerformError;
use events::OwnedAsset;

use crate::recent::RecentMap;

/// So many deliveries of coins may revert at one recipient.
const REVERTS_MAX: u32 = 3;
/// How long after the last of them no further one is sent.
const REMEMBERED_FOR: Duration = Duration::from_secs(6 * 3600);
/// Most recipients that are remembered.
const RECIPIENTS_MAX: usize = 4096;

/// The deliveries that reverted in a block, by recipient.
#[derive(Debug)]
pub struct Reverts(Mutex<RecentMap<OwnedAsset, (Instant, u32)>>);

impl Default for Reverts {
    fn default() -> Self {
        Self(Mutex::new(RecentMap::new(RECIPIENTS_MAX)))
    }
}

impl Reverts {
    /// Counts `error`, when it is of a transaction that is in a block and so was paid for.
    pub fn count(&self, destination: &OwnedAsset, error: &PerformError) {
        let PerformError::Refused(context) = error else { return };
        if context.transaction_hash.is_none() || !destination.asset().is_coin() {
            return;
        }
        let reverts = self.of(destination).saturating_add(1);
        self.counts().insert(destination.clone(), (Instant::now(), reverts));
        let (asset, recipient) = (destination.asset(), destination.account());
        tracing::warn!(%asset, %recipient, reverts, %error, "a delivery of coins reverted in a block, and was paid for");
    }

    /// Whether nothing more is sent there for now. Of a token it never is so.
    pub fn is_exhausted(&self, destination: &OwnedAsset) -> bool {
        self.of(destination) >= REVERTS_MAX
    }

    fn of(&self, destination: &OwnedAsset) -> u32 {
        let counts = self.counts();
        let lately = counts.get(destination).filter(|(last, _)| last.elapsed() < REMEMBERED_FOR);
        lately.map_or(0, |(_, reverts)| *reverts)
    }

    fn counts(&self) -> MutexGuard<'_, RecentMap<OwnedAsset, (Instant, u32)>> {
        // Inserting cannot panic half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[tokio::test(start_paused = true)]
    async fn only_what_was_paid_for_ends_the_deliveries_of_coins_to_one_recipient_for_hours() {
        const RECIPIENT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
        const ANOTHER: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
        let owned = |asset: &str, account| OwnedAsset::new(asset.parse().unwrap(), account).unwrap();
        let coin = owned("eip155:10/slip44:60", RECIPIENT);
        let token = owned("eip155:10/erc20:0x2222222222222222222222222222222222222222", RECIPIENT);
        let reverts = Reverts::default();
        for _ in 0..9 {
            reverts.count(&coin, &refused(None));
            reverts.count(&coin, &PerformError::TooLate(String::new()));
            reverts.count(&coin, &Transient::unreachable("no answer").into());
            reverts.count(&token, &refused(Some("0x01")));
        }
        for _ in 0..REVERTS_MAX {
            assert!(!reverts.is_exhausted(&coin));
            reverts.count(&coin, &refused(Some("0x01")));
        }
        assert!(reverts.is_exhausted(&coin) && !reverts.is_exhausted(&token));
        assert!(!reverts.is_exhausted(&owned("eip155:10/slip44:60", ANOTHER)));
        tokio::time::advance(REMEMBERED_FOR).await;
        assert!(!reverts.is_exhausted(&coin));
    }
}
