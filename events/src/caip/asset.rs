//! Assets by their CAIP-19 ids.

use std::{fmt, str::FromStr};

use super::{ChainId, Error, Family};

/// An asset by its CAIP-19 id, normalised; see the pattern in spec 2.2.
///
/// ```
/// use events::AssetId;
///
/// let asset: AssetId = "eip155:1/erc20:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48".parse()?;
/// assert_eq!(asset.chain().as_str(), "eip155:1");
/// assert_eq!(asset.reference(), "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48");
/// # Ok::<(), events::caip::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssetId {
    chain: ChainId,
    namespace: String,
    reference: String,
}

impl AssetId {
    /// The chain the asset lives on.
    pub fn chain(&self) -> &ChainId {
        &self.chain
    }

    /// The asset namespace, for example `erc20`, `token`, `trc20` or `slip44`.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The asset reference, for example the address of a token contract, with its optional `/token_id`.
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// Whether it is a chain's own coin, of CAIP-19's namespace `slip44`, and not a token.
    pub fn is_coin(&self) -> bool {
        self.namespace == "slip44"
    }
}

impl FromStr for AssetId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (chain, asset) = text.split_once('/').ok_or(Error::NotCaip19)?;
        let chain: ChainId = chain.parse().map_err(|error| match error {
            Error::NotCaip2 => Error::NotCaip19,
            other => other,
        })?;
        let (namespace, reference) = asset.split_once(':').ok_or(Error::NotCaip19)?;
        let legal = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        if !(3..=8).contains(&namespace.len()) || !namespace.bytes().all(legal) {
            return Err(Error::NotCaip19);
        }
        let well_formed = match reference.split_once('/') {
            Some((reference, token)) => is_asset_reference(reference, 128) && is_asset_reference(token, 78),
            None => is_asset_reference(reference, 128),
        };
        if !well_formed {
            return Err(Error::NotCaip19);
        }
        let reference = match (chain.family(), namespace) {
            (Some(Family::Evm), "erc20") => reference.to_ascii_lowercase(),
            _ => reference.to_owned(),
        };
        Ok(Self { chain, namespace: namespace.to_owned(), reference })
    }
}

impl fmt::Display for AssetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.chain, self.namespace, self.reference)
    }
}

fn is_asset_reference(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len())
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'%'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_follow_the_pattern_of_the_contract() {
        let long = "a".repeat(129);
        for bad in [
            "eip155:1",
            "eip155:1/erc20",
            "eip155:1/er:0x1",
            "eip155:1/erc20-too-long:0x1",
            "eip155:1/ERC20:0x1",
            "eip155:1/erc20:",
            "eip155:1/erc20:0x1/",
            "eip155:1/erc20:0x1/2/3",
            &format!("eip155:1/erc20:{long}"),
        ] {
            assert_eq!(bad.parse::<AssetId>(), Err(Error::NotCaip19), "{bad}");
        }
        assert!("eip155:1/erc721:0xabc/1".parse::<AssetId>().is_ok());
        assert!("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/slip44:501".parse::<AssetId>().is_ok());
    }
}
