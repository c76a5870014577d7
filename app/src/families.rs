//! Chain families: every one, for what goes through all of them.

use std::iter;

use events::{Account, Family};

/// Every family. A new one does not compile before it is named here.
pub(crate) fn all() -> impl Iterator<Item = Family> {
    iter::successors(Some(Family::Evm), |family| match family {
        Family::Evm => Some(Family::Solana),
        Family::Solana => Some(Family::Tron),
        Family::Tron => None,
    })
}

/// The account that an originator is, behind its namespace; `None` for a DID and for anything else.
pub(crate) fn account_of(originator: &str) -> Option<Account> {
    let (namespace, account) = originator.split_once(':')?;
    let family = all().find(|family| family.namespace() == namespace)?;
    Account::parse(family, account).ok()
}
