//! Export of spans over OTLP: a bounded queue that drops what it cannot hold, and one task that sends batches.
//!
//! Nothing that ends a span ever waits. A collector that is away, slow or broken costs spans, which are counted and told in the
//! log, and nothing else.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{Sampler, SdkTracerProvider, Span, SpanData, SpanExporter as _, SpanProcessor},
};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::bridge::Ids;

/// Spans that wait to be sent; those beyond are dropped. A few kilobytes each at most.
const QUEUE_MAX: usize = 8_192;
/// Spans sent at a time.
const BATCH_MAX: usize = 512;
/// How long spans are collected before they are sent.
const COLLECTING: Duration = Duration::from_secs(1);
/// How long the collector may take to answer.
const SEND_MAX: Duration = Duration::from_secs(5);
/// How long the end of a process waits for what is left to be sent.
const FINISH_MAX: Duration = Duration::from_secs(3);
/// How often lost spans are told of, at most.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// No HTTP client can be made.
    #[error("no HTTP client can be made: {0}")]
    Client(#[from] reqwest::Error),
    /// The exporter refuses its settings, which also come from `OTEL_EXPORTER_OTLP_…`.
    #[error("{0}")]
    Exporter(#[from] ExporterBuildError),
}

/// The export of a process.
#[derive(Debug)]
pub(super) struct Exporting {
    provider: SdkTracerProvider,
    ending: CancellationToken,
    sending: JoinHandle<()>,
}

impl Exporting {
    /// Starts to send spans of `role` to `url`, those of a share of the traces.
    ///
    /// # Errors
    /// See [`Error`].
    pub(super) fn start(url: &str, sample_ratio: f64, role: &'static str, instance: String) -> Result<Self, Error> {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(SEND_MAX)
            .timeout(SEND_MAX)
            .build()?;
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(url)
            .with_timeout(SEND_MAX)
            .build()?;
        let resource = Resource::builder().with_service_name(role).with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", instance),
        ]);
        let resource = resource.build();
        exporter.set_resource(&resource);
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let (lost, ending) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
        let sender = Sender { exporter, waiting, lost: lost.clone(), ending: ending.clone(), told: None };
        let provider = SdkTracerProvider::builder()
            .with_span_processor(Queue { queue, lost })
            .with_sampler(Sampler::TraceIdRatioBased(sample_ratio))
            .with_id_generator(Ids::default())
            .with_resource(resource)
            .build();
        Ok(Self { provider, ending, sending: tokio::spawn(sender.run()) })
    }

    /// Where spans are made.
    pub(super) fn provider(&self) -> &SdkTracerProvider {
        &self.provider
    }

    /// Sends what waits, for a bounded time.
    pub(super) async fn finish(mut self) {
        self.ending.cancel();
        if timeout(FINISH_MAX, &mut self.sending).await.is_err() {
            self.sending.abort();
            tracing::warn!("not all traces were sent before the end");
        }
    }
}

/// The queue in front of the sender.
#[derive(Debug)]
struct Queue {
    queue: mpsc::Sender<SpanData>,
    /// Spans that were dropped and not told of yet.
    lost: Arc<AtomicU64>,
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() && self.queue.try_send(span).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// The task that sends.
struct Sender<E> {
    exporter: E,
    waiting: mpsc::Receiver<SpanData>,
    lost: Arc<AtomicU64>,
    ending: CancellationToken,
    /// When lost spans were told of last.
    told: Option<Instant>,
}

impl<E: opentelemetry_sdk::trace::SpanExporter> Sender<E> {
    async fn run(mut self) {
        let (mut batch, ending) = (Vec::new(), self.ending.clone());
        while ending.run_until_cancelled(self.collect(&mut batch)).await == Some(true) {
            self.send(&mut batch).await;
        }
        self.waiting.close();
        while self.waiting.recv_many(&mut batch, BATCH_MAX).await > 0 {
            self.send(&mut batch).await;
        }
        self.send(&mut batch).await;
    }

    /// Collects a batch, beginning with the first span that comes; whether there is one. May be stopped anywhere: what was
    /// collected stays in `batch`.
    async fn collect(&mut self, batch: &mut Vec<SpanData>) -> bool {
        if batch.is_empty() && self.waiting.recv_many(batch, BATCH_MAX).await == 0 {
            return false;
        }
        let until = Instant::now() + COLLECTING;
        while batch.len() < BATCH_MAX {
            let room = BATCH_MAX - batch.len();
            match timeout_at(until, self.waiting.recv_many(batch, room)).await {
                Ok(more) if more > 0 => {}
                Ok(_) | Err(_) => break,
            }
        }
        true
    }

    async fn send(&mut self, batch: &mut Vec<SpanData>) {
        if batch.is_empty() {
            return;
        }
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let fault = match timeout(SEND_MAX, self.exporter.export(mem::take(batch))).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("no answer in time".to_owned()),
        };
        if fault.is_some() {
            self.lost.fetch_add(count, Ordering::Relaxed);
        }
        self.tell(fault.as_deref());
    }

