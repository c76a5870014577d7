//! HTTP Message Signatures (RFC 9421) of requests to a verifier: they prove who asks, and that the request is
//! unchanged.
//!
//! One profile of the standard is used. The signature covers `@method`, `@target-uri` and `content-digest` (RFC 9530,
//! SHA-256 of the body). Its parameters are `created`, `keyid` with the caller's `did:key` of an Ed25519 key, and `tag`
//! with [`TAG`]; optional are `alg`, which must be `ed25519`, `expires` and `nonce`:
//!
//! ```text
//! Content-Digest: sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:
//! Signature-Input: gw=("@method" "@target-uri" "content-digest");created=1792000000;keyid="did:key:z6Mk…";tag="gw-verifier"
//! Signature: gw=:…:
//! ```
//!
//! `@target-uri` is the verifier's origin as the caller has it configured, followed by the path. So a verifier cannot
//! replay a request to another verifier.
//!
//! ```
//! use protocol::message_signature::{Signed, Signer};
//!
//! let signer = Signer::new(ed25519_dalek::SigningKey::from_bytes(&[7; 32]));
//! let uri = "https://verifier.example/v1/attestations/delivery";
//! let mut headers = http::header::HeaderMap::new();
//! headers.extend(signer.sign("POST", uri, b"{}", 1_792_000_000));
//! let signed = Signed::read(&headers)?.expect("it is signed");
//! assert_eq!(signed.keyid(), signer.did().as_str());
//! assert!(signed.is_by(&signer.did().ed25519_key()?, "POST", uri));
//! assert!(signed.is_of_body(b"{}") && !signed.is_of_body(b"[]"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use sfv::{BareItem, Dictionary, FieldType, InnerList, ListEntry, Parser};

use events::{Did, Hash32};

/// The `tag` of these signatures (RFC 9421, section 2.3): their purpose.
pub const TAG: &str = "gw-verifier";
/// The label under which a [`Signer`] puts its signature. Other labels are read, too.
const LABEL: &str = "gw";
/// The derived components and fields that are covered, as a [`Signer`] orders them.
const METHOD: &str = "@method";
const TARGET_URI: &str = "@target-uri";
const DIGEST: &str = "content-digest";

const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
const SIGNATURE_INPUT: HeaderName = HeaderName::from_static("signature-input");
const SIGNATURE: HeaderName = HeaderName::from_static("signature");

/// What is wrong with a signature's header fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {rule}")]
pub struct Error {
    /// The field.
    pub field: &'static str,
    /// The rule that it breaks.
    pub rule: &'static str,
}

fn broken(field: &'static str, rule: &'static str) -> Error {
    Error { field, rule }
}

/// Signs requests with the Ed25519 key of a DID.
#[derive(Clone)]
pub struct Signer {
    key: SigningKey,
    did: Did,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("did", &self.did).finish_non_exhaustive()
    }
}

impl Signer {
    /// A signer for the `did:key` of this key.
    pub fn new(key: SigningKey) -> Self {
        let did = Did::from_ed25519(&key.verifying_key());
        Self { key, did }
    }

    /// Who signs.
    pub fn did(&self) -> &Did {
        &self.did
    }

