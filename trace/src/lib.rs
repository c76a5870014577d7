//! Distributed tracing: one trace a payment, carried by `traceparent` (W3C Trace Context), for spans that plain `tracing` makes.
//!
//! The trace id and the id of the root span follow from the id of the payment or batch. Nobody is believed about which trace a
//! message belongs to: a `traceparent` that came from elsewhere is followed when it names that trace, and linked otherwise.
//! Without an installed [`Tracer`] nothing here does anything.
//!
//! ```
//! let span = tracing::info_span!(target: trace::TARGET, parent: None, "step", action = "secure_deposit");
//! trace::join(&span, "pay_example", trace::TraceParent::parse("not one"));
//! assert_eq!(trace::current(), None, "no tracer is installed");
//! ```

mod config;
mod traceparent;
mod tracer;

pub use self::{
    config::TelemetryConfig,
    traceparent::TraceParent,
    tracer::{Ended, Tracer, current, ended, install, is_on, join, join_current, link},
};

/// The target of every span that is exported. Logs leave it out unless spans are exported, so that it costs nothing then.
pub const TARGET: &str = "gw::span";

/// The header that carries a [`TraceParent`], over HTTP and NATS.
pub const TRACEPARENT: &str = "traceparent";
