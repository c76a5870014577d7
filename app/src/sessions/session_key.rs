//! The session key: the MACs of challenges and tokens.

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;

type HmacSha256 = Hmac<Sha256>;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 32;

/// The secret that all gateways of one NATS make challenges and tokens with, and nobody else knows.
#[derive(Clone)]
pub struct SessionKey([u8; KEY_BYTES]);

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionKey").finish_non_exhaustive()
    }
}

/// What is signed with a key. No MAC of one purpose is one of another.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Challenge,
    Token,
}

impl SessionKey {
    /// The key with these bytes.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// A new one.
    pub fn random() -> Self {
        Self(rand::random())
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// HMAC-SHA256 over the purpose and the parts, each preceded by its length.
    pub(super) fn mac(&self, purpose: Purpose, parts: &[&str]) -> [u8; 32] {
        self.over(purpose, parts).finalize().into_bytes().into()
    }

    /// Whether `mac` begins the MAC over the parts, in constant time. At least 16 bytes have to be given.
    pub(super) fn verifies(&self, purpose: Purpose, parts: &[&str], mac: &[u8]) -> bool {
        mac.len() >= 16 && self.over(purpose, parts).verify_truncated_left(mac).is_ok()
    }

    fn over(&self, purpose: Purpose, parts: &[&str]) -> HmacSha256 {
        let purpose = match purpose {
            Purpose::Challenge => "gw:session-challenge:v1",
            Purpose::Token => "gw:session-token:v1",
        };
        // As HMAC itself fills up a key that is shorter than a block.
        let mut block = [0; 64];
        block[..KEY_BYTES].copy_from_slice(&self.0);
        let mut mac = HmacSha256::new(&block.into());
        for part in [purpose].iter().chain(parts) {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac
    }
}
