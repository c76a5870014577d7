//! The port to fulfillment verifiers.

use async_trait::async_trait;

use events::{
    Payload, PaymentId, Terms,
    event::EscrowPlan,
    verifier_set::{VerifierMember, VerifierSet},
};

use super::transient::Transient;

/// What a verifier is shown, so that it can check everything against the chains itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerificationCase {
    /// The payment.
    pub payment_id: PaymentId,
    /// Preimage of the `termsHash` in the escrow.
    pub terms: Terms,
    /// The escrow and its windows.
    pub escrow: EscrowPlan,
    /// The set whose id the escrow's releaser is; `None` where that is a single verifier's account.
    pub verifier_set: Option<VerifierSet>,
    /// Preimage of the `quoteHash` in the escrow, as it came.
    pub quote_document: String,
    /// What the payer says of its signed messages.
    pub payloads: Vec<Payload>,
}

/// Fulfillment verifiers. Each is asked alone, whether it is the only one of a payment or a member of its set, and signs the same
/// statement.
#[async_trait]
pub trait Verifier: Send + Sync {
    /// The signed attestation of delivery, or `None` while the verifier does not (yet) give one.
    ///
    /// # Errors
    /// [`Transient`] when it cannot be reached or talks nonsense.
    async fn attest_delivery(
        &self,
        verifier: &VerifierMember,
        case: &VerificationCase,
    ) -> Result<Option<String>, Transient>;

    /// Whether `verifier` is known to attest deliveries out of escrows that were reassigned. One of an older version does not, and
    /// whoever delivered then would not be paid; it says so with each answer, which is remembered.
    fn follows_reassignments(&self, verifier: &VerifierMember) -> bool {
        let _ = verifier;
        false
    }

    /// The signed statement of non-delivery, or `None` while the verifier does not (yet) give one.
    ///
    /// # Errors
    /// [`Transient`] when it cannot be reached or talks nonsense.
    async fn attest_non_delivery(
        &self,
        verifier: &VerifierMember,
        case: &VerificationCase,
    ) -> Result<Option<String>, Transient>;
}
