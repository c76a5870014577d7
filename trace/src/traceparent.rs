//! Span contexts: the trace and span that work belongs to, and their text in `traceparent` (W3C Trace Context, section 3.2).

use std::fmt;

use events::Hash32;

/// Keeps trace ids apart from every other hash of an id.
const DOMAIN: &str = "gw:trace:v1";
/// Length of a header of version 00, in bytes.
const LENGTH: usize = 55;
/// Longest header of a later version that is read, in bytes.
const LENGTH_MAX: usize = 128;

/// A span that others may follow: its trace, its own id, and whether it is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace; not zero.
    pub trace_id: [u8; 16],
    /// The span; not zero.
    pub span_id: [u8; 8],
    /// Whether whoever made the span exports it. Only said: everybody decides for itself, by the trace id.
    pub sampled: bool,
}

impl TraceParent {
    /// The root span of a payment or batch, by its id: the trace id is the first 16 bytes of SHA-256 over `gw:trace:v1` and the
    /// id, the span id are the next 8 (ADR 135).
    pub fn root_of(subject: &str) -> Self {
        let hash = Hash32::sha256([DOMAIN.as_bytes(), subject.as_bytes()].concat());
        let (mut trace_id, mut span_id) = ([0; 16], [0; 8]);
        trace_id.copy_from_slice(&hash.0[..16]);
        span_id.copy_from_slice(&hash.0[16..24]);
        Self { trace_id, span_id, sampled: true }
    }

    /// Reads a header as the standard has it, in lower case and nothing around it. Of a later version what version 00 knows is
    /// taken, up to 128 bytes. `None` for everything else.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if !(LENGTH..=LENGTH_MAX).contains(&bytes.len()) {
            return None;
        }
        let (known, rest) = bytes.split_at(LENGTH);
        let is_separated = [2, 35, 52].iter().all(|at| known[*at] == b'-');
        let [version] = digits(&known[..2])?;
        let goes_on = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.first().is_none_or(|next| *next == b'-'),
        };
        let (trace_id, span_id) = (digits::<16>(&known[3..35])?, digits::<8>(&known[36..52])?);
        let [flags] = digits(&known[53..])?;
        let is_valid = is_separated && goes_on && trace_id != [0; 16] && span_id != [0; 8];
        is_valid.then_some(Self { trace_id, span_id, sampled: flags & 1 == 1 })
    }

    /// Reads the header where it stands exactly once among `values`, as the standard requires.
    pub fn parse_only<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut values = values.into_iter();
        let only = values.next()?;
        if values.next().is_some() { None } else { Self::parse(only) }
    }
}

/// Lower-case hex.
fn digits<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let is_lower = text.iter().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    (is_lower && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(bytes)
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace_id, span_id) = (hex::encode(self.trace_id), hex::encode(self.span_id));
        write!(f, "00-{trace_id}-{span_id}-{:02x}", u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_the_standard_shows_is_read_and_written_back() {
        let read = TraceParent::parse(GOOD).unwrap();
        assert_eq!((read.to_string().as_str(), read.sampled), (GOOD, true));
        assert_eq!(hex::encode(read.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
        let unsampled = TraceParent::parse(&GOOD.replace("-01", "-fe")).unwrap();
        assert!(!unsampled.sampled, "only the lowest bit says so");
        // What a later version adds is passed over.
        for later in [format!("01{}", &GOOD[2..]), format!("fe{}-what-comes", &GOOD[2..]), format!("01{}-", &GOOD[2..])]
        {
            assert_eq!(TraceParent::parse(&later), Some(read), "{later}");
        }
    }

    #[test]
    fn whatever_is_malformed_is_nothing() {
        let upper = GOOD.to_uppercase();
        let long = format!("01{}-{}", &GOOD[2..], "x".repeat(LENGTH_MAX));
        for bad in [
            "",
            "00",
            "-",
            &upper,
            &long,
            &GOOD[1..],
            &GOOD[..54],
            &format!("{GOOD}-"),
            &format!("{GOOD}0"),
            &format!(" {GOOD}"),
            &format!("{GOOD}\n"),
            &format!("ff{}", &GOOD[2..]),
            &format!("01{}x", &GOOD[2..]),
            &GOOD.replace('-', "_"),
            &GOOD.replacen("4b", "4g", 1),
            &GOOD.replacen("4b", "+b", 1),
            &GOOD.replacen("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32), 1),
            &GOOD.replacen("00f067aa0ba902b7", &"0".repeat(16), 1),
            &GOOD.replacen("4bf9", "4b-9", 1),
            &GOOD.replacen("4bf9", "é9", 1),
            "00-é4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "💣💣💣💣💣💣💣💣💣💣💣💣💣💣",
        ] {
            assert_eq!(TraceParent::parse(bad), None, "{bad:?}");
        }
        assert!(TraceParent::parse_only([GOOD]).is_some());
        assert_eq!(TraceParent::parse_only([GOOD, GOOD]), None, "said twice");
        assert_eq!(TraceParent::parse_only([]), None);
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_read_is_as_it_was_written(text in ".{0,140}", cut in 0usize..60, put in any::<char>()) {
            let _ = TraceParent::parse(&text);
            let mut changed: Vec<char> = GOOD.chars().collect();
            if let Some(at) = changed.get_mut(cut) {
                *at = put;
            }
            let changed: String = changed.into_iter().collect();
            if let Some(read) = TraceParent::parse(&changed) {
                prop_assert!(read.trace_id != [0; 16] && read.span_id != [0; 8]);
                prop_assert_eq!(&read.to_string()[3..52], &changed[3..52]);
            }
        }
    }

    #[test]
    fn the_root_follows_from_the_id_alone() {
        let root = TraceParent::root_of("pay_a");
        assert_eq!(root, TraceParent::root_of("pay_a"));
        assert_ne!(root.trace_id, TraceParent::root_of("pay_b").trace_id);
        // A vector, so that every release and every program finds the same trace.
        let hash = Hash32::sha256(b"gw:trace:v1pay_a");
        assert_eq!(root.to_string(), format!("00-{}-{}-01", hex::encode(&hash.0[..16]), hex::encode(&hash.0[16..24])));
    }
}
