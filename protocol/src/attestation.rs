//! Wire protocol between settlers or gateways and a verifier: the request for an attestation, and its answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use events::{Payload, PaymentId, Terms, VerifierSet};

use super::{Error, Escrow, Message, Version};

/// Path below a verifier's origin where a delivery's attestation is asked for, by POST.
pub const DELIVERY_ATTESTATION_PATH: &str = "/v1/attestations/delivery";
/// Path below a verifier's origin where a non-delivery's attestation is asked for, by POST.
pub const NON_DELIVERY_ATTESTATION_PATH: &str = "/v1/attestations/non-delivery";

/// Asks a verifier for an attestation, with everything it needs to check the chains itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttestationRequest {
    /// Version of the protocol.
    pub version: Version,
    /// The payment.
    pub payment_id: PaymentId,
    /// Preimage of the `termsHash` in the escrow.
    pub terms: Terms,
    /// The escrow and its windows.
    pub escrow: Escrow,
    /// The awarded quote, preimage of the `quoteHash` in the escrow.
    pub quote: String,
    /// The set whose id the escrow's releaser is; left out where that is the verifier's own account. Whoever is asked signs only
    /// as a member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier_set: Option<VerifierSet>,
    /// Payloads of the payer's signed messages, in their order; at most 8 KiB together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub payloads: Vec<Payload>,
}

impl Message for AttestationRequest {
    fn check(&self) -> Result<(), Error> {
        self.escrow.check()?;
        match &self.verifier_set {
            Some(set) if set.id().as_ref() != Some(&self.escrow.releaser) => {
                Err(Error::malformed("the releaser of the escrow must be the id of verifier_set"))
            }
            _ => Ok(()),
        }
    }
}

/// What a verifier answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttestationStatus {
    /// The attestation is in `signature`.
    Attested,
    /// Not yet; ask again.
    Pending,
    /// What was asked for does not hold; `reason` says why.
    Refused,
}

/// A verifier's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("if" = {"properties": {"status": {"const": "attested"}}}, "then" = {"required": ["signature"]}, "else" = {"not": {"required": ["signature"]}}))]
pub struct AttestationResponse {
    /// Version of the protocol.
    pub version: Version,
    /// What became of it.
    pub status: AttestationStatus,
    /// The releaser's signature, hex with 0x; present exactly when attested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// For humans; why it is pending or refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether this verifier attests deliveries out of escrows that were reassigned. One of an older version does not, and does not
    /// say so.
    #[serde(default)]
    pub follows_reassignments: bool,
}

impl Message for AttestationResponse {
    fn check(&self) -> Result<(), Error> {
        if (self.status == AttestationStatus::Attested) != self.signature.is_some() {
            return Err(Error::malformed("signature must be present exactly when the status is attested"));
        }
        Ok(())
    }
}
