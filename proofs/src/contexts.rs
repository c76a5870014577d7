//! The JSON-LD contexts that documents may name.
//!
//! A context decides what a document says, so none is ever fetched. [`Contexts::bundled`] holds the usual ones for
//! credentials and proofs, and the gateway's own. An operator who trusts credentials in other vocabularies adds their
//! contexts to a set of his own ([`Contexts::with`]). The gateway serves the same bytes under `/contexts/`.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use json_ld::{
    Loader, RemoteDocument,
    syntax::{self, Parse},
};

/// The gateway's context: the terms of quotes and of requests.
///
/// The name is of a domain that nobody can own (RFC 2606), so that no other bytes can appear there: it identifies the
/// context, and the bytes are bundled or taken from a gateway, at `/contexts/gateway/v1`.
pub const GATEWAY_V1: &str = "https://gateway.example/contexts/gateway/v1";
/// The context of `DataIntegrityProof`.
pub const DATA_INTEGRITY_V2: &str = "https://w3id.org/security/data-integrity/v2";
/// The context every credential of the data model 1.1 begins with.
pub const CREDENTIALS_V1: &str = "https://www.w3.org/2018/credentials/v1";
/// The `@context` of a quote, in this order.
pub const QUOTE: [&str; 2] = [GATEWAY_V1, DATA_INTEGRITY_V2];

/// Most combinations of contexts whose processed form is kept.
const PROCESSED_MAX: usize = 128;

macro_rules! bundled {
    ($($url:expr, $path:literal, $file:literal;)*) => {
        &[$(Bundled { url: $url, path: $path, text: include_str!(concat!("../contexts/", $file)) },)*]
    };
}

/// A context that comes with the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bundled {
    /// The URL documents name it by.
    pub url: &'static str,
    /// Where a gateway serves it, below `/contexts/`.
    pub path: &'static str,
    /// The context document.
    pub text: &'static str,
}

/// All contexts that come with the gateway.
pub const BUNDLED: &[Bundled] = bundled! {
    GATEWAY_V1, "gateway/v1", "gateway-v1.jsonld";
    CREDENTIALS_V1, "credentials/v1", "credentials-v1.jsonld";
    "https://www.w3.org/ns/credentials/v2", "credentials/v2", "credentials-v2.jsonld";
    "https://w3id.org/security/data-integrity/v1", "data-integrity/v1", "data-integrity-v1.jsonld";
    DATA_INTEGRITY_V2, "data-integrity/v2", "data-integrity-v2.jsonld";
    "https://w3id.org/security/suites/ed25519-2018/v1", "ed25519-2018/v1", "ed25519-2018-v1.jsonld";
    "https://w3id.org/security/suites/ed25519-2020/v1", "ed25519-2020/v1", "ed25519-2020-v1.jsonld";
    "https://w3id.org/security/suites/secp256k1recovery-2020/v2", "secp256k1recovery-2020/v2", "secp256k1recovery-2020-v2.jsonld";
    "https://w3id.org/security/suites/eip712sig-2021/v1", "eip712sig-2021/v1", "eip712sig-2021-v1.jsonld";
    "https://w3id.org/security/suites/jws-2020/v1", "jws-2020/v1", "jws-2020-v1.jsonld";
    "https://w3id.org/security/v1", "security/v1", "security-v1.jsonld";
    "https://w3id.org/security/v2", "security/v2", "security-v2.jsonld";
    "https://w3id.org/security/multikey/v1", "multikey/v1", "multikey-v1.jsonld";
    "https://www.w3.org/ns/did/v1", "did/v1", "did-v1.jsonld";
};

/// A set of contexts, parsed once, with what the last documents made of them.
pub struct Contexts {
    documents: BTreeMap<String, syntax::Value>,
    keys: HashSet<String>,
    processed: Mutex<HashMap<Vec<String>, Arc<Active>>>,
}

impl fmt::Debug for Contexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.documents.keys()).finish()
    }
}

/// What a list of contexts comes to.
pub(crate) type Active = json_ld::Context<json_ld::IriBuf, json_ld::BlankIdBuf>;

/// Why a context cannot be added to a set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a JSON object with a `@context`.
    #[error("context `{0}` is not a JSON object with a @context")]
    Malformed(String),
    /// The name is not an absolute URL.
    #[error("context name `{0}` is not an absolute URL")]
    Name(String),
    /// The name is taken; what a bundled context says is fixed.
    #[error("context `{0}` is there already")]
    Taken(String),
    /// The context unmaps a term, which would then vanish from hashes.
    #[error("context `{context}` maps `{term}` to null")]
    NullTerm {
        /// The context.
        context: String,
        /// The term.
        term: String,
    },
}

static BUNDLED_SET: LazyLock<Contexts> = LazyLock::new(|| {
    let empty = Contexts::of(BTreeMap::new(), HashSet::new());
    // That every bundled file parses is what the tests of this module show; one that did not would be unknown.
    BUNDLED.iter().fold(empty, |mut contexts, bundled| {
        if let Ok(document) = read(bundled.url, bundled.text) {
            collect_keys(&document, &mut contexts.keys);
            contexts.documents.insert(bundled.url.to_owned(), document);
        }
        contexts
    })
});

impl Contexts {
    fn of(documents: BTreeMap<String, syntax::Value>, keys: HashSet<String>) -> Self {
        Self { documents, keys, processed: Mutex::default() }
    }

