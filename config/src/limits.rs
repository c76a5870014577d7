//! Rules of `[limits]`: the values that its keys may have.

use net::callers::{limits::LimitsConfig, price};

use super::{
    Error,
    rules::{COUNT_LIMIT, require},
};

/// Most units a second of any budget.
const RATE_LIMIT: u32 = 100_000;
/// Most units at once.
const BURST_LIMIT: u32 = 1_000_000;

/// Checks the limits, for bodies of at most so many bytes.
pub(super) fn check(limits: &LimitsConfig, body_bytes_max: usize) -> Result<(), Error> {
    // Whoever has asked for nothing yet may send the largest body.
    let largest = price::length(body_bytes_max);
    let quote_request = price::WRITE + price::QUOTE_REQUEST + largest;
    for (name, rate, dearest) in [
        ("reads", limits.reads, price::READ + price::PAGE_MAX),
        ("writes", limits.writes, price::WRITE + largest),
        ("unsigned", limits.unsigned, price::FOREIGN_CODE.max(quote_request)),
        ("accepted", limits.accepted, price::ACCEPT + largest),
    ] {
        let key = |member: &str| format!("limits.{name}.{member}");
        require((1..=RATE_LIMIT).contains(&rate.per_second), &key("per_second"), "must be 1 to 100000")?;
        let rule = format!("must be {dearest} to 1000000");
        require((dearest..=BURST_LIMIT).contains(&rate.burst), &key("burst"), &rule)?;
    }
    for (name, count) in [
        ("connections_per_address_max", limits.connections_per_address_max),
        ("writes_per_address_max", limits.writes_per_address_max),
        ("holds_per_address_max", limits.holds_per_address_max),
        ("event_streams_per_address_max", limits.event_streams_per_address_max),
        ("callers_max", limits.callers_max),
    ] {
        require((1..=COUNT_LIMIT).contains(&count), &format!("limits.{name}"), "must be 1 to 1000000")?;
    }
    Ok(())
}
