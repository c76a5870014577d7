//! `[telemetry]`: where spans are sent, and of how many traces.

use serde::Deserialize;
use url::Url;

/// `[telemetry]`: traces over OTLP; nothing is sent anywhere without it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// Base URL of an OpenTelemetry collector that takes OTLP over HTTP; spans go to `/v1/traces` under it. Without it no span
    /// is made.
    pub otlp_endpoint: Option<String>,
    /// Which share of the traces is sent, 0 to 1. It is decided by the trace id, so roles with the same ratio send the same
    /// payments, whole.
    pub sample_ratio: f64,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { otlp_endpoint: None, sample_ratio: 1.0 }
    }
}

impl TelemetryConfig {
    /// Checks the values.
    ///
    /// # Errors
    /// The key, with its section, and the rule that it breaks.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            return Err(("telemetry.sample_ratio", "must be 0 to 1"));
        }
        match &self.otlp_endpoint {
            Some(text) if traces_url(text).is_none() => {
                let rule = "must be http(s)://host[:port][/path] without user, password, query or fragment";
                Err(("telemetry.otlp_endpoint", rule))
            }
            _ => Ok(()),
        }
    }

    /// Where spans are sent; `None` when they are not, or when [`Self::check`] refuses the endpoint.
    pub fn traces_url(&self) -> Option<String> {
        traces_url(self.otlp_endpoint.as_deref()?)
    }
}

fn traces_url(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let is_plain =
        url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
    (is_http && is_plain).then(|| format!("{}/v1/traces", url.as_str().trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> TelemetryConfig {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn nothing_is_sent_without_an_endpoint() {
        let none = read("");
        assert_eq!(none, TelemetryConfig::default());
        assert_eq!((none.check(), none.traces_url()), (Ok(()), None));
        assert!(
            toml::from_str::<TelemetryConfig>("otlp_endpont = 'http://127.0.0.1'").is_err(),
            "unknown keys are refused"
        );
    }

    #[test]
    fn the_endpoint_is_a_base() {
        for (base, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://otel.example/", "https://otel.example/v1/traces"),
            ("https://otel.example/otlp", "https://otel.example/otlp/v1/traces"),
        ] {
            let config = read(&format!("otlp_endpoint = '{base}'"));
            assert_eq!((config.check(), config.traces_url().as_deref()), (Ok(()), Some(url)));
        }
    }

    #[test]
    fn bad_values_are_refused_by_key_and_rule() {
        for bad in [
            "",
            "collector:4318",
            "grpc://a",
            "http://",
            "http://u:secret@a",
            "http://a/?k=secret",
            "http://a/#x",
            "/v1",
        ] {
            let (key, rule) = read(&format!("otlp_endpoint = '{bad}'")).check().unwrap_err();
            assert_eq!(key, "telemetry.otlp_endpoint", "{bad}");
            assert!(!rule.contains("secret"));
        }
        for bad in ["-0.1", "1.5", "nan", "inf"] {
            assert_eq!(
                read(&format!("sample_ratio = {bad}")).check().unwrap_err().0,
                "telemetry.sample_ratio",
                "{bad}"
            );
        }
    }
}
