//! Certificates for NATS, for development and for whoever has no authority of their own.

use chrono::{Datelike, Utc};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

/// How long an authority is good for, in years.
const AUTHORITY_YEARS: i32 = 10;
/// How long a server's certificate is good for, in years.
const SERVER_YEARS: i32 = 2;

/// Why a certificate cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("certificate: {0}")]
pub struct Error(#[from] rcgen::Error);

/// A certificate and its private key, both PEM.
#[derive(Clone)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// A new authority, which may issue nothing but servers' certificates.
///
/// # Errors
/// [`Error`] when the system gives no randomness.
pub fn authority() -> Result<Issued, Error> {
    let key = KeyPair::generate()?;
    let certificate = authority_params().self_signed(&key)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// A certificate from the [`authority`] with this private key, PEM, for a server that is reached under `names`, host names or IP addresses. It serves to the
/// other servers of a cluster, too, whichever of them connects.
///
/// # Errors
/// [`Error`] when a name is none, or the key cannot be read.
pub fn server(authority_key: &str, names: &[String]) -> Result<Issued, Error> {
    let issuer = Issuer::new(authority_params(), KeyPair::from_pem(authority_key)?);
    let mut params = lasting(CertificateParams::new(names.to_vec())?, SERVER_YEARS);
    params.distinguished_name.push(DnType::CommonName, "gw nats server");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// What all these authorities have in common: the name and what they may do. They differ in their keys.
fn authority_params() -> CertificateParams {
    let mut params = lasting(CertificateParams::default(), AUTHORITY_YEARS);
    params.distinguished_name.push(DnType::CommonName, "gw nats authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// From yesterday on, because clocks differ.
fn lasting(mut params: CertificateParams, years: i32) -> CertificateParams {
    let yesterday = (Utc::now() - chrono::TimeDelta::days(1)).date_naive();
    // A month and a day of the calendar fit into a byte; the 29th of February is none in other years.
    let (month, day) = (yesterday.month() as u8, yesterday.day().min(28) as u8);
    params.not_before = date_time_ymd(yesterday.year(), month, day);
    params.not_after = date_time_ymd(yesterday.year() + years, month, day);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
}
