//! Reading members of a JSON object so that every fault names its field and its rule.

use std::fmt::Display;

use chrono::DateTime;
use serde_json::{Map, Value};

use events::{caip, time::Timestamp};

use crate::error::{Code, Error};

/// Longest date-time; the contract names no bound, and everything that comes from outside needs one.
pub const DATE_TIME_CHARS_MAX: usize = 64;

/// The faults of a body, in the order in which they were found.
#[derive(Debug, Default)]
pub struct Faults(Vec<(&'static Code, String)>);

impl Faults {
    /// Notes that the field at `path` breaks `rule`.
    pub fn add(&mut self, code: &'static Code, path: &str, rule: impl Display) {
        self.0.push((code, format!("{path}: {rule}")));
    }

    /// As [`Faults::add`] with the general code.
    pub fn invalid(&mut self, path: &str, rule: impl Display) {
        self.add(Code::INVALID_REQUEST, path, rule);
    }

    /// The fault to answer with: the first whose code the contract names, else the first of the general code, else the
    /// first (design: readings of the contract).
    pub fn answer(self) -> Option<Error> {
        let rank = |code: &Code| match code {
            code if code.named_by_contract => 0,
            code if *code == *Code::INVALID_REQUEST => 1,
            _ => 2,
        };
        let first = self.0.into_iter().min_by_key(|(code, _)| rank(code));
        first.map(|(code, message)| Error::new(code, message))
    }

    /// What was read, when no fault was found.
    ///
    /// # Errors
    /// 400 with the fault to answer with.
    pub fn or<T>(self, read: Option<T>) -> Result<T, Error> {
        match (self.answer(), read) {
            (None, Some(read)) => Ok(read),
            (Some(fault), _) => Err(fault),
            // Whatever could not be read has its fault.
            (None, None) => Err(Code::INVALID_REQUEST.into()),
        }
    }
}

/// A JSON type that a member may have to be of.
pub trait Kind<'a>: Sized {
    const RULE: &'static str;

    fn read(value: &'a Value) -> Option<Self>;
}

impl<'a> Kind<'a> for &'a str {
    const RULE: &'static str = "must be a string";

    fn read(value: &'a Value) -> Option<Self> {
        value.as_str()
    }
}

impl Kind<'_> for bool {
    const RULE: &'static str = "must be true or false";

    fn read(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl Kind<'_> for u64 {
    const RULE: &'static str = "must be a whole number, not below zero";

    fn read(value: &Value) -> Option<Self> {
        value.as_u64()
    }
}

impl<'a> Kind<'a> for &'a Map<String, Value> {
    const RULE: &'static str = "must be an object";

    fn read(value: &'a Value) -> Option<Self> {
        value.as_object()
    }
}

impl<'a> Kind<'a> for &'a Vec<Value> {
    const RULE: &'static str = "must be an array";

    fn read(value: &'a Value) -> Option<Self> {
        value.as_array()
    }
}

/// A value that may be of any type.
impl<'a> Kind<'a> for &'a Value {
    const RULE: &'static str = "must be given";

    fn read(value: &'a Value) -> Option<Self> {
        Some(value)
    }
}

/// An object of a body, with its JSON path.
#[derive(Debug, Clone)]
pub struct Object<'a> {
    members: &'a Map<String, Value>,
    path: String,
}

impl<'a> Object<'a> {
    /// The object at the root of a body.
    pub fn root(members: &'a Map<String, Value>) -> Self {
        Self { members, path: String::new() }
    }

    /// The object at `path` of a body.
    pub fn at(path: &str, members: &'a Map<String, Value>) -> Self {
        Self { members, path: path.to_owned() }
    }

    /// JSON path of the member `name`.
    pub fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Whether there is a member `name`, whatever it is.
    pub fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// The member `name`, which has to be there.
    pub fn required<T: Kind<'a>>(&self, name: &str, faults: &mut Faults) -> Option<T> {
        match self.members.get(name) {
            None => {
                faults.invalid(&self.path(name), "is required");
                None
            }
            Some(value) => self.read(name, value, faults),
        }
    }

    /// The member `name`, which may be left out but not null.
    pub fn optional<T: Kind<'a>>(&self, name: &str, faults: &mut Faults) -> Option<T> {
        match self.members.get(name)? {
            Value::Null => {
                faults.invalid(&self.path(name), "must not be null; leave it out instead");
                None
            }
            value => self.read(name, value, faults),
        }
    }

    /// The member `name` as an object of its own.
    pub fn required_object(&self, name: &str, faults: &mut Faults) -> Option<Object<'a>> {
        self.required(name, faults).map(|members| Object { members, path: self.path(name) })
    }

    /// The member `name` as an object of its own, when it is there.
    pub fn optional_object(&self, name: &str, faults: &mut Faults) -> Option<Object<'a>> {
        self.optional(name, faults).map(|members| Object { members, path: self.path(name) })
    }

    /// The members with their paths. A name that could not stand in a message as it is gives the path of the object.
    pub fn entries(&self) -> impl Iterator<Item = (&'a String, String, &'a Value)> {
        self.members.iter().map(|(name, value)| {
            let plain = (1..=64).contains(&name.len())
                && name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.' | b':'));
            (name, if plain { self.path(name) } else { self.path.clone() }, value)
        })
    }

    /// Whether the object has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn read<T: Kind<'a>>(&self, name: &str, value: &'a Value, faults: &mut Faults) -> Option<T> {
        read(&self.path(name), value, faults)
    }
}

/// The item of an array as an object.
pub fn item_object<'a>(path: &str, value: &'a Value, faults: &mut Faults) -> Option<Object<'a>> {
    read(path, value, faults).map(|members| Object { members, path: path.to_owned() })
}

/// The value at `path` as `T`.
pub fn read<'a, T: Kind<'a>>(path: &str, value: &'a Value, faults: &mut Faults) -> Option<T> {
    let read = T::read(value);
    if read.is_none() {
        faults.invalid(path, T::RULE);
    }
    read
}

/// The rule that an account breaks, without the word that its path says already.
pub(crate) fn account_rule(rule: &caip::Error) -> String {
    let rule = rule.to_string();
    rule.strip_prefix("account ").map_or(rule.clone(), str::to_owned)
}

/// An RFC 3339 date-time with offset and without a leap second (design: readings of the contract).
pub fn date_time(text: &str) -> Result<Timestamp, &'static str> {
    const RULE: &str = "must be an RFC 3339 date-time with an offset, such as 2030-01-31T12:00:00Z";
    let separated = text.len() <= DATE_TIME_CHARS_MAX && matches!(text.as_bytes().get(10), Some(b'T' | b't'));
    // The reader takes U+2212 for the sign of an offset, too, which no RFC 3339 has.
    if !separated || !text.is_ascii() {
        return Err(RULE);
    }
    if text.get(17..19) == Some("60") {
        return Err("must not be a leap second");
    }
    DateTime::parse_from_rfc3339(text).map(|at| at.to_utc()).map_err(|_| RULE)
}
