//! `[http]`: the API, and how much of everything it takes at a time.

use std::{net::SocketAddr, time::Duration};

use serde::Deserialize;

use net::server::Limits;

use super::HOLD_MS_LIMIT;

/// `[http]`: the API.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Address under which clients reach the service, without a slash at its end; every `docs_url` begins with it.
    pub base_url: String,
    /// Longest time a submission is held for its outcome, in milliseconds; at most 30,000 (spec 8). Zero answers at
    /// once.
    pub hold_ms_max: u64,
    /// Longest time a quote-request with `?wait=true` is held for its quotes, in milliseconds; at most 30,000.
    pub quotes_hold_ms_max: u64,
    /// Submissions held at the same time; those above are answered at once with the status they have.
    pub holds_max: usize,
    /// Event streams (`/v1/payments/{id}/events`) open at the same time; those above are answered with 503.
    pub event_streams_max: usize,
    /// Quote-requests whose quotes are being collected at the same time, at all gateways on the same streams as far as this
    /// one's read model knows; those above are answered with 503. Nobody pays for asking, and each takes memory here and
    /// an answer of every settler.
    pub quote_requests_open_max: usize,
    /// Deposit addresses at which this gateway waits for money at the same time; those above are answered with 503. Nobody pays for
    /// asking, and each is looked at now and then.
    pub deposit_addresses_open_max: usize,
    /// Connections open at the same time. For one more the idle one goes that has been so longest; where all are at work it
    /// is closed at once.
    pub connections_max: usize,
    /// How long the head of a connection's first request may take to arrive, in milliseconds.
    pub head_ms_max: u64,
    /// How long a connection may be idle between two requests, and the heads of later requests may take to arrive, in
    /// milliseconds. Longer than a balancer in front keeps its idle connections, or it will send requests into connections
    /// that are being closed.
    pub idle_ms_max: u64,
    /// How long a client may take nothing of an answer that is being sent to it, in milliseconds; then its connection is
    /// closed.
    pub write_ms_max: u64,
    /// Writes at work at the same time: checked, or on their way to the journal. A submission that is held for its
    /// outcome is not at work any more. Whatever is in front of the journal waits there in one line with the engine's
    /// own commits, so this also bounds how long those take under overload.
    pub writes_in_flight_max: usize,
    /// Writes that wait for others to be done; those above are answered with 503.
    pub writes_waiting_max: usize,
    /// Longest time a write waits for others, in milliseconds; then it is answered with 503.
    pub write_wait_ms_max: u64,
    /// Largest body accepted, in bytes; more is answered with 413. At most 262,144, because the body is journaled in
    /// one NATS message together with what was made of it.
    pub body_bytes_max: usize,
    /// Longest time a body may take to arrive, in milliseconds.
    pub body_ms_max: u64,
    /// `Retry-After` of a 503, in seconds.
    pub retry_after_seconds: u64,
}

impl HttpConfig {
    /// What connections to the API may hold on to.
    pub fn limits(&self) -> Limits {
        Limits {
            connections_max: self.connections_max,
            head_max: Duration::from_millis(self.head_ms_max),
            idle_max: Duration::from_millis(self.idle_ms_max),
            write_max: Duration::from_millis(self.write_ms_max),
        }
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            base_url: "http://127.0.0.1:8080".to_owned(),
            hold_ms_max: HOLD_MS_LIMIT,
            quotes_hold_ms_max: HOLD_MS_LIMIT,
            holds_max: 20_000,
            event_streams_max: 10_000,
            quote_requests_open_max: 2_000,
            deposit_addresses_open_max: 2_000,
            connections_max: 32_768,
            head_ms_max: 10_000,
            idle_ms_max: 120_000,
            write_ms_max: 30_000,
            writes_in_flight_max: 256,
            writes_waiting_max: 512,
            write_wait_ms_max: 250,
            body_bytes_max: 65_536,
            body_ms_max: 10_000,
            retry_after_seconds: 1,
        }
    }
}
