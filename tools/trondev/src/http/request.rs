//! Parameters of an API request, from its query or its body.

use serde_json::{Map, Value, json};

use crate::{Address, Refusal, chain::ChainView, transaction::TxId};

/// Why a call has no answer. Tron's nodes say it in a member `Error` of a body with status 200.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ApiError(String);

impl ApiError {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A field that is missing or cannot be read.
    pub fn field(name: &str, text: impl std::fmt::Display) -> Self {
        Self(format!("class java.lang.IllegalArgumentException : {name}: {text}"))
    }

    pub fn body(&self) -> Value {
        json!({ "Error": self.0 })
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Contract(text) => {
                Self(format!("class org.tron.core.exception.ContractValidateException : {text}"))
            }
            other => Self(other.to_string()),
        }
    }
}

/// The fields of a call.
#[derive(Debug)]
pub(crate) struct Request {
    fields: Map<String, Value>,
    /// Addresses in Base58Check and texts as texts, both ways; else all in hex.
    pub visible: bool,
    pub view: ChainView,
}

impl Request {
    pub fn from_body(body: &[u8], view: ChainView) -> Result<Self, ApiError> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self::new(Map::new(), view));
        }
        let fields = serde_json::from_slice(body)
            .map_err(|error| ApiError::new(format!("class com.alibaba.fastjson.JSONException : {error}")))?;
        Ok(Self::new(fields, view))
    }

    pub fn from_query(query: &str, view: ChainView) -> Result<Self, ApiError> {
        let mut fields = Map::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            fields.insert(decoded(name)?, Value::String(decoded(value)?));
        }
        Ok(Self::new(fields, view))
    }

    fn new(fields: Map<String, Value>, view: ChainView) -> Self {
        let mut request = Self { fields, visible: false, view };
        request.visible = request.flag("visible");
        request
    }

    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// Whether 64-bit numbers are to be written as strings.
    pub fn int64_as_string(&self) -> bool {
        self.flag("int64_as_string")
    }

    pub fn flag(&self, name: &str) -> bool {
        match self.fields.get(name) {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
            _ => false,
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    pub fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        number(&self.fields, name)
    }

    pub fn address(&self, name: &str) -> Result<Option<Address>, ApiError> {
        self.text(name)
            .map(|text| address(text, self.visible).map_err(|error| ApiError::field(name, error)))
            .transpose()
    }

    pub fn required_address(&self, name: &str) -> Result<Address, ApiError> {
        self.address(name)?.ok_or_else(|| ApiError::field(name, "an address is needed"))
    }

    /// Hex, with or without 0x.
    pub fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>, ApiError> {
        self.text(name).map(|text| unhex(name, text)).transpose()
    }

    /// The 32 bytes in `value`.
    pub fn hash(&self) -> Result<Option<[u8; 32]>, ApiError> {
        // What has another length is the hash of nothing, and is answered as Tron's nodes do: with nothing.
        Ok(self.bytes("value")?.and_then(|bytes| bytes.try_into().ok()))
    }

    pub fn transaction_id(&self) -> Result<Option<TxId>, ApiError> {
        Ok(self.hash()?.map(TxId))
    }
}

/// A whole number, which clients also write as a string.
pub(crate) fn number(fields: &Map<String, Value>, name: &str) -> Result<Option<i64>, ApiError> {
    let read = match fields.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.parse().ok(),
        Some(other) => other.as_i64(),
    };
    read.map(Some).ok_or_else(|| ApiError::field(name, "a whole number of 64 bits is needed"))
}

/// An address as `visible` has it.
pub(crate) fn address(text: &str, visible: bool) -> Result<Address, crate::AddressError> {
    if visible { Address::from_base58(text) } else { Address::from_hex(text) }
}

pub(crate) fn unhex(name: &str, text: &str) -> Result<Vec<u8>, ApiError> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    hex::decode(digits).map_err(|_| ApiError::field(name, "INVALID hex String"))
}

/// Percent-decoding of a query.
fn decoded(text: &str) -> Result<String, ApiError> {
    let wrong = || ApiError::new("the query is not percent-encoded UTF-8");
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next().ok_or_else(wrong)?, rest.next().ok_or_else(wrong)?];
                let mut one = [0];
                hex::decode_to_slice(digits, &mut one).map_err(|_| wrong())?;
                bytes.push(one[0]);
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let request = Request::from_query("value=a%2fb+c&visible=true&num=7&flag", ChainView::Head).unwrap();
        assert_eq!(request.text("value"), Some("a/b c"));
        assert!(request.visible);
        assert_eq!(request.number("num"), Ok(Some(7)));
        assert_eq!(request.text("flag"), None);
        assert!(Request::from_query("a=%zz", ChainView::Head).is_err());
        assert!(Request::from_query("a=%4", ChainView::Head).is_err());
        assert!(Request::from_query("a=%ff", ChainView::Head).is_err());
    }

    #[test]
    fn bodies_are_objects_or_nothing() {
        assert_eq!(Request::from_body(b" \n", ChainView::Head).unwrap().fields().len(), 0);
        assert!(Request::from_body(b"[1]", ChainView::Head).is_err());
        let request = Request::from_body(br#"{"num":1.5,"value":"0x0g"}"#, ChainView::Head).unwrap();
        assert!(request.number("num").is_err());
        assert!(request.hash().is_err());
    }
}
