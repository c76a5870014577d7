//! Horizons: the longest windows of anything new, whoever states them: the request, or what the payer signed.
//!
//! Somebody keeps something for as long as a window is open: the gateway a task, a settler what it is to deliver, the escrow
//! the payer's money. So each has a limit in `[deadlines]`, and what goes beyond it is refused before anything is kept. What
//! exists is not judged again: a replay is answered whatever the limits are now.

use chrono::{Datelike, TimeDelta};

use config::DeadlinesConfig;
use events::{
    event::EscrowPlan,
    time::{Timestamp, from_unix_seconds, unix_seconds},
};

use crate::error::{Code, Error};

/// Last year that RFC 3339 can write.
const YEAR_MAX: i32 = 9_999;

/// What is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Horizon {
    /// `quote_deadline`.
    Quote,
    /// `fulfillment_deadline`.
    Fulfillment,
    /// `reserve_deadline`.
    Reserve,
    /// `refund_after`.
    Refund,
}

impl Horizon {
    fn field(self) -> &'static str {
        match self {
            Self::Quote => "quote_deadline",
            Self::Fulfillment => "fulfillment_deadline",
            Self::Reserve => "reserve_deadline",
            Self::Refund => "refund_after",
        }
    }
}

/// A window that is too long.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {rule}", horizon.field())]
pub struct TooFar {
    /// Where it ends.
    pub horizon: Horizon,
    /// What it must be.
    pub rule: String,
}

impl From<TooFar> for Error {
    fn from(error: TooFar) -> Self {
        Self::new(Code::INVALID_DEADLINE, error.to_string())
    }
}

fn too_far(horizon: Horizon, most: u64, from: Horizon, key: &str) -> TooFar {
    let rule = format!("must be at most {most} seconds after {}, the limit {key} of this gateway", from.field());
    TooFar { horizon, rule }
}

/// Checks the deadlines of something new: `quote_deadline` from now on, and `fulfillment_deadline` from it on.
///
/// # Errors
/// 400 naming the deadline and its limit.
pub fn check_deadlines(
    quote_deadline: Timestamp,
    fulfillment_deadline: Timestamp,
    now: Timestamp,
    limits: DeadlinesConfig,
) -> Result<(), TooFar> {
    if quote_deadline - now > seconds(limits.quote_seconds_max) {
        let most = limits.quote_seconds_max;
        let rule = format!("must be at most {most} seconds after now, the limit quote_seconds_max of this gateway");
        return Err(TooFar { horizon: Horizon::Quote, rule });
    }
    check_settlement(quote_deadline, fulfillment_deadline, limits)
}

/// Checks the settlement window alone, where the quotes are collected already.
///
/// # Errors
/// 400 naming the deadline and its limit.
pub fn check_settlement(
    quote_deadline: Timestamp,
    fulfillment_deadline: Timestamp,
    limits: DeadlinesConfig,
) -> Result<(), TooFar> {
    let most = limits.settlement_seconds_max;
    if fulfillment_deadline - quote_deadline > seconds(most) {
        return Err(too_far(Horizon::Fulfillment, most, Horizon::Quote, "settlement_seconds_max"));
    }
    Ok(())
}

/// Checks the windows that a payer signed, or is to sign: those on the source chain.
///
/// # Errors
/// 400 naming the member of what is signed and its limit.
pub fn check_plan(plan: &EscrowPlan, quote_deadline: Timestamp, limits: DeadlinesConfig) -> Result<(), TooFar> {
    // Chains count in whole seconds: the quote deadline is rounded up, so that no legal window is cut.
    let reserve_max = unix_seconds(quote_deadline).saturating_add(1).saturating_add(limits.settlement_seconds_max);
    if plan.reserve_deadline > reserve_max {
        let (most, key) = (limits.settlement_seconds_max, "settlement_seconds_max");
        return Err(too_far(Horizon::Reserve, most, Horizon::Quote, key));
    }
    if plan.refund_after > plan.fulfillment_deadline.saturating_add(limits.refund_seconds_max) {
        let (most, key) = (limits.refund_seconds_max, "refund_seconds_max");
        return Err(too_far(Horizon::Refund, most, Horizon::Fulfillment, key));
    }
    for (horizon, time) in [
        (Horizon::Reserve, plan.reserve_deadline),
        (Horizon::Fulfillment, plan.fulfillment_deadline),
        (Horizon::Refund, plan.refund_after),
    ] {
        if from_unix_seconds(time).is_none_or(|date| date.year() > YEAR_MAX) {
            return Err(TooFar { horizon, rule: format!("must be a date, at the latest in the year {YEAR_MAX}") });
        }
    }
    Ok(())
}

