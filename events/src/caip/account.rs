//! Accounts of each family: parsed, checked and normalised.

use std::{fmt, str::FromStr};

use sha2::{Digest, Sha256};
use sha3::Keccak256;

use super::{Error, Family};

/// Longest account text accepted (spec 2.2).
const ACCOUNT_CHARS_MAX: usize = 128;
/// Version byte of a Tron address.
const TRON_ADDRESS_PREFIX: u8 = 0x41;
/// Bytes of an address on EVM and Tron.
const ADDRESS_BYTES: usize = 20;
/// Bytes of a Solana account.
const SOLANA_BYTES: usize = 32;
/// Bytes of a Tron account's Base58: the prefix, the address, 4 bytes of a double SHA-256 checksum.
const TRON_BYTES: usize = 1 + ADDRESS_BYTES + 4;

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
        check_text(text)?;
        let decoded = || bs58::decode(text).into_vec();
        match family {
            Family::Evm => check_evm(text)?,
            Family::Solana => check_solana(&decoded().map_err(|_| Error::SolanaAccount)?)?,
            Family::Tron => check_tron(&decoded().map_err(|_| Error::TronAccount)?)?,
        }
        Ok(Self::normalised(family, text))
    }

    /// The account of `family` that has these 20 address bytes (EVM, Tron) or 32 key bytes (Solana); `None` for another
    /// number of bytes and for the zero account, which is nobody's.
    pub fn from_bytes(family: Family, bytes: &[u8]) -> Option<Self> {
        let length = match family {
            Family::Evm | Family::Tron => ADDRESS_BYTES,
            Family::Solana => SOLANA_BYTES,
        };
        if bytes.len() != length || is_zero(bytes) {
            return None;
        }
        let text = match family {
            Family::Evm => format!("0x{}", hex::encode(bytes)),
            Family::Solana => bs58::encode(bytes).into_string(),
            Family::Tron => {
                let prefixed: Vec<u8> = [TRON_ADDRESS_PREFIX].iter().chain(bytes).copied().collect();
                bs58::encode(prefixed).with_check().into_string()
            }
        };
        Some(Self { family, text })
    }

    /// The account of a text that was checked.
    fn normalised(family: Family, text: &str) -> Self {
        let text = match family {
            Family::Evm => text.to_ascii_lowercase(),
            Family::Solana | Family::Tron => text.to_owned(),
        };
        Self { family, text }
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
        check_text(text)?;
        let bytes = bs58::decode(text).into_vec().map_err(|_| Error::Account)?;
        let family = match bytes.len() {
            TRON_BYTES => {
                check_tron(&bytes)?;
                Family::Tron
            }
            SOLANA_BYTES => {
                check_solana(&bytes)?;
                Family::Solana
            }
            _ => return Err(Error::Account),
        };
        Ok(Self::normalised(family, text))
    }
}

/// The EIP-55 checksummed form of a lower-case EVM address with `0x`.
fn eip55(lower: &str) -> String {
    let digits = lower.strip_prefix("0x").unwrap_or(lower);
    let hash = Keccak256::digest(digits.as_bytes());
    let cased = digits.chars().enumerate().map(|(i, c)| {
        let nibble = hash[i / 2] >> (if i % 2 == 0 { 4 } else { 0 }) & 0xf;
        if nibble >= 8 { c.to_ascii_uppercase() } else { c }
    });
    format!("0x{}", cased.collect::<String>())
}

/// What holds of every family's text, so that nothing long is decoded: Base58 takes the square of its length.
fn check_text(text: &str) -> Result<(), Error> {
    if !(1..=ACCOUNT_CHARS_MAX).contains(&text.chars().count()) {
        return Err(Error::AccountLength);
    }
    if text.chars().any(char::is_whitespace) {
        return Err(Error::AccountWhitespace);
    }
    Ok(())
}

fn check_evm(text: &str) -> Result<(), Error> {
    let digits = text.strip_prefix("0x").ok_or(Error::EvmAccount)?;
    if digits.len() != 2 * ADDRESS_BYTES || !digits.bytes().all(|c| c.is_ascii_hexdigit()) {
        return Err(Error::EvmAccount);
    }
    let mixed = digits.bytes().any(|c| c.is_ascii_uppercase()) && digits.bytes().any(|c| c.is_ascii_lowercase());
    if mixed && eip55(&text.to_ascii_lowercase()) != text {
        return Err(Error::Eip55);
    }
    if digits.bytes().all(|c| c == b'0') {
        return Err(Error::ZeroAccount);
    }
    Ok(())
}

/// `bytes` are those of the text.
fn check_solana(bytes: &[u8]) -> Result<(), Error> {
    if bytes.len() != SOLANA_BYTES {
        return Err(Error::SolanaAccount);
    }
    if is_zero(bytes) { Err(Error::ZeroAccount) } else { Ok(()) }
}

/// `bytes` are those of the text.
fn check_tron(bytes: &[u8]) -> Result<(), Error> {
    if bytes.len() != TRON_BYTES || bytes[0] != TRON_ADDRESS_PREFIX {
        return Err(Error::TronAccount);
    }
    let (address, checksum) = bytes.split_at(1 + ADDRESS_BYTES);
    if Sha256::digest(Sha256::digest(address))[..4] != *checksum {
        return Err(Error::TronAccount);
    }
    if is_zero(&address[1..]) { Err(Error::ZeroAccount) } else { Ok(()) }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

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
