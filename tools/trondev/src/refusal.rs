//! Refusals of transactions and constant calls, with the codes and messages of Tron's API.

use crate::address::AddressError;

/// Why a transaction is not taken. [`Refusal::code`] is the API's code, the display text its message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The signature is missing, malformed or somebody else's.
    #[error("Validate signature error: {0}")]
    Signature(String),
    /// The reference block is none of this chain's last 65536.
    #[error("Tapos check error.")]
    Tapos,
    /// The expiration has passed, or lies more than a day ahead.
    #[error("Transaction expired")]
    Expired,
    /// More than 500 KiB.
    #[error("Transaction size is too big.")]
    TooBig,
    /// The chain has it, or it waits for a block.
    #[error("Dup transaction.")]
    Duplicate,
    /// Neither free bandwidth nor TRX to pay for it.
    #[error("Account resource insufficient error.")]
    Bandwidth,
    /// The contract's fields, its owner or its funds do not fit.
    #[error("Contract validate error : {0}")]
    Contract(String),
    /// Too many transactions wait for a block.
    #[error("Server busy.")]
    Busy,
    /// It cannot be read.
    #[error("Error: {0}")]
    Other(String),
}

impl Refusal {
    /// The name in `response_code` of Tron's API.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Signature(_) => "SIGERROR",
            Self::Tapos => "TAPOS_ERROR",
            Self::Expired => "TRANSACTION_EXPIRATION_ERROR",
            Self::TooBig => "TOO_BIG_TRANSACTION_ERROR",
            Self::Duplicate => "DUP_TRANSACTION_ERROR",
            // Tron spells it so.
            Self::Bandwidth => "BANDWITH_ERROR",
            Self::Contract(_) => "CONTRACT_VALIDATE_ERROR",
            Self::Busy => "SERVER_BUSY",
            Self::Other(_) => "OTHER_ERROR",
        }
    }

    pub(crate) fn contract(text: impl Into<String>) -> Self {
        Self::Contract(text.into())
    }

    pub(crate) fn address(field: &str) -> impl FnOnce(AddressError) -> Self {
        move |error| Self::Contract(format!("Invalid {field}: {error}"))
    }
}
