//! Artefact: the program's bytes as this version was built with them, and the parts in which they are sent.

/// The program, an ELF file (`contracts/solana/build.sh`).
pub(super) const ELF: &[u8] = include_bytes!("../../../../contracts/artifacts/solana/gateway_escrow.so");

/// Bytes of a part: as many as a transaction has room for beside its signature, its accounts and its budget.
pub(super) const CHUNK_BYTES: usize = 960;

/// A part of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Where it begins in the program.
    pub offset: usize,
    /// Its bytes.
    pub bytes: &'static [u8],
}

/// The parts, in order.
pub(super) fn chunks() -> impl Iterator<Item = Chunk> {
    ELF.chunks(CHUNK_BYTES).enumerate().map(|(index, bytes)| Chunk { offset: index * CHUNK_BYTES, bytes })
}

/// How many parts there are.
pub(super) fn chunk_count() -> usize {
    ELF.len().div_ceil(CHUNK_BYTES)
}

/// The parts that `written`, the bytes of a buffer, does not have yet.
pub(super) fn missing(written: &[u8]) -> Vec<Chunk> {
    chunks().filter(|chunk| written.get(chunk.offset..chunk.offset + chunk.bytes.len()) != Some(chunk.bytes)).collect()
}

/// What is wrong with `found`, the bytes of a program; `None` where they are this version's. The loader may have reserved more
/// room than the program takes, which it fills with zeros.
pub(super) fn difference(found: &[u8]) -> Option<String> {
    if found.len() < ELF.len() {
        return Some(format!("has {} bytes, this version's program {}", found.len(), ELF.len()));
    }
    let expected = ELF.iter().chain(std::iter::repeat(&0));
    let at = found.iter().zip(expected).position(|(found, expected)| found != expected)?;
    Some(format!("is another program than this version's: they differ from byte {at} of {} on", ELF.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_program() {
        assert!(ELF.starts_with(b"\x7fELF"));
        assert_eq!(chunks().flat_map(|chunk| chunk.bytes).copied().collect::<Vec<u8>>(), ELF);
        assert_eq!(chunks().count(), chunk_count());
    }

    #[test]
    fn only_what_differs_is_missing() {
        assert_eq!(missing(ELF), []);
        assert_eq!(missing(&vec![0; ELF.len()]).len(), chunks().filter(|c| c.bytes.iter().any(|b| *b != 0)).count());
        let mut written = ELF.to_vec();
        written[CHUNK_BYTES] ^= 1;
        assert_eq!(missing(&written), [chunks().nth(1).unwrap()]);
        assert_eq!(missing(&ELF[..ELF.len() - 1]), [chunks().last().unwrap()]);
    }

    #[test]
    fn zeros_after_the_program_are_room() {
        let roomy = [ELF, &[0; 100]].concat();
        assert_eq!((difference(ELF), difference(&roomy)), (None, None));
        let longer = [ELF, &[0, 0, 1]].concat();
        assert!(difference(&longer).unwrap().contains(&format!("from byte {} of", ELF.len() + 2)));
        let mut other = ELF.to_vec();
        other[7] ^= 1;
        assert!(difference(&other).unwrap().contains("from byte 7 of"));
        assert!(difference(&ELF[1..]).unwrap().contains("bytes"));
    }
}
