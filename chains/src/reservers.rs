//! Reservers: the keys that sign what comes into an escrow, each found by the account that a payment names (ADR 133).
//!
//! A payment keeps the reserver that its payer signed for. So a gateway that has another one by now signs with the earlier key
//! for what names it, and with none where it has none: a signature by another key would only be refused on chain, after the
//! payer's money came in.

use std::collections::BTreeMap;

use events::{Account, ChainId};
use sagas::ports::Transient;

use crate::setup::SetupError;

/// A payment names a reserver whose key the gateway does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the gateway has no key of the reserver {reserver} on {chain_id}: give it to draining_reserver_keys")]
pub struct NoReserverKey {
    /// The chain.
    pub chain_id: ChainId,
    /// The account that the payment names.
    pub reserver: Account,
}

impl From<NoReserverKey> for Transient {
    /// An operator mends it; it says nothing about what happened on chain.
    fn from(error: NoReserverKey) -> Self {
        Self::misconfigured(error)
    }
}

/// The keys of a chain's reservers: the present one's, which new payments name, and those of earlier ones.
#[derive(Clone)]
pub struct Reservers<K> {
    chain_id: ChainId,
    keys: BTreeMap<Account, K>,
}

impl<K> std::fmt::Debug for Reservers<K> {
    /// The accounts, and nothing of their keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservers").field("chain_id", &self.chain_id).field("accounts", &self.keys.keys()).finish()
    }
}

impl<K> Reservers<K> {
    /// The key of the reserver that `chain_id` is `configured` with, and the `draining` ones; `account` is how the chain's family
    /// names a key's account.
    ///
    /// # Errors
    /// [`SetupError::Reserver`] when the key is of another account, [`SetupError::ReserverTwice`] when one of the draining ones
    /// is of the same account as another key.
    pub fn new(
        chain_id: ChainId,
        configured: &Account,
        key: K,
        draining: Vec<K>,
        account: impl Fn(&K) -> Account,
    ) -> Result<Self, SetupError> {
        let own = account(&key);
        if own != *configured {
            return Err(SetupError::Reserver { chain_id, configured: configured.clone(), key: own });
        }
        let mut keys = BTreeMap::from([(own, key)]);
        for key in draining {
            let account = account(&key);
            if keys.insert(account.clone(), key).is_some() {
                return Err(SetupError::ReserverTwice { chain_id, account });
            }
        }
        Ok(Self { chain_id, keys })
    }

    /// The key of the reserver that a payment names.
    ///
    /// # Errors
    /// [`NoReserverKey`].
    pub fn of(&self, reserver: &Account) -> Result<&K, NoReserverKey> {
        let none = || NoReserverKey { chain_id: self.chain_id.clone(), reserver: reserver.clone() };
        self.keys.get(reserver).ok_or_else(none)
    }

    /// The same accounts with what `with` makes of their keys.
    pub fn map<L>(self, with: impl Fn(K) -> L) -> Reservers<L> {
        let keys = self.keys.into_iter().map(|(account, key)| (account, with(key))).collect();
        Reservers { chain_id: self.chain_id, keys }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(number: &u8) -> Account {
        format!("0x{}", hex(*number)).parse().unwrap()
    }

    fn hex(number: u8) -> String {
        format!("{number:02x}").repeat(20)
    }

    fn reservers(draining: Vec<u8>) -> Result<Reservers<u8>, SetupError> {
        Reservers::new("eip155:1".parse().unwrap(), &account(&1), 1, draining, account)
    }

    #[test]
    fn the_key_is_that_of_the_account_which_is_named() {
        let keys = reservers(vec![2, 3]).unwrap();
        for key in [1, 2, 3] {
            assert_eq!(keys.of(&account(&key)), Ok(&key));
        }
        let missing = keys.of(&account(&4)).unwrap_err();
        assert_eq!(missing.reserver, account(&4));
        let fault = Transient::from(missing);
        assert!(fault.is_misconfigured() && fault.to_string().contains(account(&4).as_str()), "{fault}");
    }

    #[test]
    fn the_present_key_is_the_configured_ones_and_none_repeats() {
        let other = Reservers::new("eip155:1".parse().unwrap(), &account(&2), 1, Vec::new(), account);
        assert!(matches!(other, Err(SetupError::Reserver { key, .. }) if key == account(&1)));
        for draining in [vec![1], vec![2, 2]] {
            assert!(matches!(reservers(draining), Err(SetupError::ReserverTwice { .. })));
        }
    }

    #[test]
    fn keys_are_not_shown() {
        let told = format!("{:?}", reservers(vec![2]).unwrap());
        assert!(told.contains(account(&2).as_str()) && !told.contains("K("), "{told}");
    }
}
