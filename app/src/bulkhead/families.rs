//! Bulkheads of chain families. What asks the nodes of a family has bulkheads of its own: a node that hangs must not take the
//! permits of all writes, whichever chains they are for. Whoever proved nothing takes no permit of those who signed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use events::Family;
use sagas::ports::Transient;

use super::Bulkhead;

/// Calls for one family by those who proved by a signature who they are, at a time, and as many more that wait for it.
pub(crate) const SIGNED_MAX: usize = 64;
/// The same for callers that proved nothing: they share what is left to them.
pub(crate) const UNSIGNED_MAX: usize = 16;
/// How long they wait.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(250);

/// What asks the nodes of each family, behind its bulkheads.
pub(crate) struct FamilyBulkheads<T: ?Sized>(BTreeMap<Family, Guarded<T>>);

/// What asks the nodes of one family, and the bulkheads in front of it.
pub(crate) struct Guarded<T: ?Sized> {
    pub(crate) inner: Arc<T>,
    pub(crate) signed: Bulkhead,
    pub(crate) unsigned: Bulkhead,
}

impl<T: ?Sized> FamilyBulkheads<T> {
    /// Bulkheads in front of each.
    pub(crate) fn new(families: impl IntoIterator<Item = (Family, Arc<T>)>) -> Self {
        let bulkhead = |lane, permits| Bulkhead::new(lane, permits, permits, WAIT_MAX);
        let guarded = |inner| Guarded {
            inner,
            signed: bulkhead("payers_signed", SIGNED_MAX),
            unsigned: bulkhead("payers_unsigned", UNSIGNED_MAX),
        };
        Self(families.into_iter().map(|(family, inner)| (family, guarded(inner))).collect())
    }

    /// That of a family.
    ///
    /// # Errors
    /// [`Transient::Misconfigured`] where no chain of it is connected.
    pub(crate) fn of(&self, family: Family) -> Result<&Guarded<T>, Transient> {
        let unknown = || Transient::misconfigured(format!("no chain is connected of {}", family.namespace()));
        self.0.get(&family).ok_or_else(unknown)
    }
}
