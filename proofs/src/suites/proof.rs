//! Parsing: a document and its proof, separated.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::Error;
use crate::{contexts::DATA_INTEGRITY_V2, did::Did, json::Document};

/// A kind of proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Suite {
    /// `Ed25519Signature2018`.
    Ed25519Signature2018,
    /// `EcdsaSecp256k1Signature2019`.
    EcdsaSecp256k1Signature2019,
    /// `EcdsaSecp256k1RecoverySignature2020`.
    EcdsaSecp256k1RecoverySignature2020,
    /// `JsonWebSignature2020`.
    JsonWebSignature2020,
    /// `Ed25519Signature2020`.
    Ed25519Signature2020,
    /// `EthereumEip712Signature2021`.
    EthereumEip712Signature2021,
    /// `DataIntegrityProof` with `eddsa-rdfc-2022`.
    EddsaRdfc2022,
    /// `DataIntegrityProof` with `eddsa-jcs-2022`.
    EddsaJcs2022,
    /// `DataIntegrityProof` with `ecdsa-rdfc-2019`.
    EcdsaRdfc2019,
}

const DATA_INTEGRITY_PROOF: &str = "DataIntegrityProof";

impl Suite {
    /// Every suite.
    pub const ALL: [Self; 9] = [
        Self::Ed25519Signature2018,
        Self::EcdsaSecp256k1Signature2019,
        Self::EcdsaSecp256k1RecoverySignature2020,
        Self::JsonWebSignature2020,
        Self::Ed25519Signature2020,
        Self::EthereumEip712Signature2021,
        Self::EddsaRdfc2022,
        Self::EddsaJcs2022,
        Self::EcdsaRdfc2019,
    ];

    /// The value of `type`, or of `cryptosuite` beside `DataIntegrityProof`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ed25519Signature2018 => "Ed25519Signature2018",
            Self::EcdsaSecp256k1Signature2019 => "EcdsaSecp256k1Signature2019",
            Self::EcdsaSecp256k1RecoverySignature2020 => "EcdsaSecp256k1RecoverySignature2020",
            Self::JsonWebSignature2020 => "JsonWebSignature2020",
            Self::Ed25519Signature2020 => "Ed25519Signature2020",
            Self::EthereumEip712Signature2021 => "EthereumEip712Signature2021",
            Self::EddsaRdfc2022 => "eddsa-rdfc-2022",
            Self::EddsaJcs2022 => "eddsa-jcs-2022",
            Self::EcdsaRdfc2019 => "ecdsa-rdfc-2019",
        }
    }

    /// The member that carries the signature.
    pub fn carrier(self) -> &'static str {
        match self {
            Self::Ed25519Signature2018
            | Self::EcdsaSecp256k1Signature2019
            | Self::EcdsaSecp256k1RecoverySignature2020
            | Self::JsonWebSignature2020 => "jws",
            Self::Ed25519Signature2020
            | Self::EthereumEip712Signature2021
            | Self::EddsaRdfc2022
            | Self::EddsaJcs2022
            | Self::EcdsaRdfc2019 => "proofValue",
        }
    }

    pub(super) fn is_data_integrity(self) -> bool {
        matches!(self, Self::EddsaRdfc2022 | Self::EddsaJcs2022 | Self::EcdsaRdfc2019)
    }

    /// Contexts that map the proof's members, for documents whose own contexts do not.
    pub(super) fn contexts(self) -> &'static [&'static str] {
        match self {
            Self::Ed25519Signature2018 => &["https://w3id.org/security/suites/ed25519-2018/v1"],
            Self::EcdsaSecp256k1Signature2019 => &["https://w3id.org/security/v2"],
            Self::EcdsaSecp256k1RecoverySignature2020 => {
                &["https://w3id.org/security/suites/secp256k1recovery-2020/v2"]
            }
            // The suite's context leaves `type` itself to the document's.
            Self::JsonWebSignature2020 => {
                &["https://w3id.org/security/v2", "https://w3id.org/security/suites/jws-2020/v1"]
            }
            Self::Ed25519Signature2020 => &["https://w3id.org/security/suites/ed25519-2020/v1"],
            Self::EthereumEip712Signature2021 => &["https://w3id.org/security/suites/eip712sig-2021/v1"],
            Self::EddsaRdfc2022 | Self::EddsaJcs2022 | Self::EcdsaRdfc2019 => &[DATA_INTEGRITY_V2],
        }
    }

    pub(super) fn write(self, proof: &mut Map<String, Value>) {
        if self.is_data_integrity() {
            proof.insert("type".to_owned(), DATA_INTEGRITY_PROOF.into());
            proof.insert("cryptosuite".to_owned(), self.name().into());
        } else {
            proof.insert("type".to_owned(), self.name().into());
        }
    }

    fn read(proof: &Map<String, Value>) -> Result<Self, Error> {
        let kind = text(proof, "type")?.ok_or_else(|| member("type", "is missing"))?;
        let cryptosuite = text(proof, "cryptosuite")?;
        let name = match (kind, cryptosuite) {
            (DATA_INTEGRITY_PROOF, Some(name)) => name,
            (DATA_INTEGRITY_PROOF, None) => return Err(member("cryptosuite", "is missing")),
            (_, Some(_)) => return Err(member("cryptosuite", "is not of this suite")),
            (name, None) => name,
        };
        let known = Self::ALL.into_iter().find(|suite| suite.name() == name);
        known
            .filter(|suite| suite.is_data_integrity() == (kind == DATA_INTEGRITY_PROOF))
            .ok_or_else(|| Error::UnknownSuite(name.to_owned()))
    }
}

