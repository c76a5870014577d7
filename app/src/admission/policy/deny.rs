//! Deny lists: accounts and originators that are refused whatever the policies say.

use std::collections::HashSet;

use events::{Account, Did, Family};

use crate::families;

/// Accounts and DIDs, normalised. An account is denied on every chain of its family: it is the same key everywhere.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DenyList {
    entries: HashSet<String>,
}

/// A line that names nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {rule}")]
pub struct BadLine {
    /// Number of the line, from 1.
    pub line: usize,
    /// The rule it breaks.
    pub rule: String,
}

impl DenyList {
    /// Reads a list: one entry a line, `#` begins a comment, empty lines mean nothing. An entry is an account
    /// (`0x…`, Base58 of Solana, `T…` of Tron), an account with its family or chain in front (`eip155:0x…`,
    /// `eip155:1:0x…`), or a DID.
    ///
    /// # Errors
    /// [`BadLine`]. One entry that means nobody may be the one that matters, so it spoils the whole list.
    pub fn parse(text: &str) -> Result<Self, BadLine> {
        let mut entries = HashSet::new();
        for (index, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
            let entry = line.split('#').next().unwrap_or_default().trim();
            if !entry.is_empty() {
                entries.insert(normalised(entry).map_err(|rule| BadLine { line: index + 1, rule })?);
            }
        }
        Ok(Self { entries })
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the account is denied.
    pub fn holds(&self, account: &Account) -> bool {
        self.entries.contains(&account.originator())
    }

    /// Whether the originator is denied: a DID, or an account in the form of [`Account::originator`]. The DID of an account
    /// (`did:pkh`) is denied with the account.
    pub fn holds_originator(&self, originator: &str) -> bool {
        let account = originator.strip_prefix("did:pkh:").and_then(|account| normalised(account).ok());
        self.entries.contains(originator) || account.is_some_and(|account| self.entries.contains(&account))
    }
}

fn normalised(entry: &str) -> Result<String, String> {
    if entry.starts_with("did:") {
        return entry.parse::<Did>().map(|did| did.to_string()).map_err(|rule| rule.to_string());
    }
    let account = |family, text| Account::parse(family, text).map(|account| account.originator());
    let Some((chain, text)) = entry.rsplit_once(':') else {
        let family = match entry {
            hex if hex.starts_with("0x") || hex.starts_with("0X") => Family::Evm,
            // Base58 of Tron has 25 bytes, of Solana 32: no text is both.
            base58 if account(Family::Tron, base58).is_ok() => Family::Tron,
            _ => Family::Solana,
        };
        let rule = |rule| match family {
            Family::Evm => format!("{rule}"),
            Family::Solana | Family::Tron => "is not an account of a chain family that is known".to_owned(),
        };
        return account(family, entry).map_err(rule);
    };
    let namespace = chain.split(':').next().unwrap_or_default();
    let family = families::all().find(|family| family.namespace() == namespace);
    account(family.ok_or("names no chain family that is known")?, text).map_err(|rule| rule.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVM: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
    const TRON: &str = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";
    const SOLANA: &str = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";

    fn account(family: Family, text: &str) -> Account {
        Account::parse(family, text).unwrap()
    }

    #[test]
    fn accounts_are_normalised_before_they_are_compared() {
        let lower = EVM.to_ascii_lowercase();
        let upper = format!("0x{}", EVM[2..].to_ascii_uppercase());
        for entry in [EVM, &lower, &upper, &format!("eip155:{EVM}"), &format!("eip155:10:{lower}")] {
            let list = DenyList::parse(&format!("\u{feff}# a list\r\n\r\n  {entry}  # why\r\n")).unwrap();
            assert!(list.holds(&account(Family::Evm, EVM)), "{entry}");
            assert!(list.holds_originator(&format!("eip155:{lower}")), "{entry}");
            assert_eq!(list.len(), 1);
        }
        for entry in [TRON, &format!("tron:{TRON}"), &format!("tron:0x2b6653dc:{TRON}")] {
            assert!(DenyList::parse(entry).unwrap().holds(&account(Family::Tron, TRON)), "{entry}");
        }
        let mainnet = format!("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:{SOLANA}");
        for entry in [SOLANA, &format!("solana:{SOLANA}"), &mainnet] {
            assert!(DenyList::parse(entry).unwrap().holds(&account(Family::Solana, SOLANA)), "{entry}");
        }
        let all = DenyList::parse(&format!("{EVM}\n{TRON}\n{SOLANA}\ndid:web:Example.com:a\n")).unwrap();
        assert_eq!(all.len(), 4);
        assert!(all.holds_originator("did:web:Example.com:a"));
        assert!(!all.holds_originator("did:web:example.com:a"));
        assert!(!all.holds(&account(Family::Evm, "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359")));
    }

    #[test]
    fn a_line_that_names_nobody_spoils_the_list() {
        for bad in [
            "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
            "0X5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
            "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beae",
            "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6u",
            "41a614f803b6fd780986a42c78ec9c7f77e6ded13c",
            "cosmos:cosmoshub-4:cosmos1abc",
            "eip155:1:",
            "did:web",
            "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed 0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359",
            "somebody",
        ] {
            let list = format!("# one\n{EVM}\n{bad}\n");
            assert_eq!(DenyList::parse(&list).unwrap_err().line, 3, "{bad}");
        }
    }

    #[test]
    fn the_did_of_an_account_is_denied_with_it() {
        let list = DenyList::parse(&format!("{EVM}\n{TRON}")).unwrap();
        let lower = EVM.to_ascii_lowercase();
        for denied in [format!("did:pkh:eip155:1:{lower}"), format!("did:pkh:tron:728126428:{TRON}")] {
            assert!(list.holds_originator(&denied), "{denied}");
        }
        for other in ["did:pkh:eip155:1:0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359", "did:pkh:x", "did:web:a.example"] {
            assert!(!list.holds_originator(other), "{other}");
        }
    }
}
