//! A body as JSON.

use serde_json::{Map, Value};

use events::json::UniqueValue;

use crate::error::{Code, Error};

/// A body that is a JSON object without repeated keys.
#[derive(Debug)]
pub struct JsonBody {
    /// The body as it came.
    pub text: String,
    /// Its members.
    pub members: Map<String, Value>,
}

impl JsonBody {
    /// Reads a body.
    ///
    /// # Errors
    /// 400 `INVALID_REQUEST`.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, Error> {
        let text = String::from_utf8(bytes).map_err(|_| invalid("body must be UTF-8"))?;
        let value = serde_json::from_str::<UniqueValue>(&text).map(UniqueValue::into_inner);
        match value.map_err(|error| invalid(format!("body is not acceptable JSON: {error}")))? {
            Value::Object(members) => Ok(Self { text, members }),
            _ => Err(invalid("body must be a JSON object")),
        }
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::INVALID_REQUEST, message)
}
