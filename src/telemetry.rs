//! Logging: lines on standard error, as text or as JSON, filtered by `RUST_LOG`.

use tracing_subscriber::{EnvFilter, fmt, prelude::*};

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Sends log lines to standard error, filtered by `RUST_LOG` (by `default_level` when it is not set).
///
/// Calling it a second time in one process has no effect.
pub fn init(format: Format, default_level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default_level));
    let registry = tracing_subscriber::registry().with(filter);
    // A subscriber that is already set stays; losing the second one loses nothing.
    let _ = match format {
        Format::Text => registry.with(fmt::layer().with_writer(std::io::stderr).with_ansi(false)).try_init(),
        Format::Json => registry.with(fmt::layer().with_writer(std::io::stderr).json()).try_init(),
    };
}
