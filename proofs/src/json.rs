//! JSON documents that may be signed.
//!
//! What is hashed must be read alike by everyone who reads it, whatever library they use. So [`Document::parse`] refuses
//! everything on which JSON, JSON-LD and RDF tools are known to differ: repeated keys, lone surrogates, numbers (one
//! library's `1.0` is another's `1`), and the characters that canonical N-Quads escape in RDFC-1.0 and do not in
//! URDNA2015. Line feed and carriage return are escaped in both, so these two control characters may stand in strings.

use std::fmt;

use json_ld::syntax::{self, Parse};
use serde_json::{Map, Value};

/// Largest document, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 64 * 1024;
/// Deepest nesting of objects and arrays.
pub const DEPTH_MAX: usize = 24;

/// A JSON object in which everything may be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document(Map<String, Value>);

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(&self.0).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

/// Why a text is not a document that can be signed, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {rule}", if pointer.is_empty() { "document" } else { pointer })]
pub struct Error {
    /// JSON pointer (RFC 6901) of the offending value; empty for the document as a whole.
    pub pointer: String,
    /// The rule it breaks.
    pub rule: Rule,
}

/// The rules of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Rule {
    /// At most [`DOCUMENT_BYTES_MAX`] bytes.
    #[error("is larger than {DOCUMENT_BYTES_MAX} bytes")]
    TooLarge,
    /// At most [`DEPTH_MAX`] levels.
    #[error("is nested more than {DEPTH_MAX} levels deep")]
    TooDeep,
    /// JSON (RFC 8259) and nothing after it.
    #[error("is not JSON")]
    Syntax,
    /// The outermost value is an object.
    #[error("is not a JSON object")]
    NotAnObject,
    /// No object has a key twice.
    #[error("stands twice in its object")]
    DuplicateKey,
    /// No escape makes half a surrogate pair.
    #[error("contains a lone surrogate")]
    LoneSurrogate,
    /// No U+0000 to U+001F but line feed and carriage return, no U+007F, U+FFFE, U+FFFF, in strings and keys.
    #[error("contains a control character, U+FFFE or U+FFFF")]
    ControlCharacter,
    /// Numbers are written as strings.
    #[error("is a number outside a string")]
    Number,
}

impl Error {
    fn at(pointer: &str, rule: Rule) -> Self {
        Self { pointer: pointer.to_owned(), rule }
    }
}

impl Document {
    /// Reads a document from its text.
    ///
    /// # Errors
    /// The first [`Rule`] broken, with the JSON pointer of the value; what is broken before there are values (size,
    /// depth, syntax, surrogates) has an empty pointer.
    pub fn parse(text: &str) -> Result<Self, Error> {
        parse(text, Reading::Signed).map(Self)
    }

    /// Takes members that were built and not read, under the same rules.
    ///
    /// # Errors
    /// As [`Document::parse`].
    pub fn from_members(members: Map<String, Value>) -> Result<Self, Error> {
        Self::parse(&Value::Object(members).to_string())
    }

    /// The members of the object.
    pub fn members(&self) -> &Map<String, Value> {
        &self.0
    }

    /// The member at a JSON pointer.
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        let (first, rest) = pointer.strip_prefix('/')?.split_once('/').unwrap_or((&pointer[1..], ""));
        let member = self.0.get(&first.replace("~1", "/").replace("~0", "~"))?;
        if rest.is_empty() { Some(member) } else { member.pointer(&format!("/{rest}")) }
    }

    /// The same document without the member at a JSON pointer; unchanged when there is none.
    pub fn without(&self, pointer: &str) -> Self {
        let mut document = Value::Object(self.0.clone());
        if let Some((parent, last)) = pointer.rsplit_once('/')
            && let Some(Value::Object(parent)) = document.pointer_mut(parent)
        {
            parent.remove(&last.replace("~1", "/").replace("~0", "~"));
        }
        match document {
            Value::Object(members) => Self(members),
            _ => self.clone(),
        }
    }

    /// Whether the document's `@context` is this list, in this order.
    pub fn has_context(&self, urls: &[&str]) -> bool {
        let stated = self.0.get("@context").and_then(Value::as_array);
        stated.is_some_and(|stated| stated.iter().map(Value::as_str).eq(urls.iter().copied().map(Some)))
    }

    pub(crate) fn from_checked(members: Map<String, Value>) -> Self {
        Self(members)
    }
}

