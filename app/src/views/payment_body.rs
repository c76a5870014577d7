//! A payment as JSON: PaymentResponse (spec 2.6) and the status read (spec 2.11), made from the view by pure functions.

use chrono::SecondsFormat;
use events::{
    Amount, AssetId, ChainId, Failure, PaymentId,
    event::Claim,
    failure::{BlockchainContext, Domain, RetryClassification},
    time::Timestamp,
};
use projections::{AwardedQuote, Confirmation, DeclineCount, PaymentStatus, PaymentView, Transaction};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Code, docs_url};

/// Body of `POST /v1/payments`.
#[derive(Debug, Serialize)]
pub struct PaymentResponse {
    payment_id: PaymentId,
    status: &'static str,
    idempotent_replay: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    transactions: Option<TransactionsBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quote_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fulfillment_quote: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fulfillment_confirmation: Option<ConfirmationBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureBody>,
}

/// Body of `GET /v1/payments/{id}/status`.
#[derive(Debug, Serialize)]
pub struct StatusBody {
    payment_id: PaymentId,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    transactions: Option<TransactionsBody>,
    updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    quote_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fulfillment_quote: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fulfillment_confirmation: Option<ConfirmationBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureBody>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    claims: Vec<ClaimBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decline_summary: Option<Vec<DeclineBody>>,
}

/// Money that the escrow's token would not hand over when the escrow ended, and that waits there for its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClaimBody {
    pub owner: String,
    asset: AssetId,
    pub amount: Amount,
    chain_id: ChainId,
    pub escrow_contract: String,
    /// The call of the escrow that brings it to its owner, which anyone can make.
    pub call: String,
}

impl ClaimBody {
    /// What was left in the payment's escrow.
    pub fn all(view: &PaymentView) -> Vec<Self> {
        let asset = view.source.asset();
        let claim = |claim: &Claim| Self {
            owner: claim.owner.clone(),
            asset: asset.clone(),
            amount: claim.amount,
            chain_id: asset.chain().clone(),
            escrow_contract: view.escrow_contract.clone(),
            call: format!("claimFor({}, {})", claim.owner, asset.reference()),
        };
        view.claims.iter().map(claim).collect()
    }
}

/// PaymentTransactions (spec 2.7).
#[derive(Debug, Serialize)]
pub struct TransactionsBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    deposit: Option<TransactionBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fulfillment: Option<TransactionBody>,
}

/// PaymentTransaction (spec 2.7).
#[derive(Debug, Clone, Serialize)]
pub struct TransactionBody {
    pub transaction_hash: String,
    pub chain_id: ChainId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_number: Option<u64>,
}

/// FulfillmentConfirmation (spec 2.8).
#[derive(Debug, Serialize)]
pub struct ConfirmationBody {
    payment_id: PaymentId,
    request_id: String,
    source_chain_id: ChainId,
    destination_chain_id: ChainId,
    source_tx_hash: String,
    destination_tx_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fulfillment_timestamp: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_block_number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination_block_number: Option<u64>,
}

/// PaymentFailure (spec 2.9).
#[derive(Debug, Serialize)]
pub struct FailureBody {
    code: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<Domain>,
    docs_url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_classification: Option<RetryClassification>,
    request_id_reusable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    blockchain_context: Option<BlockchainContextBody>,
}

/// PaymentBlockchainContext (spec 2.9).
#[derive(Debug, Serialize)]
struct BlockchainContextBody {
    chain_id: ChainId,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    contract_address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revert_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gas_used: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_gas_needed: Option<String>,
}

/// DeclineSummary (spec 2.11).
#[derive(Debug, Serialize)]
pub struct DeclineBody {
    reason: String,
    count: u64,
    /// Absent for a reason the table of codes does not know: a settler's own code says nothing about retrying.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_classification: Option<RetryClassification>,
    docs_url: String,
}

impl PaymentResponse {
    /// The response for a payment that this request created, or found (`idempotent_replay`).
    pub fn new(view: PaymentView, idempotent_replay: bool, base_url: &str) -> Self {
        let completed = view.status == PaymentStatus::Completed;
        let quote = view.quote.as_ref().filter(|_| completed);
        Self {
            payment_id: view.payment_id.clone(),
            status: view.status.as_str(),
            idempotent_replay,
            transactions: transactions(&view),
            quote_id: quote.map(|quote| quote.quote_id.clone()),
            fulfillment_quote: quote.and_then(document),
            fulfillment_confirmation: confirmation(&view),
            error: failure(&view, base_url),
        }
    }
}

