//! Trust settings of a gateway: verifiers, contracts, selectors, counterparties, issuers.

use std::path::PathBuf;

use serde::Deserialize;

use events::{Account, selection::SelectorKey};

use crate::ContractRef;

/// A fulfillment verifier (spec 2.1).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifierEndpoint {
    /// The account that signs its attestations.
    pub account: Account,
    /// The origin it is reached at, `http(s)://host[:port]` without a path.
    pub endpoint: String,
}

/// `[trust]`: what a request may name instead of the defaults. All empty unless configured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrustConfig {
    /// Escrow contracts.
    pub escrow_contracts: Vec<ContractRef>,
    /// Fulfillment proxies.
    pub fulfillment_proxies: Vec<ContractRef>,
    /// Fulfillment verifiers.
    pub verifiers: Vec<VerifierEndpoint>,
    /// Origins of verifiers that are asked about payments that name them already, and that no new payment may name: those of a
    /// verifier or set that was replaced, until its last payment is at rest. Each `http(s)://host[:port]` without a path.
    pub verifier_origins: Vec<String>,
    /// Quote selectors, by address or public key.
    pub selectors: Vec<SelectorKey>,
    /// Longest time a quote selector has after the quote deadline, in milliseconds. A payment without its choice by then
    /// fails, before any money moves.
    pub selector_ms_max: u64,
}

impl Default for TrustConfig {
    fn default() -> Self {
        Self {
            escrow_contracts: Vec::new(),
            fulfillment_proxies: Vec::new(),
            verifiers: Vec::new(),
            verifier_origins: Vec::new(),
            selectors: Vec::new(),
            selector_ms_max: 5_000,
        }
    }
}

/// `[counterparty]`: whose payments are wanted (spec 5.5). Everyone's, unless a file is named. Both files are read again
/// when they change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CounterpartyConfig {
    /// Cedar policies over `app/src/admission/policy/schema.cedarschema`; what none of them permits is declined.
    pub policy_file: Option<PathBuf>,
    /// Accounts and DIDs that are declined whatever the policies say, one a line.
    pub deny_list: Option<PathBuf>,
}

/// `[identity]`: what is needed to check proofs and credentials, besides what comes with the gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdentityConfig {
    /// Origins whose `did:web` documents are asked for, `https://host[:port]`.
    pub did_web_origins: Vec<String>,
    /// JSON-LD contexts that requests and credentials may name.
    pub contexts: Vec<ContextConfig>,
}

/// A JSON-LD context of the operator's.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextConfig {
    /// The URL that documents name it by. It is never fetched.
    pub url: String,
    /// The file that holds it.
    pub file: PathBuf,
}
