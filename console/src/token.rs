//! Tokens of operators: 256 bits of the system's randomness behind a prefix by which scanners for leaked secrets know one.

use data_encoding::BASE64URL_NOPAD;
use rand::{RngCore, rngs::OsRng};
use sha2::{Digest as _, Sha256};

/// What every token begins with.
pub const PREFIX: &str = "gwc_";
const BYTES: usize = 32;

/// The SHA-256 of a token, which is all that is kept of one. A token is random, so its plain hash tells nothing of it.
pub type Digest = [u8; 32];

/// A new token.
pub fn random() -> String {
    let mut bytes = [0; BYTES];
    OsRng.fill_bytes(&mut bytes);
    format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes))
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
        assert_eq!((random.len(), BASE64URL_NOPAD.decode(random.as_bytes()).unwrap().len()), (43, BYTES));
    }
}
