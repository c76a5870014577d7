//! Verifier sets: n keys of which k together release or cancel, and the commitment by which an escrow knows them.
//!
//! The escrow's `releaser` is then the SHA-256 of threshold and members, which nobody has a key for. Nothing of the set is
//! stored: who brings a release brings the set along, and the program hashes it.

use crate::{GatewayError, Key};

/// Most members of a set.
pub const MEMBERS_MAX: usize = 16;
/// First bytes of what is hashed for a set's id.
pub const DOMAIN: &[u8] = b"gw-verifier-set";
/// Version of what is hashed for a set's id, behind [`DOMAIN`].
pub const VERSION: u8 = 1;

/// Keys of which a threshold has to sign: 1 to [`MEMBERS_MAX`], strictly ascending as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifierSet<'a> {
    threshold: u8,
    members: &'a [Key],
}

impl<'a> VerifierSet<'a> {
    /// The set of `members` of which `threshold` have to sign.
    ///
    /// # Errors
    /// [`GatewayError::VerifierSetInvalid`] when the threshold asks for nobody or for more than there are, when there are more
    /// than can be, or when they are not strictly ascending.
    pub fn new(threshold: u8, members: &'a [Key]) -> Result<Self, GatewayError> {
        let is_reachable = threshold > 0 && usize::from(threshold) <= members.len();
        if !is_reachable || members.len() > MEMBERS_MAX || !members.is_sorted_by(|one, next| one < next) {
            return Err(GatewayError::VerifierSetInvalid);
        }
        Ok(Self { threshold, members })
    }

    /// Reads threshold, number of members and members, and nothing behind them.
    ///
    /// # Errors
    /// [`GatewayError::VerifierSetInvalid`] for another length, and as [`Self::new`].
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, GatewayError> {
        let [threshold, count, members @ ..] = bytes else { return Err(GatewayError::VerifierSetInvalid) };
        let (members, rest) = members.as_chunks();
        if !rest.is_empty() || members.len() != usize::from(*count) {
            return Err(GatewayError::VerifierSetInvalid);
        }
        Self::new(*threshold, members)
    }

    /// How many members have to sign.
    pub fn threshold(&self) -> u8 {
        self.threshold
    }

    /// The members, strictly ascending.
    pub fn members(&self) -> &'a [Key] {
        self.members
    }

    /// Threshold and number of members.
    pub fn head(&self) -> [u8; 2] {
        // Not more than MEMBERS_MAX, which fits.
        [self.threshold, self.members.len() as u8]
    }

    /// What is hashed for the id, in order; `head` is [`Self::head`].
    pub fn preimage<'b>(&'b self, head: &'b [u8; 2]) -> [&'b [u8]; 4] {
        [DOMAIN, &[VERSION], head, self.members.as_flattened()]
    }
}
