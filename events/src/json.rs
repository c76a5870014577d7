//! JSON from outside: one document for every reader.

use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

/// A JSON value in which no object repeats a key.
///
/// `serde_json` keeps the last of two equal keys; other readers keep the first. Everything that comes from outside and
/// is signed or compared is read through this type, so that all readers see one document.
#[derive(Debug, Clone, PartialEq)]
pub struct UniqueValue(Value);

impl UniqueValue {
    /// The value.
    pub fn into_inner(self) -> Value {
        self.0
    }
}

impl<'de> Deserialize<'de> for UniqueValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> de::Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value without repeated keys")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(UniqueValue(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, UniqueValue(value))) = entries.next_entry::<String, UniqueValue>()? {
            if map.contains_key(&key) {
                return Err(de::Error::custom(format!("key `{key}` stands twice")));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_keys_are_refused_at_every_depth() {
        for (text, good) in
            [(r#"{"a":1,"b":{"a":2}}"#, true), (r#"{"a":1,"a":1}"#, false), (r#"{"b":[{"a":1,"\u0061":2}]}"#, false)]
        {
            assert_eq!(serde_json::from_str::<UniqueValue>(text).is_ok(), good, "{text}");
        }
    }
}
