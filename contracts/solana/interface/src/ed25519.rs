//! The one form in which the program takes an instruction of the Ed25519 precompile.
//!
//! The precompile reads key, signature and message from wherever its offsets point, in any instruction of the
//! transaction. A program that looked at fixed places without checking the offsets would judge bytes that were not
//! signed. So all 16 bytes of the header must be [`HEADER`]: one signature, everything in this very instruction, at
//! these places.
//!
//! A verifier set signs in the same form with k signatures over one message: the header counts k and has k times the
//! offsets, then come k pairs of key and signature in order of the keys, and the message once. For k = 1 these are the
//! same bytes.

use crate::{GatewayError, Hash, Key, verifier_set::VerifierSet};

/// Where the public key begins.
pub const KEY_AT: usize = 16;
/// Where the signature begins.
pub const SIGNATURE_AT: usize = 48;
/// Where the message, a digest of 32 bytes, begins.
pub const MESSAGE_AT: usize = 112;
/// Length of the instruction's data.
pub const SIZE: usize = 144;

/// Bytes of the number of signatures and the padding behind it.
const COUNT_SIZE: usize = 2;
/// Bytes of a signature's seven offsets.
const OFFSETS_SIZE: usize = 14;
/// Bytes of a key and its signature.
const PAIR_SIZE: usize = 96;

/// One signature, padding, and its offsets.
pub const HEADER: [u8; KEY_AT] = {
    let mut header = [0; KEY_AT];
    header[0] = 1;
    let offsets = offsets(0, 1);
    let mut at = 0;
    while at < OFFSETS_SIZE {
        header[COUNT_SIZE + at] = offsets[at];
        at += 1;
    }
    header
};

/// Where the first of `count` keys begins.
pub(crate) const fn keys_at(count: usize) -> usize {
    COUNT_SIZE + OFFSETS_SIZE * count
}

/// Where the message behind `count` keys with their signatures begins.
pub(crate) const fn message_at(count: usize) -> usize {
    keys_at(count) + PAIR_SIZE * count
}

/// Seven `u16`: signature offset and instruction, key offset and instruction, message offset, size and instruction, of the
/// signature `index` of `count`. The instruction `0xffff` is the one that the header is in.
pub(crate) const fn offsets(index: usize, count: usize) -> [u8; OFFSETS_SIZE] {
    let key_at = keys_at(count) + PAIR_SIZE * index;
    let fields = [key_at + 32, 0xffff, key_at, 0xffff, message_at(count), 32, 0xffff];
    let mut bytes = [0; OFFSETS_SIZE];
    let mut at = 0;
    while at < fields.len() {
        let field = (fields[at] as u16).to_le_bytes();
        bytes[2 * at] = field[0];
        bytes[2 * at + 1] = field[1];
        at += 1;
    }
    bytes
}

/// Data of the precompile's instruction for one signature over a digest.
pub fn data(key: &Key, signature: &[u8; 64], digest: &Hash) -> [u8; SIZE] {
    let mut data = [0; SIZE];
    data[..KEY_AT].copy_from_slice(&HEADER);
    data[KEY_AT..SIGNATURE_AT].copy_from_slice(key);
    data[SIGNATURE_AT..MESSAGE_AT].copy_from_slice(signature);
    data[MESSAGE_AT..].copy_from_slice(digest);
    data
}

/// Whether an instruction of the precompile that succeeded proves that `key` signed `digest`.
///
/// # Errors
/// [`GatewayError::SignatureFormInvalid`] when it has not the one form, [`GatewayError::SignerMismatch`] when it is
/// another key's and [`GatewayError::SignedMessageMismatch`] when it is over something else.
pub fn check(data: &[u8], key: &Key, digest: &Hash) -> Result<(), GatewayError> {
    if data.len() != SIZE || data[..KEY_AT] != HEADER {
        return Err(GatewayError::SignatureFormInvalid);
    }
    if data[KEY_AT..SIGNATURE_AT] != *key {
        return Err(GatewayError::SignerMismatch);
    }
    if data[MESSAGE_AT..] != *digest {
        return Err(GatewayError::SignedMessageMismatch);
    }
    Ok(())
}

/// Whether an instruction of the precompile that succeeded proves that as many members of `set` as its threshold asks for
/// signed `digest`, each once.
///
/// # Errors
/// [`GatewayError::SignatureFormInvalid`] when it has not the one form for as many signatures,
/// [`GatewayError::SignerMismatch`] when one is no member's, or is not behind the member before it, and
/// [`GatewayError::SignedMessageMismatch`] when they are over something else.
pub fn check_set(data: &[u8], set: &VerifierSet, digest: &Hash) -> Result<(), GatewayError> {
    let count = usize::from(set.threshold());
    let (keys_at, message_at) = (keys_at(count), message_at(count));
    if data.len() != message_at + digest.len() || data[..COUNT_SIZE] != [set.threshold(), 0] {
        return Err(GatewayError::SignatureFormInvalid);
    }
    let mut found = data[COUNT_SIZE..keys_at].chunks_exact(OFFSETS_SIZE).enumerate();
    if !found.all(|(index, found)| *found == offsets(index, count)) {
        return Err(GatewayError::SignatureFormInvalid);
    }
    // Members ascend, and the search goes on behind the one that was found: so no key counts twice.
    let mut members = set.members().iter();
    let mut keys = data[keys_at..message_at].chunks_exact(PAIR_SIZE);
    if !keys.all(|pair| members.any(|member| pair[..32] == *member)) {
        return Err(GatewayError::SignerMismatch);
    }
    if data[message_at..] != *digest {
        return Err(GatewayError::SignedMessageMismatch);
    }
    Ok(())
}
