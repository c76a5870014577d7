//! The challenge: a text that a wallet shows and signs, after CAIP-122, which is EIP-4361 on EVM chains.
//!
//! The nonce is eight random bytes and a MAC over the text around it, so that a gateway knows a challenge which it, or
//! another one, made without keeping anything of it. What comes back is not parsed leniently: what was read is written
//! again, and has to be the same text.

use alloy::primitives::Address;
use chrono::SecondsFormat;

use events::{Account, ChainId, Did, Family, time::Timestamp};

use super::session_key::{Purpose, SessionKey};
use crate::request::fields::{account_rule, date_time};

/// Longest challenge that is read, in bytes.
const TEXT_BYTES_MAX: usize = 4_096;
/// Hex digits of what is random in a nonce, and of the MAC behind it.
const RANDOM_CHARS: usize = 16;
const MAC_BYTES: usize = 16;
/// What the signer lets happen. A session may register webhooks, and they outlive it.
const STATEMENT: &str = "Sign in to this payment gateway as the owner of your payments. This costs nothing and moves no money. It \
                         lets whoever asked for it read your payments, and be told of them for as long as they stay registered \
                         for that.";
/// What stands before the DID, where accounts have the name of their chains.
const DID_KIND: &str = "decentralized identifier";

/// Who somebody says to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claimed {
    /// An account, asked on this chain where it is a contract.
    Account {
        chain: ChainId,
        account: Account,
    },
    Did(Did),
}

impl Claimed {
    /// An account in CAIP-10's form: chain and address.
    ///
    /// # Errors
    /// The rule that the text breaks.
    pub(super) fn account(text: &str) -> Result<Self, String> {
        let form = || "must be a CAIP-10 account id, such as eip155:1:0x…".to_owned();
        let (chain, address) = text.rsplit_once(':').ok_or_else(form)?;
        let chain: ChainId = chain.parse().map_err(|_| form())?;
        let family = chain.family().ok_or_else(|| "must be on a chain of eip155, solana or tron".to_owned())?;
        let account = Account::parse(family, address).map_err(|rule| account_rule(&rule))?;
        Ok(Self::Account { chain, account })
    }

    /// How the text is signed.
    pub(super) fn signature_scheme(&self) -> &'static str {
        match self {
            Self::Account { account, .. } => match account.family() {
                Family::Evm => "eip191",
                Family::Solana => "ed25519",
                Family::Tron => "tip191",
            },
            Self::Did(_) => "did",
        }
    }

    /// The word before it, and how it is written.
    fn shown(&self) -> (&'static str, String) {
        match self {
            Self::Account { account, .. } => match account.family() {
                Family::Evm => ("Ethereum account", Address::from_slice(&account.to_bytes()).to_checksum(None)),
                Family::Solana => ("Solana account", account.to_string()),
                Family::Tron => ("Tron account", account.to_string()),
            },
            Self::Did(did) => (DID_KIND, did.to_string()),
        }
    }
}

/// A challenge without its nonce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Challenge {
    pub(super) claimed: Claimed,
    issued_at: Timestamp,
    pub(super) expires_at: Timestamp,
}

impl Challenge {
    /// One for whoever says to be `claimed`, in whole seconds.
    pub(super) fn new(claimed: Claimed, issued_at: Timestamp, expires_at: Timestamp) -> Self {
        Self { claimed, issued_at, expires_at }
    }

    /// Its text for the service at `base_url`.
    pub(super) fn issue(&self, key: &SessionKey, base_url: &str) -> String {
        self.with(key, base_url, &hex::encode(rand::random::<[u8; RANDOM_CHARS / 2]>()))
    }

    fn with(&self, key: &SessionKey, base_url: &str, random: &str) -> String {
        let mac = key.mac(Purpose::Challenge, &[&self.text(base_url, random)]);
        self.text(base_url, &format!("{random}{}", hex::encode(&mac[..MAC_BYTES])))
    }

    /// The challenge that `text` is; `None` for one that no gateway made with this key for the service at `base_url`.
    pub(super) fn read(text: &str, key: &SessionKey, base_url: &str) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let lines: Vec<&str> = text.split('\n').collect();
        let value = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let (kind, owner) = (lines.first()?.rsplit_once(" your ")?.1.strip_suffix(':')?, *lines.get(1)?);
        let namespace = match kind {
            "Ethereum account" => Some(Family::Evm.namespace()),
            "Solana account" => Some(Family::Solana.namespace()),
            "Tron account" => Some(Family::Tron.namespace()),
            DID_KIND => None,
            _ => return None,
        };
        let claimed = match namespace {
            Some(namespace) => Claimed::account(&format!("{namespace}:{}:{owner}", value("Chain ID")?)).ok()?,
            None => Claimed::Did(owner.parse().ok()?),
        };
        let (issued_at, expires_at) = (value("Issued At")?, value("Expiration Time")?);
        let challenge = Self::new(claimed, date_time(issued_at).ok()?, date_time(expires_at).ok()?);
        let nonce = value("Nonce")?;
        let (random, mac) = nonce.split_at_checked(RANDOM_CHARS)?;
        let mac = hex::decode(mac).ok().filter(|mac| mac.len() == MAC_BYTES)?;
        let is_ours = key.verifies(Purpose::Challenge, &[&challenge.text(base_url, random)], &mac);
        (is_ours && challenge.text(base_url, nonce) == text).then_some(challenge)
    }

    fn text(&self, base_url: &str, nonce: &str) -> String {
        let (kind, owner) = self.claimed.shown();
        let domain = domain(base_url);
        let chain = match &self.claimed {
            Claimed::Account { chain, .. } => format!("Chain ID: {}\n", chain.reference()),
            Claimed::Did(_) => String::new(),
        };
        let time = |at: Timestamp| at.to_rfc3339_opts(SecondsFormat::Secs, true);
        let (issued_at, expires_at) = (time(self.issued_at), time(self.expires_at));
        format!(
            "{domain} wants you to sign in with your {kind}:\n{owner}\n\n{STATEMENT}\n\nURI: {base_url}/v1/sessions\n\
             Version: 1\n{chain}Nonce: {nonce}\nIssued At: {issued_at}\nExpiration Time: {expires_at}"
        )
    }
}

