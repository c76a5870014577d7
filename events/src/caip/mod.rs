//! Chains (CAIP-2), assets (CAIP-19) and accounts, parsed and normalised.
//!
//! Two texts that mean the same chain, asset or account become equal values here, so that everything behind this
//! module compares by value: EVM addresses are lower case, Tron chain references decimal, Tron accounts Base58Check.

mod account;
mod asset;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::{account::Account, asset::AssetId};

/// A family of chains that share account format, signature scheme and escrow implementation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// CAIP namespace `eip155`.
    Evm,
    /// CAIP namespace `solana`.
    Solana,
    /// CAIP namespace `tron`.
    Tron,
}

impl Family {
    /// The CAIP-2 namespace of the family.
    pub fn namespace(self) -> &'static str {
        match self {
            Self::Evm => "eip155",
            Self::Solana => "solana",
            Self::Tron => "tron",
        }
    }

    /// The CAIP-19 asset namespace of the family's tokens.
    pub fn token_namespace(self) -> &'static str {
        match self {
            Self::Evm => "erc20",
            Self::Solana => "token",
            Self::Tron => "trc20",
        }
    }

    /// Width of token amounts in bits.
    pub fn amount_bits(self) -> u32 {
        match self {
            Self::Evm | Self::Tron => 256,
            Self::Solana => 64,
        }
    }
}

/// Why a text is not a chain, asset or account.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not of the form of CAIP-2.
    #[error("must be a CAIP-2 chain id, `namespace:reference`")]
    NotCaip2,
    /// Not of the form of CAIP-19.
    #[error("must be a CAIP-19 asset, `chain_id/asset_namespace:asset_reference`")]
    NotCaip19,
    /// The chain's reference is not a number where the family has numbers.
    #[error("chain reference must be a decimal number")]
    ChainReference,
    /// The chain belongs to no family this gateway knows.
    #[error("chain namespace must be one of eip155, solana, tron")]
    UnknownFamily,
    /// An account of length 0 or above 128.
    #[error("account must have 1 to 128 characters")]
    AccountLength,
    /// White space before, behind or inside the account.
    #[error("account must not contain white space")]
    AccountWhitespace,
    /// No EVM address.
    #[error("account must be 0x followed by 40 hex digits")]
    EvmAccount,
    /// Mixed case with a wrong checksum.
    #[error("mixed-case account must carry a valid EIP-55 checksum")]
    Eip55,
    /// No Solana account.
    #[error("account must be the Base58 form of 32 bytes")]
    SolanaAccount,
    /// Of no family's form.
    #[error("account must be 0x and 40 hex digits, or the Base58 form of a Tron or Solana account")]
    Account,
    /// No Tron account.
    #[error("account must be a Base58Check address that begins with T")]
    TronAccount,
    /// The zero address of the family.
    #[error("account must not be the zero address")]
    ZeroAccount,
}

fn is_caip2_reference(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-')
}

/// A chain by its CAIP-2 id, normalised.
///
/// Chain references of EVM and Tron are decimal numbers; Tron's older hex form (`tron:0x2b6653dc`) is accepted and
/// turned into decimal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId {
    family: Option<Family>,
    text: String,
}

impl ChainId {
    /// The EVM chain with the EIP-155 id `id`.
    pub fn evm(id: u64) -> Self {
        Self { family: Some(Family::Evm), text: format!("eip155:{id}") }
    }

    /// The family, or `None` for a well-formed chain of a family the gateway does not serve.
    pub fn family(&self) -> Option<Family> {
        self.family
    }

    /// The chain's reference, the part behind the colon.
    pub fn reference(&self) -> &str {
        self.text.split_once(':').map_or("", |(_, reference)| reference)
    }

    /// The numeric EIP-155 id of an EVM chain.
    pub fn evm_id(&self) -> Option<u64> {
        if self.family == Some(Family::Evm) { self.reference().parse().ok() } else { None }
    }

    /// The id as text, `namespace:reference`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The id as one NATS subject token: the colon replaced by `-`.
    pub fn token(&self) -> String {
        self.text.replace(':', "-")
    }
}

impl FromStr for ChainId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (namespace, reference) = text.split_once(':').ok_or(Error::NotCaip2)?;
        let legal = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        if namespace.is_empty() || !namespace.bytes().all(legal) || !is_caip2_reference(reference) {
            return Err(Error::NotCaip2);
        }
        let decimal = |text: &str| text.parse::<u64>().map_err(|_| Error::ChainReference);
        let (family, reference) = match namespace {
            "eip155" => (Some(Family::Evm), decimal(reference)?.to_string()),
            "tron" => {
                let number = match reference.strip_prefix("0x") {
                    Some(digits) => u64::from_str_radix(digits, 16).map_err(|_| Error::ChainReference)?,
                    None => decimal(reference)?,
                };
                (Some(Family::Tron), number.to_string())
            }
            "solana" => (Some(Family::Solana), reference.to_owned()),
            _ => (None, reference.to_owned()),
        };
        Ok(Self { family, text: format!("{namespace}:{reference}") })
    }
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

macro_rules! serde_as_text {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::text::parsed(deserializer)
            }
        }
    )*};
}
serde_as_text!(ChainId, AssetId, Account);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_normalised() {
        let chain = |text: &str| text.parse::<ChainId>().map(|chain| chain.to_string());
        assert_eq!(chain("eip155:1").unwrap(), "eip155:1");
        assert_eq!(chain("eip155:001").unwrap(), "eip155:1");
        assert_eq!(chain("tron:0x2b6653dc").unwrap(), "tron:728126428");
        assert_eq!(chain("cosmos:cosmoshub-4").unwrap(), "cosmos:cosmoshub-4");
        assert_eq!(chain("eip155:mainnet"), Err(Error::ChainReference));
        for bad in ["", "eip155", "eip155:", ":1", "EIP155:1", "eip155:1:2", "eip155:a b"] {
            assert_eq!(chain(bad), Err(Error::NotCaip2), "{bad}");
        }
    }

    #[test]
    fn one_tron_chain_is_one_value_however_its_reference_is_written() {
        // Mainnet, Nile and Shasta.
        for (decimal, hex) in [("728126428", "0x2b6653dc"), ("3448148188", "0xcd8690dc"), ("2494104990", "0x94a9059e")]
        {
            let chain: ChainId = format!("tron:{decimal}").parse().unwrap();
            assert_eq!((chain.family(), chain.reference()), (Some(Family::Tron), decimal));
            let upper = format!("0x{}", hex[2..].to_ascii_uppercase());
            for other in [hex, &upper, &format!("0x00{}", &hex[2..]), &format!("0{decimal}")] {
                assert_eq!(format!("tron:{other}").parse(), Ok(chain.clone()), "{other}");
                let asset = |reference: &str| format!("tron:{reference}/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t");
                let (one, two): (AssetId, AssetId) = (asset(decimal).parse().unwrap(), asset(other).parse().unwrap());
                assert_eq!((&one, one.to_string()), (&two, asset(decimal)), "{other}");
            }
        }
        for bad in ["tron:0x", "tron:0xg", "tron:2b6653dc", "tron:0x10000000000000000", "tron:-1", "tron:0X2b6653dc"] {
            assert_eq!(bad.parse::<ChainId>(), Err(Error::ChainReference), "{bad}");
        }
    }
}
