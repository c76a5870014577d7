//! A dedicated runtime beside the one on which requests are served, for those whose work others wait for.
//!
//! Under overload a task waits for its turn behind hundreds of requests, at each step anew. The system shares processors
//! out between threads and not between tasks, so a thread that has little to do gets its turn soon.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::task::AbortOnDropHandle;

/// Enough that a page of commits that is being decoded holds nobody up.
const THREADS: usize = 2;

/// The runtime. What is left to do when it is dropped is broken off.
pub(super) struct DedicatedRuntime {
    handle: Handle,
    /// There until the drop.
    runtime: Option<Runtime>,
}

impl DedicatedRuntime {
    /// Starts it, with this name for its threads.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(super) fn start(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).thread_name(name).enable_all().build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// What spawns there.
    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs `work` there until it ends, or what is returned is dropped.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> AbortOnDropHandle<T> {
        AbortOnDropHandle::new(self.handle.spawn(work))
    }
}

impl Drop for DedicatedRuntime {
    fn drop(&mut self) {
        // To wait for the end is not allowed where other tasks run.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
