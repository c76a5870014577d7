//! The throttled log of transient faults that keep something from being accepted. Anybody can ask again and again, so a line
//! each would be the next overload.

use std::sync::LazyLock;

use net::server::ThrottledLog;
use sagas::ports::Transient;

/// The log of this process.
static FAULTS: LazyLock<Faults> = LazyLock::new(Faults::default);

/// A throttle for each kind: what callers can bring about must not hide what only an operator can mend.
#[derive(Default)]
struct Faults {
    unreachable: ThrottledLog,
    rate_limited: ThrottledLog,
    contradiction: ThrottledLog,
    misconfigured: ThrottledLog,
}

/// Logs a fault that a caller is told of as 503: as an error that begins with `MISCONFIGURED` where only an operator can mend
/// it, else as a warning. `what` says what could not be done.
pub(super) fn log(fault: &Transient, what: &str) {
    let Some((faults, line)) = FAULTS.due_line(fault, what) else { return };
    let kind = fault.kind();
    match fault.is_misconfigured() {
        true => tracing::error!(kind, faults, %fault, "{line}"),
        false => tracing::warn!(kind, faults, %fault, "{line}"),
    }
}

impl Faults {
    /// How many of its kind there were, and the line for the log, when one is due.
    fn due_line(&self, fault: &Transient, what: &str) -> Option<(u64, String)> {
        let (throttle, meaning) = match fault {
            Transient::Unreachable(_) => (&self.unreachable, "transient fault"),
            Transient::RateLimited(_) => (&self.rate_limited, "transient fault"),
            Transient::Contradiction(_) => (&self.contradiction, "transient fault"),
            Transient::Misconfigured(_) => (&self.misconfigured, "MISCONFIGURED: only an operator can mend this"),
        };
        throttle.count().map(|faults| (faults, format!("{meaning}; {what}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_told_once_for_its_kind_however_often_it_is_met() {
        let faults = Faults::default();
        let full = Transient::rate_limited("all permits are taken");
        let unknown = Transient::misconfigured("no node for eip155:1");
        let line = |fault: &Transient| faults.due_line(fault, "a signature could not be judged");
        let expected = "transient fault; a signature could not be judged";
        assert_eq!(line(&full), Some((1, expected.to_owned())));
        for _ in 0..100 {
            assert_eq!(line(&full), None);
        }
        // What is met for the first time is told although others were told just now.
        let expected = "MISCONFIGURED: only an operator can mend this; a signature could not be judged";
        assert_eq!(line(&unknown), Some((1, expected.to_owned())));
        assert_eq!(line(&unknown), None);
        assert_eq!(line(&Transient::unreachable("down")).map(|(faults, _)| faults), Some(1));
        assert_eq!(line(&Transient::contradiction("a node lags")).map(|(faults, _)| faults), Some(1));
    }
}
