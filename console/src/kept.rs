//! What was asked for and is kept for a while: however many look at the same time, one asks.

use std::{sync::Arc, time::Duration};

use moka::future::Cache;

use crate::error::Error;

/// One answer, which is good for some time. A fault is for those alone who waited for it.
pub(crate) struct Kept<T>(Cache<(), Arc<T>>);

impl<T: Send + Sync + 'static> Kept<T> {
    /// Nothing yet; what is asked for is good for `fresh`.
    pub(crate) fn new(fresh: Duration) -> Self {
        Self(Cache::builder().max_capacity(1).time_to_live(fresh).build())
    }

    /// What is kept, or what `ask` gives.
    ///
    /// # Errors
    /// That of `ask`.
    pub(crate) async fn or(&self, ask: impl Future<Output = Result<T, Error>>) -> Result<Arc<T>, Error> {
        let ask = async { ask.await.map(Arc::new) };
        self.0.try_get_with((), ask).await.map_err(|error: Arc<Error>| (*error).clone())
    }

    /// Forgets what is kept, as after a change of one's own.
    pub(crate) async fn forget(&self) {
        self.0.invalidate(&()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn a_crowd_costs_as_one_and_a_fault_is_not_kept() {
        let (kept, asked) = (Kept::new(Duration::from_secs(60)), AtomicUsize::new(0));
        let ask = |answer: Result<u32, Error>| {
            let asked = &asked;
            async move {
                asked.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                answer
            }
        };
        assert_eq!(kept.or(ask(Err(Error::TooBusy))).await, Err(Error::TooBusy));
        for answer in join_all((0..100).map(|_| kept.or(ask(Ok(7))))).await {
            assert_eq!(*answer.unwrap(), 7);
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        kept.forget().await;
        assert_eq!(*kept.or(ask(Ok(8))).await.unwrap(), 8);
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }
}