    /// The header fields of a signed request with this body, at `created` in UNIX seconds. `uri` is the whole of it, as the
    /// verifier knows itself.
    pub fn sign(&self, method: &str, uri: &str, body: &[u8], created: u64) -> [(HeaderName, HeaderValue); 3] {
        let digest = format!("sha-256={}", byte_sequence(&Hash32::sha256(body).0));
        let did = &self.did;
        let parameters =
            format!(r#"("{METHOD}" "{TARGET_URI}" "{DIGEST}");created={created};keyid="{did}";tag="{TAG}""#);
        let base = signature_base(&[(METHOD, method), (TARGET_URI, uri), (DIGEST, &digest)], &parameters);
        let signature = byte_sequence(&self.key.sign(base.as_bytes()).to_bytes());
        [
            (CONTENT_DIGEST, value(&digest)),
            (SIGNATURE_INPUT, value(&format!("{LABEL}={parameters}"))),
            (SIGNATURE, value(&format!("{LABEL}={signature}"))),
        ]
    }
}

/// A DID, numbers and Base64 are ASCII without control characters, so this fails for none of them.
fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// A byte sequence as structured fields write it (RFC 9651, section 4.1.8).
fn byte_sequence(bytes: &[u8]) -> String {
    vec![ListEntry::from(sfv::Item::new(bytes.to_vec()))].serialize().unwrap_or_default()
}

/// What is signed (RFC 9421, section 2.5).
fn signature_base(components: &[(&str, &str)], parameters: &str) -> String {
    let lines = components.iter().map(|(name, value)| format!("\"{name}\": {value}\n"));
    lines.chain([format!("\"@signature-params\": {parameters}")]).collect()
}

/// A signature as its header fields state it. It proves nothing before [`Signed::is_by`] has verified it.
#[derive(Debug, Clone)]
pub struct Signed {
    keyid: String,
    created: i64,
    expires: Option<i64>,
    /// The names of what is covered, in the order of the base.
    covered: Vec<&'static str>,
    /// The value of `@signature-params`.
    parameters: String,
    /// The field as it stands.
    content_digest: String,
    digest: [u8; 32],
    signature: Signature,
}

impl Signed {
    /// The signature with the tag [`TAG`] among these header fields; `None` when there is none.
    ///
    /// # Errors
    /// [`Error`] when there is one that this profile does not allow.
    pub fn read(headers: &HeaderMap) -> Result<Option<Self>, Error> {
        let Some(inputs) = dictionary(headers, SIGNATURE_INPUT, "Signature-Input")? else { return Ok(None) };
        let tagged = inputs.iter().find_map(|(label, entry)| match entry {
            ListEntry::InnerList(list) if text(list, "tag") == Some(TAG) => Some((label, list)),
            _ => None,
        });
        let Some((label, list)) = tagged else { return Ok(None) };
        let field = "Signature-Input";
        if text(list, "alg").is_some_and(|alg| alg != "ed25519") {
            return Err(broken(field, "must have no `alg` but `ed25519`"));
        }
        let keyid = text(list, "keyid").ok_or(broken(field, "must have a text `keyid`"))?.to_owned();
        let created = integer(list, "created").ok_or(broken(field, "must have an integer `created`"))?;
        let expires = match list.params.get("expires") {
            Some(_) => Some(integer(list, "expires").ok_or(broken(field, "must have no `expires` but an integer"))?),
            None => None,
        };
        let rule = "must cover \"@method\", \"@target-uri\" and \"content-digest\", and nothing else";
        let covered = list.items.iter().map(|item| match &item.bare_item {
            BareItem::String(name) if item.params.is_empty() => {
                [METHOD, TARGET_URI, DIGEST].into_iter().find(|known| *known == name.as_str())
            }
            _ => None,
        });
        let covered: Vec<_> = covered.collect::<Option<_>>().ok_or(broken(field, rule))?;
        if covered.len() != 3 || ![METHOD, TARGET_URI, DIGEST].iter().all(|name| covered.contains(name)) {
            return Err(broken(field, rule));
        }
        let parameters = vec![ListEntry::InnerList(list.clone())].serialize().unwrap_or_default();

        let signatures = dictionary(headers, SIGNATURE, "Signature")?;
        let signature = signatures.as_ref().and_then(|all| bytes::<64>(all, label.as_str()));
        let signature =
            signature.ok_or(broken("Signature", "must have the 64 bytes that Signature-Input announces"))?;
        let digests = dictionary(headers, CONTENT_DIGEST, "Content-Digest")?;
        let digest = digests.as_ref().and_then(|all| bytes::<32>(all, "sha-256"));
        let digest = digest.ok_or(broken("Content-Digest", "must have the 32 bytes of `sha-256`"))?;
        // The field was just parsed, so it exists and is text.
        let content_digest = headers.get(CONTENT_DIGEST).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let content_digest = content_digest.trim().to_owned();
        let signature = Signature::from_bytes(&signature);
        Ok(Some(Self { keyid, created, expires, covered, parameters, content_digest, digest, signature }))
    }

    /// Who is said to have signed.
    pub fn keyid(&self) -> &str {
        &self.keyid
    }

    /// Whether it was made at most `age_max` seconds from `now`, either way, and has not expired; all in UNIX seconds.
    pub fn is_fresh(&self, now: u64, age_max: u64) -> bool {
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        self.created.abs_diff(now) <= age_max && self.expires.is_none_or(|expires| now <= expires)
    }

    /// Whether it is this key's, over a request of this method to this URI with the digest it came with.
    pub fn is_by(&self, key: &VerifyingKey, method: &str, uri: &str) -> bool {
        let value = |name: &&'static str| match *name {
            METHOD => (METHOD, method),
            TARGET_URI => (TARGET_URI, uri),
            other => (other, self.content_digest.as_str()),
        };
        let components: Vec<_> = self.covered.iter().map(value).collect();
        let base = signature_base(&components, &self.parameters);
        key.verify_strict(base.as_bytes(), &self.signature).is_ok()
    }

