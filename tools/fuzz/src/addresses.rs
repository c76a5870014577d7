//! Identifiers in texts: DIDs, chains, assets and accounts after CAIP, hashes and ids.

use std::{fmt::Display, str::FromStr};

use chrono::{DateTime, Utc};
use events::{Account, AssetId, ChainId, Did, Hash32, OwnedAsset, PaymentId, QuoteRequestId, StreamId, selection};
use proofs::{
    did::{self, DidDocument, Purpose},
    key::Key,
};

use crate::input::{FAMILIES, head, text};

/// What was read and is written is read as the same, and what is written is what is written of that.
fn stable<T: FromStr<Err: Display> + Display + PartialEq + std::fmt::Debug>(text: &str) -> Option<T> {
    match text.parse::<T>() {
        Ok(read) => {
            let written = read.to_string();
            let again = written.parse::<T>();
            assert!(again.as_ref().is_ok_and(|again| *again == read), "{text:?} is {written:?}, which is not the same");
            Some(read)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty(), "{text:?} is refused without a reason");
            None
        }
    }
}

/// CAIP-2, CAIP-10 and CAIP-19: one value has one text, whatever text it came in.
pub fn caip(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Some(chain) = stable::<ChainId>(text) {
        assert!(!chain.token().contains([':', '.', '*', '>', ' ']), "{chain} is no token of a subject");
        assert!(chain.evm_id().is_none() || chain == ChainId::evm(chain.evm_id().unwrap_or_default()), "{chain}");
    }
    if let Some(asset) = stable::<AssetId>(text) {
        // An asset with an account is what a body and a quote hold.
        for account in ["0x00000000000000000000000000000000000000aa", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"] {
            if let Ok(owned) = OwnedAsset::new(asset.clone(), account) {
                assert_eq!(Some(owned.family()), asset.chain().family(), "{asset} {account}");
            }
        }
    }
    if let Some(account) = stable::<Account>(text) {
        let bytes = account.to_bytes();
        assert_eq!(Account::from_bytes(account.family(), &bytes), Some(account.clone()), "{text:?}");
    }
    for family in FAMILIES {
        if let Ok(account) = Account::parse(family, text) {
            assert_eq!(Account::parse(family, account.as_str()).as_ref(), Ok(&account), "{text:?}");
            assert_eq!(Account::from_bytes(family, &account.to_bytes()), Some(account.clone()), "{text:?}");
            assert_eq!(account.as_str().parse().as_ref(), Ok(&account), "{text:?} is one family's alone");
        }
    }
    if let Some(set) = events::verifier_set::SetAttestation::parse(FAMILIES[text.len() % 3], text) {
        assert!(set.signatures.len() == usize::from(set.threshold) && set.members.len() >= set.signatures.len());
    }
}

/// Ids and hashes, which stand in subjects and paths.
pub fn ids(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Some(id) = stable::<PaymentId>(text) {
        assert!(id.shard(7) < 7 && protocol::is_token(id.as_str()));
    }
    if let Some(id) = stable::<QuoteRequestId>(text) {
        assert!(id.shard(7) < 7 && protocol::is_token(id.as_str()));
    }
    if let Some(id) = stable::<StreamId>(text) {
        assert!(id.payment().is_some() != id.quote_request().is_some(), "{id} is of one kind");
    }
    stable::<Hash32>(text);
    stable::<selection::SelectorKey>(text);
    if let Some(token) = protocol::split_subject(text, "bid").map(|(settler, _)| settler) {
        assert!(text.contains(token.as_str()));
    }
}

/// DIDs and DID URLs; what says its own key has a document, and each of its methods is authorised.
pub fn dids(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let read = stable::<Did>(text);
    assert_eq!(read.as_ref().map(Did::as_str), stable::<did::Did>(text).as_ref().map(did::Did::as_str), "{text:?}");
    if let Some(did) = read {
        assert!(protocol::is_token(did.token().as_str()), "{did}");
        if let Ok(key) = did.ed25519_key() {
            assert_eq!(Did::from_ed25519(&key), did, "{text:?} is one key's only DID");
        }
    }
    if let Ok(did) = text.parse::<did::Did>()
        && let Ok(document) = did.expand()
    {
        assert!(did.is_self_contained());
        if let Some(method) = did.key_verification_method() {
            assert!(document.authorised(&method, Purpose::AssertionMethod).is_ok(), "{method}");
        }
    }
    if let Ok((did, fragment)) = did::Did::of_url(text) {
        assert!(!fragment.is_empty() && text.ends_with(&format!("#{fragment}")), "{did}");
    }
    if let Ok(key) = Key::from_multibase(text) {
        assert_eq!(key.to_multibase().as_deref(), Some(text), "a key has one text");
        let did = did::Did::from_key(&key);
        assert!(did.is_some_and(|did| did.expand().is_ok()), "{text:?}");
    }
    if let Ok(location) = text.parse::<did::Did>().map_err(drop).and_then(|did| did::Location::of(&did).map_err(drop)) {
        assert!(format!("{location:?}").is_ascii());
    }
}

/// The document of a `did:web`, and the purposes of its keys. The first line is the DID.
pub fn did_documents(bytes: &[u8]) {
    let Some((did, rest)) = head(bytes) else { return };
    let (Ok(did), Some(text)) = (did.parse::<did::Did>(), text(rest)) else { return };
    match DidDocument::parse(&did, text, DateTime::<Utc>::UNIX_EPOCH) {
        Ok(document) => {
            let again = DidDocument::parse(&did, text, DateTime::<Utc>::UNIX_EPOCH);
            assert_eq!(again.as_ref(), Ok(&document));
            for fragment in ["#a", "#b", "#key-1"] {
                for purpose in [Purpose::AssertionMethod, Purpose::Authentication] {
                    if let Ok(method) = document.authorised(&format!("{did}{fragment}"), purpose) {
                        assert!(method.id.starts_with(did.as_str()), "{}", method.id);
                    }
                }
            }
        }
        Err(error) => assert!(error.to_string().contains(did.as_str()), "{error} names {did}"),
    }
}
