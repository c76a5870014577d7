//! The bridge from `tracing` to OpenTelemetry: spans get their place in a payment's trace.

use std::cell::Cell;

use opentelemetry::{
    Context, KeyValue,
    trace::{
        Span as _, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer as _,
    },
};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SdkTracer};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use trace::{Ended, TraceParent, Tracer};

use super::trace_id;

thread_local! {
    /// The ids of the root span that this thread is about to make.
    static ROOT: Cell<Option<TraceParent>> = const { Cell::new(None) };
}

/// Makes random ids, and those that follow from a payment's id for its root span.
#[derive(Debug, Default)]
pub(super) struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        ROOT.get().map_or_else(|| self.0.new_trace_id(), |root| TraceId::from_bytes(root.trace_id))
    }

    fn new_span_id(&self) -> SpanId {
        ROOT.get().map_or_else(|| self.0.new_span_id(), |root| SpanId::from_bytes(root.span_id))
    }
}

/// See the module.
pub(super) struct Bridge(SdkTracer);

impl Bridge {
    /// A bridge to a tracer of a provider with [`Ids`].
    pub(super) fn new(tracer: SdkTracer) -> Self {
        Self(tracer)
    }
}

impl Tracer for Bridge {
    fn follow(&self, span: &Span, parent: TraceParent) {
        // Fails where the span is filtered out, or has begun: a trace that is not whole is no reason to stop.
        if span.set_parent(Context::new().with_remote_span_context(remote(parent))).is_ok() {
            trace_id::keep(span, parent.trace_id);
        }
    }

    fn link(&self, span: &Span, to: TraceParent) {
        span.add_link(remote(to));
    }

    fn current(&self) -> Option<TraceParent> {
        let context = Span::current().context();
        let span = context.span();
        let span = span.span_context();
        span.is_valid().then(|| TraceParent {
            trace_id: span.trace_id().to_bytes(),
            span_id: span.span_id().to_bytes(),
            sampled: span.is_sampled(),
        })
    }

    fn ended(&self, ended: &Ended<'_>) {
        let mut attributes = vec![KeyValue::new("payment_id", ended.subject.to_owned())];
        attributes.extend(ended.failure.map(|code| KeyValue::new("failure", code.to_owned())));
        let root = self.0.span_builder(ended.name).with_kind(SpanKind::Internal).with_start_time(ended.since);
        ROOT.set(Some(TraceParent::root_of(ended.subject)));
        let mut span = self.0.build_with_context(root.with_attributes(attributes), &Context::new());
        ROOT.set(None);
        span.set_status(ended.failure.map_or(Status::Ok, |code| Status::error(code.to_owned())));
        span.end_with_timestamp(ended.at);
    }
}

fn remote(parent: TraceParent) -> SpanContext {
    let (trace_id, span_id) = (TraceId::from_bytes(parent.trace_id), SpanId::from_bytes(parent.span_id));
    let flags = if parent.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    SpanContext::new(trace_id, span_id, flags, true, TraceState::default())
}
