//! Verifiable credentials, data model 1.1: the statements of an issuer about a holder.
//!
//! A credential counts when its issuer signed it, it is in its time, and it is about the one who presents it. Whether the
//! issuer is to be believed is the policies' question. `credentialStatus` is not consulted (spec 2.5).

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Map, Value};

use crate::{
    canonical::NQuads,
    contexts::{CREDENTIALS_V1, Contexts},
    did::{self, Did, Purpose, Web},
    json::Document,
    suites::{self, CLOCK_SKEW_SECONDS_MAX, Secured},
};

/// The trust that verification relies on.
#[derive(Debug, Clone, Copy)]
pub struct Trust<'a> {
    /// The contexts that documents may name.
    pub contexts: &'a Contexts,
    /// The sites whose `did:web` are asked.
    pub web: Web<'a>,
    /// The time it is.
    pub now: DateTime<Utc>,
}

/// A credential that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// Its `id`, if it has one.
    pub id: Option<String>,
    /// Its types, `VerifiableCredential` among them.
    pub types: Vec<String>,
    /// Who says it.
    pub issuer: Did,
    /// Of whom: the holder.
    pub subject: Did,
    /// What is said: the members of `credentialSubject` but `id`.
    pub claims: Map<String, Value>,
    /// Since when it holds.
    pub issued: DateTime<Utc>,
    /// Until when it holds.
    pub expires: Option<DateTime<Utc>>,
}

