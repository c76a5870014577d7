//! What a chain says of an escrow, such as whether deposit addresses of it are given, or by which Permit2 it draws. Whoever asks for
//! a payment may cause the question, so one is asked at a time for each escrow, and the answer counts for a while.

use std::{sync::Arc, time::Duration};

use moka::future::Cache;

use events::Account;
use sagas::ports::Transient;

use super::AuthorizeError;
use crate::bulkhead::Bulkhead;

/// How long an answer counts. The block in it is where a search begins one day, so it is taken anew.
const COUNTS_FOR: Duration = Duration::from_secs(30);
/// Escrows of which it is known. Only configured ones are asked about.
const ESCROWS_MAX: u64 = 1_024;

/// What chains said of escrows, none where they said no.
#[derive(Debug, Clone)]
pub(super) struct AskedEscrows<T>(Cache<Account, Option<T>>)
where
    T: Copy + Send + Sync + 'static;

impl<T: Copy + Send + Sync + 'static> Default for AskedEscrows<T> {
    fn default() -> Self {
        Self(Cache::builder().time_to_live(COUNTS_FOR).max_capacity(ESCROWS_MAX).build())
    }
}

impl<T: Copy + Send + Sync + 'static> AskedEscrows<T> {
    /// What is known lately of the escrow, or what `ask` says. All that come at once wait for one answer, each in its own bulkhead, so
    /// that those who signed are not refused for those who proved nothing.
    ///
    /// # Errors
    /// [`Transient`].
    pub(super) async fn of(
        &self,
        escrow: &Account,
        asks: &Bulkhead,
        ask: impl Future<Output = Result<Option<T>, Transient>>,
    ) -> Result<Option<T>, Transient> {
        if let Some(known) = self.0.get(escrow).await {
            return Ok(known);
        }
        let _permit = asks.permit().await.ok_or_else(crowded)?;
        self.0.try_get_with_by_ref(escrow, ask).await.map_err(|error: Arc<Transient>| (*error).clone())
    }
}

/// Questions to a node about tokens and contracts, at a time; four times as many wait for it.
const ASKS_MAX: usize = 16;
/// How long they wait.
const ASK_WAIT_MAX: Duration = Duration::from_millis(250);

/// A bulkhead for one chain's questions, `lane` in the metrics.
pub(super) fn asks(lane: &'static str) -> Arc<Bulkhead> {
    Arc::new(Bulkhead::new(lane, ASKS_MAX, 4 * ASKS_MAX, ASK_WAIT_MAX))
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
