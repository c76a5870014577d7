//! The trace id in log lines: lines as JSON within a payment's spans begin with its `trace_id`.

use std::fmt;

use tracing::{Event, Span, Subscriber};
use tracing_subscriber::{
    Registry,
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

/// The trace that a span was put into; kept with the span.
struct TraceId([u8; 16]);

/// Keeps with `span` which trace it is in.
pub(super) fn keep(span: &Span, trace_id: [u8; 16]) {
    span.with_subscriber(|(id, dispatch)| {
        let span = dispatch.downcast_ref::<Registry>().and_then(|registry| registry.span(id));
        if let Some(span) = span {
            span.extensions_mut().replace(TraceId(trace_id));
        }
    });
}

/// Writes lines as `F` does, one JSON object each, with the trace id as its first member.
pub(super) struct WithTraceId<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for WithTraceId<F>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let Some(trace_id) = trace_id(context, event) else { return self.0.format_event(context, writer, event) };
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        match line.strip_prefix('{') {
            Some(members) => write!(writer, "{{\"trace_id\":\"{:032x}\",{members}", u128::from_be_bytes(trace_id)),
            None => writer.write_str(&line),
        }
    }
}

fn trace_id<S, N>(context: &FmtContext<'_, S, N>, event: &Event<'_>) -> Option<[u8; 16]>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    let within = context.lookup_current().filter(|_| event.is_contextual())?;
    within.scope().find_map(|span| span.extensions().get::<TraceId>().map(|TraceId(id)| *id))
}
