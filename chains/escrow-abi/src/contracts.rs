//! The contracts' interfaces, and the conversions between their types and the engine's.

use alloy::{
    primitives::{Address, B256, U256, aliases::U48},
    sol,
};

use chains::perform::PerformError;
use events::{Account, Amount, AssetId, ChainId, Family, Hash32};
use sagas::ports::{PrepareError, Transient};

sol!(
    #[sol(abi)]
    #[derive(Debug, PartialEq, Eq)]
    GatewayEscrow,
    "../../contracts/artifacts/GatewayEscrow.json"
);

sol!(
    #[sol(abi)]
    #[derive(Debug, PartialEq, Eq)]
    FulfillmentProxy,
    "../../contracts/artifacts/FulfillmentProxy.json"
);

sol!(
    #[derive(Debug, PartialEq, Eq)]
    AccountProbe,
    "../../contracts/artifacts/AccountProbe.json"
);

sol!(
    #[sol(abi)]
    #[derive(Debug, PartialEq, Eq)]
    AccountDeposit,
    "../../contracts/artifacts/AccountDeposit.json"
);

sol!(
    #[sol(abi)]
    #[derive(Debug, PartialEq, Eq)]
    PermittedDeposit,
    "../../contracts/artifacts/PermittedDeposit.json"
);

sol!(
    #[derive(Debug, PartialEq, Eq)]
    DevHostileAccount,
    "../../contracts/artifacts/DevHostileAccount.json"
);

sol!(
    #[derive(Debug, PartialEq, Eq)]
    DevAccountFactory,
    "../../contracts/artifacts/DevAccountFactory.json"
);

sol!(
    #[sol(abi)]
    #[derive(Debug, PartialEq, Eq)]
    DevToken,
    "../../contracts/artifacts/DevToken.json"
);

sol!(
    #[sol(abi)]
    #[derive(Debug, PartialEq, Eq)]
    DevStablecoin,
    "../../contracts/artifacts/DevStablecoin.json"
);

sol!(
    #[sol(abi)]
    #[derive(Debug, PartialEq, Eq)]
    DevWrappedCoin,
    "../../contracts/artifacts/DevWrappedCoin.json"
);

sol! {
    /// A contract account's judgement of a signature (ERC-1271).
    interface IERC1271 {
        function isValidSignature(bytes32 hash, bytes signature) external view returns (bytes4);
    }
}

/// Gas of one payout of a `GatewayEscrow` on a chain that counts as Ethereum does, the constructor's `payoutGas_`.
pub const PAYOUT_GAS: u64 = 300_000;

/// What should be an EVM address, an ERC-20, a native coin or a time, and is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// Not an EVM address.
    #[error("{0:?} is not an EVM address")]
    Address(String),
    /// An asset that is neither an ERC-20 nor the chain's own coin.
    #[error("{0} is neither an ERC-20 nor the chain's own coin")]
    Asset(String),
    /// An amount beyond the 160 bits of an allowance at Permit2.
    #[error("{0} is more than an allowance can hold")]
    Amount(String),
    /// A time beyond the contracts' 48 bits.
    #[error("{0} is not a UNIX time that a contract can hold")]
    Time(u64),
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

/// The address of an EVM account.
///
/// # Errors
/// [`ConvertError::Address`] for an account of another family.
pub fn address(account: &Account) -> Result<Address, ConvertError> {
    match account.family() {
        Family::Evm => Ok(Address::from_slice(&account.to_bytes())),
        Family::Solana | Family::Tron => Err(ConvertError::Address(account.to_string())),
    }
}

/// The address written as `text`: 0x and 40 hex digits, with a right EIP-55 checksum if mixed-case, not zero.
///
/// # Errors
/// [`ConvertError::Address`].
pub fn parse_address(text: &str) -> Result<Address, ConvertError> {
    let account = Account::parse(Family::Evm, text).map_err(|_| ConvertError::Address(text.to_owned()))?;
    address(&account)
}

/// The EVM account of `address`; `None` for the zero address.
pub fn account(address: Address) -> Option<Account> {
    Account::from_bytes(Family::Evm, address.as_slice())
}

/// `address` as the engine writes addresses: lower case.
pub fn text(address: Address) -> String {
    format!("{address:#x}")
}

/// The token contract of an ERC-20.
///
/// # Errors
/// [`ConvertError::Asset`] for every other kind of asset.
pub fn erc20(asset: &AssetId) -> Result<Address, ConvertError> {
    match asset.namespace() {
        "erc20" => parse_address(asset.reference()).map_err(|_| ConvertError::Asset(asset.to_string())),
        _ => Err(ConvertError::Asset(asset.to_string())),
    }
}

/// The ERC-20 with this contract on `chain`; `None` where there is no such asset.
pub fn erc20_asset(chain: &ChainId, token: Address) -> Option<AssetId> {
    format!("{chain}/erc20:{}", text(token)).parse().ok()
}

/// The token contract of an ERC-20, or zero for the chain's own coin (`slip44`), as `FulfillmentProxy` has it.
///
/// # Errors
/// [`ConvertError::Asset`] for every other kind of asset.
pub fn token_or_coin(asset: &AssetId) -> Result<Address, ConvertError> {
    if asset.namespace() == "slip44" { Ok(Address::ZERO) } else { erc20(asset) }
}

/// `seconds` as a contract's `uint48`.
///
/// # Errors
/// [`ConvertError::Time`] when they do not fit.
pub fn time(seconds: u64) -> Result<U48, ConvertError> {
    U48::try_from(seconds).map_err(|_| ConvertError::Time(seconds))
}

/// A contract's `uint48` as UNIX seconds.
pub fn seconds(time: U48) -> u64 {
    time.to::<u64>()
}

/// An amount as the contracts have it.
pub fn units(amount: Amount) -> U256 {
    amount.get()
}

/// A hash as the contracts have it.
pub fn word(hash: Hash32) -> B256 {
    B256::from(hash.0)
}
