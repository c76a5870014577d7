//! The rule by which a selector chooses.

use chrono::TimeDelta;
use ruint::{Uint, aliases::U256};

use config::SelectorRule;
use events::{
    Amount,
    quote::SignedQuote,
    time::{Timestamp, unix_seconds},
};

/// Why none is taken when all quotes promise to deliver later than is allowed.
pub(super) const TAKES_TOO_LONG: &str = "ALL_TAKE_TOO_LONG";

/// Wide enough for an amount times basis points times seconds.
type Cost = Uint<448, 7>;

/// The best of `quotes` that promise delivery within `delivery_seconds_max` of the quote deadline.
///
/// # Errors
/// The reason code when none does.
pub(super) fn choose<'a>(
    rule: &SelectorRule,
    quotes: &'a [SignedQuote],
    quote_deadline: Timestamp,
    delivery_seconds_max: Option<u32>,
) -> Result<&'a SignedQuote, &'static str> {
    let latest = delivery_seconds_max.map(|seconds| quote_deadline + TimeDelta::seconds(seconds.into()));
    let in_time = |signed: &&SignedQuote| latest.is_none_or(|latest| signed.quote().fulfill_by <= latest);
    let lowest = quotes.iter().map(|signed| signed.quote().source_amount).min();
    let earliest = quotes.iter().map(|signed| unix_seconds(signed.quote().fulfill_by)).min();
    let (Some(lowest), Some(earliest)) = (lowest, earliest) else { return Err(TAKES_TOO_LONG) };
    let cost = |signed: &SignedQuote| {
        let quote = signed.quote();
        let late = Cost::from(unix_seconds(quote.fulfill_by) - earliest);
        match *rule {
            SelectorRule::Cheapest => wide(quote.source_amount),
            SelectorRule::Fastest => late,
            SelectorRule::Weighed { second_costs_bps } => {
                let of_time = wide(lowest) * Cost::from(second_costs_bps) * late;
                wide(quote.source_amount) * Cost::from(10_000) + of_time
            }
        }
    };
    let best = quotes.iter().filter(in_time).min_by_key(|signed| {
        let quote = signed.quote();
        (cost(signed), quote.source_amount, quote.fulfill_by, signed.hash())
    });
    best.ok_or(TAKES_TOO_LONG)
}

fn wide(amount: Amount) -> Cost {
    Cost::from::<U256>(amount.get())
}
