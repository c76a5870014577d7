//! AWS KMS: keys of secp256k1 and Ed25519 that never leave the service.
//!
//! Its API is one path, to which JSON is posted, signed with AWS's Signature Version 4. A digest is signed as it is
//! (`MessageType: DIGEST`), so one key serves Keccak-256 and SHA-256. What comes is DER, without a parity and with either `s`.

mod credentials;

use std::time::{Duration, SystemTime};

use alloy::{
    primitives::{Address, Signature, U256, keccak256},
    signers::k256::ecdsa,
};
use async_trait::async_trait;
use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4::SigningParams,
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use url::Url;

pub use self::credentials::AwsCredentials;
use crate::{Curve, Ed25519, Hash, Key, Secp256k1, SignError, Signer, http::Service, verification};

/// DER of a public key of secp256k1 up to its uncompressed point (RFC 5480).
const SECP256K1_DER: [u8; 24] = [
    0x30, 0x56, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00,
    0x0a, 0x03, 0x42, 0x00, 0x04,
];
/// DER of a public key of Ed25519 up to the key (RFC 8410).
const ED25519_DER: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const CONTENT_TYPE: &str = "application/x-amz-json-1.1";

/// Where a key of KMS is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KmsPlace {
    /// The key's id, ARN or alias (`alias/…`).
    pub key_id: String,
    /// The region, `eu-central-1`.
    pub region: String,
    /// Another address than the region's own: that of a private endpoint.
    pub endpoint: Option<Url>,
    /// How long each call may take.
    pub call_max: Duration,
}

/// A key in KMS.
#[derive(Debug)]
struct Kms<C: Curve> {
    service: Service,
    place: KmsPlace,
    endpoint: Url,
    credentials: AwsCredentials,
    account: C::Public,
}

/// An answer to `Sign`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Signed {
    signature: String,
}

/// An answer to `GetPublicKey`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Public {
    public_key: String,
}

/// Why a call came to nothing.
struct Refusal {
    error: SignError,
    /// AWS does not take the credentials, or not any more.
    is_of_credentials: bool,
}

impl From<SignError> for Refusal {
    fn from(error: SignError) -> Self {
        Self { error, is_of_credentials: false }
    }
}

impl<C: Curve> Kms<C> {
    fn new(place: KmsPlace, account: C::Public, credentials: AwsCredentials) -> Result<Self, SignError> {
        let key = format!("the key of {} in AWS KMS, {}", C::text(&account), place.key_id);
        let endpoint = match &place.endpoint {
            Some(endpoint) => Ok(endpoint.clone()),
            None => format!("https://kms.{}.amazonaws.com/", place.region).parse(),
        };
        let endpoint = endpoint.map_err(|_| SignError::Unusable {
            key: key.clone(),
            reason: format!("{:?} is not a region", place.region),
        })?;
        let service = Service::new(key, place.call_max)?;
        Ok(Self { service, endpoint, credentials, place, account })
    }

    /// Calls `operation` of the API.
    async fn call<A: DeserializeOwned>(&self, operation: &str, body: Value) -> Result<A, SignError> {
        let body = body.to_string();
        let credentials = self.credentials.get(&self.service).await?;
        let refusal = match self.call_with(&credentials, operation, &body).await {
            Ok(answer) => return Ok(answer),
            Err(refusal) => refusal,
        };
        // They were taken back before their time; a container's endpoint may give others by now.
        if refusal.is_of_credentials && self.credentials.forget(&credentials).await {
            let others = self.credentials.get(&self.service).await?;
            return self.call_with(&others, operation, &body).await.map_err(|refusal| refusal.error);
        }
        Err(refusal.error)
    }

    async fn call_with<A: DeserializeOwned>(
        &self,
        credentials: &Credentials,
        operation: &str,
        body: &str,
    ) -> Result<A, Refusal> {
        let target = format!("TrentService.{operation}");
        let mut request = self.service.post(self.endpoint.clone());
        for (name, value) in self.signed_headers(credentials, &target, body.as_bytes())? {
            request = request.header(name, value);
        }
        let request = request.header("content-type", CONTENT_TYPE).header("x-amz-target", target).body(body.to_owned());
        let answer = self.service.ask(request).await?;
        match answer.status {
            200 => serde_json::from_slice(&answer.body)
                .map_err(|_| self.service.unreadable(format!("its answer to {operation} is not one")).into()),
            status => Err(self.refusal(status, &answer.body)),
        }
    }

