//! Whether deposit addresses of an escrow are given, as its chain says: asked for those who proved nothing, so it is asked by few at a time
//! and its answer counts for a while.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use events::Account;
use sagas::ports::Transient;

use super::AuthorizeError;
use crate::bulkhead::Bulkhead;

/// How long an answer counts. The block in it is where a search begins one day, so it is taken anew.
const COUNTS_FOR: Duration = Duration::from_secs(30);

/// What chains said of escrows, none where no addresses are given, and since when that is known. Only configured escrows are asked about, so
/// it is bounded.
#[derive(Debug)]
pub(super) struct AddressedEscrows<T>(Mutex<BTreeMap<Account, (Option<T>, Instant)>>);

impl<T> Default for AddressedEscrows<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Copy> AddressedEscrows<T> {
    /// What is known lately of the escrow, or what `ask` says, in this bulkhead; `None` where no addresses are given.
    ///
    /// # Errors
    /// [`Transient`].
    pub(super) async fn of(
        &self,
        escrow: &Account,
        asks: &Bulkhead,
        ask: impl Future<Output = Result<Option<T>, Transient>>,
    ) -> Result<Option<T>, Transient> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(escrow).copied();
        if let Some((served, at)) = known
            && at.elapsed() < COUNTS_FOR
        {
            return Ok(served);
        }
        let _permit = asks.permit().await.ok_or_else(crowded)?;
        let served = ask.await?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(escrow.clone(), (served, Instant::now()));
        Ok(served)
    }
}

/// As many questions for those who proved nothing are under way as there may be.
pub(super) fn crowded() -> Transient {
    Transient::rate_limited("as many tokens and contracts as there may be are asked about")
}

/// The refusal of a refund account to which the token sends nothing.
pub(super) fn takes_no_refund(reason: &str) -> AuthorizeError {
    let rule = "source.account: the token lets it receive nothing, so no money could come back";
    AuthorizeError::Refused(format!("{rule} ({reason})"))
}
