//! The auction's streams and consumers.
//!
//! What a settler may fill is a settler's own: a stream of its bids and one of its registration, each with its own bounds, its
//! own queue in the server and, in a cluster, its own group of replicas. Whatever a settler publishes, it throws out nothing but
//! what it said itself, and nobody waits behind it.

use std::time::Duration;

use async_nats::jetstream::{
    self,
    consumer::{AckPolicy, DeliverPolicy, pull},
    stream::{Config, DiscardPolicy, StorageType},
};
use futures::TryStreamExt;

use events::SettlerToken;
use protocol::{
    AWARD_SUBJECTS, AWARDS_STREAM, AwardToken, BIDS_PER_REQUEST_MAX, MESSAGE_BYTES_MAX, REGISTRATION_BYTES_MAX,
    REGISTRATION_TTL, award_consumer, award_subjects, own_bid_subjects, registration_subject,
};

use super::Options;

/// Stream of who was asked for bids. Gateways alone write it.
pub(super) const ASKED_STREAM: &str = "ASKED";
/// Stream of what stands as the answer to each award.
pub const ANSWERS_STREAM: &str = "ANSWERS";
/// Its subjects.
const ANSWERED_SUBJECTS: &str = "auction.answered.*.*";
/// Largest answer that is kept, in bytes.
const ANSWER_BYTES_MAX: i32 = 1024;
/// Subjects of who was asked, by auction.
const ASKED_SUBJECTS: &str = "auction.asked.*";

/// Bids are of no use once their auction is over.
const BIDS_AGE: Duration = Duration::from_secs(3600);
/// Most memory for the bids of one settler, in some hundreds of auctions; its oldest go first.
const BIDS_BYTES_MAX: i64 = 2 * 1024 * 1024;
/// Answers of one settler that are kept in each auction, the newest: as many as it may give to two gateways that both ask it, one
/// that begins the auction and one that takes it over. With one alone a late answer would take the place of what was said in
/// time, and whoever takes the auction over would miss what counts.
const BIDS_PER_AUCTION: i64 = 2 * BIDS_PER_REQUEST_MAX as i64;
/// For how long the server remembers the ids of messages (`Nats-Msg-Id`) that a settler publishes: the least that it takes. It
/// keeps them in memory, past every bound of the stream, and nobody here gives such a message an id (ADR 119).
const SETTLERS_IDS_KEPT: Duration = Duration::from_millis(100);
/// Most memory for who was asked.
const ASKED_BYTES_MAX: i64 = 64 * 1024 * 1024;
/// How long an award waits for a settler that is away; far longer than any payment's windows.
const AWARDS_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// An award that is not acknowledged, nor reported to be worked on, for so long is delivered again.
const AWARD_ACK_WAIT: Duration = Duration::from_secs(10);
/// Most awards a settler may be working on at a time.
const AWARDS_OPEN_MAX: i64 = 4096;

/// A stream or consumer of the auction cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be created: {reason}")]
pub struct Error {
    what: String,
    reason: String,
}

/// What [`ensure`] had to create.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Created {
    /// The stream of awards.
    pub(super) awards: bool,
}

/// Subject under which it is kept who was asked in an auction.
pub(super) fn asked_subject(auction_id: &str) -> String {
    format!("auction.asked.{auction_id}")
}

/// Subject under which the answer to an award is kept. Only gateways write there.
pub(super) fn answered_subject(settler: &SettlerToken, award: &AwardToken) -> String {
    format!("auction.answered.{settler}.{award}")
}

/// Creates the streams that are missing.
pub(super) async fn ensure(jetstream: &jetstream::Context, options: Options) -> Result<Created, Error> {
    let mut created = Created::default();
    for config in [asked(), awards(), answers()] {
        let name = config.name.clone();
        if create(jetstream, config, options).await? {
            created.awards |= name == AWARDS_STREAM;
        }
    }
    Ok(created)
}

/// Creates what a settler needs, or finds it as it is: the stream of its registration, the stream of its bids, and its durable
/// consumer of awards. Settlers may not do this themselves.
pub(super) async fn ensure_settler(
    jetstream: &jetstream::Context,
    settler: &SettlerToken,
    options: Options,
) -> Result<(), Error> {
    create(jetstream, registration(settler), options).await?;
    create(jetstream, bids(settler), options).await?;
    let created = jetstream.create_consumer_on_stream(consumer(settler), AWARDS_STREAM).await;
    let what = || format!("consumer {}", award_consumer(settler));
    created.map(drop).map_err(|error| Error { what: what(), reason: error.to_string() })
}

