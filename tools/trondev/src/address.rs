//! Tron addresses.

use std::{fmt, str::FromStr};

use k256::ecdsa::VerifyingKey;
use revm::primitives::{Address as EvmAddress, keccak256};

/// The byte before the twenty of the EVM, on all of Tron's networks.
pub const PREFIX: u8 = 0x41;

/// An account on Tron: the EVM's twenty bytes, written with the byte `0x41` before them, in hex or in Base58Check.
///
/// ```
/// let address: trondev::Address = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t".parse().unwrap();
/// assert_eq!(address.to_hex(), "41a614f803b6fd780986a42c78ec9c7f77e6ded13c");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(EvmAddress);

/// Why a text or some bytes are not an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither 42 hex digits nor Base58 with a checksum.
    #[error("an address is T… in Base58Check or 42 hex digits that begin with 41")]
    Form,
    /// Not twenty-one bytes.
    #[error("an address has 21 bytes, this one has {0}")]
    Length(usize),
    /// Another first byte.
    #[error("an address begins with the byte 0x41, this one with {0:#04x}")]
    Prefix(u8),
}

impl Address {
    /// The address of an EVM account with the same key.
    pub const fn from_evm(address: EvmAddress) -> Self {
        Self(address)
    }

    /// The twenty bytes that contracts see.
    pub const fn evm(self) -> EvmAddress {
        self.0
    }

    /// The address that a public key has: the last twenty bytes of Keccak-256 over the key's 64 bytes.
    pub fn of_key(key: &VerifyingKey) -> Self {
        let point = key.to_encoded_point(false);
        // The first byte says that the point is not compressed.
        let hash = keccak256(&point.as_bytes()[1..]);
        Self(EvmAddress::from_slice(&hash[12..]))
    }

    /// Reads the 21 bytes of a transaction.
    ///
    /// # Errors
    /// When there are not 21 or the first is not `0x41`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AddressError> {
        match bytes {
            [PREFIX, rest @ ..] if rest.len() == 20 => Ok(Self(EvmAddress::from_slice(rest))),
            [first, ..] if bytes.len() == 21 => Err(AddressError::Prefix(*first)),
            _ => Err(AddressError::Length(bytes.len())),
        }
    }

    /// The 21 bytes.
    pub fn to_bytes(self) -> [u8; 21] {
        let mut bytes = [PREFIX; 21];
        bytes[1..].copy_from_slice(self.0.as_slice());
        bytes
    }

    /// The 21 bytes in hex, without 0x.
    pub fn to_hex(self) -> String {
        hex::encode(self.to_bytes())
    }

    /// The Base58Check form, which begins with T.
    pub fn to_base58(self) -> String {
        bs58::encode(self.to_bytes()).with_check().into_string()
    }

    /// Reads Base58Check.
    ///
    /// # Errors
    /// When it is none, or none of an address.
    pub fn from_base58(text: &str) -> Result<Self, AddressError> {
        // Longer texts are not decoded: Base58 takes time that grows with the square of the length.
        if text.len() > 50 {
            return Err(AddressError::Form);
        }
        let bytes = bs58::decode(text).with_check(None).into_vec().map_err(|_| AddressError::Form)?;
        Self::from_bytes(&bytes)
    }

    /// Reads 42 hex digits.
    ///
    /// # Errors
    /// When they are none, or none of an address.
    pub fn from_hex(text: &str) -> Result<Self, AddressError> {
        let bytes = hex::decode(text).map_err(|_| AddressError::Form)?;
        Self::from_bytes(&bytes)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.len() == 42 { Self::from_hex(text) } else { Self::from_base58(text) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.to_base58())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.to_base58())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_written() {
        // Tron's USDT, as explorers show it.
        let address = Address::from_base58("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t").unwrap();
        assert_eq!(address.to_hex(), "41a614f803b6fd780986a42c78ec9c7f77e6ded13c");
        assert_eq!(Address::from_hex(&address.to_hex()), Ok(address));
        assert_eq!(address.to_string().parse(), Ok(address));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let wrong_check = Address::from_base58("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6u");
        assert_eq!(wrong_check, Err(AddressError::Form));
        assert_eq!(Address::from_base58(&"1".repeat(51)), Err(AddressError::Form));
        assert_eq!(Address::from_bytes(&[0xa0; 21]), Err(AddressError::Prefix(0xa0)));
        assert_eq!(Address::from_bytes(&[PREFIX; 20]), Err(AddressError::Length(20)));
        assert_eq!(Address::from_bytes(&[]), Err(AddressError::Length(0)));
        assert_eq!("0xa614f803b6fd780986a42c78ec9c7f77e6ded13c".parse::<Address>(), Err(AddressError::Form));
    }
}
