//! Chain families: every one, for what goes through all of them.

use std::iter;

use events::Family;

/// Every family. A new one does not compile before it is named here.
pub(crate) fn all() -> impl Iterator<Item = Family> {
    iter::successors(Some(Family::Evm), |family| match family {
        Family::Evm => Some(Family::Solana),
        Family::Solana => Some(Family::Tron),
        Family::Tron => None,
    })
}
