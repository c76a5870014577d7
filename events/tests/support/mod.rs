//! What the tests on a real nats-server share.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod proxy;

use std::time::Duration;

use async_nats::{Client, ConnectOptions};
use events::journal::nats::Options;

/// A client that comes back soon after its server does.
pub async fn connect(url: &str) -> Client {
    ConnectOptions::new()
        .retry_on_initial_connect()
        .max_reconnects(None)
        .reconnect_delay_callback(|_| Duration::from_millis(20))
        .connect(url)
        .await
        .unwrap()
}

pub fn options() -> Options {
    Options { shards: 2, ..Options::default() }
}
