//! DID documents: verification methods and their keys.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value};

use super::{Did, Error, Purpose};
use crate::{
    json,
    key::{Key, parse_evm_address},
};

/// Most verification methods read from one document.
const METHODS_MAX: usize = 64;

/// The keys of a DID at a time, and what each may be used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DidDocument {
    did: Did,
    methods: Vec<Method>,
    /// Methods whose time was over, and since when.
    ended: Vec<(String, DateTime<Utc>)>,
    assertion_method: Vec<String>,
    authentication: Vec<String>,
}

/// One key of a DID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method {
    /// DID URL of the key.
    pub id: String,
    /// The key.
    pub key: Key,
}

/// Why a verification method cannot be used for a purpose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unauthorised {
    /// It belongs to another DID.
    #[error("verification method `{method}` does not belong to `{did}`")]
    Foreign {
        /// The method named.
        method: String,
        /// The DID asked.
        did: Did,
    },
    /// The DID has no such method, or not with a key that is verified here.
    #[error("verification method `{0}` does not exist")]
    Unknown(String),
    /// It expired or was revoked (Controlled Identifiers 1.0, section 2.2).
    #[error("verification method `{method}` ended at {}", at.to_rfc3339_opts(SecondsFormat::AutoSi, true))]
    Ended {
        /// The method named.
        method: String,
        /// The earlier of its `expires` and its `revoked`.
        at: DateTime<Utc>,
    },
    /// The method is there for other purposes.
    #[error("verification method `{method}` is not authorised for {}", purpose.as_str())]
    Purpose {
        /// The method named.
        method: String,
        /// What it was used for.
        purpose: Purpose,
    },
}

impl DidDocument {
    /// One key, under the given fragments, for everything.
    pub(super) fn of_one_key(did: &Did, fragments: &[&str], key: Key) -> Self {
        let ids: Vec<String> = fragments.iter().map(|fragment| format!("{did}#{fragment}")).collect();
        let methods = ids.iter().map(|id| Method { id: id.clone(), key: key.clone() }).collect();
        Self { did: did.clone(), methods, ended: Vec::new(), assertion_method: ids.clone(), authentication: ids }
    }

    /// Reads the document that a site gave for `did`, as it holds at `now`. Keys of kinds that are not verified here are
    /// left out, and so are those whose `expires` or `revoked` is not a time. Members that are not read may hold any JSON.
    ///
    /// # Errors
    /// [`Error::Document`] when it is not a JSON object by [`json::parse_unsigned`], is another DID's, or names keys twice.
    pub fn parse(did: &Did, text: &str, now: DateTime<Utc>) -> Result<Self, Error> {
        let unusable = |reason: String| Error::Document { did: did.clone(), reason };
        let members = json::parse_unsigned(text).map_err(|error| unusable(error.to_string()))?;
        if members.get("id").and_then(Value::as_str) != Some(did.as_str()) {
            return Err(unusable("its id is another".to_owned()));
        }
        let mut read = Self {
            did: did.clone(),
            methods: Vec::new(),
            ended: Vec::new(),
            assertion_method: Vec::new(),
            authentication: Vec::new(),
        };
        for method in list(&members, "verificationMethod").map_err(&unusable)? {
            read.add(method, now).map_err(&unusable)?;
        }
        for purpose in [Purpose::AssertionMethod, Purpose::Authentication] {
            for entry in list(&members, purpose.as_str()).map_err(&unusable)? {
                let id = match entry {
                    Value::String(id) => read.absolute(id),
                    embedded => read.add(embedded, now).map_err(&unusable)?,
                };
                match purpose {
                    Purpose::AssertionMethod => read.assertion_method.push(id),
                    Purpose::Authentication => read.authentication.push(id),
                }
            }
        }
        Ok(read)
    }

    fn absolute(&self, id: &str) -> String {
        if id.starts_with('#') { format!("{}{id}", self.did) } else { id.to_owned() }
    }

    /// Adds a verification method and says its id.
    fn add(&mut self, method: &Value, now: DateTime<Utc>) -> Result<String, String> {
        let member = |name: &str| method.get(name).and_then(Value::as_str);
        let id = self.absolute(member("id").ok_or("a verification method has no id")?);
        if self.methods.len() + self.ended.len() == METHODS_MAX {
            return Err(format!("more than {METHODS_MAX} verification methods"));
        }
        let ended = self.ended.iter().map(|(id, _)| id);
        if self.methods.iter().map(|method| &method.id).chain(ended).any(|known| *known == id) {
            return Err(format!("verification method `{id}` stands twice"));
        }
        // A key that somebody else controls is not this DID's to sign with.
        let own = Did::of_url(&id).is_ok_and(|(did, _)| did == self.did)
            && member("controller").is_some_and(|controller| controller == self.did.as_str());
        if own
            && let Some(key) = key(method)
            && let Some(end) = end(method)
        {
            match end {
                Some(at) if at <= now => self.ended.push((id.clone(), at)),
                _ => self.methods.push(Method { id: id.clone(), key }),
            }
        }
        Ok(id)
    }

