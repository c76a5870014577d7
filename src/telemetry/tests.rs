//! Spans become what the collector gets: their place in a trace, the trace id in log lines, and what happens when nobody takes
//! them.

use std::{
    io,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use opentelemetry::trace::{Status, TracerProvider};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData};
use serde_json::Value;
use tracing::{info, info_span, subscriber};
use tracing_subscriber::{Layer, filter::filter_fn, fmt, prelude::*};

use trace::{Ended, TraceParent, Tracer};

use super::{
    bridge::{Bridge, Ids},
    export::tests::Kept,
    trace_id::WithTraceId,
};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What `work` comes to: the log's lines and the spans, sampled at `ratio`.
fn traced(ratio: f64, work: impl FnOnce(&Bridge)) -> (Vec<Value>, Vec<SpanData>) {
    let (kept, lines) = (Kept::default(), Lines::default());
    let provider = SdkTracerProvider::builder()
        .with_span_processor(kept.clone())
        .with_sampler(Sampler::TraceIdRatioBased(ratio))
        .with_id_generator(Ids::default())
        .build();
    let tracer = provider.tracer("gw");
    let ours = filter_fn(|metadata| metadata.is_span() && metadata.target() == trace::TARGET);
    let spans = tracing_opentelemetry::layer().with_tracer(tracer.clone()).with_context_activation(false);
    let writer = lines.clone();
    let log = fmt::layer().with_writer(move || writer.clone()).json().map_event_format(WithTraceId);
    let subscriber = tracing_subscriber::registry().with(spans.with_filter(ours)).with(log);
    subscriber::with_default(subscriber, || work(&Bridge::new(tracer)));
    let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    (lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), kept.spans())
}

#[test]
fn a_span_is_put_into_the_payments_trace_after_it_was_begun() {
    let root = TraceParent::root_of("pay_a");
    let client = TraceParent { trace_id: [9; 16], ..root };
    let (lines, spans) = traced(1.0, |bridge| {
        info!("outside");
        let http = info_span!(target: trace::TARGET, parent: None, "http");
        bridge.link(&http, client);
        http.in_scope(|| {
            info!("before");
            bridge.follow(&http, root);
            info!("within");
            info_span!(target: trace::TARGET, "commit").in_scope(|| {
                let current = bridge.current().unwrap();
                assert_eq!((current.trace_id, current.sampled), (root.trace_id, true));
                info!("below");
            });
        });
    });
    let id = hex(&root.trace_id);
    let ids: Vec<_> = lines.iter().map(|line| line["trace_id"].as_str()).collect();
    assert_eq!(ids, [None, None, Some(id.as_str()), Some(id.as_str())]);
    assert_eq!(lines[3]["fields"]["message"], "below", "what a line had is there still");
    let [commit, http] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((http.name.as_ref(), http.span_context.trace_id().to_bytes()), ("http", root.trace_id));
    assert_eq!(http.parent_span_id.to_bytes(), root.span_id);
    assert_eq!(http.links.iter().map(|link| link.span_context.trace_id().to_bytes()).collect::<Vec<_>>(), [[9; 16]]);
    assert_eq!(commit.parent_span_id, http.span_context.span_id());
}

#[test]
fn the_root_has_the_ids_and_the_length_of_the_payment() {
    let (since, at) =
        (SystemTime::UNIX_EPOCH + Duration::from_secs(7), SystemTime::UNIX_EPOCH + Duration::from_secs(9));
    let (_, spans) = traced(1.0, |bridge| {
        bridge.ended(&Ended { name: "payment", subject: "pay_a", since, at, failure: None });
        bridge.ended(&Ended { name: "payment", subject: "pay_b", since, at, failure: Some("NO_QUOTES") });
        // Random again.
        drop(info_span!(target: trace::TARGET, "other"));
    });
    let [completed, failed, other] = &spans[..] else { panic!("{spans:?}") };
    for (span, id) in [(completed, "pay_a"), (failed, "pay_b")] {
        let root = TraceParent::root_of(id);
        assert_eq!(span.span_context.trace_id().to_bytes(), root.trace_id);
        assert_eq!(span.span_context.span_id().to_bytes(), root.span_id);
        assert_eq!((span.parent_span_id.to_bytes(), span.start_time, span.end_time), ([0; 8], since, at));
    }
    assert_eq!((&completed.status, &failed.status), (&Status::Ok, &Status::error("NO_QUOTES")));
    assert_ne!(other.span_context.trace_id(), failed.span_context.trace_id());
}

#[test]
fn the_share_is_decided_by_the_trace_and_by_nobodys_flag() {
    let follow = |ratio, sampled| {
        let mut kept = Vec::new();
        for n in 0..200 {
            let id = format!("pay_{n}");
            let parent = TraceParent { sampled, ..TraceParent::root_of(&id) };
            let (_, spans) = traced(ratio, |bridge| {
                let span = info_span!(target: trace::TARGET, parent: None, "step");
                bridge.follow(&span, parent);
            });
            kept.extend(spans.iter().map(|_| id.clone()));
        }
        kept
    };
    let (some, others) = (follow(0.5, true), follow(0.5, false));
    assert_eq!(some, others);
    assert!((60..140).contains(&some.len()), "{}", some.len());
    assert!(follow(0.0, true).is_empty());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
