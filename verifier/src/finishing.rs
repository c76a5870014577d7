//! Futures that are driven to their end even when nobody waits for what comes of them any more.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::Handle;

/// A future that goes on in a task of its own once it is dropped before its end. Until then it costs no task.
pub(super) struct Finishing<F>(Option<Pin<Box<F>>>)
where
    F: Future<Output: Send> + Send + 'static;

impl<F> Finishing<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    pub(super) fn new(future: F) -> Self {
        Self(Some(Box::pin(future)))
    }
}

impl<F> Future for Finishing<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(future) = &mut self.0 else { return Poll::Pending };
        let polled = future.as_mut().poll(context);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl<F> Drop for Finishing<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    fn drop(&mut self) {
        if let Some(future) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_is_dropped_on_the_way_goes_on() {
        let (go, gone) = oneshot::channel();
        let (done, end) = oneshot::channel();
        let mut future = Finishing::new(async move {
            let said: u8 = gone.await.unwrap();
            done.send(said).unwrap();
        });
        assert!((&mut future).now_or_never().is_none());
        drop(future);
        go.send(7).unwrap();
        assert_eq!(end.await, Ok(7));
    }

    #[tokio::test]
    async fn what_is_waited_for_gives_what_came_of_it() {
        assert_eq!(Finishing::new(async { 7 }).await, 7);
    }
}
