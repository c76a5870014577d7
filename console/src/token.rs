//! Tokens of operators: 256 bits of the system's randomness behind a prefix by which scanners for leaked secrets know one.

use data_encoding::BASE64URL_NOPAD;
use rand::{RngCore, rngs::OsRng};
use sha2::{Digest as _, Sha256};

/// What every token begins with.
pub const PREFIX: &str = "gwc_";
const BYTES: usize = 32;
/// What stands behind the prefix: base64url of the bytes.
const CHARS: usize = 43;

/// The SHA-256 of a token, which is all that is kept of one. A token is random, so its plain hash tells nothing of it.
pub type Digest = [u8; 32];

/// A new token.
pub fn random() -> String {
    let mut bytes = [0; BYTES];
    OsRng.fill_bytes(&mut bytes);
    format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes))
}

/// Whether it can be a token that [`random`] made. Anything else would be a password, of which a plain hash tells a
/// lot.
pub(crate) fn is_shaped(shown: &str) -> bool {
    let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    shown.strip_prefix(PREFIX).is_some_and(|random| random.len() == CHARS && random.bytes().all(is_base64url))
}

/// The digest of a token, or of whatever is shown as one.
pub fn digest(token: &str) -> Digest {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_like_no_other_and_known_by_its_prefix() {
        let (one, other) = (random(), random());
        assert!(one != other && digest(&one) != digest(&other) && digest(&one) == digest(&one));
        let random = one.strip_prefix(PREFIX).unwrap();
        assert_eq!((random.len(), BASE64URL_NOPAD.decode(random.as_bytes()).unwrap().len()), (CHARS, BYTES));
        assert!(is_shaped(&one) && is_shaped(&other));
        for wrong in
            [random, &one[..46], &format!("{one}A"), &one.replacen('_', "-", 1), &format!("gwc_{}", "é".repeat(43))]
        {
            assert!(!is_shaped(wrong), "{wrong}");
        }
    }
}
