//! The one form in which the program takes an instruction of the Ed25519 precompile.
//!
//! The precompile reads key, signature and message from wherever its offsets point, in any instruction of the
//! transaction. A program that looked at fixed places without checking the offsets would judge bytes that were not
//! signed. So all 16 bytes of the header must be [`HEADER`]: one signature, everything in this very instruction, at
//! these places.

use crate::{GatewayError, Hash, Key};

/// Where the public key begins.
pub const KEY_AT: usize = 16;
/// Where the signature begins.
pub const SIGNATURE_AT: usize = 48;
/// Where the message, a digest of 32 bytes, begins.
pub const MESSAGE_AT: usize = 112;
/// Length of the instruction's data.
pub const SIZE: usize = 144;

/// One signature, padding, and seven `u16`: signature offset and instruction, key offset and instruction, message
/// offset, size and instruction. The instruction `0xffff` is the one that the header is in.
pub const HEADER: [u8; 16] = {
    let fields: [u16; 7] = [SIGNATURE_AT as u16, u16::MAX, KEY_AT as u16, u16::MAX, MESSAGE_AT as u16, 32, u16::MAX];
    let mut header = [0; 16];
    header[0] = 1;
    let mut at = 0;
    while at < fields.len() {
        let bytes = fields[at].to_le_bytes();
        header[2 + 2 * at] = bytes[0];
        header[3 + 2 * at] = bytes[1];
        at += 1;
    }
    header
};

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