    /// Whether the digest is that of `body`.
    pub fn is_of_body(&self, body: &[u8]) -> bool {
        Hash32::sha256(body).0 == self.digest
    }
}

/// The dictionary in a field that may stand once.
fn dictionary(headers: &HeaderMap, name: HeaderName, field: &'static str) -> Result<Option<Dictionary>, Error> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(broken(field, "must stand once"));
    }
    let text = value.to_str().map_err(|_| broken(field, "must be a dictionary of structured fields"))?;
    let parsed = Parser::new(text).parse::<Dictionary>();
    parsed.map(Some).map_err(|_| broken(field, "must be a dictionary of structured fields"))
}

fn text<'a>(list: &'a InnerList, parameter: &str) -> Option<&'a str> {
    match list.params.get(parameter)? {
        BareItem::String(text) => Some(text.as_str()),
        _ => None,
    }
}

fn integer(list: &InnerList, parameter: &str) -> Option<i64> {
    match list.params.get(parameter)? {
        BareItem::Integer(number) => Some(i64::from(*number)),
        _ => None,
    }
}

fn bytes<const N: usize>(all: &Dictionary, member: &str) -> Option<[u8; N]> {
    match all.get(member)? {
        ListEntry::Item(item) => match &item.bare_item {
            BareItem::ByteSequence(bytes) => bytes.as_slice().try_into().ok(),
            _ => None,
        },
        ListEntry::InnerList(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URI: &str = "https://verifier.example/v1/attestations/delivery";
    const BODY: &[u8] = br#"{"hello": "world"}"#;
    const NOW: u64 = 1_792_000_000;

    fn signer(seed: u8) -> Signer {
        Signer::new(SigningKey::from_bytes(&[seed; 32]))
    }

    fn headers(signer: &Signer) -> HeaderMap {
        HeaderMap::from_iter(signer.sign("POST", URI, BODY, NOW))
    }

    fn with(name: HeaderName, text: &str) -> Result<Option<Signed>, Error> {
        let mut headers = headers(&signer(7));
        headers.insert(name, HeaderValue::from_str(text).unwrap());
        Signed::read(&headers)
    }

    fn key(signer: &Signer) -> VerifyingKey {
        signer.did().ed25519_key().unwrap()
    }

    /// RFC 9421, B.2.6, with the key of B.1.4: the base is made and the signature checked as everybody does.
    #[test]
    fn the_standards_own_signature_is_right() {
        use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
        let seed = URL_SAFE_NO_PAD.decode("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU").unwrap();
        let key = SigningKey::from_bytes(&seed.try_into().unwrap());
        let parameters = concat!(
            r#"("date" "@method" "@path" "@authority" "content-type" "content-length")"#,
            r#";created=1618884473;keyid="test-key-ed25519""#
        );
        let base = signature_base(
            &[
                ("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
                ("@method", "POST"),
                ("@path", "/foo"),
                ("@authority", "example.com"),
                ("content-type", "application/json"),
                ("content-length", "18"),
            ],
            parameters,
        );
        let expected = ":wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:";
        assert_eq!(byte_sequence(&key.sign(base.as_bytes()).to_bytes()), expected);
        // RFC 9421, section 3.1: the parameters are serialised again as they stood.
        let parsed: Dictionary = Parser::new(&format!("sig-b26={parameters}")).parse().unwrap();
        let list = parsed.values().next().unwrap().clone();
        assert_eq!(vec![list].serialize().unwrap(), parameters);
    }

    /// RFC 9530, appendix B.
    #[test]
    fn the_standards_own_digest_is_right() {
        let headers = headers(&signer(7));
        assert_eq!(headers[CONTENT_DIGEST], "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:");
    }

    /// What examples/settler/quotes.py makes of the same key, request and time: Ed25519 gives one signature only.
    #[test]
    fn another_implementation_makes_the_same() {
        let signature = "gw=:L9HHS4Fk++w1M3K9UC5MWGFgSBORdK8PPcTpKSr/PRlTnMZ4oysHgyRIHPBFRlanHxIWU8RyYU4zjeNc307FBA==:";
        assert_eq!(headers(&signer(7))[SIGNATURE], signature);
    }

    #[test]
    fn a_signature_holds_for_its_signer_and_its_request_alone() {
        let (own, other) = (signer(7), signer(8));
        let signed = Signed::read(&headers(&own)).unwrap().unwrap();
        assert_eq!(signed.keyid(), own.did().as_str());
        assert!(signed.is_by(&key(&own), "POST", URI) && signed.is_of_body(BODY));
        assert!(!signed.is_by(&key(&other), "POST", URI));
        assert!(!signed.is_by(&key(&own), "PUT", URI));
        for uri in ["https://other.example/v1/attestations/delivery", "https://verifier.example/v1/attestations"] {
            assert!(!signed.is_by(&key(&own), "POST", uri), "{uri}");
        }
        assert!(!signed.is_of_body(b"{}"));
        // Another digest makes it another body's, and the signature wrong.
        let changed = with(CONTENT_DIGEST, &format!("sha-256={}", byte_sequence(&Hash32::sha256(b"{}").0)));
        let changed = changed.unwrap().unwrap();
        assert!(changed.is_of_body(b"{}") && !changed.is_by(&key(&own), "POST", URI));
    }

    #[test]
    fn a_signature_is_fresh_for_a_while_around_its_making() {
        let signed = Signed::read(&headers(&signer(7))).unwrap().unwrap();
        assert!([NOW - 60, NOW, NOW + 60].iter().all(|now| signed.is_fresh(*now, 60)));
        assert!([NOW - 61, NOW + 61, 0, u64::MAX].iter().all(|now| !signed.is_fresh(*now, 60)));
        let input = |parameters: &str| {
            let text = format!(r#"x=("@method" "@target-uri" "content-digest");{parameters};keyid="k";tag="{TAG}""#);
            with(SIGNATURE_INPUT, &text).map(|_| ())
        };
        // The label is the caller's; the signature has to stand under it.
        assert_eq!(input("created=1").unwrap_err().field, "Signature");
        assert_eq!(input("created=\"1\"").unwrap_err().field, "Signature-Input");
        assert_eq!(input("created=1;expires=x").unwrap_err().field, "Signature-Input");
        assert_eq!(input("created=1;alg=\"rsa-pss-sha512\"").unwrap_err().field, "Signature-Input");
    }

    /// Parameters and components in another order, and an optional parameter more, are as good.
    #[test]
    fn other_implementations_may_order_as_they_like() {
        let signer = signer(7);
        let digest = headers(&signer)[CONTENT_DIGEST].to_str().unwrap().to_owned();
        let did = signer.did();
        let expires = NOW + 30;
        let parameters = format!(
            r#"("content-digest" "@target-uri" "@method");alg="ed25519";tag="{TAG}";nonce="n";keyid="{did}";expires={expires};created={NOW}"#
        );
        let base = signature_base(&[(DIGEST, &digest), (TARGET_URI, URI), (METHOD, "POST")], &parameters);
        let signature = byte_sequence(&signer.key.sign(base.as_bytes()).to_bytes());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_DIGEST, value(&digest));
        headers.insert(SIGNATURE_INPUT, value(&format!(r#"proxy=("date");tag="its-own", ours={parameters}"#)));
        headers.insert(SIGNATURE, value(&format!("proxy=:AA==:, ours={signature}")));
        let signed = Signed::read(&headers).unwrap().unwrap();
        assert!(signed.is_by(&key(&signer), "POST", URI));
        assert!(signed.is_fresh(expires, 60) && !signed.is_fresh(expires + 1, 60));
    }

    #[test]
    fn what_the_profile_does_not_allow_is_named() {
        let covers = |components: &str| {
            let text = format!(r#"gw=({components});created=1;keyid="k";tag="{TAG}""#);
            with(SIGNATURE_INPUT, &text).unwrap_err().field
        };
        for components in [
            "",
            r#""@method" "@target-uri""#,
            r#""@method" "@target-uri" "content-digest" "date""#,
            r#""@method" "@method" "content-digest""#,
            r#""@method";req "@target-uri" "content-digest""#,
            r#"@method "@target-uri" "content-digest""#,
        ] {
            assert_eq!(covers(components), "Signature-Input", "{components}");
        }
        for (name, text, field) in [
            (SIGNATURE_INPUT, "(((", "Signature-Input"),
            (SIGNATURE, "gw=:AA==:", "Signature"),
            (SIGNATURE, "gw=1", "Signature"),
            (SIGNATURE, "other=:AA==:", "Signature"),
            (CONTENT_DIGEST, "sha-512=:AA==:", "Content-Digest"),
            (CONTENT_DIGEST, "sha-256=:AA==:", "Content-Digest"),
        ] {
            assert_eq!(with(name, text).unwrap_err().field, field, "{text}");
        }
        let mut twice = headers(&signer(7));
        twice.append(SIGNATURE, HeaderValue::from_static("gw=:AA==:"));
        assert_eq!(Signed::read(&twice).unwrap_err().rule, "must stand once");
        // No signature, or somebody else's.
        assert!(Signed::read(&HeaderMap::new()).unwrap().is_none());
        assert!(with(SIGNATURE_INPUT, r#"x=("date");tag="other""#).unwrap().is_none());
    }
}
