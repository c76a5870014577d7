//! The deprecated carriers of credentials, `originator_auth` and `sender_auth.verifiable_credential` (spec 2.5).
//!
//! The contract does not say what their `signature` is over. Here it is over the request, so that nobody can move a
//! carrier to another request: the RFC 8785 form of
//!
//! ```json
//! {"carrier": "originator_auth", "request": {…}, "verifiable_credential": {…}, "verification_method_id": "did:…#…"}
//! ```
//!
//! `carrier` is `originator_auth` or `sender_auth.verifiable_credential`; `request` is the body without `originator_auth`,
//! `sender_auth`, `@context`, `verifiableCredential` and `proof`. What the payer signs to spend binds the originator in its
//! turn, through the payment id.

use serde_json::{Map, Value, json};

use events::identity::Carrier;

/// Members of a body that no carrier signs.
const UNSIGNED: [&str; 5] = ["originator_auth", "sender_auth", "@context", "verifiableCredential", "proof"];

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

/// The member of a body that a carrier is, as a path.
pub(super) fn path(carrier: Carrier) -> &'static str {
    match carrier {
        Carrier::Envelope => "proof",
        Carrier::OriginatorAuth => "originator_auth",
        Carrier::SenderAuth => "sender_auth.verifiable_credential",
    }
}

/// What a carrier in `body` signs; `None` when it has no RFC 8785 form.
pub fn signed_text(
    carrier: Carrier,
    body: &Map<String, Value>,
    credential: &Map<String, Value>,
    verification_method: &str,
) -> Option<String> {
    let mut request = body.clone();
    request.retain(|name, _| !UNSIGNED.contains(&name.as_str()));
    let signed = json!({
        "carrier": path(carrier),
        "request": request,
        "verifiable_credential": credential,
        "verification_method_id": verification_method,
    });
    serde_json_canonicalizer::to_string(&signed).ok()
}
