//! Chains (CAIP-2), assets (CAIP-19) and accounts, parsed and normalised.
//!
//! Two texts that mean the same chain, asset or account become equal values here, so that everything behind this
//! module compares by value: EVM addresses are lower case, Tron chain references decimal, Tron accounts Base58Check.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use sha3::Keccak256;

/// Longest account text accepted (spec 2.2).
const ACCOUNT_CHARS_MAX: usize = 128;
/// Version byte of a Tron address.
const TRON_ADDRESS_PREFIX: u8 = 0x41;
/// Bytes of a Tron account's Base58: the prefix, 20 address bytes, 4 bytes of a double SHA-256 checksum.
const TRON_BYTES: usize = 25;

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

fn is_asset_reference(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len())
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'%'))
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
        let reference = match (chain.family, namespace) {
            (Some(Family::Evm), "erc20") => reference.to_ascii_lowercase(),
            _ => reference.to_owned(),
        };
        Ok(Self { chain, namespace: namespace.to_owned(), reference })
    }
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for AssetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.chain, self.namespace, self.reference)
    }
}

/// An account of one family, normalised, without the chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account {
    family: Family,
    text: String,
}

impl Account {
    /// Parses `text` as an account of `family`.
    ///
    /// # Errors
    /// The rule of spec 2.2 that the text breaks: length, white space, form, EIP-55 checksum, zero address.
    pub fn parse(family: Family, text: &str) -> Result<Self, Error> {
        if !(1..=ACCOUNT_CHARS_MAX).contains(&text.chars().count()) {
            return Err(Error::AccountLength);
        }
        if text.chars().any(char::is_whitespace) {
            return Err(Error::AccountWhitespace);
        }
        let text = match family {
            Family::Evm => parse_evm(text)?,
            Family::Solana => parse_solana(text)?,
            Family::Tron => parse_tron(text)?,
        };
        Ok(Self { family, text })
    }

    /// The account of `family` that has these 20 address bytes (EVM, Tron) or 32 key bytes (Solana); `None` for another
    /// number of bytes and for the zero account, which is nobody's.
    pub fn from_bytes(family: Family, bytes: &[u8]) -> Option<Self> {
        let text = match family {
            Family::Evm => format!("0x{}", hex::encode(bytes)),
            Family::Solana => bs58::encode(bytes).into_string(),
            Family::Tron => {
                let prefixed: Vec<u8> = [TRON_ADDRESS_PREFIX].iter().chain(bytes).copied().collect();
                bs58::encode(prefixed).with_check().into_string()
            }
        };
        Self::parse(family, &text).ok()
    }

    /// The family the account belongs to.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The normalised account text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The account as an originator: its family's namespace and its text, without a chain, so that the same account
    /// naming another chain is the same originator (design: identity and idempotency).
    pub fn originator(&self) -> String {
        format!("{}:{}", self.family.namespace(), self.text)
    }

    /// The 20 address bytes of an EVM or Tron account, the 32 key bytes of a Solana account.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self.family {
            Family::Evm => hex::decode(&self.text[2..]).unwrap_or_default(),
            Family::Solana => bs58::decode(&self.text).into_vec().unwrap_or_default(),
            Family::Tron => bs58::decode(&self.text)
                .with_check(Some(TRON_ADDRESS_PREFIX))
                .into_vec()
                .map(|bytes| bytes[1..].to_vec())
                .unwrap_or_default(),
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An account whose family its form tells: `0x` begins EVM's, and in Base58 Tron's have 25 bytes where Solana's have 32.
impl FromStr for Account {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.starts_with("0x") {
            return Self::parse(Family::Evm, text);
        }
        if text.len() > ACCOUNT_CHARS_MAX {
            return Err(Error::AccountLength);
        }
        let family = match bs58::decode(text).into_vec() {
            Ok(bytes) if bytes.len() == TRON_BYTES => Family::Tron,
            _ => Family::Solana,
        };
        Self::parse(family, text).map_err(|error| match error {
            Error::SolanaAccount => Error::Account,
            known => known,
        })
    }
}

/// The EIP-55 checksummed form of a lower-case EVM address with `0x`.
pub fn eip55(lower: &str) -> String {
    let digits = lower.strip_prefix("0x").unwrap_or(lower);
    let hash = Keccak256::digest(digits.as_bytes());
    let cased = digits.chars().enumerate().map(|(i, c)| {
        let nibble = hash[i / 2] >> (if i % 2 == 0 { 4 } else { 0 }) & 0xf;
        if nibble >= 8 { c.to_ascii_uppercase() } else { c }
    });
    format!("0x{}", cased.collect::<String>())
}