fn seconds(count: u64) -> TimeDelta {
    i64::try_from(count).ok().and_then(TimeDelta::try_seconds).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_893_456_000;
    /// The last second of the year 9999.
    const LAST: u64 = 253_402_300_799;

    fn limits() -> DeadlinesConfig {
        DeadlinesConfig::default()
    }

    fn at(seconds: u64) -> Timestamp {
        from_unix_seconds(seconds).unwrap()
    }

    fn plan(reserve_deadline: u64, fulfillment_deadline: u64, refund_after: u64) -> EscrowPlan {
        let account: events::Account = "0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0".parse().unwrap();
        EscrowPlan {
            chain_id: "eip155:1".parse().unwrap(),
            contract: account.clone(),
            reserver: account.clone(),
            releaser: account.clone(),
            reserve_deadline,
            fulfillment_deadline,
            refund_after,
        }
    }

    fn said(refused: Result<(), TooFar>) -> String {
        let refused = Error::from(refused.unwrap_err());
        assert_eq!(refused.code.code, "INVALID_DEADLINE");
        refused.message()
    }

    #[test]
    fn each_window_ends_with_its_limit_and_not_a_second_later() {
        let DeadlinesConfig { quote_seconds_max, settlement_seconds_max, refund_seconds_max, .. } = limits();
        let quote = NOW + quote_seconds_max;
        let fulfillment = quote + settlement_seconds_max;
        let deadlines = |quote, fulfillment| check_deadlines(at(quote), at(fulfillment), at(NOW), limits());
        assert_eq!(deadlines(quote, fulfillment), Ok(()));
        assert!(said(deadlines(quote + 1, fulfillment)).starts_with("quote_deadline: must be at most 600 seconds"));
        let late = said(deadlines(quote, fulfillment + 1));
        assert!(late.starts_with("fulfillment_deadline: ") && late.contains("settlement_seconds_max"), "{late}");

        let refund = fulfillment + refund_seconds_max;
        let windows = |reserve, refund| check_plan(&plan(reserve, fulfillment, refund), at(quote), limits());
        assert_eq!(windows(fulfillment, refund), Ok(()));
        assert!(said(windows(fulfillment, refund + 1)).starts_with("refund_after: must be at most 86400 seconds"));
        assert!(said(windows(fulfillment + 2, refund)).starts_with("reserve_deadline: "));
    }

    #[test]
    fn what_is_no_date_is_refused_whatever_the_limits() {
        let wide = DeadlinesConfig {
            quote_seconds_max: u64::MAX,
            settlement_seconds_max: u64::MAX,
            refund_seconds_max: u64::MAX,
            ..limits()
        };
        assert!(check_plan(&plan(LAST, LAST, LAST), at(NOW), wide).is_ok());
        for time in [LAST + 1, (1 << 48) - 1, 1 << 48, i64::MAX as u64, u64::MAX - 1, u64::MAX] {
            assert_eq!(
                said(check_plan(&plan(NOW, NOW, time), at(NOW), wide)),
                "refund_after: must be a date, at the latest in the year 9999"
            );
            assert!(said(check_plan(&plan(time, NOW, NOW), at(NOW), wide)).starts_with("reserve_deadline: "));
            assert!(said(check_plan(&plan(NOW, time, NOW), at(NOW), wide)).starts_with("fulfillment_deadline: "));
        }
    }

    /// Times near what may be allowed, near every edge of their widths, and anywhere.
    fn time() -> impl Strategy<Value = u64> {
        let near = |edge: u64| (0_u64..4).prop_map(move |off| edge.saturating_sub(2).saturating_add(off));
        prop_oneof![
            NOW..NOW + 400_000,
            near(NOW + 600 + 86_400),
            near(NOW + 600 + 2 * 86_400),
            near(LAST),
            near((1 << 48) - 1),
            near(i64::MAX as u64),
            near(u64::MAX),
            any::<u64>(),
        ]
    }

    proptest! {
        #[test]
        fn what_passes_lies_within_every_limit(
            quote in time(), reserve in time(), fulfillment in time(), refund in time(), most in prop_oneof![1_u64..200_000, any::<u64>()],
        ) {
            let limits = DeadlinesConfig {
                quote_seconds_max: most, settlement_seconds_max: most, refund_seconds_max: most, ..limits()
            };
            let dates = from_unix_seconds(quote).zip(from_unix_seconds(fulfillment));
            // A request writes dates; only what is signed can hold anything else.
            let Some((quote_deadline, fulfillment_deadline)) = dates else { return Ok(()) };
            let passed = check_deadlines(quote_deadline, fulfillment_deadline, at(NOW), limits).is_ok();
            let far = |time: u64, from: u64| u128::from(time) > u128::from(from) + u128::from(most);
            prop_assert_eq!(passed, !far(quote, NOW) && !far(fulfillment, quote));
            let passed = check_plan(&plan(reserve, fulfillment, refund), quote_deadline, limits).is_ok();
            if passed {
                prop_assert!(!far(reserve, quote + 1) && !far(refund, fulfillment));
                prop_assert!(refund <= LAST && reserve <= LAST);
            } else {
                prop_assert!(
                    far(reserve, quote + 1) || far(refund, fulfillment) || refund.max(reserve).max(fulfillment) > LAST
                );
            }
        }
    }
}
