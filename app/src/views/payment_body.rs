//! A payment as JSON: PaymentResponse (spec 2.6) and the status read (spec 2.11), made from the view by pure functions.

use chrono::SecondsFormat;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use events::{
    Amount, AssetId, ChainId, Failure, Family, PaymentId,
    event::Claim,
    failure::{BlockchainContext, Domain, RetryClassification},
    time::Timestamp,
};
use projections::{AwardedQuote, Confirmation, DeclineCount, PaymentStatus, PaymentView, Transaction};

use super::{deposit_address_body::DepositAddressBody, heads::ChainHeads};
use crate::{
    error::{Code, docs_url},
    schema,
};

/// A payment as a submission is answered. `quote_id`, `fulfillment_quote` and `fulfillment_confirmation` are there once it is
/// `completed`.
// Body of `POST /v1/payments` (spec 2.6).
#[derive(Debug, Serialize, JsonSchema)]
pub struct PaymentResponse {
    /// Tracking id of the payment.
    payment_id: PaymentId,
    #[schemars(with = "schema::StatusName")]
    status: &'static str,
    /// `true`: the payment that was there before is returned. `false`: this request created it.
    idempotent_replay: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    transactions: Option<TransactionsBody>,
    /// The awarded quote.
    #[serde(skip_serializing_if = "Option::is_none")]
    quote_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::fulfillment_quote")]
    fulfillment_quote: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fulfillment_confirmation: Option<ConfirmationBody>,
    /// Only when `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureBody>,
    /// Where the money is to be sent, of a payment that nobody signed for.
    #[serde(skip_serializing_if = "Option::is_none")]
    deposit_address: Option<DepositAddressBody>,
}

/// A payment as it stands. `quote_id` and `fulfillment_quote` are there once a quote is awarded.
// Body of `GET /v1/payments/{id}/status` (spec 2.11).
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PaymentStatusRead")]
pub struct StatusBody {
    /// Tracking id of the payment.
    payment_id: PaymentId,
    #[schemars(with = "schema::StatusName")]
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    transactions: Option<TransactionsBody>,
    /// Last status update.
    #[schemars(with = "Timestamp")]
    updated_at: String,
    /// The awarded quote.
    #[serde(skip_serializing_if = "Option::is_none")]
    quote_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::fulfillment_quote")]
    fulfillment_quote: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fulfillment_confirmation: Option<ConfirmationBody>,
    /// Only when `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureBody>,
    /// Where the money is to be sent, of a payment that nobody signed for.
    #[serde(skip_serializing_if = "Option::is_none")]
    deposit_address: Option<DepositAddressBody>,
    /// What the token would not hand over when the escrow was released or refunded. It waits in the escrow. As of that moment:
    /// whether it was claimed since, `claimable(owner, token)` of the escrow tells. Absent when all was paid out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    claims: Vec<ClaimBody>,
    /// Settlers the auction was broadcast to; the last auction, where another followed a settler that did not deliver. Absent
    /// means unknown, never zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_count: Option<u64>,
    /// Why the payment drew few or no quotes. Empty means none declined. Absent means unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    decline_summary: Option<Vec<DeclineBody>>,
}

/// Money of a payment that waits in its escrow for its owner.
// The escrow's token would not hand it over when the escrow ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "PaymentClaim")]
pub struct ClaimBody {
    /// Account that is owed: the settler's payout account, or the payer.
    pub owner: String,
    /// What is owed, CAIP-19: the payment's source asset.
    asset: AssetId,
    /// How much, smallest unit, decimal.
    #[schemars(with = "String")]
    pub amount: Amount,
    /// Chain of the escrow.
    chain_id: ChainId,
    /// The escrow that holds it.
    pub escrow_contract: String,
    /// The call of the escrow that brings it to its owner, by anyone: `claimFor(owner, token)`. The owner itself takes it to
    /// any account by `claim(token, to)`. On Solana the instruction `return_remainder`, which brings the payer what a release left.
    pub call: String,
}

impl ClaimBody {
    /// What was left in the payment's escrow.
    pub fn all(view: &PaymentView) -> Vec<Self> {
        let asset = view.source.asset();
        let claim = |claim: &Claim| Self {
            owner: claim.owner.to_string(),
            asset: asset.clone(),
            amount: claim.amount,
            chain_id: asset.chain().clone(),
            escrow_contract: view.escrow_contract.clone(),
            call: match claim.owner.family() {
                Family::Solana => "return_remainder".to_owned(),
                Family::Evm | Family::Tron => format!("claimFor({}, {})", claim.owner, asset.reference()),
            },
        };
        view.claims.iter().map(claim).collect()
    }
}