    /// What Signature Version 4 adds to a request.
    fn signed_headers(
        &self,
        credentials: &Credentials,
        target: &str,
        body: &[u8],
    ) -> Result<Vec<(String, String)>, SignError> {
        let unusable =
            |reason: String| SignError::Unusable { key: self.service.key.clone(), reason: format!("SigV4: {reason}") };
        let identity = credentials.clone().into();
        let parameters = SigningParams::builder()
            .identity(&identity)
            .region(&self.place.region)
            .name("kms")
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| unusable(error.to_string()))?
            .into();
        let headers = [("content-type", CONTENT_TYPE), ("x-amz-target", target)];
        let request =
            SignableRequest::new("POST", self.endpoint.as_str(), headers.into_iter(), SignableBody::Bytes(body))
                .map_err(|error| unusable(error.to_string()))?;
        let (instructions, _) = sign(request, &parameters).map_err(|error| unusable(error.to_string()))?.into_parts();
        Ok(instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// What a refusal says. Its type is the service's own word for it, and its text may name accounts of AWS, and no key.
    fn refusal(&self, status: u16, body: &[u8]) -> Refusal {
        let said: Value = serde_json::from_slice(body).unwrap_or_default();
        let name = said.get("__type").and_then(Value::as_str).unwrap_or_default();
        let name = name.rsplit('#').next().unwrap_or_default();
        let key = self.service.key.clone();
        let reason = format!("HTTP {status}: {name}");
        let error = if name.contains("Throttling") || name.contains("LimitExceeded") {
            SignError::RateLimited { key, reason }
        } else if name.contains("Timeout") || name.contains("Internal") || name.contains("KeyUnavailable") {
            SignError::Unreachable { key, reason }
        } else {
            self.service.of_status(status, name)
        };
        Refusal { error, is_of_credentials: matches!(name, "ExpiredTokenException" | "UnrecognizedClientException") }
    }

    async fn sign_as(&self, message: &[u8], kind: &str, algorithm: &str) -> Result<Vec<u8>, SignError> {
        let body = json!({
            "KeyId": self.place.key_id,
            "Message": BASE64.encode(message),
            "MessageType": kind,
            "SigningAlgorithm": algorithm,
        });
        let Signed { signature } = self.call("Sign", body).await?;
        BASE64.decode(signature).map_err(|_| self.service.unreadable("its signature is not Base64"))
    }

    async fn public_key(&self) -> Result<Vec<u8>, SignError> {
        let Public { public_key } = self.call("GetPublicKey", json!({"KeyId": self.place.key_id})).await?;
        BASE64.decode(public_key).map_err(|_| self.service.unreadable("its public key is not Base64"))
    }

    fn other_key(&self, found: Option<&C::Public>) -> SignError {
        let (account, found) = (C::text(&self.account), found.map(C::text));
        SignError::OtherKey { key: self.service.key.clone(), account, found }
    }

    /// Compares what the service has with what it should have.
    fn compare(&self, found: C::Public) -> Result<(), SignError> {
        if found == self.account { Ok(()) } else { Err(self.other_key(Some(&found))) }
    }
}

impl Key<Secp256k1> {
    /// The key of `account` in KMS, of the spec `ECC_SECG_P256K1`. Nothing is asked yet.
    ///
    /// # Errors
    /// [`SignError::Unusable`] where the place cannot be one.
    pub fn kms(place: KmsPlace, account: Address, credentials: AwsCredentials) -> Result<Self, SignError> {
        Kms::<Secp256k1>::new(place, account, credentials).map(Self::new)
    }
}

impl Key<Ed25519> {
    /// The key of `account` in KMS, of the spec `ECC_NIST_EDWARDS25519`. Nothing is asked yet.
    ///
    /// # Errors
    /// [`SignError::Unusable`] where the place cannot be one.
    pub fn kms(place: KmsPlace, account: [u8; 32], credentials: AwsCredentials) -> Result<Self, SignError> {
        Kms::<Ed25519>::new(place, account, credentials).map(Self::new)
    }
}

#[async_trait]
impl Signer<Secp256k1> for Kms<Secp256k1> {
    fn public(&self) -> Address {
        self.account
    }

    async fn sign(&self, hash: Hash, message: &[u8]) -> Result<Signature, SignError> {
        let digest = hash.of(message);
        let der = self.sign_as(digest.as_slice(), "DIGEST", "ECDSA_SHA_256").await?;
        let signature = ecdsa::Signature::from_der(&der);
        let signature = signature.map_err(|_| self.service.unreadable("its signature is not DER"))?;
        let (r, s) = signature.split_bytes();
        let scalars = (U256::from_be_slice(&r), U256::from_be_slice(&s));
        verification::of_account(&self.service, self.account, digest, scalars)
    }

    async fn check(&self) -> Result<(), SignError> {
        let der = self.public_key().await?;
        let point = der.strip_prefix(&SECP256K1_DER).filter(|point| point.len() == 64);
        let point = point.ok_or_else(|| self.service.unreadable("its public key is not one of secp256k1"))?;
        self.compare(Address::from_slice(&keccak256(point)[12..]))
    }
}

#[async_trait]
impl Signer<Ed25519> for Kms<Ed25519> {
    fn public(&self) -> [u8; 32] {
        self.account
    }

    async fn sign(&self, (): (), message: &[u8]) -> Result<[u8; 64], SignError> {
        let signature = self.sign_as(message, "RAW", "ED25519_SHA_512").await?;
        let signature: [u8; 64] =
            signature.try_into().map_err(|_| self.service.unreadable("its signature has not 64 bytes"))?;
        let key = VerifyingKey::from_bytes(&self.account).map_err(|_| self.other_key(None))?;
        // As strict as the network: a signature that it might not take is none.
        key.verify_strict(message, &signature.into()).map_err(|_| self.other_key(None))?;
        Ok(signature)
    }

    async fn check(&self) -> Result<(), SignError> {
        let der = self.public_key().await?;
        let key = der.strip_prefix(&ED25519_DER).and_then(|key| <[u8; 32]>::try_from(key).ok());
        self.compare(key.ok_or_else(|| self.service.unreadable("its public key is not one of Ed25519"))?)
    }
}
