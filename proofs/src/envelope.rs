//! A request signed by its holder: the body, `@context`, `verifiableCredential` and `proof` in one object.
//!
//! The proof says who asks; the credentials say what others say of him. The proof covers everything but
//! `sender_auth.verifiable_credential`, the deprecated carrier, whose content is signed by itself (spec 2.3).

use serde_json::Value;

use crate::{
    contexts::GATEWAY_V1,
    credential::{self, Credential, Trust},
    did::{self, Did, Purpose},
    json::{self, Document},
    suites::{self, Secured},
};

/// Most credentials in one envelope.
pub const CREDENTIALS_MAX: usize = 16;
/// Where they stand.
const CREDENTIALS: &str = "/verifiableCredential";
/// The member that the holder's proof does not cover.
const EXCLUDED: &str = "/sender_auth/verifiable_credential";

/// The holder that signed a request, and the credentials about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The DID that signed.
    pub did: Did,
    /// The credentials about it, in the order of the envelope.
    pub credentials: Vec<Credential>,
}

/// Why an envelope does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first context is not the gateway's.
    #[error("request's first @context is not {GATEWAY_V1}")]
    Context,
    /// `verifiableCredential` is not a list of at most [`CREDENTIALS_MAX`] objects.
    #[error("verifiableCredential is not a list of at most {CREDENTIALS_MAX} credentials")]
    Credentials,
    /// Several proofs, and not all of one DID.
    #[error("request's proofs are of several DIDs: {0} and {1}")]
    SeveralHolders(Did, Did),
    /// The holder cannot be resolved.
    #[error("request's signer: {0}")]
    Signer(#[from] did::Error),
    /// The proof does not hold.
    #[error("request's proof: {0}")]
    Proof(#[from] suites::Error),
    /// A credential does not count.
    #[error("verifiableCredential/{index}: {error}")]
    Credential {
        /// Its place in the list, from 0.
        index: usize,
        /// The defect.
        error: credential::Error,
    },
    /// The document as a whole cannot be signed.
    #[error(transparent)]
    Json(#[from] json::Error),
}

impl Error {
    /// Whether it may be otherwise another time, with nothing changed in the request.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Signer(error) => matches!(error, did::Error::Unavailable { .. }),
            Self::Credential { error, .. } => error.is_transient(),
            _ => false,
        }
    }
}

/// Whether a request comes in an envelope, which then has to hold.
pub fn is_enveloped(document: &Document) -> bool {
    ["proof", "@context", "verifiableCredential"].iter().any(|name| document.members().contains_key(*name))
}

/// Checks the holder's proof over a request, and every credential in it.
///
/// # Errors
/// See [`Error`]. One credential that does not count refuses the whole, for the holder meant it to.
pub async fn verify(document: &Document, trust: Trust<'_>) -> Result<Holder, Error> {
    let did = verify_holder(document, trust).await?;
    let credentials = verify_credentials(document, &did, trust).await?;
    Ok(Holder { did, credentials })
}

/// Checks the holder's proof over a request alone, and says who signed. The credentials are under the proof and not
/// believed yet.
///
/// Of several proofs each has to hold and be of the same DID: a list of proofs is in no hash, so whoever passes a request
/// on could else choose among its holders.
///
/// # Errors
/// See [`Error`]; never [`Error::Credential`].
pub async fn verify_holder(document: &Document, trust: Trust<'_>) -> Result<Did, Error> {
    let contexts = document.members().get("@context").and_then(Value::as_array).ok_or(Error::Context)?;
    if contexts.first().and_then(Value::as_str) != Some(GATEWAY_V1) {
        return Err(Error::Context);
    }
    let covered = document.without(EXCLUDED);
    let mut proofs = Secured::all(&covered)?;
    if presented(document)?.is_empty() {
        // A list of none says nothing in RDF, so the N-Quads that were signed are those without it.
        let without = Secured::all(&covered.without(CREDENTIALS))?;
        let signed = |(whole, without): (Secured, Secured)| {
            if whole.proof().suite.signs_nquads() { without } else { whole }
        };
        proofs = proofs.into_iter().zip(without).map(signed).collect();
    }
    let signers = proofs.iter().map(|secured| secured.proof().signer()).collect::<Result<Vec<Did>, _>>()?;
    let did = signers.first().cloned().ok_or(suites::Error::NoProofs)?;
    if let Some(other) = signers.into_iter().find(|signer| *signer != did) {
        return Err(Error::SeveralHolders(did, other));
    }
    let signer = did::resolve(&did, trust.web, trust.now).await?;
    for secured in &proofs {
        secured.verify(&signer, Purpose::Authentication, trust.now, trust.contexts)?;
    }
    Ok(did)
}

/// Checks the credentials of a request that `holder` was shown to have signed.
///
/// # Errors
/// [`Error::Credentials`], [`Error::Credential`] and [`Error::Json`].
pub async fn verify_credentials(document: &Document, holder: &Did, trust: Trust<'_>) -> Result<Vec<Credential>, Error> {
    let presented = presented(document)?;
    let mut credentials = Vec::with_capacity(presented.len());
    for (index, value) in presented.iter().enumerate() {
        let Value::Object(members) = value else { return Err(Error::Credentials) };
        let credential = Document::from_members(members.clone())?;
        let verified = credential::verify(&credential, holder, trust).await;
        credentials.push(verified.map_err(|error| Error::Credential { index, error })?);
    }
    Ok(credentials)
}

/// The credentials in a request, not believed yet.
fn presented(document: &Document) -> Result<&[Value], Error> {
    match document.pointer(CREDENTIALS) {
        None => Ok(&[]),
        Some(Value::Array(items)) if items.len() <= CREDENTIALS_MAX => Ok(items),
        Some(_) => Err(Error::Credentials),
    }
}
