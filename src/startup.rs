//! Start-up: a process waits while what it depends on is not there yet, and says so.
//!
//! A gateway that is started beside its servers, or while they elect a leader, finds them silent for some seconds. That
//! is not a reason to end; a key that is not admitted or streams with other settings are.

use std::{fmt::Display, time::Duration};

/// Pause before something that was not there is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Attempts until one succeeds, or fails in a way that is not `passing`. However long it takes: whoever cannot wait drops
/// the future.
///
/// # Errors
/// The first failure that waiting does not help against.
pub async fn waiting_for<T, E, F>(
    what: &str,
    passing: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> F,
) -> Result<T, E>
where
    E: Display,
    F: Future<Output = Result<T, E>>,
{
    let mut failed = 0_u64;
    loop {
        match attempt().await {
            Ok(value) => {
                if failed > 0 {
                    tracing::info!(what, failed, "it is there now");
                }
                return Ok(value);
            }
            Err(error) if passing(&error) => {
                failed += 1;
                tracing::warn!(what, failed, error = format!("{error:#}"), "it is not there yet; trying again");
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn waits_for_what_passes_and_reports_what_does_not() {
        let tries = Cell::new(0);
        let attempt = || {
            tries.set(tries.get() + 1);
            let outcome = match tries.get() {
                1 | 2 => Err("passing"),
                3 => Ok("there"),
                _ => Err("lasting"),
            };
            async move { outcome }
        };
        let passing = |error: &&str| *error == "passing";
        assert_eq!(waiting_for("it", passing, attempt).await, Ok("there"));
        assert_eq!(tries.get(), 3);
        assert_eq!(waiting_for("it", passing, attempt).await, Err("lasting"));
    }
}
