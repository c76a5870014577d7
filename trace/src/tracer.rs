//! The tracer: the hook through which spans get their place in a trace, installed once by a process that exports them.

use std::{sync::OnceLock, time::SystemTime};

use tracing::Span;

use crate::TraceParent;

static TRACER: OnceLock<Box<dyn Tracer>> = OnceLock::new();

/// Whoever exports spans. Nothing of it may wait or fail: payments go on as if it were not there.
pub trait Tracer: Send + Sync {
    /// Makes `span`, under which nothing has happened yet, a child of `parent`.
    fn follow(&self, span: &Span, parent: TraceParent);

    /// Says that `span` has to do with another trace.
    fn link(&self, span: &Span, to: TraceParent);

    /// The span that is entered now, if it is one that is exported or could be.
    fn current(&self) -> Option<TraceParent>;

    /// Exports the root span of a payment or batch that has ended.
    fn ended(&self, ended: &Ended<'_>);
}

/// A payment or batch that is at rest.
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    /// What its root span is called.
    pub name: &'static str,
    /// Its id.
    pub subject: &'a str,
    /// When it was accepted.
    pub since: SystemTime,
    /// When it ended.
    pub at: SystemTime,
    /// The code of a payment's failure; `None` when it did not fail.
    pub failure: Option<&'a str>,
}

/// Installs the tracer of this process, for good; `false` when there is one.
pub fn install(tracer: Box<dyn Tracer>) -> bool {
    TRACER.set(tracer).is_ok()
}

/// Whether a tracer is installed. What is made for spans alone is made only then.
pub fn is_on() -> bool {
    TRACER.get().is_some()
}

/// Puts `span` into the trace of a payment or batch, by its id. What came with a message is its parent when it names that
/// trace, and a link otherwise: nobody gets to say which trace a payment is in.
pub fn join(span: &Span, subject: &str, said: Option<TraceParent>) {
    if let Some(tracer) = TRACER.get() {
        join_by(&**tracer, span, subject, said);
    }
}

/// Puts the span of the request that is worked on into the trace of a payment or batch, as soon as its id is known, and notes
/// that id in the span's field `payment_id`.
pub fn join_current(subject: &str) {
    if is_on() {
        let span = Span::current();
        span.record("payment_id", subject);
        join(&span, subject, None);
    }
}

fn join_by(tracer: &dyn Tracer, span: &Span, subject: &str, said: Option<TraceParent>) {
    let root = TraceParent::root_of(subject);
    match said {
        Some(said) if said.trace_id == root.trace_id => tracer.follow(span, said),
        said => {
            tracer.follow(span, root);
            said.into_iter().for_each(|other| tracer.link(span, other));
        }
    }
}

/// Links `span` to what came with a request from outside.
pub fn link(span: &Span, said: Option<TraceParent>) {
    if let (Some(tracer), Some(said)) = (TRACER.get(), said) {
        tracer.link(span, said);
    }
}

/// The value of `traceparent` for a message that is sent from within the span that is entered now.
pub fn current() -> Option<String> {
    TRACER.get()?.current().map(|parent| parent.to_string())
}

/// Tells that a payment or batch has ended.
pub fn ended(ended: &Ended<'_>) {
    if let Some(tracer) = TRACER.get() {
        tracer.ended(ended);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Noted(Mutex<Vec<(&'static str, TraceParent)>>);

    impl Tracer for Noted {
        fn follow(&self, _: &Span, parent: TraceParent) {
            self.0.lock().unwrap().push(("follows", parent));
        }

        fn link(&self, _: &Span, to: TraceParent) {
            self.0.lock().unwrap().push(("is linked to", to));
        }

        fn current(&self) -> Option<TraceParent> {
            None
        }

        fn ended(&self, _: &Ended<'_>) {}
    }

    fn joined(said: Option<TraceParent>) -> Vec<(&'static str, TraceParent)> {
        let noted = Noted::default();
        join_by(&noted, &Span::none(), "pay_a", said);
        noted.0.into_inner().unwrap()
    }

    #[test]
    fn only_a_parent_in_the_payments_own_trace_is_followed() {
        let root = TraceParent::root_of("pay_a");
        assert_eq!(joined(None), [("follows", root)]);
        let inside = TraceParent { span_id: [7; 8], ..root };
        assert_eq!(joined(Some(inside)), [("follows", inside)]);
        let elsewhere = TraceParent { trace_id: [7; 16], ..inside };
        assert_eq!(joined(Some(elsewhere)), [("follows", root), ("is linked to", elsewhere)]);
    }

    #[test]
    fn without_a_tracer_nothing_is_on() {
        assert!(!is_on());
        join(&Span::none(), "pay_a", None);
        assert_eq!(current(), None);
    }
}