    /// Whose document it is.
    pub fn did(&self) -> &Did {
        &self.did
    }

    /// The method that a proof names, if it is this DID's and may be used so.
    ///
    /// # Errors
    /// See [`Unauthorised`].
    pub fn authorised(&self, method: &str, purpose: Purpose) -> Result<&Method, Unauthorised> {
        let (did, fragment) = Did::of_url(method).map_err(|_| Unauthorised::Unknown(method.to_owned()))?;
        if did != self.did {
            return Err(Unauthorised::Foreign { method: method.to_owned(), did: self.did.clone() });
        }
        let id = format!("{did}#{fragment}");
        if let Some((_, at)) = self.ended.iter().find(|(ended, _)| *ended == id) {
            return Err(Unauthorised::Ended { method: method.to_owned(), at: *at });
        }
        let found = self.methods.iter().find(|method| method.id == id);
        let found = found.ok_or_else(|| Unauthorised::Unknown(method.to_owned()))?;
        let authorised = match purpose {
            Purpose::AssertionMethod => &self.assertion_method,
            Purpose::Authentication => &self.authentication,
        };
        if authorised.contains(&id) {
            Ok(found)
        } else {
            Err(Unauthorised::Purpose { method: method.to_owned(), purpose })
        }
    }
}

fn list<'a>(members: &'a Map<String, Value>, name: &str) -> Result<&'a [Value], String> {
    match members.get(name) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(format!("{name} is not a list")),
    }
}

/// When a verification method ends: the earlier of `expires` and `revoked`, `Some(None)` when never. `None` when one of
/// them is not a time, so that it is not known.
fn end(method: &Value) -> Option<Option<DateTime<Utc>>> {
    let mut ends = None;
    for name in ["expires", "revoked"] {
        let Some(value) = method.get(name) else { continue };
        let time = DateTime::parse_from_rfc3339(value.as_str()?).ok()?.with_timezone(&Utc);
        ends = Some(ends.map_or(time, |earlier: DateTime<Utc>| earlier.min(time)));
    }
    Some(ends)
}

