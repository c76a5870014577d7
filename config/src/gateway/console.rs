//! `[console]`: the operators' console, and who may use it.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use serde::Deserialize;

use crate::{
    Error,
    rules::{invalid, require},
};

const OPERATORS_LIMIT: usize = 100;
const NAME_CHARS_MAX: usize = 64;
const DIGEST_BYTES: usize = 32;

/// `[console]`: a listener for operators. Without an address there is none, and it costs nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConsoleConfig {
    /// Address of the console.
    pub listen: Option<SocketAddr>,
    /// Who may use it.
    pub operators: Vec<ConsoleOperator>,
}

/// Somebody who may use the console.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsoleOperator {
    /// By which name its acts are recorded.
    pub name: String,
    /// SHA-256 of its token, 64 hex digits. The token itself is kept nowhere.
    pub token_sha256: String,
    /// Whether it may act; it may look in any case.
    #[serde(default)]
    pub acts: bool,
}

impl ConsoleOperator {
    /// The SHA-256 of its token; `None` where that is not what is configured.
    pub fn token_digest(&self) -> Option<[u8; DIGEST_BYTES]> {
        hex::decode(&self.token_sha256).ok()?.try_into().ok()
    }
}

/// Whether `name` may be an operator's: it stands in records, in logs and on a page, so nothing may be in it that shows as
/// something else than it is.
///
/// # Errors
/// The rule.
pub fn check_operator_name(name: &str) -> Result<(), &'static str> {
    let legal = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '.' | '-' | '_' | '@' | '+');
    let fits = !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX && name.chars().all(legal);
    let rule = "must be 1 to 64 letters, digits, spaces and . - _ @ +, without spaces at its ends";
    if fits && name.trim() == name { Ok(()) } else { Err(rule) }
}

impl ConsoleConfig {
    /// The address where it is not of this machine alone: there a token is heard by whoever hears the network.
    pub fn beyond_loopback(&self) -> Option<SocketAddr> {
        let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
        self.listen.filter(|listen| !is_loopback(listen.ip()))
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let count = self.operators.len();
        let rule = "must name at least one operator where console.listen is set; `gw console token` makes a token";
        require(self.listen.is_none() || count > 0, "console.operators", rule)?;
        require(count <= OPERATORS_LIMIT, "console.operators", "must be at most 100")?;
        let (mut names, mut tokens) = (BTreeSet::new(), BTreeSet::new());
        for (i, operator) in self.operators.iter().enumerate() {
            let key = |name: &str| format!("console.operators[{i}].{name}");
            check_operator_name(&operator.name).map_err(|rule| invalid(key("name"), rule))?;
            let rule = "must be another name than those before it, small and capital letters alike";
            require(names.insert(operator.name.to_lowercase()), &key("name"), rule)?;
            let rule = "must be 64 hex digits, the SHA-256 of a token that `gw console token` made";
            let digest = operator.token_digest().ok_or_else(|| invalid(key("token_sha256"), rule))?;
            require(tokens.insert(digest), &key("token_sha256"), "must be that of another token than those before it")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(name: &str, token: u8) -> ConsoleOperator {
        ConsoleOperator { name: name.to_owned(), token_sha256: hex::encode([token; 32]), acts: false }
    }

    fn console(operators: &[ConsoleOperator]) -> ConsoleConfig {
        ConsoleConfig { listen: Some(([127, 0, 0, 1], 8099).into()), operators: operators.to_vec() }
    }

    #[test]
    fn there_is_none_unless_an_operator_wants_one_and_says_for_whom() {
        let config: ConsoleConfig = toml::from_str("").unwrap();
        config.check().unwrap();
        assert_eq!((config.listen, config.operators.len()), (None, 0));
        let text = format!(
            "listen = \"127.0.0.1:8099\"\n[[operators]]\nname = \"ana\"\ntoken_sha256 = \"{}\"",
            "0A".repeat(32)
        );
        let config: ConsoleConfig = toml::from_str(&text).unwrap();
        config.check().unwrap();
        assert!(!config.operators[0].acts);
        assert_eq!(config.operators[0].token_digest(), Some([10; 32]));
        let error = console(&[]).check().unwrap_err().to_string();
        assert!(error.starts_with("console.operators: ") && error.contains("gw console token"), "{error}");
        assert!(toml::from_str::<ConsoleConfig>("token = \"gwc_x\"").is_err());
    }

    #[test]
    fn names_and_tokens_are_each_of_one() {
        let key = |operators: &[ConsoleOperator]| {
            let error = console(operators).check().unwrap_err().to_string();
            error.split(": ").next().unwrap().to_owned()
        };
        assert!(console(&[operator("ana", 1), operator("Zoë K. (x)".split(" (").next().unwrap(), 2)]).check().is_ok());
        assert_eq!(key(&[operator("ana", 1), operator("Ana", 2)]), "console.operators[1].name");
        assert_eq!(key(&[operator("ana", 1), operator("bob", 1)]), "console.operators[1].token_sha256");
        for name in ["", " ana", "ana ", "a\nb", "a\u{202e}b", "a\u{200b}b", "<b>", &"a".repeat(65)] {
            assert_eq!(key(&[operator(name, 1)]), "console.operators[0].name", "{name:?}");
        }
        for token in ["", "0x", "gwc_secret", &"0".repeat(63), &"g".repeat(64), &format!("0x{}", "0".repeat(64))] {
            let bad = ConsoleOperator { token_sha256: token.to_owned(), ..operator("ana", 1) };
            assert_eq!(key(&[bad]), "console.operators[0].token_sha256", "{token:?}");
        }
        let many: Vec<_> = (0..=100).map(|n| operator(&format!("o{n}"), n)).collect();
        assert_eq!(key(&many), "console.operators");
    }

    #[test]
    fn what_others_can_hear_is_known() {
        let beyond = |listen: &str| {
            ConsoleConfig { listen: Some(listen.parse().unwrap()), operators: Vec::new() }.beyond_loopback().is_some()
        };
        assert!(!beyond("127.0.0.1:1") && !beyond("[::1]:1") && !beyond("[::ffff:127.0.0.1]:1"));
        assert!(beyond("0.0.0.0:1") && beyond("10.0.0.1:1") && beyond("[::]:1"));
        assert_eq!(ConsoleConfig::default().beyond_loopback(), None);
    }
}
