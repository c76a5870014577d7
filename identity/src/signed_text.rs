//! Texts that somebody signs in the name of a DID, such as the challenge of a session.

use tokio::time::timeout;

use events::time::Timestamp;
use proofs::{
    did::{self, Did, Purpose},
    suites::verify_text,
};

use super::{Identities, Refusal, VERIFY_MAX};

impl Identities {
    /// The DID in whose name `text` was signed: that of `verification_method`, a DID URL, whose key it authorises for
    /// `authentication`. How each kind of key signs a text, and the forms of a signature, are those of
    /// [`verify_text`].
    ///
    /// # Errors
    /// [`Refusal::Proof`] and [`Refusal::Unavailable`]; their texts name the member of a body that is at fault.
    pub async fn of_text(
        &self,
        text: &str,
        verification_method: &str,
        signature: &str,
        now: Timestamp,
    ) -> Result<Did, Refusal> {
        let verified = timeout(VERIFY_MAX, self.verify_signed_text(text, verification_method, signature, now)).await;
        verified.unwrap_or_else(|_| Err(Refusal::Unavailable("the DID could not be resolved in time".to_owned())))
    }

    async fn verify_signed_text(
        &self,
        text: &str,
        verification_method: &str,
        signature: &str,
        now: Timestamp,
    ) -> Result<Did, Refusal> {
        let method = |reason: String| Refusal::Proof(format!("verification_method: {reason}"));
        let (did, _) =
            Did::of_url(verification_method).map_err(|_| method("is not a DID URL with a fragment".to_owned()))?;
        let signer = did::resolve(&did, self.trust(now).web, now).await.map_err(|error| match error {
            did::Error::Unavailable { .. } => Refusal::Unavailable(error.to_string()),
            _ => method(error.to_string()),
        })?;
        let authorised = signer.authorised(verification_method, Purpose::Authentication);
        let key = &authorised.map_err(|error| method(error.to_string()))?.key;
        verify_text(key, text, signature).map_err(|error| Refusal::Proof(format!("signature: {error}")))?;
        Ok(did)
    }
}