/// The one key in a verification method; `None` when there is none that is verified here, or more than one.
fn key(method: &Value) -> Option<Key> {
    let text = |name: &str| method.get(name).and_then(Value::as_str);
    let mut keys = Vec::new();
    if let Some(multibase) = text("publicKeyMultibase") {
        keys.push(Key::from_multibase(multibase).ok()?);
    }
    if let Some(Value::Object(jwk)) = method.get("publicKeyJwk") {
        keys.push(Key::from_jwk(jwk).ok()?);
    }
    if let Some(base58) = text("publicKeyBase58")
        && text("type") == Some("Ed25519VerificationKey2018")
        && base58.len() <= 44
    {
        keys.push(Key::from_ed25519(&bs58::decode(base58).into_vec().ok()?).ok()?);
    }
    if let Some(account) = text("blockchainAccountId") {
        let (chain, address) = account.rsplit_once(':')?;
        if !chain.starts_with("eip155:") {
            return None;
        }
        keys.push(Key::Address(parse_evm_address(address)?));
    }
    match <[Key; 1]>::try_from(keys) {
        Ok([key]) => Some(key),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED25519: &str = "z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";

    fn now() -> DateTime<Utc> {
        "2027-01-01T12:00:00Z".parse().unwrap()
    }

    fn parse(text: &str) -> Result<DidDocument, Error> {
        DidDocument::parse(&"did:web:bank.example".parse().unwrap(), text, now())
    }

    #[test]
    fn methods_that_expired_or_were_revoked_do_not_count() {
        let may = |times: &str| {
            let document = parse(&format!(
                r##"{{"id":"did:web:bank.example","verificationMethod":[{{"id":"#a","type":"Multikey",
                    "controller":"did:web:bank.example","publicKeyMultibase":"{ED25519}"{times}}}],
                    "assertionMethod":["#a"]}}"##
            ));
            document.unwrap().authorised("did:web:bank.example#a", Purpose::AssertionMethod).map(drop)
        };
        let ended = |at: &str| {
            Err(Unauthorised::Ended { method: "did:web:bank.example#a".to_owned(), at: at.parse().unwrap() })
        };
        assert_eq!(may(""), Ok(()));
        assert_eq!(may(r#","expires":"2027-01-01T12:00:01Z""#), Ok(()));
        assert_eq!(may(r#","revoked":"2027-01-01T13:00:01+01:00""#), Ok(()));
        assert_eq!(may(r#","expires":"2027-01-01T12:00:00Z""#), ended("2027-01-01T12:00:00Z"));
        assert_eq!(may(r#","revoked":"2027-01-01T12:59:59+01:00""#), ended("2027-01-01T11:59:59Z"));
        assert_eq!(
            may(r#","expires":"2027-01-01T11:00:00Z","revoked":"2026-01-01T00:00:00Z""#),
            ended("2026-01-01T00:00:00Z")
        );
        // What is not a time may have come.
        for times in [r#","expires":null"#, r#","revoked":true"#, r#","expires":1893456000"#, r#","revoked":"2030""#] {
            assert!(matches!(may(times), Err(Unauthorised::Unknown(_))), "{times}");
        }
    }

    #[test]
    fn what_is_not_read_may_hold_any_json() {
        let document = parse(&format!(
            r##"{{"id":"did:web:bank.example","version":3,"limits":[1.5e400,-0,{{"a\t":"\u0000"}}],
                "verificationMethod":[{{"id":"#a","type":"JsonWebKey","controller":"did:web:bank.example","weight":1,
                    "publicKeyMultibase":"{ED25519}"}}],
                "service":[{{"id":"#s","type":"Bank","priority":0,"serviceEndpoint":"https://bank.example"}}],
                "assertionMethod":["#a"]}}"##
        ));
        assert!(document.unwrap().authorised("did:web:bank.example#a", Purpose::AssertionMethod).is_ok());
        // Where a text is read, a number is none.
        let numbered = r##"{"id":"did:web:bank.example","verificationMethod":[{"id":"#a","type":"Multikey",
            "controller":"did:web:bank.example","publicKeyMultibase":6}],"assertionMethod":["#a"]}"##;
        let refused = parse(numbered).unwrap().authorised("did:web:bank.example#a", Purpose::AssertionMethod).map(drop);
        assert!(matches!(refused, Err(Unauthorised::Unknown(_))));
        assert!(matches!(parse(r#"{"id":7}"#), Err(Error::Document { .. })));
        assert!(matches!(parse(r#"{"id":"did:web:bank.example","x":{"a":1,"a":1}}"#), Err(Error::Document { .. })));
    }

    #[test]
    fn keys_count_for_the_purposes_that_name_them() {
        let document = parse(&format!(
            r##"{{"@context":["https://www.w3.org/ns/did/v1"],"id":"did:web:bank.example",
                "verificationMethod":[
                  {{"id":"#a","type":"Multikey","controller":"did:web:bank.example","publicKeyMultibase":"{ED25519}"}},
                  {{"id":"did:web:bank.example#b","type":"JsonWebKey2020","controller":"did:web:bank.example",
                    "publicKeyJwk":{{"kty":"EC","crv":"secp256k1","x":"cmbYyDC6cbm807_OmFNYP4CLEL0aB2F1UG683SxFkXM",
                    "y":"zBw5HAh0cJM4YimSQvtYM1HFhzUXVUgrDhxJ70aajt0"}}}},
                  {{"id":"#rsa","type":"JsonWebKey2020","controller":"did:web:bank.example",
                    "publicKeyJwk":{{"kty":"RSA","n":"sbX8","e":"AQAB"}}}},
                  {{"id":"#lent","type":"Multikey","controller":"did:web:other.example","publicKeyMultibase":"{ED25519}"}},
                  {{"id":"did:web:other.example#c","type":"Multikey","controller":"did:web:bank.example",
                    "publicKeyMultibase":"{ED25519}"}}],
                "assertionMethod":["#a","#rsa","#lent","did:web:other.example#c"],
                "authentication":["did:web:bank.example#b",
                  {{"id":"#d","type":"EcdsaSecp256k1RecoveryMethod2020","controller":"did:web:bank.example",
                    "blockchainAccountId":"eip155:1:0xf3beac30c498d9e26865f34fcaa57dbb935b0d74"}}]}}"##
        ))
        .unwrap();
        let may = |id: &str, purpose| document.authorised(&format!("did:web:bank.example#{id}"), purpose);
        use Purpose::{AssertionMethod, Authentication};
        assert!(
            may("a", AssertionMethod).is_ok() && may("b", Authentication).is_ok() && may("d", Authentication).is_ok()
        );
        for (id, purpose) in [("a", Authentication), ("b", AssertionMethod), ("d", AssertionMethod)] {
            assert!(matches!(may(id, purpose), Err(Unauthorised::Purpose { .. })), "{id}");
        }
        for id in ["rsa", "lent", "c", "e"] {
            assert!(matches!(may(id, AssertionMethod), Err(Unauthorised::Unknown(_))), "{id}");
        }
        let foreign = document.authorised("did:web:other.example#c", AssertionMethod);
        assert!(matches!(foreign, Err(Unauthorised::Foreign { .. })));
    }

    #[test]
    fn documents_of_others_and_ambiguous_ones_are_refused() {
        assert!(parse(r#"{"id":"did:web:bank.example"}"#).is_ok());
        let method = format!(
            r##"{{"id":"#a","type":"Multikey","controller":"did:web:bank.example","publicKeyMultibase":"{ED25519}"}}"##
        );
        for bad in [
            "[]".to_owned(),
            r#"{"id":"did:web:bank.example:x"}"#.to_owned(),
            r#"{"id":"did:web:bank.example","id":"did:web:bank.example"}"#.to_owned(),
            r#"{"id":"did:web:bank.example","assertionMethod":"x"}"#.to_owned(),
            format!(r#"{{"id":"did:web:bank.example","verificationMethod":[{method},{method}]}}"#),
        ] {
            assert!(matches!(parse(&bad), Err(Error::Document { .. })), "{bad}");
        }
    }
}
