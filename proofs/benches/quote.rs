//! The cost of a quote: reading, hashing and verifying it, and giving up on a poison graph.
//!
//! `cargo bench -p proofs` prints the median and the 99th percentile of each; nothing is asserted about them.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

#[path = "../tests/support/mod.rs"]
#[allow(dead_code, reason = "a bench needs a part of what the tests share")]
mod support;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use proofs::{
    canonical::{Quad, Term, canonicalize, canonicalize_dataset},
    contexts::{Contexts, QUOTE},
    did::{Did, Purpose},
    json::Document,
    suites::{Options, Secured, SigningKey, Suite, sign},
};

fn measure(name: &str, runs: usize, mut work: impl FnMut()) {
    work();
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("{name:<32} median {:>10.1?}  p99 {:>10.1?}", times[runs / 2], times[runs * 99 / 100]);
}

fn main() {
    let contexts = Contexts::bundled();
    let key = SigningKey::Ed25519(ed25519_dalek::SigningKey::from_bytes(&[7; 32]));
    let settler = Did::from_key(&key.public()).expect("an Ed25519 key has a did:key");
    let quote = support::quote(&settler);
    let now = "2027-01-01T12:00:00Z".parse().expect("a time");
    let options = Options {
        verification_method: settler.key_verification_method().expect("a did:key has one"),
        purpose: Purpose::AssertionMethod,
        created: now,
        expires: None,
    };
    let unsigned = Document::parse(&quote.to_string()).expect("a document");
    let text = sign(&unsigned, Suite::EddsaRdfc2022, &key, &options, contexts).expect("signs").to_string();

    measure("parse", 2_000, || drop(black_box(Document::parse(&text))));
    measure("hash", 2_000, || drop(black_box(canonicalize(&unsigned, contexts).map(|nquads| nquads.sha256()))));
    let verify = |text: &str| {
        let document = Document::parse(text).expect("a document");
        let secured = Secured::of(&document).expect("a proof");
        let signer = secured.proof().signer().map(|did| did.expand().expect("a did:key"));
        let verified = secured.verify(&signer.expect("a DID"), Purpose::AssertionMethod, now, contexts);
        black_box(verified.expect("verifies"));
    };
    measure("parse, hash and verify", 2_000, || verify(&text));
    // Other contexts than a quote's own are not laid out in advance.
    let mut other = quote.clone();
    other["@context"] = serde_json::json!([QUOTE[0], QUOTE[1], "https://w3id.org/security/multikey/v1"]);
    let other = Document::parse(&other.to_string()).expect("a document");
    let other = sign(&other, Suite::EddsaRdfc2022, &key, &options, contexts).expect("signs").to_string();
    measure("the same under a third context", 2_000, || verify(&other));
    measure("sign", 2_000, || drop(black_box(sign(&unsigned, Suite::EddsaRdfc2022, &key, &options, contexts))));

    let node = |index: usize| Term::Blank(format!("n{index}"));
    let clique: Vec<Quad> = (0..45)
        .flat_map(|a| (0..45).filter(move |b| *b != a).map(move |b| (a, b)))
        .map(|(a, b)| Quad { subject: node(a), predicate: "urn:p".to_owned(), object: node(b), graph: None })
        .collect();
    measure("give up on the largest clique", 20, || drop(black_box(canonicalize_dataset(&clique))));
    let stars: Vec<Quad> = (0..1_000)
        .flat_map(|leaf| [(0, 2 + leaf), (1, 1_002 + leaf)])
        .map(|(a, b)| Quad { subject: node(a), predicate: "urn:p".to_owned(), object: node(b), graph: None })
        .collect();
    measure("give up on the largest stars", 20, || drop(black_box(canonicalize_dataset(&stars))));
}