/// The transactions that are known, each as it becomes known.
// Spec 2.7.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PaymentTransactions")]
pub struct TransactionsBody {
    /// Commits the payer's funds on the source chain. On Tron it is the payer's own transaction, from when it is sent; from a deposit
    /// address it is the gateway's, which reserves, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    deposit: Option<TransactionBody>,
    /// On Tron: reserves the deposit for the settler. On other chains, and from a deposit address, the deposit does.
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation: Option<TransactionBody>,
    /// Reserves the escrow for another settler, in the place of one that did not deliver by the time that it promised; the last
    /// one where there are more. Absent where no settler failed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    reassignment: Option<TransactionBody>,
    /// Pays the recipient on the destination chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    fulfillment: Option<TransactionBody>,
}

impl TransactionsBody {
    /// The same with how many confirmations there are of what is not settled.
    fn confirmed_by(mut self, heads: &dyn ChainHeads) -> Self {
        // A reassignment is shown in no block before it is settled.
        for transaction in [&mut self.deposit, &mut self.reservation, &mut self.fulfillment].into_iter().flatten() {
            if let (Some(false), Some(block)) = (transaction.settled, transaction.block_number) {
                // A head that lags behind the block says nothing.
                let above = heads.head(&transaction.chain_id).and_then(|head| head.checked_sub(block));
                transaction.confirmations = above.map(|above| above + 1);
            }
        }
        self
    }
}

/// A transaction on a chain.
// Spec 2.7.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "PaymentTransaction")]
pub struct TransactionBody {
    /// Hex hashes carry the 0x prefix, on Tron too.
    #[schemars(regex(pattern = schema::TRANSACTION_HASH_PATTERN))]
    pub transaction_hash: String,
    /// CAIP-2 id.
    pub chain_id: ChainId,
    /// Absent until mined; provisional until `settled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_number: Option<u64>,
    /// Beside a `block_number`: whether the block has the depth that its chain requires, so that the transaction stays there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled: Option<bool>,
    /// While not settled, in the status read: the blocks (slots on Solana) from the transaction's own to the newest that this
    /// gateway has seen, both counted. Absent means unknown, never zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmations: Option<u64>,
}

/// The receipt of a completed payment.
// Spec 2.8.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FulfillmentConfirmation")]
pub struct ConfirmationBody {
    /// Tracking id of the payment.
    payment_id: PaymentId,
    /// The payer's idempotency key.
    request_id: String,
    /// CAIP-2 id.
    source_chain_id: ChainId,
    /// CAIP-2 id.
    destination_chain_id: ChainId,
    /// The deposit into the escrow; on Tron the payer's own transaction, or the gateway's from a deposit address.
    #[schemars(regex(pattern = schema::TRANSACTION_HASH_PATTERN))]
    source_tx_hash: String,
    /// The delivery.
    #[schemars(regex(pattern = schema::TRANSACTION_HASH_PATTERN))]
    destination_tx_hash: String,
    /// Time of the delivery's block.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    fulfillment_timestamp: Option<String>,
    /// Block of the deposit.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_block_number: Option<u64>,
    /// Block of the delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    destination_block_number: Option<u64>,
}

/// Why a payment failed; the same however the payment is read.
// Spec 2.9, which promises no more than these two.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PaymentFailure", extend("required" = ["code", "message"]))]
pub struct FailureBody {
    /// Stable identity of the reason: branch on it, not on `message`.
    #[schemars(
        regex(pattern = schema::CODE_PATTERN),
        extend("examples" = Code::inside_payments(|domain| domain != Domain::SettlerAgent))
    )]
    code: String,
    /// For humans; may be reworded.
    message: String,
    /// Service domain in which the error arose.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::domain")]
    domain: Option<Domain>,
    /// Page that describes the code.
    #[schemars(url)]
    docs_url: String,
    /// What to do next. Absent means unclassified.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::retry_classification")]
    retry_classification: Option<RetryClassification>,
    /// Whether the same `request_id` may be sent again. Absent is read as false.
    request_id_reusable: bool,
    /// Only where a transaction of the payment reached a chain and failed there, or did not last.
    #[serde(skip_serializing_if = "Option::is_none")]
    blockchain_context: Option<BlockchainContextBody>,
}

