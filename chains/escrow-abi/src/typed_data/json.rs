//! JSON of typed data, its whole numbers read exactly.
//!
//! Typed data has numbers of 256 bits, and libraries write them as JSON numbers (`json.dumps` of Python does), which RFC 8259
//! allows and `serde_json` reads as floating point from 64 bits on. So every value is first taken as the text that it is, and
//! a longer whole number stays its decimal digits: as a string they are the same number of typed data.

use std::{collections::HashSet, fmt};

use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value, value::RawValue};

/// Deepest nesting of objects and arrays; the messages here have four levels. Every level reads the text within once more.
const DEPTH_MAX: usize = 8;
/// Most digits of which every number fits 64 bits.
const U64_DIGITS: usize = 19;

/// The value in `text`, in which no object may repeat a key.
///
/// # Errors
/// When it is not JSON, repeats a key, or is nested too deeply.
pub(super) fn read(text: &str) -> Result<Value, serde_json::Error> {
    value(serde_json::from_str(text)?, DEPTH_MAX)
}

fn value(raw: &RawValue, depth: usize) -> Result<Value, serde_json::Error> {
    let text = raw.get();
    let deeper = || {
        let error = || de::Error::custom(format!("is nested more than {DEPTH_MAX} levels deep"));
        depth.checked_sub(1).ok_or_else(error)
    };
    match text.as_bytes().first() {
        Some(b'{') => {
            let Members(members) = serde_json::from_str(text)?;
            let depth = deeper()?;
            let members = members.into_iter().map(|(key, raw)| Ok((key, value(raw, depth)?)));
            Ok(Value::Object(members.collect::<Result<Map<_, _>, serde_json::Error>>()?))
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            let depth = deeper()?;
            Ok(Value::Array(items.into_iter().map(|raw| value(raw, depth)).collect::<Result<_, _>>()?))
        }
        _ if text.len() > U64_DIGITS && text.bytes().all(|c| c.is_ascii_digit()) => Ok(Value::String(text.to_owned())),
        _ => serde_json::from_str(text),
    }
}

/// The members of an object, each under a key of its own.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> de::Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object without repeated keys")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<Members<'de>, A::Error> {
        let mut members: Vec<(String, &RawValue)> = Vec::new();
        let mut keys = HashSet::new();
        while let Some((key, raw)) = entries.next_entry::<String, &RawValue>()? {
            if !keys.insert(key.clone()) {
                return Err(de::Error::custom(format!("key `{key}` stands twice")));
            }
            members.push((key, raw));
        }
        Ok(Members(members))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_of_any_length_are_exact() {
        let most = format!("{}", alloy::primitives::U256::MAX);
        let text =
            format!(r#" {{"small":7,"u64":18446744073709551615,"above":18446744073709551616,"most":[{most}]}} "#);
        let read = read(&text).unwrap();
        assert_eq!(read["small"], json!(7));
        // Twenty digits are text although these fit: they mean the same.
        assert_eq!(read["u64"], json!("18446744073709551615"));
        assert_eq!(read["above"], json!("18446744073709551616"));
        assert_eq!(read["most"], json!([most]));
    }

    #[test]
    fn everything_else_is_read_as_ever() {
        let text = r#"{"a":[true,null,"1\u00e9",-1,1.5,{"b":{}}],"c":"}"}"#;
        assert_eq!(read(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        // What is not a whole number stays one that is not.
        assert!(read(r#"[1e30]"#).unwrap()[0].is_f64() && read("[-18446744073709551616]").unwrap()[0].is_f64());
        for bad in
            ["", "{", "{}x", r#"{"a":1,"\u0061":2}"#, r#"[{"b":{"a":1,"a":1}}]"#, "[00000000000000000001]", "[1,]"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(read(&nested(DEPTH_MAX)).is_ok());
        assert!(read(&nested(DEPTH_MAX + 1)).is_err());
        assert!(read(&nested(8_000)).is_err());
    }
}
