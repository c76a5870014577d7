//! Where signatures and proofs are checked: on threads of their own where some are configured, so that what only reads, the
//! engine and the read models have the rest of the processors whatever is submitted; else with everything else, which
//! costs less.
//!
//! A check is a future whose every poll is one job of those threads. So what it computes keeps a thread busy, and what
//! it waits for, such as a node, keeps none. The jobs that wait for a thread are bounded by the writes at work.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use tokio::{
    sync::{Notify, Semaphore},
    task::spawn_blocking,
};
use tracing::{Instrument, Span};

use super::error::{ApiError, Code};

/// The threads.
pub(super) struct Checks {
    /// One permit a thread; `None` where checks run with everything else.
    threads: Option<Arc<Semaphore>>,
}

/// Says that a future wants to be polled again.
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

impl Checks {
    /// So many threads; none where checks are to run with everything else.
    pub(super) fn new(threads: usize) -> Self {
        Self { threads: (threads > 0).then(|| Arc::new(Semaphore::new(threads))) }
    }

    /// What `check` comes to. It ends with the caller, at its next wait.
    ///
    /// # Panics
    /// When `check` does.
    ///
    /// # Errors
    /// 503 when the process is about to end.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        check: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ApiError> {
        let Some(threads) = &self.threads else { return Ok(check.await) };
        let woken = Arc::new(Woken(Notify::new()));
        let waker = Waker::from(Arc::clone(&woken));
        let mut check: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(check.instrument(Span::current()));
        loop {
            let thread = Arc::clone(threads).acquire_owned().await.map_err(|_| Code::SERVICE_UNAVAILABLE)?;
            let waker = waker.clone();
            let polled = spawn_blocking(move || {
                let _thread = thread;
                match check.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(outcome) => Ok(outcome),
                    Poll::Pending => Err(check),
                }
            });
            match polled.await {
                Ok(Ok(outcome)) => return Ok(outcome),
                Ok(Err(waiting)) => check = waiting,
                Err(ended) => match ended.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => return Err(Code::SERVICE_UNAVAILABLE.into()),
                },
            }
            // A wake-up that came before this is remembered.
            woken.0.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc,
        thread,
        time::{Duration, Instant},
    };

    use tokio::{sync::oneshot, task::yield_now, time::sleep};

    use super::*;

    #[tokio::test]
    async fn a_check_is_made_elsewhere_and_may_wait() {
        let checks = Checks::new(1);
        let here = thread::current().id();
        let check = async move {
            for _ in 0..3 {
                yield_now().await;
            }
            sleep(Duration::from_millis(1)).await;
            thread::current().id()
        };
        assert_ne!(checks.run(check).await.unwrap(), here);
        assert_eq!(Checks::new(0).run(async { thread::current().id() }).await.unwrap(), here);
    }

    #[tokio::test]
    async fn what_waits_keeps_no_thread() {
        let checks = Arc::new(Checks::new(1));
        let (tell, told) = oneshot::channel::<u8>();
        let waiting = tokio::spawn({
            let checks = checks.clone();
            async move { checks.run(async { told.await.unwrap() }).await.unwrap() }
        });
        // On the only thread, while the first one waits.
        assert_eq!(checks.run(async { 7 }).await.unwrap(), 7);
        tell.send(8).unwrap();
        assert_eq!(waiting.await.unwrap(), 8);
    }

    #[tokio::test]
    async fn no_more_run_at_once_than_there_are_threads_and_nobody_waits_behind_them() {
        let checks = Arc::new(Checks::new(1));
        let (go, gone) = mpsc::channel::<()>();
        let busy = tokio::spawn({
            let checks = checks.clone();
            async move { checks.run(async move { gone.recv().unwrap() }).await.unwrap() }
        });
        while checks.threads.as_ref().unwrap().available_permits() > 0 {
            yield_now().await;
        }
        let next = tokio::spawn({
            let checks = checks.clone();
            async move { checks.run(async { Instant::now() }).await.unwrap() }
        });
        // This test's own thread goes on, which is where requests would be served.
        yield_now().await;
        assert!(!next.is_finished());
        let freed = Instant::now();
        go.send(()).unwrap();
        busy.await.unwrap();
        assert!(next.await.unwrap() >= freed);
    }

    #[tokio::test]
    #[should_panic(expected = "a defect")]
    async fn a_panic_is_the_callers() {
        let check = async {
            if true {
                panic!("a defect")
            }
        };
        let _ = Checks::new(1).run(check).await;
    }
}