/// Reads a JSON object that nobody signs, such as a DID document: by the rules of [`Document::parse`], but numbers and
/// control characters may stand in it, as it is never hashed. A number that `f64` cannot hold is read as null.
///
/// # Errors
/// As [`Document::parse`], but [`Rule::Number`] and [`Rule::ControlCharacter`].
pub fn parse_unsigned(text: &str) -> Result<Map<String, Value>, Error> {
    parse(text, Reading::Unsigned)
}

/// What a document is read for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Signed,
    Unsigned,
}

fn parse(text: &str, reading: Reading) -> Result<Map<String, Value>, Error> {
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(Error::at("", Rule::TooLarge));
    }
    if depth(text) > DEPTH_MAX {
        return Err(Error::at("", Rule::TooDeep));
    }
    let (value, _) = syntax::Value::parse_str(text).map_err(|error| {
        let rule = match error {
            syntax::parse::Error::MissingLowSurrogate(..)
            | syntax::parse::Error::InvalidLowSurrogate(..)
            | syntax::parse::Error::InvalidUnicodeCodePoint(..) => Rule::LoneSurrogate,
            _ => Rule::Syntax,
        };
        Error::at("", rule)
    })?;
    match convert(value, reading, &mut String::new())? {
        Value::Object(members) => Ok(members),
        _ => Err(Error::at("", Rule::NotAnObject)),
    }
}

/// The deepest nesting in a text, counted before anything is built from it: even freeing a deep tree recurses.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn convert(value: syntax::Value, reading: Reading, pointer: &mut String) -> Result<Value, Error> {
    let length = pointer.len();
    Ok(match value {
        syntax::Value::Null => Value::Null,
        syntax::Value::Boolean(value) => Value::Bool(value),
        syntax::Value::Number(_) if reading == Reading::Signed => return Err(Error::at(pointer, Rule::Number)),
        syntax::Value::Number(number) => serde_json::from_str(number.as_str()).unwrap_or_default(),
        syntax::Value::String(text) => {
            check_characters(&text, reading, pointer)?;
            Value::String(text.into_string())
        }
        syntax::Value::Array(items) => {
            let mut values = Vec::with_capacity(items.len());
            for (index, item) in items.into_iter().enumerate() {
                pointer.push_str(&format!("/{index}"));
                values.push(convert(item, reading, pointer)?);
                pointer.truncate(length);
            }
            Value::Array(values)
        }
        syntax::Value::Object(object) => {
            let mut members = Map::new();
            for entry in object {
                let (key, value) = entry.into_pair();
                push_token(pointer, &key);
                check_characters(&key, reading, pointer)?;
                if members.contains_key(key.as_str()) {
                    return Err(Error::at(pointer, Rule::DuplicateKey));
                }
                let value = convert(value, reading, pointer)?;
                members.insert(key.into_string(), value);
                pointer.truncate(length);
            }
            Value::Object(members)
        }
    })
}

/// Appends one reference token to a JSON pointer.
pub(crate) fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    for c in token.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
}

