//! Mandates, as a gateway prepares them.

use serde::Deserialize;
use serde_json::Value;

use events::{Account, event::Mandate};

use super::UnsignedMessage;
use crate::verifiers::FulfillmentVerifier;

/// What to sign for a mandate, as the gateway says it. Nothing of it is believed either.
#[derive(Debug, Clone, Deserialize)]
pub struct PreparedMandate {
    /// The scheme of the payments under it.
    pub message_scheme: String,
    /// The mandate.
    pub mandate: Mandate,
    /// The address that commits to it.
    pub address: Account,
    /// The contract that keeps mandates.
    pub contract: Account,
    /// The message: an allowance at Permit2 for that address.
    pub permit: UnsignedMessage,
    /// Who may attest the deliveries.
    #[serde(default)]
    pub fulfillment_verifier: Option<FulfillmentVerifier>,
    /// What gives Permit2 the allowance that is missing: for people to read.
    #[serde(default)]
    pub approval: Option<Value>,
}
