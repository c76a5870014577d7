//! How many partitions there are.

/// Partitions of webhooks for a journal of so many shards in its first epoch, which never changes.
pub fn of_shards(shards: u16) -> u16 {
    // Two digits in a subject; more owners than that share nothing better.
    shards.clamp(1, 64)
}
