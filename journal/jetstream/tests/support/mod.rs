//! Helpers of the tests on a real nats-server.

pub mod cluster;
pub mod crowd;
pub mod epochs;
pub mod load;
pub mod proxy;

use std::time::Duration;

use async_nats::{Client, ConnectOptions};
use journal_jetstream::store::Options;

/// A client that comes back soon after its server does.
pub async fn connect(url: &str) -> Client {
    ConnectOptions::new()
        .retry_on_initial_connect()
        .max_reconnects(None)
        .ping_interval(Duration::from_secs(1))
        .connection_timeout(Duration::from_secs(2))
        .reconnect_delay_callback(|_| Duration::from_millis(20))
        .connect(url.split(',').collect::<Vec<_>>())
        .await
        .unwrap()
}

pub fn options() -> Options {
    Options { shards: 2, ..Options::default() }
}
