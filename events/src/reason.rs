//! Reason codes: what settlers, selectors and gateways say in SCREAMING_SNAKE_CASE of why something does not come about.

/// Longest reason code, in characters.
const REASON_CHARS_MAX: usize = 128;

/// Whether `text` is a reason code: a capital, then capitals, digits and underscores, at most 128 in all. Text of any other
/// form is never relayed (spec 2.11).
pub fn is_reason(text: &str) -> bool {
    text.len() <= REASON_CHARS_MAX
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_code_of_at_most_128_characters() {
        for code in ["A", "INSUFFICIENT_LIQUIDITY", "E_404", &"A".repeat(128)] {
            assert!(is_reason(code), "{code}");
        }
        for text in ["", "_A", "4", "a", "NO MONEY", "NO-MONEY", "Ä", "<script>", &"A".repeat(129)] {
            assert!(!is_reason(text), "{text}");
        }
    }
}
