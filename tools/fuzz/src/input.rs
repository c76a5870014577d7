//! What is made of the bytes of an input.

use events::Family;

/// The bytes as text; targets of texts pass over what is none, as their callers do.
pub fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// The first byte, which says what the rest is tried as.
pub fn choice(bytes: &[u8]) -> Option<(u8, &[u8])> {
    bytes.split_first().map(|(first, rest)| (*first, rest))
}

/// The first line, which says what the rest is tried as where inputs are texts.
pub fn head(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((text(&bytes[..end])?, &bytes[end + 1..]))
}

/// All families.
pub const FAMILIES: [Family; 3] = [Family::Evm, Family::Solana, Family::Tron];

/// A reader that takes parts off the front of the bytes, and zeros when there are none left.
pub struct Parts<'a>(pub &'a [u8]);

impl<'a> Parts<'a> {
    /// The next bytes, as many as fit.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let (taken, rest) = self.0.split_at(N.min(self.0.len()));
        array[..taken.len()].copy_from_slice(taken);
        self.0 = rest;
        array
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// The next eight bytes as a number.
    pub fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// As many bytes as the next byte says, as far as there are any.
    pub fn counted(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }
}
