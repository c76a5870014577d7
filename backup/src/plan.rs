//! Which streams a copy has, beside those of an auditor's export.

use auction::streams::ANSWERS_STREAM;
use journal::checkpoint;
use journal_jetstream::{ledger, operator_acts, parking};
use protocol::AWARDS_STREAM;
use webhooks::records::nats::{DELIVERIES, WEBHOOKS};

/// What the names of shards begin with.
const SHARD: &str = "EVT_";

/// Streams that are read before the shards, as gateways make anew what they lack of what shards have, and nothing takes back what
/// they have too much.
pub(crate) const BEFORE_SHARDS: [&str; 1] = [DELIVERIES];

/// Streams that keep everything, in the order in which they are read. All but [`BEFORE_SHARDS`] are read after the shards, whose commits name what is
/// in them: a nonce that a commit names is in the ledger's copy.
pub(crate) const KEPT: [&str; 6] = [
    parking::STREAM,
    ledger::STREAM,
    app::payment_identifiers::nats::STREAM,
    operator_acts::STREAM,
    WEBHOOKS,
    DELIVERIES,
];

/// Streams that keep the newest of each subject, or for a while.
pub(crate) const NEWEST: [&str; 2] = [AWARDS_STREAM, ANSWERS_STREAM];

/// Whether a stream of this name is, or was, a shard of the journal.
pub(crate) fn is_shard(name: &str) -> bool {
    name.starts_with(SHARD)
}

/// The number of the shard of this name.
pub(crate) fn shard(name: &str) -> Option<u16> {
    name.strip_prefix(SHARD)?.parse().ok()
}

/// Whether a stream of this name keeps everything.
pub(crate) fn is_kept(name: &str) -> bool {
    is_shard(name) || name == checkpoint::STREAM || KEPT.contains(&name)
}
