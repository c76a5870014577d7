//! The bulkhead of the console: what reads much of the read models takes turns here, and never those of the API.

use std::time::Duration;

use app::bulkhead::{Bulkhead, Permit};

use crate::error::Error;

/// What is counted of it stands under this name.
const NAME: &str = "console";
/// Readings at a time, those that wait for a turn, and for how long.
const READS_MAX: usize = 3;
const WAITING_MAX: usize = 12;
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The turns of those who read.
pub(crate) struct Lane(Bulkhead);

impl Default for Lane {
    fn default() -> Self {
        Self(Bulkhead::new(NAME, READS_MAX, WAITING_MAX, WAIT_MAX))
    }
}

impl Lane {
    /// A turn, until it is dropped, for work that is not done at one place.
    ///
    /// # Errors
    /// [`Error::TooBusy`] when there is none in time.
    pub(crate) async fn turn(&self) -> Result<Permit, Error> {
        self.0.permit().await.ok_or(Error::TooBusy)
    }

    /// Runs `work`, which blocks, in its turn.
    ///
    /// # Errors
    /// [`Error::TooBusy`] when there is none in time, or that of `work`.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let permit = self.turn().await?;
        let done = tokio::task::spawn_blocking(move || {
            // Held by the work, which goes on when nobody waits for it any more.
            let _permit = permit;
            work()
        });
        done.await.unwrap_or_else(|error| Err(Error::Failed(error.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;

    #[tokio::test]
    async fn more_than_may_wait_are_refused_and_nobody_who_has_a_turn_is() {
        let lane = Arc::new(Lane::default());
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let (answer, mut answers) = tokio::sync::mpsc::unbounded_channel();
        let all = READS_MAX + WAITING_MAX + 5;
        for _ in 0..all {
            let (lane, held, answer) = (lane.clone(), held.clone(), answer.clone());
            tokio::spawn(async move {
                let work = move || {
                    // As long as the test holds the other end.
                    let _ = held.lock().unwrap().recv();
                    Ok(())
                };
                answer.send(lane.run(work).await).unwrap();
            });
        }
        for _ in 0..5 {
            assert_eq!(answers.recv().await.unwrap(), Err(Error::TooBusy));
        }
        drop(release);
        for _ in 5..all {
            assert_eq!(answers.recv().await.unwrap(), Ok(()));
        }
    }
}
