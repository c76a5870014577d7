//! What a selector goes by.

use chrono::TimeDelta;
use ruint::{Uint, aliases::U256};
use serde::Deserialize;

use events::{
    Amount,
    quote::SignedQuote,
    time::{Timestamp, unix_seconds},
};

/// Why none is taken when all quotes promise to deliver later than is allowed.
pub const TAKES_TOO_LONG: &str = "ALL_TAKE_TOO_LONG";

/// Wide enough for an amount times basis points times seconds.
type Cost = Uint<448, 7>;

/// The rule by which quotes are compared. Of two that it finds equal the cheaper wins, then the earlier promise, then the
/// lower hash, so that there is always exactly one best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Section")]
pub enum Rule {
    /// The lowest source amount, as the gateway itself chooses.
    Cheapest,
    /// The earliest promised delivery.
    Fastest,
    /// Each second of a later promise counts like so many basis points of the lowest source amount.
    Weighed {
        /// Basis points a second.
        second_costs_bps: u32,
    },
}

/// The rule as a section of a file. A tagged enum would take unknown keys beside a kind that has none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    kind: Kind,
    second_costs_bps: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Cheapest,
    Fastest,
    Weighed,
}

impl TryFrom<Section> for Rule {
    type Error = &'static str;

    fn try_from(section: Section) -> Result<Self, &'static str> {
        match (section.kind, section.second_costs_bps) {
            (Kind::Cheapest, None) => Ok(Self::Cheapest),
            (Kind::Fastest, None) => Ok(Self::Fastest),
            (Kind::Weighed, Some(second_costs_bps)) => Ok(Self::Weighed { second_costs_bps }),
            (Kind::Weighed, None) => Err("second_costs_bps is missing"),
            (_, Some(_)) => Err("second_costs_bps belongs to the kind \"weighed\" alone"),
        }
    }
}

impl Rule {
    /// The best of `quotes` that promise delivery within `delivery_seconds_max` of the quote deadline.
    ///
    /// # Errors
    /// The reason code when none does.
    pub fn choose<'a>(
        &self,
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
            match *self {
                Self::Cheapest => wide(quote.source_amount),
                Self::Fastest => late,
                Self::Weighed { second_costs_bps } => {
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
}

fn wide(amount: Amount) -> Cost {
    Cost::from::<U256>(amount.get())
}
