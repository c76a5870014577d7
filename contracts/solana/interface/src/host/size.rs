//! What a transaction has room for.

use crate::verifier_set::MEMBERS_MAX;

/// Most bytes of a transaction that a cluster takes.
pub const TRANSACTION_BYTES_MAX: usize = 1_232;

/// Bytes of a release by a single key, signed by one account that has no part in the payment, with two instructions of the
/// compute budget and the one that creates the token account which is paid.
const RELEASE_BYTES: usize = 773;
/// Bytes of a further signature: its offsets, its key, and itself.
const SIGNATURE_BYTES: usize = 110;
/// Bytes of a member.
const MEMBER_BYTES: usize = 32;
/// Bytes of threshold and number of members.
const HEAD_BYTES: usize = 2;
/// Bytes of tag and index in the instruction, before the set.
const ATTESTED_BYTES: usize = 2;
/// From this length of an instruction's data on the length itself takes a second byte.
const LENGTH_OF_TWO_BYTES: usize = 128;

/// Whether everybody can release by `threshold` signatures of a set of `members` in one transaction, even where the receiver's
/// token account has to be created in it. A larger set must not be a releaser on Solana: its word cannot be brought.
pub const fn fits(threshold: u8, members: u8) -> bool {
    let (threshold, members) = (threshold as usize, members as usize);
    if threshold == 0 || threshold > members || members > MEMBERS_MAX {
        return false;
    }
    let set = HEAD_BYTES + MEMBER_BYTES * members;
    let length = if ATTESTED_BYTES + set < LENGTH_OF_TWO_BYTES { 0 } else { 1 };
    RELEASE_BYTES + set + length + SIGNATURE_BYTES * (threshold - 1) <= TRANSACTION_BYTES_MAX
}
