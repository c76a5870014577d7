//! The release rule: when the gateway brings the release of a delivered payment itself, and when it has to have its
//! attestation.

use std::time::Duration;

use events::{
    event::{EscrowPlan, FulfillmentConfirmed},
    time::{Timestamp, from_unix_seconds, unix_seconds},
};

/// How long a settler is left to bring the release of its own delivery before the gateway does.
///
/// It is applied once, when the delivery is confirmed, and the outcome is journaled with the confirmation
/// ([`FulfillmentConfirmed::release_from`]): what is configured later changes nothing about payments that are confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReleaseRule {
    /// The settler's share of what is left until the refund window opens, percent.
    pub settler_percent: u32,
    /// The least time that is left to the settler; never more than half of what is left.
    pub least: Duration,
}

impl ReleaseRule {
    /// A quarter, and at least a minute: a settler that lives is first.
    pub const DEFAULT: Self = Self { settler_percent: 25, least: Duration::from_secs(60) };

    /// From when on the gateway brings the release of a delivery that was confirmed at `confirmed_at`, where the refund window
    /// opens at the UNIX second `refund_after`.
    pub fn release_from(&self, confirmed_at: Timestamp, refund_after: u64) -> Timestamp {
        let confirmed = unix_seconds(confirmed_at);
        let left = refund_after.saturating_sub(confirmed);
        let share = left / 100 * u64::from(self.settler_percent) + left % 100 * u64::from(self.settler_percent) / 100;
        let wait = share.max(self.least.as_secs()).min(left / 2);
        // A window without a date gives no share of it either.
        from_unix_seconds(confirmed.saturating_add(wait)).unwrap_or(confirmed_at)
    }
}

impl Default for ReleaseRule {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// From when on the gateway brings the release. Confirmations from before gateways did so are held to
/// [`ReleaseRule::DEFAULT`], which is therefore never changed.
pub fn release_from(confirmed: &FulfillmentConfirmed, escrow: &EscrowPlan) -> Timestamp {
    confirmed
        .release_from
        .unwrap_or_else(|| ReleaseRule::DEFAULT.release_from(confirmed.confirmed_at, escrow.refund_after))
}

/// The UNIX second past which a delivery at its depth without an attestation is an alarm: three quarters of the refund window's
/// margin are gone, and in what is left somebody can still wake the verifier.
pub fn attestation_due(fulfillment_deadline: u64, refund_after: u64) -> u64 {
    let margin = refund_after.saturating_sub(fulfillment_deadline);
    refund_after.saturating_sub(margin / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(rule: ReleaseRule, left: u64) -> u64 {
        let confirmed = 1_800_000_000;
        unix_seconds(rule.release_from(from_unix_seconds(confirmed).unwrap(), confirmed + left)) - confirmed
    }

    #[test]
    fn the_settler_has_its_share_and_the_gateway_half_at_least() {
        assert_eq!(waits(ReleaseRule::DEFAULT, 3_600), 900);
        assert_eq!(waits(ReleaseRule::DEFAULT, 200), 60);
        assert_eq!(waits(ReleaseRule::DEFAULT, 80), 40);
        assert_eq!(waits(ReleaseRule::DEFAULT, 0), 0);
        let at_once = ReleaseRule { settler_percent: 0, least: Duration::ZERO };
        assert_eq!(waits(at_once, 3_600), 0);
        let late = ReleaseRule { settler_percent: 90, least: Duration::MAX };
        assert_eq!(waits(late, 3_600), 1_800);
    }

    #[test]
    fn a_window_beyond_the_calendar_leaves_nobody_waiting_for_ever() {
        let confirmed = from_unix_seconds(1_800_000_000).unwrap();
        assert_eq!(ReleaseRule::DEFAULT.release_from(confirmed, u64::MAX), confirmed);
    }
}
