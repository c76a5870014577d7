//! Every target over its committed corpus, over what once failed, and over inputs that are made of both by a seed.

mod sources;

use std::io;

use fuzz::{
    TARGETS, Target, corpus,
    mutation::{Mutations, grown},
    named, within_bounds,
};

/// Inputs that are made for each target.
const MADE: usize = 300;
/// Of which they are made.
const SEED: u64 = 7;
/// Bytes of a text that is too long for what it stands for, and how many of them each target is given.
const LONG: usize = 48 * 1024;
const GROWN: usize = 40;

fn run(target: &Target) -> io::Result<()> {
    let mut inputs = corpus::read("corpus", target)?;
    assert!(!inputs.is_empty(), "{} has no corpus", target.name);
    inputs.extend(corpus::read("crashes", target)?);
    for (name, bytes) in &inputs {
        eprintln!("{name}");
        within_bounds(target.run, bytes);
    }
    // Of different inputs, so that each of their members comes about.
    let long = inputs.iter().step_by(inputs.len().div_ceil(4)).flat_map(|(_, bytes)| grown(bytes, LONG, GROWN / 4));
    long.for_each(|bytes| within_bounds(target.run, &bytes));
    let inputs: Vec<Vec<u8>> = inputs.into_iter().map(|(_, bytes)| bytes).collect();
    for (number, bytes) in Mutations::new(&inputs, target.bytes_max, SEED).take(MADE).enumerate() {
        let caught = std::panic::catch_unwind(|| within_bounds(target.run, &bytes));
        assert!(caught.is_ok(), "input {number} of {}: {}", target.name, bytes.escape_ascii());
    }
    Ok(())
}

macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() -> io::Result<()> {
                run(named(stringify!($name)).unwrap())
            }
        )*

        #[test]
        fn every_target_is_run() {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

tests! {
    caip,
    ids,
    dids,
    did_documents,
    amounts_and_times,
    event_codec,
    quotes,
    quote_canonical,
    json,
    documents,
    canonical_form,
    data_integrity,
    envelopes,
    requests,
    detached_signatures,
    settler_messages,
    gateway_messages,
    verifier_messages,
    message_signatures,
    payment_requests,
    quote_requests,
    x402_calls,
    evm_signatures,
    evm_typed_data,
    evm_logs,
    prepared_transactions,
    solana_instructions,
    solana_accounts,
    solana_attestations,
    solana_authorizations,
    solana_purchases,
    tron_transactions,
    tron_addresses,
    tron_authorizations,
    tron_typed_data,
    flat_commits,
    records,
    segments,
    nats_servers,
    evm_nodes,
    solana_nodes,
    tron_nodes,
    configurations,
    keystores,
    export_lines,
    exports,
    copies,
}
