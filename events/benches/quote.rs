//! Quote benchmark: reading, hashing and verifying one that was never seen, one that was, and making one.
//!
//! `cargo bench -p events --bench quote` prints the median and the 99th percentile of each; nothing is asserted.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use ed25519_dalek::SigningKey;
use events::{
    ChainId, Did, Hash32, OwnedAsset,
    quote::{self, Quote, SignedQuote},
    time::from_unix_seconds,
};

const RUNS: usize = 2_000;

fn measure<T>(name: &str, items: &[T], mut work: impl FnMut(&T)) {
    let mut times: Vec<Duration> = items
        .iter()
        .map(|item| {
            let started = Instant::now();
            work(item);
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    let (median, high) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("{name:<40} median {median:>10.1?}  p99 {high:>10.1?}");
}

fn main() {
    let key = SigningKey::from_bytes(&[7; 32]);
    let account = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
    let destination = OwnedAsset::new("eip155:10/slip44:60".parse().expect("an asset"), account);
    let time = |seconds| from_unix_seconds(seconds).expect("a time");
    let quote = Quote {
        kind: Quote::kind(),
        auction_id: String::new(),
        terms_hash: Hash32([1; 32]),
        settler: Did::from_ed25519(&key.verifying_key()),
        source_chain: ChainId::evm(1),
        source_amount: "25250000".parse().expect("an amount"),
        payout_account: account.parse().unwrap(),
        escrow_contract: account.parse().unwrap(),
        destination: destination.expect("an account"),
        fulfillment_amount: "25000000".parse().expect("an amount"),
        delivery_account: account.parse().unwrap(),
        fulfillment_proxy: account.parse().unwrap(),
        fulfill_by: time(1_798_805_100),
        valid_until: time(1_798_804_860),
    };
    // Every document is another, so that none was verified before.
    let numbers: Vec<usize> = (0..RUNS).collect();
    let mut documents = Vec::with_capacity(RUNS);
    measure("making a quote (with its own check)", &numbers, |number| {
        let quote = Quote { auction_id: format!("pay_{number}"), ..quote.clone() };
        let signed = quote.sign(&key, time(1_798_804_800)).expect("a quote that can be signed");
        documents.push(format!("{} ", signed.document()));
    });
    measure("hashing", &documents, |document| {
        black_box(quote::canonical(document).expect("a document").sha256());
    });
    measure("reading, hashing and verifying, new", &documents, |document| {
        black_box(SignedQuote::parse(document).expect("a quote"));
    });
    let last = vec![documents.pop().expect("a document"); RUNS];
    measure("reading, hashing and verifying, again", &last, |document| {
        black_box(SignedQuote::parse(document).expect("a quote"));
    });
}