/// Where on a chain a failure happened.
// Spec 2.9, which promises no member.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PaymentBlockchainContext", extend("required" = []))]
struct BlockchainContextBody {
    /// CAIP-2 id.
    chain_id: ChainId,
    /// The transaction that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = schema::TRANSACTION_HASH_PATTERN))]
    transaction_hash: Option<String>,
    /// Its block.
    #[serde(skip_serializing_if = "Option::is_none")]
    block_number: Option<u64>,
    /// The contract that refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = schema::CONTRACT_PATTERN))]
    contract_address: Option<String>,
    /// The decoded reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    revert_reason: Option<String>,
    /// Gas, energy or compute units used, decimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    gas_used: Option<String>,
    /// What the transaction would have needed, decimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_gas_needed: Option<String>,
}

/// How many settlers declined for one reason, each counted once under its most recent one.
// Spec 2.11, which promises no more than these two.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeclineSummary", extend("required" = ["reason", "count"]))]
pub struct DeclineBody {
    /// Reason code, such as `INSUFFICIENT_LIQUIDITY`. Settlers may have their own.
    #[schemars(extend("examples" = Code::inside_payments(|domain| domain == Domain::SettlerAgent)))]
    reason: String,
    /// Number of settlers.
    count: u64,
    /// Absent for a reason that the gateway does not know.
    // A settler's own code says nothing about retrying.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::retry_classification")]
    retry_classification: Option<RetryClassification>,
    /// Page that describes the code.
    #[schemars(url)]
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
            deposit_address: DepositAddressBody::of(&view),
        }
    }
}

impl StatusBody {
    /// The status read of a payment.
    pub fn new(view: PaymentView, heads: &dyn ChainHeads, base_url: &str) -> Self {
        Self {
            payment_id: view.payment_id.clone(),
            status: view.status.as_str(),
            transactions: transactions(&view).map(|transactions| transactions.confirmed_by(heads)),
            updated_at: date_time(view.updated_at),
            quote_id: view.quote.as_ref().map(|quote| quote.quote_id.clone()),
            fulfillment_quote: view.quote.as_ref().and_then(document),
            fulfillment_confirmation: confirmation(&view),
            error: failure(&view, base_url),
            deposit_address: DepositAddressBody::of(&view),
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
    let body = |transaction: &Transaction, settled: bool| TransactionBody {
        transaction_hash: transaction.transaction_hash.clone(),
        chain_id: transaction.chain_id.clone(),
        block_number: transaction.block_number,
        settled: transaction.block_number.map(|_| settled),
        confirmations: None,
    };
    let deposit = view.deposit.as_ref().map(|deposit| body(deposit, view.deposit_settled()));
    let reservation = view.reservation.as_ref().map(|reservation| body(reservation, view.deposit_settled()));
    let reassignment = view.reassignment.as_ref().map(|reassignment| body(reassignment, true));
    let delivered = view.status == PaymentStatus::Completed;
    let fulfillment = view.fulfillment.as_ref().map(|fulfillment| body(fulfillment, delivered));
    let known = deposit.is_some() || fulfillment.is_some() || view.status.is_final();
    known.then_some(TransactionsBody { deposit, reservation, reassignment, fulfillment })
}

fn document(quote: &AwardedQuote) -> Option<Box<RawValue>> {
    signed_document(&quote.document)
}

/// The signed quote as the bytes that came; absent when what is stored is not a JSON object.
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
        // What was refused before anything was sent did not happen on chain (spec 2.9); why it was is told all the same.
        let (on_chain, refused) = match blockchain_context {
            Some(context) if context.transaction_hash.is_some() => (Some(context), None),
            context => (None, context.and_then(|context| context.revert_reason)),
        };
        let message = refused.map_or(message.clone(), |reason| format!("{message} ({reason})"));
        Self {
            docs_url: docs_url(base_url, &code),
            domain: domain.or(entry.map(|entry| entry.domain)),
            retry_classification: retry_classification.or(entry.map(|entry| entry.retry_classification)),
            // The payment exists, so its id is spent (idempotency rule 8).
            request_id_reusable: false,
            blockchain_context: on_chain.map(BlockchainContextBody::from),
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
