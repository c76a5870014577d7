//! The auction's streams, bucket and consumers.

use std::time::Duration;

use async_nats::jetstream::{
    self,
    consumer::{AckPolicy, DeliverPolicy, pull},
    stream::{Config, DiscardPolicy, StorageType},
};

use events::SettlerToken;
use settler::protocol::{
    AWARD_SUBJECTS, AWARDS_STREAM, BID_SUBJECTS, MESSAGE_BYTES_MAX, REGISTRATION_SUBJECTS, REGISTRATION_TTL,
    REGISTRY_BUCKET, award_consumer, award_subjects,
};

use super::Options;

/// Stream of bids, and of who was asked for one.
pub const BIDS_STREAM: &str = "BIDS";
/// Subjects of who was asked, by auction.
pub const ASKED_SUBJECTS: &str = "auction.asked.*";

/// Bids are of no use once their auction is over.
const BIDS_AGE: Duration = Duration::from_secs(3600);
/// Most memory for bids; the oldest go first.
const BIDS_BYTES_MAX: i64 = 128 * 1024 * 1024;
/// How long an award waits for a settler that is away; far longer than any payment's windows.
const AWARDS_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// An award that is not acknowledged, nor reported to be worked on, for so long is delivered again.
const AWARD_ACK_WAIT: Duration = Duration::from_secs(10);
/// Most awards a settler may be working on at a time.
const AWARDS_OPEN_MAX: i64 = 4096;

/// The auction's streams cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be created: {reason}")]
pub struct Error {
    what: String,
    reason: String,
}

/// What [`ensure`] had to create.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Created {
    /// The stream of awards.
    pub awards: bool,
}

/// Subject under which it is kept who was asked in an auction.
pub fn asked_subject(auction_id: &str) -> String {
    format!("auction.asked.{auction_id}")
}

/// Creates the streams that are missing.
pub async fn ensure(jetstream: &jetstream::Context, options: Options) -> Result<Created, Error> {
    let mut created = Created::default();
    for config in [bids(), registry(), awards()] {
        let name = config.name.clone();
        if jetstream.get_stream(&name).await.is_ok() {
            continue;
        }
        let config = Config { num_replicas: options.replicas, ..config };
        // Another gateway may be doing the same; then this finds what it made.
        let stream = jetstream.get_or_create_stream(config).await;
        stream.map_err(|error| Error { what: format!("stream {name}"), reason: error.to_string() })?;
        created.awards |= name == AWARDS_STREAM;
    }
    Ok(created)
}

/// Creates a settler's durable consumer of awards, or finds it as it is. Settlers may not do this themselves.
pub async fn create_consumer(jetstream: &jetstream::Context, settler: &SettlerToken) -> Result<(), Error> {
    let consumer = jetstream.create_consumer_on_stream(consumer(settler), AWARDS_STREAM).await;
    let what = || format!("consumer {}", award_consumer(settler));
    consumer.map(drop).map_err(|error| Error { what: what(), reason: error.to_string() })
}

/// A settler's durable consumer of awards.
pub fn consumer(settler: &SettlerToken) -> pull::Config {
    pull::Config {
        durable_name: Some(award_consumer(settler)),
        filter_subject: award_subjects(settler),
        deliver_policy: DeliverPolicy::All,
        ack_policy: AckPolicy::Explicit,
        ack_wait: AWARD_ACK_WAIT,
        max_deliver: -1,
        max_ack_pending: AWARDS_OPEN_MAX,
        ..Default::default()
    }
}

/// Bids, and who was asked for one.
pub fn bids() -> Config {
    Config {
        name: BIDS_STREAM.to_owned(),
        description: Some("latest answer of each settler in each auction, and who was asked".to_owned()),
        subjects: vec![BID_SUBJECTS.to_owned(), ASKED_SUBJECTS.to_owned()],
        storage: StorageType::Memory,
        max_age: BIDS_AGE,
        max_bytes: BIDS_BYTES_MAX,
        max_messages_per_subject: 1,
        max_message_size: MESSAGE_BYTES_MAX as i32,
        discard: DiscardPolicy::Old,
        allow_direct: true,
        deny_delete: true,
        ..Default::default()
    }
}

/// A key-value bucket, except that it takes no roll-up headers: with them, whoever may write one key could clear all.
pub fn registry() -> Config {
    Config {
        name: format!("KV_{REGISTRY_BUCKET}"),
        description: Some("settlers that are there".to_owned()),
        subjects: vec![REGISTRATION_SUBJECTS.to_owned()],
        storage: StorageType::File,
        max_age: REGISTRATION_TTL,
        max_messages_per_subject: 1,
        max_message_size: MESSAGE_BYTES_MAX as i32,
        discard: DiscardPolicy::Old,
        duplicate_window: REGISTRATION_TTL,
        allow_direct: true,
        deny_delete: true,
        allow_rollup: false,
        ..Default::default()
    }
}

/// Awards.
pub fn awards() -> Config {
    Config {
        name: AWARDS_STREAM.to_owned(),
        description: Some("awards, until their settlers have settled them".to_owned()),
        subjects: vec![AWARD_SUBJECTS.to_owned()],
        storage: StorageType::File,
        max_age: AWARDS_AGE,
        discard: DiscardPolicy::Old,
        allow_direct: true,
        deny_delete: true,
        deny_purge: true,
        ..Default::default()
    }
}