fn check_characters(text: &str, reading: Reading, pointer: &str) -> Result<(), Error> {
    let refused =
        |c: char| matches!(c, '\0'..='\u{1f}' | '\u{7f}' | '\u{fffe}' | '\u{ffff}') && !matches!(c, '\n' | '\r');
    if reading == Reading::Signed && text.contains(refused) {
        Err(Error::at(pointer, Rule::ControlCharacter))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> (String, Rule) {
        let error = Document::parse(text).unwrap_err();
        (error.pointer, error.rule)
    }

    #[test]
    fn what_readers_differ_on_is_refused_with_its_place() {
        let at = |pointer: &str, rule| (pointer.to_owned(), rule);
        assert_eq!(error(r#"{"a":"1","\u0061":"2"}"#), at("/a", Rule::DuplicateKey));
        assert_eq!(error(r#"{"x":[{"b/c":"1","b\/c":"2"}]}"#), at("/x/0/b~1c", Rule::DuplicateKey));
        assert_eq!(error(r#"{"a":{"b":[true,7]}}"#), at("/a/b/1", Rule::Number));
        assert_eq!(error(r#"{"a":-0.5e1}"#), at("/a", Rule::Number));
        for lone in [r"\ud800", r"\udc00", r"\ud800x", r"\ud800\ud800", r"\ud800\u0041"] {
            assert_eq!(error(&format!(r#"{{"a":"{lone}"}}"#)), at("", Rule::LoneSurrogate), "{lone}");
        }
        for control in [r"\u0000", r"\b", r"\t", r"\f", r"\u000b", r"\u001f", r"\u007f", r"\ufffe", r"\uffff"] {
            assert_eq!(error(&format!(r#"{{"a":["{control}"]}}"#)), at("/a/0", Rule::ControlCharacter), "{control}");
        }
        assert_eq!(error("{\"a\\u0009\":\"\"}"), at("/a\t", Rule::ControlCharacter));
        assert_eq!(error("{\"a\":\"\t\"}").1, Rule::Syntax);
        for broken in ["", "{", "{}x", "{} {}", r#"{"a":}"#, "{'a':1}", r#"{"a":"\x"}"#, "\u{feff}{}"] {
            assert_eq!(error(broken), at("", Rule::Syntax), "{broken}");
        }
        for other in ["[]", "\"a\"", "null", "true"] {
            assert_eq!(error(other), at("", Rule::NotAnObject), "{other}");
        }
    }

    #[test]
    fn size_and_depth_are_bounded() {
        let nested = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1));
        assert!(Document::parse(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(error(&nested(DEPTH_MAX + 1)).1, Rule::TooDeep);
        assert_eq!(error(&"[".repeat(DOCUMENT_BYTES_MAX)).1, Rule::TooDeep);
        assert_eq!(error(&" ".repeat(DOCUMENT_BYTES_MAX + 1)).1, Rule::TooLarge);
        assert!(Document::parse(r#"{"a":"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[[[["}"#).is_ok());
    }

    #[test]
    fn the_same_text_in_other_escapes_is_the_same_document() {
        let plain = Document::parse("{\"name\":\"Zoë 𝄞 a/b\\n\",\"x\":[true,null]}").unwrap();
        let escaped =
            Document::parse("{ \"x\" : [ true , null ],\r\n\"n\\u0061me\":\"Zo\\u00eb \\ud834\\udd1e a\\/b\\u000A\"}");
        assert_eq!(Ok(plain), escaped);
    }

    #[test]
    fn members_are_found_and_left_out_by_pointer() {
        let document = Document::parse(r#"{"a":{"b/c":["x"]},"d":"e"}"#).unwrap();
        assert_eq!(document.pointer("/a/b~1c/0"), Some(&Value::from("x")));
        assert_eq!(document.pointer("/d"), Some(&Value::from("e")));
        assert_eq!(document.pointer("/f"), None);
        assert_eq!(document.without("/a/b~1c"), Document::parse(r#"{"a":{},"d":"e"}"#).unwrap());
        assert_eq!(document.without("/d"), Document::parse(r#"{"a":{"b/c":["x"]}}"#).unwrap());
        assert_eq!(document.without("/nothing/there"), document);
    }
}
