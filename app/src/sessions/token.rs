//! The bearer token: who was proven and until when, with a MAC. It says nothing that its holder does not know.

use chrono::DateTime;
use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

use events::{ChainId, Did, time::Timestamp};

use super::{
    Owner,
    session_key::{Purpose, SessionKey},
};
use crate::families;

/// What every token begins with, by which scanners for leaked secrets know one.
const PREFIX: &str = "gws1.";
/// Longest token that is looked at, in bytes.
const BYTES_MAX: usize = 2_048;

/// What a token says.
#[derive(Serialize, Deserialize)]
struct Claims {
    owner: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chain: Option<ChainId>,
    /// UNIX seconds.
    expires: i64,
}

/// A token of `owner` at the service at `base_url`.
pub(super) fn seal(key: &SessionKey, base_url: &str, owner: &Owner, expires_at: Timestamp) -> String {
    let claims = Claims { owner: owner.originator(), chain: owner.chain().cloned(), expires: expires_at.timestamp() };
    // Texts and a number have a JSON form.
    let said = BASE64URL_NOPAD.encode(&serde_json::to_vec(&claims).unwrap_or_default());
    let mac = key.mac(Purpose::Token, &[base_url, &said]);
    format!("{PREFIX}{said}.{}", BASE64URL_NOPAD.encode(&mac))
}

/// Who a token is of, and until when; `None` for one that no gateway made with this key for the service at `base_url`.
pub(super) fn open(key: &SessionKey, base_url: &str, token: &str) -> Option<(Owner, Timestamp)> {
    let (said, mac) = token.strip_prefix(PREFIX).filter(|_| token.len() <= BYTES_MAX)?.split_once('.')?;
    let mac = BASE64URL_NOPAD.decode(mac.as_bytes()).ok().filter(|mac| mac.len() == 32)?;
    if !key.verifies(Purpose::Token, &[base_url, said], &mac) {
        return None;
    }
    let Claims { owner, chain, expires } =
        serde_json::from_slice(&BASE64URL_NOPAD.decode(said.as_bytes()).ok()?).ok()?;
    let owner = match owner.parse::<Did>() {
        Ok(did) => Owner::Did(did),
        Err(_) => Owner::Account { account: families::account_of(&owner)?, chain },
    };
    Some((owner, DateTime::from_timestamp(expires, 0)?))
}

#[cfg(test)]
mod tests {
    use events::Account;

    use super::*;

    const SERVICE: &str = "https://pay.example";

    fn owners() -> [Owner; 3] {
        let account: Account = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359".parse().unwrap();
        [
            Owner::Account { account: account.clone(), chain: None },
            Owner::Account { account, chain: Some(ChainId::evm(1)) },
            Owner::Did("did:web:bank.example".parse().unwrap()),
        ]
    }

    #[test]
    fn a_token_is_read_where_it_was_made_and_as_it_was_made() {
        let (key, at): (_, Timestamp) = (SessionKey::new([7; 32]), "2030-01-01T00:15:00Z".parse().unwrap());
        for owner in owners() {
            let token = seal(&key, SERVICE, &owner, at);
            assert_eq!(open(&key, SERVICE, &token), Some((owner, at)));
            assert_eq!(open(&SessionKey::new([8; 32]), SERVICE, &token), None);
            assert_eq!(open(&key, "https://evil.example", &token), None);
            for i in 0..token.len() {
                for other in [b'A', b'B', b'.', b'=', b' '] {
                    let mut changed = token.clone().into_bytes();
                    changed[i] = other;
                    let changed = String::from_utf8(changed).unwrap();
                    assert_eq!(open(&key, SERVICE, &changed).is_some(), changed == token, "{changed}");
                }
                assert_eq!(open(&key, SERVICE, &token[..i]), None);
            }
        }
    }

    /// No text that somebody else has signed by the key makes a token.
    #[test]
    fn a_mac_of_a_challenge_is_none_of_a_token() {
        let key = SessionKey::new([7; 32]);
        let claims = r#"{"owner":"did:web:bank.example","expires":4000000000}"#;
        let said = BASE64URL_NOPAD.encode(claims.as_bytes());
        let token = |mac: &[u8]| format!("{PREFIX}{said}.{}", BASE64URL_NOPAD.encode(mac));
        let parts = [SERVICE, said.as_str()];
        assert!(open(&key, SERVICE, &token(&key.mac(Purpose::Token, &parts))).is_some());
        assert_eq!(open(&key, SERVICE, &token(&key.mac(Purpose::Challenge, &parts))), None);
        assert_eq!(open(&key, SERVICE, &token(&key.mac(Purpose::Token, &parts)[..16])), None);
        assert_eq!(open(&key, SERVICE, &token(&[])), None);
        // The parts are told apart by their lengths.
        let moved = [&SERVICE[..8], &format!("{}{said}", &SERVICE[8..])];
        assert_eq!(open(&key, SERVICE, &token(&key.mac(Purpose::Token, &moved))), None);
    }
}
