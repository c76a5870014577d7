//! The deprecated carriers of credentials, `originator_auth` and `sender_auth.verifiable_credential` (spec 2.5). What they
//! sign is [`Carrier::signed_text`].

use serde_json::{Map, Value};

use events::identity::Carrier;

/// A carrier as it stands in a body.
pub(super) struct Auth<'a> {
    pub(super) carrier: Carrier,
    pub(super) credential: &'a Map<String, Value>,
    pub(super) verification_method: &'a str,
    pub(super) signature: &'a str,
}

impl<'a> Auth<'a> {
    /// The carriers in a body whose form was checked.
    pub(super) fn all(body: &'a Map<String, Value>) -> impl Iterator<Item = Self> {
        let originator = body.get("originator_auth").map(|auth| (Carrier::OriginatorAuth, auth));
        let sender = body.get("sender_auth").and_then(|auth| auth.get("verifiable_credential"));
        let sender = sender.map(|auth| (Carrier::SenderAuth, auth));
        originator.into_iter().chain(sender).filter_map(|(carrier, auth)| {
            let text = |name: &str| auth.get(name).and_then(Value::as_str);
            Some(Self {
                carrier,
                credential: auth.get("verifiable_credential")?.as_object()?,
                verification_method: text("verification_method_id")?,
                signature: text("signature")?,
            })
        })
    }
}
