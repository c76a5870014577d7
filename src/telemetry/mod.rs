//! Logs and traces: lines on standard error, as text or as JSON, filtered by `RUST_LOG`; spans over OTLP, where a role's
//! `[telemetry]` names a collector.

mod bridge;
mod export;
#[cfg(test)]
mod tests;
mod trace_id;

use anyhow::{Context, Result};
use opentelemetry::trace::TracerProvider;
use tracing::{Subscriber, level_filters::LevelFilter, subscriber};
use tracing_subscriber::{EnvFilter, Layer, filter::filter_fn, fmt, prelude::*, registry::LookupSpan};

use trace::TelemetryConfig;

use self::{bridge::Bridge, export::Exporting, trace_id::WithTraceId};

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// How a process logs.
#[derive(Debug, Clone, Copy)]
pub struct Logs {
    /// How lines are written.
    pub format: Format,
    /// What is logged when `RUST_LOG` is not set.
    pub default_level: &'static str,
}

/// The traces of a process, to be finished at its end.
#[derive(Debug, Default)]
#[must_use = "what is not finished is lost"]
pub struct Traces(Option<Exporting>);

impl Logs {
    /// Sends log lines to standard error, and no spans anywhere. Calling it a second time in one process has no effect.
    pub fn start(self) {
        // A subscriber that is already set stays; losing the second one loses nothing.
        let _ = self.plain().try_init();
    }

    /// Logs what `read` says while the configuration is read, which decides about everything else.
    pub fn while_reading<T>(self, read: impl FnOnce() -> T) -> T {
        subscriber::with_default(self.plain(), read)
    }

    /// Sends log lines to standard error, and spans of `role` to the collector of `[telemetry]`, where there is one. `instance`
    /// tells this process from others of its role.
    ///
    /// # Errors
    /// When no HTTP client can be made, for example because the system has no root certificates.
    pub fn start_with_traces(self, config: &TelemetryConfig, role: &'static str, instance: String) -> Result<Traces> {
        let Some(url) = config.traces_url() else {
            self.start();
            return Ok(Traces::default());
        };
        let exporting = Exporting::start(&url, config.sample_ratio, role, instance).context("[telemetry]")?;
        let tracer = exporting.provider().tracer("gw");
        // Nobody else's spans, and no events: those are log lines.
        let ours = filter_fn(|metadata| metadata.is_span() && metadata.target() == trace::TARGET);
        let spans = tracing_opentelemetry::layer()
            .with_tracer(tracer.clone())
            // So that a request can be put into its payment's trace after it was begun.
            .with_context_activation(false)
            .with_location(false)
            .with_tracked_inactivity(false)
            .with_level(false)
            .with_threads(false)
            .with_target(false)
            .with_filter(ours.with_max_level_hint(LevelFilter::INFO));
        let registry = tracing_subscriber::registry().with(spans);
        let filter = self.filter(true);
        let started = match self.format {
            Format::Text => registry.with(text().with_filter(filter)).try_init(),
            Format::Json => {
                let lines = text().json().map_event_format(WithTraceId);
                registry.with(lines.with_filter(filter)).try_init()
            }
        };
        if started.is_ok() && trace::install(Box::new(Bridge::new(tracer))) {
            tracing::info!(url, sample_ratio = config.sample_ratio, "traces are sent");
        }
        Ok(Traces(Some(exporting)))
    }

    fn plain(self) -> Box<dyn Subscriber + Send + Sync> {
        let registry = tracing_subscriber::registry().with(self.filter(false));
        match self.format {
            Format::Text => Box::new(registry.with(text())),
            Format::Json => Box::new(registry.with(text().json())),
        }
    }

    /// What is logged. Spans that are made for export alone are no part of it where there is no export: then they are not made.
    fn filter(self, with_spans: bool) -> EnvFilter {
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(self.default_level));
        let level = if with_spans { "info" } else { "off" };
        match format!("{}={level}", trace::TARGET).parse() {
            Ok(directive) => filter.add_directive(directive),
            Err(_) => filter,
        }
    }
}

fn text<S>() -> fmt::Layer<S, fmt::format::DefaultFields, fmt::format::Format, fn() -> std::io::Stderr>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fmt::layer().with_ansi(false).with_writer(std::io::stderr as fn() -> std::io::Stderr)
}

impl Traces {
    /// Sends what is left, for a bounded time.
    pub async fn finish(self) {
        if let Some(exporting) = self.0 {
            exporting.finish().await;
        }
    }
}