    /// The contexts that come with the gateway.
    pub fn bundled() -> &'static Self {
        &BUNDLED_SET
    }

    /// The bundled contexts and more, as pairs of URL and text.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn with<'a>(more: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        let mut documents = Self::bundled().documents.clone();
        let mut keys = Self::bundled().keys.clone();
        for (url, text) in more {
            let document = read(url, text)?;
            collect_keys(&document, &mut keys);
            if documents.insert(url.to_owned(), document).is_some() {
                return Err(Error::Taken(url.to_owned()));
            }
        }
        Ok(Self::of(documents, keys))
    }

    /// Whether a document may name this context.
    pub fn knows(&self, url: &str) -> bool {
        self.documents.contains_key(url)
    }

    /// Whether some context has this key, so that it may be the prefix of a compact IRI.
    pub(crate) fn may_be_prefix(&self, text: &str) -> bool {
        self.keys.contains(text)
    }

    /// The processed form of a list of contexts, if it was made before.
    pub(crate) fn processed(&self, urls: &[String]) -> Option<Arc<Active>> {
        self.processed.lock().unwrap_or_else(PoisonError::into_inner).get(urls).cloned()
    }

    pub(crate) fn remember(&self, urls: Vec<String>, active: Arc<Active>) {
        let mut processed = self.processed.lock().unwrap_or_else(PoisonError::into_inner);
        if processed.len() >= PROCESSED_MAX {
            processed.clear();
        }
        processed.insert(urls, active);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("context is not bundled")]
struct NotBundled;

impl Loader for Contexts {
    async fn load(&self, url: &json_ld::Iri) -> json_ld::LoadingResult {
        match self.documents.get(url.as_str()) {
            Some(document) => Ok(RemoteDocument::new(Some(url.to_owned()), None, document.clone())),
            None => Err(json_ld::LoadError::new(url.to_owned(), NotBundled)),
        }
    }
}

fn read(url: &str, text: &str) -> Result<syntax::Value, Error> {
    if json_ld::Iri::new(url).is_err() {
        return Err(Error::Name(url.to_owned()));
    }
    let malformed = || Error::Malformed(url.to_owned());
    let (value, _) = syntax::Value::parse_str(text).map_err(|_| malformed())?;
    let context = value.as_object().and_then(|object| object.get_unique("@context").ok().flatten());
    match null_term(context.ok_or_else(malformed)?) {
        Some(term) => Err(Error::NullTerm { context: url.to_owned(), term }),
        None => Ok(value),
    }
}

fn collect_keys(value: &syntax::Value, keys: &mut HashSet<String>) {
    match value {
        syntax::Value::Object(object) => object.iter().for_each(|entry| {
            keys.insert(entry.key.to_string());
            collect_keys(&entry.value, keys);
        }),
        syntax::Value::Array(items) => items.iter().for_each(|item| collect_keys(item, keys)),
        _ => {}
    }
}

/// A key that is mapped to null. `@context: null`, which clears what is in scope, and `@language: null` are not terms.
fn null_term(context: &syntax::Value) -> Option<String> {
    match context {
        syntax::Value::Object(object) => object.iter().find_map(|entry| match &entry.value {
            syntax::Value::Null if !matches!(entry.key.as_str(), "@context" | "@language" | "@direction") => {
                Some(entry.key.to_string())
            }
            value => null_term(value),
        }),
        syntax::Value::Array(items) => items.iter().find_map(null_term),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn every_bundled_context_is_known_by_its_url() {
        for bundled in BUNDLED {
            assert!(read(bundled.url, bundled.text).is_ok(), "{}", bundled.url);
            assert!(Contexts::bundled().knows(bundled.url), "{}", bundled.url);
        }
        assert!(QUOTE.iter().all(|url| Contexts::bundled().knows(url)));
        assert!(!Contexts::bundled().knows("https://www.w3.org/2018/credentials/v1/"));
    }

    /// `LICENSES.md` says from which package these bytes are.
    #[test]
    fn every_bundled_context_has_the_bytes_that_licenses_md_states() {
        let stated = include_str!("../contexts/LICENSES.md");
        for bundled in BUNDLED {
            let name = format!("| `{}.jsonld` |", bundled.path.replace('/', "-"));
            let line = stated.lines().find(|line| line.starts_with(&name)).unwrap();
            let digest = hex::encode(Sha256::digest(bundled.text));
            assert!(line.ends_with(&format!("| `{digest}` |")), "{}: {digest}", bundled.path);
        }
    }

    #[test]
    fn added_contexts_cannot_replace_others_or_unmap_terms() {
        let with = |url: &str, text: &str| Contexts::with([(url, text)]).map(|contexts| contexts.knows(url));
        let own = "https://kyc.example/v1";
        assert_eq!(with(own, r#"{"@context":{"level":"https://kyc.example/#level"}}"#), Ok(true));
        assert_eq!(with(CREDENTIALS_V1, r#"{"@context":{}}"#), Err(Error::Taken(CREDENTIALS_V1.to_owned())));
        let unmapped = with(own, r#"{"@context":[{"a":{"@id":"x:y","@context":{"level":null}}}]}"#);
        assert_eq!(unmapped, Err(Error::NullTerm { context: own.to_owned(), term: "level".to_owned() }));
        assert_eq!(with(own, "[]"), Err(Error::Malformed(own.to_owned())));
        assert_eq!(with("kyc/v1", r#"{"@context":{}}"#), Err(Error::Name("kyc/v1".to_owned())));
    }
}
