//! Token amounts in the smallest unit.

use std::{fmt, str::FromStr};

use ruint::aliases::U256;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text;

/// A strictly positive amount in the smallest unit of its asset, at most 2^256 − 1.
///
/// The text form is canonical decimal, `^[1-9][0-9]*$`: no sign, no leading zero, no exponent. It is the form used
/// in HTTP bodies, quotes and events, because JSON numbers lose precision beyond 2^53.
///
/// ```
/// use events::Amount;
///
/// let amount: Amount = "1000000".parse()?;
/// assert_eq!(amount.to_string(), "1000000");
/// assert!("0".parse::<Amount>().is_err());
/// assert!("007".parse::<Amount>().is_err());
/// # Ok::<(), events::amount::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(U256);

/// Why a text is not an [`Amount`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text does not match `^[1-9][0-9]*$`.
    #[error("must be a positive decimal integer without sign or leading zeros")]
    NotCanonical,
    /// The number does not fit the stated width.
    #[error("must be less than 2^{bits}")]
    TooLarge {
        /// Width of the asset's chain in bits.
        bits: u32,
    },
}

impl Amount {
    /// An amount of `value` units, or `None` when it is zero.
    pub fn new(value: U256) -> Option<Self> {
        (!value.is_zero()).then_some(Self(value))
    }

    /// The amount as a 256-bit integer.
    pub fn get(self) -> U256 {
        self.0
    }

    /// Big-endian bytes as used by EVM ABI encoding.
    pub fn to_be_bytes(self) -> [u8; 32] {
        self.0.to_be_bytes()
    }

    /// Checks that the amount fits `bits` bits, the width of amounts on a chain (256 on EVM and Tron, 64 on Solana).
    ///
    /// # Errors
    /// [`Error::TooLarge`] when it does not.
    pub fn within(self, bits: u32) -> Result<Self, Error> {
        if self.0.bit_len() <= bits as usize { Ok(self) } else { Err(Error::TooLarge { bits }) }
    }
}

impl FromStr for Amount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let canonical = matches!(text.as_bytes(), [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit));
        if !canonical {
            return Err(Error::NotCanonical);
        }
        U256::from_str_radix(text, 10).map(Self).map_err(|_| Error::TooLarge { bits: 256 })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Amount({})", self.0)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_positive_decimals_parse() {
        for bad in ["", "0", "00", "01", "+1", "-1", " 1", "1 ", "1.0", "1e3", "0x1", "１"] {
            assert_eq!(bad.parse::<Amount>(), Err(Error::NotCanonical), "{bad:?}");
        }
        let max = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
        assert_eq!(max.parse::<Amount>().unwrap().to_string(), max);
        let above = "115792089237316195423570985008687907853269984665640564039457584007913129639936";
        assert_eq!(above.parse::<Amount>(), Err(Error::TooLarge { bits: 256 }));
    }

    #[test]
    fn width_is_checked_at_its_edge() {
        let widest: Amount = u64::MAX.to_string().parse().unwrap();
        assert!(widest.within(64).is_ok());
        let wider: Amount = "18446744073709551616".parse().unwrap();
        assert_eq!(wider.within(64), Err(Error::TooLarge { bits: 64 }));
    }
}