fn parse_evm(text: &str) -> Result<String, Error> {
    let digits = text.strip_prefix("0x").ok_or(Error::EvmAccount)?;
    if digits.len() != 40 || !digits.bytes().all(|c| c.is_ascii_hexdigit()) {
        return Err(Error::EvmAccount);
    }
    let lower = text.to_ascii_lowercase();
    let mixed = digits.bytes().any(|c| c.is_ascii_uppercase()) && digits.bytes().any(|c| c.is_ascii_lowercase());
    if mixed && eip55(&lower) != text {
        return Err(Error::Eip55);
    }
    if digits.bytes().all(|c| c == b'0') {
        return Err(Error::ZeroAccount);
    }
    Ok(lower)
}

fn parse_solana(text: &str) -> Result<String, Error> {
    let bytes = bs58::decode(text).into_vec().map_err(|_| Error::SolanaAccount)?;
    if bytes.len() != 32 {
        return Err(Error::SolanaAccount);
    }
    if bytes.iter().all(|byte| *byte == 0) {
        return Err(Error::ZeroAccount);
    }
    Ok(text.to_owned())
}

fn parse_tron(text: &str) -> Result<String, Error> {
    let bytes = bs58::decode(text).into_vec().map_err(|_| Error::TronAccount)?;
    if bytes.len() != TRON_BYTES || bytes[0] != TRON_ADDRESS_PREFIX {
        return Err(Error::TronAccount);
    }
    let checksum = Sha256::digest(Sha256::digest(&bytes[..21]));
    if checksum[..4] != bytes[21..] {
        return Err(Error::TronAccount);
    }
    if bytes[1..21].iter().all(|byte| *byte == 0) {
        return Err(Error::ZeroAccount);
    }
    Ok(text.to_owned())
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
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
serde_as_text!(ChainId, AssetId, Account);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_an_account_tells_its_family() {
        let read = |text: &str| text.parse::<Account>().map(|account| (account.family(), account.to_string()));
        let evm = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
        let (tron, solana) = ("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v");
        assert_eq!(read("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"), Ok((Family::Evm, evm.to_owned())));
        assert_eq!(read(tron), Ok((Family::Tron, tron.to_owned())));
        assert_eq!(read(solana), Ok((Family::Solana, solana.to_owned())));
        // What is wrong is said of the family whose form it has.
        assert_eq!(read("0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"), Err(Error::Eip55));
        assert_eq!(read("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6u"), Err(Error::TronAccount));
        assert_eq!(read("11111111111111111111111111111111"), Err(Error::ZeroAccount));
        for text in ["", " ", "5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", "0", "T"] {
            assert!(
                matches!(read(text), Err(Error::Account | Error::AccountLength | Error::AccountWhitespace)),
                "{text}"
            );
        }
        // Base58 takes the square of its length.
        assert_eq!(read(&"z".repeat(1 << 20)), Err(Error::AccountLength));

        for (family, bytes) in [(Family::Evm, 20), (Family::Tron, 20), (Family::Solana, 32)] {
            let account = Account::from_bytes(family, &vec![7; bytes]).unwrap();
            assert_eq!((account.to_bytes(), account.to_string().parse()), (vec![7; bytes], Ok(account)));
            assert_eq!(Account::from_bytes(family, &vec![0; bytes]), None);
            assert_eq!(Account::from_bytes(family, &vec![7; bytes - 1]), None);
        }
    }

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

    #[test]
    fn evm_accounts_need_a_right_checksum_when_mixed() {
        let parse = |text: &str| Account::parse(Family::Evm, text);
        // Examples of EIP-55.
        for good in ["0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"] {
            assert_eq!(parse(good).unwrap().as_str(), good.to_ascii_lowercase());
            assert_eq!(eip55(&good.to_ascii_lowercase()), good);
        }
        assert_eq!(parse("0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"), Err(Error::Eip55));
        assert!(parse("0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED").is_ok());
        assert_eq!(parse(" 0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"), Err(Error::AccountWhitespace));
        assert_eq!(parse("0x0000000000000000000000000000000000000000"), Err(Error::ZeroAccount));
        assert_eq!(parse("5aaeb6053f3e94c9b9a09f33669435e7ef1beaed00"), Err(Error::EvmAccount));
        assert_eq!(parse("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beae"), Err(Error::EvmAccount));
        assert_eq!(parse(""), Err(Error::AccountLength));
    }

    #[test]
    fn solana_and_tron_accounts_are_checked_by_their_bytes() {
        let solana = |text: &str| Account::parse(Family::Solana, text);
        assert!(solana("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v").is_ok());
        assert_eq!(solana("11111111111111111111111111111111"), Err(Error::ZeroAccount));
        assert_eq!(solana("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTD"), Err(Error::SolanaAccount));
        let tron = |text: &str| Account::parse(Family::Tron, text);
        assert_eq!(tron("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t").unwrap().to_bytes().len(), 20);
        assert_eq!(tron("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6u"), Err(Error::TronAccount));
    }
}