    /// Tells of lost spans, not too often.
    fn tell(&mut self, fault: Option<&str>) {
        let is_due = self.told.is_none_or(|told| told.elapsed() >= TELL_EVERY);
        if is_due && self.lost.load(Ordering::Relaxed) > 0 {
            self.told = Some(Instant::now());
            let lost = self.lost.swap(0, Ordering::Relaxed);
            let fault = fault.unwrap_or("they came faster than the collector takes them");
            tracing::warn!(lost, fault, "spans are lost: the collector of [telemetry] does not take them");
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Mutex;

    use opentelemetry::trace::{Tracer, TracerProvider};
    use opentelemetry_sdk::error::OTelSdkError;

    use super::*;

    /// Keeps spans that have ended and are sampled.
    #[derive(Debug, Clone, Default)]
    pub(in crate::telemetry) struct Kept(Arc<Mutex<Vec<SpanData>>>);

    impl Kept {
        pub(in crate::telemetry) fn spans(&self) -> Vec<SpanData> {
            self.0.lock().unwrap().clone()
        }
    }

    impl SpanProcessor for Kept {
        fn on_start(&self, _: &mut Span, _: &Context) {}

        fn on_end(&self, span: SpanData) {
            self.0.lock().unwrap().push(span);
        }

        fn force_flush(&self) -> OTelSdkResult {
            Ok(())
        }

        fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
            Ok(())
        }
    }

    #[derive(Debug, Clone, Copy)]
    enum Collector {
        Takes,
        Refuses,
        Hangs,
    }

    #[derive(Debug, Clone)]
    struct Exporter {
        collector: Collector,
        batches: Arc<Mutex<Vec<usize>>>,
    }

    impl opentelemetry_sdk::trace::SpanExporter for Exporter {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            match self.collector {
                Collector::Takes => {
                    self.batches.lock().unwrap().push(batch.len());
                    Ok(())
                }
                Collector::Refuses => Err(OTelSdkError::InternalFailure("500".to_owned())),
                Collector::Hangs => std::future::pending().await,
            }
        }
    }

    struct Export {
        provider: SdkTracerProvider,
        lost: Arc<AtomicU64>,
        ending: CancellationToken,
        sending: JoinHandle<()>,
        batches: Arc<Mutex<Vec<usize>>>,
    }

    /// An export with a queue of four batches. Losses were told of a moment ago, so that they stay counted.
    fn export(collector: Collector) -> Export {
        let (queue, waiting) = mpsc::channel(4 * BATCH_MAX);
        let (lost, ending, batches) = (Arc::default(), CancellationToken::new(), Arc::default());
        let exporter = Exporter { collector, batches: Arc::clone(&batches) };
        let told = Some(Instant::now());
        let sender = Sender { exporter, waiting, lost: Arc::clone(&lost), ending: ending.clone(), told };
        let provider = SdkTracerProvider::builder().with_span_processor(Queue { queue, lost: lost.clone() }).build();
        Export { provider, lost, ending, sending: tokio::spawn(sender.run()), batches }
    }

    fn make(export: &Export, spans: usize) {
        let tracer = export.provider.tracer("test");
        (0..spans).for_each(|_| drop(tracer.start("span")));
    }

    #[tokio::test(start_paused = true)]
    async fn everything_is_sent_in_batches_also_at_the_end() {
        let export = export(Collector::Takes);
        make(&export, 2 * BATCH_MAX + 7);
        export.ending.cancel();
        export.sending.await.unwrap();
        let batches = export.batches.lock().unwrap();
        assert_eq!((batches.iter().sum::<usize>(), export.lost.load(Ordering::Relaxed)), (2 * BATCH_MAX + 7, 0));
        assert!(batches.iter().all(|batch| *batch <= BATCH_MAX), "{batches:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_queue_cannot_hold_is_dropped_at_once_and_counted() {
        let export = export(Collector::Hangs);
        make(&export, 10 * BATCH_MAX);
        assert_eq!(export.lost.load(Ordering::Relaxed), 6 * BATCH_MAX as u64);
        // Each batch is given up after its time, and the next one is tried.
        export.ending.cancel();
        export.sending.await.unwrap();
        assert_eq!(export.lost.load(Ordering::Relaxed), 10 * BATCH_MAX as u64);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_is_lost_and_counted() {
        let export = export(Collector::Refuses);
        make(&export, 5);
        export.ending.cancel();
        export.sending.await.unwrap();
        assert_eq!(export.lost.load(Ordering::Relaxed), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_ends_while_the_collector_hangs() {
        let Export { provider, ending, sending, lost, .. } = {
            let export = export(Collector::Hangs);
            make(&export, 4 * BATCH_MAX);
            export
        };
        let began = Instant::now();
        Exporting { provider, ending, sending }.finish().await;
        assert!(began.elapsed() <= FINISH_MAX + Duration::from_millis(10));
        drop(lost);
    }
}
