//! Tron's addresses: the EVM's twenty bytes, written with the byte `0x41` before them in Base58Check (`T…`, what people and
//! the engine use) or in hex (what the HTTP API uses). In ABI they are the twenty bytes alone.

use alloy::primitives::Address;

use chains::perform::PerformError;
use events::{Account, AssetId, Family};
use sagas::ports::{PrepareError, Transient};
use signer::Secp256k1Key;

/// The byte before the twenty, on all of Tron's networks.
pub const PREFIX: u8 = 0x41;
/// Tron's own coin among the registered ones (SLIP-44).
const TRX: &str = "195";

/// What should be a Tron address, a TRC-20 or TRX, and is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// Not a Tron address.
    #[error("{0:?} is not a Tron address")]
    Address(String),
    /// An asset that is neither a TRC-20 nor TRX.
    #[error("{0} is neither a TRC-20 nor TRX")]
    Asset(String),
}

impl From<ConvertError> for Transient {
    fn from(error: ConvertError) -> Self {
        Self::misconfigured(format!("unusable order: {error}"))
    }
}

impl From<ConvertError> for PrepareError {
    fn from(error: ConvertError) -> Self {
        Self::Transient(error.into())
    }
}

impl From<ConvertError> for PerformError {
    fn from(error: ConvertError) -> Self {
        Self::Transient(error.into())
    }
}

/// The address of a Tron account.
///
/// # Errors
/// [`ConvertError::Address`] for an account of another family.
pub fn address(account: &Account) -> Result<Address, ConvertError> {
    match account.family() {
        Family::Tron => Ok(Address::from_slice(&account.to_bytes())),
        Family::Evm | Family::Solana => Err(ConvertError::Address(account.to_string())),
    }
}

/// The address written as `text`: `T…` with a right checksum, not zero.
///
/// # Errors
/// [`ConvertError::Address`].
pub fn parse_address(text: &str) -> Result<Address, ConvertError> {
    let account = Account::parse(Family::Tron, text).map_err(|_| ConvertError::Address(text.to_owned()))?;
    address(&account)
}

/// The Tron account of `address`; `None` for the zero address.
pub fn account(address: Address) -> Option<Account> {
    Account::from_bytes(Family::Tron, address.as_slice())
}

/// The account of a key.
#[expect(clippy::expect_used, reason = "no private key has the zero address")]
pub(super) fn account_of(key: &Secp256k1Key) -> Account {
    account(key.address()).expect("no private key has the zero address")
}

/// `address` as the engine writes addresses: `T…`.
pub fn text(address: Address) -> String {
    bs58::encode(bytes(address)).with_check().into_string()
}

/// `address` as the HTTP API writes addresses: 42 hex digits that begin with 41.
pub fn api(address: Address) -> String {
    hex::encode(bytes(address))
}

/// The 21 bytes that transactions hold.
pub fn bytes(address: Address) -> [u8; 21] {
    let mut bytes = [PREFIX; 21];
    bytes[1..].copy_from_slice(address.as_slice());
    bytes
}

/// The address of 21 bytes that begin with `0x41`; `None` for everything else.
pub fn from_bytes(bytes: &[u8]) -> Option<Address> {
    match bytes {
        [PREFIX, rest @ ..] => Address::try_from(rest).ok(),
        _ => None,
    }
}

/// The address of hex as the HTTP API writes it.
pub fn from_api(text: &str) -> Option<Address> {
    from_bytes(&hex::decode(text).ok()?)
}

/// The token contract of a TRC-20.
///
/// # Errors
/// [`ConvertError::Asset`] for every other kind of asset.
pub fn trc20(asset: &AssetId) -> Result<Address, ConvertError> {
    match asset.namespace() {
        "trc20" => parse_address(asset.reference()).map_err(|_| ConvertError::Asset(asset.to_string())),
        _ => Err(ConvertError::Asset(asset.to_string())),
    }
}

/// The token contract of a TRC-20, or zero for TRX (`slip44:195`), as `FulfillmentProxy` has it.
///
/// # Errors
/// [`ConvertError::Asset`] for every other kind of asset.
pub fn token_or_coin(asset: &AssetId) -> Result<Address, ConvertError> {
    if asset.namespace() == "slip44" && asset.reference() == TRX { Ok(Address::ZERO) } else { trc20(asset) }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::address as evm;

    use super::*;

    /// Tron's USDT, as explorers show it.
    const USDT: &str = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";

    #[test]
    fn all_forms_are_read_and_written() {
        let usdt = evm!("a614f803b6fd780986a42c78ec9c7f77e6ded13c");
        assert_eq!(parse_address(USDT), Ok(usdt));
        assert_eq!(text(usdt), USDT);
        assert_eq!(api(usdt), "41a614f803b6fd780986a42c78ec9c7f77e6ded13c");
        assert_eq!(from_api(&api(usdt)), Some(usdt));
        assert_eq!(from_bytes(&bytes(usdt)), Some(usdt));
        assert_eq!(text(Address::ZERO), "T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb");
    }

    #[test]
    fn what_is_not_an_address_is_refused() {
        for bad in ["", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6u", "T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb", "0xa614f8"] {
            assert_eq!(parse_address(bad), Err(ConvertError::Address(bad.to_owned())));
        }
        for bad in ["", "41", "a0a614f803b6fd780986a42c78ec9c7f77e6ded13c", "a614f803b6fd780986a42c78ec9c7f77e6ded13c"]
        {
            assert_eq!(from_api(bad), None, "{bad}");
        }
        assert_eq!(from_bytes(&[PREFIX; 20]), None);
        assert_eq!(from_bytes(&[PREFIX; 22]), None);
    }

    #[test]
    fn assets_are_tokens_or_trx() {
        let asset = |text: &str| format!("tron:728126428/{text}").parse::<AssetId>().unwrap();
        let token = asset(&format!("trc20:{USDT}"));
        assert_eq!(trc20(&token), parse_address(USDT));
        assert_eq!(token_or_coin(&token), parse_address(USDT));
        assert_eq!(token_or_coin(&asset("slip44:195")), Ok(Address::ZERO));
        for bad in ["slip44:60", "trc10:1002000", "trc20:T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb"] {
            assert!(token_or_coin(&asset(bad)).is_err(), "{bad}");
        }
        assert!(trc20(&asset("slip44:195")).is_err());
    }
}