/// Host and port of the service (RFC 3986's authority).
fn domain(base_url: &str) -> &str {
    let authority = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: &str = "https://pay.example";
    const ACCOUNT: &str = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn challenge(claimed: Claimed) -> Challenge {
        Challenge::new(claimed, at("2030-01-01T00:00:00Z"), at("2030-01-01T00:05:00Z"))
    }

    fn account(text: &str) -> Claimed {
        Claimed::account(text).unwrap()
    }

    #[test]
    fn a_challenge_is_the_text_of_eip_4361() {
        let key = SessionKey::new([7; 32]);
        let text = challenge(account(&format!("eip155:31337:{}", ACCOUNT.to_lowercase()))).issue(&key, SERVICE);
        let (before, after) = text.split_once("Nonce: ").unwrap();
        let (nonce, after) = after.split_once('\n').unwrap();
        assert_eq!(
            before,
            format!(
                "pay.example wants you to sign in with your Ethereum account:\n{ACCOUNT}\n\n{STATEMENT}\n\n\
                 URI: https://pay.example/v1/sessions\nVersion: 1\nChain ID: 31337\n"
            )
        );
        assert_eq!(after, "Issued At: 2030-01-01T00:00:00Z\nExpiration Time: 2030-01-01T00:05:00Z");
        assert!(nonce.len() == 48 && nonce.bytes().all(|c| c.is_ascii_alphanumeric()), "{nonce}");
    }

    #[test]
    fn what_was_made_is_read_and_nothing_else() {
        let key = SessionKey::new([7; 32]);
        for claimed in [
            account(&format!("eip155:1:{ACCOUNT}")),
            account("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"),
            account("tron:0x2b6653dc:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"),
            Claimed::Did("did:web:bank.example:desk".parse().unwrap()),
        ] {
            let challenge = challenge(claimed);
            let text = challenge.issue(&key, SERVICE);
            assert_eq!(Challenge::read(&text, &key, SERVICE), Some(challenge.clone()), "{text}");
            assert_ne!(text, challenge.issue(&key, SERVICE), "two nonces are the same");
            // By another key, and for another service.
            assert_eq!(Challenge::read(&text, &SessionKey::new([8; 32]), SERVICE), None);
            for other in
                ["https://evil.example", "http://pay.example", "https://pay.example:8443", "https://pay.example/x"]
            {
                assert_eq!(Challenge::read(&text, &key, other), None, "{other}");
                let moved = text.replace("pay.example", domain(other));
                assert_eq!(Challenge::read(&moved, &key, SERVICE).is_some(), moved == text, "{other}");
            }
            // Whatever byte is changed, left out or put in.
            for i in 0..text.len() {
                let mut changed = text.clone().into_bytes();
                changed[i] ^= 1;
                let cut = [&text.as_bytes()[..i], &text.as_bytes()[i + 1..]].concat();
                let longer = [&text.as_bytes()[..i], b" ", &text.as_bytes()[i..]].concat();
                for bad in [changed, cut, longer] {
                    let Ok(bad) = String::from_utf8(bad) else { continue };
                    assert_eq!(Challenge::read(&bad, &key, SERVICE), None, "{bad}");
                }
            }
            for bad in
                [format!("{text}\n"), format!("{text}\nResources:\n- x"), text.replace('\n', "\r\n"), String::new()]
            {
                assert_eq!(Challenge::read(&bad, &key, SERVICE), None, "{bad}");
            }
        }
    }

    #[test]
    fn another_chain_is_another_challenge() {
        let key = SessionKey::new([7; 32]);
        let text = challenge(account(&format!("eip155:1:{ACCOUNT}"))).issue(&key, SERVICE);
        assert_eq!(Challenge::read(&text.replace("Chain ID: 1\n", "Chain ID: 10\n"), &key, SERVICE), None);
        let lower = text.replace(ACCOUNT, &ACCOUNT.to_lowercase());
        assert_eq!(Challenge::read(&lower, &key, SERVICE), None, "wallets are shown the checksum");
    }

    #[test]
    fn accounts_are_named_by_their_chain() {
        for bad in [
            "",
            ACCOUNT,
            "eip155:1",
            "eip155:x:0x0",
            "bip122:x:1BvB",
            "eip155:1:0xFB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        ] {
            assert!(Claimed::account(bad).is_err(), "{bad}");
        }
        let upper = format!("0x{}", ACCOUNT[2..].to_uppercase());
        for spelling in [ACCOUNT, &ACCOUNT.to_lowercase(), &upper] {
            assert_eq!(account(&format!("eip155:01:{spelling}")), account(&format!("eip155:1:{ACCOUNT}")));
        }
    }

    #[test]
    fn the_domain_is_host_and_port() {
        for (base_url, expected) in [
            ("https://pay.example", "pay.example"),
            ("http://127.0.0.1:8080/gw", "127.0.0.1:8080"),
            ("http://[::1]:8080", "[::1]:8080"),
            ("https://user@pay.example", "pay.example"),
        ] {
            assert_eq!(domain(base_url), expected);
        }
    }
}
