//! A holder: somebody with a DID who signs requests and credentials the way a client or an issuer does.

use anyhow::{Context, Result};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Map, Value, json};

use events::identity::Carrier;
use proofs::{
    contexts::{CREDENTIALS_V1, Contexts, DATA_INTEGRITY_V2, GATEWAY_V1},
    did::{Did, Purpose},
    json::Document,
    suites::{self, Options, SigningKey, Suite},
};

/// A DID with its key.
#[derive(Clone)]
pub struct Holder {
    key: SigningKey,
    did: Did,
    method: String,
}

impl Holder {
    /// The `did:key` of a key.
    ///
    /// # Errors
    /// When there is none.
    pub fn of_key(key: SigningKey) -> Result<Self> {
        let did = Did::from_key(&key.public()).context("the key has no did:key")?;
        let method = did.key_verification_method().context("a did:key has a verification method")?;
        Ok(Self { key, did, method })
    }

    /// An Ed25519 `did:key` for development and tests.
    ///
    /// # Errors
    /// Never, in fact.
    pub fn ed25519(seed: u8) -> Result<Self> {
        Self::of_key(SigningKey::Ed25519(ed25519_dalek::SigningKey::from_bytes(&[seed; 32])))
    }

    /// A DID whose document says that `key` is the one behind the DID URL `method`.
    ///
    /// # Errors
    /// When `method` is not a DID URL.
    pub fn with_method(key: SigningKey, method: &str) -> Result<Self> {
        let (did, _) = Did::of_url(method)?;
        Ok(Self { key, did, method: method.to_owned() })
    }

    /// The DID.
    pub fn did(&self) -> &Did {
        &self.did
    }

    /// `body` in an envelope signed at `now`, with `credentials` in it.
    ///
    /// # Errors
    /// When the body cannot be signed; the text says why.
    pub fn envelope(&self, body: &Value, suite: Suite, credentials: &[Value], now: DateTime<Utc>) -> Result<Value> {
        let mut members = body.as_object().context("a body is an object")?.clone();
        members.insert("@context".to_owned(), json!([GATEWAY_V1, DATA_INTEGRITY_V2]));
        if !credentials.is_empty() {
            members.insert("verifiableCredential".to_owned(), credentials.into());
        }
        self.sign(members, suite, Purpose::Authentication, now)
    }

    /// A credential of this issuer about `subject`, from an hour ago until an hour from `now`.
    ///
    /// # Errors
    /// When it cannot be signed.
    pub fn credential(&self, subject: &str, kind: &str, claims: &Value, now: DateTime<Utc>) -> Result<Value> {
        let time = |hours: i64| (now + TimeDelta::hours(hours)).to_rfc3339_opts(SecondsFormat::Secs, true);
        let mut about = claims.as_object().cloned().unwrap_or_default();
        about.insert("id".to_owned(), subject.into());
        let credential = json!({
            "@context": [CREDENTIALS_V1],
            "id": "urn:uuid:2f3bb5a0-0d0e-4b4b-9c0e-5f0f3bfb1b1a",
            "type": ["VerifiableCredential", kind],
            "issuer": self.did.as_str(),
            "issuanceDate": time(-1),
            "expirationDate": time(1),
            "credentialSubject": about,
        });
        self.issue(credential, now)
    }

    /// A credential with this issuer's proof. It is made by eddsa-jcs-2022, which takes types and claims of no context.
    ///
    /// # Errors
    /// When it cannot be signed.
    pub fn issue(&self, credential: Value, now: DateTime<Utc>) -> Result<Value> {
        let Value::Object(members) = credential else { anyhow::bail!("a credential is an object") };
        self.sign(members, Suite::EddsaJcs2022, Purpose::AssertionMethod, now)
    }

    /// A deprecated carrier for `body`, with its signature.
    ///
    /// # Errors
    /// When the key is of another kind than Ed25519.
    pub fn carrier(&self, carrier: Carrier, body: &Value, credential: &Value) -> Result<Value> {
        use ed25519_dalek::Signer;

        let SigningKey::Ed25519(key) = &self.key else { anyhow::bail!("the key is not an Ed25519 key") };
        let (body, held) = (body.as_object().context("an object")?, credential.as_object().context("an object")?);
        let text = carrier.signed_text(body, held, &self.method).context("no RFC 8785 form")?;
        let signature = format!("0x{}", hex::encode(key.sign(text.as_bytes()).to_bytes()));
        Ok(json!({
            "verifiable_credential": credential,
            "verification_method_id": self.method,
            "signature": signature,
        }))
    }

    fn sign(
        &self,
        members: Map<String, Value>,
        suite: Suite,
        purpose: Purpose,
        created: DateTime<Utc>,
    ) -> Result<Value> {
        let options = Options { verification_method: self.method.clone(), purpose, created, expires: None };
        let document = Document::from_members(members)?;
        let signed = suites::sign(&document, suite, &self.key, &options, Contexts::bundled())?;
        Ok(Value::Object(signed.members().clone()))
    }
}
