//! Identity on record: the proven sender of a request, and what others say of it (spec 2.5, 2.12).
//!
//! A request without a proof comes from its source account, and has no [`ProvenIdentity`]. The proof itself stands in the
//! stored body of the request, so that auditors can check it again.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Did, Hash32, time::Timestamp};

/// Members of a request that no deprecated carrier signs.
const UNSIGNED: [&str; 5] = ["originator_auth", "sender_auth", "@context", "verifiableCredential", "proof"];

/// A DID that was proven to have asked, or to speak for the sender, when a request was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvenIdentity {
    /// What proved it.
    pub carrier: Carrier,
    /// The DID, in its normal form.
    pub did: Did,
    /// DID URL of the key that signed.
    pub verification_method: String,
    /// When it was verified, by the gateway's clock.
    pub verified_at: Timestamp,
    /// The credentials that held then, in the order of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<PresentedCredential>,
}

/// Where in a request a proof stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// A Data Integrity proof over the whole request: `proof`.
    Envelope,
    /// The deprecated `originator_auth`.
    OriginatorAuth,
    /// The deprecated `sender_auth.verifiable_credential`. It names no originator.
    SenderAuth,
}

impl Carrier {
    /// The member of a request that it is, as a path.
    pub fn path(self) -> &'static str {
        match self {
            Self::Envelope => "proof",
            Self::OriginatorAuth => "originator_auth",
            Self::SenderAuth => "sender_auth.verifiable_credential",
        }
    }

    /// What the `signature` of a deprecated carrier in `request` is over; `None` when it has no RFC 8785 form.
    ///
    /// The contract does not say what it is over. Here it is over the request, so that nobody can move a carrier to another
    /// request: the RFC 8785 form of
    ///
    /// ```json
    /// {"carrier": "originator_auth", "request": {…}, "verifiable_credential": {…}, "verification_method_id": "did:…#…"}
    /// ```
    ///
    /// `carrier` is the [path](Self::path); `request` is the body without `originator_auth`, `sender_auth`, `@context`,
    /// `verifiableCredential` and `proof`. What the payer signs to spend binds the originator in its turn, through the
    /// payment id.
    pub fn signed_text(
        self,
        request: &Map<String, Value>,
        credential: &Map<String, Value>,
        verification_method: &str,
    ) -> Option<String> {
        let mut request = request.clone();
        request.retain(|name, _| !UNSIGNED.contains(&name.as_str()));
        let signed = json!({
            "carrier": self.path(),
            "request": request,
            "verifiable_credential": credential,
            "verification_method_id": verification_method,
        });
        serde_json_canonicalizer::to_string(&signed).ok()
    }
}

/// A credential that held when it was presented.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentedCredential {
    /// SHA-256 of its RFC 8785 form.
    pub credential_hash: Hash32,
    /// Who says it.
    pub issuer: Did,
    /// Its types, `VerifiableCredential` among them.
    pub types: Vec<String>,
    /// Until when it holds, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// A policy that a settler held by a credential when quotes were collected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldPolicy {
    /// The settler.
    pub settler: Did,
    /// Name of the policy.
    pub policy: String,
    /// Who says so.
    pub issuer: Did,
    /// SHA-256 of the credential's RFC 8785 form.
    pub credential_hash: Hash32,
    /// Until when the credential holds, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}
