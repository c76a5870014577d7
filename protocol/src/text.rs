//! Message members whose JSON form is text of a pattern.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Version of this protocol, `1.0`; every `1.x` is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Version;

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("1.0")
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let minor = text.strip_prefix("1.").unwrap_or_default();
        if !minor.is_empty() && minor.bytes().all(|c| c.is_ascii_digit()) {
            Ok(Self)
        } else {
            Err(serde::de::Error::custom("version must match ^1\\.[0-9]+$"))
        }
    }
}

/// UNIX seconds, written as decimal text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub u64);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        let number = if digits { text.parse().ok() } else { None };
        number.map(Self).ok_or_else(|| serde::de::Error::custom("must be UNIX seconds in decimal"))
    }
}

/// Describes a type whose JSON form is a text of a pattern.
macro_rules! text_schema {
    ($type:ident, $pattern:expr, $description:expr) => {
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": $pattern, "description": $description})
            }
        }
    };
}

text_schema!(Version, r"^1\.[0-9]+$", "Version of the protocol; `1.0` is written, every `1.x` is read.");
text_schema!(Seconds, "^[0-9]{1,20}$", "UNIX seconds, decimal text.");