/// A proof as it stands beside a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Its kind.
    pub suite: Suite,
    /// When it was made, if it says so.
    pub created: Option<DateTime<Utc>>,
    /// Until when it holds, if it says so.
    pub expires: Option<DateTime<Utc>>,
    /// DID URL (or, in proofs of others, any URL) of the key.
    pub verification_method: String,
    /// What it was made for.
    pub proof_purpose: String,
    /// Whom it was made for, if it says so.
    pub domain: Option<String>,
    /// What it answers, if it says so.
    pub challenge: Option<String>,
    /// The signature as text.
    pub(super) value: String,
    /// All members but the signature.
    pub(super) options: Map<String, Value>,
}

/// A document and the one proof beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secured {
    pub(super) document: Document,
    pub(super) proof: Proof,
}

impl Secured {
    /// Takes the proof from the document.
    ///
    /// # Errors
    /// What is wrong with the form of the proof; nothing is verified yet.
    pub fn of(document: &Document) -> Result<Self, Error> {
        let mut members = document.members().clone();
        let proof = match members.remove("proof") {
            Some(Value::Object(proof)) => proof,
            Some(Value::Array(proofs)) => match <[Value; 1]>::try_from(proofs) {
                Ok([Value::Object(proof)]) => proof,
                _ => return Err(Error::NotOneProof),
            },
            _ => return Err(Error::NotOneProof),
        };
        Ok(Self { document: Document::from_checked(members), proof: Proof::read(proof)? })
    }

    /// The document without its proof.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The proof.
    pub fn proof(&self) -> &Proof {
        &self.proof
    }
}

impl Proof {
    /// The DID whose key the proof names.
    ///
    /// # Errors
    /// [`Error::Member`] when the verification method is not a DID URL with a fragment.
    pub fn signer(&self) -> Result<Did, Error> {
        let (did, _) = Did::of_url(&self.verification_method)
            .map_err(|_| member("verificationMethod", "is not a DID URL with a fragment"))?;
        Ok(did)
    }

    fn read(mut options: Map<String, Value>) -> Result<Self, Error> {
        let suite = Suite::read(&options)?;
        let other = if suite.carrier() == "jws" { "proofValue" } else { "jws" };
        if options.contains_key(other) || !options.contains_key(suite.carrier()) {
            return Err(Error::WrongCarrier { suite });
        }
        let value = text(&options, suite.carrier())?.unwrap_or_default().to_owned();
        options.remove(suite.carrier());
        for name in options.keys() {
            let known = match name.as_str() {
                "type" | "created" | "expires" | "verificationMethod" | "proofPurpose" | "challenge" | "domain"
                | "nonce" | "id" | "@context" => true,
                "cryptosuite" => suite.is_data_integrity(),
                "eip712" | "eip712Domain" => suite == Suite::EthereumEip712Signature2021,
                _ => false,
            };
            if !known {
                return Err(member(name, "is unknown"));
            }
        }
        let created = time(&options, "created")?;
        let expires = time(&options, "expires")?;
        if created.is_none() && !suite.is_data_integrity() {
            return Err(member("created", "is missing"));
        }
        if created.zip(expires).is_some_and(|(created, expires)| expires <= created) {
            return Err(member("expires", "is not after `created`"));
        }
        let required = |name: &'static str| {
            let value = text(&options, name)?.ok_or_else(|| member(name, "is missing"))?;
            Ok::<_, Error>(value.to_owned())
        };
        Ok(Self {
            suite,
            created,
            expires,
            verification_method: required("verificationMethod")?,
            proof_purpose: required("proofPurpose")?,
            domain: text(&options, "domain")?.map(str::to_owned),
            challenge: text(&options, "challenge")?.map(str::to_owned),
            value,
            options,
        })
    }
}

pub(super) fn member(name: &str, reason: &'static str) -> Error {
    Error::Member { member: name.to_owned(), reason }
}

fn text<'a>(members: &'a Map<String, Value>, name: &'static str) -> Result<Option<&'a str>, Error> {
    match members.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(member(name, "is not a string")),
    }
}

fn time(members: &Map<String, Value>, name: &'static str) -> Result<Option<DateTime<Utc>>, Error> {
    let Some(text) = text(members, name)? else { return Ok(None) };
    let time = DateTime::parse_from_rfc3339(text).map_err(|_| member(name, "is not a date-time with an offset"))?;
    Ok(Some(time.with_timezone(&Utc)))
}
