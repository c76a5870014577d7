//! `did:web`: the location of the document, and the sites that may be asked for it.

use std::fmt;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{Did, DidDocument, Error};

/// Where the document of a `did:web` is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Location {
    /// Scheme, host and port: `https://bank.example` or `https://bank.example:8443`.
    pub origin: String,
    /// Path from the root.
    pub path: String,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path)
    }
}

/// Why a document was not fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// It may be there another time: time-outs, connections, server errors.
    #[error("{0}")]
    Unavailable(String),
    /// It will not: not found, a private address, a redirect, too large, not UTF-8.
    #[error("{0}")]
    Refused(String),
}

/// Fetches documents from web sites.
///
/// An implementation asks only `https`, never a private address, follows no redirects, and bounds time and size (at most
/// [`crate::json::DOCUMENT_BYTES_MAX`] are read). Which origins may be asked at all is checked before it is called.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// The text at a location.
    async fn fetch(&self, location: &Location) -> Result<String, ResolveError>;
}

/// The sites whose `did:web` are trusted, and how they are asked.
#[derive(Clone, Copy)]
pub struct Web<'a> {
    /// Origins as in [`Location::origin`].
    pub origins: &'a [String],
    /// Fetches the documents.
    pub resolver: &'a dyn Resolver,
}

impl fmt::Debug for Web<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Web").field("origins", &self.origins).finish_non_exhaustive()
    }
}

impl Web<'_> {
    pub(super) async fn resolve(&self, did: &Did, now: DateTime<Utc>) -> Result<DidDocument, Error> {
        let location = Location::of(did)?;
        if !self.origins.contains(&location.origin) {
            return Err(Error::Origin(did.clone()));
        }
        let text = self.resolver.fetch(&location).await.map_err(|error| match error {
            ResolveError::Unavailable(reason) => Error::Unavailable { did: did.clone(), reason },
            ResolveError::Refused(reason) => Error::Document { did: did.clone(), reason },
        })?;
        DidDocument::parse(did, &text, now)
    }
}

impl Location {
    /// Where the document of a `did:web` is, by section 3.2 of its method specification.
    ///
    /// # Errors
    /// [`Error::Method`] for another method, [`Error::Malformed`] for a host that is an IP address or no name, and for
    /// paths with empty or dotted segments or percent-encoding.
    pub fn of(did: &Did) -> Result<Self, Error> {
        if did.method() != "web" {
            return Err(Error::Method(did.clone()));
        }
        let malformed = |reason| Error::Malformed { did: did.clone(), reason };
        let mut parts = did.id().split(':');
        let authority = parts.next().unwrap_or_default();
        let (host, port) = match authority.split_once("%3A").or_else(|| authority.split_once("%3a")) {
            Some((host, port)) => {
                let number = port.parse::<u16>().ok().filter(|number| *number != 0 && number.to_string() == port);
                (
                    host,
                    Some(
                        number
                            .ok_or_else(|| malformed("port is not a number from 1 to 65535 without leading zeros"))?,
                    ),
                )
            }
            None => (authority, None),
        };
        let label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // The last label of a name is not all digits; that of an IPv4 address is.
        let name = host.split('.').all(label)
            && host.contains('.')
            && host.rsplit('.').next().is_some_and(|last| last.bytes().any(|c| c.is_ascii_lowercase()));
        if !name {
            return Err(malformed("host is not a domain name in lower case"));
        }
        let mut path = String::new();
        for segment in parts {
            if segment.is_empty() || segment.contains('%') || segment.chars().all(|c| c == '.') {
                return Err(malformed("path segment is empty, dotted or percent-encoded"));
            }
            path.push('/');
            path.push_str(segment);
        }
        let path = if path.is_empty() { "/.well-known/did.json".to_owned() } else { format!("{path}/did.json") };
        let port = port.filter(|port| *port != 443).map(|port| format!(":{port}")).unwrap_or_default();
        Ok(Self { origin: format!("https://{host}{port}"), path })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::executor::block_on;

    use super::*;
    use crate::did::resolve;

    struct Site {
        answer: Result<String, ResolveError>,
        asked: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl Resolver for Site {
        async fn fetch(&self, location: &Location) -> Result<String, ResolveError> {
            self.asked.lock().unwrap().push(location.to_string());
            self.answer.clone()
        }
    }

    #[test]
    fn locations_of_the_method_specification() {
        let location = |did: &str| Location::of(&did.parse().unwrap()).map(|location| location.to_string());
        for (did, url) in [
            ("did:web:w3c-ccg.github.io", "https://w3c-ccg.github.io/.well-known/did.json"),
            ("did:web:w3c-ccg.github.io:user:alice", "https://w3c-ccg.github.io/user/alice/did.json"),
            ("did:web:example.com%3A3000:user:alice", "https://example.com:3000/user/alice/did.json"),
        ] {
            assert_eq!(location(did), Ok(url.to_owned()));
        }
        for bad in [
            "did:web:127.0.0.1",
            "did:web:localhost",
            "did:web:0x7f.1",
            "did:web:Bank.example",
            "did:web:bank.example%3A0",
            "did:web:bank.example%3A99999",
            "did:web:bank.example%3A80%3A80",
            "did:web:bank.example%2Fx",
            "did:web:user%40bank.example",
            "did:web:bank.example:..:x",
            "did:web:bank.example::x",
            "did:web:bank.example:%2e%2e",
            "did:web:.example",
        ] {
            assert!(matches!(location(bad), Err(Error::Malformed { .. })), "{bad}");
        }
    }

    #[test]
    fn only_named_origins_are_asked_and_trouble_keeps_its_kind() {
        let did: Did = "did:web:bank.example:kyc".parse().unwrap();
        let origins = ["https://bank.example".to_owned()];
        let ask = |origins: &[String], answer: Result<String, ResolveError>| {
            let site = Site { answer, asked: Mutex::default() };
            let result = block_on(resolve(&did, Web { origins, resolver: &site }, DateTime::UNIX_EPOCH));
            (result, site.asked.into_inner().unwrap())
        };
        let text = r#"{"id":"did:web:bank.example:kyc"}"#.to_owned();
        let (found, asked) = ask(&origins, Ok(text.clone()));
        assert_eq!(found.unwrap().did(), &did);
        assert_eq!(asked, ["https://bank.example/kyc/did.json"]);
        let (refused, asked) = ask(&["https://bank.example:8443".to_owned()], Ok(text));
        assert_eq!(refused, Err(Error::Origin(did.clone())));
        assert!(asked.is_empty());
        let (away, _) = ask(&origins, Err(ResolveError::Unavailable("timed out".to_owned())));
        assert!(matches!(away, Err(Error::Unavailable { .. })));
        let (gone, _) = ask(&origins, Err(ResolveError::Refused("404".to_owned())));
        assert!(matches!(gone, Err(Error::Document { .. })));
    }
}
