//! Prices of assets in one unit of account.

use std::fmt;

use alloy::primitives::utils::{ParseUnits, format_units, parse_units};
use ruint::aliases::U256;

/// What one whole token is worth in the unit of account that all of a settler's prices are in, US dollars as a rule. Eighteen decimal places;
/// what a feed says beyond them is cut off. Never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitPrice(u128);

impl UnitPrice {
    /// Decimal places.
    const PLACES: u8 = 18;

    /// A price as decimal text such as `3005.12`; `None` for anything else, and for what is zero or above 2^128 parts.
    pub fn parse(text: &str) -> Option<Self> {
        let is_decimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if !is_decimal(text) || !text.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        match parse_units(text, Self::PLACES).ok()? {
            ParseUnits::U256(parts) => Self::of(parts.try_into().ok()?),
            ParseUnits::I256(_) => None,
        }
    }

    /// `mantissa` × 10^`exponent`.
    pub fn scaled(mantissa: u128, exponent: i32) -> Option<Self> {
        let places = i32::from(Self::PLACES).checked_add(exponent)?;
        let power = 10_u128.checked_pow(places.unsigned_abs())?;
        Self::of(if places < 0 { mantissa / power } else { mantissa.checked_mul(power)? })
    }

    /// As parts of 10^-18; not zero.
    pub fn parts(self) -> u128 {
        self.0
    }

    fn of(parts: u128) -> Option<Self> {
        (parts > 0).then_some(Self(parts))
    }
}

impl fmt::Display for UnitPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format_units(U256::from(self.0), Self::PLACES).map_err(|_| fmt::Error)?;
        // Eighteen places end in zeros as a rule.
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DOLLAR: u128 = 1_000_000_000_000_000_000;

    #[test]
    fn prices_are_decimal_text() {
        for (text, parts) in [
            ("1", DOLLAR),
            ("3005.12", 3_005_120_000_000_000_000_000),
            ("0.000000000000000001", 1),
            // What is beyond is cut off.
            ("1.0000000000000000019", DOLLAR + 1),
            ("00.50", DOLLAR / 2),
        ] {
            assert_eq!(UnitPrice::parse(text).map(UnitPrice::parts), Some(parts), "{text}");
            let shown = UnitPrice(parts).to_string();
            assert_eq!(UnitPrice::parse(&shown), Some(UnitPrice(parts)), "{shown}");
        }
        for text in
            ["", "0", "0.0", "0.0000000000000000001", "-1", "+1", ".5", "1e3", "1,5", "1.2.3", "NaN", "inf", " 1", "١"]
        {
            assert_eq!(UnitPrice::parse(text), None, "{text}");
        }
        assert_eq!(
            ["100", "3005.120", "0.50"].map(|text| UnitPrice::parse(text).unwrap().to_string()),
            ["100", "3005.12", "0.5"]
        );
        assert_eq!(UnitPrice::parse("999999999999999999999"), None, "above 2^128 parts");
    }

    #[test]
    fn feeds_have_mantissa_and_exponent() {
        let parts = |mantissa, exponent| UnitPrice::scaled(mantissa, exponent).map(UnitPrice::parts);
        assert_eq!(parts(300_512_000_000, -8), Some(3_005_120_000_000_000_000_000));
        assert_eq!((parts(5, 1), parts(5, -18), parts(50, -19)), (Some(50 * DOLLAR), Some(5), Some(5)));
        for (mantissa, exponent) in
            [(0, 0), (5, -19), (1, -100), (1, 100), (1, i32::MAX), (1, i32::MIN), (u128::MAX, 1)]
        {
            assert_eq!(parts(mantissa, exponent), None, "{mantissa} {exponent}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in ".{0,60}") {
            if let Some(price) = UnitPrice::parse(&text) {
                prop_assert!(price.parts() > 0);
            }
        }
    }
}