/// The settlers that have a consumer of awards: every one that any gateway has seen.
pub(super) async fn settlers(jetstream: &jetstream::Context) -> Result<Vec<SettlerToken>, Error> {
    let unknown = |error: String| Error { what: "the list of settlers".to_owned(), reason: error };
    let stream = jetstream.get_stream_no_info(AWARDS_STREAM).await.map_err(|error| unknown(error.to_string()))?;
    let names: Vec<String> = stream.consumer_names().try_collect().await.map_err(|error| unknown(error.to_string()))?;
    let token = |name: &String| name.strip_prefix("settler_").map(SettlerToken::from_subject);
    Ok(names.iter().filter_map(token).collect())
}

/// Whether it had to be created.
async fn create(jetstream: &jetstream::Context, config: Config, options: Options) -> Result<bool, Error> {
    let name = config.name.clone();
    if let Ok(found) = jetstream.get_stream(&name).await {
        let kept = found.cached_info().config.duplicate_window;
        if config.duplicate_window == SETTLERS_IDS_KEPT && kept > SETTLERS_IDS_KEPT {
            // Gateways may change no stream.
            tracing::warn!(
                stream = name,
                ?kept,
                "a settler can fill the server's memory with message ids: see ADR 119"
            );
        }
        return Ok(false);
    }
    let config = Config { num_replicas: options.replicas, ..config };
    // Another gateway may be doing the same; then this finds what it made.
    let stream = jetstream.get_or_create_stream(config).await;
    stream.map(|_| true).map_err(|error| Error { what: format!("stream {name}"), reason: error.to_string() })
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

/// Who was asked for a bid.
fn asked() -> Config {
    Config {
        name: ASKED_STREAM.to_owned(),
        description: Some("who was asked in each auction".to_owned()),
        subjects: vec![ASKED_SUBJECTS.to_owned()],
        max_bytes: ASKED_BYTES_MAX,
        max_age: BIDS_AGE,
        ..latest_in_memory()
    }
}

/// The stream of a settler's bids.
pub(super) fn bids_stream(settler: &SettlerToken) -> String {
    format!("BIDS_{settler}")
}

/// The bids of one settler.
pub fn bids(settler: &SettlerToken) -> Config {
    Config {
        name: bids_stream(settler),
        description: Some("latest answers of one settler in each auction".to_owned()),
        subjects: vec![own_bid_subjects(settler)],
        max_messages_per_subject: BIDS_PER_AUCTION,
        max_bytes: BIDS_BYTES_MAX,
        max_age: BIDS_AGE,
        max_message_size: MESSAGE_BYTES_MAX as i32,
        duplicate_window: SETTLERS_IDS_KEPT,
        ..latest_in_memory()
    }
}

/// The stream of a settler's registration.
pub fn registration_stream(settler: &SettlerToken) -> String {
    format!("SETTLER_{settler}")
}

/// The registration of one settler. It lapses sooner than a server is back after a crash, so a disk has no part in it.
pub fn registration(settler: &SettlerToken) -> Config {
    Config {
        name: registration_stream(settler),
        description: Some("one settler is there".to_owned()),
        subjects: vec![registration_subject(settler)],
        max_messages: 1,
        max_age: REGISTRATION_TTL,
        max_message_size: REGISTRATION_BYTES_MAX as i32,
        duplicate_window: SETTLERS_IDS_KEPT,
        ..latest_in_memory()
    }
}

/// The last message of each subject. Nothing in it can be rolled up: with that header a settler could clear a stream.
fn latest_in_memory() -> Config {
    Config {
        storage: StorageType::Memory,
        max_messages_per_subject: 1,
        discard: DiscardPolicy::Old,
        duplicate_window: Duration::from_secs(30),
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
        description: Some(
            "awards, until their settlers have settled them, or the ends that took their places".to_owned(),
        ),
        subjects: vec![AWARD_SUBJECTS.to_owned()],
        storage: StorageType::File,
        max_age: AWARDS_AGE,
        // The end of an award takes its place: who was away does not find what is over.
        max_messages_per_subject: 1,
        discard: DiscardPolicy::Old,
        allow_direct: true,
        deny_delete: true,
        deny_purge: true,
        ..Default::default()
    }
}

/// What stands as the answers to awards: one of each, kept as long as the award.
fn answers() -> Config {
    Config {
        name: ANSWERS_STREAM.to_owned(),
        description: Some("what stands as the answer to each award".to_owned()),
        subjects: vec![ANSWERED_SUBJECTS.to_owned()],
        storage: StorageType::File,
        max_age: AWARDS_AGE,
        max_message_size: ANSWER_BYTES_MAX,
        discard: DiscardPolicy::Old,
        allow_direct: true,
        deny_delete: true,
        deny_purge: true,
        ..Default::default()
    }
}
