//! Request verification: the proofs, credentials and carriers of a request.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use tokio::time::timeout;

use events::{
    Hash32,
    identity::{Carrier, PresentedCredential, ProvenIdentity},
    time::Timestamp,
};
use proofs::{
    credential::{self, Credential},
    did::{self, Did, Purpose},
    envelope,
    json::Document,
    suites::{self, Secured, verify_text},
};

use super::{Identities, VERIFY_MAX, legacy::Auth};

/// Why what a request claims about identity is not believed. Texts are for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A proof does not hold, so it is not known who asks.
    #[error("{0}")]
    Proof(String),
    /// The proof holds, and a credential beside it does not count.
    #[error("{0}")]
    Credential(String),
    /// A site did not answer, so nothing is known.
    #[error("{0}")]
    Unavailable(String),
}

/// One who signed the request, and the credentials about him that hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Where his proof stands.
    pub carrier: Carrier,
    /// His DID.
    pub did: Did,
    /// DID URL of the key he signed with.
    pub verification_method: String,
    /// Each with the SHA-256 of its RFC 8785 form.
    pub credentials: Vec<(Hash32, Credential)>,
}

/// What is proven about who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proven {
    holders: Vec<Holder>,
    /// What is wrong with the credentials.
    fault: Option<Refusal>,
    at: Timestamp,
}

/// Nothing is proven: the source account asks for itself.
pub static NOBODY: Proven = Proven { holders: Vec::new(), fault: None, at: DateTime::<Utc>::UNIX_EPOCH };

impl Proven {
    /// Who asks, where a proof says so: the envelope's holder, else the DID of `originator_auth` (spec 2.5).
    pub fn originator(&self) -> Option<&Did> {
        let of = |carrier| self.holders.iter().find(|holder| holder.carrier == carrier);
        of(Carrier::Envelope).or_else(|| of(Carrier::OriginatorAuth)).map(|holder| &holder.did)
    }

    /// What proves the originator; `None` when the source account does.
    pub fn proven_by(&self) -> Option<Carrier> {
        let carriers = [Carrier::Envelope, Carrier::OriginatorAuth];
        carriers.into_iter().find(|carrier| self.holders.iter().any(|holder| holder.carrier == *carrier))
    }

    /// All who signed.
    pub fn holders(&self) -> &[Holder] {
        &self.holders
    }

    /// Whether every credential counts. What exists is shown whatever has become of the credentials it was asked for
    /// with, so this is for what is new.
    ///
    /// # Errors
    /// [`Refusal::Credential`] or [`Refusal::Unavailable`].
    pub fn credentials_count(&self) -> Result<(), Refusal> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    /// For the journal.
    pub fn identities(&self) -> Vec<ProvenIdentity> {
        let text = |did: &Did| did.as_str().parse::<events::Did>();
        let credential = |(hash, credential): &(Hash32, Credential)| {
            Some(PresentedCredential {
                credential_hash: *hash,
                issuer: text(&credential.issuer).ok()?,
                types: credential.types.clone(),
                expires: credential.expires,
            })
        };
        let identity = |holder: &Holder| {
            Some(ProvenIdentity {
                carrier: holder.carrier,
                did: text(&holder.did).ok()?,
                verification_method: holder.verification_method.clone(),
                verified_at: self.at,
                credentials: holder.credentials.iter().filter_map(credential).collect(),
            })
        };
        self.holders.iter().filter_map(identity).collect()
    }
}

/// Whether a body says that it comes in an envelope. A `@context` alone claims nothing.
fn is_enveloped(body: &Map<String, Value>) -> bool {
    let presents = body.get("verifiableCredential").and_then(Value::as_array).is_some_and(|items| !items.is_empty());
    body.contains_key("proof") || presents
}

impl Identities {
    /// Verifies every proof in a body whose form was checked: envelope and deprecated carriers. `audience` is the address
    /// of this service, for proofs that name a `domain`.
    ///
    /// # Errors
    /// [`Refusal::Proof`] and [`Refusal::Unavailable`]; what is wrong with credentials is in [`Proven`].
    pub async fn of_request(
        &self,
        text: &str,
        body: &Map<String, Value>,
        audience: &str,
        now: Timestamp,
    ) -> Result<Proven, Refusal> {
        let verified = timeout(VERIFY_MAX, self.verify(text, body, Some(audience), now)).await;
        verified.unwrap_or_else(|_| Err(Refusal::Unavailable("identities could not be verified in time".to_owned())))
    }

