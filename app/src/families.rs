//! Chain families: every one, for what goes through all of them, and what tells them apart in more than one place.

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

/// Whether what a payer of this family signs holds a signature of the gateway's, which it gets by preparing the payment: on Tron
/// it is a transaction that the escrow's reserver has admitted.
pub(crate) fn has_countersignature(family: Family) -> bool {
    match family {
        Family::Tron => true,
        Family::Evm | Family::Solana => false,
    }
}
