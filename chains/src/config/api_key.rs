//! API key of a node's provider.

use std::fmt;

use serde::Deserialize;

/// A provider's API key. It is never shown, not even when it cannot be used.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ApiKeyForm")]
pub struct ApiKey(String);

#[derive(Deserialize)]
#[serde(untagged, expecting = "must be a text")]
enum ApiKeyForm {
    Text(String),
}

impl TryFrom<ApiKeyForm> for ApiKey {
    type Error = &'static str;

    fn try_from(ApiKeyForm::Text(text): ApiKeyForm) -> Result<Self, Self::Error> {
        // It becomes the value of an HTTP header.
        let sendable = !text.is_empty() && text.bytes().all(|c| c.is_ascii_graphic());
        if sendable { Ok(Self(text)) } else { Err("must be visible ASCII characters without spaces") }
    }
}

impl ApiKey {
    /// The key with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}
