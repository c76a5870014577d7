//! Payloads: what a payer says about a signed message in members of its own (spec 2.4), preserved from the request to whoever
//! quotes, delivers and verifies.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::value::RawValue;

/// Most bytes of the payloads of one request together, so that they fit every message of the settlers' protocol.
pub const PAYLOADS_BYTES_MAX: usize = 8 * 1024;

/// The `payload` of a signed message: a JSON object as the payer wrote it, but for white space between its tokens. Nothing in
/// it is read here, so that no number of it loses a digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload(String);

impl Payload {
    /// The object as JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The payloads of the signed messages in the body of a submission or award, in their order; none where it has none, or is
    /// not such a body.
    pub fn of_request(body: &str) -> Vec<Self> {
        #[derive(Deserialize)]
        struct Request {
            sender_auth: SenderAuth,
        }
        #[derive(Deserialize)]
        struct SenderAuth {
            signed_messages: Vec<SignedMessage>,
        }
        #[derive(Deserialize)]
        struct SignedMessage {
            #[serde(default)]
            payload: Option<Payload>,
        }
        let request: Option<Request> = serde_json::from_str(body).ok();
        let messages = request.map(|request| request.sender_auth.signed_messages).unwrap_or_default();
        messages.into_iter().filter_map(|message| message.payload).collect()
    }

    /// A body with the payloads of `body` and nothing else, for whoever keeps many bodies in memory; empty where `body` has no
    /// payloads, or more than [`PAYLOADS_BYTES_MAX`], as no body that is accepted has.
    pub fn reduced(body: &str) -> String {
        let payloads = Self::of_request(body);
        let bytes: usize = payloads.iter().map(|payload| payload.0.len()).sum();
        if payloads.is_empty() || bytes > PAYLOADS_BYTES_MAX {
            return String::new();
        }
        let messages: Vec<_> = payloads.iter().map(|Self(payload)| format!(r#"{{"payload":{payload}}}"#)).collect();
        format!(r#"{{"sender_auth":{{"signed_messages":[{}]}}}}"#, messages.join(","))
    }
}

/// JSON text without the white space between its tokens.
fn compact(text: &str) -> String {
    let (mut compact, mut in_string, mut escaped) = (String::with_capacity(text.len()), false, false);
    for c in text.chars() {
        match c {
            '"' if !escaped => in_string = !in_string,
            ' ' | '\t' | '\r' | '\n' if !in_string => continue,
            _ => {}
        }
        escaped = in_string && c == '\\' && !escaped;
        compact.push(c);
    }
    compact
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if !raw.get().starts_with('{') {
            return Err(de::Error::custom("a payload must be an object"));
        }
        Ok(Self(compact(raw.get())))
    }
}

impl JsonSchema for Payload {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Payload".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "additionalProperties": true,
            "description": "What the payer says of a signed message in members of its own, as it wrote it. The gateway \
                            vouches for nothing in it.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_keeps_every_token_of_it() {
        let body = r#"{"sender_auth": {"signed_messages": [
            {"message": "0x11", "payload": { "amount" : 115792089237316195423570985008687907853269984665640564039457584007913129639935,
                "text": "a \" b\\", "list": [ 1.50, {"x" : null} ] }},
            {"message": "0x12"},
            {"message": "0x13", "payload": {}}
        ]}, "other": {"payload": {"not": "this"}}}"#;
        let payloads = Payload::of_request(body);
        let texts: Vec<_> = payloads.iter().map(Payload::as_str).collect();
        let first = concat!(
            r#"{"amount":115792089237316195423570985008687907853269984665640564039457584007913129639935,"#,
            r#""text":"a \" b\\","list":[1.50,{"x":null}]}"#
        );
        assert_eq!(texts, [first, "{}"]);
        // On its way through messages it stays so.
        let written = serde_json::to_string(&payloads).unwrap();
        assert_eq!(written, format!("[{first},{{}}]"));
        assert_eq!(serde_json::from_str::<Vec<Payload>>(&written).unwrap(), payloads);
        // Of the body nothing else has to be kept.
        let reduced = Payload::reduced(body);
        assert_eq!(
            reduced,
            format!(r#"{{"sender_auth":{{"signed_messages":[{{"payload":{first}}},{{"payload":{{}}}}]}}}}"#)
        );
        assert_eq!(Payload::of_request(&reduced), payloads);
        assert_eq!(Payload::reduced(&reduced), reduced);
    }

    #[test]
    fn a_reduced_body_has_at_most_what_a_request_may_have() {
        let body = |bytes: usize| {
            let payload = format!(r#"{{"x":"{}"}}"#, "x".repeat(bytes - r#"{"x":""}"#.len()));
            format!(r#"{{"sender_auth": {{"signed_messages": [{{"payload": {payload}}}]}}, "more": "y"}}"#)
        };
        let most = body(PAYLOADS_BYTES_MAX);
        assert_eq!(Payload::of_request(&Payload::reduced(&most)), Payload::of_request(&most));
        assert_eq!(Payload::reduced(&body(PAYLOADS_BYTES_MAX + 1)), "");
    }

    #[test]
    fn what_has_no_payloads_gives_none() {
        for body in
            ["", "[]", "{}", r#"{"sender_auth": 1}"#, r#"{"sender_auth": {"signed_messages": [{"payload": 1}]}}"#]
        {
            assert_eq!(Payload::of_request(body), [], "{body}");
            assert_eq!(Payload::reduced(body), "", "{body}");
        }
    }
}
