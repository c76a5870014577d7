//! Long poll: a request is held for its outcome.

use std::time::Duration;

use tokio::time::Instant;

use net::callers::Caller;

use crate::App;

/// `view` as it stands once it is `enough`, or when the long poll is over: after `long_poll_max`, when the process is
/// to stop, or at once when too many are held already, of all, of this caller, or of those who proved nothing.
/// `changed` gives the next view after the one it is shown, within the time given.
pub async fn until<V, F>(
    state: &App,
    caller: &Caller,
    proven: bool,
    mut view: V,
    long_poll_max: Duration,
    enough: impl Fn(&V) -> bool,
    changed: impl Fn(&V, Duration) -> F,
) -> V
where
    F: Future<Output = Option<V>>,
{
    let until = Instant::now() + long_poll_max;
    let Some(_of_caller) = caller.long_poll(proven) else { return view };
    let Ok(_held) = state.long_polls.try_acquire() else { return view };
    while !enough(&view) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        tokio::select! {
            newer = changed(&view, left) => match newer {
                Some(newer) => view = newer,
                None => break,
            },
            () = state.services.stopping.cancelled() => break,
        }
    }
    view
}
