//! Parsing: a document and its proofs, separated.

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
    /// `DataIntegrityProof` with `ecdsa-jcs-2019`.
    EcdsaJcs2019,
}

/// Most proofs of one document: each is verified, and its signer may have to be asked for.
pub const PROOFS_MAX: usize = 4;
const DATA_INTEGRITY_PROOF: &str = "DataIntegrityProof";

impl Suite {
    /// Every suite.
    pub const ALL: [Self; 10] = [
        Self::Ed25519Signature2018,
        Self::EcdsaSecp256k1Signature2019,
        Self::EcdsaSecp256k1RecoverySignature2020,
        Self::JsonWebSignature2020,
        Self::Ed25519Signature2020,
        Self::EthereumEip712Signature2021,
        Self::EddsaRdfc2022,
        Self::EddsaJcs2022,
        Self::EcdsaRdfc2019,
        Self::EcdsaJcs2019,
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
            Self::EcdsaJcs2019 => "ecdsa-jcs-2019",
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
            | Self::EcdsaRdfc2019
            | Self::EcdsaJcs2019 => "proofValue",
        }
    }

    pub(super) fn is_data_integrity(self) -> bool {
        matches!(self, Self::EddsaRdfc2022 | Self::EddsaJcs2022 | Self::EcdsaRdfc2019 | Self::EcdsaJcs2019)
    }

    /// Whether it signs RFC 8785 forms, in which every member stands as it was written.
    pub(super) fn signs_jcs(self) -> bool {
        matches!(self, Self::EddsaJcs2022 | Self::EcdsaJcs2019)
    }

    /// Whether it signs N-Quads, in which only what the document says in RDF stands.
    pub(crate) fn signs_nquads(self) -> bool {
        !self.signs_jcs() && self != Self::EthereumEip712Signature2021
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
            Self::EddsaRdfc2022 | Self::EddsaJcs2022 | Self::EcdsaRdfc2019 | Self::EcdsaJcs2019 => &[DATA_INTEGRITY_V2],
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
    /// Its own name, by which other proofs say that they cover it.
    pub(super) id: Option<String>,
    /// Names of the proofs that it covers beside the document.
    pub(super) previous: Vec<String>,
    /// The signature as text.
    pub(super) value: String,
    /// All members but the signature.
    pub(super) options: Map<String, Value>,
}

/// A document and a proof beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secured {
    /// What the proof covers: the document, with those proofs in it that it names as previous.
    pub(super) document: Document,
    pub(super) proof: Proof,
}

impl Secured {
    /// Takes the one proof from the document.
    ///
    /// # Errors
    /// What is wrong with the form of the proof; nothing is verified yet.
    pub fn of(document: &Document) -> Result<Self, Error> {
        match document.members().get("proof") {
            Some(Value::Object(_)) => {}
            Some(Value::Array(proofs)) if proofs.len() == 1 => {}
            _ => return Err(Error::NotOneProof),
        }
        // One that stands alone has nothing it could name as previous.
        Self::all(document)?.pop().ok_or(Error::NotOneProof)
    }

    /// Takes every proof from the document, in the order of the list, each with what it covers: proofs of a set cover
    /// the document, those of a chain also the proofs that their `previousProof` names (Data Integrity 1.0, section 4.3).
    ///
    /// # Errors
    /// What is wrong with the form of a proof; nothing is verified yet.
    pub fn all(document: &Document) -> Result<Vec<Self>, Error> {
        let mut members = document.members().clone();
        let written = match members.remove("proof") {
            Some(proof @ Value::Object(_)) => vec![proof],
            Some(Value::Array(proofs)) if (1..=PROOFS_MAX).contains(&proofs.len()) => proofs,
            _ => return Err(Error::NoProofs),
        };
        let mut proofs = Vec::with_capacity(written.len());
        for proof in &written {
            let Value::Object(proof) = proof else { return Err(Error::NoProofs) };
            proofs.push(Proof::read(proof.clone())?);
        }
        let names: Vec<Option<&str>> = proofs.iter().map(|proof| proof.id.as_deref()).collect();
        let repeated = |at: usize| names[at].is_some() && names[..at].contains(&names[at]);
        if (0..names.len()).any(repeated) {
            return Err(member("id", "is another proof's, too"));
        }
        let unknown =
            |proof: &Proof, name: &String| proof.id.as_ref() == Some(name) || !names.contains(&Some(name.as_str()));
        if proofs.iter().any(|proof| proof.previous.iter().any(|name| unknown(proof, name))) {
            return Err(member("previousProof", "names a proof that is not beside it"));
        }
        let covered = |proof: &Proof| {
            let previous = written
                .iter()
                .zip(&names)
                .filter(|(_, name)| name.is_some_and(|name| proof.previous.iter().any(|previous| previous == name)));
            let previous: Vec<Value> = previous.map(|(written, _)| written.clone()).collect();
            let mut members = members.clone();
            if !previous.is_empty() {
                members.insert("proof".to_owned(), Value::Array(previous));
            }
            Document::from_checked(members)
        };
        let documents: Vec<Document> = proofs.iter().map(covered).collect();
        let secured = documents.into_iter().zip(proofs).map(|(document, proof)| Self { document, proof });
        Ok(secured.collect())
    }

    /// What the proof covers: the document without its proofs, but for those that this one names as previous.
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
                "cryptosuite" | "previousProof" => suite.is_data_integrity(),
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
            id: text(&options, "id")?.map(str::to_owned),
            previous: previous(&options)?,
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

/// The names in `previousProof`: one, or a list of some.
fn previous(members: &Map<String, Value>) -> Result<Vec<String>, Error> {
    let wrong = || member("previousProof", "is neither a string nor a list of strings");
    let names = match members.get("previousProof") {
        None => return Ok(Vec::new()),
        Some(Value::Array(names)) if !names.is_empty() => names.as_slice(),
        Some(name) => std::slice::from_ref(name),
    };
    names.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

fn time(members: &Map<String, Value>, name: &'static str) -> Result<Option<DateTime<Utc>>, Error> {
    let Some(text) = text(members, name)? else { return Ok(None) };
    let time = DateTime::parse_from_rfc3339(text).map_err(|_| member(name, "is not a date-time with an offset"))?;
    Ok(Some(time.with_timezone(&Utc)))
}
