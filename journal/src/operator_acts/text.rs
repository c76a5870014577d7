//! Texts of acts: what a name may be, and how a stored text is shown.

use super::{Invalid, NAME_CHARS_MAX, TEXT_CHARS_MAX};

/// Characters that are not seen and change how what is around them is: of Unicode, bidirectional controls, joiners,
/// separators of lines and paragraphs, and marks of width zero.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Whether a character moves the cursor of whoever reads it, or hides something. Line breaks and tabs do too.
pub fn is_unprintable(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

/// Whether `text` may name somebody.
pub(super) fn name(field: &'static str, text: &str) -> Result<(), Invalid> {
    if text.is_empty() || text.chars().count() > NAME_CHARS_MAX {
        return Err(Invalid::new(field, format!("must have 1 to {NAME_CHARS_MAX} characters")));
    }
    if text.trim() != text {
        return Err(Invalid::new(field, "must not begin or end with a space"));
    }
    if text.chars().any(is_unprintable) {
        return Err(Invalid::new(field, "must have no control and no invisible characters"));
    }
    Ok(())
}

/// A name out of a text that may be none, such as what the environment says: what a name may not have is replaced or
/// cut off.
pub fn as_name(text: &str) -> String {
    let seen = text.chars().map(|c| if is_unprintable(c) { '?' } else { c });
    let name: String = seen.take(NAME_CHARS_MAX).collect();
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

/// Whether `text` has at most `max` characters.
pub(super) fn words(field: &'static str, text: &str, max: usize) -> Result<(), Invalid> {
    if text.chars().count() > max {
        return Err(Invalid::new(field, format!("must have at most {max} characters")));
    }
    Ok(())
}

pub(super) fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// A stored text without what would move the cursor of whoever reads it, or hide a part of it: such characters are
/// written as their numbers. Line breaks and tabs stay.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unprintable(c) && !matches!(c, '\n' | '\t') {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_environment_says_becomes_a_name() {
        let long = format!(" {}", "é ".repeat(NAME_CHARS_MAX));
        for (text, expected) in
            [("alice@desk", "alice@desk"), ("a\u{1b}[2J\n@x", "a?[2J?@x"), (" \t ", "?"), ("", "unknown")]
        {
            assert_eq!(as_name(text), expected);
        }
        for text in ["", "  ", &long, "\u{202e}"] {
            name("by", &as_name(text)).unwrap();
        }
    }

    #[test]
    fn what_is_shown_moves_no_cursor_and_hides_nothing() {
        assert_eq!(printable("a\tb\nc\u{1b}[2J\r\u{202e}é"), "a\tb\nc\\u{1b}[2J\\u{d}\\u{202e}é");
    }
}