    /// As [`Identities::of_request`], in whatever time it takes; a proof may be for any service where none is given.
    pub(super) async fn verify(
        &self,
        text: &str,
        body: &Map<String, Value>,
        audience: Option<&str>,
        now: Timestamp,
    ) -> Result<Proven, Refusal> {
        let mut proven = Proven { holders: Vec::new(), fault: None, at: now };
        if is_enveloped(body) {
            let document = Document::parse(text).map_err(|error| Refusal::Proof(format!("proof: {error}")))?;
            let refused = |error: envelope::Error| {
                let text = format!("proof: {error}");
                if error.is_transient() { Refusal::Unavailable(text) } else { Refusal::Proof(text) }
            };
            let trust = self.trust(now);
            let did = envelope::verify_holder(&document, trust).await.map_err(refused)?;
            let verification_method = check_domain(&document, audience)?;
            let mut holder = Holder { carrier: Carrier::Envelope, did, verification_method, credentials: Vec::new() };
            match envelope::verify_credentials(&document, &holder.did, trust).await {
                Ok(credentials) => {
                    let presented = body.get("verifiableCredential").and_then(Value::as_array).into_iter().flatten();
                    holder.credentials = presented.map(hash).zip(credentials).collect();
                }
                Err(error) => proven.fault = Some(credential_fault(error.is_transient(), error.to_string())),
            }
            proven.holders.push(holder);
        }
        for auth in Auth::all(body) {
            let (holder, fault) = self.carried(&auth, body, now).await?;
            proven.fault = proven.fault.or(fault);
            proven.holders.push(holder);
        }
        Ok(proven)
    }

    /// Who a deprecated carrier proves, and what is wrong with his credential.
    async fn carried(
        &self,
        auth: &Auth<'_>,
        body: &Map<String, Value>,
        now: Timestamp,
    ) -> Result<(Holder, Option<Refusal>), Refusal> {
        let at = auth.carrier.path();
        let refused = |what: &str, reason: String| Refusal::Proof(format!("{at}.{what}: {reason}"));
        let trust = self.trust(now);
        let method = auth.verification_method;
        let (did, _) = Did::of_url(method)
            .map_err(|_| refused("verification_method_id", "is not a DID URL with a fragment".to_owned()))?;
        let signer = did::resolve(&did, trust.web, now).await.map_err(|error| match error {
            did::Error::Unavailable { .. } => Refusal::Unavailable(format!("{at}: {error}")),
            _ => refused("verification_method_id", error.to_string()),
        })?;
        let authorised = signer.authorised(method, Purpose::Authentication);
        let key = &authorised.map_err(|error| refused("verification_method_id", error.to_string()))?.key;
        let signed = auth.carrier.signed_text(body, auth.credential, method);
        let signed = signed.ok_or_else(|| refused("signature", "the request has no RFC 8785 form".to_owned()))?;
        verify_text(key, &signed, auth.signature).map_err(|error| refused("signature", error.to_string()))?;

        let (carrier, verification_method) = (auth.carrier, method.to_owned());
        let mut holder = Holder { carrier, did, verification_method, credentials: Vec::new() };
        let fault = match Document::from_members(auth.credential.clone()) {
            Err(error) => Some(credential_fault(false, format!("{at}.verifiable_credential: {error}"))),
            Ok(document) => match credential::verify(&document, &holder.did, trust).await {
                Err(error) => {
                    let text = format!("{at}.verifiable_credential: {error}");
                    Some(credential_fault(error.is_transient(), text))
                }
                Ok(credential) => {
                    holder.credentials.push((hash(&Value::Object(auth.credential.clone())), credential));
                    None
                }
            },
        };
        Ok((holder, fault))
    }
}

fn credential_fault(is_transient: bool, text: String) -> Refusal {
    if is_transient { Refusal::Unavailable(text) } else { Refusal::Credential(text) }
}

/// The key that the proof names, of several proofs the first. A proof that was made for another service does not hold at
/// this one.
fn check_domain(document: &Document, audience: Option<&str>) -> Result<String, Refusal> {
    let refused = |error: suites::Error| Refusal::Proof(format!("proof: {error}"));
    let proofs = Secured::all(document).map_err(refused)?;
    for domain in proofs.iter().filter_map(|secured| secured.proof().domain.as_ref()) {
        let Some(audience) = audience else { continue };
        let url = url::Url::parse(audience).ok();
        let host = url.as_ref().and_then(url::Url::host_str).unwrap_or_default();
        if domain != audience && domain != host {
            return Err(Refusal::Proof(format!("proof: domain is neither {audience} nor {host}")));
        }
    }
    let first = proofs.first().ok_or(suites::Error::NoProofs).map_err(refused)?;
    Ok(first.proof().verification_method.clone())
}

/// SHA-256 of a value's RFC 8785 form. Values from outside have one: they were read from JSON.
pub(super) fn hash(value: &Value) -> Hash32 {
    Hash32::sha256(serde_json_canonicalizer::to_vec(value).unwrap_or_default())
}