/// Why a credential does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first context is not that of the data model 1.1.
    #[error("credential's first @context is not {CREDENTIALS_V1}")]
    Context,
    /// A member is missing or malformed.
    #[error("credential's `{member}` {reason}")]
    Member {
        /// Name of the member.
        member: &'static str,
        /// The defect.
        reason: &'static str,
    },
    /// The issuance date has not come.
    #[error("credential is not valid yet")]
    NotYetValid,
    /// The expiration date is over.
    #[error("credential has expired")]
    Expired,
    /// It speaks of somebody else.
    #[error("credential is about another than {0}")]
    Subject(Did),
    /// What is said of the subject, or of the credential, stands where a reader of `credentialSubject` misses it.
    #[error("credential says something in a place where it is not looked for: {0}")]
    Hidden(&'static str),
    /// No proof names a key of the issuer.
    #[error("credential is signed by {0}, not by its issuer")]
    NotTheIssuer(Did),
    /// The issuer, or who signed beside him, cannot be resolved.
    #[error("credential's issuer: {0}")]
    Issuer(#[from] did::Error),
    /// The proof does not hold.
    #[error("credential's proof: {0}")]
    Proof(#[from] suites::Error),
}

impl Error {
    /// Whether it may be otherwise another time, with nothing changed in the credential.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Issuer(did::Error::Unavailable { .. }))
    }
}

/// Checks that a credential holds and is about `holder`. Of several proofs each has to hold, and one has to be the
/// issuer's; others may witness it.
///
/// # Errors
/// See [`Error`]; only [`Error::is_transient`] ones may go away by themselves.
pub async fn verify(document: &Document, holder: &Did, trust: Trust<'_>) -> Result<Credential, Error> {
    let credential = read(document, trust.now)?;
    if credential.subject != *holder {
        return Err(Error::Subject(holder.clone()));
    }
    let proofs = Secured::all(document)?;
    let signers = proofs.iter().map(|secured| secured.proof().signer()).collect::<Result<Vec<Did>, _>>()?;
    if !signers.contains(&credential.issuer) {
        let other = signers.into_iter().next().ok_or(suites::Error::NoProofs)?;
        return Err(Error::NotTheIssuer(other));
    }
    for (secured, did) in proofs.iter().zip(&signers) {
        let signer = did::resolve(did, trust.web, trust.now).await?;
        let verified = secured.verify(&signer, Purpose::AssertionMethod, trust.now, trust.contexts)?;
        if let Some(nquads) = verified.nquads {
            check_statements(document, &nquads)?;
        }
    }
    Ok(credential)
}

fn wrong(member: &'static str, reason: &'static str) -> Error {
    Error::Member { member, reason }
}

/// What a credential says, before anybody is believed.
fn read(document: &Document, now: DateTime<Utc>) -> Result<Credential, Error> {
    let members = document.members();
    let contexts = members.get("@context").and_then(Value::as_array).ok_or(Error::Context)?;
    if contexts.first().and_then(Value::as_str) != Some(CREDENTIALS_V1) {
        return Err(Error::Context);
    }
    let id = match members.get("id") {
        None => None,
        Some(Value::String(id)) => Some(id.clone()),
        Some(_) => return Err(wrong("id", "is not a string")),
    };
    let types = members.get("type").and_then(Value::as_array).ok_or(wrong("type", "is not a list"))?;
    let types: Option<Vec<String>> = types.iter().map(|kind| kind.as_str().map(str::to_owned)).collect();
    let types = types.ok_or(wrong("type", "is not a list of strings"))?;
    if !types.iter().any(|kind| kind == "VerifiableCredential") {
        return Err(wrong("type", "does not include VerifiableCredential"));
    }
    let issuer = match members.get("issuer") {
        Some(Value::Object(issuer)) => issuer.get("id").and_then(Value::as_str),
        other => other.and_then(Value::as_str),
    };
    let issuer = issuer.and_then(|issuer| issuer.parse().ok()).ok_or(wrong("issuer", "is not a DID"))?;
    let issued = time(members, "issuanceDate")?.ok_or(wrong("issuanceDate", "is missing"))?;
    if issued > now + TimeDelta::seconds(CLOCK_SKEW_SECONDS_MAX) {
        return Err(Error::NotYetValid);
    }
    let expires = time(members, "expirationDate")?;
    if expires.is_some_and(|expires| expires <= now) {
        return Err(Error::Expired);
    }
    let Some(Value::Object(claims)) = members.get("credentialSubject") else {
        return Err(wrong("credentialSubject", "is not an object"));
    };
    let mut claims = claims.clone();
    let subject = claims.remove("id").and_then(|id| id.as_str().map(str::to_owned));
    let subject = subject.ok_or(wrong("credentialSubject", "has no id"))?;
    let elsewhere = members.iter().filter(|(name, _)| !matches!(name.as_str(), "credentialSubject" | "proof"));
    if elsewhere.into_iter().any(|(_, value)| describes(value, &subject))
        || claims.values().any(|value| describes(value, &subject))
    {
        return Err(Error::Hidden("the subject is described outside credentialSubject"));
    }
    let subject = subject.parse().map_err(|_| wrong("credentialSubject", "has an id that is not a DID"))?;
    Ok(Credential { id, types, issuer, subject, claims, issued, expires })
}

fn time(members: &Map<String, Value>, name: &'static str) -> Result<Option<DateTime<Utc>>, Error> {
    let Some(value) = members.get(name) else { return Ok(None) };
    let time = value.as_str().and_then(|text| DateTime::parse_from_rfc3339(text).ok());
    time.map(|time| Some(time.with_timezone(&Utc))).ok_or(wrong(name, "is not a date-time with an offset"))
}

/// Whether a value holds an object with this id and more than the id.
fn describes(value: &Value, id: &str) -> bool {
    match value {
        Value::Object(members) => {
            (members.get("id").and_then(Value::as_str) == Some(id) && members.len() > 1)
                || members.values().any(|value| describes(value, id))
        }
        Value::Array(items) => items.iter().any(|value| describes(value, id)),
        _ => false,
    }
}

/// Compares what was read with what was signed. `@context` is in no hash, so under contexts of somebody's choice a date
/// could go by a name under which nobody looks for it.
fn check_statements(document: &Document, nquads: &NQuads) -> Result<(), Error> {
    for member in ["issuer", "issuanceDate", "expirationDate", "credentialSubject"] {
        let predicate = format!(" <https://www.w3.org/2018/credentials#{member}> ");
        let stated = nquads.as_str().lines().filter(|line| line.contains(&predicate)).count();
        if stated != usize::from(document.members().contains_key(member)) {
            return Err(Error::Hidden(member));
        }
    }
    Ok(())
}
