//! The table of targets.

use crate::{addresses, answers, bodies, bus, evm, files, signed, solana, store, tron, vocabulary};

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, also that of its folder in `corpus/`.
    pub name: &'static str,
    /// The module of this crate that it is in.
    pub module: &'static str,
    /// Runs it on one input; it panics where a property does not hold.
    pub run: fn(&[u8]),
    /// Most bytes of an input that an engine makes.
    pub bytes_max: usize,
    /// Folders of the repository whose change asks for it.
    pub folders: &'static [&'static str],
}

macro_rules! targets {
    ($($name:ident = $module:ident::$run:ident, $bytes_max:literal, [$($folder:literal),*];)*) => {
        /// All targets.
        pub const TARGETS: &[Target] = &[$(
            Target {
                name: stringify!($name),
                module: stringify!($module),
                run: $module::$run,
                bytes_max: $bytes_max,
                folders: &[$($folder),*],
            },
        )*];
    };
}

targets! {
    caip = addresses::caip, 512, ["events"];
    ids = addresses::ids, 512, ["events", "protocol"];
    dids = addresses::dids, 512, ["events", "proofs"];
    did_documents = addresses::did_documents, 4096, ["proofs"];
    amounts_and_times = vocabulary::amounts_and_times, 128, ["events", "app"];
    event_codec = vocabulary::event_codec, 8192, ["events"];
    quotes = vocabulary::quotes, 8192, ["events", "proofs"];
    quote_canonical = vocabulary::quote_canonical, 8192, ["events", "proofs"];
    json = vocabulary::json, 4096, ["events"];
    documents = signed::documents, 4096, ["proofs"];
    canonical_form = signed::canonical_form, 4096, ["proofs"];
    data_integrity = signed::data_integrity, 8192, ["proofs"];
    envelopes = signed::envelopes, 8192, ["proofs"];
    requests = signed::requests, 8192, ["identity", "proofs"];
    detached_signatures = signed::detached_signatures, 1024, ["proofs"];
    settler_messages = bus::settler_messages, 8192, ["protocol", "events"];
    gateway_messages = bus::gateway_messages, 8192, ["protocol", "events"];
    verifier_messages = bus::verifier_messages, 4096, ["protocol", "events"];
    message_signatures = bus::message_signatures, 2048, ["protocol"];
    payment_requests = bodies::payment_requests, 8192, ["app", "events", "config"];
    quote_requests = bodies::quote_requests, 8192, ["app", "events", "config"];
    x402_calls = bodies::x402_calls, 8192, ["app", "events"];
    evm_signatures = evm::signatures, 2048, ["chains/escrow-abi"];
    evm_typed_data = evm::typed_data, 8192, ["chains/evm", "chains/escrow-abi"];
    evm_logs = evm::logs, 4096, ["chains/evm", "chains/escrow-abi"];
    prepared_transactions = evm::prepared, 4096, ["chains"];
    solana_instructions = solana::instructions, 1024, ["contracts/solana"];
    solana_accounts = solana::accounts, 1024, ["contracts/solana"];
    solana_attestations = solana::attestations, 1024, ["contracts/solana"];
    solana_authorizations = solana::authorizations, 4096, ["chains/solana"];
    solana_purchases = solana::purchases, 1300, ["chains/solana"];
    tron_transactions = tron::transactions, 2048, ["chains/tron"];
    tron_addresses = tron::addresses, 256, ["chains/tron"];
    tron_authorizations = tron::authorizations, 8192, ["chains/tron", "chains/escrow-abi"];
    tron_typed_data = tron::typed_data, 8192, ["chains/tron", "chains/escrow-abi"];
    flat_commits = store::flat_commits, 8192, ["journal", "events"];
    records = store::records, 4096, ["journal"];
    segments = store::segments, 4096, ["journal", "events"];
    nats_servers = answers::of_nats_servers, 4096, ["journal/jetstream"];
    evm_nodes = answers::of_evm_nodes, 8192, ["chains/evm", "chains/escrow-abi", "chains/src"];
    solana_nodes = answers::of_solana_nodes, 8192, ["chains/solana", "chains/src"];
    tron_nodes = answers::of_tron_nodes, 8192, ["chains/tron", "chains/escrow-abi", "chains/src"];
    configurations = files::configurations, 16384, ["config", "chains", "net"];
    keystores = files::keystores, 2048, ["config"];
    export_lines = files::export_lines, 8192, ["audit", "journal"];
    exports = files::exports, 8192, ["audit"];
    copies = files::copies, 8192, ["backup", "audit"];
}

/// The target of this name.
pub fn named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
