//! Webhooks against a real nats-server, with a journal and endpoints in memory.

#![allow(clippy::expect_used, clippy::unwrap_used)]

mod delivery;
mod feed;
mod http;
mod records;
mod support;
