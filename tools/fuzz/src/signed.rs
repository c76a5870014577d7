//! What is signed with Data Integrity proofs: documents, proofs, credentials, envelopes, keys.

use app::request::{body::JsonBody, envelope::prove};
use chrono::{DateTime, Utc};
use events::Hash32;
use identity::Identities;
use proofs::{
    canonical,
    contexts::Contexts,
    credential::Trust,
    did::{self, DidDocument, NoWeb, Purpose, Web},
    envelope,
    json::{self, Document},
    key::Key,
    suites::{self, Secured},
};
use serde_json::Value;
use std::{
    future::Future,
    pin::pin,
    sync::LazyLock,
    task::{Context, Poll, Waker},
};

use crate::input::text;

/// A time at which the committed examples hold.
fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap_or_default()
}

/// What a future gives that waits for nobody, as those do that ask no site.
pub fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

fn trust() -> Trust<'static> {
    Trust { contexts: Contexts::bundled(), web: Web { origins: &[], resolver: &NoWeb }, now: now() }
}

/// JSON that may be signed: read alike by the reader of JSON-LD and by that of everything else, and again as it is written.
pub fn documents(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    match Document::parse(text) {
        Ok(document) => {
            let read: Option<Value> = serde_json::from_str(text).ok();
            assert_eq!(read.as_ref().and_then(Value::as_object), Some(document.members()), "two readers differ");
            assert_eq!(Document::parse(&document.to_string()).as_ref(), Ok(&document));
            assert_eq!(
                json::parse_unsigned(text).as_ref(),
                Ok(document.members()),
                "what may be signed may be unsigned"
            );
            for pointer in ["/proof", "/a/b", "/~0/~1", "", "/"] {
                let without = document.without(pointer);
                assert!(pointer.is_empty() || without.pointer(pointer).is_none(), "{pointer} is still there");
            }
        }
        // What is refused names its place and rule.
        Err(error) => assert!(error.to_string().starts_with(if error.pointer.is_empty() { "document" } else { "/" })),
    }
}

/// The canonical form of any document under the bundled contexts: one for every spelling.
pub fn canonical_form(bytes: &[u8]) {
    let Some(document) = text(bytes).and_then(|text| Document::parse(text).ok()) else { return };
    let form = canonical::canonicalize(&document, Contexts::bundled());
    let respelled = Document::parse(&format!("{:#}", Value::Object(document.members().clone())));
    if let Ok(respelled) = respelled {
        assert_eq!(canonical::canonicalize(&respelled, Contexts::bundled()), form, "another spelling");
    }
    if let Ok(form) = form {
        assert!(form.as_str().lines().is_sorted() && !form.as_str().is_empty());
        assert_eq!(form.sha256(), Hash32::sha256(form.as_str()).0);
    }
}

/// Proofs of every suite over a document, in whatever form they stand in it.
pub fn data_integrity(bytes: &[u8]) {
    let Some(document) = text(bytes).and_then(|text| Document::parse(text).ok()) else { return };
    let Ok(all) = Secured::all(&document) else { return };
    assert!(!all.is_empty() && all.len() <= suites::PROOFS_MAX);
    for secured in all {
        let Ok(signer) = secured.proof().signer() else { continue };
        let Some(Ok(signer)) = at_once(did::resolve(&signer, trust().web, now())) else { continue };
        for purpose in [Purpose::AssertionMethod, Purpose::Authentication] {
            if secured.verify(&signer, purpose, now(), Contexts::bundled()).is_ok() {
                assert_eq!(secured.proof().proof_purpose, purpose.as_str());
                assert!(!holds_for_another(&document, &signer, purpose), "it holds for another document");
            }
        }
    }
}

/// Whether a proof of this document holds when the document has another id.
fn holds_for_another(document: &Document, signer: &DidDocument, purpose: Purpose) -> bool {
    let mut members = document.members().clone();
    members.insert("id".to_owned(), Value::String("urn:uuid:6f1d7a6c-0000-4000-8000-000000000000".to_owned()));
    let Ok(another) = Document::from_members(members) else { return false };
    if another == *document {
        return false;
    }
    let all = Secured::all(&another).unwrap_or_default();
    all.iter().any(|secured| secured.verify(signer, purpose, now(), Contexts::bundled()).is_ok())
}

/// Requests in an envelope with credentials, as the edge verifies them.
pub fn envelopes(bytes: &[u8]) {
    let Some(document) = text(bytes).and_then(|text| Document::parse(text).ok()) else { return };
    let Some(verified) = at_once(envelope::verify(&document, trust())) else { panic!("it waits for nobody") };
    match verified {
        Ok(holder) => {
            let signer = at_once(envelope::verify_holder(&document, trust()));
            assert_eq!(signer, Some(Ok(holder.did.clone())), "who signed is who holds");
            assert!(envelope::is_enveloped(&document));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The proofs of a whole request, in an envelope and in the older members beside it.
pub fn requests(bytes: &[u8]) {
    static IDENTITIES: LazyLock<Identities> = LazyLock::new(Identities::default);
    static RUNTIME: LazyLock<Option<tokio::runtime::Runtime>> =
        LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_time().build().ok());
    let Some(runtime) = RUNTIME.as_ref() else { panic!("there is no runtime") };
    let Ok(body) = JsonBody::parse(bytes.to_vec()) else { return };
    match runtime.block_on(prove(&body, &IDENTITIES, "https://gw.example", now())) {
        Ok(proven) => {
            assert_eq!(proven.originator().is_some(), !proven.holders().is_empty(), "who is proven is the originator");
            assert_eq!(proven.identities().len(), proven.holders().len());
        }
        Err(error) => {
            // No site is asked, so nothing is unknown.
            assert!(error.status().is_client_error() && !error.message().is_empty(), "{error:?}");
        }
    }
}

/// Signatures over texts as wallets make them, and keys as JWK. The first line is the key, the second the signature.
pub fn detached_signatures(bytes: &[u8]) {
    let Some((key, rest)) = crate::input::head(bytes) else { return };
    let Some((signature, signed)) = crate::input::head(rest) else { return };
    let Some(signed) = text(signed) else { return };
    let key = match serde_json::from_str::<Value>(key) {
        Ok(Value::Object(jwk)) => Key::from_jwk(&jwk).ok(),
        _ => Key::from_multibase(key).ok().or_else(|| {
            let account: events::Account = key.parse().ok()?;
            let bytes = account.to_bytes();
            match account.family() {
                events::Family::Evm => Some(Key::Address(bytes.try_into().ok()?)),
                events::Family::Tron => Some(Key::TronAddress(bytes.try_into().ok()?)),
                events::Family::Solana => Key::from_ed25519(&bytes).ok(),
            }
        }),
    };
    let Some(key) = key else { return };
    if suites::verify_text(&key, signed, signature).is_ok() {
        assert!(suites::verify_text(&key, &format!("{signed}."), signature).is_err(), "a signature is over one text");
    }
}
