//! Failure reasons of a payment, as they are stored and shown.

use serde::{Deserialize, Serialize};

use crate::ChainId;

/// The service domain a failure arose in (spec 2.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Domain {
    /// This gateway.
    PaymentGateway,
    /// The settlers' side of the auction.
    SettlerGateway,
    /// One settler.
    SettlerAgent,
    /// The payer's wallet or signing.
    WalletOrchestration,
    /// The fulfillment verifier.
    VerificationService,
    /// A chain.
    Blockchain,
    /// Any other service.
    ExternalService,
}

/// What the caller should do next (spec 7.2, design: HTTP).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RetryClassification {
    /// The same request may succeed later.
    RetryAfterDelay,
    /// A new request, under a new `request_id`, may succeed.
    RetryWithNewRequestId,
    /// The request itself is wrong.
    NotRetryableFixRequest,
    /// Nothing the caller changes will help.
    NotRetryable,
    /// Find out what happened before doing anything.
    ReconcileThenDecide,
}

/// Where on a chain a failure happened (spec 2.9, `PaymentBlockchainContext`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockchainContext {
    /// The chain.
    pub chain_id: ChainId,
    /// The transaction that failed; absent when it failed before it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction_hash: Option<String>,
    /// Block (slot on Solana) of that transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_number: Option<u64>,
    /// The contract or program that refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_address: Option<String>,
    /// The decoded reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert_reason: Option<String>,
    /// Gas, energy or compute units used, decimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gas_used: Option<String>,
    /// What the transaction would have needed, decimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_gas_needed: Option<String>,
}

/// The reason of a payment's failure (spec 2.9, `PaymentFailure` without its `docs_url`, which depends on the address
/// the service is reached at).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable SCREAMING_SNAKE_CASE identity of the reason.
    pub code: String,
    /// For humans; may be reworded.
    pub message: String,
    /// Where the failure arose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Domain>,
    /// What the caller should do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_classification: Option<RetryClassification>,
    /// Only for failures on chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blockchain_context: Option<BlockchainContext>,
}

impl Failure {
    /// No settler offered a usable quote before `quote_deadline`.
    pub const NO_QUOTES_RECEIVED: &'static str = "NO_QUOTES_RECEIVED";
    /// The quote selector that the payer named took none of the quotes.
    pub const NO_QUOTE_SELECTED: &'static str = "NO_QUOTE_SELECTED";
    /// The quote selector that the payer named gave no valid choice in time.
    pub const SELECTOR_UNAVAILABLE: &'static str = "SELECTOR_UNAVAILABLE";
    /// Not enough money came to the payment's deposit address in time.
    pub const DEPOSIT_NOT_RECEIVED: &'static str = "DEPOSIT_NOT_RECEIVED";
    /// The winner did not stand by its quote when it was awarded.
    pub const AWARD_REFUSED: &'static str = "AWARD_REFUSED";
    /// The winner did not answer its award in time.
    pub const AWARD_UNANSWERED: &'static str = "AWARD_UNANSWERED";
    /// The settlement could not be completed.
    pub const SETTLEMENT_FAILED: &'static str = "SETTLEMENT_FAILED";
    /// The delivery was made, but its verifier did not attest it before the refund window opened: the payer has both the
    /// delivery and, by the refund, the money. Only payments that gateways failed before
    /// [`FulfillmentFinalized`](crate::event::FulfillmentFinalized) have this reason; since then such a payment is completed.
    pub const DELIVERED_NOT_ATTESTED: &'static str = "DELIVERED_NOT_ATTESTED";
}