impl StatusBody {
    /// The status read of a payment.
    pub fn new(view: PaymentView, base_url: &str) -> Self {
        Self {
            payment_id: view.payment_id.clone(),
            status: view.status.as_str(),
            transactions: transactions(&view),
            updated_at: date_time(view.updated_at),
            quote_id: view.quote.as_ref().map(|quote| quote.quote_id.clone()),
            fulfillment_quote: view.quote.as_ref().and_then(document),
            fulfillment_confirmation: confirmation(&view),
            error: failure(&view, base_url),
            claims: ClaimBody::all(&view),
            requested_count: view.requested_count,
            decline_summary: view.declines.as_deref().map(|declines| DeclineBody::summary(declines, base_url)),
        }
    }
}

impl DeclineBody {
    /// The declines of an auction.
    pub fn summary(declines: &[DeclineCount], base_url: &str) -> Vec<Self> {
        let decline = |decline: &DeclineCount| Self {
            reason: decline.reason.clone(),
            count: decline.count,
            retry_classification: Code::find(&decline.reason).map(|code| code.retry_classification),
            docs_url: docs_url(base_url, &decline.reason),
        };
        declines.iter().map(decline).collect()
    }
}

/// The stages that have a transaction. On a final status the object is there even when it has none (spec 2.7: present
/// on every outcome).
pub fn transactions(view: &PaymentView) -> Option<TransactionsBody> {
    let body = |transaction: &Transaction| TransactionBody {
        transaction_hash: transaction.transaction_hash.clone(),
        chain_id: transaction.chain_id.clone(),
        block_number: transaction.block_number,
    };
    let (deposit, fulfillment) = (view.deposit.as_ref().map(body), view.fulfillment.as_ref().map(body));
    let known = deposit.is_some() || fulfillment.is_some() || view.status.is_final();
    known.then_some(TransactionsBody { deposit, fulfillment })
}

fn document(quote: &AwardedQuote) -> Option<Box<RawValue>> {
    signed_document(&quote.document)
}

/// The signed quote as the bytes that came; absent when what is stored is no JSON object.
pub fn signed_document(document: &str) -> Option<Box<RawValue>> {
    let raw = RawValue::from_string(document.to_owned()).ok()?;
    raw.get().trim_start().starts_with('{').then_some(raw)
}

/// The receipt; present exactly when the payment is completed.
pub fn confirmation(view: &PaymentView) -> Option<ConfirmationBody> {
    let Confirmation { source, destination, fulfillment_timestamp } = view.confirmation()?;
    Some(ConfirmationBody {
        payment_id: view.payment_id.clone(),
        request_id: view.request_id.clone(),
        source_chain_id: source.chain_id.clone(),
        destination_chain_id: destination.chain_id.clone(),
        source_tx_hash: source.transaction_hash.clone(),
        destination_tx_hash: destination.transaction_hash.clone(),
        fulfillment_timestamp: fulfillment_timestamp.map(date_time),
        source_block_number: source.block_number,
        destination_block_number: destination.block_number,
    })
}

/// Why the payment failed, when it did.
pub fn failure(view: &PaymentView, base_url: &str) -> Option<FailureBody> {
    let failure = view.failure.clone().filter(|_| view.status == PaymentStatus::Failed)?;
    Some(FailureBody::new(failure, base_url))
}

impl FailureBody {
    /// The failure as the payer sees it.
    pub fn new(failure: Failure, base_url: &str) -> Self {
        let Failure { code, message, domain, retry_classification, blockchain_context } = failure;
        let entry = Code::find(&code);
        Self {
            docs_url: docs_url(base_url, &code),
            domain: domain.or(entry.map(|entry| entry.domain)),
            retry_classification: retry_classification.or(entry.map(|entry| entry.retry_classification)),
            // The payment exists, so its id is spent (idempotency rule 8).
            request_id_reusable: false,
            blockchain_context: blockchain_context.map(BlockchainContextBody::from),
            code,
            message,
        }
    }
}

impl From<BlockchainContext> for BlockchainContextBody {
    fn from(context: BlockchainContext) -> Self {
        let BlockchainContext {
            chain_id,
            transaction_hash,
            block_number,
            contract_address,
            revert_reason,
            gas_used,
            estimated_gas_needed,
        } = context;
        Self {
            chain_id,
            transaction_hash,
            block_number,
            contract_address,
            revert_reason,
            gas_used,
            estimated_gas_needed,
        }
    }
}

/// A time as responses write it.
pub fn date_time(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}
